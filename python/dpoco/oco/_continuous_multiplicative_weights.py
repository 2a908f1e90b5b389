"""Continuous multiplicative weights with lazily resampled decisions (P-COMW)."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from dpoco import _core, domains, losses
from dpoco._participation import Participation
from dpoco.accounting import Budget
from dpoco.accounting import continuous_multiplicative_weights as accountant
from dpoco.accounting.continuous_multiplicative_weights import (
    ContinuousMultiplicativeWeightsParameters,
)
from dpoco.oco._coupled import CoupledLearner
from dpoco.privacy.mechanisms.coupled_draws import Dartboard, GibbsDraw
from dpoco.random import Source

__all__ = ["ContinuousMultiplicativeWeights", "ContinuousMultiplicativeWeightsParameters"]


class ContinuousMultiplicativeWeights(CoupledLearner):
    """Decisions drawn from a Gibbs law of the past losses, and rarely: P-COMW, corrected.

    The decision has density proportional to exp(-beta (F + lam ||x - c||^2 / 2)), F the sum of past
    losses and c the domain's centre. At the end of each block of rounds it is kept or drawn afresh,
    coupled so that this stays its law while few fresh draws are spent. The whole sequence of
    decisions is (epsilon, delta)-differentially private for replacing one round's loss, also when
    the stream is chosen adaptively. It needs no smoothness: the tool for Lipschitz losses with
    kinks.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss, QuadraticLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping; the constants
        of a `CustomLoss` are declared by the user and taken on trust.
    horizon : int
        Number of rounds T, up to 1e12. Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee. None switches privacy off: a fresh draw every round, or, with
        `max_switches`, lazy decisions.
    parameters : ContinuousMultiplicativeWeightsParameters, optional
        Overrides calibration; the guarantee is computed from them.
    calibration : {"tight", "corrected", "paper"}
        "tight" (default): exact composition, everything chosen to minimise the proven regret bound.
        "corrected": the published argument with every step repaired. "paper": the published
        parameters, for comparison.
    coupling : {"auto", "density_ratio", "dartboard", "anchored", "scheduled", "maximal"}
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
    sampler : {"auto", "exact", "mcmc"}
        "exact": only samplers whose draws have the stated law, at whatever cost. "auto" (default)
        is exact for linear losses and wherever a public bound says that rejection is fast; else it
        falls back to a Markov chain for slow draws, with an assumed total variation that the
        guarantee charges, and is not certified.
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
    Per round one evaluation of the loss ("anchored": one per anchor too), and for "density_ratio"
    one log normaliser. A fresh draw costs O(d) for linear losses; otherwise passes over the
    distinct records so far, which are kept (O(T d) memory; squared and quadratic losses O(d^2)).
    Drawing takes a time that depends on the data. `parameters.regret_bound` bounds the expected
    regret on streams fixed in advance.
    Proofs: ``docs/privacy/gibbs_draws.md``, ``docs/privacy/couplings.md``,
    ``docs/privacy/oco_regret.md``, samplers: ``docs/privacy/samplers.md`` (correct Agarwal et al.,
    P-COMW, Theorems 4.1 and 4.2).

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.oco.ContinuousMultiplicativeWeights(
    ...     dpoco.domains.Box([-1.0, -1.0], [1.0, 1.0]),
    ...     dpoco.losses.LinearLoss(gradient_bound=1.0),
    ...     horizon=10_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> learner.decide().shape
    (2,)
    >>> learner.observe([0.5, -0.2])
    >>> learner.round
    1
    """

    _accountant: ClassVar[ModuleType] = accountant
    _parameters_class = ContinuousMultiplicativeWeightsParameters

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int,
        budget: Budget | None,
        parameters: ContinuousMultiplicativeWeightsParameters | None = None,
        calibration: str = "tight",
        coupling: str = "auto",
        block: int | None = None,
        relation: str = "replace",
        unbounded: bool = False,
        max_switches: int | None = None,
        sampler: str = "auto",
        participation: Participation | None = None,
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(
            ContinuousMultiplicativeWeights,
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
            sampler=sampler,
            participation=participation,
            on_violation=on_violation,
            source=source,
        )

    def _build_engine(self, claim: dict[str, Any]) -> _core.ContinuousMultiplicativeWeights:
        p, draw, keep = self._parameters, self._mechanism.draw, self._mechanism.keep
        assert isinstance(draw, GibbsDraw)
        settings = {
            **self._rule_settings(claim),
            "inverse_temperature": draw.inverse_temperature,
            "regularization": draw.regularization,
            "exact_only": draw.tolerance == 0.0,
            "sampler_tolerance": draw.tolerance or 1e-12,
            "factor_range": keep.span if isinstance(keep, Dartboard) else 0.0,
            "anchors": p.anchors,
            "clip_error": _clip_error(p),
        }
        return _core.ContinuousMultiplicativeWeights(
            self._domain._engine, self._loss_settings(), settings
        )

    @property
    def parameters(self) -> ContinuousMultiplicativeWeightsParameters:
        """Everything calibration fixed: temperature, regulariser, coupling, cap, regret bound."""
        parameters: ContinuousMultiplicativeWeightsParameters = self._parameters
        return parameters


def _clip_error(p: ContinuousMultiplicativeWeightsParameters) -> float:
    """Return the total variation that clipping may add to a round's law."""
    if p.forced_switch > 0.0:
        return p.forced_switch / (2.0 * p.block * p.horizon)
    # Without forced switches errors add up over the rounds.
    return 1.0 / (p.horizon * max(p.horizon - 1.0, 1.0))
