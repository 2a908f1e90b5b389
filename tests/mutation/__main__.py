"""``python -m tests.mutation``: do the accounting's tests notice errors in the accounting?

Every mutant (``operators.py``) is put into its module in memory, in a process of its own, and the
tests that answer for the module run on it until one fails. What survives is printed: either a test
is missing, or the change changes nothing (``docs/privacy/mutation.md`` explains those).

    python -m tests.mutation --sample 150              # a seeded sample over all modules
    python -m tests.mutation --module zcdp             # all mutants of one module
    python -m tests.mutation --survivors results.json  # those that survived an earlier run

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
from functools import cache
from pathlib import Path

from tests.mutation.operators import Mutant, mutants
from tests.mutation.sandbox import Verdict, run_mutant
from tests.mutation.targets import TARGETS

_ROOT = Path(__file__).parents[2]
_PACKAGE = "dpoco."
_GRACE = 5.0  # seconds a mutant may take beyond twice the unchanged module


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 if no mutant survives, 1 otherwise."""
    options = _options(arguments)
    os.chdir(_ROOT)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp()
    chosen = _chosen(options)
    results, started = [], time.monotonic()
    for module in sorted({module for module, _ in chosen}):
        tests = [test for test in TARGETS[module] if Path(test).exists()]
        if not tests:
            print(f"{module}: no tests", file=sys.stderr)
            continue
        begun = time.monotonic()
        verdict = run_mutant(_PACKAGE + module, None, tests, 600.0)
        if verdict is not Verdict.SURVIVED:
            print(f"{module}: its tests do not pass unchanged ({verdict.value})", file=sys.stderr)
            return 2
        limit = 2.0 * (time.monotonic() - begun) + _GRACE
        for mutant in (mutant for name, mutant in chosen if name == module):
            if time.monotonic() - started > options.minutes * 60.0:
                break
            verdict = run_mutant(_PACKAGE + module, mutant.index, tests, limit)
            results.append(_record(module, mutant, verdict))
            if verdict is Verdict.SURVIVED or options.verbose:
                print(f"{verdict.value:>9}  {module}.py:{mutant}", flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps(results, indent=1) + "\n")
    survived = sum(row["verdict"] == Verdict.SURVIVED.value for row in results)
    print(f"{len(results)} of {len(chosen)} mutants run, {survived} survived")
    return 1 if survived else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--sample", type=int, help="number of mutants, drawn over all modules")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--module", action="append", help="of dpoco; repeatable")
    parser.add_argument("--survivors", type=Path, help="results of an earlier run")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--out", type=Path, help="where results go, as JSON")
    parser.add_argument("--verbose", action="store_true", help="print every mutant")
    return parser.parse_args(arguments)


def _chosen(options: argparse.Namespace) -> list[tuple[str, Mutant]]:
    """Return the mutants to run, in the order of module and text."""
    modules = options.module or sorted(TARGETS)
    everything = [
        (module, mutant) for module in modules if _exists(module) for mutant in _mutants(module)
    ]
    if options.survivors is not None:
        rows = json.loads(options.survivors.read_text())
        wanted = {
            (row["module"], row["before"], row["after"], row["occurrence"])
            for row in rows
            if row["verdict"] == Verdict.SURVIVED.value
        }
        everything = [
            (module, m)
            for module, m in everything
            if (module, m.before, m.after, _occurrences(module)[m.index]) in wanted
        ]
    if options.sample is None or options.sample >= len(everything):
        return everything
    picked = random.Random(options.seed).sample(range(len(everything)), options.sample)
    return [everything[place] for place in sorted(picked)]


def _exists(module: str) -> bool:
    return importlib.util.find_spec("dpoco") is not None and _source(module).exists()


def _source(module: str) -> Path:
    spec = importlib.util.find_spec("dpoco")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / (module.replace(".", "/") + ".py")


@cache
def _mutants(module: str) -> tuple[Mutant, ...]:
    return tuple(mutants(_source(module).read_text(encoding="utf-8")))


@cache
def _occurrences(module: str) -> dict[int, int]:
    """Return, by index, which of the equal changes in the module each mutant is, from 0."""
    seen: dict[tuple[str, str], int] = {}
    result = {}
    for mutant in _mutants(module):
        change = (mutant.before, mutant.after)
        result[mutant.index] = seen[change] = seen.get(change, -1) + 1
    return result


def _record(module: str, mutant: Mutant, verdict: Verdict) -> dict[str, object]:
    return {
        "module": module,
        "line": mutant.line,
        "before": mutant.before,
        "after": mutant.after,
        "occurrence": _occurrences(module)[mutant.index],
        "verdict": verdict.value,
    }


if __name__ == "__main__":
    sys.exit(main())
