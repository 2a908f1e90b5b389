"""Figures of runs: average loss and regret over time. Not private: they show raw losses.

Every function takes ``ax=`` and returns what it drew on; none shows, saves or keeps anything, and
matplotlib (extra ``plot``) is imported on use. Colours are those of Okabe and Ito, told apart by
all forms of colour vision, and every line also has a style of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpoco.evaluation import RunReport
from dpoco.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_loss", "plot_regret", "plot_run_report"]

FloatArray = NDArray[np.float64]
Runs = Trace | Sequence[Trace]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
_STYLES = ("-", (0, (6, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1)), "-", "--")
_LARGEST_SHOWN = 2000


@dataclass(frozen=True)
class _Line:
    """Cumulative loss of one player: median, smallest and largest over repetitions."""

    label: str
    middle: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None


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
    """
    rounds, lines = _lines(runs)
    axes = _axes(ax)
    for index, line in enumerate(lines):
        _draw(axes, index, line, rounds, 1.0 / rounds, np.zeros_like(line.middle))
    # The average over a handful of rounds says nothing: the first thousandth is left out.
    axes.set_xscale("log")
    axes.set_xlim(max(1.0, rounds[-1] / 1000.0), max(2, rounds[-1]))
    shown = rounds >= rounds[-1] / 1000.0
    if all((line.middle[shown] > 0.0).all() for line in lines):
        _log_scale(axes, lines, rounds, shown)
    axes.set_xlabel("round (logarithmic)")
    axes.set_ylabel("average loss so far")
    _finish(axes)
    return axes


