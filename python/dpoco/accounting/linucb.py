"""Accounting of LinUCB on noisy statistics: joint differential privacy.

Claim: data reach the arms' estimates only through one continual sum of the statistics
(x x', a r x) of the arm chosen, zeros for all others, ||x||_2 <= X, |r| <= Y. With
u = (a Y / X)^2, replacing one user's record (the context and the rewards of all arms, whatever arm
it then leads to) moves a summand by at most D = sqrt(2) X^2 (1 + u/2) in Frobenius norm for u <= 2,
else 2 X^2 sqrt(u); emptying it by at most X^2 sqrt(1 + u). So all released statistics are together
mu-GDP with mu = D column_norm / sigma, and so are all actions shown to users other than the one
whose record changed: each is a function of what is released and of its own user's context.

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
from typing import Any, ClassVar

from dpoco.accounting import continual_sum, release
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.statement import stated_delta
from dpoco.accounting.truncation import charged_gaussian_mu
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["LinUCBParameters", "calibrate", "guarantee", "mechanism_of"]

# Factor on the proven widths: earned more in all worlds of docs/bandits.md and on both bundled
# streams. A bound on regret needs 1.
EXPLORATION = 0.1
# Bounds whose squares and ratios stay far from over- and underflow.
_UNITS = (1e-30, 1e30)


@dataclass(frozen=True, kw_only=True)
class LinUCBParameters(release.SumParameters):
    """Parameters of LinUCB on noisy statistics.

    The value carries no claim of its own: `dpoco.accounting.linucb.guarantee` recomputes every
    privacy and regret quantity from the noise scale, the sum, the sizes and the bounds.

    Attributes
    ----------
    arms, dimension, horizon : int
        K, d and T.
    batch : int
        Rounds per release of the statistics.
    sum_method : {"blt", "blt_normalised", "banded", "tree", "toeplitz"}
        Continual sum.
    noise_scale : float
        Scale sigma of one Gaussian draw; 0 means no noise.
    reward_weight : float
        a in the statistics (x x', a r x) (length / reward).
    regularization : float
        rho, added to the noise margin on the diagonal (length^2).
    context_bound, reward_bound : float
        X and Y: contexts are clipped to l2 norm X, rewards to [-Y, Y].
    parameter_bound : float
        S: largest l2 norm of an arm's true coefficients. Regret depends on it, privacy does not.
    reward_noise : float
        R: the rewards' deviation from their mean is R-subgaussian.
    failure : float
        alpha: probability that any confidence interval is wrong.
    exploration : float
        Factor on the confidence width.
    relation : {"replace", "zero_out"}
        What happens to one user's record between neighbours.
    calibration : {"tight"}
        Exact Gaussian accounting.
    sensitivity : float
        Largest Frobenius norm of the change of all arms' statistics. Derived, as is all below.
    column_norm : float
        Factor of the continual sum on the sensitivity.
    mu : float
        GDP parameter; infinite without noise, 0 if nothing depends on the data.
    regret_bound : float
        Bound on the expected regret to the best arm of every round.
    regret_terms : dict of str to float
        Terms that add up to it.
    numerics : {"float", "lattice"}
        Arithmetic of the sum: doubles, or exact integers.
    """

    kind: ClassVar[str] = "dpoco.linucb_parameters"
    version: ClassVar[int] = 2

    arms: int = at_least(1, 2**20)
    dimension: int = at_least(1, 4096)
    batch: int
    sum_method: str = one_of(*continual_sum.METHODS)
    reward_weight: float
    regularization: float
    context_bound: float = at_least(*_UNITS)
    reward_bound: float = at_least(*_UNITS)
    parameter_bound: float = at_least(*_UNITS)
    reward_noise: float = at_least(*_UNITS)
    failure: float = at_least(1e-100, 1.0 - 2.0**-53)
    exploration: float = at_least(0.0)
    relation: str = one_of(*CHANGES)
    calibration: str = one_of("tight", default="tight")
    sensitivity: float = at_least(0.0)
    column_norm: float = at_least(0.0)
    regret_bound: float = at_least(0.0)
    regret_terms: dict[str, float]
    numerics: str = one_of(*NUMERICS, default="float")

    @property
    def releases(self) -> int:
        """Releases of the statistics: what the last round adds is not needed."""
        return (self.horizon - 1) // self.batch

    @property
    def pushes(self) -> int:
        """Vectors the continual sum is built for: `releases`, at least 1."""
        return max(self.releases, 1)

    @property
    def depends_on_data(self) -> bool:
        """Whether anything is released of the statistics."""
        return self.releases > 0

    @property
    def noise_margin(self) -> float:
        """Bound on the operator norm of the noise in any arm's matrix, over all releases."""
        return noise_bounds(self, self.noise_scale)[0]

    @property
    def noise_dominates(self) -> bool:
        """Whether the noise outweighs all that an arm's share of the rounds can gather.

        In the sums of r x: its length tau sqrt(d)/a, against S T X^2/(K d), that of isotropic
        contexts with the largest coefficients. Or in the matrices: the margin on the diagonal is
        more than twice T X^2/(K d). In all worlds of ``docs/bandits.md`` and ``docs/reproduce.md``
        where that is so, regret is more than 95 % of that of uniform play; where it is not, less.
        """
        deviation = self.noise_scale * continual_sum.worst_row_norm(self.correlation, self.pushes)
        noise = deviation * math.sqrt(self.dimension) / self.reward_weight
        gathered = self.horizon * self.context_bound**2 / (self.arms * self.dimension)
        return noise > self.parameter_bound * gathered or self.noise_margin > 2.0 * gathered


@dataclass(frozen=True, slots=True)
class Confidence:
    """The width behind the release of t rounds, without the exploration factor.

    spread sqrt(log_term + dimension log(1 + t growth)) + bias; `margin` bounds the operator norm of
    the noise in the matrix of an arm.
    """

    margin: float
    spread: float
    log_term: float
    growth: float
    bias: float
    dimension: int

    def width(self, rounds: int) -> float:
        """Return the width behind the release of `rounds` rounds."""
        information = self.log_term + self.dimension * math.log1p(rounds * self.growth)
        return self.spread * math.sqrt(information) + self.bias


def noise_bounds(p: LinUCBParameters, scale: float) -> tuple[float, float]:
    """Return bounds on the noise in an arm's matrix (operator norm) and vector (l2 norm)."""
    if scale == 0.0:
        return 0.0, 0.0
    d, grid = p.dimension, continual_sum.release_grid(scale)
    deviation = scale * continual_sum.worst_row_norm(p.correlation, p.pushes)
    tail = math.sqrt(2.0 * math.log(6.0 * p.pushes * p.arms / p.failure))
    margin = deviation * (math.sqrt(2.0 * d) + tail) + 0.5 * grid * math.sqrt(0.5 * d * (d + 1))
    return margin, deviation * (math.sqrt(d) + tail) + 0.5 * grid * math.sqrt(d)


def bias_of(p: LinUCBParameters, scale: float, weight: float, rho: float | None) -> float:
    """Return the bias with another noise scale, reward weight and rho (None: the noise margin)."""
    margin, drift = noise_bounds(p, scale)
    rho = margin if rho is None else rho
    return p.parameter_bound * math.sqrt(rho + 2.0 * margin) + drift / (weight * math.sqrt(rho))


def confidence_of(p: LinUCBParameters) -> Confidence:
    """Return the confidence widths that hold with probability 1 - alpha."""
    rho = p.regularization
    return Confidence(
        margin=p.noise_margin,
        spread=p.reward_noise,
        log_term=2.0 * math.log(2.0 * p.arms / p.failure),
        growth=p.context_bound**2 / (p.dimension * rho),
        bias=bias_of(p, p.noise_scale, p.reward_weight, rho),
        dimension=p.dimension,
    )


def leading_term(p: LinUCBParameters) -> float:
    """Return the bound on the regret where all confidence intervals hold, for exploration >= 1."""
    q = p.context_bound**2 / p.regularization
    entries = p.arms * p.dimension
    potential = entries * math.log1p(p.horizon * q / entries) * q / math.log1p(q)
    stale = 1.0 + (p.batch - 1) * q
    width = confidence_of(p).width(p.pushes * p.batch)
    return (1.0 + p.exploration) * width * math.sqrt(p.horizon * stale * potential)


def regret_of(p: LinUCBParameters) -> tuple[float, dict[str, float]]:
    """Return the least proved bound on expected regret, and its terms."""
    if p.arms == 1:
        return 0.0, {}
    trivial = 2.0 * min(p.parameter_bound * p.context_bound, p.reward_bound) * p.horizon
    if p.exploration >= 1.0:
        terms = {"exploration": leading_term(p), "failure": p.failure * trivial}
        if math.fsum(terms.values()) < trivial:
            return math.fsum(terms.values()), terms
    return trivial, {"trivial": trivial}


# Products are rounded in double precision; contexts are shrunk by more than that beforehand.
ROUNDING = 1.0 + 1e-12
# Candidates for u = (a Y / X)^2; beyond 2 the noise in the rewards falls no further.
_SHARES = tuple(2.0 ** (1.0 - 0.25 * i) for i in range(40))
# What a batch may cost: of statistics that are a batch old, (b - 1) X^2 / rho in the square of the
# bound on regret; at the start, before each arm has been released once, b K / T.
_STALE, _START = 0.1, 0.01
_LARGEST_BATCH_BITS = 20
# What every bandit's guarantee is about.
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
    batch: int | None = None,
    regularization: float | None = None,
    reward_weight: float | None = None,
    sum_method: str | None = None,
    relation: str = "replace",
    numerics: str = release.DEFAULT_NUMERICS,
    participation: release.Returning | None = None,
) -> LinUCBParameters:
    """Return the least noise that meets `budget`, and options that suit it.

    Parameters
    ----------
    arms, dimension : int
        K and d.
    horizon : int
        Rounds T. None is refused: noise and confidence depend on their number.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    context_bound, reward_bound, parameter_bound : float
        X, Y and S.
    reward_noise : float, optional
        R; default Y, which holds for all rewards in [-Y, Y].
    failure : float, optional
        alpha; default 1/T.
    exploration : float
        Factor on the confidence width; below 1 nothing is proved about regret but that it is no
        larger than of any play.
    batch : int, optional
        Rounds per release; default: a power of two, as large as costs next to no regret. 1 without
        noise.
    regularization : float, optional
        rho; default: the noise margin, X^2 without noise.
    reward_weight : float, optional
        a; default: the narrowest confidence intervals.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        None and "auto" take the least error: "blt_normalised".
    relation : {"replace", "zero_out"}
        What happens to one user's record between neighbours.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum.
    participation : Participation, optional
        How often one person may come; the budget then covers all her rounds.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget, for example with delta = 0.
    """
    rounds = continual_sum.known_horizon(horizon)
    plain = LinUCBParameters(
        arms=arms,
        dimension=dimension,
        horizon=rounds,
        batch=1 if batch is None else batch,
        sum_method="blt",
        noise_scale=0.0,
        reward_weight=1.0 if reward_weight is None else reward_weight,
        regularization=1.0 if regularization is None else regularization,
        context_bound=context_bound,
        reward_bound=reward_bound,
        parameter_bound=parameter_bound,
        reward_noise=reward_bound if reward_noise is None else reward_noise,
        failure=min(0.5, 1.0 / rounds) if failure is None else failure,
        exploration=exploration,
        relation=relation,
        sensitivity=0.0,
        column_norm=1.0,
        mu=math.inf,
        regret_bound=0.0,
        regret_terms={},
        numerics=release.plain_numerics(numerics, "gaussian"),
    )
    rho = None if regularization is None else plain.regularization
    weight = None if reward_weight is None else plain.reward_weight
    if rho is None:
        plain = replace(plain, regularization=plain.context_bound**2)
    near = release.people_of(plain.relation, participation, rounds, budget)
    options = (budget, sum_method, rho, weight, numerics, near)
    best = _doubled(plain, *options) if batch is None else _tuned(plain, *options)
    if near.rounds > 1:  # the batch is chosen with the table's numbers
        best = _tuned(replace(plain, batch=best.batch), *options, searched=True)
    total, terms = regret_of(best)
    return replace(best, regret_bound=total, regret_terms=terms)


