// The implementation of the REG_OP macros.
#ifndef OPFORGE_TWIN_HOST_PROTOTYPE_H
#define OPFORGE_TWIN_HOST_PROTOTYPE_H

#include <memory>
#include <string>
#include <vector>

#include "graph/operator.h"
#include "graph/tensor_type.h"

namespace opforge::twin::host {

/// The attribute type names of REQUIRED_ATTR.
enum class PrototypeAttribute {
    kInt,
    kFloat,
    kBool,
    kString,
    kListInt,
    kListFloat,
    kListBool,
    kListString,
    kListListInt,
    kType,
    kListType,
    kTensor,
    kListTensor,
    kBytes,
    kNamedAttrs,
};

enum class ParameterKind;
struct PrototypeState;

/// Describes one operator type: fills the node of `target`, then the registry.
class Prototype {
public:
    Prototype(const char* opType, ge::Operator& target);
    Prototype(const Prototype&) = delete;
    Prototype& operator=(const Prototype&) = delete;
    ~Prototype();

    Prototype& Input(const char* name, const ge::TensorType& types);
    Prototype& Input(const char* name, const char* symbol);
    Prototype& OptionalInput(const char* name, const ge::TensorType& types);
    Prototype& OptionalInput(const char* name, const char* symbol);
    Prototype& DynamicInput(const char* name, const ge::TensorType& types);
    Prototype& DynamicInput(const char* name, const char* symbol);
    Prototype& Output(const char* name, const ge::TensorType& types);
    Prototype& Output(const char* name, const char* symbol);
    Prototype& DynamicOutput(const char* name, const ge::TensorType& types);
    Prototype& DynamicOutput(const char* name, const char* symbol);
    Prototype& DataType(const char* symbol, const ge::TensorType& types);

    Prototype& RequiredAttribute(const char* name, PrototypeAttribute type);
    Prototype& IntAttribute(const char* name, int64_t value);
    Prototype& FloatAttribute(const char* name, float value);
    Prototype& BoolAttribute(const char* name, bool value);
    Prototype& StringAttribute(const char* name, const char* value);
    Prototype& ListIntAttribute(const char* name, const std::vector<int64_t>& value);
    Prototype& ListFloatAttribute(const char* name, const std::vector<float>& value);
    Prototype& ListBoolAttribute(const char* name, const std::vector<bool>& value);
    Prototype& ListListIntAttribute(const char* name, const std::vector<std::vector<int64_t>>& value);
    Prototype& ListStringAttribute(const char* name, const std::vector<std::string>& value);
    Prototype& TypeAttribute(const char* name, ge::DataType value);

    void Register();

private:
    Prototype& AddInput(const char* name, ParameterKind kind, std::vector<ge::DataType> types);
    Prototype& AddOutput(const char* name, ParameterKind kind, std::vector<ge::DataType> types);

    ge::Operator& target_;
    std::unique_ptr<PrototypeState> state_;
};

class PrototypeRegistration {
public:
    using Creator = ge::Operator (*)(const ge::AscendString&);

    PrototypeRegistration(const char* opType, Creator create);
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_PROTOTYPE_H
