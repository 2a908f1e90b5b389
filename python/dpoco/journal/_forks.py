"""Which learners may have two continuations, accounted as two charges.

Claim: everything that learners with fresh noise release consists of draws, each of which costs,
given all that was drawn before, no more than its share of the guarantee. A record that
both continuations see is in the draws before the fork and in both sets of draws after it: together
no more than in two runs. Others keep noise across rounds (a noisy threshold, the state of a
coupling), for which that is not proved here.

Proof: ``docs/privacy/journal.md``, section "Forks".
"""

from __future__ import annotations

from typing import Any

from dpoco.random import Source

__all__ = ["check_forkable", "renew"]


def check_forkable(learner: Any) -> None:
    """Raise `TypeError` for a learner whose two continuations no proof covers."""
    if learner._noise != "fresh":
        raise TypeError(
            f"a {learner._kind} cannot be forked: it keeps noise across rounds, and no proof here "
            "covers two continuations of it"
        )


def renew(learner: Any) -> None:
    """Give a learner a new key: all noise from here on is fresh, what was drawn stays."""
    claim = Source()._claim()
    learner._engine.rekey(claim["key"], claim["stream"])
