// Fixpipe: sums of L0C to global memory or L1.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "opforge_twin/arithmetic.h"
#include "kernel/dma/dma.h"
#include "kernel/cube/fractal.h"
#include "kernel/vector/numbers.h"
#include "kernel/timing/time_model.h"
#include "opforge_twin/kernel/cube_params.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kAlignment = 64;

/// The mode of quantisation that stores float sums as `dtype`.
uint32_t ModeFor(Dtype dtype)
{
    return dtype == Dtype::kHalf ? F322F16 : dtype == Dtype::kBfloat16 ? F322BF16 : NoQuant;
}

template <typename T>
void NarrowTo(const float* from, uint8_t* to, int64_t count, bool relu)
{
    for (int64_t index = 0; index < count; ++index) {
        const float value = relu && from[index] < 0.0F ? 0.0F : from[index];
        Store<T>(to + index * static_cast<int64_t>(sizeof(T)), value);
    }
}

void NarrowAs(Dtype dtype, const float* from, uint8_t* to, int64_t count, bool relu)
{
    switch (dtype) {
        case Dtype::kHalf:
            return NarrowTo<half>(from, to, count, relu);
        case Dtype::kBfloat16:
            return NarrowTo<bfloat16_t>(from, to, count, relu);
        default:
            return NarrowTo<float>(from, to, count, relu);
    }
}

/// Writes int32_t sums, or sums that a scale maps to half or int8_t.
void Quantize(const ProductStore& store, int64_t column, Dtype dtype, const float* from, uint8_t* to, int64_t count)
{
    constexpr uint32_t kScaleBits = 0xFFFFE000;  // the device has 10 bits of the mantissa
    for (int64_t index = 0; index < count; ++index) {
        int32_t integer = 0;
        std::memcpy(&integer, from + index, sizeof(integer));
        if (store.scales == nullptr) {
            integer = store.relu ? std::max(integer, 0) : integer;
            std::memcpy(to + index * 4, &integer, sizeof(integer));
            continue;
        }
        const uint64_t scale = store.scales[store.isScaledByColumn ? column + index : 0];
        const auto bits = static_cast<uint32_t>(scale) & kScaleBits;
        float factor = 0.0F;
        std::memcpy(&factor, &bits, sizeof(factor));
        float value = (store.isInteger ? static_cast<float>(integer) : from[index]) * factor;
        value = store.relu && value < 0.0F ? 0.0F : value;
        if (dtype == Dtype::kHalf) {
            Store<half>(to + index * 2, value);
            continue;
        }
        const auto offset = static_cast<int32_t>((scale >> 37 & 0x1FF) ^ 0x100) - 0x100;
        const float rounded = std::nearbyint(value) + static_cast<float>(offset);
        to[index] = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(rounded, -128.0F, 127.0F)));
    }
}

/// The flag replaces M_FIX: the tile must have had its last product with it.
void PassUnitFlag(Block& block, const LocalView& src, const ProductStore& store, const Call& call)
{
    const auto known = block.ordering.Tiles().find(src.address);
    const int64_t flag = known == block.ordering.Tiles().end() ? kUnitFlagOff : known->second.flag;
    if (store.unitFlag == kUnitFlagOff && flag == kUnitFlagOff) {
        return;
    }
    if (store.unitFlag != kUnitFlagLast || flag != kUnitFlagLast) {
        block.Fail("unit_flag", Pipe::kFix, call,
                   Text("unitFlag is ", store.unitFlag, ", that of the last Mmad of the tile ", flag,
                        "; both are 3, or both 0 with M_FIX between them"));
    }
    const int64_t bytes = CeilDiv(store.columns, kFractalRows) * RoundUp(store.rows, kFractalRows) * kSumRowBytes;
    if (bytes != known->second.bytes) {
        block.Fail(
            "unit_flag", Pipe::kFix, call,
            Text("the tile has ", known->second.bytes / kSumFractalBytes, " fractals since ", Where(known->second.at),
                 ", mSize and nSize cover ", bytes / kSumFractalBytes, "; with a unit flag both must agree"));
    }
    block.checks.ForgetOrder(src.address, bytes);
    block.timeline.Wait(Pipe::kFix, known->second.done);
}

/// The tile of L0C that an instruction reads.
class Tile {
public:
    Tile(Block& block, const LocalView& src, const ProductStore& store, const Call& call)
        : block_(block), src_(src), store_(store), columnBytes_(store.srcStride * kSumRowBytes)
    {
        if (Columns() > 1 && store.srcStride < store.rows) {
            block.Fail("field_range", Pipe::kFix, call,
                       Text("srcStride is ", store.srcStride, ", expected the rows of the tile in L0C, at least mSize ",
                            store.rows));
        }
        block.checks.Use(src, (Columns() - 1) * columnBytes_ + store.rows * kSumRowBytes, Pipe::kFix, AccessKind::kRead,
                         kAlignment, "src", call);
        PassUnitFlag(block, src, store, call);
        for (int64_t column = 0; column < Columns(); ++column) {
            const int64_t at = src.address + column * columnBytes_;
            const int64_t width = std::min(kFractalRows, store.columns - column * kFractalRows);
            block.checks.TouchOrder(
                {Pipe::kFix, Memory::kOnChip, AccessKind::kRead, at, store.rows * kSumRowBytes, "src", call});
            for (int64_t row = 0; row < store.rows; ++row) {
                block.checks.TouchContents({Pipe::kFix, Memory::kOnChip, AccessKind::kRead, at + row * kSumRowBytes,
                                            width * static_cast<int64_t>(sizeof(float)), "src", call});
            }
        }
    }

