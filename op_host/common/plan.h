// What every plan takes and gives. Pure C++17: a plan is a function from shapes and a platform to tiling data.
#ifndef OPFORGE_OP_HOST_COMMON_PLAN_H
#define OPFORGE_OP_HOST_COMMON_PLAN_H

#include <cstdint>

namespace opforge {

/// Numbers of ge::DataType; kNone: the tensor is absent.
enum class DataType : int32_t {
    kNone = -1,
    kFloat32 = 0,
    kFloat16 = 1,
    kInt8 = 2,
    kInt32 = 3,
    kUint8 = 4,
    kInt16 = 6,
    kUint16 = 7,
    kUint32 = 8,
    kInt64 = 9,
    kUint64 = 10,
    kDouble = 11,
    kBool = 12,
    kBfloat16 = 27,
};

/// Bytes of one element; 0 for kNone.
constexpr int64_t SizeOf(DataType dtype)
{
    switch (dtype) {
        case DataType::kNone:
            return 0;
        case DataType::kInt8:
        case DataType::kUint8:
        case DataType::kBool:
            return 1;
        case DataType::kFloat16:
        case DataType::kBfloat16:
        case DataType::kInt16:
        case DataType::kUint16:
            return 2;
        case DataType::kFloat32:
        case DataType::kInt32:
        case DataType::kUint32:
            return 4;
        case DataType::kInt64:
        case DataType::kUint64:
        case DataType::kDouble:
            return 8;
    }
    return 0;
}

/// What a plan may use: cores that can be launched at once, bytes of on-chip memory of one core.
struct Platform {
    int64_t coreNum = 0;  // vector cores
    int64_t cubeCoreNum = 0;
    int64_t ubBytes = 0;
    int64_t l1Bytes = 0;
    int64_t l0aBytes = 0;
    int64_t l0bBytes = 0;
    int64_t l0cBytes = 0;
    int64_t l2Bytes = 0;
};

/// Why a problem cannot be planned: the limit by name, what the problem needs, what there is.
struct Refusal {
    const char* limit = nullptr;  // nullptr: accepted
    int64_t got = 0;
    int64_t allowed = 0;
};

template <typename Data>
struct Plan {
    Data data;
    int64_t blockNum = 0;
    uint64_t tilingKey = 0;
    int64_t workspaceBytes = 0;  // of the kernel itself; the system's part comes on top
    Refusal refusal;
};

inline constexpr int64_t kUbBlockBytes = 32;    // unit of alignment in UB
inline constexpr int64_t kGmSectorBytes = 128;  // unit of traffic of GM

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_PLAN_H
