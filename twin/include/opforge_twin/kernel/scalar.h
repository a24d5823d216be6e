// Constants of the architecture, scalar functions and registers of the scalar unit.
#ifndef OPFORGE_TWIN_KERNEL_SCALAR_H
#define OPFORGE_TWIN_KERNEL_SCALAR_H

#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/std.h"
#include "opforge_twin/kernel/sync.h"

#ifndef K_MAX_SHAPE_DIM
#define K_MAX_SHAPE_DIM 8
#endif
#ifndef likely
#define likely(condition) __builtin_expect(static_cast<bool>(condition), 1)
#define unlikely(condition) __builtin_expect(static_cast<bool>(condition), 0)
#endif

namespace AscendC {

inline constexpr int32_t MIX = 0;
inline constexpr int32_t AIC = 1;
inline constexpr int32_t AIV = 2;
inline constexpr int32_t AIC_TYPE = AIC;
inline constexpr int32_t AIV_TYPE = AIV;

/// The kind of the core. On the device, it is a constant of each of two programs.
struct CoreType {
    constexpr CoreType() = default;
    OPFORGE_API operator int32_t() const
    {
        const twin::ComposedCall call;
        return twin::IsCubeCore() ? AIC : AIV;
    }
};
inline constexpr CoreType g_coreType;

const uint16_t ONE_BLK_SIZE = 32;
const uint8_t BRCB_BROADCAST_NUMBER = 8;
const uint16_t TWO_BLK_SIZE = 64;
const uint16_t VALUE_512 = 512;
const int32_t ONE_REPEAT_BYTE_SIZE = 256;
const int32_t ONE_BYTE_BIT_SIZE = 8;
const int32_t DEFAULT_BLK_NUM = 8;
const int32_t DEFAULT_BLK_STRIDE = 1;
const uint8_t DEFAULT_REPEAT_STRIDE = 8;
const uint8_t ONE_FOURTH_DEFAULT_REPEAT_STRIDE = 2;
const int32_t DEFAULT_BLOCK_SIZE = 256;
const int32_t DEFAULT_C0_SIZE = 32;
const uint8_t DEFAULT_DATA_COPY_NBURST = 1;
const uint8_t DEFAULT_DATA_COPY_STRIDE = 0;
const int32_t BLOCK_CUBE = 16;
const int32_t CUBE_MAX_SIZE = 256;
const int32_t BYTE_PER_FRACTAL = 512;
const int32_t MAX_REPEAT_TIMES = 255;
const int32_t MAX_BLOCK_COUNT = 4095;
const int32_t MAX_BLOCK_LEN = 65535;
const int32_t FULL_MASK_LEN = 128;
const int32_t HALF_MASK_LEN = 64;
const uint64_t FULL_MASK = 0xFFFFFFFFFFFFFFFF;
constexpr uint64_t MASK_PLACEHOLDER = 0;
constexpr uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};
const int32_t HALF_FACTOR = 2;
const int32_t K_MAX_DIM = 8;
const uint8_t PAD_SIZE = 4;
const uint8_t B8_BYTE_SIZE = 1;
const uint8_t B16_BYTE_SIZE = 2;
const uint8_t B32_BYTE_SIZE = 4;
const uint8_t B64_BYTE_SIZE = 8;
const int32_t B32_BIT_SIZE = 32;
const uint8_t B16_DATA_NUM_PER_BLOCK = 16;
const uint8_t B32_DATA_NUM_PER_BLOCK = 8;
const int32_t B16_DATA_NUM_PER_REPEAT = 128;
const int32_t B32_DATA_NUM_PER_REPEAT = 64;
const uint32_t ONE_BLK_HALF_NUM = 16;
const uint32_t ONE_BLK_FLOAT_NUM = 8;
const uint32_t ONE_REPEAT_HALF_SIZE = 128;
const uint32_t ONE_REPEAT_FLOAT_SIZE = 64;
const uint32_t TOTAL_UB_SIZE = 192 * 1024;
const uint32_t TOTAL_L1_SIZE = 512 * 1024;
const uint32_t TOTAL_L0A_SIZE = 64 * 1024;
const uint32_t TOTAL_L0B_SIZE = 64 * 1024;
const uint32_t TOTAL_L0C_SIZE = 128 * 1024;
const uint32_t VECTOR_REG_WIDTH = 256;
// The part of UB that is not temporary memory of functions, and the system part of the workspace.
const int32_t TOTAL_VEC_LOCAL_SIZE = 184 * 1024;
constexpr size_t RESERVED_WORKSPACE = 16 * 1024 * 1024;
// Constants of device headers for TopK that public kernels use.
constexpr uint32_t EIGHT = 8;
constexpr uint32_t SIXTEEN = 16;

