"""Conditions of guarantees, one sentence each, and other facts that follow from a description.

Lawyers read these sentences: actor, verb, object. A condition that no code enforces begins with a
word in capitals, and the statement without technical terms lists it among the operator's duties.
Records repeat conditions word for word, and a record that lacks one is refused. So changing a
sentence makes earlier certificates unreadable.

The unit, arithmetic, promises, noise parameters and conditions of a guarantee follow from its
description, its neighbours and its set-up, both when it is made and when it is read from a file. A
record can repeat them, and is refused if they differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

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

UNPROVED = "regret"  # name of the detail that says why no regret bound is proved
# Beginning of each condition that a verdict counts as a promise; `Terms.doubts` looks for it.
PROMISED = "PROMISED, not enforced: "

# -- promises, as clauses; their numbers are fields of the description ----------------------------

DECLARED_BOUND = (
    "no record moves a release by more than is stated, whatever the others are and whatever was "
    "released before"
)
DECLARED_NOISE = "every release has noise of the stated law and scale, drawn afresh"
SCORES = "one record changes each score by at most {sensitivity:g}"
ONE_WAY = ", all of them the same way"
QUERIES = (
    "one record changes each query by at most {sensitivity:g}, the largest rise and the largest "
    "fall adding up to at most {spread:g}"
)
VECTORS = (
    "every round adds up at most {count} vectors of l2 norm at most {bound:g}, of which one person "
    "brings one"
)
LIPSCHITZ = "every loss is {slope:g}-Lipschitz and finite"
CONVEX = "every loss is convex and obeys the declared bounds (G = {lipschitz:.6g}{smooth}, l2)"
SMOOTH = ", beta_s = {smoothness:.6g}"
CHAIN = "every Markov chain draw is within total variation {tolerance:.3g} of its law"
SOME_BOUND = "a bound or a law that no engine keeps"
LIMIT_KEPT = "the caller keeps each person to this limit"

# -- noise and arithmetic --------------------------------------------------------------------------

SECRET_KEY = "The operating system draws the noise key, which stays secret."
SEEDED = "SEEDED SOURCE: whoever knows the seed can subtract the noise; void outside tests."
TAILS = "Delta includes {mass:.2g} for noise that the computer cannot hold."
ARITHMETIC = {
    "lattice": "The program adds exact integers and exactly rounded noise, so that the proof "
    "covers its arithmetic, given ideal random bits and IEEE 754.",
    "sums": "The proof does not cover the rounding of double precision, which the program hides "
    "from known attacks by releasing sums on a coarse grid.",
    "float": "The proof does not cover the rounding of double precision.",
    "draws": "All variates have their full tails, and coins exactly their probabilities, but the "
    "proof does not cover that the program computes both in double precision.",
}

# -- rounds and releases ---------------------------------------------------------------------------

PER_ROUND = "Each round is protected by itself: several rounds of one person are protected less."
PUBLIC = {
    "zero_out": "The number of rounds and their times are public.",
    "replace": "That somebody takes part in a round, and when, is public: the content is "
    "protected.",
}
# Joint privacy protects against all others together; these conditions say what it leaves out.
JOINT = (
    "A user's record is the context and the rewards of all arms.",
    "All OTHER users, and everybody who sees the estimates, cannot tell this record from another.",
    "Nothing is hidden from whoever sees the user's own action or reward: a log of all actions is "
    "not covered.",
    "Other users' records do not depend on a user's own action and reward.",
)
STREAM = (
    "The operator fixed the bounds, the horizon and all parameters without looking at the data.",
    "The data may react to everything that was released before.",
    "If feedback is delayed, which feedback arrives, when and in which order depends on the data "
    "through released decisions only.",
    "The operator keeps saved states secret, and continues each of them on one stream only.",
    "The operator publishes released values only: traces, diagnostics, timing and memory are not "
    "covered.",
)
DELAYED = (
    "Feedback is delayed: a record counts in the round in which its feedback arrives, and which "
    "feedback arrives, when and in which order depends on the data through {seen} only."
)
FIXED_PARTS = "The operator fixed all parts in advance, and chose none in reaction to releases."
NO_NOISE = "The program adds no noise: {released} may reveal the data."
CLIPPED_LOSSES = "The program clips losses to their declared range."
FIT_FIXED = (
    "The operator fixed the bounds and all parameters without looking at the data.",
    "The number of records is public, like the bounds and all parameters.",
)
FIT_ALONE = "Each record is protected by itself: several records of one person are protected less."
FIT_ONCE = (
    "The operator fits the model once: another fit to the same data needs a budget.",
    "The operator publishes the fitted model only: timing, memory and interrupted fits are not "
    "covered.",
)

# -- people ----------------------------------------------------------------------------------------

EACH_PERSON, TIMES = "Each person contributes", "The times of a person's rounds"
RULE = "The limit is a fixed rule, not a count taken from the data."
TIMES_REACT = f"{TIMES} may depend on releases, but not on that person's data."
TIMES_FIXED = f"{TIMES} were fixed in advance."
TIMES_UNSEEN = f"{TIMES} do not depend on what only that person saw."
ONE_NAME = (
    "Each person comes under one name only: two accounts of a person count as two people.",
    "No two people share a name.",
)
REFUSED_PEOPLE = (
    "The program refuses people beyond the first {most}, which the guarantee does not cover."
)

# -- reports of devices ----------------------------------------------------------------------------

DEVICE = (
    "Each user's device counts its reports, and sends at most {count}.",
    "The operator fixed all parameters and hypotheses without looking at the protected labels.",
    "That a user takes part, and when, is public: shuffling of reports protects no further.",
    "The device sends reports only: its timing, memory and files are not covered.",
)
DEVICE_NOISE = "The operating system of the device draws the noise of each report."
SIMULATED = "SIMULATED REPORTS: the noise is reproducible, or one process saw all labels; void."

# -- several learners: ledgers and pools -----------------------------------------------------------

CHARGES_REACT = "Charges may depend on releases, but not on the data themselves."
CHARGES_FIXED = "The operator fixed all charges before the first release."
CHARGED_BEFORE = (
    "The operator charges everything to this ledger that is released from the data, before it is "
    "released."
)
EVENT = "the program releases what its event describes, and nothing else"
ONE_UNIT_EACH = "One change of the data changes at most one unit of what each learner sees."
DOUBLED = (
    "Counts as two changes (epsilon doubles), because the ledger is about replaced rounds and the "
    "guarantee about emptied ones: a ledger with relation='zero_out' charges it once."
)
VIEW_COVERS = "What {more} cannot tell, {fewer} cannot tell."
EMPTY_IS_ZERO = "The learner treats an empty round as a zero record."
INDEPENDENT = "The learners' noises are independent."
UNSEEN = "Nobody who reacts to releases sees what the protected user is shown."
MOST_KEYS = "The pool has at most {keys} keys."
KEYS_PUBLIC = (
    "The keys, and how many records each of them gets and when, are public: the learners protect "
    "only what the records hold."
)
ONE_KEY = "One record under one key changes, and all other records of the same person stay."
KEYS_REACT = "The {where} of {who} may depend on releases."
KEYS_FIXED = "the {where} of {who} do not depend on releases"
FEW_KEYS = "one person has records under at most {keys}"
ONE_LEARNER_REACTS = "One learner's guarantee holds for a round that its own releases decide."


def promise(clause: str) -> str:
    """Return the condition that the caller keeps a promise that no code enforces."""
    return f"{PROMISED}{clause}."


def noise_conditions(mass: float, seeded: bool, arithmetic: str) -> tuple[str, ...]:
    """Return the conditions on the source of the noise, its tails, and the arithmetic.

    Parameters
    ----------
    mass : float
        Total variation of truncated tails; if it is 0, no condition mentions tails.
    seeded : bool
        Whether the noise is reproducible.
    arithmetic : str
        A key of `ARITHMETIC`.
    """
    source = SEEDED if seeded else SECRET_KEY
    tails = (TAILS.format(mass=mass),) if mass > 0.0 else ()
    return source, *tails, ARITHMETIC[arithmetic]


# Units of a change for mechanisms that release nothing, or everything.
UNITS = ("one round", "one record", "one user's record", "one report")


def norm_name(q: float) -> str:
    """Return "l2", "l3", "linf", ..."""
    return "linf" if q == math.inf else f"l{q:g}"


class Numbers(NamedTuple):
    """Parameters of the noise, as in `Guarantee`; the defaults mean no noise of a single scale.

    Attributes
    ----------
    sensitivity : float or None
        Norm of the largest difference of the values to which noise is added.
    sensitivity_norm : str
        Its norm: "l2", "linf", ...
    noise_scale : float
        Scale of one draw, in the same units.
    column_norm : float or None
        Column norm of a continual sum.
    """

    sensitivity: float | None = None
    sensitivity_norm: str = ""
    noise_scale: float = 0.0
    column_norm: float | None = None


def _single(mechanism: Mechanism, enforced: bool = False) -> Iterator[tuple[Mechanism, bool]]:
    """Yield each elementary mechanism, and whether a learner enforces its queries' sensitivity."""
    if not isinstance(mechanism, Parts):
        yield mechanism, enforced
        return
    # Arms have equal descriptions, so we visit each kind once. A shift detector computes its
    # queries itself, and its engine enforces their sensitivity.
    for part in dict.fromkeys(mechanism.parts):
        yield from _single(part, enforced or mechanism.lemma == "shift_detector")


