// Flags, barriers, meetings of blocks, and what a block knows about itself and its launch.
#include <cstring>

#include "kernel/exec/block.h"
#include "kernel/exec/scheduler.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::HardEvent;

constexpr int64_t kSoftSyncBytes = 32;
constexpr Call kKernelEnd{"end of the kernel", {}};

constexpr const char* kTaskTypes[] = {"AIV_ONLY",    "AIC_ONLY", "MIX_AIV_1_0", "MIX_AIC_1_0", "MIX_AIC_1_1",
                                      "MIX_AIC_1_2", "AICORE",   "VECTORCORE",  "MIX_AICORE",  "MIX_VECTOR_CORE"};
constexpr int64_t kLastUserFlag = 10;  // SyncAll uses 11..14

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

/// All cores that are to meet must run at once.
void RequireCores(Block& block, const Call& call)
{
    const LaunchState& launch = block.launch;
    if (!launch.layout.FitsOn(launch.soc)) {
        const bool hasCubes = launch.layout.Type().cubes > 0;
        block.Fail("sync_block_num", Pipe::kScalar, call,
                   Text(launch.request.blockNum, " blocks are to meet, but ", launch.request.soc, " has ",
                        hasCubes ? launch.soc.cubeCores : launch.soc.vectorCores, hasCubes ? " cube" : " vector",
                        " cores: the others would never start"));
    }
}

void RequireMeeting(Block& block, const Call& call)
{
    const TaskType& type = block.taskType == nullptr ? block.launch.layout.Type() : *block.taskType;
    if (!type.meets) {
        block.Fail("sync_task_type", Pipe::kScalar, call,
                   Text("a kernel of type ", type.name,
                        " has no scheduler between cores; declare "
                        "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_",
                        type.cubes > 0 ? "MIX_AIC_1_2)" : "MIX_AIV_1_0)"));
    }
    RequireCores(block, call);
}

}  // namespace

int32_t FetchEvent(HardEvent event, const Call& call)
{
    const Entry block(call);
    return block->FreeEvent(event, call);
}

int32_t AllocateEvent(HardEvent event, const Call& call)
{
    const Entry block(call);
    const int32_t id = block->FreeEvent(event, call);
    EventState& state = block->Event(event);
    state.reserved[static_cast<size_t>(id)] = true;
    state.reservedAt[static_cast<size_t>(id)] = call.at;
    return id;
}

void ReleaseEvent(HardEvent event, int64_t id, const Call& call)
{
    const Entry block(call);
    Field("event id", id, 0, EventState::kIds - 1, call);
    EventState& state = block->Event(event);
    Location& reservedAt = state.reservedAt[static_cast<size_t>(id)];
    if (reservedAt.line == 0) {
        block->Fail("event_ids", Pipe::kScalar, call,
                    Text("id ", id, " of ", Name(event),
                         " was not given out by AllocEventID; release what that returned, once"));
    }
    state.reserved[static_cast<size_t>(id)] = false;
    reservedAt = {};
}

void Set(HardEvent event, int64_t id, const Call& call)
{
    const Entry block(call);
    block->SetEvent(event, Field("event id", id, 0, EventState::kIds - 1, call), call);
}

void Wait(HardEvent event, int64_t id, const Call& call)
{
    const Entry block(call);
    block->WaitEvent(event, Field("event id", id, 0, EventState::kIds - 1, call), call);
}

void Barrier(pipe_t pipe, const Call& call)
{
    const Entry block(call);
    if (pipe == PIPE_S) {
        block->Fail("field_range", Pipe::kScalar, call, "a barrier on PIPE_S does not exist");
    }
    block->RequirePipe(PipeOf(pipe), call);
    block->PassBarrier(PipeOf(pipe));
}

