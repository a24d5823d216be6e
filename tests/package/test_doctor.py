"""Test faults: each test changes one thing in a correct installation and checks the reported fault."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.package.doctor import kernel_checks, library_checks, search_checks, toolkit_checks, vendor_checks
from opforge.package.doctor.cann_environment import CannEnvironment
from opforge.package.doctor.command import diagnosis
from opforge.package.doctor.device import chip_of, directory_of, find_device
from opforge.package.doctor.fault import UNREADABLE, Checks
from opforge.package.doctor.faults import find_faults
from opforge.package.doctor.vendor_checks import is_version_accepted

OP_TYPE, SOC = "GroupedBiasAddGrad", "ascend910b"
TBE = Path("op_impl/ai_core/tbe")
MACHINE = "linux/x86_64"
OPS_INFO = TBE / f"config/{SOC}/aic-{SOC}-ops-info.json"
BINARY_INFO = TBE / f"kernel/config/{SOC}/binary_info_config.json"
VENDOR = "Täger's opp/vendors/acme"
LIBRARIES = {
    f"op_proto/lib/{MACHINE}/libcust_opsproto_rt2.0.so": "registry",
    f"{TBE}/op_tiling/lib/{MACHINE}/libcust_opmaster_rt2.0.so": "registry",
    f"{TBE}/op_tiling/liboptiling.so": "registry",
    "op_api/lib/libcust_opapi.so": "opapi",
    "framework/onnx/libcust_onnx_parsers.so": "plain",
}
SOURCES = {
    "plain": "int value = 1;",
    "registry": "int GetRegisteredOpNum(void) { return 1; }",
    "opapi": "int aclnnFancy(void) { return 0; } int aclnnFancyGetWorkspaceSize(void) { return 0; }",
    "one_phase": "int aclnnFancy(void) { return 0; }",
    "ends": "void _exit(int); __attribute__((constructor)) void end(void) { _exit(3); }",
    "kills": "int kill(int, int); int getppid(void); "
    "__attribute__((constructor)) void end(void) { kill(getppid(), 9); }",
    "talks": "long write(int, const void *, unsigned long); __attribute__((constructor)) void talk(void) "
    '{ for (int i = 0; i < 20; ++i) write(i, "[[]]", 4); }',
    "undefined": "int missing_function(void); int value(void) { return missing_function(); }",
    "protobuf": "int _ZN6google8protobuf7MessageC2Ev(void); int f(void) { return _ZN6google8protobuf7MessageC2Ev(); }",
    "new_abi_tag": "int _ZN1N1gB5cxx11Ev(void); int f(void) { return _ZN1N1gB5cxx11Ev(); }",
    "new_abi": "int _ZN2ge3AddERKNSt7__cxx1112basic_stringE(void); "
    "int f(void) { return _ZN2ge3AddERKNSt7__cxx1112basic_stringE(); }",
}


# The name differs from the operator name; a description may request this.
HEADER = """\
// aclnnStatus aclnnOld(void *workspace);
/* aclnnStatus
   aclnnOlder(void); */
__attribute__((visibility("default"))) aclnnStatus aclnnFancyGetWorkspaceSize(
    const aclTensor *x, uint64_t *workspaceSize, aclOpExecutor **executor);
