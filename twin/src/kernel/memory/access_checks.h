// The checks of every access of a block: that it is inside its memory, allowed, initialised, and ordered.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_ACCESS_CHECKS_H
#define OPFORGE_TWIN_KERNEL_MEMORY_ACCESS_CHECKS_H

#include <array>

#include "opforge_twin/kernel/system.h"
#include "kernel/exec/diagnostics.h"
#include "kernel/memory/local_memory.h"
#include "kernel/memory/repeated_reads.h"
#include "kernel/memory/scalar_cache.h"
#include "kernel/memory/written_bytes.h"
#include "kernel/order/local_order.h"

namespace opforge::twin::kernel {

/// Whether a core has read or written each argument of the launch.
struct AccessedArguments {
    std::vector<uint8_t> read;
    std::vector<uint8_t> written;
};

class AccessChecks {
public:
    /// `order`: the clocks of the core.
    AccessChecks(LaunchState& launch, uint32_t core, const Execution& execution, Diagnostics& diagnostics,
                 LocalMemory& local, CoreOrder& order);

    /// The source buffer of `view`, if the view is still valid.
    Buffer& LiveBuffer(const LocalView& view, Pipe pipe, const char* operand, const Call& call);
    /// The memory of a tensor; ends the block if it has none.
    const LocalUnit& UnitOf(const LocalView& view, Pipe pipe, const char* operand, const Call& call);
    /// Checks that `pipe` may use `view` now, and that the view contains `bytes` from its address.
    void Use(const LocalView& view, int64_t bytes, Pipe pipe, AccessKind kind, int64_t alignment, const char* operand,
             const Call& call);
    /// Checks `bytes` at `address` against the argument that contains them; returns their position on the host.
    uint8_t* Resolve(const GlobalView& view, uint64_t address, uint64_t bytes, Pipe pipe, AccessKind kind,
                     const char* operand, const Call& call);

    /// Checks the contents and the order of an access whose range was checked.
    void Touch(const Access& access);
    /// Checks only the contents of an access, or only its order.
    void TouchContents(const Access& access);
    void TouchOrder(const Access& access);
    /// Checks a read of an instruction that moves bytes. In levels without the check undefined_lanes, the bytes may be
    /// undefined; they stay undefined at the destination. Returns their state.
    uint8_t TouchMoved(const Access& access);
    /// Checks a read of bytes that DMA stores at `address`. In levels without the check undefined_lanes, undefined
    /// bytes are a finding only if an argument still has them at the end.
    void TouchStored(const Access& access, uint64_t address);
    /// Marks the bytes at `to` as undefined that were undefined in global memory.
    void CopyUndefined(uint64_t address, int64_t bytes, int64_t to, const Call& call);
    /// Notes that the API which used these bytes last orders their next use.
    void ForgetOrder(int64_t begin, int64_t bytes) { localOrder_.Forget(begin, bytes); }

    /// The compiler orders no instruction of this core from here on.
    void EndAutomaticOrder() { localOrder_.EndAutomatic(); }

    /// Checks that the cache of the scalar unit cannot have an old line for a load.
    void LoadCached(const GlobalView& view, uint64_t address, const Call& call);
    /// Checks that no other core has the line of a store in its cache; such a line must be written back first.
    void StoreCached(const GlobalView& view, uint64_t address, const Call& call);
    /// DataCacheCleanAndInvalid of a line, or of all.
    void DropCache(const GlobalView& view, bool isWhole);
    const ScalarCache& Cache() const { return cache_; }
    /// Reports lines that are not written back at the end of the kernel.
    void ReportLeft();

    /// Makes accesses to a part of the unified buffer findings.
    void Watch(const MemoryWatch& watch)
    {
        watches_[static_cast<size_t>(watch.number)] = watch;
        isWatching_ = isWatching_ || watch.isOn;
    }

    /// The reads of the scalar unit since the last write to global memory.
    RepeatedReads& Reads() { return reads_; }

    /// The arguments that the core has used.
    const AccessedArguments& Accessed() const { return accessed_; }

private:
    /// Undefined bytes that an instruction has stored to an argument.
    struct UndefinedStore {
        Region* region;
        Pipe pipe;
        Call call;
        std::string text;
        std::vector<WrittenBytes::Run> runs;
    };

    void ReportUndefined(const Access& access, int64_t unwritten);
    std::string UndefinedText(const Access& access, int64_t unwritten);
    void ReportUndefinedStores();
    void CheckUnit(const LocalUnit& unit, Pipe pipe, AccessKind kind, const char* operand, const Call& call);
    void CheckState(const Buffer& buffer, Pipe pipe, AccessKind kind, const char* operand, const Call& call);
    /// The start of the buffer that contains `address`.
    int64_t BufferAt(int64_t address) const;
    /// The instructions that left the byte at `address` undefined, and wrote the byte before it in the same read.
    std::string DescribeUndefined(int64_t address, int64_t readBegin);
    void CheckGlobalContents(const Access& access);
    void CheckWatches(const Access& access);
    void CheckUnflushed(const Access& access);
    /// `memory` begins at address `base`.
    void ReportRace(const Access& access, const Conflict& conflict, const std::string& memory, int64_t base);

    LaunchState& launch_;
    const uint32_t core_;
    const Execution& execution_;
    Diagnostics& diagnostics_;
    LocalMemory& local_;
    CoreOrder& order_;
    LocalOrder localOrder_;
    ScalarCache cache_;
    RepeatedReads reads_;
    SiteCache sites_;
    AccessedArguments accessed_;
    std::vector<UndefinedStore> undefinedStores_;
    std::array<MemoryWatch, 4> watches_{};
    bool isWatching_ = false;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_ACCESS_CHECKS_H
