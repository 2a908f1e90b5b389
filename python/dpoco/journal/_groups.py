"""Groups of streams that see disjoint data: charged once, as what is proved for all of them.

Claim: streams of which a person's record is in one, which may be chosen in reaction to everything
released, have together the guarantee of `dpoco.accounting.pools.pool_guarantee`: that of one
learner for draws with fresh noise, that with the tails of all streams for couplings, the purely
private epsilon for others that have one, and otherwise the deltas of all streams added up.

Proof: ``docs/privacy/pools.md`` and ``docs/privacy/journal.md``, section "Groups".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dpoco._validation import positive_int
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.pools import noise_of, pool_guarantee
from dpoco.errors import StateError
from dpoco.journal._rows import Rows

__all__ = ["Group", "join"]

_LARGEST = 2**31


@dataclass(frozen=True)
class Group:
    """What a caller says of the group of a stream.

    Attributes
    ----------
    name : str
        Any text.
    size : int or None
        Largest number of its streams, ever; None: as the first one said.
    """

    name: str
    size: int | None

    @classmethod
    def of(cls, name: str | None, size: int | None) -> Group | None:
        """Return the group of the arguments of `Journal.open`; None if there is none."""
        if name is None:
            if size is not None:
                raise TypeError("group_size is for streams of a group")
            return None
        if not isinstance(name, str):
            raise TypeError(f"group must be a text; got {type(name).__name__}")
        if size is not None:
            size = positive_int("group_size", size, maximum=_LARGEST)
        return cls(name, size)


def join(rows: Rows, group: Group, learner: Any) -> Guarantee | None:
    """Enter a learner, within a transaction: what is to be charged; None if that is done already.

    Raises
    ------
    CalibrationError
        If the learner's delta does not pay for a group of that size at any epsilon.
    StateError
        If the group is full.
    TypeError, ValueError
        If the group is new and has no size, if it has another one, or other learners.
    """
    place = f"group {group.name}"
    alike = {"kind": learner._kind, "guarantee": _written(learner.guarantee)}
    text = rows.value(place)
    if text is None:
        if group.size is None:
            raise TypeError(
                "a new group needs group_size, the largest number of streams it will ever have"
            )
        charge = pool_guarantee(learner.guarantee, keys=group.size, noise=noise_of(learner))
        rows.put_value(place, json.dumps({**alike, "size": group.size, "streams": 1}))
        return charge
    try:
        record = json.loads(text)
        size, streams = int(record["size"]), int(record["streams"])
        known = {name: record[name] for name in alike}
    except (KeyError, TypeError, ValueError):
        raise StateError("the journal is corrupt: not a group") from None
    if group.size not in (None, size):
        raise ValueError(f"the group {group.name!r} was made for {size} streams")
    if known != alike:
        raise ValueError(
            f"the group {group.name!r} is charged for another guarantee: its streams must be alike"
        )
    if streams >= size:
        raise StateError(
            f"the group {group.name!r} is full: it is charged for {size} streams, whatever becomes "
            "of them"
        )
    rows.put_value(place, json.dumps({**record, "streams": streams + 1}))
    return None


def _written(guarantee: Guarantee) -> str:
    return json.dumps(guarantee.to_dict(), sort_keys=True)
