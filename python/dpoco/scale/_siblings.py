"""Learners of a pool: as the first one, calibrated once, each with noise of its own.

A sibling shares what is public and never changes (arguments, parameters, guarantee, domain) and has
a compiled learner with a key of its own. That is thousands of times as fast as calibration.
"""

from __future__ import annotations

import json
from typing import Any

from dpoco._state import _REPLACED_CLAIM, Stateful, _class_of, unpack
from dpoco.errors import StateError
from dpoco.journal._families import Answers, Family, Sums, family_of
from dpoco.random import Source

__all__ = [
    "described",
    "family_for",
    "header_of",
    "prototype_of",
    "restored",
    "sibling",
]


def family_for(learner: Any) -> Family:
    """Return the family of a pool's learners, or raise `TypeError` for what it cannot play."""
    from dpoco.losses import QuadraticLoss

    family = family_of(learner)
    if isinstance(family, (Sums, Answers)):
        raise TypeError(f"a pool holds learners; a {type(learner).__name__} decides nothing")
    if isinstance(getattr(learner, "loss", None), QuadraticLoss):
        raise TypeError("a pool cannot play quadratic losses: they come one by one")
    return family


def prototype_of(make: Any) -> Any:
    """Return the unstarted learner that `make` is or makes."""
    learner = make if isinstance(make, Stateful) else make()
    family_for(learner)
    learner._check_active()
    if learner._is_started():
        raise StateError("the learners of a pool are made from one that has not started")
    return learner


def header_of(learner: Any) -> str:
    """Return what the learners of a pool are made of, as text."""
    header, _ = unpack(learner._to_bytes())
    return json.dumps(header, sort_keys=True)


def described(header: str) -> Any:
    """Return an unstarted learner from `header_of`; its noise is nobody's, make siblings of it."""
    try:
        record = json.loads(header)
        return _class_of(record.get("kind"))._assemble(record["object"])
    except StateError:
        raise
    except Exception as error:  # the text may quote the file; its kind is enough
        raise StateError(f"the pool's description is refused ({type(error).__name__})") from None


def sibling(prototype: Any) -> Any:
    """Return an unstarted learner like the prototype, with a fresh key."""
    source = prototype._arguments["source"]
    return prototype._sibling((Source() if source is None else source.spawn())._claim())


def restored(prototype: Any, payload: bytes) -> Any:
    """Return a learner like the prototype, continued from the state of a compiled learner."""
    learner = prototype._sibling(_REPLACED_CLAIM)
    learner._engine.restore(payload)
    return learner
