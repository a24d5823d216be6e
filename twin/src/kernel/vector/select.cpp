// Comparisons to bits, and selection by bits.
#include "opforge_twin/arithmetic.h"
#include "kernel/timing/time_model.h"
#include "kernel/vector/numbers.h"
#include "kernel/vector/sweep.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::CMPMODE;
using AscendC::SELMODE;

constexpr int64_t kSelectScratchBytes = 8192;

template <typename W>
bool Holds(CMPMODE mode, W a, W b)
{
    switch (mode) {
        case CMPMODE::LT:
            return a < b;
        case CMPMODE::GT:
            return a > b;
        case CMPMODE::EQ:
            return a == b;
        case CMPMODE::LE:
            return a <= b;
        case CMPMODE::GE:
            return a >= b;
        default:
            return !(a == b);
    }
}

/// All elements of the repeats count: comparisons ignore the mask on this architecture.
Shape WholeRepeats(Block& block, const Lanes& lanes, const LocalView& src, const Call& call)
{
    Shape shape = Resolve(block, lanes, src.size, call);
    if (shape.contiguous) {
        RequireMultiple("count * sizeof(T)", shape.total * src.size, kRepeatBytes, "bytes",
                        "round count up, and pad the source", call);
        shape.repeats = shape.total / shape.perRepeat;
        shape.contiguous = false;
        shape.total = 0;
    }
    shape.active.clear();
    shape.leading = shape.perRepeat;
    return shape;
}

/// Marks bytes of bits as undefined. The last bits of a byte may be undefined: they are after the elements of a row.
void PassBitStates(Block& block, int64_t to, const std::vector<uint8_t>& states)
{
    constexpr size_t bits = 8;
    for (size_t first = 0; first < states.size(); first += bits) {
        for (size_t bit = first; bit < first + bits; ++bit) {
            const bool isLast = bit == first + bits - 1 || states[bit + 1] != LocalMemory::kWritten;
            if (states[bit] != LocalMemory::kWritten && (bit == first || !isLast)) {
                block.local.PassState(to + static_cast<int64_t>(first / bits), 1, states[bit]);
            }
        }
    }
}

template <typename T>
void CompareBits(Block& block, const LocalView* dst, const LocalView& src0, const LocalView* src1, uint64_t scalar,
                 CMPMODE mode, const Shape& shape, const Stride& stride0, const Stride& stride1, const Call& call)
{
    const Computed<T> constant = ScalarOf<T>(scalar);
    const auto read = [&](int64_t at, int64_t bytes, const char* name) {
        if (dst != nullptr) {
            return ReadMoved(block, at, bytes, name, call);
        }
        Touched(block, AccessKind::kRead, at, bytes, name, call);  // the register has no state
        return LocalMemory::kWritten;
    };
    std::vector<uint8_t> states(static_cast<size_t>(shape.perRepeat));
    for (int64_t repeat = 0; repeat < shape.repeats; ++repeat) {
        for (int64_t lane = 0; lane < shape.perRepeat; ++lane) {
            const int64_t at0 = src0.address + OffsetOf(repeat, lane, src0.size, stride0);
            uint8_t& state = states[static_cast<size_t>(lane)];
            state = read(at0, src0.size, "src0");
            Computed<T> other = constant;
            if (src1 != nullptr) {
                const int64_t at1 = src1->address + OffsetOf(repeat, lane, src1->size, stride1);
                const uint8_t state1 = read(at1, src1->size, "src1");
                state = state == LocalMemory::kWritten ? state1 : state;
                other = Load<T>(block.local.At(at1));
            }
            const bool bit = Holds(mode, Load<T>(block.local.At(at0)), other);
            const int64_t number = repeat * shape.perRepeat + lane;
            uint8_t& byte = dst == nullptr ? block.registers.compareMask.bits[number / 8]
                                           : *block.local.At(dst->address + number / 8);
            const auto flag = static_cast<uint8_t>(1U << (number % 8));
            byte = static_cast<uint8_t>(bit ? byte | flag : byte & ~flag);
        }
        if (dst != nullptr) {
            const int64_t to = dst->address + repeat * shape.perRepeat / 8;
            Touched(block, AccessKind::kWrite, to, shape.perRepeat / 8, "dst", call);
            PassBitStates(block, to, states);
        }
    }
}

