"""Stay-or-switch bits composed with Gaussian draws: oracles, enumeration, a second accountant."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dpoco.accounting.explanation import in_words
from dpoco.privacy.losses import line_sum
from dpoco.privacy.losses.coupled_bits import CoupledBits, later_bit_pair, switch_probability
from dpoco.privacy.losses.gaussian import Gaussian, gaussian_delta


def bits(mu, p, w, n=0, c=0.0):
    return CoupledBits(draws=mu, forced_switch=p, factor_floor=w, later_bits=n, shift=c)


def delta_of(epsilon, mu, p, w, n=0, c=0.0):
    return bits(mu, p, w, n, c).delta(epsilon)


def bit_epsilon(p, w):
    """Return the largest log-ratio of the changed bit's coins."""
    return 0.0 if p == 1.0 else max(-math.log(w), math.log1p((1.0 - p) * (1.0 - w) / p))


def any_gaussian_delta(epsilon, mu):
    if epsilon >= 0.0:
        return gaussian_delta(epsilon, mu)
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(-epsilon, mu)


def hockey_stick(first, second, epsilon):
    return float(np.maximum(np.asarray(first) - math.exp(epsilon) * np.asarray(second), 0).sum())


# -- oracles -----------------------------------------------------------------------------------


COMPOSED = [
    (1, 0.7, 0.05, 0.8, 0, 0.0, 0.13367036),
    (3, 1, 0.1, math.exp(-0.5), 0, 0.0, 0.026527971),
    (0.5, 0.3, 0.05, 0.9, 1000, 0.002, 0.092758042),
    (1, 0.3, 0.05, 0.9, 1000, 0.002, 0.034059191),
    (2, 0.3, 0.05, 0.9, 1000, 0.002, 1.0756504e-3),
    (1, 0.3, 0.05, 0.9, 60, 0.01, 0.040056493),
    (3, 0.3, 0.05, 0.9, 60, 0.01, 1.0013491e-5),
    (1, 0.2, 0.02, 0.97, 50000, 1e-4, 3.9751174e-3),
    (1, 0.3, 0.6, 0.9, 500, 0.02, 7.3035196e-3),
]


@pytest.mark.parametrize(("epsilon", "mu", "p", "w", "n", "c", "value"), COMPOSED)
def test_composed_profile_oracles(epsilon, mu, p, w, n, c, value):
    assert delta_of(epsilon, mu, p, w, n, c) == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize(
    ("epsilon", "mu", "value"),
    [
        (1, 0.5, 6.829595e-3),
        (0.5, 0.25, 2.7088802e-3),
        (-0.3, 0.8, 0.41780888),
        (2, 3, 0.68587417),
        (1.5, 0.2, 1.7339517e-15),
    ],
)
def test_gaussian_profile_at_any_epsilon(epsilon, mu, value):
    got = float(line_sum.gaussian_delta_all(np.array([float(epsilon)]), float(mu))[0])
    assert got == pytest.approx(value, rel=1e-6)
    assert got == pytest.approx(any_gaussian_delta(epsilon, mu), rel=2e-8)


@pytest.mark.parametrize("mu", [1e-7, 1e-5, 9e-5, 1.1e-4, 1e-2, 1.0, 30.0])
def test_arrays_of_the_gaussian_profile_agree_with_the_scalar_one(mu):
    epsilon = mu * np.array([-40.0, -9.0, -2.0, -0.1, 0.0, 0.2, 1.0, 5.0, 15.0, 35.0])
    got = line_sum.gaussian_delta_all(epsilon, mu)
    want = [any_gaussian_delta(float(e), mu) for e in epsilon]
    np.testing.assert_allclose(got, want, rtol=1e-10)


# -- exactness ---------------------------------------------------------------------------------


def enumerated_delta(epsilon, mu, p, w, n, c):
    """Sum over every outcome of every bit, straight from the probabilities."""
    q = switch_probability(p, math.exp(-c))
    low, high = (p, q) if p + q <= 1.0 else (1.0 - q, 1.0 - p)
    trial = [(high, low), (low, high), (1.0 - low - high, 1.0 - low - high)]
    s = switch_probability(p, w)
    best = 0.0
    for coin in (((p, s), (1 - p, 1 - s)), ((s, p), (1 - s, 1 - p))):
        total = 0.0
        for outcome in itertools.product(coin, *[trial] * n):
            first = math.prod(pair[0] for pair in outcome)
            second = math.prod(pair[1] for pair in outcome)
            if first > 0.0:
                total += first * any_gaussian_delta(epsilon - math.log(first / second), mu)
        best = max(best, total)
    return best


