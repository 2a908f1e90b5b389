"""Accounting of LinUCB on noisy statistics: joint differential privacy.

Claim: data reach the arms' estimates only through one continual sum of the statistics (x x', a r x)
of the chosen arm, and zeros for all others, with ||x||_2 <= X, |r| <= Y. Let u = (a Y / X)^2.
Replacing one user's record (the context and the rewards of all arms, whichever arm is then chosen)
moves a summand by at most D = sqrt(2) X^2 (1 + u/2) in Frobenius norm for u <= 2, else 2 X^2
sqrt(u); emptying it moves the summand by at most X^2 sqrt(1 + u). So all released statistics are
together mu-GDP with mu = D column_norm / sigma. The same holds for all actions shown to users other
than the one whose record changed, because each action is a function of released values and that
user's context.

Confidence and regret: let the reward of arm a for context x have mean <x, theta_a>,
||theta_a|| <= S, lie in [-Y, Y] and be conditionally R-subgaussian. Let tau be the largest standard
deviation of an entry of the noise in the packed statistics of an arm, g their grid, N the number of
releases, L = sqrt(2 ln(6 N K/alpha)), rho the regularization, and

    margin = tau (sqrt(2 d) + L) + (g/2) sqrt(d (d + 1)/2),
    V      = noisy sum of x x' + (rho + margin) I,
    bias   = S sqrt(rho + 2 margin) + (tau (sqrt d + L) + (g/2) sqrt d) / (a sqrt rho),
    width  = R sqrt(2 ln(2 K/alpha) + d ln(1 + t X^2/(d rho))) + bias.

With probability 1 - alpha, |<x, V^-1 u - theta_a>| <= width sqrt(x' V^-1 x) for all arms, contexts
and releases; and then LinUCB with batches of b rounds has regret at most
(1 + exploration) width sqrt(T (1 + (b - 1) q) K d ln(1 + T q/(K d)) q/ln(1 + q)), q = X^2/rho, for
exploration >= 1.

Proof: ``docs/privacy/linucb.md``. Sources: Shariff and Sheffet, "Differentially private contextual
linear bandits" (2018), with exact Gaussian accounting, better sums and disjoint arms;
Abbasi-Yadkori, Pal and Szepesvari (2011).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting import continual_sum, release
from dpoco.accounting.budget import Budget
from dpoco.accounting.forgetting import check_damped, damped_sum, view_noise
from dpoco.accounting.gaussian import charged_gaussian_mu
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.plan import Plan
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.statement import stated_delta
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.mechanisms.factorisations import Buffered
from dpoco.privacy.mechanisms.gaussian_sum import AnyFactorisation, GaussianSum
from dpoco.privacy.neighbours import CHANGES, Neighbours
from dpoco.privacy.records import Description, limits

__all__ = ["LinUCBForecast", "LinUCBPlan", "LinUCBTuning", "calibrate", "guarantee"]

# Default factor on the proven widths. This value earned more than a factor of 1 in all environments
# of docs/bandits.md and on both bundled streams. A regret bound requires 1.
EXPLORATION = 0.1


def check_unit(name: str, value: float) -> float:
    """Return a bound whose squares and ratios cannot over- or underflow, or raise."""
    found = real_float(name, value)
    if not 1e-30 <= found <= 1e30:
        raise ValueError(f"{name} must be in [1e-30, 1e30]; got {found!r}")
    return found


@dataclass(frozen=True)
class LinUCBTuning(Description):
    """Parameters of the post-processing of the noisy statistics.

    Attributes
    ----------
    horizon : int
        T.
    regularization : float
        rho, added to the noise margin on the diagonal (length^2).
    parameter_bound : float
        S: largest l2 norm of an arm's true coefficients.
    reward_noise : float
        R: the deviations of the rewards from their means are R-subgaussian.
    failure : float
        alpha: probability that any confidence interval is wrong.
    exploration : float
        Factor on the confidence width.
    half_life : float or None
        Rounds after which a record counts half; None means that no record is forgotten.
    """

    kind = "linucb_tuning"
    unsaid = ("half_life",)
    horizon: int
    regularization: float
    parameter_bound: float
    reward_noise: float
    failure: float
    exploration: float = limits(zero=True)
    half_life: float | None = None

    def __post_init__(self) -> None:
        """Raise for bounds out of range, and for a `failure` that is not a probability."""
        super().__post_init__()
        for name in ("parameter_bound", "reward_noise"):
            check_unit(name, getattr(self, name))
        if not 1e-100 <= self.failure < 1.0:
            raise ValueError(f"failure must be in [1e-100, 1); got {self.failure!r}")


@dataclass(frozen=True)
class LinUCBForecast(Description):
    """Forecast of LinUCB.

    Attributes
    ----------
    noise_dominates : bool
        Whether the noise outweighs all data that an arm can gather in its share of the rounds.

        In the sums of r x, its length tau sqrt(d)/a is compared with S T X^2/(K d), the length for
        isotropic contexts and the largest coefficients. In the matrices, the margin on the diagonal
        is compared with twice T X^2/(K d). Noise dominates if either is larger. In all environments
        of ``docs/bandits.md`` and ``docs/reproduce.md``, the regret is above 95 % of that of
        uniform play if this is True, and below otherwise.
    regret_bound : float
        Bound on the expected regret against the best arm of every round.
    """

    kind = "linucb_forecast"
    noise_dominates: bool
    regret_bound: float = limits(zero=True)


LinUCBPlan = Plan[GaussianSum, LinUCBTuning, LinUCBForecast]


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence width after the release of t rounds, without the exploration factor.

    It is spread sqrt(log_term + dimension log(1 + t growth)) + bias. `margin` bounds the operator
    norm of the noise in an arm's matrix.
    """

    margin: float
    spread: float
    log_term: float
    growth: float
    bias: float
    dimension: int

    def width(self, rounds: int) -> float:
        """Return the width after the release of `rounds` rounds."""
        information = self.log_term + self.dimension * math.log1p(rounds * self.growth)
        return self.spread * math.sqrt(information) + self.bias


