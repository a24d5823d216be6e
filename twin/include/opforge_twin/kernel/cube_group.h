// Groups of cube cores: vector cores send messages, and the cube cores of the group call a function for each.
#ifndef OPFORGE_TWIN_KERNEL_CUBE_GROUP_H
#define OPFORGE_TWIN_KERNEL_CUBE_GROUP_H

#include "opforge_twin/kernel/sync.h"

namespace AscendC {

inline constexpr uint32_t MAX_MSG_PER_AIV = 4;

enum class CubeMsgState : uint8_t { FREE = 0, VALID, QUIT, FAKE };

/// The first bytes of each message.
struct CubeGroupMsgHead {
    volatile CubeMsgState msgState = CubeMsgState::FREE;
    volatile uint8_t aivID;
};

template <int32_t ActualFuncId, int32_t ExpectFuncId>
struct IsEqual {};
template <int32_t FuncId>
struct IsEqual<FuncId, FuncId> {
    using Type = void;
};

}  // namespace AscendC

namespace opforge::twin::kernel {

struct CubeGroupSize {
    uint8_t blockStart = 0;  ///< twice the first cube core
    uint8_t blockSize = 0;   ///< twice the number of cube cores
    uint8_t queues = 0;
    int32_t event = -1;  ///< MTE3_S
};

/// A group as one core uses it. Plain data: kernels copy handles.
struct CubeGroup {
    int32_t area = -1;  ///< the messages; -1: no group
    CubeGroupSize size;
    int16_t queue = -1;          ///< of a vector core
    uint8_t row = 0;             ///< of the next message
    uint8_t column = 0;          ///< of the next message of a cube core
    uint64_t workingQueues = 0;  ///< of a cube core: a bit for each column
    bool isInCall = false;       ///< the cube core runs the function of the kernel
};

using MessagePointer = volatile uint8_t*;

/// Returns the event id of MTE3_S for messages that MTE3 writes; -1 on a cube core.
int32_t OpenKfcWorkspace(const Call& call);
void CloseKfcWorkspace(int32_t event);
void ReportSharedWorkspace(const Call& call);
CubeGroup OpenGroup(MessagePointer workspace, uint32_t messageBytes, const CubeGroupSize& size, const Call& call);
/// The bytes of the messages of all queues.
uint32_t BytesOf(const CubeGroup& group);

// Vector cores
void BindQueue(CubeGroup& group, int64_t queue, const Call& call);
MessagePointer AllocateMessage(CubeGroup& group, AscendC::PipeMode mode, const Call& call);
/// These functions return the offset of the message from the first one of the queue.
uint16_t PostMessage(const CubeGroup& group, MessagePointer message, const void* content, AscendC::PipeMode mode,
                     const Call& call);
uint16_t PostState(const CubeGroup& group, MessagePointer message, AscendC::CubeMsgState state, const Call& call);
bool AwaitMessage(const CubeGroup& group, int64_t offset, bool isBlocking, const Call& call);

// Cube cores
bool ServesGroup(const CubeGroup& group, const Call& call);
/// The next message; null if all queues of this core have quit.
MessagePointer ReceiveMessage(CubeGroup& group, const Call& call);
/// Waits until the message has the state `awaited`, if it is not null.
uint16_t FreeMessage(const CubeGroup& group, MessagePointer message, const AscendC::CubeMsgState* awaited,
                     const Call& call);
void SkipMessages(CubeGroup& group, int64_t count, const Call& call);

}  // namespace opforge::twin::kernel

namespace AscendC {

template <typename CubeMsgType>
class CubeResGroupHandle;

/// Memory for the messages of groups, which must be zero.
class KfcWorkspace {
public:
    OPFORGE_API explicit KfcWorkspace(GM_ADDR workspace)
        : next_(workspace), event_(twin::OpenKfcWorkspace({"KfcWorkspace", twin::Here()}))
    {
    }
    KfcWorkspace(const KfcWorkspace&) = delete;
    KfcWorkspace& operator=(const KfcWorkspace&) = delete;
    ~KfcWorkspace() { twin::CloseKfcWorkspace(event_); }
    OPFORGE_API void UpdateKfcWorkspace(uint32_t offset)
    {
        Use(Owner::kKernel, {"UpdateKfcWorkspace", twin::Here()});
        next_ += offset;
    }
    OPFORGE_API GM_ADDR GetKfcWorkspace()
    {
        Use(Owner::kKernel, {"GetKfcWorkspace", twin::Here()});
        return next_;
    }

private:
    template <int groupID, class MatmulApiType, template <class, class> class CallBack, typename CubeMsgType>
    friend CubeResGroupHandle<CubeMsgType> CreateCubeResGroup(KfcWorkspace& desc, uint8_t blockStart, uint8_t blockSize,
                                                              uint8_t msgQueueSize, GM_ADDR tiling);

    enum class Owner : uint8_t { kNobody, kKernel, kGroups };

    /// Either the kernel or CreateCubeResGroup divides the memory.
    void Use(Owner owner, const twin::Call& call)
    {
        if (owner_ != Owner::kNobody && owner_ != owner) {
            twin::ReportSharedWorkspace(call);
        }
        owner_ = owner;
    }

