// Device and host memory: allocation, copies and fills.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "acl/acl_rt.h"
#include "host/acl/capture.h"
#include "host/acl/device_memory.h"
#include "host/acl/errors.h"
#include "host/acl/pinned_memory.h"
#include "host/acl/process.h"
#include "host/acl/stream_order.h"
#include "host/aclnn/reports.h"
#include "host/program/program.h"
#include "kernel/exec/text.h"

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::ByteUse;
using opforge::twin::LaunchReport;
using opforge::twin::kernel::Text;
using opforge::twin::kernel::WrittenBytes;

namespace {

enum class Side { kHost, kDevice };

/// Sets the required side (host or device) of both ends for a copy kind. Returns false for an unknown kind.
bool SidesOf(aclrtMemcpyKind kind, const void* dst, const void* src, Side& dstSide, Side& srcSide)
{
    const auto actual = [](const void* pointer) {
        return DeviceMemory::Instance().IsDevice(pointer) ? Side::kDevice : Side::kHost;
    };
    switch (kind) {
        case ACL_MEMCPY_HOST_TO_HOST:
            dstSide = srcSide = Side::kHost;
            return true;
        case ACL_MEMCPY_HOST_TO_DEVICE:
        case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
            dstSide = Side::kDevice;
            srcSide = Side::kHost;
            return true;
        case ACL_MEMCPY_DEVICE_TO_HOST:
            dstSide = Side::kHost;
            srcSide = Side::kDevice;
            return true;
        case ACL_MEMCPY_DEVICE_TO_DEVICE:
        case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
        case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
            dstSide = srcSide = Side::kDevice;
            return true;
        case ACL_MEMCPY_DEFAULT:
            dstSide = actual(dst);
            srcSide = actual(src);
            return true;
    }
    return false;
}

/// One end of a copy: its bytes and the object that keeps them alive.
struct End {
    uint8_t* data = nullptr;
    DeviceSpan span;
};

bool Open(const char* what, Side side, const void* pointer, size_t bytes, End& end, std::string& problem)
{
    if (side == Side::kHost) {
        if (DeviceMemory::Instance().IsDevice(pointer)) {
            problem = Text(what, ": the kind of the copy says host memory, got device memory");
            return false;
        }
        end.data = static_cast<uint8_t*>(const_cast<void*>(pointer));
        return true;
    }
    if (!DeviceMemory::Instance().Resolve(pointer, bytes, end.span, problem)) {
        problem = Text(what, ": ", problem);
        return false;
    }
    end.data = end.span.data;
    return true;
}

/// Reports the first bytes without a value in a copy to the host. Programs may copy the padding of an output, so it is
/// an error only if no byte has a value.
void ReportUnwritten(const char* function, const DeviceSpan& from, uint64_t count, const WrittenBytes::Run& run)
{
    if (HasFindings()) {
        return;  // a kernel with an error does not write its outputs
    }
    const bool isWhole = run.end - run.begin == count;
    LaunchReport report;
    report.opType = function;
    report.findings.push_back(
        {"uninitialised_read", -1, "", "",
         Text(function, ": src: bytes [", run.begin, ", ", run.end, ") of an allocation of ", from.allocation->bytes,
              " bytes have no value: nothing wrote them, or a kernel stored undefined elements; expected bytes with a "
              "value; ",
              isWhole ? "pass src to a kernel as its output, before the copy"
                      : "write the last tile of each core too, or copy fewer bytes"),
         !isWhole});
    KeepReport(report, 0);
}

aclError CheckCopy(const char* function, const void* dst, size_t destMax, const void* src, size_t count)
{
    if (dst == nullptr || src == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, Text(function, ": ", dst == nullptr ? "dst" : "src", " is null"));
    }
    if (count > destMax) {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    Text(function, ": count is ", count, " bytes, expected at most ", destMax, " (destMax)"));
    }
    return ACL_SUCCESS;
}

/// Copies the states of the bytes within device memory. Checks copies to the host.
void CopyWritten(const char* function, const DeviceSpan& to, const DeviceSpan& from, uint64_t count)
{
    if (to.allocation != nullptr) {
        to.MarkWritten(count);
    } else if (from.allocation != nullptr) {
        RecordReadBack();
    }
    if (from.allocation == nullptr || from.allocation->written == nullptr) {
        return;
    }
    const uint64_t begin = from.Offset();
    const WrittenBytes& written = *from.allocation->written;
    for (WrittenBytes::Run run = written.NextUnwritten(begin, begin + count); run.begin != run.end;
         run = written.NextUnwritten(run.end, begin + count)) {
        if (to.allocation == nullptr) {
            return ReportUnwritten(function, from, count, run);
        }
        if (to.allocation->written != nullptr) {
            to.allocation->written->Unmark(to.Offset() + run.begin - begin, to.Offset() + run.end - begin);
        }
    }
}