def read_moments(total: GaussianSum) -> SecondMoments:
    """Return the summand of a record in the statistics."""
    if not isinstance(total.summand, SecondMoments):
        raise TypeError("plan must be a plan for LinUCB")
    return total.summand


@lru_cache(maxsize=256)
def _worst_row(factor: AnyFactorisation, pushes: int, kept: float | None) -> float:
    """Return the largest deviation of a sum, damped if `kept` is given, in units of a draw."""
    if kept is None:
        return continual_sum.worst_row_norm(factor, pushes)
    assert isinstance(factor, Buffered)
    return float(view_noise(factor, np.full(min(pushes, _LONGEST), kept))[0].max())


def _worst_noise(total: GaussianSum, own: LinUCBTuning, scale: float) -> float:
    """Return the largest deviation of an entry of the statistics behind the estimates."""
    return scale * _worst_row(
        total.factorisation, max(total.pushes, 1), kept_statistics(total, own)
    )


def kept_statistics(total: GaussianSum, own: LinUCBTuning) -> float | None:
    """Return the factor on past statistics at each release; None if no record is forgotten."""
    return None if own.half_life is None else 0.5 ** (total.batch / own.half_life)


def bound_noise(total: GaussianSum, own: LinUCBTuning, scale: float) -> tuple[float, float]:
    """Return bounds on the noise in an arm's matrix (operator norm) and vector (l2 norm)."""
    if scale == 0.0:
        return 0.0, 0.0
    bounds, pushes = read_moments(total), max(total.pushes, 1)
    d, grid = bounds.dimension, continual_sum.release_grid(scale)
    deviation = _worst_noise(total, own, scale)
    # A third of the failure probability is for matrices, a sixth for vectors, half for rewards
    # (docs/privacy/linucb.md, (a)).
    tail = math.sqrt(2.0 * math.log(6.0 * pushes * bounds.arms / own.failure))
    margin = deviation * (math.sqrt(2.0 * d) + tail) + 0.5 * grid * math.sqrt(0.5 * d * (d + 1))
    return margin, deviation * (math.sqrt(d) + tail) + 0.5 * grid * math.sqrt(d)


