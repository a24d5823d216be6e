"""Import an operator with its kernel: a small project of these tests is copied, built and run on the CPU twin."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from imported_kernel import ADDER, ENTRY, SOURCE, TYPES, write_source

from opforge.codegen.errors import UserError
from opforge.codegen.importers.kernel.entry import read_kernel
from opforge.codegen.importers.sources import read_sources

pytestmark = pytest.mark.slow

NESTED = """
constexpr uint32_t SLOTS = 6;
BEGIN_TILING_DATA_DEF(Part)
TILING_DATA_FIELD_DEF(uint32_t, N_XY);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(RowTilingData)
TILING_DATA_FIELD_DEF(uint32_t, shareLength);
TILING_DATA_FIELD_DEF_ARR(int64_t, SLOTS, list);
TILING_DATA_FIELD_DEF_STRUCT(Part, part);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(AddRows, RowTilingData)
"""
PLAN = """    plan.blockNum = 2;
    plan.tilingKey = ADD_ROWS_KEY7;
    plan.data.shareLength = static_cast<uint32_t>(problem.N / 2);
    plan.data.tileLength = 64;
"""


def test_an_imported_kernel_is_unchanged_builds_and_runs(opforge, tmp_path):
    pytest.importorskip("tree_sitter_cpp", reason="tree-sitter-cpp is not installed: pip install 'opforge[import]'")
    definition, kernel = write_source(tmp_path)
    result = opforge("import", definition, "--kernel", kernel, "-o", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "add_rows.cpp: 4 files copied to out/op_kernel" in result.stdout
    assert "tiling function: not copied; write op_host/add_rows_tiling.h" in result.stdout
    project = tmp_path / "out"
    copies = {"add_rows_entry.h": ENTRY, "parts/adder.h": ADDER, "types.h": TYPES}
    for location, text in copies.items():
        assert (project / "op_kernel" / "add_rows" / location).read_text(encoding="utf-8") == text

    result = opforge("build", cwd=project)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "1 operator, 6 object files compiled" in result.stdout
    expected = "AddRows: plan: got none, expected one in op_host/add_rows_tiling.h; write it\n"
    assert expected in result.stdout + result.stderr

    spec = project / "op_proto" / "add_rows.yaml"
    text = spec.read_text(encoding="utf-8").replace("['*S1']", "[N]").replace("['*S2']", "[N]")
    spec.write_text(text.replace("{S1: [4, 8], S2: [4, 8]}", "{N: 512}"), encoding="utf-8")
    plan = project / "op_host" / "add_rows_tiling.h"
    lines = plan.read_text(encoding="utf-8").splitlines(keepends=True)
    lines = [PLAN if "plan.refusal" in line else line for line in lines]
    plan.write_text("".join(lines).replace("AddRowsProblem&,", "AddRowsProblem& problem,"), encoding="utf-8")
    reference = project / "tests" / "reference" / "add_rows.py"
    stub = reference.read_text(encoding="utf-8")
    head, _, _ = stub.partition("    raise NotImplementedError")
    reference.write_text(f'{head}    return {{"z": inputs["x"] + inputs["y"]}}\n', encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_add_rows.py"]
    result = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert result.stdout.startswith("... ")

    result = opforge("pack", "-o", "packages", cwd=project)
    assert result.returncode == 0, result.stderr
    (package,) = (project / "packages").glob("*.run")
    result = opforge("verify", package, cwd=project)
    assert result.returncode == 0, result.stderr
    assert (
        b"add_rows_entry.h"
        in subprocess.run(["bash", package, "--list"], capture_output=True, check=True, cwd=tmp_path).stdout
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("__global__ ", "", "got no function with __global__ __aicore__, expected the entry function add_rows; name"),
        (
            'extern "C" __global__ __aicore__ void add_rows(GM_ADDR x,',
            "#define KERNEL(n) \\\n __global__ __aicore__ void n(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR)\nKERNEL(",
            "got no function with __global__ __aicore__",
        ),
        (
            "GM_ADDR y,",
            "uint32_t y,",
            "add_rows: got the parameter 'uint32_t y', expected GM_ADDR or a pointer; change",
        ),
        (
            'extern "C" __global__ __aicore__ void add_rows(',
            "__global__ __aicore__ void first() {}\n__global__ __aicore__ void second(",
            "got 'first, second', expected the entry function add_rows; rename it",
        ),
        ("GM_ADDR y, ", "", "add_rows: got 4 parameters, expected 5: 3 inputs and outputs, workspace and tiling"),
        ("#include", "\0", "got binary data"),
    ],
)
def test_a_kernel_of_another_form_is_rejected(old, new, words, tmp_path):
    definition, kernel = write_source(tmp_path)
    kernel.write_text(ENTRY.replace(old, new), encoding="utf-8")
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    with pytest.raises(UserError) as caught:
        read_kernel(kernel, draft)
    assert words in str(caught.value)
    assert str(kernel) in str(caught.value)


@pytest.mark.parametrize(
    "parameters",
    [
        "z, GM_ADDR y, GM_ADDR x, GM_ADDR workspace, GM_ADDR tiling",
        "x, GM_ADDR y, GM_ADDR z, GM_ADDR tiling, GM_ADDR workspace",
    ],
)
def test_parameters_in_another_order_are_reported(parameters, tmp_path):
    definition, kernel = write_source(tmp_path)
    usual = "x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling"
    kernel.write_text(ENTRY.replace(usual, parameters), encoding="utf-8")
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    names = parameters.replace("GM_ADDR ", "")
    expected = f"got the parameters {names}, but a call passes x, y, z, workspace, tiling, by position"
    assert any(expected in problem for problem in read_kernel(kernel, draft).problems)
    kernel.write_text(ENTRY.replace(usual, "a, GM_ADDR b, GM_ADDR c, GM_ADDR d, GM_ADDR e"), encoding="utf-8")
    assert not any("by position" in problem for problem in read_kernel(kernel, draft).problems)


def test_disabled_code_and_namespaces_of_a_kernel(tmp_path):
    definition, kernel = write_source(tmp_path)
    off = ENTRY.replace("add_rows(GM_ADDR x", "second(GM_ADDR x").replace("parts/adder.h", "absent.h")
    inside = ENTRY.replace('extern "C"', 'const char* text = "}"; namespace a::b { namespace { } namespace c {')
    kernel.write_text(f"#if 0\n{off}\n#endif\n{inside}}}}}\n", encoding="utf-8")
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    found = read_kernel(kernel, draft)
    assert not any("absent.h" in problem for problem in found.problems)
    declared = 'namespace a::b::c {\nextern "C" __global__ __aicore__ void add_rows('
    assert declared in found.files["op_kernel/add_rows.h"]


def test_an_own_header_in_angle_brackets_is_copied_and_reported(tmp_path):
    definition, kernel = write_source(tmp_path)
    kernel.write_text(f"#include <cmath>\n#include <types.h>\n{ENTRY}", encoding="utf-8")
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    found = read_kernel(kernel, draft)
    assert found.files["op_kernel/add_rows/types.h"] == TYPES
    expected = f'{kernel}: got <types.h>, a file of the kernel, expected "types.h"; change it'
    assert [one for one in found.problems if "<" in one] == [expected]


def test_an_included_file_with_the_name_of_the_copy_is_copied(tmp_path):
    definition, kernel = write_source(tmp_path)
    (kernel.parent / "add_rows_entry.h").write_text("int entry;\n")
    kernel.write_text('#include "add_rows_entry.h"\n' + ENTRY, encoding="utf-8")
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    files = read_kernel(kernel, draft).files
    assert files["op_kernel/add_rows/add_rows_entry.h"] == "int entry;\n"
    assert files["op_kernel/add_rows/add_rows_entry_entry.h"] == kernel.read_text()
    assert '#include "add_rows/add_rows_entry_entry.h"' in files["op_kernel/add_rows.h"]


@pytest.mark.parametrize("name", ['a"b.cpp', "a\nb.cpp", "a b.cpp", "a\udcffb.cpp", "算.cpp"])
def test_a_kernel_with_an_odd_file_name_is_one_message(name, tmp_path):
    definition, kernel = write_source(tmp_path)
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    with pytest.raises(
        UserError, match=r"--kernel: got the file name .*, expected letters, digits .*; rename the file"
    ):
        read_kernel(kernel.rename(kernel.with_name(name)), draft)


def test_files_outside_of_the_folder_and_links_are_not_read(tmp_path):
    definition, kernel = write_source(tmp_path)
    (tmp_path / "secret.h").write_text("int secret;")
    (kernel.parent / "link.h").symlink_to(tmp_path / "secret.h")
    more = '#include "../secret.h"\n#include "link.h"\n#include "/etc/passwd"\n#include "parts/../types.h"\n'
    kernel.write_text(more + ENTRY, encoding="utf-8")
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    found = read_kernel(kernel, draft)
    assert "secret" not in "".join(text for path, text in found.files.items() if not path.endswith("_entry.h"))
    assert {path for path in found.files if "/add_rows/" in path} == {
        f"op_kernel/add_rows/{name}" for name in ("add_rows_entry.h", "parts/adder.h", "types.h")
    }
    (outside,) = (problem for problem in found.problems if "outside of" in problem)
    assert outside.startswith(f"{kernel}: not copied, because they are outside of {kernel.parent}: '../secret.h'; add ")
    assert outside.endswith(f"--kernel-root {tmp_path}")
    (missing,) = (problem for problem in found.problems if "not found" in problem)
    assert missing == (
        f"{kernel}: included, but not found: 'link.h'; add --kernel-root with the folder of all operators"
    )


def write_siblings(root):
    """Write the kernel to a repository with files of other operators, as relative and as installed folders."""
    home = root / "math" / "add_rows"
    home.mkdir(parents=True)
    definition, kernel = write_source(home)
    kernel = kernel.rename(kernel.with_name("add_rows.cpp"))
    for folder, name, text in (
        ("math/shared/op_kernel", "base.h", '#include "more/rest.h"\n#include "../inc/types.h"\n'),
        ("math/shared/op_kernel/more", "rest.h", "constexpr int kRest = 1;\n"),
        ("experimental/shared/op_kernel", "base.h", "#error another operator of this name\n"),
        ("common/inc/op_kernel", "types.h", "using Index = int;\n"),
        ("math/add_rows/lib", "near.h", "using Near = int;\n"),
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / name).write_text(text)
    more = '#include "../shared/base.h"\n#include "../lib/near.h"\n#include "../absent/a.h"\n#include "arch/b.h"\n'
    kernel.write_text(more + kernel.read_text())
    return definition, kernel


def test_files_of_other_operators_are_copied_with_a_root(tmp_path):
    definition, kernel = write_siblings(tmp_path)
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    found = read_kernel(kernel, draft, tmp_path)
    own = kernel.parent.name
    files = {
        path.removeprefix("op_kernel/add_rows/"): text for path, text in found.files.items() if "/add_rows/" in path
    }
    assert set(files) == {
        f"{own}/add_rows_entry.h", f"{own}/parts/adder.h", f"{own}/types.h", "inc/types.h", "lib/near.h",
        "shared/base.h", "shared/more/rest.h",
    }  # fmt: skip
    assert "another operator" not in files["shared/base.h"]
    assert f'#include "add_rows/{own}/add_rows_entry.h"' in found.files["op_kernel/add_rows.h"]
    (missing,) = (problem for problem in found.problems if "not found" in problem)
    assert missing.endswith("not found: '../absent/a.h', 'arch/b.h'; add the files if the kernel needs them")


def test_kernel_with_files_of_other_operators_builds(opforge, tmp_path):
    definition, kernel = write_siblings(tmp_path)
    text = kernel.read_text().replace('#include "../absent/a.h"\n#include "arch/b.h"\n', "")
    text = text.replace('extern "C" __global__', "__global__").replace("void add_rows(", "void add_rows_v2(")
    kernel.write_text(text)
    result = opforge("import", definition, "--kernel", kernel, "--kernel-root", tmp_path, "-o", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "not found" not in result.stdout
    result = opforge("build", cwd=tmp_path / "out")
    assert "1 operator, 6 object files compiled" in result.stdout, result.stdout + result.stderr


def test_a_root_that_is_not_above_the_kernel_is_rejected(opforge, tmp_path):
    definition, kernel = write_source(tmp_path)
    (tmp_path / "other").mkdir()
    result = opforge(
        "import", definition, "--kernel", kernel, "--kernel-root", tmp_path / "other", "-o", "out", cwd=tmp_path
    )
    assert result.returncode == 2
    assert f"--kernel-root: got {tmp_path / 'other'}, expected a folder above the kernel" in result.stderr
    result = opforge("import", definition, "--kernel-root", tmp_path, "-o", "out", cwd=tmp_path)
    assert "--kernel-root: got no --kernel, expected both; add --kernel" in result.stderr


def test_keys_task_type_and_names_of_structures_are_found(tmp_path):
    definition, kernel = write_source(tmp_path)
    text = ENTRY.replace("TILING_KEY_IS(7)", "TILING_KEY_IS(20) || TILING_KEY_IS(3UL) /* TILING_KEY_IS(4) */")
    kernel.write_text(text.replace("GET_T", "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);\n    GET_T"))
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    found = read_kernel(kernel, draft)
    assert found.draft.tiling == (
        "  task_type: MIX_AIV_1_0",
        "  own_entry: true",
        "  keys:",
        "    - {name: Key3, key: 3}",
        "    - {name: Key20, key: 20}",
    )


def test_numbers_of_keys_are_constants_macros_and_sums(tmp_path):
    definition, kernel = write_source(tmp_path)
    keys = "TILING_KEY_IS(BASE + 2) || TILING_KEY_IS(TILES) || TILING_KEY_IS(Mode::kSecond) || TILING_KEY_IS(0x10UL)"
    names = "#define BASE 100\nconstexpr uint64_t TILES = BASE;\nenum class Mode : uint32_t { kFirst = 4, kSecond };\n"
    kernel.write_text(names + ENTRY.replace("TILING_KEY_IS(7)", f"{keys} || TILING_KEY_IS(N * 2)"))
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    found = read_kernel(kernel, draft)
    assert [line for line in found.draft.tiling if "key:" in line] == [
        f"    - {{name: Key{number}, key: {number}}}" for number in (5, 16, 100, 102)
    ]
    assert any("TILING_KEY_IS: got 'N * 2', expected a number of 63 bits" in problem for problem in found.problems)


def test_the_structure_of_the_macros_keeps_its_names(tmp_path):
    definition, kernel = write_source(tmp_path)
    (definition / "add_rows_tiling.h").write_text(NESTED)
    (draft,) = read_sources([definition]).drafts
    found = read_kernel(kernel, draft)
    assert "  structure: {header: add_rows/imported_tiling_data.h, name: 'RowTilingData'}" in found.draft.tiling
    assert found.files["op_kernel/add_rows/imported_tiling_data.h"].splitlines()[7:] == [
        "struct Part {",
        "    uint32_t N_XY;",
        "};",
        "",
        "struct RowTilingData {",
        "    uint32_t shareLength;",
        "    int64_t list[6];",
        "    Part part;",
        "};",
        "",
        "#endif  // OP_KERNEL_ADD_ROWS_IMPORTED_TILING_DATA_H",
    ]
    assert "    // plan.data: int64_t list[6]\n" in found.files["op_host/add_rows_tiling.h"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "got no definition of the tiling data Rows; name its header as a source too"),
        ('#include "kernel_operator.h"\nstruct Rows { int a; };\n', "got the structure Rows beside kernel code"),
        ("__aicore__ void f();\nstruct Rows { int a; };\n", "got the structure Rows beside kernel code"),
        ("template <int N> struct Rows { int a; };\n", "got no definition of the tiling data Rows"),
    ],
)
def test_a_structure_that_the_host_cannot_include_is_a_problem(text, words, tmp_path):
    definition, kernel = write_source(tmp_path)
    (kernel.parent / "types.h").write_text(text)
    kernel.write_text(ENTRY.replace("GET_TILING_DATA(data", "GET_TILING_DATA_WITH_STRUCT(Rows, data"))
    (draft,) = read_sources([definition / "add_rows.json"]).drafts
    found = read_kernel(kernel, draft)
    assert any(words in problem for problem in found.problems), found.problems
    assert not any("structure" in line for line in found.draft.tiling)


def test_import_of_a_kernel_needs_one_operator_without_check(opforge, tmp_path):
    definition, kernel = write_source(tmp_path)
    two = [SOURCE, SOURCE | {"op": "SubRows"}]
    (definition / "add_rows.json").write_text(json.dumps(two))
    source = definition / "add_rows.json"
    result = opforge("import", source, "--kernel", kernel, "-o", "out", cwd=tmp_path)
    assert (result.returncode, result.stderr.splitlines()) == (
        2,
        ["--kernel: got 2 operators in the source, expected one; name the file of one"],
    )
    result = opforge("import", source, "--kernel", kernel, "--check", cwd=tmp_path)
    assert (result.returncode, "--kernel: got --check also" in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()
