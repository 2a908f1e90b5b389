"""The record of a guarantee in JSON: writing, strict reading, and recomputing its numbers.

Proofs of these numbers: the pages that `Guarantee` names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from dpoco._json import check_types, plain, read_record
from dpoco._validation import Fields, Named
from dpoco.accounting._terms import Terms
from dpoco.errors import StateError
from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.combined import Either, Group, Least, Together, Unknown, least, with_tails
from dpoco.privacy.losses.coupled_bits import CoupledBits
from dpoco.privacy.losses.decaying import Decaying, Returning
from dpoco.privacy.losses.flagged_draws import FlaggedDraws
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss, Pure, Zcdp
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.losses.tilted_draws import ReturningDraws, TiltedDraws
from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.base import Declared, Mechanism, Nothing
from dpoco.privacy.records import Description
from dpoco.privacy.records import to_record as description_record

__all__ = ["combine_numbers", "contradicts_itself", "read", "read_loss", "to_record", "verify"]

T = TypeVar("T", bound=Terms)

_KIND, _VERSION = "dpoco.guarantee", 2
# Relative tolerances for recomputed numbers. Search margins and other machines cause smaller
# differences.
_CLOSE, _SAME_CLOSE = 1e-6, 1e-9
_DIGITS, _UP = 1.0 - 1e-12, 1.0 + 1e-12
# Fields of a record, in order: those of a guarantee, but with the numbers of the loss in its place.
_ORDER = ("epsilon", "delta", "change", "unit", "horizon", "mechanism", "mu", "rho",
          "calibration", "certified", "seeded", "claimed", "paper_epsilon", "reference",
          "conditions", "truncation_mass", "profile", "regret_bound", "details", "numerics", "view",
          "description", "person")  # fmt: skip
# Numbers that earlier records contain although they follow from the description.
_REPEATED = ("sensitivity", "sensitivity_norm", "noise_scale", "noise_multiplier",
             "column_norm")  # fmt: skip
# JSON types of these fields that are not numbers.
_JSON: dict[Any, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "tuple[str, ...]": (list, tuple),
    "tuple[float, float] | None": (list, tuple, type(None)),
    "tuple[int, int] | None": (list, tuple, type(None)),
    "dict[str, float | str | None]": (dict,),
}
# Fields that records of the first release lack, with their values in such records.
_LATER: Fields = {"profile": None, "regret_bound": None, "details": {},
                          "numerics": None, "description": None, "person": None,
                          "seeded": None,
                          **dict.fromkeys(_REPEATED)}  # fmt: skip
_REPRODUCIBLE = ("SEEDED SOURCE", "SIMULATED REPORTS")  # words of conditions
_NUMBERS = ("mu", "rho", "profile", "truncation_mass")  # of the loss
_LOSSES: tuple[type[Loss], ...] = (BoundedRange, CoupledBits, Decaying, Either, FlaggedDraws,
                                   Group, Pure, Responses, Returning, ReturningDraws, TiltedDraws,
                                   Together)  # fmt: skip
# Records of guarantees write the last two as mu and rho, and several bounds one by one.
_PARTS = (*_LOSSES, Least, Gaussian, Zcdp)

# Meaning of a record of version 1. Its "joint" did not name the change, so we read it as the change
# that costs a ledger more.
_RELATIONS = {
    "replace": {"change": "replace", "view": "everyone"},
    "zero_out": {"change": "zero_out", "view": "everyone"},
    "local": {"change": "replace", "view": "server"},
    "joint": {"change": "zero_out", "view": "others"},
}


def to_record(guarantee: Terms) -> Fields:
    """Return a JSON-able dictionary that `from_dict` restores exactly.

    Parameters
    ----------
    guarantee : Guarantee
        Its loss is written as numbers: mu, rho, a profile and the mass of truncated tails.
    """
    record: Fields = {"kind": _KIND, "version": _VERSION}
    for name in _ORDER:
        value = getattr(guarantee, name)
        if name in _LATER and value == _LATER[name]:
            continue  # records from before this field existed lack it
        described = isinstance(value, Description)
        record[name] = description_record(value) if described else plain(value)
    return record


def read(record: Named, make: type[T]) -> T:
    """Return the guarantee, of the class `make`, that `to_record` wrote.

    Parameters
    ----------
    record : mapping
        A record of this version, or of an earlier one with the fields of that version.
    make : type
        `dpoco.Guarantee`. It is passed because this module, which provides its methods, cannot
        import it.

    Raises
    ------
    StateError
        If the record is of another kind or form, contradicts itself, or states something other than
        what follows from its description.
    """
    if isinstance(record, Mapping):
        record = upgrade_version_1({**_LATER, **record})
    body = read_record(
        record, kind=_KIND, version=_VERSION, fields=frozenset({*_ORDER, *_REPEATED})
    )
    try:
        repeated = {name: _read_repeated(name, body.pop(name)) for name in _REPEATED}
        earlier = body["seeded"] is None
        read_body(body)
        stated = make(**body)
        # Earlier versions marked a guarantee as certified although it relied on a promise of the
        # caller.
        believed = earlier and stated.doubts and not stated.seeded
        body["certified"] = body["certified"] and not (believed and stated.description is not None)
        # A record must contain every condition that follows from the description. Otherwise readers
        # would see a stronger statement. Records from before `seeded` existed are exempt.
        left_out = not earlier and not {*stated.derived} <= {*body["conditions"]}
        contradiction = contradicts_itself(stated) or _differs(stated, body, repeated) or left_out
    except StateError:
        raise
    # Anyone may have written a record, so every error that a hostile record causes gives the same
    # message.
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise StateError("malformed guarantee record") from error
    if contradiction:
        raise StateError("a guarantee record contradicts itself: its numbers were changed")
    return stated


def read_body(body: Fields) -> None:
    """Convert a record's fields to those of a guarantee; raise for values that are not allowed."""
    kinds = {each.name: each.type for each in fields(Terms)}
    if body["seeded"] is None:
        body["seeded"] = _was_seeded(body)
    check_types(body, {name: _JSON[kind] for name, kind in kinds.items() if kind in _JSON})
    floats = [name for name, kind in kinds.items() if kind in ("float", "float | None")]
    for name in (*floats, "mu", "rho", "truncation_mass"):
        optional = name in ("mu", "rho") or kinds.get(name) == "float | None"
        body[name] = None if optional and body[name] is None else _float(body[name])
    body["details"] = {k: _detail(v) for k, v in body["details"].items()}
    if body["claimed"] is not None:
        epsilon, delta = body["claimed"]
        body["claimed"] = (_float(epsilon), _float(delta))
    _check_words(body)
    if body["description"] is not None:
        body["description"] = read_mechanism(body["description"])
    body["loss"] = combine_numbers(*(body.pop(name) for name in _NUMBERS))


