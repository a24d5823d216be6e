// Element-wise vector instructions: the computation of one element, for each dtype.
#include <cmath>
#include <optional>
#include <type_traits>

#include "opforge_twin/arithmetic.h"
#include "kernel/exec/levels.h"
#include "kernel/vector/numbers.h"
#include "kernel/vector/sweep.h"

namespace opforge::twin::kernel {

namespace {

template <typename T, BinaryOp op>
Computed<T> Combine(Computed<T> a, Computed<T> b)
{
    if constexpr (op == BinaryOp::kAdd) {
        return Plus(a, b);
    } else if constexpr (op == BinaryOp::kSub) {
        return Minus(a, b);
    } else if constexpr (op == BinaryOp::kMul) {
        return Times(a, b);
    } else if constexpr (op == BinaryOp::kAddRelu) {
        return Larger<Computed<T>>(Plus(a, b), 0);
    } else if constexpr (op == BinaryOp::kSubRelu) {
        return Larger<Computed<T>>(Minus(a, b), 0);
    } else if constexpr (op == BinaryOp::kDiv) {
        return a / b;
    } else if constexpr (op == BinaryOp::kMax) {
        return Larger(a, b);
    } else if constexpr (op == BinaryOp::kMin) {
        return Smaller(a, b);
    } else if constexpr (op == BinaryOp::kAnd) {
        return static_cast<T>(a & b);
    } else {
        return static_cast<T>(a | b);
    }
}

template <typename T, BinaryOp op>
void BinaryBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* /*context*/)
{
    constexpr auto size = static_cast<int64_t>(sizeof(T));
    for (int64_t offset = 0; offset < count * size; offset += size) {
        Store<T>(operands[0] + offset, Combine<T, op>(Load<T>(operands[1] + offset), Load<T>(operands[2] + offset)));
    }
}

template <typename T, typename U>
void MulAddBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* /*context*/)
{
    for (int64_t index = 0; index < count; ++index) {
        uint8_t* dst = operands[0] + index * static_cast<int64_t>(sizeof(T));
        const int64_t from = index * static_cast<int64_t>(sizeof(U));
        Store<T>(dst, std::fma(Load<U>(operands[1] + from), Load<U>(operands[2] + from), Load<T>(dst)));
    }
}

/// dst = src0 * dst + src1
template <typename T, bool hasRelu>
void MulDstBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* /*context*/)
{
    constexpr auto size = static_cast<int64_t>(sizeof(T));
    for (int64_t offset = 0; offset < count * size; offset += size) {
        uint8_t* dst = operands[0] + offset;
        const float sum = std::fma(Load<T>(operands[1] + offset), Load<T>(dst), Load<T>(operands[2] + offset));
        Store<T>(dst, hasRelu ? Larger(sum, 0.0F) : sum);
    }
}

bool ReadsDst(BinaryOp op)
{
    return op == BinaryOp::kMulAddDst || op == BinaryOp::kMulDstAdd || op == BinaryOp::kMulDstAddRelu;
}

template <BinaryOp op>
Body BinaryFor(Dtype dtype)
{
    if constexpr (op == BinaryOp::kAnd || op == BinaryOp::kOr) {
        return BinaryBody<uint16_t, op>;
    } else {
        switch (dtype) {
            case Dtype::kFloat16:
                return BinaryBody<half, op>;
            case Dtype::kFloat32:
                return BinaryBody<float, op>;
            default:
                break;
        }
        if constexpr (op != BinaryOp::kDiv) {
            return dtype == Dtype::kInt16 ? BinaryBody<int16_t, op> : BinaryBody<int32_t, op>;
        } else {
            return nullptr;
        }
    }
}

Body BinaryBodyFor(BinaryOp op, Dtype dst, Dtype src)
{
    switch (op) {
        case BinaryOp::kAdd:
            return BinaryFor<BinaryOp::kAdd>(dst);
        case BinaryOp::kSub:
            return BinaryFor<BinaryOp::kSub>(dst);
        case BinaryOp::kMul:
            return BinaryFor<BinaryOp::kMul>(dst);
        case BinaryOp::kDiv:
            return BinaryFor<BinaryOp::kDiv>(dst);
        case BinaryOp::kMax:
            return BinaryFor<BinaryOp::kMax>(dst);
        case BinaryOp::kMin:
            return BinaryFor<BinaryOp::kMin>(dst);
        case BinaryOp::kAnd:
            return BinaryFor<BinaryOp::kAnd>(dst);
        case BinaryOp::kOr:
            return BinaryFor<BinaryOp::kOr>(dst);
        case BinaryOp::kAddRelu:
            return BinaryFor<BinaryOp::kAddRelu>(dst);
        case BinaryOp::kSubRelu:
            return BinaryFor<BinaryOp::kSubRelu>(dst);
        case BinaryOp::kMulDstAdd:
            return dst == Dtype::kFloat16 ? MulDstBody<half, false> : MulDstBody<float, false>;
        case BinaryOp::kMulDstAddRelu:
            return dst == Dtype::kFloat16 ? MulDstBody<half, true> : MulDstBody<float, true>;
        case BinaryOp::kMulAddDst:
            return dst == Dtype::kFloat16   ? MulAddBody<half, half>
                   : src == Dtype::kFloat16 ? MulAddBody<float, half>
                                            : MulAddBody<float, float>;
    }
    return nullptr;
}

