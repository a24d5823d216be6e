// The context of a shape range inference function.
#ifndef EXE_GRAPH_RUNTIME_INFER_SHAPE_RANGE_CONTEXT_H
#define EXE_GRAPH_RUNTIME_INFER_SHAPE_RANGE_CONTEXT_H

#include <cstddef>

#include "exe_graph/runtime/extended_kernel_context.h"
#include "exe_graph/runtime/range.h"
#include "exe_graph/runtime/shape.h"
#include "exe_graph/runtime/tensor.h"
#include "graph/types.h"

namespace gert {
using TensorRange = Range<Tensor>;

/// A dim of -1 in an upper shape has no limit. Getters return null if the instance does not exist.
class InferShapeRangeContext : public ExtendedKernelContext {
public:
    const Range<Shape>* GetInputShapeRange(const size_t index) const;
    const TensorRange* GetInputTensorRange(const size_t index) const;
    const TensorRange* GetOptionalInputTensorRange(const size_t ir_index) const;
    const Range<Shape>* GetRequiredInputShapeRange(const size_t ir_index) const;
    const TensorRange* GetRequiredInputTensorRange(const size_t ir_index) const;
    const TensorRange* GetDynamicInputTensorRange(const size_t ir_index, const size_t relative_index) const;
    const Range<Shape>* GetOptionalInputShapeRange(const size_t ir_index) const;
    const Range<Shape>* GetDynamicInputShapeRange(const size_t ir_index, const size_t relative_index) const;
    /// Both ends exist without dims: fill them, or set pointers to other shapes.
    Range<Shape>* GetOutputShapeRange(const size_t index);

private:
    friend struct opforge::twin::host::Access;

    explicit InferShapeRangeContext(opforge::twin::host::OperatorCall& call) : ExtendedKernelContext(call) {}
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_INFER_SHAPE_RANGE_CONTEXT_H
