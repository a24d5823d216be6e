// Flags, barriers, barriers between blocks, and properties of the block and its launch.
#include <cstring>

#include "kernel/exec/block.h"
#include "kernel/exec/levels.h"
#include "kernel/exec/scheduler.h"
#include "kernel/order/sync.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::HardEvent;

constexpr int64_t kSoftSyncBytes = 32;

constexpr const char* kTaskTypes[] = {"AIV_ONLY",    "AIC_ONLY", "MIX_AIV_1_0", "MIX_AIC_1_0", "MIX_AIC_1_1",
                                      "MIX_AIC_1_2", "AICORE",   "VECTORCORE",  "MIX_AICORE",  "MIX_VECTOR_CORE"};
// SyncAll of the device uses 11..14.
constexpr int64_t kLastUserFlag = 10, kLastFlag = 15;

int64_t RequireFlag(const Block& block, int64_t flag, const Call& call)
{
    const bool isOfUser = kSyncAllFlags.Has(block.launch.options.level) && flag != kLastFlag;
    return Field("flagId (SyncAll uses 11..14)", flag, 0, isOfUser ? kLastUserFlag : kLastFlag, call);
}

Pipe PipeOf(pipe_t pipe)
{
    switch (pipe) {
        case PIPE_V:
            return Pipe::kVector;
        case PIPE_M:
            return Pipe::kCube;
        case PIPE_MTE1:
            return Pipe::kMte1;
        case PIPE_MTE2:
            return Pipe::kMte2;
        case PIPE_MTE3:
            return Pipe::kMte3;
        case PIPE_FIX:
            return Pipe::kFix;
        case PIPE_ALL:
            return Pipe::kAll;
        default:
            return Pipe::kScalar;
    }
}

/// All cores of a barrier must run at once.
void RequireCores(Block& block, const Call& call)
{
    const LaunchState& launch = block.launch;
    if (!launch.layout.FitsOn(launch.soc)) {
        const bool hasCubes = launch.layout.Type().cubes > 0;
        block.Fail("sync_block_num", Pipe::kScalar, call,
                   Text(launch.request.blockNum, " blocks wait for each other, but ", launch.request.soc, " has ",
                        hasCubes ? launch.soc.cubeCores : launch.soc.vectorCores,
                        hasCubes                                    ? " cube"
                        : block.position.kind == CoreKind::kCoupled ? ""
                                                                    : " vector",
                        " cores: the others would never start"));
    }
}

/// A flag of SetFlag and WaitFlag; ends the block if there is none, or no such id.
int64_t RequireEvent(Block& block, HardEvent event, int64_t id, const Call& call)
{
    if (event == HardEvent::MAX) {
        block.Fail("field_range", Pipe::kScalar, call,
                   "there is no flag between these pipes; use pipes of a HardEvent");
    }
    return Field("event id", id, 0, block.launch.soc.eventIds - 1, call);
}

}  // namespace

void RequireBarrier(Block& block, const Call& call)
{
    const TaskType& type = block.Type();
    const bool isForgiven = type.cubes == 0 && !kBarrierTaskType.Has(block.launch.options.level);
    if (!type.hasBarrier && !isForgiven) {
        block.Fail("sync_task_type", Pipe::kScalar, call,
                   Text("a kernel of type ", type.name,
                        " has no scheduler between cores; declare "
                        "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_",
                        type.cubes > 0 ? "MIX_AIC_1_2)" : "MIX_AIV_1_0)"));
    }
    RequireCores(block, call);
}

void RequireGroups(Block& block, const Call& call)
{
    if (!block.launch.soc.HasGroups()) {
        block.Fail("api_contract", Pipe::kScalar, call,
                   Text(block.launch.soc.name,
                        " has no groups of cores, expected a chip of Ascend 910B; use "
                        "CrossCoreSetFlag"));
    }
}

int32_t FetchEvent(HardEvent event, const Call& call)
{
    const Entry block(call);
    return block->ordering.FreeEvent(event, call);
}

int32_t AllocateEvent(HardEvent event, const Call& call)
{
    const Entry block(call);
    return block->ordering.ReserveEvent(event, call);
}

void ReleaseEvent(HardEvent event, int64_t id, const Call& call)
{
    const Entry block(call);
    block->ordering.ReleaseEvent(event, Field("event id", id, 0, block->launch.soc.eventIds - 1, call), call);
}

void Set(HardEvent event, int64_t id, const Call& call)
{
    const Entry block(call);
    block->ordering.SetEvent(event, RequireEvent(*block, event, id, call), call);
}

