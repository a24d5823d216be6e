// State of a core, conversions of scalars, and reads of raw addresses by the scalar unit.
#include "opforge_twin/kernel/system.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "kernel/exec/block.h"

namespace opforge::twin::kernel {

namespace {

constexpr uint64_t kUnsaturatedBit = uint64_t{1} << 48;
constexpr uint64_t kCountBit = uint64_t{1} << 56;

}  // namespace

void InitializeCore(const Call& call)
{
    {
        const Entry block(call);
        block->registers.atomic = {};
        block->registers.dequant = {};
        block->registers.imagePadding = 0;
    }
    SetCounterMode(false, call);
    ResetMaskRegister(call);
}

void SetSaturating(bool isSaturating, const Call& call)
{
    const Entry block(call);
    block->registers.isSaturating = isSaturating;
}

bool IsSaturating(const Call& call)
{
    const Entry block(call);
    return block->registers.isSaturating;
}

uint64_t ControlRegister(const Call& call)
{
    const Entry block(call);
    const Registers& registers = block->registers;
    return (registers.isSaturating ? 0 : kUnsaturatedBit) | (registers.mask.isCounter ? kCountBit : 0);
}

void SetControlRegister(uint64_t value, const Call& call)
{
    Field("bits without 48 and 56 (the twin has no others)", (value & ~(kUnsaturatedBit | kCountBit)) == 0 ? 0 : 1, 0,
          0, call);
    SetSaturating((value & kUnsaturatedBit) == 0, call);
    SetCounterMode((value & kCountBit) != 0, call);
}

uint64_t WordOf(Word word, const Call& call)
{
    const Entry block(call);
    return block->registers.words[static_cast<size_t>(word)];
}

void SetWord(Word word, uint64_t value, const Call& call)
{
    const Entry block(call);
    block->registers.words[static_cast<size_t>(word)] = value;
}

void SetBlockAddresses(int64_t number, const BlockAddresses& addresses, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kVector, call);
    block->registers.blockAddresses[static_cast<size_t>(number)] = addresses;
}

BlockAddresses BlockAddressesOf(int64_t number, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kVector, call);
    const auto known =
        number < kAddressRegisters ? block->registers.blockAddresses[static_cast<size_t>(number)] : std::nullopt;
    if (!known) {
        block->Fail("field_range", Pipe::kVector, call,
                    Text("register VA", number, " has no addresses; call asc_set_va_reg for it first"));
    }
    return *known;
}

int64_t CoreNumber(const Call& call)
{
    const Entry block(call);
    return block->index;
}

Dtype AtomicDtypeOf(const Call& call)
{
    const Entry block(call);
    return block->registers.atomic.IsOn() ? block->registers.atomic.dtype : Dtype::kOther;
}

void WatchMemory(const MemoryWatch& watch, const Call& call)
{
    const Entry block(call);
    block->checks.Watch(watch);
}

int64_t SystemCycle()
{
    const Entry block({"GetSystemCycle", Location{}});
    return static_cast<int64_t>(block->execution.Instructions());
}

uint32_t UnifiedBufferBytes()
{
    const Entry block({"GetRuntimeUBSize", Location{}});
    return static_cast<uint32_t>(block->launch.soc.ubBytes);
}

void SetWorkspace(volatile const uint8_t* workspace, const Call& call)
{
    const Entry block(call);
    const auto address = reinterpret_cast<uintptr_t>(workspace);
    LaunchState& launch = block->launch;
    if (launch.request.passWorkspace) {
        if (address != launch.memory.AddressOf(launch.workspaceRegion)) {
            block->Fail("workspace_argument", Pipe::kScalar, call,
                        "the pointer is not the workspace of the kernel, expected its workspace argument; pass that "
                        "argument unchanged");
        }
        return;
    }
    const Region* const region = launch.memory.Find(address);
    const uint64_t offset = region == nullptr ? 0 : address - region->base;
    const uint64_t bytes = region == nullptr || offset > region->bytes ? 0 : region->bytes - offset;
    const uint64_t needed = launch.soc.SystemWorkspaceBytes();
    if (bytes < needed) {
        block->Fail("workspace_argument", Pipe::kScalar, call,
                    Text("the memory behind the pointer has ", bytes, " bytes, expected at least ", needed,
                         " for the system; allocate more with aclrtMalloc"));
    }
    block->registers.systemWorkspace = address;
}

void ReadGlobalBytes(void* destination, uint64_t address, uint64_t bytes, const Call& call)
{
    GlobalView view;
    view.address = address;
    view.begin = address;
    view.dtype = Dtype::kUint8;
    auto* to = static_cast<uint8_t*>(destination);
    for (uint64_t index = 0; index < bytes; ++index) {
        to[index] = static_cast<uint8_t>(ReadGlobal(view, index, call));
    }
}

uint16_t RoundToOddHalf(float value)
{
    uint16_t bits = FloatToHalf(value);
    const float nearest = HalfToFloat(bits);
    if (nearest == value || std::isnan(value)) {
        return bits;
    }
    if (std::fabs(nearest) > std::fabs(value)) {
        --bits;
    }
    return bits | 1U;
}

int32_t RoundScalar(float value, AscendC::RoundMode mode)
{
    using AscendC::RoundMode;
    const double whole = mode == RoundMode::CAST_FLOOR  ? std::floor(value)
                         : mode == RoundMode::CAST_CEIL ? std::ceil(value)
                         : mode == RoundMode::CAST_RINT ? std::nearbyint(value)
                                                        : std::round(value);
    constexpr double lowest = std::numeric_limits<int32_t>::min();
    constexpr double largest = std::numeric_limits<int32_t>::max();
    return std::isnan(whole) ? 0 : static_cast<int32_t>(std::fmin(std::fmax(whole, lowest), largest));
}

}  // namespace opforge::twin::kernel
