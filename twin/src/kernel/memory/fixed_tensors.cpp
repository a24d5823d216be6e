// Tensors at addresses that the kernel chooses: LocalMemAllocator and LocalTensor(position, address, size).
#include <algorithm>

#include "kernel/exec/block.h"
#include "kernel/memory/buffers.h"
#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/system.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::TPosition;

/// The buffer of all fixed tensors in a memory: they may overlap, and keep their contents.
uint32_t FixedBuffer(LocalMemory& local, const LocalUnit& unit, TPosition position, const Call& call)
{
    const auto isFixed = [&](const Buffer& buffer) { return buffer.isFixed && buffer.begin == unit.begin; };
    const auto found = std::find_if(local.buffers.begin(), local.buffers.end(), isFixed);
    if (found != local.buffers.end()) {
        return static_cast<uint32_t>(found - local.buffers.begin());
    }
    Buffer buffer;
    buffer.begin = unit.begin;
    buffer.end = unit.begin + unit.bytes;
    buffer.state = BufferState::kScratch;
    buffer.position = position;
    buffer.createdAt = call.at;
    buffer.generation = ++local.generation;
    buffer.changedAt = call.at;
    buffer.isFixed = true;
    local.buffers.push_back(buffer);
    return static_cast<uint32_t>(local.buffers.size() - 1);
}

LocalView FixedView(Block& block, const LocalUnit& unit, TPosition position, int64_t address, int64_t bytes,
                    const Call& call)
{
    LocalView view;
    view.buffer = FixedBuffer(block.local, unit, position, call);
    view.generation = block.local.buffers[view.buffer].generation;
    view.address = unit.begin + address;
    view.begin = view.address;
    view.end = view.begin + bytes;
    return view;
}

/// Ends the block if the memory does not have the bytes.
LocalView CheckedView(Block& block, TPosition position, int64_t address, int64_t bytes, const Call& call)
{
    const LocalUnit& unit = RequireUnit(block, position, call);
    if (address % kBlockBytes != 0) {
        block.Fail(
            unit.alignmentKind, Pipe::kScalar, call,
            Text("address ", address, " in the ", unit.name, " is not a multiple of ", kBlockBytes, "; round it up"));
    }
    if (address < 0 || address + bytes > unit.bytes) {
        block.Fail(unit.budgetKind, Pipe::kScalar, call,
                   Text("the tensor has bytes [", address, ", ", address + bytes, ") of the ", unit.name,
                        ", expected at most ", unit.bytes, "; shorten the tensors"));
    }
    return FixedView(block, unit, position, address, bytes, call);
}

/// The bytes at which arrays of a memory begin.
int64_t AlignmentOf(const LocalUnit& unit)
{
    constexpr int64_t kFractal = 512;
    constexpr int64_t kSumFractal = 1024;
    constexpr int64_t kScales = 128;
    using Id = LocalUnit::Id;
    return unit.IsL0() ? kFractal : unit.id == Id::kL0C ? kSumFractal : unit.id == Id::kFixpipe ? kScales : kBlockBytes;
}

/// Ends the block if a kernel uses both arrays and addresses of asc_get_phy_buf_addr.
void RequireOneForm(Block& block, bool hasOther, const Call& call)
{
    if (hasOther) {
        block.Fail("overlap", Pipe::kScalar, call,
                   "the kernel uses arrays in on-chip memory and asc_get_phy_buf_addr, and they may overlap; use one "
                   "of them");
    }
}

}  // namespace

LocalView ViewAt(TPosition position, int64_t address, int64_t bytes, const Call& call)
{
    const Entry block(call);
    return IsOfOtherCores(*block, position) ? LocalView() : CheckedView(*block, position, address, bytes, call);
}

int64_t ArrayAddress(TPosition position, int64_t bytes, const Call& call)
{
    const Entry block(call);
    if (IsOfOtherCores(*block, position)) {
        return 0;
    }
    RequireOneForm(*block, block->local.usesAddresses, call);
    const LocalUnit& unit = RequireUnit(*block, position, call);
    int64_t address = 0;
    for (const FixedArray& array : block->local.arrays) {
        if (array.at == call.at) {
            return array.begin - unit.begin;
        }
        if (array.begin >= unit.begin && array.end <= unit.begin + unit.bytes) {
            address = RoundUp(array.end - unit.begin, AlignmentOf(unit));
        }
    }
    const LocalView view = CheckedView(*block, position, address, bytes, call);
    block->local.arrays.push_back({call.at, view.begin, view.end});
    return address;
}

