// Inside an executor: its objects, its workspace plan, its tasks.
#ifndef OPFORGE_TWIN_HOST_ACLNN_EXECUTOR_H
#define OPFORGE_TWIN_HOST_ACLNN_EXECUTOR_H

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "host/acl/stream.h"
#include "opdev/common_types.h"
#include "opdev/op_executor.h"

namespace opforge::twin::host {

/// A tensor of the call as it was when a task was added.
struct View {
    std::shared_ptr<aclStorage> storage;
    std::string name;  ///< for messages
    std::vector<int64_t> dims;
    std::vector<int64_t> strides;
    int64_t offset = 0;  ///< in elements
    ge::DataType dtype = ge::DT_UNDEFINED;

    int64_t Elements() const;
    uint64_t ItemBytes() const;
    /// Bytes from the first element to behind the last one.
    uint64_t ExtentBytes() const;
    /// Whether several elements lie in one place, or may do so: what is written to such a view is lost.
    bool SharesElements() const;
};

View ViewOf(const aclTensor& tensor, std::string name);

/// A view whose place is known: the second phase has the workspace.
struct PlacedView {
    View view;
    void* address = nullptr;  ///< of the first element; on the host for host tensors
};

/// A step of the call.
class PlannedTask {
public:
    virtual ~PlannedTask() = default;

    /// Storage that the task itself needs in the workspace, or null.
    virtual std::shared_ptr<aclStorage> Scratch() const { return nullptr; }
    virtual std::vector<View> Views() const = 0;
    /// The work, with all addresses filled in.
    virtual Task Place(const std::vector<PlacedView>& views, void* scratch) const = 0;
};

struct ExecutorState {
    std::mutex lock;  ///< one second phase at a time
    std::string function;
    std::vector<const aclTensor*> inputs;
    std::vector<const aclTensor*> outputs;
    std::vector<std::shared_ptr<aclStorage>> userStorages;
    std::vector<std::unique_ptr<aclTensor>> tensors;
    std::vector<std::unique_ptr<aclTensorList>> lists;
    std::vector<std::unique_ptr<aclScalarList>> scalarLists;
    std::vector<std::unique_ptr<aclScalar>> scalars;
    std::vector<
        std::variant<std::unique_ptr<aclIntArray>, std::unique_ptr<aclFloatArray>, std::unique_ptr<aclBoolArray>>>
        arrays;
    std::vector<std::unique_ptr<PlannedTask>> tasks;
    bool repeatable = false;

    aclTensor* Keep(std::unique_ptr<aclTensor> tensor);
    /// Gives every slot its place; returns the bytes of the workspace.
    uint64_t Plan();
};

/// Appends a task; the executor must not be null.
void AddTask(aclOpExecutor& executor, std::unique_ptr<PlannedTask> task);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_EXECUTOR_H
