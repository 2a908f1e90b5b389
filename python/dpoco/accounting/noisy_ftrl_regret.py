"""Plans of leaders on noisy sums: regret, the best step, and post-processing of the sums.

Claim, with A = G^2 times the sum of the squared block lengths, s_k the standard deviation of the
noise after block k, K the number of blocks, and w the Gaussian width of the centred domain:

(a) linear losses fixed in advance, s_k non-decreasing: E Reg <= R^2/(2 eta) + eta A/2 + N with
    N = eta n s^2/2 if eta n s <= w, else w s - w^2/(2 eta n), s = s_{K-1};
(b) convex losses, chosen adaptively: E Reg <= R^2/(2 eta) + eta A/2 + eta G sum_t E||noise_t||;
(c) G D T, always. For quadratic statistics only (c) is claimed, except for
(d) records of one law that cover all directions: see `Ridge`.

Rounding released sums to a grid adds eta G (T - m) times half the grid's diagonal to (a) and (b).

The predicted step comes with no bound. It takes into account the regularisation, stability and
linear noise terms of (a), and the second-order cost of noise that is independent of the records and
does not reach the boundary. It uses public constants only, and no decision's privacy depends on the
step.

Proof: ``docs/privacy/noisy_ftrl.md``; derivation of the step: "A predicted step" there.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import Fields, FloatArray
from dpoco.accounting import continual_sum
from dpoco.accounting.continual_sum import FALLING, GROWING, UNBOUNDED_HORIZON, Method, method_name
from dpoco.accounting.forgetting import Forgetting, batch_lengths, plan_candidates, view_noise
from dpoco.accounting.leaf_bounds import record_length, steepest_slope
from dpoco.accounting.plan import Plan
from dpoco.accounting.regret_bounds import RegretBound, gaussian_width, growing_cost, stated_regret
from dpoco.domains import Domain
from dpoco.losses import Loss, MarginLoss, SquaredLoss
from dpoco.privacy.mechanisms.bounds import MomentsAndLoss, SecondMoments
from dpoco.privacy.mechanisms.factorisations import Buffered
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum, batch_starts
from dpoco.privacy.records import Description, limits

STATISTICS = ("gradient", "quadratic")
SCOPES_IN_WORDS = {
    "oblivious": "streams fixed in advance",
    "adaptive": "all streams, also such as react to the decisions",
    "stochastic": (
        "independent records of one law with E xx' >= (B^2 / 2d) I and its best coefficients in "
        "the domain; of others nothing is claimed but G D T"
    ),
}
_DEPTH, _POINTS = 1e-4, 4001  # steps from this part of the largest candidate, with ratios of 1.0023


@dataclass(frozen=True)
class LeaderTuning(Description):
    """Parameters of the post-processing of the leader's noisy sums.

    Attributes
    ----------
    horizon : int
        Rounds.
    step_size : float or None
        eta (length^2 / loss); None for quadratic statistics, which need none.
    half_life : float, "auto" or None
        Rounds after which a record of quadratic statistics counts half; None means never.
    ridge : float, "auto" or None
        Ridge in spectral edges of the noise, for learners with a half-life; None means 1.
    """

    kind = "noisy_ftrl_tuning"
    unsaid = ("half_life", "ridge")
    horizon: int
    step_size: float | None
    half_life: float | str | None = None
    ridge: float | str | None = None

    def __post_init__(self) -> None:
        """Raise for texts other than "auto"."""
        super().__post_init__()
        for name in ("half_life", "ridge"):
            if isinstance(getattr(self, name), str):
                self.check_choice(name, ("auto",))

    @property
    def forgets(self) -> bool:
        """Whether decisions are computed from damped sums."""
        return self.half_life is not None or self.ridge is not None


@dataclass(frozen=True)
class RegretForecast(Description):
    """Bound on the expected regret of a plan, and whether learning is to be expected.

    Attributes
    ----------
    regret_scope : str
        Streams for which it holds: "oblivious", "adaptive", "stochastic", or "trivial" for any
        decisions.
    noise_dominates : bool
        Whether hardly any learning is to be expected.
    regret_bound : float
        Bound over the horizon, in units of loss.
    loss_range : float
        G D, an upper bound on the difference of a loss between two decisions.
    predicted_error : float or None
        Predicted loss per round from slow steps and noise; not a bound.
    """

    kind = "regret_forecast"
    regret_scope: str
    noise_dominates: bool
    regret_bound: float = limits(zero=True)
    loss_range: float = limits(zero=True)
    predicted_error: float | None = limits(zero=True)


LeaderPlan = Plan[GaussianSum, LeaderTuning, RegretForecast]


@dataclass(frozen=True, kw_only=True)
class Run:
    """Euclidean constants of domain and loss, and of the noise, for any step size.

    Attributes
    ----------
    coordinates, dimension : int
        d, and the dimension n of the set of decisions.
    lipschitz : float
        G: every gradient in the domain has l2 norm at most G if the data satisfy their bounds.
    radius, diameter : float
        Largest l2 distance from the centre, and between two points of the domain.
    width : float
        w >= E max <xi, x - c> over the domain, xi standard normal.
    linear : bool
        Whether the losses are linear.
    horizon, batch : int
        Rounds, and rounds per decision.
    method : str or Buffered
        Method of the continual sum.
    noise_scale : float
        Scale of one draw.
    """

    coordinates: int
    dimension: int
    lipschitz: float
    radius: float
    diameter: float
    width: float
    linear: bool
    horizon: int
    batch: int
    method: Method
    noise_scale: float

    @property
    def squares(self) -> float:
        """Sum of the squared block lengths, an incomplete last one included."""
        whole, rest = divmod(self.horizon, self.batch)
        return float(whole) * float(self.batch) ** 2 + float(rest) ** 2

    @cached_property
    def deviations(self) -> tuple[float, float]:
        """Deviation of a coordinate's noise after the last decision, and its root mean square."""
        pushes, last = self.horizon // self.batch, self._noisy_blocks
        if last == 0 or self.noise_scale == 0.0:
            return 0.0, 0.0
        row = float(continual_sum.row_norm(self.method, last, pushes))
        if method_name(self.method) in FALLING:  # the last sum need not be the noisiest
            # Bound (a) uses the largest deviation over the rounds, and (b) the mean square.
            row = continual_sum.worst_row_norm(self.method, pushes)
        # This is for the sums behind decisions only; the method's mean square is over all sums.
        mean = continual_sum.root_mean_square_row(self.method, pushes) * math.sqrt(pushes / last)
        return self.noise_scale * row, self.noise_scale * mean

    @cached_property
    def rises(self) -> list[tuple[float, float]]:
        """Pairs of deviations between which the noise grows, in order."""
        if method_name(self.method) not in FALLING or self.deviations[0] == 0.0:
            return [(0.0, self.deviations[0])]
        rows = continual_sum.rises(self.method, self.horizon // self.batch)
        return [(self.noise_scale * low, self.noise_scale * high) for low, high in rows]

    def _growth_cost(self, eta: float, s: float) -> float:
        """Return the noise term of (a) for noise that has grown from 0 to s."""
        return growing_cost(eta, self.dimension, self.width, s)

    @property
    def rounding(self) -> float:
        """Factor of eta in the rounding term: G times the rounded decisions' errors."""
        half = 0.5 * continual_sum.release_grid(self.noise_scale) * math.sqrt(self.coordinates)
        return self.lipschitz * self.noisy_rounds * half

    @property
    def linear_noise(self) -> float:
        """Factor of eta in bound (b): G sum_t E||noise_t||, rounding included."""
        _, mean = self.deviations
        if mean == 0.0:
            return 0.0
        # Cauchy-Schwarz inequality over the sums behind decisions.
        blocks = self.batch * self._noisy_blocks
        return self.lipschitz * blocks * mean * math.sqrt(self.dimension) + self.rounding

    @property
    def noisy_rounds(self) -> int:
        """Rounds whose decision depends on a sum."""
        return self.horizon - self.batch

    @property
    def _noisy_blocks(self) -> int:
        """Blocks whose decision depends on a sum: all but the first."""
        return -(-self.horizon // self.batch) - 1

    @property
    def growing(self) -> bool:
        """Whether bound (a) holds: linear losses, and noise whose falls only help."""
        return self.linear and method_name(self.method) in GROWING

    def regret(self, eta: float) -> RegretBound:
        """Return the least proved bound for a step size eta > 0."""
        common = {
            "regularization": 0.5 * self.radius**2 / eta,
            "stability": 0.5 * eta * self.lipschitz**2 * self.squares,
        }
        rounding = {"rounding": eta * self.rounding}
        noise = eta * max(0.0, self.linear_noise - self.rounding)
        bounds = [(common | {"noise": noise} | rounding, "adaptive")]
        if self.growing:
            # Falls of the noise only help, so we only count rises (docs/privacy/noisy_ftrl.md,
            # (a)).
            cost = partial(self._growth_cost, eta)
            noise = math.fsum(cost(high) - cost(low) for low, high in self.rises)
            bounds.append((common | {"noise": noise} | rounding, "oblivious"))
        # (c): the losses of two decisions differ by at most this much, on any stream.
        bounds.append(({"trivial": self.lipschitz * self.diameter * self.horizon}, "adaptive"))
        return min((RegretBound.of(*bound) for bound in bounds), key=lambda found: found.total)

    def best_step(self) -> float:
        """Return the step size of the least bound; 1 if the domain is a single point."""
        r, stability = self.radius, self.lipschitz**2 * self.squares
        if r == 0.0:
            return 1.0
        candidates = [r / math.sqrt(stability + 2.0 * self.linear_noise)]
        s, _ = self.deviations
        if self.growing and s > 0.0:
            n, w = self.dimension, self.width
            # The noise term changes its form at eta = w / (n s). Each form has a minimum, which is
            # kept to its side.
            flat, turn = stability + 2.0 * self.rounding, w / (n * s)
            candidates.append(min(turn, r / math.sqrt(flat + n * s * s)))
            candidates.append(max(turn, math.sqrt(max(0.0, r * r - w * w / n) / flat)))
        return min(candidates, key=lambda eta: self.regret(eta).total)

    def predicted_step(self, domain: Domain, loss: Loss) -> float:
        """Return the step size of the least predicted regret; 1 if the domain is a single point.

        For gradient statistics. With s_k the noise's standard deviation and s its root mean square
        over the rounds, the prediction is
        R^2/(2 eta) + eta (A' + n s_K^2)/2 + T' min(beta kappa (eta s)^2/2, G chi eta s),
        where T' is the number of rounds whose decisions have noise, and a loss has smoothness beta
        and slope G. A generalised linear loss depends on the noise in one direction, with kappa = 1
        and chi = sqrt(2/pi); other losses depend on all n coordinates. A' is A, or G^2 T if eta
        beta m <= 1 for blocks of m rounds, because such a step along a block's mean gradient
        descends.
        """
        if self.radius == 0.0:
            return 1.0
        n, slope, (last, mean) = self.dimension, self.lipschitz, self.deviations
        # The step of bound (a) as long as the noise does not fill the domain.
        largest = self.radius / math.sqrt(slope**2 * self.horizon + n * last**2)
        if isinstance(loss, MarginLoss):
            margin = loss.margin_bound(domain)
            steepest = loss.derivative_bound(margin)
            smoothness = loss.curvature_bound(margin) * (slope / steepest) ** 2
            seen, chi = 1.0, math.sqrt(2.0 / math.pi)
        else:
            # ||v||_p^2 <= d^(2/p - 1) ||v||_2^2 for p < 2.
            wider = domain.dimension ** max(0.0, 2.0 / domain.p - 1.0)
            smoothness, seen, chi = float(loss.smoothness(domain)) * wider, float(n), math.sqrt(n)
        eta = largest * np.geomspace(_DEPTH, 1.0, _POINTS)
        curved = 0.5 * smoothness * seen * np.square(eta * mean)
        steady = not self.linear and eta * smoothness * self.batch <= 1.0
        moves = slope**2 * np.where(steady, self.horizon, self.squares)
        predicted = (
            0.5 * self.radius**2 / eta
            + 0.5 * eta * (moves + n * last**2)
            + self.noisy_rounds * np.minimum(curved, slope * chi * mean * eta)
        )
        return float(eta[int(np.argmin(predicted))])


def make_run(domain: Domain, loss: Loss, **schedule: Any) -> Run:
    """Return a run on a domain, with the arguments of its noise in `schedule`."""
    n, radius = domain.intrinsic_dimension, float(domain.radius_from_center())
    return Run(
        coordinates=domain.dimension,
        dimension=n,
        lipschitz=steepest_slope(domain, loss),
        radius=radius,
        diameter=float(domain.diameter(2.0)),
        # Both are bounds. The first is much smaller for a body with few vertices.
        width=min(gaussian_width(domain), radius * math.sqrt(n)),
        linear=hasattr(loss, "gradient_bound"),
        **schedule,
    )


@lru_cache(maxsize=256)
def updates(growth: str | None, batch: int, horizon: int) -> int:
    """Return the number of released sums, at least 1."""
    if growth is None:
        return max(1, horizon // batch)
    begun = itertools.takewhile(lambda start: start < horizon, batch_starts(batch, growth))
    return max(1, sum(1 for _ in begun) - 1)


@dataclass(frozen=True)
class Ridge:
    """Regression on released quadratic statistics: min x'M+ x - 2 b'x + r_k ||x - c||^2.

    Claim: let records be independent, of one law with E xx' >= h I, and let the best coefficients
    of this law lie in the domain. With s the largest noise of a coordinate of K sums, ||x||_2 <= B,
    |label| <= Y, losses w (x'theta - y)^2, R the largest ||theta||_2 and ||theta - c||_2, v = B (Y
    + B R), L = sqrt(2 ln(4 K T)),
    t0 = (5/4) max(5 m, (4/h) L s, (8 B^2/h) ln(2 d K T)):
    E Reg <= G D (t0 + 2)
             + (76 w B^2/h^2) (v^2 ln(T/t0 + e) + (d s^2/a^2 + R^2 (3 sqrt(2d) + 2L)^2 s^2)/t0).
    It is stated for h = B^2/(2d), half of the largest possible value.

    Attributes
    ----------
    run : Run
        Constants of domain and loss, the first batch, and the noise.
    domain, loss
        The problem.
    vector_scale : float
        a: the sums of xx' and a y x are released.
    """

    run: Run
    domain: Domain
    loss: SquaredLoss
    vector_scale: float

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        """Spectral edges of the noise in the matrices, sqrt(2d) times the noise of a coordinate."""
        run = self.run
        pushes = updates("quarter", run.batch, run.horizon)
        rows = continual_sum.row_norm(run.method, np.arange(1, pushes + 1), pushes)
        return np.asarray(math.sqrt(2.0 * run.coordinates) * run.noise_scale * rows)

    @property
    def ridges(self) -> NDArray[np.float64]:
        """r_k: the spectral edges; without noise, tiny values."""
        # Without a ridge, a matrix without records has no inverse.
        return np.maximum(self._edges, 1e-9 * record_length(self.domain, self.loss) ** 2)

    @property
    def hidden_rounds(self) -> float:
        """Rounds until the matrix of records in all directions exceeds the largest edge."""
        d, square = self.run.coordinates, record_length(self.domain, self.loss) ** 2
        return float(self._edges.max()) * d / square

    @property
    def shrinkage(self) -> float:
        """Variance of a coordinate of b, over r_k^2, if decisions should be shrunk; otherwise 0."""
        hidden = self.hidden_rounds > self.run.horizon
        return 0.5 / (self.run.coordinates * self.vector_scale**2) if hidden else 0.0

    def regret(self) -> RegretBound:
        """Return the smaller of the bounds for all streams and for records of one law."""
        run, d, length = self.run, self.run.coordinates, record_length(self.domain, self.loss)
        largest, square = run.lipschitz * run.diameter, length**2
        trivial = RegretBound.of({"trivial": largest * run.horizon}, "adaptive")
        # The bound for one law does not apply to shrunk decisions.
        if self.shrinkage > 0.0:
            return trivial
        h, s = 0.5 * square / d, float(self._edges.max()) / math.sqrt(2.0 * d)
        ends = float(len(self._edges) * run.horizon)
        spread = math.sqrt(2.0 * math.log(4.0 * ends))
        dense = 8.0 * square / h * math.log(2.0 * d * ends)
        start = 1.25 * max(5.0 * run.batch, 4.0 / h * spread * s, dense)
        reach = max(float(self.domain.max_norm(2.0)), run.radius)
        residual = square * (self.loss.label_bound + length * reach) ** 2
        edge = reach * (3.0 * math.sqrt(2.0 * d) + 2.0 * spread)
        scale = 76.0 * self.loss.weight * square / h**2
        terms = {
            "start": largest * (start + 2.0),
            "records": scale * residual * math.log(run.horizon / start + math.e),
            "noise": scale * s**2 * (d / self.vector_scale**2 + edge**2) / start,
        }
        stochastic = RegretBound.of(terms, "stochastic")
        return min(trivial, stochastic, key=lambda found: found.total)


def read_run(domain: Domain, loss: Loss, plan: LeaderPlan) -> Run:
    """Return the run of a plan."""
    total = plan.mechanism
    return make_run(
        domain, loss, method=total.factorisation, horizon=plan.tuning.horizon,
        batch=total.batch, noise_scale=total.scale,
    )  # fmt: skip


def forecast(domain: Domain, loss: Loss, run: Run, total: GaussianSum, eta: float | None,
             regret: RegretBound) -> RegretForecast:  # fmt: skip
    """Return the forecast of a run whose regret bound is `regret`.

    The predicted error has the terms of the regret for steps without noise, and the effect of noise
    in the direction of the gradient of a Lipschitz loss. For quadratic statistics it is the regret
    bound, and `Ridge` decides whether noise dominates. Otherwise, noise dominates if the error
    clearly exceeds G R, the most that can be gained by leaving the centre. We measured this on the
    easiest stream, a single record, and on hard ones, with features in all directions. If noise
    dominates, the learner covers less than half of the way from the loss of the centre to that of
    the best decision. If not, it covers at least 0.15 on the easiest stream.
    """
    error, dominated = regret.total / run.horizon, False
    if eta is not None:
        slope = run.lipschitz
        steps = 0.5 * run.radius**2 / (eta * run.horizon) + 0.5 * eta * slope**2 * run.batch
        noise = total.scale * continual_sum.worst_row_norm(total.factorisation, total.pushes)
        error = steps + eta * slope * noise
        dominated = total.scale > 0.0 and error > 1.2 * slope * run.radius
    return RegretForecast(
        regret.scope, dominated, regret.total, run.lipschitz * run.diameter, error
    )


def bound_regret(
    domain: Domain, loss: Loss, run: Run, scale: float | None, eta: float | None, forgets: bool
) -> RegretBound:
    """Return the least bound of a run with this step size, or with quadratic statistics."""
    if forgets:
        return RegretBound.of({"trivial": run.lipschitz * run.diameter * run.horizon}, "adaptive")
    if scale is None:
        assert eta is not None
        return run.regret(eta)
    assert isinstance(loss, SquaredLoss)
    return Ridge(run, domain, loss, scale).regret()


def state_regret(domain: Domain, loss: Loss, plan: LeaderPlan) -> Fields:
    """Return the two fields of a guarantee on the regret of any plan."""
    run, tuning, summand = read_run(domain, loss, plan), plan.tuning, plan.mechanism.summand
    weight = summand.weight if isinstance(summand, SecondMoments) else None
    regret = bound_regret(domain, loss, run, weight, tuning.step_size, tuning.forgets)
    still, learned = run.lipschitz * run.radius, ""
    # Clipping the slopes gives another loss, and that loss is learned.
    if isinstance(loss, MarginLoss) and loss.reported != loss:
        learned = ", of the loss with bounded slopes, not of the logistic loss"
    elif isinstance(loss, MarginLoss):
        still = min(still, loss.center_regret(domain))
    # The total is at most that of any decisions.
    stated = stated_regret(regret.total, run.horizon * still)
    stated["details"] |= {
        **({} if tuning.step_size is None else {"step size": tuning.step_size}),
        "regret bound holds for": SCOPES_IN_WORDS[regret.scope] + learned,
        **{f"regret: {name}": value for name, value in regret.terms.items()},
    }
    return stated


# -- post-processing of released sums ------------------------------------------------------------


def read_ridge(domain: Domain, loss: Loss, plan: LeaderPlan) -> Ridge:
    """Return the ridge regression of quadratic statistics."""
    summand, run = plan.mechanism.summand, read_run(domain, loss, plan)
    assert isinstance(summand, SecondMoments)
    assert isinstance(loss, SquaredLoss)
    return Ridge(run, domain, loss, summand.weight)


def read_candidates(domain: Domain, loss: Loss, plan: LeaderPlan) -> Forgetting:
    """Return the candidates of a plan with a half-life, and the law of their noise."""
    total, tuning = plan.mechanism, plan.tuning
    assert isinstance(total.factorisation, Buffered)
    endless = tuning.horizon == UNBOUNDED_HORIZON
    return plan_candidates(
        total.factorisation,
        total.scale,
        half_life=tuning.half_life,
        ridge=tuning.ridge,
        lengths=batch_lengths(total.batch, total.growth, total.pushes),
        horizon=None if endless else tuning.horizon,
        dimension=domain.dimension,
        length=record_length(domain, loss),
    )


def loss_memory(domain: Domain, loss: Loss, plan: LeaderPlan) -> FloatArray:
    """Return the factor on past losses at each push, as `ForgettingView.kept`."""
    if not plan.tuning.forgets:  # all past losses have the same weight
        return np.ones(1)
    return np.asarray(read_candidates(domain, loss, plan).memory)


def loss_deviations(domain: Domain, loss: Loss, plan: LeaderPlan) -> FloatArray:
    """Return standard deviations of the noise in the sum of losses, after each push."""
    total, memory = plan.mechanism, loss_memory(domain, loss, plan)
    assert isinstance(total.summand, MomentsAndLoss)
    if total.scale == 0.0:
        return np.zeros(1)
    if plan.tuning.forgets:
        assert isinstance(total.factorisation, Buffered)
        noise = total.scale * view_noise(total.factorisation, memory)[0]
    else:  # ridges are spectral edges of this noise
        noise = read_ridge(domain, loss, plan).ridges / math.sqrt(2.0 * domain.dimension)
    return np.asarray(noise / total.summand.loss_weight)
