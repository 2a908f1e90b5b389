"""Many learners, each person's records with one of them or a few: what holds for all together.

Claim: let one learner's guarantee hold for one changed record, and let a pool of learners with
independent noise see records whose keys and order are public. Then

* if key and round of the changed record do not depend on releases, the pool has the guarantee of
  the one learner, however many learners there are and whatever the others' records react to;
* if they do, it has the same guarantee provided that it holds *given any past* of the learner: for
  learners made of draws with fresh noise, truncated tails included, for couplings and for purely
  private learners with the truncated tails of all learners;
* in general delta(epsilon) of all learners adds up (Henzinger, Safavi and Vadhan, "Concurrent
  composition for differentially private continual mechanisms", 2024: it can get that bad);
* what all rounds of a person cost with one learner is mu-GDP, rho-zCDP or purely epsilon-private:
  with c learners they are sqrt(c) mu-GDP, c rho-zCDP and purely c epsilon-private, if the guarantee
  holds given any past.

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
_UP = 1.0 + 1e-14  # more than the roundings below
# Numbers that are about one changed record.
_OF_ONE_RECORD = ("paper_epsilon", "regret_bound")


def read_noise(learner: Any) -> str:
    """Return what is proved about the noise of a learner, as `pool_guarantee` takes it."""
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
    """Return the guarantee of a pool of at most `keys` learners that have the guarantee `one` each.

    Parameters
    ----------
    one : Guarantee
        Of one learner, for one changed record or for all rounds of a person: then the pool's is
        for users, who keep to the same rule under each key.
    keys : int
        Largest number of learners; public.
    noise : {"fresh", "ideal_fresh", "hidden"}
        What is proved about the learner's noise given any past: that it is fresh, truncated tails
        included; that it is with ideal draws; nothing.
    adaptive : bool
        Whether key and round of a person's records may depend on what was released before.
    privacy_unit : {"record", "user"}
        What changes: one record, or all records of one person.
    rounds_per_user : int
        Most records of one person under one key; 1 for "record".
    separation_per_key : int
        Smallest distance between two of them, in rounds of that key's learner apart; 1 for
        "record".
    keys_per_user : int
        Most keys under which one person has records; 1 for "record".

    Returns
    -------
    Guarantee
        At the delta of `one`.

    Raises
    ------
    CalibrationError
        If that delta does not pay for the pool at any epsilon: the learners need a smaller one.
    ValueError
        If several records of one person are to be protected and nothing is proved about that, or
        less than the learners' guarantee for people says.
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
    # A learner may enforce its rule, and its conditions say so; nothing enforces the caller's.
    promised = say.PROMISED if one.person is None else ""
    one, ideal, (m, b) = _find_person_loss(one, m, b) if user else (one, _ideal(one), (1, 1))
    # The pool says how often and when people come.
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
        changed["description"] = None  # which does not say what all of them cost
    if noise == "hidden" and adaptive:
        return _guarantee_hidden(one, ideal.pure, keys, m * c, changed)
    # Draws that are fresh given any past are replaced from the challenge on, in c learners. Ideal
    # draws hide a point of the past, so that all learners' draws have to be replaced
    # (docs/privacy/pools.md).
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
    if one.description is None:  # m rounds are m changes, one after the other
        ideal = _ideal(one)
        return one, ideal if ideal == UNKNOWN else group(ideal, m), (m, b)
    mine = one.for_person(m, b)
    return mine, _ideal(mine), mine.person or (1, 1)


def _ideal(one: Guarantee) -> Loss:
    """Return all that is stated of a learner with ideal noise."""
    known = [each for each in one.stated if each != UNKNOWN]
    if one.delta == 0.0 and one.loss.mass == 0.0 and one.loss.pure == math.inf:
        known.append(Pure(one.epsilon))
    return least(*known)


def _guarantee_hidden(
    one: Guarantee, pure: float, keys: int, records: int, changed: Fields
) -> Guarantee:
    """Return what holds where noise stays hidden: its pure epsilon, or the deltas of all keys.

    Only the pure epsilon is proved given any past; a smaller epsilon at the learner's delta is not.
    """
    found: list[Guarantee] = []
    if math.isfinite(pure):
        mass = min(1.0, one.loss.mass * keys)
        bare = replace(one, **changed, epsilon=math.inf, loss=with_tails(Pure(pure), mass))
        epsilon = bare.epsilon_at(one.delta)
        if math.isfinite(epsilon):
            found.append(replace(bare, epsilon=epsilon))
    if records == 1 and one.delta > 0.0:
        # At this epsilon the deltas of all learners add up to the delta of one.
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
        square = c if noise == "fresh" else c * c  # the latter: a chain of c changes
        if loss.mu < math.inf:
            known.append(Gaussian(math.sqrt(square) * loss.mu * _UP))
        elif loss.rho < math.inf:
            known.append(Zcdp(square * loss.rho * _UP))
    # Pure losses hold given any past, whatever the noise: the past has the same probability in both
    # worlds.
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
    """Return the pool's own conditions; `promised` is None where one record is protected."""
    m, b, c = rule
    data = [say.ONE_KEY]
    if promised is not None:
        records = f"{m} record{'s' * (m > 1)} under one key"
        apart = f", any two at least {b} rounds of its learner apart" if m > 1 and b > 1 else ""
        often = f"one person has at most {records}{apart}."
        data = [promised + (often if promised else often.capitalize()), say.RULE]
        if c < keys:  # which the pool does not count
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