@pytest.mark.parametrize("mu", [0.0, 0.01, 0.4, 3.0])
@pytest.mark.parametrize(("p", "w", "c"), [(0.05, 0.8, 0.1), (0.4, 0.3, 1.0), (0.9, 0.99, 0.02)])
def test_enumeration_of_few_bits(mu, p, w, c):
    for n in (0, 1, 2, 6):
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            want = enumerated_delta(epsilon, mu, p, w, n, c)
            assert delta_of(epsilon, mu, p, w, n, c) == pytest.approx(want, rel=2e-8, abs=1e-15)


def test_the_line_and_the_lattice_agree():
    random = np.random.default_rng(7)
    compared = 0
    for _ in range(300):
        n = int(10 ** random.uniform(0, 4))
        p, c = 10 ** random.uniform(-4, -0.05), 10 ** random.uniform(-6, 0)
        w, mu = math.exp(-(10 ** random.uniform(-3, 0.5))), 10 ** random.uniform(-2, 1)
        epsilon = float(random.choice([0.0, 10 ** random.uniform(-3, 1)]))
        rare, step = later_bit_pair(p, c)
        losses = (-math.log1p((1 - p) * (1 - w) / p), -math.log(w))
        loss = line_sum.LossSum(mu, (p, 1 - p), losses, n, rare, step)
        saddle, spread = line_sum._saddle_point(epsilon, loss)
        far = line_sum._log_chernoff(epsilon, loss, saddle) < -500.0
        if far or (saddle + 1.0) * step > 250.0:
            continue
        width = line_sum._lattice_half_width(saddle, loss)
        period = line_sum._period(epsilon, loss, saddle, spread)
        nodes = math.ceil(9.0 / mu * period / (2.0 * math.pi))
        if nodes > 5000:
            continue
        line = line_sum._line(epsilon, loss, saddle, 2.0 * math.pi / period, nodes)
        lattice = line_sum._lattice(epsilon, loss, saddle, width)
        assert line == pytest.approx(lattice, rel=0.0, abs=1e-10)
        compared += 1
    assert compared > 150


@pytest.mark.parametrize(
    ("p", "w", "n", "c", "mu"), [(0.05, 0.9, 60, 0.01, 0.3), (0.6, 0.9, 40, 0.02, 0.5)]
)
def test_a_privacy_loss_library_agrees_from_above(p, w, n, c, mu):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    step = 1e-4

    def two(first, second):
        """The loss distribution of one ordered pair of probability vectors."""
        logs = [dict(enumerate(np.log(np.array(v)).tolist())) for v in (second, first)]
        return pld.from_two_probability_mass_functions(
            *logs,
            pessimistic_estimate=True,
            value_discretization_interval=step,
            symmetric=False,
        )

    q = switch_probability(p, math.exp(-c))
    low, high = (p, q) if p + q <= 1.0 else (1.0 - q, 1.0 - p)
    rest = 1.0 - low - high
    bits = two((high, low, rest), (low, high, rest)).self_compose(n)
    draws = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=step)
    s = switch_probability(p, w)
    # The library takes the larger of both orders of each composed pair by itself.
    whole = two((p, 1 - p), (s, 1 - s)).compose(bits).compose(draws)
    for epsilon in (0.2, 0.7, 1.5):
        theirs = whole.get_delta_for_epsilon(epsilon)
        assert theirs >= delta_of(epsilon, mu, p, w, n, c) * (1.0 - 1e-6)
        # Each of the n + 2 losses is rounded up by at most one step.
        assert theirs <= delta_of(epsilon - (n + 2) * step, mu, p, w, n, c) * (1.0 + 1e-6)
        assert theirs < 1.1 * delta_of(epsilon, mu, p, w, n, c)


def test_ten_million_later_bits_are_nearly_gaussian():
    p, mu, n = 0.05, 0.2, 10**7
    c = 1e-4 * math.sqrt(p)
    _, step = later_bit_pair(p, c)
    together = math.sqrt(mu**2 + 2.0 * n * p * step**2)
    assert 1.5 * mu < together < 10.0 * mu
    for epsilon in (0.0, 0.5, 1.5):
        want = gaussian_delta(epsilon, together)
        assert delta_of(epsilon, mu, p, 1.0, n, c) == pytest.approx(want, rel=2e-3)
        assert delta_of(epsilon, mu, p, 1.0, n, 0.9 * c) < 0.98 * want


# -- domination --------------------------------------------------------------------------------


