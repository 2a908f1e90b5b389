"""One-run audit: many canaries in one run of a deployed learner, guessed from its decisions.

A fair secret coin chooses one of two records for each canary. If an audit guesses more coins from
the released decisions than the claimed privacy curve allows, the claim is refuted. One run is
enough, however the rounds depend on each other. Proof: ``docs/privacy/one_run_audit.md``.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import FloatArray, positive_int, real_in, whole_number
from dpoco.accounting.guarantee import Guarantee
from dpoco.audit._events import Outcomes, bisect_last
from dpoco.audit._family import (
    Family,
    Learner,
    Make,
    Options,
    Record,
    Rounds,
    Stream,
    make_fresh,
    split_parts,
)
from dpoco.audit._kinds import find_family
from dpoco.audit.black_box import play_learner
from dpoco.audit.report import bound_text, confidence_text
from dpoco.audit.standard import StandardCase
from dpoco.errors import StateError
from dpoco.random import Source

Curve = tuple[FloatArray, FloatArray]  # e^-epsilon and delta of points of a privacy curve
Score = Callable[[Outcomes], FloatArray]
Coins = tuple[NDArray[np.bool_], str]  # of all canaries, and the digest that commits to them

_POINTS = 200  # points of a curve in each direction
_SALT, _DIGEST = 32, 32  # bytes
_SHARES = np.geomspace(0.01, 1.0, 16)  # shares of the canaries to guess
_LARGEST_EPSILON = 50.0


# ---- the bound -----------------------------------------------------------------------------------


def _curve(epsilons: FloatArray, deltas: FloatArray) -> Curve:
    """Return points of a curve and, because neighbours may be exchanged, those at -epsilon.

    Both arguments have shape (n,), the results shape (2 n,).
    """
    # Beyond 700, a claim has no effect in double precision, and 1 / ratios would overflow.
    ratios = np.exp(-np.minimum(epsilons, 700.0))
    mirrored = 1.0 - ratios * (1.0 - deltas)
    return np.concatenate([ratios, 1.0 / ratios]), np.concatenate([deltas, mirrored])


def _state_curve(claim: Guarantee | tuple[float, float]) -> Curve:
    """Return points of a claim's curve, of both signs; `ValueError` if nothing is claimed."""
    if isinstance(claim, tuple):
        epsilon = real_in("epsilon", claim[0], "[0, inf)")
        delta = real_in("delta", claim[1], "[0, 1)")
        return _curve(np.array([epsilon]), np.array([delta]))
    if not claim.private:
        raise ValueError("nothing is claimed: a guarantee without privacy cannot be refuted")
    # Points with a smaller delta hardly refute anything. Using fewer points makes the audit weaker
    # but never wrong, because the theorem takes the largest term.
    last = claim.epsilon_at(1e-12)
    top = min(last if np.isfinite(last) else claim.epsilon, 10.0 * _LARGEST_EPSILON)
    epsilons = np.linspace(0.0, top, _POINTS)
    return _curve(epsilons, np.array([claim.delta_at(float(epsilon)) for epsilon in epsilons]))


def _possible(
    curve: Curve, canaries: int, guesses: int, correct: int, chances: FloatArray
) -> NDArray[np.bool_]:
    """Return whether `correct` right guesses may have these probabilities; Theorem 1 of the page.

    Parameters
    ----------
    curve : (ndarray, ndarray)
        From `_state_curve`.
    canaries, guesses, correct : int
        See `false_refutation`.
    chances : ndarray, shape (n,)
        Probabilities to test, all at once.

    Returns
    -------
    ndarray of bool, shape (n,)
        False: no mechanism with this curve has so many right guesses with this probability.
        O(correct) steps.
    """
    ratios, deltas = (each[:, None] for each in curve)
    tail, above = chances.copy(), np.zeros_like(chances)
    for j in range(correct, 0, -1):
        right = (j * tail + above) / canaries
        wrong = (ratios * (right - deltas)).max(axis=0, initial=0.0)
        above += tail
        tail = np.maximum(tail, (above + canaries * wrong) / (guesses - j + 1))
        tail = np.minimum(tail, 2.0)  # values above 1 remain above 1
        if tail.min() > 1.0:
            break
    return np.asarray(tail <= 1.0)


