// The findings of one block, and the checks that depend only on the kind of its core.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_DIAGNOSTICS_H
#define OPFORGE_TWIN_KERNEL_EXEC_DIAGNOSTICS_H

#include <string>
#include <vector>

#include "kernel/exec/execution.h"
#include "kernel/exec/launch_state.h"
#include "kernel/exec/text.h"

namespace opforge::twin::kernel {

/// Name of the call in findings about the final state of a kernel.
inline constexpr const char* kKernelEnd = "end of the kernel";

class Diagnostics {
public:
    Diagnostics(const LaunchState& launch, const CorePosition& position, Execution& execution)
        : launch_(launch), position_(position), execution_(execution)
    {
    }

    /// Records an error; the block continues.
    void Report(const char* kind, Pipe pipe, const Call& call, const std::string& message);
    /// Records a warning: not an error, but rarely intended.
    void Warn(const char* kind, Pipe pipe, const Call& call, const std::string& message);
    /// Records an error after which results are undefined, and ends the block.
    [[noreturn]] void Fail(const char* kind, Pipe pipe, const Call& call, const std::string& message);
    /// Ends the block without a finding.
    [[noreturn]] void Stop();

    /// Ends the block unless it runs on a core of this kind.
    void Require(CoreKind kind, const Call& call);
    /// Ends the block unless its core has this pipe.
    void RequirePipe(Pipe pipe, const Call& call);

    const std::vector<Finding>& Findings() const { return findings_; }

private:
    void Record(const char* kind, Pipe pipe, const Call& call, const std::string& message, bool isWarning);

    const LaunchState& launch_;
    const CorePosition position_;
    Execution& execution_;
    std::vector<Finding> findings_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_DIAGNOSTICS_H
