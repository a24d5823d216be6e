// The context of a shape inference function.
#ifndef EXE_GRAPH_RUNTIME_INFER_SHAPE_CONTEXT_H
#define EXE_GRAPH_RUNTIME_INFER_SHAPE_CONTEXT_H

#include <cstddef>

#include "exe_graph/runtime/extended_kernel_context.h"
#include "exe_graph/runtime/shape.h"
#include "exe_graph/runtime/tensor.h"
#include "graph/types.h"

namespace gert {
class InferShapeContext : public ExtendedKernelContext {
public:
    const Shape* GetInputShape(const size_t index) const;
    const Tensor* GetInputTensor(const size_t index) const;
    const Tensor* GetOptionalInputTensor(const size_t ir_index) const;
    const Shape* GetOptionalInputShape(const size_t ir_index) const;
    const Shape* GetDynamicInputShape(const size_t ir_index, const size_t relative_index) const;
    const Tensor* GetDynamicInputTensor(const size_t ir_index, const size_t relative_index) const;
    const Tensor* GetRequiredInputTensor(const size_t ir_index) const;
    const Shape* GetRequiredInputShape(const size_t ir_index) const;
    Shape* GetOutputShape(const size_t index);

private:
    friend struct opforge::twin::host::Access;

    explicit InferShapeContext(opforge::twin::host::OperatorCall& call) : ExtendedKernelContext(call) {}
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_INFER_SHAPE_CONTEXT_H