void SyncCores(bool isAivOnly, const Call& call)
{
    const Entry block(call);
    RequireMeeting(*block, call);
    const bool isMixed = block->launch.layout.IsMixed();
    if (isAivOnly ? block->seat.kind == CoreKind::kCube : !isMixed) {
        block->Fail(
            "sync_task_type", Pipe::kScalar, call,
            isAivOnly ? "SyncAll<true>, the default, is a meeting of AIV cores; all cores of a MIX_AIC launch meet in "
                        "SyncAll<false>, cube cores alone with CrossCoreSetFlag of mode 0"
                      : "SyncAll<false> is a meeting of AIC and AIV cores; with one kind of cores it hangs");
    }
    block->launch.scheduler->Meet(*block, isAivOnly, call);
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
                    "the soft SyncAll is for launches without cube cores; use SyncAll<true>() or SyncAll<false>()");
    }
    RequireCores(*block, call);
    const int64_t bytes = cores * kSoftSyncBytes;
    block->Use(ubWorkspace, bytes, Pipe::kVector, AccessKind::kWrite, kSoftSyncBytes, "ubWorkspace", call);
    const uint8_t* counters = block->Resolve(gmWorkspace, gmWorkspace.address, static_cast<uint64_t>(bytes),
                                             Pipe::kMte3, AccessKind::kWrite, "gmWorkspace", call);
    const uint8_t* own = counters + block->index * kSoftSyncBytes;
    uint64_t left = 0;
    std::memcpy(&left, own, sizeof(left));
    if (block->syncs[0] == 0 && left != 0) {
        block->Fail("sync_workspace", Pipe::kScalar, call,
                    "gmWorkspace is not zero; clear blocks * 32 bytes of it on the host or before another SyncAll");
    }
    block->launch.scheduler->Meet(*block, true, call);
}

void SetCrossCore(int64_t mode, pipe_t pipe, int64_t flag, const Call& call)
{
    const Entry block(call);
    RequireMeeting(*block, call);
    const CoreLayout& layout = block->launch.layout;
    Field("mode", mode, 0, layout.IsMixed() ? 2 : 0, call);
    if (mode == 1) {
        block->Require(CoreKind::kVector, call);
    }
    block->RequirePipe(PipeOf(pipe), call);
    block->launch.scheduler->SetShared(*block, mode, PipeOf(pipe),
                                       Field("flagId (SyncAll uses 11..14)", flag, 0, kLastUserFlag, call), call);
}

void WaitCrossCore(int64_t flag, const Call& call)
{
    const Entry block(call);
    RequireMeeting(*block, call);
    block->launch.scheduler->WaitShared(*block, Field("flagId (SyncAll uses 11..14)", flag, 0, kLastUserFlag, call),
                                        call);
}

int64_t BlockIndex()
{
    return static_cast<int64_t>(Entry({"GetBlockIdx", {}})->seat.blockIndex);
}

int64_t BlockCount()
{
    return static_cast<int64_t>(Entry({"GetBlockNum", {}})->launch.request.blockNum);
}

bool IsCubeCore()
{
    return Entry({"ASCEND_IS_AIC", {}})->seat.kind == CoreKind::kCube;
}

int64_t SubBlockIndex()
{
    return static_cast<int64_t>(Entry({"GetSubBlockIdx", {}})->seat.subBlock);
}

int64_t SubBlockCount()
{
    const Entry block({"GetSubBlockNum", {}});
    return block->seat.kind == CoreKind::kCube ? 1 : static_cast<int64_t>(block->launch.layout.Type().vectors);
}

volatile uint8_t* UserWorkspace()
{
    volatile uint8_t* start = SystemWorkspace();
    return start == nullptr ? nullptr : start + kSystemWorkspaceBytes;
}

volatile uint8_t* SystemWorkspace()
{
    const Entry block({"GetSysWorkSpacePtr", {}});
    const LaunchState& launch = block->launch;
    return reinterpret_cast<volatile uint8_t*>(static_cast<uintptr_t>(launch.memory.AddressOf(launch.workspaceRegion)));
}

