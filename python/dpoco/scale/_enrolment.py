"""How a pool enters a journal: charged and stored at once, before any learner is made."""

from __future__ import annotations

import json
from typing import Any

from dpoco.errors import StateError
from dpoco.journal import Journal
from dpoco.scale._siblings import described, header_of
from dpoco.scale._terms import Terms

__all__ = ["enrolled"]


def enrolled(journal: Journal, name: str, prototype: Any, terms: Terms, same_unit: bool) -> Any:
    """Return the prototype of a pool in a journal; the first time, charged and stored."""
    place = f"pool {name}"
    with journal.transaction():
        text = journal._rows.value(place)
        if text is None:
            if prototype is None:
                raise StateError(f"there is no pool {name!r}, and nothing to make it")
            record = {"learner": header_of(prototype), "terms": terms.to_dict()}
            guarantee = terms.guarantee(prototype)
            journal._accounts.charge(guarantee, f"pool {name}", same_unit=same_unit)
            journal._rows.put_value(place, json.dumps(record))
            return prototype
    try:
        record = json.loads(text)
        header, stored = str(record["learner"]), Terms.from_dict(record["terms"])
    except (KeyError, TypeError, ValueError):
        raise StateError("the journal is corrupt: not a pool") from None
    if stored != terms:
        raise StateError(f"the pool {name!r} was made on other terms")
    if prototype is None:
        return described(header)
    ours, theirs = json.loads(header_of(prototype)), json.loads(header)
    if any(ours[part] != theirs[part] for part in ("kind", "object")):
        raise StateError(f"the pool {name!r} has other learners")
    return prototype
