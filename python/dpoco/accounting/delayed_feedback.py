"""The guarantee of a learner whose feedback arrives later than its next decision.

Claim: if which feedback arrives, when and in which order is the same on neighbouring streams, given
equal releases so far, then everything released is as private as without delay, for replacing one
record where it arrives. Source: post-processing, and every learner's own proof, which covers
records that react to all releases before them. Proof: ``docs/privacy/delayed_feedback.md``.
"""

from __future__ import annotations

from dataclasses import replace

from dpoco.accounting.guarantee import Guarantee

__all__ = ["condition", "guarantee"]


def condition(seen: str) -> str:
    """Return the condition, if arrivals may depend on `seen` of all that depends on the data."""
    return (
        "feedback is delayed: which of it arrives, when and in which order, depends on the data "
        f"through {seen} only; neighbouring streams differ in one record, at its place in the "
        "order of arrival"
    )


def guarantee(immediate: Guarantee, seen: str = "released decisions") -> Guarantee:
    """Return what holds once decisions wait for their feedback.

    Parameters
    ----------
    immediate : Guarantee
        What holds if every decision is followed by its feedback.
    seen : str
        What arrivals may depend on, in words.

    Returns
    -------
    Guarantee
        The same privacy under one more condition; without a bound on regret, which is proved for
        feedback that comes at once.
    """
    details = {
        name: value for name, value in immediate.details.items() if not name.startswith("regret")
    }
    conditions = (
        (*immediate.conditions, condition(seen)) if immediate.private else immediate.conditions
    )
    return replace(immediate, conditions=conditions, regret_bound=None, details=details)
