"""Search for the coupling, block length and noise of the least regret bound at a budget.

Two stages. A rough profile, in which later bits count as a Gaussian of the same variance, is solved
for the noise on a whole grid of block lengths and forced-switch probabilities at once. Then the
exact accountant is solved for the noise at the few best grid points. What is returned always meets
the budget by the exact accountant; only its optimality rests on the rough stage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco._validation import FloatArray, choice, positive_int, real_float
from dpoco.accounting._coupled_setting import ANCHORS, Setting
from dpoco.accounting.budget import Budget
from dpoco.accounting.coupled_runs import CoupledPlan, require_global_bounds
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.coupled_draws import Always
from dpoco.privacy.neighbours import CHANGES, Neighbours

_LARGEST_PLAN = 10**12
_SMALLEST_NOISE, _LARGEST_NOISE = 1e-14, 4.0
_FORCED = np.exp(np.linspace(math.log(2e-6), math.log(0.6), 26))
_FINALISTS = 2
# "scheduled" flips no coins, so nothing but its draws has to be trusted: it wins near-ties.
_TIE = 1.05
# The rough stage is right within a few percent; what it sees this far behind cannot win.
_HOPELESS = 1.2


def search_plan(
    setting: Setting[Any], couplings: Sequence[str], coupling: str, block: int | None,
    max_switches: float | None,
) -> CoupledPlan:  # fmt: skip
    """Return the plan of the least proven regret bound; `couplings` are all there are."""
    horizon, budget = setting.horizon, setting.budget
    if budget is not None:
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget or None; got {type(budget).__name__}")
        budget.require_delta()
        if max_switches is not None:
            raise ValueError("max_switches is for learning without privacy: budget must be None")
    positive_int("horizon", horizon, maximum=_LARGEST_PLAN)
    choice("relation", setting.relation, CHANGES)
    choice("coupling", coupling, ("auto", *couplings))
    if block is not None:
        positive_int("block", block, maximum=horizon)
    if max_switches is not None:
        limit = real_float("max_switches", max_switches)
        if not limit > 0.0:
            raise ValueError(f"max_switches must be positive; got {limit!r}")
        return _laziest(setting, limit, coupling, block)
    if budget is None:
        if coupling not in ("auto", "scheduled"):
            raise ValueError(
                f"coupling {coupling!r} without a budget needs max_switches; the baseline is "
                "'scheduled'"
            )
        return setting.quiet(1 if block is None else block)
    require_global_bounds(setting.problem)
    if horizon == 1:
        return setting.constant()
    return _best(setting, budget, _admissible(coupling, setting.private_couplings), block)


def _admissible(coupling: str, allowed: Sequence[str]) -> Sequence[str]:
    if coupling == "auto":
        return allowed
    if coupling not in allowed:
        raise ValueError(
            f"coupling {coupling!r} does not fit this domain, loss and block; one of "
            f"{sorted(allowed)} does"
        )
    return (coupling,)


def _laziest(setting: Setting[Any], limit: float, coupling: str, block: int | None) -> CoupledPlan:
    """Return the plan of the least bound with at most `limit` expected switches."""
    horizon, allowed = setting.horizon, setting.lazy_couplings
    if horizon == 1:
        return setting.quiet(1)
    allowed = ("scheduled", *(allowed if block in (None, 1) else ()))
    names = _admissible(coupling, allowed)
    if "maximal" in names:  # switches less often than the others at the same laws
        names = [name for name in names if name in ("scheduled", "maximal")]
    found = [p for name in names if name != "scheduled" for p in setting.laziest(name, limit)]
    if "scheduled" in names:
        # The shortest block with at most `limit` ends before the last.
        least = -(-horizon // (math.floor(min(limit, horizon)) + 1))
        if block is not None and block < least:
            raise CalibrationError(f"blocks of {block} rounds switch more than {limit:g} times")
        found.insert(0, setting.quiet(least if block is None else block))
    if not found:
        raise CalibrationError(f"coupling {coupling!r} cannot keep {limit:g} expected switches")
    return min(found, key=lambda p: p.forecast.regret_bound)


def _best(
    setting: Setting[Any], budget: Budget, couplings: Sequence[str], block: int | None
) -> CoupledPlan:
    """Return the plan of the least regret bound among `couplings` that meet `budget`.

    What cannot beat the constant decision is not refined; that decision, if nothing does.
    """
    trivial = setting.problem.lipschitz * setting.problem.radius * setting.horizon
    ranked = sorted(
        start
        for coupling in couplings
        for start in _starts(setting, budget, coupling, block)
        if start.value < trivial
    )
    tried: Counter[str] = Counter()
    found: list[CoupledPlan] = []
    for start in ranked:
        if start.value > _HOPELESS * ranked[0].value:
            break
        tried[start.coupling] += 1
        p = _refine(setting, budget, start) if tried[start.coupling] <= _FINALISTS else None
        if p is not None:
            found.append(p)
    found.sort(key=lambda p: p.forecast.regret_bound)
    best = next(iter(found), None)
    if best is not None and block is None:
        close = (p for p in found if p.forecast.regret_bound <= _TIE * best.forecast.regret_bound)
        best = next((p for p in close if isinstance(p.mechanism.keep, Always)), best)
    return best if best is not None and best.forecast.regret_bound < trivial else setting.constant()


@dataclass(frozen=True, order=True, slots=True)
class _Start:
    """A point of the grid, ordered by its rough regret bound."""

    value: float
    coupling: str
    variant: float
    block: int
    forced: float
    noise: float


def _starts(
    setting: Setting[Any], budget: Budget, coupling: str, block: int | None
) -> list[_Start]:
    """Return, for every block and variant, the forced switch that allows the least noise."""
    fixed = coupling == "scheduled"
    finer, count = 4 if fixed else 1, max(1, (setting.horizon - 1).bit_length())
    blocks = sorted({round(2.0 ** (k / finer)) for k in range(finer * count)})
    blocks = [m for m in blocks if m < setting.horizon] or [1]
    if block is not None:
        blocks = [block]
    forced = np.ones(1) if fixed else _FORCED
    found = []
    for variant in setting.variants:
        sizes = np.array(blocks, dtype=float)
        noise = _rough_noise(setting, budget, coupling, variant, sizes, forced)
        where = noise.argmax(axis=1)
        for row, m in enumerate(blocks):
            g = float(noise[row, where[row]])
            if g > _SMALLEST_NOISE:
                # Without clip and cap terms, and the barrier's, which all have.
                law = dict(zip(setting.law_fields, setting.law(variant, m, g), strict=True))
                value = setting.regret(**setting.constants, **law, block=m).total
                found.append(_Start(value, coupling, variant, m, float(forced[where[row]]), g))
    return found


def _refine(setting: Setting[Any], budget: Budget, start: _Start) -> CoupledPlan | None:
    """Return the best plan near a grid point: golden section on the log forced switch."""
    solved: dict[float, tuple[float, CoupledPlan | None, float]] = {}

    def at(log_p: float, noise: float) -> tuple[float, CoupledPlan | None, float]:
        if log_p not in solved:
            found, noise = _solve(setting, budget, start, math.exp(log_p), noise)
            solved[log_p] = (
                math.inf if found is None else found.forecast.regret_bound,
                found,
                noise,
            )
        return solved[log_p]

    if start.coupling == "scheduled":
        return at(0.0, start.noise)[1]
    low, high = math.log(start.forced) - 0.9, min(math.log(start.forced) + 0.9, -1e-9)
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    noise = start.noise
    for _ in range(5):
        a, b = at(left, noise), at(right, noise)
        noise = a[2] if a[0] < b[0] else b[2]
        if a[0] < b[0]:
            high, right = right, left
            left = high - ratio * (high - low)
        else:
            low, left = left, right
            right = low + ratio * (high - low)
    return min(solved.values(), key=lambda entry: entry[0])[1]


def _solve(
    setting: Setting[Any], budget: Budget, start: _Start, forced: float, noise: float
) -> tuple[CoupledPlan | None, float]:
    """Return the plan of the largest noise-to-signal ratio that meets the budget."""
    target = math.log(budget.delta)

    def excess(log_g: float) -> tuple[float, CoupledPlan]:
        built = setting.build(start.coupling, start.variant, start.block, forced, math.exp(log_g))
        value = setting.spent(built, budget)
        return (math.log(value) if value > 0.0 else -800.0) - target, built

    x, step = math.log(noise), 0.02
    low: tuple[float, float, CoupledPlan] | None = None  # meets the budget
    high: tuple[float, float] | None = None  # does not
    for _ in range(40):
        value, built = excess(x)
        if value <= 0.0:
            low = (x, value, built)
        else:
            high = (x, value)
        if low is not None and (low[1] > -5e-3 or (high and high[0] - low[0] < 5e-4)):
            break
        if low is None or high is None:
            x += -step if low is None else step
            step *= 2.5
            if not math.log(_SMALLEST_NOISE) < x < math.log(_LARGEST_NOISE):
                break
        else:
            # False position, kept off both ends, aimed slightly to the safe side.
            share = min(max((-2e-3 - low[1]) / (high[1] - low[1]), 0.03), 0.97)
            x = low[0] + share * (high[0] - low[0])
    return (None, noise) if low is None else (low[2], math.exp(low[0]))


def _rough_noise(
    setting: Setting[Any], budget: Budget, coupling: str, variant: float, blocks: FloatArray,
    forced: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return the largest noise-to-signal ratio that roughly meets the budget on the grid."""
    m, p = np.meshgrid(blocks, forced, indexing="ij")
    low = np.full(m.shape, math.log(_SMALLEST_NOISE))
    high = np.full(m.shape, math.log(_LARGEST_NOISE))
    with np.errstate(all="ignore"):
        for _ in range(26):
            middle = 0.5 * (low + high)
            delta = _rough_delta(setting, budget.epsilon, coupling, variant, m, p, np.exp(middle))
            fits = delta <= budget.delta
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.asarray(np.exp(low))


