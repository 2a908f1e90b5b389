"""Accounting of Hedge on a net of decisions, for Lipschitz losses in one or two dimensions.

Claim: data reach the decisions only through one continual sum of transformed values on the net. The
transformed values of any two rounds have l2 distance at most D, which is enforced by bounding
differences of values. Hence all decisions together are mu-GDP with mu = D column_norm / sigma, even
if the losses react to the decisions, and whether or not the losses are Lipschitz as declared. With
one net point or one round, decisions do not depend on the data. For D of each transform, see
`dpoco.privacy.mechanisms.nets.NetDifferences`.

Proof: ``docs/privacy/lipschitz.md``. Source: Agarwal, Kale, Singh and Thakurta,
"Differentially Private and Lazy Online Convex Optimization", Lipschitz losses in one or two
dimensions, with corrected constants, exact Gaussian accounting, better sums and better transforms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dpoco._validation import choice, positive_float
from dpoco.accounting import continual_sum, release
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import Method
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.nets import (
    NetShape,
    candidate_nets,
    checked_counts,
    checked_slope,
    discretisation,
    net_shape,
    noise_field,
    published_sensitivity,
)
from dpoco.accounting.noisy_ftrl_regret import RegretForecast
from dpoco.accounting.plan import Plan
from dpoco.accounting.prefix_hedge import HedgeRun, HedgeTuning
from dpoco.accounting.regret_bounds import REGRET_SCOPES, stated_regret
from dpoco.accounting.statement import check_claim, stated_delta
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.nets import NetDifferences
from dpoco.privacy.neighbours import Neighbours

__all__ = ["NetPlan", "calibrate", "guarantee", "hedge_run"]

TRANSFORMS = ("increments", "grid_laplacian", "parent")
# The Toeplitz sum stores all past draws. "auto" uses it only up to this many numbers.
_LARGEST_HISTORY = 2**22
NEAR = Neighbours()


NetPlan = Plan[GaussianSum, HedgeTuning, RegretForecast]


@dataclass(frozen=True)
class _Setting:
    """The problem before net and sum are chosen.

    Attributes
    ----------
    shape : NetShape
        Shape of the domain.
    lipschitz, horizon, transform, enforce, budget, learning_rate
        See `calibrate`.
    near : Neighbours
        Neighbouring streams for which the noise is planned.
    """

    shape: NetShape
    lipschitz: float
    horizon: int
    transform: str
    enforce: bool
    budget: Budget | None = None
    learning_rate: float | None = None
    near: Neighbours = NEAR

    def trivial(self, counts: tuple[int, ...]) -> bool:
        """Return whether decisions do not depend on data: one point, or one round."""
        return not counts or self.horizon == 1

    def plan(self, counts: tuple[int, ...], method: Method) -> tuple[NetPlan, float]:
        """Return the plan for a net and a sum, and the bound for comparing nets."""
        net = NetDifferences(self.shape.sides, counts, self.transform, self.lipschitz, self.enforce)
        plain = release.plain_sum(net, method, self.horizon - 1)
        budget = None if self.trivial(counts) else self.budget
        # The transforms use doubles, so integer sums would not prove more (docs/privacy/lattice.md,
        # "What stays in doubles").
        total = release.with_noise(plain, self.near, budget=budget, numerics="float")
        run, eta = find_run(self.shape, total), self.learning_rate
        if eta is None:
            eta = run.best_learning_rate()
            # If (b) is too coarse for a choice, the learning rate of (a) is better, although (a) is
            # not proved here.
            if "trivial" in run.regret(eta).terms:
                eta = run.best_learning_rate(True)
        regret = run.regret(eta)
        # For other sums, too little is proved to call learning futile.
        growing = continual_sum.method_name(total.factorisation) in continual_sum.GROWING
        futile = total.scale > 0.0 and growing and "trivial" in regret.terms
        forecast = RegretForecast(regret.scope, futile, regret.total, run.loss_range, None)
        rate = positive_float("learning_rate", eta)
        # Nets are compared by (a) even if it is not proved, because (b) is too coarse.
        bound = run.growing_regret(eta).total if run.points > 1 else 0.0
        return Plan(total, HedgeTuning(rate), forecast), bound


def calibrate(
    domain: Domain,
    *,
    lipschitz: float,
    horizon: int | None,
    budget: Budget | None,
    resolution: int | tuple[int, ...] | None = None,
    transform: str = "auto",
    sum_method: str | None = None,
    learning_rate: float | None = None,
    enforce: bool = True,
    participation: release.Returning | None = None,
) -> NetPlan:
    """Return the least noise that meets `budget`, with the net and rate of the least regret bound.

    Parameters
    ----------
    domain : Box, LpBall, Simplex or Polytope
        One or two dimensions; axes of length 0 do not count.
    lipschitz : float
        G, per unit of Euclidean distance.
    horizon : int
        Rounds. None is refused, because the noise depends on the number of rounds.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    resolution : int or tuple of int, optional
        Points per axis, at least 2. None balances the error of the net against the noise, with up
        to 2^16 points on an interval, and up to 2^8 per axis in the plane, where spacings are
        nearly equal. At most 2^24 points, and in the plane 2^12 per axis.
    transform : {"auto", "increments", "grid_laplacian", "parent"}
        "auto": increments on one axis, grid_laplacian on two.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        None and "auto" take the sum with the least regret bound: "blt_normalised" unless another is
        more than 1 % better.
    learning_rate : float, optional
        eta, per unit of loss; None minimises the regret bound.
    enforce : bool
        False leaves values unchanged. Then the guarantee assumes that the losses are Lipschitz.
    participation : Participation, optional
        How often one person may come; the budget then covers all these rounds.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    NotImplementedError
        For more than two dimensions.
    CalibrationError
        If no noise scale meets the budget, for example with delta = 0.
    """
    shape = net_shape(domain)
    slope = checked_slope(shape, lipschitz)
    rounds = continual_sum.known_horizon(horizon)
    if learning_rate is not None:
        learning_rate = positive_float("learning_rate", learning_rate)
    choice("transform", transform, ("auto", *TRANSFORMS))
    fixed = sum_method not in (None, "auto")
    near = release.planned_neighbours("replace", participation, rounds, budget)
    if fixed or budget is None:
        methods = release.candidate_methods(sum_method, max(rounds - 1, 1), budget, near)
    else:
        # Trees are left out: (a) is not proved for their noise, which sometimes falls.
        first, *_ = release.candidate_methods(None, max(rounds - 1, 1), budget, near)
        methods = (first, "toeplitz")
    if transform == "auto":
        transform = "grid_laplacian" if len(shape.sides) == 2 else "increments"
    setting = _Setting(shape, slope, rounds, transform, enforce, budget, learning_rate, near)
    if resolution is None:
        nets = candidate_nets(shape, transform)
    else:
        nets = [checked_counts(shape, resolution)]
    if budget is not None and not setting.trivial(nets[0]):
        budget.require_delta()
    first, *others = methods
    plans = []
    for net in nets:
        try:
            plans.append(setting.plan(net, first))
        except CalibrationError:  # the tails of so many variates exceed delta
            if not plans and net == nets[-1]:
                raise
    best, _ = min(plans, key=lambda plan: plan[1])
    summed, pushes = read_net(best), max(rounds - 1, 1)
    numbers = pushes * max(summed.size, 1)
    for method in others:
        long = pushes > continual_sum.TOEPLITZ_LIMIT or numbers > _LARGEST_HISTORY
        if method == "toeplitz" and long:
            continue
        rival, _ = setting.plan(summed.counts, method)
        if rival.forecast.regret_bound < 0.99 * best.forecast.regret_bound:
            best = rival
    return best


def guarantee(
    domain: Domain, plan: NetPlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism.

    Parameters
    ----------
    domain
        The domain the learner runs with.
    plan, budget, seeded
        See `dpoco.accounting.statement`.

    Raises
    ------
    ValueError, TypeError
        If the net or the transform does not fit the domain.
    """
    shape, total, net = net_shape(domain), plan.mechanism, read_net(plan)
    _check_net(shape, total, net)
    counts, n, eta = net.counts, total.pushes + 1, plan.tuning.learning_rate
    regret = find_run(shape, total).regret(eta)
    size = " x ".join(map(str, counts)) or "1"
    what = (
        f"the decisions of Hedge on a net of {size} points ({net.transform!r} of the losses, "
        f"{continual_sum.method_name(total.factorisation)!r} sum)"
    )
    details: dict[str, float | str | None] = {
        "regret bound holds for": REGRET_SCOPES[regret.scope],
        "learning rate": eta,
        **{f"regret: {name}": value for name, value in regret.terms.items()},
    }
    if "trivial" in regret.terms:  # no bound is better than the one for any decisions
        details |= stated_regret(regret.total, regret.total)["details"]
    delta, trivial = stated_delta(budget, n), not counts or n == 1
    paper_epsilon = claimed = None
    if net.transform == "parent" and not trivial and total.scale > 0.0:
        column = total.factorisation.column(total.pushes)
        # The claim with the source's constant, which is too small, for this noise.
        believed = published_sensitivity(shape, counts, net.lipschitz) * column
        paper_epsilon = with_tails(Gaussian(believed / total.scale), total.mass).epsilon(delta)
        claimed = (paper_epsilon, delta) if plan.calibration == "paper" else None
    steep = f"{net.lipschitz:g} times their distance"
    bounded = f"The program limits how far losses of two points of the net differ to {steep}."
    conditions = (bounded,) if net.enforced else ()
    result = Guarantee.about(
        total,
        NEAR,
        released=what,
        horizon=n,
        delta=delta,
        calibration=plan.calibration,
        reference="adaptive Gaussian composition; docs/privacy/lipschitz.md",
        seeded=seeded,
        conditions=() if trivial else conditions,
        claimed=claimed,
        paper_epsilon=paper_epsilon,
        regret_bound=regret.total,
        details=details,
    )
    try:
        return check_claim(result)
    except CalibrationError as lie:  # the false claim is stated next to the proved statement
        return replace(result, conditions=(*result.conditions, str(lie)))


