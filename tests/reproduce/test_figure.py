"""The bandit figure rerun: small worlds, fixed seeds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bench import reproduce
from bench.reproduce.figure import SparseWorld, not_private_regrets


@pytest.fixture(scope="module")
def small():
    return reproduce.figure_5_1(horizon=1500, dimension=10, arms=(2, 3), runs=2)


def regrets(worlds, **options):
    settings = {"epsilon": 1.0, "factor": 1.0, "shared": False, "leak": True, **options}
    played = not_private_regrets(worlds, generator=np.random.default_rng(3), **settings)
    return played.sum(axis=1)


def test_noise_does_not_matter_to_the_leak():
    """A thousand times the noise: the same regret, still below random play; no leak, no luck."""
    worlds = [SparseWorld(2, 20, 4000, seed=seed) for seed in range(6)]
    blind = np.array([(w.means.max(axis=1) - w.means.mean(axis=1)).sum() for w in worlds])
    one, thousand = regrets(worlds), regrets(worlds, factor=1000.0)
    assert abs(thousand.mean() / one.mean() - 1.0) < 0.15
    assert thousand.mean() < 0.7 * blind.mean()
    assert regrets(worlds, factor=1000.0, leak=False).mean() > 0.85 * blind.mean()
    assert regrets(worlds, factor=0.0).mean() < 0.3 * blind.mean()
    shared = [regrets(worlds, factor=f, shared=True).mean() for f in (1.0, 1000.0)]
    assert abs(shared[1] / shared[0] - 1.0) < 0.15


def test_the_world():
    world = SparseWorld(3, 50, 2000, seed=1)
    assert np.abs(world.contexts).max(axis=1) == pytest.approx(1.0)
    assert np.sum(world.coefficients != 0.0, axis=1).tolist() == [5, 5, 5]
    assert set(np.unique(world.coefficients)) == {0.0, 0.2}
    assert np.abs(world.rewards).max() <= world.reward_bound
    two = SparseWorld(2, 50, 10_000, seed=0)
    per_round = (two.means.max(axis=1) - two.means.mean(axis=1)).mean()
    assert 0.07 < per_round < 0.13  # what uniformly random play loses in the paper's world


def test_players(small):
    two = {curve.player: curve for curve in small.curves if curve.arms == 2}
    assert len(two) == len(small.curves) // 2 == 12
    for curve in small.curves:
        assert len(curve.mean) == len(small.rounds)
        assert len(curve.totals) == 2
        assert curve.mean[-1] == pytest.approx(curve.total)
        assert np.all(np.diff(curve.mean) >= -1e-12)
    assert small.rounds[-1] == 1500
    assert two["HDB, no noise"].total < 0.5 * two["uniformly random"].total
    assert two["HDB, no noise"].late < 0.2 * two["uniformly random"].late
    private = {name for name, curve in two.items() if curve.private}
    assert private == {"uniformly random", "LinUCB", "HDB"}


def test_json_frame_and_text(small):
    assert reproduce.Figure51.from_dict(json.loads(small.to_json())) == small
    text = small.format_markdown()
    assert sum(line.startswith("| 2 |") for line in text.splitlines()) == 12
    assert "| 3 | HDB | yes |" in text
    assert "not private" in repr(small)
    with pytest.raises(ValueError, match="not a report"):
        reproduce.Figure51.from_dict({})
    with pytest.raises(ValueError, match="malformed"):
        reproduce.Figure51.from_dict({**small.to_dict(), "curves": [{}]})
    pytest.importorskip("pandas")
    assert len(small.to_frame()) == 24 * len(small.rounds)
