// Launches of kernels by a program: `opforge cc` rewrites kernel<<<..>>>(..) to calls of Launch. This file is included
// in front of every source of the program.
#ifndef OPFORGE_TWIN_PROGRAM_H
#define OPFORGE_TWIN_PROGRAM_H

#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace opforge::twin::program {

/// Queues a launch on a stream. The program writes findings to stderr and ends with exit code 1 if there are any.
/// Returns 0, or an error code of acl.
int32_t Submit(const char* kernel, const char* taskType, uint32_t blocks, void* stream, const void* const* pointers,
               uint32_t pointerCount, std::function<void()> entry);

/// The SoC and the level for all launches of the program; variables of the environment replace them.
struct Defaults {
    Defaults(const char* soc, const char* level);
};

template <typename T>
const void* AddressOf(const T& value)
{
    if constexpr (std::is_pointer_v<T>) {
        return const_cast<const void*>(static_cast<const volatile void*>(value));
    } else {
        return nullptr;
    }
}

/// The part <<<blocks, .., stream>>> of a launch. The second value is always null in documented code.
class Launch {
public:
    template <typename Unused>
    Launch(uint32_t blocks, Unused /*unused*/, void* stream) : blocks_(blocks), stream_(stream)
    {
    }

    template <typename Kernel, typename... Args>
    int32_t Run(const char* name, const char* taskType, Kernel kernel, Args... args) const
    {
        const void* const pointers[] = {AddressOf(args)..., nullptr};
        return Submit(name, taskType, blocks_, stream_, pointers, sizeof...(args),
                      [kernel, values = std::make_tuple(args...)] { std::apply(kernel, values); });
    }

private:
    uint32_t blocks_;
    void* stream_;
};

}  // namespace opforge::twin::program

#endif  // OPFORGE_TWIN_PROGRAM_H
