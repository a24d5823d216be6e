// Runs the blocks of a launch on OS threads, some at a time, with barriers between them.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_SCHEDULER_H
#define OPFORGE_TWIN_KERNEL_EXEC_SCHEDULER_H

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>

#include "kernel/exec/argument_use.h"
#include "kernel/exec/block.h"
#include "kernel/order/messages.h"
#include "kernel/timing/estimate.h"
#include "kernel/timing/trace.h"
#include "opforge_twin/kernel/matmul/job.h"

namespace opforge::twin::kernel {

/// The limit of a block.
struct TimeLimit {
    double seconds;
    bool isElapsed;  ///< counts elapsed time, else CPU time
};

class Scheduler {
public:
    /// `body` runs the kernel for a block; it returns when the block has ended, for any reason.
    Scheduler(LaunchState& launch, std::function<void(Block&)> body);

    /// Runs all blocks to their ends, with the calling thread as watchdog. Adds findings and counters to `report`.
    void Run(LaunchReport& report);

    // For blocks, on their own threads:
    /// The next SyncAll of the block: returns when every block of the launch, or every block on a vector core, has
    /// reached it.
    void Barrier(Block& block, bool isAivOnly, const Call& call);
    /// CrossCoreSetFlag and CrossCoreWaitFlag.
    void SetShared(Block& block, int64_t mode, Pipe pipe, int64_t flag, const Call& call);
    void WaitShared(Block& block, int64_t flag, const Call& call);
    /// Flags in global memory, by address.
    void SetGmFlag(Block& block, uint64_t address, const Call& call);
    /// As SetGmFlag, for flags that count.
    void CountGmFlag(Block& block, uint64_t address, const Call& call);
    void WaitGmFlag(Block& block, uint64_t address, const Call& call);

    /// An access of the scalar unit to memory, not to its cache. A load continues after the work that the core of the
    /// last store to the same address has finished before.
    void StoreUncached(Block& block, uint64_t address, const std::function<void()>& store, const Call& call);
    void LoadUncached(Block& block, uint64_t address, const std::function<void()>& load);

    /// A product that a vector core has sent to the cube core of its AI core.
    struct MatmulRequest {
        uint32_t sender = 0;
        MatmulJob job;
        Call call{"", {}};
        Signal signal;
    };
    void Post(Block& sender, const MatmulJob& job, const Call& call);
    /// Waits for the next request to a cube core; false if its vector cores have ended. A core whose tile stays in L0C
    /// is served until it has stored the tile.
    bool Take(Block& server, MatmulRequest& request);
    void Answer(Block& server, const MatmulRequest& request);
    void AwaitAnswer(Block& sender, const Call& call);

    using Ready = std::function<bool()>;
    /// The messages to a group of cube cores.
    MessageArea& MessagesOf(int32_t area);
    /// Calls `change` while no other block uses messages.
    void ChangeMessages(const std::function<void(MessageAreas&)>& change);
    /// Waits until `isReady`, which reads the messages. Ends the block with `problem` if no block can make it ready.
    void AwaitMessage(Block& block, const Ready& isReady, const std::function<std::string()>& problem,
                      const Call& call);
    /// The same, but returns false when all other blocks wait.
    bool PollMessage(Block& block, const Ready& isReady, const std::function<std::string()>& problem, const Call& call);
    /// The finding of a block after so many polls for which all other blocks waited.
    struct VainPoll {
        const char* kind;
        uint32_t polls;
        std::function<std::string()> problem;
    };
    static constexpr uint32_t kMostVainPolls = 10000;
    /// The same for `isReady` that reads global memory.
    bool Poll(Block& block, const Ready& isReady, const VainPoll& vain, const Call& call);

private:
    static void BeginPhase(Block& block, const Call& call);

    struct Watched {
        Block* block;
        pthread_t thread;
        uint64_t instructions;
        double cpuSeconds;  ///< of the thread, at the last check of the watchdog
        double quietSeconds =
            0;  ///< since the block last made progress: computing, or blocked in the kernel's own code
        double spentSeconds = 0;  ///< in all, as TimeLimit counts it
    };

    /// A call of Poll: it is ready, or it may end.
    struct OpenPoll {
        const Ready* isReady;
        const Ready* mayEnd;
    };

    /// The number of blocks at a barrier, and the clocks of their finished work.
    struct BarrierState {
        uint32_t blocks = 0;
        Signal signal;
    };

    /// A barrier of all cores ends their phase; a barrier of some cores delays only those.
    bool EndsPhase(bool isAivOnly) const { return !isAivOnly || !launch_.layout.IsMixed(); }
    void ReportLeftFlags();
    void Work();
    void RunOne(uint32_t index);
    void Collect(Block& block);
    /// Starts a worker; false if the system has no thread for it.
    bool Spawn();
    /// Ends the launch without starting the remaining blocks, because the system lacks a resource.
    void Abandon(const std::string& problem);
    /// Charges a block for the time since the last check of the watchdog; true if its time limit is exceeded.
    static bool IsOverdue(Watched& watched, double elapsed, const TimeLimit& limit);
    /// Releases the execution slot until `ready`; false if no block can ever make it ready.
    bool WaitUntil(std::unique_lock<std::mutex>& lock, const Ready& ready);
    void ReleaseIfStuck();
    /// Whether no block can continue but those in Poll, of which this one is the first.
    bool IsVainPoll(const Ready& isReady) const;
    [[noreturn]] void FailDeadlock(Block& block, const Call& call, const std::string& message, bool silent,
                                   const char* kind = "deadlock") const;
    std::string EndedBefore(SyncScope scope, uint32_t barriers) const;
    void WatchOver();

    LaunchState& launch_;
    std::function<void(Block&)> body_;
    std::vector<uint32_t> order_;
    uint32_t slots_;

    std::mutex mutex_;
    std::condition_variable changed_;   ///< a condition of a waiting block may have changed
    std::condition_variable finished_;  ///< a worker has ended
    size_t next_ = 0;
    uint32_t running_ = 0;
    uint32_t alive_ = 0;
    bool stuck_ = false;
    uint32_t overflows_ = 0;    ///< blocks that wait until the counter of a flag no longer runs over
    bool isAftermath_ = false;  ///< an error was reported: later errors are its consequences
    bool someoneStopped_ = false;
    bool isEndless_ = false;  ///< a block reached its time limit: the others are cancelled
    std::vector<const Ready*> waiting_;
    std::vector<Watched> watched_;
    std::vector<std::thread> threads_;
    std::array<std::vector<BarrierState>, 2> barriers_;  ///< the n-th SyncAll
    CrossCoreFlags flags_;
    std::map<uint64_t, std::deque<Signal>> gmFlags_;
    std::map<uint64_t, std::pair<uint32_t, Signal>> stores_;  ///< cores of StoreUncached by address
    std::map<uint32_t, std::deque<MatmulRequest>> requests_;  ///< requests by AI core
    std::map<uint32_t, uint32_t> holders_;                    ///< by AI core: the vector core whose tile is in L0C
    std::map<uint32_t, std::deque<Signal>> answers_;          ///< by vector core
    MessageAreas messages_;
    std::deque<OpenPoll> polls_;                 ///< in the order of their calls
    uint32_t vainPolls_ = 0;                     ///< since a poll was ready
    std::map<uint32_t, SyncCounts> endedAfter_;  ///< SyncAlls of each ended block

    std::vector<Finding> findings_;
    ArgumentUse arguments_;
    std::vector<uint64_t> coreBytes_;
    Totals totals_;
    Estimate estimate_;
    Trace trace_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_SCHEDULER_H
