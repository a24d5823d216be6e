// Runs the blocks of a launch on OS threads, some at a time, and lets them meet.
#ifndef OPFORGE_TWIN_KERNEL_SCHEDULER_H
#define OPFORGE_TWIN_KERNEL_SCHEDULER_H

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>

#include "kernel/block.h"
#include "kernel/estimate.h"
#include "kernel/trace.h"

namespace opforge::twin::kernel {

class Scheduler {
public:
    /// `body` runs the kernel for a block; it returns when the block has ended, however it did.
    Scheduler(LaunchState& launch, std::function<void(Block&)> body);

    /// Runs all blocks to their ends; the calling thread watches over them. Findings and counters go to `report`.
    void Run(LaunchReport& report);

    // For blocks, on their own threads:
    /// The block's next SyncAll: returns when every block of the launch has come to it.
    void Meet(Block& block, const Call& call);
    /// CrossCoreSetFlag of mode 0 and its wait: the n-th wait passes when every block has set the flag n times.
    void SetShared(Block& block, Pipe pipe, int64_t flag, const Location& at);
    void WaitShared(Block& block, int64_t flag, const Call& call);

private:
    static void BeginPhase(Block& block, const Call& call);

    using Ready = std::function<bool()>;
    struct Watched {
        Block* block;
        pthread_t thread;
        uint64_t instructions;
        double quietSince;  ///< CPU seconds of the thread when the block last made progress
        double startedAt;
    };

    /// How many blocks have come, and what they have finished by then.
    struct Meeting {
        uint32_t blocks = 0;
        CoreClocks published;
    };

    void Arrive(std::vector<Meeting>& meetings, uint32_t number, const Block& block, Pipe pipe) const;
    void Work();
    void RunOne(uint32_t index);
    void Collect(Block& block);
    void Spawn();
    /// Gives the slot up until `ready`; false when no block can ever make it so.
    bool WaitUntil(std::unique_lock<std::mutex>& lock, const Ready& ready);
    void ReleaseIfStuck();
    [[noreturn]] static void GiveUp(Block& block, const Call& call, const std::string& message, bool silent);
    std::string Laggards(uint32_t meetings) const;
    void WatchOver();

    LaunchState& launch_;
    std::function<void(Block&)> body_;
    std::vector<uint32_t> order_;
    uint32_t slots_;

    std::mutex mutex_;
    std::condition_variable changed_;   ///< something a waiting block may be waiting for
    std::condition_variable finished_;  ///< a worker has ended
    size_t next_ = 0;
    uint32_t running_ = 0;
    uint32_t alive_ = 0;
    bool stuck_ = false;
    bool someoneStopped_ = false;
    std::vector<const Ready*> waiting_;
    std::vector<Watched> watched_;
    std::vector<std::thread> threads_;
    std::vector<Meeting> meetings_;                    ///< the n-th SyncAll
    std::array<std::vector<Meeting>, 16> sharedSets_;  ///< the n-th time that a flag is set
    std::vector<int64_t> endedAfter_;                  ///< SyncAlls of each ended block, -1 while it runs

    std::vector<Finding> findings_;
    std::vector<uint64_t> coreBytes_;
    LaunchReport totals_;
    Estimate estimate_;
    Trace trace_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_SCHEDULER_H
