"""When decisions changed, on a timeline."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpoco.plotting._drawing import (
    COLOURS,
    Runs,
    axes_for,
    common_length,
    look,
    mark_switches,
    plain,
    thousands,
    traces_of,
)
from dpoco.plotting._sequences import sequence_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_switches"]

_FEW = 100  # switches a run that are drawn one by one
_RUNS = 20
_COLUMNS = 400
_NAME = 28


def plot_switches(
    runs: Mapping[str, Runs], *, comparator: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw the rounds after which each player's decision changed: a row each, time to the right.

    Parameters
    ----------
    runs : mapping from label to Trace or sequence of Traces
        Few switches are ticks, a line of them for every run (of the first twenty); many are
        shades, the darker the more of the rounds had a switch: its square root, relative to the
        densest rounds of the figure.
    comparator : BestSequence or array_like of int, shape (T,), optional
        A sequence whose switches are marked by thin vertical lines, if they are few.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        The number at the right is the median of the switches of a run.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError, TypeError
        If traces differ in length or there are none, or the comparator is no sequence of experts.
    """
    grouped = {label: traces_of(value) for label, value in runs.items()}
    length = common_length(grouped)
    axes = axes_for(ax, height=1.0 + 0.7 * len(grouped))
    counts = {
        label: [len(trace.switches) for trace in traces]  # type: ignore[union-attr]
        for label, traces in grouped.items()
    }
    crowded = [label for label, count in counts.items() if max(count) > _FEW]
    shares = {label: _shares(grouped[label], length) for label in crowded}
    densest = max((float(share.max()) for share in shares.values()), default=1.0)
    for row, (label, traces) in enumerate(grouped.items()):
        if label in shares:
            _draw_shares(axes, row, shares[label], densest, length)
        else:
            _draw_ticks(axes, row, traces)
        middle = float(np.median(counts[label]))
        axes.text(
            1.01, row, f"{middle:,.0f}", transform=axes.get_yaxis_transform(), va="center"
        )  # fmt: skip
    if comparator is not None:
        mark_switches(axes, sequence_of(comparator))
    axes.text(1.01, 1.0, "switches", transform=axes.transAxes, va="bottom", fontsize="small")
    axes.set_yticks(
        range(len(grouped)), [textwrap.fill(plain(label), _NAME) for label in grouped]
    )  # fmt: skip
    axes.set_xlim(0, length)
    axes.set_ylim(len(grouped) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    thousands(axes.xaxis)
    axes.set_xlabel("round")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return axes


def _shares(traces: Sequence[Any], length: int) -> Any:
    """Return for each column the share of its rounds, over all runs, with a switch."""
    columns = min(length, _COLUMNS)
    column = np.arange(length) * columns // length
    counts = np.zeros(columns)
    for trace in traces:
        counts += np.bincount(column[trace.switches], minlength=columns)
    return counts / (len(traces) * np.bincount(column, minlength=columns))


def _draw_shares(axes: Axes, row: int, shares: Any, densest: float, length: int) -> None:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    # One scale for all rows, so one colour: the players are told apart by their rows.
    shades = LinearSegmentedColormap.from_list("shares", ["#FFFFFF", COLOURS[0]])
    edges = np.linspace(0.0, length, len(shares) + 1)
    axes.pcolormesh(
        edges, [row - 0.35, row + 0.35], shares[None, :], cmap=shades,
        norm=PowerNorm(0.5, vmin=0.0, vmax=densest),
    )  # fmt: skip


def _draw_ticks(axes: Axes, row: int, traces: Sequence[Any]) -> None:
    shown = traces[:_RUNS]
    height = 0.7 / len(shown)
    for index, trace in enumerate(shown):
        low = row - 0.35 + index * height
        at = np.asarray(trace.switches, np.float64) + 1.0
        axes.vlines(
            at, low, low + 0.85 * height, color=look(row)[0], linewidth=1.2, clip_on=False
        )  # fmt: skip
