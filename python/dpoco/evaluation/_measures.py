"""The measures of a comparison: noise, curves, comparators' losses."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import accounting
from dpoco.accounting import Budget, TreeFrankWolfeParameters, continual_sum
from dpoco.accounting.generalized_gaussian import coordinate_variance
from dpoco.bandits import BanditTrace
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.evaluation._comparators import GlmLoss
from dpoco.evaluation._report import Curves

__all__ = [
    "constant_losses", "cumulative_curves", "losses_of", "noise_levels", "switches_of", "totals",
    "versions",
]  # fmt: skip

FloatArray = NDArray[np.float64]


def losses_of(trace: Any) -> FloatArray:
    """Return the losses of a run, shape (T,); of a bandit, the largest reward minus its own."""
    if isinstance(trace, BanditTrace):
        return np.asarray(trace._reward_range[1] - trace.rewards, np.float64)
    return np.asarray(trace.losses, np.float64)


def switches_of(trace: Any) -> NDArray[np.int64]:
    """Return rounds of a run, from 0, after which the decision, of a bandit the arm, changed."""
    if isinstance(trace, BanditTrace):
        return np.flatnonzero(np.diff(trace.actions))
    return np.asarray(trace.switches, np.int64)


def constant_losses(loss: GlmLoss, margin: float, labels: FloatArray) -> FloatArray:
    """Losses of a constant margin, shape (T,); 0 where the label is not finite."""
    present = np.isfinite(labels)
    low, high = loss.label_range
    targets = np.clip(np.where(present, labels, low), low, high)
    values = loss.value(np.array([margin]), np.ones((len(labels), 1)), targets)
    return np.where(present, values, 0.0)


def totals(losses: FloatArray) -> dict[str, float]:
    """Return what a report holds of the losses of a comparator, shape (T,)."""
    return {"average_loss": float(losses.mean()), "total_loss": float(losses.sum())}


def noise_levels(
    domain: Domain, loss: GlmLoss, parameters: TreeFrankWolfeParameters, budget: Budget
) -> dict[str, Any]:
    """Noise of this run and of the published constants for the same problem and budget."""
    record: dict[str, Any] = {
        "scale": parameters.noise_scale,
        "released": _released(parameters, domain.dimension),
        "paper_scale": None,
        "paper_released": None,
        "scale_ratio": None,
        "released_ratio": None,
    }
    try:  # the published algorithm updates every round
        paper = accounting.tree_frank_wolfe.calibrate(
            domain,
            loss,
            horizon=parameters.horizon,
            budget=budget,
            calibration="paper",
            step_scale=parameters.step_scale,
        )
    except CalibrationError:  # the published constants miss this budget: nothing to compare
        return record
    released = _released(paper, domain.dimension)
    record.update(
        paper_scale=paper.noise_scale,
        paper_released=released,
        scale_ratio=paper.noise_scale / parameters.noise_scale,
        released_ratio=released / record["released"],
    )
    return record


def _released(parameters: TreeFrankWolfeParameters, dimension: int) -> float:
    """Return the standard deviation of one coordinate of the noisiest released sum."""
    row = continual_sum.worst_row_norm(parameters.sum_method, parameters.pushes)
    variance = coordinate_variance(parameters.norm_order, dimension)
    return float(parameters.noise_scale * row * np.sqrt(variance))


def cumulative_curves(
    private: FloatArray, nonprivate: FloatArray, fixed: FloatArray, constant: FloatArray
) -> Curves:
    """Sample cumulative losses: shape (repeats, T) for the private runs, (T,) for the others."""
    rounds = _shown_rounds(len(fixed))
    at = rounds - 1
    chosen = private[:, at]
    return Curves(
        rounds=tuple(rounds.tolist()),
        private=tuple(np.median(chosen, axis=0).tolist()),
        private_low=tuple(chosen.min(axis=0).tolist()),
        private_high=tuple(chosen.max(axis=0).tolist()),
        nonprivate=tuple(nonprivate[at].tolist()),
        best_fixed=tuple(fixed[at].tolist()),
        best_constant=tuple(constant[at].tolist()),
    )


def _shown_rounds(length: int) -> NDArray[np.int64]:
    """At most 400 rounds, dense at the start and even over the whole."""
    even = np.linspace(1, length, 200)
    early = np.geomspace(1, length, 200)
    return np.unique(np.concatenate([even, early]).round().astype(np.int64))


def versions() -> dict[str, str]:
    """Versions that determine the numbers of a report."""
    import dpoco

    return {
        "dpoco": dpoco.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
