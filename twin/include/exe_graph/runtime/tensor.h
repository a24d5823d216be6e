// A runtime tensor: shapes, formats, element type and memory.
#ifndef EXE_GRAPH_RUNTIME_TENSOR_H
#define EXE_GRAPH_RUNTIME_TENSOR_H

#include <cstddef>
#include <cstdint>
#include <utility>

#include "exe_graph/runtime/storage_format.h"
#include "exe_graph/runtime/storage_shape.h"
#include "exe_graph/runtime/tensor_data.h"
#include "graph/types.h"

namespace gert {
class Tensor {
public:
    Tensor() = default;
    Tensor(const StorageShape& storage_shape, const StorageFormat& storage_format, const TensorPlacement placement,
           const ge::DataType data_type, TensorAddress addr)
        : Tensor(storage_shape, storage_format, placement, data_type, addr, nullptr)
    {
    }
    Tensor(const StorageShape& storage_shape, const StorageFormat& storage_format, ge::DataType data_type)
        : Tensor(storage_shape, storage_format, kOnHost, data_type, nullptr, nullptr)
    {
    }
    Tensor(const StorageShape& storage_shape, const StorageFormat& storage_format, const TensorPlacement placement,
           const ge::DataType data_type, TensorAddress addr, TensorAddrManager manager)
        : shape_(storage_shape), format_(storage_format), dataType_(data_type), data_(addr, manager, 0, placement)
    {
    }

    int64_t GetShapeSize() const { return shape_.GetStorageShape().GetShapeSize(); }
    /// Returns null if the values are not on the host.
    template <class T>
    const T* GetData() const
    {
        return static_cast<const T*>(GetAddr());
    }
    template <class T>
    T* GetData()
    {
        return static_cast<T*>(GetAddr());
    }
    void SetData(TensorData&& data) { data_ = std::move(data); }
    const void* GetAddr() const { return data_.GetAddr(); }
    void* GetAddr() { return data_.GetAddr(); }
    size_t GetSize() const { return data_.GetSize(); }
    void SetSize(const size_t size) { data_.SetSize(size); }

    ge::DataType GetDataType() const { return dataType_; }
    void SetDataType(const ge::DataType data_type) { dataType_ = data_type; }
    const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
    Shape& MutableStorageShape() { return shape_.MutableStorageShape(); }
    const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
    Shape& MutableOriginShape() { return shape_.MutableOriginShape(); }
    const StorageShape& GetShape() const { return shape_; }
    StorageShape& GetShape() { return shape_; }
    ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }
    void SetStorageFormat(const ge::Format storage_format) { format_.SetStorageFormat(storage_format); }
    ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
    void SetOriginFormat(const ge::Format origin_format) { format_.SetOriginFormat(origin_format); }
    const StorageFormat& GetFormat() const { return format_; }
    StorageFormat& MutableFormat() { return format_; }
    ExpandDimsType GetExpandDimsType() const { return format_.GetExpandDimsType(); }
    void SetExpandDimsType(const ExpandDimsType& expand_dims_type) { format_.SetExpandDimsType(expand_dims_type); }
    TensorPlacement GetPlacement() const { return data_.GetPlacement(); }
    void SetPlacement(const TensorPlacement placement) { data_.SetPlacement(placement); }
    const TensorData& GetTensorData() const { return data_; }
    TensorData& MutableTensorData() { return data_; }

private:
    StorageShape shape_;
    StorageFormat format_;
    ge::DataType dataType_ = ge::DT_UNDEFINED;
    TensorData data_;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_TENSOR_H
