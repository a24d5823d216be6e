// The objects that are arguments of aclnn functions, for the implementation of these functions.
#ifndef OPDEV_COMMON_TYPES_H
#define OPDEV_COMMON_TYPES_H

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "aclnn/acl_meta.h"
#include "exe_graph/runtime/shape.h"
#include "exe_graph/runtime/tensor.h"
#include "graph/ascend_string.h"
#include "graph/types.h"
#include "opdev/bfloat16.h"
#include "opdev/fast_vector.h"
#include "opdev/fp16_t.h"
#include "opdev/object.h"
#include "opforge_twin/host/storage.h"

namespace opforge::twin::host {
struct Access;
}  // namespace opforge::twin::host

namespace op {
constexpr size_t MAX_DIM_NUM = 25;
using Shape = gert::Shape;
using DataType = ge::DataType;
using Format = ge::Format;
using Tensor = gert::Tensor;
using TensorPlacement = gert::TensorPlacement;
using Strides = FVector<int64_t, MAX_DIM_NUM>;
using ShapeVector = FVector<int64_t, MAX_DIM_NUM>;
}  // namespace op

/// A view of memory. Several views can share the same memory.
struct aclTensor : public op::Object {
public:
    aclTensor(const op::Shape& shape, op::DataType dataType, op::Format format, std::shared_ptr<aclStorage> storage);

    const op::Shape& GetStorageShape() const { return tensor_.GetStorageShape(); }
    void SetStorageShape(const op::Shape& shape) const { tensor_.MutableStorageShape() = shape; }
    const op::Shape& GetOriginalShape() const { return tensor_.GetOriginShape(); }
    void SetOriginalShape(const op::Shape& shape) const { tensor_.MutableOriginShape() = shape; }
    const op::Shape& GetViewShape() const { return viewShape_; }
    /// Sets the view shape and the strides of a dense tensor of this shape.
    void SetViewShape(const op::Shape& shape);
    op::Format GetStorageFormat() const { return tensor_.GetStorageFormat(); }
    void SetStorageFormat(op::Format format) { tensor_.SetStorageFormat(format); }
    op::Format GetOriginalFormat() const { return tensor_.GetOriginFormat(); }
    void SetOriginalFormat(op::Format format) { tensor_.SetOriginFormat(format); }
    op::Format GetViewFormat() const { return viewFormat_; }
    void SetViewFormat(op::Format format) { viewFormat_ = format; }
    const op::Strides& GetViewStrides() const { return viewStrides_; }
    void SetViewStrides(const op::Strides& strides) { viewStrides_ = strides; }
    void SetViewStrides(op::Strides&& strides) { viewStrides_ = std::move(strides); }
    /// Returns the offset in elements, the same unit as the strides.
    int64_t GetViewOffset() const { return viewOffset_; }
    void SetViewOffset(int64_t offset) const { viewOffset_ = offset; }
    int64_t GetStorageOffset() const { return storageOffset_; }
    void SetStorageOffset(int64_t offset) { storageOffset_ = offset; }

    op::Tensor* GetTensor() const { return &tensor_; }
    op::DataType GetDataType() const { return tensor_.GetDataType(); }
    void SetDataType(op::DataType dataType) { tensor_.SetDataType(dataType); }
    op::TensorPlacement GetPlacement() const;
    /// Returns the address of the first element of the view. It is a host address only for host tensors.
    void* GetData() const;
    void* GetStorageAddr() const { return storage_->address; }
    void SetStorageAddr(void* addr) const { storage_->address = addr; }
    const aclStorage* GetStorage() const { return storage_.get(); }

    int64_t Size() const { return Numel(); }
    int64_t Numel() const { return viewShape_.GetShapeSize(); }
    bool IsEmpty() const { return Numel() == 0; }
    bool IsFromWorkspace() const { return storage_->fromWorkspace; }
    void SetFromWorkspace(bool from_workspace) const { storage_->fromWorkspace = from_workspace; }
    uint64_t GetWorkspaceOffset() const { return storage_->workspaceOffset; }
    void SetWorkspaceOffset(uint64_t offset) const { storage_->workspaceOffset = offset; }
    ge::AscendString ToString() const;

