"""The leader on noisy sums against an independent implementation, and the law of its noise."""

from __future__ import annotations

import itertools
import warnings
import zlib

import numpy as np
import pytest
import scipy
from tests.oco import noisy_ftrl_reference as reference
from tests.plans import changed

import dpoco
from dpoco import _core
from dpoco.accounting import continual_sum
from dpoco.accounting.continual_sum import blt_parameters
from dpoco.datasets import linear_regression_stream
from dpoco.domains import LpBall
from dpoco.losses import CustomLoss, LinearLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum, batch_starts
from dpoco.privacy.neighbours import ONE
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


T = 40
CASES, LOSSES = reference.CASES, reference.LOSSES


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
def test_matches_the_independent_implementation(case, loss_name):
    # Each method and batch meets each case and each loss, every other one of them both.
    turn = (list(CASES).index(case) + list(LOSSES).index(loss_name)) % 2
    for method, batch in [*itertools.product(continual_sum.METHODS, [1, 3])][turn::2]:
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
        assert learner._mechanism.scale > 0
        expected = reference.decisions(
            features, y, kind=kind, p=p, size=size, center=domain.center, loss=loss_name,
            labels=labels, eta=0.02, sigma=learner._mechanism.scale, gaussians=gaussians,
            decode=decode, batch=batch,
        )  # fmt: skip
        assert np.allclose(trace.decisions, expected[:-1], rtol=0, atol=1e-9)
        assert np.allclose(learner.last_decision, expected[-1], rtol=0, atol=1e-9)
        assert np.abs(np.diff(expected, axis=0)).max() > 0.01
        played = np.vstack([trace.decisions, learner.last_decision])
        switches = np.flatnonzero(np.any(played[1:] != played[:-1], axis=1))
        assert np.array_equal(trace.switches, switches)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("budget", [None, dpoco.Budget(2.5, 1e-3), dpoco.Budget(200.0, 1e-3)])
