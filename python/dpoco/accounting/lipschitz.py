"""Accounting of Hedge on a net of decisions, for Lipschitz losses in one or two dimensions.

Claim: data reach the decisions only through one continual sum of transformed values on the net,
each round's of l2 distance at most D from any other's, enforced by bounding differences of values;
hence all decisions together are mu-GDP with mu = D column_norm / sigma, also when the losses react
to the decisions, and whether or not the losses are Lipschitz as declared. With one net point or one
round they do not depend on the data at all. D of each transform: `_experts/nets.py`.

Proof: ``docs/privacy/lipschitz.md``. Source: Agarwal, Kale, Singh and Thakurta,
"Differentially Private and Lazy Online Convex Optimization", Lipschitz losses in one or two
dimensions, with corrected constants, exact Gaussian accounting, better sums and better transforms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting._experts.hedge_regret import GROWING
from dpoco.accounting._experts.lipschitz_parameters import CALIBRATIONS, LipschitzParameters
from dpoco.accounting._experts.lipschitz_planner import candidate_nets
from dpoco.accounting._experts.lipschitz_regret import (
    NetRun,
    best_learning_rate,
    growing_bound,
    regret_of,
)
from dpoco.accounting._experts.net_shape import NetShape, checked_counts, checked_slope, shape_of
from dpoco.accounting._experts.nets import (
    TRANSFORMS,
    NoiseField,
    checked_transform,
    discretisation,
    noise_field,
    published_sensitivity,
    sensitivity,
)
from dpoco.accounting._experts.statement import SCOPES_IN_WORDS, stated_delta, statement_of
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.truncation import (
    charged_gaussian_epsilon,
    charged_gaussian_mu,
    truncation_mass,
)
from dpoco.domains import Domain
from dpoco.errors import CalibrationError

__all__ = ["CALIBRATIONS", "LipschitzParameters", "calibrate", "guarantee"]

# The Toeplitz sum keeps all past draws: "auto" takes it only up to this many numbers.
_LARGEST_HISTORY = 2**22


@dataclass(frozen=True, slots=True)
class _Setting:
    """What is fixed before net and sum are chosen."""

    shape: NetShape
    lipschitz: float
    horizon: int
    transform: str

    @property
    def pushes(self) -> int:
        return max(self.horizon - 1, 1)

    def trivial(self, counts: tuple[int, ...]) -> bool:
        return not counts or self.horizon == 1

    def reach(self, counts: tuple[int, ...]) -> float:
        if not counts:
            return 0.0
        return sensitivity(self.transform, self.shape, counts, self.lipschitz)

    def mass(self, counts: tuple[int, ...], method: str) -> float:
        entries = math.prod(counts) - 1
        return truncation_mass(
            continual_sum.variates(method, self.pushes, max(entries, 1), "gaussian")
        )

    def run(self, counts: tuple[int, ...], method: str, noise_scale: float) -> NetRun:
        return NetRun(
            points=math.prod(counts),
            horizon=self.horizon,
            loss_range=self.lipschitz * self.shape.diameter,
            discretisation=discretisation(self.shape, counts, self.lipschitz) if counts else 0.0,
            method=method,
            noise_scale=noise_scale,
            field=noise_field(self.transform, counts) if counts else NoiseField(1, 0.0, 0.0),
        )


def calibrate(
    domain: Domain,
    *,
    lipschitz: float,
    horizon: int | None,
    budget: Budget | None,
    calibration: str = "tight",
    resolution: int | tuple[int, ...] | None = None,
    transform: str = "auto",
    sum_method: str | None = None,
    learning_rate: float | None = None,
    enforce: bool = True,
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
        None adds no noise and promises nothing.
    calibration : {"tight", "paper"}
        "paper": the published transform and a binary tree, with noise by corrected constants.
    resolution : int or tuple of int, optional
        Points an axis, at least 2; None balances what the net misses against noise, up to 2^16
        points on an interval and 2^8 an axis in the plane, where spacings are kept nearly equal.
        At most 2^24 points, in the plane 2^12 an axis.
    transform : {"auto", "increments", "grid_laplacian", "parent"}
        "auto": increments on one axis, grid_laplacian on two; parent for ``calibration="paper"``.
    sum_method : {"auto", "blt", "tree", "honaker", "toeplitz"}, optional
        None and "auto" take the least regret bound, "blt" unless another is more than 1 % better;
        "tree" for ``calibration="paper"``.
    learning_rate : float, optional
        eta, per unit of loss; None minimises the regret bound.
    enforce : bool
        False leaves values as they are: the guarantee then rests on the losses being Lipschitz.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    NotImplementedError
        For more than two dimensions.
    CalibrationError
        If no noise scale meets the budget, as for delta = 0.
    """
    shape = shape_of(domain)
    slope = checked_slope(shape, lipschitz)
    if horizon is None:
        raise ValueError("horizon must be an int: the noise depends on the number of rounds")
    rounds = positive_int("horizon", horizon)
    published = choice("calibration", calibration, CALIBRATIONS) == "paper"
    if not isinstance(enforce, bool):
        raise TypeError("enforce must be a bool")
    if learning_rate is not None:
        learning_rate = positive_float("learning_rate", learning_rate)
    setting = _Setting(shape, slope, rounds, _resolved_transform(transform, shape, published))
    counts = None if resolution is None else checked_counts(shape, resolution)
    nets = candidate_nets(shape, setting.transform) if counts is None else [counts]
    for net in nets:
        checked_transform(setting.transform, shape, net)
    if budget is not None and not setting.trivial(nets[0]):
        budget.require_delta()
    first, *others = _methods(sum_method, published, budget)
    plans = []
    for net in nets:
        try:
            plans.append(_plan(setting, net, first, budget, learning_rate, published, enforce))
        except CalibrationError:  # the tails of so many variates cost more than delta
            if not plans and net == nets[-1]:
                raise
    best, _ = min(plans, key=lambda plan: plan[1])
    entries = max(best.experts - 1, 1)
    for method in others:
        if method == "toeplitz" and (
            best.pushes > continual_sum.TOEPLITZ_LIMIT or best.pushes * entries > _LARGEST_HISTORY
        ):
            continue
        rival, _ = _plan(setting, best.resolution, method, budget, learning_rate, False, enforce)
        if rival.regret_bound < 0.99 * best.regret_bound:
            best = rival
    return best


