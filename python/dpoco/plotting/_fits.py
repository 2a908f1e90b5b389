"""What one private fit to a whole data set reached."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from dpoco.evaluation import FitReport
from dpoco.plotting._drawing import (
    BEST_FIXED,
    GREY,
    NONPRIVATE,
    PRIVATE,
    axes_for,
    finish,
    look,
    plain,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_fit_report"]

_MARKERS = ("o", "s", "D", "^")


def plot_fit_report(report: FitReport, *, ax: Axes | None = None) -> Axes:
    """Draw the average loss of every private fit, beside what it should be compared with.

    Parameters
    ----------
    report : FitReport
        From `dpoco.evaluation.compare_private_fit`.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        A row for each player: a mark for each fit, and their median in figures.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    rows = {
        PRIVATE: report.private,
        f"same method {NONPRIVATE}": report.nonprivate,
        BEST_FIXED: (report.best_fixed["average_loss"],),
        "predicting zero": (report.zero["average_loss"],),
    }
    axes = axes_for(ax, 3.2)
    for index, values in enumerate(rows.values()):
        axes.plot(
            values, [index] * len(values), color=look(index)[0], linestyle="none",
            marker=_MARKERS[index], markersize=7, alpha=0.6 if len(values) > 1 else 1.0,
        )  # fmt: skip
        axes.annotate(
            short(statistics.median(values)), (max(values), index), xytext=(9, 0),
            textcoords="offset points", va="center", fontsize="small",
        )  # fmt: skip
    axes.axvline(report.best_fixed["average_loss"], color=GREY, linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.margins(x=0.15)
    axes.set_xlabel("average loss on the records of the fit")
    promised, fits = report.guarantee, len(report.private)
    axes.set_title(
        f"{plain(report.stream['name'])}: {report.stream['rounds']:,} records, "
        f"epsilon = {promised['epsilon']:.3g}" + (f", {fits} fits" if fits > 1 else ""),
        loc="left", fontsize="medium",
    )  # fmt: skip
    finish(axes)
    return axes