def find_bias(
    total: GaussianSum, own: LinUCBTuning, scale: float, weight: float, rho: float | None
) -> float:
    """Return the bias for another noise scale, reward weight and rho (None: the noise margin)."""
    margin, drift = bound_noise(total, own, scale)
    # The regulariser then lies between the margin and three times the margin
    # (docs/privacy/linucb.md, "Defaults").
    rho = margin if rho is None else rho
    return own.parameter_bound * math.sqrt(rho + 2.0 * margin) + drift / (weight * math.sqrt(rho))


def find_confidence(total: GaussianSum, own: LinUCBTuning) -> Confidence:
    """Return the confidence widths that hold with probability 1 - alpha."""
    bounds, rho = read_moments(total), own.regularization
    return Confidence(
        margin=bound_noise(total, own, total.scale)[0],
        spread=own.reward_noise,
        log_term=2.0 * math.log(2.0 * bounds.arms / own.failure),
        growth=bounds.features**2 / (bounds.dimension * rho),
        bias=find_bias(total, own, total.scale, bounds.weight, rho),
        dimension=bounds.dimension,
    )


def find_leading_term(total: GaussianSum, own: LinUCBTuning) -> float:
    """Return the regret bound if all confidence intervals hold, for exploration >= 1."""
    bounds = read_moments(total)
    q = bounds.features**2 / own.regularization
    entries = bounds.arms * bounds.dimension
    potential = entries * math.log1p(own.horizon * q / entries) * q / math.log1p(q)
    # At most this many rounds have passed since the release on which a decision is based.
    stale = 1.0 + (total.batch - 1) * q
    width = find_confidence(total, own).width(max(total.pushes, 1) * total.batch)
    return (1.0 + own.exploration) * width * math.sqrt(own.horizon * stale * potential)


def largest_regret(bounds: SecondMoments, own: LinUCBTuning) -> float:
    """Return a regret bound for any play: two means differ by at most 2 min(S X, Y)."""
    return 2.0 * min(own.parameter_bound * bounds.features, bounds.label) * own.horizon


def bound_regret(total: GaussianSum, own: LinUCBTuning) -> tuple[float, dict[str, float]]:
    """Return the least proved bound on the expected regret, and its terms."""
    bounds = read_moments(total)
    if bounds.arms == 1:
        return 0.0, {}
    trivial = largest_regret(bounds, own)
    # Narrower widths are not confidence intervals, and there is no proof for damped sums, so only
    # the trivial bound remains.
    if own.exploration >= 1.0 and own.half_life is None:
        terms = {"exploration": find_leading_term(total, own), "failure": own.failure * trivial}
        if math.fsum(terms.values()) < trivial:
            return math.fsum(terms.values()), terms
    return trivial, {"trivial": trivial}


def noise_dominates(total: GaussianSum, own: LinUCBTuning) -> bool:
    """Return whether hardly any learning is to be expected; see `LinUCBForecast`."""
    bounds = read_moments(total)
    noise = _worst_noise(total, own, total.scale) * math.sqrt(bounds.dimension) / bounds.weight
    rounds = min(own.horizon, math.inf if own.half_life is None else own.half_life / math.log(2.0))
    gathered = rounds * bounds.features**2 / (bounds.arms * bounds.dimension)
    margin, _ = bound_noise(total, own, total.scale)
    return noise > own.parameter_bound * gathered or margin > 2.0 * gathered