void Wait(HardEvent event, int64_t id, const Call& call)
{
    const Entry block(call);
    const bool mayBeOfPipe = block->position.kind == CoreKind::kCube && block->local.pipe != nullptr &&
                             !kPipeFlags.Has(block->launch.options.level);
    block->ordering.WaitEvent(event, RequireEvent(*block, event, id, call), mayBeOfPipe, call);
}

void Barrier(pipe_t pipe, const Call& call)
{
    const Entry block(call);
    if (pipe == PIPE_S) {
        block->Fail("field_range", Pipe::kScalar, call, "a barrier on PIPE_S does not exist; use a flag such as V_S");
    }
    block->RequirePipe(PipeOf(pipe), call);
    block->ordering.PassBarrier(PipeOf(pipe));
}

void SyncCores(bool isAivOnly, const Call& call)
{
    const Entry block(call);
    RequireBarrier(*block, call);
    const bool isMixed = block->launch.layout.IsMixed();
    if (isAivOnly ? block->position.kind == CoreKind::kCube : !isMixed) {
        block->Fail("sync_task_type", Pipe::kScalar, call,
                    isAivOnly ? "SyncAll<true>, the default, is a barrier of AIV cores; use SyncAll<false> for all "
                                "cores of a MIX_AIC "
                                "launch, and CrossCoreSetFlag of mode 0 for cube cores alone"
                              : "SyncAll<false> is a barrier of AIC and AIV cores; with one kind of cores it hangs");
    }
    block->launch.scheduler->Barrier(*block, isAivOnly, call);
}

void SyncCoresSoft(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, int64_t usedCores, const Call& call)
{
    const Entry block(call);
    const int64_t cores = usedCores == 0 ? block->launch.request.blockNum : usedCores;
    if (cores != static_cast<int64_t>(block->launch.request.blockNum)) {
        block->Fail("field_range", Pipe::kScalar, call,
                    Text("usedCores is ", usedCores, ", expected 0 or all ", block->launch.request.blockNum,
                         " blocks of the launch"));
    }
    if (block->launch.layout.Type().cubes > 0) {
        block->Fail("sync_task_type", Pipe::kScalar, call,
                    "the software SyncAll is for launches without cube cores; use SyncAll<true>() or SyncAll<false>()");
    }
    RequireCores(*block, call);
    const int64_t bytes = cores * kSoftSyncBytes;
    block->checks.Use(ubWorkspace, bytes, Pipe::kVector, AccessKind::kWrite, kSoftSyncBytes, "ubWorkspace", call);
    const uint8_t* counters = block->checks.Resolve(gmWorkspace, gmWorkspace.address, static_cast<uint64_t>(bytes),
                                                    Pipe::kMte3, AccessKind::kWrite, "gmWorkspace", call);
    const uint8_t* own = counters + block->index * kSoftSyncBytes;
    uint64_t left = 0;
    std::memcpy(&left, own, sizeof(left));
    if (block->ordering.Syncs()[0] == 0 && left != 0) {
        block->Fail("sync_workspace", Pipe::kScalar, call,
                    "gmWorkspace is not zero; clear blocks * 32 bytes of it on the host or before another SyncAll");
    }
    block->launch.scheduler->Barrier(*block, true, call);
}

namespace {

/// Checks the workspaces; returns the address of flag `index`. `ubFlags`: flags for which ubWorkspace has space.
uint64_t GmFlag(Block& block, const GlobalView& gmWorkspace, const LocalView& ubWorkspace, int64_t index,
                int64_t ubFlags, const Call& call)
{
    block.Require(CoreKind::kVector, call);
    block.checks.Use(ubWorkspace, ubFlags * kSoftSyncBytes, Pipe::kVector, AccessKind::kWrite, kSoftSyncBytes,
                     "ubWorkspace", call);
    const uint64_t address = gmWorkspace.address + static_cast<uint64_t>(index * kSoftSyncBytes);
    block.checks.Resolve(gmWorkspace, address, kSoftSyncBytes, Pipe::kMte3, AccessKind::kWrite, "gmWorkspace", call);
    return address;
}

uint64_t GmFlag(Block& block, const GlobalView& gmWorkspace, const LocalView& ubWorkspace, int64_t index, int64_t event,
                int64_t blocks, const Call& call)
{
    Field("blockIdx", index, 0, blocks - 1, call);
    Field("eventID", event, 0, INT32_MAX, call);
    return GmFlag(block, gmWorkspace, ubWorkspace, event * blocks + index, 1, call);
}

int64_t BlocksOf(const Block& block)
{
    return block.launch.request.blockNum;
}

}  // namespace

