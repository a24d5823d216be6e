// The interface of CPU debug libraries that unit tests of kernels use: memory, modes and launches, on the CPU twin.
#ifndef OPFORGE_TWIN_TIKICPULIB_H
#define OPFORGE_TWIN_TIKICPULIB_H

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "kernel_operator.h"
#include "opforge_twin/launch.h"
#include "securec.h"

/// Unit tests name it in using-directives; it may have no host code.
namespace optiling {
}

enum class KernelMode : uint8_t { MIX_MODE, AIC_MODE, AIV_MODE, MIX_AIC_1_1, MIX_AIV_1_0, MIX_AIC_1_0 };

namespace opforge::coverage {

struct State {
    std::map<uintptr_t, size_t> blocks;
    uint64_t tilingKey = 0;
    std::string taskType = "AIV_ONLY";

    static State& Get()
    {
        static State state;
        return state;
    }

    /// Bytes from an address to the end of its allocation; 0: of no allocation.
    uint64_t BytesAt(const void* address) const
    {
        const auto value = reinterpret_cast<uintptr_t>(address);
        auto block = blocks.upper_bound(value);
        if (block == blocks.begin()) {
            return 0;
        }
        --block;
        return value < block->first + block->second ? block->first + block->second - value : 0;
    }
};

inline void LaunchAndPrint(const twin::LaunchRequest& request)
{
    twin::Options options;
    options.level = twin::Level::OPFORGE_COVERAGE_LEVEL;
    options.strict = options.level != twin::Level::kFast;
    options.autoSync = OPFORGE_COVERAGE_AUTO_SYNC;
    options.seed = 1;
    const twin::LaunchReport report = twin::Launch(request, options);
    auto& counts = testing::Registry::Get().counts;
    counts.launches++;
    for (const auto& finding : report.findings) {
        if (!finding.warning) {
            counts.findings++;
            std::printf("opforge finding\t%s\t%s\t%s\n", finding.kind.c_str(), finding.where.c_str(),
                        finding.message.c_str());
        }
    }
    std::fflush(stdout);
}

constexpr uint64_t kWorkspaceBytes = uint64_t{64} << 20;

inline void Run(const char* name, void* function, uint32_t blocks, const std::vector<void*>& arguments)
{
    auto& state = State::Get();
    twin::LaunchRequest request;
    request.opType = name;
    request.function = function;
    request.blockNum = blocks;
    request.tilingKey = state.tilingKey;
    request.taskType = state.taskType;
    request.soc = OPFORGE_COVERAGE_SOC;
    // Kernels of operators have workspace and tiling as the last parameters.
    const bool isOperator = arguments.size() > 2 && state.BytesAt(arguments.back()) != 0;
    const size_t tensors = isOperator ? arguments.size() - 2 : arguments.size();
    for (size_t index = 0; index < tensors; ++index) {
        request.arguments.push_back(
            {arguments[index], state.BytesAt(arguments[index]), true, true, "argument " + std::to_string(index)});
    }
    std::vector<uint8_t> workspace;
    request.passWorkspace = request.passTiling = isOperator;
    if (isOperator) {
        // The framework may clear a workspace before the kernel runs, which a test does itself.
        auto* const given = static_cast<uint8_t*>(arguments[tensors]);
        const uint64_t bytes = state.BytesAt(given);
        request.isWorkspaceDefined = bytes != 0;
        if (bytes < twin::kSystemWorkspaceBytes + kWorkspaceBytes) {
            workspace.assign(given, given + bytes);
            workspace.resize(twin::kSystemWorkspaceBytes + kWorkspaceBytes);
        }
        request.workspace = workspace.empty() ? given : workspace.data();
        request.workspaceBytes = std::max<uint64_t>(bytes, workspace.size());
        const auto* tiling = static_cast<const uint8_t*>(arguments.back());
        request.tiling.assign(tiling, tiling + state.BytesAt(tiling));
    }
    LaunchAndPrint(request);
}

/// Runs a kernel whose arguments may be tables of addresses: it can access every allocation at its own address.
inline void RunAtAddresses(const char* name, uint32_t blocks, std::vector<uint8_t>& workspace,
                           std::function<void()> entry)
{
    auto& state = State::Get();
    twin::LaunchRequest request;
    request.opType = name;
    request.body = std::move(entry);
    request.blockNum = blocks;
    request.tilingKey = state.tilingKey;
    request.taskType = state.taskType;
    request.soc = OPFORGE_COVERAGE_SOC;
    request.passWorkspace = request.passTiling = false;
    request.workspace = workspace.data();
    request.workspaceBytes = workspace.size();
    request.workspaceAddress = reinterpret_cast<uintptr_t>(workspace.data());
    request.isWorkspaceDefined = true;
    for (const auto& [address, bytes] : state.blocks) {
        auto& argument = request.arguments.emplace_back();
        argument.data = reinterpret_cast<void*>(address);
        argument.bytes = bytes;
        argument.address = address;
        argument.isInput = argument.isOutput = true;
        argument.name = "memory of the test";
    }
    LaunchAndPrint(request);
}

template <typename T>
constexpr bool kIsAddress = std::is_pointer_v<T> || std::is_null_pointer_v<T>;

template <typename Function, typename... Arguments>
void RunKernel(const char* name, Function function, uint32_t blocks, Arguments... arguments)
{
    if constexpr ((kIsAddress<Arguments> && ...)) {
        auto* pointer = +function;
        Run(name, reinterpret_cast<void*>(pointer), blocks,
            {const_cast<void*>(static_cast<const volatile void*>(arguments))...});
    } else {
        static_assert((kIsAddress<Arguments> && ...), "the twin runs kernels whose arguments are addresses");
    }
}

}  // namespace opforge::coverage

