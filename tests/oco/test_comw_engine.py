"""The compiled engine of continuous multiplicative weights, round by round against formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from tests.oco import comw_reference as reference
from tests.oco.comw_reference import anchored, ball, engine, glm, interval, linear, quadratic
from tests.probes import probes

RNG = np.random.default_rng(5)


def log_interval(low, high):
    """ln P(low < N(0, 1) < high), elementwise."""
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = scipy.special.log_ndtr(high)
    return upper + np.log1p(-np.exp(scipy.special.log_ndtr(low) - upper))


def log_mass(shape, mean, scale):
    d = len(mean)
    if shape == "space":
        return 0.0
    if shape == "box":
        return float(log_interval((-1.0 - mean) / scale, (1.0 - mean) / scale).sum())
    return float(scipy.stats.ncx2.logcdf(1.0 / scale**2, d, mean @ mean / scale**2))


def gaussian_log_change(shape, total, v, beta, lam):
    """ln(Z'/Z) of a linear loss v after losses of sum `total`."""
    scale = 1.0 / np.sqrt(beta * lam)
    before, after = -total / lam, -(total + v) / lam
    return (
        -beta * (v @ before)
        + beta * (v @ v) / (2.0 * lam)
        + log_mass(shape, after, scale)
        - log_mass(shape, before, scale)
    )


# ---- normalisers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "total", "v", "want"),
    [
        ("space", (3.0, -1.0), (1.0, 0.5), 0.390625),
        ("box", (3.0, -1.0), (1.0, 0.5), 0.17568043),
        ("ball", (3.0, -1.0), (1.0, 0.5), 0.14994118),
        ("ball", (3.0, -1.0, 0.0, 0.0, 2.0), (1.0, 0.5, 0.0, 0.0, 0.0), 0.098524376),
        ("box", (400.0,), (1.0,), 0.49747819),
    ],
)
def test_log_change_of_linear_losses(shape, total, v, want):
    d = len(v)
    domain = ball(d) if shape == "ball" else interval(1.0, d)
    learner = engine(
        domain, linear(d, 1000.0, unbounded=shape == "space"), coupling="density_ratio",
        rounds=30, block=10, inverse_temperature=0.5, regularization=4.0, clip_high=9.0,
    )  # fmt: skip
    learner.observe_gradient(0, np.array(total))
    learner.observe_gradient(1, np.array(v))
    assert probes.log_change(learner) == pytest.approx(want, rel=1e-6)


def test_log_change_of_quadratic_losses():
    learner = engine(
        interval(1.0, 2), quadratic(2), coupling="density_ratio", rounds=30, block=10,
        inverse_temperature=0.5, regularization=4.0,
    )  # fmt: skip
    learner.observe_quadratic(0, np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([1.0, -0.5]))
    a = np.array([0.6, 0.8])
    learner.observe_quadratic(1, np.outer(a, a), 0.7 * a)
    # The loss of the oracle has the constant 0.245 besides.
    assert probes.log_change(learner) - 0.5 * 0.245 == pytest.approx(-0.18179513, rel=1e-6)


@pytest.mark.parametrize("family", ["squared", "matrix"])
def test_log_change_of_quadratic_losses_over_many_rounds(family):
    """Rank-one updates and fresh factorisations against NumPy, past a rebuild."""
    rounds, d, beta, lam = 530, 3, 0.3, 2.0
    losses = glm("squared", d, unbounded=True) if family == "squared" else quadratic(d)
    learner = engine(
        interval(1.0, d), losses, coupling="density_ratio", rounds=rounds, block=rounds - 1,
        inverse_temperature=beta, regularization=lam, clip_high=0.2, clip_low=0.1,
    )  # fmt: skip
    curvature, slope, constant = np.zeros((d, d)), np.zeros(d), 0.0

    def log_z():
        h = curvature + lam * np.eye(d)
        least = constant - 0.5 * slope @ np.linalg.solve(h, slope)
        return -beta * least - 0.5 * np.linalg.slogdet(h)[1]

    for t in range(rounds - 1):
        a, y = RNG.normal(size=d), RNG.uniform(-1, 1)
        a *= 0.9 / np.linalg.norm(a)
        before = log_z()
        curvature += 2.0 * np.outer(a, a)
        slope -= 2.0 * y * a
        constant += y * y if family == "squared" else 0.0
        u = learner.nonprivate_point()
        if family == "squared":
            learner.observe(t, a, y)
            loss = (a @ u - y) ** 2
        else:
            learner.observe_quadratic(t, 2.0 * np.outer(a, a), 2.0 * y * a)
            loss = (a @ u) ** 2 - 2.0 * y * (a @ u)
        change = log_z() - before
        assert probes.log_change(learner) == pytest.approx(change, abs=1e-9)
        want = np.clip(-beta * loss - change - 0.2, -0.3, 0.0)
        assert learner.nonprivate_log_factor() == pytest.approx(want, abs=1e-9)


