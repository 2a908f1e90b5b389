"""What `side_by_side.py` measures of a learner: regret, speed and memory; and its tables."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpoco

FloatArray = NDArray[np.float64]

SEEDS = 5
DELTA = 1e-6
EPSILONS = (1.0, 8.0)
BUDGETS: dict[str, dpoco.Budget | None] = {
    "no privacy": None,
    **{f"epsilon = {epsilon:g}": dpoco.Budget(epsilon, DELTA) for epsilon in EPSILONS},
}
PRIVATE = tuple(name for name, budget in BUDGETS.items() if budget is not None)

Action = Callable[[], object]
# Regret per round of every run, by the name of the budget.
Regrets = dict[str, FloatArray]


@dataclass(frozen=True)
class Contender:
    """One line of a table.

    `regrets` plays all seeds at all budgets the learner knows. `prepare` builds one learner, at the
    first private budget, and returns what plays the whole stream once: only that is timed. None:
    the line has the cost of the line above.
    """

    name: str
    kind: str  # "non-private", "simple", "ours"
    regrets: Callable[[], Regrets]
    prepare: Callable[[], Action] | None = None


@dataclass(frozen=True)
class Case:
    """One stream: a table, and a panel of the figure."""

    key: str
    title: str
    rounds: int
    reference: str  # the contender whose speed is 1
    contenders: Sequence[Contender]


@dataclass(frozen=True)
class Line:
    """Measurements of a contender: `regrets` are (mean, standard error or None)."""

    name: str
    kind: str
    regrets: dict[str, tuple[float, float | None]]
    speed: float | None = None
    memory: float | None = None


@dataclass(frozen=True)
class Table:
    key: str
    title: str
    reference: str
    lines: list[Line] = field(default_factory=list)


class Calibrated:
    """Builds a learner for a budget and a seed; each budget is calibrated once."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._plan: dict[str, Any] = {}

    def __call__(self, column: str, seed: int) -> Any:
        budget = BUDGETS[column]
        if column not in self._plan:
            self._plan[column] = self._make(budget=budget).plan
        source = dpoco.random.Source.seeded(1000 + seed)
        return self._make(budget=budget, plan=self._plan[column], source=source)


def summary(values: FloatArray) -> tuple[float, float | None]:
    """Mean and standard error over runs; no error for the only run of what has no randomness."""
    if len(values) == 1:
        return float(values[0]), None
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def play(contender: Contender) -> dict[str, tuple[float, float | None]]:
    """Utility only: the same numbers on every machine, up to rounding of NumPy's sums."""
    return {name: summary(np.asarray(v)) for name, v in contender.regrets().items()}


def _status(entry: str) -> float | None:
    """An entry of this process's status in bytes: Linux only."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(entry):
                return 1024.0 * float(line.split()[1])
    return None


def _reset_peak() -> float | None:
    """Give free memory back, reset the peak of the resident set, return the resident set."""
    gc.collect()
    if not sys.platform.startswith("linux"):
        return None
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        return _status("VmRSS")
    return None


def cost(prepare: Callable[[], Action], rounds: int) -> tuple[float, float | None]:
    """Rounds per CPU second (median), and the least peak of memory above what was there before."""
    speeds: list[float] = []
    peaks: list[float] = []
    spent = 0.0
    while len(speeds) < 2 or (spent < 0.15 and len(speeds) < 5):
        before = _reset_peak()
        action = prepare()
        start = time.process_time()
        action()
        elapsed = time.process_time() - start
        after = _status("VmHWM")
        if before is not None and after is not None:
            peaks.append(max(after - before, 0.0))
        del action
        speeds.append(rounds / max(elapsed, 1e-9))
        spent += elapsed
        if elapsed > 1.0:
            break
    return statistics.median(speeds), min(peaks) if peaks else None


def measure(case: Case) -> Table:
    """Play, time and weigh every contender of a case."""
    table = Table(case.key, case.title, case.reference)
    for contender in case.contenders:
        regrets = play(contender)  # also warms compilers and caches
        speed: float | None = None
        memory: float | None = None
        if contender.prepare is not None:
            speed, memory = cost(contender.prepare, case.rounds)
        table.lines.append(Line(contender.name, contender.kind, regrets, speed, memory))
    return table


def regret_cell(value: tuple[float, float | None] | None) -> str:
    if value is None:
        return "-"
    mean, error = value
    return f"{mean:.4f}" if error is None else f"{mean:.4f} ± {error:.4f}"


def _count(value: float | None) -> str:
    return "" if value is None else f"{float(f'{value:.2g}'):,.0f}"


def markdown(table: Table) -> str:
    """The table of a case."""
    reference = next(line.speed for line in table.lines if line.name == table.reference)
    lines = [
        "| learner | " + " | ".join(BUDGETS) + " | rounds/s | speed | memory, MB |",
        "|---|" + "--:|" * (len(BUDGETS) + 3),
    ]
    for line in table.lines:
        ratio = "" if line.speed is None or not reference else f"{line.speed / reference:.2g}"
        megabytes = "" if line.memory is None else f"{line.memory / 1e6:.1f}"
        name = f"**{line.name}**" if line.kind == "ours" else line.name
        cells = [name, *(regret_cell(line.regrets.get(budget)) for budget in BUDGETS)]
        if ratio and float(ratio) >= 100.0:
            ratio = _count(float(ratio))
        lines.append("| " + " | ".join([*cells, _count(line.speed), ratio, megabytes]) + " |")
    return "\n".join(lines)


def as_dict(table: Table) -> dict[str, Any]:
    """A table as JSON can hold it."""
    return asdict(table)
