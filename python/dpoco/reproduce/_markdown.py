"""The rerun table as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpoco.reproduce._result import Table51, TableRow

__all__ = ["format_markdown"]

_KEY = ("p", "d", "T")


def format_markdown(table: Table51) -> str:
    """Return every part of the result as a Markdown table with a line of explanation.

    Parameters
    ----------
    table : Table51

    Returns
    -------
    str
    """
    parts = [_suboptimality(table), _risk(table)]
    if any(row.verdict is not None for row in table.rows):
        parts.append(_verdicts(table))
    if table.learning:
        parts.append(_learning(table))
    if table.baselines:
        parts.append(_baselines(table))
    parts.append(_summary(table))
    return "\n\n".join(parts)


def _suboptimality(table: Table51) -> str:
    seeds = table.settings["seeds"]
    titles = ("printed", "paper", "corrected", "tight, tree", "tight", "no noise")
    lines = []
    for row in _sorted(table):
        names = ("paper", "corrected", "tight_tree", "tight", "noise_free")
        outcomes = [row.outcomes[name] for name in names]
        pairs = [(row.printed.suboptimality, row.printed.suboptimality_sd)]
        pairs += [(of.suboptimality, of.suboptimality_sd) for of in outcomes]
        lines.append([*_key(row.printed), *(_spread(*pair) for pair in pairs)])
    return (
        f"Suboptimality at (1, 1/T), mean ± standard deviation of {seeds} runs; "
        "1 is predicting zero\n\n" + _table((*_KEY, *titles), lines)
    )


def _risk(table: Table51) -> str:
    titles = ("printed risk", "paper", "tight", "noise, tree / tree", "noise, worst sum",
              "risk ratio", "printed seconds", "seconds")  # fmt: skip
    lines = []
    for row in _sorted(table):
        paper, tight = row.outcomes["paper"], row.outcomes["tight"]
        lines.append(
            [
                *_key(row.printed),
                _spread(row.printed.risk, row.printed.risk_sd),
                _spread(paper.risk, paper.risk_sd),
                _spread(tight.risk, tight.risk_sd),
                f"{row.noise_ratio_tree:.1f}",
                f"{row.noise_ratio:.1f}",
                _spread(row.risk_ratio, row.risk_ratio_se),
                _seconds(row.printed.seconds),
                f"{tight.seconds:.2g}",
            ]
        )
    return (
        "Risk, and published constants over the tight calibration: standard deviation of a draw "
        "(both with a tree), of the noisiest sum, and mean risk ± standard error\n\n"
        + _table((*_KEY, *titles), lines)
    )


def _verdicts(table: Table51) -> str:
    titles = ("printed", "as printed, simulated", "at (1, 1/T)", "needs epsilon",
              "order repaired, spends", "as printed, spends at least",
              "this regression, at least")  # fmt: skip
    lines = []
    for row in _sorted(table):
        verdict = row.verdict
        if verdict is None:
            continue
        needed = verdict.needed_epsilon
        lines.append(
            [
                *_key(row.printed),
                _spread(row.printed.suboptimality, row.printed.suboptimality_sd),
                _spread(verdict.simulated.suboptimality, verdict.simulated.suboptimality_sd),
                verdict.words,
                "-" if needed is None else f"{needed:.2g}",
                f"{verdict.repaired_epsilon:.2g}",
                f"{verdict.least_epsilon:.2g}",
                f"{verdict.least_epsilon_here:.2g}",
            ]
        )
    return "What the printed suboptimality costs: epsilon at delta = 1/T\n\n" + _table(
        (*_KEY, *titles), lines
    )


def _learning(table: Table51) -> str:
    lines = []
    for entry in table.learning:
        before = entry.standard_errors_before
        lines.append(
            [
                f"{entry.p:g}",
                str(entry.dimension),
                "-" if entry.horizon is None else str(entry.horizon),
                _spread(entry.suboptimality, entry.suboptimality_se),
                f"{entry.standard_errors:.1f}",
                "-" if before is None else f"{before:.1f} at T = {entry.before}",
            ]
        )
    runs = table.learning[0].runs
    titles = ("p", "d", "smallest T", "suboptimality ± standard error", "standard errors below 1",
              "one step earlier")  # fmt: skip
    return (
        f"Smallest horizon at which the tight calibration beats predicting zero at (1, 1/T), "
        f"{runs} runs a look\n\n" + _table(titles, lines)
    )


def _baselines(table: Table51) -> str:
    titles = ("method", "printed", "at (1, 1/T)", "runs", "printed seconds", "seconds",
              "same problem")  # fmt: skip
    words = {True: "yes", False: "no", None: "-"}
    lines = []
    for entry in sorted(table.baselines, key=lambda e: (e.p, e.dimension, e.horizon, e.algorithm)):
        printed, own = entry.printed, entry.outcome
        lines.append(
            [
                *_key(entry),
                entry.algorithm,
                "-" if printed is None else _spread(printed.suboptimality,
                                                    printed.suboptimality_sd),
                _spread(own.suboptimality, own.suboptimality_sd)
                if own.runs > 1
                else f"{own.suboptimality:.2g}",
                str(own.runs),
                "-" if printed is None else _seconds(printed.seconds),
                f"{own.seconds:.2g}",
                words[entry.same_problem],
            ]
        )  # fmt: skip
    return "Suboptimality of the batch methods\n\n" + _table((*_KEY, *titles), lines)


def _summary(table: Table51) -> str:
    rows = _sorted(table)
    lines = [f"Cells: {len(rows)}; CPU time {table.seconds:.0f} s."]
    judged = [row.verdict for row in rows if row.verdict is not None]
    if judged:
        kinds = [verdict.words for verdict in judged]
        lines.append(
            "Printed numbers: "
            + ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
            + "."
        )
    for name, attribute in (
        ("tight", "tight_minus_paper"),
        ("tight with the paper's tree", "tight_tree_minus_paper"),
    ):
        worse = [row for row in rows if getattr(row, attribute) > 0.0]
        lines.append(
            f"Cells in which {name} is worse than paper: {len(worse)}"
            + "".join(
                f"; p = {row.printed.p:g}, d = {row.printed.dimension}, "
                f"T = {row.printed.horizon} by {getattr(row, attribute):.1f} standard errors"
                for row in worse
            )
            + "."
        )
    return "\n".join(lines)


def _sorted(table: Table51) -> list[TableRow]:
    return sorted(
        table.rows, key=lambda row: (row.printed.p, row.printed.dimension, row.printed.horizon)
    )


def _key(cell: Any) -> tuple[str, str, str]:
    return f"{cell.p:g}", str(cell.dimension), str(cell.horizon)


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 100.0 else f"{value:.3g}"


def _spread(value: float, deviation: float) -> str:
    """Return both with the digits that the deviation leaves meaningful."""
    size = max(abs(value), deviation, 1e-12)
    digits = max(0, 2 - math.floor(math.log10(size)) - 1)
    if 0.0 < deviation < size:
        digits = max(digits, min(digits + 1, 1 - math.floor(math.log10(deviation)) - 1))
    return f"{value:.{digits}f} ± {deviation:.{digits}f}"


def _table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        ["| " + " | ".join(titles) + " |", "|---|" + "---|" * (len(titles) - 1)]
        + ["| " + " | ".join(line) + " |" for line in lines]
    )
