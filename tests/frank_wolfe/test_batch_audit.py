"""Attacks on the batch baselines: a record replaced on one tape, and the exact law of the model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

import dpoco
from dpoco.domains import Box, LpBall, Simplex
from dpoco.frank_wolfe import LocalizedMirrorDescent, NoisyFrankWolfe, NoisySGD, PhasedSGD
from dpoco.losses import HuberLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source

N, D = 40, 3
RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(N, D)), RNG.normal(size=N)
BUDGET = dpoco.Budget(1.0, 1e-4)
WORST = [
    ([1e300, -1e300, 0.0], 1e300),
    ([np.nan, 0.0, 0.0], 0.0),
    ([0.0, 0.0, 0.0], np.inf),
    ([1.0, 1.0, 1.0], 50.0),
    ([-50.0, 0.0, 0.0], -50.0),
    ([0.0, 1.0, 0.0], 1.0),
    ([0.0, -1.0, 0.0], 1.0),
]
DOMAINS = {
    "l1": LpBall(D, 1.0),
    "l1.5": LpBall(D, 1.5, 1.5),
    "l2": LpBall(D, 2.0),
    "linf": LpBall(D, np.inf),
    "simplex": Simplex(D),
    "box": Box([-1.0, 0.0, -0.5], [1.0, 2.0, 0.5]),
}
LOSSES = {
    "squared": SquaredLoss(1.0, 1.0),
    "l2 bound": SquaredLoss(1.0, 1.0, feature_bound_l2=0.6),
    "logistic": LogisticLoss(2.0),
    "huber": HuberLoss(1.0, 1.0, threshold=0.3),
}


BOUNDS = {"bound", "later_bound", "smoothness", "radius"}  # that engines are told


def learner_of(cls, domain="l2", loss="squared", **options):
    if cls is NoisySGD:
        options = {"steps": 200, **options}
    return cls(DOMAINS[domain], LOSSES[loss], budget=BUDGET, records=N, **options)


def releases_of(learner):
    """Number of every release that is added noise to, its sensitivity, and one record in it."""
    p, found = learner.parameters, learner.guarantee
    if isinstance(learner, NoisySGD):
        return [(i, found.sensitivity, i) for i in (0, 5, N - 1)]
    if isinstance(learner, NoisyFrankWolfe):
        later = found.details["later sensitivity"]
        return [(0, found.sensitivity, 3)] + [
            (k, later, p.first_batch + (k - 1) * p.batch + 1) for k in (1, p.steps - 1)
        ]
    rows, first, out = learner._settings()["phases"], 0, []
    for k, row in enumerate(rows):
        sensitivity = row[-1] / p.noise_multiplier
        out.append((k, sensitivity, first + row[0] // 2))
        first += row[0]
    return out


def movements(learner, points=6):
    """Largest movement of every release by a replaced record, given equal releases before."""
    rng = np.random.default_rng(1)
    domain, out = learner.domain, []
    for k, sensitivity, record in releases_of(learner):
        largest = 0.0
        worlds = []
        for features, label in [(X[record], Y[record]), *WORST]:
            rows, labels = X.copy(), Y.copy()
            rows[record], labels[record] = features, label
            worlds.append(learner._engine(rows, labels))
        for _ in range(points):
            at = domain.project(4 * rng.normal(size=D))
            vertex = domain.minimize_linear(rng.normal(size=D))
            if isinstance(learner, NoisyFrankWolfe):
                previous, at = at, at + learner.parameters.step_size * (vertex - at)
            else:
                previous, at = at, vertex
            values = [world.nonprivate_release(k, at, previous) for world in worlds]
            largest = max(largest, *(np.linalg.norm(a - b) for a in values for b in values))
        out.append((k, largest, sensitivity))
    return out


CASES = [
    (cls, domain, loss)
    for cls in (NoisyFrankWolfe, NoisySGD, PhasedSGD, LocalizedMirrorDescent)
    for domain in DOMAINS
    for loss in LOSSES
    if cls is not LocalizedMirrorDescent or domain in ("l1.5", "l2")
]


@pytest.mark.parametrize(("cls", "domain", "loss"), CASES)
def test_no_release_moves_by_more_than_is_declared(cls, domain, loss):
    found = movements(learner_of(cls, domain, loss))
    for _, moved, declared in found:
        assert moved <= declared * (1 + 1e-12)
    assert max(moved / declared for _, moved, declared in found) > 0.1  # the bound is put to work


@pytest.mark.parametrize(("cls", "domain", "loss"), CASES)
def test_a_bound_one_percent_too_small_is_refused(cls, domain, loss):
    learner = learner_of(cls, domain, loss)
    settings = learner._settings()
    own = {"radius"} if cls is LocalizedMirrorDescent else set()  # of its steps, not of a proof
    for name in (BOUNDS - own) & settings.keys():
        learner._settings = lambda name=name: {**settings, name: 0.99 * settings[name]}
        with pytest.raises(ValueError, match="stated smaller than it is"):
            learner._engine(X, Y)
    if cls is NoisySGD:
        learner._settings = lambda: {**settings, "records": 2 * N}
        with pytest.raises(ValueError, match="another number of records"):
            learner._engine(X, Y)


def test_losses_and_domains_cannot_state_less_than_engines_enforce():
    class Flat(LogisticLoss):
        def curvature_bound(self, margin):
            return 0.01

    class Small(LpBall):
        def max_norm(self, order=None):
            return 1e-3

    for domain, loss in ((LpBall(D), Flat(1.0)), (Small(D), LogisticLoss(1.0))):
        learner = PhasedSGD(domain, loss, budget=BUDGET, records=N)
        with pytest.raises(ValueError, match="stated smaller than it is"):
            learner.fit(X, Y)
        assert not learner._fitted


def test_steps_that_expand_are_caught():
    # Long steps on a loss of curvature 2: two walks drift apart, and nobody may promise otherwise.
    domain, loss = LpBall(1, 2.0, 1000.0), SquaredLoss(1.0, 1.0)
    learner = PhasedSGD(domain, loss, budget=None, records=16)
    at, rows, labels, other = np.zeros(1), np.ones((16, 1)), np.zeros(16), np.zeros(16)
    other[0] = 1.0

    def moved(step):
        p = dataclasses.replace(learner.parameters, step_size=4 * step, largest_step=step)
        learner._mechanism = learner._accountant.mechanism_of(domain, loss, p)
        ends = [learner._engine(rows, y).nonprivate_release(0, at, at) for y in (labels, other)]
        return abs(ends[0][0] - ends[1][0]) / (2 * step)  # that is how far the one step differs

    assert moved(0.99) <= 1.0
    assert moved(1.4) > 4.0
    wild = dataclasses.replace(
        learner.parameters, noise_multiplier=1.0, step_size=5.6, largest_step=1.4
    )
    with pytest.raises(ValueError, match="expand"):
        PhasedSGD(domain, loss, budget=None, parameters=wild)


# ---- the law of the released model --------------------------------------------------------------


def models(cls, parameters, rows, labels, runs, *, domain=None, scale=1.0, **options):
    """Models of many fits on one data set; `scale` plants a wrong noise scale."""
    domain = domain or LpBall(1, 2.0, 1000.0)
    learner = cls(domain, SquaredLoss(1.0, 1.0), budget=None, parameters=parameters, **options)
    tape, out = Source.seeded(5), np.empty(runs)
    names = ("noise_scale", "noise_multiplier", "first_scale", "later_scale")
    wrong = {n: scale * getattr(parameters, n) for n in names if hasattr(parameters, n)}
    planted = dataclasses.replace(parameters, **wrong)
    learner._mechanism = learner._accountant.mechanism_of(domain, learner.loss, planted)
    for i in range(runs):
        learner._source = tape
        engine = learner._engine(rows, labels)
        engine.advance(engine.units)
        out[i] = engine.result()[0]
    return out


def quiet(cls, n, **options):
    """Parameters without a budget, and noise of moderate size put in by hand."""
    domain = LpBall(1, 2.0, 1000.0)
    return cls(domain, SquaredLoss(1.0, 1.0), budget=None, records=n, **options).parameters


@pytest.mark.parametrize("scale", [1.0, 0.93])
def test_law_of_phased_sgd(scale):
    p = dataclasses.replace(quiet(PhasedSGD, 3), noise_multiplier=1e-4)
    rows, labels = np.array([[0.5], [0.1], [-0.3]]), np.array([0.4, 0.0, 0.2])
    eta = p.step_sizes[0]
    mean, sigma = eta * 2 * 0.4 * 0.5, 1e-4 * 2 * p.derivative_bound * eta
    found = models(PhasedSGD, p, rows, labels, 20_000, scale=scale)
    accepted = stats.kstest((found - mean) / sigma, "norm").pvalue > 1e-6
    assert accepted == (scale == 1.0)


@pytest.mark.parametrize("scale", [1.0, 0.8])
def test_law_of_one_step_of_noisy_sgd(scale):
    p = dataclasses.replace(quiet(NoisySGD, 3, steps=1), noise_scale=0.5, step_size=1.0)
    rows, labels = np.array([[1.0], [1.0], [0.5]]), np.array([-1.0, 1.0, 0.4])
    steps = 2 * labels * rows[:, 0]
    found = models(NoisySGD, p, rows, labels, 20_000, scale=scale)

    def law(x):
        return np.mean([stats.norm.cdf(x, s, 0.5) for s in steps], axis=0)

    assert (stats.kstest(found, law).pvalue > 1e-6) == (scale == 1.0)

    def uneven(x):
        return np.average([stats.norm.cdf(x, s, 0.5) for s in steps], axis=0, weights=[4, 3, 3])

    assert stats.kstest(found, uneven).pvalue < 1e-6  # a favoured index would show


@pytest.mark.parametrize("scale", [1.0, 0.93])
def test_law_of_one_step_of_mirror_descent(scale):
    p = dataclasses.replace(quiet(LocalizedMirrorDescent, 2, steps=1), noise_multiplier=1e-4)
    rows, labels = np.array([[0.5], [0.3]]), np.array([0.4, 0.0])
    reach = p.step_size / 4  # of one record; the first step is half of it times the gradient
    rate, sigma = reach / 2, 1e-4 * 2 * p.derivative_bound
    found = models(LocalizedMirrorDescent, p, rows, labels, 20_000, scale=scale)
    mean = rate * 2 * 0.4 * 0.5
    accepted = stats.kstest((found - mean) / (rate * sigma), "norm").pvalue > 1e-6
    assert accepted == (scale == 1.0)


@pytest.mark.parametrize("scale", [1.0, 0.8])
def test_law_of_the_first_vertex_of_frank_wolfe(scale):
    domain = LpBall(1, 2.0, 1.0)
    p = dataclasses.replace(
        NoisyFrankWolfe(domain, SquaredLoss(1.0, 1.0), budget=None, records=3).parameters,
        first_scale=0.5, later_scale=0.5, mu=1.0,
    )  # fmt: skip
    rows, labels = np.array([[1.0], [0.0], [0.0]]), np.array([0.25, 0.0, 0.0])
    found = models(NoisyFrankWolfe, p, rows, labels, 20_000, domain=domain, scale=scale)
    up = int((found > 0).sum())  # the mean gradient is -1/2
    low, high = stats.binom.ppf([5e-7, 1 - 5e-7], 20_000, stats.norm.cdf(0.5 / 0.5))
    assert (low <= up <= high) == (scale == 1.0)
