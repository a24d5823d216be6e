"""Test which phrases of aclnn pages become properties of a draft, and that the others are comments."""

import time

import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.importers.aclnn_page import drafts
from opforge.codegen.importers.new_project import write_project
from opforge.codegen.importers.pages.phrases import cell_dtypes, is_optional, same_as, text_dtypes, value_range
from opforge.codegen.spec.loader import load_specs

pytestmark = pytest.mark.slow

DECLARATION = """# aclnnGate
```cpp
aclnnStatus aclnnGateGetWorkspaceSize(const aclTensor *x, const aclTensor *weight, int64_t axis, aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor)
```
"""
TABLE = """| 参数名 | 输入/输出 | 描述 | 数据类型 | 维度(shape) |
|---|---|---|---|---|
| x | 输入 | 最后一维必须是8的倍数。 | FLOAT | 2-4 |
| weight | 输入 | 权重。 | FLOAT16 | 1 |
| axis | 输入 | 轴。 | INT64 | - |
| out | 输出 | 结果。 | 与x一致 | 2-4 |
"""


def page(**cells):
    """Return the draft of a page whose table has other cells, as `x_dtype="FLOAT"`, or text after the table."""
    columns = ["text", "dtype", "ranks"]
    lines = []
    for line in TABLE.splitlines():
        row = [cell.strip() for cell in line.strip("|").split("|")]
        for key, value in cells.items():
            name, _, column = key.partition("_")
            if row[0] == name and column in columns:
                row[2 + columns.index(column)] = value
        lines.append(f"| {' | '.join(row)} |")
    return drafts("\n".join([DECLARATION, *lines, cells.get("after", "")]), "page.md")[0]


def notes(draft):
    return [note.text for note in draft.notes]


@pytest.mark.parametrize(
    ("cell", "words", "is_certain"),
    [
        ("FLOAT、FLOAT16", ["FLOAT", "FLOAT16"], True),
        ("float16/bf16", ["float16", "bf16"], True),
        ("支持FLOAT16、BFLOAT16。", ["FLOAT16", "BFLOAT16"], True),
        ("INT4、STRING、UINT1、FLOAT8_E4M3FN", ["INT4", "STRING", "UINT1", "FLOAT8_E4M3FN"], True),
        ("FLOAT，不支持FLOAT16，INT8", ["FLOAT"], False),
        ("支持 FLOAT16，暂不支持 BFLOAT16", ["FLOAT16"], False),
        ("除 FLOAT16、INT8 外的所有类型", [], False),
        ("FLOAT、BFLOAT16（Atlas 训练系列产品不支持BFLOAT16）", ["FLOAT", "BFLOAT16"], False),
        ("Atlas A2：FLOAT；Atlas 推理系列：FLOAT16", ["FLOAT", "FLOAT16"], False),
        ("FLOAT16（当x为INT8时）", ["FLOAT16"], False),
        ("not FLOAT16", [], False),
        ("FLOAT if x is INT8", [], False),
        ("与x一致", [], True),
    ],
)
def test_dtypes_of_a_cell(cell, words, is_certain):
    assert cell_dtypes(cell) == (words, is_certain)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("公式中的x，数据类型支持FLOAT16、BFLOAT16，数据格式支持ND。", ["FLOAT16", "BFLOAT16"]),
        ("当类型为INT8、INT16时，转化为FLOAT32进行运算。\n数据类型支持INT8、FLOAT。", ["INT8", "FLOAT"]),
        ("数据类型支持FLOAT，当x为INT8时必须为FLOAT16。", []),
        ("数据类型不支持INT8。", []),
        ("If x is INT8, the data type is FLOAT. The data type can be FLOAT16.", ["FLOAT16"]),
    ],
)
def test_dtypes_of_sentences(text, words):
    assert text_dtypes(text) == (words, True)