template <typename T, UnaryOp op>
Computed<T> Apply(Computed<T> x)
{
    if constexpr (op == UnaryOp::kAbs) {
        if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(x < 0 ? Minus<T>(0, x) : x);
        } else {
            return std::fabs(x);
        }
    } else if constexpr (op == UnaryOp::kExp) {
        return std::exp(x);
    } else if constexpr (op == UnaryOp::kLn) {
        return std::log(x);
    } else if constexpr (op == UnaryOp::kSqrt) {
        return std::sqrt(x);
    } else if constexpr (op == UnaryOp::kRsqrt) {
        return 1.0F / std::sqrt(x);
    } else if constexpr (op == UnaryOp::kReciprocal) {
        return 1.0F / x;
    } else {
        return Larger<Computed<T>>(x, 0);
    }
}

template <typename T, UnaryOp op>
void UnaryBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* /*context*/)
{
    constexpr auto size = static_cast<int64_t>(sizeof(T));
    for (int64_t offset = 0; offset < count * size; offset += size) {
        Store<T>(operands[0] + offset, Apply<T, op>(Load<T>(operands[1] + offset)));
    }
}

void NotBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* /*context*/)
{
    for (int64_t index = 0; index < 2 * count; ++index) {
        operands[0][index] = static_cast<uint8_t>(~operands[1][index]);
    }
}

template <size_t size>
void CopyBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* /*context*/)
{
    std::memmove(operands[0], operands[1], static_cast<size_t>(count) * size);
}

template <UnaryOp op>
Body FloatingFor(Dtype dtype)
{
    return dtype == Dtype::kFloat16 ? UnaryBody<half, op> : UnaryBody<float, op>;
}

Body UnaryBodyFor(UnaryOp op, const LocalView& dst)
{
    switch (op) {
        case UnaryOp::kAbs:
            return dst.dtype == Dtype::kInt16 ? UnaryBody<int16_t, UnaryOp::kAbs>
                                              : FloatingFor<UnaryOp::kAbs>(dst.dtype);
        case UnaryOp::kExp:
            return FloatingFor<UnaryOp::kExp>(dst.dtype);
        case UnaryOp::kLn:
            return FloatingFor<UnaryOp::kLn>(dst.dtype);
        case UnaryOp::kSqrt:
            return FloatingFor<UnaryOp::kSqrt>(dst.dtype);
        case UnaryOp::kRsqrt:
            return FloatingFor<UnaryOp::kRsqrt>(dst.dtype);
        case UnaryOp::kReciprocal:
            return FloatingFor<UnaryOp::kReciprocal>(dst.dtype);
        case UnaryOp::kRelu:
            return dst.dtype == Dtype::kInt32 ? UnaryBody<int32_t, UnaryOp::kRelu>
                                              : FloatingFor<UnaryOp::kRelu>(dst.dtype);
        case UnaryOp::kNot:
            return NotBody;
        case UnaryOp::kCopy:
            return dst.size == 2 ? CopyBody<2> : CopyBody<4>;
    }
    return nullptr;
}

template <typename T, ScalarOp op>
Computed<T> ApplyScalar(Computed<T> x, Computed<T> scalar)
{
    if constexpr (op == ScalarOp::kAdds) {
        return Plus(x, scalar);
    } else if constexpr (op == ScalarOp::kMuls) {
        return Times(x, scalar);
    } else if constexpr (op == ScalarOp::kMaxs) {
        return Larger(x, scalar);
    } else if constexpr (op == ScalarOp::kMins) {
        return Smaller(x, scalar);
    } else if constexpr (op == ScalarOp::kLeakyRelu) {
        return x >= 0 ? x : Times(x, scalar);
    } else {
        const auto bits = static_cast<int64_t>(8 * sizeof(T));
        const auto shift = static_cast<int64_t>(scalar);
        if constexpr (op == ScalarOp::kShiftLeft) {
            return shift >= bits ? T{0} : static_cast<T>(static_cast<uint64_t>(x) << shift);
        } else {
            const auto wide = static_cast<int64_t>(x);
            const int64_t rounding = op == ScalarOp::kShiftRightRounded && shift > 0 ? int64_t{1} << (shift - 1) : 0;
            return static_cast<T>((wide + rounding) >> std::min<int64_t>(shift, 62));
        }
    }
}

