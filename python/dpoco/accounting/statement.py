"""From a mechanism's loss to the guarantee that states it, for all learners in one place.

Claim of `delayed`: if which feedback arrives, when and in which order is the same on neighbouring
streams, given equal releases so far, then everything released is as private as without delay, for
replacing one record where it arrives. Source: post-processing, and every learner's own proof, which
covers records that react to all releases before them. Proof: ``docs/privacy/delayed_feedback.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpoco._validation import LARGEST_HORIZON, positive_float, positive_int
from dpoco.accounting._meaning import records_in_interval, units
from dpoco.accounting._words import PROMISED, REGRET_SCOPES
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.regret_bounds import UNPROVED, stated_regret, without_regret
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import Least, least, with_tails
from dpoco.privacy.losses.decaying import Decaying
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss, Pure, Zcdp
from dpoco.privacy.mechanisms.base import Declared, Mechanism, Parts
from dpoco.privacy.mechanisms.participation import most_rounds
from dpoco.privacy.neighbours import Neighbours

__all__ = ["check_claim", "check_experts", "composed", "declared", "delayed", "expert_guarantee",
           "expert_mechanism", "for_person", "promised", "state", "stated_delta"]  # fmt: skip

CLIPPED_LOSSES = "The program clips losses to their declared range."
_LATE = "no bound is proved, because the proofs are for feedback that comes at once"


def stated_delta(budget: Budget | float | None, horizon: int | None) -> float:
    """Return the delta to state epsilon at: the budget's, or 1 / (10 horizon)."""
    if isinstance(budget, Budget):
        return budget.delta
    rounds = LARGEST_HORIZON if horizon is None else horizon
    return 1.0 / (10.0 * rounds) if budget is None else float(budget)


def state(
    mechanism: Mechanism,
    near: Neighbours,
    *,
    released: str,
    horizon: int | None,
    delta: float,
    reference: str,
    seeded: bool,
    conditions: tuple[str, ...] = (),
    unit: str = "",
    **said: Any,
) -> Guarantee:
    """Return the guarantee of everything that `mechanism` releases, stated at `delta`.

    Epsilon, mu, rho, profile and tails come from ``mechanism.loss(near)`` and nothing else. What
    is purely private is stated at delta 0 where `delta` buys no more than the curve of that.

    Parameters
    ----------
    mechanism, near
        What is enforced and drawn, and for which neighbours.
    released : str
        What is released, in words.
    horizon : int or None
        Rounds covered; None is an endless stream.
    conditions : tuple of str
        Further ones than those that follow from the description.
    unit : str
        Where the description allows several.
    **said
        Fields of the guarantee that only people read.
    """
    rounds = LARGEST_HORIZON if horizon is None else int(horizon)
    loss = mechanism.loss(near)
    if loss is None:
        none = Guarantee.none(rounds, released, unit=unit or _unit(mechanism, near))
        forecast = {name: said[name] for name in ("regret_bound", "details") if name in said}
        return replace(none, **forecast)
    bounds = loss.bare.bounds
    others = [one for one in bounds if not isinstance(one, Pure)]
    pure = len(others) < len(bounds) and loss.mass == 0.0
    if pure and all(one.epsilon(delta) >= loss.pure for one in others):
        delta = 0.0
    return Guarantee(
        **_at(loss, delta),
        change=near.change,
        view=near.view,
        unit=unit,
        horizon=rounds,
        mechanism=released,
        reference=reference,
        conditions=conditions,
        seeded=seeded,
        description=mechanism,
        **said,
    )


def _at(loss: Loss, delta: float) -> dict[str, Any]:
    """Return the fields of a guarantee that a loss decides, stated at `delta`."""
    epsilon = loss.epsilon(delta)
    own = _stated(loss.bare, epsilon, delta)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "loss": with_tails(least(*own), loss.mass),
    }


