"""Upper confidence bounds on private linear statistics."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._participation import Participation
from dpoco._validation import positive_int
from dpoco.accounting import Budget
from dpoco.accounting import linucb as accountant
from dpoco.accounting.linucb import EXPLORATION, LinUCBParameters, confidence_of
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.bandits._bandit import BanditLearner
from dpoco.mechanisms import clipper_of, continual_sum_settings, sum_entries
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.random import Source

__all__ = ["LinUCB", "LinUCBParameters"]

FloatArray = NDArray[np.float64]


class LinUCB(BanditLearner):
    """LinUCB on privately summed statistics: a linear model an arm, joint differential privacy.

    Arm a's rewards are modelled as <x, theta_a>. Every `batch` rounds the noisy sums of x x' and
    r x of all arms are released; in between, a user with context x gets the arm with the largest
    upper confidence bound. What all other users see together, and the estimates of all arms, are
    (epsilon, delta)-private for replacing one user's record.

    Parameters
    ----------
    arms : int
        Number of arms K.
    dimension : int
        Length d of a context.
    horizon : int
        Number of rounds T. Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee; None switches privacy off (plain LinUCB, a baseline).
    parameters : LinUCBParameters, optional
        Overrides calibration; the guarantee is computed from them. They must keep to `budget`, if
        one is given, and to every other argument that is.
    calibration : {"tight"}
        Exact Gaussian accounting.
    context_bound : float, default 1.0
        Contexts are clipped to this l2 norm.
    reward_bound : float, default 1.0
        Rewards are clipped to [-reward_bound, reward_bound].
    parameter_bound : float, default 1.0
        Largest l2 norm of an arm's theta. Widens the confidence intervals; privacy does not need
        it.
    reward_noise : float, optional
        The rewards are subgaussian with this constant; default `reward_bound`, always true.
    failure : float, optional
        Probability that a confidence interval is wrong; default 1/T.
    exploration : float, default 0.1
        Factor on the width of the intervals. The proven widths are wide: 0.1 earned more in all
        worlds tried. From 1.0 on `parameters.regret_bound` is the proved one; below, it is what
        holds of any play, the horizon times the largest loss of a round.
    batch : int, optional
        Rounds between releases. More: less noise, less time, older estimates. Default: as many as
        cost next to no regret.
    regularization : float, optional
        rho, added to the diagonal on top of the noise margin; default: as much again.
    reward_weight : float, optional
        Weight a of r x beside x x' in the sums; default: the narrowest intervals.
    sum_method : {"auto", "blt", "blt_normalised", "tree", "honaker", "toeplitz"}, optional
        The continual sum.
    relation : {"replace", "zero_out"}
        Whether one user's record is replaced or emptied between neighbours.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum: doubles, whose rounding the proof leaves out, or exact integers;
        see `dpoco.mechanisms.ContinualSum`.
    participation : Participation, optional
        How often one person comes: budget and guarantee are then for all her rounds together.
    on_violation : {"clip", "raise"}
        What happens to contexts and rewards out of their bounds: clipped silently, or
        ``ValueError`` (for trusted data: the exception depends on them).
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments; ``horizon=None`` is one.
    CalibrationError
        If no noise meets the budget, as for delta = 0.
    BudgetExceeded
        If `parameters` spend more than `budget`.

    Warns
    -----
    NoiseDominatesWarning
        If the noise in an arm's sums exceeds what its share of the rounds can gather.

    Notes
    -----
    Source: Shariff and Sheffet, "Differentially private contextual linear bandits" (2018), with
    disjoint arms, noise from a factorised sum and exact accounting.
    O(K d^2) time a round; a release takes K d^2/2 noise variates and O(K d^3). O(K d^2) memory with
    "blt", O(K d^2 log T) with trees. A state is saved between rounds: a decision that waits for its
    reward is asked for again after a load.
    Proof of privacy and of `parameters.regret_bound`: ``docs/privacy/linucb.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.bandits.LinUCB(
    ...     2, 3, horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> learner.decide([0.6, 0.0, 0.8])
    0
    >>> learner.observe(1.0)
    >>> learner.coefficients.shape
    (2, 3)
    """

    parameters: LinUCBParameters
    _mechanism: GaussianSum
    _accountant: ClassVar[ModuleType] = accountant
    _noise: ClassVar[str] = "fresh"
    _norm = 2.0

    def __init__(
        self,
        arms: int,
        dimension: int,
        *,
        horizon: int,
        budget: Budget | None,
        parameters: LinUCBParameters | None = None,
        calibration: str = "tight",
        context_bound: float = 1.0,
        reward_bound: float = 1.0,
        parameter_bound: float = 1.0,
        reward_noise: float | None = None,
        failure: float | None = None,
        exploration: float = EXPLORATION,
        batch: int | None = None,
        regularization: float | None = None,
        reward_weight: float | None = None,
        sum_method: str | None = None,
        relation: str = "replace",
        numerics: str = DEFAULT_NUMERICS,
        participation: Participation | None = None,
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(
            LinUCB, arms=arms, dimension=dimension, horizon=horizon, budget=budget,
            parameters=parameters, calibration=calibration, context_bound=context_bound,
            reward_bound=reward_bound, parameter_bound=parameter_bound, reward_noise=reward_noise,
            failure=failure, exploration=exploration, batch=batch, regularization=regularization,
            reward_weight=reward_weight, sum_method=sum_method, relation=relation,
            numerics=numerics, participation=participation, on_violation=on_violation,
            source=source,
        )  # fmt: skip

    @classmethod
    def _problem(cls, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(positive_int(name, arguments[name]) for name in ("arms", "dimension"))

    def _entries(self) -> dict[str, float]:
        factors = {"factors of the arms' matrices": float(self._arms) * self._dimension**2}
        return factors | sum_entries(self._mechanism)

    def _build_engine(self, claim: dict[str, Any]) -> _core.LinUcb:
        p, total = self.parameters, self._mechanism
        moments = total.summand
        assert isinstance(moments, SecondMoments)
        confidence = confidence_of(p)
        return _core.LinUcb(
            {
                "arms": moments.arms,
                "rounds": self._horizon,
                "reward_low": -moments.label,
                "reward_high": moments.label,
                "batch": total.batch,
                "reward_weight": moments.weight,
                "shift": p.regularization + confidence.margin,
                "exploration": p.exploration,
                "spread": confidence.spread,
                "log_term": confidence.log_term,
                "growth": confidence.growth,
                "bias": confidence.bias,
                "sum": continual_sum_settings(total, claim),
            },
            clipper_of(moments),
        )

    @classmethod
    def _header_dimension(cls, header: dict[str, Any]) -> int:
        arms, d = (int(header["arguments"][name]) for name in ("arms", "dimension"))
        return arms * (d * (d + 3) // 2)
