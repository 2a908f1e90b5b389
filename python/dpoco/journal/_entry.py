"""A learner as the rows of a journal keep it: what it is made of, and its state."""

from __future__ import annotations

import json
from typing import Any

from dpoco._state import _REPLACED_CLAIM, FRAME_SIGNATURE, _class_of, pack, unpack

__all__ = ["alike", "header_of", "learner_of", "payload_of"]


def header_of(learner: Any) -> str:
    """Return what a learner is made of, as it is stored: its state's header, without tickets."""
    header, _ = unpack(learner._to_bytes())
    header["object"].pop("tickets", None)
    return json.dumps(header, sort_keys=True)


def payload_of(learner: Any) -> bytes:
    """Return the state of the engine; framed with the tickets, once some were issued."""
    state: bytes = learner._engine.state()
    book = getattr(learner, "_book", None)
    return state if book is None else pack({"tickets": book.to_record()}, state)


def learner_of(header: str, payload: bytes, siblings: dict[str, Any]) -> Any:
    """Return the learner of a stored header and state.

    What follows from the header, the guarantee above all, is computed for its first learner, of
    which `siblings` keeps one.
    """
    # No state of an engine begins like this: they begin with small numbers.
    framed = payload.startswith(FRAME_SIGNATURE)
    known = None if framed else siblings.get(header)
    if known is not None:
        learner = known._sibling(_REPLACED_CLAIM)
        learner._engine.restore(payload)
        return learner
    record = json.loads(header)
    if framed:
        front, payload = unpack(payload)
        record["object"]["tickets"] = front["tickets"]
    learner = _class_of(record.get("kind"))._from_bytes(pack(record, payload))
    if "tickets" not in record["object"]:  # those are each learner's own
        siblings[header] = learner._sibling(_REPLACED_CLAIM)
    return learner


def alike(learner: Any, header: str) -> bool:
    """Return whether a learner has the arguments of a stored header.

    What calibration makes of them may differ between versions of the library: the stream keeps its
    own.
    """
    ours, theirs = json.loads(header_of(learner)), json.loads(header)
    if ours["kind"] != theirs["kind"] or ours["object"]["seeded"] != theirs["object"]["seeded"]:
        return False
    arguments = {**type(learner)._added, **theirs["object"]["arguments"]}
    return bool(ours["object"]["arguments"] == arguments)
