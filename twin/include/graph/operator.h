// A graph node: type, inputs, outputs and attributes.
#ifndef GRAPH_OPERATOR_H
#define GRAPH_OPERATOR_H

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/attr_value.h"
#include "graph/tensor.h"
#include "graph/types.h"

namespace opforge::twin::host {
struct Access;
struct OperatorNode;
}  // namespace opforge::twin::host

namespace ge {
/// All copies of an operator share one node.
class Operator {
public:
    Operator();
    virtual ~Operator() = default;
    explicit Operator(const std::string& type);
    explicit Operator(const char_t* type);
    Operator(const std::string& name, const std::string& type);
    Operator(const AscendString& name, const AscendString& type);
    Operator(const char_t* name, const char_t* type);

    bool IsEmpty() const;
    std::string GetName() const;
    graphStatus GetName(AscendString& name) const;
    std::string GetOpType() const;
    graphStatus GetOpType(AscendString& type) const;

    size_t GetInputsSize() const;
    size_t GetOutputsSize() const;
    TensorDesc GetInputDesc(const std::string& name) const;
    TensorDesc GetInputDescByName(const char_t* name) const;
    TensorDesc GetInputDesc(uint32_t index) const;
    TensorDesc GetOutputDesc(const std::string& name) const;
    TensorDesc GetOutputDescByName(const char_t* name) const;
    TensorDesc GetOutputDesc(uint32_t index) const;
    TensorDesc GetDynamicInputDesc(const std::string& name, uint32_t index) const;
    TensorDesc GetDynamicInputDesc(const char_t* name, uint32_t index) const;
    graphStatus UpdateInputDesc(const std::string& name, const TensorDesc& tensor_desc);
    graphStatus UpdateInputDesc(const char_t* name, const TensorDesc& tensor_desc);
    graphStatus UpdateInputDesc(const uint32_t index, const TensorDesc& tensor_desc);
    graphStatus UpdateOutputDesc(const std::string& name, const TensorDesc& tensor_desc);
    graphStatus UpdateOutputDesc(const char_t* name, const TensorDesc& tensor_desc);
    graphStatus UpdateOutputDesc(const uint32_t index, const TensorDesc& tensor_desc);

    int32_t GetDynamicInputNum(const std::string& name) const;
    int32_t GetDynamicInputNum(const char_t* name) const;
    int32_t GetDynamicOutputNum(const std::string& name) const;
    int32_t GetDynamicOutputNum(const char_t* name) const;
    /// Appends `num` inputs with the names <name>0, <name>1, ...; inserts them first if `is_push_back` is false.
    void DynamicInputRegister(const char_t* name, const uint32_t num, bool is_push_back = true);
    void DynamicInputRegister(const char_t* name, const uint32_t num, const char_t* datatype_symbol,
                              bool is_push_back = true);
    void DynamicOutputRegister(const char_t* name, const uint32_t num, bool is_push_back = true);
    void DynamicOutputRegister(const char_t* name, const uint32_t num, const char_t* datatype_symbol,
                               bool is_push_back = true);

    const std::map<std::string, std::string> GetAllAttrNamesAndTypes() const;
    graphStatus GetAllAttrNamesAndTypes(std::map<AscendString, AscendString>& attr_name_types) const;

// Each attribute type has both name types. A getter returns GRAPH_FAILED if the value has another type.
#define OPFORGE_ATTRIBUTE(SetType, GetType)                                  \
    Operator& SetAttr(const std::string& name, SetType attr_value);          \
    Operator& SetAttr(const char_t* name, SetType attr_value);               \
    graphStatus GetAttr(const std::string& name, GetType& attr_value) const; \
    graphStatus GetAttr(const char_t* name, GetType& attr_value) const;
#define OPFORGE_ATTRIBUTE_BY_REFERENCE(...) OPFORGE_ATTRIBUTE(const __VA_ARGS__&, __VA_ARGS__)

    OPFORGE_ATTRIBUTE(int64_t, int64_t)
    OPFORGE_ATTRIBUTE(int32_t, int32_t)
    OPFORGE_ATTRIBUTE(uint32_t, uint32_t)
    OPFORGE_ATTRIBUTE(float32_t, float32_t)
    OPFORGE_ATTRIBUTE(bool, bool)
    OPFORGE_ATTRIBUTE(AttrValue&&, AttrValue)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(std::vector<int64_t>)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(std::vector<int32_t>)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(std::vector<uint32_t>)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(std::vector<float32_t>)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(std::vector<bool>)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(Tensor)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(std::vector<Tensor>)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(OpBytes)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(std::vector<std::vector<int64_t>>)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(DataType)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(std::vector<DataType>)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(NamedAttrs)
    OPFORGE_ATTRIBUTE_BY_REFERENCE(std::vector<NamedAttrs>)
#undef OPFORGE_ATTRIBUTE_BY_REFERENCE
#undef OPFORGE_ATTRIBUTE

    // Strings: a std::string name takes std::string values; a char pointer name takes AscendString and char pointer
    // values.
    Operator& SetAttr(const std::string& name, const std::string& attr_value);
    Operator& SetAttr(const std::string& name, const std::vector<std::string>& attr_value);
    graphStatus GetAttr(const std::string& name, std::string& attr_value) const;
    graphStatus GetAttr(const std::string& name, std::vector<std::string>& attr_value) const;
    Operator& SetAttr(const char_t* name, const char_t* attr_value);
    Operator& SetAttr(const char_t* name, const AscendString& attr_value);
    Operator& SetAttr(const char_t* name, const std::vector<AscendString>& attr_values);
    graphStatus GetAttr(const char_t* name, AscendString& attr_value) const;
    graphStatus GetAttr(const char_t* name, std::vector<AscendString>& attr_values) const;
    Operator& SetAttr(const std::string& name, std::initializer_list<int64_t>&& attr_value);
    Operator& SetAttr(const char_t* name, std::initializer_list<int64_t>&& attr_value);

private:
    friend struct opforge::twin::host::Access;

    std::shared_ptr<opforge::twin::host::OperatorNode> node_;
};
}  // namespace ge

#endif  // GRAPH_OPERATOR_H
