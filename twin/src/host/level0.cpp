// The built-in level 0 operators.
#include <algorithm>
#include <utility>
#include <vector>

#include "aclnn_kernels/cast.h"
#include "aclnn_kernels/contiguous.h"
#include "aclnn_kernels/reshape.h"
#include "aclnn_kernels/transpose.h"
#include "host/access.h"
#include "host/element_tasks.h"
#include "host/errors.h"
#include "host/executor.h"
#include "host/names.h"
#include "kernel/text.h"
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

}  // namespace

const aclTensor* Contiguous(const aclTensor* x, aclOpExecutor* executor)
{
    if (!HaveAll("Contiguous", x, executor)) {
        return nullptr;
    }
    if (op::IsContiguous(x)) {
        return executor->CreateView(x, x->GetViewShape(), x->GetViewOffset());
    }
    const aclTensor* dense = executor->AllocTensor(x->GetViewShape(), x->GetDataType(), x->GetViewFormat());
    AddElementTask(*executor, "Contiguous", ViewOf(*x, "source"), ViewOf(*dense, "result"));
    return dense;
}

const aclTensor* ViewCopy(const aclTensor* x, const aclTensor* y, aclOpExecutor* executor)
{
    if (!HaveAll("ViewCopy", x, executor) || !HaveAll("ViewCopy", y, executor)) {
        return nullptr;
    }
    if (x->GetViewShape() != y->GetViewShape() || x->GetDataType() != y->GetDataType()) {
        AddError(Text("ViewCopy: got ", DtypeName(x->GetDataType()), " ", DimsText(x->GetViewShape()),
                      " for a tensor of ", DtypeName(y->GetDataType()), " ", DimsText(y->GetViewShape()),
                      "; expected the same"));
        return nullptr;
    }
    AddElementTask(*executor, "ViewCopy", ViewOf(*x, "source"), ViewOf(*y, "target"));
    return y;
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
    std::vector<int64_t> order(perm->begin(), perm->end());
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    bool isPermutation = sorted.size() == x->GetViewShape().GetDimNum();
    for (size_t i = 0; i < sorted.size(); ++i) {
        isPermutation = isPermutation && sorted[i] == static_cast<int64_t>(i);
    }
    if (!isPermutation) {
        AddError(Text("Transpose: got the order ", DimsText(order), " for shape ", DimsText(x->GetViewShape())));
        return nullptr;
    }
    View from = ViewOf(*x, "source");
    const View original = from;
    for (size_t i = 0; i < order.size(); ++i) {
        from.dims[i] = original.dims[static_cast<size_t>(order[i])];
        from.strides[i] = original.strides[static_cast<size_t>(order[i])];
    }
    const aclTensor* result =
        executor->AllocTensor(ShapeOf(from.dims.data(), from.dims.size()), x->GetDataType(), x->GetViewFormat());
    AddElementTask(*executor, "Transpose", std::move(from), ViewOf(*result, "result"));
    return result;
}

}  // namespace l0op
