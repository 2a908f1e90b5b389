"""Learners side by side at equal privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpoco._validation import choice
from dpoco.evaluation import Comparison
from dpoco.plotting._drawing import (
    BOUND_STYLE,
    COLOURS,
    GREY,
    axes_for,
    finish,
    look,
    plain,
    short,
    thousands,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_comparison"]

_MEASURES = {
    "regret": ("regrets", "total loss above that of the {name}"),
    "average_loss": ("average_losses", "average loss"),
    "switches": ("switches", "changes of decision"),
}
_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_SPREAD = 0.36  # of learners within a budget


def plot_comparison(
    comparison: Comparison,
    *,
    measure: str = "regret",
    bounds: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw what each learner reached at each budget: median, and range over its runs.

    Parameters
    ----------
    comparison : Comparison
        From `dpoco.evaluation.compare`, which holds all learners to the same guarantee.
    measure : {"regret", "average_loss", "switches"}
        What is drawn.
    bounds : bool, default False
        Draw what is proven for each learner's regret, too, dashed; one above the figure is left
        out. For "regret" only.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        A column for each budget, in the order of epsilon; hollow marks without privacy. Learners
        are side by side in a column, so that no mark hides another. One that cannot be calibrated
        to a budget is missing there, and the legend says so. Batch baselines, which are offline,
        are drawn for "average_loss" only.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        For an unknown measure, or bounds on another one than regret.
    """
    choice("measure", measure, tuple(_MEASURES))
    if bounds and measure != "regret":
        raise ValueError('bounds are on measure="regret"')
    field, words = _MEASURES[measure]
    places = _places(comparison)
    learners = list(dict.fromkeys(row.learner for row in comparison.rows))
    axes = axes_for(ax)
    shown: list[float] = []
    for index, learner in enumerate(learners):
        colour, style = look(index)
        shift = _SPREAD * (index / max(1, len(learners) - 1) - 0.5)
        marker = _MARKERS[index % len(_MARKERS)]
        rows = sorted(
            (row for row in comparison.rows if row.learner == learner and getattr(row, field)),
            key=lambda row: places[_key(row.budget)],
        )
        missing = [row for row in comparison.rows if row.learner == learner and row.refused]
        x = [places[_key(row.budget)] + shift for row in rows]
        table = [np.asarray(getattr(row, field), np.float64) for row in rows]
        y = [float(np.median(values)) for values in table]
        shown += [float(value) for values in table for value in values]
        private = [row.budget is not None for row in rows]
        axes.vlines(
            x, [values.min() for values in table], [values.max() for values in table],
            color=colour, linewidth=3.0, alpha=0.35, zorder=2,
        )  # fmt: skip
        if not rows and not missing:  # a batch baseline has no regret
            continue
        label = plain(learner)
        if any(row.access == "offline" for row in rows):
            label += " (one fit, offline)"
        if missing:
            at = ", ".join(short(row.budget["epsilon"]) for row in missing if row.budget)
            label += f" (refused at epsilon = {at})"
        axes.plot(
            [a for a, p in zip(x, private, strict=True) if p],
            [b for b, p in zip(y, private, strict=True) if p],
            color=colour, linestyle=style, linewidth=1.5, marker=marker, markersize=6,
            label=label, zorder=3,
        )  # fmt: skip
        axes.plot(
            [a for a, p in zip(x, private, strict=True) if not p],
            [b for b, p in zip(y, private, strict=True) if not p],
            color=colour, linestyle="none", marker=marker, markersize=7, markerfacecolor="white",
            zorder=3,
        )  # fmt: skip
    if bounds:
        _draw_bounds(axes, comparison, learners, places, shown)
    if measure == "average_loss":
        name = plain(str(comparison.comparator["name"]))
        value = float(comparison.comparator["average_loss"])
        axes.axhline(value, color=GREY, linewidth=1.2, zorder=1, label=f"{name}: {short(value)}")
    else:
        axes.axhline(0.0, color=GREY, linewidth=0.8, zorder=1)
    _name_places(axes, comparison, places)
    thousands(axes.yaxis)
    if measure == "average_loss" and "largest_reward" in comparison.comparator:
        words = f"average of {comparison.comparator['largest_reward']:g} - reward"
    axes.set_ylabel(words.format(name=plain(str(comparison.comparator["name"]))))
    finish(axes)
    return axes


def _key(budget: Any) -> tuple[float, float]:
    return (np.inf, 0.0) if budget is None else (budget["epsilon"], budget["delta"])


def _places(comparison: Comparison) -> dict[tuple[float, float], int]:
    keys = sorted({_key(row.budget) for row in comparison.rows})
    return {key: place for place, key in enumerate(keys)}


def _name_places(
    axes: Axes, comparison: Comparison, places: dict[tuple[float, float], int]
) -> None:
    deltas = {row.budget["delta"] for row in comparison.rows if row.budget is not None}
    one = len(deltas) == 1
    names = []
    for epsilon, delta in places:
        if epsilon == np.inf:
            names.append("no privacy")
        else:
            names.append(f"{epsilon:g}" if one else f"{epsilon:g}\ndelta = {delta:g}")
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
    limit = 3.0 * max([*shown, 0.0])
    label: str | None = "proven, in expectation"
    for row in comparison.rows:
        bound = (row.guarantee or {}).get("regret_bound")
        if row.budget is None or bound is None or not bound <= limit:
            continue
        index = learners.index(row.learner)
        x = places[_key(row.budget)] + _SPREAD * (index / max(1, len(learners) - 1) - 0.5)
        axes.plot(
            [x - 0.12, x + 0.12], [bound, bound], color=COLOURS[index % len(COLOURS)],
            linestyle=(0, (3, 1.5)) if len(places) > 3 else BOUND_STYLE, linewidth=1.2, zorder=2,
            label=label,
        )  # fmt: skip
        label = None
