// A plain GEMM on cube cores, for the tests of the twin: C[m, n] = A B, A stored as [m, k] or [k, m], B as [k, n] or
// [n, k]. Blocks share tiles of C; a tile is accumulated over slices of k with one buffer of each memory.
#include "kernel_operator.h"
using namespace AscendC;

struct GemmTiling {
    int32_t m = 0;
    int32_t n = 0;
    int32_t k = 0;
    int32_t baseM = 0;  ///< multiples of 16
    int32_t baseN = 0;
    int32_t baseK = 0;
    int32_t transposeA = 0;
    int32_t transposeB = 0;
    int32_t byWindow = 0;  ///< 2-byte types: LoadData3DParamsV2 instead of LoadData2DParams
    int32_t hf32 = 0;      ///< 1: to nearest even, 2: toward zero
    int32_t unitFlag = 0;
    int32_t hasBias = 0;
};

__aicore__ inline int32_t Ceil(int32_t value, int32_t unit)
{
    return (value + unit - 1) / unit;
}

template <typename T, typename OutT>
class Gemm {
public:
    __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, const GemmTiling& tiling, TPipe* pipe)
    {
        t_ = tiling;
        aGm_.SetGlobalBuffer((__gm__ T*)a);
        bGm_.SetGlobalBuffer((__gm__ T*)b);
        biasGm_.SetGlobalBuffer((__gm__ float*)bias);
        cGm_.SetGlobalBuffer((__gm__ OutT*)c);
        const int32_t padK = Ceil(t_.baseK, 16) * 16;
        pipe->InitBuffer(a1_, t_.baseM * padK * sizeof(T));
        pipe->InitBuffer(b1_, t_.baseN * padK * sizeof(T));
        pipe->InitBuffer(a2_, t_.baseM * padK * sizeof(T));
        pipe->InitBuffer(b2_, t_.baseN * padK * sizeof(T));
        pipe->InitBuffer(co1_, t_.baseM * t_.baseN * sizeof(float));
        pipe->InitBuffer(c1_, 1024);
        pipe->InitBuffer(c2_, 1024);
    }

    __aicore__ inline void Process()
    {
        if (t_.hf32 != 0) {
            SetHF32Mode(true);
            SetHF32TransMode(t_.hf32 == 2);
        }
        const int32_t across = Ceil(t_.n, t_.baseN);
        const int32_t tiles = Ceil(t_.m, t_.baseM) * across;
        for (int32_t tile = GetBlockIdx(); tile < tiles; tile += GetBlockNum()) {
            Tile(tile / across * t_.baseM, tile % across * t_.baseN);
        }
        if (t_.hf32 != 0) {
            SetHF32Mode(false);
            SetHF32TransMode(false);
        }
    }