def _rough_delta(
    setting: Setting[Any], epsilon: float, coupling: str, variant: float, m: FloatArray,
    p: FloatArray, g: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return delta on a grid of blocks m, forced switches p and noises g, roughly."""
    q, horizon, sides = setting.problem, float(setting.horizon), Neighbours(setting.relation).sides
    decisions = np.ceil(horizon / m) - 1.0
    b, spread, beta = setting.rough_law(variant, m, g)
    # Beyond b ~ 0.1 the Renyi bound runs out of orders; the square forbids it smoothly.
    curved = min(sides * q.rank, q.dimension) * (b * (1.0 + 10.0 * b)) ** 2
    variance = (sides * g) ** 2 + curved
    if coupling == "scheduled":
        zero = np.zeros_like(g)
        return _rough_curve(epsilon, p, variance * decisions, zero, zero, zero)
    closeness, tail = 0.5 / horizon, 1.0 / horizon
    if q.unbounded:
        closeness = (q.diameter / (4.0 * horizon**1.5 * spread)) ** 2
        tail = 4.0 * closeness
    error = np.minimum(0.5, p / m * closeness)
    width = _rough_window(np.sqrt(g * g + q.rank * b * b), error)
    later, shift = np.zeros_like(g), np.zeros_like(g)
    if coupling == "anchored":
        k, z = ANCHORS, math.sqrt(2.0 * math.log(2.0 * horizon**3))
        width = width + g * z / math.sqrt(k) + g * g * (2.5 * k + 1.5) * m / p
    floor = beta * q.factor_range if coupling == "dartboard" else 2.0 * width
    hazard = 1.0 - (1.0 - p) * np.exp(-m * floor)
    if coupling == "dartboard":
        mean = p * horizon / m + beta * (2.0 * (q.lipschitz * horizon * q.radius))
        hazard = np.minimum(hazard, mean / np.maximum(decisions, 1.0))
    elif coupling == "density_ratio":
        each = sides * g * g + q.rank * b * b
        floor = floor + (m - 1.0) * each
        later, shift = np.maximum(decisions - 1.0, 0.0), m * each
    cap = _rough_cap(decisions, hazard, tail)
    return _rough_curve(epsilon, p, variance * cap, floor, later, shift)


def _rough_curve(
    epsilon: float, p: FloatArray, variance: FloatArray, log_floor: FloatArray,
    later_bits: FloatArray, shift: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return delta where all draws together have mu^2 = variance, and later bits count as more."""
    from scipy.special import log_ndtr, ndtr

    moved = -(1.0 - p) * np.expm1(-shift)
    step = np.log1p(moved / p)
    mu = np.sqrt(variance + later_bits * (2.0 * p + moved) * step * step) + 1e-12

    def delta(e: FloatArray) -> FloatArray:
        value = ndtr(0.5 * mu - e / mu) - np.exp(e + log_ndtr(-0.5 * mu - e / mu))
        return np.asarray(np.maximum(value, 0.0))

    factor = np.exp(-log_floor)
    loss = np.log1p((1.0 - p) * (1.0 - factor) / p)
    switch, stay = 1.0 - (1.0 - p) * factor, (1.0 - p) * factor
    one = p * delta(epsilon + loss) + (1.0 - p) * delta(epsilon - log_floor)
    two = switch * delta(epsilon - loss) + stay * delta(epsilon + log_floor)
    return np.asarray(np.maximum(one, two))


def _rough_window(noise: FloatArray, error: FloatArray) -> FloatArray:
    """Return roughly the a with delta_G(a; g) = error: a = g x + g^2/2, g psi(x) = error."""
    from scipy.special import erfcx

    x = np.linspace(0.0, 38.0, 1500)
    # psi(x) = phi(x) - x Phi(-x), through the Mills ratio.
    log_psi = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
    log_psi += np.log1p(-x * math.sqrt(0.5 * math.pi) * erfcx(x / math.sqrt(2.0)))
    found = np.interp(np.log(error) - np.log(noise), log_psi[::-1], x[::-1])
    return np.asarray(noise * found + 0.5 * noise * noise)


def _rough_cap(decisions: FloatArray, hazard: FloatArray, tail: Any) -> FloatArray:
    """Return roughly the upper quantile of a binomial law."""
    from scipy.special import ndtri

    z = -ndtri(tail)
    spread = np.sqrt(decisions * hazard * (1.0 - hazard))
    return np.asarray(np.minimum(decisions, decisions * hazard + z * spread + z * z / 6.0 + 1.0))