def test_quadratic_statistics_lead_to_the_ridge(case, budget):
    """Every decision minimises the noisy, convexified objective; shrunk, if noise hides it."""
    domain = CASES[case][0]
    d, center = domain.dimension, domain.center
    features, targets = stream(case, d)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", dpoco.UnspentBudgetWarning)
        loss = SquaredLoss(1.0, 1.0, weight=0.7)
        learner = make(domain, loss, budget=budget, statistics="quadratic")
    trace = learner.run(features, targets)
    q, own = domain.dual_exponent, learner._mechanism
    ends = reference.ridge_ends(T, 1)
    assert {*trace.switches} <= {end - 1 for end in ends}
    decode, gaussians = draws(learner, "toeplitz", len(ends), d * (d + 1) // 2 + d)
    matrices, vectors = reference.noisy_statistics(
        features, targets, q=q, bound=1.0, labels=(-1, 1), scale=own.summand.weight, ends=ends,
        noise=own.scale * (decode @ gaussians), sigma=own.scale,
    )  # fmt: skip
    deviations = own.scale * np.linalg.norm(decode, axis=1)
    length = float(max(1.0, d ** (0.5 - 1.0 / q)))
    hidden = np.sqrt(2 * d) * deviations[-1] * d / length**2 > T
    assert hidden == bool(warned) == (d > 1 and budget is not None and budget.epsilon < 200)
    floored, moved = 0, 0
    for k, (matrix, vector) in enumerate(zip(matrices, vectors, strict=True)):
        values, basis = np.linalg.eigh(matrix)
        floored += values[0] < 0
        ridge = np.sqrt(2 * d) * deviations[k] if budget else 1e-9 * length**2
        spectrum = np.maximum(values, 0) + ridge
        convex = (basis * spectrum) @ basis.T

        def descended(x, convex=convex, linear=vector + ridge * center, top=spectrum[-1]):
            return domain.project(x - (convex @ x - linear) / top)

        played = trace.decisions[ends[k]]
        if not hidden:  # a fixed point of descent; what follows bounds the distance to it
            assert np.abs(played - descended(played)).max() * min(1e4, spectrum[-1] / ridge) < 1e-9
            continue
        best = center
        for _ in range(200):  # the ridge is as large as the matrix: it halves the distance
            best = descended(best)
        square = np.sum((best - center) ** 2)
        noise = (deviations[k] / own.summand.weight) ** 2 * np.sum(spectrum**-2.0)
        shrunk = center + max(0.0, 1.0 - noise / square) * (best - center)
        assert np.allclose(played, shrunk, rtol=0, atol=1e-9)
        moved += noise < square
    assert not hidden or (floored > 5 and (moved > 0 or case == "simplex"))


# T, ends, scale of the draws, last deviation: computed by an independent program.
DESIGNS = {
    10_000: (10, 28, [10, 20, 30, 40], 8206, 11.412484, 16.632959),
    100_000: (11, 38, [11, 22, 33, 44], 84597, 13.218456, 19.704224),
}


@pytest.mark.parametrize("horizon", DESIGNS)
def test_the_design_of_the_ridge(horizon):
    first, count, begin, last, scale, deviation = DESIGNS[horizon]
    budget = dpoco.Budget(1.0, 1.0 / (10 * horizon))
    p = make(
        LpBall(10), SquaredLoss(1.0, 1.0), horizon, budget=budget, statistics="quadratic",
        numerics="float",
    ).plan.mechanism  # fmt: skip
    ends = reference.ridge_ends(horizon, p.batch)
    assert (p.batch, p.pushes, ends[:4], ends[-1]) == (first, count, begin, last)
    assert p.factorisation.kind == "square_root"
    assert p.summand.weight == pytest.approx(0.98407667, rel=1e-8)
    assert p.summand.movement(ONE) == pytest.approx(2.0989806, rel=1e-7)
    assert p.scale == pytest.approx(scale, rel=1e-7)
    row = continual_sum.row_norm(p.factorisation, p.pushes, p.pushes)
    assert p.scale * row == pytest.approx(deviation, rel=1e-7)


def test_an_unknown_horizon_costs_the_ridge_little():
    options = {"budget": dpoco.Budget(1.0, 1e-6), "statistics": "quadratic"}
    known, unknown = (
        make(LpBall(10), SquaredLoss(1.0, 1.0), horizon, **options).plan.mechanism
        for horizon in (10**5, None)
    )
    assert unknown.pushes == len(reference.ridge_ends(10**9, unknown.batch)) < 100
    assert unknown.factorisation.kind == "square_root"
    assert unknown.grid > 0.0  # though blocks are long
    assert unknown.scale < 1.08 * known.scale


def test_regression_on_statistics_has_the_published_losses():
    """Without noise by the engine; with scripted noise, the cosines of its index, by ours."""
    own = linear_regression_stream(10_000, 10, seed=43, target="gaussian")
    X, y = own.features, np.clip(own.labels, -1, 1)
    learner = make(LpBall(10), SquaredLoss(1.0, 1.0), 10_000, budget=None, statistics="quadratic")
    assert learner.run(X, y).average_loss == pytest.approx(0.00253514, rel=2e-6)
    expected = [0.084786466, 0.22969615, -0.19732459]
    assert learner.last_decision[:3] == pytest.approx(expected, rel=1e-6)
    alpha, s = 0.98407667, 11.412483375 * np.sqrt(np.cumsum(reference.square_roots(28) ** 2))
    ends = reference.ridge_ends(10_000, 10)
    noise = s[:, None] * np.cos(1.3 * np.arange(1, 29)[:, None] + 0.7 * np.arange(1, 66))
    noise = np.hstack([noise[:, 10:], noise[:, :10]])  # printed with the vector first
    matrices, vectors = reference.noisy_statistics(
        X, y, q=2.0, bound=1.0, labels=(-1, 1), scale=alpha, ends=ends, noise=noise, sigma=0.0
    )
    ridges = np.sqrt(20.0) * s
    played = [np.zeros(10), *map(reference.ridge_decision, matrices, vectors, ridges, np.ones(28))]
    lengths = np.diff([0, *ends, 10_000])
    errors = np.einsum("td,td->t", X, np.repeat(played, lengths, axis=0)) - y
    assert np.mean(errors**2) == pytest.approx(0.01231563, rel=1e-6)
    assert played[-1][:3] == pytest.approx([0.080753711, 0.21665801, -0.17155273], rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("guarded", [True, False])
def test_labels_that_are_noise_cost_little(epsilon, guarded, monkeypatch):
    """At most 0.03 a round above the centre: a public rule says when decisions are shrunk."""
    rounds, seeds = 1000, 8
    X = linear_regression_stream(rounds, 10, seed=3, target="gaussian").features
    y = np.random.default_rng(6).choice([-0.5, 0.5], rounds)
    if not guarded:
        monkeypatch.setattr("dpoco.accounting.noisy_ftrl_regret.Ridge.shrinkage", 0.0)
    budget = dpoco.Budget(epsilon, 1e-4)
    excess = np.mean([
        make(
            LpBall(10), SquaredLoss(1.0, 1.0), rounds, seed, budget=budget, statistics="quadratic"
        ).run(X, y).average_loss - 0.25
        for seed in range(seeds)
    ])  # fmt: skip
    if guarded:
        assert excess < (0.03 if epsilon == 1.0 else 0.01)
    elif epsilon < 1.0:
        assert excess > 0.02


def test_without_noise_the_quadratic_leader_is_least_squares():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)) * 0.3, rng.normal(size=60) * 0.3
    learner = make(
        LpBall(3, 2.0, 50.0), SquaredLoss(1.0, 1.0), 60, budget=None, statistics="quadratic"
    )
    learner.run(X, y)
    seen = reference.ridge_ends(60, 1)[-1]
    expected = np.linalg.lstsq(X[:seen], y[:seen], rcond=None)[0]
    assert np.allclose(learner.last_decision, expected, rtol=0, atol=1e-7)


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
    assert custom.plan.tuning == built_in.plan.tuning
    assert custom._mechanism.scale == built_in._mechanism.scale
    for t in range(T):
        assert np.allclose(custom.decide(), built_in.decide(), rtol=0, atol=1e-12)
        custom.observe(Row(X[t], y[t]))
        built_in.observe(X[t], y[t])
        assert len(asked) == t + 1
        assert asked[t] is custom._asked[1]


