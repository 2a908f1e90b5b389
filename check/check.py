"""Prove in ball arithmetic what guarantees state: delta(epsilon) <= delta, from their numbers.

    python check/check.py guarantee.json ...

A file holds one guarantee as JSON, or a list of them. For each, the curve of its mechanism is
evaluated by another route than the library's, in intervals that contain the exact value, and the
truncated tails are added. "proved" is a strict inequality of such intervals (an equality where
delta is 0). What cannot be proved is "not proved", with the least delta that could be.

Exit status: 0 everything proved, 1 something not proved, 2 not a guarantee.

Written from the pages in ``docs/privacy``, not from the code: this file imports nothing of dpoco,
and takes its formulas from nowhere else. Orders and tilts are searched in rough arithmetic; only
the last evaluation counts.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flint import acb, arb, ctx

BITS = 256
ROUGH = 64  # bits of a search
NEVER = arb("+inf")
Curve = Callable[[float], arb]
Moments = Callable[[arb], arb]  # order -> log E_Q (dP/dQ)^order


# -- Gaussian curves -------------------------------------------------------------------------------


def normal(x: arb) -> arb:
    """Return the normal distribution function."""
    return (-x / arb(2).sqrt()).erfc() / 2


def gaussian(epsilon: arb, mu: arb) -> arb:
    """Return delta at any real epsilon (gaussian.md, Theorem 1)."""
    if mu == 0:
        return arb(0) if epsilon >= 0 else -epsilon.expm1()
    return normal(mu / 2 - epsilon / mu) - epsilon.exp() * normal(-mu / 2 - epsilon / mu)


# -- Conversions -----------------------------------------------------------------------------------


def least(function: Callable[[float], float], low: float, high: float) -> float:
    """Return about where a function of one minimum is least on [low, high]."""
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    inner, outer = high - golden * (high - low), low + golden * (high - low)
    at_inner, at_outer = function(inner), function(outer)
    for _ in range(50):
        if at_inner < at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - golden * (high - low)
            at_inner = function(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + golden * (high - low)
            at_outer = function(outer)
    return 0.5 * (low + high)


def rough(function: Callable[[float], arb]) -> Callable[[float], float]:
    """Return `function` in few bits, infinite where it is not a number."""

    def value(x: float) -> float:
        kept, ctx.prec = ctx.prec, ROUGH
        try:
            result = float(function(x).mid())
        finally:
            ctx.prec = kept
        return result if math.isfinite(result) else math.inf

    return value


def converted(moments: Moments, epsilon: float, largest: float = math.inf) -> arb:
    """Return the delta that log moments prove (gaussian.md, Theorem 4), at the best order.

    `largest` is the supremum of order - 1.
    """

    def log_delta(log_t: float) -> arb:
        t = arb(log_t).exp()
        return moments(1 + t) - t * epsilon - t.log() - (1 + t) * (1 / t).log1p()

    ends = math.log(1e-4), math.log(min(1e7, largest * (1.0 - 1e-9)))
    return log_delta(least(rough(log_delta), *ends)).exp()


def zcdp(rho: arb, epsilon: float) -> arb:
    """Return the delta of rho-zCDP."""
    return converted(lambda a: a * (a - 1) * rho, epsilon)


def pure(epsilon: float, total: arb) -> arb:
    """Return the delta of pure privacy: that of a randomised response."""
    if arb(epsilon) >= total:
        return arb(0)
    return (1 - (epsilon - total).exp()) / (1 + (-total).exp())


# -- Coins -----------------------------------------------------------------------------------------


def coin_moment(order: arb, first: arb, second: arb) -> arb:
    """Return the log moment of two coins, the larger of both directions."""
    ways = [
        x**order * y ** (1 - order) + (1 - x) ** order * (1 - y) ** (1 - order)
        for x, y in ((first, second), (second, first))
    ]
    return ways[0].max(ways[1]).log()


def coupled_curve(record: dict[str, Any], mu: arb) -> Curve:
    """Return the curve of Gaussian draws with stay-or-switch bits (couplings.md, claim)."""
    p, w, c = arb(record["forced_switch"]), arb(record["factor_floor"]), arb(record["shift"])
    later = record["later_bits"] if c > 0 else 0
    if p == 1:
        return lambda epsilon: gaussian(arb(epsilon), mu)
    switch = 1 - (1 - p) * w
    pairs = (((p, 1 - p), (switch, 1 - switch)), ((switch, 1 - switch), (p, 1 - p)))
    moved = 1 - (1 - p) * (-c).exp()
    rare, step = p, (moved / p).log()
    if not p + moved <= 1:
        rare, step = 1 - moved, ((1 - p) / (1 - moved)).log()

    def delta(epsilon: float) -> arb:
        found = arb(0)
        for a, b in pairs:
            if later:
                value = line_integral(epsilon, mu, a, b, later, rare, step)
            else:
                value = sum(
                    (x * gaussian(epsilon - (x / y).log(), mu) for x, y in zip(a, b, strict=True)),
                    arb(0),
                )
            found = found.max(value)
        return found

    return delta


def line_integral(
    epsilon: float, mu: arb, a: tuple[arb, arb], b: tuple[arb, arb], n: int, rare: arb, step: arb
) -> arb:
    """Return delta of a coin, n three-outcome bits and draws of `mu` (couplings.md, evaluation)."""
    losses = [(x / y).log() for x, y in zip(a, b, strict=True)]

    def transform(z: Any) -> Any:
        coin = sum(x * (z * loss).exp() for x, loss in zip(a, losses, strict=True))
        bit = 1 + rare * (((z + 1) * step).exp() - 1) * (1 - (-z * step).exp())
        return coin * bit**n * (mu * mu * z * (z + 1) / 2 - z * epsilon).exp()

    return inverted(transform, mu)


def inverted(transform: Callable[[Any], Any], mu: arb) -> arb:
    """Return 1/(2 pi i) times the integral of transform(z) / (z (z + 1)) over c + iR.

    `transform` is E e^(z (L - epsilon)) with a Gaussian part of parameter `mu` in L, so that its
    modulus on the line is at most its value at c times e^(-mu^2 u^2 / 2).
    """
    c = math.exp(
        least(
            rough(lambda x: (transform(arb(x).exp()) / (arb(x).exp() * (1 + arb(x).exp()))).log()),
            math.log(1e-3),
            math.log(1e5),
        )
    )
    size = transform(arb(c))
    reach = math.sqrt(2.0 * 60.0) / float(mu.mid())  # e^-60 of the value at c

    def integrand(u: Any, analytic: bool) -> Any:
        z = c + acb(0, 1) * u
        return transform(z) / (z * (z + 1)) / size

    kept, ctx.prec = ctx.prec, 128
    try:
        parts = acb.integral(integrand, 0, reach, rel_tol=arb(2) ** -50, abs_tol=arb(2) ** -70)
    finally:
        ctx.prec = kept
    rest = (-((mu * reach) ** 2) / 2).exp() / reach
    return size * (parts.real + rest.union(-rest)) / arb.pi()


# -- Draws by objective perturbation ---------------------------------------------------------------


def tilted_curve(record: dict[str, Any]) -> Curve:
    """Return the curve of at most `cap` tilted minima with bits (objective_perturbation.md)."""
    ratio, b, cap = arb(record["sensitivity_ratio"]), arb(record["b"]), record["cap"]
    below = min(record["rank"], record["dimension"])
    above = min(record["rank"], record["dimension"] - below)
    if record["relation"] != "replace":
        above = 0
    person = record["kind"] == "renyi_of_person"
    if (b == 0 or below == 0) and not person:
        return coupled_curve(record, ratio * arb(cap).sqrt())
    if cap == 0:
        return lambda epsilon: arb(0)
    p, w, c = arb(record["forced_switch"]), arb(record["factor_floor"]), arb(record["shift"])

    def changed(a: arb) -> arb:
        if not person:
            return coin_moment(a, p, 1 - (1 - p) * w)
        rest, most = c * (record["block"] - 1) / record["block"], arb(0)
        for q in range(1, record["together"] + 1):  # rounds of hers in one block
            coin = coin_moment(a, p, 1 - (1 - p) * w**q * (-rest).exp())
            most = most.max(coin * record["rounds"] / q)
        return most

    def moments(a: arb) -> arb:
        draw = a * (a - 1) * ratio**2 / 2
        draw += below * ((1 - a) * b.log1p() - (-(a - 1) * b).log1p())
        draw += above * (a * b.log1p() - (a * b).log1p())
        total = cap * draw
        if p < 1:
            total += changed(a)
            if record["later_bits"] and c > 0:
                total += record["later_bits"] * coin_moment(a, p, 1 - (1 - p) * (-c).exp())
        return total

    return lambda epsilon: converted(moments, epsilon, 1.0 / record["b"])


# -- Bounded range ---------------------------------------------------------------------------------


def range_moment(a: arb, r: arb) -> arb:
    """Return the largest log moment of range r (bounded_range.md).

    The moment at t is (A y^b - B y^(b+1)) / (1 - e^-r), y = e^t; its maximum over all y > 0 bounds
    it, wherever that lies.
    """
    b = a - 1
    if r == 0:
        return arb(0)
    first, second = -(-a * r).expm1(), (-r).exp() * -(-b * r).expm1()
    top = b * first / (a * second)
    return b * top.log() + (first / (a * -(-r).expm1())).log()


def range_curve(record: dict[str, Any]) -> Curve:
    """Return the curve of `count` releases of bounded range."""
    r, count = arb(record["range"]), record["count"]

    def delta(epsilon: float) -> arb:
        if arb(epsilon) >= count * r:
            return arb(0)
        if count == 1:
            return (1 - ((epsilon - r) / 2).exp()) ** 2 / (1 - (-r).exp())
        return (
            pure(epsilon, count * r)
            .min(zcdp(count * r * r / 8, epsilon))
            .min(converted(lambda a: count * range_moment(a, r), epsilon))
        )

    return delta


def pure_moment(a: arb, r: arb) -> arb:
    """Return the largest log moment of pure privacy r."""
    return (((a * r).exp() + ((1 - a) * r).exp()) / (1 + r.exp())).log()


def grown(
    record: dict[str, Any], groups: list[tuple[int, arb, arb, arb]]
) -> list[tuple[int, arb, arb, arb]]:
    """Return groups times the records of a person that can have entered by their end.

    As many as fit into the rounds so far (participation.md, Theorems 4 and 5).
    """
    forced, others = record["forced"], (record["arms"] - 1) * record["forced"]
    found = []
    for end, last, total, squares in groups:
        rounds = max(forced, record["batch"] * end) + others
        many = min(record["rounds"], 1 + (rounds - 1) // record["separation"])
        found.append((end, many * last, many * total, many**2 * squares))
    return found


def decaying_groups(record: dict[str, Any]) -> list[tuple[int, arb, arb, arb]]:
    """Return groups of f(j) = j^e / (j + o): (the last j, the last f, sum of f, sum of f^2).

    Beyond the single ones f^n is (x + o)^(n (e - 1)), which is convex, times (x / (x + o))^(n e),
    which grows: at most its last value times an integral from half before to half behind.
    """
    power, offset, terms = arb(record["exponent"]), record["offset"], record["terms"]
    groups = []
    for j in range(1, min(terms, 1024) + 1):
        f = arb(j) ** power / (j + offset)
        groups.append((j, f, f, f * f))
    done = len(groups)
    while done < terms:
        end = min(terms, done + max(1, done // 128))
        f = arb(end) ** power / (end + offset)
        fading = (arb(end) / (end + offset)) ** power
        sums = []
        for n in (1, 2):
            q = n * (power - 1) + 1
            low, high = arb(done + offset) + arb(0.5), arb(end + offset) + arb(0.5)
            area = (high / low).log() if q == 0 else (high**q - low**q) / q
            sums.append(fading**n * area)
        groups.append((end, f, sums[0], sums[1]))
        done = end
    return groups


def decaying_curve(record: dict[str, Any]) -> Curve:
    """Return the curve of selections of decaying range (polyhedral_frank_wolfe.md)."""
    reach, spread = arb(record["range"]), arb(record["spread"])
    bounded = record["law"] == "bounded_range"
    moment, cost = (range_moment, arb(1) / 8) if bounded else (pure_moment, arb(1) / 2)
    groups = decaying_groups(record)
    if record["kind"] == "selections_of_person":
        groups = grown(record, groups)
    total = reach * sum((each[2] for each in groups), arb(0))
    rho = cost * spread**2 * sum((each[3] for each in groups), arb(0))

    def moments(a: arb) -> arb:
        # m(r) / r^2 does not increase in r: the last and smallest range of a group bounds it.
        rows = ((moment(a, reach * last), last, squares) for _, last, _, squares in groups)
        found = sum((m / last**2 * squares for m, last, squares in rows), arb(0))
        return found.min(a * (a - 1) * rho)

    def delta(epsilon: float) -> arb:
        if arb(epsilon) >= total:
            return arb(0)
        ways = pure(epsilon, total).min(zcdp(rho, epsilon))
        return ways if spread < reach else ways.min(converted(moments, epsilon))

    return delta


# -- The oblivious tracker -------------------------------------------------------------------------


def tracker_curve(record: dict[str, Any]) -> Curve:
    """Return the curve of the tracker's coin and flagged draws (tracker_accounting.md)."""
    eta, forced, batch = arb(record["learning_rate"]), arb(record["forced_switch"]), record["batch"]
    horizon, cap = record["horizon"], record["max_resamples"]
    batches = math.inf if horizon is None else -(-horizon // batch)
    if record["experts"] == 1 or batches == 1 or cap == 0:
        return lambda epsilon: arb(0)
    others = record["experts"] - 1
    tau = arb(1)
    if record["prior"] == "share" and record["share_rate"]:
        stay, move = 1 - arb(record["share_rate"]), arb(record["share_rate"]) / others
        tau = (stay - move) / (stay + move)
    grid = arb(2) ** -50  # of a uniform variate and its rounding
    kept = (1 - forced) * (-eta * batch).exp()
    chance = (1 - kept + grid).min(arb(1))
    ranges = [2 * eta * tau]
    decay = tau**batch
    later = batches - 2
    smallest = grid if kept == 0 else kept
    if forced < 1:
        if not kept > 4 * grid:
            return lambda epsilon: NEVER
        lowest = forced - grid
        shift = eta + ((1 + grid / smallest) / (1 - grid / smallest)).log()
        coin = lowest, 1 - (1 - lowest) * (-shift).exp()
    flag_all = (cap is not None) and cap < batches - 1

    def flagged(m: arb, q: arb) -> arb:
        return (1 + q * m.expm1()).log()

    def series(a: arb, count: float, q: arb) -> arb:
        """Return a bound on the sum of F_q(m(r_k)), 1 <= k <= count."""
        if count < 1:
            return arb(0)
        if not decay < 1:
            return NEVER if count == math.inf else count * flagged(range_moment(a, ranges[0]), q)
        total, first, k = arb(0), ranges[0] * decay, 1
        size = max(1, math.floor(2e-4 / -math.log(max(float(decay.mid()), 1e-300))))
        while k <= count and first > ranges[0] * arb(1e-4):
            n = min(size, count - k + 1)
            low = first * decay ** (n - 1)
            m = range_moment(a, low)
            if n == 1:
                total += flagged(m, q)
            else:
                squares = first**2 * (1 - decay ** (2 * n)) / (1 - decay**2)
                weight = (squares - n * low**2) / (first**2 - low**2)
                at_high = flagged(m * (first / low) ** 2, q)
                total += (n - weight) * flagged(m, q) + weight * at_high
            first, k = low * decay, k + n
        if k <= count:
            total += flagged(a * (a - 1) * first**2 / 8, q) / (1 - decay**2)
        return total

    def changed(a: arb, draw: arb) -> arb:
        if forced == 1:
            return draw
        ways = [draw]
        for x, y in (coin, coin[::-1]):
            ways.append(
                (x**a * y ** (1 - a) * draw.exp() + (1 - x) ** a * (1 - y) ** (1 - a)).log()
            )
        return ways[0].max(ways[1]).max(ways[2])

    def moments(a: arb) -> arb:
        first = range_moment(a, ranges[0]) if ranges[0] > 0 else arb(0)
        found = changed(a, first) + series(a, later, chance)
        if flag_all:
            found = found.min(changed(a, arb(0)) + first + series(a, cap - 1, arb(1)))
        return found

    def summed(count: float) -> arb:
        if count < 1:
            return arb(0)
        if not decay < 1:
            return NEVER if count == math.inf else count * ranges[0]
        left = arb(0) if count == math.inf else decay ** int(count)
        return ranges[0] * decay * (1 - left) / (1 - decay)

    most = math.inf if cap is None else cap
    total = ranges[0] + summed(min(later, most - 1))
    if forced < 1:
        total += (coin[1] / coin[0]).log()
        total = total.max(shift + summed(min(later, most)))

    def delta(epsilon: float) -> arb:
        if arb(epsilon) >= total:
            return arb(0)
        found = converted(moments, epsilon)
        return found.min(pure(epsilon, total)) if total.is_finite() else found

    return delta


# -- Gaussian releases of secret records -----------------------------------------------------------


def sampled_curve(record: dict[str, Any]) -> Curve:
    """Return the curve of steps on a record drawn with replacement (batch_baselines.md).

    A step's law is moved to the ends of cells, which keeps mass and mean of e^x; one more Gaussian
    release, which can only add, makes the integrand fall off.
    """
    n, steps, mu = record["records"], record["steps"], 1 / arb(record["multiplier"])
    if n == 1:
        return lambda epsilon: gaussian(arb(epsilon), mu * arb(steps).sqrt())

    def law(reach: float, cells: int) -> tuple[list[tuple[arb, arb, arb]], arb]:
        """Return (log y, y, mass under Q) of the points, and the mass under P beyond `reach`.

        Cells are narrow near 0, where the mass is.
        """
        growth = 2.5
        width = float(mu.mid()) * reach / math.sinh(growth)
        ends = [arb(width * math.sinh(growth * k / cells)) for k in range(cells + 1)]
        below = [normal(-x / mu - mu / 2) for x in ends]  # mass of Q above x
        grown = [normal(-x / mu + mu / 2) for x in ends]  # mean of e^x above x
        masses = [arb(0)] * (cells + 1)
        for k in range(cells):
            mass, mean = below[k] - below[k + 1], grown[k] - grown[k + 1]
            low, high = ends[k].exp(), ends[k + 1].exp()
            upper = (mean - mass * low) / (high - low)
            masses[k] += mass - upper
            masses[k + 1] += upper
        masses[cells] += below[cells]
        tail = (grown[cells] - ends[cells].exp() * below[cells]) / n
        ratios = [1 + x.expm1() / n for x in ends]
        rows = zip(ratios, masses, strict=True)
        return [(y.log(), y, q) for y, q in rows][1:], tail  # the first has loss 0

    def composed(epsilon: float, reach: float) -> arb:
        points, tail = law(reach, 448)
        spread = (steps * sum((q * (1 + y) * x**2 for x, y, q in points), arb(0))).sqrt()
        added = arb(float(spread.mid()) / 400.0)

        def transform(z: Any) -> Any:
            one: Any = arb(1)
            for x, y, q in points:
                one += q * (y * (z * x).exp() + (-z * x).exp() - 1 - y)
            return one**steps * (added * added * z * (z + 1) / 2 - z * epsilon).exp()

        return inverted(transform, added) + steps * tail

    def delta(epsilon: float) -> arb:
        plain = gaussian(arb(epsilon), mu * arb(steps).sqrt())
        if steps < 1000:  # the law has not spread: the integral would take for ever
            return plain
        return plain.min(composed(epsilon, 8.0 + float(mu.mid())))

    return delta


# -- Local reports ---------------------------------------------------------------------------------


def reports_curve(record: dict[str, Any]) -> Curve:
    """Return the curve of several local reports of one user (local_randomizers.md)."""
    each, count = arb(record["epsilon"]), record["reports"]
    if record["delta"] != 0.0:  # of single reports: nothing is proved of such
        return lambda epsilon: NEVER

    def delta(epsilon: float) -> arb:
        total, chance = arb(0), (1 / (1 + (-each).exp())) ** count
        for wrong in range(count // 2 + 1):
            loss = (count - 2 * wrong) * each
            if not loss > epsilon:
                break
            total += chance * -(epsilon - loss).expm1()
            chance *= (-each).exp() * (count - wrong) / (wrong + 1)
        return total

    return delta


def group_curve(record: dict[str, Any]) -> Curve:
    """Return the curve of a chain of single changes (composition.md)."""
    one, size = KINDS[record["one"]["kind"]](record["one"]), record["size"]

    def delta(epsilon: float) -> arb:
        share = epsilon / size
        return one(share) * sum(((arb(share) * i).exp() for i in range(size)), arb(0))

    return delta


def together_curve(record: dict[str, Any]) -> Curve:
    """Return the curve of Gaussian and pure parts (composition.md, Theorem 1); of others, none."""
    sure = sum((arb(part["epsilon"]) for part in record["parts"] if part["kind"] == "pure"), arb(0))
    rest = [part for part in record["parts"] if part["kind"] != "pure"]
    if not rest or any(part["kind"] != "gdp" for part in rest):
        return lambda epsilon: NEVER
    mu = sum((arb(part["mu"]) ** 2 for part in rest), arb(0)).sqrt()
    return lambda epsilon: gaussian(arb(epsilon) - sure, mu)


# -- Sums with buffers -----------------------------------------------------------------------------

FOLLOWED = 5000  # rounds of a person


def geometric(x: arb, terms: int) -> arb:
    """Return the sum of (1 - x)^i over i < terms."""
    return (1 - (1 - x) ** terms) / x


class Buffers:
    """C of a sum with buffers: c_0 = 1, c_i = sum_j w_j r_j^(i - 1), r = 1 - s (continual_sum.md).

    With levels column i is divided by (its norm) / (that of the first) or more.
    """

    def __init__(self, record: dict[str, Any], pushes: int) -> None:
        self.levels = record["kind"] == "blt_normalised"
        self.n = record["pushes"] if self.levels else pushes
        self.s, self.w = ([arb(x) for x in record[name]] for name in ("decay", "weights"))
        self.r, total = [1 - s for s in self.s], sum(self.w, arb(0))
        ratios = sum((w * r for w, r in zip(self.w, self.r, strict=True)), arb(0))
        # Coefficients fall, and their quotients do not: what the worst pattern is known for.
        self.falls = bool(total <= 1) and (not self.levels or bool(total**2 <= ratios))

    def behind(self, terms: int) -> list[list[arb]]:
        """Return w_i w_j times the sum of (r_i r_j)^t over t < terms."""
        return [
            [v * w * geometric(1 - p * q, terms) for w, q in zip(self.w, self.r, strict=True)]
            for v, p in zip(self.w, self.r, strict=True)
        ]

    def norm(self, pushes: int) -> arb:
        """Return the norm of the first coefficients."""
        return (1 + sum((sum(row, arb(0)) for row in self.behind(pushes - 1)), arb(0))).sqrt()

    def column(self, rounds: int, separation: int) -> arb:
        """Return the norm that rounds 1, 1 + b, ..., 1 + (k - 1) b have together, in first draws.

        What each buffer has of the earlier ones is followed (participation.md).
        """
        k, b, first = min(rounds, -(-self.n // separation)), separation, self.norm(self.n)
        total, past = arb(0), [arb(0)] * len(self.w)
        between, last = self.behind(b - 1), self.behind(self.n - 1 - (k - 1) * b)
        fading = [r ** (b - 1) for r in self.r]
        for place in range(k):
            share = first / self.norm(self.n - place * b) if self.levels else arb(1)
            row = share + sum((w * x for w, x in zip(self.w, past, strict=True)), arb(0))
            held = [share + r * x for r, x in zip(self.r, past, strict=True)]
            rest = last if place == k - 1 else between
            pairs = (
                x * y * value
                for x, values in zip(held, rest, strict=True)
                for y, value in zip(held, values, strict=True)
            )
            total += row**2 + sum(pairs, arb(0))
            past = [f * x for f, x in zip(fading, held, strict=True)]
        return total.sqrt()

    def path(self, pushes: int, grid: float, scale: float) -> arb:
        """Return what rounding adds, per root of entries (lattice.md)."""
        unit = arb(2) ** (math.frexp(scale)[1] - 1 - 43)
        spans = (w * (1 / s).min(arb(self.n)) for w, s in zip(self.w, self.s, strict=True))
        memory, count = unit * sum(spans, arb(0)), arb(1) + arb(2) ** -10
        if not self.levels:
            return arb(pushes).sqrt() * (count * grid + memory * 5 / 4)
        left, blocks, spread, first = 0, 0, arb(0), self.norm(self.n)
        while left < self.n:  # 32 blocks in every octave of the rounds that are left
            step = min(self.n - left, 1 << max(0, max(left, 32).bit_length() - 6))
            left, blocks = left + step, blocks + 1
            spread += step * (first / self.norm(left)) ** 2
        changes = first * arb(blocks).sqrt() * 3 / 2
        return count * grid * spread.sqrt() + memory * (spread.sqrt() * 5 / 4 + changes)


def entries(summand: dict[str, Any]) -> int | None:
    """Return how many numbers a round adds; None where the page is not read."""
    kind, d = summand["kind"], summand.get("dimension", 0)
    if kind == "centred_losses":
        return int(summand["experts"])
    if kind == "second_moments":
        return int(summand["arms"] * (d * (d + 1) // 2 + d))
    return int(d) if kind in ("clipped_vector", "glm_gradient") else None


def movement(summand: dict[str, Any], change: str) -> arb:
    """Return how far apart two rounds can be (continual_sum.md, noisy_ftrl.md, prefix_hedge.md)."""
    kind, sides = summand["kind"], 1 if change == "zero_out" else 2
    if kind == "centred_losses":
        n = summand["experts"]
        return (n - arb(n % 2) / n).sqrt()
    name = "bound" if kind == "clipped_vector" else "features"
    stretch = max(arb(0), arb(1) / 2 - 1 / arb(summand["norm"]))
    length = arb(summand[name]) * arb(summand["dimension"]) ** stretch
    length = length.min(arb(summand[name + "_l2"]))
    if kind != "second_moments":
        return sides * length * summand.get("slope", 1.0)
    u = (arb(summand["weight"]) * summand["label"] / length) ** 2
    factor = arb(2).sqrt() * (1 + u / 2) if u < 2 else 2 * u.sqrt()
    return length**2 * summand["rounding"] * ((1 + u).sqrt() if sides == 1 else factor)


def described(guarantee: dict[str, Any]) -> arb | None:
    """Return mu of a Gaussian sum with buffers, from its description; None for another."""
    own = guarantee.get("description") or {}
    factor = own.get("factorisation", {"kind": ""})
    if not factor["kind"].startswith("blt") or own["order"] != 2.0 or not own["scale"]:
        return None
    rounds, separation = guarantee.get("person") or (1, 1)
    batch, pushes, size = own["batch"], own["pushes"], entries(own["summand"])
    if own.get("growth") and (rounds > 1 or own["grid"] > 0.0):
        return None  # all below is about batches of one length
    rounds = min(rounds, -(-pushes * batch // separation))
    between, odd = divmod(separation, batch)
    if pushes == 0 or size is None or rounds > FOLLOWED or (rounds > 1 and odd):
        return None
    sums, grid = Buffers(factor, pushes), own["grid"]
    moved = movement(own["summand"], guarantee["change"])
    if rounds > 1 and not sums.falls:
        return NEVER
    column = sums.column(rounds, max(1, between)) if rounds > 1 else sums.norm(sums.n)
    if grid == 0.0:
        return moved * column / arb(own["scale"])
    leaf = arb(size).sqrt() * grid
    if batch > 1:
        leaf += moved * batch * (batch + 1) / arb(2) ** 53
    path = arb(size).sqrt() * sums.path(pushes, grid, own["scale"])
    return (column * (moved + leaf) + path) / arb(own["scale"])


# -- Guarantees ------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[dict[str, Any]], Curve]] = {
    "gaussian": lambda record: coupled_curve(record, arb(record["mu"])),
    "group": group_curve,
    "renyi": tilted_curve,
    "renyi_of_person": tilted_curve,
    "pure": lambda record: lambda epsilon: pure(epsilon, arb(record["epsilon"])),
    "bounded_range": range_curve,
    "selections": decaying_curve,
    "selections_of_person": decaying_curve,
    "tracker": tracker_curve,
    "sampled_gaussian": sampled_curve,
    "local_reports": reports_curve,
    "together": together_curve,
}


def curves(guarantee: dict[str, Any]) -> Iterator[Curve]:
    """Yield every curve that the numbers of a guarantee describe."""
    if guarantee["mu"] is not None:
        found = described(guarantee)
        mu = arb(guarantee["mu"]) if found is None else found
        yield lambda epsilon: gaussian(arb(epsilon), mu)
    elif guarantee["rho"] is not None:
        rho = arb(guarantee["rho"])
        yield lambda epsilon: zcdp(rho, epsilon)
    if guarantee.get("profile") is not None:
        yield KINDS[guarantee["profile"]["kind"]](guarantee["profile"])


def proved_delta(guarantee: dict[str, Any]) -> arb:
    """Return an interval around a delta that holds at the stated epsilon, tails included."""
    epsilon, target = float(guarantee["epsilon"]), arb(float(guarantee["delta"]))
    mass = arb(float(guarantee.get("truncation_mass", 0.0)))
    matters = (1 + arb(epsilon).exp()) * mass > target * arb(1e-9)
    best = NEVER
    for curve in curves(guarantee):

        def charged(at: float, curve: Curve = curve) -> arb:
            # A guarantee at a smaller epsilon is one at this.
            return curve(at) + (1 + arb(at).exp()) * mass if mass > 0 else curve(at)

        found = charged(epsilon)
        if matters and not found <= target:
            found = found.min(charged(least(rough(charged), 0.0, epsilon)))
        best = best.min(found)
    return best


def check(guarantee: dict[str, Any]) -> tuple[str, str]:
    """Return "proved", "not proved" or "nothing to prove", and what was found."""
    if not math.isfinite(float(guarantee["epsilon"])):
        return "nothing to prove", "no privacy is promised"
    if float(guarantee["epsilon"]) == 0.0 and not list(curves(guarantee)):
        return "nothing to prove", "the releases are said not to depend on data"
    target = arb(float(guarantee["delta"]))
    for bits in (BITS, 4 * BITS):
        ctx.prec = bits
        found = proved_delta(guarantee)
        if found <= target:
            return "proved", f"delta <= {float(found.upper()):.17g}"
        if found > target:
            break
    return "not proved", f"delta {found.str(20)} against {float(guarantee['delta']):.17g}"


def main(paths: list[str]) -> int:
    """Check the files; return the exit status."""
    status = 0
    for path in paths:
        try:
            read = json.loads(Path(path).read_text())
            guarantees = read if isinstance(read, list) else [read]
            if any(each["kind"] != "dpoco.guarantee" for each in guarantees):
                raise ValueError("not a guarantee")
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
        counts = dict.fromkeys(("proved", "not proved", "nothing to prove"), 0)
        for number, guarantee in enumerate(guarantees, 1):
            result, found = check(guarantee)
            counts[result] += 1
            if result == "not proved":
                print(f"{path}, guarantee {number} ({guarantee['mechanism']}): not proved, {found}")
                status = 1
        print(f"{path}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
