"""Losses at all points of a net, as the contribution of a round to a sum.

Proof: ``docs/privacy/lipschitz.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco.privacy.mechanisms.bounds import ROUNDING, Summand
from dpoco.privacy.neighbours import Neighbours

__all__ = ["NetDifferences"]

_NO_LIMIT = 1e140  # more than any difference of finite losses that a learner can use


@dataclass(frozen=True)
class NetDifferences(Summand):
    """A transform of losses on a net with `counts` points per axis, over a box with sides `sides`.

    Losses of neighbouring points differ by at most `lipschitz` times their distance. The engine
    enforces this if `enforced`; otherwise it is a promise. A single point has no differences.
    """

    kind = "net_differences"
    sides: tuple[float, ...]
    counts: tuple[int, ...]
    transform: str
    lipschitz: float
    enforced: bool = True

    def __post_init__(self) -> None:
        """Refuse transforms that do not fit the net."""
        super().__post_init__()
        self.check_choice("transform", ("increments", "grid_laplacian", "parent"))
        axes = {"increments": (0, 1), "grid_laplacian": (0, 2), "parent": (0, 1, 2)}
        wrong = len(self.counts) != len(self.sides) or min(self.counts, default=2) < 2
        if wrong or len(self.counts) not in axes[self.transform]:
            raise ValueError("the transform does not fit the axes of the net")
        levels = self._levels
        if self.transform == "parent" and any(n != 2**levels + 1 for n in self.counts):
            raise ValueError("transform 'parent' needs 2^k + 1 points, the same on all axes")

    @property
    def limits(self) -> tuple[float, ...]:
        """Bounds of the differences along each axis; a promise does not depend on them."""
        if not self.enforced:
            return (_NO_LIMIT,) * len(self.counts)
        steps = [side / (count - 1) for side, count in zip(self.sides, self.counts, strict=True)]
        return tuple(self.lipschitz * h for h in steps)

    @property
    def _levels(self) -> int:
        return (self.counts[0] - 1).bit_length() - 1 if self.counts else 0

    @property
    def size(self) -> int:
        """All points but one."""
        return math.prod(self.counts) - 1

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return `near.sides` times the longest transform."""
        if not self.counts:
            return 0.0
        # The lengths are not squared, because squares underflow for tiny domains.
        h = [side / (count - 1) for side, count in zip(self.sides, self.counts, strict=True)]
        if self.transform == "parent":
            # The constants C_1 and C_2 of docs/privacy/lipschitz.md, which correct those of the
            # source.
            k = self._levels
            constant = 1.5 - 0.5 ** (k + 1) if len(h) == 1 else 0.5 * (k + 5.0 - 0.5**k)
            reach = math.hypot(*self.sides) * math.sqrt(constant)
        elif self.transform == "increments":
            reach = h[0] * math.sqrt(self.counts[0] - 1)
        else:
            down, across = self.counts
            reach = math.hypot(
                h[0] * math.sqrt((down - 1) * across), h[1] * math.sqrt(down * (across - 1))
            )
        return near.sides * self.lipschitz * reach * ROUNDING
