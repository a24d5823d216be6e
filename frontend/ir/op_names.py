"""Define the names of custom operators in ONNX models: the keys that the generated plugins register."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opforge.codegen.errors import UserError
from opforge.codegen.spec.names import nearest

from .scope import normal_domain

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

OPFORGE_DOMAIN = "opforge"
NPU_DOMAIN = "npu"
# Of our types in the domains of others.
NPU_PREFIX = "NPU"
DOMAINS = ("opforge", "npu", "ai.onnx")


@dataclass(frozen=True)
class OnnxKey:
    """One spelling of an operator.

    Attributes:
        domain: "" for ai.onnx.
        op_type: Type of the node.
        versions: Opset versions of the domain at which the spelling exists.
    """

    domain: str
    op_type: str
    versions: range

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}::{self.op_type}"


def onnx_key(spec: OpSpec, domain: str) -> OnnxKey:
    """Return the spelling of an operator in one of `DOMAINS`.

    Raises:
        UserError: There is no such domain.
    """
    match normal_domain(domain):
        case "opforge":
            return OnnxKey(OPFORGE_DOMAIN, spec.op_type, range(1, 2))
        case "npu":
            return OnnxKey(NPU_DOMAIN, f"{NPU_PREFIX}{spec.op_type}", range(1, 2))
        case "":
            return OnnxKey("", f"{NPU_PREFIX}{spec.op_type}", range(8, 23))
    raise UserError(f"--domain: got {domain!r}, expected one of {', '.join(DOMAINS)}")


def onnx_keys(spec: OpSpec) -> tuple[OnnxKey, ...]:
    """Return all spellings of an operator."""
    return tuple(onnx_key(spec, domain) for domain in DOMAINS)


def source_keys(spec: OpSpec) -> tuple[OnnxKey, ...]:
    """Return the spellings under which models may bring an operator: our own, and names that others gave it."""
    others = (alias.split("::") for alias in spec.onnx.aliases)
    return (*onnx_keys(spec), *(OnnxKey(domain, name, range(1, 2)) for domain, name in others))


def suggestion(domain: str, op_type: str, specs: Collection[OpSpec]) -> str:
    """Return a suggestion for a misspelled custom node; "" for a correct name, and for nodes of other domains."""
    is_meant = domain in {OPFORGE_DOMAIN, NPU_DOMAIN} or (not domain and op_type.startswith(NPU_PREFIX))
    if not is_meant or any((domain, op_type) == (key.domain, key.op_type) for s in specs for key in source_keys(s)):
        return ""
    spelled = {key.op_type: str(key) for key in (onnx_key(spec, domain) for spec in specs)}
    near = nearest(op_type, spelled)
    return f"did you mean {spelled[near]}?" if near else f"expected one of {', '.join(spelled.values())}"


def version_problem(key: OnnxKey, opsets: Mapping[str, int]) -> str:
    """Explain why a key is not allowed with these opset imports; "" if it is allowed, or its domain is not imported."""
    version = opsets.get(key.domain)
    if version is None or version in key.versions:
        return ""
    expected = f"{key.versions.start}" if len(key.versions) == 1 else f"{key.versions.start} to {key.versions.stop - 1}"
    return f"the model imports {key.domain or 'ai.onnx'} {version}, expected {expected} for {key}"
