"""Test the build of a package with a toolkit: command lines, input of opc, lists of kernels, both generations.

`mock_toolkit.py` replaces a real toolkit. The expected words are from CANN's public documents and build files.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from mock_toolkit import OPC, MockToolkit
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.codegen.views.facts import dtype_columns
from opforge.package.built import BuildError, built
from opforge.package.cann import commands
from opforge.package.cann.build import Build, MissingProgramError, StepError
from opforge.package.cann.kernels import KernelError, described, kernels_of, operator_list, parameters_of, soc_list
from opforge.package.cann.toolkit import ToolkitError, read_toolkit, tool_environment
from opforge.package.layout import layout
from opforge.package.ops_info import ops_info_entry
from opforge.package.pack import BUILDER, gather, make_package
from opforge.package.socs import opc_chips
from opforge.package.verify import verify

TBE = "op_impl/ai_core/tbe"
LIBRARIES = {
    "op_proto/lib/linux/x86_64/libcust_opsproto_rt2.0.so",
    f"{TBE}/op_tiling/lib/linux/x86_64/libcust_opmaster_rt2.0.so",
    "op_api/lib/libcust_opapi.so",
    "framework/onnx/libcust_onnx_parsers.so",
}
FUNCTIONS = {f"aclnnGroupedBiasAddGrad{end}" for end in ("", "GetWorkspaceSize", "V2", "V2GetWorkspaceSize")}
PYTHON_TILING = f"{TBE}/op_tiling/liboptiling.so"


@pytest.fixture
def entry(contents):
    (spec,) = (spec for spec in contents.specs if spec.op_type == "GroupedBiasAddGrad")
    return ops_info_entry(spec, dtype_columns(spec))


def test_the_build_needs_nothing_newer_than_the_pythons_of_the_toolkits():
    for path in sorted(BUILDER.glob("*.py")):
        tree = ast.parse(path.read_text(), feature_version=(3, 7))
        modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
        modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        assert not any(module.startswith("opforge") for module in modules), path.name
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert used.isdisjoint({"removeprefix", "removesuffix", "is_relative_to", "hardlink_to", "with_stem"}), (
            path.name
        )


def test_one_binary_for_each_column_of_required_tensors(entry):
    parameters = parameters_of("GroupedBiasAddGrad", entry)
    nodes = [p["op_list"][0] for p in parameters]
    assert [node["inputs"][0]["dtype"] for node in nodes] == ["float16", "bfloat16", "float32"]
    assert {node["inputs"][1]["dtype"] for node in nodes} == {"int32"}
    assert nodes[0]["inputs"][1] == {
        "name": "group_idx",
        "index": 1,
        "dtype": "int32",
        "format": "ND",
        "paramType": "optional",
        "shape": [-2],
        "format_match_mode": "FormatAgnostic",
    }
    assert nodes[0]["attrs"] == [{"name": "group_idx_type", "dtype": "int", "value": 0}]
    names = {node["bin_filename"] for node in nodes}
    assert len(names) == 3
    assert all(re.fullmatch(r"GroupedBiasAddGrad_[0-9a-f]{32}", name) for name in names)
    assert parameters == parameters_of("GroupedBiasAddGrad", entry)


def test_socs_of_one_architecture_share_their_binaries(entry):
    both = kernels_of({soc: {"GroupedBiasAddGrad": entry} for soc in ("ascend910b", "ascend910_93")}, opc_chips())
    assert [(kernel.chip, kernel.socs) for kernel in both] == [("Ascend910B1", ["ascend910_93", "ascend910b"])] * 3
    (only, *_) = kernels_of({"ascend910_93": {"GroupedBiasAddGrad": entry}}, opc_chips())
    assert (only.chip, only.socs) == ("Ascend910_9391", ["ascend910_93"])


@pytest.fixture
def folders():
    return commands.Folders("/w/package/acme", "acme", "/w")


def test_opc_is_called_as_the_projects_of_cann_call_it(entry, folders):
    kernel = kernels_of({"ascend910b": {"GroupedBiasAddGrad": entry}}, opc_chips())[0]
    assert commands.compile_kernel(folders, kernel) == [
        "opc",
        f"/w/package/acme/{TBE}/acme_impl/dynamic/grouped_bias_add_grad.py",
        "--main_func=grouped_bias_add_grad",
        f"--input_param=/w/kernels/{kernel.name}/{kernel.name}_param.json",
        "--soc_version=Ascend910B1",
        f"--output=/w/kernels/{kernel.name}/out",
        "--impl_mode=high_performance,optional",
        "--simplified_key_mode=0",
        "--op_mode=dynamic",
    ]


def test_cmake_arguments_contain_the_toolkit_and_its_generation(folders, tmp_path):
    old = read_toolkit(MockToolkit(tmp_path / "old").root)
    assert commands.configure(old, folders)[:5] == [
        "cmake",
        "-S",
        "/w/package/acme/scripts/cann/cmake/8.x",
        "-B",
        "/w/host",
    ]
    assert f"-DASCEND_CANN_PACKAGE_PATH={tmp_path}/old" in commands.configure(old, folders)
    new = read_toolkit(MockToolkit(tmp_path / "new", "9.1").root)
    words = commands.configure_asc(new, folders, ["ascend910_93", "ascend910b"])
    assert words[2] == "/w/package/acme/scripts/cann/cmake/2026"
    assert f"-DASC_DIR={tmp_path}/new/lib64/cmake" in words
    assert "-DASCEND_COMPUTE_UNIT=ascend910_93;ascend910b" in words
    assert commands.build_target(folders, "binary", 3)[2:] == ["/w/host", "--target", "binary", "--parallel", "3"]


def test_properties_of_a_toolkit_are_read(tmp_path):
    old, new = read_toolkit(MockToolkit(tmp_path / "a").root), read_toolkit(MockToolkit(tmp_path / "b", "9.1").root)
    assert (old.generation, old.version, old.compiler_version) == ("8.x", "8.1.RC1", "7.7.0.1.238")
    assert (new.generation, new.version, new.compiler_version) == ("2026", "9.1.0", "9.1.0")
    with pytest.raises(ToolkitError, match="expected the folder of a CANN toolkit"):
        read_toolkit(tmp_path)
    without = read_toolkit(MockToolkit(tmp_path / "c", "8.5").root)
    assert (without.generation, without.asc_dir) == ("8.x", "")
    (tmp_path / "b/x86_64-linux").mkdir()
    (tmp_path / "b/lib64").rename(tmp_path / "b/x86_64-linux/lib64")
    assert read_toolkit(tmp_path / "b").asc_dir == f"{tmp_path}/b/x86_64-linux/lib64/cmake"
    found = tool_environment(old, {"PATH": f"/usr/bin:{old.root}/bin", "PYTHONPATH": ""})
    assert (
        found["PATH"]
        == f"{old.root}/bin:{old.root}/compiler/ccec_compiler/bin:{old.root}/tools/ccec_compiler/bin:/usr/bin"
    )
    assert found["PYTHONPATH"] == f"{old.root}/python/site-packages:{old.root}/opp/built-in/op_impl/ai_core/tbe"
    assert (found["ASCEND_HOME_PATH"], found["ASCEND_OPP_PATH"]) == (old.root, f"{old.root}/opp")
    libraries = [str(Path(path).relative_to(old.root)) for path in found["LD_LIBRARY_PATH"].split(":")]
    assert libraries == [
        "tools/aml/lib64",
        "tools/aml/lib64/plugin",
        "lib64",
        "lib64/plugin/opskernel",
        "lib64/plugin/nnengine",
        f"opp/built-in/{TBE}/op_tiling/lib/linux/x86_64",
    ]


@pytest.mark.parametrize(("level", "used"), [(None, "3"), ("", "3"), ("4", "3"), ("all", "3"), ("1", "1")])
def test_messages_of_the_compilers_go_into_the_log(tmp_path, level, used):
    given = {"ASCEND_SLOG_PRINT_TO_STDOUT": "0"} | ({} if level is None else {"ASCEND_GLOBAL_LOG_LEVEL": level})
    found = tool_environment(read_toolkit(MockToolkit(tmp_path / "cann").root), given)
    assert (found["ASCEND_SLOG_PRINT_TO_STDOUT"], found["ASCEND_GLOBAL_LOG_LEVEL"]) == ("1", used)


SUPPORT = {
    "implMode": "high_performance",
    "simplifiedKeyMode": 0,
    "simplifiedKey": ["Add/d=0,p=1/1,2"],
    "optionalInputMode": "gen_placeholder",
    "staticKey": "s",
    "inputs": [
        {"name": "x", "index": 0, "dtype": "float16", "paramType": "required", "format_match_mode": "FormatAgnostic"}
    ],
    "outputs": [[{"name": "y", "index": 0, "dtype_match_mode": "DtypeByte", "paramType": "dynamic"}]],
    "attrs": [{"name": "k", "dtype": "int", "value": 0}],
    "opMode": "dynamic",
}
WRITTEN = {
    "binFileName": "Add_1",
    "binFileSuffix": ".o",
    "coreType": "MIX",
    "taskRation": "tilingKey",
    "supportInfo": SUPPORT,
}


def test_lists_of_kernels_have_the_form_that_the_runtime_reads():
    kernel = described(WRITTEN, "ascend910b", "add")
    assert kernel["filePath"] == "ascend910b/add/Add_1.json"
    assert soc_list("ascend910b", {"add": [kernel]}) == {
        "Add": {
            "dynamicRankSupport": True,
            "simplifiedKeyMode": 0,
            "optionalInputMode": "gen_placeholder",
            "params": {
                "inputs": [{"name": "x", "index": 0, "paramType": "required", "formatMode": "static_nd_agnostic"}],
                "outputs": [[{"name": "y", "index": 0, "paramType": "dynamic", "dtypeMode": "bit"}]],
                "attrs": [{"name": "k"}],
            },
            "binaryList": [
                {
                    "coreType": 0,
                    "simplifiedKey": ["Add/d=0,p=1/1,2"],
                    "multiKernelType": 1,
                    "binPath": "ascend910b/add/Add_1.o",
                    "jsonPath": "ascend910b/add/Add_1.json",
                }
            ],
        }
    }
    (listed,) = operator_list("ascend910b", "add", [kernel])["binList"]
    assert listed == SUPPORT | {"binInfo": {"jsonFilePath": "ascend910b/add/Add_1.json"}}
    vector = soc_list("s", {"add": [WRITTEN | {"coreType": "MIX_AIV", "taskRation": "0:1"}]})
    assert vector["Add"]["binaryList"][0]["coreType"] == 4
    assert "multiKernelType" not in vector["Add"]["binaryList"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"supportInfo": {}}, "no binFileName or no list simplifiedKey"),
        ({"supportInfo": SUPPORT | {"simplifiedKey": 3}}, "no list simplifiedKey"),
        ({"coreType": "Other"}, "coreType 'Other'"),
        ({"coreType": ["MIX"]}, r"coreType \['MIX'\]"),
    ],
)
def test_a_kernel_that_cannot_be_found_is_refused(change, message):
    with pytest.raises(KernelError, match=message):
        described(WRITTEN | change, "ascend910b", "add")


@pytest.fixture
def vendor(small, tmp_path):
    """Return the vendor folder of an unpacked package."""
    root = tmp_path / "unpacked here"
    for path, data in layout(small).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root / "packages/vendors/opforge"


def build(vendor, toolkit, work, output=None):
    environment = {"PATH": "/usr/bin:/bin", "CMAKE_EXPORT_COMPILE_COMMANDS": "ON"}
    say = (output if output is not None else []).append
    return Build(vendor, work, read_toolkit(toolkit.root), environment, 2, say).run()


def content(root):
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def exported(library):
    words = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    return set(words.stdout.split()[2::3])


def test_build_with_cann_8(vendor, tmp_path):
    toolkit, work = MockToolkit(tmp_path / "cann"), tmp_path / "work"
    tree = build(vendor, toolkit, work)
    made = content(tree)
    assert made >= LIBRARIES | {PYTHON_TILING}
    kernels = {path for path in made if path.startswith(f"{TBE}/kernel/ascend910b/")}
    assert {Path(path).suffix for path in kernels} == {".o", ".json"}
    assert len(kernels) == 6
    lists = f"{TBE}/kernel/config/ascend910b"
    assert {f"{lists}/binary_info_config.json", f"{lists}/grouped_bias_add_grad.json"} <= made
    listed = json.loads((tree / lists / "binary_info_config.json").read_text())
    for binary in listed["GroupedBiasAddGrad"]["binaryList"]:
        assert f"{TBE}/kernel/{binary['binPath']}" in made
    versions = (tree / "version.info").read_text().splitlines()
    assert [line for line in versions if "compiler_version=" in line] == [
        "compiler_version=7.7.0.1.238",
        "custom_opp_compiler_version=7.7.0.1.238",
    ]
    assert set(json.loads((work / "built.json").read_text())["files"]) == made

    # Both GE libraries contain the whole archive of the registry; the third exports only documented functions.
    assert "GetRegisteredOpNum" in exported(tree / "op_proto/lib/linux/x86_64/libcust_opsproto_rt2.0.so")
    assert "GetRegisteredOpNum" in exported(tree / TBE / "op_tiling/lib/linux/x86_64/libcust_opmaster_rt2.0.so")
    assert exported(tree / "op_api/lib/libcust_opapi.so") == FUNCTIONS
    compiled = {
        Path(c["file"]).name: c["command"] for c in json.loads((work / "host/compile_commands.json").read_text())
    }
    assert len(compiled) == len(list((vendor / "src").rglob("*.cpp")))
    for name, command in compiled.items():
        assert "-D_GLIBCXX_USE_CXX11_ABI=0" in command
        assert "-std=c++17" in command
        assert ("-Dgoogle=ascend_private" in command) == name.endswith("_onnx_plugin.cpp")
        assert ("-DOP_PROTO_LIB" in command) == name.endswith(("_proto.cpp", "_infershape.cpp"))
        assert ("-DOP_TILING_LIB" in command) == name.endswith(("_def.cpp", "_tiling.cpp"))

    calls = toolkit.calls("opc")
    assert len(calls) == 3
    for call in calls:
        assert call["tiling"]
        assert call["described"] == ["aic-ascend910b-ops-info.json"]
        assert call["variables"] == {
            "ASCEND_HOME_PATH": str(toolkit.root),
            "TILINGKEY_PAR_COMPILE": "1",
            "ASCEND_SLOG_PRINT_TO_STDOUT": "1",
            "ASCEND_GLOBAL_LOG_LEVEL": "3",
        }
        assert call["cwd"].startswith(str(work / "kernels"))
    assert len({call["cwd"] for call in calls}) == 3, "opc takes a folder for itself"


def test_build_with_cann_2026(vendor, tmp_path):
    toolkit, work = MockToolkit(tmp_path / "cann", "9.1"), tmp_path / "work"
    tree = build(vendor, toolkit, work)
    made = content(tree)
    assert made == LIBRARIES | {
        PYTHON_TILING,
        f"{TBE}/kernel/ascend910b/x/GroupedBiasAddGrad_1.o",
        f"{TBE}/kernel/ascend910b/x/GroupedBiasAddGrad_1.json",
        f"{TBE}/kernel/config/ascend910b/grouped_bias_add_grad.json",
        f"{TBE}/kernel/config/ascend910b/binary_info_config.json",
        "version.info",
        "build.log",
    }
    calls = [call["argv"].split(";") for call in toolkit.calls("cmake")]
    by_name = {tuple(words[:2]): words[2:] for words in calls}
    config = by_name["npu_op_package", "opforge"]
    assert config[:3] == ["TYPE", "RUN", "CONFIG"]
    assert dict(zip(config[3::2], config[4::2], strict=True)) == {
        "ENABLE_SOURCE_PACKAGE": "True",
        "ENABLE_BINARY_PACKAGE": "True",
        "ENABLE_CPACK": "False",
        "VENDOR_NAME": "opforge",
        "INSTALL_PATH": "PREFIX",
    }
    libraries = {words[1]: words[2] for words in calls if words[0] == "npu_op_library"}
    assert libraries == {
        "cust_op_proto": "GRAPH",
        "cust_optiling": "TILING",
        "cust_opapi": "ACLNN",
        "cust_onnx_parsers": "ONNX_PLUGIN",
    }
    (kernels,) = (words for words in calls if words[0] == "npu_op_kernel_library")
    assert kernels[2::2] == ["SRC_BASE", "TILING_LIBRARY"]
    assert kernels[3].endswith(f"/{TBE}/opforge_impl/dynamic")
    (generated,) = (words for words in calls if words[0] == "npu_op_code_gen")
    assert generated[-2:] == ["OPS_ACLNN_GEN", "0"]
    assert [Path(words).name for words in generated if words.endswith(".cpp")] == ["grouped_bias_add_grad_def.cpp"]
    # The aclnn functions written by op_build would replace the documented functions.
    assert [words[1:] for words in calls if words[0] == "autogen"] == [["aic-ascend910b-ops-info.ini"]]
    assert set(by_name["npu_op_package_add", "opforge"]) == {"LIBRARY", *libraries, "ascendc_kernels"}
    assert exported(tree / "op_api/lib/libcust_opapi.so") == FUNCTIONS


def test_toolkit_without_kernel_output_is_reported(vendor, tmp_path):
    toolkit = MockToolkit(tmp_path / "cann", "9.1")
    toolkit.write("tools/kernels", '#!/bin/sh\nmkdir -p "$1"\n', executable=True)
    with pytest.raises(StepError, match="no kernel of GroupedBiasAddGrad for ascend910b was built"):
        build(vendor, toolkit, tmp_path / "work")


def test_a_failed_step_is_named_and_the_others_are_kept(vendor, tmp_path):
    toolkit, work, output = MockToolkit(tmp_path / "cann"), tmp_path / "work", []
    toolkit.write("opc-fails", "float32")
    with pytest.raises(StepError) as failed:
        build(vendor, toolkit, work)
    title, *lines = str(failed.value).splitlines()
    nodes = [call["parameters"]["op_list"][0] for call in toolkit.calls("opc")]
    (name,) = {node["bin_filename"] for node in nodes if node["inputs"][0]["dtype"] == "float32"}
    assert title == (
        "GroupedBiasAddGrad for ascend910b, dtype column (grad_y float32, group_idx int32, grad_bias float32): "
        f"the step '{name}' failed: exit code 0, but it wrote no {name}.json and no {name}.o; its output, whose errors "
        f"and end follow, is in {work}/logs/{name}.log"
    )
    assert lines == ["[ERROR] TBE: kernel.h:1: error: made to fail", *["opc: end"] * 4]
    assert not (work / "built.json").exists()
    done = {path.name for path in (work / "stamps").iterdir()}
    (toolkit.root / "opc-fails").unlink()
    before = len(toolkit.calls("opc"))
    build(vendor, toolkit, work, output)
    kept = {line.split("] ")[1].removesuffix(": already done") for line in output if line.endswith("already done")}
    assert kept == done
    assert len(toolkit.calls("opc")) == before + 3 - len([name for name in done if name.startswith("Grouped")])

    # A changed product is built again; another toolkit or package restarts the build.
    (work / "tree/op_api/lib/libcust_opapi.so").write_bytes(b"")
    output.clear()
    build(vendor, toolkit, work, output)
    assert [line for line in output if not line.endswith("already done")] == ["[4/8] libcust_opapi.so"]
    (vendor / "manifest.json").write_text((vendor / "manifest.json").read_text() + "\n")
    output.clear()
    build(vendor, toolkit, work, output)
    assert not any(line.endswith("already done") for line in output)


def test_a_failure_of_opc_is_one_message_with_the_operator(vendor, tmp_path):
    """The steps before opc are kept, so only the first build compiles the libraries."""
    toolkit = MockToolkit(tmp_path / "cann")
    for program, cause in (
        ("#!/bin/sh\nkill -40 $$\n", "ended by signal 40"),
        ("#!/absent\n", "opc cannot be started: No such file or directory"),
        ("no program", "opc cannot be started: Exec format error"),
        (OPC.replace('"binFileName": node["bin_filename"]', '"binFileName": 5'), "opc wrote binFileName 5, expected "),
    ):
        toolkit.write("bin/opc", program, executable=True)
        with pytest.raises(StepError, match=f"^GroupedBiasAddGrad for ascend910b, dtype column .* failed: {cause}"):
            build(vendor, toolkit, tmp_path / "work")


def test_package_with_files_built_by_a_toolkit(small, tmp_path, run):
    toolkit, output = MockToolkit(tmp_path / "cann"), []
    contents = built(small, toolkit.root, tmp_path / "work", 2, output.append)
    package = make_package(contents, tmp_path / "package.run")
    assert verify(package)[1] == []
    manifest = json.loads(layout(contents)["packages/vendors/opforge/manifest.json"])
    assert (manifest["release"], manifest["cann"]) == ("built", ["8.1.RC1", "8.1.RC1"])
    assert "not run with a real toolkit" in manifest["note"]
    assert set(manifest["files"]) >= LIBRARIES
    assert "build.log" not in manifest["files"], "it names folders of this machine"
    assert not any(".so" in line for line in manifest["not_included"])

    place = f"--install-path={tmp_path}/opp"
    installed = run(package, place)
    assert installed.returncode == 0, installed.stderr
    assert "It is a binary release, built with CANN 8.1.RC1" in installed.stdout
    assert run(package, "--verify", place).returncode == 0
    other = MockToolkit(tmp_path / "other", version_dir="8.2.RC1")
    newer = run(package, "--install-path=" + str(tmp_path / "opp2"), ASCEND_HOME_PATH=str(other.root))
    assert newer.returncode == 0
    assert newer.stderr.endswith("is 8.2.RC1, newer than the supported version 8.1.RC1\n")


def test_toolkits_that_cannot_build_are_named(small, tmp_path, monkeypatch):
    old = MockToolkit(tmp_path / "old", version_dir="7.0").root
    for root, message in ((tmp_path, f"--cann: got '{tmp_path}', expected the folder"), (old, "--cann: got CANN 7.0")):
        with pytest.raises(UserError, match=message):
            built(small, root, tmp_path / "work", 1, print)
    toolkit = MockToolkit(tmp_path / "cann")
    toolkit.write("opc-fails", "float16 bfloat16 float32")
    with pytest.raises(BuildError, match="made to fail") as failed:
        built(small, toolkit.root, tmp_path / "work", 1, [].append)
    assert failed.value.exit_code == 1
    absent = str(tmp_path / "absent")
    for origin, options in (("--cann", ["--cann", absent]), ("ASCEND_HOME_PATH", [])):
        monkeypatch.setenv("ASCEND_HOME_PATH", absent if origin == "ASCEND_HOME_PATH" else "/elsewhere")
        answer = CliRunner().invoke(app, ["pack", "--output", str(tmp_path), *options])
        assert answer.exception.exit_code == 2
        assert str(answer.exception).startswith(f"{origin}: got '{absent}', expected the folder of a CANN toolkit")
        assert str(answer.exception).endswith("use --no-build to pack the sources only")


@pytest.mark.all
@pytest.mark.parametrize("generation", ["8.1", "9.1"])
def test_real_sources_compile(project, tmp_path, generation):
    """The headers are those of the twin; with 8.1, the plugin must find all its symbols in the twin's library."""
    toolkit = MockToolkit(tmp_path / "cann", generation)
    (toolkit.root / "include").rmdir()
    (toolkit.root / "include").symlink_to(project.root / "twin/include")
    (toolkit.root / "lib64/libgraph.so").unlink()
    twin = project.build_dir / "twin/lib/libopforge_twin.so"
    toolkit.write("lib64/libgraph.so", f"INPUT({twin})\n")
    contents = gather(project, ["ascend910b"], ["GroupedBiasAddGrad"], "opforge")
    assert set(built(contents, toolkit.root, tmp_path / "work", 2, print).products) >= LIBRARIES


@pytest.mark.parametrize(
    ("generation", "programs"), [("8.1", ("cmake", "make", "opc")), ("9.1", ("cmake", "make", "bash"))]
)
def test_a_missing_program_is_named_before_anything_is_done(vendor, tmp_path, generation, programs):
    toolkit, work, tools = MockToolkit(tmp_path / "cann", generation), tmp_path / "work", tmp_path / "tools"
    tools.mkdir()
    (toolkit.root / "bin/opc").rename(tools / "opc")
    for program in ("cmake", "c++", "g++", "make", "bash"):
        (tools / program).symlink_to(shutil.which(program))
    for program in programs:
        (tools / program).rename(tmp_path / program)
        with pytest.raises(MissingProgramError, match=f"'{program}' is missing"):
            Build(vendor, work, read_toolkit(toolkit.root), {"PATH": str(tools)}, 1, print).run()
        (tmp_path / program).rename(tools / program)
    assert not work.exists()
