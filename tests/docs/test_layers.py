"""The rooms of the package are on the floors that the page of the architecture gives them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "dpoco"
SHARED = {"errors", "trace"}  # and modules with an underscore: in the hall, for everybody
BESIDE = {"domains", "losses"}  # what accounting may know


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
    if used not in rooms() or used in (room, "accounting"):
        return floor.get(room, 2) < 2 and used == "accounting"
    return used not in BESIDE if room == "accounting" else floor[used] > floor[room]


def test_the_page_has_every_room_once():
    assert rooms() - set(floors()) == {"accounting"}
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
    assert seen > 500


def test_the_check_sees_a_climb():
    floor = floors()
    assert climbs("mechanisms", "experts", floor)
    assert climbs("accounting", "mechanisms", floor)
    assert climbs("random", "accounting", floor)
    assert not climbs("experts", "mechanisms", floor)
    tree = ast.parse("from dpoco.oco._nets import x\nimport dpoco.local\nfrom dpoco import noise")
    assert imports(tree) == {"oco", "local", "noise"}