private:
    static constexpr int32_t kC0 = 32 / sizeof(T);
    static constexpr int32_t kFractal = 16 * kC0;

    __aicore__ inline void Tile(int32_t row, int32_t column)
    {
        const int32_t m = t_.m - row < t_.baseM ? t_.m - row : t_.baseM;
        const int32_t n = t_.n - column < t_.baseN ? t_.n - column : t_.baseN;
        LocalTensor<float> co1 = co1_.template Get<float>();
        if (t_.hasBias != 0) {
            LoadBias(column, n);
        }
        for (int32_t start = 0; start < t_.k; start += t_.baseK) {
            const int32_t k = t_.k - start < t_.baseK ? t_.k - start : t_.baseK;
            ToL1(a1_.template Get<T>(), aGm_, t_.transposeA != 0, row, m, t_.m, start, k);
            ToL1(b1_.template Get<T>(), bGm_, t_.transposeB == 0, column, n, t_.n, start, k);
            SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
            WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
            LoadA(m, k);
            LoadB(n, k);
            SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
            WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
            MmadParams mmad;
            mmad.m = m == 1 ? 16 : m;
            mmad.n = n;
            mmad.k = k;
            mmad.cmatrixInitVal = start == 0 && t_.hasBias == 0;
            mmad.kDirectionAlign = sizeof(T) == 4 && t_.transposeA != 0;
            mmad.unitFlag = t_.unitFlag == 0 ? 0 : start + k == t_.k ? 3 : 2;
            if (start == 0 && t_.hasBias != 0) {
                Mmad(co1, a2_.template Get<T>(), b2_.template Get<T>(), c2_.template Get<float>(), mmad);
            } else {
                Mmad(co1, a2_.template Get<T>(), b2_.template Get<T>(), mmad);
            }
            PipeBarrier<PIPE_M>();
            SetFlag<HardEvent::M_MTE1>(EVENT_ID0);
            WaitFlag<HardEvent::M_MTE1>(EVENT_ID0);
            SetFlag<HardEvent::MTE1_MTE2>(EVENT_ID0);
            WaitFlag<HardEvent::MTE1_MTE2>(EVENT_ID0);
        }
        if (t_.unitFlag == 0) {
            SetFlag<HardEvent::M_FIX>(EVENT_ID0);
            WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
        }
        FixpipeParamsV220 fixpipe;
        fixpipe.nSize = n;
        fixpipe.mSize = m;
        fixpipe.srcStride = Ceil(m, 16) * 16;
        fixpipe.dstStride = t_.n;
        fixpipe.quantPre = std::is_same_v<OutT, half> ? F322F16 : std::is_same_v<OutT, float> ? NoQuant : F322BF16;
        fixpipe.deqScalar = 0;
        fixpipe.unitFlag = t_.unitFlag == 0 ? 0 : 3;
        Fixpipe<OutT, float, CFG_ROW_MAJOR>(cGm_[(int64_t)row * t_.n + column], co1, fixpipe);
        if (t_.unitFlag == 0) {
            SetFlag<HardEvent::FIX_M>(EVENT_ID0);
            WaitFlag<HardEvent::FIX_M>(EVENT_ID0);
        }
    }

    /// k x outer (or outer x k) of a stored matrix to Nz in L1, rows padded to 16.
    __aicore__ inline void ToL1(const LocalTensor<T>& dst, const GlobalTensor<T>& src, bool kIsRow, int32_t first,
                                int32_t count, int32_t total, int32_t start, int32_t k)
    {
        Nd2NzParams nz;
        nz.ndNum = 1;
        nz.nValue = kIsRow ? k : count;
        nz.dValue = kIsRow ? count : k;
        nz.srcNdMatrixStride = 0;
        nz.srcDValue = kIsRow ? total : t_.k;
        nz.dstNzC0Stride = Ceil(nz.nValue, 16) * 16;
        nz.dstNzNStride = 1;
        nz.dstNzMatrixStride = 0;
        DataCopy(dst, kIsRow ? src[(int64_t)start * total + first] : src[(int64_t)first * t_.k + start], nz);
    }

    __aicore__ inline void LoadBias(int32_t column, int32_t n)
    {
        LocalTensor<float> c1 = c1_.template Get<float>();
        Nd2NzParams nz(1, 1, n, 0, t_.n, 1, 1, 0);
        DataCopy(c1, biasGm_[column], nz);
        SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID1);
        WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID1);
        SetFlag<HardEvent::M_MTE1>(EVENT_ID1);
        WaitFlag<HardEvent::M_MTE1>(EVENT_ID1);
        DataCopy(c2_.template Get<float>(), c1, DataCopyParams(1, Ceil(n, 16), 0, 0));
        SetFlag<HardEvent::MTE1_MTE2>(EVENT_ID1);
        WaitFlag<HardEvent::MTE1_MTE2>(EVENT_ID1);
    }

    __aicore__ inline void Window(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t rows, int32_t columns,
                                  bool transpose)
    {
        LoadData3DParamsV2<T> window;
        window.l1H = 1;
        window.l1W = Ceil(rows, 16) * 16;
        window.channelSize = Ceil(columns, kC0) * kC0;
        window.mExtension = rows;
        window.kExtension = window.channelSize;
        window.enTranspose = transpose;
        LoadData(dst, src, window);
    }

    __aicore__ inline void LoadA(int32_t m, int32_t k)
    {
        LocalTensor<T> a1 = a1_.template Get<T>();
        LocalTensor<T> a2 = a2_.template Get<T>();
        if (t_.byWindow != 0 || (sizeof(T) == 4 && t_.transposeA != 0)) {
            Window(a2, a1, t_.transposeA != 0 ? k : m, t_.transposeA != 0 ? m : k, t_.transposeA != 0);
            return;
        }
        const int32_t m1 = Ceil(m, 16);
        const int32_t k1 = Ceil(k, kC0);
        for (int32_t i = 0; i < m1; ++i) {
            LoadData2DParams load;
            load.repeatTimes = k1;
            load.srcStride = t_.transposeA != 0 ? 1 : m1;
            load.ifTranspose = t_.transposeA != 0;
            LoadData(a2[i * k1 * kFractal], a1[t_.transposeA != 0 ? i * k1 * kFractal : i * kFractal], load);
        }
    }

    __aicore__ inline void LoadB(int32_t n, int32_t k)
    {
        LocalTensor<T> b1 = b1_.template Get<T>();
        LocalTensor<T> b2 = b2_.template Get<T>();
        const int32_t n1 = Ceil(n, 16);
        const int32_t k1 = Ceil(k, kC0);
        if (t_.transposeB != 0) {  // L1 has the layout of L0B
            for (int32_t j = 0; j < k1; ++j) {
                LoadData2DParams load;
                load.repeatTimes = n1;
                load.srcStride = 1;
                LoadData(b2[j * n1 * kFractal], b1[j * n1 * kFractal], load);
            }
            return;
        }
        if (t_.byWindow != 0 || sizeof(T) == 4) {
            Window(b2, b1, k, n, true);
            return;
        }
        for (int32_t j = 0; j < k1; ++j) {
            LoadData2DParams load;
            load.repeatTimes = n1;
            load.srcStride = k1;
            load.ifTranspose = true;
            LoadData(b2[j * n1 * kFractal], b1[j * kFractal], load);
        }
    }

    GemmTiling t_;
    GlobalTensor<T> aGm_, bGm_;
    GlobalTensor<float> biasGm_;
    GlobalTensor<OutT> cGm_;
    TBuf<TPosition::A1> a1_;
    TBuf<TPosition::B1> b1_;
    TBuf<TPosition::C1> c1_;
    TBuf<TPosition::A2> a2_;
    TBuf<TPosition::B2> b2_;
    TBuf<TPosition::C2> c2_;
    TBuf<TPosition::CO1> co1_;
};
