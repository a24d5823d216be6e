// Fixpipe: sums of L0C to rows of global memory.
#include <array>
#include <cstring>

#include "kernel/dma.h"
#include "kernel/fractal.h"
#include "kernel/numbers.h"
#include "kernel/time_model.h"
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
void NarrowRow(const float* from, uint8_t* to, int64_t count, bool relu)
{
    for (int64_t index = 0; index < count; ++index) {
        const float value = relu && from[index] < 0.0F ? 0.0F : from[index];
        Store<T>(to + index * static_cast<int64_t>(sizeof(T)), value);
    }
}

void NarrowRowAs(Dtype dtype, const float* from, uint8_t* to, int64_t count, bool relu)
{
    switch (dtype) {
        case Dtype::kHalf:
            return NarrowRow<half>(from, to, count, relu);
        case Dtype::kBfloat16:
            return NarrowRow<bfloat16_t>(from, to, count, relu);
        default:
            return NarrowRow<float>(from, to, count, relu);
    }
}

/// The flag replaces M_FIX: the tile must have had its last product with it.
void PassUnitFlag(Block& block, const LocalView& src, const ProductStore& store, const Call& call)
{
    const auto known = block.unitFlags.find(src.address);
    const int64_t flag = known == block.unitFlags.end() ? kUnitFlagOff : known->second.flag;
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
    block.localOrder.Forget(src.address, bytes);
    block.timeline.Wait(Pipe::kFix, known->second.done);
}

}  // namespace

void StoreProduct(const GlobalView& dst, const LocalView& src, const ProductStore& store, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    if (store.rows == 0 || store.columns == 0) {
        block->Warn("no_effect", Pipe::kFix, call, "mSize or nSize is 0: the instruction does nothing");
        return;
    }
    if (store.quantMode != ModeFor(dst.dtype)) {
        block->Fail("quant_mode", Pipe::kFix, call,
                    Text("quantPre is ", store.quantMode, ", dst needs ",
                         dst.dtype == Dtype::kHalf       ? "QuantMode_t::F322F16"
                         : dst.dtype == Dtype::kBfloat16 ? "QuantMode_t::F322BF16"
                                                         : "QuantMode_t::NoQuant",
                         "; it is not derived from the type of dst"));
    }
    const int64_t columns = CeilDiv(store.columns, kFractalRows);
    const int64_t columnBytes = store.srcStride * kSumRowBytes;
    if (columns > 1 && store.srcStride < store.rows) {
        block->Fail("field_range", Pipe::kFix, call,
                    Text("srcStride is ", store.srcStride, ", expected the rows of the tile in L0C, at least mSize ",
                         store.rows));
    }
    RequireAtomicDtype(*block, dst.dtype, Pipe::kFix, call);
    WatchAtomicMode(*block, dst, Pipe::kFix, call);
    block->Use(src, (columns - 1) * columnBytes + store.rows * kSumRowBytes, Pipe::kFix, AccessKind::kRead, kAlignment,
               "src", call);
    PassUnitFlag(*block, src, store, call);
    for (int64_t column = 0; column < columns; ++column) {
        const int64_t at = src.address + column * columnBytes;
        const int64_t width = std::min(kFractalRows, store.columns - column * kFractalRows);
        block->NoteUse({Pipe::kFix, Memory::kOnChip, AccessKind::kRead, at, store.rows * kSumRowBytes, "src", call});
        for (int64_t row = 0; row < store.rows; ++row) {
            block->CheckContents({Pipe::kFix, Memory::kOnChip, AccessKind::kRead, at + row * kSumRowBytes,
                                  width * static_cast<int64_t>(sizeof(float)), "src", call});
        }
    }
    const int64_t rowBytes = store.columns * dst.size;
    std::vector<float> sums(static_cast<size_t>(columns * kFractalRows));
    std::vector<uint8_t> line(static_cast<size_t>(rowBytes));
    for (int64_t row = 0; row < store.rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
            std::memcpy(sums.data() + column * kFractalRows,
                        block->local.At(src.address + column * columnBytes + row * kSumRowBytes),
                        static_cast<size_t>(kSumRowBytes));
        }
        NarrowRowAs(dst.dtype, sums.data(), line.data(), store.columns, store.relu);
        StoreRow(*block, dst, dst.address + static_cast<uint64_t>(row * store.dstStride * dst.size), line.data(),
                 rowBytes, Pipe::kFix, call);
    }
    const auto sumBytes = static_cast<double>(store.rows * columns * kSumRowBytes);
    block->EndDma(Pipe::kFix, call, sumBytes / time_model::kL0cOutBytesPerCycle);
    if (store.unitFlag != kUnitFlagOff) {
        FlaggedTile& tile = block->unitFlags[src.address];
        tile.flag = kUnitFlagOff;
        tile.done = block->timeline.FlagTime(Pipe::kFix);
    }
}

}  // namespace opforge::twin::kernel
