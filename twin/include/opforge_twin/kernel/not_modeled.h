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

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_NOT_MODELED_H
