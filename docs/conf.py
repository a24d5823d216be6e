"""Settings of the site. `docs/site.py` puts its pages together."""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert
from sphinx.search.en import SearchEnglish

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
_DIGITS = 5  # of a number that is worth finding


def _mathml(translator: Any, node: Any, display: str) -> None:
    """Browsers show MathML by themselves: the site loads nothing from elsewhere."""
    from docutils.nodes import SkipNode

    tag = "div" if display == "block" else "span"
    translator.body.append(f'<{tag} class="math">{convert(node.astext(), display=display)}</{tag}>')
    raise SkipNode


class _Search(SearchEnglish):
    """Numbers too: statuses are what people look for."""

    def word_filter(self, word: str) -> bool:
        return (word.isdigit() and len(word) >= _DIGITS) or super().word_filter(word)


def setup(app: Any) -> dict[str, bool]:
    """Register how formulas are written and words found."""
    app.add_search_language(_Search)
    app.add_html_math_renderer(
        "mathml",
        (lambda translator, node: _mathml(translator, node, "inline"), None),
        (lambda translator, node: _mathml(translator, node, "block"), None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
