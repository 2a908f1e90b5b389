"""A linear bandit that learns from clipped residuals in phases, and its plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from typing import ClassVar

from dpoco import _core
from dpoco import _literals as literals
from dpoco._validation import (
    Fields,
    Named,
    choice,
    positive_float,
    positive_int,
    real_in,
    whole_if_float,
    whole_number,
)
from dpoco.accounting import Budget, Guarantee, continual_sum, release
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.linucb import NEIGHBOURS
from dpoco.accounting.plan import Plan
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.statement import stated_delta
from dpoco.bandits._bandit import UNITS, BanditLearner
from dpoco.learning.choice import ArmProblem, Candidate
from dpoco.learning.participation import Participation
from dpoco.mechanisms import sum_entries
from dpoco.privacy.mechanisms.factorisations import Normalised
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum, batch_starts
from dpoco.privacy.mechanisms.residuals import ResidualStatistics
from dpoco.privacy.neighbours import CHANGES, Neighbours
from dpoco.privacy.records import Description, limits, read
from dpoco.random import Source

# Growth of phases.
GROWTH = "three_tenths"
# Second moments weighted by sqrt(1/2) add nothing to the sensitivity, and a histogram weighted by
# .3 adds 2 % (docs/privacy/residual_phases.md, "Sensitivity").
_BINS, _WEIGHT, _MARK = 10, math.sqrt(0.5), 0.3
# Weight of contexts in the sum, if their distribution may be any.
_MEAN = 0.2
LAWS = ("normal", "any")
# One buffer whose coefficients fall by .4: C_kj = .4^(k - j), columns normalised. A rate of .6
# itself would not leave the room that the proof of the worst pattern needs.
_DECAY, _SHARE = 0.5999999999, 0.4
# Rounds of the first phase, per coefficient, in standard deviations of the noise. The factor 0.9
# was tuned with noise for the squared sensitivity 4 + z + 2 w^2 = 4.68 of a simpler bound; the
# proved one is 4.18.
_FIRST = 0.9 * math.sqrt(4.68 / 4.18)
# Rounds of a phase if arms change, in units of (n^2 h)^(1/3), where arms stand out of the noise
# after n rounds, and h is the half-life. The drift of arms grows with the length of a phase, and
# the variance of the noise falls with its square. At such lengths drift and variance have a fixed
# ratio.
_LENGTH = 0.7
# Half-life that `choose` advises, as a share of the horizon.
_ADVISED = 0.3
# Bounds whose squares and ratios neither overflow nor underflow.
_UNITS = "[1e-30, 1e30]"
# Largest dimension for `choose`, since the end of a phase costs O(K d^3).
_LARGEST_CHOSEN = 300


@dataclass(frozen=True)
class PhaseTuning(Description):
    """Tuning of `ResidualPhases` besides its sum.

    Attributes
    ----------
    horizon : int
        Rounds.
    reward_bound : float
        Rewards are clipped to this size before residuals are computed.
    parameter_bound : float
        Largest l2 norm of an arm's coefficients.
    reward_noise : float or None
        Bound on how far a reward is from its mean; None: unknown.
    one_hot : int
        Number of leading entries of which exactly one is not zero; 0: none are one-hot.
    intercept : float or None
        Last entry of every context, above 0; None: it is not constant, or unknown.
    half_life : float or None
        Rounds after which the information on an arm has halved; None: it never decreases.
    """

    kind = "residual_phases_tuning"
    unsaid = ("half_life",)
    horizon: int
    reward_bound: float
    parameter_bound: float
    reward_noise: float | None
    one_hot: int = limits(zero=True)
    intercept: float | None = None
    half_life: float | None = None


PhasesPlan = Plan[GaussianSum, PhaseTuning, None]


def calibrate(
    arms: int,
    dimension: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    context_bound: float,
    reward_bound: float,
    parameter_bound: float = 1.0,
    reward_noise: float | None = None,
    one_hot: int = 0,
    intercept: float | None = None,
    context_law: str = "normal",
    half_life: float | None = None,
    relation: str = "replace",
    numerics: str = release.DEFAULT_NUMERICS,
) -> PhasesPlan:
    """Return the plan with the least noise that meets `budget`; None adds no noise.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise meets the budget, for example with delta = 0.
    """
    rounds = continual_sum.known_horizon(horizon)
    near = Neighbours(choice("relation", relation, CHANGES))
    arms = positive_int("arms", arms, maximum=2**20)
    d = positive_int("dimension", dimension, maximum=4096)
    unit = real_in("context_bound", context_bound, _UNITS)
    if intercept is not None:
        intercept = real_in("intercept", intercept, _UNITS)
        # A context of length at most `context_bound` must have room for its other entries.
        if d == 1 or intercept >= unit:
            raise ValueError("intercept must be an entry of a context that has others")
    if whole_number("one_hot", one_hot, high=d - (intercept is not None)) == 1:
        raise ValueError("one_hot must be 0, or entries from 2 on")
    anyhow = choice("context_law", context_law, LAWS) == "any"
    if anyhow and (one_hot or intercept is not None):
        raise ValueError('with context_law="any" there must be neither one_hot nor intercept')
    tuning = PhaseTuning(
        rounds,
        real_in("reward_bound", reward_bound, _UNITS),
        real_in("parameter_bound", parameter_bound, _UNITS),
        None if reward_noise is None else real_in("reward_noise", reward_noise, _UNITS),
        int(one_hot),
        intercept,
        None if half_life is None else positive_float("half_life", half_life),
    )
    mean = _MEAN if anyhow else None
    summand = ResidualStatistics(d, unit, arms, _BINS, _WEIGHT, _MARK, mean)
    first = 2 * arms * d
    if budget is not None:
        budget.require_delta()
        # The mu is that of the whole budget; the lattice's charges depend on the phases, which are
        # not known yet.
        noise = summand.movement(near) / gaussian_mu(budget.epsilon, budget.delta)
        first = max(first, round(min(_FIRST * arms * d * noise, float(rounds))))
    # Coins draw the arms of the first phase. `_noise_note` warns if this limit binds.
    longest = max(1, rounds // 10)
    if tuning.half_life is None:
        first, growth = min(first, longest), GROWTH
        # No decision follows a phase that ends with the last round, so it is not released.
        ends = islice(batch_starts(first, growth), 1, None)
        pushes = sum(1 for _ in takewhile(lambda end: end < rounds, ends))
    # Growing phases would follow changes of the arms ever later.
    else:
        first, growth = min(phase_length(first, tuning.half_life), longest), None
        pushes = (rounds - 1) // first
    factor = Normalised((_DECAY,), (_SHARE,), max(pushes, 1))
    plain = GaussianSum(summand, factor, pushes=pushes, batch=first, growth=growth)
    if pushes == 0:  # nothing is released
        return Plan(plain, tuning, None)
    total = release.with_noise(plain, near, budget=budget, numerics=numerics)
    return Plan(total, tuning, None)


def phase_length(least: int, half_life: float) -> int:
    """Return the rounds of each phase of a learner that forgets.

    Parameters
    ----------
    least : int
        Rounds after which arms stand out of the noise.
    half_life : float
        Rounds after which the information on an arm has halved.
    """
    wanted: float = _LENGTH * (float(least) ** 2 * half_life) ** (1.0 / 3.0)
    return max(least, round(wanted))


def guarantee(
    plan: PhasesPlan,
    *,
    relation: str = "replace",
    budget: Budget | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return the guarantee of a plan, computed from its mechanism.

    Parameters
    ----------
    plan : Plan
        Calibrated, or made by a user.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    budget : Budget, optional
        Budget with the delta at which epsilon is stated; default 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.
    """
    total, tuning, summand = plan.mechanism, plan.tuning, _summand(plan)
    one = min(tuning.parameter_bound * summand.features, tuning.reward_bound)
    # Mean rewards differ by at most 2 |<x, theta>| or twice the bound on rewards.
    worst = 0.0 if summand.arms == 1 else 2.0 * one * tuning.horizon
    stated = stated_regret(worst, worst)
    details: dict[str, float | str | None] = stated["details"] | {
        "regret bound holds for": "any decisions: nothing better is proved of these",
        "neighbours": NEIGHBOURS[relation],
        "rounds of the first phase": float(total.batch),
    }
    return Guarantee.about(
        total,
        Neighbours(relation, "others"),
        released=(
            f"to every user the action of a bandit in phases ({summand.arms} arms, dimension "
            f"{summand.dimension}), to everybody the estimates of all arms"
        ),
        horizon=tuning.horizon,
        delta=stated_delta(budget, tuning.horizon),
        reference="adaptive Gaussian composition and post-processing; "
        "docs/privacy/residual_phases.md",
        seeded=seeded,
        conditions=(
            f"The program clips contexts to l2 norm {summand.features:g} and residuals to the "
            "clip of their phase, and treats a missing reward as no data.",
        ),
        regret_bound=stated["regret_bound"],
        details=details,
    )


