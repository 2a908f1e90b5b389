"""Attacks on the noisy leader's claim by replay on one random tape, and whether it learns."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.samples import mean_suboptimality

import dpoco
from dpoco.audit import replay_audit
from dpoco.datasets import linear_regression_stream
from dpoco.domains import LpBall
from dpoco.evaluation import best_fixed_decision
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, D = 30, 3
RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(T, D)), RNG.normal(size=T)


def maker(horizon=T, **options):
    options = {"budget": dpoco.Budget(1.0, 1e-4), **options}
    return lambda source: NoisyFTRL(horizon=horizon, source=source, **options)


@pytest.mark.parametrize("statistics", ["gradient", "quadratic"])
def test_the_sensitivity_is_reached(statistics):
    options = dict(
        domain=LpBall(D, 2.0), loss=SquaredLoss(1.0, 1.0), statistics=statistics,
        budget=dpoco.Budget(0.01, 1e-6), step_size=1e6 if statistics == "gradient" else None,
    )  # fmt: skip
    honest = maker(**options)(Source.seeded(0))
    base = X.copy(), Y.copy()
    if statistics == "gradient":
        # At a decision on the boundary: 2 (z - y) x is 4 x for x = decision and y = -1, and
        # half as far, with y = 1, it points the other way.
        honest.run(X[:5], Y[:5])
        decision = honest.last_decision
        base[0][5], other = decision, (0.5 * decision, 1.0)
    else:
        # The worst pair has the cosine u / 2, u = vector_scale^2.
        cosine = honest._mechanism.summand.weight**2 / 2
        base[0][5], other = [1, 0, 0], ([cosine, np.sqrt(1 - cosine**2), 0], 1.0)
    base[1][5] = -1.0
    report = replay_audit(maker(**options), base, [(5, *other)])
    assert report.passed
    assert report.measured > (0.999 if statistics == "quadratic" else 0.55) * report.declared


@pytest.mark.parametrize("kind", [
    NoisyFTRL, partial(NoisyFTRL, statistics="quadratic"), TreeFrankWolfe,
], ids=["gradient", "quadratic", "frank-wolfe"])  # fmt: skip
def test_tiny_losses_and_huge_features_stay_within_the_sensitivity(kind):
    for weight in [1.0, 1e-8, 1e-15, 3e-17, 1e-90]:
        learner = kind(
            LpBall(2, 2.0, 1e-9), SquaredLoss(1.0, 1.0, weight=weight), horizon=10,
            budget=dpoco.Budget(1.0, 1e-6), source=Source.seeded(0),
        )  # fmt: skip
        zero = np.zeros(2)
        for size in np.geomspace(1e300, 1.79e308, 1000):
            record = np.array([size, 0.0])
            change = learner._engine.leaf(zero, zero, record, -1.0)
            change = change - learner._engine.leaf(zero, zero, record, 1.0)
            assert np.linalg.norm(change) <= learner.guarantee.sensitivity * (1 + 1e-9)


# -- utility --------------------------------------------------------------------------------------


def regret(rows, learner, sign=1.0):
    trace = learner.run(sign * rows)
    return sign * trace.losses.sum() + np.linalg.norm(rows.sum(axis=0))


def streams(rounds, d):
    rng = np.random.default_rng(0)
    constant = np.zeros((rounds, d))
    constant[:, 0] = 1.0
    signs = constant * rng.choice([-1.0, 1.0], size=(rounds, 1))
    directions = rng.normal(size=(rounds, d))
    directions[:, 1] += 0.3
    directions /= np.maximum(1.0, np.linalg.norm(directions, axis=1))[:, None]
    return {"constant": constant, "signs": signs, "drift": directions}


@pytest.mark.parametrize("name", ["constant", "signs", "drift"])
@pytest.mark.parametrize("method", ["blt", "tree"])
def test_mean_regret_stays_below_the_bound(name, method):
    rounds, d = 20_000, 5
    rows = streams(rounds, d)[name]

    def learner(seed):
        return NoisyFTRL(
            LpBall(d, 2.0), LinearLoss(1.0), horizon=rounds, budget=dpoco.Budget(1.0, 1e-6),
            sum_method=method, source=Source.seeded(seed),
        )  # fmt: skip

    bound = learner(0).plan.forecast.regret_bound
    assert learner(0).plan.forecast.regret_scope == ("oblivious" if method == "blt" else "adaptive")
    mean = np.mean([regret(rows, learner(seed)) for seed in range(5)])
    assert mean <= bound
    if name == "constant":  # what it costs to get from the centre to the boundary: R^2 / (2 eta)
        assert mean > 0.4 * bound
        # Ascent instead of descent.
        assert regret(rows, learner(0), sign=-1.0) > 5 * bound


suboptimality = partial(mean_suboptimality, NoisyFTRL, d=5, p=2.0, seeds=5)


def test_regression_is_learned_with_either_statistics():
    assert suboptimality(10_000) < 0.3
    assert suboptimality(100_000) < 0.05


def test_exact_statistics_use_curvature():
    quadratic = suboptimality(10_000, statistics="quadratic")
    assert quadratic < 0.005
    assert suboptimality(10_000, step_size="predicted") > 10 * quadratic
    assert suboptimality(1000, statistics="quadratic") < 0.15


@pytest.mark.parametrize(("epsilon", "published", "error"), [
    (0.1, 0.05686, 0.00284), (1.0, 0.01176, 0.00077), (8.0, 0.00219, 0.00016),
])  # fmt: skip
def test_regression_has_the_published_regret(epsilon, published, error):
    stream = linear_regression_stream(10_000, 10, seed=43, target="gaussian")
    features, labels = stream.features, np.clip(stream.labels, -1.0, 1.0)
    domain, loss = LpBall(10), SquaredLoss(1.0, 1.0)
    least = best_fixed_decision(domain, loss, features, labels).average_loss
    found = [
        NoisyFTRL(
            domain, loss, horizon=10_000, budget=dpoco.Budget(epsilon, 1e-5),
            statistics="quadratic", source=Source.seeded(seed),
        ).run(features, labels).average_loss - least
        for seed in range(8)
    ]  # fmt: skip
    slack = 3.0 * np.hypot(error, np.std(found, ddof=1) / np.sqrt(8))
    assert np.mean(found) <= max(1.1 * published, published + 0.0005) + slack


@pytest.mark.parametrize("bound", [1.0, 1e-14, 1e-16])
def test_huge_features_under_tiny_bounds_stay_within_the_quadratic_sensitivity(bound):
    # Their clipping factor is nearly subnormal: products of factors would be coarse.
    learner = NoisyFTRL(
        LpBall(2, 2.0, 1.0), SquaredLoss(bound, bound), horizon=10, statistics="quadratic",
        budget=dpoco.Budget(1.0, 1e-6), relation="zero_out", source=Source.seeded(0),
    )  # fmt: skip
    zero, declared = np.zeros(2), learner.guarantee.sensitivity / bound**2
    longest = min(bound / 2.2251e-308, 1e308)
    for shrink in np.linspace(1.0, 3.0, 200):
        x = np.full(2, longest / np.sqrt(2.0) / shrink)
        leaf = learner._engine.leaf(zero, zero, x, bound) / bound**2
        assert 0.5 * declared < np.linalg.norm(leaf) <= declared * (1 + 1e-9)
