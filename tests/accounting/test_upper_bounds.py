"""Every curve against ball arithmetic: never below the truth, over an extreme grid.

A ball of ``python-flint`` holds the true value with certainty; where its lower end is above what
the library returns, the library is wrong. Without their margins the curves are.
"""

from __future__ import annotations

import itertools
import math

import flint
import numpy as np
import pytest

from dpoco.accounting import Budget, rdp
from dpoco.accounting.gaussian import charged_gaussian_mu, gaussian_epsilon, gaussian_mu
from dpoco.privacy.losses import bounded_range, coupled_bits, gaussian
from dpoco.privacy.losses import loss as losses

arb, acb = flint.arb, flint.acb

DELTAS = (0.3, 1e-3, 1e-6, 1e-10, 1e-30, 1e-200)


@pytest.fixture(autouse=True)
def precision():
    before, flint.ctx.prec = flint.ctx.prec, 1000
    yield
    flint.ctx.prec = before


def below(pairs):
    """Yield which of the values returned are certainly below the truth, and by how much."""
    for values, found, truth in pairs:
        if truth > arb(found):
            yield values, float((truth - arb(found)) / truth)


def ball_gaussian(epsilon, mu):
    epsilon, mu = arb(epsilon), arb(mu)

    def phi(x):
        return (-x / arb(2).sqrt()).erfc() / 2

    return phi(mu / 2 - epsilon / mu) - epsilon.exp() * phi(-mu / 2 - epsilon / mu)


def gaussian_pairs():
    rng = np.random.default_rng(16)
    for mu in [*np.logspace(-9.0, 7.0, 60), *np.exp(rng.uniform(-9.0, 4.0, 140))]:
        for a in (*rng.uniform(-38.0, 8.0, 12), -1e-9, -39.9):  # where delta is decided
            epsilon = float(mu) * (0.5 * float(mu) - a)
            if epsilon >= 0.0:
                found = gaussian.gaussian_delta(epsilon, float(mu))
                yield (epsilon, float(mu)), found, ball_gaussian(epsilon, float(mu))
        yield (0.0, float(mu)), gaussian.gaussian_delta(0.0, float(mu)), ball_gaussian(0.0, mu)


def gaussian_points():
    """The promises of epsilon(delta) and mu(epsilon, delta), in balls."""
    rng = np.random.default_rng(17)
    for mu, delta in itertools.product(np.exp(rng.uniform(-8.0, 4.0, 40)), DELTAS):
        epsilon = gaussian_epsilon(float(mu), delta)
        yield (epsilon, float(mu)), delta, ball_gaussian(epsilon, float(mu))
        epsilon = float(np.exp(rng.uniform(-6.0, 4.0)))
        found = gaussian_mu(epsilon, delta)
        yield (epsilon, found), delta, ball_gaussian(epsilon, found)
        mass = 1e-3 * delta
        found = charged_gaussian_mu(Budget._derived(epsilon, delta), mass)
        at = min(epsilon, gaussian.turning_point(found, mass))  # what holds there holds here
        charge = (1 + arb(at).exp()) * arb(mass)
        yield (epsilon, found, mass), delta, ball_gaussian(at, found) + charge


def pure_pairs():
    rng = np.random.default_rng(18)
    for p in np.exp(rng.uniform(-20.0, 6.0, 1000)):
        p, e = float(p), float(p * rng.random())
        truth = (1 - (arb(e) - arb(p)).exp()) / (1 + (-arb(p)).exp())
        yield (e, p), losses.pure_delta(e, p), truth
        delta = float(np.exp(rng.uniform(-40.0, 0.0)))
        e = losses.Pure(p).epsilon(delta)
        if e < p:
            truth = (1 - (arb(e) - arb(p)).exp()) / (1 + (-arb(p)).exp())
            yield (e, p, delta), delta, truth


