"""The contribution of a round to a bandit that learns from clipped residuals.

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

    With `mean`, the contribution also has mean x, and x x' is at the same arm as x.
    Features have ||x||_2 <= features and are divided by that bound. An empty record marks no bin.
    An arm is what the person of the record was shown, as in `SecondMoments`.
    """

    kind = "residual_statistics"
    unsaid = ("mean",)
    dimension: int
    features: float
    arms: int
    bins: int
    weight: float
    mark: float
    mean: float | None = None

    def __post_init__(self) -> None:
        """Refuse weights that the lemma does not cover, and units whose squares overflow."""
        super().__post_init__()
        # The lemma's largest distance is proved for squares up to 2
        # (docs/privacy/residual_phases.md).
        if not self.weight**2 <= 2.0:
            raise ValueError(f"weight of {self.kind} cannot be {self.weight!r}")
        if not 1e-100 <= self.features <= 1e100:
            raise ValueError(f"features of {self.kind} are too large or too small")

    @property
    def widest_view(self) -> str:
        """All others if there are several arms."""
        return "everyone" if self.arms == 1 else "others"

    @property
    def size(self) -> int:
        """Vectors of all arms, one upper triangle or one of each, the mean, and the bins."""
        d, triangles, mean = self.dimension, 1, 0
        if self.mean is not None:
            triangles, mean = self.arms, d
        return self.arms * d + triangles * (d * (d + 1) // 2) + mean + self.bins

    def movement(self, near: Neighbours, order: float = 2.0) -> float:
        """Return the largest distance, matrices in Frobenius norm."""
        z, m = self.weight**2, self.mark**2
        mean = 0.0 if self.mean is None else self.mean**2
        if near.change == "zero_out":
            return math.sqrt(1.0 + z + mean + m) * ROUNDING
        # Opposite features of one arm, or features at an angle.
        # Opposite features have equal matrices here, so matrices cost nothing up to z = 1/2. In
        # `GradientAndCurvature` the weights differ, so matrices do cost something.
        two = 4.0 if z <= 0.5 else 2.0 + 2.0 * z + 0.5 / z
        return math.sqrt(two + 4.0 * mean + 2.0 * m) * ROUNDING
