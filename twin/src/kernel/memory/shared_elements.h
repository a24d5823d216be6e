// Elements of global memory that a core reads while another core may write them.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_SHARED_ELEMENTS_H
#define OPFORGE_TWIN_KERNEL_MEMORY_SHARED_ELEMENTS_H

#include <cstdint>
#include <cstring>

namespace opforge::twin::kernel {

template <typename T>
bool IsAligned(const uint8_t* host)
{
    return reinterpret_cast<uintptr_t>(host) % sizeof(T) == 0;
}

/// Calls `access` with a value of the unsigned type with `bytes` bytes; false if an aligned access is not possible.
template <typename Access>
bool AsElement(const uint8_t* host, uint64_t bytes, Access access)
{
    switch (bytes) {
        case 1:
            access(uint8_t{});
            return true;
        case 2:
            return IsAligned<uint16_t>(host) && (access(uint16_t{}), true);
        case 4:
            return IsAligned<uint32_t>(host) && (access(uint32_t{}), true);
        case 8:
            return IsAligned<uint64_t>(host) && (access(uint64_t{}), true);
        default:
            return false;
    }
}

inline uint64_t LoadElement(const uint8_t* host, uint64_t bytes)
{
    uint64_t bits = 0;
    const auto load = [&](auto type) {
        bits = __atomic_load_n(reinterpret_cast<const decltype(type)*>(host), __ATOMIC_RELAXED);
    };
    if (!AsElement(host, bytes, load)) {
        std::memcpy(&bits, host, static_cast<size_t>(bytes));
    }
    return bits;
}

inline void StoreElement(uint8_t* host, uint64_t bytes, uint64_t bits)
{
    const auto store = [&](auto type) {
        using T = decltype(type);
        __atomic_store_n(reinterpret_cast<T*>(host), static_cast<T>(bits), __ATOMIC_RELAXED);
    };
    if (!AsElement(host, bytes, store)) {
        std::memcpy(host, &bits, static_cast<size_t>(bytes));
    }
}

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_SHARED_ELEMENTS_H
