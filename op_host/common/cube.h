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
inline constexpr int64_t kFloatBytes = 4;
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

// Rates of a cube core for the comparison of tiles: cycles of a DMA and of each of its rows; bytes per cycle from L2 to
// L1, from L1 to L0A and L0B, and of first transfers from and to global memory.
inline constexpr int64_t kDmaCycles = 64;
inline constexpr int64_t kRowCycles = 2;
inline constexpr int64_t kL2Rate = 110;
inline constexpr int64_t kL0aRate = 512;
inline constexpr int64_t kL0bRate = 256;
inline constexpr int64_t kFirstRate = 32;
inline constexpr int64_t kFlagCycles = 20;

/// Returns the cycles of one DMA of `rows` rows of `rowBytes` inside longer rows.
constexpr int64_t LoadCycles(int64_t rows, int64_t rowBytes)
{
    return kDmaCycles + kRowCycles * rows + SaturatingMul(rows, RoundUp(rowBytes, kGmSectorBytes)) / kL2Rate;
}

/// Returns the cycles of the first store of `rows` rows of `rowBytes`.
constexpr int64_t StoreCycles(int64_t rows, int64_t rowBytes)
{
    const int64_t sharedBytes =
        rowBytes % kGmSectorBytes == 0 ? 0 : kGmSectorBytes;  // sectors shared with neighboring stores
    return kDmaCycles + rows * (kRowCycles + rowBytes / kFirstRate + sharedBytes / kL2Rate);
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
