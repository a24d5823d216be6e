"""Define the kernel binaries of an operator, and the lists that CANN's programs use to find them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

# A kernel is compiled for all values of its attributes; opc needs an example value of the correct type.
ANY_VALUE: Mapping[str, Any] = {
    "int": 0,
    "float": 0.0,
    "bool": False,
    "str": "",
    "listInt": [],
    "listFloat": [],
    "listBool": [],
}
CORE_TYPES = {"MIX": 0, "AiCore": 1, "VectorCore": 2, "MIX_AICORE": 3, "MIX_VECTOR_CORE": 4, "MIX_AIV": 4}
# Fields of a kernel description that the list of its operator repeats.
_LISTED = (
    "implMode",
    "int64Mode",
    "simplifiedKeyMode",
    "simplifiedKey",
    "optionalInputMode",
    "optionalOutputMode",
    "dynamicParamMode",
    "staticKey",
    "inputs",
    "outputs",
    "attrs",
    "opMode",
    "deterministic",
)
_FORMAT_MODES = {"FormatDefault": "nd_agnostic", "FormatAgnostic": "static_nd_agnostic", "FormatFixed": "normal"}


class KernelError(Exception):
    """The output of opc cannot be listed."""


class Kernel(NamedTuple):
    """One binary: an operator with one dtype per tensor, for one architecture.

    Attributes:
        op_file: Stem of the files of the operator.
        name: Stem of the binary.
        chip: The chip that opc compiles for.
        socs: The SoC directories that receive the binary.
        parameters: The input of opc.
    """

    op_file: str
    name: str
    chip: str
    socs: Sequence[str]
    parameters: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """Return the operator, its dtype column and the SoC directories as text for messages."""
        (node,) = self.parameters["op_list"]
        column = ", ".join(f"{tensor['name']} {tensor['dtype']}" for tensor in [*node["inputs"], *node["outputs"]])
        return f"{self.parameters['op_type']} for {', '.join(self.socs)}, dtype column ({column})"


def kernels_of(operators: Mapping[str, Mapping[str, Any]], chips: Mapping[str, Sequence[str]]) -> Sequence[Kernel]:
    """Return the binaries of a package; SoCs of one architecture share them.

    Args:
        operators: SoC directory -> operator type -> entry of aic-<soc>-ops-info.json.
        chips: SoC directory -> architecture of its cores and the chip that represents it in opc. The first chip of an
            architecture is the one that most toolkits support.
    """
    architectures = sorted({chips[soc][0] for soc in operators})
    found = []
    for architecture in architectures:
        socs = [soc for soc in sorted(operators) if chips[soc][0] == architecture]
        for op_type in sorted({op_type for soc in socs for op_type in operators[soc]}):
            own = [soc for soc in socs if op_type in operators[soc]]
            entry = operators[own[0]][op_type]
            for parameters in parameters_of(op_type, entry):
                name = parameters["op_list"][0]["bin_filename"]
                chip = next(chip for soc, (_, chip) in chips.items() if soc in own)
                found.append(Kernel(entry["opFile"]["value"], name, chip, own, parameters))
    return found


def parameters_of(op_type: str, entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return one text for opc per column of dtypes; optional tensors do not select a binary."""
    found, keys = [], set()
    for column in range(len(entry["input0"]["dtype"].split(","))):
        inputs = _tensors(entry, "input", column)
        outputs = _tensors(entry, "output", column)
        key = tuple((t["dtype"], t["format"]) for t in [*inputs, *outputs] if t["paramType"] == "required")
        if key in keys:
            continue
        keys.add(key)
        names = [name for name in entry.get("attr", {}).get("list", "").split(",") if name]
        types = [(name, entry["attr_" + name]["type"]) for name in names]
        node = {"bin_filename": "", "inputs": inputs, "outputs": outputs}
        if types:
            node["attrs"] = [{"name": name, "dtype": kind, "value": ANY_VALUE[kind]} for name, kind in types]
        parameters = {"op_type": op_type, "op_list": [node]}
        digest = hashlib.md5(json.dumps(parameters).encode()).hexdigest()  # noqa: S324  # a name, no protection
        node["bin_filename"] = op_type + "_" + digest
        found.append(parameters)
    return found


