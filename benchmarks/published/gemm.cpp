// Matmul with the basic API: tiles of A and B from global memory to L1 (ND to NZ), pieces to L0, Mmad, Fixpipe. L1 and
// L0 have double buffers.
#include "kernel_operator.h"
using namespace AscendC;

struct GemmTiling {
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t baseM;
    int64_t baseN;
    int64_t baseK;
    int64_t stepKa;  // pieces of baseK that A has in L1
    int64_t stepKb;
    int64_t coreM;  // of a core
    int64_t coreN;
    int64_t mostTiles;  // of a core
    int64_t unitFlag;
    int64_t firstWins;  // the rows of C advance first
    int64_t isFractal;   // B is in NZ format: long rows
    int64_t isRowMajor;  // the rows of B are along n
    int64_t isShifted;  // cores begin at different k
    int64_t mostSteps;  // of k
};

class Gemm {
public:
    __aicore__ inline Gemm(GM_ADDR a, GM_ADDR b, GM_ADDR c, const GemmTiling& tiling, TPipe& pipe) : data_(tiling)
    {
        aGm_.SetGlobalBuffer((__gm__ half*)a);
        bGm_.SetGlobalBuffer((__gm__ half*)b);
        cGm_.SetGlobalBuffer((__gm__ half*)c);
        pipe.InitBuffer(aL1_, 2 * data_.baseM * data_.baseK * data_.stepKa * 2);
        pipe.InitBuffer(bL1_, 2 * data_.baseN * data_.baseK * data_.stepKb * 2);
        pipe.InitBuffer(aL0_, 2 * data_.baseM * data_.baseK * 2);
        pipe.InitBuffer(bL0_, 2 * data_.baseN * data_.baseK * 2);
        pipe.InitBuffer(cL0_, data_.baseM * data_.baseN * 4);
    }
    __aicore__ inline void Run()
    {
        const int64_t across = (data_.n + data_.coreN - 1) / data_.coreN;
        const int64_t blocks = (data_.m + data_.coreM - 1) / data_.coreM * across;
        SetFlag<HardEvent::FIX_M>(EVENT_ID0);
        for (int64_t index = 0; index < 2; ++index) {
            SetFlag<HardEvent::MTE1_MTE2>(index);
            SetFlag<HardEvent::MTE1_MTE2>(2 + index);
            SetFlag<HardEvent::M_MTE1>(index);
        }
        for (int64_t block = GetBlockIdx(); block < blocks; block += GetBlockNum()) {
            const int64_t top = block / across * data_.coreM;
            const int64_t left = block % across * data_.coreN;
            const int64_t bottom = top + data_.coreM < data_.m ? top + data_.coreM : data_.m;
            const int64_t right = left + data_.coreN < data_.n ? left + data_.coreN : data_.n;
            for (int64_t row = top; row < bottom; row += data_.baseM) {
                for (int64_t column = left; column < right && tiles_ < data_.mostTiles; column += data_.baseN) {
                    const int64_t rows = bottom - row < data_.baseM ? bottom - row : data_.baseM;
                    Tile(row, column, rows, right - column < data_.baseN ? right - column : data_.baseN);
                    ++tiles_;
                }
            }
        }
        for (int64_t index = 0; index < 2; ++index) {
            WaitFlag<HardEvent::MTE1_MTE2>(index);
            WaitFlag<HardEvent::MTE1_MTE2>(2 + index);
            WaitFlag<HardEvent::M_MTE1>(index);
        }
        WaitFlag<HardEvent::FIX_M>(EVENT_ID0);
    }

private:
    __aicore__ inline static int64_t Up(int64_t value) { return (value + 15) / 16 * 16; }

    /// Rows to fractals. A pitch above the limit of the instruction needs one copy per row.
    __aicore__ inline static void Pack(const LocalTensor<half>& to, const GlobalTensor<half>& from, int64_t rows,
                                       int64_t width, int64_t pitch)
    {
        if (pitch <= 65535) {
            DataCopy(to, from, Nd2NzParams(1, rows, width, 0, pitch, Up(rows), 1, 0));
            return;
        }
        for (int64_t row = 0; row < rows; ++row) {
            DataCopy(to[row * 16], from[row * pitch], Nd2NzParams(1, 1, width, 0, width, Up(rows), 1, 0));
        }
    }

    /// Part of A or of B transposed, [rows, k], in fractals; the fractals of B in rows along n have the same size.
    __aicore__ inline void Load(const LocalTensor<half>& to, const GlobalTensor<half>& from, int64_t row, int64_t rows,
                                int64_t depth, int64_t count, bool isFractal, bool isRowMajor)
    {
        if (isRowMajor) {
            Pack(to, from[depth * data_.n + row], count, rows, data_.n);
        } else if (isFractal) {
            DataCopy(to, from[row * data_.k + depth * rows], Up(rows) * Up(count));
        } else {
            Pack(to, from[row * data_.k + depth], rows, count, data_.k);
        }
    }

