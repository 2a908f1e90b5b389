"""Builds the site: ``python -m sphinx -W -n -b html docs build/site``.

Pages are written for the repository's web view, and this file makes them a site:

* A link to a file is relative to the page, as on the web view. If the file has a page of the site,
  the link leads there. Any other file of the repository is copied into the site and linked.
* ``<!-- page of the site: PATH -->`` makes a page of a file outside ``docs``: its text takes the
  place of the page that says so, its links are those of the file.
* ``README.md`` of a folder is the index of the other pages of that folder.
* A page that is named in code font, as ``docs/privacy/gaussian.md``, ``SECURITY.md`` or, among the
  proofs, ``gaussian.md``, is a link to it.
* Mathematics becomes MathML, so that pages need no script from elsewhere.
* Names and paths in tables may be broken behind their marks, or tables would be too wide.
* Names in single backticks of a docstring link to what they name, if that is documented; a bar is
  an absolute value, not markup. A class is shown with the arguments of its constructor, and
  without the members that a class of another library gives it.
"""

from __future__ import annotations

import inspect
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

import dpoco

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

project = "dpoco"
author = "the dpoco authors"
copyright = "the dpoco authors"
version = release = dpoco.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx_copybutton"]
nitpicky = True
exclude_patterns = ["figures"]

toc_object_entries = False  # or every page's sidebar is built from every name of the library

html_theme = "furo"
html_title = f"dpoco {release}"
html_show_sphinx = False
html_copy_source = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_logo = html_favicon = "_static/logo.svg"
copybutton_prompt_text = "$ "  # is not copied
html_css_files = ["dpoco.css"]

myst_enable_extensions = ["dollarmath"]
myst_dmath_double_inline = True  # displayed formulas inside paragraphs
myst_heading_anchors = 4  # the anchors that the web view of a repository has

# Docstrings state types, shapes and units in words; signatures stay readable without annotations.
autodoc_typehints = "none"
try:  # the page of its adapter is built without it too
    import torch  # noqa: F401
except ImportError:
    autodoc_mock_imports = ["torch"]
autodoc_member_order = "bysource"
default_role = "py:obj"
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

_PAGE = re.compile(r"<!-- page of the site: (\S+) -->")
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
# What the converter to MathML does not know, and how it knows it.
_SPELLINGS = {"\\\n": "\\ ", r"\arg\m": r"\operatorname{arg}\m", r"zero\_out": "zero_out"}
_NAMED = re.compile(r"(\S+)\.md(#\S+)?")
_LONG = 35  # characters of a formula that may not fit on the line of a phone
_CELL = re.compile(r"<td>.*?</td>", re.DOTALL)
_CODE_IN_CELL = re.compile(r'(?<=<span class="pre">)[^<]+')
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


@cache
def pages_of_other_files() -> dict[Path, Path]:
    """Return the files outside ``docs`` that are pages of the site, with the pages they are."""
    found = {}
    for page in DOCS.glob("**/*.md"):
        match = _PAGE.search(page.read_text(encoding="utf-8"))
        if match:
            found[(page.parent / match.group(1)).resolve()] = page
    return found


def with_links_of_the_site(text: str, origin: Path, page: Path, others: dict[Path, Path]) -> str:
    """Return the text of the file `origin` with the links it needs as the page `page`."""

    def moved(match: re.Match[str]) -> str:
        target: str = match.group()
        file, mark, anchor = target.partition("#")
        if not file or re.match("[a-z]+:", target):
            return target
        path = (origin.parent / file).resolve()
        if not path.is_file():
            return target  # which the parser reports
        goal = others.get(path, path)
        return f"{Path(os.path.relpath(goal, page.parent)).as_posix()}{mark}{anchor}"

    parts = _FENCE.split(text)  # code stays as it is
    return "".join(part if i % 2 else _LINK.sub(moved, part) for i, part in enumerate(parts))


