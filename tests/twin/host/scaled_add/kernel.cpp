#include "kernel_operator.h"
#include "tiling_data.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void scaled_add(GM_ADDR x, GM_ADDR bias, GM_ADDR limit, GM_ADDR out, GM_ADDR workspace,
                                                 GM_ADDR tiling)
{
    REGISTER_TILING_DEFAULT(ScaledAddTilingData);
    GET_TILING_DATA_WITH_STRUCT(ScaledAddTilingData, data, tiling);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    if (limit != nullptr && workspace == nullptr) {
        return;
    }
    using T = DTYPE_X;
    GlobalTensor<T> source;
    GlobalTensor<T> addend;
    GlobalTensor<T> target;
    source.SetGlobalBuffer((__gm__ T*)x);
    addend.SetGlobalBuffer((__gm__ T*)bias);
    target.SetGlobalBuffer((__gm__ T*)out);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> rows;
    TQue<TPosition::VECIN, 1> biases;
    TQue<TPosition::VECOUT, 1> sums;
    const uint32_t bytes = static_cast<uint32_t>(data.width) * sizeof(T);
    const uint32_t padded = (bytes + 31) / 32 * 32;
    pipe.InitBuffer(rows, 1, padded);
    pipe.InitBuffer(biases, 1, padded);
    pipe.InitBuffer(sums, 1, padded);
    const DataCopyExtParams row(1, bytes, 0, 0, 0);
    const DataCopyPadExtParams<T> padding(false, 0, 0, 0);
    const int32_t count = static_cast<int32_t>(data.width);
    for (int64_t index = GetBlockIdx(); index < data.rows; index += GetBlockNum()) {
        const int64_t shift = data.isOverrun != 0 ? 1 : 0;
        LocalTensor<T> in = rows.AllocTensor<T>();
        DataCopyPad(in, source[index * data.width], row, padding);
        rows.EnQue(in);
        in = rows.DeQue<T>();
        LocalTensor<T> result = sums.AllocTensor<T>();
        Muls(result, in, static_cast<T>(data.factor), count);
        rows.FreeTensor(in);
        if (data.hasBias != 0) {
            LocalTensor<T> added = biases.AllocTensor<T>();
            DataCopyPad(added, addend, row, padding);
            biases.EnQue(added);
            added = biases.DeQue<T>();
            PipeBarrier<PIPE_V>();
            Add(result, result, added, count);
            biases.FreeTensor(added);
        }
        sums.EnQue(result);
        result = sums.DeQue<T>();
        DataCopyPad(target[index * data.width + shift], result, row);
        sums.FreeTensor(result);
    }
}