def _stated(ideal: Loss, epsilon: float, delta: float) -> tuple[Loss, ...]:
    """Return what a guarantee at this point states of an ideal loss: at most one number and more.

    Of several curves the one that says most there; mu only where it says as much; rho of
    selections that shrink, and beside a pure loss that is not all.
    """
    curves = [one for one in ideal.bounds if not isinstance(one, (Gaussian, Zcdp))]
    at = epsilon if math.isfinite(epsilon) else 0.0
    rest = tuple(sorted(curves, key=lambda one: one.delta(at))[:1])
    if 0.0 < ideal.mu < math.inf and math.isfinite(epsilon):
        bell = Gaussian(ideal.mu)
        if not rest or bell.delta(epsilon) <= ideal.delta(epsilon) * (1.0 + 1e-9):
            return (bell, *rest)
    said = isinstance(ideal, Decaying) or (isinstance(ideal, Least) and delta > 0.0)
    if said and 0.0 < ideal.rho < math.inf:
        return (Zcdp(ideal.rho), *rest)
    return rest or ideal.bounds


def promised(clause: str) -> str:
    """Return the condition that somebody keeps what nothing enforces."""
    return f"{PROMISED}{clause}."


def for_person(
    guarantee: Guarantee, rounds: int | None, separation: int = 1, *, once: bool = False
) -> Guarantee:
    """Return what a guarantee says of all rounds of one person: see `Guarantee.for_person`.

    A person who can come once only is one round, unless `once` asks for a statement about her: with
    a limiter all that she brings is protected, and not the round that counted.
    """
    g, apart = guarantee, positive_int("separation", separation)
    asked = 2**62 if rounds is None else positive_int("rounds", rounds)
    # Of one stream, whose rounds are counted.
    stream = g.unit in ("one round", "one user's record") or records_in_interval(g.description)
    if rounds is None and (apart == 1 or not stream):
        raise ValueError("rounds may be None for a stream and a separation above 1 only")
    if not (stream or g.person):
        apart = 1  # where records lie in a data set is data
    most = most_rounds(asked, apart, g.horizon) if stream or g.person else asked
    if not g.private or (most == 1 and not once):
        return g
    if g.person is not None:
        if most > g.person[0] or apart < g.person[1]:
            raise ValueError("the guarantee is for people who come less often")
        return g
    if g.description is None or not (stream or g.unit in ("one record", "one report")):
        raise ValueError(
            "the guarantee is not about one mechanism and single records: call this for its parts"
        )
    near = Neighbours(g.change, g.view, most, apart)
    loss = g.description.loss(near)
    assert loss is not None  # it is private
    pure = g.delta == 0.0 and loss.pure < math.inf
    delta = 0.0 if pure else g.delta or 1.0 / (10.0 * g.horizon)
    return replace(
        g,
        **_at(loss, delta),
        unit="one person",
        claimed=None,
        paper_epsilon=None,
        conditions=g.further,
        person=(most, apart),
    )


def _unit(mechanism: Mechanism, near: Neighbours) -> str:
    return (*units(mechanism, near.view, None), "one round")[0]


def declared(
    sensitivity: float,
    noise_scale: float,
    horizon: int,
    releases: int,
    delta: float,
    *,
    change: str,
    conditions: tuple[str, ...],
    **said: Any,
) -> Guarantee:
    """Return `Guarantee.gaussian`; with `delta` 0 `pure_epsilon`, sensitivity over scale."""
    gaussian, count = delta > 0.0, positive_int("releases", releases)
    moved = positive_float("sensitivity" if gaussian else "epsilon", sensitivity)
    scale, column = positive_float("noise_scale", noise_scale), math.sqrt(count)
    mechanism = Declared(change, gaussian, moved * (column if gaussian else count), scale)
    page = "gaussian" if gaussian else "pure"
    return state(
        mechanism,
        Neighbours(change),
        horizon=positive_int("horizon", horizon),
        delta=delta,
        reference=f"declared by the caller; docs/privacy/{page}.md, docs/privacy/composition.md",
        seeded=False,
        conditions=conditions,
        **said,
    )


def composed(parts: tuple[Guarantee, ...], delta: float | None) -> Guarantee:
    """Return `Guarantee.composed`."""
    described = tuple(g.description for g in parts if g.description is not None and g.private)
    if not parts or len(described) < len(parts):
        raise ValueError("parts must be private mechanisms, each with its description")
    if len({(g.neighbours, g.unit) for g in parts}) > 1:
        raise ValueError("the parts have guarantees for different changes, views, units or people")
    return state(
        Parts("together", described),
        parts[0].neighbours,
        released="; and ".join(dict.fromkeys(g.mechanism for g in parts)),
        horizon=max(g.horizon for g in parts),
        delta=max(g.delta for g in parts) if delta is None else delta,
        reference="composition; docs/privacy/composition.md, Theorem 1; and of the parts: "
        + "; ".join(dict.fromkeys(g.reference for g in parts)),
        seeded=any(g.seeded for g in parts),
        unit=parts[0].unit,
        person=parts[0].person,
        conditions=tuple(dict.fromkeys(text for g in parts for text in g.further)),
    )


