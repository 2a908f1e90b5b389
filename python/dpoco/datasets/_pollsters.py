"""Pollsters against the approval they tried to measure: linear losses, bundled with river."""

from __future__ import annotations

import gzip

import numpy as np
from numpy.typing import NDArray

from dpoco.datasets._river import bundled_file

__all__ = ["POLLSTERS", "pollster_losses"]

POLLSTERS = ("gallup", "ipsos", "morning_consult", "rasmussen", "you_gov")

# Public: an error of ten percentage points or more is a total loss.
_WORST_ERROR = 10.0


def pollster_losses() -> NDArray[np.float64]:
    """Daily errors of five pollsters, as losses of the mixtures one may put on them.

    Each of 1 001 days, pollster i's loss is its distance from the day's consensus approval rating
    of a president, in units of ten percentage points, at most 1. A decision in the simplex puts
    weights on the pollsters; its loss ``<losses[t], x>`` is linear.

    Returns
    -------
    ndarray of float64, shape (1001, 5)
        In [0, 1]; columns as in ``POLLSTERS``.

    Raises
    ------
    ImportError
        Without river: ``pip install "dpoco[data]"``.

    Notes
    -----
    Data: FiveThirtyEight's approval averages (CC BY 4.0), as bundled with river.
    """
    with gzip.open(bundled_file("TrumpApproval", "river"), "rt", encoding="utf-8") as file:
        names = file.readline().strip().split(",")
        table = np.loadtxt(file, delimiter=",")
    polls = table[:, [names.index(name) for name in POLLSTERS]]
    truth = table[:, names.index("five_thirty_eight")]
    losses: NDArray[np.float64] = np.minimum(np.abs(polls - truth[:, None]) / _WORST_ERROR, 1.0)
    return losses
