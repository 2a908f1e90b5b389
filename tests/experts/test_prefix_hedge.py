"""Hedge on noisy sums: an independent implementation, laws of its draws, audits, regret, states."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpoco
from dpoco import _core
from dpoco.accounting import continual_sum
from dpoco.audit._sum_noise import sum_alone
from dpoco.experts import PrefixHedge
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
METHODS = ("blt", "blt_normalised", "tree", "toeplitz")


def make(experts, horizon, *, seed=1, budget=BUDGET, **options):
    return PrefixHedge(
        experts, horizon=horizon, budget=budget, source=Source.seeded(seed), **options
    )


def losses_of(rounds, experts, seed=0):
    """Multiples of 2^-10, so that sums are exact in any order."""
    return np.random.default_rng(seed).integers(0, 1025, size=(rounds, experts)) / 1024.0


# -- an independent implementation ----------------------------------------------------------------


class Reference:
    """The algorithm in a few lines of NumPy, on the same random tape."""

    def __init__(self, learner, seed=1):
        self.p = p = learner.plan
        claim = Source.seeded(seed)._claim()
        self.noise = sum_alone(learner._mechanism, claim)
        self.grid = continual_sum.release_grid(p.mechanism.scale)
        uniforms = np.empty(p.mechanism.pushes + 1)
        _core.Source(claim["key"], claim["stream"]).fill(1, uniforms)
        self.uniforms = uniforms

    def play(self, losses):
        """Return decisions (T,) and weights (T, N) for losses in [0, 1]."""
        n = self.p.mechanism.summand.experts
        total, decisions, weights = np.zeros(n), [], []
        released = total
        for t, row in enumerate(losses):
            scores = np.exp(-self.p.tuning.learning_rate * (released - released.min()))
            weights.append(scores / scores.sum())
            decisions.append(int(np.searchsorted(np.cumsum(weights[-1]), self.uniforms[t])))
            if t + 1 < len(losses):
                pushed = row - row.mean()
                released = self.noise.push(pushed)
                total = total + pushed
        return np.array(decisions), np.array(weights)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("experts", "rounds"), [(2, 300), (8, 65), (64, 40), (5, 64), (3000, 9)])
def test_decisions_equal_an_independent_implementation(method, experts, rounds):
    losses = losses_of(rounds, experts)
    learner = make(experts, rounds, sum_method=method, learning_rate=0.05)
    decisions, weights = Reference(learner).play(losses)
    for t in range(rounds):
        assert learner.decide() == decisions[t]
        tolerance = 1e-12 if experts & (experts - 1) == 0 else 1e-4  # a grid cell may flip
        assert learner.weights == pytest.approx(weights[t], rel=tolerance, abs=1e-15)
        learner.observe(losses[t])
    assert np.array_equal(make(experts, rounds, sum_method=method, learning_rate=0.05)
                          .run(losses).decisions, decisions)  # fmt: skip


def test_the_sum_without_noise_is_the_centred_one():
    losses = losses_of(50, 4)
    learner = make(4, 60)
    learner.run(losses)
    centred = losses - losses.mean(axis=1, keepdims=True)
    assert np.array_equal(learner._engine.nonprivate_sum(), centred.sum(axis=0))
    assert np.array_equal(learner._engine.leaf(losses[7]), centred[7])


@pytest.mark.parametrize("method", METHODS)
def test_a_common_shift_changes_nothing(method):
    losses = losses_of(100, 8) / 4.0
    shifts = np.random.default_rng(1).integers(0, 49, size=(100, 1)) / 64.0
    twins = [make(8, 100, sum_method=method) for _ in range(2)]
    for row, shift in zip(losses, shifts, strict=True):
        assert twins[0].decide() == twins[1].decide()
        assert np.array_equal(twins[0].weights, twins[1].weights)
        twins[0].observe(row)
        twins[1].observe(row + shift)


# -- laws -----------------------------------------------------------------------------------------


def chi_square(decisions, weights):
    from scipy.stats import chi2

    counts = np.bincount(decisions, minlength=len(weights))
    expected = len(decisions) * weights
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), len(weights) - 1)


def test_decisions_are_drawn_from_the_softmax():
    # Without noise and with equal losses after the first round, the weights stay what they are.
    rounds, first = 200_001, np.array([0.0, 0.3, 1.0, 0.6, 0.6])
    losses = np.full((rounds, 5), 0.5)
    losses[0] = first
    learner = make(5, rounds, budget=None, learning_rate=0.8)
    decisions = learner.run(losses).decisions[1:]
    weights = np.exp(-0.8 * first) / np.exp(-0.8 * first).sum()
    assert learner.weights == pytest.approx(weights, rel=1e-9)
    assert chi_square(decisions, weights) > 1e-6
    wrong = np.exp(-0.72 * first) / np.exp(-0.72 * first).sum()
    assert chi_square(decisions, wrong) < 1e-12
    flipped = np.exp(0.8 * first) / np.exp(0.8 * first).sum()
    assert chi_square(decisions, flipped) < 1e-12


def test_noisy_weights_predict_the_decisions():
    learner = make(4, 8000, learning_rate=0.05, seed=3)
    losses = losses_of(8000, 4, seed=2)
    surplus, spread = np.zeros(4), np.zeros(4)
    for row in losses:
        weights = learner.weights
        surplus -= weights
        surplus[learner.decide()] += 1.0
        spread += weights * (1.0 - weights)
        learner.observe(row)
    assert spread.min() > 100.0  # all four were in play
    assert np.all(np.abs(surplus) < 5.0 * np.sqrt(spread))


def test_one_release_separates_neighbours_by_exactly_mu():
    # Two rounds, two experts: the noisy difference of their losses is the sufficient statistic.
    learner = make(2, 2)
    scale, runs = learner._mechanism.scale, 4000
    means, spreads = [], []
    for first in ([0.0, 1.0], [1.0, 0.0]):
        source, statistic = Source.seeded(5 + int(first[0])), []
        for _ in range(runs):
            claim = source._claim()
            engine = _core.PrefixHedge(
                learner._mechanism,
                {"rounds": 2, "low": 0.0, "high": 1.0, "learning_rate": 1e-3},
                claim,
            )
            engine.observe(0, np.array(first))
            statistic.append(np.diff(np.log(engine.weights()))[0] / -1e-3)
        means.append(np.mean(statistic))
        spreads.append(np.var(statistic))
    deviation = math.sqrt(np.mean(spreads))
    separation = (means[0] - means[1]) / deviation
    assert abs(separation - learner.guarantee.mu) < 5.0 * math.sqrt(2.0 / runs)
    assert deviation == pytest.approx(math.sqrt(2.0) * scale, rel=5.0 / math.sqrt(4 * runs))
    assert deviation != pytest.approx(scale, rel=5.0 / math.sqrt(4 * runs))


# -- utility --------------------------------------------------------------------------------------


def streams(rounds, experts):
    rng = np.random.default_rng(0)
    gap = rng.random((rounds, experts))
    gap[:, 3] *= 0.7
    best = np.ones((rounds, experts))
    best[:, 2] = 0.0
    blocks = np.zeros((rounds, experts))
    turns = np.arange(rounds) // 50 % 2
    blocks[turns == 0, 0] = 1.0
    blocks[turns == 1, 1:] = 1.0
    return {"gap": gap, "one good expert": best, "blocks": blocks}


@pytest.mark.parametrize("name", ["gap", "one good expert", "blocks"])
@pytest.mark.parametrize("method", ["blt", "tree"])
def test_mean_regret_stays_below_the_bound(name, method):
    rounds, experts = 20_000, 5
    losses = streams(rounds, experts)[name]
    learners = [make(experts, rounds, seed=s, sum_method=method) for s in range(8)]
    bound = learners[0].plan.forecast.regret_bound
    assert learners[0].guarantee.regret_bound == bound
    assert bound < rounds / 4
    regrets = [learner.run(losses).losses.sum() - losses.sum(axis=0).min() for learner in learners]
    assert np.mean(regrets) <= bound
    if name == "one good expert":
        assert np.mean(regrets) > 0.1 * bound
        # The largest sum instead of the smallest.
        worst = make(experts, rounds, sum_method=method).run(1.0 - losses).decisions
        assert losses[np.arange(rounds), worst].sum() > 3.0 * bound


# -- state files ----------------------------------------------------------------------------------
