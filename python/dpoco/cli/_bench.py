"""``dpoco bench``: how fast this machine is, as rates and as ratios of one run."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import dpoco
from dpoco.accounting import Budget
from dpoco.cli._support import errors_in_one_line, notes, progress
from dpoco.learners import LEARNERS, Learner, learner_named

__all__ = ["bench_command"]

SCHEMA = "dpoco.bench/1"
_FAMILIES = ("records", "experts", "arms")
_VARIATES = 1_000_000
_WIDTH = 100


def bench_command(
    learners: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,...", help="Learners to time. [default: all that stream]"),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of a run.")] = 5000,
    dimension: Annotated[int, typer.Option(help="Coordinates, or experts.")] = 10,
    pairs: Annotated[
        int, typer.Option(help="Runs with and without noise, in turn; medians count.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Time learners and noise on this machine, in about ten seconds.

    CPU time, one thread, on simulated records at epsilon = 1. A learner's ratio is its CPU time per
    round with noise over that without; noise is timed against NumPy, in turn. Trust ratios of one
    run; rates move with the machine. What is compared with what others offer: bench/README.md.

    For example:

    dpoco bench

    dpoco bench --learners noisy-ftrl,prefix-hedge --rounds 100000 --json
    """
    with errors_in_one_line(), notes(True):
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
        with progress(as_json) as (show, _):
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
            typer.echo(json.dumps(report, allow_nan=False, indent=2))
        else:
            _print(report)


def _cpu(call: Callable[[], Any]) -> float:
    begun = time.process_time()
    call()
    return max(time.process_time() - begun, 1e-9)


def _time_learner(entry: Learner, rounds: int, dimension: int, pairs: int) -> dict[str, Any]:
    problem, data = _case(entry, rounds, dimension)
    cls = entry.load()
    budget = Budget._derived(1.0, 1.0 / (10.0 * rounds))
    known: dict[bool, Any] = {}

    def learner(private: bool) -> Any:
        spent = budget if private else None
        made = cls(*problem, horizon=rounds, budget=spent, parameters=known.get(private))
        known[private] = made.parameters
        return made

    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(pairs):
        for private in (True, False):
            player = learner(private)
            times[private].append(_cpu(lambda player=player: player.run(*data)))  # type: ignore[misc]
    own, free = (statistics.median(times[private]) for private in (True, False))
    ratios = [a / b for a, b in zip(times[True], times[False], strict=True)]
    return {
        "learner": entry.name,
        "rounds_per_second": rounds / own,
        "without_noise_rounds_per_second": rounds / free,
        "noise_ratio": statistics.median(ratios),
    }


def _case(entry: Learner, rounds: int, dimension: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    rng = np.random.default_rng(0)
    if entry.plays == "experts":
        return (dimension,), (rng.uniform(size=(rounds, dimension)),)
    rows = rng.normal(size=(rounds, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if entry.plays == "arms":
        table = rng.uniform(-1.0, 1.0, size=(rounds, 5))
        if entry.name == "linucb":
            return (5, dimension), (rows, table)
        return (5, dpoco.domains.LpBall(dimension, 1.0, 1.0)), (rows, table)
    domain = dpoco.domains.LpBall(dimension, entry.ball or 2.0, 1.0)
    loss = dpoco.losses.LogisticLoss(feature_bound=1.0)
    return (domain, loss), (rows, (rng.uniform(size=rounds) < 0.5).astype(float))


def _time_noise(pairs: int) -> list[dict[str, Any]]:
    source, rng = dpoco.random.Source(), np.random.default_rng()
    kinds: tuple[tuple[str, Callable[[], Any], Callable[[], Any]], ...] = (
        ("gaussian", lambda: dpoco.noise.gaussian(source, _VARIATES),
         lambda: rng.standard_normal(_VARIATES)),
        ("laplace", lambda: dpoco.noise.laplace(source, _VARIATES),
         lambda: rng.laplace(size=_VARIATES)),
    )  # fmt: skip
    results = []
    for name, ours, theirs in kinds:
        ours(), theirs()
        both = [(_cpu(ours), _cpu(theirs)) for _ in range(pairs)]
        results.append(
            {
                "noise": name,
                "variates_per_second": _VARIATES / statistics.median(own for own, _ in both),
                "numpy_variates_per_second": _VARIATES / statistics.median(b for _, b in both),
                "ratio": statistics.median(b / a for a, b in both),
            }
        )
    return results


def _print(report: dict[str, Any]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("learner", no_wrap=True)
    for title in ("rounds/s", "without noise", "CPU, private/not"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in report["learners"]:
        table.add_row(
            each["learner"], f"{each['rounds_per_second']:,.0f}",
            f"{each['without_noise_rounds_per_second']:,.0f}", f"{each['noise_ratio']:.2f}",
        )  # fmt: skip
    console.print(table)
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("noise", no_wrap=True)
    for title in ("variates/s", "NumPy", "ratio"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in report["noise"]:
        table.add_row(
            each["noise"], f"{each['variates_per_second']:,.0f}",
            f"{each['numpy_variates_per_second']:,.0f}", f"{each['ratio']:.2f}",
        )  # fmt: skip
    console.print(table)
    facts = report["machine"]
    typer.echo(
        f"\n{facts['processors']} processors, {facts['instruction_set']}; {_VARIATES:,} variates; "
        f"{report['settings']['rounds']:,} rounds, dimension {report['settings']['dimension']}"
    )
