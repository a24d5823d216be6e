// Masks, flags, barriers in and between cores, and core indices.
#ifndef OPFORGE_TWIN_KERNEL_SYNC_H
#define OPFORGE_TWIN_KERNEL_SYNC_H

#include "opforge_twin/kernel/gates.h"
#include "opforge_twin/kernel/tensor.h"

namespace opforge::twin::kernel {

/// The flag between two pipes; MAX if there is none.
constexpr AscendC::HardEvent EventBetween(pipe_t from, pipe_t to)
{
    using AscendC::HardEvent;
#define OPFORGE_EVENT(a, b)                 \
    if (from == PIPE_##a && to == PIPE_##b) \
        return HardEvent::a##_##b;
    OPFORGE_EVENT(MTE2, MTE1)
    OPFORGE_EVENT(MTE1, MTE2)
    OPFORGE_EVENT(MTE1, M)
    OPFORGE_EVENT(M, MTE1)
    OPFORGE_EVENT(MTE2, V)
    OPFORGE_EVENT(V, MTE2)
    OPFORGE_EVENT(MTE3, V)
    OPFORGE_EVENT(V, MTE3)
    OPFORGE_EVENT(MTE3, MTE1)
    OPFORGE_EVENT(MTE1, MTE3)
    OPFORGE_EVENT(MTE2, M)
    OPFORGE_EVENT(M, MTE2)
    OPFORGE_EVENT(M, FIX)
    OPFORGE_EVENT(FIX, M)
    OPFORGE_EVENT(MTE3, MTE2)
    OPFORGE_EVENT(MTE2, MTE3)
    OPFORGE_EVENT(S, V)
    OPFORGE_EVENT(V, S)
    OPFORGE_EVENT(S, MTE2)
    OPFORGE_EVENT(MTE2, S)
    OPFORGE_EVENT(S, MTE3)
    OPFORGE_EVENT(MTE3, S)
    OPFORGE_EVENT(MTE2, FIX)
    OPFORGE_EVENT(FIX, MTE2)
    OPFORGE_EVENT(FIX, S)
    OPFORGE_EVENT(M, S)
    OPFORGE_EVENT(FIX, MTE3)
    OPFORGE_EVENT(MTE1, FIX)
    OPFORGE_EVENT(FIX, MTE1)
#undef OPFORGE_EVENT
    return HardEvent::MAX;
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Enables the first `len` elements of each repeat; with MaskMode::COUNTER, of the whole instruction.
template <typename T, MaskMode mode = MaskMode::NORMAL>
OPFORGE_API void SetVectorMask(int64_t len)
{
    twin::SetLeadingMask(len, 256 / static_cast<int64_t>(sizeof(PrimT<T>)), mode == MaskMode::COUNTER,
                         {"SetVectorMask", twin::Here()});
}

template <typename T, MaskMode mode = MaskMode::NORMAL>
OPFORGE_API void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow)
{
    twin::SetMaskRegister(maskHigh, maskLow, {"SetVectorMask", twin::Here()});
}

OPFORGE_API inline void ResetMask()
{
    twin::ResetMaskRegister({"ResetMask", twin::Here()});
}

template <bool isSet = true>
OPFORGE_API void SetMaskCount()
{
    twin::GateSetMaskCount<twin::ValueType<isSet>>();
    twin::SetCounterMode(true, {"SetMaskCount", twin::Here()});
}

OPFORGE_API inline void SetMaskNorm()
{
    twin::SetCounterMode(false, {"SetMaskNorm", twin::Here()});
}

template <HardEvent event>
OPFORGE_API void SetFlag(int32_t eventID)
{
    twin::Set(event, eventID, {"SetFlag", twin::Here()});
}

template <HardEvent event>
OPFORGE_API void WaitFlag(int32_t eventID)
{
    twin::Wait(event, eventID, {"WaitFlag", twin::Here()});
}

/// Flags between two pipes that are template parameters.
template <pipe_t src, pipe_t dst>
class TQueSync {
public:
    static_assert(twin::EventBetween(src, dst) != HardEvent::MAX, "TQueSync: no flag exists between these pipes");

    OPFORGE_API void SetFlag(int8_t id)
    {
        twin::Set(twin::EventBetween(src, dst), id, {"TQueSync::SetFlag", twin::Here()});
    }
    OPFORGE_API void WaitFlag(int8_t id)
    {
        twin::Wait(twin::EventBetween(src, dst), id, {"TQueSync::WaitFlag", twin::Here()});
    }
};

template <pipe_t pipe>
OPFORGE_API void PipeBarrier()
{
    static_assert(pipe != PIPE_S, "PipeBarrier<PIPE_S> does not exist");
    twin::Barrier(pipe, {"PipeBarrier", twin::Here()});
}

/// Waits for the accesses of the scalar unit to memory; on the twin they are finished when the call returns.
template <MemDsbT arg0>
OPFORGE_API void DataSyncBarrier()
{
    twin::Issue({"DataSyncBarrier", twin::Here()});
}

/// Lets the next task of the stream begin; on the twin, tasks do not overlap.
template <pipe_t aivPipe = PIPE_MTE3, pipe_t aicPipe = PIPE_FIX, bool force = false>
OPFORGE_API void SetNextTaskStart()
{
    twin::Issue({"SetNextTaskStart", twin::Here()});
}

template <bool force = false>
OPFORGE_API void WaitPreTaskEnd()
{
    twin::Issue({"WaitPreTaskEnd", twin::Here()});
}

template <bool isAIVOnly = true>
OPFORGE_API void SyncAll()
{
    twin::GateSyncAll<twin::ValueType<isAIVOnly>>();
    twin::SyncCores(isAIVOnly, {"SyncAll", twin::Here()});
}

template <bool isAIVOnly = true>
OPFORGE_API void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
                         const int32_t usedCores = 0)
{
    twin::SyncCoresSoft(gmWorkspace.View(), ubWorkspace.View(), usedCores, {"SyncAll", twin::Here()});
}

/// Sets flag `eventID` of `blockIdx` in gmWorkspace when all instructions before it have finished.
template <bool isAIVOnly = true>
OPFORGE_API void IBSet(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
                       int32_t blockIdx, int32_t eventID)
{
    twin::SetGmFlag(gmWorkspace.View(), ubWorkspace.View(), blockIdx, eventID, {"IBSet", twin::Here()});
}

/// Waits for the flag and clears it.
template <bool isAIVOnly = true>
OPFORGE_API void IBWait(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
                        int32_t blockIdx, int32_t eventID)
{
    twin::WaitGmFlag(gmWorkspace.View(), ubWorkspace.View(), blockIdx, eventID, {"IBWait", twin::Here()});
}

/// Flags between cores that SyncAll uses.
inline constexpr uint16_t SYNC_AIC_FLAG = 11;
inline constexpr uint16_t SYNC_AIV_FLAG = 12;
inline constexpr uint16_t SYNC_AIC_AIV_FLAG = 13;
inline constexpr uint16_t SYNC_AIV_ONLY_ALL = 14;

enum class PipeMode : uint8_t { SCALAR_MODE = 0, MTE3_MODE = 1, MAX };

/// Vector cores of one group wait for those of another one.
template <PipeMode pipeMode>
class GroupBarrier {
public:
    static_assert(pipeMode == PipeMode::MTE3_MODE, "GroupBarrier: Ascend 910B has MTE3_MODE only");
    GroupBarrier(GM_ADDR groupWorkspace, uint32_t arriveSizeIn, uint32_t waitSizeIn)
        : flags_{reinterpret_cast<uint64_t>(groupWorkspace), arriveSizeIn, waitSizeIn}
    {
    }
    OPFORGE_API void Arrive(uint32_t arriveIndex)
    {
        twin::ArriveAtGroup(flags_, arriveIndex, {"GroupBarrier::Arrive", twin::Here()});
    }
    OPFORGE_API void Wait(uint32_t waitIndex)
    {
        twin::WaitForGroup(flags_, waitIndex, {"GroupBarrier::Wait", twin::Here()});
    }
    uint64_t GetWorkspaceLen() const { return uint64_t{flags_.receivers} * 512; }

private:
    twin::GroupFlags flags_;
};

/// Blocks run the code between WaitPreBlock and NotifyNextBlock in the order of their indices.
OPFORGE_API inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t>& gmWorkspace,
                                                      LocalTensor<int32_t>& ubWorkspace)
{
    twin::InitBlockOrder(gmWorkspace.View(), ubWorkspace.View(), {"InitDetermineComputeWorkspace", twin::Here()});
}

