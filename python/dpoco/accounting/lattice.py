"""Continual sums on a lattice: how fine it is, and how much noise pays for rounding to it.

Vectors are rounded to multiples of a power of two, sums are integers of 64 bits, noise is the ideal
Gaussian rounded to the lattice, with no error in any probability.

What rounding costs is `dpoco.privacy.mechanisms.gaussian_sum`'s to say.

Proof: ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.lattice import COARSEST_BITS, FINEST_BITS, LARGEST_LIMIT, LARGEST_SUM
from dpoco.privacy.neighbours import Neighbours

__all__ = ["LATTICE_NOISES", "NUMERICS", "batch_grid", "noisy_on_lattice", "on_lattice"]

NUMERICS = ("float", "lattice")
# Laws that single sums of a batch of losses are released with on a lattice.
LATTICE_NOISES = ("gaussian", "laplace")
# "auto" takes the lattice if it makes the noise no more than this much larger.
LARGEST_INFLATION = 0.01


def grids(noise_scale: float) -> Iterator[float]:
    """Yield the spacings that suit noise of this scale, the finest first."""
    exponent = math.frexp(noise_scale)[1] - 1
    for bits in range(FINEST_BITS, COARSEST_BITS - 1, -1):
        grid = math.ldexp(1.0, exponent - bits)
        if grid > 2.0**-900:
            yield grid


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
    gaussian = noise == "gaussian"
    for grid in grids(noise_scale):
        units = batch / grid
        held = units < 2.0**51 and (not gaussian or experts * units <= 2.0**53)
        if held and grid <= (2.0**-16 if gaussian else 1.0):
            return grid
    raise CalibrationError(
        f"no lattice suits sums of {batch} losses with noise of scale {noise_scale:.3g}; "
        "use numerics='float'"
    )


def on_lattice(
    plain: GaussianSum, near: Neighbours, scale: float, room: float = 0.0
) -> GaussianSum:
    """Return a sum with noise of `scale` on the finest lattice on which nothing overflows.

    Entries of what one push adds are kept within `limit` grids, which hold one person's rounds, and
    all that is up to `room`.

    Raises
    ------
    CalibrationError
        If only a lattice too coarse for the noise is safe.
    """
    pushes = max(plain.pushes, 1)
    reach = max(plain.longest_batch * plain.summand.movement(near), room)
    for grid in grids(scale):
        entry = reach * (1.0 + 2.0**-20) / grid
        if entry <= LARGEST_LIMIT - 1.0 and (math.ceil(entry) + 1) * pushes <= LARGEST_SUM:
            return replace(plain, scale=float(scale), grid=grid, limit=math.ceil(entry) + 1)
    raise CalibrationError(
        f"no lattice is fine enough for {pushes} sums; shorten the horizon or use numerics='float'"
    )


def noisy_on_lattice(
    plain: GaussianSum, near: Neighbours, mu: float, room: float = 0.0
) -> GaussianSum:
    """Return a sum on a lattice that is mu-GDP, with the least noise but for 1e-9.

    What one push adds has `room` (`on_lattice`).

    Raises
    ------
    CalibrationError
        If there is none: rounding costs more than mu.
    """
    scale = plain.reach(near) / mu
    for _ in range(500):
        found = on_lattice(plain, near, scale, room)
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
