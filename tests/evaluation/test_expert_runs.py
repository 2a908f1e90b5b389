"""Repeated runs of learners of experts."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.environments import SwitchingStochastic
from dpoco.evaluation import best_switching_sequence, repeat_runs
from dpoco.experts import BatchShare, ExpertTrace

LOSSES = SwitchingStochastic(4, 300, switches=1, seed=0).matrix()


def build(source):
    return BatchShare(4, horizon=300, budget=dpoco.Budget(5.0, 1e-4), switches=1, source=source)


def test_runs_are_independent_repeatable_and_measured_against_sequences():
    heard = []
    runs = repeat_runs(
        build, LOSSES, repeats=3, seed=2, progress=lambda done, total: heard.append((done, total))
    )
    assert all(isinstance(run, ExpertTrace) for run in runs)
    assert not np.array_equal(runs[0].decisions, runs[1].decisions)
    again = repeat_runs(build, LOSSES, repeats=1, seed=2)
    assert np.array_equal(again[0].decisions, runs[0].decisions)
    assert heard[-1] == (900, 900)
    best = best_switching_sequence(LOSSES, 1)
    assert runs[0].regret(best)[-1] == pytest.approx(runs[0].losses.sum() - best.total_loss)


def test_labels_are_refused():
    with pytest.raises(TypeError, match="no labels"):
        repeat_runs(build, LOSSES, np.zeros(300), repeats=1)
