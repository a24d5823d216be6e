"""What the commands print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from opforge.codegen.printing import escaped, shown

from .summary import summary

if TYPE_CHECKING:
    from opforge.frontend.conversion import Conversion
    from opforge.frontend.io.arrays import Array
    from opforge.frontend.run.step_time import StepTime
    from opforge.frontend.run.verify import Comparison

# Rows of a table, and letters of a reason, that somebody reads on a terminal.
_ROWS = 20
_REASON_LENGTH = 1000
# Types of nodes that take less of a step are counted only.
_LEAST_SHARE = 0.01


def _text(name: object, length: int = 80) -> Text:
    """Text of a model: never markup, control characters escaped, cut when it is longer."""
    text = escaped(str(name))
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
    _print_remarks(console, conversion)
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


def _print_remarks(console: Console, conversion: Conversion) -> None:
    if conversion.without_body:
        names = ", ".join(map(shown, conversion.without_body[:_ROWS]))
        if more := len(conversion.without_body[_ROWS:]):
            names += f" and {more} more"
        why = "the operator has none, or none for an opset as old as the model's"
        console.print(Text(f"without ONNX function body, as {why}: {names}"))
    for warning in conversion.warnings[:_ROWS]:
        console.print(Text(escaped(f"warning: {warning}")), soft_wrap=True)
    if more := len(conversion.warnings[_ROWS:]):
        console.print(f"... and {more} more warnings")


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """The largest error of each output."""
    table = _table("before and after on the same arrays", "output", "largest error", "allowed there", "")
    for entry in comparisons:
        table.add_row(
            _text(entry.output), f"{entry.error:.3g}", f"{entry.allowed:.3g}", _text(entry.verdict, _REASON_LENGTH)
        )
    Console().print(table)


def print_outputs(outputs: Mapping[str, Array]) -> None:
    """Shape, dtype and range of each output."""
    table = _table("outputs", "output", "dtype", "shape", "least", "greatest")
    for name, array in list(outputs.items())[:_ROWS]:
        table.add_row(_text(name), str(array.dtype), str(list(array.shape)), *_range(array))
    _print_cut(Console(), table, len(outputs))


def print_step(step: StepTime) -> None:
    """What each node of ours takes and moves on the twin, and what the step is made of."""
    console = Console()
    if step.ours:
        _print_ours(console, step)
    else:
        console.print("no node ran on the twin")
    table = _table("the whole step by type of node: estimates in us", "type", "nodes", "estimate", "of step", "moved")
    types = [entry for entry in step.types if step.share(entry.estimate_us) >= _LEAST_SHARE]
    for kind in types:
        share = f"{100 * step.share(kind.estimate_us):.1f} %"
        table.add_row(_text(kind.type), str(kind.nodes), f"{kind.estimate_us:.2f}", share, _bytes(kind.moved_bytes))
    console.print(table)
    if more := len(step.types) - len(types):
        console.print(f"... and {more} types of less than {100 * _LEAST_SHARE:.0f} % each; --json has all of them")
    ours, others = (sum(entry.estimate_us for entry in entries) for entries in (step.ours, step.others))
    parts = [f"{ours:.1f} us on the twin"]
    if step.others:
        each = f"{len(step.others)}, each alone and at its best, {step.launches_us:.1f} us of it launches"
        parts.append(f"{others:.1f} us for other nodes ({each})")
    if step.free:
        parts.append(f"nothing for {step.free} that move no data")
    console.print(f"step: an estimate of {step.total_us:.1f} us: {', '.join(parts)}")


def _print_ours(console: Console, step: StepTime) -> None:
    columns = ("node", "estimate", "of step", "read", "written", "moved / minimal")
    table = _table("on the twin: estimates in us, moved bytes", *columns)
    for entry in step.ours[:_ROWS]:
        read, written, minimal = map(entry.total, ("gm_bytes_read", "gm_bytes_written", "minimal_bytes"))
        calls = f" ({len(entry.calls)} calls)" if len(entry.calls) > 1 else ""
        table.add_row(
            _text(entry.name or entry.key) + calls,
            f"{entry.estimate_us:.2f}",
            f"{100 * step.share(entry.estimate_us):.1f} %",
            _bytes(read),
            _bytes(written),
            f"{(read + written) / minimal:.2f}" if minimal else "-",
        )
    _print_cut(console, table, len(step.ours))


def _bytes(count: int) -> str:
    """A number of bytes, exact up to six digits."""
    return str(count) if count < 10**6 else f"{count / 10**6:.1f} MB"


def _range(array: Array) -> tuple[str, str]:
    if array.size == 0 or array.dtype.kind not in "biufV":
        return "-", "-"
    return f"{array.min():.6g}", f"{array.max():.6g}"
