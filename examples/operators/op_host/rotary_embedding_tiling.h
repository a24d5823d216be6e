// Plan of RotaryEmbedding: each core has some positions. A tile is several positions with all heads, or some heads of
// one position.
#ifndef OP_HOST_ROTARY_EMBEDDING_TILING_H
#define OP_HOST_ROTARY_EMBEDDING_TILING_H

#include <algorithm>
#include <cstdint>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "rotary_embedding_problem.h"
#include "rotary_embedding_tiling_data.h"

namespace opforge {

constexpr Plan<RotaryEmbeddingTilingData> PlanRotaryEmbedding(const RotaryEmbeddingProblem& problem,
                                                              const Platform& platform)
{
    constexpr int64_t kMaxElements = int64_t{1} << 58;
    constexpr int64_t kMaxRows = 255;       // repeats of a vector instruction
    constexpr int64_t kElementBytes = 24;   // x, y, the rotated x, the offsets
    constexpr int64_t kPositionBytes = 24;  // cos, sin and both for whole heads, for each element of a head
    constexpr int64_t kTableBytes = 12;     // offsets and signs, for each element of a head
    constexpr int64_t kMinCoreElements = 2048;
    constexpr int64_t kPad = 16;

    Plan<RotaryEmbeddingTilingData> plan;
    plan.blockNum = 1;
    plan.tilingKey = problem.interleaved ? ROTARY_EMBEDDING_NEIGHBOURS : ROTARY_EMBEDDING_HALVES;
    const int64_t positions = SaturatingMul(problem.B, problem.S);
    const int64_t elements = SaturatingMul(SaturatingMul(positions, problem.H), problem.D);
    if (elements > kMaxElements || positions > kMaxElements) {
        plan.refusal = {"elements", std::max(elements, positions), kMaxElements};
        return plan;
    }
    if (elements == 0) {
        return plan;
    }
    const int64_t pitch = RoundUp(problem.D, kPad);
    const int64_t bytes = platform.ubBytes - kTableBytes * pitch;
    const int64_t rowBytes = kElementBytes * pitch;
    const int64_t positionBytes = kPositionBytes * pitch;
    const int64_t heads = std::min({problem.H, (bytes - positionBytes) / rowBytes, kMaxRows});
    if (heads < 1) {
        plan.refusal = {"bytes of the unified buffer", kTableBytes * pitch + positionBytes + rowBytes,
                        platform.ubBytes};
        return plan;
    }
    const int64_t cores = std::min({platform.coreNum, positions, CeilDiv(elements, kMinCoreElements)});
    const int64_t fitting = std::min(bytes / (positionBytes + heads * rowBytes), kMaxRows / heads);
    // Several tiles of a core overlap their loads, computations and stores.
    const int64_t wanted = CeilDiv(CeilDiv(positions, cores), 4);
    plan.data.positions = positions;
    plan.data.sequence = problem.S;
    plan.data.heads = problem.H;
    plan.data.headDim = problem.D;
    plan.data.pitch = static_cast<int32_t>(pitch);
    plan.data.tileHeads = static_cast<int32_t>(heads);
    plan.data.tilePositions =
        static_cast<int32_t>(heads < problem.H ? 1 : std::max<int64_t>(std::min(fitting, wanted), 1));
    plan.blockNum = cores;
    return plan;
}

static_assert(PlanRotaryEmbedding({}, kDefaultPlatform).blockNum == 1, "no elements");

}  // namespace opforge

#endif  // OP_HOST_ROTARY_EMBEDDING_TILING_H
