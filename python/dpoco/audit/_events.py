"""Events of a black-box audit: given or learned ones, and what their counts prove about epsilon."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import FloatArray, real_in
from dpoco.audit.report import bound_text, confidence_text, headline, judge

Members = NDArray[np.bool_]  # whether the event occurred, one entry for each run
Outcomes = NDArray[Any]  # one row a run
Event = Callable[[Outcomes], Any]

POWER = 0.9  # probability with which a detectable violation is found
LEARNED = "learned"  # stands for what `learn_event` finds, among given events

# Choosing costs no confidence, so it may be bolder than the test.
_TRAINING_ERROR = 0.05
# Every cut costs four quantiles of beta distributions.
_LARGEST_CUTS = 1000
_COVARIANCE_ROWS = 50_000
_FEW_VALUES = 100  # in the first runs: outcomes that repeat, even if they are not integers
_FIRST_RUNS = 1000


def bisect_last(
    holds: Callable[[float], bool], low: float, high: float, *, steps: int = 60
) -> float:
    """Return where a condition holds for the last time, by halvings; `low` if nowhere above it.

    Parameters
    ----------
    holds : callable
        Holds up to some point and nowhere beyond; asked strictly between `low` and `high`.
    low, high : float
    steps : int
        Halvings, by default as many as doubles can tell apart.
    """
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def find_members(event: Event, outcomes: Outcomes) -> Members:
    """Return whether the event occurred, one bool a row of outcomes, checked.

    Parameters
    ----------
    event : callable
        From the caller, so that its answer is checked.
    outcomes : ndarray, shape (n, ...)

    Raises
    ------
    ValueError
        For an answer of another dtype or shape than bool and (n,).
    """
    member = np.asarray(event(outcomes))
    if member.dtype != np.bool_ or member.shape != (len(outcomes),):
        raise ValueError("an event must return one bool for each row of outcomes")
    return member


def best_event(
    events: Sequence[Event | str] | None, ours: Outcomes, theirs: Outcomes, delta: float
) -> Event:
    """Return the event that looks worst for the claim on the runs that train.

    None stands for what can be learned, and so does the word "learned" among the events.

    Parameters
    ----------
    events : sequence of callable or str, or None
        Candidates.
    ours, theirs : ndarray, shape (n, ...)
        Outcomes on the stream and on the neighbour, not those that are tested.
    delta : float
        The delta that is granted.

    Returns
    -------
    callable
        That with the largest lower bound on epsilon, by the bound of the test itself.
    """
    candidates: list[Event] = []
    for each in [LEARNED] if events is None else events:
        if isinstance(each, str):
            if each != LEARNED:
                raise ValueError(f"events must be callables or {LEARNED!r}; got {each!r}")
            candidates += _learn(ours, theirs, delta)
        else:
            candidates.append(each)
    scores = []
    for event in candidates:
        first, second = find_members(event, ours), find_members(event, theirs)
        scores.append(_score(int(first.sum()), len(ours), int(second.sum()), len(theirs), delta))
    # The first of equals, so that a given event is preferred to one learned after it.
    return candidates[int(np.argmax(scores))]


def learn_event(outcomes: ArrayLike, neighbour_outcomes: ArrayLike, *, delta: float = 0.0) -> Event:
    """Learn from training runs which event distinguishes two streams best.

    Parameters
    ----------
    outcomes, neighbour_outcomes : array_like of shape (n, ...)
        Outcomes of runs on the stream and on its neighbour. The event has seen only these runs, so
        test it on others.
    delta : float, default 0
        The delta that is allowed for.

    Returns
    -------
    callable
        Maps outcomes to one bool a row. Of outcomes that repeat: those whose frequencies on the two
        streams have at least some ratio, which is best (Neyman and Pearson). Of real numbers: an
        inner product beyond a threshold, with the direction of Fisher's linear discriminant, which
        is that of the likelihood ratio for two Gaussians of one covariance, or with one coordinate.

    Raises
    ------
    ValueError, TypeError
        For no runs, rows of different shapes, outcomes that are not real numbers, and a
        delta outside of
        [0, 1).

    Notes
    -----
    Outcomes repeat if the first 1,000 have at most 100 values, or are integers. Time O(n log n)
    and O(n d^2) for rows of d numbers; at most 1,000 cuts are tried. Where entries are not
    finite, which of them are is tried as an event by itself.
    """
    ours, theirs = np.asarray(outcomes), np.asarray(neighbour_outcomes)
    if min(ours.ndim, theirs.ndim) == 0 or min(len(ours), len(theirs)) == 0:
        raise ValueError("outcomes must have one row a run, and at least one run")
    if ours.shape[1:] != theirs.shape[1:]:
        raise ValueError("outcomes of both streams must have rows of one shape")
    return best_event(None, ours, theirs, real_in("delta", delta, "[0, 1)"))


def _name_event(name: str, event: Event) -> Event:
    """Return an event under the name that a report gives it."""
    event.__name__ = name
    return event


def _score(hits: int, trials: int, neighbour_hits: int, others: int, delta: float) -> float:
    """Return the epsilon that a candidate would refute on the training runs."""
    return Counts(hits, trials, neighbour_hits, others).epsilon(delta, _TRAINING_ERROR)


def _learn(ours: Outcomes, theirs: Outcomes, delta: float) -> list[Event]:
    """Return the candidates: thresholds of real numbers, sets of values that repeat."""
    if any(rows.dtype.kind not in "biuf" or rows[:1].size == 0 for rows in (ours, theirs)):
        raise TypeError("events are learned from rows of real numbers; bring your own for others")
    real = np.issubdtype(np.result_type(ours, theirs), np.floating)
    events: list[Event] = []
    if real:
        if not (np.all(np.isfinite(ours)) and np.all(np.isfinite(theirs))):
            kinds = _likeliest(_kinds(ours), _kinds(theirs), delta, real=False)
            name = "which entries are finite: " + str(getattr(kinds, "__name__", "given"))
            events.append(_name_event(name, lambda outcomes: kinds(_kinds(outcomes))))
        events += _projections(ours, theirs, delta)
        first = _codes(ours[:_FIRST_RUNS], real)
        if len(np.unique(first)) > min(_FEW_VALUES, len(first) // 2):
            return events
    return [*events, _likeliest(ours, theirs, delta, real)]


def _codes(outcomes: Outcomes, real: bool) -> NDArray[np.uint64]:
    """Return a number for each row: a fixed function of its values, equal for equal rows.

    Rows that differ have the same number once in 2^60 pairs or so. That would not be an error: an
    event may be any function of the outcome.

    Parameters
    ----------
    outcomes : ndarray of shape (n, ...)
        One row a run.
    real : bool
        Whether values are read as doubles; otherwise as integers, of which none loses a bit.
    """
    rows = outcomes.reshape(len(outcomes), -1)
    # By values, never by dtype: 1 of a run of integers and 1.0 of one of doubles are one outcome,
    # and to tell them apart would refute every claim.
    if real:
        words = (rows.astype(np.float64) + 0.0).view(np.uint64)  # + 0: one zero
    else:
        with np.errstate(invalid="ignore"):  # later outcomes may be NaN: any code will do
            words = rows.astype(np.int64).view(np.uint64)
    # The seed is the number of columns alone, so that training and test runs have one function. Odd
    # factors are invertible modulo 2^64: no bit of an entry is lost.
    factors = np.random.default_rng(rows.shape[1]).integers(
        2**63, dtype=np.uint64, size=rows.shape[1]
    ) | np.uint64(1)
    # Mixed before the sum, for the upper bits of small numbers and the lower ones of doubles.
    mixed = (words ^ (words >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    codes: NDArray[np.uint64] = ((mixed ^ (mixed >> np.uint64(29))) * factors).sum(
        axis=1, dtype=np.uint64
    )
    return codes


def _likeliest(ours: Outcomes, theirs: Outcomes, delta: float, real: bool) -> Event:
    """Return the likelihood-ratio test of the training runs that looks worst.

    Its event: the outcome is one of the k whose frequency on the first stream, relative to that on
    the second, is largest.

    The sets are nested, one for each k, so that a cumulative sum counts them all. Neyman and
    Pearson: of all events with so many hits on the second stream, one of these has the most on
    the first.
    """
    codes = np.concatenate([_codes(ours, real), _codes(theirs, real)])
    values, inverse = np.unique(codes, return_inverse=True)
    parts = inverse[: len(ours)], inverse[len(ours) :]
    seen = np.stack([np.bincount(part, minlength=len(values)) for part in parts])
    # Half a count more for each: values seen on one stream only are ordered by how often.
    order = np.argsort(-(seen[0] + 0.5) / (seen[1] + 0.5), kind="stable")
    hits = np.cumsum(seen[:, order], axis=1)
    last = max(len(order) - 1, 1)
    cuts = np.unique(np.linspace(1, last, min(last, _LARGEST_CUTS)).round().astype(int))
    scores = [
        _score(int(hits[0, cut - 1]), len(ours), int(hits[1, cut - 1]), len(theirs), delta)
        for cut in cuts
    ]
    cut = int(cuts[np.argmax(scores)])
    name = f"one of the {cut} relatively likeliest of {len(order)} outcomes"
    likely = values[order[:cut]]
    return _name_event(name, lambda outcomes: np.isin(_codes(np.asarray(outcomes), real), likely))


def _kinds(outcomes: Outcomes) -> NDArray[np.int64]:
    """Return of every entry whether it is finite (0), not a number, or one of the infinities."""
    rows = np.asarray(outcomes)
    kinds: NDArray[np.int64] = np.isnan(rows) + 2 * np.isposinf(rows) + 3 * np.isneginf(rows)
    return kinds


def _finite(outcomes: Outcomes) -> FloatArray:
    """Return the outcomes as rows of doubles, entries that are not finite as 0."""
    rows = np.asarray(outcomes).astype(np.float64, copy=False)
    rows = rows.reshape(len(rows), -1)
    finite = np.isfinite(rows)
    return rows if np.all(finite) else np.where(finite, rows, 0.0)


def _projections(ours: Outcomes, theirs: Outcomes, delta: float) -> list[Event]:
    """Return the best threshold along the discriminant, and along the best coordinate.

    Parameters
    ----------
    ours, theirs : ndarray, shape (n, ...)
        Outcomes; entries that are not finite count as 0.
    delta : float
        The delta that is granted.
    """
    first, second = _finite(ours), _finite(theirs)
    largest = max(float(np.abs(part).max()) for part in (first, second))
    # In units in which squares neither overflow nor vanish.
    unit = 1.0 if 1e-100 < largest < 1e100 else max(largest, 1e-290)
    ones = [part if unit == 1.0 else part / unit for part in (first, second)]
    gap = ones[0].mean(axis=0) - ones[1].mean(axis=0)
    # More rows take time in proportion, and hardly turn the direction.
    some = [part[:_COVARIANCE_ROWS] for part in ones]
    spread = sum(np.atleast_2d(np.cov(part, rowvar=False, bias=True)) for part in some)
    scale = np.sqrt(np.diag(spread))
    scale[scale == 0.0] = 1.0
    # In units of each coordinate's spread; the ridge settles coordinates that never vary.
    standard = spread / np.outer(scale, scale) + 1e-9 * np.eye(len(gap))
    with np.errstate(over="ignore"):  # what is not finite then is left out below
        discriminant = np.linalg.solve(standard, gap / scale) / scale / unit
    best = int(np.argmax(np.abs(gap) / scale))
    coordinate = np.zeros(len(gap))
    coordinate[best] = 1.0
    named = [
        ("the linear discriminant", discriminant),
        (f"entry {best} of the outcome", coordinate),
    ]
    if not np.all(np.isfinite(discriminant)):
        del named[0]
    return [
        _beyond(name, direction, _best_cut(first @ direction, second @ direction, delta))
        for name, direction in named
    ]


def _beyond(name: str, direction: FloatArray, cut: float) -> Event:
    """Return the event that the outcome's inner product with a direction is at least `cut`."""
    return _name_event(
        f"{name} is at least {cut:.6g}", lambda outcomes: _finite(outcomes) @ direction >= cut
    )


