// The common base class of the contexts of operator host functions.
#ifndef EXE_GRAPH_RUNTIME_KERNEL_CONTEXT_H
#define EXE_GRAPH_RUNTIME_KERNEL_CONTEXT_H

namespace opforge::twin::host {
struct Access;
struct OperatorCall;
}  // namespace opforge::twin::host

namespace gert {
/// Only the runtime creates a context. It is valid during the call of the host function.
class KernelContext {
public:
    KernelContext(const KernelContext&) = delete;
    KernelContext& operator=(const KernelContext&) = delete;

protected:
    explicit KernelContext(opforge::twin::host::OperatorCall& call) : call_(call) {}
    ~KernelContext() = default;

    opforge::twin::host::OperatorCall& call_;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_KERNEL_CONTEXT_H
