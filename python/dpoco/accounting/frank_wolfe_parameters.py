"""Everything calibration fixes for the tree Frank-Wolfe learner, as one stored value.

The value carries no claim of its own: `dpoco.accounting.tree_frank_wolfe.guarantee` recomputes
every privacy quantity from the noise scale and the enforced bounds.

Proof: ``docs/privacy/tree_frank_wolfe.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._records import plain_float, read_record
from dpoco.accounting.continual_sum import METHODS, NOISES
from dpoco.accounting.release import check_numerics, check_scale
from dpoco.errors import StateError
from dpoco.privacy.neighbours import CHANGES

__all__ = ["CALIBRATIONS", "WEIGHTS", "TreeFrankWolfeParameters"]

CALIBRATIONS = ("tight", "corrected", "paper")
WEIGHTS = ("unbiased", "paper")
_KIND, _VERSION = "dpoco.tree_frank_wolfe_parameters", 2


@dataclass(frozen=True)
class TreeFrankWolfeParameters:
    """Parameters of the tree Frank-Wolfe learner.

    Attributes
    ----------
    noise : {"gaussian", "generalized_gaussian"}
        Law of the draws.
    norm_order : float
        Order r of the noise norm; 2 for Gaussian noise.
    noise_scale : float
        Scale sigma of one draw; 0 means no privacy.
    sum_method : {"blt", "tree", "honaker", "toeplitz"}
        Continual sum.
    weights : {"unbiased", "paper"}
        Weights w_k of the gradient estimate: k or k + 1.
    leaf_scalar_bound : float or None
        Bound on the scalar of a generalised linear loss's leaf; None for other losses.
    leaf_bound : float
        Bound C on a leaf in the dual norm, enforced by clipping.
    leaf_bound_l2 : float or None
        Bound on a leaf in l2, enforced too; None for none.
    sensitivity : float
        Largest difference of a leaf between neighbours, in l2 for Gaussian noise, else in the dual
        norm. Derived, as are `column_norm` and `mu`: a guarantee recomputes all three.
    column_norm : float
        Factor of the continual sum on the sensitivity.
    mu : float
        GDP parameter; infinite without noise.
    step_scale : float
        s in the steps s / (k + s).
    batch : int
        Rounds per update.
    pushes : int
        Updates: horizon // batch.
    horizon : int
        Rounds.
    calibration : {"tight", "corrected", "paper"}
        How the noise scale was found.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    predicted_error : float
        Bound on the excess loss that noise causes in the last update's linear minimisation.
    loss_range : float
        L D, more than which no loss can differ between two decisions.
    numerics : {"float", "lattice"}
        Arithmetic of the sum: doubles, or exact integers.
    """

    noise: str
    norm_order: float
    noise_scale: float
    sum_method: str
    weights: str
    leaf_scalar_bound: float | None
    leaf_bound: float
    leaf_bound_l2: float | None
    sensitivity: float
    column_norm: float
    mu: float
    step_scale: float
    batch: int
    pushes: int
    horizon: int
    calibration: str
    relation: str
    predicted_error: float
    loss_range: float
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        choice("noise", self.noise, NOISES)
        choice("sum_method", self.sum_method, METHODS)
        choice("weights", self.weights, WEIGHTS)
        choice("calibration", self.calibration, CALIBRATIONS)
        choice("relation", self.relation, CHANGES)
        for name in ("norm_order", "leaf_bound", "sensitivity", "column_norm", "step_scale"):
            object.__setattr__(self, name, positive_float(name, getattr(self, name)))
        if self.norm_order < 2.0 or (self.noise == "gaussian" and self.norm_order != 2.0):
            raise ValueError(f"norm_order {self.norm_order!r} does not fit noise {self.noise!r}")
        for name in ("leaf_scalar_bound", "leaf_bound_l2"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive_float(name, getattr(self, name)))
        for name in ("batch", "pushes", "horizon"):
            positive_int(name, getattr(self, name))
        if self.pushes != self.horizon // self.batch:
            raise ValueError("pushes must be horizon // batch")
        check_scale(self.noise_scale, self.mu)
        check_numerics(self.numerics, self.noise, self.calibration)
        if not real_float("loss_range", self.loss_range) >= 0.0:
            raise ValueError("loss_range must be at least 0")
        if not real_float("predicted_error", self.predicted_error) >= 0.0:
            raise ValueError("predicted_error must be at least 0")

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.noise_scale > 0.0

    @property
    def noise_dominates(self) -> bool:
        """Whether even the last update's predicted error exceeds the range of the loss."""
        return self.predicted_error > self.loss_range

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        body = {k: plain_float(v) if isinstance(v, float) else v for k, v in asdict(self).items()}
        return {"kind": _KIND, "version": _VERSION, **body}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TreeFrankWolfeParameters:
        """Return the parameters written by `to_dict`; `StateError` if they are not."""
        names = frozenset(field.name for field in fields(cls))
        body = read_record(
            record, kind=_KIND, version=_VERSION, fields=names, added={"numerics": "float"}
        )
        try:
            body["mu"] = math.inf if body["mu"] == "inf" else body["mu"]
            return cls(**body)
        except (TypeError, ValueError) as error:
            raise StateError("malformed tree Frank-Wolfe parameters") from error
