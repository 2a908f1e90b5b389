"""Accounting of the generalized Gaussian mechanism: density prop. to exp(-||z||_r^2/(2 sigma^2)).

Claims, for an l_q sensitivity D and 2 <= r < infinity, with
kappa(r) = (r - 1) d^max(0, 2/r - 2/q):

* the mechanism is rho-zCDP with rho = kappa(r) D^2 / (2 sigma^2), and
* it is mu-GDP with mu = sqrt(kappa(r)) D / sigma (which implies the former).

For q < 2 only r = 2 is used, the plain Gaussian with kappa = 1. Orders below 2 have no finite
smoothness constant and are refused.

Proof: ``docs/privacy/generalized_gaussian.md``. Source: Han et al., DP-TOFW, Lemmas 2.1 and 3.2,
corrected: the printed exponent min{q - 1, ln d - 1} is a smoothness constant, not an order.
"""

from __future__ import annotations

import math

from dpoco._validation import exponent, positive_float, positive_int
from dpoco.privacy.mechanisms.norms import smoothness_constant
from dpoco.privacy.special import special_functions

__all__ = ["best_order", "coordinate_variance", "expected_norm_bound",
           "generalized_gaussian_mu", "paper_order"]  # fmt: skip


def best_order(q: float, dimension: int) -> float:
    """Return the order in [2, q] with the smallest `smoothness_constant`.

    log kappa has derivative 1/(r-1) - 2 ln(d)/r^2, negative exactly between the two roots of
    r^2 - 2 ln(d) (r - 1); the smaller root is at most 2.
    """
    q = exponent("q", q)
    log_d = math.log(positive_int("dimension", dimension))
    if log_d <= 2.0 or q <= 2.0:
        return 2.0
    return max(2.0, min(q, log_d + math.sqrt(log_d * (log_d - 2.0))))


def paper_order(q: float, dimension: int) -> float:
    """Return the order the paper intends: max(2, min(q, ln d)) (Lemma 3.2, corrected)."""
    q = exponent("q", q)
    return max(2.0, min(q, math.log(positive_int("dimension", dimension))))


def generalized_gaussian_mu(
    sensitivity: float, sigma: float, order: float, q: float, dimension: int
) -> float:
    """Return the GDP parameter sqrt(kappa(r)) D / sigma for l_q sensitivity D."""
    sensitivity = positive_float("sensitivity", sensitivity)
    sigma = positive_float("sigma", sigma)
    return math.sqrt(smoothness_constant(order, q, dimension)) * sensitivity / sigma


def coordinate_variance(order: float, dimension: int) -> float:
    """Return E Z_1^2 / sigma^2 for density prop. to exp(-||z||_r^2 / (2 sigma^2)).

    ||Z||_r^2 / (2 sigma^2) is Gamma(d/2) and, independently, (|Z_1| / ||Z||_r)^r is
    Beta(1/r, (d-1)/r); the second moment is the product of the two.

    Parameters
    ----------
    order : float
        r in [1, inf]; the law needs no privacy claim here.
    dimension : int
        Number of coordinates d.

    Returns
    -------
    float
        1 for d = 1 or r = 2; (d + 2)/3 for r = inf.
    """
    return math.exp(
        _log_moment(2.0, exponent("order", order), positive_int("dimension", dimension))
    )


def expected_norm_bound(order: float, q: float, dimension: int) -> float:
    """Return an upper bound on E||Z||_q / sigma for density prop. to exp(-||z||_r^2/(2 sigma^2)).

    By Jensen E||Z||_s <= (d E|Z_1|^s)^(1/s), and ||z||_q <= ||z||_s for s <= q; the bound is the
    best over a grid of s. For the plain Gaussian and q = inf the sharper sqrt(2 ln(2d)) is used.
    """
    order, q = exponent("order", order), exponent("q", q)
    dimension = positive_int("dimension", dimension)
    bounds = [
        math.exp((_log_moment(s, order, dimension) + math.log(dimension)) / s)
        for s in {min(q, 2.0**k) for k in range(8)} | {min(q, 2.0 * math.log(2.0 * dimension) + 1)}
    ]
    if order == 2.0 and q >= 2.0:
        # ||z||_q <= d^(1/q) max|z_i|, and E max|z_i| <= sqrt(2 ln(2d)).
        bounds.append(math.sqrt(2.0 * math.log(2.0 * dimension)) * dimension ** (1.0 / q))
    return min(bounds)


def _log_moment(power: float, order: float, dimension: int) -> float:
    """Return log E|Z_1|^power for sigma = 1 by the two independent factors."""
    betaln, gammaln = special_functions().betaln, special_functions().gammaln
    d, s = float(dimension), power
    radius = 0.5 * s * math.log(2.0) + float(gammaln(0.5 * s) - betaln(0.5 * d, 0.5 * s))
    if dimension == 1:
        return radius
    if order == math.inf:
        # The limit: one coordinate is the maximum, the others are uniform below it.
        return radius + math.log((1.0 + (d - 1.0) / (s + 1.0)) / d)
    # Gamma((1+s)/r) Gamma(d/r) / (Gamma(1/r) Gamma((d+s)/r)) through two beta functions.
    angle = float(betaln(d / order, s / order) - betaln(1.0 / order, s / order))
    return radius + angle


def noise_in_words(order: float) -> str:
    """Return "Gaussian noise" for order 2, or "generalized Gaussian noise, r = 3"."""
    return "Gaussian noise" if order == 2.0 else f"generalized Gaussian noise, r = {order:g}"
