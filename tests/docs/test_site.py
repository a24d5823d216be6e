"""Test the site: every page exists, every link has a target, and no page loads files of other sites."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Counts the blocks that are wider than the page, and those of them that have a scrollbar.
MEASURE = """<script>
onload = () => {
  const found = {};
  for (const frame of document.querySelectorAll('iframe')) {
    const page = frame.contentDocument, root = page.documentElement;
    const blocks = [...page.querySelectorAll('div.highlight pre, div.math')];
    const wide = blocks.filter(block => block.scrollWidth > block.clientWidth);
    const all = [...page.querySelectorAll('article :is(p, li) > code')];
    const text = all.filter(code => !code.closest('.table-wrapper'));
    found[frame.id] = {
      width: frame.contentWindow.innerWidth,
      overflow: root.scrollWidth > root.clientWidth,
      cut: text.filter(code => code.getBoundingClientRect().right > root.clientWidth).map(code => code.textContent),
      wide: wide.length,
      bars: wide.filter(block => block.offsetHeight > block.clientHeight).length,
    };
  }
  document.body.replaceChildren();
  document.body.dataset.found = JSON.stringify(found);
};
</script>"""


class Page(HTMLParser):
    """The ids of a page, its links, and its loaded files."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in {"link", "script", "img"}:
            self.loaded.append(given.get("src") or given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, str(ROOT / "docs" / "site.py"), "--output", str(out)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return {path: Page(path) for path in out.rglob("*.html")}, out


def shown_in_browser(address, home):
    """Return the elements of a page after its scripts have run, without a network."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    flags += ["--virtual-time-budget=60000", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={home}/u"]
    command = [chromium, *flags, "--dump-dom", address]
    variables = {**os.environ, "HOME": str(home)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=variables).stdout


def test_every_operator_and_page_is_there(site):
    pages, out = site
    names = {str(path.relative_to(out)) for path in pages}
    operators = {f"operators/aclnn{name}.html" for name in ("GroupedBiasAddGrad", "NsaCompressGrad", "ConvTbcBackward")}
    assert names >= operators | {"index.html", "docs/index.html", "docs/quick-start.html"}
    assert "opforge profile" in (out / "docs" / "reference" / "commands.html").read_text()
    assert "<math" in (out / "operators" / "aclnnGroupedBiasAddGrad.html").read_text()


def test_recorded_figures_are_on_the_site_with_their_commands(site):
    _, out = site
    all_figures = (out / "docs" / "reference" / "figures.html").read_text()
    shown = re.sub(r"<[^>]+>", "", all_figures)
    assert "python benchmarks/operators.py --update" in shown
    assert "python benchmarks/frontend.py --json benchmarks/frontend.json" in shown
    rows = json.loads((ROOT / "benchmarks" / "frontend.json").read_text())
    assert len(rows) >= 6
    assert [row["what"] for row in rows if row["what"] not in shown] == []
    for key, figures in json.loads((ROOT / "benchmarks" / "baseline.json").read_text()).items():
        page = out / "operators" / f"aclnn{key.split()[0]}.html"
        shares = (f"{figures[name]:.2f}" for name in ("eff", "of_floor"))
        times = (f"{figures[name]:.1f}" for name in ("estimate_us", "bound_us", "floor_us"))
        cells = [f"<td><p>{text}</p></td>" for text in (*shares, *times, f"{figures['dma_count']:,}")]
        assert [cell for cell in cells if cell not in page.read_text()] == []
        assert "estimates" in page.read_text()


def test_large_errors_of_the_time_model_have_reasons(site):
    _, out = site
    page = (out / "docs" / "explanation" / "model-error.html").read_text()
    errors = json.loads((ROOT / "twin" / "npu_model.json").read_text())["errors"]
    large = [facts for facts in (errors["all"], *errors["series"].values()) if abs(facts["worst"]) >= 0.2]
    reasons = json.loads((ROOT / "benchmarks" / "published" / "reasons.json").read_text())
    shown = re.sub(r"<[^>]+>", "", page)
    for facts in large:
        point = facts["worst_point"]
        assert point in shown
        assert f"{100 * facts['worst']:+.0f} %" in shown
        assert reasons["points"].get(point, reasons["series"].get(point.split("/")[0], "Not known.")) in shown


def test_pages_have_no_dead_links_and_load_no_external_files(site):
    pages, _ = site
    dead, count = [], 0
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                dead += [(path.name, link)] if link in page.loaded and parts.scheme != "data" else []
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_there = target.is_file() and (not parts.fragment or parts.fragment in pages[target].ids)
            dead += [] if is_there or not link else [(path.name, link)]
    assert dead == []
    assert count > 200


def test_search_index_contains_words_of_the_pages(site):
    _, out = site
    index = (out / "searchindex.js").read_text()
    assert '"deadlock"' in index or "deadlock:" in index


@pytest.mark.all
@pytest.mark.parametrize(
    ("words", "title"), [("deadlock", "Checks of the CPU twin"), ("561003", "Exit codes and environment variables")]
)
def test_search_in_a_browser_lists_the_pages(site, tmp_path, words, title):
    _, out = site
    shown = shown_in_browser(f"{(out / 'search.html').as_uri()}?q={words}", tmp_path)
    results = re.search(r'<ul [^>]*class="search".*?</ul>', shown, re.DOTALL)
    assert results is not None, shown
    assert title in results[0]


@pytest.mark.all
def test_pages_fit_a_narrow_screen_and_wide_blocks_scroll(site, tmp_path):
    pages, out = site
    frame = '<iframe id="{}" src="{}" style="width: 420px; height: 900px; border: 0"></iframe>'
    frames = "".join(frame.format(page.relative_to(out), page.as_uri()) for page in pages)
    (tmp_path / "frames.html").write_text(f"<!doctype html><body>{frames}{MEASURE}</body>")
    shown = shown_in_browser((tmp_path / "frames.html").as_uri(), tmp_path)
    found = json.loads(html.unescape(re.search(r'data-found="(.*?)"', shown)[1]))
    assert {page["width"] for page in found.values()} == {420}
    assert {name: page for name, page in found.items() if page["overflow"] or page["cut"]} == {}
    assert sum(page["wide"] for page in found.values()) > len(pages)
    assert {name: page for name, page in found.items() if page["bars"] != page["wide"]} == {}


@pytest.mark.parametrize("status", ["161002", "561003"])
def test_search_finds_the_pages_of_a_status(site, status):
    pages, out = site
    index = json.loads((out / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    named = set()
    for found in (index[terms].get(status, []) for terms in ("terms", "titleterms")):
        named |= {index["docnames"][number] for number in ([found] if isinstance(found, int) else found)}
    assert named >= {"docs/troubleshooting"}
    for path in pages:
        has_status = status in re.sub(r"<[^>]+>", " ", path.read_text()).split() and path.name != "index.html"
        assert not has_status or path.relative_to(out).with_suffix("").as_posix() in named
    # Words that the search script removes from a query: numbers are not removed.
    assert "if (stopwords.has(queryTermLower)) return;" in (out / "_static" / "searchtools.js").read_text()


def test_link_to_nowhere_is_refused(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    found = importlib.util.spec_from_file_location("site_of_docs", ROOT / "docs" / "site.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    with pytest.raises(module.DeadLinkError, match=r"a\.md: got a link to gone\.md"):
        module._with_links("docs/a.md", "See [this](gone.md).", {})
    assert module._with_links("docs/a.md", "See [it](../LICENSE), `[x](y)`.", {}) == "See it (`LICENSE`), `[x](y)`."
