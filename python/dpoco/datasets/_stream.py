"""The value every loader returns, its public scaling, and simulated streams."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray, choice, exponent, float_array, positive_int, real_in
from dpoco.trace import Flags


@dataclass(frozen=True, eq=False)
class PublicScaling:
    """Map each column's declared range to [-1, 1], saturate, and append a constant.

    The ranges are public: a sensor's data sheet, a form's limits. A minimum or a mean of the
    records themselves is private and would void every guarantee computed downstream.

    Parameters
    ----------
    low, high : float or array_like of shape (d,)
        Declared range of the columns, ``low < high``. Values outside saturate at -1 or 1.
    intercept : bool, default True
        Append a column of ones.

    Raises
    ------
    ValueError, TypeError
        If a bound is not finite or the bounds cross.
    """

    low: Any = -1.0
    high: Any = 1.0
    intercept: bool = True

    def __post_init__(self) -> None:
        low, high = self._bounds
        if low.shape != high.shape and 1 not in (low.size, high.size):
            raise ValueError(f"low and high differ in shape: {low.shape} and {high.shape}")
        if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
            raise ValueError("the declared range must be finite, with low < high")

    @property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        return float_array("low", low, (None,)), float_array("high", high, (None,))

    def apply(self, features: Any) -> FloatArray:
        """Return the scaled records.

        Parameters
        ----------
        features : array_like of shape (T, d)
            Raw records; NaN entries stay NaN (a missing record is a zero record).

        Returns
        -------
        ndarray
            Shape (T, d), or (T, d + 1) with the intercept; entries in [-1, 1].
        """
        rows = float_array("features", features, (None, None))
        low, high = self._bounds
        width = max(low.size, high.size)
        if width not in (1, rows.shape[1]):
            raise ValueError(f"the declared range has {width} columns; got {rows.shape[1]}")
        # Divided before it is subtracted: a range near the largest double must not overflow.
        half = high / 2.0 - low / 2.0
        scaled = np.clip(rows / half - (low / 2.0 + high / 2.0) / half, -1.0, 1.0)
        if self.intercept:
            scaled = np.column_stack([scaled, np.ones(rows.shape[0])])
        return np.ascontiguousarray(scaled)

    def outside(self, features: Any) -> NDArray[np.bool_]:
        """Return which entries saturate, in the shape of `apply`. **Not private**."""
        rows = float_array("features", features, (None, None))
        low, high = self._bounds
        outside = (rows < low) | (rows > high)
        if self.intercept:
            outside = np.column_stack([outside, np.zeros(len(rows), dtype=bool)])
        return outside

    def describe(self) -> str:
        """One line for reports."""
        low, high = self._bounds
        ranges = sorted({(float(a), float(b)) for a, b in np.broadcast(low, high)})
        text = ", ".join(f"[{a:g}, {b:g}]" for a, b in ranges)
        tail = ", plus a constant column" if self.intercept else ""
        return f"declared range {text} mapped to [-1, 1], saturating{tail}"


TASKS = ("classification", "regression")


@dataclass(frozen=True, eq=False)
class Stream:
    """Records in order of arrival, with one label each.

    Attributes
    ----------
    name : str
        Short name, for reports.
    features : ndarray of float64, shape (T, d), read-only
        One record a round; a row with a non-finite entry is a missing record.
    labels : ndarray of float64, shape (T,), read-only
        One label a round; for classification, in [0, 1].
    feature_names : tuple of str
        Names of the d columns.
    task : {"classification", "regression"}
        What the labels are, which suggests the loss.
    description : str
        What the stream is.
    source : str
        Where it comes from, with a reference.
    licence : str
        Terms under which the records may be used; empty if unknown.
    scaling : str
        The public transformation the features went through.
    target : ndarray of shape (d,), optional
        The true parameter, for simulated streams.
    nonprivate_flags : mapping of str to ndarray of bool
        What scaling did: ``out_of_range``, shape (T, d), and ``label_out_of_range``, shape (T,).
        As raw as the records: for reports of evaluations.

    Raises
    ------
    ValueError, TypeError
        If shapes disagree, or there are no rounds or no columns.
    """

    name: str
    features: FloatArray
    labels: FloatArray
    feature_names: tuple[str, ...]
    task: str
    description: str = ""
    source: str = ""
    licence: str = ""
    scaling: str = "none"
    target: FloatArray | None = None
    nonprivate_flags: Flags = field(default_factory=dict)

    def __post_init__(self) -> None:
        features = _frozen(float_array("features", self.features, (None, None)))
        rounds, dimension = features.shape
        if rounds == 0 or dimension == 0:
            raise ValueError(f"a stream needs rounds and columns; got shape {features.shape}")
        labels = _frozen(float_array("labels", self.labels, (rounds,)))
        names = tuple(str(name) for name in self.feature_names)
        if len(names) != dimension:
            raise ValueError(f"feature_names must have {dimension} entries; got {len(names)}")
        choice("task", self.task, TASKS)
        target = self.target
        if target is not None:
            target = _frozen(float_array("target", target, (dimension,)))
        fields = {"features": features, "labels": labels, "feature_names": names, "target": target}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @property
    def rounds(self) -> int:
        """Number of rounds T."""
        return len(self)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return int(self.features.shape[1])

    def take(self, rounds: int) -> Stream:
        """Return the first `rounds` rounds, or the whole stream if it is shorter."""
        count = positive_int("rounds", rounds)
        if count >= len(self):
            return self
        return replace(
            self,
            features=self.features[:count],
            labels=self.labels[:count],
            nonprivate_flags={k: flags[:count] for k, flags in self.nonprivate_flags.items()},
        )

    def scaled(self, scaling: PublicScaling) -> Stream:
        """Return the stream with features that went through a public scaling."""
        outside = scaling.outside(self.features)
        return replace(
            self,
            features=scaling.apply(self.features),
            feature_names=self.feature_names + (("constant",) if scaling.intercept else ()),
            scaling=scaling.describe(),
            nonprivate_flags={**self.nonprivate_flags, "out_of_range": outside},
        )

    def summary(self) -> dict[str, Any]:
        """Public facts about the stream, JSON-able: no record, no label."""
        public = ("name", "rounds", "dimension", "feature_names", "task", "description", "source",
                  "licence", "scaling")  # fmt: skip
        facts = {name: getattr(self, name) for name in public}
        return {**facts, "feature_names": list(self.feature_names)}

    def __repr__(self) -> str:
        return (
            f"<dpoco Stream {self.name!r}: {self.rounds} rounds x {self.dimension} features, "
            f"{self.task}>"
        )


def _frozen(array: FloatArray) -> FloatArray:
    if array.flags.writeable:  # the caller's own array stays as it is
        array = array.copy()
        array.flags.writeable = False
    return array


TARGETS = ("dense", "sparse5", "gaussian")


def linear_regression_stream(
    rounds: int,
    dimension: int,
    p: float = 2.0,
    seed: int | None = None,
    *,
    noise: float = 0.05,
    target: Any = "dense",
) -> Stream:
    """Linear regression in l_p geometry, as in the experiments of Han et al., section 5.

    ``x = z / ||z||_q`` with z standard normal and q dual to p; ``y = <x, theta> + noise * N(0, 1)``
    with ``||theta||_p = 1``.

    Parameters
    ----------
    rounds, dimension : int
        T and d, at least 1.
    p : float, default 2
        Exponent in [1, inf] of the decision set's geometry.
    seed : int, optional
        Seed of NumPy's generator; None is fresh entropy. The data are simulated, so this
        generator has nothing to do with privacy.
    noise : float, default 0.05
        Standard deviation of the label noise, at least 0.
    target : {"dense", "sparse5", "gaussian"} or array_like of shape (d,)
        The true parameter: all ones, five ones followed by zeros, or standard normal, each
        divided by its l_p norm; or given as it is, for example to draw test data of another
        stream.

    Returns
    -------
    Stream
        With `target` set.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    count = positive_int("rounds", rounds, maximum=10**9)
    d = positive_int("dimension", dimension, maximum=10**9)
    power = exponent("p", p)
    spread = real_in("noise", noise, "[0, inf)")
    dual = np.inf if power == 1.0 else 1.0 if np.isinf(power) else power / (power - 1.0)
    generator = np.random.default_rng(seed)
    theta = _target(target, d, power, generator)
    features = generator.standard_normal((count, d))
    features /= np.linalg.norm(features, ord=dual, axis=1, keepdims=True)
    labels = features @ theta + spread * generator.standard_normal(count)
    kind = target if isinstance(target, str) else "given"
    return Stream(
        name="linear_regression",
        features=features,
        labels=labels,
        feature_names=tuple(f"x{j + 1}" for j in range(d)),
        task="regression",
        description=f"Simulated linear regression, p = {power:g}, {kind} parameter",
        source="simulated; Han et al., On Private Online Convex Optimization, section 5",
        licence="none needed",
        scaling=f"unit vectors in l_{dual:g}",
        target=theta,
    )


def _target(target: Any, d: int, p: float, generator: np.random.Generator) -> FloatArray:
    if not isinstance(target, str):
        return float_array("target", target, (d,))
    choice("target", target, TARGETS)
    theta: FloatArray = np.where(np.arange(d) < (5 if target == "sparse5" else d), 1.0, 0.0)
    if target == "gaussian":
        theta = generator.standard_normal(d)
    theta /= np.linalg.norm(theta, ord=p)
    return theta
