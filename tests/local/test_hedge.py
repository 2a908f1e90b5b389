"""Hedge: unbiased estimates, AdaHedge's published weights, tuned constants, its certificate."""

from __future__ import annotations

import math

import local_cases as cases
import numpy as np
import pytest
from local_cases import FA, FC, report
from tests.probes import probes

from dpoco import _core
from dpoco.local import DistributionLearner, Hypotheses, SubsetRandomizer
from dpoco.local import _hedge as hedge_module
from dpoco.local._bounds import (
    adaptive_hedge_bound,
    endless_hedge_bound,
    hedge_bound,
    hedge_mixing,
    loss_diameter,
    losses,
    worst_case_rate,
)
from dpoco.local._randomizers import BitRandomizer


def hedge(matrix=FA, **given):
    return DistributionLearner(Hypotheses(matrix), **{"epsilon": 1.0, "learner": "hedge", **given})


ESTIMATES = [(3, 0, 0), (0, -3, 0), (0, 0, 3), (3, 0, 0), (0, 3, 0)]


def played(engine, estimates):
    for estimate in estimates:
        engine.add(np.array([estimate], dtype=float))
    return engine


def test_published_weights():
    start = 3 * math.log(3)
    engine = _core.LocalHedge(3, 0.0)
    engine.raise_start(start)
    played(engine, ESTIMATES)
    weights = [0.134955933870694, 0.584246128348994, 0.280797937780312]
    np.testing.assert_allclose(engine.weights(), weights, rtol=0, atol=1e-12)
    assert engine.spread == pytest.approx(4.498287511693516, abs=1e-12)
    assert 2 * engine.spread - engine.start == pytest.approx(5.700738157382704, abs=1e-12)
    engine = played(_core.LocalHedge(3, 0.0), ESTIMATES)
    weights = [0.04790948518644, 0.76113133019796, 0.1909591846156]
    np.testing.assert_allclose(engine.weights(), weights, rtol=0, atol=1e-12)
    assert engine.spread == pytest.approx(2.383544319307501, abs=1e-12)


def naive(estimates, rate=None, start=0.0):
    """AdaHedge, or hedge of a fixed rate, as one would write it down."""
    sums, spread, gaps = np.zeros(len(estimates[0])), start, 0.0
    weights = np.full(sums.size, 1 / sums.size)
    for estimate in np.asarray(estimates, dtype=float):
        now = rate if rate else (math.log(sums.size) / spread if spread > 0 else math.inf)
        if math.isinf(now):
            mix = estimate[weights > 0].min()
        else:
            low = estimate.min()
            mix = low - math.log(weights @ np.exp(-now * (estimate - low))) / now
        gap = max(weights @ estimate - mix, 0.0)
        gaps += gap
        spread += gap
        sums += estimate
        now = rate if rate else (math.log(sums.size) / spread if spread > 0 else math.inf)
        if math.isinf(now):
            weights = (sums == sums.min()) / (sums == sums.min()).sum()
        else:
            weights = np.exp(-now * (sums - sums.min()))
            weights /= weights.sum()
    return weights, spread, gaps


@pytest.mark.parametrize("rate", [None, 0.05])
@pytest.mark.parametrize("start", [0.0, 7.0])
def test_against_a_plain_implementation(rate, start):
    rng = np.random.default_rng(5)
    estimates = rng.normal(size=(300, 9)) + np.linspace(0, 0.3, 9)
    engine = _core.LocalHedge(9, rate or 0.0)
    engine.raise_start(start)
    played(engine, estimates)
    weights, spread, gaps = naive(estimates, rate, start)
    np.testing.assert_allclose(engine.weights(), weights, rtol=1e-9, atol=1e-14)
    assert engine.gaps == pytest.approx(gaps, rel=1e-9)
    if rate is None:
        assert engine.spread == pytest.approx(spread, rel=1e-10)


@pytest.mark.parametrize("scale", [1e12, 1e6, 1e-12, 1e-300])
def test_no_estimate_is_too_large_or_small(scale):
    rng = np.random.default_rng(2)
    engine = _core.LocalHedge(4, 0.0)
    played(engine, scale * rng.choice([-1.0, 0.0, 1.0], size=(200, 4)))
    weights = engine.weights()
    assert np.isfinite(weights).all()
    assert weights.sum() == pytest.approx(1.0)
    assert math.isfinite(engine.spread)
    engine = played(_core.LocalHedge(2, 10.0), [(0.0, 1e12), (2e12, 0.0)])
    np.testing.assert_array_equal(engine.weights(), [0.0, 1.0])
    assert math.isfinite(engine.gaps)


