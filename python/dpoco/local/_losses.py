"""Centred, mixed log-losses: what loss queries ask for and hedge learns from.

With ``p_j = (1 - lam) f_j + lam f`` (``f`` the mean of the hypotheses), the loss of hypothesis j
on label y is ``u_j(y) = -log p_j(y) - b(y)``, where ``b(y)`` is the mid-point between the largest
and the smallest ``-log p_j(y)`` over j. Taking out ``b(y)``, which is common to all hypotheses,
changes no weight, and it bounds ``|u_j(y)|`` by D/2, ``D = log(1 + (1 - lam) K / lam)``, for every
class of hypotheses and any number of labels. A label impossible under every hypothesis has
``u = 0``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpoco import _core

__all__ = ["device_losses", "loss_diameter", "loss_ranges", "losses"]

FloatArray = NDArray[np.float64]


def _check_mixing(mixing: float) -> float:
    if not 0.0 < mixing <= 1.0:
        raise ValueError(f"mixing must be in (0, 1]; got {mixing!r}")
    return float(mixing)


def loss_diameter(hypotheses: int, mixing: float) -> float:
    """Return D = log(1 + (1 - mixing) K / mixing): no two losses of a label differ by more."""
    lam = _check_mixing(mixing)
    return float(_core.local_log(1.0 + (1.0 - lam) * hypotheses / lam))


def losses(matrix: FloatArray, mixing: float) -> FloatArray:
    """Return the centred mixed log-losses of all labels.

    Parameters
    ----------
    matrix : array of shape (K, M)
        Distributions in rows.
    mixing : float
        lam in (0, 1].

    Returns
    -------
    array of shape (K, M)
        u_j(y), in [-D/2, D/2] nats.
    """
    lam = _check_mixing(mixing)
    values: FloatArray = _core.local_centred_losses(np.ascontiguousarray(matrix, float), lam)
    return values


def device_losses(column: FloatArray, mixing: float) -> FloatArray:
    """Return the losses of one label from its K likelihoods; zeros for an impossible label.

    Parameters
    ----------
    column : array of shape (K,)
        Likelihoods of one label under the hypotheses; densities are allowed.
    mixing : float
        lam in (0, 1].

    Returns
    -------
    array of shape (K,)
        u_j, in [-D/2, D/2] nats. O(K).
    """
    return losses(np.ascontiguousarray(column, dtype=np.float64)[:, None], mixing)[:, 0]


def loss_ranges(matrix: FloatArray, mixing: float) -> tuple[FloatArray, FloatArray]:
    """Return mid-points and half ranges of every hypothesis' loss over the possible labels.

    Parameters
    ----------
    matrix : array of shape (K, M)
        Distributions in rows.
    mixing : float
        lam in (0, 1].

    Returns
    -------
    middle, half_range : arrays of shape (K,)
        ``(max + min) / 2`` and ``(max - min) / 2`` over labels that some hypothesis allows; the
        half range is at least 1e-12. O(K M).
    """
    lam = _check_mixing(mixing)
    middle, half_range, _ = _core.local_loss_ranges(np.ascontiguousarray(matrix, float), lam)
    return middle, half_range
