"""Regret of exponential weights with sharing on noisy sums of batches, and its best parameters.

With nb = ceil(T / B) batches, pi the cost of the prior on nb steps (`share_log_prior`) and
lmgf(u) = log E exp(u Z_1) of the noise, whose law is symmetric:

* streams fixed in advance: pi / eta + nb (eta B^2 / 8 + lmgf(eta) / eta) + S floor(B / 2);
* streams that react: that plus min_u (log |C(nb, S)| + nb lmgf(u)) / u.

Randomised response replaces the terms of a batch (B = 1) by its own, see `Noise.batch_cost`.

The prior starts at a uniformly drawn expert, keeps it with probability 1 - sigma a round and moves
to each other one with probability sigma / (N - 1). Exponential weights on all sequences under it
lose to any one of them at most -log(its prior mass) / eta more.

Proof: ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpoco.accounting.gaussian import least
from dpoco.privacy.special import special_functions


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
    betaln = special_functions().betaln
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


@dataclass(frozen=True)
class Noise:
    """What is added to each entry of a sum: a law of the batched share, symmetric.

    Attributes
    ----------
    law : {"knorm", "gaussian", "laplace", "coordinate_rr", "none"}
        As of `BatchShare`, or "none".
    scale : float
        Its scale; 1 / epsilon of "coordinate_rr".
    experts : int
        N.
    """

    law: str
    scale: float
    experts: int

    def log_moment(self, rate: float) -> float:
        """Return log E exp(rate Z_1) of one coordinate of the noise; infinite where it is.

        For "coordinate_rr" the largest over all losses l of the log moment of the estimate's error.
        """
        if self.law == "none" or rate == 0.0:
            return 0.0
        x = rate * self.scale
        if self.law == "gaussian":
            return 0.5 * x * x
        if self.law == "coordinate_rr":
            return _response_moment(self.scale, self.experts, rate)
        if not x < 1.0:
            return math.inf
        if self.law == "laplace":
            return -math.log1p(-x * x)
        # knorm: [(1 - x)^-N - (1 + x)^-N] / (2 x N), with y = N artanh(x) without cancellation.
        y = self.experts * math.atanh(x)
        return -0.5 * self.experts * math.log1p(-x * x) + _log_sinhc(y) + _log_artanhc(x)

    @property
    def variance(self) -> float:
        """Variance of one coordinate (randomised response: an upper bound)."""
        n = self.experts
        if self.law == "coordinate_rr":
            return 0.25 * n / math.tanh(0.5 / self.scale) ** 2
        cube = (n + 1.0) * (n + 2.0) / 3.0
        factor = {"none": 0.0, "gaussian": 1.0, "laplace": 2.0, "knorm": cube}[self.law]
        return factor * self.scale * self.scale

    def batch_cost(self, batch: int, rate: float) -> float:
        """Return what a batch costs the learner: eta B^2/8 from its losses, the rest from noise.

        For randomised response both at once: with a = eta N / (2 tanh(epsilon / 2)) and
        phi(a) = e^a - 1 - a, (phi(-a) + e^epsilon phi(a)) / ((1 + e^epsilon) N eta).
        """
        if self.law == "coordinate_rr":
            a = rate * self.experts / (2.0 * math.tanh(0.5 / self.scale))
            odds = math.exp(-1.0 / self.scale)
            return (odds * _bend(-a) + _bend(a)) / ((1.0 + odds) * self.experts * rate)
        return 0.125 * rate * batch * batch + self.log_moment(rate) / rate

    def largest(self, steps: int, switches: int) -> float:
        """Return a bound on the expected largest sum along a sequence of experts: min over u."""
        if self.law == "none":
            return 0.0
        size = log_class_size(self.experts, steps, switches)
        u = self.best_rate(size / steps, self.variance, self.log_moment)
        return (size + steps * self.log_moment(u)) / u

    def best_rate(self, start: float, spread: float, cost: Callable[[float], float]) -> float:
        """Return the minimiser of (start + cost(rate)) / rate, cost convex, about spread rate^2/2.

        Such a quotient has one minimum, which is searched for in log(rate).
        """
        limit = (1.0 - 1e-12) / self.scale if self.law in ("knorm", "laplace") else math.inf
        if not 0.0 < start < math.inf:  # a single expert; or a bound that is infinite anyway
            return min(1.0, 0.5 * limit)
        guess = math.sqrt(2.0 * start / spread)
        low, high = math.log(1e-4 * min(guess, limit)), math.log(min(1e4 * guess, limit))

        def value(log_rate: float) -> float:
            rate = math.exp(log_rate)
            return (start + cost(rate)) / rate

        return math.exp(least(value, low, high))


class Schedule(NamedTuple):
    """When weights are updated, and by how much."""

    batch: int
    learning_rate: float
    share_rate: float


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


def regret_of(noise: Noise, rounds: int, switches: int, schedule: Schedule) -> ShareRegret:
    """Return the bounds over `rounds` rounds; infinite for learning rates past the moments."""
    if noise.experts == 1:
        return ShareRegret({}, 0.0, 0.0)
    batch, eta, sigma = schedule
    steps = -(-rounds // batch)
    prior = share_log_prior(noise.experts, steps, switches, sigma) / eta
    cost = noise.batch_cost(batch, eta)
    plain = 0.0 if noise.law == "coordinate_rr" else 0.125 * eta * batch * batch
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
    own = {name: value for name, value in terms.items() if value > 0.0}
    return ShareRegret(own, oblivious, oblivious + noise.largest(steps, switches))


def search(
    noise: Noise,
    rounds: int,
    switches: int,
    adversary: str,
    batch: int | None = None,
    learning_rate: float | None = None,
    share_rate: float | None = None,
) -> tuple[float, Schedule]:
    """Return the least bound over whatever is left open (None), and the schedule.

    The best share rate is known in closed form, the bound has one minimum in the learning rate,
    and batches are searched on a geometric grid that is refined around its best. Some ms.
    """
    n = noise.experts

    def at(size: int) -> tuple[float, Schedule]:
        steps = -(-rounds // size)
        sigma = best_share_rate(n, steps, switches) if share_rate is None else share_rate
        eta = learning_rate
        if eta is None:
            prior, spread = share_log_prior(n, steps, switches, sigma), 0.25 * size * size
            eta = noise.best_rate(
                prior / steps,
                spread + noise.variance,
                lambda rate: rate * noise.batch_cost(size, rate),
            )
        schedule = Schedule(size, eta, sigma)
        return regret_of(noise, rounds, switches, schedule).bound(adversary), schedule

    if batch is not None or noise.law == "coordinate_rr" or n == 1:
        return at(1 if batch is None else batch)
    sizes = sorted({min(rounds, round(2.0 ** (k / 4.0))) for k in range(165)})
    tried = {size: at(size) for size in sizes}
    while True:
        size = min(tried, key=lambda size: tried[size][0])
        low = max((each for each in tried if each < size), default=size)
        high = min((each for each in tried if each > size), default=size)
        fresh = {(low + size) // 2, (size + high + 1) // 2} - tried.keys()
        if not fresh or high - low <= size // 512:
            return tried[size]
        tried.update((each, at(each)) for each in fresh)


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
