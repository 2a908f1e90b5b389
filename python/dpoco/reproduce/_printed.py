"""The numbers that Han et al. print, as they print them, and tables of what is found."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Progress = Callable[[str, int, int], None]
Columns = Mapping[str, Callable[[Any], str]]


def markdown_table(columns: Columns, rows: Iterable[Any]) -> str:
    """Return a table in Markdown: for every column its title, and what it says of a row."""
    cells = [columns.keys(), *([text(row) for text in columns.values()] for row in rows)]
    head, *lines = (f"| {' | '.join(line)} |" for line in cells)
    return "\n".join([head, "|" + "---|" * len(columns), *lines])


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """One line of Table 5.1: means and standard deviations over ten runs.

    Attributes
    ----------
    horizon, dimension : int
        T and d.
    p : float
        Geometry of the decision set, 1.5 or infinity.
    algorithm : {"OFW", "NoisySFW", "NoisySGD"}
        OFW is DP-TOFW.
    risk, risk_sd : float
        Mean squared error on the test set.
    suboptimality, suboptimality_sd : float
        Excess risk over that of the zero vector: 1 for predicting zero.
    seconds, seconds_sd : float
        Wall-clock time of a run.
    """

    horizon: int
    dimension: int
    p: float
    algorithm: str
    risk: float
    risk_sd: float
    suboptimality: float
    suboptimality_sd: float
    seconds: float
    seconds_sd: float

    @property
    def suboptimality_se(self) -> float:
        """Standard error of the mean of ten runs."""
        return self.suboptimality_sd / math.sqrt(RUNS)

    @property
    def signal(self) -> float:
        """E <x, theta>^2 of the problem the row was run on, as its two error measures imply it.

        Risk is noise variance plus suboptimality times this; the paper's label noise is 0.05.
        """
        return (self.risk - NOISE**2) / self.suboptimality


RUNS = 10  # runs behind each printed mean
NOISE = 0.05  # standard deviation of the labels' noise


@cache
def printed_table_5_1() -> tuple[PrintedCell, ...]:
    """Return the 47 printed rows of Table 5.1, in their order.

    NoisySGD at T = 10000, d = 5 is missing in the paper.
    """
    text = files("dpoco.reproduce").joinpath("table_5_1.csv").read_text(encoding="utf-8")
    return tuple(
        PrintedCell(int(horizon), int(dimension), float(p), algorithm, *map(float, numbers))
        for horizon, dimension, p, algorithm, *numbers in [*csv.reader(text.splitlines())][1:]
    )
