// Operators on whole tensors: `dst = src0 + src1`, `dst = src0 < src1` and others.
#ifndef OPFORGE_TWIN_KERNEL_TENSOR_OPERATORS_H
#define OPFORGE_TWIN_KERNEL_TENSOR_OPERATORS_H

#include "opforge_twin/kernel/select.h"

namespace AscendC {

#define OPFORGE_WHOLE_TENSORS(symbol, name, call)                                                          \
    struct OpforgeWhole##name {                                                                            \
        template <typename U, typename T>                                                                  \
        static void Run(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1) \
        {                                                                                                  \
            call;                                                                                          \
        }                                                                                                  \
    };                                                                                                     \
    template <typename T>                                                                                  \
    twin::WholeTensors<OpforgeWhole##name, LocalTensor<T>> operator symbol(const LocalTensor<T>& src0,     \
                                                                           const LocalTensor<T>& src1)     \
    {                                                                                                      \
        return {src0, src1};                                                                               \
    }
// As many elements as the destination has; comparisons have bits there.
#define OPFORGE_WHOLE(symbol, name) \
    OPFORGE_WHOLE_TENSORS(symbol, name, name(dst, src0, src1, static_cast<int32_t>(dst.GetSize())))
// And and Or count 2-byte elements.
#define OPFORGE_WHOLE_BITWISE(symbol, name) \
    OPFORGE_WHOLE_TENSORS(symbol, name,     \
                          name(dst, src0, src1, static_cast<int32_t>(dst.GetSize() * sizeof(PrimT<T>) / 2)))
#define OPFORGE_WHOLE_COMPARE(symbol, mode) \
    OPFORGE_WHOLE_TENSORS(symbol, mode, Compare(dst, src0, src1, CMPMODE::mode, src0.GetSize()))
OPFORGE_WHOLE(+, Add)
OPFORGE_WHOLE(-, Sub)
OPFORGE_WHOLE(*, Mul)
OPFORGE_WHOLE(/, Div)
OPFORGE_WHOLE_BITWISE(&, And)
OPFORGE_WHOLE_BITWISE(|, Or)
OPFORGE_WHOLE_COMPARE(<, LT)
OPFORGE_WHOLE_COMPARE(>, GT)
OPFORGE_WHOLE_COMPARE(==, EQ)
OPFORGE_WHOLE_COMPARE(<=, LE)
OPFORGE_WHOLE_COMPARE(>=, GE)
OPFORGE_WHOLE_COMPARE(!=, NE)
#undef OPFORGE_WHOLE_COMPARE
#undef OPFORGE_WHOLE_BITWISE
#undef OPFORGE_WHOLE
#undef OPFORGE_WHOLE_TENSORS

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_TENSOR_OPERATORS_H
