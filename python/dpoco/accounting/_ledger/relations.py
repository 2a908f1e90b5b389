"""Which guarantees count for a ledger of another neighbouring relation, and what that costs.

Claim: for the neighbours of the ledger (row), a guarantee for other neighbours (column) holds

              replace    zero_out     joint      local
    replace   as it is   doubled      no         as it is
    zero_out  as it is   as it is     no         no
    joint     as it is   doubled      as it is   as it is
    local     no         no           no         as it is

"as it is": replaced data may be a zero record, which is how learners here process an empty round;
what all observers cannot tell, all other users cannot tell; and what is computed from locally
private reports is as private as they are. "doubled": emptying a round and filling it again are two
steps (``costs.Cost.doubled``). "no": a local guarantee says nothing about whether a user takes
part, a joint one nothing about what the user herself is shown, and a central one nothing about the
party that runs the mechanism.

Proof: ``docs/privacy/ledger.md``.
"""

from __future__ import annotations

from dpoco.accounting._ledger.costs import Cost

__all__ = ["converted"]

_AS_IT_IS = {
    ("replace", "replace"): "",
    ("replace", "local"): "local guarantees are counted for replaced data",
    ("zero_out", "zero_out"): "",
    ("zero_out", "replace"): "an empty round is processed as a zero record",
    ("joint", "joint"): "",
    ("joint", "replace"): "guarantees against all observers are counted against other users",
    ("joint", "local"): "local guarantees are counted against other users",
    ("local", "local"): "",
}
_DOUBLED = {
    ("replace", "zero_out"): "a replaced round counts as one emptied and filled again",
    ("joint", "zero_out"): "a replaced record counts as one emptied and filled again",
}


def converted(cost: Cost, *, ledger: str, guarantee: str) -> tuple[Cost, str]:
    """Return the cost under the ledger's relation, and the condition of that in words.

    Raises
    ------
    ValueError
        If the guarantee says nothing under the ledger's relation.
    """
    pair = (ledger, guarantee)
    if pair in _AS_IT_IS:
        return cost, _AS_IT_IS[pair]
    if pair in _DOUBLED:
        return cost.doubled(), _DOUBLED[pair]
    raise ValueError(
        f"a guarantee for the relation {guarantee!r} says nothing under {ledger!r}, "
        "the relation of this ledger"
    )
