"""Continual sums on a lattice: how fine it is, and what rounding to it costs.

Vectors are rounded to multiples of a power of two, sums are integers of 64 bits, noise is the ideal
Gaussian rounded to the lattice, with no error in any probability.

Claim: with vectors of l2 sensitivity D all n sums together are mu-GDP with

    mu = (column_norm(n) (D + leaf) + path) / sigma,

where ``leaf`` pays for the rounding of vectors and ``path`` for that of correlated noise. No sum
can overflow.

Proof: ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco.accounting import continual_sum
from dpoco.accounting.blt import blt_parameters
from dpoco.errors import CalibrationError

__all__ = [
    "LATTICE_NOISES",
    "MASS_PER_VARIATE",
    "NUMERICS",
    "Lattice",
    "batch_grid",
    "charged_reach",
    "lattice_of",
    "lattice_settings",
    "noise_scale_for",
]

NUMERICS = ("float", "lattice")
# Laws that single sums of a batch of losses are released with on a lattice.
LATTICE_NOISES = ("gaussian", "laplace")
# Total variation between the lattice's arithmetic and that of integers of any size, for each
# draw and buffer; the true figure is below 2^-280.
MASS_PER_VARIATE = 2.0**-100
# "auto" takes the lattice if it makes the noise no more than this much larger.
LARGEST_INFLATION = 0.01

# Grids are 2^-28 to 2^-29 of the noise scale, coarser only where sums could pass 2^61 grids; from
# 2^-16 on they are refused.
_FINEST_BITS, _COARSEST_BITS = 28, 16
_BUFFER_BITS = 43
_FARTHEST, _LARGEST_LIMIT = 2.0**61, 2.0**50


@dataclass(frozen=True, slots=True)
class Lattice:
    """Where a continual sum lives.

    Attributes
    ----------
    grid : float
        Spacing, a power of two.
    limit : float
        Integer; entries of what one push adds are kept within this many grids.
    """

    grid: float
    limit: float


def lattice_of(noise_scale: float, sensitivity: float, pushes: int, batch: int = 1) -> Lattice:
    """Return the finest lattice on which no sum can overflow.

    Parameters
    ----------
    noise_scale : float
        sigma of one draw, positive.
    sensitivity : float
        Bound D on the l2 difference of what a round adds; also bounds each of its entries.
    pushes : int
        Largest number of pushes.
    batch : int
        Rounds whose vectors are added before each push.

    Raises
    ------
    CalibrationError
        If only a lattice too coarse for the noise is safe.
    """
    exponent = math.frexp(noise_scale)[1] - 1
    reach = batch * sensitivity * (1.0 + 2.0**-20)
    for bits in range(_FINEST_BITS, _COARSEST_BITS - 1, -1):
        grid = math.ldexp(1.0, exponent - bits)
        if grid < 2.0**-900:
            break
        limit = math.ceil(reach / grid) + 1.0 if reach / grid < _LARGEST_LIMIT else math.inf
        if limit <= _LARGEST_LIMIT and limit * pushes <= _FARTHEST:
            return Lattice(grid, limit)
    raise CalibrationError(
        f"no lattice is fine enough for {pushes} sums; shorten the horizon or use numerics='float'"
    )


def batch_grid(experts: int, noise: str, noise_scale: float, batch: int) -> float:
    """Return the spacing on which the sum of a batch of losses in [0, 1] is released exactly.

    Losses are rounded to multiples of it, among them 0 and 1, so that the sensitivity is that of
    real numbers. With Gaussian noise sums are centred: it is at most 2^-16, and all losses of a
    batch together are fewer than 2^53 multiples of it, for the mean to be rounded once.

    Parameters
    ----------
    experts : int
        Entries N of the sum.
    noise : {"gaussian", "laplace"}
        The law.
    noise_scale : float
        Its deviation or scale, positive.
    batch : int
        Losses in each entry.

    Raises
    ------
    CalibrationError
        If no grid is fine enough for the noise and coarse enough for the sum.
    """
    exponent = math.frexp(noise_scale)[1] - 1
    coarsest = 2.0**-16 if noise == "gaussian" else 1.0
    for bits in range(_FINEST_BITS, _COARSEST_BITS - 1, -1):
        grid = math.ldexp(1.0, exponent - bits)
        if not 2.0**-900 < grid <= coarsest:
            continue
        units = batch / grid
        if units < 2.0**51 and (noise != "gaussian" or experts * units <= 2.0**53):
            return grid
    raise CalibrationError(
        f"no lattice suits sums of {batch} losses with noise of scale {noise_scale:.3g}; "
        "use numerics='float'"
    )


def lattice_settings(
    numerics: str, noise_scale: float, sensitivity: float | None, pushes: int, batch: int = 1
) -> dict[str, float]:
    """Return what a compiled continual sum is told of its lattice; nothing for doubles."""
    if numerics == "float" or noise_scale == 0.0 or sensitivity is None:
        return {}
    lattice = lattice_of(noise_scale, sensitivity, pushes, batch)
    return {"grid": lattice.grid, "limit": lattice.limit}


def charged_reach(
    method: str, pushes: int, dimension: int, sensitivity: float, noise_scale: float, batch: int = 1
) -> float:
    """Return column_norm (D + leaf) + path: mu times sigma, for Gaussian noise on the lattice."""
    grid = lattice_of(noise_scale, sensitivity, pushes, batch).grid
    # Each entry is rounded by at most half a grid on either side; a batch is added up in doubles.
    leaf = math.sqrt(dimension) * grid
    if batch > 1:
        leaf += sensitivity * (batch * (batch + 1.0)) * 2.0**-53
    column = continual_sum.column_norm(method, pushes)
    total = column * (sensitivity + leaf) + math.sqrt(float(pushes) * dimension) * _path(
        method, pushes, grid, noise_scale
    )
    return total * (1.0 + 2.0**-48)


def noise_scale_for(
    method: str, pushes: int, dimension: int, sensitivity: float, mu: float, batch: int = 1
) -> float:
    """Return a noise scale with ``charged_reach(...) <= mu * scale``, the least but for 1e-9.

    Raises
    ------
    CalibrationError
        If there is none: rounding costs more than mu.
    """
    scale = sensitivity * continual_sum.column_norm(method, pushes) / mu
    for _ in range(500):
        needed = charged_reach(method, pushes, dimension, sensitivity, scale, batch) / mu
        if needed <= scale:
            return scale
        scale = needed * (1.0 + 2.0**-50)
        if scale > 2.0**900:
            break
    raise CalibrationError(
        f"rounding to a lattice costs more than mu = {mu:.3g} over {pushes} sums of dimension "
        f"{dimension}; use numerics='float'"
    )


def _path(method: str, pushes: int, grid: float, noise_scale: float) -> float:
    """Return the largest l2 change per root of entries that rounded noise adds to the rows."""
    if method in ("tree", "honaker"):
        return 0.0
    if method == "toeplitz":
        return 8.0 * grid
    unit = math.ldexp(1.0, math.frexp(noise_scale)[1] - 1 - _BUFFER_BITS)
    parameters = blt_parameters(pushes)
    memory: float = sum(
        w * min(1.0 / s, float(pushes))
        for w, s in zip(parameters.weights.tolist(), parameters.decay.tolist(), strict=True)
    )
    return (1.0 + 2.0**-10) * grid + 1.25 * unit * memory
