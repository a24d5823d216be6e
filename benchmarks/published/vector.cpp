// Kernels of the vector core whose instructions are described: add_8192, nd2nz_ub, akl_gather_mask, pto_vector_fit.
#include "kernel_operator.h"
using namespace AscendC;

struct AddTiling {
    int64_t elements;
    int64_t tile;  // elements
    int64_t buffers;
    int64_t isUncached;  // x and y
    int64_t isScalar;
    int64_t bytesOfX;  // of a tile in the unified buffer
    int64_t bytesOfY;
    int64_t zOffset;   // of a tile of z from its tile of x
    int64_t allBytes;  // of the tiles of x, y and z
};

extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(AddTiling, data, tiling);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    const int64_t one = data.allBytes;
    pipe.InitBuffer(buffer, data.buffers * one);
    GlobalTensor<half> xGm, yGm, zGm;
    xGm.SetGlobalBuffer((__gm__ half*)x);
    yGm.SetGlobalBuffer((__gm__ half*)y);
    zGm.SetGlobalBuffer((__gm__ half*)z);
    if (data.isUncached != 0) {
        xGm.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
        yGm.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
    }
    const int64_t tiles = (data.elements + data.tile - 1) / data.tile;
    const int64_t first = tiles * GetBlockIdx() / GetBlockNum();
    const int64_t count = tiles * (GetBlockIdx() + 1) / GetBlockNum() - first;
    for (int64_t tile = 0; tile < count; ++tile) {
        const int64_t event = tile % data.buffers;
        LocalTensor<half> xPart = buffer.Get<uint8_t>()[event * one].ReinterpretCast<half>();
        LocalTensor<half> yPart = buffer.Get<uint8_t>()[event * one + data.bytesOfX].ReinterpretCast<half>();
        LocalTensor<half> zPart = buffer.Get<uint8_t>()[event * one + data.zOffset].ReinterpretCast<half>();
        const int64_t at = (first + tile) * data.tile;
        const int64_t length = at + data.tile <= data.elements ? data.tile : data.elements - at;
        if (tile >= data.buffers) {
            WaitFlag<HardEvent::MTE3_MTE2>(event);
        }
        DataCopy(xPart, xGm[at], length);
        DataCopy(yPart, yGm[at], length);
        if (data.isScalar != 0) {
            SetFlag<HardEvent::MTE2_S>(event);
            WaitFlag<HardEvent::MTE2_S>(event);
            for (int64_t index = 0; index < length; ++index) {
                zPart.SetValue(index, (half)((float)xPart.GetValue(index) + (float)yPart.GetValue(index)));
            }
            SetFlag<HardEvent::S_MTE3>(event);
            WaitFlag<HardEvent::S_MTE3>(event);
        } else {
            SetFlag<HardEvent::MTE2_V>(event);
            WaitFlag<HardEvent::MTE2_V>(event);
            Add(zPart, xPart, yPart, length);
            SetFlag<HardEvent::V_MTE3>(event);
            WaitFlag<HardEvent::V_MTE3>(event);
        }
        DataCopy(zGm[at], zPart, length);
        SetFlag<HardEvent::MTE3_MTE2>(event);
    }
    for (int64_t event = 0; event < data.buffers && event < count; ++event) {
        WaitFlag<HardEvent::MTE3_MTE2>(event);
    }
}

struct FractalTiling {
    int64_t rows;
    int64_t columns;
    int64_t tileRows;
    int64_t tileColumns;
    int64_t stride;  // blocks from column to column of fractals
};

/// ND to NZ with one Copy for each 16 columns of a tile.
extern "C" __global__ __aicore__ void nd2nz(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(FractalTiling, data, tiling);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    const int64_t fractals = data.tileColumns / 16;
    pipe.InitBuffer(in, 2, data.tileRows * data.tileColumns * 2);
    pipe.InitBuffer(out, 2, fractals * data.stride * 32 + 32);
    GlobalTensor<half> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ half*)x);
    yGm.SetGlobalBuffer((__gm__ half*)y);
    const int64_t down = (data.rows + data.tileRows - 1) / data.tileRows;
    const int64_t across = data.columns / data.tileColumns;
    const int64_t first = down * across * GetBlockIdx() / GetBlockNum();
    const int64_t end = down * across * (GetBlockIdx() + 1) / GetBlockNum();
    for (int64_t tile = first; tile < end; ++tile) {
        const int64_t row = tile / across * data.tileRows;
        const int64_t column = tile % across * data.tileColumns;
        const int64_t rows = row + data.tileRows <= data.rows ? data.tileRows : data.rows - row;
        LocalTensor<half> from = in.AllocTensor<half>();
        DataCopyPad(from, xGm[row * data.columns + column],
                    DataCopyExtParams(rows, data.tileColumns * 2, (data.columns - data.tileColumns) * 2, 0, 0),
                    DataCopyPadExtParams<half>());
        in.EnQue(from);
        from = in.DeQue<half>();
        LocalTensor<half> to = out.AllocTensor<half>();
        for (int64_t begin = 0; begin < data.tileColumns; begin += 128) {
            Copy(to[begin * data.stride], from[begin], 128, rows,
                 {static_cast<uint16_t>(data.stride), 1, 1, static_cast<uint16_t>(data.tileColumns / 16)});
        }
        out.EnQue(to);
        in.FreeTensor(from);
        to = out.DeQue<half>();
        DataCopyPad(yGm[column * data.rows + row * 16], to,
                    DataCopyExtParams(fractals, rows * 32, data.stride - rows, (data.rows - rows) * 32, 0));
        out.FreeTensor(to);
    }
}

struct LoopTiling {
    int64_t rounds;
    int64_t repeats;
    int64_t pattern;  // of GatherMask; 0: a mask in the unified buffer
};

extern "C" __global__ __aicore__ void gather_mask(GM_ADDR x, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(LoopTiling, data, tiling);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 2 * data.repeats * 256 + data.repeats * 32);
    LocalTensor<uint32_t> from = buffer.Get<uint32_t>();
    LocalTensor<uint32_t> to = from[data.repeats * 64];
    LocalTensor<uint32_t> mask = from[2 * data.repeats * 64];
    uint64_t kept = 0;  // the scalar unit waits for it
    const GatherMaskParams how(1, data.repeats, 8, 1);
    for (int64_t round = 0; round < data.rounds; ++round) {
        if (data.pattern == 0) {
            GatherMask(to, from, mask, false, 0, how, kept);
        } else {
            GatherMask(to, from, static_cast<uint8_t>(data.pattern), false, 0, how, kept);
        }
    }
}
