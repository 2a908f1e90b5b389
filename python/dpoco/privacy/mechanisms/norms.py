"""Comparison of vector norms, and the smoothness of the norms that noise is measured in.

Proof: ``docs/privacy/generalized_gaussian.md``.
"""

from __future__ import annotations

import math

__all__ = ["check_norm", "largest_l2", "smoothness_constant"]


def smoothness_constant(order: float, q: float, dimension: int) -> float:
    """Return kappa(order), by which generalised Gaussian noise inflates a squared l_q sensitivity.

    Parameters
    ----------
    order : float
        Order r of the noise norm, 2 <= r < infinity; must be 2 if q < 2.
    q : float
        Order in which the sensitivity is measured, in [1, inf].
    dimension : int
        Number of coordinates d.

    Raises
    ------
    ValueError
        If no privacy claim holds for this order.
    """
    check_norm(q)
    if not 2.0 <= order < math.inf:
        raise ValueError(f"order must be in [2, inf); got {order!r}")
    # For q below 2 the power of the dimension is 0 at every order, so kappa is least at order 2,
    # the only order that is accepted.
    if q < 2.0 and order != 2.0:
        raise ValueError(f"order must be 2 when the sensitivity norm has q < 2; got {order!r}")
    if not dimension >= 1:
        raise ValueError(f"dimension must be at least 1; got {dimension!r}")
    power = max(0.0, 2.0 / order - 2.0 / q)
    return (order - 1.0) * math.pow(dimension, power)


def largest_l2(bound: float, norm: float, dimension: int) -> float:
    """Return the largest l2 norm of a vector with ||g||_norm <= bound."""
    return bound * math.pow(dimension, max(0.0, 0.5 - 1.0 / norm))


def check_norm(norm: float) -> None:
    """Raise `ValueError` for an exponent of a norm below 1."""
    if not norm >= 1.0:
        raise ValueError(f"an exponent of a norm must be in [1, inf]; got {norm!r}")
