// Tiling templates: the template parameters of a kernel, their combinations, and the tiling key of a combination.
#ifndef ASCENDC_HOST_API_TILING_TEMPLATE_ARGUMENT_H
#define ASCENDC_HOST_API_TILING_TEMPLATE_ARGUMENT_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#define ASCENDC_TPL_AIV_ONLY 0
#define ASCENDC_TPL_AIC_ONLY 1
#define ASCENDC_TPL_MIX_AIV_1_0 4
#define ASCENDC_TPL_MIX_AIC_1_0 5
#define ASCENDC_TPL_MIX_AIC_1_1 6
#define ASCENDC_TPL_MIX_AIC_1_2 7
#define ASCENDC_TPL_AICORE 8
#define ASCENDC_TPL_VECTORCORE 9
#define ASCENDC_TPL_MIX_AICORE 10
#define ASCENDC_TPL_MIX_VECTOR_CORE 11

#define ASCENDC_TPL_1_BW 1
#define ASCENDC_TPL_2_BW 2
#define ASCENDC_TPL_4_BW 4
#define ASCENDC_TPL_8_BW 8

#define ASCENDC_TPL_DTYPE 0
#define ASCENDC_TPL_FORMAT 1
#define ASCENDC_TPL_UINT 2
#define ASCENDC_TPL_BOOL 3
#define ASCENDC_TPL_KERNEL_TYPE 4
#define ASCENDC_TPL_DETERMINISTIC 5
#define ASCENDC_TPL_SHARED_KERNEL_TYPE 6

#define ASCENDC_TPL_UI_RANGE 0
#define ASCENDC_TPL_UI_LIST 1
#define ASCENDC_TPL_UI_MIX 2

#define ASCENDC_TPL_INPUT(index) (100000000 + (index))
#define ASCENDC_TPL_OUTPUT(index) (900000000 + (index))