def false_refutation(
    claim: Guarantee | tuple[float, float], canaries: int, guesses: int, correct: int
) -> float:
    """Return a bound on the probability of so many right guesses if a claim is kept.

    Parameters
    ----------
    claim : Guarantee or (float, float)
        The claimed privacy curve, or epsilon and delta.
    canaries : int
        Number of fair independent coins, each of which chose between two records.
    guesses : int
        Largest number of guesses, fixed in advance, at least 1.
    correct : int
        Number of right guesses, at most `guesses`.

    Returns
    -------
    float
        In (0, 1], rounded up by at most one part in a thousand.

    Raises
    ------
    ValueError, TypeError
        For numbers out of range, and for a guarantee without privacy.

    Notes
    -----
    Holds for every mechanism that keeps the claim, and for every way of guessing. Time O(correct).
    Proof: ``docs/privacy/one_run_audit.md``, Theorem 1, after Mahloujifar, Melis and Chaudhuri,
    "Auditing f-differential privacy in one run" (2024).

    Examples
    --------
    >>> from dpoco.audit import false_refutation
    >>> print(f"{false_refutation((1.0, 0.0), 100, 100, 85):.4f}")
    0.0037
    """
    m = positive_int("canaries", canaries)
    c = positive_int("guesses", guesses, maximum=m)
    v = whole_number("correct", correct, high=c)
    curve, low, high = _state_curve(claim), 1e-30, 1.0
    while high > 1.001 * low:
        grid = np.geomspace(low, high, 32)
        refuted = ~_possible(curve, m, c, v, grid)
        if not refuted.any():
            return high
        first = int(np.argmax(refuted))
        if first == 0:
            return low
        low, high = float(grid[first - 1]), float(grid[first])
    return high


def _refutes(curve: Curve, canaries: int, guesses: int, correct: int, error: float) -> bool:
    """Return whether so many right guesses have a probability below `error` under a curve."""
    return not _possible(curve, canaries, guesses, correct, np.array([error]))[0]


def _fewest_right(curve: Curve, canaries: int, guesses: int, error: float) -> int:
    """Return the least number of right guesses that refutes; `guesses` + 1 if there is none."""

    def refutes(correct: int) -> bool:
        """Return whether so many right guesses refute the claim."""
        return _refutes(curve, canaries, guesses, correct, error)

    return bisect_left(range(guesses + 1), True, lo=1, key=refutes)


# ---- power and outcome ---------------------------------------------------------------------------


@dataclass(frozen=True)
class OneRunPower:
    """The power of an audit, stated before the run.

    Attributes
    ----------
    factor : float
        Assumed noise of the learner, as a share of the claimed noise.
    probability : float
        Probability of refuting such a learner, as estimated from rehearsals.
    canaries, guesses, needed : int
        Number of coins, of guesses, and of right guesses that refute the claim.
    accuracy : float
        Expected share of right guesses for such a learner.
    """

    factor: float
    probability: float
    canaries: int
    guesses: int
    needed: int
    accuracy: float

    def __str__(self) -> str:
        return (
            f"a learner with {self.factor:g} of the noise it claims is refuted with probability "
            f"{self.probability:.3g} ({self.canaries} canaries, {self.guesses} guesses, "
            f"{self.needed} of them right)"
        )


