// Names of public headers that the twin does not model, or that Ascend 910B does not have: a use is one compile error.
#ifndef OPFORGE_TWIN_KERNEL_NOT_MODELED_H
#define OPFORGE_TWIN_KERNEL_NOT_MODELED_H

#include "opforge_twin/kernel/high/sort_modes.h"
#include "opforge_twin/kernel/pipe.h"

namespace AscendC {

struct ClampConfig {
    bool isReuseSource;
};
inline constexpr ClampConfig DEFAULT_CLAMP_CONFIG{false};

template <const ClampConfig& config = DEFAULT_CLAMP_CONFIG, typename T, typename U, typename S>
void Clamp(const LocalTensor<T>& /*dst*/, const LocalTensor<T>& /*src*/, const U& /*min*/, const S& /*max*/,
           const uint32_t /*count*/)
{
    static_assert(sizeof(T) == 0, "Clamp: Ascend 910B does not have it; use ClampMin and ClampMax");
}

#define OPFORGE_NO_SORT "Sort: Ascend 910B does not have SortConfig; use Concat and Sort without it"
template <typename T, bool isReuseSource, const SortConfig& config, typename... Operands>
void Sort(const Operands&... /*operands*/)
{
    static_assert(sizeof(T) == 0, OPFORGE_NO_SORT);
}

template <typename T, typename U, bool isReuseSource, const SortConfig& config, typename... Operands>
void Sort(const Operands&... /*operands*/)
{
    static_assert(sizeof(T) == 0, OPFORGE_NO_SORT);
}
#undef OPFORGE_NO_SORT

#define OPFORGE_NO_EXTREME(name)                                                                          \
    template <typename T>                                                                                 \
    void name(T& /*maxMinValue*/)                                                                         \
    {                                                                                                     \
        static_assert(sizeof(T) == 0, #name ": Ascend 910B does not have it with one operand; use " #name \
                                            "(maxMinValue, maxMinIndex)");                                \
    }
OPFORGE_NO_EXTREME(GetReduceRepeatMaxMinSpr)
OPFORGE_NO_EXTREME(GetReduceMaxMinCount)
#undef OPFORGE_NO_EXTREME

struct LoadData2dTransposeParamsV2 {
    uint16_t startIndex = 0;
    uint8_t repeatTimes = 0;
    uint16_t srcStride = 0;
    uint16_t dstGap = 0;
    uint16_t dstFracGap = 0;
    uint16_t srcFracGap = 0;
    uint8_t addrMode = 0;

    LoadData2dTransposeParamsV2() {}
    LoadData2dTransposeParamsV2(uint16_t /*startIndex*/, uint8_t /*repeatTimes*/, uint16_t /*srcStride*/,
                                uint16_t /*dstGap*/, uint16_t /*dstFracGap*/, uint16_t /*srcFracGap*/,
                                uint8_t /*addrMode*/ = 0)
    {
    }
};

template <typename T>
void LoadDataWithTranspose(const LocalTensor<T>& /*dst*/, const LocalTensor<T>& /*src*/,
                           const LoadData2dTransposeParamsV2& /*loadDataParams*/)
{
    static_assert(sizeof(T) == 0,
                  "LoadDataWithTranspose: Ascend 910B does not have LoadData2dTransposeParamsV2; use "
                  "LoadData2dTransposeParams");
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_NOT_MODELED_H
