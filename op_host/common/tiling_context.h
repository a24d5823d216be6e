#ifndef OPFORGE_OP_HOST_COMMON_TILING_CONTEXT_H
#define OPFORGE_OP_HOST_COMMON_TILING_CONTEXT_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "common/context.h"
#include "common/expression.h"
#include "common/plan.h"
#include "exe_graph/runtime/tiling_context.h"
#include "tiling/platform/platform_ascendc.h"

namespace opforge {

inline int64_t MemoryBytes(const platform_ascendc::PlatformAscendC& platform, platform_ascendc::CoreMemType memory)
{
    uint64_t bytes = 0;
    platform.GetCoreMemSize(memory, bytes);
    return static_cast<int64_t>(bytes);
}

/// Reads the parameters of the chip for plans.
inline Platform ReadPlatform(const platform_ascendc::PlatformAscendC& ascendc)
{
    using platform_ascendc::CoreMemType;
    Platform platform;
    platform.coreNum = static_cast<int64_t>(ascendc.GetCoreNumAiv());
    platform.cubeCoreNum = static_cast<int64_t>(ascendc.GetCoreNumAic());
    platform.ubBytes = MemoryBytes(ascendc, CoreMemType::UB);
    platform.l1Bytes = MemoryBytes(ascendc, CoreMemType::L1);
    platform.l0aBytes = MemoryBytes(ascendc, CoreMemType::L0_A);
    platform.l0bBytes = MemoryBytes(ascendc, CoreMemType::L0_B);
    platform.l0cBytes = MemoryBytes(ascendc, CoreMemType::L0_C);
    platform.l2Bytes = MemoryBytes(ascendc, CoreMemType::L2);
    platform.hasBlockCopyOnly = OPFORGE_HAS_BLOCK_COPY_ONLY(ascendc.GetSocVersion());
    return platform;
}

/// The runtimes require a parse step before tiling. It does nothing, because plans read the platform.
struct NoCompileInfo {};

template <typename Function>
struct NoTilingParse;

template <typename Status, typename Context>
struct NoTilingParse<Status (*)(Context*)> {
    static Status Run(Context* /*context*/) { return ge::GRAPH_SUCCESS; }
};

/// Whether every dimension is known. A plan needs all dimensions.
inline bool AreShapesKnown(std::initializer_list<const Argument*> arguments)
{
    return std::all_of(arguments.begin(), arguments.end(), [](const Argument* argument) {
        const auto isKnown = [](int64_t dim) { return dim >= 0; };
        return std::all_of(argument->dims.begin(), argument->dims.end(), isKnown);
    });
}

/// Writes a value of the expression language to a field; returns false if the value is unknown or does not fit.
template <typename T>
constexpr bool Assign(Int value, T& field)
{
    const int64_t known = value.ValueOr(0);
    field = static_cast<T>(known);
    return value.IsKnown() && static_cast<int64_t>(field) == known && (std::is_signed_v<T> || known >= 0);
}

template <typename T>
constexpr bool Assign(Logic value, T& field)
{
    field = value.IsTrue() ? 1 : 0;
    return value.IsTrue() || value.IsFalse();
}

constexpr bool Assign(Real value, float& field)
{
    field = value.Value();
    return true;
}

constexpr bool AssignSize(Int value, int64_t& size)
{
    return Assign(value, size) && size >= 0;
}

/// Rejects a plan whose tiling key is not the one that the conditions of `tiling.keys` in the spec give.
inline ge::graphStatus RefuseKey(gert::TilingContext* context, const char* opType, uint64_t got, uint64_t expected,
                                 const char* planPath)
{
    return Refuse(context, std::string(opType) + ": tiling key of the plan: got " + std::to_string(got) +
                               ", expected " + std::to_string(expected) +
                               " by the conditions of tiling.keys; correct " + planPath);
}

/// Writes a plan to the context. Reports the limit if the plan is rejected.
template <typename Data>
ge::graphStatus ApplyPlan(gert::TilingContext* context, const platform_ascendc::PlatformAscendC& ascendc,
                          const char* opType, const Plan<Data>& plan, bool usesBarrier)
{
    if (plan.refusal.limit != nullptr) {
        const bool isLimit = plan.refusal.got > plan.refusal.allowed;
        return Refuse(context, std::string(opType) + ": " + plan.refusal.limit +
                                   (isLimit ? ": got " + std::to_string(plan.refusal.got) + ", expected at most " +
                                                  std::to_string(plan.refusal.allowed)
                                            : ""));
    }
    Data* data = context->GetTilingData<Data>();
    size_t* workspace = context->GetWorkspaceSizes(1);
    if (data == nullptr || workspace == nullptr) {
        return Refuse(context, std::string(opType) + ": tiling data: got no memory, expected " +
                                   std::to_string(sizeof(Data)) + " bytes and one workspace");
    }
    *data = plan.data;
    workspace[0] = static_cast<size_t>(ascendc.GetLibApiWorkSpaceSize()) + static_cast<size_t>(plan.workspaceBytes);
    context->SetTilingKey(plan.tilingKey);
    context->SetBlockDim(static_cast<uint32_t>(plan.blockNum));
    if (usesBarrier) {
        context->SetScheduleMode(
            1);  // all cores start together; otherwise a barrier could wait for a core that never starts
    }
    return ge::GRAPH_SUCCESS;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_TILING_CONTEXT_H
