"""Compare CONTRIBUTING.md and the tables of products with the sources."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from onnx import TensorProto

from opforge.codegen.data.dtypes import CANN_DTYPES, DTYPES, FORMATS
from opforge.codegen.data.products import BUILT_PRODUCTS, DEFAULT_SOC, PRODUCTS, SOCS
from opforge.codegen.errors import UserError
from opforge.package.socs import opc_chips
from opforge.twin.compiler import npu_model as npu_model_module
from opforge.twin.compiler.npu_model import npu_model

ROOT = Path(__file__).resolve().parent.parent
# Files that builds and readers of README.md create.
MADE = re.findall(r"^/?(.+)/$", (ROOT / ".gitignore").read_text(encoding="utf-8"), re.MULTILINE)
FOLDERS = sorted(
    path.name
    for path in ROOT.iterdir()
    if path.is_dir() and path.name[0] != "." and not any(fnmatch(path.name, made) for made in MADE)
)
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WHERE = CONTRIBUTING.split("## Folders")[1].split("\n## ")[0]


def test_every_folder_is_described():
    assert sorted(re.findall(r"`(\w+)/`", WHERE)) == FOLDERS


def test_sources_that_name_a_soc_are_listed():
    section = CONTRIBUTING.split("## Another chip")[1].split("\n## ")[0]
    folders = [ROOT / folder for folder in FOLDERS if folder != "tests"]
    sources = [path for suffix in ("py", "h", "cpp", "j2") for at in folders for path in at.rglob(f"*.{suffix}")]
    found = {str(path.relative_to(ROOT)) for path in sources if _names_a_soc(path)}
    listed = set(re.findall(r"`([\w/]+\.(?:py|h|cpp))`", section)) - {"op_host/opforge_tables.h"}
    assert {path for path in found if "/tests/" not in path} == listed


def _names_a_soc(path: Path) -> bool:
    """Return whether code without comments contains an architecture, a chip or an SoC directory."""
    text = path.read_text(encoding="utf-8")
    directories = "|".join(PRODUCTS)
    words = rf"(?i:k?(?:{directories}|{'|'.join(SOCS)}))|{'|'.join({str(soc.arch) for soc in SOCS.values()})}"
    if path.suffix != ".py":
        return re.search(rf"\b(?:{words})\b", re.sub(r"//[^\n]*", "", text)) is not None
    constants = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    return any(re.fullmatch(words, str(value)) for value in constants)


def test_the_time_model_has_rates_of_known_chips_only():
    model = npu_model()
    named = {chip for constant in model["constants"].values() for chip in constant.get("soc", {})}
    assert named | set(model["errors"]["calibrated"]["socs"]) <= SOCS.keys()
    assert len(named) > 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda _: "", "JSONDecodeError"),
        (lambda text: text[:3000], "JSONDecodeError"),
        (lambda _: "{}", "KeyError"),
        (lambda _: "[]", "TypeError"),
        (lambda text: text.replace('"value": 22.0', '"value": "fast"'), "got 'fast', expected a number above 0"),
        (lambda text: text.replace('"value": 22.0', '"value": NaN'), "got nan, expected a number above 0"),
        (lambda text: text.replace('"value": 22.0', '"value": -1'), "got -1, expected a number above 0"),
        (lambda text: text.replace('"left_out"', '"left"'), "KeyError"),
        (lambda text: text.replace('"dma_issue_cycles"', '"dma_issue"'), "constants: dma_issue_cycles missing"),
        (lambda text: text.replace('"l0c_out_bytes_per_cycle"', '"a"'), "constants: l0c_out_bytes_per_cycle missing"),
        (lambda text: text.replace('"bf16": 4096', '"fp8": 4096'), "constants: cube_macs_per_cycle_bf16 missing"),
        (lambda text: text.replace('"host_launch_seconds"', '"9"'), "got the name '9', expected lower-case letters"),
        (
            lambda text: text.replace('"note": "16', '"soc": {"Ascend910B4": {"value": 1}}, "note": "16'),
            "got values of chips",
        ),
    ],
)
def test_a_damaged_time_model_is_one_message(monkeypatch, tmp_path, change, problem):
    text = (npu_model_module.TWIN / "npu_model.json").read_text(encoding="utf-8")
    assert change(text) != text
    (tmp_path / "npu_model.json").write_text(change(text), encoding="utf-8")
    monkeypatch.setattr(npu_model_module, "TWIN", tmp_path)
    with pytest.raises(UserError, match=r"npu_model\.json: got a damaged time model .*restore the file") as error:
        npu_model.__wrapped__()
    assert problem in str(error.value)


def test_the_numbers_of_onnx():
    numbers = {dtype.name: dtype.onnx for dtype in CANN_DTYPES if dtype.onnx}
    names = {"float32": "FLOAT", "float64": "DOUBLE"}
    assert numbers == {name: TensorProto.DataType.Value(names.get(name, name.upper())) for name in DTYPES}


def test_the_tables_agree_with_each_other_and_with_the_headers():
    header = (ROOT / "twin/include/opforge_twin/kernel/language.h").read_text(encoding="utf-8")
    architectures = set(re.findall(r"^#(?:el)?if __NPU_ARCH__ == (\d+)$", header, re.MULTILINE))
    assert opc_chips().keys() == set(BUILT_PRODUCTS)
    assert {arch for arch, _ in opc_chips().values()} == architectures
    assert DEFAULT_SOC in SOCS
    for path, prefix, rows in (
        ("graph/types.h", "", [(dtype.ge, dtype.number) for dtype in CANN_DTYPES]),
        ("graph/types.h", "FORMAT_", FORMATS.items()),
        ("acl/acl_base.h", "ACL_FORMAT_", FORMATS.items()),
        ("acl/acl_base.h", "ACL_", [(dtype.ge.removeprefix("DT_"), dtype.number) for dtype in CANN_DTYPES]),
        ("ascendc/host_api/tiling/template_argument.h", "C_FORMAT_", FORMATS.items()),
        (
            "ascendc/host_api/tiling/template_argument.h",
            "C_",
            [(dtype.ge, dtype.number) for dtype in CANN_DTYPES if dtype.name != "string"],
        ),
    ):
        text = (ROOT / "twin/include" / path).read_text(encoding="utf-8")
        known = dict(re.findall(r"^ +(\w+) = (\d+),", text, re.MULTILINE))
        wrong = [name for name, number in rows if known.get(prefix + name) != str(number)]
        assert (wrong, len(known) > 20) == ([], True)
