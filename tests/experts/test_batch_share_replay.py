"""Replay audit of the batched share: what enters its sums, on one random tape.

No statistics are involved: a single violation would prove the claim wrong.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpoco
from dpoco.experts import BatchShare
from dpoco.privacy.mechanisms.batch_release import movement
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

N, T, B = 10, 24, 4


def stream(seed=0):
    return np.random.default_rng(seed).uniform(size=(T, N))


class Twice:
    """A faulty learner whose sums overlap: every round enters two of them."""

    def __init__(self):
        self.rows, self.input = [], np.zeros(N)

    def step(self, row):
        self.rows.append(row)
        if len(self.rows) % B == 0:
            self.input = np.sum(self.rows[-2 * B :], axis=0)
        return self.input, 0


class Ours:
    def __init__(self, noise):
        self.learner = BatchShare(
            N, horizon=T + 1, budget=dpoco.Budget(1.0, 1e-6), noise=noise, batch=B,
            learning_rate=0.5, source=Source.seeded(4),
        )  # fmt: skip

    def step(self, row):
        decision = self.learner.decide()
        self.learner.observe(row)
        return self.learner._engine.nonprivate_input(), decision


def replay(make, react, seeds=range(8)):
    """Return changed inputs per pair, the largest changes in max-norm and l2, and draws."""
    changed, largest, longest = 0, 0.0, 0.0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = stream(seed)
        at = int(rng.integers(T))
        worlds = []
        for replaced in (False, True):
            learner, inputs, decision = make(), [], 0
            for t in range(T):
                row = np.clip(rows[t] + 0.2 * react * (decision % 2), 0.0, 1.0)
                if t == at:  # the two extremes a round can have
                    row = np.arange(N) % 2 if replaced else 1.0 - np.arange(N) % 2
                entered, decision = learner.step(np.asarray(row, dtype=float))
                if (t + 1) % B == 0:
                    inputs.append(entered)
            drawn = learner.learner._engine.variates_drawn() if isinstance(learner, Ours) else []
            worlds.append((np.array(inputs), drawn))
        difference = worlds[0][0] - worlds[1][0]
        touched = np.flatnonzero(np.abs(difference).max(axis=1) > 1e-9)
        assert worlds[0][1] == worlds[1][1]  # the number of draws says nothing
        if len(touched):
            assert touched[0] == at // B
        changed = max(changed, len(touched))
        largest = max(largest, np.abs(difference).max())
        longest = max(longest, math.sqrt(np.max(np.sum(difference**2, axis=1))))
    return changed, largest, longest


@pytest.mark.parametrize("noise", ["knorm", "gaussian", "laplace"])
def test_a_record_enters_one_sum_and_moves_it_by_its_sensitivity(noise):
    changed, largest, longest = replay(lambda: Ours(noise), react=0.0)
    assert changed == 1
    assert largest <= 1.0 + 1e-12
    assert longest <= movement("gaussian", N) * (1 + 1e-12)
    assert longest >= 0.999 * movement("gaussian", N)  # and that is attained
    caught, _, far = replay(Twice, react=0.0)
    assert caught == 2
    assert far > 0


def test_centring_is_what_keeps_an_odd_number_of_experts_in_the_ball():
    n = 3
    options = {"horizon": 9, "budget": dpoco.Budget(1.0, 1e-6), "batch": 4, "learning_rate": 0.1}
    inputs = {}
    for noise in ("gaussian", "knorm"):
        for world in (0.0, 1.0):
            learner = BatchShare(
                n, noise=noise, numerics="float", source=Source.seeded(0), **options
            )
            rows = np.full((4, n), 0.5)
            rows[2] = [world, 1 - world, 1 - world]
            learner.run(rows)
            inputs[noise, world] = learner._engine.nonprivate_input()
    moved = {k: np.linalg.norm(inputs[k, 0.0] - inputs[k, 1.0]) for k in ("gaussian", "knorm")}
    declared = movement("gaussian", 3)
    assert 0.999999998 * declared < moved["gaussian"] <= declared
    assert moved["knorm"] == pytest.approx(math.sqrt(3))
    assert inputs["gaussian", 0.0].sum() == pytest.approx(0.0, abs=1e-12)


def test_sums_of_long_batches_do_not_drift_apart():
    # In plain double precision equal losses round to one unit below a power of two and to another
    # above it: neighbours that stand on either side would drift apart, without end.
    half = 2**17
    learners = []
    for first in (0.0, 1.0):
        learner = BatchShare(
            2, horizon=None, budget=dpoco.Budget(1.0, 0.0), batch=2**22, learning_rate=1e-6,
            share_rate=0.1, source=Source.seeded(0),
        )  # fmt: skip
        learner.run(np.array([[first, 0.0]]))
        learner.run(np.ones((half - 1, 2)))
        tiny = 0.6 * 2.0 ** (17 - 53) * 2.0  # 1.2 units below 2^17, 0.6 above
        learner.run(np.full((2**19, 2), tiny))
        learners.append(learner)
    states = [learner._engine.state() for learner in learners]
    sums = [np.frombuffer(state, dtype="<f8")[-5:-3] for state in states]
    assert sums[1][0] - sums[0][0] == 1.0
    assert sums[0][1] == sums[1][1]


def test_decisions_before_a_batch_ends_do_not_depend_on_it():
    rows = stream()
    learners = [Ours("knorm").learner for _ in range(2)]
    one = learners[0].run(rows[: B * 2]).decisions
    other = learners[1].run(np.vstack([rows[:B], 1.0 - rows[B : 2 * B]])).decisions
    assert np.array_equal(one, other)
    assert not np.array_equal(learners[0].weights, learners[1].weights)
