// Attribute types and values for the host code of operators.
#ifndef OPFORGE_TWIN_HOST_ATTRIBUTE_H
#define OPFORGE_TWIN_HOST_ATTRIBUTE_H

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace opforge::twin::host {

enum class AttributeType {
    kInt,
    kFloat,
    kBool,
    kString,
    kListInt,
    kListFloat,
    kListBool,
    kListListInt,
};

/// The alternatives have the same order as AttributeType.
using AttributeValue = std::variant<int64_t, float, bool, std::string, std::vector<int64_t>, std::vector<float>,
                                    std::vector<bool>, std::vector<std::vector<int64_t>>>;

inline AttributeType TypeOf(const AttributeValue& value)
{
    return static_cast<AttributeType>(value.index());
}

/// Returns the name for messages: "int", "list of int", ...
const char* NameOf(AttributeType type);

/// Returns 0, "" or an empty list: the value of an optional attribute without a default.
AttributeValue ZeroOf(AttributeType type);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ATTRIBUTE_H
