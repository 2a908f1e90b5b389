"""LinUCB on private statistics, and greedy choice among arms that learn by Frank-Wolfe."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpoco import _core, domains
from dpoco import _literals as literals
from dpoco._validation import Fields, Named, positive_int, whole_if_float
from dpoco.accounting import Budget, high_dimensional_bandit, linucb
from dpoco.accounting.continual_sum import method_name
from dpoco.accounting.forgetting import advise_half_lives
from dpoco.accounting.high_dimensional_bandit import ArmsForecast, ArmsTuning, BanditPlan
from dpoco.accounting.linucb import EXPLORATION, LinUCBForecast, LinUCBPlan, LinUCBTuning
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.bandits._bandit import UNITS, BanditLearner
from dpoco.learning.choice import ArmProblem, Candidate, Problem
from dpoco.learning.participation import Participation
from dpoco.learning.state import stated_dimension
from dpoco.mechanisms import sum_entries
from dpoco.privacy.mechanisms.base import Parts
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.random import Source

# Largest dimension of LinUCB, and number of arms of HighDimensionalBandit, that `choose` builds.
_LARGEST_CHOSEN = 4096


class LinUCB(BanditLearner):
    """LinUCB on privately summed statistics: one linear model per arm, joint privacy.

    The rewards of arm a are modelled as <x, theta_a>. Every `batch` rounds the noisy sums of x x'
    and r x of all arms are released. In between, a user with context x gets the arm with the
    largest upper confidence bound. The views of all other users together, and the estimates of all
    arms, are (epsilon, delta)-private for replacing one user's record.

    Parameters
    ----------
    arms : int
        Number of arms K.
    dimension : int
        Length d of a context.
    horizon : int
        Number of rounds T. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; None: no privacy (plain LinUCB, a baseline).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it. It must
        agree with `budget` and with every other argument that you pass.
    context_bound : float
        Required. Contexts are clipped to this l2 norm, silently. Public: never take it from the
        data.
    reward_bound : float
        Required. Rewards are clipped to [-reward_bound, reward_bound]. Also public.
    parameter_bound : float, default 1.0
        Largest l2 norm of an arm's theta. It widens the confidence intervals; privacy does not need
        it.
    reward_noise : float, optional
        Subgaussian constant of the rewards. The default, `reward_bound`, is always correct.
    failure : float, optional
        Probability that a confidence interval is wrong; default 1/T.
    exploration : float, default 0.1
        Factor on the width of the intervals. The proven widths are wide: 0.1 earned more in all
        worlds tried. From 1.0 on, `plan.forecast.regret_bound` is proved. Below 1.0 it is the
        trivial bound: the horizon times the largest loss of a round.
    half_life : float, optional
        Rounds after which a record counts half, for arms that change; see ``docs/drift.md``. No
        regret bound is proved then. Default: records are never forgotten.
    batch : int, optional
        Rounds between releases. More rounds mean less noise, less time and older estimates.
        Default: as many as cost next to no regret.
    regularization : float, optional
        rho, added to the diagonal on top of the noise margin; default: the noise margin again.
    reward_weight : float, optional
        Weight a of r x relative to x x' in the sums; default: the weight with the narrowest
        intervals.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        The continual sum.
    relation : {"replace", "zero_out"}
        Whether neighbouring streams replace or empty one user's record.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding is not part of the proof, or exact integers;
        see ``docs/privacy/lattice.md``.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        Treatment of contexts and rewards beyond their bounds: clip them silently, or raise
        ``ValueError`` (only for trusted data, since the exception depends on them).
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
        If the noise in an arm's sums exceeds what its share of the rounds can collect.

    Notes
    -----
    Source: Shariff and Sheffet, "Differentially private contextual linear bandits" (2018), with
    disjoint arms, noise from a factorised sum and exact accounting. O(K d^2) time per round; a
    release takes K d^2/2 noise variates and O(K d^3). O(K d^2) memory with "blt", O(K d^2 log T)
    with trees. A state is saved between rounds: after a load, ask again for a decision that waits
    for its reward. Proof of privacy and of `plan.forecast.regret_bound`:
    ``docs/privacy/linucb.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.bandits.LinUCB(
    ...     2, 3, horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6),
    ...     context_bound=1.0, reward_bound=1.0)
    >>> learner.decide([0.6, 0.0, 0.8])
    0
    >>> learner.observe(1.0)
    >>> learner.coefficients.shape
    (2, 3)
    """

    plan: LinUCBPlan
    _mechanism: GaussianSum
    _accountant: ClassVar = linucb
    _tuning, _forecast = LinUCBTuning, LinUCBForecast
    _noise: ClassVar[str] = "fresh"
    # LinUCB forces no arm, so the arms available to a user are part of this user's record.
    _norm, _takes_masks = 2.0, True

    def __init__(
        self,
        arms: int,
        dimension: int,
        *,
        horizon: int,
        budget: Budget | None,
        plan: LinUCBPlan | None = None,
        context_bound: float,
        reward_bound: float,
        parameter_bound: float = 1.0,
        reward_noise: float | None = None,
        failure: float | None = None,
        exploration: float = EXPLORATION,
        half_life: float | None = None,
        batch: int | None = None,
        regularization: float | None = None,
        reward_weight: float | None = None,
        sum_method: literals.SumMethod | None = None,
        relation: literals.Relation = "replace",
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            linucb.calibrate, arms=arms, dimension=dimension, horizon=horizon,
            context_bound=context_bound, reward_bound=reward_bound, parameter_bound=parameter_bound,
            reward_noise=reward_noise, failure=failure, exploration=exploration,
            half_life=half_life, batch=batch, regularization=regularization,
            reward_weight=reward_weight, sum_method=sum_method, relation=relation,
            numerics=numerics, participation=participation,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source, {"on_violation": on_violation})

    @staticmethod
    def _rename_fields(plan: LinUCBPlan) -> Fields:
        bounds = linucb.read_moments(plan.mechanism)
        return {
            "arms": bounds.arms,
            "dimension": bounds.dimension,
            "context_bound": bounds.features,
            "reward_bound": bounds.label,
            "reward_weight": bounds.weight,
        }

    @classmethod
    def _problem(cls, arguments: Named) -> tuple[Any, ...]:
        return tuple(positive_int(name, arguments[name]) for name in ("arms", "dimension"))

    def _entries(self) -> dict[str, float]:
        factors = {"factors of the arms' matrices": float(self._arms) * self._dimension**2}
        return factors | sum_entries(self._mechanism)

    def _build_engine(self, claim: _core.Claim) -> _core.LinUcb:
        own = self._plan.tuning
        confidence = linucb.find_confidence(self._plan.mechanism, own)
        tuning: _core.Settings = {
            "rounds": self._horizon,
            # The margin keeps an arm's noisy matrix positive definite (docs/privacy/linucb.md).
            "shift": own.regularization + confidence.margin,
            "exploration": own.exploration,
            "spread": confidence.spread,
            "log_term": confidence.log_term,
            "growth": confidence.growth,
            "bias": confidence.bias,
        }
        if (kept := linucb.kept_statistics(self._plan.mechanism, own)) is not None:
            tuning["kept"] = kept
        return _core.LinUcb(self._mechanism, tuning, claim)

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        arms, d = (int(header["arguments"][name]) for name in ("arms", "dimension"))
        # The payload has the packed matrix and the vector of every arm.
        return arms * (d * (d + 3) // 2)

    def _reward_range(self) -> tuple[float, float]:
        bound = linucb.read_moments(self._mechanism).label
        return -bound, bound

    def _context_bound(self) -> float:
        return linucb.read_moments(self._mechanism).features

    @staticmethod
    def _sizes(arguments: Named, plan: LinUCBPlan) -> tuple[int, int]:
        bounds = linucb.read_moments(plan.mechanism)
        return bounds.arms, bounds.dimension

    @classmethod
    def _candidates(cls, problem: ArmProblem) -> Iterator[Candidate]:
        # `choose` builds each candidate, which has K matrices of d rows.
        if problem.arguments[1] > _LARGEST_CHOSEN:
            return
        yield replace(problem.candidate(cls), units=UNITS)
        for half_life in advise_half_lives(problem.horizon) if problem.drifts else ():
            own = problem.candidate(cls, {"half_life": half_life}, variant="/forgetting")
            yield replace(own, units=UNITS)


class HighDimensionalBandit(BanditLearner):
    """A sparse or bounded linear model per arm, learned by private Frank-Wolfe steps: DP-HDB.

    It is for contexts with many bounded entries and coefficients of bounded l1 norm. Each arm in
    turn is pulled `forced_rounds` times. After that, a user with context x gets the arm with the
    largest <x, theta_a>. Each arm has its own private Frank-Wolfe learner for its theta_a. That
    learner gets the records of its arm and, for every other round, a zero record. The views of all
    other users together, and the estimates of all arms, are (epsilon, delta)-private for replacing
    one user's record.

    Parameters
    ----------
    arms : int
        Number of arms K, at most 4096.
    domain : LpBall with p = 1, Simplex, VertexSet, or Box
        Set of the coefficients of an arm; its dimension is that of contexts. A box works only with
        polyhedral arms.
    horizon : int
        Number of rounds T. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; None: no privacy (a baseline).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it. It must
        agree with `budget` and with every other argument that you pass.
    link : {"identity", "logistic"}
        The mean reward of an arm: <x, theta>, learned with half the squared loss, or 1/(1 +
        exp(-<x, theta>)), learned with the logistic loss.
    context_bound : float
        Required. Contexts are clipped to this maximum norm, silently. Public: never take it from
        the data.
    reward_bound : float, optional
        Required with "identity": rewards are clipped to [-reward_bound, reward_bound]. With
        "logistic" they are clipped to [0, 1].
    arm_learner : {"auto", "polyhedral", "tree"}
        "polyhedral" selects vertices privately, and "tree" adds noise to gradient sums. "auto"
        takes the one with the smaller predicted error. It is "polyhedral" if the budget has delta =
        0, without a budget, or on a box.
    selector : {"gumbel", "laplace"}, optional
        Noise with which polyhedral arms choose a vertex.
    batch : int or "auto", optional
        Rounds of an arm's clock per update of its estimate, at most as many as the clock can count:
        `forced_rounds` and all T - K `forced_rounds` with a choice. None, "auto": chosen for T.
    forced_rounds : int, optional
        Rounds in which each arm is pulled before the learner chooses; 0 is allowed. Default: the
        first multiple of `batch` that is at least 50, at most T/(2 K).
    gap : float, default inf
        Known lead of the best arm's mean reward. Arms that trail by half of it in the estimates
        after the forced rounds are dropped from then on. inf: no arm is dropped.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        The continual sum of tree arms.
    relation : {"replace", "zero_out"}
        Whether neighbouring streams replace or empty one user's record.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all these rounds together.
    on_violation : {"clip", "raise"}
        Treatment of contexts and rewards beyond their bounds: clip them silently, or raise
        ``ValueError`` (only for trusted data, since the exception depends on them).
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments, including ``horizon=None``.
    CalibrationError
        If no noise meets the budget, for example with delta = 0 and tree arms.
    BudgetExceeded
        If `plan` spends more than `budget`.

    Warns
    -----
    NoiseDominatesWarning
        If the noise is predicted to prevent learning, or if all rounds are forced.

    Notes
    -----
    Source: Han, Liang, Liang, Wang, Yao, Zhang, "On Private Online Convex Optimization", Algorithm
    3, with a clock for every arm and zero records for all arms that are not chosen. No bound on
    regret is claimed; ``docs/bandits.md`` shows measured regret. O(K d) time per round, plus O(K d)
    per update. Memory about 9 K d doubles. Tree arms take 12 K d with "blt" sums, some log2(N) K d
    more with "tree", and N K d for all draws of the noise with "toeplitz", where N is
    the number of updates of an arm. A state is saved between rounds: after a load, ask again for a
    decision that waits for its reward. Proof of privacy:
    ``docs/privacy/high_dimensional_bandit.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.bandits.HighDimensionalBandit(
    ...     2, dpoco.domains.LpBall(dimension=3, p=1.0, radius=1.0), horizon=100_000,
    ...     budget=dpoco.Budget(epsilon=4.0, delta=1e-6), context_bound=1.0, reward_bound=1.0)
    >>> learner.decide([0.6, -1.0, 0.8])
    0
    >>> learner.observe(1.0)
    >>> learner.coefficients.shape
    (2, 3)
    """

    plan: BanditPlan
    _mechanism: Parts
    # `_noise` stays "hidden", since no guarantee is proved for two continuations
    # (docs/privacy/journal.md, "Forks").
    _accountant: ClassVar = high_dimensional_bandit
    _tuning, _forecast = ArmsTuning, ArmsForecast
    # The dual of the l_1 norm of coefficients.
    _norm = np.inf

    def __init__(
        self,
        arms: int,
        domain: domains.Domain,
        *,
        horizon: int,
        budget: Budget | None,
        plan: BanditPlan | None = None,
        link: literals.Link = "identity",
        context_bound: float,
        reward_bound: float | None = None,
        arm_learner: literals.ArmLearner = "auto",
        selector: literals.Selector | None = None,
        batch: int | literals.Auto | None = None,
        forced_rounds: int | None = None,
        gap: float = math.inf,
        sum_method: literals.SumMethod | None = None,
        relation: literals.Relation = "replace",
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        if reward_bound is None and plan is None and link != "logistic":
            raise TypeError("reward_bound must be given: rewards are clipped to it")
        horizon = whole_if_float(horizon)
        calibrate = partial(
            high_dimensional_bandit.calibrate, arms=arms, domain=domain, horizon=horizon, link=link,
            context_bound=context_bound, reward_bound=reward_bound, arm_learner=arm_learner,
            selector=selector, batch=batch, forced_rounds=forced_rounds, gap=gap,
            sum_method=sum_method, relation=relation,
        )  # fmt: skip
        others = {"participation": participation, "on_violation": on_violation}
        self._build(calibrate, budget, plan, source, others)

    @staticmethod
    def _rename_fields(plan: BanditPlan) -> Fields:
        whole = plan.mechanism
        part: Any = whole.parts[0]
        tree = isinstance(part, GaussianSum)
        return {
            "arms": len(whole.parts),
            "context_bound": high_dimensional_bandit.record_bound(part),
            "arm_learner": "tree" if tree else "polyhedral",
            "selector": None if tree else part.law,
            "batch": high_dimensional_bandit.arm_batch(part),
            "forced_rounds": whole.forced,
            "sum_method": method_name(part.factorisation) if tree else None,
        }

    @classmethod
    def _problem(cls, arguments: Named) -> tuple[Any, ...]:
        domain = arguments["domain"]
        if not isinstance(domain, domains.Domain):
            raise TypeError(f"domain must be a dpoco domain; got {type(domain).__name__}")
        return positive_int("arms", arguments["arms"]), domain

    def _noise_note(self) -> str | None:
        # Such a plan is useless, however small the noise.
        if self._arms * (self._mechanism.forced or 0) >= self._horizon:
            return "all rounds are forced: there is no choice before the horizon"
        return super()._noise_note()

    def _entries(self) -> dict[str, float]:
        return {"decisions and gradients of the arms": 4.0 * self._arms * self._dimension}

    def _build_engine(self, claim: _core.Claim) -> _core.HighDimensionalBandit:
        # The key is for this learner only; the arms' generators are its streams.
        message = b"dpoco arms of a bandit" + claim["key"] + claim["stream"].to_bytes(8, "little")
        key, arms = hashlib.sha256(message).digest(), range(self._arms)
        claims: list[_core.Claim] = [{**claim, "key": key, "stream": arm} for arm in arms]
        loss = high_dimensional_bandit.loss_in(self._plan)
        return _core.HighDimensionalBandit(
            self.domain._engine, loss._glm_engine, self._mechanism, self._plan.tuning, claims,
            np.array(self.domain.center),
        )  # fmt: skip

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        arguments = header["arguments"]
        return int(arguments["arms"]) * stated_dimension(arguments["domain"])

    def _reward_range(self) -> tuple[float, float]:
        return high_dimensional_bandit.reward_range(self._plan.tuning)

    @staticmethod
    def _sizes(arguments: Named, plan: Any) -> tuple[int, int]:
        return len(plan.mechanism.parts), arguments["domain"].dimension

    def _context_bound(self) -> float:
        return high_dimensional_bandit.record_bound(self._mechanism.parts[0])

    @property
    def domain(self) -> domains.Domain:
        """The set of coefficients of an arm."""
        domain: domains.Domain = self._arguments["domain"]
        return domain

    @classmethod
    def _candidates(cls, problem: Problem) -> Iterator[Candidate]:
        arms, dimension = problem.arguments
        if arms <= _LARGEST_CHOSEN:
            sparse = arms, domains.LpBall(dimension, 1.0, 1.0)
            yield replace(problem.candidate(cls), arguments=sparse, units=UNITS)
