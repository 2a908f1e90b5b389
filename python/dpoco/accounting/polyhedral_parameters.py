"""Everything calibration fixes for the polyhedral Frank-Wolfe learner, as one stored value.

The value carries no claim of its own: `dpoco.accounting.polyhedral_frank_wolfe.guarantee`
recomputes every privacy quantity from the noise scale and the enforced bounds.

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero
from dpoco.accounting.frank_wolfe_parameters import CALIBRATIONS, WEIGHTS
from dpoco.accounting.selections import LARGEST_EXPONENT, Decay
from dpoco.privacy.neighbours import CHANGES

__all__ = ["SELECTORS", "PolyhedralFrankWolfeParameters"]

SELECTORS = ("gumbel", "laplace")


@dataclass(frozen=True)
class PolyhedralFrankWolfeParameters(StoredParameters):
    """Parameters of the polyhedral Frank-Wolfe learner.

    Attributes
    ----------
    selector : {"gumbel", "laplace"}
        Private selection of a vertex: the exponential mechanism, or noisy max with Laplace noise.
    weights : {"unbiased", "paper"}
        Weights w_k of the gradient estimate: k or k + 1.
    exponent : float
        alpha in [0, 0.9]: update k has noise of scale ``scale * k**-alpha``.
    scale : float
        Noise scale b_1 of the first update, in units of the loss; 0 means no noise.
    leaf_scalar_bound : float or None
        Bound on the scalar of a generalised linear loss's leaf; None for other losses.
    leaf_bound : float
        Bound C on a leaf in the maximum norm, enforced by clipping.
    leaf_bound_l2 : float or None
        Bound on a leaf in l2, enforced too; None for none.
    batch : int
        Rounds per update.
    updates : int
        Updates K = horizon // batch.
    horizon : int
        Rounds.
    calibration : {"tight", "corrected", "paper"}
        How the noise scale was found.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    score_range : float
        Length of the interval in which one record moves the scores of the sum of leaves, divided
        by `batch`. Derived, as is all below.
    rho : float
        zCDP parameter; infinite without noise.
    predicted_error : float
        Bound on the excess loss that noise adds to the last decision.
    loss_range : float
        L D, more than which no loss can differ between two decisions.
    """

    _kind: ClassVar[str] = "dpoco.polyhedral_frank_wolfe_parameters"

    selector: str
    weights: str
    exponent: float
    scale: float
    leaf_scalar_bound: float | None
    leaf_bound: float
    leaf_bound_l2: float | None
    batch: int
    updates: int
    horizon: int
    calibration: str
    relation: str
    score_range: float
    rho: float
    predicted_error: float
    loss_range: float

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        choice("selector", self.selector, SELECTORS)
        choice("weights", self.weights, WEIGHTS)
        choice("calibration", self.calibration, CALIBRATIONS)
        choice("relation", self.relation, CHANGES)
        if not 0.0 <= real_float("exponent", self.exponent) <= LARGEST_EXPONENT:
            raise ValueError(f"exponent must be in [0, {LARGEST_EXPONENT}]; got {self.exponent!r}")
        if self.scale != 0.0:
            positive_float("scale", self.scale)
        positive_float("leaf_bound", self.leaf_bound)
        for name in ("leaf_scalar_bound", "leaf_bound_l2"):
            if getattr(self, name) is not None:
                positive_float(name, getattr(self, name))
        for name in ("batch", "updates", "horizon"):
            positive_int(name, getattr(self, name))
        if self.updates != self.horizon // self.batch:
            raise ValueError("updates must be horizon // batch")
        for name in ("score_range", "predicted_error", "loss_range"):
            at_least_zero(name, getattr(self, name))
        if not self.rho >= 0.0 or (self.rho == math.inf) != (self.scale == 0.0 < self.score_range):
            raise ValueError("rho must be at least 0, and infinite without noise only")

    @property
    def private(self) -> bool:
        """Whether anything is promised: there is noise, or nothing depends on the data."""
        return self.scale > 0.0 or self.score_range == 0.0

    @property
    def sensitivity(self) -> float:
        """Largest difference of a leaf between neighbours, in the maximum norm."""
        return self.leaf_bound * (2.0 if self.relation == "replace" else 1.0)

    @property
    def noise_dominates(self) -> bool:
        """Whether the predicted error exceeds the range of the loss."""
        return self.predicted_error > self.loss_range

    @property
    def decay(self) -> Decay:
        """How the ranges of the selections shrink."""
        return Decay(self.exponent, 1 if self.weights == "paper" else 0, self.updates)

    def noise_scale_at(self, update: int) -> float:
        """Return the noise scale b_k of an update k >= 1."""
        return self.scale * math.pow(positive_int("update", update), -self.exponent)