def check_experts(experts: int, parameters: Any) -> None:
    """Raise `ValueError` unless the parameters are for this number of experts."""
    if experts != parameters.experts:
        raise ValueError(f"parameters are for {parameters.experts} experts; got {experts}")


def expert_mechanism(experts: int, parameters: Any) -> Mechanism:
    """Return what the parameters of a learner of experts describe: how losses reach decisions.

    Raises
    ------
    ValueError
        If the parameters are for another number of experts.
    """
    check_experts(experts, parameters)
    found: Mechanism = parameters.mechanism()
    return found


def expert_guarantee(
    experts: int,
    parameters: Any,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters of a learner of experts guarantee, for losses in [0, 1].

    It is computed from the mechanism that the parameters describe.

    Parameters
    ----------
    experts : int
        N, as the learner has it.
    parameters : Parameters
        Calibrated or the user's own; sensitivity, mu and regret are not trusted. Their ``stated``
        says the rest: among others the proved ``regret_bound``, None if nothing is (uniform draws
        have regret at most T (1 - 1/N), and nothing has more than T), and the ``regret_scope`` of
        `REGRET_SCOPES` that it holds for, or None.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta; pure privacy is stated at 0 whatever it
        is); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters are for another number of experts.
    """
    p, mechanism = parameters, expert_mechanism(experts, parameters)
    said: dict[str, Any] = {
        "conditions": (CLIPPED_LOSSES,),
        "delta": stated_delta(budget, p.horizon),
        **p.stated(mechanism),
    }
    rows: dict[str, float | str | None] = {}
    if said["regret_scope"] is not None:
        rows["regret bound holds for"] = REGRET_SCOPES[said["regret_scope"]]
    if said["regret_bound"] is not None and p.horizon is not None and p.private:
        still = p.horizon * (1.0 - 1.0 / p.experts)
        stated = stated_regret(said["regret_bound"], still, float(p.horizon))
        said["regret_bound"] = stated["regret_bound"]
        rows |= stated["details"]
    said["details"] = {**rows, **said["details"]}
    del said["regret_scope"]
    return state(
        mechanism,
        Neighbours(),
        horizon=p.horizon,
        calibration=p.calibration,
        seeded=seeded,
        **said,
    )


def delayed(immediate: Guarantee, seen: str = "released decisions") -> Guarantee:
    """Return what holds once decisions wait for their feedback.

    Parameters
    ----------
    immediate : Guarantee
        What holds if every decision is followed by its feedback.
    seen : str
        What arrivals may depend on, of all that depends on the data, in words.

    Returns
    -------
    Guarantee
        The same privacy under one more condition; without a bound on regret, which is proved for
        feedback that comes at once.
    """
    late = (
        "Feedback is delayed: a record counts in the round in which its feedback arrives, and "
        "which feedback arrives, when and in which order depends on the data through "
        f"{seen} only."
    )
    details = without_regret(immediate.details)
    if immediate.regret_bound is not None or UNPROVED in immediate.details:
        details[UNPROVED] = immediate.details.get(UNPROVED, _LATE)
    conditions = (*immediate.conditions, *((late,) if immediate.private else ()))
    return replace(immediate, conditions=conditions, regret_bound=None, details=details)


def check_claim(result: Guarantee) -> Guarantee:
    """Return a guarantee whose published claim, if any, is true; else raise `CalibrationError`.

    The slack covers the rounding of a composition's own epsilon, at a single release.
    """
    if result.claimed is not None:
        epsilon, delta = result.claimed
        exact = result.delta_at(epsilon)
        if not exact <= delta * (1.0 + 1e-9):
            raise CalibrationError(
                f"the published claim (epsilon = {epsilon:.6g}, delta = {delta:.3g}) is false "
                f"for this noise: exact delta {exact:.3g}"
            )
    return result
