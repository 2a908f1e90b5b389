"""Names of the package on pages, in code font as ``dpoco.oco.NoisyFTRL``, exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "dpoco"
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
NAME = re.compile(r"`(dpoco\.[a-z_]+(?:\.\w+)*)[`(]")  # no schema as `dpoco.model/1`
FILES = ("db", "toml", "json")


def find_names(text: str) -> list[str]:
    """Return the names of a page, its programs left out."""
    found = NAME.findall(FENCE.sub("", text))
    return [name for name in found if name.rsplit(".")[-1] not in FILES]


def exists(name: str) -> bool:
    """Whether a dotted name leads to a module, or to what its code exports or defines."""
    place, parts = PACKAGE, name.split(".")[1:]
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and (place / f"{parts[0]}.py").is_file():
        place /= f"{parts.pop(0)}.py"
    if not parts:
        return True
    code = (place / "__init__.py" if place.is_dir() else place).read_text("utf-8")
    return (
        re.search(rf'"{parts[0]}"|^(?:class|def) {parts[0]}\b|import {parts[0]}\b', code, re.M)
        is not None
    )


def test_names_on_pages_exist():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    named = {name: page.name for page in pages for name in find_names(page.read_text("utf-8"))}
    assert len(named) > 60
    assert not {name: page for name, page in named.items() if not exists(name)}


def test_a_name_that_is_gone_is_found():
    assert find_names("`dpoco.oco.NoisyFTRL(...)` and `dpoco.oco.Gone`\n") == [
        "dpoco.oco.NoisyFTRL",
        "dpoco.oco.Gone",
    ]
    assert exists("dpoco.oco.NoisyFTRL")
    assert not exists("dpoco.oco.Gone")