def bounded_pairs():
    rng = np.random.default_rng(19)
    for r in np.exp(rng.uniform(-15.0, 6.0, 1000)):
        r, e = float(r), float(r * rng.uniform(-1.5, 1.0))
        truth = 1 - arb(e).exp()
        if e > -r:
            truth = (((arb(e) - arb(r)) / 2).exp() - 1) ** 2 / (1 - (-arb(r)).exp())
        yield (e, r), bounded_range.bounded_range_delta(e, r), truth
        moment = float(bounded_range.moment(np.asarray(r), np.asarray(1.0 + abs(e))))
        yield (e, r, "moment"), moment, ball_moment(r, 1.0 + abs(e))


def ball_moment(r, order):
    """The moment at one point of its maximum's argument: a lower bound of the truth."""
    r, b = arb(r), arb(order) - 1
    gap = 1 - (-r).exp()
    s = ((b + 1) * (1 - (-b * r).exp()) / (b * (1 - (-(b + 1) * r).exp()))).log()
    one = (1 - (-s).exp()) / gap
    return (one * (b * (r - s)).exp() + (1 - one) * (-b * s).exp()).log()


def renyi_pairs():
    rng = np.random.default_rng(20)
    for a, t in zip(
        np.exp(rng.uniform(-20.0, 1.0, 1000)), rng.uniform(0.0, 1.0, 1000), strict=True
    ):
        rho = float(a)
        epsilon = rho + 2.0 * math.sqrt(rho * 600.0) * float(t)
        found = rdp.zcdp_delta(epsilon, rho)
        # Any order proves more than the best: balls at the order that doubles find.
        order = 1.0 + best_order(epsilon, rho)
        yield (epsilon, rho, "zcdp"), found, ball_zcdp(epsilon, rho, order)
        orders = [1.0 + 2.0**k for k in range(-8, 12, 4)]
        found = rdp.rdp_delta(orders, [rho * x for x in orders], epsilon)
        truths = [ball_zcdp(epsilon, rho, x, arb(rho * x)) for x in orders]
        yield (epsilon, rho, "rdp"), found, min(truths, key=lambda ball: float(ball.log()))


def best_order(epsilon, rho):
    from scipy.optimize import brentq

    return math.exp(brentq(
        lambda x: (2.0 * math.exp(x) + 1.0) * rho - epsilon - math.log1p(math.exp(-x)), -60.0, 60.0
    ))  # fmt: skip


def ball_zcdp(epsilon, rho, order, divergence=None):
    a = arb(order)
    d = a * arb(rho) if divergence is None else divergence
    value = ((a - 1) * (d - arb(epsilon))).exp() / (a - 1) * (1 - 1 / a) ** a
    return value if value < 1 else arb(1)


def ball_coupled(epsilon, mu, p, w, later, shift):
    """The composed profile as a contour integral, or a sum where there are no later bits."""
    e, mu_ball, p, w = arb(epsilon), arb(mu), arb(p), arb(w)
    switch = 1 - (1 - p) * w
    gains = ((p / switch).log(), -w.log())
    rare, step = ball_later(p, arb(shift)) if later and shift > 0.0 else (arb(0), arb(0))
    best = arb(0)
    for weights, signs in (((p, 1 - p), 1), ((switch, (1 - p) * w), -1)):
        losses = [signs * gain for gain in gains]
        if not later or shift == 0.0:
            value = arb(0)
            for weight, loss in zip(weights, losses, strict=True):
                at = e - loss
                part = ball_gaussian(abs(at), mu_ball)
                value += weight * (part if at >= 0 else at.exp() * part + 1 - at.exp())
        else:
            value = contour(e, mu_ball, weights, losses, later, rare, step)
        best = value if value > best else best
    return best


def ball_later(p, c):
    moved = (1 - p) * (1 - (-c).exp())
    if 2 * p + moved > 1:
        return (1 - p) * (-c).exp(), c
    return p, (1 + moved / p).log()


