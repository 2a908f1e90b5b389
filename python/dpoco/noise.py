"""Noise: exact samplers on a cryptographic stream, at NumPy speed.

Every law has both its tails: where the 64 random digits behind a variate do not tell how far out
it lies, further ones do. Sums with noise still charge ``TAIL_MASS_PER_VARIATE`` per variate.
Doubles are not the real line: values are not protected against attacks on the floating-point grid.
The discrete laws, on the integers, are: ``docs/privacy/discrete_noise.md``.
Laws, tails and tests: ``docs/privacy/noise.md``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._discrete_noise import discrete_gaussian, discrete_laplace
from dpoco._validation import exponent, positive_float, positive_int
from dpoco.accounting.truncation import TAIL_MASS_PER_VARIATE
from dpoco.random import Source

__all__ = [
    "TAIL_MASS_PER_VARIATE",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential",
    "gamma",
    "gaussian",
    "generalized_gaussian",
    "gumbel",
    "laplace",
]

FloatArray = NDArray[np.float64]
Size = int | tuple[int, ...] | None


def _output(size: Size, out: FloatArray | None) -> FloatArray:
    """Return the array to fill: `out` itself, or a new one of shape `size` (None = one value)."""
    if out is not None:
        if size is not None:
            raise ValueError("size and out exclude each other")
        if not isinstance(out, np.ndarray) or out.dtype != np.float64:
            raise TypeError("out must be a float64 array")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out must be C-contiguous and writeable")
        return out
    if size is None:
        return np.empty(1)
    shape = size if isinstance(size, tuple) else (size,)
    for length in shape:
        if isinstance(length, (bool, np.bool_)) or not isinstance(length, (int, np.integer)):
            raise TypeError("size must be an int or a tuple of ints")
        if length < 0:
            raise ValueError("size must not be negative")
    return np.empty(shape)


def _draw(
    fill: Callable[[FloatArray], None], size: Size, out: FloatArray | None, factor: float
) -> FloatArray | float:
    values = _output(size, out)
    if values.size:
        fill(values)
        if factor != 1.0:
            values *= factor
    return float(values[0]) if size is None and out is None else values


def _source(source: Source) -> Source:
    if not isinstance(source, Source):
        raise TypeError(f"source must be a dpoco.random.Source; got {type(source).__name__}")
    return source


def _elementary(
    kind: str, source: Source, size: Size, scale: float, out: FloatArray | None
) -> FloatArray | float:
    factor = positive_float("scale", scale)
    stream = _source(source)
    return _draw(lambda values: stream._fill_into(kind, values), size, out, factor)


def gaussian(
    source: Source, size: Size = None, *, scale: float = 1.0, out: FloatArray | None = None
) -> FloatArray | float:
    """Draw from N(0, scale^2).

    Parameters
    ----------
    source : Source
        Where the randomness comes from.
    size : int or tuple of int, optional
        Shape of the result; None for one float.
    scale : float, default 1.0
        Standard deviation, in [1e-100, 1e100].
    out : ndarray, optional
        C-contiguous float64 array to fill instead of allocating.

    Returns
    -------
    float or ndarray of float64

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range.

    Notes
    -----
    Box-Muller on 64-bit uniforms, more digits beyond 8 scale. O(1) per value.
    """
    return _elementary("gaussian", source, size, scale, out)


def laplace(
    source: Source, size: Size = None, *, scale: float = 1.0, out: FloatArray | None = None
) -> FloatArray | float:
    """Draw from the density exp(-|x| / scale) / (2 scale); arguments as `gaussian`.

    Notes
    -----
    Inverse transform with a sign bit; both tails.
    """
    return _elementary("laplace", source, size, scale, out)


def exponential(
    source: Source, size: Size = None, *, scale: float = 1.0, out: FloatArray | None = None
) -> FloatArray | float:
    """Draw from the density exp(-x / scale) / scale on x >= 0; arguments as `gaussian`.

    Notes
    -----
    Full relative precision near 0; the whole tail.
    """
    return _elementary("exponential", source, size, scale, out)


def gumbel(
    source: Source, size: Size = None, *, scale: float = 1.0, out: FloatArray | None = None
) -> FloatArray | float:
    """Draw from the Gumbel law P(X <= x) = exp(-exp(-x / scale)); arguments as `gaussian`.

    Notes
    -----
    Both tails, as those of the exponential behind it.
    """
    return _elementary("gumbel", source, size, scale, out)


def gamma(
    source: Source,
    shape: float,
    size: Size = None,
    *,
    scale: float = 1.0,
    out: FloatArray | None = None,
) -> FloatArray | float:
    """Draw from the Gamma law with density proportional to x^(shape-1) exp(-x / scale).

    Parameters
    ----------
    source : Source
        Where the randomness comes from.
    shape : float
        Shape, positive.
    size, scale, out
        As for `gaussian`.

    Returns
    -------
    float or ndarray of float64

    Notes
    -----
    Exact rejection of Marsaglia and Tsang (2000), fewer than 1.1 attempts per value.
    """
    form = positive_float("shape", shape)
    factor = positive_float("scale", scale)
    stream = _source(source)

    def fill(values: FloatArray) -> None:
        with stream._lock:
            stream._own()
            _core.fill_gamma(stream._engine, form, values)

    return _draw(fill, size, out, factor)


def generalized_gaussian(
    source: Source,
    dimension: int,
    order: float,
    size: int | None = None,
    *,
    scale: float = 1.0,
    out: FloatArray | None = None,
) -> FloatArray:
    """Draw vectors with density proportional to exp(-||z||_order^2 / (2 scale^2)).

    Parameters
    ----------
    source : Source
        Where the randomness comes from.
    dimension : int
        Length d of each vector.
    order : float
        Exponent of the norm, in [1, inf]; privacy accounting needs 2 <= order < inf.
    size : int, optional
        Number of vectors; None for one, of shape (dimension,).
    scale : float, default 1.0
        The law's scale: E||Z||_order^2 = d scale^2.
    out : ndarray, optional
        C-contiguous float64 array of shape (size, dimension) to fill.

    Returns
    -------
    ndarray of float64, shape (dimension,) or (size, dimension)

    Notes
    -----
    Radius^2 ~ Gamma(d/2, 2 scale^2), direction from the cone measure of the l_order sphere
    (Han et al., Lemma 2.1, with the radius law and the normalisation corrected). order = 2 is the
    Gaussian, for d = 1 every order is. O(d) per vector.
    """
    d = positive_int("dimension", dimension, maximum=2**40)
    r = exponent("order", order)
    factor = positive_float("scale", scale)
    stream = _source(source)
    if out is None:
        out = np.empty((1 if size is None else positive_int("size", size, maximum=2**40), d))
    elif size is not None:
        raise ValueError("size and out exclude each other")
    else:
        out = _output(None, out)
        if out.ndim != 2 or out.shape[1] != d:
            raise ValueError(f"out must have shape (any, {d}); got {out.shape}")
    with stream._lock:
        stream._own()
        _core.fill_generalized_gaussian(stream._engine, r, factor, out)
    return out[0] if size is None and out.shape[0] == 1 else out