    __aicore__ inline void Tile(int64_t row, int64_t column, int64_t rows, int64_t columns)
    {
        LocalTensor<float> c = cL0_.Get<float>();
        WaitFlag<HardEvent::FIX_M>(EVENT_ID0);
        const int64_t steps = (data_.k + data_.baseK - 1) / data_.baseK;
        const int64_t count = steps < data_.mostSteps ? steps : data_.mostSteps;
        int64_t aPlace = 0;
        int64_t bPlace = 0;
        for (int64_t step = 0; step < count; ++step) {
            const int64_t depth = step * data_.baseK;
            const int64_t length = data_.k - depth < data_.baseK ? data_.k - depth : data_.baseK;
            if (step % data_.stepKa == 0) {
                aPlace = aTurn_++ % 2;
                WaitFlag<HardEvent::MTE1_MTE2>(aPlace);
                const int64_t all = data_.baseK * data_.stepKa;
                Load(aL1_.Get<half>()[aPlace * data_.baseM * all], aGm_, row, rows, depth,
                     data_.k - depth < all ? data_.k - depth : all, false, false);
                SetFlag<HardEvent::MTE2_MTE1>(aPlace);
                WaitFlag<HardEvent::MTE2_MTE1>(aPlace);
            }
            if (step % data_.stepKb == 0) {
                bPlace = bTurn_++ % 2;
                WaitFlag<HardEvent::MTE1_MTE2>(2 + bPlace);
                const int64_t all = data_.baseK * data_.stepKb;
                Load(bL1_.Get<half>()[bPlace * data_.baseN * all], bGm_, column, columns, depth,
                     data_.k - depth < all ? data_.k - depth : all, data_.isFractal != 0, data_.isRowMajor != 0);
                SetFlag<HardEvent::MTE2_MTE1>(2 + bPlace);
                WaitFlag<HardEvent::MTE2_MTE1>(2 + bPlace);
            }
            const int64_t turn = turn_++ % 2;
            WaitFlag<HardEvent::M_MTE1>(turn);
            LocalTensor<half> a = aL0_.Get<half>()[turn * data_.baseM * data_.baseK];
            LocalTensor<half> b = bL0_.Get<half>()[turn * data_.baseN * data_.baseK];
            const int64_t aStep = step % data_.stepKa;
            const int64_t bStep = step % data_.stepKb;
            LoadPiece(
                a, aL1_.Get<half>()[aPlace * data_.baseM * data_.baseK * data_.stepKa + aStep * Up(rows) * data_.baseK],
                rows, length, 1);
            LoadPiece(
                b,
                bL1_.Get<half>()[bPlace * data_.baseN * data_.baseK * data_.stepKb + bStep * Up(columns) * data_.baseK],
                columns, length, 4);
            if (aStep == data_.stepKa - 1 || step == count - 1) {
                SetFlag<HardEvent::MTE1_MTE2>(aPlace);
            }
            if (bStep == data_.stepKb - 1 || step == count - 1) {
                SetFlag<HardEvent::MTE1_MTE2>(2 + bPlace);
            }
            SetFlag<HardEvent::MTE1_M>(turn);
            WaitFlag<HardEvent::MTE1_M>(turn);
            MmadParams how;
            how.m = rows;
            how.n = columns;
            how.k = length;
            how.cmatrixInitVal = step == 0;
            Mmad(c, a, b, how);
            SetFlag<HardEvent::M_MTE1>(turn);
        }
        SetFlag<HardEvent::M_FIX>(EVENT_ID0);
        WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
        FixpipeParamsV220 store;
        store.nSize = columns;
        store.mSize = rows;
        store.srcStride = Up(rows);
        store.dstStride = data_.n;
        store.quantPre = QuantMode_t::F322F16;
        Fixpipe<half, float, CFG_ROW_MAJOR>(cGm_[row * data_.n + column], c, store);
        SetFlag<HardEvent::FIX_M>(EVENT_ID0);
    }

    /// Fractals of one piece from L1 to L0 in `loads` instructions.
    __aicore__ inline void LoadPiece(const LocalTensor<half>& to, const LocalTensor<half>& from, int64_t rows,
                                     int64_t length, int64_t loads)
    {
        const int64_t fractals = Up(rows) / 16 * (Up(length) / 16);
        for (int64_t load = 0; load < loads; ++load) {
            const int64_t first = fractals * load / loads;
            const int64_t count = fractals * (load + 1) / loads - first;
            for (int64_t done = 0; done < count; done += 255) {
                const int64_t part = count - done < 255 ? count - done : 255;
                LoadData(to[(first + done) * 256], from[(first + done) * 256],
                         LoadData2DParams(0, part, 1, 0, 0, false, 0));
            }
        }
    }

    const GemmTiling data_;
    GlobalTensor<half> aGm_, bGm_, cGm_;
    TBuf<TPosition::A1> aL1_;
    TBuf<TPosition::B1> bL1_;
    TBuf<TPosition::A2> aL0_;
    TBuf<TPosition::B2> bL0_;
    TBuf<TPosition::CO1> cL0_;
    int64_t tiles_ = 0;
    int64_t aTurn_ = 0;
    int64_t bTurn_ = 0;
    int64_t turn_ = 0;
};

extern "C" __global__ __aicore__ void gemm(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(GemmTiling, data, tiling);
    TPipe pipe;
    Gemm kernel(a, b, c, data, pipe);
    kernel.Run();
}
