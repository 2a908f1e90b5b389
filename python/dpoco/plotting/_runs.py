"""Runs over the rounds: losses, regret, decisions, switches, windows of a stream."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray, IntArray
from dpoco.evaluation import BestSequence, Comparison, PrequentialResult, RunReport
from dpoco.experts import ExpertTrace
from dpoco.plotting import _drawing as drawing
from dpoco.plotting._drawing import Line, Runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


ExpertRuns = ExpertTrace | Sequence[ExpertTrace]

_BEHIND = "#F2C46D"  # a light shade of the palette's orange
_LARGEST_NAMED = 20
_COLUMNS = 400


def plot_loss(runs: RunReport | Comparison | Mapping[str, Runs], *, ax: Axes | None = None) -> Axes:
    """Draw the average loss so far, over the rounds.

    For a report, the average is over the rounds whose data are present. For traces it is over all
    rounds, where empty rounds lose nothing.

    Parameters
    ----------
    runs : RunReport, Comparison, or mapping from label to Trace or sequence of Traces
        Repetitions are shown as their median with a band from the smallest to the largest value.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "dpoco[plot]"``.
    ValueError
        If traces differ in length or there are none.
    TypeError
        For the trace of a bandit, which has no losses.
    """
    rounds, lines = drawing.player_lines(runs)
    counted = np.array(runs.curves.counted) if isinstance(runs, RunReport) else rounds
    # At the beginning, there may be no counted round.
    lines = [line.map(lambda values: values / np.maximum(counted, 1)) for line in lines]
    axes = drawing.axes_for(ax)
    for index, line in enumerate(lines):
        drawing.draw(axes, index, line, rounds)
    drawing.logarithmic_rounds(axes, rounds[-1])
    shown = rounds >= rounds[-1] / 1000.0
    if all((line.middle[shown] > 0.0).all() for line in lines):
        drawing.log_scale(axes, lines, shown)
    return drawing.finish(axes, "average loss so far")


def plot_regret(
    runs: RunReport | Comparison | Mapping[str, Runs],
    *,
    comparator: Any = None,
    bounds: Mapping[str, float | None] | None = None,
    per_round: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the cumulative regret: total loss minus that of a comparator.

    Parameters
    ----------
    runs : RunReport, Comparison, or mapping from label to Trace or sequence of Traces
        See `plot_loss`; traces of bandits are also allowed.
    comparator : array_like of shape (d,), FixedDecision, BestSequence, or callable
        Comparator of the traces: anything that ``trace.regret`` takes, or a function of a trace
        that returns its cumulative regret, shape (T,). A report has its own comparator: the best
        fixed decision. So does a comparison with a result of
        `dpoco.evaluation.best_fixed_decision` or `best_expert`. Thin vertical lines mark the
        switches of a `BestSequence`, if they are few.
    bounds : mapping from label to float, optional
        Bounds on the expected regret of the whole run: dashed, with a triangle at the last round,
        for which they hold. A bound far above the lines appears only in the legend; None is no
        bound. With `per_round`, bounds on the regret per round.
    per_round : bool, default False
        Divide by the number of rounds so far, on a logarithmic axis of rounds.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        If `comparator` is missing for traces or given for a report, if traces differ in length or
        there are none, or for a bound of an unknown player.
    """
    if comparator is None and isinstance(runs, Comparison):
        comparator = runs.comparator.get("decision")  # the comparison's own comparator
    if isinstance(runs, RunReport) != (comparator is None):
        raise ValueError("comparator belongs to traces; a report has its own")
    compared, places = drawing.BEST_FIXED, None
    if isinstance(runs, RunReport):
        rounds, lines = drawing.player_lines(runs)
        # Medians and ranges may be shifted, because regret shifts all runs of a report equally.
        baseline = np.array(runs.curves.best_fixed)
        # The third line is the comparator, whose regret is 0.
        compared = lines.pop(2).label
        lines = [line.map(lambda values: values - baseline) for line in lines]
        places = (0, 1, 3)  # their colours in `plot_loss`
    else:
        rounds, lines = drawing.player_lines(runs, _regret_against(comparator))
    axes, limit = drawing.axes_for(ax), None
    if per_round:
        lines = [line.map(lambda values: values / rounds) for line in lines]
        low, limit = _early_range(lines, rounds)
        drawing.logarithmic_rounds(axes, rounds[-1])
        axes.set_ylim(low, limit)
    else:
        drawing.linear_rounds(axes, rounds[-1])
    for index, line in zip(places or range(len(lines)), lines, strict=True):
        drawing.draw(axes, index, line, rounds)
    drawing.draw_bounds(axes, lines, bounds, rounds, limit=limit)
    axes.axhline(0.0, color=drawing.GREY, linewidth=0.8, zorder=1)
    if isinstance(comparator, BestSequence):
        drawing.mark_switches(axes, comparator.decisions)
        compared = f"best {comparator.limit}-switch sequence"
    what = "regret per round so far" if per_round else "regret"
    name = drawing.plain(compared)
    gap = " " if len(name) < 24 or isinstance(comparator, BestSequence) else "\n"  # fits the axes
    known = per_round or callable(comparator)
    return drawing.finish(axes, what if known else f"regret against the{gap}{name}")


