"""What every mechanism description has: a loss for given neighbours, and facts about its draws.

A mechanism says what a compiled engine enforces and draws. The engine is built from it and has no
other bound, scale, count, cap or grid; `loss` computes the privacy loss from the same numbers and
nothing else. A planner may choose any numbers: wrong ones cost utility or are refused by whoever
requires a budget; they cannot make a statement false.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from dpoco.privacy.losses.combined import NOTHING, either, group, together
from dpoco.privacy.losses.loss import Loss, Pure
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description

__all__ = ["Mechanism", "Nothing", "Open", "Parts", "central"]

M = TypeVar("M", bound="Mechanism")


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

    def part(self, kind: type[M]) -> M | None:
        """Return the first mechanism of `kind` among this one and its parts."""
        if isinstance(self, kind):
            return self
        inner = (part.part(kind) for part in getattr(self, "parts", ()))
        return next((found for found in inner if found is not None), None)


@dataclass(frozen=True)
class Nothing(Mechanism):
    """No release depends on the data; `reason` says why."""

    kind = "nothing"
    noise = "fresh"
    one_round = True
    reason: str

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss 0."""
        central(near)
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

    Or any number of instances of the only part, each started as earlier releases tell, of which a
    record meets one ("instances"): without tails, and with noise that is fresh given any past, or
    with a pure loss. `lemma` names the page that proves which part a record meets to be fixed in
    advance, or the parts' curves to hold given any past; only "together" holds without one.
    """

    kind = "parts"
    how: str
    parts: tuple[Mechanism, ...]
    lemma: str = ""

    def __post_init__(self) -> None:
        """Refuse unknown words, and "one_of" without its proof."""
        self.check_choice("how", ("together", "one_of", "instances"))
        if not self.parts:
            raise ValueError("parts must not be empty")
        if self.how == "instances" and len(self.parts) > 1:
            raise ValueError("instances are those of one part")
        if self.how != "together" and not self.lemma:
            raise ValueError("parts of which a record meets one need a lemma")

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the sum, or the worst, of the parts' losses.

        Several rounds of a person may meet several parts: then they are a group.

        Raises
        ------
        ValueError
            For those of view "others": later records may react to what only she saw.
        """
        if self.how == "instances":
            return self._of_instances(near)
        if self.how == "one_of" and near.rounds > 1:
            if near.view == "others":
                raise ValueError("several rounds in several parts: nothing is proved for 'others'")
            one = self.loss(replace(near, rounds=1, separation=1))
            return None if one is None else group(one, near.rounds)
        losses = [part.loss(near) for part in self.parts]
        known = [each for each in losses if each is not None]
        if len(known) < len(losses):
            return None
        return together(*known) if self.how == "together" else either(*known)

    def _of_instances(self, near: Neighbours) -> Loss | None:
        """Return the loss of one instance, for each round of a person once more."""
        (part,) = self.parts
        one = part.loss(replace(near, rounds=1, separation=1))
        if one is None:
            return None
        if one.mass > 0.0 or not (part.noise == "fresh" or isinstance(one, Pure)):
            raise ValueError("instances need fresh noise or a pure loss, and no tails")
        return group(one, near.rounds)


def central(near: Neighbours) -> None:
    """Refuse the view of whoever collects the data, who sees them before there is any noise."""
    if near.view == "server":
        raise ValueError("view 'server' is for reports with noise of their own")
