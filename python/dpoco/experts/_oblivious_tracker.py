"""Exponential weights over all sequences of experts, evaluated lazily (the private dartboard)."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from dpoco import _core
from dpoco._participation import Participation
from dpoco._validation import LARGEST_HORIZON
from dpoco.accounting import Budget
from dpoco.accounting import oblivious_tracker as accountant
from dpoco.accounting.oblivious_tracker import ObliviousTrackerParameters
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws
from dpoco.random import Source

__all__ = ["ObliviousTracker", "ObliviousTrackerParameters"]

# Doubles that the prior "at_most" may hold, S + 1 rows of N.
_LARGEST_STATE = 2**33


class ObliviousTracker(ExpertLearner):
    """Follow the best sequence of experts with few switches: losses fixed in advance.

    One sequence of experts is held and played. After every `batch` rounds it is kept with
    probability (1 - p) exp(-eta * its loss in them) and otherwise drawn afresh from exponential
    weights over all sequences, which are never listed: the part of a sequence that is not yet
    played is decided when its time comes. The whole sequence of experts is
    (epsilon, delta)-differentially private for replacing the losses of one round, also when they
    are chosen adaptively; the bound on the regret needs losses fixed in advance.

    Parameters
    ----------
    experts : int
        Number of experts N, at most 2^32.
    horizon : int or None
        Number of rounds T, at most 1e12. None: unknown, with the prior "share" and a `share_rate`,
        which must be given and, if private, be positive. Keyword-only, as all that follow.
    budget : Budget or None
        The target guarantee, pure for delta = 0; None switches privacy off (baselines).
    parameters : ObliviousTrackerParameters, optional
        Overrides calibration; the guarantee is computed from them. They must keep to `budget`, if
        one is given, and to every other argument that is.
    calibration : {"tight"}
        Renyi divergences of the released experts.
    switches : int, default 0
        Switches S of the sequences of experts to compare with.
    prior : {"share", "at_most"}
        Law of a sequence before any loss. "share" (default): it leaves its expert with probability
        `share_rate` after every round. "at_most": uniform over all sequences with at most S
        switches; needs a horizon and costs S + 1 times as much.
    learning_rate : float, optional
        eta, per unit of losses in [0, 1]; this and the next three by default those of the least
        regret bound (on an endless stream that never switches none is best: eta = 1).
    forced_switch : float, optional
        p, probability of a fresh draw whatever the losses: costs switches, saves privacy.
    batch : int, optional
        Rounds B between draws. From T on nothing is learned.
    share_rate : float, optional
        sigma in [0, 1 - 1/N], 0 or at least 1e-100; for the prior "share" only.
    max_resamples : int, optional
        Cap on fresh draws, after which the last one is followed to the end. The regret bound then
        holds no more. On an endless stream every cap is used up sooner or later.
    loss_range : (float, float), default (0, 1)
        Public range of the losses, enforced by clipping.
    participation : Participation, optional
        How often one person comes: budget and guarantee are then for all her rounds together.
    on_violation : {"clip", "raise"}
        What happens to losses out of the range: clipped silently, or ``ValueError`` (for trusted
        data: the exception depends on them).
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no parameters meet the budget.
    BudgetExceeded
        If `parameters` spend more than `budget`.

    Warns
    -----
    NoiseDominatesWarning
        If the regret bound is no better than T.

    Notes
    -----
    Source: Asi, Raman and Saha, "Tracking the best expert privately" (2025), Section 4,
    there with one meta-expert per sequence; the law of the decisions is the same here.
    Per round: one exponential per expert and O(N) time (S + 1 times that with "at_most", and a
    logarithm); O(N) memory (times S + 1). A fresh draw costs N exponential variates.
    Exactness: ``docs/privacy/oblivious_tracker.md``; privacy and `parameters.regret_bound`:
    ``docs/privacy/tracker_accounting.md``.

    Examples
    --------
    >>> import dpoco
    >>> learner = dpoco.experts.ObliviousTracker(
    ...     10, horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6), switches=5)
    >>> 0 <= learner.decide() < 10
    True
    >>> learner.observe([0.0] + [1.0] * 9)
    >>> learner.round
    1
    """

    _parameters: ObliviousTrackerParameters
    _accountant: ClassVar[ModuleType] = accountant
    _parameters_class = ObliviousTrackerParameters

    def __init__(
        self,
        experts: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        parameters: ObliviousTrackerParameters | None = None,
        calibration: str = "tight",
        switches: int = 0,
        prior: str = "share",
        learning_rate: float | None = None,
        forced_switch: float | None = None,
        batch: int | None = None,
        share_rate: float | None = None,
        max_resamples: int | None = None,
        loss_range: tuple[float, float] = (0.0, 1.0),
        participation: Participation | None = None,
        on_violation: str = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(ObliviousTracker, **locals())

    def _build_engine(self, claim: dict[str, Any]) -> _core.ObliviousTracker:
        p, drawn = self._parameters, self._mechanism.part(TrackerDraws)
        switches = min(p.switches, self._horizon - 1)
        if p.prior == "at_most" and (switches + 1) * self._experts > _LARGEST_STATE:
            raise ValueError("(switches + 1) * experts is too large for the prior 'at_most'")
        # Without noise, or with nothing to learn from, no claim rests on what is drawn.
        said = p if drawn is None else drawn
        return _core.ObliviousTracker(
            {
                **self._shared_settings(claim),
                "experts": said.experts,
                "rounds": said.horizon or LARGEST_HORIZON,
                "prior": said.prior,
                "switches": switches,
                "share_rate": said.share_rate or 0.0,
                "learning_rate": said.learning_rate,
                "forced_switch": p.forced_switch if drawn is None else drawn.forced,
                "block": said.batch,
                "max_resamples": p.max_resamples if drawn is None else drawn.cap,
            }
        )

    @classmethod
    def _header_dimension(cls, header: dict[str, Any]) -> int:
        experts = super()._header_dimension(header)
        parameters = header["parameters"]
        if experts == 1 or parameters["prior"] != "at_most":
            return experts
        return experts * (min(int(parameters["switches"]), int(parameters["horizon"]) - 1) + 1)

    @property
    def parameters(self) -> ObliviousTrackerParameters:
        """Everything calibration fixed: rates, batch, prior, regret bound."""
        return self._parameters

    @property
    def resamples(self) -> int:
        """Fresh draws so far; as public as the decisions, the guarantee covers both."""
        return int(self._engine.resamples)
