// Cast: every pair of dtypes in every rounding mode.
#include "kernel/vector/conversion.h"
#include "kernel/vector/sweep.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::RoundMode;

constexpr const char* kModeNames[] = {"CAST_NONE",  "CAST_RINT",  "CAST_FLOOR", "CAST_CEIL",
                                      "CAST_ROUND", "CAST_TRUNC", "CAST_ODD"};

template <typename T, typename U>
void ConvertBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* context)
{
    const Conversion& how = *static_cast<const Conversion*>(context);
    // In place, a wider destination would overwrite unread elements; overlap checks prevent that.
    for (int64_t index = 0; index < count; ++index) {
        const Computed<U> value = Load<U>(operands[1] + index * static_cast<int64_t>(sizeof(U)));
        Store<T>(operands[0] + index * static_cast<int64_t>(sizeof(T)), ConvertOne<T, U>(value, how));
    }
}

template <typename U>
Body FloatingTo(Dtype dst)
{
    switch (dst) {
        case Dtype::kFloat16:
            return ConvertBody<half, U>;
        case Dtype::kBfloat16:
            return ConvertBody<bfloat16_t, U>;
        case Dtype::kInt8:
            return ConvertBody<int8_t, U>;
        case Dtype::kUint8:
            return ConvertBody<uint8_t, U>;
        case Dtype::kInt16:
            return ConvertBody<int16_t, U>;
        case Dtype::kInt32:
            return ConvertBody<int32_t, U>;
        case Dtype::kInt64:
            return ConvertBody<int64_t, U>;
        default:
            return ConvertBody<float, U>;
    }
}

template <typename U>
Body WholeTo(Dtype dst)
{
    switch (dst) {
        case Dtype::kFloat16:
            return ConvertBody<half, U>;
        case Dtype::kInt16:
            return ConvertBody<int16_t, U>;
        case Dtype::kInt32:
            return ConvertBody<int32_t, U>;
        case Dtype::kInt64:
            return ConvertBody<int64_t, U>;
        default:
            return ConvertBody<float, U>;
    }
}

Body BodyFor(Dtype dst, Dtype src)
{
    switch (src) {
        case Dtype::kFloat16:
            return FloatingTo<half>(dst);
        case Dtype::kBfloat16:
            return FloatingTo<bfloat16_t>(dst);
        case Dtype::kFloat32:
            return FloatingTo<float>(dst);
        case Dtype::kInt8:
            return WholeTo<int8_t>(dst);
        case Dtype::kUint8:
            return WholeTo<uint8_t>(dst);
        case Dtype::kInt16:
            return WholeTo<int16_t>(dst);
        case Dtype::kInt32:
            return WholeTo<int32_t>(dst);
        default:
            return WholeTo<int64_t>(dst);
    }
}

/// Two elements in each byte; `count` counts bytes.
void PackBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* context)
{
    const Conversion& how = *static_cast<const Conversion*>(context);
    const auto convert = [&](int64_t index) {
        const float value = Load<half>(operands[1] + index * static_cast<int64_t>(sizeof(half)));
        const double whole = RoundWhole(std::isnan(value) ? 0.0 : value, how.mode);
        return static_cast<uint32_t>(static_cast<int32_t>(std::min(std::max(whole, -8.0), 7.0))) & 0xFU;
    };
    for (int64_t index = 0; index < count; ++index) {
        operands[0][index] = static_cast<uint8_t>(convert(2 * index) | convert(2 * index + 1) << 4U);
    }
}

void UnpackBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* /*context*/)
{
    const auto store = [&](int64_t index, int32_t bits) {
        Store<half>(operands[0] + index * static_cast<int64_t>(sizeof(half)),
                    static_cast<float>(bits >= 8 ? bits - 16 : bits));
    };
    for (int64_t index = 0; index < count; ++index) {
        const int32_t pair = operands[1][index];
        store(2 * index, pair & 0xF);
        store(2 * index + 1, pair >> 4);
    }
}

