#include "kernel/order/global_order.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "opforge_twin/arithmetic.h"
#include "kernel/exec/sites.h"

namespace opforge::twin::kernel {

namespace {

static_assert(Sites::kMost < (1U << 12));

/// Adds the bytes of a block at `begin` to ranges before it.
void AddRanges(uint32_t bytes, uint64_t begin, std::vector<ByteRange>& ranges)
{
    constexpr size_t kMost = 1 << 16;
    for (uint64_t bits = bytes; bits != 0;) {
        const int unused = __builtin_ctzll(bits);
        const int count = __builtin_ctzll(~(bits >> unused));
        begin += static_cast<uint64_t>(unused);
        const uint64_t end = begin + static_cast<uint64_t>(count);
        if (!ranges.empty() && ranges.back().end == begin) {
            ranges.back().end = end;
        } else if (ranges.size() < kMost) {
            ranges.push_back({begin, end});
        }
        begin = end;
        bits >>= unused + count;
    }
}

/// A lock that is held for a few hundred blocks at most.
class SpinLock {
public:
    explicit SpinLock(std::atomic_flag& flag) : flag_(flag)
    {
        constexpr int spins = 64;
        for (int spin = 1; flag_.test_and_set(std::memory_order_acquire); ++spin) {
            if (spin % spins == 0) {
                sched_yield();  // another thread may need the processor to release it
            }
        }
    }
    ~SpinLock() { flag_.clear(std::memory_order_release); }
    SpinLock(const SpinLock&) = delete;
    SpinLock& operator=(const SpinLock&) = delete;

private:
    std::atomic_flag& flag_;
};

}  // namespace

GlobalOrder::GlobalOrder(uint64_t bytes)
    : bytes_(bytes),
      mapped_((bytes / (kBlockBytes * kBlocksPerLock) + 1) * kBlocksPerLock * sizeof(Uses)),
      isUsed_(bytes / (kBlockBytes * kBlocksPerLock) + 1)
{
    for (Lock& lock : locks_) {
        lock.flag.clear();
    }
    void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::system_error(errno, std::generic_category(), "memory for the accesses to an argument");
    }
    uses_ = static_cast<Uses*>(memory);
}

GlobalOrder::~GlobalOrder()
{
    munmap(uses_, mapped_);
}

std::vector<GlobalOrder::Writer> GlobalOrder::WritersOf(uint64_t begin, uint64_t end)
{
    std::vector<Writer> writers;
    end = std::min(end, bytes_);
    for (auto block = static_cast<int64_t>(begin) / kBlockBytes; block * kBlockBytes < static_cast<int64_t>(end);
         ++block) {
        const SpinLock lock(locks_[static_cast<size_t>(block / kBlocksPerLock) % locks_.size()].flag);
        const Use& use = uses_[block].write;
        if (use.time != 0) {
            writers.push_back({static_cast<uint64_t>(block * kBlockBytes), use.core, static_cast<Pipe>(use.pipe),
                               use.time, use.site, use.bytes});
        }
    }
    return writers;
}

AccessedBytes GlobalOrder::Accessed() const
{
    AccessedBytes accessed;
    const auto groups = static_cast<int64_t>(isUsed_.size());
    for (int64_t group = 0; group < groups; ++group) {
        if (isUsed_[static_cast<size_t>(group)] == 0) {
            continue;
        }
        for (int64_t block = group * kBlocksPerLock; block < (group + 1) * kBlocksPerLock; ++block) {
            const Uses& uses = uses_[block];
            const auto begin = static_cast<uint64_t>(block * kBlockBytes);
            AddRanges(uses.reads[0].bytes | uses.reads[1].bytes, begin, accessed[static_cast<size_t>(ByteUse::kRead)]);
            AddRanges(uses.write.bytes, begin, accessed[static_cast<size_t>(KindOf(uses.write))]);
        }
    }
    return accessed;
}

