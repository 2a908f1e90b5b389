"""Objective perturbation: oracles, the divergence bound by quadrature, composition."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dpoco.accounting.coupled_regret import clip_widths
from dpoco.accounting.explanation import in_words
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.privacy.losses.coupled_bits import CoupledBits
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.losses.tilted_draws import TiltedDraws
from dpoco.privacy.mechanisms.coupled_draws import SmoothLosses, TiltedMinimum, Window
from dpoco.privacy.neighbours import Neighbours


def one(b, dimension, rank, change, ratio=0.0):
    """One draw without bits."""
    return TiltedDraws(
        cap=1, sensitivity_ratio=ratio, b=b, dimension=dimension, rank=rank, change=change,
        forced_switch=1.0, factor_floor=1.0,
    )  # fmt: skip


def ratio_shift(sensitivity, lipschitz, sigma, b, rank):
    """What the mechanism says of losses of slope `lipschitz`, step 1."""
    near = Neighbours("replace" if sensitivity == 2.0 * lipschitz else "zero_out")
    losses = SmoothLosses(10, lipschitz, b, rank if b else 0)
    return TiltedMinimum(sigma, 1.0).shift(losses, near, Window(0.1, 0.0, 0.0), 1)


# -- oracles -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "d", "r", "relation", "value"),
    [
        (2, 3, 3, "replace", 0.030151008),
        (5, 3, 3, "replace", 0.097188678),
        (5, 3, 1, "replace", 0.050167674),
        (5, 3, 1, "zero_out", 0.032396226),
        (5, 1, 1, "replace", 0.032396226),
        (10, 20, 4, "replace", 0.75766582),
        (11, 3, 3, "replace", math.inf),
        (12, 3, 3, "replace", math.inf),
    ],
)
def test_excess_oracles(alpha, d, r, relation, value):
    found = one(0.1, d, r, relation).excess(np.array([float(alpha)]))
    assert found[0] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ((2.0, 1.0, 20.0, 0.1, 3), 0.029896408),
        ((2.0, 1.0, 20.0, 0.1, 1), 0.013298803),
        ((4.0, 2.0, 50.0, 0.01, 10), 4.1803441e-3),
    ],
)
def test_ratio_shift_oracles(arguments, value):
    assert ratio_shift(*arguments) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("rank", "high", "low"), [(5, 4.5352e-3, 5.1083e-3), (1, 4.3099e-3, 4.4846e-3)]
)
def test_clip_width_oracles(rank, high, low):
    assert clip_widths(1e-3, 2e-4, 5, rank, 1e-8) == pytest.approx((high, low), rel=2e-3)
    exact = gaussian_epsilon(1e-3, 1e-8)
    assert clip_widths(1e-3, 0.0, 5, rank, 1e-8) == (exact, exact)


def long_run(b, rank):
    return {
        "cap": 6000,
        "sensitivity_ratio": 2.0 / 600.0,
        "b": b,
        "dimension": 5,
        "rank": rank,
        "change": "replace",
        "forced_switch": 0.05,
        "factor_floor": math.exp(-0.03),
        "later_bits": 99_998,
        "shift": ratio_shift(2.0, 1.0, 600.0, b, rank),
    }


SCHEDULED = long_run(0.001, 5) | {
    "cap": 624,
    "sensitivity_ratio": 2.0 / 250.0,
    "forced_switch": 1.0,
    "factor_floor": 1.0,
    "later_bits": 0,
}


@pytest.mark.parametrize(
    ("release", "value"),
    [
        (long_run(0.001, 5), 1.7161680),
        (long_run(0.001, 1), 1.5776994),
        (long_run(0.0, 1), 1.4795831),
        (SCHEDULED, 0.93660016),
    ],
)
def test_epsilon_oracles(release, value):
    epsilon = TiltedDraws(**release).epsilon(1e-6)
    assert value * (1 - 1e-6) <= epsilon <= 1.001 * value


def test_without_curvature_the_gaussian_profile_is_better():
    release = long_run(0.0, 5)
    bits = {k: release[k] for k in ("forced_switch", "factor_floor", "later_bits", "shift")}
    mu = release["sensitivity_ratio"] * math.sqrt(release["cap"])
    exact = CoupledBits(draws=mu, **bits).epsilon(1e-6)
    assert exact == pytest.approx(1.3904589, rel=1e-6)
    assert exact < TiltedDraws(**release).epsilon(1e-6)


# -- composition -------------------------------------------------------------------------------


@pytest.mark.parametrize("release", [long_run(0.001, 5), long_run(0.02, 1), SCHEDULED])
def test_conversion_is_the_best_over_a_dense_set_of_orders(release):
    top = 1.0 / release["b"]
    t = np.exp(np.linspace(math.log(1e-4 * top), math.log(top * (1 - 1e-9)), 200_001))
    loss = TiltedDraws(**release)
    divergence = loss.renyi(1.0 + t)
    for delta in (1e-3, 1e-6, 1e-10):
        epsilon = loss.epsilon(delta)
        brute = divergence - np.log1p(1 / t) - (math.log(delta) + np.log1p(t)) / t
        assert epsilon == pytest.approx(brute.min(), rel=1e-6)
        assert loss.delta(epsilon) <= delta
        assert loss.delta(epsilon * (1 - 1e-7)) > delta
    curve = [loss.delta(e) for e in np.linspace(0.0, 5.0, 30)]
    assert all(b < a for a, b in itertools.pairwise(curve))
    assert loss.delta(math.inf) == 0.0


def test_divergences_add_up():
    release = long_run(0.001, 5)
    orders = np.array([1.5, 4.0, 100.0])

    def renyi(**changes):
        return TiltedDraws(**(release | changes)).renyi(orders)

    whole = renyi()
    draws = 6000 * one(0.001, 5, 5, "replace", 2 / 600).renyi(orders)
    assert (whole > draws).all()
    np.testing.assert_allclose(renyi(cap=12000) - whole, draws, rtol=1e-9)
    more, fewer = renyi(later_bits=2 * 99_998), renyi(later_bits=0)
    np.testing.assert_allclose(more - whole, whole - fewer, rtol=1e-9)
    np.testing.assert_allclose(renyi(forced_switch=1.0), draws, rtol=1e-12)


def test_limits():
    orders = np.array([1.5, 4.0, 100.0])
    np.testing.assert_allclose(
        one(1e-5, 9, 4, "replace").excess(orders), orders * 8 * 1e-10 / 2, rtol=2e-3
    )
    assert not one(0.0, 9, 4, "replace").excess(orders).any()
    assert not one(0.1, 9, 0, "replace").excess(orders).any()
    less, more = (one(0.1, 9, 4, name).excess(orders[1:2])[0] for name in ("zero_out", "replace"))
    assert less < more < 2 * less
    alone = one(0.0, 2, 2, "zero_out", 0.5).renyi(np.array([3.0]))
    assert alone == pytest.approx(3 * 0.125)
    assert TiltedDraws(**(SCHEDULED | {"b": 1e6})).epsilon(1e-6) > 1e6
    assert TiltedDraws(**(SCHEDULED | {"b": 1e30})).epsilon(1e-6) == math.inf
    assert TiltedDraws(**(SCHEDULED | {"b": 1e30})).delta(1.0) == 1.0


def test_every_field_is_compared():
    loss = TiltedDraws(**long_run(0.001, 1))
    for name, value in (
        ("cap", 6001), ("sensitivity_ratio", 0.004), ("b", 0.002), ("dimension", 1), ("rank", 2),
        ("change", "zero_out"), ("forced_switch", 0.04), ("factor_floor", 0.9),
        ("later_bits", 100_000), ("shift", 1e-3),
    ):  # fmt: skip
        other = dataclasses.replace(loss, **{name: value})
        assert other != loss
        assert other.delta(1.0) != loss.delta(1.0)
    assert "at most 6000 draws" in in_words(loss)
    assert "99998 later bits" in in_words(loss)


# -- the divergence bound by quadrature --------------------------------------------------------


class Logistic:
    """slope * log(1 + e^((x - centre) / width)) * width: |l'| <= slope, l'' <= slope/(4 width)."""

    def __init__(self, slope, width, centre, sign):
        self.slope, self.width, self.centre, self.sign = slope, width, centre, sign

    def gradient(self, x):
        z = self.sign * (x - self.centre) / self.width
        return self.sign * self.slope * 0.5 * (1.0 + np.tanh(0.5 * z))

    def hessian(self, x):
        z = (x - self.centre) / self.width
        return self.slope / (4.0 * self.width) / np.cosh(0.5 * z) ** 2

    @property
    def smoothness(self):
        return self.slope / (4.0 * self.width)


