"""What a rerun of Table 5.1 found, as a value that JSON carries, and in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from dpoco.reproduce._cell import BaselineRow, LearningHorizon, Outcome
from dpoco.reproduce._printed import RUNS, PrintedCell
from dpoco.reproduce._shared import Result, markdown_table
from dpoco.reproduce._verdict import Verdict

__all__ = ["Table51", "TableRow", "format_markdown"]

_KEY = ("p", "d", "T")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One cell of the table: the printed OFW row, and what the tree learner does there.

    Attributes
    ----------
    printed : PrintedCell
        The row as printed; it has the cell's T, d and p.
    outcomes : dict of str to Outcome
        By variant: "tight", "tight_tree" (the same with the paper's tree), "corrected", "paper"
        and "noise_free".
    noise_ratio_tree : float
        Standard deviation of a coordinate of one draw, published constants over exact accounting,
        both with a tree.
    noise_ratio : float
        The same on the noisiest released sum, with the sum that "tight" uses.
    risk_ratio, risk_ratio_se : float
        Mean risk of "paper" over that of "tight", and its standard error.
    excess_risk_ratio, excess_risk_ratio_se : float
        The same for the suboptimality.
    tight_minus_paper, tight_tree_minus_paper : float
        Mean difference of the suboptimality on the same data, in standard errors.
    verdict : Verdict or None
        None if none was asked for.
    """

    printed: PrintedCell
    outcomes: dict[str, Outcome]
    noise_ratio_tree: float
    noise_ratio: float
    risk_ratio: float
    risk_ratio_se: float
    excess_risk_ratio: float
    excess_risk_ratio_se: float
    tight_minus_paper: float
    tight_tree_minus_paper: float
    verdict: Verdict | None


@dataclass(frozen=True)
class Table51(Result):
    """Table 5.1 rerun. Not private itself: it scores decisions on raw records.

    Attributes
    ----------
    settings : dict
        Arguments, echoed.
    rows : tuple of TableRow
        One a cell, in the printed order.
    learning : tuple of LearningHorizon
        How many rounds learning takes, if asked for.
    baselines : tuple of BaselineRow
        The batch methods, if asked for.
    seconds : float
        CPU time of everything.
    """

    schema: ClassVar[str] = "dpoco.table-5.1/1"
    settings: dict[str, Any]
    rows: tuple[TableRow, ...]
    learning: tuple[LearningHorizon, ...]
    baselines: tuple[BaselineRow, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        body: dict[str, Any] = _finite(asdict(self))
        return {"schema": self.schema, **body}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Table51:
        """Return the result written by `to_dict`; `ValueError` if it is none."""
        cls._checked(record)
        try:
            return cls(
                settings=dict(record["settings"]),
                rows=tuple(_row(row) for row in record["rows"]),
                learning=tuple(
                    LearningHorizon(**{**entry, "p": float(entry["p"])})
                    for entry in record["learning"]
                ),
                baselines=tuple(_baseline(entry) for entry in record["baselines"]),
                seconds=float(record["seconds"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("malformed result") from error

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per cell and algorithm (needs pandas).

        Algorithms are the variants of the tree learner, the baselines, "printed OFW" and so on,
        and "as printed, simulated", which is not private.
        """
        import pandas as pd

        lines: list[dict[str, Any]] = []

        def add(cell: Any, algorithm: str, what: Any) -> None:
            runs = getattr(what, "runs", RUNS)
            lines.append(
                {
                    "horizon": cell.horizon,
                    "dimension": cell.dimension,
                    "p": cell.p,
                    "algorithm": algorithm,
                    "risk": what.risk,
                    "risk_sd": what.risk_sd,
                    "suboptimality": what.suboptimality,
                    "suboptimality_sd": what.suboptimality_sd,
                    "seconds": what.seconds,
                    "runs": runs,
                }
            )

        for row in self.rows:
            add(row.printed, "printed OFW", row.printed)
            for name, outcome in row.outcomes.items():
                add(row.printed, name, outcome)
            if row.verdict is not None:
                add(row.printed, "as printed, simulated", row.verdict.simulated)
        for entry in self.baselines:
            if entry.printed is not None:
                add(entry, f"printed {entry.algorithm}", entry.printed)
            add(entry, entry.algorithm, entry.outcome)
        return pd.DataFrame(lines)

    def __repr__(self) -> str:
        return f"<dpoco.reproduce.Table51 of {len(self.rows)} cells: not private, for evaluation>"


def _finite(value: Any) -> Any:
    """Return nested values with p = infinity as text, which JSON can carry."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def _printed(record: Mapping[str, Any]) -> PrintedCell:
    return PrintedCell(**{**record, "p": float(record["p"])})


def _row(record: Mapping[str, Any]) -> TableRow:
    body = dict(record)
    body["printed"] = _printed(body["printed"])
    body["outcomes"] = {name: Outcome(**of) for name, of in body["outcomes"].items()}
    if body["verdict"] is not None:
        verdict = dict(body["verdict"])
        body["verdict"] = Verdict(**{**verdict, "simulated": Outcome(**verdict["simulated"])})
    return TableRow(**body)


def _baseline(record: Mapping[str, Any]) -> BaselineRow:
    body = dict(record)
    printed = body["printed"]
    body["printed"] = None if printed is None else _printed(printed)
    return BaselineRow(**{**body, "p": float(body["p"]), "outcome": Outcome(**body["outcome"])})


# ---- Markdown ------------------------------------------------------------------------------------


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
        "1 is predicting zero\n\n" + markdown_table((*_KEY, *titles), lines)
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
        + markdown_table((*_KEY, *titles), lines)
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
    return "What the printed suboptimality costs: epsilon at delta = 1/T\n\n" + markdown_table(
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
        f"{runs} runs a look\n\n" + markdown_table(titles, lines)
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
    return "Suboptimality of the batch methods\n\n" + markdown_table((*_KEY, *titles), lines)


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
