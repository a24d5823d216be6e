"""A small operator of other people: its definition and its kernel."""

from __future__ import annotations

import json

SOURCE = {
    "op": "AddRows",
    "input_desc": [
        {"name": name, "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "fp32"]} for name in "xy"
    ],
    "output_desc": [{"name": "z", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "fp32"]}],
}
TILING = """
BEGIN_TILING_DATA_DEF(RowTilingData)
TILING_DATA_FIELD_DEF(uint32_t, shareLength);
TILING_DATA_FIELD_DEF(uint32_t, tileLength);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(AddRows, RowTilingData)
"""
ENTRY = """
#include "kernel_operator.h"
#include "parts/adder.h"  // "parts/absent.h"

extern "C" __global__ __aicore__ void add_rows(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA(data, tiling);
    if (TILING_KEY_IS(7)) {
        Adder<DTYPE_X> adder;
        adder.Init(x, y, z, &data);
        adder.Process();
    }
}
"""
ADDER = """
#pragma once
#include "../types.h"
using namespace AscendC;
template <typename T>
class Adder {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, const RowTilingData* data)
    {
        int unused;
        share_ = data->shareLength;
        tile_ = data->tileLength;
        const uint64_t start = static_cast<uint64_t>(share_) * GetBlockIdx();
        x_.SetGlobalBuffer((__gm__ T*)x + start, share_);
        y_.SetGlobalBuffer((__gm__ T*)y + start, share_);
        z_.SetGlobalBuffer((__gm__ T*)z + start, share_);
        pipe_.InitBuffer(lefts_, 2, tile_ * sizeof(T));
        pipe_.InitBuffer(rights_, 2, tile_ * sizeof(T));
        pipe_.InitBuffer(sums_, 2, tile_ * sizeof(T));
    }
    __aicore__ inline void Process()
    {
        for (Length at = 0; at < share_; at += tile_) {
            LocalTensor<T> x = lefts_.AllocTensor<T>();
            DataCopy(x, x_[at], tile_);
            lefts_.EnQue(x);
            LocalTensor<T> y = rights_.AllocTensor<T>();
            DataCopy(y, y_[at], tile_);
            rights_.EnQue(y);
            x = lefts_.DeQue<T>();
            y = rights_.DeQue<T>();
            LocalTensor<T> z = sums_.AllocTensor<T>();
            Add(z, x, y, tile_);
            sums_.EnQue(z);
            lefts_.FreeTensor(x);
            rights_.FreeTensor(y);
            z = sums_.DeQue<T>();
            DataCopy(z_[at], z, tile_);
            sums_.FreeTensor(z);
        }
    }

private:
    TPipe pipe_;
    TQue<QuePosition::VECIN, 2> lefts_, rights_;
    TQue<QuePosition::VECOUT, 2> sums_;
    GlobalTensor<T> x_, y_, z_;
    Length share_, tile_;
};
"""
TYPES = "#pragma once\nusing Length = uint32_t;\n"


def write_source(folder):
    """Write the operator; return its definition and the file with its entry function."""
    for path, text in {
        "def/add_rows.json": json.dumps(SOURCE),
        "def/add_rows_tiling.h": TILING,
        "op_kernel/add_rows.cpp": ENTRY,
        "op_kernel/parts/adder.h": ADDER,
        "op_kernel/types.h": TYPES,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder / "def", folder / "op_kernel" / "add_rows.cpp"
