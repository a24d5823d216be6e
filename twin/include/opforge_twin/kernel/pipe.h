// TPipe, TQue, TQueBind and TBuf: on-chip buffers, and the synchronization of queues.
#ifndef OPFORGE_TWIN_KERNEL_PIPE_H
#define OPFORGE_TWIN_KERNEL_PIPE_H

#include "opforge_twin/kernel/tensor.h"

namespace opforge::twin::kernel {

/// Whether the position has buffers: unified buffer, L1, L0A, L0B, L0C or bias table.
constexpr bool HasBuffers(AscendC::TPosition position)
{
    using AscendC::TPosition;
    return (position >= TPosition::A1 && position <= TPosition::CO1) || position == TPosition::VECIN ||
           position == TPosition::VECOUT || position == TPosition::VECCALC;
}

/// The buffer position of a queue.
constexpr AscendC::TPosition PositionOf(AscendC::TPosition source, AscendC::TPosition destination)
{
    using AscendC::TPosition;
    return destination == TPosition::GM || destination == TPosition::CO2 ? source : destination;
}

}  // namespace opforge::twin::kernel

namespace AscendC {

using TEventID = int8_t;

/// Returns the source (isSrc) or the destination position of a queue at `pos`.
constexpr TPosition GetBufferLogicPos(TPosition pos, bool isSrc)
{
    switch (pos) {
        case TPosition::VECIN:
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
            return isSrc ? TPosition::GM : pos;
        case TPosition::A2:
            return isSrc ? TPosition::A1 : pos;
        case TPosition::B2:
            return isSrc ? TPosition::B1 : pos;
        case TPosition::C2:
            return isSrc ? TPosition::C1 : pos;
        case TPosition::CO1:
            return isSrc ? pos : TPosition::CO2;
        case TPosition::VECOUT:
            return isSrc ? pos : TPosition::GM;
        default:
            return pos;
    }
}

class TPipe;

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
public:
    static constexpr TPosition kPosition = twin::PositionOf(src, dst);
    static_assert(twin::HasBuffers(kPosition), "queues lie on VECIN, VECOUT, VECCALC, A1, B1, C1, A2, B2, C2 and CO1");

    template <typename T>
    OPFORGE_API LocalTensor<T> AllocTensor()
    {
        return LocalTensor<T>(twin::AllocateFrom(queue_, {"AllocTensor", twin::Here()}), kPosition);
    }
    template <typename T>
    OPFORGE_API void AllocTensor(LocalTensor<T>& tensor)
    {
        tensor = LocalTensor<T>(twin::AllocateFrom(queue_, {"AllocTensor", twin::Here()}), kPosition);
    }
    template <typename T>
    OPFORGE_API void FreeTensor(LocalTensor<T>& tensor)
    {
        twin::Release(queue_, tensor.View(), {"FreeTensor", twin::Here()});
    }
    template <typename T>
    OPFORGE_API bool EnQue(const LocalTensor<T>& tensor)
    {
        twin::Enqueue(queue_, tensor.View(), {"EnQue", twin::Here()});
        return true;
    }
    template <typename T>
    OPFORGE_API LocalTensor<T> DeQue()
    {
        return LocalTensor<T>(twin::Dequeue(queue_, {"DeQue", twin::Here()}), kPosition);
    }
    template <typename T>
    OPFORGE_API void DeQue(LocalTensor<T>& tensor)
    {
        tensor = LocalTensor<T>(twin::Dequeue(queue_, {"DeQue", twin::Here()}), kPosition);
    }
    OPFORGE_API bool VacantInQue()
    {
        const twin::ComposedCall call;
        return GetTensorCountInQue() < (depth > 0 ? depth : 1);
    }
    OPFORGE_API bool HasTensorInQue()
    {
        const twin::ComposedCall call;
        return GetTensorCountInQue() > 0;
    }
    OPFORGE_API int32_t GetTensorCountInQue()
    {
        return static_cast<int32_t>(twin::FilledBuffers(queue_, {"GetTensorCountInQue", twin::Here()}));
    }
    OPFORGE_API bool HasIdleBuffer() { return twin::IdleBuffers(queue_, {"HasIdleBuffer", twin::Here()}) > 0; }

private:
    friend class TPipe;
    uint32_t queue_ = twin::LocalView::kNoBuffer;
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<GetBufferLogicPos(pos, true), GetBufferLogicPos(pos, false), depth, mask> {};

/// An on-chip buffer without synchronization.
template <TPosition pos = TPosition::LCM>
class TBuf {
public:
    static_assert(twin::HasBuffers(pos), "a TBuf lies on VECIN, VECOUT, VECCALC, A1, B1, C1, A2, B2, C2 or CO1");

