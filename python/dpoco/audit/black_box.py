"""Black-box audit: run a mechanism on two neighbouring streams and count events.

Whatever the code does inside, an event that is too much more probable on one of two neighbouring
streams than on the other refutes a claimed (epsilon, delta). The confidence intervals are exact, so
a reported violation is real, except with probability 1 - confidence. The converse does not hold: an
audit without findings has seen two streams and one event. It never says that a claim holds, but
only how large a violation it would have found.

Proofs: ``docs/privacy/black_box.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpoco import _core
from dpoco._validation import positive_int, real_in
from dpoco.audit._events import Counts, Event, EventReport, Outcomes, best_event, find_members
from dpoco.audit._family import (
    Decision,
    Learner,
    Make,
    Playing,
    Rounds,
    Stream,
    add_up,
    check_neighbours,
    make_fresh,
    split_parts,
)
from dpoco.audit._kinds import find_known_family
from dpoco.losses import CustomLoss
from dpoco.random import Source

Run = Callable[[Stream, int, Source], Any]

_CONFIDENCE = 1.0 - 1e-6

# Methods that a derived class may override. If it does, its own methods are played.
_METHODS = (
    "decide", "observe", "run", "last_decision", "select", "test", "push", "fit",
    "_decision", "_row", "_check_turn", "add", "release",
)  # fmt: skip

_LARGEST_OUTCOMES = 2**32  # bytes
# A key has 256 bits, that is, four words.
_KEY_WORDS = 4


def epsilon_lower_bound(
    hits: int,
    trials: int,
    neighbour_hits: int,
    neighbour_trials: int,
    *,
    delta: float = 0.0,
    confidence: float = _CONFIDENCE,
) -> float:
    """Return an epsilon that a mechanism exceeds, given how often an event occurred.

    Parameters
    ----------
    hits, trials : int
        Number of occurrences of the event on the stream, and number of independent runs.
    neighbour_hits, neighbour_trials : int
        The same numbers for the neighbouring stream.
    delta : float, default 0
        The allowed delta, in [0, 1).
    confidence : float, default 1 - 1e-6
        Probability that the statement is true, in (0, 1), for any mechanism. The event must have
        been fixed before looking at these runs.

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
    so the probability that any of the four limits is wrong is at most 1 - confidence. Then the
    inequality of the definition is checked in both directions, for the event and its complement,
    without further multiplicity. Needs SciPy.

    Examples
    --------
    >>> from dpoco.audit import epsilon_lower_bound
    >>> print(f"{epsilon_lower_bound(900, 1000, 100, 1000):.3f}")
    1.696
    """
    counts = Counts.from_numbers(hits, trials, neighbour_hits, neighbour_trials)
    return counts.epsilon(
        real_in("delta", delta, "[0, 1)"), 1.0 - real_in("confidence", confidence, "(0, 1)")
    )


@dataclass(frozen=True)
class BlackBoxReport(EventReport):
    """Outcome of a black-box audit, computed from the mechanism's releases.

    Attributes
    ----------
    trials : int
        Number of runs in the test half, on each stream, to which measured, hits and event refer.
    """

    trials: int

    def __str__(self) -> str:
        return self.text("Black-box audit", self.trials, "trials", ("", ""))


def black_box_audit(
    run: Run,
    stream: Stream,
    neighbour: Stream,
    *,
    epsilon: float,
    trials: int,
    events: Event | str | Sequence[Event | str] | None = None,
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
        Two streams that differ in one round, or in rounds of one person, as `run` takes them.
    epsilon : float
        The claim, at least 0.
    trials : int
        Number of runs on each stream, at least 2. Half of them are for training, half for testing.
    events : callable, str, or sequence of them, optional
        Functions from outcomes to one bool per row. The training half decides which event is
        tested. None: use the event that `learn_event` learns from it (a likelihood-ratio set for
        outcomes that repeat, a threshold along the best-separating direction for vectors of real
        numbers). The word "learned" among the events adds that event to them.
    delta : float, default 0
        The claimed delta, in [0, 1).
    confidence : float, default 1 - 1e-6
        Probability, in (0, 1), of not reporting a violation if there is none.
    seed : int, default 0
        Seed of the source.

    Returns
    -------
    BlackBoxReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments, or if `run` or an event returns the wrong number of rows. With
        `learner_runs` also for streams that are not neighbours: at most one round may differ, or
        the rounds that one person may have, if the learner's guarantee is for people.

    Notes
    -----
    Only one event is tested, on runs that were not used to choose it, so choosing costs no
    confidence.

    Examples
    --------
    A bit that is truthful nine times out of ten has an epsilon of ln 9, about 2.2:

    >>> from dpoco.audit import black_box_audit
    >>> def tell(bit, count, source):
    ...     return (source.uniform(count) < (0.9 if bit else 0.1)).astype(int)
    >>> black_box_audit(tell, 1, 0, epsilon=1.0, trials=20_000).violated
    True
    """
    claimed = real_in("epsilon", epsilon, "[0, inf)")
    granted = real_in("delta", delta, "[0, 1)")
    error = 1.0 - real_in("confidence", confidence, "(0, 1)")
    count = positive_int("trials", trials)
    if count < 2:
        raise ValueError("trials must be at least 2: some train, some test")
    train = count // 2
    if callable(events) or isinstance(events, str):
        events = [events]
    given = None if events is None else list(events)
    if given is not None and not given:
        raise ValueError("events must not be empty")
    if isinstance(run, LearnerRuns):
        run = run.pair(stream, neighbour)
    root = Source.seeded(seed)
    # Each stream has its own source, because the counts must be independent.
    ours, theirs = (_outcomes(run, each, count, root.spawn()) for each in (stream, neighbour))
    event = best_event(given, ours[:train], theirs[:train], granted)
    hits, neighbour_hits = (int(find_members(event, rows[train:]).sum()) for rows in (ours, theirs))
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


