"""Regret per round and its bounds in a figure."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.evaluation import best_fixed_decision, repeat_runs
from dpoco.plotting import plot_regret_per_round


def test_lines_and_triangles_are_where_the_numbers_say():
    domain, loss = dpoco.domains.LpBall(2, 2.0, 1.0), dpoco.losses.LinearLoss(1.0)
    gradients = np.tile([0.5, -0.2], (300, 1))

    def build(source):
        return dpoco.oco.NoisyFTRL(
            domain, loss, horizon=300, budget=dpoco.Budget(2.0, 1e-4), source=source
        )

    runs = repeat_runs(build, gradients, repeats=3, seed=0)
    best = best_fixed_decision(domain, loss, gradients)
    axes = plot_regret_per_round(
        {"a": runs, "b": runs[0]}, comparator=best, bounds={"a": 0.3, "b": 1e9}
    )
    lines = {line.get_label(): line for line in axes.get_lines()}
    last = np.median([run.losses.sum() for run in runs]) - best.total_loss
    label = next(name for name in lines if str(name).startswith("a:"))
    assert lines[label].get_ydata()[-1] == pytest.approx(last / 300)
    triangles = [line for line in axes.get_lines() if line.get_marker() == "v"]
    assert [float(line.get_ydata()[0]) for line in triangles] == [0.3]  # 1e9 is off the figure
    assert axes.get_xlabel() == "round (logarithmic)"
