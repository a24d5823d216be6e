// Kernel launches of programs: the arguments become the device allocations that they point into.
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl.h"

#include "host/acl/capture.h"
#include "host/acl/device_memory.h"
#include "host/acl/errors.h"
#include "host/acl/process.h"
#include "host/aclnn/reports.h"
#include "host/gert/platform.h"
#include "host/program/program.h"
#include "kernel/exec/levels.h"
#include "kernel/exec/text.h"
#include "opforge_twin/options.h"
#include "opforge_twin/program.h"

namespace opforge::twin::host {

namespace {

using kernel::Text;
using program::Argument;
using program::KernelCall;

constexpr size_t kMostRegions = 56;
/// Longer allocations are not searched for device addresses.
constexpr size_t kMostPointerBytes = size_t{64} << 10;
constexpr uintptr_t kPage = 4096;
constexpr uint32_t kMostBlocks = 65535;

struct Reached {
    std::string name;
    DeviceSpan span;
};

/// The allocations that a launch can reach, by address.
using Reachable = std::map<uintptr_t, Reached>;

void AddAllocation(const void* address, const std::string& name, Reachable& found, std::string& problem)
{
    DeviceSpan span;
    std::string reason;
    if (DeviceMemory::Instance().Resolve(address, 0, span, reason)) {
        const uintptr_t begin = span.allocation->begin;
        found.emplace(begin, Reached{name, std::move(span)});
    } else if (problem.empty()) {
        problem = Text(name, ": ", reason);
    }
}

/// Adds the allocations of all device addresses in some bytes; `problem` is set if an address is in none.
/// A kernel of another stream may write the bytes: then they are data.
__attribute__((no_sanitize("thread"))) void AddPointers(const Argument& bytes, const std::string& name,
                                                        Reachable& found, std::string& problem)
{
    for (size_t offset = 0; offset + sizeof(void*) <= bytes.size; offset += sizeof(void*)) {
        const void* word = nullptr;
        std::memcpy(&word, static_cast<const uint8_t*>(bytes.data) + offset, sizeof(word));
        if (DeviceMemory::Instance().IsDevice(word)) {
            AddAllocation(word, name, found, problem);
        }
    }
}

/// Whether an argument is a pointer to memory of this process that is no device memory.
bool IsHostPointer(const Argument& argument)
{
    const void* address = nullptr;
    if (!argument.isPointer) {
        return false;
    }
    std::memcpy(&address, argument.data, sizeof(address));
    const auto page = reinterpret_cast<uintptr_t>(address) / kPage * kPage;
    unsigned char isResident = 0;
    return !DeviceMemory::Instance().IsDevice(address) && mincore(reinterpret_cast<void*>(page), 1, &isResident) == 0;
}

/// Adds the allocations whose addresses are in the bytes of short allocations: lists of tensors.
void FollowPointers(Reachable& found)
{
    std::set<uintptr_t> searched;
    for (bool isNew = true; isNew && found.size() < kMostRegions;) {
        isNew = false;
        const Reachable known = found;
        for (const auto& [begin, reached] : known) {
            const DeviceAllocation& allocation = *reached.span.allocation;
            if (searched.insert(begin).second && allocation.bytes <= kMostPointerBytes) {
                std::string ignored = "no problem: the bytes are data";
                AddPointers({allocation.content.get(), allocation.bytes, false}, reached.name + "[]", found, ignored);
                isNew = true;
            }
        }
    }
}

std::vector<std::string> Lines(const char* text)
{
    std::vector<std::string> lines;
    for (const char* at = text; *at != '\0';) {
        const char* const end = at + std::strcspn(at, "\n");
        lines.emplace_back(at, end);
        at = *end == '\0' ? end : end + 1;
    }
    return lines;
}

/// Opens the allocations of a launch for loads and stores by their device address.
class Opened {
public:
    Opened(const Reachable& reachable, bool isWritable) : reachable_(reachable), isWritable_(isWritable) { Set(true); }
    ~Opened() { Set(false); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

private:
    void Set(bool isOpen)
    {
        for (const auto& [begin, reached] : reachable_) {
            DeviceMemory::Instance().Open(*reached.span.allocation, isOpen, isWritable_);
        }
    }

    const Reachable& reachable_;
    bool isWritable_;
};

std::vector<uint8_t>& SystemArea()
{
    thread_local std::vector<uint8_t> area(kSystemWorkspaceBytes);
    return area;
}

TaskResult Run(const std::string& kernel, uint32_t blocks, const LaunchMode& mode, Reachable reachable,
               const std::function<void()>& body)
{
    for (const auto& [begin, reached] : reachable) {
        if (reached.span.allocation->isFreed && Capture::IsReplay()) {
            const std::string problem = Text(kernel, ": ", reached.name,
                                             " points to memory that was freed after the capture of the launch; "
                                             "expected allocated memory; call aclmdlRIDestroy before aclrtFree");
            Refuse(kernel, problem);
            return {ACL_ERROR_RT_PARAM_INVALID, problem};
        }
    }
    FollowPointers(reachable);
    LaunchRequest request;
    request.opType = kernel;
    request.body = body;
    request.blockNum = blocks;
    request.taskType = mode.taskType;
    request.tilingKey = mode.tilingKey;
    request.soc = CurrentSoc().name;
    request.passWorkspace = request.passTiling = false;
    request.reportsBytes = true;
    request.workspace = SystemArea().data();
    request.workspaceBytes = SystemArea().size();
    uint64_t bytes = 0;
    for (const auto& [begin, reached] : reachable) {
        if (request.arguments.size() == kMostRegions) {
            break;
        }
        GmArgument& argument = request.arguments.emplace_back();
        argument.data = reached.span.allocation->content.get();
        argument.bytes = reached.span.allocation->bytes;
        argument.isInput = argument.isOutput = true;
        argument.name = reached.name;
        argument.address = begin;
        argument.written = reached.span.allocation->written;
        bytes += argument.bytes;
    }
    const Options options = ProcessOptions();
    const Opened opened(reachable, !kernel::kRawStore.Has(options.level));
    const LaunchReport report = Launch(request, options);
    KeepReport(report, bytes);
    auto used = reachable.begin();
    for (const AccessedBytes& accessed : report.accessed) {
        for (const ByteUse use : {ByteUse::kRead, ByteUse::kWrite, ByteUse::kAtomic}) {
            StreamOrder::Instance().Use("kernel " + kernel, *used->second.span.allocation, use,
                                        accessed[static_cast<size_t>(use)]);
        }
        ++used;
    }
    if (report.isComplete) {
        return {};
    }
    if (report.findings.empty()) {
        return {ACL_ERROR_RT_AICORE_EXCEPTION, Text(kernel, ": a block stopped")};
    }
    const Finding& first = report.findings.front();
    return {ACL_ERROR_RT_AICORE_EXCEPTION, Text(kernel, ": ", first.kind, ": ", first.message)};
}

}  // namespace

void Refuse(const std::string& kernel, const std::string& message)
{
    LaunchReport report;
    report.opType = kernel;
    report.findings.push_back({"launch", -1, "", "", message});
    report.isComplete = false;
    KeepReport(report, 0);
}

}  // namespace opforge::twin::host

namespace opforge::twin::program {

using namespace opforge::twin::host;  // NOLINT: the function is defined for the host side

namespace {

thread_local Pending* innermost = nullptr;

}  // namespace

Pending::Pending(const char* kernel, const Grid& grid) : kernel_(kernel), grid_(grid), outer_(innermost)
{
    innermost = this;
}

Pending::~Pending()
{
    if (!isTaken_) {
        innermost = outer_;
        Refuse(kernel_, kernel::Text(kernel_,
                                     ": got a function without __global__, expected a kernel; add __global__ "
                                     "to its definition"));
    }
}

Pending* Pending::Take()
{
    Pending* const taken = innermost;
    if (taken != nullptr) {
        innermost = taken->outer_;
        taken->isTaken_ = true;
    }
    return taken;
}

void Pending::Launch(const KernelCall& call) const
{
    const std::vector<std::string> names = Lines(call.names);
    // The text before `<<<` has the template arguments; the text of a function pointer is not the name of a kernel.
    const std::string kernel = std::strstr(kernel_, names[0].c_str()) != nullptr ? kernel_ : names[0];
    const std::shared_ptr<void> body(call.body, call.release);
    if (grid_.blocks < 1 || grid_.blocks > kMostBlocks) {
        Refuse(kernel, kernel::Text(kernel, ": got ", grid_.blocks, " blocks, expected 1 to ", kMostBlocks));
        return;
    }
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Stream> stream = RequireStream("kernel launch", grid_.stream, status);
    if (stream == nullptr) {
        Refuse(kernel, kernel::Text(kernel, ": ", TakeErrorsBehind(0)));
        return;
    }
    Reachable reachable;
    std::string problem;
    for (size_t index = 0; index < call.count; ++index) {
        const std::string name = index + 1 < names.size() ? names[index + 1] : kernel::Text("argument ", index);
        AddPointers(call.arguments[index], name, reachable, problem);
        if (problem.empty() && IsHostPointer(call.arguments[index])) {
            problem = name +
                      ": got an address of host memory, expected one of aclrtMalloc; copy the values to memory "
                      "of the device with aclrtMemcpy";
        }
    }
    if (!problem.empty()) {
        Refuse(kernel, kernel::Text(kernel, ": ", problem));
        return;
    }
    stream->Submit(kernel,
                   [kernel, blocks = static_cast<uint32_t>(grid_.blocks), mode = CurrentLaunchMode(), reachable, body,
                    run = call.run] { return Run(kernel, blocks, mode, reachable, [=] { run(body.get()); }); });
}

}  // namespace opforge::twin::program
