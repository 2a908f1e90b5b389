"""Table 5.1 of Han et al., rerun: what it says, and what can be had at its budget."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from dpoco._validation import choice, positive_float, positive_int, whole_number
from dpoco.datasets import TARGETS
from dpoco.evaluation.playing import released_deviations
from dpoco.reproduce._cell import VARIANTS, Cell, Outcome, Scores, baseline_rows, learning_horizon
from dpoco.reproduce._printed import PrintedCell, Progress, printed_table_5_1
from dpoco.reproduce._result import Table51, TableRow
from dpoco.reproduce._verdict import DirectionLaw, judge


def table_5_1(
    *,
    horizons: Sequence[int] | None = None,
    dimensions: Sequence[int] | None = None,
    p: Sequence[float] | None = None,
    seeds: int = 10,
    first_seed: int = 0,
    target: str = "dense",
    test_records: int = 10_000,
    verdicts: bool = True,
    learning_runs: int = 0,
    baselines: bool = False,
    baseline_seconds: float = 20.0,
    progress: Progress | None = None,
) -> Table51:
    """Rerun Table 5.1 of Han et al., at the budget it states: epsilon = 1 and delta = 1/T.

    Every cell is a linear regression on ``x = z / ||z||_q`` (`datasets.linear_regression_stream`)
    over the l_p ball of radius 2. The tree Frank-Wolfe learner runs with its three calibrations,
    with the tight one on the paper's tree, and without noise.

    Parameters
    ----------
    horizons, dimensions, p : sequence, optional
        Which of the printed T in {1000, 2000, 5000, 10000}, d in {5, 10, 20} and p in {1.5, inf};
        default all. Keyword-only, as all that follow.
    seeds : int, default 10
        Runs per cell, at least 2, each on data of its own; the same in all variants.
    first_seed : int, default 0
        Seed of the first run.
    target : {"dense", "sparse5", "gaussian"}
        The true parameter. The printed numbers belong to "dense", whatever the paper's text says.
    test_records : int, default 10000
        Size of the test set of each run.
    verdicts : bool, default True
        Also find what budget the printed numbers need, simulate the noise as printed and bound
        what it spends.
    learning_runs : int, default 0
        If positive, also search for the horizon from which on learning beats predicting zero,
        with that many runs a look.
    baselines : bool, default False
        Also run the table's batch methods, privately.
    baseline_seconds : float, default 20
        CPU seconds a baseline may take in a cell; it runs at least once.
    progress : callable, optional
        Called as ``progress("table", done, total)`` after every cell, in rounds.

    Returns
    -------
    Table51

    Raises
    ------
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    With default arguments about 30 seconds on one core, 5 without verdicts.
    ``docs/reproduce.md`` has the findings.
    """
    start = time.process_time()
    cells = _selection(horizons, dimensions, p)
    most = 10**6
    first_seed = whole_number("first_seed", first_seed, 0, most)
    runs = range(first_seed, first_seed + whole_number("seeds", seeds, 2, most))
    choice("target", target, TARGETS)
    positive_int("test_records", test_records, maximum=10**7)
    positive_float("baseline_seconds", baseline_seconds)
    if whole_number("learning_runs", learning_runs, 0, most) == 1:
        raise ValueError("learning_runs must be 0 or at least 2; got 1")
    rows, compared = [], []
    laws: dict[tuple[int, float], DirectionLaw] = {}
    work, done = sum(cell.horizon for cell in cells) * seeds * len(VARIANTS), 0
    for printed in cells:
        key = printed.dimension, printed.p
        cell = Cell(printed.horizon, *key, runs, target, test_records)
        if verdicts and key not in laws:
            laws[key] = DirectionLaw(*key)
        rows.append(_measure(cell, printed, laws.get(key)))
        if baselines:
            others = {
                other.algorithm: other
                for other in printed_table_5_1()
                if (other.horizon, other.dimension, other.p) == (printed.horizon, *key)
            }
            compared += baseline_rows(cell, others, baseline_seconds)
        done += printed.horizon * seeds * len(VARIANTS)
        if progress is not None:
            progress("table", done, work)
    looked = range(first_seed, first_seed + learning_runs)
    learning = [
        learning_horizon(dimension, power, looked, target)
        for power, dimension in dict.fromkeys((cell.p, cell.dimension) for cell in cells)
        if looked
    ]
    settings = {
        "horizons": sorted({cell.horizon for cell in cells}),
        "dimensions": sorted({cell.dimension for cell in cells}),
        "p": ["inf" if math.isinf(power) else power for power in sorted({c.p for c in cells})],
        "seeds": seeds, "first_seed": first_seed, "target": target, "test_records": test_records,
        "learning_runs": learning_runs,
    }  # fmt: skip
    seconds = time.process_time() - start
    return Table51(settings, tuple(rows), tuple(learning), tuple(compared), seconds)


def _measure(cell: Cell, printed: PrintedCell, law: DirectionLaw | None) -> TableRow:
    scores = {name: cell.play(**options) for name, options in VARIANTS.items()}
    tight, paper = scores["tight"], scores["paper"]
    risk, risk_se = _ratio(paper.risk, tight.risk)
    excess, excess_se = _ratio(paper.suboptimality, tight.suboptimality)
    spreads = {
        name: released_deviations(cell.learner(0, **VARIANTS[name]).parameters, cell.dimension)
        for name in ("tight", "tight_tree", "paper")
    }
    return TableRow(
        printed=printed,
        outcomes={name: Outcome.of(of) for name, of in scores.items()},
        noise_ratio_tree=spreads["paper"][0] / spreads["tight_tree"][0],
        noise_ratio=spreads["paper"][1] / spreads["tight"][1],
        risk_ratio=risk,
        risk_ratio_se=risk_se,
        excess_risk_ratio=excess,
        excess_risk_ratio_se=excess_se,
        tight_minus_paper=_difference(tight, paper),
        tight_tree_minus_paper=_difference(scores["tight_tree"], paper),
        verdict=None if law is None else judge(cell, printed, law),
    )


def _difference(ours: Scores, theirs: Scores) -> float:
    gap = ours.suboptimality - theirs.suboptimality
    return float(gap.mean() / (gap.std(ddof=1) / math.sqrt(len(gap))))


def _ratio(above: Any, below: Any) -> tuple[float, float]:
    """Return the ratio of two means over the same runs, and its standard error to first order."""
    ratio = float(above.mean() / below.mean())
    residual = above - ratio * below
    return ratio, float(residual.std(ddof=1) / math.sqrt(len(residual)) / abs(below.mean()))


def _selection(
    horizons: Sequence[int] | None, dimensions: Sequence[int] | None, p: Sequence[float] | None
) -> list[PrintedCell]:
    cells = [cell for cell in printed_table_5_1() if cell.algorithm == "OFW"]
    asked = {"horizon": horizons, "dimension": dimensions, "p": p}
    for name, values in asked.items():
        if values is None:
            continue
        known = sorted({getattr(cell, name) for cell in cells})
        wanted = list(values)
        if not wanted or any(value not in known for value in wanted):
            listed = ", ".join(f"{value:g}" for value in known)
            raise ValueError(f"{name} must be among those of the table: {listed}")
        cells = [cell for cell in cells if getattr(cell, name) in wanted]
    return cells