template <typename T, ScalarOp op>
void ScalarBody(uint8_t* const* operands, int64_t count, uint64_t scalar, const void* /*context*/)
{
    constexpr auto size = static_cast<int64_t>(sizeof(T));
    const Computed<T> value = ScalarOf<T>(scalar);
    for (int64_t offset = 0; offset < count * size; offset += size) {
        Store<T>(operands[0] + offset, ApplyScalar<T, op>(Load<T>(operands[1] + offset), value));
    }
}

template <typename T, typename U>
void AxpyBody(uint8_t* const* operands, int64_t count, uint64_t scalar, const void* /*context*/)
{
    const Computed<U> factor = ScalarOf<U>(scalar);
    for (int64_t index = 0; index < count; ++index) {
        uint8_t* dst = operands[0] + index * static_cast<int64_t>(sizeof(T));
        const uint8_t* src = operands[1] + index * static_cast<int64_t>(sizeof(U));
        Store<T>(dst, std::fma(Load<U>(src), factor, Load<T>(dst)));
    }
}

template <ScalarOp op>
Body ArithmeticFor(Dtype dtype)
{
    switch (dtype) {
        case Dtype::kFloat16:
            return ScalarBody<half, op>;
        case Dtype::kFloat32:
            return ScalarBody<float, op>;
        case Dtype::kInt16:
            return ScalarBody<int16_t, op>;
        default:
            return ScalarBody<int32_t, op>;
    }
}

template <ScalarOp op>
Body ShiftFor(Dtype dtype)
{
    switch (dtype) {
        case Dtype::kInt16:
            return ScalarBody<int16_t, op>;
        case Dtype::kUint16:
            return ScalarBody<uint16_t, op>;
        case Dtype::kInt32:
            return ScalarBody<int32_t, op>;
        default:
            return ScalarBody<uint32_t, op>;
    }
}

Body ScalarBodyFor(ScalarOp op, Dtype dst, Dtype src)
{
    switch (op) {
        case ScalarOp::kAdds:
            return ArithmeticFor<ScalarOp::kAdds>(dst);
        case ScalarOp::kMuls:
            return ArithmeticFor<ScalarOp::kMuls>(dst);
        case ScalarOp::kMaxs:
            return ArithmeticFor<ScalarOp::kMaxs>(dst);
        case ScalarOp::kMins:
            return ArithmeticFor<ScalarOp::kMins>(dst);
        case ScalarOp::kLeakyRelu:
            return dst == Dtype::kFloat16 ? ScalarBody<half, ScalarOp::kLeakyRelu>
                                          : ScalarBody<float, ScalarOp::kLeakyRelu>;
        case ScalarOp::kAxpy:
            return dst == Dtype::kFloat16   ? AxpyBody<half, half>
                   : src == Dtype::kFloat16 ? AxpyBody<float, half>
                                            : AxpyBody<float, float>;
        case ScalarOp::kShiftLeft:
            return ShiftFor<ScalarOp::kShiftLeft>(dst);
        case ScalarOp::kShiftRight:
            return ShiftFor<ScalarOp::kShiftRight>(dst);
        case ScalarOp::kShiftRightRounded:
            return ShiftFor<ScalarOp::kShiftRightRounded>(dst);
    }
    return nullptr;
}

