"""Runs say from released statistics whether drift was seen."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

from dpoco.cli._render import describe_drift


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


def test_a_run_with_drift_says_so(tmp_path, monkeypatch, invoke):
    """Takes a second: three plays of ten thousand rounds."""
    monkeypatch.chdir(tmp_path)
    from dpoco.environments import DriftingRegression

    world = DriftingRegression("turning", 10_000, 2, seed=1, period=5000)
    rows = [f"{a:.5f},{b:.5f},{y:.5f}" for (a, b), y in
            zip(world.features, world.labels, strict=True)]  # fmt: skip
    (tmp_path / "turning.csv").write_text("\n".join(["a,b,y", *rows]))
    asked = ("--label", "y", "--loss", "squared", "--range", "-1:1", "--range", "y=-1:1")
    more = ("--epsilon", "8", "--set", "drift=true", "--set", "figure=false", "--set", "repeats=1")
    result = invoke("run", "turning.csv", *asked, *more)
    assert "Drift was seen: with a half-life of" in " ".join(result.stdout.split())


def test_a_run_says_the_loss_that_may_be_published(tmp_path, monkeypatch, invoke):
    """Takes a second: two plays of two thousand rounds, and a model."""
    monkeypatch.chdir(tmp_path)
    from dpoco.environments import DriftingRegression

    world = DriftingRegression("constant", 2000, 2, seed=1)
    rows = [f"{a:.5f},{b:.5f},{y:.5f}" for (a, b), y in
            zip(world.features, world.labels, strict=True)]  # fmt: skip
    (tmp_path / "log.csv").write_text("\n".join(["a,b,y", *rows]))
    asked = ("--label", "y", "--loss", "squared", "--range", "-1:1", "--range", "y=-1:1")
    own = ("--learner", "noisy-ftrl", "--set", "statistics=quadratic", "--set", "running_loss=true")
    result = invoke(
        "run log.csv", *asked, *own, "--epsilon 8 --set figure=false", "--decision model.json"
    )
    assert "Estimated loss: 0." in " ".join(result.stdout.split())
    model = json.loads((tmp_path / "model.json").read_text())
    mean, deviation, rounds = model["estimated_loss"]
    assert 0.0 < deviation < 0.1
    assert abs(mean) < 1.0
    assert 1000 < rounds <= 2000
