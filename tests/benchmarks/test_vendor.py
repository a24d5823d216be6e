"""Test the comparison with kernels of cloned repositories: tiling data in source text, and invalid clones."""

from __future__ import annotations

import importlib
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from opforge.codegen.errors import UserError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FIELDS = "TILING_DATA_FIELD_DEF(uint32_t, cores);\nTILING_DATA_FIELD_DEF(int64_t, rows);  // note\n"


@pytest.fixture
def vendor(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("vendor")


@pytest.fixture
def kernel(vendor, tmp_path):
    (tmp_path / "fields.h").write_text(FIELDS, encoding="utf-8")
    return vendor.VendorKernel("Some", "ops-math", "math/some", "tilings.py", "fields.h")


def test_tiling_data_have_the_alignment_of_c(vendor, kernel, tmp_path):
    (tmp_path / "tilings.py").write_text("case1 = [3, -4]  # note\n", encoding="utf-8")
    tiling = vendor.tiling_of(kernel, vendor.VendorCase("case1", "KEY", "fp16"), tmp_path)
    assert tiling == {"cores": 3, "rows": -4}
    assert vendor.packed(kernel, tiling, tmp_path) == struct.pack("<IIq", 3, 0, -4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "case1 = [1]",
        "case1 = [1, 'a']",
        "case1 = [1, 2.5]",
        "case1 = [print(1), 2]",
        "case1 = [1, [2]",
        "case1 = [,]",
    ],
)
def test_other_lists_are_one_message(vendor, kernel, tmp_path, text):
    (tmp_path / "tilings.py").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="case1: got no list of 2 integers"):
        vendor.tiling_of(kernel, vendor.VendorCase("case1", "KEY", "fp16"), tmp_path)


@pytest.mark.parametrize("options", [("--ops-math", "nothing"), ("--ops-math", "."), ("--json", "no/file.json")])
def test_wrong_clones_are_one_message(tmp_path, options):
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "vendor.py"), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "expected" in done.stderr or "create it" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_clones_each_kernel_has_its_reason(vendor):
    done = subprocess.run([sys.executable, str(BENCHMARKS / "vendor.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    lines = [line for line in done.stdout.splitlines() if line.startswith("not run: ")]
    assert len(lines) == len(vendor.KERNELS)
    assert all("is not given" in line for line in lines)
