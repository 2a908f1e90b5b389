"""Style of lines, bands and axes, shared by all figures."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import Fields, FloatArray, IntArray, import_package
from dpoco.bandits import BanditTrace
from dpoco.evaluation import Comparison, RunReport
from dpoco.evaluation.reports import sample_rounds
from dpoco.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

AnyTrace = Trace | BanditTrace
Runs = AnyTrace | Sequence[AnyTrace] | Mapping[Hashable, AnyTrace]

# Okabe and Ito's colours, which colour-blind readers can distinguish. Line styles also differ, for
# prints without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
STYLES = ("-", (0, (6, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1)), "-", "--")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
BOUND_STYLE = (0, (8, 4))  # for proven bounds, thinner than measured lines
GREY = "#999999"
# Style for figures of several learners: ``matplotlib.rcParams.update(dpoco.plotting.STYLE)``.
STYLE: Fields = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.prop_cycle": f"cycler(color={list(COLOURS)}, ls=['-', '--', ':', '-.', '-', '--', ':'])",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "dpoco",  # so that equal figures give equal files
}
_LARGEST_MARKED = 50
# Weak keys, so that unused figures are freed.
_PLACES: MutableMapping[object, dict[str, int]] = WeakKeyDictionary()  # figure -> label -> index
_STRETCH = 3.0  # bounds up to this multiple of the highest line are drawn


@dataclass(frozen=True)
class Line:
    """Values of one player: median, and smallest and largest over several repetitions.

    Attributes
    ----------
    label : str
        Name of the player, for the legend.
    middle : ndarray of float64, shape (n,)
        Value at each displayed round.
    low, high : ndarray of float64, shape (n,), or None
        Edges of the band; None for a single run.
    """

    label: str
    middle: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None

    @classmethod
    def of(cls, label: str, table: FloatArray) -> Line:
        """Return the line for repetitions, one per row.

        Parameters
        ----------
        label : str
        table : ndarray, shape (runs, n)
            At least one run.
        """
        band = (table.min(axis=0), table.max(axis=0)) if len(table) > 1 else ()
        return cls(label, np.median(table, axis=0), *band)

    @property
    def top(self) -> FloatArray:
        """Upper edge."""
        return self.middle if self.high is None else self.high

    def map(self, change: Callable[[FloatArray], FloatArray]) -> Line:
        """Return the line with transformed values.

        Bands keep their edges, so `change` must preserve the order.
        """
        low, high = (None if edge is None else change(edge) for edge in (self.low, self.high))
        return Line(self.label, change(self.middle), low, high)


PRIVATE, NONPRIVATE = "private", "without noise"
BEST_FIXED, BEST_CONSTANT = "best fixed decision", "best constant prediction"


def look(index: int) -> tuple[str, Any]:
    """Return colour and line style of the line `index`; the first 14 differ.

    Colours repeat after seven lines, with other styles.
    """
    cycle = index // len(COLOURS)
    # Each cycle through the colours starts with another style.
    return COLOURS[index % len(COLOURS)], STYLES[(index + cycle) % len(STYLES)]


def place(axes: Axes, label: str, index: int) -> int:
    """Return the index of a label's look, which is the same on all axes of one figure.

    A label that is new in the figure gets `index`, or the next unused index.

    So a learner has the same colour in both halves of a report, whatever else is drawn there.
    """
    known = _PLACES.setdefault(whole_figure(axes), {})
    if label not in known:
        # Two players with equal looks could not be distinguished, even if the palette is used up.
        known[label] = next(i for i in count(index) if i not in known.values())
    return known[label]


def cumulative_losses(trace: AnyTrace) -> FloatArray:
    """Return the cumulative losses, shape (T,); `TypeError` for a bandit's trace."""
    if isinstance(trace, BanditTrace):
        raise TypeError("the trace of a bandit has rewards instead of losses: see plot_regret")
    return np.cumsum(trace.losses)


def player_lines(
    runs: RunReport | Comparison | Mapping[str, Runs],
    so_far: Callable[[Any], FloatArray] = cumulative_losses,
) -> tuple[NDArray[np.int64], list[Line]]:
    """Return the displayed rounds, and for every player the values of ``so_far(trace)``.

    For a report, the players are the private learner, the one without noise, and the two
    comparators, with the names in the report.

    Parameters
    ----------
    runs : RunReport, Comparison, or mapping from label to traces
    so_far : callable
        Takes a trace and returns a value for each round, shape (T,). Not used for a report.

    Returns
    -------
    (ndarray of int64, list of Line)
        Displayed rounds, counted from 1, and the lines at these rounds; at most 400.
    """
    if isinstance(runs, RunReport):
        c = runs.curves
        repeated = len(runs.private.average_losses) > 1
        band = map(np.array, (c.private_low, c.private_high) if repeated else ())
        return np.array(c.rounds), [
            Line(PRIVATE, np.array(c.private), *band),
            Line(NONPRIVATE, np.array(c.nonprivate)),
            Line(BEST_FIXED, np.array(c.best_fixed)),
            Line(BEST_CONSTANT, np.array(c.best_constant)),
        ]
    grouped = group_by_label(runs)
    # Repetitions are compared round by round, so a band needs runs of equal length.
    shown = sample_rounds(common_length(grouped))
    return shown, [
        Line.of(
            label, np.stack([np.asarray(so_far(trace), np.float64)[shown - 1] for trace in traces])
        )
        for label, traces in grouped.items()
    ]


