"""Checks of what surrounds the noise: keys, states, horizons, copies, messages, ledgers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np

import dpoco

__all__ = [
    "charged_first",
    "copies",
    "horizon",
    "keys",
    "messages",
    "once",
    "resume",
    "same_size",
    "streams",
]


def horizon(subject: Any) -> bool:
    """Past its horizon a mechanism answers, or draws, instead of raising `HorizonExceeded`."""
    learner = subject.start()
    for _ in range(subject.rounds):
        subject.step(learner)
    before = learner._engine.state()
    try:
        subject.step(learner)
    except dpoco.HorizonExceeded:
        return bool(learner._engine.state() != before)
    return True


def resume(subject: Any) -> bool:
    """What continues from a saved state differs from what was never interrupted."""
    whole = subject.start()
    released = [subject.step(whole) for _ in range(subject.rounds)]
    parted = subject.start()
    again = [subject.step(parted) for _ in range(subject.rounds // 2)]
    parted = subject.restored(parted)
    again += [subject.step(parted) for _ in range(subject.rounds - len(again))]
    return not np.array_equal(released, again)


def once(subject: Any) -> bool:
    """A restored mechanism gives another answer in a round that was answered before."""
    learner = subject.start()
    saved = subject.saved(learner)
    first = subject.step(learner)
    second = subject.step(subject.loaded(saved))
    return not np.array_equal(first, second)


def copies(subject: Any) -> bool:
    """A copy of a started mechanism is active, or a clone has the noise of its original."""
    learner = subject.start()
    subject.step(learner)
    for make in (copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
        try:
            subject.step(make(learner))
        except dpoco.StateError:
            continue
        return True
    return bool(np.array_equal(subject.step(subject.start()), subject.step(learner.clone())))


def keys(subject: Any) -> bool:
    """Keys repeat, have bits that never vary, or are reproducible without saying so."""
    found = [subject.key() for _ in range(200)]
    bits = np.unpackbits(np.frombuffer(b"".join(found), dtype=np.uint8)).reshape(len(found), -1)
    constant = (bits.min(axis=0) == bits.max(axis=0)).any()
    return bool(constant or len(set(found)) < len(found) or bits.shape[1] < 256)


def streams(subject: Any) -> bool:
    """Two users of one source draw the same noise."""
    drawn = [np.asarray(each) for each in subject.noises()]
    return any(np.array_equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])


# No number of the library's own has these digits.
CANARY = 73.19462857


def messages(subject: Any) -> bool:
    """A record shows in an exception or in a `repr`."""
    learner = subject.start()
    texts = []
    for value in subject.odd_values(CANARY):
        try:
            subject.give(learner, value)
        except Exception as error:
            texts.append(f"{error} {error.__cause__} {error.__context__}")
            if subject.allowed(value):
                return True  # whether it raises depends on the data
        texts.append(repr(learner))
    return any("73.19" in text for text in texts)


def charged_first(subject: Any) -> bool:
    """Something is drawn though the budget is used up, or was drawn before it was charged."""
    return bool(subject.drawn_beyond_budget())


def same_size(subject: Any) -> bool:
    """Whether, and how much, a device sends depends on its label."""
    sizes = {None if each is None else len(each) for each in subject.reports()}
    return len(sizes) != 1 or None in sizes
