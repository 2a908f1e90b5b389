"""The leader on noisy sums against an independent implementation, and the law of its noise."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import dpoco
from dpoco import _core
from dpoco.accounting import continual_sum
from dpoco.accounting.continual_sum import blt_parameters
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.privacy.mechanisms.gaussian_sum import batch_starts
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

_spec = importlib.util.spec_from_file_location(
    "noisy_ftrl_reference", Path(__file__).with_name("noisy_ftrl_reference.py")
)
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

T = 40
CASES = {
    "ball 2": (LpBall(4, 2.0, 1.5), "ball", 2.0, 1.5),
    "ball 1.5": (LpBall(4, 1.5, 2.0), "ball", 1.5, 2.0),
    "ball 3": (LpBall(4, 3.0, 1.0), "ball", 3.0, 1.0),
    "ball 1": (LpBall(4, 1.0, 1.0), "ball", 1.0, 1.0),
    "ball inf": (LpBall(4, np.inf, 1.0), "ball", np.inf, 1.0),
    "box": (Box([-1, 0, -2, 1], [1, 1, 0.5, 3]), "box", np.inf,
            (np.array([-1, 0, -2, 1]), np.array([1, 1, 0.5, 3]))),
    "simplex": (Simplex(4, 2.0), "simplex", 1.0, 2.0),
    "one dimension": (LpBall(1, 2.0, 1.0), "ball", 2.0, 1.0),
}  # fmt: skip
LOSSES = {
    "squared": (SquaredLoss(1.0, 1.0), (-1.0, 1.0)),
    "logistic": (LogisticLoss(1.0), (0.0, 1.0)),
    "huber": (HuberLoss(1.0, 1.0, threshold=0.5), (-1.0, 1.0)),
    "linear": (LinearLoss(1.0), None),
}


def make(domain, loss, T=T, seed=3, **options):
    options.setdefault("budget", dpoco.Budget(1.0, 1e-3))
    return NoisyFTRL(domain, loss, horizon=T, source=Source.seeded(seed), **options)


def stream(case, d):
    rng = np.random.default_rng(zlib.crc32(case.encode()))
    features, targets = rng.normal(size=(T, d)) * 0.7, rng.normal(size=T)
    features[5], targets[6], features[7, 0] = np.inf, np.nan, np.nan
    features[8] *= 100  # clipped
    return features, targets


def draws(learner, method, pushes, entries):
    """The decoder of a method and the Gaussian draws of the learner's seed."""
    decode = reference.decoder(method, pushes, blt_parameters(pushes))
    gaussians = np.empty(decode.shape[1] * entries)
    _core.Source(**Source.seeded(3)._claim()).fill(2, gaussians)
    return decode, gaussians.reshape(-1, entries)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("method", continual_sum.METHODS)
@pytest.mark.parametrize("batch", [1, 3])
def test_matches_the_independent_implementation(case, loss_name, method, batch):
    domain, kind, p, size = CASES[case]
    loss, labels = LOSSES[loss_name]
    d = domain.dimension
    features, targets = stream(case + loss_name, d)
    # Large enough a step that decisions move and often meet the boundary.
    learner = make(domain, loss, sum_method=method, batch=batch, step_size=0.02)
    y = None if loss_name == "linear" else targets
    trace = learner.run(features, y)
    pushes = T // batch
    decode, gaussians = draws(learner, method, pushes, d)
    assert learner.parameters.noise_scale > 0
    expected = reference.decisions(
        features, y, kind=kind, p=p, size=size, center=domain.center, loss=loss_name,
        labels=labels, eta=0.02, sigma=learner.parameters.noise_scale, gaussians=gaussians,
        decode=decode, batch=batch,
    )  # fmt: skip
    assert np.allclose(trace.decisions, expected[:-1], rtol=0, atol=1e-9)
    assert np.allclose(learner.last_decision, expected[-1], rtol=0, atol=1e-9)
    assert np.abs(np.diff(expected, axis=0)).max() > 0.01
    played = np.vstack([trace.decisions, learner.last_decision])
    switches = np.flatnonzero(np.any(played[1:] != played[:-1], axis=1))
    assert np.array_equal(trace.switches, switches)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("budget", [None, dpoco.Budget(1.0, 1e-3), dpoco.Budget(200.0, 1e-3)])