def _check_words(body: Named) -> None:
    """Raise for impossible numbers, and for values that should be texts and are not."""
    texts = (*body["conditions"], *body["details"])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("conditions and names of details must be texts")
    regret, paper = body["regret_bound"], body["paper_epsilon"]
    if (regret is not None and not 0.0 <= regret < math.inf) or (paper is not None and paper < 0.0):
        raise ValueError("a bound on regret is finite, and it and an epsilon are at least 0")
    epsilon, delta = body["claimed"] or (0.0, 0.0)
    if not (epsilon >= 0.0 and 0.0 <= delta <= 1.0):
        raise ValueError("claimed must be an epsilon and a delta")
    if body["person"] is not None and any(type(n) is not int for n in body["person"]):
        raise TypeError("person must be two counts")


def _was_seeded(body: Named) -> bool:
    """Return whether an earlier record's conditions say that its noise is reproducible."""
    texts = body["conditions"] if isinstance(body["conditions"], (list, tuple)) else ()
    return any(isinstance(text, str) and text.startswith(_REPRODUCIBLE) for text in texts)


def _read_repeated(name: str, value: object) -> float | str | None:
    """Return a number from an earlier record that now follows from the description, or None."""
    if name == "sensitivity_norm":
        if not isinstance(value, (str, type(None))):
            raise TypeError("sensitivity_norm must be a text")
        return value
    return None if value is None else _float(value)


def _differs(stated: Terms, body: Named, repeated: Named) -> bool:
    """Return whether a record contradicts the guarantee computed from its description."""
    reproducible = any(text.startswith(_REPRODUCIBLE) for text in stated.conditions)
    if stated.description is None:
        return reproducible and not stated.seeded
    if body["certified"] != stated.certified or reproducible != stated.seeded:
        return True
    if body["numerics"] not in (None, stated.numerics):
        return not isinstance(stated.description, Nothing)
    own = {name: getattr(stated, name) for name in _REPEATED}
    if isinstance(stated.description, Nothing):
        own = dict(repeated)
    if isinstance(stated.description, Declared):
        own = _divide_by_column(own, repeated)
    return not all(_agrees(repeated[name], own[name]) for name in _REPEATED)


def _divide_by_column(own: Fields, repeated: Named) -> Fields:
    """Return a declared mechanism's numbers in the form of earlier records: for one release."""
    single, moved = repeated["sensitivity"], own["sensitivity"]
    if not single or not moved or repeated["column_norm"] is None:
        return own
    return {**own, "sensitivity": single, "column_norm": moved / single}


