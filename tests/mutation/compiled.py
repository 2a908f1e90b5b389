"""Changes of C++ sources, compiled together: which one is on is a number read while running.

``a + b`` becomes ``(M(7) ? (a - b) : M(8) ? (a) : (a + b))``, so that one build holds all mutants
of a sample. What constant expressions need is left as it is, for no test could see it changed;
what does not compile is taken out again. Needs ``tree-sitter`` and ``tree-sitter-cpp``, and a
build directory of CMake and Ninja.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tree_sitter
import tree_sitter_cpp

__all__ = ["Change", "Page", "built", "changes", "instrumented", "loaded"]

_TESTS = Path(__file__).parents[1] / "cpp"

# The page of numbers is shared with the process that turns mutants on, and with its forks.
_HEADER = """#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <cstdlib>
#include <type_traits>
namespace dpoco_mutation {
struct Page {
  int active;
  unsigned char reached[%(size)d];
};
inline Page* opened() {
  static Page nobody{};
  const char* name = std::getenv("DPOCO_MUTATION_PAGE");
  if (name == nullptr) return &nobody;
  const int file = open(name, O_RDWR);
  void* page = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return page == MAP_FAILED ? &nobody : static_cast<Page*>(page);
}
inline Page* const page = opened();
inline bool reached(int number) {
  if (page == nullptr) return false;  // before the page is opened
  page->reached[number] = 1;
  return page->active == number;
}
constexpr bool on(int number) {
  return std::is_constant_evaluated() ? false : reached(number);
}
}  // namespace dpoco_mutation
#define DPOCO_M(number) (::dpoco_mutation::on(number))
"""

_LANGUAGE = tree_sitter.Language(tree_sitter_cpp.language())
_BINARY = {
    "+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
    "^": "|", "&&": "||", "||": "&&", "==": "!=", "!=": "==",
}  # fmt: skip
_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_ASSIGN = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "^=": "|=", "|=": "&=", "&=": "|="}
_RELATIVES = {
    "min": "max", "max": "min", "exp": "expm1", "expm1": "exp", "log": "log1p", "log1p": "log",
    "floor": "ceil", "ceil": "floor",
}  # fmt: skip
_LEFT_ALONE = {
    "comment", "string_literal", "char_literal", "throw_statement", "template_argument_list",
    "static_assert_declaration", "enumerator", "preproc_include", "preproc_def", "preproc_if",
    "preproc_ifdef", "array_declarator", "alias_declaration", "using_declaration",
    "template_parameter_list", "parameter_list", "alignas_qualifier", "concept_definition",
    "requires_clause", "decltype", "sizeof_expression", "attribute_declaration", "type_descriptor",
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One change: text that replaces an expression; for a statement, None takes it out.

    `symbol` is the function that it is in; outside of functions, the variable or the field.
    """

    symbol: str
    line: int
    start: int
    end: int
    before: str
    after: str | None

    def __str__(self) -> str:
        """Return "a + b -> a - b", in one line."""
        return " ".join(f"{self.before} -> {self.after or '(nothing)'}".split())


def changes(source: str) -> list[Change]:
    """Return all changes of a source, in the order of its text."""
    data = source.encode()
    root = tree_sitter.Parser(_LANGUAGE).parse(data).root_node
    found = []
    for node in _walk(root):
        text = _text(data, node)
        for after in _others(data, node):
            if after != text:
                line = node.start_point[0] + 1
                symbol = _symbol(data, node)
                found.append(Change(symbol, line, node.start_byte, node.end_byte, text, after))
    return found


def instrumented(source: str, numbered: dict[int, Change]) -> tuple[str, dict[int, int]]:
    """Return the source with the changes in it, and on which line the number of each stands."""
    data = source.encode()
    sites: dict[tuple[int, int], list[int]] = {}
    for number, change in numbered.items():
        sites.setdefault((change.start, change.end), []).append(number)

    def rendered(start: int, end: int) -> str:
        within = [s for s in sites if start <= s[0] and s[1] <= end and s != (start, end)]
        pieces, at = [], start
        for a, b in sorted(within, key=lambda site: (site[0], -site[1])):
            if a >= at:  # not within one that was rendered
                pieces += [data[at:a].decode(), whole(a, b)]
                at = b
        return "".join([*pieces, data[at:end].decode()])

    def whole(start: int, end: int) -> str:
        inside = rendered(start, end)
        kept = [n for n in sites[start, end] if numbered[n].after is not None]
        if kept:
            chosen = "".join(f"\nDPOCO_M({n}) ? ({numbered[n].after}) : " for n in kept)
            inside = f"({chosen}\n({inside}))"
        for number in sites[start, end]:
            if numbered[number].after is None:
                inside = "{ if (!\nDPOCO_M(" + str(number) + "))\n" + inside + " }"
        return inside

    text = rendered(0, len(data))
    places = {}
    for at, line in enumerate(text.split("\n"), 1):
        for number in re.findall(r"DPOCO_M\((\d+)\)", line):
            places[int(number)] = at
    return text, places


