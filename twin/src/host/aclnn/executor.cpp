#include "host/aclnn/executor.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "opforge_twin/arithmetic.h"
#include "host/gert/access.h"
#include "host/acl/device_memory.h"
#include "host/acl/errors.h"
#include "host/acl/handle_table.h"
#include "host/gert/host_values.h"
#include "host/ge/names.h"
#include "host/acl/process.h"
#include "kernel/exec/text.h"
#include "opdev/make_op_executor.h"
#include "opdev/data_type_utils.h"
#include "opforge_twin/host/api_scope.h"

namespace opforge::twin::host {

namespace {

using kernel::Text;

/// Slots start at this alignment, and the same number of bytes stays free after each slot. A short overrun therefore
/// does not change the next slot.
constexpr uint64_t kSlotAlignment = 512;

/// The aclnn function that this thread executes, for the executor that it creates.
struct CurrentApi {
    const char* function = "";
    Handles inputs;
    Handles outputs;
};

thread_local CurrentApi api;

/// Returns the reason why the kernel cannot start; "" if it can.
std::string WorkspaceProblem(const void* workspace, uint64_t given, uint64_t needed)
{
    if (needed == 0) {
        return {};
    }
    if (workspace == nullptr) {
        return Text("workspace is null, expected ", needed, " bytes, the result of GetWorkspaceSize");
    }
    if (given < needed) {
        return Text("workspaceSize is ", given, " bytes, expected ", needed, ", the result of GetWorkspaceSize");
    }
    DeviceSpan span;
    std::string problem;
    return DeviceMemory::Instance().Resolve(workspace, needed, span, problem) ? "" : Text("workspace: ", problem);
}

bool PlaceView(const View& view, void* workspace, PlacedView& placed, std::string& problem)
{
    const aclStorage& storage = *view.storage;
    auto* base = static_cast<uint8_t*>(storage.fromWorkspace ? workspace : storage.address);
    if (base == nullptr && view.Elements() != 0) {
        problem = Text(view.name, " has ", view.Elements(), " elements but no memory");
        return false;
    }
    const uint64_t start = storage.fromWorkspace ? storage.workspaceOffset : 0;
    placed.view = view;
    placed.address = base == nullptr ? nullptr : base + start + view.offset * static_cast<int64_t>(view.ItemBytes());
    return true;
}

bool PlaceTasks(const ExecutorState& state, void* workspace, std::vector<Task>& tasks, std::string& problem)
{
    for (const auto& planned : state.tasks) {
        std::vector<PlacedView> views;
        for (const View& view : planned->Views()) {
            if (!PlaceView(view, workspace, views.emplace_back(), problem)) {
                return false;
            }
        }
        const std::shared_ptr<aclStorage> scratch = planned->Scratch();
        void* const place = scratch == nullptr ? nullptr : static_cast<uint8_t*>(workspace) + scratch->workspaceOffset;
        tasks.push_back(planned->Place(views, place));
    }
    return true;
}

/// Returns null and sets a message for a dtype that host values do not support.
template <typename T>
aclTensor* HostTensor(ExecutorState& state, const T* value, uint64_t size, op::DataType dataType, bool isScalar = false)
{
    std::vector<uint8_t> bytes = HostBytes(value, size, dataType);
    if (bytes.empty() && size != 0) {
        AddError(Text("values on the host cannot become ", DtypeName(dataType)));
        return nullptr;
    }
    auto storage = std::make_shared<aclStorage>();
    storage->host = std::move(bytes);
    storage->address = storage->host.data();
    storage->onHost = true;
    op::Shape shape;
    if (!isScalar) {
        shape.AppendDim(static_cast<int64_t>(size));
    }
    return state.Keep(std::make_unique<aclTensor>(shape, dataType, ge::FORMAT_ND, std::move(storage)));
}

template <typename T>
aclScalar* KeepScalar(ExecutorState& state, const T& value, op::DataType dataType)
{
    return state.scalars.emplace_back(std::make_unique<aclScalar>(&value, dataType)).get();
}

}  // namespace

int64_t View::Elements() const
{
    int64_t elements = 1;
    for (const int64_t dim : dims) {
        elements *= dim;
    }
    return elements;
}

uint64_t View::ItemBytes() const
{
    return op::TypeSize(dtype);
}

uint64_t View::ExtentBytes() const
{
    if (Elements() == 0) {
        return 0;
    }
    int64_t last = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
        last += (dims[i] - 1) * strides[i];
    }
    return static_cast<uint64_t>(last + 1) * ItemBytes();
}

