// The definition of an operator type: the common form of an OpDef and a REG_OP prototype.
#ifndef OPFORGE_TWIN_HOST_DEFINITION_H
#define OPFORGE_TWIN_HOST_DEFINITION_H

#include <string>
#include <vector>

#include "graph/types.h"
#include "opforge_twin/host/attribute.h"

namespace opforge::twin::host {

enum class ParameterKind { kRequired, kOptional, kDynamic };

struct Parameter {
    std::string name;
    ParameterKind kind = ParameterKind::kRequired;
    std::vector<ge::DataType> dtypes;  ///< one per column
    std::vector<ge::Format> formats;   ///< one per column; empty: ND in every column
    bool valueDepend = false;          ///< the host functions may read its values
};

struct Attribute {
    std::string name;
    AttributeType type = AttributeType::kInt;
    bool required = true;
    AttributeValue value;  ///< default of an optional attribute
};

struct Definition {
    std::string opType;
    std::vector<Parameter> inputs;
    std::vector<Parameter> outputs;
    std::vector<Attribute> attributes;
    std::vector<std::string> socs;  ///< directory names ("ascend910b") the operator is configured for

    /// Returns the number of dtype columns; 0 if unknown (REG_OP). Without tensors, it is 1.
    size_t Columns() const
    {
        const std::vector<Parameter>& tensors = inputs.empty() ? outputs : inputs;
        return tensors.empty() ? 1 : tensors.front().dtypes.size();
    }
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_DEFINITION_H
