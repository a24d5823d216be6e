// Mmad: the accesses of the cube unit, and their order with other instructions.
#include <algorithm>
#include <cstring>

#include "opforge_twin/arithmetic.h"
#include "kernel/exec/block.h"
#include "kernel/exec/levels.h"
#include "kernel/cube/fractal.h"
#include "kernel/cube/product.h"
#include "kernel/timing/time_model.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kBiasAlignment = 64;
constexpr int64_t kRowBytes = 32;         // of a fractal of L0A and L0B
constexpr double kInt8Speed = 2.0;        // relative to half: a fractal has twice as many elements
constexpr double kInt4Speed = 4.0;        // the same assumption
constexpr int64_t kOrderedFractals = 10;  // a Mmad with this number of fractals waits for the sums of the previous one

void RequireUnit(Block& block, const LocalView& view, LocalUnit::Id id, const char* position, const char* operand,
                 const Call& call)
{
    const LocalUnit& unit = block.checks.UnitOf(view, Pipe::kCube, operand, call);
    if (unit.id != id) {
        block.Fail("position", Pipe::kCube, call,
                   Text(operand, " is in ", unit.name, ", expected TPosition::", position));
    }
}

double PeakOf(const Block& block, Dtype dtype)
{
    return dtype == Dtype::kInt4       ? kInt4Speed * time_model::kCubeMacsPerCycleFp16
           : dtype == Dtype::kInt8     ? kInt8Speed * time_model::kCubeMacsPerCycleFp16
           : dtype == Dtype::kFloat16  ? time_model::kCubeMacsPerCycleFp16
           : dtype == Dtype::kBfloat16 ? time_model::kCubeMacsPerCycleBf16
           : block.registers.hf32.isOn ? time_model::kCubeMacsPerCycleHf32
                                       : time_model::kCubeMacsPerCycleFp32;
}

/// A factor in fractals: `rows` rows of k, in fractals of 16 rows and 32 bytes of k.
struct Factor {
    const LocalView& view;
    int64_t rows;
    int64_t kBytes;
    int64_t rowStride;     ///< from fractal to fractal, downwards
    int64_t columnStride;  ///< and to the right
    bool mayEnd;           ///< rows at the end may be undefined
    const char* name;

    int64_t AddressOf(int64_t row, int64_t column) const
    {
        return view.address + row / kFractalRows * rowStride + column * columnStride + row % kFractalRows * kRowBytes;
    }
};

/// Rows up to the last written row: m may include padding, whose sums are undefined.
int64_t DefinedRows(const Block& block, const Factor& factor)
{
    int64_t rows = factor.rows;
    const auto isDefined = [&](int64_t row) {
        for (int64_t column = 0; column < CeilDiv(factor.kBytes, kRowBytes); ++column) {
            if (block.local.HasWritten(factor.AddressOf(row, column), kRowBytes)) {
                return true;
            }
        }
        return false;
    };
    while (rows > 1 && !isDefined(rows - 1)) {
        --rows;
    }
    return rows;
}

/// The cube unit skips rows and k beyond the real sizes. All other elements must be written, except rows at the end of
/// the left factor. Returns the number of defined rows.
int64_t ReadFactor(Block& block, const Factor& factor, const Call& call)
{
    const int64_t rowFractals = CeilDiv(factor.rows, kFractalRows);
    const int64_t columns = CeilDiv(factor.kBytes, kRowBytes);
    const int64_t begin = factor.view.address;
    const int64_t bytes = (rowFractals - 1) * factor.rowStride + (columns - 1) * factor.columnStride + kFractalBytes;
    block.checks.Use(factor.view, bytes, Pipe::kCube, AccessKind::kRead, kFractalBytes, factor.name, call);
    block.checks.TouchOrder({Pipe::kCube, Memory::kOnChip, AccessKind::kRead, begin, bytes, factor.name, call});
    if (block.local.FirstUnwritten(begin, bytes) < 0) {
        return factor.rows;
    }
    const int64_t rows = factor.mayEnd ? DefinedRows(block, factor) : factor.rows;
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
            block.checks.TouchContents({Pipe::kCube, Memory::kOnChip, AccessKind::kRead, factor.AddressOf(row, column),
                                        std::min(kRowBytes, factor.kBytes - column * kRowBytes), factor.name, call});
        }
    }
    return rows;
}