def make_plan(total: GaussianSum, own: LinUCBTuning) -> LinUCBPlan:
    """Return the plan of the statistics and their post-processing, with its forecast."""
    forecast = LinUCBForecast(noise_dominates(total, own), bound_regret(total, own)[0])
    return Plan(total, own, forecast)


# Products are rounded in double precision. Contexts are shrunk by this factor to compensate.
ROUNDING = 1.0 + 1e-12
# Candidates for u = (a Y / X)^2. Beyond 2, the noise in the rewards does not fall further.
_SHARES = tuple(2.0 ** (1.0 - 0.25 * i) for i in range(40))
# Largest costs of a batch: of statistics that are one batch old, (b - 1) X^2 / rho in the square of
# the regret bound; and before the first release of each arm, b K / T.
_STALE, _START = 0.1, 0.01
_LARGEST_BATCH_BITS = 20
_LONGEST = 2**20  # largest number of releases whose noise is computed one by one
_FRESH = 16.0  # least number of batches in a half-life
# The change that the guarantee of a bandit covers.
NEIGHBOURS = {"replace": "a user's record is replaced", "zero_out": "a record is emptied"}


def calibrate(
    arms: int,
    dimension: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    context_bound: float = 1.0,
    reward_bound: float = 1.0,
    parameter_bound: float = 1.0,
    reward_noise: float | None = None,
    failure: float | None = None,
    exploration: float = EXPLORATION,
    half_life: float | None = None,
    batch: int | None = None,
    regularization: float | None = None,
    reward_weight: float | None = None,
    sum_method: str | None = None,
    relation: str = "replace",
    numerics: str = release.DEFAULT_NUMERICS,
    participation: release.Returning | None = None,
) -> LinUCBPlan:
    """Return the least noise that meets `budget`, and suitable options.

    Parameters
    ----------
    arms, dimension : int
        K and d.
    horizon : int
        Rounds T. None is refused, because noise and confidence widths depend on T.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    context_bound, reward_bound, parameter_bound : float
        X, Y and S.
    reward_noise : float, optional
        R; default Y, which is valid for all rewards in [-Y, Y].
    failure : float, optional
        alpha; default 1/T.
    exploration : float
        Factor on the confidence width. Below 1, only the trivial regret bound is proved.
    half_life : float, optional
        Rounds after which a record counts half; by default no record is forgotten.
    batch : int, optional
        Rounds per release; default: the largest power of two that hardly costs regret. 1 without
        noise.
    regularization : float, optional
        rho; default: the noise margin, or X^2 without noise.
    reward_weight : float, optional
        a; default: the weight with the narrowest confidence intervals.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        None and "auto" take the sum with the least error: "blt_normalised".
    relation : {"replace", "zero_out"}
        Change of one user's record between neighbours.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum.
    participation : Participation, optional
        How often one person may come; the budget then covers all these rounds.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget, for example with delta = 0.
    """
    rounds = continual_sum.known_horizon(horizon)
    size = check_unit("context_bound", context_bound)
    top = check_unit("reward_bound", reward_bound)
    near = release.planned_neighbours(
        choice("relation", relation, CHANGES), participation, rounds, budget
    )
    rho = None if regularization is None else positive_float("regularization", regularization)
    weight = None if reward_weight is None else positive_float("reward_weight", reward_weight)
    problem = _Problem(
        summand=SecondMoments(
            positive_int("dimension", dimension, maximum=4096), 2.0, size, math.inf, top,
            1.0 if weight is None else weight, positive_int("arms", arms, maximum=2**20), ROUNDING,
        ),
        own=LinUCBTuning(
            horizon=rounds,
            regularization=size**2 if rho is None else rho,
            parameter_bound=check_unit("parameter_bound", parameter_bound),
            reward_noise=top if reward_noise is None else check_unit("reward_noise", reward_noise),
            failure=min(0.5, 1.0 / rounds) if failure is None else real_float("failure", failure),
            exploration=real_float("exploration", exploration),
            half_life=None if half_life is None else positive_float("half_life", half_life),
        ),
        rho=rho,
        weight=weight,
        near=near,
        budget=budget,
        sum_method=sum_method,
        numerics=numerics,
    )  # fmt: skip
    if batch is None:
        total, own = problem.double()
    else:
        total, own = problem.tune(positive_int("batch", batch))
    if problem.near.rounds > 1:  # the batch was chosen with tabulated parameters
        total, own = problem.tune(total.batch, searched=True)
    return make_plan(total, own)


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """Arguments of a calibration; rho and weight are None if they are to be chosen."""

    summand: SecondMoments
    own: LinUCBTuning
    rho: float | None
    weight: float | None
    near: Neighbours
    budget: Budget | None
    sum_method: str | None
    numerics: str

    def double(self) -> tuple[GaussianSum, LinUCBTuning]:
        """Return the plan with the largest batch of little cost, or the first that fits.

        Two costs count: in the regret bound, that of statistics one batch old; and that of the
        start. The tails of many releases may cost more than delta, so that no small batch meets the
        budget.
        """
        best: tuple[GaussianSum, LinUCBTuning] | None = None
        for b in (1 << bit for bit in range(_LARGEST_BATCH_BITS + 1)):
            try:
                following = self.tune(b)
            except CalibrationError:
                if b == 1 << _LARGEST_BATCH_BITS or 2 * b >= self.own.horizon:
                    raise  # with a batch as long as the horizon, nothing would be learned
                continue
            stale = (b - 1) * self.summand.features**2 / following[1].regularization
            costly = stale > _STALE or b * self.summand.arms > _START * self.own.horizon
            costly = costly or _FRESH * b > (self.own.half_life or math.inf)
            if best is not None and costly:
                break
            best = following
            if costly and b > 1:
                break
        assert best is not None
        return best

    def tune(self, batch: int, searched: bool = False) -> tuple[GaussianSum, LinUCBTuning]:
        """Return the least noise for this batch, and the ridge; its default is the noise margin.

        `searched` searches the parameters of the sum for people who return.
        """
        own, budget, near = self.own, self.budget, self.near
        # A search for each candidate batch would take long, and the tabulated parameters rank
        # batches as well.
        planned = near if searched else Neighbours(near.change)
        # A release after the last round would inform no decision.
        releases = (own.horizon - 1) // batch
        pushes = max(releases, 1)
        method: continual_sum.Method
        if own.half_life is not None:
            check_damped(self.sum_method, own.half_life, batch)
            method = damped_sum(pushes, planned, batch, own.half_life, batch)
        elif self.sum_method in (None, "auto") and budget is not None:
            method = continual_sum.choose_method(pushes, near=planned, batch=batch)
        else:
            known = release.candidate_methods(self.sum_method, pushes, budget, planned, batch)
            method = known[0]
        plain = release.plain_sum(self.summand, method, releases, batch=batch)
        if budget is None or releases == 0:
            # Without noise, or without a release, the weight has no effect.
            return release.with_noise(plain, near, budget=None, numerics=self.numerics), own
        budget.require_delta()

        def noisy(weight: float) -> tuple[GaussianSum, LinUCBTuning]:
            """Return the noise for this weight, and the ridge."""
            weighed = replace(plain, summand=replace(self.summand, weight=weight))
            total = release.with_noise(weighed, near, budget=budget, numerics=self.numerics)
            margin, _ = bound_noise(total, own, total.scale)
            return total, own if self.rho is not None else replace(own, regularization=margin)

        if self.weight is not None:
            return noisy(self.weight)
        # First estimate the noise in real numbers: the arithmetic makes it hardly larger.
        mu = charged_gaussian_mu(budget, plain.tails(exact=self.numerics != "float"))
        column = plain.factorisation.column(pushes, near, batch)
        units, ratio = self.summand.features**2, self.summand.features / self.summand.label
        weights = [math.sqrt(u) * ratio for u in _SHARES]
        biases = [
            find_bias(plain, own, units * moved * column / mu, weight, self.rho)
            for weight, moved in zip(weights, _unit_movements(near.change), strict=True)
        ]
        # A full plan takes longer than a bias, so we only make plans for weights close to the best.
        close = [w for w, bias in zip(weights, biases, strict=True) if bias <= 1.02 * min(biases)]
        return min(map(noisy, close), key=lambda found: find_confidence(*found).bias)