    /// Sets values of a host tensor, converted to its element type. A device tensor or an index out of range is an
    /// error of the caller.
    void SetBoolData(const bool* value, uint64_t size, op::DataType dataType);
    void SetIntData(const int64_t* value, uint64_t size, op::DataType dataType);
    void SetFloatData(const float* value, uint64_t size, op::DataType dataType);
    void SetFp16Data(const op::fp16_t* value, uint64_t size, op::DataType dataType);
    void SetBf16Data(const op::bfloat16* value, uint64_t size, op::DataType dataType);

    void InitTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                    int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                    void* tensorDataAddr);

private:
    friend struct opforge::twin::host::Access;

    // As on CANN, a const tensor has constant values, but its description may change.
    mutable op::Tensor tensor_;
    op::Shape viewShape_;
    op::Strides viewStrides_;
    op::Format viewFormat_ = ge::FORMAT_ND;
    mutable int64_t viewOffset_ = 0;
    int64_t storageOffset_ = 0;
    std::shared_ptr<aclStorage> storage_;
};

/// An immutable list of values.
template <typename T>
class aclArray : public op::Object {
public:
    aclArray(const T* value, uint64_t size) : size_(size), values_(new T[size]())
    {
        for (uint64_t i = 0; i < size; ++i) {
            values_[i] = value[i];
        }
    }

    const T* GetData() const { return values_.get(); }
    uint64_t Size() const { return size_; }
    const T& operator[](size_t index) const { return values_[index]; }
    const T* begin() const { return values_.get(); }
    const T* end() const { return values_.get() + size_; }

private:
    uint64_t size_;
    std::unique_ptr<T[]> values_;
};

struct aclIntArray : public aclArray<int64_t> {
    using aclArray<int64_t>::aclArray;
};
struct aclFloatArray : public aclArray<float> {
    using aclArray<float>::aclArray;
};
struct aclBoolArray : public aclArray<bool> {
    using aclArray<bool>::aclArray;
};

/// A list of tensors. It owns the tensors only when the application destroys the list.
struct aclTensorList : public op::Object {
public:
    aclTensorList(const aclTensor* const* value, uint64_t size);

    aclTensor*& operator[](uint64_t i) { return tensors_[i]; }
    const aclTensor* operator[](uint64_t i) const { return tensors_[i]; }
    uint64_t Size() const { return tensors_.size(); }
    const aclTensor* const* GetData() const { return tensors_.data(); }
    ge::AscendString ToString() const;

private:
    std::vector<aclTensor*> tensors_;
};

/// One number with any element type.
struct aclScalar : public op::Object {
public:
    aclScalar(const void* data, op::DataType dataType);

    const void* GetData() const { return bytes_.data(); }
    uint64_t Size() const;
    op::DataType GetDataType() const { return dataType_; }
    float ToFloat() const { return static_cast<float>(ToDouble()); }
    double ToDouble() const;
    bool ToBool() const { return ToDouble() != 0; }
    int8_t ToInt8() const { return static_cast<int8_t>(ToInt64()); }
    int16_t ToInt16() const { return static_cast<int16_t>(ToInt64()); }
    int32_t ToInt32() const { return static_cast<int32_t>(ToInt64()); }
    int64_t ToInt64() const;
    uint8_t ToUint8() const { return static_cast<uint8_t>(ToUint64()); }
    uint16_t ToUint16() const { return static_cast<uint16_t>(ToUint64()); }
    uint32_t ToUint32() const { return static_cast<uint32_t>(ToUint64()); }
    uint64_t ToUint64() const { return static_cast<uint64_t>(ToInt64()); }
    op::fp16_t ToFp16() const { return op::fp16_t(ToFloat()); }
    op::bfloat16 ToBf16() const { return op::bfloat16(ToFloat()); }
    std::complex<float> ToComplex64() const;
    std::complex<double> ToComplex128() const;
    ge::AscendString ToString() const;

private:
    op::DataType dataType_;
    alignas(8) std::array<uint8_t, 16> bytes_{};
};

/// A list of scalars. It owns the scalars only when the application destroys the list.
struct aclScalarList : public op::Object {
public:
    aclScalarList(const aclScalar* const* value, uint64_t size);

    aclScalar*& operator[](uint64_t i) { return scalars_[i]; }
    const aclScalar* operator[](uint64_t i) const { return scalars_[i]; }
    uint64_t Size() const { return scalars_.size(); }
    const aclScalar* const* GetData() const { return scalars_.data(); }
    ge::AscendString ToString() const;

private:
    std::vector<aclScalar*> scalars_;
};

#endif  // OPDEV_COMMON_TYPES_H
