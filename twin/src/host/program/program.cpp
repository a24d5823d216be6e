// Launches of programs that `opforge cc` compiled: device allocations as arguments, findings on stderr, report at exit.
#include "opforge_twin/program.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "acl/acl_rt.h"
#include "host/acl/device_memory.h"
#include "host/acl/process.h"
#include "host/aclnn/open_view.h"
#include "host/aclnn/reports.h"
#include "host/gert/platform.h"
#include "kernel/exec/text.h"
#include "opforge_twin/control.h"
#include "opforge_twin/launch.h"
#include "opforge_twin/options.h"

namespace opforge::twin::program {

namespace {

using host::DeviceAllocation;
using kernel::Text;

std::atomic<bool> hasFindings{false};

/// Ends the program: a report if OPFORGE_TWIN_REPORT names a file, and exit code 1 after findings.
void End(int status, void* /*unused*/)
{
    const char* const path = std::getenv("OPFORGE_TWIN_REPORT");
    bool isWritten = true;
    if (path != nullptr && *path != '\0') {
        std::ofstream file(path);
        file << host::TakeReports() << "\n";
        file.close();
        isWritten = !file.fail();
        if (!isWritten) {
            std::fprintf(stderr, "OPFORGE_TWIN_REPORT: got '%s', expected a file that can be written\n", path);
        }
    }
    if (status == 0 && (hasFindings || !isWritten)) {
        std::fflush(nullptr);
        _exit(hasFindings ? 1 : 2);
    }
}

void Print(const std::string& kernel, const Finding& finding)
{
    const std::string place = finding.where.empty() ? kernel : finding.where;
    const std::string core = finding.block < 0 ? "" : Text(" (block ", finding.block, ", pipe ", finding.pipe, ")");
    std::fprintf(stderr, "%s: %s%s%s: %s\n", place.c_str(), finding.warning ? "warning: " : "", finding.kind.c_str(),
                 core.c_str(), finding.message.c_str());
}

host::TaskResult RunOnDevice(LaunchRequest request, const std::vector<const void*>& pointers)
{
    const std::vector<std::shared_ptr<DeviceAllocation>> live = host::DeviceMemory::Instance().Live();
    for (const auto& allocation : live) {
        GmArgument& argument = request.arguments.emplace_back();
        argument.data = allocation->content.get();
        argument.bytes = allocation->bytes;
        argument.address = allocation->begin;
        argument.isInput = argument.isOutput = true;
        argument.name = "device memory";
        for (size_t index = 0; index < pointers.size(); ++index) {
            const auto address = reinterpret_cast<uintptr_t>(pointers[index]);
            if (address >= allocation->begin && address - allocation->begin < allocation->bytes) {
                argument.name = Text("argument ", index);
            }
        }
    }
    request.passWorkspace = request.passTiling = false;
    const LaunchReport report = twin::Launch(request, ProcessOptions());
    host::KeepReport(report, 0);
    std::string first;
    for (const Finding& finding : report.findings) {
        Print(request.opType, finding);
        if (!finding.warning && first.empty()) {
            first = finding.message;
        }
    }
    if (first.empty()) {
        return {};
    }
    hasFindings = true;
    return host::DeviceFailure(request.opType, first);
}

}  // namespace

Defaults::Defaults(const char* soc, const char* level)
{
    if (std::getenv("OPFORGE_TWIN_SOC") == nullptr) {
        opforgeTwinSetOption("soc", soc);
    }
    opforgeTwinSetOption("strict", std::string(level) == "fast" ? "0" : "1");
    on_exit(End, nullptr);
}

int32_t Submit(const char* kernel, const char* taskType, uint32_t blocks, void* stream, const void* const* pointers,
               uint32_t pointerCount, std::function<void()> entry)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<host::Stream> queue = host::RequireStream(kernel, stream, status);
    if (queue == nullptr) {
        std::fprintf(stderr, "%s: %s\n", kernel, aclGetRecentErrMsg());
        hasFindings = true;
        return status;
    }
    LaunchRequest request;
    request.opType = kernel;
    request.entry = std::move(entry);
    request.blockNum = blocks;
    request.taskType = taskType;
    request.soc = host::CurrentSoc().name;
    queue->Submit([request = std::move(request), given = std::vector<const void*>(pointers, pointers + pointerCount)] {
        return RunOnDevice(request, given);
    });
    return ACL_SUCCESS;
}

}  // namespace opforge::twin::program
