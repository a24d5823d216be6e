#include "host/acl/capture.h"

#include <algorithm>
#include <atomic>

#include "host/acl/errors.h"
#include "host/acl/handle_table.h"
#include "kernel/exec/text.h"

namespace opforge::twin::host {

using opforge::twin::kernel::Text;

namespace {

std::atomic<int> activeCaptures{0};
thread_local bool isReplay = false;
thread_local aclmdlRICaptureMode threadMode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

}  // namespace

Capture::Capture(Stream& origin, aclmdlRICaptureMode mode) : origin_(&origin), mode_(mode)
{
    streams_[&origin];
    ++activeCaptures;
}

bool Capture::Add(const Stream& stream, const std::string& name, const Task& task)
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (!isActive_) {
        return false;
    }
    ++streams_[&stream][&stream];
    tasks_.push_back({&stream, name, task});
    return true;
}

Steps Capture::Record(const Stream& stream) const
{
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = streams_.find(&stream);
    return found == streams_.end() ? Steps() : found->second;
}

void Capture::Join(const std::shared_ptr<Capture>& self, Stream& stream, const Steps& steps)
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        Steps& own = streams_[&stream];
        for (const auto& [other, count] : steps) {
            own[other] = std::max(own[other], count);
        }
        ++own[&stream];
    }
    stream.SetCapture(self);
}

void Capture::Invalidate()
{
    const std::lock_guard<std::mutex> guard(lock_);
    isInvalid_ = true;
}

aclError Capture::End()
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (!isActive_) {
        return ACL_ERROR_RT_STREAM_NOT_CAPTURED;
    }
    isActive_ = false;
    --activeCaptures;
    if (isInvalid_) {
        return ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED;
    }
    const Steps& seen = streams_[origin_];
    const bool isJoined = std::all_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
        const auto own = entry.second.find(entry.first);
        const auto known = seen.find(entry.first);
        return own == entry.second.end() || (known != seen.end() && known->second == own->second);
    });
    return isJoined ? ACL_SUCCESS : ACL_ERROR_RT_STREAM_UNJOINED;
}

bool Capture::IsActive() const
{
    const std::lock_guard<std::mutex> guard(lock_);
    return isActive_;
}

bool Capture::IsInvalid() const
{
    const std::lock_guard<std::mutex> guard(lock_);
    return isInvalid_;
}

TaskResult Capture::Run() const
{
    isReplay = true;
    TaskResult result;
    for (auto task = tasks_.begin(); task != tasks_.end() && result.code == 0; ++task) {
        result = task->task();
    }
    isReplay = false;
    return result;
}

bool Capture::IsReplay()
{
    return isReplay;
}

std::shared_ptr<Capture> IfActive(std::shared_ptr<Capture> capture)
{
    return capture != nullptr && capture->IsActive() ? std::move(capture) : nullptr;
}

std::vector<std::shared_ptr<Capture>> ActiveCaptures()
{
    std::vector<std::shared_ptr<Capture>> active;
    if (activeCaptures != 0) {
        for (std::shared_ptr<Capture>& capture : HandleTable<Capture>::Instance().Live()) {
            if (capture->IsActive()) {
                active.push_back(std::move(capture));
            }
        }
    }
    return active;
}

aclError CheckUnsafe(const char* function)
{
    for (const std::shared_ptr<Capture>& capture : ActiveCaptures()) {
        const bool isOwn = capture->IsOfThisThread();
        const bool isAllowed = capture->Mode() == ACL_MODEL_RI_CAPTURE_MODE_RELAXED ||
                               threadMode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED ||
                               (!isOwn && (capture->Mode() == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL ||
                                           threadMode == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
        if (!isAllowed) {
            return Fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
                        Text(function,
                             ": not allowed during a capture in this mode; use aclrtMemcpyAsync with memory "
                             "of aclrtMallocHost, or aclmdlRICaptureThreadExchangeMode with mode relaxed"));
        }
    }
    return ACL_SUCCESS;
}

aclError CheckNotCaptured(const char* function, Stream& stream)
{
    const std::shared_ptr<Capture> capture = stream.Captured();
    if (capture == nullptr) {
        return ACL_SUCCESS;
    }
    capture->Invalidate();
    return Fail(ACL_ERROR_RT_STREAM_CAPTURED,
                Text(function, ": the stream is captured; call aclmdlRICaptureEnd first"));
}

void AbortCapture(Stream& stream)
{
    if (const std::shared_ptr<Capture> capture = stream.Captured()) {
        capture->Invalidate();
        if (capture->IsOrigin(stream)) {
            capture->End();
            HandleTable<Capture>::Instance().Destroy(capture.get());
        }
    }
}

void AbandonCaptures()
{
    activeCaptures = 0;
    HandleTable<Capture>::Instance().Abandon();
}

}  // namespace opforge::twin::host

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode)
{
    if (mode == nullptr || *mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || *mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    "aclmdlRICaptureThreadExchangeMode: mode is null or unknown, expected an aclmdlRICaptureMode");
    }
    std::swap(threadMode, *mode);
    return ACL_SUCCESS;
}
