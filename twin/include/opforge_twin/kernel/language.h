// Maps the device dialect of C++ to the host compiler.
#ifndef OPFORGE_TWIN_KERNEL_LANGUAGE_H
#define OPFORGE_TWIN_KERNEL_LANGUAGE_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

// Kernels call abs(). <stdlib.h> would also declare functions such as select, which kernels may define.
extern "C" int abs(int value) noexcept;
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, int>>>
constexpr T abs(const T value)
{
    return value < T(0) ? static_cast<T>(-value) : value;
}

// The architecture of the kernel; the library of the twin has the value of Ascend 910B.
#ifdef OPFORGE_TWIN_ARCH
#define __NPU_ARCH__ OPFORGE_TWIN_ARCH
#else
#define __NPU_ARCH__ 2201
#endif
#if __NPU_ARCH__ == 1001
#define __CCE_AICORE__ 100
#define __DAV_C100__
#elif __NPU_ARCH__ == 2201
#define __CCE_AICORE__ 220
#define __DAV_C220__
#else
#error "OPFORGE_TWIN_ARCH: expected 1001 or 2201"
#endif
// Whether each core has a cube and a vector unit.
#define OPFORGE_TWIN_IS_COUPLED (__NPU_ARCH__ == 1001)

#ifdef OPFORGE_TWIN_PROGRAM
// `opforge cc` reads these words after macro expansion, and replaces them.
#define __global__ opforgeGlobal
#define __vector__ opforgeVector
#define __cube__ opforgeCube
#define __mix__(cubes, vectors) opforgeMix(cubes, vectors)
#define __ubuf__ opforgeUbuf
#define __cbuf__ opforgeCbuf
#define __ca__ opforgeCa
#define __cb__ opforgeCb
#define __cc__ opforgeCc
#define __fbuf__ opforgeFbuf
#define __biasbuf__ opforgeBiasbuf
#else
#define __global__ __attribute__((visibility("default")))
#define __vector__
#define __cube__
#define __mix__(cubes, vectors)
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __biasbuf__
#endif
#define __aicore__
#define __forceinline__ inline __attribute__((always_inline))
// A cast that drops the address space drops `volatile`, and -Wcast-qual reports it.
#define __gm__ volatile
// A variable of each block.
#define __BLOCK_LOCAL__ thread_local
#define __local_mem__

// The first word of each function that reports its location: each call of it has a separate return address.
#if defined(__clang__)
#define OPFORGE_API __attribute__((noinline, nomerge))
#else
#define OPFORGE_API __attribute__((noinline))
#endif

#define GM_ADDR __gm__ uint8_t*

// On the device, both expand to `constexpr (..)` in two separate programs: write `if ASCEND_IS_AIV { }` without
// parentheses. On the twin, one program runs on both core types and tests the core. The declaration prevents
// parentheses. A core with both units (architecture 1001) is neither.
#define ASCEND_IS_AIC (const bool opforgeIsAic = opforge::twin::kernel::IsCubeCore(); opforgeIsAic)
#define ASCEND_IS_AIV (const bool opforgeIsAiv = opforge::twin::kernel::IsVectorCore(); opforgeIsAiv)
#define ASCEND_IS_NOT_AIC (const bool opforgeIsNotAic = !opforge::twin::kernel::IsCubeCore(); opforgeIsNotAic)
#define ASCEND_IS_NOT_AIV (const bool opforgeIsNotAiv = !opforge::twin::kernel::IsVectorCore(); opforgeIsNotAiv)

namespace opforge::twin::kernel {

/// A location in the kernel: the return address of a call of an API function. The line table of the kernel library has
/// the source line. API functions therefore have exactly the documented parameters.
struct Location {
    const void* address = nullptr;

    explicit operator bool() const { return address != nullptr; }
    bool operator==(const Location& other) const { return address == other.address; }
    bool operator!=(const Location& other) const { return address != other.address; }
};

const void* OutermostCall(const void* address);
bool BeginComposedCall(const void* address);
void EndComposedCall();

/// The call of the API function with this body.
__forceinline__ Location Here()
{
    return {OutermostCall(__builtin_return_address(0))};
}

/// A variable at the start of an API function that calls other API functions: their location is the call of this one.
class ComposedCall {
public:
    __forceinline__ ComposedCall() : isOutermost_(BeginComposedCall(__builtin_return_address(0))) {}
    ~ComposedCall()
    {
        if (isOutermost_) {
            EndComposedCall();
        }
    }
    ComposedCall(const ComposedCall&) = delete;
    ComposedCall& operator=(const ComposedCall&) = delete;

private:
    bool isOutermost_;
};

}  // namespace opforge::twin::kernel

/// The value with these bytes, as a constant of the compilation: a function of the device compiler.
template <typename T>
constexpr T convert_from_bytes(const uint8_t* bytes)
{
    struct Bytes {
        uint8_t values[sizeof(T)];
    } copied{};
    for (size_t index = 0; index < sizeof(T); ++index) {
        copied.values[index] = bytes[index];
    }
    return __builtin_bit_cast(T, copied);
}

#endif  // OPFORGE_TWIN_KERNEL_LANGUAGE_H
