"""Playing a learner over a stream: seeds, repeated runs, progress, and windows of rounds.

A seed is a path in a tree of names. No child depends on its siblings.
"""

from __future__ import annotations

import hashlib
import html
import math
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpoco._clipping import Flags, admitted_losses
from dpoco._validation import (
    Fields,
    FloatArray,
    IntArray,
    float_array,
    positive_float,
    positive_int,
    whole_number,
)
from dpoco.accounting import Guarantee
from dpoco.datasets import Stream
from dpoco.errors import HorizonExceeded
from dpoco.evaluation.reports import Report
from dpoco.experts import ExpertTrace
from dpoco.learners import plays
from dpoco.learning.learner import OnlineLearner, Progress
from dpoco.learning.participation import Persons
from dpoco.losses import LogisticLoss
from dpoco.random import Source
from dpoco.trace import Trace

# 8 MB of doubles.
_LARGEST_PART = 2**20  # number of entries of decisions that are kept at a time
_WINDOWS = 20


class Learner(Protocol):
    """The protocol of learners that can be played, compared, swept, drawn and checked.

    Every online learner of the library follows it. Your own class needs no base class and only
    these members; it takes ``horizon`` and ``source`` by name. `dpoco.audit.check_learner` tests
    whether it obeys the rules.

    Attributes
    ----------
    horizon, round : int
        Rounds that the guarantee covers, and rounds played.
    guarantee : Guarantee
        Guarantee of everything that is released, for example from `dpoco.Guarantee.gaussian`.
    domain, loss
        The problem, for a learner whose decisions are vectors, which are evaluated by
        ``loss.batch_values``. A learner whose decisions are experts has neither; its ``loss_range``
        is (0, 1) unless it states another.
    observe : callable
        Takes the parts of a round's record: features and label, a gradient, or losses of experts.
        It ends the round. A malformed record raises `ValueError` or `TypeError` that quotes no
        data, and a non-finite record counts as zero.

    Notes
    -----
    ``run(*data, record_decisions=, progress=)``, which returns a `dpoco.Trace`, is used if it
    exists; otherwise rounds are played one by one.
    """

    @property
    def horizon(self) -> int: ...
    @property
    def round(self) -> int: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def observe(self) -> Callable[..., None]: ...
    def decide(self) -> Any:
        """Return the round's decision: read-only float64 of shape (d,), or an expert's index.

        It stays the same until `observe`. Past the horizon it raises `HorizonExceeded`; `observe`
        without it raises `RoundOrderError`.
        """


