"""Events of a black-box audit, given or learned, and what their counts prove about epsilon."""

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
Outcomes = NDArray[Any]  # one row per run
Event = Callable[[Outcomes], Any]

POWER = 0.9  # probability of finding a detectable violation
LEARNED = "learned"  # in a list of given events, stands for the event that `learn_event` finds

# Choosing an event costs no confidence, so its error may be larger than that of the test.
_TRAINING_ERROR = 0.05
# Each cut takes four quantiles of beta distributions.
_LARGEST_CUTS = 1000
_COVARIANCE_ROWS = 50_000
_FEW_VALUES = 100  # in the first runs; then outcomes repeat, even if they are not integers
_FIRST_RUNS = 1000


def bisect_last(
    holds: Callable[[float], bool], low: float, high: float, *, steps: int = 60
) -> float:
    """Return by bisection the last point at which a condition holds, or `low` if there is none.

    Parameters
    ----------
    holds : callable
        True up to some point and false beyond; called strictly between `low` and `high`.
    low, high : float
    steps : int
        Number of halvings; by default as many as doubles can resolve.
    """
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def find_members(event: Event, outcomes: Outcomes) -> Members:
    """Return whether the event occurred, one checked bool per row of outcomes.

    Parameters
    ----------
    event : callable
        Given by the caller, so we check its result.
    outcomes : ndarray, shape (n, ...)

    Raises
    ------
    ValueError
        If the result is not of dtype bool and shape (n,).
    """
    member = np.asarray(event(outcomes))
    if member.dtype != np.bool_ or member.shape != (len(outcomes),):
        raise ValueError("an event must return one bool for each row of outcomes")
    return member


