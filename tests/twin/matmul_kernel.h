// Kernels of the Matmul API for the tests: one core computes its part of C = A B + bias.
#include "kernel_operator.h"
#ifdef CUBE_KERNEL
#define ASCENDC_CUBE_ONLY
#endif
#include "lib/matmul_intf.h"
using namespace AscendC;

/// The part of a core: cores are numbered down the rows first.
struct Part {
    int64_t a = 0;
    int64_t b = 0;
    int64_t bias = 0;
    int64_t c = 0;
    int32_t m = 0;
    int32_t n = 0;
};

template <class T>
__aicore__ inline Part PartOf(const TCubeTiling& t, bool transposeA, bool transposeB, int64_t block)
{
    const int32_t down = (t.M + t.singleCoreM - 1) / t.singleCoreM;
    const int64_t row = block % down * t.singleCoreM;
    const int64_t column = block / down * t.singleCoreN;
    Part part;
    part.a = transposeA ? row : row * t.Ka;
    part.b = transposeB ? column * t.Kb : column;
    part.bias = column;
    part.c = row * t.N + column;
    part.m = static_cast<int32_t>(t.M - row < t.singleCoreM ? t.M - row : t.singleCoreM);
    part.n = static_cast<int32_t>(t.N - column < t.singleCoreN ? t.N - column : t.singleCoreN);
    return part;
}

template <class T, class Out, class Bias, bool transposeA, bool transposeB, const auto& config = CFG_NORM,
          class CallBack = MatmulCallBackFunc<nullptr, nullptr, nullptr>, CubeFormat formatA = CubeFormat::ND,
          CubeFormat formatB = CubeFormat::ND, CubeFormat formatC = CubeFormat::ND>
using Mm =
    Matmul<MatmulType<TPosition::GM, formatA, T, transposeA>, MatmulType<TPosition::GM, formatB, T, transposeB>,
           MatmulType<TPosition::GM, formatC, Out>, MatmulType<TPosition::GM, CubeFormat::ND, Bias>, config, CallBack>;

template <class Object, class T, class Out, class Bias, bool transposeA, bool transposeB, class Do>
__aicore__ inline void Multiplied(Object& mm, GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, const TCubeTiling& t,
                                  const Do& compute)
{
    if (GetBlockIdx() >= t.usedCoreNum) {
        return;
    }
    const Part part = PartOf<T>(t, transposeA, transposeB, GetBlockIdx());
    GlobalTensor<T> aGm, bGm;
    GlobalTensor<Bias> biasGm;
    GlobalTensor<Out> cGm;
    aGm.SetGlobalBuffer((__gm__ T*)a, (uint64_t)t.M * t.Ka);
    bGm.SetGlobalBuffer((__gm__ T*)b, (uint64_t)t.Kb * t.N);
    biasGm.SetGlobalBuffer((__gm__ Bias*)bias, t.N);
    cGm.SetGlobalBuffer((__gm__ Out*)c, (uint64_t)t.M * t.N);
    mm.SetTensorA(aGm[part.a], transposeA);
    mm.SetTensorB(bGm[part.b], transposeB);
    if (t.isBias != 0) {
        mm.SetBias(biasGm[part.bias]);
    }
    if (part.m < t.singleCoreM || part.n < t.singleCoreN) {
        mm.SetTail(part.m, part.n);
    }
    compute(mm, cGm[part.c]);
    mm.End();
}
