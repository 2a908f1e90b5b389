"""Guarantees made by hand, and of plans for tree Frank-Wolfe: subjects of tests."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tests.published import planned

from dpoco.accounting import Budget, tree_frank_wolfe
from dpoco.accounting._certificate import combine_numbers
from dpoco.accounting.conditions import noise_conditions
from dpoco.accounting.guarantee import Guarantee
from dpoco.domains import Domain
from dpoco.losses import CustomLoss, SquaredLoss

BUDGET = Budget(1.0, 1e-3)  # of the plans


def stated(
    *,
    pure: float | None = None,
    mu: float | None = None,
    profile: dict[str, Any] | None = None,
    truncation_mass: float = 0.0,
    delta: float = 1e-6,
    horizon: int = 1,
    seeded: bool = False,
) -> Guarantee:
    """Return the guarantee of one kind of privacy, stated at `delta`.

    Exactly one of `pure` (epsilon at delta = 0), `mu` (GDP) and `profile` says what holds for the
    ideal noise. With truncation mass, the tails are charged to delta. A pure guarantee without is
    stated at delta 0 whatever `delta` is.
    """
    if pure is not None:
        profile = {"kind": "pure", "epsilon": pure}
        delta = delta if truncation_mass > 0.0 else 0.0
    loss = combine_numbers(mu, None, profile, truncation_mass)
    epsilon = loss.epsilon(delta)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        change="replace",
        unit="one round",
        horizon=horizon,
        mechanism="a test",
        seeded=seeded,
        certified=not seeded and math.isfinite(epsilon),
        reference="none",
        conditions=noise_conditions(truncation_mass, seeded, "float"),
        numerics="float",
        loss=loss,
    )


def restated(one: Guarantee, **changes: Any) -> Guarantee:
    """Return a guarantee with other numbers: of its loss by the names of records, or fields."""
    changes = {"rho": None, **changes} if "mu" in changes else changes
    named = ("mu", "rho", "profile", "truncation_mass")
    numbers = {name: changes.pop(name, getattr(one, name)) for name in named}
    return replace(one, **changes, loss=combine_numbers(*numbers.values()))


def gaussian(mu: float, **options: Any) -> Guarantee:
    """Return a guarantee of Gaussian noise."""
    return stated(mu=mu, **options)


def pure(epsilon: float, **options: Any) -> Guarantee:
    """Return a purely private guarantee."""
    return stated(pure=epsilon, **options)


def bare(epsilon: float, delta: float) -> Guarantee:
    """Return a guarantee of which one point is known."""
    return replace(Guarantee.none(1), epsilon=epsilon, delta=delta, calibration="tight")


def squared(label: float = 1.0, l2: float | None = None) -> SquaredLoss:
    """Return a squared loss of features of norm 1."""
    return SquaredLoss(1.0, label, feature_bound_l2=l2)


def custom(
    lipschitz: float, smoothness: float, leaf: float | None = None, l2: float | None = None
) -> CustomLoss:
    """Return a custom loss with bounds on what its leaves hold."""
    return CustomLoss(lipschitz, smoothness, leaf_bound=leaf, leaf_bound_l2=l2)


def both(
    domain: Domain,
    loss: Any,
    budget: Budget | None = BUDGET,
    *,
    horizon: Any = 1000,
    **options: Any,
) -> tuple[tree_frank_wolfe.TreePlan, Guarantee]:
    """Return a plan of tree Frank-Wolfe, and what it guarantees."""
    options = {"horizon": horizon, "budget": budget, **options}
    plan = planned(tree_frank_wolfe, domain, loss, **options)
    relation = options.get("relation", "replace")
    return plan, tree_frank_wolfe.guarantee(domain, loss, plan, relation=relation, budget=budget)