# ---- acceptance factors, round by round ----------------------------------------------------------


@pytest.mark.parametrize("shape", ["space", "box", "ball"])
@pytest.mark.parametrize("coupling", ["density_ratio", "maximal"])
def test_density_ratio_factors(shape, coupling):
    rounds, d, beta, lam = 60, 4, 0.4, 3.0
    domain = ball(d) if shape == "ball" else interval(1.0, d)
    forced = 0.0 if coupling == "maximal" else 0.1
    learner = engine(
        domain, linear(d, unbounded=shape == "space"), coupling=coupling, rounds=rounds,
        forced_switch=forced, inverse_temperature=beta, regularization=lam, clip_high=0.1,
        clip_low=0.05,
    )  # fmt: skip
    total = np.zeros(d)
    seen = set()
    for t in range(rounds - 1):
        v = RNG.normal(size=d) + 0.5
        v /= max(1.0, np.linalg.norm(v))
        u = learner.nonprivate_point()
        change = gaussian_log_change(shape, total, v, beta, lam)
        learner.observe_gradient(t, v)
        total += v
        assert probes.log_change(learner) == pytest.approx(change, abs=1e-9)
        log_ratio = -beta * (v @ u) - change
        want = min(log_ratio, 0.0)
        if coupling == "density_ratio":
            want = np.clip(log_ratio - 0.1, -0.15, 0.0)
            seen.add("low" if want == -0.15 else "high" if want == 0.0 else "inside")
        assert learner.nonprivate_log_factor() == pytest.approx(want, abs=1e-9)
    assert coupling == "maximal" or seen == {"low", "high", "inside"}
    assert learner.switches > 0


def test_factors_are_those_of_the_regularised_leader_on_the_whole_space():
    """Linear losses on R^d: that of a leader with step 1/lam and noise sqrt(lam/beta)."""
    rounds, d, beta, lam = 40, 3, 0.4, 3.0
    learner = engine(
        interval(1.0, d), linear(d, unbounded=True), coupling="density_ratio", rounds=rounds,
        inverse_temperature=beta, regularization=lam, clip_high=5.0, clip_low=5.0,
    )  # fmt: skip
    step, variance, total = 1.0 / lam, lam / beta, np.zeros(d)
    for t in range(rounds - 1):
        v = RNG.normal(size=d) / 4.0
        noisy_sum = -learner.nonprivate_point() / step
        learner.observe_gradient(t, v / max(1.0, np.linalg.norm(v)))
        v = v / max(1.0, np.linalg.norm(v))
        log_ratio = (2.0 * (noisy_sum - total) @ v - v @ v) / (2.0 * variance)
        assert learner.nonprivate_log_factor() == pytest.approx(log_ratio - 5.0, abs=1e-10)
        total += v


@pytest.mark.parametrize("family", ["linear", "huber", "logistic", "squared"])
def test_dartboard_factors(family):
    rounds, d, beta, reach = 60, 2, 0.7, 0.2
    losses = linear(d) if family == "linear" else glm(family, d)
    learner = engine(
        ball(d), losses, coupling="dartboard", rounds=rounds, inverse_temperature=beta,
        regularization=2.0, factor_range=reach,
    )  # fmt: skip
    value = {
        "linear": lambda z, y: z,
        "huber": lambda z, y: reference.huber(z - y),
        "logistic": lambda z, y: np.logaddexp(0.0, z) - y * z,
        "squared": lambda z, y: (z - y) ** 2,
    }[family]
    clipped = 0
    for t in range(rounds - 1):
        v = RNG.normal(size=d)
        v /= max(1.0, np.linalg.norm(v))
        y = RNG.uniform(0.0, 1.0)
        u = learner.nonprivate_point()
        if family == "linear":
            learner.observe_gradient(t, v)
        else:
            learner.observe(t, v, y)
        margins = np.linspace(-1.0, 1.0, 20_001) * np.linalg.norm(v)
        excess = value(v @ u, y) - value(margins, y).min()
        want = max(-beta * excess, -beta * reach)
        clipped += want == -beta * reach
        assert learner.nonprivate_log_factor() == pytest.approx(want, abs=1e-7)
    assert 0 < clipped < rounds - 1