def seed_asking(index, build):
    for seed in range(200):
        learner = DistributionLearner(Hypotheses(FA), public_seed=seed, **build)
        if learner.round_spec().query.index == index:
            return seed
    raise AssertionError("a coordinate is never asked for")


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("range_", ["exact", "worst_case"])
def test_estimates_are_unbiased(epsilon, range_):
    """Over J and the bit, exactly: E estimate_j = u_j(y) for every label and hypothesis."""
    build = {"epsilon": epsilon, "learner": "hedge", "mixing": 0.1, "range": range_}
    u = losses(FA, 0.1)
    randomizer = BitRandomizer(epsilon)
    mean = np.zeros_like(u)
    for index in range(3):
        seed = seed_asking(index, build)
        for bit in (0, 1):
            learner = DistributionLearner(Hypotheses(FA), public_seed=seed, **build)
            spec = learner.round_spec()
            learner.update(spec, report(spec, bit))
            for y in range(4):
                chance = float(randomizer.pmf(spec.query.phi(FA[:, y], y, 4))[(bit,)])
                mean[:, y] += chance / 3 * probes.hedge_losses(learner._rule._engine)
    np.testing.assert_allclose(mean, u, atol=1e-10)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_estimates_from_subsets_are_unbiased(size):
    mixing = 0.2
    u = losses(FA, mixing)
    law = SubsetRandomizer(4, size, 1.3)
    build = {"epsilon": 1.3, "learner": "hedge", "channel": "subset", "subset_size": size}
    mean = np.zeros_like(u)
    for values in cases.answers(DistributionLearner(Hypotheses(FA), **build).round_spec()):
        learner = DistributionLearner(Hypotheses(FA), mixing=mixing, **build)
        spec = learner.round_spec()
        learner.update(spec, report(spec, *values))
        for y in range(4):
            mean[:, y] += float(law.probability(values, y)) * probes.hedge_losses(
                learner._rule._engine
            )
    np.testing.assert_allclose(mean, u, atol=1e-10)


@pytest.mark.parametrize(
    ("count", "rounds", "mixing", "bound"),
    [(8, 10**4, 0.0720, 3578), (2, 10**4, 0.0361, 904), (64, 10**6, 0.0255, 2.210e5)],
)
def test_tuned_mixing(count, rounds, mixing, bound):
    inverse = 1 / math.tanh(0.5)
    found = hedge_mixing(count, rounds, inverse)
    assert found == pytest.approx(mixing, abs=5e-5)
    assert hedge_bound(count, rounds, inverse, found) == pytest.approx(bound, rel=2e-4)
    for other in (found * 1.1, found / 1.1):
        assert hedge_bound(count, rounds, inverse, other) > hedge_bound(
            count, rounds, inverse, found
        )


def test_bounds_become_informative():
    inverse = 1 / math.tanh(0.5)
    for count, rounds in ((2, 17), (8, 70), (64, 890)):
        for factor, informative in ((0.8, False), (1.25, True)):
            t = int(rounds * factor)
            bound = hedge_bound(count, t, inverse, hedge_mixing(count, t, inverse))
            assert (bound < t * math.log(count)) == informative


def test_start_and_scale_follow_the_range():
    learner = hedge(mixing=0.1, range="worst_case")
    spec = learner.round_spec()
    half = loss_diameter(3, 0.1) / 2
    assert spec.query.half_range == pytest.approx(half)
    assert spec.query.midpoint == 0.0
    learner.update(spec, report(spec, 1))
    inverse = BitRandomizer(1.0).inverse_contrast
    engine = learner._rule._engine
    assert engine.start == pytest.approx(3 * inverse * half * math.log(3))
    sums = probes.hedge_losses(learner._rule._engine)
    assert sums[spec.query.index] == pytest.approx(3 * inverse * half)
    assert math.log(3) / engine.spread * np.abs(sums).max() <= 1.0


def test_risk_certificate_bounds_the_expected_risk():
    """By enumeration of bits, for fixed public coins and both rates: E risk <= E certificate."""
    for eta in (None, 0.2):
        build = {
            "epsilon": 2.0, "learner": "hedge", "mixing": 0.1, "public_seed": 3,
            "learning_rate": eta,
        }  # fmt: skip
        risk = promised = 0.0
        for chance, learner, spec in cases.histories(build, FA, 0, 7):
            if spec.round == 7:
                promised += chance * learner.risk_certificate()
            else:
                risk += chance * cases.kl(FA[0], learner.predict().all())
        assert 0.0 < risk <= promised