def _doubled(plain: LinUCBParameters, *options: Any) -> LinUCBParameters:
    """Return the parameters of the largest batch by which little is lost; of the first that fits.

    Little in the bound, of statistics that are a batch old, and at the start. The tails of many
    releases may cost more than delta: then no small batch meets the budget.
    """
    best: LinUCBParameters | None = None
    for b in (1 << bit for bit in range(_LARGEST_BATCH_BITS + 1)):
        try:
            following = _tuned(replace(plain, batch=b), *options)
        except CalibrationError:
            if b == 1 << _LARGEST_BATCH_BITS or 2 * b >= plain.horizon:
                raise  # a batch as long as the horizon would learn nothing
            continue
        stale = (b - 1) * following.context_bound**2 / following.regularization
        costly = stale > _STALE or b * plain.arms > _START * plain.horizon
        if best is not None and costly:
            break
        best = following
        if costly and b > 1:
            break
    assert best is not None
    return best


def _tuned(
    plain: LinUCBParameters,
    budget: Budget | None,
    sum_method: str | None,
    rho: float | None,
    weight: float | None,
    numerics: str,
    near: Neighbours,
    searched: bool = False,
) -> LinUCBParameters:
    """Return the parameters with the least noise for this batch; rho: the noise margin if None."""
    planned = near if searched else Neighbours(near.change)
    if sum_method in (None, "auto") and budget is not None:
        method = continual_sum.choose_method(plain.pushes, near=planned, batch=plain.batch)
    else:
        known = release.candidate_methods(sum_method, plain.pushes, budget, planned, plain.batch)
        method = known[0]
    base = replace(plain, **release.sum_fields(method), column_norm=1.0)
    factor = continual_sum.factorisation(method, plain.pushes)
    column = factor.column(plain.pushes, near, plain.batch)
    base = replace(base, column_norm=factor.column(plain.pushes))
    if budget is None or base.releases == 0:
        # Without noise the weight has no effect, nor has anything without a release.
        moved = _moments(base, rounding=1.0).movement(near)
        return replace(base, sensitivity=moved, mu=math.inf if budget is None else 0.0)
    budget.require_delta()
    total = mechanism_of(base.arms, base.dimension, base)

    def noisy(weight: float) -> LinUCBParameters:
        """Return the parameters with the noise that this weight needs."""
        p = replace(base, reward_weight=weight)
        plain = replace(total, summand=_moments(p))
        noise = release.planned_noise(plain, near, budget=budget, numerics=numerics)
        noise["sensitivity"] = _moments(p, rounding=1.0).movement(near)
        margin = noise_bounds(p, noise["noise_scale"])[0]
        return replace(p, **noise, regularization=margin if rho is None else rho)

    if weight is not None:
        return noisy(weight)
    # In plain numbers first: arithmetic makes the noise hardly larger than it is here.
    mu = charged_gaussian_mu(budget, total.tails(exact=numerics != "float"))
    units, ratio = base.context_bound**2, base.context_bound / base.reward_bound
    weights = [math.sqrt(u) * ratio for u in _SHARES]
    biases = [
        bias_of(base, units * moved * column / mu, weight, rho)
        for weight, moved in zip(weights, _unit_movements(base.relation), strict=True)
    ]
    close = [w for w, bias in zip(weights, biases, strict=True) if bias <= 1.02 * min(biases)]
    return min(map(noisy, close), key=lambda p: confidence_of(p).bias)


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
    parameters: LinUCBParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scale, sizes and bounds.

    Parameters
    ----------
    arms, dimension : int
        K and d.
    parameters : LinUCBParameters
        Calibrated or the user's own; sensitivity, column norm, mu and regret are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters are for other sizes.
    """
    p = parameters
    check_sizes(p, arms, dimension)
    what = (
        f"to every user the action of LinUCB ({p.arms} arms, dimension {p.dimension}, "
        f"{p.sum_method!r} sum), to everybody the estimates of all arms"
    )
    regret, terms = regret_of(p)
    most = 2.0 * p.reward_bound * p.horizon
    stated = stated_regret(regret, most, most)
    details: dict[str, float | str | None] = stated["details"] | {
        "regret bound holds for": (
            "rewards in their range that arrive in every round, with means <x, theta_a>, "
            f"||theta_a|| <= {p.parameter_bound:g}, deviations from them that are "
            f"{p.reward_noise:g}-subgaussian, contexts that do not see the round's rewards"
        ),
        "neighbours": NEIGHBOURS[p.relation],
        "rounds per release": float(p.batch),
        "noise margin": p.noise_margin,
        **{f"regret: {name}": value for name, value in terms.items()},
    }
    return Guarantee.about(
        mechanism_of(arms, dimension, p),
        Neighbours(p.relation, "others"),
        released=what,
        horizon=p.horizon,
        delta=stated_delta(budget, p.horizon),
        calibration=p.calibration,
        reference="adaptive Gaussian composition and post-processing; docs/privacy/linucb.md",
        seeded=seeded,
        conditions=(
            f"The program clips contexts to l2 norm {p.context_bound:g} and rewards to "
            f"[{-p.reward_bound:g}, {p.reward_bound:g}], and treats a missing one as no data.",
        ),
        regret_bound=stated["regret_bound"],
        details=details,
    )


def mechanism_of(arms: int, dimension: int, parameters: LinUCBParameters) -> GaussianSum:
    """Return the one sum through which records reach the estimates: all released batches."""
    p = parameters
    return release.released_sum(p, _moments(p), p.releases, batch=p.batch)


def _moments(p: LinUCBParameters, rounding: float = ROUNDING) -> SecondMoments:
    """Return what a record adds: the statistics of the arm chosen."""
    bounds = p.context_bound, math.inf, p.reward_bound
    return SecondMoments(p.dimension, 2.0, *bounds, p.reward_weight, p.arms, rounding)


def check_sizes(p: Any, arms: int, dimension: int) -> None:
    """Raise `ValueError` unless parameters are for so many arms and this dimension."""
    if (p.arms, p.dimension) != (arms, dimension):
        raise ValueError(
            f"parameters are for {p.arms} arms and dimension {p.dimension}; "
            f"got {arms} and {dimension}"
        )
