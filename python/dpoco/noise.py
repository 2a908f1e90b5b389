"""Noise: exact samplers on a cryptographic stream, at the speed of NumPy.

Every law has both its tails: if the 64 random digits of a variate do not determine how far out it
lies, more digits are drawn. Sums with noise still charge ``TAIL_MASS_PER_VARIATE`` per variate.
Doubles are not real numbers, and values are not protected against attacks on the floating-point
grid. The discrete laws, on the integers, are protected: ``docs/privacy/discrete_noise.md``. Laws,
tails and tests: ``docs/privacy/noise.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import FloatArray, IntArray, exponent, positive_float, positive_int
from dpoco.accounting.gaussian import TAIL_MASS_PER_VARIATE
from dpoco.random import Source, checked_source

__all__ = ["TAIL_MASS_PER_VARIATE", "discrete_gaussian", "discrete_laplace",
           "exponential", "gamma", "gaussian", "generalized_gaussian", "gumbel",
           "laplace"]  # fmt: skip

Size = int | tuple[int, ...] | None

# Range of scales of the discrete laws. Below it, nearly all draws are 0. Above it, 64 bits could
# not hold the tails (docs/privacy/discrete_noise.md).
SMALLEST_SCALE, LARGEST_SCALE = Fraction(1, 1024), Fraction(2**50)


def _output(size: Size, out: NDArray[Any] | None, kind: Any = np.float64) -> NDArray[Any]:
    """Return the array to fill: `out` itself, or a new one of shape `size` (None = one value)."""
    if out is not None:
        if size is not None:
            raise ValueError("size and out exclude each other")
        if not isinstance(out, np.ndarray) or out.dtype != kind:
            raise TypeError(f"out must be an array of {np.dtype(kind).name}")
        # Compiled loops write one contiguous piece of memory.
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out must be C-contiguous and writeable")
        return out
    if size is None:
        return np.empty(1, dtype=kind)
    shape = size if isinstance(size, tuple) else (size,)
    for length in shape:
        # NumPy would take True as 1.
        if isinstance(length, (bool, np.bool_)) or not isinstance(length, (int, np.integer)):
            raise TypeError("size must be an int or a tuple of ints")
        if length < 0:
            raise ValueError("size must not be negative")
    return np.empty(shape, dtype=kind)


def _draw(
    fill: Callable[[FloatArray], None], size: Size, out: FloatArray | None, factor: float
) -> FloatArray | float:
    """Return unit variates times a factor, as one float or as an array."""
    values = _output(size, out)
    # An empty array draws nothing, so the source does not advance.
    if values.size:
        fill(values)
        if factor != 1.0:
            values *= factor
    return float(values[0]) if size is None and out is None else values


def _elementary(
    kind: str, source: Source, size: Size, scale: float, out: FloatArray | None
) -> FloatArray | float:
    """Return variates of one of the source's own kinds."""
    # Checked before anything is drawn, so that an error does not advance the source.
    factor = positive_float("scale", scale)
    stream = checked_source(source)
    if size is None and out is None:
        # The value of an array with one entry, without the array.
        return stream._draw(kind) * factor
    return _draw(lambda values: stream._fill_into(kind, values), size, out, factor)


def gaussian(
    source: Source, size: Size = None, *, scale: float = 1.0, out: FloatArray | None = None
) -> FloatArray | float:
    """Draw from N(0, scale^2).

    Parameters
    ----------
    source : Source
        Source of the randomness.
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
    Box-Muller with 64-bit uniforms, and more digits beyond 8 scale. O(1) per value.
    """
    return _elementary("gaussian", source, size, scale, out)


def laplace(
    source: Source, size: Size = None, *, scale: float = 1.0, out: FloatArray | None = None
) -> FloatArray | float:
    """Draw from the density exp(-|x| / scale) / (2 scale); for the arguments see `gaussian`.

    Notes
    -----
    Inverse transform with a sign bit; both tails.
    """
    return _elementary("laplace", source, size, scale, out)


def exponential(
    source: Source, size: Size = None, *, scale: float = 1.0, out: FloatArray | None = None
) -> FloatArray | float:
    """Draw from the density exp(-x / scale) / scale on x >= 0; for the arguments see `gaussian`.

    Notes
    -----
    Full relative precision near 0; the whole tail.
    """
    return _elementary("exponential", source, size, scale, out)