bool View::SharesElements() const
{
    std::vector<std::pair<int64_t, int64_t>> axes;  // pairs of stride and dim
    for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] > 1) {
            axes.emplace_back(strides[i], dims[i]);
        }
    }
    std::sort(axes.begin(), axes.end());
    int64_t reach = 1;
    for (const auto& [stride, dim] : axes) {
        if (stride < reach) {
            return Elements() != 0;
        }
        reach += stride * (dim - 1);
    }
    return false;
}

View ViewOf(const aclTensor& tensor, std::string name)
{
    View view;
    view.storage = Access::Storage(tensor);
    view.name = std::move(name);
    view.dims = DimsOf(tensor.GetViewShape());
    view.strides = tensor.GetViewStrides();
    view.offset = tensor.GetViewOffset() + tensor.GetStorageOffset();
    view.dtype = tensor.GetDataType();
    return view;
}

aclTensor* ExecutorState::Keep(std::unique_ptr<aclTensor> tensor)
{
    return tensors.emplace_back(std::move(tensor)).get();
}

uint64_t ExecutorState::Plan()
{
    for (const auto& tensor : tensors) {
        aclStorage& storage = *Access::Storage(*tensor);
        const View view = ViewOf(*tensor, "");
        if (storage.fromWorkspace) {
            storage.bytes =
                std::max(storage.bytes, static_cast<uint64_t>(view.offset) * view.ItemBytes() + view.ExtentBytes());
        }
    }
    uint64_t end = 0;
    std::vector<const aclStorage*> placed;
    const auto place = [&](aclStorage* storage) {
        const bool isNew = std::find(placed.begin(), placed.end(), storage) == placed.end();
        if (storage != nullptr && storage->fromWorkspace && storage->bytes != 0 && isNew) {
            placed.push_back(storage);
            storage->workspaceOffset = end;
            end += RoundUp(storage->bytes, kSlotAlignment) + kSlotAlignment;
        }
    };
    for (const auto& tensor : tensors) {
        place(Access::Storage(*tensor).get());
    }
    for (const auto& task : tasks) {
        place(task->Scratch().get());
    }
    return end;
}

void AddTask(aclOpExecutor& executor, std::unique_ptr<PlannedTask> task)
{
    Access::State(executor)->tasks.push_back(std::move(task));
}

template <typename T>
bool Handles::Hold(const T* object)
{
    if (object == nullptr) {
        return false;
    }
    std::shared_ptr<const void> held = HandleTable<T>::Instance().Share(object);
    if (held == nullptr) {
        dead_.push_back(count_);
        return false;
    }
    held_.push_back(std::move(held));
    return true;
}

void Handles::Add(const aclTensor* tensor)
{
    tensors_.push_back(tensor);
    Hold(tensor);
}

void Handles::Add(const aclTensorList* list)
{
    for (uint64_t i = 0; Hold(list) && i < list->Size(); ++i) {
        Add((*list)[i]);
    }
}

void Handles::Add(const aclScalar* scalar)
{
    Hold(scalar);
}

void Handles::Add(const aclScalarList* list)
{
    for (uint64_t i = 0; Hold(list) && i < list->Size(); ++i) {
        Hold((*list)[i]);
    }
}

void Handles::Add(const aclIntArray* array)
{
    Hold(array);
}
void Handles::Add(const aclFloatArray* array)
{
    Hold(array);
}
void Handles::Add(const aclBoolArray* array)
{
    Hold(array);
}

aclnnStatus BeginPlanning(const char* function, Handles inputs, Handles outputs)
{
    ClearErrors();
    api = {function, std::move(inputs), std::move(outputs)};
    const bool isInput = !api.inputs.Dead().empty();
    if (!isInput && api.outputs.Dead().empty()) {
        return ACLNN_SUCCESS;
    }
    const size_t position = isInput ? api.inputs.Dead().front() : api.inputs.Count() + api.outputs.Dead().front();
    return Fail(ACLNN_ERR_PARAM_INVALID,
                Text(function, "GetWorkspaceSize: parameter ", position,
                     " (from 0), or a member of it, was destroyed or never created; expected a live object or null"));
}

