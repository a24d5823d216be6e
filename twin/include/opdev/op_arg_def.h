// The argument roles of a level 0 call, in IR order. nullptr is an absent optional argument.
#ifndef OPDEV_OP_ARG_DEF_H
#define OPDEV_OP_ARG_DEF_H

#include "opforge_twin/host/op_argument.h"

#define OP_INPUT(x, ...) opforge::twin::host::Group(opforge::twin::host::ArgumentRole::kInput, x, ##__VA_ARGS__)
#define OP_OUTPUT(x, ...) opforge::twin::host::Group(opforge::twin::host::ArgumentRole::kOutput, x, ##__VA_ARGS__)
#define OP_ATTR(x, ...) opforge::twin::host::Group(opforge::twin::host::ArgumentRole::kAttribute, x, ##__VA_ARGS__)

#endif  // OPDEV_OP_ARG_DEF_H
