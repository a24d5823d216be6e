"""Write a small clone with kernels and examples: right, wrong, with findings, with unknown names, and hostile."""

from __future__ import annotations

import re
from pathlib import Path

_DEFINITION = """
#include "register/op_def_registry.h"
namespace ops {
class @ : public OpDef {
public:
    explicit @(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16});
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16});
        OpAICoreConfig other;
        other.ExtendCfgInfo("opFile.value", "#_apt");
        this->AICore().AddConfig("CHIP");
        this->AICore().AddConfig("ascend950", other);
    }
};
OP_ADD(@);
}  // namespace ops
"""
_TILING = """
#include "register/tilingdata_base.h"
constexpr uint32_t SPARE = 4;
BEGIN_TILING_DATA_DEF(@TilingData)
TILING_DATA_FIELD_DEF(uint32_t, count);
TILING_DATA_FIELD_DEF_ARR(uint32_t, SPARE, spare);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(@, @TilingData)
"""
_KERNEL = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void #(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA(data, tiling);
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 1024);
    pipe.InitBuffer(out, 1, 1024);
    GlobalTensor<DTYPE_X> from, to;
    from.SetGlobalBuffer((__gm__ DTYPE_X*)x);
    to.SetGlobalBuffer((__gm__ DTYPE_X*)y);
    LocalTensor<DTYPE_X> loaded = in.AllocTensor<DTYPE_X>();
    DataCopy(loaded, from, data.count);
    in.EnQue(loaded);
    loaded = in.DeQue<DTYPE_X>();
    LocalTensor<DTYPE_X> sum = out.AllocTensor<DTYPE_X>();
    Add(sum, loaded, loaded, data.count);
    out.EnQue(sum);
    sum = out.DeQue<DTYPE_X>();
    DataCopy(to, sum, data.count EXTRA);
    in.FreeTensor(loaded);
    out.FreeTensor(sum);
}
"""
_TEST = """
#include <array>
#include "gtest/gtest.h"
#include "tikicpulib.h"
BEFORE
extern "C" __global__ __aicore__ void #(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling);
class Doubles : public testing::Test {
protected:
    static void SetUpTestCase() {}
};
TEST_F(Doubles, adds)
{
    START
    auto* x = (float*)AscendC::GmAlloc(64 * sizeof(float));
    auto* y = (float*)AscendC::GmAlloc(64 * sizeof(float));
    auto* workspace = (uint8_t*)AscendC::GmAlloc(32);
    auto* tiling = (@TilingData*)AscendC::GmAlloc(sizeof(@TilingData));
    for (int i = 0; i < 64; ++i) {
        x[i] = i;
    }
    tiling->count = 64;
    AscendC::SetKernelMode(KernelMode::AIV_MODE);
    ICPU_SET_TILING_KEY(0);
    ICPU_RUN_KF(#, 1, (uint8_t*)x, (uint8_t*)y, workspace, (uint8_t*)tiling);
    for (int i = 0; i < 64; ++i) {
        EXPECT_EQ(y[i], FACTOR * i);
    }
    AscendC::GmFree(x);
}
"""


# A unit test with a separate structure of tiling data, and a kernel that only stricter levels reject.
OWN_STRUCTURE = """
#include "securec.h"
#ifdef __CCE_KT_TEST__
struct OwnOpTilingData { uint32_t count; uint32_t spare[4]; };
#endif
"""
AGAIN = _KERNEL.replace(
    "sum = out.DeQue<DTYPE_X>();",
    "sum = out.DeQue<DTYPE_X>(); out.EnQue(sum); sum = out.DeQue<DTYPE_X>(); data.count += 0;",
)


# A unit test whose header has a structure with another name, and a test with parameters of an array.
NAMED_TEST = """
#include "named_op_tiling_def.h"
class Each : public testing::TestWithParam<int> {};
TEST_P(Each, is_positive) { EXPECT_GT(GetParam(), 0); }
static const int cases[] = {1, 2};
INSTANTIATE_TEST_SUITE_P(All, Each, testing::ValuesIn(cases));
"""
NAMED_HEADER = """
#pragma once
#include <cstdint>
#define DTYPE_X float
#define ORIG_DTYPE_Y DT_INT4
struct NamedOpTilingDataTest { uint32_t count; uint32_t spare[4]; };
#define GET_TILING_DATA(data, pointer) \\
    NamedOpTilingDataTest data;        \\
    data = *(const NamedOpTilingDataTest*)(pointer)
"""
# A kernel with a structure of the host code, a launch of another build, and two words for one qualifier of the twin.
NAMED_KERNEL = (
    _KERNEL.replace(
        "extern",
        "inline volatile __gm__ uint32_t unused[2] = {0, 0};\n"
        "inline uint32_t CountOf(const NamedOpTilingData& data) { return ORIG_DTYPE_Y == DT_INT4 ? data.count : 0; }\n"
        "extern",
        1,
    ).replace("DataCopy(loaded, from, data.count)", "DataCopy(loaded, from, CountOf(data))")
    + "\n#ifndef __CCE_KT_TEST__\nvoid Start(uint8_t* x) { named_op<<<1, nullptr, nullptr>>>(x, x, x, x); }\n#endif\n"
)
# A kernel with text that only the device compiler accepts, names of its own in AscendC, and one for other products.
DEVICE_KERNEL = """
#if __CCE_AICORE__ != 220 || __NPU_ARCH__ != 2201
#error "the device compiler defines both"
#endif
using Half = half;
#include "ascendc/host_api/tiling/template_argument.h"
ASCENDC_TPL_SEL(ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_UINT_SEL(kind, ASCENDC_TPL_UI_LIST, UNKNOWN_VALUE)));
""" + _KERNEL.replace(
    "using namespace AscendC;",
    """