void BeginLaunch(const char* function)
{
    ClearErrors();
    api = {function, {}, {}};
}

}  // namespace opforge::twin::host

using namespace opforge::twin::host;  // NOLINT: definitions of the public classes follow
using opforge::twin::kernel::Text;

aclOpExecutor::aclOpExecutor() : state_(std::make_unique<ExecutorState>())
{
    state_->function = api.function;
    state_->inputs = api.inputs.Tensors();
    state_->outputs = api.outputs.Tensors();
    for (const Handles* handles : {&api.inputs, &api.outputs}) {
        for (const aclTensor* tensor : handles->Tensors()) {
            if (tensor != nullptr) {
                state_->userStorages.push_back(Access::Storage(*tensor));
            }
        }
    }
}

aclOpExecutor::~aclOpExecutor() = default;

aclTensor* aclOpExecutor::AllocTensor(const op::Shape& shape, op::DataType dataType, op::Format format)
{
    auto storage = std::make_shared<aclStorage>();
    storage->fromWorkspace = true;
    return state_->Keep(std::make_unique<aclTensor>(shape, dataType, format, std::move(storage)));
}

aclTensor* aclOpExecutor::AllocTensor(const op::Shape& storageShape, const op::Shape& originShape,
                                      op::DataType dataType, op::Format storageFormat, op::Format originFormat)
{
    aclTensor* const tensor = AllocTensor(originShape, dataType, originFormat);
    tensor->SetStorageShape(storageShape);
    tensor->SetStorageFormat(storageFormat);
    return tensor;
}

aclTensor* aclOpExecutor::AllocTensor(op::DataType dataType, op::Format storageFormat, op::Format originFormat)
{
    return AllocTensor(op::Shape{0}, op::Shape{0}, dataType, storageFormat, originFormat);
}

aclTensor* aclOpExecutor::AllocHostTensor(const op::Shape& shape, op::DataType datatype, op::Format format)
{
    auto storage = std::make_shared<aclStorage>();
    storage->host.resize(static_cast<size_t>(std::max<int64_t>(shape.GetShapeSize(), 0)) * op::TypeSize(datatype));
    storage->address = storage->host.data();
    storage->onHost = true;
    return state_->Keep(std::make_unique<aclTensor>(shape, datatype, format, std::move(storage)));
}

aclTensor* aclOpExecutor::AllocHostTensor(const op::Shape& storageShape, const op::Shape& originShape,
                                          op::DataType dataType, op::Format storageFormat, op::Format originFormat)
{
    aclTensor* const tensor = AllocHostTensor(originShape, dataType, originFormat);
    tensor->SetStorageShape(storageShape);
    tensor->SetStorageFormat(storageFormat);
    return tensor;
}

#define OPFORGE_ALLOC_HOST_TENSOR(Type)                                                                \
    aclTensor* aclOpExecutor::AllocHostTensor(const Type* value, uint64_t size, op::DataType dataType) \
    {                                                                                                  \
        return HostTensor(*state_, value, size, dataType);                                             \
    }
OPFORGE_ALLOC_HOST_TENSOR(int64_t)
OPFORGE_ALLOC_HOST_TENSOR(uint64_t)
OPFORGE_ALLOC_HOST_TENSOR(bool)
OPFORGE_ALLOC_HOST_TENSOR(char)
OPFORGE_ALLOC_HOST_TENSOR(int32_t)
OPFORGE_ALLOC_HOST_TENSOR(uint32_t)
OPFORGE_ALLOC_HOST_TENSOR(int16_t)
OPFORGE_ALLOC_HOST_TENSOR(uint16_t)
OPFORGE_ALLOC_HOST_TENSOR(int8_t)
OPFORGE_ALLOC_HOST_TENSOR(uint8_t)
OPFORGE_ALLOC_HOST_TENSOR(double)
OPFORGE_ALLOC_HOST_TENSOR(float)
OPFORGE_ALLOC_HOST_TENSOR(op::fp16_t)
OPFORGE_ALLOC_HOST_TENSOR(op::bfloat16)
#undef OPFORGE_ALLOC_HOST_TENSOR

