"""The coupled regularised leader (CTRL)."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, ClassVar

from dpoco import _core, domains, losses
from dpoco._participation import Participation
from dpoco.accounting import Budget
from dpoco.accounting import coupled_regularized_leader as accountant
from dpoco.accounting.coupled_regularized_leader import CoupledRegularizedLeaderParameters
from dpoco.oco._coupled import CoupledLearner
from dpoco.privacy.mechanisms.coupled_draws import TiltedMinimum
from dpoco.random import Source

__all__ = ["CoupledRegularizedLeader", "CoupledRegularizedLeaderParameters"]


class CoupledRegularizedLeader(CoupledLearner):
    """Follow the regularised leader of randomly tilted losses, and rarely: CTRL, corrected.

    The decision is the minimiser of all past losses plus a quadratic regulariser, a barrier and
    one random linear term. At the end of each block of rounds it is kept or drawn afresh, coupled
    so that its law is always that of the current leader while few fresh draws are spent. The whole
    sequence of decisions is (epsilon, delta)-differentially private for replacing one round's
    loss, also when the stream is chosen adaptively. The tool for smooth convex losses; for linear
    ones `NoisyFTRL` has less regret.

    Parameters
    ----------
    domain : LpBall (p < 2 for linear losses only), Box, Simplex or Polytope
        The decision set.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss, QuadraticLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping; the constants
        of a `CustomLoss` are declared by the user and taken on trust.
    horizon : int
        Number of rounds T, up to 1e12. Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee. None switches privacy off: a fresh leader every round, or, with
        `max_switches`, lazy decisions.
    parameters : CoupledRegularizedLeaderParameters, optional
        Overrides calibration; the guarantee is computed from them.
    calibration : {"tight", "corrected", "paper"}
        "tight" (default): exact composition and divergence bounds, everything chosen to minimise
        the proven regret bound. "corrected": the published argument with every step repaired.
        "paper": the published parameters, for comparison.
    coupling : {"auto", "density_ratio", "scheduled", "maximal"}
        How a decision outlives a block; "maximal" (fewest switches) only without privacy.
    block : int, optional
        Rounds per stay-or-switch decision; default: the least regret bound.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in one round's loss, replaced or emptied.
    unbounded : bool, default False
        Decisions range over R^d; the domain is only what regret is measured against. With privacy
        only for losses that are Lipschitz on all of R^d.
    max_switches : int, optional
        Lazy mode (with ``budget=None``): bound on the expected number of switches.
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
        If no parameters meet the budget.
    BudgetExceeded
        If `parameters` give less than `budget` asks for.

    Notes
    -----
    Per round O(d) for linear losses, O(d^2) for generalised linear ones, O(d^3) for others. A
    switch solves for the leader: for logistic and Huber losses about six passes over the distinct
    records so far, which are kept (O(T d) memory); for squared and quadratic ones O(d^3), with
    O(d^2) memory. `parameters.regret_bound` bounds the expected regret on streams fixed in advance.
    Proofs: ``docs/privacy/objective_perturbation.md``, ``docs/privacy/couplings.md``,
    ``docs/privacy/oco_regret.md`` (correct Agarwal et al., CTRL, Theorems 4, 6, 9, 12 and 13).

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.oco.CoupledRegularizedLeader(
    ...     dpoco.domains.LpBall(dimension=3, p=2.0, radius=1.0),
    ...     dpoco.losses.LogisticLoss(feature_bound=1.0),
    ...     horizon=10_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> learner.decide().shape
    (3,)
    >>> learner.observe([0.5, -0.2, 0.1], 1.0)
    >>> learner.round
    1
    """

    _accountant: ClassVar[ModuleType] = accountant
    _parameters_class = CoupledRegularizedLeaderParameters

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int,
        budget: Budget | None,
        parameters: CoupledRegularizedLeaderParameters | None = None,
        calibration: str = "tight",
        coupling: str = "auto",
        block: int | None = None,
        relation: str = "replace",
        unbounded: bool = False,
        max_switches: int | None = None,
        participation: Participation | None = None,
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(
            CoupledRegularizedLeader,
            domain=domain,
            loss=loss,
            horizon=horizon,
            budget=budget,
            parameters=parameters,
            calibration=calibration,
            coupling=coupling,
            block=block,
            relation=relation,
            unbounded=unbounded,
            max_switches=max_switches,
            participation=participation,
            on_violation=on_violation,
            source=source,
        )

    def _build_engine(self, claim: dict[str, Any]) -> _core.CoupledRegularizedLeader:
        p, draw = self._parameters, self._mechanism.draw
        assert isinstance(draw, TiltedMinimum)
        settings = {
            **self._rule_settings(claim),
            "step_size": draw.step,
            "noise_scale": draw.noise,
            "noise_growth": draw.step == math.inf,
            "barrier_weight": p.barrier_weight,
            "strong_convexity": p.strong_convexity,
        }
        return _core.CoupledRegularizedLeader(self._domain._engine, self._loss_settings(), settings)

    @property
    def parameters(self) -> CoupledRegularizedLeaderParameters:
        """Everything calibration fixed: noise, step, coupling, cap, regret bound."""
        parameters: CoupledRegularizedLeaderParameters = self._parameters
        return parameters
