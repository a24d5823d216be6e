// The built-in level 0 operators.
#include <algorithm>
#include <utility>
#include <vector>

#include "aclnn_kernels/cast.h"
#include "aclnn_kernels/contiguous.h"
#include "aclnn_kernels/pad.h"
#include "aclnn_kernels/reshape.h"
#include "aclnn_kernels/slice.h"
#include "aclnn_kernels/transpose.h"
#include "host/gert/access.h"
#include "host/aclnn/element_tasks.h"
#include "host/acl/errors.h"
#include "host/aclnn/executor.h"
#include "host/ge/names.h"
#include "kernel/exec/text.h"
#include "opdev/tensor_view_utils.h"

namespace l0op {

using opforge::twin::host::AddElementTask;
using opforge::twin::host::AddError;
using opforge::twin::host::DimsOf;
using opforge::twin::host::DimsText;
using opforge::twin::host::DtypeName;
using opforge::twin::host::IsConvertible;
using opforge::twin::host::ShapeOf;
using opforge::twin::host::View;
using opforge::twin::host::ViewOf;
using opforge::twin::kernel::Text;

namespace {

bool HaveAll(const char* operation, const void* tensor, const aclOpExecutor* executor)
{
    if (tensor == nullptr || executor == nullptr) {
        AddError(Text(operation, ": ", tensor == nullptr ? "the tensor" : "the executor", " is null"));
        return false;
    }
    return true;
}

/// Reads the values of a host tensor of integers.
bool ReadInts(const char* operation, const char* name, const aclTensor* tensor, std::vector<int64_t>& numbers)
{
    const bool isOnHost = tensor != nullptr && tensor->GetPlacement() == gert::kOnHost;
    if (!isOnHost || (tensor->GetDataType() != ge::DT_INT64 && tensor->GetDataType() != ge::DT_INT32)) {
        AddError(Text(operation, ": ", name,
                      tensor == nullptr ? " is null"
                      : isOnHost        ? " holds no integers"
                                        : " is on the device",
                      ", expected a tensor of ConvertToTensor or AllocHostTensor of int64 or int32"));
        return false;
    }
    for (int64_t i = 0; i < tensor->Numel(); ++i) {
        numbers.push_back(tensor->GetDataType() == ge::DT_INT64 ? static_cast<const int64_t*>(tensor->GetData())[i]
                                                                : static_cast<const int32_t*>(tensor->GetData())[i]);
    }
    return true;
}

/// Creates a view of `x` with permuted dims.
bool Permuted(const aclTensor& x, const std::vector<int64_t>& order, View& view)
{
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    bool isPermutation = sorted.size() == x.GetViewShape().GetDimNum();
    for (size_t i = 0; i < sorted.size(); ++i) {
        isPermutation = isPermutation && sorted[i] == static_cast<int64_t>(i);
    }
    if (!isPermutation) {
        AddError(Text("Transpose: got the order ", DimsText(order), " for shape ", DimsText(x.GetViewShape())));
        return false;
    }
    view = ViewOf(x, "source");
    const View original = view;
    for (size_t i = 0; i < order.size(); ++i) {
        view.dims[i] = original.dims[static_cast<size_t>(order[i])];
        view.strides[i] = original.strides[static_cast<size_t>(order[i])];
    }
    return true;
}

/// Creates a view of `x` that begins at `starts`. Size -1 means up to the end of the dim.
bool Sliced(const aclTensor& x, const std::vector<int64_t>& starts, const std::vector<int64_t>& sizes, View& view)
{
    view = ViewOf(x, "source");
    bool fits = starts.size() == view.dims.size() && sizes.size() == view.dims.size();
    for (size_t i = 0; fits && i < view.dims.size(); ++i) {
        const int64_t left = view.dims[i] - starts[i];
        fits = starts[i] >= 0 && left >= 0 && sizes[i] >= -1 && sizes[i] <= left;
        view.dims[i] = sizes[i] == -1 ? left : sizes[i];
        view.offset += starts[i] * view.strides[i];
    }
    if (!fits) {
        AddError(Text("Slice: got offsets ", DimsText(starts), " and sizes ", DimsText(sizes), " for shape ",
                      DimsText(x.GetViewShape()), ", expected parts of it"));
    }
    return fits;
}

const aclTensor* DenseCopy(const char* operation, const aclTensor& x, View from, aclOpExecutor* executor)
{
    const aclTensor* result =
        executor->AllocTensor(ShapeOf(from.dims.data(), from.dims.size()), x.GetDataType(), x.GetViewFormat());
    AddElementTask(*executor, operation, std::move(from), ViewOf(*result, "result"));
    return result;
}

const aclTensor* CopyTo(const char* operation, View from, const aclTensor* y, aclOpExecutor* executor)
{
    View to = ViewOf(*y, "target");
    if (from.dims != to.dims || from.dtype != to.dtype) {
        AddError(Text(operation, ": got ", DtypeName(from.dtype), " ", DimsText(from.dims), " for a tensor of ",
                      DtypeName(to.dtype), " ", DimsText(to.dims), "; expected the same"));
        return nullptr;
    }
    if (to.SharesElements()) {
        AddError(Text(operation, ": got a tensor of shape ", DimsText(to.dims), " with strides ", DimsText(to.strides),
                      ", several of whose elements lie in one place; expected one to write to"));
        return nullptr;
    }
    AddElementTask(*executor, operation, std::move(from), std::move(to));
    return y;
}

}  // namespace

const aclTensor* Contiguous(const aclTensor* x, aclOpExecutor* executor)
{
    if (!HaveAll("Contiguous", x, executor)) {
        return nullptr;
    }
    if (op::IsContiguous(x)) {
        return executor->CreateView(x, x->GetViewShape(), x->GetViewOffset());
    }
    return DenseCopy("Contiguous", *x, ViewOf(*x, "source"), executor);
}

const aclTensor* ViewCopy(const aclTensor* x, const aclTensor* y, aclOpExecutor* executor)
{
    if (!HaveAll("ViewCopy", x, executor) || !HaveAll("ViewCopy", y, executor)) {
        return nullptr;
    }
    return CopyTo("ViewCopy", ViewOf(*x, "source"), y, executor);
}

const aclTensor* Cast(const aclTensor* self, op::DataType dstDtype, aclOpExecutor* executor)
{
    if (!HaveAll("Cast", self, executor)) {
        return nullptr;
    }
    if (self->GetDataType() == dstDtype) {
        return self;
    }
    if (!IsConvertible(self->GetDataType()) || !IsConvertible(dstDtype)) {
        AddError(Text("Cast: no conversion from ", DtypeName(self->GetDataType()), " to ", DtypeName(dstDtype)));
        return nullptr;
    }
    const aclTensor* result = executor->AllocTensor(self->GetViewShape(), dstDtype, self->GetViewFormat());
    AddElementTask(*executor, "Cast", ViewOf(*self, "source"), ViewOf(*result, "result"));
    return result;
}

const aclTensor* Reshape(const aclTensor* x, const op::Shape& shape, aclOpExecutor* executor)
{
    if (!HaveAll("Reshape", x, executor)) {
        return nullptr;
    }
    if (!op::IsContiguous(x)) {
        AddError("Reshape: the tensor is strided; call l0op::Contiguous first");
        return nullptr;
    }
    std::vector<int64_t> dims = DimsOf(shape);
    const auto unknown = std::find(dims.begin(), dims.end(), -1);
    if (unknown != dims.end()) {
        *unknown = 1;
        const int64_t known = ShapeOf(dims.data(), dims.size()).GetShapeSize();
        *unknown = known > 0 ? x->Numel() / known : -1;
    }
    const op::Shape target = ShapeOf(dims.data(), dims.size());
    if (target.GetShapeSize() != x->Numel()) {
        AddError(Text("Reshape: got ", DimsText(shape), " for the elements of ", DimsText(x->GetViewShape())));
        return nullptr;
    }
    return executor->CreateView(x, target, x->GetViewOffset());
}

const aclTensor* Reshape(const aclTensor* x, const aclIntArray* shape, aclOpExecutor* executor)
{
    return HaveAll("Reshape", shape, executor) ? Reshape(x, ShapeOf(shape->GetData(), shape->Size()), executor)
                                               : nullptr;
}

const aclTensor* Transpose(const aclTensor* x, const aclIntArray* perm, aclOpExecutor* executor)
{
    if (!HaveAll("Transpose", x, executor) || !HaveAll("Transpose", perm, executor)) {
        return nullptr;
    }
    View from;
    return Permuted(*x, {perm->begin(), perm->end()}, from) ? DenseCopy("Transpose", *x, std::move(from), executor)
                                                            : nullptr;
}

const aclTensor* Transpose(const aclTensor* x, const aclTensor* y, const aclTensor* perm, aclOpExecutor* executor)
{
    std::vector<int64_t> order;
    View from;
    if (!HaveAll("Transpose", x, executor) || !HaveAll("Transpose", y, executor) ||
        !ReadInts("Transpose", "perm", perm, order) || !Permuted(*x, order, from)) {
        return nullptr;
    }
    return CopyTo("Transpose", std::move(from), y, executor);
}

const aclTensor* Slice(const aclTensor* x, const aclIntArray* offsets, const aclIntArray* size, aclOpExecutor* executor)
{
    if (!HaveAll("Slice", x, executor) || !HaveAll("Slice", offsets, executor) || !HaveAll("Slice", size, executor)) {
        return nullptr;
    }
    View from;
    return Sliced(*x, {offsets->begin(), offsets->end()}, {size->begin(), size->end()}, from)
               ? DenseCopy("Slice", *x, std::move(from), executor)
               : nullptr;
}

const aclTensor* Slice(const aclTensor* x, const aclTensor* y, const aclTensor* offset, const aclTensor* size,
                       aclOpExecutor* executor)
{
    std::vector<int64_t> starts;
    std::vector<int64_t> sizes;
    View from;
    if (!HaveAll("Slice", x, executor) || !HaveAll("Slice", y, executor) ||
        !ReadInts("Slice", "offset", offset, starts) || !ReadInts("Slice", "size", size, sizes) ||
        !Sliced(*x, starts, sizes, from)) {
        return nullptr;
    }
    return CopyTo("Slice", std::move(from), y, executor);
}

const aclTensor* Pad(const aclTensor* self, const aclTensor* paddings, aclOpExecutor* executor)
{
    std::vector<int64_t> widths;
    if (!HaveAll("Pad", self, executor) || !ReadInts("Pad", "paddings", paddings, widths)) {
        return nullptr;
    }
    const std::vector<int64_t> dims = DimsOf(self->GetViewShape());
    const bool isNegative = std::any_of(widths.begin(), widths.end(), [](int64_t width) { return width < 0; });
    if (widths.size() != 2 * dims.size() || isNegative) {
        AddError(Text("Pad: got the paddings ", DimsText(widths), " for shape ", DimsText(self->GetViewShape()),
                      "; expected two numbers of at least 0 for each dim, before and behind it"));
        return nullptr;
    }
    op::Shape shape;
    for (size_t i = 0; i < dims.size(); ++i) {
        shape.AppendDim(widths[2 * i] + dims[i] + widths[2 * i + 1]);
    }
    const aclTensor* result = executor->AllocTensor(shape, self->GetDataType(), self->GetViewFormat());
    const View whole = ViewOf(*result, "result");
    View zeros = ViewOf(*executor->AllocHostTensor(op::Shape{1}, self->GetDataType()), "zero");
    zeros.dims = whole.dims;
    zeros.strides.assign(whole.dims.size(), 0);
    View inside = whole;
    inside.dims = dims;
    for (size_t i = 0; i < dims.size(); ++i) {
        inside.offset += widths[2 * i] * whole.strides[i];
    }
    AddElementTask(*executor, "Pad", std::move(zeros), whole);
    AddElementTask(*executor, "Pad", ViewOf(*self, "source"), std::move(inside));
    return result;
}

}  // namespace l0op
