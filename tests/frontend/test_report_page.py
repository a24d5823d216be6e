"""Test the page of `opforge convert --html`."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections import Counter

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_training_steps import HERE, STEPS
from onnx import helper
from typer.testing import CliRunner
from web_page import WebPage

from opforge.cli.main import app
from opforge.frontend import convert
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.report.graph_layout import layout
from opforge.frontend.report.rewrite_diff import rewritten_places

TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "section", "code", "footer"}
TAGS |= {"table", "tr", "th", "td", "details", "summary", "figure", "figcaption"}
TAGS |= {"svg", "defs", "marker", "path", "g", "rect", "text"}
NODE = "npu.NPUGroupedBiasAddGrad"


def parse(text):
    imports = '"" : 18, "npu" : 1, "com.microsoft" : 1'
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> g {text}")


def report(model, folder, *options):
    """Return the page of a conversion as text."""
    path = folder / "m.onnx"
    if isinstance(model, onnx.ModelProto):
        onnx.save(model, path)
    else:
        path = model
    arguments = ["convert", path, "-o", folder / "o.onnx", "--html", folder / "r.html", *options]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return (folder / "r.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=STEPS)
def step(request, tmp_path_factory):
    """Convert a training step with all options: folder, source, page."""
    folder, source = tmp_path_factory.mktemp(request.param), HERE / f"{request.param}_training.onnx"
    options = ("--lower-training", "--patterns", "--verify", "--json", folder / "r.json")
    return folder, source, report(source, folder, *options)


def test_page_of_a_training_step_is_self_contained(step):
    _, _, text = step
    page = WebPage(text)
    assert page.open == []
    assert page.loaded == []
    assert set(page.tags) <= TAGS
    assert set(re.findall(r"url\((.*?)\)", text)) == {"#arrow"}
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_page_contains_the_entries_of_the_report(step):
    folder, source, text = step
    page, data = WebPage(text), json.loads((folder / "r.json").read_text())
    for entry in (*data["mapped"], *data["left"]):
        assert entry["node"] in page.text
    for entry in data["left"]:
        assert entry["reason"] in page.text
    for entry in data["verified"]:
        assert entry["output"] in page.text
        assert f"{entry['error']:.3g}" in page.text
    assert f"{source.stat().st_size:,} bytes before, {(folder / 'o.onnx').stat().st_size:,} after" in page.text
    assert "15 before, 18 after" in page.text
    command = re.search(r"<code>(.*?)</code>", text)[1]
    assert shlex.split(command)[:3] == ["opforge", "convert", str(source)]
    assert set(command.split()) >= {"--lower-training", "--patterns", "--verify", "--html"}


def test_the_nodes_of_each_type_are_counted(step):
    folder, source, text = step
    before, after = (Counter(map(key, onnx.load(path).graph.node)) for path in (source, folder / "o.onnx"))
    rows = re.findall(r'<tr><td>(\S+)</td><td class="number">([\d,]+)</td><td class="number">([\d,]+)</td>', text)
    assert {name: (int(first), int(second)) for name, first, second in rows} == {
        name: (before[name], after[name]) for name in before.keys() | after.keys()
    }


def key(node):
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def test_every_rewritten_node_has_its_picture(step):
    folder, _, text = step
    data = json.loads((folder / "r.json").read_text())
    pictures = re.findall(r'<svg class="picture".*?</svg>', text, re.DOTALL)
    assert len(pictures) == 2 * (len(data["mapped"]) + len(data["lowered"]))
    befores, afters = pictures[::2], pictures[1::2]
    assert not any('class="ours"' in picture for picture in befores)
    custom = [picture for picture in afters if 'class="ours"' in picture]
    assert len(custom) == len(data["mapped"])
    for entry, picture in zip(data["mapped"], custom, strict=True):
        assert f'<g class="ours"><title>{entry["node"]}</title>' in picture
        assert f"opforge::{entry['op']}" in picture


def test_change_lists_removed_and_added_nodes():
    model = parse(
        """(float[6, 3] x) => (float[3, 3] z)
        <int64[3] lengths = {1, 2, 3}, int64[1] axis = {0}> {
          h = Neg (x)
          a, b, c = Split <axis = 0> (h, lengths)
          p = ReduceSum <keepdims = 1> (a, axis) q = ReduceSum <keepdims = 1> (b, axis)
          r = ReduceSum <keepdims = 1> (c, axis)
          y = Concat <axis = 0> (p, q, r)
          z = Relu (y)
        }"""
    )
    conversion = convert(model, patterns=True)
    (place,) = rewritten_places(GraphView(model), conversion, 10)
    assert [entry.op for entry in place.entries] == ["GroupedBiasAddGrad"]
    types = [[side.scope.node(number).op_type for number in side.nodes] for side in (place.before, place.after)]
    assert types == [["Split", "ReduceSum", "ReduceSum", "ReduceSum", "Concat"], ["GroupedBiasAddGrad"]]
    assert rewritten_places(GraphView(model), conversion, 0) == []


def test_positions_in_branches():
    branch = onnx.parser.parse_graph(f"b () => (float[G, 3] t) {{[n] t = {NODE} (x, i)}}")
    model = parse("(float[6, 3] x, int64[3] i, bool c) => (float[3, 3] y) {}")
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], "if", then_branch=branch, else_branch=branch))
    places = rewritten_places(GraphView(model), convert(model), 10)
    assert [(place.before.scope.place, place.before.nodes, place.after.nodes) for place in places] == [
        ("graph: node 'if' (If).else_branch", (0,), (0,)),
        ("graph: node 'if' (If).then_branch", (0,), (0,)),
    ]


HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "{{ 12345679 * 9 }}",
    "\x1b[31m\u202e",
    "x" * 5000,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_models_are_only_text(tmp_path, name):
    model = parse(f"(float[2, 4, 3] x, float[4, 3] w) => (float[2, 3] y, float[3] z) {{[n] y = {NODE} (x)}}")
    model.graph.node[0].name = model.graph.node[0].input[0] = model.graph.input[0].name = name
    model.graph.node[0].output[0] = model.graph.output[0].name = f"{name}."
    left = helper.make_node("NPUGroupedBiasAddGrad", ["w"], ["z"], name, domain="npu")
    foreign = helper.make_node(name, [], [f"{name}!"], domain=name)
    model.graph.node.extend([left, foreign])
    model.opset_import.append(helper.make_opsetid(name, 1))
    text = report(model, tmp_path)
    page = WebPage(text)
    assert set(page.tags) <= TAGS
    assert not [attribute for attribute in page.attributes if attribute.startswith("on")]
    assert page.loaded == []
    assert "111111111" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)
    assert name[:20] in page.text or repr(name)[1:-1] in page.text
    assert len(text) < 100_000


def test_the_page_of_a_huge_model_is_bounded(tmp_path):
    names = [f"y{number}" for number in range(1500)]
    nodes = " ".join(f"[n{name}] {name} = {NODE} (x)" for name in names)
    text = report(parse(f"(float[2, 4, 3] x) => ({', '.join(names)}) {{{nodes}}}"), tmp_path)
    page = WebPage(text)
    assert "... and 500 more; --json lists all." in page.text
    assert "1,400 more are not drawn." in page.text
    assert text.count('<svg class="picture"') == 200
    assert len(text) < 1_000_000


def test_equal_nodes_share_one_box(tmp_path):
    parts, count = [f"p{number}" for number in range(200)], 200
    sums = " ".join(f"s{part} = ReduceSum <keepdims = 1> ({part}, axis)" for part in parts)
    text = report(
        parse(
            f"""(float[{count}, 3] x) => (float[{count}, 3] y) <int64[1] axis = {{0}}> {{
            {", ".join(parts)} = Split <axis = 0, num_outputs = {count}> (x) {sums}
            y = Concat <axis = 0> ({", ".join(f"s{part}" for part in parts)})}}"""
        ),
        tmp_path,
        "--patterns",
    )
    (before, after) = re.findall(r'<svg class="picture".*?</svg>', text, re.DOTALL)
    assert "not all nodes are shown" in text
    assert re.search(r"\d+ more ReduceSum<", before)
    assert before.count("<g ") < 30
    assert after.count('class="ours"') == 1


def test_an_unchanged_model_has_a_page(tmp_path):
    page = WebPage(report(parse("(float[2] x) => (float[2] y) {y = Relu (x)}"), tmp_path))
    assert "the model is unchanged" in page.text
    assert "svg" not in page.tags


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_boxes_of_a_layout_do_not_overlap_and_readers_lie_below(data):
    sizes = data.draw(st.lists(st.tuples(st.integers(20, 250), st.integers(20, 60)), min_size=1, max_size=14))
    pairs = [(first, second) for second in range(len(sizes)) for first in range(second)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30)) if pairs else []
    late = [box for box in range(len(sizes)) if all(reader != box for _, reader in edges)]
    found = layout(sizes, edges, late)
    areas = [(x, y, x + width, y + height) for (x, y), (width, height) in zip(found.corners, sizes, strict=True)]
    for number, (left, top, right, bottom) in enumerate(areas):
        assert left >= 0
        assert top >= 0
        assert right <= found.width
        assert bottom <= found.height
        for other in areas[:number]:
            assert right <= other[0] or left >= other[2] or bottom <= other[1] or top >= other[3]
    for maker, reader in edges:
        assert areas[maker][3] < areas[reader][1]
        start, end = (re.findall(r"[-\d.]+", found.curves[maker, reader])[part] for part in (slice(2), slice(-2, None)))
        assert float(start[1]) == pytest.approx(areas[maker][3], abs=0.2)
        assert float(end[1]) == pytest.approx(areas[reader][1], abs=0.2)


# Runs in the page: compares every text with its box, and finds elements that are too wide, and colors.
MEASURE = """<script>
document.querySelectorAll('details').forEach(entry => entry.open = true);
const found = {texts: 0, outside: [], pictures: 0, ours: document.querySelectorAll('g.ours').length};
for (const group of document.querySelectorAll('.picture g')) {
  const box = group.querySelector('rect').getBoundingClientRect();
  for (const text of group.querySelectorAll('text')) {
    const area = text.getBoundingClientRect();
    found.texts++;
    if (area.left < box.left || area.right > box.right || area.top < box.top || area.bottom > box.bottom)
      found.outside.push(text.textContent);
  }
}
for (const picture of document.querySelectorAll('.picture'))
  found.pictures += picture.getBoundingClientRect().height > 50;
found.overflow = document.documentElement.scrollWidth > document.documentElement.clientWidth;
const color = style => style.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
found.paper = color(getComputedStyle(document.body).backgroundColor);
found.ink = color(getComputedStyle(document.body).color);
document.body.replaceChildren();
document.body.dataset.found = JSON.stringify(found);
</script>"""


@pytest.mark.all
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_page(step, tmp_path, scheme):
    """Chromium shows all pictures, every text is inside its box, and nothing is too wide."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    _, _, text = step
    # The page forbids scripts; the measuring script must be allowed.
    open_page = text.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    assert open_page != text
    page = tmp_path / "page.html"
    page.write_text(open_page.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1240,900", f"--user-data-dir={tmp_path}/u"]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND"]
    flags += ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    command = [chromium, *flags, "--dump-dom", page.as_uri()]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, env={**os.environ, "HOME": str(tmp_path)}
    )
    found = json.loads(re.search(r'data-found="(.*?)"', done.stdout)[1].replace("&quot;", '"'))
    assert found["pictures"] == text.count('<svg class="picture"') > 40
    assert found["ours"] == 2
    assert found["texts"] > 500
    assert found["outside"] == []
    assert not found["overflow"]
    assert (found["paper"] > found["ink"]) == (scheme == "light")
