"""Test that an error in the ONNX body of a spec is reported when the spec is read, not during a conversion."""

import pytest

from opforge.codegen.spec.loader import SpecError, load_specs


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("Where (is_length", "Wher (is_length", "did you mean 'Where'?"),
        ("Equal (kind, one)", "Equal (kin, one)", "did you mean 'kind'?"),
        ("Equal (kind, one)", "Equal (kind)", "got 1 inputs, expected 2 to 2"),
        ("Equal (kind, one)", "Equal (kind, one", "not an ONNX function body"),
        ("is_length = Equal", "kind = Equal", "defines 'kind' again"),
        ("@group_idx_type", "@group_type", "'group_type'"),
        ("<keepdims = 0> (wide", "<keepdim = 0> (wide", "did you mean 'keepdims'?"),
    ],
)
def test_error_in_a_body_has_its_position(root, tmp_path, old, new, named):
    text = (root / "op_proto" / "grouped_bias_add_grad.yaml").read_text(encoding="utf-8")
    assert text.count(old) == 1
    spec = tmp_path / "grouped_bias_add_grad.yaml"
    spec.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(SpecError) as refused:
        load_specs([spec])[0]
    (line,) = [line for line in str(refused.value).splitlines() if named in line]
    assert ": onnx.bodies." in line
    assert line.startswith(f"{spec}:")
