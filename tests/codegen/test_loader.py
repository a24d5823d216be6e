"""Test the reading of specs: each error message has position, actual value and expected value."""

import os
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from opforge.codegen.errors import UserError
from opforge.codegen.render import render
from opforge.codegen.spec.loader import SpecError, load_specs
from opforge.codegen.spec.yaml_nodes import core_scalar, dotted, read_yaml

MINIMAL = """\
op_type: AddRows
summary: Add two matrices.
formula: z = x + y
products: [ascend910b]
inputs:
  - {name: x, dtypes: [float16, float32]}
  - {name: y, dtype: x, optional: true}
attrs:
  - {name: scale, type: int, default: 1}
outputs:
  - {name: z, dtype: x}
cases:
  - name: only
    shapes: {x: [N, D], y: [N, D], z: [N, D]}
constraints:
  - {label: C1, rule: required, status: 161001}
  - {label: C2, rule: dtypes, status: 161002}
  - {label: C3, rule: ranks, status: 161002}
  - {label: C4, rule: shapes, status: 161002}
  - {label: C5, check: scale >= 0, subject: scale, status: 161002, expected: at least 0}
aclnn:
  - function: aclnnAddRows
    params: {x: x, yOptional: y, out: z}
tiling:
  data:
    - {name: rows, type: int64}
  keys:
    - {name: Plain, key: 1, template: [x]}
tests:
  tolerance:
    float16: {rtol: 1e-3, atol: 0.001}
  shapes:
    - {case: only, symbols: {N: 1, D: 2}, attrs: {scale: 3}}
"""


@pytest.fixture
def problems(tmp_path):
    def run(old, new):
        assert MINIMAL.count(old) == 1, f"{old!r} must stand once in the spec"
        path = tmp_path / "add_rows.yaml"
        path.write_text(MINIMAL.replace(old, new), encoding="utf-8")
        with pytest.raises(SpecError) as caught:
            load_specs([path])[0]
        lines = str(caught.value).split("\n")
        assert all(line.startswith(f"{path}:") for line in lines)
        return [line.removeprefix(f"{path}:") for line in lines]

    return run


def test_the_minimal_spec_is_right(tmp_path):
    path = tmp_path / "add_rows.yaml"
    path.write_text(MINIMAL)
    spec = load_specs([path])[0]
    assert spec.name == "add_rows"
    assert spec.tensor("z").dtypes == ("float16", "float32")
    assert spec.tensor("y").optional
    assert spec.attr("scale").default == 1
    assert [constraint.label for constraint in spec.constraints] == ["C1", "C2", "C3", "C4", "C5"]


