// Selection by masks, dropout, and the largest or smallest elements of rows.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_CHOICE_H
#define OPFORGE_TWIN_KERNEL_HIGH_CHOICE_H

#include "opforge_twin/high_tiling.h"
#include "opforge_twin/kernel/high/composite.h"
#include "opforge_twin/kernel/high/sort_modes.h"

namespace AscendC {

struct DropOutShapeInfo {
    DropOutShapeInfo() {}
    uint32_t firstAxis = 0;
    uint32_t srcLastAxis = 0;
    uint32_t maskLastAxis = 0;
};
struct SelectWithBytesMaskShapeInfo {
    SelectWithBytesMaskShapeInfo() {}
    uint32_t firstAxis = 0;
    uint32_t srcLastAxis = 0;
    uint32_t maskLastAxis = 0;
};
struct TopKInfo {
    int32_t outter = 1;
    int32_t inner;
    int32_t n;
};

#include "opforge_twin/kernel/high/forms.inc"

#define OPFORGE_DROPOUT(tmpParameter, tmp)                                                                           \
    template <typename T, bool isInitBitMode = false, uint32_t dropOutMode = 0>                                      \
    OPFORGE_API void DropOut(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal,                         \
                             const LocalTensor<uint8_t>& maskLocal, OPFORGE_GIVEN tmpParameter const float keepProb, \
                             const DropOutShapeInfo& info)                                                           \
    {                                                                                                                \
        twin::RequireDtype<T, half, float>();                                                                        \
        twin::RunHigh({twin::HighOp::kDropOut,                                                                       \
                       {&dstLocal.View(), &srcLocal.View(), &maskLocal.View()},                                      \
                       tmp,                                                                                          \
                       {info.firstAxis, info.srcLastAxis, info.maskLastAxis, dropOutMode},                           \
                       {keepProb}},                                                                                  \
                      OPFORGE_HIGH_CALL(DropOut));                                                                   \
    }
OPFORGE_BOTH(OPFORGE_DROPOUT)
#undef OPFORGE_DROPOUT

// A mask of 0 selects src0, another mask src1.
#define OPFORGE_SELECT(name, firstType, secondType, tensor, number, isFirst)                                      \
    template <typename T, typename U, bool isReuseMask = true>                                                    \
    OPFORGE_API void name(const LocalTensor<T>& dst, firstType src0, secondType src1, const LocalTensor<U>& mask, \
                          const LocalTensor<uint8_t>& sharedTmpBuffer, const SelectWithBytesMaskShapeInfo& info)  \
    {                                                                                                             \
        twin::RequireDtype<T, half, float>();                                                                     \
        twin::RequireDtype<U, bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t>();                     \
        twin::RunHigh({twin::HighOp::kSelect,                                                                     \
                       {&dst.View(), &tensor.View(), &mask.View()},                                               \
                       &sharedTmpBuffer.View(),                                                                   \
                       {info.firstAxis, info.srcLastAxis, info.maskLastAxis, isFirst},                            \
                       {twin::NumberOf(number)}},                                                                 \
                      OPFORGE_HIGH_CALL(name));                                                                   \
    }
OPFORGE_SELECT(Select, const LocalTensor<T>&, T, src0, src1, 1)
OPFORGE_SELECT(Select, T, const LocalTensor<T>&, src1, src0, 0)
OPFORGE_SELECT(SelectWithBytesMask, const LocalTensor<T>&, T, src0, src1, 1)
OPFORGE_SELECT(SelectWithBytesMask, T, const LocalTensor<T>&, src1, src0, 0)
#undef OPFORGE_SELECT

#define OPFORGE_TOPK(tmpParameter, tmp)                                                                         \
    template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,          \
              enum TopKMode topkMode = TopKMode::TOPK_NORMAL>                                                   \
    OPFORGE_API void TopK(const LocalTensor<T>& dstValueLocal, const LocalTensor<int32_t>& dstIndexLocal,       \
                          const LocalTensor<T>& srcLocal, const LocalTensor<int32_t>& srcIndexLocal,            \
                          const LocalTensor<bool>& finishLocal, OPFORGE_GIVEN tmpParameter const int32_t k,     \
                          const TopkTiling& /*tilling*/, const TopKInfo& topKInfo, const bool isLargest = true) \
    {                                                                                                           \
        twin::RequireDtype<T, half, float>();                                                                   \
        twin::RunHigh(                                                                                          \
            {twin::HighOp::kTopK,                                                                               \
             {&dstValueLocal.View(), &dstIndexLocal.View(), &srcLocal.View(),                                   \
              isInitIndex ? &srcIndexLocal.View() : nullptr, isHasfinish ? &finishLocal.View() : nullptr},      \
             tmp,                                                                                               \
             {k, topKInfo.outter, topKInfo.inner, topKInfo.n, topkMode == TopKMode::TOPK_NSMALL, isLargest}},   \
            OPFORGE_HIGH_CALL(TopK));                                                                           \
    }
OPFORGE_BOTH(OPFORGE_TOPK)
#undef OPFORGE_TOPK
#include "opforge_twin/kernel/high/forms_end.inc"

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_CHOICE_H
