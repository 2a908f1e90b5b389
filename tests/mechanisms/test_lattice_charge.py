"""What a lattice charges, term by term from ``docs/privacy/lattice.md``, where each term tells."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import dpoco
from dpoco.accounting.continual_sum import blt_parameters, column_norm, factorisation
from dpoco.accounting.release import on_lattice
from dpoco.mechanisms import ContinualSum
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

# Sum, number of sums, dimension, sensitivity over noise scale, rounds a batch.
CASES = [
    ("tree", 5, 10**6, 1e-3, 1),
    ("tree", 1, 10**6, 1e-3, 3),
    ("tree", 40, 4 * 10**6, 3e-3, 1),
    ("tree", 40, 5, 1e-3, 10**6),
    ("tree", 3, 5, 1e-3, 2 * 10**6),
    ("toeplitz", 200, 3 * 10**5, 1e-3, 1),
    ("toeplitz", 1000, 10**4, 2e-3, 10**5),
    ("blt", 1000, 10**6, 1e-3, 1),
    ("blt", 10**6, 10**4, 1e-3, 1),
    ("blt", 10**6, 10**4, 1e-2, 10**5),
    ("blt", 10**9, 10**3, 30.0, 1),  # a coarser grid
    ("tree", 10**9, 10**6, 20.0, 7),
]


def finest(pushes, reach, scale, batch):
    """Return the finest grid that cannot overflow, and its bits below the scale; None for none."""
    exponent = math.frexp(scale)[1] - 1
    for bits in range(28, 15, -1):
        grid = Fraction(2) ** (exponent - bits)
        limit = math.ceil(batch * Fraction(reach) * (1 + Fraction(1, 2**20)) / grid) + 1
        if limit <= 2**50 and limit * pushes <= 2**61:
            return grid, bits
    return None


def terms(method, pushes, dimension, reach, scale, batch):
    """Return what mu times the scale is the sum of: the reach, three kinds of rounding, memory."""
    exponent = math.frexp(scale)[1] - 1
    grid, bits = finest(pushes, reach, scale, batch)
    column, entries = column_norm(method, pushes), math.sqrt(pushes * dimension)
    found = {
        "reach": column * reach,
        "leaves": column * math.sqrt(dimension) * float(grid),
        "batch": column * reach * batch * (batch + 1) * 2.0**-53 if batch > 1 else 0.0,
        "path": 0.0,
        "memory": 0.0,
    }
    if method == "toeplitz":
        found["path"] = 8.0 * entries * float(grid)
    if method == "blt":
        shipped = blt_parameters(pushes)
        held = sum(
            w * min(1.0 / s, pushes) for w, s in zip(shipped.weights, shipped.decay, strict=True)
        )
        found["path"] = entries * (1.0 + 2.0**-10) * float(grid)
        found["memory"] = entries * 1.25 * 2.0 ** (exponent - 43) * held
    return found, bits


@pytest.mark.parametrize("scale", [1.0, 777.0, 3e-5])
def test_every_rounding_is_charged(scale):
    largest, used = {}, set()
    for method, pushes, dimension, ratio, batch in CASES:
        reach = ratio * scale
        found, bits = terms(method, pushes, dimension, reach, scale, batch)
        exact = sum(found.values())
        near, vector = Neighbours("zero_out"), ClippedVector(dimension, 2.0, reach, math.inf)
        total = GaussianSum(vector, factorisation(method, pushes), pushes, batch)
        mu = on_lattice(total, near, scale).loss(near).ideal.mu
        assert exact * (1.0 - 1e-14) <= mu * scale <= exact * (1.0 + 1e-12)
        used.add(bits)
        for name, value in found.items():
            largest[name] = max(largest.get(name, 0.0), value / exact)
    assert min(largest.values()) > 1e-4, "a term that no case tells"
    assert 28 in used
    assert min(used) < 28


@pytest.mark.parametrize("scale", [1.0, 777.0])
@pytest.mark.parametrize(("pushes", "batch"), [(1, 1), (1, 1000), (2**30, 1), (10**9, 7)])
def test_grids_are_as_fine_as_no_overflow_allows(pushes, batch, scale):
    """Just below and above every power of two at which a grid gives out, down to none at all."""
    seen = set()
    for power in range(-4, 40):
        for side in (1.0 - 2.0**-18, 1.0 - 2.0**-21, 1.0, 1.0 + 2.0**-18):
            reach = scale * side * 2.0**power / batch
            found = finest(pushes, reach, scale, batch)
            vector = ClippedVector(1, 2.0, reach, math.inf)
            total = GaussianSum(vector, Tree(), pushes=pushes, batch=batch)
            seen.add(found and found[1])
            if found is None:
                with pytest.raises(dpoco.CalibrationError):
                    on_lattice(total, Neighbours("zero_out"), scale)
            else:
                assert on_lattice(total, Neighbours("zero_out"), scale).grid == found[0]
    assert seen >= {None, 16, 17, 22}


@pytest.mark.parametrize("method", ["tree", "toeplitz", "blt"])
@pytest.mark.parametrize(("pushes", "dimension"), [(1, 3), (7, 5), (8, 2), (23, 4)])
def test_every_draw_and_buffer_is_charged(method, pushes, dimension):
    """A draw for each sum; each has five buffers at most."""
    total = ContinualSum(
        dimension, horizon=pushes, budget=dpoco.Budget(1.0, 1e-6), method=method,
        numerics="lattice", bound=0.5, source=Source.seeded(3),
    )  # fmt: skip
    p, g = total.plan.mechanism, total.guarantee
    found, _ = terms(method, pushes, dimension, 1.0, p.scale, 1)
    assert g.mu == pytest.approx(sum(found.values()) / p.scale, rel=1e-12)
    assert g.truncation_mass / (6.0 * 2.0**-100) / dimension == pushes
