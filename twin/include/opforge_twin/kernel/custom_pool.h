// Pools whose class the kernel defines.
#ifndef OPFORGE_TWIN_KERNEL_CUSTOM_POOL_H
#define OPFORGE_TWIN_KERNEL_CUSTOM_POOL_H

#include "opforge_twin/kernel/pipe.h"

namespace AscendC {

/// The state of a pool with its own class: the first free address and the number of buffers.
template <TPosition pos, uint32_t bufIDSize>
class CustomBufPool {
public:
    static_assert(bufIDSize >= 1 && bufIDSize <= 255, "EXTERN_IMPL_BUFPOOL: BUFID_SIZE is 1..255");

    uint32_t Address(uint32_t pool, const twin::Call& call)
    {
        Follow(pool);
        return static_cast<uint32_t>(twin::PoolAddress(pool, pos, call)) + offset_;
    }
    void SetAddress(uint32_t pool, uint32_t address, const twin::Call& call)
    {
        Follow(pool);
        const auto first = static_cast<uint32_t>(twin::PoolAddress(pool, pos, call));
        offset_ = static_cast<uint32_t>(twin::Field("curAddr", address, first, 4294967295, call)) - first;
    }
    uint8_t Count(uint32_t pool)
    {
        Follow(pool);
        return count_;
    }
    void SetCount(uint32_t pool, uint8_t count, const twin::Call& call)
    {
        Follow(pool);
        count_ = static_cast<uint8_t>(twin::Field("curBufSize", count, 0, bufIDSize, call));
    }
    void Reset()
    {
        offset_ = 0;
        count_ = 0;
    }

private:
    /// InitBufPool gives the class another pool, which is empty.
    void Follow(uint32_t pool)
    {
        if (pool != pool_) {
            Reset();
        }
        pool_ = pool;
    }

    uint32_t pool_ = 0;
    uint32_t offset_ = 0;
    uint8_t count_ = 0;
};

}  // namespace AscendC

// The members of a pool with its own class, which places the buffers of queues and TBufs itself. Follows `public:`.
#define EXTERN_IMPL_BUFPOOL(EXT_BUFPOOL, POSITION, BUFID_SIZE)                                            \
private:                                                                                                  \
    template <typename Owner>                                                                             \
    friend class opforge::twin::kernel::BufferSource;                                                     \
    uint32_t pool_ = opforge::twin::kernel::LocalView::kNoBuffer - 1;                                     \
    AscendC::CustomBufPool<POSITION, BUFID_SIZE> state_;                                                  \
                                                                                                          \
public:                                                                                                   \
    static constexpr AscendC::TPosition kPosition = POSITION;                                             \
    static constexpr uint32_t kMostBuffers = BUFID_SIZE;                                                  \
    uint32_t Pool() const                                                                                 \
    {                                                                                                     \
        return pool_;                                                                                     \
    }                                                                                                     \
    void Init()                                                                                           \
    {                                                                                                     \
        state_.Reset();                                                                                   \
    }                                                                                                     \
    OPFORGE_API void Reset()                                                                              \
    {                                                                                                     \
        opforge::twin::kernel::ResetPool(pool_, {#EXT_BUFPOOL "::Reset", opforge::twin::kernel::Here()}); \
        state_.Reset();                                                                                   \
    }                                                                                                     \
    OPFORGE_API AscendC::TBufHandle GetBufHandle(uint8_t offset)                                          \
    {                                                                                                     \
        opforge::twin::kernel::Field("offset", offset, 0, BUFID_SIZE - 1,                                 \
                                     {"GetBufHandle", opforge::twin::kernel::Here()});                    \
        return {};                                                                                        \
    }                                                                                                     \
    OPFORGE_API uint32_t GetCurAddr()                                                                     \
    {                                                                                                     \
        return state_.Address(pool_, {"GetCurAddr", opforge::twin::kernel::Here()});                      \
    }                                                                                                     \
    OPFORGE_API void SetCurAddr(uint32_t curAddr)                                                         \
    {                                                                                                     \
        state_.SetAddress(pool_, curAddr, {"SetCurAddr", opforge::twin::kernel::Here()});                 \
    }                                                                                                     \
    uint8_t GetCurBufSize()                                                                               \
    {                                                                                                     \
        return state_.Count(pool_);                                                                       \
    }                                                                                                     \
    OPFORGE_API void SetCurBufSize(uint8_t curBufSize)                                                    \
    {                                                                                                     \
        state_.SetCount(pool_, curBufSize, {"SetCurBufSize", opforge::twin::kernel::Here()});             \
    }

#endif  // OPFORGE_TWIN_KERNEL_CUSTOM_POOL_H
