"""Searches for ranges in the audits: sound ones pass, planted faults are found."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from dpoco.accounting import ranges as planning
from dpoco.accounting.plan import Plan
from dpoco.audit import likelihood_audit, replay_audit
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import SquareRoot
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.range_search import RangeSearch
from dpoco.ranges import RangeFinder

FIRST, SECOND, COLUMNS = 6, 9, 2
ROWS = np.random.default_rng(1).normal([3.0, -40.0], [1.0, 9.0], size=(FIRST + SECOND, COLUMNS))
ROWS[0] = [30.0, 300.0]  # above all others


def plan(first=FIRST, scale=3.0, spread=5.0):
    vector = ClippedVector(COLUMNS, math.inf, float(SECOND), math.inf)
    counts = GaussianSum(vector, SquareRoot(), pushes=planning.BINS, scale=spread)
    return Plan(RangeSearch(SECOND, counts, COLUMNS if first else 0, first, scale), None, None)


def making(kind=RangeFinder, own=None, **options):
    own = own or plan()

    def make(source):
        return kind(COLUMNS, budget=None, records=own.mechanism.longest, plan=own, source=source,
                    **options)  # fmt: skip

    return make


REPLACEMENTS = [(at, row) for at in (0, FIRST - 2, FIRST, FIRST + SECOND - 1)
                for row in ([1e9, 0.0], [math.nan, 7.0])]  # fmt: skip


def test_a_sound_search_passes_and_reaches_what_is_declared():
    report = replay_audit(making(), ROWS, REPLACEMENTS)
    assert not report.findings
    assert report.changes["scores of medians"][0] >= 0.5 * report.changes["scores of medians"][1]
    close = making(own=plan(scale=0.1))  # medians among the values
    counts = replay_audit(close, ROWS, [(FIRST + 1, [1e9, 1e9])]).changes["counts"]
    assert 0.7 < counts[0] / counts[1] <= 1.0


def test_a_search_about_known_centres_passes():
    own = plan(first=0, scale=0.0)
    report = replay_audit(making(own=own, centre="zero"), ROWS[:SECOND], [(3, [1e9, 0.0])])
    assert not report.findings


class InBoth(RangeFinder):
    """Counts the records of the medians, too."""

    def _begin_counts(self):
        kept = getattr(self, "_early", None)
        super()._begin_counts()
        if kept is not None:
            self._count(kept)
            self._round -= len(kept)

    def run(self, records, *, persons=None):
        rows = np.asarray(records, dtype=float)
        if self._round < self._mechanism.first:
            before = getattr(self, "_early", np.empty((0, rows.shape[1])))
            self._early = np.concatenate([before, rows])
        super().run(rows, persons=persons)


class Twice(RangeFinder):
    """Counts every value two times."""

    def _count(self, rows):
        super()._count(rows)
        super()._count(rows)
        self._round -= len(rows)


class Quiet(RangeFinder):
    """Draws half of the noise of the counts."""

    def _begin_counts(self):
        super()._begin_counts()
        self._cells = 0.5 * self._cells


class Sharp(RangeFinder):
    """Selects medians with a third of the scale."""

    def _draw_medians(self):
        own = self._mechanism
        self._mechanism = dataclasses.replace(own, scale=own.scale / 3.0)
        super()._draw_medians()
        self._mechanism = own


@pytest.mark.parametrize("kind", [InBoth, Twice])
def test_replays_find_records_that_count_too_often(kind):
    own = plan(scale=0.1)  # so that medians stay where they are, whatever the largest value is
    report = replay_audit(making(kind, own), ROWS, [(0, [1e6, 1e6]), *REPLACEMENTS])
    assert any("counts" in each for each in report.findings)


NEIGHBOURS = {at: ROWS.copy() for at in (2, FIRST + 2)}
for _at, _rows in NEIGHBOURS.items():
    _rows[_at] = [1e9, 0.0]


@pytest.mark.parametrize("at", NEIGHBOURS)
def test_likelihoods_of_a_sound_search_keep_its_claim(at):
    report = likelihood_audit(making(), ROWS, NEIGHBOURS[at], 136)
    assert not report.findings


@pytest.mark.parametrize(("kind", "at"), [(Quiet, FIRST + 2), (Sharp, 2)])
def test_likelihoods_find_noise_that_is_too_small(kind, at):
    assert likelihood_audit(making(kind, plan(scale=0.45)), ROWS, NEIGHBOURS[at], 136).findings
