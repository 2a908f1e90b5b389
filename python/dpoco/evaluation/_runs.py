"""Playing a learner over a stream, repeatedly: seeds, runs, and how they are going.

A seed is a path in a tree of names, in which no child depends on its siblings.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco._learner import Progress
from dpoco._validation import positive_int, whole_number
from dpoco.learners import plays
from dpoco.random import Source
from dpoco.trace import Trace


class SeedTree:
    """A root seed and a path of names; every node has a seed of its own.

    Parameters
    ----------
    seed : int, optional
        At least 0. None takes the root from the operating system; `seed` tells it.
    *path : str or int
        Names from the root to this node.

    Attributes
    ----------
    seed : int
        The root's seed: what reproduces the whole tree.
    path : tuple of str and int
        The names.

    Raises
    ------
    ValueError, TypeError
        For a negative seed, or names that are neither str nor int.

    Notes
    -----
    The seed of a node is SHA-256 of the root and the names, so it depends on nothing else: runs may
    be added, left out, reordered or spread over machines, and each stays the same to the bit.
    Seeded noise voids guarantees; this is for experiments.

    Examples
    --------
    >>> from dpoco.evaluation import SeedTree
    >>> SeedTree(1).child("noise", 3) == SeedTree(1).child("noise").child(3)
    True
    """

    def __init__(self, seed: int | None = None, *path: str | int) -> None:
        if seed is None:
            seed = secrets.randbits(128)
        self.seed = whole_number("seed", seed)
        for name in path:
            if isinstance(name, bool) or not isinstance(name, (str, int, np.integer)):
                raise TypeError(f"names must be str or int; got {type(name).__name__}")
        self.path = tuple(name if isinstance(name, str) else int(name) for name in path)

    def child(self, *names: str | int) -> SeedTree:
        """Return the node below this one with these names."""
        return SeedTree(self.seed, *self.path, *names)

    def _digest(self, use: bytes) -> bytes:
        # Lengths first, so that ("a", "b") and ("ab",) differ; the kind, so that 1 and "1" do.
        hashed = hashlib.sha256(b"dpoco seed tree" + use)
        for name in (self.seed, *self.path):
            text = str(name).encode()
            kind = b"s" if isinstance(name, str) else b"i"
            hashed.update(kind + len(text).to_bytes(8, "little") + text)
        return hashed.digest()

    def source(self) -> Source:
        """Return a new seeded source of noise: equal nodes give equal noise."""
        return Source.seeded(int.from_bytes(self._digest(b"noise"), "little"))

    def generator(self) -> np.random.Generator:
        """Return a new NumPy generator for simulated data; independent of `source`."""
        return np.random.default_rng(int.from_bytes(self._digest(b"world"), "little"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SeedTree):
            return NotImplemented
        return (self.seed, self.path) == (other.seed, other.path)

    def __hash__(self) -> int:
        return hash((self.seed, self.path))

    def __repr__(self) -> str:
        return f"SeedTree({', '.join(repr(name) for name in (self.seed, *self.path))})"


def repeat_runs(
    build: Callable[[Source], Any],
    features: Any,
    labels: Any = None,
    *,
    repeats: int,
    seed: int | None = None,
    progress: Progress | None = None,
) -> list[Trace]:
    """Play the same stream several times, each time with independent noise.

    Parameters
    ----------
    build : callable
        Returns an unstarted learner that takes its noise from the given source.
    features, labels : array_like
        The stream, as the learner's ``run`` takes it; for learners of experts the losses, shape
        (T, N), and nothing else.
    repeats : int
        Number of runs.
    seed : int, optional
        Makes all runs reproducible; run i does not depend on `repeats`. None is the operating
        system's entropy.
    progress : callable, optional
        Called as ``progress(done, total)`` with rounds over all runs.

    Returns
    -------
    list of Trace
        Without decisions; for learners of experts `ExpertTrace`, which has them.

    Notes
    -----
    For evaluation only: every run is a release of its own, and publishing several of them costs
    several budgets.
    """
    count = positive_int("repeats", repeats, maximum=10**6)
    data = (features,) if labels is None else (features, labels)
    return play_all(build, [root_source(seed)] * count, data, progress)


def play_all(
    build: Callable[[Source], Any],
    sources: Sequence[Source],
    data: tuple[Any, ...],
    progress: Progress | None,
) -> list[Trace]:
    """Play a stream with a new learner for every source of noise."""
    count = len(sources)
    return [
        play_through(build(source), data, progress=part_of(progress, index, count))
        for index, source in enumerate(sources)
    ]


def part_of(progress: Progress | None, index: int, count: int) -> Progress:
    """Return the callback of one run of several, which tells the progress of them all."""

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(index * total + done, count * total)

    return report


def keeps_decisions(learner: Any) -> bool:
    """Return whether the traces of a learner always have its decisions: they are no vectors."""
    return plays(learner) in ("experts", "arms", "surface")


def play_through(learner: Any, data: tuple[Any, ...], **options: Any) -> Any:
    """Run a learner over the stream, without keeping decisions where they are vectors."""
    if plays(learner) == "experts" and len(data) != 1:
        raise TypeError("learners of experts take losses, and no labels")
    if not keeps_decisions(learner):
        options["record_decisions"] = False
    return learner.run(*data, **options)


def root_source(seed: int | None) -> Source:
    """Return a source that seeds all runs, or one of the operating system's entropy."""
    return Source() if seed is None else Source.seeded(seed)


@dataclass(frozen=True)
class Snapshot:
    """A learner's record so far. **Not private**: losses are computed from raw records.

    Attributes
    ----------
    round : int
        Rounds played so far, those before a resume included.
    average_loss : float
        Mean loss per round of this run so far.
    since_last : float
        Mean loss per round since the snapshot before.
    regret : float
        Total loss so far minus that of the decision that is best over the whole stream.
    switches : int
        Rounds of this run so far after which the decision changed.
    epsilon : float
        Of the guarantee: it covers all rounds from the first one on; infinite without privacy.
    """

    round: int
    average_loss: float
    since_last: float
    regret: float
    switches: int
    epsilon: float


def doubling_parts(first: int, rounds: int) -> Iterator[slice]:
    """Yield slices of `rounds` rounds that end where the round's number is a power of two.

    Parameters
    ----------
    first : int
        Rounds played before.
    rounds : int
        Length of the run; the last slice ends there.
    """
    start = 0
    while start < rounds:
        mark = 1 << (first + start).bit_length()  # the next power of two
        stop = min(rounds, mark - first)
        yield slice(start, stop)
        start = stop
