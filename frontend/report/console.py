"""Print the results of `convert` and `run` as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from opforge.codegen.printing import escaped, shown
from opforge.twin.compiler.npu_model import outside_texts, range_text

if TYPE_CHECKING:
    from opforge.frontend.conversion import Conversion
    from opforge.frontend.io.arrays import Array
    from opforge.frontend.run.comparison import Comparison
    from opforge.frontend.run.step_time import StepTime

# Maximum rows of a table and characters of a reason on a terminal.
_ROWS = 20
_REASON_LENGTH = 1000
# Node types with a smaller share of the time of the model are only counted.
_LEAST_SHARE = 0.01


def _text(name: object, length: int = 80) -> Text:
    """Return text of a model without markup, with control characters escaped, cut to `length`."""
    text = escaped(str(name))
    return Text(text if len(text) <= length else f"{text[: length - 3]}...")


def _print_cut(console: Console, table: Table, count: int) -> None:
    console.print(table)
    if count > table.row_count:
        console.print(f"... and {count - table.row_count} more; --json lists all")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_conversion(conversion: Conversion) -> None:
    """Print the mapped nodes, the unmapped nodes with reasons, and the warnings."""
    console = Console()
    if conversion.mapped:
        table = _table("mapped", "node", "operator", "rule", "outputs")
        for entry in conversion.mapped[:_ROWS]:
            table.add_row(_text(entry.node), entry.op, _text(entry.rule), _text(", ".join(entry.outputs)))
        _print_cut(console, table, len(conversion.mapped))
    if conversion.lowered:
        # A training graph has hundreds of nodes of a few types.
        table = _table("lowered to standard operators", "nodes", "type", "new nodes (first occurrence)")
        firsts = {entry.key: entry for entry in reversed(conversion.lowered)}
        counts = Counter(entry.key for entry in conversion.lowered)
        for key, count in sorted(counts.items()):
            table.add_row(str(count), _text(key), _text(", ".join(firsts[key].into)))
        console.print(table)
    if conversion.left:
        table = _table("not mapped", "node", "candidate", "reason")
        for left in conversion.left[:_ROWS]:
            table.add_row(_text(left.node), left.candidate, _text(left.reason, _REASON_LENGTH))
        _print_cut(console, table, len(conversion.left))
    _print_remarks(console, conversion)


def _print_remarks(console: Console, conversion: Conversion) -> None:
    if conversion.without_body:
        names = ", ".join(map(shown, conversion.without_body[:_ROWS]))
        if more := len(conversion.without_body[_ROWS:]):
            names += f" and {more} more"
        console.print(Text(f"note: onnxruntime needs a library for nodes without a function body: {names}"))
    for warning in conversion.warnings[:_ROWS]:
        console.print(Text(escaped(f"warning: {warning}")), soft_wrap=True)
    if more := len(conversion.warnings[_ROWS:]):
        console.print(f"... and {more} more warnings")


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """Print the largest error of each output, and the differences between the results of custom nodes."""
    table = _table("source model and converted model, same inputs", "output", "largest error", "tolerance", "result")
    for entry in comparisons:
        if not entry.op:
            table.add_row(
                _text(entry.output),
                f"{entry.error:.3g}",
                f"{entry.allowed:.3g}",
                _text(entry.result_text, _REASON_LENGTH),
            )
    console = Console()
    console.print(table)
    differing = [entry for entry in comparisons if entry.op and entry.same is False]
    for entry in differing[:_ROWS]:
        console.print(_text(entry.message, _REASON_LENGTH), soft_wrap=True)
    if more := len(differing[_ROWS:]):
        console.print(f"... and {more} more; --json lists all")
    _print_uncompared(console, [entry for entry in comparisons if entry.op and entry.same is None])
    wrong = Counter(entry.compared for entry in differing)
    for kind, count in Counter(entry.compared for entry in comparisons if entry.op and entry.same is not None).items():
        console.print(f"custom nodes, {kind}: {wrong[kind]} of {count} comparisons differ")


def _print_uncompared(console: Console, entries: Sequence[Comparison]) -> None:
    """Print one line for all nodes of an operator with the same remark."""
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for entry in entries:
        groups.setdefault((entry.op, entry.compared, entry.output, entry.note), []).append(entry)
    for first, *others in list(groups.values())[:_ROWS]:
        more = f" ({len(others) + 1} nodes)" if others else ""
        console.print(_text(first.message + more, _REASON_LENGTH), soft_wrap=True)


def print_outputs(outputs: Mapping[str, Array]) -> None:
    """Print shape, dtype and range of each output."""
    table = _table("outputs", "output", "dtype", "shape", "minimum", "maximum")
    for name, array in list(outputs.items())[:_ROWS]:
        table.add_row(_text(name), str(array.dtype), str(list(array.shape)), *_range(array))
    _print_cut(Console(), table, len(outputs))


def print_step(step: StepTime) -> None:
    """Print time and traffic of each custom operator on the twin, and the time of the model by node type."""
    console = Console()
    if step.ours:
        _print_ours(console, step)
    else:
        console.print("no node ran on the twin")
    table = _table("time of the model by node type: estimates in us", "type", "nodes", "estimate", "share", "bytes")
    types = [entry for entry in step.types if step.share(entry.estimate_us) >= _LEAST_SHARE]
    for kind in types:
        share = f"{100 * step.share(kind.estimate_us):.1f} %"
        estimate = f"{kind.estimate_us:.2f}, {'roofline' if kind.is_roofline else range_text()}"
        table.add_row(_text(kind.type), str(kind.nodes), estimate, share, _bytes(kind.moved_bytes))
    console.print(table)
    if more := len(step.types) - len(types):
        console.print(f"... and {more} types of less than {100 * _LEAST_SHARE:.0f} % each; --json lists all")
    ours, others = (sum(entry.estimate_us for entry in entries) for entries in (step.ours, step.others))
    parts = [f"{ours:.1f} us{f', {range_text()},' if ours else ''} in custom operators (twin)"]
    if count := len(step.others):
        nodes = f"{count} other node{'s' if count > 1 else ''}"
        parts.append(f"{others:.1f} us in {nodes} (roofline; {step.launches_us:.1f} us is launch overhead)")
    if step.free:
        what = "1 node that moves" if step.free == 1 else f"{step.free} nodes that move"
        parts.append(f"0 us in {what} no data")
    console.print(f"estimated time of the model {step.total_us:.1f} us: {', '.join(parts)}")
    notes = (f"note: {text}" for text in step.without_range)
    for text in (*outside_texts(step.kernels_outside_range), *notes):
        console.print(text, highlight=False, markup=False)


def _print_ours(console: Console, step: StepTime) -> None:
    columns = ("node", "estimate", "share", "read", "written", "copied / minimum")
    table = _table(f"custom operators on the twin: estimates in us, {range_text()}, and bytes", *columns)
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
    """Format a number of bytes, exact up to six digits."""
    return str(count) if count < 10**6 else f"{count / 10**6:.1f} MB"


def _range(array: Array) -> tuple[str, str]:
    if array.size == 0 or array.dtype.kind not in "biufV":
        return "-", "-"
    return f"{array.min():.6g}", f"{array.max():.6g}"
