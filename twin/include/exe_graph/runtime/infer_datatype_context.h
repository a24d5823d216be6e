// The context of a dtype inference function.
#ifndef EXE_GRAPH_RUNTIME_INFER_DATATYPE_CONTEXT_H
#define EXE_GRAPH_RUNTIME_INFER_DATATYPE_CONTEXT_H

#include <cstddef>

#include "exe_graph/runtime/extended_kernel_context.h"
#include "graph/types.h"

namespace gert {
/// Getters return DT_UNDEFINED if the instance does not exist.
class InferDataTypeContext : public ExtendedKernelContext {
public:
    ge::DataType GetInputDataType(const size_t index) const;
    ge::DataType GetOptionalInputDataType(const size_t ir_index) const;
    ge::DataType GetDynamicInputDataType(const size_t ir_index, const size_t relative_index) const;
    ge::DataType GetRequiredInputDataType(const size_t ir_index) const;
    ge::DataType GetOutputDataType(const size_t index) const;
    ge::graphStatus SetOutputDataType(const size_t index, const ge::DataType datatype);

private:
    friend struct opforge::twin::host::Access;

    explicit InferDataTypeContext(opforge::twin::host::OperatorCall& call) : ExtendedKernelContext(call) {}
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_INFER_DATATYPE_CONTEXT_H