    template <typename T>
    LocalTensor<T> Get() const
    {
        return LocalTensor<T>(view_, pos);
    }
    template <typename T>
    OPFORGE_API LocalTensor<T> Get(int64_t len) const
    {
        const twin::ComposedCall call;
        return GetWithOffset<T>(len, 0);
    }
    /// Returns `size` elements that start `bufOffset` bytes after the buffer start.
    template <typename T>
    OPFORGE_API LocalTensor<T> GetWithOffset(int64_t size, int64_t bufOffset) const
    {
        return LocalTensor<T>(
            twin::Slice(view_, bufOffset, size * static_cast<int64_t>(sizeof(T)), {"TBuf::Get", twin::Here()}), pos);
    }
    template <typename T>
    LocalTensor<T> AllocTensor() const
    {
        return Get<T>();
    }

private:
    friend class TPipe;
    twin::LocalView view_;
};

class TPipe {
public:
    OPFORGE_API explicit TPipe() { twin::OpenPipe(this, {"TPipe", twin::Here()}); }
    ~TPipe() { twin::ClosePipe(this, {"TPipe", {}}); }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    OPFORGE_API void Init() { twin::OpenPipe(this, {"TPipe::Init", twin::Here()}); }
    template <class T>
    OPFORGE_API bool InitBuffer(T& que, int64_t num, int64_t len)
    {
        que.queue_ = Add(que, num, len, twin::Here());
        return true;
    }
    template <TPosition pos>
    OPFORGE_API bool InitBuffer(TBuf<pos>& buf, int64_t len)
    {
        buf.view_ = twin::AddScratch(pos, len, {"TPipe::InitBuffer", twin::Here()});
        return true;
    }
    template <HardEvent evt>
    OPFORGE_API TEventID AllocEventID()
    {
        return static_cast<TEventID>(twin::AllocateEvent(evt, {"TPipe::AllocEventID", twin::Here()}));
    }
    template <HardEvent evt>
    OPFORGE_API void ReleaseEventID(TEventID id)
    {
        twin::ReleaseEvent(evt, id, {"TPipe::ReleaseEventID", twin::Here()});
    }
    template <HardEvent evt>
    OPFORGE_API TEventID FetchEventID()
    {
        const twin::ComposedCall call;
        return FetchEventID(evt);
    }
    OPFORGE_API TEventID FetchEventID(HardEvent evt)
    {
        return static_cast<TEventID>(twin::FetchEvent(evt, {"TPipe::FetchEventID", twin::Here()}));
    }
    OPFORGE_API void Destroy() { twin::ClosePipe(this, {"TPipe::Destroy", twin::Here()}); }
    OPFORGE_API void Reset() { twin::ResetPipe({"TPipe::Reset", twin::Here()}); }

private:
    template <TPosition src, TPosition dst, int32_t depth, auto mask>
    static uint32_t Add(const TQueBind<src, dst, depth, mask>& /*queue*/, int64_t num, int64_t len, twin::Location at)
    {
        return twin::AddQueue(src, dst, depth, num, len, {"TPipe::InitBuffer", at});
    }
};

}  // namespace AscendC

OPFORGE_API inline AscendC::TPipe* GetTPipePtr()
{
    return static_cast<AscendC::TPipe*>(
        opforge::twin::kernel::LivePipe({"GetTPipePtr", opforge::twin::kernel::Here()}));
}

#endif  // OPFORGE_TWIN_KERNEL_PIPE_H
