"""Gibbs laws on bodies in the plane against quadrature, with mass on the walls.

Thresholds at p = 1e-8; each comparison also rejects a wrong temperature.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from dpoco.domains import Box, LpBall, Polytope, Simplex

_spec = importlib.util.spec_from_file_location(
    "gibbs_reference", Path(__file__).with_name("gibbs_reference.py")
)
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

ALARM = 1e-8
CHAIN = reference.CHAIN
draw = reference.draw
problem = reference.problem
sampler = reference.sampler

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

    def log_density(x, temper=1.0):
        full = np.column_stack([x, 1 - x.sum(1)]) if body == "simplex" else x
        value = -beta * temper * reference.energy(kind, rows, labels, lam, centre, full)
        return np.where(inside(x), value, -np.inf)

    # 8 cells a side; on curved walls the midpoint rule is off by about 1/(fine cells)^1.5.
    masses = reference.cell_masses(log_density, low, high, 8, 40)
    wrong = reference.cell_masses(lambda x: log_density(x, 1.15), low, high, 8, 40)
    for options, n in (({}, 40_000), (CHAIN, 1_000)):
        gibbs = sampler(domain, kind, rows, labels, beta, lam, **options)
        draws = draw(gibbs, 11, n, d)
        method = gibbs.nonprivate_report()["method"]
        assert method == ("hit_and_run" if options else "envelope")
        assert all(domain.contains(x, tolerance=1e-12) for x in draws[:100])
        assert reference.fit(draws, low, high, masses) > ALARM
        if not options:
            assert reference.fit(draws, low, high, wrong) < ALARM