void DeclareTaskType(KernelMetaType type, const Call& call)
{
    const Entry block(call);
    const char* name = type < std::size(kTaskTypes) ? kTaskTypes[type] : "an unknown type";
    const TaskType* declared = FindTaskType(name);
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
    return Entry({"TILING_KEY_IS", {}})->launch.request.tilingKey;
}

bool TilingKeyIs(uint64_t key)
{
    const Entry block({"TILING_KEY_IS", {}});
    block->askedKeys.insert(key);
    return block->launch.request.tilingKey == key;
}

void ReadTiling(void* destination, uint64_t offset, uint64_t bytes, volatile const uint8_t* tiling, const Call& call)
{
    const Entry block(call);
    const LaunchState& launch = block->launch;
    const std::vector<uint8_t>& blob = launch.request.tiling;
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

void Block::Finish()
{
    if (!askedKeys.empty() && askedKeys.count(launch.request.tilingKey) == 0) {
        std::string branches;
        for (const uint64_t key : askedKeys) {
            branches += Text(branches.empty() ? "" : ", ", key);
        }
        Report("tiling_key", Pipe::kScalar, kKernelEnd,
               Text("no TILING_KEY_IS branch of the kernel has key ", launch.request.tilingKey, ", expected one of ",
                    branches, "; make tilingKey in the plan one of the spec's keys"));
    }
    for (size_t event = 0; event < events_.size(); ++event) {
        for (size_t id = 0; id < events_[event].set.size(); ++id) {
            if (const Location& at = events_[event].reservedAt[id]; at.line != 0) {
                Report("event_ids", Pipe::kScalar, {kKernelEnd.name, at},
                       Text("id ", id, " of ", Name(static_cast<HardEvent>(event)),
                            " from AllocEventID is never given back; call ReleaseEventID behind its last wait, or take "
                            "FetchEventID"));
            }
            if (events_[event].set[id]) {
                Report("flag_left_set", Pipe::kScalar, {kKernelEnd.name, events_[event].setAt[id]},
                       Text("flag ", Name(static_cast<HardEvent>(event)), " id ", id,
                            " is set here and never waited for; it would break the next kernel on this core"));
            }
        }
    }
    for (const auto& [address, tile] : unitFlags) {
        if (tile.flag != kUnitFlagOff) {
            Report("unit_flag", Pipe::kScalar, {kKernelEnd.name, tile.at},
                   "the tile of this product with a unit flag was not stored by a Fixpipe with unitFlag 3; the next "
                   "kernel that uses it would hang");
        }
    }
    if (isHf32 || truncatesToHf32) {
        Report("hf32_left", Pipe::kScalar, {kKernelEnd.name, hf32At},
               "the mode of HF32 set here is still on; call SetHF32Mode(false) and SetHF32TransMode(false)");
    }
    if (atomic != AtomicOp::kNone) {
        Report("atomic_left_on", Pipe::kScalar, {kKernelEnd.name, atomicAt},
               "the atomic mode set here is still on; call SetAtomicNone() after the last store that needs it");
    }
    if (counterMode || maskChanged) {
        Report("mask_left", Pipe::kScalar, {kKernelEnd.name, maskChangedAt},
               counterMode ? "counter mode is still on; call SetMaskNorm() and ResetMask()"
                           : "the mask set here is still in force; call ResetMask()");
    }
    if (cache.DirtyLines() != 0) {
        Report("cache_not_flushed", Pipe::kScalar, {kKernelEnd.name, cache.DirtyAt()},
               Text(cache.DirtyLines(),
                    " cache lines of 64 bytes written by SetValue were not flushed; call "
                    "DataCacheCleanAndInvalid for each, at or before its first changed element (the line is flushed "
                    "from there to its end), or write through DataCopyPad"));
    }
}

}  // namespace opforge::twin::kernel
