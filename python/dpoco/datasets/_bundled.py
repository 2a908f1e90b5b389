"""Real data that other packages bundle: nothing is downloaded."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpoco._validation import FloatArray, named
from dpoco.datasets._stream import PublicScaling, Stream

_NEW_RIVER = "river 0.26 or later (Python 3.11 or later)"


@dataclass(frozen=True)
class Bundled:
    """A stream that comes without a download: what is public of it, known without loading it.

    Attributes
    ----------
    name : str
        Name.
    kind : {"records", "experts"}
        What it is for.
    rounds, columns : int
        Shape of what the loader returns.
    about : str
        What it is.
    dataset, needs : str
        Class in ``river.datasets``, and what must be installed.
    cite, licence : str
        Source and terms; an empty licence is not known.
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
        try:
            from river import datasets
        except ImportError:
            raise ImportError(
                f'the {self.name} stream needs river: pip install "dpoco[data]"', name="river"
            ) from None
        if not hasattr(datasets, self.dataset):
            raise ImportError(
                f'the {self.name} stream needs {self.needs}: pip install -U "dpoco[data]"',
                name="river",
            )
        return Path(getattr(datasets, self.dataset)().path)

    def table(self, wanted: Sequence[str]) -> FloatArray:
        """Return columns of the file, shape (T, len(wanted)); `ImportError` as for `file`."""
        with gzip.open(self.file, "rt", encoding="utf-8") as file:
            names = file.readline().strip().split(",")
            return np.loadtxt(file, delimiter=",", usecols=[names.index(name) for name in wanted])

    def stream(self, wanted: Sequence[str], label: str) -> Stream:
        """Return the records as they are; `ImportError` as for `file`."""
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


# Nominal ranges in integer counts: 7 bits, unsigned for level channels, signed for the others.
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
    The scaling is one rule for all channels: a nominal seven-bit range, [0, 128] for level
    channels and [-64, 64] for signed ones, is mapped to [-1, 1] and saturates there. No mean,
    quantile or extreme of the records enters. What it does owe to the published archive: which
    channels are signed was read there (an operator has it from the sensors' data sheet), and it
    was preferred to the cruder rule "divide every channel by 128", with which learners on this
    stream do less well. The defaults of ``dpoco run`` were looked at on this stream too. So results
    on it demonstrate the method; for private records all of this is decided before they arrive.
    """
    stream = BUNDLED["shuttle"].stream(list(_RANGES), "anomaly")
    low, high = np.array(list(_RANGES.values())).T
    return stream.scaled(PublicScaling(low, high)) if scaled else stream


POLLSTERS = ("gallup", "ipsos", "morning_consult", "rasmussen", "you_gov")

# Public: an error of ten percentage points or more is a total loss.
_WORST_ERROR = 10.0


def pollster_losses() -> FloatArray:
    """Daily errors of five pollsters, as losses of the mixtures one may put on them.

    Each of 1 001 days, pollster i's loss is its distance from the day's consensus approval rating
    of a president, in units of ten percentage points, at most 1. A decision in the simplex puts
    weights on the pollsters; its loss ``<losses[t], x>`` is linear.

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

# Public: a day's return of ten percent or more, up or down, is as good or bad as it gets.
_LARGEST_RETURN = 10.0


def stock_losses() -> FloatArray:
    """Daily losses of holding one of ten large stocks of the S&P 500.

    On each of 1 257 trading days from February 2013 to February 2018, a stock that returns r
    percent loses ``(10 - r) / 20``, clipped to [0, 1]: 0.5 is a day without change. An expert is
    a stock to hold for the day; a decision in the simplex would be a portfolio.

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
    noise: on so few days there is next to nothing to learn, with or without privacy. It is a
    stress case for trackers, not a promise.

    Data: "S&P 500 stock data" of Kaggle, as bundled with river.
    """
    returns = BUNDLED["stocks"].table(STOCKS)
    return np.clip((_LARGEST_RETURN - returns) / (2.0 * _LARGEST_RETURN), 0.0, 1.0)


_STREAMS: dict[str, Callable[[], Stream]] = {"phishing": load_phishing, "shuttle": load_shuttle}
_LOSSES = {"pollsters": (pollster_losses, POLLSTERS), "stocks": (stock_losses, STOCKS)}


def available() -> tuple[str, ...]:
    """Names of the real streams that `load` knows, none of which needs a download."""
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
        Scaled with the public constants its description states.

    Raises
    ------
    ValueError
        For an unknown name.
    ImportError
        If the package that bundles the stream is missing.
    """
    return _STREAMS[named("stream", name, available())]()


def load_losses(name: str) -> tuple[FloatArray, dict[str, Any]]:
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
    read, experts = _LOSSES[named("stream of experts", name, tuple(_LOSSES))]
    return read(), {
        "name": name,
        "description": BUNDLED[name].about,
        "scaling": "public constants, to [0, 1]",
        "feature_names": list(experts),
    }
