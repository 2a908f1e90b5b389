"""Comparisons: learners by budgets, batch fits, and reruns of published experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpoco._validation import Fields, choice
from dpoco.evaluation import Comparison
from dpoco.plotting import _drawing as drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MEASURES = {
    "regret": ("regrets", "total loss above that of the {name}"),
    "average_loss": ("average_losses", "average loss"),
    "switches": ("switches", "changes of decision"),
}
_SPREAD = 0.36  # width of the learners within a budget


def plot_comparison(
    comparison: Comparison, *, measure: str = "regret", bounds: bool = False, ax: Axes | None = None
) -> Axes:
    """Draw each learner's result at each budget: median, and range over its runs.

    Parameters
    ----------
    comparison : Comparison
        Result of `dpoco.evaluation.compare`, which gives all learners the same guarantee.
    measure : {"regret", "average_loss", "switches"}
        Measure to draw.
    bounds : bool, default False
        Also draw the proven bound of each learner's regret, dashed; bounds above the figure are
        left out. Only for "regret".
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        There is one column per budget, ordered by epsilon; marks without privacy are hollow.
        Learners are side by side in a column, so that no mark hides another. A learner that cannot
        be calibrated to a budget is missing there, and the legend says so. One-time fits, which are
        offline, are drawn only for "average_loss".

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        For an unknown measure, or bounds on a measure other than regret.
    """
    choice("measure", measure, tuple(_MEASURES))
    if bounds and measure != "regret":
        raise ValueError('bounds are only for measure="regret"')
    field, words = _MEASURES[measure]
    keys = sorted({row.point for row in comparison.rows})
    places = {key: place for place, key in enumerate(keys)}
    learners = list(dict.fromkeys(row.learner for row in comparison.rows))
    axes = drawing.axes_for(ax)
    shown: list[float] = []
    for index, learner in enumerate(learners):
        colour, style = drawing.look(index)
        shift = _SPREAD * (index / max(1, len(learners) - 1) - 0.5)
        marker = drawing.MARKERS[index % len(drawing.MARKERS)]
        rows = sorted(
            (row for row in comparison.rows if row.learner == learner and getattr(row, field)),
            key=lambda row: places[row.point],
        )
        missing = [row for row in comparison.rows if row.learner == learner and row.refused]
        x = [places[row.point] + shift for row in rows]
        table = [np.asarray(getattr(row, field), np.float64) for row in rows]
        y = [float(np.median(values)) for values in table]
        # Also single runs, because a bound may be within the range although it is above the
        # medians.
        shown += [float(value) for values in table for value in values]
        axes.vlines(
            x, [values.min() for values in table], [values.max() for values in table],
            color=colour, linewidth=3.0, alpha=0.35, zorder=2,
        )  # fmt: skip
        if not rows and not missing:  # a one-time fit has no regret
            continue
        label = drawing.plain(learner)
        if any(row.access == "offline" for row in rows):
            label += " (one fit, offline)"
        if missing:
            at = ", ".join(drawing.short(row.budget["epsilon"]) for row in missing if row.budget)
            label += f" (refused at epsilon = {at})"
        # The run without privacy is the last one, and its mark is hollow.
        noisy = sum(row.budget is not None for row in rows)
        common: Fields = {"color": colour, "marker": marker, "zorder": 3}
        axes.plot(
            x[:noisy], y[:noisy], linestyle=style, linewidth=1.5, markersize=6, label=label,
            **common,
        )  # fmt: skip
        axes.plot(
            x[noisy:], y[noisy:], linestyle="none", markersize=7, markerfacecolor="white", **common
        )
    if bounds:
        _draw_bounds(axes, comparison, learners, places, shown)
    name = drawing.plain(str(comparison.comparator["name"]))
    if measure == "average_loss":
        # A comparator with only a total has no average over the counted rounds.
        value = float(comparison.comparator.get("average_loss", np.nan))
        if not np.isnan(value):
            label = f"{name}: {drawing.short(value)}"
            axes.axhline(value, color=drawing.GREY, linewidth=1.2, zorder=1, label=label)
    else:
        axes.axhline(0.0, color=drawing.GREY, linewidth=0.8, zorder=1)
    _name_places(axes, comparison, places)
    drawing.thousands(axes.yaxis)
    return drawing.finish(axes, words.format(name=name))


def _name_places(
    axes: Axes, comparison: Comparison, places: dict[tuple[float, float], int]
) -> None:
    """Write the budget below each column, with its delta if there are several."""
    deltas = {row.budget["delta"] for row in comparison.rows if row.budget is not None}
    one = len(deltas) == 1
    names = [
        "no privacy" if epsilon == np.inf
        else f"{epsilon:g}" if one else f"{epsilon:g}\ndelta = {delta:g}"
        for epsilon, delta in places
    ]  # fmt: skip
    axes.set_xticks(list(places.values()), names)
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.set_xlabel(f"epsilon (delta = {min(deltas):.3g})" if one else "epsilon")


def _draw_bounds(
    axes: Axes,
    comparison: Comparison,
    learners: list[str],
    places: dict[tuple[float, float], int],
    shown: list[float],
) -> None:
    """Draw the proven bound on each learner's regret as a dashed line across its column.

    Parameters
    ----------
    axes : Axes
    comparison : Comparison
        Rows with a guarantee state a bound.
    learners : list of str
        Names in the order of their colours.
    places : dict
        Columns by budget.
    shown : list of float
        All measured values, which decide which bounds are drawn.
    """
    # A bound far above would squeeze all measured values to the lower edge.
    limit = 3.0 * max([*shown, 0.0])
    label: str | None = "proven, in expectation"
    for row in comparison.rows:
        bound = (row.guarantee or {}).get("regret_bound")
        if row.budget is None or bound is None or not bound <= limit:
            continue
        index = learners.index(row.learner)
        x = places[row.point] + _SPREAD * (index / max(1, len(learners) - 1) - 0.5)
        axes.plot(
            [x - 0.12, x + 0.12], [bound, bound], color=drawing.look(index)[0], linewidth=1.2,
            linestyle=(0, (3, 1.5)) if len(places) > 3 else drawing.BOUND_STYLE, zorder=2,
            label=label,
        )  # fmt: skip
        label = None
