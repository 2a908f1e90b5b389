"""The learners that fit a problem, ranked by expected regret.

The expected regret is a formula in public numbers, fitted once to simulated streams
(``bench/predict.py`` writes ``predicted_regret.json``). This module reads no records, and no
guarantee depends on it.
"""

from __future__ import annotations

import json
import math
import reprlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any

import numpy as np

from dpoco import _literals as literals
from dpoco._validation import (
    Fields,
    Named,
    choice,
    positive_int,
    real_float,
    require_memory,
    whole_if_float,
    whole_number,
)
from dpoco.accounting import Budget
from dpoco.accounting.conditions import UNPROVED
from dpoco.accounting.epoch_selector import LARGEST_EXPERTS
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.domains import Domain, VertexSet
from dpoco.errors import CalibrationError, NoiseDominatesWarning
from dpoco.learners import LEARNERS
from dpoco.learning.participation import Participation
from dpoco.losses import (
    CustomLoss,
    GlmLoss,
    HuberLoss,
    LinearLoss,
    LogisticLoss,
    Loss,
    MarginLoss,
    SquaredLoss,
)

# Adversaries from the weakest to the strongest: a bound for one of them also holds for those before
# it.
ADVERSARIES = ("stationary", "shifting", "oblivious", "adaptive")
_NAMES = {
    LinearLoss: "linear",
    SquaredLoss: "squared",
    LogisticLoss: "logistic",
    HuberLoss: "huber",
    # No simulation had losses of users. Among the simulated ones, the Huber loss is most similar.
    GlmLoss: "huber",
    CustomLoss: "huber",
}
# Largest dimension for which learners of records sum matrices.
_MATRIX = 300
# Number of rounds for which regret is predicted if the horizon is unknown.
UNKNOWN = 10**6
# Frank-Wolfe updates: enough for steps 1/(k + 1), and few enough for the noise.
UPDATES = 1000
# Smallest margin, as a share of the largest label.
_LEAST = 1e-100
# Largest epsilon of predictions: beyond it, noise costs nothing measurable.
_LARGEST = 1e5


