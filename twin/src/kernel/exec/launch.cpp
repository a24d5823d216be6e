// The launch: maps arguments into the address space, runs blocks with the scheduler, and adds findings to the report.
#include "opforge_twin/launch.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <utility>

#include "kernel/exec/block.h"
#include "kernel/exec/guarded_call.h"
#include "kernel/exec/interrupt.h"
#include "kernel/exec/levels.h"
#include "kernel/exec/scheduler.h"
#include "kernel/timing/time_model.h"
#include "opforge_twin/kernel/language.h"

namespace opforge::twin {

namespace {

using kernel::Block;
using kernel::LaunchState;
using kernel::Pipe;
using kernel::Region;
using kernel::Text;

constexpr size_t kMaxArguments = 40;

using GmPointer = volatile uint8_t*;

template <size_t... index>
void Invoke(void* function, const std::vector<GmPointer>& pointers, std::index_sequence<index...> /*count*/)
{
    using Kernel = void (*)(decltype(index, GmPointer{})...);
    reinterpret_cast<Kernel>(function)(pointers[index]...);
}

using Invoker = void (*)(void*, const std::vector<GmPointer>&);

template <size_t... count>
constexpr std::array<Invoker, sizeof...(count)> Invokers(std::index_sequence<count...> /*upTo*/)
{
    return {[](void* function, const std::vector<GmPointer>& pointers) {
        Invoke(function, pointers, std::make_index_sequence<count>{});
    }...};
}

constexpr auto kInvokers = Invokers(std::make_index_sequence<kMaxArguments + 1>{});

void RunBlock(Block& block, const std::vector<GmPointer>& pointers)
{
    const LaunchRequest& request = block.launch.request;
    kernel::CallGuarded(block, [&] {
        if (request.body) {
            request.body();
        } else {
            kInvokers[pointers.size()](request.function, pointers);
        }
    });
    if (!block.execution.IsStopped()) {
        block.Finish();
    }
}

uint64_t FreshSeed()
{
    static std::atomic<uint64_t> count{0};
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    return (static_cast<uint64_t>(now) ^ (count.fetch_add(1) * 0x9E3779B97F4A7C15ULL)) | 1U;
}

LaunchReport Titled(const LaunchRequest& request)
{
    LaunchReport report;
    report.opType = request.opType;
    report.tilingKey = request.tilingKey;
    report.blocks = request.blockNum;
    return report;
}

/// Cores with both units run one task type, which kernels do not declare.
const kernel::TaskType* TaskTypeOf(const LaunchRequest& request, const SocFigures& soc)
{
    const std::string& wanted = request.taskType;
    return kernel::FindTaskType(soc.isCoupled ? "AICORE" : wanted.empty() ? "AIV_ONLY" : wanted, soc.isCoupled);
}

std::string Refusal(const LaunchRequest& request, const SocFigures* soc, const kernel::TaskType* type)
{
    if (soc == nullptr) {
        return Text("got '", request.soc, "' as SoC, expected a chip, as in ", DefaultSoc().name);
    }
    if (const int64_t arch = request.arch != 0 ? request.arch : DefaultSoc().arch; soc->arch != arch) {
        return Text("got ", request.soc, " of architecture ", soc->arch, ", expected a chip of architecture ", arch,
                    ", for which the kernel is compiled");
    }
    if (type == nullptr) {
        return Text(
            "got '", request.taskType,
            "' as task type, expected AIV_ONLY, AIC_ONLY, MIX_AIV_1_0, MIX_AIC_1_0, MIX_AIC_1_1 or MIX_AIC_1_2");
    }
    if (request.function == nullptr && !request.body) {
        return "got a null pointer as kernel function, expected a function";
    }
    if (request.blockNum == 0) {
        return "got blockNum 0, expected at least 1";
    }
    const auto passed =
        static_cast<size_t>(std::count_if(request.arguments.begin(), request.arguments.end(),
                                          [](const GmArgument& argument) { return !argument.isMember; }));
    if (passed + 2 > kMaxArguments && !request.body) {
        return Text("got ", passed, " kernel arguments, expected at most ", kMaxArguments - 2);
    }
    return {};
}

GmPointer PointerTo(const LaunchState& launch, uint32_t region)
{
    return reinterpret_cast<GmPointer>(static_cast<uintptr_t>(launch.memory.AddressOf(region)));
}

/// Records the order of accesses; regions that are never written need none.
void WatchOrder(const LaunchState& launch, Region& region)
{
    if (launch.options.strict && region.writable && region.host != nullptr && region.bytes != 0) {
        region.order = std::make_unique<kernel::GlobalOrder>(region.bytes);
    }
}

void WatchContents(const LaunchState& launch, Region& region, bool isKnown)
{
    if (region.isProgramMemory) {
        return;
    }
    // Without the check undefined_lanes, a kernel may store undefined bytes to any argument and to the workspace.
    const bool mayBecomeUndefined = region.writable && !kernel::kUndefinedLanes.Has(launch.options.level);
    if (launch.options.strict && (!isKnown || mayBecomeUndefined) && region.host != nullptr && region.bytes != 0) {
        region.written = std::make_shared<kernel::WrittenBytes>(region.bytes);
        region.written->Mark(0, isKnown ? region.bytes : 0);
    }
}

/// Adds the constants of the library of the kernel, such as `constexpr __gm__` arrays, at their addresses. Compilers
/// put them into writable segments, because `__gm__` is `volatile`.
void MapConstants(LaunchState& launch)
{
    Dl_info library{};
    const void* code = launch.request.function;
    const bool isFound = code != nullptr && dladdr(code, &library) != 0;
    std::pair<LaunchState*, const void*> found{&launch, isFound ? library.dli_fbase : nullptr};
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t /*size*/, void* context) {
            auto& [state, base] = *static_cast<std::pair<LaunchState*, const void*>*>(context);
            // Without the address of the kernel function, the kernel is in the program, which comes first.
            if (base != nullptr && info->dlpi_addr != reinterpret_cast<uintptr_t>(base)) {
                return 0;
            }
            for (const ElfW(Phdr)* header = info->dlpi_phdr; header < info->dlpi_phdr + info->dlpi_phnum; ++header) {
                if (header->p_type == PT_LOAD && (header->p_flags & PF_X) == 0) {
                    Region region;
                    region.name = "constants of the kernel";
                    region.base = info->dlpi_addr + header->p_vaddr;
                    region.isPlaced = true;
                    region.hasGuards = false;
                    region.host = reinterpret_cast<uint8_t*>(region.base);
                    region.bytes = header->p_memsz;
                    region.writable = false;
                    state->memory.Add(std::move(region));
                }
            }
            return 1;
        },
        &found);
}