def test_dtypes_of_products_are_not_certain():
    text = "- Atlas A2：数据类型支持FLOAT、BFLOAT16。\n- Atlas 训练系列产品：数据类型支持FLOAT。"
    assert text_dtypes(text) == (["FLOAT", "BFLOAT16"], False)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("与x一致", "x"),
        ("数据类型与`x`保持一致。", "x"),
        ("与“varRef”参数一致。", "varRef"),
        ("same as x", "x"),
        ("same as that of the input x", "x"),
        ("与x不一致", ""),
        ("与x和weight推导后的类型一致", ""),
        ("与x或weight一致", ""),
        ("not the same as x", ""),
        ("当axis为0时与x一致", ""),
    ],
)
def test_a_cell_refers_to_another_parameter(text, name):
    assert same_as(text, is_cell=True) == name


def test_a_sentence_about_the_shape_gives_no_dtypes():
    assert same_as("输出，shape与x一致，数据格式与weight一致", is_cell=False) == ""
    assert same_as("输出，shape与x一致，数据类型和shape必须与weight一致", is_cell=False) == "weight"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("取值范围为[0, 3]。", (0, 3)),
        ("计算模式。\n取值范围在[-2, 2]内。\n0：第一种", (-2, 2)),
        ("The value range is [1, 2].", (1, 2)),
        ("取值范围为[0, 1]。\n0：求和。\n1：求平均。", (0, 1)),
        ("取值范围为[0, 1]。\n-1表示默认。", None),
        ("取值范围不为[0, 3]", None),
        ("取值范围为[0, 3]或[5, 7]", None),
        ("取值范围为[0, 3]、[5, 7]", None),
        ("取值范围[0, 3]，但不支持2", None),
        ("取值为[0,1]两种之一，或者-1", None),
        ("建议取值范围为[0, 1]", None),
        ("当x为2维时，取值范围为[0, 1]", None),
        ("x的维度是4，则取值范围在[-4, 3]", None),
        ("当self.dim()=0时，取值范围[-1, 0]；\n取值范围[0, 1]", None),
        ("维度为(e, k)，e取值范围[1,256]", None),
        ("取值支持[16, 128]内16整数倍的数值", None),
        ("Atlas A3：\n取值范围[0, 1]", None),
        ("取值范围为[3, 1]", None),
        ("取值范围为[0, 3)", None),
        ("The value range is not [1, 2]", None),
        ("If axis is 1, the value range is [1, 2]", None),
    ],
)
def test_range_of_values(text, expected):
    found = value_range(text)
    assert (found[:2] if found else None) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("biasOptional", "", True),
        ("gradOptionalRef", "", True),
        ("x", "可选参数。", True),
        ("x", "该参数为可选参数", True),
        ("x", "支持空Tensor。\n可选输入，表示偏置。", True),
        ("x", "支持传入空指针，非空时支持一维。", True),
        ("x", "预留参数。目前暂不支持，传入空指针nullptr即可。", True),
        ("x", "This parameter is optional.", True),
        ("x", "不是可选参数。", False),
        ("x", "当可选输入w存在时有效。", False),
        ("x", "公式中的biasOptional。", False),
        ("x", "不支持传入空指针。", False),
        ("x", "This is not an optional input.", False),
    ],
)
def test_optional_parameters(name, text, expected):
    assert is_optional(name, text) is expected


@pytest.mark.parametrize(
    ("title", "direction", "cell", "option"),
    [
        ("说明", "输入", "否", "required"),
        ("是否必选", "输入", "否", "optional"),
        ("是否必选", "输入", "是", "required"),
        ("说明", "可选输入", "-", "optional"),
    ],
)
def test_columns_state_optional_parameters(title, direction, cell, option):
    lines = TABLE.splitlines()
    rows = [lines[0] + f" {title} |", lines[1] + "---|", *(f"{line} {cell} |" for line in lines[2:])]
    text = DECLARATION + "\n".join(rows).replace("| x | 输入", f"| x | {direction}")
    assert drafts(text, "page.md")[0].inputs[0].option == option


def test_the_text_of_a_row_with_a_rule_is_a_comment():
    draft = page(axis_text="取值范围为[0, 3]。必须能整除x的维度。")
    assert [rule.text for rule in draft.rules] == ["x: 2-4", "axis: 取值范围为[0, 3]"]
    assert any("最后一维必须是8的倍数" in text for text in notes(draft))
    assert any("必须能整除x的维度" in text for text in notes(draft))


