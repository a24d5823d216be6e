"""Test the statements of a source that `import --check` does not compare."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opforge.codegen.importers.compare import not_compared
from opforge.codegen.importers.sources import read_file

pytest.importorskip("tree_sitter_cpp", reason="tree-sitter-cpp is not installed: pip install 'opforge[import]'")

OPFORGE = str(Path(sys.executable).with_name("opforge"))
OP_DEF = """
class Negate : public OpDef {
public:
    explicit Negate(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        OpAICoreConfig config;
        config.Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(Negate);
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        ("FORMAT_ND});\n        this->Output", "FORMAT_NCHW});\n        this->Output", ["x: storage formats NCHW;"]),
        ("AICore()", "AICPU()", ["configuration of AICPU for ascend910b"]),
        ('("ascend910b")', '("ascend910b", config)', ["ascend910b has other dtypes of Input x: {ge::DT_FLOAT}"]),
    ],
)
def test_planted_changes_that_no_spec_can_express_are_printed(old, new, expected, tmp_path):
    source = tmp_path / "negate_def.cpp"
    source.write_text(OP_DEF)
    made = subprocess.run(
        [OPFORGE, "import", source, "-o", "made"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    source.write_text(OP_DEF.replace(old, new, 1))
    (draft,) = read_file(source)
    lines = not_compared(draft)
    assert len(lines) == len(expected)
    assert all(part in line for part, line in zip(expected, lines, strict=True)), lines
    command = [OPFORGE, "import", "--check", "made/op_proto/negate.yaml", source]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert [line for line in result.stdout.splitlines() if line.startswith("not compared: ")] == [
        f"not compared: {line}" for line in lines
    ]
