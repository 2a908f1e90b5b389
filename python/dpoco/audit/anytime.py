"""Black-box audit without a fixed number of runs: you may look, stop or continue at any time.

A confidence interval is valid for one look; bets are valid for any number. A player who bets
against a true claim multiplies the stake by 1 / alpha at any time with probability at most alpha.
So you may add pairs of runs, look at the outcome as often as you like, and stop at any time, at no
cost. Proofs: ``docs/privacy/black_box.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import real_in
from dpoco.audit._events import POWER, Event, EventReport, find_members

# Fine enough that the bound loses less than a thousandth to the grid.
_STEPS = 1024  # points of the grid of epsilons per unit
_LARGEST = 64  # largest epsilon of the grid
_GRID = np.arange(_LARGEST * _STEPS + 1) / _STEPS
_BLOCK = 64  # largest number of grid points that are evaluated together


# Columns of pair counts: event in both runs, only in ours, only in the neighbour's, in neither. The
# four claims about an event are: the claim itself, the claim with the streams exchanged, and both
# for the complement.
_FORMS = np.array([[0, 1, 2, 3], [0, 2, 1, 3], [3, 2, 1, 0], [3, 1, 2, 0]])

# Fractions of the largest admissible bet. They are dense where few hits decide, and coarse below,
# down to the best one for 1e9 pairs.
_FRACTIONS = np.sort(np.concatenate([2.0 ** (-0.5 * np.arange(1, 32)), [0.8, 0.9, 0.97]]))


@dataclass(frozen=True)
class AnytimeReport(EventReport):
    """State of an anytime-valid audit; computed from the mechanism's releases.

    The event is the one with the largest e-value against the claim. The measurement and the verdict
    are valid however the number of pairs was chosen: `confidence` is the probability that a true
    claim is never reported as violated.

    Attributes
    ----------
    refuted : bool
        Whether the claim is refuted.
    e_value : float
        E-value of the claim, over all events: a large value is evidence against the claim; inf if
        it exceeds the range of doubles.
    pairs : int
        Number of pairs of runs so far.
    events : int
        Number of watched events; the e-value combines four claims about each.
    """

    refuted: bool
    e_value: float
    pairs: int
    events: int

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted. False does not mean that the claim holds."""
        return self.refuted

    def __str__(self) -> str:
        extras = (
            f" for all looks and {self.events} event(s) together",
            f"; e-value {self.e_value:.3g}",
        )
        return self.text(
            "Anytime-valid black-box audit", self.pairs, "pairs", extras,
            power="could have shown yet", found="found so far",
        )  # fmt: skip


