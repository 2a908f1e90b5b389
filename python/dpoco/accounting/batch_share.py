"""Accounting of the batched share: exponential weights on noisy sums of batches.

Claim: every round enters the released sum of one batch only, and decisions are post-processing of
the sums. So all decisions together, over any number of rounds and for streams that react to them,
are as private as one release. Between neighbouring streams it changes by at most 1 in max-norm, N
in l1 and, after subtracting the common shift, sqrt(N - (N mod 2) / N) in l2:

* "knorm", density exp(-max |z| / k): 1/k, purely; "laplace" of scale b: N/b, purely;
* "gaussian" of deviation s: mu = sqrt(N - (N mod 2) / N) / s, with N truncated tails.

The printed algorithm adds Laplace noise of scale 1/epsilon and claims epsilon; N epsilon is true.

Proof: ``docs/privacy/batch_share.md``. Source: Asi, Raman and Saha, "Tracking the best
expert privately", algorithm 3, corrected.

Regret, with nb = ceil(T / B) batches, pi the cost of the prior on nb steps (`share_log_prior`) and
lmgf(u) = log E exp(u Z_1) of the noise, whose law is symmetric:

* streams fixed in advance: pi / eta + nb (eta B^2 / 8 + lmgf(eta) / eta) + S floor(B / 2);
* streams that react: that plus min_u (log |C(nb, S)| + nb lmgf(u)) / u.

The prior starts at a uniformly drawn expert, keeps it with probability 1 - sigma in each round and
moves to each other expert with probability sigma / (N - 1). Exponential weights on all sequences
under this prior exceed the loss of any one sequence by at most -log(its prior mass) / eta.

Proof: ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpoco._validation import (
    LARGEST_HORIZON,
    MissingHorizonError,
    choice,
    positive_float,
    positive_int,
    real_float,
    whole_number,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import CLIPPED_LOSSES
from dpoco.accounting.gaussian import charged_gaussian_mu, least, truncation_mass
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.noisy_max import raise_scale
from dpoco.accounting.plan import Forecast, Plan
from dpoco.accounting.release import DEFAULT_NUMERICS, LATTICE_NOISES, NUMERICS, batch_grid
from dpoco.accounting.statement import expert_guarantee
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.loss import sum_up
from dpoco.privacy.mechanisms.base import Nothing
from dpoco.privacy.mechanisms.batch_release import BatchRelease, movement
from dpoco.privacy.records import Description, limits
from dpoco.privacy.special import special_functions

__all__ = ["SharePlan", "ShareTuning", "calibrate", "find_noise", "guarantee", "make_plan",
           "noise_scale", "regret"]  # fmt: skip


def share_log_prior(experts: int, rounds: int, switches: int, share_rate: float) -> float:
    """Return -log of the prior mass of any sequence of `rounds` experts with S switches.

    Parameters
    ----------
    experts, rounds : int
        At least 1.
    switches : int
        S; larger values count as ``rounds - 1``.
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
    """Return the sigma in [0, 1 - 1/experts] with the least `share_log_prior`, <= S / (T - 1).

    Parameters
    ----------
    experts, rounds, switches : int
        N, T and S; larger S count as T - 1.
    """
    if experts == 1 or rounds == 1:
        return 0.0
    # The maximum of a binomial likelihood, at most the rate at which the prior forgets everything.
    return min(1.0 - 1.0 / experts, min(switches, rounds - 1) / (rounds - 1))


