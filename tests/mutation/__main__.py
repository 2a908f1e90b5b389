"""``python -m tests.mutation``: do the tests notice errors in what is trusted?

A mutant is one small change: of Python in the imported module (``operators.py``, ``transfer.py``),
of C++ in an extension that holds all mutants of the run (``compiled.py``). Each gets a fork of one
warm process that has collected the tests (``warm.py``); the tests that reach its place run on it,
the cheapest first, until one fails. What survives is printed. A run of all mutants of a room fails
if one survives that ``survivors.txt`` does not excuse; a sample, if more do than chance explains
after what was recorded of the room (``results.json``).

    python -m tests.mutation --room kernel --minutes 1 --seed 7     # a seeded sample
    python -m tests.mutation --room kernel --module privacy.neighbours
    python -m tests.mutation --room kernel --out results.json       # all, killed and survived
    python -m tests.mutation --room draws --sample 300 --build build/ed --record

Needs a system with ``fork``; rooms of C++ need ``tree-sitter``, ``tree-sitter-cpp``, doctest, Ninja
and a build directory. Nothing is written but --out, and with --record the counts and the page.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from scipy.stats import hypergeom
from tests.mutation.operators import mutants
from tests.mutation.survivors import excused, number_repeats, stale
from tests.mutation.targets import ROOMS, record, recorded
from tests.mutation.transfer import caches, transferred
from tests.mutation.warm import Lines, Verdict, Warm, Watch, collected

_ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.find_spec("dpoco")
assert _SPEC is not None
assert _SPEC.origin is not None
_PACKAGE = Path(_SPEC.origin).parent  # the installed one
_SOURCES = _ROOT / "cpp" / "src"
_LONGEST = 10.0  # seconds of processor time; what takes longer is left out
# Tests of pinned numbers: they compare to the last bit on the machine that wrote them.
_PINNED = {
    "tests/privacy/test_vectors.py": "vectors",
    "tests/contract/test_releases.py": "releases",
}


@dataclass(frozen=True)
class Drawn:
    """A mutant: its file, symbol, line and text, and what puts it in."""

    file: str
    symbol: str
    line: int
    text: str
    change: Any


Ready = tuple[Drawn, Callable[[], None], set[tuple[str, int]]]  # put in by; places it is reached by


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if too many survive, 2 if the list of survivors names what is not there."""
    options = _options(arguments)
    os.chdir(_ROOT)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp()
    chosen = _chosen(options)
    room = ROOMS[options.room]
    if not (options.sample or options.again or options.module):
        wrong = stale((each.file, each.symbol, each.text) for each in chosen)
        if wrong:
            print("\n".join(["survivors.txt names what is not there:", *wrong]), file=sys.stderr)
            return 2
    code = 1

    def use(warm: Warm) -> None:
        nonlocal code
        code = _run(options, warm, candidates, watch)

    with tempfile.TemporaryDirectory() as work:
        candidates, watch = _prepared(chosen, options, Path(work))
        pinned = [_PINNED[test] for test in room.tests if test in _PINNED]
        if pinned:
            os.environ["DPOCO_PINS"] = work
            command = [sys.executable, "-m", "tests.pins", "--write", *pinned]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        collected(room.tests, options.slow, use)
    return code


def _run(options: argparse.Namespace, warm: Warm, candidates: list[Ready], watch: Watch) -> int:
    caches()
    warm.measure(watch, _LONGEST)
    begun = time.monotonic()
    print(f"{len(warm.reach)} of {len(warm.items)} tests measured", flush=True)
    if isinstance(watch, Lines) and not _unchanged(warm, {each.file for each, _, _ in candidates}):
        return 2
    results, counted = [], Counter[str]()
    for each, put, places in candidates:
        if time.monotonic() - begun > 60.0 * options.minutes:
            break
        reason = excused(each.file, each.symbol, each.text)
        if reason and not options.harmless:
            counted["harmless"] += 1
            continue
        tests = [test for test, reach in warm.reach.items() if reach.places & places]
        if not tests and isinstance(watch, Lines):  # runs on import: all of its module answer
            tests = _reaching(warm, each.file)
        verdict, killer = warm.judged(put, tests)
        counted[verdict.value] += 1
        row = {"mutant": f"{each.file}: {each.text}", "line": each.line, "symbol": each.symbol}
        row |= {"tests": len(tests), "killer": killer, "verdict": verdict.value}
        results.append({**row, "reason": reason})
        if verdict is Verdict.SURVIVED:
            print(f"survived  {each.line}  {row['mutant']}  [{len(tests)} tests]  "
                  f"{reason or 'NOT EXCUSED'}", flush=True)  # fmt: skip
        if options.out is not None:
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    survived, harmless = counted["survived"], counted["harmless"]
    killed = len(results) - survived
    print(f"{options.room}: {len(results)} mutants run, {killed} killed, {harmless} harmless, "
          f"{survived} survived: {killed / max(1, killed + survived):.1%} killed")  # fmt: skip
    if options.record:
        record(options.room, {"mutants": len(_all_of(options.room)), "run": len(results),
                              "killed": killed, "harmless": harmless, "survived": survived,
                              "seed": options.seed})  # fmt: skip
        return 0
    if options.sample is None and len(results) + harmless == len(candidates):
        return int(survived > 0)
    return int(worse(recorded().get(options.room), killed, survived))