def group_by_label(runs: Comparison | Mapping[str, Runs]) -> dict[str, Sequence[AnyTrace]]:
    """Return the traces of every player.

    Raises
    ------
    ValueError
        For a comparison without traces.
    """
    named: Mapping[str, Runs] = runs.runs if isinstance(runs, Comparison) else runs
    if isinstance(runs, Comparison) and not named:
        raise ValueError("a comparison from a file, or of one-time fits alone, has no traces")
    return {label: list_traces(value) for label, value in named.items()}


def common_length(grouped: Mapping[str, Sequence[AnyTrace]]) -> int:
    """Return the common number of rounds of all traces; `ValueError` if there is none."""
    lengths = {len(trace) for traces in grouped.values() for trace in traces}
    if len(lengths) != 1 or 0 in lengths or not all(grouped.values()):
        raise ValueError("the traces must have the same number of rounds, at least one")
    return lengths.pop()


def list_traces(value: Runs) -> Sequence[AnyTrace]:
    """Return one or several traces as a list; a mapping of runs is taken in its order."""
    if isinstance(value, Mapping):
        return list(value.values())
    return [value] if isinstance(value, (Trace, BanditTrace)) else list(value)


def plain(text: str) -> str:
    """Return a name as text without typesetting."""
    # matplotlib reads text between dollar signs as a formula.
    return text.replace("$", r"\$")


def draw(
    axes: Axes, index: int, line: Line, rounds: FloatArray | IntArray, legend: str | None = None
) -> None:
    """Draw a line and its band; by default, the legend shows its last value.

    Parameters
    ----------
    axes : Axes
    index : int
        Index in the palette, unless the label already has one in this figure.
    line : Line
    rounds : ndarray, shape (n,)
        Rounds of its values.
    legend : str, optional
        Text after the label.
    """
    colour, style = look(place(axes, line.label, index))
    if line.low is not None and line.high is not None:
        axes.fill_between(
            rounds, line.low, line.high, color=colour, alpha=0.2, linewidth=0, zorder=2
        )
    axes.plot(
        rounds, line.middle, color=colour, linestyle=style, linewidth=1.8, zorder=3,
        marker="o" if len(rounds) == 1 else None,  # a single point makes no line
        clip_on=len(rounds) > 1,
        label=f"{plain(line.label)}: {legend or short(float(line.middle[-1]))}",
    )  # fmt: skip


def draw_bounds(
    axes: Axes,
    lines: Sequence[Line],
    bounds: Mapping[str, float | None] | None,
    rounds: NDArray[np.int64],
    *,
    limit: float | None = None,
) -> None:
    """Draw proven bounds for the last round, dashed; those above `limit` are only in the legend.

    Parameters
    ----------
    axes : Axes
    lines : sequence of Line
        Lines of the players that may have bounds.
    bounds : mapping from label to float or None
        None: no bounds at all. A value that is None or infinite: no bound for this player.
    rounds : ndarray
        Displayed rounds; the bounds are for the last one.
    limit : float, optional
        Default: three times the highest line.

    Raises
    ------
    ValueError
        For a bound of an unknown player.
    """
    if bounds is None:
        return
    names = [line.label for line in lines]
    if not set(bounds) <= set(names):
        raise ValueError(f"bounds must be of {names}")
    if limit is None:
        limit = _STRETCH * max(float(line.top.max()) for line in lines)
    last = float(rounds[-1])
    for index, name in enumerate(names):
        bound = bounds.get(name)
        if bound is None or not math.isfinite(bound):
            continue
        colour = look(place(axes, name, index))[0]
        style: Fields = {"color": colour, "linestyle": BOUND_STYLE, "linewidth": 1.0}
        label = f"proven for {plain(name)}: {short(bound)}"
        if bound > limit:
            axes.plot([], [], label=f"{label} (above the figure)", **style)
        else:
            axes.plot([0.5, last], [bound, bound], zorder=4, label=label, **style)
            axes.plot(last, bound, color=colour, marker="v", markersize=8, clip_on=False, zorder=4)


def mark_switches(axes: Axes, decisions: NDArray[np.int64]) -> None:
    """Draw thin vertical lines at the switches of a sequence of experts, shape (T,), if few.

    More than 50 lines would hide the curves and are not drawn.
    """
    switches = np.flatnonzero(np.diff(decisions)) if decisions.ndim else np.empty(0)
    if len(switches) <= _LARGEST_MARKED:
        for after in switches:
            axes.axvline(after + 1.0, color="#BBBBBB", linewidth=0.8, zorder=1)


