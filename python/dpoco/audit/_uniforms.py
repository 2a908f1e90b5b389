"""What ought to be independent uniforms: their law, repetitions, and draws from what is released.

The differences, and the sums, modulo 1 of pairs of independent uniforms are independent uniforms
themselves as long as the pairs form no cycle: every pair has a member that the others before it do
not determine. All pairs of columns at one lag are such a set, and so is a single pair in all runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpoco.audit import _bounds
from dpoco.audit._likelihood_base import Scores

__all__ = ["uniform_findings"]

FloatArray = NDArray[np.float64]
Pair = tuple[FloatArray, FloatArray]

# Pairs that are compared one by one, nearest first, of steps and of entries: all of 32.
_PAIRS = 496
# Lags whose pairs are compared together.
_LAGS = 256


def uniform_findings(worlds: list[Scores], error: float, rounding: float) -> Iterator[str]:
    """Yield where something is no sample of independent uniforms.

    Parameters
    ----------
    worlds : list of Scores
        Runs on either stream.
    error : float
        Probability of yielding anything where all is right, at most.
    rounding : float
        Allowance for grids and quadratures.

    Notes
    -----
    Dvoretzky, Kiefer and Wolfowitz's inequality; a fifth of the error each for the law, for
    repetitions at every lag, in every pair of steps and of entries, and for draws. Sorts at most
    2 (256 + 992) samples a stream.
    """
    share = error / (5.0 * len(worlds))
    for world, scores in enumerate(worlds):
        u = scores.uniforms
        if u.size:
            yield from _far(world, "the noise has another law than declared", u, share, rounding)
            for pairs in (_lagged(u), _steps(u), _entries(u)):
                yield from _repeated(world, pairs, share, rounding)
        for name, values in scores.draws.items():
            own = share / len(scores.draws)
            text = f"decisions are not drawn from what is released, seen by {name}"
            yield from _far(world, text, values, own, rounding)


def _far(world: int, text: str, values: FloatArray, error: float, rounding: float) -> Iterator[str]:
    far = _bounds.distance_to_uniform(values.ravel())
    if not far <= _bounds.dkw(values.size, error) + rounding:
        yield f"world {world}: {text} (distance {far:.3g})"


def _repeated(
    world: int, pairs: list[tuple[str, Pair]], error: float, rounding: float
) -> Iterator[str]:
    for sign, how in ((-1.0, ""), (1.0, " with its sign changed")):
        worst, where = 0.0, ""
        for name, (first, second) in pairs:
            values = ((first + sign * second) % 1.0).ravel()
            far = _bounds.distance_to_uniform(values)
            allowed = _bounds.dkw(values.size, error / (2.0 * len(pairs))) + rounding
            if not far <= allowed and not far <= worst:
                worst, where = far, name
        if where:
            yield f"world {world}: the noise repeats itself{how}, {where} (distance {worst:.3g})"


def _lagged(u: FloatArray) -> list[tuple[str, Pair]]:
    """Return all pairs at one lag together, for every lag."""
    lags = range(1, min(u.shape[1], _LAGS + 1))
    return [(f"at a lag of {lag}", (u[:, :-lag], u[:, lag:])) for lag in lags]


def _steps(u: FloatArray) -> list[tuple[str, Pair]]:
    return [
        (f"in steps {first + 1} and {second + 1}", (u[:, first], u[:, second]))
        for first, second in _nearest(u.shape[1])
    ]


def _entries(u: FloatArray) -> list[tuple[str, Pair]]:
    columns = u.shape[2] if u.ndim == 3 else 1
    return [
        (f"in entries {first + 1} and {second + 1}", (u[:, :, first], u[:, :, second]))
        for first, second in _nearest(columns)
    ]


def _nearest(count: int) -> list[tuple[int, int]]:
    """Return pairs of indices, nearest first, no more than are compared one by one."""
    pairs: list[tuple[int, int]] = []
    for lag in range(1, count):
        for first in range(count - lag):
            if len(pairs) == _PAIRS:
                return pairs
            pairs.append((first, first + lag))
    return pairs
