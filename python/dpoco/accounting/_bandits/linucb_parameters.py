"""Everything calibration fixes for private LinUCB, as one stored value.

Proof: ``docs/privacy/linucb.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting._bandits.linucb_regret import Setting, confidence_of
from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero, check_terms
from dpoco.accounting.release import check_numerics, check_scale
from dpoco.privacy.neighbours import CHANGES

__all__ = [
    "CALIBRATIONS",
    "LARGEST_ARMS",
    "LARGEST_DIMENSION",
    "LinUCBParameters",
    "failure_probability",
    "sum_dimension",
]

CALIBRATIONS = ("tight",)
LARGEST_ARMS, LARGEST_DIMENSION = 2**20, 4096


def sum_dimension(arms: int, dimension: int) -> int:
    """Return the length of the vectors that are summed: K d (d + 3)/2."""
    return arms * (dimension * (dimension + 3) // 2)


@dataclass(frozen=True)
class LinUCBParameters(StoredParameters):
    """Parameters of LinUCB on noisy statistics.

    The value carries no claim of its own: `dpoco.accounting.linucb.guarantee` recomputes every
    privacy and regret quantity from the noise scale, the sum, the sizes and the bounds.

    Attributes
    ----------
    arms, dimension, horizon : int
        K, d and T.
    batch : int
        Rounds per release of the statistics.
    sum_method : {"blt", "tree", "honaker", "toeplitz"}
        Continual sum.
    noise_scale : float
        Scale sigma of one Gaussian draw; 0 means no noise.
    reward_weight : float
        a in the statistics (x x', a r x) (length / reward).
    regularization : float
        rho, added to the noise margin on the diagonal (length^2).
    context_bound, reward_bound : float
        X and Y: contexts are clipped to l2 norm X, rewards to [-Y, Y].
    parameter_bound : float
        S: largest l2 norm of an arm's true coefficients. Regret depends on it, privacy does not.
    reward_noise : float
        R: the rewards' deviation from their mean is R-subgaussian.
    failure : float
        alpha: probability that any confidence interval is wrong.
    exploration : float
        Factor on the confidence width.
    relation : {"replace", "zero_out"}
        What happens to one user's record between neighbours.
    calibration : {"tight"}
        Exact Gaussian accounting.
    sensitivity : float
        Largest Frobenius norm of the change of all arms' statistics. Derived, as is all below.
    column_norm : float
        Factor of the continual sum on the sensitivity.
    mu : float
        GDP parameter; infinite without noise, 0 if nothing depends on the data.
    regret_bound : float
        Bound on the expected regret to the best arm of every round.
    regret_terms : dict of str to float
        The terms it is the sum of.
    numerics : {"float", "lattice"}
        Arithmetic of the sum: doubles, or exact integers.
    """

    _kind: ClassVar[str] = "dpoco.linucb_parameters"
    _version: ClassVar[int] = 2
    _added: ClassVar[dict[str, Any] | None] = {"numerics": "float"}

    arms: int
    dimension: int
    horizon: int
    batch: int
    sum_method: str
    noise_scale: float
    reward_weight: float
    regularization: float
    context_bound: float
    reward_bound: float
    parameter_bound: float
    reward_noise: float
    failure: float
    exploration: float
    relation: str
    calibration: str
    sensitivity: float
    column_norm: float
    mu: float
    regret_bound: float
    regret_terms: dict[str, float]
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        positive_int("arms", self.arms, maximum=LARGEST_ARMS)
        positive_int("dimension", self.dimension, maximum=LARGEST_DIMENSION)
        positive_int("horizon", self.horizon)
        positive_int("batch", self.batch)
        choice("sum_method", self.sum_method, continual_sum.METHODS)
        choice("relation", self.relation, CHANGES)
        choice("calibration", self.calibration, CALIBRATIONS)
        for name in (
            "reward_weight",
            "regularization",
            "context_bound",
            "reward_bound",
            "parameter_bound",
            "reward_noise",
        ):
            object.__setattr__(self, name, positive_float(name, getattr(self, name)))
        failure_probability(self.failure)
        check_numerics(self.numerics, "gaussian")
        for name in ("exploration", "sensitivity", "column_norm", "regret_bound"):
            object.__setattr__(self, name, at_least_zero(name, getattr(self, name)))
        terms = check_terms("regret_terms", self.regret_terms)
        object.__setattr__(self, "regret_terms", terms)
        if self.releases == 0 and self.noise_scale == 0.0:
            if self.mu != math.inf:
                at_least_zero("mu", self.mu)
        else:
            check_scale(self.noise_scale, self.mu)

    @property
    def releases(self) -> int:
        """Releases of the statistics: what the last round adds is not needed."""
        return (self.horizon - 1) // self.batch

    @property
    def pushes(self) -> int:
        """Vectors the continual sum is built for: `releases`, at least 1."""
        return max(self.releases, 1)

    @property
    def private(self) -> bool:
        """Whether anything is promised: there is noise, or nothing depends on the data."""
        return self.noise_scale > 0.0 or self.releases == 0

    @property
    def noise_margin(self) -> float:
        """Bound on the operator norm of the noise in any arm's matrix, over all releases."""
        return confidence_of(self.setting).margin

    @property
    def noise_dominates(self) -> bool:
        """Whether the noise outweighs all that an arm's share of the rounds can gather.

        In the sums of r x: its length tau sqrt(d)/a, against S T X^2/(K d), that of isotropic
        contexts with the largest coefficients. Or in the matrices: the margin on the diagonal is
        more than twice T X^2/(K d). In all worlds of ``docs/bandits.md`` and ``docs/reproduce.md``
        where that is so, regret is more than 95 % of that of uniform play; where it is not, less.
        """
        s = self.setting
        noise = s.deviation * math.sqrt(s.dimension) / s.reward_weight
        gathered = s.horizon * s.context_bound**2 / (s.arms * s.dimension)
        return noise > s.parameter_bound * gathered or self.noise_margin > 2.0 * gathered

    @property
    def setting(self) -> Setting:
        """What confidence widths and regret depend on."""
        deviation = grid = 0.0
        if self.noise_scale > 0.0:
            row = continual_sum.worst_row_norm(self.sum_method, self.pushes)
            deviation = self.noise_scale * row
            grid = continual_sum.release_grid(self.noise_scale)
        return Setting(
            arms=self.arms,
            dimension=self.dimension,
            horizon=self.horizon,
            batch=self.batch,
            releases=self.pushes,
            deviation=deviation,
            grid=grid,
            context_bound=self.context_bound,
            reward_bound=self.reward_bound,
            parameter_bound=self.parameter_bound,
            reward_noise=self.reward_noise,
            failure=self.failure,
            exploration=self.exploration,
            regularization=self.regularization,
            reward_weight=self.reward_weight,
        )


def failure_probability(value: float) -> float:
    """Return a probability strictly between 0 and 1, or raise."""
    number = positive_float("failure", value)
    if not number < 1.0:
        raise ValueError(f"failure must be below 1; got {number!r}")
    return number
