// Axes of reductions. A is an axis that stays, R an axis that is reduced. Kernels and host code use these names.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_PATTERN_H
#define OPFORGE_TWIN_KERNEL_HIGH_PATTERN_H

#include <cstdint>

namespace AscendC {

enum class ReducePattern : uint32_t { AR = 0, RA = 1, R };

namespace Pattern::Reduce {

struct AR {};
struct RA {};

}  // namespace Pattern::Reduce

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_PATTERN_H
