"""One call that attacks one learner with everything that applies, and one report of it."""

from __future__ import annotations

from dpoco._validation import positive_int, real_float
from dpoco.audit import _bounds
from dpoco.audit._attacks import (
    black_box_attack,
    exercise_attack,
    likelihood_attack,
    replay_attack,
)
from dpoco.audit._claim import Claim
from dpoco.audit.report import AuditReport, Point
from dpoco.audit.standard import StandardCase, standard_case

__all__ = ["audit_learner"]

_CONFIDENCE = 1.0 - 1e-6
_BLACK_BOX = 40_000
# Where the claimed curve is drawn, in units of the claimed epsilon.
_LONGEST, _STEPS = 2.0, 80


def audit_learner(
    case: str | StandardCase,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    horizon: int | None = None,
    dimension: int | None = None,
    calibration: str | None = None,
    trials: int | None = None,
    seed: int = 0,
    confidence: float = _CONFIDENCE,
) -> AuditReport:
    """Attack a learner with every audit that applies to it, and play all its exercises.

    Parameters
    ----------
    case : str or StandardCase
        A name for `standard_case`, with the options that follow, or a case of your own: then those
        options must be left out.
    epsilon, delta, horizon, dimension, calibration : optional
        As for `standard_case`.
    trials : int, optional
        Runs on each of the two streams, for the likelihood and the black-box audit each. Default:
        what gives the audits of this case power.
    seed : int, default 0
        Seed of all runs, at least 0.
    confidence : float, default 1 - 1e-6
        Probability, in (0, 1) and for each attack, of not reporting a violation where there is
        none.

    Returns
    -------
    AuditReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments; for streams that are no neighbours; for fewer trials than could refute
        anything; for learners that have played or promise nothing.
    CalibrationError
        Where the learner cannot be calibrated for this budget and size.

    Notes
    -----
    No report says that a claim holds: see ``docs/audit.md``. Seconds, at the defaults.
    """
    level = real_float("confidence", confidence)
    if not 0.0 < level < 1.0:
        raise ValueError(f"confidence must be in (0, 1); got {level!r}")
    root = positive_int("seed", seed + 1) - 1
    options = {
        name: value
        for name, value in (
            ("epsilon", epsilon), ("delta", delta), ("horizon", horizon), ("dimension", dimension),
            ("calibration", calibration),
        )
        if value is not None
    }  # fmt: skip
    if isinstance(case, StandardCase):
        if options:
            raise ValueError(f"a case is complete: leave out {', '.join(options)}")
    else:
        case = standard_case(case, **options)  # type: ignore[arg-type]
    count = None if trials is None else positive_int("trials", trials)
    least = _bounds.fewest_trials((1.0 - level) / 12.0)
    if count is not None and count < least:
        raise ValueError(f"trials must be at least {least} to show anything; got {count}")
    if not case.claim.guarantee.private:
        raise ValueError("the learner promises nothing: there is no claim to test")
    attacks = (
        replay_attack(case, root),
        likelihood_attack(case, case.trials if count is None else count, root, level),
        black_box_attack(case, _BLACK_BOX if count is None else count, root, level),
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
    epsilons = [claim.epsilon * _LONGEST * i / _STEPS for i in range(_STEPS + 1)]
    return tuple((epsilon, claim.delta_at(epsilon)) for epsilon in epsilons)
