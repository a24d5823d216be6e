#include "aclnn_scaled_add.h"

#include <cstring>

#include "aclnn_kernels/cast.h"
#include "aclnn_kernels/common/op_error_check.h"
#include "aclnn_kernels/contiguous.h"
#include "aclnn_kernels/pad.h"
#include "aclnn_kernels/reshape.h"
#include "aclnn_kernels/slice.h"
#include "aclnn_kernels/transpose.h"
#include "opdev/make_op_executor.h"
#include "opdev/op_dfx.h"
#include "opdev/op_log.h"

namespace l0op {

OP_TYPE_REGISTER(ScaledAdd);

aclnnStatus ScaledAdd(const aclTensor* x, const aclTensor* bias, const aclTensor* limit, float factor, const char* mode,
                      aclTensor*& out, aclOpExecutor* executor)
{
    L0_DFX(ScaledAdd, x, bias, limit, factor, mode);
    out = executor->AllocTensor(x->GetDataType(), op::Format::FORMAT_ND, op::Format::FORMAT_ND);
    const aclIntArray* axes = nullptr;
    aclnnStatus status = INFER_SHAPE(ScaledAdd, OP_INPUT(x, bias, limit), OP_OUTPUT(out), OP_ATTR(factor, mode, axes));
    OP_CHECK_INFERSHAPE(status != ACLNN_SUCCESS, return status, "ScaledAdd: no shape");
    status =
        ADD_TO_LAUNCHER_LIST_AICORE(ScaledAdd, OP_INPUT(x, bias, limit), OP_OUTPUT(out), OP_ATTR(factor, mode, axes));
    OP_CHECK_ADD_TO_LAUNCHER_LIST_AICORE(status != ACLNN_SUCCESS, return status, "ScaledAdd: no task");
    return ACLNN_SUCCESS;
}

}  // namespace l0op

namespace {

bool CheckDtypes(const aclTensor* x, const aclTensor* bias, const aclTensor* out)
{
    const std::initializer_list<op::DataType> supported = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_INT32};
    OP_CHECK_DTYPE_NOT_SUPPORT(x, supported, return false);
    OP_CHECK_DTYPE_NOT_SAME(x, out, return false);
    OP_CHECK_WRONG_DIMENSION(x, 2, return false);
    OP_CHECK_SHAPE_NOT_EQUAL(x, out, return false);
    if (bias != nullptr) {
        OP_CHECK_MAX_DIM(bias, 1, return false);
    }
    return true;
}

/// Row i, column j is row i - 1, column j + 1 of `x`, or zero outside `x`; uses both forms of the functions.
const aclTensor* Shifted(const aclTensor* x, bool isIntoTensors, aclOpExecutor* executor)
{
    const int64_t widths[] = {1, 0, 0, 2};
    const int64_t offsets[] = {0, 1};
    const int64_t order[] = {1, 0};
    const op::Shape shape = x->GetViewShape();
    const int64_t sizes[] = {shape.GetDim(0), shape.GetDim(1)};
    const aclTensor* padded = l0op::Pad(x, executor->AllocHostTensor(widths, 4, ge::DT_INT32), executor);
    if (!isIntoTensors) {
        return l0op::Slice(padded, executor->AllocIntArray(offsets, 2), executor->AllocIntArray(sizes, 2), executor);
    }
    const aclTensor* perm = executor->ConvertToTensor(executor->AllocIntArray(order, 2), ge::DT_INT64);
    const aclTensor* turned = l0op::Transpose(
        padded, executor->AllocTensor(op::Shape{sizes[1] + 2, sizes[0] + 1}, x->GetDataType()), perm, executor);
    const int64_t turnedOffsets[] = {1, 0};
    const int64_t turnedSizes[] = {sizes[1], sizes[0]};
    const aclTensor* part = l0op::Slice(turned, executor->AllocTensor(op::Shape{sizes[1], sizes[0]}, x->GetDataType()),
                                        executor->AllocHostTensor(turnedOffsets, 2, ge::DT_INT64),
                                        executor->AllocHostTensor(turnedSizes, 2, ge::DT_INT64), executor);
    return l0op::Transpose(part, executor->AllocIntArray(order, 2), executor);
}

}  // namespace

