"""Replay audit: play two neighbouring streams with the same random tape.

The proof of a learner uses facts about the code. This audit measures each fact on real runs with
equal noise:

1. the input of a release in a round is a function of that round's record and of earlier
   publications, and nothing else (otherwise a record could affect later rounds as well);
2. replacing a record changes this input by at most the declared sensitivity;
3. neither the number of random variates drawn nor any publication up to the changed round
   depends on the record, and every release draws separate noise.

There are no statistics: a single violation proves that the claim is wrong.
``docs/privacy/replay_and_likelihood.md`` lists the checks for each family of learners, and what
they cannot detect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpoco.audit._family import Family, Learner, Make, Play, Rounds, Stream, make_fresh, same
from dpoco.audit._kinds import find_family
from dpoco.audit._sums import ROUNDING
from dpoco.audit.report import Findings, bound_text, judge
from dpoco.random import Source

__all__ = ["ReplayReport", "replay_audit"]

# Smaller bounds, absolute or as a share of the largest, are allowances for rounding errors.
_ABSOLUTE, _RELATIVE = 1e-8, 1e-6
_HEADINGS = {
    "violated": "VIOLATED",
    "nothing found": "no violation found",
    "no power": "no power: no violation found",
    "not applicable": "no power, not applicable: no violation found",
}


@dataclass(frozen=True, repr=False)
class ReplayReport(Findings):
    """Outcome of a replay audit; computed from raw data, and so not private.

    "No violation found" only covers what the runs reached: see `verdict` and `detectable`.

    Attributes
    ----------
    declared : float or None
        Bound in the guarantee on the quantity that came nearest to its bound. None if no quantity
        that a record may move has a bound: see `applicable`.
    measured : float or None
        Largest change of this quantity over all pairs; None in the same cases.
    pairs : int
        Number of neighbouring pairs played.
    findings : tuple of str
        Violations, in words; empty if none was found.
    changes : dict of str to (float, float)
        Largest change and bound of each compared quantity.
    """

    declared: float | None
    measured: float | None
    pairs: int
    findings: tuple[str, ...]
    changes: dict[str, tuple[float, float]] = field(default_factory=dict, hash=False)

    @property
    def detectable(self) -> float:
        """Smallest factor by which movements must exceed the measured ones to be reported.

        For the quantity that came nearest to its bound; infinite if no record affected a release.
        """
        return max(1.0, min((factor for factor, _ in self.factors()), default=math.inf))

    def factors(self) -> list[tuple[float, str]]:
        """Return declared over measured, and the name, of every bounded quantity that moved.

        A factor of 1 means that the bound was reached, so no smaller bound would be true.
        """
        return [
            (declared / measured, name)
            for name, (measured, declared) in self._bounded_changes().items()
            if measured > 0.0
        ]

    def _bounded_changes(self) -> dict[str, tuple[float, float]]:
        """Return the changes and bounds of quantities that a record may move.

        Quantities that must not move have allowances for rounding errors. These are not bounds, and
        rounding errors close to them do not show power.
        """
        bounds = [declared for _, declared in self.changes.values() if declared < math.inf]
        least = max(_ABSOLUTE, _RELATIVE * max(bounds, default=0.0))
        return {name: pair for name, pair in self.changes.items() if pair[1] > least}

    @property
    def applicable(self) -> bool:
        """Whether the learner's proof bounds a quantity that a record may move on these streams.

        If coins are drawn, or decisions are drawn by a schedule (coupling "scheduled"), the proof
        is about the laws of fresh draws, of which one tape shows nothing. Then only control flow,
        publications before the changed round, and reuse of noise were compared.
        """
        return bool(self._bounded_changes())

    @property
    def verdict(self) -> str:
        """One of "violated", "nothing found", "no power" and "not applicable".

        "nothing found" is only returned by an audit that could have found something.
        """
        if not self.violated and not self.applicable:
            return "not applicable"
        return judge(self.violated, self.powerful)

    def __repr__(self) -> str:
        return (
            f"ReplayReport({self.verdict!r}, declared={self.declared!r}, "
            f"measured={self.measured!r}, pairs={self.pairs}, findings={self.findings!r})"
        )

    def __str__(self) -> str:
        verdict = _HEADINGS[self.verdict]
        lines = [f"Replay audit: {verdict} in {self.pairs} neighbouring pairs"]
        for name, (measured, declared) in self.changes.items():
            text = f"  {name}: declared {declared:.6g}, largest measured {measured:.6g}"
            if 0.0 < measured < declared:
                factor = bound_text(declared / measured, up=True)
                text += f"; {factor} times as much would have been reported"
            elif measured == 0.0 and declared > 0.0:
                text += "; nothing moved it: this bound was not tested"
            lines.append(text)
        if not self.applicable:
            lines.append(
                "  no bound on what a record moves is declared here: draws and what is published "
                "before the changed round were compared, and nothing else"
            )
        elif not self.factors():
            lines.append(
                "  no replaced record reached a quantity with a bound: "
                "sensitivities were not tested"
            )
        else:
            lines.append(
                "  smallest violation that could have been detected: a factor "
                f"{bound_text(self.detectable, up=True)}"
            )
        return "\n".join(lines + [f"  - {text}" for text in self.findings])


def replay_audit(
    make_learner: Make, stream: Stream, replacements: Sequence[Sequence[object]], *, seed: int = 0
) -> ReplayReport:
    """Play a stream and its neighbours on one random tape, and compare the runs.

    Parameters
    ----------
    make_learner : callable
        ``Source -> learner``: a new, unstarted learner or mechanism of this library on that source.
        It is called with an equal seeded source for every run. All learners of the library are
        known: see ``docs/privacy/replay_and_likelihood.md``.
    stream : array or tuple of arrays
        The observed records, one row per round: ``(features, labels)``, shapes (T, d) and (T,), for
        generalised linear losses; gradients, shape (T, d), for a `LinearLoss`; ``(matrices,
        vectors)`` for a `QuadraticLoss`; losses of all experts or points, shape (T, N);
        ``(contexts, rewards)``, shapes (T, d) and (T, K), with rewards of all arms, for bandits;
        vectors, scores or excesses over a threshold for a mechanism.
    replacements : sequence of tuples (round, ...)
        Each gives a neighbour: the record of this round, counted from 0, is replaced by the
        following parts, one for each part of the stream. For a learner on sums whose guarantee is
        for people, it is replaced in all rounds of a person, starting with this one, as early as
        the rule allows.
    seed : int, default 0
        Seed of the tape.

    Returns
    -------
    ReplayReport

    Raises
    ------
    TypeError
        If no family knows the learner, or if the same learner is not made again.
    ValueError
        If the learner does not use the given source or does not repeat itself on one tape; for a
        stream of another shape; and for a replacement that is not a neighbour.

    Notes
    -----
    Plays T rounds in Python per pair, and twice T rounds for the stream itself.

    Examples
    --------
    >>> from dpoco.audit import replay_audit, standard_case
    >>> case = standard_case("noisy-max")
    >>> replay_audit(case.make_learner, case.stream, case.replacements).verdict
    'nothing found'
    """

    def fresh(before: Learner | None = None) -> Learner:
        """Return a new learner on the one tape."""
        return make_fresh(make_learner, Source.seeded(seed), before)

    pairs = _checked_replacements(replacements)
    learner = fresh()
    family = find_family(learner)
    rounds = family.rounds(stream)
    horizon = getattr(learner, "horizon", len(rounds))
    if not 1 <= len(rounds) <= horizon:
        raise ValueError(f"stream has {len(rounds)} rounds, over the learner's {horizon}, or none")
    neighbours = [_neighbour(family, rounds, *pair) for pair in pairs]
    # If a learner varied between runs on one tape, its noise would look like findings.
    base, again = family.play(learner, rounds), family.play(fresh(learner), rounds)
    if again.published != base.published or again.variates != base.variates:
        raise ValueError("make_learner must give learners that repeat themselves on one tape")
    findings = [*base.findings, *_reuse(base)]
    changes: dict[str, tuple[float, float]] = {}
    for person_rounds, other_rounds in neighbours:
        at, together = person_rounds[0], family.joins_rounds and family.person[0] > 1
        family.person_rounds, family.other = person_rounds, rounds if together else None
        other = family.play(fresh(learner), other_rounds)
        findings += [*other.findings, *_reuse(other), *_control_flow(family, base, other, at)]
        findings += (f"round {at}: {text}" for text in family.compare(base, other, at))
        moved = family.person_changes(other) if together else family.changes(base, other, at)
        for name, measured, declared in moved:
            if not measured <= declared * (1.0 + ROUNDING):
                findings.append(f"round {at}: a replaced record moved {name} by {measured:.6g}")
            most, _ = changes.get(name, (0.0, declared))
            # NaN is also a finding.
            changes[name] = (most if measured <= most else measured, declared)
    texts = tuple(dict.fromkeys(findings))
    report = ReplayReport(None, None, len(pairs), texts, changes)
    if not (report.applicable or texts):
        return report
    measured, declared = max(
        changes.values(),
        key=lambda pair: pair[0] / pair[1] if pair[1] > 0.0 else pair[0],
        default=(0.0, 0.0),
    )
    return ReplayReport(declared, measured, len(pairs), texts, changes)


def _checked_replacements(
    replacements: Sequence[Sequence[object]],
) -> list[tuple[int, list[object]]]:
    """Return round and parts of every replacement; raise for invalid ones."""
    pairs = []
    for each in replacements:
        if isinstance(each, np.ndarray) or not isinstance(each, Sequence) or len(each) < 2:
            raise TypeError("every replacement must be a tuple (round, parts of the record)")
        at, *record = each
        # In Python, `True` is an `int`, and would mean round 1.
        if isinstance(at, (bool, np.bool_)) or not isinstance(at, (int, np.integer)):
            raise TypeError("the round of a replacement must be an int")
        pairs.append((int(at), record))
    if not pairs:
        raise ValueError("replacements must name at least one neighbour")
    return pairs


def _neighbour(
    family: Family, rounds: Rounds, at: int, replacement: Sequence[object]
) -> tuple[tuple[int, ...], Rounds]:
    """Return the stream, and the rounds, of a person who has this record as often as allowed.

    Parameters
    ----------
    family : Family
        Decides which records may replace others, and how often one person may come.
    rounds : Rounds
        The stream.
    at : int
        The first replaced round.
    replacement : sequence
        Parts of the new record.

    Raises
    ------
    ValueError
        For a round outside of the stream, and for records that are not neighbours.
    """
    if not 0 <= at < len(rounds):
        raise ValueError(f"no neighbour: round {at} of a replacement is not in the stream")
    record, old = family.record(rounds, replacement), rounds.record(at)
    if same(old, record):
        raise ValueError("a replacement leaves the stream as it is: that is no neighbour")
    family.check_records(old, record)
    person_rounds, other, (most, apart) = [at], rounds.with_record(at, record), family.person
    for t in range(at + apart, len(rounds)) if family.joins_rounds else ():
        free = len(person_rounds) < most and t >= person_rounds[-1] + apart
        if free and family.replaces(rounds.record(t), record):
            person_rounds.append(t)
            other = other.with_record(t, record)
    return tuple(person_rounds), other


def _reuse(play: Play) -> Iterator[str]:
    """Yield releases that drew no noise."""
    for t, wanted in enumerate(play.due):
        if sum(play.variates[t + 1]) - sum(play.variates[t]) < wanted:
            yield f"round {t}: a release drew no noise"
            return


def _control_flow(family: Family, base: Play, other: Play, at: int) -> Iterator[str]:
    """Yield where what was published before a record, or how much was drawn, depends on it.

    Yield cases in which publications before a record, or numbers of draws, depend on it.
    compared up to the first difference of what is published.
    """
    for t in range(min(at + family.first_affected, len(base.published))):
        if base.published[t] != other.published[t]:
            yield f"round {at}: an earlier decision depends on a later record"
            break
    apart = False
    for t, (ours, theirs) in enumerate(zip(base.variates, other.variates, strict=False)):
        # These variates were drawn with the publication of this round: a decision made before its
        # record, or the answer to it.
        k = t - 1 + family.first_affected
        if 0 <= k < min(len(base.published), len(other.published)):
            apart = apart or base.published[k] != other.published[k]
        if apart and family.schedule == "published":
            return
        if ours != theirs:
            yield f"round {at}: the number of variates drawn depends on the record"
            return
