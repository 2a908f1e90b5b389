"""Learners with coupled decisions, kept or drawn afresh block by block: P-COMW and CTRL."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _core, domains, losses
from dpoco import _literals as literals
from dpoco._validation import Fields, FloatArray, Named, float_array, real_float, whole_if_float
from dpoco.accounting import Budget, continuous_multiplicative_weights, coupled_regularized_leader
from dpoco.accounting.continuous_multiplicative_weights import (
    CHAINS,
    CoupledForecast,
    GibbsPlan,
    GibbsTuning,
)
from dpoco.accounting.coupled_regularized_leader import TiltedPlan, TiltedTuning
from dpoco.learning.calibrated import AnyPlan
from dpoco.learning.participation import Participation
from dpoco.learning.record_learner import Asks, RecordLearner
from dpoco.learning.tickets import Ticket
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws, GibbsDraw
from dpoco.random import Source


class _ZeroLoss:
    """A loss that is zero everywhere, for a record that the learner refuses."""

    def value(self, theta: FloatArray) -> float:
        return 0.0

    def gradient(self, theta: FloatArray) -> FloatArray:
        return np.zeros_like(theta)

    def hessian(self, theta: FloatArray) -> FloatArray:
        return np.zeros((theta.size, theta.size))


class CoupledLearner(RecordLearner):
    """Base of the learners that keep a decision for many rounds through a private coupling."""

    _mechanism: CoupledDraws
    _forecast = CoupledForecast
    # Couplings are proved for ideal draws: a pool pays the tails of all its keys
    # (docs/privacy/pools.md).
    _noise: ClassVar[str] = "ideal_fresh"
    # Methods that a custom loss must have.
    _methods: ClassVar[tuple[str, ...]] = ("value", "gradient")

    @classmethod
    def _check_fixed(cls, plan: AnyPlan, given: Named) -> None:
        super()._check_fixed(plan, given)
        limit, found = given["max_switches"], plan.forecast.expected_switches
        # The slack is for rounding: the plan was made for this very limit.
        if limit is not None and found > real_float("max_switches", limit) * (1.0 + 1e-9):
            raise ValueError(
                f"max_switches={limit!r} contradicts the plan, which expects {found:.6g}"
            )

    @classmethod
    def _plan_arguments(cls, plan: AnyPlan) -> Fields:
        drawn = plan.mechanism
        if type(plan.tuning) is not cls._tuning or not isinstance(drawn, CoupledDraws):
            raise TypeError(f"plan must be a plan for a {cls.__name__}")
        fixed = {"horizon": drawn.rounds, "unbounded": cls._is_unbounded(plan)}
        # Calibration answers a budget that buys no learning with one constant decision, whatever
        # coupling and block were asked for.
        if drawn.cap == 0:
            return fixed
        return {**fixed, "coupling": drawn.keep.kind, "block": drawn.block}

    @staticmethod
    def _is_unbounded(plan: AnyPlan) -> bool:
        """Return whether decisions range over R^d."""
        raise NotImplementedError

    @staticmethod
    def _plan_horizon(plan: AnyPlan) -> int:
        rounds: int = plan.mechanism.rounds
        return rounds

    @property
    def _width(self) -> int:
        if isinstance(self._loss, losses.QuadraticLoss):
            return self._domain.dimension**2
        # A fresh draw may take passes over all records so far. Short chunks let Ctrl-C, which is
        # handled between chunks, interrupt it soon.
        return max(super()._width, 2048) if self._bytes_per_record else super()._width

    @property
    def _bytes_per_record(self) -> int | None:
        """Bytes of state for each distinct record; None if records are kept as Python objects."""
        if isinstance(self._loss, losses.CustomLoss):
            return None
        if not isinstance(self._loss, losses.LogisticLoss | losses.HuberLoss):
            return 0
        # Features within the decision set's hyperplane, their offset, the label and the count.
        flat = isinstance(self._domain, domains.Simplex)
        return 8 * (self._domain.dimension - flat + 3)

    def _entries(self) -> dict[str, float]:
        if isinstance(self._loss, losses.LinearLoss):
            return super()._entries()
        return super()._entries() | {"second derivatives": float(self._domain.dimension) ** 2}

    def _loss_settings(self) -> Fields:
        """Return the settings of the compiled sum of losses."""
        return self._loss._sum_settings(self._domain, self._is_unbounded(self._plan))

    # -- rounds -----------------------------------------------------------------------------------

    @_core.direct_record_observe
    def observe(
        self,
        record: Any,
        label: Any = ...,
        *,
        person: int | str | bytes | None = None,
        ticket: Ticket | None = None,
    ) -> None:
        """End the round with its loss.

        Parameters
        ----------
        record : array_like of shape (d,) or (d, d), or a loss object
            Features for a generalised linear loss, the gradient for a `LinearLoss`, the matrix for
            a `QuadraticLoss`; for a `CustomLoss` an object with ``value(theta) -> float`` and
            ``gradient(theta) -> (d,)``, any subgradient at a kink, kept until the horizon. A
            `CoupledRegularizedLeader` also needs ``hessian(theta) -> (d, d)``; without it the other
            learner takes the loss to have kinks.
        label : float or array_like of shape (d,), optional
            The label of a generalised linear loss; the vector of a `QuadraticLoss`.
        person : int, str or bytes
            The person behind the record, if the learner enforces a participation. A record beyond
            the limit silently counts as zero.
        ticket : Ticket, optional
            Ticket of the earlier decision that the record belongs to. The round is still played at
            the learner's current decision.

        Raises
        ------
        RoundOrderError
            If `decide` was not called in this round, or the ticket is not outstanding.
        StateError
            For a ticket of another learner, or a forged one; nothing changes.
        HorizonExceeded
            Past the horizon; nothing is drawn and nothing changes.
        ValueError, TypeError
            For a wrong shape or dtype; nothing changes. With ``on_violation="raise"`` also for
            records beyond the bounds.

        Notes
        -----
        Records beyond the bounds are silently clipped, and non-finite ones count as zero. If a
        custom loss raises an exception while it decides over a fresh draw, the learner becomes
        unusable: it may have used random numbers that must not be used again.
        """
        if ticket is not None:
            return self._arrive(ticket, record, label, person=person)
        if isinstance(self._loss, losses.QuadraticLoss):
            turn, _ = self._check_turn()
            d = self._domain.dimension
            matrix = float_array("matrix", record, (d, d))
            if label is ... or label is None:
                raise TypeError("a quadratic loss needs a matrix and a vector")
            vector = float_array("vector", label, (d,))
            if self._raises:
                self._refuse_violations(matrix[None], vector[None])
            if not self._admits(turn, person):
                matrix = np.full_like(matrix, np.nan)
            self._engine.observe_quadratic(turn, matrix, vector)
        else:
            super().observe(record, label, person=person)

    def _observe_custom(self, record: Any, turn: int, decision: FloatArray, asks: Asks) -> None:
        if not all(hasattr(record, name) for name in self._methods):
            *first, last = self._methods
            raise TypeError(f"a custom loss must have methods {', '.join(first)} and {last}")
        if self._raises:
            gradient = self._vector("gradient", record.gradient(decision))
            self._refuse_violations(gradient[None, :], None)
        if not asks():
            # The learner plays the round in any case, so that no release shows the refusal. The
            # engine keeps one loss object for each round; a refused record gets the zero loss.
            record = _ZeroLoss()
        self._engine.observe_custom(turn, record)

    def _arrays(
        self, features: ArrayLike, labels: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray | None]:
        if not isinstance(self._loss, losses.QuadraticLoss):
            return super()._arrays(features, labels)
        if labels is None:
            raise TypeError("labels are required by this loss")
        d = self._domain.dimension
        matrices = float_array("features", features, (None, d, d))
        return matrices, float_array("labels", labels, (matrices.shape[0], d))

    def _play(
        self, rows: FloatArray, targets: FloatArray | None, out: FloatArray,
        decisions: FloatArray | None, changed: NDArray[np.uint8],
    ) -> None:  # fmt: skip
        if not isinstance(self._loss, losses.QuadraticLoss):
            return super()._play(rows, targets, out, decisions, changed)
        assert targets is not None
        first = self.round
        factors = self._loss.scales(self._domain, rows, targets)
        for t, (matrix, vector) in enumerate(zip(rows, targets, strict=True)):
            decision, before = self._engine.decision(), self._engine.switches
            self._engine.observe_quadratic(first + t, matrix, vector)
            # A fresh draw may equal the decision before it by chance, so the number of draws is
            # compared.
            changed[t] = self._engine.switches != before
            out[t] = factors[t] * self._loss.value(decision, matrix, vector) if factors[t] else 0.0
            if decisions is not None:
                decisions[t] = decision

    # -- public quantities ------------------------------------------------------------------------

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        # A box does not state its dimension; its bounds are in the header already. The payload of a
        # simplex has one coordinate less than the dimension. The result is a lower bound on the
        # number of entries in the payload.
        return max(1, int(header["arguments"]["domain"].get("dimension", 1)) - 1)

    # The engine counts the draws, since a fresh draw may equal the decision before it.
    @property
    def switches(self) -> int:
        """Number of fresh draws so far, without the first decision; the guarantee covers it."""
        return int(self._engine.switches)


class ContinuousMultiplicativeWeights(CoupledLearner):
    """Decisions that are rarely redrawn from a Gibbs distribution of past losses: corrected P-COMW.

    The decision has density proportional to exp(-beta (F + lam ||x - c||^2 / 2)), where F is the
    sum of past losses and c the domain's centre. At the end of each block of rounds it is kept or
    drawn afresh. The coupling keeps this distribution with few fresh draws. The whole sequence of
    decisions is (epsilon, delta)-differentially private for replacing one round's loss, even if the
    stream is chosen adaptively. It needs no smoothness; use it for Lipschitz losses with kinks.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss, QuadraticLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping. The constants
        of a `CustomLoss` are declared by the user, and the learner trusts them.
    horizon : int
        Number of rounds T, up to 1e12. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee. None: no privacy, with a fresh draw every round or, with
        `max_switches`, lazy decisions.
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it.
    coupling : {"auto", "density_ratio", "dartboard", "anchored", "scheduled", "maximal"}
        How a block's decision is kept or replaced; "maximal" (fewest switches) works only without
        privacy.
    block : int, optional
        Rounds per stay-or-switch decision; default: the number with the least regret bound.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in the loss of one round, which is replaced or emptied.
    unbounded : bool, default False
        Decisions range over R^d, and only the regret is measured against the domain. With privacy
        this works only for losses that are Lipschitz on all of R^d.
    max_switches : float, optional
        Lazy mode (with ``budget=None``): bound on the expected number of switches.
    sampler : {"auto", "exact", "mcmc", "hit_and_run", "langevin", "proximal"}
        "exact": only samplers whose draws have the stated distribution; refused where one might
        take 10^9 evaluations of the losses. "auto" (default): exact for linear losses and wherever
        a public bound says that rejection is fast. Otherwise it uses a Markov chain for slow draws.
        The guarantee then charges an assumed total variation and is not certified. "hit_and_run"
        and "langevin" use that chain for every draw, with the same assumption; the total variation
        of "proximal", which is charged as well, is proved. With all of them a public number bounds
        the work of a draw: ``docs/samplers.md``.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip records beyond the bounds and count non-finite ones as zero.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no plan meets the budget.
    BudgetExceeded
        If `plan` gives less than `budget` asks for.

    Notes
    -----
    Per round one evaluation of the loss ("anchored": also one per anchor), and for "density_ratio"
    one log normaliser. A fresh draw costs O(d) for linear losses, and for squared and quadratic
    ones passes over O(d^2) numbers. For logistic, Huber and custom losses it passes many times over
    the distinct records so far. These are kept, 8 (d + 3) bytes each, or as the objects they are:
    memory grows with the rounds, and the time of a draw in round t is O(t d). The time also
    depends on the data. `plan.forecast.regret_bound` bounds the expected regret on streams fixed in
    advance. Proofs: ``docs/privacy/gibbs_draws.md``, ``docs/privacy/couplings.md``,
    ``docs/privacy/oco_regret.md``, samplers: ``docs/privacy/samplers.md`` (they correct Agarwal et
    al., P-COMW, Theorems 4.1 and 4.2).

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

    plan: GibbsPlan
    _accountant: ClassVar = continuous_multiplicative_weights
    _tuning = GibbsTuning

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int,
        budget: Budget | None,
        plan: GibbsPlan | None = None,
        coupling: literals.Coupling = "auto",
        block: int | None = None,
        relation: literals.Relation = "replace",
        unbounded: bool = False,
        max_switches: float | None = None,
        sampler: literals.Sampler = "auto",
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            continuous_multiplicative_weights.calibrate, domain=domain, loss=loss, horizon=horizon,
            coupling=coupling, block=block, relation=relation, unbounded=unbounded,
            max_switches=max_switches, sampler=sampler,
        )  # fmt: skip
        others = {"participation": participation, "on_violation": on_violation}
        self._build(calibrate, budget, plan, source, others)

    @staticmethod
    def _is_unbounded(plan: GibbsPlan) -> bool:
        return isinstance(draw := plan.mechanism.draw, GibbsDraw) and draw.half_width == math.inf

    @classmethod
    def _plan_arguments(cls, plan: GibbsPlan) -> Fields:
        return {**super()._plan_arguments(plan), "sampler": plan.tuning.sampler}

    def _build_engine(self, claim: _core.Claim) -> _core.ContinuousMultiplicativeWeights:
        tuning, mechanism = self._plan.tuning, self._plan.mechanism
        # These two limits bound the work of a draw, which could take minutes for losses with kinks
        # (docs/samplers.md).
        planes, proposals = continuous_multiplicative_weights.exact_work(mechanism)
        settings = {
            "anchors": tuning.anchors,
            "clip_error": continuous_multiplicative_weights.clip_error(mechanism),
            "chain": tuning.sampler if tuning.sampler in CHAINS else "automatic",
            "most_planes": planes,
            "most_proposals": proposals,
        }
        return _core.ContinuousMultiplicativeWeights(
            self._domain._engine, self._loss_settings(), self._mechanism, settings, claim
        )


