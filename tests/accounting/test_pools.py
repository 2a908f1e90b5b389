"""Pools of learners: closed forms, and the counterexample to parallel composition."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from dpoco import Budget, CalibrationError, Guarantee
from dpoco.accounting import sum_release
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.pools import pool_guarantee
from dpoco.domains import LpBall
from dpoco.experts import BatchShare, ObliviousTracker
from dpoco.frank_wolfe import PolyhedralFrankWolfe
from dpoco.losses import LinearLoss
from dpoco.mechanisms import NoisyMax

from .by_hand import restated

BUDGET = Budget(1.0, 1e-6)
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def gaussian():
    parameters = sum_release.calibrate(3, horizon=100, budget=BUDGET)
    return sum_release.guarantee(parameters, budget=BUDGET)


def ideal(one):
    return restated(one, truncation_mass=0.0, description=None)


def test_draws_cost_what_one_learner_costs():
    one = gaussian()
    pool = pool_guarantee(one, keys=10**6, noise="fresh")
    assert (pool.epsilon, pool.delta, pool.mu) == (one.epsilon, one.delta, one.mu)
    assert pool.truncation_mass == one.truncation_mass
    assert pool.certified
    assert any("1000000 keys" in text for text in pool.conditions)
    assert any("public" in text for text in pool.conditions)
    assert set(one.conditions) <= set(pool.conditions)


def test_couplings_pay_the_tails_of_all_keys():
    one = restated(gaussian(), truncation_mass=1e-12)
    one = replace(one, epsilon=gaussian_epsilon(one.mu, one.delta))
    few = pool_guarantee(one, keys=10, noise="ideal_fresh")
    many = pool_guarantee(one, keys=10**5, noise="ideal_fresh")
    assert few.truncation_mass == pytest.approx(1e-11)
    assert many.truncation_mass == pytest.approx(1e-7)
    assert many.delta == one.delta
    tail = (1.0 + math.exp(many.epsilon)) * 1e-7
    assert gaussian_delta(many.epsilon, one.mu) + tail <= one.delta * (1.0 + 1e-9)
    assert many.epsilon > few.epsilon
    fixed = pool_guarantee(one, keys=10**5, noise="ideal_fresh", adaptive=False)
    assert fixed.truncation_mass == 1e-12
    with pytest.raises(CalibrationError, match="smaller delta"):
        pool_guarantee(one, keys=10**7, noise="ideal_fresh")


def test_a_smaller_epsilon_at_the_delta_of_one_learner_is_not_that_of_the_pool():
    """Hidden noise: proved given any past is the pure epsilon; otherwise deltas add up."""
    one = ObliviousTracker(4, horizon=1000, budget=BUDGET).guarantee
    few, many = (pool_guarantee(one, keys=k, noise="hidden") for k in (2, 10**6))
    assert one.epsilon < few.epsilon < many.epsilon
    for pool, keys in ((few, 2), (many, 10**6)):
        assert pool.delta == one.delta
        assert pool.epsilon == pytest.approx(one.epsilon_at(one.delta / keys), rel=1e-9)
    pure = NoisyMax(5, horizon=3, budget=Budget(1.0, 0.0), sensitivity=1.0).guarantee
    assert pool_guarantee(pure, keys=10**6, noise="hidden").epsilon == pytest.approx(1.0)


def test_unknown_noise_adds_up_deltas():
    one = ideal(gaussian())
    pool = pool_guarantee(one, keys=1000)
    assert pool.delta == one.delta
    assert 1000 * one.delta_at(pool.epsilon) <= one.delta * (1.0 + 1e-9)
    assert 1000 * one.delta_at(pool.epsilon * 0.999) > one.delta
    assert pool.mu is None
    assert pool.rho is None
    assert pool.delta_at(0.5 * pool.epsilon) == 1.0  # nothing more is claimed
    fixed = pool_guarantee(one, keys=1000, adaptive=False)
    assert fixed.epsilon == one.epsilon
    assert any("PROMISED, not enforced: the key and round" in text for text in fixed.conditions)


def test_pure_learners_stay_pure():
    one = restated(
        gaussian(),
        epsilon=1.0,
        delta=0.0,
        mu=None,
        truncation_mass=0.0,
        profile={"kind": "pure", "epsilon": 1.0},
        description=None,
    )
    for noise in ("fresh", "ideal_fresh", "hidden"):
        pool = pool_guarantee(one, keys=10**6, noise=noise)
        assert (pool.epsilon, pool.delta, pool.epsilon_at(0.0)) == (1.0, 0.0, 1.0)
    user = pool_guarantee(
        one, keys=10, privacy_unit="user", rounds_per_user=3, keys_per_user=2, noise="hidden"
    )
    assert user.epsilon_at(0.0) == pytest.approx(6.0, rel=1e-12)
    assert user.epsilon >= 6.0


def announcing(keys, delta):
    """Yield the probabilities of a transcript under both worlds: bad coins, then what is shown.

    Mechanism: a coin is bad with probability delta, and its mechanism then shows its record. The
    record, 0 or 1, goes to the first bad one.
    """
    for coins in itertools.product((False, True), repeat=keys):
        p = math.prod(delta if bad else 1.0 - delta for bad in coins)
        for shown in (None, 0, 1):
            zero = p * (shown == (0 if any(coins) else None))
            one = p * (shown == (1 if any(coins) else None))
            yield zero, one


def test_parallel_composition_fails_for_what_announces_its_deltas():
    delta, keys = 0.1, 5
    real = sum(max(0.0, p - q) for p, q in announcing(keys, delta))
    assert real == pytest.approx(1.0 - (1.0 - delta) ** keys)
    assert sum(max(0.0, p - q) for p, q in announcing(1, delta)) == pytest.approx(delta)
    one = restated(ideal(gaussian()), epsilon=0.0, delta=delta, mu=None)
    assert real > one.delta_at(0.0)  # the claim of Theorem 1 would be false here
    assert real <= keys * one.delta_at(0.0)  # that of Theorem 3 is not
    with pytest.raises(CalibrationError):
        pool_guarantee(one, keys=keys)  # known at delta only: no part of it is
    assert pool_guarantee(one, keys=keys, adaptive=False).delta == delta


def test_a_user_with_several_records():
    one = ideal(gaussian())
    user = pool_guarantee(
        one, keys=100, noise="fresh", privacy_unit="user", rounds_per_user=3, keys_per_user=4
    )
    # Gaussian releases whose means move by 3 in each of 4 learners: exactly this mu.
    assert user.mu == pytest.approx(math.sqrt(4 * 9) * one.mu, rel=1e-12)
    assert user.mu >= 6.0 * one.mu
    assert user.epsilon == pytest.approx(gaussian_epsilon(6.0 * one.mu, one.delta), rel=1e-9)
    assert user.unit == "one user"
    assert any("Each round is protected by itself" in text for text in one.conditions)
    assert not any("Each round is protected by itself" in text for text in user.conditions)
    assert "the data of one user" in str(user)
    chain = pool_guarantee(
        one, keys=100, privacy_unit="user", rounds_per_user=3, keys_per_user=4, adaptive=False
    )
    assert chain.mu == pytest.approx(12.0 * one.mu, rel=1e-12)
    zcdp = restated(one, mu=None, rho=0.01)
    several = {"privacy_unit": "user", "rounds_per_user": 3, "keys_per_user": 4}
    assert pool_guarantee(zcdp, keys=9, noise="fresh", **several).rho == pytest.approx(0.36)
    assert pool_guarantee(zcdp, keys=9, adaptive=False, **several).rho == pytest.approx(1.44)
    alone = pool_guarantee(one, keys=100, noise="fresh", privacy_unit="user")
    assert (alone.epsilon, alone.unit) == (one.epsilon, "one user")


def test_several_rounds_of_a_user_cost_what_the_sums_say():
    one = gaussian()
    terms = {"keys": 100, "noise": "fresh", "privacy_unit": "user", "rounds_per_user": 3}
    for apart in (1, 20):
        mine = one.for_person(3, apart)
        pools = [
            pool_guarantee(one, **terms, separation_per_key=apart, keys_per_user=c) for c in (1, 4)
        ]
        assert (pools[0].epsilon, pools[0].mu) == (mine.epsilon, mine.mu)
        assert pools[1].mu == pytest.approx(2.0 * mine.mu, rel=1e-12)
        assert pools[1].mu < 0.95 * 6.0 * one.mu
        assert pools[1].truncation_mass == pytest.approx(4.0 * mine.truncation_mass, abs=0.0)
        same = pool_guarantee(mine, keys=100, noise="fresh")
        assert pools[0] == replace(same, conditions=pools[0].conditions)
        rule = "PROMISED, not enforced: one person has at most 3 records under one key"
        assert any(text.startswith(rule) for text in pools[0].conditions)
        for pool in pools:
            assert pool.certified
            assert Guarantee.from_json(pool.to_json()) == pool
            assert not any("The times of a person" in text for text in pool.conditions)
    assert pools[0].mu < one.for_person(3).mu
    with pytest.raises(ValueError, match="less often"):
        pool_guarantee(mine, keys=5, noise="fresh", rounds_per_user=4)
    with pytest.raises(ValueError, match="nothing is proved"):
        pool_guarantee(mine, keys=5)
    with pytest.raises(CalibrationError):
        pool_guarantee(one, **{**terms, "rounds_per_user": 100, "keys_per_user": 100})


def test_every_release_that_a_user_enters_has_its_tails():
    share = BatchShare(4, horizon=60, batch=2, budget=BUDGET, noise="gaussian").guarantee
    terms = {"keys": 9, "noise": "fresh", "privacy_unit": "user", "rounds_per_user": 4}
    mine, pool = share.for_person(4, 2), pool_guarantee(share, **terms, separation_per_key=2)
    assert (pool.mu, pool.truncation_mass) == (mine.mu, mine.truncation_mass)
    assert pool.mu == pytest.approx(2.0 * share.mu, rel=1e-9)
    assert pool.truncation_mass == pytest.approx(4.0 * share.truncation_mass, abs=0.0)
    poly = PolyhedralFrankWolfe(LpBall(3, 1.0), LinearLoss(1.0), horizon=100, budget=BUDGET)
    several = pool_guarantee(poly.guarantee, **terms, keys_per_user=4)
    assert several.rho == pytest.approx(4.0 * poly.guarantee.for_person(4).rho)
    assert Guarantee.from_json(several.to_json()) == several


def test_of_a_bare_curve_nothing_is_proved():
    bare = restated(gaussian(), mu=None, description=None)
    with pytest.raises(ValueError, match="nothing is proved"):
        pool_guarantee(bare, keys=5, noise="fresh", privacy_unit="user", rounds_per_user=2)


def test_without_privacy_nothing_is_said():
    none = Guarantee.none(10)
    assert pool_guarantee(none, keys=5) is none


def test_a_pool_is_charged_like_a_learner():
    ledger = Ledger(Budget(2.0, 1e-5))
    ledger.charge(pool_guarantee(gaussian(), keys=1000, noise="fresh"), "pool")
    assert 0.0 < ledger.spent < 1.0
    stored = pool_guarantee(gaussian(), keys=1000, noise="fresh")
    assert Guarantee.from_json(stored.to_json()) == stored
