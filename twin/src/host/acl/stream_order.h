// The order of the tasks of streams and of the copies of the host: accesses to the same bytes without an order.
#ifndef OPFORGE_TWIN_HOST_ACL_STREAM_ORDER_H
#define OPFORGE_TWIN_HOST_ACL_STREAM_ORDER_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "host/acl/device_memory.h"
#include "opforge_twin/launch.h"

namespace opforge::twin::host {

class StreamOrder {
public:
    /// The number of the last known task of each stream. Stream 0: the calls of the host.
    using Clock = std::map<uint64_t, uint64_t>;

    static constexpr uint64_t kHost = 0;
    static constexpr const char* kFree = "aclrtFree";

    struct Task {
        uint64_t stream;
        uint64_t number;
        uint64_t serial;     ///< of the call that queued it
        const void* caller;  ///< the return address of a call of the host, if it is known
        Clock before;
    };
    using Handle = std::shared_ptr<const Task>;

    static StreamOrder& Instance();

    uint64_t NewStream();
    /// A new task of a stream; null if order is not checked.
    Handle Begin(uint64_t stream, const void* caller = nullptr);
    void End(const Handle& task);
    /// The tasks of a stream up to now.
    Clock Of(uint64_t stream);
    /// Orders later tasks of a stream after those of the clock.
    void Join(uint64_t stream, const Clock& clock);
    /// Orders later calls of the host after the running task of this thread.
    void JoinHost();

    /// Notes accesses of the running task of this thread, and reports those without an order. `what`: a function or a
    /// kernel.
    void Use(const std::string& what, const DeviceAllocation& allocation, ByteUse use, std::vector<ByteRange> ranges);
    /// The device was reset.
    void Forget(uintptr_t begin);

    /// Makes a task the running one of this thread.
    class Running {
    public:
        explicit Running(Handle task);
        ~Running();
        Running(const Running&) = delete;
        Running& operator=(const Running&) = delete;

    private:
        Handle task_;
        Handle previous_;
    };

private:
    struct Record {
        Handle task;
        std::string what;
        ByteUse use;
        std::vector<ByteRange> ranges;
    };

    void JoinLocked(uint64_t stream, const Clock& clock);
    void RemoveKnown();
    std::string Conflict(const Record& earlier, const Record& later, const DeviceAllocation& allocation);

    std::mutex lock_;
    std::map<uint64_t, Clock> known_;
    std::map<uint64_t, uint64_t> last_;
    std::map<uintptr_t, std::vector<Record>> records_;  ///< by the address of the allocation
    std::set<std::string> reported_;
    uint64_t streams_ = 0;
    uint64_t serial_ = 0;
    size_t unfinished_ = 0;
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_STREAM_ORDER_H
