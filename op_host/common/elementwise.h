// Shared plan of operators with independent elements: `plan: elementwise`.
#ifndef OPFORGE_OP_HOST_COMMON_ELEMENTWISE_H
#define OPFORGE_OP_HOST_COMMON_ELEMENTWISE_H

#include <algorithm>
#include <cstdint>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "common/tile.h"

namespace opforge {

/// The work to split. The byte counts include all buffers in UB.
struct ElementwiseWork {
    int64_t elements = 0;
    int64_t bytesPerElement = 0;
    int64_t reservedBytes = 0;
};

/// Splits elements into contiguous shares of whole granules: core `b` has the elements from `b * share` to the next
/// share or to the end. The busiest core has the granules of an even split. Without elements, one core has an empty
/// share.
template <typename Data>
constexpr Plan<Data> PlanElementwise(const ElementwiseWork& work, const Platform& platform)
{
    Plan<Data> plan;
    plan.blockNum = 1;
    if (work.elements > tile::kMaxElements) {
        plan.refusal = {"elements", work.elements, tile::kMaxElements};
        return plan;
    }
    const int64_t capacity = tile::UnitsThatFit(work.bytesPerElement, work.reservedBytes, platform);
    if (capacity < tile::kGranule) {
        plan.refusal = tile::TooLarge(tile::kGranule, work.bytesPerElement, work.reservedBytes, platform);
        return plan;
    }
    const int64_t granules = std::max<int64_t>(CeilDiv(work.elements, tile::kGranule), 1);
    const int64_t cores = std::min(platform.coreNum, CeilDiv(work.elements, tile::kMinCoreElements));
    const int64_t share = CeilDiv(granules, std::max<int64_t>(cores, 1)) * tile::kGranule;
    const int64_t whole = RoundDown(capacity, tile::kGranule);
    plan.data.elements = work.elements;
    plan.data.share = share;
    plan.data.tile = static_cast<int32_t>(std::min(whole, tile::InFlight(share, tile::kGranule)));
    plan.data.plannedUbBytes = static_cast<int32_t>(plan.data.tile * work.bytesPerElement + work.reservedBytes);
    plan.blockNum = std::max<int64_t>(CeilDiv(work.elements, share), 1);
    return plan;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_ELEMENTWISE_H
