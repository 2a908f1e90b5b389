"""Releases of the batch baselines on a grid: how fine it is, and what rounding to it costs.

Claim: vectors with entries up to B, of which neighbouring ones are up to D apart in l2, are rounded
to multiples of a grid g and m of them added up, without error. With noise N(0, s^2) rounded to g
the sum is mu-GDP, mu = (D + sqrt(d) g) / s, whatever the data.

Proof: ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math

from dpoco._validation import choice
from dpoco.accounting.lattice import MASS_PER_VARIATE, NUMERICS
from dpoco.accounting.release import plain_numerics
from dpoco.accounting.truncation import TAIL_MASS_PER_VARIATE
from dpoco.errors import CalibrationError

__all__ = ["charged_movement", "counted_variates", "exact_scale", "grid_of", "resolved"]

_FINEST_BITS, _COARSEST_BITS = 28, 16
_FARTHEST = 2.0**49  # grids that a sum may reach; the compiled classes clamp at twice as many
# "auto" takes the grid if it makes the noise no more than this much larger.
_LARGEST_INFLATION = 0.01
# Rounding of the vectors' entries, of norms' conversions and of these functions, relative.
_ROUNDING = 2.0**-46


def grid_of(noise_scale: float, largest: float, count: int = 1) -> float:
    """Return the finest grid that holds the sum of `count` vectors with entries up to `largest`.

    Raises
    ------
    CalibrationError
        If it would be too coarse for noise of this scale.
    """
    exponent = math.frexp(noise_scale)[1] - 1
    for bits in range(_FINEST_BITS, _COARSEST_BITS - 1, -1):
        grid = math.ldexp(1.0, exponent - bits)
        if not 2.0**-900 < grid < 2.0**900:
            break
        if count * (largest / grid + 2.0) <= _FARTHEST:
            return grid
    raise CalibrationError(
        f"no grid holds sums of {count} vectors of noise scale {noise_scale:.3g}; fewer records, "
        "more noise or numerics='float'"
    )


def charged_movement(
    movement: float, noise_scale: float, largest: float, count: int, dimension: int
) -> float:
    """Return D + sqrt(d) g, D the l2 movement of the sum, upper bounds of both."""
    grid = grid_of(noise_scale, largest, count)
    return (movement + math.sqrt(dimension) * grid) * (1.0 + _ROUNDING)


def exact_scale(
    movement: float, multiplier: float, largest: float, count: int, dimension: int
) -> float:
    """Return the least noise scale of the mean that is `multiplier` times what it has to hide.

    Raises
    ------
    CalibrationError
        If rounding needs more than a few percent of noise, or no grid will do.
    """
    scale = movement * multiplier / count
    for _ in range(8):
        # Times the count as the compiled class has it.
        needed = multiplier * charged_movement(movement, scale * count, largest, count, dimension)
        if needed <= scale * count:
            return scale
        scale = needed / count * (1.0 + 2.0**-50)
    raise CalibrationError(
        "rounding to a grid would need much more noise; use numerics='float' or a larger epsilon"
    )


def resolved(
    numerics: str, calibration: str, private: bool, releases: list[tuple[float, float, float, int]],
    dimension: int,
) -> str:  # fmt: skip
    """Return the arithmetic meant by `numerics`; "auto" takes a grid where it costs little noise.

    Parameters
    ----------
    numerics : {"auto", "float", "lattice"}
        As asked for.
    calibration : str
        Published constants have no place for rounding.
    private : bool
        Whether there is noise.
    releases : list of (float, float, float, int)
        Movement of a sum, noise multiplier, largest entry, number of vectors.
    dimension : int
        Entries of a vector.

    Raises
    ------
    ValueError
        For "lattice" with published constants.
    CalibrationError
        For "lattice" where no grid will do.
    """
    choice("numerics", numerics, ("auto", *NUMERICS))
    if calibration != "tight":
        if numerics == "lattice":
            raise ValueError("numerics 'lattice' is for calibration 'tight'")
        return "float"
    if not private:
        return plain_numerics(numerics, "gaussian")
    if numerics == "float":
        return "float"
    try:
        for movement, multiplier, largest, count in releases:
            scale = exact_scale(movement, multiplier, largest, count, dimension)
            most = (1.0 + _LARGEST_INFLATION) * movement * multiplier / count
            if scale > most and numerics == "auto":
                return "float"
    except CalibrationError:
        if numerics == "lattice":
            raise
        return "float"
    return "lattice"


def counted_variates(count: float, numerics: str) -> float:
    """Return variates with truncated tails that cost as much as `count` ones of this arithmetic."""
    return count * (MASS_PER_VARIATE / TAIL_MASS_PER_VARIATE) if numerics == "lattice" else count