class SeedTree:
    """A root seed and a path of names; every node has a separate seed.

    Parameters
    ----------
    seed : int, optional
        At least 0. None draws the root from the operating system; `seed` contains it.
    *path : str or int
        Names from the root to this node.

    Attributes
    ----------
    seed : int
        The root's seed, which reproduces the whole tree.
    path : tuple of str and int
        The names.

    Raises
    ------
    ValueError, TypeError
        For a negative seed, or names that are neither str nor int.

    Notes
    -----
    The seed of a node is SHA-256 of the root and the names, and depends on nothing else. You may
    add runs, leave them out, reorder them or distribute them over machines: each run has the same
    bits. Seeded noise voids guarantees; use it for experiments.

    Examples
    --------
    >>> from dpoco.evaluation import SeedTree
    >>> SeedTree(1).child("noise", 3) == SeedTree(1).child("noise").child(3)
    True
    """

    def __init__(self, seed: int | None = None, *path: str | int) -> None:
        if seed is None:
            # With 128 bits, roots that are drawn for different experiments do not coincide.
            seed = secrets.randbits(128)
        self.seed = whole_number("seed", seed)
        for name in path:
            if isinstance(name, bool) or not isinstance(name, (str, int, np.integer)):
                raise TypeError(f"names must be str or int; got {type(name).__name__}")
        self.path = tuple(name if isinstance(name, str) else int(name) for name in path)

    def child(self, *names: str | int) -> SeedTree:
        """Return the node with these names below this one."""
        return SeedTree(self.seed, *self.path, *names)

    def _digest(self, use: bytes) -> bytes:
        # The lengths distinguish ("a", "b") from ("ab",), and the kinds distinguish 1 from "1".
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
        """Return a new NumPy generator for simulated data; independent of `source`.

        With one seed for both, an environment would know the noise of the learners.
        """
        return np.random.default_rng(int.from_bytes(self._digest(b"world"), "little"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SeedTree):
            return NotImplemented
        return (self.seed, self.path) == (other.seed, other.path)

    def __hash__(self) -> int:
        return hash((self.seed, self.path))

    def __repr__(self) -> str:
        return f"SeedTree({', '.join(repr(name) for name in (self.seed, *self.path))})"


def repeat(
    build: Callable[[Source], Any],
    *data: Any,
    repeats: int | Iterable[int],
    seed: int | SeedTree | None = None,
    persons: Persons = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, Trace]:
    """Play the same stream several times; the noise of a run depends only on its number.

    Parameters
    ----------
    build : callable
        Returns an unstarted learner that takes its noise from the given source.
    *data
        The stream, as the learner's ``run`` takes it: features and labels, losses, or
        contexts and rewards.
    repeats : int or iterable of int
        How many runs, numbered from 0; or the numbers of the runs to play.
    seed : int or SeedTree, optional
        Root of the runs' seeds: run i is ``SeedTree(seed).child("run", i)``. None is the operating
        system's entropy.
    persons : array_like of int, str or bytes with shape (T,), optional
        The persons behind the rounds, if the learner enforces a participation.
    progress : callable, optional
        Called as ``progress(done, total)`` with rounds over all runs.

    Returns
    -------
    dict of int to Trace
        In the order of the numbers given; without decisions where ``run`` takes
        ``record_decisions``.

    Raises
    ------
    ValueError, TypeError
        For bad arguments, or numbers that are negative or occur twice.

    Notes
    -----
    Run i has the same bits whichever other runs are played, in any order and in any process. So you
    may split a long experiment over machines, or extend it later. Every run is another release:
    publishing several costs several budgets.
    """
    if isinstance(repeats, Iterable):
        numbers = [whole_number("numbers of runs", number) for number in repeats]
        if len(set(numbers)) != len(numbers):
            raise ValueError("the numbers of the runs must all be different")
    else:
        numbers = list(range(positive_int("repeats", repeats, maximum=10**6)))
    # It may be a node of a tree, so that an experiment of several parts has a single root.
    root = None if seed is None else seed if isinstance(seed, SeedTree) else SeedTree(seed)
    traces = play_all(build, noise_sources(root, numbers), data, progress, persons=persons)
    return dict(zip(numbers, traces, strict=True))


def noise_sources(root: SeedTree | None, numbers: Iterable[int]) -> list[Source]:
    """Return a source of noise for each of these runs."""
    return [Source() if root is None else root.child("run", n).source() for n in numbers]


def play_all(
    build: Callable[[Source], Any],
    sources: Sequence[Source],
    data: tuple[Any, ...],
    progress: Progress | None,
    **options: Any,
) -> list[Trace]:
    """Play a stream with a new learner for every source of noise."""
    # Decisions of all runs would need repeats * T * d numbers, and comparisons only read losses.
    count, options = len(sources), {**options, "record_decisions": False}
    return [
        play(build(source), *data, progress=share_progress(progress, index, count), **options)
        for index, source in enumerate(sources)
    ]


def check_people(learner: object, persons: Persons, rounds: int) -> None:
    """Raise unless the rounds' owners are given if and only if the learner uses them."""
    # The method with which runs read `persons` raises if they do not fit the learner.
    if isinstance(learner, OnlineLearner):
        learner._digests(persons, rounds)


class ProgressBar:
    """A bar to pass as ``progress=``, in a notebook cell or in a line of standard error.

    It shows how many rounds (or gradients, or cells) are done, and nothing that depends on data.

    Parameters
    ----------
    seconds : float, default 0.2
        Least time between two updates.

    Examples
    --------
    >>> learner.run(features, labels, progress=dpoco.evaluation.ProgressBar())  # doctest: +SKIP
    """

    def __init__(self, seconds: float = 0.2) -> None:
        # Redrawing a cell may take longer than a chunk of a run.
        self._seconds = positive_float("seconds", seconds)
        self._phase, self._shown, self._cell = "", -math.inf, None

    def __call__(self, *seen: Any) -> None:
        """Show ``(done, total)``, or ``(phase, done, total)``; every phase gets a separate bar."""
        *named, done, total = seen
        phase, now = f"{named[0]}: " if named else "", time.monotonic()
        over, new = done >= total, phase != self._phase or self._shown == -math.inf
        if not (over or new) and now - self._shown < self._seconds:
            return
        text = f"{phase}{done:,} of {total:,}"
        notebook = _display()
        if notebook is None:
            print(f"\r{text}", end="\n" if over else "", file=sys.stderr, flush=True)
        else:
            bar = f'<progress value="{done}" max="{total}"></progress> {html.escape(text)}'
            if new:
                self._cell = notebook.display(notebook.HTML(bar), display_id=True)
            elif self._cell is not None:
                self._cell.update(notebook.HTML(bar))
        # After the end of a run, the next one gets a separate bar, even in the same phase.
        self._phase, self._shown = phase, -math.inf if over else now


def _display() -> Any:
    """Return IPython's display module if the program runs in a notebook; otherwise None."""
    # In a notebook IPython is already imported. Importing it here would slow down other programs.
    shell = sys.modules.get("IPython")
    # The shell of notebooks; the shell of IPython in a terminal cannot show HTML.
    if shell is None or type(shell.get_ipython()).__name__ != "ZMQInteractiveShell":
        return None
    return import_module("IPython.display")


def share_progress(progress: Progress | None, index: int, count: int) -> Progress:
    """Return the callback for one of several runs, which reports the joint progress."""

    def report(done: int, total: int) -> None:
        # All runs have the same stream, so each has an equal share of the rounds.
        if progress is not None:
            progress(index * total + done, count * total)

    return report


def play(
    learner: Learner,
    *data: Any,
    record_decisions: bool = True,
    persons: Persons = None,
    **options: Any,
) -> Any:
    """Play a learner over a stream: with its ``run`` if it has one, otherwise round by round.

    A one-time fit is fitted to the stream, and its decision is evaluated on every record. It has
    used these records, so the losses are not those of an online learner.

    Parameters
    ----------
    learner : Learner, or a one-time fit
        Continued from its current round.
    *data
        The stream, one part for each argument of ``observe``: features and labels, gradients, or
        losses of experts.
    record_decisions : bool, default True
        Keep vector decisions in the trace.
    persons : array_like of int, str or bytes with shape (T,), optional
        The persons behind the rounds, if the learner enforces a participation.
    **options
        Further arguments of the learner's own ``run``. If it has none: ``progress``, called as
        ``progress(done, total)``.

    Returns
    -------
    Trace
        Not private; for a learner of experts an `ExpertTrace`.

    Raises
    ------
    HorizonExceeded
        If fewer rounds are left; no round is played.
    ValueError, TypeError
        As the learner's.
    """
    if plays(learner) == "experts" and len(data) != 1:
        raise TypeError("learners of experts take losses, and no labels")
    if plays(learner) == "batch":
        fitted: Any = learner
        fitted.fit(*data, progress=options.get("progress"))
        return _make_trace(fitted, data, fitted.theta, 0, record_decisions)
    if persons is not None:
        options["persons"] = persons
    if hasattr(learner, "run"):
        # Runs of experts and bandits always keep decisions, and do not take this argument.
        if plays(learner) not in ("experts", "arms", "surface"):
            options["record_decisions"] = record_decisions
        return learner.run(*data, **options)
    tell = options.pop("progress", None) or (lambda *_: None)
    if options:
        raise TypeError(f"{type(learner).__name__} has no run() that takes {sorted(options)}")
    rounds, first = len(data[0]), learner.round
    # Checked before the first round, because a run that stops in the middle has spent its rounds.
    if any(len(part) != rounds for part in data):
        raise ValueError("the parts of the stream must have the same number of rounds")
    if rounds > learner.horizon - first:
        raise HorizonExceeded(f"rounds asked for: {rounds}, left: {learner.horizon - first}")
    played = []
    for t, record in enumerate(zip(*data, strict=True), 1):
        played.append(learner.decide())
        learner.observe(*record)
        tell(t, rounds)
    return _make_trace(learner, data, np.array(played), first, record_decisions)


def _make_trace(
    learner: Any, data: tuple[Any, ...], decisions: Any, first: int, keep: bool
) -> Trace:
    """Return the trace of these decisions: experts, or vectors with the learner's own loss."""
    if not hasattr(learner, "loss"):
        (table,) = data
        rows, (low, high) = np.asarray(table, np.float64), getattr(learner, "loss_range", (0, 1))
        # An empty array would have floats, which are not indices.
        decisions = np.asarray(decisions, dtype=np.int64)
        own = admitted_losses(rows[np.arange(len(rows)), decisions], low, high)
        return ExpertTrace.of(rows, (own - low) / (high - low), decisions, first, (low, high))
    rows, domain, loss = np.asarray(data[0], np.float64), learner.domain, learner.loss
    labels = np.asarray(data[1], np.float64) if len(data) > 1 else None

    # Not local functions, which could not be pickled when sent from another process.
    lose = partial(_lose, domain, loss, rows, labels)
    # The decision of a fit represents all rounds without being copied for each.
    size = domain.dimension
    table = np.broadcast_to(np.reshape(decisions, (-1, size)), (len(rows), size))
    changed = np.flatnonzero(np.any(table[1:] != table[:-1], axis=1))
    # A fit reads records with its loss alone; for other classes this is unknown.
    known = partial(_flag, domain, loss, rows, labels) if plays(learner) == "batch" else None
    return Trace(lose(table), changed, first, table if keep else None, lose, known)


def _lose(
    domain: Any, loss: Any, rows: FloatArray, labels: FloatArray | None, theta: FloatArray
) -> FloatArray:
    """Return the losses of all rounds, shape (T,), for one decision or one per round."""
    return np.asarray(loss.batch_values(domain, theta, rows, labels))


def _flag(
    domain: Any, loss: Any, rows: FloatArray, labels: FloatArray | None, part: slice
) -> Flags:
    """Return how a loss reads some of the records."""
    own = None if labels is None else labels[part]
    return {**loss._flags(domain, rows[part], own), "missing": ~np.isfinite(rows[part])}


@dataclass(frozen=True)
class Snapshot:
    """Results of a learner so far. **Not private**: losses are computed from raw records.

    Attributes
    ----------
    round : int
        Number of rounds played so far, including those before a resume.
    average_loss : float
        Mean loss per round of this run so far.
    since_last : float
        Mean loss per round since the previous snapshot.
    regret : float
        Total loss so far minus that of the best decision for the whole stream.
    switches : int
        Number of rounds of this run so far after which the decision changed.
    epsilon : float
        Epsilon of the guarantee, which covers all rounds from the first one on; infinite without
        privacy.
    """

    round: int
    average_loss: float
    since_last: float
    regret: float
    switches: int
    epsilon: float


def doubling_parts(first: int, rounds: int) -> Iterator[slice]:
    """Yield slices of `rounds` rounds that end at rounds whose number is a power of two.

    Parameters
    ----------
    first : int
        Number of rounds played before.
    rounds : int
        Length of the run; the last slice ends there.
    """
    # Powers of two give few snapshots in a long run, and many while the learner still changes.
    start = 0
    while start < rounds:
        mark = 1 << (first + start).bit_length()  # the next power of two
        stop = min(rounds, mark - first)
        yield slice(start, stop)
        start = stop


@dataclass(frozen=True, repr=False)
class PrequentialResult(Report):
    """Measures of a run over windows of rounds. **Not private**: computed from raw records.

    In records, NaN is written as None.

    Attributes
    ----------
    ends : tuple of int
        Number of the last round of each window, counted from 1.
    measures : dict of str to tuple of float
        For every measure, its mean over each window. NaN for a window without labels.
    overall : dict of str to float
        The same over all rounds.
    switches : tuple of int
        Rounds of each window after which the decision changed.
    """

    schema: ClassVar[str] = "dpoco.prequential/1"
    _beside: ClassVar[tuple[str, ...]] = ("private",)
    ends: tuple[int, ...]
    measures: dict[str, tuple[float, ...]]
    overall: dict[str, float]
    switches: tuple[int, ...]

    def _further_fields(self) -> Fields:
        return {"private": False}

    def _about(self) -> str:
        return f"of {len(self.ends)} windows"


def prequential(
    learner: Any,
    stream: Stream | Any,
    labels: ArrayLike | None = None,
    *,
    window: int | None = None,
    measures: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] | None = None,
    persons: Persons = None,
    progress: Callable[[int, int], None] | None = None,
) -> PrequentialResult:
    """Play a stream and evaluate every decision on the next record before learning from it.

    Parameters
    ----------
    learner : learner of `dpoco.frank_wolfe`, `dpoco.oco` or `dpoco.experts`
        Learner with a generalised linear loss, or of experts; continued from its current round.
    stream : Stream, or array_like of shape (T, d)
        Records; for experts, their losses, shape (T, N).
    labels : array_like of shape (T,), optional
        If `stream` is not a `Stream`.
    window : int, optional
        Rounds per window; the last one may be shorter. Default: about twenty windows.
    measures : dict of str to callable, optional
        Further measures for records with labels: ``measure(margins, labels)``, both of shape (n,),
        returns a value for each round; the margin of a round is ``<decision, record>``.
    persons : array_like of int, str or bytes with shape (T,), optional
        The persons behind the rounds, if the learner enforces a participation. Records beyond a
        person's limit are also evaluated; the learner just does not learn from them.
    progress : callable, optional
        Called as ``progress(done, total)``.

    Returns
    -------
    PrequentialResult
        Always ``loss``, clipped as the learner clips it. Logistic loss: ``error`` (share of rounds
        whose more likely label was wrong) and ``brier`` (squared error of the probability). Squared
        and Huber loss: ``absolute_error`` and ``squared_error``. These use raw records without
        clipping; rounds with a missing record or label do not count.

    Raises
    ------
    HorizonExceeded
        If fewer than T rounds are left; no round is played.
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    Feedback comes at the end of its round: there are no delayed labels. Decisions are kept in
    parts, so memory is O(T) and not O(T d). The learner's guarantee covers the decisions and not
    these measures.
    """
    experts = plays(learner) == "experts"
    if not experts and not getattr(getattr(learner, "loss", None), "glm", False):
        raise TypeError("the learner must be of experts, or have a generalised linear loss")
    if isinstance(stream, Stream):
        if experts or labels is not None:
            raise TypeError("a Stream brings its labels, and has no losses of experts")
        records, labels = stream.features, stream.labels
    else:
        records = stream
    if experts and (labels is not None or measures):
        raise TypeError("learners of experts take no labels and no further measures")
    if not experts and labels is None:
        raise TypeError("labels are required by this loss")
    width = learner.experts if experts else learner.domain.dimension
    rows = float_array("stream", records, (None, width))
    rounds = len(rows)
    if rounds == 0:
        raise ValueError("the stream must have at least one round")
    # Rounded up, so that there are at most `_WINDOWS` windows.
    size = -(-rounds // _WINDOWS) if window is None else positive_int("window", window)
    check_people(learner, persons, rounds)
    if rounds > learner.horizon - learner.round:
        raise HorizonExceeded(
            f"rounds asked for: {rounds}, left: {learner.horizon - learner.round}"
        )
    if experts:
        trace = learner.run(rows, persons=persons, progress=progress)
        switches, values = trace.switches, {"loss": trace.losses}
    else:
        targets = float_array("labels", labels, (rounds,))
        # Checked before the first round, because an error after the last round could not undo the
        # run.
        taken = ["loss", *_standard_measures(learner.loss, np.empty(0), np.empty(0))]
        if not set(taken).isdisjoint(measures or {}):
            raise ValueError(f"there are already measures {sorted(taken)}")
        losses, margins, switches = _margins(learner, rows, targets, persons, progress)
        values = {"loss": losses, **_measure_rounds(learner.loss, margins, targets, measures or {})}
    starts = np.arange(0, rounds, size)
    ends = np.minimum(starts + size, rounds)
    return PrequentialResult(
        ends=tuple(int(end) for end in ends),
        measures={
            name: tuple(_mean(column[a:b]) for a, b in zip(starts, ends, strict=True))
            for name, column in values.items()
        },
        overall={name: _mean(column) for name, column in values.items()},
        switches=tuple(np.bincount(switches // size, minlength=len(ends)).tolist()),
    )


def _margins(
    learner: Any, rows: FloatArray, targets: FloatArray, persons: Any, progress: Progress | None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Play in parts; return losses and margins of all rounds, and the rounds with a switch."""
    rounds, dimension = rows.shape
    losses, margins = np.empty(rounds), np.empty(rounds)
    switches = [np.empty(0, np.int64)]
    # At least one round, however large a decision is.
    part = max(1, _LARGEST_PART // dimension)
    for start in range(0, rounds, part):
        here = slice(start, min(rounds, start + part))
        people = None if persons is None else persons[here]
        trace = play(learner, rows[here], targets[here], persons=people)
        losses[here] = trace.losses
        # On raw records, like a user's own model; only the loss uses clipped records.
        margins[here] = np.einsum("td,td->t", trace.decisions, rows[here])
        switches.append(start + trace.switches)
        if progress is not None:
            progress(here.stop, rounds)
    return losses, margins, np.concatenate(switches)


def _measure_rounds(
    loss: Any,
    margins: FloatArray,
    targets: FloatArray,
    further: dict[str, Callable[[FloatArray, FloatArray], FloatArray]],
) -> dict[str, FloatArray]:
    """Return the measures of all rounds, shape (T,) each; NaN if record or label is missing."""
    present = np.isfinite(margins) & np.isfinite(targets)
    z, y = margins[present], targets[present]
    found = _standard_measures(loss, z, y)
    found |= {name: float_array(name, measure(z, y), z.shape) for name, measure in further.items()}
    columns = {name: np.full(len(targets), np.nan) for name in found}
    for name, values in found.items():
        columns[name][present] = values
    return columns


def _standard_measures(loss: Any, z: FloatArray, y: FloatArray) -> dict[str, FloatArray]:
    """Return the usual measures for such a loss, from margins and labels, shape (n,)."""
    if isinstance(loss, LogisticLoss):
        # By `tanh`, because exp(-z) overflows for margins below -709.
        probability = 0.5 * (1.0 + np.tanh(0.5 * z))
        return {"error": (z > 0.0) != (y > 0.5), "brier": (probability - y) ** 2}
    return {"absolute_error": np.abs(z - y), "squared_error": (z - y) ** 2}


def _mean(values: FloatArray) -> float:
    """Return the mean of the known values; NaN, without NumPy's warning, if there are none."""
    present = values[~np.isnan(values)]
    return float(present.mean()) if present.size else float("nan")
