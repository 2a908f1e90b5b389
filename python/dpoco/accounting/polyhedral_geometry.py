"""A polytope in the geometry of l_1, and how far one record moves the scores of its vertices.

Claim: a leaf that changes by x moves the scores <x, v> of the vertices by amounts within an
interval of length min(||x||_inf D_1, ||x||_2 D_2), D_r the l_r diameter (Hoelder). On a box a
selection is made of independent choices, one a coordinate, with ranges |x_j| (hi_j - lo_j): their
sum is bounded as before, the root of the sum of their squares by min(||x||_inf D_2, ||x||_2
D_inf).

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dpoco.accounting import selections
from dpoco.accounting.leaf_bounds import LeafBounds
from dpoco.accounting.noisy_max import mean_excess
from dpoco.accounting.selections import Decay

__all__ = ["LAW", "L1Geometry", "Reach", "reach_of", "rho_of"]

LAW = {"gumbel": "bounded_range", "laplace": "pure"}


class L1Geometry:
    """A polytope in the geometry of l_1: what the learner's bounds are stated in, a box's too.

    Raises ``TypeError`` for a domain without listed or structured vertices.
    """

    p = 1.0
    dual_exponent = math.inf

    def __init__(self, domain: Any) -> None:
        from dpoco import domains

        self.domain = domain
        self.dimension: int = domain.dimension
        self.is_box = isinstance(domain, domains.Box)
        if isinstance(domain, domains.LpBall) and domain.p == 1.0:
            self.vertices = 2 * domain.dimension
        elif isinstance(domain, domains.Simplex):
            self.vertices = domain.dimension
        elif isinstance(domain, domains.VertexSet):
            self.vertices = len(domain.vertices)
        elif self.is_box:
            self.vertices = 2  # a coordinate
        else:
            raise TypeError(
                "domain must be an LpBall with p = 1, a Simplex, a Box or a VertexSet; "
                f"got {type(domain).__name__}"
            )

    def diameter(self, order: float | None = None) -> float:
        """Largest distance, in l_1 by default."""
        return float(self.domain.diameter(1.0 if order is None else order))

    def max_norm(self, order: float | None = None) -> float:
        """Largest norm, in l_1 by default."""
        return float(self.domain.max_norm(1.0 if order is None else order))

    def excess(self, selector: str) -> float:
        """Return a bound on the mean excess score of a private selection, in units of the scale."""
        coordinates = int(self.domain.intrinsic_dimension) if self.is_box else 1
        return coordinates * mean_excess(self.vertices, selector)


class Reach(NamedTuple):
    """How far one record moves the scores: within an interval, and in the sense of zCDP."""

    range: float
    spread: float

    def over(self, scale: float) -> Reach:
        """Return both in units of a noise scale."""
        return Reach(self.range / scale, self.spread / scale)


def reach_of(view: L1Geometry, leaf: LeafBounds, batch: int, relation: str) -> Reach:
    """Return how far one record moves m <d_k w_k, v>, by Hoelder's inequality in l_1 and l_2."""
    sides = (2.0 if relation == "replace" else 1.0) / batch

    def least(order: float, order_l2: float) -> float:
        bound = view.diameter(order) * leaf.dual
        if leaf.l2 < math.inf:
            bound = min(bound, view.diameter(order_l2) * leaf.l2)
        return sides * bound

    length = least(1.0, 2.0)
    if view.diameter(1.0) > 0.0 and not 1e-140 <= length <= 1e140:
        # A range that underflows would pass for that of a single point, where nothing is private.
        raise ValueError("the domain's size times the loss's bounds must be in [1e-140, 1e140]")
    return Reach(length, min(length, least(2.0, math.inf)) if view.is_box else length)


def rho_of(reach: Reach, law: str, decay: Decay, scale: float, start: int = 1) -> float:
    """Return the zCDP rho of the selections from number `start` on, the first with `scale`."""
    if reach.range == 0.0:
        return 0.0
    if scale == 0.0:
        return math.inf
    return selections.selections_rho(law, reach.spread / scale, decay, start)
