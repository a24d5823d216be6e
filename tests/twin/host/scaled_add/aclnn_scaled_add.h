#ifndef ACLNN_SCALED_ADD_H
#define ACLNN_SCALED_ADD_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((visibility("default"))) aclnnStatus aclnnScaledAddGetWorkspaceSize(
    const aclTensor* x, const aclTensor* biasOptional, const aclIntArray* limitOptional, double factor,
    const char* modeOptional, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
__attribute__((visibility("default"))) aclnnStatus aclnnScaledAdd(void* workspace, uint64_t workspaceSize,
                                                                  aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNN_SCALED_ADD_H