aclnnStatus aclnnScaledAddGetWorkspaceSize(const aclTensor* x, const aclTensor* biasOptional,
                                           const aclIntArray* limitOptional, double factor, const char* modeOptional,
                                           aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
{
    OP_CHECK_COMM_INPUT(workspaceSize, executor);
    L2_DFX_PHASE_1(aclnnScaledAdd, DFX_IN(x, biasOptional, limitOptional, factor, modeOptional), DFX_OUT(out));
    auto uniqueExecutor = CREATE_EXECUTOR();
    CHECK_RET(uniqueExecutor.get() != nullptr, ACLNN_ERR_INNER_CREATE_EXECUTOR);
    OP_CHECK_NULL(x, return ACLNN_ERR_PARAM_NULLPTR);
    OP_CHECK_NULL(out, return ACLNN_ERR_PARAM_NULLPTR);
    CHECK_RET(CheckDtypes(x, biasOptional, out), ACLNN_ERR_PARAM_INVALID);

    const char* mode = modeOptional == nullptr ? "plain" : modeOptional;
    const bool isRaw = std::strcmp(mode, "pass strides on") == 0;
    const aclTensor* dense = isRaw ? x : l0op::Contiguous(x, uniqueExecutor.get());
    CHECK_RET(dense != nullptr, ACLNN_ERR_INNER_NULLPTR);
    const aclTensor* bias = biasOptional;
    if (bias != nullptr) {
        bias = l0op::Contiguous(bias, uniqueExecutor.get());
        bias = bias == nullptr ? nullptr : l0op::Cast(bias, x->GetDataType(), uniqueExecutor.get());
        CHECK_RET(bias != nullptr, ACLNN_ERR_INNER_NULLPTR);
    }
    if (std::strncmp(mode, "shifted", 7) == 0) {
        dense = Shifted(dense, std::strcmp(mode, "shifted into tensors") == 0, uniqueExecutor.get());
        CHECK_RET(dense != nullptr, ACLNN_ERR_INNER_NULLPTR);
    }
    if (std::strcmp(mode, "slice too much") == 0) {
        const int64_t zeros[] = {0, 0};
        const int64_t sizes[] = {-1, dense->GetViewShape().GetDim(1) + 1};
        dense = l0op::Slice(dense, uniqueExecutor->AllocIntArray(zeros, 2), uniqueExecutor->AllocIntArray(sizes, 2),
                            uniqueExecutor.get());
        CHECK_RET(dense != nullptr, ACLNN_ERR_INNER_NULLPTR);
    }
    if (std::strcmp(mode, "pad with device values") == 0) {
        CHECK_RET(l0op::Pad(dense, dense, uniqueExecutor.get()) != nullptr, ACLNN_ERR_INNER_NULLPTR);
    }
    const bool isTransposed = std::strcmp(mode, "transposed") == 0;
    if (isTransposed) {
        const int64_t order[] = {1, 0};
        const aclIntArray* perm = uniqueExecutor->AllocIntArray(order, 2);
        const op::Shape flat{-1};
        dense = l0op::Transpose(dense, perm, uniqueExecutor.get());
        const aclTensor* line = l0op::Reshape(dense, flat, uniqueExecutor.get());
        CHECK_RET(line != nullptr, ACLNN_ERR_INNER_NULLPTR);
        dense = l0op::Reshape(line, dense->GetViewShape(), uniqueExecutor.get());
        CHECK_RET(dense != nullptr, ACLNN_ERR_INNER_NULLPTR);
    }
    const aclTensor* limit = nullptr;
    if (limitOptional != nullptr) {
        limit = uniqueExecutor->ConvertToTensor(limitOptional, ge::DT_INT64);
        CHECK_RET(limit != nullptr, ACLNN_ERR_INNER_NULLPTR);
    }
    aclTensor* result = nullptr;
    const aclnnStatus status =
        l0op::ScaledAdd(dense, bias, limit, static_cast<float>(factor), mode, result, uniqueExecutor.get());
    CHECK_RET(status == ACLNN_SUCCESS, status);
    const aclTensor* last = result;
    if (isTransposed) {
        const int64_t order[] = {1, 0};
        last = l0op::Transpose(result, uniqueExecutor->AllocIntArray(order, 2), uniqueExecutor.get());
    }
    CHECK_RET(l0op::ViewCopy(last, out, uniqueExecutor.get()) != nullptr, ACLNN_ERR_INNER_NULLPTR);
    *workspaceSize = uniqueExecutor->GetWorkspaceSize();
    uniqueExecutor.ReleaseTo(executor);
    return ACLNN_SUCCESS;
}

aclnnStatus aclnnScaledAdd(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream)
{
    L2_DFX_PHASE_2(aclnnScaledAdd);
    return CommonOpExecutorRun(workspace, workspaceSize, executor, stream);
}
