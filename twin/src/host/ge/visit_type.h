// The C++ types of element types on the host.
#ifndef OPFORGE_TWIN_HOST_GE_VISIT_TYPE_H
#define OPFORGE_TWIN_HOST_GE_VISIT_TYPE_H

#include <cstdint>

#include "graph/types.h"
#include "opdev/bfloat16.h"
#include "opdev/fp16_t.h"

namespace opforge::twin::host {

/// Calls `use` with a zero of the C++ type of an element type; false if C++ has no such type.
template <typename Use>
bool VisitType(ge::DataType dtype, const Use& use)
{
    using half = op::fp16_t;
    using bfloat16_t = op::bfloat16;
    switch (dtype) {
#define OPFORGE_VALUE_TYPE(dtype, type) \
    case ge::dtype:                     \
        use(type{});                    \
        return true;
#include "value_type_table.inc"
#undef OPFORGE_VALUE_TYPE
        default:
            return false;
    }
}

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_GE_VISIT_TYPE_H
