// The last accesses to the memories of a core: for each 32-byte block, the last write and the last read of each pipe.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_LOCAL_ORDER_H
#define OPFORGE_TWIN_KERNEL_ORDER_LOCAL_ORDER_H

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "kernel/exec/core_layout.h"
#include "kernel/order/order.h"

namespace opforge::twin::kernel {

/// An earlier access to the same bytes that is not ordered before the current one.
struct Conflict {
    uint32_t block;  ///< core of the earlier access
    Pipe pipe;
    AccessKind kind;
    uint32_t time;  ///< number of its instruction
    uint32_t site;
    int64_t begin;  ///< the bytes that both use, address on the core or address of the launch
    int64_t end;
};

/// Bits of the bytes of [begin, end) in the 32-byte block `block`.
uint32_t BytesIn(int64_t block, int64_t begin, int64_t end);

class LocalOrder {
public:
    /// `isAutomatic`: the compiler orders some pipes.
    LocalOrder(CoreKind kind, bool isOn, bool isAutomatic);

    /// Records an access; returns an earlier conflicting one. Accesses of one instruction do not conflict. Adds the
    /// flags that the compiler inserts to the order.
    std::optional<Conflict> Note(const Access& access, uint32_t now, uint32_t site, CoreOrder& order);
    /// The site of the last write to a byte before instruction `now`.
    std::optional<uint32_t> LastWriter(int64_t address, uint32_t now);
    /// Notes that the API which used these bytes last orders their next use.
    void Forget(int64_t begin, int64_t bytes);

    void EndAutomatic() { isAutomatic_ = false; }

    static constexpr size_t kMostUsers = 6;
    using UserPipes = std::vector<Pipe>;  ///< pipes that access these memories

private:
    /// By block, up to the last block that was used.
    struct Uses {
        std::vector<uint32_t> time;
        std::vector<uint32_t> bytes;
        std::vector<uint32_t> site;
        uint32_t latest = 0;  ///< of all blocks

        void Reach(size_t blocks);
    };

    struct Use {
        size_t user;
        bool isWrite;
        int64_t begin;
        int64_t end;
        uint32_t site;
        uint32_t settled;
    };

    size_t Users() const { return pipes_.size(); }
    Uses& Of(size_t user, bool isWrite) { return uses_[2 * user + (isWrite ? 1 : 0)]; }
    size_t UserOf(Pipe pipe) const;
    void Consider(const Access& access, size_t user, bool isWrite, CoreOrder& order, std::optional<Conflict>& found);
    uint32_t SettledTime(Pipe pipe, const CoreOrder& order);
    std::optional<Conflict> Find(const Access& access, size_t user, bool isWrite, uint32_t known);

    void RecordPending();
    /// Starts instruction `now`: records the accesses of earlier instructions.
    void Begin(uint32_t now);

    bool isOn_;
    bool isAutomatic_;
    const UserPipes& pipes_;
    uint32_t now_ = 0;
    std::vector<Use> pending_;  ///< accesses of instruction `now_`: its read must not replace an earlier one before its
                                ///< write is checked
    std::array<Uses, 2 * kMostUsers> uses_;
    std::array<std::pair<uint64_t, uint32_t>, kPipes> settled_{};  ///< by pipe: the changes of the order, and the time
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_LOCAL_ORDER_H
