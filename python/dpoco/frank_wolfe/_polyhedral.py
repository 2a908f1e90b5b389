"""Private online Frank-Wolfe on polytopes (Han et al., DP-POFW)."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar, cast

import numpy as np

from dpoco import _core, domains, losses
from dpoco._participation import Participation
from dpoco.accounting import Budget
from dpoco.accounting import polyhedral_frank_wolfe as accountant
from dpoco.accounting.leaf_bounds import L1Geometry, LeafBounds, enforced_leaf_bounds
from dpoco.accounting.polyhedral_frank_wolfe import PolyhedralFrankWolfeParameters
from dpoco.frank_wolfe._leaf_learner import LeafLearner, given
from dpoco.privacy.mechanisms.base import Nothing
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.random import Source

__all__ = ["PolyhedralFrankWolfe", "PolyhedralFrankWolfeParameters"]


class PolyhedralFrankWolfe(LeafLearner):
    """Private online Frank-Wolfe on a polytope: DP-POFW, corrected and in batches.

    The tool for many dimensions with bounded features: its error grows with the logarithm of the
    number of vertices. Every round publishes a decision in `domain`; the whole sequence of
    decisions is (epsilon, delta)-differentially private for replacing one round's data, also when
    the stream is chosen adaptively. Data reach the decisions only through private selections of
    one vertex after every `batch` rounds.

    Parameters
    ----------
    domain : LpBall with p = 1, Simplex, Box or VertexSet
        The decision set. Features and gradients are clipped in the maximum norm, whatever the
        domain, a box included.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    horizon : int
        Number of rounds. Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee, delta = 0 allowed; None switches privacy off (baselines).
    parameters : PolyhedralFrankWolfeParameters, optional
        Overrides calibration; the guarantee is computed from them. It must keep to `budget`, if
        one is given, and to every other argument that is.
    calibration : {"tight", "corrected", "paper"}
        "tight" (default): the best of Renyi, zCDP and pure composition. "corrected": the published
        algorithm with every proof step repaired. "paper": the published noise scale, for
        comparison.
    selector : {"gumbel", "laplace"}, optional
        How a vertex is chosen: "gumbel" (default) is the exponential mechanism, "laplace" (the
        paper's) adds Laplace noise to every score, for twice the noise.
    exponent : float, optional
        alpha in [0, 0.9] of the noise scales b_1 k^-alpha; default 2/3, which spends the budget
        best, 1/2 if delta = 0 or if `calibration` says so.
    weights : {"unbiased", "paper"}, optional
        Weights of the gradient estimate: k or k + 1.
    batch : int or "auto"
        Rounds per update; an incomplete last batch is never used. "auto" (default) minimises the
        predicted error, at most horizon / 16.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in one round's data, replaced or emptied.
    start : array_like of shape (d,), optional
        Public first decision; default the domain's centre.
    participation : Participation, optional
        How often one person comes: budget and guarantee are then for all her rounds together.
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
    Time O(d) a round, and O(d) an update: a few exponentials of 2 d scores; O(N d) for a list of N
    vertices. Memory 9 d doubles.
    Proof: ``docs/privacy/polyhedral_frank_wolfe.md`` (corrects Han et al., Theorem 3.4).

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.frank_wolfe.PolyhedralFrankWolfe(
    ...     dpoco.domains.LpBall(dimension=3, p=1.0, radius=1.0),
    ...     dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0),
    ...     horizon=20000, budget=dpoco.Budget(epsilon=2.0, delta=1e-6))
    >>> learner.decide()
    array([0., 0., 0.])
    >>> learner.observe([0.5, -0.2, 0.1], 0.7)
    >>> learner.round
    1
    """

    _parameters: PolyhedralFrankWolfeParameters
    _accountant: ClassVar[ModuleType] = accountant
    _parameters_class = PolyhedralFrankWolfeParameters

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int,
        budget: Budget | None,
        parameters: PolyhedralFrankWolfeParameters | None = None,
        calibration: str = "tight",
        selector: str | None = None,
        exponent: float | None = None,
        weights: str | None = None,
        batch: int | str | None = "auto",
        relation: str = "replace",
        start: Any = None,
        participation: Participation | None = None,
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(PolyhedralFrankWolfe, **given(locals()))

    def _set_up(
        self, arguments: dict[str, Any], parameters: Any, seeded: bool, claim: dict[str, Any]
    ) -> None:
        super()._set_up(arguments, parameters, seeded, claim)
        # Losses and bounds are those of the l_1 geometry, in which records are clipped.
        self._domain = cast(domains.Domain, L1Geometry(arguments["domain"]))

    def _build_engine(self, claim: dict[str, Any]) -> _core.FrankWolfe:
        """Return a compiled learner in round 0 on the stream of `claim`."""
        p, mechanism = self._parameters, self._mechanism
        leaf, batch, published = enforced_leaf_bounds(self._loss, p), p.batch, p.weights == "paper"
        # Without noise nothing is stated of the domain, but that a single point is one.
        size = 0.0 if isinstance(mechanism, Nothing) else np.inf
        selection = {"selector": p.selector, "scale": 0.0, "exponent": p.exponent}
        sizes = dict.fromkeys(("diameter_l1", "diameter_l2", "diameter_linf"), size)
        if isinstance(mechanism, Selections):
            scores = mechanism.scores
            assert isinstance(scores, VertexScores)
            slope = scores.slope if self._loss.glm else None
            leaf = LeafBounds(slope, scores.leaf, scores.leaf_l2)
            batch, published = scores.batch, scores.offset == 1
            selection = {
                "selector": mechanism.law,
                "scale": mechanism.scale,
                "exponent": mechanism.exponent,
            }
            sizes = {
                "diameter_l1": scores.diameter_l1,
                "diameter_l2": scores.diameter_l2,
                "diameter_linf": scores.diameter_max,
            }
        return _core.FrankWolfe(
            self._arguments["domain"]._engine,
            self._loss._glm_engine,
            _core.RecordClipper(self._domain.dimension, leaf.bound, np.inf, leaf.bound_l2),
            {
                "rounds": p.horizon,
                "batch": batch,
                "leaf_scalar_bound": leaf.slope or 0.0,
                "step_scale": 1.0,
                "published_weights": published,
                "selection": {**selection, **sizes, **claim},
            },
            np.array(self._start),
        )

    @property
    def domain(self) -> domains.Domain:
        """The decision set."""
        domain: domains.Domain = self._arguments["domain"]
        return domain

    @property
    def parameters(self) -> PolyhedralFrankWolfeParameters:
        """Everything calibration fixed: selector, noise scales, batch, leaf bound."""
        return self._parameters

    def user_rho(self, round: int) -> float:
        """Return the zCDP parameter against a change of one round's data: less for later rounds.

        Parameters
        ----------
        round : int
            Counted from 0, below the horizon.
        """
        return accountant.user_rho(self.domain, self._loss, self._parameters, round)
