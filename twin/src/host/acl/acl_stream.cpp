// Streams and events.
#include <chrono>
#include <memory>
#include <optional>
#include <system_error>

#include "acl/acl_rt.h"
#include "host/acl/capture.h"
#include "host/acl/errors.h"
#include "host/acl/handle_table.h"
#include "host/acl/process.h"
#include "kernel/exec/text.h"

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::kernel::Text;

namespace {

using Streams = HandleTable<StreamHandle>;
using Events = HandleTable<Event>;

std::shared_ptr<Event> RequireEvent(const char* function, aclrtEvent event, aclError& status)
{
    if (RequireContext(function, status) == nullptr) {
        return nullptr;
    }
    std::shared_ptr<Event> found = Events::Instance().Share(event);
    if (found == nullptr) {
        status = Fail(ACL_ERROR_RT_PARAM_INVALID,
                      Text(function, ": the event is not one that aclrtCreateEvent made, or it was destroyed"));
    }
    return found;
}

/// The same for a function that must not be called during the capture of the event.
std::shared_ptr<Event> RequireOwnEvent(const char* function, aclrtEvent event, aclError& status)
{
    std::shared_ptr<Event> found = RequireEvent(function, event, status);
    if (found != nullptr) {
        if (const std::shared_ptr<Capture> capture = found->Captured()) {
            capture->Invalidate();
            status = Fail(ACL_ERROR_RT_EVENT_CAPTURED,
                          Text(function, ": a captured stream recorded the event; call aclmdlRICaptureEnd first"));
            return nullptr;
        }
    }
    return found;
}

/// The stream; null and the error if the handle is invalid or the stream is captured.
std::shared_ptr<Stream> RequireWaitable(const char* function, aclrtStream stream, aclError& status)
{
    std::shared_ptr<Stream> queue = RequireStream(function, stream, status);
    status = queue == nullptr ? status : CheckNotCaptured(function, *queue);
    return status == ACL_SUCCESS ? queue : nullptr;
}

aclError Synchronize(const char* function, aclrtStream stream, std::optional<std::chrono::milliseconds> timeout)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireWaitable(function, stream, status);
    if (queue == nullptr) {
        return status;
    }
    const std::optional<TaskResult> result = queue->Wait(timeout);
    if (!result) {
        return Fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                    Text(function, ": tasks still run after ", timeout->count(), " ms"));
    }
    return result->code == 0 ? ACL_SUCCESS : Fail(result->code, result->message);
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Context> context = RequireContext("aclrtCreateStream", status);
    if (context == nullptr) {
        return status;
    }
    if (stream == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateStream: stream is null");
    }
    try {
        *stream = Streams::Instance().Create(context.get());
    } catch (const std::system_error& error) {
        return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                    Text("aclrtCreateStream: the system has no thread for a stream (", error.what(), ")"));
    }
    return ACL_SUCCESS;
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag)
{
    constexpr uint32_t kLowestPriority = 7;
    if (priority > kLowestPriority) {
        return Fail(ACL_ERROR_RT_PARAM_INVALID,
                    Text("aclrtCreateStreamWithConfig: got priority ", priority, ", expected 0 to ", kLowestPriority));
    }
    (void)flag;  // launch mode of the device; the twin has only one
    return aclrtCreateStream(stream);
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    aclError status = ACL_SUCCESS;
    if (stream == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtDestroyStream: stream is null");
    }
    const std::shared_ptr<Stream> queue = RequireStream("aclrtDestroyStream", stream, status);
    if (queue == nullptr) {
        return status;
    }
    status = CheckNotCaptured("aclrtDestroyStream", *queue);
    if (status != ACL_SUCCESS) {
        return status;
    }
    if (queue->IsOwnTask()) {
        return Fail(ACL_ERROR_RT_PARAM_INVALID,
                    "aclrtDestroyStream: a function of aclrtLaunchHostFunc destroys its stream; destroy it in another "
                    "thread");
    }
    queue->Wait(std::nullopt);
    Streams::Instance().Destroy(static_cast<StreamHandle*>(stream));
    return ACL_SUCCESS;
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireStream("aclrtLaunchHostFunc", stream, status);
    if (queue == nullptr) {
        return status;
    }
    if (fn == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtLaunchHostFunc: fn is null");
    }
    queue->Submit("aclrtLaunchHostFunc", [fn, args] {
        StreamOrder::Instance().JoinHost();  // the function may tell another thread
        fn(args);
        return TaskResult{};
    });
    return status;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    return Synchronize("aclrtSynchronizeStream", stream, std::nullopt);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    if (timeout < -1) {
        return Fail(ACL_ERROR_RT_PARAM_INVALID,
                    Text("aclrtSynchronizeStreamWithTimeout: got ", timeout, " ms, expected -1 or more"));
    }
    std::optional<std::chrono::milliseconds> limit;
    if (timeout >= 0) {
        limit = std::chrono::milliseconds(timeout);
    }
    return Synchronize("aclrtSynchronizeStreamWithTimeout", stream, limit);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status)
{
    aclError problem = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireWaitable("aclrtStreamQuery", stream, problem);
    if (queue == nullptr) {
        return problem;
    }
    if (status == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtStreamQuery: status is null");
    }
    *status = queue->Wait(std::chrono::milliseconds(0)) ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice()
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Context> context = RequireContext("aclrtSynchronizeDevice", status);
    if (context == nullptr) {
        return status;
    }
    for (const std::shared_ptr<StreamHandle>& handle : Streams::Instance().Live()) {
        status = CheckNotCaptured("aclrtSynchronizeDevice", handle->stream);
        if (status != ACL_SUCCESS) {
            return status;
        }
    }
    TaskResult failure = *context->defaultStream.Wait(std::nullopt);
    for (const std::shared_ptr<StreamHandle>& handle : Streams::Instance().Live()) {
        TaskResult result = *handle->stream.Wait(std::nullopt);
        failure = failure.code == 0 ? std::move(result) : std::move(failure);
    }
    return failure.code == 0 ? ACL_SUCCESS : Fail(failure.code, failure.message);
}