void SetGmFlag(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, int64_t index, int64_t event,
               const Call& call)
{
    const Entry block(call);
    const uint64_t flag = GmFlag(*block, gmWorkspace, ubWorkspace, index, event, BlocksOf(*block), call);
    block->launch.scheduler->SetGmFlag(*block, flag, call);
}

void WaitGmFlag(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, int64_t index, int64_t event,
                const Call& call)
{
    const Entry block(call);
    const uint64_t flag = GmFlag(*block, gmWorkspace, ubWorkspace, index, event, BlocksOf(*block), call);
    block->launch.scheduler->WaitGmFlag(*block, flag, call);
}

namespace {

constexpr int64_t kGroupFlagBytes = 512;
constexpr int64_t kGroupScratchBytes = 1600;

/// Checks the memory of a GroupBarrier; returns the flag of a sender for a receiver.
uint64_t GroupFlag(Block& block, const GroupFlags& flags, int64_t sender, int64_t receiver, const Call& call)
{
    const uint64_t address = flags.workspace + static_cast<uint64_t>(receiver * kGroupFlagBytes);
    GlobalView view;
    view.address = address;
    block.checks.Resolve(view, address, kGroupFlagBytes, Pipe::kMte3, AccessKind::kWrite, "groupWorkspace", call);
    return address + static_cast<uint64_t>(sender);
}

void CheckGroup(Block& block, const GroupFlags& flags, const Call& call)
{
    block.Require(CoreKind::kVector, call);
    RequireGroups(block, call);
    Field("arriveSize", flags.senders, 1, kGroupFlagBytes, call);
    Field("waitSize", flags.receivers, 1, kGroupFlagBytes, call);
    if (flags.workspace % kGroupFlagBytes != 0) {
        block.Fail("api_contract", Pipe::kScalar, call,
                   "groupWorkspace is not at a multiple of 512 bytes; round its address up");
    }
    const int64_t left = block.local.UnifiedBuffer().Left();
    if (left < kGroupScratchBytes) {
        block.Fail("no_scratch", Pipe::kScalar, call,
                   Text("GroupBarrier uses the end of the unified buffer; ", left,
                        " bytes are left, expected at least ", kGroupScratchBytes));
    }
}

}  // namespace

void ArriveAtGroup(const GroupFlags& flags, int64_t sender, const Call& call)
{
    const Entry block(call);
    CheckGroup(*block, flags, call);
    Field("arriveIndex", sender, 0, int64_t{flags.senders} - 1, call);
    for (int64_t receiver = 0; receiver < flags.receivers; ++receiver) {
        block->launch.scheduler->CountGmFlag(*block, GroupFlag(*block, flags, sender, receiver, call), call);
    }
}

void WaitForGroup(const GroupFlags& flags, int64_t receiver, const Call& call)
{
    const Entry block(call);
    CheckGroup(*block, flags, call);
    Field("waitIndex", receiver, 0, int64_t{flags.receivers} - 1, call);
    for (int64_t sender = 0; sender < flags.senders; ++sender) {
        block->launch.scheduler->WaitGmFlag(*block, GroupFlag(*block, flags, sender, receiver, call), call);
    }
}

void InitBlockOrder(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, const Call& call)
{
    const Entry block(call);
    const uint64_t own = GmFlag(*block, gmWorkspace, ubWorkspace, block->index, BlocksOf(*block) + 1, call);
    if (block->index == 0) {
        block->launch.scheduler->SetGmFlag(*block, own, call);
    }
}

void WaitForPrevious(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, const Call& call)
{
    const Entry block(call);
    const uint64_t own = GmFlag(*block, gmWorkspace, ubWorkspace, block->index, BlocksOf(*block) + 1, call);
    block->launch.scheduler->WaitGmFlag(*block, own, call);
}

void NotifyNext(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, const Call& call)
{
    const Entry block(call);
    const int64_t next = (block->index + 1) % BlocksOf(*block);
    const uint64_t flag = GmFlag(*block, gmWorkspace, ubWorkspace, next, BlocksOf(*block) + 1, call);
    block->launch.scheduler->SetGmFlag(*block, flag, call);
}

void SetCrossCore(int64_t mode, pipe_t pipe, int64_t flag, const Call& call)
{
    const Entry block(call);
    RequireBarrier(*block, call);
    const CoreLayout& layout = block->launch.layout;
    Field("mode", mode, 0, layout.IsMixed() ? 2 : 0, call);
    if (mode == 1) {
        block->Require(CoreKind::kVector, call);
    }
    block->RequirePipe(PipeOf(pipe), call);
    block->launch.scheduler->SetShared(*block, mode, PipeOf(pipe), RequireFlag(*block, flag, call), call);
}

