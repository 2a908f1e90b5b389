"""The base of mechanism descriptions: a loss for given neighbours, and facts about the draws.

A mechanism states what a compiled engine enforces and draws. The engine is built from it and has no
other bound, scale, count, cap or grid; `loss` computes the privacy loss from the same numbers and
nothing else. So a planner may choose any numbers. Wrong ones reduce utility, or exceed the budget
and are refused; they cannot make a statement false.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from dpoco.privacy.losses.combined import NOTHING, either, group, together
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss, Pure, sum_up
from dpoco.privacy.neighbours import VIEWS, Neighbours
from dpoco.privacy.records import Description

__all__ = ["LEMMAS", "Declared", "Mechanism", "Nothing", "Open", "Parts", "central", "check_view"]

# Pages that prove how losses of parts add up, with the `how` and the widest view that they cover.
LEMMAS = {
    "epoch_selector": ("instances", "everyone"),
    "high_dimensional_bandit": ("one_of", "others"),
    "ranges": ("one_of", "everyone"),
    "shift_detector": ("instances", "everyone"),
}

M = TypeVar("M", bound="Mechanism")


@dataclass(frozen=True)
class Mechanism(Description):
    """Base of the kinds.

    Attributes
    ----------
    noise : {"fresh", "ideal_fresh", "hidden"}
        What is proved given any past: the noise is fresh, truncated tails included; it is fresh if
        draws are ideal; nothing.
    one_round : bool
        Whether a record enters the draws of one round only; otherwise it enters all later ones.
    proofs : tuple of str
        Pages under ``docs/privacy`` that prove `loss`.
    """

    noise: ClassVar[str] = "hidden"
    one_round: ClassVar[bool] = False
    proofs: ClassVar[tuple[str, ...]] = ()

    @property
    def reacting(self) -> bool:
        """Whether the loss for several rounds of a person holds if times react to releases."""
        return False

    @property
    def promised(self) -> bool:
        """Whether a bound or a law in the description is a promise that no engine enforces."""
        return False

    @property
    def longest(self) -> int | None:
        """Largest number of rounds that the loss covers; None if the description sets no limit."""
        return None

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss of all releases together; None if there is no privacy at all."""
        raise NotImplementedError

    def loss_in_arms(self, near: Neighbours, arms: int, forced: int) -> Loss | None:
        """Return the loss of `arms` such mechanisms, if each record is data of one of them.

        Each has a separate clock; in `forced` rounds only one of them runs, in later rounds all do.

        Raises
        ------
        ValueError
            For kinds without a proof about arms.
        """
        raise ValueError(f"several rounds in several parts: nothing is proved for {self.kind}")

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
class Declared(Mechanism):
    """All releases of another program, with noise that it promises and no engine enforces.

    Attributes
    ----------
    change : {"replace", "zero_out"}
        The only change of a record that `sensitivity` is about.
    l2 : bool
        True: Gaussian noise, with the sensitivity in l2. False: noise whose log-densities at two
        points differ by at most their l1 distance over `scale` (Laplace noise), or anything that is
        as private.
    sensitivity : float
        Largest distance by which one record moves all releases together, given any past releases.
    scale : float
        Standard deviation of every coordinate's noise if `l2`, else the scale of the l1 distance;
        in the units of `sensitivity`.
    """

    kind = "declared"
    promised = True
    proofs = ("gaussian", "pure", "composition")
    change: str
    l2: bool
    sensitivity: float
    scale: float

    def loss(self, near: Neighbours) -> Loss:
        """Return the loss of all releases; for several records, that of a group."""
        if (near.change, near.view) != (self.change, "everyone"):
            raise ValueError("a declared sensitivity is about one change, and seen by everyone")
        each = sum_up((1, self.sensitivity, self.scale))
        return group(Gaussian(each) if self.l2 else Pure(each), near.rounds)


