"""The figure of ``dpoco compare``: average loss against epsilon, with bands over runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpoco.evaluation import Comparison
from dpoco.plotting._drawing import COLOURS, STYLES, finish, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_comparison"]

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def draw_comparison(result: Comparison) -> Figure:
    """Return a figure: medians in bands from the smallest to the largest; dotted, without noise."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    figure = new_figure((6.5, 5.0))
    axes = figure.subplots()
    names = list(dict.fromkeys(row.learner for row in result.rows))
    sizes: set[float] = set()
    for index, name in enumerate(names):
        colour = COLOURS[index % len(COLOURS)]
        rows = [row for row in result.rows if row.learner == name and row.average_losses]
        private = [row for row in rows if row.budget is not None]
        x = [row.budget["epsilon"] for row in private if row.budget is not None]
        sizes.update(x)
        axes.fill_between(
            x, [min(row.average_losses) for row in private],
            [max(row.average_losses) for row in private],
            color=colour, alpha=0.2, linewidth=0,
        )  # fmt: skip
        axes.plot(
            x, [float(row.average_loss or 0.0) for row in private],
            color=colour, label=name, linewidth=1.8, linestyle=STYLES[index % len(STYLES)],
            marker=_MARKERS[index % len(_MARKERS)],
        )  # fmt: skip
        for row in rows:
            if row.budget is None and row.average_loss is not None:
                axes.axhline(row.average_loss, color=colour, linestyle=":", linewidth=1.2)
    axes.axhline(result.comparator["average_loss"], color="#999999", linewidth=1.0)
    axes.annotate(
        result.comparator["name"], (1.0, result.comparator["average_loss"]),
        xycoords=("axes fraction", "data"), ha="right", va="bottom", color="#555555",
        fontsize="small",
    )  # fmt: skip
    if len(sizes) > 1:
        axes.set_xscale("log")
        axes.set_xticks(sorted(sizes))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("epsilon of one run (dotted: without noise)")
    axes.set_ylabel("average loss")
    repeats = result.settings["repeats"]
    axes.set_title(
        f"{result.stream.get('name', 'stream')}: {result.settings['horizon']:,} rounds, median "
        f"and range of {repeats} runs", loc="left", fontsize="medium",
    )  # fmt: skip
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.04 * (high - low), high)  # the comparator is not on the frame
    finish(axes)
    return figure
