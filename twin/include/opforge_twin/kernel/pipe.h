// TPipe, TQue, TQueBind and TBuf: on-chip buffers, and the synchronization of queues.
#ifndef OPFORGE_TWIN_KERNEL_PIPE_H
#define OPFORGE_TWIN_KERNEL_PIPE_H

#include "opforge_twin/kernel/params.h"
#include "opforge_twin/kernel/tensor.h"

namespace opforge::twin::kernel {

/// Whether the position has buffers: unified buffer, L1, L0A, L0B, L0C, bias table or fixpipe buffer.
constexpr bool HasBuffers(AscendC::TPosition position)
{
    using AscendC::TPosition;
    return (position >= TPosition::A1 && position <= TPosition::CO1) || position == TPosition::VECIN ||
           position == TPosition::VECOUT || position == TPosition::VECCALC || position == TPosition::TSCM ||
           position == TPosition::C2PIPE2GM;
}

/// The buffer position of a queue.
constexpr AscendC::TPosition PositionOf(AscendC::TPosition source, AscendC::TPosition destination)
{
    using AscendC::TPosition;
    return destination == TPosition::GM || destination == TPosition::CO2 ? source : destination;
}

template <typename Owner>
class BufferSource;

}  // namespace opforge::twin::kernel

namespace AscendC {

class TPipe;
using TEventID = int8_t;
/// A buffer of a queue.
using TBufHandle = twin::LocalView;

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

/// Properties of a queue for formats and groups of cores; the twin ignores them.
struct TQueConfig {
    bool nd2nz = false;
    bool nz2nd = false;
    bool scmBlockGroup = false;
    uint32_t bufferLen = 0;
    uint32_t bufferNumber = 0;
    uint32_t consumerSize = 0;
    TPosition consumer[8] = {};
    bool enableStaticEvtId = false;
    bool enableLoopQueue = false;
};

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
public:
    static constexpr TPosition kPosition = twin::PositionOf(src, dst);
    static_assert(twin::HasBuffers(kPosition),
                  "queues lie on VECIN, VECOUT, VECCALC, A1, B1, C1, A2, B2, C2, C2PIPE2GM and CO1");

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
    // The same for a buffer without a type of elements.
    OPFORGE_API TBufHandle AllocBuffer() { return twin::AllocateFrom(queue_, {"AllocBuffer", twin::Here()}); }
    OPFORGE_API void FreeBuffer(const TBufHandle& buf) { twin::Release(queue_, buf, {"FreeBuffer", twin::Here()}); }
    OPFORGE_API bool EnQue(const TBufHandle& buf)
    {
        twin::Enqueue(queue_, buf, {"EnQue", twin::Here()});
        return true;
    }
    OPFORGE_API TBufHandle DeQue() { return twin::Dequeue(queue_, {"DeQue", twin::Here()}); }
    /// A step between the ends of the queue, for example GM to VECIN of a queue from VECIN to VECOUT.
    template <TPosition srcUserPos, TPosition dstUserPos, typename T>
    OPFORGE_API bool EnQue(const LocalTensor<T>& tensor)
    {
        twin::Enqueue(queue_, tensor.View(), {srcUserPos, dstUserPos}, {"EnQue", twin::Here()});
        return true;
    }
    template <TPosition srcUserPos, TPosition dstUserPos, typename T>
    OPFORGE_API LocalTensor<T> DeQue()
    {
        return LocalTensor<T>(twin::Dequeue(queue_, {srcUserPos, dstUserPos}, {"DeQue", twin::Here()}), kPosition);
    }
    OPFORGE_API void FreeAllEvent() { twin::FreeEvents(queue_, {"FreeAllEvent", twin::Here()}); }
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
    /// Begins the queue of a pool with its own class; InitBufHandle adds each buffer.
    OPFORGE_API void InitStartBufHandle(const TBufHandle& /*startBufhandle*/, uint8_t num, uint32_t /*len*/)
    {
        queue_ = twin::StartQueue(src, dst, depth, num, {"InitStartBufHandle", twin::Here()});
    }
    template <typename T>
    OPFORGE_API void InitBufHandle(T* bufPool, uint32_t index, const TBufHandle& /*bufhandle*/, uint32_t curPoolAddr,
                                   uint32_t len)
    {
        twin::PlaceBuffer(queue_, bufPool->Pool(), kPosition, index, curPoolAddr, len, {"InitBufHandle", twin::Here()});
    }
    OPFORGE_API bool HasIdleBuffer() { return twin::IdleBuffers(queue_, {"HasIdleBuffer", twin::Here()}) > 0; }

private:
    template <typename Owner>
    friend class twin::BufferSource;
    uint32_t queue_ = twin::LocalView::kNoBuffer;
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<GetBufferLogicPos(pos, true), GetBufferLogicPos(pos, false), depth, mask> {};

template <TPosition pos, int32_t depth, auto mask = 0>
using TSCM = TQueBind<pos, TPosition::TSCM, depth, mask>;

/// An on-chip buffer without synchronization. The functions of queues do nothing.
template <TPosition pos = TPosition::LCM>
class TBuf {
public:
    static_assert(twin::HasBuffers(pos),
                  "a TBuf lies on VECIN, VECOUT, VECCALC, A1, B1, C1, A2, B2, C2, C2PIPE2GM or CO1");

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
        return LocalTensor<T>(twin::Slice(view_, bufOffset, twin::BytesOf<T>(size), {"TBuf::Get", twin::Here()}), pos);
    }
    OPFORGE_API void InitStartBufHandle(const TBufHandle& /*startBufhandle*/, uint8_t num, uint32_t /*len*/)
    {
        twin::Field("num of a TBuf", num, 1, 1, {"InitStartBufHandle", twin::Here()});
    }
    template <typename T>
    OPFORGE_API void InitBufHandle(T* bufPool, uint32_t index, const TBufHandle& /*bufhandle*/, uint32_t curPoolAddr,
                                   uint32_t len)
    {
        const twin::Call call{"InitBufHandle", twin::Here()};
        twin::Field("index of a TBuf", index, 0, 0, call);
        view_ = twin::PlaceScratch(bufPool->Pool(), pos, curPoolAddr, len, call);
    }
    template <typename T>
    LocalTensor<T> AllocTensor() const
    {
        return Get<T>();
    }
    template <typename T>
    void FreeTensor(LocalTensor<T>& /*tensor*/)
    {
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& /*tensor*/)
    {
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue()
    {
        return Get<T>();
    }

private:
    template <typename Owner>
    friend class twin::BufferSource;
    twin::LocalView view_;
};

}  // namespace AscendC

