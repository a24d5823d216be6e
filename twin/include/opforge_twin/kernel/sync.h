// Masks, flags, barriers in and between cores, and core indices.
#ifndef OPFORGE_TWIN_KERNEL_SYNC_H
#define OPFORGE_TWIN_KERNEL_SYNC_H

#include "opforge_twin/kernel/tensor.h"

namespace AscendC {

/// Enables the first `len` elements of each repeat; with MaskMode::COUNTER, of the whole instruction.
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int64_t len, twin::Location at = twin::Location::Here())
{
    twin::SetLeadingMask(len, 256 / static_cast<int64_t>(sizeof(T)), mode == MaskMode::COUNTER, {"SetVectorMask", at});
}

template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow, twin::Location at = twin::Location::Here())
{
    twin::SetMaskRegister(maskHigh, maskLow, {"SetVectorMask", at});
}

inline void ResetMask(twin::Location at = twin::Location::Here())
{
    twin::ResetMaskRegister({"ResetMask", at});
}

inline void SetMaskCount(twin::Location at = twin::Location::Here())
{
    twin::SetCounterMode(true, {"SetMaskCount", at});
}

inline void SetMaskNorm(twin::Location at = twin::Location::Here())
{
    twin::SetCounterMode(false, {"SetMaskNorm", at});
}

template <HardEvent event>
void SetFlag(int64_t eventID, twin::Location at = twin::Location::Here())
{
    twin::Set(event, eventID, {"SetFlag", at});
}

template <HardEvent event>
void WaitFlag(int64_t eventID, twin::Location at = twin::Location::Here())
{
    twin::Wait(event, eventID, {"WaitFlag", at});
}

template <pipe_t pipe>
void PipeBarrier(twin::Location at = twin::Location::Here())
{
    static_assert(pipe != PIPE_S, "PipeBarrier<PIPE_S> does not exist");
    twin::Barrier(pipe, {"PipeBarrier", at});
}

template <bool isAIVOnly = true>
void SyncAll(twin::Location at = twin::Location::Here())
{
    twin::SyncCores(isAIVOnly, {"SyncAll", at});
}

template <bool isAIVOnly = true>
void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
             const int32_t usedCores = 0, twin::Location at = twin::Location::Here())
{
    twin::SyncCoresSoft(gmWorkspace.View(), ubWorkspace.View(), usedCores, {"SyncAll", at});
}

template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(int64_t flagId, twin::Location at = twin::Location::Here())
{
    static_assert(modeId <= 2, "CrossCoreSetFlag: the modes are 0, 1 and 2");
    static_assert(pipe != PIPE_S && pipe != PIPE_ALL, "CrossCoreSetFlag: name the pipe whose work must be finished");
    twin::SetCrossCore(modeId, pipe, flagId, {"CrossCoreSetFlag", at});
}

template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(int64_t flagId, twin::Location at = twin::Location::Here())
{
    twin::WaitCrossCore(flagId, {"CrossCoreWaitFlag", at});
}

inline int64_t GetBlockIdx()
{
    return twin::BlockIndex();
}

inline int64_t GetBlockNum()
{
    return twin::BlockCount();
}

/// Returns the index of this vector core in its AI core.
inline int64_t GetSubBlockIdx()
{
    return twin::SubBlockIndex();
}

inline int64_t GetSubBlockNum()
{
    return twin::SubBlockCount();
}

inline int64_t GetTaskRation()
{
    return twin::SubBlockCount();
}

/// As on the device, the argument is ignored: the user part starts at byte 16 MiB of the workspace.
inline __gm__ uint8_t* GetUserWorkspace(__gm__ uint8_t* /*workspace*/)
{
    return twin::UserWorkspace();
}

}  // namespace AscendC

inline void pipe_barrier(pipe_t pipe, opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
{
    opforge::twin::kernel::Barrier(pipe, {"pipe_barrier", at});
}

inline __gm__ uint8_t* GetSysWorkSpacePtr()
{
    return opforge::twin::kernel::SystemWorkspace();
}

#endif  // OPFORGE_TWIN_KERNEL_SYNC_H
