"""The engine's ratio of normalising constants against high precision: within the charged error."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from tests.oco import comw_reference as reference
from tests.plans import recoupled
from tests.probes import probes
from tests.samplers import mass_reference as masses

from dpoco import Budget, domains, losses, samplers
from dpoco.accounting import continuous_multiplicative_weights
from dpoco.accounting.coupled_runs import open_plan
from dpoco.privacy.mechanisms.coupled_draws import Window

ROUNDS = 24


def planned(domain, loss, beta, lam):
    p = continuous_multiplicative_weights.calibrate(
        domain, loss, horizon=ROUNDS, budget=Budget(1.0, 1e-5), coupling="density_ratio"
    )
    return recoupled(p, inverse_temperature=beta, regularization=lam)


def charged_error(domain, loss, p):
    """Return what the mechanism charges for a log ratio, whatever coupling is in `p`."""
    drawn = open_plan(domain, loss, p).mechanism
    assert drawn.losses.lipschitz == 1.0
    window = Window(0.5, getattr(drawn.keep, "high", 0.0), getattr(drawn.keep, "low", 0.0))
    return drawn.draw.normalizer_error(drawn.losses, window, drawn.rounds)


def exact_change(domain, total, loss, beta, lam):
    """ln(Z'/Z) for the sum of losses before, in high precision."""
    with mpmath.workdps(60):
        scale = 1 / mpmath.sqrt(mpmath.mpf(beta) * lam)
        before = [-t / lam for t in total]
        after = [-(t + w) / lam for t, w in zip(total, loss, strict=True)]

        def log_mass(mean):
            if isinstance(domain, domains.Box):
                return masses.box(domain.upper, mean, scale)
            far = mpmath.sqrt(mpmath.fsum(m * m for m in mean))
            return masses.ball(domain.dimension, far / scale, domain.radius / scale)

        along = mpmath.fsum(w * m for w, m in zip(loss, before, strict=True))
        square = mpmath.fsum(w * w for w in loss)
        return -beta * along + beta * square / (2 * lam) + log_mass(after) - log_mass(before)


def cube(d, half):
    return domains.Box(-np.full(d, half), np.full(d, half))


# Means about one deviation out at the end, where only the dimension counts, and some hundred.
CASES = [
    pytest.param(cube(300, 1.0), 0.02, 4.0, id="near300"),
    pytest.param(cube(1000, 0.3), 0.5, 40.0, id="near1000"),
    pytest.param(domains.LpBall(50, 2.0, 1.0), 0.1, 9.0, id="nearball50"),
    pytest.param(domains.LpBall(300, 2.0, 9.0), 0.1, 20.0, id="nearball300"),
    pytest.param(cube(100, 0.2), 400.0, 4.0, id="box100"),
    pytest.param(cube(1000, 0.01), 900.0, 40.0, id="box1000"),
    pytest.param(domains.Box(-np.geomspace(1e-3, 2, 300), np.geomspace(1e-3, 2, 300)), 50.0, 0.5,
                 id="flat"),
    pytest.param(domains.LpBall(50, 2.0, 1.0), 100.0, 4.0, id="ball50"),
    pytest.param(domains.LpBall(50, 2.0, 1.0), 3000.0, 2.0, id="far50"),
    pytest.param(domains.LpBall(1000, 2.0, 1.0), 500.0, 9.0, id="ball1000"),
]  # fmt: skip


@pytest.mark.parametrize(("domain", "beta", "lam"), CASES)
def test_the_ratio_is_within_the_charged_error(domain, beta, lam):
    """Over a second: masses in 60 digits. Half of the charge is margin."""
    d = domain.dimension
    loss = losses.LinearLoss(1.0, gradient_bound_l2=1.0)
    p = planned(domain, loss, beta, lam)
    charged = charged_error(domain, loss, p)
    learner = reference.engine(
        domain._engine, reference.linear(d), coupling="density_ratio", rounds=ROUNDS, block=1,
        forced_switch=0.5, inverse_temperature=beta, regularization=lam, clip_high=1.0,
        clip_low=1.0,
    )  # fmt: skip
    rng = np.random.default_rng(d)
    drift = rng.standard_normal(d)
    total = [mpmath.mpf(0)] * d
    worst = 0.0
    for t in range(ROUNDS):
        w = drift + 0.3 * rng.standard_normal(d)
        w *= (1.0 - 1e-9) / np.linalg.norm(w)
        learner.observe_gradient(t, w)
        exact = [mpmath.mpf(x) for x in w]
        if t in (1, ROUNDS - 2):
            change = exact_change(domain, total, exact, beta, lam)
            error = abs(float(probes.log_change(learner) - change))
            worst = max(worst, error)
        with mpmath.workdps(60):
            total = [a + b for a, b in zip(total, exact, strict=True)]
    assert worst <= 0.5 * charged
    assert worst > 1e-4 * charged


def test_masses_deep_inside_are_within_the_charged_error():
    """Where large terms leave log masses near 0, a single one is off by more than 52 n units."""
    radius, far = 10.738562225041118, 0.5827439783435304
    domain, loss = domains.LpBall(2, 2.0, radius), losses.LinearLoss(1.0)
    g = far / ROUNDS
    p = recoupled(planned(domain, loss, g, 1.0 / g), clip_high=0.0, clip_low=0.0)
    found = samplers.log_mass(domain, np.array([far, 0.0]), 1.0)
    error = abs(float(found - masses.ball(2, mpmath.mpf(far), mpmath.mpf(radius))))
    assert 0.0 < error <= 0.25 * charged_error(domain, loss, p)


def test_the_ratio_on_the_whole_space_is_within_the_charged_error():
    """There are no masses there, but the mean, a product with it and differences are rounded."""
    d, rounds, beta, lam = 400, 3, 1e6, 1.0
    domain, loss = domains.LpBall(d, 2.0, 1.0), losses.LinearLoss(1.0, gradient_bound_l2=1.0)
    p = continuous_multiplicative_weights.calibrate(
        domain, loss, horizon=rounds, budget=Budget(1.0, 1e-5), coupling="scheduled",
        unbounded=True,
    )  # fmt: skip
    p = recoupled(p, inverse_temperature=beta, regularization=lam)
    learner = reference.engine(
        domain._engine, reference.linear(d, unbounded=True), coupling="density_ratio",
        rounds=rounds, block=1, forced_switch=0.5, inverse_temperature=beta, regularization=lam,
        clip_high=1.0, clip_low=1.0,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    first, second = rng.standard_normal((2, d)) + 2.0
    first, second = 0.99 * first / np.linalg.norm(first), 0.99 * second / np.linalg.norm(second)
    learner.observe_gradient(0, first)
    learner.observe_gradient(1, second)
    with mpmath.workdps(60):
        total, w = ([mpmath.mpf(x) for x in each] for each in (first, second))
        along = -mpmath.fsum(a * b for a, b in zip(w, total, strict=True)) / lam
        exact = -beta * along + beta * mpmath.fsum(a * a for a in w) / (2 * mpmath.mpf(lam))
        error = abs(float(probes.log_change(learner) - exact))
    assert 0.0 < error <= 0.5 * charged_error(domain, loss, p)
