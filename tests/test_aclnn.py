"""Test the aclnn interface like an application: signatures, exported symbols, the example program."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from opforge.codegen.project import find_project
from opforge.twin.build import application_flags, build_project

ROOT = Path(__file__).resolve().parent.parent
ACLNN_FUNCTIONS = {
    "aclnnBatchNormElemtBackward",
    "aclnnConvTbcBackward",
    "aclnnEmbeddingDenseBackward",
    "aclnnGroupedBiasAddGrad",
    "aclnnGroupedBiasAddGradV2",
    "aclnnNsaCompressGrad",
}
DOCUMENTED = {f"{function}{phase}" for function in ACLNN_FUNCTIONS for phase in ("", "GetWorkspaceSize")}


@pytest.fixture(scope="module")
def operators():
    return build_project(find_project(ROOT))


def test_signatures_are_the_documented_ones(operators):
    flags = application_flags(find_project(ROOT))
    source = ROOT / "tests" / "aclnn_signatures.cpp"
    result = subprocess.run(
        ["g++", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags, str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def declared(text):
    """Return parameter lists by function, as text without white space: types and names in order."""
    text = re.sub(r"\s+", "", text)
    return dict(re.findall(r"(aclnn(?!Status)\w+)(?:\)?>?,aclnnStatus\(\*\))?\(([^()]*)\)", text))


def test_parameters_have_the_documented_names(operators):
    """The compiler compares types; callers with named arguments and readers of the headers need the names."""
    documented = declared((ROOT / "tests" / "aclnn_signatures.cpp").read_text())
    assert set(documented) == DOCUMENTED
    headers = find_project(ROOT).gen_dir.glob("op_api/aclnn_*.h")
    assert declared("\n".join(path.read_text() for path in headers)) == documented


def test_opapi_exports_exactly_the_documented_functions(operators):
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(operators.opapi)], capture_output=True, text=True, check=True
    )
    assert {line.split()[-1] for line in listing.stdout.splitlines()} == DOCUMENTED


def test_headers_compile_as_c(operators, tmp_path):
    source = tmp_path / "application.c"
    source.write_text(
        '#include "acl/acl.h"\n#include "aclnnop/aclnn_grouped_bias_add_grad.h"\nint main(void) { return 0; }\n'
    )
    flags = [flag for flag in application_flags(find_project(ROOT)) if flag.startswith("-I")]
    result = subprocess.run(
        ["gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags, str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def output_of_example(name, folder):
    """Build an example with the command in its header, run it, and return its output."""
    program = folder / name
    source = ROOT / "examples" / f"{name}.cpp"
    flags = application_flags(find_project(ROOT))
    subprocess.run(["g++", "-Wall", "-Wextra", "-Werror", str(source), *flags, "-o", str(program)], check=True)
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize("path", ["aclnnop/aclnn_grouped_bias_add_grad.h", "aclnn_grouped_bias_add_grad.h"])
def test_headers_are_found_by_both_paths(operators, tmp_path, path):
    source = tmp_path / "application.cpp"
    source.write_text(f'#include "{path}"\nauto* call = &aclnnGroupedBiasAddGrad;\n')
    flags = [flag for flag in application_flags(find_project(ROOT)) if flag.startswith("-I")]
    subprocess.run(["g++", "-std=c++17", "-fsyntax-only", *flags, str(source)], check=True)


def test_example_of_streams_views_and_wrong_calls(operators, tmp_path):
    lines = output_of_example("aclnn_streams", tmp_path).splitlines()
    assert lines[:2] == [
        "columns 8 to 37: 3 groups of 30 columns are right",
        "every second row: 2 groups of 64 columns are right",
    ]
    refusals = dict(line.split(": refused with ") for line in lines[2:])
    assert {call: int(text.split(":")[0]) for call, text in refusals.items()} == {
        "no gradY": 161001,
        "an output of another dtype": 161002,
        "an output of another shape": 161002,
        "a copy of twice the size": 100000,
    }
    # Every rejection has a message.
    assert "grad_y: got null" in refusals["no gradY"]
    assert "got int32, expected float32" in refusals["an output of another dtype"]
    assert "got shape [2, 15], expected [G, H] = [2, 16]" in refusals["an output of another shape"]
    assert "1024 bytes, expected at most 512 (destMax)" in refusals["a copy of twice the size"]


def test_flags_command_builds_the_example(tmp_path):
    opforge = Path(sys.executable).with_name("opforge")
    flags = subprocess.run([str(opforge), "flags"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert f"-I{ROOT / 'twin' / 'include'}" in shlex.split(flags)