def log_class_size(experts: int, rounds: int, switches: int) -> float:
    """Return the log of the number of sequences of `rounds` experts with at most S switches.

    This is N sum_{c <= S} binom(rounds - 1, c) (N - 1)^c. Time and memory are O(S), for at most 2
    million terms: geometric series bound the terms that are more than 40 standard deviations, or a
    million places, away from the largest.
    """
    if experts == 1:
        return 0.0
    betaln = special_functions().betaln
    moves = rounds - 1
    most = min(switches, moves)
    # The terms are proportional to a binomial law with mean moves (N - 1) / N.
    peak = min(float(most), moves * (experts - 1) / experts)
    reach = min(1e6, 50.0 + 40.0 * math.sqrt(moves))
    low, high = max(0.0, math.floor(peak - reach)), min(float(most), math.ceil(peak + reach))
    counts = np.arange(low, high + 1.0)
    terms = (
        -math.log(moves + 1.0)
        - betaln(moves - counts + 1.0, counts + 1.0)
        + counts * math.log(experts - 1)
    )
    top = float(np.max(terms))
    weights = np.exp(terms - top)
    total = float(weights.sum())
    # Terms fall ever faster away from the peak, so the omitted terms on a side are at most the
    # geometric series after the last summed term.
    if low > 0.0:
        down = low / ((moves - low + 1.0) * (experts - 1.0))
        total += float(weights[0]) * down / (1.0 - down)
    if high < most:
        up = (moves - high) * (experts - 1.0) / (high + 1.0)
        total += float(weights[-1]) * up / (1.0 - up)
    # The factor covers the errors of the logarithms of beta functions.
    return (math.log(experts) + top + math.log(total)) * (1.0 + 1e-14)


@dataclass(frozen=True)
class Noise:
    """Symmetric noise that is added to each entry of a sum in the batched share.

    Attributes
    ----------
    law : {"knorm", "gaussian", "laplace", "none"}
        Law as in `BatchShare`, or "none".
    scale : float
        Scale of the law.
    experts : int
        N.
    """

    law: str
    scale: float
    experts: int

    def log_moment(self, rate: float) -> float:
        """Return log E exp(rate Z_1) of one coordinate of the noise; may be infinite.

        Parameters
        ----------
        rate : float
            At least 0, per unit of loss. The laws are symmetric, so the sign does not matter.
        """
        if self.law == "none" or rate == 0.0:
            return 0.0
        x = rate * self.scale
        if self.law == "gaussian":
            return 0.5 * x * x
        # The tails of these laws fall like e^(-|z| / scale), so moments are infinite beyond that
        # rate.
        if not x < 1.0:
            return math.inf
        if self.law == "laplace":
            return -math.log1p(-x * x)
        # knorm: [(1 - x)^-N - (1 + x)^-N] / (2 x N), computed with y = N artanh(x) to avoid
        # cancellation.
        y = self.experts * math.atanh(x)
        return -0.5 * self.experts * math.log1p(-x * x) + _log_sinhc(y) + _log_artanhc(x)

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        n = self.experts
        cube = (n + 1.0) * (n + 2.0) / 3.0
        factor = {"none": 0.0, "gaussian": 1.0, "laplace": 2.0, "knorm": cube}[self.law]
        return factor * self.scale * self.scale

    def batch_cost(self, batch: int, rate: float) -> float:
        """Return a batch's cost to the learner: eta B^2/8 from its losses, the rest from noise.

        Parameters
        ----------
        batch : int
            B.
        rate : float
            eta > 0.

        Returns
        -------
        float
            In units of loss; infinite for rates at which moments are infinite.
        """
        return 0.125 * rate * batch * batch + self.log_moment(rate) / rate

    def largest(self, steps: int, switches: int) -> float:
        """Return a bound on the expected largest sum along a sequence of experts: min over u.

        Parameters
        ----------
        steps, switches : int
            Number of batches, and of switches of the compared sequences.
        """
        if self.law == "none":
            return 0.0
        size = log_class_size(self.experts, steps, switches)
        # The bound holds for any u > 0: an inexact minimum only makes it a little larger.
        u = self.best_rate(size / steps, self.variance, self.log_moment)
        return (size + steps * self.log_moment(u)) / u

    def best_rate(self, start: float, spread: float, cost: Callable[[float], float]) -> float:
        """Return the minimiser of (start + cost(rate)) / rate, cost convex, about spread rate^2/2.

        Such a quotient has one minimum, which we search for in log(rate).

        Parameters
        ----------
        start : float
            Cost that is spread over the rounds: of a prior, or the log of a number of sequences.
        spread : float
            Approximate second derivative of `cost` at 0, which determines where the search begins.
        cost : callable
            Takes a rate; infinite for rates at which moments of the noise are infinite.
        """
        # Moments are infinite for rates of at least 1 / scale.
        limit = (1.0 - 1e-12) / self.scale if self.law in ("knorm", "laplace") else math.inf
        if not 0.0 < start < math.inf:  # a single expert, or an infinite bound
            return min(1.0, 0.5 * limit)
        guess = math.sqrt(2.0 * start / spread)
        low, high = math.log(1e-4 * min(guess, limit)), math.log(min(1e4 * guess, limit))

        def value(log_rate: float) -> float:
            rate = math.exp(log_rate)
            return (start + cost(rate)) / rate

        return math.exp(least(value, low, high))


