"""Real data that other packages bundle: nothing is downloaded."""

from __future__ import annotations

import gzip

import numpy as np
from numpy.typing import NDArray

from dpoco.datasets._stream import PublicScaling, Stream


def bundled_table(dataset: str, requirement: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return column names and rows of one of river's compressed CSV files.

    Parameters
    ----------
    dataset : str
        Class name in ``river.datasets``.
    requirement : str
        What to install if it is not there, for the error.

    Raises
    ------
    ImportError
        Without river, or with one that does not have the data set.
    """
    with gzip.open(bundled_file(dataset, requirement), "rt", encoding="utf-8") as file:
        names = tuple(file.readline().strip().split(","))
        return names, np.loadtxt(file, delimiter=",")


def bundled_file(dataset: str, requirement: str) -> str:
    """Return the path of one of river's compressed CSV files; see `bundled_table`."""
    name = dataset.lower()
    try:
        from river import datasets
    except ImportError:
        raise ImportError(
            f'the {name} stream needs river: pip install "dpoco[data]"', name="river"
        ) from None
    if not hasattr(datasets, dataset):
        raise ImportError(
            f'the {name} stream needs {requirement}: pip install -U "dpoco[data]"', name="river"
        )
    return str(getattr(datasets, dataset)().path)


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
    names, table = bundled_table("Phishing", "river")
    label = names.index("is_phishing")
    columns = [index for index in range(len(names)) if index != label]
    return Stream(
        name="phishing",
        features=table[:, columns],
        labels=table[:, label],
        feature_names=tuple(names[index] for index in columns),
        task="classification",
        description="Checks of web pages; label 1 marks a fraudulent page",
        source=(
            "UCI Machine Learning Repository, Website Phishing, "
            "https://archive.ics.uci.edu/dataset/379/website+phishing, as bundled with river"
        ),
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
    ).scaled(PublicScaling(0.0, 1.0))


# Nominal ranges in integer counts: 7 bits, unsigned for level channels, signed for the others.
_LEVEL, _SIGNED = (0.0, 128.0), (-64.0, 64.0)
_RANGES = {
    "f1": _LEVEL,
    "f2": _SIGNED,
    "f3": _LEVEL,
    "f4": _SIGNED,
    "f5": _SIGNED,
    "f6": _SIGNED,
    "f7": _LEVEL,
    "f8": _LEVEL,
    "f9": _LEVEL,
}
_LABEL = "anomaly"


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
    names, table = bundled_table("Shuttle", "river 0.26 or later (Python 3.11 or later)")
    columns = list(_RANGES)
    stream = Stream(
        name="shuttle",
        features=table[:, [names.index(name) for name in columns]],
        labels=table[:, names.index(_LABEL)],
        feature_names=tuple(columns),
        task="classification",
        description="Space shuttle sensor readings; label 1 marks an anomaly",
        source=(
            "UCI Machine Learning Repository, Statlog (Shuttle), "
            "https://archive.ics.uci.edu/dataset/148/statlog+shuttle, as bundled with river"
        ),
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
    )
    low, high = np.array(list(_RANGES.values())).T
    return stream.scaled(PublicScaling(low, high)) if scaled else stream


POLLSTERS = ("gallup", "ipsos", "morning_consult", "rasmussen", "you_gov")

# Public: an error of ten percentage points or more is a total loss.
_WORST_ERROR = 10.0


def pollster_losses() -> NDArray[np.float64]:
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
    with gzip.open(bundled_file("TrumpApproval", "river"), "rt", encoding="utf-8") as file:
        names = file.readline().strip().split(",")
        table = np.loadtxt(file, delimiter=",")
    polls = table[:, [names.index(name) for name in POLLSTERS]]
    truth = table[:, names.index("five_thirty_eight")]
    losses: NDArray[np.float64] = np.minimum(np.abs(polls - truth[:, None]) / _WORST_ERROR, 1.0)
    return losses


STOCKS = ("AAPL", "AMZN", "IBM", "INTC", "JNJ", "JPM", "KO", "MSFT", "WMT", "XOM")

# Public: a day's return of ten percent or more, up or down, is as good or bad as it gets.
_LARGEST_RETURN = 10.0


def stock_losses() -> NDArray[np.float64]:
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
    with gzip.open(
        bundled_file("SP500Stocks", "river 0.26 or later (Python 3.11 or later)"),
        "rt",
        encoding="utf-8",
    ) as file:
        names = file.readline().strip().split(",")
        columns = [names.index(name) for name in STOCKS]
        returns = np.loadtxt(file, delimiter=",", usecols=columns)
    share: NDArray[np.float64] = (_LARGEST_RETURN - returns) / (2.0 * _LARGEST_RETURN)
    return np.clip(share, 0.0, 1.0)
