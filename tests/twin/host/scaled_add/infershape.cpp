#include <cstring>

#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "register/op_impl_registry.h"

namespace {

ge::graphStatus InferShape(gert::InferShapeContext* context)
{
    const gert::Shape* x = context->GetRequiredInputShape(0);
    const gert::Shape* bias = context->GetOptionalInputShape(1);
    const char* mode = context->GetAttrs()->GetStr(1);
    if (std::strcmp(mode, "unknown result") == 0) {
        *context->GetOutputShape(0) = gert::Shape{-1};
        return ge::GRAPH_SUCCESS;
    }
    const bool hasRank = !(x->GetDimNum() == 1 && x->GetDim(0) == ge::UNKNOWN_DIM_NUM);
    if (bias != nullptr && hasRank && bias->GetDim(0) >= 0 && x->GetDim(1) >= 0 && bias->GetDim(0) != x->GetDim(1)) {
        return ge::GRAPH_FAILED;
    }
    *context->GetOutputShape(0) = *x;
    return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext* context)
{
    return context->SetOutputDataType(0, context->GetRequiredInputDataType(0));
}

IMPL_OP_INFERSHAPE(ScaledAdd).InferShape(InferShape).InferDataType(InferDataType);

}  // namespace