def _agrees(value: Any, own: Any) -> bool:
    """Return whether a value of a record equals that of the guarantee, up to the last digits."""
    if value is None or isinstance(value, str):
        return bool(value in (None, own))
    if own is None:
        return bool(value == 0.0)
    return bool(math.isclose(value, own, rel_tol=_SAME_CLOSE) and value >= 0.0)


def combine_numbers(
    mu: float | None, rho: float | None, profile: Named | None, mass: float
) -> Loss:
    """Return the loss that has these numbers; `ValueError` if there is none."""
    if not all(value is None or value > 0.0 for value in (mu, rho)) or not 0.0 <= mass <= 1.0:
        raise ValueError("mu and rho must be positive, and truncation_mass in [0, 1]")
    known: list[Loss] = [] if mu is None else [Gaussian(mu)]
    # The comparison is exact: for a Gaussian loss, records contain exactly this product as rho,
    # which adds no information.
    if rho is not None and (mu is None or rho != 0.5 * mu * mu):
        known.append(Zcdp(rho))
    if profile is not None:
        known.append(read_loss(profile))
    return with_tails(least(*known), mass)


def read_loss(record: Named, known: tuple[type[Loss], ...] = _LOSSES) -> Loss:
    """Return the loss that `Loss.to_dict` wrote, if it is of one of the known kinds.

    Parameters
    ----------
    record : mapping
        "kind" and the fields of that loss, under the names used in records.
    known : tuple of type
        The allowed kinds. Parts of combined losses may also be mu and rho.

    Raises
    ------
    ValueError
        For another kind, wrong fields, or values of a wrong type.
    """
    kind = record.get("kind") if isinstance(record, Mapping) else None
    found = [each for each in known if each.kind == kind]
    if not found:
        raise ValueError(f"not a loss of kind {sorted(each.kind for each in known)}")
    (loss,) = found
    own = [each.name for each in fields(loss) if each.init]  # type: ignore[arg-type]
    names = {name: dict(loss.names).get(name, name) for name in own}
    besides = dict(loss.besides)
    if {*record} != {"kind", *names.values(), *besides}:
        all_names = sorted([*names.values(), *besides])
        raise ValueError(f"a loss of kind {loss.kind!r} has the fields {all_names}")
    for name, value in besides.items():
        if record[name] != value:
            raise ValueError(f"{name} of a loss of kind {loss.kind!r} can only be {value!r}")
    numbers = {name: record[stored] for name, stored in names.items()}
    if loss is Group:
        numbers["one"] = read_loss(numbers["one"])
    if loss in (Either, Least, Together):
        numbers["parts"] = tuple(read_loss(part, _PARTS) for part in numbers["parts"])
    # In Python, True equals 1, both in comparisons and in formulas.
    if any(isinstance(value, bool) for value in numbers.values()):
        raise ValueError(f"a loss of kind {loss.kind!r} holds numbers, not bools")
    try:
        return loss(**numbers)
    except TypeError as error:
        raise ValueError(f"a loss of kind {loss.kind!r} holds other types") from error


def verify(stated: Terms) -> None:
    """Raise `StateError` unless a new computation confirms the stated epsilon and delta."""
    loss: Loss | None = stated.loss
    if stated.description is not None:
        loss = stated.description.loss(stated.neighbours)
    if loss is None or (isinstance(loss, Unknown) and stated.description is None):
        follows = not stated.private or loss is not None  # a bare point: nothing to recompute
    elif not stated.private:
        follows = True  # the record states nothing at this delta
    elif stated.delta == 0.0:
        # We do not evaluate the curve here: for large epsilon its delta underflows to 0 without
        # being 0.
        follows = loss.mass == 0.0 and loss.pure <= stated.epsilon * _UP
    else:
        # On another machine, the last digits may fall on the other side of the comparison.
        follows = loss.delta(stated.epsilon * _UP) <= stated.delta * _UP
    if not follows or contradicts_itself(stated):
        raise StateError("epsilon does not follow from the other fields")


