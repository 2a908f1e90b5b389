"""The record of a guarantee in JSON: written, read strictly, and its numbers computed again.

Proof of what is computed: the pages that `Guarantee` names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from dpoco.accounting import _profiles
from dpoco.accounting._records import check_types, of_version_1, plain_float, read_record
from dpoco.privacy.losses.combined import NOTHING, Tailed
from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description
from dpoco.privacy.records import written as description_record

if TYPE_CHECKING:
    from dpoco.accounting.guarantee import Guarantee

__all__ = ["contradicts_itself", "read", "written"]

_KIND, _VERSION = "dpoco.guarantee", 2
# Relative, of numbers that are computed again: margins and other machines move them by less. Sums
# of sampled Gaussians jitter.
_CLOSE, _JITTER = 1e-6, 1e-2
_DIGITS = 1.0 - 1e-12
_STATED = ("epsilon", "delta", "noise_scale", "truncation_mass")
_FLOATS = (
    "sensitivity",
    "mu",
    "rho",
    "noise_multiplier",
    "column_norm",
    "paper_epsilon",
    "regret_bound",
)
# What JSON holds of the other fields.
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("change", "view", "unit", "mechanism", "calibration", "reference"), (str,)),
    "sensitivity_norm": (str,),
    "horizon": (int,),
    "certified": (bool,),
    "claimed": (list, tuple, type(None)),
    "conditions": (list, tuple),
    "details": (dict,),
    "numerics": (str, type(None)),
}
# Fields that records of the first release do not have, and what they stand for there.
_LATER_FIELDS: dict[str, Any] = {"profile": None, "regret_bound": None, "details": {},
                                 "numerics": None, "description": None}  # fmt: skip


def written(guarantee: Guarantee) -> dict[str, Any]:
    """Return a dictionary that JSON can carry."""
    record: dict[str, Any] = {"kind": _KIND, "version": _VERSION}
    for name in (entry.name for entry in fields(guarantee)):
        value = getattr(guarantee, name)
        if name in _LATER_FIELDS and value == _LATER_FIELDS[name]:
            continue  # as written before the field existed
        if isinstance(value, Description):
            value = description_record(value)
        elif isinstance(value, dict):
            value = {k: plain_float(v) if isinstance(v, float) else v for k, v in value.items()}
        elif isinstance(value, tuple):
            value = [plain_float(v) if isinstance(v, float) else v for v in value]
        record[name] = plain_float(value) if isinstance(value, float) else value
    return record


def read(record: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return the fields, called `names`, that `written` wrote.

    Raises
    ------
    StateError
        If it is another record, or of another form.
    TypeError, ValueError, OverflowError
        If a field holds what it must not.
    """
    if isinstance(record, Mapping):
        record = {**_LATER_FIELDS, **record}
        record = of_version_1(record)
    body = read_record(record, kind=_KIND, version=_VERSION, fields=names)
    check_types(body, _TYPES)
    body["details"] = {k: _number(v) for k, v in body["details"].items()}
    for name in _FLOATS:
        body[name] = None if body[name] is None else _float(body[name])
    for name in _STATED:
        body[name] = _float(body[name])
    if body["claimed"] is not None:
        epsilon, delta = body["claimed"]
        body["claimed"] = (_float(epsilon), _float(delta))
    if not all(isinstance(text, str) for text in body["conditions"]):
        raise TypeError("conditions must be texts")
    if body["description"] is not None:
        body["description"] = read_mechanism(body["description"])
    return body