def _early_range(lines: Sequence[Line], rounds: NDArray[np.int64]) -> tuple[float, float]:
    """Return the range of values that shows all lines after the first thousandth of the rounds.

    Early regrets per round are as large as the losses, whatever follows.
    """
    middles = [line.middle[rounds >= rounds[-1] / 1000.0] for line in lines]
    top = max(*(middle.max() for middle in middles), 0.0)
    low = min(*(middle.min() for middle in middles), 0.0)
    # A regret that is always 0 would give an axis without height.
    top = top if top - low > 1e-9 else low + 1.0
    return low - 0.05 * (top - low), top + 0.15 * (top - low)


def _regret_against(comparator: Any) -> Callable[[Any], FloatArray]:
    """Return the function from a trace to its cumulative regret, shape (T,)."""

    def so_far(trace: Any) -> FloatArray:
        """Return the regret of a trace; the result of a caller's function is checked."""
        if not callable(comparator):
            return np.asarray(trace.regret(comparator), np.float64)
        values = np.asarray(comparator(trace), np.float64)
        if values.shape != (len(trace),):
            raise ValueError(f"comparator must return shape ({len(trace)},); got {values.shape}")
        return values

    return so_far


def plot_run_report(report: RunReport, *, ax: Sequence[Axes] | None = None) -> Figure:
    """Draw a report: average loss on the left, regret on the right.

    Parameters
    ----------
    report : RunReport
        Result of `dpoco.evaluation.compare_private`.
    ax : two matplotlib Axes, optional
        Default: a new figure, 11 x 5 inches.

    Returns
    -------
    Figure
        Save it with ``figure.savefig(path)``.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        If `ax` is not a pair of axes.
    """
    pair = drawing.new_figure((11.0, 5.0)).subplots(1, 2) if ax is None else ax
    if len(pair) != 2:
        raise ValueError(f"ax must be a pair of axes; got {len(pair)}")
    left, right = pair
    plot_loss(report, ax=left)
    plot_regret(report, ax=right)
    promised = report.guarantee
    left.set_title("Average loss", loc="left", fontweight="bold")
    right.set_title("Regret", loc="left", fontweight="bold")
    repeats = len(report.private.average_losses)
    band = f", median and range of {repeats} runs" if repeats > 1 else ""
    return drawing.headline(
        drawing.whole_figure(left),
        f"{report.stream['name']}: {report.rounds:,} rounds, "
        f"epsilon = {promised['epsilon']:.3g}, delta = {promised['delta']:.2g}{band}",
    )


