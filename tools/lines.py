"""How large the library is, how its rooms hang together, and what must be believed for one epsilon.

``python tools/lines.py`` prints code lines and files of each room, imports of private names from
other rooms, and modules that one other module imports. ``python tools/lines.py oco.NoisyFTRL`` (or
another learner) prints the files behind its epsilon, with the lines of them that are reached.

Code lines have no blank ones, comments or docstrings. The trusted lines are found by following
calls, function by function: in Python from the constructor, where an attribute may be any method
of that name of a class that is reached; in C++ from what binds the functions of the compiled class
that the learner's modules name, where a name may be any definition of it in a file that is
included. Planning is left out, and so are forecasts of regret and printed constants: what they say
is certified and compared with the budget, or no part of it. Code that stores or
reads states, or that is given releases only, does not count. The sentences of conditions do.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PYTHON, CPP = ROOT / "python", ROOT / "cpp"
PLANNING = ("explain", "cli", "journal", "scale", "audit", "evaluation")
PLANS = ("calibrate", "plan", "for_people", "noise_dominates")  # the last only warns
# The problem that a learner is followed with, besides what its constructor names itself.
PROBLEM = ("domains.LpBall", "losses.LogisticLoss", "accounting.Budget")
# Types of C++ whose functions store states: nothing that is released passes through them.
STORES = {"Archive", "ArchiveReader"}
# Bases in C++ of code that is given nothing of the data but releases. No guarantee rests on it.
RELEASED_ONLY = r"(?:mechanisms::PostProcessing|DecisionRule)"
Node = tuple[str, str]  # module, and name in it: function, class, "class.method" or constant


class Module:
    """One module of the package: its tree, its code lines and what its names stand for."""

    def __init__(self, path: Path) -> None:
        parts = path.relative_to(PYTHON).with_suffix("").parts
        self.path = path
        self.name = ".".join(part for part in parts if part != "__init__")
        self.tree = ast.parse(path.read_text(encoding="utf-8"))

    @property
    def room(self) -> str:
        """Folder below the package, or a public module next to the rooms; "" in the hall."""
        parts = self.name.split(".")
        return "" if len(parts) == 1 or (parts[1].startswith("_") and len(parts) == 2) else parts[1]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def code(self) -> frozenset[int]:
        """Numbers of the lines of code."""
        words = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        said: set[int] = set()
        text: set[int] = set()  # in a string, blank lines and signs of a comment count
        for node in self.nodes:
            if isinstance(node, words) and ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                said.update(range(first.lineno, (first.end_lineno or 0) + 1))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text.update(range(node.lineno, (node.end_lineno or 0) + 1))
        rows = enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1)
        lines = {at for at, row in rows if row.strip() and not row.lstrip().startswith("#")}
        return frozenset((lines | text) - said)

    @cached_property
    def imports(self) -> list[tuple[str, str, str]]:
        """Everything imported, anywhere: (module, name in it or "", name here)."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                for alias in node.names:
                    found.append((node.module, alias.name, alias.asname or alias.name))
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    found.append((alias.name, "", alias.asname or alias.name.split(".")[0]))
        return found

    @cached_property
    def taken(self) -> dict[str, tuple[str, str]]:
        """Meaning of names from elsewhere in the package: (module, name there)."""
        return {
            here: (source, name)
            for source, name, here in self.imports
            if source.split(".")[0] == "dpoco" and source != self.name
        }

    @cached_property
    def definitions(self) -> dict[str, ast.AST]:
        """Definitions of the module: functions, classes, their methods, and constants."""
        found: dict[str, ast.AST] = {}
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[node.name] = node
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            )
            for target in targets:
                for name in ast.walk(target) if target is not None else ():
                    if isinstance(name, ast.Name):
                        found[name.id] = node
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{name}": part for name, part in _members(node).items()}
        return found

    @cached_property
    def offered(self) -> frozenset[str]:
        """Names that others can import from the module: its definitions, and those passed on."""
        public = self.definitions.get("__all__")
        words = ast.walk(public) if public is not None else ()
        named = {word.value for word in words if isinstance(word, ast.Constant)}
        return frozenset(self.definitions.keys() | named & self.taken.keys())


def _members(node: ast.ClassDef) -> dict[str, ast.stmt]:
    """Return what belongs to a class only if it is asked for: methods and private attributes."""
    found: dict[str, ast.stmt] = {}
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            found[part.name] = part
        elif isinstance(part, (ast.Assign, ast.AnnAssign)) and part.value is not None:
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            if isinstance(target, ast.Name) and target.id.startswith("_"):
                found[target.id] = part
    return found


