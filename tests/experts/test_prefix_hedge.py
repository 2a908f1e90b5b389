"""Hedge on noisy sums: an independent implementation, laws of its draws, audits, regret."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import dpoco
from dpoco import _core
from dpoco.accounting import continual_sum
from dpoco.audit._sums import add as compensated
from dpoco.experts import PrefixHedge
from dpoco.mechanisms import continual_sum_settings
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
METHODS = ("blt", "tree", "honaker", "toeplitz")


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
        self.p = p = learner.parameters
        claim = Source.seeded(seed)._claim()
        self.noise = _core.ContinualSum(
            continual_sum_settings(learner._mechanism, claim),
            _core.RecordClipper(p.experts, 1e9, 2.0, math.inf),
        )  # fmt: skip
        self.grid = continual_sum.release_grid(p.noise_scale)
        uniforms = np.empty(p.horizon)
        _core.Source(claim["key"], claim["stream"]).fill(1, uniforms)
        self.uniforms = uniforms

    def play(self, losses):
        """Return decisions (T,) and weights (T, N) for losses in [0, 1]."""
        n = self.p.experts
        total, decisions, weights = np.zeros(n), [], []
        released = total
        for t, row in enumerate(losses):
            scores = np.exp(-self.p.learning_rate * (released - released.min()))
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
    p = learner.parameters
    runs = 4000
    means, spreads = [], []
    for first in ([0.0, 1.0], [1.0, 0.0]):
        source, statistic = Source.seeded(5 + int(first[0])), []
        for _ in range(runs):
            claim = source._claim()
            engine = _core.PrefixHedge(
                {
                    "experts": 2, "rounds": 2, "low": 0.0, "high": 1.0, "learning_rate": 1e-3,
                    "sum": continual_sum_settings(learner._mechanism, claim),
                },
                None,
            )  # fmt: skip
            engine.observe(0, np.array(first))
            statistic.append(np.diff(np.log(engine.weights()))[0] / -1e-3)
        means.append(np.mean(statistic))
        spreads.append(np.var(statistic))
    deviation = math.sqrt(np.mean(spreads))
    separation = (means[0] - means[1]) / deviation
    assert abs(separation - p.mu) < 5.0 * math.sqrt(2.0 / runs)
    assert deviation == pytest.approx(math.sqrt(2.0) * p.noise_scale, rel=5.0 / math.sqrt(4 * runs))
    assert deviation != pytest.approx(p.noise_scale, rel=5.0 / math.sqrt(4 * runs))


# -- replay on one random tape --------------------------------------------------------------------


def replay(build, losses, changed, other):
    """Play two neighbouring streams on one tape; return the largest change of the sum."""
    neighbour = losses.copy()
    neighbour[changed] = other
    twins = build(), build()
    worst = 0.0
    lost = [0.0, 0.0]  # by rounding, which the sums make up for
    for t, rows in enumerate(zip(losses, neighbour, strict=True)):
        sums = []
        for i, (learner, row) in enumerate(zip(twins, rows, strict=True)):
            before = learner._engine.nonprivate_sum().copy()
            leaf = learner._engine.leaf(row)
            learner.decide()
            learner.observe(row)
            after = learner._engine.nonprivate_sum()
            # A round adds a function of its own losses to the sum, and nothing else.
            if t + 1 < len(losses):
                before, lost[i] = compensated(leaf, before, lost[i])
            assert np.array_equal(after, before)
            sums.append(after)
        if t <= changed:
            assert twins[0]._asked == twins[1]._asked
        assert twins[0]._engine.variates_drawn() == twins[1]._engine.variates_drawn()
        worst = max(worst, float(np.linalg.norm(sums[0] - sums[1])))
    return worst


@pytest.mark.parametrize("experts", [2, 3, 5, 10, 101])
@pytest.mark.parametrize("method", METHODS)
def test_neighbouring_sums_stay_within_the_sensitivity(experts, method):
    rounds = 20
    losses = np.random.default_rng(experts).random((rounds, experts))
    build = lambda: make(experts, rounds, sum_method=method, numerics="float")  # noqa: E731
    declared = build().guarantee.sensitivity * (1.0 + 1e-12)
    corner = (np.arange(experts) % 2).astype(float)
    losses[4], losses[11] = 1.0 - corner, 0.0
    nasty = [
        (0, np.full(experts, 1e300)),
        (4, corner),
        (7, np.full(experts, np.nan)),
        (11, np.where(corner > 0, np.inf, -5.0)),
        (18, -losses[18]),
    ]
    changes = [replay(build, losses, t, other) for t, other in nasty]
    assert max(changes) <= declared * (1.0 + 1e-13)
    assert changes[1] == pytest.approx(declared, rel=1e-11)  # the worst pair
    assert replay(build, losses, rounds - 1, corner) == 0.0  # the last round is never summed
    # A claim of sqrt(N)/2, the distance of a vector from the middle of the cube, is caught, and
    # so is a sum that keeps the mean.
    assert changes[1] > 1.5 * math.sqrt(experts) / 2.0
    if experts % 2:
        assert np.linalg.norm((1.0 - corner) - corner) > declared


def test_understated_sensitivity_overspends():
    learner = make(10, 100)
    planted = dataclasses.replace(
        learner.parameters,
        noise_scale=learner.parameters.noise_scale / 2.0,  # for sqrt(N)/2
        sensitivity=math.sqrt(10) / 2.0,
    )
    assert make(10, 100, budget=None, parameters=planted).guarantee.mu > 1.99 * learner.guarantee.mu
    with pytest.raises(dpoco.BudgetExceeded):
        make(10, 100, parameters=planted)


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
@pytest.mark.parametrize("method", ["blt", "honaker"])
def test_mean_regret_stays_below_the_bound(name, method):
    rounds, experts = 20_000, 5
    losses = streams(rounds, experts)[name]
    learners = [make(experts, rounds, seed=s, sum_method=method) for s in range(8)]
    bound = learners[0].parameters.regret_bound
    assert learners[0].guarantee.regret_bound == bound
    assert bound < rounds / 4
    regrets = [learner.run(losses).losses.sum() - losses.sum(axis=0).min() for learner in learners]
    assert np.mean(regrets) <= bound
    if name == "one good expert":
        assert np.mean(regrets) > 0.1 * bound
        # The largest sum instead of the smallest.
        worst = make(experts, rounds, sum_method=method).run(1.0 - losses).decisions
        assert losses[np.arange(rounds), worst].sum() > 3.0 * bound
