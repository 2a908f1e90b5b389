"""Checks of what surrounds the noise: keys, ledgers, reports."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["charged_first", "keys", "same_size"]


def keys(subject: Any) -> bool:
    """Keys repeat, have bits that never vary, or are reproducible without saying so."""
    found = [subject.key() for _ in range(200)]
    bits = np.unpackbits(np.frombuffer(b"".join(found), dtype=np.uint8)).reshape(len(found), -1)
    constant = (bits.min(axis=0) == bits.max(axis=0)).any()
    return bool(constant or len(set(found)) < len(found) or bits.shape[1] < 256)


def charged_first(subject: Any) -> bool:
    """Something is drawn though the budget is used up, or was drawn before it was charged."""
    return bool(subject.drawn_beyond_budget())


def same_size(subject: Any) -> bool:
    """Whether, and how much, a device sends depends on its label."""
    sizes = {None if each is None else len(each) for each in subject.reports()}
    return len(sizes) != 1 or None in sizes
