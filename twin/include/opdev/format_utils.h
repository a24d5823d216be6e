// Queries about memory formats.
#ifndef OPDEV_FORMAT_UTILS_H
#define OPDEV_FORMAT_UTILS_H

#include "opdev/common_types.h"

namespace op {
/// Whether the format is a device-specific layout.
bool IsPrivateFormat(Format format);
}  // namespace op

#endif  // OPDEV_FORMAT_UTILS_H
