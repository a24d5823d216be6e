// Shapes, descriptions and values of tensors in a graph.
#ifndef GRAPH_TENSOR_H
#define GRAPH_TENSOR_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/types.h"

namespace ge {
class Shape {
public:
    Shape() = default;
    explicit Shape(const std::vector<int64_t>& dims) : dims_(dims) {}

    /// Returns 0 for an unknown rank; the dims are then {-2}.
    size_t GetDimNum() const;
    graphStatus SetDim(size_t idx, int64_t value);
    std::vector<int64_t> GetDims() const { return dims_; }
    int64_t GetDim(size_t idx) const;
    /// Returns the product of the dims; -1 if a dim is unknown, 0 for a shape without dims.
    int64_t GetShapeSize() const;

private:
    std::vector<int64_t> dims_;
};

class TensorDesc {
public:
    TensorDesc() = default;
    explicit TensorDesc(Shape shape, Format format = FORMAT_ND, DataType dt = DT_FLOAT);

    void Update(const Shape& shape, Format format = FORMAT_ND, DataType dt = DT_FLOAT);
    Shape GetShape() const { return shape_; }
    void SetShape(const Shape& shape) { shape_ = shape; }
    graphStatus SetUnknownDimNumShape();
    graphStatus SetShapeRange(const std::vector<std::pair<int64_t, int64_t>>& range);
    graphStatus GetShapeRange(std::vector<std::pair<int64_t, int64_t>>& range) const;

    Format GetFormat() const { return format_; }
    void SetFormat(Format format) { format_ = format; }
    Shape GetOriginShape() const { return originShape_; }
    void SetOriginShape(const Shape& origin_shape) { originShape_ = origin_shape; }
    Format GetOriginFormat() const { return originFormat_; }
    void SetOriginFormat(Format origin_format) { originFormat_ = origin_format; }
    DataType GetDataType() const { return dataType_; }
    void SetDataType(DataType dt) { dataType_ = dt; }

    std::string GetName() const { return name_; }
    graphStatus GetName(AscendString& name);
    graphStatus GetName(AscendString& name) const;
    void SetName(const std::string& name) { name_ = name; }
    void SetName(const char_t* name);

    void SetSize(int64_t size) { size_ = size; }
    int64_t GetSize() const { return size_; }
    int64_t GetRealDimCnt() const { return realDimCount_; }
    void SetRealDimCnt(const int64_t real_dim_cnt) { realDimCount_ = real_dim_cnt; }
    void SetPlacement(Placement placement) { placement_ = placement; }
    Placement GetPlacement() const { return placement_; }

private:
    Shape shape_;
    Shape originShape_;
    std::vector<std::pair<int64_t, int64_t>> shapeRange_;
    Format format_ = FORMAT_ND;
    Format originFormat_ = FORMAT_ND;
    DataType dataType_ = DT_FLOAT;
    std::string name_;
    int64_t size_ = 0;
    int64_t realDimCount_ = 0;
    Placement placement_ = kPlacementHost;
};

class Tensor {
public:
    Tensor() = default;
    explicit Tensor(const TensorDesc& tensor_desc) : desc_(tensor_desc) {}
    Tensor(const TensorDesc& tensor_desc, const uint8_t* data, size_t size);

    TensorDesc GetTensorDesc() const { return desc_; }
    graphStatus SetTensorDesc(const TensorDesc& tensor_desc);
    const uint8_t* GetData() const { return data_.data(); }
    size_t GetSize() const { return data_.size(); }
    graphStatus SetData(const uint8_t* data, size_t size);

private:
    TensorDesc desc_;
    std::vector<uint8_t> data_;
};
}  // namespace ge

#endif  // GRAPH_TENSOR_H
