"""Count rows, and print and write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opforge.codegen.printing import escaped, say
from opforge.codegen.template_loader import render_page

from .api_names import Names
from .discover import Source
from .execute import Row

_SHOWN_NAMES, _SHOWN_LENGTH = 30, 80
_COUNTED = ("sources", "compiled", "ran", "right", "wrong", "clean", "with findings")


def status_of(row: Row) -> str:
    """Return the result of a row in words; `not compared` ran."""
    if row.right is not None:
        return "right" if row.right else "wrong"
    return "not compared" if row.ran else "compiled" if row.compiled else "failed"


def is_clean(row: Row) -> bool:
    """Return whether it ran without findings and is not wrong; for an operator, at least one unit test."""
    return row.clean_tests > 0 if row.kind == "operator" else row.ran and not row.findings and row.right is not False


def count(rows: Iterable[Row]) -> dict[str, int]:
    """How many rows compiled, ran, were right, wrong or clean, or had findings."""
    totals = dict.fromkeys(_COUNTED, 0)
    for row in rows:
        wrong, has_findings = row.right is False, bool(row.findings)
        facts = (True, row.compiled, row.ran, row.right is True, wrong, is_clean(row), has_findings)
        for name, holds in zip(_COUNTED, facts, strict=True):
            totals[name] += holds
    return totals


def name_counts(rows: Iterable[Row]) -> dict[str, int]:
    """How many sources each unknown name is in, the most frequent first."""
    counts = Counter(name for row in rows for name in set(row.missing))
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def finding_counts(rows: Iterable[Row]) -> dict[str, int]:
    """How many sources have each kind of finding."""
    counts = Counter(kind for row in rows for kind in {found["kind"] for found in row.findings})
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def as_json(
    rows: Sequence[Row], excluded: Sequence[Source], names: Mapping[str, Names], settings: dict[str, Any], version: str
) -> dict[str, Any]:
    """Return the result as data."""
    return {
        "sources": [asdict(row) for row in rows],
        "names": name_counts(rows),
        "finding_kinds": finding_counts(rows),
        "totals": count(rows),
        "api_names": {
            label: {**asdict(found), "counted": found.counted, "declared": found.declared}
            for label, found in names.items()
        },
        "excluded": [{"path": source.path, "reason": source.reason} for source in excluded],
        "settings": settings,
        "twin": version,
    }


def print_row(row: Row, number: int, total: int) -> None:
    """Print one row after it is complete."""
    words = [f"[{number}/{total}]", status_of(row).ljust(12), escaped(row.path)]
    if row.tests:
        words.append(f"({row.clean_tests} of {row.tests} unit tests without findings)")
    if row.scenarios:
        words.append(f"({count(row.scenarios)['right']} of {len(row.scenarios)} scenarios are right)")
    if row.findings:
        words.append(f"({len(row.findings)} finding{'s' * (len(row.findings) != 1)})")
    if row.reason:
        words.append(f"- {escaped(row.reason)}")
    say(" ".join(words))


def print_totals(rows: Sequence[Row], excluded: Sequence[Source], names: Mapping[str, Names]) -> None:
    """Print the counts by kind, the unknown names, the kinds of findings, and the declared names of each clone."""
    kinds = sorted({row.kind for row in rows})
    if rows:
        say("", f"{'kind':<10}" + "".join(f"{name:>15}" for name in _COUNTED))
    else:
        say("no source was compiled; name the folder of a clone with Ascend C sources, or change --only")
    groups = [(kind, [row for row in rows if row.kind == kind]) for kind in kinds]
    for kind, group in [*groups, *([("all", list(rows))] if len(kinds) > 1 else [])]:
        say(f"{kind:<10}" + "".join(f"{number:>15}" for number in count(group).values()))
    for title, counts in (("unknown names", name_counts(rows)), ("kinds of findings", finding_counts(rows))):
        if counts:
            say("", f"{title} (number of sources):")
            say(
                *(
                    f"{number:>6}  {escaped(name)[:_SHOWN_LENGTH]}"
                    for name, number in list(counts.items())[:_SHOWN_NAMES]
                )
            )
        if len(counts) > _SHOWN_NAMES:
            say(f"        ... {len(counts) - _SHOWN_NAMES} more; --json writes all")
    for label, found in names.items() if rows else ():
        rest = len(found.missing) - _SHOWN_NAMES
        shown = ", ".join(found.missing[:_SHOWN_NAMES]) + (f" and {rest} more" if rest > 0 else "")
        missing = f"; missing: {shown}" if shown else ""
        words = (
            f"{found.declared} of {found.counted} names of the API are declared, {len(found.not_counted)} not counted"
        )
        say("", f"{escaped(label)}: {words}{escaped(missing)}")
    if excluded:
        say("", f"{len(excluded)} sources are for other architectures, or contain no kernel; --json lists the reasons")


def page_of(rows: Sequence[Row], excluded: Sequence[Source], settings: dict[str, Any], titles: Sequence[str]) -> str:
    """Return the result as a page with filters."""
    return render_page(
        Path(__file__).with_name("coverage_page.html.j2"),
        titles=titles,
        rows=[
            {
                **asdict(row),
                "status": status_of(row),
                "scenarios": [{**asdict(part), "status": status_of(part)} for part in row.scenarios],
            }
            for row in rows
        ],
        kinds=sorted({row.kind for row in rows}),
        totals=count(rows),
        names=name_counts(rows),
        finding_kinds=finding_counts(rows),
        excluded=excluded,
        settings=settings,
    )
