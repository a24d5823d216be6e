"""Settings of the site. `docs/site.py` puts its pages together."""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert

project = "opforge"
html_title = "opforge"
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
highlight_language = "text"
html_show_copyright = False
root_doc = "README"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]
html_math_renderer = "mathml"


def _mathml(translator: Any, node: Any, display: str) -> None:
    """Browsers show MathML by themselves: the site loads nothing from elsewhere."""
    from docutils.nodes import SkipNode

    tag = "div" if display == "block" else "span"
    translator.body.append(f'<{tag} class="math">{convert(node.astext(), display=display)}</{tag}>')
    raise SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register how formulas are written."""
    app.add_html_math_renderer(
        "mathml",
        (lambda translator, node: _mathml(translator, node, "inline"), None),
        (lambda translator, node: _mathml(translator, node, "block"), None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
