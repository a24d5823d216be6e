#include "kernel/high/composite.h"

#include <algorithm>
#include <cmath>

#include "kernel/exec/levels.h"
#include "kernel/timing/time_model.h"
#include "kernel/vector/numbers.h"
#include "kernel/vector/sweep.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

constexpr HighRow kRows[] = {
#define OPFORGE_HIGH(name, family, fast, slow, buffers, unit, inPlace) \
    {#name, Run##family, fast, slow, buffers, TmpUnit::k##unit, inPlace},
#include "opforge_twin/kernel/high/operations.inc"
#undef OPFORGE_HIGH
};

constexpr int64_t kFloatBytes = 4;

template <typename T>
void LoadAll(const uint8_t* from, Numbers& values)
{
    for (double& value : values) {
        value = static_cast<double>(Load<T>(from));
        from += sizeof(T);
    }
}

template <typename T>
void StoreAll(uint8_t* to, const Numbers& values)
{
    for (const double value : values) {
        if constexpr (std::is_integral_v<T>) {
            constexpr double limit = 9.2e18;
            const double number = value == value ? std::clamp(value, -limit, limit) : 0.0;
            Store<T>(to, static_cast<T>(static_cast<int64_t>(number)));
        } else {
            Store<T>(to, static_cast<float>(value));
        }
        to += sizeof(T);
    }
}

/// Calls `use` with a value of the C++ type.
template <typename Use>
void WithType(Dtype dtype, const Use& use)
{
    switch (dtype) {
        case Dtype::kInt8:
            return use(int8_t{});
        case Dtype::kInt16:
            return use(int16_t{});
        case Dtype::kUint16:
            return use(uint16_t{});
        case Dtype::kFloat16:
            return use(half{});
        case Dtype::kBfloat16:
            return use(bfloat16_t{});
        case Dtype::kInt32:
            return use(int32_t{});
        case Dtype::kUint32:
            return use(uint32_t{});
        case Dtype::kFloat32:
            return use(float{});
        case Dtype::kInt64:
        case Dtype::kUint64:
            return use(int64_t{});
        default:
            return use(uint8_t{});
    }
}

}  // namespace

const HighRow& RowOf(HighOp op)
{
    return kRows[static_cast<size_t>(op)];
}

void Composite::PassUndefined()
{
    passesUndefined_ = !kUndefinedLanes.Has(block_.launch.options.level);
}

void Composite::Select(int64_t index, bool isElement, const std::vector<uint8_t>& masks, size_t mask)
{
    const uint8_t state = masks.empty() ? LocalMemory::kWritten : masks[mask];
    if (state != LocalMemory::kWritten || (!isElement && !undefined_.empty())) {
        const auto at = static_cast<size_t>(index);
        undefined_.resize(std::max(undefined_.size(), at + 1), LocalMemory::kWritten);
        undefined_[at] = state;
    }
}

Numbers Composite::Read(size_t operand, const char* name, int64_t count, int64_t first)
{
    Expect(count >= 0, Text("the shape gives ", count, " elements of ", name, ", expected a positive number"));
    LocalView view = View(operand);
    view.address += first * view.size;
    block_.checks.Use(view, count * view.size, Pipe::kVector, AccessKind::kRead, first == 0 ? kBlockBytes : view.size,
                      name, call_);
    if (passesUndefined_) {
        block_.local.CollectUndefined(view.address, count, view.size, undefined_);
        block_.checks.TouchOrder(
            {Pipe::kVector, Memory::kOnChip, AccessKind::kRead, view.address, count * view.size, name, call_});
    } else {
        Touched(block_, AccessKind::kRead, view.address, count * view.size, name, call_);
    }
    read_.push_back({view.address, view.address + count * view.size});
    Numbers values(static_cast<size_t>(count));
    WithType(view.dtype, [&](auto type) { LoadAll<decltype(type)>(block_.local.At(view.address), values); });
    return values;
}

Numbers Composite::ReadRows(size_t operand, const char* name, int64_t rows, int64_t pitch, int64_t columns)
{
    if (columns == pitch) {
        return Read(operand, name, rows * pitch);
    }
    RequireRows(rows, columns, pitch);
    const LocalView& view = View(operand);
    const int64_t bytes = ((rows - 1) * pitch + columns) * view.size;
    block_.checks.Use(view, bytes, Pipe::kVector, AccessKind::kRead, kBlockBytes, name, call_);
    read_.push_back({view.address, view.address + bytes});
    for (int64_t row = 0; row < rows; ++row) {
        Touched(block_, AccessKind::kRead, view.address + row * pitch * view.size, columns * view.size, name, call_);
    }
    Numbers values(static_cast<size_t>((rows - 1) * pitch + columns));
    WithType(view.dtype, [&](auto type) { LoadAll<decltype(type)>(block_.local.At(view.address), values); });
    values.resize(static_cast<size_t>(rows * pitch));
    return values;
}

