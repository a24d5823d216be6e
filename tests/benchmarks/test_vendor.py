"""Test the comparison with kernels of cloned repositories: tiling data, problems, and invalid clones."""

from __future__ import annotations

import importlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opforge.codegen.data.products import soc_properties
from opforge.codegen.errors import UserError

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FIELDS = """BEGIN_TILING_DATA_DEF(Part)
TILING_DATA_FIELD_DEF(uint32_t, cores)
END_TILING_DATA_DEF
BEGIN_TILING_DATA_DEF(Some)
TILING_DATA_FIELD_DEF(uint32_t, cores);
TILING_DATA_FIELD_DEF(int64_t, rows);  // note
%sEND_TILING_DATA_DEF
"""
NESTED = "TILING_DATA_FIELD_DEF_STRUCT(Part, part);\n"
SOC = soc_properties("Ascend910B3")


@pytest.fixture
def public(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    importlib.import_module("vendor")
    return importlib.import_module("public.kernels")


@pytest.fixture
def tilings(public):
    return importlib.import_module("public.tilings")


@pytest.fixture
def kernel(public, tmp_path):
    (tmp_path / "fields.h").write_text(FIELDS % "", encoding="utf-8")
    return public.PublicKernel("Some", "ops-math", "math/some", "fields.h")


def test_tiling_data_have_the_alignment_of_c(public, tilings, kernel, tmp_path):
    (tmp_path / "tilings.py").write_text("case1 = [3, -4]  # note\n", encoding="utf-8")
    tiling = public.listed_tiling(kernel, "case1", tmp_path, "tilings.py")
    assert tiling == {"cores": 3, "rows": -4}
    assert tilings.packed(tmp_path / "fields.h", tiling) == struct.pack("<IIq", 3, 0, -4)


def test_fields_of_parts_have_their_name(tilings, tmp_path):
    header = tmp_path / "fields.h"
    header.write_text(FIELDS % NESTED, encoding="utf-8")
    assert [name for _, name in tilings.fields_of(header)] == ["cores", "rows", "part.cores"]
    with pytest.raises(UserError, match=r"got the field part\.cores, expected known fields"):
        tilings.packed(header, {"cores": 1, "rows": 2})


def test_members_of_a_structure_in_c(tilings, tmp_path):
    (tmp_path / "data.h").write_text(
        "struct A { int32_t other; };\nstruct B {\n  uint32_t rows;\n  int64_t shape[2];\n};\n"
    )
    assert tilings.fields_of(tmp_path / "data.h") == [("I", "rows"), ("q", "shape.0"), ("q", "shape.1")]
    (tmp_path / "data.h").write_text("struct B {\n  Other part;\n};\n")
    with pytest.raises(UserError, match="got Other, expected fields of"):
        tilings.fields_of(tmp_path / "data.h")


@pytest.mark.parametrize("elements", [8, 1000, 12345, 524288])
@pytest.mark.parametrize("item", [2, 4])
def test_the_cores_of_a_chain_share_all_elements(tilings, elements, item):
    blocks = -(-elements * item // 32)
    repeating, repeated = tilings.repeated_columns(SOC, elements, 3)
    for cores, tiling in (
        (min(40, blocks), tilings.even_blocks(elements, item, 7, min(40, blocks))),
        (repeating, repeated),
    ):
        size = item if tiling is not repeated else 4
        counts = [tiling["bigCoreDataNum"]] * tiling["tailBlockNum"]
        counts += [tiling["smallCoreDataNum"]] * (cores - tiling["tailBlockNum"])
        assert sum(counts) == -(-elements * size // 32) * 32 // size
        for name in ("small", "big"):
            tiles, tail = tiling[f"final{name.capitalize()}TileNum"], tiling[f"{name}TailDataNum"]
            assert tiles == 0 or (tiles - 1) * tiling["tileDataNum"] + tail == tiling[f"{name}CoreDataNum"]
            assert 0 < tail <= tiling["tileDataNum"]


def test_a_row_of_this_project_follows_the_kernels_of_its_chain(public, monkeypatch, tmp_path, capsys):
    vendor, links = importlib.import_module("vendor"), importlib.import_module("public.links")
    own = {"operator": "BatchNormElemtBackward", "case": "a", "dtype": "fp16", "outside_range": []}
    own |= {
        "kernel": "this project",
        "note": "",
        "calls": 0,
        "bytes": 1.0,
        "bal": 1.0,
        "estimate_us": 4.0,
        "ratio": 1.0,
    }
    own |= {"difference": 0.0, "findings": [], "strict_findings": []}

    def rows_of(kernel, *_):
        yield own | {"kernel": kernel.folder, "calls": 2, "estimate_us": 3.0}
        yield own

    monkeypatch.setattr(vendor, "KERNELS", ())
    monkeypatch.setattr(vendor, "LINKS", links.LINKS[:4])
    monkeypatch.setattr(vendor, "rows_of", rows_of)
    vendor.main(ops_math=tmp_path)
    out = capsys.readouterr().out
    assert [line.split()[3] for line in out.splitlines() if line.startswith("BatchNormElemtBackward  ")] == [
        *(f"{link.folder}," for link in links.LINKS[:4]),
        "this",
    ]
    assert "8 calls of the public function take 24.0 us" in out
    assert "6.0 times the complete operator of this project" in out


def test_calls_of_chains_have_all_fields_of_the_clone(public):
    links = importlib.import_module("public.links")
    for link in links.LINKS:
        for problem in link.problems(link, Path()):
            assert problem.results
            assert problem.inputs
            assert len(problem.dtypes) == len(problem.buffers) + len(problem.results)
            assert problem.cores <= SOC.aiv


@pytest.mark.parametrize(
    "text",
    [
        "",
        "case1 = [1]",
        "case1 = [1, 'a']",
        "case1 = [1, 2.5]",
        "case1 = [print(1), 2]",
        "case1 = [1, [2]",
        "case1 = [,]",
    ],
)
def test_other_lists_are_one_message(public, kernel, tmp_path, text):
    (tmp_path / "tilings.py").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="case1: got no list of 2 integers"):
        public.listed_tiling(kernel, "case1", tmp_path, "tilings.py")


@pytest.mark.parametrize(
    ("width", "table", "item", "is_scaled", "key"),
    [(64, 100, 4, False, 100), (512, 100, 2, True, 101), (513, 100, 4, False, 0), (64, (1 << 24) + 1, 2, True, 1)],
)
def test_the_rows_of_all_cores_are_those_of_grad(tilings, width, table, item, is_scaled, key):
    for rows in (1, 39, 40, 1234):
        found, cores, tiling = tilings.embedding_dense_grad(SOC, rows, width, table, item, is_scaled=is_scaled)
        assert found == key
        assert cores == min(40, rows, table)
        large = tiling["params.formerRowRepTime"]
        assert large * tiling["params.formerRowNum"] + (cores - large) * tiling["params.tailRowNum"] == rows
        assert tiling["smallDimTiling.formerCopyRow"] * (cores - 1) + tiling["smallDimTiling.tailCopyRow"] == rows
        most = tiling["smallDimTiling.maxRowInUb"]
        for kind in ("former", "tail"):
            loops, last = (tiling[f"smallDimTiling.{kind}{name}"] for name in ("CopyTime", "LastRow"))
            assert (loops - 1) * most + last == tiling[f"smallDimTiling.{kind}CopyRow"]
            assert 0 < last <= most
        part, rest = tiling["params.formerEmbeddingDim"], tiling["params.tailEmbeddingDim"]
        assert part * tiling["params.formerDimRepTime"] + rest == width


def test_the_heads_of_all_cores_are_those_of_the_input(tilings):
    key, cores, tiling = tilings.nsa_compress_grad(SOC, (255, 8, 128), 4099, 3, (32, 16))
    assert (key, cores, tiling["ubMaxSize"]) == (0, 40, SOC.ub)
    assert cores * tiling["headToProcess"] + tiling["headRemainder"] == 4099 * 8


def test_problems_have_the_inputs_of_both_kernels(public):
    kernels = {kernel.operator: kernel for kernel in public.KERNELS}
    for problem in public.embedding_problems(kernels["EmbeddingDenseBackward"], Path()):
        grad, indices, order = problem.buffers
        assert grad is problem.inputs["grad"]
        if problem.key < 100:
            assert np.all(np.diff(indices) >= 0)
            np.testing.assert_array_equal(problem.inputs["indices"][order], indices)
    for problem in public.nsa_problems(kernels["NsaCompressGrad"], Path()):
        assert problem.tiling["numOfBlock"] == problem.buffers[0].shape[0]


@pytest.mark.parametrize("change", [{"dimGB": -8}, {"dimH": 1 << 40}, {"usedCoreNum": 0}, {"dimG": 9}])
def test_impossible_problems_of_a_clone_are_one_message(public, monkeypatch, tmp_path, change):
    kernel = next(kernel for kernel in public.KERNELS if kernel.operator == "GroupedBiasAddGrad")
    (tmp_path / "op_kernel").mkdir()
    macros = ("TWO_DIMS_HALF", "TWO_DIMS_FLOAT", "TWO_DIMS_HALF_PERF", "TWO_DIMS_BFLOAT16_PERF")
    text = "".join(f"#define {name} {key}\n" for key, name in enumerate(macros))
    (tmp_path / "op_kernel" / f"{kernel.name}.cpp").write_text(text, encoding="utf-8")
    tiling = {"dimGB": 8, "dimG": 2, "dimH": 16, "usedCoreNum": 2}
    monkeypatch.setattr(public, "listed_tiling", lambda *_: tiling)
    assert len(list(public.grouped_bias_problems(kernel, tmp_path))) == 4
    tiling.update(change)
    with pytest.raises(UserError, match=r"case5_params: got .*; use another commit"):
        next(public.grouped_bias_problems(kernel, tmp_path))


@pytest.mark.parametrize("options", [("--ops-math", "nothing"), ("--ops-math", "."), ("--json", "no/file.json")])
def test_wrong_clones_are_one_message(tmp_path, options):
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "vendor.py"), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "expected" in done.stderr or "create it" in done.stderr
    assert "Traceback" not in done.stderr


def test_kernels_that_do_not_run_have_their_reason(public, monkeypatch, tmp_path, capsys):
    vendor = importlib.import_module("vendor")
    kernels = [kernel for kernel in public.KERNELS if kernel.reason or kernel.clone != "ops-nn"]
    monkeypatch.setattr(vendor, "KERNELS", kernels)
    monkeypatch.setattr(vendor, "LINKS", ())
    vendor.main(ops_nn=tmp_path)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not run: ")]
    assert len(lines) == len(kernels)
    assert [line.endswith("is not given") for line in lines] == [kernel.clone != "ops-nn" for kernel in kernels]


def test_without_clones_the_options_are_named():
    done = subprocess.run([sys.executable, str(BENCHMARKS / "vendor.py")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "got no clone, expected at least one of --ops-math DIR" in done.stderr


KERNEL = """extern "C" __global__ __aicore__ void some(GM_ADDR, GM_ADDR, GM_ADDR y, GM_ADDR, GM_ADDR)
{
%s
}
"""
SCALAR = """using namespace AscendC;
GlobalTensor<half> yGm;
yGm.SetGlobalBuffer((__gm__ half*)y);
for (int i = 0; i < 32; ++i) { yGm.SetValue(i, static_cast<half>(4.0f)); }
DataCacheCleanAndInvalid<half, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(yGm);
"""
RUN = """import sys, numpy as np, vendor
from pathlib import Path
from public.kernels import PublicKernel, Problem
inputs = {"grad_y": np.ones((8, 16), np.float16), "group_idx": np.array([4, 8], np.int32)}
def problems(kernel, folder):
    yield Problem("small", "fp16", inputs, {}, tuple(inputs.values()), 0, 1, {"cores": 1, "rows": 8})
of = ("GroupedBiasAddGrad", "ops-math", "math/some", "fields.h", problems)
vendor.KERNELS, vendor.LINKS = [PublicKernel(*of, outputs=("grad_bias",))], ()
vendor.main(ops_math=Path(sys.argv[1]), timeout=3)
"""


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("int x = ;", 0, "not run: GroupedBiasAddGrad (math/some), small fp16: "),
        ("for (volatile int i = 0; i >= 0;) {}", 2, "(math/some), small fp16: the kernel did not end within 3 s"),
        (SCALAR, 0, "of the time depends on assumed constants: scalar_gm_access_cycles "),
    ],
)
def test_kernels_of_a_clone_are_run_or_named(tmp_path, body, code, message):
    folder = tmp_path / "math" / "some" / "op_kernel"
    folder.mkdir(parents=True)
    (folder / "some.cpp").write_text(KERNEL % body, encoding="utf-8")
    (folder / "loop").symlink_to(".")
    (folder / "zero.h").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.h")
    (folder.parent / "fields.h").write_text(FIELDS % "", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)], cwd=BENCHMARKS, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