def test_quadratic_statistics_lead_to_the_minimiser(case, budget):
    """Every decision satisfies the optimality condition of the noisy, convexified objective."""
    domain, _, p, _ = CASES[case]
    d = domain.dimension
    features, targets = stream(case, d)
    loss, eta = SquaredLoss(1.0, 1.0, weight=0.7), 0.3
    options = {"statistics": "quadratic", "sum_method": "toeplitz", "step_size": eta}
    learner = make(domain, loss, budget=budget, **options)
    trace = learner.run(features, targets)
    q = 1.0 if np.isinf(p) else (np.inf if p == 1 else p / (p - 1))
    decode, gaussians = draws(learner, "toeplitz", T, d * (d + 1) // 2 + d)
    matrices, vectors = reference.noisy_statistics(
        features, targets, q=q, bound=1.0, labels=(-1, 1), scale=learner.parameters.vector_scale,
        sigma=learner.parameters.noise_scale, gaussians=gaussians, decode=decode,
    )  # fmt: skip
    played = [*trace.decisions[1:], learner.last_decision]
    floored = 0
    for x, matrix, vector in zip(played, matrices, vectors, strict=True):
        values, basis = np.linalg.eigh(matrix)
        floored += values[0] < 0
        convex = (basis * np.maximum(values, 0)) @ basis.T
        gradient = 2 * 0.7 * (convex @ x - vector) + (x - domain.center) / eta
        steepness = 2 * 0.7 * max(values[-1], 0) + 1 / eta
        fixed = domain.project(x - gradient / steepness)
        assert np.abs(x - fixed).max() * steepness * eta < 1e-9  # bounds the distance to optimum
    assert floored > 5 or budget is None or budget.epsilon > 1
    assert np.abs(np.diff(trace.decisions, axis=0)).max() > 0.01


def test_without_noise_the_quadratic_leader_is_ridge_regression():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)) * 0.3, rng.normal(size=60) * 0.3
    loss = SquaredLoss(10.0, 10.0)
    learner = make(
        LpBall(3, 2.0, 50.0), loss, 60, budget=None, statistics="quadratic", step_size=2.0
    )
    learner.run(X, y)
    ridge = np.linalg.solve(2 * X.T @ X + np.eye(3) / 2.0, 2 * X.T @ y)
    assert np.allclose(learner.last_decision, ridge, rtol=0, atol=1e-12)


def test_custom_losses_are_differentiated_at_the_decision_only():
    asked = []

    class Row:
        def __init__(self, x, label):
            self.x, self.label = x, label

        def gradient(self, theta):
            asked.append(theta)
            return 2 * (theta @ self.x - self.label) * self.x

    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(T, 3)), rng.normal(size=T)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.clip(y, -1, 1)
    built_in = make(LpBall(3), SquaredLoss(1.0, 1.0))
    custom = make(LpBall(3), CustomLoss(lipschitz=4.0, smoothness=2.0))
    assert custom.parameters == built_in.parameters
    for t in range(T):
        assert np.allclose(custom.decide(), built_in.decide(), rtol=0, atol=1e-12)
        custom.observe(Row(X[t], y[t]))
        built_in.observe(X[t], y[t])
        assert len(asked) == t + 1
        assert asked[t] is custom._asked[1]