class AnytimeAudit:
    """Lower bound on epsilon from pairs of runs, valid at all times simultaneously.

    Parameters
    ----------
    epsilon : float
        The claimed epsilon, at least 0. This and all following arguments are keyword-only.
    events : callable or sequence of callables
        Functions from outcomes to one bool per row. Fix them before the runs that they are shown;
        `learn_event` makes one from other runs.
    delta : float, default 0
        The claimed delta, in [0, 1).
    confidence : float, default 1 - 1e-6
        Probability, in (0, 1), that `epsilon` never exceeds the true epsilon, at any time.

    Notes
    -----
    For each event, each direction and the complement, a bet is made pair by pair against the claim
    P <= e^epsilon Q + delta. The mean of all 4 K e-processes of K events is compared with 1 / (1 -
    confidence). This covers the whole union and is never weaker than dividing the error by 4 K. An
    update costs O(K) and one pass over its outcomes; memory is 4 counts per event. You may decide
    when to look and whether to go on by everything you have seen, but the pairs themselves must be
    independent of it.

    Examples
    --------
    >>> import numpy as np
    >>> from dpoco.audit import AnytimeAudit
    >>> generator = np.random.default_rng(0)
    >>> audit = AnytimeAudit(epsilon=1.0, events=lambda bits: bits == 1)
    >>> while not audit.violated and audit.pairs < 100_000:
    ...     audit.update(generator.binomial(1, 0.9, 500), generator.binomial(1, 0.1, 500))
    >>> audit.violated, audit.pairs
    (True, 500)
    """

    def __init__(
        self,
        *,
        epsilon: float,
        events: Event | Sequence[Event],
        delta: float = 0.0,
        confidence: float = 1.0 - 1e-6,
    ) -> None:
        claimed = real_in("epsilon", epsilon, f"[0, {_LARGEST})")
        granted = real_in("delta", delta, "[0, 1)")
        sure = real_in("confidence", confidence, "(0, 1)")
        self._events = [events] if callable(events) else list(events)
        if not self._events:
            raise ValueError("events must not be empty")
        if not all(callable(event) for event in self._events):
            raise TypeError("events must be callables")
        self._claimed, self._delta, self._error = claimed, granted, 1.0 - sure
        self._counts = np.zeros((len(self._events), 4), dtype=np.int64)
        # The bound is a grid point such that all points up to it have been refuted.
        at = int(np.searchsorted(_GRID, claimed))
        self._grid = _GRID if _GRID[at] == claimed else np.insert(_GRID, at, claimed)
        self._refuted = 0  # number of refuted points, from the first

    def update(self, outcomes: ArrayLike, neighbour_outcomes: ArrayLike) -> None:
        """Add pairs of runs: row i of one array belongs to row i of the other.

        Parameters
        ----------
        outcomes, neighbour_outcomes : array_like of shape (n, ...)
            Outcomes of independent runs on the stream and on its neighbour, the same number of
            each, never shown before.

        Raises
        ------
        ValueError
            For different numbers of rows, or an event that does not return one bool per row;
            nothing is added.
        """
        ours, theirs = np.asarray(outcomes), np.asarray(neighbour_outcomes)
        if ours.ndim == 0 or theirs.ndim == 0 or len(ours) != len(theirs):
            raise ValueError("outcomes of both streams must have as many rows")
        added = np.empty_like(self._counts)
        for k, event in enumerate(self._events):
            first, second = find_members(event, ours), find_members(event, theirs)
            both = int(np.count_nonzero(first & second))
            a, b = int(np.count_nonzero(first)), int(np.count_nonzero(second))
            added[k] = both, a - both, b - both, len(ours) - a - b + both
        self._counts = self._counts + added
        size = 1  # most updates refute no new point
        while self._refuted < len(self._grid):
            block = self._grid[self._refuted : self._refuted + size]
            # Written with `not`, so that an e-value of NaN refutes nothing.
            kept = np.flatnonzero(~(self._log_e(block) >= -math.log(self._error)))
            self._refuted += len(block) if kept.size == 0 else int(kept[0])
            if kept.size:
                return
            size = min(2 * size, _BLOCK)

    def _log_e(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log of the mean e-value of all claims, for each epsilon.

        A mean of e-values is an e-value, so the error need not be divided among the claims.
        """
        values = log_e_values(self._counts, epsilons, self._delta).reshape(len(epsilons), -1)
        most = values.max(axis=1)
        return np.asarray(most + np.log(np.mean(np.exp(values - most[:, None]), axis=1)))

    @property
    def pairs(self) -> int:
        """Number of pairs of runs so far."""
        return int(self._counts[0].sum())

    @property
    def epsilon(self) -> float:
        """Lower confidence bound on the true epsilon, at least 0; it never falls."""
        return float(self._grid[self._refuted - 1]) if self._refuted > 0 else 0.0

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted, which is final. False does not mean that it holds."""
        return self._refuted > int(np.searchsorted(self._grid, self._claimed))

    def report(self) -> AnytimeReport:
        """Return the findings of the audit so far, and what it could have found.

        Costs O(K) for K events, for any number of pairs. It may be called after every update.
        """
        claim = np.array([self._claimed])
        strength = log_e_values(self._counts, claim, self._delta)[0].max(axis=1)
        k = int(np.argmax(strength))
        both, ours, theirs, _ = (int(n) for n in self._counts[k])
        # The mean of all 4 K e-values reaches 1 / error if one of them reaches 4 K / error.
        needed = math.log(self._counts.size / self._error)
        return AnytimeReport(
            claimed=self._claimed,
            delta=self._delta,
            measured=self.epsilon,
            refuted=self.violated,
            detectable=_detectable(self._counts[k], self._claimed, self._delta, needed, self.pairs),
            event=getattr(self._events[k], "__name__", "given"),
            # exp overflows at 709.8.
            e_value=math.exp(value) if (value := float(self._log_e(claim)[0])) < 700 else math.inf,
            hits=both + ours,
            neighbour_hits=both + theirs,
            pairs=self.pairs,
            events=len(self._events),
            confidence=1.0 - self._error,
        )

    def __repr__(self) -> str:
        return (
            f"AnytimeAudit(epsilon={self._claimed!r}, delta={self._delta!r}, "
            f"events={len(self._events)}, pairs={self.pairs})"
        )


def log_e_values(
    counts: NDArray[np.int64], epsilons: NDArray[np.float64], delta: float
) -> NDArray[np.float64]:
    """Return log e-values of all four claims about each event, averaged over the bets.

    Parameters
    ----------
    counts : ndarray of int64, shape (K, 4)
        Number of pairs in which each event occurred in both runs, only in ours, only in the
        neighbour's, in neither.
    epsilons : ndarray of float64, shape (E,)
    delta : float

    Returns
    -------
    ndarray of float64, shape (E, K, 4)
        O(E K) time and memory, whatever the number of pairs.
    """
    ratio = np.exp(epsilons)[:, None]
    bound = ratio + delta  # in the worst case, a bet of 1 / bound loses everything
    gains = np.stack(
        [
            np.log1p(_FRACTIONS * (1.0 - bound) / bound),
            np.log1p(_FRACTIONS * (1.0 - delta) / bound),
            np.broadcast_to(np.log1p(-_FRACTIONS), (len(epsilons), len(_FRACTIONS))),
            np.log1p(-_FRACTIONS * delta / bound),
        ]
    )  # (4, E, bets)
    forms = counts[:, _FORMS].reshape(-1, 4).astype(np.float64)
    wealth = np.tensordot(forms, gains, axes=1)  # (4 K, E, bets)
    most = wealth.max(axis=2)
    total = most + np.log(np.mean(np.exp(wealth - most[:, :, None]), axis=2))
    return np.ascontiguousarray(total.T.reshape(len(epsilons), len(counts), 4))


def _detectable(
    counts: NDArray[np.int64], claimed: float, delta: float, needed: float, pairs: int
) -> float:
    """Return the smallest true epsilon that the same number of pairs would have found, or inf.

    Consider the event (or its complement) with its measured probability on the stream where it is
    rarer (one hit, if there was none). With this epsilon, it is so much more probable on the other
    stream that the bets reach `needed`, a log e-value, with probability 0.9.

    Parameters
    ----------
    counts : ndarray of int64, shape (4,)
        Counts of the event.
    claimed, delta : float
        The claim.
    needed : float
        Logarithm of the e-value that refutes the claim.
    pairs : int
        Number of pairs so far.
    """
    from scipy.stats import binom

    if pairs == 0:
        return math.inf
    both, ours, theirs, neither = (int(n) for n in counts)
    tail = 0.5 * (1.0 - POWER)
    at = np.array([claimed])
    best = math.inf
    for hits in ((both + ours, both + theirs), (neither + theirs, neither + ours)):
        rare = max(min(hits), 1) / pairs  # an event without hits is not impossible
        most = int(binom.ppf(1.0 - tail, pairs, rare))

        def finds(probable: float, most: int = most) -> bool:
            """Return whether 90 % of all audits would find an event with this probability."""
            fewest = int(binom.ppf(tail, pairs, probable))
            together = round(fewest * most / pairs)
            seen = np.array(
                [[together, fewest - together, most - together, pairs - fewest - most + together]]
            )
            return fewest > most and float(log_e_values(seen, at, delta)[0, 0, 0]) >= needed

        low, high = rare, 1.0 - 1e-9
        if not finds(high):
            continue
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if finds(middle) else (middle, high)
        if high > delta:
            best = min(best, math.log((high - delta) / rare))
    return best
