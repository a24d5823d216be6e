"""Write `aic-<soc>-ops-info.json`: operators, dtypes and attributes of a package, for the graph engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opforge.codegen.data.dtypes import DTYPES

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec
    from opforge.codegen.spec.parts import AttrSpec

Fields = dict[str, str]

# The same values as in the generated operator definition, for every SoC.
FLAGS = {
    "dynamicCompileStatic": "true",
    "dynamicFormat": "true",
    "dynamicRankSupport": "true",
    "dynamicShapeSupport": "true",
    "needCheckSupport": "false",
    "precision_reduce": "true",
}


def ops_info_text(specs: Iterable[OpSpec], columns: Mapping[str, Mapping[str, tuple[str, ...]]]) -> str:
    """Return the file for the operators of one SoC; `columns[op_type][tensor]` has one dtype word per combination."""
    entries = {spec.op_type: ops_info_entry(spec, columns[spec.op_type]) for spec in specs}
    return json.dumps(entries, indent=4) + "\n"


def ops_info_entry(spec: OpSpec, columns: Mapping[str, tuple[str, ...]]) -> dict[str, Fields]:
    """Return one operator: key -> field -> value. All values are texts; lists are comma-separated columns."""
    entry: dict[str, Fields] = {}
    for kind, tensors in (("input", spec.inputs), ("output", spec.outputs)):
        for index, tensor in enumerate(tensors):
            dtypes = columns[tensor.name]
            formats = ",".join("ND" for _ in dtypes)
            entry[f"{kind}{index}"] = {
                "name": tensor.ir_name,
                "dtype": ",".join(DTYPES[dtype].ops_info or dtype for dtype in dtypes),
                "format": formats,
                "unknownshape_format": formats,
                "shape": "all",
                "paramType": "optional" if tensor.optional else "required",
            }
            if tensor.host_values or tensor.value_depend:
                entry[f"{kind}{index}"]["valueDepend"] = "optional" if tensor.optional else "required"
    if spec.attrs:
        entry["attr"] = {"list": ",".join(attr.ir_name for attr in spec.attrs)}
        entry |= {f"attr_{attr.ir_name}": _attr_fields(attr) for attr in spec.attrs}
    entry["opFile"] = {"value": spec.name}
    entry["opInterface"] = {"value": spec.name}
    entry |= {flag: {"flag": value} for flag, value in FLAGS.items()}
    entry["prebuildPattern"] = {"value": "Opaque"}
    entry["coreType"] = {"value": "AiCore"}
    return entry


def _attr_fields(attr: AttrSpec) -> Fields:
    fields = {"type": attr.kind.cann, "value": "all"}
    if attr.default is None:
        return fields | {"paramType": "required"}
    default = attr.default if isinstance(attr.default, str) else json.dumps(attr.default)
    return fields | {"paramType": "optional", "defaultValue": default}