@dataclass(frozen=True)
class OneRunReport:
    """Outcome of a one-run audit, computed from released decisions and the coins.

    Attributes
    ----------
    power : OneRunPower
        The power stated before the run.
    correct : int
        Number of right guesses.
    false_refutation : float
        Bound on the probability of so many right guesses if the claim is kept.
    epsilon, delta : float
        The learner is not (epsilon', delta)-private for any epsilon' < epsilon, at this confidence.
    mu : float
        The learner is not mu'-GDP for any mu' < mu, at this confidence.
    confidence : float
        Probability, for each statement, of not making it about a learner that keeps its claim.
    """

    power: OneRunPower
    correct: int
    false_refutation: float
    epsilon: float
    delta: float
    mu: float
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted. False does not mean that it holds."""
        return self.correct >= self.power.needed

    def to_dict(self) -> Options:
        """Return all fields, including `violated`, as plain numbers."""
        return {"violated": self.violated, **asdict(self)}

    def __str__(self) -> str:
        found = "VIOLATED: the claim is refuted" if self.violated else "no violation found"
        return (
            f"One-run audit: {found}\n"
            f"  {self.correct} of {self.power.guesses} guesses are right; if the claim is kept, so "
            f"many have a probability of at most {bound_text(self.false_refutation, 3, up=True)}\n"
            f"  epsilon is at least {bound_text(self.epsilon)} at delta = {self.delta:.4g}, and mu "
            f"at least {bound_text(self.mu)}, each at confidence "
            f"{confidence_text(self.confidence)}\n"
            f"  power, stated before: {self.power}"
        )


class NoPowerError(ValueError):
    """An audit would probably find nothing, even if there were a violation."""


# ---- the audit -----------------------------------------------------------------------------------


class OneRunAudit:
    """Canaries for one run of a learner, their secret coins, and guesses from the decisions.

    Parameters
    ----------
    make_learner : callable
        ``Source -> learner``, as deployed. It is rehearsed to learn how to guess. Its guarantee is
        the claim.
    stream : array_like or tuple of array_like
        Expected records of all rounds, for rehearsals. The guesses are better if these are close to
        the true records, and valid in any case.
    rounds : array_like of int, shape (m,)
        Rounds of the m canaries, all different.
    first, second : array_like or tuple of array_like, m records each
        The two records of each canary; they must be neighbours by the learner's guarantee.
    confidence : float, default 0.95
        Probability, in (0, 1), of not refuting a learner that keeps its claim.
    factor : float, default 0.5
        Share of the noise, in (0, 1): the violation for which guesses are planned and power is
        stated.
    sealed : path, optional
        File of the coins: read if it exists, otherwise written. Keep it as secret as the data until
        the end.
    score : callable, optional
        ``decisions -> (m,)``: large if the first record seems likely, very negative if the second
        does. It must not know the coins. Default: decisions in windows before and after the canary,
        projected on the difference of its records, with weights learned in rehearsals.
    rehearsals : int, default 8
        Number of runs on separate coins, at least 2. Half of them train the guesses, half measure
        the power.
    seed : int, default 0
        Seed of the rehearsals only. The coins come from the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments, records that are not neighbours, and learners without rounds.
    NoPowerError
        A ValueError: the power is below 0.5, so the audit would probably find nothing.
    StateError
        For a file of coins that is damaged or belongs to other canaries.

    Notes
    -----
    The guarantee is taken for single rounds here: a canary of a learner for people is one of a
    person's rounds. Under joint privacy, the decisions of all canary rounds are left out. Memory
    O(T d).

    Examples
    --------
    >>> from dpoco.audit import standard_case, standard_one_run
    >>> case = standard_case("continual-sum", epsilon=4.0, horizon=1000, dimension=100)
    >>> audit = standard_one_run(case, canaries=900)
    >>> audit.power.needed <= audit.power.guesses
    True
    """

    def __init__(
        self, make_learner: Make, stream: Stream, rounds: ArrayLike, first: Stream,
        second: Stream, *,
        confidence: float = 0.95, factor: float = 0.5, sealed: str | Path | None = None,
        score: Score | None = None, rehearsals: int = 8, seed: int = 0,
    ) -> None:  # fmt: skip
        self._make, self._score, self._seed = make_learner, score, seed
        self._error = 1.0 - real_in("confidence", confidence, "(0, 1)")
        self._factor = real_in("factor", factor, "(0, 1)")
        learner = make_fresh(make_learner, Source.seeded(seed))
        if hasattr(learner, "fit"):
            raise ValueError("a one-run audit is of learners that play rounds, not of batch fits")
        family = find_family(learner)
        if family.moves_all_rounds:
            raise ValueError("a record moves all queries of this mechanism: it has no canaries")
        self._stream = family.rounds(stream)
        self._pairs = family.rounds(first), family.rounds(second)
        given = np.asarray(rounds)
        if given.dtype.kind not in "iu":
            raise TypeError("rounds must be integers")
        self._rounds = given.astype(np.int64)
        self._check(family)
        self._guarantee: Guarantee = learner.guarantee
        self._curve = _state_curve(self._guarantee)
        kept = np.arange(len(self._stream))
        self._kept = np.setdiff1d(kept, self._rounds) if family.joint else kept
        self._weights: FloatArray = np.empty(0)
        path = None if sealed is None else Path(sealed)
        # Before the rehearsals, because damaged coins make the audit impossible.
        known = None if path is None or not path.exists() else self._read_coins(path)
        # Learn the guesses from one half and measure them on the other.
        self.power = self._rehearse(whole_number("rehearsals", rehearsals, 2))
        # Before the coins are written, because their file means that the audit can be made.
        if self.power.probability < 0.5:
            raise NoPowerError(f"an audit without power: {self.power}; take more canaries")
        self._coins, self.commitment = self._draw_coins(path) if known is None else known

    def _check(self, family: Family) -> None:
        """Raise unless every canary has a separate round and two neighbouring records."""
        m, ours, theirs = len(self._rounds), *self._pairs
        if self._rounds.ndim != 1 or m < 1 or len(np.unique(self._rounds)) != m:
            raise ValueError("rounds must be different rounds, one for each canary")
        if self._rounds.min() < 0 or self._rounds.max() >= len(self._stream):
            raise ValueError(f"rounds must be in [0, {len(self._stream)}), the stream's")
        if not len(ours) == len(theirs) == m:
            raise ValueError(f"first and second must have one record for each of {m} canaries")
        for i in range(m):
            family.check_records(ours.record(i), theirs.record(i))

    def _draw_coins(self, path: Path | None) -> Coins:
        """Return new coins, written to a file; None stores them in this object only."""
        # Without a salt, the coins of a few canaries could be found from the public digest by
        # trying.
        secret = os.urandom(self._secret_size())
        digest, coins = self._bind(secret)
        if path is not None:
            # With `O_EXCL`, two audits that start together cannot replace each other's coins.
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:  # another audit wrote it during the rehearsals
                return self._read_coins(path)
            with open(handle, "wb") as file:
                file.write(digest + secret)
        return coins, digest.hex()

    def _read_coins(self, path: Path) -> Coins:
        """Return the coins of a file; `StateError` if damaged or of other canaries."""
        data = path.read_bytes()
        if len(data) == _DIGEST + self._secret_size():
            digest, coins = self._bind(data[_DIGEST:])
            if data[:_DIGEST] == digest:
                return coins, digest.hex()
        raise StateError(f"the coins in {path} are damaged, or of other canaries")

    def _secret_size(self) -> int:
        """Return the number of bytes of salt and coins, with eight coins per byte."""
        return _SALT + (len(self._rounds) + 7) // 8

    def _bind(self, secret: bytes) -> tuple[bytes, NDArray[np.bool_]]:
        """Return a hiding digest that commits to a secret and the canaries, and the coins.

        It covers the canaries, because the coins of other records would be other guesses.
        """
        plan = [self._rounds.tobytes()]
        plan += [
            np.ascontiguousarray(part).tobytes() for each in self._pairs for part in each.parts
        ]
        bits = np.unpackbits(np.frombuffer(secret[_SALT:], dtype=np.uint8))
        return hashlib.sha256(b"".join([secret, *plan])).digest(), bits[: len(self._rounds)] > 0

    def canary(self, t: int) -> Record | None:
        """Return the record to feed in round t, or None if round t has no canary.

        This is for services that receive one record per round. Keep it as secret as the coins until
        the end.
        """
        found = np.flatnonzero(self._rounds == t)
        if not len(found):
            return None
        return self._pairs[0 if self._coins[found[0]] else 1].record(int(found[0]))

    def records(self, stream: Stream) -> Record:
        """Return the parts of a stream with the canaries in their rounds, in the form for ``run``.

        Parameters
        ----------
        stream : array_like or tuple of array_like
            The true records of all rounds. Those of canary rounds are replaced.
        """
        return self._plant(split_parts(stream), self._coins)

    def _plant(self, parts: Record, coins: NDArray[np.bool_]) -> Record:
        """Return copies of the parts, with the canaries' records in their rounds."""
        out = []
        for part, ours, theirs in zip(parts, *(each.parts for each in self._pairs), strict=True):
            mixed = np.array(part, dtype=np.float64)
            chosen = coins.reshape(-1, *[1] * (ours.ndim - 1))
            mixed[self._rounds] = np.where(chosen, ours, theirs)
            out.append(mixed)
        return tuple(out)

    def play(self, source: Source | None = None) -> Outcomes:
        """Return the decisions of one run of the learner on the expected stream with canaries."""
        learner = make_fresh(self._make, Source() if source is None else source)
        return self._run(learner, self._coins)

    def _run(self, learner: Learner, coins: NDArray[np.bool_]) -> Outcomes:
        """Return the decisions of a fresh learner on the expected stream with canaries."""
        stream = Rounds(self._plant(self._stream.parts, coins)).stream
        return np.array(play_learner(learner, stream))

    # -- guessing ----------------------------------------------------------------------------------

    def _features(self, decisions: Outcomes) -> FloatArray:
        """Return decisions in windows around each canary, projected on its records' difference.

        Returns
        -------
        ndarray of float64, shape (m, windows)
            Means of decisions over windows that grow geometrically, after the canary and before it,
            minus the last decision that could not depend on it, times the difference of its
            records.

        Raises
        ------
        ValueError
            If decisions have another size than records; then pass `score`.
        """
        ours, theirs = (
            each.parts[-1] if each.parts[-1].ndim > 1 else each.parts[0] * each.parts[-1][:, None]
            for each in self._pairs
        )
        along = (ours - theirs).reshape(len(ours), -1)
        rows = decisions
        if rows.ndim == 1:  # indices
            rows = (rows[:, None] == np.arange(along.shape[1])).astype(np.float64)
        if rows.shape != (len(self._stream), along.shape[1]):
            raise ValueError("decisions do not fit the records' difference: give score")
        rows = rows[self._kept]
        sums = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
        n, at = len(rows), np.searchsorted(self._kept, self._rounds, side="right")
        last = np.einsum("ij,ij->i", rows[np.maximum(at - 1, 0)], along)
        ends = np.unique(np.concatenate([np.arange(8), np.geomspace(1, n, 16).round().astype(int)]))
        columns = []
        for low, high in itertools.pairwise(ends.tolist()):
            for start, stop in ((at + low, at + high), (at - 1 - high, at - 1 - low)):
                start, stop = np.clip(start, 0, n), np.clip(stop, 0, n)
                size = stop - start
                total = np.einsum("ij,ij->i", sums[stop] - sums[start], along)
                columns.append(np.where(size > 0, total / np.maximum(size, 1) - last, 0.0))
        return np.stack(columns, axis=1)

    def scores(self, decisions: ArrayLike) -> FloatArray:
        """Return the scores of all canaries, shape (m,), without using the coins.

        Parameters
        ----------
        decisions : array_like of shape (T,) or (T, d)
            Released decisions of all rounds.

        Raises
        ------
        ValueError
            If a score is not finite, or if there is not one per canary.
        """
        seen = np.asarray(decisions)
        if self._score is None:
            scores: FloatArray = self._features(seen) @ self._weights
        else:
            scores = np.asarray(self._score(seen), dtype=np.float64)
        if scores.shape != self._rounds.shape or not np.all(np.isfinite(scores)):
            raise ValueError("scores must be finite, one for each canary")
        return scores

    def _rehearse(self, count: int) -> OneRunPower:
        """Learn to guess from runs with seeded coins, and measure the power.

        The first half of the runs trains the weights of windows by least squares. The other half
        gives scores, whose distances from their mean are scaled as if there were less noise. The
        number of guesses is the one with the largest power; it is fixed before the audited run.

        Parameters
        ----------
        count : int
            Number of runs, at least 2.
        """
        from scipy.stats import binom

        runs = []
        for k in range(count):
            source = Source.seeded(self._seed + 1 + k)
            coins = source.uniform(len(self._rounds)) < 0.5
            signs = np.where(coins, 1.0, -1.0)
            runs.append((signs, self._run(make_fresh(self._make, source), coins)))
        taught = count // 2
        if self._score is None:
            pairs = [(self._features(decisions), signs) for signs, decisions in runs[:taught]]
            square = sum(rows.T @ rows for rows, _ in pairs)
            both = sum(rows.T @ signs for rows, signs in pairs)
            # Windows outside of the stream are columns of zeros, which make the matrix singular.
            self._weights = np.asarray(np.linalg.lstsq(square, both, rcond=1e-10)[0], np.float64)
        signed = np.stack([signs * self.scores(seen) for signs, seen in runs[taught:]])
        centre = signed.mean()
        # Rehearsals use the claimed noise. With less noise, scores are closer to their mean by this
        # factor.
        signed = centre + self._factor * (signed - centre)
        m = signed.shape[1]
        sizes = np.abs(signed).argsort(axis=1)[:, ::-1]
        right = np.cumsum(np.take_along_axis(signed > 0.0, sizes, axis=1).sum(axis=0))
        best = OneRunPower(self._factor, 0.0, m, 1, 2, 0.0)
        for guesses in np.unique(np.maximum(1, (m * _SHARES).astype(int))).tolist():
            # The additional 1 in the denominator keeps the accuracy below 1 and makes the power
            # smaller.
            accuracy = float(right[guesses - 1] / (guesses * len(signed) + 1))
            needed = _fewest_right(self._curve, m, guesses, self._error)
            power = float(binom.sf(needed - 1, guesses, accuracy))
            if power > best.probability:
                best = OneRunPower(self._factor, power, m, guesses, needed, accuracy)
        return best

    def report(self, decisions: ArrayLike) -> OneRunReport:
        """Return the result of the released decisions.

        Parameters
        ----------
        decisions : array_like of shape (T,) or (T, d)
            Decisions of all rounds, such as ``stream.releases(0, T)`` of a journal.

        Raises
        ------
        ValueError
            For decisions of another shape.
        """
        scores, plan, delta = self.scores(decisions), self.power, self._guarantee.delta
        # Stable, so that equal scores are always guessed in the same order.
        guessed = np.argsort(-np.abs(scores), kind="stable")[: plan.guesses]
        correct = int(np.sum((scores[guessed] > 0.0) == self._coins[guessed]))
        counts = (plan.canaries, plan.guesses, correct)

        def gaussian(mu: float) -> bool:
            """Return whether the guesses refute mu-GDP."""
            claim = Guarantee.gaussian(sensitivity=mu, noise_scale=1.0, delta=1e-9, horizon=1)
            return _refutes(_state_curve(claim), *counts, self._error)

        return OneRunReport(
            power=plan, correct=correct,
            false_refutation=false_refutation(self._guarantee, *counts),
            # Exact to about 5e-5.
            epsilon=bisect_last(
                lambda e: _refutes(_state_curve((e, delta)), *counts, self._error),
                0.0, _LARGEST_EPSILON, steps=20,
            ),
            delta=delta, mu=bisect_last(gaussian, 0.0, _LARGEST_EPSILON, steps=20),
            confidence=1.0 - self._error,
        )  # fmt: skip