def contradicts_itself(stated: Terms) -> bool:
    """Return whether epsilon contradicts the loss, or the loss contradicts the description.

    Numbers may exceed the recomputed ones by a relative 1e-6, and be smaller by 1e-12, because
    search margins and other machines cause smaller differences. `verify` recomputes epsilon and
    delta and is stricter.
    """
    if stated.description is not None and not _follows(stated, stated.description):
        return True
    mu = stated.mu
    if mu is not None and not _near(2.0 * (stated.rho or 0.0), mu * mu):
        return True
    loss, mass = stated.loss, stated.loss.mass
    if not stated.private or isinstance(loss.bare, Unknown):
        return False
    # If a record states a curve besides mu and rho, the curve must prove at least as much as they
    # do.
    most = stated.beyond
    own = loss if most is None else with_tails(most, mass)
    if isinstance(most, Pure) and mu is None:  # rho may be stated: for a sequence of pure releases
        own, rho = loss, math.inf if stated.rho is None else stated.rho
        # If there is a description, `_follows` has already compared both numbers with it.
        least = most.pure**2 * (1.0 - _CLOSE)
        if stated.description is None and not 2.0 * rho * stated.horizon >= least:
            return True
    if stated.delta == 0.0:
        pure = math.inf if most is None else most.pure
        if mu is not None or mass > 0.0 or not _near(stated.epsilon, pure):
            return True
        at = 0.25 * pure  # epsilon at which rho must not prove more than the curve
        return loss.delta(at) < own.delta(at) * (1.0 - _CLOSE)
    # Both directions are checked: a smaller epsilon is false, and a larger one was not computed
    # from this loss.
    above = own.delta(stated.epsilon * (1.0 + _CLOSE))
    below = loss.delta(stated.epsilon * (1.0 - _CLOSE)) if stated.epsilon > 0.0 else 1.0
    return above > stated.delta * (1.0 + _CLOSE) or below < stated.delta * (1.0 - _CLOSE)


def _follows(stated: Terms, mechanism: Mechanism) -> bool:
    """Return whether the mechanism allows the stated loss, horizon and certificate."""
    loss = mechanism.loss(stated.neighbours)
    own = stated.loss.bare
    if loss is None:
        return not stated.private and isinstance(own, Unknown)
    if not stated.private:
        return loss.epsilon(stated.delta) == math.inf
    ideal = loss.bare
    longest = math.inf if mechanism.longest is None else mechanism.longest
    if stated.horizon > longest:
        return False
    # Numbers that promise more privacy than those recomputed are refused, up to the last digits, in
    # which machines differ.
    return _reaches(stated.loss.mass, loss.mass) and all(
        _is_covered(part, ideal) for part in own.bounds
    )


def _is_covered(part: Loss, ideal: Loss) -> bool:
    """Return whether a part of the stated loss follows from the mechanism's ideal loss."""
    if isinstance(part, Gaussian):
        return _reaches(part.mu, ideal.mu)
    if isinstance(part, Zcdp):
        return _reaches(part.rho, min(ideal.rho, 0.5 * ideal.mu * ideal.mu))
    return any(_same(part, known) for known in ideal.bounds)


def _same(one: Loss, other: Loss) -> bool:
    """Return whether two losses have the same parameters, up to the last digits."""
    if isinstance(one, Either | Least | Together) and type(one) is type(other):
        return len(one.parts) == len(other.parts) and all(map(_same, one.parts, other.parts))
    pairs = zip(one.to_dict().values(), other.to_dict().values(), strict=False)
    return type(one) is type(other) and all(
        math.isclose(a, b, rel_tol=1.0 - _DIGITS) if isinstance(a, float) else a == b
        for a, b in pairs
    )


def _reaches(value: float, other: float) -> bool:
    """Return whether a stated number is close to the recomputed one and no more private."""
    return _near(value, other) and value >= other * _DIGITS


def _near(value: float, other: float) -> bool:
    """Return whether two numbers are equal up to a relative 1e-6."""
    return math.isclose(value, other, rel_tol=_CLOSE)


def _float(value: object) -> float:
    """Return a JSON number, or a text such as "inf", as a float."""
    if value == "inf":
        return math.inf
    # Records write these numbers as floats. An int could be True.
    if type(value) is not float or not math.isfinite(value):
        raise TypeError("expected a number")
    return value


def _detail(value: Any) -> float | str | None:
    """Return the number that `plain_float` wrote as a text; return other values unchanged."""
    if value is not None and type(value) not in (str, bool, int, float):
        raise TypeError("details must be numbers or texts")
    if isinstance(value, int):
        float(value)  # OverflowError for an int too large to print
    return float(value) if value in ("inf", "-inf", "nan") else value


def upgrade_version_1(record: Named) -> Fields:
    """Split the single relation of a version 1 record into what changes and who observes."""
    word = record.get("relation")
    if (
        record.get("version") != 1
        # In Python True equals 1.
        or record["version"] is True
        or word not in tuple(_RELATIONS)
        or "change" in record
    ):
        return dict(record)
    rest = {name: value for name, value in record.items() if name != "relation"}
    return {**rest, **_RELATIONS[word], "version": 2}
