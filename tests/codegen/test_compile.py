"""Test that generated C++ compiles without warnings for all kinds of parameters."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from opforge.codegen.render import TABLES_HEADER, render, tables_header
from opforge.twin.build import header_folders

PLAN = """
#include "common/plan.h"
#include "scale_rows_problem.h"
#include "scale_rows_tiling_data.h"
namespace opforge {
constexpr Plan<ScaleRowsTilingData> PlanScaleRows(const ScaleRowsProblem& problem, const Platform& platform)
{
    Plan<ScaleRowsTilingData> plan{};
    plan.data.rows = problem.shapeCase == ScaleRowsCase::kWide ? problem.N : problem.D;
    plan.data.ratio = problem.isFast ? problem.ratio : 0.0F;
    plan.blockNum = platform.coreNum;
    plan.tilingKey = problem.xDtype == DataType::kFloat16 ? SCALE_ROWS_PLAIN : SCALE_ROWS_HALF2_FLOAT;
    return plan;
}
}  // namespace opforge
"""
KERNEL = """
#include "kernel_operator.h"
#include "scale_rows_tiling_data.h"
namespace opforge {
template <typename T, int32_t kWidth, bool kPlain>
class ScaleRows {
public:
    __aicore__ inline void Init(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR y, GM_ADDR, GM_ADDR, const ScaleRowsTilingData& data,
                                AscendC::TPipe*)
    {
        y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        rows_ = data.rows;
    }
    __aicore__ inline void Process() {}

private:
    AscendC::GlobalTensor<T> y_;
    int64_t rows_ = 0;
};
}  // namespace opforge
"""


@pytest.fixture(scope="module")
def generated(specimen, tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    files = {**dict(render(specimen)), TABLES_HEADER: tables_header()}
    files |= {"op_host/scale_rows_tiling.h": PLAN, "op_kernel/scale_rows.h": KERNEL}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_every_source_compiles_without_a_warning(generated, root):
    includes = [*header_folders(), *(generated / f"op_{f}" for f in ("proto", "host", "kernel", "api"))]
    includes += [root / "op_host", root / "op_plugin"]
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *(f"-I{folder}" for folder in includes)]

    def messages(source):
        library = (
            "-DOP_PROTO_LIB" if source.parent.name == "op_proto" or "infershape" in source.name else "-DOP_TILING_LIB"
        )
        kernel = ["-Wcast-qual", "-DDTYPE_INPUTX=half"] if source.parent.name == "op_kernel" else []
        command = [os.environ.get("CXX", "g++"), *flags, library, *kernel, str(source)]
        return subprocess.run(command, check=False, capture_output=True, text=True).stderr

    sources = sorted(generated.rglob("*.cpp"))
    assert len(sources) == 8
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip([source.name for source in sources], pool.map(messages, sources), strict=True))
    assert not {name: text for name, text in found.items() if text}
