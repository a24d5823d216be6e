// An attribute value with a dynamic type.
#ifndef GRAPH_ATTR_VALUE_H
#define GRAPH_ATTR_VALUE_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/tensor.h"

namespace ge {
using OpBytes = std::vector<uint8_t>;

class AttrValue;

/// A named set of attributes.
class NamedAttrs {
public:
    void SetName(const AscendString& name) { name_ = name; }
    AscendString GetName() const { return name_; }
    NamedAttrs& SetAttr(const AscendString& name, const AttrValue& value);
    graphStatus GetAttr(const AscendString& name, AttrValue& value) const;

private:
    AscendString name_;
    std::map<std::string, std::shared_ptr<AttrValue>> attributes_;
};

class AttrValue {
public:
    using Storage = std::variant<std::monostate, int64_t, float32_t, bool, std::string, DataType, Tensor, OpBytes,
                                 NamedAttrs, std::vector<int64_t>, std::vector<float32_t>, std::vector<bool>,
                                 std::vector<std::string>, std::vector<DataType>, std::vector<std::vector<int64_t>>,
                                 std::vector<Tensor>, std::vector<NamedAttrs>>;

    template <typename T>
    graphStatus SetValue(const T& value)
    {
        storage_ = value;
        return GRAPH_SUCCESS;
    }

    graphStatus SetValue(const AscendString& value) { return SetValue(std::string(value.GetString())); }
    graphStatus SetValue(const char_t* value) { return SetValue(std::string(value)); }
    graphStatus GetValue(AscendString& value) const
    {
        std::string text;
        const graphStatus status = GetValue(text);
        if (status == GRAPH_SUCCESS) {
            value = AscendString(text.c_str(), text.size());
        }
        return status;
    }

    /// Returns GRAPH_FAILED if the value has another type.
    template <typename T>
    graphStatus GetValue(T& value) const
    {
        const T* held = std::get_if<T>(&storage_);
        if (held == nullptr) {
            return GRAPH_FAILED;
        }
        value = *held;
        return GRAPH_SUCCESS;
    }

    /// Returns the GE name of the type: VT_INT, VT_LIST_STRING, ...; "" without a value.
    const char* TypeName() const;

private:
    Storage storage_;
};
}  // namespace ge

#endif  // GRAPH_ATTR_VALUE_H
