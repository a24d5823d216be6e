// Sizes and costs of matrix products on the cube cores: tiles in L1 and L0, and cycles of steps.
#ifndef OPFORGE_OP_HOST_COMMON_CUBE_H
#define OPFORGE_OP_HOST_COMMON_CUBE_H

#include <algorithm>
#include <cstdint>

#include "common/arithmetic.h"
#include "common/plan.h"

namespace opforge {
namespace cube {

inline constexpr int64_t kFractal = 16;    // rows and columns of a block of L0C
inline constexpr int64_t kUnitBytes = 32;  // bytes per row of a block of L1
// Rows of L1 after a matrix that a read of whole fractals may use if it begins inside a fractal.
inline constexpr int64_t kSlackBytes = (kFractal - 1) * kUnitBytes;
// Every cell has an event between the cube and its store; there are eight events.
inline constexpr int64_t kMaxCells = 8;
// Limits of one instruction: rows of L1, rows or columns of a product.
inline constexpr int64_t kMaxPitch = 16384;
inline constexpr int64_t kMaxExtent = 4095;

/// The dtype of the factors.
enum class Operand : int32_t { kHalf, kFloat, kHf32 };

constexpr int64_t BytesOf(Operand operand)
{
    return operand == Operand::kHalf ? 2 : kFloatBytes;
}

/// Returns the cube cycles for a product of m x k by k x n elements.
constexpr int64_t CyclesOf(Operand operand, int64_t m, int64_t n, int64_t k)
{
    const int64_t depth = operand == Operand::kHalf ? 16 : operand == Operand::kHf32 ? 8 : 4;
    return CeilDiv(m, kFractal) * CeilDiv(n, kFractal) * CeilDiv(k, depth);
}

/// Returns the L1 bytes of a matrix that is read as fractals of 32-byte rows.
constexpr int64_t BytesInL1(int64_t rows, int64_t columns, int64_t elementBytes)
{
    return SaturatingMul(RoundUp(rows, kFractal), RoundUp(columns, kFractal) * elementBytes);
}

// Rates of a cube core for the comparison of tiles, as in the time model: least cycles of a DMA, its latency with both
// flags, cycles of a request of less than kRequestBytes from L2 and from global memory; bytes per cycle from L2 to L1,
// from L1 to L0A and L0B, from and to global memory; cycles to issue a load of L0 and a product, cycles of a flag.
inline constexpr int64_t kDmaCycles = 22;
inline constexpr int64_t kLatencyCycles = 350;
inline constexpr int64_t kRequestBytes = 512;
inline constexpr int64_t kFragmentCycles = 7;
inline constexpr int64_t kFirstFragmentCycles = 2;
inline constexpr int64_t kL2Rate = 128;
inline constexpr int64_t kL0aRate = 256;
inline constexpr int64_t kL0bRate = 128;
inline constexpr int64_t kFirstRate = 32;
inline constexpr int64_t kFeedCycles = 28;
inline constexpr int64_t kProductCycles = 13;
inline constexpr int64_t kFlagCycles = 32;

/// The bytes and the requests of less than kRequestBytes of a row inside longer rows.
struct RowTraffic {
    int64_t bytes = 0;
    int64_t fragments = 0;
};

/// Returns the traffic of an average row of `rowBytes` whose distance to the next row is `pitchBytes`.
constexpr RowTraffic TrafficOf(int64_t rowBytes, int64_t pitchBytes)
{
    if (rowBytes >= pitchBytes) {
        return {rowBytes, 0};  // rows without a gap are one row
    }
    const int64_t bits = rowBytes | pitchBytes | kRequestBytes;
    const int64_t alignment = std::max(bits & -bits, kUnitBytes);
    RowTraffic row{alignment < kGmSectorBytes ? rowBytes + kGmSectorBytes : rowBytes, 0};
    for (int64_t size = alignment; size < kRequestBytes && row.fragments * alignment < rowBytes; size *= 2) {
        ++row.fragments;
    }
    return row;
}

/// Returns the cycles of one DMA of `rows` rows from L2.
constexpr int64_t LoadCycles(int64_t rows, int64_t rowBytes, int64_t pitchBytes)
{
    const RowTraffic row = TrafficOf(rowBytes, pitchBytes);
    return std::max(kDmaCycles, SaturatingMul(rows, row.bytes) / kL2Rate + rows * row.fragments * kFragmentCycles);
}

/// Returns the cycles of the first store of `rows` rows.
constexpr int64_t StoreCycles(int64_t rows, int64_t rowBytes, int64_t pitchBytes)
{
    const RowTraffic row = TrafficOf(rowBytes, pitchBytes);
    return std::max(kDmaCycles, rows * rowBytes / kFirstRate + rows * (row.bytes - rowBytes) / kL2Rate +
                                    rows * row.fragments * kFirstFragmentCycles);
}

/// Returns the additional cycles for bytes from global memory instead of L2.
constexpr int64_t FirstTouchCycles(int64_t bytes)
{
    return bytes / kFirstRate - bytes / kL2Rate;
}

/// Returns the size of equal blocks of `total`, at most `most` each, in whole fractals.
constexpr int64_t Balanced(int64_t total, int64_t most)
{
    return RoundUp(CeilDiv(std::max<int64_t>(total, 1), CeilDiv(std::max<int64_t>(total, 1), most)), kFractal);
}

}  // namespace cube
}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_CUBE_H
