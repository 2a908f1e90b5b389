"""Replay catches learners that keep a record for longer than they may."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tests.descriptions import tuned

import dpoco
from dpoco.audit import replay_audit
from dpoco.bandits import LinUCB
from dpoco.experts import (
    BatchShare,
    EpochSelector,
    PrefixHedge,
    ShiftDetector,
    WindowSelector,
)
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.mechanisms import AboveThreshold, NoisyMax
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

cases = sys.modules["audit_replay_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def lagging(cls):
    """A learner that mixes every record with the one before."""

    class Lagging(cls):
        last = None

        def observe(self, record, *label):
            row = np.asarray(record, dtype=float)
            finite = np.where(np.isfinite(row), row, 0.0)
            mixed = row if self.last is None else 0.5 * (row + self.last)
            super().observe(mixed, *label)
            self.last = finite

    return Lagging


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("TreeFrankWolfe", cases.of(lagging(TreeFrankWolfe), cases.BALL, cases.SQUARED)),
        ("TreeFrankWolfe, batches",
         cases.of(lagging(TreeFrankWolfe), cases.CROSS, cases.SQUARED, batch=5)),
        ("PolyhedralFrankWolfe, batches",
         cases.of(lagging(PolyhedralFrankWolfe), cases.BOX, cases.SQUARED, batch=4)),
        ("NoisyFTRL", cases.of(lagging(NoisyFTRL), cases.BALL, cases.LINEAR)),
        ("PrefixHedge", cases.of(lagging(PrefixHedge), cases.N)),
        ("EpochSelector", cases.of(lagging(EpochSelector), cases.N, budget=cases.PURE)),
        ("WindowSelector",
         cases.of(lagging(WindowSelector), cases.N, budget=cases.PURE, window=3)),
        ("BatchShare", cases.of(lagging(BatchShare), cases.N, budget=cases.PURE, batch=3)),
        ("ContinuousMultiplicativeWeights, anchored", None),
    ],
)  # fmt: skip
def test_a_record_kept_for_a_second_round_is_caught(name, make):
    honest, stream, replacements = cases.CASES[name]
    if make is None:
        kind = lagging(type(honest(Source.seeded(0))))

        def make(source):
            learner = honest(source)
            learner.__class__ = kind
            return learner

    assert not replay_audit(make, stream, replacements).passed


def test_sums_that_overlap_are_caught():
    class Sticky(ShiftDetector):
        """Hands a record of an instance to the next one, too."""

        kept = None

        def observe(self, losses):
            row = np.asarray(losses)
            alarms = self.alarms
            if self.round == 1:
                self.kept = row
            if len(alarms) and self.round == alarms[0] + 1:
                row = 0.5 * (row + self.kept)
            super().observe(row)

    rows = np.tile([1.0, 0.0], (40, 1))
    rows[:12] = [0.0, 0.9]
    p = ShiftDetector(2, horizon=40, budget=dpoco.Budget(400.0, 0.0), first=0).plan
    p = tuned(p, threshold=3.0, log_windows=0.0, log_selection=None)

    def make(kind):
        return lambda source: kind(2, horizon=40, budget=None, plan=p, source=source)

    pairs = [(1, [0.2, 0.9]), (2, [0.0, 0.8])]
    told = make(ShiftDetector)(Source.seeded(0))
    told.run(rows)
    assert 12 < told.alarms[0] < 30
    assert not replay_audit(make(ShiftDetector), rows, pairs).violated
    caught = replay_audit(make(Sticky), rows, pairs)
    assert "kept after the alarm" in str(caught)


def test_scores_that_remember_are_caught():
    class Averaging(NoisyMax):
        total = 0.0

        def select(self, scores):
            self.total = self.total + np.asarray(scores)
            return super().select(self.total)

    make = cases.of(Averaging, 2, budget=dpoco.Budget(4000.0, 0.0), sensitivity=1.0)
    rows = np.zeros((cases.T, 2))
    assert not replay_audit(make, rows, [(0, [1.0, -1.0])]).passed

    class Latching(AboveThreshold):
        last = -9.0

        def test(self, value, threshold=0.0):
            before, self.last = self.last, value
            return super().test(max(value, before + 0.3), threshold)

    make = cases.of(Latching, budget=dpoco.Budget(4000.0, 0.0), alarms=cases.T, sensitivity=1.0)
    rows = np.full(cases.T, -0.5)
    assert not replay_audit(make, rows, [(2, 0.0)]).passed


def test_a_bandit_that_remembers_is_caught():
    class Sticky(LinUCB):
        worst = 0.0

        def observe(self, reward):
            self.worst = max(self.worst, reward)
            super().observe(self.worst)

    make = cases.of(Sticky, 2, cases.D, batch=1, **cases.BOUNDED)
    assert not replay_audit(make, cases.BANDIT, cases.USERS).passed
