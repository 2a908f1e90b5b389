"""Which family replays which learner, and which scorer knows its likelihoods.

A new learner: write a subclass of `dpoco.audit._replay_base.Family` and one of
`dpoco.audit._likelihood_base.Scorer`, and name both in its line of `dpoco.learners`. They are
looked up by class, so that a learner derived from one of these, right or wrong, is audited as what
it claims to be.
"""

from __future__ import annotations

from typing import Any

from dpoco.audit._likelihood_base import Scorer
from dpoco.audit._replay_base import Family
from dpoco.learners import LEARNERS, learner_of

__all__ = ["family_of", "scorer_of"]


def family_of(learner: Any) -> Family:
    """Return the family that replays a learner; ``TypeError`` if none does."""
    family: type[Family] = _audit_of(learner, "replay")
    return family(learner)


def scorer_of(learner: Any, stream: Any, neighbour: Any) -> Scorer:
    """Return the scorer of a learner; ``TypeError`` if its law is not known here."""
    scorer: type[Scorer] = _audit_of(learner, "likelihood")
    return scorer(learner, stream, neighbour)


def _audit_of(learner: Any, audit: str) -> Any:
    known = learner_of(type(learner))
    if known is not None and getattr(known, audit):
        return known.load_audit(audit)
    names = ", ".join(sorted(each.class_name for each in LEARNERS if getattr(each, audit)))
    raise TypeError(f"no {audit} of a {type(learner).__name__}; known are {names}")
