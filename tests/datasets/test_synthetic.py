from __future__ import annotations

import numpy as np
import pytest

from dpoco.datasets import linear_regression_stream


@pytest.mark.parametrize(("p", "q"), [(1.0, np.inf), (1.5, 3.0), (2.0, 2.0), (np.inf, 1.0)])
@pytest.mark.parametrize("target", ["dense", "sparse5", "gaussian"])
def test_norms(p, q, target):
    made = linear_regression_stream(50, 8, p, seed=1, target=target)
    np.testing.assert_allclose(np.linalg.norm(made.features, ord=q, axis=1), 1.0, rtol=1e-12)
    assert np.linalg.norm(made.target, ord=p) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("p", "dimension", "power"),
    [
        (1.5, 5, 0.162), (1.5, 10, 0.078), (1.5, 20, 0.038),
        (np.inf, 5, 0.293), (np.inf, 10, 0.152), (np.inf, 20, 0.077),
    ],
)  # fmt: skip
def test_signal_power_of_the_published_experiment(p, dimension, power):
    # E <x, theta>^2 implied by the published table; its standard error here is below 1 %.
    made = linear_regression_stream(40_000, dimension, p, seed=0, noise=0.0)
    assert float(np.mean(made.labels**2)) == pytest.approx(power, rel=0.05)


def test_noise_is_what_was_asked():
    made = linear_regression_stream(20_000, 3, seed=2, noise=0.5)
    residual = made.labels - made.features @ made.target
    assert residual.std() == pytest.approx(0.5, rel=0.03)
    quiet = linear_regression_stream(100, 3, seed=2, noise=0.0)
    np.testing.assert_array_equal(quiet.labels, quiet.features @ quiet.target)


def test_targets():
    assert np.count_nonzero(linear_regression_stream(2, 9, target="sparse5").target) == 5
    assert np.ptp(linear_regression_stream(2, 9, target="dense").target) == 0.0
    assert linear_regression_stream(2, 2, target=[3.0, 4.0]).target.tolist() == [3.0, 4.0]


def test_seed_reproduces_and_entropy_does_not():
    first, again = (linear_regression_stream(20, 3, seed=5) for _ in range(2))
    assert np.array_equal(first.features, again.features)
    assert np.array_equal(first.labels, again.labels)
    fresh = [linear_regression_stream(20, 3) for _ in range(2)]
    assert not np.array_equal(fresh[0].features, fresh[1].features)


@pytest.mark.parametrize(("p", "dimension"), [(1.001, 10), (1.001, 1), (1.00001, 3), (1000.0, 4)])
def test_large_powers_leave_records_and_targets(p, dimension):
    # |z|^1001 is 0 or infinite in doubles. No vector of norm 1 has smaller largest entries.
    made = linear_regression_stream(50, dimension, p, seed=1, target="gaussian", noise=0.0)
    largest = np.abs(np.vstack([made.features, made.target])).max(axis=1)
    assert np.all((largest > 0.9 / dimension) & (largest < 1.0 + 1e-12))