def _best_cut(ours: FloatArray, theirs: FloatArray, delta: float) -> float:
    """Return the threshold that looks worst for the claim, of about a hundred quantiles."""
    ours, theirs = np.sort(ours), np.sort(theirs)
    # Evenly in log odds: a small delta is exceeded in the tails, if anywhere.
    most = np.log(min(len(ours), len(theirs)))
    chances = 1.0 / (1.0 + np.exp(np.linspace(-most, most, 101)))
    # At outcomes that occurred: cuts between two of them count the same runs.
    cuts = np.unique(np.quantile(np.concatenate([ours, theirs]), chances, method="higher"))
    hits = len(ours) - np.searchsorted(ours, cuts)
    others = len(theirs) - np.searchsorted(theirs, cuts)
    scores = [
        _score(int(a), len(ours), int(b), len(theirs), delta)
        for a, b in zip(hits, others, strict=True)
    ]
    return float(cuts[np.argmax(scores)])


@dataclass(frozen=True)
class Counts:
    """How often an event was seen in independent runs on a stream and on its neighbour.

    Attributes
    ----------
    hits, trials : int
        Occurrences on the stream, and runs.
    neighbour_hits, neighbour_trials : int
        The same on the neighbour.
    """

    hits: int
    trials: int
    neighbour_hits: int
    neighbour_trials: int

    @classmethod
    def from_numbers(
        cls, hits: int, trials: int, neighbour_hits: int, neighbour_trials: int
    ) -> Counts:
        """Return counts that are possible, or raise naming the argument."""
        given = {
            "hits": (hits, trials),
            "neighbour_hits": (neighbour_hits, neighbour_trials),
        }
        for name, (count, total) in given.items():
            for value in (count, total):
                if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
                    raise TypeError(f"{name} and its trials must be ints")
            if total < 1 or not 0 <= count <= total:
                raise ValueError(f"{name} must be in [0, trials], with trials at least 1")
        return cls(int(hits), int(trials), int(neighbour_hits), int(neighbour_trials))

    def epsilon(self, delta: float, error: float) -> float:
        """Return the largest epsilon that is refuted but for a probability `error`, at least 0."""
        # Four limits are used, each missed with a quarter of the error (docs/privacy/black_box.md).
        low, high = _interval(self.hits, self.trials, error / 4.0)
        other_low, other_high = _interval(self.neighbour_hits, self.neighbour_trials, error / 4.0)
        pairs = (low, other_high), (other_low, high)
        complements = (1.0 - high, 1.0 - other_low), (1.0 - other_high, 1.0 - low)
        return max(_excess(*pair, delta) for pair in (*pairs, *complements))

    def detectable(self, claimed: float, delta: float, error: float) -> float:
        """Return the smallest epsilon that a second look like this would have found, or inf.

        A look at the event (or its complement) whose probability on the stream where it is rarer
        is as measured now (one hit, if there was none), and on the other just so much larger that
        `claimed` is refuted with probability 0.9: both counts at their unfavourable 5 % quantiles.

        Parameters
        ----------
        claimed, delta : float
            The claim.
        error : float
            One minus the confidence of the look.
        """
        from scipy.stats import binom

        best, tail = math.inf, 0.5 * (1.0 - POWER)
        ours, theirs = (self.hits, self.trials), (self.neighbour_hits, self.neighbour_trials)
        for flip in (False, True):
            counts = [(n - k if flip else k, n) for k, n in (ours, theirs)]
            (rare, total), (_, trials) = sorted(counts, key=lambda pair: pair[0] / pair[1])
            # An event that was not seen may have a small probability all the same.
            rate = max(rare, 1) / total
            most = int(binom.ppf(1.0 - tail, total, rate))
            needed = _fewest_hits(trials, most, total, claimed, delta, error)
            if needed is None:
                continue
            # The probability with which so many hits are missed in 5 % of all looks.
            probable = _upper(needed - 1, trials, tail)
            if delta < probable < 1.0:
                best = min(best, math.log((probable - delta) / rate))
        return best


