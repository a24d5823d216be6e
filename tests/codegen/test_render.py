"""Test rendering: golden files, equal bytes in all environments, and escaping of all texts of a spec."""

import os
import re
import subprocess

import pytest
from jinja2 import UndefinedError

from opforge.codegen.escape import (
    Code,
    UnescapedTextError,
    comment,
    cpp_string,
    markdown,
    markdown_code,
    printable,
)
from opforge.codegen.render import TABLES_HEADER, _environment, render, render_project
from opforge.codegen.spec.loader import load_specs
from opforge.codegen.views.facts import aclnn_signature, dtype_columns, kernel_columns, origin_keys
from opforge.codegen.views.line_wrap import WIDTH, fit

# The files of each specimen that show its feature.
SPECIMENS = {
    # any number of dimensions, a hand-written entry function
    "flatten_rows": (
        "op_host/flatten_rows_check.h",
        "op_host/flatten_rows_infershape.cpp",
        "op_kernel/flatten_rows.cpp",
        "op_kernel/flatten_rows_tiling_data.h",
    ),
    # a list on the host, folded
    "sequence_sums": (
        "op_api/aclnn_sequence_sums.cpp",
        "op_host/sequence_sums_check.h",
        "op_host/sequence_sums_def.cpp",
    ),
    # attributes that are lists
    "row_window": (
        "docs/aclnnRowWindow.cpp",
        "op_api/aclnn_row_window.cpp",
        "op_api/row_window_l0.cpp",
        "op_host/row_window_check.h",
        "op_host/row_window_def.cpp",
        "op_host/row_window_infershape.cpp",
        "op_host/row_window_problem.h",
        "op_plugin/row_window_onnx_plugin.cpp",
        "op_proto/row_window_proto.h",
    ),
    # dtype combinations, configurations, values for tiling
    "pair_product": (
        "op_api/aclnn_pair_product.cpp",
        "op_api/pair_product_l0.cpp",
        "op_host/pair_product_check.h",
        "op_host/pair_product_def.cpp",
        "op_host/pair_product_infershape.cpp",
        "op_proto/pair_product_proto.h",
    ),
    # an output in the memory of an input
    "add_to": (
        "docs/aclnnAddTo.md",
        "op_api/aclnn_add_to.cpp",
        "op_api/aclnn_add_to.h",
        "op_api/add_to_l0.cpp",
        "op_host/add_to_def.cpp",
        "op_proto/add_to_proto.h",
    ),
    # casts, two outputs, rules for one product
    "mixed_products": ("docs/aclnnMixedProducts.md", "op_api/aclnn_mixed_products.cpp"),
    # cases, an optional input, every kind of attribute, a text as default
    "scale_rows": (
        "op_host/scale_rows_infershape.cpp",
        "op_kernel/scale_rows_tiling_data.h",
        "op_plugin/scale_rows_onnx_plugin.cpp",
        "op_proto/scale_rows_proto.h",
    ),
}


def assert_golden(golden, files, *, update):
    """Compare a folder with exactly these files; `pytest tests/codegen --update-golden` rewrites it."""
    if update:
        for path in sorted(golden.rglob("*")):
            if path.is_file():
                path.unlink()
        for name, text in files.items():
            (golden / name).parent.mkdir(parents=True, exist_ok=True)
            (golden / name).write_text(text, encoding="utf-8")
    found = {path.relative_to(golden).as_posix() for path in golden.rglob("*") if path.is_file()}
    assert found == set(files)
    for name, text in files.items():
        assert (golden / name).read_text(encoding="utf-8") == text, f"{name} changed; see --update-golden"


def test_rendering_equals_the_golden_files(grouped, root, update_golden):
    """A change of a template shows as a reviewed diff."""
    golden = root / "tests" / "codegen" / "golden" / grouped.name
    assert_golden(golden, dict(render(grouped)), update=update_golden)


@pytest.mark.parametrize("name", SPECIMENS)
def test_rendering_of_a_specimen_equals_its_golden_files(name, root, update_golden):
    tests = root / "tests" / "codegen"
    files = dict(render(load_specs([tests / "specimens" / f"{name}.yaml"])[0]))
    chosen = {path: files[path] for path in SPECIMENS[name]}
    assert_golden(tests / "golden" / "specimens" / name, chosen, update=update_golden)


def test_every_specimen_has_golden_files(root):
    specimens = {path.stem for path in (root / "tests" / "codegen" / "specimens").glob("*.yaml")}
    assert specimens == set(SPECIMENS)