OPFORGE_API inline void WaitPreBlock(GlobalTensor<int32_t>& gmWorkspace, LocalTensor<int32_t>& ubWorkspace)
{
    twin::WaitForPrevious(gmWorkspace.View(), ubWorkspace.View(), {"WaitPreBlock", twin::Here()});
}

OPFORGE_API inline void NotifyNextBlock(GlobalTensor<int32_t>& gmWorkspace, LocalTensor<int32_t>& ubWorkspace)
{
    twin::NotifyNext(gmWorkspace.View(), ubWorkspace.View(), {"NotifyNextBlock", twin::Here()});
}

template <uint8_t modeId, pipe_t pipe>
OPFORGE_API void CrossCoreSetFlag(int64_t flagId)
{
    twin::GateCrossCoreSetFlag<twin::ValueType<modeId>>();
    static_assert(modeId <= 2, "CrossCoreSetFlag: the modes are 0, 1 and 2");
    static_assert(pipe != PIPE_S && pipe != PIPE_ALL, "CrossCoreSetFlag: name the pipe whose work must be finished");
    twin::SetCrossCore(modeId, pipe, flagId, {"CrossCoreSetFlag", twin::Here()});
}

template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
OPFORGE_API void CrossCoreWaitFlag(int64_t flagId)
{
    twin::GateCrossCoreWaitFlag<twin::ValueType<modeId>>();
    twin::WaitCrossCore(flagId, {"CrossCoreWaitFlag", twin::Here()});
}

