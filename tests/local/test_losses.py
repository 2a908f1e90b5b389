"""Centred mixed log-losses: published numbers, the bound on their range, impossible labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_cases import FA, FB, FC

from dpoco.local import _bounds
from dpoco.local._bounds import loss_diameter, loss_ranges, losses


def reference(matrix, mixing):
    mixed = (1 - mixing) * matrix + mixing * matrix.mean(axis=0)
    with np.errstate(divide="ignore"):
        surprise = -np.log(mixed)
    with np.errstate(invalid="ignore"):
        u = surprise - (surprise.max(axis=0) + surprise.min(axis=0)) / 2
    return np.where(matrix.sum(axis=0) > 0, u, 0.0)


def test_vectors():
    row = [0.604155602962267, 0.181982688600706, -0.181982688600706, -0.604155602962267]
    last = [-0.172373186536729, -0.016468250123132, -0.016468250123132, -0.172373186536729]
    expected = np.array([row, [-v for v in row], last])
    np.testing.assert_allclose(losses(FA, 0.1), expected, rtol=0, atol=1e-12)
    assert loss_diameter(3, 0.1) == pytest.approx(3.332204510175204, abs=1e-12)


@pytest.mark.parametrize("mixing", [1e-9, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("matrix", [FA, FB, FC], ids="ABC")
def test_against_numpy(matrix, mixing):
    np.testing.assert_allclose(losses(matrix, mixing), reference(matrix, mixing), atol=1e-12)
    for y in range(matrix.shape[1]):
        np.testing.assert_array_equal(
            losses(matrix[:, y : y + 1], mixing)[:, 0], losses(matrix, mixing)[:, y]
        )


@given(st.integers(1, 12), st.integers(1, 300), st.floats(1e-6, 1.0), st.integers(0, 2**32 - 1))
def test_range_is_within_the_diameter(count, labels, mixing, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.full(labels, 0.05), size=count)
    matrix[:, rng.integers(labels)] = 0.0
    u = losses(matrix, mixing)
    assert np.abs(u).max() <= 0.5 * loss_diameter(count, mixing) + 1e-12
    middle, half = loss_ranges(matrix, mixing)
    possible = matrix.sum(axis=0) > 1e-280
    if possible.any():
        np.testing.assert_allclose(middle + half, u[:, possible].max(axis=1), atol=2e-12)
        np.testing.assert_allclose(middle - half, u[:, possible].min(axis=1), atol=2e-12)
    assert (half >= 1e-12).all()


def test_diameter_is_attained():
    matrix = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert np.abs(losses(matrix, 0.1)).max() == pytest.approx(loss_diameter(3, 0.1) / 2, rel=1e-12)


def test_impossible_labels_are_left_out():
    # The first hypothesis loses on both labels that can occur: 0 is outside its range.
    matrix = np.array([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0], [0.9, 0.1, 0.0]])
    u = losses(matrix, 0.05)
    np.testing.assert_array_equal(u[:, 2], np.zeros(3))
    middle, half = loss_ranges(matrix, 0.05)
    assert half[0] < abs(middle[0])
    np.testing.assert_array_equal(losses(np.zeros((2, 1)), 0.05), np.zeros((2, 1)))


def test_full_mixing_leaves_nothing():
    assert np.abs(losses(FC, 1.0)).max() < 1e-15
    assert loss_diameter(4, 1.0) == 0.0


@pytest.mark.parametrize("mixing", [0.0, -0.1, 1.1, math.nan])
def test_mixing_is_checked(mixing):
    with pytest.raises(ValueError, match="mixing must be in"):
        losses(FA, mixing)


def test_the_store_is_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(_bounds, "_KEPT_BYTES", 100_000)
    built = []
    for i in range(100):
        matrix = np.full((10, 10), float(i))
        matrix.flags.writeable = False
        _bounds.reuse(matrix, "test", lambda i=i: (built.append(i),))
        _bounds.reuse(matrix, "test", lambda i=i: (built.append(i),))
    assert built == list(range(100))
    assert _bounds._held[0] <= 100_000
    assert _bounds._held[0] == sum(entry[2] for entry in _bounds._store.values())