@dataclass(frozen=True)
class Candidate:
    """A learner that fits a problem, and the numbers from which its regret is predicted.

    Attributes
    ----------
    learner : class
        The learner.
    arguments : tuple
        Its first arguments.
    law : str
        Name of the formula for its regret.
    numbers : tuple of float
        Public numbers that the formula's coefficients multiply.
    largest : float
        Largest regret per round.
    log_noise : float or None
        -ln mu of the budget; None without privacy.
    options : mapping
        Its further arguments.
    units : mapping
        Bounds on data for which the regret is stated; callers pass their own to the learner.
    """

    learner: Callable[..., Any]
    arguments: tuple[Any, ...]
    law: str
    numbers: tuple[float, ...]
    largest: float
    log_noise: float | None
    options: Named = field(default_factory=dict)
    units: Named = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Room and class below ``dpoco``."""
        return f"{self.learner.__module__.split('.')[1]}.{self.learner.__name__}"

    def make(self, **more: Any) -> Any:
        """Return the learner."""
        return self.learner(*self.arguments, **{**self.options, **more})


@dataclass(frozen=True)
class Problem:
    """The problem given to `choose`, for which every learner class yields its candidates.

    Attributes
    ----------
    arguments : tuple
        First arguments of learners.
    horizon : int or None
        Rounds; None: unknown.
    budget : Budget or None
        Budget of all decisions; None: no privacy.
    law : str
        First part of the names of regret formulas.
    sizes : tuple of float
        Logarithms of the problem's public sizes.
    largest : float
        Largest regret per round.
    """

    arguments: tuple[Any, ...]
    horizon: int | None
    budget: Budget | None
    law: str
    sizes: tuple[float, ...]
    largest: float

    @property
    def is_pure(self) -> bool:
        """Whether the budget has no delta."""
        return _is_pure(self.budget)

    def candidate(
        self, learner: Callable[..., Any], options: Named | None = None, *,
        variant: str = "", more: tuple[float, ...] = (),
    ) -> Candidate:  # fmt: skip
        """Return a learner with these options; a variant has its own formula with `more` numbers.

        Parameters
        ----------
        learner : class
            The learner that is a candidate.
        options : mapping, optional
            Arguments of its constructor besides the problem, horizon, budget and participation.
        variant : str
            End of the name of its formula, if the options have a separate one.
        more : tuple of float
            Further public numbers of that formula.
        """
        log_rounds, log_noise = math.log(self.horizon or UNKNOWN), None
        if self.budget is not None:
            # The mu of a Gaussian mechanism with this epsilon and delta combines both in one
            # number.
            epsilon = min(self.budget.epsilon, _LARGEST)
            mu = gaussian_mu(epsilon, _delta(self.budget, self.horizon))
            log_noise = -math.log(mu)
        return Candidate(
            learner, self.arguments, f"{self.law}/{learner.__name__}{variant}",
            (1.0, log_rounds, *self.sizes, *more), self.largest, log_noise, options or {},
        )  # fmt: skip


@dataclass(frozen=True)
class RecordProblem(Problem):
    """Decisions in a convex set, for records.

    Attributes
    ----------
    domain, loss
        The arguments.
    drifts : bool
        Whether the best decision changes over time.
    """

    drifts: bool = False

    @property
    def domain(self) -> Domain:
        """The decision set."""
        domain: Domain = self.arguments[0]
        return domain

    @property
    def loss(self) -> Loss:
        """The loss family."""
        loss: Loss = self.arguments[1]
        return loss

    @property
    def plain(self) -> bool:
        """Whether losses are reported as they are."""
        return not isinstance(self.loss, MarginLoss) or self.loss.reported == self.loss

    @property
    def in_l2(self) -> bool:
        """Whether isotropic noise fits the domain, and the budget has a delta."""
        return not self.is_pure and not isinstance(self.domain, VertexSet)

    @property
    def sums_matrices(self) -> bool:
        """Whether a learner can sum matrices of this size."""
        return self.in_l2 and self.domain.dimension <= _MATRIX


@dataclass(frozen=True)
class ArmProblem(Problem):
    """Arms of a contextual bandit.

    Attributes
    ----------
    continuous : bool
        Whether contexts are drawn independently from a continuous distribution.
    drifts : bool
        Whether arms change.
    """

    continuous: bool = False
    drifts: bool = False


@dataclass(frozen=True)
class ExpertProblem(Problem):
    """Losses of experts, compared with a sequence of few switches.

    Attributes
    ----------
    switches : int
        Number of switches.
    adversary : str
        How the losses arise, one of `ADVERSARIES`.
    gap : float
        Distance of the best expert's mean loss from the others'; 0: unknown.
    """

    switches: int
    adversary: str
    gap: float


def shares(law: Named, numbers: tuple[float, ...], log_noise: float | None) -> tuple[float, float]:
    """Return the expected regret per round without noise, and the part that noise adds.

    Both are shares of the largest possible regret.

    Parameters
    ----------
    law : mapping
        "idle" and "noise": coefficients; "cap": largest share that noise costs.
    numbers : tuple of float
        Public numbers of the problem, one for each coefficient of "idle".
    log_noise : float or None
        -ln mu of the budget, the last number of "noise"; None without privacy.
    """
    idle = min(1.0, math.exp(float(np.dot(law["idle"], numbers))))
    if log_noise is None:
        return idle, 0.0
    noise = float(saturate(np.dot(law["noise"], (*numbers, log_noise)), law["cap"]))
    # The two formulas were fitted separately; their sum must not exceed the largest regret.
    return idle, min(noise, 1.0 - idle)


def saturate(exponent: Any, cap: float) -> Any:
    """Return cap u / (1 + u) for u = exp(exponent): the cost of noise is bounded."""
    # The exponential overflows beyond 709.
    return cap / (1.0 + np.exp(-np.clip(exponent, -700.0, 700.0)))


@cache
def _laws() -> Fields:
    """Return the fitted regret formulas, by name."""
    text = files("dpoco").joinpath("predicted_regret.json").read_text()
    laws: Fields = json.loads(text)
    return laws


@dataclass(frozen=True)
class Choice:
    """One learner for a problem, as ranked by `choose`.

    Attributes
    ----------
    learner : str
        Room and class below ``dpoco``.
    options : dict
        Arguments of its constructor besides the problem, horizon, budget and participation.
    predicted_regret : float or None
        Expected regret per round on independent records, in units of the loss; None if nothing was
        simulated. An estimate, not a guarantee: see `choose`.
    privacy_cost : float or None
        Part of the predicted regret that noise causes.
    regret_bound : float or None
        Proved bound on the regret per round; None if there is none.
    scope : str or None
        Losses for which the bound holds; None for bandits, whose page describes it.
    useful : bool
        Whether the bound is below the largest possible regret.
    plan : Plan
        Result of the calibration.
    guarantee : Guarantee
        The certified guarantee.
    notes : tuple of str
        Warnings of the constructor.
    """

    learner: str
    options: Fields
    predicted_regret: float | None
    privacy_cost: float | None
    regret_bound: float | None
    scope: str | None
    useful: bool
    plan: Any
    guarantee: Any
    notes: tuple[str, ...]
    _noise_dominates: bool = field(repr=False)
    _constructor: Callable[..., Any] = field(repr=False)

    @property
    def name(self) -> str:
        """Name of the learner's class."""
        return self.learner.rpartition(".")[2]

    def make(self, **more: Any) -> Any:
        """Return a new learner; `more` takes ``source``, ``on_violation`` and similar arguments.

        The learner is calibrated again, to the same plan, with a fresh key. A bandit needs
        ``context_bound`` and ``reward_bound``; the ranking assumes 1 for both.
        """
        return self._constructor(**more)

    def matches(self, learner: Any) -> bool:
        """Return whether a learner is of the chosen class and options, whatever its horizon.

        Parameters
        ----------
        learner : learner
            A learner built by any code, or loaded from a file.
        """
        given = learner.get_params()
        alike = all(given.get(name) == value for name, value in self.options.items())
        return alike and self.name == type(learner).__name__

    def __str__(self) -> str:
        """Say what was chosen and why, in one sentence."""
        options = [f"{name}={value!r}" for name, value in self.options.items()]
        text = ", ".join([f"dpoco.{self.learner}", *options])
        if self.predicted_regret is not None:
            text += f": expected regret {self.predicted_regret:.3g} per round"
            if self.privacy_cost:
                text += f", {self.privacy_cost:.3g} of it for privacy"
        if self.useful:
            text += f"; proved bound {self.regret_bound:.3g}"
            text += "" if self.scope is None else f" for {self.scope} losses"
        if self.unproved is not None:
            text += f"; {self.unproved}"
        return text

    @property
    def unproved(self) -> str | None:
        """Why no regret bound is proved; None if one is proved, or if the horizon is None."""
        why = self.guarantee.details.get(UNPROVED)
        return why if isinstance(why, str) else None


