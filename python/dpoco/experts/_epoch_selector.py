"""Selection on dyadic epochs: the private learner for stationary losses."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from dpoco import _core
from dpoco.accounting import Budget
from dpoco.accounting import epoch_selector as accountant
from dpoco.accounting.epoch_selector import EpochSelectorParameters
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.mechanisms.selections import Selections
from dpoco.random import Source

__all__ = ["EpochSelector", "EpochSelectorParameters"]


class EpochSelector(ExpertLearner):
    """Noisy argmin on epochs of doubling length: pure privacy for stationary losses.

    In rounds 2^l, ..., 2^(l+1) - 1 it plays a noisy argmin of the losses of the 2^(l-1) rounds
    before. The whole sequence of decisions is epsilon-differentially private for replacing the
    losses of one round, also when they react to the decisions, and over any number of rounds.

    Parameters
    ----------
    experts : int
        Number of experts N, at most 2^32.
    horizon : int or None
        Number of rounds T, at most 1e12; None: unknown, at no price. Keyword-only, as all that
        follow.
    budget : Budget or None
        The target guarantee; its delta may be 0. None switches privacy off (baselines).
    parameters : EpochSelectorParameters, optional
        Overrides calibration; the guarantee is computed from them. They must keep to `budget`, if
        one is given, and to every other argument that is.
    calibration : {"tight", "corrected", "paper"}
        "tight" (default): the noise that errs least. "corrected", "paper": the published Laplace
        noise; both keep to the budget.
    selection : {"exponential", "gumbel", "laplace"}, optional
        Law of the noise; default "exponential".
    first : int, optional
        Expert of the first round; None (default) draws it uniformly.
    loss_range : (float, float), default (0, 1)
        Public range of the losses, enforced by clipping.
    on_violation : {"clip", "raise"}
        What happens to losses out of the range: clipped silently, or ``ValueError`` (for trusted
        data: the exception depends on them).
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    BudgetExceeded
        If `parameters` spend more than `budget`.

    Notes
    -----
    Source: Asi, Raman and Saha, "Tracking the best expert privately", algorithm 1.
    O(N) time a round and O(N) memory; log2 T draws of N variates in all. The losses of an epoch
    that is not complete at the end are never used.
    `parameters.regret_bound` holds in expectation, against the best expert in hindsight, for losses
    drawn independently from one law. For laws that change see `ShiftDetector`.
    Proofs: ``docs/privacy/epoch_selector.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.experts.EpochSelector(
    ...     10, horizon=None, budget=dpoco.Budget(epsilon=1.0, delta=0.0), first=3)
    >>> learner.decide()
    3
    >>> learner.observe([0.0] + [1.0] * 9)
    >>> learner.guarantee.epsilon
    1.0
    """

    _parameters: EpochSelectorParameters
    _accountant: ClassVar[ModuleType] = accountant
    _noise: ClassVar[str] = "fresh"
    _parameters_class = EpochSelectorParameters

    def __init__(
        self,
        experts: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        parameters: EpochSelectorParameters | None = None,
        calibration: str = "tight",
        selection: str | None = None,
        first: int | None = None,
        loss_range: tuple[float, float] = (0.0, 1.0),
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(EpochSelector, **locals())

    def _build_engine(self, claim: dict[str, Any]) -> _core.EpochSelector:
        p = self._parameters
        return _core.EpochSelector(
            {
                **self._shared_settings(claim),
                "selection": selection_settings(p.experts, self._mechanism, p.selection, p.scale),
                "first": p.first,
            }
        )

    @property
    def parameters(self) -> EpochSelectorParameters:
        """Everything calibration fixed: law and scale of the noise, regret bound."""
        return self._parameters


def selection_settings(
    experts: int, mechanism: Mechanism, noise: str, scale: float
) -> dict[str, Any]:
    """Return what the compiled noisy argmin of a learner is built from.

    Law and scale are those of `mechanism`; `noise` and `scale` where no claim rests on any.
    """
    drawn = mechanism.part(Selections)
    if drawn is not None:
        noise, scale = drawn.law, drawn.scale
    return {"candidates": experts, "noise": noise, "scale": scale, "largest": False}
