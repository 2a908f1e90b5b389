"""The mechanisms: running sums, selections and threshold tests."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _core
from dpoco import _literals as literals
from dpoco._validation import (
    Fields,
    FloatArray,
    choice,
    float_array,
    number,
    positive_int,
    real_float,
    whole_if_float,
)
from dpoco.accounting import Budget, above_threshold, noisy_max, sum_release
from dpoco.accounting.above_threshold import ThresholdPlan, ThresholdTuning
from dpoco.accounting.continual_sum import NOISES, method_name
from dpoco.accounting.noisy_max import NoisyMaxPlan, NoisyMaxTuning
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.sum_release import SumPlan
from dpoco.errors import HorizonExceeded
from dpoco.learning.calibrated import Certified
from dpoco.learning.participation import Participation
from dpoco.learning.state import is_own
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.base import Nothing
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import Buffered, SquareRoot
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.selections import PromisedScores
from dpoco.random import Source

# Entries per compiled call of `run`; Ctrl-C is handled between calls.
_CHUNK_ENTRIES = 2**20


class Mechanism(Certified):
    """Base of the mechanisms, whose accountants take all arguments by name."""

    # Parameters that `repr` shows.
    _shown: ClassVar[tuple[str, ...]]

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        # The engine allocates nothing before the caller passes scores or queries.
        return 1

    def __repr__(self) -> str:
        facts = {**self._arguments, **self._plan_arguments(self._plan)}
        shown = ", ".join(f"{name}={facts[name]!r}" for name in self._shown)
        return f"{type(self).__name__}({shown})\n  {self._guarantee!r}"


def sum_entries(total: GaussianSum) -> dict[str, float]:
    """Return a lower bound on a compiled continual sum's doubles, for `require_memory`."""
    pushes = max(total.pushes, 1)
    # The engine keeps past noise: one node for each level of a tree, a few buffers, all draws, or a
    # band.
    past = 1.0 + math.log2(pushes)
    if isinstance(total.factorisation, Buffered):
        past = 8.0
    elif isinstance(total.factorisation, SquareRoot):
        past = float(pushes)
    elif isinstance(total.factorisation, Banded):
        past = 1.0 + total.factorisation.band
    return {"the running sum": (2.0 + past) * max(total.summand.size, 1)}


