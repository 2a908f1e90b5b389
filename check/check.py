"""Prove in ball arithmetic, from descriptions, what certificates state: delta(epsilon) <= delta.

    python check/check.py certificate.json ...       or: dpoco verify --independent certificate.json

A file holds one guarantee as JSON, or a list of guarantees. For each of them, this program derives
column norms, sensitivities, tails, the privacy loss, the unit, the arithmetic and the promises from
the description of what was enforced and drawn. All other fields must agree with the results. It
evaluates the privacy curve in another way than the library does, in intervals that contain the
exact value. The verdicts are:

* "proved": the inequality holds for these intervals.
* "not proved": the statement is stronger than what follows; the least provable delta is printed.
* "not covered": no formula in this file applies.
* "only if": the statement is proved, but rests on a promise that nothing enforces.
* "NOT PROTECTED": the noise is seeded, or epsilon is infinite.

Texts of the issuer that cannot be derived are not printed.

Exit status: 0 everything is proved and enforced, 1 something is not proved or not covered, 2 a file
is not a certificate, 5 something holds only if a promise is kept, 6 something is not protected.

The formulas come from the pages in ``docs/privacy`` and not from the library's code, and this file
imports nothing of dpoco. Rough arithmetic searches for orders and tilts; only the last evaluation
counts.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from flint import acb, arb, ctx

BITS, ROUGH = 256, 64  # precision of proofs, and of searches
NEVER = arb("+inf")
DIGITS = 1e-12  # relative tolerance between stated and derived numbers
Curve = Callable[[float], arb]
Moments = Callable[[arb], arb]  # order -> log E_Q (dP/dQ)^order
Record = dict[str, Any]
Groups = list[tuple[int, arb, arb, arb]]


class MalformedError(ValueError):
    """Raised for files that are no certificates, or none that this program can read."""


class NotCoveredError(Exception):
    """Raised for descriptions to which no formula in this file applies."""


class Known(NamedTuple):
    """The known bounds on a privacy loss: curve, GDP, zCDP, pure epsilon and log moments."""

    curve: Curve
    mu: arb = NEVER
    rho: arb = NEVER
    pure: arb = NEVER
    moments: Moments | None = None


# -- Gaussian curves -------------------------------------------------------------------------------


def normal(x: arb) -> arb:
    """Return the distribution function of the standard normal law."""
    return (-x / arb(2).sqrt()).erfc() / 2


def gaussian(epsilon: arb, mu: arb) -> arb:
    """Return delta of mu-GDP at any real epsilon (gaussian.md, Theorem 1)."""
    if mu == 0:
        return arb(0) if epsilon >= 0 else -epsilon.expm1()
    return normal(mu / 2 - epsilon / mu) - epsilon.exp() * normal(-mu / 2 - epsilon / mu)


# -- Conversions -----------------------------------------------------------------------------------


def least(function: Callable[[float], float], low: float, high: float) -> float:
    """Return an approximate minimiser on [low, high] of a function with one minimum."""
    for _ in range(45):
        third = (high - low) / 3.0
        falls = function(low + third) < function(high - third)
        low, high = (low, high - third) if falls else (low + third, high)
    return 0.5 * (low + high)


def rough(function: Callable[[float], arb]) -> Callable[[float], float]:
    """Return `function` evaluated in few bits, and infinity if the result is not finite."""

    def value(x: float) -> float:
        with ctx.workprec(ROUGH):
            result = float(function(x).mid())
        return result if math.isfinite(result) else math.inf

    return value


def convert_moments(moments: Moments, epsilon: float, largest: float = math.inf) -> arb:
    """Return the least delta over all orders that log moments prove (gaussian.md, Theorem 4).

    `largest` is the supremum of order - 1.
    """

    def log_delta(log_t: float) -> arb:
        t = arb(log_t).exp()
        return moments(1 + t) - t * epsilon - t.log() - (1 + t) * (1 / t).log1p()

    ends = math.log(1e-4), math.log(min(1e13, largest * (1.0 - 1e-9)))
    return log_delta(least(rough(log_delta), *ends)).exp()


def bell(record: Record) -> Known:
    """Return the bounds of mu-GDP (gaussian.md)."""
    mu = record["mu"]
    rho = mu * mu / 2
    return Known(lambda e: gaussian(arb(e), mu), mu, rho, moments=lambda a: a * (a - 1) * rho)


def zcdp_loss(record: Record) -> Known:
    """Return the bounds of rho-zCDP (gaussian.md)."""
    rho = record["rho"]
    return Known(lambda e: ways(e, rho=rho), rho=rho, moments=lambda a: a * (a - 1) * rho)


def sure(record: Record) -> Known:
    """Return the bounds of pure differential privacy (pure.md)."""
    total = record["epsilon"]
    return Known(lambda e: pure(e, total), pure=total, moments=lambda a: pure_moment(a, total))


def pure(epsilon: float, total: arb) -> arb:
    """Return delta of pure privacy `total`, which is that of a randomised response."""
    left = (1 - (epsilon - total).exp()) / (1 + (-total).exp())
    return arb(0) if arb(epsilon) >= total else left


def ways(epsilon: float, total: arb = NEVER, rho: arb = NEVER, moments: Any = None) -> arb:
    """Return the least delta that pure privacy, zCDP and moments prove."""
    found = pure(epsilon, total) if total < NEVER else arb(1)
    if rho < NEVER:
        found = found.min(convert_moments(lambda a: a * (a - 1) * rho, epsilon))
    if moments is not None and found > 0:
        found = found.min(convert_moments(moments, epsilon))
    return found


# -- Coins -----------------------------------------------------------------------------------------


def coin_moment(order: arb, forced: arb, factor: arb, behind: Any = 0) -> arb:
    """Return the log moment between two coins, the larger of both directions.

    One coin says "stay" with probability 1 - `forced`, the other with `factor` times that.
    `behind` is the log moment of what is released after a coin that does not say "stay".
    """
    # No small probability is computed as a difference from 1, which would lose its digits.
    one, other = (forced, 1 - forced), (forced + (1 - forced) * (1 - factor), (1 - forced) * factor)

    def moment(x: tuple[arb, arb], y: tuple[arb, arb]) -> arb:
        told, kept = (a**order * b ** (1 - order) for a, b in zip(x, y, strict=True))
        return told * arb(behind).exp() + kept

    return moment(one, other).max(moment(other, one)).log()


def coupled_draws(record: Record) -> Known:
    """Return the bounds of Gaussian draws with stay-or-switch bits (couplings.md).

    The loss has a coin of the changed round, `n` later bits, and draws that are mu-GDP together.
    """
    p, w, c = record["forced_switch"], record["factor_floor"], record["shift"]
    n, mu = record["later_bits"] if c > 0 else 0, record["mu"]
    if p == 1:
        return bell(record)
    switch = 1 - (1 - p) * w
    pairs = (((p, 1 - p), (switch, 1 - switch)), ((switch, 1 - switch), (p, 1 - p)))
    moved = 1 - (1 - p) * (-c).exp()
    rare, often = (p, moved) if p + moved <= 1 else (1 - moved, 1 - p)
    step = (often / rare).log()

    def of_pair(epsilon: float, a: tuple[arb, arb], b: tuple[arb, arb]) -> arb:
        losses = [(x / y).log() for x, y in zip(a, b, strict=True)]
        if n == 0:
            return dot(a, (gaussian(epsilon - loss, mu) for loss in losses))

        def transform(z: Any) -> Any:
            coin = sum(x * (z * loss).exp() for x, loss in zip(a, losses, strict=True))
            bit = 1 + rare * (((z + 1) * step).exp() - 1) * (1 - (-z * step).exp())
            return coin * bit**n * (mu * mu * z * (z + 1) / 2 - z * epsilon).exp()

        return invert_transform(transform, mu)

    def moments(a: arb) -> arb:
        bits = n * coin_moment(a, p, (-c).exp()) if n else arb(0)
        return a * (a - 1) * mu * mu / 2 + coin_moment(a, p, w) + bits

    return Known(lambda e: of_pair(e, *pairs[0]).max(of_pair(e, *pairs[1])), moments=moments)


def invert_transform(transform: Callable[[Any], Any], mu: arb) -> arb:
    """Return 1/(2 pi i) times the integral of transform(z) / (z (z + 1)) over c + iR.

    `transform` is E e^(z (L - epsilon)) with a Gaussian part of parameter `mu` in L, so that its
    modulus on the line is at most its value at c times e^(-mu^2 u^2 / 2).
    """

    def height(log_c: float) -> arb:
        c = arb(log_c).exp()
        return (transform(c) / (c * (1 + c))).log()

    c = math.exp(least(rough(height), math.log(1e-3), math.log(1e5)))
    size = transform(arb(c))
    # From there on the integrand is below e^-60 times its value at c.
    reach = math.sqrt(2.0 * 60.0) / float(mu.mid())

    def integrand(u: Any, analytic: bool) -> Any:
        z = c + acb(0, 1) * u
        return transform(z) / (z * (z + 1)) / size

    with ctx.workprec(128):
        parts = acb.integral(integrand, 0, reach, rel_tol=arb(2) ** -50, abs_tol=arb(2) ** -70)
    rest = (-((mu * reach) ** 2) / 2).exp() / reach
    return size * (parts.real + rest.union(-rest)) / arb.pi()


# -- Draws by objective perturbation ---------------------------------------------------------------


def tilted_draws(record: Record) -> Known:
    """Return the bounds of at most `cap` tilted minima with bits (objective_perturbation.md)."""
    ratio, b, cap = arb(record["sensitivity_ratio"]), arb(record["b"]), record["cap"]
    below = min(record["rank"], record["dimension"])
    above = (record["relation"] == "replace") * min(below, record["dimension"] - below)
    person = record["kind"] == "renyi_of_person"
    if (b == 0 or below == 0) and not person:
        return coupled_draws({**record, "mu": ratio * arb(cap).sqrt()})
    p, w, c = arb(record["forced_switch"]), arb(record["factor_floor"]), arb(record["shift"])

    def changed_block(a: arb) -> arb:
        if not person:
            return coin_moment(a, p, w)
        rest, most = c * (record["block"] - 1) / record["block"], arb(0)
        for q in range(1, record["together"] + 1):  # number of the person's rounds in a block
            coin = coin_moment(a, p, w**q * (-rest).exp())
            most = most.max(coin * record["rounds"] / q)
        return most

    def moments(a: arb) -> arb:
        draw = a * (a - 1) * ratio**2 / 2
        draw += below * ((1 - a) * b.log1p() - (-(a - 1) * b).log1p())
        draw += above * (a * b.log1p() - (a * b).log1p())
        later = record["later_bits"] * (p < 1) * bool(c > 0)
        bits = later * coin_moment(a, p, (-c).exp()) if later else arb(0)
        return cap * draw + bits + (changed_block(a) if p < 1 else 0)

    largest = math.inf if b == 0 else float((1 / b).lower())
    return Known(lambda e: convert_moments(moments, e, largest), moments=moments)


# -- Bounded range ---------------------------------------------------------------------------------


def range_moment(a: arb, r: arb) -> arb:
    """Return the largest log moment of a loss of range r (bounded_range.md).

    The moment at t is (A y^b - B y^(b+1)) / (1 - e^-r) with y = e^t. Its maximum over all y > 0 is
    an upper bound, also if the maximiser is no possible value of y.
    """
    b = a - 1
    if r == 0:
        return arb(0)
    first, second = -(-a * r).expm1(), (-r).exp() * -(-b * r).expm1()
    top = b * first / (a * second)
    return b * top.log() + (first / (a * -(-r).expm1())).log()


def pure_moment(a: arb, r: arb) -> arb:
    """Return the largest log moment of a loss that is purely r-private."""
    return (((a * r).exp() + ((1 - a) * r).exp()) / (1 + r.exp())).log()


ADDED = 2**14  # first selections, whose ranges are added one by one


def grow_groups(record: Record, groups: Groups) -> Groups:
    """Return groups multiplied by the number of one person's records up to the end of each.

    That number is at most what the rounds so far allow (participation.md, Theorems 4 and 5).
    """
    forced, others = record["forced"], (record["arms"] - 1) * record["forced"]
    found = []
    for end, last, total, squares in groups:
        rounds = max(forced, record["batch"] * end) + others
        many = min(record["rounds"], 1 + (rounds - 1) // record["separation"])
        found.append((end, many * last, many * total, many**2 * squares))
    return found


def decaying_groups(record: Record) -> Groups:
    """Return groups of f(j) = j^e / (j + o): (the last j, the last f, sum of f, sum of f^2).

    The first `ADDED` terms are added exactly. For later ones f^n is (x + o)^(n (e - 1)), which is
    convex, times (x / (x + o))^(n e), which increases. The sum of a group is therefore at most the
    last value of the second factor, times the integral of the first over the group, extended by one
    half at both ends.
    """
    power, offset, terms = record["exponent"], record["offset"], record["terms"]
    groups, done = [], 0
    while done < terms:
        end = min(terms, done + max(1, done // 128))
        start = done + 1 if end <= ADDED else end
        f = [arb(j) ** power / (j + offset) for j in range(start, end + 1)]
        if end <= ADDED:
            sums = [add_up(f), dot(f, f)]
        else:
            sums, fading = [], (arb(end) / (end + offset)) ** power
            low, high = arb(done + offset) + arb(0.5), arb(end + offset) + arb(0.5)
            for n, q in ((1, power), (2, 2 * power - 1)):
                area = (high / low).log() if q == 0 else (high**q - low**q) / q
                sums.append(fading**n * area)
        groups.append((end, f[-1], *sums))
        done = end
    return groups


def decaying(record: Record) -> Known:
    """Return the bounds of selections with decaying ranges (polyhedral_frank_wolfe.md)."""
    groups, person = decaying_groups(record), record["kind"] == "selections_of_person"
    groups = grow_groups(record, groups) if person else groups
    return of_ranges(groups, record["range"], record["spread"], record["law"] == "bounded_range")


def of_ranges(groups: Groups, reach: arb, spread: arb, bounded: bool) -> Known:
    """Return the bounds of releases of range, or pure epsilon, reach * f; rho has spread * f."""
    moment, cost = (range_moment, arb(1) / 8) if bounded else (pure_moment, arb(1) / 2)
    total = reach * add_up(each[2] for each in groups)
    rho = cost * spread**2 * add_up(each[3] for each in groups)

    def moments(a: arb) -> arb:
        # m(r) / r^2 does not increase in r, so the last and smallest range of a group bounds it.
        # If spread < reach, each selection costs the smaller of this and its share of rho.
        most = a * (a - 1) * cost * spread**2
        rows = ((moment(a, reach * last) / last**2, squares) for _, last, _, squares in groups)
        return add_up(m.min(most) * squares for m, squares in rows)

    return Known(lambda e: ways(e, total, rho, moments), rho=rho, pure=total, moments=moments)


def bounded_range(record: Record) -> Known:
    """Return the bounds of `count` releases of bounded range."""
    r, count = record["range"], record["count"]
    found = of_ranges([(count, arb(1), arb(count), arb(count))], r, r, True)

    def delta(epsilon: float) -> arb:
        left = (1 - ((epsilon - r) / 2).exp()) ** 2 / (1 - (-r).exp())
        return arb(0) if arb(epsilon) >= r else left

    return found._replace(curve=delta) if count == 1 else found


# -- The oblivious tracker -------------------------------------------------------------------------


def tracker(record: Record) -> Known:
    """Return the bounds of the tracker's coin and flagged draws (tracker_accounting.md)."""
    eta, forced, batch = arb(record["learning_rate"]), arb(record["forced_switch"]), record["batch"]
    horizon, cap = record["horizon"], record["max_resamples"]
    batches = math.inf if horizon is None else -(-horizon // batch)
    if record["experts"] == 1 or batches == 1 or cap == 0:
        return sure({"epsilon": arb(0)})
    rate = record["share_rate"] or arb(0)  # None with the prior "at_most"
    stay, move = 1 - rate, rate / (record["experts"] - 1)
    tau = (stay - move) / (stay + move)
    # The largest change of a coin's probability by rounding.
    grid, kept = arb(2) ** -50, (1 - forced) * (-eta * batch).exp()
    for end in (1 - forced, kept) if forced < 1 else ():
        grid = grid.max(end * (-(batch + 4) * arb(2) ** -53 * end.log()).expm1())
    chance = (1 - kept + grid).min(arb(1))
    reach, decay, later = 2 * eta * tau, tau**batch, batches - 2
    if forced < 1:
        require_covered(kept > 4 * grid, "coins that doubles cannot tell from certainty")
        lowest = forced - grid
        shift = eta + ((1 + grid / kept) / (1 - grid / kept)).log()
        coin = lowest, 1 - (1 - lowest) * (-shift).exp()

    def flag_draw(m: arb, q: arb) -> arb:
        return (1 + q * m.expm1()).log()

    def series(a: arb, count: float, q: arb) -> arb:
        """Return a bound on the sum of F_q(m(r_k)), 1 <= k <= count."""
        if not decay < 1:
            return NEVER if count == math.inf else count * flag_draw(range_moment(a, reach), q)
        total, first, k = arb(0), reach * decay, 1
        size = max(1, int(2e-4 / float(-decay.max(arb(1e-300)).log().mid())))
        while k <= count and first > reach * arb(1e-4):
            n = min(size, count - k + 1)
            low = first * decay ** (n - 1)
            m = range_moment(a, low)
            if n == 1:
                total += flag_draw(m, q)
            else:
                squares = first**2 * (1 - decay ** (2 * n)) / (1 - decay**2)
                weight = (squares - n * low**2) / (first**2 - low**2)
                at_high = flag_draw(m * (first / low) ** 2, q)
                total += (n - weight) * flag_draw(m, q) + weight * at_high
            first, k = low * decay, k + n
        if k <= count:
            total += flag_draw(a * (a - 1) * first**2 / 8, q) / (1 - decay**2)
        return total

    def changed_block(a: arb, draw: arb) -> arb:
        return draw.max(coin_moment(a, lowest, (-shift).exp(), draw)) if forced < 1 else draw

    def moments(a: arb) -> arb:
        first = range_moment(a, reach) if reach > 0 else arb(0)
        found = changed_block(a, first) + series(a, later, chance)
        if cap is not None and cap < batches - 1:
            found = found.min(changed_block(a, arb(0)) + first + series(a, cap - 1, arb(1)))
        return found

    def sum_series(count: float) -> arb:
        endless = count == math.inf
        if not decay < 1:
            return NEVER if endless else count * reach
        return reach * decay * (1 - (0 if endless else decay ** int(count))) / (1 - decay)

    most = math.inf if cap is None else cap
    total = reach + sum_series(min(later, most - 1))
    if forced < 1:
        total = (total + (coin[1] / coin[0]).log()).max(shift + sum_series(min(later, most)))

    return Known(lambda e: ways(e, total, moments=moments), pure=total, moments=moments)


# -- Local reports ---------------------------------------------------------------------------------


def reports(record: Record) -> Known:
    """Return the bounds of several local reports of one user (local_randomizers.md)."""
    each, count = record["epsilon"], record["reports"]

    def delta(epsilon: float) -> arb:
        total, chance = arb(0), (1 / (1 + (-each).exp())) ** count
        for wrong in range(count // 2 + 1):
            if not (loss := (count - 2 * wrong) * each) > epsilon:
                break
            total += chance * -(epsilon - loss).expm1()
            chance *= (-each).exp() * (count - wrong) / (wrong + 1)
        return total

    return Known(delta, pure=count * each, moments=lambda a: count * pure_moment(a, each))


# -- Losses of several -----------------------------------------------------------------------------


def group_loss(record: Record) -> Known:
    """Return the bounds for a chain of single changes (composition.md)."""
    one, size = evaluate(record["one"]), record["size"]

    def delta(epsilon: float) -> arb:
        share = epsilon / size
        return one.curve(share) * add_up((arb(share) * i).exp() for i in range(size))

    return Known(delta)


def together(record: Record) -> Known:
    """Return the bounds of parts that see the same record (composition.md, Theorem 1)."""
    parts = [evaluate(part) for part in record["parts"]]
    certain = add_up(part.pure for part in parts if part.pure < NEVER)
    rest = [r for r, part in zip(record["parts"], parts, strict=True) if not part.pure < NEVER]
    joined = rest[0] if len(rest) == 1 else {"kind": "together", "parts": rest}
    others = evaluate(joined) if 0 < len(rest) < len(parts) else None
    mu = add_up(part.mu**2 for part in parts).sqrt()
    rho, total = (add_up(part[i] for part in parts) for i in (2, 3))

    def moments(a: arb) -> arb:
        return add_up(part.moments(a) for part in parts if part.moments)

    def delta(epsilon: float) -> arb:
        found = ways(epsilon, total, rho, moments if all(p.moments for p in parts) else None)
        if mu < NEVER:
            found = found.min(gaussian(arb(epsilon), mu))
        if others is not None and arb(epsilon) >= certain:
            found = found.min(others.curve(float((epsilon - certain).lower())))
        return found

    return Known(delta, mu, rho, total)


def combine_parts(record: Record) -> Known:
    """Return the least of several bounds on one mechanism."""
    parts = [evaluate(part) for part in record["parts"]]
    numbers = [reduce(arb.min, (part[i] for part in parts)) for i in (1, 2, 3)]
    known = [part.moments for part in parts if part.moments]
    moments = (lambda a: reduce(arb.min, (each(a) for each in known))) if known else None
    return Known(lambda e: reduce(arb.min, (part.curve(e) for part in parts)), *numbers, moments)


def worst(record: Record) -> Known:
    """Return the bounds of parts of which a record meets one (composition.md, Theorem 2)."""
    parts = [evaluate(part) for part in record["parts"]]
    numbers = [reduce(arb.max, (part[i] for part in parts)) for i in (1, 2, 3)]
    known = [part.moments for part in parts if part.moments]
    moments = (lambda a: reduce(arb.max, (each(a) for each in known))) if known else None
    moments = moments if len(known) == len(parts) else None
    return Known(lambda e: reduce(arb.max, (part.curve(e) for part in parts)), *numbers, moments)


LOSSES: dict[str, Callable[[Record], Known]] = {
    "either": worst, "gdp": bell, "zcdp": zcdp_loss, "pure": sure, "gaussian": coupled_draws,
    "renyi": tilted_draws,
    "renyi_of_person": tilted_draws, "bounded_range": bounded_range, "selections": decaying,
    "selections_of_person": decaying, "tracker": tracker,
    "local_reports": reports, "group": group_loss, "together": together, "least": combine_parts,
}  # fmt: skip


def evaluate(record: Record) -> Known:
    """Return the bounds of a loss that is given as a record."""
    return LOSSES[record["kind"]](record)


# -- Mechanisms: what follows from a description ---------------------------------------------------


class Loss(NamedTuple):
    """A loss as a record, and the total variation of the truncated tails of the draws."""

    record: Record
    mass: arb


class Near(NamedTuple):
    """Neighbouring streams: what changes, who looks, and how often one person comes."""

    change: str
    view: str
    rounds: int
    separation: int

    @property
    def sides(self) -> int:
        """The largest distance between two records, in units of the largest length."""
        return 2 if self.change == "replace" else 1

    def among(self, length: int) -> int:
        """Return the largest number of one person's rounds among `length` rounds."""
        return min(self.rounds, -(-length // self.separation))


NOTHING = Loss({"kind": "pure", "epsilon": arb(0)}, arb(0))
VIEWS = ("others", "everyone", "server")
TAIL, EXACT_TAIL = arb(2) ** -64, arb(2) ** -100  # noise.md; lattice.md


def make_loss(kind: str, mass: Any = 0, **numbers: Any) -> Loss:
    """Return the loss of this kind with these numbers and tails."""
    return Loss({"kind": kind, **numbers}, arb(mass).min(arb(1)))


def least_loss(parts: list[Record], mass: arb) -> Loss:
    """Return a loss of which these bounds are known."""
    return Loss(parts[0] if len(parts) == 1 else {"kind": "least", "parts": parts}, mass)


def group(loss: Loss, size: int) -> Loss:
    """Return the loss of `size` changed records (composition.md)."""
    if size == 1:
        return loss
    require_covered(size <= FOLLOWED, f"a chain of more than {FOLLOWED} changes")
    one, found = evaluate(loss.record), list[Record]()
    if one.mu < NEVER:
        found.append({"kind": "gdp", "mu": size * one.mu})
    elif one.rho < NEVER:
        found.append({"kind": "zcdp", "rho": size**2 * one.rho})
    if one.pure < NEVER:
        found.append({"kind": "pure", "epsilon": size * one.pure})
    return least_loss(found or [{"kind": "group", "one": loss.record, "size": size}], loss.mass)


def require_covered(holds: Any, what: str) -> None:
    """Raise `NotCoveredError` unless a condition of a proof certainly holds."""
    if not holds:
        raise NotCoveredError(what)


def seen_by(near: Near, widest: str) -> None:
    """Raise `NotCoveredError` for views that the proof does not cover."""
    require_covered(VIEWS.index(near.view) <= VIEWS.index(widest), f"the view {near.view!r}")


# -- Sums ------------------------------------------------------------------------------------------

FOLLOWED = 10**5  # most rounds of a person, reports or batches that are followed one by one


def add_up(values: Iterable[arb]) -> arb:
    """Return the sum of numbers."""
    return sum(values, arb(0))


def dot(one: Iterable[arb], other: Iterable[arb]) -> arb:
    """Return the inner product of two sequences."""
    return add_up(x * y for x, y in zip(one, other, strict=True))


def level(least: arb) -> arb:
    """Return the scale of a draw in units of the largest: `least`, rounded up to 32 bits."""
    return (arb((least * 2**32).lower()).ceil() / 2**32).min(arb(1))


class Buffers:
    """The factor C of a sum with buffers (continual_sum.md).

    Its coefficients are c_0 = 1, c_i = sum_j w_j r_j^(i - 1), r = 1 - s. With levels, column i is
    divided by at least (its norm) / (norm of the first column).
    """

    def __init__(self, factor: Any, pushes: int) -> None:
        self.levels = factor.kind == "blt_normalised"
        self.n = factor.pushes if self.levels else pushes
        self.s, self.w = factor.decay, factor.weights
        require_covered(len(self.s) == len(self.w) > 0, "rates without weights")
        self.r, total = [1 - s for s in self.s], add_up(self.w)
        # The worst pattern is known for coefficients that fall while their quotients do not.
        falls = not self.levels or total**2 <= dot(self.w, self.r)
        require_covered(
            falls and total <= 1 and all(r > 0 for r in self.r), "coefficients that rise"
        )

    def behind(self, terms: int) -> list[list[arb]]:
        """Return w_i w_j times the sum of (r_i r_j)^t over t < terms."""
        pairs = list(zip(self.w, self.r, strict=True))
        return [[v * w * (1 - (p * q) ** terms) / (1 - p * q) for w, q in pairs] for v, p in pairs]

    def norm(self, pushes: int) -> arb:
        """Return the norm of the first `pushes` coefficients."""
        return (1 + add_up(map(add_up, self.behind(pushes - 1)))).sqrt()

    def column(self, rounds: int, separation: int) -> arb:
        """Return the norm of the sum of columns 1, 1 + b, ..., 1 + (k - 1) b.

        Its unit is the scale of the first draw. The computation follows what each buffer keeps of
        the earlier rounds (participation.md).
        """
        k, b, first = min(rounds, -(-self.n // separation)), separation, self.norm(self.n)
        total, past = arb(0), [arb(0)] * len(self.w)
        between, last = self.behind(b - 1), self.behind(self.n - 1 - (k - 1) * b)
        fading = [r ** (b - 1) for r in self.r]
        for place in range(k):
            share = first / self.norm(self.n - place * b) if self.levels else arb(1)
            held = [share + r * x for r, x in zip(self.r, past, strict=True)]
            rest = last if place == k - 1 else between
            total += (share + dot(self.w, past)) ** 2 + dot(held, (dot(held, r) for r in rest))
            past = [f * x for f, x in zip(fading, held, strict=True)]
        return total.sqrt()

    def pair_bound(self, k: int, separation: int, batch: int) -> arb:
        """Return a bound for batches that do not divide the separation: places are rounded down."""
        tails, total = [arb(0)] * len(self.w), arb(0)
        for lag in range(k - 1, -1, -1):  # tails are the sums over all later rounds
            place = lag * separation // batch
            after = zip(*self.behind(self.n - 1 - place), strict=True)
            tails = [t + add_up(own) for t, own in zip(tails, after, strict=True)]
            first = dot(self.w, (r ** (place - 1) for r in self.r)) if place else arb(1)
            pairs = (k - lag) * first + dot(tails, (r**place for r in self.r))
            total += 2 * pairs if lag else pairs
        return total.sqrt()

    def path(self, pushes: int, grid: arb, scale: arb) -> arb:
        """Return the length that rounding adds, divided by the root of the entries (lattice.md)."""
        unit = arb(2) ** (math.frexp(float(scale))[1] - 1 - 43)
        memory = unit * dot(self.w, ((1 / s).min(arb(self.n)) for s in self.s))
        count = arb(1) + arb(2) ** -10
        if not self.levels:
            return arb(pushes).sqrt() * (count * grid + memory * 5 / 4)
        left, blocks, spread, first = 0, 0, arb(0), self.norm(self.n)
        while left < self.n:  # 32 blocks for each doubling of the remaining rounds
            step = min(self.n - left, 1 << max(0, max(left, 32).bit_length() - 6))
            left, blocks = left + step, blocks + 1
            spread += step / level(self.norm(left) / first) ** 2
        share = arb(pushes) / self.n
        changes, spread = first * (blocks * share).sqrt() * 3 / 2, (spread * share).sqrt()
        return count * grid * spread + memory * (spread * 5 / 4 + changes)

    def require_lattice(self, pushes: int) -> None:
        """Raise `NotCoveredError` if buffers or sums could overflow in integers (lattice.md)."""
        held = 1 + dot(self.w, (1 / s for s in self.s))
        falls = dot(self.w, (1 / r for r in self.r)) <= 1
        rates = len(self.s) <= 5 and all(a < b for a, b in zip(self.s, self.s[1:], strict=False))
        drift = (1 / (self.s[0] * held)).min(arb(pushes)) <= 2**18
        calm = pushes <= 2**40 and drift and arb(pushes).sqrt() <= 2**12 * held
        require_covered(falls and rates and calm and self.swing() <= 5, "buffers could overflow")

    def swing(self) -> arb:
        """Return a bound on the norm of any buffer, for draws of scale 1 (lattice.md).

        It follows from the eigenvalues of diag(s) + sqrt(w) sqrt(w)^T, one above each rate.
        """
        modes = []
        for j, rate in enumerate(self.s):
            gaps = [s - rate for s in self.s]
            low, high = arb(0), [*gaps, add_up(self.w)][j + 1]
            for _ in range(200):
                middle = arb(((low + high) / 2).mid())
                below = 1 + dot(self.w, (1 / (gap - middle) for gap in gaps)) < 0
                low, high = (middle, high) if below else (low, middle)
            shift = low.union(high)
            pull = dot(self.w, (1 / (gap - shift) ** 2 for gap in gaps))
            modes.append((rate + shift, 1 / ((rate - self.s[0] + shift) * pull)))
        squared = add_up(a * b / (g + h - g * h) for g, a in modes for h, b in modes)
        return squared.sqrt() * (2 - self.s[0]) / (2 - self.s[-1])


def batch_norm(spaced: Callable[[int, int], arb], batch: int, rounds: int, separation: int) -> arb:
    """Return the norm of a person's rounds from the norm of spaced pushes (participation.md)."""
    if separation % batch == 0:
        return spaced(rounds, separation // batch)
    crowd = min(rounds, -(-batch // separation))
    bound = crowd * spaced(-(-rounds // crowd), max(1, separation // batch))
    return bound.min(spaced(rounds, separation // batch)) if separation >= batch else bound


def tree_column(pushes: int, batch: int, rounds: int, separation: int) -> arb:
    """Return a bound for the tree, with the most crowded nodes first (participation.md)."""
    total = 0
    for level in range(pushes.bit_length()):
        nodes, most = pushes >> level, min(rounds, -(-(batch << level) // separation))
        full = min(rounds // most, nodes)
        rest = min(rounds - full * most, most) if full < nodes else 0
        total += full * most**2 + rest**2
    return arb(total).sqrt()


def root_column(pushes: int, rounds: int, separation: int) -> arb:
    """Return the norm of a sum of columns, for the coefficients of (1 - x)^(-1/2)."""
    require_covered(pushes <= 4096, "a square root of more than 4096 pushes")
    c, column, back = [arb(1)], list[arb](), rounds * separation
    for i in range(1, pushes):
        c.append(c[-1] * (2 * i - 1) / (2 * i))
    for i in range(pushes):
        before = column[i - separation] if i >= separation else 0
        column.append(c[i] + before - (c[i - back] if i >= back else 0))
    return add_up(x * x for x in column).sqrt()


def band_norms(factor: Any) -> tuple[list[arb], list[arb]]:
    """Return the norms of columns and the scales of draws of a band (banded.md).

    Columns in window j have the norm w_j = max(K - j, 1)^eta: the level of column t is the norm of
    its coefficients divided by w_j.
    """
    n, band, windows, c, squares = factor.pushes, factor.band, factor.windows, arb(1), [arb(1)]
    known = band <= min(n, 1000) and windows <= n <= 10**4 and factor.tilt <= 0.25
    require_covered(known, "such a band")
    weights = [arb(max(windows - j, 1)) ** factor.tilt for j in range(-(-n // band))]
    for i in range(1, band):
        c *= (i - 1 + arb("0.57")) / i
        squares.append(squares[-1] + c * c)
    draws = [squares[min(band, n - t) - 1].sqrt() / weights[t // band] for t in range(n)]
    return weights, draws


def banded_column(factor: Any, batch: int, rounds: int, separation: int) -> arb:
    """Return the norm of a person's rounds in a band, from rounds that share no row."""
    weights, draws = band_norms(factor)

    def pattern_norm(k: int, b: int) -> arb:
        k = min(k, -(-factor.pushes // b))
        ways = min(k, -(-factor.band // b))
        own = [weights[x * ways * b // factor.band] for x in range(-(-k // ways))]
        return ways * dot(own, own).sqrt()

    return reduce(arb.max, draws) * batch_norm(pattern_norm, batch, rounds, separation)


def column(factor: Any, pushes: int, batch: int, rounds: int, separation: int) -> arb:
    """Return the largest norm of |C| times a person's rounds, with `batch` rounds to a push."""
    k = min(rounds, -(-pushes * batch // separation))
    if factor.kind == "tree":
        return tree_column(pushes, batch, k, separation)
    if factor.kind == "banded":
        require_covered(pushes <= factor.pushes, "more pushes than a band is for")
        return banded_column(factor, batch, k, separation if k > 1 else batch)
    separation = separation if k > 1 else batch
    if factor.kind == "square_root":
        require_covered(
            separation % batch == 0, "batches that do not divide a separation, in such a sum"
        )
        return root_column(pushes, k, separation // batch)
    buffers = Buffers(factor, pushes)
    require_covered(pushes <= buffers.n, "more pushes than levels are for")
    require_covered(k <= FOLLOWED, f"more than {FOLLOWED} rounds of a person in a sum")
    if separation % batch and not buffers.levels:
        return buffers.pair_bound(k, separation, batch)
    k = k if k == 1 else min(rounds, -(-buffers.n * batch // separation))
    return batch_norm(buffers.column, batch, k, separation)


def extent(own: Any) -> tuple[int, int]:
    """Return the length of the longest batch, and the end of the batch after the last."""
    first, pushes, starts = own.batch, max(own.pushes, 1), [0]
    if own.growth is None:
        return first, (own.pushes + 1) * first
    grows = own.growth in ("root", "quarter", "three_tenths")
    require_covered(grows and pushes <= FOLLOWED, "such batches that grow")
    length = float(first)
    while len(starts) < pushes + 2:
        require_covered((e := starts[-1]) < 2**42, "growing batches that are too long")
        grown = e // 4 if own.growth == "quarter" else min(e // 10, math.isqrt(4 * e))
        starts.append(e + (int(length) if own.growth == "three_tenths" else max(first, grown)))
        length *= 1.3
    return starts[pushes] - starts[pushes - 1], starts[pushes + 1]


def sum_column(own: Any, near: Near) -> arb:
    """Return the column norm of a described sum, or a bound if batches grow (participation.md)."""
    factor, pushes = own.factorisation, max(own.pushes, 1)
    if own.growth is None:
        return column(factor, pushes, own.batch, near.rounds, near.separation)
    length, end = extent(own)
    rounds = near.among(end)
    crowd = min(rounds, -(-length // near.separation))
    apart = max(1, crowd * near.separation // length)
    each = column(factor, pushes, 1, -(-rounds // crowd), apart)
    return (rounds * column(factor, pushes, 1, 1, 1)).min(crowd * each)


def entries(summand: Any) -> int:
    """Return how many numbers a round adds to the sum."""
    if summand.kind == "net_differences":
        return math.prod(summand.counts) - 1
    if summand.kind == "centred_losses":
        return summand.experts
    if summand.kind == "interval_totals":
        return sum(summand.cells)
    if summand.kind == "moments_and_loss":
        return 1 + summand.arms * (summand.dimension * (summand.dimension + 3) // 2)
    d, matrix = summand.dimension, summand.kind in ("second_moments", "gradient_and_curvature")
    if summand.kind == "residual_statistics":
        triangles, mean = (1, 0) if summand.mean is None else (summand.arms, d)
        return summand.arms * d + triangles * (d * (d + 1) // 2) + mean + summand.bins
    return getattr(summand, "arms", 1) * (d * (d + 1) // 2 + d) if matrix else d


def movement(summand: Any, near: Near, order: arb) -> arb:
    """Return the largest distance between two rounds, inflated for noise of this order.

    Proofs: continual_sum.md, generalized_gaussian.md, noisy_ftrl.md, forgetting.md, linucb.md,
    noisy_newton.md, prefix_hedge.md, lipschitz.md, statistics.md, deep_learning.md,
    residual_phases.md.
    """
    kind, sides, up = summand.kind, near.sides, 1 + arb(10) ** -12  # rounding of means in doubles
    shaped = kind in ("clipped_vector", "glm_gradient")
    require_covered(order == 2 or (shaped and 2 < order <= summand.norm), "noise of such an order")
    if kind == "centred_losses":
        n = summand.experts
        require_covered(n <= 2**32, "more experts than rounding is bounded for")
        return (n - arb(n % 2) / n).sqrt() * (up + max(0, n - 4096) * arb(2) ** -52)
    if kind == "net_differences":
        return sides * summand.lipschitz * net_reach(summand) * up
    if kind == "residual_statistics":
        z, m, w = summand.weight**2, summand.mark**2, (summand.mean or 0) ** 2
        require_covered(z <= 2, "such a weight of residuals")
        two = arb(4) if z <= arb(0.5) else 2 + 2 * z + 1 / (2 * z)
        return (1 + z + w + m if sides == 1 else two + 4 * w + 2 * m).sqrt() * up
    if kind == "clipped_vectors":
        require_covered(summand.count <= 2**20, "more vectors than rounding is bounded for")
        return summand.bound * (sides + summand.count**2 * arb(2) ** -51) * up
    if kind == "interval_totals":
        require_covered(len(summand.cells) == len(summand.units) > 0, "units without cells")
        return sides * summand.records * dot(summand.units, summand.units).sqrt() * up
    slope, d, norm = getattr(summand, "slope", 1), arb(summand.dimension), summand.norm
    require_covered(norm >= 1, "an exponent of a norm below 1")
    own = (summand.bound, summand.bound_l2) if kind == "clipped_vector" else None
    length, length_l2 = own or (summand.features, summand.features_l2)
    if order != 2:
        inflation = ((order - 1) * d ** max(arb(0), 2 / order - 2 / norm)).sqrt()
        return inflation * sides * slope * length
    length = (length * d ** max(arb(0), arb(1) / 2 - 1 / norm)).min(length_l2)
    if kind == "gradient_and_curvature":
        z = (summand.weight * summand.curvature * length / slope) ** 2
        two = 4 + z if z <= 1 + arb(0.5).sqrt() else 2 + 2 * z + 1 / (2 * z)
        return slope * length * (1 + z if sides == 1 else two).sqrt() * up
    if shaped:
        return sides * length * slope
    require_covered(1 <= summand.rounding < 2, "a rounding that takes something off")
    u = (summand.weight * summand.label / length) ** 2
    factor = arb(2).sqrt() * (1 + u / 2) if u <= 2 else 2 * u.sqrt()
    moments = length**2 * summand.rounding * ((1 + u).sqrt() if sides == 1 else factor)
    if kind == "moments_and_loss":  # the loss may move by its whole range, whatever the moments do
        return (moments**2 + (summand.loss_weight * summand.largest_loss) ** 2).sqrt() * up
    return moments


def net_reach(summand: Any) -> arb:
    """Return the largest norm of the transform of losses of slope 1 on a net (lipschitz.md)."""
    sides, counts, transform = summand.sides, summand.counts, summand.transform
    axes = {"increments": (0, 1), "grid_laplacian": (0, 2), "parent": (0, 1, 2)}
    fits = len(sides) == len(counts) in axes.get(transform, ()) and min(counts, default=2) > 1
    k = (counts[0] - 1).bit_length() - 1 if fits and counts else 0
    fits = fits and (transform != "parent" or all(n == 2**k + 1 for n in counts))
    require_covered(fits, "the transform does not fit the net")
    h = [side / (count - 1) for side, count in zip(sides, counts, strict=True)]
    if transform == "parent" or not counts:
        half = arb(2) ** -k
        constant = (3 - half) / 2 if len(h) == 1 else (k + 5 - half) / 2
        return (add_up(side**2 for side in sides) * constant).sqrt()
    if transform == "increments":
        return h[0] * arb(counts[0] - 1).sqrt()
    down, across = counts
    return (h[0] ** 2 * (down - 1) * across + h[1] ** 2 * down * (across - 1)).sqrt()


def require_grid(grid: arb, scale: arb) -> None:
    """Raise `NotCoveredError` for spacings that lattice.md does not cover."""
    mantissa, exponent = math.frexp(float(grid))
    bits = math.frexp(float(scale))[1] - exponent
    require_covered(
        mantissa == 0.5 and 16 <= bits <= 28 and exponent > -900, "a lattice of such spacing"
    )


def rounding(own: Any) -> arb:
    """Return the length that rounding the draws of one coordinate adds in all (lattice.md)."""
    factor, pushes = own.factorisation, own.pushes
    if factor.kind in ("tree", "square_root"):
        return 8 * own.grid * arb(pushes).sqrt() * (factor.kind == "square_root")
    if factor.kind == "banded":
        draws = band_norms(factor)[1]
        largest = reduce(arb.max, draws)
        return 2 * own.grid * add_up(1 / level(x / largest) ** 2 for x in draws).sqrt()
    buffers = Buffers(factor, pushes)
    buffers.require_lattice(pushes)
    return buffers.path(pushes, own.grid, own.scale)


def sum_loss(own: Any, near: Near) -> Loss | None:
    """Return the loss of running sums (continual_sum.md, generalized_gaussian.md, lattice.md)."""
    summand, pushes, scale, grid = own.summand, own.pushes, own.scale, own.grid
    seen_by(near, "others" if getattr(summand, "arms", 1) > 1 else "everyone")
    moved, length, size = movement(summand, near, own.order), extent(own)[0], entries(summand)
    if pushes == 0 or moved == 0:
        return NOTHING
    if scale == 0:
        return None
    held = sum_column(own, near)
    if grid == 0:
        mass = pushes * (size if own.order == 2 else 8 * (size + 1)) * TAIL
        return make_loss("gdp", mass, mu=moved * held / scale)
    require_grid(grid, scale)
    require_covered(own.order == 2, "noise of such an order on a lattice")
    # A limit was computed in doubles, so its last digits may differ.
    kept = movement(summand, near._replace(change="zero_out"), own.order) * length
    require_covered(
        kept <= own.limit * grid * (1 + arb(DIGITS)), "a limit that does not hold a push"
    )
    require_covered(own.limit <= 2**50 and own.limit * pushes <= 2**61, "sums can overflow")
    leaf = getattr(summand, "records", 1) * arb(size).sqrt() * grid
    if length > 1:
        leaf += moved * arb(2) ** -53 * length * (length + 1 if own.growth is None else 5)
    mu = (held * (moved + leaf) + arb(size).sqrt() * rounding(own)) / scale
    return make_loss("gdp", pushes * size * 6 * EXACT_TAIL, mu=mu)


# -- Batches and fits ------------------------------------------------------------------------------


def batch_loss(own: Any, near: Near) -> Loss:
    """Return the loss of noisy sums of batches of losses (batch_share.md)."""
    n, law, grid, rounds = own.experts, own.law, own.grid, near.rounds
    known = law in ("knorm", "laplace", "gaussian")
    require_covered(n >= 2 and known and own.scale > 0, "such a batch")
    if grid > 0:
        require_grid(grid, own.scale)
        centred = grid * 2**16 <= 1 and n * own.batch <= 2**53 * grid
        fits = grid <= 1 and own.batch < 2**51 * grid
        require_covered(
            fits and (law == "laplace" or (law == "gaussian" and centred)), "such a lattice"
        )
    if law != "gaussian":
        each = make_loss("pure", epsilon=(n if law == "laplace" else 1) / own.scale)
        return group(each, rounds)
    # Rounding of the mean that is subtracted moves all entries alike.
    moved = (n - arb(n % 2) / n).sqrt() * (1 + arb(10) ** -9)
    full, rest = divmod(rounds, crowd := near.among(own.batch))
    mass = rounds * n * (EXACT_TAIL if grid > 0 else TAIL)
    return make_loss("gdp", mass, mu=moved * arb(full * crowd**2 + rest**2).sqrt() / own.scale)


# -- Decisions that are kept or drawn afresh -------------------------------------------------------


def tilted_numbers(own: Any, near: Near) -> tuple[arb, arb, arb]:
    """Return b and the largest moves of a draw and of a later bit (objective_perturbation.md)."""
    losses, draw = own.losses, own.draw
    known_bits = own.keep.kind in ("scheduled", "density_ratio")
    require_covered(losses.smoothness < NEVER and known_bits, "such bits of tilted minima")
    b = draw.step * losses.smoothness if losses.smoothness > 0 else arb(0)
    apart = near.sides * losses.lipschitz
    bent = losses.rank * (b * b / (1 + 2 * b)).log1p()
    return b, apart / draw.noise, apart * losses.lipschitz / draw.noise**2 + bent


def gibbs_numbers(own: Any, near: Near) -> tuple[arb, arb, arb]:
    """Return the same numbers as `tilted_numbers`, for draws from Gibbs laws (gibbs_draws.md)."""
    losses, draw, keep, n = own.losses, own.draw, own.keep, own.losses.dimension
    beta, lam, g = draw.inverse_temperature, draw.regularization, losses.lipschitz
    moved = near.sides * g * (beta / lam).sqrt()
    if keep.kind != "density_ratio":
        return arb(0), moved, arb(0)
    require_covered(losses.rank == 0 and draw.half_width > 0, "a window on these Gibbs laws")
    far = (g * own.rounds) ** 2 * beta / lam
    units = (arb(n) / 8 + 24) / own.rounds * far + 4 * (keep.high + keep.low)
    if draw.half_width < NEVER:
        central = (draw.half_width * (beta * lam / 2).sqrt()).erf().max(arb(5e-324))
        units += 52 * (2 * n + 81 + far / 2 - n * central.log()) + 8 * far
    return arb(0), moved, beta * near.sides * g * g / lam + 2 * arb(2) ** -53 * units


def own_factor(own: Any) -> arb:
    """Return minus the log of the smallest acceptance factor of one round."""
    keep = own.keep
    if keep.kind == "dartboard":
        return own.draw.inverse_temperature * keep.span
    return keep.high + keep.low if hasattr(keep, "high") else 2 * getattr(keep, "width", arb(0))


def coupled_loss(own: Any, near: Near) -> Loss | None:
    """Return the loss of all decisions and bits of a coupled learner (couplings.md)."""
    losses, draw, keep, block, k = own.losses, own.draw, own.keep, own.block, near.rounds
    ranks = losses.rank <= losses.dimension and (losses.rank == 0) == (losses.smoothness == 0)
    forced = getattr(keep, "forced", arb(1))
    require_covered(
        ranks and block <= own.rounds and forced <= 1, "such ranks, blocks or probabilities"
    )
    bits = -(-own.rounds // block) - 1
    drawn = bits if own.cap is None else min(own.cap, bits)
    is_tilted, window = draw.kind == "tilted_minimum", keep.kind == "density_ratio"
    if near.view == "server" or drawn == 0:
        return NOTHING if near.view != "server" else None
    if keep.kind == "maximal" or forced == 0 or (is_tilted and draw.step == NEVER):
        return None
    b, moved, each = (tilted_numbers if is_tilted else gibbs_numbers)(own, near)
    later, each = (max(bits - 1, 0), each) if window else (0, arb(0))

    def record(changes: int, log_floor: arb, kind: str, **more: Any) -> Record:
        coins = {"forced_switch": forced, "later_bits": later, "shift": changes * block * each,
                 "factor_floor": (-log_floor).exp().max(arb(10) ** -300)}  # fmt: skip
        if kind == "gaussian":
            return {"kind": kind, **coins, "mu": moved * arb(drawn).sqrt()}
        return {"kind": kind, **coins, "cap": drawn, "sensitivity_ratio": changes * moved,
                "b": changes * b, "dimension": losses.dimension, "rank": changes * losses.rank,
                "relation": near.change, **more}  # fmt: skip

    floor, tails = own_factor(own), (drawn * getattr(draw, "tolerance", arb(0))).min(arb(1))
    one = record(1, floor + (block - 1) * each, "renyi" if b > 0 else "gaussian")
    found = group(Loss(one, tails), k)
    if k > 1 and (forced < 1 or b > 0):
        hers = {"rounds": k, "together": near.among(block), "block": block}
        require_covered(
            near.among(block) <= FOLLOWED, f"over {FOLLOWED} rounds of a person in a block"
        )
        person = record(k, floor, "renyi_of_person", **hers)
        found = least_loss([person, *found.record.get("parts", [found.record])], tails)
    return found


# -- Selections, tests, paths, reports -------------------------------------------------------------


def selections_loss(own: Any, near: Near, arms: int = 1, forced: int = 0) -> Loss:
    """Return the loss of noisy selections (noisy_max.md, polyhedral_frank_wolfe.md)."""
    scores, gumbel = own.scores, own.law == "gumbel"
    if scores.kind == "vertex_scores" and scores.diameter_l1 == 0:
        return NOTHING
    require_covered(own.scale > 0, "selections without noise")
    if scores.kind == "vertex_scores":
        return vertices_loss(own, near, arms, forced)
    require_covered(
        own.law in ("gumbel", "laplace", "exponential") and own.exponent == 0, "such a law"
    )
    reach = 2 * scores.width if scores.kind == "loss_sums" else scores.sensitivity
    each = reach * (1 if getattr(scores, "one_way", True) else 2) / own.scale
    if gumbel:
        return group(make_loss("bounded_range", range=each, count=own.rounds), near.rounds)
    parts = [make_loss("pure", epsilon=own.rounds * each).record]
    parts += [{"kind": "zcdp", "rho": own.rounds * each * each / 2}] * (own.rounds > 1)
    return group(least_loss(parts, arb(0)), near.rounds)


def vertices_loss(own: Any, near: Near, arms: int, forced: int) -> Loss:
    """Return the loss of selections of vertices, also for the arms of a bandit."""
    scores, gumbel = own.scores, own.law == "gumbel"
    require_covered(gumbel or own.law == "laplace", "noise of such a law")
    require_covered(own.exponent <= arb(0.9) and scores.offset <= 1, "such an exponent or offset")
    leaf, leaf_l2 = scores.slope * scores.leaf, scores.slope * scores.leaf_l2

    def leaf_movement(diameter: arb, diameter_l2: arb) -> arb:
        return near.sides * (diameter * leaf).min(diameter_l2 * leaf_l2) / scores.batch

    reach = leaf_movement(scores.diameter_l1, scores.diameter_l2)
    parts = leaf_movement(scores.diameter_l2, scores.diameter_max)
    spread = reach.min(parts) if scores.product else reach
    record = {"kind": "selections", "law": "bounded_range" if gumbel else "pure",
              "range": reach / own.scale, "spread": spread / own.scale, "terms": own.rounds,
              "exponent": own.exponent, "offset": scores.offset}  # fmt: skip
    if near.rounds > 1:
        record |= {"kind": "selections_of_person", "rounds": near.rounds, "arms": arms,
                   "separation": near.separation, "batch": scores.batch,
                   "forced": forced}  # fmt: skip
    return Loss(record, arb(0))


def tests_loss(own: Any, near: Near) -> Loss:
    """Return the loss of comparisons with a noisy threshold (shift_detector.md)."""
    d, s = own.sensitivity, own.spread
    require_covered(own.law in ("exponential", "laplace") and d <= s <= 2 * d, "such tests")
    require_covered(min(own.threshold_scale, own.query_scale) > 0, "tests without noise")
    each = d / own.threshold_scale + own.alarms * s / own.query_scale
    return group(make_loss("pure", epsilon=each), near.rounds)


def tracker_loss(own: Any, near: Near) -> Loss:
    """Return the loss of a path that is redrawn (tracker_accounting.md)."""
    rate, shares = own.share_rate, own.prior == "share"
    require_covered(
        arb(1e-9) <= own.forced <= 1 and (shares or own.prior == "at_most"), "such coins"
    )
    require_covered((rate is not None) == shares, "a share rate is for the prior 'share'")
    most = 1 - arb(1) / own.experts + arb(2) ** -52
    require_covered(not shares or rate == 0 or arb(1e-100) <= rate <= most, "such a share rate")
    same = ("learning_rate", "batch", "horizon", "share_rate", "experts", "prior")
    numbers = {name: getattr(own, name) for name in same} | {"max_resamples": own.cap}
    return group(make_loss("tracker", forced_switch=own.forced, **numbers), near.rounds)


def report_ratio(law: Any) -> Fraction:
    """Return the largest ratio of probabilities of a report, which are integers over 2^53."""
    units = 2**53
    if law.kind == "bits":
        require_covered(
            law.low <= law.high < units and law.count <= 2**12, "bits without a ratio, or many"
        )
        worst = max(Fraction(law.high, law.low), Fraction(units - law.low, units - law.high))
        return Fraction(worst**law.count)
    require_covered(law.size < law.labels and law.inside < units, "subsets of all labels")
    share, own = Fraction(law.size, law.labels), Fraction(law.inside, units)
    chances = (own / share, Fraction(1), (1 - own) / (1 - share))
    return max(chances) / min(chances) if law.inside else Fraction(1)


def reports_loss(own: Any, near: Near) -> Loss:
    """Return the loss of one user's reports for any observer (local_randomizers.md)."""
    require_covered(own.laws or own.reports == 1, "several reports without laws")
    for law in own.laws:
        ratio = report_ratio(law)
        log_ratio = (arb(ratio.numerator) / ratio.denominator).log()
        require_covered(ratio == 1 or log_ratio <= own.epsilon, "a law that exceeds epsilon")
    many = own.reports * near.rounds
    require_covered(many <= FOLLOWED, f"more than {FOLLOWED} reports")
    return make_loss("local_reports", epsilon=own.epsilon, reports=many, delta=arb(0))


def declared_loss(own: Any, near: Near) -> Loss:
    """Return the loss of a mechanism that another program promises (gaussian.md, pure.md)."""
    require_covered((near.change, near.view) == (own.change, "everyone"), "another change")
    each = own.sensitivity / own.scale
    return group(
        make_loss("gdp", mu=each) if own.l2 else make_loss("pure", epsilon=each), near.rounds
    )


# -- Parts -----------------------------------------------------------------------------------------

LEMMAS = {"": ("together", "server"), "epoch_selector": ("instances", "everyone"),
          "shift_detector": ("instances", "everyone"),
          "high_dimensional_bandit": ("one_of", "others"),
          "ranges": ("one_of", "everyone")}  # fmt: skip
FRESH = ("gaussian_sum", "batch_release", "selections", "local_report", "nothing")


def joint(parts: list[Loss]) -> Loss:
    """Return the loss of all parts together; all of them depend on data (composition.md)."""
    mass, records = add_up(each.mass for each in parts), [each.record for each in parts]
    kinds = {record["kind"] for record in records}
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    if kinds == {"gdp"}:
        return make_loss("gdp", mass, mu=add_up(each["mu"] ** 2 for each in records).sqrt())
    if kinds == {"pure"}:
        return make_loss("pure", mass, epsilon=add_up(each["epsilon"] for each in records))
    return make_loss("together", mass, parts=records)


def either(parts: list[Loss]) -> Loss:
    """Return the loss of one part among several; of Gaussian parts the largest (composition.md)."""
    mass = add_up(each.mass for each in parts)
    apart = [
        x
        for each in parts
        for x in (each.record["parts"] if each.record["kind"] == "either" else [each.record])
    ]
    bells = [x for x in apart if x["kind"] == "gdp"]
    others = [x for i, x in enumerate(apart) if x["kind"] != "gdp" and x not in apart[:i]]
    if bells:
        others.append({"kind": "gdp", "mu": reduce(arb.max, (x["mu"] for x in bells))})
    return Loss(others[0], mass) if len(others) == 1 else make_loss("either", mass, parts=others)


def search_loss(own: Any, near: Near) -> Loss | None:
    """Return the loss of a search for ranges (ranges.md)."""
    counts, vector = own.counts, own.counts.summand
    fits = vector.kind == "clipped_vector" and bool(arb(vector.norm) == NEVER)
    fits = fits and bool(vector.bound == own.second) and own.medians <= vector.dimension
    fits = fits and (own.first == 0) == (own.medians == 0) and counts.pushes > 0
    require_covered(fits and counts.batch == 1 and counts.growth is None, "such counts")
    require_covered(counts.order == 2 and counts.scale < 2**13, "counts off their grid")
    if counts.scale == 0 or (own.medians and own.scale == 0):
        return None
    # A record is in one bin of every column, which bounds how far it moves the counts.
    alone = sum_loss(counts, near._replace(rounds=1, separation=1))
    mass = alone.mass if alone is not None else arb(1)  # also refuses lattices without a proof
    moved = near.among(own.second) * arb(near.sides * vector.dimension).sqrt()
    reach = column(counts.factorisation, counts.pushes, 1, 1, 1) * moved
    if counts.grid > 0:
        reach += arb(vector.dimension).sqrt() * rounding(counts)
    widths = make_loss("gdp", mass, mu=reach / counts.scale)
    if own.medians == 0:
        return widths
    each = near.sides * near.among(own.first) / own.scale
    if near.rounds == 1:
        return either([make_loss("bounded_range", range=each, count=own.medians), widths])
    mu = arb(own.medians).sqrt() * 2 * arb(2).sqrt() * (each / 4).tanh().erfinv()
    joined = either if near.among(own.first + own.second) == 1 else joint
    return joined([make_loss("gdp", mu=mu), widths])


def parts_loss(own: Any, near: Near) -> Loss | None:
    """Return the loss of several mechanisms (composition.md and the page of the lemma)."""
    how, widest = LEMMAS.get(own.lemma, ("", ""))
    require_covered(own.parts and own.how == how, "parts without the lemma that is about them")
    seen_by(near, widest)
    if how == "together" or own.lemma == "ranges":
        losses = [derive_loss(part, near) for part in own.parts]
        told = [each for each in losses if each is not None and each.record != NOTHING.record]
        joined = joint if how == "together" or near.rounds > 1 else either
        return None if None in losses else joined(told)
    part, alone = own.parts[0], near._replace(rounds=1, separation=1)
    require_covered(all(each == part for each in own.parts), "several unlike parts")
    one = derive_loss(part, alone)
    if one is None or one.record == NOTHING.record:
        return one
    if how == "instances":
        proved = part.kind in FRESH or one.record["kind"] == "pure"
        require_covered(len(own.parts) == 1 and one.mass == 0 and proved, "such instances")
        return group(one, near.rounds)
    if near.rounds > 1:
        require_covered(
            own.forced is not None and part.kind == "selections", "rounds in several arms"
        )
        one = selections_loss(part, near, len(own.parts), own.forced)
    return one._replace(mass=(len(own.parts) * one.mass).min(arb(1)))


MECHANISMS: dict[str, Callable[[Any, Near], Loss | None]] = {
    "gaussian_sum": sum_loss, "batch_release": batch_loss,
    "coupled_draws": coupled_loss, "selections": selections_loss,
    "threshold_tests": tests_loss, "tracker_draws": tracker_loss, "local_report": reports_loss,
    "range_search": search_loss, "declared": declared_loss, "parts": parts_loss,
    "nothing": lambda own, near: NOTHING,
    "open": lambda own, near: None,
}  # fmt: skip


def derive_loss(own: Any, near: Near) -> Loss | None:
    """Return the loss that follows from a description; None if there is no privacy."""
    require_covered(own.kind in MECHANISMS, f"a {own.kind} by itself")
    whoever = own.kind in ("coupled_draws", "local_report", "open", "parts")
    seen_by(near, "server" if whoever else "everyone")
    return MECHANISMS[own.kind](own, near)


def longest(own: Any) -> float:
    """Return the largest number of rounds that a description covers."""
    if own.kind == "gaussian_sum":
        return extent(own)[1] if own.pushes else math.inf
    if own.kind == "parts":
        rounds = [math.inf if own.how == "instances" else longest(part) for part in own.parts]
        if own.how == "one_of" and own.forced is None:
            return sum(rounds)
        return max(rounds) + (len(rounds) - 1) * (own.forced or 0)
    if own.kind == "selections" and own.scores.kind != "promised_scores":
        return (own.rounds + 1) * getattr(own.scores, "batch", math.inf)  # sums: of any number
    if own.kind == "range_search":
        return own.first + own.second
    return getattr(own, "rounds", None) or getattr(own, "horizon", None) or math.inf


# -- Reading ---------------------------------------------------------------------------------------

# Fields of each kind. Types are n: a count of at least 1; x or nothing: a positive number; b, s: a
# truth value, a text; d, D: a description, a list of them; N, X, S: lists of n, x, s; t: a table of
# numbers and texts; *: anything. Marks after the type are 0: may be 0; i: may be infinite; u: at
# most 1; -: may be null; ?: may be absent.
PLAIN = {str, float, int, bool, type(None)}  # in a table
TABLE = """dpoco.guarantee: version n, epsilon x0i, delta x0u, change s, unit s, horizon n,
mechanism s, mu x-, rho x-, calibration s, certified b, seeded b?, claimed X0i-, paper_epsilon x0i-,
reference s, conditions S, truncation_mass x0u, profile *?, regret_bound x0-?, details t?, numerics
s-?, view s?, description d-?, person N-?; clipped_vector: dimension n, norm xi, bound, bound_l2 xi;
glm_gradient: dimension n, norm xi, features, features_l2 xi, slope; gradient_and_curvature:
dimension n, norm xi, features, features_l2 xi, slope, curvature, weight; second_moments: dimension
n, norm xi, features, features_l2 xi, label, weight, arms n, rounding; moments_and_loss: dimension
n, norm xi, features, features_l2 xi, label, weight, arms n, rounding, largest_loss, loss_weight;
centred_losses: experts n;
residual_statistics: dimension n, features, arms n, bins n, weight, mark, mean x-?;
clipped_vectors: dimension n, bound, count n;
interval_totals: cells N, units X, records n;
net_differences: sides X, counts N, transform s, lipschitz, enforced b; blt: decay X, weights X;
blt_normalised: decay X, weights X, pushes n; banded: pushes n, band n,
windows n, tilt x0; tree:; square_root:; gaussian_sum: summand
d, factorisation d, pushes n0, batch n, scale x0, order, grid x0, limit n0, growth s-?;
batch_release: experts n, law s, scale x0, batch n, grid x0; smooth_losses: dimension n, lipschitz,
smoothness x0i, rank n0, enforced b; scheduled:; density_ratio: forced x0, high x0, low x0;
dartboard: forced x0, span; anchored: forced x0, width; maximal: forced x0; tilted_minimum: noise,
step xi; gibbs_draw: inverse_temperature, regularization, half_width x0i, tolerance x0;
coupled_draws: losses d, draw d, keep d, rounds n, block n, cap n0-; loss_sums: width;
promised_scores: sensitivity, one_way b; vertex_scores: slope, leaf, diameter_l1 x0,
diameter_l2 x0, diameter_max x0, product b, batch n, leaf_l2 xi, offset n0; selections: law s,
scores d, scale x0, rounds n, exponent x0; threshold_tests: law s, threshold_scale x0,
query_scale x0, sensitivity, spread, alarms n; tracker_draws: experts n, prior s, learning_rate,
forced x0, batch n, horizon n-, share_rate x0-, cap n0-; bits: low n, high n, count n;
subset: labels n, size n, inside n0; local_report: epsilon, reports n, laws D; range_search:
second n, counts d, medians n0, first n0, scale x0; declared: change s, l2 b, sensitivity, scale;
nothing: reason s; open: reason s; parts: how s, parts D, lemma s, forced n0-?"""
ROWS = (each.partition(":") for each in " ".join(TABLE.split()).split(";"))
FIELDS = {kind.strip(): fields.strip() for kind, _, fields in ROWS}


def field(name: str, value: Any, marks: str) -> Any:
    """Return the value of a field that has these marks; numbers become balls."""
    kind, zero = marks[0], "0" in marks
    if kind == "*" or (value is None and "-" in marks):
        return value
    if kind in "NXDS" and type(value) is list:
        return [field(name, each, kind.lower() + marks[1:].strip("-?")) for each in value]
    if kind == "d" and isinstance(value, dict) and value.get("kind") in [*FIELDS]:
        return description(value)
    most = 1 if "u" in marks else sys.float_info.max
    if kind == "x" and type(value) is float and (0 < value <= most or (zero and value == 0)):
        return arb(value)
    if kind == "x" and value == "inf" and "i" in marks:
        return NEVER
    fits = kind == "n" and type(value) is int and (0 if zero else 1) <= value <= 2**62
    plain = isinstance(value, dict) and {*map(type, value.values())} <= PLAIN
    if not (fits or (kind == "t" and plain) or type(value) is {"b": bool, "s": str}.get(kind)):
        raise MalformedError(f"{name} cannot be {value!r:.60}")
    return value


def description(value: Any) -> SimpleNamespace:
    """Return the fields of a record of known kind, read strictly; absent fields are None."""
    kind = value["kind"]
    fields = dict((*each.split(), "x")[:2] for each in FIELDS[kind].split(", ") if each)
    needed = {name for name, marks in fields.items() if "?" not in marks}
    if not needed <= {*value} - {"kind"} <= {*fields}:
        raise MalformedError(f"a {kind} has the fields {', '.join(fields)}, and no others")
    found = {name: field(name, value[name], m) for name, m in fields.items() if name in value}
    return SimpleNamespace(kind=kind, **(dict.fromkeys(fields) | found))


def read(record: Any) -> Any:
    """Return a certificate that is read strictly; `MalformedError` for anything else."""
    if not isinstance(record, dict) or record.get("kind") != "dpoco.guarantee":
        raise MalformedError("not a certificate of dpoco")
    if type(record.get("version")) is not int or record["version"] != 2:
        raise MalformedError(f"a certificate of version {record.get('version')!r}; 2 is read")
    found = description(record)
    found.view = found.view or "everyone"
    if found.change not in ("replace", "zero_out") or found.view not in VIEWS:
        raise MalformedError("another change, or another view")
    known = found.person is not None
    if known != (found.unit == "one person") or (known and len(found.person) != 2):
        raise MalformedError("a person has rounds and a separation, and no one else has")
    return found


# -- What a reader concludes -----------------------------------------------------------------------

UNITS = {"one round", "one record", "one user's record", "one report"}
REPRODUCIBLE = ("SEEDED SOURCE", "SIMULATED REPORTS")  # words of conditions
PROMISES = """another program keeps to its unit, sensitivity and noise (stated by the issuer)
a record moves no score and no query by more than is declared
all losses obey their bounds, and draws are as near to their law as is declared""".splitlines()
SILENT = ("local_report", "nothing", "open")  # have no arithmetic to state


def singles(own: Any, held: bool = False) -> list[tuple[Any, bool]]:
    """Return the mechanisms that have no parts, and whether a learner bounds their queries."""
    if own.kind != "parts":
        return [(own, held)]
    held = held or own.lemma == "shift_detector"
    return [each for part in own.parts for each in singles(part, held)]


def conclude(stated: Any) -> tuple[set[str], str | None, list[str]]:
    """Return the units, the arithmetic and the promises that follow from a description.

    A sum that is released once may be of a data set or of a stream.
    """
    possible, exact, rests = {stated.unit}, set(), list[str]()
    for one, held in singles(stated.description):
        scored = getattr(getattr(one, "scores", None), "kind", "")
        asked = scored == "promised_scores" or (one.kind == "threshold_tests" and not held)
        summed = getattr(getattr(one, "summand", None), "kind", "")
        counted = summed in ("interval_totals", "clipped_vectors")
        unit = "one record" if asked or counted else "one round"
        unit = "one user's record" if stated.view == "others" else unit
        if one.kind == "local_report":
            unit = "one report" if one.reports == 1 else f"{one.reports} reports of one user"
        single = getattr(one, "pushes", 2) <= 1 and unit == "one round"
        allowed = {"nothing": UNITS, "open": UNITS, "declared": possible}
        possible &= allowed.get(one.kind, {unit, "one record" if single else unit})
        if one.kind not in SILENT:
            total = one.counts if one.kind == "range_search" and not one.medians else one
            exact.add(getattr(total, "grid", 0) > 0)
        bounds = [getattr(one, name, one) for name in ("summand", "losses", "draw")]
        loose = [
            x
            for x in bounds
            if getattr(x, "tolerance", 0) > 0
            or not getattr(x, "enforced", x.kind != "clipped_vectors")
        ]
        holds = zip(PROMISES, (one.kind == "declared", asked, bool(loose)), strict=True)
        rests += [clause for clause, needed in holds if needed and clause not in rests]
    found = {"one person"} & {stated.unit} if stated.person is not None else possible
    return found, "lattice" if exact == {True} else "float" if exact else None, rests


def names_source(text: str) -> bool:
    """Return whether a condition says where the noise comes from."""
    return text.startswith(("The operating system", *REPRODUCIBLE))


def promise(text: str) -> bool:
    """Return whether a condition of the issuer says that nothing enforces it."""
    return text.startswith("PROMISED, not enforced: ")


def doubts(stated: Any, loss: Loss) -> list[str]:
    """Return the promises and the paper's claim on which the statement rests."""
    own = ["the issuer's promises are kept"] * any(map(promise, stated.conditions))
    found = [] if loss.record == NOTHING.record else conclude(stated)[2] + own
    if stated.claimed is not None:
        (epsilon, delta), kind = stated.claimed, stated.description.kind
        follows = stated.calibration != "paper" or kind != "coupled_draws"
        # The tolerance is larger than rounding needs: false claims fail by much more.
        if not follows or not proved_delta(loss, float(epsilon), delta) <= delta * (1 + arb(1e-9)):
            found = [*found, "nobody relies on what a paper claims instead"]
    return found


def reproducible(stated: Any) -> bool:
    """Return whether any field or condition says that the noise can be repeated."""
    return bool(stated.seeded) or any(text.startswith(REPRODUCIBLE) for text in stated.conditions)


# -- Certificates ----------------------------------------------------------------------------------


def same(stated: Any, value: Any) -> bool:
    """Return whether a stated value equals the derived one, apart from the last digits.

    Stated sums may be larger by their rounding.
    """
    if isinstance(value, dict) and isinstance(stated, dict):
        return {*stated} == {*value} and all(same(stated[n], value[n]) for n in value)
    if isinstance(value, list) and isinstance(stated, list):
        return len(stated) == len(value) and all(map(same, stated, value))
    if isinstance(value, arb) and isinstance(stated, (arb, float)):
        return bool(abs(stated - value * (1 + arb(DIGITS) / 2)) <= 1.5 * DIGITS * abs(value))
    return type(stated) is type(value) and bool(stated == value)


def below(stated: arb | None, value: arb) -> bool:
    """Return whether a number is stated and below the derived one, by more than its last digits."""
    return stated is not None and not stated >= value * (1 - arb(DIGITS))


def stronger(stated: Any, near: Near, loss: Loss) -> str:
    """Return the name of a field that says more than the description proves; "" if none does."""
    own, what = stated.description, evaluate(loss.record)
    bounds = loss.record["parts"] if loss.record["kind"] == "least" else [loss.record]
    up = (what.pure * (1 + arb(x)) for x in (0, DIGITS))  # the library rounds sums up by as much
    bounds = [*bounds, *({"kind": "pure", "epsilon": x} for x in up)]
    possible, exact, _ = conclude(stated)
    failures = {
        "mu": below(stated.mu, what.mu),
        "rho": below(stated.rho, what.rho.min(what.mu**2 / 2)),
        "profile": stated.profile is not None and not any(same(stated.profile, x) for x in bounds),
        "truncation_mass": below(stated.truncation_mass, loss.mass),
        "horizon": stated.horizon > longest(own),
        "seeded": stated.seeded not in (None, reproducible(stated)),
        "certified": stated.certified and stated.seeded is not None and bool(doubts(stated, loss)),
        "numerics": own.kind != "nothing" and stated.numerics not in (None, exact),
        "unit": not possible,
        "conditions": stated.seeded is not None and not any(map(names_source, stated.conditions)),
    }
    return next((name for name, failed in failures.items() if failed), "")


def proved_delta(loss: Loss, epsilon: float, target: arb) -> arb:
    """Return an interval that contains a valid delta at this epsilon, tails included."""
    curve, mass = evaluate(loss.record).curve, loss.mass

    def charge_mass(at: float) -> arb:
        return curve(at) + (1 + arb(at).exp()) * mass if mass > 0 else curve(at)

    found = charge_mass(epsilon)
    if (1 + arb(epsilon).exp()) * mass > target * arb(1e-9) and not found <= target:
        # A guarantee at a smaller epsilon also holds at this one.
        return found.min(charge_mass(least(rough(charge_mass), 0.0, epsilon)))
    return found


def check(record: Any) -> tuple[str, str]:
    """Return one of `RESULTS`, and the finding in words.

    Raises `MalformedError` for anything but a certificate, and `RecursionError` for parts that are
    nested too deeply.
    """
    ctx.prec = BITS
    stated = read(record)
    if stated.epsilon == NEVER:
        return "NOT PROTECTED", "no privacy is promised"
    if stated.description is None:
        return "not covered", "there is no description from which anything could be derived"
    near, found = Near(stated.change, stated.view, *(stated.person or (1, 1))), NEVER
    try:
        for bits, more in ((BITS, 0.0), (4 * BITS, 0.0), (BITS, DIGITS)):
            ctx.prec = bits
            loss = derive_loss(stated.description, near)
            name = "epsilon" if loss is None else stronger(stated, near, loss)
            if loss is None or name:
                return "not proved", f"{name} says more than what is described"
            found = proved_delta(loss, float(stated.epsilon) * (1.0 + more), stated.delta)
            if found <= stated.delta:
                at = f", epsilon larger by {more:g} of it" * bool(more)
                return judge(stated, loss, f"delta <= {float(found.upper()):.17g}{at}")
    except NotCoveredError as error:
        return "not covered", str(error)
    except (ArithmeticError, ValueError, RecursionError):
        return "not covered", "numbers out of the range of every formula"
    return "not proved", f"delta {found.str(20)} against {float(stated.delta):.17g}"


def judge(stated: Any, loss: Loss, found: str) -> tuple[str, str]:
    """Return the verdict on a proved point, which also depends on the noise and on promises."""
    whom, point = stated.unit, (float(stated.epsilon), float(stated.delta))
    if stated.person is not None:
        whom += " of at most {} rounds, any two at least {} apart".format(*stated.person)
    said = "epsilon = {:.6g}, delta = {:.6g} for {}, {}, view {}, horizon {} ({})".format(
        *point, whom, stated.change, stated.view, stated.horizon, found
    )
    if reproducible(stated):
        return "NOT PROTECTED", f"the noise is seeded; with secret noise {said}"
    rests = "; and ".join(doubts(stated, loss))
    return ("only if", f"{rests}: {said}") if rests else ("proved", said)


def once(pairs: list[tuple[str, Any]]) -> Record:
    """Return the fields of an object; `MalformedError` if a name is repeated."""
    if len(found := dict(pairs)) < len(pairs):
        raise MalformedError("a name is there twice")
    return found


RESULTS = {"not covered": 1, "not proved": 1, "NOT PROTECTED": 6, "only if": 5, "proved": 0}
ISSUER = """Stated by the issuer, not checked: that this ran as described, with noise that was fresh
and secret and settings fixed beforehand; all other words. Anybody can have written these files."""


def in_one_line(text: str) -> str:
    """Return a text in which a name or a unit cannot look like a verdict on another line."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def main(paths: list[str]) -> int:
    """Check the files and return the exit status."""
    results = set[str]()
    if not paths:
        print("usage: check.py certificate.json ...", file=sys.stderr)
        return 2
    for path in paths:
        try:
            held = json.loads(Path(path).read_bytes(), object_pairs_hook=once, parse_constant=str)
            if held == []:
                raise MalformedError("a list without a certificate")
            rows = [check(each) for each in (held if isinstance(held, list) else [held])]
        except (OSError, ValueError, RecursionError) as error:
            print(in_one_line(f"{path}: {error}"), file=sys.stderr)
            return 2
        for place, (result, found) in enumerate(rows, 1):
            print(in_one_line(f"{path}, certificate {place}: {result}: {found}"))
        results |= {*dict(rows)}
    print(ISSUER)
    return next((RESULTS[name] for name in RESULTS if name in results), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
