"""Code shared by the accountants of the two coupled learners: plans and guarantees of a problem.

Proofs: ``docs/privacy/couplings.md``, ``docs/privacy/oco_regret.md`` and the learners' own pages.

The search finds the coupling, block length and noise with the least regret bound in two stages. The
first stage uses an approximate privacy curve, in which later bits count as a Gaussian of the same
variance. It solves for the noise on a whole grid of block lengths and forced-switch probabilities
at once. The second stage solves for the noise with the exact accountant at the few best grid
points. The returned plan always meets the budget according to the exact accountant; only its
optimality depends on the first stage.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from dpoco._validation import FloatArray, choice, positive_int, real_float
from dpoco.accounting.budget import Budget
from dpoco.accounting.coupled_regret import (
    bernstein_cap,
    clip_widths,
    describe,
    describe_claim,
    forecast,
    hazard,
    switch_cap,
)
from dpoco.accounting.coupled_runs import (
    CoupledPlan,
    EuclideanProblem,
    GibbsRun,
    TiltedRun,
    require_global_bounds,
)
from dpoco.accounting.gaussian import check_delta
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.plan import Plan
from dpoco.accounting.statement import stated_delta
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.coupled_bits import Bits
from dpoco.privacy.mechanisms import coupled_draws as kinds
from dpoco.privacy.mechanisms.coupled_draws import Always
from dpoco.privacy.neighbours import CHANGES, Neighbours

R = TypeVar("R", GibbsRun, TiltedRun)
Keep = kinds.Always | kinds.Window | kinds.Dartboard | kinds.Anchored | kinds.Maximal
Law = tuple[float, float]
Grid = FloatArray | float

# The draw for a constant decision is this close to the centre, relative to the radius.
CONSTANT_SPREAD = 1e-9
# Number of released points that the coupling "anchored" averages over.
ANCHORS = 16
# If inexact draws cost more than this share of delta, we aim at a smaller epsilon.
_MASS_SHARE = 0.2


@dataclass(frozen=True)
class Setting(ABC, Generic[R]):
    """A learner's problem: the constants of a search over coupling, block and noise.

    In the methods, `variant` is the learner's own extra parameter and `noise` is the ratio of
    signal to noise.

    Attributes
    ----------
    problem : EuclideanProblem
        Constants of domain and loss.
    horizon, relation, budget
        Rounds, neighbouring relation, and the budget; budget None means learning without privacy.
    private_couplings, lazy_couplings : tuple of str
        Couplings that are valid for this problem with privacy, and without forced switches.
    variants : tuple of float
        Values of `variant` that the search tries.
    tuning : GibbsTuning or TiltedTuning
        The learner's tuning for couplings without anchors.
    """

    problem: EuclideanProblem
    horizon: int
    relation: str
    budget: Budget | None
    private_couplings: tuple[str, ...]
    lazy_couplings: tuple[str, ...]
    variants: tuple[float, ...]
    tuning: Any

    # The learner's class of runs. It has the regret bound, which takes the parameters of a law.
    kind: ClassVar[Any]
    regret: ClassVar[Any]

    @abstractmethod
    def still_law(self) -> Law:
        """Return the law of the decision that ignores the data."""

    @abstractmethod
    def law(self, variant: float, block: int, noise: float) -> Law:
        """Return the law with the least regret bound."""

    @abstractmethod
    def quiet_noise(self, block: int) -> float:
        """Return a signal-to-noise ratio at which the noise hardly adds regret."""

    @abstractmethod
    def draw(self, law: Law) -> kinds.GibbsDraw | kinds.TiltedMinimum:
        """Return the description of a law."""

    @abstractmethod
    def laziest(self, coupling: str, limit: float) -> list[CoupledPlan]:
        """Return the best plans of a coupling with at most `limit` expected switches, if any."""

    @abstractmethod
    def rough_law(self, variant: float, m: FloatArray, g: FloatArray) -> tuple[Grid, Grid, Grid]:
        """Return approximate (b, spread, beta) on a grid of blocks and noises.

        b is the step size times the smoothness. `spread` is the distance of draws from the centre
        over R^n. beta is the inverse temperature that "dartboard" needs.
        """

    def bare(self, block: int, law: Law) -> R:
        """Return a run with a fresh draw from `law` in every block, without privacy."""
        losses = self.kind.bound_losses(self.problem)
        drawn = kinds.CoupledDraws(
            losses, self.draw(law), kinds.Always(), self.horizon, block, None
        )
        found: R = self.kind(self.problem, drawn, self.tuning)
        return found

    def keep(self, run: R, keep: Keep, cap: int | None = None) -> R:
        """Return a run with another coupling and cap."""
        return replace(run, mechanism=replace(run.mechanism, keep=keep, cap=cap))

    def finish(self, run: R) -> CoupledPlan:
        """Return the plan of a run, with its forecast."""
        return Plan(run.mechanism, run.tuning, forecast(run))

    def build(
        self, coupling: str, variant: float, block: int, forced: float, noise: float
    ) -> CoupledPlan:
        """Return a plan with windows, cap and regret bound.

        Parameters
        ----------
        coupling : str
            One of `private_couplings`.
        variant, noise : float
            The learner's parameter, and the ratio of signal to noise.
        block : int
            Rounds that share a decision.
        forced : float
            Probability of a switch that no loss causes, in (0, 1].
        """
        run = self.bare(block, self.law(variant, block, noise))
        m = run.mechanism
        cap = m.decisions
        if coupling != "scheduled":
            closeness, tail = self.allowance(run)
            # Windows that are too wide use up half of the allowance (docs/privacy/oco_regret.md).
            if coupling == "anchored":
                tail *= 0.5
            # Every decision forgets with probability `forced`, so errors of block / forced rounds
            # add up, and each round may only err by its share (docs/privacy/oco_regret.md, "Clipped
            # acceptance factors").
            error = min(0.5, forced / block * closeness)
            run = self.keep(run, self.window(run, coupling, noise, error, forced, tail))
            cap = switch_cap(m.decisions, hazard(run), tail)
            if run.mean_switches is not None:
                # The run reaches either cap with probability at most `tail`.
                cap = min(cap, bernstein_cap(run.mean_switches, tail))
        return self.finish(self.keep(run, run.mechanism.keep, cap))

    def window(
        self,
        run: R,
        coupling: str,
        noise: float,
        error: float,
        forced: float = 0.0,
        tail: float = 0.0,
    ) -> Keep:
        """Return a coupling whose clipping changes a round's law by `error` in total variation.

        `error` affects the regret only, because acceptance factors are always clamped to the
        window. `tail` is for couplings whose window may be too narrow with some probability.
        """
        if coupling == "maximal":
            return kinds.Maximal(forced)
        _, b, rank = run.ratios
        high, low = clip_widths(noise, b, self.problem.dimension, rank, error)
        return kinds.Window(forced, high, low)

    def lazy_window(self, run: R, coupling: str, noise: float) -> Keep:
        """Return the window without forced switches: clipping costs G D / 2 in total."""
        error = self.allowance(run)[0] * 2.0 / max(self.horizon - 1, 2)
        return self.window(run, coupling, noise, error)

    def lazy(self, coupling: str, law: Law, noise: float) -> CoupledPlan:
        """Return a plan without privacy for a coupling without forced switches."""
        run = self.bare(1, law)
        return self.finish(self.keep(run, self.lazy_window(run, coupling, noise)))

    def allowance(self, run: R) -> tuple[float, float]:
        """Return the allowed errors that cost regret of G D / 2 (clipping) and G D (cap).

        The first is the total variation between the law of a decision and the ideal one in every
        round; the second is the probability of reaching the cap.
        """
        t = float(self.horizon)
        if not self.problem.unbounded:
            return 0.5 / t, min(0.5, 1.0 / t)
        # On R^n the range of losses is unbounded. The proof uses second moments instead, which
        # gives a square (docs/privacy/oco_regret.md, "In R^n").
        closeness = min(0.5 / t, (self.problem.diameter / (4.0 * t**1.5 * run.mean_distance)) ** 2)
        return max(closeness, 1e-250), max(min(0.5, 4.0 * closeness), 1e-250)

    def constant(self) -> CoupledPlan:
        """Return the plan of the decision that ignores the data."""
        run = self.bare(self.horizon, self.still_law())
        return self.finish(self.keep(run, kinds.Always(), 0))

    def quiet(self, block: int) -> CoupledPlan:
        """Return a plan with a fresh draw in every block and noise that hardly adds regret."""
        return self.finish(self.bare(block, self.law(1.0, block, self.quiet_noise(block))))

    def delta_spent(self, plan: CoupledPlan, budget: Budget) -> float:
        """Return a bound on delta at the budget's epsilon, inexact draws included, or 1."""
        loss = plan.mechanism.loss(Neighbours(self.relation))
        if loss is None:
            return 1.0
        if loss.mass == 0.0:
            return loss.delta(budget.epsilon)
        # If inexact draws would use too much of delta, we state the guarantee at a smaller epsilon.
        epsilon = max(0.0, math.log(_MASS_SHARE * budget.delta / loss.mass))
        epsilon = min(budget.epsilon, epsilon)
        return loss.bare.delta(epsilon) + (1.0 + math.exp(epsilon)) * loss.mass


