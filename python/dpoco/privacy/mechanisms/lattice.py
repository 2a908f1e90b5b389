"""Grids for noise in exact integers, in the ranges that the proofs cover.

Proof: ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math

__all__ = ["COARSEST_BITS", "FINEST_BITS", "LARGEST_LIMIT", "LARGEST_SUM", "grid_bits"]

# A grid is 2^-16 to 2^-28 of the power of two below the scale of the noise.
# The proof uses both ends: quick decisions need scales below 2^29 grids, and the bounds on overflow
# need scales of at least 2^16 grids (docs/privacy/lattice.md).
FINEST_BITS, COARSEST_BITS = 28, 16
# Largest number of grids that one push adds to an entry, and that a sum reaches, so that no 64-bit
# integer overflows.
LARGEST_LIMIT, LARGEST_SUM = 2**50, 2**61


def grid_bits(grid: float, scale: float) -> int:
    """Return b of grid = 2^(floor(log2 scale) - b).

    Raises
    ------
    ValueError
        For a grid that no proof covers.
    """
    # `frexp` is exact: the mantissa of a power of two is 1/2 to the last bit.
    mantissa, exponent = math.frexp(grid)
    bits = math.frexp(scale)[1] - exponent
    if mantissa != 0.5 or not COARSEST_BITS <= bits <= FINEST_BITS or grid < 2.0**-900:
        raise ValueError(f"a grid of {grid!r} is not for noise of scale {scale!r}")
    return bits