/// The descriptors of lists of tensors, by argument; empty for other arguments. ListTensorDesc reads them: the byte
/// offset of the addresses; for each tensor its rank (low half), its index (high half) and its dimensions; the
/// addresses, which are known after all arguments have one.
std::vector<std::vector<uint64_t>> DescriptorsOf(const LaunchRequest& request)
{
    std::vector<std::vector<uint64_t>> descriptors(request.arguments.size());
    for (size_t index = 0; index < request.arguments.size(); ++index) {
        const GmArgument& argument = request.arguments[index];
        if (!argument.isList) {
            continue;
        }
        std::vector<uint64_t>& words = descriptors[index];
        words.push_back(0);
        for (size_t member = 0; member < argument.members.size(); ++member) {
            const std::vector<int64_t>& shape = request.arguments[argument.members[member]].shape;
            words.push_back(static_cast<uint64_t>(member) << 32 | shape.size());
            words.insert(words.end(), shape.begin(), shape.end());
        }
        words.front() = words.size() * sizeof(uint64_t);
        words.resize(words.size() + argument.members.size());
    }
    return descriptors;
}

std::vector<GmPointer> MapArguments(LaunchState& launch, std::vector<uint8_t>& tiling,
                                    std::vector<std::vector<uint64_t>>& descriptors)
{
    const LaunchRequest& request = launch.request;
    for (size_t index = 0; index < request.arguments.size(); ++index) {
        const GmArgument& argument = request.arguments[index];
        Region region;
        region.name = argument.name.empty() ? Text("argument ", index) : argument.name;
        region.host = static_cast<uint8_t*>(argument.data);
        region.bytes = argument.bytes;
        region.writable = argument.isOutput;
        region.misalignment = argument.misalignment;
        region.base = argument.address;
        region.isPlaced = argument.address != 0;
        region.written = argument.written;
        region.isProgramMemory = argument.written != nullptr;
        if (argument.isList) {
            region.host = reinterpret_cast<uint8_t*>(descriptors[index].data());
            region.bytes = descriptors[index].size() * sizeof(uint64_t);
        }
        WatchOrder(launch, region);
        WatchContents(launch, region, argument.isInput);
        launch.memory.Add(std::move(region));
    }
    Region workspace;
    workspace.name = "workspace";
    workspace.host = static_cast<uint8_t*>(request.workspace);
    workspace.bytes = request.workspaceBytes;
    workspace.base = request.workspaceAddress;
    workspace.isPlaced = request.workspaceAddress != 0;
    WatchOrder(launch, workspace);
    WatchContents(launch, workspace, request.isWorkspaceDefined);
    launch.workspaceRegion = launch.memory.Add(std::move(workspace));
    Region blob;
    blob.name = "tiling";
    tiling.resize(tiling.size() + 1);  // a kernel without tiling data still gets a pointer
    blob.host = tiling.data();
    blob.bytes = request.tiling.size();
    blob.writable = false;
    launch.tilingRegion = launch.memory.Add(std::move(blob));
    MapConstants(launch);
    launch.memory.Reserve();

    std::vector<GmPointer> pointers;
    for (uint32_t index = 0; index < request.arguments.size(); ++index) {
        const GmArgument& argument = request.arguments[index];
        if (!argument.isMember) {
            pointers.push_back(PointerTo(launch, index));
        }
        for (size_t member = 0; member < argument.members.size(); ++member) {
            const size_t place = descriptors[index].size() - argument.members.size() + member;
            descriptors[index][place] = launch.memory.AddressOf(static_cast<uint32_t>(argument.members[member]));
        }
    }
    if (request.passWorkspace) {
        pointers.push_back(PointerTo(launch, launch.workspaceRegion));
    }
    if (request.passTiling) {
        pointers.push_back(PointerTo(launch, launch.tilingRegion));
    }
    return pointers;
}

