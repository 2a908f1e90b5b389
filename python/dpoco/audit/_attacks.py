"""The attacks of a report: each audit run on one case, and read against the claim."""

from __future__ import annotations

import math

import numpy as np

from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dpoco.audit._claim import Claim, epsilon_of_point
from dpoco.audit.black_box import BlackBoxReport, black_box_audit, epsilon_lower_bound, learner_runs
from dpoco.audit.likelihood import LikelihoodReport, likelihood_audit
from dpoco.audit.replay import ReplayReport, replay_audit
from dpoco.audit.report import Attack, Point
from dpoco.audit.standard import StandardCase

__all__ = ["black_box_attack", "likelihood_attack", "replay_attack"]

# Violations by more than this factor are too large to speak of power.
_USEFUL = 4.0
# Of log-likelihoods: grids of the releases, quadratures.
_ROUNDING = 1e-3


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
    verdict = _verdict(bool(findings), report.powerful)
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
