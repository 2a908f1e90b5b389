"""The guarantee of either continuous learner, from its profile and costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dpoco._validation import real_float
from dpoco.accounting._coupling.profile import profile_delta, profile_epsilon
from dpoco.accounting._oco.parameters import _Stored
from dpoco.accounting.budget import Budget
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.oco_published import PublishedClaim
from dpoco.accounting.regret_bounds import RegretBound, stated_regret
from dpoco.accounting.release import common_conditions
from dpoco.accounting.truncation import charged_delta, charged_epsilon

# A published delta this many times the theorem's own says nothing; nor does one of 1.
_VACUOUS_FACTOR = 10.0


@dataclass(frozen=True)
class Accounted:
    """What a learner's module found out about its parameters.

    Attributes
    ----------
    mechanism, reference : str
        In words.
    profile : dict
        Composed profile of draws and bits, as `Guarantee.coupling` holds it.
    sensitivity : float
        Delta (loss/length).
    noise_scale : float
        sigma, or sqrt(lam/beta), which plays its part (loss/length).
    assumed : float
        Total variation assumed of Markov chains over the horizon; 0 of exact draws.
    claim : PublishedClaim or None
        Of the calibration's own theorem.
    paper_epsilon : float or None
        What the printed theorem gives for the same noise.
    regret : RegretBound
        Recomputed.
    expected_switches : float
        Recomputed.
    conditions : tuple of str
        The learner's own.
    details : dict
        The learner's own.
    """

    mechanism: str
    reference: str
    profile: dict[str, Any]
    sensitivity: float
    noise_scale: float
    assumed: float
    claim: PublishedClaim | None
    paper_epsilon: float | None
    regret: RegretBound
    expected_switches: float
    conditions: tuple[str, ...]
    details: dict[str, float | str | None]


def check_agreement(p: _Stored, problem: EuclideanProblem, fields: tuple[str, ...]) -> None:
    """Raise `ValueError` unless the parameters were made for this domain and loss."""
    for name in ("dimension", "lipschitz", "radius", "diameter", "unbounded", *fields):
        given, needed = getattr(p, name), getattr(problem, name)
        if not math.isclose(given, needed, rel_tol=1e-9):
            raise ValueError(
                f"parameters have {name} {given!r}, but domain and loss give {needed!r}"
            )


def target_delta(budget: Budget | float | None, horizon: int) -> float:
    """Return the delta to state epsilon at."""
    if budget is None:
        return 1.0 / (10.0 * horizon)
    delta = budget.delta if isinstance(budget, Budget) else real_float("budget", budget)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be strictly between 0 and 1; got {delta!r}")
    return delta


def build_guarantee(
    p: _Stored, problem: EuclideanProblem, found: Accounted, delta: float, seeded: bool
) -> Guarantee:
    """Return the guarantee."""
    rounds = p.horizon * problem.lipschitz
    stated = stated_regret(
        found.regret.total,
        rounds * problem.radius,
        math.inf if problem.unbounded else rounds * problem.diameter,
    )
    details = stated["details"]
    details |= {
        "coupling": p.coupling,
        "block": p.block,
        "forced_switch": p.forced_switch,
        "max_switches": p.max_switches,
        "expected_switches": found.expected_switches,
        **found.details,
        **{f"regret_{name}": value for name, value in found.regret.terms.items()},
    }
    if not p.private:
        nothing = Guarantee.none(p.horizon, found.mechanism)
        return replace(
            nothing,
            conditions=(*nothing.conditions, *found.conditions),
            reference=found.reference,
            **stated,
        )
    constant = p.max_switches == 0 or p.decisions == 0
    mass = 0.0 if constant else found.assumed
    profile = found.profile
    epsilon, mu = 0.0, None
    if not constant:
        details["factor_floor"] = profile["factor_floor"]
        details["later_bits"] = profile["later_bits"]
        details["later_bit_shift"] = profile["shift"]
        epsilon = charged_epsilon(
            lambda target: profile_epsilon(profile, target),
            lambda e: charged_delta(lambda x: profile_delta(profile, x), e, mass),
            delta,
            mass,
        )
        if profile["kind"] == "gaussian" and profile["forced_switch"] == 1.0:
            mu = profile["mu"]
    # Neither a chain's distance from its law nor a user's constants can be checked.
    trusted = found.assumed == 0.0 and problem.enforced and p.calibration != "paper"
    return Guarantee(
        epsilon=epsilon,
        delta=0.0 if constant else delta,
        change=p.relation,
        unit="one round",
        horizon=p.horizon,
        mechanism=found.mechanism,
        sensitivity=found.sensitivity,
        sensitivity_norm="l2",
        mu=mu,
        rho=None if mu is None else 0.5 * mu * mu,
        noise_scale=found.noise_scale,
        noise_multiplier=None if mu is None else 1.0 / mu,
        column_norm=None,
        calibration=p.calibration,
        certified=(trusted or constant) and not seeded and math.isfinite(epsilon),
        claimed=None if found.claim is None else (found.claim.epsilon, found.claim.delta),
        paper_epsilon=None if constant else found.paper_epsilon,
        reference=found.reference,
        conditions=_conditions(p, problem, found, delta, constant, seeded),
        truncation_mass=mass,
        profile=None if constant else profile,
        numerics="float",
        **stated,
    )


def _conditions(
    p: _Stored, problem: EuclideanProblem, found: Accounted, delta: float,
    constant: bool, seeded: bool,
) -> tuple[str, ...]:  # fmt: skip
    own: list[str] = []
    if constant:
        own.append(
            "no switch is allowed: nothing released depends on data"
            + (
                "; at this budget and horizon no noise beats the constant decision"
                if p.block == p.horizon and p.horizon > 1
                else ""
            )
        )
    if p.calibration == "paper":
        own.append("calibration 'paper': its claim is as printed, not certified")
        if found.claim is not None and not found.claim.delta < min(1.0, _VACUOUS_FACTOR * delta):
            own.append(f"the printed claim is vacuous: its total delta is {found.claim.delta:.3g}")
    return (
        *own,
        bounds_condition(problem),
        *found.conditions,
        *common_conditions(0.0, seeded)[:-1],
        "all variates have their full tails, and coins exactly their probabilities; that draws and "
        "probabilities are computed in double precision is not covered",
    )


def bounds_condition(problem: EuclideanProblem) -> str:
    """Say whether G and beta_s are enforced or believed."""
    bounds = f"G = {problem.lipschitz:.6g}"
    if problem.smoothness > 0.0:
        bounds += f", beta_s = {problem.smoothness:.6g}"
    if problem.enforced:
        return f"the bounds ({bounds}, l2) hold whatever the data: records are scaled into them"
    return f"ASSUMED: every loss is convex and obeys the declared bounds ({bounds}, l2), unverified"


def regret_condition(p: _Stored) -> str:
    """Say which streams the regret bound is for."""
    text = "the regret bound is for streams fixed in advance (oblivious), in expectation"
    if p.unbounded:
        text += ", against the best point of the domain; decisions range over R^d"
    return text
