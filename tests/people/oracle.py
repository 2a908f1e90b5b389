"""Every pattern in which a person may come, and what it moves: by counting, for small streams.

Nothing here calls the accounting: how many rounds fit, where batches end and what a factorisation
is are said once more, from their definitions or from what an engine does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.factorisations import Normalised, SquareRoot, Tree

__all__ = ["gram", "growing_lengths", "histories", "patterns", "worst"]

FloatArray = NDArray[np.float64]


def _grown(start: int, length: int, left: int, separation: int) -> Iterator[tuple[int, ...]]:
    yield ()
    if left:
        for t in range(start, length):
            for rest in _grown(t + separation, length, left - 1, separation):
                yield (t, *rest)


@cache
def patterns(length: int, rounds: int, separation: int) -> tuple[tuple[int, ...], ...]:
    """Return all sets of at most `rounds` rounds, any two at least `separation` apart."""
    return tuple(_grown(0, length, rounds, separation))[1:]


def growing_lengths(first: int, growth: str | None, pushes: int) -> list[int]:
    """Return the lengths of batches, as the docstring of `GaussianSum` defines them."""
    lengths: list[int] = []
    for _ in range(pushes):
        over = sum(lengths)
        grown = {
            None: 0, "root": min(over // 10, math.isqrt(4 * over)), "quarter": over // 4,
        }[growth]  # fmt: skip
        lengths.append(max(first, grown))
    return lengths


def gram(method, n: int) -> FloatArray:
    """Return |C|' |C| of n pushes: all dyadic nodes of a tree, coefficients of the others."""
    if isinstance(method, Tree):
        nodes = [(h, i) for h in range(n.bit_length()) for i in range(n >> h)]
        table = np.zeros((len(nodes), n))
        for row, (h, i) in zip(table, nodes, strict=True):
            row[i << h : (i + 1) << h] = 1.0
        return table.T @ table
    if isinstance(method, Banded):
        c = [math.prod((i - 0.43) / i for i in range(1, r + 1)) for r in range(method.band)]
        c += [0.0] * (n - method.band)
    elif isinstance(method, SquareRoot):
        c = [math.comb(2 * i, i) / 4.0**i for i in range(n)]
    else:
        pairs = list(zip(method.decay, method.weights, strict=True))
        c = [1.0, *(sum(w * (1.0 - s) ** i for s, w in pairs) for i in range(n - 1))]
    table = np.array([[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    if isinstance(method, Normalised):
        table = table / np.repeat(method.levels, np.diff(method.ends, prepend=0))[:n]
    if isinstance(method, Banded):
        table = table / np.array(method.levels)[:n]
    return table.T @ table


def worst(table: FloatArray, lengths: list[int], rounds: int, separation: int) -> float:
    """Return the longest sum of columns of a pattern, where push i adds up `lengths[i]` rounds.

    Rounds behind the last push move nothing, and may be hers.
    """
    pushes = len(lengths)
    block = np.repeat(np.arange(pushes), lengths)
    every = patterns(len(block), rounds, separation)
    counts = np.array([np.bincount(block[list(p)], minlength=pushes) for p in every])
    return math.sqrt(np.einsum("pi,ij,pj->p", counts, table, counts, optimize=True).max())


def orders(arms: int, forced: int, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Return all orders of forced pulls, one of those that differ in the arms' names alone."""
    if len(done) == arms * forced:
        yield done
        return
    known = max(done, default=-1) + 1
    for arm in range(min(arms, known + 1)):
        if done.count(arm) < forced:
            yield from orders(arms, forced, (*done, arm))


def histories(
    arms: int, forced: int, choices: int, rounds: int, separation: int
) -> Iterator[FloatArray]:
    """Yield what a person's rounds move, of shape (arms, rounds of a clock).

    In the first ``arms * forced`` rounds one arm's clock runs, `forced` times every arm's, in any
    order; then there are `choices` rounds in which all clocks run and one arm gets the record.
    """
    start = arms * forced
    for order in orders(arms, forced):
        for places in patterns(start + choices, rounds, separation):
            early = [t for t in places if t < start]
            late = [t for t in places if t >= start]
            for given in itertools.product(range(arms), repeat=len(late)):
                moved = np.zeros((arms, forced + choices))
                for t in early:
                    moved[order[t], order[:t].count(order[t])] = 1.0
                moved[list(given), [forced + t - start for t in late]] = 1.0
                yield moved
