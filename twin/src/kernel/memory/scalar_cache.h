// The data cache of the scalar unit of a core: the lines that must be written back, and the writes of other cores that
// are visible.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_SCALAR_CACHE_H
#define OPFORGE_TWIN_KERNEL_MEMORY_SCALAR_CACHE_H

#include <cstdint>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernel/order/global_order.h"

namespace opforge::twin::kernel {

class ScalarCache {
public:
    static constexpr uint64_t kLineBytes = 64;

    /// A line that must be written back.
    struct DirtyLine {
        uint64_t bytes = 0;  ///< a bit for each that SetValue has changed
        Location at;         ///< of the last SetValue
    };

    void MarkDirty(uint64_t address, uint64_t bytes, const Location& at);
    size_t DirtyLines() const { return dirty_.size(); }
    const Location& DirtyAt() const { return dirtyAt_; }
    /// A line with changed bytes in [begin, end). With `whole`: any line in the range that must be written back.
    const DirtyLine* FindDirty(uint64_t begin, uint64_t end, bool whole) const;

    /// DataCacheCleanAndInvalid at `address` of `region`, whose address is `base`: up to the end of its line.
    void Drop(uint64_t address, uint64_t base, GlobalOrder* region);
    /// The same of all lines, by core `core` with instruction `now`.
    void DropAll(uint32_t core, uint32_t now, const CoreOrder& order);
    /// The scalar unit uses the line at `address`. A line that is not in the cache comes from memory, with all writes
    /// so far.
    void Fetch(uint64_t address, uint64_t base, GlobalOrder& region);
    /// Whether a load of the 32-byte block at `address` cannot return the bytes from before `write`.
    bool Sees(const GlobalOrder::Writer& write, uint64_t address) const;
    /// Whether a load of `address` comes from memory, at least the first one after Drop or DropAll.
    bool WasDropped(uint64_t address) const
    {
        return droppedAt_ != 0 || droppedLines_.count(address / kLineBytes) != 0;
    }
    /// The addresses of the lines in [begin, end) that must be written back.
    std::vector<uint64_t> DirtyLinesIn(uint64_t begin, uint64_t end) const;

private:
    struct Seen {
        uint32_t core;
        uint32_t time;
    };

    void See(uint64_t address, uint64_t base, GlobalOrder& region);

    std::unordered_set<uint64_t> cached_;  ///< lines by number, if Fetch is used
    std::map<uint64_t, DirtyLine> dirty_;  ///< by number
    Location dirtyAt_;
    std::unordered_map<uint64_t, Seen> seen_;    ///< by address of the 32-byte block
    std::unordered_set<uint64_t> droppedLines_;  ///< by number
    uint32_t droppedAt_ = 0;
    uint32_t core_ = 0;
    CoreOrder dropped_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_SCALAR_CACHE_H
