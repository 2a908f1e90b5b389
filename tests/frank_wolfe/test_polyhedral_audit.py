"""Privacy by enumeration: all transcripts of tiny instances, neighbouring streams, exact laws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy
from tests.frank_wolfe import polyhedral_reference as reference
from tests.plans import leaf

import dpoco
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.frank_wolfe import PolyhedralFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.privacy.losses.loss import ORDERS as RENYI_ORDERS

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


LOSS = SquaredLoss(1.0, 1.0, weight=0.5)
ORDERS = (1.5, 2.0, 4.0, 16.0)
SETTINGS = [
    (LpBall(2, 1.0), 3, {}),
    (LpBall(2, 1.0), 2, {"selector": "laplace"}),
    (LpBall(3, 1.0), 2, {"weights": "paper", "exponent": 0.5}),
    (Simplex(3), 3, {}),
    (Box([-1.0, 0.0, 0.0], [1.0, 1.0, 2.0]), 2, {}),
    (Box([-1.0, 0.0], [1.0, 1.0]), 2, {"selector": "laplace"}),
    (VertexSet([[0.0, 1.0], [1.0, 0.5], [-1.0, -1.0], [0.2, -1.0]]), 3, {"relation": "zero_out"}),
]


def make(domain, K, budget=(1.5, 1e-3), **options):
    return PolyhedralFrankWolfe(
        domain, LOSS, horizon=K, budget=dpoco.Budget(*budget), batch=1, **options
    )


def worlds(learner, pairs, seed):
    """Pairs of laws of all transcripts, streams differing in one round; the rest may adapt."""
    d, K = learner.domain.dimension, learner.horizon
    rng = np.random.default_rng(seed)
    zero_out = learner.guarantee.change == "zero_out"
    for _ in range(pairs):
        changed = int(rng.integers(K)) if rng.uniform() < 0.5 else 0
        x = rng.choice([-1.0, 1.0], size=d)
        records = [(x, float(rng.choice([-1.0, 1.0])))]
        records.append(
            (np.zeros(d), 0.0) if zero_out else (x * rng.choice([-1, 1]), -records[0][1])
        )
        others = rng.choice([-1.0, 1.0], size=(K, 40, d)), rng.choice([-1.0, 1.0], size=(K, 40))

        def stream(t, path, own, others=others, changed=changed):
            if t == changed:
                return own
            reply = sum((j + 1) * 7**i for i, j in enumerate(path)) % 40  # adaptive
            return others[0][t, reply], others[1][t, reply]

        yield [
            reference.transcripts(learner, lambda t, path, own=own: stream(t, path, own))
            for own in records
        ]


def divergences(pair):
    """Largest log ratio; log moments at ORDERS; both directions."""
    p, q = (np.array([side[path] for path in pair[0]]) for side in pair)
    ratio = np.log(p / q)
    moments = [
        max(np.log((p**a * q ** (1 - a)).sum()), np.log((q**a * p ** (1 - a)).sum()))
        for a in ORDERS
    ]
    return np.abs(ratio).max(), np.array(moments), p, q


def claimed_moments(learner):
    """Of zCDP: order (order - 1) rho; the profile must be at most that."""
    return np.array([a * (a - 1.0) * learner.guarantee.rho for a in ORDERS])


@pytest.mark.parametrize("index", range(len(SETTINGS)))
def test_enumerated_divergences_stay_below_the_guarantee(index):
    domain, K, options = SETTINGS[index]
    learner = make(domain, K, **options)
    guarantee = learner.guarantee
    pure, limits = guarantee.epsilon_at(0.0), claimed_moments(learner)
    worst, most = 0.0, np.zeros(len(ORDERS))
    for pair in worlds(learner, 25, index):
        largest, moments, p, q = divergences(pair)
        worst, most = max(worst, largest), np.maximum(most, moments)
        for epsilon in (0.0, 0.3, 1.0, 1.5, 3.0):
            exact = max(np.maximum(p - np.exp(epsilon) * q, 0).sum(),
                        np.maximum(q - np.exp(epsilon) * p, 0).sum())  # fmt: skip
            assert exact <= guarantee.delta_at(epsilon) + 1e-9
    assert worst <= pure * (1.0 + 1e-9)
    assert np.all(most <= limits * (1.0 + 1e-9))
    assert worst >= 0.08 * pure  # the search found something


def test_divergences_stay_below_the_renyi_profile():
    learner = make(LpBall(2, 1.0), 2, budget=(8.0, 1e-3))
    claimed = learner.guarantee.loss.renyi(RENYI_ORDERS)
    for pair in worlds(learner, 15, 9):
        _, _, p, q = divergences(pair)
        for a, bound in zip(RENYI_ORDERS[::10], claimed[::10], strict=True):
            assert scipy.special.logsumexp(a * np.log(p) + (1 - a) * np.log(q)) / (
                a - 1.0
            ) <= bound * (1 + 1e-9)


def one_selection(domain, selector, scale, changes, base):
    """Largest log ratio of one selection, directions moved by each of `changes`."""
    p = reference.law(domain, selector, base, scale)
    return max(
        np.abs(np.log(p / reference.law(domain, selector, base + change, scale))).max()
        for change in changes
    )


@pytest.mark.parametrize("selector", ["gumbel", "laplace"])
def test_planted_errors_are_caught(selector):
    """The l_inf diameter for a box, half the sensitivity, an l_1 radius for a diameter."""
    box = Box([-1.0, -1.0, -1.0], [1.0, 1.0, 1.0])
    for domain, wrong in ((box, 1.0 / 3.0), (box, 0.5), (LpBall(3, 1.0), 0.5)):
        learner = make(domain, 1, budget=(1.0, 0.0), selector=selector)
        scale = learner.plan.mechanism.scale
        # 2 C in every coordinate, where one vertex is certain to become another.
        reach = 2.0 * leaf(learner.plan).dual
        signs = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
        base = np.full(3, 6.0)
        if isinstance(domain, LpBall):
            signs, base = np.array([[1.0, -1.0, 0.0]]), np.array([-4.0, 4.0, 0.0])
        honest = one_selection(domain, selector, scale, reach * signs, base * scale)
        assert honest <= 1.0 + 1e-6
        # At a scale as small as the error would allow, the claim of epsilon = 1 is broken.
        caught = one_selection(domain, selector, wrong * scale, reach * signs, base * scale)
        assert caught > 1.05


def test_a_box_needs_its_l1_diameter_for_pure_and_its_l2_diameter_for_concentrated_privacy():
    d = 6
    box = Box([0.0] * d, [1.0] * d)
    learner = make(box, 1, budget=(1.0, 1e-5))
    p, g = learner.plan, learner.guarantee
    bound, scale = leaf(p).dual, p.mechanism.scale
    assert p.mechanism.scores.reach(2.0)[0] == pytest.approx(2.0 * bound * d)
    assert g.rho == pytest.approx((2.0 * bound * np.sqrt(d) / scale) ** 2 / 8.0)
    # One step of the largest possible change, at its worst: the zCDP bound is used up to 20 %.
    change = np.full(d, 2.0 * bound)
    a = 2.0
    before = reference.law(box, "gumbel", -change / 2, scale)
    after = reference.law(box, "gumbel", change / 2, scale)
    used = np.log((before**a * after ** (1 - a)).sum())
    assert 0.8 * a * (a - 1) * g.rho <= used <= a * (a - 1) * g.rho
    # With the l_inf diameter, 1, the claim would be false.
    false = (2.0 * bound * 1.0 / scale) ** 2 / 8.0
    assert used > 2.0 * a * (a - 1) * false


def test_bounded_range_of_random_selections():
    rng = np.random.default_rng(3)
    for _ in range(200):
        d, r, b, C = int(rng.integers(1, 6)), *rng.uniform(0.1, 3.0, 3)
        ball = LpBall(d, 1.0, r)
        g = rng.normal(size=d) * rng.uniform(0, 5)
        change = rng.uniform(-C, C, d)
        ratio = np.log(reference.law(ball, "gumbel", g, b))
        ratio -= np.log(reference.law(ball, "gumbel", g + change, b))
        reach = 2.0 * r * np.abs(change).max() / b
        assert ratio.max() - ratio.min() <= reach * (1 + 1e-9)
        p = reference.law(ball, "gumbel", g, b)
        for a in ORDERS:
            assert (
                scipy.special.logsumexp((a - 1) * ratio, b=p) <= a * (a - 1) * reach**2 / 8 + 1e-12
            )