class Schedule(NamedTuple):
    """When weights are updated, and by how much.

    Attributes
    ----------
    batch : int
        Rounds B between two updates.
    learning_rate, share_rate : float
        eta per unit of loss, and sigma.
    """

    batch: int
    learning_rate: float
    share_rate: float


@dataclass(frozen=True, slots=True)
class ShareRegret:
    """Bounds on the expected regret, in losses of [0, 1], against at most S switches.

    Attributes
    ----------
    terms : dict of str to float
        Terms of the bound for streams fixed in advance; empty if the bound is infinite.
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
        """Return the terms of that bound; empty if it is infinite."""
        if adversary == "oblivious" or not math.isfinite(self.adaptive):
            return dict(self.terms) if adversary == "oblivious" else {}
        return {**self.terms, "noise of the comparator": self.adaptive - self.oblivious}


def bound_regret(noise: Noise, rounds: int, switches: int, schedule: Schedule) -> ShareRegret:
    """Return the bounds over `rounds` rounds; infinite for rates at which moments are infinite.

    Parameters
    ----------
    noise : Noise
        Noise that is added to the sums.
    rounds, switches : int
        T and S; larger S count as T - 1.
    schedule : Schedule
        Batch length and rates.

    Returns
    -------
    ShareRegret
        In losses of [0, 1]. Computing it takes a few moments of the noise, and O(S) for streams
        that react.
    """
    if noise.experts == 1:
        return ShareRegret({}, 0.0, 0.0)
    batch, eta, sigma = schedule
    # The proof also counts noise for the last batch, although it is never drawn.
    steps = -(-rounds // batch)
    prior = share_log_prior(noise.experts, steps, switches, sigma) / eta
    cost = noise.batch_cost(batch, eta)
    plain = 0.125 * eta * batch * batch
    # If a comparator switches inside a batch, we compare with the expert that it keeps longest
    # there (docs/privacy/batch_share.md, "Regret").
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
    """Return the least bound over all arguments that are None, and its schedule.

    The best share rate has a closed form, the bound has one minimum in the learning rate, and
    batches are searched on a geometric grid that is refined around its best point. Takes a few ms.

    Parameters
    ----------
    noise : Noise
        Noise that is added to the sums.
    rounds, switches : int
        T and S.
    adversary : {"oblivious", "adaptive"}
        The bound to minimise.
    batch, learning_rate, share_rate : optional
        Fixed values.

    Returns
    -------
    bound : float
        Infinite if no schedule has one.
    schedule : Schedule
        The schedule with this bound.
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
        return bound_regret(noise, rounds, switches, schedule).bound(adversary), schedule

    if batch is not None or n == 1:
        return at(1 if batch is None else batch)
    # The grid has ratios of 1.19, which are halved repeatedly around the best point. 2^41 exceeds
    # the longest horizon, 10^12.
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


def _log_sinhc(y: float) -> float:
    """Return log(sinh(y) / y) for y > 0."""
    # The two logarithms cancel for small y, where we use a series.
    if y < 0.05:
        z = y * y
        return z * (1.0 / 6.0 - z * (1.0 / 180.0 - z * (1.0 / 2835.0 - z / 37800.0)))
    return y + math.log1p(-math.exp(-2.0 * y)) - math.log(2.0 * y)


def _log_artanhc(x: float) -> float:
    """Return log(artanh(x) / x) for 0 < x < 1."""
    # The quotient is about 1 + x^2 / 3 there, so its logarithm would lose the digits of x^2.
    if x < 0.05:
        z = x * x
        return math.log1p(z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z / 11)))))
    return math.log(math.atanh(x) / x)