def choose(
    problem: Any,
    *,
    horizon: int | None,
    budget: Budget | None,
    participation: Participation | None = None,
    switches: int = 0,
    adversary: literals.Adversary = "stationary",
    gap: float = 0.0,
    drift: bool = False,
    continuous: bool = False,
    by: literals.Ranking = "expected",
) -> tuple[Choice, ...]:
    """Return all learners that fit a problem, sorted by expected regret.

    Parameters
    ----------
    problem : tuple or int
        First arguments of the learners: ``(domain, loss)`` for decisions in a convex set, the
        number of experts, or ``(arms, dimension)`` of a contextual bandit.
    horizon : int or None
        Number of rounds T. None: unknown; only learners that need no horizon, with their regret in
        a million rounds.
    budget : Budget or None
        Budget of all decisions together; None: no privacy.
    participation : Participation, optional
        How often one person may come; the budget then covers all these rounds.
    switches : int, default 0
        For experts: the learner is compared with the best sequence with this many switches.
    adversary : {"stationary", "shifting", "oblivious", "adaptive"}
        For experts: how the losses arise. "stationary": drawn independently from one distribution;
        "shifting": from a distribution that changes `switches` times; "oblivious": fixed in
        advance; "adaptive": in reaction to the decisions. Only learners with a bound for such
        losses are returned; for the last two, sorted by their bound.
    gap : float, default 0
        For experts with stationary or shifting losses: how much larger, in [0, 1], the mean losses
        of all other experts are than that of the best expert, if this is known. Learners of windows
        use it.
    drift : bool, default False
        Whether the best decision changes over time. Learners that forget then come first: for
        bandits, and for decisions in a convex set with squared, logistic and Huber losses. For
        experts it means ``adversary="shifting"`` and needs `switches`; trackers and window learners
        come first.
    continuous : bool, default False
        For bandits: whether contexts are drawn independently from a continuous distribution. Then
        the learner of residuals is ranked as well: tell it an entry that is constant
        (``make(intercept=...)``), or it loses.
    by : {"expected", "bound"}
        "expected": sort by expected regret. "bound": by the proved bound, which holds for the worst
        losses of the learner's `scope`.

    Returns
    -------
    tuple of Choice

    Raises
    ------
    ValueError, TypeError
        For a problem without a learner, and for bad arguments.
    CalibrationError
        If no learner meets the budget.

    Notes
    -----
    Trust the order more than the numbers. The predictions are fitted to independent records of
    simulated worlds. On other worlds the first learner was nearly always the best, and its regret
    was within a factor of six of the prediction, mostly above it. Predictions are less accurate if
    no decision explains the labels (``docs/guide/choose.md`` has figures). If streams drift or
    react, go by the bounds. The lazy learners of `dpoco.oco` rarely change their decision and pay
    for this with regret, so they are not ranked: take one where a change has a price. The function
    makes one calibration per candidate, which takes up to a second.

    Examples
    --------
    >>> import dpoco
    >>> ball = dpoco.domains.LpBall(dimension=10, p=2.0, radius=1.0)
    >>> best = dpoco.choose((ball, dpoco.losses.LinearLoss(1.0)), horizon=10_000,
    ...                     budget=dpoco.Budget(1.0, 1e-6))[0]
    >>> best.make().round
    0
    """
    horizon = whole_if_float(horizon)
    covered: Fields = {"horizon": horizon, "budget": budget}
    if participation is not None:
        covered["participation"] = participation
    if drift and not isinstance(problem, tuple) and adversary == "stationary":
        adversary, drift = "shifting", False
        if switches == 0:
            raise ValueError("drift=True needs switches: about how often the best expert changes")
    found, refusals = [], []
    told = switches, adversary, gap, drift, continuous
    # A learner that cannot meet the budget is left out. Its error is raised if no learner is left.
    for candidate in candidates(problem, horizon, budget, *told):
        try:
            found.append(_judge(candidate, covered))
        except CalibrationError as error:
            refusals.append(f"{candidate.path}: {error}")
    of_experts = not isinstance(problem, tuple)
    if of_experts:
        # A bound for stronger adversaries also holds for this one.
        level = ADVERSARIES.index(adversary)
        found = [each for each in found if ADVERSARIES.index(str(each.scope)) >= level]
    if not found:
        pure = " with a pure budget (delta = 0)" if _is_pure(budget) else ""
        endless = " without a horizon" if horizon is None else ""
        against = f" against {adversary} losses" if of_experts else ""
        why = f"no learner fits this problem{pure}{endless}{against}"
        raise CalibrationError("; ".join(refusals) or why)
    # No oblivious or adaptive adversaries were simulated, so bounds decide.
    by_bound = choice("by", by, ("expected", "bound")) == "bound" or adversary in ADVERSARIES[2:]

    def rank(each: Choice) -> list[float]:
        """Return the sort key of a choice; unknown numbers come last."""
        numbers = [each.regret_bound] if by_bound else [each.predicted_regret, each.regret_bound]
        # If noise hides all rounds that a fixed half-life remembers, the learner is ranked without
        # this preference.
        forgets = each.options.get("half_life") == "auto" or (
            "half_life" in each.options and not each._noise_dominates
        )
        return [not forgets, *(math.inf if number is None else number for number in numbers)]

    return tuple(sorted(found, key=rank))


