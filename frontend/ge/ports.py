"""Name the ports of custom operators in graphs of GE: the tensors of a list `x` have the ports `x0`, `x1` and so on."""

from __future__ import annotations

from collections.abc import Sequence

from opforge.codegen.expr.tree import element_name
from opforge.codegen.spec.call import parameter_of
from opforge.codegen.spec.parts import TensorSpec


def port_of(tensors: Sequence[TensorSpec], name: str) -> str:
    """Return the port of a tensor; `x[1]` is a tensor of the list `x`."""
    tensor = next(tensor for tensor in tensors if tensor.name == parameter_of(name))
    return tensor.ir_name + name.removeprefix(tensor.name).strip("[]")


def tensors_of(tensors: Sequence[TensorSpec], ports: Sequence[str]) -> list[str] | None:
    """Return the tensor of each port; None if a port is unknown, or a list has other indices than 0, 1 and so on."""
    single = {tensor.ir_name: tensor.name for tensor in tensors if not tensor.dynamic}
    counts = {tensor.ir_name: 0 for tensor in tensors if tensor.dynamic}
    names = {tensor.ir_name: tensor.name for tensor in tensors}
    found = []
    for port in ports:
        of = next((list_ for list_, count in counts.items() if port == f"{list_}{count}"), None)
        if port not in single and of is None:
            return None
        found.append(single[port] if port in single else element_name(names[of or ""], counts[of or ""]))
        if port not in single:
            counts[of or ""] += 1
    return found
