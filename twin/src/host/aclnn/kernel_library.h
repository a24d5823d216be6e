// Search for the compiled kernel of a call.
#ifndef OPFORGE_TWIN_HOST_ACLNN_KERNEL_LIBRARY_H
#define OPFORGE_TWIN_HOST_ACLNN_KERNEL_LIBRARY_H

#include <string>
#include <vector>

#include "graph/types.h"
#include "host/gert/registry.h"
#include "kernel/exec/soc.h"

namespace opforge::twin::host {

/// The dtypes of the call by IR parameter; DT_UNDEFINED for an absent optional parameter.
struct CallDtypes {
    std::vector<ge::DataType> inputs;
    std::vector<ge::DataType> outputs;
};

/// Returns the kernel function. Returns null and the reason if the operator has no kernel for the SoC or the dtypes.
/// Optional inputs do not select a kernel.
void* FindKernel(const Registered& operation, const CallDtypes& dtypes, const SocFigures& soc, const void* caller,
                 std::string& problem);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_KERNEL_LIBRARY_H
