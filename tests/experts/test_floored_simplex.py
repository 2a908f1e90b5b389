"""The relative-entropy projection onto {sum w = 1, w >= floor}."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.probes import probes

EXAMPLE = np.log([0.5, 0.3, 0.15, 0.04, 0.01])


def project(log_v, floor):
    return probes.project_floored_simplex(log_v, floor)


def test_examples():
    np.testing.assert_allclose(
        project(EXAMPLE, 0.05),
        [0.47368421, 0.28421053, 0.14210526, 0.05, 0.05], atol=5e-9,
    )  # fmt: skip
    np.testing.assert_allclose(
        project(EXAMPLE, 0.15),
        [0.34375, 0.20625, 0.15, 0.15, 0.15],
        atol=1e-15,
    )
    np.testing.assert_allclose(project(EXAMPLE, 0.2), np.full(5, 0.2), atol=1e-15)
    np.testing.assert_allclose(project(EXAMPLE, 0.0), np.exp(EXAMPLE), rtol=1e-14)
    assert project(np.array([-3.0]), 1.0) == [1.0]
    # Not the same as flooring and normalising.
    naive = np.maximum(np.exp(EXAMPLE), 0.15)
    assert np.abs(naive / naive.sum() - project(EXAMPLE, 0.15)).max() > 0.02


def check_optimality(log_v, floor, w):
    """KKT: feasible; log(w / v) is one constant above the floor, and larger at it."""
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.all(w >= floor)
    above = w > floor
    if not above.any():
        return
    multiplier = np.log(w[above]) - log_v[above]
    np.testing.assert_allclose(multiplier, multiplier[0], atol=1e-9)
    at = ~above & np.isfinite(log_v)
    if floor > 0.0:
        assert np.all(np.log(floor) - log_v[at] >= multiplier[0] - 1e-9)


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.floats(-60.0, 0.0), min_size=1, max_size=40),
    share=st.floats(0.0, 1.0),
    shift=st.floats(-1e3, 1e3),
)
def test_conditions_of_optimality(values, share, shift):
    log_v = np.array(values)
    floor = share / len(values)
    if floor * len(values) > 1.0:
        floor = np.nextafter(floor, 0.0)
    w = project(log_v, floor)
    check_optimality(log_v, floor, w)
    np.testing.assert_allclose(project(log_v + shift, floor), w, rtol=1e-9)
    order = np.random.default_rng(0).permutation(len(values))
    np.testing.assert_allclose(project(log_v[order], floor), w[order], rtol=1e-12)
    np.testing.assert_allclose(project(np.log(w), floor), w, rtol=1e-9)


def test_extreme_weights():
    log_v = np.array([0.0, -1e4, -np.inf, 700.0, 699.0])
    w = project(log_v, 1e-9)
    check_optimality(log_v, 1e-9, w)
    assert w[3] / w[4] == pytest.approx(np.e, rel=1e-9)
    # Every pass floors one more entry: the worst case still ends.
    n = 300
    log_v = -np.arange(n) * 0.05
    for floor in (0.5 / n, 0.9 / n, 1.0 / n):
        check_optimality(log_v, floor, project(log_v, floor))