def plot_decisions(
    runs: ExpertRuns,
    *,
    comparator: BestSequence | Any = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw which expert was played in each round: one row per expert, with time to the right.

    Parameters
    ----------
    runs : ExpertTrace or sequence of ExpertTraces
        The shade is darker if the expert was played in more of these rounds (and of these runs).
    comparator : BestSequence or array_like of int, optional
        A sequence to show as broad bands in the background: one expert, or one for each round.
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
        If traces differ in length or there are none, if the comparator has another length, or if
        there are too few names.

    Notes
    -----
    There are rows for the experts up to the last one that is named, played or in the comparator.
    """
    traces: Sequence[Any] = drawing.list_traces(runs)
    length = drawing.common_length({"": traces})
    behind = None
    if comparator is not None:
        given = _expert_sequence(comparator)
        if given.shape not in ((), (length,)):
            raise ValueError(f"comparator must have shape () or ({length},); got {given.shape}")
        behind = np.broadcast_to(given, (length,))
    played = [trace.decisions.astype(np.int64) for trace in traces]
    # A trace does not contain the number of experts.
    largest = max(int(row.max()) for row in [*played, *([] if behind is None else [behind])])
    if names is not None and len(names) <= largest:
        raise ValueError(f"names must have at least {largest + 1} entries; got {len(names)}")
    experts = largest + 1 if names is None else len(names)
    axes = drawing.axes_for(ax)
    _draw_shares(axes, played, experts, length)
    if behind is not None:
        _draw_behind(axes, behind)
    _timeline(axes, length)
    axes.set_ylim(experts - 0.4, -0.6)
    if names is not None and experts <= _LARGEST_NAMED:
        axes.set_yticks(range(experts), [drawing.plain(name) for name in names])
    else:
        from matplotlib.ticker import MaxNLocator

        axes.yaxis.set_major_locator(MaxNLocator(10, integer=True))
        axes.set_ylabel("expert")
    return axes


def _timeline(axes: Axes, length: int, *sides: str) -> None:
    """Set an axis of rounds to the right, without a grid and without these sides."""
    axes.set_xlim(0, length)
    drawing.thousands(axes.xaxis)
    axes.set_xlabel("round")
    drawing.bare(axes, *sides, grid=False)


def _expert_sequence(comparator: object) -> IntArray:
    """Return the experts of a sequence, shape (T,), or of one expert, shape ()."""
    decisions = np.asarray(getattr(comparator, "decisions", comparator))
    if decisions.dtype.kind not in "iu" or decisions.ndim > 1:
        raise TypeError("comparator must be one expert, or one for each round")
    return decisions.astype(np.int64)


def _draw_shares(axes: Axes, played: Sequence[IntArray], experts: int, length: int) -> None:
    """Draw bars that are darker if an expert was played more often in these rounds.

    Parameters
    ----------
    axes : Axes
    played : sequence of ndarray of int, shape (T,)
        Decisions of every run.
    experts, length : int
        Numbers of rows and of rounds.
    """
    column, columns = _round_columns(length)
    shares = drawing.density(
        column, [decisions * columns + column for decisions in played], experts
    )
    # The bands in the background are visible between the bars and where nobody played.
    rows = np.full((2 * experts - 1, columns), np.nan)
    rows[::2] = np.where(shares > 0.0, shares, np.nan)
    edges = (np.arange(experts)[:, None] + [-0.22, 0.22]).ravel()
    starts = np.searchsorted(column, np.arange(columns + 1)).astype(np.float64)
    axes.pcolormesh(
        starts, edges, np.ma.masked_invalid(rows), cmap=drawing.shades("#DCEBF5"), vmin=0.0,
        vmax=1.0, zorder=3, rasterized=True,  # otherwise a vector file has a path for every cell
    )  # fmt: skip


def _draw_behind(axes: Axes, sequence: IntArray) -> None:
    """Draw a broad band over each stretch of rounds with one expert."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(sequence)) + 1, [len(sequence)]])
    for start, stop in pairwise(edges):
        expert = float(sequence[start])
        axes.broken_barh(
            [(start, stop - start)], (expert - 0.42, 0.84), color=_BEHIND, linewidth=0, zorder=2
        )


_FEW = 100  # largest number of switches per run to draw one by one
_RUNS = 20
_NAME = 28


def plot_switches(
    runs: Comparison | Mapping[str, Runs], *, comparator: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw the rounds after which decisions changed: one row per player, time to the right.

    Parameters
    ----------
    runs : mapping from label to Trace or sequence of Traces
        Few switches are ticks, with a line for every run (up to twenty). Many switches are shades,
        darker if more of the rounds had a switch: the square root of their share, relative to the
        densest rounds of the figure.
    comparator : BestSequence or array_like of int, shape (T,), optional
        A sequence whose switches are marked by thin vertical lines, if they are few.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        The number at the right is the median number of switches of a run.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError, TypeError
        If traces differ in length or there are none, or the comparator is not a sequence of
        experts.
    """
    grouped = drawing.group_by_label(runs)
    length = drawing.common_length(grouped)
    axes = drawing.axes_for(ax, height=1.0 + 0.7 * len(grouped))
    # Many ticks would form a black bar, so crowded players are drawn as shades.
    counts = {label: [len(trace.switches) for trace in traces] for label, traces in grouped.items()}
    crowded = [label for label, count in counts.items() if max(count) > _FEW]
    column, _ = _round_columns(length)
    shares = {
        label: drawing.density(column, [column[trace.switches] for trace in grouped[label]])
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
        drawing.mark_switches(axes, _expert_sequence(comparator))
    axes.text(1.01, 1.0, "switches", transform=axes.transAxes, va="bottom")
    axes.set_yticks(
        range(len(grouped)), [textwrap.fill(drawing.plain(label), _NAME) for label in grouped]
    )  # fmt: skip
    _timeline(axes, length, "left")
    axes.set_ylim(len(grouped) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    return axes


def _round_columns(length: int) -> tuple[IntArray, int]:
    """Return the column of every round, and the number of columns."""
    columns = min(length, _COLUMNS)
    return np.arange(length) * columns // length, columns


def _draw_row(axes: Axes, row: int, shares: FloatArray, densest: float, length: int) -> None:
    """Draw the shares of rounds with a switch as shades along a row."""
    from matplotlib.colors import PowerNorm

    # All rows have one scale and one colour, because rows already distinguish the players.
    edges = np.linspace(0.0, length, shares.shape[1] + 1)
    axes.pcolormesh(
        edges, [row - 0.35, row + 0.35], shares, cmap=drawing.shades("#FFFFFF"),
        norm=PowerNorm(0.5, vmin=0.0, vmax=densest), rasterized=True,
    )  # fmt: skip


def _draw_ticks(axes: Axes, row: int, traces: Sequence[Any]) -> None:
    """Draw a tick for every switch, with up to twenty runs below each other."""
    shown = traces[:_RUNS]
    # Rows are 0.7 high, so that neighbouring rows are separate.
    height = 0.7 / len(shown)
    for index, trace in enumerate(shown):
        low = row - 0.35 + index * height
        at = np.asarray(trace.switches, np.float64) + 1.0
        axes.vlines(
            at, low, low + 0.85 * height, color=drawing.look(row)[0], linewidth=1.2, clip_on=False
        )  # fmt: skip


def plot_prequential(
    results: Mapping[str, PrequentialResult | Sequence[PrequentialResult]],
    *,
    measure: str = "loss",
    ax: Axes | None = None,
) -> Axes:
    """Draw a measure of decisions on the records that followed, window by window.

    Parameters
    ----------
    results : mapping from label to PrequentialResult or sequence of them
        From `dpoco.evaluation.prequential`. Repetitions are shown as their median with a band from
        the smallest to the largest value.
    measure : str, default "loss"
        A measure that all results have.
    ax : matplotlib Axes, optional
        Default: axes of a new figure.

    Returns
    -------
    Axes
        The legend shows the median over the whole stream. Windows without a value are gaps.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        If there are no results, or if they differ in their windows or lack the measure.
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
    axes = drawing.axes_for(ax)
    for index, (label, group) in enumerate(grouped.items()):
        line = Line.of(label, np.array([one.measures[measure] for one in group]))
        overall = float(np.median([one.overall[measure] for one in group]))
        drawing.draw(axes, index, line, ends, drawing.short(overall))
    drawing.linear_rounds(axes, float(ends[-1]))
    return drawing.finish(axes, measure.replace("_", " "))
