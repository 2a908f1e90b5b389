"""Find names and phrases that a reader has to puzzle over, and hold their number down.

Usage: python tools/words.py            # exit code 1 if there is an offender that is not listed
       python tools/words.py --write    # take mended offenders off the list; adds none

`tools/words.txt` lists the known offenders, `RULE NAME COUNT` a line: names and phrases that are
older than the rules, and the few that are right. `--show RULE` prints their places.

Rules
-----
participle : a function whose whole name is one: ``held``, ``placed``. Names are verbs or nouns.
of : a function whose name ends in ``_of``. What it returns is its name: ``sensitivity``.
phrase : idioms of the authors in comments, docstrings, messages and pages; see `PHRASES`.
riddle : a sentence that begins with a relative clause: "What a pair does not reach is not tested".
norm : single bars for the norm of a vector: ``|x|_2`` instead of ``||x||_2``.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
KNOWN = Path(__file__).with_suffix(".txt")

Offender = tuple[str, str, str]  # rule, path, name or phrase
Known = tuple[str, str]  # rule, name or phrase

CODE = ("python/dpoco", "tools", "check", "examples", "bench", "cpp/include", "cpp/src",
        "cpp/bindings")  # fmt: skip
PAGES = ("docs", "examples", "bench", "README.md", "CONTRIBUTING.md", "SECURITY.md")
SKIPPED = (
    *("python/dpoco/docs", "python/dpoco/_independent.py"),  # links of runs without an installation
    "tools/words.py",  # quotes the phrases
)

IRREGULAR = frozenset(
    re.findall(
        r"\w+",
        "begun borne bought built chosen drawn fed found given grown held hidden kept known "
        "laid left lost made met paid said seen sent shown sold spent taken told won written",
    )
)
NOUNS = {"bed", "embed", "exceed", "feed", "need", "proceed", "seed", "speed"}
PHRASES = {
    phrase: re.compile(pattern)
    for phrase, pattern in {
        "in vain": r"\bin vain\b",
        "anew": r"\banew\b",
        "of its own": r"\bof (?:its|their|one's) own\b",
        "hangs on": r"\bhangs? on\b",
        "at hand": r"\bat hand\b",
        "too, last": r", too(?=[.;:,)])",
        "as ever": r"\b(?:as|for) ever\b",
        "sees to it": r"\bsees? to it\b",
        "said of": r"\b(?:is|are) said of\b",
        "stands": r"\bstands? (?!for\b|out\b|in for\b)",
        "beside": r"\bbeside\b",
        "somebody": r"\b[Ss]omebody\b|\b[Ww]hoever\b",
        "her": r"\b(?:[Ss]he|[Hh]ers?)\b",
    }.items()
}
RIDDLE = re.compile(r"(?:^|(?<=[.:;] ))What [^.?;:`]*? (?:is|are|has|have|may|must) [^.?]*\.", re.M)
NORM = re.compile(r"(?<![|\\])\|(?![|\s])[^|$\n]{1,24}(?<![|\\\s])\|(?:_[12pq\\{]|\^2)(?![.\d])")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
DEFINED = re.compile(  # a type, then a name and its arguments, at the start of a line
    r"^(?![ \t]*(?:return|throw|else|case|delete|new|co_\w+)\b)"
    r"[ \t]*[\w:<>,&*\[\] \t]*[\w>&*\]][ \t]+[&*]?([a-z_]\w*)\(",
    re.M,
)
PYTHON_SAID = re.compile(  # a comment, or a string with its prefix
    r"#[^\n]*|(?:\b[rbfuRBFU]{1,2})?(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''"
    r"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')", re.S,
)  # fmt: skip
SAID = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.S)


def is_participle(name: str) -> bool:
    """Whether a name is one participle and nothing else."""
    word = name.strip("_")
    return word in IRREGULAR or (word.isalpha() and word.endswith("ed") and word not in NOUNS)


def read_names(text: str, suffix: str) -> Iterator[str]:
    """Yield the functions that a file defines; properties are adjectives and may be participles."""
    if suffix != ".py":
        yield from DEFINED.findall(SAID.sub("", text))
        return
    for node in find_statements(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
            "property" in ast.unparse(each) for each in node.decorator_list
        ):
            yield node.name


def find_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a file; a walk through all expressions takes ten times longer."""
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        parts = getattr(tree, field, ())
        for part in parts if isinstance(parts, list) else ():
            yield part
            yield from find_statements(part)