AccessKind GlobalOrder::KindOf(const Use& write)
{
    const bool isDma = static_cast<Pipe>(write.pipe) != Pipe::kScalar;
    return isDma && write.isAtomic != 0 ? AccessKind::kAtomic : AccessKind::kWrite;
}

void GlobalOrder::Record(Uses& uses, const Use& use, bool isWrite, uint32_t settled)
{
    const auto isSame = [&](const Use& other) {
        return other.time > settled && other.core == use.core && other.pipe == use.pipe &&
               other.isAtomic == use.isAtomic;
    };
    Use* slot = &uses.write;
    if (!isWrite) {
        slot = &uses.reads[0];
        if (slot->time != 0 && slot->core != use.core) {
            std::swap(uses.reads[0], uses.reads[1]);
        }
    }
    const uint32_t bytes = isSame(*slot) ? slot->bytes : 0;
    *slot = use;
    slot->bytes |= bytes;
}

std::optional<Conflict> GlobalOrder::Note(const Access& access, int64_t offset, uint32_t core, uint32_t now,
                                          uint32_t site, const CoreOrder& order)
{
    const bool writes = access.kind != AccessKind::kRead;
    const int64_t end = offset + access.bytes;
    const int64_t last = (end - 1) / kBlockBytes;
    const Clock& before = order.Before(access.pipe);
    Use use{now,
            0,
            core & 0xFFFFU,
            static_cast<uint32_t>(access.pipe) & 7U,
            access.kind == AccessKind::kAtomic || access.isFlag ? 1U : 0U,
            site & Sites::kMost};
    const auto conflicts = [&](const Use& earlier, AccessKind kind) {
        if (earlier.time == 0 || (earlier.bytes & use.bytes) == 0) {
            return false;
        }
        const auto pipe = static_cast<Pipe>(earlier.pipe);
        // Atomic additions of DMA need no order. Nor do a read and a write of a flag.
        const bool isFlag = access.isFlag && pipe == Pipe::kScalar;
        const bool mayMeet = isFlag ? !writes || kind == AccessKind::kRead : kind == access.kind;
        if (earlier.isAtomic != 0 && use.isAtomic != 0 && mayMeet) {
            return false;
        }
        if (earlier.core != use.core) {
            return earlier.time > order.Acquired(earlier.core, pipe);
        }
        const bool isSameUnit = pipe == Pipe::kScalar && access.pipe == Pipe::kScalar;
        return earlier.time != now && !isSameUnit && earlier.time > before.Of(pipe);
    };
    std::optional<Conflict> found;
    bool isOpen = true;  // the byte range of `found` may still grow
    const auto consider = [&](const Use& earlier, AccessKind kind, int64_t block) {
        if (!conflicts(earlier, kind)) {
            return false;
        }
        const int64_t stretchEnd = access.begin + std::min(end, (block + 1) * kBlockBytes) - offset;
        if (!found) {
            const int64_t begin = access.begin + std::max(offset, block * kBlockBytes) - offset;
            found = {earlier.core, static_cast<Pipe>(earlier.pipe), kind, earlier.time, earlier.site, begin,
                     stretchEnd};
        } else if (found->block == earlier.core && found->site == earlier.site) {
            found->end = stretchEnd;
        }
        return true;
    };
    for (int64_t block = offset / kBlockBytes; block <= last;) {
        const int64_t group = block / kBlocksPerLock;
        const SpinLock lock(locks_[static_cast<size_t>(group) % locks_.size()].flag);
        isUsed_[static_cast<size_t>(group)] = 1;
        for (; block <= last && block / kBlocksPerLock == group; ++block) {
            Uses& uses = uses_[block];
            use.bytes = BytesIn(block, offset, end);
            if (isOpen) {
                const bool hit = consider(uses.write, KindOf(uses.write), block) ||
                                 (writes && (consider(uses.reads[0], AccessKind::kRead, block) ||
                                             consider(uses.reads[1], AccessKind::kRead, block)));
                isOpen = hit || !found;
            }
            Record(uses, use, writes, order.MetAt());
        }
    }
    return found;
}

}  // namespace opforge::twin::kernel
