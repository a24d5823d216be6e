// Sums, differences and products with a conversion; quantization with the register of SetDeqScale.
#include "opforge_twin/kernel/fused_cast.h"

#include "kernel/vector/conversion.h"
#include "kernel/vector/sweep.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::RoundMode;

constexpr int64_t kPerBlock = 16;  // int16_t
constexpr int64_t kTableBytes = kPerBlock * 8;
constexpr int64_t kAddDequantScratch = 8192;

template <BinaryOp op, typename U>
Computed<U> CombineOne(Computed<U> a, Computed<U> b)
{
    if constexpr (op == BinaryOp::kMul) {
        return Times(a, b);
    } else {
        return Larger<Computed<U>>(op == BinaryOp::kAddRelu ? Plus(a, b) : Minus(a, b), 0);
    }
}

/// Assumption: the result is rounded to the type of the sources before the conversion, which rounds to nearest even.
template <BinaryOp op, typename T, typename U>
void CastBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* /*context*/)
{
    const Conversion how{RoundMode::CAST_RINT, 1.0F};
    for (int64_t index = 0; index < count; ++index) {
        const int64_t from = index * static_cast<int64_t>(sizeof(U));
        const Computed<U> value = CombineOne<op, U>(Load<U>(operands[1] + from), Load<U>(operands[2] + from));
        Store<T>(operands[0] + index * static_cast<int64_t>(sizeof(T)), ConvertOne<T, U>(Rounded<U>(value), how));
    }
}

template <BinaryOp op>
Body ReluCastBody(Dtype src)
{
    return src == Dtype::kFloat32 ? CastBody<op, half, float>
           : src == Dtype::kInt16 ? CastBody<op, int8_t, int16_t>
                                  : CastBody<op, int8_t, half>;
}

void AddDequantBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* context)
{
    const float scale = *static_cast<const float*>(context);
    for (int64_t index = 0; index < count; ++index) {
        const int32_t sum = Plus(Load<int32_t>(operands[1] + 4 * index), Load<int32_t>(operands[2] + 4 * index));
        Store<half>(operands[0] + 2 * index, Larger(static_cast<float>(sum) * scale, 0.0F));
    }
}

void SweepPair(Block& block, const Shape& shape, const LocalView& dst, const LocalView& src0, const LocalView& src1,
               const BinaryStrides& strides, Body body, const void* context, const Call& call)
{
    Sweep(block, shape,
          {{&dst, "dst", strides.dst, false, true},
           {&src0, "src0", strides.src0, true, false},
           {&src1, "src1", strides.src1, true, false}},
          body, 0, context, false, call);
}

uint64_t DequantBits(float scale, int64_t offset, bool isSigned, const Call& call)
{
    Field("offset", offset, -256, 255, call);
    return (ScalarBits(scale) & 0xFFFFE000U) | (static_cast<uint64_t>(offset) & 0x1FFU) << kOffsetBit |
           uint64_t{isSigned} << kSignBit;
}

/// Assumption: the product and the sum are exact; one rounding to nearest even, then saturation.
uint8_t RequantizeOne(int16_t value, uint64_t bits)
{
    const double scale = FromBits<float>(bits & 0xFFFFFFFFU);
    const auto offset = static_cast<double>(OffsetOfScale(bits));
    const double rounded = RoundWhole(value * scale + offset, RoundMode::CAST_RINT);
    return (bits >> kSignBit & 1U) != 0 ? static_cast<uint8_t>(Saturate<int8_t>(rounded)) : Saturate<uint8_t>(rounded);
}

/// The bits for each of the 16 elements of a block.
std::array<uint64_t, kPerBlock> DequantTable(Block& block, bool isPerElement, const Call& call)
{
    const DequantScale& dequant = block.registers.dequant;
    std::array<uint64_t, kPerBlock> table{};
    if (isPerElement ? !dequant.table : !dequant.bits) {
        block.Fail("cast_mode", Pipe::kVector, call,
                   isPerElement ? "isVecDeq needs SetDeqScale(vdeq, vdeqInfo) before"
                                : "int16_t to one byte needs SetDeqScale(scale, offset, signMode) before");
    }
    if (!isPerElement) {
        table.fill(*dequant.bits);
        return table;
    }
    block.checks.Use(*dequant.table, kTableBytes, Pipe::kVector, AccessKind::kRead, kBlockBytes, "vdeq", call);
    Touched(block, AccessKind::kRead, dequant.table->address, kTableBytes, "vdeq", call);
    std::memcpy(table.data(), block.local.At(dequant.table->address), sizeof(table));
    return table;
}

void RequireSigns(Block& block, const std::array<uint64_t, kPerBlock>& table, bool isSigned, const Call& call)
{
    for (const uint64_t bits : table) {
        if ((bits >> kSignBit & 1U) != (isSigned ? 1U : 0U)) {
            block.Fail(
                "cast_mode", Pipe::kVector, call,
                Text("signMode of SetDeqScale is ", isSigned ? "false, but dst is int8_t" : "true, but dst is uint8_t",
                     "; int8_t needs true, uint8_t false"));
        }
    }
}

}  // namespace

