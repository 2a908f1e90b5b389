"""Single decisions of the compiled engine, its cap, and the Gaussian law on the whole space.

Bounds are exceeded by chance with probability below 1e-6 (all together; the seeds are fixed).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from tests.oco import comw_reference as reference
from tests.oco.comw_reference import engine, interval, linear
from tests.probes import probes

BETA, LAM = 0.09, 25.0


def test_first_decision_of_two_oracles():
    """p = .05, loss x: hazard .13090314 of the dartboard; switch probability at .4 of the ratio."""
    runs, hazards, switched = 20_000, np.empty(20_000), 0
    x = np.ones((1, 1))
    make = reference.engines(
        interval(), linear(), rounds=2, inverse_temperature=BETA, regularization=LAM,
        factor_range=2.0,
    )  # fmt: skip
    for i in range(runs):
        learner = make(i)
        reference.play(learner, x)
        hazards[i] = 1.0 - 0.95 * np.exp(learner.nonprivate_log_factor())
        switched += learner.switches
    assert abs(hazards.mean() - 0.13090314) < 5.5 * hazards.std() / np.sqrt(runs)
    assert hazards.std() < 0.05
    assert abs(switched / runs - 0.13090314) < 5.5 * np.sqrt(0.1138 / runs)

    learner = engine(
        interval(), linear(), coupling="density_ratio", rounds=3, block=2, clip_high=0.3,
        clip_low=0.3, inverse_temperature=BETA, regularization=LAM,
    )  # fmt: skip
    u = learner.nonprivate_point()[0]
    learner.observe_gradient(0, np.ones(1))
    ratio = -BETA * 0.4 - probes.log_change(learner)
    assert ratio == pytest.approx(-0.0369926, abs=1e-7)
    at = learner.nonprivate_log_factor() - BETA * (0.4 - u)  # moved to .4; no clipping on the way
    assert 1.0 - 0.95 * np.exp(at) == pytest.approx(0.32178158, rel=1e-6)


@pytest.mark.parametrize("coupling", ["dartboard", "density_ratio", "anchored", "scheduled"])
def test_the_cap_holds_and_freezes(coupling):
    settings = reference.anchored(
        100, coupling=coupling, forced_switch=1.0 if coupling == "scheduled" else 0.2,
        factor_range=2.0, max_switches=3,
    )  # fmt: skip
    capped = 0
    make = reference.engines(interval(), linear(), **settings)
    for i in range(200):
        learner = make(i)
        out = reference.play(learner, np.resize([1.0, 0.8, -0.5, 0.9], (100, 1)))
        switches = np.flatnonzero(out.changed)
        assert learner.switches == len(switches) <= 3
        if len(switches) == 3:
            capped += 1
            assert np.ptp(out.decisions[switches[2] + 1 :]) == 0.0
    assert capped > 150
    # A frozen learner draws nothing any more, and goes on counting rounds.
    assert learner.round == 100


# ---- the whole space -----------------------------------------------------------------------------


def test_scheduled_draws_are_the_gaussian_mechanism():
    """R^d, linear losses, a fresh draw every round; the first loss is x or -x.

    The log-likelihood ratio of the draws is then N(M^2/2, M^2) with M = 2 sqrt(beta/lam) sqrt(B).
    """
    beta, lam, switches, runs = 0.002, 500.0, 999, 8000
    width, scale = 2.0 / lam, 1.0 / np.sqrt(beta * lam)
    m = width / scale * np.sqrt(switches)
    assert m == pytest.approx(0.12642785, rel=1e-6)
    x = np.where(np.arange(switches + 1) % 2 == 0, 0.5, -0.5)[:, None]
    x[0] = 1.0
    means = -np.cumsum(x[:-1, 0]) / lam
    log_ratio = np.empty(runs)
    make = reference.engines(
        interval(), linear(unbounded=True), coupling="scheduled", rounds=switches + 1,
        forced_switch=1.0, inverse_temperature=beta, regularization=lam,
    )  # fmt: skip
    for i in range(runs):
        learner = make(i)
        draws = reference.play(learner, x).decisions[1:, 0]
        assert learner.switches == switches
        noise = draws - means
        log_ratio[i] = ((noise - width) ** 2 - noise**2).sum() / (2.0 * scale**2)
    standard = (log_ratio - 0.5 * m * m) / m
    assert scipy.stats.kstest(standard, "norm").pvalue > 1e-7
    assert abs(standard.var() - 1.0) < 5.5 * np.sqrt(2.0 / runs)
    assert abs(1.0 / 1.1**2 - 1.0) > 5.5 * np.sqrt(2.0 / runs)  # 10 % too little noise would show
    for epsilon, want in ((0.0, 2.0 * scipy.special.ndtr(0.5 * m) - 1.0), (0.3, 4.327627e-4)):
        profile = np.maximum(0.0, 1.0 - np.exp(epsilon - log_ratio))
        error = profile.std() / np.sqrt(runs)
        assert abs(profile.mean() - want) < 5.0 * error
        assert epsilon > 0.0 or 5.0 * error < 0.1 * want


def test_draws_on_the_whole_space_are_standard_normal_about_the_leader():
    d, rounds, beta, lam = 5, 4000, 0.4, 3.0
    learner = engine(
        interval(1.0, d), linear(d, unbounded=True), coupling="scheduled", rounds=rounds,
        forced_switch=1.0, inverse_temperature=beta, regularization=lam,
    )  # fmt: skip
    x = np.random.default_rng(3).normal(size=(rounds, d))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    draws = reference.play(learner, x).decisions
    sums = np.vstack([np.zeros(d), np.cumsum(x, axis=0)[:-1]])
    noise = (draws + sums / lam) * np.sqrt(beta * lam)
    assert scipy.stats.kstest(noise.ravel(), "norm").pvalue > 1e-7
    assert scipy.stats.kstest(1.1 * noise.ravel(), "norm").pvalue < 1e-7
    np.testing.assert_allclose(noise.T @ noise / rounds, np.eye(d), atol=5.5 * np.sqrt(2 / rounds))
    np.testing.assert_allclose(noise[1:].T @ noise[:-1] / rounds, 0.0, atol=5.5 / np.sqrt(rounds))