ADVERSARIES = ("oblivious", "adaptive")
# The law in words, and the norm of its sensitivity.
LAWS = {
    "knorm": "noise of density exp(-max|z|/scale)",
    "gaussian": "Gaussian noise",
    "laplace": "Laplace noise",
    "none": "no noise",
}


@dataclass(frozen=True)
class ShareTuning(Description):
    """Public numbers of the batched share.

    Attributes
    ----------
    experts : int
        N, at most 2^32.
    horizon : int or None
        Rounds T; None for an endless stream.
    switches : int
        S: the regret bound compares with sequences of experts with at most S switches.
    adversary : {"oblivious", "adaptive"}
        Streams for which the bound is stated: fixed in advance, or any.
    batch : int
        Rounds B between two updates.
    learning_rate : float
        eta, per unit of loss.
    share_rate : float
        sigma, 0 or in [1e-100, 1 - 1/N].
    floor : float
        Least weight, 0 or in [1e-100, 1/N]. It is positive for the published update only, which
        keeps weights above it instead of sharing them.
    """

    kind = "share_tuning"
    experts: int
    horizon: int | None
    adversary: str
    batch: int
    learning_rate: float
    switches: int = limits(zero=True)
    share_rate: float = limits(zero=True)
    floor: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Also check that the fields are consistent."""
        super().__post_init__()
        self.check_choice("adversary", ADVERSARIES)
        n, share, floor = self.experts, self.share_rate, self.floor
        positive_int("experts", n, maximum=2**32)
        if share != 0.0 and not 1e-100 <= share <= 1.0 - 1.0 / n:
            raise ValueError(f"share_rate must be 0 or in [1e-100, 1 - 1/experts]; got {share!r}")
        if floor != 0.0 and (share != 0.0 or not 1e-100 <= floor <= 1.0 / n):
            raise ValueError(f"floor must be 0 or in [1e-100, 1/experts]; got {floor!r}")

    @property
    def releases(self) -> int | None:
        """Number of noisy sums that decisions depend on; 0 if no round follows the first batch."""
        if self.experts == 1:
            return 0
        return None if self.horizon is None else (self.horizon - 1) // self.batch


SharePlan = Plan[BatchRelease | Nothing, ShareTuning, Forecast]


def find_noise(plan: SharePlan) -> Noise:
    """Return the noise of the sums, as the regret bounds use it; "none" without sums."""
    drawn, n = plan.mechanism.part(BatchRelease), plan.tuning.experts
    if drawn is None or drawn.scale == 0.0:
        return Noise("none", 0.0, n)
    return Noise(drawn.law, drawn.scale, n)


def guarantee(
    plan: SharePlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism; see `expert_guarantee`."""
    own, noise = plan.tuning, find_noise(plan)
    bounds = None if own.horizon is None else regret(plan, own.horizon)
    details: dict[str, float | str | None] = {
        "learning rate": own.learning_rate,
        "batch": float(own.batch),
        "share rate": own.share_rate,
    }
    # Only the published update has a floor; `dpoco.published.asi_tracking` makes its plans.
    if own.floor:
        details["least weight"] = own.floor
    if bounds is not None:
        details["regret bound, losses fixed in advance"] = bounds.oblivious
        details["regret bound, all losses"] = bounds.adaptive
        terms = bounds.terms_for(own.adversary)
        details.update({f"regret: {name}": value for name, value in terms.items()})
    conditions: tuple[str, ...] = (CLIPPED_LOSSES, "Each round enters one sum.")
    claimed = None
    if own.floor and noise.scale > 0.0:
        # The printed algorithm adds noise for one loss to each of N losses. N epsilon is true and
        # is stated (docs/privacy/batch_share.md, "The printed algorithm is not epsilon-private").
        claimed = (1.0 / noise.scale, 0.0)
        conditions += (
            f"AS PRINTED the budget of {claimed[0]:.6g} would be spent {own.experts} times, since "
            f"every round releases {own.experts} losses, each with noise for one.",
        )
    return expert_guarantee(
        plan.mechanism,
        own.experts,
        own.horizon,
        None if bounds is None else bounds.bound(own.adversary),
        None if bounds is None or noise.law == "none" else own.adversary,
        budget=budget,
        seeded=seeded,
        details=details,
        released=f"the decisions among {own.experts} experts by weights on noisy sums of losses "
        f"({LAWS[noise.law]}, batches of {own.batch})",
        reference="one noisy sum per record; docs/privacy/batch_share.md",
        conditions=conditions,
        claimed=claimed,
        calibration="paper" if own.floor else "tight",
    )


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    switches: int = 0,
    noise: str = "auto",
    adversary: str = "oblivious",
    learning_rate: float | None = None,
    batch: int | None = None,
    share_rate: float | None = None,
    nominal_horizon: int | None = None,
    numerics: str = DEFAULT_NUMERICS,
) -> SharePlan:
    """Return the least noise that meets `budget`, and the schedule of the least regret bound.

    Parameters
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds T; None for an endless stream.
    budget : Budget or None
        None adds no noise and gives no guarantee. With delta = 0 purely private noise is used.
    switches : int
        S: the regret is measured against sequences of experts with at most S switches.
    noise : {"auto", "knorm", "gaussian", "laplace"}
        "auto": "knorm", or "gaussian" if the budget has a delta and the bound is smaller.
    adversary : {"oblivious", "adaptive"}
        Which regret bound is minimised and stated: for streams fixed in advance, or for all.
    learning_rate : float, optional
        eta per unit of loss. None minimises the bound, as for `batch` and `share_rate`.
    batch : int, optional
        Rounds between two updates.
    share_rate : float, optional
        sigma, in [0, 1 - 1/N].
    nominal_horizon : int, optional
        Number of rounds for which the schedule of an endless stream is chosen.
    numerics : {"auto", "float", "lattice"}
        "lattice": sums and noise are exact integers, for "gaussian" and "laplace". "auto": lattice
        if possible, otherwise doubles.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments; for an endless stream without a nominal horizon if a
        batch, a learning rate or, with switches, a share rate is missing.
    CalibrationError
        If the noise cannot meet the budget.

    Notes
    -----
    Takes well below a second.
    """
    n = positive_int("experts", experts, maximum=2**32)
    if horizon is not None and nominal_horizon is not None:
        raise ValueError("nominal_horizon is for horizon=None")
    choice("noise", noise, ("auto", *(law for law in LAWS if law != "none")))
    choice("numerics", numerics, ("auto", *NUMERICS))
    choice("adversary", adversary, ADVERSARIES)
    # The search below chooses the free parameters.
    given = ShareTuning(
        experts=n,
        horizon=None if horizon is None else positive_int("horizon", horizon),
        switches=whole_number("switches", switches, high=LARGEST_HORIZON),
        adversary=adversary,
        batch=1 if batch is None else positive_int("batch", batch),
        learning_rate=1.0
        if learning_rate is None
        else positive_float("learning_rate", learning_rate),
        share_rate=0.0 if share_rate is None else real_float("share_rate", share_rate),
        floor=0.0,
    )
    rounds = given.horizon
    if nominal_horizon is not None:
        rounds = positive_int("nominal_horizon", nominal_horizon)
    laws = _candidates(n, noise, budget, known=rounds is not None)
    if rounds is not None:
        free = (
            None if batch is None else given.batch,
            None if learning_rate is None else given.learning_rate,
            None if share_rate is None else given.share_rate,
        )
        plans = [(search(law, rounds, given.switches, adversary, *free), law) for law in laws]
        # The first law is purely private, so another law must be strictly better.
        (_, best), law = min(plans, key=lambda found: found[0][0])
        given = replace(given, **best._asdict())
    else:
        law = laws[0]
        moves = share_rate is None and given.switches and n > 1
        if batch is None or learning_rate is None or moves:
            raise MissingHorizonError(
                "an endless stream (horizon=None) needs batch, learning_rate and, with switches, "
                "share_rate, or a nominal_horizon to choose them for"
            )
    return make_plan(given, law, numerics)