def _tensors(entry: Mapping[str, Any], kind: str, column: int) -> Sequence[Mapping[str, Any]]:
    tensors: list[Mapping[str, Any]] = []
    while kind + str(len(tensors)) in entry:
        fields = entry[kind + str(len(tensors))]
        tensors.append(
            {
                "name": fields["name"],
                "index": len(tensors),
                "dtype": fields["dtype"].split(",")[column],
                "format": fields["format"].split(",")[column],
                "paramType": fields["paramType"],
                "shape": [-2],
                "format_match_mode": "FormatAgnostic",
            }
        )
    return tensors


def described(written: Mapping[str, Any], soc: str, op_file: str) -> Mapping[str, Any]:
    """Return the description that opc wrote for a kernel, with its path in the package.

    Raises:
        KernelError: A field for the lists is missing.
    """
    name = written.get("binFileName")
    support = written.get("supportInfo")
    if not name or not isinstance(support, dict) or not isinstance(support.get("simplifiedKey"), list):
        raise KernelError(f"{op_file}: opc wrote no binFileName or no list simplifiedKey, expected both")
    if written.get("coreType") not in list(CORE_TYPES):
        raise KernelError(f"{name}: opc wrote coreType {written.get('coreType')!r}, expected one of {list(CORE_TYPES)}")
    return {**written, "filePath": f"{soc}/{op_file}/{name}.json"}


def operator_list(soc: str, op_file: str, kernels: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return kernel/config/<soc>/<op>.json. The functions of the operator use it to find the binaries."""
    entries = []
    for kernel in kernels:
        support = kernel["supportInfo"]
        entry = {key: support[key] for key in _LISTED if key in support}
        entry["binInfo"] = {"jsonFilePath": f"{soc}/{op_file}/{kernel['binFileName']}.json"}
        entries.append(entry)
    return {"binList": entries}


def soc_list(soc: str, kernels: Mapping[str, Sequence[Mapping[str, Any]]]) -> Mapping[str, Any]:
    """Return kernel/config/<soc>/binary_info_config.json. The runtime uses it to find the binaries of all operators.

    Args:
        soc: SoC directory.
        kernels: Stem of the files of the operator -> descriptions of its kernels.
    """
    operators: dict[str, Any] = {}
    for op_file in sorted(kernels):
        for kernel in kernels[op_file]:
            support, name = kernel["supportInfo"], kernel["binFileName"]
            # An operator type contains no '_', so it ends before the digest.
            entry = operators.setdefault(name.split("_")[0], _operator(support))
            binary = {"coreType": CORE_TYPES[kernel["coreType"]], "simplifiedKey": support["simplifiedKey"]}
            if binary["coreType"] == CORE_TYPES["MIX"] and kernel.get("taskRation") == "tilingKey":
                binary["multiKernelType"] = 1
            binary["binPath"] = f"{soc}/{op_file}/{name}{kernel.get('binFileSuffix', '.o')}"
            binary["jsonPath"] = f"{soc}/{op_file}/{name}.json"
            entry["binaryList"].append(binary)
    return operators


def _operator(support: Mapping[str, Any]) -> Mapping[str, Any]:
    entry: dict[str, Any] = {"dynamicRankSupport": True}
    modes = ("simplifiedKeyMode", "optionalInputMode", "optionalOutputMode")
    entry.update({key: support[key] for key in modes if support.get(key) is not None})
    entry["params"] = {kind: [_parameter(p) for p in support.get(kind) or ()] for kind in ("inputs", "outputs")}
    if support.get("attrs") is not None:
        entry["params"]["attrs"] = [
            {key: attr[key] for key in ("name", "mode") if attr.get(key) is not None} for attr in support["attrs"]
        ]
    entry["binaryList"] = []
    return entry


def _parameter(tensor: Any) -> Any:
    """Return a tensor of a kernel description in the form of the SoC list; a dynamic tensor is a list with one item."""
    if isinstance(tensor, list):
        return [_parameter(tensor[0])]
    dtype_mode = tensor.get("dtype_match_mode")
    format_mode = tensor.get("format_match_mode")
    fields = {
        "name": tensor.get("name"),
        "index": tensor.get("index"),
        "paramType": tensor.get("paramType"),
        "dtypeMode": "bit" if dtype_mode == "DtypeByte" else dtype_mode,
        "formatMode": _FORMAT_MODES.get(format_mode, format_mode),
    }
    return {key: value for key, value in fields.items() if value is not None}
