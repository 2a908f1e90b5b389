"""Worlds: what they promise about losses, seeds, decisions and comparators."""

from __future__ import annotations

import numpy as np
import pytest
from bench.worlds import AdversarialBlocks, ObliviousSwitching, Packing
from tests.worlds import BurnAfterPlay

from dpoco.environments import SwitchingStochastic
from dpoco.errors import HorizonExceeded
from dpoco.evaluation import best_switching_sequence

WORLDS = {
    "stochastic": lambda seed: SwitchingStochastic(5, 60, switches=3, gap=0.5, seed=seed),
    "oblivious": lambda seed: ObliviousSwitching(4, 60, switches=2, period=7.5, seed=seed),
    "blocks": lambda seed: AdversarialBlocks(3, 60, block=4, seed=seed),
    "packing": lambda seed: Packing(80, 60, epsilon=0.3, phases=2, seed=seed),
    "burn": lambda seed: BurnAfterPlay(130, 60, switches=1, seed=seed),
}
OBLIVIOUS = [name for name in WORLDS if name != "burn"]


def losses_met(world, decisions):
    """Every row of the game in which `decisions` are played, from the current round on."""
    rows = []
    for decision in decisions:
        rows.append(world.losses().copy())
        world.observe(int(decision))
    return np.array(rows)


@pytest.mark.parametrize("name", WORLDS)
def test_losses_are_in_the_unit_interval_and_there_are_as_many_as_said(name):
    world = WORLDS[name](1)
    rows = losses_met(world, np.zeros(60, dtype=int))
    assert rows.shape == (60, world.experts)
    assert rows.min() >= 0.0
    assert rows.max() <= 1.0
    assert world.round == world.horizon == 60
    with pytest.raises(HorizonExceeded):
        world.losses()
    with pytest.raises(HorizonExceeded):
        world.observe(0)


@pytest.mark.parametrize("name", WORLDS)
def test_a_seed_is_a_world_and_reset_brings_it_back(name):
    plays = np.random.default_rng(0).integers(0, 3, 60)
    world = WORLDS[name](1)
    first = losses_met(world, plays)
    world.reset()
    assert np.array_equal(losses_met(world, plays), first)
    other = WORLDS[name](2)
    if name != "blocks":  # where nothing is random
        assert not np.array_equal(losses_met(other, plays), first)
    other.reset(1)
    assert np.array_equal(losses_met(other, plays), first)
    assert np.array_equal(losses_met(WORLDS[name](1), plays), first)


def test_without_a_seed_worlds_differ_but_repeat_themselves():
    one, two = (SwitchingStochastic(3, 200, gap=0.1) for _ in range(2))
    assert not np.array_equal(one.matrix(), two.matrix())
    before = one.matrix().copy()
    one.reset()
    assert np.array_equal(one.matrix(), before)


@pytest.mark.parametrize("name", WORLDS)
def test_losses_are_fixed_before_the_decision_is_seen(name):
    asked, not_asked = WORLDS[name](3), WORLDS[name](3)
    for t in range(60):
        row = asked.losses()
        assert asked.losses() is row  # however often it is asked for
        with pytest.raises(ValueError, match="read-only"):
            row[0] = 0.5
        decision = (7 * t) % asked.experts
        asked.observe(decision)
        not_asked.observe(decision)  # the losses of the round exist all the same
    assert not_asked.round == 60
    if name == "burn":
        assert np.array_equal(asked.comparator(), not_asked.comparator())


@pytest.mark.parametrize("name", OBLIVIOUS)
def test_oblivious_worlds_do_not_care_about_decisions(name):
    world = WORLDS[name](4)
    generator = np.random.default_rng(0)
    rows = losses_met(world, generator.integers(0, world.experts, 60))
    assert np.array_equal(rows, world.matrix())
    with pytest.raises(ValueError, match="read-only"):
        world.matrix()[0, 0] = 0.5


@pytest.mark.parametrize("name", OBLIVIOUS)
def test_comparators_are_what_the_world_was_made_for(name):
    world = WORLDS[name](5)
    sequence = world.comparator()
    assert sequence.shape == (60,)
    assert sequence.dtype == np.int64
    switches = int(np.count_nonzero(np.diff(sequence)))
    expected = {"stochastic": 3, "oblivious": 2, "blocks": 14, "packing": 1}[name]
    assert switches == expected
    lost = world.matrix()[np.arange(60), sequence]
    best = best_switching_sequence(world.matrix(), switches)
    assert best.total_loss <= lost.sum() + 1e-9
    if name in ("blocks", "packing"):
        assert lost.sum() == 0.0


def test_the_gap_of_stochastic_losses_is_the_declared_one():
    world = SwitchingStochastic(4, 40_000, switches=3, gap=0.3, seed=0)
    matrix, best = world.matrix(), world.comparator()
    assert set(np.unique(matrix)) == {0.0, 1.0}
    good = matrix[np.arange(40_000), best]
    others = matrix.sum() - good.sum()
    # Five standard deviations of a mean of 40 000 or 120 000 coins.
    assert good.mean() == pytest.approx(0.35, abs=5 * 0.5 / 200)
    assert others / 120_000 == pytest.approx(0.65, abs=5 * 0.5 / 346)
    assert np.flatnonzero(np.diff(best)).tolist() == [9_999, 19_999, 29_999]


def test_waves_are_not_stationary_but_have_the_gap_over_periods():
    world = ObliviousSwitching(3, 640, gap=0.5, period=64, seed=2)
    matrix, good = world.matrix(), world.comparator()[0]
    means = matrix.reshape(10, 64, 3).mean(axis=1)
    for j in range(3):
        np.testing.assert_allclose(means[:, j], 0.25 if j == good else 0.75, atol=1e-9)
    # Half a period misleads: the good expert's worst is no better than a bad one's best.
    half = matrix.reshape(20, 32, 3).mean(axis=1)
    assert half[:, good].max() - half[:, good].min() > 0.25
    assert matrix[:, good].max() == pytest.approx(0.5, abs=0.01)


def test_blocks_take_turns():
    assert AdversarialBlocks(2, 6, block=2).matrix().tolist() == [
        [0, 1], [0, 1], [1, 0], [1, 0], [0, 1], [0, 1],
    ]  # fmt: skip


def test_segments_cover_every_horizon():
    for rounds in range(1, 12):
        for switches in range(rounds):
            best = SwitchingStochastic(2, rounds, switches=switches, seed=0).comparator()
            assert len(best) == rounds
            assert np.count_nonzero(np.diff(best)) == switches


def test_a_decision_that_is_none_changes_nothing():
    world = BurnAfterPlay(40, 10, seed=0)
    row = world.losses()
    for bad, error in [(40, ValueError), (-1, ValueError), (0.0, TypeError), (True, TypeError)]:
        with pytest.raises(error, match="decision must be"):
            world.observe(bad)
    assert world.round == 0
    assert world.losses() is row
