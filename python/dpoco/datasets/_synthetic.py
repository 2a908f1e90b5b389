"""Simulated streams."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import exponent, float_array, positive_int, real_float
from dpoco.datasets._stream import Stream

__all__ = ["linear_regression_stream"]

FloatArray = NDArray[np.float64]


def linear_regression_stream(
    rounds: int,
    dimension: int,
    p: float = 2.0,
    seed: int | None = None,
    *,
    noise: float = 0.05,
    target: Any = "dense",
) -> Stream:
    """Linear regression in l_p geometry, as in the experiments of Han et al., section 5.

    ``x = z / ||z||_q`` with z standard normal and q dual to p; ``y = <x, theta> + noise * N(0, 1)``
    with ``||theta||_p = 1``.

    Parameters
    ----------
    rounds, dimension : int
        T and d, at least 1.
    p : float, default 2
        Exponent in [1, inf] of the decision set's geometry.
    seed : int, optional
        Seed of NumPy's generator; None is fresh entropy. The data are simulated, so this
        generator has nothing to do with privacy.
    noise : float, default 0.05
        Standard deviation of the label noise, at least 0.
    target : {"dense", "sparse5", "gaussian"} or array_like of shape (d,)
        The true parameter: all ones, five ones followed by zeros, or standard normal, each
        divided by its l_p norm; or given as it is, for example to draw test data of another
        stream.

    Returns
    -------
    Stream
        With `target` set.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    count = positive_int("rounds", rounds, maximum=10**9)
    d = positive_int("dimension", dimension, maximum=10**9)
    power = exponent("p", p)
    spread = real_float("noise", noise)
    if spread < 0.0:
        raise ValueError(f"noise must be non-negative; got {spread!r}")
    dual = np.inf if power == 1.0 else 1.0 if np.isinf(power) else power / (power - 1.0)
    generator = np.random.default_rng(seed)
    theta = _target(target, d, power, generator)
    features = generator.standard_normal((count, d))
    features /= np.linalg.norm(features, ord=dual, axis=1, keepdims=True)
    labels = features @ theta + spread * generator.standard_normal(count)
    kind = target if isinstance(target, str) else "given"
    return Stream(
        name="linear_regression",
        features=features,
        labels=labels,
        feature_names=tuple(f"x{j + 1}" for j in range(d)),
        task="regression",
        description=f"Simulated linear regression, p = {power:g}, {kind} parameter",
        source="simulated; Han et al., On Private Online Convex Optimization, section 5",
        licence="none needed",
        scaling=f"unit vectors in l_{dual:g}",
        target=theta,
    )


def _target(target: Any, d: int, p: float, generator: np.random.Generator) -> FloatArray:
    if not isinstance(target, str):
        return float_array("target", target, (d,))
    if target == "dense":
        theta = np.ones(d)
    elif target == "sparse5":
        theta = np.where(np.arange(d) < 5, 1.0, 0.0)
    elif target == "gaussian":
        theta = generator.standard_normal(d)
    else:
        raise ValueError(
            f"target must be one of ['dense', 'gaussian', 'sparse5'] or an array; got {target!r}"
        )
    return theta / np.linalg.norm(theta, ord=p)