def test_the_changed_bit_dominates_every_other_one():
    random = np.random.default_rng(3)
    missed = 0
    for _ in range(300):
        p, floor = random.uniform(0.01, 0.9), random.uniform(0.1, 0.95)
        w, other = sorted(random.uniform(floor, 1.0, 2))
        if random.uniform() < 0.3:
            w, other = floor, 1.0
        rest = random.choice([1.0, random.uniform(0.2, 1.0)])
        s, t = (switch_probability(p, rest * x) for x in (other, w))
        worst, wrong = (switch_probability(p, x) for x in (floor, math.sqrt(floor)))
        for epsilon in np.linspace(-1.5, 1.5, 13):
            got = hockey_stick([s, 1 - s], [t, 1 - t], epsilon)
            assert got <= hockey_stick([p, 1 - p], [worst, 1 - worst], epsilon) + 1e-12
            missed += got > hockey_stick([p, 1 - p], [wrong, 1 - wrong], epsilon) + 1e-9
        size = max(abs(math.log(s / t)), abs(math.log((1 - s) / (1 - t))))
        assert size <= bit_epsilon(p, floor) * (1 + 1e-12)
    assert missed > 20


def test_three_outcomes_dominate_every_later_bit_in_both_orders():
    random = np.random.default_rng(4)
    missed = 0
    for _ in range(300):
        p, c = random.uniform(0.01, 0.95), 10 ** random.uniform(-3, 0.3)
        log_stay = -random.choice([0.0, random.exponential(0.5)])
        moved = log_stay - c * random.choice([1.0, random.uniform(0.0, 1.0)])
        coins = [switch_probability(p, math.exp(x)) for x in (log_stay, moved)]
        rare, step = later_bit_pair(p, c)
        half_rare, half_step = later_bit_pair(p, 0.5 * c)
        for s, t in (coins, coins[::-1]):
            for epsilon in np.linspace(-1.5, 1.5, 13):
                got = hockey_stick([s, 1 - s], [t, 1 - t], epsilon)
                first = np.array([rare * math.exp(step), rare])
                total = 1.0 - first.sum()
                assert total >= -1e-12
                bound = hockey_stick([*first, total], [*first[::-1], total], epsilon)
                assert got <= bound + 1e-12
                wrong = np.array([half_rare * math.exp(half_step), half_rare])
                total = 1.0 - wrong.sum()
                loose = hockey_stick([*wrong, total], [*wrong[::-1], total], epsilon)
                missed += got > loose + 1e-9
    assert missed > 100


# -- shape -------------------------------------------------------------------------------------


def test_limits():
    assert delta_of(0.8, 0.5, 1.0, 0.3, 100, 0.5) == gaussian_delta(0.8, 0.5)
    assert delta_of(0.8, 0.5, 0.2, 1.0) == pytest.approx(gaussian_delta(0.8, 0.5), rel=2e-8)
    assert delta_of(0.8, 0.5, 0.2, 0.7, 50, 0.0) == delta_of(0.8, 0.5, 0.2, 0.7)
    assert delta_of(0.8, 0.5, 0.2, 0.7, 50, 1e-12) == pytest.approx(
        delta_of(0.8, 0.5, 0.2, 0.7), rel=1e-8
    )
    assert delta_of(0.8, 1e-9, 0.2, 0.7, 50, 0.01) == pytest.approx(
        delta_of(0.8, 0.0, 0.2, 0.7, 50, 0.01), rel=1e-7
    )
    assert delta_of(bit_epsilon(0.2, 0.7) * (1 + 1e-12), 0.0, 0.2, 0.7) == 0.0
    assert delta_of(math.inf, 0.5, 0.2, 0.7) == 0.0
    assert delta_of(1.0, math.inf, 0.2, 0.7) == 1.0
    assert delta_of(0.0, 50.0, 0.2, 0.7, 5, 0.1) == pytest.approx(1.0)
    assert 0.0 < delta_of(40.0, 0.1, 0.2, 0.7, 5, 0.01) < 1e-300
    assert bits(0.5, 1.0, 0.5).epsilon(1e-6) == Gaussian(0.5).epsilon(1e-6)
    assert bits(0.0, 0.3, 1.0).epsilon(1e-6) == 0.0
    assert bits(1e9, 0.3, 1.0).epsilon(1e-6) == math.inf


def test_without_random_bits_the_draws_are_all_there_is():
    scheduled, coupled = bits(0.5, 1.0, 0.3, 100, 0.5), bits(0.5, 0.9, 0.3, 100, 0.5)
    assert (scheduled.mu, scheduled.rho) == (0.5, 0.125)
    assert (coupled.mu, coupled.rho) == (math.inf, math.inf)
    assert "mu = 0.5 (GDP) together" in in_words(scheduled)
    assert "bit" not in in_words(scheduled)
    assert "the bit of the changed block and 100 later bits" in in_words(coupled)