namespace opforge::twin::kernel {

template <typename T>
inline constexpr bool kIsRange = false;
template <typename U, typename V>
inline constexpr bool kIsRange<std::tuple<U, V>> = std::is_integral_v<U> && std::is_integral_v<V>;

template <typename Tuple>
AddressRange RangeOf(const Tuple& range)
{
    return {static_cast<int64_t>(std::get<0>(range)), static_cast<int64_t>(std::get<1>(range))};
}

/// The functions of TPipe and TBufPool that divide memory.
template <typename Owner>
class BufferSource {
public:
    template <class T>
    OPFORGE_API bool InitBuffer(T& que, int64_t num, int64_t len)
    {
        que.queue_ = Add(que, num, len, Here());
        return true;
    }
    /// Each tuple is the address and the length of one buffer in bytes. The TPipe does not count these buffers.
    template <class T, class U, class V, class... Addrs>
    OPFORGE_API bool InitBuffer(T& que, const AscendC::Std::tuple<U, V>& addr0, const Addrs&... addrs)
    {
        static_assert(std::is_same_v<Owner, AscendC::TPipe>,
                      "TBufPool::InitBuffer: it has no addresses of buffers; use TPipe::InitBuffer");
        static_assert((kIsRange<std::tuple<U, V>> && ... && kIsRange<Addrs>),
                      "TPipe::InitBuffer: each tuple must be an address and a length");
        que.queue_ = AddAt(que, {RangeOf(addr0), RangeOf(addrs)...}, Here());
        return true;
    }
    template <AscendC::TPosition pos>
    OPFORGE_API bool InitBuffer(AscendC::TBuf<pos>& buf, int64_t len)
    {
        buf.view_ = AddScratch(OwnPool(), pos, len, {"TPipe::InitBuffer", Here()});
        return true;
    }
    template <class T>
    OPFORGE_API bool InitBufPool(T& bufPool, uint32_t len)
    {
        bufPool.pool_ =
            AddPool(OwnPool(), T::kPosition, len, LocalView::kNoBuffer, T::kMostBuffers, {"InitBufPool", Here()});
        return true;
    }
    /// The pool has the addresses of `shareBuf`.
    template <class T, class U>
    OPFORGE_API bool InitBufPool(T& bufPool, uint32_t len, U& shareBuf)
    {
        bufPool.pool_ =
            AddPool(OwnPool(), T::kPosition, len, shareBuf.Pool(), T::kMostBuffers, {"InitBufPool", Here()});
        return true;
    }

private:
    friend Owner;
    BufferSource() = default;
    uint32_t OwnPool() const { return static_cast<const Owner*>(this)->Pool(); }
    template <AscendC::TPosition src, AscendC::TPosition dst, int32_t depth, auto mask>
    uint32_t Add(const AscendC::TQueBind<src, dst, depth, mask>& /*queue*/, int64_t num, int64_t len, Location at)
    {
        return AddQueue(OwnPool(), src, dst, depth, num, len, {"TPipe::InitBuffer", at});
    }
    template <AscendC::TPosition src, AscendC::TPosition dst, int32_t depth, auto mask>
    uint32_t AddAt(const AscendC::TQueBind<src, dst, depth, mask>& /*queue*/,
                   std::initializer_list<AddressRange> ranges, Location at)
    {
        static_assert(dst != AscendC::TPosition::TSCM, "TPipe::InitBuffer: a TSCM has no addresses of buffers");
        return AddQueueAt(OwnPool(), src, dst, depth, ranges, {"TPipe::InitBuffer", at});
    }
};

}  // namespace opforge::twin::kernel

