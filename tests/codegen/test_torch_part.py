"""Test the checks of `torch.names` and `torch.forward` in specs."""

from pathlib import Path

import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.spec.loader import load_specs

SPEC = Path(__file__).resolve().parent.parent.parent / "op_proto" / "grouped_bias_add_grad.yaml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    result: grad_y", "    result: grad_x", "torch.forward.result: got 'grad_x'"),
        ("like: grad_bias,", "like: grad_bia,", "torch.forward.inputs[1].like: got 'grad_bia'"),
        ("gradient: grad_bias}", "gradient: grad}", "torch.forward.inputs[1].gradient: got 'grad'"),
        (
            "    attrs: [group_idx_type]\n    result",
            "    attrs: [kind]\n    result",
            "torch.forward.attrs[0]: got 'kind'",
        ),
        ("    result: grad_y", "    result: grad_y\n    shape: [Q, H]", "got 'Q', which no input has as a dimension"),
        ("    result: grad_y", "    result: group_idx", "'grad_y' is missing, expected it as 'like'"),
        ("torch:\n", "torch:\n  names: {grad: g}\n", "unknown input 'grad'"),
    ],
)
def test_a_wrong_forward_operator_is_refused(tmp_path, old, new, message):
    text = SPEC.read_text(encoding="utf-8")
    assert old in text
    if "missing" in message:
        text = text.replace(
            "{name: x, like: grad_y, gradient: grad_y}", "{name: x, like: grad_bias, gradient: grad_bias}"
        )
    path = tmp_path / SPEC.name
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_specs([path])
    assert message in str(error.value).replace(": ", ": ")