def minimiser_law(x, losses, eta, sigma):
    """Log density of the minimiser of the losses plus x^2/(2 eta) + Zx, by change of variables."""
    gradient = x / eta + sum(loss.gradient(x) for loss in losses)
    hessian = 1.0 / eta + sum(loss.hessian(x) for loss in losses)
    return (
        -0.5 * (gradient / sigma) ** 2
        + np.log(hessian)
        - math.log(sigma * math.sqrt(2.0 * math.pi))
    )


def divergence(x, first, second, alpha):
    log_terms = alpha * first + (1 - alpha) * second
    top = log_terms.max()
    return (top + math.log(np.exp(log_terms - top).sum() * (x[1] - x[0]))) / (alpha - 1)


def test_laws_of_the_minimiser_obey_the_bound_and_its_curvature_term_is_needed():
    random = np.random.default_rng(5)
    without = first_only = 0
    for _ in range(150):
        eta, sigma = 10 ** random.uniform(-1, 1), 10 ** random.uniform(-1, 1)
        spread = eta * sigma
        x = np.linspace(-14 * spread, 14 * spread, 6001)
        relation = str(random.choice(["replace", "zero_out"]))
        g = 10 ** random.uniform(-2, 0.5)

        def draw(slope, spread=spread):
            width = spread * 10 ** random.uniform(-1.5, 1.0)
            sign = random.choice([-1.0, 1.0])
            return Logistic(slope, width, spread * random.normal(), sign)

        past = [draw(sigma * 10 ** random.uniform(-2, 0)) for _ in range(random.integers(0, 3))]
        old, new = draw(g * sigma), draw(g * sigma)
        exchanged = [[old], [new] if relation == "replace" else []]
        b = eta * max(old.smoothness, new.smoothness)
        gap = old.gradient(x) - (new.gradient(x) if relation == "replace" else 0.0)
        ratio = float(np.abs(gap).max()) / sigma
        # The mass outside the grid is negligible only for moderate shifts.
        if ratio > 3.0:
            continue
        laws = [minimiser_law(x, past + change, eta, sigma) for change in exchanged]
        for share in (0.1, 0.5, 0.9):
            alpha = 1.0 + min(share / b, 8.0 * share)
            for p, q in (laws, laws[::-1]):
                got = divergence(x, p, q, alpha)
                bound = float(one(b, 1, 1, relation, ratio).renyi(np.array([alpha]))[0])
                assert got <= bound * (1 + 1e-5) + 1e-8
                without += got > 0.5 * alpha * ratio**2 + 1e-4
                first_only += got > bound * 0.5
    assert without > 20
    assert first_only > 20