void CompareAny(Block& block, const LocalView* dst, const LocalView& src0, const LocalView* src1, uint64_t scalar,
                CMPMODE mode, const Lanes& lanes, const Stride& stride0, const Stride& stride1, const Call& call)
{
    if (src0.dtype == Dtype::kInt32 && mode != CMPMODE::EQ) {
        block.Fail("compare_mode", Pipe::kVector, call, "int32_t can be compared with CMPMODE::EQ only");
    }
    const Shape shape = WholeRepeats(block, lanes, src0, call);
    const bool isCount = lanes.form == Lanes::Form::kCount;
    if (isCount ? shape.repeats == 0 : HasNoRepeats(block, shape.repeats, call)) {
        return;
    }
    CheckStride(block, {&src0, "src0", stride0, true, false}, call);
    block.checks.Use(src0, Extent(shape, src0.size, stride0), Pipe::kVector, AccessKind::kRead, kBlockBytes, "src0",
                     call);
    if (src1 != nullptr) {
        CheckStride(block, {src1, "src1", stride1, true, false}, call);
        block.checks.Use(*src1, Extent(shape, src1->size, stride1), Pipe::kVector, AccessKind::kRead, kBlockBytes,
                         "src1", call);
    }
    block.registers.compareMask.isSet = block.registers.compareMask.isSet || dst == nullptr;
    if (dst != nullptr) {
        const int64_t bytes = shape.repeats * shape.perRepeat / 8;
        block.checks.Use(*dst, bytes, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dst", call);
        RequireApart(block, dst->address, bytes, src0.address, Extent(shape, src0.size, stride0), "src0", call);
        if (src1 != nullptr) {
            RequireApart(block, dst->address, bytes, src1->address, Extent(shape, src1->size, stride1), "src1", call);
        }
    }
    Charge(block, shape, call);
    const auto run = src0.dtype == Dtype::kFloat16   ? CompareBits<half>
                     : src0.dtype == Dtype::kFloat32 ? CompareBits<float>
                                                     : CompareBits<int32_t>;
    run(block, dst, src0, src1, scalar, mode, shape, stride0, stride1, call);
}

/// The position of the bits of the next dense run of elements. Each repeat uses `perRepeat` bits, also for elements
/// that the mask excludes.
struct Choice {
    Block* block;
    const LocalView* mask;  ///< null: the CMPMASK register
    bool sameForEveryRepeat;
    const Shape* shape;
    bool isScalar;
    const Call* call;
    mutable int64_t done;

    /// The bit of the active element with this number, counted over all repeats.
    int64_t BitOf(int64_t number) const
    {
        const int64_t perRepeat = shape->contiguous ? shape->perRepeat : shape->leading;
        const int64_t rank = number % perRepeat;
        const int64_t lane = shape->active.empty() ? rank : shape->active[static_cast<size_t>(rank)];
        return (sameForEveryRepeat ? 0 : number / perRepeat * shape->perRepeat) + lane;
    }
};

template <typename T>
void ChooseBody(uint8_t* const* operands, int64_t count, uint64_t scalar, const void* context)
{
    const Choice& choice = *static_cast<const Choice*>(context);
    for (int64_t index = 0; index < count; ++index, ++choice.done) {
        const int64_t bit = choice.BitOf(choice.done);
        const uint8_t* bits = choice.block->registers.compareMask.bits.data() + bit / 8;
        if (choice.mask != nullptr) {
            const int64_t byte = choice.mask->address + bit / 8;
            ReadMoved(*choice.block, byte, 1, "selMask", *choice.call);
            bits = choice.block->local.At(byte);
        }
        const int64_t offset = index * static_cast<int64_t>(sizeof(T));
        uint64_t other = scalar;
        if (!choice.isScalar) {
            std::memcpy(&other, operands[2] + offset, sizeof(T));
        }
        const bool takesFirst = (*bits >> (bit % 8) & 1U) != 0;
        std::memmove(operands[0] + offset, takesFirst ? operands[1] + offset : reinterpret_cast<uint8_t*>(&other),
                     sizeof(T));
    }
}

/// Marks elements as undefined if their mask bit is undefined.
void PassMaskStates(Block& block, const Shape& shape, const LocalView& dst, const Stride& stride, const Choice& choice)
{
    const int64_t repeats = shape.contiguous ? 1 : shape.repeats;
    int64_t done = 0;
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        const int64_t count = shape.contiguous ? shape.total : shape.Count(repeat);
        for (int64_t index = 0; index < count; ++index, ++done) {
            const int64_t bit = choice.BitOf(done);
            const int64_t lane = shape.active.empty() ? index : shape.active[static_cast<size_t>(index)];
            const int64_t offset = shape.contiguous ? index * dst.size : OffsetOf(repeat, lane, dst.size, stride);
            block.local.PassState(dst.address + offset, dst.size,
                                  block.local.StateOf(choice.mask->address + bit / 8, 1));
        }
    }
}

