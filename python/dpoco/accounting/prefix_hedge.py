"""Accounting of Hedge on noisy sums of losses.

Claim: data reach the decisions only through one continual sum of loss vectors in [0, 1]^N without
their mean. Its l2 sensitivity is D = sqrt(N - (N mod 2)/N), the diameter of the cube after the
common shift is removed. Hence all decisions together are mu-GDP with mu = D column_norm / sigma,
even if the losses react to the decisions. With one expert or one round, decisions do not depend on
the data.

Regret, for experts and for the points of a net (`dpoco.accounting.lipschitz`): let N points have
losses of range R, and let decisions be drawn from softmax(-eta (L_{t-1} + n_{t-1})), with n_0 = 0
and n_t of scale s_t times a fixed Gaussian field of `radius` rho and E max at most w:

(a) losses fixed in advance, s_t non-decreasing: E Reg <= ln N/eta + eta T R^2/8 + T c + M, where
    M = eta (rho s)^2/2 if eta rho^2 s <= w, else w s - w^2/(2 eta rho^2), and s = s_{T-1};
(b) all losses, even if they react to the decisions: E Reg <= ln N/eta + eta T R^2/8 + T c
    + (eta R w/2) sum_{t < T} s_t,

with c the loss per round of playing on a net, G times half a cell's diagonal. T R is always a
bound.

For N experts, losses are in [0, 1], the noise is independent over coordinates, rho^2 = 1 - 1/N, and
c = 0. Rounding their released sums to a grid g adds eta (T - 1) g/4 to both bounds. On a net,
rounding sums of m entries adds (T - 1) eta R rho sqrt(m) g/4 to (b). To (a), with sigma the scale
of one draw and u = g/sigma, it adds (T - 1) (1 + u)^2 eta R rho g (sqrt(m) u + eta rho g exp(eta
rho sqrt(m) g) (1 + m u^2/4))/8.

Proofs: ``docs/privacy/prefix_hedge.md``, ``docs/privacy/lipschitz.md``. Source: Agarwal and Singh,
"The price of differential privacy for online learning" (2017), with exact Gaussian accounting,
better sums, a sensitivity that leaves out the common shift, and the noise in (a) counted once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from dpoco._validation import positive_float, positive_int
from dpoco.accounting import continual_sum, release
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import GROWING, Method, method_name
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.nets import NoiseField
from dpoco.accounting.plan import Forecast, Plan
from dpoco.accounting.regret_bounds import RegretBound, growing_cost
from dpoco.accounting.statement import expert_guarantee
from dpoco.privacy.mechanisms.bounds import CentredLosses
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.records import Description

__all__ = ["HedgePlan", "HedgeTuning", "calibrate", "guarantee", "regret"]


@dataclass(frozen=True)
class HedgeRun:
    """Parameters of a run that do not depend on the learning rate.

    Attributes
    ----------
    points, horizon : int
        N and T.
    method : str or Buffered
        Continual sum.
    noise_scale : float
        Scale of one draw.
    field : NoiseField or None
        Effect of unit noise on the values on a net; None for experts.
    loss_range : float
        R.
    discretisation : float
        Loss per round of playing on a net.
    """

    points: int
    horizon: int
    method: Method
    noise_scale: float
    field: NoiseField | None = None
    loss_range: float = 1.0
    discretisation: float = 0.0

    @property
    def noisy(self) -> bool:
        """Whether any decision depends on noise."""
        return self.noise_scale > 0.0 and self.horizon > 1

    @property
    def pushes(self) -> int:
        """Rounds that enter the sum: all but the last, which affects no decision."""
        return max(self.horizon - 1, 1)

    @property
    def stability(self) -> float:
        """Factor of eta in the stability term."""
        return 0.125 * self.horizon * self.loss_range**2

    @property
    def square(self) -> float:
        """The square of rho."""
        return 1.0 - 1.0 / self.points if self.field is None else self.field.radius**2

    @property
    def maximum(self) -> float:
        """The bound w on E max."""
        return expected_maximum(self.points) if self.field is None else self.field.maximum

    @property
    def last_scale(self) -> float:
        """The largest s_t if they grow, which is that of the last decision."""
        if not self.noisy:
            return 0.0
        return self.noise_scale * continual_sum.worst_row_norm(self.method, self.pushes)

    @property
    def sum_of_scales(self) -> float:
        """Bound on the sum of all s_t, by the Cauchy-Schwarz inequality."""
        if not self.noisy:
            return 0.0
        mean = continual_sum.root_mean_square_row(self.method, self.pushes)
        return self.noise_scale * self.pushes * mean

    @property
    def reach(self) -> float:
        """Twice the largest distance by which rounding moves a point: rho sqrt(m) g on a net."""
        grid, field = continual_sum.release_grid(self.noise_scale), self.field
        return grid if field is None else field.radius * math.sqrt(self.points - 1) * grid

    def _rounding(self, eta: float) -> float:
        """Return the rounding term of (b)."""
        return 0.25 * eta * (self.horizon - 1) * self.loss_range * self.reach

    def regret(self, learning_rate: float) -> RegretBound:
        """Return the least proved bound for a learning rate eta > 0."""
        if self.points == 1:
            return RegretBound(0.0, {}, "adaptive")
        noise = 0.5 * learning_rate * self.loss_range * self.maximum * self.sum_of_scales
        rounding = self._rounding(learning_rate)
        bounds = [self._regret_bound(learning_rate, noise, rounding, "adaptive")]
        # The proof of (a) needs noise that never falls, or whose falls only help. Trees have
        # neither.
        if self.noisy and method_name(self.method) in GROWING:
            bounds.append(self.growing_regret(learning_rate))
        bounds.append(RegretBound.of({"trivial": self.horizon * self.loss_range}, "adaptive"))
        return min(bounds, key=lambda bound: bound.total)

    def growing_regret(self, learning_rate: float) -> RegretBound:
        """Return bound (a). It is proved for growing noise only, but can compare all nets."""
        eta, w, square = learning_rate, self.maximum, self.square

        def cost(s: float) -> float:
            return growing_cost(eta, square, w, s)

        rises = continual_sum.rises(self.method, self.pushes) if self.noisy else ()
        scale = self.noise_scale
        # Falls of the noise only reduce the potential, so we only count rises
        # (docs/privacy/prefix_hedge.md, (a)).
        noise = math.fsum(cost(scale * high) - cost(scale * low) for low, high in rises)
        if self.field is None:
            rounding = self._rounding(eta)
        else:
            rounding = self._fine_rounding(eta, self.field) if self.noisy else 0.0
        return self._regret_bound(eta, noise, rounding, "oblivious")

    def best_learning_rate(self, as_if_growing: bool = False) -> float:
        """Return the learning rate with the least bound; 1 for a single point.

        `as_if_growing` minimises bound (a), which does not hold for noise that sometimes falls. It
        is the better choice if (b) is too coarse.
        """
        if self.points == 1:
            return 1.0
        entropy, s, w = math.log(self.points), self.last_scale, self.maximum
        # (a) has the rounding term of (b) for experts only.
        flat, fine = self.stability, 0.0
        if self.field is None:
            flat += self._rounding(1.0)
        else:
            fine = self._rounding(1.0)
        noise = 0.5 * self.loss_range * w * self.sum_of_scales
        calm = math.sqrt(entropy / (flat + noise + fine))
        if not self.noisy or not (as_if_growing or method_name(self.method) in GROWING):
            return calm
        # The noise term changes its form at `turn`. Each form has a minimum, which is kept to its
        # side.
        turn = w / (self.square * s)
        rest = max(0.0, entropy - 0.5 * w * w / self.square)
        candidates = (
            min(turn, math.sqrt(entropy / (flat + 0.5 * self.square * s * s))),
            max(turn, math.sqrt(rest / flat)),
        )
        best = min(candidates, key=lambda eta: self.growing_regret(eta).total)
        return best if as_if_growing else min(calm, best, key=lambda eta: self.regret(eta).total)

    def _fine_rounding(self, eta: float, field: NoiseField) -> float:
        """Return the rounding term of (a) on a net."""
        grid, entries = continual_sum.release_grid(self.noise_scale), self.points - 1
        unit = grid / self.noise_scale
        shift = eta * field.radius * grid  # shift of one entry, in units of log weight
        # The cap is far beyond any regret.
        spread = shift * math.exp(min(700.0, eta * self.reach)) * (1.0 + 0.25 * entries * unit**2)
        each = 0.125 * self.loss_range * shift * (math.sqrt(entries) * unit + spread)
        return (self.horizon - 1) * (1.0 + unit) ** 2 * each

    def _regret_bound(self, eta: float, noise: float, rounding: float, scope: str) -> RegretBound:
        """Return the bound from these terms and those that (a) and (b) share."""
        terms = {"entropy": math.log(self.points) / eta, "stability": eta * self.stability}
        if self.field is None:
            terms |= {"rounding": rounding, "noise": noise}
        else:
            missed = self.horizon * self.discretisation
            terms |= {"discretisation": missed, "noise": noise, "rounding": rounding}
        return RegretBound.of(terms, scope)


@lru_cache(maxsize=64)
def expected_maximum(n: int) -> float:
    """Return E max of n independent standard normal variables, rounded up by 1e-9."""
    if n == 1:
        return 0.0
    from scipy.integrate import quad
    from scipy.special import log_ndtr

    # E max = int_0^inf P(max > x) dx - int_0^inf P(max < -x) dx.
    turn = math.sqrt(2.0 * math.log(n))

    def above(x: float) -> float:
        return -math.expm1(n * float(log_ndtr(x)))

    def below(x: float) -> float:
        return math.exp(n * float(log_ndtr(-x)))

    # Beyond nine deviations, the integrands are smaller than the amount by which we raise the
    # result.
    upper = quad(above, 0.0, turn + 9.0, points=[turn], limit=200, epsabs=1e-12, epsrel=1e-12)[0]
    lower = quad(below, 0.0, 9.0, limit=200, epsabs=1e-12, epsrel=1e-12)[0]
    return min(turn, (float(upper) - float(lower)) * (1.0 + 1e-9))


@dataclass(frozen=True)
class HedgeTuning(Description):
    """Parameters of the post-processing of the noisy sums.

    Attributes
    ----------
    learning_rate : float
        eta, per unit of losses in [0, 1].
    """

    kind = "hedge_tuning"
    learning_rate: float


HedgePlan = Plan[GaussianSum, HedgeTuning, Forecast]


def regret(plan: HedgePlan) -> RegretBound:
    """Return the bound on the expected regret over the horizon, for losses in [0, 1]."""
    total = plan.mechanism
    run = HedgeRun(find_experts(plan), total.pushes + 1, total.factorisation, total.scale)
    return run.regret(plan.tuning.learning_rate)


def find_experts(plan: HedgePlan) -> int:
    """Return N."""
    assert isinstance(plan.mechanism.summand, CentredLosses)
    return plan.mechanism.summand.experts


def guarantee(
    plan: HedgePlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism; see `expert_guarantee`."""
    total, experts, bound = plan.mechanism, find_experts(plan), regret(plan)
    sums = f"{experts} experts, {method_name(total.factorisation)!r} sum"
    return expert_guarantee(
        total,
        experts,
        total.pushes + 1,
        bound.total,
        bound.scope,
        budget=budget,
        seeded=seeded,
        details={
            "learning rate": plan.tuning.learning_rate,
            **{f"regret: {name}": value for name, value in bound.terms.items()},
        },
        released=f"the decisions of Hedge on noisy sums ({sums})",
        reference="adaptive Gaussian composition; docs/privacy/prefix_hedge.md",
    )


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    sum_method: str | None = None,
    learning_rate: float | None = None,
    numerics: str = release.DEFAULT_NUMERICS,
    participation: release.Returning | None = None,
) -> HedgePlan:
    """Return the least noise that meets `budget`, and the rate with the least regret bound.

    Parameters
    ----------
    experts : int
        N.
    horizon : int
        Rounds. None is refused, because the noise depends on the number of rounds.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        None and "auto" take the sum with the least regret bound: "blt_normalised" unless another is
        more than 1 % better.
    learning_rate : float, optional
        eta; None minimises the regret bound.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum.
    participation : Participation, optional
        How often one person may come; the budget then covers all these rounds.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget, for example with delta = 0.
    """
    n = positive_int("experts", experts, maximum=2**32)
    rounds = continual_sum.known_horizon(horizon)
    # With one expert or one round, decisions do not depend on data, and no noise is needed.
    trivial = n == 1 or rounds == 1
    if budget is not None and not trivial:
        budget.require_delta()
    best: HedgePlan | None = None
    near = release.planned_neighbours("replace", None if trivial else participation, rounds, budget)
    for method in release.candidate_methods(sum_method, max(rounds - 1, 1), budget, near):
        # The losses of the last round affect no decision and are not summed.
        plain = release.plain_sum(CentredLosses(n), method, rounds - 1)
        total = release.with_noise(
            plain, near, budget=None if trivial else budget, numerics=numerics
        )
        run = HedgeRun(n, rounds, total.factorisation, total.scale)
        eta = run.best_learning_rate() if learning_rate is None else learning_rate
        bound = run.regret(positive_float("learning_rate", eta))
        forecast = Forecast(bound.total, bound.scope)
        # The first candidate is the default; another candidate must be clearly better.
        if best is None or bound.total < 0.99 * (best.forecast.regret_bound or 0.0):
            best = Plan(total, HedgeTuning(positive_float("learning_rate", eta)), forecast)
    assert best is not None
    return best
