"""Regret of exponential weights with sharing on noisy sums of batches, and its best parameters.

With nb = ceil(T / B) batches, pi the cost of the prior on nb steps (`share_log_prior`) and
lmgf(u) = log E exp(u Z_1) of the noise, whose law is symmetric:

* streams fixed in advance: pi / eta + nb (eta B^2 / 8 + lmgf(eta) / eta) + S floor(B / 2);
* streams that react: that plus min_u (log |C(nb, S)| + nb lmgf(u)) / u.

Randomised response replaces the terms of a batch (B = 1) by its own, see `learning_cost`.

The prior starts at a uniformly drawn expert, keeps it with probability 1 - sigma a round and moves
to each other one with probability sigma / (N - 1). Exponential weights on all sequences under it
lose to any one of them at most -log(its prior mass) / eta more.

Proof: ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpoco.accounting._search import least

__all__ = [
    "Plan",
    "ShareRegret",
    "best_share_rate",
    "log_class_size",
    "log_moment",
    "plan",
    "regret_of",
    "share_log_prior",
    "variance",
]


def share_log_prior(experts: int, rounds: int, switches: int, share_rate: float) -> float:
    """Return -log of the prior mass of any sequence of `rounds` experts with S switches.

    Parameters
    ----------
    experts, rounds : int
        At least 1.
    switches : int
        S; more than ``rounds - 1`` count as that many.
    share_rate : float
        sigma, in [0, 1 - 1/experts].

    Returns
    -------
    float
        log N + S log((N - 1) / sigma) - (rounds - 1 - S) log(1 - sigma). Sequences with fewer
        switches cost no more. Infinite for sigma = 0 with switches; 0 for a single expert.
    """
    if experts == 1:
        return 0.0
    moves = min(switches, rounds - 1)
    cost = math.log(experts) - (rounds - 1 - moves) * math.log1p(-share_rate)
    if moves == 0:
        return cost
    if share_rate == 0.0:
        return math.inf
    return cost + moves * (math.log(experts - 1) - math.log(share_rate))


def best_share_rate(experts: int, rounds: int, switches: int) -> float:
    """Return the sigma in [0, 1 - 1/experts] with the least `share_log_prior`."""
    if experts == 1 or rounds == 1:
        return 0.0
    return min(1.0 - 1.0 / experts, min(switches, rounds - 1) / (rounds - 1))


def log_class_size(experts: int, rounds: int, switches: int) -> float:
    """Return the log of the number of sequences of `rounds` experts with at most S switches.

    That is N sum_{c <= S} binom(rounds - 1, c) (N - 1)^c. O(S) time and memory, at most 2 million
    terms: those farther than 40 standard deviations from the largest are left out.
    """
    if experts == 1:
        return 0.0
    from scipy.special import betaln

    moves = rounds - 1
    most = min(switches, moves)
    # The terms are a binomial law's, with mean moves (N - 1) / N.
    peak = min(float(most), moves * (experts - 1) / experts)
    reach = min(1e6, 50.0 + 40.0 * math.sqrt(moves))
    counts = np.arange(max(0.0, math.floor(peak - reach)), min(most, math.ceil(peak + reach)) + 1.0)
    terms = (
        -math.log(moves + 1.0)
        - betaln(moves - counts + 1.0, counts + 1.0)
        + counts * math.log(experts - 1)
    )
    top = float(np.max(terms))
    return math.log(experts) + top + math.log(float(np.sum(np.exp(terms - top))))


@dataclass(frozen=True, slots=True)
class ShareRegret:
    """Bounds on the expected regret, in losses of [0, 1], against at most S switches.

    Attributes
    ----------
    terms : dict of str to float
        What the bound for streams fixed in advance is the sum of; empty if it is infinite.
    oblivious, adaptive : float
        The bounds for streams fixed in advance, and for all streams.
    """

    terms: dict[str, float]
    oblivious: float
    adaptive: float

    def bound(self, adversary: str) -> float:
        """Return the bound for "oblivious" or "adaptive" streams."""
        return self.adaptive if adversary == "adaptive" else self.oblivious

    def terms_for(self, adversary: str) -> dict[str, float]:
        """Return what that bound is the sum of; empty if it is infinite."""
        if adversary == "oblivious" or not math.isfinite(self.adaptive):
            return dict(self.terms) if adversary == "oblivious" else {}
        return {**self.terms, "noise of the comparator": self.adaptive - self.oblivious}


def log_moment(noise: str, scale: float, experts: int, rate: float) -> float:
    """Return log E exp(rate Z_1) of one coordinate of the noise; infinite where it is.

    For "coordinate_rr" (scale = 1 / epsilon) the largest over all losses l of the log moment of the
    estimate's error.
    """
    if noise == "none" or rate == 0.0:
        return 0.0
    x = rate * scale
    if noise == "gaussian":
        return 0.5 * x * x
    if noise == "coordinate_rr":
        return _response_moment(scale, experts, rate)
    if not x < 1.0:
        return math.inf
    if noise == "laplace":
        return -math.log1p(-x * x)
    # knorm: [(1 - x)^-N - (1 + x)^-N] / (2 x N), with y = N artanh(x) without cancellation.
    y = experts * math.atanh(x)
    return -0.5 * experts * math.log1p(-x * x) + _log_sinhc(y) + _log_artanhc(x)


def variance(noise: str, scale: float, experts: int) -> float:
    """Return the variance of one coordinate of the noise (randomised response: an upper bound)."""
    if noise == "none":
        return 0.0
    factor = {
        "gaussian": 1.0,
        "laplace": 2.0,
        "knorm": (experts + 1.0) * (experts + 2.0) / 3.0,
    }
    if noise == "coordinate_rr":
        return 0.25 * experts / math.tanh(0.5 / scale) ** 2
    return factor[noise] * scale * scale


def learning_cost(noise: str, scale: float, experts: int, batch: int, rate: float) -> float:
    """Return what a batch costs the learner: eta B^2/8 from its losses and the rest from noise.

    For randomised response both at once: with a = eta N / (2 tanh(epsilon / 2)) and
    phi(a) = e^a - 1 - a, (phi(-a) + e^epsilon phi(a)) / ((1 + e^epsilon) N eta).
    """
    if noise == "coordinate_rr":
        a = rate * experts / (2.0 * math.tanh(0.5 / scale))
        odds = math.exp(-1.0 / scale)
        return (odds * _bend(-a) + _bend(a)) / ((1.0 + odds) * experts * rate)
    return 0.125 * rate * batch * batch + log_moment(noise, scale, experts, rate) / rate


def regret_of(
    experts: int,
    rounds: int,
    switches: int,
    noise: str,
    scale: float,
    batch: int,
    learning_rate: float,
    share_rate: float,
) -> ShareRegret:
    """Return the bounds over `rounds` rounds; infinite for learning rates past the moments."""
    if experts == 1:
        return ShareRegret({}, 0.0, 0.0)
    steps = -(-rounds // batch)
    prior = share_log_prior(experts, steps, switches, share_rate) / learning_rate
    cost = learning_cost(noise, scale, experts, batch, learning_rate)
    plain = 0.0 if noise == "coordinate_rr" else 0.125 * learning_rate * batch * batch
    inside = float(min(switches, rounds - 1) * (batch // 2))
    oblivious = prior + steps * cost + inside
    if not math.isfinite(oblivious):
        return ShareRegret({}, math.inf, math.inf)
    terms = {
        "prior": prior,
        "learning": steps * plain,
        "noise": steps * (cost - plain),
        "switches inside batches": inside,
    }
    return ShareRegret(
        {name: value for name, value in terms.items() if value > 0.0},
        oblivious,
        oblivious + _comparator_noise(experts, steps, switches, noise, scale),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """Batch, learning rate and share rate with the least bound found, and the bounds."""

    batch: int
    learning_rate: float
    share_rate: float
    regret: ShareRegret


def plan(
    experts: int,
    rounds: int,
    switches: int,
    noise: str,
    scale: float,
    adversary: str,
    batch: int | None = None,
    learning_rate: float | None = None,
    share_rate: float | None = None,
) -> Plan:
    """Return the least bound over whatever is left open (None).

    The best share rate is known in closed form, the bound has one minimum in the learning rate,
    and batches are searched on a geometric grid that is refined around its best. Some ms.
    """

    def at(size: int) -> Plan:
        steps = -(-rounds // size)
        sigma = best_share_rate(experts, steps, switches) if share_rate is None else share_rate
        eta = learning_rate
        if eta is None:
            prior = share_log_prior(experts, steps, switches, sigma)
            eta = _best_rate(
                noise,
                scale,
                prior / steps,
                0.25 * size * size + variance(noise, scale, experts),
                lambda rate: rate * learning_cost(noise, scale, experts, size, rate),
            )
        regret = regret_of(experts, rounds, switches, noise, scale, size, eta, sigma)
        return Plan(size, eta, sigma, regret)

    def bound(candidate: Plan) -> float:
        return candidate.regret.bound(adversary)

    if batch is not None or noise == "coordinate_rr" or experts == 1:
        return at(1 if batch is None else batch)
    sizes = sorted({min(rounds, round(2.0 ** (k / 4.0))) for k in range(165)})
    tried = {size: at(size) for size in sizes}
    low, high = 1, rounds
    while True:
        best = min(tried.values(), key=bound)
        low = max((size for size in tried if size < best.batch), default=best.batch)
        high = min((size for size in tried if size > best.batch), default=best.batch)
        fresh = {(low + best.batch) // 2, (best.batch + high + 1) // 2} - tried.keys()
        if not fresh or high - low <= best.batch // 512:
            return best
        tried.update((size, at(size)) for size in fresh)


def _comparator_noise(experts: int, steps: int, switches: int, noise: str, scale: float) -> float:
    """Return a bound on the expected largest noise of a sequence of experts: min over u."""
    if noise == "none":
        return 0.0
    size = log_class_size(experts, steps, switches)

    def moment(rate: float) -> float:
        return log_moment(noise, scale, experts, rate)

    u = _best_rate(noise, scale, size / steps, variance(noise, scale, experts), moment)
    return (size + steps * moment(u)) / u


def _best_rate(
    noise: str, scale: float, start: float, spread: float, cost: Callable[[float], float]
) -> float:
    """Return the minimiser of (start + cost(rate)) / rate, cost convex and about spread rate^2/2.

    Such a quotient has one minimum: golden section in log(rate).
    """
    limit = (1.0 - 1e-12) / scale if noise in ("knorm", "laplace") else math.inf
    if not 0.0 < start < math.inf:  # a single expert; or a bound that is infinite anyway
        return min(1.0, 0.5 * limit)
    guess = math.sqrt(2.0 * start / spread)
    low, high = math.log(1e-4 * min(guess, limit)), math.log(min(1e4 * guess, limit))

    def value(log_rate: float) -> float:
        rate = math.exp(log_rate)
        return (start + cost(rate)) / rate

    return math.exp(least(value, low, high))


def _response_moment(scale: float, experts: int, rate: float) -> float:
    """Return max over l in [0, 1] of log E exp(rate (estimate_1 - l)) of randomised response.

    With x = l - 1/2 it is -rate x + log(A + B x), concave in x.
    """
    slope = math.tanh(0.5 / scale)
    a = rate * experts / (2.0 * slope)
    if a > 700.0:
        return math.inf
    level = 1.0 + (math.cosh(a) - 1.0) / experts
    tilt = 2.0 * slope * math.sinh(a) / experts
    x = min(0.5, max(-0.5, 1.0 / rate - level / tilt))
    return max(0.0, -rate * x + math.log(level + tilt * x))


def _bend(a: float) -> float:
    """Return e^a - 1 - a."""
    if abs(a) < 0.01:
        return 0.5 * a * a * (1 + a / 3 * (1 + a / 4 * (1 + a / 5 * (1 + a / 6 * (1 + a / 7)))))
    return math.expm1(a) - a if a < 700.0 else math.inf


def _log_sinhc(y: float) -> float:
    """Return log(sinh(y) / y) for y > 0."""
    if y < 0.05:
        z = y * y
        return z * (1.0 / 6.0 - z * (1.0 / 180.0 - z * (1.0 / 2835.0 - z / 37800.0)))
    return y + math.log1p(-math.exp(-2.0 * y)) - math.log(2.0 * y)


def _log_artanhc(x: float) -> float:
    """Return log(artanh(x) / x) for 0 < x < 1."""
    if x < 0.05:
        z = x * x
        return math.log1p(z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z / 11)))))
    return math.log(math.atanh(x) / x)