def test_an_exchanged_loss_can_cost_one_direction_of_each_kind():
    """Separable losses in two dimensions: one leaves in the first, one enters in the second."""
    eta, sigma, alpha = 1.0, 1.0, 3.0
    x = np.linspace(-14.0, 14.0, 8001)
    loss = Logistic(0.05, 0.05, 0.0, 1.0)
    b = eta * loss.smoothness
    with_loss, bare = (minimiser_law(x, losses, eta, sigma) for losses in ([loss], []))
    got = divergence(x, bare, with_loss, alpha) + divergence(x, with_loss, bare, alpha)
    # |grad l' - grad l| <= sqrt(2) 0.05.
    bound = float(one(b, 2, 1, "replace", math.sqrt(2) * 0.05).renyi(np.array([alpha]))[0])
    assert got <= bound
    assert got > 0.5 * alpha * 2 * 0.05**2 * 1.05


def test_the_log_determinant_ratio_moves_by_at_most_its_bound():
    random = np.random.default_rng(6)
    eta, b = 0.7, 0.4
    beta = b / eta
    largest = 0.0
    for _ in range(400):
        d = int(random.integers(1, 5))
        r = int(random.integers(1, d + 1))

        def hessian(rank, full, d=d):
            basis = np.linalg.qr(random.normal(size=(d, d)))[0][:, :rank]
            values = np.full(rank, beta) if full else random.uniform(0, beta, rank)
            return (basis * values) @ basis.T

        base = np.eye(d) / eta + hessian(d, False) * random.choice([0.0, 3.0])
        current = hessian(r, bool(random.integers(2)))
        old = hessian(r, True)
        if random.integers(2):
            old = current / max(np.linalg.norm(current, 2), 1e-300) * beta
        new = hessian(r, False) * random.integers(2)
        values = [
            np.linalg.slogdet(np.eye(d) + np.linalg.solve(base + past, current))[1]
            for past in (old, new)
        ]
        bound = ratio_shift(0.0, 1e-200, 1.0, b, r)
        assert abs(values[0] - values[1]) <= bound * (1 + 1e-9)
        largest = max(largest, abs(values[0] - values[1]) / bound)
    assert largest > 0.99


@pytest.mark.parametrize(("g", "b", "error"), [(0.3, 0.2, 1e-4), (0.05, 0.4, 1e-6)])
def test_clip_widths_bound_the_hockey_sticks_of_successive_laws(g, b, error):
    eta = sigma = 1.0
    x = np.linspace(-14.0, 14.0, 200_001)
    step = x[1] - x[0]
    loss = Logistic(g * sigma, g * sigma / (4.0 * b / eta), 0.1, 1.0)
    now, then = (np.exp(minimiser_law(x, losses, eta, sigma)) for losses in ([], [loss]))
    high, low = clip_widths(g, b, 1, 1, error)

    def stick(first, second, width):
        return np.maximum(first - math.exp(width) * second, 0.0).sum() * step

    assert stick(then, now, high) <= error
    assert stick(now, then, low) <= error
    assert stick(then, now, 0.1 * high) > error


@pytest.mark.parametrize(
    ("ratio", "b"), [(1e-170, 0.0), (1e-310, 0.0), (0.0, 1e-200), (0.0, 1e-17)]
)
def test_laws_that_differ_by_less_than_a_square_are_not_equal(ratio, b):
    drawn = one(b, 2, 1, "zero_out", ratio)
    # One normal draw has this delta; curvature has one of about b.
    assert drawn.delta(0.0) >= gaussian_delta(0.0, max(ratio, b)) > 0.0
    assert drawn.delta(math.inf) == 0.0
    assert one(0.0, 2, 1, "zero_out").delta(0.0) == 0.0