def worse(was: dict[str, int | str] | None, killed: int, survived: int) -> bool:
    """Whether more survive than does of a room as it was, but with probability 1e-6 (Fisher)."""
    if was is None:
        return False
    before, both = int(was["survived"]), killed + survived + int(was["killed"])
    chance = hypergeom.sf(survived - 1, both + before, survived + before, killed + survived)
    return bool(chance < 1e-6)


def _unchanged(warm: Warm, files: set[str]) -> bool:
    """Whether the way in changes nothing by itself."""
    for file in sorted(files):
        own = warm.judged(partial(transferred, _imported(file), None), _reaching(warm, file)[:20])
        if own[0] is not Verdict.SURVIVED:
            print(f"{file}: tests fail on the unchanged module: {own[1]}", file=sys.stderr)
            return False
    return True


def _reaching(warm: Warm, file: str) -> list[int]:
    full = str(_PACKAGE / file)
    return [test for test, r in warm.reach.items() if any(name == full for name, _ in r.places)]


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--room", choices=sorted(ROOMS), default="kernel")
    parser.add_argument("--module", action="append", help="of dpoco, as in privacy.neighbours")
    parser.add_argument("--again", type=Path, help="only what survived in the results of this run")
    parser.add_argument("--slow", action="store_true", help="let slow tests answer, too")
    parser.add_argument("--sample", type=int, help="number of mutants drawn; all if not given")
    parser.add_argument("--seed", default="0", help="any text; their order, too")
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="of mutants; tests are measured before"
    )
    parser.add_argument("--build", type=Path, default=Path("build/ed"), help="of C++, with Ninja")
    parser.add_argument("--harmless", action="store_true", help="run those that are listed, too")
    parser.add_argument("--record", action="store_true", help="keep the counts in results.json")
    parser.add_argument("--out", type=Path, help="where results go, as JSON")
    return parser.parse_args(arguments)


def _imported(file: str) -> str:
    return ".".join(["dpoco", *Path(file).with_suffix("").parts]).removesuffix(".__init__")


def _all_of(room: str) -> list[Drawn]:
    """Return all mutants of a room."""
    modules, sources = ROOMS[room].modules, ROOMS[room].sources
    found = []
    for path in sorted(path for pattern in modules for path in _PACKAGE.glob(pattern)):
        file, source = path.relative_to(_PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        found += _drawn(file, mutants(source))
    for path in sorted(path for pattern in sources for path in _SOURCES.glob(pattern)):
        from tests.mutation.compiled import changes

        file, source = path.relative_to(_SOURCES).as_posix(), path.read_text(encoding="utf-8")
        found += _drawn(file, changes(source))
    return found


def _drawn(file: str, changes: Sequence[Any]) -> list[Drawn]:
    """Return the mutants of a file with these changes."""
    texts = number_repeats((each.symbol, str(each)) for each in changes)
    return [Drawn(file, c.symbol, c.line, text, c) for c, text in zip(changes, texts, strict=True)]


def _chosen(options: argparse.Namespace) -> list[Drawn]:
    """Return the mutants to run, in a seeded order, so that any first part is a sample."""
    everything = _all_of(options.room)
    if options.module:
        wanted = {name.replace(".", "/") for name in options.module}
        everything = [each for each in everything if each.file.rpartition(".")[0] in wanted]
    if options.again is not None:
        rows = json.loads(options.again.read_text())
        texts = {(row["mutant"], row["line"]) for row in rows if row["verdict"] == "survived"}
        everything = [d for d in everything if (f"{d.file}: {d.text}", d.line) in texts]
    random.Random(options.seed).shuffle(everything)
    return everything[: options.sample]


def _prepared(
    chosen: list[Drawn], options: argparse.Namespace, work: Path
) -> tuple[list[Ready], Watch]:
    """Return what can be put in, and what tells when it is reached."""
    if not ROOMS[options.room].sources:
        return [
            (each, partial(transferred, _imported(each.file), each.change.index),
             {(str(_PACKAGE / each.file), line) for line in each.change.lines})
            for each in chosen
        ], Lines({str(_PACKAGE / each.file) for each in chosen})  # fmt: skip
    from tests.mutation.compiled import Page, built, loaded

    page, sources = Page(len(chosen), work), dict[Path, dict[int, Any]]()
    for number, each in enumerate(chosen):
        sources.setdefault(_SOURCES / each.file, {})[number] = each.change
    build, tests = options.build.absolute(), ROOMS[options.room].programs
    extensions, programs, compiled = built(sources, tests, build, work)
    os.environ["DPOCO_MUTATION_PROGRAMS"] = os.pathsep.join(map(str, programs))
    loaded(extensions)
    print(f"{len(compiled)} of {len(chosen)} changes compile", flush=True)
    return [(each, partial(page.turn_on, number), {("", number)})
            for number, each in enumerate(chosen) if number in compiled], page  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
