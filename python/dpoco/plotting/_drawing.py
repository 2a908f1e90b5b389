"""How lines, bands and axes look, shared by all figures."""

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

FloatArray = NDArray[np.float64]
Runs = Trace | Sequence[Trace]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
STYLES = ("-", (0, (6, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1)), "-", "--")
_LARGEST_SHOWN = 2000


@dataclass(frozen=True)
class Line:
    """Cumulative loss of one player: median, smallest and largest over repetitions."""

    label: str
    middle: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None


PRIVATE, NONPRIVATE = "private", "without noise"
BEST_FIXED, BEST_CONSTANT = "best fixed decision", "best constant prediction"


def lines_of(runs: RunReport | Mapping[str, Runs]) -> tuple[NDArray[np.int64], list[Line]]:
    if isinstance(runs, RunReport):
        c = runs.curves
        spread = len(runs.private.average_losses) > 1
        low, high = np.array(c.private_low), np.array(c.private_high)
        return np.array(c.rounds), [
            Line(PRIVATE, np.array(c.private), low if spread else None, high if spread else None),
            Line(NONPRIVATE, np.array(c.nonprivate)),
            Line(BEST_FIXED, np.array(c.best_fixed)),
            Line(BEST_CONSTANT, np.array(c.best_constant)),
        ]
    grouped = {label: traces_of(value) for label, value in runs.items()}
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
            Line(
                label,
                np.median(sums, axis=0),
                sums.min(axis=0) if spread else None,
                sums.max(axis=0) if spread else None,
            )
        )
    return shown, lines


def traces_of(value: Runs) -> Sequence[Trace]:
    return [value] if isinstance(value, Trace) else list(value)


def draw(
    axes: Axes,
    index: int,
    line: Line,
    rounds: NDArray[np.int64],
    factor: FloatArray,
    baseline: FloatArray,
) -> None:
    """Draw a line and its band; the legend tells its last value."""
    values = (line.middle - baseline) * factor
    colour = COLOURS[index % len(COLOURS)]
    style = STYLES[index % len(STYLES)]
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
        label=f"{line.label}: {short(float(values[-1]))}",
        zorder=3,
    )


def log_scale(
    axes: Axes, lines: Sequence[Line], rounds: NDArray[np.int64], shown: NDArray[np.bool_]
) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    edges = [line.middle[shown] / rounds[shown] for line in lines]
    edges += [line.high[shown] / rounds[shown] for line in lines if line.high is not None]
    axes.set_yscale("log")
    axes.set_ylim(min(edge.min() for edge in edges) / 1.3, max(edge.max() for edge in edges) * 1.3)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def thousands(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))


def finish(axes: Axes) -> None:
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    # Below the axes: nowhere else is it sure to cover no line.
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def axes_for(ax: Axes | None) -> Axes:
    return new_figure((5.5, 5.0)).subplots() if ax is None else ax


def new_figure(size: tuple[float, float]) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            'figures need matplotlib: pip install "dpoco[plot]"', name="matplotlib"
        ) from None
    # Not through pyplot, which would keep the figure alive and pick a window system.
    return Figure(figsize=size, layout="constrained", dpi=150)
