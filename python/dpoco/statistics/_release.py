"""The publication of a monitor at the end of an interval, in all formats."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from dpoco._validation import FloatArray, import_package, real_in, unknown
from dpoco.statistics._layout import Layout
from dpoco.statistics._statistics import Estimates


class Cell(NamedTuple):
    """One published number.

    Attributes
    ----------
    view, statistic, group, label : str
        Name of the number: view, statistic, group ("" without groups), and bin, category or
        quantile ("" for a single number).
    value : float or None
        None if the noise hides it.
    deviation : float or None
        Standard deviation of the noise; exact for counts and sums, to first order for others.
    low, high : float
        Ends of the interval with the requested level.
    """

    view: str
    statistic: str
    group: str
    label: str
    value: float | None
    deviation: float | None
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Release:
    """The statistics at the end of an interval. All of it may be published.

    Attributes
    ----------
    interval : int
        Number of the interval, from 0 on.
    begin, end : str or None
        Beginning and end in ISO 8601, for intervals by the clock.
    vectors : mapping of str to ndarray
        The noisy cells of each view, in the order of the monitor's layout.
    deviations : mapping of str to float
        Standard deviation of the noise of each view's cells.
    layout : Layout
        Layout of the cells.
    """

    interval: int
    begin: str | None
    end: str | None
    vectors: Mapping[str, FloatArray]
    deviations: Mapping[str, float]
    layout: Layout

    def __getstate__(self) -> dict[str, Any]:
        """Leave out `estimates`, which contain functions and are recomputed."""
        return {name: value for name, value in vars(self).items() if name != "estimates"}

    @cached_property
    def estimates(self) -> dict[str, dict[str, Estimates]]:
        """Numbers and error bars, by view and statistic."""
        return {
            view: self.layout.estimates(vector, self.deviations[view])
            for view, vector in self.vectors.items()
        }

    def value(
        self, statistic: str, view: str | None = None, *, group: str = "", label: str = ""
    ) -> float | None:
        """Return one number; None if the noise hides it.

        Parameters
        ----------
        statistic, view : str
            Names; default: the first view.
        group, label : str
            Names of the cell; default: the only one. Keyword-only.

        Raises
        ------
        KeyError
            If there is no such number.
        """
        return self._cell(statistic, view, group, label, 0.95).value

    def bounds(
        self,
        statistic: str,
        view: str | None = None,
        *,
        group: str = "",
        label: str = "",
        level: float = 0.95,
    ) -> tuple[float, float]:
        """Return an interval that covers the number without noise with probability `level`.

        It accounts for the noise only, not for how well the records represent others. For the
        arguments see `value`; `level` is in (0, 1).

        Returns
        -------
        low, high : float
            Ends of the interval; for a mean or share with few records, its whole possible range.

        Raises
        ------
        KeyError
            If there is no such number.
        """
        cell = self._cell(statistic, view, group, label, level)
        return cell.low, cell.high

    def _cell(self, statistic: str, view: str | None, group: str, label: str, level: float) -> Cell:
        """Return one cell, or raise `KeyError`."""
        chosen = next(iter(self.vectors)) if view is None else view
        for what, name, known in (
            ("view", chosen, self.vectors),
            ("statistic", statistic, [each for each, _ in self.layout.statistics]),
        ):
            if name not in known:
                raise KeyError(unknown(what, name, known))
        for cell in self._list_cells(chosen, statistic, _quantile(level)):
            if (cell.group, cell.label) == (group, label):
                return cell
        groups, labels = self.layout.groups, self.estimates[chosen][statistic].labels
        raise KeyError(
            f"{statistic!r} has no group {group!r} and label {label!r}; it has the groups "
            f"{list(groups)} and the labels {list(labels)}"
        )

    def cells(
        self, level: float = 0.95, *, simultaneous: bool = False, integers: bool = False
    ) -> list[Cell]:
        """Return all numbers.

        Parameters
        ----------
        level : float, default 0.95
            Probability that an interval covers the number without noise, in (0, 1).
        simultaneous : bool, default False
            Whether all intervals of this release together cover with probability `level`
            (Bonferroni).
        integers : bool, default False
            Whether counts are rounded to nonnegative integers. Rounded counts are biased: their
            averages over many small groups are too large.

        Returns
        -------
        list of Cell
            Sorted by view, statistic, group and label, in the monitor's order.

        Raises
        ------
        ValueError
            For a level that is not in (0, 1).
        """
        count = sum(e.values.size for own in self.estimates.values() for e in own.values())
        z = _quantile(level, count if simultaneous else 1)
        found: list[Cell] = []
        for view, own in self.estimates.items():
            for statistic in own:
                found += self._list_cells(view, statistic, z, integers)
        return found

    def _list_cells(
        self, view: str, statistic: str, z: float, integers: bool = False
    ) -> list[Cell]:
        """Return the cells of one statistic in one view, with intervals of z deviations."""
        own = self.estimates[view][statistic]
        low, high = own.bounds(z)
        values = own.values
        if integers and own.whole:
            values, low, high = (np.maximum(np.rint(x), 0.0) for x in (values, low, high))
        columns = (values.ravel(), own.deviations.ravel(), low.ravel(), high.ravel())
        names = product(self.layout.groups, own.labels)
        return [
            Cell(view, statistic, group, label, _finite(value), _finite(deviation), least, most)
            for (group, label), value, deviation, least, most in zip(
                names, *(column.tolist() for column in columns), strict=True
            )
        ]

    def to_dict(self, level: float = 0.95, **options: bool) -> dict[str, Any]:
        """Return a JSON-able dictionary; for arguments see `cells`."""
        cells = [cell._asdict() for cell in self.cells(level, **options)]
        when = {"interval": self.interval, "begin": self.begin, "end": self.end}
        return {"kind": "dpoco.release", **when, "level": level, "cells": cells}

    def to_json(self, level: float = 0.95, **options: bool) -> str:
        """Return one line of JSON; for arguments see `cells`."""
        return json.dumps(self.to_dict(level, **options), allow_nan=False)

    def to_frame(self, level: float = 0.95, **options: bool) -> Any:
        """Return a pandas data frame with one row per number; for arguments see `cells`."""
        pandas = import_package("pandas", "to_frame", "files")
        frame = pandas.DataFrame(self.cells(level, **options), columns=list(Cell._fields))
        for at, name in enumerate(("interval", "begin", "end")):
            frame.insert(at, name, getattr(self, name))
        return frame

    def open_metrics(self, prefix: str = "dpoco") -> str:
        """Return text in the OpenMetrics format, as read by Prometheus.

        Parameters
        ----------
        prefix : str, default "dpoco"
            Prefix of all names. Characters that are not allowed in names become underscores.

        Notes
        -----
        A number that the noise hides is NaN. The standard deviation of each number has the same
        name plus ``_deviation``.
        """
        lines: list[str] = []
        for statistic, _ in self.layout.statistics:
            # Prometheus does not allow other characters in names.
            name = re.sub(r"[^a-zA-Z0-9_]", "_", f"{prefix}_{statistic}")
            cells = [c for c in self.cells() if c.statistic == statistic]
            for suffix, field in (("", "value"), ("_deviation", "deviation")):
                lines.append(f"# TYPE {name}{suffix} gauge")
                for cell in cells:
                    value = getattr(cell, field)
                    labels = {"view": cell.view, "group": cell.group, "label": cell.label}
                    # For Prometheus, an empty label is the same as none.
                    written = ",".join(f'{k}="{_escape(v)}"' for k, v in labels.items() if v)
                    lines.append(f"{name}{suffix}{{{written}}} {'NaN' if value is None else value}")
        # OpenMetrics requires this last line; readers treat a text without it as truncated.
        return "\n".join([*lines, "# EOF", ""])

    def __str__(self) -> str:
        """Return one line: the first view, with one standard deviation of noise."""
        view = next(iter(self.vectors))
        parts = []
        for cell in self.cells():
            if cell.view != view:
                continue
            name = " ".join(part for part in (cell.statistic, cell.group, cell.label) if part)
            if cell.value is None or cell.deviation is None:
                parts.append(f"{name} unknown")
            else:
                parts.append(f"{name} {cell.value:.4g} +- {cell.deviation:.2g}")
        return f"{self.begin or self.interval}  {view}: {', '.join(parts)}"

    def __repr__(self) -> str:
        """Return the line of `str`."""
        return f"<Release {self}>"


def _quantile(level: float, cells: int = 1) -> float:
    """Return the half-width, in deviations, of an interval with this level."""
    # Bonferroni: the probabilities that cells are outside sum to at most 1 - level.
    outside = (1.0 - real_in("level", level, "(0, 1)")) / (2.0 * cells)
    return -NormalDist().inv_cdf(outside)


def _finite(number: float) -> float | None:
    """Return a number for JSON; None for NaN, which means that the noise hides the number."""
    return number if math.isfinite(number) else None


def _escape(text: str) -> str:
    """Return a label's value as OpenMetrics quotes it."""
    # Backslashes come first, because those added for other characters must not be doubled.
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
