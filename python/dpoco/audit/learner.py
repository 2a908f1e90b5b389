"""A function that attacks a learner with all applicable audits, and returns one report."""

from __future__ import annotations

import math

import numpy as np

from dpoco._validation import positive_int, real_in, whole_number
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.audit._exercises import exercise_attack
from dpoco.audit.black_box import BlackBoxReport, black_box_audit, epsilon_lower_bound, learner_runs
from dpoco.audit.likelihood import (
    ROUNDING,
    LikelihoodReport,
    above,
    fewest_trials,
    likelihood_audit,
)
from dpoco.audit.replay import ReplayReport, replay_audit
from dpoco.audit.report import (
    USEFUL,
    Attack,
    AuditReport,
    Claim,
    Point,
    bound_text,
    epsilon_of_point,
    judge,
)
from dpoco.audit.standard import StandardCase, standard_case
from dpoco.privacy.losses.gaussian import gaussian_delta

_CONFIDENCE = 1.0 - 1e-6
_BLACK_BOX = 40_000
# Range and number of steps of the claimed curve, in units of the claimed epsilon.
_LONGEST, _STEPS = 2.0, 80
# Beginnings of messages about an invalid case, as opposed to an unknown learner.
_BAD_CASES = ("no neighbour", "stream must", "make_learner must", "a replacement")


def audit_learner(
    case: str | type | StandardCase,
    *,
    trials: int | None = None,
    seed: int = 0,
    confidence: float = _CONFIDENCE,
) -> AuditReport:
    """Attack a learner with every audit that applies, and play all its exercises.

    Parameters
    ----------
    case : str, type or StandardCase
        A case from `standard_case` or your own; or a name or a class, for its standard case with
        epsilon 1.
    trials : int, optional
        Number of runs on each of the two streams, for the likelihood audit and for the black-box
        audit. Default: enough for the audits of this case to have power.
    seed : int, default 0
        Seed of all runs, at least 0.
    confidence : float, default 1 - 1e-6
        Probability, in (0, 1) and for each attack, of not reporting a violation if there is none.

    Returns
    -------
    AuditReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments, streams that are not neighbours, too few trials to refute anything, and
        learners that have played or have no privacy guarantee.
    CalibrationError
        If the learner cannot be calibrated for this budget and size.

    Notes
    -----
    No report says that a claim holds: see ``docs/audit.md``. With the defaults it takes seconds.

    Examples
    --------
    >>> from dpoco.audit import audit_learner
    >>> audit_learner("noisy-max", trials=1000).outcome
    'not refuted'
    """
    level = real_in("confidence", confidence, "(0, 1)")
    root = whole_number("seed", seed)
    if not isinstance(case, StandardCase):
        case = standard_case(case)
    count = None if trials is None else positive_int("trials", trials)
    # The same limit as in `likelihood_audit`, checked before any attack is played.
    least = fewest_trials((1.0 - level) / 12.0)
    if count is not None and count < least:
        raise ValueError(f"trials must be at least {least} to show anything; got {count}")
    if not case.claim.guarantee.private:
        raise ValueError("the learner has no privacy guarantee: there is no claim to test")
    attacks = (
        replay_attack(case, root),
        _likelihood_attack(case, case.trials if count is None else count, root, level),
        _black_box_attack(case, _BLACK_BOX if count is None else count, root, level),
    )
    return AuditReport(
        name=case.name,
        learner=case.learner,
        about=case.about,
        claim=case.claim,
        settings=case.settings,
        attacks=attacks,
        exercises=exercise_attack(case.exercises, root, level),
        claimed_curve=_curve(case.claim),
        seed=root,
        confidence=level,
    )


def _curve(claim: Claim) -> tuple[Point, ...]:
    """Return points of the claimed curve for figures: 81 up to twice the claimed epsilon."""
    epsilons = [claim.epsilon * _LONGEST * i / _STEPS for i in range(_STEPS + 1)]
    return tuple((epsilon, claim.delta_at(epsilon)) for epsilon in epsilons)


# ---- audits, read against the claim --------------------------------------------------------------


def _unavailable(name: str, reason: Exception, learner_is_sound: bool = False) -> Attack:
    """Return the entry of an audit that cannot attack the learner; re-raise for bad input.

    Parameters
    ----------
    name : str
        Name of the audit.
    reason : Exception
        The exception that it raised.
    learner_is_sound : bool
        Whether another audit has already checked that the learner is made correctly.
    """
    # Decided by the beginning of the message, because the exception types are the same.
    text = str(reason)
    if text.startswith(_BAD_CASES) and not (learner_is_sound and text.startswith("make_learner")):
        raise reason
    return Attack(name, "not available", None, math.inf, text or type(reason).__name__, text=text)