void WaitCrossCore(int64_t flag, const Call& call)
{
    const Entry block(call);
    RequireBarrier(*block, call);
    block->launch.scheduler->WaitShared(*block, RequireFlag(*block, flag, call), call);
}

int64_t BlockIndex()
{
    return static_cast<int64_t>(Entry({"GetBlockIdx", Here()})->position.blockIndex);
}

int64_t BlockCount()
{
    return static_cast<int64_t>(Entry({"GetBlockNum", Here()})->launch.request.blockNum);
}

bool IsCubeCore()
{
    return Entry({"ASCEND_IS_AIC", Here()})->position.kind == CoreKind::kCube;
}

bool IsVectorCore()
{
    return Entry({"ASCEND_IS_AIV", Here()})->position.kind == CoreKind::kVector;
}

int64_t SubBlockIndex()
{
    return static_cast<int64_t>(Entry({"GetSubBlockIdx", Here()})->position.subBlock);
}

int64_t SubBlockCount()
{
    const Entry block({"GetSubBlockNum", Here()});
    return block->position.kind == CoreKind::kCube ? 1 : static_cast<int64_t>(block->launch.layout.Type().vectors);
}

volatile uint8_t* UserWorkspace()
{
    volatile uint8_t* start = SystemWorkspace();
    return start == nullptr ? nullptr : start + Entry({"GetUserWorkspace", Here()})->launch.soc.SystemWorkspaceBytes();
}

volatile uint8_t* SystemWorkspace()
{
    const Entry block({"GetSysWorkSpacePtr", Here()});
    const LaunchState& launch = block->launch;
    const uint64_t address = block->registers.systemWorkspace.value_or(launch.memory.AddressOf(launch.workspaceRegion));
    return reinterpret_cast<volatile uint8_t*>(static_cast<uintptr_t>(address));
}

void DeclareTaskType(KernelMetaType type, const Call& call)
{
    const Entry block(call);
    const char* name = type < std::size(kTaskTypes) ? kTaskTypes[type] : "an unknown type";
    const TaskType* declared = FindTaskType(name, block->launch.soc.isCoupled);
    const bool isOther = declared == nullptr && type < std::size(kTaskTypes);
    if (isOther && !kOtherTaskType.Has(block->launch.options.level)) {
        return;
    }
    if (declared == nullptr) {
        block->Fail("task_type", Pipe::kScalar, call,
                    Text("got ", name,
                         ", expected AIV_ONLY, AIC_ONLY, MIX_AIV_1_0, MIX_AIC_1_0, MIX_AIC_1_1 or "
                         "MIX_AIC_1_2: the types of Ascend 910B"));
    }
    block->Declare(*declared, call);
}

uint64_t TilingKey()
{
    return Entry({"TILING_KEY_IS", Here()})->launch.request.tilingKey;
}

bool TilingKeyIs(uint64_t key)
{
    const Entry block({"TILING_KEY_IS", Here()});
    return block->HasTilingKey(key);
}

void ReadTiling(void* destination, uint64_t offset, uint64_t bytes, volatile const uint8_t* tiling, const Call& call)
{
    const Entry block(call);
    LaunchState& launch = block->launch;
    const std::vector<uint8_t>& blob = launch.request.tiling;
    const auto address = reinterpret_cast<uintptr_t>(tiling);
    if (const Region* region = launch.memory.Find(address); region != nullptr && region->isPlaced) {
        const uint64_t first = address - region->base + offset;  // wraps around before the start
        if (first > region->bytes || bytes > region->bytes - first) {
            block->Fail("tiling_data", Pipe::kScalar, call,
                        Text("the kernel reads ", bytes, " bytes of tiling data at byte ", first, " of '", region->name,
                             "', which has ", region->bytes, " bytes; host and kernel must use the same struct"));
        }
        std::memcpy(destination, region->host + first, bytes);
        return;
    }
    if (reinterpret_cast<uintptr_t>(tiling) != launch.memory.AddressOf(launch.tilingRegion)) {
        block->Fail("tiling_data", Pipe::kScalar, call,
                    "the pointer is not the kernel's tiling argument; workspace comes before tiling");
    }
    if (offset + bytes > blob.size()) {
        block->Fail("tiling_data", Pipe::kScalar, call,
                    Text("the kernel reads ", offset + bytes, " bytes of tiling data, the launch has ", blob.size(),
                         "; host and kernel must use the same struct"));
    }
    std::memcpy(destination, blob.data() + offset, bytes);
}

}  // namespace opforge::twin::kernel
