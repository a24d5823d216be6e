#ifndef OP_HOST_ADD_LISTS_TILING_H
#define OP_HOST_ADD_LISTS_TILING_H

#include <algorithm>
#include <cstdint>
#include <vector>

#include "add_lists_problem.h"
#include "add_lists_tiling_data.h"
#include "common/plan.h"

namespace opforge {

/// Cores take tiles of the tensors in turn.
inline Plan<AddListsTilingData> PlanAddLists(const AddListsProblem& problem, const Platform& platform)
{
    constexpr int64_t kTile = 4096;
    int64_t elements = 0;
    int64_t tiles = 0;
    for (const std::vector<int64_t>& dims : problem.xShapes) {
        int64_t size = 1;
        for (const int64_t dim : dims) {
            size *= dim;
        }
        elements += size;
        tiles += (size + kTile - 1) / kTile;
    }
    Plan<AddListsTilingData> plan;
    plan.tilingKey = ADD_LISTS_PLAIN;
    plan.blockNum = std::max<int64_t>(1, std::min(tiles, platform.coreNum));
    plan.data.tile = kTile;
    plan.data.elements = elements;
    return plan;
}

}  // namespace opforge

#endif  // OP_HOST_ADD_LISTS_TILING_H
