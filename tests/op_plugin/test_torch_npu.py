"""Test the ctypes binding for NPU tensors, on a device "npu" of PyTorch whose memory and streams are the CPU twin's.

PyTorch can have one such device per process, and only after the first backward call. So the checks run in a separate
process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'opforge[torch]'")

from opforge.codegen.errors import MissingToolError
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.torch import npu
from opforge.twin.build import build_project, build_runtime

HERE = Path(__file__).resolve().parent
DEVICE = HERE / "npu_device"
TRAINING = HERE.parents[1] / "examples" / "train_cpu.py"


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    """Return the environment of a process with the device, with the twin as CANN and the operators as installed
    package."""
    folder = tmp_path_factory.mktemp("cann")
    for name in ("libascendcl.so", "libnnopbase.so", "libopapi.so"):
        (folder / name).symlink_to(build_runtime())
    target = folder / "libdevice.so"
    packages = Path(torch.__file__).parent
    folders = [packages / "include", packages / "include" / "torch" / "csrc" / "api" / "include"]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    compiler = [os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-w", "-fPIC", "-shared", abi]
    libraries = [f"-L{packages / 'lib'}", "-ltorch_cpu", "-lc10"]
    sources = [f"-I{include}" for include in folders]
    command = [*compiler, *sources, str(DEVICE / "device.cpp"), *libraries, "-o", str(target)]
    subprocess.run(command, check=True)
    vendor = build_project(Project(BUILTIN_ROOT), ["Ascend910B1"]).vendor_dir
    return os.environ | {
        "OPFORGE_TEST_DEVICE": str(target),
        "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        "ASCEND_CUSTOM_OPP_PATH": str(vendor),
        "PYTHONPATH": f"{DEVICE}:{HERE}",
    }


def run(command, variables, folder):
    ran = subprocess.run(
        [sys.executable, *command], env=variables, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.long
def test_calls_on_the_device(variables, tmp_path):
    options = [
        "-q",
        "--noconftest",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        f"--rootdir={DEVICE}",
        "-c",
        os.devnull,
    ]
    run(["-m", "pytest", *options, str(DEVICE / "checks.py")], variables, tmp_path)


@pytest.mark.long
def test_the_training_example_runs_on_the_device(variables, tmp_path):
    assert "opforge" in run([str(TRAINING), "--device", "npu", "--steps", "2"], variables, tmp_path)


def test_a_missing_package_is_named(monkeypatch):
    for name in ("ASCEND_CUSTOM_OPP_PATH", "ASCEND_OPP_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    npu.installed_libraries.cache_clear()
    with pytest.raises(MissingToolError, match=r"libascendcl.so: got .*, expected CANN"):
        npu.installed_libraries()
