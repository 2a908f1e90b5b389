"""Guarantees of one kind of privacy, made by hand: subjects of tests."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dpoco._validation import LARGEST_HORIZON
from dpoco.accounting._certificate import loss_of
from dpoco.accounting._ledger_sums import Cost, FixedPlan
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.release import common_conditions
from dpoco.accounting.truncation import charged_gaussian_epsilon

BASE: dict[str, Any] = {"mechanism": "a test", "horizon": 3, "delta": 0.0, "calibration": "tight",
                        "reference": "none", "seeded": False}  # fmt: skip


def statement_of(
    *,
    mechanism: str,
    horizon: int | None,
    delta: float,
    calibration: str,
    reference: str,
    seeded: bool,
    pure: float | None = None,
    mu: float | None = None,
    profile: dict[str, Any] | None = None,
    truncation_mass: float = 0.0,
    sensitivity: float | None = None,
    sensitivity_norm: str = "",
    noise_scale: float = 0.0,
    column_norm: float | None = None,
    conditions: tuple[str, ...] = (),
    claimed: tuple[float, float] | None = None,
    sums: bool = False,
    numerics: str = "float",
) -> Guarantee:
    """Return the guarantee of one kind of privacy, stated at `delta`.

    Exactly one of `pure` (epsilon at delta = 0), `mu` (GDP) and `profile` says what holds for the
    ideal noise; `sums` says whether it is added to sums, and `numerics` in which arithmetic. With
    truncation mass, the tails are charged to delta. A pure guarantee without is stated at delta 0
    whatever `delta` is.
    """
    if pure is not None:
        profile = {"kind": "pure", "epsilon": pure}
    mass = truncation_mass
    if pure is not None and mass == 0.0:
        epsilon, delta = pure, 0.0
    elif mu is not None:
        epsilon = charged_gaussian_epsilon(mu, delta, mass)
    else:
        assert profile is not None
        epsilon = loss_of(None, None, profile, mass).epsilon(delta)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        change="replace",
        unit="one round",
        horizon=LARGEST_HORIZON if horizon is None else horizon,
        mechanism=mechanism,
        sensitivity=sensitivity,
        sensitivity_norm=sensitivity_norm,
        noise_scale=noise_scale,
        noise_multiplier=None if not mu else 1.0 / mu,
        column_norm=column_norm,
        calibration=calibration,
        certified=not seeded and math.isfinite(epsilon),
        claimed=claimed,
        reference=reference,
        conditions=conditions + common_conditions(mass, seeded, sums=sums, numerics=numerics),
        numerics=numerics,
        loss=loss_of(mu, None, profile, mass),
    )


def restated(one: Guarantee, **changes: Any) -> Guarantee:
    """Return a guarantee with other numbers: of its loss by the names of records, or fields."""
    changes = {"rho": None, **changes} if "mu" in changes else changes
    named = ("mu", "rho", "profile", "truncation_mass")
    numbers = {name: changes.pop(name, getattr(one, name)) for name in named}
    return replace(one, **changes, loss=loss_of(*numbers.values()))


def gaussian(mu: float, delta: float = 1e-6, **options: Any) -> Guarantee:
    """Return a guarantee of Gaussian noise."""
    return statement_of(**BASE | {"delta": delta} | options, mu=mu)


def pure(epsilon: float, **options: Any) -> Guarantee:
    """Return a purely private guarantee."""
    return statement_of(**BASE | options, pure=epsilon)


def bare(epsilon: float, delta: float) -> Guarantee:
    """Return a guarantee of which one point is known."""
    return replace(Guarantee.none(1), epsilon=epsilon, delta=delta, calibration="tight")


def fixed_plan_epsilon(costs: Iterable[Cost], delta: float) -> float:
    """Return the epsilon of charges that were all fixed in advance."""
    return functools.reduce(FixedPlan.plus, costs, FixedPlan()).epsilon(delta)
