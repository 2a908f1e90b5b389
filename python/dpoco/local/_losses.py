"""Centred, mixed log-losses: what loss queries ask for and hedge learns from.

With ``p_j = (1 - lam) f_j + lam f`` (``f`` the mean of the hypotheses), the loss of hypothesis j
on label y is ``u_j(y) = -log p_j(y) - b(y)``, where ``b(y)`` is the mid-point between the largest
and the smallest ``-log p_j(y)`` over j. Taking out ``b(y)``, which is common to all hypotheses,
changes no weight, and it bounds ``|u_j(y)|`` by D/2, ``D = log(1 + (1 - lam) K / lam)``, for every
class of hypotheses and any number of labels. A label impossible under every hypothesis has
``u = 0``.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core

__all__ = ["SMALLEST_HALF_RANGE", "kept", "loss_diameter", "loss_ranges", "losses"]

FloatArray = NDArray[np.float64]
T = TypeVar("T")

SMALLEST_HALF_RANGE = 1e-12  # of a loss that all labels share
_KEPT_BYTES = 2**27
_store: OrderedDict[Hashable, tuple[Any, Any, int]] = OrderedDict()
_held = [0]  # bytes
_lock = threading.Lock()


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

    `matrix` holds distributions in rows, shape (K, M); u_j(y), the same shape, is in [-D/2, D/2]
    nats, for a mixing lam in (0, 1].
    """
    lam = _check_mixing(mixing)
    values: FloatArray = _core.local_centred_losses(np.ascontiguousarray(matrix, float), lam)
    return values


def loss_ranges(matrix: FloatArray, mixing: float) -> tuple[FloatArray, FloatArray]:
    """Return mid-points and half ranges of every hypothesis' loss over the possible labels.

    ``(max + min) / 2`` and ``(max - min) / 2`` over labels that some hypothesis allows, shape (K,)
    each; the half range is at least 1e-12. O(K M).
    """
    lam = _check_mixing(mixing)
    middle, half_range, _ = _core.local_loss_ranges(np.ascontiguousarray(matrix, float), lam)
    return middle, half_range


def kept(matrix: FloatArray, settings: Hashable, build: Callable[[], T]) -> T:
    """Return what `build` makes of a public array, at best as it was made before.

    The array is recognised by its identity, which the store keeps alive; it is read-only. What was
    not asked for longest goes first, once arrays and tables together exceed 128 MB.
    """
    key = (id(matrix), settings)
    with _lock:
        if key in _store:
            _store.move_to_end(key)
            found: T = _store[key][1]
            return found
    made = build()
    if not matrix.flags.writeable:
        with _lock:
            # A table of contexts is alive anyway.
            size = 0 if matrix.base is not None else matrix.nbytes
            parts = made if isinstance(made, tuple) else (getattr(made, "table", None),)
            size += sum(getattr(part, "nbytes", 0) for part in parts) + 4096
            if key not in _store:  # another thread may have been faster
                _store[key] = (matrix, made, size)
                _held[0] += size
            while len(_store) > 1 and _held[0] > _KEPT_BYTES:
                _held[0] -= _store.popitem(last=False)[1][2]
    return made