def gumbel(
    source: Source, size: Size = None, *, scale: float = 1.0, out: FloatArray | None = None
) -> FloatArray | float:
    """Draw from the Gumbel law P(X <= x) = exp(-exp(-x / scale)); arguments: see `gaussian`.

    Notes
    -----
    Both tails, like those of the underlying exponential.
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
        Source of the randomness.
    shape : float
        Shape, positive.
    size, scale, out
        See `gaussian`.

    Returns
    -------
    float or ndarray of float64

    Notes
    -----
    Exact rejection of Marsaglia and Tsang (2000), fewer than 1.1 attempts per value.
    """
    # All arguments are checked before taking the lock and drawing.
    form = positive_float("shape", shape)
    factor = positive_float("scale", scale)
    stream = checked_source(source)

    def fill(values: FloatArray) -> None:
        with stream._drawing() as engine:
            _core.fill_gamma(engine, form, values)

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
        Source of the randomness.
    dimension : int
        Length d of each vector.
    order : float
        Exponent of the norm, in [1, inf]; privacy accounting needs 2 <= order < inf.
    size : int, optional
        Number of vectors; None for one, of shape (dimension,).
    scale : float, default 1.0
        Scale of the law: E||Z||_order^2 = d scale^2.
    out : ndarray, optional
        C-contiguous float64 array of shape (size, dimension) to fill.

    Returns
    -------
    ndarray of float64, shape (dimension,) or (size, dimension)

    Notes
    -----
    Radius^2 ~ Gamma(d/2, 2 scale^2), direction from the cone measure of the l_order sphere (Han et
    al., Lemma 2.1, with the law of the radius and the normalisation corrected). order = 2 is the
    Gaussian, as is every order for d = 1. O(d) per vector.
    """
    d = positive_int("dimension", dimension, maximum=2**40)
    r = exponent("order", order)
    factor = positive_float("scale", scale)
    stream = checked_source(source)
    if out is None:
        out = np.empty((1 if size is None else positive_int("size", size, maximum=2**40), d))
    elif size is not None:
        raise ValueError("size and out exclude each other")
    else:
        out = _output(None, out)
        if out.ndim != 2 or out.shape[1] != d:
            raise ValueError(f"out must have shape (any, {d}); got {out.shape}")
    with stream._drawing() as engine:
        _core.fill_generalized_gaussian(engine, r, factor, out)
    return out[0] if size is None and out.shape[0] == 1 else out


def _exact_scale(scale: float | Fraction) -> tuple[float, float]:
    """Return doubles with exactly the quotient `scale`; raise if none or out of range."""
    # `float` would accept these texts, and True as 1.
    if isinstance(scale, (bool, np.bool_, str, complex)):
        raise TypeError(f"scale must be a float or a Fraction; got {type(scale).__name__}")
    try:
        # A double is a fraction, so nothing is rounded here.
        ratio = scale if isinstance(scale, Fraction) else Fraction(float(scale))
    except (ValueError, OverflowError):  # not finite
        raise ValueError("scale must be in [2**-10, 2**50]") from None
    except TypeError:
        raise TypeError(
            f"scale must be a float or a Fraction; got {type(scale).__name__}"
        ) from None
    if not SMALLEST_SCALE <= ratio <= LARGEST_SCALE:
        raise ValueError(f"scale must be in [2**-10, 2**50]; got {float(ratio)!r}")
    # In lowest terms, the parts of a quotient of two doubles have at most 53 significant bits each.
    numerator, denominator = (_double(part) for part in (ratio.numerator, ratio.denominator))
    if numerator is None or denominator is None:
        raise ValueError("scale must be a quotient of two floats")
    return numerator, denominator


def _double(integer: int) -> float | None:
    """Return the double equal to `integer`, if there is one far from the end of the range."""
    # The scale must be exact: a rounded scale would give another law than the charged one.
    if integer.bit_length() > 1000 or int(float(integer)) != integer:
        return None
    return float(integer)


def _discrete(
    law: str, source: Source, size: Size, scale: float | Fraction, out: IntArray | None
) -> IntArray | int:
    """Return variates of a discrete law, with the scale as an exact quotient."""
    stream = checked_source(source)
    numerator, denominator = _exact_scale(scale)
    values = _output(size, out, np.int64)
    with stream._drawing() as engine:
        _core.fill_discrete(engine, law, numerator, denominator, False, values)
    return int(values[0]) if size is None and out is None else values


def discrete_laplace(
    source: Source, size: Size = None, *, scale: float | Fraction = 1.0, out: IntArray | None = None
) -> IntArray | int:
    """Draw integers with Pr[n] = tanh(1 / (2 scale)) exp(-|n| / scale), exactly.

    Parameters
    ----------
    source : Source
        Source of the randomness.
    size : int or tuple of int, optional
        Shape of the result; None for one int.
    scale : float or Fraction, default 1.0
        In [2**-10, 2**50]. Every float is used at its exact value; a Fraction must be a quotient of
        two floats, such as ``Fraction(sensitivity) / Fraction(epsilon)``.
    out : ndarray of int64, optional
        C-contiguous array to fill instead of allocating.

    Returns
    -------
    int or ndarray of int64

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range.

    Notes
    -----
    No probability is rounded: digits of a uniform are compared with the law's thresholds, as many
    as needed. The variance is 2 q / (1 - q)^2, q = exp(-1 / scale). Values stop at +-2**62, which
    has probability below exp(-4000). O(1); law and proof: ``docs/privacy/discrete_noise.md``.
    """
    return _discrete("laplace", source, size, scale, out)


def discrete_gaussian(
    source: Source, size: Size = None, *, scale: float | Fraction = 1.0, out: IntArray | None = None
) -> IntArray | int:
    """Draw integers with Pr[n] proportional to exp(-n^2 / (2 scale^2)), exactly.

    For arguments, results and errors see `discrete_laplace`.

    Notes
    -----
    Rejection from a discrete Laplace law (Canonne, Kamath and Steinke 2020), with exact decisions;
    at most about 1.5 attempts per value. The variance is below scale^2.
    """
    return _discrete("gaussian", source, size, scale, out)
