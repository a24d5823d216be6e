// Copies between global memory and the unified buffer: in batches with a wait for each (akl_*), or tiles of a matrix
// without any wait (data_copy_ub).
#include "kernel_operator.h"
using namespace AscendC;

struct BatchTiling {
    int64_t isOut;
    int64_t rows;
    int64_t rowBytes;
    int64_t gapBytes;
    int64_t copies;    // of a batch
    int64_t inFlight;  // batches
    int64_t batches;
    int64_t slots;  // places in global memory
    int64_t pitch;  // from slot to slot
};

extern "C" __global__ __aicore__ void batches(GM_ADDR x, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(BatchTiling, data, tiling);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    const int64_t padded = (data.rowBytes + 31) / 32 * 32;
    const int64_t bytes = data.rows * padded;
    const int64_t places = data.inFlight;
    pipe.InitBuffer(buffer, places * bytes);
    GlobalTensor<uint8_t> xGm;
    xGm.SetGlobalBuffer((__gm__ uint8_t*)x + GetBlockIdx() * data.slots * data.pitch);
    const DataCopyExtParams in(data.rows, data.rowBytes, data.gapBytes, 0, 0);
    const DataCopyExtParams out(data.rows, data.rowBytes, 0, data.gapBytes, 0);
    int64_t slot = 0;
    for (int64_t batch = 0; batch < data.batches; ++batch) {
        const int64_t event = batch % data.inFlight;
        if (batch >= data.inFlight) {
            if (data.isOut != 0) {
                WaitFlag<HardEvent::MTE3_S>(event);
            } else {
                WaitFlag<HardEvent::MTE2_S>(event);
            }
        }
        LocalTensor<uint8_t> part = buffer.Get<uint8_t>()[event * bytes];
        for (int64_t copy = 0; copy < data.copies; ++copy) {
            GlobalTensor<uint8_t> place = xGm[slot * data.pitch];
            slot = slot + 1 == data.slots ? 0 : slot + 1;
            if (data.isOut != 0) {
                DataCopyPad(place, part, out);
            } else {
                DataCopyPad(part, place, in, DataCopyPadExtParams<uint8_t>());
            }
        }
        if (data.isOut != 0) {
            SetFlag<HardEvent::MTE3_S>(event);
        } else {
            SetFlag<HardEvent::MTE2_S>(event);
        }
    }
    for (int64_t event = 0; event < data.inFlight && event < data.batches; ++event) {
        if (data.isOut != 0) {
            WaitFlag<HardEvent::MTE3_S>(event);
        } else {
            WaitFlag<HardEvent::MTE2_S>(event);
        }
    }
}

struct TileTiling {
    int64_t matrixRows;
    int64_t matrixColumns;  // elements of two bytes
    int64_t rows;           // of a tile
    int64_t columns;
    int64_t passes;
    int64_t panels;    // the passes go over one panel of columns after the other
    int64_t isShared;  // every core reads the whole matrix
    int64_t isShifted;
    int64_t isUncached;
};

/// The tiles of a core in the order of its reads; `read` gets row and column of each.
template <typename Read>
__aicore__ inline void ForTiles(const TileTiling& data, const Read& read)
{
    const int64_t down = data.matrixRows / data.rows;
    const int64_t across = data.matrixColumns / data.columns / data.panels;
    const int64_t tiles = down * across;
    const int64_t cores = data.isShared != 0 ? 1 : GetBlockNum();
    const int64_t core = data.isShared != 0 ? 0 : GetBlockIdx();
    const int64_t first = tiles * core / cores;
    const int64_t count = tiles * (core + 1) / cores - first;
    const int64_t shift = data.isShifted != 0 ? count * GetBlockIdx() / GetBlockNum() : 0;
    for (int64_t panel = 0; panel < data.panels; ++panel) {
        for (int64_t pass = 0; pass < data.passes; ++pass) {
            for (int64_t index = 0; index < count; ++index) {
                const int64_t tile = first + (index + shift) % count;
                read(tile / across * data.rows, (panel * across + tile % across) * data.columns);
            }
        }
    }
}

extern "C" __global__ __aicore__ void tiles(GM_ADDR x, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(TileTiling, data, tiling);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, data.rows * data.columns * 2);
    GlobalTensor<half> xGm;
    xGm.SetGlobalBuffer((__gm__ half*)x);
    if (data.isUncached != 0) {
        xGm.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
    }
    LocalTensor<half> part = buffer.Get<half>();
    const DataCopyExtParams how(data.rows, data.columns * 2, (data.matrixColumns - data.columns) * 2, 0, 0);
    ForTiles(data, [&](int64_t row, int64_t column) {
        DataCopyPad(part, xGm[row * data.matrixColumns + column], how, DataCopyPadExtParams<half>());
    });
}

extern "C" __global__ __aicore__ void fractals(GM_ADDR x, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(TileTiling, data, tiling);
    TPipe pipe;
    TBuf<TPosition::A1> buffer;
    pipe.InitBuffer(buffer, data.rows * data.columns * 2);
    GlobalTensor<half> xGm;
    xGm.SetGlobalBuffer((__gm__ half*)x);
    if (data.isUncached != 0) {
        xGm.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
    }
    LocalTensor<half> part = buffer.Get<half>();
    const Nd2NzParams how(1, data.rows, data.columns, 0, data.matrixColumns, data.rows, 1, 0);
    ForTiles(data, [&](int64_t row, int64_t column) { DataCopy(part, xGm[row * data.matrixColumns + column], how); });
}
