"""Compare the C API (functions asc_ on pointers) with NumPy, and test planted mistakes in its use."""

from __future__ import annotations

import itertools
import json
import os
import subprocess

import ml_dtypes
import numpy as np
import pytest

from opforge.codegen.errors import UserError
from opforge.twin import launch
from opforge.twin.program import compile_program

pytestmark = pytest.mark.slow

BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
NAMES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
I8, U8, I16, U16, I32, U32, I64 = (np.dtype(name) for name in NAMES)
CPP = {BF16: "bfloat16_t", F16: "half", F32: "float", I8: "int8_t"}
CPP |= {U8: "uint8_t", I64: "int64_t", I16: "int16_t", U16: "uint16_t", I32: "int32_t", U32: "uint32_t"}
BYTES = 2048  # of an argument in the file
COUNT = 224  # three repeats and a tail of float; a multiple of 32 bytes in all types
NUMBERS, FLOATS, BITS = (I16, F16, I32, F32), (F16, F32), (I16, U16)
SHIFTED = (I16, U16, I32, U32)


def _same(*dtypes):
    return [(dtype, dtype) for dtype in dtypes]


def _rounded(function, dtype):
    return lambda x, _y, _z: function(x.astype(F32)).astype(dtype)


# name -> (arguments before the count, NumPy formula of x, y and the old z, pairs of dtypes of the result and of x, y)
CASES = {
    "asc_add": ("z, x, y", lambda x, y, _: x + y, _same(*NUMBERS)),
    "asc_sub": ("z, x, y", lambda x, y, _: x - y, _same(*NUMBERS)),
    "asc_mul": ("z, x, y", lambda x, y, _: x * y, _same(*NUMBERS)),
    "asc_div": ("z, x, y", lambda x, y, _: x / y, _same(*FLOATS)),
    "asc_max": ("z, x, y", lambda x, y, _: np.maximum(x, y), _same(*NUMBERS)),
    "asc_min": ("z, x, y", lambda x, y, _: np.minimum(x, y), _same(*NUMBERS)),
    "asc_and": ("z, x, y", lambda x, y, _: x & y, _same(*BITS)),
    "asc_or": ("z, x, y", lambda x, y, _: x | y, _same(*BITS)),
    "asc_not": ("z, x", lambda x, _y, _z: ~x, _same(*BITS)),
    "asc_add_relu": ("z, x, y", lambda x, y, _: np.maximum(x + y, x.dtype.type(0)), _same(I16, *FLOATS)),
    "asc_sub_relu": ("z, x, y", lambda x, y, _: np.maximum(x - y, x.dtype.type(0)), _same(I16, *FLOATS)),
    "asc_mul_add": ("z, x, y", lambda x, y, z: x * z + y, _same(F32)),
    "asc_mul_add_relu": ("z, x, y", lambda x, y, z: np.maximum(x * z + y, 0), _same(F32)),
    "asc_fma": ("z, x, y", lambda x, y, z: x.astype(F32) * y + z, [(F32, F32), (F32, F16)]),
    "asc_exp": ("z, x", lambda x, _y, _z: np.exp(x), _same(F32)),
    "asc_log": ("z, y", lambda _x, y, _z: np.log(y), _same(F32)),
    "asc_sqrt": ("z, y", lambda _x, y, _z: np.sqrt(y), _same(*FLOATS)),
    "asc_rsqrt": ("z, y", lambda _x, y, _z: 1 / np.sqrt(y), _same(F32)),
    "asc_rcp": ("z, y", lambda _x, y, _z: 1 / y, _same(F32)),
    "asc_abs": ("z, x", lambda x, _y, _z: np.abs(x), _same(*FLOATS)),
    "asc_relu": ("z, x", lambda x, _y, _z: np.maximum(x, x.dtype.type(0)), _same(F16, I32, F32)),
    "asc_add_scalar": ("z, x, 3", lambda x, _y, _z: x + x.dtype.type(3), _same(*NUMBERS)),
    "asc_sub_scalar": ("z, x, 3", lambda x, _y, _z: x - x.dtype.type(3), _same(*NUMBERS)),
    "asc_mul_scalar": ("z, x, 3", lambda x, _y, _z: x * x.dtype.type(3), _same(*NUMBERS)),
    "asc_max_scalar": ("z, x, 1", lambda x, _y, _z: np.maximum(x, x.dtype.type(1)), _same(*NUMBERS)),
    "asc_min_scalar": ("z, x, 1", lambda x, _y, _z: np.minimum(x, x.dtype.type(1)), _same(*NUMBERS)),
    "asc_leakyrelu": ("z, x, 2", lambda x, _y, _z: np.where(x > 0, x, x * x.dtype.type(2)), _same(*FLOATS)),
    "asc_shiftleft": ("z, x, 3", lambda x, _y, _z: x << x.dtype.type(3), _same(*SHIFTED)),
    "asc_shiftright": ("z, x, 3", lambda x, _y, _z: x >> x.dtype.type(3), _same(*SHIFTED)),
    "asc_axpy": ("z, x, 2", lambda x, _y, z: x.astype(z.dtype) * z.dtype.type(2) + z, [(F32, F32), (F32, F16)]),
    "asc_duplicate": ("z, 5", lambda x, _y, _z: np.full_like(x, 5), _same(*NUMBERS, BF16, U16, U32)),
    "asc_half2float": ("z, x", lambda x, _y, _z: x.astype(F32), [(F32, F16)]),
    "asc_bfloat162float": ("z, x", lambda x, _y, _z: x.astype(F32), [(F32, BF16)]),
    "asc_int322float": ("z, x", lambda x, _y, _z: x.astype(F32), [(F32, I32)]),
    "asc_int82half": ("z, x", lambda x, _y, _z: x.astype(F16), [(F16, I8)]),
    "asc_float2half": ("z, x", lambda x, _y, _z: x.astype(F16), [(F16, F32)]),
    "asc_float2half_rn": ("z, x", lambda x, _y, _z: x.astype(F16), [(F16, F32)]),
    "asc_float2bfloat16_rn": ("z, x", lambda x, _y, _z: x.astype(BF16), [(BF16, F32)]),
}
PLAIN = {"asc_uint82half": (F16, U8), "asc_int162float": (F32, I16), "asc_int162half": (F16, I16)}
PLAIN |= {"asc_int322int16": (I16, I32), "asc_int322int64": (I64, I32), "asc_int642int32": (I32, I64)}
CASES |= {name: ("z, x", lambda x, _y, _z: x, [pair]) for name, pair in PLAIN.items()}
MODES = {
    "_rn": np.rint,
    "_rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "_rd": np.floor,
    "_ru": np.ceil,
    "_rz": np.trunc,
}
ROUNDED = {"asc_float2int16": (I16, F32), "asc_float2int32": (I32, F32), "asc_float2int64": (I64, F32)}
ROUNDED |= {"asc_bfloat162int32": (I32, BF16), "asc_half2int8": (I8, F16), "asc_half2int16": (I16, F16)}
ROUNDED |= {"asc_half2int32": (I32, F16), "asc_float2float": (F32, F32)}
ROUNDED |= {"asc_int162half": (F16, I16), "asc_int322float": (F32, I32), "asc_int642float": (F32, I64)}
CASES |= {
    name + mode: ("z, x", _rounded(function, pair[0]), [pair])
    for name, pair in ROUNDED.items()
    for mode, function in MODES.items()
}
CASES |= {
    f"asc_half2uint8{mode}": ("z, y", lambda _x, y, _z, function=function: function(y.astype(F32)), [(U8, F16)])
    for mode, function in MODES.items()
}
CASES["asc_half2int8"] = CASES["asc_half2int8_rn"]
CASES["asc_half2uint8"] = CASES["asc_half2uint8_rn"]
ROWS = [(name, z, x) for name, (_, _, pairs) in CASES.items() for z, x in pairs]
ROWS.sort(key=lambda row: (str(row[1]), str(row[2])))  # one kernel has all rows with the same dtypes
BINARY = {"asc_add", "asc_sub", "asc_mul", "asc_div", "asc_max", "asc_min", "asc_and", "asc_or"}
BINARY |= {"asc_add_relu", "asc_sub_relu", "asc_mul_add", "asc_mul_add_relu", "asc_fma"}

