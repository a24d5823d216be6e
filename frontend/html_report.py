"""The report of a conversion as a page: one file, no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from opforge.frontend.conversion import Conversion
from opforge.frontend.verify import Comparison

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c2530; }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem; border-bottom: 1px solid #d8dee6; }
td { overflow-wrap: anywhere } th { color: #51606f; font-weight: 600 } .bad { color: #b3261e; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  body { background: #14181d; color: #dfe5ec } th { color: #9aa8b6 } th, td { border-color: #333c47 }
  .bad { color: #ff8a80 }
}
"""


def html_report(title: str, conversion: Conversion, comparisons: Sequence[Comparison] | None) -> str:
    """The page; names from the model are escaped.

    Args:
        title: Name of the model.
        conversion: What was rewritten and what was not.
        comparisons: What running both models gave; None when they were not run.
    """
    counts = f"{conversion.nodes_before} before, {conversion.nodes_after} after"
    same = "" if conversion.changed else "; the model is unchanged"
    rewritten = f"{len(conversion.mapped)} mapped, {len(conversion.lowered)} lowered"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{rewritten}, {len(conversion.left)} left; nodes: {counts}{same}.</p>",
    ]
    mapped = (
        (e.node, e.op, e.rule, ", ".join(e.outputs), ", ".join(f"{name} = {value}" for name, value in e.attrs.items()))
        for e in conversion.mapped
    )
    parts += _section("Mapped", ("node", "operator", "recognised by", "outputs", "attributes"), mapped)
    lowered = ((e.node, e.key, ", ".join(e.into)) for e in conversion.lowered)
    parts += _section("Lowered to standard operators", ("node", "type", "becomes"), lowered)
    parts += _section(
        "Left alone", ("node", "candidate", "reason"), ((e.node, e.candidate, e.reason) for e in conversion.left)
    )
    if comparisons is not None:
        rows = ((c.output, f"{c.error:.3g}", f"{c.allowed:.3g}", "same" if c.same else "differs") for c in comparisons)
        parts += _section("Before and after on the same arrays", ("output", "largest error", "allowed there", ""), rows)
    notes = [*conversion.warnings, *(f"{name} has no ONNX body in this opset" for name in conversion.without_body)]
    parts += _section("To know", ("warning",), ((note,) for note in notes))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    page = f"<head>{head}<style>{_STYLE}</style></head><body>{''.join(parts)}</body>"
    return f'<!doctype html><html lang="en">{page}</html>\n'


def _section(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = [f"<tr>{''.join(_cell(text) for text in row)}</tr>" for row in rows]
    if not body:
        return []
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    return [f"<h2>{escape(title)}</h2><table><tr>{head}</tr>", *body, "</table>"]


def _cell(text: str) -> str:
    return f"<td{' class=bad' if text == 'differs' else ''}>{escape(text)}</td>"
