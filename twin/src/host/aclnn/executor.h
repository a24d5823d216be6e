// The parts of an executor: objects, workspace plan and tasks.
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

/// A tensor of the call, captured when a task was added.
struct View {
    std::shared_ptr<aclStorage> storage;
    std::string name;  ///< used in messages
    std::vector<int64_t> dims;
    std::vector<int64_t> strides;
    int64_t offset = 0;  ///< in elements
    ge::DataType dtype = ge::DT_UNDEFINED;

    int64_t Elements() const;
    uint64_t ItemBytes() const;
    /// Bytes from the start of the first element to the end of the last one.
    uint64_t ExtentBytes() const;
    /// Whether several elements share or may share one address. A write to such a view loses values.
    bool SharesElements() const;
};

View ViewOf(const aclTensor& tensor, std::string name);

/// A view with a known address. Views have addresses after the launch receives the workspace.
struct PlacedView {
    View view;
    void* address = nullptr;  ///< address of the first element; host memory for host tensors
};

/// One step of the call.
class PlannedTask {
public:
    virtual ~PlannedTask() = default;

    /// The workspace storage that the task itself needs, or null.
    virtual std::shared_ptr<aclStorage> Scratch() const { return nullptr; }
    virtual std::vector<View> Views() const = 0;
    /// Creates the work with all addresses.
    virtual Task Place(const std::vector<PlacedView>& views, void* scratch) const = 0;
};

struct ExecutorState {
    std::mutex lock;  ///< only one launch at a time
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
    /// Assigns an offset to every slot; returns the workspace size in bytes.
    uint64_t Plan();
};

/// Appends a task; the executor must not be null.
void AddTask(aclOpExecutor& executor, std::unique_ptr<PlannedTask> task);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_EXECUTOR_H