def standard_one_run(case: StandardCase, *, canaries: int, **options: Any) -> OneRunAudit:
    """Return a one-run audit of a standard case, with its hard pair in rotated directions.

    Parameters
    ----------
    case : StandardCase
        A case with a learner that plays rounds.
    canaries : int
        Number of rounds with a canary, spread evenly; other rounds are silent. Less than the
        horizon.
    **options
        See `OneRunAudit`.

    Returns
    -------
    OneRunAudit

    Raises
    ------
    ValueError, TypeError
        As for `OneRunAudit`, and if there are as many canaries as rounds.
    NoPowerError
        If so few canaries would probably find nothing.
    """
    at, *record = case.replacements[0]
    ours = Rounds(split_parts(case.stream))
    m = positive_int("canaries", canaries, maximum=len(ours) - 1)

    def turn(values: Record) -> Record:
        """Return one record per canary, with its entries rotated by one each time."""
        return tuple(
            np.stack([np.roll(part, i) for i in range(m)]) if np.ndim(part) else np.full(m, part)
            for part in values
        )

    # Otherwise the case's first record would be informative in a round without a canary.
    silent = Rounds(tuple(part.copy() for part in ours.parts)).with_record(at, ours.record(at + 1))
    # The last round gets no canary, because most learners make no decision after it.
    rounds = np.arange(m) * (len(ours) - 1) // m
    pair = (turn(ours.record(at)), turn(tuple(np.asarray(each) for each in record)))
    return OneRunAudit(case.make_learner, silent.stream, rounds, *pair, **options)
