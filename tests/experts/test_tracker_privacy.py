"""Exact divergences of the compiled tracker on neighbouring streams stay within its accounting."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpoco.accounting import oblivious_tracker
from dpoco.accounting.oblivious_tracker import TrackerTuning
from dpoco.accounting.plan import Forecast, Plan
from dpoco.experts import ObliviousTracker
from dpoco.random import Source

from . import tracker_reference as reference

Setting = reference.Setting

ORDERS = np.array([1.05, 2.0, 8.0, 64.0])
SETTINGS = [
    Setting(2, 6, share_rate=0.2, rate=0.5, forced=0.3),
    Setting(2, 6, share_rate=0.2, rate=0.5, forced=1.0),
    Setting(2, 7, share_rate=0.1, rate=1.0, forced=0.2, batch=2),
    Setting(2, 6, share_rate=0.0, rate=0.3, forced=0.5),
    Setting(2, 6, share_rate=0.5, rate=0.7, forced=0.2),
    Setting(3, 5, share_rate=0.2, rate=0.5, forced=0.3),
    Setting(3, 5, prior="at_most", switches=2, rate=0.5, forced=0.3),
    Setting(2, 6, prior="at_most", switches=1, rate=1.0, forced=0.1, batch=2),
    Setting(2, 6, prior="at_most", switches=0, rate=0.4, forced=1.0),
    Setting(2, 6, share_rate=0.1, rate=0.5, forced=0.3, cap=1),
    Setting(2, 6, share_rate=0.1, rate=0.5, forced=1.0, cap=2),
    Setting(2, 5, share_rate=0.1, rate=0.5, forced=0.3, batch=3),
    Setting(2, 5, share_rate=0.1, rate=0.5, forced=0.3, batch=5),
]


def planned(setting, **changed):
    """A plan whose forecast is wrong; nobody believes it."""
    drawn = replace(setting.description, **changed)
    return Plan(drawn, TrackerTuning(setting.switches), Forecast(0.0, "oblivious"))


def tracker_of(setting, **changed):
    return planned(setting, **changed).mechanism.draws


def neighbours(setting, count, seed=0):
    """Pairs of streams of zeros and ones that differ in one round, wholly turned round."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        # Zeros keep the weights even, ones make draws frequent.
        base = (rng.random((setting.rounds, setting.experts)) < (0.0, 1.0, 0.9, 0.4)[k % 4]) * 1.0
        s = k // 2 % max(setting.rounds - 1, 1)
        base[s] = np.arange(setting.experts) % 2 if k % 3 else 1.0
        other = base.copy()
        other[s] = 1.0 - base[s]
        yield base, other


def pair_of_laws(setting, pair):
    (*one, p), (*other, q) = (reference.compiled_extended_law(setting, losses) for losses in pair)
    assert all(map(np.array_equal, one, other))  # the same paths and flags, in the same order
    return p, q


def log_moments(p, q, orders):
    """Logarithm of the sum of p^a q^(1 - a)."""
    alive = p > 0.0
    lp, lq = np.log(p[alive]), np.log(q[alive])
    terms = orders[:, None] * lp + (1.0 - orders[:, None]) * lq
    return np.logaddexp.reduce(terms, axis=1)


def measured(setting, count=12):
    """Largest log moments and largest log-likelihood ratio over pairs, in both directions."""
    moments, ratio, pairs = np.zeros(len(ORDERS)), 0.0, []
    for pair in neighbours(setting, count):
        p, q = pair_of_laws(setting, pair)
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        pairs += [(p, q), (q, p)]
        for a, b in ((p, q), (q, p)):
            moments = np.maximum(moments, log_moments(a, b, ORDERS))
            alive = a > 0.0
            ratio = max(ratio, float(np.max(np.log(a[alive] / b[alive]))))
    return moments, ratio, pairs


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_divergences_of_the_compiled_learner_stay_within_the_accounting(setting):
    moments, ratio, pairs = measured(setting)
    tracker = tracker_of(setting)
    allowed, pure = tracker.moments(ORDERS), tracker.pure
    assert np.all(moments <= allowed * (1.0 + 1e-9) + 1e-13)
    assert ratio <= pure * (1.0 + 1e-9) + 1e-13
    if setting.batch >= setting.rounds:
        assert ratio == 0.0
        return
    assert ratio > 0.3 * pure  # so a bound that is far too small would be seen
    # The public statement: delta at some epsilons, against the exact one.
    guarantee = oblivious_tracker.guarantee(planned(setting))
    for epsilon in (0.1, 0.5 * pure, 0.9 * pure):
        exact = max(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for p, q in pairs)
        assert exact <= guarantee.delta_at(epsilon) * (1.0 + 1e-9) + 1e-13


# ---- replay: one tape, two streams --------------------------------------------------------------


def test_variates_are_those_of_coins_steps_and_races():
    """Counted: a coin per batch, one variate per step of the prior and one more if it moves."""
    setting = Setting(5, 200, prior="at_most", switches=6, rate=0.3, forced=0.2, batch=3)
    learner = ObliviousTracker(
        5, horizon=200, budget=None, plan=planned(setting), source=Source.seeded(1)
    )
    losses = np.random.default_rng(2).random((200, 5))
    expected_uniforms, races = 1, 0  # the start
    for t in range(200):
        before, fresh = learner.decide(), learner.resamples
        learner.observe(losses[t])
        if t == 199:
            break
        drawn = learner.resamples - fresh
        expected_uniforms += (t + 1) % 3 == 0
        races += drawn
        if not drawn:
            expected_uniforms += 1 + (learner.decide() != before)
    used = learner._engine.variates_drawn()
    assert used[1] == expected_uniforms
    assert used[3] == races * (7 + 5)
    assert races == learner.resamples > 20
    assert sum(used) == used[1] + used[3]


def test_rounding_of_long_sums_does_not_move_a_coin_further_than_is_charged():
    """One round moves the sum of a batch across a power of two: all later ones round otherwise."""
    setting = Setting(2, 40_000, share_rate=0.01, rate=2.0**-14, forced=0.25, batch=20_000)
    losses = np.zeros((setting.batch, 2))
    losses[1:8192], losses[8192] = 1.0, 0.25
    losses[8193:] = (4097.5 + 2.0**-3) * 2.0**-53 / setting.rate
    stays = []
    for changed in (0.0, 1.0):
        losses[0] = changed
        learner = ObliviousTracker(
            2, horizon=setting.rounds, budget=None, plan=planned(setting), source=Source.seeded(1)
        )
        learner.run(losses[:-1])
        stays.append(math.log(learner._engine.nonprivate_kernel(losses[-1])[0]))
    moved, (_, _, on_keep) = stays[0] - stays[1], tracker_of(setting).coin
    assert setting.rate + 6e-13 < moved <= on_keep < setting.rate + 1e-11
