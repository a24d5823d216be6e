// Programs of `opforge cc`: options from the environment, findings on stderr, the report and the exit code at the end.
#include "host/program/program.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "host/acl/device_memory.h"
#include "host/acl/process.h"
#include "host/aclnn/reports.h"
#include "host/gert/platform.h"
#include "kernel/exec/block.h"
#include "kernel/exec/guarded_call.h"
#include "kernel/exec/source_lines.h"
#include "kernel/exec/text.h"
#include "kernel/timing/trace.h"
#include "opforge_twin/control.h"
#include "opforge_twin/options.h"
#include "opforge_twin/program.h"

namespace opforge::twin::host {

namespace {

using kernel::Text;

constexpr int kFindingsExit = 1;
constexpr int kBadInputExit = 2;

std::atomic<bool> isProgram{false};
std::atomic<uint64_t> mistakes{0};
std::atomic<bool> isEnding{false};
std::mutex printing;
uint64_t repeated = 0;  ///< findings that were not printed again
pid_t starter = 0;      ///< 0 before the start is complete; in a child made by fork(), the child
bool isChild = false;   ///< made by fork()
std::terminate_handler otherTerminate = nullptr;

const char* Given(const char* name, const char* otherwise)
{
    const char* const value = std::getenv(name);
    return value == nullptr || value[0] == '\0' ? otherwise : value;
}

void SetOption(const char* name, const char* variable, const char* otherwise, const char* expected)
{
    const char* const value = Given(variable, otherwise);
    if (value != nullptr && opforgeTwinSetOption(name, value) != 0) {
        kernel::RefuseVariable(variable, value, expected);
    }
}

/// Ends the program if the report and the trace are one file.
void RequireTwoFiles()
{
    const char* const report = Given("OPFORGE_TWIN_REPORT", nullptr);
    const char* const trace = Given("OPFORGE_TWIN_TRACE", nullptr);
    std::error_code error;
    if (report != nullptr && trace != nullptr &&
        std::filesystem::weakly_canonical(report, error) == std::filesystem::weakly_canonical(trace, error)) {
        kernel::RefuseVariable("OPFORGE_TWIN_TRACE", trace, "another file than that of OPFORGE_TWIN_REPORT");
    }
}

/// Ends the program before its first launch if the twin cannot write the file of a variable.
void RequireFile(const char* variable)
{
    if (const char* const path = Given(variable, nullptr); path != nullptr && !kernel::IsWritableFile(path)) {
        kernel::RefuseVariable(variable, path,
                               "a new name or a regular file, in a folder that exists and can be written to");
    }
}

bool WriteReport(const char* path)
{
    std::ofstream file(path);
    file << TakeReports() << '\n';
    file.close();
    return static_cast<bool>(file);
}

/// Returns the exit code of the program after its findings, and writes the report.
int Conclude(int status)
{
    if (const std::lock_guard<std::mutex> guard(printing); repeated != 0) {
        std::fprintf(stderr, "exit: later launches had %" PRIu64 " more findings with a printed kind and line\n",
                     repeated);
    }
    int code = mistakes != 0 ? kFindingsExit : status;
    if (mistakes != 0 && status != 0) {
        std::fprintf(stderr, "exit: the program returned %d; with findings, the exit code is 1\n", status);
    }
    const char* const path = isChild ? nullptr : Given("OPFORGE_TWIN_REPORT", nullptr);  // it is that of the parent
    if (path != nullptr && !WriteReport(path)) {
        std::fprintf(stderr, "OPFORGE_TWIN_REPORT: cannot write %s; expected a path in a folder that exists\n", path);
        code = code == 0 ? kBadInputExit : code;
    }
    return code;
}

/// Returns a function of the C library that a function of this file replaces.
template <typename Function = void(int)>
Function* Original(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using SystemCall = long(long, ...);

SystemCall* OriginalCall()
{
    static SystemCall* const original = Original<SystemCall>("syscall");
    return original;
}

[[noreturn]] void End(int code)
{
    for (;;) {
        OriginalCall()(SYS_exit_group, code);
    }
}

/// Whether this call is the first one to end the process in which the program started, not one made by vfork().
bool IsFirstEnd()
{
    return starter == getpid() && !isEnding.exchange(true);
}

void OnExit(int status, void* /*unused*/)
{
    if (!IsFirstEnd()) {
        return;
    }
    std::cout.flush();
    std::fflush(nullptr);
    if (const int code = Conclude(status); code != status) {
        End(code);
    }
}

/// Reports findings of a kernel that does not return, and returns the exit code of the program.
int EndInKernel(const kernel::Block& block, std::vector<Finding> findings, int status)
{
    static std::mutex once;
    once.lock();  // another block waits here for the end of the process
    LaunchReport report;
    report.opType = block.launch.request.opType;
    report.findings = std::move(findings);
    report.isComplete = false;
    KeepReport(report, 0);
    return Conclude(status);
}

/// A function of the C library may hold a lock, for example that of stdout, which only this thread can take again.
void OnLibraryFault(const kernel::Block& block)
{
    IsFirstEnd();  // the functions of `on_exit` do not report a second time
    const int code = EndInKernel(block, block.diagnostics.Findings(), 0);
    std::fflush(stdout);
    End(code);
}

/// Returns the exit code for `_exit` and `quick_exit`, which do not call OnExit. `caller`: the return address.
int CodeOf(int status, const void* caller)
{
    kernel::Block* const block = kernel::CurrentBlock();
    // A kernel may call this function while the host waits for it at the end of the program.
    if (!IsFirstEnd() && (block == nullptr || starter != getpid())) {
        return status;
    }
    if (block != nullptr) {
        const std::string message =
            Text(block->launch.request.opType, ": the kernel ends the process; remove the call of exit");
        return EndInKernel(
            *block,
            {{"process_exit", static_cast<int64_t>(block->position.blockIndex), "", kernel::Where({caller}), message}},
            status);
    }
    if (status == 0) {
        FinishStreams();  // success needs the findings of all launches; after a failure, there is no wait
    }
    return Conclude(status);
}

/// The number of threads of the process that have not ended.
size_t LiveThreads()
{
    size_t count = 0;
    std::error_code ignored;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
        std::ifstream file(thread.path() / "stat");
        std::string state;
        std::getline(file, state);
        count += state.empty() || state.find(") Z") != std::string::npos ? 0 : 1;
    }
    return count;
}

/// Ends the process after the threads of the program, as without the threads of the twin.
void EndAfterThreads(int code)
{
    const auto wait = [code] {
        while (LiveThreads() > StreamThreads() + 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        std::exit(code);
    };
    try {
        std::thread(wait).detach();
    } catch (const std::system_error&) {
        std::exit(code);
    }
}

/// Called before this thread ends: `code` is the exit code if it is the main thread. A kernel must not end its thread.
void LeaveThread(int code, const void* caller)
{
    if (kernel::CurrentBlock() != nullptr) {
        End(CodeOf(code, caller));
    } else if (isProgram && gettid() == starter) {
        EndAfterThreads(code);
    }
}

/// The child has no threads for the work of the streams.
void BeforeFork()
{
    if (kernel::CurrentBlock() == nullptr) {
        FinishStreams();
    }
}

void InChild()
{
    starter = getpid();
    isChild = true;
    isEnding = false;
    mistakes = 0;
    repeated = 0;
    AbandonStreams();
}

void OnTerminate()
{
    try {
        if (std::current_exception()) {
            std::rethrow_exception(std::current_exception());
        }
    } catch (const kernel::OutsideLaunch& error) {
        std::fprintf(stderr, "%s\n", error.what());
        _exit(kBadInputExit);
    } catch (...) {
    }
    otherTerminate();
}

}  // namespace

bool IsProgram()
{
    return isProgram;
}

bool HasFindings()
{
    return mistakes != 0;
}

void PrintFindings(const LaunchReport& report)
{
    static auto* const printed = new std::set<std::pair<std::string, std::string>>();  // kinds and locations
    const std::lock_guard<std::mutex> guard(printing);
    for (const Finding& finding : report.findings) {
        mistakes += finding.warning ? 0 : 1;
        if (!finding.where.empty() && !printed->emplace(finding.kind, finding.where).second) {
            ++repeated;
            continue;
        }
        const std::string place = finding.where.empty() ? std::string() : finding.where + ": ";
        const std::string block = finding.block < 0 ? std::string()
                                  : finding.pipe.empty()
                                      ? Text(" (block ", finding.block, ")")
                                      : Text(" (block ", finding.block, ", pipe ", finding.pipe, ")");
        std::fprintf(stderr, "%s%s: %s%s: %s\n", place.c_str(), finding.warning ? "warning" : "error",
                     finding.kind.c_str(), block.c_str(), finding.message.c_str());
    }
}

}  // namespace opforge::twin::host

using namespace opforge::twin::host;  // NOLINT: the definition of a C function follows

void opforgeTwinStartProgram(const char* soc, const char* level)
{
    if (isProgram.exchange(true)) {
        return;
    }
    SetOption("soc", "OPFORGE_TWIN_SOC", soc,
              opforge::twin::kernel::Text("a chip, as in ", opforge::twin::DefaultSoc().name).c_str());
    SetOption("level", "OPFORGE_TWIN_LEVEL", level, "strict, device or fast");
    SetOption("seed", "OPFORGE_TWIN_SEED", nullptr, "an integer from 0 to 18446744073709551615");
    RequireFile("OPFORGE_TWIN_REPORT");
    RequireFile("OPFORGE_TWIN_TRACE");
    RequireTwoFiles();
    DeviceMemory::Instance().MakeReadable();
    opforge::twin::kernel::SetLibraryFaultHandler(OnLibraryFault);
    starter = getpid();
    on_exit(OnExit, nullptr);
    pthread_atfork(BeforeFork, nullptr, InChild);
    otherTerminate = std::set_terminate(OnTerminate);
}

void opforgeTwinDisableAutoSync()
{
    opforge::twin::Options options = opforge::twin::ProcessOptions();
    options.autoSync = false;
    opforge::twin::SetProcessOptions(options);
}

// These functions replace those of the C library in programs, because they do not call the functions of `on_exit`.

extern "C" void _exit(int status)
{
    End(CodeOf(status, __builtin_return_address(0)));
}

extern "C" void _Exit(int status) noexcept
{
    End(CodeOf(status, __builtin_return_address(0)));
}

extern "C" void quick_exit(int status) noexcept
{
    const int code = CodeOf(status, __builtin_return_address(0));
    Original("quick_exit")(code);
    End(code);
}

/// Functions of `on_exit` wait for the kernel that calls `exit`.
extern "C" void exit(int status) noexcept
{
    if (opforge::twin::kernel::CurrentBlock() != nullptr) {
        End(CodeOf(status, __builtin_return_address(0)));
    }
    Original("exit")(status);
    End(status);
}

extern "C" void pthread_exit(void* result)
{
    LeaveThread(0, __builtin_return_address(0));
    Original<void(void*)>("pthread_exit")(result);
    End(0);
}

extern "C" long syscall(long number, ...) noexcept
{
    va_list list;
    va_start(list, number);
    long words[6] = {};
    for (long& word : words) {
        word = va_arg(list, long);
    }
    va_end(list);
    const int status = static_cast<int>(words[0]);
    if (isProgram && number == SYS_exit_group) {
        End(CodeOf(status, __builtin_return_address(0)));
    }
    if (number == SYS_exit) {
        LeaveThread(status & 0xFF, __builtin_return_address(0));
    }
    return OriginalCall()(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
