// Creation of an executor in the first phase and its execution in the second phase.
#ifndef OPDEV_MAKE_OP_EXECUTOR_H
#define OPDEV_MAKE_OP_EXECUTOR_H

#include "opdev/op_arg_def.h"
#include "opdev/op_def.h"
#include "opdev/op_dfx.h"
#include "opdev/op_executor.h"
#include "opdev/op_log.h"

/// Owns an executor until it is returned to the caller of the first phase.
class UniqueExecutor : public op::Object {
public:
    explicit UniqueExecutor(const char* funcName);
    ~UniqueExecutor();
    UniqueExecutor(const UniqueExecutor&) = delete;
    UniqueExecutor& operator=(const UniqueExecutor&) = delete;

    aclOpExecutor* get() const { return executor_; }
    void ReleaseTo(aclOpExecutor** executor);
    aclOpExecutor* operator->() { return executor_; }

private:
    aclOpExecutor* executor_;
};

/// Queues the tasks of the executor on the stream. Destroys the executor if it is not repeatable.
aclnnStatus CommonOpExecutorRun(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

#define CREATE_EXECUTOR() UniqueExecutor(__func__)

#define INFER_SHAPE(KERNEL_NAME, op_args, ...) \
    opforge::twin::host::InferShape(((void)KERNEL_NAME##OpTypeId(), #KERNEL_NAME), {op_args, ##__VA_ARGS__})

// Requires a variable named `executor` in the calling function.
#define ADD_TO_LAUNCHER_LIST_AICORE(KERNEL_NAME, op_args, ...)                                  \
    opforge::twin::host::AddAicoreTask(executor, ((void)KERNEL_NAME##OpTypeId(), #KERNEL_NAME), \
                                       {op_args, ##__VA_ARGS__})

#endif  // OPDEV_MAKE_OP_EXECUTOR_H
