"""Everything calibration fixes for the noisy leader, as one stored value.

The value carries no claim of its own: `dpoco.accounting.noisy_ftrl.guarantee` recomputes every
privacy and regret quantity from the noise scale, the step size, the domain and the loss.

Proof: ``docs/privacy/noisy_ftrl.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._records import plain_float, read_record
from dpoco.accounting.continual_sum import METHODS, worst_row_norm
from dpoco.accounting.release import check_numerics, check_scale
from dpoco.errors import StateError
from dpoco.privacy.neighbours import CHANGES

__all__ = ["CALIBRATIONS", "SCOPES", "STATISTICS", "NoisyFTRLParameters"]

CALIBRATIONS = ("tight",)
STATISTICS = ("gradient", "quadratic")
SCOPES = ("oblivious", "adaptive")
_KIND, _VERSION = "dpoco.noisy_ftrl_parameters", 2


@dataclass(frozen=True)
class NoisyFTRLParameters:
    """Parameters of the noisy leader.

    Attributes
    ----------
    statistics : {"gradient", "quadratic"}
        What is summed: gradients, or the statistics (x x', y x) of squared losses.
    sum_method : {"blt", "tree", "honaker", "toeplitz"}
        Continual sum.
    noise_scale : float
        Scale sigma of one Gaussian draw; 0 means no privacy.
    step_size : float
        eta (length^2 / loss).
    vector_scale : float or None
        Factor on y x in the quadratic statistics (length^2 of features / their product with a
        label); None for gradients.
    batch : int
        Rounds per decision.
    pushes : int
        Updates: horizon // batch.
    horizon : int
        Rounds.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    calibration : {"tight"}
        How the noise scale was found: exact Gaussian accounting.
    dimension : int
        n of the set of decisions (d; d - 1 for a simplex). Derived, as is everything below.
    lipschitz : float
        G, l2 bound on a gradient, enforced by clipping in the gradient statistics.
    radius, diameter : float
        R and D: largest l2 distance from the domain's centre and within the domain.
    sensitivity : float
        Largest l2 difference of what a round adds to the sum, between neighbours.
    column_norm : float
        Factor of the continual sum on the sensitivity.
    mu : float
        GDP parameter; infinite without noise.
    regret_bound : float
        Bound on the expected regret, in units of loss.
    regret_terms : dict of str to float
        The terms it is the sum of.
    regret_scope : {"oblivious", "adaptive"}
        Streams it holds for: fixed in advance, or any.
    numerics : {"float", "lattice"}
        Arithmetic of the sum: doubles, or exact integers.
    """

    statistics: str
    sum_method: str
    noise_scale: float
    step_size: float
    vector_scale: float | None
    batch: int
    pushes: int
    horizon: int
    relation: str
    calibration: str
    dimension: int
    lipschitz: float
    radius: float
    diameter: float
    sensitivity: float
    column_norm: float
    mu: float
    regret_bound: float
    regret_terms: dict[str, float]
    regret_scope: str
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        choice("statistics", self.statistics, STATISTICS)
        choice("sum_method", self.sum_method, METHODS)
        choice("calibration", self.calibration, CALIBRATIONS)
        choice("relation", self.relation, CHANGES)
        choice("regret_scope", self.regret_scope, SCOPES)
        for name in ("step_size", "lipschitz", "sensitivity", "column_norm"):
            object.__setattr__(self, name, positive_float(name, getattr(self, name)))
        if (self.vector_scale is None) != (self.statistics == "gradient"):
            raise ValueError("vector_scale belongs to the quadratic statistics, and to them only")
        if self.vector_scale is not None:
            scale = positive_float("vector_scale", self.vector_scale)
            object.__setattr__(self, "vector_scale", scale)
        for name in ("batch", "pushes", "horizon"):
            positive_int(name, getattr(self, name))
        if self.pushes != self.horizon // self.batch:
            raise ValueError("pushes must be horizon // batch")
        if isinstance(self.dimension, bool) or not isinstance(self.dimension, int):
            raise TypeError(f"dimension must be an int; got {type(self.dimension).__name__}")
        for name in ("dimension", "radius", "diameter", "regret_bound"):
            _at_least_zero(name, getattr(self, name))
        if not isinstance(self.regret_terms, Mapping):
            raise TypeError("regret_terms must be a mapping of names to floats")
        terms = {str(k): _at_least_zero("regret_terms", v) for k, v in self.regret_terms.items()}
        object.__setattr__(self, "regret_terms", terms)
        check_scale(self.noise_scale, self.mu)
        check_numerics(self.numerics, "gaussian")

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.noise_scale > 0.0

    @property
    def noise(self) -> str:
        """Law of the draws: "gaussian"."""
        return "gaussian"

    @property
    def predicted_error(self) -> float:
        """Loss a round that slow steps and noise are predicted to cost; no bound.

        The terms of the regret for steps without noise, and what a Lipschitz loss sees of the
        noise in the direction of its gradient. With quadratic statistics the regret bound.
        """
        if self.vector_scale is not None:
            return self.regret_bound / self.horizon
        eta, slope = self.step_size, self.lipschitz
        steps = 0.5 * self.radius**2 / (eta * self.horizon) + 0.5 * eta * slope**2 * self.batch
        noise = self.noise_scale * worst_row_norm(self.sum_method, self.pushes)
        return steps + eta * slope * noise

    @property
    def noise_dominates(self) -> bool:
        """Whether the predicted error clearly exceeds what leaving the centre can gain, G R.

        Measured on the easiest stream, a single record, and on hard ones, features in all
        directions: where it is so, the learner gets less than half of the way from the loss of the
        centre to that of the best decision; where not, at least 0.15 on the easiest stream.
        """
        return self.private and self.predicted_error > 1.2 * self.lipschitz * self.radius

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        body = {k: plain_float(v) if isinstance(v, float) else v for k, v in asdict(self).items()}
        return {"kind": _KIND, "version": _VERSION, **body}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> NoisyFTRLParameters:
        """Return the parameters written by `to_dict`; `StateError` if they are not."""
        names = frozenset(field.name for field in fields(cls))
        body = read_record(
            record, kind=_KIND, version=_VERSION, fields=names, added={"numerics": "float"}
        )
        try:
            body["mu"] = math.inf if body["mu"] == "inf" else body["mu"]
            return cls(**body)
        except (TypeError, ValueError) as error:
            raise StateError("malformed noisy FTRL parameters") from error


def _at_least_zero(name: str, value: Any) -> float:
    number = real_float(name, value)
    if number < 0.0:
        raise ValueError(f"{name} must be at least 0; got {number!r}")
    return number
