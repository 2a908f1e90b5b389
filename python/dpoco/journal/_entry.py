"""How learners enter a journal: what they are made of, and what must not wait any more."""

from __future__ import annotations

import json
from typing import Any

from dpoco._state import unpack
from dpoco.errors import StateError

__all__ = ["alike", "check_tickets", "header_of"]


def check_tickets(learner: Any) -> None:
    """Raise `StateError` if tickets wait for feedback, which no stream could take."""
    waiting = len(getattr(learner, "outstanding", ()))
    if waiting:
        raise StateError(
            f"tickets of the learner wait for feedback ({waiting}), and a journal's streams take "
            "none: observe or expire them first"
        )


def header_of(learner: Any) -> str:
    """Return what a learner is made of, as it is stored: its state's header."""
    header, _ = unpack(learner._to_bytes())
    return json.dumps(header, sort_keys=True)


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
