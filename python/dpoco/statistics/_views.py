"""Views of a stream: one interval, all of them, the last ones, or all with falling weights.

All views are computed from the released totals, so none costs privacy. A view weights the interval
l steps back by w_l; its noise is sum_l b_l z_{t-l} with b = w * c^-1, z the draws and c the
coefficients of the factorisation. Source and proof: ``docs/privacy/statistics.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from dpoco._validation import FloatArray, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting.forgetting import view_noise
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised

__all__ = [
    "HalfLife",
    "Last",
    "View",
    "parse_view",
    "row_norms",
    "view_name",
    "worst_row",
]


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
    return f"half-life {view.intervals:g}" if isinstance(view, HalfLife) else view


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
        What is computed from the sums.
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
    if isinstance(factor, Normalised):
        if view != "total":
            raise ValueError("sums with levels have a formula for the noise of totals only")
        rounds = np.arange(1, pushes + 1)
        norms = np.asarray(continual_sum.row_norm(factor, rounds, pushes))
    else:
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