@cache
def modules() -> dict[str, Module]:
    """Return all modules of the package by name."""
    every = (Module(path) for path in sorted((PYTHON / "dpoco").rglob("*.py")))
    return {module.name: module for module in every}


def sizes() -> dict[str, tuple[int, int]]:
    """Return (code lines, files) of every room; the hall is ""."""
    lines, files = Counter[str](), Counter[str]()
    for module in modules().values():
        lines[module.room] += len(module.code)
        files[module.room] += 1
    return {room: (lines[room], files[room]) for room in sorted(lines)}


def private_imports() -> list[tuple[str, str]]:
    """Return (importing module, private name) of all that rooms take from inside of others."""
    found = set()
    for module in modules().values():
        for source, name, _ in module.imports:
            parts = source.split(".")
            if parts[0] != "dpoco" or (len(parts) == 1 and not name):
                continue
            path = [*parts[1:], name] if len(parts) == 1 else parts[1:]
            room = "" if path[0].startswith("_") else path[0]
            inside = any(part.startswith("_") for part in [*path[1:], name])
            if inside and room and room != module.room:
                found.add((module.name, f"{source}.{name}"))
    return sorted(found)


def single_importers() -> list[tuple[str, str]]:
    """Return (module, importer) of all private modules that one other module imports."""
    importers = defaultdict(set)
    for module in modules().values():
        for source, name, _ in module.imports:
            target = f"{source}.{name}" if f"{source}.{name}" in modules() else source
            importers[target].add(module.name)
    return sorted(
        (name, next(iter(users)))
        for name, users in importers.items()
        if name in modules() and len(users) == 1 and name.split(".")[-1].startswith("_")
    )


# -- what must be believed ------------------------------------------------------------------------