HEAD = '#include <cstdio>\n#include <vector>\n#include "acl/acl.h"\n#include "c_api/asc_simd.h"\n'
KERNEL = """
__vector__ __global__ __aicore__ void kernel{first}(__gm__ char* at)
{{
    asc_init();
    constexpr uint32_t count = {count};
    __ubuf__ {tx} x[count], y[count];
    __ubuf__ {tz} z[count];
    __gm__ {tz}* c = nullptr;
    {calls}
}}
"""
CALL = """
    c = (__gm__ {tz}*)(at + 2 * {bytes});
    asc_copy_gm2ub(x, (__gm__ {tx}*)at, count * sizeof({tx}));
    asc_copy_gm2ub_sync(y, (__gm__ {tx}*)(at + {bytes}), count * sizeof({tx}));
    asc_copy_gm2ub(z, c, count * sizeof({tz}));
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID1);
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID1);
    {call};
    asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_copy_ub2gm(c, z, count * sizeof({tz}));
    asc_sync();
    at += 3 * {bytes};
"""
# Each argument is a run of BYTES bytes in one file, three for each row.
MAIN = """
template <typename Kernel>
void Run(Kernel kernel, const char* name, long first, long rows)
{{
    std::FILE* file = std::fopen(name, "r+b");
    std::vector<char> bytes(rows * 3 * {bytes});
    std::fseek(file, first * 3 * {bytes}, SEEK_SET);
    std::fread(bytes.data(), 1, bytes.size(), file);
    char* device = nullptr;
    aclrtMalloc((void**)&device, bytes.size(), ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(device, bytes.size(), bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE);
    kernel(device);
    aclrtSynchronizeDevice();
    aclrtMemcpy(bytes.data(), bytes.size(), device, bytes.size(), ACL_MEMCPY_DEVICE_TO_HOST);
    std::fseek(file, first * 3 * {bytes}, SEEK_SET);
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
    aclrtFree(device);
}}
int main(int, char** names)
{{
    aclInit(nullptr);
    aclrtSetDevice(0);
    {launches}
    aclrtResetDevice(0);
    return aclFinalize();
}}
"""
LAUNCH = "Run([](char* at) {{ kernel{first}<<<1, 0>>>(at); }}, names[1], {first}, {rows});"


