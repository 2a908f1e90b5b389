"""The result of every loader, its public scaling, and simulated and bundled streams."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._clipping import Flags
from dpoco._validation import (
    Fields,
    FloatArray,
    choice,
    choose_name,
    exponent,
    float_array,
    positive_int,
    real_in,
    whole_number,
)
from dpoco.datasets._coding import Coding, Schema


@dataclass(frozen=True, eq=False)
class PublicScaling:
    """Map each column's declared range to [-1, 1], saturate, and append a constant column.

    The ranges must be public, such as the limits in a sensor's data sheet or in a form. A minimum
    or a mean of the records themselves is private, and would void every guarantee computed from
    them.

    Parameters
    ----------
    low, high : float or array_like of shape (d,)
        Declared range of the columns, ``low < high``. Values outside saturate at -1 or 1.
    intercept : bool, default True
        Append a column of ones.

    Raises
    ------
    ValueError, TypeError
        If a bound is not finite, or if the bounds cross.
    """

    low: ArrayLike = -1.0
    high: ArrayLike = 1.0
    intercept: bool = True

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            side = float_array(name, np.atleast_1d(getattr(self, name)), (None,))
            # Copied, because models use these ranges long after a caller's array may have changed.
            object.__setattr__(self, name, _frozen(side))
        low, high = self._bounds
        if low.shape != high.shape and 1 not in (low.size, high.size):
            raise ValueError(f"low and high differ in shape: {low.shape} and {high.shape}")
        if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
            raise ValueError("the declared range must be finite, with low < high")

    @property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """Low and high ends, each with shape (d,) or (1,)."""
        return np.asarray(self.low), np.asarray(self.high)

    def apply(self, features: ArrayLike) -> FloatArray:
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
        rows = self._rows(features)
        low, high = self._bounds
        # Divide before subtracting, so that ranges near the largest double do not overflow.
        half = high / 2.0 - low / 2.0
        scaled = np.clip(rows / half - (low / 2.0 + high / 2.0) / half, -1.0, 1.0)
        if self.intercept:
            scaled = np.column_stack([scaled, np.ones(rows.shape[0])])
        return np.ascontiguousarray(scaled)

    def _rows(self, features: ArrayLike) -> FloatArray:
        """Return records as doubles, shape (T, d); `ValueError` if d does not match the ranges."""
        rows = float_array("features", features, (None, None))
        width = max(bound.size for bound in self._bounds)
        # Otherwise NumPy would broadcast one column to d.
        if width not in (1, rows.shape[1]):
            raise ValueError(f"the declared range has {width} columns; got {rows.shape[1]}")
        return rows

    def outside(self, features: ArrayLike) -> NDArray[np.bool_]:
        """Return which entries saturate, in the shape of `apply`. **Not private**."""
        rows = self._rows(features)
        low, high = self._bounds
        outside = (rows < low) | (rows > high)
        if self.intercept:
            # The constant never saturates.
            outside = np.column_stack([outside, np.zeros(len(rows), dtype=bool)])
        return outside

    def ranges(self, names: Sequence[str]) -> dict[str, list[float]]:
        """Return the declared range of every column by name; `names` may end with the constant."""
        low, high = self._bounds
        own = list(names)[: len(names) - int(self.intercept)]
        sides = (np.broadcast_to(side, len(own)).tolist() for side in (low, high))
        return {name: [a, b] for name, a, b in zip(own, *sides, strict=True)}

    def describe(self) -> str:
        """Return a description in one line, for reports."""
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
        One record per round; a row with a non-finite entry is a missing record.
    labels : ndarray of float64, shape (T,), read-only
        One label per round; for classification, in [0, 1].
    feature_names : tuple of str
        Names of the d columns.
    task : {"classification", "regression"}
        Kind of the labels, which suggests the loss.
    description : str
        Description of the stream.
    source : str
        Its source, with a reference.
    licence : str
        Terms under which the records may be used; empty if unknown.
    scaling : str
        The public transformation of the features.
    transform, label_transform : PublicScaling, optional
        The transformations of raw features and of raw labels, if there was exactly one of each.
    target : ndarray of shape (d,), optional
        The true parameter, for simulated streams.
    coding : Coding
        How cells of a file became numbers.
    nonprivate_flags : mapping of str to ndarray of bool
        Effects of the scaling and the coding: ``out_of_range``, shape (T, d), and with shape (T,)
        ``label_out_of_range``, ``filled`` and ``unlisted_category``. They are as private as the
        records and are for reports of evaluations.

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
    transform: PublicScaling | None = None
    label_transform: PublicScaling | None = None
    target: FloatArray | None = None
    coding: Coding = field(default_factory=Coding)
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

    def drop(self, rounds: int) -> Stream:
        """Return the rounds after the first `rounds` >= 0; `ValueError` if none is left."""
        return self._part(slice(whole_number("rounds", rounds), None))

    def take(self, rounds: int) -> Stream:
        """Return the first `rounds` rounds, or the whole stream if it is shorter."""
        count = positive_int("rounds", rounds)
        return self if count >= len(self) else self._part(slice(count))

    def _part(self, rounds: slice) -> Stream:
        """Return a slice of the rounds, with their flags."""
        flags = {name: values[rounds] for name, values in self.nonprivate_flags.items()}
        return replace(
            self, features=self.features[rounds], labels=self.labels[rounds], nonprivate_flags=flags
        )

    def scaled(self, scaling: PublicScaling) -> Stream:
        """Return the stream with publicly scaled features."""
        outside = scaling.outside(self.features)
        return replace(
            self,
            features=scaling.apply(self.features),
            feature_names=self.feature_names + (("constant",) if scaling.intercept else ()),
            scaling=scaling.describe(),
            # Two scalings in sequence are not a declared range of raw columns.
            transform=scaling if self.scaling == "none" else None,
            nonprivate_flags={**self.nonprivate_flags, "out_of_range": outside},
        )

    def schema(self, label: str) -> Schema:
        """Return the declaration of a row of the stream, with its public scaling.

        Raises
        ------
        ValueError
            If the features were scaled in a way that cannot be applied to new records.
        """
        if self.transform is None:
            raise ValueError("a model needs the declared ranges of its columns: stream.scaled(...)")
        ranges = self.transform.ranges(self.feature_names)
        label_range = None
        if self.label_transform is not None:
            low, high = self.label_transform._bounds
            label_range = float(low[0]), float(high[0])
        return Schema(
            tuple(ranges), tuple((low, high) for low, high in ranges.values()),
            bool(self.transform.intercept), self.task, label, label_range, self.coding,
        )  # fmt: skip

    def summary(self) -> Fields:
        """Public facts about the stream, JSON-able, without records or labels."""
        public = ("name", "rounds", "dimension", "feature_names", "task", "description", "source",
                  "licence", "scaling")  # fmt: skip
        facts = {name: getattr(self, name) for name in public}
        if self.transform is not None:
            facts["ranges"] = self.transform.ranges(self.feature_names)
        return {**facts, "feature_names": list(self.feature_names)}

    def __repr__(self) -> str:
        return (
            f"<dpoco Stream {self.name!r}: {self.rounds} rounds x {self.dimension} features, "
            f"{self.task}>"
        )


def _frozen(array: FloatArray) -> FloatArray:
    """Return a read-only array, because reports and learners read it more than once."""
    if array.flags.writeable:  # the caller's array remains unchanged
        array = array.copy()
        array.flags.writeable = False
    return array


TARGETS = ("dense", "sparse5", "gaussian")


def linear_regression_stream(
    rounds: int,
    dimension: int,
    p: float = 2.0,
    seed: int | np.random.SeedSequence | None = None,
    *,
    noise: float = 0.05,
    target: str | ArrayLike = "dense",
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
    seed : int or SeedSequence, optional
        Seed of NumPy's generator; None uses fresh entropy. The data are simulated, so this
        generator does not affect privacy.
    noise : float, default 0.05
        Standard deviation of the label noise, at least 0.
    target : {"dense", "sparse5", "gaussian"} or array_like of shape (d,)
        The true parameter: all ones, five ones followed by zeros, or standard normal, each divided
        by its l_p norm. You may also pass the parameter itself, for example to draw test data for
        another stream.

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
    # By Hoelder's inequality, margins of such records are at most 1.
    dual = np.inf if power == 1.0 else 1.0 if np.isinf(power) else power / (power - 1.0)
    generator = np.random.default_rng(seed)
    theta = _target(target, d, power, generator)
    features = generator.standard_normal((count, d))
    features /= _norms(features, dual)
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


def _target(
    target: str | ArrayLike, d: int, p: float, generator: np.random.Generator
) -> FloatArray:
    """Return the true parameter, shape (d,); its l_p norm is 1 unless the parameter is given."""
    if not isinstance(target, str):
        return float_array("target", target, (d,))
    choice("target", target, TARGETS)
    theta: FloatArray = np.where(np.arange(d) < (5 if target == "sparse5" else d), 1.0, 0.0)
    if target == "gaussian":
        theta = generator.standard_normal(d)
    theta /= _norms(theta[None], p)[0]
    return theta


_LARGEST_POWER = 64.0  # of a standard normal variate, without over- or underflow


def _norms(rows: FloatArray, order: float) -> FloatArray:
    """Return the l_order norms of rows, shape (n, 1)."""
    if order <= _LARGEST_POWER:
        return np.asarray(np.linalg.norm(rows, ord=order, axis=1, keepdims=True))
    # Divide by the largest entry; otherwise powers might over- or underflow, and records become 0.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    return np.asarray(largest * np.linalg.norm(rows / largest, ord=order, axis=1, keepdims=True))


_NEW_RIVER = "river 0.26 or later (Python 3.11 or later)"


def river_dataset(dataset: str, stream: str, needs: str) -> Any:
    """Return a data set of river by its class name; `ImportError` without it."""
    try:
        from river import datasets
    except ImportError:
        text = f'the {stream} stream needs river: pip install "dpoco[data]"'
        raise ImportError(text, name="river") from None
    # Older versions of river lack some data sets.
    if not hasattr(datasets, dataset):
        text = f'the {stream} stream needs {needs}: pip install -U "dpoco[data]"'
        raise ImportError(text, name="river")
    return getattr(datasets, dataset)()


@dataclass(frozen=True)
class Bundled:
    """A stream that needs no download, with public facts that are known before loading it.

    Attributes
    ----------
    name : str
        Name.
    kind : {"records", "experts"}
        Kind of stream.
    rounds, columns : int
        Shape of the loader's result.
    about : str
        Description of the data.
    dataset, needs : str
        Class in ``river.datasets``, and the package to install.
    cite, licence : str
        Source and terms; an empty licence means unknown.
    """

    name: str
    kind: str
    rounds: int
    columns: int
    about: str
    dataset: str
    needs: str
    cite: str
    licence: str

    @property
    def file(self) -> Path:
        """Path of river's compressed CSV file.

        Raises
        ------
        ImportError
            Without river, or with one that does not have the data set.
        """
        return Path(river_dataset(self.dataset, self.name, self.needs).path)

    def table(self, wanted: Sequence[str]) -> FloatArray:
        """Return columns of the file, shape (T, len(wanted)); `ImportError` as for `file`."""
        with gzip.open(self.file, "rt", encoding="utf-8") as file:
            # River's files contain plain numbers without quotes.
            names = file.readline().strip().split(",")
            return np.loadtxt(file, delimiter=",", usecols=[names.index(name) for name in wanted])

    def stream(self, wanted: Sequence[str], label: str) -> Stream:
        """Return the records unscaled; `ImportError` as for `file`."""
        table = self.table([*wanted, label])
        return Stream(
            name=self.name,
            features=table[:, :-1],
            labels=table[:, -1],
            feature_names=tuple(wanted),
            task="classification",
            description=self.about,
            source=f"{self.cite}, as bundled with river",
            licence=f"{self.licence} (UCI Machine Learning Repository)",
        )


BUNDLED = {
    each.name: each
    for each in (
        Bundled(
            "shuttle", "records", 49_097, 10,
            "Space shuttle sensor readings; label 1 marks an anomaly (7 %)",
            "Shuttle", _NEW_RIVER,
            "UCI Machine Learning Repository, Statlog (Shuttle), "
            "https://archive.ics.uci.edu/dataset/148/statlog+shuttle",
            "CC BY 4.0",
        ),
        Bundled(
            "phishing", "records", 1250, 10,
            "Checks of web pages; label 1 marks a fraudulent page",
            "Phishing", "river",
            "UCI Machine Learning Repository, Website Phishing, "
            "https://archive.ics.uci.edu/dataset/379/website+phishing",
            "CC BY 4.0",
        ),
        Bundled(
            "pollsters", "experts", 1001, 5,
            "Daily errors of five pollsters, in ten percentage points",
            "TrumpApproval", "river", "FiveThirtyEight, approval averages", "CC BY 4.0",
        ),
        Bundled(
            "stocks", "experts", 1257, 10,
            "Daily losses of holding one of ten large stocks",
            "SP500Stocks", _NEW_RIVER,
            "Kaggle, S&P 500 stock data, February 2013 to February 2018", "",
        ),
    )
}  # fmt: skip
_CHECKS = (
    "empty_server_form_handler", "popup_window", "https", "request_from_other_domain",
    "anchor_from_other_domain", "is_popular", "long_url", "age_of_domain", "ip_in_url",
)  # fmt: skip


def load_phishing() -> Stream:
    """Web pages described by nine graded checks; the label marks the fraudulent ones.

    1 250 rounds, too few for much accuracy under a small epsilon. Each check has one of the grades
    0, 1/2 and 1, so the declared range [0, 1] is exact; it is mapped to [-1, 1] and a constant
    column is appended (d = 10).

    Returns
    -------
    Stream
        Features in [-1, 1]; labels 0 or 1 (fraudulent).

    Raises
    ------
    ImportError
        Without river: ``pip install "dpoco[data]"``.
    """
    return BUNDLED["phishing"].stream(_CHECKS, "is_phishing").scaled(PublicScaling(0.0, 1.0))


# Nominal ranges of integer counts: 7 bits, unsigned for level channels, signed for the others.
_LEVEL, _SIGNED = (0.0, 128.0), (-64.0, 64.0)
_RANGES = {f"f{i}": _LEVEL if i in (1, 3, 7, 8, 9) else _SIGNED for i in range(1, 10)}


def load_shuttle(*, scaled: bool = True) -> Stream:
    """Sensor readings of a space shuttle; the label marks the anomalous ones.

    49 097 rounds in the order of the archive, nine integer sensor channels, about 7 % anomalies:
    the UCI Statlog (Shuttle) data, with class 1 as normal, class 4 left out and all other classes
    as anomalies (the ODDS benchmark). Bundled with river, so nothing is downloaded.

    Parameters
    ----------
    scaled : bool, default True
        Apply the public scaling below and append a constant column (d = 10); otherwise the raw
        counts (d = 9).

    Returns
    -------
    Stream
        Features in [-1, 1] when scaled; labels 0 (normal) or 1 (anomaly).

    Raises
    ------
    ImportError
        Without river 0.26 or later: ``pip install "dpoco[data]"``.

    Notes
    -----
    The scaling is one rule for all channels: a nominal seven-bit range, [0, 128] for level channels
    and [-64, 64] for signed ones, is mapped to [-1, 1] and saturates there. No mean, quantile or
    extreme of the records is used. Two choices do come from the published archive. It shows which
    channels are signed (an operator has this from the sensors' data sheet). And this scaling was
    preferred to the cruder rule "divide every channel by 128", with which learners on this stream
    do less well. The defaults of ``dpoco run`` were also checked on this stream. Results on it
    therefore demonstrate the method; for private records, decide all of this before they arrive.
    """
    stream = BUNDLED["shuttle"].stream(list(_RANGES), "anomaly")
    low, high = np.array(list(_RANGES.values())).T
    return stream.scaled(PublicScaling(low, high)) if scaled else stream


POLLSTERS = ("gallup", "ipsos", "morning_consult", "rasmussen", "you_gov")

# Public: an error of at least ten percentage points has the largest loss.
_WORST_ERROR = 10.0


def pollster_losses() -> FloatArray:
    """Daily errors of five pollsters, as losses of mixtures of the pollsters.

    On each of 1 001 days, pollster i's loss is its distance from the day's consensus approval
    rating of a president, in units of ten percentage points, at most 1. A decision in the simplex
    puts weights on the pollsters; its loss ``<losses[t], x>`` is linear.

    Returns
    -------
    ndarray of float64, shape (1001, 5)
        In [0, 1]; columns as in ``POLLSTERS``.

    Raises
    ------
    ImportError
        Without river: ``pip install "dpoco[data]"``.

    Notes
    -----
    Data: FiveThirtyEight's approval averages (CC BY 4.0), as bundled with river.
    """
    table = BUNDLED["pollsters"].table([*POLLSTERS, "five_thirty_eight"])
    errors = np.abs(table[:, :-1] - table[:, -1:])
    return np.minimum(errors / _WORST_ERROR, 1.0)


STOCKS = ("AAPL", "AMZN", "IBM", "INTC", "JNJ", "JPM", "KO", "MSFT", "WMT", "XOM")

# Public: a daily return of ten percent or more, in either direction, has the extreme loss.
_LARGEST_RETURN = 10.0


def stock_losses() -> FloatArray:
    """Daily losses of holding one of ten large stocks of the S&P 500.

    On each of 1 257 trading days from February 2013 to February 2018, a stock that returns r
    percent loses ``(10 - r) / 20``, clipped to [0, 1]: 0.5 is a day without change. An expert is a
    stock to hold for the day; a decision in the simplex would be a portfolio.

    Returns
    -------
    ndarray of float64, shape (1257, 10)
        In [0, 1]; columns as in ``STOCKS``.

    Raises
    ------
    ImportError
        Without river 0.26 or later: ``pip install "dpoco[data]"``.

    Notes
    -----
    Differences between stocks are a few thousandths of the range per day, and a day is mostly
    noise. On so few days there is next to nothing to learn, with or without privacy. The data are a
    stress test for trackers and not typical.

    Data: "S&P 500 stock data" of Kaggle, as bundled with river.
    """
    returns = BUNDLED["stocks"].table(STOCKS)
    return np.clip((_LARGEST_RETURN - returns) / (2.0 * _LARGEST_RETURN), 0.0, 1.0)


_STREAMS: dict[str, Callable[[], Stream]] = {"phishing": load_phishing, "shuttle": load_shuttle}
_LOSSES = {"pollsters": (pollster_losses, POLLSTERS), "stocks": (stock_losses, STOCKS)}


def available() -> tuple[str, ...]:
    """Names of the real streams that `load` knows; none needs a download."""
    return tuple(sorted(_STREAMS))


def load(name: str) -> Stream:
    """Load a stream by name.

    Parameters
    ----------
    name : str
        One of `available()`.

    Returns
    -------
    Stream
        Scaled with the public constants in its description.

    Raises
    ------
    ValueError
        For an unknown name.
    ImportError
        If the package that bundles the stream is missing.
    """
    return _STREAMS[choose_name("stream", name, available())]()


def load_losses(name: str) -> tuple[FloatArray, Fields]:
    """Load a table of experts' losses by name.

    Parameters
    ----------
    name : {"pollsters", "stocks"}
        As in `BUNDLED`.

    Returns
    -------
    ndarray of float64, shape (T, N), and dict
        Losses in [0, 1], and public facts: name, description, scaling, names of the experts.

    Raises
    ------
    ValueError
        For an unknown name.
    ImportError
        If the package that bundles them is missing.
    """
    read, experts = _LOSSES[choose_name("stream of experts", name, tuple(_LOSSES))]
    return read(), {
        "name": name,
        "description": BUNDLED[name].about,
        "scaling": "public constants, to [0, 1]",
        "feature_names": list(experts),
    }
