"""Test that generated and shared host code uses only headers and names of both generations of CANN."""

import re

import pytest

from opforge.codegen.render import render
from opforge.twin.lint.cann_api import api, in_both, known_names

# The base header of aclnn functions is part of every toolkit.
BASE_HEADERS = {"aclnn/aclnn_base.h"}
STANDARD = re.compile(r"<[a-z_.]+>")
QUALIFIED = re.compile(r"\b(gert|ge|ops|op|AscendC|l0op|platform_ascendc|domi)::(\w+)(?:::(\w+))?")
MACRO = re.compile(
    r"\b((?:OP|L0|L2|DFX|CHECK|IMPL_OP|REG|REGISTER|INFER|ADD|CREATE|KERNEL|TILING|GET_TILING)_[A-Z0-9_]+)\b"
)
CALL = re.compile(r"(?:->|\.)([A-Z]\w+)\(")


@pytest.fixture(scope="module")
def entries():
    return [entry for section in ("kernel", "host", "aclnn_l2", "acl") for entry in api()[section]]


def known_values(entries):
    values = {}
    for entry in entries:
        for value in entry.get("values") or []:
            if in_both(value):
                values.setdefault(entry["name"], set()).add(value["name"].split("::")[-1])
    return values


def known_members(entries):
    """Return the types that a class declares, as they occur in parameters of its methods."""
    members = {}
    for entry in entries:
        for method in entry.get("methods") or []:
            for parameter in method["params"] if in_both(method) else ():
                words = re.findall(r"\w+", parameter["type"])
                members.setdefault(entry["name"], set()).update(words)
    return members


def known_methods(entries):
    return {method["name"] for entry in entries for method in entry.get("methods") or [] if in_both(method)}


def sources(specs, root):
    for spec in specs:
        for path, text in render(spec):
            if path.endswith((".h", ".cpp")):
                yield f"{spec.name}: {path}", text, {name for name, _ in render(spec)}
    for path in sorted((root / "op_host" / "common").glob("*.h")):
        yield f"op_host/common/{path.name}", path.read_text(encoding="utf-8"), set()


def without_comments(text):
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', re.sub(r"//.*", "", text))


def test_includes_are_listed_standard_or_project_headers(operators, specimen, row_window, root, entries):
    headers = {entry["header"] for entry in entries} | BASE_HEADERS
    common = {f"common/{path.name}" for path in (root / "op_host" / "common").glob("*.h")}
    for place, text, files in sources((*operators.values(), specimen, row_window), root):
        own = {name.split("/")[1] for name in files} | common | {"onnx_node.h", "opforge_tables.h"}
        own |= {f"aclnnop/{name}" for name in own}
        own |= {f"{place.split(':')[0]}_tiling.h", f"{place.split(':')[0]}.h"}
        for include in re.findall(r'#include (["<][^">]+[">])', text):
            assert STANDARD.fullmatch(include) or include.strip('"') in headers | own, f"{place}: {include}"


def test_qualified_names_are_listed(operators, specimen, row_window, root, entries):
    names, values, members = known_names(entries), known_values(entries), known_members(entries)
    op_types = {spec.op_type for spec in (*operators.values(), specimen, row_window)}
    status = {value for entry in values.values() for value in entry}
    seen = set()
    for place, text, _ in sources((*operators.values(), specimen, row_window), root):
        for namespace, name, member in QUALIFIED.findall(without_comments(text)):
            if namespace == "domi" or (namespace == "l0op" and name in op_types):
                continue
            full = f"{namespace}::{name}"
            seen.add(full)
            assert full in names or name in status, f"{place}: {full} is in no list"
            if member:
                enumeration = full if full in values else full.replace("op::", "ge::")
                known = values.get(enumeration, set()) | members.get(full, set())
                assert member in known, f"{place}: {full}::{member}"
    assert {"gert::InferShapeContext", "gert::TilingContext", "AscendC::TPipe", "l0op::ViewCopy"} <= seen


def test_macros_and_status_codes_are_listed(operators, specimen, row_window, root, entries):
    names, values = known_names(entries), known_values(entries)
    known = names | {value for entry in values.values() for value in entry}
    for place, text, _ in sources((*operators.values(), specimen, row_window), root):
        for macro in MACRO.findall(without_comments(text)):
            is_task_type = macro.startswith("KERNEL_TYPE_")
            is_own = macro.startswith(("OPFORGE_", "OP_HOST_"))
            assert macro in known or is_task_type or is_own, f"{place}: {macro}"


def test_methods_are_listed(operators, specimen, row_window, root, entries):
    methods = known_methods(entries) | {
        "INPUT",
        "OPTIONAL_INPUT",
        "OUTPUT",
        "ATTR",
        "REQUIRED_ATTR",
        "OP_END_FACTORY_REG",
    }
    own = {
        "Init",
        "Process",
        "Value",
        "ValueOr",
        "IsTrue",
        "IsFalse",
        "IsError",
        "IsBroken",
        "IsKnown",
        "State",
        "IsNan",
    }
    # Of gert::AnchorInstanceInfo, which the list does not have.
    own |= {"GetInstanceNum", "GetInstanceStart"}
    own |= {
        "Name",
        "Key",
        "InputCount",
        "HasInput",
        "Has",
        "OnlyAttributes",
        "GetInt",
        "GetFloat",
        "GetString",
        "GetInts",
        "GetFloats",
    }
    for place, text, _ in sources((*operators.values(), specimen, row_window), root):
        for method in CALL.findall(without_comments(text)):
            assert method in methods | own, f"{place}: {method} is no method of both generations"
