"""Noisy max: its law against closed forms, its privacy by quadrature, composition, protocol."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy
from tests.descriptions import changed

import dpoco
from dpoco.accounting import noisy_max as accountant
from dpoco.mechanisms import NoisyMax
from dpoco.privacy.mechanisms.base import Nothing
from dpoco.random import Source

PURE = dpoco.Budget(1.0, 0.0)
NOISES = ("exponential", "gumbel", "laplace")
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def make(n, *, seed=1, **options):
    return NoisyMax(
        n, **{"sensitivity": 1.0, "budget": PURE, **options}, source=Source.seeded(seed)
    )


def law(noise, scores, scale):
    """The probabilities to select each score as the largest, by quadrature."""
    s = np.asarray(scores, dtype=float) / scale
    if noise == "gumbel":
        weights = np.exp(s - s.max())
        return weights / weights.sum()
    noises = {"exponential": scipy.stats.expon, "laplace": scipy.stats.laplace}[noise]
    kinks = np.array([0.0, *(a - b for a in s for b in s)])
    lowest = 0.0 if noise == "exponential" else -45.0
    edges = np.unique(np.clip([*kinks, *np.linspace(lowest, 45.0, 31)], lowest, 45.0))
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    x, weights = (middle + half * NODES).ravel(), (half * WEIGHTS).ravel()
    weights *= noises.pdf(x)
    below = noises.cdf(x[:, None, None] + s[:, None] - s)  # of j's noise x: score of i below j's
    np.einsum("xjj->xj", below)[...] = 1.0
    return weights @ below.prod(axis=2)


def test_laws_have_their_closed_forms():
    worse = {"exponential": 0.3032653, "laplace": 0.3790817, "gumbel": 0.3775407}
    for noise, want in worse.items():
        assert abs(law(noise, [0.0, -1.0], 2.0)[1] - want) < 1e-7
    three = law("exponential", [0.0, -1.0, -3.0], 2.0)
    assert np.allclose(three, [0.63028135, 0.28070945, 0.08900920], atol=1e-8)


def frequencies(noise, scores, scale, draws=100_000, **options):
    plan = accountant.calibrate(len(scores), horizon=draws, budget=PURE, noise=noise)
    plan = changed(plan, scale=scale, largest=options.pop("largest", True))
    best = NoisyMax(
        len(scores),
        horizon=draws,
        budget=None,
        plan=plan,
        source=Source.seeded(7),
        sensitivity=1.0,
    )
    scores = np.array(scores, dtype=float)
    return np.bincount([best.select(scores) for _ in range(draws)], minlength=len(scores))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("largest", [True, False])
def test_draws_follow_the_law(noise, largest):
    scores = [0.0, -1.0, -3.0]
    want = law(noise, scores, 2.0)
    signed = scores if largest else [-s for s in scores]
    counts = frequencies(noise, signed, 2.0, largest=largest)
    assert scipy.stats.chisquare(counts, counts.sum() * want).pvalue > 1e-6
    # The wrong end, or noise of a scale 5 % off, would not pass.
    assert scipy.stats.chisquare(counts, counts.sum() * want[::-1]).pvalue < 1e-100
    wrong = law(noise, scores, 2.1)
    assert scipy.stats.chisquare(counts, counts.sum() * wrong).pvalue < 1e-6


def worst_ratio(noise, scale, size=2, gaps=(0.0, 0.5, 1.0, 2.0, 8.0, 30.0), moves=(-1, 0, 1)):
    worst = 0.0
    for base in itertools.product(gaps, repeat=size - 1):
        scores = np.array([0.0, *base])
        p = law(noise, scores, scale)
        for move in itertools.product(moves, repeat=size):
            q = law(noise, scores + np.array(move), scale)
            seen = np.minimum(p, q) > 1e-9  # what quadrature resolves
            worst = max(worst, float(np.max(np.abs(np.log(p[seen] / q[seen])))))
    return worst


@pytest.mark.parametrize("noise", NOISES)
def test_privacy_holds_and_is_nearly_tight(noise):
    gaps = (0.0, 1.0, 8.0)
    # Scores that move by 1 either way: scale 2 for epsilon 1.
    worst = worst_ratio(noise, 2.0, gaps=gaps)
    assert worst <= 1.0 + 1e-6
    assert worst > (0.8 if noise == "laplace" else 0.96)
    # Scores that all move the same way: scale 1 for epsilon 1.
    for moves in ((0, 1), (-1, 0)):
        assert worst_ratio(noise, 1.0, gaps=gaps, moves=moves) <= 1.0 + 1e-6
    # The planted error, scale 1 for scores that move either way, spends it twice.
    assert worst_ratio(noise, 1.0, gaps=gaps) > (1.6 if noise == "laplace" else 1.9)


@pytest.mark.parametrize("noise", NOISES)
def test_privacy_of_three_candidates(noise):
    worst = worst_ratio(noise, 2.0, 3, gaps=(0.0, 1.0, 8.0))
    assert 0.8 < worst <= 1.0 + 1e-6
    assert worst_ratio(noise, 1.9, 3, gaps=(0.0, 8.0)) > worst


def test_laplace_noise_is_tight_for_many_candidates():
    scores, moves = np.zeros(60), np.ones(60)
    moves[0] = -1.0
    p, q = law("laplace", scores, 2.0), law("laplace", scores + moves, 2.0)
    assert 0.93 < math.log(p[0] / q[0]) <= 1.0 + 1e-12


def test_utility_bounds():
    for noise in NOISES:
        for scores in ([0.0, -1.0, -2.0], [0.0, -0.1, -0.1, -5.0], [0.0, 0.0]):
            p = law(noise, scores, 2.0)
            excess = -float(p @ np.array(scores))
            assert excess <= 2.0 * accountant.mean_excess(len(scores), noise)
            for x in (1.0, 2.0, 5.0):
                far = float(p[np.array(scores) <= -x].sum())
                rate = 0.5 if noise == "laplace" else 1.0
                assert far <= len(scores) * math.exp(-rate * x / 2.0)
    assert accountant.mean_excess(1, "laplace") == 0.0
    exact = sum(1.0 / k for k in range(1, 5001))
    assert exact <= accountant.mean_excess(5000, "laplace") <= exact * (1.0 + 1e-9)
    # Fewest errors first.
    errors = [law(noise, [0.0, -1.0, -3.0], 2.0)[0] for noise in ("exponential", "laplace")]
    assert errors[0] > errors[1]


def test_scores_that_move_one_way_need_half_the_noise():
    p = accountant.calibrate(5, budget=PURE, noise="gumbel", one_directional=True)
    assert math.isclose(p.mechanism.scale, 1.0, rel_tol=1e-12)
    result = accountant.guarantee(p, budget=PURE)
    assert 1.0 - 1e-12 < result.epsilon <= 1.0
    assert len(result.doubts) == 1  # the sensitivity is the caller's promise
    assert not result.certified
    assert result.unit == "one record"


@pytest.mark.parametrize("noise", NOISES)
def test_many_selections_keep_to_the_budget_and_use_it(noise):
    for count, delta in itertools.product([1, 3, 100, 5000], [0.0, 1e-6]):
        budget = dpoco.Budget(1.0, delta)
        plan = accountant.calibrate(4, horizon=count, budget=budget, noise=noise)
        result, scale = accountant.guarantee(plan, budget=budget), plan.mechanism.scale
        result.require(budget)
        less = changed(plan, scale=scale * 0.97)
        assert accountant.guarantee(less, budget=budget).epsilon_at(delta) > 1.0
        if delta == 0.0:
            assert math.isclose(scale, 2.0 * count, rel_tol=1e-12)
        elif count >= 100:  # composed by concentration: between the roots of zCDP and a linear sum
            assert scale < 2.0 * count
            gumbel = accountant.calibrate(4, horizon=count, budget=budget, noise="gumbel")
            assert gumbel.mechanism.scale <= scale * (1.0 if noise == "gumbel" else 0.6)


def test_a_plan_without_a_mechanism_is_refused():
    plan = accountant.calibrate(4, budget=PURE)
    open_side = dpoco.Plan(Nothing("a lie"), plan.tuning, None)
    with pytest.raises(ValueError, match="decisions depend on data"):
        NoisyMax(4, budget=PURE, plan=open_side, sensitivity=1.0)


def test_without_noise_and_without_choice():
    plain = make(3, budget=None, horizon=2)
    assert plain.select([1.0, 5.0, 2.0]) == 1
    assert not plain.guarantee.private
    assert make(3, budget=None, largest=False).select([1.0, 5.0, 0.5]) == 2
    assert NoisyMax(3, budget=None, sensitivity=1.0).horizon == 1
    alone = make(1)
    before = alone._engine.state()
    assert alone.select([math.nan]) == 0
    assert alone._engine.state()[8:] == before[8:]  # nothing drawn
    assert alone.guarantee.epsilon == 0.0