def built(
    sources: dict[Path, dict[int, Change]],
    programs: Sequence[Sequence[str]],
    build: Path,
    work: Path,
) -> tuple[list[Path], list[Path], set[int]]:
    """Return extensions with these numbered changes, programs, and the numbers that compile.

    Each program has some of the tests in ``tests/cpp``.
    """
    size = 1 + max(number for numbered in sources.values() for number in numbered)
    (work / "mutation.hpp").write_text(_HEADER % {"size": size})
    told = subprocess.run(["ninja", "-C", build, "-t", "commands"], text=True, check=True,
                          capture_output=True).stdout.splitlines()  # fmt: skip
    compiling = {words[-1]: words for words in map(shlex.split, told) if "-c" in words}
    linking = [row for row in told if " -shared " in row]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(lambda each: _compiled(*each, compiling, build, work), sources.items())
        objects, kept = zip(*done, strict=True)
    extensions = [_extension(row, objects, build, work) for row in linking]
    like = compiling[str(next(iter(sources)))]
    made = [_program(tests, [*map(str, objects), "libdpoco_core.a"], like, build, work)
            for tests in programs]  # fmt: skip
    return extensions, made, set().union(*kept)


def loaded(extensions: Sequence[Path]) -> None:
    """Import these extensions instead of those of the installed package."""
    found = {each.name.partition(".")[0]: each for each in extensions}
    for file, name in (("_core", "dpoco._core"), ("dpoco_probes", "dpoco_probes")):
        spec = importlib.util.spec_from_file_location(name, found[file])
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])


def _extension(linking: str, objects: Sequence[Path], build: Path, work: Path) -> Path:
    """Link an extension anew, as this row of Ninja's commands does."""
    words = shlex.split(next(part for part in linking.split("&&") if " -shared " in part))
    library = words.index("libdpoco_core.a")
    words[library:library] = map(str, objects)  # what is found here is not taken from the library
    place = words.index("-o") + 1
    words[place] = str(work / Path(words[place]).name)
    subprocess.run(words, cwd=build, check=True)
    return Path(words[place])


def _options(command: list[str], *without: str) -> list[str]:
    """Return the words of a command that compiles, but for its files and some others."""
    words = [w for w in command[:-1] if w not in ("-c", "-MD", "-O3", *without)]
    for option in ("-MT", "-MF", "-o"):
        at = words.index(option)
        del words[at : at + 2]
    return [*words, "-O1", "-w"]


def _program(
    tests: Sequence[str], libraries: list[str], like: list[str], build: Path, work: Path
) -> Path:
    """Compile a program of tests."""

    def compiled(name: str) -> Path:
        own = work / f"{name}.o"
        command = [*_options(like), "-c", _TESTS / name, "-o", own]
        subprocess.run(command, cwd=build, check=True)
        return own

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, ["main.cpp", *tests]))
    program = work / Path(tests[0]).stem
    command = [*_options(like, "ccache"), *objects, *libraries, "-pthread", "-o", program]
    subprocess.run(command, cwd=build, check=True)
    return program


def _compiled(
    path: Path, numbered: dict[int, Change], commands: dict[str, list[str]], build: Path, work: Path
) -> tuple[Path, set[int]]:
    """Compile a source with its changes; those that the compiler refuses are left out."""
    own = work / "_".join(path.parts[-2:])
    command = [*_options(commands[str(path)], "ccache"), "-c", own, "-fmax-errors=0",
               "-iquote", path.parent, "-include", work / "mutation.hpp",
               "-o", own.with_suffix(".o")]  # fmt: skip
    source, left = path.read_text(), dict(numbered)
    while True:
        text, places = instrumented(source, left)
        own.write_text(text)
        ran = subprocess.run(command, cwd=build, text=True, capture_output=True, check=False)
        if ran.returncode == 0:
            return own.with_suffix(".o"), set(places)
        wrong = {int(line) for line in re.findall(rf"{re.escape(str(own))}:(\d+):", ran.stderr)}
        before = [max((p for p in places.values() if p <= line), default=0) for line in wrong]
        bad = {number for number, place in places.items() if place in before}
        if not bad:
            raise RuntimeError(ran.stderr)
        left = {number: change for number, change in left.items() if number not in bad}


class Page:
    """The memory that tells the extension which mutant is on, and is told what is reached."""

    def __init__(self, size: int, work: Path) -> None:
        file = work / "page"
        file.write_bytes(bytes(4 + size))
        with file.open("r+b") as opened:
            self._bytes = mmap.mmap(opened.fileno(), 4 + size)
        os.environ["DPOCO_MUTATION_PAGE"] = str(file)
        self.turn_on(-1)

    def turn_on(self, number: int) -> None:
        """Make mutant `number` the active one; none if negative."""
        self._bytes[:4] = number.to_bytes(4, "little", signed=True)

    def begin(self) -> None:
        """Begin to listen."""
        self._bytes[4:] = bytes(len(self._bytes) - 4)

    def end(self) -> set[tuple[str, int]]:
        """Return the numbers of the mutants whose places were reached since."""
        return {("", at) for at, flag in enumerate(self._bytes[4:]) if flag}


