"""Figures of what was rerun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from bench.reproduce.figure import Figure51
from bench.reproduce.table import Table51
from bench.reproduce.training import Training

from dpoco.plotting import _drawing as drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 7.4  # inches: a page shows it without shrinking the text
# Variant, label, index of colour, index of style.
_VARIANTS = (
    ("paper", "paper's constants", 1, 1),
    ("corrected", "corrected", 4, 4),
    ("tight", "tight", 0, 0),
    ("noise_free", "no noise", 2, 3),
)
# First letters of a player's name, index of colour, index of style; the first that fits.
_PLAYERS = (
    ("uniformly random", 3, 0),
    ("LinUCB", 5, 1),
    ("HDB, epsilon", 6, 4),
    ("HDB, no noise", 2, 3),
    ("HDB", 0, 0),
    ("published without", 4, 4),
    ("published, not private, noise x 1:", 1, 0),
    ("published", 1, 2),
)


def plot_table_5_1(table: Table51, *, ax: Any = None) -> Figure:
    """Draw the suboptimality of every cell over the horizon, next to the printed numbers.

    Parameters
    ----------
    table : Table51
        From `table_5_1`.
    ax : array of matplotlib Axes, optional
        One for each pair of p (rows) and d (columns), row by row; default a new figure.

    Returns
    -------
    Figure
        Bars are standard errors.

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "dpoco[plot]"``.
    ValueError
        If `ax` has the wrong number of axes.
    """
    cells = [row.printed for row in table.rows]
    powers = sorted({cell.p for cell in cells})
    dimensions = sorted({cell.dimension for cell in cells})
    shape = len(powers), len(dimensions)
    if ax is None:
        figure = drawing.new_figure((min(1.4 + 3.2 * shape[1], _WIDTH), 1.5 + 2.4 * shape[0]))
        ax = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False)
    panels: list[Axes] = list(np.asarray(ax, dtype=object).reshape(-1))
    if len(panels) != shape[0] * shape[1]:
        raise ValueError(f"ax must be {shape[0] * shape[1]} axes; got {len(panels)}")
    for index, axes in enumerate(panels):
        p, dimension = powers[index // shape[1]], dimensions[index % shape[1]]
        rows = [
            row for row in table.rows if (row.printed.p, row.printed.dimension) == (p, dimension)
        ]
        _panel(axes, sorted(rows, key=lambda row: row.printed.horizon))
        axes.set_title(f"p = {p:g}, d = {dimension}", loc="left", fontsize="medium")
        if index % shape[1] == 0:
            axes.set_ylabel("suboptimality")
        if index // shape[1] == shape[0] - 1:
            axes.set_xlabel("rounds T")
    whole = drawing.whole_figure(panels[0])
    handles, labels = panels[0].get_legend_handles_labels()
    whole.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    title = f"Table 5.1 rerun at epsilon = 1, delta = 1/T: mean of {table.settings['seeds']} runs"
    return drawing.headline(whole, title)


def _panel(axes: Axes, rows: Sequence[Any]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    rounds = [row.printed.horizon for row in rows]

    def line(outcomes: Sequence[Any], label: str, index: int, **style: Any) -> None:
        means = np.array([of.suboptimality for of in outcomes])
        errors = np.array([of.suboptimality_se for of in outcomes])
        # On a logarithmic axis a bar must stay above zero.
        low = np.minimum(errors, 0.9 * means)
        axes.errorbar(
            rounds, means, yerr=np.stack([low, errors]), label=label,
            color=drawing.COLOURS[index], elinewidth=1.0, zorder=3, **style,
        )  # fmt: skip

    axes.axhline(1.0, color="#999999", linewidth=0.8, zorder=1, label="predicting zero")
    line(
        [row.printed for row in rows], "printed", 3, linestyle="none", marker="o",
        markerfacecolor="white", markersize=6,
    )  # fmt: skip
    if all(row.verdict is not None for row in rows):
        line(
            [row.verdict.simulated for row in rows], "noise as printed, simulated: not private",
            3, linestyle=drawing.STYLES[2], linewidth=1.4,
        )  # fmt: skip
    for name, label, colour, style in _VARIANTS:
        line(
            [row.outcomes[name] for row in rows], label, colour,
            linestyle=drawing.STYLES[style], linewidth=1.8,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(rounds))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}k"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    drawing.bare(axes)


def plot_figure_5_1(result: Figure51, *, ax: Sequence[Axes] | None = None) -> Figure:
    """Draw cumulative regret over the rounds, with one panel per number of arms.

    Parameters
    ----------
    result : Figure51
        From `figure_5_1`.
    ax : sequence of matplotlib Axes, optional
        One axes for each number of arms; default: a new figure.

    Returns
    -------
    Figure
        The published selection is shown with the noise and the gradient per arm that serve it best.

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "dpoco[plot]"``.
    ValueError
        If `ax` has the wrong number of axes.
    """
    counts = list(dict.fromkeys(curve.arms for curve in result.curves))
    if ax is None:
        figure = drawing.new_figure((8.0, 3.3 * len(counts)))
        ax = list(figure.subplots(len(counts), 1, squeeze=False)[:, 0])
    if len(ax) != len(counts):
        raise ValueError(f"ax must be {len(counts)} axes; got {len(ax)}")
    for axes, arms in zip(ax, counts, strict=True):
        shown = [
            curve
            for curve in result.curves
            if curve.arms == arms and not curve.player.endswith(("shared gradient", "noise x 0"))
        ]
        for curve in shown:
            label = f"{curve.player}: {drawing.short(curve.total)}"
            colour, style = next(
                own for start, *own in (*_PLAYERS, ("", 3, 1)) if label.startswith(start)
            )
            axes.plot(
                result.rounds, curve.mean, color=drawing.COLOURS[colour],
                linestyle=drawing.STYLES[style], linewidth=1.8, label=label,
            )  # fmt: skip
        axes.set_xlim(0, result.rounds[-1])
        axes.set_ylim(0, None)
        drawing.thousands(axes.xaxis)
        drawing.thousands(axes.yaxis)
        axes.set_title(f"K = {arms} arms", loc="left", fontsize="medium")
        axes.set_xlabel("round")
        axes.set_ylabel("cumulative regret")
        drawing.bare(axes)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    settings = result.settings
    return drawing.headline(
        drawing.whole_figure(ax[0]),
        f"Figure 5.1 rerun: d = {settings['dimension']}, epsilon = {settings['epsilon']:g}, "
        f"delta = 1/T, mean of {settings['runs']} worlds",
    )


def plot_training(result: Training, *, seconds: bool = False) -> Figure:
    """Draw training curves: Figure 5.2 over parts of the course, Figure 5.3 over CPU time.

    Parameters
    ----------
    result : Training
        From `figure_5_2` or `figure_5_3`.
    seconds : bool, default False
        Whether the horizontal axis is CPU time, and a panel a size instead of a method.

    Returns
    -------
    Figure
        Shades of Figure 5.3 are one standard deviation over runs.

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "dpoco[plot]"``.
    """
    panels: dict[str, list[Any]] = {}
    for curve in result.curves:
        size = f"T = {curve.horizon}, d = {curve.dimension}"
        title = size if seconds else f"{curve.method}, p = {curve.p:g}"
        panels.setdefault(title, []).append(curve)
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = drawing.new_figure((1.0 + 3.2 * columns, 1.0 + 2.8 * rows))
    places = figure.subplots(rows, columns, sharex=not seconds, sharey=True, squeeze=False).ravel()
    for axes in places[len(panels) :]:
        axes.remove()
    for axes, (title, curves) in zip(places, panels.items(), strict=False):
        axes.axhline(1.0, color="#999999", linewidth=0.8, zorder=1)
        for index, curve in enumerate(curves):
            at, mean = curve.seconds if seconds else curve.fractions, np.array(curve.mean)
            label = f"{curve.method}, " if seconds else ""
            axes.plot(
                at, mean, color=drawing.COLOURS[index], linestyle=drawing.STYLES[index],
                linewidth=1.6, label=f"{label}x {curve.scale:g}",
            )  # fmt: skip
            if seconds:
                spread = np.array(curve.deviation)
                axes.fill_between(
                    at, np.maximum(mean - spread, 1e-3), mean + spread, alpha=0.2,
                    color=drawing.COLOURS[index], linewidth=0.0,
                )  # fmt: skip
        axes.set_yscale("log")
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set_xlabel("CPU seconds" if seconds else "part of the course")
        axes.tick_params(labelbottom=True)
        drawing.bare(axes)
        axes.legend(frameon=False, fontsize="small")
    for axes in places[: len(panels) : columns]:
        axes.set_ylabel("suboptimality")
    name, count = "Figure 5.3" if seconds else "Figure 5.2", result.settings["seeds"]
    title = f"{name} rerun at epsilon = 1, delta = 1/T: mean of {count} runs"
    return drawing.headline(figure, title)
