"""How many rounds a private learner needs before it beats predicting zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpoco.reproduce._cell import Cell, Outcome

__all__ = ["LearningHorizon", "learning_horizon"]

STANDARD_ERRORS = 4.0  # 3e-5 a look, and about twenty looks
_FIRST, _LARGEST = 100.0, 200_000
_FACTOR = math.sqrt(2.0)
_TEST = 2000  # the excess over the truth's risk on the same test set hardly depends on it


@dataclass(frozen=True, slots=True)
class LearningHorizon:
    """The smallest horizon at which a cell's tight calibration learns at (1, 1/T).

    Attributes
    ----------
    p : float
        Geometry.
    dimension : int
        d.
    horizon : int or None
        The smallest T of a grid with ratio sqrt(2) from which on the mean suboptimality is four
        standard errors below 1, here and at the next T; None if it is none up to 200000.
    suboptimality, suboptimality_se : float
        At that T, or at the last one tried.
    standard_errors : float
        How many of them the mean lies below 1.
    before : int or None
        The T tried before it, if any.
    standard_errors_before : float or None
        Of that T: fewer than four.
    runs : int
        Repetitions, each on data of its own.
    """

    p: float
    dimension: int
    horizon: int | None
    suboptimality: float
    suboptimality_se: float
    standard_errors: float
    before: int | None
    standard_errors_before: float | None
    runs: int


def learning_horizon(
    dimension: int, p: float, seeds: Sequence[int], target: str
) -> LearningHorizon:
    """Search upwards for the first horizon at which learning is certain."""
    looks: list[tuple[int, Outcome, float]] = []
    found: int | None = None
    step = 0
    while True:
        horizon = round(_FIRST * _FACTOR**step)
        if horizon > _LARGEST:
            break
        outcome = Outcome.of(Cell(horizon, dimension, p, seeds, target, _TEST).play())
        errors = (1.0 - outcome.suboptimality) / outcome.suboptimality_se
        looks.append((horizon, outcome, errors))
        step += 1
        if errors >= STANDARD_ERRORS and len(looks) > 1 and looks[-2][2] >= STANDARD_ERRORS:
            found = len(looks) - 2
            break
    at = len(looks) - 1 if found is None else found
    horizon, outcome, errors = looks[at]
    before = looks[at - 1] if found is not None and at > 0 else None
    return LearningHorizon(
        p=p,
        dimension=dimension,
        horizon=None if found is None else horizon,
        suboptimality=outcome.suboptimality,
        suboptimality_se=outcome.suboptimality_se,
        standard_errors=errors,
        before=None if before is None else before[0],
        standard_errors_before=None if before is None else before[2],
        runs=len(seeds),
    )
