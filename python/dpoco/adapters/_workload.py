"""How the noise of gradients is best correlated for what an optimiser makes of them.

Any choice is private: only public sizes decide. The measure is the root of the mean, over all
steps, of the exact variance of a view of the noisy gradients, at equal privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dpoco.accounting import continual_sum
from dpoco.accounting.continual_sum import choose
from dpoco.accounting.continual_sum_rates import search_rates
from dpoco.accounting.forgetting import INDEPENDENT, damp, view_noise
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised
from dpoco.privacy.neighbours import Neighbours

__all__ = ["Correlated", "choose_factorisation", "view_error"]

Correlated = Buffered | Banded

_LONGEST = 2**20  # steps whose variances are computed one by one
_KEPT = 2**25  # numbers of past noise that a band may keep: 256 MB
_TILTS = (0.15, 0.2, 0.25)


def choose_factorisation(
    steps: int, near: Neighbours, half_life: float, dimension: int = 1
) -> Correlated:
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
    dimension : int
        d: bands keep so many numbers a step, and are not taken where that is too much memory.
    """
    known: list[Correlated] = [
        each for each in _candidates(steps, near, half_life) if each.fits(steps)
    ]
    if half_life == math.inf:
        known += _bands(steps, near, dimension)
    return choose(known, lambda each: (view_error(each, steps, near, half_life),))[0]


def view_error(factor: Correlated, steps: int, near: Neighbours, half_life: float) -> float:
    """Return the root mean square noise of a view at unit sensitivity and mu = 1, exactly.

    Over all steps, or the first 2^20.
    """
    if isinstance(factor, Normalised | Banded):
        if half_life < math.inf:
            raise ValueError("views that forget have a variance for draws of one scale only")
        return continual_sum.mean_error(factor, steps, near)
    kept = np.full(min(steps, _LONGEST), 2.0 ** (-1.0 / half_life))
    deviations = view_noise(factor, kept)[0]
    return factor.column(steps, near) * math.sqrt(float(np.mean(deviations**2)))


def _candidates(steps: int, near: Neighbours, half_life: float) -> Iterator[Buffered]:
    yield INDEPENDENT
    best = continual_sum.choose_buffers(steps, near)
    methods = {best, continual_sum.planned("blt", steps, near)}
    if near.rounds > 1:
        methods.add(search_rates(steps, near.rounds, near.separation, mean=True))
    for method in methods:
        found = continual_sum.factorisation(method, steps)
        if isinstance(found, Buffered) and (half_life == math.inf or type(found) is Buffered):
            yield found
        if type(found) is Buffered:
            lives = [half_life * f for f in (0.5, 1.0, 2.0, 4.0)]
            if half_life == math.inf:
                lives = [near.separation * 2.0**i for i in range(-2, 6)] if near.rounds > 1 else []
            for life in lives:
                yield damp(found, 2.0 ** (-1.0 / life))


def _bands(steps: int, near: Neighbours, dimension: int) -> Iterator[Banded]:
    """Yield bands, most of whose columns are the longer the earlier they are."""
    for band in continual_sum.bands(steps, near)[:1]:
        if band.band * dimension <= _KEPT:
            yield from (replace(band, tilt=tilt) for tilt in _TILTS)