def test_factors_too_small_for_doubles_prove_nothing_where_they_would_show():
    """1e-300 stands for e^-690 and everything below, which shows near epsilon 690 only."""
    least = bits(0.5, 0.2, 1e-300)
    assert least.delta(599.0) == pytest.approx(0.8, rel=1e-6)
    assert least.delta(700.0) == 1.0
    assert least.epsilon(1e-6) == math.inf
    assert np.isinf(least.renyi(np.array([2.0]))).all()
    assert bits(0.5, 0.2, 1e-299).delta(700.0) < 1e-6


def test_every_argument_is_monotone():
    base = bits(0.3, 0.1, 0.9, 200, 0.01)
    value = base.delta(1.0)
    worse = [{"draws": 0.31}, {"factor_floor": 0.89}, {"later_bits": 210}, {"shift": 0.011}]
    for change in [*worse, {"forced_switch": 0.09}]:
        changed = dataclasses.replace(base, **change)
        assert changed != base  # every field is compared
        assert changed.delta(1.0) > value * (1.0 + 1e-6)
    curve = [base.delta(e) for e in np.linspace(0.0, 6.0, 60)]
    assert all(b < a for a, b in itertools.pairwise(curve))


@pytest.mark.parametrize(("_", "mu", "p", "w", "n", "c", "__"), COMPOSED)
def test_epsilon_is_the_inverse_rounded_up(_, mu, p, w, n, c, __):
    loss = bits(mu, p, w, n, c)
    for delta in (0.01, 1e-6, 1e-12):
        epsilon = loss.epsilon(delta)
        if epsilon == 0.0:
            continue
        assert loss.delta(epsilon) <= delta
        assert loss.delta(epsilon * (1.0 - 1e-9)) > delta


def test_epsilon_without_draws_is_exact():
    p, w = 0.2, 0.7
    epsilon = bits(0.0, p, w).epsilon(0.01)
    assert delta_of(epsilon, 0.0, p, w) == pytest.approx(0.01, rel=2e-8)


# -- Renyi divergences -------------------------------------------------------------------------


def two_point_renyi(alpha, s, t):
    import mpmath

    with mpmath.workdps(50):
        s, t, alpha = mpmath.mpf(s), mpmath.mpf(t), mpmath.mpf(alpha)
        total = s**alpha * t ** (1 - alpha) + (1 - s) ** alpha * (1 - t) ** (1 - alpha)
        return float(mpmath.log(total) / (alpha - 1))


@pytest.mark.parametrize(("p", "w"), [(0.05, 0.9), (0.3, 0.01), (0.8, 0.5), (0.1, 1 - 2.0**-30)])
@pytest.mark.parametrize("alpha", [1.001, 2.0, 17.0, 3000.0])
def test_renyi_divergences_of_the_bits(p, w, alpha):
    s = p + (1 - p) * (1 - w)
    want = max(two_point_renyi(alpha, p, s), two_point_renyi(alpha, s, p))
    tolerance = 1e-9 if w < 0.999 else 1e-5
    orders = np.array([alpha, 1e13])
    changed = bits(0.0, p, w).renyi(orders)
    later = bits(0.0, p, 1.0, 1, -math.log(w)).renyi(orders)
    assert changed[0] == pytest.approx(want, rel=tolerance)
    assert later[0] == pytest.approx(want, rel=tolerance)
    assert changed[1] == pytest.approx(bit_epsilon(p, w), rel=1e-3)
    assert bits(0.0, 1.0, w).renyi(orders).tolist() == [0.0, 0.0]


def test_divergences_of_draws_and_bits_add_up():
    orders = np.array([1.5, 4.0, 100.0])
    parts = bits(0.3, 1.0, 1.0), bits(0.0, 0.1, 0.8), bits(0.0, 0.1, 1.0, 7, 0.02)
    whole = bits(0.3, 0.1, 0.8, 7, 0.02).renyi(orders)
    np.testing.assert_allclose(sum(part.renyi(orders) for part in parts), whole, rtol=1e-10)
    np.testing.assert_allclose(parts[0].renyi(orders), 0.045 * orders, rtol=1e-10)


def test_renyi_of_a_later_bit_is_of_second_order_over_the_forced_switch():
    p, c = 0.05, 1e-4
    want = 0.5 * c * c * (1 - p) / p * 2.0
    assert bits(0.0, p, 1.0, 1, c).renyi(np.array([2.0])) == pytest.approx(want, rel=5e-3)


def test_nearly_certain_outcomes_leave_no_negative_variance():
    """up + down - (up - down)^2 rounds below zero here."""
    value = delta_of(
        0.023818445126779712, 0.0006304045443178884, 0.14922087737439932, 0.9965445477584152, 1,
        0.0002167563297838462,
    )  # fmt: skip
    assert 0.0 < value < 1e-10
