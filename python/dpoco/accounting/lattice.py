"""Continual sums on a lattice: how fine it is, and how much noise pays for rounding to it.

Vectors are rounded to multiples of a power of two, sums are integers of 64 bits, noise is the ideal
Gaussian rounded to the lattice, with no error in any probability.

What rounding costs is `dpoco.privacy.mechanisms.gaussian_sum`'s to say.

Proof: ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.lattice import (
    COARSEST_BITS,
    FINEST_BITS,
    LARGEST_LIMIT,
    LARGEST_SUM,
)
from dpoco.privacy.neighbours import Neighbours

__all__ = [
    "LATTICE_NOISES",
    "NUMERICS",
    "Lattice",
    "batch_grid",
    "lattice_of",
    "noisy_on_lattice",
    "placed",
]

NUMERICS = ("float", "lattice")
# Laws that single sums of a batch of losses are released with on a lattice.
LATTICE_NOISES = ("gaussian", "laplace")
# "auto" takes the lattice if it makes the noise no more than this much larger.
LARGEST_INFLATION = 0.01


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
    for bits in range(FINEST_BITS, COARSEST_BITS - 1, -1):
        grid = math.ldexp(1.0, exponent - bits)
        if grid < 2.0**-900:
            break
        limit = math.ceil(reach / grid) + 1.0 if reach / grid < LARGEST_LIMIT else math.inf
        if limit <= LARGEST_LIMIT and limit * pushes <= LARGEST_SUM:
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
    for bits in range(FINEST_BITS, COARSEST_BITS - 1, -1):
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


def placed(plain: GaussianSum, near: Neighbours, scale: float) -> GaussianSum:
    """Return a sum with noise of `scale` on the finest lattice on which nothing overflows."""
    pushes = max(plain.pushes, 1)
    lattice = lattice_of(scale, plain.summand.movement(near), pushes, plain.batch)
    return replace(plain, scale=float(scale), grid=lattice.grid, limit=int(lattice.limit))


def noisy_on_lattice(plain: GaussianSum, near: Neighbours, mu: float) -> GaussianSum:
    """Return a sum on a lattice that is mu-GDP, with the least noise but for 1e-9.

    Raises
    ------
    CalibrationError
        If there is none: rounding costs more than mu.
    """
    scale = plain.reach(near) / mu
    for _ in range(500):
        found = placed(plain, near, scale)
        needed = found.reach(near) / mu
        if needed <= scale:
            return found
        scale = needed * (1.0 + 2.0**-50)
        if scale > 2.0**900:
            break
    raise CalibrationError(
        f"rounding to a lattice costs more than mu = {mu:.3g} over {plain.pushes} sums of "
        f"dimension {plain.summand.size}; use numerics='float'"
    )
