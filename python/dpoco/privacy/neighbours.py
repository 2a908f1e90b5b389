"""Neighbouring streams, and who must not tell them apart: the claim of a certificate."""

from __future__ import annotations

from dataclasses import dataclass

from dpoco.privacy.records import Description

__all__ = ["CHANGES", "ONE", "VIEWS", "Neighbours"]

CHANGES = ("replace", "zero_out")
# `check_view` uses the order: it refuses every view after the widest one that a page proves.
VIEWS = ("others", "everyone", "server")  # each sees what those before it see


@dataclass(frozen=True)
class Neighbours(Description):
    """Two streams that differ in what one person brought.

    Attributes
    ----------
    change : {"replace", "zero_out"}
        A record becomes any other, or is empty in one of the streams.
    view : {"others", "everyone", "server"}
        Who must not tell them apart: all others together, who do not see what the person herself is
        shown; everyone who sees the releases; or also the party that collects the reports.
    rounds, separation : int
        Rounds of one person, any two of them at least `separation` rounds apart.
    """

    kind = "neighbours"
    change: str = "replace"
    view: str = "everyone"
    rounds: int = 1
    separation: int = 1

    def __post_init__(self) -> None:
        """Refuse unknown words."""
        super().__post_init__()
        self.check_choice("change", CHANGES)
        self.check_choice("view", VIEWS)
        if self.view == "server" and self.change != "replace":
            raise ValueError("view 'server' is about replaced data: who reports nothing is seen")

    @property
    def sides(self) -> float:
        """Largest distance of two records, in largest lengths: 2 if replaced, 1 if emptied."""
        return 2.0 if self.change == "replace" else 1.0


ONE = Neighbours()  # one replaced record