def test_a_changed_golden_file_is_noticed_and_rewritten(tmp_path):
    files = {"a/b.h": "one\n"}
    assert_golden(tmp_path, files, update=True)
    (tmp_path / "a" / "b.h").write_text("two\n")
    (tmp_path / "gone.h").write_text("")
    with pytest.raises(AssertionError):
        assert_golden(tmp_path, files, update=False)
    assert_golden(tmp_path, files, update=True)
    assert [path.name for path in tmp_path.rglob("*.h")] == ["b.h"]


def test_files_contain_no_machine_path_and_no_long_line(specimen, root):
    for path, text in render(specimen):
        assert str(root) not in text, path
        assert text.endswith("\n"), path
        assert not text.endswith("\n\n"), path
        assert "\t" not in text, path
        assert not re.search(r"[ ]\n", text), path
        if not path.endswith(".md"):
            assert max(map(len, text.split("\n"))) <= WIDTH, path


def test_files_without_plan_or_kernel(specimen):
    everything = {path for path, _ in render(specimen)}
    without_kernel = {path for path, _ in render(specimen, has_kernel=False)}
    without_plan = {path for path, _ in render(specimen, has_plan=False)}
    assert everything - without_kernel == {"op_kernel/scale_rows.cpp"}
    assert everything - without_plan == {"op_kernel/scale_rows.cpp", "op_host/scale_rows_tiling.cpp"}


def test_shared_files_name_every_source_and_function(specimen, grouped):
    paths = [path for path, _ in render(specimen)]
    files = dict(render_project([specimen, grouped], paths))
    assert list(files) == ["op_api/exports.map", TABLES_HEADER, "sources.cmake"]
    listed = re.findall(r'"\$\{CMAKE_CURRENT_LIST_DIR\}/([^"]+)"', files["sources.cmake"])
    assert listed == sorted(path for path in paths if path.endswith(".cpp"))
    stems = ["aclnnGroupedBiasAddGrad", "aclnnGroupedBiasAddGradV2", "aclnnScaleRows"]
    exported = re.findall(r"^        (\w+);$", files["op_api/exports.map"], re.MULTILINE)
    assert exported == [f"{stem}{phase}" for stem in stems for phase in ("", "GetWorkspaceSize")]


# --- views -------------------------------------------------------------------------------------------------------


def test_signatures_follow_the_documents(grouped, specimen):
    params = aclnn_signature(grouped, "aclnnGroupedBiasAddGradV2")
    assert [(p.name, p.c_type, p.of, p.kind) for p in params] == [
        ("gradY", "const aclTensor *", "grad_y", "input"),
        ("groupIdxOptional", "const aclTensor *", "group_idx", "input"),
        ("groupIdxType", "int64_t", "group_idx_type", "attr"),
        ("out", "aclTensor *", "grad_bias", "output"),
    ]
    types = {p.name: p.c_type for p in aclnn_signature(specimen, "aclnnScaleRows")}
    assert types["pad"] == "int8_t"
    assert types["layout"] == "char *"
    assert types["countOut"] == "const aclTensor *"


def test_dtype_columns_combine_free_and_copy_dependent_dtypes(grouped, specimen):
    columns = dtype_columns(grouped)
    assert columns["grad_y"] == ("float16", "float16", "bfloat16", "bfloat16", "float32", "float32")
    assert columns["group_idx"] == ("int32", "int64") * 3
    assert columns["grad_bias"] == columns["grad_y"]
    same = [{"grad_y": d, "grad_bias": d} for d in ("float16", "bfloat16", "float32")]
    assert list(map(dict, kernel_columns(grouped))) == same
    first = dict(kernel_columns(specimen)[0])
    assert first == {"inputX": "float16", "index": "int32", "y": "float16", "count": "int64"}


def test_onnx_keys_are_exact(grouped):
    keys = origin_keys(grouped)
    own = [f"opforge::1::GroupedBiasAddGrad{case}" for case in ("", "_indexed", "_equal")]
    assert keys[:4] == [*own, "npu::1::NPUGroupedBiasAddGrad"]
    assert keys[4:] == [f"ai.onnx::{opset}::NPUGroupedBiasAddGrad" for opset in range(8, 23)]


# --- injection ---------------------------------------------------------------------------------------------------

