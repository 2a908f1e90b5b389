"""Integer noise with exactly sampled laws; public as `dpoco.noise.discrete_*`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.random import Source

__all__ = ["discrete_gaussian", "discrete_laplace"]

IntArray = NDArray[np.int64]
Scale = float | Fraction

SMALLEST, LARGEST = Fraction(1, 1024), Fraction(2**50)


def exact_scale(scale: Scale) -> tuple[float, float]:
    """Return doubles whose quotient is `scale` exactly; raise if it has none or is out of range."""
    if isinstance(scale, (bool, np.bool_, str, complex)):
        raise TypeError(f"scale must be a float or a Fraction; got {type(scale).__name__}")
    try:
        ratio = scale if isinstance(scale, Fraction) else Fraction(float(scale))
    except (ValueError, OverflowError):  # not finite
        raise ValueError("scale must be in [2**-10, 2**50]") from None
    except TypeError:
        raise TypeError(
            f"scale must be a float or a Fraction; got {type(scale).__name__}"
        ) from None
    if not SMALLEST <= ratio <= LARGEST:
        raise ValueError(f"scale must be in [2**-10, 2**50]; got {float(ratio)!r}")
    # A quotient of two doubles in lowest terms has at most 53 odd bits on either side.
    numerator, denominator = (_double(part) for part in (ratio.numerator, ratio.denominator))
    if numerator is None or denominator is None:
        raise ValueError("scale must be a quotient of two floats")
    return numerator, denominator


def _double(integer: int) -> float | None:
    """Return the double equal to `integer`, if there is one far from the end of their range."""
    if integer.bit_length() > 1000 or int(float(integer)) != integer:
        return None
    return float(integer)


def _shape(size: int | tuple[int, ...] | None) -> tuple[int, ...]:
    if size is None:
        return (1,)
    shape = size if isinstance(size, tuple) else (size,)
    for length in shape:
        if isinstance(length, (bool, np.bool_)) or not isinstance(length, (int, np.integer)):
            raise TypeError("size must be an int or a tuple of ints")
        if length < 0:
            raise ValueError("size must not be negative")
    return shape


def _draw(
    law: str,
    source: Source,
    size: int | tuple[int, ...] | None,
    scale: Scale,
    out: IntArray | None,
) -> IntArray | int:
    if not isinstance(source, Source):
        raise TypeError(f"source must be a dpoco.random.Source; got {type(source).__name__}")
    numerator, denominator = exact_scale(scale)
    values: Any = out
    if out is None:
        values = np.empty(_shape(size), dtype=np.int64)
    elif size is not None:
        raise ValueError("size and out exclude each other")
    elif not isinstance(out, np.ndarray) or out.dtype != np.int64:
        raise TypeError("out must be an int64 array")
    elif not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("out must be C-contiguous and writeable")
    with source._lock:
        source._own()
        _core.fill_discrete(source._engine, law, numerator, denominator, False, values)
    return int(values[0]) if size is None and out is None else values


def discrete_laplace(
    source: Source,
    size: int | tuple[int, ...] | None = None,
    *,
    scale: Scale = 1.0,
    out: IntArray | None = None,
) -> IntArray | int:
    """Draw integers with Pr[n] = tanh(1 / (2 scale)) exp(-|n| / scale), exactly.

    Parameters
    ----------
    source : Source
        Where the randomness comes from.
    size : int or tuple of int, optional
        Shape of the result; None for one int.
    scale : float or Fraction, default 1.0
        In [2**-10, 2**50]. Every float is taken at its exact value; a Fraction must be a quotient
        of two floats, such as ``Fraction(sensitivity) / Fraction(epsilon)``.
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
    as it takes. The variance is 2 q / (1 - q)^2, q = exp(-1 / scale). Values stop at +-2**62, which
    has probability below exp(-4000). O(1); law and proof: ``docs/privacy/discrete_noise.md``.
    """
    return _draw("laplace", source, size, scale, out)


def discrete_gaussian(
    source: Source,
    size: int | tuple[int, ...] | None = None,
    *,
    scale: Scale = 1.0,
    out: IntArray | None = None,
) -> IntArray | int:
    """Draw integers with Pr[n] proportional to exp(-n^2 / (2 scale^2)), exactly.

    Arguments, results and errors as `discrete_laplace`.

    Notes
    -----
    Rejection from a discrete Laplace law (Canonne, Kamath and Steinke 2020), with exact decisions;
    about 1.5 attempts per value at most. The variance is below scale^2.
    """
    return _draw("gaussian", source, size, scale, out)
