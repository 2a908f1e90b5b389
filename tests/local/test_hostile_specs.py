"""Whatever numbers a round has, a device answers it, or raises what is documented, unspent."""

from __future__ import annotations

import collections
import hashlib
import math

import numpy as np
import pytest

import dpoco
from dpoco.local import Hypotheses, LocalClient, RoundSpec
from dpoco.local._messages import HadamardQuery, LossQuery, ThresholdQuery

RNG = np.random.default_rng(3)
CLASSES = [
    Hypotheses(RNG.dirichlet(np.ones(4), 3)),
    Hypotheses(RNG.dirichlet(np.ones(4), 1)),
    Hypotheses(np.ones((2, 1))),
]
TINY = [5e-324, 1e-320, 1e-300, 1e-100, 1e-20, 1e-10]
SHARES = [*TINY, 1e-3, 0.5, math.nextafter(1.0, 0.0)]
EPSILONS = [*SHARES, 1.0, 3.0, 30.0]
NUMBERS = [*EPSILONS, 0.0, -1.0, 2.0, 1e300, math.inf, -math.inf, math.nan]


def answer(hypotheses, spec, label=0):
    """What becomes of a round; whatever is not documented goes up."""
    client = LocalClient(hypotheses, 30.0)
    try:
        client.respond(spec, None, label)
    except (ValueError, TypeError, dpoco.BudgetExceeded) as error:
        assert client.spent == 0.0
        assert client.reports_left == 1
        return type(error).__name__
    return "answered"


def hostile(rng, channel):
    """A class and a round about it, with numbers from the corners."""

    def pick(values):
        return values[int(rng.integers(len(values)))]

    def query():
        kind = pick(("threshold", "hadamard", "loss")) if channel == "bit" else "loss"
        if kind == "threshold":
            return ThresholdQuery([pick(NUMBERS) for _ in range(hypotheses.count)])
        if kind == "hadamard":
            return HadamardQuery(int(pick([1, 2, 3])))
        index = int(rng.integers(hypotheses.count))
        return LossQuery(index, pick(NUMBERS), pick(NUMBERS), pick(NUMBERS))

    hypotheses, epsilon = pick(CLASSES), pick(EPSILONS)
    options = {}
    if channel in ("bit", "coordinate"):
        options["queries"] = [query() for _ in range(pick([1, 3]) if channel == "bit" else 1)]
    else:
        options["subset_size"] = pick([1, 3])
    labels = hypotheses.labels
    return hypotheses, RoundSpec(1, channel, epsilon, hypotheses.count, labels, **options)


@pytest.mark.parametrize(("channel", "rounds"), [("bit", 40), ("subset", 40), ("coordinate", 40)])
def test_numbers_from_the_corners(channel, rounds):
    rng, seen = np.random.default_rng(1), collections.Counter()
    while seen.total() < rounds:
        try:
            hypotheses, spec = hostile(rng, channel)
        except ValueError:  # no round at all
            continue
        seen[answer(hypotheses, spec, label=int(rng.integers(2)))] += 1
        body = bytearray(spec.to_bytes()[:-8])  # and with damage that the digest does not show
        body[int(rng.integers(len(body)))] = int(rng.integers(256))
        answer(hypotheses, bytes(body) + hashlib.sha256(body).digest()[:8])
    assert seen["answered"] >= rounds // 8
    assert set(seen) <= {"answered", "ValueError", "BudgetExceeded"}


@pytest.mark.parametrize("huge", [10**400, -(10**400)], ids=["plus", "minus"])
def test_integers_beyond_doubles(huge):
    with pytest.raises(ValueError, match="must be finite"):
        RoundSpec(1, "subset", huge, 3, 4, subset_size=1)
    query = LossQuery(0, huge, huge, huge)
    assert answer(CLASSES[0], RoundSpec(1, "coordinate", 1.0, 3, 4, queries=[query])) == "answered"
