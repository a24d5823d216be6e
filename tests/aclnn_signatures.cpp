// The documented signatures, written down by hand: what the generator makes must be these types exactly.
#include <cstdint>
#include <type_traits>

#include "aclnn_grouped_bias_add_grad.h"
#include "aclnn_grouped_bias_add_grad_v2.h"

template <typename Function>
using Launches = std::is_same<Function, aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream)>;

static_assert(std::is_same_v<decltype(&aclnnGroupedBiasAddGradGetWorkspaceSize),
                             aclnnStatus (*)(const aclTensor* gradY, const aclTensor* groupIdxOptional, aclTensor* out,
                                             uint64_t* workspaceSize, aclOpExecutor** executor)>);
static_assert(Launches<decltype(&aclnnGroupedBiasAddGrad)>::value);

static_assert(
    std::is_same_v<decltype(&aclnnGroupedBiasAddGradV2GetWorkspaceSize),
                   aclnnStatus (*)(const aclTensor* gradY, const aclTensor* groupIdxOptional, int64_t groupIdxType,
                                   aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)>);
static_assert(Launches<decltype(&aclnnGroupedBiasAddGradV2)>::value);
