// One block of a launch: the state of its core, and the places through which all its accesses and orders pass.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_BLOCK_H
#define OPFORGE_TWIN_KERNEL_EXEC_BLOCK_H

#include <array>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "kernel/memory/access.h"
#include "kernel/exec/core_layout.h"
#include "kernel/order/cross_core.h"
#include "kernel/memory/global_memory.h"
#include "kernel/exec/interrupt.h"
#include "kernel/memory/l2_cache.h"
#include "kernel/memory/local_memory.h"
#include "kernel/order/local_order.h"
#include "kernel/order/order.h"
#include "kernel/memory/scalar_cache.h"
#include "kernel/exec/sites.h"
#include "kernel/exec/soc.h"
#include "kernel/exec/stack_guard.h"
#include "kernel/exec/text.h"
#include "kernel/timing/timeline.h"
#include "kernel/order/unit_flags.h"
#include "opforge_twin/launch.h"

namespace opforge::twin::kernel {

class Scheduler;

/// Thrown through the kernel's frames to end its block.
struct Stopped {};

/// What the blocks of a launch share.
struct LaunchState {
    const LaunchRequest& request;
    const Options& options;
    const SocFigures& soc;
    CoreLayout layout;
    uint64_t seed;
    GlobalMemory memory{};
    Sites sites{};
    uint32_t workspaceRegion = 0;
    uint32_t tilingRegion = 0;
    Scheduler* scheduler = nullptr;
    std::string tracePath{};                         ///< empty: no trace
    bool isDeclared = false;                         ///< the layout is that of the type which the kernel has declared
    std::atomic<const TaskType*> declared{nullptr};  ///< with other cores than the layout has: the launch starts anew
    std::atomic<uint64_t> dmaCount{0};

    /// DMA instructions whose traffic is remembered until the launch has ended: 150 MB of records.
    static constexpr uint64_t kMostRecords = uint64_t{2} << 20;
};

/// Flags and event ids, one set for each HardEvent.
struct EventState {
    static constexpr int32_t kIds = 8;
    std::array<bool, kIds> set{};
    std::array<bool, kIds> reserved{};
    std::array<Location, kIds> reservedAt{};  ///< by AllocEventID; no place: by a queue
    std::array<Location, kIds> setAt{};
    std::array<Clock, kIds> clock{};  ///< what has finished when the flag is set
    std::array<Moment, kIds> time{};  ///< when it is seen
};

class Block {
public:
    Block(LaunchState& launch, uint32_t index);

    /// Ends the block unless it runs on a core of this kind.
    void Require(CoreKind kind, const Call& call);
    /// Ends the block unless its core has this pipe.
    void RequirePipe(Pipe pipe, const Call& call);

    /// Notes a mistake and goes on.
    void Report(const char* kind, Pipe pipe, const Call& call, const std::string& message);
    /// Notes what is no mistake in itself and hardly meant.
    void Warn(const char* kind, Pipe pipe, const Call& call, const std::string& message);
    /// Notes a mistake after which nothing sensible can be done, and ends the block.
    [[noreturn]] void Fail(const char* kind, Pipe pipe, const Call& call, const std::string& message);

    /// The buffer that `view` was taken from, if it still is that buffer.
    Buffer& LiveBuffer(const LocalView& view, Pipe pipe, const char* operand, const Call& call);
    /// The memory that a tensor lies in; ends the block when it has none.
    const LocalUnit& UnitOf(const LocalView& view, Pipe pipe, const char* operand, const Call& call)
    {
        return local.UnitOf(LiveBuffer(view, pipe, operand, call).begin);
    }
    /// Checks that `view` may be used by `pipe` now, and that `bytes` from its address on are its own.
    void Use(const LocalView& view, int64_t bytes, Pipe pipe, AccessKind kind, int64_t alignment, const char* operand,
             const Call& call);
    /// Checks `bytes` at `address` against the argument they belong to; returns where they are.
    uint8_t* Resolve(const GlobalView& view, uint64_t address, uint64_t bytes, Pipe pipe, AccessKind kind,
                     const char* operand, const Call& call);
    /// Every access of every instruction, after its range was checked.
    void Touch(const Access& access);
    /// What a row brought from global memory to `to` is as undefined as it was there.
    void SpreadUndefined(uint64_t address, int64_t bytes, int64_t to);
    /// Checks that a load of the scalar unit cannot find an old line in its cache.
    void CheckCachedLoad(const GlobalView& view, uint64_t address, const Call& call);
    /// Checks that no other core has the line of a store in its cache, to write it back too.
    void CheckCachedStore(const GlobalView& view, uint64_t address, const Call& call);
    /// DataCacheCleanAndInvalid of a line, or of all.
    void DropCache(const GlobalView& view, bool whole);
    /// The contents of an access that was noted as a whole.
    void CheckContents(const Access& access);
    /// An access whose contents do not matter: scratch.
    void NoteUse(const Access& access);
    /// A row of a DMA instruction between global memory and the core.
    void CountDma(const GlobalView& view, uint64_t address, uint64_t bytes, bool written);
    /// The end of a DMA instruction whose rows were counted.
    void EndDma(Pipe pipe, const Call& call, double leastCycles = 0.0);

