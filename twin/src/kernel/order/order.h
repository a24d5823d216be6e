// The happens-before order: one clock per pipe of a core. Only flags, barriers, queues and barriers between cores order
// pipes; the program order does not.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_ORDER_H
#define OPFORGE_TWIN_KERNEL_ORDER_ORDER_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/memory/access.h"

namespace opforge::twin::kernel {

inline constexpr size_t kPipes = 7;

/// Two pipes that a HardEvent orders.
struct PipePair {
    Pipe from;
    Pipe to;
};

const char* Name(AscendC::HardEvent event);
PipePair EndsOf(AscendC::HardEvent event);
/// The event that orders `to` after `from`; MAX if there is none.
AscendC::HardEvent EventOf(Pipe from, Pipe to);

/// For each pipe, the number of its last finished instruction. Instructions of a core are numbered in program order,
/// over all pipes.
struct Clock {
    std::array<uint32_t, kPipes> finished{};

    uint32_t Of(Pipe pipe) const { return finished[static_cast<size_t>(pipe)]; }
    uint32_t& Of(Pipe pipe) { return finished[static_cast<size_t>(pipe)]; }
    void Join(const Clock& other);
};

/// Clocks of all cores of a launch, by block.
using CoreClocks = std::vector<Clock>;

void Join(CoreClocks& into, const CoreClocks& other);

/// The clocks of one core.
class CoreOrder {
public:
    /// The finished instructions of all pipes after instruction `now` of `pipe`.
    Clock After(Pipe pipe, uint32_t now) const;
    /// `pipe` continues after `clock`. The scalar unit issues all instructions: a wait of it orders all pipes.
    void Wait(Pipe pipe, const Clock& clock);
    /// `pipe` (or every pipe) continues after all its instructions up to `now`.
    void Barrier(Pipe pipe, uint32_t now);
    /// The instructions that finish before all later instructions of `pipe`.
    const Clock& Before(Pipe pipe) const { return known_[static_cast<size_t>(pipe)]; }
    /// The number of changes of these clocks.
    uint64_t Changes() const { return changes_; }

    /// The clocks that this core releases to other cores: its clock after `own`, and all acquired clocks.
    CoreClocks Release(uint32_t block, uint32_t blocks, const Clock& own) const;
    /// All pipes of this core, `block`, continue after the released instructions of other cores; `byAll`: all cores of
    /// the launch acquire them.
    void Acquire(const CoreClocks& released, uint32_t block, bool byAll);
    /// Forgets the accesses of this core so far: all cores have acquired their ends, so no conflict is possible.
    uint32_t MetAt() const { return metAt_; }
    uint32_t Acquired(uint32_t block, Pipe pipe) const
    {
        return block < acquired_.size() ? acquired_[block].Of(pipe) : 0;
    }

private:
    std::array<Clock, kPipes> known_;
    uint64_t changes_ = 1;
    CoreClocks acquired_;
    uint32_t metAt_ = 0;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_ORDER_H