def _call(name, z, x):
    """Return the statements of a case: one with a count, one with repeats and strides."""
    arguments = CASES[name][0]
    wide = max(z.itemsize, x.itemsize)
    rows = 256 // wide  # elements of a repeat
    whole, rest = divmod(COUNT, rows)
    first = ", ".join(f"{word} + {whole * rows}" if word in "xyz" else word for word in arguments.split(", "))
    dst, src = 8 * z.itemsize // wide, 8 * x.itemsize // wide
    strides = f"1, {dst}" if name == "asc_duplicate" else f"1, 1, {dst}, {src}"
    strides = f"1, 1, 1, {dst}, {src}, {src}" if name in BINARY else strides
    words = {2: "~0ull, ~0ull", 8: "0, 0xFFFFFFFFull"}.get(wide)  # else the initial mask
    mask = f"asc_set_mask_norm(); asc_set_vector_mask({words})" if words else ""
    reset = "asc_set_vector_mask(~0ull, ~0ull)" if words else ""
    return f"{name}({first}, {rest}); {mask}; {name}({arguments}, {whole}, {strides}); {reset}"


def _values(dtype, seed, positive=False):
    random = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return random.integers(0 if positive or dtype.kind == "u" else -60, 60, COUNT).astype(dtype)
    values = random.standard_normal(COUNT) * 4
    return (np.abs(values) + 0.25 if positive else values).astype(F32).astype(dtype)


