"""The attacks of a report: each audit run on one case, and read against the claim."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dpoco.audit._claim import Claim, epsilon_of_point
from dpoco.audit._exercises import CHOICES, Exercise
from dpoco.audit.black_box import BlackBoxReport, black_box_audit, epsilon_lower_bound, learner_runs
from dpoco.audit.likelihood import LikelihoodReport, law_findings, likelihood_audit
from dpoco.audit.replay import ReplayReport, made, replay_audit
from dpoco.audit.report import Attack, ExerciseReport, Point
from dpoco.audit.standard import StandardCase
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.errors import DpocoError
from dpoco.experts import BatchShare, ObliviousTracker, ShiftDetector
from dpoco.mechanisms import AboveThreshold, ContinualSum, NoisyMax
from dpoco.oco import ContinuousMultiplicativeWeights, CoupledRegularizedLeader
from dpoco.random import Source

__all__ = ["black_box_attack", "exercise_attack", "likelihood_attack", "replay_attack"]

FloatArray = NDArray[np.float64]

# Violations by more than this factor are too large to speak of power.
_USEFUL = 4.0
# Of log-likelihoods: grids of the releases, quadratures.
_ROUNDING = 1e-3


# Rounds of one call of `run`: none, one, the rest of a batch, several batches.
_CALLS = (0, 1, 4, 5)
_BLOCK = 16  # entries of two of the widest vector registers
_SCORED = "noise scored by its law"

# What is wrong with a case and not with an audit's knowledge of learners.
_BAD_CASES = ("no neighbour", "stream must", "make_learner must", "a replacement")


def _unavailable(name: str, reason: Exception, learner_is_sound: bool = False) -> Attack:
    """Return the entry of an audit that does not know the learner; raise bad input again."""
    text = str(reason)
    if text.startswith(_BAD_CASES) and not (learner_is_sound and text.startswith("make_learner")):
        raise reason
    return Attack(name, "not available", None, math.inf, text or type(reason).__name__, text=text)


def replay_attack(case: StandardCase, seed: int) -> Attack:
    """Return what one random tape on neighbouring streams shows."""
    try:
        report = replay_audit(case.make_learner, case.stream, case.replacements, seed=seed)
    except TypeError as reason:
        return _unavailable("replay", reason)
    findings = list(report.findings)
    epsilon = None
    mu, _ = report.changes.get("mu of the releases", (0.0, 0.0))
    claim = case.claim
    if mu > 0.0:
        epsilon = gaussian_epsilon(mu, claim.delta) if claim.delta > 0.0 else math.inf
        if claim.published and gaussian_delta(claim.epsilon, mu) > claim.delta * (1.0 + 1e-9):
            findings.append(
                f"with its own noise the movement spends mu = {mu:.4g}, that is epsilon = "
                f"{epsilon:.4g} at delta = {claim.delta:.3g}, claimed is {claim.epsilon:.4g}"
            )
    verdict = "violated" if findings else report.verdict
    text = str(report)
    if epsilon is not None:
        text += (
            f"\n  epsilon of the releases themselves, if their noise is as declared: {epsilon:.4g} "
            f"at delta = {claim.delta:.3g}"
        )
    power = _replay_power(report)
    return Attack("replay", verdict, None, report.detectable, power, tuple(findings), text)


def _verdict(violated: bool, powerful: bool) -> str:
    if violated:
        return "violated"
    return "nothing found" if powerful else "no power"


def _replay_power(report: ReplayReport) -> str:
    """Say by what factor a bound might be understated and not be noticed."""
    reach = report.reached()
    if not report.applicable:
        return (
            "no bound on what a record moves is declared for this learner: nothing that a record "
            "moves would have been found; draws and decisions that depend on it too early would"
        )
    if not reach:
        return (
            "no replaced record reached a quantity with a bound: understated sensitivities would "
            "not have been found; draws and decisions that depend on the record would"
        )
    factor, name = min(reach)
    return (
        f"a record that moves {name} by more than {factor:.4g} times what was seen would have been "
        "found"
        if factor > 1.0005
        else f"the bound on {name} was reached: any smaller bound would have been found wrong"
    )


def likelihood_attack(case: StandardCase, trials: int, seed: int, confidence: float) -> Attack:
    """Return what exact privacy losses of whole transcripts show."""
    try:
        report = likelihood_audit(
            case.make_learner, case.stream, case.neighbour, trials, seed=seed, confidence=confidence
        )
    except (TypeError, ValueError) as reason:
        return _unavailable("likelihood", reason)
    claim = case.claim
    findings = list(report.findings)
    if claim.published:
        findings += _against_published(report, claim)
    points = tuple((row[0], row[2]) for row in report.curve)
    bound = max(epsilon_of_point(*point, claim.delta) for point in points)
    if claim.delta == 0.0:
        # A loss that occurred is a lower bound at delta = 0, whatever its probability.
        bound = max(bound, report.largest_loss * (1.0 - _ROUNDING))
    verdict = _verdict(bool(findings), report.powerful)
    power = (
        f"privacy losses {report.detectable:.4g} times as large as they are would have been "
        "found, and so would noise of another law"
        if math.isfinite(report.detectable)
        else "privacy losses 16 times as large as they are would not have been found"
    )
    return Attack(
        "likelihood", verdict, bound, report.detectable, power, tuple(findings), str(report), points
    )


def _against_published(report: LikelihoodReport, claim: Claim) -> list[str]:
    """Return where a curve is above a claim that the library does not share."""
    findings = []
    for epsilon, measured, lower, _ in report.curve:
        claimed = claim.delta_at(epsilon)
        if lower > claimed + _ROUNDING * min(1.0, claim.epsilon) * measured:
            findings.append(
                f"delta({epsilon:.4g}) is at least {lower:.4g}, published is {claimed:.4g}"
            )
            break
    if claim.delta == 0.0 and report.largest_loss > claim.epsilon * (1.0 + _ROUNDING):
        findings.append(
            f"a run has privacy loss {report.largest_loss:.4g}, published are at most "
            f"{claim.epsilon:.4g}"
        )
    return findings


def black_box_attack(case: StandardCase, trials: int, seed: int, confidence: float) -> Attack:
    """Return what frequencies of events among the decisions show."""
    claim = case.claim
    try:
        report = black_box_audit(
            learner_runs(case.make_learner), case.stream, case.neighbour, epsilon=claim.epsilon,
            delta=claim.delta, trials=trials, confidence=confidence, seed=seed,
        )  # fmt: skip
    except (TypeError, ValueError) as reason:
        # The replay audit has seen that the learner is made as it must be.
        return _unavailable("black box", reason, learner_is_sound=True)
    factor = report.detectable / claim.epsilon if claim.epsilon > 0.0 else math.inf
    verdict = _verdict(report.violated, factor <= _USEFUL)
    power = (
        f"a true epsilon of {report.detectable:.4g} or more would have been found on this event"
        if math.isfinite(report.detectable)
        else "no epsilon would have been found on this event"
    )
    findings = (
        (f"epsilon is at least {report.measured:.4g}, claimed is {claim.epsilon:.4g}",)
        if report.violated
        else ()
    )
    return Attack(
        "black box", verdict, report.measured, factor, power, findings, str(report),
        _points(report),
    )  # fmt: skip


def _points(report: BlackBoxReport) -> tuple[Point, ...]:
    """Return the lower curve that the counts of the tested event prove, as far as it says a lot."""
    counts = report.hits, report.trials, report.neighbour_hits, report.trials
    deltas = [report.delta, *np.geomspace(1e-4, 0.9, 25).tolist()]
    points = [
        (epsilon_lower_bound(*counts, delta=delta, confidence=report.confidence), delta)
        for delta in sorted(set(deltas))
    ]
    return tuple(point for point in points if point[0] > 0.0)


# ---- exercises -----------------------------------------------------------------------------------


def exercise_attack(
    exercises: tuple[Exercise, ...], seed: int, confidence: float
) -> ExerciseReport:
    """Return what all exercises of one learner found, reached, and did not reach."""
    error = (1.0 - confidence) / max(1, len(exercises))
    findings: list[str] = []
    facts: dict[str, bool] = {}
    pairs = scored = 0
    for exercise in exercises:
        texts, reached, played = _exercised(exercise, seed, error)
        findings += texts
        pairs += played
        scored += reached.get(_SCORED, False)
        for name, seen in reached.items():
            facts[name] = facts.get(name, False) or seen
    return ExerciseReport(
        len(exercises),
        pairs,
        scored,
        tuple(dict.fromkeys(findings)),
        tuple(name for name, seen in facts.items() if seen),
        tuple(name for name, seen in facts.items() if not seen),
    )


def _exercised(
    exercise: Exercise, seed: int, error: float
) -> tuple[list[str], dict[str, bool], int]:
    """Return the findings of one exercise, what it could reach and did, and its neighbours."""
    make = exercise.maker()
    learner = made(make, seed)
    parts = exercise.stream(learner)
    neighbours = exercise.neighbours(learner, parts)
    own = ", ".join(f"{name} {value}" for name, value in exercise.settings.items())
    findings: list[str] = []
    reached: dict[str, bool] = {}
    attacks: tuple[Callable[[], Iterable[str]], ...] = (
        lambda: replay_audit(make, _joined(parts), neighbours, seed=seed).findings,
        lambda: _enter(make, learner, parts, seed, reached),
        # Scorers take for granted what the two others look at.
        lambda: (
            ()
            if findings
            else _law(make, parts, neighbours[0], exercise.trials, seed, error, reached)
        ),
    )
    for attack in attacks:
        try:
            findings += (f"{own}: {text}" for text in attack())
        except DpocoError as reason:  # of a stream that it must play, a state that it wrote
            findings.append(f"{own}: {type(reason).__name__}: {reason}")
    return findings, reached, len(neighbours)


def _joined(parts: tuple[FloatArray, ...]) -> Any:
    return parts if len(parts) > 1 else parts[0]


def _law(
    make: Callable[[Source], Any],
    parts: tuple[FloatArray, ...],
    neighbour: tuple[Any, ...],
    trials: int,
    seed: int,
    error: float,
    reached: dict[str, bool],
) -> list[str]:
    """Score the noise of some runs, where its law is known."""
    at, *record = neighbour
    other = tuple(part.copy() for part in parts)
    for part, entry in zip(other, record, strict=True):
        part[at] = entry
    found = law_findings(make, _joined(parts), _joined(other), trials, seed=seed, error=error)
    reached[_SCORED] = found is not None
    return found or []


def _enter(
    make: Callable[[Source], Any],
    learner: Any,
    parts: tuple[FloatArray, ...],
    seed: int,
    reached: dict[str, bool],
) -> Iterator[str]:
    """Play a stream by all ways in, side by side, and note what it reached."""
    rounds, runs = len(parts[0]), made(make, seed)
    ends = [min(end, rounds) for end in itertools.accumulate(_CALLS)] + [rounds]
    for first, last in itertools.pairwise(ends) if not hasattr(learner, "fit") else ():
        before = learner._engine.state()
        for t in range(first, last):
            _step(learner, tuple(part[t] for part in parts))
        if not hasattr(learner, "run"):
            continue
        resumed = made(make, seed)
        resumed._engine.restore(before)
        for other, text in ((runs, "`run`"), (resumed, "`run` of a resumed state")):
            other.run(*(part[first:last] for part in parts))
            if other._engine.state() != learner._engine.state():
                yield f"{text} leaves another state than `observe`, round by round"
    reached |= _facts(learner, parts)


def _step(learner: Any, record: tuple[Any, ...]) -> None:
    if isinstance(learner, ContinualSum):
        learner.push(*record)
    elif isinstance(learner, NoisyMax):
        learner.select(*record)
    elif isinstance(learner, AboveThreshold):
        if learner.alarms_left:
            learner.test(float(record[0]))
    elif isinstance(learner, (LinUCB, HighDimensionalBandit)):
        learner.observe(record[1][learner.decide(record[0])])
    else:
        learner.decide()
        learner.observe(*(x if np.ndim(x) else float(x) for x in record))


def _facts(learner: Any, parts: tuple[FloatArray, ...]) -> dict[str, bool]:
    """Return what can be reached with such a learner, and whether it was."""
    p, rows = learner.parameters, parts[0]
    facts = {
        "records that are not finite": not bool(np.all(np.isfinite(rows))),
        "records beyond their bound": bool(np.any(np.abs(rows) > 1e3)),
    }
    if rows.ndim > 1:
        size = rows.shape[1]
        facts |= {
            "an odd dimension": size % 2 == 1,
            "an even dimension": size % 2 == 0,
            f"a dimension above {_BLOCK}": size > _BLOCK,
        }
    batch = getattr(p, "batch", getattr(p, "block", None))
    if isinstance(batch, int) and not hasattr(learner, "fit"):
        facts["batches of several rounds"] = batch > 1
        facts["a last batch that is incomplete"] = len(rows) % batch != 0
    if hasattr(learner, "run"):
        facts |= {"run beside observe": True, "a resumed state": True}
    if isinstance(learner, ShiftDetector):
        facts["alarms"] = len(learner.alarms) > 0
    elif isinstance(learner, AboveThreshold):
        facts["the cap on alarms"] = learner.alarms_left == 0
    elif isinstance(learner, ObliviousTracker):
        facts["the cap on fresh draws"] = learner.resamples == p.max_resamples
    elif isinstance(learner, (CoupledRegularizedLeader, ContinuousMultiplicativeWeights)):
        facts["the cap on switches"] = learner.switches == p.max_switches
    elif isinstance(learner, BatchShare):
        facts["shared weights"] = p.share_rate > 0.0
    choices = (CHOICES[cls] for cls in type(learner).__mro__ if cls in CHOICES)
    for name, values in next(choices, {}).items():
        chosen = getattr(p, name)
        facts |= {f"{name} {value}": chosen == value for value in values}
    return facts
