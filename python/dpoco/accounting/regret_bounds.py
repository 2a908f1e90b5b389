"""Regret bounds of the continuous learners: P-COMW, CTRL, their lazy forms, and noisy leaders.

Claim: for every stream of convex G-Lipschitz losses fixed in advance (oblivious), the expected
regret against the best point of the domain is at most the returned total. These streams may not
react to the decisions; the privacy statements elsewhere allow that.

Proof: ``docs/privacy/oco_regret.md``, which derives every term. Sources: Agarwal et al., P-COMW,
Theorem "Regret bound for P-COMW"; Agarwal et al., CTRL, Theorems 4 and 28. Constants are two to
four times smaller than the printed ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dpoco._validation import Fields, Named
from dpoco.accounting.conditions import UNPROVED
from dpoco.accounting.gaussian import expected_norm_bound
from dpoco.domains import Box, Domain, LpBall, Polytope, Simplex, VertexSet

__all__ = ["LazyProblem", "RegretBound", "best_inverse_temperature", "best_step_size",
           "endless_regret", "entropy_term", "gaussian_width", "gibbs_regret", "growing_cost",
           "leader_regret", "stated_regret", "uniform_is_as_good", "without_regret"]  # fmt: skip

# Streams for which regret bounds hold, in words.
REGRET_SCOPES = {
    "stationary": "losses drawn independently from one law",
    "shifting": "losses drawn independently, from a law that changes a few times",
    "oblivious": "losses fixed in advance",
    "adaptive": "all losses, also such as react to the decisions",
}
_ENDLESS = "no bound is stated of a stream without end, because it grows with the rounds"


@dataclass(frozen=True, slots=True)
class RegretBound:
    """A bound on expected regret, in units of loss, with its terms and its streams."""

    total: float
    terms: dict[str, float] = field(default_factory=dict)
    scope: str = "oblivious"

    @classmethod
    def of(cls, terms: dict[str, float], scope: str = "oblivious") -> RegretBound:
        """Return the sum of the given terms as a bound for "oblivious" or "adaptive" streams."""
        return cls(math.fsum(terms.values()), terms, scope)


def stated_regret(bound: float, still: float, largest: float = math.inf) -> Fields:
    """Return what a guarantee states about regret, as its fields ``regret_bound`` and ``details``.

    Parameters
    ----------
    bound : float
        The proved bound of the learner.
    still : float
        Bound for playing one decision, chosen without data, in all rounds. If `bound` is no better,
        the details say so, and reports say that there is no useful bound.
    largest : float
        Bound for any decisions.
    """
    stated = min(bound, largest)
    # For a single point, `still` and the regret are 0, so the bound is not useless.
    useless = stated >= still > 0.0
    return {
        "regret_bound": stated,
        "details": {"regret without learning": still} if useless else {},
    }


def gaussian_width(domain: Domain) -> float:
    """Return a bound on E max <xi, x - c> over the domain for xi ~ N(0, I) and some point c."""
    if isinstance(domain, Simplex):
        # <xi, x - c> = scale (max_i xi_i - mean xi), and E max_i xi_i <= sqrt(2 ln d).
        return domain.scale * math.sqrt(2.0 * math.log(domain.dimension))
    if isinstance(domain, LpBall):
        return domain.radius * expected_norm_bound(2.0, domain.dual_exponent, domain.dimension)
    # The maximum of n normal variables with at most this standard deviation.
    if isinstance(domain, VertexSet):
        return domain.radius_from_center() * math.sqrt(2.0 * math.log(len(domain.vertices)))
    if isinstance(domain, (Box, Polytope)):
        ends = (domain.lower, domain.upper) if isinstance(domain, Box) else domain.bounding_box
        # E |xi| = sqrt(2 / pi) per coordinate, times half its side; a polytope lies in its box.
        return math.sqrt(0.5 / math.pi) * float((ends[1] - ends[0]).sum())
    raise TypeError(f"no width is known of a {type(domain).__name__}")


def endless_regret(
    bound: Callable[[int], float], rounds: Sequence[int] = (10**3, 10**6, 10**9)
) -> Fields:
    """Return details on the regret of a learner without horizon: bounds after some rounds.

    Parameters
    ----------
    bound : callable
        Function of a number of rounds. The learner's decisions do not depend on this number.
    rounds : sequence of int
        Numbers of rounds.
    """
    return {UNPROVED: _ENDLESS, **{f"regret after {t:,} rounds": bound(t) for t in rounds}}


def without_regret(details: Named) -> Fields:
    """Return the details of a guarantee without those on regret."""
    return {name: value for name, value in details.items() if not name.startswith("regret")}


def growing_cost(eta: float, square: float, width: float, s: float) -> float:
    """Return the cost, for a step size `eta`, of noise that grows from 0 to scale `s`.

    It is eta rho^2 s^2 / 2 if eta rho^2 s <= w, and linear in s for larger s. `square` is rho^2,
    and `width` is the bound w on the reach of noise of scale 1.
    """
    if eta * square * s <= width:
        return 0.5 * eta * square * s * s
    return width * s - 0.5 * width * width / (eta * square)


def uniform_is_as_good(experts: int, horizon: int | None, bound: float | None) -> bool:
    """Whether a regret bound is no better than that of uniform draws, T (1 - 1/N)."""
    if horizon is None or bound is None or min(experts, horizon) < 2:
        return False
    # An infinite bound says that nothing is proved, not that nothing is learned.
    return horizon * (1.0 - 1.0 / experts) <= bound < math.inf


@dataclass(frozen=True, kw_only=True)
class LazyProblem:
    """Arguments of the regret bounds of the two coupled learners: a problem and its blocks.

    Attributes
    ----------
    horizon, dimension, block : int
        T, n, and the number m of rounds that share one decision.
    lipschitz, radius, diameter : float
        G, R and D in l2.
    unbounded : bool
        Whether decisions range over R^n, so that the domain is only the comparator class.
    """

    horizon: int
    dimension: int
    lipschitz: float
    radius: float
    diameter: float
    block: int = 1
    unbounded: bool = False

    @property
    def blocks(self) -> int:
        """Number of decisions, including that of an incomplete last block."""
        return -(-self.horizon // self.block)


def gibbs_regret(
    own: LazyProblem,
    inverse_temperature: float,
    regularization: float,
    *,
    clip: float = 0.0,
    cap: float = 0.0,
) -> RegretBound:
    """Return the bound of P-COMW: draws from exp(-beta (F + lam/2 ||x - c||^2)).

    Parameters
    ----------
    own : LazyProblem
        T, n, m, G, R and D.
    inverse_temperature, regularization : float
        beta (1/loss) and lam (loss/length^2).
    clip, cap : float
        Costs of clipped acceptance factors and of the cap on switches; see the page.
    """
    # The loss of a block is m G-Lipschitz, and there are ceil(T/m) blocks.
    terms = {
        "regularization": 0.5 * regularization * own.radius**2,
        "stability": 0.5 * (own.block * own.lipschitz) ** 2 * own.blocks / regularization,
        "entropy": entropy_term(own, inverse_temperature, regularization),
        "clip": clip,
        "cap": cap,
    }
    return RegretBound.of(terms)


def entropy_term(own: LazyProblem, inverse_temperature: float, regularization: float) -> float:
    """Return the cost (loss) of drawing from a Gibbs law instead of minimising.

    It is (n/beta)(1 + ln(beta G D T / n)), or G D T if that is at most n/beta. Over R^n:
    (n/beta)(ln(1/y) + (1 - y^2)/2) with y + G T sqrt(beta/(n lam)) = 1/y.
    """
    n = own.dimension
    scale = n / inverse_temperature
    if own.unbounded:
        pull = own.lipschitz * own.horizon * math.sqrt(inverse_temperature / (n * regularization))
        # The positive root of y^2 + pull y = 1, computed without cancellation.
        y = 2.0 / (pull + math.sqrt(pull * pull + 4.0))
        return scale * (-math.log(y) + 0.5 * (1.0 - y * y))
    whole = own.lipschitz * own.diameter * own.horizon
    return whole if whole <= scale else scale * (1.0 + math.log(whole / scale))


def best_inverse_temperature(own: LazyProblem, noise_to_signal: float) -> tuple[float, float]:
    """Return the (beta, lam) with the least bound for the given g = G sqrt(beta/lam).

    Fixed point of lam = (G/R) sqrt(m^2 ceil(T/m) + 2 n ell/g^2), at most thirty steps.
    """
    g2, n = noise_to_signal**2, own.dimension
    stability = float(own.block) ** 2 * own.blocks
    ell = 1.0
    for _ in range(30):
        lam = own.lipschitz / own.radius * math.sqrt(stability + 2.0 * n * ell / g2)
        beta = g2 * lam / own.lipschitz**2
        following = entropy_term(own, beta, lam) * beta / n
        if abs(following - ell) <= 1e-12 * ell:
            break
        ell = following
    return beta, lam


def leader_regret(
    own: LazyProblem,
    step_size: float,
    noise_scale: float,
    *,
    barrier: bool = False,
    clip: float = 0.0,
    cap: float = 0.0,
) -> RegretBound:
    """Return the bound of CTRL: minimisers of F + ||x - c||^2/(2 eta) + <Z, x>, Z of scale sigma.

    Parameters
    ----------
    own, clip, cap
        See `gibbs_regret`.
    step_size, noise_scale : float
        eta (length^2/loss) and sigma (loss/length).
    barrier : bool
        Whether a barrier keeps decisions inside. It is normalised to cost G D, and shrinking the
        comparator costs another G D.
    """
    noise = 0.5 * step_size * noise_scale**2 * own.dimension
    # In a bounded body, the noise also moves the minimum by at most ||Z|| R
    # (docs/privacy/oco_regret.md, "CTRL").
    if not own.unbounded:
        noise = min(noise, noise_scale * math.sqrt(own.dimension) * own.radius)
    terms = {
        "regularization": 0.5 * own.radius**2 / step_size,
        "stability": 0.5 * step_size * (own.block * own.lipschitz) ** 2 * own.blocks,
        "noise": noise,
        "barrier": 2.0 * own.lipschitz * own.diameter if barrier else 0.0,
        "clip": clip,
        "cap": cap,
    }
    return RegretBound.of(terms)


def best_step_size(own: LazyProblem, noise_scale: float) -> float:
    """Return eta = R / sqrt(m^2 G^2 ceil(T/m) + sigma^2 n), the minimiser of `leader_regret`."""
    rounds = (own.block * own.lipschitz) ** 2 * own.blocks
    return own.radius / math.sqrt(rounds + noise_scale**2 * own.dimension)