void RequireCompareMask(Block& block, const Call& call)
{
    if (!block.registers.compareMask.isSet) {
        block.Fail("select_mode", Pipe::kVector, call,
                   "no Compare has filled the CMPMASK register, and no SetCmpMask; call SetCmpMask, or Compare(src0, "
                   "src1, mode, mask, repeatParams), before");
    }
}

}  // namespace

void CompareTensors(const LocalView& dst, const LocalView& src0, const LocalView& src1, CMPMODE mode,
                    const Lanes& lanes, const Stride& src0Stride, const Stride& src1Stride, const Call& call)
{
    const Entry block(call);
    CompareAny(*block, &dst, src0, &src1, 0, mode, lanes, src0Stride, src1Stride, call);
}

void CompareToRegister(const LocalView& src0, const LocalView& src1, CMPMODE mode, const Lanes& lanes,
                       const Stride& src0Stride, const Stride& src1Stride, const Call& call)
{
    const Entry block(call);
    CompareAny(*block, nullptr, src0, &src1, 0, mode, lanes, src0Stride, src1Stride, call);
}

void CompareWithScalar(const LocalView& dst, const LocalView& src, uint64_t scalar, CMPMODE mode, const Lanes& lanes,
                       const Stride& srcStride, const Call& call)
{
    const Entry block(call);
    CompareAny(*block, &dst, src, nullptr, scalar, mode, lanes, srcStride, {}, call);
}

void StoreCompareMask(const LocalView& dst, const Call& call)
{
    const Entry block(call);
    const std::array<uint8_t, 16>& bits = block->registers.compareMask.bits;
    if (!block->registers.compareMask.isSet) {
        block->Fail("compare_mask", Pipe::kVector, call, "no Compare has set the CMPMASK register; compare before");
    }
    constexpr auto bytes = static_cast<int64_t>(sizeof(bits));
    block->checks.Use(dst, bytes, Pipe::kVector, AccessKind::kWrite, bytes, "dst", call);
    std::memcpy(block->local.At(dst.address), bits.data(), sizeof(bits));
    Touched(*block, AccessKind::kWrite, dst.address, bytes, "dst", call);
    block->timeline.RunVector(time_model::kVectorCyclesPerRepeat, call);
}

void LoadCompareMask(const LocalView& src, const Call& call)
{
    const Entry block(call);
    CompareMask& mask = block->registers.compareMask;
    constexpr auto bytes = static_cast<int64_t>(sizeof(mask.bits));
    block->checks.Use(src, bytes, Pipe::kVector, AccessKind::kRead, bytes, "src", call);
    Touched(*block, AccessKind::kRead, src.address, bytes, "src", call);
    std::memcpy(mask.bits.data(), block->local.At(src.address), sizeof(mask.bits));
    mask.isSet = true;
    block->timeline.RunVector(time_model::kVectorCyclesPerRepeat, call);
}