    int64_t Columns() const { return CeilDiv(store_.columns, kFractalRows); }
    const float* Row(int64_t row, int64_t column) const
    {
        const int64_t at = src_.address + column * columnBytes_ + row * kSumRowBytes;
        return reinterpret_cast<const float*>(block_.local.At(at));
    }
    /// Cycles that L0C takes to give it.
    double Cycles() const
    {
        return static_cast<double>(store_.rows * Columns() * kSumRowBytes) / time_model::kL0cOutBytesPerCycle;
    }
    /// The tile may be used again.
    void End() const
    {
        if (store_.unitFlag != kUnitFlagOff) {
            FlaggedTile& tile = block_.ordering.Tiles()[src_.address];
            tile.flag = kUnitFlagOff;
            tile.done = block_.timeline.FlagTime(Pipe::kFix);
        }
    }

private:
    Block& block_;
    const LocalView& src_;
    const ProductStore& store_;
    int64_t columnBytes_;
};

bool IsNothing(Block& block, const ProductStore& store, const Call& call)
{
    if (store.rows == 0 || store.columns == 0) {
        block.Warn("no_effect", Pipe::kFix, call, "mSize or nSize is 0: the instruction does nothing");
    }
    return store.rows == 0 || store.columns == 0;
}

void RequireMode(Block& block, Dtype dtype, const ProductStore& store, const Call& call)
{
    if (!store.isInteger && store.scales == nullptr && store.quantMode != ModeFor(dtype)) {
        block.Fail("quant_mode", Pipe::kFix, call,
                   Text("quantPre is ", store.quantMode, ", dst needs ",
                        dtype == Dtype::kHalf       ? "QuantMode_t::F322F16"
                        : dtype == Dtype::kBfloat16 ? "QuantMode_t::F322BF16"
                                                    : "QuantMode_t::NoQuant",
                        "; it is not derived from the type of dst"));
    }
}

/// A row of the matrix, or a column of fractals, as dst is to hold it.
void Narrow(const Tile& tile, const ProductStore& store, bool asRow, int64_t index, Dtype dtype, int64_t size,
            uint8_t* to)
{
    const int64_t pieces = asRow ? tile.Columns() : store.rows;
    for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t first = piece * kFractalRows;
        const float* from = asRow ? tile.Row(index, piece) : tile.Row(piece, index);
        const int64_t width = asRow ? std::min(kFractalRows, store.columns - first) : kFractalRows;
        if (store.isInteger || store.scales != nullptr) {
            Quantize(store, asRow ? first : index * kFractalRows, dtype, from, to + first * size, width);
        } else {
            NarrowAs(dtype, from, to + first * size, width, store.relu);
        }
    }
}

}  // namespace

void StoreProduct(const GlobalView& dst, const LocalView& src, const ProductStore& store, bool asRows, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    if (IsNothing(*block, store, call)) {
        return;
    }
    RequireMode(*block, dst.dtype, store, call);
    RequireAtomicDtype(*block, dst.dtype, Pipe::kFix, call);
    WatchAtomicMode(*block, dst, Pipe::kFix, call);
    const Tile tile(*block, src, store, call);
    const int64_t lines = asRows ? store.rows : tile.Columns();
    const int64_t lineBytes = (asRows ? store.columns : store.rows * kFractalRows) * dst.size;
    const int64_t pitch = store.dstStride * (asRows ? dst.size : kBlockBytes);
    std::vector<uint8_t> line(static_cast<size_t>(lineBytes));
    for (int64_t index = 0; index < lines; ++index) {
        Narrow(tile, store, asRows, index, dst.dtype, dst.size, line.data());
        StoreRow(*block, dst, dst.address + static_cast<uint64_t>(index * pitch), line.data(), lineBytes, Pipe::kFix,
                 call);
    }
    block->accounting.EndDma(Pipe::kFix, call, tile.Cycles());
    tile.End();
}

void KeepProduct(const LocalView& dst, const LocalView& src, const ProductStore& store, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    if (IsNothing(*block, store, call)) {
        return;
    }
    RequireMode(*block, dst.dtype, store, call);
    const Tile tile(*block, src, store, call);
    const int64_t columnBytes = store.rows * kBlockBytes;
    const int64_t pitch = store.dstStride * kBlockBytes;
    block->checks.Use(dst, (tile.Columns() - 1) * pitch + columnBytes, Pipe::kFix, AccessKind::kWrite, kBlockBytes,
                      "dst", call);
    for (int64_t column = 0; column < tile.Columns(); ++column) {
        const int64_t to = dst.address + column * pitch;
        block->checks.Touch({Pipe::kFix, Memory::kOnChip, AccessKind::kWrite, to, columnBytes, "dst", call});
        Narrow(tile, store, false, column, dst.dtype, dst.size, block->local.At(to));
    }
    block->timeline.RunCube(Pipe::kFix, tile.Cycles(), call);
    tile.End();
}

}  // namespace opforge::twin::kernel
