"""Define the names of custom operators in ONNX models: the keys that the generated plugins register."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from opforge.codegen.data.names import nearest
from opforge.codegen.errors import UserError
from opforge.codegen.views.facts import NPU_DOMAIN, NPU_PREFIX, OPFORGE_DOMAIN, OnnxKey, onnx_keys, source_keys

from .reason import Reason
from .scope import normal_domain

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

__all__ = [
    "DOMAINS",
    "NPU_DOMAIN",
    "NPU_PREFIX",
    "OPFORGE_DOMAIN",
    "OnnxKey",
    "check_domain",
    "onnx_key",
    "onnx_keys",
    "source_keys",
    "suggestion",
    "version_problem",
]
DOMAINS = (OPFORGE_DOMAIN, NPU_DOMAIN, "ai.onnx")


def onnx_key(spec: OpSpec, domain: str) -> OnnxKey:
    """Return the spelling of an operator in one of `DOMAINS`."""
    return next(key for key in onnx_keys(spec) if key.domain == normal_domain(domain))


def check_domain(domain: str) -> None:
    """Check the name of a domain.

    Raises:
        UserError: The domain does not exist.
    """
    if domain not in DOMAINS:
        raise UserError(f"--domain: got {domain!r}, expected one of {', '.join(DOMAINS)}")


def suggestion(domain: str, op_type: str, specs: Collection[OpSpec]) -> str:
    """Return a suggestion for a misspelled custom node; "" for a correct name, and for nodes of other domains."""
    is_meant = domain in {OPFORGE_DOMAIN, NPU_DOMAIN} or (not domain and op_type.startswith(NPU_PREFIX))
    if not is_meant or any((domain, op_type) == (key.domain, key.op_type) for s in specs for key in source_keys(s)):
        return ""
    for spec in specs:
        if not spec.outputs and op_type.removeprefix(NPU_PREFIX) == spec.op_type:
            return f"{spec.op_type} has no outputs, so models cannot contain it; call its aclnn function"
    spelled = {spec.op_type: str(onnx_key(spec, domain)) for spec in specs if spec.outputs}
    near = nearest(op_type.removeprefix(NPU_PREFIX), spelled)
    return f"did you mean {spelled[near]}?" if near else f"expected one of {', '.join(spelled.values())}"


def version_problem(key: OnnxKey, opsets: Mapping[str, int]) -> Reason | None:
    """Return why opset imports do not allow a key; None if they allow it, or its domain is not imported."""
    version = opsets.get(key.domain)
    if version is None or version in key.versions:
        return None
    expected = f"{key.versions.start}" if len(key.versions) == 1 else f"{key.versions.start} to {key.versions.stop - 1}"
    return Reason(f"the model imports {key.domain or 'ai.onnx'} {version}, expected {expected} for {key}")
