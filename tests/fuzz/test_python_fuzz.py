"""Change seeds at random: specs, models, graphs, operator sources and pages are read, or rejected with a UserError."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import onnx
import pytest
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opforge.codegen.errors import UserError
from opforge.codegen.importers.new_project import project_files
from opforge.codegen.importers.sources import read_file
from opforge.codegen.spec.loader import load_specs
from opforge.frontend.ge.messages import message
from opforge.frontend.sources import load_source
from opforge.frontend.targets.check import check_model

SEEDS = Path(__file__).resolve().parent / "seeds"
FEW, MANY = 150, int(os.environ.get("OPFORGE_FUZZ_RUNS", "10000"))
SECONDS = 20
MODEL = onnx.parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17, "npu" : 1]> g (float[4, 3] x, int64[2] i) => (float[2, 3] y)
    <float[3] w = {1, 2, 3}> {p = Add (x, w) y = npu.NPUGroupedBiasAddGrad <group_idx_type = 1> (p, i)}"""
).SerializeToString()

DUMP = (SEEDS / "ge_text" / "dump.pbtxt").read_text()
GRAPH = text_format.Parse(DUMP, message("ModelDef"), allow_unknown_field=True).SerializeToString()
# Binary seeds.
BINARY = {"onnx": MODEL, "air": GRAPH}


def read_spec(path):
    load_specs([path])


def read_model(path):
    check_model(load_source(path), {})


def import_source(path):
    drafts = read_file(path)
    if drafts:
        files, _ = project_files(drafts)
        for name, text in files.items():
            if name.endswith(".yaml"):
                spec = path.with_name("draft.yaml")
                spec.write_text(text, encoding="utf-8")
                load_specs([spec])


# By folder of seeds: the reader, the file name, and tokens of its language separated by two spaces.
CPP = '{  }  (  )  "  ;  ,  //  /*  */  0  -  \n  \\  99999999999999999999  #include "a.h"  #define A A  template <  ::'
TARGETS = {
    "spec": (
        read_spec,
        "x.yaml",
        "[  ]  {  }  :   -   ' &a   *a  <<: *a  ~  1e999  0x10  !!python/object  prod(x)  N // 0  x  null",
    ),
    "onnx": (
        read_model,
        "x.onnx",
        "\x00  \x01  \x08  \x12  \x1a  \x2a  \x7f  \x80\x01  \xff\xff\xff\xff\x0f  npu  x  If",
    ),
    "ge_text": (
        read_model,
        "x.pbtxt",
        '{  }  [  ]  "  :  op {  attr {  list {  i: -1  s: "x"  g {  dim: -2  input: "Soft:0"  DT_BF16  -1e999  \\377',
    ),
    "air": (
        read_model,
        "x.air",
        "\x00  \x0a  \x12  \x2a  \x32  \x3a  \x52  \x7f  \x80\x01  \x8a\x02  \xff\xff\xff\xff\x0f  Data  Soft:0",
    ),
    "op_def": (import_source, "x_def.cpp", f'{CPP}  .DataType(  .Attr("a")  "x"  class A : public OpDef {{'),
    "reg_op": (import_source, "x_proto.h", f"{CPP}  .INPUT(  .ATTR(a, Float, {{  .OP_END_FACTORY_REG(  REG_OP(A)"),
    "msopgen": (
        import_source,
        "x.json",
        '{  }  [  ]  "  ,  :  null  true  1e999  -1  "op"  "type"  "all"  [[[[  \\ud800',
    ),
    "page": (
        import_source,
        "x.md",
        '、  <table>  </table>  <tr>  <td rowspan="99999">  |  | a |\n  \n  ##  `  (  aclTensor  与x一致  1-8  [0, 2]',
    ),
}


def contents(name):
    """Return the bytes of a seed with up to eight changes: inserted tokens, removed bytes, or repeated parts."""
    encoding = "latin-1" if name in BINARY else "utf-8"
    pieces = [piece.encode(encoding) for piece in TARGETS[name][2].split("  ")]
    seeds = [BINARY[name]] if name in BINARY else [path.read_bytes() for path in sorted((SEEDS / name).iterdir())]
    inserted = st.one_of(st.sampled_from(pieces), st.binary(max_size=3))
    change = st.tuples(st.integers(0, 1 << 14), st.integers(0, 12), inserted, st.integers(0, 40))

    def changed(data, changes):
        for place, removed, piece, repeated in changes:
            at = place % (len(data) + 1)
            data = data[:at] + piece + data[at + removed : at + removed + repeated] + data[at + removed :]
        return data

    return st.builds(changed, st.sampled_from(seeds), st.lists(change, max_size=8))


def late(signum, frame):
    raise AssertionError(f"not done after {SECONDS} s")


@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.all)])
@pytest.mark.parametrize("name", TARGETS)
def test_changed_seeds_are_read_or_refused(name, examples, tmp_path, monkeypatch):
    # The cache of loaded specs would keep every spec.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    read, file, _ = TARGETS[name]
    path = tmp_path / file
    counts = {"read": 0, "refused": 0}

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=[*HealthCheck]
    )
    @given(contents(name))
    def attempt(data):
        path.write_bytes(data)
        signal.alarm(SECONDS)
        try:
            read(path)
            counts["read"] += 1
        except UserError:
            counts["refused"] += 1
        finally:
            signal.alarm(0)

    before = signal.signal(signal.SIGALRM, late)
    try:
        attempt()
    finally:
        signal.signal(signal.SIGALRM, before)
    # All seeds can be read, and some changes are rejected.
    assert min(counts.values()) > 0, counts