// The numbers of ge::DataType and ge::Format, for kernels too.
enum OpforgeTemplateDtype : uint64_t {
    C_DT_FLOAT = 0,
    C_DT_FLOAT16 = 1,
    C_DT_INT8 = 2,
    C_DT_INT32 = 3,
    C_DT_UINT8 = 4,
    C_DT_INT16 = 6,
    C_DT_UINT16 = 7,
    C_DT_UINT32 = 8,
    C_DT_INT64 = 9,
    C_DT_UINT64 = 10,
    C_DT_DOUBLE = 11,
    C_DT_BOOL = 12,
    C_DT_COMPLEX64 = 16,
    C_DT_COMPLEX128 = 17,
    C_DT_QINT8 = 18,
    C_DT_QINT16 = 19,
    C_DT_QINT32 = 20,
    C_DT_QUINT8 = 21,
    C_DT_QUINT16 = 22,
    C_DT_BF16 = 27,
    C_DT_INT4 = 29,
    C_DT_UINT1 = 30,
    C_DT_INT2 = 31,
    C_DT_UINT2 = 32,
    C_DT_COMPLEX32 = 33,
    C_DT_HIFLOAT8 = 34,
    C_DT_FLOAT8_E5M2 = 35,
    C_DT_FLOAT8_E4M3FN = 36,
    C_DT_FLOAT8_E8M0 = 37,
    C_DT_FLOAT6_E3M2 = 38,
    C_DT_FLOAT6_E2M3 = 39,
    C_DT_FLOAT4_E2M1 = 40,
    C_DT_FLOAT4_E1M2 = 41,
    C_DT_HIFLOAT4 = 42,
};
enum OpforgeTemplateFormat : uint64_t {
    C_FORMAT_NCHW = 0,
    C_FORMAT_NHWC = 1,
    C_FORMAT_ND = 2,
    C_FORMAT_NC1HWC0 = 3,
    C_FORMAT_FRACTAL_Z = 4,
    C_FORMAT_NC1C0HWPAD = 5,
    C_FORMAT_NHWC1C0 = 6,
    C_FORMAT_FSR_NCHW = 7,
    C_FORMAT_FRACTAL_DECONV = 8,
    C_FORMAT_C1HWNC0 = 9,
    C_FORMAT_FRACTAL_DECONV_TRANSPOSE = 10,
    C_FORMAT_FRACTAL_DECONV_SP_STRIDE_TRANS = 11,
    C_FORMAT_NC1HWC0_C04 = 12,
    C_FORMAT_FRACTAL_Z_C04 = 13,
    C_FORMAT_CHWN = 14,
    C_FORMAT_FRACTAL_DECONV_SP_STRIDE8_TRANS = 15,
    C_FORMAT_HWCN = 16,
    C_FORMAT_NC1KHKWHWC0 = 17,
    C_FORMAT_BN_WEIGHT = 18,
    C_FORMAT_FILTER_HWCK = 19,
    C_FORMAT_HASHTABLE_LOOKUP_LOOKUPS = 20,
    C_FORMAT_HASHTABLE_LOOKUP_KEYS = 21,
    C_FORMAT_HASHTABLE_LOOKUP_VALUE = 22,
    C_FORMAT_HASHTABLE_LOOKUP_OUTPUT = 23,
    C_FORMAT_HASHTABLE_LOOKUP_HITS = 24,
    C_FORMAT_C1HWNCoC0 = 25,
    C_FORMAT_MD = 26,
    C_FORMAT_NDHWC = 27,
    C_FORMAT_FRACTAL_ZZ = 28,
    C_FORMAT_FRACTAL_NZ = 29,
    C_FORMAT_NCDHW = 30,
    C_FORMAT_DHWCN = 31,
    C_FORMAT_NDC1HWC0 = 32,
    C_FORMAT_FRACTAL_Z_3D = 33,
    C_FORMAT_CN = 34,
    C_FORMAT_NC = 35,
    C_FORMAT_DHWNC = 36,
    C_FORMAT_FRACTAL_Z_3D_TRANSPOSE = 37,
    C_FORMAT_FRACTAL_ZN_LSTM = 38,
    C_FORMAT_FRACTAL_Z_G = 39,
    C_FORMAT_RESERVED = 40,
    C_FORMAT_ALL = 41,
    C_FORMAT_NULL = 42,
    C_FORMAT_ND_RNN_BIAS = 43,
    C_FORMAT_FRACTAL_ZN_RNN = 44,
    C_FORMAT_NYUV = 45,
    C_FORMAT_NYUV_A = 46,
    C_FORMAT_NCL = 47,
    C_FORMAT_FRACTAL_Z_WINO = 48,
    C_FORMAT_C1HWC0 = 49,
    C_FORMAT_FRACTAL_NZ_C0_16 = 50,
    C_FORMAT_FRACTAL_NZ_C0_32 = 51,
    C_FORMAT_FRACTAL_NZ_C0_2 = 52,
    C_FORMAT_FRACTAL_NZ_C0_4 = 53,
    C_FORMAT_FRACTAL_NZ_C0_8 = 54,
};

/// A template parameter, or the values of one in a combination.
struct ParamStruct {
    ParamStruct(const char* inName, uint32_t inParamType, uint8_t inBitWidth, std::vector<uint64_t> inVals,
                const char* inMacroType)
        : name(inName), paramType(inParamType), bitWidth(inBitWidth), vals(std::move(inVals)), macroType(inMacroType)
    {
    }

    std::string name;
    uint32_t paramType;
    uint8_t bitWidth;
    std::vector<uint64_t> vals;  ///< numbers: mode, ranges and values
    const char* macroType;
};
using TilingDeclareParams = std::vector<ParamStruct>;
using TilingSelectParams = std::vector<std::vector<ParamStruct>>;

constexpr uint64_t INVALID_TILING_KEY = 0xFFFFFFFFFFFFFFFF;