def labelled_decades(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    # A short axis has too few decades for labels.
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300.0 * low else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def log_scale(axes: Axes, lines: Sequence[Line], shown: NDArray[np.bool_]) -> None:
    """Set a logarithmic value axis that shows these rounds of all lines."""
    low = min(line.middle[shown].min() for line in lines)
    axes.set_yscale("log")
    axes.set_ylim(low / 1.3, max(line.top[shown].max() for line in lines) * 1.3)
    labelled_decades(axes.yaxis)


def short(value: float) -> str:
    """Return a number for a legend: three digits, or an integer with separators from 1000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def thousands(axis: Axis) -> None:
    """Label an axis at about five places, with separators for thousands."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))


def linear_rounds(axes: Axes, last: float) -> None:
    """Set a linear axis of rounds from 0 to `last`, with separators for thousands on both axes."""
    axes.set_xscale("linear")  # the axes may already be in use
    axes.set_yscale("linear")
    axes.set_xlim(0, last)
    thousands(axes.xaxis)
    thousands(axes.yaxis)
    axes.set_xlabel("round")


def logarithmic_rounds(axes: Axes, last: float) -> None:
    """Set a logarithmic axis of rounds that ends at `last`."""
    # Averages over a few rounds show nothing, so the first thousandth is left out.
    axes.set_xscale("log")
    axes.set_xlim(max(1.0, last / 1000.0), max(2.0, last))
    axes.set_xlabel("round (logarithmic)")


def bare(axes: Axes, *sides: str, grid: bool = True) -> None:
    """Draw the grid, and remove two or more sides."""
    if grid:
        axes.grid(True, color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
    for side in ("top", "right", *sides):
        axes.spines[side].set_visible(False)


def finish(axes: Axes, label: str, title: str = "", columns: int = 2) -> Axes:
    """Label the values, draw the grid, put the legend below; return the axes."""
    axes.set_ylabel(label)
    if title:
        axes.set_title(title, loc="left", fontsize="medium")
    bare(axes)
    legend_below(axes, columns)
    return axes


def headline(figure: Figure, text: str) -> Figure:
    """Put a title above a figure of several axes; return the figure."""
    figure.suptitle(text, x=0.012, ha="left", fontsize="medium")
    return figure


def whole_figure(axes: Axes) -> Figure:
    """Return the figure that contains the axes."""
    figure: Figure = axes.figure.get_figure(root=True)
    return figure


def density(columns: NDArray[np.int64], places: Sequence[IntArray], rows: int = 1) -> FloatArray:
    """Return how often each cell was hit, per run and round of its column, (rows, columns).

    `columns` are those of the rounds; `places` are row * columns + column, for every run.

    Parameters
    ----------
    columns : ndarray of int, shape (T,)
        Column of each round, increasing from 0.
    places : sequence of ndarray of int
        Places of each run; rounds may be missing.
    rows : int
        Rows of the table.
    """
    width = int(columns[-1]) + 1
    met = sum(np.bincount(each, minlength=rows * width) for each in places)
    return np.reshape(met, (rows, width)) / (len(places) * np.bincount(columns))


def shades(lightest: str) -> Colormap:
    """Return a colour scale from this colour to the first one of the palette."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shares", [lightest, COLOURS[0]])


def legend_below(axes: Axes, columns: int = 2) -> None:
    """Put the legend below the axes, the only place where it surely covers no line.

    It has one column if two would be too narrow for the longest label, and at most `columns`.
    Longer labels are wrapped.
    """
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    spec = axes.get_subplotspec()
    share = 1 if spec is None else spec.get_gridspec().ncols
    width = 12.4 * float(whole_figure(axes).get_size_inches()[0]) / share  # characters side by side
    # Five characters are for the sample of the line and the space around it.
    if max(len(label) for label in labels) > width / columns - 5.0:
        columns = 1
    wide = max(16, int(width / columns - 5.0))
    axes.legend(
        handles, [textwrap.fill(label, wide) for label in labels], frameon=False,
        loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns,
    )  # fmt: skip


def axes_for(ax: Axes | None, height: float = 5.0) -> Axes:
    """Return the given axes, or those of a new figure, which is displayed in a notebook."""
    if ax is not None:
        return ax
    figure: Any = new_figure((5.5, height))
    axes: Any = figure.subplots()
    # Notebooks display every object with this method.
    axes._repr_png_ = figure._repr_png_
    return axes  # type: ignore[no-any-return]


def new_figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure for your own axes; pyplot does not manage it.

    Parameters
    ----------
    size : (float, float)
        Width and height, in inches.

    Returns
    -------
    Figure
        Save it with ``figure.savefig(path)``.

    Raises
    ------
    ImportError
        Without matplotlib: ``pip install "dpoco[plot]"``.
    """
    made = import_package("matplotlib.figure", "a figure", "plot").Figure
    # Not through pyplot, which would keep the figure alive and choose a window system.
    figure: Any = made(figsize=size, layout="constrained", dpi=150)
    figure._repr_png_ = partial(_render_png, figure)
    return figure  # type: ignore[no-any-return]


def _render_png(figure: Figure) -> bytes:
    """Return the picture that a notebook shows for a figure or for its axes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()