/// With one row, the left factor is a plain vector.
void ReadVector(Block& block, const LocalView& view, int64_t kBytes, const Call& call)
{
    block.checks.Use(view, kBytes, Pipe::kCube, AccessKind::kRead, kFractalBytes, "fm", call);
    block.checks.Touch({Pipe::kCube, Memory::kOnChip, AccessKind::kRead, view.address, kBytes, "fm", call});
}

/// Reads the bias of each column. Returns the undefined columns if the level accepts them: their sums are undefined.
std::vector<int64_t> ReadBias(Block& block, const LocalView& bias, int64_t bytes, const Call& call)
{
    const Access access{Pipe::kCube, Memory::kOnChip, AccessKind::kRead, bias.address, bytes, "bias", call};
    std::vector<int64_t> undefined;
    if (kUndefinedLanes.Has(block.launch.options.level)) {
        block.checks.Touch(access);
        return undefined;
    }
    block.checks.TouchOrder(access);
    constexpr auto size = static_cast<int64_t>(sizeof(float));
    for (int64_t column = 0; column < bytes / size; ++column) {
        if (block.local.FirstUnwritten(bias.address + column * size, size) >= 0) {
            undefined.push_back(column);
        }
    }
    return undefined;
}

/// Reads the initial sums of a Mmad and writes the results; the padding of fractals is undefined.
class Sums {
public:
    Sums(Block& block, const LocalView& view, const Product& product, int64_t definedRows, const Call& call)
        : block_(block),
          call_(call),
          begin_(view.address),
          definedRows_(definedRows),
          n_(product.n),
          columnBytes_(RoundUp(product.m, kFractalRows) * kSumRowBytes),
          columns_(CeilDiv(product.n, kFractalRows))
    {
        block.checks.Use(view, Bytes(), Pipe::kCube, AccessKind::kWrite, kSumFractalBytes, "dst", call);
    }

    int64_t Bytes() const { return columns_ * columnBytes_; }
    float* Data() { return reinterpret_cast<float*>(block_.local.At(begin_)); }

    void Order(bool isRead)
    {
        if (isRead) {
            block_.checks.TouchOrder({Pipe::kCube, Memory::kOnChip, AccessKind::kRead, begin_, Bytes(), "dst", call_});
        }
        block_.checks.TouchOrder({Pipe::kCube, Memory::kOnChip, AccessKind::kWrite, begin_, Bytes(), "dst", call_});
    }

    void CheckStart()
    {
        ForRows([&](int64_t at, int64_t bytes) {
            block_.checks.TouchContents({Pipe::kCube, Memory::kOnChip, AccessKind::kRead, at, bytes, "dst", call_});
        });
    }

    /// Starts all rows from 16 floats of each column of fractals.
    void StartFrom(const float* first)
    {
        const auto row = static_cast<size_t>(kSumRowBytes);
        for (int64_t column = 0; column < columns_; ++column) {
            for (int64_t at = 0; at < columnBytes_; at += kSumRowBytes) {
                std::memcpy(block_.local.At(begin_ + column * columnBytes_ + at), first + column * kFractalRows, row);
            }
        }
    }

    void StartFromZero() { std::memset(block_.local.At(begin_), 0, static_cast<size_t>(Bytes())); }

    void MarkResult(const std::vector<int64_t>& undefinedColumns)
    {
        ForRows([&](int64_t at, int64_t bytes) { block_.local.MarkWritten(at, bytes); });
        PoisonPadding();
        const Origin origin{call_, "computed it from undefined bytes of bias"};
        constexpr auto size = static_cast<int64_t>(sizeof(float));
        for (const int64_t column : undefinedColumns) {
            const int64_t at = begin_ + column / kFractalRows * columnBytes_ + column % kFractalRows * size;
            for (int64_t row = 0; row < definedRows_; ++row) {
                block_.local.Poison(at + row * kSumRowBytes, size, origin);
            }
        }
    }

private:
    /// The defined part of the tile as dense segments.
    template <typename Do>
    void ForRows(const Do& act)
    {
        for (int64_t column = 0; column < columns_; ++column) {
            const int64_t at = begin_ + column * columnBytes_;
            const int64_t width = std::min(kFractalRows, n_ - column * kFractalRows);
            if (width == kFractalRows) {
                act(at, definedRows_ * kSumRowBytes);
                continue;
            }
            for (int64_t row = 0; row < definedRows_; ++row) {
                act(at + row * kSumRowBytes, width * static_cast<int64_t>(sizeof(float)));
            }
        }
    }

