// The values of the arguments of a level 0 call.
#ifndef OPFORGE_TWIN_SRC_HOST_ACLNN_ARGUMENT_VALUES_H
#define OPFORGE_TWIN_SRC_HOST_ACLNN_ARGUMENT_VALUES_H

#include <variant>
#include <vector>

#include "opforge_twin/host/attribute.h"
#include "opforge_twin/host/op_argument.h"

namespace opforge::twin::host {

struct TensorArgument {
    const aclTensor* tensor = nullptr;
    aclTensor* writable = nullptr;  ///< the same tensor; null if it was passed as const
};

/// An absent optional argument, a tensor, a list of tensors, or an attribute.
using OpArgument = std::variant<std::monostate, TensorArgument, std::vector<TensorArgument>, AttributeValue>;

struct ArgumentValues {
    std::vector<OpArgument> items;
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_SRC_HOST_ACLNN_ARGUMENT_VALUES_H
