"""What a round of a bandit adds that learns from clipped residuals.

Proof: ``docs/privacy/residual_phases.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco.privacy.mechanisms.bounds import ROUNDING, Summand
from dpoco.privacy.neighbours import Neighbours

__all__ = ["ResidualStatistics"]


@dataclass(frozen=True)
class ResidualStatistics(Summand):
    """(s x at one of `arms`, weight x x', mark at one of `bins`) with |s| <= 1, x in units.

    Features have ||x||_2 <= features and are divided by that bound. An empty record marks no bin.
    An arm is what the person of the record was shown, as in `SecondMoments`.
    """

    kind = "residual_statistics"
    dimension: int
    features: float
    arms: int
    bins: int
    weight: float
    mark: float

    def __post_init__(self) -> None:
        """Refuse weights that the lemma is not for, and units of which squares overflow."""
        super().__post_init__()
        if not self.weight**2 <= 2.0:
            raise ValueError(f"weight of {self.kind} cannot be {self.weight!r}")
        if not 1e-100 <= self.features <= 1e100:
            raise ValueError(f"features of {self.kind} are too large or too small")

    @property
    def widest_view(self) -> str:
        """All others, where there is an arm to choose."""
        return "everyone" if self.arms == 1 else "others"

    @property
    def size(self) -> int:
        """Vectors of all arms, one upper triangle, and the bins."""
        d = self.dimension
        return self.arms * d + d * (d + 1) // 2 + self.bins

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return the largest distance, matrices in Frobenius norm."""
        z, m = self.weight**2, self.mark**2
        if near.change == "zero_out":
            return math.sqrt(1.0 + z + m) * ROUNDING
        # Opposite features of one arm, or features at an angle.
        two = 4.0 if z <= 0.5 else 2.0 + 2.0 * z + 0.5 / z
        return math.sqrt(two + 2.0 * m) * ROUNDING
