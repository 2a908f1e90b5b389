"""What every mechanism description has: a loss for given neighbours, and facts about its draws.

A mechanism says what a compiled engine enforces and draws. The engine is built from it and has no
other bound, scale, count, cap or grid; `loss` computes the privacy loss from the same numbers and
nothing else. A planner may choose any numbers: wrong ones cost utility or are refused by whoever
requires a budget; they cannot make a statement false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpoco.privacy.losses.combined import NOTHING, either, together
from dpoco.privacy.losses.loss import Loss
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description

__all__ = ["Mechanism", "Nothing", "Open", "Parts"]


@dataclass(frozen=True)
class Mechanism(Description):
    """Base of the kinds.

    Attributes
    ----------
    noise : {"fresh", "ideal_fresh", "hidden"}
        What is proved given any past: that the noise is fresh, truncated tails included; that it is
        with ideal draws; nothing.
    one_round : bool
        Whether a record enters one round's draws only, or all later ones too.
    proofs : tuple of str
        Pages under ``docs/privacy`` that prove `loss`.
    """

    noise: ClassVar[str] = "hidden"
    one_round: ClassVar[bool] = False
    proofs: ClassVar[tuple[str, ...]] = ()

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss of all releases together; None where there is no privacy at all."""
        raise NotImplementedError


@dataclass(frozen=True)
class Nothing(Mechanism):
    """No release depends on the data; `reason` says why."""

    kind = "nothing"
    noise = "fresh"
    one_round = True
    reason: str

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss 0."""
        return NOTHING


@dataclass(frozen=True)
class Open(Mechanism):
    """Everything is released without noise; `reason` says why."""

    kind = "open"
    reason: str

    def loss(self, near: Neighbours) -> Loss | None:
        """Return None: nothing is promised."""
        return None


@dataclass(frozen=True)
class Parts(Mechanism):
    """Several mechanisms: a record meets all of them ("together") or one ("one_of").

    `lemma` names the page that proves which part a record meets to be fixed in advance, or the
    parts' curves to hold given any past; "one_of" does not hold without one.
    """

    kind = "parts"
    how: str
    parts: tuple[Mechanism, ...]
    lemma: str = ""

    def __post_init__(self) -> None:
        """Refuse unknown words, and "one_of" without its proof."""
        self.check_choice("how", ("together", "one_of"))
        if not self.parts:
            raise ValueError("parts must not be empty")
        if self.how == "one_of" and not self.lemma:
            raise ValueError("parts of which a record meets one need a lemma")

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the sum, or the worst, of the parts' losses."""
        losses = [part.loss(near) for part in self.parts]
        known = [each for each in losses if each is not None]
        if len(known) < len(losses):
            return None
        return together(*known) if self.how == "together" else either(*known)
