// Multiplies a vector by a factor. The tiling data is in global memory.
#include "kernel_operator.h"

struct ScaleTiling {
    uint32_t perBlock;
    float factor;
};

extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y, GM_ADDR tiling)
{
    const __gm__ ScaleTiling* plan = (const __gm__ ScaleTiling*)tiling;
    const uint32_t perBlock = plan->perBlock;
    const float factor = plan->factor;
    const uint32_t begin = static_cast<uint32_t>(AscendC::GetBlockIdx()) * perBlock;

    AscendC::GlobalTensor<float> from;
    AscendC::GlobalTensor<float> to;
    from.SetGlobalBuffer((__gm__ float*)x + begin, perBlock);
    to.SetGlobalBuffer((__gm__ float*)y + begin, perBlock);

    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> in;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, SCALE_TILE * sizeof(float));
    pipe.InitBuffer(out, 1, SCALE_TILE * sizeof(float));
    for (uint32_t at = 0; at < perBlock; at += SCALE_TILE) {
        AscendC::LocalTensor<float> loaded = in.AllocTensor<float>();
        AscendC::DataCopy(loaded, from[at], SCALE_TILE);
        in.EnQue(loaded);
        loaded = in.DeQue<float>();
        AscendC::LocalTensor<float> scaled = out.AllocTensor<float>();
        AscendC::Muls(scaled, loaded, factor, SCALE_TILE);
        out.EnQue(scaled);
        in.FreeTensor(loaded);
        scaled = out.DeQue<float>();
        AscendC::DataCopy(to[at], scaled, SCALE_TILE);
        out.FreeTensor(scaled);
    }
}
