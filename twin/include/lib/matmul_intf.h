// The public name of the Matmul API. ASCENDC_CUBE_ONLY selects objects that compute on the calling cube core.
#ifndef LIB_MATMUL_MATMUL_INTF_H
#define LIB_MATMUL_MATMUL_INTF_H

#include "opforge_twin/kernel/matmul/matmul.h"

namespace AscendC {

#ifdef ASCENDC_CUBE_ONLY
inline constexpr bool kComputesHere = true;
#else
inline constexpr bool kComputesHere = false;
#endif

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>,
          template <const auto&, typename, typename, typename, typename, typename> class POLICY = MatmulPolicy>
using Matmul =
    twin::MatmulObject<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB, kComputesHere, twin::TriangleOf<POLICY>()>;

// Functions of the headers of Matmul that public kernels call.
template <typename T, typename U>
T CeilAlign(T num1, U num2)
{
    return Ceil(num1, num2) * num2;
}

/// An argument that needs a conversion: a function CeilDiv of the kernel is a better match.
struct ConvertedNumber {
    int64_t value;
    ConvertedNumber(int64_t given) : value(given) {}
};

OPFORGE_API inline uint16_t CeilDiv(ConvertedNumber num1, ConvertedNumber num2)
{
    const twin::Call call{"CeilDiv", twin::Here()};
    twin::Field("num1", num1.value, 0, twin::kFieldMax16, call);
    twin::Field("num2", num2.value, 1, twin::kFieldMax16, call);
    return static_cast<uint16_t>((num1.value + num2.value - 1) / num2.value);
}

}  // namespace AscendC

#endif  // LIB_MATMUL_MATMUL_INTF_H
