"""Parameters of LinUCB on noisy statistics, and what they prove: confidence widths and regret.

Claim: let the reward of arm a for context x have mean <x, theta_a>, ||theta_a|| <= S, lie in
[-Y, Y] and be conditionally R-subgaussian, ||x|| <= X. Let tau be the largest standard deviation of
an entry of the noise in the packed statistics (x x', a r x) of an arm, g their grid, N the number
of releases, L = sqrt(2 ln(6 N K/alpha)), rho the regularization, and

    margin = tau (sqrt(2 d) + L) + (g/2) sqrt(d (d + 1)/2),
    V      = noisy sum of x x' + (rho + margin) I,
    bias   = S sqrt(rho + 2 margin) + (tau (sqrt d + L) + (g/2) sqrt d) / (a sqrt rho),
    width  = R sqrt(2 ln(2 K/alpha) + d ln(1 + t X^2/(d rho))) + bias.

With probability 1 - alpha, |<x, V^-1 u - theta_a>| <= width sqrt(x' V^-1 x) for all arms, contexts
and releases; and then LinUCB with batches of b rounds has regret at most
(1 + exploration) width sqrt(T (1 + (b - 1) q) K d ln(1 + T q/(K d)) q/ln(1 + q)), q = X^2/rho, for
exploration >= 1.

Proof: ``docs/privacy/linucb.md``. Sources: Shariff and Sheffet, "Differentially private contextual
linear bandits" (2018); Abbasi-Yadkori, Pal and Szepesvari (2011).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpoco.accounting import continual_sum
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.release import check_scale
from dpoco.privacy.neighbours import CHANGES

# Bounds whose squares and ratios stay far from over- and underflow.
_UNITS = (1e-30, 1e30)


@dataclass(frozen=True, kw_only=True)
class LinUCBParameters(Parameters):
    """Parameters of LinUCB on noisy statistics.

    The value carries no claim of its own: `dpoco.accounting.linucb.guarantee` recomputes every
    privacy and regret quantity from the noise scale, the sum, the sizes and the bounds.

    Attributes
    ----------
    arms, dimension, horizon : int
        K, d and T.
    batch : int
        Rounds per release of the statistics.
    sum_method : {"blt", "blt_normalised", "tree", "honaker", "toeplitz"}
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
        The terms it is the sum of.
    numerics : {"float", "lattice"}
        Arithmetic of the sum: doubles, or exact integers.
    """

    kind: ClassVar[str] = "dpoco.linucb_parameters"
    version: ClassVar[int] = 2
    added: ClassVar[dict[str, str]] = {"numerics": "float"}

    arms: int = at_least(1, 2**20)
    dimension: int = at_least(1, 4096)
    horizon: int
    batch: int
    sum_method: str = one_of(*continual_sum.METHODS)
    noise_scale: float = at_least(0.0)
    reward_weight: float
    regularization: float
    context_bound: float = at_least(*_UNITS)
    reward_bound: float = at_least(*_UNITS)
    parameter_bound: float = at_least(*_UNITS)
    reward_noise: float = at_least(*_UNITS)
    failure: float = at_least(1e-100, 1.0 - 2.0**-53)
    exploration: float = at_least(0.0)
    relation: str = one_of(*CHANGES)
    calibration: str = one_of("tight")
    sensitivity: float = at_least(0.0)
    column_norm: float = at_least(0.0)
    mu: float = at_least(0.0, infinite=True)
    regret_bound: float = at_least(0.0)
    regret_terms: dict[str, float]
    numerics: str = one_of(*NUMERICS, default="float")

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if self.releases > 0 or self.noise_scale > 0.0:
            check_scale(self.noise_scale, self.mu)

    @property
    def releases(self) -> int:
        """Releases of the statistics: what the last round adds is not needed."""
        return (self.horizon - 1) // self.batch

    @property
    def pushes(self) -> int:
        """Vectors the continual sum is built for: `releases`, at least 1."""
        return max(self.releases, 1)

    @property
    def private(self) -> bool:
        """Whether anything is promised: there is noise, or nothing depends on the data."""
        return self.noise_scale > 0.0 or self.releases == 0

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
        deviation = self.noise_scale * continual_sum.worst_row_norm(self.sum_method, self.pushes)
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
    deviation = scale * continual_sum.worst_row_norm(p.sum_method, p.pushes)
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
