"""Everything calibration fixes for the noisy leader, as one stored value.

The value carries no claim of its own: `dpoco.accounting.noisy_ftrl.guarantee` recomputes every
privacy and regret quantity from the noise scale, the step size, the domain and the loss.

Proof: ``docs/privacy/noisy_ftrl.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpoco.accounting.continual_sum import METHODS, worst_row_norm
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.release import check_numerics, check_scale
from dpoco.privacy.neighbours import CHANGES

__all__ = ["CALIBRATIONS", "SCOPES", "STATISTICS", "NoisyFTRLParameters"]

CALIBRATIONS = ("tight",)
STATISTICS = ("gradient", "quadratic")
SCOPES = ("oblivious", "adaptive")


@dataclass(frozen=True, kw_only=True)
class NoisyFTRLParameters(Parameters):
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

    kind: ClassVar[str] = "dpoco.noisy_ftrl_parameters"
    version: ClassVar[int] = 2
    added: ClassVar[dict[str, str]] = {"numerics": "float"}

    statistics: str = one_of(*STATISTICS)
    sum_method: str = one_of(*METHODS)
    noise_scale: float = at_least(0.0)
    step_size: float
    vector_scale: float | None
    batch: int
    pushes: int
    horizon: int
    relation: str = one_of(*CHANGES)
    calibration: str = one_of(*CALIBRATIONS)
    dimension: int = at_least(0)
    lipschitz: float
    radius: float = at_least(0.0)
    diameter: float = at_least(0.0)
    sensitivity: float
    column_norm: float
    mu: float = at_least(0.0, infinite=True)
    regret_bound: float = at_least(0.0)
    regret_terms: dict[str, float]
    regret_scope: str = one_of(*SCOPES)
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if (self.vector_scale is None) != (self.statistics == "gradient"):
            raise ValueError("vector_scale belongs to the quadratic statistics, and to them only")
        if self.pushes != self.horizon // self.batch:
            raise ValueError("pushes must be horizon // batch")
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
