"""Samplers: exact draws from truncated Gaussians, their masses, and coordinate Gibbs chains.

A Gaussian restricted to a set of decisions is the Gibbs law of a sum of linear losses. Its draws
are exact up to rounding: elementary variates have both tails (``dpoco.noise``), so nothing depends
on how many a draw takes. Methods, expected numbers of trials and tests:
``docs/privacy/samplers.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpoco import _core
from dpoco._validation import FloatArray, float_array, positive_float, positive_int, real_float
from dpoco.domains import Box, Domain
from dpoco.random import Source, checked_source

__all__ = ["coordinate_gibbs", "log_mass", "truncated_gaussian", "truncated_normal"]

_LARGEST_SIZE = 2**40


def _domain(domain: Domain) -> Domain:
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a dpoco domain; got {type(domain).__name__}")
    return domain


def _finite(name: str, value: Any, shape: tuple[int | None, ...]) -> FloatArray:
    array = float_array(name, value, shape)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array


def truncated_gaussian(
    domain: Domain, mean: Any, scale: float, size: int, source: Source
) -> FloatArray:
    """Draw exactly from N(mean, scale^2 I) conditioned on a domain.

    Parameters
    ----------
    domain : Domain
        A box, a Euclidean ball, an l_inf ball or a simplex, with an interior. On a simplex the law
        is that of the Gaussian restricted to the hyperplane of constant sum; a mean outside the
        hyperplane counts as its projection.
    mean : array_like, shape (d,)
        Finite; anywhere, also far outside the domain.
    scale : float
        Standard deviation of each coordinate, in [1e-100, 1e100].
    size : int
        Number of draws, at least 1.
    source : Source
        Where the randomness comes from.

    Returns
    -------
    ndarray of float64, shape (size, d)

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range, and for domains without exact draws (l_p
        balls with other p) or without interior.

    Notes
    -----
    O(d) per trial. Expected trials per draw are bounded whatever the mean and the scale: below 2.1
    a coordinate of a box, below 4 for a ball, of the order of sqrt(d) for a simplex. Box: Robert
    (1995). Ball: rejection for the coordinate along the mean, which has a log-concave law, then
    the rest. Simplex: independent truncated normals conditioned on their sum.
    """
    center = _finite("mean", mean, (_domain(domain).dimension,))
    deviation = positive_float("scale", scale)
    out = np.empty((positive_int("size", size, maximum=_LARGEST_SIZE), domain.dimension))
    stream = checked_source(source)
    with stream._drawing() as engine:
        _core.fill_truncated_gaussian(engine, domain._engine, center, deviation, out)
    if isinstance(domain, Box):  # the shift to the box's centre may round past a wall
        np.clip(out, domain.lower, domain.upper, out=out)
    return out


def log_mass(domain: Domain, mean: Any, scale: float) -> float:
    """Logarithm of the probability that N(mean, scale^2 I) is in a box or a Euclidean ball.

    Parameters
    ----------
    domain : Domain
        A box, a Euclidean ball or an l_inf ball.
    mean : array_like, shape (d,)
        Finite; anywhere, also far outside the domain, where the mass underflows but not its log.
    scale : float
        Standard deviation of each coordinate, in [1e-100, 1e100].

    Returns
    -------
    float
        At most 0; the error is below 2^-53 * 24 (d + |mean|^2 / (2 scale^2) - log mass at the
        centre).

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range, and for other domains.

    Notes
    -----
    Box: a sum over coordinates, O(d). Ball: the noncentral chi-square distribution by a series of
    positive terms, O(d + r + sqrt(r m)) of them for radius r and distance m of the mean in units of
    the scale, and by a quadrature of some hundred points when r m exceeds 20000.
    """
    center = _finite("mean", mean, (_domain(domain).dimension,))
    return _core.log_gaussian_mass(domain._engine, center, positive_float("scale", scale))


def truncated_normal(
    mean: float, scale: float, lower: float, upper: float, size: int, source: Source
) -> FloatArray:
    """Draw exactly from N(mean, scale^2) conditioned on an interval.

    Parameters
    ----------
    mean : float
        Finite; anywhere, also far outside the interval.
    scale : float
        Standard deviation, in [1e-100, 1e100].
    lower, upper : float
        Ends, ``lower < upper``; either may be infinite.
    size : int
        Number of draws, at least 1.
    source : Source
        Where the randomness comes from.

    Returns
    -------
    ndarray of float64, shape (size,)

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range.

    Notes
    -----
    Rejection after Robert (1995); each attempt is accepted with probability at least 0.49.
    """
    center = real_float("mean", mean)
    deviation = positive_float("scale", scale)
    low, high = float(lower), float(upper)
    if not low < high:
        raise ValueError("lower must be below upper")
    out = np.empty(positive_int("size", size, maximum=_LARGEST_SIZE))
    stream = checked_source(source)
    with stream._drawing() as engine:
        _core.fill_truncated_normal(engine, center, deviation, low, high, out)
    return out


def coordinate_gibbs(
    precision: Any,
    mean: Any,
    lower: Any,
    upper: Any,
    *,
    size: int,
    source: Source,
    sweeps: int = 1,
    start: Any = None,
) -> FloatArray:
    """Run a coordinate Gibbs chain on N(mean, precision^-1) conditioned on a box.

    Parameters
    ----------
    precision : array_like, shape (d, d)
        Symmetric and positive definite.
    mean : array_like, shape (d,)
        Finite.
    lower, upper : array_like, shape (d,)
        Walls of the box, ``lower < upper``; entries may be infinite.
    size : int
        Number of states to return, at least 1.
    source : Source
        Where the randomness comes from.
    sweeps : int, default 1
        Sweeps over all coordinates before each returned state.
    start : array_like, shape (d,), optional
        Finite starting point, clamped to the box; None for the mean, clamped.

    Returns
    -------
    ndarray of float64, shape (size, d)
        Successive states: dependent, with the truncated Gaussian as exactly invariant law.

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range, or a precision that is not positive definite.

    Notes
    -----
    Every coordinate is drawn in turn from its conditional law, an exact truncated normal. O(d^2)
    per sweep. A chain, not an exact sampler: the distance of its law from the target is not bounded
    here.
    """
    center = _finite("mean", mean, (None,))
    d = center.shape[0]
    if d == 0:
        raise ValueError("mean must not be empty")
    matrix = _finite("precision", precision, (d, d))
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12 * float(np.abs(matrix).max())):
        raise ValueError("precision must be symmetric")
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ValueError("precision must be positive definite") from None
    low = float_array("lower", lower, (d,))
    high = float_array("upper", upper, (d,))
    if not (low < high).all():
        raise ValueError("lower must be below upper in every coordinate")
    first = center if start is None else _finite("start", start, (d,))
    out = np.empty((positive_int("size", size, maximum=_LARGEST_SIZE), d))
    count = positive_int("sweeps", sweeps)
    stream = checked_source(source)
    symmetric = np.ascontiguousarray(0.5 * (matrix + matrix.T))
    with stream._drawing() as engine:
        _core.fill_coordinate_gibbs(engine, symmetric, center, low, high, first, count, out)
    return out
