// The part of the runtime interface for registers, messages, raw pointers and fixed addresses.
#ifndef OPFORGE_TWIN_KERNEL_SYSTEM_H
#define OPFORGE_TWIN_KERNEL_SYSTEM_H

#include <array>

#include "opforge_twin/kernel/runtime.h"

namespace opforge::twin::kernel {

// --- scalar unit ---
/// Resets the masks and the atomic mode.
void InitializeCore(const Call& call);
int64_t SystemCycle();
/// Bit 48 of the control register is 0.
void SetSaturating(bool isSaturating, const Call& call);
bool IsSaturating(const Call& call);
uint32_t UnifiedBufferBytes();
/// The number of the core in the launch.
int64_t CoreNumber(const Call& call);
/// Bits 48 (results that are not saturated) and 56 (mask of a count) of the control register.
uint64_t ControlRegister(const Call& call);
void SetControlRegister(uint64_t value, const Call& call);
/// Registers that a kernel can only set and read.
enum class Word : uint8_t { kSyncBase, kReluScales, kScales, kUnitFlag, kCount };
uint64_t WordOf(Word word, const Call& call);
void SetWord(Word word, uint64_t value, const Call& call);
/// The addresses of eight blocks in the unified buffer, in register `number`.
inline constexpr int64_t kAddressRegisters = 8;
inline constexpr size_t kRegisterAddresses = 8;
using BlockAddresses = std::array<uint64_t, kRegisterAddresses>;
void SetBlockAddresses(int64_t number, const BlockAddresses& addresses, const Call& call);
BlockAddresses BlockAddressesOf(int64_t number, const Call& call);
/// Ends the block unless `workspace` is the workspace argument.
void SetWorkspace(volatile const uint8_t* workspace, const Call& call);
/// Copies `bytes` of global memory, as reads of the scalar unit.
void ReadGlobalBytes(void* destination, uint64_t address, uint64_t bytes, const Call& call);
uint16_t RoundToOddHalf(float value);
int32_t RoundScalar(float value, AscendC::RoundMode mode);

/// The dtype of the atomic mode; kOther: none.
Dtype AtomicDtypeOf(const Call& call);
/// Blocks (first, last] of 32 bytes, and the watched accesses of each kind of pipe: 1 is reading, 2 is writing.
struct MemoryWatch {
    bool isOn;
    int64_t number;
    int64_t first;
    int64_t last;
    uint32_t scalar;
    uint32_t vector;
    uint32_t mte;
};
void WatchMemory(const MemoryWatch& watch, const Call& call);

// --- messages ---
/// Writes a formatted text to standard output, in host code as printf of C. `kinds` has a letter of KindOf for each
/// argument.
int PrintFormatted(const Call& call, const char* kinds, const char* format, ...);
/// Reports a failed assertion and ends the block; in host code, it ends the process.
[[noreturn]] void FailAssertion(const Location& at, const char* condition, const char* kinds, const char* format, ...);
[[noreturn]] void Trap(const Call& call);
/// How many elements of a tensor to print, as a matrix if `columns` is not 0.
struct Dump {
    uint32_t label;
    int64_t first;
    int64_t count;
    const uint32_t* shape = nullptr;  ///< `dims` numbers
    uint32_t dims = 0;
};
void DumpLocal(const LocalView& view, const Dump& dump, const Call& call);
/// Prints elements at an address, from each memory of `positions` that has a buffer there.
void DumpAddress(uint64_t address, std::initializer_list<AscendC::TPosition> positions, Dtype dtype, int32_t size,
                 const Dump& dump, const Call& call);
void DumpGlobal(const GlobalView& view, const Dump& dump, const Call& call);
/// Writes the elements to a file; returns whether it could.
bool WriteLocalFile(const LocalView& view, int64_t bytes, const char* path, const Call& call);

// --- on-chip memory without a TPipe ---
/// A view of `bytes` at byte `address` of the memory of `position`.
LocalView ViewAt(AscendC::TPosition position, int64_t address, int64_t bytes, const Call& call);
/// The same from byte `address` to the end of the array there, or of the memory.
LocalView ViewFrom(AscendC::TPosition position, uint64_t address, Dtype dtype, int32_t size, const Call& call);
/// Makes addresses of the unified buffer valid, and returns `offset`; a finding in a kernel with arrays.
uint64_t BufferAddress(uint64_t offset, const Call& call);
/// The address of a tensor in its memory.
int64_t AddressIn(const LocalView& view, const Call& call);
/// All memory of `position` that no buffer has.
LocalView RemainingMemory(AscendC::TPosition position, const Call& call);

/// The value of an argument of printf.
template <typename T>
auto Printable(const T& value)
{
    if constexpr (std::is_same_v<T, half> || std::is_same_v<T, float>) {
        return static_cast<double>(static_cast<float>(value));
    } else if constexpr (std::is_same_v<T, bfloat16_t>) {
        return static_cast<double>(Bfloat16ToFloat(value.bits));
    } else if constexpr (std::is_same_v<T, bool>) {
        return static_cast<int>(value);
    } else if constexpr (std::is_enum_v<T>) {
        return static_cast<std::underlying_type_t<T>>(value);
    } else {
        return value;
    }
}

/// The kind of an argument of printf: i (integer), f (float), s (text), p (pointer) or o (other).
template <typename T>
constexpr char KindOf()
{
    using Given = decltype(Printable(std::declval<const T&>()));
    using Pointed = std::remove_const_t<std::remove_pointer_t<Given>>;
    return std::is_integral_v<Given>                                   ? 'i'
           : std::is_floating_point_v<Given>                           ? 'f'
           : std::is_pointer_v<Given> && std::is_same_v<Pointed, char> ? 's'
           : std::is_pointer_v<Given>                                  ? 'p'
                                                                       : 'o';
}
template <typename... Args>
inline constexpr char kKindsOf[] = {KindOf<Args>()..., '\0'};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_SYSTEM_H
