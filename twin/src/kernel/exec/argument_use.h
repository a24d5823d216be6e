// The checks of the arguments of a finished launch: outputs that were not written, inputs that were not read.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_ARGUMENT_USE_H
#define OPFORGE_TWIN_KERNEL_EXEC_ARGUMENT_USE_H

#include <cstdint>
#include <vector>

#include "kernel/memory/access_checks.h"

namespace opforge::twin::kernel {

class ArgumentUse {
public:
    /// The accesses of a finished core.
    void Add(const AccessedArguments& core);
    /// The findings about a launch whose cores have all finished, errors first.
    std::vector<Finding> Check(const LaunchState& launch) const;

private:
    std::vector<uint32_t> readers_;  ///< cores by argument
    std::vector<uint32_t> writers_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_ARGUMENT_USE_H