def test_dtypes_with_conditions_are_a_comment():
    draft = page(x_dtype="FLOAT、BFLOAT16（Atlas 训练系列产品不支持BFLOAT16）")
    assert draft.inputs[0].dtypes == draft.outputs[0].dtypes == ("float32", "bfloat16")
    limit = "dtypes of x: the draft has float32, bfloat16, without the conditions of the text: FLOAT、BFLOAT16（"
    assert [text[: len(limit)] for text in notes(draft) if text.startswith("dtypes of")] == [limit]


def test_footnotes_bars_and_comments_of_html_are_no_dtypes():
    draft = page(x_dtype="FLOAT16<sup>2</sup>、INT8<sup>1</sup>", weight_text=r"a \| b", weight_dtype="INT8")
    assert [tensor.dtypes for tensor in draft.inputs] == [("float16", "int8"), ("int8",)]
    html = "<table><tr><td>参数名</td><td>输入/输出</td><td>描述</td><td>说明</td><td>数据类型</td></tr>"
    html += "<tr><td>x</td><td>输入</td><td colspan=2>两列</td><td>INT8</td></tr></table>"
    old = f"<!--\n{TABLE}-->\n"
    (draft,) = drafts(DECLARATION + old + html, "page.md")
    assert draft.inputs[0].dtypes == ("int8",)


def test_scripts_and_highlighted_words_of_html(tmp_path):
    words = DECLARATION.partition("```cpp\n")[2].partition("```")[0].replace("const", "<span>const</span>")
    words = words.replace("*x", "&#42;x").replace("aclnnGateGet", '<a href="x">aclnnGate</a>Get')
    script = '<script>text = "aclnnOtherGetWorkspaceSize(const aclTensor *x, workspaceSize)"</script>'
    (draft,) = drafts(f"<html>{script}<style>p {{ }}</style><pre>{words}</pre>{TABLE}</html>", "page.html")
    assert (draft.function, [tensor.name for tensor in draft.tensors]) == ("aclnnGate", ["x", "weight", "out"])
    assert not [text for text in notes(draft) if "{" in text or "workspaceSize" in text]


def test_tables_of_other_functions_are_comments():
    other = DECLARATION.replace("Gate", "InplaceGate") + TABLE.replace("FLOAT ", "INT8 ")
    (draft,) = drafts(DECLARATION + TABLE + other, "page.md")
    assert (draft.function, draft.inputs[0].dtypes) == ("aclnnGate", ("float32",))
    assert "function aclnnInplaceGate: the draft has the first function of the page, aclnnGate" in notes(draft)
    (draft,) = drafts(other + DECLARATION + TABLE, "page.md")
    assert (draft.function, draft.inputs[0].dtypes) == ("aclnnInplaceGate", ("int8",))
    assert any(text.startswith("other description of x: 输入") for text in notes(draft))


@pytest.mark.parametrize(
    ("row", "products", "comment"),
    [
        ("<term>Atlas A2 训练系列产品</term> | √", ("ascend910b",), ""),
        ("Atlas A2 training series | Yes", ("ascend910b",), ""),
        ("Atlas A2 训练系列产品 | ×", (), ""),
        ("Atlas A2 训练系列产品 | -", (), ""),
        ("Atlas A2 | √（仅FLOAT）", ("ascend910b",), "product Atlas A2: √（仅FLOAT）"),
        ("Atlas A2 训练系列产品 | 支持FLOAT", (), "product Atlas A2 训练系列产品: 支持FLOAT"),
        ("Kirin X90 处理器系列产品 | √", (), "product Kirin X90 处理器系列产品: √"),
        ("Atlas A2 | √ | 仅FLOAT", ("ascend910b",), "product Atlas A2: √ | 仅FLOAT"),
        ("Atlas A2 | √ | ", ("ascend910b",), ""),
    ],
)
def test_products_are_marked(row, products, comment):
    draft = page(after=f"\n| 产品 | 是否支持 |\n|---|---|\n| {row} |\n")
    assert draft.products == products
    assert [text for text in notes(draft) if text.startswith("product ")] == ([comment] if comment else [])


