"""How the noise of gradients is best correlated for what an optimiser makes of them.

Any choice is private: only public sizes decide. The measure is the root of the mean, over all
steps, of the exact variance of a view of the noisy gradients, at equal privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.signal import lfilter

from dpoco._validation import FloatArray
from dpoco.accounting import continual_sum
from dpoco.accounting.forgetting import INDEPENDENT, damp
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised
from dpoco.privacy.neighbours import Neighbours

__all__ = ["choose_factorisation", "view_noise"]

_LONGEST = 2**20  # steps whose variances are computed one by one


def choose_factorisation(steps: int, near: Neighbours, half_life: float) -> Buffered:
    """Return the factorisation with the least noise in a view of the gradients of all steps.

    Parameters
    ----------
    steps : int
        n, the steps of the whole training.
    near : Neighbours
        How often one person comes.
    half_life : float
        Steps after which the view gives a gradient half the weight; infinite for their sum. The
        iterates of SGD are such a sum, with momentum and without.
    """
    known = [each for each in _candidates(steps, near, half_life) if each.fits(steps)]
    return min(known, key=lambda each: view_noise(each, steps, near, half_life))


def view_noise(factor: Buffered, steps: int, near: Neighbours, half_life: float) -> float:
    """Return the root mean square noise of a view at unit sensitivity and mu = 1, exactly.

    Over all steps, or the first 2^20.
    """
    n, column = min(steps, _LONGEST), factor.column(steps, near)
    if isinstance(factor, Normalised):
        if half_life < math.inf:
            raise ValueError("views that forget have a variance for draws of one scale only")
        return column * continual_sum.root_mean_square_row(factor, steps)
    weights = _view(factor, n, half_life)
    return column * math.sqrt(float(np.mean(np.cumsum(weights**2))))


def _view(factor: Buffered, steps: int, half_life: float) -> FloatArray:
    """Return what the view at the end makes of all draws, the last one first, shape (steps,)."""
    sums = continual_sum.decoder(factor, steps)
    if half_life == math.inf:
        return sums
    increments = np.diff(sums, prepend=0.0)
    return np.asarray(lfilter([1.0], [1.0, -(2.0 ** (-1.0 / half_life))], increments))


def _candidates(steps: int, near: Neighbours, half_life: float) -> Iterator[Buffered]:
    yield INDEPENDENT
    best = continual_sum.choose_buffers(steps, near)
    for method in {best, continual_sum.planned("blt", steps, near)}:
        found = continual_sum.factorisation(method, steps)
        if isinstance(found, Buffered) and (half_life == math.inf or type(found) is Buffered):
            yield found
        if type(found) is Buffered:
            lives = [half_life * f for f in (0.5, 1.0, 2.0, 4.0)]
            if half_life == math.inf:
                lives = [near.separation * 2.0**i for i in range(-2, 6)] if near.rounds > 1 else []
            for life in lives:
                yield damp(found, 2.0 ** (-1.0 / life))