def _write_program(folder):
    """Write a program with a kernel for each pair of dtypes, and the inputs; run it."""
    kernels, launches, data = [], [], b""
    for (z, x), group in itertools.groupby(enumerate(ROWS), lambda entry: entry[1][1:]):
        rows = list(group)
        words = {"first": rows[0][0], "tx": CPP[x], "tz": CPP[z], "bytes": BYTES}
        calls = "".join(CALL.format(**words, call=_call(*row)) for _, row in rows)
        kernels.append(KERNEL.format(**words, count=COUNT, calls=calls))
        launches.append(LAUNCH.format(**words, rows=len(rows)))
        data += len(rows) * b"".join(array.tobytes().ljust(BYTES, b"\0") for array in _given(z, x))
    source = folder / "program.asc"
    source.write_text(HEAD + "".join(kernels) + MAIN.format(launches="\n".join(launches), bytes=BYTES))
    (folder / "data.bin").write_bytes(data)
    program = compile_program([source], folder / "program", options=["-O0"])
    environment = {**os.environ, "OPFORGE_TWIN_REPORT": str(folder / "report.json")}
    command = [program.path, folder / "data.bin"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def _given(z, x):
    """Return x, y and the old z of a row."""
    return _values(x, 1), _values(x, 2, positive=True), _values(z, 3)


@pytest.fixture(scope="module")
def results(once):
    """Return the results and the reports of the program."""
    folder = once("c_api", _write_program)
    return (folder / "data.bin").read_bytes(), json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[f"{name}-{z}-{x}" for name, z, x in ROWS])
def test_a_function_agrees_with_numpy(results, number):
    data, _ = results
    name, z, x = ROWS[number]
    made = np.frombuffer(data, z, COUNT, (number * 3 + 2) * BYTES).astype(z)
    with np.errstate(all="ignore"):
        expected = CASES[name][1](*_given(z, x)).astype(z)
    tolerance = 2e-6 if z == F32 and name not in ("asc_add", "asc_max") else 0
    np.testing.assert_allclose(made.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)


def test_kernels_have_an_estimate_and_no_findings(results):
    _, reports = results
    assert len(reports) == len({row[1:] for row in ROWS})
    for report in reports:
        assert report["estimate_us"] > 0
        assert report["findings"] == []


ADD = """
__vector__ __global__ __aicore__ void add(__gm__ float* x, __gm__ float* z)
{
    asc_init();
    __ubuf__ float a[64], b[64];
    const __gm__ float* last = x;
    for (int i = 0; i < 2; ++i) {
        __ubuf__ float sums[2][64];
        asc_copy_gm2ub(a, x + i * 64, 256);
        asc_copy_gm2ub(b, x + i * 64, sizeof(b));
        asc_sync();
        asc_add(sums[i], a, b, 64);
        asc_sync();
        asc_copy_ub2gm(z + i * 64, sums[i], 256);
        asc_sync();
    }
}
int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    float host[128];
    for (int i = 0; i < 128; ++i) { host[i] = i; }
    float *x = nullptr, *z = nullptr;
    aclrtMalloc((void**)&x, 512, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void**)&z, 512, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(x, 512, host, 512, ACL_MEMCPY_HOST_TO_DEVICE);
    add<<<1, 0>>>(x, z);
    aclrtSynchronizeDevice();
    aclrtMemcpy(host, 512, z, 512, ACL_MEMCPY_DEVICE_TO_HOST);
    int wrong = 0;
    for (int i = 0; i < 128; ++i) { wrong += host[i] != 2.0f * i; }
    std::printf("%d wrong\\n", wrong);
    aclrtFree(x);
    aclrtFree(z);
    aclrtResetDevice(0);
    aclFinalize();
    return wrong == 0 ? 0 : 3;
}
"""


def _compiled(folder, text):
    source = folder / "program.asc"
    source.write_text(text)
    return compile_program([source], folder / "program").path


def _run(folder, text):
    program = _compiled(folder, HEAD + text)
    return subprocess.run([program], capture_output=True, text=True, timeout=300, check=False)


