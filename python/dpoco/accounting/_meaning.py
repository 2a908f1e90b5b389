"""What a description means for a reader: unit, arithmetic, promises, numbers of noise, conditions.

A guarantee takes all of these from its description, its neighbours and its set-up, both when it is
made and when it is read from a file. A record can repeat them, and is refused if they differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from dpoco.accounting import conditions as say
from dpoco.privacy.losses.loss import Pure
from dpoco.privacy.mechanisms.base import Declared, Mechanism, Nothing, Open, Parts
from dpoco.privacy.mechanisms.batch_release import BatchRelease, movement
from dpoco.privacy.mechanisms.bounds import ClippedVectors, IntervalTotals
from dpoco.privacy.mechanisms.coupled_draws import CoupledDraws, GibbsDraw
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.local_report import LocalReport
from dpoco.privacy.mechanisms.nets import NetDifferences
from dpoco.privacy.mechanisms.selections import (
    LossSums,
    PromisedScores,
    Selections,
    ThresholdTests,
    VertexScores,
)
from dpoco.privacy.neighbours import Neighbours

__all__ = ["UNITS", "Numbers", "arithmetic", "conditions", "numbers", "promises",
           "units"]  # fmt: skip

UNITS = ("one round", "one record", "one user's record", "one report")


def norm_name(q: float) -> str:
    """Return "l2", "l3", "linf", ..."""
    return "linf" if q == math.inf else f"l{q:g}"


class Numbers(NamedTuple):
    """Numbers of the noise, as of `Guarantee`."""

    sensitivity: float | None = None
    sensitivity_norm: str = ""
    noise_scale: float = 0.0
    column_norm: float | None = None


def _single(mechanism: Mechanism, enforced: bool = False) -> Iterator[tuple[Mechanism, bool]]:
    """Yield each mechanism that is not made of parts, and whether a learner holds its queries."""
    if not isinstance(mechanism, Parts):
        yield mechanism, enforced
        return
    for part in dict.fromkeys(mechanism.parts):
        yield from _single(part, enforced or mechanism.lemma == "shift_detector")


def units(mechanism: Mechanism, view: str, person: tuple[int, int] | None) -> tuple[str, ...]:
    """Return what one change of the data can concern; () where only the issuer knows.

    Raises
    ------
    ValueError
        If the parts of a mechanism are about different things.
    """
    if person is not None:
        return ("one person",)
    known = [
        own for one, enforced in _single(mechanism) if (own := _own_units(one, enforced, view))
    ]
    if not known:
        return ()
    found = tuple(unit for unit in known[0] if all(unit in own for own in known))
    if not found:
        raise ValueError("the parts are about different units")
    return found


def _own_units(one: Mechanism, enforced: bool, view: str) -> tuple[str, ...]:
    if isinstance(one, Declared):
        return ()
    if isinstance(one, (Nothing, Open)):
        return UNITS
    if isinstance(one, LocalReport):
        return ("one report" if one.reports == 1 else f"{one.reports} reports of one user",)
    if view == "others":
        return ("one user's record",)
    promised = isinstance(one, Selections) and isinstance(one.scores, PromisedScores)
    if promised or (isinstance(one, ThresholdTests) and not enforced):
        return ("one record",)
    if records_in_interval(one) is not None:
        return ("one record",)
    # A sum that is released once is one of a data set, or of the rounds of a stream.
    once = isinstance(one, GaussianSum) and one.pushes <= 1
    return ("one round", "one record") if once else ("one round",)


def records_in_interval(mechanism: Mechanism | None) -> int | None:
    """Return how many records of one person count in an interval; None for other streams.

    An interval is a round whose records are many people's.
    """
    total = mechanism.summand if isinstance(mechanism, GaussianSum) else None
    return total.records if isinstance(total, ClippedVectors | IntervalTotals) else None


def arithmetic(mechanism: Mechanism) -> str | None:
    """Return "lattice" if everything that is released is exact, else "float".

    None where there is nothing to say: of reports, whose laws are integers, and of no release.
    """
    found = {_own_arithmetic(one) for one, _ in _single(mechanism)} - {None}
    return "float" if len(found) > 1 else next(iter(found), None)


def _own_arithmetic(one: Mechanism) -> str | None:
    if isinstance(one, (LocalReport, Nothing, Open)):
        return None
    return "lattice" if getattr(one, "grid", 0.0) > 0.0 else "float"


@lru_cache(maxsize=256)
def promises(mechanism: Mechanism) -> tuple[str, ...]:
    """Return what a guarantee rests on and no engine enforces, one clause each."""
    found = (_own_promises(one, enforced) for one, enforced in _single(mechanism))
    known = tuple(dict.fromkeys(clause for clauses in found for clause in clauses))
    return known or ((say.SOME_BOUND,) if mechanism.promised else ())


def _own_promises(one: Mechanism, enforced: bool) -> tuple[str, ...]:
    if isinstance(one, Declared):
        return say.DECLARED_BOUND, say.DECLARED_NOISE
    if isinstance(one, Selections) and isinstance(one.scores, PromisedScores):
        way = say.ONE_WAY if one.scores.one_way else ""
        return (say.SCORES.format(sensitivity=one.scores.sensitivity, way=way),)
    if isinstance(one, ThresholdTests) and not enforced:
        return (say.QUERIES.format(sensitivity=one.sensitivity, spread=one.spread),)
    if isinstance(one, GaussianSum) and isinstance(one.summand, ClippedVectors):
        return (say.VECTORS.format(count=one.summand.count, bound=one.summand.bound),)
    if isinstance(one, GaussianSum) and not one.summand.enforced:
        slope = one.summand.lipschitz if isinstance(one.summand, NetDifferences) else math.nan
        return (say.LIPSCHITZ.format(slope=slope),)
    return _draw_promises(one) if isinstance(one, CoupledDraws) else ()


def _draw_promises(one: CoupledDraws) -> tuple[str, ...]:
    losses, draw, found = one.losses, one.draw, list[str]()
    if not losses.enforced:
        smoothness = losses.smoothness
        smooth = say.SMOOTH.format(smoothness=smoothness) if smoothness > 0.0 else ""
        found.append(say.CONVEX.format(lipschitz=losses.lipschitz, smooth=smooth))
    if isinstance(draw, GibbsDraw) and draw.tolerance > 0.0:
        found.append(say.CHAIN.format(tolerance=draw.tolerance))
    return tuple(found)


# -- numbers of the noise --------------------------------------------------------------------------


@lru_cache(maxsize=256)
def numbers(mechanism: Mechanism, near: Neighbours) -> Numbers:
    """Return the numbers of the noise; of several unlike mechanisms there are none."""
    if isinstance(mechanism, Parts):
        one = next(_single(mechanism))[0]
        if len(set(mechanism.parts)) > 1:
            return Numbers()
        arms = mechanism.how == "one_of" and near.rounds > 1
        found = numbers(one, Neighbours(near.change, near.view) if arms else near)
        if arms and isinstance(one, GaussianSum) and found.sensitivity and one.scale > 0.0:
            loss = mechanism.loss(near)
            mu = math.inf if loss is None else loss.bare.mu
            moved = one.summand.inflation(one.order) * found.sensitivity
            found = found._replace(column_norm=mu * one.scale / moved)
        return found
    if isinstance(mechanism, GaussianSum):
        own, order = mechanism, mechanism.order
        norm = "l2" if order == 2.0 else norm_name(own.summand.norm)
        return Numbers(own.summand.movement(near, order), norm, own.scale, own.column(near))
    return _own_numbers(mechanism, near)


def _own_numbers(one: Mechanism, near: Neighbours) -> Numbers:
    if isinstance(one, Selections):
        scores = one.scores
        if isinstance(scores, VertexScores):
            return Numbers(near.sides * scores.slope * scores.leaf, "linf", one.scale)
        moved = scores.width if isinstance(scores, LossSums) else scores.sensitivity
        return Numbers(moved, "linf", one.scale)
    if isinstance(one, ThresholdTests):
        return Numbers(one.sensitivity, "linf", one.query_scale)
    if isinstance(one, BatchRelease):
        norm = {"gaussian": "l2", "laplace": "l1", "knorm": "linf"}.get(one.law, "")
        return Numbers(movement(one.law, one.experts) if norm else None, norm, one.scale)
    if isinstance(one, CoupledDraws):
        draw, moved = one.draw, near.sides * one.losses.lipschitz
        if isinstance(draw, GibbsDraw):
            scale = math.sqrt(draw.regularization / draw.inverse_temperature)
            return Numbers(moved, "l2", scale)
        return Numbers(moved, "l2", draw.noise)
    if isinstance(one, Declared) and one.l2:
        return Numbers(one.sensitivity, "l2", one.scale)
    return Numbers()


# -- conditions ------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def conditions(
    mechanism: Mechanism, near: Neighbours, *, person: bool, seeded: bool, mass: float
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the conditions that follow, as printed before and behind those of the issuer.

    Without any of them the guarantee does not hold.

    Parameters
    ----------
    mechanism, near
        The description, and for which neighbours.
    person : bool
        Whether the guarantee is for all rounds of a person.
    seeded : bool
        Whether the noise is reproducible.
    mass : float
        Total variation of truncated tails.
    """
    singles = [one for one, _ in _single(mechanism)]
    several = isinstance(mechanism, Parts) and not mechanism.lemma and len(singles) > 1
    first = (*map(say.promise, promises(mechanism)), *((say.FIXED_PARTS,) if several else ()))
    reports = [one.reports for one in singles if isinstance(one, LocalReport)]
    if reports:
        count = "one report" if max(reports) == 1 else f"{max(reports)} reports"
        noise = say.SIMULATED if seeded else say.DEVICE_NOISE
        return first, (*(text.format(count=count) for text in say.DEVICE), noise)
    once = all(isinstance(one, GaussianSum) and one.pushes <= 1 for one in singles)
    alone = () if person else (say.FIT_ALONE,)
    return (*(_person_conditions(mechanism, near) if person else ()), *first), (
        *(() if person else (say.PER_ROUND,)),
        *(say.JOINT if near.view == "others" else ()),
        say.PUBLIC[near.change],
        *((*say.FIT_FIXED, *alone, *say.FIT_ONCE) if once else ()),
        *say.STREAM,
        *say.noise_conditions(mass, seeded, _arithmetic_kind(mechanism, singles)),
    )


