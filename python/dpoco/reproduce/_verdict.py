"""Whether a printed number can be had at the stated budget, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpoco.accounting import Budget
from dpoco.reproduce._cell import LABEL_BOUND, RADIUS, Cell, Outcome
from dpoco.reproduce._printed import PrintedCell
from dpoco.reproduce._published_law import LEAF_BOUND, not_private_decisions
from dpoco.reproduce._spent import DirectionLaw, repaired_epsilon

__all__ = ["STEP_SCALES", "Verdict", "judge"]

# The paper picks the best step of a grid by its result, so its numbers are met on the same terms.
STEP_SCALES = (0.3, 1.0)
_ATTAINED, _MISSED = 2.0, 3.0  # standard errors above print
_SMALLEST, _LARGEST, _HALVINGS = 2.0**-4, 2.0**7, 9


@dataclass(frozen=True, slots=True)
class Verdict:
    """What stands behind one printed suboptimality.

    Attributes
    ----------
    attained : bool or None
        Whether the tight calibration at (1, 1/T) has the printed number, with the better of the
        tried step scales: True up to two standard errors above print, False from three on, None
        in between.
    excess : float
        That suboptimality minus the printed one, in standard errors.
    learns_in_print : bool
        Whether the printed number itself is three standard errors better than predicting zero.
    needed_epsilon : float or None
        Epsilon at which the tight calibration has the printed suboptimality, delta = 1/T; None if
        none up to 128 does.
    simulated : Outcome
        The published algorithm under the noise as printed, which is not private.
    repaired_epsilon : float
        What that noise spends with the order of its norm repaired, at the declared sensitivity:
        exact for p > 2, an upper bound for 1 < p < 2.
    least_epsilon : float
        What the noise as printed spends at least, at the sensitivity it is declared for.
    least_epsilon_here : float
        The same between two streams of this very regression, with labels of at most 1.25.
    """

    attained: bool | None
    excess: float
    learns_in_print: bool
    needed_epsilon: float | None
    simulated: Outcome
    repaired_epsilon: float
    least_epsilon: float
    least_epsilon_here: float

    @property
    def words(self) -> str:
        """The verdict as a table shows it."""
        if not self.learns_in_print:
            return "no better than predicting zero"
        return {True: "attained", False: "not attained", None: "undecided"}[self.attained]


def judge(cell: Cell, printed: PrintedCell, law: DirectionLaw) -> Verdict:
    """Return the verdict on the OFW row of a cell."""
    ours = _best(cell, 1.0)
    spread = math.hypot(ours.suboptimality_se, printed.suboptimality_se)
    excess = (ours.suboptimality - printed.suboptimality) / spread
    t, d, p = cell.horizon, cell.dimension, cell.p
    return Verdict(
        attained=None if _ATTAINED < excess <= _MISSED else excess <= _ATTAINED,
        excess=excess,
        learns_in_print=printed.suboptimality + _MISSED * printed.suboptimality_se < 1.0,
        needed_epsilon=_needed(cell, printed.suboptimality),
        simulated=_simulated(cell),
        repaired_epsilon=repaired_epsilon(t, d, p),
        least_epsilon=law.least_epsilon(t, LEAF_BOUND),
        # The first leaf of a record x with label y is -2 y x: labels 1.25 and -1.25 give +-g.
        least_epsilon_here=law.least_epsilon(t, 2.0 * LABEL_BOUND),
    )


def _best(cell: Cell, epsilon: float) -> Outcome:
    budget = Budget._derived(epsilon, 1.0 / cell.horizon)
    return _least([Outcome.of(cell.play(budget=budget, step_scale=scale)) for scale in STEP_SCALES])


def _least(outcomes: Sequence[Outcome]) -> Outcome:
    return min(outcomes, key=lambda outcome: outcome.suboptimality)


def _needed(cell: Cell, target: float) -> float | None:
    """Return the epsilon at which the tight calibration reaches `target`, to 1 %."""
    if _best(cell, _LARGEST).suboptimality > target:
        return None
    low, high = math.log(_SMALLEST), math.log(_LARGEST)
    if _best(cell, _SMALLEST).suboptimality <= target:
        return _SMALLEST
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _best(cell, math.exp(middle)).suboptimality > target:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _simulated(cell: Cell) -> Outcome:
    features, labels = cell.features, cell.labels
    outcomes = []
    for scale in STEP_SCALES:
        generator = np.random.default_rng([*cell.seeds, cell.horizon, cell.dimension])
        decisions = not_private_decisions(
            features, labels, cell.p, radius=RADIUS, step_scale=scale, generator=generator
        )
        outcomes.append(Outcome.of(cell.score(decisions)))
    return _least(outcomes)
