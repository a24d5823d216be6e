// Queries about element types, and their names in messages.
#ifndef OPDEV_DATA_TYPE_UTILS_H
#define OPDEV_DATA_TYPE_UTILS_H

#include <cstddef>
#include <initializer_list>
#include <string>

#include "graph/ascend_string.h"
#include "opdev/common_types.h"

namespace op {
ge::AscendString ToString(op::DataType dataType);
ge::AscendString ToString(const std::initializer_list<DataType>& dataTypes);
ge::AscendString ToString(const op::Shape& shape);
ge::AscendString ToString(const op::Strides& strides);
ge::AscendString ToString(Format format);
ge::AscendString ToString(const std::string& str);

/// Returns the bytes of one element; 0 for types without a whole number of bytes.
size_t TypeSize(DataType dataType);
bool CheckType(const DataType dtype, const std::initializer_list<DataType>& valid_types);
bool IsFloatingType(const ge::DataType type);
bool IsIntegralType(const ge::DataType type);
bool IsIntegralType(const ge::DataType type, const bool include_bool);
DataType ToOpDataType(aclDataType type);
aclDataType ToAclDataType(DataType type);
}  // namespace op

#endif  // OPDEV_DATA_TYPE_UTILS_H