namespace AscendC {

inline void* GmAlloc(size_t bytes)
{
    // Alignment of device memory; the content is zero, since unit tests often leave inputs as they are.
    constexpr size_t alignment = 512;
    void* memory = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
    std::memset(memory, 0, (bytes / alignment + 1) * alignment);
    opforge::coverage::State::Get().blocks[reinterpret_cast<uintptr_t>(memory)] = bytes;
    return memory;
}

inline void GmFree(void* memory)
{
    opforge::coverage::State::Get().blocks.erase(reinterpret_cast<uintptr_t>(memory));
    std::free(memory);
}

inline void SetKernelMode(KernelMode mode)
{
    static const char* const names[] = {"MIX_AIC_1_2", "AIC_ONLY",    "AIV_ONLY",
                                        "MIX_AIC_1_1", "MIX_AIV_1_0", "MIX_AIC_1_0"};
    opforge::coverage::State::Get().taskType = names[static_cast<uint8_t>(mode)];
}

}  // namespace AscendC

namespace opforge::coverage {

template <typename Function, typename... Arguments>
void RunWithLists(const char* name, Function function, uint32_t blocks, Arguments... arguments)
{
    static_assert(sizeof...(Arguments) > 2, "kernels of operators have workspace and tiling");
    auto values = std::make_tuple(arguments...);
    std::vector<uint8_t> workspace(twin::kSystemWorkspaceBytes + kWorkspaceBytes);
    auto& given = std::get<sizeof...(Arguments) - 2>(values);
    given = reinterpret_cast<std::remove_reference_t<decltype(given)>>(workspace.data());
    RunAtAddresses(name, blocks, workspace, [function, values] { std::apply(function, values); });
}

}  // namespace opforge::coverage

#define ICPU_SET_TILING_KEY(key) (opforge::coverage::State::Get().tilingKey = static_cast<uint64_t>(key))
#ifdef OPFORGE_COVERAGE_LISTS
#define ICPU_RUN_KF(function, blocks, ...) \
    opforge::coverage::RunWithLists(#function, function, static_cast<uint32_t>(blocks), __VA_ARGS__)
#else
#define ICPU_RUN_KF(function, blocks, ...) \
    opforge::coverage::RunKernel(#function, function, static_cast<uint32_t>(blocks), __VA_ARGS__)
#endif

#endif  // OPFORGE_TWIN_TIKICPULIB_H
