// The unit flag: Mmad and Fixpipe of one tile of L0C wait for each other without M_FIX and FIX_M.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_UNIT_FLAGS_H
#define OPFORGE_TWIN_KERNEL_ORDER_UNIT_FLAGS_H

#include <cstdint>
#include <map>

#include "kernel/order/order.h"
#include "kernel/timing/timeline.h"

namespace opforge::twin::kernel {

/// Values of the field unitFlag.
inline constexpr int64_t kUnitFlagOff = 0;
inline constexpr int64_t kUnitFlagMore = 2;  ///< more products of the tile follow
inline constexpr int64_t kUnitFlagLast = 3;  ///< the last product, and the Fixpipe

/// A tile that was last used with the flag.
struct FlaggedTile {
    int64_t bytes = 0;
    int64_t flag = kUnitFlagOff;  ///< of its last Mmad; off once it was stored
    Moment done;
    Clock multiplied;  ///< finished instructions after its last Mmad
    Location at;
};

/// By address of the tile.
using UnitFlags = std::map<int64_t, FlaggedTile>;

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_UNIT_FLAGS_H
