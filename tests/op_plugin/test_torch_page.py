"""Run the code and the commands of the pages about PyTorch."""

import re
import shlex
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from opforge.cli.main import app

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'opforge[torch]'")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install onnxscript")
import opforge.torch

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "use-from-pytorch.md"
# Deprecations inside of PyTorch.
pytestmark = pytest.mark.filterwarnings("default")


class Model(torch.nn.Module):
    """A loss with the gradient of an embedding."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(9, 4)

    def forward(self, ids):
        return torch.autograd.grad(self.table(ids).square().sum(), self.table.weight)[0]


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    model, inputs = Model(), (torch.arange(6),)
    names = {"model": model, "inputs": inputs}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(block, names)  # noqa: S102  # the page tells the reader to run it
    assert [entry.op for entry in names["report"].mapped] == ["EmbeddingDenseBackward"]
    assert [node.op_type for node in names["onnx_model"].graph.node if node.domain] == ["EmbeddingDenseBackward"]
    torch.export.save(torch.export.export(model, inputs, strict=False), tmp_path / "model.pt2")
    commands = re.findall(r"opforge convert [^`\n]+", page)
    assert len(commands) == 3
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, result.output
    assert [function.name for function in onnx.load("converted.onnx").functions] == ["EmbeddingDenseBackward"]
    assert Path("model.onnx").read_bytes() == Path("converted.onnx").read_bytes()
    trained = torch.nn.Embedding(9, 4)
    step = torch.compile(trained, backend="opforge", options={"patterns": True})
    step(inputs[0]).square().sum().backward()
    torch.testing.assert_close(trained.weight.grad[:6], 2 * trained.weight.detach()[:6])


def test_a_node_of_a_program_is_imported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = torch.export.export(torch.nn.Softmax(-1), (torch.ones(2, 3),), strict=False)
    torch.export.save(program, "model.pt2")
    result = CliRunner().invoke(app, ["import", "model.pt2", "--node", "Softmax"])
    assert result.exit_code == 0, result.output
    assert "softmax: [S1a, S1b]" in Path("softmax/op_proto/softmax.yaml").read_text(encoding="utf-8")


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```\n(import torch\n.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    opforge.torch.take_reports()  # of other tests
    exec(block, names)  # noqa: S102  # the page tells the reader to run it
    assert names["grad_bias"].tolist() == [[3.0] * 4, [4.0] * 4, [3.0] * 4]
    reports = opforge.torch.take_reports()
    assert [entry.op for report in reports for entry in report.mapped] == ["EmbeddingDenseBackward"]
    assert names["model"].weight.grad[:, 0].tolist() == [1.0] * 6 + [0.0] * 3
