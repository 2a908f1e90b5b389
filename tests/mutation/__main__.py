"""``python -m tests.mutation``: do the tests notice errors in what is trusted?

Every mutant (``operators.py``) is put into the imported module in a fork of one warm process that
has collected the tests (``warm.py``, ``transfer.py``), and the tests that reach its lines run on
it, the cheapest first, until one fails. What survives is printed. A run of all mutants of a room
fails if one survives that ``survivors.txt`` does not name with the reason why it is harmless; a
sample, if more do than chance explains where the room keeps the share that it is held to.

    python -m tests.mutation --room kernel --minutes 3 --seed 7     # a seeded sample
    python -m tests.mutation --room kernel --module privacy.neighbours
    python -m tests.mutation --room settings --out results.json     # all, killed and survived

Needs a system with ``fork``; nothing is written but --out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from scipy.stats import binom
from tests.mutation.operators import Mutant, mutants
from tests.mutation.targets import ROOMS
from tests.mutation.transfer import caches, transferred
from tests.mutation.warm import Verdict, Warm, collected

_ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.find_spec("dpoco")
assert _SPEC is not None
assert _SPEC.origin is not None
_PACKAGE = Path(_SPEC.origin).parent  # the installed one
_LISTED = Path(__file__).with_name("survivors.txt")
_LONGEST = 10.0  # seconds of processor time; what takes longer is left out


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if too many survive, 2 if the list of survivors names what is not there."""
    options = _options(arguments)
    os.chdir(_ROOT)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp()
    listed = _listed()
    stale = [text for text in listed if not _exists(text)]
    if stale:
        print("\n".join(["survivors.txt names what is not there:", *stale]), file=sys.stderr)
        return 2
    code = 1

    def use(warm: Warm) -> None:
        nonlocal code
        code = _run(options, warm, listed)

    tests = [*ROOMS[options.room].tests, *([] if options.slow else ["-m", "not slow"])]
    collected(tests, use)
    return code


def _run(options: argparse.Namespace, warm: Warm, listed: dict[str, str]) -> int:
    chosen = _chosen(options)
    files = {str(_PACKAGE / f"{module}.py") for module, _ in chosen}
    caches()
    warm.measure(files, _LONGEST)
    begun = time.monotonic()
    print(f"{len(warm.reach)} of {len(warm.items)} tests measured", flush=True)
    for file in sorted(files):  # the way in changes nothing by itself
        reach = [place for place, r in warm.reach.items() if any(n == file for n, _ in r.lines)]
        unchanged = warm.judged(partial(transferred, _imported(file), None), reach[:20])
        if unchanged[0] is not Verdict.SURVIVED:
            print(f"{file}: tests fail on the unchanged module: {unchanged[1]}", file=sys.stderr)
            return 2
    results, counted, unlisted = [], Counter[str](), 0
    for module, mutant in chosen:
        if time.monotonic() - begun > 60.0 * options.minutes:
            break
        tests = _answering(warm, str(_PACKAGE / f"{module}.py"), mutant)
        name = _imported(str(_PACKAGE / f"{module}.py"))
        verdict, killer = warm.judged(partial(transferred, name, mutant.index), tests)
        text = f"{module}.py: {mutant.before} -> {mutant.after}"
        counted[verdict.value] += 1
        row = {"mutant": text, "line": mutant.line, "tests": len(tests), "killer": killer}
        results.append({**row, "room": options.room, "verdict": verdict.value})
        if verdict is Verdict.SURVIVED:
            unlisted += text not in listed
            reason = listed.get(text, "NOT LISTED")
            print(f"survived  {mutant.line}  {text}  [{len(tests)} tests]  {reason}", flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    killed = len(results) - counted["survived"]
    share = killed / max(1, len(results))
    print(f"{options.room}: {len(results)} of {len(chosen)} mutants run, {killed} killed "
          f"({share:.1%}; held {ROOMS[options.room].share:.0%}), "
          f"{counted['survived']} survived, {unlisted} of them not listed")  # fmt: skip
    if len(results) == len(chosen) and options.sample is None:
        return int(unlisted > 0)
    # Of a sample as many may survive as a room on its target shows with probability 1e-6.
    return int(binom.sf(unlisted - 1, len(results), 1.0 - ROOMS[options.room].share) < 1e-6)


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
    parser.add_argument("--out", type=Path, help="where results go, as JSON")
    return parser.parse_args(arguments)


def _imported(file: str) -> str:
    parts = Path(file).relative_to(_PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _modules(room: str) -> list[str]:
    paths = [path for pattern in ROOMS[room].modules for path in _PACKAGE.glob(pattern)]
    return sorted(path.relative_to(_PACKAGE).as_posix().removesuffix(".py") for path in paths)


def _mutants(module: str) -> list[Mutant]:
    return mutants((_PACKAGE / f"{module}.py").read_text(encoding="utf-8"))


def _chosen(options: argparse.Namespace) -> list[tuple[str, Mutant]]:
    """Return the mutants to run, in a seeded order, so that any first part is a sample."""
    wanted = [name.replace(".", "/") for name in options.module or []] or _modules(options.room)
    everything = [(module, mutant) for module in wanted for mutant in _mutants(module)]
    if options.again is not None:
        rows = json.loads(options.again.read_text())
        texts = {(row["mutant"], row["line"]) for row in rows if row["verdict"] == "survived"}
        everything = [(module, m) for module, m in everything
                      if (f"{module}.py: {m.before} -> {m.after}", m.line) in texts]  # fmt: skip
    random.Random(options.seed).shuffle(everything)
    return everything[: options.sample]


def _answering(warm: Warm, file: str, mutant: Mutant) -> list[int]:
    """Return the tests that reach the mutant; what runs on import, all of its module answer for."""
    exact = {(file, line) for line in mutant.lines}
    reached = [place for place, reach in warm.reach.items() if reach.lines & exact]
    if reached:
        return reached
    return [place for place, r in warm.reach.items() if any(name == file for name, _ in r.lines)]


def _listed() -> dict[str, str]:
    """Return the reason of each listed survivor; a line without a tab is a heading."""
    rows = _LISTED.read_text(encoding="utf-8").splitlines()
    return dict(row.split("\t", 1) for row in rows if "\t" in row)


def _exists(text: str) -> bool:
    module, _, change = text.partition(".py: ")
    return (_PACKAGE / f"{module}.py").exists() and any(
        change == f"{each.before} -> {each.after}" for each in _mutants(module)
    )


if __name__ == "__main__":
    sys.exit(main())