def read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Take the text of another file, if it is the page, and mend links."""
    page = origin = DOCS / f"{docname}.md"
    match = _PAGE.search(source[0])
    if match:
        origin = (page.parent / match.group(1)).resolve()
        source[0] = origin.read_text(encoding="utf-8")
        app.env.note_dependency(str(origin))
    source[0] = with_links_of_the_site(source[0], origin, page, pages_of_other_files())
    if page.name == "README.md":
        source[0] += "\n\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def math_visitor(display: str) -> Any:
    """Return a visitor that writes a formula as MathML."""

    def visit(translator: Any, node: nodes.Element) -> None:
        text = node.astext()
        for spelling, known in _SPELLINGS.items():
            text = text.replace(spelling, known)
        try:
            formula = convert(text, display=display)
        except Exception as error:
            raise ExtensionError(f"{translator.docnames[0]}: {node.astext()}: {error!r}") from error
        if "\\" in formula:
            raise ExtensionError(f"{translator.docnames[0]}: a command unknown in {node.astext()}")
        tag, kind = ("div", "math") if display == "block" else ("span", "math")
        if tag == "span" and len(re.sub("<[^>]*>", "", formula)) > _LONG:
            kind += " long"
        translator.body.append(f'<{tag} class="{kind}">{formula}</{tag}>')
        raise nodes.SkipNode

    return visit


def plain_bars(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of a docstring, but for code."""
    code_below: int | None = None  # the indentation that a block of code exceeds
    for i, line in enumerate(lines):
        indentation = len(line) - len(line.lstrip())
        if code_below is not None and line.strip() and indentation <= code_below:
            code_below = None
        if code_below is None and not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"``.*?``|\|", lambda m: r"\|" if m[0] == "|" else m[0], line)
            if line.rstrip().endswith("::"):
                code_below = indentation


def breakable_cells(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Let code in the cells of tables be broken behind its marks, and nowhere else."""

    def code(match: re.Match[str]) -> str:
        return re.sub(r"([/_.(,=])(?=.)", r"\1<wbr>", match.group())

    body = context.get("body", "")
    context["body"] = _CELL.sub(lambda cell: _CODE_IN_CELL.sub(code, cell.group()), body)


def foreign_members(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave members that a class of another library gives to that library's documentation."""
    if what == "module":
        return None
    code = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "func", member))
    giver = getattr(code, "__objclass__", code)
    if not (inspect.isroutine(code) and getattr(giver, "__module__", None)):
        return None
    return None if giver.__module__.partition(".")[0] == "dpoco" else True


def page_named(name: str, docname: str, pages: set[str]) -> str | None:
    """Return the page of a file that is named without its suffix, from the root or a folder."""
    if name == "README":
        return None  # any folder's
    folder = docname.rpartition("/")[0]
    for page in (name.removeprefix("docs/"), f"{folder}/{name}", f"privacy/{name}"):
        if page in pages:
            return page
    other = pages_of_other_files().get(ROOT / f"{name}.md")
    return other.relative_to(DOCS).with_suffix("").as_posix() if other else None


def link_named_pages(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make a link of every page that is named in code font."""
    for name in list(doctree.findall(nodes.literal)):
        match = _NAMED.fullmatch(name.astext())
        page = match and page_named(match[1], docname, app.env.found_docs)
        if match is None or page is None or isinstance(name.parent, nodes.reference):
            continue
        uri = app.builder.get_relative_uri(docname, page) + (match[2] or "")
        link = nodes.reference("", "", internal=True, refuri=uri)
        name.replace_self(link)
        link += name


def arguments_of_constructor(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str, result: str
) -> tuple[str, str] | None:
    """Return the arguments of a class whose ``__new__`` takes any."""
    if what != "class" or arguments != "(*args, **kwargs)":
        return None
    empty = inspect.Parameter.empty
    signature = inspect.signature(obj)
    plain = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=empty)), ""


def plain_name(app: Sphinx, env: Any, node: nodes.Element, content: nodes.Element) -> Any:
    """Leave a name in single backticks alone if it names nothing that is documented."""
    return content if node.get("reftype") == "obj" and not node.get("refexplicit") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the rules above."""
    inline, block = math_visitor("inline"), math_visitor("block")
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", plain_bars)
    app.connect("autodoc-skip-member", foreign_members)
    app.connect("autodoc-process-signature", arguments_of_constructor)
    app.connect("doctree-resolved", link_named_pages)
    app.connect("html-page-context", breakable_cells)
    app.connect("missing-reference", plain_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