def state(
    run: GibbsRun | TiltedRun,
    calibration: str,
    *,
    relation: str,
    budget: Budget | float | None,
    seeded: bool,
) -> Guarantee:
    """Return the guarantee of a run; `calibration` says how its plan was found."""
    q, drawn = run.problem, run.mechanism
    near = Neighbours(choice("relation", relation, CHANGES))
    delta = stated_delta(budget, drawn.rounds)
    check_delta(delta)
    said, conditions = describe(run, drawn.draw.distance(drawn.losses, near))
    if not run.private:
        none = Guarantee.none(drawn.rounds, run.released)
        said |= {"reference": run.reference}
        return replace(none, conditions=(*none.conditions, *conditions), **said)
    details = said["details"]
    cost = drawn.loss(near)
    assert cost is not None  # not None, because the run is private
    bits = cost.bare
    claimed, printed = describe_claim(run, calibration, near, delta)
    own = []
    if isinstance(bits, Bits):
        details["factor_floor"] = bits.factor_floor
        details["later_bits"] = bits.later_bits
        details["later_bit_shift"] = bits.shift
    else:
        own.append("The learner never switches: nothing released depends on data.")
        if drawn.block == drawn.rounds > 1:
            own.append("At this budget and horizon no noise beats the constant decision.")
    own += printed
    bounds = f"G = {q.lipschitz:.6g}"
    if q.smoothness > 0.0:
        bounds += f", beta_s = {q.smoothness:.6g}"
    if q.enforced:
        own.append(f"The program scales records into the bounds ({bounds}, l2).")
    return Guarantee.about(
        drawn,
        near,
        released=run.released,
        horizon=drawn.rounds,
        delta=delta,
        reference=run.reference,
        seeded=seeded,
        calibration=calibration,
        conditions=(*own, *conditions),
        **claimed,
        **said,
    )