    void PoisonPadding()
    {
        const Origin padding{call_, "left it undefined, as padding of the tile"};
        for (int64_t column = 0; column < columns_; ++column) {
            const int64_t at = begin_ + column * columnBytes_;
            block_.local.Poison(at + definedRows_ * kSumRowBytes, columnBytes_ - definedRows_ * kSumRowBytes, padding);
            const int64_t width =
                std::min(kFractalRows, n_ - column * kFractalRows) * static_cast<int64_t>(sizeof(float));
            for (int64_t row = 0; row < definedRows_ && width < kSumRowBytes; ++row) {
                block_.local.Poison(at + row * kSumRowBytes + width, kSumRowBytes - width, padding);
            }
        }
    }

    Block& block_;
    const Call& call_;
    int64_t begin_;
    int64_t definedRows_;
    int64_t n_;
    int64_t columnBytes_;
    int64_t columns_;
};

/// A product would wait forever for a tile that no Fixpipe with the flag has stored.
void PassUnitFlag(Block& block, const LocalView& dst, int64_t bytes, const Product& product, const Call& call)
{
    const auto known = block.ordering.Tiles().find(dst.address);
    const bool wasFlagged = known != block.ordering.Tiles().end();
    if (wasFlagged && known->second.flag == kUnitFlagLast) {
        block.Fail("unit_flag", Pipe::kCube, call,
                   Text("the tile had its last product (unitFlag 3) at ", Where(known->second.at),
                        " and no Fixpipe with unitFlag 3 has stored it: the cube unit would hang; set "
                        "unitFlag 2 on all products but the last"));
    }
    if (product.unitFlag == kUnitFlagOff) {
        if (wasFlagged && known->second.flag == kUnitFlagMore) {
            block.Fail("unit_flag", Pipe::kCube, call,
                       Text("the product before it on this tile, at ", Where(known->second.at),
                            ", had unitFlag 2; use 2 for the next products and 3 for the last one"));
        }
        return;
    }
    if (product.unitFlag != kUnitFlagMore && product.unitFlag != kUnitFlagLast) {
        block.Fail("unit_flag", Pipe::kCube, call, Text("unitFlag is ", product.unitFlag, ", expected 0, 2 or 3"));
    }
    if (wasFlagged && known->second.flag == kUnitFlagOff) {
        // A Fixpipe with the flag has read the tile: the cube unit waits for it without another flag.
        block.checks.ForgetOrder(dst.address, bytes);
        block.timeline.Wait(Pipe::kCube, known->second.done);
    }
    block.ordering.Tiles()[dst.address] = {bytes, product.unitFlag, {}, {}, call.at};
}

/// The indices beside a sparse factor, which LoadDataWithSparse has loaded.
const uint8_t* IndicesOf(Block& block, const LocalView& filter, int64_t fractals, const Call& call)
{
    const int64_t first =
        (filter.address - block.checks.UnitOf(filter, Pipe::kCube, "filter", call).begin) / kFractalBytes;
    for (int64_t fractal = first; fractal < first + fractals; ++fractal) {
        if (block.registers.sparseIndices.empty() || !block.registers.hasSparseIndices[static_cast<size_t>(fractal)]) {
            block.Fail("sparse_indices", Pipe::kCube, call,
                       Text("fractal ", fractal - first, " of filter has no indices; load it with LoadDataWithSparse"));
        }
    }
    return block.registers.sparseIndices.data() + first * kIndexBytes;
}

}  // namespace

