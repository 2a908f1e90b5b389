"""Localised mirror descent on a data set, 1 < p <= 2."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from dpoco import domains, losses
from dpoco.accounting import Budget
from dpoco.accounting import localized_mirror_descent as accountant
from dpoco.accounting.localized_mirror_descent import LocalizedMirrorDescentParameters
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.frank_wolfe._batch_base import BatchLearner
from dpoco.frank_wolfe._leaf_learner import given
from dpoco.privacy.mechanisms.batch_fits import GaussianPhases, SummedPhase
from dpoco.random import Source

__all__ = ["LocalizedMirrorDescent", "LocalizedMirrorDescentParameters"]


class LocalizedMirrorDescent(BatchLearner):
    """Private mirror descent in phases, each in a smaller ball around the last one's model.

    Phase i takes `steps` mirror steps on the noisy mean gradient of n/2^i fresh records, with a
    regulariser that keeps it near its start. A baseline for reference: the published constants do
    not converge (Han et al. report so for every learning rate tried), these are our own, and no
    rate is claimed for them.

    Parameters
    ----------
    domain : LpBall
        With 1 < p <= 2.
    loss : SquaredLoss, LogisticLoss or HuberLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    budget : Budget or None
        The target guarantee of one fit; None switches privacy off. Keyword-only, as all that
        follow.
    parameters : LocalizedMirrorDescentParameters, optional
        Overrides calibration; the guarantee is computed from them and must keep to `budget`, if
        one is given.
    records : int, optional
        Number of records n, if known beforehand: the guarantee is then known, too, and `fit` takes
        just so many. None (default): whatever `fit` is given; n counts as public.
    calibration : {"tight"}
        Exact Gaussian accounting; there is no other.
    steps : int, default 100
        Mirror steps per phase. Noise grows with its square root and averages out again.
    step_scale : float, default 1.0
        Factor on the step size, which sets how far a phase may go.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of releases: exact integers with noise of exactly the right law, or doubles,
        whose rounding the guarantee leaves out. "auto" (default): integers where they cost next
        to nothing.
    start : array_like of shape (d,), optional
        Public first iterate; default the domain's centre.
    on_violation : {"clip", "raise"}
        "clip" (default): records over the bounds are clipped, non-finite ones count as zero,
        silently. "raise" is for trusted experiments: whether it raises depends on the data.
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Raises
    ------
    ValueError, TypeError
        For bad arguments, other domains included.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `parameters` give less than `budget` asks for.

    Notes
    -----
    Time O(n d steps). Proof: ``docs/privacy/batch_baselines.md`` (after Asi, Feldman, Koren and
    Talwar, "Private stochastic convex optimization: optimal rates in l1 geometry").

    Examples
    --------
    >>> import dpoco
    >>> stream = dpoco.datasets.linear_regression_stream(2000, 3, 1.5, seed=1)
    >>> model = dpoco.frank_wolfe.LocalizedMirrorDescent(
    ...     dpoco.domains.LpBall(3, 1.5), dpoco.losses.SquaredLoss(1.0, 1.0),
    ...     budget=dpoco.Budget(epsilon=1.0, delta=1e-5)).fit(stream.features, stream.labels)
    >>> model.domain.contains(model.theta)
    True
    """

    _method = "localized_mirror_descent"
    _accountant: ClassVar[ModuleType] = accountant
    _parameters_class = LocalizedMirrorDescentParameters

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.GlmLoss,
        *,
        budget: Budget | None,
        parameters: LocalizedMirrorDescentParameters | None = None,
        records: int | None = None,
        calibration: str = "tight",
        steps: int = 100,
        step_scale: float = 1.0,
        numerics: str = DEFAULT_NUMERICS,
        start: Any = None,
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(LocalizedMirrorDescent, given(locals()))

    def _settings(self) -> dict[str, Any]:
        p: LocalizedMirrorDescentParameters = self._parameters
        m: GaussianPhases = self._mechanism
        ball = self._domain
        assert isinstance(ball, domains.LpBall)
        tunings = p.regularisers(ball, self._loss)
        return {
            "bound": min(phase.bound for phase in m.phases if isinstance(phase, SummedPhase)),
            "phases": [
                (phase.records, *tuning, phase.scale)
                for phase, tuning in zip(m.phases, tunings, strict=True)
            ],
            "grids": [phase.grid for phase in m.phases],
            "p": ball.p,
            "radius": ball.radius,
            "steps": max(phase.releases for phase in m.phases),
        }