@dataclass(frozen=True)
class Parts(Mechanism):
    """Several mechanisms: a record meets all of them ("together") or one ("one_of").

    Or any number of instances of the only part, each started as earlier releases tell, of which a
    record meets one ("instances"): without tails, and with noise that is fresh given any past, or
    with a pure loss. `lemma` is the page, one of `LEMMAS`, that proves which part a record meets to
    be fixed in advance, or the parts' curves to hold given any past; "together" holds without one.
    `forced`: rounds in which each of the arms of a bandit is pulled before there is a choice.
    """

    kind = "parts"
    unsaid = ("forced",)
    how: str
    parts: tuple[Mechanism, ...]
    lemma: str = ""
    forced: int | None = None

    def __post_init__(self) -> None:
        """Refuse unknown words, and "one_of" without its proof."""
        # The base class's check is not called, because it demands exact types and would refuse
        # every kind of part.
        counted = self.how == "one_of" and type(self.forced) is int and self.forced >= 0
        if self.forced is not None and not counted:
            raise ValueError("forced must be an int of at least 0, of arms, or None")
        self.check_choice("how", ("together", "one_of", "instances"))
        if not self.parts:
            raise ValueError("parts must not be empty")
        if self.how == "instances" and len(self.parts) > 1:
            raise ValueError("instances are those of one part")
        proved = LEMMAS[self.lemma][0] if self.lemma in LEMMAS else ""
        if proved != self.how and (self.lemma or self.how != "together"):
            raise ValueError("parts of which a record meets one need a lemma that is about them")

    @property
    def reacting(self) -> bool:
        """Whether the parts are arms or parts of a stream, for which this is proved."""
        proved = self.forced is not None or self.lemma == "ranges"
        return proved and all(part.reacting for part in self.parts)

    @property
    def promised(self) -> bool:
        """Whether a bound of any part is a promise."""
        return any(part.promised for part in self.parts)

    @property
    def longest(self) -> int | None:
        """The rounds of all parts, one part after the other, or of the longest, if all see a round.

        After the forced rounds the clocks of all arms run together. Of instances the number, and so
        that of rounds, has no limit.
        """
        rounds = [part.longest for part in self.parts]
        known = [each for each in rounds if each is not None]
        if self.how == "instances" or len(known) < len(rounds):
            return None
        if self.how == "one_of" and self.forced is None:
            return sum(known)
        return max(known) + (len(known) - 1) * (self.forced or 0)

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the sum, or the worst, of the parts' losses.

        Raises
        ------
        ValueError
            For several rounds of a person, which may meet several parts, unless these are arms, or
            parts of a stream one after the other.
        """
        if self.lemma:
            check_view(near, LEMMAS[self.lemma][1])
        if self.how == "instances":
            return self._of_instances(near)
        several = self.how == "one_of" and near.rounds > 1
        # A person's rounds may meet several arms. Theorems 5 and 6 of
        # docs/privacy/participation.md are the only proofs for this; both assume equal arms.
        if several and self.lemma != "ranges":
            if self.forced is None or len(set(self.parts)) > 1:
                raise ValueError("several rounds in several parts: nothing is proved of these")
            # Arms without noise, or without data, are handled here, because `loss_in_arms` divides
            # by their scale.
            one = self.parts[0].loss(replace(near, rounds=1, separation=1))
            if one is None or one == NOTHING:
                return one
            return self.parts[0].loss_in_arms(near, len(self.parts), self.forced)
        losses = [part.loss(near) for part in self.parts]
        known = [each for each in losses if each is not None]
        if len(known) < len(losses):
            return None
        # Several rounds may meet more than one part of a stream, so the parts' losses add up
        # (docs/privacy/ranges.md, Theorem 1).
        return together(*known) if several or self.how == "together" else either(*known)

    def _of_instances(self, near: Neighbours) -> Loss | None:
        """Return the loss of one instance, composed once for each round of a person."""
        (part,) = self.parts
        one = part.loss(replace(near, rounds=1, separation=1))
        if one is None:
            return None
        # The number of instances has no bound, so the sum of their tails has none. Releases decide
        # when instances start, so the curves must hold given any past
        # (docs/privacy/composition.md, Theorem 2).
        if one.mass > 0.0 or not (part.noise == "fresh" or isinstance(one, Pure)):
            raise ValueError("instances need fresh noise or a pure loss, and no tails")
        return group(one, near.rounds)


def check_view(near: Neighbours, widest: str) -> None:
    """Raise `ValueError` if the claimed view sees more than the view `widest`."""
    if VIEWS.index(near.view) > VIEWS.index(widest):
        raise ValueError(f"nothing is proved for view {near.view!r}, but for {widest!r} at most")


def central(near: Neighbours) -> None:
    """Refuse the view of the party that collects the data and sees them before any noise."""
    if near.view == "server":
        raise ValueError("view 'server' is for reports that devices make private themselves")
