"""Search for the coupling, block length and noise of the least regret bound at a budget.

Two stages. A rough profile, in which later bits count as a Gaussian of the same variance, is solved
for the noise on a whole grid of block lengths and forced-switch probabilities at once. Then the
exact accountant is solved for the noise at the few best grid points. What is returned always meets
the budget by the exact accountant; only its optimality rests on the rough stage.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting._coupled_parameters import CoupledParameters
from dpoco.accounting.budget import Budget
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.privacy.losses.combined import Tailed
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws
from dpoco.privacy.neighbours import Neighbours

FloatArray = NDArray[np.float64]

_SMALLEST_NOISE, _LARGEST_NOISE = 1e-14, 4.0
_FORCED = np.exp(np.linspace(math.log(2e-6), math.log(0.6), 26))
_FINALISTS = 2
# A constant decision is a draw this close to the centre, relative to the radius.
CONSTANT_SPREAD = 1e-9
# "scheduled" flips no coins, so nothing but its draws has to be trusted: it wins near-ties.
_TIE = 1.05
# The rough stage is right within a few percent; what it sees this far behind cannot win.
_HOPELESS = 1.2
# Share of delta that inexact draws may cost before a smaller epsilon is aimed at.
_MASS_SHARE = 0.2

P = TypeVar("P", bound=CoupledParameters)


@dataclass(frozen=True)
class Setting(ABC, Generic[P]):
    """A learner's problem: what stays fixed while the search varies coupling, block and noise.

    In the methods `variant` is the learner's own extra parameter, and `noise` the ratio of signal
    to noise.
    """

    problem: EuclideanProblem
    horizon: int
    relation: str
    calibration: str
    budget: Budget | None

    @property
    def constants(self) -> dict[str, Any]:
        """What parameters and regret bounds take."""
        q = self.problem
        names = ("dimension", "lipschitz", "radius", "diameter", "unbounded")
        return {"horizon": self.horizon, **{name: getattr(q, name) for name in names}}

    @property
    def trivial(self) -> float:
        """Regret bound of a decision at the centre."""
        return self.problem.lipschitz * self.problem.radius * self.horizon

    @abstractmethod
    def rough(
        self, coupling: str, variant: float, m: FloatArray, p: FloatArray, g: FloatArray
    ) -> RoughProfile:
        """Return the profile at blocks, forced switches and noises; arrays broadcast."""

    @abstractmethod
    def rough_value(self, coupling: str, variant: float, block: int, noise: float) -> float:
        """Return the regret bound without clip and cap terms."""

    @abstractmethod
    def build(self, coupling: str, variant: float, block: int, forced: float, noise: float) -> P:
        """Return parameters with windows, cap and regret bound."""

    @abstractmethod
    def drawn(self, p: P) -> CoupledDraws:
        """Return the mechanism of parameters."""

    @abstractmethod
    def quiet(self, block: int) -> P:
        """Return a fresh draw every block, with noise that costs next to nothing."""

    @abstractmethod
    def constant(self) -> P:
        """Return the parameters of the decision that never looks at data."""

    def spent(self, p: P, budget: Budget) -> float:
        """Return a bound on delta at the budget's epsilon, inexact draws charged."""
        loss = self.drawn(p).loss(Neighbours(p.relation))
        if loss is None:
            return 1.0
        if not isinstance(loss, Tailed):
            return loss.delta(budget.epsilon)
        # A guarantee at a smaller epsilon, where the charge would take too much of the budget.
        epsilon = max(0.0, math.log(_MASS_SHARE * budget.delta / loss.mass))
        epsilon = min(budget.epsilon, epsilon)
        return loss.ideal.delta(epsilon) + (1.0 + math.exp(epsilon)) * loss.mass


def blocks_to_try(horizon: int, block: int | None) -> list[int]:
    """Return the block lengths of the grid: powers of two below the horizon, or the one given."""
    if block is not None:
        return [block]
    return [1 << k for k in range(max(1, (horizon - 1).bit_length()))]


def find_best(
    setting: Setting[P], budget: Budget, couplings: Sequence[str], variants: Sequence[float],
    block: int | None,
) -> P:  # fmt: skip
    """Return the parameters of the least regret bound among `couplings` that meet `budget`.

    What cannot beat the constant decision is not refined; that decision, if nothing does.
    """
    ranked = sorted(
        start
        for coupling in couplings
        for start in _starts(setting, budget, coupling, variants, block)
        if start.value < setting.trivial
    )
    best: P | None = None
    scheduled: P | None = None
    tried: dict[str, int] = {}
    for start in ranked:
        count = tried.get(start.coupling, 0)
        if start.value > _HOPELESS * ranked[0].value or count >= _FINALISTS:
            continue
        tried[start.coupling] = count + 1
        found = _refined(setting, budget, start)
        if found is None:
            continue
        if start.coupling == "scheduled" and (
            scheduled is None or found.regret_bound < scheduled.regret_bound
        ):
            scheduled = found
        if best is None or found.regret_bound < best.regret_bound:
            best = found
    if scheduled is not None and best is not None and block is None:
        best = scheduled if scheduled.regret_bound <= _TIE * best.regret_bound else best
    return best if best is not None and best.regret_bound < setting.trivial else setting.constant()


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
    setting: Setting[Any], budget: Budget, coupling: str, variants: Sequence[float],
    block: int | None,
) -> list[_Start]:  # fmt: skip
    """Return, for every block and variant, the forced switch that allows the least noise."""
    fixed = coupling == "scheduled"
    blocks = blocks_to_try(setting.horizon, block)
    if fixed and block is None:
        blocks = sorted({round(2.0 ** (k / 4)) for k in range(4 * len(blocks))})
        blocks = [m for m in blocks if m < setting.horizon] or [1]
    forced = np.ones(1) if fixed else _FORCED
    found = []
    for variant in variants:
        sizes = np.array(blocks, dtype=float)
        noise = _rough_noise(setting, budget, coupling, variant, sizes, forced)
        where = noise.argmax(axis=1)
        for row, m in enumerate(blocks):
            g = float(noise[row, where[row]])
            if g > _SMALLEST_NOISE:
                value = setting.rough_value(coupling, variant, m, g)
                found.append(_Start(value, coupling, variant, m, float(forced[where[row]]), g))
    return found


def _refined(setting: Setting[P], budget: Budget, start: _Start) -> P | None:
    """Return the best parameters near a grid point: golden section on the log forced switch."""
    solved: dict[float, tuple[float, P | None, float]] = {}

    def at(log_p: float, noise: float) -> tuple[float, P | None, float]:
        if log_p not in solved:
            found, noise = _solve(setting, budget, start, math.exp(log_p), noise)
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


def _solve(
    setting: Setting[P], budget: Budget, start: _Start, forced: float, noise: float
) -> tuple[P | None, float]:
    """Return the parameters of the largest noise-to-signal ratio that meets the budget."""
    target = math.log(budget.delta)

    def excess(log_g: float) -> tuple[float, P]:
        built = setting.build(start.coupling, start.variant, start.block, forced, math.exp(log_g))
        value = setting.spent(built, budget)
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
            rough = setting.rough(coupling, variant, m, p, np.exp(middle))
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
