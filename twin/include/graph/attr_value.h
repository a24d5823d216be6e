// An attribute value with a dynamic type.
#ifndef GRAPH_ATTR_VALUE_H
#define GRAPH_ATTR_VALUE_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
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
    template <typename T>
    graphStatus SetValue(const T& value)
    {
        constexpr bool isNumber = std::is_integral_v<T> && !std::is_same_v<T, bool>;
        return Store<std::conditional_t<isNumber, int64_t, T>>(value);
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
    graphStatus GetValue(T& value) const;

    /// Returns the GE name of the type: VT_INT, VT_LIST_STRING, ...; "" without a value.
    const char* TypeName() const;

private:
    struct Held;  // a variant takes much of the compile time of operators; the library has the instances

    template <typename T>
    graphStatus Store(const T& value);

    std::shared_ptr<const Held> held_;
};
}  // namespace ge

#endif  // GRAPH_ATTR_VALUE_H