/// The pairs of elements that a mask register selects; a mask with half a pair ends the block.
Lanes PairLanes(Block& block, const Lanes& lanes, const Call& call)
{
    const VectorMask& mask = block.registers.mask;
    const auto half = [&](uint64_t count) {
        RequireMultiple("count of int4b_t", static_cast<int64_t>(count), 2, "elements", "a byte has two elements",
                        call);
        return count / 2;
    };
    if (lanes.form == Lanes::Form::kCount || mask.isCounter) {
        Lanes pairs = lanes;
        pairs.low = half(lanes.form == Lanes::Form::kRegister ? mask.low : lanes.low);
        pairs.form = lanes.form == Lanes::Form::kCount ? lanes.form : Lanes::Form::kLeading;
        return pairs;
    }
    uint64_t bits = 0;
    for (uint32_t pair = 0; pair < 64; ++pair) {
        const uint64_t both = (pair < 32 ? mask.low >> 2 * pair : mask.high >> (2 * pair - 64)) & 3U;
        if (both == 1 || both == 2) {
            block.Fail("mask_range", Pipe::kVector, call,
                       Text("the mask has one element of the pair ", 2 * pair, ", ", 2 * pair + 1,
                            "; a byte has two elements of int4b_t, set both bits or none"));
        }
        bits |= (both & 1U) << pair;
    }
    return {Lanes::Form::kBits, bits, 0, lanes.repeats};
}

/// A byte with two elements and the two halves stand for one element each.
void ConvertPairs(Block& block, const LocalView& dst, const LocalView& src, const Conversion& how, const Lanes& lanes,
                  const Stride& dstStride, const Stride& srcStride, const Call& call)
{
    const bool packs = dst.dtype == Dtype::kInt4;
    Resolve(block, lanes, sizeof(half), call);  // checks the mask, and sets the register
    const VectorMask mask = block.registers.mask;
    const Shape shape = Resolve(block, PairLanes(block, lanes, call), 2 * sizeof(half), call);
    block.registers.mask = mask;
    LocalView wide = packs ? src : dst;
    wide.size = 2 * sizeof(half);
    Sweep(
        block, shape,
        {{packs ? &dst : &wide, "dst", dstStride, false, true}, {packs ? &wide : &src, "src", srcStride, true, false}},
        packs ? PackBody : UnpackBody, 0, &how, false, call);
}

std::string NamesOf(uint32_t modes)
{
    std::string names;
    for (size_t mode = 0; mode < std::size(kModeNames); ++mode) {
        if ((modes >> mode & 1U) != 0) {
            names += Text(names.empty() ? "" : ", ", kModeNames[mode]);
        }
    }
    return names;
}

}  // namespace

void Convert(const LocalView& dst, const LocalView& src, RoundMode mode, uint32_t allowedModes, const Lanes& lanes,
             const Stride& dstStride, const Stride& srcStride, const Call& call)
{
    const Entry block(call);
    const auto number = static_cast<size_t>(mode);
    if (number >= std::size(kModeNames) || (allowedModes >> number & 1U) == 0) {
        block->Fail("cast_mode", Pipe::kVector, call,
                    Text(number < std::size(kModeNames) ? kModeNames[number] : "this mode",
                         " does not exist for this pair of dtypes, expected one of ", NamesOf(allowedModes),
                         "; the device converts nothing"));
    }
    if (src.dtype == Dtype::kInt32 && dst.dtype == Dtype::kFloat16 && !block->registers.dequant.scale) {
        block->Fail("cast_mode", Pipe::kVector, call, "int32_t to half needs SetDeqScale(half) before");
    }
    const Conversion how{mode, block->registers.dequant.scale.value_or(1.0F)};
    if (dst.dtype == Dtype::kInt4 || src.dtype == Dtype::kInt4) {
        ConvertPairs(*block, dst, src, how, lanes, dstStride, srcStride, call);
        return;
    }
    const Shape shape = Resolve(*block, lanes, std::max(dst.size, src.size), call);
    Sweep(*block, shape, {{&dst, "dst", dstStride, false, true}, {&src, "src", srcStride, true, false}},
          BodyFor(dst.dtype, src.dtype), 0, &how, false, call);
}

}  // namespace opforge::twin::kernel
