"""Test the CMake commands of operator projects: the twin compiles host code and kernels."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opforge.twin.program import write_cmake_files

pytestmark = [pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed"), pytest.mark.slow]

HOST = """#include "register/device_op_impl_registry.h"
#include "register/op_def_registry.h"
#include "scale_tiling.h"
namespace optiling {
static ge::graphStatus Tile(gert::TilingContext* context)
{
    ScaleTiling tiling;
    tiling.set_count(context->GetInputShape(0)->GetStorageShape().GetShapeSize());
    tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
    return context->SetSimdNumBlocks(1);
}
DEVICE_IMPL_OP_OPTILING(Scale).Tiling(Tile);
}
namespace ops {
class Scale : public OpDef {
public:
    explicit Scale(const char* name) : OpDef(name)
    {
        const std::vector<ge::Format> formats{ge::FORMAT_ND, ge::FORMAT_ND};
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).Format(formats);
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).Format(formats);
        this->AICore().SetTiling(optiling::Tile);
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(Scale);
}
"""
TILING = """#include "register/tilingdata_base.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(ScaleTiling)
TILING_DATA_FIELD_DEF(uint32_t, count);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Scale, ScaleTiling)
}
"""
KERNEL = """#include "kernel_operator.h"
static_assert(std::is_same_v<DTYPE_X, float> && std::is_same_v<DTYPE_Y, float>);
extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA(data, tiling);
    AscendC::GlobalTensor<DTYPE_X> from;
    from.SetGlobalBuffer((__gm__ DTYPE_X*)x, data.count);
}
"""
KERNELS = """npu_op_kernel_sources(kernels OP_TYPE Scale KERNEL_DIR op KERNEL_FILE scale.cpp)
npu_op_kernel_library(kernels SRC_BASE ${CMAKE_CURRENT_SOURCE_DIR} TILING_LIBRARY cust_optiling)
"""
PROJECT = """cmake_minimum_required(VERSION 3.21)
project(packed)
find_package(ASC REQUIRED)
npu_op_package(customize TYPE RUN CONFIG INSTALL_PATH ${CMAKE_BINARY_DIR})
file(GLOB host_sources host/scale.cpp)
npu_op_code_gen(SRC ${host_sources} PACKAGE customize OUT_DIR ${ASCEND_AUTOGEN_PATH})
npu_op_library(cust_optiling TILING ${host_sources})
npu_op_device_tiling_library(cust_opmaster SHARED ${host_sources})
file(GLOB generated ${ASCEND_AUTOGEN_PATH}/aclnn_*.cpp)
set_source_files_properties(${generated} PROPERTIES GENERATED TRUE)
npu_op_library(cust_opapi ACLNN ${generated})
KERNELS
npu_op_package_add(customize LIBRARY cust_optiling cust_opapi cust_opmaster kernels)
"""


def _build(folder, changes=(), order=KERNELS):
    files = {"CMakeLists.txt": PROJECT.replace("KERNELS\n", order), "host/scale.cpp": HOST}
    files |= {"host/scale_tiling.h": TILING, "op/scale.cpp": KERNEL}
    for name, old, new in changes:
        assert old in files[name]
        files[name] = files[name].replace(old, new)
    for name, text in files.items():
        path = folder / "a project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    build, toolchain = folder / "build", write_cmake_files()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = None
    for words in (("-S", folder / "a project", "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"), ("--build", build)):
        command = ["cmake", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            break
    return done, build


@pytest.mark.parametrize("lines", [KERNELS, "".join(reversed(KERNELS.splitlines(keepends=True)))])
def test_host_code_and_kernels_compile(tmp_path, lines):
    """The order of the commands for kernels does not matter; the project may be in a path with spaces."""
    done, build = _build(tmp_path, order=lines)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in build.glob("*.so")} == {"libcust_optiling.so", "libcust_opmaster.so"}
    assert (build / "kernels.Scale.o").stat().st_size > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("op/scale.cpp", "data.count", "data.counts")], "'counts'"),
        ([("host/scale.cpp", "ge::DT_FLOAT, ge", "ge::DT_FLOAT16, ge")], "static assertion failed"),
        ([("host/scale.cpp", "SetSimdNumBlocks", "SetBlocks")], "SetBlocks"),
        (
            [("CMakeLists.txt", "OP_TYPE Scale", "OP_TYPE Scales")],
            "OP_TYPE: got 'Scales', expected an operator of a source",
        ),
    ],
)
def test_errors_of_a_project(tmp_path, changes, message):
    done, _ = _build(tmp_path, changes)
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