def _judge(candidate: Candidate, covered: Named) -> Choice:
    """Build a candidate's learner, and return its proved and predicted regret."""
    with warnings.catch_warnings(record=True) as caught:
        # Python shows each warning once per line of code, so later candidates would not warn.
        warnings.simplefilter("always")
        learner = candidate.make(**candidate.units, **covered)
    horizon, budget = covered["horizon"], covered["budget"]
    log_noise = candidate.log_noise
    if "participation" in covered and budget is not None:
        # The regret formulas are for single rounds.
        single = learner._certify(learner.plan)
        delta = _delta(budget, horizon)
        log_noise = -math.log(gaussian_mu(min(single.epsilon_at(delta), _LARGEST), delta))
    predicted, cost, bound = None, None, None
    if candidate.law in _laws():
        idle, noise = shares(_laws()[candidate.law], candidate.numbers, log_noise)
        predicted, cost = candidate.largest * (idle + noise), candidate.largest * noise
    if horizon is not None and learner.guarantee.regret_bound is not None:
        bound = learner.guarantee.regret_bound / horizon
    return Choice(
        learner=candidate.path,
        options=dict(candidate.options),
        predicted_regret=predicted,
        privacy_cost=cost,
        regret_bound=bound,
        scope=getattr(learner.plan.forecast, "regret_scope", None),
        useful=bound is not None and bound < candidate.largest,
        plan=learner.plan,
        guarantee=learner.guarantee,
        notes=tuple(str(warning.message) for warning in caught),
        _noise_dominates=any(
            issubclass(warning.category, NoiseDominatesWarning) for warning in caught
        ),
        _constructor=partial(candidate.make, **covered),
    )


def _delta(budget: Budget, horizon: int | None) -> float:
    """Return the budget's delta, or a customary one if the budget is pure."""
    return budget.delta or 0.1 / (horizon or UNKNOWN)


def _is_pure(budget: Budget | None) -> bool:
    """Return whether there is a budget without a delta."""
    return budget is not None and budget.delta == 0.0


