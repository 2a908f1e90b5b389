"""The claim that an audit puts to the test: the library's own, or a published one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from dpoco.accounting import Guarantee

__all__ = ["Claim", "epsilon_of_point"]


@dataclass(frozen=True)
class Claim:
    """A claimed (epsilon, delta), and the curve it is a point of.

    Attributes
    ----------
    epsilon, delta : float
        The claim.
    published : bool
        Whether it is a published claim that the library does not share.
    guarantee : Guarantee
        What the library states for the same noise.
    """

    epsilon: float
    delta: float
    published: bool
    guarantee: Guarantee = field(repr=False)

    @classmethod
    def of(cls, guarantee: Guarantee) -> Claim:
        """Return the stronger of what the library states and what the published argument does."""
        if guarantee.claimed is not None:
            epsilon, delta = guarantee.claimed
            if 0.0 <= delta < 1.0 and epsilon * (1.0 + 1e-6) < guarantee.epsilon_at(delta):
                return cls(epsilon, delta, True, guarantee)
        return cls(guarantee.epsilon, guarantee.delta, False, guarantee)

    def delta_at(self, epsilon: float) -> float:
        """Return the claimed delta(epsilon): of a published claim, all that follows from it."""
        if not self.published:
            return float(self.guarantee.delta_at(epsilon))
        if epsilon >= self.epsilon:
            return self.delta
        # The worst mechanism of that claim tells its bit with probability delta, and otherwise
        # responds at random.
        gap = self.epsilon - epsilon
        told = math.expm1(gap) / (math.exp(-epsilon) + math.exp(gap))
        return self.delta + (1.0 - self.delta) * told

    def __str__(self) -> str:
        text = f"epsilon = {self.epsilon:.4g}, delta = {self.delta:.3g}"
        if not self.published:
            return f"{text}, and all of the privacy curve it is a point of"
        own = self.guarantee.epsilon_at(self.delta)
        return f"{text}, as published (stated here for the same noise: epsilon = {own:.4g})"

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can carry."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "published": self.published,
            "guarantee": self.guarantee.to_dict(),
        }


def epsilon_of_point(epsilon: float, at_least: float, delta: float) -> float:
    """Return the epsilon that a curve through a point asks for at another delta, at least 0.

    A mechanism with ``delta(epsilon) >= at_least`` is not (e, delta)-private for any smaller e: the
    inverse of `Claim.delta_at` of a published claim.
    """
    if at_least <= delta:
        return 0.0  # that much is granted at any epsilon
    rest = max(1.0 - at_least, 1e-300)
    value = (1.0 - delta) / rest * (1.0 + math.exp(min(epsilon, 600.0))) - 1.0
    return math.log(value)