_LARGEST_PLAN = 10**12
_SMALLEST_NOISE, _LARGEST_NOISE = 1e-14, 4.0
_FORCED = np.exp(np.linspace(math.log(2e-6), math.log(0.6), 26))
_FINALISTS = 2
# "scheduled" flips no coins, so its privacy relies on its draws alone. It wins near-ties.
_TIE = 1.05
# The first stage is right within a few percent, so a bound this much larger cannot win.
_HOPELESS = 1.2


def search_plan(
    setting: Setting[R], couplings: Sequence[str], coupling: str, block: int | None,
    max_switches: float | None,
) -> CoupledPlan:  # fmt: skip
    """Return the plan with the least proven regret bound.

    Parameters
    ----------
    setting : Setting
        The learner's problem.
    couplings : sequence of str
        Values of `coupling` other than "auto".
    coupling : str
        "auto" compares all couplings that fit the problem.
    block : int or None
        Rounds that share a decision; None searches for the best value.
    max_switches : float or None
        Largest expected number of switches; only without privacy.

    Raises
    ------
    ValueError, TypeError
        For contradictory arguments, and for couplings that do not fit the problem.
    CalibrationError
        If no plan has so few switches, or if delta is 0.
    """
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
    if horizon == 1:  # the only decision is made before there are data
        return setting.constant()
    return _best(setting, budget, _admissible(coupling, setting.private_couplings), block)


def _admissible(coupling: str, allowed: Sequence[str]) -> Sequence[str]:
    """Return the couplings to compare, or raise if the requested one is not allowed."""
    if coupling == "auto":
        return allowed
    if coupling not in allowed:
        raise ValueError(
            f"coupling {coupling!r} does not fit this domain, loss and block; one of "
            f"{sorted(allowed)} does"
        )
    return (coupling,)


