"""Nets in the plane that are not square: sides, counts and spacings differ, axes may not change.

Everything is counted again from the net's points: edges and parents with their lengths, the
farthest point of a cell, and covariances of the noise by dense linear algebra
(``docs/privacy/lipschitz.md``).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy

import dpoco
from dpoco.accounting.nets import discretisation, net_shape, noise_field
from dpoco.domains import Box, LpBall, Polytope, Simplex
from dpoco.oco import LipschitzLearner
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

WEDGE = Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 4.0]], [0.0, 0.0, 2.0])
PLANES = [
    (Box([0.0, -1.0], [2.0, -0.5]), (7, 12), "grid_laplacian"),
    (Box([0.0, -1.0], [2.0, -0.5]), (12, 7), "grid_laplacian"),
    (Box([0.0, 4.0, -1.0], [0.25, 4.0, 2.0]), (4, 9), "grid_laplacian"),  # flat in between
    (WEDGE, (5, 8), "grid_laplacian"),
    (Box([0.0, 0.0], [2.0, 0.5]), (9, 9), "parent"),
    (WEDGE, (5, 5), "parent"),
]
G = 1.5


def links(counts, transform):
    """Return the pairs of net points, row-major, whose difference is an entry of a loss."""
    places = list(itertools.product(*map(range, counts)))
    at = {place: k for k, place in enumerate(places)}
    if transform == "parent":
        pairs = []
        for i, j in places[1:]:
            bit = 1
            while not (i // bit % 2 or j // bit % 2):
                bit *= 2
            pairs.append((at[i - i // bit % 2 * bit, j - j // bit % 2 * bit], at[i, j]))
        return np.array(pairs)
    steps = [((i + 1, j), (i, j + 1)) for i, j in places]
    return np.array(
        [(at[p], at[q]) for p, ends in zip(places, steps, strict=True) for q in ends if q in at]
    )


@pytest.mark.parametrize(("domain", "counts", "transform"), PLANES)
def test_limits_and_sensitivity_are_those_of_every_link(domain, counts, transform):
    learner = LipschitzLearner(
        domain, lipschitz=G, horizon=9, budget=dpoco.Budget(1.0, 1e-6), resolution=counts,
        transform=transform, source=Source.seeded(1),
    )  # fmt: skip
    net, engine, pairs = learner.net, learner._engine, links(counts, transform)
    lengths = np.linalg.norm(net[pairs[:, 1]] - net[pairs[:, 0]], axis=1)
    declared = learner.guarantee.sensitivity
    exact = 2.0 * G * np.linalg.norm(lengths)
    assert exact <= declared <= exact * (1.0 + 1e-6)

    def entries(values):
        return np.array(engine.leaf(np.ascontiguousarray(values)))

    rng = np.random.default_rng(2)
    for _ in range(20):
        # What is Lipschitz is left alone: the energy is that of its differences.
        slope = rng.normal(size=net.shape[1])
        honest = net @ (G * slope / np.linalg.norm(slope))
        gaps = honest[pairs[:, 1]] - honest[pairs[:, 0]]
        assert np.linalg.norm(entries(honest)) == pytest.approx(np.linalg.norm(gaps), rel=1e-12)
        # Nothing moves the entries farther than the sensitivity, whatever it is.
        wild = [rng.standard_cauchy(len(net)) * 10.0 ** rng.uniform(-2, 6) for _ in range(2)]
        assert np.linalg.norm(entries(wild[0]) - entries(wild[1])) <= declared
    # Along each axis by itself a slope ends at G, and no sooner.
    for axis in np.flatnonzero(np.ptp(net, axis=0)):
        along = net[:, axis] - net[0, axis]
        full = entries(G * along)
        least = 1e-12 * np.abs(full).max()
        for steeper in (1.001, 40.0):
            cut = entries(G * steeper * along)
            if transform == "parent":  # whose limits are lengths, not extents along an axis
                extents = np.abs(along[pairs[:, 1]] - along[pairs[:, 0]])
                cut_off = np.minimum(steeper * extents, lengths)
                assert np.allclose(np.abs(cut), G * cut_off, rtol=1e-12, atol=least)
            else:
                assert np.allclose(cut, full, rtol=0.0, atol=10.0 * least)
        assert np.allclose(entries(0.999 * G * along), 0.999 * full, rtol=0.0, atol=10.0 * least)


@pytest.mark.parametrize(("domain", "counts", "transform"), PLANES)
def test_cells_are_as_wide_as_their_farthest_point(domain, counts, transform):
    shape = net_shape(domain)
    steps = [side / (n - 1) for side, n in zip(shape.sides, counts, strict=True)]
    inside = np.stack(np.meshgrid(*(np.linspace(0, h, 41) for h in steps)), axis=-1).reshape(-1, 2)
    corners = np.array(list(itertools.product(*((0.0, h) for h in steps))))
    nearest = np.linalg.norm(inside[:, None] - corners[None], axis=2).min(axis=1)
    assert discretisation(shape, counts, G) == pytest.approx(G * nearest.max(), rel=1e-12)


@pytest.mark.parametrize(
    ("domain", "sides", "diameter"),
    [
        (Box([0.0, 4.0, -1.0], [0.25, 4.0, 2.0]), (0.25, 3.0), math.hypot(0.25, 3.0)),
        (LpBall(2, 1.0, 2.0), (4.0, 4.0), 4.0),
        (LpBall(2, 2.0, 2.0), (4.0, 4.0), 4.0),
        (LpBall(2, math.inf, 2.0), (4.0, 4.0), math.sqrt(32.0)),
        (WEDGE, (2.0, 0.5), math.hypot(2.0, 0.5)),
        (Simplex(2, 3.0), (3.0 * math.sqrt(2.0),), 3.0 * math.sqrt(2.0)),
        (Box([1.0], [4.0]), (3.0,), 3.0),
    ],
)
def test_shapes(domain, sides, diameter):
    shape = net_shape(domain)
    assert shape.sides == pytest.approx(sides, rel=1e-9)
    assert shape.diameter == pytest.approx(diameter, rel=1e-9)


@pytest.mark.parametrize("counts", [(2, 7), (7, 2), (5, 8), (9, 4), (6, 6)])
def test_constants_of_the_noise_from_dense_covariances(counts):
    pairs = links(counts, "grid_laplacian")
    total = math.prod(counts)
    incidence = np.zeros((len(pairs), total))
    incidence[np.arange(len(pairs)), pairs[:, 0]] = -1.0
    incidence[np.arange(len(pairs)), pairs[:, 1]] = 1.0
    covariance = np.linalg.pinv(incidence.T @ incidence, 1e-12)
    ends = [0, counts[1] - 1, total - counts[1], total - 1]
    corner = covariance[:, ends].mean(axis=1)
    own = float(corner[ends].mean())

    def from_share(share):
        """Variances from the point that far from the field's mean to that of its corners."""
        return np.diag(covariance) - 2.0 * share * corner + share**2 * own

    def largest(variances):
        def bound(log_b):
            b = math.exp(log_b)
            top = variances.max()
            return (0.5 * b * b * top + math.log(np.exp(0.5 * b * b * (variances - top)).sum())) / b

        return scipy.optimize.minimize_scalar(bound, bounds=(-3.0, 4.0), method="bounded").fun

    found = noise_field("grid_laplacian", counts)
    radius = math.sqrt(min(from_share(0.0).max(), from_share(1.0).max()))
    maximum = min(largest(from_share(0.0)), largest(from_share(0.3)))
    assert found.radius == pytest.approx(radius, rel=1e-9)
    assert maximum * (1.0 - 1e-9) <= found.maximum <= 1.003 * maximum
    draws = np.random.default_rng(1).multivariate_normal(np.zeros(total), covariance, 4000)
    assert draws.max(axis=1).mean() < found.maximum