template <typename T>
void FillBody(uint8_t* const* operands, int64_t count, uint64_t scalar, const void* /*context*/)
{
    const auto value = static_cast<T>(scalar);
    for (int64_t index = 0; index < count; ++index) {
        std::memcpy(operands[0] + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }
}

/// First value and step of a progression, and the number of elements that are already written.
struct Steps {
    uint64_t first;
    uint64_t step;
    mutable int64_t done;
};

template <typename T>
void ProgressionBody(uint8_t* const* operands, int64_t count, uint64_t /*scalar*/, const void* context)
{
    const Steps& steps = *static_cast<const Steps*>(context);
    const Computed<T> first = ScalarOf<T>(steps.first);
    const Computed<T> step = ScalarOf<T>(steps.step);
    for (int64_t index = 0; index < count; ++index, ++steps.done) {
        const auto factor = static_cast<Computed<T>>(steps.done);
        Store<T>(operands[0] + index * static_cast<int64_t>(sizeof(T)), Plus(first, Times(step, factor)));
    }
}

bool Accumulates(BinaryOp op, Dtype dtype)
{
    const bool isPlain = op == BinaryOp::kAdd || op == BinaryOp::kSub || op == BinaryOp::kMul || op == BinaryOp::kMax ||
                         op == BinaryOp::kMin;
    return isPlain && dtype != Dtype::kInt16;
}

bool IsSigned(Dtype dtype)
{
    return dtype == Dtype::kInt16 || dtype == Dtype::kInt32;
}

/// Returns the number of bits of a shift, which must be in the documented range.
int64_t RequireShift(const LocalView& dst, uint64_t scalar, const Call& call)
{
    constexpr int64_t kBitsOfByte = 8;
    const int64_t bits = !IsSigned(dst.dtype) ? static_cast<int64_t>(scalar)
                         : dst.size == 2      ? int64_t{static_cast<int16_t>(scalar)}
                                              : int64_t{static_cast<int32_t>(scalar)};
    return Field("scalarValue", bits, 0, kBitsOfByte * dst.size, call);
}

}  // namespace

void Binary(BinaryOp op, const LocalView& dst, const LocalView& src0, const LocalView& src1, const Lanes& lanes,
            const Stride& dstStride, const Stride& src0Stride, const Stride& src1Stride, const Call& call)
{
    const Entry block(call);
    Shape shape = Resolve(*block, lanes, std::max(dst.size, src0.size), call);
    shape.cycles = op == BinaryOp::kDiv ? CyclesOf::kDiv : CyclesOf::kPlain;
    std::optional<SourceBytes> bytes;
    if (op == BinaryOp::kAnd || op == BinaryOp::kOr) {
        bytes = SourceBytes{};
    } else if (op == BinaryOp::kMul && IsSigned(dst.dtype)) {
        bytes = SourceBytes{0, false, true};
    }
    Sweep(*block, shape,
          {{&dst, "dst", dstStride, ReadsDst(op), true, bytes},
           {&src0, "src0", src0Stride, true, false, bytes},
           {&src1, "src1", src1Stride, true, false, bytes}},
          BinaryBodyFor(op, dst.dtype, src0.dtype), 0, nullptr, Accumulates(op, dst.dtype), call);
}

void Unary(UnaryOp op, const LocalView& dst, const LocalView& src, const Lanes& lanes, const Stride& dstStride,
           const Stride& srcStride, const Call& call)
{
    const Entry block(call);
    Shape shape = Resolve(*block, lanes, dst.size, call);
    const bool isSlow = op == UnaryOp::kExp || op == UnaryOp::kLn || op == UnaryOp::kSqrt;
    shape.cycles = isSlow ? CyclesOf::kSlow : CyclesOf::kPlain;
    const std::optional<SourceBytes> bytes = op == UnaryOp::kNot ? std::optional(SourceBytes{}) : std::nullopt;
    const auto sweep = [&](const LocalView& to, const Stride& toStride, const LocalView& from,
                           const Stride& fromStride) {
        Sweep(*block, shape,
              {{&to, "dst", toStride, false, true, bytes}, {&from, "src", fromStride, true, false, bytes}},
              UnaryBodyFor(op, dst), 0, nullptr, false, call);
    };
    if (op != UnaryOp::kCopy || !block->registers.mask.isCounter) {
        sweep(dst, dstStride, src, srcStride);
        return;
    }
    // In counter mode, the mask of Copy counts the elements of each repeat. A repeat may have more than eight blocks.
    // Assumption: each repeat takes the time of an instruction.
    const auto at = [](const LocalView& view, const Stride& stride, int64_t repeat) {
        LocalView moved = view;
        moved.address += repeat * stride.repeat * kBlockBytes;
        return moved;
    };
    const auto inRepeat = [](const Stride& stride) {
        return Stride{stride.block, 8 * stride.block, stride.blockLimit, 8 * stride.blockLimit};
    };
    for (int64_t repeat = 0; repeat < lanes.repeats; ++repeat) {
        sweep(at(dst, dstStride, repeat), inRepeat(dstStride), at(src, srcStride, repeat), inRepeat(srcStride));
    }
}

