"""Run the benchmark of compile times: earlier headers, one compilation, and exit codes. Speed is not tested here."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from opforge.codegen.errors import UserError

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "headers.py"
KERNEL = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void tiny(GM_ADDR x)
{
    AscendC::GlobalTensor<DTYPE_X> values;
    values.SetGlobalBuffer(reinterpret_cast<__gm__ DTYPE_X*>(x));
}
"""


@pytest.fixture
def headers(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module("headers")


def test_one_kernel_is_compiled_with_both_headers(headers, tmp_path, monkeypatch):
    monkeypatch.setattr(headers, "RUNS", 1)
    source = tmp_path / "tiny.cpp"
    source.write_text(KERNEL, encoding="utf-8")
    before = headers.earlier_headers("HEAD", tmp_path / "before")
    assert (tmp_path / "before" / "twin" / "include" / "kernel_operator.h").is_file()
    row = headers.measured(source, before)
    assert (row.kernel, row.before_s > 0.1, row.now_s > 0.1) == ("tiny", True, True)
    assert row.ratio == pytest.approx(row.now_s / row.before_s, rel=0.1)
    source.write_text(KERNEL.replace("DTYPE_X*", "Absent*"), encoding="utf-8")
    with pytest.raises(UserError, match=r"tiny\.cpp: the compiler rejected it"):
        headers.measured(source, before)


@pytest.mark.parametrize(("ratio", "code"), [(1.3, 0), (1.31, 1)])
def test_a_ratio_above_the_limit_is_exit_code_1(headers, tmp_path, monkeypatch, capsys, ratio, code):
    sources = tmp_path / "gen" / "op_kernel"
    sources.mkdir(parents=True)
    (sources / "tiny.cpp").write_text(KERNEL, encoding="utf-8")
    monkeypatch.setenv("OPFORGE_BUILD_DIR", str(tmp_path))
    monkeypatch.setattr(headers, "earlier_headers", lambda _commit, _folder: ())
    monkeypatch.setattr(headers, "measured", lambda source, _: headers.Row(source.stem, 2.0, 2.0 * ratio, ratio))
    rows = tmp_path / "rows.json"
    if code:
        with pytest.raises(SystemExit) as ended:
            headers.main("HEAD", rows)
        assert ended.value.code == code
    else:
        headers.main("HEAD", rows)
    assert json.loads(rows.read_text()) == [{"kernel": "tiny", "before_s": 2.0, "now_s": 2.0 * ratio, "ratio": ratio}]
    assert capsys.readouterr().out.splitlines()[0].split() == ["kernel", "before", "s", "now", "s", "ratio"]


def test_an_unknown_commit_is_rejected():
    command = [sys.executable, str(SCRIPT), "--against", "no-such-commit"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "expected a commit with twin/include" in done.stderr or "run `opforge build`" in done.stderr