def test_arrays_are_in_the_unified_buffer(tmp_path):
    ended = _run(tmp_path, ADD)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0 wrong\n", "")


PLANTED = [
    ("asc_sync();\n        asc_add", "asc_add", "race", "asc_add"),
    ("asc_add(sums[i], a, b, 64)", "asc_add(sums[i], a, b, 65)", "ub_out_of_range", "asc_add"),
    ("asc_add(sums[i], a, b, 64)", "asc_add(sums[i], a + 1, b, 63)", "ub_misaligned", "asc_add"),
    ("asc_copy_gm2ub(a, x + i * 64, 256)", "asc_copy_gm2ub(a, x + i * 64, 252)", "field_range", "asc_copy"),
    ("asc_copy_gm2ub(b, x + i * 64, sizeof(b));", "", "uninitialised_read", "asc_add"),
    ("float a[64]", "float a[60000]", "ub_budget", "__ubuf__"),
    ("asc_sync();", "asc_sync_notify(PIPE_S, PIPE_S, EVENT_ID0);", "field_range", "asc_sync_notify"),
    ("asc_sync();", "asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);", "flag_not_set", "asc_sync_wait"),
]


def _planted_text():
    """Return a program with a kernel for each mistake; its argument is the number of the kernel."""
    kernel, main = ADD.split("int main()")
    assert all(old in kernel for old, *_ in PLANTED)
    kernels = [
        kernel.replace(old, new, 1).replace(" add(", f" add{number}(") for number, (old, new, *_) in enumerate(PLANTED)
    ]
    launches = "".join(f"if (number == {number}) {{ add{number}<<<1, 0>>>(x, z); }} " for number in range(len(PLANTED)))
    main = "int main(int, char** words)" + main.replace(
        "add<<<1, 0>>>(x, z);", f"const int number = atoi(words[1]); {launches}"
    )
    return [HEAD, "#include <cstdlib>\n", *kernels, main]


@pytest.mark.parametrize(
    "number", range(len(PLANTED)), ids=[f"{kind}-{number}" for number, (_, _, kind, _) in enumerate(PLANTED)]
)
def test_planted_mistakes_are_found(once, number):
    _, _, kind, line = PLANTED[number]
    parts = _planted_text()
    folder = once("c_api_planted", lambda folder: _compiled(folder, "".join(parts)))
    ended = subprocess.run([folder / "program", str(number)], capture_output=True, text=True, timeout=300, check=False)
    first = "".join(parts[: number + 2]).count("\n")
    place = first + next(index for index, row in enumerate(parts[number + 2].splitlines(), 1) if line in row)
    assert ended.returncode == 1
    assert f"error: {kind} " in ended.stderr
    assert f"program.asc:{place}: " in ended.stderr or line == "asc_add"


def test_arrays_need_a_program():
    """`launch` does not rewrite sources: an array with __ubuf__ is in host memory."""
    kernel = (HEAD + ADD).split("int main()")[0].replace("__vector__ __global__", 'extern "C" __global__')
    x, z = np.zeros(128, F32), np.zeros(128, F32)
    (finding,) = launch(kernel.replace("#include <cstdio>\n", ""), "add", 1, [x, z], lint=False)
    assert finding.kind == "no_buffer"
    assert "a program of `opforge cc`" in finding.message


def test_declarations_that_stay(tmp_path):
    """Parameters, pointers and casts with __ubuf__ are not arrays of the unified buffer."""
    text = ADD.replace(
        "__vector__",
        "__aicore__ inline void Sum(__ubuf__ float to[64], __ubuf__ float* from)\n"
        "{\n    __ubuf__ float* const same = (__ubuf__ float*)from;\n"
        "    asc_add(to, same, same, 64);\n}\n__vector__",
        1,
    )
    text = text.replace("asc_add(sums[i], a, b, 64)", "Sum(sums[i], b)")
    ended = _run(tmp_path, text)
    assert (ended.returncode, ended.stdout) == (0, "0 wrong\n")


