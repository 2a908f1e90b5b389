"""Parameters of the learner of Lipschitz losses on a net."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting._experts.hedge_regret import GROWING
from dpoco.accounting._experts.nets import TRANSFORMS
from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero, check_terms
from dpoco.accounting.release import check_scale

__all__ = ["CALIBRATIONS", "LipschitzParameters"]

CALIBRATIONS = ("tight", "paper")


@dataclass(frozen=True)
class LipschitzParameters(StoredParameters):
    """Parameters of Hedge on a net of decisions.

    The value carries no claim of its own: `guarantee` recomputes every privacy and regret quantity
    from domain, Lipschitz constant, net, transform, noise scale, sum and learning rate.

    Attributes
    ----------
    horizon : int
        Rounds T.
    lipschitz : float
        G: losses change by at most G times the Euclidean distance.
    resolution : tuple of int
        Net points along each axis of positive length; empty for a single decision.
    transform : {"increments", "grid_laplacian", "parent"}
        What is summed of the values on the net.
    sum_method : {"blt", "tree", "honaker", "toeplitz"}
        Continual sum; it takes T - 1 pushes.
    noise_scale : float
        Scale of one Gaussian draw, in units of loss; 0 means no noise.
    learning_rate : float
        eta, per unit of loss.
    enforce : bool
        Whether differences of values are bounded by G times distances before they are summed.
    calibration : {"tight", "paper"}
        Where the parameters come from.
    sensitivity : float
        Largest l2 difference of what a round adds to the sum, between neighbours. Derived, as is
        everything below.
    column_norm : float
        Factor of the continual sum on the sensitivity.
    mu : float
        GDP parameter; infinite without noise, 0 if nothing depends on the data.
    regret_bound : float
        Bound on the expected regret to the best point of the domain.
    regret_terms : dict of str to float
        The terms it is the sum of.
    regret_scope : {"oblivious", "adaptive"}
        Losses it holds for: fixed in advance, or any.
    """

    _kind: ClassVar[str] = "dpoco.lipschitz_parameters"

    horizon: int
    lipschitz: float
    resolution: tuple[int, ...]
    transform: str
    sum_method: str
    noise_scale: float
    learning_rate: float
    enforce: bool
    calibration: str
    sensitivity: float
    column_norm: float
    mu: float
    regret_bound: float
    regret_terms: dict[str, float]
    regret_scope: str

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        positive_int("horizon", self.horizon)
        positive_float("lipschitz", self.lipschitz)
        if not isinstance(self.resolution, (tuple, list)) or len(self.resolution) > 2:
            raise TypeError("resolution must be a tuple of at most two ints")
        counts = tuple(positive_int("resolution", n, maximum=2**24) for n in self.resolution)
        if any(count < 2 for count in counts):
            raise ValueError("resolution must be at least 2 points an axis")
        object.__setattr__(self, "resolution", counts)
        choice("transform", self.transform, TRANSFORMS)
        choice("sum_method", self.sum_method, continual_sum.METHODS)
        choice("calibration", self.calibration, CALIBRATIONS)
        choice("regret_scope", self.regret_scope, ("oblivious", "adaptive"))
        positive_float("learning_rate", self.learning_rate)
        if not isinstance(self.enforce, bool):
            raise TypeError("enforce must be a bool")
        for name in ("sensitivity", "column_norm", "regret_bound"):
            at_least_zero(name, getattr(self, name))
        terms = check_terms("regret_terms", self.regret_terms)
        object.__setattr__(self, "regret_terms", terms)
        if not self.depends_on_data and self.noise_scale == 0.0:
            at_least_zero("mu", self.mu)
        else:
            check_scale(self.noise_scale, self.mu)

    @property
    def experts(self) -> int:
        """Number of net points N."""
        return math.prod(self.resolution)

    @property
    def pushes(self) -> int:
        """Rounds that enter the sum: all but the last; at least 1."""
        return max(self.horizon - 1, 1)

    @property
    def private(self) -> bool:
        """Whether anything is promised: there is noise, or nothing depends on the data."""
        return self.noise_scale > 0.0 or not self.depends_on_data

    @property
    def depends_on_data(self) -> bool:
        """Whether decisions can depend on data at all: two points and two rounds."""
        return self.experts > 1 and self.horizon > 1

    @property
    def noise_dominates(self) -> bool:
        """Whether nothing better is proved than what any decisions achieve."""
        growing = self.sum_method in GROWING  # about others little is proved at all
        return self.noise_scale > 0.0 and growing and "trivial" in self.regret_terms
