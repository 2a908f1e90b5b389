"""What the two continuous learners share: checks of arguments, mechanism and guarantee.

Proofs: ``docs/privacy/couplings.md`` and the learners' own pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpoco._validation import choice, positive_int, real_float
from dpoco.accounting._coupled_parameters import CALIBRATIONS, CoupledParameters
from dpoco.accounting.budget import Budget
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.published import PublishedClaim
from dpoco.accounting.regret_bounds import RegretBound, stated_regret
from dpoco.accounting.statement import state, stated_delta
from dpoco.privacy.losses.combined import Tailed
from dpoco.privacy.losses.coupled_bits import Bits
from dpoco.privacy.mechanisms.coupled_draws import (
    Always,
    Anchored,
    CoupledDraws,
    Dartboard,
    GibbsDraw,
    Maximal,
    SmoothLosses,
    TiltedMinimum,
    Window,
)
from dpoco.privacy.neighbours import CHANGES, Neighbours

# A published delta this many times the theorem's own says nothing; nor does one of 1.
_VACUOUS_FACTOR = 10.0
_LARGEST_PLAN = 10**12


def check_arguments(
    *,
    horizon: int,
    budget: Budget | None,
    calibration: str,
    coupling: str,
    couplings: Sequence[str],
    block: int | None,
    relation: str,
    max_switches: float | None,
) -> float | None:
    """Validate the arguments; return `max_switches` as a float."""
    positive_int("horizon", horizon, maximum=_LARGEST_PLAN)
    choice("calibration", calibration, CALIBRATIONS)
    choice("relation", relation, CHANGES)
    choice("coupling", coupling, ("auto", *couplings))
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget or None; got {type(budget).__name__}")
    if block is not None:
        positive_int("block", block, maximum=horizon)
    if max_switches is None:
        if budget is None and calibration != "tight":
            raise ValueError(
                f"calibration {calibration!r} without a budget needs max_switches: the papers "
                "have parameters for privacy and for few switches only"
            )
        return None
    if budget is not None:
        raise ValueError("max_switches is for lazy learning without privacy: budget must be None")
    limit = real_float("max_switches", max_switches)
    if not limit > 0.0:
        raise ValueError(f"max_switches must be positive; got {limit!r}")
    return limit


def admissible(coupling: str, allowed: Sequence[str], why: str) -> tuple[str, ...]:
    """Return the couplings to try; raise if the one asked for does not fit the problem."""
    if coupling == "auto":
        return tuple(allowed)
    if coupling not in allowed:
        raise ValueError(f"coupling {coupling!r} does not fit {why}; one of {sorted(allowed)}")
    return (coupling,)


def require_global_bounds(problem: EuclideanProblem) -> None:
    """Raise for private learning over R^d with losses whose bounds hold on the domain only."""
    if problem.unbounded and problem.family in ("quadratic", "custom"):
        raise ValueError(
            f"{problem.family} losses are not known to be Lipschitz on R^d: unbounded=True is not "
            "private"
        )


def baseline_block(coupling: str, block: int | None) -> int:
    """Return the block of the learner without privacy that draws afresh after every block."""
    if coupling not in ("auto", "scheduled"):
        raise ValueError(
            f"coupling {coupling!r} without a budget needs max_switches; "
            "the baseline is 'scheduled'"
        )
    return 1 if block is None else block


def check_agreement(
    p: CoupledParameters, problem: EuclideanProblem, fields: tuple[str, ...] = ()
) -> None:
    """Raise `ValueError` unless the parameters were made for this domain and loss."""
    for name in ("dimension", "lipschitz", "radius", "diameter", "unbounded", *fields):
        given, needed = getattr(p, name), getattr(problem, name)
        if not math.isclose(given, needed, rel_tol=1e-9):
            raise ValueError(
                f"parameters have {name} {given!r}, but domain and loss give {needed!r}"
            )
    if p.private:
        require_global_bounds(problem)
    if p.coupling == "maximal" and p.block != 1:
        raise ValueError("coupling 'maximal' has block 1")


def coupled_draws(
    p: CoupledParameters,
    problem: EuclideanProblem,
    draw: TiltedMinimum | GibbsDraw,
    *,
    smoothness: float,
    factor_range: float = 0.0,
) -> CoupledDraws:
    """Return what the engine of the parameters enforces and draws."""
    keep: Always | Window | Dartboard | Anchored | Maximal = Always()
    if p.coupling == "maximal":
        keep = Maximal(p.forced_switch)
    elif p.coupling == "dartboard":
        keep = Dartboard(p.forced_switch, factor_range)
    elif p.coupling == "anchored":
        keep = Anchored(p.forced_switch, p.clip_high)
    elif p.coupling == "density_ratio":
        keep = Window(p.forced_switch, p.clip_high, p.clip_low)
    curved = smoothness > 0.0
    rank = problem.dimension if smoothness == math.inf else min(problem.rank, problem.dimension)
    quadratic = problem.unbounded and problem.family == "quadratic"  # with a slope that grows
    losses = SmoothLosses(
        problem.dimension,
        problem.lipschitz,
        smoothness,
        rank if curved else 0,
        enforced=problem.enforced and not quadratic,
    )
    return CoupledDraws(losses, draw, keep, p.horizon, p.block, p.max_switches)


@dataclass(frozen=True)
class Costs:
    """What a learner's module found out about its parameters, besides the mechanism.

    Attributes
    ----------
    released, reference : str
        In words.
    noise_scale : float
        sigma, or sqrt(lam/beta), which plays its part (loss/length).
    claim : callable
        corrected -> what the published theorem says of these parameters, at a delta.
    regret : RegretBound
        Recomputed.
    expected_switches : float
        Recomputed.
    conditions : tuple of str
        The learner's own.
    details : dict
        The learner's own.
    """

    released: str
    reference: str
    noise_scale: float
    claim: Callable[[float, bool], PublishedClaim]
    regret: RegretBound
    expected_switches: float
    conditions: tuple[str, ...]
    details: dict[str, float | str | None]


def stated(
    p: CoupledParameters,
    problem: EuclideanProblem,
    mechanism: CoupledDraws,
    found: Costs,
    budget: Budget | float | None,
    seeded: bool,
) -> Guarantee:
    """Return the guarantee of parameters of which `mechanism` is drawn; `found` is text mostly."""
    delta, near = stated_delta(budget, p.horizon), Neighbours(p.relation)
    if not 0.0 < real_float("budget", delta) < 1.0:
        raise ValueError(f"delta must be strictly between 0 and 1; got {delta!r}")
    rounds = p.horizon * problem.lipschitz
    largest = math.inf if problem.unbounded else rounds * problem.diameter
    said = stated_regret(found.regret.total, rounds * problem.radius, largest)
    details = said.pop("details") | {
        "coupling": p.coupling,
        "block": p.block,
        "forced_switch": p.forced_switch,
        "max_switches": p.max_switches,
        "expected_switches": found.expected_switches,
        **found.details,
        **{f"regret_{name}": value for name, value in found.regret.terms.items()},
    }
    if not p.private:
        nothing = Guarantee.none(p.horizon, found.released)
        conditions = (*nothing.conditions, *found.conditions)
        stated = {**said, "details": details, "reference": found.reference}
        return replace(nothing, conditions=conditions, **stated)
    loss = mechanism.loss(near)
    bits = loss.ideal if isinstance(loss, Tailed) else loss
    claim = paper = None
    if p.relation == "replace" and p.decisions > 0:
        paper = found.claim(delta, False)
        if p.calibration != "tight":
            claim = paper if p.calibration == "paper" else found.claim(delta, True)
    constant = not isinstance(bits, Bits)
    if isinstance(bits, Bits):
        details["factor_floor"] = bits.factor_floor
        details["later_bits"] = bits.later_bits
        details["later_bit_shift"] = bits.shift
    # Neither a chain's distance from its law nor a user's constants can be checked.
    exact = not isinstance(mechanism.draw, GibbsDraw) or mechanism.draw.tolerance == 0.0
    trusted = exact and mechanism.losses.enforced and p.calibration != "paper"
    return state(
        mechanism,
        near,
        released=found.released,
        horizon=p.horizon,
        delta=delta,
        reference=found.reference,
        seeded=seeded,
        calibration=p.calibration,
        conditions=_conditions(p, problem, found, claim, delta, constant),
        arithmetic="all variates have their full tails, and coins exactly their probabilities; "
        "that draws and probabilities are computed in double precision is not covered",
        noise_scale=found.noise_scale,
        sensitivity=near.sides * problem.lipschitz,
        sensitivity_norm="l2",
        claimed=None if claim is None else (claim.epsilon, claim.delta),
        paper_epsilon=None if constant or paper is None else paper.epsilon,
        details=details,
        trusted=trusted or constant,
        **said,
    )


def _conditions(
    p: CoupledParameters, problem: EuclideanProblem, found: Costs, claim: PublishedClaim | None,
    delta: float, constant: bool,
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
        if claim is not None and not claim.delta < min(1.0, _VACUOUS_FACTOR * delta):
            own.append(f"the printed claim is vacuous: its total delta is {claim.delta:.3g}")
    return (*own, _bounds_condition(problem), *found.conditions)


def _bounds_condition(problem: EuclideanProblem) -> str:
    """Say whether G and beta_s are enforced or believed."""
    bounds = f"G = {problem.lipschitz:.6g}"
    if problem.smoothness > 0.0:
        bounds += f", beta_s = {problem.smoothness:.6g}"
    if problem.enforced:
        return f"the bounds ({bounds}, l2) hold whatever the data: records are scaled into them"
    return f"ASSUMED: every loss is convex and obeys the declared bounds ({bounds}, l2), unverified"


def regret_condition(p: CoupledParameters) -> str:
    """Say which streams the regret bound is for."""
    text = "the regret bound is for streams fixed in advance (oblivious), in expectation"
    if p.unbounded:
        text += ", against the best point of the domain; decisions range over R^d"
    return text
