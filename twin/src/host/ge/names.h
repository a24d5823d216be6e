// Names of dtypes and shapes for messages, file names and JSON.
#ifndef OPFORGE_TWIN_HOST_GE_NAMES_H
#define OPFORGE_TWIN_HOST_GE_NAMES_H

#include <cstdint>
#include <string>
#include <vector>

#include "exe_graph/runtime/shape.h"
#include "graph/types.h"

namespace opforge::twin::host {

/// Returns float16, bfloat16, int32, ...
std::string DtypeName(ge::DataType dtype);

/// Returns the form [2, 3].
std::string DimsText(const std::vector<int64_t>& dims);
std::string DimsText(const gert::Shape& shape);

std::vector<int64_t> DimsOf(const gert::Shape& shape);
gert::Shape ShapeOf(const int64_t* dims, size_t count);

/// Converts ScaledAdd to scaled_add, as op_build names kernels. A capital starts a word if the previous letter is not a
/// capital or the next letter is lowercase.
std::string SnakeCase(const std::string& opType);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_GE_NAMES_H
