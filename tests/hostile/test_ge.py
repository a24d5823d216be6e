"""Test harmful graphs of GE: each `.air` file and dump gives one message, within bounded time and memory."""

import os

import pytest

from opforge.codegen.errors import UserError
from opforge.frontend.sources import load_source

DATA = 'op { name: "a" type: "Data" output_desc { dtype: DT_FLOAT } }'
END = 'op { name: "n" type: "NetOutput" input: "a:0" }'
CONST = """graph { op { name: "a" type: "Const" output_desc { dtype: DT_FLOAT } attr { key: "value" value {
t { desc { dtype: DT_FLOAT shape { dim: 4611686018427387904 dim: 4 } } data: "" } } } } %s }"""


def relu(number, source):
    return f'op {{ name: "x{number}" type: "Relu" input: "x{source}:0" output_desc {{ dtype: DT_FLOAT }} }}\n'


def field(number, content):
    """Return bytes of a protobuf field with content."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value):
    """Return a number in the encoding of protobuf."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def nested(number, depth, inner=b""):
    for _ in range(depth):
        inner = field(number, inner)
    return inner


TEXTS = {
    "binary": (bytes(range(256)) * 50, "can't decode byte"),
    "GBK": ("graph { op { name: '算子' } }".encode("gbk"), "can't decode byte"),
    "UTF-16": (f"graph {{ {DATA} }}".encode("utf-16"), "can't decode byte"),
    "zeros": (bytes(100_000), "expected a graph of GE as text"),
    "open braces": (b"graph { op { unknown { " + b"a { " * 100_000, "expected a graph of GE as text"),
    "closed braces": (b"a {" * 20_000 + b"}" * 20_000, "maximum recursion depth exceeded"),
    "brackets": (b"a: [" + b"[" * 100_000, "expected a graph of GE as text"),
    "comment": (b"#" * 1_000_000, "got 0 graphs, expected 1"),
    "one name": (f"graph {{ {DATA * 5_000} }}".encode(), "has a name of another node, or none"),
    "cycle": (
        f"graph {{ {''.join(relu(n, (n + 1) % 3_000) for n in range(3_000))} }}".encode(),
        "reads its own result",
    ),
    "constant": ((CONST % END).encode(), "has a constant with 0 bytes; expected 73786976294838206464"),
    "output number": (f"graph {{ {DATA} {END} }}".replace("a:0", "a:99999999999").encode(), "reads 'a:99999999999'"),
}
BYTES = {
    "binary": (bytes(range(256)) * 50, "expected a graph of GE as bytes"),
    "zeros": (bytes(100_000), "expected a graph of GE as bytes"),
    "nesting": (field(7, field(6, nested(7, 3_000))), "has a name of another node, or none"),
    "unknown nesting": (nested(99, 3_000), "got 0 graphs, expected 1"),
    "groups": (b"\x3b" * 100_000, "expected a graph of GE as bytes"),
    "empty nodes": (field(7, b"\x32\x00" * 2_000_000), "has a name of another node, or none"),
    "empty outputs": (
        field(7, field(6, field(1, b"a") + b"\x92\x02\x00" * 6_000_000)),
        "expected a graph of GE as bytes",
    ),
    "name": (field(7, field(6, field(1, b"\xff"))), "expected a graph of GE as bytes"),
    "cut": (field(7, field(6, field(1, b"a" * 1_000)))[:500], "expected a graph of GE as bytes"),
}
FILES = [(f"m.pbtxt {name}", *case) for name, case in TEXTS.items()]
FILES += [(f"m.air {name}", *case) for name, case in BYTES.items()]


@pytest.mark.parametrize(("name", "content", "words"), FILES, ids=[name for name, _, _ in FILES])
def test_wrong_graph_is_one_message(tmp_path, name, content, words):
    path = tmp_path / name.split(" ")[0]
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load_source(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["m.air", "m.pbtxt"])
@pytest.mark.parametrize(
    ("kind", "words"), [("pipe", "got a pipe"), ("folder", "got a directory"), ("loop", "Too many levels")]
)
def test_no_regular_file(tmp_path, name, kind, words):
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    with pytest.raises(UserError, match=f"cannot read the graph: .*{words}"):
        load_source(path)


def test_large_dump_is_not_read(tmp_path):
    path = tmp_path / "m.pbtxt"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(UserError, match=r"has 100000000 bytes, expected at most 67108864; write it as \.air"):
        load_source(path)


def test_dump_has_a_time_limit(opforge, tmp_path):
    path = tmp_path / "m.pbtxt"
    path.write_text(f"graph {{ {''.join(relu(n, n + 1) for n in range(60_000))} {DATA.replace('a', 'x60000', 1)} }}")
    result = opforge("check", path, cwd=tmp_path, OPFORGE_CPU_SECONDS="1")
    assert result.returncode == 2
    assert f"{path}: needs more than 1 s of CPU time; if you trust the file" in result.stderr
