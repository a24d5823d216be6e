// The input and the output of every plan. A plan is a C++17 function from shapes and a platform to tiling data.
#ifndef OPFORGE_OP_HOST_COMMON_PLAN_H
#define OPFORGE_OP_HOST_COMMON_PLAN_H

#include <cstdint>

#include "common/arithmetic.h"
#include "opforge_tables.h"

namespace opforge {

/// Returns the bytes of one element; 0 for kNone.
constexpr int64_t SizeOf(DataType dtype)
{
    for (const DtypeFacts& facts : kDtypes) {
        if (facts.dtype == dtype) {
            return facts.bytes;
        }
    }
    return 0;
}

/// The resources of a plan: number of cores that can run at the same time, bytes of on-chip memory per core.
struct Platform {
    int64_t coreNum = 0;  // vector cores
    int64_t cubeCoreNum = 0;
    int64_t ubBytes = 0;
    int64_t l1Bytes = 0;
    int64_t l0aBytes = 0;
    int64_t l0bBytes = 0;
    int64_t l0cBytes = 0;
    int64_t l2Bytes = 0;
    bool hasBlockCopyOnly = false;  // DMA moves whole blocks of 32 bytes between GM and UB (Ascend 910)
};

inline constexpr Platform kDefaultPlatform = OPFORGE_DEFAULT_PLATFORM;

/// The limit that a problem exceeds: its name, the required value and the maximum.
struct Refusal {
    const char* limit = nullptr;  // nullptr: accepted; the complete message if `got` is allowed
    int64_t got = 0;
    int64_t allowed = 0;
};

template <typename Data>
struct Plan {
    Data data;
    int64_t blockNum = 0;
    uint64_t tilingKey = 0;
    int64_t workspaceBytes = 0;  // workspace of the kernel, without the workspace of the system
    Refusal refusal;
};

inline constexpr int64_t kGmSectorBytes = 128;  // unit of GM traffic

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_PLAN_H
