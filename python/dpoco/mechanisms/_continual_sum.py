"""Running sums of a stream of vectors, released continually."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._participation import Participation
from dpoco._validation import (
    float_array,
    positive_int,
)
from dpoco.accounting import Budget
from dpoco.accounting import sum_release as accountant
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.sum_release import ContinualSumParameters
from dpoco.errors import HorizonExceeded
from dpoco.mechanisms._mechanism import Mechanism
from dpoco.privacy.mechanisms.bounds import ClippedVector, FeatureSummand, Summand
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised, SquareRoot, Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.random import Source

__all__ = [
    "ContinualSum",
    "clipper_of",
    "continual_sum_settings",
    "sum_entries",
]

FloatArray = NDArray[np.float64]

# Rounds per compiled call of `run`, so that Ctrl-C is answered between them.
_CHUNK_ENTRIES = 2**20


def continual_sum_settings(total: GaussianSum, claim: dict[str, Any]) -> dict[str, Any]:
    """Return what the compiled continual sum is built from (for mechanisms and learners)."""
    settings: dict[str, Any] = {
        "dimension": max(total.summand.size, 1),
        "horizon": max(total.pushes, 1),
        "order": total.order,
        "scale": total.scale,
        "grid": total.grid,
        "limit": float(total.limit),
        **claim,
    }
    factor = total.factorisation
    if isinstance(factor, Buffered):
        own = {"omega": list(factor.weights), "decay": list(factor.decay)}
        if isinstance(factor, Normalised):
            blocks = {"ends": list(factor.ends), "levels": list(factor.levels)}
            return {**settings, "method": "blt_normalised", **own, **blocks}
        return {**settings, "method": "blt", **own}
    tree = "honaker" if isinstance(factor, Tree) and factor.combined else "tree"
    return {**settings, "method": "toeplitz" if isinstance(factor, SquareRoot) else tree}


def sum_entries(total: GaussianSum) -> dict[str, float]:
    """Return how many doubles a compiled continual sum has, at least, for `require_memory`."""
    pushes = max(total.pushes, 1)
    past = 1.0 + math.log2(pushes)
    if isinstance(total.factorisation, Buffered):
        past = 8.0
    elif isinstance(total.factorisation, SquareRoot):
        past = float(pushes)
    return {"the running sum": (2.0 + past) * max(total.summand.size, 1)}


def clipper_of(summand: Summand) -> _core.RecordClipper:
    """Return what enforces the bounds on a round's vector, or on the features it is made of."""
    if isinstance(summand, ClippedVector):
        return _core.RecordClipper(summand.dimension, summand.bound, summand.norm, summand.bound_l2)
    if isinstance(summand, FeatureSummand):
        return _core.RecordClipper(
            summand.dimension, summand.features, summand.norm, summand.features_l2
        )
    raise TypeError(f"a {summand.kind} is not enforced by clipping vectors")


