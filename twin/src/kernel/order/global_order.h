// The last accesses to global memory: for each 32-byte block that a kernel may write, the last write and two last
// reads.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_GLOBAL_ORDER_H
#define OPFORGE_TWIN_KERNEL_ORDER_GLOBAL_ORDER_H

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "opforge_twin/launch.h"
#include "kernel/order/local_order.h"

namespace opforge::twin::kernel {

/// The shadow state of one argument; memory is allocated for the used parts.
class GlobalOrder {
public:
    explicit GlobalOrder(uint64_t bytes);
    ~GlobalOrder();
    GlobalOrder(const GlobalOrder&) = delete;
    GlobalOrder& operator=(const GlobalOrder&) = delete;

    /// Records an access of block `core` to [offset, offset + access.bytes); returns an earlier conflicting access.
    std::optional<Conflict> Note(const Access& access, int64_t offset, uint32_t core, uint32_t now, uint32_t site,
                                 const CoreOrder& order);

    /// The last write to a 32-byte block.
    struct Writer {
        uint64_t begin;  ///< of the block
        uint32_t core;
        Pipe pipe;
        uint32_t time;
        uint32_t site;
        uint32_t bytes;  ///< of the block, a bit for each
    };
    /// Checks the written blocks of [begin, end).
    std::vector<Writer> WritersOf(uint64_t begin, uint64_t end);
    /// The bytes with recorded accesses, up to a limit. No other thread uses this object.
    AccessedBytes Accessed() const;

private:
    /// 12 bytes: an access of a pipe of a core to some bytes of a block.
    struct Use {
        uint32_t time;
        uint32_t bytes;
        uint32_t core : 16;
        uint32_t pipe : 3;
        uint32_t isAtomic : 1;
        uint32_t site : 12;
    };
    struct Uses {
        Use write;
        Use reads[2];  ///< of different cores, if different cores have read it
    };
    static_assert(sizeof(Use) == 12);

    static constexpr int64_t kBlocksPerLock = 128;

    static AccessKind KindOf(const Use& write);
    /// `settled`: earlier accesses of the same core are ordered before this one.
    static void Record(Uses& uses, const Use& use, bool isWrite, uint32_t settled);

    uint64_t bytes_;
    uint64_t mapped_ = 0;
    Uses* uses_ = nullptr;
    std::vector<uint8_t> isUsed_;  ///< by group of kBlocksPerLock blocks
    /// In a cache line each: cores that lock different blocks do not wait for each other.
    struct alignas(64) Lock {
        std::atomic_flag flag;
    };
    std::array<Lock, 64> locks_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_GLOBAL_ORDER_H
