"""Regret against sequences of experts, who was played when, and windows of a stream."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpoco._validation import IntArray
from dpoco.evaluation import BestSequence, PrequentialResult
from dpoco.experts import ExpertTrace
from dpoco.plotting._drawing import (
    Line,
    Runs,
    axes_for,
    bare,
    common_length,
    density,
    draw,
    finish,
    linear_rounds,
    lines_of,
    look,
    mark_switches,
    plain,
    shades,
    short,
    thousands,
    traces_of,
)
from dpoco.plotting._runs import regret_against, regret_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ExpertRuns = ExpertTrace | Sequence[ExpertTrace]

_BEHIND = "#F2C46D"  # a light shade of the palette's orange
_LARGEST_NAMED = 20
_COLUMNS = 400


def plot_dynamic_regret(
    runs: Mapping[str, ExpertRuns],
    *,
    comparator: BestSequence | Any,
    bounds: Mapping[str, float | None] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the regret so far against a sequence of experts.

    Parameters
    ----------
    runs : mapping from label to ExpertTrace or sequence of ExpertTraces
        Repetitions are shown as their median in a band from the smallest to the largest.
    comparator : BestSequence or array_like of int
        For example from `dpoco.evaluation.best_switching_sequence`; one expert, or one for each
        round. Every trace is compared with it on the losses of its own game. Thin vertical lines
        mark its switches, if they are few.
    bounds : mapping from label to float, optional
        Bounds on the expected regret of the whole run, as in `plot_regret`.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "dpoco[plot]"``.
    ValueError, TypeError
        If traces differ in length, there are none, or comparator or bounds do not fit them.
    """
    decisions = sequence_of(comparator)
    rounds, lines = lines_of(runs, regret_against(decisions))
    axes = regret_axes(ax, lines, rounds, bounds)
    mark_switches(axes, decisions)
    named = isinstance(comparator, BestSequence)
    what = f"the best {comparator.limit}-switch sequence" if named else "a sequence of experts"
    return finish(axes, f"regret against {what}")


def plot_decisions(
    runs: ExpertRuns,
    *,
    comparator: BestSequence | Any = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw which expert was played when: one row for each expert, time to the right.

    Parameters
    ----------
    runs : ExpertTrace or sequence of ExpertTraces
        The darker, the more of these rounds (and of these runs) the expert was played in.
    comparator : BestSequence or array_like of int, optional
        A sequence to be shown as broad bands behind; one expert, or one for each round.
    names : sequence of str, optional
        Names of the experts, from the top.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError, TypeError
        If traces differ in length or there are none, or if the comparator has another length or
        there are too few names.

    Notes
    -----
    Rows are drawn for the experts up to the last one named, played or compared with.
    """
    traces: Sequence[Any] = traces_of(runs)
    length = common_length({"": traces})
    behind = None
    if comparator is not None:
        given = sequence_of(comparator)
        if given.shape not in ((), (length,)):
            raise ValueError(f"comparator must have shape () or ({length},); got {given.shape}")
        behind = np.broadcast_to(given, (length,))
    played = [trace.decisions.astype(np.int64) for trace in traces]
    largest = max(int(row.max()) for row in [*played, *([] if behind is None else [behind])])
    if names is not None and len(names) <= largest:
        raise ValueError(f"names must have at least {largest + 1} entries; got {len(names)}")
    experts = largest + 1 if names is None else len(names)
    axes = axes_for(ax)
    _draw_shares(axes, played, experts, length)
    if behind is not None:
        _draw_behind(axes, behind)
    _timeline(axes, length)
    axes.set_ylim(experts - 0.4, -0.6)
    if names is not None and experts <= _LARGEST_NAMED:
        axes.set_yticks(range(experts), [plain(name) for name in names])
    else:
        from matplotlib.ticker import MaxNLocator

        axes.yaxis.set_major_locator(MaxNLocator(10, integer=True))
        axes.set_ylabel("expert")
    return axes


def _timeline(axes: Axes, length: int, *sides: str) -> None:
    """Let the rounds run to the right, without a grid and without these sides."""
    axes.set_xlim(0, length)
    thousands(axes.xaxis)
    axes.set_xlabel("round")
    bare(axes, *sides, grid=False)


def sequence_of(comparator: Any) -> IntArray:
    decisions = np.asarray(getattr(comparator, "decisions", comparator))
    if decisions.dtype.kind not in "iu" or decisions.ndim > 1:
        raise TypeError("comparator must be one expert, or one for each round")
    return decisions.astype(np.int64)


def _draw_shares(axes: Axes, played: Sequence[IntArray], experts: int, length: int) -> None:
    """Draw bars that are the darker, the more often an expert was played in these rounds."""
    column, columns = _columns_of(length)
    shares = density(column, [decisions * columns + column for decisions in played], experts)
    # Between the bars, and where nobody played, the bands behind show through.
    rows = np.full((2 * experts - 1, columns), np.nan)
    rows[::2] = np.where(shares > 0.0, shares, np.nan)
    edges = (np.arange(experts)[:, None] + [-0.22, 0.22]).ravel()
    starts = np.searchsorted(column, np.arange(columns + 1)).astype(np.float64)
    axes.pcolormesh(
        starts, edges, np.ma.masked_invalid(rows), cmap=shades("#DCEBF5"), vmin=0.0, vmax=1.0,
        zorder=3,
    )  # fmt: skip


def _draw_behind(axes: Axes, sequence: IntArray) -> None:
    """Draw a broad band over each stretch of rounds with one expert."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(sequence)) + 1, [len(sequence)]])
    for start, stop in pairwise(edges):
        expert = float(sequence[start])
        axes.broken_barh(
            [(start, stop - start)], (expert - 0.42, 0.84), color=_BEHIND, linewidth=0, zorder=2
        )


_FEW = 100  # switches a run that are drawn one by one
_RUNS = 20
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
    column, _ = _columns_of(length)
    shares = {
        label: density(column, [column[trace.switches] for trace in grouped[label]])  # type: ignore[union-attr]
        for label in crowded
    }
    densest = max((float(share.max()) for share in shares.values()), default=1.0)
    for row, (label, traces) in enumerate(grouped.items()):
        if label in shares:
            _draw_row(axes, row, shares[label], densest, length)
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
    _timeline(axes, length, "left")
    axes.set_ylim(len(grouped) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    return axes


def _columns_of(length: int) -> tuple[IntArray, int]:
    """Return the column of every round, and how many there are."""
    columns = min(length, _COLUMNS)
    return np.arange(length) * columns // length, columns


def _draw_row(axes: Axes, row: int, shares: Any, densest: float, length: int) -> None:
    from matplotlib.colors import PowerNorm

    # One scale for all rows, so one colour: the players are told apart by their rows.
    edges = np.linspace(0.0, length, shares.shape[1] + 1)
    axes.pcolormesh(
        edges, [row - 0.35, row + 0.35], shares, cmap=shades("#FFFFFF"),
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
        line = Line.of(label, np.array([one.measures[measure] for one in group]))
        overall = float(np.median([one.overall[measure] for one in group]))
        draw(axes, index, line, ends, short(overall))
    linear_rounds(axes, float(ends[-1]))
    return finish(axes, measure.replace("_", " "))