def test_a_sentence_about_a_product_marks_no_support():
    sentences = "- <term>Atlas A2 训练系列产品</term>：支持 FLOAT16\n- <term>Atlas A3 训练系列产品</term>：支持。\n"
    draft = page(after=sentences)
    assert draft.products == ("ascend910_93",)
    assert "- Atlas A2 训练系列产品：支持 FLOAT16" in notes(draft)


def test_each_line_of_prose_is_a_comment():
    text = "\n## 约束说明\n- 行数不超过4096。\n### 细节\n<p>weight必须为正。</p>\n"
    text += "| a | b |\n|---|---|\n| 1 | x不能为空 |\n```\nint code = 1;\n```\n"
    text += "## 补充\n列数为偶数。\n## 调用示例\n示例代码如下。\n"
    found = notes(page(after=text))
    assert {"- 行数不超过4096。", "weight必须为正。", "1 | x不能为空", "列数为偶数。"} <= set(found)
    assert not [text for text in found if "code" in text or "示例代码" in text]


def test_the_test_call_follows_the_rules(tmp_path):
    draft = page(x_ranks="3-5", weight_ranks="1", axis_text="取值范围为[2, 3]。")
    write_project([draft], tmp_path / "made")
    (spec,) = load_specs([tmp_path / "made" / "op_proto" / "gate.yaml"])
    assert spec.tests.shapes[0].symbols == {"S1": (4, 8, 4), "S2a": 4}
    assert spec.tests.shapes[0].attrs == {"axis": 2}


def test_a_parameter_with_the_name_of_another_one_is_a_comment(tmp_path):
    text = DECLARATION.replace("*weight, int64_t axis", "*x, int64_t x, const aclTensor *weight") + TABLE
    write_project(drafts(text, "page.md"), tmp_path / "made")
    file = tmp_path / "made" / "op_proto" / "gate.yaml"
    (spec,) = load_specs([file])
    assert ([tensor.name for tensor in spec.tensors], spec.attrs) == (["x", "weight", "out"], ())
    comment = "parameter x: another parameter has this name, so the draft does not have it"
    assert file.read_text("utf-8").count(comment) == 2


@pytest.mark.parametrize("part", ["<span " + "a" * 900, "<" + "a" * 900, "<" * 900, "<p>", "<script>", "<!--"])
def test_tags_without_an_end_take_no_quadratic_time(part):
    started = time.process_time()
    (draft,) = drafts(f"{DECLARATION}{TABLE}{part * (400_000 // len(part))}", "page.md")
    assert draft.inputs[0].dtypes == ("float32",)
    assert time.process_time() - started < 20


def test_lines_of_a_page_in_one_line_of_html():
    table = "<table><tr><th>参数名</th><th>输入/输出</th></tr><tr><td>x</td><td>输入</td></tr></table>"
    words = DECLARATION.partition("```cpp\n")[2].partition("```")[0].replace("\n", " ")
    html = f"<h1>aclnnGate</h1><p>缩放。</p><pre>{words}</pre>{table}<h2>约束说明</h2><ul><li>行数不超过8。</li></ul>"
    (draft,) = drafts(f"<html><body>{html}<h2>调用示例</h2><p>示例。</p></body></html>", "page.html")
    assert [text for text in notes(draft) if not text.startswith("parameter")] == ["缩放。", "行数不超过8。"]


def test_comments_in_a_declaration_may_have_parentheses():
    text = DECLARATION.replace("*x,", "*x, // the input (required)\n") + TABLE
    assert [tensor.name for tensor in drafts(text, "page.md")[0].tensors] == ["x", "weight", "out"]
    with pytest.raises(UserError, match="the page has no declaration"):
        drafts("aclnnGateGetWorkspaceSize(f(x), workspaceSize)", "page.md")
    with pytest.raises(UserError, match=r"its declaration lacks 'uint64_t \*workspaceSize'"):
        drafts("ret = aclnnGateGetWorkspaceSize(x, out, &workspaceSize, &executor);", "page.md")
