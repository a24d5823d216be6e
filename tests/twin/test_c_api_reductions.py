"""Compare reductions, comparisons and other instructions of the C API with NumPy, and test planted mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Callable

F16, F32, I8, U8, I16, U16, I32, U32 = (
    np.dtype(name) for name in ("float16", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32")
)
CPP = {F16: "half", F32: "float", I8: "int8_t", U8: "uint8_t", I16: "int16_t", U16: "uint16_t"}
CPP |= {I32: "int32_t", U32: "uint32_t"}
BYTES = 2048
COUNT = 200  # a whole repeat and a tail, for 2-byte types; three and a tail for 4-byte types
KERNEL = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR, GM_ADDR)
{
    asc_init();
    AscendC::TPipe pipe;
    AscendC::TBuf<> buffers[3];
    for (auto& buffer : buffers) {
        pipe.InitBuffer(buffer, BYTES);
    }
    auto* a = (X*)buffers[0].Get<uint8_t>().GetPhyAddr();
    auto* b = (Y*)buffers[1].Get<uint8_t>().GetPhyAddr();
    auto* c = (Z*)buffers[2].Get<uint8_t>().GetPhyAddr();
    asc_copy_gm2ub((void*)a, (__gm__ void*)x, BYTES);
    asc_copy_gm2ub((void*)b, (__gm__ void*)y, BYTES);
    asc_copy_gm2ub((void*)c, (__gm__ void*)z, BYTES);
    asc_sync();
    CALL;
    asc_sync();
    asc_copy_ub2gm((__gm__ void*)z, (void*)c, BYTES);
}
"""


@dataclass(frozen=True)
class Case:
    """A call of a function with x and y as a and b, and the elements that it writes to z, from the start of z."""

    call: str
    x: np.dtype
    y: np.dtype
    z: np.dtype
    expected: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _lanes(dtype):
    return 256 // dtype.itemsize


def _repeats(values, count=COUNT):
    """Split the first elements at the repeats; the last one has the rest."""
    return np.split(values[:count], range(_lanes(values.dtype), count, _lanes(values.dtype)))


def _groups(function, width):
    def reduced(x, _y, _z):
        size = width or 32 // x.itemsize
        return np.array([function(x[at : min(at + size, COUNT)]) for at in range(0, COUNT, size)], x.dtype)

    return reduced


def _extremes(name, order):
    """Return the extreme of each repeat and its index, whose bits have the type of the values."""

    def reduced(x, _y, _z):
        found = []
        for part in _repeats(x):
            at = getattr(np, f"arg{name}")(part)
            value, index = part[at : at + 1], np.array([at], U32).view(x.dtype)
            short = index[:1]  # the high bits of an index beside a value of half are 0
            found += {"value_index": [value, short], "index_value": [short, value]}.get(
                order, [index] if order == "only_index" else [value]
            )
        return np.concatenate(found)

    return reduced


def _bits(values):
    return np.packbits(values, bitorder="little")


def _range(dtype):
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _half_blocks(old, first, values):
    """Return `old` with 16 values in a half of each block of 32."""
    blocks = old[: 2 * len(values)].reshape(-1, 32)
    blocks[:, first : first + 16] = values.reshape(-1, 16)
    return blocks.ravel()