class ContinualSum(Mechanism):
    """Running sums of a stream of vectors, all released under one guarantee.

    Parameters
    ----------
    dimension : int
        Length d of the vectors.
    horizon : int or None
        Largest number of vectors, up to 1e12; None: unknown, up to 1e9. Keyword-only, as all below.
    budget : Budget or None
        Guarantee of all sums together; None adds no noise and promises nothing.
    bound : float, default 1.0
        Vectors are clipped to ``||g||_norm <= bound``; non-finite ones count as zero.
    norm : float, default 2.0
        Exponent of that norm, in [1, inf].
    method : {"auto", "blt", "blt_normalised", "tree", "honaker", "toeplitz"}
        "tree": binary tree. "honaker": binary tree with variance-weighted nodes. "toeplitz":
        square-root factorisation, horizon up to 4096, O(T d) memory. "blt": its streaming
        approximation with five buffers. "blt_normalised": the same with smaller draws later on, as
        fewer sums are left: 3 to 6 % less noise at the noisiest round of a known horizon. "auto"
        (default) takes the smallest worst-case error at equal privacy: this one, or "blt" for an
        unknown horizon; see `parameters`.
    noise : {"gaussian", "generalized_gaussian"}
        Law of the draws.
    norm_order : float, optional
        Order of the generalized Gaussian, in [2, max(2, norm)].
    relation : {"replace", "zero_out"}
        Neighbouring streams differ in one vector, replaced or emptied.
    participation : Participation, optional
        How often one person may come: the budget is then for all her vectors, and parameters of
        "blt" and "blt_normalised" are searched for. ``enforced=False`` only: a sum knows no people,
        and whoever pushes keeps them to it.
    numerics : {"auto", "float", "lattice"}
        Arithmetic. "lattice": exact integers and exactly rounded noise, whose proof covers the
        program itself; Gaussian noise only. "float": doubles, whose rounding the proof leaves out.
        "auto" (default): "lattice" where there is one that makes the noise at most 1 % larger.
    parameters : ContinualSumParameters, optional
        Overrides calibration; must keep to `budget`, if given, and to every other argument that is.
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Notes
    -----
    The stream may be adaptive: a vector may depend on all earlier sums. The error at round t has
    standard deviation ``standard_deviation(t)`` in each coordinate, exactly.
    Memory: 6 d numbers with "blt", d log2 T with "tree", twice that with "honaker".
    Time per round: one noise vector and O(d).
    Proof: ``docs/privacy/continual_sum.md``.

    Examples
    --------
    >>> import dpoco
    >>> total = dpoco.mechanisms.ContinualSum(
    ...     2, horizon=1000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> total.push([0.6, -0.8]).shape
    (2,)
    >>> round(total.standard_deviation(1000), 1)
    27.6
    """

    _parameters: ContinualSumParameters
    _mechanism: GaussianSum
    _accountant: ClassVar[ModuleType] = accountant
    _noise: ClassVar[str] = "fresh"
    _parameters_class = ContinualSumParameters
    _shown = ("dimension", "horizon", "method", "bound", "norm")

    def __init__(
        self,
        dimension: int,
        *,
        horizon: int | None,
        budget: Budget | None,
        bound: float = 1.0,
        norm: float = 2.0,
        method: str = "auto",
        noise: str = "gaussian",
        norm_order: float | None = None,
        relation: str = "replace",
        participation: Participation | None = None,
        numerics: str = DEFAULT_NUMERICS,
        parameters: ContinualSumParameters | None = None,
        source: Source | None = None,
    ) -> None:
        self._begin(
            ContinualSum,
            dimension=dimension,
            horizon=horizon,
            budget=budget,
            bound=bound,
            norm=norm,
            method=method,
            noise=noise,
            norm_order=norm_order,
            relation=relation,
            participation=participation,
            numerics=numerics,
            parameters=parameters,
            source=source,
        )

    def _declare(self, claim: dict[str, Any]) -> None:
        people: Participation | None = self._arguments.get("participation")
        if people is not None and people.enforced:
            raise ValueError("a sum knows no people: participation must have enforced=False")
        self._direct = int(type(self).__module__.startswith("dpoco."))

    def _saved_arguments(self) -> dict[str, Any]:
        saved = super()._saved_arguments()
        if saved["participation"] is None:  # as states were written before there was any
            del saved["participation"]
        return saved

    def _entries(self) -> dict[str, float]:
        return sum_entries(self._mechanism)

    def _build_engine(self, claim: dict[str, Any]) -> _core.ContinualSum:
        total = self._mechanism
        return _core.ContinualSum(continual_sum_settings(total, claim), clipper_of(total.summand))

    @classmethod
    def _header_dimension(cls, header: dict[str, Any]) -> int:
        return int(header["parameters"]["dimension"])

    @property
    def parameters(self) -> ContinualSumParameters:
        """Method taken, noise scale, sensitivity: everything calibration fixed."""
        return self._parameters

    @_core.direct
    def push(self, value: Any) -> FloatArray:
        """Add a vector and release the running sum.

        Parameters
        ----------
        value : array_like of shape (d,)
            Clipped to the bound, or zero if not finite: silently, for both depend on the data.

        Returns
        -------
        ndarray of float64, shape (d,)
            Sum of all vectors so far plus noise.

        Raises
        ------
        HorizonExceeded
            Past the horizon: nothing drawn, nothing changed.
        ValueError, TypeError
            Wrong shape or dtype.
        """
        vector = float_array("value", value, (self._parameters.dimension,))
        self._check_active()
        self._check_alone()
        released: FloatArray = self._engine.push(vector)
        return released

    def run(self, values: Any) -> FloatArray:
        """Push the rows of a (T, d) array; return the T released sums, shape (T, d).

        The same numbers, bit for bit, as T calls of `push`; the interpreter lock is released.

        Raises
        ------
        HorizonExceeded
            If fewer than T rounds are left: nothing is pushed.
        """
        d = self._parameters.dimension
        rows = float_array("values", values, (None, d))
        self._check_active()
        out = np.empty_like(rows)
        step = max(1, _CHUNK_ENTRIES // d)
        with self._alone():
            left = self.horizon - self.round
            if rows.shape[0] > left:
                raise HorizonExceeded(f"{rows.shape[0]} rounds asked for, {left} left")
            for start in range(0, rows.shape[0], step):
                part = slice(start, start + step)
                self._engine.run(rows[part], out[part])
        return out

    def standard_deviation(self, t: int) -> float:
        """Return the exact standard deviation of each coordinate of the noise at round t >= 1."""
        return float(np.sqrt(self.variance(t)))

    def variance(self, t: int) -> float:
        """Return the exact variance of each coordinate of the noise in the sum of round t >= 1."""
        return self._parameters.variance(positive_int("t", t, maximum=self.horizon))