constexpr uint32_t DivCeil(uint32_t a, uint32_t b)
{
    return opforge::twin::CeilDiv(a, b);
}

constexpr uint32_t AlignUp(uint32_t a, uint32_t b)
{
    return DivCeil(a, b) * b;
}

inline uint32_t Ceil(uint32_t a, uint32_t b)
{
    return DivCeil(a, b);
}

constexpr int32_t CeilDivision(int32_t a, int32_t b)
{
    return b == 0 ? 0 : opforge::twin::CeilDiv(a, b);
}

constexpr int16_t GetDataBlockSizeInBytes()
{
    return 32;
}

constexpr uint32_t GetVecLen()
{
    return 256;
}

constexpr uint32_t GetUBSizeInBytes()
{
    return TOTAL_UB_SIZE;
}

/// Returns the bytes of the unified buffer that a kernel can use.
inline uint32_t GetRuntimeUBSize()
{
    return twin::UnifiedBufferBytes();
}

/// Counts the bits of `value` that equal `countValue`.
template <int countValue>
int64_t GetBitCount(uint64_t value)
{
    static_assert(countValue == 0 || countValue == 1, "GetBitCount counts bits that are 0 or 1");
    return __builtin_popcountll(countValue == 1 ? value : ~value);
}

inline int64_t CountLeadingZero(uint64_t value)
{
    return value == 0 ? 64 : __builtin_clzll(value);
}

/// Counts the bits after the sign bit that equal it; -1 if all bits are equal.
inline int64_t CountBitsCntSameAsSignBit(int64_t value)
{
    return value == 0 || value == -1 ? -1 : __builtin_clrsbll(value);
}

/// Returns the position of the lowest bit that equals `countValue`, or -1.
template <int countValue>
int64_t GetSFFValue(uint64_t value)
{
    static_assert(countValue == 0 || countValue == 1, "GetSFFValue looks for a bit that is 0 or 1");
    return __builtin_ffsll(static_cast<int64_t>(countValue == 1 ? value : ~value)) - 1;
}

// The names in kernels for earlier releases.
template <int countValue>
int64_t ScalarGetCountOfValue(uint64_t value)
{
    return GetBitCount<countValue>(value);
}
inline int64_t ScalarCountLeadingZero(uint64_t value)
{
    return CountLeadingZero(value);
}
template <int countValue>
int64_t ScalarGetSFFValue(uint64_t value)
{
    return GetSFFValue<countValue>(value);
}

/// Converts a scalar: float to half (CAST_ODD) or to int32_t (CAST_ROUND, CAST_CEIL, CAST_FLOOR, CAST_RINT).
template <typename T, typename U, RoundMode roundMode>
U Cast(T value)
{
    static_assert(std::is_same_v<T, float>, "the scalar Cast converts float");
    if constexpr (std::is_same_v<U, half>) {
        static_assert(roundMode == RoundMode::CAST_ODD, "the scalar Cast to half has mode CAST_ODD only");
        return twin::FromBits<half>(twin::RoundToOddHalf(value));
    } else {
        static_assert(std::is_same_v<U, int32_t>, "the scalar Cast converts to half and int32_t");
        static_assert(roundMode == RoundMode::CAST_ROUND || roundMode == RoundMode::CAST_CEIL ||
                          roundMode == RoundMode::CAST_FLOOR || roundMode == RoundMode::CAST_RINT,
                      "the scalar Cast to int32_t has modes CAST_ROUND, CAST_CEIL, CAST_FLOOR and CAST_RINT");
        return twin::RoundScalar(value, roundMode);
    }
}
template <typename T, typename U, RoundMode roundMode>
U ScalarCast(T value)
{
    return Cast<T, U, roundMode>(value);
}

template <int32_t count>
void Nop()
{
}
/// Loads code into the instruction cache, which the twin does not emulate.
inline void PRELOAD(int64_t /*length*/) {}

/// Sets the registers that a kernel without a TPipe expects.
OPFORGE_API inline void InitSocState()
{
    twin::InitializeCore({"InitSocState", twin::Here()});
}

/// Sets bits of the control register. Bit 48 is 0: infinities of half and bfloat16_t become the largest numbers, NaN
/// becomes 0. It is 1 at the start of a kernel on the twin.
template <int8_t startBit, int8_t endBit>
OPFORGE_API void SetCtrlSpr(int64_t value)
{
    static_assert(startBit == 48 && endBit == 48, "SetCtrlSpr: Ascend 910B has bit 48 only");
    const twin::Call call{"SetCtrlSpr", twin::Here()};
    twin::SetSaturating(twin::Field("value (1 bit)", value, 0, 1, call) == 0, call);
}
template <int8_t startBit, int8_t endBit>
OPFORGE_API int64_t GetCtrlSpr()
{
    static_assert(startBit == 48 && endBit == 48, "GetCtrlSpr: Ascend 910B has bit 48 only");
    return twin::IsSaturating({"GetCtrlSpr", twin::Here()}) ? 0 : 1;
}

