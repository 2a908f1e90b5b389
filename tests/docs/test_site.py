"""The site has every page once, every public name, and nothing that is fetched from elsewhere."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest
from tests.docs.links import errors

import dpoco

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for path in DOCS.glob("**/*.md")
}
OTHER = re.compile(r"<!-- page of the site: (\S+) -->")


def entries(page: str, text: str) -> list[str]:
    """Return the pages that a page lists: in its toctrees, and as the README of its folder."""
    folder = page.rpartition("/")[0]
    listed = []
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        lines = [line.strip() for line in block.splitlines()]
        listed += [f"{folder}/{x}".lstrip("/") for x in lines if x and not x.startswith(":")]
    if page.endswith("/README"):
        listed += [x for x in PAGES if x.rpartition("/")[0] == folder and x != page]
    return listed


@cache
def public_modules() -> dict[str, object]:
    names = ["dpoco"] + [
        module.name
        for module in pkgutil.walk_packages(dpoco.__path__, "dpoco.")
        if not any(part.startswith("_") for part in module.name.split("."))
    ]
    return {name: importlib.import_module(name) for name in names if name not in lacking()}


def lacking() -> set[str]:
    """Return the modules that need a package which is not installed."""
    try:
        importlib.import_module("torch")
    except ImportError:
        return {"dpoco.adapters.torch"}
    return set()


def directives() -> dict[str, tuple[set[str] | None, set[str]]]:
    """Return the modules of the reference, with the members named (None: all) and left out."""
    found: dict[str, tuple[set[str] | None, set[str]]] = {}
    for page, text in PAGES.items():
        for block in re.findall(r"^\.\. automodule:: (.*?)^```$", text, re.MULTILINE | re.DOTALL):
            name = block.splitlines()[0].strip()
            assert page.startswith("reference/"), page
            assert name not in found, f"{name} is twice in the reference"
            options = dict(re.findall(r"^   :([\w-]+):(.*)$", block, re.MULTILINE))
            chosen = {x.strip() for x in options["members"].split(",")} - {""}
            out = {x.strip() for x in options.get("exclude-members", "").split(",")} - {""}
            if name not in lacking():
                found[name] = (chosen or None, out)
    return found


def shown() -> dict[str, set[int]]:
    """Return for each name in the reference the identities of the objects it shows."""
    objects: dict[str, set[int]] = {}
    for name, (chosen, out) in directives().items():
        module = importlib.import_module(name)
        assert out <= set(module.__all__), f"{name}: {out - set(module.__all__)}"
        for member in (chosen or set(module.__all__)) - out:
            if f"{name}.{member}" in lacking():
                continue
            objects.setdefault(member, set()).add(id(getattr(module, member)))
    return objects


def test_every_page_is_listed_exactly_once():
    listed = [entry for page, text in PAGES.items() for entry in entries(page, text)]
    assert sorted(listed) == sorted(set(PAGES) - {"index"})


def test_every_page_is_reachable():
    reached, ahead = set(), ["index"]
    while ahead:
        page = ahead.pop()
        if page not in reached:
            reached.add(page)
            ahead += entries(page, PAGES[page])
    assert reached == set(PAGES)


def test_pages_of_other_files_are_files_and_not_twice():
    targets = []
    for page, text in PAGES.items():
        for name in OTHER.findall(text):
            target = (DOCS / page).parent / name
            assert target.is_file(), f"{page}: {name}"
            assert f"]({name})" in text, f"{page} has no link for readers of the repository"
            targets.append(target.resolve())
    assert len(targets) == len(set(targets))
    assert ROOT / "README.md" in targets
    assert ROOT / "bench" / "README.md" in targets


def test_every_public_name_is_in_the_reference():
    objects = shown()
    missing = []
    modules = {id(module) for module in public_modules().values()}
    for name, module in public_modules().items():
        for member in getattr(module, "__all__", ()):
            if f"{name}.{member}" in lacking():
                continue
            value = getattr(module, member)
            if member.startswith("__") or id(value) in modules:
                continue
            if id(value) not in objects.get(member, ()):
                missing.append(f"{name}.{member}")
    assert missing == []


def test_no_name_is_shown_twice():
    seen: dict[int, str] = {}
    for name, (chosen, out) in directives().items():
        module = importlib.import_module(name)
        for member in sorted((chosen or set(module.__all__)) - out):
            if f"{name}.{member}" in lacking():
                continue
            value = getattr(module, member)
            if isinstance(value, type):
                assert id(value) not in seen, f"{name}.{member} and {seen[id(value)]}"
                seen[id(value)] = f"{name}.{member}"


def test_figures_are_shown_and_pages_bring_no_script():
    text = "".join(PAGES.values()) + (ROOT / "README.md").read_text()
    for figure in DOCS.glob("figures/*"):
        assert f"figures/{figure.name})" in text, figure.name
    assert not re.search(r"<script|<iframe|<img", text)


def test_the_build_is_strict_and_part_of_continuous_integration():
    command = "python -m sphinx -W -n -b html docs"
    assert command in (ROOT / ".ci" / "run").read_text()
    assert command in (ROOT / "CONTRIBUTING.md").read_text()
    assert "nitpick_ignore" not in (DOCS / "conf.py").read_text()


@pytest.mark.parametrize(("page", "listed"), [("index", ["a", "b/c"]), ("b/x", ["b/a", "b/b/c"])])
def test_toctrees_are_read_as_they_are_meant(page, listed):
    text = "# x\n```{toctree}\n:hidden:\n:caption: C\n\na\nb/c\n```\n```text\nd\n```\n"
    assert entries(page, text) == listed


def test_broken_links_of_a_built_site_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="x"></h1><a href="b.html#y">1</a><a href="#x">2</a><a href="https://e.org">3</a>'
        '<img src="data:,"><a href="f.py">4</a>'
    )
    (tmp_path / "b.html").write_text('<p id="y"></p><a href="a.html">1</a>')
    (tmp_path / "f.py").write_text("")
    named = "<code><span>docs/<wbr>b.<wbr>md</span></code>"
    linked = f'<a href="b.html">{named}</a><pre>{named}</pre><code>docs/x.md</code>'
    (tmp_path / "c.html").write_text(linked)
    assert errors(tmp_path) == []
    (tmp_path / "c.html").write_text(linked + named)
    assert errors(tmp_path) == ["c.html: docs/b.md is no link"]
    (tmp_path / "c.html").unlink()
    (tmp_path / "b.html").write_text(
        '<a href="a.html#z">1</a><a href="c.html">2</a><script src="https://e.org/m.js"></script>'
    )
    assert errors(tmp_path) == [
        "a.html: b.html#y, no such anchor",
        "b.html: a.html#z, no such anchor",
        "b.html: c.html",
        "b.html loads https://e.org/m.js",
    ]
    assert errors(tmp_path / "nowhere") == [f"no pages in {tmp_path / 'nowhere'}"]