def _laziest(setting: Setting[R], limit: float, coupling: str, block: int | None) -> CoupledPlan:
    """Return the plan with the least bound that has at most `limit` expected switches."""
    horizon = setting.horizon
    known: Sequence[str] = setting.lazy_couplings if block in (None, 1) else ()
    if horizon == 1:
        return setting.quiet(1)
    allowed = ("scheduled", *known)
    names = _admissible(coupling, allowed)
    if "maximal" in names:  # it switches less often than the other couplings with the same laws
        names = [name for name in names if name in ("scheduled", "maximal")]
    found = [p for name in names if name != "scheduled" for p in setting.laziest(name, limit)]
    if "scheduled" in names:
        # The last block causes no switch, so this is the shortest block with at most `limit`
        # switches.
        least = -(-horizon // (math.floor(min(limit, horizon)) + 1))
        if block is not None and block < least:
            raise CalibrationError(f"blocks of {block} rounds switch more than {limit:g} times")
        found.insert(0, setting.quiet(least if block is None else block))
    if not found:
        raise CalibrationError(f"coupling {coupling!r} cannot keep {limit:g} expected switches")
    return min(found, key=lambda p: p.forecast.regret_bound)


def _best(
    setting: Setting[R], budget: Budget, couplings: Sequence[str], block: int | None
) -> CoupledPlan:
    """Return the plan with the least regret bound among `couplings` that meet `budget`.

    Plans that cannot beat the constant decision are not refined. If no plan beats it, its plan is
    returned.
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
    """A grid point, ordered by its approximate regret bound."""

    value: float
    coupling: str
    variant: float
    block: int
    forced: float
    noise: float


def _starts(setting: Setting[R], budget: Budget, coupling: str, block: int | None) -> list[_Start]:
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
        # A larger signal-to-noise ratio means less noise, and hence a smaller regret bound.
        where = noise.argmax(axis=1)
        for row, m in enumerate(blocks):
            g = float(noise[row, where[row]])
            if g > _SMALLEST_NOISE:
                # Without the terms for clipping, cap and barrier, which are the same for all
                # points.
                own = setting.problem.lazy(setting.horizon, m)
                value = setting.regret(own, *setting.law(variant, m, g)).total
                found.append(_Start(value, coupling, variant, m, float(forced[where[row]]), g))
    return found


def _refine(setting: Setting[R], budget: Budget, start: _Start) -> CoupledPlan | None:
    """Return the best plan near a grid point, by golden section on log(forced)."""
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
    # Neighbouring grid points differ by 0.5 in log(forced). The interval extends beyond both.
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
    setting: Setting[R], budget: Budget, start: _Start, forced: float, noise: float
) -> tuple[CoupledPlan | None, float]:
    """Return the plan with the largest signal-to-noise ratio that meets the budget."""
    target = math.log(budget.delta)

    def excess(log_g: float) -> tuple[float, CoupledPlan]:
        built = setting.build(start.coupling, start.variant, start.block, forced, math.exp(log_g))
        value = setting.delta_spent(built, budget)
        return (math.log(value) if value > 0.0 else -800.0) - target, built

    x, step = math.log(noise), 0.02
    low: tuple[float, float, CoupledPlan] | None = None  # meets the budget
    high: tuple[float, float] | None = None  # exceeds the budget
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
            # False position, kept away from both ends and aimed slightly to the safe side.
            share = min(max((-2e-3 - low[1]) / (high[1] - low[1]), 0.03), 0.97)
            x = low[0] + share * (high[0] - low[0])
    return (None, noise) if low is None else (low[2], math.exp(low[0]))


def _rough_noise(
    setting: Setting[R], budget: Budget, coupling: str, variant: float, blocks: FloatArray,
    forced: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return the largest signal-to-noise ratio that roughly meets the budget, on the grid."""
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
    setting: Setting[R], epsilon: float, coupling: str, variant: float, m: FloatArray,
    p: FloatArray, g: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return the approximate delta on a grid of blocks m, forced switches p and noises g."""
    q, horizon, sides = setting.problem, float(setting.horizon), Neighbours(setting.relation).sides
    decisions = np.ceil(horizon / m) - 1.0
    b, spread, beta = setting.rough_law(variant, m, g)
    # Beyond b ~ 0.1 the Renyi bound has too few orders. The square excludes such b smoothly.
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
    return _rough_curve(epsilon, p, variance * cap, np.asarray(floor), later, shift)


def _rough_curve(
    epsilon: float, p: FloatArray, variance: FloatArray, log_floor: FloatArray,
    later_bits: FloatArray, shift: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return delta if all draws have mu^2 = variance in total and later bits are Gaussians."""
    # We import SciPy here because only private plans need it. The first stage may use any function,
    # because the exact accountant checks the result.
    from scipy.special import log_ndtr, ndtr

    moved = -(1.0 - p) * np.expm1(-shift)
    step = np.log1p(moved / p)
    # The three outcomes of a later bit have the variance (p + p') step^2. Each bit counts as a
    # Gaussian with this variance.
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
    """Return the approximate a with delta_G(a; g) = error: a = g x + g^2/2, g psi(x) = error."""
    from scipy.special import erfcx

    x = np.linspace(0.0, 38.0, 1500)
    # psi(x) = phi(x) - x Phi(-x), computed with the Mills ratio.
    log_psi = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
    log_psi += np.log1p(-x * math.sqrt(0.5 * math.pi) * erfcx(x / math.sqrt(2.0)))
    found = np.interp(np.log(error) - np.log(noise), log_psi[::-1], x[::-1])
    return np.asarray(noise * found + 0.5 * noise * noise)


def _rough_cap(decisions: FloatArray, hazard: FloatArray, tail: Grid) -> FloatArray:
    """Return the approximate upper quantile of a binomial law."""
    from scipy.special import ndtri

    z = -ndtri(tail)
    spread = np.sqrt(decisions * hazard * (1.0 - hazard))
    return np.asarray(np.minimum(decisions, decisions * hazard + z * spread + z * z / 6.0 + 1.0))
