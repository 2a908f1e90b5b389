"""Prequential measures, window by window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpoco.evaluation import PrequentialResult
from dpoco.plotting._drawing import Line, axes_for, draw, finish, linear_rounds, plain, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_prequential"]


def plot_prequential(
    results: Mapping[str, PrequentialResult | Sequence[PrequentialResult]],
    *,
    measure: str = "loss",
    ax: Axes | None = None,
) -> Axes:
    """Draw a measure of how decisions did on the records that came next, window by window.

    Parameters
    ----------
    results : mapping from label to PrequentialResult or sequence of them
        From `dpoco.evaluation.prequential`; repetitions are shown as their median in a band from
        the smallest to the largest.
    measure : str, default "loss"
        Any that all results have.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        The legend tells the median over the whole stream. Windows without a value are gaps.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        If there are no results, they differ in their windows, or lack the measure.
    """
    grouped = {
        label: [value] if isinstance(value, PrequentialResult) else list(value)
        for label, value in results.items()
    }
    windows = {one.ends for group in grouped.values() for one in group}
    if len(windows) != 1 or not all(grouped.values()):
        raise ValueError("the results must be of the same windows, at least one")
    known = [set(one.measures) for group in grouped.values() for one in group]
    if measure not in set.intersection(*known):
        raise ValueError(f"measure must be one of {sorted(set.intersection(*known))}")
    ends = np.array(windows.pop(), dtype=np.int64)
    axes = axes_for(ax)
    for index, (label, group) in enumerate(grouped.items()):
        table = np.array([one.measures[measure] for one in group])
        overall = float(np.median([one.overall[measure] for one in group]))
        spread = len(group) > 1
        line = Line(
            label,
            np.median(table, axis=0),
            table.min(axis=0) if spread else None,
            table.max(axis=0) if spread else None,
        )
        draw(axes, index, line, ends, np.ones(len(ends)), np.zeros(len(ends)))
        axes.get_lines()[-1].set_label(f"{plain(label)}: {short(overall)}")
    linear_rounds(axes, float(ends[-1]))
    axes.set_ylabel(measure.replace("_", " "))
    finish(axes)
    return axes