aclTensor* aclOpExecutor::CreateView(const aclTensor* tensor, const op::Shape& shape, int64_t offset)
{
    if (tensor == nullptr) {
        AddError("CreateView: tensor is null");
        return nullptr;
    }
    auto view =
        std::make_unique<aclTensor>(shape, tensor->GetDataType(), tensor->GetViewFormat(), Access::Storage(*tensor));
    view->SetStorageFormat(tensor->GetStorageFormat());
    view->SetOriginalFormat(tensor->GetOriginalFormat());
    view->SetViewOffset(offset);
    return state_->Keep(std::move(view));
}

aclIntArray* aclOpExecutor::AllocIntArray(const int64_t* value, uint64_t size)
{
    return std::get<0>(state_->arrays.emplace_back(std::make_unique<aclIntArray>(value, size))).get();
}

aclFloatArray* aclOpExecutor::AllocFloatArray(const float* value, uint64_t size)
{
    return std::get<1>(state_->arrays.emplace_back(std::make_unique<aclFloatArray>(value, size))).get();
}

aclBoolArray* aclOpExecutor::AllocBoolArray(const bool* value, uint64_t size)
{
    return std::get<2>(state_->arrays.emplace_back(std::make_unique<aclBoolArray>(value, size))).get();
}

aclTensorList* aclOpExecutor::AllocTensorList(const aclTensor* const* tensors, uint64_t size)
{
    return state_->lists.emplace_back(std::make_unique<aclTensorList>(tensors, size)).get();
}

aclScalarList* aclOpExecutor::AllocScalarList(const aclScalar* const* scalars, uint64_t size)
{
    return state_->scalarLists.emplace_back(std::make_unique<aclScalarList>(scalars, size)).get();
}

aclScalar* aclOpExecutor::AllocScalar(const void* data, op::DataType dataType)
{
    return state_->scalars.emplace_back(std::make_unique<aclScalar>(data, dataType)).get();
}

aclScalar* aclOpExecutor::AllocScalar(float value)
{
    return KeepScalar(*state_, value, ge::DT_FLOAT);
}
aclScalar* aclOpExecutor::AllocScalar(double value)
{
    return KeepScalar(*state_, value, ge::DT_DOUBLE);
}
aclScalar* aclOpExecutor::AllocScalar(op::fp16_t value)
{
    return KeepScalar(*state_, value, ge::DT_FLOAT16);
}
aclScalar* aclOpExecutor::AllocScalar(op::bfloat16 value)
{
    return KeepScalar(*state_, value, ge::DT_BF16);
}
aclScalar* aclOpExecutor::AllocScalar(int32_t value)
{
    return KeepScalar(*state_, value, ge::DT_INT32);
}
aclScalar* aclOpExecutor::AllocScalar(int64_t value)
{
    return KeepScalar(*state_, value, ge::DT_INT64);
}
aclScalar* aclOpExecutor::AllocScalar(int16_t value)
{
    return KeepScalar(*state_, value, ge::DT_INT16);
}
aclScalar* aclOpExecutor::AllocScalar(int8_t value)
{
    return KeepScalar(*state_, value, ge::DT_INT8);
}
aclScalar* aclOpExecutor::AllocScalar(uint32_t value)
{
    return KeepScalar(*state_, value, ge::DT_UINT32);
}
aclScalar* aclOpExecutor::AllocScalar(uint64_t value)
{
    return KeepScalar(*state_, value, ge::DT_UINT64);
}
aclScalar* aclOpExecutor::AllocScalar(uint16_t value)
{
    return KeepScalar(*state_, value, ge::DT_UINT16);
}
aclScalar* aclOpExecutor::AllocScalar(uint8_t value)
{
    return KeepScalar(*state_, value, ge::DT_UINT8);
}
aclScalar* aclOpExecutor::AllocScalar(bool value)
{
    return KeepScalar(*state_, value, ge::DT_BOOL);
}

const aclTensor* aclOpExecutor::ConvertToTensor(const aclIntArray* value, op::DataType dataType)
{
    return value == nullptr ? nullptr : HostTensor(*state_, value->GetData(), value->Size(), dataType);
}

const aclTensor* aclOpExecutor::ConvertToTensor(const aclBoolArray* value, op::DataType dataType)
{
    return value == nullptr ? nullptr : HostTensor(*state_, value->GetData(), value->Size(), dataType);
}

