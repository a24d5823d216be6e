"""Test the page of each operator: it is complete, and its examples run."""

import math
import os
import re
import subprocess

import numpy as np
import onnx
import pytest
from golden import load_reference
from markdown_it import MarkdownIt  # comes with rich

from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.project import BUILTIN_ROOT, find_project
from opforge.codegen.render import render
from opforge.codegen.spec.field_types import STATUSES
from opforge.codegen.spec.validate import problems_of
from opforge.codegen.views.example_view import example_of
from opforge.codegen.views.op_view import OpView
from opforge.frontend.ir.schemas import registered
from opforge.twin.build import application_flags, build_project

NAMES = sorted(path.stem for path in (BUILTIN_ROOT / "op_proto").glob("*.yaml"))
with_kernel = [name for name in NAMES if (BUILTIN_ROOT / "op_kernel" / f"{name}.h").is_file()]


def page_of(spec):
    return dict(render(spec))[f"docs/aclnn{spec.op_type}.md"]


def code_of(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def plain(page):
    """Return the page without the backslashes of Markdown."""
    return re.sub(r"\\(.)", r"\1", page)


def rows_of(page, head):
    """Return the rows of the table whose header starts with these words."""
    lines = page.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def has_terms(spec):
    return any(parameter.chinese for parameter in spec.parameters)


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_and_code_of_a_page_are_markdown(operators, name):
    """A Markdown parser finds the expected tables and code blocks, and no HTML except the first comment."""
    page = page_of(operators[name])
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    kinds = [token.type for token in tokens]
    assert kinds.count("html_block") == 1
    assert not [part for token in tokens for part in token.children or () if part.type in {"html_inline", "link_open"}]
    heads = re.findall(r"^\|(?:---\|)+$", page, re.MULTILINE)
    assert kinds.count("table_open") == len(heads) == 6 + has_terms(operators[name]) + bool(operators[name].document)
    assert kinds.count("th_open") == sum(head.count("---") for head in heads)
    assert kinds.count("fence") == page.count("\n```") // 2


@pytest.mark.parametrize("name", NAMES)
def test_page_is_complete(operators, name):
    spec = operators[name]
    page = page_of(spec)
    text = plain(page)
    parameters = spec.parameters
    rows = rows_of(text, "parameter | kind")
    assert [row[0] for row in rows] == [p.name for p in parameters]
    assert not has_terms(spec) or [row[-1] for row in rows] == [p.chinese or "-" for p in parameters]
    by_name = {row[0]: row for row in rows_of(text, "parameter | graph IR")}
    assert {parameter: row[1] for parameter, row in by_name.items()} == {p.name: p.ir_name for p in parameters}
    for index, function in enumerate(spec.aclnn):
        for spelling, of in function.params.items():
            assert by_name[of][3 + index] == spelling
        assert f"{function.function}GetWorkspaceSize(" in text
    assert [row[0] for row in rows_of(text, "tensor")] == [tensor.name for tensor in spec.tensors]
    assert all(len(row) == 1 + len(spec.cases) for row in rows_of(text, "tensor"))
    constraints = rows_of(text, "label")
    assert [row[:2] for row in constraints] == [[c.label, str(c.status)] for c in spec.constraints]
    for row, constraint in zip(constraints, spec.constraints, strict=True):
        assert all(words in row[2] for words in re.split(r"{\w+}", constraint.expected or ""))
        assert all(product in row[2] for product in constraint.products)
    assert {str(status) for status in STATUSES} < {row[0] for row in rows_of(text, "status")}
    rows = rows_of(text, "product series")
    assert [row[:2] for row in rows] == [[device, name] for name, p in PRODUCTS.items() for device in p.devices]
    assert [row[1] for row in rows if row[2] != "not supported"] == [row[1] for row in rows if row[1] in spec.products]
    outside = {row[0] for row in rows if row[2] == "kernel; not in the CANN document"}
    assert outside == set(spec.undocumented_devices)
    assert len(code_of(page, "math")) == spec.formula.count(";") + 1 + bool(spec.forward_formula)
    messages = [words for statement in spec.document for words in (statement.says, statement.reason)]
    for words in (spec.description, f"## Determinism\n\n{spec.determinism}", *spec.notes, *messages):
        assert " ".join(words.split()) in " ".join(text.split())
    assert spec.determinism
    assert ("## PyTorch" in text) == bool(spec.torch.targets)
    assert all(f"`{target.target}`" in text for target in spec.torch.targets)


@pytest.mark.parametrize("name", NAMES)
def test_chinese_terms_change_only_the_page(operators, name):
    spec = operators[name]

    def without_terms(parameters):
        return tuple(parameter.model_copy(update={"chinese": ""}) for parameter in parameters)

    update = {kind: without_terms(getattr(spec, kind)) for kind in ("inputs", "attrs", "outputs")}
    before, after = dict(render(spec.model_copy(update=update))), dict(render(spec))
    pages = [f"docs/aclnn{spec.op_type}.md"] if has_terms(spec) else []
    assert [path for path in after if before[path] != after[path]] == pages
    assert "Chinese" not in before[f"docs/aclnn{spec.op_type}.md"]


def test_sections_have_the_names_of_documents_in_chinese(grouped):
    page = page_of(grouped)
    headings = re.findall("^## (.+)$", page, re.MULTILINE)
    assert [row[0] for row in rows_of(page, "this page") if row[0] not in headings] == ["Formula"]


def test_missing_term_is_a_dash(grouped):
    outputs = (grouped.outputs[0].model_copy(update={"chinese": ""}),)
    terms = [row[-1] for row in rows_of(page_of(grouped.model_copy(update={"outputs": outputs})), "parameter | kind")]
    assert terms == [*(parameter.chinese for parameter in grouped.parameters[:-1]), "-"]


def test_every_output_has_a_formula(operators):
    for spec in operators.values():
        made = [output.name for output in spec.outputs if re.search(rf"\b{output.name}(\[[^]]*\])? =", spec.formula)]
        assert made == [output.name for output in spec.outputs], spec.op_type


def test_a_forward_formula_is_checked(grouped):
    page = page_of(grouped.model_copy(update={"forward_formula": "y[i, h] = grad_y[i, h] + b[h]"}))
    assert r"y[i,\, h] = \mathrm{grad\_y}[i,\, h] + b[h]" in page
    wrong = grouped.model_copy(update={"forward_formula": "result = grad_y"})
    assert ("forward_formula",) in dict(problems_of(wrong))


def test_products_without_kernels_are_marked(operators):
    for spec in operators.values():
        for row in rows_of(plain(page_of(spec)), "product series"):
            is_unbuilt = row[1] in spec.products and row[1] not in spec.built_products
            assert row[2].startswith("documented, not built") == is_unbuilt


def test_the_devices_of_nsa_are_those_of_its_document(operators):
    states = {row[0]: row[2] for row in rows_of(plain(page_of(operators["nsa_compress_grad"])), "product series")}
    outside = "kernel; not in the CANN document"
    assert states.pop("Atlas A2 training") == "kernel"
    others = ("Atlas 800I A2 inference", "A200I A2 Box", "Atlas A3 training", "Atlas A3 inference")
    assert [states.pop(device) for device in others] == [outside] * 4
    assert set(states.values()) == {"not supported"}


def test_dtypes_are_those_of_the_product(operators):
    rows = {row[0]: row for row in rows_of(plain(page_of(operators["batch_norm_elemt_backward"])), "parameter | kind")}
    assert rows["mean"][2:5] == ["FLOAT, FLOAT16 (as FLOAT)", "FLOAT, FLOAT16 (as FLOAT), BF16 (as FLOAT)", "FLOAT"]
    assert rows["grad_input"][2:5] == ["FLOAT16, FLOAT", "FLOAT16, BF16, FLOAT", "as grad_out"]


def test_a_limit_can_be_computed_from_the_page(operators):
    text = plain(page_of(operators["embedding_dense_backward"]))
    limit = "⌊(180191 - (⌊num_weights / cores⌋ + num_weights mod cores) · 4) / 36⌋"
    assert f"at most {limit}, `" in text
    assert "`cores` is the number of" in text


def test_attributes_have_the_c_type_of_the_functions(operators):
    rows = {row[0]: row for row in rows_of(plain(page_of(operators["embedding_dense_backward"])), "parameter | kind")}
    assert rows["num_weights"][2:5] == ["uint64_t", "uint64_t", "int"]
    assert rows["scale_grad_by_freq"][2:5] == ["bool"] * 3


def test_arithmetic_is_documented_in_the_order_of_the_kernel(operators):
    (formula,) = code_of(page_of(operators["batch_norm_elemt_backward"]), "math")
    assert r"{\mathrm{invstd}[c]}^{2} \cdot \left(\frac{\mathrm{sum\_dy\_xmu}[c]}{n}\right)" in formula


def test_page_of_an_operator_without_a_kernel(grouped):
    page = dict(render(grouped, has_kernel=False))["docs/aclnnGroupedBiasAddGrad.md"]
    assert "no kernel in this version" in page
    assert "opforge.twin" not in page


TENSOR = re.compile(r"(\w+)\.Create\(\{([\d, ]*)\}, ACL_(\w+),")


def example_arrays(given):
    """Return the inputs of an example as arrays."""
    dtype = np.dtype(given.dtype)
    if given.values is not None:
        return np.array(given.values, dtype).reshape(given.dims)
    return (given.first + np.arange(math.prod(given.dims)) % given.period).astype(dtype).reshape(given.dims)


@pytest.mark.parametrize("name", with_kernel)
def test_the_cpp_example_prints_the_results_of_the_reference(operators, root, name, tmp_path):
    spec = operators[name]
    files = dict(render(spec))
    text = files[f"docs/aclnn{spec.op_type}.cpp"]
    (shown,) = code_of(page_of(spec), "cpp")
    assert text.endswith(shown)
    assert max(map(len, text.split("\n"))) <= 120
    source = tmp_path / f"{name}.cpp"
    source.write_text(text)
    project = find_project(root)
    build_project(project)
    program = tmp_path / name
    command = [os.environ.get("CXX", "g++"), "-Wall", "-Wextra", "-Werror", str(source), *application_flags(project)]
    for step in ([*command, "-o", str(program)], [str(program)]):
        result = subprocess.run(step, check=False, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    printed = [line.split(": ") for line in result.stdout.splitlines()]

    example = example_of(OpView(spec))
    inputs = {
        tensor.name: example_arrays(example.given[tensor.name])
        for tensor in spec.inputs
        if tensor.name in example.given
    }
    exact = load_reference(name)(inputs, example.all_attrs)
    spellings = {spelling: of for spelling, of in spec.aclnn[0].params.items() if of in exact}
    assert [spelling for spelling, _ in printed] == list(spellings)
    for spelling, numbers in printed:
        expected_value = exact[spellings[spelling]].astype(np.float64).ravel()
        tolerance = spec.tests.tolerance[example.given[spellings[spelling]].dtype]
        got = np.array(numbers.split(), np.float64)
        np.testing.assert_allclose(got, expected_value[[0, 1, 2, 3, -1]], tolerance.rtol + 1e-5, tolerance.atol)


@pytest.mark.parametrize("name", with_kernel)
def test_the_python_example_runs_on_the_twin(operators, name, capsys):
    example = next(code for code in code_of(page_of(operators[name]), "python") if "opforge.twin" in code)
    exec(compile(example, f"{name}.md", "exec"), {})  # noqa: S102  # the page tells the reader to run it
    assert len(capsys.readouterr().out.splitlines()) == len(operators[name].outputs)


@pytest.mark.parametrize("name", NAMES)
def test_the_onnx_example_is_a_node_of_the_operator(operators, name):
    """onnx accepts the node with the schema of the operator, and infers the shapes of the C++ example."""
    spec = operators[name]
    page = page_of(spec)
    names = {}
    code = next(code for code in code_of(page, "python") if "make_node" in code)
    exec(compile(code, f"{name}.md", "exec"), names)  # noqa: S102  # the page tells the reader to run it
    node: onnx.NodeProto = names["node"]
    assert {attr.name for attr in spec.attrs if attr.default is None} <= {a.name for a in node.attribute}
    spellings = {of: spelling for spelling, of in spec.aclnn[0].params.items()}
    in_cpp = {
        spelling: ([int(dim) for dim in dims.split(", ")], getattr(onnx.TensorProto, dtype))
        for spelling, dims, dtype in TENSOR.findall(page)
    }
    shapes = {of: in_cpp[spelling] for of, spelling in spellings.items() if spelling in in_cpp}
    for tensor in spec.host_lists:
        values = re.search(rf"{spellings[tensor.name]}Values = {{([\d, ]*)}}", page)[1].split(", ")
        shapes[tensor.name] = ([len(values)], onnx.TensorProto.INT64)
    make = onnx.helper.make_tensor_value_info
    inputs = [make(of, shapes[of][1], shapes[of][0]) for of in node.input if of]
    outputs = [onnx.helper.make_empty_tensor_value_info(output) for output in node.output]
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid(node.domain, 1)]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", inputs, outputs), opset_imports=opsets)
    with registered([spec]):
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        onnx.checker.check_model(inferred, full_check=True)
    got = {
        value.name: ([d.dim_value for d in value.type.tensor_type.shape.dim], value.type.tensor_type.elem_type)
        for value in inferred.graph.output
    }
    assert got == {output.name: shapes[output.name] for output in spec.outputs}
