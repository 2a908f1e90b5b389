"""Accounting of the batch baselines: one fit to n records, one release.

Claims, for replacing one record, with derivatives in the margin clipped to c and features to X in
l2, L = c X:

* `NoisyFrankWolfe`, `PhasedSGD`, `LocalizedMirrorDescent`: every record lies in one batch or phase,
  so that one mu covers all of them;
* `NoisySGD`: the sampled Gaussian mechanism, K times, with distance 2 L
  (`dpoco.privacy.losses.sampled`).

Proof: ``docs/privacy/batch_baselines.md``. Source: the baselines of Han et al., section 5,
corrected.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dpoco._validation import choice
from dpoco.accounting import (
    localized_mirror_descent,
    noisy_frank_wolfe,
    noisy_sgd,
    phased_sgd,
)
from dpoco.accounting.batch_fits import BatchDomain
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.localized_mirror_descent import LocalizedMirrorDescentParameters
from dpoco.accounting.noisy_frank_wolfe import NoisyFrankWolfeParameters
from dpoco.accounting.noisy_sgd import NoisySGDParameters
from dpoco.accounting.phased_sgd import PhasedSGDParameters

__all__ = [
    "LocalizedMirrorDescentParameters",
    "NoisyFrankWolfeParameters",
    "NoisySGDParameters",
    "PhasedSGDParameters",
    "calibrate",
    "guarantee",
]

Parameters = (
    LocalizedMirrorDescentParameters
    | NoisyFrankWolfeParameters
    | NoisySGDParameters
    | PhasedSGDParameters
)

_METHODS: dict[str, tuple[ModuleType, type]] = {
    "LocalizedMirrorDescent": (localized_mirror_descent, LocalizedMirrorDescentParameters),
    "NoisyFrankWolfe": (noisy_frank_wolfe, NoisyFrankWolfeParameters),
    "NoisySGD": (noisy_sgd, NoisySGDParameters),
    "PhasedSGD": (phased_sgd, PhasedSGDParameters),
}


def calibrate(
    method: str,
    domain: BatchDomain,
    loss: Any,
    *,
    records: int,
    budget: Budget | None,
    **options: Any,
) -> Parameters:
    """Return the least noise with which one fit of `method` keeps to `budget`.

    Parameters
    ----------
    method : {"LocalizedMirrorDescent", "NoisyFrankWolfe", "NoisySGD", "PhasedSGD"}
        The learner.
    domain, loss
        The problem; a generalised linear loss.
    records : int
        n, which is public.
    budget : Budget or None
        Target; None for no noise.
    **options
        ``calibration``, ``step_scale``, and for some ``steps``: see the learner.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale keeps to the budget, or the published one does not.
    """
    module = _METHODS[choice("method", method, _METHODS)][0]
    found: Parameters = module.calibrate(domain, loss, records=records, budget=budget, **options)
    return found


def guarantee(
    domain: BatchDomain,
    loss: Any,
    parameters: Parameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scales and enforced bounds.

    Parameters
    ----------
    domain, loss
        The problem.
    parameters
        Of one of the four learners, calibrated or the user's own.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 n).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError, TypeError
        If the parameters contradict the domain or the loss.
    CalibrationError
        If the parameters say "paper" and the published claim is false for them.
    """
    for module, kind in _METHODS.values():
        if isinstance(parameters, kind):
            found: Guarantee = module.guarantee(
                domain, loss, parameters, budget=budget, seeded=seeded
            )
            return found
    raise TypeError(f"not parameters of a batch baseline: {type(parameters).__name__}")
