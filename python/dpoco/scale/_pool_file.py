"""A whole pool in one file: framed and checksummed as the state of one learner is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dpoco._state import pack, unpack, write_atomically
from dpoco.errors import StateError
from dpoco.scale._keys import Key, key_from_text, key_text
from dpoco.scale._siblings import described, restored
from dpoco.scale._terms import Terms

__all__ = ["read_pool", "write_pool"]

_KIND = "KeyedPool"


def write_pool(
    path: str | os.PathLike[str], header: str, terms: Terms, keys: list[Key], states: list[bytes]
) -> None:
    """Write a pool; the old file or the new one is there whatever happens."""
    record = {
        "kind": _KIND,
        "learner": json.loads(header),
        "terms": terms.to_dict(),
        "keys": [key_text(key) for key in keys],
        "sizes": [len(state) for state in states],
    }
    write_atomically(path, pack(record, b"".join(states)))


def read_pool(path: str | os.PathLike[str]) -> tuple[Any, Terms, list[Key], list[Any]]:
    """Return prototype, terms, keys and learners; `StateError` unless the file is intact."""
    record, payload = unpack(Path(path).read_bytes())
    if record.get("kind") != _KIND:
        raise StateError("state is not of a pool")
    try:
        keys = [key_from_text(text) for text in record["keys"]]
        sizes = [int(size) for size in record["sizes"]]
        if len(keys) != len(sizes) or len(set(keys)) != len(keys) or min(sizes, default=0) < 0:
            raise ValueError("keys and sizes differ")
        if sum(sizes) != len(payload):
            raise ValueError("sizes and payload differ")
        header = json.dumps(record["learner"])
        terms = Terms.from_dict(record["terms"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"state is corrupt: not a pool ({type(error).__name__})") from None
    prototype = described(header)
    learners, at = [], 0
    for size in sizes:
        learners.append(restored(prototype, payload[at : at + size]))
        at += size
    return prototype, terms, keys, learners