# Text of the spec, its replacement, and the expected message. A caret marks the expected position; without a caret, the
# message starts with line and column.
REFUSALS = [
    ("optional: true", "mix: ^both", "inputs[1].mix: unknown mix 'both'; expected one of cast, promote"),
    ("optional: true", "casts: ^{int8: float16}", "inputs[1].casts: got casts, expected them only with"),
    ("float32]}", "float32], casts: {int8: ^int32}}", "inputs[0].casts.int8: got 'int32'; expected one of float16"),
    ("float32]}", "float32], casts: {^float16: float32}}", "inputs[0].casts.float16: got 'float16', which is one of"),
    ("float32]}", "float32], mix: ^cast}", "inputs[0].mix: got 'cast' without 'dtype: <required input>'"),
    ("float32]}", "float32], formats: [^NHWCN]}", "inputs[0].formats[0]: unknown format 'NHWCN'"),
    ("float32]}", "float32], host_values: ^true}", "inputs[0].host_values: got true, expected 'dtypes: [int64]'"),
    ("x: [N, D], y:", "x: [N, '*S', ^'*R'], y:", "cases[0].shapes.x[2]: got a second dimension with a star"),
    ("z: [N, D]}", "z: [N, ^'*S']}", "cases[0].shapes.z[1]: got '*S', which no input has"),
    ("check: scale >= 0", "check: scale >= 0, products: [^ascend910]", "constraints[4].products[0]: got 'ascend910'"),
    ("rule: shapes", "rule: shapes, products: ^[ascend910b]", "constraints[3].products: got products with 'rule'"),
    (
        "check: scale >= 0",
        "check: ^all(V > 0 for V in x)",
        "constraints[4].check: in 'all(V > 0 for V in x)': got 'x' to",
    ),
    ("tiling:", "torch:\n  targets: [{target: ^os, args: {}}]\ntiling:", "torch.targets[0].target: got 'os', expected"),
    (
        "tiling:",
        "torch:\n  targets: [{target: aten.add.default, args: {self: ^w}}]\ntiling:",
        "torch.targets[0].args.self: unknown parameter 'w'",
    ),
    (
        "float32]}",
        "float32], values: ^{low: 0}}",
        "inputs[0].values: got low; expected 'low' and 'high', or 'ends_of' and optionally 'lengths_when'",
    ),
    ("float32]}", "float32], values: {ends_of: ^x}}", "inputs[0].values.ends_of: got 'x'; expected one of y"),
    ("float32]}", "float32], values: {low: 0, high: ^M}}", "inputs[0].values.high: in 'M': got unknown name 'M'"),
    ("dtype: x}", "dtype: x, values: ^{low: 0, high: 2}}", "outputs[0].values: got values, expected them only with"),
    ("tiling:", "builtin: [^Sub]\ntiling:", "builtin[0]: got 'Sub'; expected one of"),
    ("tiling:", "onnx:\n  aliases: [^Plus]\ntiling:", "onnx.aliases[0]: got 'Plus', expected a domain and a type"),
    ("tiling:", "onnx:\n  aliases: ['a::B', ^'a::B']\ntiling:", "onnx.aliases[1]: got 'a::B' again"),
    (
        "tiling:",
        "torch:\n  variants: [{target: aten.add.default, args: {self: x, other: ''}, fixed: {^othr: 1}}]\ntiling:",
        "torch.variants[0].fixed.othr: unknown argument 'othr'; did you mean 'other'?",
    ),
    (
        "tiling:",
        "torch:\n  variants: [{target: aten.add.default, args: {self: x}, ones: [^x]}]\ntiling:",
        "torch.variants[0].ones[0]: got 'x'; expected one of y",
    ),
    (
        "products:",
        "document:\n  - {subject: x, says: Any., as: ^more}\nproducts:",
        "document[0].as: unknown support 'more'; expected one of",
    ),
    (
        "products:",
        "document:\n  - {subject: x, says: Any., as: wider, ^resson: R}\nproducts:",
        "document[0].resson: unknown key 'resson'; did you mean 'reason'?",
    ),
    (
        "products:",
        "document:\n  - ^{subject: q, says: Any., as: wider}\nproducts:",
        "document[0]: 'reason' is missing, expected it with 'as: wider'",
    ),
    (
        "products:",
        "document:\n  - ^{subject: x, says: Any., as: narrower, reason: R}\nproducts:",
        "document[0]: has no call, expected 'past' with 'as: narrower'",
    ),
    (
        "products:",
        "document:\n  - ^{subject: x, says: Any., as: implemented, past: [{status: 161002}]}\nproducts:",
        "document[0]: 'at' is missing, expected a call",
    ),
    (
        "products:",
        "document:\n  - {subject: x, says: Any., as: implemented, at: [{status: ^161002}]}\nproducts:",
        "document[0].at[0].status: got status 161002, expected 0",
    ),
    (
        "products:",
        "document:\n  - {subject: x, says: Any., as: implemented, at: [{}], past: [^{}]}\nproducts:",
        "document[0].past[0]: got status 0, expected the status",
    ),
    (
        "products:",
        "document:\n  - {subject: x, says: Any., as: implemented, at: [{symbols: {^Q: 1}}]}\nproducts:",
        "document[0].at[0].symbols.Q: unknown symbol 'Q'",
    ),
    (
        "products:",
        "document:\n  - {subject: x, says: Any., as: implemented, at: [{case: ^onli}]}\nproducts:",
        "document[0].at[0].case: unknown case 'onli'",
    ),
    (
        "products:",
        "document:\n  - {subject: x, says: Any., as: implemented, at: [{absent: [^w]}]}\nproducts:",
        "document[0].at[0].absent[0]: unknown tensor 'w'",
    ),
    (
        "products:",
        "document:\n  - {subject: x, says: Any., as: implemented, at: [{gives: {^x: 1}}]}\nproducts:",
        "document[0].at[0].gives.x: unknown tensor 'x'",
    ),
    (
        "products:",
        "document:\n  - {subject: x, says: Any., as: implemented, at: [{function: ^aclnnAdd}]}\nproducts:",
        "document[0].at[0].function: got 'aclnnAdd'",
    ),
    ("summary:", "^sumary:", "sumary: unknown key 'sumary'; did you mean 'summary'?"),
    ("summary: Add two matrices.\n", "", "1:1: summary: is missing; add this key"),
    ("dtypes: [float16", "^dtyps: [float16", "inputs[0].dtyps: unknown key 'dtyps'; did you mean 'dtypes'?"),
    (
        "optional: true",
        "^param_typ: optional",
        "inputs[1].param_typ: unknown key 'param_typ'; expected one of casts, chin",
    ),
    ("formula:", "^summary: again\nformula:", "summary: got the key 'summary' again, line 2 has it already"),
    ("rule: required", "^rul: required", "constraints[0].rul: unknown key 'rul'; did you mean 'rule'?"),
    ("optional: true", "optional: ^yes", "inputs[1].optional: got 'yes', expected true or false"),
    ("optional: true", "optional: ^'true'", "inputs[1].optional: got 'true', expected true or false"),
    ("default: 1", "default: ^[1]", "attrs[0].default: got [1], expected a value of type int"),
    ("int, default: 1", "float, default: ^1e-300", "attrs[0].default: got 1e-300, expected 0 or a number of 32 bits"),
    ("int, default: 1", "float, default: ^1e300", "attrs[0].default: got 1e+300, expected 0 or a number of 32 bits"),
    (
        "int, default: 1",
        "list_float, default: ^[0, -1e39]",
        "attrs[0].default: got [0, -1e+39], expected 0 or a number",
    ),
    ("default: 1", "default: ^1.5", "attrs[0].default: got 1.5, expected a value of type int"),
    ("default: 1", "default: ^true", "attrs[0].default: got true, expected a value of type int"),
    (
        "default: 1",
        "default: ^99999999999999999999",
        "attrs[0].default: got 99999999999999999999, expected an integer of 64",
    ),
    ("status: 161001", "status: ^'161001'", "constraints[0].status: got '161001', expected an integer"),
    ("products: [ascend910b]", "products: ^ascend910b", "products: got 'ascend910b', expected a list"),
    ("products: [ascend910b]", "products: ^[]", "products: got an empty list, expected at least 1"),
    ("products: [ascend910b]", "products: ^[]", "products: got an empty list, expected at least 1"),
    ("summary: Add two matrices.", "summary:", "2:9: summary: got nothing, expected text"),
    ("key: 1,", "key: ^-1,", "tiling.keys[0].key: got -1, expected at least 0"),
    (
        "- {name: Plain, key: 1,",
        "- ^{name: Half, key: 2}\n    - {name: Plain, key: 1,",
        "tiling.keys[0]: 'when' is missing, expected the condition that selects this key; only the last key has none",
    ),
    (
        "[float16, float32]",
        "[float16, ^flot32]",
        "inputs[0].dtypes[1]: unknown dtype 'flot32'; did you mean 'float32'?",
    ),
    ("[float16, float32]", "[float16, ^float16]", "inputs[0].dtypes[1]: got the dtype 'float16' again"),
    ("[ascend910b]", "[ascend910b]\ndocument_devices: [^Atlas A2]", "document_devices[0]: unknown device 'Atlas A2'"),
    (
        "[ascend910b]",
        "[ascend910b]\ndefinitions: {middle: ^Q // 2}",
        "definitions.middle: in 'Q // 2': got unknown name 'Q'",
    ),
    (
        "[ascend910b]",
        "[ascend910b]\ndefinitions: {middle: ^'1 > 2'}",
        "definitions.middle: got '1 > 2', which is a condition; expected an integer or a list",
    ),
    ("[ascend910b]", "[^ascend910c]", "products[0]: unknown product 'ascend910c'; did you mean"),
    ("type: int,", "type: ^int64_t,", "attrs[0].type: unknown attribute type 'int64_t'; did you mean 'int'?"),
    ("rule: ranks", "rule: ^rank", "constraints[2].rule: unknown rule 'rank'; did you mean 'ranks'?"),
    ("status: 161001", "status: ^161003", "constraints[0].status: got 161003, expected one of 161001, 161002, 561002"),
    ("type: int64}", "type: ^int128}", "tiling.data[0].type: unknown type 'int128'; did you mean 'int32'?"),
    (
        "op_type: AddRows",
        "op_type: ^Add_Rows",
        "op_type: got 'Add_Rows', expected a capital letter, then letters and digits",
    ),
    ("op_type: AddRows", "op_type: ^../../x", "op_type: got '../../x', expected a capital letter"),
    ("op_type: AddRows", "op_type: ^OpDef", "op_type: got 'OpDef', which generated code uses; expected another"),
    ("op_type: AddRows", "op_type: ^NULL", "op_type: got 'NULL', which generated code uses; expected another"),
    ("op_type: AddRows", "op_type: ^9Rows", "op_type: got '9Rows', expected a capital letter"),
    ("- {name: x,", "- {name: ^class,", "inputs[0].name: got 'class', a keyword of C++ or Python"),
    ("- {name: x,", "- {name: ^lambda,", "inputs[0].name: got 'lambda', a keyword of C++ or Python"),
    ("- {name: x,", "- {name: ^9x,", "inputs[0].name: got '9x', expected lower case words"),
    ("- {name: x,", "- {name: ^op-,", "inputs[0].name: got 'op-', expected lower case words"),
    ("- {name: x,", "- {name: ^Input,", "inputs[0].name: got 'Input', expected lower case words"),
    ("- {name: x,", "- {name: ^workspace,", "inputs[0].name: got 'workspace', which generated code uses"),
    ("- {name: x,", "- {name: ^float16,", "inputs[0].name: got 'float16', which generated code uses"),
    ("- {name: y,", "- {name: ^x,", "inputs[1].name: got the name 'x' again, inputs[0] has it already"),
    ("- {name: x,", "- {name: ^status,", "inputs[0].name: got 'status', which generated code uses"),
    ("name: scale,", "name: ^z_dense,", "attrs[0].name: got 'z_dense', which generated code uses"),
    ("name: scale,", "name: ^error,", "attrs[0].name: got 'error', which generated code uses"),
    ("name: scale,", "name: z,", "11:12: outputs[0].name: got the name 'z' again, attrs[0] has it already"),
    ("label: C2", "label: ^C1", "constraints[1].label: got the label 'C1' again, constraints[0] has it already"),
    ("label: C2", "label: ^C3", "constraints[1].label: got 'C3', expected 'C2': labels count the constraints from C1"),
    ("label: C5", "label: ^D5", "constraints[4].label: got 'D5', expected 'C5': labels count the constraints from C1"),
    (
        "rule: ranks, status: 161002",
        "rule: ranks, status: ^161001",
        "constraints[2].status: got 161001, expected 161002, the status of the rule 'ranks'",
    ),
    (
        "rule: required, status: 161001",
        "rule: required, status: ^561002",
        "constraints[0].status: got 561002, expected 161001, the status of the rule 'required'",
    ),
    ("label: C2", "label: ^c2", "constraints[1].label: got 'c2', expected a capital"),
    ("aclnnAddRows", "^addRows", "aclnn[0].function: got 'addRows', expected 'aclnn' and a name"),
    ("yOptional: y", "^y_optional: y", "aclnn[0].params.y_optional: got 'y_optional', expected camelCase"),
    (
        "yOptional: y",
        "^executor: y",
        "aclnn[0].params.executor: got 'executor', which generated code uses; expected another name",
    ),
    ("yOptional: y", "^xDense: y", "aclnn[0].params.xDense: got 'xDense', which generated code uses"),
    ("yOptional: y", "^zCopy: y", "aclnn[0].params.zCopy: got 'zCopy', which generated code uses"),
    (
        "{name: y, dtype: x",
        "{name: y, dtype: ^xx",
        "inputs[1].dtype: got 'xx', not a required input with dtypes; did you mean 'x'?",
    ),
    (
        "{name: z, dtype: x}",
        "{name: z, dtype: ^y}",
        "outputs[0].dtype: got 'y', not a required input with dtypes; expected one of x",
    ),
    ("{name: z, dtype: x}", "^{name: z}", "outputs[0]: has no dtypes, expected"),
    ("{name: z, dtype: x}", "{name: z, dtypes: ^[int8, bool]}", "outputs[0].dtypes: got 2 dtypes, expected one"),
    ("out: z}", "out: ^zz}", "aclnn[0].params.out: unknown parameter 'zz'; did you mean 'z'?"),
    ("out: z}", "out: ^x}", "aclnn[0].params.out: got 'x' again, expected each parameter once"),
    (", out: z}", "}", "23:13: aclnn[0].params: 'z' is missing, expected a parameter for it"),
    (", default: 1", "", "23:13: aclnn[0].params: 'scale' is missing, expected a parameter for it"),
    ("subject: scale", "subject: ^scal", "constraints[4].subject: unknown parameter 'scal'; did you mean 'scale'?"),
    ("subject: scale, ", "", "20:5: constraints[4]: 'subject' is missing, a 'check' needs it for its message"),
    ("rule: shapes", "check: scale > 1", "16:3: constraints: got 0 constraints with rule 'shapes', expected one"),
    ("rule: dtypes", "rule: ranks", "16:3: constraints: got 0 constraints with rule 'dtypes', expected one"),
    (
        "template: [x]",
        "template: [^y]",
        "tiling.keys[0].template[0]: got 'y' (the dtype of an optional input selects no kernel)",
    ),
    ("template: [x]", "template: [^int23]", "tiling.keys[0].template[0]: got 'int23'; did you mean 'int32'?"),
    ("type: int64}", "type: int64, count: 300}", "26:5: tiling.data: got 2400 bytes, expected at most 2048"),
    ("z: [N, D]", "z: [N, ^Q]", "cases[0].shapes.z[1]: got 'Q', which no input has as a dimension"),
    ("x: [N, D]", "x: [N, ^d]", "cases[0].shapes.x[1]: got 'd', expected a capital"),
    (", z: [N, D]", "", "14:13: cases[0].shapes: 'z' is missing, expected its shape"),
    ("z: [N, D]", "z: [N, D], ^w: [N]", "cases[0].shapes.w: unknown tensor 'w'; expected one of x, y, z"),
    ("z: [N, D]", "z: [N, ^D + ]", "cases[0].shapes.z[1]: got 'D +', which is not an expression"),
    ("z: [N, D]", "z: [N, ^-1]", "cases[0].shapes.z[1]: got -1, expected a dimension of at least 0"),
    ("z: [N, D]", "z: [N, ^D // 0]", "cases[0].shapes.z[1]: in 'D // 0': got division by zero, expected a part that"),
    ("z: [N, D]", "z: [N, ^D % (2 - 2)]", "cases[0].shapes.z[1]: in 'D % (2 - 2)': got division by zero"),
    (
        "check: scale >= 0",
        "check: ^scale >= 0 or 9223372036854775807 * 2 > scale",
        "constraints[4].check: in 'scale >= 0 or 9223372036854775807 * 2 > scale': got 18446744073709551614 does not",
    ),
    ("    shapes: {x", "    when: ^5//0 > scale\n    shapes: {x", "cases[0].when: in '5//0 > scale': got division by"),
    ("z: [N, D]", "z: [N, ^D / 2]", "cases[0].shapes.z[1]: in 'D / 2': got '/'; expected '//'"),
    ("x: [N, D]", "x: [N, 2], ^z2: [A]", "cases[0].shapes.z2: unknown tensor 'z2'"),
    (
        "check: scale >= 0",
        "check: ^scal >= 0",
        "constraints[4].check: in 'scal >= 0': got unknown name 'scal'; did you mean 'scale'?",
    ),
    (
        "check: scale >= 0",
        "check: ^scale",
        "constraints[4].check: got 'scale', which is an integer; expected a condition",
    ),
    ("check: scale >= 0", "check: ^Q > 0", "constraints[4].check: in 'Q > 0': got unknown name 'Q'"),
    ("    shapes: {x", "    when: ^N > 0\n    shapes: {x", "cases[0].when: in 'N > 0': got unknown name 'N'"),
    (
        "attrs: {scale: 3}}",
        "attrs: {scale: ^true}}",
        "tests.shapes[0].attrs.scale: got true, expected a value of type int",
    ),
    ("y: [N, D], z", "y: [N, D - 3], z", "33:29: tests.shapes[0].symbols: got D - 3 = -1, expected dimensions"),
    ("formula: z", "formula: ^w", "formula: got 'w' on the left side, which is not an output; expected one of z"),
    ("products: [ascend910b]", "products: ^&p [ascend910b]", "got the anchor '&p', expected the value itself"),
    ("z: [N, D]", "z: [^*S]", "got the alias '*S', expected the value itself; a star dimension needs quotes"),
    ("summary: Add", "summary: ^!!str Add", "got the tag"),
    ("key: 1,", "key: ^010,", "tiling.keys[0].key: got 010, expected a number without a leading zero"),
    ("products: [ascend910b]", "products: [ascend910b", "5:7: not valid YAML"),
    ("summary: Add two matrices.", 'summary: ^"Add \\u202e two"', "summary: got the control character"),
    ("summary: Add two matrices.", 'summary: ^"Add \\n two"', "summary: got several lines, expected one"),
    (
        "default: 1}",
        "default: 1, chinese: ^''}",
        "attrs[0].chinese: got an empty text, expected at least one character",
    ),
    ("default: 1}", "default: 1, chinese: ^scale}", "attrs[0].chinese: got 'scale', expected a term in Chinese"),
    (
        "dtype: x}\ncases",
        f"dtype: x, chinese: ^{'行' * 17}}}\ncases",
        "outputs[0].chinese: got 17 characters, expected at most 16",
    ),
    ("default: 1}", 'default: 1, chinese: ^"缩\\n放"}', "attrs[0].chinese: got several lines, expected one"),
    ("default: 1}", 'default: 1, chinese: ^"缩\\u200b放"}', "attrs[0].chinese: got the control character '\\u200b'"),
    ("default: 1}", "default: 1, chinese: ^[缩放]}", "attrs[0].chinese: got a list, expected text"),
    ("case: only, symbols", "case: ^onli, symbols", "tests.shapes[0].case: unknown case 'onli'; did you mean 'only'?"),
    ("{N: 1, D: 2}", "{N: 1, ^Q: 2}", "tests.shapes[0].symbols.Q: unknown symbol 'Q'; expected one of D, N"),
    ("{N: 1, D: 2}", "^{N: 1}", "tests.shapes[0].symbols: 'D' is missing, expected a number, as in D: 4"),
    ("{N: 1, D: 2}", "{N: 1, D: ^-2}", "tests.shapes[0].symbols.D: got -2, expected at least 0"),
    (
        "attrs: {scale: 3}",
        "attrs: {^scal: 3}",
        "tests.shapes[0].attrs.scal: unknown attribute 'scal'; did you mean 'scale'?",
    ),
    (
        "check: scale >= 0, subject: scale, status: 161002, expected: at least 0",
        "check: dtype(x) == float16, subject: scale, status: 161002, expected: ^'at least {limit}'",
        "constraints[4].expected: got {limit}, expected it with a check that ends with a comparison of integers",
    ),
    ("float16: {rtol", "^flot16: {rtol", "tests.tolerance.flot16: unknown dtype 'flot16'; did you mean 'float16'?"),
    ("rtol: 1e-3", "rtol: ^-1e-3", "tests.tolerance.float16.rtol: got -0.001, expected at least 0"),
    ("rtol: 1e-3", "rtol: ^'1e-3'", "tests.tolerance.float16.rtol: got '1e-3', expected a number"),
]


