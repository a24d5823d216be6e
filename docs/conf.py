"""Configure Sphinx; `docs/site.py` collects the pages."""

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
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]
html_math_renderer = "mathml"
_DIGITS = 5  # shorter numbers are not indexed


def _mathml(translator: Any, node: Any, display: str) -> None:
    """Write a formula as MathML, which browsers draw without a script."""
    from docutils.nodes import SkipNode

    tag = "div" if display == "block" else "span"
    translator.body.append(f'<{tag} class="math">{convert(node.astext(), display=display)}</{tag}>')
    raise SkipNode


class _Search(SearchEnglish):
    """Index long numbers too: users search for status codes."""

    def word_filter(self, word: str) -> bool:
        return (word.isdigit() and len(word) >= _DIGITS) or super().word_filter(word)


def setup(app: Any) -> dict[str, bool]:
    """Register the formula renderer and the search language."""
    app.add_search_language(_Search)
    app.add_html_math_renderer(
        "mathml",
        (lambda translator, node: _mathml(translator, node, "inline"), None),
        (lambda translator, node: _mathml(translator, node, "block"), None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