def _outcomes(run: Run, stream: Stream, count: int, source: Source) -> Outcomes:
    """Return the outcomes of `run`, checked to have one row per run."""
    rows = np.asarray(run(stream, count, source))
    if rows.ndim == 0 or len(rows) != count:
        raise ValueError(f"run must return one row for each of {count} runs")
    return rows


# ---- runs of learners ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnerRuns:
    """A ``run`` for `black_box_audit` that plays a learner or a mechanism; see `learner_runs`.

    Attributes
    ----------
    make_learner : callable
        ``Source -> learner``.
    hidden : tuple of int
        Rounds whose decisions are left out of the outcomes.
    """

    make_learner: Make
    hidden: tuple[int, ...] = ()

    def __call__(self, stream: Stream, count: int, source: Source) -> Outcomes:
        """Return the outcomes of runs on a stream, one per row."""
        learner = self._make(source)
        kind = compiled_kind(learner)
        if kind is None:
            outcomes = self._run_played(learner, stream, count, source)
        else:
            outcomes = self._run_compiled(learner, kind, stream, count, source)
        return np.delete(outcomes, self.hidden, axis=1) if self.hidden else outcomes

    def pair(self, stream: Stream, neighbour: Stream) -> LearnerRuns:
        """Return the run for these two streams, or raise ``ValueError`` if they are not neighbours.

        Under joint privacy, the outcome leaves out what only the changed round's user sees.

        Raises
        ------
        ValueError
            For streams that are not neighbours, and for streams that differ in a last round which
            no release follows.
        """
        # This learner is inspected and never played.
        learner = self._make(Source.seeded(0))
        family = find_known_family(learner)
        ours, theirs = Rounds(split_parts(stream)), Rounds(split_parts(neighbour))
        differ = check_neighbours(family, ours, theirs)
        chooses = family is not None and family.loop == "experts"
        if chooses and differ[0] + 1 == len(ours):
            raise ValueError(
                "no neighbours that could be told apart: they differ in the last round only, which "
                "no decision of the stream comes after; append a round"
            )
        return replace(self, hidden=differ) if family is not None and family.joint else self

    def _make(self, source: Source) -> Learner:
        """Return a new learner; raise if it does not use a stream of the given source.

        A learner on another source would repeat itself in every run, or share noise between runs.
        """
        # Learners that use the source take a stream of it, which increments its counter.
        streams = source._next_stream
        learner = make_fresh(self.make_learner, source)
        claims = source._next_stream != streams
        # A fit takes its stream later, and is played in Python.
        waits = hasattr(learner, "fit") and getattr(learner, "_source", None) is source
        if hasattr(learner, "_arguments") and not (claims or waits):
            raise ValueError("make_learner must give the learner the source it is called with")
        return learner

    def _run_compiled(
        self, learner: Learner, kind: str, stream: Stream, count: int, source: Source
    ) -> Outcomes:
        """Return the outcomes of the compiled loop, with one engine per run, each with its own key.

        The learner's method builds the engines from the description in the guarantee, so the played
        mechanism is the claimed one.
        """
        family = Playing(learner)
        first, *others = family.rounds(stream).parts
        second, rounds = (others[0] if others else None), len(first)
        if rounds < 1:
            raise ValueError("stream must have at least one round")
        if kind == "tests":  # the values that the mechanism compares with zero
            first = np.where(np.isfinite(first), first, 0.0) - learner.plan.tuning.margin

        def build(key: bytes) -> object:
            """Return an engine of the learner in round 0, with this key."""
            # The runs have different keys, so all may use the same stream number.
            return learner._build_engine({"key": key, "stream": 1})

        if family.loop != "vectors":
            decisions = np.empty((_check_size(count, rounds), rounds), dtype=np.int64)
            keys = source.words(_KEY_WORDS * count)
            _core.repeat_decisions(kind, build, keys, first, second, decisions)
            return decisions
        if family.plays == "intervals":  # engines of their sums are played
            first = add_up(learner, first)
            d = first.shape[1]
        else:
            d = next(iter(family.shapes().values()))[0]
        width = rounds * (d + family.marks)
        out = np.empty((_check_size(count, width), width))
        keys = source.words(_KEY_WORDS * count)
        _core.repeat_vectors(kind, build, keys, first, second, rounds, family.marks, out)
        return out

    def _run_played(self, learner: Learner, stream: Stream, count: int, source: Source) -> Outcomes:
        """Return the outcomes of learners that are constructed and played one by one in Python."""
        rows: list[Outcomes] = []
        for run in range(count):
            player = learner if run == 0 else self._make(source)
            transcript = np.asarray(play_learner(player, stream))
            if transcript.dtype.kind not in "iufb":
                raise TypeError("decisions must be numbers or arrays of numbers")
            rows.append(transcript.reshape(-1))
        outcomes = np.stack(rows)
        return outcomes if outcomes.dtype.kind == "f" else outcomes.astype(np.int64)