def replay_attack(case: StandardCase, seed: int) -> Attack:
    """Return the result of one random tape on neighbouring streams.

    Parameters
    ----------
    case : StandardCase
        All its replacements are replayed.
    seed : int
        Seed of the tape.

    Returns
    -------
    Attack
        It measures no epsilon, because a tape only shows movements. If these have a mu, the text
        states the epsilon of this mu with the declared noise, and a published claim below it is
        refuted.
    """
    try:
        report = replay_audit(case.make_learner, case.stream, case.replacements, seed=seed)
    except TypeError as reason:
        return _unavailable("replay", reason)
    findings = list(report.findings)
    epsilon = None
    mu, _ = report.changes.get("mu of the releases", (0.0, 0.0))
    claim = case.claim
    if mu > 0.0:
        # At delta = 0, Gaussian noise has no finite epsilon.
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
    power = replay_power(report)
    return Attack("replay", verdict, None, report.detectable, power, tuple(findings), text)


def replay_power(report: ReplayReport) -> str:
    """Return in words by what factor a bound could be too small without being noticed.

    In reports, a factor of 1.0005 or less means that the bound was reached.
    """
    reach = report.factors()
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
        f"a record that moves {name} by more than {bound_text(factor, up=True)} times what was "
        "seen would have been found"
        if factor > 1.0005
        else f"the bound on {name} was reached: any smaller bound would have been found wrong"
    )


def _likelihood_attack(case: StandardCase, trials: int, seed: int, confidence: float) -> Attack:
    """Return the result of exact privacy losses of whole transcripts.

    Parameters
    ----------
    case : StandardCase
        Its pair of streams.
    trials : int
        Number of runs on each stream.
    seed : int
    confidence : float
    """
    try:
        report = likelihood_audit(
            case.make_learner, case.stream, case.neighbour, trials, seed=seed, confidence=confidence
        )
    except (TypeError, ValueError) as reason:
        return _unavailable("likelihood", reason)
    claim = case.claim
    findings = list(report.findings)
    if claim.published:
        findings += _compare_with_published(report, claim)
    points = tuple((row[0], row[2]) for row in report.curve)
    # At the claim's own delta, so that attacks can be compared.
    bound = max(epsilon_of_point(*point, claim.delta) for point in points)
    if claim.delta == 0.0:
        # An observed loss is a lower bound at delta = 0, whatever its probability.
        bound = max(bound, report.largest_loss * (1.0 - ROUNDING))
    verdict = judge(bool(findings), report.powerful)
    power = (
        f"privacy losses {bound_text(report.detectable, up=True)} times as large as they are "
        "would have been found, and so would noise of another law"
        if math.isfinite(report.detectable)
        else "privacy losses 16 times as large as they are would not have been found"
    )
    return Attack(
        "likelihood", verdict, bound, report.detectable, power, tuple(findings), str(report), points
    )


def _compare_with_published(report: LikelihoodReport, claim: Claim) -> list[str]:
    """Return findings if a curve is above a published claim that differs from the library's."""
    findings = above(report.curve, claim, "published")[:1]
    if claim.delta == 0.0 and report.largest_loss > claim.epsilon * (1.0 + ROUNDING):
        findings.append(
            f"a run has privacy loss {report.largest_loss:.4g}, published are at most "
            f"{claim.epsilon:.4g}"
        )
    return findings


def _black_box_attack(case: StandardCase, trials: int, seed: int, confidence: float) -> Attack:
    """Return the result of frequencies of events among the decisions.

    Parameters
    ----------
    case : StandardCase
        Its pair of streams.
    trials : int
        Number of runs on each stream; half of them are for training.
    seed : int
    confidence : float
    """
    claim = case.claim
    try:
        report = black_box_audit(
            learner_runs(case.make_learner), case.stream, case.neighbour, epsilon=claim.epsilon,
            delta=claim.delta, trials=trials, confidence=confidence, seed=seed,
        )  # fmt: skip
    except (TypeError, ValueError) as reason:
        # The replay audit has already checked that the learner is made correctly.
        return _unavailable("black box", reason, learner_is_sound=True)
    factor = report.detectable / claim.epsilon if claim.epsilon > 0.0 else math.inf
    verdict = judge(report.violated, factor <= USEFUL)
    power = (
        f"a true epsilon of {bound_text(report.detectable, up=True)} or more would have been found "
        "on this event"
        if math.isfinite(report.detectable)
        else "no epsilon would have been found on this event"
    )
    found = f"epsilon is at least {bound_text(report.measured)}, claimed is {claim.epsilon:.4g}"
    return Attack(
        "black box", verdict, report.measured, factor, power, (found,) * report.violated,
        str(report), _points(report),
    )  # fmt: skip


def _points(report: BlackBoxReport) -> tuple[Point, ...]:
    """Return the informative part of the lower curve that the tested event's counts prove."""
    counts = report.hits, report.trials, report.neighbour_hits, report.trials
    deltas = [report.delta, *np.geomspace(1e-4, 0.9, 25).tolist()]
    points = [
        (epsilon_lower_bound(*counts, delta=delta, confidence=report.confidence), delta)
        for delta in sorted(set(deltas))
    ]
    return tuple(point for point in points if point[0] > 0.0)
