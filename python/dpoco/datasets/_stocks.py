"""Ten stocks, day by day, as experts: bundled with river."""

from __future__ import annotations

import gzip

import numpy as np
from numpy.typing import NDArray

from dpoco.datasets._river import bundled_file

__all__ = ["STOCKS", "stock_losses"]

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
