"""Audits of randomizers in exact arithmetic: from the integers they sample with."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from dpoco.local._randomizers import BitRandomizer, SubsetRandomizer

__all__ = ["PROBES", "Audit", "at_most_exp", "audit"]

_UNITS = 2**53
_DIGITS = 120
# Values a hostile server may make a query say, and an honest one may.
PROBES = (
    *(i / 64.0 for i in range(-64, 65)),
    *(math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, 2.0, -2.0),
)


class Audit(NamedTuple):
    """What an audit found.

    Attributes
    ----------
    epsilon : float
        What the randomizer promises.
    ratio : Fraction or None
        The largest ratio of two probabilities of one report, exactly; None where it is no rational
        number, e to the power of one.
    log_ratio : float
        Its logarithm, rounded.
    holds : bool
        Whether ``ratio <= e^epsilon``, decided in exact arithmetic.
    """

    epsilon: float
    ratio: Fraction | None
    log_ratio: float
    holds: bool


def audit(randomizer: Any) -> Audit:
    """Return the largest likelihood ratio of a randomizer over all pairs of labels.

    Parameters
    ----------
    randomizer : BitRandomizer, CoordinateRandomizer, SubsetRandomizer or VectorRandomizer
        Or any object with an attribute ``epsilon`` and a method ``largest_ratio() -> Fraction`` or
        ``largest_log_ratio() -> Fraction``, exact both.

    Returns
    -------
    Audit
        ``holds`` says whether the promise is kept.

    Raises
    ------
    ValueError
        For randomizers that promise a positive delta (of a vector: all noise but pure Laplace), or
        whose real-valued noise is for simulation only: no largest ratio is promised.
    TypeError
        For anything else.
    """
    promised = float(getattr(randomizer, "epsilon", math.nan))
    if getattr(randomizer, "delta", 0.0) > 0.0:
        raise ValueError("a randomizer with a positive delta promises no largest ratio")
    if getattr(randomizer, "float_noise", False):
        raise ValueError("real-valued noise is for simulation: it promises nothing")
    if isinstance(randomizer, BitRandomizer):
        ratio = _bit_ratio(randomizer)
    elif isinstance(randomizer, SubsetRandomizer):
        ratio = _subset_ratio(randomizer)
    elif hasattr(randomizer, "largest_ratio"):
        ratio = Fraction(randomizer.largest_ratio())
    elif hasattr(randomizer, "largest_log_ratio"):
        power = Fraction(randomizer.largest_log_ratio())
        return Audit(promised, None, float(power), power <= Fraction(promised))
    else:
        raise TypeError(f"{type(randomizer).__name__} is no randomizer with a finite law")
    context = Context(prec=_DIGITS)
    logarithm = context.ln(context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
    return Audit(promised, ratio, float(logarithm), at_most_exp(ratio, promised))


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """Return whether ``ratio <= e^epsilon``: decided with 120 digits, and never in favour."""
    power = Context(prec=_DIGITS).exp(Decimal(epsilon))  # within half a unit of the last digit
    return ratio <= Fraction(power) * (1 - Fraction(1, 10 ** (_DIGITS - 2)))


def _bit_ratio(randomizer: BitRandomizer) -> Fraction:
    """Return the ratio over all values of all queries: the bits are independent."""
    reached = [randomizer.threshold(phi) for phi in PROBES]
    least = min(*reached, randomizer.low)
    most = max(*reached, randomizer.high)
    if least <= 0 or most >= _UNITS:
        raise ValueError("an outcome of this randomizer has probability 0: no ratio is finite")
    ones, zeros = Fraction(most, least), Fraction(_UNITS - least, _UNITS - most)
    return max(ones, zeros) ** randomizer.bits


def _subset_ratio(randomizer: SubsetRandomizer) -> Fraction:
    """Return the ratio over own labels in the report, off it, and none: one report tells all."""
    report = tuple(range(randomizer.size))
    chances = [randomizer.probability(report, label) for label in (0, randomizer.size, None)]
    return max(chances) / min(chances)