HOSTILE = [
    '"); system("id',
    "{{ 7*7 }}",
    "${VAR}",
    "${op.spec}",
    "{% for x in y %}",
    "*/ int injected; /*",
    "trailing backslash \\",
    "??/ trigraph ??/",
    "' or 1 #",
    "--> <script>alert(1)</script>",
    "| a | b |",
    "`code` [link](http://x)",
    "\u00e9\u4e2d",
    "$(touch /tmp/x)",
    "%s %n",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_escaped(specimen_path, tmp_path, text):
    source = specimen_path.read_text(encoding="utf-8")
    quoted = "'" + text.replace("'", "''") + "'"
    source = re.sub(r"(?m)^summary: .*$", lambda _: f"summary: {quoted}", source)
    source = re.sub(r"(?m)^description: .*$", lambda _: f"description: {quoted}\nnotes: [{quoted}]", source)
    source = source.replace("expected: at most 2048 rows", f"expected: {quoted}")
    source = source.replace("default: 'row \"major\"'", f"default: {quoted}")
    source = source.replace("description: Columns per slice.", f"description: {quoted}")
    path = tmp_path / "scale_rows.yaml"
    path.write_text(source, encoding="utf-8")
    plain = dict(render(load_specs([specimen_path])[0]))
    for name, rendered in render(load_specs([path])[0]):
        if name.endswith(".md"):
            outside_of_code = re.sub(r"(`+)(?!`).*?[^`]\1(?!`)", "", rendered)
            assert "<script>" not in outside_of_code
            assert "[link](" not in outside_of_code
            continue
        assert without_text(rendered) == without_text(plain[name]), f"{name}: the text changed the code"


def without_text(code):
    """Return C++ code without comments and string literals."""
    code = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', code)
    lines = [re.sub(r"//.*", "//", line).strip() for line in code.split("\n")]
    # Longer text can need more lines of a comment or argument list.
    return re.sub(r"\s+", "", "".join(line for line in lines if line != "//"))


def test_hostile_text_compiles_to_itself(tmp_path):
    texts = [*HOSTILE, "\u00e9\u4e2d\U0001f600", "a\nb", "\x7f", "0" * 300]
    literals = ",\n".join(cpp_string(text) for text in texts)
    comments = "\n".join(f"// {comment(text)}" for text in texts)
    source = tmp_path / "texts.cpp"
    source.write_text(
        f"#include <cstdio>\n{comments}\n#include <cstring>\nstatic const char* const kTexts[] = {{{literals}}};\n"
        "int main() { for (const char* text : kTexts) std::fwrite(text, 1, std::strlen(text) + 1, stdout); }\n"
    )
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-trigraphs", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, source, "-o", tmp_path / "texts"], check=True)
    output = subprocess.run([tmp_path / "texts"], check=True, capture_output=True).stdout
    assert output.decode().split("\0")[:-1] == texts


def test_templates_print_only_escaped_text():
    for safe in (Code("a b"), 5, "gradY", ""):
        assert printable(safe) == safe
    for unsafe in ("a b", "a;b", '"', "a-b", None, 1.5, "\u00e9", ["a"]):
        with pytest.raises(UnescapedTextError):
            printable(unsafe)
    environment = _environment()
    with pytest.raises(UnescapedTextError):
        environment.from_string("${text}").render(text='"); system("id')
    with pytest.raises(UndefinedError):
        environment.from_string("${missing}").render()
    macro = "{% macro twice(text) %}${text};${text}{% endmacro %}${twice(text)}"
    assert environment.from_string(macro).render(text="a") == "a;a"
    for listed in (macro, "${[text] | commas}", "${text | indent}", "{% set copy %}${text}{% endset %}${copy}"):
        with pytest.raises(UnescapedTextError):
            environment.from_string(listed).render(text="a<b; c")
    assert environment.from_string("${text | cpp_string}").render(text='a"b') == '"a\\"b"'


def test_markdown_is_inert():
    assert markdown("a | b\n*c* <d> _e_") == "a \\| b \\*c\\* \\<d\\> \\_e\\_"
    assert markdown_code("a `b` | c") == "``a `b` \\| c``"
    assert markdown_code("`a") == "`` `a ``"


# --- layout ------------------------------------------------------------------------------------------------------


def test_long_lines_break_outside_of_strings():
    call = "    return " + "Call(" + ", ".join(f'"argument, {i}"' for i in range(12)) + ");"
    lines = fit(call).split("\n")
    assert all(len(line) <= WIDTH for line in lines)
    assert len(lines) > 1
    assert re.sub(r"\s+", "", "".join(lines)) == re.sub(r"\s+", "", call)
    assert all(line.count('"') % 2 == 0 for line in lines)
    assert all(line.startswith("           ") for line in lines[1:]), "arguments line up below the first"


def test_long_comments_keep_their_mark():
    lines = fit("    /// " + "word " * 50).split("\n")
    assert len(lines) > 1
    assert all(line.startswith("    /// word") and len(line) <= WIDTH for line in lines)
