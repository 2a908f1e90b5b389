"""Guarantees of one kind of privacy, made by hand: subjects of tests."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dpoco.accounting._certificate import loss_of
from dpoco.accounting._ledger_sums import Cost, FixedPlan
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.release import common_conditions


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
    loss = loss_of(mu, None, profile, truncation_mass)
    epsilon = loss.epsilon(delta)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        change="replace",
        unit="one round",
        horizon=horizon,
        mechanism="a test",
        noise_multiplier=None if not mu else 1.0 / mu,
        certified=not seeded and math.isfinite(epsilon),
        reference="none",
        conditions=common_conditions(truncation_mass, seeded, sums=False),
        numerics="float",
        loss=loss,
    )


def restated(one: Guarantee, **changes: Any) -> Guarantee:
    """Return a guarantee with other numbers: of its loss by the names of records, or fields."""
    changes = {"rho": None, **changes} if "mu" in changes else changes
    named = ("mu", "rho", "profile", "truncation_mass")
    numbers = {name: changes.pop(name, getattr(one, name)) for name in named}
    return replace(one, **changes, loss=loss_of(*numbers.values()))


def gaussian(mu: float, **options: Any) -> Guarantee:
    """Return a guarantee of Gaussian noise."""
    return stated(mu=mu, **options)


def pure(epsilon: float, **options: Any) -> Guarantee:
    """Return a purely private guarantee."""
    return stated(pure=epsilon, **options)


def bare(epsilon: float, delta: float) -> Guarantee:
    """Return a guarantee of which one point is known."""
    return replace(Guarantee.none(1), epsilon=epsilon, delta=delta, calibration="tight")


def fixed_plan_epsilon(costs: Iterable[Cost], delta: float) -> float:
    """Return the epsilon of charges that were all fixed in advance."""
    return functools.reduce(FixedPlan.plus, costs, FixedPlan()).epsilon(delta)