def quantile(g, error):
    low, high = 0.0, 64.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        above = g / middle * np.exp(-(middle**2) / 2) > error
        low, high = (middle, high) if above else (low, middle)
    return high


def test_anchored_factors():
    """The anchors are the last released points; the width grows with their age."""
    rounds, d = 80, 2
    learner = engine(ball(d), linear(d), forced_switch=0.2, **anchored(rounds))
    beta, lam, count = 0.01, 40.0, 4
    g = np.sqrt(beta / lam)
    z = np.sqrt(2.0 * np.log(2.0 * rounds**3))
    base = quantile(g, 1e-6) * g + z * g / np.sqrt(count)
    history = [(learner.nonprivate_anchor_mean(), 0)] * count  # only their mean is known
    current = (learner.decision(), 0)
    for t in range(rounds - 1):
        v = RNG.normal(size=d)
        v /= np.linalg.norm(v)
        u = learner.nonprivate_point()
        mean = np.mean([x for x, _ in history[-count:]], axis=0)
        if t == 0 or len(history) >= 2 * count:  # all fill points replaced
            assert learner.nonprivate_anchor_mean() == pytest.approx(mean, abs=1e-12)
        mean = learner.nonprivate_anchor_mean()
        age = (t + 1) - np.mean([drawn for _, drawn in history[-count:]])
        switches = learner.switches
        learner.observe_gradient(t, v)
        width = base + g * g * age
        want = np.clip(-beta * (v @ u - v @ mean) - min(width, 0.3), -0.6, 0.0)
        assert learner.nonprivate_log_factor() == pytest.approx(want, abs=1e-12)
        if learner.switches > switches:
            history.append(current)
            current = (learner.decision(), t + 1)
    assert len(history) > 3 * count


def test_anchored_means_are_over_all_anchors_for_curved_losses():
    learner = engine(
        interval(), glm("squared"),
        **anchored(30, block=20, anchors=1, inverse_temperature=0.05, clip_high=2.0, clip_low=2.0,
                   lipschitz=4.0),
    )  # fmt: skip
    u, at = learner.nonprivate_point()[0], learner.nonprivate_anchor_mean()[0]
    learner.observe(0, np.array([0.8]), 0.3)
    got = learner.nonprivate_log_factor()
    learner.observe(1, np.zeros(1), 0.0)
    g = 4.0 * np.sqrt(0.05 / 40.0)
    loss = (0.8 * u - 0.3) ** 2 - (0.8 * at - 0.3) ** 2
    # A zero loss shows the width alone, one round older.
    assert got == pytest.approx(-0.05 * loss + learner.nonprivate_log_factor() + g * g, abs=1e-12)


def test_anchored_width_of_an_oracle():
    """a at g = .001, error .03/2e6, horizon 1e6, 16 anchors, mean age 9.5/.03."""
    learner = engine(
        interval(), linear(),
        **anchored(10**6, block=1000, inverse_temperature=1e-6, regularization=1.0, anchors=16,
                   clip_error=0.03 / 2e6),
    )  # fmt: skip
    widths = []
    for t in range(317):
        learner.observe_gradient(t, np.zeros(1))
        widths.append(-learner.nonprivate_log_factor())
    age = 9.5 / 0.03
    want = widths[315] + (age - 316) * (widths[316] - widths[315])  # widths[k]: age k + 1
    assert want == pytest.approx(7.0000462e-3, rel=1e-6)


def test_old_anchors_force_a_switch():
    """Past its largest width a block's end switches without a uniform, until the cap is reached."""
    rounds, count, g = 80, 4, 1e-6  # too narrow a law for a random switch in a few rounds
    z = np.sqrt(2.0 * np.log(2.0 * rounds**3))
    most = quantile(g, 1e-9) * g + z * g / np.sqrt(count) + 20.5 * g * g
    for cap in (None, 5):
        learner = engine(
            interval(), linear(unbounded=True),
            **anchored(rounds, forced_switch=0.0, inverse_temperature=g, regularization=1.0 / g,
                       clip_error=1e-9, clip_high=most, clip_low=most, max_switches=cap),
        )  # fmt: skip
        drawn, current, want, uniforms = [0] * count, 0, [], 0
        for t in range(1, rounds):
            if len(want) == cap:
                break
            if t - np.mean(drawn) > 20.5:
                want.append(t - 1)
                drawn, current = [*drawn[1:], current], t
            else:
                uniforms += 1
        out = reference.play(learner, np.zeros((rounds, 1)))
        assert np.flatnonzero(out.changed).tolist() == want
        assert learner.variates_drawn()[1] == uniforms
        assert len(want) == 5 if cap else len(want) > 8