class CoupledRegularizedLeader(CoupledLearner):
    """Follow the regularised leader of randomly tilted losses, with rare changes: corrected CTRL.

    The decision is the minimiser of all past losses plus a quadratic regulariser, a barrier and one
    random linear term. At the end of each block of rounds it is kept or drawn afresh. The coupling
    keeps the distribution of the current leader with few fresh draws. The whole sequence of
    decisions is (epsilon, delta)-differentially private for replacing one round's loss, even if the
    stream is chosen adaptively. Use it for smooth convex losses; for linear ones the leader on
    private sums has less regret.

    Parameters
    ----------
    domain : LpBall (p < 2 for linear losses only), Box, Simplex or Polytope
        The decision set.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss, QuadraticLoss or CustomLoss
        The family of losses and the public bounds of its data, enforced by clipping. The constants
        of a `CustomLoss` are declared by the user, and the learner trusts them.
    horizon : int
        Number of rounds T, up to 1e12. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee. None: no privacy, with a fresh leader every round or, with
        `max_switches`, lazy decisions.
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it.
    coupling : {"auto", "density_ratio", "scheduled", "maximal"}
        How a block's decision is kept or replaced; "maximal" (fewest switches) works only without
        privacy.
    block : int, optional
        Rounds per stay-or-switch decision; default: the number with the least regret bound.
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in the loss of one round, which is replaced or emptied.
    unbounded : bool, default False
        Decisions range over R^d, and only the regret is measured against the domain. With privacy
        this works only for losses that are Lipschitz on all of R^d.
    max_switches : float, optional
        Lazy mode (with ``budget=None``): bound on the expected number of switches.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip records beyond the bounds and count non-finite ones as zero.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no plan meets the budget.
    BudgetExceeded
        If `plan` gives less than `budget` asks for.

    Notes
    -----
    Per round O(d) for linear losses, O(d^2) for generalised linear ones, O(d^3) for others. A
    switch solves for the leader: O(d^3) for squared and quadratic losses, with O(d^2) memory. For
    logistic, Huber and custom losses it takes about four passes over the distinct records so far.
    These are kept, 8 (d + 3) bytes each, or as the objects they are: memory grows with the rounds,
    and a switch in round t takes O(t d^2) time. `plan.forecast.regret_bound` bounds the expected
    regret on streams fixed in advance. Proofs: ``docs/privacy/objective_perturbation.md``,
    ``docs/privacy/couplings.md``,
    ``docs/privacy/oco_regret.md`` (they correct Agarwal et al., CTRL, Theorems 4, 6, 9, 12 and 13).

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

    plan: TiltedPlan
    _accountant: ClassVar = coupled_regularized_leader
    _tuning = TiltedTuning
    _methods: ClassVar[tuple[str, ...]] = ("value", "gradient", "hessian")

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.Loss,
        *,
        horizon: int,
        budget: Budget | None,
        plan: TiltedPlan | None = None,
        coupling: literals.LeaderCoupling = "auto",
        block: int | None = None,
        relation: literals.Relation = "replace",
        unbounded: bool = False,
        max_switches: float | None = None,
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            coupled_regularized_leader.calibrate, domain=domain, loss=loss, horizon=horizon,
            coupling=coupling, block=block, relation=relation, unbounded=unbounded,
            max_switches=max_switches,
        )  # fmt: skip
        others = {"participation": participation, "on_violation": on_violation}
        self._build(calibrate, budget, plan, source, others)

    @staticmethod
    def _is_unbounded(plan: TiltedPlan) -> bool:
        return plan.tuning.unbounded

    def _build_engine(self, claim: _core.Claim) -> _core.CoupledRegularizedLeader:
        tilt = self._plan.tuning
        tuning = {"barrier_weight": tilt.barrier_weight, "strong_convexity": tilt.strong_convexity}
        return _core.CoupledRegularizedLeader(
            self._domain._engine, self._loss_settings(), self._mechanism, tuning, claim
        )
