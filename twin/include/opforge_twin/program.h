// The launch of kernels by programs that `opforge cc` compiles. The command includes this header in front of each
// source and replaces `kernel<<<blocks, nullptr, stream>>>(arguments)` by calls of Prepare.
#ifndef OPFORGE_TWIN_PROGRAM_H
#define OPFORGE_TWIN_PROGRAM_H

// Every source includes these headers: each one is a part of every compile time.
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "opforge_twin/kernel/language.h"

extern "C" {

/// Makes this process a program of `opforge cc`: findings go to stderr, the process ends with 1 if there are any.
void opforgeTwinStartProgram(const char* soc, const char* level);
/// The compiler inserts no synchronization: --cce-auto-sync=off.
void opforgeTwinDisableAutoSync();
}

namespace opforge::twin::program {

struct Bytes {
    const void* data;
    size_t size;
};

struct KernelLaunch {
    const char* kernel;
    const char* argumentNames;  ///< one per line
    int64_t blocks;
    void* stream;
    const Bytes* arguments;
    size_t count;
    void* call;  ///< for `run` and `release`
    void (*run)(void* call);
    void (*release)(void* call);
};

/// Queues the launch on its stream, and releases its call after it.
void Launch(const KernelLaunch& launch);

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

/// Returns a function that launches `call` with its arguments.
template <typename Call>
auto Prepare(const char* kernel, const char* argumentNames, const Grid& grid, Call call)
{
    return [=](auto... values) {
        struct Kept {
            Call call;
            std::tuple<decltype(values)...> arguments;
        };
        auto* const kept = new Kept{call, {values...}};
        std::apply(
            [&](const auto&... each) {
                const Bytes bytes[] = {Bytes{&each, sizeof(each)}..., {}};
                Launch({kernel, argumentNames, grid.blocks, grid.stream, bytes, sizeof...(each), kept,
                        [](void* state) {
                            auto& made = *static_cast<Kept*>(state);
                            std::apply(made.call, made.arguments);
                        },
                        [](void* state) { delete static_cast<Kept*>(state); }});
            },
            kept->arguments);
    };
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
    const char* argumentNames;
    void (*launch)(const KernelEntry& entry, const Grid& grid, void** arguments);
    const size_t* sizes;  ///< of the parameters
    size_t count;
};

template <auto call>
struct EntryOf;

template <typename... Parameters, void (*call)(Parameters...)>
struct EntryOf<call> {
    static constexpr KernelEntry Named(const char* kernel, const char* argumentNames)
    {
        return {kernel, argumentNames, &Launch, kSizes, sizeof...(Parameters)};
    }

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
        Prepare(entry.kernel, entry.argumentNames, grid, call)(*static_cast<Parameters*>(arguments[index])...);
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
