// Checks of the arguments of aclnn functions. Each check logs the problem, then executes `retExpr` (a return
// statement). The last two macros take the failure condition, as on CANN.
#ifndef ACLNN_KERNELS_COMMON_OP_ERROR_CHECK_H
#define ACLNN_KERNELS_COMMON_OP_ERROR_CHECK_H

#include "opdev/common_types.h"
#include "opdev/data_type_utils.h"
#include "opdev/op_log.h"
#include "opdev/shape_utils.h"

#define OP_CHECK_NULL(param, retExpr)                                                   \
    do {                                                                                \
        if ((param) == nullptr) {                                                       \
            OP_LOGE(ACLNN_ERR_PARAM_NULLPTR, "%s: got null, expected a value", #param); \
            retExpr;                                                                    \
        }                                                                               \
    } while (false)

#define OP_CHECK_DTYPE_NOT_SUPPORT(tensor, supportList, retExpr)                                               \
    do {                                                                                                       \
        if (!op::CheckType((tensor)->GetDataType(), supportList)) {                                            \
            OP_LOGE(ACLNN_ERR_PARAM_INVALID, "%s: got dtype %s, expected one of %s", #tensor,                  \
                    op::ToString((tensor)->GetDataType()).GetString(), op::ToString(supportList).GetString()); \
            retExpr;                                                                                           \
        }                                                                                                      \
    } while (false)

#define OP_CHECK_DTYPE_NOT_MATCH(tensor, expectedDtype, retExpr)                                                 \
    do {                                                                                                         \
        if ((tensor)->GetDataType() != (expectedDtype)) {                                                        \
            OP_LOGE(ACLNN_ERR_PARAM_INVALID, "%s: got dtype %s, expected %s", #tensor,                           \
                    op::ToString((tensor)->GetDataType()).GetString(), op::ToString(expectedDtype).GetString()); \
            retExpr;                                                                                             \
        }                                                                                                        \
    } while (false)

#define OP_CHECK_DTYPE_NOT_SAME(tensor1, tensor2, retExpr)                                                             \
    do {                                                                                                               \
        if ((tensor1)->GetDataType() != (tensor2)->GetDataType()) {                                                    \
            OP_LOGE(ACLNN_ERR_PARAM_INVALID, "%s and %s: got dtypes %s and %s, expected the same", #tensor1, #tensor2, \
                    op::ToString((tensor1)->GetDataType()).GetString(),                                                \
                    op::ToString((tensor2)->GetDataType()).GetString());                                               \
            retExpr;                                                                                                   \
        }                                                                                                              \
    } while (false)

#define OP_CHECK_SHAPE_NOT_EQUAL(tensor1, tensor2, retExpr)                                                            \
    do {                                                                                                               \
        if ((tensor1)->GetViewShape() != (tensor2)->GetViewShape()) {                                                  \
            OP_LOGE(ACLNN_ERR_PARAM_INVALID, "%s and %s: got shapes %s and %s, expected the same", #tensor1, #tensor2, \
                    op::ToString((tensor1)->GetViewShape()).GetString(),                                               \
                    op::ToString((tensor2)->GetViewShape()).GetString());                                              \
            retExpr;                                                                                                   \
        }                                                                                                              \
    } while (false)

#define OP_CHECK_SHAPE_NOT_EQUAL_WITH_EXPECTED_SIZE(tensor, shape, retExpr)                               \
    do {                                                                                                  \
        if ((tensor)->GetViewShape() != (shape)) {                                                        \
            OP_LOGE(ACLNN_ERR_PARAM_INVALID, "%s: got shape %s, expected %s", #tensor,                    \
                    op::ToString((tensor)->GetViewShape()).GetString(), op::ToString(shape).GetString()); \
            retExpr;                                                                                      \
        }                                                                                                 \
    } while (false)

#define OP_CHECK_WRONG_DIMENSION(tensor, expectedDimNum, retExpr)                               \
    do {                                                                                        \
        if ((tensor)->GetViewShape().GetDimNum() != static_cast<size_t>(expectedDimNum)) {      \
            OP_LOGE(ACLNN_ERR_PARAM_INVALID, "%s: got %zu dims, expected %zu", #tensor,         \
                    (tensor)->GetViewShape().GetDimNum(), static_cast<size_t>(expectedDimNum)); \
            retExpr;                                                                            \
        }                                                                                       \
    } while (false)

#define OP_CHECK_MAX_DIM(tensor, maxDim, retExpr)                                               \
    do {                                                                                        \
        if ((tensor)->GetViewShape().GetDimNum() > static_cast<size_t>(maxDim)) {               \
            OP_LOGE(ACLNN_ERR_PARAM_INVALID, "%s: got %zu dims, expected at most %zu", #tensor, \
                    (tensor)->GetViewShape().GetDimNum(), static_cast<size_t>(maxDim));         \
            retExpr;                                                                            \
        }                                                                                       \
    } while (false)

#define OP_CHECK_MIN_DIM(tensor, minDim, retExpr)                                                \
    do {                                                                                         \
        if ((tensor)->GetViewShape().GetDimNum() < static_cast<size_t>(minDim)) {                \
            OP_LOGE(ACLNN_ERR_PARAM_INVALID, "%s: got %zu dims, expected at least %zu", #tensor, \
                    (tensor)->GetViewShape().GetDimNum(), static_cast<size_t>(minDim));          \
            retExpr;                                                                             \
        }                                                                                        \
    } while (false)

#define OP_CHECK_BROADCAST(tensor1, tensor2, retExpr)                                                            \
    do {                                                                                                         \
        if (!op::CheckBroadcastShape((tensor1)->GetViewShape(), (tensor2)->GetViewShape())) {                    \
            OP_LOGE(ACLNN_ERR_PARAM_INVALID, "%s and %s: shapes %s and %s do not broadcast", #tensor1, #tensor2, \
                    op::ToString((tensor1)->GetViewShape()).GetString(),                                         \
                    op::ToString((tensor2)->GetViewShape()).GetString());                                        \
            retExpr;                                                                                             \
        }                                                                                                        \
    } while (false)

#define OP_CHECK_BROADCAST_AND_INFER_SHAPE(tensor1, tensor2, retShape, retExpr)                  \
    do {                                                                                         \
        OP_CHECK_BROADCAST(tensor1, tensor2, retExpr);                                           \
        op::BroadcastInferShape((tensor1)->GetViewShape(), (tensor2)->GetViewShape(), retShape); \
    } while (false)

#define OP_CHECK_COMM_INPUT(workspaceSize, executor)                  \
    do {                                                              \
        OP_CHECK_NULL(workspaceSize, return ACLNN_ERR_PARAM_NULLPTR); \
        OP_CHECK_NULL(executor, return ACLNN_ERR_PARAM_NULLPTR);      \
    } while (false)

#define OP_CHECK_ADD_TO_LAUNCHER_LIST_AICORE(cond, retExpr, errMsg, ...) \
    do {                                                                 \
        if (cond) {                                                      \
            OP_LOGE(ACLNN_ERR_INNER, errMsg, ##__VA_ARGS__);             \
            retExpr;                                                     \
        }                                                                \
    } while (false)

#define OP_CHECK_INFERSHAPE(cond, retExpr, errMsg, ...)                       \
    do {                                                                      \
        if (cond) {                                                           \
            OP_LOGE(ACLNN_ERR_INNER_INFERSHAPE_ERROR, errMsg, ##__VA_ARGS__); \
            retExpr;                                                          \
        }                                                                     \
    } while (false)

#endif  // ACLNN_KERNELS_COMMON_OP_ERROR_CHECK_H
