// The executor: the tasks and intermediate tensors of one aclnn call.
#ifndef OPDEV_OP_EXECUTOR_H
#define OPDEV_OP_EXECUTOR_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "aclnn/acl_meta.h"
#include "opdev/common_types.h"
#include "opdev/object.h"

namespace opforge::twin::host {
struct Access;
struct ExecutorState;
}  // namespace opforge::twin::host

struct aclOpExecutor : public op::Object {
public:
    aclOpExecutor();
    ~aclOpExecutor();
    aclOpExecutor(const aclOpExecutor&) = delete;
    aclOpExecutor& operator=(const aclOpExecutor&) = delete;

    /// Allocates a dense tensor in the workspace. The executor owns the tensors that it allocates.
    aclTensor* AllocTensor(const op::Shape& shape, op::DataType dataType, op::Format format = op::Format::FORMAT_ND);
    aclTensor* AllocTensor(const op::Shape& storageShape, const op::Shape& originShape, op::DataType dataType,
                           op::Format storageFormat, op::Format originFormat);
    /// Allocates a tensor without a shape; INFER_SHAPE sets the shape.
    aclTensor* AllocTensor(op::DataType dataType, op::Format storageFormat, op::Format originFormat);
    /// Allocates a tensor with host values; a kernel receives a device copy.
    aclTensor* AllocHostTensor(const op::Shape& shape, op::DataType datatype,
                               op::Format format = op::Format::FORMAT_ND);
    aclTensor* AllocHostTensor(const op::Shape& storageShape, const op::Shape& originShape, op::DataType dataType,
                               op::Format storageFormat, op::Format originFormat);
    aclTensor* AllocHostTensor(const int64_t* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const uint64_t* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const bool* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const char* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const int32_t* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const uint32_t* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const int16_t* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const uint16_t* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const int8_t* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const uint8_t* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const double* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const float* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const op::fp16_t* value, uint64_t size, op::DataType dataType);
    aclTensor* AllocHostTensor(const op::bfloat16* value, uint64_t size, op::DataType dataType);
    /// `offset` is in elements of the storage.
    aclTensor* CreateView(const aclTensor* tensor, const op::Shape& shape, int64_t offset);
    aclIntArray* AllocIntArray(const int64_t* value, uint64_t size);
    aclFloatArray* AllocFloatArray(const float* value, uint64_t size);
    aclBoolArray* AllocBoolArray(const bool* value, uint64_t size);
    aclTensorList* AllocTensorList(const aclTensor* const* tensors, uint64_t size);
    aclScalarList* AllocScalarList(const aclScalar* const* scalars, uint64_t size);
    aclScalar* AllocScalar(const void* data, op::DataType dataType);
    aclScalar* AllocScalar(float value);
    aclScalar* AllocScalar(double value);
    aclScalar* AllocScalar(op::fp16_t value);
    aclScalar* AllocScalar(op::bfloat16 value);
    aclScalar* AllocScalar(int32_t value);
    aclScalar* AllocScalar(int64_t value);
    aclScalar* AllocScalar(int16_t value);
    aclScalar* AllocScalar(int8_t value);
    aclScalar* AllocScalar(uint32_t value);
    aclScalar* AllocScalar(uint64_t value);
    aclScalar* AllocScalar(uint16_t value);
    aclScalar* AllocScalar(uint8_t value);
    aclScalar* AllocScalar(bool value);
    const aclTensor* ConvertToTensor(const aclIntArray* value, op::DataType dataType);
    const aclTensor* ConvertToTensor(const aclBoolArray* value, op::DataType dataType);
    const aclTensor* ConvertToTensor(const aclFloatArray* value, op::DataType dataType);
    const aclTensor* ConvertToTensor(const aclScalar* value, op::DataType dataType);

    /// Returns the bytes that the second phase needs.
    uint64_t GetWorkspaceSize() const;
    /// The twin has no call cache. With `disableRepeat`, a repeatable executor can run only once.
    void AbandonCache(bool disableRepeat = false);
    aclnnStatus SetRepeatable();
    bool IsRepeatable() const;
    std::vector<const aclTensor*>& GetInputTensors();
    std::vector<const aclTensor*>& GetOutputTensors();

private:
    friend struct opforge::twin::host::Access;

    std::unique_ptr<opforge::twin::host::ExecutorState> state_;
};

#endif  // OPDEV_OP_EXECUTOR_H
