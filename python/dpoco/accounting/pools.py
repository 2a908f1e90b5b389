"""Guarantees of pools: many learners, with each person's records at one or a few of them.

Claim: let one learner's guarantee hold for one changed record. Let a pool of learners with
independent noise receive records whose keys and order are public. Then

* if the key and round of the changed record do not depend on releases, the pool has the guarantee
  of the one learner, however many learners there are and however the others' records react;
* if they do, it has the same guarantee if that holds *given any past* of the learner. This is true
  for learners made of draws with fresh noise, truncated tails included, for couplings, and for
  purely private learners with the truncated tails of all learners;
* in general delta(epsilon) of all learners adds up (Henzinger, Safavi and Vadhan, "Concurrent
  composition for differentially private continual mechanisms", 2024: it can get that bad);
* if the cost of all rounds of a person at one learner is mu-GDP, rho-zCDP or purely
  epsilon-private, then with c learners it is sqrt(c) mu-GDP, c rho-zCDP and purely c
  epsilon-private, provided that the guarantee holds given any past.

Proof: ``docs/privacy/pools.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpoco._validation import Fields, choice, positive_int
from dpoco.accounting import conditions as say
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import UNKNOWN, group, least, with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss, Pure, Zcdp

__all__ = ["NOISES", "pool_guarantee", "read_noise"]

NOISES = ("fresh", "ideal_fresh", "hidden")
_PAGE = "docs/privacy/pools.md"
_UP = 1.0 + 1e-14  # exceeds the rounding errors below
# Fields that concern one changed record.
_OF_ONE_RECORD = ("paper_epsilon", "regret_bound")


def read_noise(learner: Any) -> str:
    """Return what is proved about the noise of a learner, as an argument of `pool_guarantee`."""
    return str(learner._noise) if learner._one_round else "hidden"


def pool_guarantee(
    one: Guarantee,
    *,
    keys: int,
    noise: str = "hidden",
    adaptive: bool = True,
    privacy_unit: str = "record",
    rounds_per_user: int = 1,
    separation_per_key: int = 1,
    keys_per_user: int = 1,
) -> Guarantee:
    """Return the guarantee of a pool of at most `keys` learners, each with the guarantee `one`.

    Parameters
    ----------
    one : Guarantee
        Guarantee of one learner, for one changed record or for all rounds of a person. In the
        latter case the pool's guarantee is for users, who keep to the same rule under each key.
    keys : int
        Largest number of learners; public.
    noise : {"fresh", "ideal_fresh", "hidden"}
        What is proved about the learner's noise given any past: "fresh": it is fresh, truncated
        tails included; "ideal_fresh": it is fresh with ideal draws; "hidden": nothing.
    adaptive : bool
        Whether the key and round of a person's records may depend on earlier releases.
    privacy_unit : {"record", "user"}
        What changes: one record, or all records of one person.
    rounds_per_user : int
        Largest number of records of one person under one key; 1 for "record".
    separation_per_key : int
        Smallest distance between two of them, in rounds of that key's learner; 1 for "record".
    keys_per_user : int
        Largest number of keys under which one person has records; 1 for "record".

    Returns
    -------
    Guarantee
        Stated at the delta of `one`.

    Raises
    ------
    CalibrationError
        If that delta does not cover the pool at any epsilon. The learners then need a smaller
        delta.
    ValueError
        If several records of one person are to be protected, and either nothing is proved for them
        or the learners' guarantee for people requires fewer records.
    """
    positive_int("keys", keys)
    choice("noise", noise, NOISES)
    choice("privacy_unit", privacy_unit, ("record", "user"))
    if not isinstance(adaptive, bool):
        raise TypeError("adaptive must be a bool")
    m = positive_int("rounds_per_user", rounds_per_user)
    b = positive_int("separation_per_key", separation_per_key)
    c = positive_int("keys_per_user", keys_per_user)
    user = privacy_unit == "user" or one.person is not None
    if not user and (m, b, c) != (1, 1, 1):
        raise ValueError(
            "rounds_per_user, separation_per_key and keys_per_user are for privacy_unit='user'"
        )
    if c > keys:
        raise ValueError("keys_per_user must be at most the number of keys")
    if not one.private:
        return one
    # A learner may enforce its rule, as its conditions say. The caller's rule is not enforced.
    promised = say.PROMISED if one.person is None else ""
    one, ideal, (m, b) = _find_person_loss(one, m, b) if user else (one, _ideal(one), (1, 1))
    # The pool's own conditions say how often and when people come.
    theirs = (say.EACH_PERSON, say.RULE, say.TIMES, say.PER_ROUND) if user else (say.TIMES,)
    changed: Fields = {
        "mechanism": f"{one.mechanism}, by each of at most {keys} learners, one a key",
        "conditions": (
            *_conditions(one, keys, adaptive, promised if user else None, (m, b, c)),
            *(text for text in one.conditions if not text.startswith(theirs)),
        ),
        "reference": f"{one.reference}; {_PAGE}",
        "claimed": None,
    }
    if user:
        changed |= {"unit": "one user", "person": None, "description": None}
    if m * c > 1:
        changed |= dict.fromkeys(_OF_ONE_RECORD)
        ideal = _compose_keys(ideal, c, one.delta, noise, adaptive)
    if m * c > 1 or keys > 1 or noise == "hidden":
        changed["description"] = None  # it does not describe the cost of all learners
    if noise == "hidden" and adaptive:
        return _guarantee_hidden(one, ideal.pure, keys, m * c, changed)
    # With draws that are fresh given any past, the proof replaces the draws of c learners from the
    # challenge on. Ideal draws hide a point of the past, so the proof has to replace the draws of
    # all learners (docs/privacy/pools.md).
    mass = one.loss.mass * (keys if noise == "ideal_fresh" and adaptive else c)
    if one.private and mass == one.loss.mass and (m * c == 1 or ideal == one.loss.bare):
        return replace(one, **changed)
    bare = replace(one, **changed, epsilon=math.inf, loss=with_tails(ideal, min(1.0, mass)))
    epsilon = bare.epsilon_at(one.delta)
    if not math.isfinite(epsilon):
        raise CalibrationError(_explain_delta(None, one.delta))
    return replace(bare, epsilon=epsilon)


def _find_person_loss(one: Guarantee, m: int, b: int) -> tuple[Guarantee, Loss, tuple[int, int]]:
    """Return a learner's guarantee for all rounds of a person, its ideal loss, and the rule."""
    if one.description is None:  # m rounds are m changes in a chain
        ideal = _ideal(one)
        return one, ideal if ideal == UNKNOWN else group(ideal, m), (m, b)
    mine = one.for_person(m, b)
    return mine, _ideal(mine), mine.person or (1, 1)


