"""Files import no file that imports them, and rooms none on a floor above their own.

The page of the architecture gives every room its floor. An import counts wherever it is: inside a
function, and for annotations only. So does a text that names a class of a room.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "dpoco"
KERNEL = PACKAGE / "privacy"
FACE = "__init__"  # of the package: it hands on names, most of them on first use
# These are no files of the package's own: compiled, or links of a checkout that is not installed.
FOREIGN = ("_core", "_independent", "docs")
NAMES = {"learners"}  # the list of learners, by names of classes
MOST_FLOORS = 8

Arrows = Mapping[str, set[str]]


def files(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the files of a package by the names of their modules, without the package's."""
    found = {
        path.relative_to(package).with_suffix("").as_posix().replace("/", "."): path
        for path in package.rglob("*.py")
    }
    return {name: path for name, path in found.items() if room(name) not in FOREIGN}


def room(module: str) -> str:
    """Return the room of a module."""
    return module.partition(".")[0]


def imported(nodes: Iterable[ast.AST], known: Iterable[str]) -> Iterator[str]:
    """Yield the modules that a file imports, anywhere in it."""
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, *parts = name.split(".")
            if package == "dpoco" and parts[:1] not in ([each] for each in FOREIGN):
                yield _module(parts, known)


def _module(parts: list[str], known: Iterable[str]) -> str:
    """Return the module that has a dotted name: itself, that of a package, or one around it."""
    while parts:
        for name in (".".join(parts), ".".join([*parts, "__init__"])):
            if name in known:
                return name
        parts = parts[:-1]
    return FACE


def named(nodes: Iterable[ast.AST], known: Iterable[str]) -> Iterator[str]:
    """Yield the modules whose classes a file names in texts, which import them when it runs."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.fullmatch(r"(?:dpoco\.)?(\w+)\.(?:\w+\.)*[A-Z]\w*", node.value)
            if found is not None and f"{found[1]}.__init__" in known:
                yield f"{found[1]}.__init__"


@cache
def arrows() -> dict[str, set[str]]:
    """Return what each file of the package takes from which others."""
    known = files()
    found = {}
    for name, path in known.items():
        nodes = list(ast.walk(ast.parse(path.read_text())))
        texts = named(nodes, known) if name not in (FACE, *NAMES) else ()
        found[name] = {*imported(nodes, known), *texts} - {name}
    return found


def between_rooms(of_files: Arrows) -> dict[str, set[str]]:
    """Return which rooms take something from which others."""
    found: dict[str, set[str]] = {room(name): set() for name in of_files}
    for name, others in of_files.items():
        found[room(name)] |= {room(other) for other in others} - {room(name)}
    return found


def circles(graph: Arrows) -> list[list[str]]:
    """Return what is left once everything is gone, again and again, that imports nothing left."""
    left = {name: set(others) for name, others in graph.items()}
    while done := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in done}
    while done := {name for name in left if not any(name in others for others in left.values())}:
        left = {name: others for name, others in left.items() if name not in done}
    return sorted([name, *sorted(others & left.keys())] for name, others in left.items())


def floors() -> dict[str, int]:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("\n| floor |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d) \| ([^|]+) \|", table, re.MULTILINE)
    return {name: int(floor) for floor, rooms in rows for name in re.findall(r"`(\w+)`", rooms)}


def climbs(graph: Arrows, floor: Mapping[str, int]) -> list[str]:
    """Return the arrows between rooms that go up."""
    return sorted(
        f"{name} -> {other}"
        for name, others in graph.items()
        for other in others
        if floor[other] > floor[name]
    )


def test_the_page_has_every_room_once():
    rooms = {room(name) for name in files()} - {FACE, "__main__"}
    assert rooms == set(floors())
    assert set(floors().values()) == set(range(1, max(floors().values()) + 1))
    assert max(floors().values()) <= MOST_FLOORS


def test_no_file_is_in_a_circle():
    """Takes seconds: it parses every file of the package, once for all tests here."""
    assert sum(map(len, arrows().values())) > 1_000  # it does look
    assert circles(arrows()) == []


def test_no_room_is_in_a_circle():
    assert circles(between_rooms(arrows())) == []


def test_no_room_uses_one_above_it():
    top = max(floors().values())
    above = {"__main__": top, FACE: max(floors()[name] for name in arrows_of_the_face())}
    assert climbs(between_rooms(arrows()), {**floors(), **above}) == []


def arrows_of_the_face() -> set[str]:
    return {room(name) for name in arrows()[FACE]}


def test_circles_and_climbs_are_seen(tmp_path):
    texts = {
        "low/a.py": "from dpoco.low import b\n",
        "low/b.py": "def late():\n    from dpoco.low.a import x\n",
        "low/c.py": "from dpoco import _core, high\nimport dpoco.low.a\n",
        "high/__init__.py": "from dpoco.low.c import C\n",
        "high/d.py": "if TYPE_CHECKING:\n    from dpoco.high.e import E\n",
        "high/e.py": "from dpoco.high.d import D\n",
        "list.py": "CLASSES = ['high.Class', 'no.Class', 'high.module']\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    known = files(tmp_path)
    trees = {name: [*ast.walk(ast.parse(path.read_text()))] for name, path in known.items()}
    graph = {name: {*imported(tree, known)} - {name} for name, tree in trees.items()}
    assert graph["low.c"] == {"high.__init__", "low.a"}
    assert circles(graph) == [
        ["high.__init__", "low.c"], ["high.d", "high.e"], ["high.e", "high.d"],
        ["low.a", "low.b"], ["low.b", "low.a"], ["low.c", "high.__init__", "low.a"],
    ]  # fmt: skip
    assert circles(between_rooms(graph)) == [["high", "low"], ["low", "high"]]
    assert climbs(between_rooms(graph), {"low": 1, "high": 2, "list": 1}) == ["low -> high"]
    assert list(named(trees["list"], known)) == ["high.__init__"]


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
