"""Gibbs laws on bodies in the plane against quadrature, with mass on the walls.

Thresholds at p = 1e-8; each comparison also rejects a wrong temperature.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.probes import probes
from tests.samplers import gibbs_reference as reference
from tests.samplers.gibbs_reference import CHAIN, draw, problem, sampler

from dpoco.domains import Box, LpBall, Polytope, Simplex

ALARM = 1e-8

# A triangle with a corner cut off.
ROWS = np.array([[-1.0, 0.2], [0.3, -1.0], [1.0, 1.0], [0.0, 1.0]])
LIMITS = np.array([0.9, 0.9, 0.8, 0.6])
CUT = Polytope(ROWS, LIMITS)
UNIT = ([-1.0, -1.0], [1.0, 1.0])
# Body, a rectangle around it (of its first two coordinates), membership.
PLANE = {
    "ball": (LpBall(2, 2.0, 1.0), UNIT, lambda x: np.sum(x**2, 1) <= 1),
    "box": (Box([-0.6, -1.0], [0.4, 0.2]), ([-0.6, -1.0], [0.4, 0.2]), lambda x: x[:, 0] < 1),
    "diamond": (LpBall(2, 1.0, 1.0), UNIT, lambda x: np.abs(x).sum(1) <= 1),
    "p3": (LpBall(2, 3.0, 1.0), UNIT, lambda x: (np.abs(x) ** 3).sum(1) <= 1),
    "polytope": (CUT, CUT.bounding_box, lambda x: np.all(x @ ROWS.T <= LIMITS, axis=1)),
    "simplex": (Simplex(3, 1.0), ([0.0, 0.0], [1.0, 1.0]), lambda x: x.sum(1) <= 1),
}


@pytest.mark.parametrize("kind", ["logistic", "huber", "squared"])
@pytest.mark.parametrize("body", PLANE)
def test_plane_bodies_against_quadrature(body, kind):
    domain, (low, high), inside = PLANE[body]
    d = domain.dimension
    beta, lam = 0.6, 0.5
    rows, labels = problem(kind, d, 30, 0.4)
    centre = domain.center

    def log_density(x):
        full = np.column_stack([x, 1 - x.sum(1)]) if body == "simplex" else x
        value = -beta * reference.energy(kind, rows, labels, lam, centre, full)
        return np.where(inside(x), value, -np.inf)

    # 8 cells a side; on curved walls the midpoint rule is off by about 1/(fine cells)^1.5.
    masses, wrong = reference.cell_masses(log_density, low, high, 8, 24, 1.15)
    for options, n in (({}, 40_000), (CHAIN, 1_000)):
        # Walls and losses meet in no line of a chain: each body once, and each loss.
        if options and kind != "logistic" and body != "ball":
            continue
        gibbs = sampler(domain, kind, rows, labels, beta, lam, **options)
        draws = draw(gibbs, 11, n, d)
        method = probes.gibbs_report(gibbs)["method"]
        assert method == ("hit_and_run" if options else "envelope")
        assert all(domain.contains(x, tolerance=1e-12) for x in draws[:100])
        assert reference.fit(draws, low, high, masses) > ALARM
        if not options:
            assert reference.fit(draws, low, high, wrong) < ALARM


def curvatures(kind, margins, labels):
    """Second derivatives of the losses."""
    if kind == "logistic":
        return np.exp(-np.abs(margins)) / (1.0 + np.exp(-np.abs(margins))) ** 2
    if kind == "squared":
        return np.full(np.shape(margins), 2.0)
    return (np.abs(margins - labels) <= reference.THRESHOLD).astype(float)


SKEW = Box([-1.0, 0.0], [0.5, 2.0])


@pytest.mark.parametrize(
    ("domain", "kind", "push", "lam", "path"),
    [
        (SKEW, "squared", (2.0, -2.5), 0.5, "flat"),
        (SKEW, "logistic", (2.0, -2.5), 0.02, "flat"),
        (SKEW, "huber", (2.0, -2.5), 5.0, "flat"),
        (LpBall(2, 2.0, 0.8), "squared", (-3.0, 2.0), 0.5, "flat"),
        (LpBall(2, 2.0, 0.8), "logistic", (-3.0, 2.0), 0.02, "flat"),
        (SKEW, "logistic", (0.0, 0.0), 0.02, "matrix"),
        (LpBall(2, 2.0, 0.8), "logistic", (0.0, 0.0), 0.02, "matrix"),
    ],
)
def test_envelopes_have_the_curvature_that_is_sure(domain, kind, push, lam, path):
    """Losses far steeper along one axis: the law, and how many proposals it takes.

    Curvature beyond the least one in the domain would change the law; less of it, or a mean or a
    spread that do not belong to it, would change the share that is accepted.
    """
    beta, n, low_high = 1.5, 8_000, (SKEW.lower, SKEW.upper)
    if isinstance(domain, LpBall):
        low_high = (np.full(2, -0.8), np.full(2, 0.8))
    rng = np.random.default_rng(8)
    count = 8 if path == "flat" else 24
    rows = rng.normal(size=(count, 2)) * [2.0, 0.4] + [0.0, 0.2]
    labels = (rng.random(count) < 0.5).astype(float)
    if any(push):  # records that pull towards a wall
        rows = np.vstack([rows, np.tile(np.array(push) / 8.0, (60, 1))])
        labels = np.append(labels, np.full(60, 0.0 if kind == "logistic" else -2.0))
    gibbs = sampler(domain, kind, rows, labels, beta, lam)
    draws = draw(gibbs, 17, n, 2)
    report, centre = probes.gibbs_report(gibbs), domain.center
    mode, _ = probes.gibbs_mode(gibbs)

    # The least curvature of every loss, from the ends of its margins over the domain.
    if isinstance(domain, LpBall):
        half = 0.8 * np.linalg.norm(rows, axis=1)
    else:
        half = np.abs(rows) @ (0.5 * (SKEW.upper - SKEW.lower))
    at = rows @ centre
    least = np.minimum(*(curvatures(kind, at + s * half, labels) for s in (-1.0, 1.0)))
    matrix = (rows * least[:, None]).T @ rows
    hessian = (rows * curvatures(kind, rows @ mode, labels)[:, None]).T @ rows
    sure = np.linalg.eigvalsh(matrix)[0] * np.eye(2) if path == "flat" else matrix
    predicted = np.linalg.det(sure + lam * np.eye(2)) / np.linalg.det(hessian + lam * np.eye(2))
    if path == "flat":
        assert report["predicted_acceptance"] == pytest.approx(math.sqrt(predicted), rel=1e-6)
    else:
        assert report["predicted_acceptance"] < math.sqrt(predicted)

    slope = reference.gradient(kind, rows, labels, mode)
    height = reference.loss_sum(kind, rows, labels, mode[None])[0]

    def inside(x):
        return np.sum(x**2, 1) <= 0.64 if isinstance(domain, LpBall) else x[:, 0] < 9.0

    def below(x):  # the tangent paraboloid
        h = x - mode
        return height + h @ slope + 0.5 * np.einsum("ij,jk,ik->i", h, sure, h)

    def mass(function, low, high):
        """Integral of exp(-beta (function + regulariser + shift))."""
        cells = [
            np.linspace(a, b, 301)[:-1] + (b - a) / 600 for a, b in zip(low, high, strict=True)
        ]
        grid = np.stack(np.meshgrid(*cells, indexing="ij"), axis=-1).reshape(-1, 2)
        value = function(grid) - height + 0.5 * lam * np.sum((grid - centre) ** 2, axis=1)
        within = inside(grid) if path == "flat" or function is not below else True
        return float(np.sum(np.where(within, np.exp(-beta * value), 0.0))) * np.prod(
            [(b - a) / 300 for a, b in zip(low, high, strict=True)]
        )

    target = mass(lambda x: reference.loss_sum(kind, rows, labels, x), *low_high)
    if path == "flat":
        proposed = mass(below, *low_high)
    else:  # over the plane, in closed form
        precision = beta * (sure + lam * np.eye(2))
        tilt = beta * (slope + lam * (mode - centre))
        top = -0.5 * beta * lam * np.sum((mode - centre) ** 2)
        top += 0.5 * tilt @ np.linalg.solve(precision, tilt)
        proposed = math.exp(top) * 2.0 * math.pi / math.sqrt(np.linalg.det(precision))
    share = target / proposed
    tries = report["proposals"] / n
    assert abs(tries * share - 1.0) < 6.0 * math.sqrt((1.0 - share) / n) + 2e-3
    assert 0.01 < share < 0.95

    def log_density(x):
        value = -beta * reference.energy(kind, rows, labels, lam, centre, x)
        return np.where(inside(x), value, -np.inf)

    masses, wrong = reference.cell_masses(log_density, *low_high, 10, 20, 1.3)
    assert reference.fit(draws, *low_high, masses) > ALARM
    assert reference.fit(draws, *low_high, wrong) < ALARM