enum class SaturationMode : uint8_t { FLOAT, CAST };
/// The same bit for FLOAT. Casts to integers always saturate on the twin.
template <SaturationMode mode>
OPFORGE_API void SetSaturationFlag(bool enableSat)
{
    const twin::Call call{"SetSaturationFlag", twin::Here()};
    if constexpr (mode == SaturationMode::FLOAT) {
        twin::SetSaturating(enableSat, call);
    } else {
        twin::Field("enableSat (casts of the twin saturate)", enableSat ? 1 : 0, 1, 1, call);
    }
}
template <SaturationMode mode>
OPFORGE_API bool GetSaturationFlag()
{
    return mode == SaturationMode::CAST || twin::IsSaturating({"GetSaturationFlag", twin::Here()});
}

/// Returns a count that grows with the instructions of the core: the twin has no clock.
inline int64_t GetSystemCycle()
{
    return twin::SystemCycle();
}
inline int64_t GetProgramCounter()
{
    return twin::SystemCycle();
}
/// Sets the version of the core: 220 on Ascend 910B.
inline void GetArchVersion(uint32_t& coreVersion)
{
    coreVersion = 0x220;
}

/// The argument must be the workspace of the kernel.
OPFORGE_API inline void SetSysWorkspace(GM_ADDR workspace)
{
    twin::SetWorkspace(workspace, {"SetSysWorkspace", twin::Here()});
}
OPFORGE_API inline void SetSysWorkspaceForce(GM_ADDR workspace)
{
    twin::SetWorkspace(workspace, {"SetSysWorkspaceForce", twin::Here()});
}
OPFORGE_API inline void SetSysWorkSpace(GM_ADDR workspace)
{
    twin::SetWorkspace(workspace, {"SetSysWorkSpace", twin::Here()});
}

/// Older names of mask functions and sizes.
class AscendCUtils {
public:
    static int32_t GetBitSize(int32_t byteSize) { return byteSize * ONE_BYTE_BIT_SIZE; }
    static int32_t GetC0Size() { return DEFAULT_C0_SIZE; }
    static int32_t GetC0Count(const int32_t dtypeSize) { return DEFAULT_C0_SIZE / dtypeSize; }
    static int32_t GetDefaultBlockNum() { return DEFAULT_BLK_NUM; }
    template <typename T, bool isSetMask = true>
    OPFORGE_API static void SetMask(const uint64_t& maskHigh, const uint64_t& maskLow)
    {
        const twin::ComposedCall call;
        if constexpr (isSetMask) {
            SetVectorMask<T>(maskHigh, maskLow);
        }
    }
    template <typename T, bool isSetMask = true>
    OPFORGE_API static void SetMask(int32_t len)
    {
        const twin::ComposedCall call;
        if constexpr (isSetMask) {
            SetVectorMask<T>(len);
        }
    }
    template <typename T>
    OPFORGE_API static void SetMaskCount()
    {
        const twin::ComposedCall call;
        AscendC::SetMaskCount();
    }
    template <typename T>
    OPFORGE_API static void SetMaskNorm()
    {
        const twin::ComposedCall call;
        AscendC::SetMaskNorm();
    }
    OPFORGE_API static void ResetMask()
    {
        const twin::ComposedCall call;
        AscendC::ResetMask();
    }
    /// The elements that the last GatherMask kept.
    OPFORGE_API static int64_t GetRsvdCnt() { return twin::CompactedCount({"GetRsvdCnt", twin::Here()}); }
    /// 1 keeps infinities and NaN, 0 replaces them: bit 48 of the control register.
    OPFORGE_API static void SetOverflow(uint64_t ctrlValue)
    {
        twin::SetSaturating(ctrlValue == 0, {"SetOverflow", twin::Here()});
    }
};

}  // namespace AscendC

using AscendC::g_coreType;

/// Functions of the device compiler. Templates for one type, such as those of the standard library, are preferred.
template <typename T, typename U>
constexpr std::common_type_t<T, U> min(const T& a, const U& b)
{
    return b < a ? b : a;
}

template <typename T, typename U>
constexpr std::common_type_t<T, U> max(const T& a, const U& b)
{
    return a < b ? b : a;
}

#endif  // OPFORGE_TWIN_KERNEL_SCALAR_H
