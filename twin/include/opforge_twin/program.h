// The launch of kernels by programs that `opforge cc` compiles. The command includes this header in front of each
// source. It replaces `kernel<<<blocks, nullptr, stream>>>(arguments)` by a Pending and a call of the kernel, and the
// body of each kernel by a call of Enter.
#ifndef OPFORGE_TWIN_PROGRAM_H
#define OPFORGE_TWIN_PROGRAM_H

// Every source includes these headers: each one is a part of every compile time.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "opforge_twin/kernel/language.h"

extern "C" {

/// Makes this process a program of `opforge cc`: findings go to stderr, the process ends with 1 if there are any.
void opforgeTwinStartProgram(const char* soc, const char* level);
/// The compiler inserts no synchronization: --cce-auto-sync=off.
void opforgeTwinDisableAutoSync();
}

namespace opforge::twin::program {

struct Argument {
    const void* data;
    size_t size;
    bool isPointer;
};

struct KernelCall {
    const char* names;  ///< of the kernel and its parameters, one per line
    const Argument* arguments;
    size_t count;
    void* body;  ///< for `run` and `release`
    void (*run)(void* body);
    void (*release)(void* body);
};

/// Memory for host code and kernels, as GmAlloc returns it; `FreeShared` reports other addresses.
void* AllocateShared(size_t bytes);
void FreeShared(void* memory);
/// The task type and the tiling key of the following launches; a type in the kernel has priority.
void SetLaunchMode(const char* taskType);
void SetLaunchKey(uint64_t tilingKey);
/// Waits for the launches of the default stream.
void WaitForLaunches();

/// The values between `<<<` and `>>>`: blocks, then a pointer or size that this architecture does not use, then the
/// stream.
struct Grid {
    int64_t blocks;
    void* stream = nullptr;

    struct Unused {
        template <typename T>
        Unused(const T& /*value*/)  // NOLINT: all types are accepted
        {
        }
    };

    explicit Grid(int64_t count, const Unused& /*unused*/ = nullptr, void* queue = nullptr)
        : blocks(count), stream(queue)
    {
    }
};

/// A launch whose kernel this thread calls next: the first Enter takes it.
class Pending {
public:
    Pending(const char* kernel, const Grid& grid);
    /// Reports a function that is no kernel.
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    /// The last launch of this thread that is not taken, or null.
    static Pending* Take();
    /// Queues the call on the stream, and releases its body after it.
    void Launch(const KernelCall& call) const;

private:
    const char* const kernel_;
    const Grid grid_;
    Pending* outer_;
    bool isTaken_ = false;
};

template <typename T>
Argument ArgumentOf(const volatile T& value)
{
    return {const_cast<const T*>(__builtin_addressof(value)), sizeof(T), std::is_pointer_v<T>};
}

/// The body of a kernel: queues it for a launch, or runs it.
template <typename Body, typename... Parameters>
void Enter(const char* names, Body body, const Parameters&... parameters)
{
    const Pending* const pending = Pending::Take();
    if (pending == nullptr) {
        body();
        return;
    }
    const Argument arguments[] = {ArgumentOf(parameters)..., {}};
    pending->Launch({names, arguments, sizeof...(parameters), new Body(std::move(body)),
                     [](void* kept) {
                         Body copy = *static_cast<Body*>(kept);  // each block has its own parameters
                         copy();
                     },
                     [](void* kept) { delete static_cast<Body*>(kept); }});
}

/// Whether a launch can copy the parameters of a function as bytes.
template <typename Function>
constexpr bool kIsCopied = false;
template <typename... Parameters>
constexpr bool kIsCopied<void(Parameters...)> =
    ((std::is_trivially_copyable_v<Parameters> && !std::is_reference_v<Parameters>) && ...);

/// A kernel that host code launches by its name, with a pointer to each argument.
struct KernelEntry {
    const char* kernel;
    void (*launch)(const KernelEntry& entry, const Grid& grid, void** arguments);
    const size_t* sizes;  ///< of the parameters
    size_t count;
};

template <auto call>
struct EntryOf;

template <typename... Parameters, void (*call)(Parameters...)>
struct EntryOf<call> {
    static constexpr KernelEntry Named(const char* kernel) { return {kernel, &Launch, kSizes, sizeof...(Parameters)}; }

private:
    static constexpr size_t kSizes[] = {sizeof(Parameters)..., 0};

    static void Launch(const KernelEntry& entry, const Grid& grid, void** arguments)
    {
        LaunchWith(entry, grid, arguments, std::index_sequence_for<Parameters...>{});
    }

    template <size_t... index>
    static void LaunchWith(const KernelEntry& entry, const Grid& grid, void** arguments,
                           std::index_sequence<index...> /*count*/)
    {
        (void)arguments;
        const Pending pending(entry.kernel, grid);
        call(*static_cast<Parameters*>(arguments[index])...);
    }
};

}  // namespace opforge::twin::program

#ifdef OPFORGE_TWIN_PROGRAM
namespace {
__attribute__((constructor)) void OpforgeTwinStart()
{
    opforgeTwinStartProgram(OPFORGE_TWIN_PROGRAM_SOC, OPFORGE_TWIN_PROGRAM_LEVEL);
#ifdef OPFORGE_TWIN_PROGRAM_NO_AUTO_SYNC
    opforgeTwinDisableAutoSync();
#endif
}
}  // namespace
#endif

#endif  // OPFORGE_TWIN_PROGRAM_H
