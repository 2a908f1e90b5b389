"""Black-box audits of mechanisms that are just private enough, and of outcomes that are no vectors.

The first must not be accused more often than stated, the second must not hide in what is learned.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpoco.audit import AnytimeAudit, black_box_audit, learn_event

EPSILON, DELTA = 0.5, 0.02
LIES = 1.0 / (1.0 + math.exp(EPSILON))


def generator(source):
    return np.random.default_rng(source.words(2))


def response(bit, count, source):
    """Randomised response: of all mechanisms of this epsilon the one that tells most."""
    return np.where(generator(source).random(count) < LIES, 1 - bit, bit)


def announcement(bit, count, source):
    """Tells the bit with probability DELTA, and responds at random otherwise."""
    told = generator(source.spawn()).random(count) < DELTA
    return np.where(told, 10 + bit, response(bit, count, source))


def heavy(bit, count, source):
    """A response with a size that has no moments."""
    size = np.abs(generator(source.spawn()).standard_cauchy(count)) ** 3
    return ((2 * response(bit, count, source) - 1) * size)[:, None]


@pytest.mark.parametrize(
    ("run", "delta"),
    [(response, 0.0), (announcement, DELTA), (heavy, 0.0)],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
@pytest.mark.parametrize("trials", [60, 400])
def test_the_worst_mechanism_that_keeps_a_claim_is_rarely_accused(run, delta, trials):
    """At confidence 0.8; four tails share the error, so that the rate is far below 0.2."""
    looks = 120
    accused = sum(
        black_box_audit(
            run, 0, 1, epsilon=EPSILON, delta=delta, trials=trials, confidence=0.8, seed=seed
        ).violated
        for seed in range(looks)
    )
    assert accused <= 16  # 24 would be allowed; about 2 are expected


@pytest.mark.parametrize(("run", "delta"), [(response, 0.0), (announcement, DELTA)])
def test_the_same_of_whoever_stops_when_it_pleases(run, delta):
    from dpoco.random import Source

    source, accused = Source.seeded(5), 0
    for _ in range(100):
        audit = AnytimeAudit(
            epsilon=EPSILON,
            delta=delta,
            confidence=0.8,
            events=[lambda x: x >= 10, lambda x: x % 10 == 1],
        )
        for _ in range(15):
            audit.update(*(run(bit, 40, source.spawn()) for bit in (0, 1)))
        accused += audit.violated
    assert accused <= 20


def normal(count, source, width=2):
    return generator(source).normal(size=(count, width))


def missing(bit, count, source):
    rows = normal(count, source)
    rows[:, 1] = math.nan if bit else rows[:, 1]
    return rows


def sometimes_missing(bit, count, source):
    rows = normal(count, source)
    rows[: count // 4 * bit] = math.nan
    return generator(source.spawn()).permutation(rows)


def infinite(bit, count, source):
    rows = normal(count, source)
    rows[:, 0] = -math.inf if bit else rows[:, 0]
    return rows


def enormous(bit, count, source):
    return 1e200 * (normal(count, source) + np.array([8.0 * bit, 0.0]))


def minute(bit, count, source):
    return 1e-200 * (normal(count, source) + np.array([8.0 * bit, 0.0]))


def least(bit, count, source):
    return np.full((count, 1), 5e-324 * bit)


def mixed(bit, count, source):
    """Finite differences are found although other entries are not finite."""
    rows = normal(count, source, 3) + np.array([0.0, 0.0, 6.0 * bit])
    rows[:, 0], rows[:, 1] = math.nan, math.inf
    return rows


RUNS = [missing, sometimes_missing, infinite, enormous, minute, least, mixed]


@pytest.mark.parametrize("run", RUNS)
def test_learned_events_see_what_is_not_finite_and_any_scale(run):
    report = black_box_audit(run, 0, 1, epsilon=1.0, trials=1000)
    assert report.violated
    assert report.measured > 1.5


@pytest.mark.parametrize(
    "outcomes",
    [
        np.array(["a", "b"]),
        np.array([1.0 + 2.0j, 3.0]),
        np.zeros((4, 0)),
        np.array([{}, None], object),
    ],
)
def test_what_cannot_be_learned_from_is_refused_without_naming_it(outcomes):
    with pytest.raises(TypeError, match="real numbers; bring your own") as found:
        learn_event(outcomes, outcomes)
    assert found.value.__cause__ is None