def _fewest_hits(
    trials: int, count: int, total: int, claimed: float, delta: float, error: float
) -> int | None:
    """Return the fewest hits that refute `claimed` next to `count` on the other stream, if any.

    Parameters
    ----------
    trials : int
        Runs on the stream where the event is more frequent.
    count, total : int
        Hits and runs on the other.
    claimed, delta, error : float
        As for `Counts.detectable`.
    """
    high = _interval(count, total, error / 4.0)[1]

    def refutes(hits: int) -> bool:  # no hits refute nothing
        return _excess(_interval(hits, trials, error / 4.0)[0], high, delta) > claimed

    return bisect_left(range(trials), True, key=refutes) if refutes(trials) else None


def _excess(probable: float, rare: float, delta: float) -> float:
    """Return the epsilon that ``probable <= exp(epsilon) rare + delta`` asks for, at least 0."""
    if probable <= delta or rare <= 0.0:
        # rare = 0 would need an upper limit of 0, which no finite number of trials gives.
        return 0.0
    return max(0.0, math.log((probable - delta) / rare))


def _interval(hits: int, trials: int, tail: float) -> tuple[float, float]:
    """Clopper-Pearson: a probability's limits, each missed with probability at most `tail`."""
    from scipy.special import betaincinv

    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    return low, _upper(hits, trials, tail)


