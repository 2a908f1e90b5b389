"""Order of calls, bad input, copies, threads and interruption of the batch baselines."""

from __future__ import annotations

import inspect
import os
import signal

import numpy as np
import pytest

import dpoco
from dpoco.domains import LpBall
from dpoco.frank_wolfe import (
    LocalizedMirrorDescent,
    NoisyFrankWolfe,
    NoisySGD,
    PhasedSGD,
    SufficientStatistics,
)
from dpoco.losses import HuberLoss, SquaredLoss
from dpoco.random import Source

BUDGET = dpoco.Budget(1.0, 1e-4)
N, D = 60, 3
RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(N, D)), RNG.normal(size=N)
ALL = pytest.mark.parametrize("cls", [NoisyFrankWolfe, NoisySGD, PhasedSGD, LocalizedMirrorDescent])


def make(cls, **options):
    options = {"budget": BUDGET, "source": Source.seeded(1), **options}
    if cls is NoisySGD:
        options = {"steps": 200, **options}
    domain, loss = options.pop("domain", LpBall(D)), options.pop("loss", SquaredLoss(1.0, 1.0))
    return cls(domain, loss, **options)


@ALL
def test_two_fits_from_one_source_draw_different_noise(cls):
    source = Source.seeded(3)
    a, b = (make(cls, source=source).fit(X, Y).theta for _ in range(2))
    assert not np.array_equal(a, b)


@ALL
def test_a_start_of_ones_own(cls):
    start = np.array([0.5, 0.0, -0.2])
    learner = make(cls, start=start)
    start[:] = 99.0  # the caller's array is the caller's
    learner.fit(X, Y)
    assert learner.domain.contains(learner.theta)
    assert not np.array_equal(learner.theta, make(cls).fit(X, Y).theta)
    with pytest.raises(ValueError, match="start"):
        make(cls, start=[2.0, 0.0, 0.0])


def test_two_fits_of_second_moments_and_other_losses():
    source = Source.seeded(3)
    a, b = (make(SufficientStatistics, source=source).fit(X, Y).theta for _ in range(2))
    assert not np.array_equal(a, b)
    for records in (None, N):
        with pytest.raises(ValueError, match="SquaredLoss; got HuberLoss"):
            make(SufficientStatistics, loss=HuberLoss(1.0, 1.0), records=records)
    with pytest.raises(ValueError, match="at most 4096"):
        make(SufficientStatistics, domain=LpBall(4097))
    p = make(SufficientStatistics, records=N).parameters
    with pytest.raises(ValueError, match="SquaredLoss"):
        make(SufficientStatistics, loss=HuberLoss(1.0, 1.0), parameters=p)


def test_progress_and_interruption():
    seen = []
    make(NoisySGD, steps=300_000).fit(X, Y, progress=lambda *at: seen.append(at))
    assert seen[-1] == (300_000, 300_000)
    assert len(seen) > 1
    learner = make(NoisySGD, steps=10**6)

    def stop(done, total):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        learner.fit(X, Y, progress=stop)
    with pytest.raises(dpoco.RoundOrderError):
        _ = learner.theta
    learner._arguments["steps"] = 100
    assert np.isfinite(learner.fit(X, Y).theta).all()  # nothing had been released


def test_data_that_change_during_a_fit_are_read_once():
    rows = X.copy()

    def spoil(done, total):
        rows[:] = np.nan

    got = make(NoisySGD, steps=400_000).fit(rows, Y, progress=spoil).theta
    assert np.array_equal(got, make(NoisySGD, steps=400_000).fit(X, Y).theta)


@pytest.mark.parametrize("cls", [NoisyFrankWolfe, NoisySGD, PhasedSGD, LocalizedMirrorDescent,
                                 SufficientStatistics])  # fmt: skip
def test_what_is_said_before_and_after_a_fit(cls):
    rows, labels = X / 9.0, Y / 9.0
    learner = make(cls, on_violation="raise")
    assert repr(learner).endswith(")")  # no guarantee yet
    assert "source" not in repr(learner)
    learner.fit(rows, labels)
    assert not learner.theta.flags.writeable
    assert repr(learner).endswith(f"\n  {learner.guarantee!r}")
    with pytest.raises(dpoco.BudgetExceeded, match="has been fitted"):
        learner.fit(rows, labels)
    rows[7] = 2.0
    with pytest.raises(ValueError, match="record 7 is outside"):
        make(cls, on_violation="raise").fit(rows, labels)
    for source in (Source.seeded(1), None):  # one record, and any source
        single = make(cls, source=source, budget=None).fit(rows[:1], labels[:1])
        assert np.isfinite(single.theta).all()
    with pytest.raises(ValueError, match="at least one row"):
        make(cls).fit(rows[:0], labels[:0])
    with pytest.warns(dpoco.LargeDeltaWarning) as caught:
        make(cls, budget=dpoco.Budget(1.0, 9e-4), records=2000)
    lines, first = inspect.getsourcelines(make)
    assert caught[0].filename == __file__
    assert caught[0].lineno - first in range(len(lines))