#define OPFORGE_TPL(name, type, bits, kind, ...) ParamStruct(#name, type, bits, {__VA_ARGS__}, kind)
#define ASCENDC_TPL_DTYPE_DECL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_DTYPE, 8, "DECL", __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_DECL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_DTYPE, 8, "DECL", __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_DECL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_FORMAT, 8, "DECL", __VA_ARGS__)
#define ASCENDC_TPL_UINT_DECL(x, bits, ...) OPFORGE_TPL(x, ASCENDC_TPL_UINT, bits, "DECL", __VA_ARGS__)
#define ASCENDC_TPL_BOOL_DECL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_BOOL, 1, "DECL", __VA_ARGS__)
#define ASCENDC_TPL_KERNEL_TYPE_DECL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_SHARED_KERNEL_TYPE, 8, "DECL", __VA_ARGS__)

#define ASCENDC_TPL_DTYPE_SEL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_DTYPE, 8, "SEL", __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_SEL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_DTYPE, 8, "SEL", __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_SEL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_FORMAT, 8, "SEL", __VA_ARGS__)
#define ASCENDC_TPL_UINT_SEL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_UINT, 0, "SEL", __VA_ARGS__)
#define ASCENDC_TPL_BOOL_SEL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_BOOL, 1, "SEL", __VA_ARGS__)
#define ASCENDC_TPL_SHARED_KERNEL_TYPE_SEL(x, ...) OPFORGE_TPL(x, ASCENDC_TPL_SHARED_KERNEL_TYPE, 8, "SEL", __VA_ARGS__)
#define ASCENDC_TPL_KERNEL_TYPE_SEL(...) OPFORGE_TPL(kernel_type, ASCENDC_TPL_KERNEL_TYPE, 8, "SEL", __VA_ARGS__)
#define ASCENDC_TPL_DETERMINISTIC_SEL(...) OPFORGE_TPL(deterministic, ASCENDC_TPL_DETERMINISTIC, 1, "SEL", __VA_ARGS__)
// A structure is a type, which the tiling key does not contain.
#define ASCENDC_TPL_TILING_STRUCT_SEL(x, ...) OPFORGE_TPL(tiling_struct, ASCENDC_TPL_KERNEL_TYPE, 8, "SEL", 0)

// Functions, so that the library of a kernel with this header runs no code while it is loaded.
#define ASCENDC_TPL_ARGS_DECL(op, ...)                                    \
    [[maybe_unused]] static TilingDeclareParams OpforgeTilingParameters() \
    {                                                                     \
        return {__VA_ARGS__};                                             \
    }                                                                     \
    static_assert(true)
#define ASCENDC_TPL_ARGS_SEL(...) {__VA_ARGS__}
#ifdef ASCENDC_TPL_KERNEL  // the build of a kernel, which has no tiling function
#define ASCENDC_TPL_SEL(...) static_assert(true)
#else
#define ASCENDC_TPL_SEL(...)                                               \
    [[maybe_unused]] static TilingSelectParams OpforgeTilingCombinations() \
    {                                                                      \
        return {__VA_ARGS__};                                              \
    }                                                                      \
    static_assert(true)
#endif

namespace AscendC {
/// Returns the key of the values; prints a message and returns INVALID_TILING_KEY for values that are not declared.
uint64_t EncodeTilingKey(const TilingDeclareParams& declared, const TilingSelectParams& combinations,
                         const std::vector<uint64_t>& values);
}  // namespace AscendC

#define GET_TPL_TILING_KEY(...) \
    AscendC::EncodeTilingKey(OpforgeTilingParameters(), OpforgeTilingCombinations(), {__VA_ARGS__})
#define ASCENDC_TPL_SEL_PARAM(context, ...) (context)->SetTilingKey(GET_TPL_TILING_KEY(__VA_ARGS__))

#endif  // ASCENDC_HOST_API_TILING_TEMPLATE_ARGUMENT_H