def read_net(plan: NetPlan) -> NetDifferences:
    """Return the summand: differences of the losses on the net."""
    assert isinstance(plan.mechanism.summand, NetDifferences)
    return plan.mechanism.summand


def hedge_run(domain: Domain, plan: NetPlan) -> HedgeRun:
    """Return the run of Hedge on the net, which computes the regret for every learning rate."""
    return find_run(net_shape(domain), plan.mechanism)


def find_run(shape: NetShape, total: GaussianSum) -> HedgeRun:
    """Return the run of Hedge on a net of this shape."""
    net: Any = total.summand
    return HedgeRun(
        points=math.prod(net.counts),
        horizon=total.pushes + 1,
        method=total.factorisation,
        noise_scale=total.scale,
        field=noise_field(net.transform, net.counts) if net.counts else None,
        loss_range=net.lipschitz * shape.diameter,
        discretisation=discretisation(shape, net.counts, net.lipschitz),
    )


def _check_net(shape: NetShape, total: GaussianSum, net: NetDifferences) -> None:
    """Raise `ValueError` unless net and sum belong to a learner on a domain of this shape."""
    checked_counts(shape, net.counts)
    checked_slope(shape, net.lipschitz)
    if net.sides != shape.sides:
        raise ValueError(f"the plan's net has sides {net.sides}, the domain {shape.sides}")
    if (total.batch, total.growth, total.order, total.grid) != (1, None, 2.0, 0.0):
        raise ValueError("the plan's sums are not those of Hedge on a net")
