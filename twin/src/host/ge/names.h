// Words for dtypes and shapes: in messages, file names and JSON.
#ifndef OPFORGE_TWIN_HOST_GE_NAMES_H
#define OPFORGE_TWIN_HOST_GE_NAMES_H

#include <cstdint>
#include <string>
#include <vector>

#include "exe_graph/runtime/shape.h"
#include "graph/types.h"

namespace opforge::twin::host {

/// float16, bfloat16, int32, ...
std::string DtypeName(ge::DataType dtype);

/// [2, 3].
std::string DimsText(const std::vector<int64_t>& dims);
std::string DimsText(const gert::Shape& shape);

std::vector<int64_t> DimsOf(const gert::Shape& shape);
gert::Shape ShapeOf(const int64_t* dims, size_t count);

/// ScaledAdd -> scaled_add, as op_build names kernels: a capital starts a word after anything but a
/// capital, and after a capital when a small letter follows.
std::string SnakeCase(const std::string& opType);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_GE_NAMES_H
