"""Write the HTML page of `opforge convert --html`, without external resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from onnx import ModelProto

from opforge.codegen.printing import path_text, shown
from opforge.codegen.template_loader import render_page
from opforge.frontend.conversion import Conversion, Mapped
from opforge.frontend.emit.opset import current_opset
from opforge.frontend.io.load import SourceModel
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import onnx_keys
from opforge.frontend.ir.scope import normal_domain
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.operators import project_specs
from opforge.frontend.run.comparison import Comparison

from .pictures import Painter, Picture, plain
from .rewrite_diff import RewrittenPlace, rewritten_places

# Limits of a page for a huge model; --json is complete.
_ROWS, _PICTURES = 1000, 100
_LETTERS = 300
# Results of a comparison, in the order of the page.
_KINDS = {False: "differing", None: "uncompared", True: "same"}


@dataclass(frozen=True)
class Command:
    """Options of the conversion.

    Attributes:
        text: The command.
        bytes_after: Size of the output without external data; None if no model is written.
    """

    text: str
    bytes_after: int | None


@dataclass(frozen=True)
class _Form:
    """Changes that differ only in names and sizes; the first ones are drawn."""

    title: str
    places: list[dict[str, Any]]


def report_page(
    source: SourceModel, conversion: Conversion, comparisons: Sequence[Comparison] | None, command: Command
) -> str:
    """Return the page as HTML.

    Args:
        source: The model before.
        conversion: The conversion with mapped and unmapped nodes.
        comparisons: Results of running both models; None if they were not run.
        command: The options of the conversion.
    """
    view = source.view
    differing, same, uncompared = (
        [entry for entry in comparisons or () if entry.same is kind and not entry.op] for kind in (False, True, None)
    )
    nodes = {kind: [entry for entry in comparisons or () if entry.same is kind and entry.op] for kind in _KINDS}
    forms = _forms(view, conversion)
    return render_page(
        Path(__file__).with_name("report.html.j2"),
        name=plain(source.path.name, _LETTERS),
        conversion=conversion,
        facts=_facts(source, conversion, command),
        mapped=_Table(
            (
                (entry.node, entry.op, entry.rule, ", ".join(entry.outputs), _attributes(entry))
                for entry in conversion.mapped
            ),
            len(conversion.mapped),
        ),
        lowered=_Table(_lowered(conversion), len({entry.key for entry in conversion.lowered})),
        left=_Table(((e.node, e.candidate, e.reason) for e in conversion.left), len(conversion.left)),
        candidates=Counter(entry.candidate for entry in conversion.left).most_common(),
        counts=_counts(view, conversion),
        differing=_Table(map(_numbers, differing), len(differing)),
        same=_Table(map(_numbers, same), len(same)),
        uncompared=_Table(map(_numbers, uncompared), len(uncompared)),
        nodes={_KINDS[kind]: _Table(map(_node_numbers, entries), len(entries)) for kind, entries in nodes.items()},
        worst=max((*differing, *same), key=lambda entry: entry.excess, default=None),
        warnings=_Table(_warnings(conversion), len(conversion.warnings) + len(conversion.without_body)),
        forms=forms,
        undrawn=max(len(conversion.mapped) + len(conversion.lowered) - _PICTURES, 0),
    )


class _Table:
    """The first rows of a table, with texts in the form of pages.

    Attributes:
        rows: The rows.
        hidden: Number of further rows.
    """

    def __init__(self, rows: Iterable[Sequence[str]], count: int) -> None:
        self.rows = [[plain(text, _LETTERS) for text in row] for row in islice(rows, _ROWS)]
        self.hidden = max(count - _ROWS, 0)


def _numbers(entry: Comparison) -> Sequence[str]:
    return entry.output, f"{entry.error:.3g}", f"{entry.allowed:.3g}", entry.result_text


def _node_numbers(entry: Comparison) -> Sequence[str]:
    return entry.node, entry.op, entry.compared, *_numbers(entry)


def _attributes(entry: Mapped) -> str:
    return ", ".join(f"{name} = {value}" for name, value in entry.attrs.items())


def _lowered(conversion: Conversion) -> Iterable[Sequence[str]]:
    """Yield a row for each type of node."""
    firsts = {entry.key: entry for entry in reversed(conversion.lowered)}
    for key, count in Counter(entry.key for entry in conversion.lowered).most_common():
        into = [f"{times} {name}" if times > 1 else name for name, times in Counter(firsts[key].into).items()]
        yield key, str(count), ", ".join(into)


def _warnings(conversion: Conversion) -> Iterable[Sequence[str]]:
    for text in conversion.warnings:
        yield (text,)
    for name in conversion.without_body:
        yield (f"{shown(name)} has no ONNX function body for the opset of the model",)


def _facts(source: SourceModel, conversion: Conversion, command: Command) -> list[tuple[str, str]]:
    external = sum(source.external.values())
    before, after = source.model, conversion.model
    written = "none written" if command.bytes_after is None else f"{command.bytes_after:,} after"
    sizes = f"{len(source.data):,} bytes before, {written}"
    return [
        ("command", plain(command.text, 4 * _LETTERS)),
        ("model", plain(path_text(source.path), _LETTERS)),
        ("size", sizes + (f"; external data: {external:,} bytes in {len(source.external)} files" if external else "")),
        ("nodes", f"{conversion.nodes_before:,} before, {conversion.nodes_after:,} after"),
        ("opset of ai.onnx", f"{current_opset(before) or 'none'} before, {current_opset(after) or 'none'} after"),
        ("other domains", f"{_domains(before)} before, {_domains(after)} after"),
    ]


def _domains(model: ModelProto) -> str:
    names = sorted(
        {f"{plain(entry.domain, 60)} {entry.version}" for entry in model.opset_import if normal_domain(entry.domain)}
    )
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "none"


def _counts(view: GraphView, conversion: Conversion) -> dict[str, Any]:
    """Return nodes by type before and after, with the largest changes first."""
    before, after = _types(view), _types(GraphView(conversion.model))
    changed = sorted(
        (key for key in before.keys() | after.keys() if before[key] != after[key]),
        key=lambda key: (-abs(after[key] - before[key]), key),
    )
    same = sorted(key for key in before if before[key] == after[key])
    most = max([*before.values(), *after.values(), 1])
    rows = [
        {"key": plain(key, 80), "before": before[key], "after": after[key], "most": most}
        for key in (*changed[:_ROWS], *same[: max(_ROWS - len(changed), 0)])
    ]
    return {"rows": rows, "changed": min(len(changed), _ROWS), "hidden": len(changed) + len(same) - len(rows)}


def _types(view: GraphView) -> Counter[str]:
    counts: Counter[str] = Counter()
    for scope in view.scopes:
        if scope.function is None:
            for (domain, op_type), numbers in scope.keys.items():
                name = normal_domain(domain)
                counts[f"{name}::{op_type}" if name else op_type] += len(numbers)
    return counts


def _forms(view: GraphView, conversion: Conversion) -> list[_Form]:
    places = rewritten_places(view, conversion, _PICTURES)
    if not places:
        return []
    specs = project_specs()
    ours = {(key.domain, key.op_type) for spec in specs for key in onnx_keys(spec)}
    first = Painter(ValueTypes(view, specs), ())
    second = Painter(ValueTypes(places[0].after.view, specs), ours)
    forms: dict[object, _Form] = {}
    for place in places:
        before, after = first.picture(place.before), second.picture(place.after)
        form = forms.setdefault((_what(place), before.form, after.form), _Form(_what(place), []))
        form.places.append({"names": _names(place), "sides": [_side("before", before), _side("after", after)]})
    return list(forms.values())


def _what(place: RewrittenPlace) -> str:
    words = [
        f"{entry.op}, rule {entry.rule}" if isinstance(entry, Mapped) else f"{entry.key}, lowered"
        for entry in place.entries
    ]
    return "; ".join(plain(word, 120) for word in dict.fromkeys(words))


def _names(place: RewrittenPlace) -> str:
    names = list(dict.fromkeys(plain(entry.node, 120) for entry in place.entries))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _side(title: str, picture: Picture) -> dict[str, Any]:
    return {"title": title, "is_cut": picture.is_cut, **picture.drawn()}
