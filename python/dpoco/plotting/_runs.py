"""Runs and fits: losses and regret over rounds, and what batch fits reached."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray
from dpoco.evaluation import FitReport, RunReport
from dpoco.plotting._drawing import (
    BEST_FIXED,
    GREY,
    MARKERS,
    NONPRIVATE,
    PRIVATE,
    Line,
    Runs,
    axes_for,
    draw,
    draw_bounds,
    finish,
    headline,
    linear_rounds,
    lines_of,
    log_scale,
    logarithmic_rounds,
    look,
    new_figure,
    plain,
    short,
    whole_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_loss(runs: RunReport | Mapping[str, Runs], *, ax: Axes | None = None) -> Axes:
    """Draw the average loss per round so far, over the rounds.

    Parameters
    ----------
    runs : RunReport, or mapping from label to Trace or sequence of Traces
        Repetitions are shown as their median in a band from the smallest to the largest.
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
    rounds, lines = lines_of(runs)
    lines = [line.map(lambda values: values / rounds) for line in lines]
    axes = axes_for(ax)
    for index, line in enumerate(lines):
        draw(axes, index, line, rounds)
    logarithmic_rounds(axes, rounds[-1])
    shown = rounds >= rounds[-1] / 1000.0
    if all((line.middle[shown] > 0.0).all() for line in lines):
        log_scale(axes, lines, shown)
    what = "loss"
    if isinstance(runs, RunReport) and runs.domain.get("type") == "policies":
        what = f"of {runs.loss['reward_range'][1]:g} - reward"  # what a bandit's reward misses
    return finish(axes, f"average {what} so far")


def plot_regret(
    runs: RunReport | Mapping[str, Runs],
    *,
    comparator: Any = None,
    bounds: Mapping[str, float | None] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the regret so far: total loss minus that of a comparator.

    Parameters
    ----------
    runs : RunReport, or mapping from label to Trace or sequence of Traces
        As in `plot_loss`; traces of bandits, too.
    comparator : array_like of shape (d,), FixedDecision, or callable
        What traces are compared with: whatever ``trace.regret`` takes, or a function of a trace
        that returns its regret so far, shape (T,). A report brings its own: the best fixed
        decision, the best expert, a linear policy.
    bounds : mapping from label to float, optional
        Bounds on the expected regret of the whole run: dashed, with a triangle at the last round
        they are for. One far above the lines is told in the legend only; None is no bound.
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
        If `comparator` is missing for traces or given for a report, or for a bound of nobody.
    """
    if isinstance(runs, RunReport) != (comparator is None):
        raise ValueError("comparator belongs to traces; a report has its own")
    compared, places = BEST_FIXED, None
    if isinstance(runs, RunReport):
        rounds, lines = lines_of(runs)
        baseline = np.array(runs.curves.best_fixed)
        compared = lines.pop(2).label
        lines = [line.map(lambda values: values - baseline) for line in lines]
        places = (0, 1, 3)  # the colours they have in `plot_loss`
    else:
        rounds, lines = lines_of(runs, regret_against(comparator))
    name = plain(compared)
    gap = " " if len(name) < 24 else "\n"  # the height of the axes
    label = "regret" if callable(comparator) else f"regret against the{gap}{name}"
    return finish(regret_axes(ax, lines, rounds, bounds, places), label)


def regret_axes(
    ax: Axes | None,
    lines: Sequence[Line],
    rounds: NDArray[np.int64],
    bounds: Mapping[str, float | None] | None,
    places: Sequence[int] | None = None,
) -> Axes:
    """Draw regret so far and its bounds; `places` are the indices of the lines' looks."""
    axes = axes_for(ax)
    for index, line in zip(places or range(len(lines)), lines, strict=True):
        draw(axes, index, line, rounds)
    draw_bounds(axes, lines, bounds, rounds)
    axes.axhline(0.0, color=GREY, linewidth=0.8, zorder=1)
    linear_rounds(axes, rounds[-1])
    return axes


def regret_against(comparator: Any) -> Callable[[Any], FloatArray]:
    """Return the function from a trace to its regret so far, shape (T,)."""

    def so_far(trace: Any) -> FloatArray:
        if not callable(comparator):
            return np.asarray(trace.regret(comparator), np.float64)
        values = np.asarray(comparator(trace), np.float64)
        if values.shape != (len(trace),):
            raise ValueError(f"comparator must return shape ({len(trace)},); got {values.shape}")
        return values

    return so_far


def plot_regret_per_round(
    runs: Mapping[str, Runs],
    *,
    comparator: Any,
    bounds: Mapping[str, float | None] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the average regret of each player so far, and what was proven for the last round.

    Parameters
    ----------
    runs : mapping from label to Trace or sequence of Traces
        As in `plot_regret`.
    comparator : array_like of shape (d,), FixedDecision, or callable
        As in `plot_regret`.
    bounds : mapping from label to float, optional
        Bounds on the expected regret per round of the whole run: dashed, with a triangle at the
        last round, in the player's colour; one above the plotted range is told in the legend only.
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
        If traces differ in length or there are none, or for a bound of nobody.
    """
    rounds, lines = lines_of(runs, regret_against(comparator))
    lines = [line.map(lambda values: values / rounds) for line in lines]
    axes = axes_for(ax)
    shown = rounds >= rounds[-1] / 1000.0
    middles = [line.middle[shown] for line in lines]
    top = max(*(middle.max() for middle in middles), 0.0)
    low = min(*(middle.min() for middle in middles), 0.0)
    top = top if top - low > 1e-9 else low + 1.0
    limit = top + 0.15 * (top - low)
    for index, line in enumerate(lines):
        draw(axes, index, line, rounds)
    draw_bounds(axes, lines, bounds, rounds, limit=limit)
    axes.axhline(0.0, color=GREY, linewidth=0.8, zorder=1)
    logarithmic_rounds(axes, rounds[-1])
    axes.set_ylim(low - 0.05 * (top - low), limit)
    return finish(axes, "regret per round so far")


def plot_run_report(report: RunReport, *, ax: Sequence[Axes] | None = None) -> Figure:
    """Draw a report: average loss on the left, regret on the right.

    Parameters
    ----------
    report : RunReport
        From `dpoco.evaluation.compare_private` or one of its kind.
    ax : two matplotlib Axes, optional
        Default: a new figure, 11 x 5 inches.

    Returns
    -------
    Figure
        To be saved with ``figure.savefig(path)``.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        If `ax` is not a pair of axes.
    """
    pair = new_figure((11.0, 5.0)).subplots(1, 2) if ax is None else ax
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
    return headline(
        whole_figure(left),
        f"{report.stream['name']}: {report.rounds:,} rounds, "
        f"epsilon = {promised['epsilon']:.3g}, delta = {promised['delta']:.2g}{band}",
    )


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
            marker=MARKERS[index], markersize=7, alpha=0.6 if len(values) > 1 else 1.0,
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
    title = f"{plain(report.stream['name'])}: {report.stream['rounds']:,} records, "
    title += f"epsilon = {promised['epsilon']:.3g}" + (f", {fits} fits" if fits > 1 else "")
    return finish(axes, "", title)