    /// Every order between pipes.
    void SetEvent(AscendC::HardEvent event, int64_t id, const Call& call);
    void WaitEvent(AscendC::HardEvent event, int64_t id, const Call& call);
    int32_t FreeEvent(AscendC::HardEvent event, const Call& call);
    EventState& Event(AscendC::HardEvent event) { return events_[static_cast<size_t>(event)]; }
    /// The order that a flag makes, once it is set.
    void PassEvent(AscendC::HardEvent event, int32_t id);
    void PassBarrier(Pipe pipe);
    /// Orders the instructions of a pipe that waits for its earlier ones without a barrier.
    void OrderOwn(Pipe pipe) { order_.Barrier(pipe, Now()); }
    /// The core comes to a meeting with everything finished that `pipe` (or all of them) was given.
    CoreClocks Publish(Pipe pipe) const;
    /// What another core is to know when `pipe` (or all of them) has finished; seen `delay` cycles later.
    Signal SignalAfter(Pipe pipe, double delay, const Location& at) const;
    /// `byAll`: all cores of the launch hear it.
    void Hear(const Signal& signal, bool byAll);
    /// Orders `to` behind all that `from` was given, as an instruction that needs no flag for it does.
    void OrderInside(Pipe from, Pipe to);
    /// Number of the instruction that runs, over all pipes of the core.
    uint32_t Now() const { return static_cast<uint32_t>(instructions.load(std::memory_order_relaxed)); }

    /// Checks the stack of the kernel, whose innermost frame is at `frame`.
    void CheckStack(uintptr_t frame, const Call& running);

    /// KERNEL_TASK_TYPE_DEFAULT; ends the block when the launch has other cores than the type.
    void Declare(const TaskType& type, const Call& call);

    /// What must hold when the kernel function has returned.
    void Finish();

    /// Marks whether the thread runs the kernel's own code; signal handlers see it in this order.
    void SetInKernel(bool isIn)
    {
        inKernel.store(isIn, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }

    LaunchState& launch;
    const uint32_t index;  ///< core of the launch
    const CoreSeat seat;
    LocalMemory local;
    LocalOrder localOrder;
    Timeline timeline;

    void* pipe = nullptr;  ///< the live TPipe
    uint64_t maskLow = ~uint64_t{0};
    uint64_t maskHigh = ~uint64_t{0};
    bool counterMode = false;
    Location maskChangedAt;
    bool maskChanged = false;
    AtomicOp atomic = AtomicOp::kNone;
    Dtype atomicDtype = Dtype::kOther;
    Location atomicAt;
    const Region* atomicRegion = nullptr;  ///< what the atomic mode was used for first
    bool isHf32 = false;                   ///< float factors are rounded to HF32
    bool truncatesToHf32 = false;          ///< towards zero, else to nearest even
    Location hf32At;
    UnitFlags unitFlags;
    bool hasDequantScale = false;
    float dequantScale = 1.0F;
    bool hasCompareMask = false;
    std::array<uint8_t, 16> compareMask{};   ///< CMPMASK: a bit for each element of a repeat
    int64_t compactedCount = 0;              ///< elements that the last GatherMask kept
    std::array<uint16_t, 4> mergedCounts{};  ///< entries that the last MrgSort took from each list
    const TaskType* taskType = nullptr;      ///< declared by the kernel
    std::set<uint64_t> askedKeys;            ///< those of its TILING_KEY_IS
    ScalarCache cache;
    std::array<uint32_t, 2> syncs{};  ///< SyncAlls of the vector cores, and of all

    uint64_t bytesRead = 0;
    uint64_t bytesWritten = 0;
    uint64_t dmaCount = 0;
    uint64_t macs = 0;        ///< products that the kernel asked the cube unit for, padding left out
    double cubeCycles = 0.0;  ///< of them at the peak of the unit
    std::deque<DmaRecord> traffic;
    std::vector<Finding> findings;
    bool stopped = false;

    // The watchdog and the signal handlers look at these from outside.
    std::atomic<uint64_t> instructions{0};
    std::atomic<bool> interrupted{false};
    std::atomic<bool> inKernel{false};  ///< in the kernel's own code, which may be left by a jump
    sigjmp_buf escape{};
    Fault fault;
    StackGuard stackGuard;     ///< between the twin's frames and the kernel's
    uintptr_t stackBase = 0;   ///< where the kernel's frames begin; they grow downwards
    uintptr_t stackLimit = 0;  ///< what they must not come below
    Call lastCall{"", {}};

private:
    void CheckUnit(const LocalUnit& unit, Pipe pipe, AccessKind kind, const char* operand, const Call& call);
    const char* DescribeState(const Buffer& buffer) const;
    void CheckState(const Buffer& buffer, Pipe pipe, AccessKind kind, const char* operand, const Call& call);
    /// Where the buffer begins that holds `address`.
    int64_t BufferAt(int64_t address) const;
    void CheckGlobalContents(const Access& access);
    void CheckUnflushed(const Access& access);
    void Note(const char* kind, Pipe pipe, const Call& call, const std::string& message, bool isWarning);
    void CheckOrder(const Access& access);
    /// `memory` begins at address `base`.
    void ReportRace(const Access& access, const Conflict& conflict, const std::string& memory, int64_t base);

    CoreOrder order_;
    DmaRecord dma_;  ///< the instruction that runs
    SiteCache sites_;
    std::array<EventState, static_cast<size_t>(AscendC::HardEvent::MAX)> events_;
};

/// The block that runs on this thread, null outside of a launch.
Block*& CurrentBlock();

/// Every function that a kernel calls starts with one: it finds the block and lets the watchdog in.
class Entry {
public:
    explicit Entry(const Call& call);
    ~Entry() { block_.SetInKernel(!block_.stopped); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    Block* operator->() const { return &block_; }
    Block& operator*() const { return block_; }

private:
    Block& block_;
};

std::string Where(const Location& at);
const char* Name(AscendC::HardEvent event);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_BLOCK_H
