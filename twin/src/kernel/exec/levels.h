// The levels in which a check is active: twin/check_levels.json. Checks that are not in the table are active in all
// levels.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_LEVELS_H
#define OPFORGE_TWIN_KERNEL_EXEC_LEVELS_H

#include "opforge_twin/launch.h"

namespace opforge::twin::kernel {

struct CheckLevels {
    bool strict;
    bool device;
    bool fast;

    constexpr bool Has(Level level) const
    {
        return level == Level::kStrict ? strict : level == Level::kDevice ? device : fast;
    }
};

#define OPFORGE_CHECK(name, strict, device, fast) inline constexpr CheckLevels name{strict, device, fast};
#include "check_levels.inc"
#undef OPFORGE_CHECK

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_LEVELS_H
