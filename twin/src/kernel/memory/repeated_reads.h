// Loops of the scalar unit that read the same elements of global memory again and again: the kernel polls them.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_REPEATED_READS_H
#define OPFORGE_TWIN_KERNEL_MEMORY_REPEATED_READS_H

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernel/memory/shared_elements.h"

namespace opforge::twin::kernel {

class RepeatedReads {
public:
    struct Read {
        const uint8_t* host;
        uint64_t bytes;
        uint64_t bits;

        bool operator==(const Read& other) const
        {
            return host == other.host && bytes == other.bytes && bits == other.bits;
        }
    };

    /// Adds a read by instruction `now`. True if it ends at least `rounds` rounds of equal reads with equal values.
    bool Add(const Read& read, uint32_t now, uint32_t rounds)
    {
        if (period_ == 0 && sinceFirst_ < kMostReads && read.host != first_.host) {
            ++sinceFirst_;
            return false;
        }
        return AddRepeated(read, now, rounds);
    }
    /// Whether a read of the last round would return another value.
    bool HaveChanged() const;
    void Clear()
    {
        period_ = 0;
        sinceFirst_ = kMostReads;
    }

private:
    static constexpr uint32_t kMostReads = 64;
    static constexpr uint32_t kMostBetween = 8;  ///< instructions for each read; a loop with more does not only poll

    void Begin(const Read& read, uint32_t now);
    bool AddRepeated(const Read& read, uint32_t now, uint32_t rounds);

    Read first_{};
    uint32_t sinceFirst_ = kMostReads;  ///< reads; kMostReads: the next read is the first one
    uint32_t last_ = 0;                 ///< instruction: the first read, or the last one of a round
    size_t period_ = 0;                 ///< reads of a round; 0: the first read has not repeated
    std::vector<Read> round_;
    size_t next_ = 0;  ///< in the round
    uint32_t rounds_ = 0;
};

inline void RepeatedReads::Begin(const Read& read, uint32_t now)
{
    first_ = read;
    sinceFirst_ = 0;
    last_ = now;
    period_ = 0;
    round_.clear();
    next_ = 0;
    rounds_ = 0;
}

inline bool RepeatedReads::AddRepeated(const Read& read, uint32_t now, uint32_t rounds)
{
    const bool isRecorded = next_ < round_.size();
    const uint32_t reads = period_ == 0 ? sinceFirst_ + 1 : 1;
    const Read& expected = isRecorded ? round_[next_] : period_ == 0 ? first_ : read;
    if (sinceFirst_ == kMostReads || !(read == expected) || now - last_ > kMostBetween * reads) {
        Begin(read, now);
        return false;
    }
    period_ = period_ == 0 ? reads : period_;
    last_ = now;
    if (!isRecorded) {
        round_.push_back(read);
    }
    next_ = (next_ + 1) % period_;
    rounds_ += next_ == 0 ? 1 : 0;
    return next_ == 0 && rounds_ >= rounds;
}

inline bool RepeatedReads::HaveChanged() const
{
    return std::any_of(round_.begin(), round_.end(),
                       [](const Read& read) { return LoadElement(read.host, read.bytes) != read.bits; });
}

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_REPEATED_READS_H