def candidates(
    problem: Any,
    horizon: int | None,
    budget: Budget | None,
    switches: int = 0,
    adversary: str = "stationary",
    gap: float = 0.0,
    drift: bool = False,
    continuous: bool = False,
) -> Iterator[Candidate]:
    """Yield all learners for a problem; arguments are those of `choose`.

    Raises
    ------
    ValueError, TypeError
        For a problem without a learner, and for bad arguments.
    """
    if horizon is not None:
        positive_int("horizon", horizon)
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"budget must be a dpoco.Budget or None; got {type(budget).__name__}")
    switches = whole_number("switches", switches)
    choice("adversary", adversary, ADVERSARIES)
    if not 0.0 <= real_float("gap", gap) <= 1.0:
        raise ValueError(f"gap must be in [0, 1]; got {gap!r}")
    if gap > 0.0 and adversary in ADVERSARIES[2:]:
        raise ValueError(f"gap is for losses from a distribution, not for {adversary} losses")
    parts = problem if isinstance(problem, tuple) else (problem,)
    asked: Problem
    counts = [isinstance(part, int | np.integer) and type(part) is not bool for part in parts]
    if counts == [True]:
        played = "experts"
        asked = _expert_problem(parts[0], horizon, budget, switches, adversary, gap)
    elif (switches, adversary, gap) != (0, "stationary", 0.0):
        raise ValueError("switches, adversary and gap are for experts: problem is their number")
    elif counts == [True, True]:
        played, asked = "arms", _arm_problem(parts[0], parts[1], horizon, budget, continuous, drift)
    elif len(parts) == 2 and isinstance(parts[0], Domain) and isinstance(parts[1], Loss):
        played, asked = "records", _record_problem(parts[0], parts[1], horizon, budget, drift)
    else:
        raise TypeError(
            "a problem is (domain, loss), the number of experts, or (arms, dimension); got "
            f"{reprlib.repr(problem)}"
        )
    if drift and played == "experts":
        raise ValueError("for experts drift is adversary='shifting'")
    if continuous and played != "arms":
        raise ValueError("continuous=True is for bandits: problem is (arms, dimension)")
    for entry in LEARNERS:
        if entry.plays == played:
            yield from entry.load()._candidates(asked)


def _record_problem(
    domain: Domain, loss: Loss, horizon: int | None, budget: Budget | None, drift: bool
) -> RecordProblem:
    """Return the problem of decisions in a set, with the sizes that regret formulas take."""
    d = domain.dimension
    require_memory({"decisions and gradients": 4.0 * d})
    largest, reach = loss.lipschitz(domain) * domain.diameter() / 2.0, 1.0
    if isinstance(loss, MarginLoss):
        largest = min(largest, loss.center_regret(domain))
        reach = loss.margin_bound(domain) / getattr(loss, "label_bound", 1.0)
    # The formulas were fitted on Euclidean and l_1 balls; 3 lies between their dual exponents, 2
    # and infinity.
    shape = "l1" if domain.dual_exponent > 3.0 else "ball"
    law = f"records/{_NAMES.get(type(loss), 'other')}/{shape}"
    # The domain {0} has margin 0, which has no logarithm.
    sizes = math.log(d), math.log(max(reach, _LEAST))
    return RecordProblem((domain, loss), horizon, budget, law, sizes, largest, bool(drift))


def _expert_problem(
    experts: int, horizon: int | None, budget: Budget | None, switches: int, adversary: str,
    gap: float,
) -> ExpertProblem:  # fmt: skip
    """Return the problem of experts, with the sizes that regret formulas take."""
    positive_int("experts", experts, maximum=LARGEST_EXPERTS)
    require_memory({"losses of all experts": 4.0 * experts})
    if horizon is not None:
        switches = min(switches, horizon - 1)
    sizes = math.log(experts), math.log1p(switches)
    return ExpertProblem(
        (experts,), horizon, budget, "experts", sizes, 1.0, switches, adversary, gap
    )


def _arm_problem(
    arms: int,
    dimension: int,
    horizon: int | None,
    budget: Budget | None,
    continuous: bool,
    drift: bool,
) -> ArmProblem:
    """Return the problem of a contextual bandit, with the sizes that regret formulas take."""
    positive_int("arms", arms)
    positive_int("dimension", dimension)
    if horizon is None:
        raise ValueError("bandits need a horizon: noise depends on the number of rounds")
    require_memory({"coefficients of all arms": 4.0 * arms * dimension})
    sizes = math.log(dimension), math.log(arms)
    return ArmProblem(
        (arms, dimension), horizon, budget, "arms", sizes, 2.0, bool(continuous), bool(drift)
    )
