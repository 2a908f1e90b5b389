"""The high-dimensional bandit: what another thread reads never tears a round apart."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import dpoco
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import LpBall
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def test_a_look_from_another_thread_does_not_tear_a_round_apart():
    rounds, arms = 150_000, 8
    learner = HighDimensionalBandit(
        arms, LpBall(4, 1.0), horizon=rounds, budget=dpoco.Budget(1.0, 1e-6),
        arm_learner="polyhedral", forced_rounds=0, batch=1, source=Source.seeded(1),
            context_bound=1.0, reward_bound=1.0
    )  # fmt: skip
    contexts, rewards = np.ones((rounds, 4)), np.ones((rounds, arms))
    failed = []

    def play():
        try:
            learner.run(contexts, rewards)
        except Exception as error:
            failed.append(error)

    player = threading.Thread(target=play)
    player.start()
    refused = 0
    while player.is_alive():
        for _ in range(50):  # what an arm's own guard would let in between two records
            try:
                learner._engine.leaf(3, contexts[0], 1.0)
            except dpoco.RoundOrderError:
                refused += 1
        for look in (
            learner._engine.nonprivate_sums,
            learner._engine.clocks,
            learner._engine.variates_drawn,
        ):
            try:
                look()
            except dpoco.RoundOrderError:
                refused += 1
    player.join()
    # A run of several compiled calls may be refused its next one, but no round is left half done.
    assert all(isinstance(error, dpoco.RoundOrderError) for error in failed)
    assert refused > 0
    assert learner._engine.clocks() == [learner.round] * arms
    assert type(learner)._from_bytes(learner._to_bytes()).round == learner.round