def _upper(hits: int, trials: int, tail: float) -> float:
    """Return the upper limit of Clopper and Pearson, missed with probability at most `tail`."""
    from scipy.special import betaincinv

    # Through the other side: 1 - tail would be rounded.
    return 1.0 if hits >= trials else float(1.0 - betaincinv(trials - hits, hits + 1, tail))


@dataclass(frozen=True)
class EventReport:
    """How often an event occurred on either stream, and what this proves.

    Attributes
    ----------
    claimed : float
        The epsilon that was tested.
    delta : float
        The delta that was allowed for.
    measured : float
        Lower confidence bound on the true epsilon.
    detectable : float
        The smallest true epsilon that the same number of runs would have reported as a violation
        with probability at least 0.9, if the event had kept its probability on the stream where it
        is rarer; inf if there is none.
    event : str
        The event that was tested.
    hits, neighbour_hits : int
        Number of its occurrences on each stream.
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
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted. False does not mean that the claim holds."""
        return self.measured > self.claimed

    def text(self, audit: str, runs: int, unit: str, extras: tuple[str, str], **words: str) -> str:
        """Return an audit's report after this many runs, or pairs of runs, on each stream.

        Parameters
        ----------
        audit : str
            What the report is of.
        runs : int
            Runs, or pairs, on each stream.
        unit : str
            What more of would give power: trials or pairs.
        extras : (str, str)
            What follows the confidence, and the counts.
        **words
            As for `headline`.
        """
        verdict = judge(self.violated, math.isfinite(self.detectable))
        power = (
            f"no epsilon would have been found on this event; take more {unit} or another event"
            if math.isinf(self.detectable)
            else f"a true epsilon of {bound_text(self.detectable, up=True)} or more would have "
            "been found"
        )
        sure, evidence = extras
        return "\n".join(
            [
                headline(audit, self.claimed, self.delta, verdict, **words),
                f"  epsilon is at least {bound_text(self.measured)}, at confidence "
                f"{confidence_text(self.confidence)}{sure}",
                f"  {power}",
                f"  event: {self.event}; in {self.hits} and {self.neighbour_hits} of "
                f"{runs} runs each{evidence}",
            ]
        )
