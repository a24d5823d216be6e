// ge::Operator, implemented on its shared node.
#include <limits>
#include <type_traits>
#include <utility>

#include "graph/operator.h"
#include "host/aclnn/operator_node.h"

namespace ge {

using opforge::twin::host::OperatorNode;

namespace {

using Ports = std::vector<std::pair<std::string, TensorDesc>>;

std::string TextOf(const char_t* text)
{
    return text == nullptr ? "" : text;
}

TensorDesc Find(const Ports& ports, const std::string& name)
{
    for (const auto& [known, description] : ports) {
        if (known == name) {
            return description;
        }
    }
    return TensorDesc();
}

TensorDesc At(const Ports& ports, uint32_t index)
{
    return index < ports.size() ? ports[index].second : TensorDesc();
}

graphStatus Update(Ports& ports, const std::string& name, const TensorDesc& description)
{
    for (auto& [known, place] : ports) {
        if (known == name) {
            place = description;
            return GRAPH_SUCCESS;
        }
    }
    return GRAPH_FAILED;
}

graphStatus Update(Ports& ports, uint32_t index, const TensorDesc& description)
{
    if (index >= ports.size()) {
        return GRAPH_FAILED;
    }
    ports[index].second = description;
    return GRAPH_SUCCESS;
}

int32_t CountOf(const std::map<std::string, size_t>& counts, const std::string& name)
{
    const auto found = counts.find(name);
    return found == counts.end() ? -1 : static_cast<int32_t>(found->second);
}

void AddPorts(Ports& ports, std::map<std::string, size_t>& counts, const char_t* name, uint32_t count, bool atEnd)
{
    Ports added;
    const size_t first = counts[TextOf(name)];
    for (uint32_t i = 0; i < count; ++i) {
        added.emplace_back(TextOf(name) + std::to_string(first + i), TensorDesc());
    }
    counts[TextOf(name)] += count;
    ports.insert(atEnd ? ports.end() : ports.begin(), added.begin(), added.end());
}

// Attributes are stored in the widest type of their kind. A getter converts to the narrow type and fails if the value
// does not fit.
template <typename T>
struct Stored {
    using Type = T;
};
template <>
struct Stored<int32_t> {
    using Type = int64_t;
};
template <>
struct Stored<uint32_t> {
    using Type = int64_t;
};
template <>
struct Stored<std::vector<int32_t>> {
    using Type = std::vector<int64_t>;
};
template <>
struct Stored<std::vector<uint32_t>> {
    using Type = std::vector<int64_t>;
};

template <typename T>
bool Narrow(int64_t from, T& to)
{
    to = static_cast<T>(from);
    return from >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
           from <= static_cast<int64_t>(std::numeric_limits<T>::max());
}

template <typename T>
bool Narrow(const std::vector<int64_t>& from, std::vector<T>& to)
{
    to.resize(from.size());
    bool fits = true;
    for (size_t i = 0; i < from.size(); ++i) {
        fits = Narrow(from[i], to[i]) && fits;
    }
    return fits;
}

template <typename T>
AttrValue ValueOf(const T& value)
{
    AttrValue stored;
    stored.SetValue(value);
    return stored;
}

AttrValue ValueOf(int32_t value)
{
    return ValueOf(static_cast<int64_t>(value));
}
AttrValue ValueOf(uint32_t value)
{
    return ValueOf(static_cast<int64_t>(value));
}
AttrValue ValueOf(const std::vector<int32_t>& value)
{
    return ValueOf(std::vector<int64_t>(value.begin(), value.end()));
}
AttrValue ValueOf(const std::vector<uint32_t>& value)
{
    return ValueOf(std::vector<int64_t>(value.begin(), value.end()));
}

const AttrValue* FindAttribute(const OperatorNode* node, const std::string& name)
{
    if (node == nullptr) {
        return nullptr;
    }
    const auto found = node->attributes.find(name);
    return found == node->attributes.end() ? nullptr : &found->second;
}

template <typename T>
graphStatus ReadAttribute(const OperatorNode* node, const std::string& name, T& value)
{
    const AttrValue* const found = FindAttribute(node, name);
    typename Stored<T>::Type stored{};
    if (found == nullptr || found->GetValue(stored) != GRAPH_SUCCESS) {
        return GRAPH_FAILED;
    }
    if constexpr (std::is_same_v<typename Stored<T>::Type, T>) {
        value = std::move(stored);
        return GRAPH_SUCCESS;
    } else {
        return Narrow(stored, value) ? GRAPH_SUCCESS : GRAPH_FAILED;
    }
}

graphStatus ReadAttribute(const OperatorNode* node, const std::string& name, AttrValue& value)
{
    const AttrValue* const found = FindAttribute(node, name);
    if (found == nullptr) {
        return GRAPH_FAILED;
    }
    value = *found;
    return GRAPH_SUCCESS;
}

}  // namespace

Operator::Operator() = default;
Operator::Operator(const std::string& type) : Operator(std::string(), type) {}
Operator::Operator(const char_t* type) : Operator(std::string(), TextOf(type)) {}

Operator::Operator(const std::string& name, const std::string& type) : node_(std::make_shared<OperatorNode>())
{
    node_->name = name;
    node_->type = type;
}

Operator::Operator(const AscendString& name, const AscendString& type)
    : Operator(std::string(name.GetString()), std::string(type.GetString()))
{
}

Operator::Operator(const char_t* name, const char_t* type) : Operator(TextOf(name), TextOf(type)) {}

bool Operator::IsEmpty() const
{
    return node_ == nullptr;
}
std::string Operator::GetName() const
{
    return node_ == nullptr ? "" : node_->name;
}
std::string Operator::GetOpType() const
{
    return node_ == nullptr ? "" : node_->type;
}

graphStatus Operator::GetName(AscendString& name) const
{
    name = AscendString(GetName().c_str());
    return node_ == nullptr ? GRAPH_FAILED : GRAPH_SUCCESS;
}

graphStatus Operator::GetOpType(AscendString& type) const
{
    type = AscendString(GetOpType().c_str());
    return node_ == nullptr ? GRAPH_FAILED : GRAPH_SUCCESS;
}

size_t Operator::GetInputsSize() const
{
    return node_ == nullptr ? 0 : node_->inputs.size();
}
size_t Operator::GetOutputsSize() const
{
    return node_ == nullptr ? 0 : node_->outputs.size();
}

TensorDesc Operator::GetInputDesc(const std::string& name) const
{
    return node_ == nullptr ? TensorDesc() : Find(node_->inputs, name);
}

TensorDesc Operator::GetInputDescByName(const char_t* name) const
{
    return GetInputDesc(TextOf(name));
}

TensorDesc Operator::GetInputDesc(uint32_t index) const
{
    return node_ == nullptr ? TensorDesc() : At(node_->inputs, index);
}

TensorDesc Operator::GetOutputDesc(const std::string& name) const
{
    return node_ == nullptr ? TensorDesc() : Find(node_->outputs, name);
}

TensorDesc Operator::GetOutputDescByName(const char_t* name) const
{
    return GetOutputDesc(TextOf(name));
}

TensorDesc Operator::GetOutputDesc(uint32_t index) const
{
    return node_ == nullptr ? TensorDesc() : At(node_->outputs, index);
}

TensorDesc Operator::GetDynamicInputDesc(const std::string& name, uint32_t index) const
{
    return GetInputDesc(name + std::to_string(index));
}

TensorDesc Operator::GetDynamicInputDesc(const char_t* name, uint32_t index) const
{
    return GetDynamicInputDesc(TextOf(name), index);
}

graphStatus Operator::UpdateInputDesc(const std::string& name, const TensorDesc& tensor_desc)
{
    return node_ == nullptr ? GRAPH_FAILED : Update(node_->inputs, name, tensor_desc);
}

graphStatus Operator::UpdateInputDesc(const char_t* name, const TensorDesc& tensor_desc)
{
    return UpdateInputDesc(TextOf(name), tensor_desc);
}

graphStatus Operator::UpdateInputDesc(const uint32_t index, const TensorDesc& tensor_desc)
{
    return node_ == nullptr ? GRAPH_FAILED : Update(node_->inputs, index, tensor_desc);
}

graphStatus Operator::UpdateOutputDesc(const std::string& name, const TensorDesc& tensor_desc)
{
    return node_ == nullptr ? GRAPH_FAILED : Update(node_->outputs, name, tensor_desc);
}

graphStatus Operator::UpdateOutputDesc(const char_t* name, const TensorDesc& tensor_desc)
{
    return UpdateOutputDesc(TextOf(name), tensor_desc);
}

graphStatus Operator::UpdateOutputDesc(const uint32_t index, const TensorDesc& tensor_desc)
{
    return node_ == nullptr ? GRAPH_FAILED : Update(node_->outputs, index, tensor_desc);
}

int32_t Operator::GetDynamicInputNum(const std::string& name) const
{
    return node_ == nullptr ? -1 : CountOf(node_->dynamicInputs, name);
}

int32_t Operator::GetDynamicInputNum(const char_t* name) const
{
    return GetDynamicInputNum(TextOf(name));
}

int32_t Operator::GetDynamicOutputNum(const std::string& name) const
{
    return node_ == nullptr ? -1 : CountOf(node_->dynamicOutputs, name);
}

int32_t Operator::GetDynamicOutputNum(const char_t* name) const
{
    return GetDynamicOutputNum(TextOf(name));
}

void Operator::DynamicInputRegister(const char_t* name, const uint32_t num, bool is_push_back)
{
    if (node_ != nullptr) {
        AddPorts(node_->inputs, node_->dynamicInputs, name, num, is_push_back);
    }
}

void Operator::DynamicInputRegister(const char_t* name, const uint32_t num, const char_t* datatype_symbol,
                                    bool is_push_back)
{
    (void)datatype_symbol;  // only used for type inference in the graph
    DynamicInputRegister(name, num, is_push_back);
}

void Operator::DynamicOutputRegister(const char_t* name, const uint32_t num, bool is_push_back)
{
    if (node_ != nullptr) {
        AddPorts(node_->outputs, node_->dynamicOutputs, name, num, is_push_back);
    }
}

void Operator::DynamicOutputRegister(const char_t* name, const uint32_t num, const char_t* datatype_symbol,
                                     bool is_push_back)
{
    (void)datatype_symbol;
    DynamicOutputRegister(name, num, is_push_back);
}

const std::map<std::string, std::string> Operator::GetAllAttrNamesAndTypes() const
{
    std::map<std::string, std::string> types;
    for (const auto& [name, value] : node_ == nullptr ? std::map<std::string, AttrValue>() : node_->attributes) {
        types[name] = value.TypeName();
    }
    return types;
}

graphStatus Operator::GetAllAttrNamesAndTypes(std::map<AscendString, AscendString>& attr_name_types) const
{
    for (const auto& [name, type] : GetAllAttrNamesAndTypes()) {
        attr_name_types[AscendString(name.c_str())] = AscendString(type.c_str());
    }
    return node_ == nullptr ? GRAPH_FAILED : GRAPH_SUCCESS;
}

#define OPFORGE_ATTRIBUTE(SetType, GetType)                                           \
    Operator& Operator::SetAttr(const std::string& name, SetType attr_value)          \
    {                                                                                 \
        if (node_ != nullptr) {                                                       \
            node_->attributes[name] = ValueOf(attr_value);                            \
        }                                                                             \
        return *this;                                                                 \
    }                                                                                 \
    Operator& Operator::SetAttr(const char_t* name, SetType attr_value)               \
    {                                                                                 \
        return SetAttr(TextOf(name), std::forward<SetType>(attr_value));              \
    }                                                                                 \
    graphStatus Operator::GetAttr(const std::string& name, GetType& attr_value) const \
    {                                                                                 \
        return ReadAttribute(node_.get(), name, attr_value);                          \
    }                                                                                 \
    graphStatus Operator::GetAttr(const char_t* name, GetType& attr_value) const      \
    {                                                                                 \
        return ReadAttribute(node_.get(), TextOf(name), attr_value);                  \
    }
#define OPFORGE_ATTRIBUTE_BY_REFERENCE(...) OPFORGE_ATTRIBUTE(const __VA_ARGS__&, __VA_ARGS__)

OPFORGE_ATTRIBUTE(int64_t, int64_t)
OPFORGE_ATTRIBUTE(int32_t, int32_t)
OPFORGE_ATTRIBUTE(uint32_t, uint32_t)
OPFORGE_ATTRIBUTE(float32_t, float32_t)
OPFORGE_ATTRIBUTE(bool, bool)
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

Operator& Operator::SetAttr(const std::string& name, AttrValue&& attr_value)
{
    if (node_ != nullptr) {
        node_->attributes[name] = std::move(attr_value);
    }
    return *this;
}

Operator& Operator::SetAttr(const char_t* name, AttrValue&& attr_value)
{
    return SetAttr(TextOf(name), std::move(attr_value));
}

graphStatus Operator::GetAttr(const std::string& name, AttrValue& attr_value) const
{
    return ReadAttribute(node_.get(), name, attr_value);
}

graphStatus Operator::GetAttr(const char_t* name, AttrValue& attr_value) const
{
    return ReadAttribute(node_.get(), TextOf(name), attr_value);
}

Operator& Operator::SetAttr(const std::string& name, const std::string& attr_value)
{
    return SetAttr(name, ValueOf(attr_value));
}

Operator& Operator::SetAttr(const std::string& name, const std::vector<std::string>& attr_value)
{
    return SetAttr(name, ValueOf(attr_value));
}

graphStatus Operator::GetAttr(const std::string& name, std::string& attr_value) const
{
    return ReadAttribute(node_.get(), name, attr_value);
}

graphStatus Operator::GetAttr(const std::string& name, std::vector<std::string>& attr_value) const
{
    return ReadAttribute(node_.get(), name, attr_value);
}

Operator& Operator::SetAttr(const char_t* name, const char_t* attr_value)
{
    return SetAttr(TextOf(name), TextOf(attr_value));
}

Operator& Operator::SetAttr(const char_t* name, const AscendString& attr_value)
{
    return SetAttr(TextOf(name), std::string(attr_value.GetString(), attr_value.GetLength()));
}

Operator& Operator::SetAttr(const char_t* name, const std::vector<AscendString>& attr_values)
{
    std::vector<std::string> texts;
    for (const AscendString& value : attr_values) {
        texts.emplace_back(value.GetString(), value.GetLength());
    }
    return SetAttr(TextOf(name), texts);
}

graphStatus Operator::GetAttr(const char_t* name, AscendString& attr_value) const
{
    std::string text;
    const graphStatus status = GetAttr(TextOf(name), text);
    if (status == GRAPH_SUCCESS) {
        attr_value = AscendString(text.c_str(), text.size());
    }
    return status;
}

graphStatus Operator::GetAttr(const char_t* name, std::vector<AscendString>& attr_values) const
{
    std::vector<std::string> texts;
    const graphStatus status = GetAttr(TextOf(name), texts);
    if (status == GRAPH_SUCCESS) {
        attr_values.clear();
        for (const std::string& text : texts) {
            attr_values.emplace_back(text.c_str(), text.size());
        }
    }
    return status;
}

Operator& Operator::SetAttr(const std::string& name, std::initializer_list<int64_t>&& attr_value)
{
    return SetAttr(name, std::vector<int64_t>(attr_value));
}

Operator& Operator::SetAttr(const char_t* name, std::initializer_list<int64_t>&& attr_value)
{
    return SetAttr(TextOf(name), std::vector<int64_t>(attr_value));
}

}  // namespace ge