def plot_regret(
    runs: RunReport | Mapping[str, Runs], *, comparator: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw the regret so far: total loss minus that of a fixed decision.

    Parameters
    ----------
    runs : RunReport, or mapping from label to Trace or sequence of Traces
        As in `plot_loss`.
    comparator : array_like of shape (d,) or FixedDecision, optional
        What traces are compared with; a report brings its own, the best fixed decision.
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
        If `comparator` is missing for traces or given for a report.
    """
    if isinstance(runs, RunReport) != (comparator is None):
        raise ValueError("comparator belongs to traces; a report has its own")
    rounds, lines = _lines(runs)
    if isinstance(runs, RunReport):
        baseline = np.array(runs.curves.best_fixed)
        lines = [line for line in lines if line.label != _BEST_FIXED]
    else:
        first = _traces(next(iter(runs.values())))[0]
        decision = getattr(comparator, "decision", comparator)
        baseline = np.cumsum(first.comparator_losses(decision))[rounds - 1]
    axes = _axes(ax)
    for index, line in enumerate(lines):
        if isinstance(runs, RunReport) and line.label == _BEST_CONSTANT:
            index = 3  # the colour it has in `plot_loss`
        _draw(axes, index, line, rounds, np.ones(len(rounds)), baseline)
    axes.axhline(0.0, color="#999999", linewidth=0.8, zorder=1)
    axes.set_xlim(0, rounds[-1])
    _thousands(axes.xaxis)
    _thousands(axes.yaxis)
    axes.set_xlabel("round")
    axes.set_ylabel("regret against the best fixed decision")
    _finish(axes)
    return axes


def plot_run_report(report: RunReport, *, ax: Sequence[Axes] | None = None) -> Figure:
    """Draw a report: average loss on the left, regret on the right.

    Parameters
    ----------
    report : RunReport
        From `dpoco.evaluation.compare_private`.
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
    pair = _new_figure((11.0, 5.0)).subplots(1, 2) if ax is None else ax
    if len(pair) != 2:
        raise ValueError(f"ax must be a pair of axes; got {len(pair)}")
    left, right = pair
    figure: Figure = left.figure.get_figure(root=True)
    plot_loss(report, ax=left)
    plot_regret(report, ax=right)
    promised = report.guarantee
    left.set_title("Average loss", loc="left", fontweight="bold")
    right.set_title("Regret", loc="left", fontweight="bold")
    repeats = len(report.private.average_losses)
    band = f", median and range of {repeats} runs" if repeats > 1 else ""
    figure.suptitle(
        f"{report.stream['name']}: {report.rounds:,} rounds, "
        f"epsilon = {promised['epsilon']:.3g}, delta = {promised['delta']:.2g}{band}",
        x=0.012,
        ha="left",
        fontsize="medium",
    )
    return figure


_PRIVATE, _NONPRIVATE = "private", "without noise"
_BEST_FIXED, _BEST_CONSTANT = "best fixed decision", "best constant prediction"


def _lines(runs: RunReport | Mapping[str, Runs]) -> tuple[NDArray[np.int64], list[_Line]]:
    if isinstance(runs, RunReport):
        c = runs.curves
        spread = len(runs.private.average_losses) > 1
        low, high = np.array(c.private_low), np.array(c.private_high)
        return np.array(c.rounds), [
            _Line(_PRIVATE, np.array(c.private), low if spread else None, high if spread else None),
            _Line(_NONPRIVATE, np.array(c.nonprivate)),
            _Line(_BEST_FIXED, np.array(c.best_fixed)),
            _Line(_BEST_CONSTANT, np.array(c.best_constant)),
        ]
    grouped = {label: _traces(value) for label, value in runs.items()}
    lengths = {len(trace) for traces in grouped.values() for trace in traces}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError("the traces must have the same number of rounds, at least one")
    length = lengths.pop()
    shown = np.unique(
        np.concatenate(
            [
                np.linspace(1, length, _LARGEST_SHOWN // 2),
                np.geomspace(1, length, _LARGEST_SHOWN // 2),
            ]
        ).round()
    ).astype(np.int64)
    lines = []
    for label, traces in grouped.items():
        sums = np.stack([np.cumsum(trace.losses)[shown - 1] for trace in traces])
        spread = len(traces) > 1
        lines.append(
            _Line(
                label,
                np.median(sums, axis=0),
                sums.min(axis=0) if spread else None,
                sums.max(axis=0) if spread else None,
            )
        )
    return shown, lines


def _traces(value: Runs) -> Sequence[Trace]:
    return [value] if isinstance(value, Trace) else list(value)


def _draw(
    axes: Axes,
    index: int,
    line: _Line,
    rounds: NDArray[np.int64],
    factor: FloatArray,
    baseline: FloatArray,
) -> None:
    """Draw a line and its band; the legend tells its last value."""
    values = (line.middle - baseline) * factor
    colour = _COLOURS[index % len(_COLOURS)]
    style = _STYLES[index % len(_STYLES)]
    if line.low is not None and line.high is not None:
        axes.fill_between(
            rounds,
            (line.low - baseline) * factor,
            (line.high - baseline) * factor,
            color=colour,
            alpha=0.2,
            linewidth=0,
            zorder=2,
        )
    axes.plot(
        rounds,
        values,
        color=colour,
        linestyle=style,
        linewidth=1.8,
        label=f"{line.label}: {_short(float(values[-1]))}",
        zorder=3,
    )


def _log_scale(
    axes: Axes, lines: Sequence[_Line], rounds: NDArray[np.int64], shown: NDArray[np.bool_]
) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    edges = [line.middle[shown] / rounds[shown] for line in lines]
    edges += [line.high[shown] / rounds[shown] for line in lines if line.high is not None]
    axes.set_yscale("log")
    axes.set_ylim(min(edge.min() for edge in edges) / 1.3, max(edge.max() for edge in edges) * 1.3)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def _thousands(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))


def _finish(axes: Axes) -> None:
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    # Below the axes: nowhere else is it sure to cover no line.
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _axes(ax: Axes | None) -> Axes:
    return _new_figure((5.5, 5.0)).subplots() if ax is None else ax


def _new_figure(size: tuple[float, float]) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            'figures need matplotlib: pip install "dpoco[plot]"', name="matplotlib"
        ) from None
    # Not through pyplot, which would keep the figure alive and pick a window system.
    return Figure(figsize=size, layout="constrained", dpi=150)
