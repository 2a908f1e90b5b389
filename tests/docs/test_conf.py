"""What the site's configuration does to pages and to members of documented classes."""

from __future__ import annotations

import enum
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

for name in ("docutils", "sphinx", "latex2mathml"):
    pytest.importorskip(name, reason="needs the extra docs")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def conf():
    spec = importlib.util.spec_from_file_location("site_conf", ROOT / "docs" / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Colour(str, enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("what", "member", "skipped"),
    [
        ("class", str.upper, True),
        ("class", Path.read_text, True),
        ("class", Colour.upper, True),
        ("module", Path.read_text, None),
        ("class", 3, None),
    ],
)
def test_members_of_other_libraries_are_left_out(conf, what, member, skipped):
    assert conf.foreign_members(None, what, "name", member, False, None) is skipped


def test_own_members_are_shown(conf):
    import dpoco

    learner = dpoco.oco.NoisyFTRL
    for member in (learner.decide, learner.run, learner.guarantee, learner.clone):
        assert conf.foreign_members(None, "class", "name", member, False, None) is None


def test_code_breaks_in_cells_only(conf):
    code = '<code><span class="pre">tests/a_b.py</span></code>'
    context = {"body": f"<p>{code}</p><td>{code} a_b/c</td>"}
    conf.breakable_cells(None, "page", "page.html", context, None)
    assert context["body"] == (
        f'<p>{code}</p><td><code><span class="pre">tests/<wbr>a_<wbr>b.<wbr>py</span></code>'
        " a_b/c</td>"
    )
    empty: dict[str, object] = {}
    conf.breakable_cells(None, "search", "search.html", empty, None)
    assert not empty["body"]


@pytest.mark.parametrize(
    ("display", "formula", "start"),
    [
        ("inline", "x^2", '<span class="math"><math'),
        ("inline", "+".join("abcdefghijklmnopqrstuvwxyz"), '<span class="math long"><math'),
        ("block", "x^2", '<div class="math"><math'),
    ],
)
def test_formulas_have_a_frame_that_scrolls(conf, display, formula, start):
    from docutils import nodes

    translator = SimpleNamespace(body=[], docnames=["page"])
    with pytest.raises(nodes.SkipNode):
        conf.math_visitor(display)(translator, nodes.math(formula, formula))
    assert translator.body[0].startswith(start)


@pytest.mark.parametrize(
    ("text", "here", "target"),
    [
        ("docs/privacy/gaussian.md", "reference/noise", "privacy/gaussian"),
        ("docs/cli.md#run", "privacy/pure", "cli"),
        ("gaussian.md", "privacy/pure", "privacy/gaussian"),
        ("pitfalls.md", "project/changes", "privacy/pitfalls"),
        ("SECURITY.md", "privacy/pure", "project/security"),
        ("bench/README.md", "project/contributing", "project/benchmarks"),
        ("README.md", "project/contributing", None),
        ("docs/nowhere.md", "cli", None),
        ("docs/conf.py", "cli", None),
    ],
)
def test_pages_in_code_font_are_links(conf, text, here, target):
    from docutils import nodes
    from docutils.utils import new_document

    builder = SimpleNamespace(get_relative_uri=lambda _, page: f"{page}.html")
    pages = {
        path.relative_to(conf.DOCS).with_suffix("").as_posix() for path in conf.DOCS.glob("**/*.md")
    }
    app = SimpleNamespace(env=SimpleNamespace(found_docs=pages), builder=builder)
    page = new_document("page")
    page += nodes.paragraph("", "", nodes.literal("", text))
    conf.link_named_pages(app, page, here)
    uris = [link["refuri"] for link in page.findall(nodes.reference)]
    anchor = "#run" if "#" in text else ""
    assert uris == ([] if target is None else [f"{target}.html{anchor}"])
