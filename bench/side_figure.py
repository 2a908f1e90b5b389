"""The figure of docs/comparison.md: regret of every contender, one panel a stream."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from pages import in_style, read_rows
from side_measure import BUDGETS, Line, Table

# Okabe and Ito's colours; a shape each, so that colour is not needed.
STYLES = dict(zip(BUDGETS, (("#000000", "o"), ("#D55E00", "s"), ("#0072B2", "^")), strict=True))
PANELS = ("shuttle", "regression", "pollsters", "switching", "sphere", "cube")


def is_shown(line: Line) -> bool:
    """Private lines tuned in hindsight are in the tables only."""
    return bool(line.regrets) and ("best step" not in line.name or line.kind == "non-private")


def read_tables(page: str) -> list[Table]:
    """Return the tables of the page that the figure shows, with their digits there."""
    found = []
    for key in PANELS:
        head, *rows = read_rows(page, key)
        title = re.search(rf"<!-- begin {key} -->\n\*\*(.*?)\*\*", page)
        assert title is not None, key
        found.append(Table(key, title[1], "", [_read_line(head, row) for row in rows]))
    return found


def _read_line(head: list[str], row: list[str]) -> Line:
    cells = {name: cell for name, cell in zip(head, row, strict=True) if name in BUDGETS}
    regrets = {}
    for name, cell in cells.items():
        if cell not in ("", "-"):
            mean, _, error = cell.partition(" ± ")
            regrets[name] = (float(mean), float(error) if error else None)
    public = set(regrets) <= {"no privacy"}
    kind = "ours" if row[0].startswith("**") else "non-private" if public else "private"
    return Line(row[0].strip("*"), kind, regrets)


def draw(tables: Sequence[Table], path: Path) -> None:
    """Write the figure of these tables: a panel for each, one below the other."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    by_key = {table.key: table for table in tables}
    rows = {key: [line for line in by_key[key].lines if is_shown(line)] for key in PANELS}
    heights = [len(lines) + 3 for lines in rows.values()]
    with in_style():
        # One column, as wide as a telephone held upright can show.
        figure = Figure(figsize=(6.6, 0.24 * sum(heights)), layout="constrained")
        axes = figure.subplots(len(PANELS), 1, gridspec_kw={"height_ratios": heights}, sharex=True)
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
            ax.set_yticks(range(len(lines)), [line.name for line in lines])
            ax.set_ylim(len(lines) - 0.5, -0.5)
            title = by_key[key].title.replace(" = ", "\u00a0=\u00a0")
            ax.set_title(textwrap.fill(title, 38), fontweight="bold")
            ax.grid(axis="y", visible=False)
            ax.tick_params(labelbottom=True)
        axes[-1].set_xlabel("regret per round; what is below 0.0001 is drawn there")
        handles, labels = axes[0].get_legend_handles_labels()
        first = {label: handle for handle, label in zip(handles, labels, strict=True)}
        figure.legend(
            [first[name] for name in BUDGETS], list(BUDGETS), loc="outside upper center", ncols=3
        )
        figure.savefig(path)
