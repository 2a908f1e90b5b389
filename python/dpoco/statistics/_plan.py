"""The plan of a monitor: the factorisation, the noise, and the accuracy of each view.

The factorisation is the one whose worst view is best. For each candidate and view, we compute the
ratio of its noise to the least noise of any candidate, and take the candidate with the smallest
largest ratio. Only public numbers decide. Source: ``docs/privacy/statistics.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from dpoco._validation import FloatArray, positive_float, positive_int, require_memory
from dpoco.accounting import Budget, continual_sum
from dpoco.accounting.forgetting import INDEPENDENT, damp, view_noise
from dpoco.accounting.gaussian import charged_gaussian_mu
from dpoco.accounting.release import noisy_on_lattice
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.bounds import IntervalTotals
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours
from dpoco.statistics._layout import Layout
from dpoco.statistics._statistics import shortest


@dataclass(frozen=True)
class Last:
    """The last `intervals` intervals together.

    Parameters
    ----------
    intervals : int
        At least 2. Before so many intervals have ended, the view covers all intervals.
    """

    intervals: int

    def __post_init__(self) -> None:
        """Raise for numbers that belong to another view."""
        positive_int("intervals", self.intervals, minimum=2)

    @property
    def damping(self) -> float:
        """Damping factor per step of a factorisation that suits the view."""
        return float(0.5 ** (1.0 / self.intervals))


@dataclass(frozen=True)
class HalfLife:
    """All intervals, where the weight halves every `intervals` intervals.

    Parameters
    ----------
    intervals : float
        Positive and finite.
    """

    intervals: float

    def __post_init__(self) -> None:
        """Raise for an invalid half-life."""
        positive_float("intervals", self.intervals)

    @property
    def damping(self) -> float:
        """Weight of an interval relative to the next one."""
        return float(0.5 ** (1.0 / self.intervals))


View = Literal["interval", "total"] | Last | HalfLife


def view_name(view: View) -> str:
    """Return "interval", "total", "last 24" or "half-life 24"."""
    if isinstance(view, Last):
        return f"last {view.intervals}"
    return f"half-life {shortest(view.intervals)}" if isinstance(view, HalfLife) else view


def parse_view(text: str) -> View:
    """Return the view whose name `view_name` returned.

    Raises
    ------
    ValueError
        For any other text.
    """
    kind, _, number = text.partition(" ")
    try:
        if kind == "last":
            return Last(int(number))
        if kind == "half-life":
            return HalfLife(float(number))
    except (TypeError, ValueError):
        pass
    if text == "interval" or text == "total":
        return text  # type: ignore[return-value]
    raise ValueError(f"a view is interval, total, last N or half-life N; got {text!r}")


@lru_cache(maxsize=128)
def row_norms(factor: Buffered, view: View, pushes: int) -> FloatArray:
    """Return the deviation of a view after 1, ..., `pushes` intervals, in units of a draw.

    Parameters
    ----------
    factor : Buffered
        Correlation of the draws. With levels (`Normalised`), only the total has a formula.
    view : View
        View that is computed from the sums.
    pushes : int
        Number n of intervals.

    Returns
    -------
    ndarray, shape (n,)
        Read-only.

    Raises
    ------
    ValueError
        For a view other than "total" with a factorisation with levels.
    """
    require_memory({"the noise of every interval": float(pushes)})
    if isinstance(factor, Normalised):
        if view != "total":
            raise ValueError("sums with levels have a formula for the noise of totals only")
        rounds = np.arange(1, pushes + 1)
        norms = np.asarray(continual_sum.row_norm(factor, rounds, pushes))
    else:
        # A total keeps all of the past, and a single interval none of it.
        kept = view.damping if isinstance(view, HalfLife) else float(view != "interval")
        width = view.intervals if isinstance(view, Last) else None
        norms = view_noise(factor, np.full(pushes, kept), width)[0]
    norms.setflags(write=False)
    return np.asarray(norms, dtype=np.float64)


def worst_row(factor: Buffered, view: View, pushes: int) -> float:
    """Return the largest of `row_norms`."""
    if view == "total":
        return float(continual_sum.worst_row_norm(factor, pushes))
    return float(row_norms(factor, view, pushes).max())


# Number of intervals for which an endless stream is planned: more than a century of hours.
ENDLESS = 2**20
# Numbers of records of an interval for which the integers have room; the largest one that hardly
# increases the noise is used. Beyond it, a cell stays at its limit: the count is too small, but as
# private as before.
ROOMS = (10**9, 10**8, 10**7, 10**6, 10**5, 10**4, 10**3)
_NO_MEMORY = 1e-100  # damping for which the weights of buffers would underflow
_LARGEST_COST = 0.01  # largest share by which the coarser grid of a room may increase the noise


@dataclass(frozen=True)
class Row:
    """The accuracy of one statistic in one view.

    Attributes
    ----------
    view, statistic : str
        Their names.
    deviation : float
        Largest standard deviation of the noise of a count of records, over all intervals.
    ratio : float
        Noise of the view, divided by the least noise of any candidate for this view alone.
    useful_from : float
        Number of records of a group from which the statistic is within about 10 % of its range.
    """

    view: str
    statistic: str
    deviation: float
    ratio: float
    useful_from: float


@dataclass(frozen=True)
class MonitorPlan:
    """The accuracy of a monitor, known before it has seen any record.

    Attributes
    ----------
    total : GaussianSum
        The released sum: bounds, factorisation and scale of the noise.
    rows : tuple of Row
        One row per view and statistic.
    room : float
        Number of records of one interval and group that are counted in full; beyond, cells do not
        grow.
    """

    total: GaussianSum
    rows: tuple[Row, ...]
    room: float

    def __str__(self) -> str:
        """Return a table."""
        lines = [
            f"{'view':14} {'statistic':18} {'noise of a count':>16} {'times the least':>16} "
            f"{'useful from':>16}"
        ]
        for row in self.rows:
            records = f"{row.useful_from:,.0f} records"
            lines.append(
                f"{row.view:14} {row.statistic:18} {row.deviation:16,.1f} {row.ratio:16.2f} "
                f"{records:>16}"
            )
        lines.append(
            f"{self.total.pushes:,} intervals, factorisation {self.total.factorisation.kind}; "
            f"counts up to {self.room:,.0f} records an interval"
        )
        return "\n".join(lines)


def candidates(views: Sequence[View], near: Neighbours, pushes: int) -> Iterator[Buffered]:
    """Yield the factorisations to compare: independent, for totals, and damped for each view."""
    # Factorisations with levels only have a formula for totals.
    if list(views) == ["total"]:
        found = continual_sum.choose_buffers(pushes, near)
        yield _factor(found, pushes)
        return
    yield INDEPENDENT
    base = _factor(continual_sum.plan_method("blt", pushes, near), pushes)
    yield base
    for view in views:
        if isinstance(view, (Last, HalfLife)):
            # The powers sqrt(q), q and q^2 of docs/privacy/statistics.md, "Choice".
            for faster in (0.5, 1.0, 2.0):
                # With a shorter memory there is none, which is the independent candidate.
                if (damping := view.damping**faster) > _NO_MEMORY:
                    yield damp(base, damping)


def _factor(method: continual_sum.Method, pushes: int) -> Buffered:
    """Return the factorisation of a method; all methods requested here have buffers."""
    factor = continual_sum.factorisation(method, pushes)
    assert isinstance(factor, Buffered)
    return factor


def choose(
    views: Sequence[View], near: Neighbours, pushes: int
) -> tuple[Buffered, dict[View, float]]:
    """Return the factorisation whose worst view is best, and the ratio of every view.

    Parameters
    ----------
    views : sequence of View
        The requested views.
    near : Neighbours
        How often one person comes.
    pushes : int
        Number of intervals.

    Returns
    -------
    factorisation : Buffered
        Factorisation for all views, which are computed from the same sums.
    ratios : dict of View to float
        Noise of each view, divided by the least noise of any candidate.

    Raises
    ------
    CalibrationError
        If no candidate fits on a lattice, because there are too many intervals.
    """
    known = [c for c in dict.fromkeys(candidates(views, near, pushes)) if c.fits(pushes)]
    if not known:
        raise CalibrationError(f"no factorisation fits {pushes} intervals on a lattice")
    chosen, ratios = continual_sum.choose(
        known, lambda c: [c.column(pushes, near) * worst_row(c, view, pushes) for view in views]
    )
    return chosen, dict(zip(views, ratios, strict=True))


def plan_sum(
    summand: IntervalTotals, factor: Buffered, near: Neighbours, pushes: int, budget: Budget | None
) -> GaussianSum:
    """Return the sum with the least noise that meets the budget, in integers with room.

    Without a budget, there is no noise.

    Parameters
    ----------
    summand : IntervalTotals
        Bounds on one person's addition to an interval.
    factor : Buffered
        Correlation of the draws.
    near : Neighbours
        How often one person comes.
    pushes : int
        Number of intervals.
    budget : Budget or None
        Budget of all sums together; its delta is positive.

    Raises
    ------
    CalibrationError
        If no noise meets the budget, or only noise on a lattice that is too coarse.
    """
    plain = GaussianSum(summand, factor, pushes=pushes)
    if budget is None:
        return plain
    mu = charged_gaussian_mu(budget, plain.tails(exact=True))
    least = plain.reach(near) / mu
    largest = max(summand.units)
    found: GaussianSum | None = None
    for room in ROOMS:
        try:
            found = noisy_on_lattice(plain, near, mu, room * largest)
        except CalibrationError:
            continue
        # More room needs a coarser grid, whose rounding increases the noise.
        if found.scale <= (1.0 + _LARGEST_COST) * least:
            return found
    if found is not None:
        return found
    # If no room is cheap enough, the smallest that fits is used.
    try:
        return noisy_on_lattice(plain, near, mu)
    except CalibrationError as error:
        # The message says that other sums may use doubles, but these only use integers.
        why, _, _ = str(error).partition("; ")
        raise CalibrationError(
            f"{why}: take fewer records of a person in an interval, fewer cells (bins, categories, "
            "groups) or intervals, or a larger budget"
        ) from None


def describe(
    layout: Layout, total: GaussianSum, views: Sequence[View], ratios: dict[View, float]
) -> MonitorPlan:
    """Return the plan for a given sum."""
    rows = []
    for view in views:
        noise = total.scale * worst_row(_buffers(total), view, total.pushes)
        for (name, statistic), weight in zip(layout.statistics, layout.weights, strict=True):
            deviation = noise / weight
            rows.append(
                Row(
                    view_name(view),
                    name,
                    deviation,
                    ratios[view],
                    statistic.least_records(deviation),
                )
            )
    assert isinstance(total.summand, IntervalTotals)
    room = total.limit * total.grid / max(total.summand.units) if total.grid else math.inf
    return MonitorPlan(total, tuple(rows), room)


def deviation(total: GaussianSum, view: View, interval: int) -> float:
    """Return the standard deviation of a cell's noise in a view after so many intervals."""
    factor = _buffers(total)
    if isinstance(factor, Normalised):
        # Totals have a formula. The noise of all intervals of a long stream would not fit into
        # memory.
        norm = continual_sum.row_norm(factor, np.array([interval]), total.pushes)[0]
    else:
        norm = row_norms(factor, view, total.pushes)[interval - 1]
    return total.scale * float(norm)


def _buffers(total: GaussianSum) -> Buffered:
    """Return a sum's factorisation, which has buffers in every monitor."""
    assert isinstance(total.factorisation, Buffered)
    return total.factorisation
