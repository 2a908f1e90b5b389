"""Runs say from released statistics whether drift was seen."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from dpoco.cli._render import describe_drift
from dpoco.environments import DriftingRegression


def candidate(half_life, excess, deviation=0.001):
    return SimpleNamespace(half_life=half_life, excess=excess, deviation=deviation)


def test_drift_is_seen_beyond_noise_only():
    never, centre = candidate(math.inf, 0.0, 0.0), candidate(None, -1.0)
    seen = describe_drift([never, candidate(3000.0, -0.0101), candidate(100.0, 0.2), centre])
    assert seen == (
        "Drift was seen: with a half-life of 3,000 rounds the estimated loss was 0.01 less a round "
        "than without forgetting."
    )
    assert describe_drift([never, candidate(3000.0, -0.0019), centre]).startswith("No drift")
    assert describe_drift([]) == describe_drift([never, centre]) == ""


@pytest.fixture
def drifting(tmp_path, monkeypatch):
    """Return a function that writes a stream of this kind, and the words that ask for its run."""
    monkeypatch.chdir(tmp_path)

    def written(*kind, **more):
        world = DriftingRegression(*kind, 2, seed=1, **more)
        rows = np.column_stack([world.features, world.labels])
        np.savetxt("log.csv", rows, "%.5f", ",", header="a,b,y", comments="")
        asked = "--label y --loss squared --range -1:1 --range y=-1:1"
        return f"run log.csv {asked} --epsilon 8 --set figure=false"

    return written


def test_a_run_with_drift_says_so(drifting, invoke):
    """Takes a second: three plays of ten thousand rounds."""
    asked = drifting("turning", 10_000, period=5000)
    result = invoke(asked, "--set drift=true --set repeats=1")
    assert "Drift was seen: with a half-life of" in " ".join(result.stdout.split())


def test_a_run_says_the_loss_that_may_be_published(drifting, tmp_path, invoke):
    """Takes a second: two plays of two thousand rounds, and a model."""
    own = "--learner noisy-ftrl --set statistics=quadratic --set running_loss=true"
    result = invoke(drifting("constant", 2000), own, "--decision model.json")
    assert "Estimated loss: 0." in " ".join(result.stdout.split())
    model = json.loads((tmp_path / "model.json").read_text())
    mean, deviation, _ = model["estimated_loss"]
    assert 0.0 < deviation < 0.1
    assert abs(mean) < 1.0
