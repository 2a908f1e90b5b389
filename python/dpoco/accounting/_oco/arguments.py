"""Checks of the arguments both continuous learners' ``calibrate`` share."""

from __future__ import annotations

from collections.abc import Sequence

from dpoco._validation import choice, positive_int, real_float
from dpoco.accounting._oco.parameters import CALIBRATIONS
from dpoco.accounting.budget import Budget
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.privacy.neighbours import CHANGES

LARGEST_PLAN = 10**12


def check_arguments(
    *,
    horizon: int,
    budget: Budget | None,
    calibration: str,
    coupling: str,
    couplings: Sequence[str],
    block: int | None,
    relation: str,
    max_switches: float | None,
) -> float | None:
    """Validate the arguments; return `max_switches` as a float."""
    positive_int("horizon", horizon, maximum=LARGEST_PLAN)
    choice("calibration", calibration, CALIBRATIONS)
    choice("relation", relation, CHANGES)
    choice("coupling", coupling, ("auto", *couplings))
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget or None; got {type(budget).__name__}")
    if block is not None:
        positive_int("block", block, maximum=horizon)
    if max_switches is None:
        if budget is None and calibration != "tight":
            raise ValueError(
                f"calibration {calibration!r} without a budget needs max_switches: the papers "
                "have parameters for privacy and for few switches only"
            )
        return None
    if budget is not None:
        raise ValueError("max_switches is for lazy learning without privacy: budget must be None")
    limit = real_float("max_switches", max_switches)
    if not limit > 0.0:
        raise ValueError(f"max_switches must be positive; got {limit!r}")
    return limit


def admissible(coupling: str, allowed: Sequence[str], why: str) -> tuple[str, ...]:
    """Return the couplings to try; raise if the one asked for does not fit the problem."""
    if coupling == "auto":
        return tuple(allowed)
    if coupling not in allowed:
        raise ValueError(f"coupling {coupling!r} does not fit {why}; one of {sorted(allowed)}")
    return (coupling,)


def require_global_bounds(problem: EuclideanProblem) -> None:
    """Raise for private learning over R^d with losses whose bounds hold on the domain only."""
    if problem.unbounded and problem.family in ("quadratic", "custom"):
        raise ValueError(
            f"{problem.family} losses are not known to be Lipschitz on R^d: unbounded=True is not "
            "private"
        )


def baseline_block(coupling: str, block: int | None) -> int:
    """Return the block of the learner without privacy that draws afresh after every block."""
    if coupling not in ("auto", "scheduled"):
        raise ValueError(
            f"coupling {coupling!r} without a budget needs max_switches; "
            "the baseline is 'scheduled'"
        )
    return 1 if block is None else block
