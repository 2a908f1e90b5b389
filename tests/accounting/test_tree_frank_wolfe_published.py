"""Tree Frank-Wolfe with the published constants, and with the published proof repaired."""

from __future__ import annotations

import math

import pytest
from tests.plans import changed, leaf

from dpoco.accounting import Budget
from dpoco.accounting import tree_frank_wolfe as accountant
from dpoco.accounting.claims import (
    published_epsilon,
    published_levels,
    published_sigma,
    tree_equivalent_scale,
)
from dpoco.accounting.continual_sum import worst_row_norm
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpoco.domains import LpBall
from dpoco.errors import CalibrationError

from .by_hand import both, custom, squared


@pytest.mark.parametrize(
    ("d", "p", "n", "delta", "lipschitz", "smoothness", "sigma"),
    [(5, 1.5, 1000, 1e-3, 6.0, 1.0, 1241.097924), (100, 1.5, 10_000, 1e-4, 0.5, 0.125, 207.138133)],
)
def test_published_scale_oracles(d, p, n, delta, lipschitz, smoothness, sigma):
    domain, loss = LpBall(d, p, 2.0), custom(lipschitz, smoothness)
    parameters, guarantee = both(domain, loss, Budget(1.0, delta), horizon=n, calibration="paper")
    assert parameters.mechanism.scale == pytest.approx(sigma, rel=1e-8)
    total = parameters.mechanism
    assert (total.factorisation.kind, parameters.tuning.offset) == ("tree", 1)
    assert total.order >= 2.0
    assert guarantee.claimed == pytest.approx((1.0, delta), rel=1e-12)
    assert guarantee.paper_epsilon == pytest.approx(1.0, rel=1e-12)
    kappa = (total.order - 1) * d ** (2 / total.order - 2 / 3)
    mu = 2 * leaf(parameters).dual * math.sqrt(kappa * n.bit_length()) / sigma
    assert guarantee.epsilon == pytest.approx(gaussian_epsilon(mu, delta), rel=1e-6)
    assert guarantee.epsilon < 0.14
    assert "Claimed" in str(guarantee)


def test_published_noise_above_two_is_plain_gaussian():
    domain, loss = LpBall(50, 4.0, 1.0), squared()
    parameters, guarantee = both(domain, loss, calibration="paper")
    assert parameters.mechanism.order == 2.0
    bound = 2 * 2.0 + 4.0  # beta D + L
    scale = math.sqrt(8) * 11 * math.sqrt(math.log(11e3)) * bound
    assert parameters.mechanism.scale == pytest.approx(scale, rel=1e-12)
    assert guarantee.sensitivity == pytest.approx(2 * bound)


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
def test_published_claims_that_are_false_are_refused():
    domain, loss = LpBall(5), custom(1.0, 0.0)
    with pytest.raises(CalibrationError, match="miss delta"):
        both(domain, loss, Budget(10.0, 1e-5), horizon=1, calibration="paper")
    both(domain, loss, Budget(7.5, 1e-5), horizon=1, calibration="paper")
    both(domain, loss, Budget(22.0, 1e-2), horizon=2, calibration="paper")
    with pytest.raises(CalibrationError, match="exact delta"):
        both(domain, loss, Budget(23.0, 1e-2), horizon=2, calibration="paper")
    # The same refusal when the parameters come from the user.
    good, _ = both(domain, loss, Budget(7.5, 1e-5), horizon=1, calibration="paper")
    bad = changed(good, scale=good.mechanism.scale * 0.7)
    with pytest.raises(CalibrationError, match="false"):
        accountant.guarantee(domain, loss, bad, budget=1e-5)


def test_exact_delta_of_the_published_scale_at_one_round():
    mu = 2.0 / published_sigma(Budget(10.0, 1e-5), pushes=1, kappa=1.0, leaf_bound=1.0)
    assert gaussian_delta(10.0, mu) == pytest.approx(2.9e-5, rel=0.02)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 1000, 1023, 1024, 1025, 10**6])
def test_published_levels(n):
    assert published_levels(n) == math.ceil(math.log2(n)) + 1
    assert published_levels(n) in (n.bit_length(), n.bit_length() + 1)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 1000, 10**6])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0])
def test_corrected_calibration_composes_exact_nodes(n, p):
    domain, loss = LpBall(30, p, 1.0), squared()
    parameters, guarantee = both(domain, loss, horizon=n, calibration="corrected")
    nodes = n.bit_length()
    node = gaussian_mu(1.0 / nodes, 1e-3 / nodes)
    assert guarantee.mu == pytest.approx(node * math.sqrt(nodes), rel=1e-6)
    assert leaf(parameters).dual == pytest.approx(8.0)
    claimed = guarantee.claimed
    assert claimed[0] <= 1.0
    assert claimed == pytest.approx((1.0, 1e-3), rel=1e-9)
    assert guarantee.epsilon <= claimed[0] * (1 + 1e-12)
    # Basic composition by hand.
    by_hand = nodes * gaussian_epsilon(guarantee.mu / math.sqrt(nodes), 1e-3 / nodes)
    assert claimed[0] == pytest.approx(by_hand, rel=1e-6)
    if n >= 7:
        assert guarantee.epsilon < 0.75
        published, _ = both(domain, loss, horizon=n, calibration="paper")
        tight, _ = both(domain, loss, horizon=n)
        assert tight.mechanism.scale < parameters.mechanism.scale < published.mechanism.scale


def test_published_epsilon_of_any_noise():
    domain, loss = LpBall(5, 1.5, 2.0), squared(1.25)
    tree, guarantee = both(domain, loss, sum_method="tree")
    bound, kappa = 2 * 4.0 + 2 * 3.25, 5 ** (1 / 3)
    want = math.sqrt(8) * 11 * math.sqrt(kappa * math.log(11e3)) * bound / tree.mechanism.scale
    assert guarantee.paper_epsilon == pytest.approx(want, rel=1e-12)
    back = published_sigma(Budget(want, 1e-3), pushes=1000, kappa=kappa, leaf_bound=bound)
    assert back == pytest.approx(tree.mechanism.scale, rel=1e-12)
    assert published_epsilon(
        back, 1e-3, pushes=1000, kappa=kappa, leaf_bound=bound
    ) == pytest.approx(want)
    # Another sum is compared at equal noise of its worst release.
    blt, guarantee = both(domain, loss, sum_method="blt")
    equal = tree_equivalent_scale(blt.mechanism.scale, "blt", 1000)
    assert equal * worst_row_norm("tree", 1000) == pytest.approx(
        blt.mechanism.scale * worst_row_norm("blt", 1000)
    )
    assert guarantee.paper_epsilon == pytest.approx(want * tree.mechanism.scale / equal, rel=1e-12)