def _plan(
    setting: _Setting,
    counts: tuple[int, ...],
    method: str,
    budget: Budget | None,
    learning_rate: float | None,
    published: bool,
    enforce: bool,
) -> tuple[LipschitzParameters, float]:
    """Return the parameters of one net and sum, and the bound to compare nets by."""
    column = continual_sum.column_norm(method, setting.pushes)
    reach, trivial = setting.reach(counts), setting.trivial(counts)
    mu, scale = (0.0 if trivial else math.inf), 0.0
    if budget is not None and not trivial:
        mu = charged_gaussian_mu(budget, setting.mass(counts, method))
        scale = reach * column / mu
    run = setting.run(counts, method, scale)
    eta = learning_rate
    if eta is None:
        eta = best_learning_rate(run, published)
        if "trivial" in regret_of(run, eta).terms:
            eta = best_learning_rate(run, True)
    regret = regret_of(run, eta)
    parameters = LipschitzParameters(
        horizon=setting.horizon,
        lipschitz=setting.lipschitz,
        resolution=counts,
        transform=setting.transform,
        sum_method=method,
        noise_scale=scale,
        learning_rate=eta,
        enforce=enforce,
        calibration="paper" if published else "tight",
        sensitivity=reach,
        column_norm=column,
        mu=mu,
        regret_bound=regret.total,
        regret_terms=regret.terms,
        regret_scope=regret.scope,
    )
    return parameters, growing_bound(run, eta) if run.points > 1 else 0.0


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
    p, shape = parameters, shape_of(domain)
    checked_slope(shape, p.lipschitz)
    counts = checked_counts(shape, p.resolution)
    checked_transform(p.transform, shape, counts)
    setting = _Setting(shape, p.lipschitz, p.horizon, p.transform)
    run = setting.run(counts, p.sum_method, p.noise_scale)
    regret = regret_of(run, p.learning_rate)
    size = " x ".join(map(str, counts)) or "1"
    what = (
        f"the decisions of Hedge on a net of {size} points ({p.transform!r} of the losses, "
        f"{p.sum_method!r} sum)"
    )
    details: dict[str, float | str | None] = {
        "learning rate": p.learning_rate,
        **{f"regret: {name}": value for name, value in regret.terms.items()},
    }
    if "trivial" in regret.terms:  # what all decisions have is all that is proved
        details |= stated_regret(regret.total, regret.total)["details"]
    trivial = setting.trivial(counts)
    if not trivial and p.noise_scale == 0.0:
        scope: dict[str, float | str | None] = {
            "regret bound holds for": SCOPES_IN_WORDS[regret.scope]
        }
        none = Guarantee.none(p.horizon, what)
        return replace(none, regret_bound=regret.total, details={**scope, **details})
    column = continual_sum.column_norm(p.sum_method, p.pushes)
    pure, mu, mass = (0.0 if trivial else None), None, 0.0
    reach, delta = setting.reach(counts), stated_delta(budget, p.horizon)
    paper_epsilon = claimed = None
    if not trivial:
        mu, mass = reach * column / p.noise_scale, setting.mass(counts, p.sum_method)
        if p.transform == "parent":
            believed = published_sensitivity(shape, counts, p.lipschitz) * column / p.noise_scale
            paper_epsilon = charged_gaussian_epsilon(believed, delta, mass)
            claimed = (paper_epsilon, delta) if p.calibration == "paper" else None
    result = statement_of(
        sums=True,
        mechanism=what,
        horizon=p.horizon,
        delta=delta,
        calibration=p.calibration,
        reference="adaptive Gaussian composition; docs/privacy/lipschitz.md",
        seeded=seeded,
        pure=pure,
        mu=mu,
        truncation_mass=mass,
        sensitivity=reach,
        sensitivity_norm="l2",
        noise_scale=p.noise_scale,
        column_norm=column,
        conditions=() if trivial else (_condition(p),),
        claimed=claimed,
        regret_bound=regret.total,
        regret_scope=regret.scope,
        details=details,
    )
    assumed = not trivial and not p.enforce
    result = replace(
        result, paper_epsilon=paper_epsilon, certified=result.certified and not assumed
    )
    if claimed is not None and not result.delta_at(claimed[0]) <= claimed[1] * (1.0 + 1e-9):
        lie = (
            f"the published claim (epsilon = {claimed[0]:.6g}, delta = {claimed[1]:.3g}) is false "
            f"for this noise: exact delta {result.delta_at(claimed[0]):.3g}"
        )
        result = replace(result, conditions=(*result.conditions, lie))
    return result


def _condition(p: LipschitzParameters) -> str:
    if p.enforce:
        return (
            f"differences of losses on the net are bounded by {p.lipschitz:g} times the distance, "
            "enforced"
        )
    return f"every loss is {p.lipschitz:g}-Lipschitz and finite: ASSUMED, not enforced"


def _resolved_transform(transform: str, shape: NetShape, published: bool) -> str:
    choice("transform", transform, ("auto", *TRANSFORMS))
    if published and transform not in ("auto", "parent"):
        raise ValueError("calibration 'paper' has transform 'parent'")
    if transform != "auto":
        return transform
    if published:
        return "parent"
    return "grid_laplacian" if len(shape.sides) == 2 else "increments"


def _methods(sum_method: str | None, published: bool, budget: Budget | None) -> tuple[str, ...]:
    if sum_method not in (None, "auto"):
        method = choice("sum_method", sum_method, continual_sum.METHODS)
        if published and method != "tree":
            raise ValueError("calibration 'paper' has sum_method 'tree'")
        return (method,)
    if published:
        return ("tree",)
    return ("blt",) if budget is None else ("blt", *(m for m in GROWING if m != "blt"))