void Multiply(const LocalView& dst, const LocalView& a, const LocalView& b, const LocalView* bias,
              const Product& product, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    RequireUnit(*block, dst, LocalUnit::Id::kL0C, "CO1", "dst", call);
    RequireUnit(*block, a, LocalUnit::Id::kL0A, "A2", "fm", call);
    RequireUnit(*block, b, LocalUnit::Id::kL0B, "B2", "filter", call);
    if (product.m == 0 || product.n == 0 || product.k == 0) {
        block->Warn("no_effect", Pipe::kCube, call, "m, n or k is 0: the instruction does nothing");
        return;
    }
    const int64_t perByte = a.dtype == Dtype::kInt4 ? 2 : 1;
    const int64_t kBytes = CeilDiv(product.k * a.size, perByte);
    const int64_t kFractals = RoundUp(kBytes, product.hasWideK && a.size == 4 ? 2 * kRowBytes : kRowBytes) / kRowBytes;
    const int64_t columns = CeilDiv(product.n, kFractalRows);
    const int64_t rightBytes = product.isSparse ? kBytes / 2 : kBytes;
    int64_t definedRows = 1;
    if (product.m == 1) {
        ReadVector(*block, a, kBytes, call);
    } else {
        definedRows =
            ReadFactor(*block, {a, product.m, kBytes, kFractals * kFractalBytes, kFractalBytes, true, "fm"}, call);
    }
    ReadFactor(*block, {b, product.n, rightBytes, kFractalBytes, columns * kFractalBytes, false, "filter"}, call);
    Sums sums(*block, dst, product, definedRows, call);
    PassUnitFlag(*block, dst, sums.Bytes(), product, call);
    if (CeilDiv(product.m, kFractalRows) * columns >= kOrderedFractals) {
        block->ordering.OrderOwn(Pipe::kCube);
    }
    const bool accumulates = !product.startsAtZero && bias == nullptr;
    std::vector<int64_t> undefinedColumns;
    sums.Order(accumulates);
    if (accumulates) {
        sums.CheckStart();
    } else if (bias == nullptr) {
        sums.StartFromZero();
    } else {
        RequireUnit(*block, *bias, LocalUnit::Id::kBias, "C2", "bias", call);
        const int64_t bytes = product.n * static_cast<int64_t>(sizeof(float));
        block->checks.Use(*bias, bytes, Pipe::kCube, AccessKind::kRead, kBiasAlignment, "bias", call);
        undefinedColumns = ReadBias(*block, *bias, bytes, call);
        std::vector<float> first(static_cast<size_t>(columns * kFractalRows));
        std::memcpy(first.data(), block->local.At(bias->address), static_cast<size_t>(bytes));
        sums.StartFrom(first.data());
    }
    const FactorRounding rounding = !block->registers.hf32.isOn       ? FactorRounding::kNone
                                    : block->registers.hf32.truncates ? FactorRounding::kHf32Truncated
                                                                      : FactorRounding::kHf32ToEven;
    if (block->launch.computes) {
        const uint8_t* indices =
            product.isSparse ? IndicesOf(*block, b, CeilDiv(rightBytes, kRowBytes) * columns, call) : nullptr;
        AddProduct({product.m, product.n, product.k, a.dtype, rounding, kFractals, product.m == 1, indices},
                   block->local.At(a.address), block->local.At(b.address), sums.Data());
    }
    sums.MarkResult(undefinedColumns);
    const double peak = PeakOf(*block, a.dtype);
    const int64_t paddedDepth = RoundUp(rightBytes, kRowBytes) * perByte / a.size;
    const int64_t padded = RoundUp(product.m, kFractalRows) * columns * kFractalRows * paddedDepth;
    block->timeline.RunCube(Pipe::kCube, time_model::kMmadIssueCycles + static_cast<double>(padded) / peak, call);
    block->accounting.CountProducts(static_cast<uint64_t>(product.m) * static_cast<uint64_t>(product.n * product.k),
                                    peak);
    if (product.unitFlag != kUnitFlagOff) {
        FlaggedTile& tile = block->ordering.Tiles()[dst.address];
        tile.done = block->timeline.FlagTime(Pipe::kCube);
        tile.multiplied = block->ordering.After(Pipe::kCube);
    }
}

void SetHf32(bool isOn, const Call& call)
{
    const Entry block(call);
    if (block->position.kind == CoreKind::kVector && !kOtherCoreBuffer.Has(block->launch.options.level)) {
        return;
    }
    block->Require(CoreKind::kCube, call);
    block->registers.hf32.isOn = isOn;
    block->registers.hf32.at = call.at;
}

void SetHf32Truncation(bool isOn, const Call& call)
{
    const Entry block(call);
    if (block->position.kind == CoreKind::kVector && !kOtherCoreBuffer.Has(block->launch.options.level)) {
        return;
    }
    block->Require(CoreKind::kCube, call);
    block->registers.hf32.truncates = isOn;
    block->registers.hf32.at = call.at;
}

void RequireCubeCore(const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
}

}  // namespace opforge::twin::kernel