TaskResult Copy(const char* function, void* dst, const void* src, size_t count, aclrtMemcpyKind kind)
{
    Side dstSide = Side::kHost;
    Side srcSide = Side::kHost;
    if (!SidesOf(kind, dst, src, dstSide, srcSide)) {
        return {ACL_ERROR_INVALID_PARAM, Text(function, ": ", static_cast<int>(kind), " is no kind of copy")};
    }
    End to;
    End from;
    std::string problem;
    if (!Open("dst", dstSide, dst, count, to, problem) || !Open("src", srcSide, src, count, from, problem)) {
        return {ACL_ERROR_RT_PARAM_INVALID, Text(function, ": ", problem)};
    }
    const auto note = [&](const DeviceSpan& span, ByteUse use) {
        if (span.allocation != nullptr && count != 0) {
            StreamOrder::Instance().Use(function, *span.allocation, use, {{span.Offset(), span.Offset() + count}});
        }
    };
    note(from.span, ByteUse::kRead);
    note(to.span, ByteUse::kWrite);
    std::memmove(to.data, from.data, count);
    CopyWritten(function, to.span, from.span, count);
    return {};
}

/// Whether the memory stays valid until the copy is done. The application can free other host memory at any time.
bool IsKept(const void* pointer, PinnedMemory& pinned)
{
    return DeviceMemory::Instance().IsDevice(pointer) || pinned.Holding(pointer) != nullptr;
}

TaskResult Fill(const char* function, void* target, int32_t value, size_t count)
{
    DeviceSpan span;
    std::string problem;
    if (!DeviceMemory::Instance().IsDevice(target)) {
        std::memset(target, value, count);
    } else if (!DeviceMemory::Instance().Resolve(target, count, span, problem)) {
        return {ACL_ERROR_RT_PARAM_INVALID, Text(function, ": devPtr: ", problem)};
    } else {
        StreamOrder::Instance().Use(function, *span.allocation, ByteUse::kWrite,
                                    {{span.Offset(), span.Offset() + count}});
        std::memset(span.data, value, count);
        span.MarkWritten(count);
    }
    return {};
}

/// A call of the host that accesses device memory until it returns.
StreamOrder::Handle HostCall(const void* caller)
{
    return StreamOrder::Instance().Begin(StreamOrder::kHost, caller);
}

aclError Finish(const TaskResult& result)
{
    return result.code == 0 ? ACL_SUCCESS : Fail(result.code, result.message);
}

aclError CheckFill(const char* function, const void* target, size_t maxCount, size_t count)
{
    if (target == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, Text(function, ": devPtr is null"));
    }
    if (count > maxCount) {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    Text(function, ": count is ", count, " bytes, expected at most ", maxCount, " (maxCount)"));
    }
    return ACL_SUCCESS;
}

}  // namespace

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;  // the twin does not emulate page sizes
    aclError status = ACL_SUCCESS;
    if (RequireContext("aclrtMalloc", status) == nullptr) {
        return status;
    }
    if (devPtr == nullptr || size == 0) {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    devPtr == nullptr ? "aclrtMalloc: devPtr is null" : "aclrtMalloc: size is 0, expected at least 1");
    }
    *devPtr = DeviceMemory::Instance().Allocate(size);
    if (*devPtr == nullptr) {
        const DeviceMemory& memory = DeviceMemory::Instance();
        return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                    Text("aclrtMalloc: got a request for ", size, " bytes, ", memory.FreeBytes(), " are free",
                         memory.HasAddresses() ? ""
                                               : "; the process cannot reserve the addresses of device memory, "
                                                 "raise its limit (ulimit -v)"));
    }
    return ACL_SUCCESS;
}

aclError aclrtFree(void* devPtr)
{
    if (devPtr == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtFree: devPtr is null");
    }
    std::string problem;
    const StreamOrder::Running call(HostCall(__builtin_return_address(0)));
    if (!DeviceMemory::Instance().Free(devPtr, IsProgram() || AreStreamsIdle(), problem)) {
        return Fail(ACL_ERROR_RT_PARAM_INVALID, Text("aclrtFree: ", problem));
    }
    return ACL_SUCCESS;
}

aclError aclrtFreeWithDevSync(void* devPtr)
{
    const aclError status = aclrtSynchronizeDevice();
    const aclError freed = aclrtFree(devPtr);
    return status == ACL_SUCCESS ? freed : status;
}

