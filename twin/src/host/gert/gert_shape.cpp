#include "exe_graph/runtime/shape.h"

#include <algorithm>

#include "host/acl/errors.h"
#include "kernel/exec/text.h"

namespace gert {

namespace {

/// On CANN, such an access reads or writes undefined memory.
int64_t& NoDim(size_t index, size_t dimNum)
{
    thread_local int64_t nothing = 0;
    nothing = Shape::kInvalidDimValue;
    opforge::twin::host::ReportMisuse(
        opforge::twin::kernel::Text("gert::Shape: dim ", index, " of a shape with ", dimNum, " dims"));
    return nothing;
}

}  // namespace

Shape::Shape(const std::initializer_list<int64_t>& args)
{
    SetDimNum(args.size());
    std::copy_n(args.begin(), dimNum_, dims_);
}

bool Shape::operator==(const Shape& rht) const
{
    return dimNum_ == rht.dimNum_ && std::equal(dims_, dims_ + dimNum_, rht.dims_);
}

int64_t Shape::GetShapeSize() const
{
    int64_t size = 1;
    for (size_t i = 0; i < dimNum_; ++i) {
        if (dims_[i] < 0 || __builtin_mul_overflow(size, dims_[i], &size)) {
            return -1;
        }
    }
    return size;
}

void Shape::SetDimNum(const size_t dim_num)
{
    if (dim_num > kMaxDimNum) {
        NoDim(dim_num, kMaxDimNum);
    }
    dimNum_ = std::min(dim_num, kMaxDimNum);
}

int64_t Shape::GetDim(const size_t idx) const
{
    return idx < dimNum_ ? dims_[idx] : NoDim(idx, dimNum_);
}

const int64_t& Shape::operator[](const size_t idx) const
{
    return idx < dimNum_ ? dims_[idx] : NoDim(idx, dimNum_);
}

int64_t& Shape::operator[](const size_t idx)
{
    return idx < dimNum_ ? dims_[idx] : NoDim(idx, dimNum_);
}

void Shape::SetDim(size_t idx, const int64_t dim_value)
{
    (idx < kMaxDimNum ? dims_[idx] : NoDim(idx, kMaxDimNum)) = dim_value;
}

Shape& Shape::AppendDim(const int64_t value)
{
    if (dimNum_ == kMaxDimNum) {
        NoDim(dimNum_, kMaxDimNum);
        return *this;
    }
    dims_[dimNum_++] = value;
    return *this;
}

}  // namespace gert
