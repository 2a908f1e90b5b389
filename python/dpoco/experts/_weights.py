"""Exponential weights, on privately released sums of losses and over sequences of experts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from dpoco import _core
from dpoco import _literals as literals
from dpoco._validation import LARGEST_HORIZON, Fields, FloatArray, whole_if_float
from dpoco.accounting import Budget, batch_share, oblivious_tracker, prefix_hedge
from dpoco.accounting.batch_share import SharePlan, ShareTuning
from dpoco.accounting.oblivious_tracker import TrackerPlan, TrackerTuning
from dpoco.accounting.plan import Forecast
from dpoco.accounting.prefix_hedge import HedgePlan, HedgeTuning
from dpoco.accounting.regret_bounds import uniform_is_as_good
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.learning.calibrated import noise_note
from dpoco.learning.choice import Candidate, ExpertProblem
from dpoco.learning.participation import Participation
from dpoco.mechanisms import sum_entries
from dpoco.privacy.mechanisms.batch_release import BatchRelease
from dpoco.privacy.mechanisms.bounds import CentredLosses
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws
from dpoco.random import Source

__all__ = ["BatchShare", "ObliviousTracker", "PrefixHedge"]

# Largest state of the prior "at_most", in doubles: S + 1 rows of N.
_LARGEST_STATE = 2**33


class Drawn(ExpertLearner):
    """Base of the learners that warn if regret is no better than that of uniform draws."""

    _forecast = Forecast

    def _noise_note(self) -> str | None:
        bound = self._plan.forecast.regret_bound
        vain = uniform_is_as_good(self._experts, self._horizon, bound)
        return noise_note(f"regret bound {bound:.3g}") if vain and self._guarantee.private else None


class Weighted(Drawn):
    """Base of the learners that draw decisions from weights that may be published."""

    _noise: ClassVar[str] = "fresh"

    @property
    def weights(self) -> FloatArray:
        """Distribution of the current decision, shape (N,), read-only; entries sum to 1.

        They are computed only from released sums, so the guarantee covers them, and you may publish
        them. Playing the experts in these proportions costs the same expected loss. After the last
        round they are the weights of that round.
        """
        self._check_active()
        self._check_alone()
        weights: FloatArray = self._engine.weights()
        return weights


class PrefixHedge(Weighted):
    """Hedge on privately summed losses: static regret at (epsilon, delta)-privacy.

    The decision after t rounds is drawn from softmax(-eta S_t), where S_t are the noisy sums of the
    experts' losses so far. The whole sequence of decisions, and of `weights`, is (epsilon,
    delta)-private for replacing the losses of one round, even if they are chosen adaptively. It is
    for few experts: the noise grows like the square root of their number.

    Parameters
    ----------
    experts : int
        Number of experts N, at most 2^32.
    horizon : int
        Number of rounds T, at most 1e12. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` and with every other argument that you pass.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        The continual sum. "auto" (default) has the least regret bound: "blt_normalised" unless
        another sum is more than 1 % better.
    learning_rate : float, optional
        eta, per unit of losses in [0, 1]; default: the one with the least regret bound.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding is not part of the proof, or exact integers;
        see ``docs/privacy/lattice.md``.
    loss_range : (float, float), default (0, 1)
        Public range of the losses, enforced by clipping.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        Treatment of losses out of range: clip them silently, or raise ``ValueError`` (only for
        trusted data, since the exception depends on them).
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments, including ``horizon=None``.
    CalibrationError
        If no noise meets the budget, for example with delta = 0.
    BudgetExceeded
        If `plan` spends more than `budget`.

    Warns
    -----
    NoiseDominatesWarning
        If the regret bound is no better than that of uniform draws.

    Notes
    -----
    Source: Agarwal and Singh, "The price of differential privacy for online learning" (2017), with
    noise from a factorised sum instead of a tree and a sensitivity without the common shift.
    Per round: one noise vector and O(N) time; O(N) memory with "blt", O(N log T) with trees.
    Proof of privacy and of `plan.forecast.regret_bound`: ``docs/privacy/prefix_hedge.md``.

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
    >>> round(learner.plan.forecast.regret_bound)
    363
    """

    plan: HedgePlan
    _tuning = HedgeTuning
    _mechanism: GaussianSum
    _accountant: ClassVar = prefix_hedge

    def __init__(
        self,
        experts: int,
        *,
        horizon: int,
        budget: Budget | None,
        plan: HedgePlan | None = None,
        sum_method: literals.SumMethod | None = None,
        learning_rate: float | None = None,
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        loss_range: tuple[float, float] = (0.0, 1.0),
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            prefix_hedge.calibrate, experts=experts, horizon=horizon, participation=participation,
            sum_method=sum_method, learning_rate=learning_rate, numerics=numerics,
        )  # fmt: skip
        others = {"loss_range": loss_range, "on_violation": on_violation}
        self._build(calibrate, budget, plan, source, others)

    def _entries(self) -> dict[str, float]:
        return super()._entries() | sum_entries(self._mechanism)

    @staticmethod
    def _rename_fields(plan: HedgePlan) -> Fields:
        total = plan.mechanism
        if not isinstance(total.summand, CentredLosses):
            raise TypeError("plan must be a plan for a PrefixHedge")
        # No decision depends on the losses of the last round, so they are not summed.
        return {"experts": total.summand.experts, "horizon": total.pushes + 1}

    @staticmethod
    def _plan_horizon(plan: HedgePlan) -> int:
        return plan.mechanism.pushes + 1

    def _build_engine(self, claim: _core.Claim) -> _core.PrefixHedge:
        low, high = self._loss_range
        tuning: _core.Settings = {
            "rounds": self._horizon, "low": low, "high": high,
            "learning_rate": self.plan.tuning.learning_rate,
        }  # fmt: skip
        return _core.PrefixHedge(self._mechanism, tuning, claim)

    @classmethod
    def _candidates(cls, problem: ExpertProblem) -> Iterator[Candidate]:
        # Gaussian sums need a delta, and the regret bound is against one expert in a known number
        # of rounds.
        if problem.switches == 0 and not problem.is_pure and problem.horizon is not None:
            yield problem.candidate(cls)


class BatchShare(Weighted):
    """Exponential weights with sharing on privately released sums of batches of losses.

    In every round the expert is drawn afresh from the current weights. When a batch of B rounds
    ends, the sum of its losses is released once with noise and the weights are multiplied by
    exp(-eta * noisy sum). Each expert also gives a share sigma of its weight to the others, so that
    the learner finds an expert who becomes good later. All decisions together are differentially
    private for replacing one round's losses, even if losses react to the decisions, over any number
    of rounds.

    Parameters
    ----------
    experts : int
        Number of experts N.
    horizon : int or None
        Number of rounds, at most 1e12. None: unknown; the guarantee does not need it. This and all
        following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; ``delta=0`` asks for pure privacy. None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` and with every other argument that you pass.
    switches : int, default 0
        The regret is measured against sequences of experts with at most this many switches.
    noise : {"auto", "knorm", "gaussian", "laplace"}
        "knorm": density exp(-max |z| / scale), pure. "gaussian": needs delta > 0 and is better from
        some 50 experts on. "auto": the one of these two with the smaller regret bound. "laplace":
        pure, with six times the variance of "knorm".
    adversary : {"oblivious", "adaptive"}
        Losses for which the regret bound is minimised and stated: losses fixed in advance, or all
        losses. Privacy never depends on it.
    learning_rate : float, optional
        eta, per unit of loss in [0, 1]. The default of this and the next two arguments has the
        least regret bound.
    batch : int, optional
        Rounds B between two updates; an incomplete last batch is never used.
    share_rate : float, optional
        sigma, in [0, 1 - 1/N]; 0 is right for ``switches=0`` only.
    nominal_horizon : int, optional
        Number of rounds to plan for on an endless stream, which may go on longer.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of sums and noise: exact integers, for "gaussian" and "laplace", or doubles,
        whose rounding is not part of the guarantee. "auto" (default): integers if possible.
    loss_range : (float, float), default (0.0, 1.0)
        Losses are mapped from this range to [0, 1]; values outside are clipped.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip losses out of range and count non-finite ones as the lowest.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If the noise cannot meet the budget.
    BudgetExceeded
        If `plan` gives less privacy than `budget` asks for.

    Notes
    -----
    Time O(N) a round, memory about 7 N doubles.
    Source: Asi, Raman and Saha, "Tracking the best expert privately", algorithm 3,
    corrected.
    Proof of privacy and of `plan.forecast.regret_bound`: ``docs/privacy/batch_share.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.experts.BatchShare(
    ...     4, horizon=10_000, budget=dpoco.Budget(epsilon=1.0, delta=0.0), switches=2)
    >>> learner.weights
    array([0.25, 0.25, 0.25, 0.25])
    >>> 0 <= learner.decide() < 4
    True
    >>> learner.observe([0.3, 1.0, 0.0, 0.9])
    >>> learner.round
    1
    """

    plan: SharePlan
    _tuning = ShareTuning
    _accountant: ClassVar = batch_share

    def __init__(
        self,
        experts: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        plan: SharePlan | None = None,
        switches: int = 0,
        noise: literals.ShareNoise = "auto",
        adversary: literals.Reacting = "oblivious",
        learning_rate: float | None = None,
        batch: int | None = None,
        share_rate: float | None = None,
        nominal_horizon: int | None = None,
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        loss_range: tuple[float, float] = (0.0, 1.0),
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            batch_share.calibrate, experts=experts, horizon=horizon, switches=switches, noise=noise,
            adversary=adversary, learning_rate=learning_rate, batch=batch, share_rate=share_rate,
            nominal_horizon=nominal_horizon, numerics=numerics,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {
            "loss_range": loss_range, "participation": participation, "on_violation": on_violation,
        })  # fmt: skip

    @staticmethod
    def _rename_fields(plan: SharePlan) -> Fields:
        drawn = plan.mechanism.part(BatchRelease)
        # A plan without noise has neither a distribution nor an arithmetic that an argument could
        # contradict.
        if drawn is None or drawn.scale == 0.0:
            return {}
        return {"noise": drawn.law, "numerics": "lattice" if drawn.grid > 0.0 else "float"}

    def _build_engine(self, claim: _core.Claim) -> _core.BatchShare:
        p = self.plan.tuning
        own = p.batch, p.learning_rate, p.share_rate, p.floor
        return _core.BatchShare(self._mechanism, self._sizes(), *own, claim)

    @classmethod
    def _candidates(cls, problem: ExpertProblem) -> Iterator[Candidate]:
        if problem.horizon is None:
            return
        # The tuning distinguishes only these two kinds of losses. Stationary losses count as fixed
        # in advance.
        attack = "adaptive" if problem.adversary == "adaptive" else "oblivious"
        for noise in ("knorm",) if problem.is_pure else ("knorm", "gaussian"):
            options = {"switches": problem.switches, "noise": noise, "adversary": attack}
            yield problem.candidate(cls, options, variant=f"/{noise}")


class ObliviousTracker(Drawn):
    """Follow the best sequence of experts with few switches, for losses fixed in advance.

    The learner draws one sequence of experts and plays it. After every `batch` rounds it keeps the
    sequence with probability (1 - p) exp(-eta * its loss in them). Otherwise it draws a new one
    from exponential weights over all sequences. It never lists them: it draws each expert of a
    sequence only when it plays it. The whole sequence of experts is (epsilon, delta)-differentially
    private for replacing the losses of one round, even if they are chosen adaptively. The bound on
    the regret needs losses fixed in advance.

    Parameters
    ----------
    experts : int
        Number of experts N, at most 2^32.
    horizon : int or None
        Number of rounds T, at most 1e12. None: unknown; this needs the prior "share" and a
        `share_rate`, which must be positive if there is a budget. This and all following arguments
        are keyword-only.
    budget : Budget or None
        The target guarantee, pure for delta = 0. None: no privacy (for baselines).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` and with every other argument that you pass.
    switches : int, default 0
        Switches S of the sequences of experts to compare with.
    prior : {"share", "at_most"}
        Distribution of a sequence before any loss. "share" (default): it leaves its expert with
        probability `share_rate` after every round. "at_most": uniform over all sequences with at
        most S switches; needs a horizon and costs S + 1 times as much.
    learning_rate : float, optional
        eta, per unit of losses in [0, 1]. The default of this and the next three arguments has the
        least regret bound (an endless stream that never switches has none: eta = 1).
    forced_switch : float, optional
        p, probability of a fresh draw whatever the losses are. A larger p costs switches and
        reduces the privacy cost.
    batch : int, optional
        Number B of rounds between draws. With B = T or more, the learner learns nothing.
    share_rate : float, optional
        sigma in [0, 1 - 1/N], 0 or at least 1e-100; for the prior "share" only.
    max_resamples : int, optional
        Cap on fresh draws; afterwards the learner follows the last one to the end. The regret bound
        then no longer holds. An endless stream sooner or later reaches every cap.
    loss_range : (float, float), default (0, 1)
        Public range of the losses, enforced by clipping.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        Treatment of losses out of range: clip them silently, or raise ``ValueError`` (only for
        trusted data, since the exception depends on them).
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no parameters meet the budget.
    BudgetExceeded
        If `plan` spends more than `budget`.

    Warns
    -----
    NoiseDominatesWarning
        If the regret bound is no better than T.

    Notes
    -----
    Source: Asi, Raman and Saha, "Tracking the best expert privately" (2025), Section 4. The paper
    uses one meta-expert per sequence; the distribution of the decisions is the same here. Per
    round: one exponential per expert and O(N) time (S + 1 times that with "at_most", and a
    logarithm); O(N) memory (times S + 1). A fresh draw costs N exponential variates. Exactness:
    ``docs/privacy/oblivious_tracker.md``; privacy and `plan.forecast.regret_bound`:
    ``docs/privacy/tracker_accounting.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.experts.ObliviousTracker(
    ...     10, horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6), switches=5)
    >>> 0 <= learner.decide() < 10
    True
    >>> learner.observe([0.0] + [1.0] * 9)
    >>> learner.round
    1
    """

    plan: TrackerPlan
    _mechanism: TrackerDraws
    _tuning = TrackerTuning
    # `_noise` stays "hidden": the coupling keeps parts of a draw for later rounds
    # (docs/privacy/oblivious_tracker.md).
    _accountant: ClassVar = oblivious_tracker

    def __init__(
        self,
        experts: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        plan: TrackerPlan | None = None,
        switches: int = 0,
        prior: literals.Prior = "share",
        learning_rate: float | None = None,
        forced_switch: float | None = None,
        batch: int | None = None,
        share_rate: float | None = None,
        max_resamples: int | None = None,
        loss_range: tuple[float, float] = (0.0, 1.0),
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            oblivious_tracker.calibrate, experts=experts, horizon=horizon, switches=switches,
            prior=prior, learning_rate=learning_rate, forced_switch=forced_switch, batch=batch,
            share_rate=share_rate, max_resamples=max_resamples,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {
            "loss_range": loss_range, "participation": participation, "on_violation": on_violation,
        })  # fmt: skip

    @staticmethod
    def _rename_fields(plan: TrackerPlan) -> Fields:
        return {"forced_switch": plan.mechanism.forced, "max_resamples": plan.mechanism.cap}

    @staticmethod
    def _plan_horizon(plan: TrackerPlan) -> int:
        return LARGEST_HORIZON if plan.mechanism.horizon is None else plan.mechanism.horizon

    def _build_engine(self, claim: _core.Claim) -> _core.ObliviousTracker:
        # Sequences of T rounds have at most T - 1 switches; rows for more would be empty.
        switches = min(self.plan.tuning.switches, self._horizon - 1)
        if self._mechanism.prior == "at_most" and (switches + 1) * self._experts > _LARGEST_STATE:
            raise ValueError("(switches + 1) * experts is too large for the prior 'at_most'")
        return _core.ObliviousTracker(self._mechanism, self._sizes(), switches, claim)

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        experts = super()._header_dimension(header)
        drawn, switches = header["plan"]["mechanism"], int(header["plan"]["tuning"]["switches"])
        if experts == 1 or drawn["prior"] != "at_most":
            return experts
        return experts * (min(switches, int(drawn["horizon"]) - 1) + 1)

    @property
    def resamples(self) -> int:
        """Number of fresh draws so far; the guarantee covers it like the decisions."""
        return int(self._engine.resamples)

    @classmethod
    def _candidates(cls, problem: ExpertProblem) -> Iterator[Candidate]:
        if problem.horizon is not None:
            yield problem.candidate(cls, {"switches": problem.switches})