class ContinualSum(Mechanism):
    """Running sums of a stream of vectors under one guarantee.

    Parameters
    ----------
    dimension : int
        Length d of the vectors.
    horizon : int or None
        Largest number of vectors, up to 1e12. None: unknown, up to 1e9. This and all following
        arguments are keyword-only.
    budget : Budget or None
        Guarantee of all sums together; None adds no noise and gives no guarantee.
    bound : float
        Required. Vectors are clipped to ``||g||_norm <= bound``, silently; non-finite ones count as
        zero. Public: never take it from the data.
    norm : float, default 2.0
        Exponent of that norm, in [1, inf].
    method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}
        "tree": binary tree. "toeplitz": square-root factorisation, horizon up to 4096, O(T d)
        memory. "blt": its streaming approximation with five buffers. "blt_normalised": the same
        with smaller draws later on, since fewer sums remain; it has 3 to 6 % less noise at the
        noisiest round of a known horizon. "banded": for people whose vectors are far apart, with at
        most 1e4 vectors and a separation of at most 1000; O(d) per vector, times the separation.
        "auto" (default) takes the smallest worst-case error at equal privacy: "blt_normalised",
        "banded" for some people, or "blt" for an unknown horizon; see ``plan.mechanism``.
    noise : {"gaussian", "generalized_gaussian"}
        Distribution of the draws.
    norm_order : float, optional
        Order of the generalized Gaussian, in [2, max(2, norm)].
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in one vector, which is replaced or emptied.
    participation : Participation, optional
        How often one person may come. The budget then covers all these vectors, and the library
        searches for parameters of "blt" and "blt_normalised". Only ``enforced=False`` is possible:
        a sum does not see persons, so the caller must enforce the rule.
    numerics : {"auto", "float", "lattice"}
        Arithmetic. "lattice": exact integers and exactly rounded noise, with a proof that covers
        the program itself; only Gaussian noise. "float": doubles, whose rounding is not part of the
        proof. "auto" (default): "lattice" if it is available and makes the noise at most 1 %
        larger.
    plan : Plan, optional
        Plan to use instead of calibration. It must agree with `budget` and with every other
        argument that you pass.
    source : Source, optional
        Source of randomness; None: the operating system.

    Notes
    -----
    The stream may be adaptive: a vector may depend on all earlier sums. The error at round t has
    standard deviation ``standard_deviation(t)`` in each coordinate, exactly. Memory: 6 d numbers
    with "blt", d log2 T with "tree". Time per round: one noise vector
    and O(d). Proof: ``docs/privacy/continual_sum.md``.

    Examples
    --------
    >>> import dpoco
    >>> total = dpoco.mechanisms.ContinualSum(
    ...     2, horizon=1000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6), bound=1.0)
    >>> total.push([0.6, -0.8]).shape
    (2,)
    >>> round(total.standard_deviation(1000), 1)
    22.1
    """

    plan: SumPlan
    _mechanism: GaussianSum
    _accountant: ClassVar = sum_release
    _noise: ClassVar[str] = "fresh"
    _shown = ("dimension", "horizon", "method", "bound", "norm")

    def __init__(
        self,
        dimension: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        bound: float,
        norm: float = 2.0,
        method: literals.SumMethod = "auto",
        noise: literals.SumNoise = "gaussian",
        norm_order: float | None = None,
        relation: literals.Relation = "replace",
        participation: Participation | None = None,
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        plan: SumPlan | None = None,
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        # The planner chooses the sum with the least error for all rounds of a person
        # (docs/privacy/participation.md, "Parameters").
        calibrate = partial(
            sum_release.calibrate, dimension=dimension, horizon=horizon, bound=bound, norm=norm,
            method=method, noise=noise, norm_order=norm_order, relation=relation, numerics=numerics,
            participation=participation,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source)

    @staticmethod
    def _rename_fields(plan: SumPlan) -> Fields:
        total, vector = plan.mechanism, plan.mechanism.summand
        if not isinstance(vector, ClippedVector):
            raise TypeError("plan must be a plan for a sum of clipped vectors")
        method = method_name(total.factorisation)
        return {
            **vars(vector),
            "horizon": total.pushes,
            "method": method,
            "norm_order": total.order,
        }

    @staticmethod
    def _plan_horizon(plan: SumPlan) -> int:
        # All sums are released, including that of the last vector.
        return plan.mechanism.pushes

    def _noise_note(self) -> None:
        """Give no warning, since this class does not know whether a sum is useful."""

    def _declare(self, claim: _core.Claim) -> None:
        # The plan only has the order of the norm, which does not determine this word.
        choice("noise", self._arguments["noise"], NOISES)
        people: Participation | None = self._arguments.get("participation")
        if people is not None and people.enforced:
            raise ValueError("a sum takes no persons: participation must have enforced=False")
        # A derived class outside the library may override `push`, which the fast path would skip.
        self._direct = int(is_own(type(self)))

    def _entries(self) -> dict[str, float]:
        return sum_entries(self._mechanism)

    def _build_engine(self, claim: _core.Claim) -> _core.ContinualSum:
        return _core.ContinualSum(self._mechanism, claim)

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        return int(header["plan"]["mechanism"]["summand"]["dimension"])

    @_core.direct_sum_push
    def push(self, value: Any) -> FloatArray:
        """Add a vector and release the running sum.

        Parameters
        ----------
        value : array_like of shape (d,)
            The vector is silently clipped to the bound, or counts as zero if it is not finite,
            since both cases depend on the data.

        Returns
        -------
        ndarray of float64, shape (d,)
            Sum of all vectors so far plus noise.

        Raises
        ------
        HorizonExceeded
            Past the horizon; nothing is drawn and nothing changes.
        ValueError, TypeError
            Wrong shape or dtype.
        """
        vector = float_array("value", value, (self._mechanism.summand.size,))
        self._check_active()
        self._check_alone()
        released: FloatArray = self._engine.push(vector)
        return released

    def run(self, values: ArrayLike) -> FloatArray:
        """Push the rows of a (T, d) array; return the T released sums, shape (T, d).

        The numbers equal those of T calls of `push`, bit for bit. The interpreter lock is released.

        Raises
        ------
        HorizonExceeded
            If fewer than T rounds are left; nothing is pushed.
        """
        d = self._mechanism.summand.size
        rows = float_array("values", values, (None, d))
        self._check_active()
        out = np.empty_like(rows)
        step = max(1, _CHUNK_ENTRIES // d)
        with self._alone():
            # The check is under the lock, so that no other thread can play rounds after it.
            left = self.horizon - self.round
            if rows.shape[0] > left:
                raise HorizonExceeded(f"rounds asked for: {rows.shape[0]}, left: {left}")
            for start in range(0, rows.shape[0], step):
                part = slice(start, start + step)
                self._engine.run(rows[part], out[part])
        return out

    def standard_deviation(self, t: int) -> float:
        """Return the exact standard deviation of each coordinate of the noise at round t >= 1."""
        return float(np.sqrt(self.variance(t)))

    def variance(self, t: int) -> float:
        """Return the exact variance of each coordinate of the noise in the sum of round t >= 1."""
        return float(
            sum_release.variance(self._mechanism, positive_int("t", t, maximum=self.horizon))
        )


class NoisyMax(Mechanism):
    """Report noisy max: release the index of the best of many scores and nothing else.

    Parameters
    ----------
    candidates : int
        Number of scores, at most 2^32.
    horizon : int, default 1
        Number of selections on the same data. This and all following arguments are keyword-only.
    budget : Budget or None
        Guarantee of all selections together; None adds no noise and gives no guarantee.
    sensitivity : float
        Required. Largest change of one score when one record is replaced; the caller promises this.
    noise : {"exponential", "gumbel", "laplace"}
        "exponential" (default): one-sided noise with the smallest error for one selection; it has
        the same distribution as permute-and-flip. "gumbel": the exponential mechanism, which
        composes best over many selections with ``delta > 0``. "laplace": the classical noise.
    one_directional : bool, default False
        Whether replacing a record moves all scores in the same direction, as adding or removing a
        record does with counts. This halves the noise.
    largest : bool, default True
        True: select the largest score; False: the smallest.
    plan : Plan, optional
        Plan to use instead of calibration. They must agree with `budget` and with every other
        argument that you pass.
    source : Source, optional
        Source of randomness; None: the operating system.

    Notes
    -----
    The selected score falls short of the best by x or more with probability at most ``candidates *
    exp(-x / plan.mechanism.scale)`` (Laplace: x / 2 instead of x). Scores may depend on earlier
    selections. O(candidates) time and memory per selection. Proof: ``docs/privacy/noisy_max.md``.

    Examples
    --------
    >>> import dpoco
    >>> best = dpoco.mechanisms.NoisyMax(
    ...     3, budget=dpoco.Budget(epsilon=1.0, delta=0.0), sensitivity=1.0)
    >>> best.select([10.0, 200.0, 30.0])
    1
    >>> best.guarantee.epsilon
    1.0
    """

    plan: NoisyMaxPlan
    _accountant: ClassVar = noisy_max
    _tuning = NoisyMaxTuning
    _noise: ClassVar[str] = "fresh"
    # All queries read the same data.
    _one_round: ClassVar[bool] = False
    _shown = ("candidates", "horizon", "noise", "sensitivity")

    def __init__(
        self,
        candidates: int,
        *,
        horizon: int = 1,
        budget: Budget | None,
        sensitivity: float,
        noise: literals.ScoreNoise = "exponential",
        one_directional: bool = False,
        largest: bool = True,
        plan: NoisyMaxPlan | None = None,
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            noisy_max.calibrate, candidates=candidates, horizon=horizon, sensitivity=sensitivity,
            noise=noise, one_directional=one_directional, largest=largest,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source)

    @staticmethod
    def _rename_fields(plan: NoisyMaxPlan) -> Fields:
        drawn = plan.mechanism
        # With one candidate there is no mechanism, and all arguments agree with the plan.
        if isinstance(drawn, Nothing):
            return {}
        assert isinstance(drawn.scores, PromisedScores)
        scores = {"sensitivity": drawn.scores.sensitivity, "one_directional": drawn.scores.one_way}
        return {**scores, "noise": drawn.law} if drawn.scale > 0.0 else scores

    def _build_engine(self, claim: _core.Claim) -> _core.NoisyMax:
        own = self.plan.tuning
        return _core.NoisyMax(self._mechanism, own.candidates, own.horizon, own.largest, claim)

    def select(self, scores: Any) -> int:
        """Return the index of a score that is close to the best.

        Parameters
        ----------
        scores : array_like of shape (candidates,)
            Scores; non-finite ones count as 0.

        Raises
        ------
        HorizonExceeded
            Past the horizon; nothing is drawn and nothing changes.
        ValueError, TypeError
            Wrong shape or dtype.
        """
        row = float_array("scores", scores, (self.plan.tuning.candidates,))
        self._check_active()
        return int(self._engine.select(row))


class AboveThreshold(Mechanism):
    """AboveThreshold: an alarm if a query exceeds its threshold; other answers cost nothing.

    Parameters
    ----------
    horizon : int or None
        Number of queries, at most 1e12; None: unknown. This and all following arguments are
        keyword-only.
    budget : Budget or None
        Guarantee of all answers together, pure (its delta is not needed). None adds no noise and
        gives no guarantee.
    sensitivity : float
        Required. Largest change of one query when one record is replaced, in either direction. The
        caller promises this and the next number.
    spread : float, optional
        Largest rise of one query plus largest fall of another that the same replacement can cause,
        from `sensitivity` to twice that (default). If a record moves all queries in the same
        direction, their spread equals their sensitivity.
    alarms : int, default 1
        Number of alarms, all on the same data; the noise grows with it. For disjoint parts of the
        data use one object per part: each has the whole budget, and together they cost no more than
        one.
    false_alarm : float, default 0.05
        Probability, over all queries together, of an alarm for a query below its threshold. To
        ensure it, a margin, `plan.tuning.margin`, is added to the thresholds.
    plan : Plan, optional
        Plan to use instead of calibration. They must agree with `budget` and with every other
        argument that you pass.
    source : Source, optional
        Source of randomness; None: the operating system.

    Notes
    -----
    Queries and thresholds may depend on all earlier answers. There is one noise variate per query
    and one for the threshold, which is never drawn again. This variant of the sparse vector
    technique has a proof (Lyu, Su and Li, 2017, algorithm 1); here the noises are one-sided. A
    query that exceeds its threshold and margin by ``above_threshold.detection_margin(plan, beta)``
    raises an alarm with probability at least 1 - beta. Proof: ``docs/privacy/shift_detector.md``.

    Examples
    --------
    >>> import dpoco
    >>> watch = dpoco.mechanisms.AboveThreshold(
    ...     horizon=1000, budget=dpoco.Budget(epsilon=1.0, delta=0.0), sensitivity=1.0)
    >>> watch.test(3.0, threshold=500.0), watch.test(900.0, threshold=500.0)
    (False, True)
    """

    plan: ThresholdPlan
    # `_noise` stays "hidden", because the noise of the threshold is drawn once for many queries.
    _accountant: ClassVar = above_threshold
    _tuning = ThresholdTuning
    _shown = ("horizon", "alarms", "sensitivity", "spread")

    def __init__(
        self,
        *,
        horizon: int | None,
        budget: Budget | None,
        sensitivity: float,
        spread: float | None = None,
        alarms: int = 1,
        false_alarm: float = 0.05,
        plan: ThresholdPlan | None = None,
        source: Source | None = None,
    ) -> None:
        horizon = whole_if_float(horizon)
        calibrate = partial(
            above_threshold.calibrate, horizon=horizon, sensitivity=sensitivity, spread=spread,
            alarms=alarms, false_alarm=false_alarm,
        )  # fmt: skip
        self._build(calibrate, budget, plan, source)

    def _build_engine(self, claim: _core.Claim) -> _core.AboveThreshold:
        return _core.AboveThreshold(self._mechanism, self.horizon, claim)

    @property
    def alarms_left(self) -> int:
        """Number of alarms left; without any, `test` raises `HorizonExceeded`."""
        return self.plan.mechanism.alarms - int(self._engine.alarms)

    def test(self, value: Any, threshold: float = 0.0) -> bool:
        """Return whether a query seems to exceed a threshold.

        Parameters
        ----------
        value : float
            The query's answer on the data; a non-finite one counts as 0.
        threshold : float, default 0.0
            Public threshold; it may differ from query to query.

        Raises
        ------
        HorizonExceeded
            After `horizon` queries or the last alarm; nothing is drawn and nothing changes.
        ValueError, TypeError
            For arguments that are not real numbers, or a threshold that is not finite.
        """
        # The answer is private, so any number is accepted; the threshold is public, so an error may
        # report it.
        answer = number("value", value)
        level = real_float("threshold", threshold)
        self._check_active()
        # An answer that is not finite counts as 0, since an error would reveal it.
        excess = (answer if math.isfinite(answer) else 0.0) - level - self.plan.tuning.margin
        return bool(self._engine.test(excess))