def _arithmetic_kind(mechanism: Mechanism, singles: list[Mechanism]) -> str:
    """Return the kind of the arithmetic, as `ARITHMETIC` of the conditions names it."""
    if all(isinstance(one, CoupledDraws) for one in singles):
        return "draws"
    if arithmetic(mechanism) == "lattice":
        return "lattice"
    return "sums" if any(isinstance(x, (GaussianSum, BatchRelease)) for x in singles) else "float"


def _person_conditions(mechanism: Mechanism, near: Neighbours) -> tuple[str, ...]:
    most, apart = near.rounds, near.separation
    records = records_in_interval(mechanism)
    one, many = ("one round", "rounds") if records is None else ("one interval", "intervals")
    often = one if most == 1 else f"{most} {many}"
    often += f", any two at least {apart} apart" if most > 1 and apart > 1 else ""
    if records is not None:
        often = f"{records} record{'s' * (records > 1)} in each of at most {often}"
    reacts = _reacts(mechanism, near)
    return (
        f"{say.EACH_PERSON} at most {often}.",
        say.RULE,
        say.TIMES_REACT if reacts else say.TIMES_FIXED,
        *((say.TIMES_UNSEEN,) if reacts and near.view == "others" else ()),
        *say.ONE_NAME,
    )


def _reacts(mechanism: Mechanism, near: Neighbours) -> bool:
    """Whether times of a person's rounds may react to releases.

    Where a proof says so, and by Theorem 4 of pools, of one key, for fresh noise and pure losses.
    """
    if mechanism.reacting:
        return True
    if isinstance(mechanism, Parts) and mechanism.how == "instances":
        return mechanism.parts[0].noise == "fresh"
    loss = mechanism.loss(near)
    return loss is not None and isinstance(loss.bare, Pure)