void WithScalar(ScalarOp op, const LocalView& dst, const LocalView& src, uint64_t scalar, const Lanes& lanes,
                const Stride& dstStride, const Stride& srcStride, const Call& call)
{
    const Entry block(call);
    std::optional<SourceBytes> bytes;
    if (op == ScalarOp::kShiftLeft || op == ScalarOp::kShiftRight || op == ScalarOp::kShiftRightRounded) {
        const int64_t bits = RequireShift(dst, scalar, call);
        if (op != ScalarOp::kShiftRightRounded) {
            bytes = SourceBytes{op == ScalarOp::kShiftLeft ? -bits : bits, IsSigned(dst.dtype)};
        }
    }
    const Shape shape = Resolve(*block, lanes, std::max(dst.size, src.size), call);
    Sweep(*block, shape,
          {{&dst, "dst", dstStride, op == ScalarOp::kAxpy, true, bytes}, {&src, "src", srcStride, true, false, bytes}},
          ScalarBodyFor(op, dst.dtype, src.dtype), scalar, nullptr, false, call);
}

void Fill(const LocalView& dst, uint64_t scalar, const Lanes& lanes, const Stride& dstStride, const Call& call)
{
    const Entry block(call);
    const Shape shape = Resolve(*block, lanes, dst.size, call);
    Sweep(*block, shape, {{&dst, "dst", dstStride, false, true}},
          dst.size == 2 ? FillBody<uint16_t> : FillBody<uint32_t>, scalar, nullptr, false, call);
}

void Progression(const LocalView& dst, uint64_t first, uint64_t step, const Lanes& lanes, const Stride& dstStride,
                 const Call& call)
{
    const Entry block(call);
    const Shape shape = Resolve(*block, lanes, dst.size, call);
    const uint64_t sign = uint64_t{1} << (8 * dst.size - 1);
    if (kDocumentedValues.Has(block->launch.options.level) && (step & (2 * sign - 1)) > sign) {
        block->Fail("api_contract", Pipe::kVector, call, "diffValue is negative, expected 0 or more");
    }
    const Steps steps{first, step, 0};
    const Body body = dst.dtype == Dtype::kFloat16   ? ProgressionBody<half>
                      : dst.dtype == Dtype::kFloat32 ? ProgressionBody<float>
                      : dst.dtype == Dtype::kInt16   ? ProgressionBody<int16_t>
                                                     : ProgressionBody<int32_t>;
    const int64_t bytes = std::min(Extent(shape, dst.size, dstStride), kBlockBytes);
    if (bytes > 0) {
        // The scalar unit writes the first block. The function orders the vector unit after it. The model
        // charges no time for this flag.
        block->checks.Use(dst, bytes, Pipe::kScalar, AccessKind::kWrite, kBlockBytes, "dst", call);
        block->checks.Touch(
            {Pipe::kScalar, Memory::kOnChip, AccessKind::kWrite, dst.address, bytes, "first block of dst", call});
        block->ordering.Wait(Pipe::kVector, block->ordering.After(Pipe::kScalar));
    }
    Sweep(*block, shape, {{&dst, "dst", dstStride, false, true}}, body, 0, &steps, false, call);
}

void SetMaskRegister(uint64_t high, uint64_t low, const Call& call)
{
    const Entry block(call);
    VectorMask& mask = block->registers.mask;
    const bool isChanged = low != ~uint64_t{0} || high != ~uint64_t{0};
    mask = {low, high, mask.isCounter, isChanged, call.at};
}

void SetLeadingMask(int64_t count, int64_t laneCount, bool counter, const Call& call)
{
    const uint64_t all = ~uint64_t{0};
    if (counter) {
        SetMaskRegister(0, static_cast<uint64_t>(Field("len", count, 0, 2147483647, call)), call);
        Entry(call)->registers.mask.hasCount = true;
        return;
    }
    Field("len", count, 1, laneCount, call);
    SetMaskRegister(count > 64 ? all >> (128 - std::min<int64_t>(count, 128)) : 0,
                    count >= 64 ? all : all >> (64 - count), call);
}

void SetCounterMode(bool counter, const Call& call)
{
    const Entry block(call);
    block->registers.mask.isCounter = counter;
    block->registers.mask.changedAt = call.at;
}

void ResetMaskRegister(const Call& call)
{
    const Entry block(call);
    VectorMask& mask = block->registers.mask;
    mask.low = ~uint64_t{0};
    mask.high = ~uint64_t{0};
    mask.isChanged = false;
    mask.hasCount = false;
}

}  // namespace opforge::twin::kernel