def _sorted(x, y, _z, size=32):
    """Return the pairs of value and index of groups of elements, the largest value first."""
    pairs = []
    for at in range(0, 64, size):
        order = at + np.argsort(-x[at : at + size].astype(F32), kind="stable")
        words = np.zeros((size, 8 // x.itemsize), x.dtype)
        words[:, 0] = x[order]
        words[:, 4 // x.itemsize :] = y[order, None].view(x.dtype)
        pairs.append(words.ravel())
    return np.concatenate(pairs)


def _nibbles(values):
    bits = values.astype(np.int8).view(U8) & 15
    return bits[::2] | bits[1::2] << 4


CASES: dict[str, Case] = {}
for dtype in (F16, F32):
    lanes, name = _lanes(dtype), CPP[dtype]
    for what, function, width in (
        ("datablock_reduce_sum", np.sum, 0),
        ("datablock_reduce_max", np.max, 0),
        ("datablock_reduce_min", np.min, 0),
        ("pair_reduce_sum", np.sum, 2),
    ):
        CASES[f"{what}_{name}"] = Case(f"asc_{what}(c, a, {COUNT})", dtype, dtype, dtype, _groups(function, width))
    CASES[f"repeat_reduce_sum_{name}"] = Case(
        f"asc_repeat_reduce_sum(c, a, {COUNT})",
        dtype,
        dtype,
        dtype,
        lambda x, _y, _z: np.array([np.sum(part) for part in _repeats(x)], x.dtype),
    )
    for extreme in ("max", "min"):
        for order in ("value_index", "index_value", "only_value", "only_index"):
            CASES[f"{extreme}_{order}_{name}"] = Case(
                f"asc_repeat_reduce_{extreme}_{order}(c, a, {COUNT})", dtype, dtype, dtype, _extremes(extreme, order)
            )
    # A form with repeats: every second repeat of a, and one result in every second place.
    CASES[f"strides_{name}"] = Case(
        "asc_repeat_reduce_sum_sync(c, a, 7); asc_repeat_reduce_sum(c, a, 2, 2, 1, 16)",
        dtype,
        dtype,
        dtype,
        lambda x, _y, z: np.array(
            [x[: _lanes(x.dtype)].sum(), z[1], x[2 * _lanes(x.dtype) :][: _lanes(x.dtype)].sum()]
        ),
    )
    CASES[f"select_{name}"] = Case(
        f"asc_set_cmp_mask((void*)c); asc_sync(); asc_select(c, a, b, {COUNT})",
        dtype,
        dtype,
        dtype,
        lambda x, y, z: np.where(
            np.resize(np.unpackbits(z.view(U8), bitorder="little")[: _lanes(x.dtype)], COUNT), x[:COUNT], y[:COUNT]
        ),
    )
    CASES[f"bitsort_{name}"] = Case("asc_bitsort(c, a, b, 2)", dtype, U32, dtype, _sorted)
    CASES[f"last_max_{name}"] = Case(
        f"asc_repeat_reduce_max_value_index(c, a, {lanes}); asc_sync(); {name} value = 0; uint32_t index = 0; "
        "asc_get_reduce_max_cnt(value, index); asc_duplicate(c, value, 16); asc_sync(); "
        "asc_add_scalar(c, c, static_cast<float>(index), 16)",
        dtype,
        dtype,
        dtype,
        lambda x, _y, _z: np.full(16, x[: _lanes(x.dtype)].max() + x[: _lanes(x.dtype)].argmax(), x.dtype),
    )
STRIDES = "1, 1, 1, 8, 8, 8"
COMPARED = {"eq": np.equal, "ne": np.not_equal, "gt": np.greater}
COMPARED |= {"ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
for mode, compare in COMPARED.items():
    for dtype in (F16, F32, *((I32,) if mode == "eq" else ())):
        lanes, name = _lanes(dtype), CPP[dtype]
        CASES[f"{mode}_{name}"] = Case(
            f"asc_{mode}((uint8_t*)c, a, b, 2, {STRIDES})",
            dtype,
            dtype,
            U8,
            lambda x, y, _z, compare=compare: _bits(compare(x, y)[: 2 * _lanes(x.dtype)]),
        )
        CASES[f"{mode}_scalar_{name}"] = Case(
            f"asc_{mode}_scalar((uint8_t*)c, a, 1, 3, 1, 1, 8, 8)",
            dtype,
            dtype,
            U8,
            lambda x, _y, _z, compare=compare: _bits(compare(x, 1)[: 3 * _lanes(x.dtype)]),
        )
        if dtype != I32:
            CASES[f"{mode}_register_{name}"] = Case(
                f"asc_{mode}(a, b, 1, {STRIDES}); asc_sync(); asc_get_cmp_mask((void*)c)",
                dtype,
                dtype,
                U8,
                lambda x, y, _z, compare=compare: _bits(compare(x, y)[: _lanes(x.dtype)]),
            )
for dtype in (I16, U16, I32, U32):
    CASES[f"copy_{CPP[dtype]}"] = Case(f"asc_copy(c, a, {COUNT})", dtype, dtype, dtype, lambda x, _y, _z: x[:COUNT])
for dtype in (I16, I32):
    CASES[f"shiftright_round_{CPP[dtype]}"] = Case(
        f"asc_shiftright_round(c, a, 3, {COUNT})", dtype, dtype, dtype, lambda x, _y, _z: (x[:COUNT] + 4) >> 3
    )
for dtype in (U16, U32):
    CASES[f"brcb_{CPP[dtype]}"] = Case(
        "asc_brcb(c, a, 1, 8, 2)", dtype, dtype, dtype, lambda x, _y, _z: x[:16].repeat(32 // x.itemsize)
    )
    CASES[f"gather_datablock_{CPP[dtype]}"] = Case(
        "asc_gather_datablock(c, a, b, 8, 1, 2)",
        dtype,
        U32,
        dtype,
        lambda x, y, _z: np.concatenate([x[at * 8 // x.itemsize :][: 32 // x.itemsize] for at in y[:16] // 8]),
    )
for dtype in (I16, U16, F16, I32, U32, F32):
    CASES[f"gather_{CPP[dtype]}"] = Case(
        f"asc_gather(c, a, b, {COUNT})", dtype, U32, dtype, lambda x, y, _z: x[y[:COUNT] // x.itemsize]
    )
for dtype in (F16, F32):
    width = 8 // dtype.itemsize  # elements of a pair
    CASES[f"mrgsort4_{CPP[dtype]}"] = Case(
        f"asc_bitsort(c, a, b, 2); asc_sync(); {CPP[dtype]}* lists[4] = {{c, c + {32 * width}}}; "
        f"asc_mrgsort4(c + {64 * width}, lists, 1, 32, 32, 0, 0, false, 3)",
        dtype,
        U32,
        dtype,
        lambda x, y, z: np.concatenate([_sorted(x, y, z), _sorted(x, y, z, 64)]),
    )
for dtype in (U16, U32):
    lanes, name = _lanes(dtype), CPP[dtype]
    CASES[f"reduce_pattern_{name}"] = Case(
        "asc_reduce(c, a, b, 2, 1, 2, 8, 0)", dtype, dtype, dtype, lambda x, _y, _z: x[: 2 * _lanes(x.dtype)][1::2]
    )
    CASES[f"reduce_{name}"] = Case(
        "asc_reduce(c, a, b, 1, 1, 0, 8, 0)",
        dtype,
        dtype,
        dtype,
        lambda x, y, _z: x[: _lanes(x.dtype)][np.unpackbits(y.view(U8), bitorder="little")[: _lanes(x.dtype)] == 1],
    )
    CASES[f"reduced_count_{name}"] = Case(
        f"asc_reduce(c, a, b, 1, 1, 0, 8, 0); asc_sync(); asc_duplicate(c, ({name})asc_get_rsvd_count(), {lanes})",
        dtype,
        dtype,
        dtype,
        lambda x, y, _z: np.full(
            _lanes(x.dtype), np.unpackbits(y.view(U8), bitorder="little")[: _lanes(x.dtype)].sum(), x.dtype
        ),
    )
for to in (I8, U8):
    for half, first in (("l", 0), ("h", 16)):
        CASES[f"deq_int162b8_{half}_{to}"] = Case(
            f"asc_set_deq_scale(0.5f, 3, {'true' if to == I8 else 'false'}); asc_deq_int162b8_{half}(c, a, 64)",
            I16,
            I16,
            to,
            lambda x, _y, z, first=first: _half_blocks(z, first, np.clip(x[:64] // 2 + 3, *_range(z.dtype))),
        )
CASES["vdeq_int162b8"] = Case(
    "float scales[16]; int16_t offsets[16]; bool signs[16]; "
    "for (int i = 0; i < 16; ++i) { scales[i] = 0.5f; offsets[i] = i; signs[i] = true; } "
    "asc_set_deq_scale((uint64_t*)b, scales, offsets, signs); asc_sync(); asc_vdeq_int162b8_l(c, a, 64); asc_sync(); "
    "asc_vdeq_int162b8_h(c, a, 64)",
    I16,
    I16,
    I8,
    lambda x, _y, z: _half_blocks(
        _half_blocks(z.copy(), 0, x[:64] // 2 + np.tile(np.arange(16), 4)), 16, x[:64] // 2 + np.tile(np.arange(16), 4)
    ),
)
CASES["arch_ver"] = Case(
    "uint32_t version = 0; asc_get_arch_ver(version); asc_duplicate(c, version, 8)",
    U32,
    U32,
    U32,
    lambda _x, _y, _z: np.full(8, 0x220, U32),
)
CASES["transpose"] = Case("asc_transpose(c, a)", I16, I16, I16, lambda x, _y, _z: x[:256].reshape(16, 16).T.ravel())
CASES["int42half"] = Case(
    f"asc_int42half(c, (AscendC::int4b_t*)a, {COUNT})",
    U8,
    U8,
    F16,
    lambda x, _y, _z: (((x[: COUNT // 2, None] >> [0, 4] & 15) ^ 8).astype(I8) - 8).ravel().astype(F16),
)
for suffix, function in (("", np.rint), ("_rn", np.rint), ("_rd", np.floor), ("_ru", np.ceil), ("_rz", np.trunc)):
    CASES[f"half2int4{suffix}"] = Case(
        f"asc_half2int4{suffix}((AscendC::int4b_t*)c, a, 192)",
        F16,
        F16,
        U8,
        lambda x, _y, _z, function=function: _nibbles(np.clip(function(x[:192].astype(F32)), -8, 7)),
    )
CASES["deq"] = Case(
    f"asc_set_deq_scale(half(0.25f)); asc_deq_int322half(c, a, {COUNT})",
    I32,
    I32,
    F16,
    lambda x, _y, _z: (x[:COUNT] * 0.25).astype(F16),
)
for to in (I8, U8):
    CASES[f"mul_cast_{CPP[to]}"] = Case(
        f"asc_mul_cast_half2{to}(c, a, b, {COUNT - 8})",
        F16,
        F16,
        to,
        lambda x, y, _z, to=to: np.clip(
            np.rint((x * y)[: COUNT - 8].astype(F32)), np.iinfo(to).min, np.iinfo(to).max
        ).astype(to),
    )


def _text(name, case):
    text = KERNEL.replace("NAME", name).replace("CALL", case.call).replace("BYTES", str(BYTES))
    for letter, dtype in (("X", case.x), ("Y", case.y), ("Z", case.z)):
        text = text.replace(f"({letter}*)", f"({CPP[dtype]}*)")
    return text


MISTAKES = {
    "race": ("asc_sync();\n    asc_repeat", "asc_repeat", "race"),
    "out_of_range": (f"(c, a, {COUNT})", f"(c + 510, a, {COUNT})", "ub_out_of_range"),
    "misaligned": (f"(c, a, {COUNT})", f"(c, a + 1, {COUNT})", "ub_misaligned"),
}
CUBE = """
extern "C" __global__ __aicore__ void cube_modes(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR)
{
    asc_enable_hf32();
    asc_enable_hf32_trans(1);
    asc_enable_hf32_trans(0);
    asc_set_fp32_mode();
    asc_set_mmad_direction_m();
    asc_set_mmad_direction_n();
}
extern "C" __global__ __aicore__ void no_effect(GM_ADDR x, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR)
{
    asc_icache_preload(nullptr, 2);
    asc_datacache_preload((__gm__ uint64_t*)x, int64_t{0});
    asc_dcci_entire_ub();
    asc_sync_data_barrier(DSB_DDR);
    (void)asc_get_program_counter();
    (void)asc_get_icache_preload_status();
}
"""
FLAGS = """
extern "C" __global__ __aicore__ void cores(GM_ADDR x, GM_ADDR, GM_ADDR z, GM_ADDR, GM_ADDR)
{
    asc_init();
    const int64_t place = 64 * asc_get_block_idx(), other = 64 * (1 - asc_get_block_idx());
    AscendC::TPipe pipe;
    AscendC::TBuf<> buffer;
    pipe.InitBuffer(buffer, 256);
    auto* a = reinterpret_cast<__ubuf__ float*>(buffer.Get<float>().GetPhyAddr());
    asc_copy_gm2ub_sync((void*)a, (__gm__ void*)((__gm__ float*)x + place), 256);
    asc_copy_ub2gm((__gm__ void*)((__gm__ float*)z + place), (void*)a, 256);
    asc_sync_inter_arrive(PIPE_MTE3, 3);
    asc_sync_inter_wait(PIPE_MTE2, 3);
    asc_copy_gm2ub_sync((void*)a, (__gm__ void*)((__gm__ float*)z + other), 256);
    asc_copy_ub2gm((__gm__ void*)((__gm__ float*)z + 128 + place), (void*)a, 256);
}
extern "C" __global__ __aicore__ void cache(GM_ADDR, GM_ADDR, GM_ADDR z, GM_ADDR, GM_ADDR)
{
    AscendC::GlobalTensor<float> to;
    to.SetGlobalBuffer((__gm__ float*)z, 64);
    to.SetValue(0, 7.0f);
    CLEAN;
}
"""


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    texts = [_text(name, case) for name, case in CASES.items()]
    clean = _text("NAME", CASES["max_value_index_float"])
    for name, (old, new, _) in MISTAKES.items():
        assert old in clean
        texts.append(clean.replace(old, new).replace("NAME", f"planted_{name}"))
    cores, cache = FLAGS.split('extern "C" __global__ __aicore__ void cache')
    texts += [CUBE, CUBE.split('extern "C"')[1].join(['extern "C"', ""]).replace("cube_modes", "hf32_left")]
    texts[-1] = texts[-1].replace("asc_set_fp32_mode();", "")
    wait = "asc_sync_inter_wait(PIPE_MTE2, 3);"
    texts += [cores, cores.replace(wait, "").replace("cores(", "no_wait(")]
    for name, call in (("single", "((__gm__ void*)z)"), ("entire_all", "()"), ("entire_out", "()"), ("none", "")):
        text = 'extern "C" __global__ __aicore__ void cache' + cache
        texts.append(
            text.replace("cache(", f"cache_{name}(").replace("CLEAN", f"asc_dcci_{name}{call}" if call else "(void)0")
        )
    return compile_kernels('#include "c_api/asc_simd.h"\n' + "".join(texts))


def _given(case):
    random = np.random.default_rng(5)

    def values(dtype, low, high):
        return random.integers(low, high, BYTES // dtype.itemsize).astype(dtype)

    x, y = values(case.x, -4 if case.x.kind != "u" else 0, 12), values(case.y, -4 if case.y.kind != "u" else 0, 12)
    if "gather_datablock" in case.call:
        y = random.permutation(BYTES // 32).astype(U32) * 32
        y = np.resize(y, BYTES // 4)
    elif "gather" in case.call:
        y = values(U32, 0, BYTES // case.x.itemsize) * np.uint32(case.x.itemsize)
    elif "mrgsort4" in case.call:
        x = random.permutation(len(x)).astype(case.x)
    elif "int162b8" in case.call:
        x = x * np.int16(2)
    elif "half2int4" in case.call:
        x = (random.integers(-20, 16, len(x)) / 2).astype(case.x)
    elif "int42half" in case.call:
        x = values(case.x, 0, 256)
    return x, y, random.integers(0, 50, BYTES // case.z.itemsize).astype(case.z)


@pytest.mark.parametrize("name", CASES)
def test_a_function_agrees_with_numpy(kernels, name):
    case = CASES[name]
    x, y, z = _given(case)
    expected = case.expected(x, y, z.copy())
    before = z.copy()
    report = kernels.launch(name, x, y, z)
    assert report["findings"] == []
    np.testing.assert_array_equal(z[: len(expected)], expected)
    # Comparisons write whole blocks, and reductions of groups all places of a repeat.
    if case.z.itemsize > 1 and "block_reduce" not in name and "pair" not in name:
        np.testing.assert_array_equal(z[len(expected) :], before[len(expected) :])
    function = case.call.split("(")[0]
    assert report["estimate_us"] > 0, function


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(kernels, name):
    findings = kernels.launch(f"planted_{name}", *_given(CASES["max_value_index_float"]))["findings"]
    assert findings
    assert findings[0]["kind"] == MISTAKES[name][2]


def test_flags_between_cores(kernels):
    x, y, z = np.arange(128, dtype=F32), np.zeros(1, F32), np.zeros(256, F32)
    assert kernels.launch("cores", x, y, z, blocks=2)["findings"] == []
    np.testing.assert_array_equal(z, np.concatenate([x, np.roll(x, 64)]))
    kinds = {found["kind"] for found in kernels.launch("no_wait", x, y, z, blocks=2)["findings"]}
    assert "race" in kinds


def test_cleaning_the_cache(kernels):
    x, z = np.zeros(64, F32), np.zeros(64, F32)
    for name in ("single", "entire_all", "entire_out"):
        assert kernels.launch(f"cache_{name}", x, x, z)["findings"] == []
        assert z[0] == 7
    (found,) = kernels.launch("cache_none", x, x, z)["findings"]
    assert found["kind"] == "cache_not_flushed"


def test_modes_of_the_cube_unit(kernels):
    x = np.zeros(64, F32)
    assert kernels.launch("cube_modes", x, x, x, task_type="AIC_ONLY")["findings"] == []
    (found,) = kernels.launch("hf32_left", x, x, x, task_type="AIC_ONLY")["findings"]
    assert found["kind"] == "hf32_left"
    assert kernels.launch("no_effect", x, x, x)["findings"] == []


def test_cycles_of_reductions(kernels):
    """A reduction of three repeats and a tail has the time of the instruction with four repeats."""
    x, y, z = _given(CASES["max_value_index_float"])
    cycles = kernels.cycles("max_value_index_float", x, y, z)
    assert any(value > 0 for name, value in cycles.items() if name.startswith("WholeReduceMax"))