namespace AscendC {

/// A part of the memory of `pos`, which can share its addresses with another pool.
template <TPosition pos, uint32_t bufIDSize = 4>
class TBufPool : public twin::BufferSource<TBufPool<pos, bufIDSize>> {
public:
    static_assert(bufIDSize >= 1 && bufIDSize <= 16, "a TBufPool has at most 16 buffers");
    static constexpr TPosition kPosition = pos;
    static constexpr uint32_t kMostBuffers = bufIDSize;

    OPFORGE_API void Reset() { twin::ResetPool(pool_, {"TBufPool::Reset", twin::Here()}); }
    uint32_t Pool() const { return pool_; }

private:
    template <typename Owner>
    friend class twin::BufferSource;
    uint32_t pool_ = twin::LocalView::kNoBuffer - 1;  // no pool has this number
};

class TPipe : public twin::BufferSource<TPipe> {
public:
    OPFORGE_API explicit TPipe() : pool_(twin::OpenPipe(this, {"TPipe", twin::Here()})) {}
    /// Waits for all pipes, as Destroy.
    ~TPipe() { twin::ClosePipe(this, true, {"TPipe", {}}); }
    TPipe(const TPipe&) = delete;
    /// Replaces `other`, which is the TPipe so far: this one has its buffers and event ids.
    OPFORGE_API TPipe& operator=(const TPipe& other)
    {
        twin::ReplacePipe(this, &other, {"TPipe::operator=", twin::Here()});
        pool_ = twin::LocalView::kNoBuffer;
        return *this;
    }

    OPFORGE_API void Init() { pool_ = twin::OpenPipe(this, {"TPipe::Init", twin::Here()}); }
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
    OPFORGE_API void Destroy() { twin::ClosePipe(this, true, {"TPipe::Destroy", twin::Here()}); }
    /// The kernel must order later accesses to the same addresses.
    OPFORGE_API void DestroyWithoutPipeAll()
    {
        twin::ClosePipe(this, false, {"TPipe::DestroyWithoutPipeAll", twin::Here()});
    }
    OPFORGE_API void Reset() { twin::ResetPipe({"TPipe::Reset", twin::Here()}); }

    /// Returns address 0 of the memory of a position: only differences of addresses have a meaning.
    uint8_t* GetBaseAddr(int8_t /*logicPos*/) { return nullptr; }
    /// kNoBuffer, since the TPipe itself divides all memory; another number if a different TPipe does.
    uint32_t Pool() const { return pool_; }

    /// Sets a part of the workspace to which WriteSpmBuffer writes.
    template <typename T>
    void InitSpmBuffer(const GlobalTensor<T>& workspace, const int32_t bufferSize)
    {
        spm_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(workspace.GetPhyAddr(0)),
                             static_cast<uint64_t>(bufferSize));
    }
    template <typename T>
    OPFORGE_API void WriteSpmBuffer(const LocalTensor<T>& writeBuffer, const DataCopyParams& copyParams,
                                    int32_t writeOffset = 0)
    {
        const twin::ComposedCall call;
        DataCopy(SpmAt<T>(writeOffset), writeBuffer, copyParams);
    }
    template <typename T>
    OPFORGE_API void WriteSpmBuffer(const LocalTensor<T>& writeBuffer, const int32_t writeSize, int32_t writeOffset = 0)
    {
        const twin::ComposedCall call;
        DataCopy(SpmAt<T>(writeOffset), writeBuffer, static_cast<uint32_t>(writeSize));
    }
    template <typename T>
    OPFORGE_API void ReadSpmBuffer(const LocalTensor<T>& readBuffer, const DataCopyParams& copyParams,
                                   int32_t readOffset = 0)
    {
        const twin::ComposedCall call;
        DataCopy(readBuffer, SpmAt<T>(readOffset), copyParams);
    }
    template <typename T>
    OPFORGE_API void ReadSpmBuffer(const LocalTensor<T>& readBuffer, const int32_t readSize, int32_t readOffset = 0)
    {
        const twin::ComposedCall call;
        DataCopy(readBuffer, SpmAt<T>(readOffset), static_cast<uint32_t>(readSize));
    }

private:
    template <typename T>
    GlobalTensor<T> SpmAt(int32_t offset) const
    {
        return spm_[static_cast<uint64_t>(offset)].template ReinterpretCast<T>();
    }

    uint32_t pool_;
    GlobalTensor<uint8_t> spm_;
};

}  // namespace AscendC

OPFORGE_API inline AscendC::TPipe* GetTPipePtr()
{
    return static_cast<AscendC::TPipe*>(
        opforge::twin::kernel::LivePipe({"GetTPipePtr", opforge::twin::kernel::Here()}));
}

#endif  // OPFORGE_TWIN_KERNEL_PIPE_H
