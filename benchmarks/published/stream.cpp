// Generic structure of a vector kernel: rows of inputs are read in tiles, some instructions go over each row, rows of
// outputs are written.
#include "kernel_operator.h"
using namespace AscendC;

struct StreamTiling {
    int64_t rows;      // of all cores
    int64_t unitRows;  // that one core processes together
    int64_t tileRows;  // of a tile
    int64_t elements;  // of a row, for the vector unit
    int64_t inputs;
    int64_t inBytes;  // of a row
    int64_t outputs;
    int64_t outBytes;       // of a row
    int64_t operations;     // instructions over a whole tile
    int64_t rowOperations;  // instructions for each row
    int64_t tableReads;     // of the scalar unit
    int64_t buffers;
    int64_t mostTiles;  // of a core
};

__aicore__ inline void Compute(const LocalTensor<float>& values, int64_t elements, int64_t operations)
{
    for (int64_t operation = 0; operation < operations; ++operation) {
        Adds(values, values, 1.0f, elements);
        PipeBarrier<PIPE_V>();
    }
}

extern "C" __global__ __aicore__ void stream(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(StreamTiling, data, tiling);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    TBuf<TPosition::VECCALC> buffer;
    const bool isDense = data.inBytes % 32 == 0 && data.outBytes % 32 == 0;
    const int64_t inPitch = (data.inBytes + 31) / 32 * 32;
    const int64_t outPitch = (data.outBytes + 31) / 32 * 32;
    constexpr int64_t most = 4096;  // floats of one instruction
    pipe.InitBuffer(in, data.buffers, data.tileRows * data.inputs * inPitch + 32);
    pipe.InitBuffer(out, data.buffers, data.tileRows * data.outputs * outPitch + 32);
    pipe.InitBuffer(buffer, most * sizeof(float));
    LocalTensor<float> values = buffer.Get<float>();
    GlobalTensor<uint8_t> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ uint8_t*)x);
    yGm.SetGlobalBuffer((__gm__ uint8_t*)y);
    const int64_t units = (data.rows + data.unitRows - 1) / data.unitRows;
    const int64_t first = units * GetBlockIdx() / GetBlockNum() * data.unitRows;
    const int64_t last = units * (GetBlockIdx() + 1) / GetBlockNum() * data.unitRows;
    const int64_t end = last < data.rows ? last : data.rows;
    for (int64_t read = 0; read < data.tableReads; ++read) {
        values.GetValue(0);
    }
    int64_t tile = 0;
    for (int64_t row = first; row < end && tile < data.mostTiles; row += data.tileRows, ++tile) {
        const int64_t rows = row + data.tileRows <= end ? data.tileRows : end - row;
        LocalTensor<uint8_t> from = in.AllocTensor<uint8_t>();
        for (int64_t input = 0; input < data.inputs; ++input) {
            GlobalTensor<uint8_t> place = xGm[(input * data.rows + row) * data.inBytes];
            LocalTensor<uint8_t> to = from[input * data.tileRows * inPitch];
            DataCopyPad(to, place,
                        DataCopyExtParams(isDense ? 1 : rows, isDense ? rows * data.inBytes : data.inBytes, 0, 0, 0),
                        DataCopyPadExtParams<uint8_t>());
        }
        in.EnQue(from);
        from = in.DeQue<uint8_t>();
        LocalTensor<uint8_t> to = out.AllocTensor<uint8_t>();
        for (int64_t done = 0; done < rows * data.elements; done += most) {
            const int64_t left = rows * data.elements - done;
            Compute(values, left < most ? left : most, data.operations);
        }
        for (int64_t index = 0; index < rows * data.rowOperations; ++index) {
            Adds(values, values, 1.0f, 64);
        }
        out.EnQue(to);
        in.FreeTensor(from);
        to = out.DeQue<uint8_t>();
        for (int64_t output = 0; output < data.outputs; ++output) {
            GlobalTensor<uint8_t> place = yGm[(output * data.rows + row) * data.outBytes];
            LocalTensor<uint8_t> part = to[output * data.tileRows * outPitch];
            DataCopyPad(place, part,
                        DataCopyExtParams(isDense ? 1 : rows, isDense ? rows * data.outBytes : data.outBytes, 0, 0, 0));
        }
        out.FreeTensor(to);
    }
}