void Composite::Write(size_t operand, const char* name, const Numbers& values, int64_t first)
{
    LocalView view = View(operand);
    view.address += first * view.size;
    const int64_t bytes = static_cast<int64_t>(values.size()) * view.size;
    block_.checks.Use(view, bytes, Pipe::kVector, AccessKind::kWrite, first == 0 ? kBlockBytes : view.size, name,
                      call_);
    RequireApartFromTmp({view.address, view.address + bytes});
    Touched(block_, AccessKind::kWrite, view.address, bytes, name, call_);
    WithType(view.dtype, [&](auto type) { StoreAll<decltype(type)>(block_.local.At(view.address), values); });
    block_.local.PropagateUndefined(view.address, view.size, undefined_);
}

void Composite::TakeTmp(int64_t rowElements)
{
    block_.ordering.PassBarrier(Pipe::kVector);  // the function waits for its instructions
    const int64_t unit = row_.unit == TmpUnit::kStep ? kRepeatBytes : RoundUp(rowElements * kFloatBytes, kBlockBytes);
    const int64_t needed = row_.unit == TmpUnit::kNone ? 0 : row_.buffers * unit;
    if (request_.tmp == nullptr) {
        const int64_t left = block_.local.UnifiedBuffer().Left();
        if (needed > 0 && left < needed) {
            Fail("no_scratch",
                 Text("the function uses the free unified buffer as temporary memory: ", left,
                      " bytes are free, expected at least ", needed, "; shorten the buffers of the kernel"));
        }
        return;
    }
    const LocalView& tmp = *request_.tmp;
    // On the device, functions may use the buffer for which the twin needs none.
    tmp_ = {tmp.address, tmp.address + std::min(std::max(needed, kBlockBytes), tmp.end - tmp.address)};
    for (const Range& range : read_) {
        RequireApartFromTmp(range);
    }
    if (needed == 0) {
        return;
    }
    if (tmp.end - tmp.address < needed) {
        Fail("tmp_buffer", Text("sharedTmpBuffer has ", tmp.end - tmp.address, " bytes, expected at least ", needed,
                                "; get the size from Get", row_.name, "MaxMinTmpSize on the host"));
    }
    block_.checks.Use(tmp, needed, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "sharedTmpBuffer", call_);
    block_.checks.TouchOrder(
        {Pipe::kVector, Memory::kOnChip, AccessKind::kWrite, tmp.address, needed, "sharedTmpBuffer", call_});
    block_.local.Poison(tmp.address, needed, {call_, "used it as temporary memory"});
}

void Composite::RequireApartFromTmp(const Range& range)
{
    if (range.begin < tmp_.end && tmp_.begin < range.end) {
        Fail("overlap", "sharedTmpBuffer and an operand overlap; use a separate buffer");
    }
}

void Composite::RequireNoOverlap(size_t dst, size_t src, int64_t count, const char* name, int64_t srcCount)
{
    const LocalView& to = View(dst);
    const LocalView& from = View(src);
    if (row_.isInPlace && to.address == from.address && to.size == from.size) {
        return;
    }
    if (block_.launch.options.strict) {
        RequireApart(block_, to.address, count * to.size, from.address, (srcCount == 0 ? count : srcCount) * from.size,
                     name, call_);
    }
}

void Composite::Charge(int64_t elements)
{
    const auto repeats = static_cast<double>(CeilDiv(elements * kFloatBytes, kRepeatBytes));
    const int32_t casts = View(0).size < kFloatBytes ? 2 : 0;
    for (int32_t index = 0; index < row_.fast + casts; ++index) {
        block_.timeline.RunVector(repeats * time_model::kVectorCyclesPerRepeat, call_);
    }
    for (int32_t index = 0; index < row_.slow; ++index) {
        block_.timeline.RunVector(repeats * time_model::kVectorSlowCyclesPerRepeat, call_);
    }
}

void Composite::RequireBlocks(const char* name, int64_t count, int64_t size)
{
    if (count * size % kBlockBytes != 0) {
        Fail("api_contract", Text(name, " is ", count, " elements = ", count * size,
                                  " bytes, expected a multiple of 32 bytes; pad the rows"));
    }
}

void Composite::RequirePadded(int64_t pitch, int64_t columns, int64_t size)
{
    const int64_t expected = (columns * size + kBlockBytes - 1) / kBlockBytes * kBlockBytes / size;
    if (kDocumentedValues.Has(block_.launch.options.level) && pitch != expected) {
        Fail("api_contract", Text("inner is ", pitch, " elements, expected ", expected, ": n = ", columns,
                                  " elements, rounded up to a multiple of 32 bytes"));
    }
}

void Composite::RequireRows(int64_t rows, int64_t columns, int64_t pitch)
{
    if (rows < 1 || columns < 1 || columns > pitch) {
        Fail("api_contract", Text("got ", rows, " rows of ", columns, " elements at a distance of ", pitch,
                                  " elements; expected at least 1 row and 1 element, and no overlap of rows"));
    }
}

int64_t RunHigh(const HighRequest& request, const Call& call)
{
    const Entry block(call);
    if (block->position.kind == CoreKind::kCube) {
        return 0;  // as on the device
    }
    block->registers.mask = {};
    Composite run(*block, request, call);
    return RowOf(request.op).run(run);
}

}  // namespace opforge::twin::kernel