@lru_cache
def _unit_movements(relation: str) -> tuple[float, ...]:
    """Return how far the statistics move for every share, in units of the context's bound."""
    near = Neighbours(relation)
    return tuple(
        SecondMoments(1, 2.0, 1.0, math.inf, 1.0, math.sqrt(u)).movement(near) for u in _SHARES
    )


def guarantee(
    arms: int,
    dimension: int,
    plan: LinUCBPlan,
    *,
    relation: str = "replace",
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism.

    Parameters
    ----------
    arms, dimension : int
        K and d.
    plan, relation, budget, seeded
        See `dpoco.accounting.statement`.

    Raises
    ------
    ValueError, TypeError
        If the plan is for other sizes, or for another learner.
    """
    total, own = plan.mechanism, plan.tuning
    bounds = read_moments(total)
    _check_sizes(bounds, total, own, arms, dimension)
    method = continual_sum.method_name(total.factorisation)
    what = (
        f"to every user the action of LinUCB ({arms} arms, dimension {dimension}, "
        f"{method!r} sum), to everybody the estimates of all arms"
    )
    regret, terms = bound_regret(total, own)
    stated = stated_regret(regret, largest_regret(bounds, own))
    details: dict[str, float | str | None] = stated["details"] | {
        "regret bound holds for": (
            "rewards in their range that arrive in every round, with means <x, theta_a>, "
            f"||theta_a|| <= {own.parameter_bound:g}, deviations from them that are "
            f"{own.reward_noise:g}-subgaussian, contexts that do not see the round's rewards"
        ),
        "neighbours": NEIGHBOURS[relation],
        "rounds per release": float(total.batch),
        "noise margin": bound_noise(total, own, total.scale)[0],
        **{f"regret: {name}": value for name, value in terms.items()},
    }
    return Guarantee.about(
        total,
        # A user's own action openly depends on that user's context, so the view is that of all
        # others (docs/privacy/linucb.md).
        Neighbours(relation, "others"),
        released=what,
        horizon=own.horizon,
        delta=stated_delta(budget, own.horizon),
        calibration=plan.calibration,
        reference="adaptive Gaussian composition and post-processing; docs/privacy/linucb.md",
        seeded=seeded,
        conditions=(
            f"The program clips contexts to l2 norm {bounds.features:g} and rewards to "
            f"[{-bounds.label:g}, {bounds.label:g}], and treats a missing one as no data.",
        ),
        regret_bound=stated["regret_bound"],
        details=details,
    )


def _check_sizes(
    bounds: SecondMoments, total: GaussianSum, own: LinUCBTuning, arms: int, dimension: int
) -> None:
    """Raise `ValueError` unless a plan's statistics are for this number of arms and rounds."""
    if (bounds.arms, bounds.dimension) != (arms, dimension):
        raise ValueError(
            f"the plan is for {bounds.arms} arms and dimension {bounds.dimension}; "
            f"got {arms} and {dimension}"
        )
    top = check_unit("context_bound", bounds.features), math.inf, check_unit("label", bounds.label)
    ours = SecondMoments(dimension, 2.0, *top, bounds.weight, arms, ROUNDING)
    releases = (own.horizon - 1) // total.batch
    if bounds != ours or (total.pushes, total.growth, total.order) != (releases, None, 2.0):
        raise ValueError("the plan's sums are not those of LinUCB over so many rounds")
