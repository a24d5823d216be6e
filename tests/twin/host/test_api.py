"""Compare the headers with the list of CANN's API: names, paths, parameters, results and numbers."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from opforge.twin.build import INCLUDE, TWIN, build_runtime, header_folders, include_flags

API: dict[str, list[dict[str, Any]]] = json.loads((TWIN / "cann_api.json").read_text(encoding="utf-8"))
ENTRIES = [entry for section in ("host", "aclnn_l2", "acl") for entry in API[section] if "8.1" in entry["generations"]]
# Each template is tested with one argument.
ARGUMENTS = {"gert::TypedContinuousVector": "int64_t"}

# Functions or overloads that the twin does not have: their use is a compile error that contains the name.
LACKING = {
    "graphs and parsers of other frameworks": {
        "DYNAMIC_GRAPH",
        "GRAPH",
        "domi::AutoMappingByOpFn",
        "domi::AutoMappingFn",
        "domi::OpRegistrationData::DelInputWithCond",
        "domi::OpRegistrationData::DelInputWithOriginalType",
        "domi::OpRegistrationData::FusionParseParamsFn",
        "domi::OpRegistrationData::GetFusionParseParamByOpFn",
        "domi::OpRegistrationData::GetFusionParseParamFn",
        "domi::OpRegistrationData::GetParseSubgraphPostFn",
        "domi::OpRegistrationData::InputReorderVector",
        "domi::OpRegistrationData::ParseSubgraphPostFn",
        "ge::Operator::AddControlInput",
        "ge::Operator::BreakConnect",
        "ge::Operator::GetInputConstData",
        "ge::Operator::SetInput",
        "ge::TensorDesc::GetConstData",
        "ge::TensorDesc::GetExpandDimsRule",
        "ge::TensorDesc::SetConstData",
        "ge::TensorDesc::SetExpandDimsRule",
        "ge::TensorDesc::SetReuseInputIndex",
    },
    "what only compilers of graphs read": {
        "IMPL_OP_DEFAULT",
        "gert::ExtendedKernelContext::GetComputeNodeInfo",
        "gert::ExtendedKernelContext::GetExtendInfo",
        "gert::OpImplRegisterV2::GenSimplifiedKey",
        "gert::OpImplRegisterV2::HostInputs",
        "gert::OpImplRegisterV2::OpExecuteFunc",
        "gert::OpImplRegisterV2::OutputShapeDependOnCompute",
        "gert::OpImplRegisterV2::TilingInputsDataDependency",
        "ops::OpAICoreDef::GetCheckSupport",
        "ops::OpAICoreDef::GetOpSelectFormat",
        "ops::OpAICoreDef::GetOpSpecInfo",
        "ops::OpAICoreDef::GetOpSupportInfo",
        "ops::OpAICoreDef::GetParamGeneralize",
        "ops::OpAICoreDef::SetCheckSupport",
        "ops::OpAICoreDef::SetOpSelectFormat",
        "ops::OpAICoreDef::SetOpSpecInfo",
        "ops::OpAICoreDef::SetOpSupportInfo",
        "ops::OpAICoreDef::SetParamGeneralize",
        "ops::OpDef::MC2",
        "ops::OpMC2Def::HcclGroup",
        "ops::OpParamDef::InitValue",
        "ops::OpParamDef::OutputShapeDependOnCompute",
        "optiling::TilingDef::CheckAlignAndGenPlaceHolder",
        "optiling::TilingDef::GetFieldInfo",
    },
    "the inside of CANN's executor": {
        "aclOpExecutor::AddCache",
        "aclOpExecutor::AddTensorRelation",
        "aclOpExecutor::AddToKernelLauncherList",
        "aclOpExecutor::AddToKernelLauncherListAiCpu",
        "aclOpExecutor::AddToKernelLauncherListCopyTask",
        "aclOpExecutor::AddToKernelLauncherListDvpp",
        "aclOpExecutor::CheckLauncherRepeatable",
        "aclOpExecutor::DeleteCache",
        "aclOpExecutor::FinalizeCache",
        "aclOpExecutor::GetGraph",
        "aclOpExecutor::GetLinearWorkspaceSize",
        "aclOpExecutor::GetLogInfo",
        "aclOpExecutor::GetMagicNumber",
        "aclOpExecutor::GetOpConfigInfo",
        "aclOpExecutor::GetOpExecCache",
        "aclOpExecutor::GetStream",
        "aclOpExecutor::GetWorkspaceAddr",
        "aclOpExecutor::GetWorkspaceOffsets",
        "aclOpExecutor::RepeatRunWithCache",
        "aclOpExecutor::Run",
        "aclOpExecutor::SetIOTensorList",
        "aclOpExecutor::SetLogInfo",
        "aclOpExecutor::SetOpConfigInfo",
        "aclOpExecutor::SetStream",
        "aclOpExecutor::SetWorkspaceOffsets",
        "aclOpExecutor::UpdateStorageAddr",
        "aclOpExecutor::UpdateTensorAddr",
    },
    "attributes and buffers that no operator here has": {
        "aclTensor::GetExtend",
        "aclTensor::SetExtend",
        "gert::ContinuousVectorVector::GetOverHeadLength",
        "gert::OpImplRegisterV2::PrivateAttr",
        "gert::RuntimeAttrs::GetListListFloat",
        "gert::RuntimeAttrs::GetTensor",
        "gert::Tensor::CreateFollowing",
        "gert::TilingData::AppendConvertedAttrVal",
    },
    "outputs whose shapes only the kernel knows": {
        "OP_OUTSHAPE",
    },
    "what no public text says: how a workspace of the caller, an option or a mode reaches a kernel": {
        "OP_MODE",
        "OP_OPTION",
        "OP_WORKSPACE",
        "op::OpImplMode",
        "op::ToString",  # for OpImplMode and for SocVersion
    },
    "what no public text says: which dtypes are promoted and cast, what a view is picked from": {
        "OP_CHECK_RESULT_DTYPE_CAST_FAILED",
        "l0op::PickViewAsContiguous",
        "l0op::ReViewToOut",
        "op::CanCast",
        "op::PromoteType",
    },
    "arrays of half types, and figures of the device that no operator here asks for": {
        "aclOpExecutor::ConvertToTensor",
        "aclrtSetDeviceSatMode",
        "op::PlatformInfo::CheckSupport",
        "op::PlatformInfo::GetFftsPlusMode",
    },
}


def probes() -> Iterator[tuple[str, str]]:
    """Yield the name and one line of C++ that compiles only if the header matches the list."""
    for entry in ENTRIES:
        name, kind = entry["name"], entry["kind"]
        if kind == "macro":
            yield name, f"#ifndef {name}\n#error missing\n#endif"
        elif kind == "enum":
            yield from ((name, text) for text in enumerators(entry))
        elif kind == "function":
            for overload in (entry, *entry.get("overloads", [])):
                if not overload.get("template"):
                    yield name, pointer(name, overload, "*", name)
        elif kind == "class":
            for method in entry.get("methods", []):
                if "8.1" in method["generations"] and not method["template"] and "operator" not in method["name"]:
                    yield f"{name}::{method['name']}", member(name, method)


def enumerators(entry: dict[str, Any]) -> Iterator[str]:
    for value in entry["values"]:
        if "8.1" in value.get("generations", ["8.1"]):
            scope = "" if "::" in value["name"] or " " in entry["name"] else f"{entry['name']}::"
            yield f"static_assert(static_cast<long long>({scope}{value['name']}) == {value['number']});"


def pointer(scope: str, signature: dict[str, Any], kind: str, target: str) -> str:
    parameters = ", ".join(parameter["type"] for parameter in signature["params"] or [])
    using = f"using namespace {scope.rsplit('::', 1)[0]}; " if "::" in scope else ""
    const = " const" if signature.get("const") else ""
    return f"namespace PROBE {{ {using}{signature['returns']} ({kind}p)({parameters}){const} = &{target}; }}"


def member(name: str, method: dict[str, Any]) -> str:
    argument = ARGUMENTS.get(name)
    owner = f"{name}<{argument}>" if argument else name
    kind = "*" if method.get("static") else f"{owner}::*"
    code = pointer(name, method, kind, f"{owner}::{method['name']}")
    if argument:
        code = re.sub(r"\bT\b", argument, code)
    if name == "gert::OpImplRegisterV2":
        code = re.sub(r"(?<!:)\b(\w+Func)\b(?= *[,)])", rf"{name}::\1", code)
    return code


def _headers() -> set[str]:
    build_runtime()
    return {str(path.relative_to(folder)) for folder in header_folders() for path in folder.rglob("*.h")}


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names whose probes do not compile."""
    headers = sorted({entry["header"] for entry in ENTRIES} & _headers())
    lines = [f'#include "{header}"' for header in headers]
    owners = list(headers)
    for count, (name, code) in enumerate(probes()):
        for line in code.splitlines():
            lines.append(line.replace("PROBE", f"probe{count}"))
            owners.append(name)
    source = tmp_path_factory.mktemp("api") / "api.cpp"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ["g++", "-std=c++17", "-fsyntax-only", "-fmax-errors=0", *include_flags(), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return {owners[int(number) - 1] for number in re.findall(r"api\.cpp:(\d+):\d+: error", result.stderr)}


def test_every_name_agrees_with_the_list_or_is_a_known_gap(failing):
    assert failing == set().union(*LACKING.values())


def test_header_order_does_not_matter(tmp_path):
    names = sorted(_headers())
    names = [name for name in names if "kernel" not in name.split("/")[-2:][0] and name != "kernel_operator.h"]
    for order in (names, names[::-1]):
        source = tmp_path / "headers.cpp"
        source.write_text("".join(f'#include "{name}"\n' for name in order), encoding="utf-8")
        command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *include_flags(), str(source)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


def test_control_header_is_c(tmp_path):
    source = tmp_path / "control.c"
    source.write_text('#include "opforge_twin/control.h"\n', encoding="utf-8")
    command = ["gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
