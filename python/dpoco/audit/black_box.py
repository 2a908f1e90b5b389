"""Black-box audit: run a mechanism on two neighbouring streams and count.

Whatever the code does inside, an event that is too much more probable on one of two neighbouring
streams than on the other refutes a claimed (epsilon, delta). The confidence intervals are exact, so
what is reported as violated is violated but for a probability of 1 - confidence. The converse does
not hold: an audit that finds nothing has seen two streams and one event. It therefore never says
that a claim holds, only how large a violation it would have found. Proofs:
``docs/privacy/black_box.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_int, real_float
from dpoco.audit._counts import Counts
from dpoco.audit._events import Event, best_event, members_of
from dpoco.audit._runs import LearnerRuns, learner_runs
from dpoco.random import Source

__all__ = ["BlackBoxReport", "black_box_audit", "epsilon_lower_bound", "learner_runs"]

Run = Callable[[Any, int, Source], Any]

_CONFIDENCE = 1.0 - 1e-6


def epsilon_lower_bound(
    hits: int,
    trials: int,
    neighbour_hits: int,
    neighbour_trials: int,
    *,
    delta: float = 0.0,
    confidence: float = _CONFIDENCE,
) -> float:
    """Return an epsilon that a mechanism exceeds, given how often an event was seen.

    Parameters
    ----------
    hits, trials : int
        How often the event occurred on the stream, in how many independent runs.
    neighbour_hits, neighbour_trials : int
        The same on the neighbouring stream.
    delta : float, default 0
        The delta that is granted, in [0, 1).
    confidence : float, default 1 - 1e-6
        Probability that the statement is true, in (0, 1), whatever the mechanism. The event must
        have been fixed before these runs were looked at.

    Returns
    -------
    float
        At least 0. With probability `confidence`, the mechanism is not (epsilon, delta)
        differentially private for any smaller epsilon.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    Both probabilities have two-sided Clopper-Pearson intervals at level (1 - confidence) / 2 each,
    so all four tails together err with at most 1 - confidence. Then the inequality of the
    definition is checked in both directions, for the event and for its complement: no further
    multiplicity. Needs scipy.
    """
    counts = Counts.checked(hits, trials, neighbour_hits, neighbour_trials)
    return counts.epsilon(_checked_delta(delta), 1.0 - _checked_confidence(confidence))


@dataclass(frozen=True)
class BlackBoxReport:
    """Outcome of a black-box audit; computed from what the mechanism released.

    Attributes
    ----------
    claimed : float
        The epsilon that was put to the test.
    delta : float
        The delta that was granted.
    measured : float
        Lower confidence bound on the true epsilon, from the test half.
    detectable : float
        The smallest true epsilon that would have been reported as a violation with probability at
        least 0.9, had the tested event kept its probability on the stream where it is rarer; inf if
        no epsilon would have.
    event : str
        Which event was tested.
    hits, neighbour_hits : int
        How often it occurred in the test half, on either stream.
    trials : int
        Runs of the test half, on each stream.
    confidence : float
        Probability of not reporting a violation where there is none.
    """

    claimed: float
    delta: float
    measured: float
    detectable: float
    event: str
    hits: int
    neighbour_hits: int
    trials: int
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted. False does not say that it holds."""
        return self.measured > self.claimed

    def __str__(self) -> str:
        claim = f"epsilon = {self.claimed:.4g}, delta = {self.delta:.3g}"
        if self.violated:
            verdict = f"VIOLATED: {claim} is refuted"
        elif math.isinf(self.detectable):
            verdict = f"no power: no violation of {claim} could have shown"
        else:
            verdict = f"no violation of {claim} found"
        power = (
            "no epsilon would have been found on this event; take more trials or another event"
            if math.isinf(self.detectable)
            else f"a true epsilon of {self.detectable:.4g} or more would have been found"
        )
        return "\n".join(
            [
                f"Black-box audit: {verdict}",
                f"  epsilon is at least {self.measured:.4g}, at confidence {self.confidence:.9g}",
                f"  {power}",
                f"  event: {self.event}; in {self.hits} and {self.neighbour_hits} of "
                f"{self.trials} runs each",
            ]
        )


