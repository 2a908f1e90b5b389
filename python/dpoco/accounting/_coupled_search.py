"""Search for the coupling, block length and noise of the least regret bound at a budget.

Two stages. A rough profile, in which later bits count as a Gaussian of the same variance, is solved
for the noise on a whole grid of block lengths and forced-switch probabilities at once. Then the
exact accountant is solved for the noise at the few best grid points. What is returned always meets
the budget by the exact accountant; only its optimality rests on the rough stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting._coupled_parameters import CoupledParameters
from dpoco.accounting.budget import Budget

FloatArray = NDArray[np.float64]

_SMALLEST_NOISE, _LARGEST_NOISE = 1e-14, 4.0
_FORCED = np.exp(np.linspace(math.log(2e-6), math.log(0.6), 26))
_FINALISTS = 2
# "scheduled" flips no coins, so nothing but its draws has to be trusted: it wins near-ties.
_TIE = 1.05
# The rough stage is right within a few percent; what it sees this far behind cannot win.
_HOPELESS = 1.2


P = TypeVar("P", bound=CoupledParameters)


@dataclass(frozen=True)
class Search(Generic[P]):
    """One learner's side of the search.

    Attributes
    ----------
    budget : Budget
        What may be spent.
    rough : callable
        (coupling, variant, blocks, forced, noise) -> RoughProfile; arrays broadcast.
    rough_value : callable
        (coupling, variant, block, noise) -> regret bound without clip and cap terms.
    build : callable
        (coupling, variant, block, forced, noise) -> parameters, regret bound included.
    delta : callable
        parameters -> delta at the budget's epsilon, everything charged.
    """

    budget: Budget
    rough: Callable[[str, float, FloatArray, FloatArray, FloatArray], RoughProfile]
    rough_value: Callable[[str, float, int, float], float]
    build: Callable[[str, float, int, float, float], P]
    delta: Callable[[P], float]


def blocks_to_try(horizon: int, block: int | None) -> list[int]:
    """Return the block lengths of the grid: powers of two below the horizon, or the one given."""
    if block is not None:
        return [block]
    return [1 << k for k in range(max(1, (horizon - 1).bit_length()))]


def find_best(
    search: Search[P], couplings: Sequence[str], variants: Sequence[float], horizon: int,
    block: int | None, trivial: float,
) -> P | None:  # fmt: skip
    """Return the parameters of the least regret bound among `couplings`; None if nothing fits.

    Parameters
    ----------
    search : Search
        The learner's side.
    couplings : sequence of str
        Couplings admissible for the problem.
    variants : sequence of float
        Values of the learner's own extra parameter.
    horizon : int
        Rounds.
    block : int or None
        Fixes the block length.
    trivial : float
        Bound of the constant decision: what cannot beat it is not refined.
    """
    ranked = sorted(
        start
        for coupling in couplings
        for start in _starts(search, coupling, variants, horizon, block)
        if start.value < trivial
    )
    best: P | None = None
    scheduled: P | None = None
    tried: dict[str, int] = {}
    for start in ranked:
        count = tried.get(start.coupling, 0)
        if start.value > _HOPELESS * ranked[0].value or count >= _FINALISTS:
            continue
        tried[start.coupling] = count + 1
        found = _refined(search, start)
        if found is None:
            continue
        if start.coupling == "scheduled" and (
            scheduled is None or found.regret_bound < scheduled.regret_bound
        ):
            scheduled = found
        if best is None or found.regret_bound < best.regret_bound:
            best = found
    if best is None or scheduled is None or block is not None:
        return best
    return scheduled if scheduled.regret_bound <= _TIE * best.regret_bound else best


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
    search: Search[Any], coupling: str, variants: Sequence[float], horizon: int, block: int | None
) -> list[_Start]:
    """Return, for every block and variant, the forced switch that allows the least noise."""
    fixed = coupling == "scheduled"
    blocks = blocks_to_try(horizon, block)
    if fixed and block is None:
        blocks = sorted({round(2.0 ** (k / 4)) for k in range(4 * len(blocks))})
        blocks = [m for m in blocks if m < horizon] or [1]
    forced = np.ones(1) if fixed else _FORCED
    found = []
    for variant in variants:
        noise = _rough_noise(search, coupling, variant, np.array(blocks, dtype=float), forced)
        where = noise.argmax(axis=1)
        for row, m in enumerate(blocks):
            g = float(noise[row, where[row]])
            if g > _SMALLEST_NOISE:
                value = search.rough_value(coupling, variant, m, g)
                found.append(_Start(value, coupling, variant, m, float(forced[where[row]]), g))
    return found


def _refined(search: Search[P], start: _Start) -> P | None:
    """Return the best parameters near a grid point: golden section on the log forced switch."""
    solved: dict[float, tuple[float, P | None, float]] = {}

    def at(log_p: float, noise: float) -> tuple[float, P | None, float]:
        if log_p not in solved:
            found, noise = _solve(search, start, math.exp(log_p), noise)
            solved[log_p] = (math.inf if found is None else found.regret_bound, found, noise)
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


def _solve(search: Search[P], start: _Start, forced: float, noise: float) -> tuple[P | None, float]:
    """Return the parameters of the largest noise-to-signal ratio that meets the budget."""
    target = math.log(search.budget.delta)

    def excess(log_g: float) -> tuple[float, P]:
        built = search.build(start.coupling, start.variant, start.block, forced, math.exp(log_g))
        value = search.delta(built)
        return (math.log(value) if value > 0.0 else -800.0) - target, built

    x, step = math.log(noise), 0.02
    low: tuple[float, float, P] | None = None  # meets the budget
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
    search: Search[Any], coupling: str, variant: float, blocks: FloatArray, forced: FloatArray
) -> FloatArray:
    """Return the largest noise-to-signal ratio that roughly meets the budget on the grid."""
    m, p = np.meshgrid(blocks, forced, indexing="ij")
    low = np.full(m.shape, math.log(_SMALLEST_NOISE))
    high = np.full(m.shape, math.log(_LARGEST_NOISE))
    budget = search.budget
    with np.errstate(all="ignore"):
        for _ in range(26):
            middle = 0.5 * (low + high)
            rough = search.rough(coupling, variant, m, p, np.exp(middle))
            fits = rough_delta(np.array(budget.epsilon), p, rough) <= budget.delta
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.asarray(np.exp(low))


@dataclass(frozen=True, slots=True)
class RoughProfile:
    """Arrays over a grid of (block, forced switch): what the profile is made of, roughly.

    Attributes
    ----------
    draw_variance : ndarray
        Square of the mu of one draw.
    cap : ndarray
        Largest number of draws.
    log_floor : ndarray
        Minus the log of the smallest acceptance factor of the changed block.
    later_bits, shift : ndarray
        Number of later bits and how far the log stay probability of each moves.
    """

    draw_variance: FloatArray
    cap: FloatArray
    log_floor: FloatArray
    later_bits: FloatArray
    shift: FloatArray


def rough_delta(epsilon: FloatArray, p: FloatArray, rough: RoughProfile) -> FloatArray:
    from scipy.special import log_ndtr, ndtr

    moved = -(1.0 - p) * np.expm1(-rough.shift)
    step = np.log1p(moved / p)
    variance = rough.draw_variance * rough.cap
    variance = variance + rough.later_bits * (2.0 * p + moved) * step * step
    mu = np.sqrt(variance) + 1e-12

    def delta(e: FloatArray) -> FloatArray:
        value = ndtr(0.5 * mu - e / mu) - np.exp(e + log_ndtr(-0.5 * mu - e / mu))
        return np.asarray(np.maximum(value, 0.0))

    factor = np.exp(-rough.log_floor)
    loss = np.log1p((1.0 - p) * (1.0 - factor) / p)
    switch, stay = 1.0 - (1.0 - p) * factor, (1.0 - p) * factor
    one = p * delta(epsilon + loss) + (1.0 - p) * delta(epsilon - rough.log_floor)
    two = switch * delta(epsilon - loss) + stay * delta(epsilon + rough.log_floor)
    return np.asarray(np.maximum(one, two))


def rough_window(noise: FloatArray, error: FloatArray) -> FloatArray:
    """Return roughly the a with delta_G(a; g) = error: a = g x + g^2/2, g psi(x) = error."""
    from scipy.special import erfcx

    x = np.linspace(0.0, 38.0, 1500)
    # psi(x) = phi(x) - x Phi(-x), through the Mills ratio.
    log_psi = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
    log_psi += np.log1p(-x * math.sqrt(0.5 * math.pi) * erfcx(x / math.sqrt(2.0)))
    found = np.interp(np.log(error) - np.log(noise), log_psi[::-1], x[::-1])
    return np.asarray(noise * found + 0.5 * noise * noise)


def rough_cap(decisions: FloatArray, hazard: FloatArray, tail: FloatArray) -> FloatArray:
    """Return roughly the upper quantile of a binomial law."""
    from scipy.special import ndtri

    z = -ndtri(tail)
    spread = np.sqrt(decisions * hazard * (1.0 - hazard))
    return np.asarray(np.minimum(decisions, decisions * hazard + z * spread + z * z / 6.0 + 1.0))
