"""Locally private servers and devices in one process: experiments of millions of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpoco._divergences import kl_divergence, total_variation
from dpoco._validation import Fields, FloatArray, IntArray, instance, positive_int, real_in
from dpoco.learning.learner import Progress
from dpoco.local import ClientPool, DistributionLearner, Prediction
from dpoco.random import Source, checked_source

_CLOSE = 1e-6  # tolerance for sums of probabilities
_CHUNK = 8192  # rounds between two checks for an interrupt, if there are few entries
_CHUNK_ENTRIES = 2**26  # so that a chunk takes a fraction of a second


@dataclass(frozen=True, repr=False)
class LocalTrace:
    """Results of a simulation. **Not private**: they are computed from the truth.

    Attributes
    ----------
    kl : array of shape (T,) or None
        KL(f_*, prediction) of each round, nats; None without a truth.
    tv : array of shape (T,) or None
        Total variation distance of each round, half the l1 distance.
    checkpoints : array of shape (n,)
        Rounds after which weights were stored.
    weights : array of shape (n, K)
        Weights after these rounds.
    misses : int or None
        Number of rounds after which the true hypothesis was outside the confidence set; None
        without a set.
    first_miss : int or None
        First such round; None if there is none.
    subsets : int
        Number of rounds that asked for a subset.
    """

    kl: FloatArray | None
    tv: FloatArray | None
    checkpoints: IntArray
    weights: FloatArray
    misses: int | None
    first_miss: int | None
    subsets: int

    @property
    def kl_risk(self) -> float:
        """Sum of the KL divergences, in nats."""
        return float(_require(self.kl).sum())

    @property
    def mean_tv_risk(self) -> float:
        """Mean total variation distance."""
        return float(_require(self.tv).mean())

    def __repr__(self) -> str:
        rounds = "" if self.kl is None else f", kl_risk={self.kl_risk:.4g}"
        return f"LocalTrace(not private, checkpoints={len(self.checkpoints)}{rounds})"


def _require(values: FloatArray | None) -> FloatArray:
    """Return divergences from the truth; `ValueError` if no truth was given."""
    if values is None:
        raise ValueError("no truth was named, so there is no risk")
    return values


def simulate_local(
    learner: DistributionLearner,
    labels: ArrayLike,
    contexts: ArrayLike | None = None,
    *,
    truth: ArrayLike | None = None,
    source: Source | None = None,
    checkpoints: Sequence[int] = (),
    beta: float = 0.1,
    progress: Progress | None = None,
) -> LocalTrace:
    """Play a learner against devices with the given labels, one report per round.

    Parameters
    ----------
    learner : DistributionLearner
        The learner continues from its current state and ends in the state after the last round. Its
        guarantee is void from then on, because one process has seen all labels.
    labels : integer array of shape (T,)
        One label per round; any value out of range, such as -1, means "no event".
    contexts : sequence of length T, optional
        One context per round, if the hypotheses have contexts; also for private contexts.
    truth : int or array, optional
        Truth with which predictions are compared: a hypothesis, or distributions of shape (M,) or,
        for a table, (C, M). If it is a hypothesis, the confidence set is also checked.
    source : dpoco.random.Source, optional
        Noise of all devices; by default from the operating system. A seeded source makes a run
        reproducible.
    checkpoints : sequence of int
        Rounds (numbers, starting at 1) after which weights are stored.
    beta : float, default 0.1
        Parameter of the confidence set.
    progress : callable, optional
        Called as ``progress(done, total)`` between chunks.

    Raises
    ------
    HorizonExceeded, ValueError, TypeError
        If fewer rounds are left, and for arguments of wrong shape. Nothing is played.

    Notes
    -----
    Runs in compiled code, with the interpreter lock released, for arrays and tables of hypotheses
    where the posterior asks threshold or Hadamard questions or for subsets, and where hedge asks
    for uniformly drawn coordinates; otherwise round by round in Python. Both give the same reports
    and weights, bit for bit. An interrupt stops between chunks of rounds.
    """
    instance("learner", learner, DistributionLearner, "a DistributionLearner")
    own = np.asarray(labels)
    # Floats are refused: 1.7 is not a label, and probably belongs to another column.
    if own.ndim != 1 or own.dtype.kind not in "iu":
        raise TypeError("labels must be a sequence of ints, one a round")
    run = _Run(learner, np.ascontiguousarray(own, dtype=np.int64), contexts, checkpoints, beta)
    if truth is not None:
        run.measure(truth)
    # Spawned, because the caller may continue to draw from the source.
    noise = checked_source(Source() if source is None else source).spawn()
    with learner._lock:
        learner._check_left(own.size)
        # One process has seen all labels, for any noise.
        learner._simulated = learner._simulated or own.size > 0
        # None if hypotheses or the rule need Python. Both ways give the same bits.
        settings = run.compiled_settings()
        entries = learner.hypotheses.count * (learner.hypotheses.labels or 1)
        chunk = max(1, min(_CHUNK, _CHUNK_ENTRIES // entries))
        for start in range(0, own.size, chunk):
            part = slice(start, min(start + chunk, own.size))
            if settings is None:
                run.step_by_step(part, noise)
            else:
                run.play(part, noise, settings)
            if progress is not None:
                progress(part.stop, own.size)
    return run.trace()


class _Run:
    """One simulation: its input and output arrays, and how a slice of rounds is played."""

    def __init__(
        self,
        learner: DistributionLearner,
        labels: IntArray,
        contexts: Any,
        checkpoints: Sequence[int],
        beta: float,
    ) -> None:
        self.learner, self.labels = learner, labels
        if contexts is not None and len(contexts) != labels.size:
            raise ValueError("there must be one context a round")
        self.contexts = self._contexts(contexts)
        array = learner.hypotheses.array
        self.table = None if array is None else array.reshape(-1, *array.shape[-2:])  # (C, K, M)
        self.beta = real_in("beta", beta, "(0, 1)")
        self.named = -1  # index of the true hypothesis, if the truth is a hypothesis
        self.truth: FloatArray | None = None  # its distributions, shape (C, M), for arrays
        self.kl: FloatArray | None = None
        self.tv: FloatArray | None = None
        marks = sorted({positive_int("checkpoints", mark) for mark in checkpoints})
        first = learner.round + 1
        if marks and not first <= marks[0] <= marks[-1] < first + labels.size:
            raise ValueError("checkpoints must be numbers of the rounds played")
        self.marks = np.array(marks, dtype=np.int64)
        self.weights = np.zeros((len(marks), learner.hypotheses.count))
        self.misses = self.first_miss = self.subsets = 0

    def _contexts(self, contexts: ArrayLike | None) -> Any:
        """Return contexts in the form for the hypotheses, or raise."""
        hypotheses = self.learner.hypotheses
        if hypotheses.kind == "array":
            if contexts is not None:
                raise ValueError("these hypotheses have no context")
            return None
        if contexts is None:
            raise ValueError("contexts must be given: the hypotheses depend on them")
        if hypotheses.kind != "table":
            return contexts
        array = np.asarray(contexts)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise TypeError("contexts must be ints for a table of hypotheses")
        limit = hypotheses.contexts or 0
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < limit:
            raise ValueError(f"contexts must be in [0, {limit})")
        return np.ascontiguousarray(array, dtype=np.int64)

    def measure(self, truth: ArrayLike | None) -> None:
        """Compare predictions with a hypothesis or with given distributions."""
        hypotheses = self.learner.hypotheses
        contexts = hypotheses.contexts
        self.kl, self.tv = np.zeros(self.labels.size), np.zeros(self.labels.size)
        if isinstance(truth, (int, np.integer)) and not isinstance(truth, bool):
            if not 0 <= truth < hypotheses.count:
                raise ValueError(f"truth must be in [0, {hypotheses.count})")
            if hypotheses.labels is None:
                raise ValueError("likelihoods of labels have no KL-risk")
            self.named = int(truth)
            if self.table is not None:  # callables are called in every round
                self.truth = np.ascontiguousarray(self.table[:, truth])
            return
        if contexts is None:
            raise TypeError("truth must be the index of a hypothesis for callables")
        # A copy, because compiled code reads it while the caller's array may change.
        rows = np.array(truth, dtype=np.float64)
        rows = rows[None, :] if rows.ndim == 1 and contexts == 1 else rows
        if rows.shape != (contexts, hypotheses.labels):
            raise ValueError(f"truth must have shape ({contexts}, {hypotheses.labels})")
        # Checked before a round is played: compiled code does not check, and risks would be
        # meaningless.
        if not (np.all(rows >= 0.0) and np.allclose(rows.sum(axis=1), 1.0, rtol=0.0, atol=_CLOSE)):
            raise ValueError("truth must be distributions: nonnegative numbers with sum 1")
        self.truth = rows

    def compiled_settings(self) -> Fields | None:
        """Return the settings with which compiled code plays, or None if it cannot."""
        settings = self.learner.settings
        own = self.learner._rule.compiled_settings()
        if self.table is None or settings.labels is None or own is None:
            return None
        return {
            "seed": settings.public_seed,
            "epsilon": settings.epsilon,
            "confidence": self.beta,
            "named": self.named,
            **own,
        }

    def play(self, part: slice, noise: Source, settings: Fields) -> None:
        """Play a slice of rounds in compiled code."""
        learner = self.learner
        first, count = learner.round + 1, part.stop - part.start
        inside = (self.marks >= first) & (self.marks < first + count)
        weights = np.zeros((int(inside.sum()), learner.hypotheses.count))
        found = learner._rule.play(
            noise._engine,
            self.table,
            np.empty(0, dtype=np.int64) if self.contexts is None else self.contexts[part],
            self.labels[part],
            np.empty((0, 0)) if self.truth is None else self.truth,
            {**settings, "first": first, "checkpoints": self.marks[inside].tolist()},
            np.empty(0) if self.kl is None else self.kl[part],
            np.empty(0) if self.tv is None else self.tv[part],
            weights,
        )
        self.weights[inside] = weights
        # Rounds count from 1, and 0 means that there was none.
        self.first_miss = self.first_miss or found["first_miss"]
        self.misses += found["misses"]
        self.subsets += found["subsets"]
        learner._open.clear()
        learner.round += count
        learner.reports += count

    def step_by_step(self, part: slice, noise: Source) -> None:
        """Play a slice of rounds as a server and its devices would."""
        learner, hypotheses = self.learner, self.learner.hypotheses
        # If only labels are protected, the server knows the context and uses it for the question.
        private = learner.settings.protect != "label"
        count, epsilon = part.stop - part.start, learner.settings.epsilon
        # One device with the budget of all rounds answers every round.
        device = ClientPool(hypotheses, 1, count * epsilon, count, learner.settings.protect)
        device._source = noise  # from which the compiled loop also draws
        for i in range(part.start, part.stop):
            x = None if self.contexts is None else self.contexts[i]
            spec = learner.round_spec(None if private else x)
            if self.kl is not None and self.tv is not None:
                matrix = hypotheses.matrix(x)
                prediction = Prediction(learner.weights, learner.mixing, matrix=matrix).all()
                truth = matrix[self.named]
                if self.truth is not None:
                    truth = self.truth[0 if self.contexts is None else x]
                self.kl[i] = kl_divergence(truth, prediction)
                self.tv[i] = total_variation(truth, prediction)
            given = [x] if private and x is not None else x
            learner.update(spec, device.respond(spec, given, self.labels[i : i + 1]))
            self.subsets += spec.channel == "subset"
            self.weights[self.marks == spec.round] = learner.weights
            if self._watched and learner.posterior()[self.named] < self.beta / hypotheses.count:
                self.first_miss = self.first_miss or spec.round
                self.misses += 1

    @property
    def _watched(self) -> bool:
        """Whether the confidence set is checked after each round for a true hypothesis."""
        return self.named >= 0 and self.learner.get_params()["learner"] == "posterior"

    def trace(self) -> LocalTrace:
        """Return the measured results."""
        for array in (self.kl, self.tv, self.weights):
            if array is not None:
                array.flags.writeable = False
        misses, first = (self.misses, self.first_miss or None) if self._watched else (None, None)
        return LocalTrace(self.kl, self.tv, self.marks, self.weights, misses, first, self.subsets)