def black_box_audit(
    run: Run,
    stream: Any,
    neighbour: Any,
    *,
    epsilon: float,
    trials: int,
    events: Event | Sequence[Event | str] | None = None,
    delta: float = 0.0,
    confidence: float = _CONFIDENCE,
    seed: int = 0,
) -> BlackBoxReport:
    """Test a claimed (epsilon, delta) on two neighbouring streams.

    Parameters
    ----------
    run : callable
        ``run(stream, count, source)`` runs the mechanism `count` times, independently, with
        randomness from the source, and returns the outcomes, one row each. For learners use
        `learner_runs`.
    stream, neighbour : object
        Two streams that differ in one round, as `run` takes them.
    epsilon : float
        The claim, at least 0.
    trials : int
        Runs on each stream, at least 2. Half of them train, half of them test.
    events : callable or sequence of callables, optional
        Each maps the outcomes to one bool a row. The training half decides which one is tested.
        None takes the one that `learn_event` learns from it: a likelihood-ratio set of outcomes
        that repeat, a threshold along the best-separating direction for vectors of real numbers.
        The word "learned" among the events adds it to them.
    delta : float, default 0
        The claimed delta, in [0, 1).
    confidence : float, default 1 - 1e-6
        Probability, in (0, 1), of not reporting a violation where there is none.
    seed : int, default 0
        Seed of the source.

    Returns
    -------
    BlackBoxReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments, or if `run` or an event returns the wrong number of rows; with
        `learner_runs` also for streams that are no neighbours: at most one round may differ.

    Notes
    -----
    One event is tested, on runs that had no part in choosing it, so choosing costs no confidence.
    """
    claimed = real_float("epsilon", epsilon)
    if claimed < 0.0:
        raise ValueError(f"epsilon must not be negative; got {claimed!r}")
    granted, error = _checked_delta(delta), 1.0 - _checked_confidence(confidence)
    count = positive_int("trials", trials)
    if count < 2:
        raise ValueError("trials must be at least 2: some train, some test")
    train = count // 2
    given = [events] if callable(events) else events if events is None else list(events)
    if given is not None and not given:
        raise ValueError("events must not be empty")
    if isinstance(run, LearnerRuns):
        run = run.paired(stream, neighbour)
    root = Source.seeded(seed)
    ours, theirs = (_outcomes(run, each, count, root.spawn()) for each in (stream, neighbour))
    event = best_event(given, ours[:train], theirs[:train], granted)
    hits, neighbour_hits = (int(members_of(event, rows[train:]).sum()) for rows in (ours, theirs))
    tested = Counts(hits, count - train, neighbour_hits, count - train)
    return BlackBoxReport(
        claimed=claimed,
        delta=granted,
        measured=tested.epsilon(granted, error),
        detectable=tested.detectable(claimed, granted, error),
        event=getattr(event, "__name__", "given"),
        hits=hits,
        neighbour_hits=neighbour_hits,
        trials=count - train,
        confidence=1.0 - error,
    )


def _outcomes(run: Run, stream: Any, count: int, source: Source) -> NDArray[Any]:
    rows = np.asarray(run(stream, count, source))
    if rows.ndim == 0 or len(rows) != count:
        raise ValueError(f"run must return one row for each of {count} runs")
    return rows


def _checked_delta(delta: float) -> float:
    value = real_float("delta", delta)
    if not 0.0 <= value < 1.0:
        raise ValueError(f"delta must be in [0, 1); got {value!r}")
    return value


def _checked_confidence(confidence: float) -> float:
    value = real_float("confidence", confidence)
    if not 0.0 < value < 1.0:
        raise ValueError(f"confidence must be in (0, 1); got {value!r}")
    return value
