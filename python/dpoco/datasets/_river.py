"""Tables bundled in the wheel of river: nothing is downloaded."""

from __future__ import annotations

import gzip

import numpy as np
from numpy.typing import NDArray

__all__ = ["bundled_file", "bundled_table"]


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
