// Names of public headers that the twin does not model, or that Ascend 910B does not have: a use is one compile error.
#ifndef OPFORGE_TWIN_KERNEL_NOT_MODELED_H
#define OPFORGE_TWIN_KERNEL_NOT_MODELED_H

#include "opforge_twin/kernel/high/sort_modes.h"
#include "opforge_twin/kernel/pipe.h"

#define OPFORGE_NO_GROUPS "the twin does not model groups of cube cores; use the Matmul API or CrossCoreSetFlag"

namespace AscendC {

template <typename CubeMsgType>
class CubeResGroupHandle {
    static_assert(sizeof(CubeMsgType) == 0, "CubeResGroupHandle: " OPFORGE_NO_GROUPS);
};

template <int groupID, class MatmulApiType, template <class, class> class CallBack, typename CubeMsgType,
          typename Workspace>
CubeResGroupHandle<CubeMsgType> CreateCubeResGroup(Workspace& /*desc*/, uint8_t /*blockStart*/, uint8_t /*blockSize*/,
                                                   uint8_t /*msgQueueSize*/, GM_ADDR /*tiling*/)
{
    static_assert(groupID != groupID, "CreateCubeResGroup: " OPFORGE_NO_GROUPS);
    return {};
}

class KfcWorkspace {
public:
    template <typename T>
    explicit KfcWorkspace(T* /*workspace*/)
    {
        static_assert(sizeof(T) == 0, "KfcWorkspace: " OPFORGE_NO_GROUPS);
    }
};

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

}  // namespace AscendC

#undef OPFORGE_NO_GROUPS

#endif  // OPFORGE_TWIN_KERNEL_NOT_MODELED_H
