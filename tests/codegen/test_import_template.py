"""Import kernels that are tiling templates: their keys, and a project that builds and runs on the CPU twin."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from imported_kernel import ADDER, SOURCE, TYPES, write_source

from opforge.codegen.errors import UserError
from opforge.codegen.importers.kernel.entry import read_kernel
from opforge.codegen.importers.sources import read_sources
from opforge.codegen.importers.tiling.structures import described_structures
from opforge.codegen.importers.tiling.template import TemplateKey, UnknownTemplateError, template_keys

pytestmark = pytest.mark.slow

pytest.importorskip("tree_sitter_cpp", reason="tree-sitter-cpp is not installed: pip install 'opforge[import]'")

KEYS = """
#pragma once
#include "ascendc/host_api/tiling/template_argument.h"
#define ROWS 20
#define TWICE_ROWS 40
ASCENDC_TPL_ARGS_DECL(AddRows, ASCENDC_TPL_UINT_DECL(mode, 3, ASCENDC_TPL_UI_LIST, ROWS, TWICE_ROWS, 7),
                      ASCENDC_TPL_DATATYPE_DECL(T, C_DT_FLOAT16, C_DT_FLOAT, ASCENDC_TPL_INPUT(0)),
                      ASCENDC_TPL_BOOL_DECL(isNegative, 0, 1));
ASCENDC_TPL_SEL(ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_UINT_SEL(mode, ASCENDC_TPL_UI_LIST, TWICE_ROWS),
                                     ASCENDC_TPL_DATATYPE_SEL(T, C_DT_FLOAT16, C_DT_FLOAT),
                                     ASCENDC_TPL_BOOL_SEL(isNegative, 0, 1)));
"""
DATA = """
#pragma once
#include <cstdint>
enum class AddRowsTilingKey : uint32_t { kNone };
namespace rows {
struct AddRowsTilingData {
    uint32_t Share_Length;  // of one core
    uint32_t tile[2];
};
}  // namespace rows
"""
ENTRY = """
#include "kernel_operator.h"
#include "keys.h"
#include "data.h"
#include "parts/adder.h"
template <uint32_t mode, typename T, bool isNegative>
__global__ __aicore__ void add_rows(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling)
{
    REGISTER_TILING_DEFAULT(rows::AddRowsTilingData);
    GET_TILING_DATA_WITH_STRUCT(rows::AddRowsTilingData, data, tiling);
    static_assert(mode == TWICE_ROWS, "no other combination exists");
    if constexpr (isNegative) {
        Adder<T> adder;
        adder.Init(x, y, z, &data);
        adder.Process();
    }
}
"""
PLAN = """    plan.blockNum = 2;
    plan.tilingKey = ADD_ROWS_KEY{key};
    plan.data.Share_Length = static_cast<uint32_t>(problem.N / 2);
    plan.data.tile[1] = 64;
