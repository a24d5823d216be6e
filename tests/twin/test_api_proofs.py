"""Require tests of the result, of a misuse and of the time for each API function that the headers declare."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from api_proofs import PROOFS
from instruction_rows import Row
from planted import Planted

from opforge.twin.build import INCLUDE, include_flags
from opforge.twin.compiler.flags import COMMON
from opforge.twin.compiler.units import compiler

from . import (
    test_high_families,
    test_high_pointwise,
    test_high_softmax,
    test_high_tiling,
    test_kernel_numbers,
)
from .high_level import function_of

HERE = Path(__file__).parent
KINDS = ("result", "misuse", "time")
HEADERS = ("kernel_operator.h", "lib/matmul_intf.h", "tiling/tiling_api.h", "tikicpulib.h")
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
NAMED = re.compile(r"[^=(]*?\b(operator\s*[^\s(]+|\w+)\s*\(")


def _headers() -> str:
    """Return the preprocessed headers of the twin, without those of the compiler."""
    source = "".join(f'#include "{name}"\n' for name in HEADERS)
    command = [compiler()[0], *COMMON, *include_flags(), "-E", "-xc++", "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    parts = re.split(r'^# \d+ "([^"]*)".*\n', text, flags=re.MULTILINE)
    own = str(INCLUDE)
    return TEXT.sub("0", "".join(body for file, body in zip(parts[1::2], parts[2::2], strict=True) if own in file))


def _without_template(head: str) -> str:
    """Return a declaration without its template parameters."""
    while head.startswith("template"):
        depth = 0
        for at, letter in enumerate(head):
            depth += {"<": 1, ">": -1}.get(letter, 0) if head[at - 1] != "-" else 0
            if letter == ">" and depth == 0:
                break
        head = head[at + 1 :].strip()
    return head


@cache
def declared() -> frozenset[str]:
    """Return the functions that the headers declare in namespace AscendC."""
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", _headers(), flags=re.DOTALL)
    names, scopes, start = set(), [], 0
    for mark in re.finditer(r"[{};]", text):
        head = text[start : mark.start()].strip()
        start = mark.end()
        space = re.search(r"\bnamespace\s+([\w:]*)$", head)
        if scopes == ["AscendC"] and mark[0] != "}" and space is None:
            head = _without_template(head)
            found = NAMED.match(head)
            if found and not re.match(r"using\b|static_assert\b|struct\b|class\b|enum\b|extern\b|typedef\b", head):
                names.add(re.sub(r"operator\s*", "operator ", found[1]))
        if mark[0] == "{":
            scopes.append(space[1] if space else "")
        elif mark[0] == "}":
            scopes.pop()
    return frozenset(names)


def _proven_by_rows() -> dict[str, set[str]]:
    """Return the functions of the tables whose tests compare the result, find a mistake and compare the cycles."""
    others = (path for path in HERE.glob("test_*.py") if path.name != Path(__file__).name)
    tables = [path.stem for path in others if "from instruction_rows import" in path.read_text("utf-8")]
    rows = [row for name in tables for row in _imported(name).ROWS]
    timed = {function for row in rows for function in row.times}
    numbers = {test_kernel_numbers.function_of(body) for _, body, _, _ in test_kernel_numbers._misuses()}
    numbers_timed = {function for times in test_kernel_numbers.times().values() for function in times}
    high = {function_of(case[0]) for case in test_high_pointwise.CASES.values()}
    high |= {function_of(case[0]) for case in test_high_softmax.CASES.values()}
    high |= {function_of(case[1]) for name, case in test_high_families.CASES.items() if name != "arange"}
    host = {*test_high_tiling.SIZES, *test_high_tiling.TILING}
    host |= {f"Get{name}TmpBufferFactorSize" for name in test_high_tiling.FACTORS}
    found = timed | numbers_timed
    return {
        "result": found | high | host,
        "misuse": {row.function for row in rows} | numbers | high | host,
        "time": found | high | host,  # functions of the host have no time
    }


def _imported(name: str):
    return importlib.import_module(f".{name}", __package__)


def _module(file: str):
    return _imported(f"test_kernel_{file}" if (HERE / f"test_kernel_{file}.py").is_file() else f"test_{file}")


def _texts(value: object) -> Iterable[tuple[str, str]]:
    """Yield the names in a table with the text of each."""
    if isinstance(value, dict):
        yield from ((key, f"{key} {text}") for key, text in value.items() if isinstance(key, str))
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, Planted):
                yield item.name, f"{item.line} {item.mistake} {item.message}"
            elif isinstance(item, Row):
                yield item.name, f"{item.body} {item.mistake} {item.times}"


@cache
def _named(file: str) -> dict[str, list[str]]:
    """Return the texts of the tests, rows and planted mistakes of a module by name."""
    module = _module(file)
    source = inspect.getsource(module)
    source += "".join(
        (HERE / name).read_text(encoding="utf-8")
        for name in re.findall(r'"(\w+\.h)"', source)
        if (HERE / name).is_file()
    )
    names: dict[str, list[str]] = {name: [source] for name in vars(module) if name.startswith("test_")}
    for value in vars(module).values():
        for name, text in _texts(value):
            names.setdefault(name, []).append(text)
    return names


@pytest.mark.parametrize("kind", KINDS)
def test_each_function_has_a_proof_or_a_reason(kind):
    proven = _proven_by_rows()[kind] | {name for name, proof in PROOFS.items() if proof[KINDS.index(kind)]}
    assert sorted(declared() - proven) == []


def test_the_table_has_only_functions():
    assert sorted(PROOFS.keys() - declared()) == []


def test_each_proof_exists_and_calls_the_function():
    missing = []
    for function, proofs in PROOFS.items():
        symbol = function.removeprefix("operator ")
        call = re.escape(symbol) if symbol != function else rf"\b{symbol}\b"
        for proof in proofs:
            file, name = proof.split(":", 1)
            if file != "none" and not any(re.search(call, text) for text in _named(file).get(name, [])):
                missing.append((function, proof))
    assert missing == [], missing


def test_declarations_are_found():
    """The reader of declarations finds templates, macros, operators and functions of the host."""
    assert {"Add", "SyncAll", "GetSinMaxMinTmpSize", "SoftMax", "operator ==", "GmAlloc"} <= declared()
    assert not {"LocalTensor", "GetValue", "Here", "if", "enable_if_t"} & declared()
    assert len(declared()) > 400
