"""Which queries of a stream lie above their thresholds: the sparse vector technique."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, ClassVar

from dpoco import _core
from dpoco._validation import LARGEST_HORIZON, number, real_float
from dpoco.accounting import Budget
from dpoco.accounting import above_threshold as accountant
from dpoco.accounting.above_threshold import AboveThresholdParameters
from dpoco.errors import HorizonExceeded
from dpoco.mechanisms._mechanism import Mechanism
from dpoco.random import Source

__all__ = ["AboveThreshold", "AboveThresholdParameters"]


class AboveThreshold(Mechanism):
    """AboveThreshold: alarms when a query exceeds its threshold; silence costs nothing.

    Parameters
    ----------
    horizon : int or None
        Number of queries, at most 1e12; None: unknown. Keyword-only, as all below.
    budget : Budget or None
        Guarantee of all answers together, pure (its delta is not needed); None adds no noise and
        promises nothing.
    sensitivity : float, default 1.0
        Largest change of one query when one record is replaced, in either direction: the caller's
        promise, as is the next.
    spread : float, optional
        Largest rise of one query plus largest fall of another that the same replacement can cause,
        from `sensitivity` to twice that (default). Queries that one record moves all the same way
        have a spread equal to their sensitivity.
    alarms : int, default 1
        Alarms answered, all on the same data; the noise grows with them. For disjoint parts of the
        data use one object a part: each has the whole budget, and together they cost no more.
    false_alarm : float, default 0.05
        Probability, over all queries together, of an alarm for one below its threshold. A margin,
        `parameters.margin`, on top of the thresholds sees to that.
    parameters : AboveThresholdParameters, optional
        Overrides calibration; must keep to `budget`, if given, and to every other argument that is.
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Notes
    -----
    Queries and thresholds may depend on all earlier answers. One noise variate per query and one
    for the threshold, which is never drawn again: that is the variant of the sparse vector
    technique that is proved (Lyu, Su and Li, 2017, algorithm 1), here with one-sided noises.
    A query more than ``parameters.margin + parameters.detection_margin(beta)`` above its threshold
    raises an alarm with probability at least 1 - beta.
    Proof: ``docs/privacy/shift_detector.md``.

    Examples
    --------
    >>> import dpoco
    >>> watch = dpoco.mechanisms.AboveThreshold(
    ...     horizon=1000, budget=dpoco.Budget(epsilon=1.0, delta=0.0))
    >>> watch.test(3.0, threshold=500.0), watch.test(900.0, threshold=500.0)
    (False, True)
    """

    _parameters: AboveThresholdParameters
    _accountant: ClassVar[ModuleType] = accountant
    _parameters_class = AboveThresholdParameters

    def __init__(
        self,
        *,
        horizon: int | None,
        budget: Budget | None,
        sensitivity: float = 1.0,
        spread: float | None = None,
        alarms: int = 1,
        false_alarm: float = 0.05,
        parameters: AboveThresholdParameters | None = None,
        source: Source | None = None,
    ) -> None:
        self._begin(
            AboveThreshold,
            horizon=horizon,
            budget=budget,
            sensitivity=sensitivity,
            spread=spread,
            alarms=alarms,
            false_alarm=false_alarm,
            parameters=parameters,
            source=source,
        )

    def _build_engine(self, claim: dict[str, Any]) -> _core.AboveThreshold:
        parameters = self._parameters
        return _core.AboveThreshold(
            {
                "threshold_scale": parameters.threshold_noise_scale,
                "query_scale": parameters.query_noise_scale,
                "noise": "exponential",
                "alarms": parameters.alarms,
                "horizon": self.horizon,
                **claim,
            }
        )

    @classmethod
    def _header_dimension(cls, header: dict[str, Any]) -> int:
        return 1

    @property
    def parameters(self) -> AboveThresholdParameters:
        """Scales of the noises, margin: everything calibration fixed."""
        return self._parameters

    @property
    def horizon(self) -> int:
        """Largest number of queries; 10^12 without a horizon."""
        declared = self._parameters.horizon
        return LARGEST_HORIZON if declared is None else declared

    @property
    def alarms_left(self) -> int:
        """Alarms that can still be raised; without any, `test` raises `HorizonExceeded`."""
        return self._parameters.alarms - int(self._engine.alarms)

    def test(self, value: Any, threshold: float = 0.0) -> bool:
        """Return whether a query seems to exceed a threshold.

        Parameters
        ----------
        value : float
            The query's answer on the data; a non-finite one counts as 0.
        threshold : float, default 0.0
            Public; may differ from query to query.

        Raises
        ------
        HorizonExceeded
            After `horizon` queries or the last alarm: nothing drawn, nothing changed.
        ValueError, TypeError
            For arguments that are no real numbers, or a threshold that is not finite.
        """
        answer = number("value", value)
        level = real_float("threshold", threshold)
        self._check_active()
        if self.round >= self.horizon:
            raise HorizonExceeded(f"the horizon of {self.horizon} queries is used up")
        if self.alarms_left == 0:
            raise HorizonExceeded(f"all alarms ({self._parameters.alarms}) have been raised")
        excess = (answer if math.isfinite(answer) else 0.0) - level - self._parameters.margin
        return bool(self._engine.test(excess))

    def __repr__(self) -> str:
        p = self._parameters
        return (
            f"AboveThreshold(horizon={p.horizon}, alarms={p.alarms}, "
            f"sensitivity={p.sensitivity!r}, spread={p.spread!r})\n  {self._guarantee!r}"
        )