def best_event(
    events: Sequence[Event | str] | None, ours: Outcomes, theirs: Outcomes, delta: float
) -> Event:
    """Return the event that is worst for the claim on the training runs.

    None, or the word "learned" among the events, stands for the event that can be learned.

    Parameters
    ----------
    events : sequence of callable or str, or None
        Candidates.
    ours, theirs : ndarray, shape (n, ...)
        Outcomes on the stream and on the neighbour, separate from those that are tested.
    delta : float
        The allowed delta.

    Returns
    -------
    callable
        The event with the largest lower bound on epsilon, by the bound that the test uses.
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
    # The first of equals, so that a given event wins over one that is learned after it.
    return candidates[int(np.argmax(scores))]


def learn_event(outcomes: ArrayLike, neighbour_outcomes: ArrayLike, *, delta: float = 0.0) -> Event:
    """Learn the event that distinguishes two streams best on training runs.

    Parameters
    ----------
    outcomes, neighbour_outcomes : array_like of shape (n, ...)
        Outcomes of runs on the stream and on its neighbour. The event depends on these runs, so
        test it on other runs.
    delta : float, default 0
        The allowed delta.

    Returns
    -------
    callable
        Maps outcomes to one bool per row. For outcomes that repeat, it is the set of those whose
        frequency ratio between the two streams is large enough, which is optimal (Neyman and
        Pearson). For real numbers, it is an inner product beyond a threshold. The direction is that
        of Fisher's linear discriminant, which is the likelihood-ratio direction for two Gaussians
        with equal covariance, or a single coordinate.

    Raises
    ------
    ValueError, TypeError
        If there are no runs, for rows of different shapes, for outcomes that are not real numbers,
        and for a delta outside of [0, 1).

    Notes
    -----
    Outcomes repeat if they are integers, or if the first 1,000 have at most 100 values. Time O(n
    log n), and O(n d^2) for rows of d numbers; at most 1,000 cuts are tried. If some entries are
    not finite, the pattern of such entries is tried as a separate event.
    """
    ours, theirs = np.asarray(outcomes), np.asarray(neighbour_outcomes)
    if min(ours.ndim, theirs.ndim) == 0 or min(len(ours), len(theirs)) == 0:
        raise ValueError("outcomes must have one row a run, and at least one run")
    if ours.shape[1:] != theirs.shape[1:]:
        raise ValueError("outcomes of both streams must have rows of one shape")
    return best_event(None, ours, theirs, real_in("delta", delta, "[0, 1)"))


def _name_event(name: str, event: Event) -> Event:
    """Return an event with a name for reports."""
    event.__name__ = name
    return event


def _score(hits: int, trials: int, neighbour_hits: int, others: int, delta: float) -> float:
    """Return the epsilon that a candidate would refute on the training runs."""
    return Counts(hits, trials, neighbour_hits, others).epsilon(delta, _TRAINING_ERROR)


def _learn(ours: Outcomes, theirs: Outcomes, delta: float) -> list[Event]:
    """Return the candidates: thresholds for real numbers, sets of values that repeat."""
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

    Different rows have the same number in about one of 2^60 pairs. This is not an error, because an
    event may be any function of the outcome.

    Parameters
    ----------
    outcomes : ndarray of shape (n, ...)
        One row per run.
    real : bool
        Whether values are read as doubles, or else as integers without loss of bits.
    """
    rows = outcomes.reshape(len(outcomes), -1)
    # The numbers depend on values and never on the dtype. Otherwise the integer 1 and the double
    # 1.0 would be different outcomes, and every claim would be refuted.
    if real:
        words = (rows.astype(np.float64) + 0.0).view(np.uint64)  # + 0 makes -0 equal to 0
    else:
        with np.errstate(invalid="ignore"):  # later outcomes may be NaN, for which any code is fine
            words = rows.astype(np.int64).view(np.uint64)
    # The seed only depends on the number of columns, so training and test runs use the same
    # function. Odd factors are invertible modulo 2^64, so no bit of an entry is lost.
    factors = np.random.default_rng(rows.shape[1]).integers(
        2**63, dtype=np.uint64, size=rows.shape[1]
    ) | np.uint64(1)
    # Mix before summing, for the upper bits of small numbers and the lower bits of doubles.
    mixed = (words ^ (words >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(((mixed ^ (mixed >> np.uint64(29))) * factors).sum(axis=1, dtype=np.uint64))


def _likeliest(ours: Outcomes, theirs: Outcomes, delta: float, real: bool) -> Event:
    """Return the likelihood-ratio test that is worst for the claim on the training runs.

    Its event is that the outcome is one of the k with the largest frequency on the first stream
    relative to that on the second.

    The sets for all k are nested, so a cumulative sum counts them. By Neyman and Pearson, among all
    events with as many hits on the second stream, one of these has the most hits on the first.
    """
    codes = np.concatenate([_codes(ours, real), _codes(theirs, real)])
    values, inverse = np.unique(codes, return_inverse=True)
    parts = inverse[: len(ours)], inverse[len(ours) :]
    seen = np.stack([np.bincount(part, minlength=len(values)) for part in parts])
    # Add half a count to each, so that values seen on one stream only are ordered by frequency.
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
    """Return for every entry whether it is finite (0), NaN, or one of the infinities."""
    rows = np.asarray(outcomes)
    return np.asarray(np.isnan(rows) + 2 * np.isposinf(rows) + 3 * np.isneginf(rows))


def _finite(outcomes: Outcomes) -> FloatArray:
    """Return the outcomes as rows of doubles, with 0 for entries that are not finite."""
    rows = np.asarray(outcomes).astype(np.float64, copy=False)
    rows = rows.reshape(len(rows), -1)
    finite = np.isfinite(rows)
    return rows if np.all(finite) else np.where(finite, rows, 0.0)


def _projections(ours: Outcomes, theirs: Outcomes, delta: float) -> list[Event]:
    """Return the best threshold along the discriminant and along the best coordinate.

    Parameters
    ----------
    ours, theirs : ndarray, shape (n, ...)
        Outcomes; entries that are not finite count as 0.
    delta : float
        The allowed delta.
    """
    first, second = _finite(ours), _finite(theirs)
    largest = max(float(np.abs(part).max()) for part in (first, second))
    # In units in which squares neither overflow nor vanish.
    unit = 1.0 if 1e-100 < largest < 1e100 else max(largest, 1e-290)
    ones = [part if unit == 1.0 else part / unit for part in (first, second)]
    gap = ones[0].mean(axis=0) - ones[1].mean(axis=0)
    # More rows take proportionally longer and hardly change the direction.
    some = [part[:_COVARIANCE_ROWS] for part in ones]
    spread = sum(np.atleast_2d(np.cov(part, rowvar=False, bias=True)) for part in some)
    scale = np.sqrt(np.diag(spread))
    scale[scale == 0.0] = 1.0
    # In units of each coordinate's spread. The ridge handles coordinates that never vary.
    standard = spread / np.outer(scale, scale) + 1e-9 * np.eye(len(gap))
    with np.errstate(over="ignore"):  # results that are not finite are excluded below
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
    """Return the event that the inner product of the outcome with a direction is at least `cut`."""
    return _name_event(
        f"{name} is at least {cut:.6g}", lambda outcomes: _finite(outcomes) @ direction >= cut
    )


def _best_cut(ours: FloatArray, theirs: FloatArray, delta: float) -> float:
    """Return the threshold that is worst for the claim, from about a hundred quantiles."""
    ours, theirs = np.sort(ours), np.sort(theirs)
    # Evenly spaced in log odds, because a small delta is most likely exceeded in the tails.
    most = np.log(min(len(ours), len(theirs)))
    chances = 1.0 / (1.0 + np.exp(np.linspace(-most, most, 101)))
    # Cuts are at observed outcomes; all cuts between two of them count the same runs.
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
    """How often an event occurred in independent runs on a stream and on its neighbour.

    Attributes
    ----------
    hits, trials : int
        Number of occurrences on the stream, and of runs.
    neighbour_hits, neighbour_trials : int
        The same numbers for the neighbour.
    """

    hits: int
    trials: int
    neighbour_hits: int
    neighbour_trials: int

    @classmethod
    def from_numbers(
        cls, hits: int, trials: int, neighbour_hits: int, neighbour_trials: int
    ) -> Counts:
        """Return valid counts, or raise naming the argument."""
        given = {"hits": (hits, trials), "neighbour_hits": (neighbour_hits, neighbour_trials)}
        for name, (count, total) in given.items():
            for value in (count, total):
                if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
                    raise TypeError(f"{name} and its trials must be ints")
            if total < 1 or not 0 <= count <= total:
                raise ValueError(f"{name} must be in [0, trials], with trials at least 1")
        return cls(int(hits), int(trials), int(neighbour_hits), int(neighbour_trials))

    def epsilon(self, delta: float, error: float) -> float:
        """Return the largest epsilon >= 0 that is refuted except with probability `error`."""
        # We use four limits, each missed with a quarter of the error (docs/privacy/black_box.md).
        low, high = _interval(self.hits, self.trials, error / 4.0)
        other_low, other_high = _interval(self.neighbour_hits, self.neighbour_trials, error / 4.0)
        pairs = (low, other_high), (other_low, high)
        complements = (1.0 - high, 1.0 - other_low), (1.0 - other_high, 1.0 - low)
        return max(_excess(*pair, delta) for pair in (*pairs, *complements))

    def detectable(self, claimed: float, delta: float, error: float) -> float:
        """Return the smallest epsilon that a second audit like this would have found, or inf.

        This audit tests the event (or its complement). On the stream where it is rarer, its
        probability is as measured now (one hit, if there was none). On the other stream it is just
        large enough that `claimed` is refuted with probability 0.9, with both counts at their
        unfavourable 5 % quantiles.

        Parameters
        ----------
        claimed, delta : float
            The claim.
        error : float
            One minus the confidence of the audit.
        """
        from scipy.stats import binom

        best, tail = math.inf, 0.5 * (1.0 - POWER)
        ours, theirs = (self.hits, self.trials), (self.neighbour_hits, self.neighbour_trials)
        for flip in (False, True):
            counts = [(n - k if flip else k, n) for k, n in (ours, theirs)]
            (rare, total), (_, trials) = sorted(counts, key=lambda pair: pair[0] / pair[1])
            # An event that never occurred may still have a small probability.
            rate = max(rare, 1) / total
            most = int(binom.ppf(1.0 - tail, total, rate))
            needed = _fewest_hits(trials, most, total, claimed, delta, error)
            if needed is None:
                continue
            # The probability with which so many hits are missed in 5 % of all audits.
            probable = _upper(needed - 1, trials, tail)
            if delta < probable < 1.0:
                best = min(best, math.log((probable - delta) / rate))
        return best


def _fewest_hits(
    trials: int, count: int, total: int, claimed: float, delta: float, error: float
) -> int | None:
    """Return the fewest hits that refute `claimed` if the other stream has `count`, if any.

    Parameters
    ----------
    trials : int
        Number of runs on the stream where the event is more frequent.
    count, total : int
        Hits and runs on the other stream.
    claimed, delta, error : float
        See `Counts.detectable`.
    """
    high = _interval(count, total, error / 4.0)[1]

    def refutes(hits: int) -> bool:  # zero hits refute nothing
        return _excess(_interval(hits, trials, error / 4.0)[0], high, delta) > claimed

    return bisect_left(range(trials), True, key=refutes) if refutes(trials) else None


def _excess(probable: float, rare: float, delta: float) -> float:
    """Return the least epsilon >= 0 with ``probable <= exp(epsilon) rare + delta``."""
    if probable <= delta or rare <= 0.0:
        # rare = 0 would require an upper limit of 0, which no finite number of trials gives.
        return 0.0
    return max(0.0, math.log((probable - delta) / rare))


def _interval(hits: int, trials: int, tail: float) -> tuple[float, float]:
    """Clopper-Pearson limits of a probability, each missed with probability at most `tail`."""
    from scipy.special import betaincinv

    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    return low, _upper(hits, trials, tail)


def _upper(hits: int, trials: int, tail: float) -> float:
    """Return the upper Clopper-Pearson limit, missed with probability at most `tail`."""
    from scipy.special import betaincinv

    # Computed through the other side, because 1 - tail would be rounded.
    return 1.0 if hits >= trials else float(1.0 - betaincinv(trials - hits, hits + 1, tail))


@dataclass(frozen=True)
class EventReport:
    """How often an event occurred on the two streams, and what this proves.

    Attributes
    ----------
    claimed : float
        The tested epsilon.
    delta : float
        The allowed delta.
    measured : float
        Lower confidence bound on the true epsilon.
    detectable : float
        The smallest true epsilon that the same number of runs would have reported as a violation
        with probability at least 0.9, if the event had kept its probability on the stream where it
        is rarer; inf if there is none.
    event : str
        The tested event.
    hits, neighbour_hits : int
        Number of occurrences on each stream.
    confidence : float
        Probability of not reporting a violation if there is none.
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
            Subject of the report.
        runs : int
            Number of runs, or pairs, on each stream.
        unit : str
            What to increase for more power: trials or pairs.
        extras : (str, str)
            Texts that follow the confidence and the counts.
        **words
            See `headline`.
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
