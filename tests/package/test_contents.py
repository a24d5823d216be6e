"""Test the files that the package writer creates: ops-info JSON and the dynamic implementation."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import types

import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.views.facts import dtype_columns
from opforge.package.dynamic_impl import dynamic_impl_text
from opforge.package.manifest import lists
from opforge.package.ops_info import ops_info_text


@pytest.fixture(scope="module")
def entry(contents):
    columns = {spec.op_type: dtype_columns(spec) for spec in contents.specs}
    return json.loads(ops_info_text(contents.specs, columns))["GroupedBiasAddGrad"]


def test_every_operator_that_has_a_kernel_is_packed(contents, project):
    kernels = {path.stem for path in (project.root / "op_kernel").glob("*.h")}
    assert {spec.name for spec in contents.specs} == kernels


def leaves(value):
    return [leaf for item in value.values() for leaf in (leaves(item) if isinstance(item, dict) else [item])]


def test_ops_info_holds_texts_only(entry):
    assert all(isinstance(leaf, str) for leaf in leaves(entry))


def test_ops_info_lists_each_supported_combination_once(entry):
    columns = list(zip(*(entry[key]["dtype"].split(",") for key in ("input0", "input1", "output0")), strict=True))
    expected = {(dtype, index, dtype) for dtype in ("float16", "bfloat16", "float32") for index in ("int32", "int64")}
    assert set(columns) == expected
    assert len(columns) == len(expected)
    for key in ("input0", "input1", "output0"):
        assert entry[key]["format"].split(",") == ["ND"] * len(columns)
        assert entry[key]["unknownshape_format"] == entry[key]["format"]


def test_ops_info_names_parameters_of_the_ir(entry):
    names = {key: (entry[key]["name"], entry[key]["paramType"]) for key in ("input0", "input1", "output0")}
    assert names == {
        "input0": ("grad_y", "required"),
        "input1": ("group_idx", "optional"),
        "output0": ("grad_bias", "required"),
    }
    assert "input2" not in entry
    assert entry["attr"] == {"list": "group_idx_type"}
    assert entry["attr_group_idx_type"] == {
        "type": "int",
        "value": "all",
        "paramType": "optional",
        "defaultValue": "0",
    }


def test_ops_info_names_the_kernel_file(entry, contents):
    assert entry["opFile"] == entry["opInterface"] == {"value": "grouped_bias_add_grad"}
    assert (entry["coreType"], entry["prebuildPattern"]) == ({"value": "AiCore"}, {"value": "Opaque"})
    assert entry["dynamicShapeSupport"] == {"flag": "true"}


def load(path, name="dynamic"):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def written(contents, tmp_path):
    path = tmp_path / "grouped_bias_add_grad.py"
    spec = next(spec for spec in contents.specs if spec.name == path.stem)
    path.write_text(dynamic_impl_text(spec))
    return path


NEW, OLD = ("asc_op_compile_base.asc_op_compiler", "asc_op_compile_base.common"), ("tbe.tikcpp", "tbe.common")


def mock_compiler(monkeypatch, compiler, common, calls):
    """Install mock modules of an operator compiler that record their calls; a real compiler is not used."""
    names = {
        common.partition(".")[0]: {},
        common: {},
        f"{common}.buildcfg": {"get_current_build_config": lambda key: int(key == "enable_deterministic_mode")},
        f"{common}.register": {
            "register_operator": lambda op_type, **kw: (
                lambda function: calls.append(("register", op_type, kw)) or function
            )
        },
        f"{common}.utils": {},
        f"{common}.utils.para_check": {
            "check_op_params": lambda *kinds: calls.append(("check", *kinds)) or (lambda function: function)
        },
        compiler: {
            "OpInfo": lambda **fields: fields,
            "get_code_channel": lambda *_: "channel",
            "compile_op": lambda *arguments: calls.append(("compile", *arguments)),
        },
    }
    for name, attributes in names.items():
        module = types.ModuleType(name)
        module.__path__ = []
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        for key, value in attributes.items():
            setattr(module, key, value)
        monkeypatch.setitem(sys.modules, name, module)
    for kind in ("REQUIRED_INPUT", "OPTION_INPUT", "REQUIRED_OUTPUT", "OPTION_ATTR_INT", "KERNEL_NAME"):
        setattr(sys.modules[f"{common}.utils.para_check"], kind, kind)
    return calls


@pytest.fixture(params=[NEW, OLD], ids=["9.x", "8.x"])
def compiler(request, monkeypatch):
    return mock_compiler(monkeypatch, *request.param, [])


def test_dynamic_impl_is_inert_without_cann(written):
    program = f"import runpy; runpy.run_path({str(written)!r})"
    result = subprocess.run([sys.executable, "-Werror", "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_dynamic_impl_registers_with_its_parameter_kinds(written, compiler):
    load(written)
    kinds = ("REQUIRED_INPUT", "OPTION_INPUT", "REQUIRED_OUTPUT", "OPTION_ATTR_INT", "KERNEL_NAME")
    assert compiler == [("check", *kinds), ("register", "GroupedBiasAddGrad", {"trans_bool_to_s8": False})]


@pytest.mark.parametrize("with_index", [True, False])
def test_dynamic_impl_hands_dtypes_and_attributes_to_the_compiler(written, compiler, monkeypatch, with_index):
    monkeypatch.setenv("ASCEND_HOME_PATH", "/toolkit")
    kernel = written.with_suffix(".cpp")
    kernel.write_text("")
    half = {"dtype": "float16", "format": "ND"}
    index = {"dtype": "int64", "format": "ND"} if with_index else None
    load(written).grouped_bias_add_grad(half, index, half, 1, kernel_name="k")
    (compiled,) = (call for call in compiler if call[0] == "compile")
    _, source, function, info, options, channel, _ = compiled
    assert (source, function, channel) == (str(kernel), "grouped_bias_add_grad", "channel")
    assert {"-DDTYPE_GRAD_Y=half", "-DORIG_DTYPE_GRAD_Y=DT_FLOAT16", "-DFORMAT_GRAD_Y=FORMAT_ND"} <= set(options)
    assert {"-DDTYPE_GRAD_BIAS=half", "-DDETERMINISTIC_MODE=1", "-I/toolkit/compiler/tikcpp/tikcfw"} <= set(options)
    assert f"-I{written.parent}" in options
    assert ("-DDTYPE_GROUP_IDX=int64_t" in options) == with_index
    assert any("GROUP_IDX" in option for option in options) == with_index
    assert info["attrs"] == [{"name": "group_idx_type", "dtype": "int", "value": 1}]
    assert info["param_type_list"] == ["required", "optional", "required"]
    assert info["inputs"] == [half, index]


def test_dynamic_impl_prefers_the_compiler_of_the_newer_generation(written, monkeypatch):
    new, old = mock_compiler(monkeypatch, *NEW, []), mock_compiler(monkeypatch, *OLD, [])
    load(written)
    assert (len(new), len(old)) == (2, 0)


def test_dynamic_impl_falls_back_to_the_compiler_of_the_older_generation(written, monkeypatch):
    """A toolkit can have the package of the newer compiler without the compiler module."""
    new, old = mock_compiler(monkeypatch, *NEW, []), mock_compiler(monkeypatch, *OLD, [])
    monkeypatch.delitem(sys.modules, NEW[0])
    load(written)
    assert (len(new), len(old)) == (0, 2)
    monkeypatch.delitem(sys.modules, OLD[0])
    with pytest.raises(RuntimeError, match=r"no operator compiler can be imported \(asc_op_.*; tbe\.tikcpp: No module"):
        load(written)


def test_dynamic_impl_fails_loudly_without_its_kernel(written, compiler):
    half = {"dtype": "float16", "format": "ND"}
    with pytest.raises(RuntimeError, match=r"grouped_bias_add_grad\.cpp is missing; install the package again"):
        load(written).grouped_bias_add_grad(half, None, half)


def test_three_lists_agree():
    made = lists({"vendor": "v", "operators": ["A", "B"]}, {"b/c": b"", "a.h": b"x"})
    manifest = json.loads(made["manifest.json"])
    assert list(manifest["files"]) == ["a.h", "b/c", "package.info"]
    assert made["package.info"] == b"vendor=v\noperators=A B\n"
    sums = [line.split("  ") for line in made["SHA256SUMS"].decode().splitlines()]
    assert [path for _, path in sums] == ["a.h", "b/c", "package.info", "manifest.json"]
    assert {path: digest for digest, path in sums[:-1]} == manifest["files"]
    with pytest.raises(UserError, match="rename the file"):
        lists({}, {"../x": b""})
    with pytest.raises(UserError, match="one line of printable characters"):
        lists({"note": "a\nb"}, {})