def contour(e, mu, weights, losses, later, rare, step):
    """delta = 1/pi int_0^inf Re E e^(zL - z e) / (z (z + 1)) du, z = c + iu, by balls."""
    from dpoco.privacy.losses.line_sum import LossSum, _saddle_point

    known = LossSum(float(mu), tuple(map(float, weights)), tuple(map(float, losses)), later,
                    float(rare), float(step))  # fmt: skip
    c = arb(min(_saddle_point(float(e), known)[0], 1e4))

    def moment(z):
        pair = sum(acb(a) * (z * acb(b)).exp() for a, b in zip(weights, losses, strict=True))
        trial = 1 + acb(rare) * (((z + 1) * acb(step)).exp() - 1) * (1 - (-z * acb(step)).exp())
        drawn = (acb(mu * mu / 2) * z * (z + 1)).exp()
        return pair * trial**later * drawn * (-z * acb(e)).exp()

    reach = (2 * arb(10) ** 0 * arb(80)).sqrt() / mu  # e^(-mu^2 reach^2 / 2) = e^-80
    peak = moment(acb(c)).real

    def integrand(u, _analytic):
        z = acb(c) + acb(0, 1) * u
        return moment(z) / peak / (z * (z + 1))

    # Conjugate symmetry: the integral over the whole line is real.
    total = acb.integral(integrand, -acb(reach), acb(reach), rel_tol=arb(2) ** -80,
                         eval_limit=10**5).real  # fmt: skip
    tail = 2 * (-arb(80)).exp() / reach
    return peak * (total + arb(0, tail)) / (2 * arb.pi())


COUPLED = [
    # mu, forced switch, factor floor, later bits, shift
    *itertools.product((1e-6, 1e-3, 0.7, 5.0), (1e-6, 0.3), (1e-5, 0.9999), (0,), (0.0,)),
    (0.3, 1e-4, 0.05, 1, 1e-2), (0.05, 0.4, 0.05, 3000, 1e-6), (3.0, 0.4, 0.999, 10**4, 1e-2),
    (1.0, 1e-3, 0.5, 10**6, 1e-7), (0.1, 0.2, 0.5, 10**9, 1e-5),
]  # fmt: skip


def coupled_pairs():
    """About 3 s: a contour integral in balls takes a tenth of a second."""
    flint.ctx.prec = 160
    for mu, p, w, later, shift in COUPLED:
        loss = coupled_bits.CoupledBits(
            draws=mu, forced_switch=p, factor_floor=w, later_bits=later, shift=shift
        )
        for delta in (0.05, 1e-8)[later > 0 :]:
            epsilon = loss.epsilon(delta)
            if epsilon < 300.0:
                found = loss.delta(epsilon)
                yield (
                    (epsilon, mu, p, w, later, shift),
                    found,
                    ball_coupled(epsilon, mu, p, w, later, shift),
                )


CURVES = {
    "gaussian": (gaussian_pairs, (gaussian, "_MARGIN", "_ARGUMENT")),
    "gaussian, solved": (gaussian_points, (gaussian, "_MARGIN", "_ARGUMENT")),
    "pure": (pure_pairs, (losses, "_FEW")),
    "bounded range": (bounded_pairs, (bounded_range, "_MARGIN", "_ROUNDING")),
    "Renyi": (renyi_pairs, (losses, "_MARGIN", "_TERM")),
    "coupled": (coupled_pairs, (coupled_bits, "_MARGIN", "_LOSS")),
}


@pytest.mark.parametrize("name", CURVES)
def test_no_curve_is_below_the_truth(name):
    pairs, _ = CURVES[name]
    assert list(below(pairs())) == []


@pytest.mark.parametrize("name", CURVES)
def test_without_its_margin_it_is(name, monkeypatch):
    pairs, (module, *margins) = CURVES[name]
    for margin in margins:
        monkeypatch.setattr(module, margin, 0.0)
    assert any(below(pairs()))
