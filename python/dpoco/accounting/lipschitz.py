"""Accounting of Hedge on a net of decisions, for Lipschitz losses in one or two dimensions.

Claim: data reach the decisions only through one continual sum of transformed values on the net,
each round's of l2 distance at most D from any other's, enforced by bounding differences of values;
hence all decisions together are mu-GDP with mu = D column_norm / sigma, also when the losses react
to the decisions, and whether or not the losses are Lipschitz as declared. With one net point or one
round they do not depend on the data at all. D of each transform:
`dpoco.privacy.mechanisms.bounds.NetDifferences`.

Proof: ``docs/privacy/lipschitz.md``. Source: Agarwal, Kale, Singh and Thakurta,
"Differentially Private and Lazy Online Convex Optimization", Lipschitz losses in one or two
dimensions, with corrected constants, exact Gaussian accounting, better sums and better transforms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from dpoco._validation import choice, positive_float
from dpoco.accounting import continual_sum, release
from dpoco.accounting._words import REGRET_SCOPES
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import Method
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.nets import (
    LARGEST_NET,
    NetShape,
    candidate_nets,
    checked_counts,
    checked_slope,
    discretisation,
    noise_field,
    published_sensitivity,
    shape_of,
)
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.prefix_hedge import HedgeParameters, HedgeRun
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.statement import check_claim, stated_delta
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.mechanisms.bounds import NetDifferences
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours

__all__ = ["LipschitzParameters", "calibrate", "guarantee", "hedge_run", "mechanism_of"]

TRANSFORMS = ("increments", "grid_laplacian", "parent")
# The Toeplitz sum keeps all past draws: "auto" takes it only up to this many numbers.
_LARGEST_HISTORY = 2**22
NEAR = Neighbours()


@dataclass(frozen=True, kw_only=True)
class LipschitzParameters(HedgeParameters):
    """Parameters of Hedge on a net of decisions.

    The value carries no claim of its own: `guarantee` recomputes every privacy and regret quantity
    from domain, Lipschitz constant, net, transform, noise scale, sum and learning rate.

    Attributes
    ----------
    horizon : int
        Rounds T.
    lipschitz : float
        G: losses change by at most G times the Euclidean distance.
    resolution : tuple of int
        Net points along each axis of positive length; empty for a single decision.
    transform : {"increments", "grid_laplacian", "parent"}
        What is summed of the values on the net.
    sum_method : {"blt", "blt_normalised", "banded", "tree", "toeplitz"}
        Continual sum; it takes T - 1 pushes.
    noise_scale : float
        Scale of one Gaussian draw, in units of loss; 0 means no noise.
    learning_rate : float
        eta, per unit of loss.
    enforce : bool
        Whether differences of values are bounded by G times distances before they are summed.
    calibration : {"tight", "paper"}
        Where the parameters come from.
    sensitivity : float
        Largest l2 difference of what a round adds to the sum, between neighbours. Derived, as is
        everything below.
    column_norm : float
        Factor of the continual sum on the sensitivity.
    mu : float
        GDP parameter; infinite without noise, 0 if nothing depends on the data.
    regret_bound : float
        Bound on the expected regret to the best point of the domain.
    regret_terms : dict of str to float
        Terms that add up to it.
    regret_scope : {"oblivious", "adaptive"}
        Losses it holds for: fixed in advance, or any.
    """

    kind: ClassVar[str] = "dpoco.lipschitz_parameters"

    lipschitz: float
    resolution: tuple[int, ...] = at_least(2, LARGEST_NET)
    transform: str = one_of(*TRANSFORMS)
    enforce: bool
    calibration: str = one_of("tight", "paper", default="tight")

    @property
    def experts(self) -> int:
        """Number of net points N."""
        return math.prod(self.resolution)

    @property
    def noise_dominates(self) -> bool:
        """Whether nothing better is proved than what any decisions achieve."""
        growing = self.sum_method in continual_sum.GROWING  # about others little is proved at all
        return self.noise_scale > 0.0 and growing and "trivial" in self.regret_terms


@dataclass(frozen=True)
class _Setting:
    """What is fixed before net and sum are chosen."""

    shape: NetShape
    lipschitz: float
    horizon: int
    transform: str
    enforce: bool
    budget: Budget | None = None
    learning_rate: float | None = None
    near: Neighbours = NEAR

    def trivial(self, counts: tuple[int, ...]) -> bool:
        return not counts or self.horizon == 1

    def total(self, counts: tuple[int, ...], method: Method, scale: float = 0.0) -> GaussianSum:
        """Return the sum of all rounds but the last."""
        net = NetDifferences(self.shape.sides, counts, self.transform, self.lipschitz, self.enforce)
        return release.sum_of(net, method, self.horizon - 1, self.near, scale=scale)

    def run(self, counts: tuple[int, ...], method: Method, noise_scale: float) -> HedgeRun:
        return HedgeRun(
            points=math.prod(counts),
            horizon=self.horizon,
            method=method,
            noise_scale=noise_scale,
            field=noise_field(self.transform, counts) if counts else None,
            loss_range=self.lipschitz * self.shape.diameter,
            discretisation=discretisation(self.shape, counts, self.lipschitz),
        )

    def plan(self, counts: tuple[int, ...], method: Method) -> tuple[LipschitzParameters, float]:
        """Return the parameters of one net and sum, and the bound to compare nets by."""
        plain, trivial = self.total(counts, method), self.trivial(counts)
        budget = None if trivial else self.budget
        noise = release.planned_noise(plain, self.near, budget=budget, numerics="float")
        del noise["numerics"]
        if trivial:
            noise["mu"] = 0.0
        run, eta = self.run(counts, method, noise["noise_scale"]), self.learning_rate
        if eta is None:
            eta = run.best_learning_rate()
            if "trivial" in run.regret(eta).terms:
                eta = run.best_learning_rate(True)
        regret = run.regret(eta)
        parameters = LipschitzParameters(
            horizon=self.horizon,
            lipschitz=self.lipschitz,
            resolution=counts,
            transform=self.transform,
            **release.sum_fields(method),
            learning_rate=eta,
            enforce=self.enforce,
            regret_bound=regret.total,
            regret_terms=regret.terms,
            regret_scope=regret.scope,
            **noise,
        )
        return parameters, run.growing_regret(eta).total if run.points > 1 else 0.0


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
) -> LipschitzParameters:
    """Return the least noise that meets `budget`, and net and learning rate of the least regret.

    Parameters
    ----------
    domain : Box, LpBall, Simplex or Polytope
        Of one or two dimensions; axes of length 0 do not count.
    lipschitz : float
        G, per unit of Euclidean distance.
    horizon : int
        Rounds. None is refused: the noise of every round depends on their number.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    resolution : int or tuple of int, optional
        Points an axis, at least 2; None balances what the net misses against noise, up to 2^16
        points on an interval and 2^8 an axis in the plane, where spacings are kept nearly equal.
        At most 2^24 points, in the plane 2^12 an axis.
    transform : {"auto", "increments", "grid_laplacian", "parent"}
        "auto": increments on one axis, grid_laplacian on two.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        None and "auto" take the least regret bound, "blt_normalised" unless another is more
        than 1 % better.
    learning_rate : float, optional
        eta, per unit of loss; None minimises the regret bound.
    enforce : bool
        False leaves values as they are: the guarantee then rests on the losses being Lipschitz.
    participation : Participation, optional
        How often one person may come; the budget then covers all her rounds.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    NotImplementedError
        For more than two dimensions.
    CalibrationError
        If no noise scale meets the budget, for example with delta = 0.
    """
    shape = shape_of(domain)
    slope = checked_slope(shape, lipschitz)
    rounds = continual_sum.known_horizon(horizon)
    if learning_rate is not None:
        learning_rate = positive_float("learning_rate", learning_rate)
    choice("transform", transform, ("auto", *TRANSFORMS))
    fixed = sum_method not in (None, "auto")
    near = release.people_of("replace", participation, rounds, budget)
    if fixed or budget is None:
        methods = release.candidate_methods(sum_method, max(rounds - 1, 1), budget, near)
    else:
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
        except CalibrationError:  # the tails of so many variates cost more than delta
            if not plans and net == nets[-1]:
                raise
    best, _ = min(plans, key=lambda plan: plan[1])
    numbers = best.pushes * max(best.experts - 1, 1)
    for method in others:
        long = best.pushes > continual_sum.TOEPLITZ_LIMIT or numbers > _LARGEST_HISTORY
        if method == "toeplitz" and long:
            continue
        rival, _ = setting.plan(best.resolution, method)
        if rival.regret_bound < 0.99 * best.regret_bound:
            best = rival
    return best


def guarantee(
    domain: Domain,
    parameters: LipschitzParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from net, noise scale and domain.

    Parameters
    ----------
    domain
        The domain the learner runs with.
    parameters : LipschitzParameters
        Calibrated or the user's own; sensitivity, column norm, mu and regret are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError, TypeError
        If net or transform do not fit the domain.
    """
    p, setting = parameters, _setting_of(domain, parameters)
    counts, total = p.resolution, setting.total(p.resolution, p.correlation, p.noise_scale)
    regret = hedge_run(domain, p).regret(p.learning_rate)
    size = " x ".join(map(str, counts)) or "1"
    what = (
        f"the decisions of Hedge on a net of {size} points ({p.transform!r} of the losses, "
        f"{p.sum_method!r} sum)"
    )
    details: dict[str, float | str | None] = {
        "regret bound holds for": REGRET_SCOPES[regret.scope],
        "learning rate": p.learning_rate,
        **{f"regret: {name}": value for name, value in regret.terms.items()},
    }
    if "trivial" in regret.terms:  # what all decisions have is all that is proved
        details |= stated_regret(regret.total, regret.total)["details"]
    delta, trivial = stated_delta(budget, p.horizon), setting.trivial(counts)
    paper_epsilon = claimed = None
    if p.transform == "parent" and not trivial and p.noise_scale > 0.0:
        column = total.factorisation.column(total.pushes)
        believed = published_sensitivity(setting.shape, counts, p.lipschitz) * column
        paper_epsilon = with_tails(Gaussian(believed / p.noise_scale), total.mass).epsilon(delta)
        claimed = (paper_epsilon, delta) if p.calibration == "paper" else None
    steep = f"{p.lipschitz:g} times their distance"
    bounded = f"The program limits how far losses of two points of the net differ to {steep}."
    conditions = (bounded,) if p.enforce else ()
    result = Guarantee.about(
        total,
        NEAR,
        released=what,
        horizon=p.horizon,
        delta=delta,
        calibration=p.calibration,
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
    except CalibrationError as lie:  # is stated beside what holds
        return replace(result, conditions=(*result.conditions, str(lie)))


def mechanism_of(domain: Domain, parameters: LipschitzParameters) -> GaussianSum:
    """Return the one sum through which losses reach the decisions: all rounds but the last.

    Raises
    ------
    ValueError, TypeError
        If net or transform do not fit the domain.
    """
    p = parameters
    return _setting_of(domain, p).total(p.resolution, p.correlation, p.noise_scale)


def hedge_run(domain: Domain, parameters: LipschitzParameters) -> HedgeRun:
    """Return the run of Hedge on the net, which knows the regret of every learning rate."""
    p = parameters
    return _setting_of(domain, p).run(p.resolution, p.correlation, p.noise_scale)


def _setting_of(domain: Domain, p: LipschitzParameters) -> _Setting:
    shape = shape_of(domain)
    checked_counts(shape, p.resolution)
    slope = checked_slope(shape, p.lipschitz)
    return _Setting(shape, slope, p.horizon, p.transform, p.enforce)