aclError aclrtCreateEvent(aclrtEvent* event)
{
    aclError status = ACL_SUCCESS;
    if (RequireContext("aclrtCreateEvent", status) == nullptr) {
        return status;
    }
    if (event == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateEvent: event is null");
    }
    *event = Events::Instance().Create();
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag)
{
    (void)flag;  // purpose of the event; all twin events order streams and record time
    return aclrtCreateEvent(event);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag)
{
    const aclError status = aclrtCreateEventWithFlag(event, flag);
    if (status == ACL_SUCCESS) {
        static_cast<Event*>(*event)->isCompleteBeforeRecord = true;
    }
    return status;
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    aclError status = ACL_SUCCESS;
    if (const std::shared_ptr<Event> found = RequireEvent("aclrtDestroyEvent", event, status)) {
        Events::Instance().Destroy(found.get());
    }
    return status;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Event> found = RequireEvent("aclrtRecordEvent", event, status);
    const std::shared_ptr<Stream> queue =
        found == nullptr ? nullptr : RequireStream("aclrtRecordEvent", stream, status);
    if (queue != nullptr) {
        found->Record(*queue);
    }
    return status;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Event> found = RequireEvent("aclrtStreamWaitEvent", event, status);
    const std::shared_ptr<Stream> queue =
        found == nullptr ? nullptr : RequireStream("aclrtStreamWaitEvent", stream, status);
    if (queue == nullptr) {
        return status;
    }
    status = found->LetWait(*queue);
    if (status == ACL_SUCCESS) {
        return status;
    }
    return Fail(status, status == ACL_ERROR_RT_CAPTURE_DEPENDENCY
                            ? "aclrtStreamWaitEvent: the stream is captured, and no captured stream recorded the event"
                            : "aclrtStreamWaitEvent: the stream and the event belong to different captures");
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    aclError status = ACL_SUCCESS;
    if (const std::shared_ptr<Event> found = RequireOwnEvent("aclrtSynchronizeEvent", event, status)) {
        found->Wait();
    }
    return status;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status)
{
    aclError problem = ACL_SUCCESS;
    const std::shared_ptr<Event> found = RequireOwnEvent("aclrtQueryEventStatus", event, problem);
    if (found == nullptr) {
        return problem;
    }
    if (status == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtQueryEventStatus: status is null");
    }
    const bool isDone = found->WasRecorded() || found->isCompleteBeforeRecord;
    *status = isDone && found->IsComplete() ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Event> start = RequireOwnEvent("aclrtEventElapsedTime", startEvent, status);
    const std::shared_ptr<Event> end =
        start == nullptr ? nullptr : RequireOwnEvent("aclrtEventElapsedTime", endEvent, status);
    if (end == nullptr) {
        return status;
    }
    if (ms == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtEventElapsedTime: ms is null");
    }
    if (!start->WasRecorded() || !end->WasRecorded() || !start->IsComplete() || !end->IsComplete()) {
        return Fail(ACL_ERROR_RT_PARAM_INVALID,
                    "aclrtEventElapsedTime: an event is not recorded, or its stream has not reached it yet");
    }
    *ms = std::chrono::duration<float, std::milli>(end->Time() - start->Time()).count();
    return ACL_SUCCESS;
}
