"""Bounds on what one round of a Frank-Wolfe learner adds to its gradient sum (a leaf).

Claim: with steps s/(k + s) and weights w_k, the leaf
w_k grad f(theta_k) - w_{k-1} grad f(theta_{k-1}) has dual norm at most

* c R for generalised linear losses and w_k = k, c the loss's ``leaf_scalar_bound``,
* the gradient bound for linear losses,
* s beta D + L for smooth losses (w_k = k; for w_k = k + 1 if s >= 1).

Learners clip at these bounds, so the privacy guarantee does not rest on the claim; it says that
clipping changes nothing while the declared bounds on the data hold.

Proof: ``docs/privacy/leaf_bounds.md``. Source: Han et al., DP-TOFW, Section 3, sharpened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from dpoco.accounting.frank_wolfe_parameters import TreeFrankWolfeParameters

__all__ = ["DomainLike", "LeafBounds", "enforced_leaf_bounds", "lossless_leaf_bounds"]


class DomainLike(Protocol):
    """What accounting asks of a decision set (see `dpoco.domains`)."""

    dimension: int

    @property
    def p(self) -> float: ...  # noqa: D102
    @property
    def dual_exponent(self) -> float: ...  # noqa: D102
    def diameter(self, order: float | None = None) -> float: ...  # noqa: D102
    def max_norm(self, order: float | None = None) -> float: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class LeafBounds:
    """Enforced bounds on one round's leaf: of its scalar, in the dual norm, in l2."""

    scalar: float | None
    dual: float
    l2: float


def lossless_leaf_bounds(
    domain: DomainLike, loss: Any, weights: str, calibration: str, step_scale: float
) -> LeafBounds:
    """Return the bounds that lose nothing while the declared bounds on the data hold."""
    published = weights == "paper" or calibration != "tight"
    if loss.glm:
        bound = float(loss.feature_bound)
        if published:
            scalar = published_leaf_bound(domain, loss, step_scale) / bound
        else:
            scalar = float(loss.leaf_scalar_bound(_margin(domain, loss), step_scale))
        return LeafBounds(scalar, scalar * bound, scalar * _or_inf(loss.feature_bound_l2))
    if hasattr(loss, "gradient_bound"):
        return LeafBounds(None, float(loss.gradient_bound), _or_inf(loss.gradient_bound_l2))
    dual = loss.leaf_bound
    if published or dual is None:
        dual = published_leaf_bound(domain, loss, step_scale)
    return LeafBounds(None, float(dual), _or_inf(loss.leaf_bound_l2))


def enforced_leaf_bounds(loss: Any, p: TreeFrankWolfeParameters) -> LeafBounds:
    """Return the bounds a learner with these parameters enforces."""
    if loss.glm:
        if p.leaf_scalar_bound is None:
            raise ValueError("leaf_scalar_bound is required by this loss")
        scalar, bound = p.leaf_scalar_bound, float(loss.feature_bound)
        leaf = LeafBounds(scalar, scalar * bound, scalar * _or_inf(loss.feature_bound_l2))
    elif p.leaf_scalar_bound is not None:
        raise ValueError("leaf_scalar_bound must be None for this loss")
    elif hasattr(loss, "gradient_bound"):
        leaf = LeafBounds(None, float(loss.gradient_bound), _or_inf(loss.gradient_bound_l2))
    else:
        leaf = LeafBounds(None, p.leaf_bound, _or_inf(p.leaf_bound_l2))
    if not math.isclose(leaf.dual, p.leaf_bound, rel_tol=1e-9):
        raise ValueError(f"leaf_bound must be {leaf.dual!r} for this loss; got {p.leaf_bound!r}")
    if not math.isclose(leaf.l2, _or_inf(p.leaf_bound_l2), rel_tol=1e-9):
        raise ValueError(f"leaf_bound_l2 must be {leaf.l2!r} for this loss")
    return leaf


def _margin(domain: DomainLike, loss: Any) -> float:
    """Return a bound on |<theta, x>|: the loss's own, or Hoelder's."""
    if hasattr(loss, "margin_bound"):
        return float(loss.margin_bound(domain))
    return float(loss.feature_bound) * float(domain.max_norm(domain.p))


def published_leaf_bound(domain: DomainLike, loss: Any, step_scale: float) -> float:
    """Return s beta D + L, the leaf bound of the paper."""
    curvature = step_scale * float(loss.smoothness(domain)) * float(domain.diameter())
    return curvature + float(loss.lipschitz(domain))


def clipping_condition(domain: DomainLike, loss: Any, leaf: LeafBounds) -> str:
    """Return the clipping condition in words."""
    q = domain.dual_exponent
    norm = "l_inf" if q == math.inf else f"l_{q:g}"
    text = f"what a round adds to the gradient sum is clipped to {norm} norm {leaf.dual:g}"
    if leaf.l2 < math.inf:
        text += f" and l_2 norm {leaf.l2:g}"
    return text + (", features and labels to their declared bounds" if loss.glm else "")


def _or_inf(bound: float | None) -> float:
    return math.inf if bound is None else float(bound)