@pytest.mark.parametrize(("old", "new", "expected"), REFUSALS, ids=range(len(REFUSALS)))
def test_error_message_contains_the_position(problems, old, new, expected):
    if "^" in new:
        before = MINIMAL[: MINIMAL.index(old)] + new[: new.index("^")]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        expected = f"{line}:{column}: {expected}"
    lines = problems(old, new.replace("^", ""))
    assert any(line.startswith(expected) for line in lines), lines
    assert len(lines) <= 4, "one mistake must not look like many"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "z: [N, D]",
            "z: [N, 9223372036854775808]",
            "14:43: cases[0].shapes.z[1]: got 9223372036854775808, expected at most 9223372036854775807",
        ),
        ("z: [N, D]", "z: [N, '*S']", "14:43: cases[0].shapes.z[1]: got '*S', which no input has; expected none"),
    ],
)
def test_one_mistake_has_one_message(problems, old, new, expected):
    assert problems(old, new) == [expected]


def test_problems_below_a_misspelt_key_show_too(problems):
    lines = problems("dtypes: [float16, float32]", "dtyps: [float16, flot32]")
    assert lines == [
        "6:15: inputs[0].dtyps: unknown key 'dtyps'; did you mean 'dtypes'?",
        "6:32: inputs[0].dtyps[1]: unknown dtype 'flot32'; did you mean 'float32'?",
    ]