def units(mechanism: Mechanism, view: str, person: tuple[int, int] | None) -> tuple[str, ...]:
    """Return the possible units of a change of the data; () if only the issuer knows.

    Parameters
    ----------
    mechanism : Mechanism
        The description.
    view : {"everyone", "others", "server"}
        The observer.
    person : (int, int) or None
        Rounds and separation of a person; None for one change.

    Raises
    ------
    ValueError
        If the parts of a mechanism have no unit in common.
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
    """Return the possible units of an elementary mechanism; see `units`."""
    if isinstance(one, Declared):
        return ()
    # Such a mechanism releases nothing of the changed data, or all of it, so every unit is valid.
    if isinstance(one, (Nothing, Open)):
        return UNITS
    if isinstance(one, LocalReport):
        return ("one report" if one.reports == 1 else f"{one.reports} reports of one user",)
    if view == "others":
        return ("one user's record",)
    # A caller computes scores and queries from a data set; learners compute them from rounds.
    promised = isinstance(one, Selections) and isinstance(one.scores, PromisedScores)
    if promised or (isinstance(one, ThresholdTests) and not enforced):
        return ("one record",)
    if records_in_interval(one) is not None:
        return ("one record",)
    # A sum that is released once may sum records of a data set or rounds of a stream.
    once = isinstance(one, GaussianSum) and one.pushes <= 1
    return ("one round", "one record") if once else ("one round",)


def records_in_interval(mechanism: Mechanism | None) -> int | None:
    """Return how many records of one person count in an interval; None for other streams.

    In such a stream each round is an interval with records of many people.
    """
    total = mechanism.summand if isinstance(mechanism, GaussianSum) else None
    return total.records if isinstance(total, ClippedVectors | IntervalTotals) else None


def arithmetic(mechanism: Mechanism) -> str | None:
    """Return "lattice" if all releases are exact, otherwise "float".

    None if there is nothing to state: for reports, whose laws are on integers, and without
    releases.
    """
    found = {_own_arithmetic(one) for one, _ in _single(mechanism)} - {None}
    return "float" if len(found) > 1 else next(iter(found), None)


def _own_arithmetic(one: Mechanism) -> str | None:
    """Return the arithmetic of an elementary mechanism; see `arithmetic`."""
    if isinstance(one, (LocalReport, Nothing, Open)):
        return None
    return "lattice" if getattr(one, "grid", 0.0) > 0.0 else "float"


@lru_cache(maxsize=256)
def promises(mechanism: Mechanism) -> tuple[str, ...]:
    """Return the assumptions of a guarantee that no engine enforces, one clause each."""
    found = (_own_promises(one, enforced) for one, enforced in _single(mechanism))
    known = tuple(dict.fromkeys(clause for clauses in found for clause in clauses))
    # A mechanism that relies on a promise is never certified, even if there is no sentence for the
    # promise.
    return known or ((SOME_BOUND,) if mechanism.promised else ())


def _own_promises(one: Mechanism, enforced: bool) -> tuple[str, ...]:
    """Return the unenforced assumptions of an elementary mechanism; see `promises`."""
    if isinstance(one, Declared):
        return DECLARED_BOUND, DECLARED_NOISE
    if isinstance(one, Selections) and isinstance(one.scores, PromisedScores):
        return (SCORES.format_map(vars(one.scores)) + (ONE_WAY if one.scores.one_way else ""),)
    if isinstance(one, ThresholdTests) and not enforced:
        return (QUERIES.format_map(vars(one)),)
    if isinstance(one, GaussianSum) and isinstance(one.summand, ClippedVectors):
        return (VECTORS.format_map(vars(one.summand)),)
    if isinstance(one, GaussianSum) and not one.summand.enforced:
        # Besides the cases above, only sums on nets may have a bound that is not enforced.
        slope = one.summand.lipschitz if isinstance(one.summand, NetDifferences) else math.nan
        return (LIPSCHITZ.format(slope=slope),)
    return _draw_promises(one) if isinstance(one, CoupledDraws) else ()


def _draw_promises(one: CoupledDraws) -> tuple[str, ...]:
    """Return the assumptions of coupled draws: bounds on the losses, and convergence of chains."""
    losses, draw, found = one.losses, one.draw, list[str]()
    if not losses.enforced:
        smooth = SMOOTH.format_map(vars(losses)) if losses.smoothness > 0.0 else ""
        found.append(CONVEX.format(lipschitz=losses.lipschitz, smooth=smooth))
    # Exact draws have tolerance 0. The distance of a chain from its law cannot be checked.
    if isinstance(draw, GibbsDraw) and draw.tolerance > 0.0:
        found.append(CHAIN.format_map(vars(draw)))
    return tuple(found)


# -- numbers of the noise --------------------------------------------------------------------------


@lru_cache(maxsize=256)
def numbers(mechanism: Mechanism, near: Neighbours) -> Numbers:
    """Return the parameters of the noise; empty for a mixture of unlike mechanisms."""
    if isinstance(mechanism, Parts):
        one = next(_single(mechanism))[0]
        if len(set(mechanism.parts)) > 1:
            return Numbers()
        arms = mechanism.how == "one_of" and near.rounds > 1
        # For several rounds of a person, the proof covers only the loss of all arms together, so we
        # compute the column norm from that loss.
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
    """Return the parameters of a mechanism that is neither a sum nor made of parts."""
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
    """Return the conditions that follow, to print before and after the issuer's own.

    The guarantee holds only if all of them do.

    Parameters
    ----------
    mechanism, near
        The description, and the neighbouring streams.
    person : bool
        Whether the guarantee is for all rounds of a person.
    seeded : bool
        Whether the noise is reproducible.
    mass : float
        Total variation of truncated tails.

    Returns
    -------
    first, last : tuple of str
        `first` has the limits on a person's rounds and the promises; `last` describes rounds,
        releases, noise and arithmetic.
    """
    singles = [one for one, _ in _single(mechanism)]
    several = isinstance(mechanism, Parts) and not mechanism.lemma and len(singles) > 1
    first = (*map(promise, promises(mechanism)), *((FIXED_PARTS,) if several else ()))
    reports = [one.reports for one in singles if isinstance(one, LocalReport)]
    if reports:
        count = "one report" if max(reports) == 1 else f"{max(reports)} reports"
        noise = SIMULATED if seeded else DEVICE_NOISE
        return first, (*(text.format(count=count) for text in DEVICE), noise)
    once = all(isinstance(one, GaussianSum) and one.pushes <= 1 for one in singles)
    alone = () if person else (FIT_ALONE,)
    return (*(_person_conditions(mechanism, near) if person else ()), *first), (
        *(() if person else (PER_ROUND,)),
        *(JOINT if near.view == "others" else ()),
        PUBLIC[near.change],
        *((*FIT_FIXED, *alone, *FIT_ONCE) if once else ()),
        *STREAM,
        *noise_conditions(mass, seeded, _arithmetic_kind(mechanism, singles)),
    )


def _arithmetic_kind(mechanism: Mechanism, singles: list[Mechanism]) -> str:
    """Return the kind of arithmetic, a key of `ARITHMETIC`."""
    if all(isinstance(one, CoupledDraws) for one in singles):
        return "draws"
    if arithmetic(mechanism) == "lattice":
        return "lattice"
    return "sums" if any(isinstance(x, (GaussianSum, BatchRelease)) for x in singles) else "float"


def _person_conditions(mechanism: Mechanism, near: Neighbours) -> tuple[str, ...]:
    """Return how often a person takes part, and what the times of these rounds may depend on."""
    most, apart = near.rounds, near.separation
    records = records_in_interval(mechanism)
    one, many = ("one round", "rounds") if records is None else ("one interval", "intervals")
    often = one if most == 1 else f"{most} {many}"
    often += f", any two at least {apart} apart" if most > 1 and apart > 1 else ""
    if records is not None:
        often = f"{records} record{'s' * (records > 1)} in each of at most {often}"
    reacts = _reacts(mechanism, near)
    return (
        f"{EACH_PERSON} at most {often}.",
        RULE,
        TIMES_REACT if reacts else TIMES_FIXED,
        *((TIMES_UNSEEN,) if reacts and near.view == "others" else ()),
        *ONE_NAME,
    )


def _reacts(mechanism: Mechanism, near: Neighbours) -> bool:
    """Return whether the times of a person's rounds may depend on releases.

    They may if a proof says so, for fresh noise of keyed instances (Theorem 4 of pools), and for
    pure losses.
    """
    if mechanism.reacting:
        return True
    if isinstance(mechanism, Parts) and mechanism.how == "instances":
        return mechanism.parts[0].noise == "fresh"
    loss = mechanism.loss(near)
    return loss is not None and isinstance(loss.bare, Pure)
