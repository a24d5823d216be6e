// Create, read and destroy the objects that are arguments of aclnn functions.
#include "aclnn/acl_meta.h"

#include <algorithm>
#include <memory>
#include <string>

#include "host/gert/access.h"
#include "host/acl/device_memory.h"
#include "host/acl/errors.h"
#include "host/aclnn/executor.h"
#include "host/acl/handle_table.h"
#include "host/ge/names.h"
#include "kernel/exec/text.h"
#include "opdev/common_types.h"
#include "opdev/data_type_utils.h"
#include "opdev/op_errno.h"
#include "opdev/op_executor.h"
#include "opdev/tensor_view_utils.h"

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::kernel::Text;

namespace {

template <typename T>
aclnnStatus Destroy(const char* function, const T* object)
{
    if (object == nullptr || HandleTable<T>::Instance().Destroy(object)) {
        return ACLNN_SUCCESS;
    }
    return Fail(ACLNN_ERR_PARAM_INVALID, Text(function,
                                              ": the object is not live: it was destroyed before, belongs to "
                                              "an executor, or was never created"));
}

template <typename T>
bool RequireLive(const char* function, const T* object, aclnnStatus& status)
{
    status = ACLNN_SUCCESS;
    if (object == nullptr) {
        status = Fail(ACLNN_ERR_PARAM_NULLPTR, Text(function, ": the object is null"));
    } else if (!HandleTable<T>::Instance().IsLive(object)) {
        status = Fail(ACLNN_ERR_PARAM_INVALID, Text(function,
                                                    ": the object is not live: it was destroyed, or never "
                                                    "created"));
    }
    return status == ACLNN_SUCCESS;
}

/// Whether the pointer is device memory, which the host cannot read.
bool IsDeviceMemory(const void* pointer)
{
    return DeviceMemory::Instance().IsDevice(pointer);
}

/// Returns the reason why these arguments do not define a tensor; "" if they do.
std::string TensorProblem(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                          int64_t offset, const int64_t* storageDims, uint64_t storageDimsNum)
{
    if ((viewDims == nullptr && viewDimsNum != 0) || (storageDims == nullptr && storageDimsNum != 0)) {
        return viewDims == nullptr && viewDimsNum != 0 ? "viewDims is null" : "storageDims is null";
    }
    if (IsDeviceMemory(viewDims) || IsDeviceMemory(stride) || IsDeviceMemory(storageDims)) {
        return "viewDims, stride or storageDims is device memory, expected memory of the host";
    }
    if (viewDimsNum > op::MAX_DIM_NUM || storageDimsNum > op::MAX_DIM_NUM) {
        return Text("got ", std::max(viewDimsNum, storageDimsNum), " dims, expected at most ", op::MAX_DIM_NUM);
    }
    const op::Shape view = ShapeOf(viewDims, viewDimsNum);
    const op::Shape storage = ShapeOf(storageDims, storageDimsNum);
    if (aclDataTypeSize(dataType) == 0) {
        return Text("got dataType ", static_cast<int>(dataType), ", expected one with a whole number of bytes");
    }
    if (view.GetShapeSize() < 0 || storage.GetShapeSize() < 0) {
        return Text("got shape ", DimsText(view), " in storage ", DimsText(storage),
                    ", expected dims of at least 0 and sizes below 2^63");
    }
    if (stride != nullptr && std::any_of(stride, stride + viewDimsNum, [](int64_t value) { return value < 0; })) {
        return Text("got strides ", DimsText(std::vector<int64_t>(stride, stride + viewDimsNum)),
                    ", expected at least 0");
    }
    aclTensor tensor(view, op::ToOpDataType(dataType), ge::FORMAT_ND, std::make_shared<aclStorage>());
    tensor.SetStorageShape(storage);
    tensor.SetViewOffset(offset);
    if (stride != nullptr) {
        tensor.SetViewStrides(op::Strides(stride, stride + viewDimsNum));
    }
    if (!op::Validate(&tensor)) {
        return Text("shape ", DimsText(view), " with strides ", DimsText(tensor.GetViewStrides()), " and offset ",
                    offset, " reaches outside the storage ", DimsText(storage));
    }
    return {};
}

aclnnStatus CopyDims(const char* function, const std::vector<int64_t>& dims, int64_t** values, uint64_t* count)
{
    if (values == nullptr || count == nullptr) {
        return Fail(ACLNN_ERR_PARAM_NULLPTR, Text(function, ": an output is null"));
    }
    *count = dims.size();
    *values = new int64_t[dims.size()];
    std::copy(dims.begin(), dims.end(), *values);
    return ACLNN_SUCCESS;
}

template <typename T, typename Value>
T* CreateArray(const char* function, const Value* value, uint64_t size)
{
    if (value == nullptr && size != 0) {
        Fail(ACLNN_ERR_PARAM_NULLPTR, Text(function, ": value is null"));
        return nullptr;
    }
    if (IsDeviceMemory(value)) {
        Fail(ACLNN_ERR_PARAM_INVALID, Text(function, ": value is device memory, expected memory of the host"));
        return nullptr;
    }
    // Upper limit for a list argument. A longer list is an invalid size; the read would pass the end of the list.
    constexpr uint64_t kMaxBytes = uint64_t{1} << 32;
    if (size > kMaxBytes / sizeof(Value)) {
        Fail(ACLNN_ERR_PARAM_INVALID,
             Text(function, ": got ", size, " elements, expected at most ", kMaxBytes / sizeof(Value)));
        return nullptr;
    }
    return HandleTable<T>::Instance().Create(value, size);
}

/// A destroyed list also destroys its members, so all members must be live.
template <typename List, typename Member>
List* CreateList(const char* function, const Member* const* value, uint64_t size)
{
    for (uint64_t i = 0; value != nullptr && !IsDeviceMemory(value) && i < size; ++i) {
        if (value[i] == nullptr || !HandleTable<Member>::Instance().IsLive(value[i])) {
            Fail(ACLNN_ERR_PARAM_INVALID, Text(function, ": member ", i, " is null or was destroyed"));
            return nullptr;
        }
    }
    return CreateArray<List>(function, value, size);
}

template <typename List, typename Member>
aclnnStatus DestroyList(const char* function, const List* list)
{
    aclnnStatus status = ACLNN_SUCCESS;
    if (list == nullptr || !RequireLive(function, list, status)) {
        return status;
    }
    for (uint64_t i = 0; i < list->Size(); ++i) {
        const aclnnStatus member = Destroy<Member>(function, (*list)[i]);
        status = status == ACLNN_SUCCESS ? member : status;
    }
    Destroy(function, list);
    return status;
}

template <typename T>
aclnnStatus SizeOf(const char* function, const T* object, uint64_t* size)
{
    aclnnStatus status = ACLNN_SUCCESS;
    if (!RequireLive(function, object, status)) {
        return status;
    }
    if (size == nullptr) {
        return Fail(ACLNN_ERR_PARAM_NULLPTR, Text(function, ": size is null"));
    }
    *size = object->Size();
    return status;
}

template <typename Value, typename Get>
aclnnStatus Read(const char* function, const aclTensor* tensor, Value* value, const Get& get)
{
    aclnnStatus status = ACLNN_SUCCESS;
    if (!RequireLive(function, tensor, status)) {
        return status;
    }
    if (value == nullptr) {
        return Fail(ACLNN_ERR_PARAM_NULLPTR, Text(function, ": the output is null"));
    }
    *value = get(*tensor);
    return status;
}

aclnnStatus SetAddress(const char* function, aclOpExecutor* executor, const std::vector<const aclTensor*>& tensors,
                       size_t index, aclTensor* tensor, void* address)
{
    aclnnStatus status = ACLNN_SUCCESS;
    if (!RequireLive(function, executor, status)) {
        return status;
    }
    if (!executor->IsRepeatable()) {
        return Fail(ACLNN_ERR_PARAM_INVALID,
                    Text(function, ": the executor is not repeatable; call aclSetAclOpExecutorRepeatable first"));
    }
    if (index >= tensors.size() || tensors[index] != tensor || !RequireLive(function, tensor, status)) {
        return Fail(ACLNN_ERR_PARAM_INVALID, Text(function, ": the tensor is not number ", index, " of the ",
                                                  tensors.size(), " tensors of the first phase"));
    }
    tensor->SetStorageAddr(address);
    return ACLNN_SUCCESS;
}

}  // namespace

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData)
{
    const std::string problem =
        TensorProblem(viewDims, viewDimsNum, dataType, stride, offset, storageDims, storageDimsNum);
    if (!problem.empty()) {
        Fail(ACLNN_ERR_PARAM_INVALID, Text("aclCreateTensor: ", problem));
        return nullptr;
    }
    aclTensor* tensor = HandleTable<aclTensor>::Instance().Create(op::Shape(), ge::DT_FLOAT, ge::FORMAT_ND,
                                                                  std::make_shared<aclStorage>());
    tensor->InitTensor(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
                       tensorData);
    return tensor;
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorDataAddr)
{
    aclnnStatus status = ACLNN_SUCCESS;
    if (!RequireLive("aclInitTensor", tensor, status)) {
        return status;
    }
    const std::string problem =
        TensorProblem(viewDims, viewDimsNum, dataType, stride, offset, storageDims, storageDimsNum);
    if (!problem.empty()) {
        return Fail(ACLNN_ERR_PARAM_INVALID, Text("aclInitTensor: ", problem));
    }
    tensor->InitTensor(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
                       tensorDataAddr);
    return status;
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size)
{
    return CreateList<aclTensorList, aclTensor>("aclCreateTensorList", value, size);
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size)
{
    return CreateArray<aclIntArray>("aclCreateIntArray", value, size);
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size)
{
    return CreateArray<aclFloatArray>("aclCreateFloatArray", value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size)
{
    return CreateArray<aclBoolArray>("aclCreateBoolArray", value, size);
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType)
{
    if (value == nullptr || IsDeviceMemory(value) || aclDataTypeSize(dataType) == 0) {
        Fail(ACLNN_ERR_PARAM_INVALID, value == nullptr        ? "aclCreateScalar: value is null"
                                      : IsDeviceMemory(value) ? "aclCreateScalar: value is device memory, expected "
                                                                "memory of the host"
                                                              : "aclCreateScalar: dataType has no whole number of "
                                                                "bytes");
        return nullptr;
    }
    return HandleTable<aclScalar>::Instance().Create(value, op::ToOpDataType(dataType));
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size)
{
    return CreateList<aclScalarList, aclScalar>("aclCreateScalarList", value, size);
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor)
{
    if (tensor != nullptr && HandleTable<aclTensor>::Instance().IsLive(tensor)) {
        // Executors share the storage, so a second phase that needs the tensor detects that it is destroyed.
        Access::Storage(*tensor)->destroyed = true;
    }
    return Destroy("aclDestroyTensor", tensor);
}

aclnnStatus aclDestroyTensorList(const aclTensorList* array)
{
    aclnnStatus status = ACLNN_SUCCESS;
    if (array == nullptr || !RequireLive("aclDestroyTensorList", array, status)) {
        return status;
    }
    for (uint64_t i = 0; i < array->Size(); ++i) {
        const aclnnStatus member = aclDestroyTensor((*array)[i]);
        status = status == ACLNN_SUCCESS ? member : status;
    }
    Destroy("aclDestroyTensorList", array);
    return status;
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array)
{
    return Destroy("aclDestroyIntArray", array);
}
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array)
{
    return Destroy("aclDestroyFloatArray", array);
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array)
{
    return Destroy("aclDestroyBoolArray", array);
}
aclnnStatus aclDestroyScalar(const aclScalar* scalar)
{
    return Destroy("aclDestroyScalar", scalar);
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array)
{
    return DestroyList<aclScalarList, aclScalar>("aclDestroyScalarList", array);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum)
{
    aclnnStatus status = ACLNN_SUCCESS;
    return RequireLive("aclGetViewShape", tensor, status)
               ? CopyDims("aclGetViewShape", DimsOf(tensor->GetViewShape()), viewDims, viewDimsNum)
               : status;
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum)
{
    aclnnStatus status = ACLNN_SUCCESS;
    return RequireLive("aclGetStorageShape", tensor, status)
               ? CopyDims("aclGetStorageShape", DimsOf(tensor->GetStorageShape()), storageDims, storageDimsNum)
               : status;
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum)
{
    aclnnStatus status = ACLNN_SUCCESS;
    return RequireLive("aclGetViewStrides", tensor, status)
               ? CopyDims("aclGetViewStrides", tensor->GetViewStrides(), stridesValue, stridesNum)
               : status;
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset)
{
    return Read("aclGetViewOffset", tensor, offset, [](const aclTensor& read) { return read.GetViewOffset(); });
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format)
{
    return Read("aclGetFormat", tensor, format,
                [](const aclTensor& read) { return static_cast<aclFormat>(read.GetViewFormat()); });
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType)
{
    return Read("aclGetDataType", tensor, dataType,
                [](const aclTensor& read) { return op::ToAclDataType(read.GetDataType()); });
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size)
{
    return SizeOf("aclGetIntArraySize", array, size);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size)
{
    return SizeOf("aclGetFloatArraySize", array, size);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size)
{
    return SizeOf("aclGetBoolArraySize", array, size);
}

aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size)
{
    return SizeOf("aclGetTensorListSize", tensorList, size);
}

aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size)
{
    return SizeOf("aclGetScalarListSize", scalarList, size);
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr)
{
    return Read("aclGetRawTensorAddr", tensor, addr, [](const aclTensor& read) { return read.GetStorageAddr(); });
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr)
{
    aclnnStatus status = ACLNN_SUCCESS;
    if (RequireLive("aclSetRawTensorAddr", tensor, status)) {
        tensor->SetStorageAddr(addr);
    }
    return status;
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor)
{
    aclnnStatus status = ACLNN_SUCCESS;
    return RequireLive("aclSetAclOpExecutorRepeatable", executor, status) ? executor->SetRepeatable() : status;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor)
{
    return Destroy("aclDestroyAclOpExecutor", executor);
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr)
{
    aclnnStatus status = ACLNN_SUCCESS;
    return RequireLive("aclSetInputTensorAddr", executor, status)
               ? SetAddress("aclSetInputTensorAddr", executor, executor->GetInputTensors(), index, tensor, addr)
               : status;
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr)
{
    aclnnStatus status = ACLNN_SUCCESS;
    return RequireLive("aclSetOutputTensorAddr", executor, status)
               ? SetAddress("aclSetOutputTensorAddr", executor, executor->GetOutputTensors(), index, tensor, addr)
               : status;
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr)
{
    aclnnStatus status = ACLNN_SUCCESS;
    if (!RequireLive("aclSetTensorAddr", executor, status)) {
        return status;
    }
    std::vector<const aclTensor*> tensors = executor->GetInputTensors();
    const std::vector<const aclTensor*>& outputs = executor->GetOutputTensors();
    tensors.insert(tensors.end(), outputs.begin(), outputs.end());
    return SetAddress("aclSetTensorAddr", executor, tensors, index, tensor, addr);
}
