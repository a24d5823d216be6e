// Messages about two unordered accesses.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_RACE_H
#define OPFORGE_TWIN_KERNEL_ORDER_RACE_H

#include <string>

#include "kernel/order/local_order.h"
#include "kernel/exec/sites.h"

namespace opforge::twin::kernel {

/// `other` names the block of the conflict; `memory` names the object that contains its bytes, which start at `begin`.
std::string DescribeRace(const Access& access, const Conflict& conflict, const Site& earlier, bool isSameCore,
                         const std::string& other, const std::string& memory, int64_t begin);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_RACE_H