std::string TracePath()
{
    const char* path = std::getenv("OPFORGE_TWIN_TRACE");
    return path == nullptr ? std::string() : path;
}

}  // namespace

namespace {

LaunchReport LaunchChecked(const LaunchRequest& request, const Options& options)
{
    LaunchReport refused = Titled(request);
    const SocFigures* soc = FindSoc(request.soc);
    const kernel::TaskType* type = soc == nullptr ? nullptr : TaskTypeOf(request, *soc);
    if (const std::string refusal = Refusal(request, soc, type); !refusal.empty()) {
        refused.findings.push_back({"launch", -1, "", "", Text(request.opType, ": ", refusal)});
        refused.isComplete = false;
        return refused;
    }
    kernel::InstallHandlers();
    time_model::Select(request.soc);
    const uint64_t seed = options.seed != 0 ? options.seed : FreshSeed();
    for (auto declaration = kernel::Declaration::kNone;;) {
        LaunchReport report = Titled(request);
        LaunchState launch{request, options, *soc, {*type, request.blockNum}, seed};
        launch.tracePath = TracePath();
        launch.hasLines = std::getenv("OPFORGE_TWIN_LINES") != nullptr;
        launch.computes = std::getenv("OPFORGE_TWIN_TIMES_ONLY") == nullptr;
        launch.declaration = declaration;
        std::vector<uint8_t> tiling = request.tiling;
        std::vector<std::vector<uint64_t>> descriptors = DescriptorsOf(request);
        const std::vector<GmPointer> pointers = MapArguments(launch, tiling, descriptors);
        kernel::Scheduler scheduler(launch, [&](Block& block) { RunBlock(block, pointers); });
        launch.scheduler = &scheduler;
        scheduler.Run(report);
        if (launch.declared == nullptr) {
            for (size_t index = 0; request.reportsBytes && index < request.arguments.size(); ++index) {
                const auto& order = launch.memory.Regions()[index].order;
                report.accessed.push_back(order == nullptr ? AccessedBytes{} : order->Accessed());
            }
            return report;
        }
        type = launch.declared;
        declaration = launch.declaredBy;
    }
}

}  // namespace

LaunchReport Launch(const LaunchRequest& request, const Options& options)
{
    try {
        return LaunchChecked(request, options);
    } catch (const std::exception& error) {
        LaunchReport refused = Titled(request);
        refused.findings.push_back({kNoResources, -1, "", "",
                                    Text(request.opType, ": no memory or addresses for the launch (", error.what(),
                                         "); use smaller buffers, or raise the limits of the process (ulimit -v)")});
        refused.isComplete = false;
        return refused;
    }
}

}  // namespace opforge::twin
