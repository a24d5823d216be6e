// Captures: tasks of streams that are recorded instead of executed. A finished capture is a model that runs the tasks.
#ifndef OPFORGE_TWIN_HOST_ACL_CAPTURE_H
#define OPFORGE_TWIN_HOST_ACL_CAPTURE_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl_rt.h"
#include "host/acl/stream.h"

namespace opforge::twin::host {

/// The number of steps of each stream that a stream or an event depends on.
using Steps = std::map<const Stream*, uint64_t>;

class Capture {
public:
    struct Recorded {
        const Stream* stream;
        std::string name;
        Task task;
    };

    Capture(Stream& origin, aclmdlRICaptureMode mode);

    /// Adds a task of a stream; returns false if the capture has ended.
    bool Add(const Stream& stream, const std::string& name, const Task& task);
    /// Returns the steps that an event of the stream stands for.
    Steps Record(const Stream& stream) const;
    /// Makes later tasks of the stream depend on the steps. The stream becomes one of the capture.
    void Join(const std::shared_ptr<Capture>& self, Stream& stream, const Steps& steps);
    /// Makes the end of the capture fail.
    void Invalidate();
    /// Ends the capture of all its streams. The status is that of aclmdlRICaptureEnd.
    aclError End();

    bool IsActive() const;
    bool IsInvalid() const;
    bool IsOrigin(const Stream& stream) const { return &stream == origin_; }
    aclmdlRICaptureMode Mode() const { return mode_; }
    bool IsOfThisThread() const { return thread_ == std::this_thread::get_id(); }

    // Of a finished capture.
    /// Runs the tasks in the order of their calls, up to the first failure.
    TaskResult Run() const;
    /// Whether this thread runs the tasks of a capture.
    static bool IsReplay();
    const std::vector<Recorded>& Tasks() const { return tasks_; }
    /// Returns an object that exists while the model runs.
    std::shared_ptr<void> Running() const { return running_; }
    bool IsRunning() const { return running_.use_count() > 1; }

private:
    mutable std::mutex lock_;
    const Stream* origin_;
    aclmdlRICaptureMode mode_;
    std::thread::id thread_ = std::this_thread::get_id();
    bool isActive_ = true;
    bool isInvalid_ = false;
    std::map<const Stream*, Steps> streams_;
    std::vector<Recorded> tasks_;
    std::shared_ptr<void> running_ = std::make_shared<int>(0);
};

/// The capture; null if it has ended.
std::shared_ptr<Capture> IfActive(std::shared_ptr<Capture> capture);
/// The captures that have not ended.
std::vector<std::shared_ptr<Capture>> ActiveCaptures();

/// Whether this thread may call a function that is unsafe during captures. If not, sets the error.
aclError CheckUnsafe(const char* function);

/// Fails if the stream is captured, and invalidates its capture.
aclError CheckNotCaptured(const char* function, Stream& stream);

/// Ends the capture of a stream that is destroyed.
void AbortCapture(Stream& stream);

/// In a child made by fork().
void AbandonCaptures();

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_CAPTURE_H