def test_worst_case_rate_and_bounds():
    learner = hedge(horizon=10**4, learning_rate="worst_case")
    inverse = BitRandomizer(1.0).inverse_contrast
    mixing = hedge_mixing(3, 10**4, inverse)
    assert learner.mixing == mixing
    rate = worst_case_rate(3, 10**4, inverse * loss_diameter(3, mixing) / 2)
    assert learner._rule._rate == pytest.approx(rate, rel=1e-5)
    assert learner.risk_bound() == pytest.approx(hedge_bound(3, 10**4, inverse, mixing), rel=1e-6)
    cautious = hedge(horizon=10**4, range="worst_case")
    assert cautious.risk_bound() == pytest.approx(
        adaptive_hedge_bound(3, 10**4, inverse, mixing), rel=1e-9
    )


def test_endless_mixing():
    learner = hedge()
    inverse = BitRandomizer(1.0).inverse_contrast
    for first in (1, 64, 2**20):
        middle = (3 * first - 1) / 2
        expected = min(0.5, inverse / 2 * math.sqrt(2 * 2 * math.log(3) / middle))
        for t in (first, 2 * first - 1):
            assert learner._rule.mixing(t) == pytest.approx(expected, rel=1e-5)


def test_endless_rounds_compute_ranges_once_a_block(monkeypatch):
    calls = []
    original = hedge_module.bounds.loss_ranges
    monkeypatch.setattr(
        hedge_module.bounds, "loss_ranges", lambda *a: calls.append(a[1]) or original(*a)
    )
    # An array of its own: what is computed from it is kept for all learners.
    learner = hedge(FC.copy(), epsilon=8.0, public_seed=1)
    for t in range(1, 301):
        spec = learner.round_spec()
        assert spec.query.mixing == learner._rule.mixing(t)
        learner.update(spec, report(spec, t % 2))
    assert 5 < len(calls) <= 9 == (300).bit_length()


def test_endless_bound_covers_the_expected_certificate():
    """The proof's chain with exact expectations: E (K B log K + 2 S + mixing) <= the bound."""
    for epsilon in (1.0, 6.0):
        build = {"epsilon": epsilon, "learner": "hedge", "range": "worst_case", "public_seed": 3}
        promised = 0.0
        for chance, learner, spec in cases.histories(build, FA, 0, 7):
            if spec.round == 7:
                promised += chance * learner.risk_certificate()
        bound = endless_hedge_bound(3, 6, learner._rule._inverse, learner._rule.mixing)
        assert learner._rule.risk_bound(6) == bound
        assert 0.0 < promised <= bound
        # It is the bound of one mixing where the mixing never changes, but for its cruder start.
        fixed = endless_hedge_bound(3, 10**4, 2.0, lambda t: 0.1)
        assert adaptive_hedge_bound(3, 10**4, 2.0, 0.1) <= fixed
        assert fixed <= 1.2 * adaptive_hedge_bound(3, 10**4, 2.0, 0.1)


@pytest.mark.parametrize("channel", ["coordinate", "subset"])
def test_reports_about_losses_that_all_share_are_not_followed(channel):
    table = np.stack([np.tile(FA[:1], (3, 1)), FA])
    learner = hedge(table, channel=channel, mixing=0.1, public_seed=4)
    for bit in (0, 1, 1, 1):
        spec = learner.round_spec(0)
        values = (bit,) if channel == "coordinate" else tuple(range(spec.width))
        learner.update(spec, report(spec, *values))
        np.testing.assert_array_equal(learner.weights, np.full(3, 1 / 3))
        assert learner._rule._engine.spread == 0.0
    spec = learner.round_spec(1)
    values = (1,) if channel == "coordinate" else tuple(range(spec.width))
    learner.update(spec, report(spec, *values))
    assert np.ptp(learner.weights) > 0.0


def test_adaptive_sampling_is_unbiased_and_explores():
    learner = hedge(FC, epsilon=3.0, mixing=0.1, interactive=True, public_seed=6, open_rounds=4)
    rng = np.random.default_rng(0)
    asked = np.zeros(4)
    for _ in range(400):
        shares = learner.weights
        spec = learner.round_spec()
        chance = learner._rule._shares[spec.round]
        assert chance >= 0.1 / 4 * 0.999
        before = probes.hedge_losses(learner._rule._engine)
        query = spec.query
        learner.update(spec, report(spec, int(rng.integers(2))))
        moved = probes.hedge_losses(learner._rule._engine) - before
        scale = BitRandomizer(3.0).inverse_contrast * query.half_range / chance
        assert abs(abs(moved[query.index] - query.midpoint) - scale) < 1e-6
        asked[query.index] += 1
        assert shares.shape == (4,)
    assert (asked > 0).all()
    assert len(learner._rule._shares) == 4
