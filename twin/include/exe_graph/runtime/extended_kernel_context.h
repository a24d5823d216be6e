// Inputs, outputs and attributes of a call, by instance index and by IR index.
#ifndef EXE_GRAPH_RUNTIME_EXTENDED_KERNEL_CONTEXT_H
#define EXE_GRAPH_RUNTIME_EXTENDED_KERNEL_CONTEXT_H

#include <cstddef>

#include "exe_graph/runtime/compute_node_info.h"
#include "exe_graph/runtime/kernel_context.h"
#include "exe_graph/runtime/runtime_attrs.h"
#include "graph/types.h"

namespace gert {
/// `index` counts the existing instances, so an absent optional input shifts all later ones. `ir_index` counts the
/// parameters of the IR. Getters return null if the instance does not exist.
class ExtendedKernelContext : public KernelContext {
public:
    const CompileTimeTensorDesc* GetInputDesc(const size_t index) const;
    const CompileTimeTensorDesc* GetOptionalInputDesc(const size_t ir_index) const;
    const CompileTimeTensorDesc* GetRequiredInputDesc(const size_t ir_index) const;
    const CompileTimeTensorDesc* GetDynamicInputDesc(const size_t ir_index, const size_t relative_index) const;
    const CompileTimeTensorDesc* GetOutputDesc(const size_t index) const;
    const AnchorInstanceInfo* GetIrInputInstanceInfo(const size_t ir_index) const;
    const AnchorInstanceInfo* GetIrOutputInstanceInfo(const size_t ir_index) const;
    size_t GetComputeNodeInputNum() const;
    size_t GetComputeNodeOutputNum() const;
    const RuntimeAttrs* GetAttrs() const;
    const ge::char_t* GetNodeType() const;
    const ge::char_t* GetNodeName() const;
    const ge::char_t* GetKernelName() const;
    const ge::char_t* GetKernelType() const;

protected:
    explicit ExtendedKernelContext(opforge::twin::host::OperatorCall& call) : KernelContext(call) {}
    ~ExtendedKernelContext() = default;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_EXTENDED_KERNEL_CONTEXT_H
