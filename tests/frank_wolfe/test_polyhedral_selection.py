"""The law of a private selection: chi-square against softmax and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from tests.probes import probes

from dpoco import _core
from dpoco.domains import Box, LpBall, Polytope, Simplex, VertexSet

from . import polyhedral_reference as reference

RNG = np.random.default_rng(2)
DOMAINS = {
    "ball": LpBall(3, 1.0, 2.0),
    "wide ball": LpBall(150, 1.0, 2.0),  # several blocks, the last one short
    "simplex": Simplex(5, 0.5),
    "wide simplex": Simplex(130),
    "box": Box([-1.0, 0.0, 0.5], [1.0, 2.0, 0.5]),
    "list": VertexSet(RNG.normal(size=(7, 3))),
    "long list": VertexSet(RNG.normal(size=(200, 4))),
}


def source(seed=1):
    return _core.Source(bytes([seed] * 32), 0)


def selector_on(domain, selector="gumbel"):
    return probes.VertexSelection(domain._engine, selector == "gumbel")


def frequencies(domain, selector, direction, rate, draws, seed=1):
    selection, stream = selector_on(domain, selector), source(seed)
    points = reference.vertices_of(domain)
    index = {point.tobytes(): j for j, point in reversed(list(enumerate(points + 0.0)))}
    counts = np.zeros(len(points))
    for _ in range(draws):
        counts[index[(selection.select(direction, rate, stream) + 0.0).tobytes()]] += 1
    return counts


def excess(counts, chances):
    """Chi-square statistic over its 1e-7 quantile; rare vertices are taken together."""
    draws = counts.sum()
    order = np.argsort(chances)
    counts, expected = counts[order], chances[order] * draws
    rare = int(np.searchsorted(expected.cumsum(), 10.0)) + 1
    counts = np.concatenate([[counts[:rare].sum()], counts[rare:]])
    expected = np.concatenate([[expected[:rare].sum()], expected[rare:]])
    statistic = ((counts - expected) ** 2 / expected).sum()
    return statistic / scipy.stats.chi2.isf(1e-7, max(len(expected) - 1, 1))


@pytest.mark.parametrize("selector", ["gumbel", "laplace"])
@pytest.mark.parametrize("name", DOMAINS)
def test_law(name, selector):
    domain = DOMAINS[name]
    direction = np.random.default_rng(7).normal(size=domain.dimension)
    rate = 1.6 if domain.dimension < 100 else 2.0
    if isinstance(domain, Simplex):
        rate /= domain.scale
    counts = frequencies(domain, selector, direction, rate, 30_000)
    unique = reference.law(domain, selector, direction, 1.0 / rate)
    if isinstance(domain, Box):  # a side of length 0 makes equal vertices
        unique = np.repeat(unique.reshape(-1, 2).sum(axis=1), 2) * (np.arange(unique.size) % 2 == 0)
        keep = np.arange(unique.size) % 2 == 0
        counts, unique = counts[keep], unique[keep]
    assert excess(counts, unique) < 1.0
    for factor in (0.8, 1.25, -1.0):  # also argmax for argmin
        wrong = reference.law(domain, selector, factor * direction, 1.0 / rate)
        if isinstance(domain, Box):
            wrong = wrong.reshape(-1, 2).sum(axis=1)
        assert excess(counts, wrong) > 1.0


def test_selection_with_no_direction_is_uniform():
    for name in ("wide ball", "simplex", "list"):
        domain = DOMAINS[name]
        counts = frequencies(domain, "gumbel", np.zeros(domain.dimension), 3.0, 20_000)
        assert excess(counts, np.full(len(counts), 1.0 / len(counts))) < 1.0


@pytest.mark.parametrize("selector", ["gumbel", "laplace"])
def test_strong_directions_find_the_minimum(selector):
    for domain in DOMAINS.values():
        direction = np.random.default_rng(7).normal(size=domain.dimension)
        selection, stream = selector_on(domain, selector), source()
        want = domain.minimize_linear(direction)
        for rate in (1e8, 1e100):
            vertex = selection.select(direction, rate, stream)
            assert direction @ vertex == pytest.approx(direction @ want, abs=1e-4)


def test_selected_points_are_vertices_and_draws_do_not_depend_on_scores():
    for domain in DOMAINS.values():
        points = {(point + 0.0).tobytes() for point in reference.vertices_of(domain)}
        for selector in ("gumbel", "laplace"):
            after = set()
            for scale in (0.0, 1.0, 1e5, -1e5):
                selection, stream = (
                    selector_on(domain, selector),
                    source(3),
                )
                direction = scale * np.random.default_rng(1).normal(size=domain.dimension)
                for _ in range(20):
                    vertex = selection.select(direction, 1.0, stream)
                    assert (vertex + 0.0).tobytes() in points
                # The next variates of the same source tell how many were drawn.
                other = selector_on(LpBall(2, 1.0), selector)
                line = [other.select(np.zeros(2), 1.0, stream).tobytes() for _ in range(40)]
                after.add(tuple(line))
            assert len(after) == 1


def test_other_sets_and_sizes_are_refused():
    for domain in (LpBall(2, 2.0), Polytope([[1.0], [-1.0]], [1.0, 1.0])):
        with pytest.raises(ValueError, match="l_1 ball"):
            selector_on(domain)
    with pytest.raises(ValueError, match="direction"):
        selector_on(LpBall(2, 1.0)).select(np.zeros(3), 1.0, source())