namespace {

/// Selects by the bits of `mask`; `src1` may be null for a scalar.
void ChooseByMask(Block& block, const LocalView& dst, const LocalView& mask, const LocalView& src0,
                  const LocalView* src1, uint64_t scalar, bool isPerInstruction, const Lanes& lanes,
                  const Stride& dstStride, const Stride& src0Stride, const Stride& src1Stride, const Call& call)
{
    const Shape shape = Resolve(block, lanes, dst.size, call);
    const int64_t elements = shape.total > 0 || shape.contiguous ? shape.total : shape.repeats * shape.leading;
    if (shape.contiguous ? elements == 0 : HasNoRepeats(block, shape.repeats, call)) {
        return;
    }
    const Choice choice{&block, &mask, isPerInstruction, &shape, src1 == nullptr, &call, 0};
    const int64_t most =
        isPerInstruction ? std::min(elements, shape.contiguous ? shape.perRepeat : shape.leading) : elements;
    const int64_t bits = choice.BitOf(most - 1) + 1;
    block.checks.Use(mask, CeilDiv<int64_t>(bits, 8), Pipe::kVector, AccessKind::kRead, kBlockBytes, "selMask", call);
    RequireApart(block, dst.address, Extent(shape, dst.size, dstStride), mask.address, CeilDiv<int64_t>(bits, 8),
                 "selMask", call);
    std::vector<Operand> operands{{&dst, "dst", dstStride, false, true}, {&src0, "src0", src0Stride, true, false}};
    if (src1 != nullptr) {
        operands.push_back({src1, "src1", src1Stride, true, false});
    }
    Sweep(block, shape, operands, dst.size == 2 ? ChooseBody<half> : ChooseBody<float>, scalar, &choice, false, call);
    if (block.local.StateOf(mask.address, CeilDiv<int64_t>(bits, 8)) != LocalMemory::kWritten) {
        PassMaskStates(block, shape, dst, dstStride, choice);
    }
}

/// The first bytes of the CMPMASK register.
uint64_t RegisterValue(int64_t bytes, const Call& call)
{
    const Entry block(call);
    RequireCompareMask(*block, call);
    uint64_t value = 0;
    std::memcpy(&value, block->registers.compareMask.bits.data(), static_cast<size_t>(bytes));
    return value;
}

}  // namespace

void ChooseByRegister(const LocalView& dst, const LocalView& src0, const LocalView& src1, int64_t repeats,
                      const Stride& dstStride, const Stride& src0Stride, const Stride& src1Stride, const Call& call)
{
    const Entry block(call);
    RequireCompareMask(*block, call);
    const Shape shape = Resolve(*block, Lanes::Leading<false>(0, repeats), dst.size, call);
    const Choice choice{&*block, nullptr, true, &shape, false, &call, 0};
    Sweep(*block, shape,
          {{&dst, "dst", dstStride, false, true},
           {&src0, "src0", src0Stride, true, false},
           {&src1, "src1", src1Stride, true, false}},
          dst.size == 2 ? ChooseBody<half> : ChooseBody<float>, 0, &choice, false, call);
}

void ChooseOrRegister(const LocalView& dst, const LocalView& mask, const LocalView& src0, int64_t repeats,
                      const Stride& dstStride, const Stride& src0Stride, const Call& call)
{
    const uint64_t scalar = RegisterValue(dst.size, call);
    const Entry block(call);
    ChooseByMask(*block, dst, mask, src0, nullptr, scalar, false, Lanes::Leading<false>(0, repeats), dstStride,
                 src0Stride, {}, call);
}

void ChooseByAddress(const LocalView& dst, const LocalView& src0, const LocalView& src1, int64_t repeats,
                     const Stride& dstStride, const Stride& src0Stride, const Stride& src1Stride, const Call& call)
{
    const LocalView mask = ViewOf(RegisterValue(sizeof(uint32_t), call), Dtype::kUint8, 1, call);
    const Entry block(call);
    ChooseByMask(*block, dst, mask, src0, &src1, 0, false, Lanes::Leading<false>(0, repeats), dstStride, src0Stride,
                 src1Stride, call);
}

void Choose(const LocalView& dst, const LocalView& mask, const LocalView& src0, const LocalView* src1, uint64_t scalar,
            SELMODE mode, const Lanes& lanes, const Stride& dstStride, const Stride& src0Stride,
            const Stride& src1Stride, const Call& call)
{
    const Entry block(call);
    if ((mode == SELMODE::VSEL_TENSOR_SCALAR_MODE) != (src1 == nullptr)) {
        block->Fail("select_mode", Pipe::kVector, call,
                    "a scalar src1 needs VSEL_TENSOR_SCALAR_MODE, a tensor one of the other two modes");
    }
    const bool isPerInstruction = mode == SELMODE::VSEL_CMPMASK_SPR;
    const int64_t freeBytes = block->local.UnifiedBuffer().Left();
    if (!isPerInstruction && freeBytes < kSelectScratchBytes) {
        block->Fail("no_scratch", Pipe::kVector, call,
                    Text("this mode of Select uses the last ", kSelectScratchBytes, " bytes of the unified buffer, ",
                         freeBytes, " are free; allocate less"));
    }
    ChooseByMask(*block, dst, mask, src0, src1, scalar, isPerInstruction, lanes, dstStride, src0Stride, src1Stride,
                 call);
}

}  // namespace opforge::twin::kernel