def make_plan(tuning: ShareTuning, noise: Noise, numerics: str) -> SharePlan:
    """Return the plan with this noise, in the requested arithmetic.

    Parameters
    ----------
    tuning : ShareTuning
        Experts, horizon and schedule.
    noise : Noise
        Law and scale of the added noise.
    numerics : {"auto", "float", "lattice"}
        "auto" uses doubles if no grid fits the noise and the batch.

    Raises
    ------
    ValueError
        If "lattice" is requested for a noise that has no lattice version.
    CalibrationError
        If no grid fits the noise and the batch.
    """
    law, grid = "knorm" if noise.law == "none" else noise.law, 0.0
    if numerics == "lattice" and noise.law not in ("none", *LATTICE_NOISES):
        raise ValueError("numerics 'lattice' is for noise 'gaussian' and 'laplace'")
    if numerics != "float" and noise.law in LATTICE_NOISES:
        try:
            grid = batch_grid(noise.experts, law, noise.scale, tuning.batch)
        except CalibrationError:
            if numerics == "lattice":
                raise
    drawn: BatchRelease | Nothing = Nothing("no decision depends on a sum")
    # If no sum is released, epsilon is 0, which a description of noise would not say.
    if tuning.releases != 0:
        drawn = BatchRelease(
            experts=tuning.experts, law=law, scale=noise.scale, batch=tuning.batch, grid=grid
        )
    made = Plan(drawn, tuning, Forecast(None, tuning.adversary))
    bounds = None if tuning.horizon is None else regret(made, tuning.horizon)
    if bounds is None:
        return made
    return replace(made, forecast=Forecast(bounds.bound(tuning.adversary), tuning.adversary))


