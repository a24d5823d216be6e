// Models from captured streams.
#include <fstream>
#include <memory>

#include "acl/acl_rt.h"
#include "host/acl/capture.h"
#include "host/acl/errors.h"
#include "host/acl/handle_table.h"
#include "host/acl/process.h"
#include "kernel/exec/report_json.h"
#include "kernel/exec/text.h"

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::kernel::Text;

namespace {

using Models = HandleTable<Capture>;

/// The model of a handle, which no capture makes any more; on failure null, with the error set.
std::shared_ptr<Capture> RequireModel(const char* function, aclmdlRI modelRI, aclError& status)
{
    std::shared_ptr<Capture> model = Models::Instance().Share(modelRI);
    if (model == nullptr) {
        status = Fail(ACL_ERROR_RT_PARAM_INVALID,
                      Text(function, ": the model is not one of aclmdlRICaptureEnd, or it was destroyed"));
    } else if (model->IsActive()) {
        status = Fail(ACL_ERROR_RT_MODEL_CAPTURED,
                      Text(function, ": the capture of the model has not ended; call aclmdlRICaptureEnd first"));
        model = nullptr;
    }
    return model;
}

const char* ProblemOf(aclError status)
{
    return status == ACL_ERROR_RT_STREAM_UNJOINED
               ? "tasks of another stream are not joined; record an event after them and let the stream wait for it"
               : "a call during the capture made it invalid";
}

}  // namespace

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireStream("aclmdlRICaptureBegin", stream, status);
    if (queue == nullptr) {
        return status;
    }
    if (stream == nullptr) {
        return Fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                    "aclmdlRICaptureBegin: the default stream cannot be captured; use one of aclrtCreateStream");
    }
    if (mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
        return Fail(ACL_ERROR_RT_PARAM_INVALID, Text("aclmdlRICaptureBegin: got mode ", static_cast<int>(mode),
                                                     ", expected one of aclmdlRICaptureMode"));
    }
    if (queue->Captured() != nullptr) {
        return Fail(ACL_ERROR_RT_STREAM_CAPTURED,
                    "aclmdlRICaptureBegin: the stream is captured; call aclmdlRICaptureEnd first");
    }
    queue->SetCapture(Models::Instance().Share(Models::Instance().Create(*queue, mode)));
    return ACL_SUCCESS;
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireStream("aclmdlRICaptureEnd", stream, status);
    if (queue == nullptr) {
        return status;
    }
    if (modelRI == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureEnd: modelRI is null");
    }
    const std::shared_ptr<Capture> capture = queue->Captured();
    if (capture == nullptr) {
        return Fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                    "aclmdlRICaptureEnd: the stream is not captured; call aclmdlRICaptureBegin first");
    }
    if (!capture->IsOrigin(*queue)) {
        return Fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
                    "aclmdlRICaptureEnd: the stream joined the capture of another stream; pass the stream of "
                    "aclmdlRICaptureBegin");
    }
    if (capture->Mode() != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && !capture->IsOfThisThread()) {
        return Fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                    "aclmdlRICaptureEnd: another thread began the capture; end it there, or use mode relaxed");
    }
    status = capture->End();
    if (status != ACL_SUCCESS) {
        Models::Instance().Destroy(capture.get());
        return Fail(status, Text("aclmdlRICaptureEnd: ", ProblemOf(status)));
    }
    *modelRI = capture.get();
    return ACL_SUCCESS;
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI)
{
    aclError problem = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireStream("aclmdlRICaptureGetInfo", stream, problem);
    if (queue == nullptr) {
        return problem;
    }
    if (status == nullptr && modelRI == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureGetInfo: status and modelRI are null");
    }
    const std::shared_ptr<Capture> capture = queue->Captured();
    if (status != nullptr) {
        *status = capture == nullptr     ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
                  : capture->IsInvalid() ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
                                         : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    }
    if (modelRI != nullptr) {
        *modelRI = capture.get();
    }
    return ACL_SUCCESS;
}

aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireStream("aclmdlRIExecuteAsync", stream, status);
    const std::shared_ptr<Capture> model =
        queue == nullptr ? nullptr : RequireModel("aclmdlRIExecuteAsync", modelRI, status);
    if (model == nullptr) {
        return status;
    }
    status = CheckNotCaptured("aclmdlRIExecuteAsync", *queue);
    if (status == ACL_SUCCESS) {
        queue->Submit("aclmdlRIExecuteAsync", [model, running = model->Running()] { return model->Run(); });
    }
    return status;
}

aclError aclmdlRIDestroy(aclmdlRI modelRI)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Capture> model = RequireModel("aclmdlRIDestroy", modelRI, status);
    if (model == nullptr) {
        return status;
    }
    if (model->IsRunning()) {
        return Fail(ACL_ERROR_RT_MODEL_RUNNING, "aclmdlRIDestroy: the model runs; synchronise its stream first");
    }
    Models::Instance().Destroy(model.get());
    return ACL_SUCCESS;
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path, uint32_t flags)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Capture> model = RequireModel("aclmdlRIDebugJsonPrint", modelRI, status);
    if (model == nullptr) {
        return status;
    }
    if (path == nullptr || flags != 0) {
        return Fail(ACL_ERROR_INVALID_PARAM, path == nullptr ? "aclmdlRIDebugJsonPrint: path is null"
                                                             : "aclmdlRIDebugJsonPrint: flags is not 0");
    }
    // The format of chrome://tracing, with a row for each stream; a task has a length of 1.
    std::map<const Stream*, size_t> rows;
    std::string text = "{\"traceEvents\": [";
    size_t number = 0;
    for (const Capture::Recorded& recorded : model->Tasks()) {
        const size_t row = rows.emplace(recorded.stream, rows.size()).first->second;
        text += Text(number == 0 ? "" : ", ", "{\"name\": ", opforge::twin::Quoted(recorded.name),
                     ", \"ph\": \"X\", \"pid\": 0, \"tid\": ", row, ", \"ts\": ", number, ", \"dur\": 1}");
        ++number;
    }
    std::ofstream file(path);
    file << text << "]}\n";
    file.close();
    return file ? ACL_SUCCESS : Fail(ACL_ERROR_RT_PARAM_INVALID, Text("aclmdlRIDebugJsonPrint: cannot write ", path));
}
