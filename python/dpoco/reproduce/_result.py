"""What a rerun of Table 5.1 found, as a value that JSON carries."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dpoco.reproduce._baselines import BaselineRow
from dpoco.reproduce._cell import Outcome
from dpoco.reproduce._learning import LearningHorizon
from dpoco.reproduce._printed import RUNS, PrintedCell
from dpoco.reproduce._verdict import Verdict

__all__ = ["SCHEMA", "Table51", "TableRow"]

SCHEMA = "dpoco.table-5.1/1"


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
class Table51:
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

    settings: dict[str, Any]
    rows: tuple[TableRow, ...]
    learning: tuple[LearningHorizon, ...]
    baselines: tuple[BaselineRow, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        body: dict[str, Any] = _finite(asdict(self))
        return {"schema": SCHEMA, **body}

    def to_json(self) -> str:
        """Return the result as indented JSON text, without NaN or infinity."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Table51:
        """Return the result written by `to_dict`; `ValueError` if it is none."""
        if not isinstance(record, Mapping) or record.get("schema") != SCHEMA:
            raise ValueError(f"not a result of schema {SCHEMA}")
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
