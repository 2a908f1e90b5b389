"""Choosing the event of a black-box audit, from the runs that train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._counts import Counts

__all__ = ["best_given_event", "best_likely_event"]

Members = NDArray[np.bool_]  # whether the event occurred, one entry for each run
Chosen = tuple[str, Members, Members]

# Choosing costs no confidence, so it may be bolder than the test.
_TRAINING_ERROR = 0.05
_LARGEST_CUTS = 1000


def best_given_event(
    events: Sequence[Callable[[Any], Any]],
    ours: NDArray[Any],
    theirs: NDArray[Any],
    train: int,
    delta: float,
) -> Chosen:
    """Return the name and occurrences, on both streams, of the event that looks worst."""
    best: Chosen | None = None
    highest = -1.0
    for event in events:
        first, second = _members(event, ours), _members(event, theirs)
        counts = Counts(int(first[:train].sum()), train, int(second[:train].sum()), train)
        score = counts.epsilon(delta, _TRAINING_ERROR)
        if score > highest:
            best, highest = (getattr(event, "__name__", "given"), first, second), score
    assert best is not None
    return best


def best_likely_event(ours: NDArray[Any], theirs: NDArray[Any], train: int, delta: float) -> Chosen:
    """Return the likelihood-ratio test of the training runs that looks worst.

    Its event: the outcome is one of the k whose frequency on the first stream, relative to that on
    the second, is largest.
    """
    count = len(ours)
    rows = np.concatenate([ours, theirs]).reshape(2 * count, -1)
    values, codes = np.unique(
        rows.ravel() if rows.shape[1] == 1 else rows, axis=0, return_inverse=True
    )
    codes = codes.reshape(2, count)
    seen = np.stack([np.bincount(half[:train], minlength=len(values)) for half in codes])
    # Half a count more for each: values seen on one stream only are ordered by how often.
    order = np.argsort(-(seen[0] + 0.5) / (seen[1] + 0.5), kind="stable")
    order = order[seen.sum(axis=0)[order] > 0]
    hits = np.cumsum(seen[:, order], axis=1)
    last = max(len(order) - 1, 1)
    cuts = np.unique(np.linspace(1, last, min(last, _LARGEST_CUTS)).round().astype(int))
    scores = [
        Counts(int(hits[0, cut - 1]), train, int(hits[1, cut - 1]), train).epsilon(
            delta, _TRAINING_ERROR
        )
        for cut in cuts
    ]
    cut = int(cuts[np.argmax(scores)])
    chosen = np.zeros(len(values), dtype=np.bool_)
    chosen[order[:cut]] = True
    name = f"one of the {cut} relatively likeliest of {len(order)} outcomes"
    return name, chosen[codes[0]], chosen[codes[1]]


def _members(event: Callable[[Any], Any], outcomes: NDArray[Any]) -> Members:
    member = np.asarray(event(outcomes))
    if member.dtype != np.bool_ or member.shape != (len(outcomes),):
        raise ValueError("an event must return one bool for each row of outcomes")
    return member
