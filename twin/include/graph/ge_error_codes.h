// Status codes of graph functions.
#ifndef GRAPH_GE_ERROR_CODES_H
#define GRAPH_GE_ERROR_CODES_H

#include <cstdint>

namespace ge {
using graphStatus = uint32_t;

constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
constexpr graphStatus GRAPH_NOT_CHANGED = 1343242304;
constexpr graphStatus GRAPH_PARAM_INVALID = 50331649;
}  // namespace ge

#endif  // GRAPH_GE_ERROR_CODES_H
