// The state that copies of one ge::Operator share.
#ifndef OPFORGE_TWIN_HOST_ACLNN_OPERATOR_NODE_H
#define OPFORGE_TWIN_HOST_ACLNN_OPERATOR_NODE_H

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/attr_value.h"
#include "graph/tensor.h"

namespace opforge::twin::host {

struct OperatorNode {
    std::string name;
    std::string type;
    std::vector<std::pair<std::string, ge::TensorDesc>> inputs;
    std::vector<std::pair<std::string, ge::TensorDesc>> outputs;
    std::map<std::string, size_t> dynamicInputs;   ///< instances by name
    std::map<std::string, size_t> dynamicOutputs;  ///< instances by name
    std::map<std::string, ge::AttrValue> attributes;
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_OPERATOR_NODE_H