def noise_scale(experts: int, noise: str, budget: Budget) -> float:
    """Return the least scale of `noise` that meets `budget`.

    Parameters
    ----------
    experts : int
        N.
    noise : {"knorm", "gaussian", "laplace"}
        Only "gaussian" uses delta.
    budget : Budget
        Budget for all releases; a round enters one sum only.

    Raises
    ------
    CalibrationError
        For Gaussian noise if delta is 0 or does not cover the truncated tails.
    """
    if choice("noise", noise, LAWS) == "none":
        raise ValueError("noise 'none' meets no budget")
    if noise == "gaussian":
        mu = charged_gaussian_mu(budget, truncation_mass(float(experts)))
        # With one expert, the sum does not change; a positive scale keeps the law of the noise
        # defined.
        return max(movement("gaussian", experts), 1e-3) / mu
    if not 1e-90 <= budget.epsilon <= 1e90:
        raise CalibrationError("noise can be scaled for epsilon in [1e-90, 1e90] only")
    factor = movement(noise, experts)
    # Rounding may give a scale whose epsilon exceeds the budget.
    return raise_scale(
        factor / budget.epsilon, lambda scale: sum_up((1, factor, scale)) <= budget.epsilon
    )


def regret(plan: SharePlan, rounds: int) -> ShareRegret | None:
    """Return the regret bounds of a plan after `rounds` rounds; None for the paper's update.

    For an endless stream, `rounds` may be any number; the bound holds for each.

    Parameters
    ----------
    plan : Plan
        Calibrated, or the user's own.
    rounds : int
        At least 1.
    """
    own = plan.tuning
    if own.floor:
        return None
    schedule = Schedule(own.batch, own.learning_rate, own.share_rate)
    return bound_regret(find_noise(plan), rounds, own.switches, schedule)


def _candidates(experts: int, noise: str, budget: Budget | None, *, known: bool) -> list[Noise]:
    """Return the laws to compare, the purely private one first.

    `known` says whether the number of rounds is known, for which bounds can be compared.
    """

    def law(name: str) -> Noise:
        return Noise(name, noise_scale(experts, name, budget) if budget else 0.0, experts)

    if budget is None or noise != "auto":
        return [law("none" if budget is None else noise)]
    laws = [law("knorm")]
    if budget.delta > 0.0 and experts > 1:
        try:
            laws.append(law("gaussian"))
        except CalibrationError:  # delta does not cover its tails
            return laws
    # Without a horizon we cannot compare bounds, so we choose the smaller variance.
    return laws if known else [min(laws, key=lambda each: each.variance)]
