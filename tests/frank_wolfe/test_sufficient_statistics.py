"""Ridge regression on noisy second moments: fit, noise, bounds, and the order of calls."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import signal

import numpy as np
import pytest
import scipy
from tests.plans import changed
from tests.samples import mean_suboptimality

import dpoco
from dpoco import _core
from dpoco.accounting import sufficient_statistics as accountant
from dpoco.cli._render import describe_spread
from dpoco.domains import Box, LpBall, Simplex
from dpoco.frank_wolfe import SufficientStatistics
from dpoco.losses import HuberLoss, SquaredLoss
from dpoco.random import Source

BUDGET = dpoco.Budget(1.0, 1e-4)
N, D = 60, 3
RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(N, D)), RNG.normal(size=N)
WORST = [
    ([1e300, -1e300, 0.0], 1e300),
    ([np.nan, 0.0, 0.0], 0.0),
    ([0.0, 0.0, 0.0], np.inf),
    ([1.0, 1.0, 1.0], 50.0),
    ([-50.0, 0.0, 0.0], -50.0),
    ([0.0, 1.0, 0.0], 1.0),
    ([0.0, -1.0, 0.0], 1.0),
]


def make(domain=None, loss=None, **options):
    options = {"budget": BUDGET, "source": Source.seeded(1), **options}
    return SufficientStatistics(domain or LpBall(D), loss or SquaredLoss(1.0, 1.0), **options)


def exact_sum(learner, rows, labels):
    """Return the sum that the release is about, by NumPy."""
    x = rows / np.maximum(1.0, np.linalg.norm(rows, learner.domain.dual_exponent, axis=1))[:, None]
    y, weight, d = np.clip(labels, -1.0, 1.0), learner.plan.mechanism.summand.weight, rows.shape[1]
    matrix = x.T @ x
    packed = [matrix[i, j] * (1.0 if i == j else math.sqrt(2.0)) for i in range(d)
              for j in range(i, d)]  # fmt: skip
    return np.array([*packed, *(weight * y @ x)])


def released(learner, rows, labels):
    engine = learner._engine()
    engine.add(rows, labels)
    return engine.release()


# ---- guarantee -----------------------------------------------------------------------------------


def test_noise_by_hand():
    ball, loss, budget = LpBall(5, 1.5, 2.0), SquaredLoss(1.0, 1.25), dpoco.Budget(1.0, 1e-5)
    p = accountant.calibrate(ball, loss, records=1000, budget=budget)
    length, label, far = 5 ** (0.5 - 1 / 3), 1.25, ball.max_norm(2.0)
    k = 2 * 5 / 6 * (label / (far * length)) ** 2
    u = (math.sqrt(k * k + 16 * k) - k) / 4
    weight, scale = p.mechanism.summand.weight, p.mechanism.scale
    assert weight == pytest.approx(math.sqrt(u) * length / label)
    moved = math.sqrt(2) * length**2 * (1 + u / 2)
    assert scale == pytest.approx(moved / 0.268051, rel=1e-5)  # mu of this budget
    found = accountant.guarantee(ball, loss, p, budget=budget)
    assert found.mu == pytest.approx(moved / scale, rel=1e-12)
    assert found.epsilon <= 1.0
    assert (found.change, found.unit, found.horizon) == ("replace", "one record", 1)
    for apart in (1, 10**6):  # places in a data set are no times
        assert found.for_person(3, apart).mu == pytest.approx(3 * found.mu, rel=1e-9)
    # The worst pair of records has one label, and features at an angle of cosine -u/2.
    x, z = length * np.eye(5)[0], length * np.array([-u / 2, math.sqrt(1 - u * u / 4), 0, 0, 0])
    matrices, vectors = np.outer(x, x) - np.outer(z, z), weight * label * (x - z)
    assert math.hypot(*matrices.ravel(), *vectors) == pytest.approx(moved, rel=1e-12)


@pytest.mark.parametrize(
    "domain",
    [LpBall(D, 1.0), LpBall(D, 1.5, 1.5), LpBall(D, np.inf), Simplex(D), Box([-1] * D, [2] * D)],
)  # fmt: skip
@pytest.mark.parametrize(
    "loss", [SquaredLoss(1.0, 1.0), SquaredLoss(1.0, 1.0, feature_bound_l2=0.6)]
)
def test_no_sum_moves_by_more_than_is_declared(domain, loss):
    learner = make(domain, loss, records=N)
    sums = []
    for record in [(X[7], Y[7]), *WORST]:
        rows, labels = X.copy(), Y.copy()
        rows[7], labels[7] = record
        engine = learner._engine()
        engine.add(rows, labels)
        sums.append(engine.nonprivate_sum())
    moved = max(np.linalg.norm(a - b) for a in sums for b in sums)
    declared = learner.guarantee.sensitivity
    assert 0.3 * declared < moved <= declared * (1.0 + 1e-12)


def test_a_bound_that_engines_do_not_enforce_is_refused():
    class Small(SquaredLoss):
        label_bound = 0.5

    learner = make(records=N)
    m = learner._mechanism
    learner._mechanism = dataclasses.replace(
        m, summand=dataclasses.replace(m.summand, label=0.99 * m.summand.label)
    )
    with pytest.raises(ValueError, match="stated smaller than it is"):
        learner._engine()


@pytest.mark.parametrize("scale", [1.0, 0.93])
def test_law_of_the_release(scale):
    """A false alarm has probability 1e-6; 7 percent less noise is seen."""
    learner = make(LpBall(1, 2.0, 1000.0), records=3)
    p = changed(learner.plan, scale=scale)
    rows, labels = np.array([[0.5], [0.1], [-0.3]]), np.array([0.4, 0.0, 0.2])
    planted, source = make(LpBall(1, 2.0, 1000.0), budget=None, plan=p), Source.seeded(5)
    found = []
    for _ in range(10_000):
        planted._source = source
        found.append(released(planted, rows, labels))
    away = np.array(found) - exact_sum(planted, rows, labels)
    assert all(scipy.stats.kstest(column / scale, "norm").pvalue > 1e-7 for column in away.T)
    low, high = scipy.stats.chi2.ppf([4e-7, 1.0 - 4e-7], away.size)
    assert (low <= float((away**2).sum()) <= high) == (scale == 1.0)


@pytest.mark.parametrize("h", [16, 18])
def test_sums_of_neighbours_do_not_drift_apart(h):
    """Rounding must not carry the sums apart: see test_sum_drift.py for these records."""
    size = 2 ** (h + 1)
    learner = make(LpBall(1, 2.0), budget=None, records=size)

    def sum_of(first):
        values = np.ones(size)
        values[0] = first
        values[2**h] = 0.5
        values[2**h + 1 :] = 0.6 * 2.0 ** (h - 52)
        engine = learner._engine()
        engine.add(np.sqrt(values)[:, None], np.zeros(size))
        return engine.nonprivate_sum()[0]

    assert sum_of(1.0) - sum_of(0.0) == pytest.approx(1.0, abs=size * 2.0**-50)


# ---- the model -----------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [None, dpoco.Budget(8.0, 1e-4)])
@pytest.mark.parametrize(
    "domain",
    [LpBall(4, 2.0, 0.2), LpBall(4, 2.0, 50.0), LpBall(4, 1.0, 0.3), Simplex(4),
     Box([0.1] * 4, [0.2, 0.3, 0.4, 0.9])],
)  # fmt: skip
def test_the_model_has_the_least_ridge_loss(domain, budget):
    """The release is that of a NumPy program with the same noise; no point nearby is better."""
    rng = np.random.default_rng(4)
    n, d = 500, 4
    features, labels = rng.normal(size=(n, d)), rng.normal(size=n) + 1.0
    learner = SufficientStatistics(
        domain, SquaredLoss(1.0, 1.0), budget=budget, records=n, source=Source.seeded(9)
    )
    found, scale = released(learner, features, labels), learner.plan.mechanism.scale
    exact = exact_sum(learner, features, labels)
    noise = np.zeros(len(exact))
    if budget is not None:
        claim, gaussian = Source.seeded(9)._claim(), 2
        _core.Source(claim["key"], claim["stream"]).fill(gaussian, noise)
    assert np.allclose(found, exact + scale * noise, rtol=0.0, atol=1e-9 * n + 2e-3 * scale)
    noisy = np.zeros((d, d))
    noisy[np.triu_indices(d)] = found[:-d]
    noisy = (noisy + np.triu(noisy, 1).T) / (np.eye(d) + np.sqrt(2.0) * (1.0 - np.eye(d)))
    values, vectors = np.linalg.eigh(noisy)
    ridge = np.sqrt(2.0 * d) * scale if budget is not None else 1e-9 * n / d
    a = vectors @ np.diag(np.maximum(values, 0.0) + ridge) @ vectors.T
    b = found[-d:] / learner.plan.mechanism.summand.weight + ridge * domain.center

    def value(theta):
        return theta @ a @ theta - 2.0 * b @ theta

    theta = learner._model(found)
    assert domain.contains(theta)
    others = [domain.project(theta + r * rng.normal(size=d)) for r in np.geomspace(1e-6, 1.0, 400)]
    assert min(value(each) for each in others) >= value(theta) - 1e-9 * n
    wrong = np.linalg.solve(a, -b)  # the sign of y x
    assert value(domain.project(wrong)) > value(theta)


def test_models_learn():
    assert mean_suboptimality(SufficientStatistics, 10_000, 5, 1.5) < 0.0015
    assert mean_suboptimality(SufficientStatistics, 10_000, 10, np.inf) < 0.05
    assert mean_suboptimality(SufficientStatistics, 1500, 5, 1.5, seeds=3, budget=None) < 0.01


# ---- uncertainty ---------------------------------------------------------------------------------


def regression(n, d, seed):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, size=(n, d)) * np.linspace(1.0, 0.5, d) / math.sqrt(d)
    return rows, np.clip(rows @ rng.normal(size=d) + rng.normal(0.0, 0.1, n), -1.0, 1.0)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_covariances_cover_what_noise_does(d):
    """Intervals around fits hold the fit without noise, and deviations are those that are seen."""
    rows, labels = regression(8000, d, seed=d)
    given = {"domain": LpBall(d, 2.0, 30.0), "budget": dpoco.Budget(4.0, 1e-6)}
    source, fits = Source.seeded(5), 250
    made = [make(**given, source=source).fit(rows, labels) for _ in range(fits)]
    ridge = made[0]._ridge
    a = rows.T @ rows + ridge * np.eye(d)
    exact = np.linalg.solve(a, rows.T @ labels)
    gaps = np.array([each.theta for each in made]) - exact
    spreads = np.array([each.covariance for each in made])
    seen = np.cov(gaps.T).reshape(d, d)
    assert np.allclose(np.diag(seen), np.median(spreads, axis=0).diagonal(), rtol=0.3)
    covered = np.abs(gaps) <= 1.96 * np.sqrt(np.diagonal(spreads, axis1=1, axis2=2))
    assert np.all(covered.mean(axis=0) > 0.90)
    assert np.all(covered.mean(axis=0) < 0.99)
    lengths = np.einsum("ni,nij,nj->n", gaps, np.linalg.inv(spreads), gaps)
    assert abs(np.mean(lengths <= scipy.stats.chi2.ppf(0.9, d)) - 0.9) < 0.06


def test_covariances_are_of_releases_and_are_published(tmp_path):
    rows, labels = regression(5000, 3, seed=0)
    learner = make(source=None)
    with pytest.raises(dpoco.RoundOrderError, match="fit"):
        _ = learner.covariance
    learner.fit(rows, labels)
    assert not make(budget=None).fit(rows, labels).covariance.any()
    schema = dpoco.datasets.Schema(
        features=("a", "b", "c"), ranges=((-1.0, 1.0),) * 3, intercept=False, task="regression",
        label="y", label_range=(-1.0, 1.0),
    )  # fmt: skip
    model = dpoco.Model.of_schema(learner, schema)
    assert np.array_equal(model.covariance, learner.covariance)
    model.save(tmp_path / "model.json")
    assert dpoco.Model.load(tmp_path / "model.json") == model
    for wrong in (((1.0,),), ((-1.0, 0.0, 0.0),) * 3, ((math.nan,) * 3,) * 3):
        with pytest.raises(ValueError, match="must be"):
            dataclasses.replace(model, covariance=wrong)
    said = describe_spread(np.diag([1e-4, 4e-4]))
    assert said.startswith("Noise in the coefficients: +-0.02 to +-0.04 of scaled features")
    assert describe_spread(None) == describe_spread(np.zeros((2, 2))) == ""


# ---- order of calls ------------------------------------------------------------------------------


def test_other_problems_are_refused():
    p = make(records=N).plan
    with pytest.raises(ValueError, match="SquaredLoss"):
        make(loss=HuberLoss(1.0, 1.0), plan=p)
    for wrong in (LpBall(D, np.inf), LpBall(D + 1)):
        with pytest.raises(ValueError, match="not that of one fit"):
            make(wrong, plan=p)
    with pytest.raises(ValueError, match="records=7"):
        make(records=7, plan=p)
    with pytest.raises(TypeError, match="SufficientStatistics"):
        make(plan=dpoco.experts.PrefixHedge(4, horizon=9, budget=None).plan)


def test_two_fits_from_one_source_draw_different_noise():
    source = Source.seeded(3)
    a, b = (make(source=source).fit(X, Y).theta for _ in range(2))
    assert not np.array_equal(a, b)


def test_records_that_are_not_finite_are_zero_records():
    for spoiled in (np.nan, np.inf):
        rows, zeros = X.copy(), X.copy()
        rows[5, 1], zeros[5] = spoiled, 0.0
        assert np.array_equal(make().fit(rows, Y).theta, make().fit(zeros, Y).theta)


def test_progress_and_interruption(monkeypatch):
    monkeypatch.setattr("dpoco.frank_wolfe._sufficient_statistics._CHUNK_ENTRIES", 16 * 7)
    seen = []
    whole = make().fit(X, Y, progress=lambda *at: seen.append(at)).theta
    assert seen[-1] == (N, N)
    assert len(seen) == math.ceil(N / 7)
    learner = make()

    def stop(done, total):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        learner.fit(X, Y, progress=stop)
    with pytest.raises(dpoco.RoundOrderError):
        _ = learner.theta
    assert np.isfinite(learner.fit(X, Y).theta).all()  # nothing had been released
    monkeypatch.undo()
    assert np.array_equal(make().fit(X, Y).theta, whole)


def test_what_is_said_before_and_after_a_fit():
    rows, labels = X / 9.0, Y / 9.0
    learner = make(on_violation="raise")
    assert repr(learner).endswith(")")  # no guarantee yet
    assert "source" not in repr(learner)
    learner.fit(rows, labels)
    assert not learner.theta.flags.writeable
    assert repr(learner).endswith(f"\n  {learner.guarantee!r}")
    with pytest.raises(dpoco.BudgetExceeded, match="has been fitted"):
        learner.fit(rows, labels)
    rows[7] = 2.0
    with pytest.raises(ValueError, match="record 7 is outside"):
        make(on_violation="raise").fit(rows, labels)
    for source in (Source.seeded(1), None):  # one record, and any source
        single = make(source=source, budget=None).fit(rows[:1], labels[:1])
        assert np.isfinite(single.theta).all()
    with pytest.raises(ValueError, match="at least one row"):
        make().fit(rows[:0], labels[:0])
    with pytest.warns(dpoco.LargeDeltaWarning) as caught:
        make(budget=dpoco.Budget(1.0, 9e-4), records=2000)
    lines, first = inspect.getsourcelines(make)
    assert caught[0].filename == __file__
    assert caught[0].lineno - first in range(len(lines))
