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
    LocalTensor<T> AllocTensor(twin::Location at = twin::Location::Here())
    {
        return LocalTensor<T>(twin::AllocateFrom(queue_, {"AllocTensor", at}), kPosition);
    }
    template <typename T>
    void AllocTensor(LocalTensor<T>& tensor, twin::Location at = twin::Location::Here())
    {
        tensor = AllocTensor<T>(at);
    }
    template <typename T>
    void FreeTensor(LocalTensor<T>& tensor, twin::Location at = twin::Location::Here())
    {
        twin::Release(queue_, tensor.View(), {"FreeTensor", at});
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor, twin::Location at = twin::Location::Here())
    {
        twin::Enqueue(queue_, tensor.View(), {"EnQue", at});
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue(twin::Location at = twin::Location::Here())
    {
        return LocalTensor<T>(twin::Dequeue(queue_, {"DeQue", at}), kPosition);
    }
    template <typename T>
    void DeQue(LocalTensor<T>& tensor, twin::Location at = twin::Location::Here())
    {
        tensor = DeQue<T>(at);
    }
    bool VacantInQue(twin::Location at = twin::Location::Here())
    {
        return GetTensorCountInQue(at) < (depth > 0 ? depth : 1);
    }
    bool HasTensorInQue(twin::Location at = twin::Location::Here()) { return GetTensorCountInQue(at) > 0; }
    int32_t GetTensorCountInQue(twin::Location at = twin::Location::Here())
    {
        return static_cast<int32_t>(twin::FilledBuffers(queue_, {"GetTensorCountInQue", at}));
    }
    bool HasIdleBuffer(twin::Location at = twin::Location::Here())
    {
        return twin::IdleBuffers(queue_, {"HasIdleBuffer", at}) > 0;
    }

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
    LocalTensor<T> Get(int64_t len, twin::Location at = twin::Location::Here()) const
    {
        return GetWithOffset<T>(len, 0, at);
    }
    /// Returns `size` elements that start `bufOffset` bytes after the buffer start.
    template <typename T>
    LocalTensor<T> GetWithOffset(int64_t size, int64_t bufOffset, twin::Location at = twin::Location::Here()) const
    {
        return LocalTensor<T>(twin::Slice(view_, bufOffset, size * static_cast<int64_t>(sizeof(T)), {"TBuf::Get", at}),
                              pos);
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
    explicit TPipe(twin::Location at = twin::Location::Here()) { twin::OpenPipe(this, {"TPipe", at}); }
    ~TPipe() { twin::ClosePipe(this, {"TPipe", {}}); }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    void Init(twin::Location at = twin::Location::Here()) { twin::OpenPipe(this, {"TPipe::Init", at}); }
    template <class T>
    bool InitBuffer(T& que, int64_t num, int64_t len, twin::Location at = twin::Location::Here())
    {
        que.queue_ = Add(que, num, len, at);
        return true;
    }
    template <TPosition pos>
    bool InitBuffer(TBuf<pos>& buf, int64_t len, twin::Location at = twin::Location::Here())
    {
        buf.view_ = twin::AddScratch(pos, len, {"TPipe::InitBuffer", at});
        return true;
    }
    template <HardEvent evt>
    TEventID AllocEventID(twin::Location at = twin::Location::Here())
    {
        return static_cast<TEventID>(twin::AllocateEvent(evt, {"TPipe::AllocEventID", at}));
    }
    template <HardEvent evt>
    void ReleaseEventID(TEventID id, twin::Location at = twin::Location::Here())
    {
        twin::ReleaseEvent(evt, id, {"TPipe::ReleaseEventID", at});
    }
    template <HardEvent evt>
    TEventID FetchEventID(twin::Location at = twin::Location::Here())
    {
        return FetchEventID(evt, at);
    }
    TEventID FetchEventID(HardEvent evt, twin::Location at = twin::Location::Here())
    {
        return static_cast<TEventID>(twin::FetchEvent(evt, {"TPipe::FetchEventID", at}));
    }
    void Destroy(twin::Location at = twin::Location::Here()) { twin::ClosePipe(this, {"TPipe::Destroy", at}); }
    void Reset(twin::Location at = twin::Location::Here()) { twin::ResetPipe({"TPipe::Reset", at}); }

private:
    template <TPosition src, TPosition dst, int32_t depth, auto mask>
    static uint32_t Add(const TQueBind<src, dst, depth, mask>& /*queue*/, int64_t num, int64_t len, twin::Location at)
    {
        return twin::AddQueue(src, dst, depth, num, len, {"TPipe::InitBuffer", at});
    }
};

}  // namespace AscendC

inline AscendC::TPipe* GetTPipePtr(opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
{
    return static_cast<AscendC::TPipe*>(opforge::twin::kernel::LivePipe({"GetTPipePtr", at}));
}

#endif  // OPFORGE_TWIN_KERNEL_PIPE_H
