"""The figure of docs/comparison.md: regret of every contender, one panel a stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pages import save_figure
from side_measure import BUDGETS, Line, Table

# Okabe and Ito's colours; a shape each, so that colour is not needed.
STYLES = dict(zip(BUDGETS, (("#000000", "o"), ("#D55E00", "s"), ("#0072B2", "^")), strict=True))
PANELS = ("shuttle", "regression", "pollsters", "switching", "sphere", "cube")


def shown(line: Line) -> bool:
    """Private lines tuned in hindsight are in the tables only."""
    return bool(line.regrets) and ("best step" not in line.name or line.kind == "non-private")


def draw(tables: Sequence[Table], path: Path) -> None:
    """Write the figure of these tables."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    by_key = {table.key: table for table in tables}
    rows = {key: [line for line in by_key[key].lines if shown(line)] for key in PANELS}
    heights = [len(lines) + 2 for lines in rows.values()]
    # One column, as wide as a telephone held upright can show.
    figure = Figure(figsize=(6.6, 0.27 * sum(heights)), layout="constrained")
    axes = figure.subplots(len(PANELS), 1, gridspec_kw={"height_ratios": heights})
    for ax, (key, lines) in zip(axes, rows.items(), strict=True):
        for y, line in enumerate(lines):
            if line.kind == "ours":
                ax.axhspan(y - 0.5, y + 0.5, color="0.92", zorder=0)
            for column, (mean, error) in line.regrets.items():
                colour, marker = STYLES[column]
                ax.errorbar(
                    max(mean, 1e-4), y, xerr=error, color=colour, marker=marker, markersize=5,
                    linestyle="none", capsize=2, label=column, zorder=3,
                )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlim(7e-5, 1.0)
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_yticks(range(len(lines)), [line.name for line in lines], fontsize=9)
        ax.set_ylim(len(lines) - 0.5, -0.5)
        ax.set_title(by_key[key].title, loc="right", fontsize=10, fontweight="bold")
        ax.grid(axis="x", which="major", linewidth=0.4)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.set_xlabel("regret per round: less is better; below 0.0001, drawn there", fontsize=8)
    handles, labels = axes[0].get_legend_handles_labels()
    first = {label: handle for handle, label in zip(handles, labels, strict=True)}
    figure.legend(
        [first[name] for name in BUDGETS], list(BUDGETS), loc="outside upper center", ncols=3
    )
    save_figure(figure, path, dpi=95)
