"""The plan of a monitor: which factorisation, how much noise, and what each view will look like.

The factorisation is the one whose worst view is best: of all candidates, for every view, the ratio
of its noise to the least noise of any candidate; the candidate with the smallest largest ratio is
taken. Only public numbers decide. Source: ``docs/privacy/statistics.md``.
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
        At least 2. Before so many are over, the view is that of all intervals.
    """

    intervals: int

    def __post_init__(self) -> None:
        """Refuse numbers that another view is for."""
        positive_int("intervals", self.intervals, minimum=2)

    @property
    def damping(self) -> float:
        """Factor a step of the factorisation that suits the view."""
        return float(0.5 ** (1.0 / self.intervals))


@dataclass(frozen=True)
class HalfLife:
    """All intervals, each with half the weight of the one that is `intervals` later.

    Parameters
    ----------
    intervals : float
        Positive and finite.
    """

    intervals: float

    def __post_init__(self) -> None:
        """Refuse what is no half-life."""
        positive_float("intervals", self.intervals)

    @property
    def damping(self) -> float:
        """Weight of an interval in units of the next one's."""
        return float(0.5 ** (1.0 / self.intervals))


View = Literal["interval", "total"] | Last | HalfLife


def view_name(view: View) -> str:
    """Return "interval", "total", "last 24" or "half-life 24"."""
    if isinstance(view, Last):
        return f"last {view.intervals}"
    return f"half-life {shortest(view.intervals)}" if isinstance(view, HalfLife) else view


def parse_view(text: str) -> View:
    """Return the view of a name that `view_name` returned.

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
        How draws are correlated. With levels (`Normalised`) only the total has a formula.
    view : View
        The view that is computed from the sums.
    pushes : int
        Number of intervals n.

    Returns
    -------
    ndarray, shape (n,)
        Read-only.

    Raises
    ------
    ValueError
        For another view than "total" of a factorisation with levels.
    """
    require_memory({"the noise of every interval": float(pushes)})
    if isinstance(factor, Normalised):
        if view != "total":
            raise ValueError("sums with levels have a formula for the noise of totals only")
        rounds = np.arange(1, pushes + 1)
        norms = np.asarray(continual_sum.row_norm(factor, rounds, pushes))
    else:
        # A sum keeps all of the past, a single interval none of it.
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


# Intervals that a stream without end is planned for: more than a century of hours.
ENDLESS = 2**20
# Records of an interval that the integers have room for, the largest that costs next to no noise.
# Beyond, a cell stays at its limit: a count that is too small, and as private as before.
ROOMS = (10**9, 10**8, 10**7, 10**6, 10**5, 10**4, 10**3)
_NO_MEMORY = 1e-100  # damping by which weights of buffers would underflow
_LARGEST_COST = 0.01  # of a room: share by which its coarser grid makes the noise larger


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
        Noise of the view, divided by the least that any candidate for it alone has.
    useful_from : float
        Records of a group from which on the statistic is within about 10 % of its range.
    """

    view: str
    statistic: str
    deviation: float
    ratio: float
    useful_from: float


@dataclass(frozen=True)
class MonitorPlan:
    """How accurate a monitor will be, before it has seen any record.

    Attributes
    ----------
    total : GaussianSum
        The released sum: bounds, factorisation and scale of the noise.
    rows : tuple of Row
        One for each view and statistic.
    room : float
        Records of one interval and group that are counted in full: beyond, cells stay at this.
    """

    total: GaussianSum
    rows: tuple[Row, ...]
    room: float

    def __str__(self) -> str:
        """Return a table."""
        lines = [f"{'view':14} {'statistic':18} {'noise of a count':>16} {'useful from':>16}"]
        for row in self.rows:
            records = f"{row.useful_from:,.0f} records"
            lines.append(
                f"{row.view:14} {row.statistic:18} {row.deviation:16,.1f} {records:>16}"
                f"   {row.ratio:.2f} x best"
            )
        lines.append(
            f"{self.total.pushes:,} intervals, {self.total.factorisation.kind}, up to "
            f"{self.room:,.0f} records an interval"
        )
        return "\n".join(lines)


def candidates(views: Sequence[View], near: Neighbours, pushes: int) -> Iterator[Buffered]:
    """Yield the factorisations to compare: independent, for totals, and damped for each view."""
    # Factorisations with levels have a formula for totals alone.
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
                # A shorter memory is none: the independent candidate has that.
                if (damping := view.damping**faster) > _NO_MEMORY:
                    yield damp(base, damping)


def _factor(method: continual_sum.Method, pushes: int) -> Buffered:
    """Return the factorisation of a method; all that are asked for here have buffers."""
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
        The views that the user asks for.
    near : Neighbours
        How often one person comes.
    pushes : int
        Number of intervals.

    Returns
    -------
    factorisation : Buffered
        For all views: they are computed from the same sums.
    ratios : dict of View to float
        Noise of each view, divided by the least of any candidate.

    Raises
    ------
    CalibrationError
        If none fits on a lattice: too many intervals.
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

    Without a budget there is no noise.

    Parameters
    ----------
    summand : IntervalTotals
        Bounds on what one person adds to an interval.
    factor : Buffered
        How draws are correlated.
    near : Neighbours
        How often one person comes.
    pushes : int
        Number of intervals.
    budget : Budget or None
        Guarantee of all sums together; its delta is above 0.

    Raises
    ------
    CalibrationError
        If no noise meets it, or only noise on a lattice that is too coarse.
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
        # More room needs a coarser grid, whose rounding costs noise.
        if found.scale <= (1.0 + _LARGEST_COST) * least:
            return found
    if found is not None:
        return found
    # If no room is cheap enough, the smallest that fits is taken.
    try:
        return noisy_on_lattice(plain, near, mu)
    except CalibrationError as error:
        # Other sums may be in doubles, which that message says: these are in integers alone.
        why, _, _ = str(error).partition("; ")
        raise CalibrationError(
            f"{why}: take fewer records of a person in an interval, fewer cells (bins, categories, "
            "groups) or intervals, or a larger budget"
        ) from None


def describe(
    layout: Layout, total: GaussianSum, views: Sequence[View], ratios: dict[View, float]
) -> MonitorPlan:
    """Return the plan of a sum that is chosen."""
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
        # A formula gives it for totals alone: the noise of all intervals of a long stream would not
        # fit into memory.
        norm = continual_sum.row_norm(factor, np.array([interval]), total.pushes)[0]
    else:
        norm = row_norms(factor, view, total.pushes)[interval - 1]
    return total.scale * float(norm)


def _buffers(total: GaussianSum) -> Buffered:
    """Return a sum's factorisation; a monitor plans none without buffers."""
    assert isinstance(total.factorisation, Buffered)
    return total.factorisation
