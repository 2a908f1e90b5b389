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

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting._experts.hedge_regret import GROWING
from dpoco.accounting._experts.lipschitz_parameters import CALIBRATIONS, LipschitzParameters
from dpoco.accounting._experts.lipschitz_regret import (
    NetRun,
    best_learning_rate,
    growing_bound,
    regret_of,
)
from dpoco.accounting._experts.nets import (
    TRANSFORMS,
    NetShape,
    NoiseField,
    checked_counts,
    checked_slope,
    checked_transform,
    discretisation,
    noise_field,
    published_sensitivity,
    shape_of,
)
from dpoco.accounting._experts.statement import SCOPES_IN_WORDS
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.release import calibrate_noise, sum_of
from dpoco.accounting.statement import state_sum, stated_delta
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.mechanisms.bounds import NetDifferences
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours

__all__ = ["CALIBRATIONS", "LipschitzParameters", "calibrate", "guarantee", "mechanism_of"]

# The Toeplitz sum keeps all past draws: "auto" takes it only up to this many numbers.
_LARGEST_HISTORY = 2**22
# What a round may cost when the caller does not say: noise, transform and a draw are linear in the
# number of points, up to a logarithm.
_LARGEST_LINE = 2**16
_LARGEST_SIDE = 2**8

NEAR = Neighbours()


@dataclass(frozen=True, slots=True)
class _Setting:
    """What is fixed before net and sum are chosen."""

    shape: NetShape
    lipschitz: float
    horizon: int
    transform: str

    def trivial(self, counts: tuple[int, ...]) -> bool:
        return not counts or self.horizon == 1

    def total(
        self, counts: tuple[int, ...], method: str, scale: float = 0.0, enforce: bool = True
    ) -> GaussianSum:
        """Return the sum of all rounds but the last."""
        net = NetDifferences(self.shape.sides, counts, self.transform, self.lipschitz, enforce)
        return sum_of(net, method, self.horizon - 1, NEAR, scale=scale)

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
    nets = _candidate_nets(shape, setting.transform) if counts is None else [counts]
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
    total, trivial = setting.total(counts, method), setting.trivial(counts)
    mu, scale = (0.0 if trivial else math.inf), 0.0
    if budget is not None and not trivial:
        total, mu = calibrate_noise(total, NEAR, budget=budget, numerics="float")
        scale = total.scale
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
        sensitivity=total.summand.movement(NEAR),
        column_norm=total.factorisation.column(max(total.pushes, 1)),
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
    p, shape, total = parameters, shape_of(domain), mechanism_of(domain, parameters)
    counts, setting = p.resolution, _Setting(shape, p.lipschitz, p.horizon, p.transform)
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
    delta, trivial = stated_delta(budget, p.horizon), setting.trivial(counts)
    paper_epsilon = claimed = None
    if p.transform == "parent" and not trivial and p.noise_scale > 0.0:
        column = total.factorisation.column(total.pushes)
        believed = published_sensitivity(shape, counts, p.lipschitz) * column / p.noise_scale
        paper_epsilon = with_tails(Gaussian(believed), total.mass).epsilon(delta)
        claimed = (paper_epsilon, delta) if p.calibration == "paper" else None
    result = state_sum(
        total,
        NEAR,
        released=what,
        horizon=p.horizon,
        delta=delta,
        calibration=p.calibration,
        reference="adaptive Gaussian composition; docs/privacy/lipschitz.md",
        seeded=seeded,
        conditions=() if trivial else (_condition(p),),
        claimed=claimed,
        paper_epsilon=paper_epsilon,
        regret_bound=regret.total,
        details={"regret bound holds for": SCOPES_IN_WORDS[regret.scope], **details},
        trusted=trivial or p.enforce,
    )
    if claimed is not None and not result.delta_at(claimed[0]) <= claimed[1] * (1.0 + 1e-9):
        lie = (
            f"the published claim (epsilon = {claimed[0]:.6g}, delta = {claimed[1]:.3g}) is false "
            f"for this noise: exact delta {result.delta_at(claimed[0]):.3g}"
        )
        result = replace(result, conditions=(*result.conditions, lie))
    return result


def mechanism_of(domain: Domain, parameters: LipschitzParameters) -> GaussianSum:
    """Return the one sum through which losses reach the decisions: all rounds but the last.

    Raises
    ------
    ValueError, TypeError
        If net or transform do not fit the domain.
    """
    p, shape = parameters, shape_of(domain)
    checked_slope(shape, p.lipschitz)
    checked_transform(p.transform, shape, checked_counts(shape, p.resolution))
    setting = _Setting(shape, p.lipschitz, p.horizon, p.transform)
    return setting.total(p.resolution, p.sum_method, p.noise_scale, p.enforce)


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


def _candidate_nets(shape: NetShape, transform: str) -> list[tuple[int, ...]]:
    """Return the numbers of points an axis to compare: sizes of small prime factors.

    Two axes get nearly equal spacings, since the largest one decides how far the nearest point is.
    """
    if not shape.sides:
        return [()]
    if transform == "parent":
        levels = 16 if len(shape.sides) == 1 else 8
        return [(2**k + 1,) * len(shape.sides) for k in range(levels + 1)]
    if len(shape.sides) == 1:
        return [(n,) for n in _smooth(_LARGEST_LINE)]
    long = 0 if shape.sides[0] >= shape.sides[1] else 1
    sizes = _smooth(_LARGEST_SIDE)
    nets: list[tuple[int, ...]] = []
    for count in sizes:
        needed = shape.sides[1 - long] / shape.sides[long] * (count - 1) + 1.0
        other = next((n for n in sizes if n >= needed - 1e-9), _LARGEST_SIDE)
        nets.append((count, other) if long == 0 else (other, count))
    return nets


def _smooth(largest: int) -> list[int]:
    """Return 2^a, 3 2^a and 5 2^a up to `largest`, at least 2, increasing."""
    powers = [2**a for a in range(largest.bit_length())]
    return sorted({m * p for m in (1, 3, 5) for p in powers if 2 <= m * p <= largest})
