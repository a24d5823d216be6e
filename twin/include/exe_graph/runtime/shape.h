// The dims of a tensor, at most 25. -1 is an unknown dim; a single -2 means an unknown rank.
#ifndef EXE_GRAPH_RUNTIME_SHAPE_H
#define EXE_GRAPH_RUNTIME_SHAPE_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gert {
class Shape {
public:
    static constexpr size_t kMaxDimNum = 25;
    static constexpr int64_t kInvalidDimValue = INT64_MIN;

    Shape() = default;
    Shape(const std::initializer_list<int64_t>& args);

    bool operator==(const Shape& rht) const;
    bool operator!=(const Shape& rht) const { return !(*this == rht); }

    /// Returns the product of the dims; 1 for a scalar. Returns a negative value if a dim is unknown or the product
    /// overflows.
    int64_t GetShapeSize() const;
    bool IsScalar() const { return dimNum_ == 0; }
    void SetScalar() { dimNum_ = 0; }
    size_t GetDimNum() const { return dimNum_; }
    void SetDimNum(const size_t dim_num);

    /// Returns kInvalidDimValue for an index beyond the maximum number of dims.
    int64_t GetDim(const size_t idx) const;
    const int64_t& operator[](const size_t idx) const;
    int64_t& operator[](const size_t idx);
    void SetDim(size_t idx, const int64_t dim_value);
    Shape& AppendDim(const int64_t value);

private:
    size_t dimNum_ = 0;
    int64_t dims_[kMaxDimNum] = {};
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_SHAPE_H
