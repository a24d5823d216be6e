#include "graph/operator_reg.h"
#include "graph/types.h"

namespace ge {

REG_OP(ScaledAdd)
    .INPUT(x, TensorType({DT_FLOAT, DT_FLOAT16}))
    .OPTIONAL_INPUT(bias, "T")
    .OPTIONAL_INPUT(limit, TensorType({DT_INT64}))
    .OUTPUT(out, "T")
    .REQUIRED_ATTR(factor, Float)
    .ATTR(mode, String, "plain")
    .ATTR(axes, ListInt, {1, 2})
    .DATATYPE(T, TensorType({DT_FLOAT, DT_FLOAT16}))
    .OP_END_FACTORY_REG(ScaledAdd)

}  // namespace ge
