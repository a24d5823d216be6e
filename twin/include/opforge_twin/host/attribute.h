// Attribute types of operators and their values, as host code of operators reads them.
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

/// The alternatives stand in the order of AttributeType.
using AttributeValue = std::variant<int64_t, float, bool, std::string, std::vector<int64_t>, std::vector<float>,
                                    std::vector<bool>, std::vector<std::vector<int64_t>>>;

inline AttributeType TypeOf(const AttributeValue& value)
{
    return static_cast<AttributeType>(value.index());
}

/// "int", "list of int", ...: the word for messages.
const char* NameOf(AttributeType type);

/// 0, "", an empty list: what an optional attribute without a default has.
AttributeValue ZeroOf(AttributeType type);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ATTRIBUTE_H