def test_all_problems_of_a_file_show_in_one_run(tmp_path):
    text = MINIMAL.replace("summary:", "sumary:").replace("[float16, float32]", "[flot16]")
    text = (
        text.replace("label: C2", "label: C1")
        .replace("z: [N, D]", "z: [N, Q]")
        .replace("optional: true", "optional: 1")
    )
    path = tmp_path / "add_rows.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_specs([path])[0]
    for part in ("sumary", "flot16", "optional: got 1"):
        assert part in str(caught.value)
    path.write_text(
        MINIMAL.replace("summary:", "sumary:").replace("z: [N, D]", "z: [N, Q]").replace("label: C2", "label: C1")
    )
    with pytest.raises(SpecError) as caught:
        load_specs([path])[0]
    for part in ("sumary", "'Q', which no input", "'C1' again"):
        assert part in str(caught.value), "a misspelt key hides nothing else"


def test_problems_of_several_files_show_together(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(MINIMAL.replace("formula:", "formular:"))
    with pytest.raises(SpecError) as caught:
        load_specs([tmp_path / "a.yaml", tmp_path / "b.yaml"])
    assert "a.yaml:3:1: formular" in str(caught.value)
    assert "b.yaml:3:1: formular" in str(caught.value)


def test_two_operators_cannot_share_a_name(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(MINIMAL)
    with pytest.raises(SpecError, match=r"got 'AddRows' again, .*a\.yaml defines it already"):
        load_specs([tmp_path / "a.yaml", tmp_path / "b.yaml"])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda _: None, "No such file"),
        (lambda path: path.mkdir(), "got a directory, expected a regular file; check the path"),
        (lambda path: path.write_bytes(b""), "got an empty file"),
        (lambda path: path.write_bytes(b"# nothing\n"), "got an empty file"),
        (
            lambda path: path.write_bytes(b"op_type: \xff\n"),
            ":1:10: got byte 0xff, expected UTF-8 text; save the file as UTF-8",
        ),
        (lambda path: path.write_bytes(b"a: \x00"), "not valid YAML"),
        (lambda path: path.write_bytes(b"- a\n- b\n"), "1:1: got a list, expected the keys of a spec"),
        (lambda path: path.write_bytes(b"42"), "1:1: got 42, expected the keys of a spec"),
        (lambda path: path.write_bytes(b"x: " + b"[" * 500), "levels of nesting"),
        (lambda path: path.write_bytes(b"x: " + b"[" * 5000), "nesting"),  # some versions of libyaml stop before
        (lambda path: path.write_bytes(b"#" * (2 << 20)), "expected at most 1048576"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
)
def test_unreadable_files_are_mistakes_of_the_user(tmp_path, make, expected):
    path = tmp_path / "spec.yaml"
    make(path)
    with pytest.raises(UserError) as caught:
        load_specs([path])[0]
    assert str(path) in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_a_mistake_of_the_user(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(MINIMAL)
    path.chmod(0)
    with pytest.raises(UserError, match="Permission denied"):
        load_specs([path])[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("True", "True"),
        ("1e-6", 1e-6),
        ("1.0e-3", 1e-3),
        (".5", 0.5),
        ("-12", -12),
        ("0o17", "0o17"),
        ("0x1F", "0x1F"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("null", None),
        ("~", None),
        (".inf", ".inf"),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text, value):
    got = core_scalar(text)
    assert got == value
    assert type(got) is type(value)


def test_positions_are_counted_from_one():
    document = read_yaml("a: 1\nb:\n  - {c: 2}\n")
    assert (document.place(("b", 0, "c")).line, document.place(("b", 0, "c")).column) == (3, 9)
    assert (document.key_place(("b", 0, "c")).line, document.key_place(("b", 0, "c")).column) == (3, 6)


def mutations():
    """Yield specs with one key misspelled or removed, or one value of another kind."""
    document = read_yaml(MINIMAL)
    for path in document.values:
        if path:
            yield from ((path, kind) for kind in ("delete", "misspell", "list", "number", "text", "nothing"))


def mutated(path, kind):
    def copy(node, here):
        if isinstance(node, tuple):
            items = [
                copy(item, (*here, i)) for i, item in enumerate(node) if not ((*here, i) == path and kind == "delete")
            ]
            return replaced(items, here)
        if isinstance(node, dict):
            mapping = {}
            for key, item in node.items():
                if (*here, key) == path and kind == "delete":
                    continue
                name = f"{key}q" if (*here, key) == path and kind == "misspell" else key
                mapping[name] = copy(item, (*here, key))
            return replaced(mapping, here)
        return replaced(node, here)

    def replaced(node, here):
        return (
            {"list": [[]], "number": 7.25, "text": "zz zz", "nothing": None}.get(kind, node) if here == path else node
        )

    return yaml.safe_dump(copy(read_yaml(MINIMAL).value, ()), sort_keys=False)


def refusal_of(path):
    """Return the error of a spec; None if it is valid, and then its files can also be generated."""
    try:
        render(load_specs([path])[0])
    except SpecError as error:
        return str(error)
    return None


def test_mutated_specs_are_refused_or_rendered_but_never_crash(tmp_path):
    path = tmp_path / "spec.yaml"
    refusals = []
    for where, kind in mutations():
        path.write_text(mutated(where, kind))
        refusals.append(refusal_of(path))
    refused = [refusal for refusal in refusals if refusal is not None]
    assert all(line.startswith(f"{path}:") for refusal in refused for line in refusal.split("\n"))
    assert len(refused) > 400
    assert len(refusals) - len(refused) < len(refused) / 4


DAMAGE = [*"{}[]:,'\"\n\t#&*!|>%@-", "\u2028", "\x07", "- ", ": "]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(MINIMAL)), st.integers(0, 3), st.sampled_from(DAMAGE)), max_size=4))
def test_damaged_texts_never_crash(tmp_path_factory, damages):
    text = MINIMAL
    for at, length, damage in damages:
        text = text[:at] + damage + text[at + length :]
    path = tmp_path_factory.getbasetemp() / "damaged.yaml"
    path.write_text(text, encoding="utf-8")
    refusal = refusal_of(path)
    assert refusal is None or refusal.startswith(f"{path}:")


