"""Many runs: ``dpoco bench`` times learners and noise, ``dpoco sweep`` plays a grid over seeds."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import dpoco
from dpoco._validation import positive_int
from dpoco.accounting import Budget
from dpoco.cli import _support as shell
from dpoco.evaluation.reports import spread_of
from dpoco.learners import LEARNERS, Learner, learner_named
from dpoco.scale import BuiltInRun

SCHEMA = "dpoco.bench/1"
_FAMILIES = ("records", "experts", "arms")
_VARIATES = 1_000_000


@shell.documented_options
def bench_command(
    learners: str | None = None,
    rounds: int = 5000,
    dimension: int = 10,
    pairs: int = 3,
    as_json: shell.JsonFlag = False,
) -> None:
    """Time learners and noise on this machine, in about ten seconds.

    CPU time, one thread, on simulated records at epsilon = 1. A learner's ratio is its CPU time per
    round with noise over that without; noise is timed against NumPy, in turn. Trust ratios of one
    run; rates move with the machine. What is compared with what others offer: bench/README.md.

    For example:

    dpoco bench

    dpoco bench --learners noisy-ftrl,prefix-hedge --rounds 100000 --json

    Parameters
    ----------
    learners : NAME,NAME,...
        Learners to time. [default: all that stream]
    rounds
        Rounds of a run.
    dimension
        Coordinates, or experts.
    pairs
        Runs with and without noise, in turn; medians count.
    """
    with shell.errors_in_one_line(), shell.notes(True):
        for name, value in (("rounds", rounds), ("dimension", dimension), ("pairs", pairs)):
            if not 1 <= value <= 10**8:
                raise ValueError(f"--{name} must be in [1, 10^8]; got {value}")
        if rounds < 100 or dimension < 2:
            raise ValueError("--rounds must be at least 100 and --dimension at least 2")
        entries = (
            [entry for entry in LEARNERS if entry.plays in _FAMILIES]
            if learners is None
            else [learner_named(name.strip(), _FAMILIES) for name in learners.split(",")]
        )
        timed = []
        with shell.progress(as_json) as (show, _):
            for index, entry in enumerate(entries):
                timed.append(_time_learner(entry, rounds, dimension, pairs))
                if show is not None:
                    show("learners", index + 1, len(entries))
            noise = _time_noise(max(3, pairs))
        report = {
            "schema": SCHEMA,
            "settings": {"rounds": rounds, "dimension": dimension, "pairs": pairs},
            "machine": {
                "processors": os.cpu_count(),
                "machine": platform.machine(),
                "instruction_set": dpoco.random.instruction_set(),
                "python": platform.python_version(),
                "numpy": np.__version__,
                "dpoco": dpoco.__version__,
            },
            "learners": timed,
            "noise": noise,
        }
        if as_json:
            shell.print_json(report)
        else:
            _print_times(report)


def _cpu(call: Callable[[], Any]) -> float:
    begun = time.process_time()
    call()
    return max(time.process_time() - begun, 1e-9)


def _time_learner(entry: Learner, rounds: int, dimension: int, pairs: int) -> dict[str, Any]:
    problem, data = _case(entry, rounds, dimension)
    cls = entry.load()
    budget = Budget._derived(1.0, 1.0 / (10.0 * rounds))
    known: dict[Budget | None, Any] = {}

    def timed(spent: Budget | None) -> float:
        player = cls(*problem, horizon=rounds, budget=spent, parameters=known.get(spent))
        known[spent] = player.parameters
        return _cpu(lambda: player.run(*data))

    times = [(timed(budget), timed(None)) for _ in range(pairs)]
    own, free = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "learner": entry.name,
        "rounds_per_second": rounds / own,
        "without_noise_rounds_per_second": rounds / free,
        "noise_ratio": statistics.median(a / b for a, b in times),
    }


def _case(entry: Learner, rounds: int, dimension: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    rng = np.random.default_rng(0)
    if entry.plays == "experts":
        return (dimension,), (rng.uniform(size=(rounds, dimension)),)
    rows = rng.normal(size=(rounds, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if entry.plays == "arms":
        rewards = rng.uniform(-1.0, 1.0, size=(rounds, 5))
        if entry.name == "linucb":
            return (5, dimension), (rows, rewards)
        return (5, dpoco.domains.LpBall(dimension, 1.0, 1.0)), (rows, rewards)
    domain = dpoco.domains.LpBall(dimension, entry.ball or 2.0, 1.0)
    loss = dpoco.losses.LogisticLoss(feature_bound=1.0)
    return (domain, loss), (rows, (rng.uniform(size=rounds) < 0.5).astype(float))


def _time_noise(pairs: int) -> list[dict[str, Any]]:
    source, rng = dpoco.random.Source(), np.random.default_rng()
    results = []
    for name, theirs in (("gaussian", rng.standard_normal), ("laplace", rng.laplace)):
        calls = (
            partial(getattr(dpoco.noise, name), source, _VARIATES),
            partial(theirs, size=_VARIATES),
        )
        both = [tuple(map(_cpu, calls)) for _ in range(pairs + 1)][1:]  # the first one warms up
        own, other = (statistics.median(column) for column in zip(*both, strict=True))
        results.append(
            {
                "noise": name,
                "variates_per_second": _VARIATES / own,
                "numpy_variates_per_second": _VARIATES / other,
                "ratio": statistics.median(b / a for a, b in both),
            }
        )
    return results


def _print_times(report: dict[str, Any]) -> None:
    shown = {
        "learners": ("learner", "rounds/s", "without noise", "CPU, private/not"),
        "noise": ("noise", "variates/s", "NumPy", "ratio"),
    }
    for index, (part, (name, *titles)) in enumerate(shown.items()):
        made = shell.table([name], titles)
        for label, own, other, ratio in (each.values() for each in report[part]):
            made.add_row(label, f"{own:,.0f}", f"{other:,.0f}", f"{ratio:.2f}")
        if index:
            typer.echo()
        shell.console().print(made)
    facts = report["machine"]
    typer.echo(
        f"\n{facts['processors']} processors, {facts['instruction_set']}; {_VARIATES:,} variates; "
        f"{report['settings']['rounds']:,} rounds, dimension {report['settings']['dimension']}"
    )


_MEASURES = ("average_loss", "average_regret", "switches")


@shell.documented_options
def sweep_command(
    learner: Annotated[
        str, typer.Argument(metavar="LEARNER", help=", ".join(BuiltInRun.learners()) + ".")
    ],
    epsilon: str = "1",
    horizon: str = "1000",
    dimension: str = "10",
    delta: float | None = None,
    seeds: int = 10,
    root: int = 0,
    output: Path = Path("results.jsonl"),
    backend: str = "serial",
    workers: int | None = None,
    as_json: shell.JsonFlag = False,
    quiet: shell.Quiet = False,
) -> None:
    """Play a learner in simulated worlds, over seeds and all combinations of the given values.

    Linear regression on the unit ball against its true parameter, or experts of which one is better
    against the best. An interrupted sweep goes on when the command is given again, also with more
    values. The noise is seeded, for research: every guarantee is void.

    For example:

    dpoco sweep noisy-ftrl --epsilon 1,4 --horizon 1000,10000 --seeds 5

    Parameters
    ----------
    epsilon : E,E,...
        Privacy budgets.
    horizon : T,T,...
        Rounds.
    dimension : D,D,...
        Coordinates, or experts.
    delta
        Privacy budget. [default: 1/(10 horizon)]
    seeds
        Runs per cell, each with its own noise and data.
    root
        Root of the seed tree.
    output : FILE
        JSON lines, one a run. Runs that the file has are not done again.
    backend : NAME
        serial, threads, loky or ray.
    workers
        [default: the cores of this machine; serial: 1]
    """
    with shell.errors_in_one_line(output), shell.notes(quiet):
        run = BuiltInRun(learner)
        grid: dict[str, list[Any]] = {
            "epsilon": shell.numbers("--epsilon", epsilon, positive=True),
            "delta": [delta],
            "horizon": shell.whole_numbers("--horizon", horizon),
            "dimension": shell.whole_numbers("--dimension", dimension),
        }
        if delta is not None:
            Budget(1.0, delta)
        with shell.progress(as_json or quiet) as (show, _):
            found = dpoco.scale.sweep(
                run, grid, seeds=positive_int("--seeds", seeds, maximum=10**6), root=root,
                output=output, backend=backend, workers=workers,
                progress=None if show is None else lambda done, total: show("runs", done, total),
            )  # fmt: skip
        cells = _summary(found)
        if as_json:
            record = {
                "schema": "dpoco.sweep/1",
                "learner": learner,
                "noise": "seeded: guarantee void",
                "output": str(output),
                "runs": len(found),
                "failed": len(found.failed),
                "cells": cells,
            }
            shell.print_json(record)
        elif not quiet:
            _print(learner, cells, found, output)
        if found.failed:
            first = found.failed[0]["error"]
            raise ValueError(
                f"{len(found.failed)} of {len(found)} runs failed, the first with "
                f"{first['type'].removeprefix('builtins.')}: {first['message']}"
            )


def _summary(found: dpoco.scale.SweepResults) -> list[dict[str, Any]]:
    """Return one entry for each combination of values: median and range over its seeds."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in found:
        groups.setdefault(json.dumps(record["values"], sort_keys=True), []).append(record)
    cells = []
    for records in groups.values():
        results = [record["result"] for record in records if "result" in record]
        entry: dict[str, Any] = {**records[0]["values"], "runs": len(results)}
        for name in _MEASURES if results else ():
            entry[name] = spread_of([result[name] for result in results])
        cells.append(entry)
    return cells


def _print(
    learner: str, cells: list[dict[str, Any]], found: dpoco.scale.SweepResults, output: Path
) -> None:
    shown = shell.table(
        right=("horizon", "dimension", "epsilon", "runs", "average loss", "regret a round", "range")
    )
    for cell in sorted(cells, key=lambda c: (c["horizon"], c["dimension"], c["epsilon"])):
        row = [f"{cell['horizon']:,}", str(cell["dimension"]), f"{cell['epsilon']:g}"]
        if cell["runs"]:
            regret, loss = cell["average_regret"], cell["average_loss"]["median"]
            reach = f"{regret['min']:.4f}-{regret['max']:.4f}"
            measured = [f"{loss:.4f}", f"{regret['median']:.4f}", reach]
        shown.add_row(*row, str(cell["runs"]), *(measured if cell["runs"] else []))
    shell.say(f"{learner}: medians over seeds")
    shell.console().print(shown)
    shell.say(f"Seeded noise, for research: the guarantee is void. {len(found)} runs in {output}")