aclError aclrtMallocHost(void** hostPtr, size_t size)
{
    aclError status = ACL_SUCCESS;
    if (RequireContext("aclrtMallocHost", status) == nullptr) {
        return status;
    }
    if (hostPtr == nullptr || size == 0) {
        return Fail(ACL_ERROR_INVALID_PARAM, hostPtr == nullptr ? "aclrtMallocHost: hostPtr is null"
                                                                : "aclrtMallocHost: size is 0, expected at least 1");
    }
    *hostPtr = PinnedMemory::Instance().Allocate(size);
    if (*hostPtr == nullptr) {
        return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, Text("aclrtMallocHost: no ", size, " bytes left"));
    }
    return ACL_SUCCESS;
}

aclError aclrtFreeHost(void* hostPtr)
{
    const std::string problem = PinnedMemory::Instance().Free(hostPtr);
    return problem.empty() ? ACL_SUCCESS : Fail(ACL_ERROR_RT_PARAM_INVALID, Text("aclrtFreeHost: ", problem));
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind)
{
    aclError status = ACL_SUCCESS;
    if (RequireContext("aclrtMemcpy", status) == nullptr) {
        return status;
    }
    status = CheckCopy("aclrtMemcpy", dst, destMax, src, count);
    status = status == ACL_SUCCESS ? CheckUnsafe("aclrtMemcpy") : status;
    const StreamOrder::Running call(HostCall(__builtin_return_address(0)));
    return status == ACL_SUCCESS ? Finish(Copy("aclrtMemcpy", dst, src, count, kind)) : status;
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireStream("aclrtMemcpyAsync", stream, status);
    if (queue == nullptr) {
        return status;
    }
    status = CheckCopy("aclrtMemcpyAsync", dst, destMax, src, count);
    if (status != ACL_SUCCESS) {
        return status;
    }
    PinnedMemory& pinned = PinnedMemory::Instance();
    const bool isDirect = IsKept(dst, pinned) && IsKept(src, pinned);
    status = isDirect ? ACL_SUCCESS : CheckUnsafe("aclrtMemcpyAsync");
    if (status != ACL_SUCCESS) {
        return status;
    }
    queue->Submit("aclrtMemcpyAsync", [=, to = pinned.Holding(dst), from = pinned.Holding(src)] {
        return Copy("aclrtMemcpyAsync", dst, src, count, kind);
    });
    if (!isDirect && queue->Captured() == nullptr) {
        queue->Wait(std::nullopt);  // the stream keeps the failure
    }
    return status;
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind)
{
    aclError status = ACL_SUCCESS;
    if (RequireContext("aclrtMemcpy2d", status) == nullptr) {
        return status;
    }
    status = CheckCopy("aclrtMemcpy2d", dst, width, src, width);
    if (status == ACL_SUCCESS && (width > dpitch || width > spitch)) {
        status = Fail(ACL_ERROR_INVALID_PARAM, Text("aclrtMemcpy2d: width is ", width, " bytes, the pitches are ",
                                                    dpitch, " and ", spitch, "; expected at least the width"));
    }
    status = status == ACL_SUCCESS ? CheckUnsafe("aclrtMemcpy2d") : status;
    const StreamOrder::Running call(HostCall(__builtin_return_address(0)));
    for (size_t row = 0; status == ACL_SUCCESS && row < height; ++row) {
        status = Finish(Copy("aclrtMemcpy2d", static_cast<uint8_t*>(dst) + row * dpitch,
                             static_cast<const uint8_t*>(src) + row * spitch, width, kind));
    }
    return status;
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count)
{
    aclError status = ACL_SUCCESS;
    if (RequireContext("aclrtMemset", status) == nullptr) {
        return status;
    }
    status = CheckFill("aclrtMemset", devPtr, maxCount, count);
    status = status == ACL_SUCCESS ? CheckUnsafe("aclrtMemset") : status;
    const StreamOrder::Running call(HostCall(__builtin_return_address(0)));
    return status == ACL_SUCCESS ? Finish(Fill("aclrtMemset", devPtr, value, count)) : status;
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireStream("aclrtMemsetAsync", stream, status);
    if (queue == nullptr) {
        return status;
    }
    status = CheckFill("aclrtMemsetAsync", devPtr, maxCount, count);
    if (status == ACL_SUCCESS) {
        queue->Submit("aclrtMemsetAsync", [=] { return Fill("aclrtMemsetAsync", devPtr, value, count); });
    }
    return status;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total)
{
    (void)attr;  // the twin emulates one memory kind
    aclError status = ACL_SUCCESS;
    if (RequireContext("aclrtGetMemInfo", status) == nullptr) {
        return status;
    }
    if (free == nullptr || total == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtGetMemInfo: free or total is null");
    }
    *free = DeviceMemory::Instance().FreeBytes();
    *total = DeviceMemory::Instance().TotalBytes();
    return ACL_SUCCESS;
}