def test_a_dtype_that_does_not_exist_is_rejected(tmp_path):
    with pytest.raises(UserError, match="Add: Ascend 910B has int16_t, half, int32_t, float"):
        _run(tmp_path, ADD.replace("float a[64], b[64]", "uint8_t a[256], b[256]").replace("(sums[i], a", "(a, a"))


BITS_KERNEL = """#include "c_api/asc_simd.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR y)
{
    GlobalTensor<uint64_t> from;
    GlobalTensor<int64_t> to;
    from.SetGlobalBuffer((__gm__ uint64_t*)x);
    to.SetGlobalBuffer((__gm__ int64_t*)y);
    for (int64_t i = 0; i < 8; ++i) {
        const uint64_t value = from.GetValue(i);
        const int64_t results[8] = {asc_popc(value), asc_zero_bits_cnt(value), asc_clz(value), asc_ffs(value),
                                    asc_ffz(value), asc_sflbits(static_cast<int64_t>(value)),
                                    static_cast<int64_t>(asc_set_nthbit(value, 5 * i)),
                                    static_cast<int64_t>(asc_clear_nthbit(value, 5 * i))};
        for (int64_t j = 0; j < 8; ++j) {
            to.SetValue(8 * i + j, results[j]);
        }
        DataCacheCleanAndInvalid<int64_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(to[8 * i]);
    }
}
"""


def test_bits_of_scalars():
    numbers = [0, 1, 2**64 - 1, 2**63, 0x0F00000000000000, 0x00FF00FF, 0xFFFFFFFF00000000, 3 << 40]
    y = np.zeros((8, 8), np.int64)
    assert launch(BITS_KERNEL, "kernel", 1, [np.array(numbers, np.uint64), y], lint=False) == []
    for i, (number, row) in enumerate(zip(numbers, y, strict=True)):
        digits = f"{number:064b}"
        expected = [digits.count("1"), digits.count("0"), len(digits) - len(digits.lstrip("0"))]
        expected += [digits[::-1].find("1"), digits[::-1].find("0"), 63 - len(digits.lstrip(digits[0]))]
        expected += [number | 1 << 5 * i, number & ~(1 << 5 * i)]
        assert [int(value) % 2**64 for value in row] == [value % 2**64 for value in expected]


SUFFIXES = {"float": F32, "float16": F16, "bfloat": BF16, "int": I32, "int16": I16, "int8": I8}
ATOMICS = {"add": 8, "max": 5, "min": 3}
ATOMIC = """
extern "C" __global__ __aicore__ void {name}(GM_ADDR x, GM_ADDR y)
{{
    GlobalTensor<{type}> from, to;
    from.SetGlobalBuffer((__gm__ {type}*)x);
    to.SetGlobalBuffer((__gm__ {type}*)y);
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<{type}> rows = buffer.Get<{type}>();
    DataCopy(rows, from, 32);
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    asc_set_atomic_{operation}_{suffix}();
    DataCopy(to, rows, 32);
    {reset}
}}
"""


def _atomic_stores():
    """Return two kernels for each operation and dtype; the second one does not end the atomic stores."""
    text = '#include "c_api/asc_simd.h"\nusing namespace AscendC;\n'
    for operation, (suffix, dtype) in itertools.product(ATOMICS, SUFFIXES.items()):
        words = {"operation": operation, "suffix": suffix, "type": CPP[dtype]}
        text += ATOMIC.format(name=f"{operation}_{suffix}", reset="asc_set_atomic_none();", **words)
        text += ATOMIC.format(name=f"{operation}_{suffix}_left", reset="", **words)
    return text


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(("operation", "expected"), ATOMICS.items())
def test_atomic_stores(operation, expected, suffix):
    dtype, text, name = SUFFIXES[suffix], _atomic_stores(), f"{operation}_{suffix}"
    x, y = np.full(32, 5, dtype), np.full(32, 3, dtype)
    assert launch(text, name, 1, [x, y], lint=False) == []
    assert y.astype(np.float64).tolist() == [expected] * 32
    assert {finding.kind for finding in launch(text, f"{name}_left", 1, [x, y], lint=False)} == {"atomic_left_on"}
