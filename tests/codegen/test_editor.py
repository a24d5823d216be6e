"""Test the language server: diagnostics, completions and positions for the text of a spec."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opforge.codegen import editor

ROOT = Path(__file__).resolve().parents[2]
STARTER = ROOT / "codegen/starters/row_reduction"
SESSION = Path(__file__).parent / "specimens" / "language_server.json"
HAS_PYGLS = importlib.util.find_spec("pygls") is not None


@pytest.fixture
def spec() -> tuple[Path, str]:
    file = STARTER / "op_proto/row_max.yaml"
    return file, file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "present", "absent"),
    [
        ("", {"op_type", "inputs", "tiling"}, {"dtypes"}),
        ("inputs:\n  - name: x\n    op", {"optional", "dtypes"}, {"op_type"}),
        ("inputs:\n- name: x\n- op", {"optional", "dtypes"}, {"op_type"}),
        ("inputs:\n  - {name: x, op", {"optional", "dtypes"}, {"op_type"}),
        ("inputs:\n  - {name: x, dtypes: [fl", {"float32", "float16"}, {"optional"}),
        ("inputs:\n  - {name: x,\n     op", {"optional", "dtypes"}, {"op_type"}),
        ("inputs:\n  - {name: 'a{', op", {"optional", "dtypes"}, {"op_type"}),
        ("inputs:\n  - {name: x\nop", {"op_type", "tests"}, {"optional"}),
        ("tests: {shapes: [{case: a, no", {"symbols", "note"}, {"tolerance"}),
        ("tests: {shapes: [{case: a}], to", {"tolerance", "shapes"}, {"symbols"}),
        ("tiling: {data: [{name: n, type: ", {"int32", "uint64"}, {"name", "type"}),
        ("{tiling: {task_type: A", {"AIV_ONLY"}, {"plan"}),
        ("summary: a [b\nin", {"inputs"}, {"name"}),
        ("inputs:\n  - name: x\n    optional: ", {"true", "false"}, {"name", "True"}),
        ("products:\n  - ", {"ascend910b"}, {"op_type"}),
        ("inputs:\n  - name: x\n    dtypes:\n      - fl", {"float32"}, {"optional"}),
        ("# op", set(), {"op_type"}),
        ("attrs:\n  - name: a\n    type: ", {"int", "string"}, {"name"}),
        ("tiling:\n  task_type: A", {"AIV_ONLY"}, {"plan"}),
        ("tests:\n  shapes:\n    - case: a\n      sy", {"symbols", "note"}, {"tolerance"}),
        ("nothing:\n  a", set(), {"op_type"}),
    ],
)
def test_completion_offers_keys_of_the_schema(text, present, absent):
    line = text.count("\n")
    words = set(editor.completions(text, line, len(text) - text.rfind("\n") - 1))
    assert present <= words
    assert not absent & words


def test_problems_have_the_place_of_the_key(spec):
    _, text = spec
    assert editor.problems_in(text) == []
    lines = text.splitlines()
    line = next(i for i, one in enumerate(lines) if one.startswith("summary:"))
    lines[line] = lines[line].replace("summary", "sumary")
    first = editor.problems_in("\n".join(lines))[0]
    assert (first.place.line, first.place.column) == (line + 1, 1)
    assert editor.message_of(first) == "sumary: unknown key 'sumary'; did you mean 'summary'?"


@pytest.mark.parametrize(
    "text", ["", "[", "a: &b 1\n", "\x00", "- " * 100, "x" * (1 << 21), 'a: {b: "\\' + '"\\' * 200_000]
)
def test_invalid_spec_has_problems_and_no_results(text):
    assert editor.problems_in(text)
    assert editor.hover(text, 0, 0) is None
    assert editor.hover(text, 9, 0) is None
    assert editor.definitions(Path("op_proto/x.yaml"), text, 0) == []
    assert isinstance(editor.completions(text, 3, 7), list)


def test_definitions_are_the_kernel_and_the_plan():
    file = ROOT / "op_proto/grouped_bias_add_grad.yaml"
    text = file.read_text(encoding="utf-8")
    names = [str(path.relative_to(ROOT)) for path in editor.definitions(file, text, 0)]
    assert names == ["op_kernel/grouped_bias_add_grad.h", "op_host/grouped_bias_add_grad_tiling.h"]
    line = text[: text.index("\ntiling:") + 1].count("\n")
    assert [str(path.relative_to(ROOT)) for path in editor.definitions(file, text, line)] == names[1:]


def _framed(message: dict[str, object]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def _messages(stream: bytes) -> list[dict[str, object]]:
    found = []
    while stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n"))
        length = int(fields[b"Content-Length"])
        found.append(json.loads(rest[:length]))
        stream = rest[length:]
    return found


@pytest.mark.skipif(not HAS_PYGLS, reason="pygls is not installed: pip install 'opforge[lsp]'")
def test_recorded_session(spec):
    """Send the recorded messages and compare the answers; words in braces are placeholders for text and positions."""
    file, text = spec
    recorded = SESSION.read_text(encoding="utf-8").replace('"{text}"', json.dumps(text))
    recorded = recorded.replace('"{misspelt}"', json.dumps(text.replace("summary:", "sumary:")))
    session = json.loads(recorded.replace("{uri}", file.as_uri()).replace("{root}", STARTER.as_uri()))
    sent = b"".join(map(_framed, session["sent"]))
    command = [sys.executable, "-m", "opforge.cli", "lsp"]
    done = subprocess.run(command, input=sent, capture_output=True, timeout=120, check=False, env=os.environ)
    got = _messages(done.stdout)
    assert done.returncode == 0, done.stderr.decode()
    for expected in session["received"]:
        assert any(expected.items() <= message.items() for message in got), (expected, got)


def test_a_server_without_pygls_is_one_message(tmp_path):
    (tmp_path / "pygls.py").write_text("raise ModuleNotFoundError\n")
    done = subprocess.run(
        [sys.executable, "-m", "opforge.cli", "lsp"],
        input="", capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "pip install 'opforge[lsp]'" in done.stderr


@pytest.mark.parametrize(("line", "column"), [(10**9, 0), (0, 10**9), (2**31 - 1, 2**31 - 1), (-1, -1), (3, 4_000)])
def test_positions_out_of_range_have_no_result(line, column, spec):
    file, text = spec
    text = f"{text}\n{'x' * 5_000}\n"
    assert isinstance(editor.completions(text, line, column), list)
    assert editor.hover(text, line, column) is None
    assert editor.definitions(file, text, line) in ([], editor.definitions(file, text, 0))
    assert editor.completions("x" * 3_000_000 + " ", 0, 3_000_000) == []


@pytest.mark.skipif(not HAS_PYGLS, reason="pygls is not installed: pip install 'opforge[lsp]'")
@pytest.mark.parametrize(("encoding", "units"), [("utf-16", 2), ("utf-8", 4), ("utf-32", 1)])
def test_columns_are_units_of_the_encoding_of_the_editor(encoding, units, tmp_path):
    uri = (tmp_path / "op.yaml").as_uri()
    text = 'inputs:\n  - {description: "\U0001f600\U0001f600", opt: 1, dty'
    after = len(text.splitlines()[1]) + 2 * (units - 1)
    capabilities = {"general": {"positionEncodings": [encoding]}}
    document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
    place = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": after}}
    closed = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text + ": [float32]}\n"}]}
    messages = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": capabilities}},
        {"method": "textDocument/didOpen", "params": {"textDocument": document}},
        {"id": 2, "method": "textDocument/completion", "params": place},
        {"method": "textDocument/didChange", "params": closed},
        {"id": 3, "method": "shutdown"},
        {"method": "exit"},
    ]
    command = [sys.executable, "-m", "opforge.cli", "lsp"]
    sent = b"".join(map(_framed, messages))
    got = _messages(subprocess.run(command, input=sent, capture_output=True, timeout=120, check=True).stdout)
    (labels,) = ({item["label"] for item in message["result"]} for message in got if message.get("id") == 2)
    assert {"optional", "dtypes"} <= labels
    (found,) = (one for one in got[-2]["params"]["diagnostics"] if "unknown key 'opt'" in one["message"])
    assert found["range"]["start"] == {"line": 1, "character": text.splitlines()[1].index("opt") + 2 * (units - 1)}


@pytest.mark.skipif(not HAS_PYGLS, reason="pygls is not installed: pip install 'opforge[lsp]'")
def test_wrong_messages_get_answers_and_the_session_continues(tmp_path):
    def request(number: int, method: str, uri: str, line: object) -> dict[str, object]:
        params = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 0}}
        return {"id": number, "method": f"textDocument/{method}", "params": params}

    os.mkfifo(tmp_path / "pipe.yaml")
    special = ["file:///dev/zero", (tmp_path / "pipe.yaml").as_uri(), tmp_path.as_uri(), "file://%00", "::"]
    absent, uri = (tmp_path / "absent.yaml").as_uri(), (tmp_path / "many.yaml").as_uri()
    document = {"uri": uri, "languageId": "yaml", "version": 1, "text": "a: 1\n" * 3_000}
    messages: list[dict[str, object]] = [
        request(0, "hover", absent, 0),
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        request(2, "hover", uri, -1),
        request(3, "completion", uri, "first"),
        {"id": 4, "method": "textDocument/definition"},
        {"id": 5, "method": "textDocument/unknown", "params": {}},
        *(
            request(number, method, absent, 0)
            for number, method in ((6, "hover"), (7, "completion"), (8, "definition"))
        ),
        *(request(number, "completion", one, 0) for number, one in enumerate(special, 10)),
        {"method": "textDocument/didOpen", "params": {"textDocument": document}},
        {"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}},
    ]
    no_json = [b"{]", b"\xff", b"[" * 50_000]
    no_requests = [
        b"[1]",
        b"null",
        b"{}",
        b'{"id": 20, "method": "shutdown"}',
        b'{"jsonrpc": "2.0", "id": 21, "method": 5}',
    ]
    no_requests += [b'{"jsonrpc": "2.0", "id": {}, "method": "shutdown"}']
    sent = b"".join(map(_framed, messages))
    sent += b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in no_json + no_requests)
    sent += b"".join(map(_framed, ({"id": 9, "method": "shutdown"}, request(22, "hover", uri, 0), {"method": "exit"})))
    command = [sys.executable, "-m", "opforge.cli", "lsp"]
    done = subprocess.run(command, input=sent, capture_output=True, timeout=120, check=False, env=os.environ)
    assert (done.returncode, done.stderr) == (0, b"")
    got = _messages(done.stdout)
    answers = {message["id"]: message for message in got if "id" in message}
    codes = {number: message["error"]["code"] for number, message in answers.items() if "error" in message}
    refused = dict.fromkeys((20, 21, 22), -32600)
    assert codes == {0: -32002, 2: -32602, 3: -32602, 4: -32602, 5: -32601, **refused}
    assert set(answers) == {*range(10 + len(special)), *refused}
    unnumbered = [message["error"]["code"] for message in got if "error" in message and "id" not in message]
    assert sorted(unnumbered) == [-32700] * len(no_json) + [-32600] * (len(no_requests) - 2)
    assert not [message for message in got if message.get("method") == "window/showMessage"]
    published = [m["params"]["diagnostics"] for m in got if m.get("method") == "textDocument/publishDiagnostics"]
    assert 0 < len(published[0]) <= 1_000
    assert published[1:] == [[]]
