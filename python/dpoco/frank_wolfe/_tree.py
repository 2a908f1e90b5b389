"""Private online Frank-Wolfe in l_p geometry (Han et al., DP-TOFW)."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from dpoco import _core, domains, losses
from dpoco.accounting import Budget
from dpoco.accounting import tree_frank_wolfe as accountant
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters
from dpoco.frank_wolfe._leaf_learner import LeafLearner, given
from dpoco.mechanisms import clipper_of, continual_sum_settings, sum_entries
from dpoco.privacy.mechanisms.bounds import GlmGradient
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.random import Source

__all__ = ["TreeFrankWolfe", "TreeFrankWolfeParameters"]


class TreeFrankWolfe(LeafLearner):
    """Private online Frank-Wolfe on a continual sum: DP-TOFW, corrected.

    Every round publishes a decision in `domain`; the whole sequence of decisions is
    (epsilon, delta)-differentially private for replacing one round's data, also when the stream is
    chosen adaptively. Data reach the decisions only through one private running sum.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    horizon : int or None
        Number of rounds, at most 1e12. None: unknown, at most 1e9 rounds, at the price of a noise
        1.1 to 1.6 times larger. Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee; None switches privacy off (baselines).
    parameters : TreeFrankWolfeParameters, optional
        Overrides calibration; the guarantee is computed from them. It must keep to `budget`, if
        one is given, and to every other argument that is.
    calibration : {"tight", "corrected", "paper"}
        "tight" (default): exact Gaussian accounting, weights w_k = k. "corrected": the published
        algorithm and composition with every proof step repaired. "paper": the published noise
        scale, for comparison.
    noise : {"gaussian", "generalized_gaussian"}, optional
        Default: Gaussian, or what `calibration` prescribes.
    norm_order : float, optional
        Order r of the generalized Gaussian, in [2, q].
    sum_method : {"auto", "blt", "blt_normalised", "tree", "honaker", "toeplitz"}, optional
        The continual sum; "auto" (default) is the buffered linear Toeplitz factorisation unless
        another is more than 1 % better.
    weights : {"unbiased", "paper"}, optional
        Weights of the gradient estimate: k or k + 1.
    step_scale : float, default 1.0
        s in the step s / (k + s).
    batch : int, default 1
        Rounds per update; an incomplete last batch is discarded.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in one round's data, replaced or emptied.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding the proof leaves out, or exact integers;
        see `dpoco.mechanisms.ContinualSum`.
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
    Time O(d) a round: two inner products, one linear minimisation, one noise vector. Memory about
    12 d doubles with the default sum, plus O(d log horizon) for the trees.
    Proof: ``docs/privacy/tree_frank_wolfe.md`` (corrects Han et al., Theorem 3.1).

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.frank_wolfe.TreeFrankWolfe(
    ...     dpoco.domains.LpBall(dimension=3, p=2.0, radius=1.0),
    ...     dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0),
    ...     horizon=1000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> learner.decide()
    array([0., 0., 0.])
    >>> learner.observe([0.5, -0.2, 0.1], 0.7)
    >>> learner.round
    1
    """

    _parameters: TreeFrankWolfeParameters
    _mechanism: GaussianSum
    _accountant: ClassVar[ModuleType] = accountant
    _parameters_class = TreeFrankWolfeParameters

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int | None,
        budget: Budget | None,
        parameters: TreeFrankWolfeParameters | None = None,
        calibration: str = "tight",
        noise: str | None = None,
        norm_order: float | None = None,
        sum_method: str | None = None,
        weights: str | None = None,
        step_scale: float = 1.0,
        batch: int = 1,
        relation: str = "replace",
        numerics: str = DEFAULT_NUMERICS,
        start: Any = None,
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(TreeFrankWolfe, **given(locals()))

    def _entries(self) -> dict[str, float]:
        return super()._entries() | sum_entries(self._mechanism)

    def _build_engine(self, claim: dict[str, Any]) -> _core.FrankWolfe:
        """Return a compiled learner in round 0 on the stream of `claim`."""
        parameters, total = self._parameters, self._mechanism
        leaf = total.summand
        return _core.FrankWolfe(
            self._domain._engine,
            self._loss._glm_engine,
            clipper_of(leaf),
            {
                "rounds": parameters.horizon,
                "batch": total.batch,
                "step_scale": parameters.step_scale,
                "leaf_scalar_bound": leaf.slope if isinstance(leaf, GlmGradient) else 0.0,
                "published_weights": parameters.weights == "paper",
                "sum": continual_sum_settings(total, claim),
            },
            np.array(self._start),
        )

    @property
    def parameters(self) -> TreeFrankWolfeParameters:
        """Everything calibration fixed: noise scale, sum, leaf bound, steps."""
        return self._parameters
