"""Print the C++ text of twin/templates/."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template


@lru_cache
def template(name: str) -> Template:
    """Return a template."""
    from jinja2 import Environment, StrictUndefined

    from opforge.codegen.template_loader import TemplateLoader

    environment = Environment(
        loader=TemplateLoader([Path(__file__).with_name("templates")], __file__),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - C++ text from tables of the project and from sources that are compiled anyway
    )
    return environment.get_template(name)


def printed(name: str, /, **values: Any) -> str:
    """Return the text of a template."""
    return template(name).render(values)