class Closure:
    """Everything that a class's constructor may call, but for planning."""

    def __init__(self, *paths: str) -> None:
        self.reached: set[Node] = set()
        self.attributes: set[str] = set()
        self._classes: set[Node] = set()
        self._values: set[str] = set()  # modules that are handed on
        self._left: list[Node] = []
        for path in paths:
            module, _, name = f"dpoco.{path}".rpartition(".")
            self._reach(self._resolve(module, name))
        while self._left:
            self._follow(*self._left.pop())

    def lines(self) -> dict[str, int]:
        """Return the code lines that are reached, by file."""
        found: dict[str, set[int]] = defaultdict(set)
        for module, name in self.reached:
            node = modules()[module].definitions[name]
            span = _span(node)
            if isinstance(node, ast.ClassDef):
                span -= set().union(*map(_span, _members(node).values()))
            found[module] |= span & modules()[module].code
        return {
            str(modules()[name].path.relative_to(ROOT)): len(lines)
            for name, lines in sorted(found.items())
        }

    def engines(self, room: str) -> set[str]:
        """Return the names of `_core` in what is reached of a room."""
        return {
            node.attr
            for module, name in self.reached
            if modules()[module].room == room
            for node in _find_evaluated(modules()[module].definitions[name])
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_core"
        }

    def find_mentioned(self) -> set[str]:
        """Return the attributes that are named anywhere in a module of which something is reached.

        What learners call of their engines is among them.
        """
        trees = (modules()[module].tree for module in {module for module, _ in self.reached})
        return {
            node.attr
            for tree in trees
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
        }

    def _resolve(self, module: str, name: str) -> Node | str | None:
        """Return the definition a name stands for, or a module's name; None outside of it all."""
        if f"{module}.{name}" in modules():
            return f"{module}.{name}"
        known = modules().get(module)
        if known is None or _is_planning(module):
            return None
        if name in known.definitions:
            return module, name
        source, its = known.taken.get(name, ("", ""))
        if source:
            return self._resolve(source, its) if its else source
        homes = known.definitions.get("_HOMES") or known.definitions.get("_MODULES")
        for key, value in re.findall(r"'(\w+)': '(\w+)'", ast.unparse(homes) if homes else ""):
            if key == name:
                return self._resolve(f"{module}.{value}", name)
        return None

    def _reach(self, found: Node | str | None) -> None:
        if isinstance(found, str):
            if not _is_planning(found):
                self._values.add(found)
                self._meet({found}, set(), self.attributes)
        elif (
            found is not None and found not in self.reached and found[1].split(".")[-1] not in PLANS
        ):
            self.reached.add(found)
            self._left.append(found)

    def _ask(self, found: Node | str | None) -> None:
        """Reach what is asked of a class whose objects are planned, and given or made elsewhere."""
        if isinstance(found, tuple):
            node = modules()[found[0]].definitions[found[1]]
            self._classes.add(found)
            self._meet(set(), {found}, self.attributes)
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                self._ask(self._resolve(found[0], ast.unparse(base)))

    def _meet(self, values: set[str], classes: set[Node], names: set[str]) -> None:
        """Reach what attributes of these names can be, of these modules and classes."""
        for module in values:
            for name in names & modules()[module].offered:
                self._reach(self._resolve(module, name))
        for module, own in classes:
            for name in names:
                if f"{own}.{name}" in modules()[module].definitions:
                    self._reach((module, f"{own}.{name}"))

    def _follow(self, module: str, name: str) -> None:
        node = modules()[module].definitions[name]
        if isinstance(node, ast.ClassDef):
            self._classes.add((module, name))
            self._meet(set(), {(module, name)}, self.attributes | {"__init__", "__post_init__"})
            parts: list[ast.AST] = [*node.bases, *node.decorator_list]
            own = _members(node).values()
            parts += [part for part in node.body if part not in own]
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == "plan":
                    self._ask(self._resolve(module, ast.unparse(part.annotation)))
        else:
            parts = [node]
        seen: set[str] = set()
        for part in parts:
            for each in _find_evaluated(part):
                if isinstance(each, ast.Name):
                    self._reach(self._resolve(module, each.id))
                elif isinstance(each, ast.Attribute):
                    base = self._find_module(module, each.value)
                    if base is None:
                        seen.add(each.attr)
                    else:
                        self._reach(self._resolve(base, each.attr))
        new = seen - self.attributes
        self.attributes |= new
        self._meet(self._values, self._classes, new)

    def _find_module(self, module: str, node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            found = self._resolve(module, node.id)
        elif isinstance(node, ast.Attribute):
            base = self._find_module(module, node.value)
            found = None if base is None else self._resolve(base, node.attr)
        else:
            return None
        return found if isinstance(found, str) else None


def _is_planning(module: str) -> bool:
    """Return whether a module plans, forecasts regret, has words or recalls what papers print.

    Certificates are computed from descriptions and from nothing that these say.
    """
    parts = module.split(".")[1:]
    return any(p.strip("_") in PLANNING or p == "published" or "regret" in p for p in parts)


def _span(node: ast.AST) -> set[int]:
    """Return the lines of a definition, decorators included."""
    assert isinstance(node, ast.stmt)
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    return set(range(first, (node.end_lineno or first) + 1))


def _find_evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs: no annotations, and not the classes that a value is compared with."""
    yield node
    for field, value in ast.iter_fields(node):
        compared = isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        if field in ("annotation", "returns") or (compared and field == "func"):
            continue
        parts = value if isinstance(value, list) else [value]
        for part in parts[:1] if compared else parts:
            if isinstance(part, ast.AST):
                yield from _find_evaluated(part)


class Unit(NamedTuple):
    """A definition of C++: a function, a class without its functions, a constant, an alias."""

    path: Path
    owner: str  # its class; "" outside of any
    name: str
    words: frozenset[str]
    lines: frozenset[int]


_WORD = re.compile(r"[A-Za-z_]\w*")
_CALLED = re.compile(r"(?:(\w+)(?:<[^<>()]*>)?::)?(~?\w+|operator\s*\S{1,2}|operator\(\))\s*\(")


def _bare(path: Path) -> list[str]:
    """Return the lines of a C++ file, blank where it says nothing about releases.

    That is at comments, texts, directives, declarations of classes and friends, and assertions,
    which a release build leaves out.
    """

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found.group())

    skipped = r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'"
    text = re.sub(skipped, blank, path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.MULTILINE)
    text = re.sub(r"^[ \t]*(?:friend )?class [\w:]+;$", blank, text, flags=re.MULTILINE)
    text = re.sub(r"^[ \t]*assert\([^;]*;$", blank, text, flags=re.MULTILINE)
    return text.split("\n")


def _find_name(text: str) -> tuple[str, str, bool]:
    """Return (class, name, whether it is a function) of what a definition defines."""
    text = re.sub(r"^\s*template\s*<(?:[^<>]|<[^<>]*>)*>|\[\[.*?\]\]|<[^<>]*>", " ", text)
    head = re.split(r"[{;]", text, maxsplit=1)[0]
    kind = re.match(r"\s*(?:class|struct|union|enum(?:\s+class)?)\s+(\w+)", head)
    if kind:
        return "", kind.group(1), False
    called = _CALLED.search(head.split("=")[0] if "operator" not in head else head)
    if called and not re.match(r"\s*(?:using|typedef|static_assert)\b", head):
        return called.group(1) or "", called.group(2), True
    alias = re.match(r"\s*using\s+(?:[\w:]*::)?(\w+)", head)
    words = _WORD.findall(head.split("=")[0])
    return "", alias.group(1) if alias else (words or [""])[-1], False


@cache
def units(path: Path) -> tuple[Unit, ...]:
    """Return the definitions of a C++ file, laid out by clang-format: one begins on a line."""
    found: list[Unit] = []
    classes: list[tuple[str, list[int], list[str]]] = []  # that are open: name, lines, texts
    begun, texts, open_ = list[int](), list[str](), 0
    for number, line in enumerate(_bare(path), 1):
        text = line.strip()
        if not begun and (not text or re.match(r"(namespace\b.*\{|\w+:)$", text)):
            continue
        if not begun and text in ("}", "};"):
            if classes and text == "};":
                name, own, said = classes.pop()
                words = frozenset(_WORD.findall(" ".join(said)))
                found.append(Unit(path, "", name, words, frozenset([*own, number])))
            continue
        if text:
            begun.append(number)
            texts.append(line)
        open_ += sum(line.count(sign) for sign in "{(") - sum(line.count(sign) for sign in "})")
        if not text.endswith(("{", "}", ";")) or open_ > 1:
            continue
        whole = " ".join(texts)
        if open_ == 1 and text.endswith("{"):
            head = re.sub(r"^\s*template\s*<.*?>\s+(?=class|struct)", "", whole)
            if re.match(r"\s*(class|struct)\s", head) and "(" not in whole:
                classes.append((_find_name(whole)[1], begun, texts))
                begun, texts, open_ = [], [], 0
        elif open_ == 0 and text.endswith((";", "}")):
            owner, name, function = _find_name(whole)
            if classes and not function:
                classes[-1][1].extend(begun)
                classes[-1][2].append(whole)
            else:
                owner = owner if not classes else classes[-1][0]
                words = frozenset(_WORD.findall(whole))
                found.append(Unit(path, owner, name, words, frozenset(begun)))
            begun, texts, open_ = [], [], 0
    return tuple(found)


def _find_bindings(engine: str, called: set[str]) -> Iterator[tuple[Path, list[int], set[str]]]:
    """Yield what binds a compiled class and its bases: file, lines, words; of `called` names only.

    `engine` is the name in Python, or in C++ if it is a base.
    """
    for path in sorted((CPP / "bindings").glob("*.cpp")):
        rows, variable = path.read_text(encoding="utf-8").split("\n"), ""
        begun: list[int] = []
        for number, row in enumerate(rows, 1):
            begun.append(number)
            if not row.endswith(";"):
                continue
            text = "\n".join(rows[k - 1] for k in begun)
            if text.count("(") > text.count(")"):
                continue
            kinds = re.search(r"class_<([^(]*)>( \w+)?\(\s*m, \"(\w+)\"", text)
            if kinds:
                own, *bases = (each.split("::")[-1].strip() for each in kinds[1].split(","))
                variable = (kinds[2] or " ")[1:] if engine in (own, kinds[3]) else ""
                for base in bases if engine in (own, kinds[3]) else ():
                    yield from _find_bindings(base, called)
            ours = (kinds and engine in (kinds[1].split(",")[0].split("::")[-1], kinds[3])) or (
                variable and re.search(rf"\b{variable}\b", text)
            )
            words, kept, take = set[str](), list[int](), False
            for k in begun if ours else ():
                take = take or bool(re.search(rf"class_<|\b{variable or '-'}\b", rows[k - 1]))
                name = re.search(r'\.def\w*\(\s*(?:"(\w+)")?', rows[k - 1])
                if name:
                    said = name[1] or (re.search(r'"(\w+)"', rows[k]) or ["", "init"])[1]
                    take = said in called or "init" in rows[k - 1]
                if take:
                    kept.append(k)
                    words |= set(_WORD.findall(re.sub(r'"[^"]*"|//.*', "", rows[k - 1])))
            if kept:
                yield path, kept, words
            begun = []


def count_compiled(engines: set[str], called: set[str]) -> dict[str, int]:
    """Return the code lines of C++ that compiled classes may run, by file.

    From what binds the functions of these names, definition by definition: one is reached if its
    name, and its class's, are said in one that is reached, and its file is included there. Storing
    and restoring of states is left out.
    """
    found: dict[Path, set[int]] = defaultdict(set)
    said: set[str] = set()
    for engine in engines:
        for path, rows, words in _find_bindings(engine, called):
            found[path].update(rows)
            said |= words
    headers = sorted((CPP / "bindings").glob("*.hpp"))
    shared = {u.name for path in headers for u in units(path)}
    declared = {u.name for path in headers for u in units(path) if _is_declared(u)}
    apart = STORES | find_rules()
    seen: set[Unit] = set()
    while True:
        near = {each for path in found for each in _beside(path)}
        new = [
            unit
            for path in near
            for unit in units(path)
            if unit not in seen
            and not unit.words & apart
            and unit.owner not in apart
            and (unit.name in said or unit.name == unit.owner or "operator" in unit.name)
            and (not unit.owner or unit.owner in said)
            and (
                path in found
                or path.parent != CPP / "bindings"
                or unit.name in (shared if path.suffix == ".hpp" else declared)
            )
        ]
        if not new:
            break
        for unit in new:
            seen.add(unit)
            found[unit.path] |= unit.lines
            said |= unit.words
    return {str(path.relative_to(ROOT)): len(rows) for path, rows in sorted(found.items())}


def _is_declared(unit: Unit) -> bool:
    """Return whether this is a function outside of classes whose body is elsewhere."""
    rows = _bare(unit.path)
    text = " ".join(rows[line - 1] for line in sorted(unit.lines))
    return not unit.owner and "(" in text and "{" not in text


@cache
def find_rules() -> frozenset[str]:
    """Return the names of the classes of C++ that make decisions of releases."""
    derived = re.compile(rf"\bclass (\w+) final : public {RELEASED_ONLY}\b")
    texts = (path.read_text(encoding="utf-8") for path in (CPP / "include").rglob("*.hpp"))
    return frozenset(name for text in texts for name in derived.findall(text))


@cache
def find_includes(path: Path) -> frozenset[Path]:
    """Return the files of the tree that a C++ file includes itself."""
    found = set[Path]()
    for name in re.findall(r'#include ["<]([\w/.]+)[">]', path.read_text(encoding="utf-8")):
        places = (path.parent / name, CPP / "include" / name, CPP / "bindings" / name)
        found.update([place for place in places if place.is_file()][:1])
    return frozenset(found)


@cache
def _sources(header: Path) -> frozenset[Path]:
    """Return the sources of a header's room that include it: they define what it declares."""
    room = header.parent
    if header.is_relative_to(CPP / "include"):
        room = CPP / "src" / room.relative_to(CPP / "include" / "dpoco")
    return frozenset(path for path in room.glob("*.cpp") if header in find_includes(path))


@cache
def _beside(path: Path) -> frozenset[Path]:
    """Return a C++ file, what it includes, directly or not, and the sources of those headers."""
    left, found = [path], set[Path]()
    while left:
        each = left.pop()
        if each in found:
            continue
        found.add(each)
        left += find_includes(each)
        if each.suffix == ".hpp":
            left += _sources(each)
    return frozenset(found)


def find_trusted(path: str, *problem: str) -> dict[str, int]:
    """Return the files behind a learner's epsilon, with the code lines that must be believed.

    Parameters
    ----------
    path
        Module and class below the package: "oco.NoisyFTRL".
    problem
        Classes of its domain, loss and budget; default a ball and the logistic loss.
    """
    closure = Closure(path, *(problem or PROBLEM))
    engines = closure.engines(path.split(".")[0])
    return {**closure.lines(), **count_compiled(engines, closure.find_mentioned())}


def main(arguments: list[str]) -> None:
    """Print the size of the library, or what is behind a learner's epsilon."""
    for path in arguments:
        files = find_trusted(path)
        for name, lines in files.items():
            print(f"{lines:6} {name}")
        python = sum(lines for name, lines in files.items() if name.endswith(".py"))
        print(f"{python:6} of Python, {sum(files.values()) - python} of C++: behind {path}")
    if arguments:
        return
    rooms = sizes()
    for room, (lines, count) in rooms.items():
        print(f"{lines:6} lines {count:4} files  {room or '(hall)'}")
    total, count = (sum(size[k] for size in rooms.values()) for k in (0, 1))
    print(f"{total:6} lines {count:4} files  all")
    for title, pairs in (
        ("private names of other rooms", private_imports()),
        ("modules that one other imports", single_importers()),
    ):
        print(f"\n{len(pairs)} {title}")
        for first, second in pairs:
            print(f"  {first}  {second}")


if __name__ == "__main__":
    main(sys.argv[1:])
