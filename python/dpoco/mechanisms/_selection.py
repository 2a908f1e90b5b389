"""What is selected privately: the best of many scores, and queries above their thresholds."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, ClassVar

from dpoco import _core
from dpoco._validation import float_array, number, real_float
from dpoco.accounting import Budget, above_threshold, noisy_max
from dpoco.accounting.above_threshold import AboveThresholdParameters
from dpoco.accounting.noisy_max import NoisyMaxParameters
from dpoco.mechanisms._mechanism import Mechanism
from dpoco.privacy.mechanisms.selections import Selections, ThresholdTests
from dpoco.random import Source

__all__ = ["AboveThreshold", "NoisyMax"]


class NoisyMax(Mechanism):
    """Report noisy max: the index of the best of many scores, and nothing else about them.

    Parameters
    ----------
    candidates : int
        Number of scores, at most 2^32.
    horizon : int, default 1
        Number of selections on the same data. Keyword-only, as all below.
    budget : Budget or None
        Guarantee of all selections together; None adds no noise and promises nothing.
    sensitivity : float, default 1.0
        Largest change of one score when one record is replaced: the caller's promise.
    noise : {"exponential", "gumbel", "laplace", "permute_and_flip"}
        "exponential" (default): one-sided noise, the smallest error for one selection, and the law
        of permute-and-flip, which is the same mechanism by another name. "gumbel": the exponential
        mechanism, which composes best over many selections with ``delta > 0``. "laplace": the
        classical one.
    one_directional : bool, default False
        Whether replacing a record moves all scores the same way, as adding or removing one moves
        counts: half the noise.
    largest : bool, default True
        Whether the largest or the smallest score is sought.
    parameters : NoisyMaxParameters, optional
        Overrides calibration; must keep to `budget`, if given, and to every other argument that is.
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Notes
    -----
    The selected score falls short of the best by x or more with probability at most
    ``candidates * exp(-x / parameters.scale)`` (Laplace: x / 2 for x).
    Scores may depend on earlier selections. O(candidates) time and memory a selection.
    Proof: ``docs/privacy/noisy_max.md``.

    Examples
    --------
    >>> import dpoco
    >>> best = dpoco.mechanisms.NoisyMax(3, budget=dpoco.Budget(epsilon=1.0, delta=0.0))
    >>> best.select([10.0, 200.0, 30.0])
    1
    >>> best.guarantee.epsilon
    1.0
    """

    parameters: NoisyMaxParameters
    _accountant: ClassVar[ModuleType] = noisy_max
    _noise: ClassVar[str] = "fresh"
    _one_round: ClassVar[bool] = False  # the same data answer every query
    _shown = ("candidates", "horizon", "noise", "sensitivity")

    def __init__(
        self,
        candidates: int,
        *,
        horizon: int = 1,
        budget: Budget | None,
        sensitivity: float = 1.0,
        noise: str = "exponential",
        one_directional: bool = False,
        largest: bool = True,
        parameters: NoisyMaxParameters | None = None,
        source: Source | None = None,
    ) -> None:
        self._begin(
            NoisyMax, candidates=candidates, horizon=horizon, budget=budget,
            sensitivity=sensitivity, noise=noise, one_directional=one_directional, largest=largest,
            parameters=parameters, source=source,
        )  # fmt: skip

    def _build_engine(self, claim: dict[str, Any]) -> _core.NoisyMax:
        p, drawn = self.parameters, self._mechanism.part(Selections)
        # No claim rests on the parameters' numbers.
        law, scale, horizon = noisy_max.law_of(p.noise), p.scale, p.horizon
        if drawn is not None:
            law, scale, horizon = drawn.law, drawn.scale, drawn.rounds
        own = {"candidates": p.candidates, "largest": p.largest, "horizon": horizon}
        return _core.NoisyMax({**own, "noise": law, "scale": scale, **claim})

    def select(self, scores: Any) -> int:
        """Return the index of a score that is close to the best.

        Parameters
        ----------
        scores : array_like of shape (candidates,)
            Non-finite ones count as 0.

        Raises
        ------
        HorizonExceeded
            Past the horizon: nothing drawn, nothing changed.
        ValueError, TypeError
            Wrong shape or dtype.
        """
        row = float_array("scores", scores, (self.parameters.candidates,))
        self._check_active()
        return int(self._engine.select(row))


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

    parameters: AboveThresholdParameters
    _accountant: ClassVar[ModuleType] = above_threshold
    _shown = ("horizon", "alarms", "sensitivity", "spread")

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
            AboveThreshold, horizon=horizon, budget=budget, sensitivity=sensitivity, spread=spread,
            alarms=alarms, false_alarm=false_alarm, parameters=parameters, source=source,
        )  # fmt: skip

    def _build_engine(self, claim: dict[str, Any]) -> _core.AboveThreshold:
        p, drawn = self.parameters, self._mechanism.part(ThresholdTests)
        # Without noise no claim rests on the parameters' numbers.
        return _core.AboveThreshold(
            {
                "noise": drawn.law if drawn else "exponential",
                "threshold_scale": drawn.threshold_scale if drawn else p.threshold_noise_scale,
                "query_scale": drawn.query_scale if drawn else p.query_noise_scale,
                "alarms": drawn.alarms if drawn else p.alarms,
                "horizon": self.horizon,
                **claim,
            }
        )

    @property
    def alarms_left(self) -> int:
        """Alarms that can still be raised; without any, `test` raises `HorizonExceeded`."""
        return self.parameters.alarms - int(self._engine.alarms)

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
        excess = (answer if math.isfinite(answer) else 0.0) - level - self.parameters.margin
        return bool(self._engine.test(excess))
