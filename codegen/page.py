"""Render HTML pages: each is one self-contained file, and all values are escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def render_page(template: Path, **values: Any) -> str:
    """Return a page as HTML.

    Args:
        template: Template that extends `page.html.j2`, the common layout.
        values: Variables of the template.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [path.resolve().parent for path in (template, Path(__file__))]
    environment = Environment(loader=FileSystemLoader(folders), autoescape=True, undefined=StrictUndefined)
    return environment.get_template(template.name).render(**values)
