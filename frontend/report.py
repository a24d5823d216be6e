"""What the commands print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from opforge.frontend.names import shown
from opforge.frontend.summary import summary

if TYPE_CHECKING:
    from opforge.frontend.arrays import Array
    from opforge.frontend.conversion import Conversion
    from opforge.frontend.execute import Execution
    from opforge.frontend.verify import Comparison

# Rows of a table, and letters of a reason, that somebody reads on a terminal.
_ROWS = 200
_REASON_LENGTH = 1000


def _text(name: object, length: int = 80) -> Text:
    """Text of a model: never markup, control characters escaped, cut when it is longer."""
    text = str(name)
    if not text.isprintable():
        text = repr(text)
    return Text(text if len(text) <= length else f"{text[: length - 3]}...")


def _print_cut(console: Console, table: Table, count: int) -> None:
    console.print(table)
    if count > table.row_count:
        console.print(f"... and {count - table.row_count} more; --json has all of them")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_conversion(conversion: Conversion) -> None:
    """Which nodes were mapped, which were left and why."""
    console = Console()
    if conversion.mapped:
        table = _table("mapped", "node", "operator", "recognised by", "outputs")
        for entry in conversion.mapped[:_ROWS]:
            table.add_row(_text(entry.node), entry.op, _text(entry.rule), _text(", ".join(entry.outputs)))
        _print_cut(console, table, len(conversion.mapped))
    if conversion.lowered:
        # Hundreds of nodes of a few types: the types are what somebody reads.
        table = _table("lowered to standard operators", "nodes", "type", "becomes, for the first one")
        firsts = {entry.key: entry for entry in reversed(conversion.lowered)}
        counts = Counter(entry.key for entry in conversion.lowered)
        for key, count in sorted(counts.items()):
            table.add_row(str(count), _text(key), _text(", ".join(firsts[key].into)))
        console.print(table)
    if conversion.left:
        table = _table("left alone", "node", "candidate", "reason")
        for left in conversion.left[:_ROWS]:
            table.add_row(_text(left.node), left.candidate, _text(left.reason, _REASON_LENGTH))
        _print_cut(console, table, len(conversion.left))
    if conversion.without_body:
        names = ", ".join(map(shown, conversion.without_body[:_ROWS]))
        if more := len(conversion.without_body[_ROWS:]):
            names += f" and {more} more"
        why = "the operator has none, or none for an opset as old as the model's"
        console.print(Text(f"without ONNX function body, as {why}: {names}"))
    for warning in conversion.warnings[:_ROWS]:
        console.print(Text(f"warning: {warning}"))
    if more := len(conversion.warnings[_ROWS:]):
        console.print(f"... and {more} more warnings")
    console.print(
        summary(
            len(conversion.mapped),
            len(conversion.lowered),
            len(conversion.left),
            conversion.nodes_before,
            conversion.nodes_after,
            changed=conversion.changed,
        )
    )


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """The largest error of each output."""
    table = _table("before and after on the same arrays", "output", "largest error", "allowed there", "")
    for entry in comparisons:
        table.add_row(
            _text(entry.output), f"{entry.error:.3g}", f"{entry.allowed:.3g}", "same" if entry.same else "DIFFERS"
        )
    Console().print(table)


def print_execution(execution: Execution) -> None:
    """Shape, dtype and range of each output, then what the twin moved."""
    console = Console()
    table = _table("outputs", "output", "dtype", "shape", "least", "greatest")
    for name, array in execution.outputs.items():
        table.add_row(_text(name), str(array.dtype), str(list(array.shape)), *_range(array))
    console.print(table)
    if not execution.reports:
        console.print("no node ran on the twin")
        return
    table = _table("moved on the twin, in bytes", "node", "read", "written", "minimal", "moved / minimal", "blocks")
    for node, report in execution.reports:
        moved = report.gm_bytes_read + report.gm_bytes_written
        ratio = f"{moved / report.minimal_bytes:.2f}" if report.minimal_bytes else "-"
        counts = (report.gm_bytes_read, report.gm_bytes_written, report.minimal_bytes)
        table.add_row(_text(node), *map(str, counts), ratio, str(report.blocks))
    console.print(table)


def _range(array: Array) -> tuple[str, str]:
    if array.size == 0 or array.dtype.kind not in "biufV":
        return "-", "-"
    return f"{array.min():.6g}", f"{array.max():.6g}"
