"""Losses with kinks: laws against quadrature, and how often a draw looks at the losses.

Thresholds at p = 1e-8 and 6 standard errors; each comparison also rejects a wrong scale.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from tests.probes import probes
from tests.samplers import gibbs_reference as reference
from tests.samplers.gibbs_reference import draw
from tests.samplers.kinks import FlatKinks, Kinks, energy, records, sampler
from tests.samples import bound, distance

import dpoco
from dpoco.accounting import continuous_multiplicative_weights as comw
from dpoco.domains import Box, LpBall, Polytope, Simplex

ALARM = 1e-8
LOOKS = 5_000  # of one draw on a hundred records; the search for a mode alone took 7,000


def bodies(d: int) -> list:
    flat = [LpBall(d, 2.0, 0.5), Box(np.full(d, -0.3), np.full(d, 0.5))]
    if d == 1:
        return flat
    cut = np.vstack([np.eye(d), -np.eye(d), np.ones(d)])
    polytope = Polytope(cut, np.append(np.full(2 * d, 0.4), 0.6))
    return [*flat, Simplex(d, 1.0), LpBall(d, 1.0, 0.5), LpBall(d, 1.5, 0.5), polytope]


@pytest.mark.parametrize("loss", [Kinks, FlatKinks])
@pytest.mark.parametrize("kind", ["absolute", "hinge", "quantile"])
def test_no_draw_looks_at_the_losses_without_end(kind, loss):
    """Six sets, three shifts and four temperatures: all of a second and more."""
    for d in (1, 2, 5):
        for domain in bodies(d):
            for shift in (0.0, 0.5, 5.0):
                for signal in (0.3, 7.0, 300.0):
                    lam = 160.0
                    beta = lam * (signal / 100.0) ** 2
                    own = loss(kind, records(d, 100, shift))
                    made = sampler(domain, own, beta, lam, exact_only=False, tolerance=1e-3)
                    x = draw(made, 3, 1, d)[0]
                    assert domain.contains(x, tolerance=1e-9)
                    assert own.looks <= LOOKS


@pytest.mark.parametrize("kind", ["absolute", "quantile"])
@pytest.mark.parametrize("options", [{}, {"exact_only": False, "tolerance": 1e-3}])
def test_kinks_on_a_line_against_quadrature(kind, options):
    """Draws ask Python objects: a second."""
    domain, lam, n = Box([-0.3], [0.5]), 3.0, 8_000
    rows = np.random.default_rng(4).normal(0.5, 1.0, size=(40, 1))
    draws = draw(sampler(domain, Kinks(kind, rows), 1.5, lam, **options), 5, n, 1)[:, 0]

    def error(temper: float) -> float:
        x = np.linspace(-0.3, 0.5, 20_001)[:, None]
        log = -1.5 * temper * energy(kind, rows, lam, domain.center, x)
        density = np.exp(log - log.max())
        mass = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
        return distance(np.sort(draws), lambda at: np.interp(at, x[:, 0], mass / mass[-1]))

    assert error(1.0) < bound(n)
    assert error(1.3) > bound(n)


@pytest.mark.parametrize("shift", [0.5, 5.0])
@pytest.mark.parametrize("kind", ["absolute", "quantile"])
def test_kinks_in_the_plane_against_quadrature(kind, shift):
    """A sharp ridge across the disc: 400 x 400 points of quadrature take a second."""
    domain, rows, lam = LpBall(2, 2.0, 0.5), records(2, 100, shift), 166.0
    beta = lam * 0.07**2
    low = high = None
    for options, n in (({}, 8_000), ({"exact_only": False, "tolerance": 1e-3}, 800)):
        draws = draw(sampler(domain, Kinks(kind, rows), beta, lam, **options), 5, n, 2)
        if low is None:
            reach = 0.3 * np.ptp(draws, axis=0)
            low, high = draws.min(axis=0) - reach, draws.max(axis=0) + reach

            def log_density(x):
                value = -beta * energy(kind, rows, lam, domain.center, x)
                return np.where(np.sum(x**2, axis=1) <= 0.25, value, -np.inf)

            right, wrong = reference.cell_masses(log_density, low, high, 10, 40, 1.2)
        assert reference.fit(draws, low, high, right) > ALARM
        if not options:
            assert reference.fit(draws, low, high, wrong) < ALARM


def test_a_chain_takes_over_within_its_law():
    """Ridges in five dimensions at a corner of the box: rejection takes many tries, 2 s in all."""
    d, lam = 5, 100.0
    domain = Box(np.full(d, -0.3), np.full(d, 0.1))
    rows = records(d, 300, 3.0)
    rows[:, 1:] -= 0.3  # against the walls
    beta = lam * (20.0 / 300.0) ** 2
    exact = sampler(domain, Kinks("absolute", rows), beta, lam)
    truth = reference.moments(draw(exact, 6, 1_500, d))
    assert probes.gibbs_report(exact)["method"] == "envelope"
    hot = sampler(domain, Kinks("absolute", rows), 0.5 * beta, lam)
    other = reference.moments(draw(hot, 8, 1_500, d))
    for loss in (Kinks, FlatKinks):
        chain = sampler(domain, loss("absolute", rows), beta, lam, exact_only=False, tolerance=0.05)
        values = reference.moments(draw(chain, 7, 300, d))
        assert probes.gibbs_report(chain)["method"] == "hit_and_run"

        def apart(exact, values=values):
            error = np.hypot(exact.std(axis=0) / np.sqrt(1_500), values.std(axis=0) / np.sqrt(300))
            return (np.abs(values.mean(axis=0) - exact.mean(axis=0)) / error).max()

        assert apart(truth) < 6
        assert apart(other) > 6


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8, 1e14])
def test_one_kink_of_any_weight_is_a_laplace_law(scale):
    domain, n = Box([-0.3], [0.5]), 20_000 if scale == 1.0 else 4_000
    loss = Kinks("absolute", np.array([[1.0]]))
    made = sampler(domain, loss, scale, 1e-3)
    draws = np.sort(draw(made, 9, n, 1)[:, 0])
    assert loss.looks < 20 * n

    def cdf(x, own=scale):
        share = np.expm1(-own * np.abs(x - 0.1)) / np.expm1(-0.4 * own)
        return 0.5 + 0.5 * np.sign(x - 0.1) * share

    assert distance(draws, cdf) < bound(n)
    if scale >= 1.0:
        assert distance(draws, lambda x: cdf(x, 3.0 * scale)) > bound(n)


def test_the_mode_of_kinks_needs_no_hessian():
    for d in (1, 2, 6):
        for domain in bodies(d):
            rows = records(d, 60, 0.5)
            mode, gap = probes.gibbs_mode(sampler(domain, Kinks("absolute", rows), 1.0, 5.0))
            assert abs(gap) < 1e-6
            top = energy("absolute", rows, 5.0, domain.center, mode[None])[0]
            rng = np.random.default_rng(2)
            for size in (1e-1, 1e-3, 1e-5):
                near = mode + size * rng.normal(size=(200, d))
                near = np.array([domain.project(x) for x in near])
                assert energy("absolute", rows, 5.0, domain.center, near).min() > top - 1e-6


def test_the_public_bound_of_rejections_holds():
    """750 over the chance of the worst Lipschitz losses, and over what a law accepts."""
    far, drawn = np.geomspace(1e-9, 30.0, 100_001), 0
    for n in (2, 5):
        for budget in (0.1, 1.0, 30.0):
            loss, horizon = dpoco.losses.CustomLoss(1.0, 0.0), 100
            p = comw.calibrate(
                LpBall(n, 2.0, 0.5), loss, horizon=horizon, budget=dpoco.Budget(budget, 1e-6)
            )
            p, law = p.mechanism, p.mechanism.draw
            beta, lam = law.inverse_temperature, law.regularization
            c = 2.0 * p.losses.lipschitz * math.sqrt(beta / lam) * horizon
            density = scipy.stats.chi(n).pdf(far)
            accepted = scipy.integrate.trapezoid(density * np.exp(-c * far), far)
            _, proposals = comw.exact_work(p)
            assert min(750.0 / accepted, 1e18) <= proposals <= 2e4 / accepted
            if proposals > 1e7:  # more than a test has time for
                continue
            drawn += 1
            made = sampler(LpBall(n, 2.0, 0.5), Kinks("absolute", records(n, 100, 3.0)), beta, lam)
            draw(made, 3, 50, n)
            report = probes.gibbs_report(made)
            assert report["proposals"] / 50 < proposals / 750.0
    assert drawn == 2
    with pytest.raises(ValueError, match="may take"):
        comw.calibrate(
            LpBall(20, 2.0, 0.5), loss, horizon=10_000, budget=dpoco.Budget(1.0, 1e-6),
            sampler="exact",
        )  # fmt: skip


def test_weights_learn_from_values_and_subgradients():
    """The stream that did not end: records of unit length from shifted normals."""
    rows = records(2, 100, 0.5)
    for sampler_name in ("auto", "exact"):
        learner = dpoco.oco.ContinuousMultiplicativeWeights(
            LpBall(2, 2.0, 0.5), dpoco.losses.CustomLoss(1.0, 0.0), horizon=100,
            budget=dpoco.Budget(1.0, 1e-6), sampler=sampler_name,
            source=dpoco.random.Source.seeded(1),
        )  # fmt: skip
        losses = [Kinks("absolute", row[None]) for row in rows]
        for loss in losses:
            learner.decide()
            learner.observe(loss)
        assert learner.switches == learner.plan.mechanism.cap >= 3
        assert sum(loss.looks for loss in losses) < 100 * LOOKS
    leader = dpoco.oco.CoupledRegularizedLeader(
        LpBall(2, 2.0, 0.5), dpoco.losses.CustomLoss(1.0, 1.0), horizon=100, budget=None
    )
    leader.decide()
    with pytest.raises(TypeError, match="value, gradient and hessian"):
        leader.observe(losses[0])
