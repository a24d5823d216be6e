"""Test that one run reports the errors of every stage of reading a spec."""

import pytest

from opforge.codegen.spec.loader import SpecError, load_specs


def test_spelling_names_and_semantics_are_checked_together(root, tmp_path):
    text = (root / "op_proto" / "grouped_bias_add_grad.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("bfloat16, float32]", "bfloat61, float32]"),
        ("optional: true", "optionl: true"),
        ("or G <= 2048", "or GG <= 2048"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    spec = tmp_path / "grouped_bias_add_grad.yaml"
    spec.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as refused:
        load_specs([spec])[0]
    for hint in ("did you mean 'bfloat16'?", "did you mean 'optional'?", "did you mean 'G'?"):
        assert hint in str(refused.value)
