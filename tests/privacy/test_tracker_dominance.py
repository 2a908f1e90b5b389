"""The tracker's accountant against exact laws of tiny instances.

The laws come from the explicit reduction: one meta-expert for each sequence of experts, weights
and coins as in the definition, all transcripts of experts and flags enumerated. Nothing here is
shared with the engine, which never holds a sequence.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dpoco.privacy.losses.flagged_draws import FlaggedDraws

ORDERS = np.array([1.05, 2.0, 8.0, 64.0])


def meta_experts(experts, rounds):
    return np.array(list(itertools.product(range(experts), repeat=rounds)))


def prior_mass(meta, experts, kind, parameter):
    """Share prior of rate `parameter`, or uniform over at most `parameter` switches."""
    switches = (np.diff(meta, axis=1) != 0).sum(axis=1)
    rounds = meta.shape[1]
    if kind == "at_most":
        mass = (switches <= parameter).astype(float)
        return mass / mass.sum()
    move = parameter / (experts - 1)
    return move**switches * (1 - parameter) ** (rounds - 1 - switches) / experts


def transcript_law(losses, *, eta, forced, batch, kind, parameter, cap=None):
    """Return the probabilities of all (flags, path); flags[b] tells a fresh draw after batch b.

    `losses` has shape (T, N), or (paths, T, N) for an adversary that looks at the path.
    """
    rounds, experts = losses.shape[-2:]
    meta = meta_experts(experts, rounds)
    losses = np.broadcast_to(losses, (len(meta), rounds, experts))
    weights = np.broadcast_to(prior_mass(meta, experts, kind, parameter), (len(meta),) * 2)
    # One entry for each (flags, draws) so far: rows are paths, columns the current meta-expert.
    rows = {((), 0): weights}
    for start in range(0, rounds, batch):
        part = np.arange(start, min(start + batch, rounds))
        agrees = (meta[:, None, part] == meta[None, :, part]).all(axis=2)
        loss = losses[:, part, meta[:, part]].sum(axis=2)
        weights = weights * np.exp(-eta * loss)
        rows = {key: mass * agrees for key, mass in rows.items()}
        if part[-1] == rounds - 1:
            break
        keep = (1 - forced) * np.exp(-eta * loss)
        following = {}
        for (flags, draws), mass in rows.items():
            if cap is not None and draws >= cap:
                following[((*flags, 0), draws)] = mass
                continue
            following[((*flags, 0), draws)] = mass * keep
            fresh = (mass * (1 - keep)).sum(axis=1, keepdims=True)
            law = weights / weights.sum(axis=1, keepdims=True)
            following[((*flags, 1), draws + 1)] = fresh * law
        rows = following
    return np.stack([mass.sum(axis=1) for _, mass in sorted(rows.items())])


def divergences(p, q):
    """Return log moments at `ORDERS` and the largest absolute log-ratio."""
    inside = (p > 0) & (q > 0)
    assert not ((p > 1e-13) != (q > 1e-13)).any()
    log_p, log_q = np.log(p[inside]), np.log(q[inside])
    logs = [np.logaddexp.reduce(a * log_p + (1 - a) * log_q) for a in ORDERS]
    return np.array(logs), float(np.abs(log_p - log_q).max())


CONFIGURATIONS = [
    # experts, rounds, eta, p, B, prior, sigma or S, cap
    (2, 5, 0.5, 0.3, 1, "share", 0.1, None),
    (2, 5, 0.5, 1.0, 1, "share", 0.2, None),
    (2, 6, 0.4, 0.2, 2, "share", 0.1, None),
    (2, 6, 0.4, 0.05, 3, "share", 0.3, None),
    (2, 5, 0.7, 1.0, 1, "share", 0.5, None),
    (2, 5, 1.0, 0.1, 2, "share", 0.0, None),
    (3, 4, 0.5, 0.3, 1, "share", 0.3, None),
    (3, 4, 0.5, 1.0, 2, "share", 0.1, None),
    (3, 4, 0.6, 0.2, 1, "at_most", 1, None),
    (2, 5, 0.6, 1.0, 2, "at_most", 2, None),
    (2, 5, 0.8, 0.3, 1, "share", 0.1, 1),
    (2, 5, 0.8, 1.0, 1, "share", 0.1, 2),
    (2, 5, 0.8, 0.6, 1, "at_most", 1, 2),
    (2, 4, 0.5, 0.3, 5, "share", 0.1, None),
    (2, 7, 0.5, 1.0, 3, "share", 0.2, None),
]


def tracker_of(configuration):
    experts, rounds, eta, forced, batch, kind, parameter, cap = configuration
    rate = parameter if kind == "share" else None
    return FlaggedDraws(eta, forced, batch, rounds, rate, experts, kind, cap)


def neighbours(random, experts, rounds, batch, count):
    """Yield pairs of 0/1 streams that differ in one round; half of them built to be bad."""
    for trial in range(count):
        losses = random.integers(0, 2, (rounds, experts)).astype(float)
        changed = trial % rounds
        if trial % 2:
            # Nothing but the changed round tells the experts apart.
            losses[:] = losses[:, :1]
            changed = min(rounds - 1, (trial // 2) % batch + batch * (trial % 3))
        other = losses.copy()
        losses[changed] = np.arange(experts) % 2
        other[changed] = 1 - losses[changed]
        if trial % 3 == 2:
            losses, other = (against_the_last(rows) for rows in (losses, other))
        yield losses, other


def against_the_last(losses):
    """Return losses (paths, T, N) of an adversary who flips that of the expert just played."""
    rounds, experts = losses.shape
    meta = meta_experts(experts, rounds)
    result = np.repeat(losses[None], len(meta), axis=0)
    paths = np.arange(len(meta))
    for t in range(1, rounds):
        played = meta[:, t - 1]
        result[paths, t, played] = 1 - result[paths, t, played]
    return result


def worst(configuration, count=30):
    experts, rounds, eta, forced, batch, kind, parameter, cap = configuration
    random = np.random.default_rng(3)
    keywords = dict(eta=eta, forced=forced, batch=batch, kind=kind, parameter=parameter, cap=cap)
    moments, pure = np.zeros(len(ORDERS)), 0.0
    for first, second in neighbours(random, experts, rounds, batch, count):
        p, q = transcript_law(first, **keywords), transcript_law(second, **keywords)
        assert p.sum() == pytest.approx(1.0)
        for a, b in ((p, q), (q, p)):
            logs, ratio = divergences(a, b)
            moments, pure = np.maximum(moments, logs), max(pure, ratio)
    return moments, pure


@pytest.fixture(scope="module")
def measured():
    return {c: worst(c) for c in CONFIGURATIONS}


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_transcripts_with_flags_are_within_the_account(configuration, measured):
    moments, pure = measured[configuration]
    bound = tracker_of(configuration).moments(ORDERS)
    assert (moments <= bound + 1e-12).all()
    assert pure <= tracker_of(configuration).pure + 1e-9


def test_the_account_is_nearly_attained(measured):
    configuration = CONFIGURATIONS[1]
    moments, pure = measured[configuration]
    tracker = tracker_of(configuration)
    assert (moments > 0.75 * tracker.moments(ORDERS)).any()
    assert pure > 0.45 * tracker.pure  # all draws at their worst at once do not occur


def test_planted_errors_are_caught(measured):
    """Half the range, forgetting counted twice, a forgotten coin: each is refuted by some law."""

    def refuted(change):
        return any(
            (measured[c][0] > change(tracker_of(c)).moments(ORDERS) + 1e-12).any()
            for c in CONFIGURATIONS
        )

    assert not refuted(lambda tracker: tracker)
    assert refuted(lambda t: replace(t, learning_rate=0.5 * t.learning_rate))
    assert refuted(lambda t: replace(t, learning_rate=0.9 * t.learning_rate))
    assert refuted(lambda t: replace(t, forced_switch=1.0))  # no coin
    assert refuted(lambda t: replace(t, share_rate=min(0.5, 1.5 * (t.share_rate or 0.0))))
    assert refuted(lambda t: replace(t, batch=2 * t.batch))
    assert refuted(lambda t: replace(t, horizon=t.horizon - 1))


def test_published_transcript_probabilities():
    """Numbers from an independent implementation: N = 3, T = 6, eta = 1, p = 1/4."""
    rows = [(0, 1, 0.5), (1, 0, 0.25), (0.5, 0.5, 0), (0, 1, 1), (1, 0.25, 0), (0, 0, 1)]
    losses = np.array(rows, dtype=float)
    law = transcript_law(losses, eta=1.0, forced=0.25, batch=2, kind="share", parameter=0.2)
    paths = law.sum(axis=0)
    meta = meta_experts(3, 6)
    for path, value in [((0,) * 6, 0.0438455416065), ((0, 1, 2, 0, 2, 1), 8.53457776299e-06)]:
        at = int(np.flatnonzero((meta == path).all(axis=1))[0])
        assert paths[at] == pytest.approx(value, rel=1e-11)
    law = transcript_law(losses, eta=1.0, forced=0.25, batch=1, kind="at_most", parameter=2)
    at = int(np.flatnonzero((meta == (2, 2, 1, 1, 0, 0)).all(axis=1))[0])
    assert law.sum(axis=0)[at] == pytest.approx(0.00331435197098, rel=1e-11)


def test_single_batch_releases_nothing():
    """The path follows the prior, so its law does not move at all."""
    moments, pure = worst(CONFIGURATIONS[13], count=4)
    assert moments.max() < 1e-12
    assert pure < 1e-12
    assert tracker_of(CONFIGURATIONS[13]).moments(ORDERS).max() == 0.0
    assert math.isclose(tracker_of(CONFIGURATIONS[13]).pure, 0.0)