LocalView FindAt(const LocalMemory& local, const LocalUnit& unit, uint64_t address, Dtype dtype, int32_t size)
{
    const int64_t offset = unit.begin + static_cast<int64_t>(address);
    for (size_t index = address < static_cast<uint64_t>(unit.bytes) ? local.buffers.size() : 0; index-- > 0;) {
        const Buffer& buffer = local.buffers[index];
        if (offset >= buffer.begin && offset < buffer.end && buffer.generation >= local.oldestGeneration) {
            const FixedArray* const array = buffer.isFixed ? local.ArrayAt(offset) : nullptr;
            const int64_t begin = array == nullptr ? buffer.begin : array->begin;
            const int64_t end = array == nullptr ? buffer.end : array->end;
            return {static_cast<uint32_t>(index), buffer.generation, offset, begin, end, dtype, size};
        }
    }
    return {};
}

void FailNoBuffer(Block& block, uint64_t address, Pipe pipe, const Call& call)
{
    block.Fail("no_buffer", pipe, call,
               Text("address ", address,
                    " is in no buffer of the current TPipe; use addresses of GetPhyAddr, or arrays with __ubuf__ in a "
                    "program of `opforge cc`"));
}

LocalView ViewOf(uint64_t address, Dtype dtype, int32_t size, const Call& call)
{
    const Entry block(call);
    const LocalView view = FindAt(block->local, block->local.UnitOf(0), address, dtype, size);
    if (view.buffer == LocalView::kNoBuffer) {
        FailNoBuffer(*block, address, Pipe::kVector, call);
    }
    return view;
}

LocalView ViewOfPointer(uint64_t address, Dtype dtype, int32_t size, const Call& call)
{
    const LocalView view = ViewOf(address, dtype, size, call);
    CurrentBlock()->checks.EndAutomaticOrder();
    return view;
}

uint64_t BufferAddress(uint64_t offset, const Call& call)
{
    const Entry block(call);
    LocalMemory& local = block->local;
    RequireOneForm(*block, !local.arrays.empty(), call);
    local.usesAddresses = true;
    if (const LocalUnit* const unit = local.UnitAt(TPosition::VECCALC)) {
        FixedBuffer(local, *unit, TPosition::VECCALC, call);
    }
    return offset;
}

LocalView ViewFrom(TPosition position, uint64_t address, Dtype dtype, int32_t size, const Call& call)
{
    const Entry block(call);
    const LocalUnit& unit = RequireUnit(*block, position, call);
    if (address >= static_cast<uint64_t>(unit.bytes)) {
        block->Fail("no_buffer", Pipe::kScalar, call,
                    Text("address ", address, " is not in the ", unit.name, ", which has ", unit.bytes,
                         " bytes; use asc_get_phy_buf_addr, or arrays with an attribute of this memory in a program "
                         "of `opforge cc`"));
    }
    const auto offset = static_cast<int64_t>(address);
    const FixedArray* const array = block->local.ArrayAt(unit.begin + offset);
    const int64_t end = array == nullptr ? unit.bytes : array->end - unit.begin;
    LocalView view = CheckedView(*block, position, offset, end - offset, call);
    view.dtype = dtype;
    view.size = size;
    return view;
}

int64_t AddressIn(const LocalView& view, const Call& call)
{
    const Entry block(call);
    return view.address - block->checks.UnitOf(view, Pipe::kScalar, "the tensor", call).begin;
}

LocalView RemainingMemory(TPosition position, const Call& call)
{
    const Entry block(call);
    const LocalUnit& unit = RequireUnit(*block, position, call);
    return FixedView(*block, unit, position, unit.used, RoundDown(unit.Left(), kBlockBytes), call);
}

}  // namespace opforge::twin::kernel
