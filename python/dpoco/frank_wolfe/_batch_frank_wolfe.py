"""Frank-Wolfe on disjoint batches of a data set (NoisySFW)."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from dpoco import domains, losses
from dpoco.accounting import Budget
from dpoco.accounting import noisy_frank_wolfe as accountant
from dpoco.accounting.noisy_frank_wolfe import NoisyFrankWolfeParameters
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.frank_wolfe._batch_base import BatchLearner
from dpoco.frank_wolfe._leaf_learner import given
from dpoco.privacy.mechanisms.batch_fits import GaussianPhases, SummedPhase
from dpoco.random import Source

__all__ = ["NoisyFrankWolfe", "NoisyFrankWolfeParameters"]


class NoisyFrankWolfe(BatchLearner):
    """Private stochastic Frank-Wolfe on a whole data set: a baseline for `TreeFrankWolfe`.

    Half of the records give the first gradient estimate; each of about sqrt(n) steps then adds the
    mean change of the gradients of sqrt(n)/2 fresh records. Every record is used once, so that one
    Gaussian mechanism is all the model costs. Not a stream: the data are there at once, and one
    model is released.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set; any geometry.
    loss : SquaredLoss, LogisticLoss or HuberLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    budget : Budget or None
        The target guarantee of one fit; None switches privacy off. Keyword-only, as all that
        follow.
    parameters : NoisyFrankWolfeParameters, optional
        Overrides calibration; the guarantee is computed from them and must keep to `budget`, if
        one is given.
    records : int, optional
        Number of records n, if known beforehand: the guarantee is then known, too, and `fit` takes
        just so many. None (default): whatever `fit` is given; n counts as public.
    calibration : {"tight", "paper"}
        "tight" (default): exact Gaussian accounting. "paper": sigma = s sqrt(2 ln(1/delta)) /
        epsilon, Lemma 2.1 of Han et al.; `CalibrationError` where its claim is false.
    step_scale : float, optional
        Factor on the published step size ln(n) / (2 sqrt(n)). It does not affect privacy, but
        smaller steps need less noise. Default 0.1, without noise 1: with noise, published steps
        diverge at a budget of epsilon = 1.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of releases: exact integers with noise of exactly the right law, or doubles,
        whose rounding the guarantee leaves out. "auto" (default): integers where they cost next
        to nothing.
    start : array_like of shape (d,), optional
        Public first decision; default the domain's centre.
    on_violation : {"clip", "raise"}
        "clip" (default): records over the bounds are clipped, non-finite ones count as zero,
        silently. "raise" is for trusted experiments: whether it raises depends on the data.
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `parameters` give less than `budget` asks for.

    Notes
    -----
    Time O(n d). Proof: ``docs/privacy/batch_baselines.md`` (after Bassily, Guzman and Nandi, as run
    by Han et al., section 5).

    Examples
    --------
    >>> import dpoco
    >>> stream = dpoco.datasets.linear_regression_stream(2000, 3, 1.5, seed=1)
    >>> model = dpoco.frank_wolfe.NoisyFrankWolfe(
    ...     dpoco.domains.LpBall(3, 1.5, 2.0), dpoco.losses.SquaredLoss(1.0, 1.25),
    ...     budget=dpoco.Budget(epsilon=1.0, delta=1e-5)).fit(stream.features, stream.labels)
    >>> model.theta.shape, model.guarantee.certified
    ((3,), True)
    """

    _method = "noisy_frank_wolfe"
    _accountant: ClassVar[ModuleType] = accountant
    _parameters_class = NoisyFrankWolfeParameters

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.GlmLoss,
        *,
        budget: Budget | None,
        parameters: NoisyFrankWolfeParameters | None = None,
        records: int | None = None,
        calibration: str = "tight",
        step_scale: float | None = None,
        numerics: str = DEFAULT_NUMERICS,
        start: Any = None,
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(NoisyFrankWolfe, given(locals()))

    def _settings(self) -> dict[str, Any]:
        p: NoisyFrankWolfeParameters = self._parameters
        m: GaussianPhases = self._mechanism
        first, *rest = (phase for phase in m.phases if isinstance(phase, SummedPhase))
        later = rest[0] if rest else first
        return {
            "bound": first.bound,
            "first_batch": first.records,
            "first_scale": first.scale,
            "first_grid": first.grid,
            "steps": 1 + sum(phase.copies for phase in rest),
            "step_size": p.step_size,
            "difference_bound": p.difference_bound,
            "later_bound": later.bound if rest else np.inf,
            "batch": later.records,
            "later_scale": later.scale,
            "later_grid": later.grid,
        }