def _text(data: bytes, node: tree_sitter.Node) -> str:
    return data[node.start_byte : node.end_byte].decode()


def _symbol(data: bytes, node: tree_sitter.Node) -> str:
    """Return the name of the innermost function, or else of the variable, around a node."""
    variable, at = "", node.parent
    while at is not None:
        if at.type in ("function_definition", "init_declarator", "field_declaration"):
            named = at.child_by_field_name("declarator")
            while named is not None and (inner := named.child_by_field_name("declarator")):
                named = inner
            name = "" if named is None else _text(data, named)
            if at.type == "function_definition":
                return name
            variable = variable or name
        at = at.parent
    return variable


def _walk(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    if node.type in _LEFT_ALONE:
        return
    if node.type == "expression_statement" and (node.text or b"").startswith(b"assert("):
        return  # a release build leaves it out
    if node.type in ("declaration", "field_declaration") and any(
        child.type == "type_qualifier" and child.text in (b"constexpr", b"constinit")
        for child in node.children
    ):
        return
    if node.type == "if_statement" and any(child.type == "constexpr" for child in node.children):
        for child in node.children:
            if child.type != "condition_clause":
                yield from _walk(child)
        return
    if node.type == "case_statement":
        label = node.child_by_field_name("value")
        for child in node.children:
            if child != label:
                yield from _walk(child)
        return
    yield node
    for child in node.children:
        yield from _walk(child)


def _others(data: bytes, node: tree_sitter.Node) -> Iterator[str | None]:
    kind = node.type
    if kind == "number_literal":
        yield from _other_numbers(_text(data, node))
    elif kind in ("true", "false"):
        yield "false" if kind == "true" else "true"
    elif kind == "identifier" and re.fullmatch(r"k[A-Z]\w*", _text(data, node)):
        parent, name = node.parent, _text(data, node)
        infinite = name in ("kInfinity", "kNever", "kLowest")  # twice, it is the same
        placed = parent is None or parent.type in ("init_declarator", "qualified_identifier")
        if not infinite and not placed:
            yield f"static_cast<std::remove_cvref_t<decltype({name})>>(2 * {name})"
    elif kind in ("binary_expression", "assignment_expression"):
        yield from _other_operations(data, node)
    elif kind == "unary_expression":
        operand = node.child_by_field_name("argument")
        if node.children[0].type in ("-", "!", "~") and operand is not None:
            yield _text(data, operand)
    elif kind == "conditional_expression":
        for name in ("consequence", "alternative"):
            branch = node.child_by_field_name(name)
            if branch is not None:
                yield _text(data, branch)
    elif kind == "call_expression":
        yield from _other_calls(data, node)
    elif kind == "expression_statement" and node.named_child_count:
        yield None


def _other_operations(data: bytes, node: tree_sitter.Node) -> Iterator[str]:
    found = [node.child_by_field_name(name) for name in ("left", "operator", "right")]
    left, operator, right = (each for each in found if each is not None)
    name, a, b = operator.type, _text(data, left), _text(data, right)
    for table in (_BINARY, _BOUNDARY, _OPPOSITE):
        if name in table:
            yield f"({a}) {table[name]} ({b})"
    if name in _ASSIGN:
        yield f"{a} {_ASSIGN[name]} {b}"
    if name in _BINARY and name not in ("==", "!="):
        yield a
        yield b


def _other_calls(data: bytes, node: tree_sitter.Node) -> Iterator[str]:
    function = node.child_by_field_name("function")
    arguments = node.child_by_field_name("arguments")
    if function is None or arguments is None:
        return
    name = _text(data, function)
    last = name.rpartition("::")[2]
    if last in _RELATIVES and name != last:
        yield name[: -len(last)] + _RELATIVES[last] + _text(data, arguments)
    if last in ("sqrt", "abs") and arguments.named_child_count == 1:
        yield _text(data, arguments)


def _other_numbers(text: str) -> Iterator[str]:
    value = text.replace("'", "").rstrip("uUlL")
    hexadecimal, real = "0x" in value.lower(), bool(re.search(r"[.pP]", value))
    if real or (not hexadecimal and "e" in value.lower()):
        number = float.fromhex(value) if hexadecimal else float(value.rstrip("fF"))
        yield from (f"2.0 * {text}", f"0.5 * {text}") if number else ("1.0",)
        return
    yield f"{text} + 1"
    if int(value, 0) > 1:
        yield f"{text} - 1"
