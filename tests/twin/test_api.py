"""Test opforge.twin: arguments rejected before a launch, and launch() on kernels outside a project."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest

from opforge.codegen.errors import UserError
from opforge.twin import Finding, launch, run
from opforge.twin.build import build_runtime
from opforge.twin.compiler.units import CompileError
from opforge.twin.runtime import acl

OP = "GroupedBiasAddGrad"
ROWS = {"grad_y": np.ones((6, 4), np.float32), "group_idx": np.array([2, 4])}
KERNEL = """
#include "kernel_operator.h"
// add_one(x) { this is a comment }
extern "C" __global__ __aicore__ void add_one(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> in;
    AscendC::TQue<AscendC::QuePosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 256);
    pipe.InitBuffer(out, 1, 256);
    AscendC::GlobalTensor<float> source, target;
    source.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), 64);
    target.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), 64);
    AscendC::LocalTensor<float> tile = in.AllocTensor<float>();
    AscendC::DataCopy(tile, source, 64);
    in.EnQue(tile);
    tile = in.DeQue<float>();
    AscendC::LocalTensor<float> sum = out.AllocTensor<float>();
    AscendC::Adds(sum, tile, 1.0f, 64);
    out.EnQue(sum);
    in.FreeTensor(tile);
    sum = out.DeQue<float>();
    AscendC::DataCopy(target, sum, 64);
    out.FreeTensor(sum);
}
"""


def launch_add_one(source=KERNEL, **options):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    return launch(source, "add_one", 1, options.pop("buffers", [x, y]), **options), x, y


@pytest.mark.parametrize(
    ("inputs", "attrs", "options", "named"),
    [
        (ROWS, {"group_idx_type": 1}, {"function": "aclnnGroupedBiasAddGrad"}, "group_idx_type"),
        (ROWS, {}, {"function": "aclnnNope"}, "aclnnNope"),
        (ROWS, {"group_idx_type": 2**64}, {}, "18446744073709551616"),
        (ROWS, {"group_idx_type": "1"}, {}, "'1'"),
        (ROWS, {"group_idx_type": 1.5}, {}, "1.5"),
        (ROWS, {"kind": 1}, {}, "kind"),
        ({"grad": ROWS["grad_y"]}, {}, {}, "grad"),
        ({"grad_y": np.array(["a"])}, {}, {}, "grad_y"),
        (ROWS, {}, {"soc": "Ascend910C"}, "Ascend910C"),
        (ROWS, {}, {"out_dtypes": {"grad_bias": object}}, "object"),
        (ROWS, {}, {"out_dtypes": {"grad_bias": "nonsense"}}, "nonsense"),
        (ROWS, {}, {"out_dtypes": {"grad_bias": None}}, "None"),
        (ROWS, {}, {"outputs": {"grad_bias": [1.0]}}, "list"),
        (ROWS, {}, {"outputs": {"grad_bias": np.broadcast_to(np.float32(0), (2, 4))}}, "read-only array"),
        (ROWS, {}, {"outputs": {"sums": np.zeros((2, 4))}}, "sums"),
    ],
)
def test_a_wrong_argument_of_run_is_one_message(inputs, attrs, options, named):
    with pytest.raises(UserError) as refused:
        run(OP, inputs, attrs, **options)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("value", "shown"), [(32.0, "32.0"), (True, "True"), ("32", "'32'")])
def test_an_attribute_that_shapes_depend_on_is_checked_first(value, shown):
    rows = np.ones((64, 2, 16), np.float16)
    inputs = {"output_grad": rows[:3], "input": rows, "weight": np.ones((32, 2), np.float16)}
    attrs = {"compress_block_size": value, "compress_stride": 16, "act_seq_len_type": 0}
    with pytest.raises(UserError) as refused:
        run("NsaCompressGrad", inputs, attrs)
    assert str(refused.value) == f"NsaCompressGrad: compress_block_size: got {shown}, expected an integer"


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ([32.5, 64.0], "float64 of shape (2,)"),
        ([[32, 64]], "int64 of shape (1, 2)"),
        (64, "int64 of shape ()"),
        ([True, False], "bool of shape (2,)"),
        (np.array([32, 2**63], np.uint64), "uint64 of shape (2,)"),
    ],
)
def test_a_host_list_is_a_list_of_integers(ends, shown):
    rows = np.ones((64, 2, 16), np.float16)
    inputs = {"output_grad": rows[:3], "input": rows, "weight": np.ones((32, 2), np.float16), "act_seq_len": ends}
    attrs = {"compress_block_size": 32, "compress_stride": 16, "act_seq_len_type": 0}
    with pytest.raises(UserError) as refused:
        run("NsaCompressGrad", inputs, attrs)
    assert str(refused.value) == (f"NsaCompressGrad: act_seq_len: got {shown}, expected a list of integers of 64 bits")


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "message"),
    [
        (OP, {"grad_y": [[1.0, 2.0], [3.0]]}, {}, "expected an array"),
        (OP, {"grad_y": {"rows": 1}}, {}, "dtype object"),
    ],
)
def test_a_value_of_another_kind_is_one_line(op_type, inputs, attrs, message):
    with pytest.raises(UserError, match=message) as refused:
        run(op_type, inputs, attrs)
    assert "\n" not in str(refused.value)


def test_output_with_overlapping_elements_is_rejected():
    shared = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (2, 4), (4, 4))
    with pytest.raises(UserError, match="share memory"):
        run(OP, ROWS, outputs={"grad_bias": shared})


def test_a_kernel_text_runs_clean():
    findings, x, y = launch_add_one()
    assert findings == []
    np.testing.assert_array_equal(y, x + 1)


def test_a_kernel_file_from_elsewhere_runs_clean(tmp_path):
    file = tmp_path / "ein kérnel.cpp"
    file.write_text(KERNEL, encoding="utf-8")
    findings, x, y = launch_add_one(file)
    assert findings == []
    np.testing.assert_array_equal(y, x + 1)


def test_launch_is_strict_after_other_levels():
    unsynchronised = KERNEL.replace("    in.EnQue(tile);\n    tile = in.DeQue<float>();\n", "")
    unsynchronised = (
        unsynchronised.replace("    in.FreeTensor(tile);\n", "")
        .replace("TQue<AscendC::TPosition::VECIN, 1> in", "TBuf<AscendC::TPosition::VECCALC> in")
        .replace("InitBuffer(in, 1, 256)", "InitBuffer(in, 256)")
        .replace("in.AllocTensor<float>", "in.Get<float>")
    )
    run(OP, ROWS, strict=False)
    assert [finding.kind for finding in launch_add_one(unsynchronised)[0]] == ["race"]
    assert launch_add_one(unsynchronised, strict=False)[0] == []


def test_finding_without_a_line_begins_with_its_kind():
    finding = Finding("tiling_key", 0, "S", "", "text")
    assert str(finding) == "tiling_key (block 0, pipe S): text"


def test_a_planted_mistake_is_a_finding_with_its_line():
    findings, *_ = launch_add_one(KERNEL.replace("    in.EnQue(tile);\n", ""))
    assert findings
    assert any("DeQue" in finding.message or "EnQue" in finding.message for finding in findings)
    assert all(":" in finding.where for finding in findings)


def test_compile_error_of_a_kernel_is_reported():
    with pytest.raises(CompileError, match="no matching function for call to"):
        launch_add_one(KERNEL.replace("Adds(sum, ", "Adds("))


def test_launch_lints_first():
    with pytest.raises(UserError, match="api: AscendC::Addss is an unknown name; did you mean AscendC::Adds"):
        launch_add_one(KERNEL.replace("Adds(", "Addss("))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"task_type": "AICORE"}, "AICORE"),
        ({"buffers": [np.zeros(64, np.float32)]}, "buffers"),
        ({"buffers": []}, "buffers"),
        ({"buffers": [np.zeros(64, object), np.zeros(64, np.float32)]}, "buffers[0]"),
        ({"buffers": [np.zeros((64, 2), np.float32)[:, 0], np.zeros(64, np.float32)]}, "buffers[0]"),
        ({"tiling": "abc"}, "tiling"),
        ({"tiling_key": -1}, "tiling_key"),
        ({"tiling_key": 2**64}, "tiling_key"),
        ({"source": "nowhere.cpp"}, "nowhere.cpp"),
        ({"source": KERNEL.replace("void add_one", "void add_two")}, "add_one"),
        ({"source": "int add_one() { return 2; }"}, "__aicore__"),
        ({"seed": -1}, "seed"),
        ({"threads": "2"}, "threads"),
        ({"workspace_bytes": 2**41}, "workspace_bytes"),
        ({"isolate": True, "timeout": 0}, "timeout"),
    ],
)
def test_a_wrong_argument_of_launch_is_one_message(options, named):
    with pytest.raises(UserError) as refused:
        launch_add_one(**options)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("blocks", [0, 65536, 2.5])
def test_a_wrong_number_of_blocks_is_refused(blocks):
    with pytest.raises(UserError, match="blocks"):
        launch(KERNEL, "add_one", blocks, [np.zeros(64, np.float32)] * 2)


def test_tiling_data_reach_the_kernel():
    source = KERNEL.replace("extern", "struct Step { float step = 0; };\nextern", 1)
    source = source.replace(
        "    AscendC::TPipe", "    GET_TILING_DATA_WITH_STRUCT(Step, data, tiling);\n    AscendC::TPipe", 1
    )
    findings, x, y = launch_add_one(source.replace("1.0f", "data.step"), tiling=struct.pack("f", 2.5))
    assert findings == []
    np.testing.assert_array_equal(y, x + np.float32(2.5))


MACRO = """
#include "kernel_operator.h"
#define KERNEL(name) extern "C" __global__ __aicore__ void name(GM_ADDR x, GM_ADDR workspace)
KERNEL(by_macro)
{
    AscendC::GlobalTensor<int32_t> own, xGm;
    own.SetGlobalBuffer((__gm__ int32_t*)AscendC::GetUserWorkspace(workspace));
    xGm.SetGlobalBuffer((__gm__ int32_t*)x);
    own.SetValue(15, xGm.GetValue(0));
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                      AscendC::DcciDst::CACHELINE_OUT>(own);
}
"""


def test_a_kernel_that_a_macro_declares():
    assert launch(MACRO, "by_macro", 1, [np.zeros(8, np.int32)]) == []


def test_a_kernel_that_is_not_there():
    with pytest.raises(UserError, match="expected the name of a __global__ function"):
        launch(MACRO, "by_nobody", 1, [np.zeros(8, np.int32)])


def test_the_size_of_the_workspace():
    assert launch(MACRO, "by_macro", 1, [np.zeros(8, np.int32)], workspace_bytes=64) == []
    (found,) = launch(MACRO, "by_macro", 1, [np.zeros(8, np.int32)], workspace_bytes=60)
    assert [found.kind, "'workspace', which has 16777276 bytes" in found.message] == ["gm_out_of_range", True]


@pytest.mark.parametrize("given", ["x", "0", "-1", "nan", "5s", "inf", "1e999", "0x10", " 5", "1_0", "\u0661"])
def test_time_limit_that_is_no_number_is_rejected(monkeypatch, given):
    monkeypatch.setenv("OPFORGE_TWIN_TIMEOUT", given)
    with pytest.raises(UserError, match=f"^OPFORGE_TWIN_TIMEOUT: got '{given}', expected a number of seconds"):
        acl.runtime.__wrapped__()


def test_unknown_chip_in_the_environment_ends_an_application():
    code = "import sys; from ctypes import CDLL; CDLL(sys.argv[1]).aclrtGetSocName()"
    command = [sys.executable, "-c", code, str(build_runtime())]
    ended = subprocess.run(command, env={"OPFORGE_TWIN_SOC": "foo"}, capture_output=True, text=True, check=False)
    message = "OPFORGE_TWIN_SOC: got 'foo', expected a chip, as in Ascend910B1\n"
    assert (ended.returncode, ended.stderr) == (2, message)
