"""Test that the CMake project builds the host libraries with the twin instead of CANN."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opforge.codegen.project import find_project

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("cust_opsproto_rt2.0", "cust_opmaster_rt2.0", "cust_opapi", "cust_onnx_parsers")


def test_folder_without_a_toolkit_is_rejected(tmp_path):
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path), "-DOPFORGE_EXECUTABLE=opforge"]
    environment = os.environ | {"ASCEND_HOME_PATH": str(tmp_path)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert f"(or ASCEND_HOME_PATH): got '{tmp_path}'," in " ".join(result.stderr.split())


@pytest.mark.long
def test_host_libraries_build(tmp_path):
    settings = {
        "OPFORGE_EXECUTABLE": Path(sys.executable).with_name("opforge"),
        "OPFORGE_BUILD_DIR": find_project(ROOT).build_dir,
        "ASCEND_CANN_PACKAGE_PATH": "",
        "CMAKE_UNITY_BUILD": "ON",
        "CMAKE_UNITY_BUILD_BATCH_SIZE": "0",
    }
    definitions = [f"-D{name}={value}" for name, value in settings.items()]
    for command in (
        ["cmake", "-S", str(ROOT), "-B", str(tmp_path), *definitions],
        ["cmake", "--build", str(tmp_path), "-j2"],
    ):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    for library in LIBRARIES:
        assert (tmp_path / f"lib{library}.so").is_file()