def contradicts_itself(stated: Guarantee) -> bool:
    """Return whether epsilon does not follow from the parameters, or these from each other."""
    if stated.description is not None and not _follows(stated, stated.description):
        return True
    mu, scale, column = stated.mu, stated.noise_scale, stated.column_norm
    if mu is not None:
        if stated.noise_multiplier is not None and not _near(mu * stated.noise_multiplier, 1.0):
            return True
        if stated.rho is not None and not _near(2.0 * stated.rho, mu * mu):
            return True
        if stated.sensitivity is not None and column is not None and scale != 0.0:
            least = stated.sensitivity * column / scale  # more with rounding or another noise
            exact = stated.sensitivity_norm == "l2" and stated.numerics == "float"
            if not mu >= least * (1.0 - _CLOSE) or (exact and not _near(mu, least)):
                return True
    if not stated.private or (mu, stated.rho, stated.profile) == (None, None, None):
        return False
    kind = "" if stated.profile is None else stated.profile["kind"]
    pure = math.inf if stated.profile is None else _profiles.loss_of(stated.profile).pure
    own = stated
    if kind == "pure" and mu is None:  # rho may say more: of pure releases one after the other
        rho = math.inf if stated.rho is None else stated.rho
        if not 2.0 * rho * stated.horizon >= pure * pure * (1.0 - _CLOSE):
            return True
    elif kind:  # says more than mu and rho
        own = replace(stated, mu=None, rho=None)
    if stated.delta == 0.0:
        if mu is not None or stated.truncation_mass > 0.0 or not _near(stated.epsilon, pure):
            return True
        at = 0.25 * pure  # where rho must not say more either
        return stated._curve_delta(at) < own._curve_delta(at) * (1.0 - _CLOSE)
    close = _JITTER if kind == "sampled_gaussian" else _CLOSE
    above = own._curve_delta(stated.epsilon * (1.0 + close))
    below = stated._curve_delta(stated.epsilon * (1.0 - close)) if stated.epsilon > 0.0 else 1.0
    return above > stated.delta * (1.0 + close) or below < stated.delta * (1.0 - close)


def _follows(stated: Guarantee, mechanism: Mechanism) -> bool:
    """Return whether the parameters are those of the mechanism's loss."""
    loss = mechanism.loss(Neighbours(stated.change, stated.view))
    if loss is None:
        return not stated.private and (stated.mu, stated.rho, stated.profile) == (None,) * 3
    if not stated.private:
        return loss.epsilon(stated.delta) == math.inf
    ideal = loss.ideal if isinstance(loss, Tailed) else loss
    pairs = [(stated.truncation_mass, loss.mass)]
    if stated.mu is not None:
        pairs.append((stated.mu, ideal.mu))
    if stated.rho is not None:
        pairs.append((stated.rho, min(ideal.rho, 0.5 * ideal.mu * ideal.mu)))
    if stated.profile is None and stated.mu is None:
        return ideal == NOTHING and stated.rho is None
    if stated.numerics == "lattice" and 0.0 in _grids(mechanism):
        return False
    known = getattr(ideal, "known", (ideal,))  # several things may be known of one mechanism
    profile = None if stated.profile is None else _profiles.loss_of(stated.profile)
    # Less than what follows is refused to the last digits that machines differ by.
    return all(_near(value, other) and value >= other * _DIGITS for value, other in pairs) and (
        profile is None or any(_profiles.near(profile, one, 1.0 - _DIGITS) for one in known)
    )


def _grids(description: Description) -> set[float]:
    """Return the grids of all parts of a description; 0 stands for doubles."""
    found = set()
    for each in fields(description):
        value = getattr(description, each.name)
        if each.name == "grid":
            found.add(value)
        for part in value if isinstance(value, tuple) else (value,):
            found |= _grids(part) if isinstance(part, Description) else set()
    return found


def _near(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=_CLOSE)


def _float(value: Any) -> float:
    """Return a number of JSON, or the text of an infinite one, as a float."""
    if isinstance(value, bool):
        raise TypeError("expected a number")
    return float(value)


def _number(value: float | str | None) -> float | str | None:
    """Return the number that `plain_float` wrote as text; anything else of a detail unchanged."""
    if value is not None and type(value) not in (str, bool, int, float):
        raise TypeError("details must be numbers or texts")
    if isinstance(value, int):
        float(value)  # OverflowError for what no report could print
    return float(value) if value in ("inf", "-inf", "nan") else value
