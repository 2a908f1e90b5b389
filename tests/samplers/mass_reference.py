"""Masses of Gaussians in boxes and balls, in high precision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath

DIGITS = 60


def box(half_widths: Sequence[float], mean: Sequence[mpmath.mpf], scale: mpmath.mpf) -> mpmath.mpf:
    """ln P(|x_i| <= h_i for all i), x of law N(mean, scale^2 I)."""
    with mpmath.workdps(DIGITS):
        total = mpmath.mpf(0)
        for h, m in zip(half_widths, mean, strict=True):
            low = (abs(m) - h) / (scale * mpmath.sqrt(2))
            high = (abs(m) + h) / (scale * mpmath.sqrt(2))
            total += mpmath.log((mpmath.erfc(low) - mpmath.erfc(high)) / 2)
        return total


def ball(n: int, m: mpmath.mpf, r: mpmath.mpf) -> mpmath.mpf:
    """ln P(|x| <= r), x of law N(mean, I) in R^n, |mean| = m > 0.

    exp(-(m^2 + r^2)/2) sum (r/m)^(n/2+k) I_(n/2+k)(m r), the Bessel functions downwards.
    """
    with mpmath.workdps(DIGITS):
        m, r = mpmath.mpf(m), mpmath.mpf(r)
        z, q = m * r, r / m
        peak = max(0.0, 0.5 * float((r - m) * (r + m)) - n / 2)
        spread = float(max(r * r + m * m, 2 * z)) / 2 if r > m else float(z)
        terms = int(peak + 14 * math.sqrt(spread) + 120)
        order = mpmath.mpf(n) / 2
        # Miller: downwards from anywhere above, up to a factor that I_order tells.
        after, at, total = mpmath.mpf(0), mpmath.mpf(1), mpmath.mpf(0)
        for k in range(terms + 400, -1, -1):
            if k <= terms:
                total = at + q * total
            if k > 0:
                after, at = at, after + 2 * (order + k) / z * at
        factor = mpmath.besseli(order, z) / at
        return -(m * m + r * r) / 2 + order * mpmath.log(q) + mpmath.log(total * factor)