def read_words(text: str, suffix: str) -> str:
    """Return the comments, docstrings and messages of a file of code, or the text of a page."""
    if suffix == ".md":
        return FENCE.sub("", text)
    if suffix != ".py":
        lines = (found.strip('/*" ') for found in SAID.findall(text))
        return "\n".join(lines)
    return "\n".join(found.strip("#\"' ") for found in PYTHON_SAID.findall(text))


def check(path: str, text: str) -> Iterator[Offender]:
    """Yield the offenders of one file, each as often as it is there."""
    suffix = Path(path).suffix
    if suffix != ".md":
        for name in read_names(text, suffix):
            if is_participle(name):
                yield "participle", path, name
            elif name.endswith("_of"):
                yield "of", path, name
    words = read_words(text, suffix)
    yield from (("norm", path, "|x|") for _ in NORM.findall(words))
    words = " ".join(words.split("\n"))
    for phrase, pattern in PHRASES.items():
        yield from (("phrase", path, phrase) for _ in pattern.findall(words))
    yield from (("riddle", path, "What ... is") for _ in RIDDLE.findall(words))


def find_files() -> Iterator[Path]:
    """Yield the files that the rules are about."""
    for place in CODE:
        for suffix in (".py", ".hpp", ".cpp", ".inl"):
            yield from (ROOT / place).rglob(f"*{suffix}")
    for place in PAGES:
        page = ROOT / place
        yield from [page] if page.is_file() else page.rglob("*.md")


def find_offenders() -> Counter[Offender]:
    """Return how often each offender is in the repository."""
    found: Counter[Offender] = Counter()
    for file in find_files():
        path = file.relative_to(ROOT).as_posix()
        if not path.startswith(SKIPPED) and "/build/" not in path:
            found.update(check(path, file.read_text(encoding="utf-8")))
    return found


def count_names(found: Counter[Offender]) -> Counter[Known]:
    """Return how often each name is there, wherever: a file that moves adds none."""
    counts: Counter[Known] = Counter()
    for (rule, _, name), count in found.items():
        counts[rule, name] += count
    return counts


def read_known(text: str) -> Counter[Known]:
    """Return the offenders of the list."""
    known: Counter[Known] = Counter()
    for line in text.splitlines():
        rule, rest = line.split(" ", 1)
        name, _, count = rest.rpartition(" ")
        known[rule, name] = int(count)
    return known


def write_known(known: Counter[Known]) -> str:
    """Return the text of a list."""
    rows = sorted((*key, count) for key, count in known.items() if count > 0)
    return "".join(" ".join(map(str, row)) + "\n" for row in rows)


def main(arguments: list[str]) -> int:
    """Compare the repository with the list."""
    parser = argparse.ArgumentParser(description="Names and phrases to mend.")
    parser.add_argument("--write", action="store_true", help="take mended offenders off the list")
    parser.add_argument("--show", metavar="RULE", help="print where a rule finds something")
    options = parser.parse_args(arguments)
    found, known = find_offenders(), read_known(KNOWN.read_text(encoding="utf-8"))
    counts = count_names(found)
    for (rule, path, name), count in sorted(found.items()):
        if rule == options.show or (counts - known)[rule, name] == counts[rule, name]:
            print(f"{path}: {rule}: {name}: {count}")
    for (rule, name), more in (counts - known).items():
        print(f"{rule}: {name}: {more} more than listed; see your change, or --show {rule}")
    if options.write:
        KNOWN.write_text(write_known(counts & known), encoding="utf-8")
    now, listed = (Counter(rule for rule, _ in each.elements()) for each in (counts, known))
    print(", ".join(f"{rule} {now[rule]} of {listed[rule]}" for rule in sorted(listed | now)))
    return 1 if counts - known else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