def _summand(plan: PhasesPlan) -> ResidualStatistics:
    summand = plan.mechanism.summand
    if not isinstance(summand, ResidualStatistics) or not isinstance(plan.tuning, PhaseTuning):
        raise TypeError("plan must be a plan for a bandit that learns from residuals")
    return summand


class ResidualPhases(BanditLearner):
    """A linear bandit that learns from clipped residuals in phases: stochastic contexts.

    The rewards of arm a are modelled as <x, theta_a>. The policy is fixed in each of some twenty
    phases. At the end of a phase the learner releases one noisy sum. It contains each arm's clipped
    residuals times contexts, x x' over all arms, and a histogram of residuals. The next policy and
    the next clipping bound of residuals follow from it, so the learner finds the scale of the
    rewards' noise by itself. The views of all other users together, and the estimates of all arms,
    are (epsilon, delta)-private for replacing one user's record.

    It is for contexts drawn independently: by default from a continuous distribution, with
    ``context_law="any"`` from any. For adversaries take `LinUCB`.

    Parameters
    ----------
    arms : int
        Number of arms K.
    dimension : int
        Length d of a context.
    horizon : int
        Number of rounds T. This and all following arguments are keyword-only.
    budget : Budget or None
        The target guarantee; None: no privacy (a baseline).
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it. It must agree with
        `budget` and with every other argument that you pass.
    context_bound : float
        Required. Contexts are clipped to this l2 norm, silently. Public: never take it from the
        data.
    reward_bound : float
        Required. Rewards are clipped to [-reward_bound, reward_bound]. Public as well.
    parameter_bound : float, default 1.0
        Largest l2 norm of an arm's theta; estimates are projected onto this ball.
    reward_noise : float, optional
        Bound on |reward - mean|, if it is public knowledge; residuals are never clipped below it.
        For rewards of 0 and 1, pass the value of `reward_bound`; otherwise arms may not be learned.
        Default: unknown. Without a constant entry, code such rewards as -1/2 and 1/2, so that their
        mean is learned.
    one_hot : int, default 0
        Number of leading one-hot entries: in every context exactly one of them is not zero, always
        with the same positive value. Without this argument, the learner learns one-hot contexts
        badly.
    intercept : float, optional
        Value of the last entry of every context, if it is a public constant above 0. Without this
        argument, a constant entry makes the learner worse than `LinUCB`.
    context_law : {"normal", "any"}
        Distribution of contexts. "normal" (default): the learner fits a normal distribution to
        released moments. "any": it also releases second moments of every arm and the contexts'
        mean, for categories, constants and features of unknown shape, which then need no arguments.
    half_life : float, optional
        Rounds after which, without new data, the information on an arm has halved, for arms that
        change; see ``docs/drift.md``. Phases then have equal lengths. Default: it never decreases.
    relation : {"replace", "zero_out"}
        Whether neighbouring streams replace or empty one user's record.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding is not part of the proof, or exact integers;
        see ``docs/privacy/lattice.md``.
    participation : Participation, optional
        How often one person may come. Budget and guarantee then cover all rounds of a person
        together; a person's rounds in one phase add up.
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
        If the first phase would have to be longer than a tenth of the horizon, or the half-life.

    Notes
    -----
    In the first phase arms are drawn by public coins. The only proved regret bound is the trivial
    one; ``docs/residual_phases.md`` shows measured regret and where it fails. O(K d^2) time per
    round; the end of a phase takes O(K d^3) and 2000 K d^2. O((K + 2000) d + K d^2) memory. A state
    is saved between rounds: after a load, ask again for a decision that waits for its reward. Proof
    of privacy: ``docs/privacy/residual_phases.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.bandits.ResidualPhases(
    ...     2, 3, horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6),
    ...     context_bound=1.0, reward_bound=1.0)
    >>> arm = learner.decide([0.6, 0.0, 0.8])
    >>> learner.observe(1.0)
    >>> learner.coefficients.shape
    (2, 3)
    """

    plan: PhasesPlan
    _mechanism: GaussianSum
    _noise: ClassVar[str] = "fresh"
    _norm = 2.0
    _tuning = PhaseTuning

    def __init__(
        self,
        arms: int,
        dimension: int,
        *,
        horizon: int,
        budget: Budget | None,
        plan: PhasesPlan | None = None,
        context_bound: float,
        reward_bound: float,
        parameter_bound: float = 1.0,
        reward_noise: float | None = None,
        one_hot: int = 0,
        intercept: float | None = None,
        context_law: literals.ContextLaw = "normal",
        half_life: float | None = None,
        relation: literals.Relation = "replace",
        numerics: literals.Numerics = release.DEFAULT_NUMERICS,
        participation: Participation | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        planner = partial(
            calibrate, arms=arms, dimension=dimension, horizon=horizon, context_bound=context_bound,
            reward_bound=reward_bound, parameter_bound=parameter_bound, reward_noise=reward_noise,
            one_hot=one_hot, intercept=intercept, context_law=context_law, half_life=half_life,
            relation=relation, numerics=numerics,
        )  # fmt: skip
        others = {"participation": participation, "on_violation": on_violation}
        self._build(planner, budget, plan, source, others)

    @staticmethod
    def _sizes(arguments: Named, plan: PhasesPlan) -> tuple[int, int]:
        summand = _summand(plan)
        return summand.arms, summand.dimension

    def _reward_range(self) -> tuple[float, float]:
        bound: float = self._plan.tuning.reward_bound
        return -bound, bound

    def _context_bound(self) -> float:
        return _summand(self._plan).features

    @staticmethod
    def _rename_fields(plan: PhasesPlan) -> Fields:
        summand = _summand(plan)
        return {
            "arms": summand.arms,
            "dimension": summand.dimension,
            "context_bound": summand.features,
            "context_law": "normal" if summand.mean is None else "any",
        }

    def _certify(self, plan: PhasesPlan, seeded: bool = False) -> Guarantee:
        relation, budget = self._arguments["relation"], self._arguments["budget"]
        return guarantee(plan, relation=relation, budget=budget, seeded=seeded)

    def _noise_note(self) -> str | None:
        total, rounds = self._mechanism, self._horizon
        if total.scale == 0.0:
            return None
        needed, limit = float(total.batch), max(1, rounds // 10)
        # Phases are then longer than needed.
        if (half_life := self._plan.tuning.half_life) is not None:
            noise = total.scale / total.factorisation.column(total.pushes)
            needed = _FIRST * self._arms * self._dimension * noise
            limit = min(limit, half_life)
        if needed < limit:
            return None
        return (
            "noise dominates: a first phase in which arms stand out of the noise would be longer "
            "than a tenth of the horizon" + ("" if half_life is None else ", or than the half-life")
        )

    def _entries(self) -> dict[str, float]:
        beliefs = 4.0 * self._arms * self._dimension**2 + 2000.0 * self._dimension
        return {"beliefs on the arms, and public draws": beliefs} | sum_entries(self._mechanism)

    def _build_engine(self, claim: _core.Claim) -> _core.ResidualPhases:
        return _core.ResidualPhases(self._mechanism, self._plan.tuning, claim)

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        return read(header["plan"]["mechanism"]["summand"], (ResidualStatistics,)).size

    @classmethod
    def _candidates(cls, problem: ArmProblem) -> Iterator[Candidate]:
        if not problem.continuous or problem.arguments[1] > _LARGEST_CHOSEN:
            return
        yield replace(problem.candidate(cls), units=UNITS)
        if problem.drifts and problem.horizon is not None:
            forgets = {"half_life": _ADVISED * problem.horizon}
            own = problem.candidate(cls, forgets, variant="/forgetting")
            yield replace(own, units=UNITS)

    @property
    def clip(self) -> float:
        """Clipping bound of residuals in the current phase; it follows from releases."""
        self._check_active()
        self._check_alone()
        return float(self._engine.clip())
