"""A learner whose batches are added up by workers: one place draws the noise and decides.

Within a batch the decision does not change. The leaves of records are rounded to whole numbers of
a fine grid, which add up to the same in any order and over any partition. Proof:
``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpoco._validation import Fields, FloatArray
from dpoco.errors import RoundOrderError
from dpoco.learning.record_learner import RecordLearner
from dpoco.privacy.mechanisms.bounds import GradientAndCurvature, SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum, batch_starts
from dpoco.privacy.neighbours import Neighbours
from dpoco.statistics import Tally

__all__ = ["Batch", "BatchPartition", "Batches"]

_BITS = 60  # bits of the sum of a longest batch: tallies stay within 2^61


@dataclass(frozen=True, eq=False)
class Batch:
    """The task of all workers in a batch. It was released, so it may be published.

    Attributes
    ----------
    round : int
        Rounds that are over.
    rounds : int
        Rounds of the batch: the records of all workers together.
    decision : ndarray, shape (d,)
        The learner's decision in all of them.
    """

    round: int
    rounds: int
    decision: FloatArray


class BatchPartition:
    """Computes, on a worker, the contribution of some records of a batch to a learner's sums.

    `Batches.partition` makes it. It can be pickled, holds no data and no noise, and is the same for
    all workers and batches.

    Parameters
    ----------
    kind : type
        The learner's class.
    header : dict
        What its states say about it.
    """

    def __init__(self, kind: type[Any], header: Fields) -> None:
        self._made_of = (kind, header)
        # This learner draws no noise: it clips and adds up, and its key is never used.
        self._learner: RecordLearner = kind._assemble(header)
        self._grid = _grid(_sum(self._learner))

    def __reduce__(self) -> tuple[object, ...]:
        return BatchPartition, self._made_of

    def tally(self, batch: Batch, features: ArrayLike, labels: ArrayLike) -> Tally:
        """Return the exact sums of some of a batch's records.

        Parameters
        ----------
        batch : Batch
            The batch in work.
        features : array_like of shape (n, d)
            Clipped as the learner does.
        labels : array_like of shape (n,)
            Labels of the same records.

        Returns
        -------
        Tally
            As secret as the records; `interval` is the batch's `round`.

        Raises
        ------
        ValueError, TypeError
            For a wrong shape or dtype, or more records than the batch has rounds.
        """
        rows, targets = self._learner._arrays(features, labels)
        if len(rows) > batch.rounds:
            raise ValueError(f"the batch has {batch.rounds} rounds; got {len(rows)} records")
        totals = np.zeros(_sum(self._learner).summand.size, dtype=np.int64)
        self._learner._engine.tally(batch.decision, rows, targets, self._grid, totals)
        return Tally(batch.round, totals, len(rows))


class Batches:
    """Plays a learner batch by batch, from tallies of workers.

    The learner holds noise and budget. Workers get a `BatchPartition` once and a `Batch` each time.
    Any partition of the records, and any order, gives the same bits.

    Parameters
    ----------
    learner : learner of `dpoco.oco` that sums second moments or curvatures
        With ``statistics="quadratic"``, also one that forgets, or one of Newton steps. It may have
        played whole batches, and it may be saved between them.

    Raises
    ------
    TypeError
        For other learners, those that enforce a participation, which needs the order of all
        records, and those that refuse records.
    ValueError
        For batches of one round, and for so many statistics (some thousands) that the rounding of
        records would not be covered by the guarantee.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.oco.NoisyNewton(
    ...     dpoco.domains.LpBall(3, 2.0), dpoco.losses.LogisticLoss(1.0), horizon=10_000,
    ...     budget=dpoco.Budget(1.0, 1e-6))
    >>> batches = dpoco.scale.Batches(learner)
    >>> partition = batches.partition()  # sent to workers
    >>> batch = batches.begin()
    >>> half = batch.rounds // 2
    >>> rows = [[0.6, 0.0, 0.8]]
    >>> one = partition.tally(batch, rows * half, [1.0] * half)
    >>> other = partition.tally(batch, rows * (batch.rounds - half), [1.0] * (batch.rounds - half))
    >>> batches.end([one, other])
    >>> learner.round == batch.rounds
    True
    """

    def __init__(self, learner: RecordLearner) -> None:
        summand = getattr(getattr(learner, "_mechanism", None), "summand", None)
        if not isinstance(summand, (GradientAndCurvature, SecondMoments)) or not isinstance(
            learner, RecordLearner
        ):
            raise TypeError(
                "only learners of statistics='quadratic' and of Newton steps add up whole batches"
            )
        # Only the order of all records shows who comes too often, and a worker has some of them.
        if learner._limiter is not None:
            raise TypeError(
                "participation is enforced, and workers do not know the rounds of others"
            )
        if learner._raises:
            raise TypeError("on_violation='raise' is for experiments on one machine")
        self._learner = learner
        self._grid = _grid(_sum(learner))

    def partition(self) -> BatchPartition:
        """Return an object that adds up part of a batch in another process or machine."""
        return BatchPartition(type(self._learner), self._learner._header())

    def begin(self) -> Batch:
        """Return the batch in work, to be sent to workers.

        Raises
        ------
        HorizonExceeded
            After the last round.
        RoundOrderError
            Within a batch that `observe` or `run` began; they have to end it.
        """
        learner = self._learner
        learner._check_rounds(1)
        total, done = _sum(learner), learner.round
        if total.growth is None:
            start, end = done - done % total.batch, done - done % total.batch + total.batch
        else:
            starts = pairwise(batch_starts(total.batch, total.growth))
            start, end = next((a, b) for a, b in starts if b > done)
        # The engine adds up the rounds of a batch itself: it cannot take over a part of one.
        if start < done:
            raise RoundOrderError(f"{done - start} rounds of a batch of {end - start} are over")
        rounds = min(end, learner.horizon) - done
        return Batch(done, rounds, np.ascontiguousarray(learner.last_decision))

    def end(self, tallies: Iterable[Tally]) -> None:
        """End the batch in work: draw its noise, and decide.

        Parameters
        ----------
        tallies : iterable of Tally
            Of all records of the batch, each in one of them.

        Raises
        ------
        ValueError
            For no tallies, for those of another batch or learner, or of more or fewer records;
            nothing changes.
        """
        parts = list(tallies)
        if not parts:
            raise ValueError("no tallies: those of all records of the batch are needed")
        first, *others = parts
        whole, batch = first.merge(*others), self.begin()
        size = _sum(self._learner).summand.size
        if whole.interval != batch.round or whole.cells.shape != (size,):
            raise ValueError(f"the tallies must be of the batch after {batch.round} rounds")
        # The engine counts rounds, and noise is scheduled by them.
        if whole.records != batch.rounds:
            raise ValueError(f"the batch has {batch.rounds} rounds; got {whole.records} records")
        with self._learner._alone():
            self._learner._check_rounds(batch.rounds)
            total = whole.cells.astype(np.float64) * self._grid
            self._learner._engine.observe_batch(batch.round, total, batch.rounds)


def _sum(learner: RecordLearner) -> GaussianSum:
    """Return the description of a learner's sum."""
    total = learner._mechanism
    assert isinstance(total, GaussianSum)
    return total


def _grid(total: GaussianSum) -> float:
    """Return the step of the grid of rounded records, or raise; proof: docs/privacy/lattice.md."""
    length, entry = total.longest_batch, total.summand.movement(Neighbours("zero_out"))
    if length == 1:
        raise ValueError(
            "with batches of one round, workers have nothing to add up: pass a larger batch"
        )
    # The grid is a power of two, so that its multiples are exact; sums of integers are the same in
    # any order.
    grid = 2.0 ** (math.frexp(length * entry)[1] - _BITS)
    lost = 2.0 * length * entry * 2.0**-53 + math.sqrt(total.summand.size) * grid
    # The least that is charged for batches in doubles, of a stream in which a record is emptied.
    charged = entry * 2.0**-53 * length * (length + 1.0 if total.growth is None else 5.0)
    # The claim already pays for the rounding of sums in doubles; tallies must not lose more.
    if lost > charged:
        raise ValueError(f"{total.summand.size} statistics are too many for tallies of workers")
    return float(grid)