def _ideal(one: Guarantee) -> Loss:
    """Return all bounds stated for a learner with ideal noise."""
    known = [each for each in one.stated if each != UNKNOWN]
    if one.delta == 0.0 and one.loss.mass == 0.0 and one.loss.pure == math.inf:
        known.append(Pure(one.epsilon))
    return least(*known)


def _guarantee_hidden(
    one: Guarantee, pure: float, keys: int, records: int, changed: Fields
) -> Guarantee:
    """Return the guarantee for hidden noise: by its pure epsilon, or by adding all keys' deltas.

    Given any past, only the pure epsilon is proved, and not a smaller epsilon at the learner's
    delta.
    """
    found: list[Guarantee] = []
    if math.isfinite(pure):
        mass = min(1.0, one.loss.mass * keys)
        bare = replace(one, **changed, epsilon=math.inf, loss=with_tails(Pure(pure), mass))
        epsilon = bare.epsilon_at(one.delta)
        if math.isfinite(epsilon):
            found.append(replace(bare, epsilon=epsilon))
    if records == 1 and one.delta > 0.0:
        # At this epsilon, the deltas of all learners sum to the delta of one.
        epsilon = one.epsilon_at(one.delta / keys * (1.0 - 1e-14))
        if math.isfinite(epsilon):
            changed["conditions"] = (say.ONE_LEARNER_REACTS, *changed["conditions"])
            found.append(replace(one, **changed, epsilon=epsilon, loss=UNKNOWN))
    if not found:
        raise CalibrationError(_explain_delta(keys, one.delta))
    return min(found, key=lambda each: each.epsilon)


def _compose_keys(loss: Loss, c: int, delta: float, noise: str, adaptive: bool) -> Loss:
    """Return the strongest loss at `delta` of c learners, each with `loss` for one person."""
    proved, known = noise == "fresh" or not adaptive, list[Loss]()
    if proved and c == 1 and loss != UNKNOWN:
        return loss
    if proved:
        square = c if noise == "fresh" else c * c  # c * c for a chain of c changes
        if loss.mu < math.inf:
            known.append(Gaussian(math.sqrt(square) * loss.mu * _UP))
        elif loss.rho < math.inf:
            known.append(Zcdp(square * loss.rho * _UP))
    # Pure losses hold given any past, for any noise, because the past has the same probability on
    # both streams.
    if loss.pure < math.inf:
        known.append(Pure(loss.pure if c == 1 else c * loss.pure * _UP))
    if not known:
        raise ValueError(
            "several records of one person: nothing is proved for this learner, whose guarantee "
            "has no pure parameter, and no Gaussian or zCDP one that would also hold if their keys "
            "and rounds depended on releases (adaptive=False)"
        )
    return min(known, key=lambda each: each.epsilon(delta))


def _explain_delta(keys: int | None, delta: float) -> str:
    many = "the pool" if keys is None else f"a pool of {keys} keys"
    return (
        f"delta = {delta:.3g} does not pay for {many} at any epsilon: give its learners a "
        "smaller delta, or declare fewer keys"
    )


def _conditions(
    one: Guarantee, keys: int, adaptive: bool, promised: str | None, rule: tuple[int, int, int]
) -> tuple[str, ...]:
    """Return the pool's own conditions; `promised` is None if one record is protected."""
    m, b, c = rule
    data = [say.ONE_KEY]
    if promised is not None:
        records = f"{m} record{'s' * (m > 1)} under one key"
        apart = f", any two at least {b} rounds of its learner apart" if m > 1 and b > 1 else ""
        often = f"one person has at most {records}{apart}."
        data = [promised + (often if promised else often.capitalize()), say.RULE]
        if c < keys:  # the pool does not count keys per user
            data.append(say.promise(say.FEW_KEYS.format(keys=f"{c} key{'s' * (c > 1)}")))
    where = "key and round" if m * c == 1 else "keys and rounds"
    who = "the changed record" if promised is None else "a person's records"
    return (
        say.MOST_KEYS.format(keys=keys),
        say.KEYS_PUBLIC,
        *data,
        say.KEYS_REACT.format(where=where, who=who)
        if adaptive
        else say.promise(say.KEYS_FIXED.format(where=where, who=who)),
        say.INDEPENDENT,
        *((say.UNSEEN,) if one.view == "others" else ()),
    )
