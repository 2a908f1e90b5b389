"""A learner as the rows of a journal keep it: what it is made of, and its state."""

from __future__ import annotations

import json
from typing import Any

from dpoco._state import FRAME_SIGNATURE, _class_of, pack, unpack

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


def learner_of(header: str, payload: bytes) -> Any:
    """Return the learner of a stored header and state."""
    record = json.loads(header)
    if payload.startswith(FRAME_SIGNATURE):  # no engine's state: these begin with small numbers
        front, payload = unpack(payload)
        record["object"]["tickets"] = front["tickets"]
    return _class_of(record.get("kind"))._from_bytes(pack(record, payload))


def alike(learner: Any, header: str) -> bool:
    """Return whether a learner has the arguments and parameters of a stored header."""
    ours, theirs = json.loads(header_of(learner)), json.loads(header)
    for record in (ours, theirs):
        record["object"].pop("tickets", None)
    return all(ours[name] == theirs[name] for name in ("kind", "object"))