aclnnStatus
aclnnFancy(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);
"""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    for name, source in SOURCES.items():
        (folder / f"{name}.c").write_text(source)
        command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-o", str(folder / f"{name}.so"), str(folder / f"{name}.c")]
        subprocess.run(command, check=True)
    return folder


class Tree:
    """A toolkit, a vendor folder with a binary release, and the variables that refer to them."""

    def __init__(self, root: Path, compiled: Path) -> None:
        self.compiled = compiled
        self.toolkit = root / "toolkit"
        self.opp = self.toolkit / "opp"
        self.write(self.opp / "built-in/x", "")
        self.write(self.opp / "scene.info", "os=linux\narch=x86_64\n")
        versions = 'Version=8.1\nversion_dir=8.1.RC1\nrequired_opp_abi_version=">=8.0,<=8.3"\n'
        self.write(self.toolkit / "compiler/version.info", versions)
        self.vendor = root / VENDOR
        self.install(self.vendor)
        self.environment = {
            "ASCEND_HOME_PATH": str(self.toolkit),
            "ASCEND_OPP_PATH": str(self.opp),
            "ASCEND_CUSTOM_OPP_PATH": str(self.vendor),
            "LD_LIBRARY_PATH": str(self.vendor / "op_api/lib"),
        }

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def library(self, path: Path, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.compiled / f"{name}.so", path)

    def install(self, vendor: Path) -> None:
        for path, name in LIBRARIES.items():
            self.library(vendor / path, name)
        self.write(vendor / "op_api/include/aclnn_fancy.h", HEADER)
        self.write(vendor / TBE / f"{vendor.name}_impl/dynamic/kernel_file.py", "")
        self.write(vendor / "version.info", "compiler_version=8.1\npackage_version=1.2\n")
        self.write(
            vendor / TBE / f"config/{SOC}/aic-{SOC}-ops-info.json",
            json.dumps({OP_TYPE: {"opFile": {"value": "kernel_file"}}}),
        )
        files = {key: f"{SOC}/x/{OP_TYPE}_1.{end}" for key, end in (("binPath", "o"), ("jsonPath", "json"))}
        for path in files.values():
            self.write(vendor / TBE / "kernel" / path, "{}")
        info = json.dumps({OP_TYPE: {"binaryList": [files]}})
        self.write(vendor / TBE / f"kernel/config/{SOC}/binary_info_config.json", info)
        self.write(vendor / TBE / f"kernel/config/{SOC}/kernel_file.json", "{}")
        self.write(vendor / "manifest.json", json.dumps({"operators": [OP_TYPE], "files": {}}))

    def faults(self, soc: str | None = SOC, usual=()) -> list:
        return find_faults(CannEnvironment(self.environment, usual), soc)


@pytest.fixture
def tree(tmp_path, compiled):
    return Tree(tmp_path, compiled)


def test_a_healthy_tree_has_no_fault(tree):
    assert tree.faults() == []
    assert tree.faults(soc=None) == []
    foreign(tree)
    assert tree.faults() == []


def foreign(tree):
    """Change the vendor to one that opforge did not pack."""
    (tree.vendor / "manifest.json").unlink()


def test_library_that_prints_text_has_no_fault(tree):
    tree.library(tree.vendor / "framework/onnx/libcust_onnx_parsers.so", "talks")
    assert tree.faults() == []


FAULTS = {}


def fault(check, expected_text, *follows):
    """Define a change of the correct tree, the check that reports it, the text of its line, and dependent checks."""

    def add(change):
        FAULTS[change.__name__] = (change, check, expected_text, follows)
        return change

    return add


@fault("set-env-not-sourced", "ASCEND_HOME_PATH: not set, but a toolkit is in")
def home_path_unset(tree):
    del tree.environment["ASCEND_HOME_PATH"]


@fault("set-env-not-sourced", "ASCEND_HOME_PATH: not set, and ASCEND_OPP_PATH")
def home_path_unset_and_no_toolkit(tree):
    home_path_unset(tree)
    shutil.copytree(tree.opp, tree.toolkit.parent / "copy/opp")
    shutil.rmtree(tree.toolkit)
    tree.environment["ASCEND_OPP_PATH"] = str(tree.toolkit.parent / "copy/opp")


@fault("abi-mismatch", "new C++ ABI", "set-env-not-sourced")
def home_path_unset_and_new_abi(tree):
    home_path_unset(tree)
    new_abi(tree)


@fault("relative-entry", "ASCEND_OPP_PATH: got 'opp', a relative path")
def opp_path_relative(tree):
    tree.environment["ASCEND_OPP_PATH"] = "opp"


@fault("relative-entry", "ASCEND_HOME_PATH: got '.', a relative path")
def home_path_relative(tree):
    tree.environment["ASCEND_HOME_PATH"] = "."


@fault("library-hidden", "with another libcust_opapi.so before")
def another_library_first(tree):
    tree.library(tree.toolkit.parent / "other/libcust_opapi.so", "plain")
    tree.environment["LD_LIBRARY_PATH"] = f"{tree.toolkit.parent}/other:{tree.environment['LD_LIBRARY_PATH']}"


@fault("tiling-hidden", "remove the folder op_master")
def empty_folder_hides_the_tiling(tree):
    (tree.vendor / TBE / f"op_master/lib/{MACHINE}").mkdir(parents=True)


@fault("manifest-missing", "cannot be verified, upgraded or removed")
def manifest_missing(tree):
    tree.write(tree.vendor / "scripts/vendor_tree.sh", "")
    (tree.vendor / "manifest.json").unlink()


@fault("ops-info-missing", "got aic-ascend910-ops-info.json")
def description_misnamed(tree):
    description = tree.vendor / OPS_INFO
    description.rename(description.with_name("aic-ascend910-ops-info.json"))


@fault("impl-missing", "is not a folder, so FE and ATC ignore the vendor; install the package again")
def implementation_is_a_file(tree):
    shutil.rmtree(tree.vendor / TBE / "acme_impl")
    (tree.vendor / TBE / "acme_impl").write_text("")


@fault("impl-missing", f"kernel_file.py: does not exist, so FE and ATC cannot compile {OP_TYPE}")
def implementation_empty(tree):
    foreign(tree)
    shutil.rmtree(tree.vendor / TBE / "acme_impl/dynamic")


@fault("binaries-missing", f"has no kernel of {OP_TYPE}")
def no_binary_listed(tree):
    foreign(tree)
    (tree.vendor / BINARY_INFO).write_text(json.dumps({OP_TYPE: {"binaryList": []}}))


@fault("binary-file-missing", "kernel_file.json: does not exist")
def operator_list_missing(tree):
    foreign(tree)
    (tree.vendor / BINARY_INFO).with_name("kernel_file.json").unlink()


@fault("binary-file-missing", ".o: is empty")
def kernel_file_empty(tree):
    foreign(tree)
    next((tree.vendor / TBE / "kernel").rglob("*.o")).write_text("")


@fault("set-env-not-sourced", "not set, but a toolkit is in")
def variables_unset(tree):
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH"):
        del tree.environment[name]


@fault("variable-wrong", "which is not a folder")
def opp_path_wrong(tree):
    tree.environment["ASCEND_OPP_PATH"] += "-old"


@fault("no-toolkit", "the folder above the toolkit")
def home_path_above(tree):
    tree.environment["ASCEND_HOME_PATH"] = str(tree.toolkit.parent)


@fault("no-toolkit", "expected the folder of a CANN toolkit")
def home_path_of_something_else(tree):
    tree.environment["ASCEND_HOME_PATH"] = str(tree.vendor)


@fault("old-layout", "is the folder above opp: it has no folder 'built-in'")
def opp_path_above(tree):
    tree.environment["ASCEND_OPP_PATH"] = str(tree.toolkit)


@fault("mixed-toolkits", "which does not belong to the toolkit")
def two_toolkits(tree):
    other = tree.toolkit.parent / "other"
    shutil.copytree(tree.opp, other / "opp")
    tree.environment["ASCEND_OPP_PATH"] = str(other / "opp")


@fault("old-layout", "no folder 'built-in'")
def opp_without_builtin(tree):
    shutil.rmtree(tree.opp / "built-in")


@fault("no-scene", "has no arch")
def scene_info_missing(tree):
    (tree.opp / "scene.info").write_text("os=linux\n")


@fault("no-vendor", "programs find no custom operator")
def custom_path_unset(tree):
    del tree.environment["ASCEND_CUSTOM_OPP_PATH"]


@fault("parent-of-vendor", "the folder above the vendor folder")
def parent_of_vendors(tree):
    tree.environment["ASCEND_CUSTOM_OPP_PATH"] = str(tree.vendor.parent)


@fault("parent-of-vendor", "bin/set_env.bash")
def install_path_itself(tree):
    tree.environment["ASCEND_CUSTOM_OPP_PATH"] = str(tree.vendor.parent.parent)


@fault("no-vendor-folder", "neither op_impl nor op_proto")
def entry_of_something_else(tree):
    tree.environment["ASCEND_CUSTOM_OPP_PATH"] += f":{tree.vendor}/framework"


@fault("entry-missing", "which is not a folder")
def entry_missing(tree):
    tree.environment["ASCEND_CUSTOM_OPP_PATH"] += ":/nowhere/vendors/gone"


@fault("relative-entry", "a relative path")
def relative_entry(tree):
    tree.environment["ASCEND_CUSTOM_OPP_PATH"] += ":vendors/acme"


@fault("library-path", "does not contain")
def library_path(tree):
    tree.environment["LD_LIBRARY_PATH"] = "/usr/lib"


@fault("impl-missing", "FE and ATC ignore the vendor; it was packed as 'acme'")
def folder_renamed(tree):
    tree.vendor = tree.vendor.rename(tree.vendor.with_name("ours"))
    tree.environment |= {
        "ASCEND_CUSTOM_OPP_PATH": str(tree.vendor),
        "LD_LIBRARY_PATH": str(tree.vendor / "op_api/lib"),
    }


@fault("soc-directory", "rename it to ascend910b", "wrong-soc")
def soc_directory_wrong(tree):
    config = tree.vendor / TBE / "config"
    (config / SOC).rename(config / "ascend910b1")


@fault("wrong-soc", "does not exist; the vendor has ascend910_93")
def another_soc(tree):
    config = tree.vendor / TBE / "config"
    (config / SOC).rename(config / "ascend910_93")
    (config / "ascend910_93" / f"aic-{SOC}-ops-info.json").rename(
        config / "ascend910_93/aic-ascend910_93-ops-info.json"
    )


@fault("binaries-missing", "aclnn calls return 561003")
def source_release(tree):
    shutil.rmtree(tree.vendor / TBE / "kernel")


@fault("binary-file-missing", "does not exist, but binary_info_config.json lists kernels of")
def kernel_file_missing(tree):
    next((tree.vendor / TBE / "kernel").rglob("*.o")).unlink()


@fault("compiler-version", "compiler_version is 7.9, the toolkit expects >=8.0,<=8.3")
def built_for_an_older_toolkit(tree):
    (tree.vendor / "version.info").write_text("compiler_version=7.9\n")


@fault("abi-mismatch", "new C++ ABI")
def new_abi(tree):
    tree.library(tree.vendor / "op_api/lib/libcust_opapi.so", "new_abi")


@fault("abi-mismatch", "new C++ ABI")
def new_abi_by_tag(tree):
    tree.library(tree.vendor / "op_api/lib/libcust_opapi.so", "new_abi_tag")


@fault("cannot-load", "ends the program that loads it (exit code -9)")
def library_kills_its_process(tree):
    tree.library(tree.vendor / "framework/onnx/libcust_onnx_parsers.so", "kills")


@fault("cannot-load", "needs missing_function, which no library exports")
def plugin_cannot_load(tree):
    tree.library(tree.vendor / "framework/onnx/libcust_onnx_parsers.so", "undefined")


@fault("cannot-load", "-Dgoogle=ascend_private")
def plugin_with_public_protobuf(tree):
    tree.library(tree.vendor / "framework/onnx/libcust_onnx_parsers.so", "protobuf")


@fault("symbol-missing", "does not export GetRegisteredOpNum")
def registry_not_linked(tree):
    tree.library(tree.vendor / f"op_proto/lib/{MACHINE}/libcust_opsproto_rt2.0.so", "plain")


@fault("symbol-missing", "does not export aclnnFancyGetWorkspaceSize")
def first_phase_missing(tree):
    tree.library(tree.vendor / "op_api/lib/libcust_opapi.so", "one_phase")


@fault("symbol-missing", "does not export aclnnFancy;")
def function_missing(tree):
    tree.library(tree.vendor / "op_api/lib/libcust_opapi.so", "plain")


@fault("library-missing", "does not exist; tiling is not available")
def tiling_library_missing(tree):
    (tree.vendor / TBE / f"op_tiling/lib/{MACHINE}/libcust_opmaster_rt2.0.so").unlink()


@fault("library-missing", "does not exist; tiling for static shapes (E90003) is not available")
def tiling_library_of_python_missing(tree):
    (tree.vendor / TBE / "op_tiling/liboptiling.so").unlink()


@fault("cann-untested", "is CANN 12.0.1, newer than the supported range 8.1 to 9.1")
def newer_toolkit(tree):
    (tree.toolkit / "compiler/version.info").write_text("Version=12.0.1\nversion_dir=cann\n")


@fault("cann-version", "is made for CANN 8.0.RC1 to 8.0.RC1, but the toolkit is 8.1.RC1")
def built_with_an_older_toolkit(tree):
    (tree.vendor / "built.json").write_text(json.dumps({"toolkit": "8.0.RC1", "files": {}}))


@fault("compiler-version", "compiler_version is 7.9, the toolkit expects >=8.0,<=8.3")
def packed_by_another_project_for_an_older_toolkit(tree):
    (tree.vendor / "version.info").write_text("custom_opp_compiler_version=7.9\n")


@fault(
    "no-toolkit", "names no version, expected version_dir= or Version= with a number such as 8.5.0; install the toolkit"
)
def version_of_the_toolkit_is_broken(tree):
    (tree.toolkit / "compiler/version.info").write_text("Version=\nversion_dir=cann\n")


@fault("other-machine", "is for another machine")
def libraries_of_another_machine(tree):
    lib = tree.vendor / "op_proto/lib/linux"
    (lib / "x86_64").rename(lib / "aarch64")


@fault("other-machine", "another processor")
def library_of_another_processor(tree):
    path = tree.vendor / "framework/onnx/libcust_onnx_parsers.so"
    content = bytearray(path.read_bytes())
    content[18:20] = (183).to_bytes(2, "little")  # e_machine value of aarch64
    path.write_bytes(content)


@fault("library-broken", "is not a file")
def library_is_a_folder(tree):
    path = tree.vendor / "op_api/lib/libcust_opapi.so"
    path.unlink()
    path.mkdir()


@fault("library-broken", "not a link to a file")
def library_is_a_link_to_nothing(tree):
    path = tree.vendor / "framework/onnx/libcust_onnx_parsers.so"
    path.unlink()
    path.symlink_to("/nowhere/libcust_onnx_parsers.so")


@fault("library-misplaced", "exists, but no program searches its folder")
def library_in_another_folder(tree):
    (tree.vendor / "op_api/lib").rename(tree.vendor / "op_api/lib64")


@fault("same-vendor-name", "the vendor name of 2 folders", "shadowed", "library-path")
def same_name_twice(tree):
    other = tree.opp / "vendors/acme"
    tree.install(other)
    (other.parent / "config.ini").write_text("load_priority=acme\n")


@fault("shadowed", "is hidden by the one in")
def two_packages(tree):
    other = tree.vendor.with_name("other")
    tree.install(other)
    tree.environment["ASCEND_CUSTOM_OPP_PATH"] += f":{other}"
    tree.environment["LD_LIBRARY_PATH"] += f":{other}/op_api/lib"


@fault("config-unreadable", "its first line is not load_priority=")
def config_unreadable(tree):
    tree.install(tree.opp / "vendors/beta")
    (tree.opp / "vendors/config.ini").write_text("\nload_priority=beta\n")


@fault("config-unreadable", "its first line is not load_priority=")
def config_contains_a_zero_byte(tree):
    (tree.opp / "vendors").mkdir()
    (tree.opp / "vendors/config.ini").write_text("load_priority=be\0ta\n")


@fault("config-vendor-missing", "names the vendor 'gone'")
def config_without_vendors(tree):
    (tree.opp / "vendors").mkdir()
    (tree.opp / "vendors/config.ini").write_text("load_priority=gone\n")


@fault("vendor-not-listed", "does not name the vendor 'beta'", "shadowed", "library-path")
def config_lacks_a_vendor(tree):
    for name in ("alpha", "beta"):
        tree.install(tree.opp / "vendors" / name)
    (tree.opp / "vendors/config.ini").write_text("load_priority=alpha\n")


# File -> malformed text, the text of the fault, and dependent checks.
MALFORMED = [
    (OPS_INFO, "{", "expected JSON"),
    (OPS_INFO, "{}", "at least 1 item"),
    (OPS_INFO, "[]", "got []"),
    (OPS_INFO, '{"a":' * 100_000, "recursion limit"),
    (OPS_INFO, json.dumps({OP_TYPE: "x"}), f"got 'x' at ['{OP_TYPE}']"),
    (BINARY_INFO, json.dumps({OP_TYPE: {"binaryList": None}}), "got None", "binaries-missing"),
    (BINARY_INFO, json.dumps({OP_TYPE: {"binaryList": ["a"]}}), "got 'a'", "binaries-missing"),
    ("manifest.json", '{"operators": [', "expected JSON"),
    ("manifest.json", '{"operators": [1, "a"], "files": {}}', "got 1 at ['operators'][0]"),
    ("manifest.json", '{"operators": [{}], "files": {}}', "got {}"),
    ("manifest.json", '{"operators": [], "files": {}, "cann": [8, 9]}', "got 8 at ['cann'][0]"),
    ("manifest.json", '{"operators": ["\\ud800"], "files": {}}', "expected JSON"),
    ("built.json", '{"toolkit": 8, "files": {}}', "got 8 at ['toolkit']"),
]


@pytest.mark.parametrize(("file", "text", "expected_text", "follows"), [(*row[:3], row[3:]) for row in MALFORMED])
def test_a_malformed_file_is_named(tree, file, text, expected_text, follows):
    (tree.vendor / file).write_text(text)
    found = tree.faults()
    assert {fault.check for fault in found} == {"malformed", *follows}, "\n".join(map(str, found))
    line = next(str(fault) for fault in found if fault.check == "malformed")
    assert line.startswith(f"{tree.vendor / file}: got ")
    assert expected_text in line
    assert ", expected" in line
    assert "; install the package again" in line


@pytest.mark.parametrize(
    ("file", "check"),
    [
        (f"{VENDOR}/manifest.json", "malformed"),
        (f"{VENDOR}/{OPS_INFO}", "malformed"),
        (f"{VENDOR}/op_api/lib/libcust_opapi.so", "library-broken"),
        ("toolkit/opp/scene.info", "no-scene"),
        ("toolkit/opp/vendors/config.ini", "config-unreadable"),
        ("toolkit/compiler/version.info", "no-toolkit"),
    ],
)
def test_a_pipe_is_not_read(tree, file, check):
    path = tree.toolkit.parent / file
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert check in {fault.check for fault in tree.faults()}


@fault("malformed", "expected")
def description_broken(tree):
    (tree.vendor / OPS_INFO).write_text("{")


@fault("file-changed", "differs from the installed file")
def file_changed(tree):
    manifest = {"operators": [OP_TYPE], "files": {"version.info": "0" * 64}}
    (tree.vendor / "manifest.json").write_text(json.dumps(manifest))


@fault("file-missing", "does not exist, but the manifest lists it")
def file_missing(tree):
    manifest = {"operators": [OP_TYPE], "files": {"op_api/include/aclnn_x.h": "0" * 64}}
    (tree.vendor / "manifest.json").write_text(json.dumps(manifest))


@fault("file-missing", "op_api/include/aclnn_x.h: does not exist, but the manifest lists it; 1 more are missing")
def files_missing(tree):
    manifest = {"operators": [OP_TYPE], "files": {f"op_api/include/aclnn_{name}.h": "0" * 64 for name in "xy"}}
    (tree.vendor / "manifest.json").write_text(json.dumps(manifest))


@fault("cann-version", "is made for CANN 8.2 to 9.1, but the toolkit is 8.1.RC1")
def packed_for_a_newer_toolkit(tree):
    manifest = {"operators": [OP_TYPE], "files": {}, "cann": ["8.2", "9.1"]}
    (tree.vendor / "manifest.json").write_text(json.dumps(manifest))


@fault("cann-version", "is made for CANN 9.1.0 to 9.1.0")
def built_with_a_newer_toolkit(tree):
    (tree.vendor / "built.json").write_text(json.dumps({"toolkit": "9.1.0", "files": {}}))


@fault("file-changed", "differs from the installed file")
def built_file_changed(tree):
    built = {"toolkit": "8.1.RC1", "files": {"op_api/lib/libcust_opapi.so": "0" * 64}}
    (tree.vendor / "built.json").write_text(json.dumps(built))


@fault("build-unfinished", "contains an unfinished build; the previous version is in use")
def build_was_killed(tree):
    tree.vendor.with_name(".acme.build").mkdir()


@fault(
    "vendor-too-large",
    "got folders more than 64 levels deep, expected fewer levels; remove the files that are not part",
)
def folder_too_deep(tree):
    (tree.vendor / "docs").joinpath(*["d"] * 70).mkdir(parents=True)


@fault("cut-off", "run the installer again")
def installation_was_killed(tree):
    tree.vendor.with_name(".acme.work").mkdir()
    tree.vendor.rename(tree.vendor.with_name(".acme.work") / "old")


@fault("cut-off", "run the installer again")
def installation_into_the_toolkit_was_killed(tree):
    (tree.opp / "vendors/.beta.work/old").mkdir(parents=True)
    (tree.opp / "vendors/config.ini").write_text("load_priority=beta\n")


@fault("cannot-load", "ends the program that loads it (exit code 3)")
def library_ends_its_program(tree):
    tree.library(tree.vendor / "framework/onnx/libcust_onnx_parsers.so", "ends")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(tree, name):
    change, check, expected_text, follows = FAULTS[name]
    change(tree)
    found = tree.faults(usual=[tree.toolkit])
    matching = [str(fault) for fault in found if fault.check == check]
    assert any(expected_text in line for line in matching), "\n".join(map(str, found))
    assert {fault.check for fault in found} == {check, *follows}, "\n".join(map(str, found))


GE, FE, ONNX, ACLNN, KERNELS = "GE registry", "FE and ATC", "ONNX parser", "aclnn, torch_npu", "aclnn kernels"


@pytest.mark.parametrize(
    ("name", "blind"),
    [
        ("built_for_an_older_toolkit", {GE, ONNX}),
        ("opp_without_builtin", {GE, ONNX}),
        ("implementation_is_a_file", {FE}),
        ("implementation_empty", {FE}),
        ("description_broken", {FE, KERNELS}),
        ("description_misnamed", {FE, KERNELS}),
        ("another_soc", {FE, KERNELS}),
        ("source_release", {KERNELS}),
        ("kernel_file_empty", {KERNELS}),
        ("library_is_a_folder", {ACLNN}),
        ("library_in_another_folder", {ACLNN}),
        ("new_abi", {ACLNN}),
        ("library_of_another_processor", {ONNX}),
        ("library_ends_its_program", {ONNX}),
        ("libraries_of_another_machine", {GE}),
        ("tiling_library_missing", {GE, KERNELS}),
        ("empty_folder_hides_the_tiling", {GE}),
        ("registry_not_linked", {GE}),
        ("file_changed", set()),
        ("manifest_missing", set()),
    ],
)
def test_programs_affected_by_each_fault(tree, name, blind):
    FAULTS[name][0](tree)
    environment = CannEnvironment(tree.environment, ())
    seen = diagnosis(environment, SOC, find_faults(environment, SOC))["operators"][OP_TYPE]
    assert {program for program, folder in seen.items() if folder != str(tree.vendor)} == blind


def test_devices_that_the_document_does_not_list_are_named(tree):
    manifest = json.loads((tree.vendor / "manifest.json").read_text())
    manifest["undocumented"] = {OP_TYPE: ["A200I A2 Box", "Atlas A3 training"]}
    (tree.vendor / "manifest.json").write_text(json.dumps(manifest))
    for soc, devices in (("ascend910b", ["A200I A2 Box"]), (None, ["A200I A2 Box", "Atlas A3 training"])):
        found = diagnosis(CannEnvironment(tree.environment, ()), soc, [])
        assert [vendor["undocumented"] for vendor in found["vendors"]] == [{OP_TYPE: devices}]
    assert tree.faults() == []


def test_every_check_has_a_fault_tree():
    modules = (toolkit_checks, search_checks, vendor_checks, library_checks, kernel_checks)
    tables = [table for module in modules for table in vars(module).values() if isinstance(table, Checks)]
    names = {name for table in tables for name, _ in table.rows}
    assert names == {check for _, check, _, _ in FAULTS.values()} | {UNREADABLE}


@contextlib.contextmanager
def another_user():
    """Remove the root permissions, because root can read everything."""
    if os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


@pytest.mark.parametrize(
    ("path", "mode", "command", "whole"),
    [
        ("", 0o755, None, ""),
        (f"{VENDOR}/{TBE}/config/{SOC}/aic-{SOC}-ops-info.json", 0o600, "chmod -R a+rX", VENDOR),
        (f"{VENDOR}/manifest.json", 0o200, "chmod -R a+rX", VENDOR),
        (f"{VENDOR}/op_api", 0o000, "chmod -R a+rX", VENDOR),
        (f"{VENDOR}/{TBE}/kernel", 0o400, "chmod -R a+rX", VENDOR),
        (VENDOR, 0o700, "chmod -R a+rX", VENDOR),
        ("Täger's opp", 0o700, "chmod a+x", "Täger's opp"),
        ("toolkit", 0o000, "chmod -R a+rX", "toolkit"),
        ("toolkit/compiler", 0o600, "chmod -R a+rX", "toolkit"),
        ("toolkit/compiler/version.info", 0o000, "chmod -R a+rX", "toolkit"),
        ("toolkit/opp/scene.info", 0o600, "chmod -R a+rX", "toolkit/opp"),
        ("toolkit/opp/vendors", 0o600, "chmod -R a+rX", "toolkit/opp/vendors"),
        ("toolkit/opp/vendors/config.ini", 0o600, "chmod -R a+rX", "toolkit/opp/vendors/config.ini"),
        ("toolkit/opp/vendors/beta", 0o600, "chmod -R a+rX", "toolkit/opp/vendors/beta"),
    ],
)
def test_unreadable_files_are_named_with_a_fix(compiled, monkeypatch, path, mode, command, whole):
    monkeypatch.setattr("opforge.package.doctor.library_checks.load", lambda *_: iter(()))
    with tempfile.TemporaryDirectory() as shared:
        root = Path(shared)
        tree = Tree(root, compiled)
        if path.startswith("toolkit/opp/vendors"):
            (tree.opp / "vendors/beta/op_proto").mkdir(parents=True)
            (tree.opp / "vendors/config.ini").write_text("load_priority=beta\n")
        place = root / path
        before = place.stat().st_mode
        root.chmod(0o755)
        place.chmod(mode)
        diagnosis(CannEnvironment({}, ()), SOC, [])  # imports modules that the other user cannot read
        with another_user():
            found = tree.faults()
            seen = diagnosis(CannEnvironment(tree.environment, ()), SOC, found)
        place.chmod(before)
    assert seen["vendors"] or path
    if path.endswith("op_api"):
        assert seen["operators"][OP_TYPE]["aclnn, torch_npu"] == "CANN's own"
        assert seen["operators"][OP_TYPE]["ONNX parser"] == str(tree.vendor)
    expected = [("unreadable", f"{command} {shlex.quote(str(root / whole))}")] if command else []
    assert [(fault.check, fault.repair.partition(", or run")[0]) for fault in found] == expected, "\n".join(
        map(str, found)
    )
    if command:
        assert found[0].place == str(place).rstrip("/")
        assert f"cannot be read by this user (mode {mode:o})" in found[0].cause


@pytest.mark.parametrize("link", ["toolkit", VENDOR, "toolkit/opp/built-in", f"{VENDOR}/op_api"])
def test_link_to_an_unreadable_folder(compiled, monkeypatch, link):
    monkeypatch.setattr("opforge.package.doctor.library_checks.load", lambda *_: iter(()))
    with tempfile.TemporaryDirectory() as shared:
        root = Path(shared)
        tree = Tree(root, compiled)
        (root / "private").mkdir()
        (root / link).rename(root / "private/moved")
        (root / link).symlink_to(root / "private/moved")
        root.chmod(0o755)
        (root / "private").chmod(0o700)
        with another_user():
            found = tree.faults()
        (root / "private").chmod(0o755)
        again = tree.faults()
    assert (str(root / "private"), f"chmod a+x {root}/private") in {
        (fault.place, fault.repair.partition(", or run")[0]) for fault in found if fault.check == "unreadable"
    }
    assert again == []


@pytest.mark.parametrize(
    ("variable", "value", "folder"),
    [
        ("ASCEND_CUSTOM_OPP_PATH", "vendors/acme", "vendors/acme"),
        ("ASCEND_CUSTOM_OPP_PATH", "vendors/acme", "vendors"),
        ("ASCEND_OPP_PATH", ".", "vendors"),
        ("ASCEND_OPP_PATH", ".", "vendors/acme"),
    ],
)
def test_folder_of_another_user_is_called_unreadable(variable, value, folder):
    with tempfile.TemporaryDirectory() as shared:
        closed = Path(shared) / folder
        (Path(shared) / "vendors/acme/op_impl").mkdir(parents=True)
        (Path(shared) / "vendors/config.ini").write_text("load_priority=acme\n")
        (Path(shared) / "built-in").mkdir()
        (Path(shared) / "scene.info").write_text("arch=x86_64\n")
        Path(shared).chmod(0o755)
        closed.chmod(0)
        with another_user():
            found = find_faults(CannEnvironment({variable: str(Path(shared) / value)}, ()))
        closed.chmod(0o700)
    others = [(fault.check, fault.place) for fault in found if fault.check != "set-env-not-sourced"]
    assert others == [("unreadable", str(closed))]


@pytest.mark.parametrize(
    ("version", "required", "accepted"),
    [
        ("8.1", ">=8.0,<=8.3", True),
        ("8.1.RC1", ">=8.0, <=8.3", True),
        ("8.31", ">=8.0,<=8.3", False),
        ("8.21", ">=8.0,<=8.3", True),
        ("7.9", ">=8.0,<=8.3,7.9", True),
        ("eight", ">=8.0,<=8.3", False),
        ("8.1", ">=8.0", False),
    ],
)
def test_version_ranges(version, required, accepted):
    assert is_version_accepted(version, required) is accepted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--soc", "ascend910b"], "--soc: got 'ascend910b', expected one of Ascend910B1, "),
        (
            ["--soc", "Ascend910B"],
            "--soc: got 'Ascend910B', a chip of ascend910 that opforge does not support",
        ),
        (["--soc", "Ascend910B1", "--product", "ascend910b"], "--product: got --soc also, expected one of them"),
        (["--product", "ascend910c"], "--product: got 'ascend910c', expected an SoC directory"),
    ],
)
def test_a_chip_and_a_directory_are_different_options(words, message):
    assert message in str(CliRunner().invoke(app, ["doctor", *words]).exception)


def test_the_command_answers_for_each_program(tree, monkeypatch):
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, tree.environment[name])
    healthy = CliRunner().invoke(app, ["doctor", "--json", "--soc", "Ascend910B1"])
    assert healthy.exit_code == 0, healthy.output
    answer = json.loads(healthy.stdout)
    assert answer["faults"] == []
    assert set(answer["operators"][OP_TYPE].values()) == {str(tree.vendor)}

    source_release(tree)
    faulty = CliRunner().invoke(app, ["doctor", "--json"])
    assert faulty.exit_code == 1
    answer = json.loads(faulty.stdout)
    assert [found["check"] for found in answer["faults"]] == ["binaries-missing"]
    assert answer["operators"][OP_TYPE]["aclnn kernels"] == "CANN's own"
    assert answer["operators"][OP_TYPE]["FE and ATC"] == str(tree.vendor)
    shown = CliRunner().invoke(app, ["doctor"])
    assert "binaries-missing" in shown.output
    assert f"vendor 1 {tree.vendor}" in shown.output
    assert re.search(rf"{OP_TYPE} .* vendor 1 ", shown.output)
    assert "…" not in shown.output


def test_missing_environment_names_the_script_to_source(monkeypatch, tmp_path):
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(CannEnvironment, "toolkits", [])
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 1, shown.output
    printed = shown.output.splitlines()[-1]
    assert printed.startswith("no operator package is visible in this shell: neither ASCEND_CUSTOM_OPP_PATH nor")
    assert printed.endswith("; source FOLDER/vendors/<vendor>/bin/set_env.bash of the installation")


TABLE = """\
+---------------------------+---------------+
| NPU   Name                | Health        |
| Chip                      | Bus-Id        |
+===========================+===============+
| 3     {name:<20}| OK            |
| 0                         | 0000:9D:00.0  |
"""


@pytest.mark.parametrize(
    ("name", "board", "chip"),
    [
        ("910B3", "", "Ascend910B3"),
        ("310P3", "", "Ascend310P3"),
        ("Ascend910", "    NPU ID    : 3\n    Chip Name    : Ascend910\n    NPU Name    : 9362\n", "Ascend910_9362"),
        ("Ascend910", "", ""),
    ],
)
def test_chip_of_the_machine(name, board, chip):
    asked = []
    assert chip_of(TABLE.format(name=name), lambda npu: asked.append(npu) or board) == chip
    assert asked == (["3"] if name == "Ascend910" else [])
    assert chip_of("no device was found", str) == ""


def test_directory_of_a_chip_is_read_from_the_toolkit(tmp_path):
    ini = tmp_path / "x86_64-linux/data/platform_config/Ascend310P3.ini"
    ini.parent.mkdir(parents=True)
    ini.write_text("[version]\nShort_SoC_version=Ascend310P\n")
    assert directory_of("Ascend310P3", [tmp_path]) == "ascend310p"
    assert directory_of("Ascend310P3", []) == ""
    assert directory_of("Ascend910_9362", [tmp_path]) == "ascend910_93"
    assert find_device({"PATH": "/nowhere"}, []) is None
    assert find_device({"SOC_VERSION": "Ascend910B2"}, []) == ("Ascend910B2", "ascend910b", "SOC_VERSION")


def test_soc_is_read_from_the_driver(tree, monkeypatch, tmp_path):
    program = tmp_path / "npu-smi"
    program.write_text(f"#!/bin/sh\ncat <<'E'\n{TABLE.format(name='Ascend910')}    NPU Name : 9391\nE\n")
    program.chmod(0o755)
    monkeypatch.delenv("SOC_VERSION", raising=False)
    for name, value in (tree.environment | {"PATH": f"{tmp_path}:/usr/bin:/bin"}).items():
        monkeypatch.setenv(name, value)
    answer = CliRunner().invoke(app, ["doctor", "--json"])
    found = json.loads(answer.stdout)
    assert found["device"] == {"chip": "Ascend910_9391", "directory": "ascend910_93", "origin": "npu-smi"}
    assert [fault["check"] for fault in found["faults"]] == ["wrong-soc"]
    assert "product ascend910_93 (npu-smi reports Ascend910_9391)" in CliRunner().invoke(app, ["doctor"]).output
