"""The checks: each says whether it notices something, by what a subject says about itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpoco.audit import (
    black_box_audit,
    check_learner,
    likelihood_audit,
    replay_audit,
)

__all__ = [
    "black_box",
    "closed_form",
    "contract",
    "difference_attack",
    "drift",
    "enumeration",
    "law",
    "likelihood",
    "replay",
    "sampled_losses",
    "utility",
]


def replay(subject: Any) -> bool:
    """`dpoco.audit.replay_audit`: the same tape on neighbouring streams."""
    try:
        return bool(replay_audit(subject.make, subject.stream, subject.pairs).findings)
    except ValueError as error:  # refused: nothing can be said about a learner like this
        return "repeat themselves" in str(error) or "source it is called with" in str(error)


def likelihood(subject: Any) -> bool:
    """`dpoco.audit.likelihood_audit`: exact privacy losses of whole transcripts."""
    trials = getattr(subject, "trials", 500)
    return likelihood_audit(subject.make, subject.stream, subject.neighbour, trials).violated


def black_box(subject: Any) -> bool:
    """`dpoco.audit.black_box_audit`: frequencies of events."""
    return black_box_audit(
        subject.run,
        subject.stream,
        subject.neighbour,
        epsilon=subject.epsilon,
        delta=getattr(subject, "delta", 0.0),
        trials=subject.runs,
        events=getattr(subject, "events", None),
    ).violated


def contract(subject: Any) -> bool:
    """`dpoco.audit.check_learner`: a rule of the contract of all learners is broken."""

    def make(**given: Any) -> Any:
        return subject.kind(3, **subject.options, **given)

    try:
        check_learner(make, checks=[subject.rule])
    except AssertionError:
        return True
    return False


def closed_form(subject: Any) -> bool:
    """The claimed curve lies below the one known in closed form."""
    return any(subject.claim(e) < subject.closed_form(e) * (1.0 - 1e-9) for e in subject.epsilons)


def enumeration(subject: Any) -> bool:
    """A claim of pure privacy is below the largest log-ratio that enumeration finds."""
    return bool(subject.worst() > subject.claimed * (1.0 + 1e-6))


def sampled_losses(subject: Any) -> bool:
    """Exact privacy losses of sampled noise show a larger delta than is claimed, at 1e-6."""
    epsilon, delta = subject.point
    losses = subject.losses()
    seen = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - losses)))
    return bool(seen.mean() - np.sqrt(np.log(1e6) / (2.0 * len(losses))) > delta)


def law(subject: Any) -> bool:
    """Draws are no sample of the law that the accounting is about."""
    return far_from(subject.draw(), subject.cdf)


def difference_attack(subject: Any) -> bool:
    """Noise used twice: releases of no data whose differences repeat, in many coordinates at once.

    Differences of values on a grid may agree by chance in a coordinate, not in eight.
    """
    rows = np.concatenate([np.zeros((1, subject.dimension)), subject.run(subject.dimension, 3)])
    pairs = [rows[t] - rows[s] for t in range(len(rows)) for s in range(t)]
    scale = np.std(rows[1:])
    return any(
        np.all(np.abs(a - sign * b) < 1e-2 * scale)
        for i, a in enumerate(pairs)
        for b in pairs[:i]
        for sign in (-1.0, 1.0)
    )


def drift(subject: Any) -> bool:
    """Sums of neighbouring streams end further apart than the replaced records are."""
    moved = []
    for t in range(0, len(subject.rows), 400):
        other = subject.rows.copy()
        other[t] = -subject.bound
        apart = subject.total(subject.rows) - subject.total(other)
        moved.append(np.abs(apart) / np.abs(subject.rows[t] - other[t]))
    return bool(np.max(moved) > 1.0 + 1e-9)


def utility(subject: Any) -> bool:
    """A learner with little noise is no better than one that does not look."""
    return bool(subject.play(subject.make) >= subject.blind)


def far_from(sample: Any, cdf: Any, error: float = 1e-6) -> bool:
    """Whether a sample is none of a law: Dvoretzky, Kiefer and Wolfowitz, at most `error` wrong."""
    x = np.sort(np.ravel(sample))
    n = len(x)
    values = cdf(x)
    far = max(np.max(np.arange(1, n + 1) / n - values), np.max(values - np.arange(n) / n))
    return bool(far > np.sqrt(np.log(2.0 / error) / (2.0 * n)))
