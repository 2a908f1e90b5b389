"""Test, then train: how well each decision did on the record that came next, window by window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpoco._record_learner import RecordLearner
from dpoco._validation import FloatArray, IntArray, float_array, positive_int
from dpoco.datasets import Stream
from dpoco.evaluation.reports import Report
from dpoco.learners import plays
from dpoco.losses import LogisticLoss

_LARGEST_PART = 2**20  # decisions kept at a time, in entries
_WINDOWS = 20


@dataclass(frozen=True)
class PrequentialResult(Report):
    """Measures of a run over windows of rounds. **Not private**: computed from raw records.

    In records NaN is None.

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

    def _stated(self) -> dict[str, Any]:
        return {"private": False}

    def __repr__(self) -> str:
        return (
            f"<dpoco.evaluation.PrequentialResult of {len(self.ends)} windows: not private, for "
            "evaluation only>"
        )


def prequential(
    learner: Any,
    stream: Stream | Any,
    labels: Any = None,
    *,
    window: int | None = None,
    measures: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PrequentialResult:
    """Play a stream and judge every decision on the record that comes next, before it is learned.

    Parameters
    ----------
    learner : learner of `dpoco.frank_wolfe`, `dpoco.oco` or `dpoco.experts`
        With a generalised linear loss, or of experts; continued from its current round.
    stream : Stream, or array_like of shape (T, d)
        Records; for experts, their losses, shape (T, N).
    labels : array_like of shape (T,), optional
        If `stream` is not a `Stream`.
    window : int, optional
        Rounds per window; the last one may be shorter. Default: about twenty windows.
    measures : dict of str to callable, optional
        Further measures for records with labels: ``measure(margins, labels)``, both of shape (n,),
        returns a value for each round; the margin of a round is ``<decision, record>``.
    progress : callable, optional
        Called as ``progress(done, total)``.

    Returns
    -------
    PrequentialResult
        ``loss`` always, clipped as the learner clips it. Logistic loss: ``error`` (share of rounds
        whose more likely label was wrong) and ``brier`` (squared error of the probability). Squared
        and Huber loss: ``absolute_error`` and ``squared_error``. Of raw records: nothing is
        clipped; rounds with a missing record or label do not count.

    Raises
    ------
    HorizonExceeded
        If fewer than T rounds are left: no round is played.
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    Feedback comes at the end of its round: there are no delayed labels. Decisions are kept in
    parts, so memory is O(T) and not O(T d). The learner's guarantee covers the decisions and not
    these measures.
    """
    experts = plays(learner) == "experts"
    if not experts and not (isinstance(learner, RecordLearner) and learner.loss.glm):
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
    size = -(-rounds // _WINDOWS) if window is None else positive_int("window", window)
    learner._check_rounds(rounds)
    if experts:
        trace = learner.run(rows, progress=progress)
        switches, values = trace.switches, {"loss": trace.losses}
    else:
        targets = float_array("labels", labels, (rounds,))
        losses, margins, switches = _margins(learner, rows, targets, progress)
        values = {"loss": losses, **_measured(learner.loss, margins, targets, measures or {})}
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
    learner: Any, rows: FloatArray, targets: FloatArray, progress: Callable[[int, int], None] | None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Play in parts; return losses and margins of all rounds, and those that end with a switch."""
    rounds, dimension = rows.shape
    losses, margins = np.empty(rounds), np.empty(rounds)
    switches = [np.empty(0, np.int64)]
    part = max(1, _LARGEST_PART // dimension)
    for start in range(0, rounds, part):
        here = slice(start, min(rounds, start + part))
        trace = learner.run(rows[here], targets[here])
        losses[here] = trace.losses
        margins[here] = np.einsum("td,td->t", trace.decisions, rows[here])
        switches.append(start + trace.switches)
        if progress is not None:
            progress(here.stop, rounds)
    return losses, margins, np.concatenate(switches)


def _measured(
    loss: Any,
    margins: FloatArray,
    targets: FloatArray,
    further: dict[str, Callable[[FloatArray, FloatArray], FloatArray]],
) -> dict[str, FloatArray]:
    present = np.isfinite(margins) & np.isfinite(targets)
    z, y = margins[present], targets[present]
    if isinstance(loss, LogisticLoss):
        probability = 0.5 * (1.0 + np.tanh(0.5 * z))  # overflows for no margin
        found = {"error": (z > 0.0) != (y > 0.5), "brier": (probability - y) ** 2}
    else:
        found = {"absolute_error": np.abs(z - y), "squared_error": (z - y) ** 2}
    if further.keys() & {"loss", *found}:
        raise ValueError(f"there are measures {sorted(found)} and 'loss' already")
    found |= {name: float_array(name, measure(z, y), z.shape) for name, measure in further.items()}
    columns = {name: np.full(len(targets), np.nan) for name in found}
    for name, values in found.items():
        columns[name][present] = values
    return columns


def _mean(values: FloatArray) -> float:
    present = values[~np.isnan(values)]
    return float(present.mean()) if present.size else float("nan")
