// The documented signatures, written by hand: the generated functions must have exactly these types.
#include <cstdint>
#include <type_traits>

#include "aclnn_batch_norm_elemt_backward.h"
#include "aclnn_conv_tbc_backward.h"
#include "aclnn_embedding_dense_backward.h"
#include "aclnn_grouped_bias_add_grad.h"
#include "aclnn_grouped_bias_add_grad_v2.h"
#include "aclnn_nsa_compress_grad.h"

static_assert(std::is_same_v<decltype(&aclnnGroupedBiasAddGradGetWorkspaceSize),
                             aclnnStatus (*)(const aclTensor* gradY, const aclTensor* groupIdxOptional, aclTensor* out,
                                             uint64_t* workspaceSize, aclOpExecutor** executor)>);
static_assert(
    std::is_same_v<decltype(&aclnnGroupedBiasAddGrad), aclnnStatus (*)(void* workspace, uint64_t workspaceSize,
                                                                       aclOpExecutor* executor, aclrtStream stream)>);

static_assert(
    std::is_same_v<decltype(&aclnnGroupedBiasAddGradV2GetWorkspaceSize),
                   aclnnStatus (*)(const aclTensor* gradY, const aclTensor* groupIdxOptional, int64_t groupIdxType,
                                   aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)>);
static_assert(
    std::is_same_v<decltype(&aclnnGroupedBiasAddGradV2), aclnnStatus (*)(void* workspace, uint64_t workspaceSize,
                                                                         aclOpExecutor* executor, aclrtStream stream)>);

static_assert(
    std::is_same_v<decltype(&aclnnNsaCompressGradGetWorkspaceSize),
                   aclnnStatus (*)(const aclTensor* outputGrad, const aclTensor* input, const aclTensor* weight,
                                   const aclIntArray* actSeqLenOptionalOptional, int64_t compressBlockSize,
                                   int64_t compressStride, int64_t actSeqLenType, char* layoutOptionalOptional,
                                   const aclTensor* inputGradOut, const aclTensor* weightGradOut,
                                   uint64_t* workspaceSize, aclOpExecutor** executor)>);
static_assert(
    std::is_same_v<decltype(&aclnnNsaCompressGrad), aclnnStatus (*)(void* workspace, uint64_t workspaceSize,
                                                                    aclOpExecutor* executor, aclrtStream stream)>);

static_assert(std::is_same_v<decltype(&aclnnEmbeddingDenseBackwardGetWorkspaceSize),
                             aclnnStatus (*)(const aclTensor* grad, const aclTensor* indices, uint64_t numWeights,
                                             uint64_t paddingIdx, bool scaleGradByFreq, const aclTensor* out,
                                             uint64_t* workspaceSize, aclOpExecutor** executor)>);
static_assert(std::is_same_v<decltype(&aclnnEmbeddingDenseBackward),
                             aclnnStatus (*)(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             const aclrtStream stream)>);

static_assert(std::is_same_v<decltype(&aclnnConvTbcBackwardGetWorkspaceSize),
                             aclnnStatus (*)(const aclTensor* self, const aclTensor* input, const aclTensor* weight,
                                             const aclTensor* bias, int64_t pad, int8_t cubeMathType,
                                             aclTensor* gradInput, aclTensor* gradWeight, aclTensor* gradBias,
                                             uint64_t* workspaceSize, aclOpExecutor** executor)>);
static_assert(
    std::is_same_v<decltype(&aclnnConvTbcBackward), aclnnStatus (*)(void* workspace, uint64_t workspaceSize,
                                                                    aclOpExecutor* executor, aclrtStream stream)>);

static_assert(std::is_same_v<decltype(&aclnnBatchNormElemtBackwardGetWorkspaceSize),
                             aclnnStatus (*)(const aclTensor* gradOut, const aclTensor* input, const aclTensor* mean,
                                             const aclTensor* invstd, const aclTensor* weight, const aclTensor* sumDy,
                                             const aclTensor* sumDyXmu, aclTensor* counter, aclTensor* gradInput,
                                             uint64_t* workspaceSize, aclOpExecutor** executor)>);
static_assert(std::is_same_v<decltype(&aclnnBatchNormElemtBackward),
                             aclnnStatus (*)(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             const aclrtStream stream)>);
