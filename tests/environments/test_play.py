"""Playing: who learns what when, and what is written down."""

from __future__ import annotations

import numpy as np
import pytest
from bench.worlds import AdversarialBlocks
from tests.worlds import BurnAfterPlay

from dpoco.environments import SwitchingStochastic, play
from dpoco.evaluation import best_switching_sequence


class Diary:
    """A world and a player in one, that write down what happens to them."""

    def __init__(self):
        self.events = []

    def spy(self, world):
        draw, answer = world._draw, world._answer

        def drawn():
            self.events.append("losses")
            return draw()

        def answered(decision, row):
            self.events.append(f"world sees {decision}")
            answer(decision, row)

        world._draw, world._answer = drawn, answered
        return world

    def decide(self):
        self.events.append("decide")
        return len(self.events) % 2

    def observe(self, losses):
        self.events.append("learner sees")


def test_losses_come_before_decisions():
    diary = Diary()
    play(diary, diary.spy(BurnAfterPlay(40, 2, seed=0)))
    assert diary.events[:4] == ["losses", "decide", "world sees 0", "learner sees"]
    assert len(diary.events) == 8


def test_the_trace_says_what_was_played(players):
    world = AdversarialBlocks(2, 6, block=2)
    trace = play(players.FollowTheLeader(2), world)
    assert trace.decisions.tolist() == [0, 0, 0, 0, 0, 0]
    assert trace.losses.tolist() == [0, 0, 1, 1, 0, 0]
    assert trace.first_round == 0
    assert len(trace.switches) == 0
    best = best_switching_sequence(world.matrix(), 2)
    assert trace.regret(best)[-1] == 2.0
    assert trace.regret(world.comparator())[-1] == 2.0


def test_adaptive_losses_are_recorded_as_they_were_met(players):
    world = BurnAfterPlay(200, 50, seed=4)
    trace = play(players.Uniform(200, 1), world)
    world.reset()
    for t, decision in enumerate(trace.decisions):
        row = world.losses()
        assert trace.losses[t] == row[decision]
        for j in (0, 7, 199):
            assert trace.comparator_losses(j)[t] == row[j]
        world.observe(int(decision))


def test_a_game_may_be_played_in_parts(players):
    whole, parts = (SwitchingStochastic(4, 90, switches=1, seed=3) for _ in range(2))
    together = play(players.FollowTheLeader(4), whole)
    player = players.FollowTheLeader(4)
    first, second = play(player, parts, rounds=30), play(player, parts)
    assert len(first) == 30
    assert len(second) == 60
    assert np.array_equal(np.concatenate([first.losses, second.losses]), together.losses)
    assert np.array_equal(np.concatenate([first.decisions, second.decisions]), together.decisions)
    assert np.array_equal(second.comparator_losses(2), parts.matrix()[30:, 2])


def test_bad_games_are_refused(players):
    world = SwitchingStochastic(3, 5, seed=0)
    with pytest.raises(ValueError, match="the learner has 4 experts, the world 3"):
        play(players.Uniform(4, 0), world)
    with pytest.raises(ValueError, match="rounds must be in"):
        play(players.FollowTheLeader(3), world, rounds=6)
    with pytest.raises(TypeError, match="rounds must be an int"):
        play(players.FollowTheLeader(3), world, rounds=2.0)
    assert world.round == 0
    play(players.FollowTheLeader(3), world)
    with pytest.raises(ValueError, match="rounds must be left in the world"):
        play(players.FollowTheLeader(3), world)
