"""The bar for what takes long."""

import io
import sys

import pytest

from opforge.frontend import progress as module
from opforge.frontend.files import stream
from opforge.frontend.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("patience", "terminal", "shown"), [(-1, True, True), (-1, False, False), (60, True, False)])
def test_a_bar_appears_on_a_terminal_when_it_takes_long(monkeypatch, patience, terminal, shown):
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", patience)
    with progress("weights.bin", 100) as advance:
        advance(50)
    assert ("weights.bin" in stderr.getvalue()) is shown


def test_copying_tells_how_much_is_done(tmp_path, monkeypatch):
    from opforge.frontend import files

    monkeypatch.setattr(files, "_STEP_BYTES", 4)
    (tmp_path / "a").write_bytes(b"0123456789")
    done = []
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target:
        stream(source.fileno(), target.fileno(), done.append)
    assert done == [4, 8, 10]
    assert (tmp_path / "b").read_bytes() == b"0123456789"