def learner_runs(make_learner: Make) -> LearnerRuns:
    """Return a `run` for `black_box_audit` that plays a learner or a mechanism.

    Parameters
    ----------
    make_learner : callable
        ``Source -> learner``: an unstarted learner or mechanism on that source, always the same
        one. Any object with ``decide()`` and ``observe(record)`` works; learners and mechanisms of
        this library run in compiled code.

    Returns
    -------
    callable
        ``run(stream, count, source)``; streams are fixed in advance, as for `replay_audit`. Its
        outcomes for learners: integer decisions (for a `LipschitzLearner` the index among its
        `points`), shape (count, T); vector decisions, shape (count, T d), for coupled learners with
        T more entries that are 1 for rounds with a fresh draw. For mechanisms: answers (1 for an
        alarm, 0 for silence, and -1 after the last alarm) or sums. For a batch learner: the fitted
        vector. Its ``pair(stream, neighbour)``, which `black_box_audit` calls, refuses streams that
        are not neighbours, and leaves out what only the user of a bandit's changed round sees.

    Raises
    ------
    ValueError, TypeError
        When run: for a learner that has played or does not use the given source, and for a stream
        of another shape.

    Notes
    -----
    The learner is made and calibrated once for all runs. Every run has an engine with its own key,
    built by the learner's own method, or reset to round 0 with the next key if that is checked to
    be equivalent. The interpreter lock is released, and interrupts are handled between runs. These
    learners are played round by round in Python: classes derived from ours with other methods,
    learners on custom losses, and learners with ``on_violation="raise"``.
    """
    return LearnerRuns(make_learner)


def compiled_kind(learner: Learner) -> str | None:
    """Return the name of the compiled loop that plays this learner unchanged, if there is one.

    None for a class with methods other than the library's, for records that may raise, for custom
    losses, and for engines in Python.
    """
    own = vars(learner) if hasattr(learner, "__dict__") else {}
    for name in _METHODS:
        method = getattr(type(learner), name, None)
        method = getattr(method, "fget", method)
        if name in own or not str(getattr(method, "__module__", "dpoco.")).startswith("dpoco."):
            return None
    # Compiled loops clip records and never raise for them; custom losses call back into Python.
    if getattr(learner, "_raises", False) or isinstance(getattr(learner, "loss", None), CustomLoss):
        return None
    if type(getattr(learner, "_engine", None)).__module__ != _core.__name__:
        return None
    own_play = Playing(learner)
    return "ContinualSum" if own_play.plays in ("sums", "intervals") else own_play.loop


def _check_size(count: int, width: int) -> int:
    """Return `count`; raise `ValueError` if outcomes of `width` numbers each would not fit."""
    if count * width * 8 > _LARGEST_OUTCOMES:
        raise ValueError("outcomes need more than 4 GiB: play fewer runs")
    return count


def play_learner(learner: Learner, stream: Stream) -> list[Decision]:
    """Return what a learner publishes, round by round in Python, or at the end.

    Parameters
    ----------
    learner : Learner
        Unstarted; it is played to the end of the stream.
    stream : array or tuple of arrays
        In the form for ``run`` or ``fit``.
    """
    if hasattr(learner, "fit"):
        return [np.array(learner.fit(*split_parts(stream)).theta)]
    rounds, playing, out = Rounds(split_parts(stream)), Playing(learner), []
    for t in range(len(rounds)):
        record = rounds.record(t)
        decision, answer = playing.decide(learner, record), None
        # No decision of the stream follows its last round.
        if decision is None or t + 1 < len(rounds):
            answer = playing.observe(learner, decision, record)
        out.append(answer if decision is None else decision)
    return out
