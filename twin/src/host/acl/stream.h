// Streams: task queues with one thread each. Events: positions in a stream that other streams can wait for.
#ifndef OPFORGE_TWIN_HOST_ACL_STREAM_H
#define OPFORGE_TWIN_HOST_ACL_STREAM_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "acl/acl_base.h"
#include "host/acl/stream_order.h"

namespace opforge::twin::host {

/// The result of a task; code 0 is success.
struct TaskResult {
    aclError code = 0;
    std::string message;
};

using Task = std::function<TaskResult()>;

class Capture;

class Stream {
public:
    Stream();
    /// Waits for all queued tasks.
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// Queues work, or adds it to the capture of the stream. After a task of the stream fails, later work is dropped.
    void Submit(const std::string& name, Task task);
    /// Queues an event mark. It is always executed, because other streams may wait for it.
    void SubmitMark(std::function<void()> mark);
    /// Waits for all tasks; returns no value on timeout. The stream keeps its first failure.
    std::optional<TaskResult> Wait(std::optional<std::chrono::milliseconds> timeout);
    uint64_t Number() const { return number_; }
    /// Whether a task of the stream makes this call: a function of aclrtLaunchHostFunc.
    bool IsOwnTask() const { return std::this_thread::get_id() == thread_.get_id(); }
    bool IsIdle();
    /// Returns the capture that records the tasks; null if the stream executes them.
    std::shared_ptr<Capture> Captured();
    void SetCapture(const std::shared_ptr<Capture>& capture);

private:
    struct Entry {
        Task work;
        std::function<void()> mark;
        StreamOrder::Handle order{};
    };

    /// Call it with the lock.
    bool HasNoTask() const { return queue_.empty() && !busy_; }
    void Work();

    const uint64_t number_ = StreamOrder::Instance().NewStream();
    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<Entry> queue_;
    TaskResult failure_;
    std::weak_ptr<Capture> capture_;
    bool busy_ = false;
    bool ending_ = false;
    std::thread thread_;
};

class EventState;

/// Each record has a number. To wait for the event means to wait until that number is reached.
class Event {
public:
    Event();

    void Record(Stream& stream);
    /// Makes later tasks of the stream wait for the records made so far. An event of a capture adds the stream to it.
    aclError LetWait(Stream& stream) const;
    /// Returns the capture that recorded the event last and has not ended; else null.
    std::shared_ptr<Capture> Captured() const;
    void Wait() const;
    bool WasRecorded() const;
    bool IsComplete() const;
    std::chrono::steady_clock::time_point Time() const;

    bool isCompleteBeforeRecord = false;  ///< aclrtCreateEventExWithFlag

private:
    std::shared_ptr<EventState> state_;
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_STREAM_H