# -- law of the noise -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", continual_sum.METHODS)
def test_decisions_show_noise_of_the_stated_law(method):
    """In a huge ball the decision shows the released sum: Gaussian of the accounted variance."""
    d, rounds, eta = 20_000, 8, 1e-9
    learner = NoisyFTRL(
        LpBall(d, 2.0, 10.0), LinearLoss(1.0), horizon=rounds, budget=dpoco.Budget(1.0, 1e-6),
        step_size=eta, sum_method=method, source=Source.seeded(11),
    )  # fmt: skip
    rows = np.zeros((rounds, d))
    rows[2, :100] = 0.05
    trace = learner.run(rows)
    p = learner.plan.mechanism
    sums = -np.vstack([trace.decisions[1:], learner.last_decision]) / eta
    noise = sums - np.cumsum(rows, axis=0)
    levels = p.scale * continual_sum.row_norm(method, np.arange(1, 9), rounds)
    p_values = [scipy.stats.kstest(noise[t] / levels[t], "norm").pvalue for t in range(rounds)]
    # Of N(0, 1) draws the mean square is 1 +- sqrt(2/d); 5.7 of its errors: 1e-7 in 8 rounds.
    squares = (noise / levels[:, None]).var(axis=1)
    assert min(p_values) > 1e-7
    assert np.abs(squares - 1.0).max() < 5.7 * np.sqrt(2 / d)
    assert np.abs(squares / 1.05**2 - 1.0).max() > 5.7 * np.sqrt(2 / d)
    grid = continual_sum.release_grid(p.scale)
    assert np.allclose(sums / grid, np.rint(sums / grid), atol=1e-3)


def test_the_noise_does_not_depend_on_the_data():
    counts = set()
    for scale in (0.0, 1.0, np.nan, 1e300):
        learner = make(LpBall(3), SquaredLoss(1.0, 1.0), statistics="quadratic")
        learner.run(np.full((T, 3), scale), np.full(T, scale))
        counts.add(tuple(learner._engine.variates_drawn()))
    assert len(counts) == 1


def test_parameters_of_ones_own():
    learner = make(LpBall(3), LinearLoss(1.0), numerics="float")
    half = changed(learner.plan, scale=0.5 * learner._mechanism.scale)
    other = make(LpBall(3), LinearLoss(1.0), budget=None, plan=half)
    assert other.guarantee.mu == pytest.approx(2 * learner.guarantee.mu)
    assert other.guarantee.regret_bound < learner.guarantee.regret_bound


@pytest.mark.parametrize(("first", "growth"), [(1, "root"), (3, "root"), (2, "quarter")])
def test_growing_batches_end_where_their_law_says(first, growth):
    """Of 400 rounds, the last of which ends a batch whose sum nobody sees."""
    starts = [t for t in itertools.takewhile(lambda t: t <= 400, batch_starts(first, growth))][1:]
    rounds, pushes = starts[-1], len(starts) - 1
    vector = ClippedVector(2, 2.0, 1.0, np.inf)
    total = GaussianSum(vector, Tree(), pushes, batch=first, growth=growth)
    claim = {"key": bytes(32), "stream": 0}

    def engine():
        steps = {"rounds": rounds, "step_size": 1.0}
        ball, glm = LpBall(2, 2.0, 1e6)._engine, LinearLoss(1.0)._glm_engine
        return _core.NoisyFtrl(ball, glm, total, steps, claim)

    rows = np.tile([-0.5, 0.5], (rounds, 1))
    whole, changed = engine(), np.empty(rounds, dtype=np.uint8)
    decisions = np.empty_like(rows)
    whole.run(rows, None, np.empty(rounds), decisions, changed)
    assert (np.flatnonzero(changed) + 1).tolist() == starts[:-1]
    assert decisions[-1].tolist() == [0.5 * starts[-2], -0.5 * starts[-2]]
    resumed = engine()
    for t in range(rounds):
        state, resumed = resumed.state(), engine()
        resumed.restore(state)
        assert np.array_equal(resumed.decision(), decisions[t])
        resumed.observe_gradient(t, rows[t])
    assert resumed.state() == whole.state()