WRONG_KINDS = [(path, kind) for path, kind in mutations() if kind in {"list", "number"}]


def problems_of_text(folder, text):
    path = folder / "spec.yaml"
    path.write_text(text)
    refusal = refusal_of(path)
    return [] if refusal is None else [line.removeprefix(f"{path}:").split(": ", 2)[1:] for line in refusal.split("\n")]


def test_value_of_the_wrong_kind_causes_no_other_error(tmp_path):
    for where, kind in WRONG_KINDS:
        for place, message in problems_of_text(tmp_path, mutated(where, kind)):
            assert place.startswith(dotted(where)) or dotted(where).startswith(place), (where, kind, place, message)


def test_value_of_the_wrong_kind_hides_no_other_error(tmp_path):
    marks = {"constraints": ("label: C5", "label: C4", "'C4' again"), "": ("int64", "int46", "unknown type 'int46'")}
    for where, kind in WRONG_KINDS:
        for section, (old, new, expected) in marks.items():
            text = mutated(where, kind)
            if where[0] in {section, "tiling"} or old not in text:
                continue
            found = problems_of_text(tmp_path, text.replace(old, new))
            assert any(expected in message for _, message in found), (where, kind, found)


def test_a_test_without_a_required_attribute_is_named(tmp_path):
    path = tmp_path / "add_rows.yaml"
    path.write_text(MINIMAL.replace(", default: 1}", "}").replace(", attrs: {scale: 3}", ""))
    with pytest.raises(SpecError, match=r"tests\.shapes\[0\]: 'scale' is missing among its attrs, expected a value"):
        load_specs([path])[0]


def test_a_name_that_is_refused_is_the_only_mistake(root, tmp_path):
    text = (root / "op_proto" / "grouped_bias_add_grad.yaml").read_text(encoding="utf-8")
    for name in ("grad_y", "group_idx", "grad_bias", "group_idx_type"):
        found = problems_of_text(tmp_path, re.sub(rf"- name: {name}\b", "- name: class", text))
        assert len(found) == 1, found
        assert "'class', a keyword of C++" in found[0][1]