"""


def write_template(folder):
    """Write an operator whose entry function is a template."""
    definition, kernel = write_source(folder)
    adder = ADDER.replace("RowTilingData", "rows::AddRowsTilingData").replace("data->shareLength", "data->Share_Length")
    texts = {"add_rows.cpp": ENTRY, "keys.h": KEYS, "data.h": DATA, "types.h": TYPES}
    texts["parts/adder.h"] = adder.replace("data->tileLength", "data->tile[1]")
    for name, text in texts.items():
        (kernel.parent / name).write_text(text, encoding="utf-8")
    return definition, kernel


def test_an_imported_template_builds_and_runs(opforge, tmp_path):
    definition, kernel = write_template(tmp_path)
    result = opforge("import", definition / "add_rows.json", "--kernel", kernel, "-o", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    project = tmp_path / "out"
    spec = project / "op_proto" / "add_rows.yaml"
    text = spec.read_text(encoding="utf-8").replace("['*S1']", "[N]").replace("['*S2']", "[N]")
    assert "structure: {header: add_rows/data.h, name: 'rows::AddRowsTilingData'}" in text
    # The keys of float32 and float16 with isNegative: 1 + 8 * 0 + 2048 and 1 + 8 * 1 + 2048.
    assert re.findall(r"key: (\d+)", text) == ["1", "9", "2049", "2057"]
    spec.write_text(text.replace("{S1: [4, 8], S2: [4, 8]}", "{N: 512}"), encoding="utf-8")
    reference = project / "tests" / "reference" / "add_rows.py"
    head, _, _ = reference.read_text(encoding="utf-8").partition("    raise NotImplementedError")
    reference.write_text(f'{head}    return {{"z": inputs["x"] + inputs["y"]}}\n', encoding="utf-8")
    plan = project / "op_host" / "add_rows_tiling.h"
    stub = plan.read_text(encoding="utf-8")
    assert "    // plan.data: uint32_t Share_Length;\n    // plan.data: uint32_t tile[2];\n" in stub
    stub = re.sub(r"    // plan\.data: .*\n", "", stub).replace("AddRowsProblem&,", "AddRowsProblem& problem,")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_add_rows.py"]
    for key, passed in ((2049, True), (9, False)):
        plan.write_text(re.sub(r"    plan\.refusal = .*\n", PLAN.format(key=key), stub), encoding="utf-8")
        result = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert (result.returncode == 0) is passed, result.stdout


UINT = "ASCENDC_TPL_ARGS_DECL(Op, ASCENDC_TPL_UINT_DECL(mode, {bits}, {values})); "
ENDLESS = "".join(f"#define {a} {b} {b} {b} {b} {b} {b} {b} {b}\n" for a, b in zip("ABCDEFG", "BCDEFGA", strict=True))
SELECTED = "ASCENDC_TPL_SEL(ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_UINT_SEL(mode, {})));"


@pytest.mark.parametrize(
    ("bits", "declared", "selected", "expected"),
    [
        (2, "ASCENDC_TPL_UI_LIST, 3, 8", "ASCENDC_TPL_UI_LIST, 8", {1: "8"}),
        (8, "ASCENDC_TPL_UI_RANGE, 2, 0, 1, 10, 11", "ASCENDC_TPL_UI_LIST, 1, 10", {1: "1", 2: "10"}),
        ("ASCENDC_TPL_4_BW", "ASCENDC_TPL_UI_MIX, 1, 3, 5, 9", "ASCENDC_TPL_UI_RANGE, 1, 4, 5", {1: "4", 2: "5"}),
        ("WIDTH", "ASCENDC_TPL_UI_LIST, ZERO, ONE", "ASCENDC_TPL_UI_LIST, ONE", {1: "1"}),
    ],
)
def test_numbers_are_codes_of_declared_values(bits, declared, selected, expected):
    code = "#define WIDTH 4\n#define ZERO 0\nenum Modes { kZero, ONE };\n"
    code += UINT.format(bits=bits, values=declared) + SELECTED.format(selected)
    keys, tasks = template_keys(code, "Op", ())
    assert {one.key: ", ".join(one.arguments) for one in keys} == expected
    assert tasks == []


def test_other_kinds_of_parameters_and_the_task_type():
    code = (
        "ASCENDC_TPL_ARGS_DECL(Other, ASCENDC_TPL_BOOL_DECL(b, 0, 1));"
        "ASCENDC_TPL_ARGS_DECL(MyOp, ASCENDC_TPL_BOOL_DECL(b, 0, 1), ASCENDC_TPL_DTYPE_DECL(d, C_DT_FLOAT16),"
        "ASCENDC_TPL_FORMAT_DECL(f, C_FORMAT_ND), ASCENDC_TPL_DATATYPE_DECL(t, C_DT_BF16));"
        "ASCENDC_TPL_SEL(ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_KERNEL_TYPE_SEL(ASCENDC_TPL_AIV_ONLY),"
        "ASCENDC_TPL_BOOL_SEL(b, 1), ASCENDC_TPL_TILING_STRUCT_SEL(Data)),);"
    )
    keys, tasks = template_keys(code, "MyOp", ())
    number = 1 | 1 << 1 | 2 << 9 | 27 << 17
    assert keys == [TemplateKey(number, ("true", "1", "2", "bfloat16_t"))]
    assert tasks == ["AIV_ONLY"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("", "its sources have no ASCENDC_TPL_ARGS_DECL"),
        ("ASCENDC_TPL_ARGS_DECL(", "its sources have no ASCENDC_TPL_ARGS_DECL"),
        (UINT.format(bits=2, values="ASCENDC_TPL_UI_LIST, 0"), "its sources have no ASCENDC_TPL_SEL"),
        (UINT.format(bits="BITS", values="ASCENDC_TPL_UI_LIST, 0"), "mode has no number of bits"),
        (UINT.format(bits=2, values="ASCENDC_TPL_UI_LIST, A * B"), "mode has the value A * B, which is no number"),
        (UINT.format(bits=2, values="ASCENDC_TPL_UI_RANGE, 1, 0, 99999999999"), "mode has more than 512 values"),
        (UINT.format(bits=64, values="ASCENDC_TPL_UI_LIST, 0"), "its keys have more than 63 bits"),
        ("ASCENDC_TPL_ARGS_DECL(Op, ASCENDC_TPL_NEW_DECL(x, 1));", "ASCENDC_TPL_NEW_DECL is not read"),
        (
            UINT.format(bits=1, values="ASCENDC_TPL_UI_LIST, 0, 1") + SELECTED.format("ASCENDC_TPL_UI_LIST, 2"),
            "the parameter mode has no value 2",
        ),
        (
            UINT.format(bits=1, values="ASCENDC_TPL_UI_LIST, 0, 1, 2") + SELECTED.format("ASCENDC_TPL_UI_LIST, 2"),
            "the value 2 of mode needs more than 1 bits",
        ),
        (ENDLESS + "ASCENDC_TPL_ARGS_DECL(Op, A);", "its macros are too long"),
    ],
)
def test_unknown_templates_are_errors(code, words):
    with pytest.raises(UnknownTemplateError, match=re.escape(words)):
        template_keys(code, "Op", ())


def test_a_template_without_keys_is_rejected(tmp_path):
    definition, kernel = write_template(tmp_path)
    (kernel.parent / "keys.h").write_text("#define TWICE_ROWS 40\n")
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    assert draft.op_type == SOURCE["op"]
    with pytest.raises(UserError, match="add_rows: got a template whose tiling keys are not read: its sources have no"):
        read_kernel(kernel, draft)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ASCENDC_TPL_ARGS_DECL(" * 40_000, "its sources have no ASCENDC_TPL_ARGS_DECL"),
        ("ASCENDC_TPL_SEL(" * 60_000, "its sources have no ASCENDC_TPL_SEL"),
        ("template <int A> " * 40_000, ""),
        ('"\\' * 300_000, ""),
        ("TILING_KEY_IS(" * 60_000, ""),
        ("const " * 200_000, ""),
        ("".join(f'#include "{number}.h"\n' for number in range(40_000)), ""),
    ],
    ids=["parameters", "selections", "templates", "texts", "keys", "constants", "includes"],
)
def test_sources_of_any_text_end(text, problem, tmp_path):
    definition, kernel = write_template(tmp_path)
    kernel.write_text(f"{ENTRY}{text}\n", encoding="utf-8")
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    if problem:
        with pytest.raises(UserError, match=problem):
            read_kernel(kernel, draft)
    else:
        assert "structure: {header: add_rows/data.h" in "".join(read_kernel(kernel, draft).draft.tiling)


def test_a_chain_of_structures_is_bounded():
    text = "".join(
        f"BEGIN_TILING_DATA_DEF(A{n}) TILING_DATA_FIELD_DEF_STRUCT(A{n + 1}, x); END_TILING_DATA_DEF;"
        for n in range(5_000)
    )
    structures, _ = described_structures([text])
    assert 1 <= len(structures) <= 200
