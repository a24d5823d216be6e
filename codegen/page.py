"""Pages for browsers: each is one file that loads nothing, and whatever is put into it is escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def render_page(template: Path, **values: Any) -> str:
    """A page as HTML.

    Args:
        template: Template that extends `page.html.j2`, the look that all pages share.
        values: What it names.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [path.resolve().parent for path in (template, Path(__file__))]
    environment = Environment(loader=FileSystemLoader(folders), autoescape=True, undefined=StrictUndefined)
    return environment.get_template(template.name).render(**values)