#undef __aicore__
#define __aicore__ [aicore]
namespace AscendC {
struct OwnHalf {
    Half value;
};
}  // namespace AscendC
using namespace AscendC;
template <typename T>
__aicore__ inline T Most(T a, T b)
{
    return a < b ? b : a;
}
#if __NPU_ARCH__ == 3510
using AscendC::MicroAPI;
using AscendC::tiling::TCubeTiling;
#endif
""",
).replace(
    "DataCopy(loaded, from, data.count)",
    "DataCopyParams rows; rows.blockLen = 8; AscendC::OwnHalf own{1}; ENABLE_DETERMINISTIC(); "
    "rows.blockLen = Most(rows.blockLen, static_cast<uint16_t>(own.value)); DataCopy(loaded, from, rows)",
)


def operator(clone: Path, name: str, **changes: str) -> None:
    """Write an operator with a unit test; `changes` are `chip`, `extra`, `factor`, `start`, `before` and `kernel`."""
    words = {"CHIP": "ascend910b", "EXTRA": "", "FACTOR": "2.0f", "START": "", "BEFORE": ""}
    words |= {word.upper(): text for word, text in changes.items()}
    op_type = name.title().replace("_", "")
    home = clone / "math" / name
    files = {
        f"op_host/{name}_def.cpp": _DEFINITION,
        f"op_host/{name}_tiling_def.h": _TILING,
        f"op_kernel/{name}.cpp": changes.get("kernel", _KERNEL),
        f"op_kernel/{name}_apt.cpp": _KERNEL,
        f"tests/ut/op_kernel/test_{name}.cpp": _TEST,
    }
    for path, text in files.items():
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        content = re.sub("#(?!include|if|endif|define|undef|error)", name, text.replace("@", op_type))
        for word, value in words.items():
            content = content.replace(word, value)
        file.write_text(content)


def example(clone: Path, name: str, main: str, *, scripts: dict[str, str] | None = None, readme: str = "") -> None:
    """Write a single-source example with CMake."""
    folder = clone / "examples" / name
    (folder / "scripts").mkdir(parents=True)
    (folder / f"{name}.asc").write_text(main)
    (folder / "CMakeLists.txt").write_text(
        'set(CMAKE_ASC_ARCHITECTURES "dav-2201" CACHE STRING "chip")\nset(LIMIT 3 CACHE STRING "a number")\n'
        f"add_executable(demo\n    {name}.asc\n)\ntarget_compile_definitions(demo PRIVATE LIMIT=${{LIMIT}})\n"
    )
    (folder / "README.md").write_text(readme)
    for path, text in (scripts or {}).items():
        (folder / "scripts" / path).write_text(text)


# A kernel and the function that launches it, for programs; the function returns 7.
LAUNCHES = """
#include "acl/acl.h"
#include "kernel_operator.h"
__global__ __aicore__ void fill(GM_ADDR y)
{
    AscendC::GlobalTensor<int32_t> to;
    to.SetGlobalBuffer((__gm__ int32_t*)y, 16);
    to.SetValue(0, 7);
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE>(to);
}
inline int Launched()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    void* device = nullptr;
    aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    fill<<<1, nullptr, nullptr>>>(static_cast<uint8_t*>(device));
    const int failed = aclrtSynchronizeStream(nullptr);
    int32_t value = 0;
    aclrtMemcpy(&value, 4, device, 4, ACL_MEMCPY_DEVICE_TO_HOST);
    aclrtFree(device);
    aclrtResetDevice(0);
    aclFinalize();
    return failed != 0 ? -1 : value;
}
"""
PRINTS = LAUNCHES + '#include <cstdio>\nint main() { std::puts("test @!"); return Launched() - 7; }\n'
READ = (
    LAUNCHES
    + """
#include <cstdio>
int main()
{
    std::FILE* file = std::fopen("input/x.bin", "rb");
    int value = 0;
    if (file == nullptr || std::fread(&value, sizeof(value), 1, file) != 1) {
        std::puts("no input");
        return 1;
    }
    value += LIMIT + Launched() - 7;
    file = std::fopen("output/y.bin", "wb");
    std::fwrite(&value, sizeof(value), 1, file);
    std::fclose(file);
    return 0;
}
"""
)
STEPS = """
```bash
mkdir -p build && cd build;
cmake -DLIMIT=4 -DCMAKE_ASC_ARCHITECTURES=dav-2201 ..;make -j;   # compile
python3 ../scripts/gen_data.py                                    # make the input
./demo
python3 ../scripts/verify_result.py output/y.bin
```
"""
GENERATE = (
    "import os\nos.makedirs('input')\nos.makedirs('output')\n"
    "open('input/x.bin', 'wb').write((5).to_bytes(4, 'little'))\n"
)
VERIFY = "import sys\nsys.exit(int.from_bytes(open(sys.argv[1], 'rb').read(), 'little') != 9)\n"
ESCAPES = (
    LAUNCHES
    + """
#include <sys/socket.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
int main()
{
    const bool isOut = std::fopen("@", "w") != nullptr || std::fopen("/etc/passwd", "r") != nullptr ||
        std::system("true") == 0 || fork() >= 0 || socket(AF_INET, SOCK_STREAM, 0) >= 0 || kill(getppid(), 0) == 0;
    std::puts(isOut ? "test failed" : "test pass");
    return Launched() - 7;
}
"""
)
