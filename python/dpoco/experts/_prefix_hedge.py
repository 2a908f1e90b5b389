"""Hedge on privately summed losses."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.accounting import Budget
from dpoco.accounting import prefix_hedge as accountant
from dpoco.accounting.prefix_hedge import PrefixHedgeParameters
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.mechanisms import continual_sum_settings, sum_entries
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.random import Source

__all__ = ["PrefixHedge", "PrefixHedgeParameters"]

FloatArray = NDArray[np.float64]


class PrefixHedge(ExpertLearner):
    """Hedge on privately summed losses: static regret at (epsilon, delta)-privacy.

    The decision after t rounds is drawn from softmax(-eta S_t), S_t the noisy sums of the experts'
    losses so far. The whole sequence of decisions, and of `weights`, is (epsilon, delta)-private
    for replacing the losses of one round, also when they are chosen adaptively. The right tool for
    few experts: the noise grows like the square root of their number.

    Parameters
    ----------
    experts : int
        Number of experts N, at most 2^32.
    horizon : int
        Number of rounds T, at most 1e12. Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee; None switches privacy off (baselines).
    parameters : PrefixHedgeParameters, optional
        Overrides calibration; the guarantee is computed from them. They must keep to `budget`, if
        one is given, and to every other argument that is.
    calibration : {"tight"}
        Exact Gaussian accounting.
    sum_method : {"auto", "blt", "tree", "honaker", "toeplitz"}, optional
        The continual sum; "auto" (default) has the least regret bound, "blt" unless another is more
        than 1 % better.
    learning_rate : float, optional
        eta, per unit of losses in [0, 1]; default: the least regret bound.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding the proof leaves out, or exact integers;
        see `dpoco.mechanisms.ContinualSum`.
    loss_range : (float, float), default (0, 1)
        Public range of the losses, enforced by clipping.
    on_violation : {"clip", "raise"}
        What happens to losses out of the range: clipped silently, or ``ValueError`` (for trusted
        data: the exception depends on them).
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments; ``horizon=None`` is one.
    CalibrationError
        If no noise meets the budget, as for delta = 0.
    BudgetExceeded
        If `parameters` spend more than `budget`.

    Warns
    -----
    NoiseDominatesWarning
        If the regret bound is no better than that of uniform draws.

    Notes
    -----
    Source: Agarwal and Singh, "The price of differential privacy for online learning" (2017), with
    noise from a factorised sum instead of a tree and a sensitivity without the common shift.
    Per round: one noise vector and O(N) time; O(N) memory with "blt", O(N log T) with trees.
    Proof of privacy and of `parameters.regret_bound`: ``docs/privacy/prefix_hedge.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.experts.PrefixHedge(
    ...     10, horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> 0 <= learner.decide() < 10
    True
    >>> learner.observe([0.0] + [1.0] * 9)
    >>> learner.weights.shape
    (10,)
    >>> round(learner.parameters.regret_bound)
    364
    """

    _parameters: PrefixHedgeParameters
    _mechanism: GaussianSum
    _accountant: ClassVar[ModuleType] = accountant
    _noise: ClassVar[str] = "fresh"
    _parameters_class = PrefixHedgeParameters

    def __init__(
        self,
        experts: int,
        *,
        horizon: int,
        budget: Budget | None,
        parameters: PrefixHedgeParameters | None = None,
        calibration: str = "tight",
        sum_method: str | None = None,
        learning_rate: float | None = None,
        numerics: str = DEFAULT_NUMERICS,
        loss_range: tuple[float, float] = (0.0, 1.0),
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(PrefixHedge, **locals())

    def _entries(self) -> dict[str, float]:
        return super()._entries() | sum_entries(self._mechanism)

    def _build_engine(self, claim: dict[str, Any]) -> _core.PrefixHedge:
        total = continual_sum_settings(self._mechanism, claim)
        settings = {"learning_rate": self._parameters.learning_rate, "sum": total}
        return _core.PrefixHedge(self._shared_settings(settings), None)

    @property
    def parameters(self) -> PrefixHedgeParameters:
        """Everything calibration fixed: noise scale, sum, learning rate, regret bound."""
        return self._parameters

    @property
    def weights(self) -> FloatArray:
        """Law of the current decision, shape (N,), read-only; entries >= 0 that add up to 1.

        Computed from what the private sum released: it is covered by the guarantee and may be
        published. Playing the experts in these proportions costs the same expected loss.
        """
        self._check_active()
        self._check_alone()
        weights: FloatArray = self._engine.weights()
        return weights