/// Earlier names of CrossCoreSetFlag and CrossCoreWaitFlag.
template <uint8_t modeId, pipe_t pipe>
OPFORGE_API void NotifyEvent(uint16_t flagId)
{
    twin::SetCrossCore(modeId, pipe, flagId, {"NotifyEvent", twin::Here()});
}

template <pipe_t pipe>
OPFORGE_API void NotifyEvent(uint16_t flagId)
{
    twin::SetCrossCore(2, pipe, flagId, {"NotifyEvent", twin::Here()});
}

template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
OPFORGE_API void WaitEvent(uint16_t flagId)
{
    twin::WaitCrossCore(flagId, {"WaitEvent", twin::Here()});
}

OPFORGE_API inline int64_t GetBlockIdx()
{
    const twin::ComposedCall call;
    return twin::BlockIndex();
}

OPFORGE_API inline int64_t GetBlockNum()
{
    const twin::ComposedCall call;
    return twin::BlockCount();
}

/// Returns the index of this vector core in its AI core.
OPFORGE_API inline int64_t GetSubBlockIdx()
{
    const twin::ComposedCall call;
    return twin::SubBlockIndex();
}

OPFORGE_API inline int64_t GetSubBlockNum()
{
    const twin::ComposedCall call;
    return twin::SubBlockCount();
}

OPFORGE_API inline int64_t GetTaskRation()
{
    const twin::ComposedCall call;
    return twin::SubBlockCount();
}

/// Sets an address that flags between cores use on the device; the twin needs none.
inline void SetSyncBaseAddr(uint64_t /*config*/) {}

/// As on the device, the argument is ignored: the user part starts after the system part.
OPFORGE_API inline __gm__ uint8_t* GetUserWorkspace(__gm__ uint8_t* /*workspace*/)
{
    const twin::ComposedCall call;
    return twin::UserWorkspace();
}

}  // namespace AscendC

/// A variable of the device compiler: the number of the block, which the vector cores of a mixed kernel share.
struct OpforgeBlockIndex {
    OPFORGE_API operator int64_t() const
    {
        const opforge::twin::kernel::ComposedCall call;
        return AscendC::GetBlockIdx() / AscendC::GetSubBlockNum();
    }
};
inline constexpr OpforgeBlockIndex block_idx;

OPFORGE_API inline void pipe_barrier(pipe_t pipe)
{
    opforge::twin::kernel::Barrier(pipe, {"pipe_barrier", opforge::twin::kernel::Here()});
}

OPFORGE_API inline __gm__ uint8_t* GetSysWorkSpacePtr()
{
    const opforge::twin::kernel::ComposedCall call;
    return opforge::twin::kernel::SystemWorkspace();
}

#endif  // OPFORGE_TWIN_KERNEL_SYNC_H