const aclTensor* aclOpExecutor::ConvertToTensor(const aclFloatArray* value, op::DataType dataType)
{
    return value == nullptr ? nullptr : HostTensor(*state_, value->GetData(), value->Size(), dataType);
}

const aclTensor* aclOpExecutor::ConvertToTensor(const aclScalar* value, op::DataType dataType)
{
    if (value == nullptr) {
        return nullptr;
    }
    if (op::IsFloatingType(dataType)) {
        const double number = value->ToDouble();
        return HostTensor(*state_, &number, 1, dataType, true);
    }
    const int64_t number = value->ToInt64();
    return HostTensor(*state_, &number, 1, dataType, true);
}

uint64_t aclOpExecutor::GetWorkspaceSize() const
{
    return state_->Plan();
}

void aclOpExecutor::AbandonCache(bool disableRepeat)
{
    state_->repeatable = state_->repeatable && !disableRepeat;
}

aclnnStatus aclOpExecutor::SetRepeatable()
{
    state_->repeatable = true;
    return ACLNN_SUCCESS;
}

bool aclOpExecutor::IsRepeatable() const
{
    return state_->repeatable;
}

std::vector<const aclTensor*>& aclOpExecutor::GetInputTensors()
{
    return state_->inputs;
}

std::vector<const aclTensor*>& aclOpExecutor::GetOutputTensors()
{
    return state_->outputs;
}

UniqueExecutor::UniqueExecutor(const char* funcName) : executor_(HandleTable<aclOpExecutor>::Instance().Create())
{
    (void)funcName;  // the first macro of the function has recorded the name
}

UniqueExecutor::~UniqueExecutor()
{
    if (executor_ != nullptr) {
        HandleTable<aclOpExecutor>::Instance().Destroy(executor_);
    }
}

void UniqueExecutor::ReleaseTo(aclOpExecutor** executor)
{
    if (executor == nullptr) {
        AddError(Text(api.function, ": executor is null"));
        return;
    }
    *executor = executor_;
    executor_ = nullptr;
}

aclnnStatus CommonOpExecutorRun(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream)
{
    const char* const function = api.function;
    if (executor == nullptr) {
        return Fail(ACLNN_ERR_PARAM_NULLPTR, Text(function, ": executor is null"));
    }
    HandleTable<aclOpExecutor>& executors = HandleTable<aclOpExecutor>::Instance();
    const auto usedBefore = [function] {
        return Fail(ACLNN_ERR_PARAM_INVALID,
                    Text(function, ": the executor was used before, or GetWorkspaceSize did not succeed; call ",
                         function, "GetWorkspaceSize again (aclSetAclOpExecutorRepeatable allows several runs)"));
    };
    const std::shared_ptr<aclOpExecutor> held = executors.Share(executor);
    if (held == nullptr) {
        return usedBefore();
    }
    ExecutorState& state = *Access::State(*executor);
    const std::lock_guard<std::mutex> guard(state.lock);
    if (state.function != function) {
        return Fail(ACLNN_ERR_PARAM_INVALID,
                    Text(function, ": the executor is one of ", state.function, "GetWorkspaceSize"));
    }
    const uint64_t needed = state.Plan();
    if (const std::string problem = WorkspaceProblem(workspace, workspaceSize, needed); !problem.empty()) {
        return Fail(workspace == nullptr ? ACLNN_ERR_PARAM_NULLPTR : ACLNN_ERR_PARAM_INVALID,
                    Text(function, ": ", problem));
    }
    for (const auto& storage : state.userStorages) {
        if (storage->destroyed) {
            return Fail(ACLNN_ERR_PARAM_INVALID,
                        Text(function, ": a tensor was destroyed after GetWorkspaceSize; destroy it after the launch"));
        }
    }
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Stream> queue = RequireStream(function, stream, status);
    if (queue == nullptr) {
        return ACLNN_ERR_RUNTIME_ERROR;
    }
    std::vector<Task> tasks;
    std::string problem;
    if (!PlaceTasks(state, workspace, tasks, problem)) {
        return Fail(ACLNN_ERR_PARAM_INVALID, Text(function, ": ", problem));
    }
    if (!state.repeatable && !executors.Destroy(executor)) {
        return usedBefore();  // another thread used it after the first check
    }
    for (Task& task : tasks) {
        queue->Submit(function, std::move(task));
    }
    return ACLNN_SUCCESS;
}