void BinaryCast(BinaryOp op, const LocalView& dst, const LocalView& src0, const LocalView& src1, const Lanes& lanes,
                const BinaryStrides& strides, const Call& call)
{
    const Entry block(call);
    const Body product =
        dst.dtype == Dtype::kInt8 ? CastBody<BinaryOp::kMul, int8_t, half> : CastBody<BinaryOp::kMul, uint8_t, half>;
    const Body body = op == BinaryOp::kMul       ? product
                      : op == BinaryOp::kAddRelu ? ReluCastBody<BinaryOp::kAddRelu>(src0.dtype)
                                                 : ReluCastBody<BinaryOp::kSubRelu>(src0.dtype);
    SweepPair(*block, Resolve(*block, lanes, src0.size, call), dst, src0, src1, strides, body, nullptr, call);
}

void AddDequantRelu(const LocalView& dst, const LocalView& src0, const LocalView& src1, const Lanes& lanes,
                    const BinaryStrides& strides, const Call& call)
{
    const Entry block(call);
    if (!block->registers.dequant.scale) {
        block->Fail("cast_mode", Pipe::kVector, call, "AddDeqRelu needs SetDeqScale(half) before");
    }
    const Shape shape = Resolve(*block, lanes, src0.size, call);
    const int64_t scratch = std::min(kAddDequantScratch, shape.Repeats() * kRepeatBytes);
    const int64_t freeBytes = block->local.UnifiedBuffer().Left();
    if (freeBytes < scratch) {
        block->Fail("no_scratch", Pipe::kVector, call,
                    Text("AddDeqRelu uses the last ", scratch, " bytes of the unified buffer, ", freeBytes,
                         " are free; allocate less"));
    }
    // Assumption: this architecture computes in six instructions: Add, Cast, two Muls, Cast and Max.
    for (int before = 0; before < 5; ++before) {
        Charge(*block, shape, call);
    }
    const float scale = *block->registers.dequant.scale;
    SweepPair(*block, shape, dst, src0, src1, strides, AddDequantBody, &scale, call);
}

void Requantize(const LocalView& dst, const LocalView& src, bool isPerElement, bool isSecondHalf, const Lanes& lanes,
                const Stride& dstStride, const Stride& srcStride, const Call& call)
{
    const Entry block(call);
    const Shape shape = Resolve(*block, lanes, src.size, call);
    if (shape.contiguous ? shape.total == 0 : HasNoRepeats(*block, shape.repeats, call)) {
        return;
    }
    CheckStride(*block, {&dst, "dst", dstStride, false, true}, call);
    CheckStride(*block, {&src, "src", srcStride, true, false}, call);
    // A block of 16 results is in the place of a block of 16 sources.
    const int64_t dstBytes = CeilDiv(Extent(shape, src.size, dstStride), kBlockBytes) * kBlockBytes;
    const int64_t srcBytes = Extent(shape, src.size, srcStride);
    block->checks.Use(src, srcBytes, Pipe::kVector, AccessKind::kRead, kBlockBytes, "src", call);
    block->checks.Use(dst, dstBytes, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dst", call);
    RequireApart(*block, dst.address, dstBytes, src.address, srcBytes, "src", call);
    const auto table = DequantTable(*block, isPerElement, call);
    Charge(*block, shape, call);
    if (!block->launch.computes) {
        return;
    }
    RequireSigns(*block, table, dst.dtype == Dtype::kInt8, call);
    for (int64_t repeat = 0; repeat < shape.Repeats(); ++repeat) {
        for (int64_t lane = 0; lane < shape.Count(repeat); ++lane) {
            const int64_t element = shape.active.empty() ? lane : shape.active[static_cast<size_t>(lane)];
            const int64_t within = element % kPerBlock;
            const int64_t from = src.address + OffsetOf(repeat, element, src.size, srcStride);
            const int64_t to = dst.address + OffsetOf(repeat, element - within, src.size, dstStride) +
                               (isSecondHalf ? kPerBlock : 0) + within;
            Touched(*block, AccessKind::kRead, from, src.size, "src", call);
            Touched(*block, AccessKind::kWrite, to, dst.size, "dst", call);
            *block->local.At(to) =
                RequantizeOne(Load<int16_t>(block->local.At(from)), table[static_cast<size_t>(within)]);
        }
    }
}

void SetDequantScale(half scale, const Call& call)
{
    const Entry block(call);
    block->registers.dequant = {static_cast<float>(scale), std::nullopt, std::nullopt};
}

void SetDequantBytes(float scale, int64_t offset, bool isSigned, const Call& call)
{
    const Entry block(call);
    block->registers.dequant = {std::nullopt, DequantBits(scale, offset, isSigned, call), std::nullopt};
}

void SetDequantTable(const LocalView& table, const AscendC::VdeqInfo& info, const Call& call)
{
    for (int element = 0; element < kPerBlock; ++element) {
        const uint64_t bits =
            DequantBits(info.vdeqScale[element], info.vdeqOffset[element], info.vdeqSignMode[element], call);
        WriteLocal(table, element, bits, call);
    }
    const Entry block(call);
    block->registers.dequant = {std::nullopt, std::nullopt, table};
}

}  // namespace opforge::twin::kernel