    GM_ADDR next_;
    int32_t event_;
    Owner owner_ = Owner::kNobody;
};

/// A group of cube cores. Vector cores call AssignQueue, AllocMessage, the functions that post, Wait and SetQuit; the
/// function of a cube core calls FreeMessage and SetSkipMsg. On the other cores, these functions do nothing.
template <typename CubeMsgType>
class CubeResGroupHandle {
    using Message = __gm__ CubeMsgType*;

public:
    CubeResGroupHandle() = default;
    OPFORGE_API CubeResGroupHandle(GM_ADDR workspace, uint8_t blockStart, uint8_t blockSize, uint8_t msgQueueSize,
                                   uint8_t evtIDIn)
        : CubeResGroupHandle(workspace, {blockStart, blockSize, msgQueueSize, evtIDIn},
                             {"CubeResGroupHandle", twin::Here()})
    {
    }

    OPFORGE_API void AssignQueue(uint8_t queueIdIn)
    {
        twin::BindQueue(group_, queueIdIn, {"AssignQueue", twin::Here()});
    }
    template <PipeMode pipeMode = PipeMode::SCALAR_MODE>
    OPFORGE_API Message AllocMessage()
    {
        static_assert(pipeMode != PipeMode::MAX, "AllocMessage: the modes are SCALAR_MODE and MTE3_MODE");
        return (Message)twin::AllocateMessage(group_, pipeMode, {"AllocMessage", twin::Here()});
    }
    template <PipeMode pipeMode = PipeMode::SCALAR_MODE>
    OPFORGE_API uint16_t PostMessage(Message msg, CubeMsgType& msgInput)
    {
        static_assert(pipeMode != PipeMode::MAX, "PostMessage: the modes are SCALAR_MODE and MTE3_MODE");
        return twin::PostMessage(group_, twin::MessagePointer(msg), &msgInput, pipeMode, {"PostMessage", twin::Here()});
    }
    OPFORGE_API uint16_t PostFakeMsg(Message msg)
    {
        return twin::PostState(group_, twin::MessagePointer(msg), CubeMsgState::FAKE, {"PostFakeMsg", twin::Here()});
    }
    OPFORGE_API void SetQuit(Message msg)
    {
        twin::PostState(group_, twin::MessagePointer(msg), CubeMsgState::QUIT, {"SetQuit", twin::Here()});
    }
    /// `offset` is the result of PostMessage or PostFakeMsg. Returns whether the message is free again.
    template <bool sync = true>
    OPFORGE_API bool Wait(uint16_t offset)
    {
        return twin::AwaitMessage(group_, offset, sync, {"Wait", twin::Here()});
    }
    OPFORGE_API uint16_t FreeMessage(Message msg)
    {
        return twin::FreeMessage(group_, twin::MessagePointer(msg), nullptr, {"FreeMessage", twin::Here()});
    }
    OPFORGE_API uint16_t FreeMessage(Message msg, CubeMsgState waitState)
    {
        return twin::FreeMessage(group_, twin::MessagePointer(msg), &waitState, {"FreeMessage", twin::Here()});
    }
    OPFORGE_API void SetSkipMsg(uint8_t skipCnt) { twin::SkipMessages(group_, skipCnt, {"SetSkipMsg", twin::Here()}); }

private:
    template <int groupID, class MatmulApiType, template <class, class> class CallBack, typename T>
    friend CubeResGroupHandle<T> CreateCubeResGroup(KfcWorkspace& desc, uint8_t blockStart, uint8_t blockSize,
                                                    uint8_t msgQueueSize, GM_ADDR tiling);

    CubeResGroupHandle(GM_ADDR workspace, const twin::CubeGroupSize& size, const twin::Call& call)
    {
        static_assert(std::is_same_v<decltype(CubeMsgType::head), CubeGroupMsgHead> && offsetof(CubeMsgType, head) == 0,
                      "CubeResGroupHandle: the first member of a message is CubeGroupMsgHead head");
        group_ = twin::OpenGroup(workspace, sizeof(CubeMsgType), size, call);
    }

    twin::CubeGroup group_;
};

/// Makes a group. Its cube cores call `CallBack` here for each message, until all their queues have quit.
template <int groupID, class MatmulApiType, template <class, class> class CallBack, typename CubeMsgType>
OPFORGE_API CubeResGroupHandle<CubeMsgType> CreateCubeResGroup(KfcWorkspace& desc, uint8_t blockStart,
                                                               uint8_t blockSize, uint8_t msgQueueSize, GM_ADDR tiling)
{
    const twin::Call call{"CreateCubeResGroup", twin::Here()};
    desc.Use(KfcWorkspace::Owner::kGroups, call);
    CubeResGroupHandle<CubeMsgType> handle(desc.next_, {blockStart, blockSize, msgQueueSize, desc.event_}, call);
    desc.next_ += twin::BytesOf(handle.group_);
    if (twin::ServesGroup(handle.group_, call)) {
        MatmulApiType product;
        CallBack<MatmulApiType, CubeMsgType> functions;
        functions.Init(functions, product, tiling);
        while (const twin::MessagePointer message = twin::ReceiveMessage(handle.group_, call)) {
            functions.Call(product, (__gm__ CubeMsgType*)message, handle);
        }
    }
    return handle;
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_CUBE_GROUP_H
