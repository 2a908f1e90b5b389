"""Order of calls, bad input, copies, threads and interruption of the batch baselines."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import dpoco
from dpoco.domains import LpBall, Simplex
from dpoco.frank_wolfe import LocalizedMirrorDescent, NoisyFrankWolfe, NoisySGD, PhasedSGD
from dpoco.losses import CustomLoss, LinearLoss, SquaredLoss
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
    domain, loss = options.pop("domain", LpBall(D)), options.pop("loss", SquaredLoss())
    return cls(domain, loss, **options)


@ALL
def test_one_fit_is_one_release(cls):
    learner = make(cls)
    for name in ("theta", "guarantee", "parameters"):
        with pytest.raises(dpoco.RoundOrderError):
            getattr(learner, name)
    assert learner.fit(X, Y) is learner
    theta = learner.theta.copy()
    assert theta.shape == (D,)
    with pytest.raises(ValueError, match="read-only"):
        learner.theta[0] = 1.0
    with pytest.raises(dpoco.BudgetExceeded, match="second"):
        learner.fit(X, Y)
    assert np.array_equal(learner.theta, theta)
    np.testing.assert_allclose(learner.predict(X), X @ theta)
    assert not learner.guarantee.certified  # a seeded source
    again = learner.clone()
    assert again.fit(X, Y).guarantee.certified
    assert not np.array_equal(again.theta, theta)
    same = learner.clone(source=Source.seeded(1))
    assert np.array_equal(same.fit(X, Y).theta, theta)


@ALL
def test_two_fits_from_one_source_draw_different_noise(cls):
    source = Source.seeded(3)
    a, b = (make(cls, source=source).fit(X, Y).theta for _ in range(2))
    assert not np.array_equal(a, b)


@ALL
def test_the_guarantee_is_known_beforehand_with_the_number_of_records(cls):
    learner = make(cls, records=N)
    known = learner.guarantee
    with pytest.raises(ValueError, match="60 rows"):
        learner.fit(X[:-1], Y[:-1])
    assert learner.fit(X, Y).guarantee == known
    late = make(cls).fit(X, Y)
    assert late.guarantee == known
    assert late.parameters == learner.parameters
    assert np.array_equal(late.theta, learner.theta)
    assert "epsilon" in repr(late)
    assert "Source" not in repr(late)


@ALL
def test_own_parameters(cls):
    p = make(cls, records=N).parameters
    assert (
        np.array_equal(make(cls, parameters=p).fit(X, Y).theta, make(cls).fit(X, Y).theta)
        or cls is NoisySGD
    )  # whose number of steps is restated
    with pytest.raises(ValueError, match="rows"):
        make(cls, parameters=p).fit(X[:-1], Y[:-1])
    name = {NoisyFrankWolfe: "first_scale", NoisySGD: "noise_scale"}.get(cls, "noise_multiplier")
    less = dataclasses.replace(p, **{name: 0.5 * getattr(p, name)})
    with pytest.raises(dpoco.BudgetExceeded):
        make(cls, parameters=less)
    assert make(cls, parameters=less, budget=None).guarantee.epsilon > 0.0
    with pytest.raises(ValueError, match="contradicts"):
        make(cls, parameters=p, records=N + 1)
    with pytest.raises(TypeError, match="parameters"):
        make(cls, parameters={})


@ALL
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((5, D + 1)), np.zeros(5)),
        (np.zeros(5), np.zeros(5)),
        (np.zeros((5, D)), np.zeros(4)),
        (np.zeros((5, D)), None),
        (np.zeros((5, D), dtype=complex), np.zeros(5)),
        (np.zeros((5, D)), np.zeros((5, 1))),
        (np.zeros((0, D)), np.zeros(0)),
        ([["123456"] * D], [0.0]),
    ],
)
def test_bad_data_are_refused_and_nothing_is_spent(cls, X, y):
    learner = make(cls)
    with pytest.raises((TypeError, ValueError)) as caught:
        learner.fit(X, y)
    assert "123456" not in str(caught.value)
    learner.fit(*_data())


def _data():
    return X, Y


@ALL
def test_violations(cls):
    learner = make(cls, on_violation="raise")
    with pytest.raises(ValueError, match="record 0 is outside"):
        learner.fit(10 + X, Y)
    inside = X / np.linalg.norm(X, axis=1, keepdims=True) * 0.9
    learner.fit(inside[:30], np.clip(Y[:30], -1, 1))  # the number of records is not settled yet
    big = make(cls).fit(1e300 * X, 1e300 * Y)
    assert np.isfinite(big.theta).all()


@ALL
@pytest.mark.parametrize(
    "options",
    [
        {"budget": 1.0},
        {"budget": dpoco.Budget(1.0, 0.0)},
        {"domain": "ball"},
        {"loss": "squared"},
        {"loss": LinearLoss()},
        {"loss": CustomLoss(1.0, 1.0)},
        {"calibration": "loose"},
        {"step_scale": -1.0},
        {"step_scale": "1"},
        {"records": 0},
        {"records": 1.5},
        {"start": [2.0, 0.0, 0.0]},
        {"start": [0.0]},
        {"on_violation": "ignore"},
        {"source": 7},
    ],
)
def test_bad_arguments_are_refused_at_construction(cls, options):
    with pytest.raises((TypeError, ValueError, dpoco.CalibrationError)):
        make(cls, **options)


def test_mirror_descent_is_for_balls_between_one_and_two():
    for domain in (LpBall(D, 1.0), LpBall(D, np.inf), Simplex(D)):
        with pytest.raises(ValueError, match="1 < p <= 2"):
            make(LocalizedMirrorDescent, domain=domain)


@ALL
def test_other_real_dtypes_and_layouts(cls):
    whole = np.round(4 * X), np.round(Y)
    want = make(cls).fit(*whole).theta
    for a, b in (
        (whole[0].astype(np.float32), whole[1].astype(np.int8)),
        (np.asfortranarray(whole[0]), whole[1][::-1].copy()[::-1]),
        (whole[0].tolist(), whole[1].tolist()),
    ):
        assert np.array_equal(make(cls).fit(a, b).theta, want)


@ALL
def test_a_start_of_ones_own(cls):
    start = np.array([0.5, 0.0, -0.2])
    learner = make(cls, start=start)
    start[:] = 99.0  # the caller's array is the caller's
    learner.fit(X, Y)
    assert learner.domain.contains(learner.theta)
    assert not np.array_equal(learner.theta, make(cls).fit(X, Y).theta)


@ALL
def test_a_fitted_model_is_a_value_that_can_be_copied(cls):
    learner = make(cls).fit(X, Y)
    for other in (pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)):
        assert np.array_equal(other.theta, learner.theta)
        assert other.guarantee == learner.guarantee
        with pytest.raises(dpoco.BudgetExceeded):
            other.fit(X, Y)
    with pytest.raises(TypeError, match="source"):
        copy.deepcopy(make(cls))


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


def test_two_threads_fit_once():
    learner = make(NoisySGD, records=N, steps=1_000_000)
    results = []

    def run():
        try:
            results.append(learner.fit(X, Y).theta)
        except dpoco.BudgetExceeded as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(result, np.ndarray) for result in results) == 1


def test_data_that_change_during_a_fit_are_read_once():
    rows = X.copy()

    def spoil(done, total):
        rows[:] = np.nan

    got = make(NoisySGD, steps=400_000).fit(rows, Y, progress=spoil).theta
    assert np.array_equal(got, make(NoisySGD, steps=400_000).fit(X, Y).theta)