# -- law of the noise -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", continual_sum.METHODS)
@pytest.mark.parametrize("factor", [1.0, 1.05])
def test_decisions_show_noise_of_the_stated_law(method, factor):
    """In a huge ball the decision shows the released sum: Gaussian of the accounted variance."""
    d, rounds, eta = 20_000, 8, 1e-9
    learner = NoisyFTRL(
        LpBall(d, 2.0, 10.0), LinearLoss(1.0), horizon=rounds, budget=dpoco.Budget(1.0, 1e-6),
        step_size=eta, sum_method=method, source=Source.seeded(11),
    )  # fmt: skip
    rows = np.zeros((rounds, d))
    rows[2, :100] = 0.05
    trace = learner.run(rows)
    p = learner.parameters
    sums = -np.vstack([trace.decisions[1:], learner.last_decision]) / eta
    noise = sums - np.cumsum(rows, axis=0)
    levels = factor * p.noise_scale * continual_sum.row_norm(method, np.arange(1, 9), rounds)
    p_values = [stats.kstest(noise[t] / levels[t], "norm").pvalue for t in range(rounds)]
    # Of N(0, 1) draws the mean square is 1 +- sqrt(2/d); 5.7 of its errors: 1e-7 in 8 rounds.
    error = np.abs((noise / levels[:, None]).var(axis=1) - 1) / np.sqrt(2 / d)
    if factor == 1.0:
        assert min(p_values) > 1e-7
        assert error.max() < 5.7
    else:
        assert error.max() > 5.7
    grid = continual_sum.release_grid(p.noise_scale)
    assert np.allclose(sums / grid, np.rint(sums / grid), atol=1e-3)


def test_the_noise_does_not_depend_on_the_data():
    counts = set()
    for scale in (0.0, 1.0, np.nan, 1e300):
        learner = make(LpBall(3), SquaredLoss(1.0, 1.0), statistics="quadratic")
        learner.run(np.full((T, 3), scale), np.full(T, scale))
        counts.add(tuple(learner._engine.variates_drawn()))
    assert len(counts) == 1


def test_parameters_of_ones_own():
    learner = make(LpBall(3), LinearLoss(1.0))
    half = dataclasses.replace(learner.parameters, noise_scale=0.5 * learner.parameters.noise_scale)
    other = make(LpBall(3), LinearLoss(1.0), budget=None, parameters=half)
    assert other.guarantee.mu == pytest.approx(2 * learner.guarantee.mu)
    assert other.guarantee.regret_bound < learner.guarantee.regret_bound


@pytest.mark.parametrize(("first", "growth"), [(1, "root"), (3, "root"), (2, "quarter")])
def test_growing_batches_end_where_their_law_says(first, growth):
    """Of 400 rounds, the last of which ends a batch whose sum nobody sees."""
    starts = [t for t in itertools.takewhile(lambda t: t <= 400, batch_starts(first, growth))][1:]
    rounds, pushes = starts[-1], len(starts) - 1
    noise = {"method": "tree", "order": 2.0, "scale": 0.0, "grid": 0.0, "limit": 0.0}
    settings = {
        "rounds": rounds, "batch": first, "growth": growth, "step_size": 1.0, "scalar_bound": 0.0,
        "quadratic": False, "vector_scale": 1.0, "domain_radius": 1e6,
        "sum": {"dimension": 2, "horizon": pushes, "key": bytes(32), "stream": 0, **noise},
    }  # fmt: skip

    def engine():
        clipper = _core.RecordClipper(2, 1.0, 2.0, np.inf)
        glm = LinearLoss(1.0)._glm_engine
        return _core.NoisyFtrl(LpBall(2, 2.0, 1e6)._engine, glm, clipper, settings)

    rows = np.tile([-0.5, 0.5], (rounds, 1))
    whole, changed = engine(), np.empty(rounds, dtype=np.uint8)
    decisions = np.empty_like(rows)
    whole.run(rows, None, np.empty(rounds), decisions, changed)
    assert (np.flatnonzero(changed) + 1).tolist() == starts[:-1]
    assert decisions[-1].tolist() == [0.5 * starts[-2], -0.5 * starts[-2]]
    held = _core.described(whole)
    assert (held["batch"], held["growth"], held["pushes"]) == (first, growth, pushes)
    resumed = engine()
    for t in range(rounds):
        state, resumed = resumed.state(), engine()
        resumed.restore(state)
        assert np.array_equal(resumed.decision(), decisions[t])
        resumed.observe_gradient(t, rows[t])
    assert resumed.state() == whole.state()
