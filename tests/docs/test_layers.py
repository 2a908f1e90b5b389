"""The rooms of the package are on the floors that the page of the architecture gives them."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "dpoco"
SHARED = {"errors", "trace"}  # and modules with an underscore: in the hall, for everybody
BESIDE = {"domains", "losses", "privacy"}  # what accounting may know
KERNEL = PACKAGE / "privacy"


def floors() -> dict[str, int]:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("\n| floor |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d) \| ([^|]+) \|", table, re.MULTILINE)
    return {room: int(floor) for floor, rooms in rows for room in re.findall(r"`(\w+)`", rooms)}


def imports(tree: ast.AST) -> set[str]:
    """Return the rooms that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "dpoco":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpoco."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {name[1] for name in names if name[0] == "dpoco" and len(name) > 1}
    return found


@cache
def rooms() -> set[str]:
    names = {p.stem for p in PACKAGE.glob("*.py")}
    names |= {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
    return {name for name in names if not name.startswith("_")} - SHARED


def climbs(room: str, used: str, floor: dict[str, int]) -> bool:
    """Return whether a room uses one that it must not know."""
    if room == "privacy":
        return used != room
    if used not in rooms() or used in (room, "accounting", "privacy"):
        return floor.get(room, 2) < 2 and used in ("accounting", "privacy")
    return used not in BESIDE if room == "accounting" else floor[used] > floor[room]


def test_the_page_has_every_room_once():
    assert rooms() - set(floors()) == {"accounting", "privacy"}
    assert set(floors()) <= rooms()


def test_no_room_uses_one_above_it():
    floor = floors()
    seen = 0
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room not in rooms():
            continue
        for used in imports(ast.parse(path.read_text())):
            seen += used in rooms()
            assert not climbs(room, used, floor), f"{path}: {used}"
    assert seen > 400  # it does look


def test_the_check_sees_a_climb():
    floor = floors()
    assert climbs("mechanisms", "experts", floor)
    assert climbs("accounting", "mechanisms", floor)
    assert climbs("random", "accounting", floor)
    assert climbs("privacy", "domains", floor)
    assert not climbs("experts", "mechanisms", floor)
    tree = ast.parse("from dpoco.oco._nets import x\nimport dpoco.local\nfrom dpoco import noise")
    assert imports(tree) == {"oco", "local", "noise"}


def lines(path: Path) -> int:
    """Return how many lines of a file hold code: neither blank, nor comment, nor docstring."""
    source = path.read_text()
    texts = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    blank = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (*blank, tokenize.ENDMARKER):
            found |= set(range(token.start[0], token.end[0] + 1))
    return len(found - texts)


def test_the_kernel_imports_almost_nothing():
    for path in KERNEL.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                own = name.startswith("dpoco.privacy") or name.split(".")[0] == "numpy"
                library = name.split(".")[0] in sys.stdlib_module_names
                assert own or library or name == "scipy.special", f"{path}: {name}"


def test_the_kernel_is_read_in_an_evening():
    sizes = {path: lines(path) for path in KERNEL.rglob("*.py")}
    assert 300 < sum(sizes.values()) <= 3_000
    assert max(sizes.values()) <= 200
    for path in sizes:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{path}: {node.name}"
