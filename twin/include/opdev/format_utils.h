// Questions about memory formats.
#ifndef OPDEV_FORMAT_UTILS_H
#define OPDEV_FORMAT_UTILS_H

#include "opdev/common_types.h"

namespace op {
/// Formats in which only the device lays tensors out.
bool IsPrivateFormat(Format format);
}  // namespace op

#endif  // OPDEV_FORMAT_UTILS_H
