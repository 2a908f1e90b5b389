"""Accounting of DP-POFW: published numbers, brute force, least noise, stored values."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.frank_wolfe.polyhedral_reference import vertices_of
from tests.plans import changed, leaf
from tests.published import planned

import dpoco
from dpoco.accounting import polyhedral_frank_wolfe as accountant
from dpoco.accounting.frank_wolfe_regret import ErrorForecast
from dpoco.accounting.leaf_bounds import L1Geometry, lossless_leaf_bounds
from dpoco.accounting.plan import Plan
from dpoco.accounting.polyhedral_frank_wolfe import (
    PolyhedralTuning,
    mean_scale,
    vertex_scores,
    with_least_scale,
)
from dpoco.accounting.rdp import DEFAULT_ORDERS, zcdp_epsilon, zcdp_rho
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.privacy.losses.bounded_range import moment
from dpoco.privacy.losses.decaying import Decay, Decaying
from dpoco.privacy.mechanisms.selections import Selections
from dpoco.privacy.neighbours import ONE

BALL = LpBall(50, 1.0)
HALF = SquaredLoss(1.0, 1.25, weight=0.5)
BUDGET = dpoco.Budget(1.0, 1e-4)


@pytest.mark.parametrize(
    ("n", "m", "budget", "radius", "labels", "alpha", "leaf", "first", "last"),
    [
        (10_000, 1, (1.0, 1e-4), 1.0, 1.25, 2 / 3, 2.25, 124.48229833, 0.26818898),
        (10_000, 1, (1.0, 1e-4), 1.0, 1.25, 0.5, 2.25, 49.38529487, 0.49385295),
        (62 * 163, 163, (1.0, 1e-4), 1.0, 1.25, 2 / 3, 2.25, 0.29783137, 0.01901265),
        (62 * 163, 163, (1.0, 1e-4), 1.0, 1.25, 0.5, 2.25, 0.21022897, 0.02669911),
        (1000, 10, (4.0, 1e-5), 2.0, 1.0, 2 / 3, 3.0, 4.71068316, 0.21865054),
    ],
)
def test_scales_of_zcdp_composition(n, m, budget, radius, labels, alpha, leaf, first, last):
    budget, view = dpoco.Budget(*budget), L1Geometry(LpBall(7, 1.0, radius))
    loss = SquaredLoss(1.0, labels, weight=0.5)
    bounds = lossless_leaf_bounds(view, loss, "unbiased", 1.0)
    assert bounds.dual == pytest.approx(leaf, rel=1e-12)
    gumbel = Selections("gumbel", vertex_scores(view, bounds, 0, m), 0.0, n // m, alpha)
    scale = with_least_scale(gumbel, ONE, budget, tight=False).scale
    assert scale == pytest.approx(first, rel=3e-7)
    assert scale * (n // m) ** -alpha == pytest.approx(last, rel=3e-7)
    tight = with_least_scale(gumbel, ONE, budget).scale
    assert 0.9 * scale < tight <= scale
    # Laplace selection: twice the noise at equal rho, not the same (8 rho for 2 rho).
    laplace = with_least_scale(replace(gumbel, law="laplace"), ONE, budget, tight=False)
    assert laplace.scale == pytest.approx(2.0 * scale, rel=1e-9)


def test_batch_and_bounds():
    parameters = accountant.calibrate(BALL, HALF, horizon=10_000, budget=BUDGET)
    assert parameters.mechanism.scores.batch == 568
    assert parameters.mechanism.rounds == 17  # the incomplete last batch is none
    assert zcdp_rho(1.0, 1e-4) == pytest.approx(0.04063275, rel=1e-6)
    few = accountant.calibrate(BALL, HALF, horizon=9, budget=BUDGET)
    assert (few.mechanism.scores.batch, few.mechanism.rounds) == (1, 9)
    for margin, bound in ((0.5, 0.625), (1.0, 0.75), (2.0, 1.0), (4.0, 1.5)):
        ball = LpBall(3, 1.0, margin)
        p = accountant.calibrate(ball, LogisticLoss(1.0), horizon=10, budget=None)
        assert leaf(p).dual == pytest.approx(bound, rel=1e-12)
    assert accountant.calibrate(BALL, HALF, horizon=100, budget=None).mechanism.scores.batch == 1


@pytest.mark.parametrize(
    ("n", "laplace", "gumbel"), [(1000, 0.45, 0.20), (10_000, 0.51, 0.24), (10**6, 0.56, 0.27)]
)
def test_what_the_published_scale_really_spends(n, laplace, gumbel):
    budget = dpoco.Budget(1.0, 1.0 / n)
    p = planned(accountant, BALL, HALF, horizon=n, budget=budget, calibration="paper")
    factor = 4.0 * 2.0 * (2.0 + 2.25)
    assert p.mechanism.scale == pytest.approx(
        factor * math.sqrt(math.log(n) * math.log(n)), rel=1e-12
    )
    g = accountant.guarantee(BALL, HALF, p, budget=budget)
    assert zcdp_epsilon(g.rho, 1.0 / n) == pytest.approx(laplace, abs=0.006)
    assert zcdp_epsilon(g.rho / 4.0, 1.0 / n) == pytest.approx(gumbel, abs=0.006)
    assert g.claimed == pytest.approx((1.0, 1.0 / n))
    assert 0.98 * laplace <= g.epsilon <= laplace + 0.006
    corrected = planned(accountant, BALL, HALF, horizon=n, budget=budget, calibration="corrected")
    assert corrected.mechanism.scale < p.mechanism.scale
    own = accountant.guarantee(BALL, HALF, corrected, budget=budget)
    assert own.epsilon <= 1.0
    assert own.claimed[0] == pytest.approx(1.0, rel=1e-6)


def test_published_scale_fails_for_one_round_only():
    for n, fails in ((1, True), (2, False), (3, False)):
        budget = dpoco.Budget(1.0, 1e-3)
        arguments = {"horizon": n, "budget": budget, "calibration": "paper"}
        if fails:
            with pytest.raises(dpoco.CalibrationError):
                planned(accountant, BALL, HALF, **arguments)
        else:
            p = planned(accountant, BALL, HALF, **arguments)
            g = accountant.guarantee(BALL, HALF, p, budget=budget)
            assert g.epsilon < 1.0
            if n == 2:
                assert g.epsilon == pytest.approx(0.22, abs=0.003)


@pytest.mark.parametrize("law", ["bounded_range", "pure"])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("terms", [1, 2, 128, 129, 5000])
def test_sums_and_divergences_against_brute_force(terms, offset, law):
    decay = Decay(2.0 / 3.0, offset, terms)
    j = np.arange(1.0, terms + 1.0)
    f = j ** (2.0 / 3.0) / (j + offset)
    for start in (1, terms // 2 + 1):
        assert decay.total(start) == pytest.approx(f[start - 1 :].sum(), rel=1e-9)
        assert decay.squares(start) == pytest.approx((f[start - 1 :] ** 2).sum(), rel=1e-9)
        assert decay.squares(start) >= (f[start - 1 :] ** 2).sum()
    assert mean_scale(2.0 / 3.0, terms) == pytest.approx(np.mean(j ** (-2.0 / 3.0)), rel=1e-9)
    a = np.array(DEFAULT_ORDERS)[:, None]
    for reach in (1e-3, 0.3, 5.0):
        if law == "pure":
            r = reach * f
            exact = (np.logaddexp(a * r, (1 - a) * r) - np.logaddexp(r, 0.0)).sum(axis=1)
        else:
            exact = moment(reach * f, a).sum(axis=1)
        bound = Decaying(law, reach, reach, *decay).renyi(a[:, 0]) * (a[:, 0] - 1.0)
        assert np.all(bound >= exact - 1e-12 * (terms + np.abs(exact)))
        clear = exact > 1e-10 * terms
        assert np.all(bound[clear] <= 1.006 * exact[clear] + 1e-13 * terms)


def test_sums_of_long_streams():
    for offset, exponent in ((0, 2.0 / 3.0), (1, 0.5), (0, 0.5), (0, 0.0)):
        decay, j = Decay(exponent, offset, 10**6), np.arange(1.0, 10**6 + 1.0)
        f = j**exponent / (j + offset)
        assert 0 <= decay.squares() / (f**2).sum() - 1 < 1e-6
        assert 0 <= decay.total() / f.sum() - 1 < 1e-6
    assert Decay(2.0 / 3.0, 0, 10**12).total() == pytest.approx(1.5e8, rel=1e-3)


@pytest.mark.parametrize(
    "domain", [BALL, Simplex(9), Box([0.0] * 4, [1.0, 2.0, 3.0, 0.0]), VertexSet(np.eye(3))]
)
@pytest.mark.parametrize("selector", ["gumbel", "laplace"])
def test_noise_is_the_least_that_keeps_to_the_budget(domain, selector):
    for budget in [(1.0, 1e-5), (0.1, 1e-7), (6.0, 1e-3), (2.0, 0.0)]:
        budget = dpoco.Budget(*budget)
        p = accountant.calibrate(domain, HALF, horizon=300, budget=budget, selector=selector)
        g = accountant.guarantee(domain, HALF, p, budget=budget)
        g.require(budget)
        less = changed(p, scale=p.mechanism.scale * (1 - 1e-6))
        less = accountant.guarantee(domain, HALF, less, budget=budget)
        with pytest.raises(dpoco.BudgetExceeded):
            less.require(budget)
        halved = accountant.calibrate(
            domain, HALF, horizon=300, budget=budget, selector=selector, relation="zero_out",
            batch=p.mechanism.scores.batch,
        )  # fmt: skip
        assert halved.mechanism.scale == pytest.approx(p.mechanism.scale / 2.0, rel=1e-6)
        assert (
            accountant.guarantee(domain, HALF, halved, relation="zero_out", budget=budget).change
            == "zero_out"
        )


def test_two_thirds_is_the_best_exponent_and_one_half_for_pure_privacy():
    def noise(exponent, delta):
        p = accountant.calibrate(
            BALL, HALF, horizon=5000, budget=dpoco.Budget(1.0, delta), exponent=exponent, batch=1
        )
        return p.forecast.predicted_error

    grid = np.linspace(0.3, 0.85, 12)
    best = grid[np.argmin([noise(float(e), 1e-5) for e in grid])]
    assert abs(best - 2.0 / 3.0) < 0.06
    best = grid[np.argmin([noise(float(e), 0.0) for e in grid])]
    assert abs(best - 0.5) < 0.06


def test_later_users_are_cheaper():
    p = accountant.calibrate(BALL, HALF, horizon=1003, budget=BUDGET, batch=10)
    rhos = [accountant.user_rho(p, t) for t in range(1003)]
    assert rhos[0] == accountant.guarantee(BALL, HALF, p).rho
    assert rhos[:10] == [rhos[0]] * 10
    assert all(a >= b for a, b in itertools.pairwise(rhos))
    own = p.mechanism
    reach = own.scores.reach(2.0)[0]
    last = (reach / (100 * own.scale * 100**-own.exponent)) ** 2 / 8.0
    assert rhos[999] == pytest.approx(last, rel=1e-9)
    assert rhos[1000:] == [0.0] * 3  # never used
    with pytest.raises(ValueError, match="round"):
        accountant.user_rho(p, 1003)


def widest(points, order):
    return max(np.linalg.norm(v - w, order) for v in points for w in points)


@pytest.mark.parametrize(
    "domain",
    [
        LpBall(3, 1.0, 2.0),
        Simplex(4, 1.5),
        Box([-1.0, 0.0, 2.0, 0.0], [1.0, 3.0, 2.0, 0.5]),
        VertexSet([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, -1.0, 2.0]]),
    ],
)
@pytest.mark.parametrize(("selector", "part"), [("gumbel", 8.0), ("laplace", 2.0)])
def test_reach_is_that_of_all_pairs_of_vertices(domain, selector, part):
    """Diameters by enumeration, sums term by term; the last batch is incomplete."""
    # The bounds in l2 are the least ones, or hardly, or not at all.
    for l2, relation in itertools.product([None, 0.02, 0.25, 0.35, 0.9], ["replace", "zero_out"]):
        horizon, batch, exponent, bound = 60, 7, 0.6, 0.3
        loss, points = LinearLoss(bound, gradient_bound_l2=l2), vertices_of(domain)
        p = accountant.calibrate(
            domain, loss, horizon=horizon, budget=BUDGET, batch=batch, exponent=exponent,
            selector=selector, relation=relation,
        )  # fmt: skip
        g = accountant.guarantee(domain, loss, p, relation=relation, budget=BUDGET)
        sides, declared = 2.0 if relation == "replace" else 1.0, math.inf if l2 is None else l2
        reach = sides / batch * min(bound * widest(points, 1), declared * widest(points, 2))
        spread = reach
        if isinstance(domain, Box):
            by_side = min(bound * widest(points, 2), declared * widest(points, np.inf))
            spread = min(reach, sides / batch * by_side)
        k = np.arange(1.0, horizon // batch + 1)
        shares = k**exponent / k / p.mechanism.scale
        assert p.mechanism.scores.reach(sides)[0] == pytest.approx(reach, rel=1e-12)
        assert g.epsilon_at(0.0) == pytest.approx(reach * shares.sum(), rel=1e-6)
        assert g.sensitivity == pytest.approx(sides * bound, rel=1e-12)
        for first, rounds in ((0, (0, 6)), (3, (21, 27)), (7, (49, 55))):
            rho = (spread * shares[first:]) @ (spread * shares[first:]) / part
            for t in rounds:
                assert accountant.user_rho(p, t, relation) == pytest.approx(rho, rel=1e-6)
        assert accountant.user_rho(p, 56, relation) == 0.0
        assert g.rho == accountant.user_rho(p, 0, relation)
        # Noise: ln or the harmonic number of what is chosen among, for each choice.
        choices, among = (3, 2) if isinstance(domain, Box) else (1, len(points))
        excess = math.log(among) if selector == "gumbel" else sum(1.0 / (np.arange(among) + 1.0))
        mean_scale = p.mechanism.scale * np.mean(k**-exponent)
        assert p.forecast.predicted_error == pytest.approx(choices * excess * mean_scale, rel=1e-6)
        smooth = accountant.calibrate(domain, CustomLoss(1.25, 0.75), horizon=9, budget=None)
        assert leaf(smooth).dual == pytest.approx(1.25 + 0.75 * widest(points, 1), rel=1e-12)
        # Margins by Hoelder in either norm; 1/2 + a/4 bounds the leaf of a logistic loss.
        margin = bound * np.linalg.norm(points, 1, axis=1).max()
        margin = min(margin, 0.7 * declared * np.linalg.norm(points, 2, axis=1).max())
        bend = LogisticLoss(bound, feature_bound_l2=None if l2 is None else 0.7 * l2)
        bent = accountant.calibrate(domain, bend, horizon=9, budget=None)
        assert leaf(bent).dual == pytest.approx(bound * (0.5 + 0.25 * margin), rel=1e-12)


def test_a_single_point_tells_nothing():
    for domain in (VertexSet([[1.0, 2.0]]), Simplex(1), Box([1.0], [1.0])):
        p = accountant.calibrate(domain, HALF, horizon=5, budget=BUDGET)
        g = accountant.guarantee(domain, HALF, p, budget=BUDGET)
        assert (p.mechanism.scale, g.epsilon, g.delta) == (0.0, 0.0, 0.0)
        assert accountant.user_rho(p, 0) == 0.0
        free = accountant.calibrate(domain, HALF, horizon=5, budget=None)
        assert accountant.guarantee(domain, HALF, free).private


def test_the_published_scale_needs_a_delta():
    with pytest.raises(dpoco.CalibrationError):
        planned(
            accountant, BALL, HALF, horizon=10, budget=dpoco.Budget(1.0, 0.0), calibration="paper"
        )


@pytest.mark.parametrize(
    "loss", [HALF, LinearLoss(2.0), CustomLoss(1.0, 0.5), CustomLoss(1.0, 0.0, leaf_bound_l2=2.0)]
)
def test_plans_refuse_nonsense(loss):
    p = accountant.calibrate(BALL, loss, horizon=100, budget=BUDGET)
    none = accountant.calibrate(BALL, loss, horizon=100, budget=None)
    assert not accountant.guarantee(BALL, loss, none).private
    record = p.to_dict()
    for name, value in (("rounds", 0), ("law", "x"), ("exponent", 2.0)):
        with pytest.raises(dpoco.StateError):
            Plan.from_dict({**record, "mechanism": {**record["mechanism"], name: value}},
                           PolyhedralTuning, ErrorForecast)  # fmt: skip
    for wrong in (changed(p, rounds=3), replace(p, tuning=PolyhedralTuning(900))):
        with pytest.raises(ValueError, match="so many rounds"):
            accountant.guarantee(BALL, loss, wrong)
    own = p.mechanism.scores
    with pytest.raises(ValueError, match="of this domain and loss"):
        accountant.guarantee(BALL, loss, changed(p, scores=replace(own, diameter_l1=1.0)))
    if not isinstance(loss, CustomLoss):  # whose bound is the plan's own
        with pytest.raises(ValueError, match="leaf"):
            accountant.guarantee(BALL, loss, changed(p, scores=replace(own, leaf=7.0)))


def test_the_curve_of_selections_and_its_inverse():
    loss = Decaying("pure", 1.0, 0.5, 0.5, 0, 10)
    assert loss.delta(loss.epsilon(1e-5)) <= 1e-5
    assert loss.delta(loss.pure) == 0.0


def test_the_event_of_dp_accounting_is_not_stronger():
    from dp_accounting.rdp import RdpAccountant

    p = accountant.calibrate(BALL, HALF, horizon=100, budget=BUDGET)
    g = accountant.guarantee(BALL, HALF, p, budget=BUDGET)
    from dp_accounting import NeighboringRelation

    other = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    other.compose(g.event)
    assert g.epsilon <= other.get_epsilon(1e-4) * (1 + 1e-6)
