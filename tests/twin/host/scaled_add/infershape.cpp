#include <cstring>

#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "exe_graph/runtime/infer_shape_range_context.h"
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

/// Sets the output rows to at least one less than those of x and at most the same number, as if rows could be dropped.
ge::graphStatus InferShapeRange(gert::InferShapeRangeContext* context)
{
    const gert::Range<gert::Shape>* x = context->GetRequiredInputShapeRange(0);
    gert::Range<gert::Shape>* out = context->GetOutputShapeRange(0);
    if (context->GetOptionalInputTensorRange(2) != nullptr || context->GetInputShapeRange(1) != nullptr ||
        context->GetOutputShapeRange(1) != nullptr) {
        return ge::GRAPH_FAILED;
    }
    *out->GetMin() = *x->GetMin();
    out->GetMin()->SetDim(0, x->GetMin()->GetDim(0) - 1);
    out->SetMax(const_cast<gert::Shape*>(x->GetMax()));
    return ge::GRAPH_SUCCESS;
}

IMPL_OP_INFERSHAPE(ScaledAdd).InferShape(InferShape).InferShapeRange(InferShapeRange).InferDataType(InferDataType);

}  // namespace
