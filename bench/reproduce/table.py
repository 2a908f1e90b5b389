"""Table 5.1 of Han et al., rerun: what can be had at its budget, and what it says in Markdown."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.reproduce.cell import (
    RUNS,
    VARIANTS,
    BaselineRow,
    Cell,
    LearningHorizon,
    Outcome,
    PrintedCell,
    Scores,
    baseline_rows,
    learning_horizon,
    printed_table_5_1,
)
from bench.reproduce.verdict import DirectionLaw, Verdict, judge

from dpoco._validation import choice, import_package, positive_float, positive_int, whole_number
from dpoco.datasets import TARGETS
from dpoco.evaluation.playing import released_deviations
from dpoco.evaluation.reports import Report
from dpoco.published.tables import text_table

Progress = Callable[[str, int, int], None]
Columns = Mapping[str, Callable[[Any], str]]


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
class Table51(Report):
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

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per cell and algorithm (needs pandas).

        Algorithms are the variants of the tree learner, the baselines, "printed OFW" and so on,
        and "as printed, simulated", which is not private.
        """
        pd = import_package("pandas", "to_frame", "files")

        lines: list[dict[str, Any]] = []

        def add(cell: Any, algorithm: str, what: Any) -> None:
            place = {name: getattr(cell, name) for name in ("horizon", "dimension", "p")}
            names = ("risk", "risk_sd", "suboptimality", "suboptimality_sd", "seconds")
            measured = {name: getattr(what, name) for name in names}
            runs = getattr(what, "runs", RUNS)
            lines.append({**place, "algorithm": algorithm, **measured, "runs": runs})

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
        return f"<Table51 of {len(self.rows)} cells: not private, for evaluation>"


def table_5_1(
    *,
    horizons: Sequence[int] | None = None,
    dimensions: Sequence[int] | None = None,
    p: Sequence[float] | None = None,
    seeds: int = 10,
    first_seed: int = 0,
    target: str = "dense",
    test_records: int = 10_000,
    verdicts: bool = True,
    learning_runs: int = 0,
    baselines: bool = False,
    baseline_seconds: float = 20.0,
    progress: Progress | None = None,
) -> Table51:
    """Rerun Table 5.1 of Han et al., at the budget it states: epsilon = 1 and delta = 1/T.

    Every cell is a linear regression on ``x = z / ||z||_q`` (`datasets.linear_regression_stream`)
    over the l_p ball of radius 2. The tree Frank-Wolfe learner runs with its three calibrations,
    with the tight one on the paper's tree, and without noise.

    Parameters
    ----------
    horizons, dimensions, p : sequence, optional
        Which of the printed T in {1000, 2000, 5000, 10000}, d in {5, 10, 20} and p in {1.5, inf};
        default all. This and all following arguments are keyword-only.
    seeds : int, default 10
        Runs per cell, at least 2, each on other data; the same in all variants.
    first_seed : int, default 0
        Seed of the first run.
    target : {"dense", "sparse5", "gaussian"}
        The true parameter. The printed numbers belong to "dense", whatever the paper's text says.
    test_records : int, default 10000
        Size of the test set of each run.
    verdicts : bool, default True
        Also find what budget the printed numbers need, simulate the noise as printed and bound
        what it spends.
    learning_runs : int, default 0
        If positive, also search for the horizon from which on learning beats predicting zero,
        with that many runs a look.
    baselines : bool, default False
        Also run the table's batch methods, privately.
    baseline_seconds : float, default 20
        CPU seconds a baseline may take in a cell; it runs at least once.
    progress : callable, optional
        Called as ``progress("table", done, total)`` after every cell, in rounds.

    Returns
    -------
    Table51

    Raises
    ------
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    With default arguments about 30 seconds on one core, 5 without verdicts.
    ``docs/reproduce.md`` has the findings.
    """
    start = time.process_time()
    cells = _selection(horizons, dimensions, p)
    most = 10**6
    first_seed = whole_number("first_seed", first_seed, 0, most)
    runs = range(first_seed, first_seed + whole_number("seeds", seeds, 2, most))
    choice("target", target, TARGETS)
    positive_int("test_records", test_records, maximum=10**7)
    positive_float("baseline_seconds", baseline_seconds)
    if whole_number("learning_runs", learning_runs, 0, most) == 1:
        raise ValueError("learning_runs must be 0 or at least 2; got 1")
    rows, compared = [], []
    laws: dict[tuple[int, float], DirectionLaw] = {}
    work, done = sum(cell.horizon for cell in cells) * seeds * len(VARIANTS), 0
    for printed in cells:
        key = printed.dimension, printed.p
        cell = Cell(printed.horizon, *key, runs, target, test_records)
        if verdicts and key not in laws:
            laws[key] = DirectionLaw(*key)
        rows.append(_measure(cell, printed, laws.get(key)))
        if baselines:
            others = {
                other.algorithm: other
                for other in printed_table_5_1()
                if (other.horizon, other.dimension, other.p) == (printed.horizon, *key)
            }
            compared += baseline_rows(cell, others, baseline_seconds)
        done += printed.horizon * seeds * len(VARIANTS)
        if progress is not None:
            progress("table", done, work)
    looked = range(first_seed, first_seed + learning_runs)
    learning = [
        learning_horizon(dimension, power, looked, target)
        for power, dimension in dict.fromkeys((cell.p, cell.dimension) for cell in cells)
        if looked
    ]
    settings = {
        "horizons": sorted({cell.horizon for cell in cells}),
        "dimensions": sorted({cell.dimension for cell in cells}),
        "p": ["inf" if math.isinf(power) else power for power in sorted({c.p for c in cells})],
        "seeds": seeds, "first_seed": first_seed, "target": target, "test_records": test_records,
        "learning_runs": learning_runs,
    }  # fmt: skip
    seconds = time.process_time() - start
    return Table51(settings, tuple(rows), tuple(learning), tuple(compared), seconds)


def _measure(cell: Cell, printed: PrintedCell, law: DirectionLaw | None) -> TableRow:
    scores = {name: cell.play(**options) for name, options in VARIANTS.items()}
    tight, paper = scores["tight"], scores["paper"]
    risk, risk_se = _ratio(paper.risk, tight.risk)
    excess, excess_se = _ratio(paper.suboptimality, tight.suboptimality)
    spreads = {
        name: released_deviations(cell.learner(0, **VARIANTS[name]).plan.mechanism, cell.dimension)
        for name in ("tight", "tight_tree", "paper")
    }
    return TableRow(
        printed=printed,
        outcomes={name: Outcome.of(of) for name, of in scores.items()},
        noise_ratio_tree=spreads["paper"][0] / spreads["tight_tree"][0],
        noise_ratio=spreads["paper"][1] / spreads["tight"][1],
        risk_ratio=risk,
        risk_ratio_se=risk_se,
        excess_risk_ratio=excess,
        excess_risk_ratio_se=excess_se,
        tight_minus_paper=_difference(tight, paper),
        tight_tree_minus_paper=_difference(scores["tight_tree"], paper),
        verdict=None if law is None else judge(cell, printed, law),
    )


def _difference(ours: Scores, theirs: Scores) -> float:
    gap = ours.suboptimality - theirs.suboptimality
    return float(gap.mean() / (gap.std(ddof=1) / math.sqrt(len(gap))))


def _ratio(above: Any, below: Any) -> tuple[float, float]:
    """Return the ratio of two means over the same runs, and its standard error to first order."""
    ratio = float(above.mean() / below.mean())
    residual = above - ratio * below
    return ratio, float(residual.std(ddof=1) / math.sqrt(len(residual)) / abs(below.mean()))


def _selection(
    horizons: Sequence[int] | None, dimensions: Sequence[int] | None, p: Sequence[float] | None
) -> list[PrintedCell]:
    cells = [cell for cell in printed_table_5_1() if cell.algorithm == "OFW"]
    asked = {"horizon": horizons, "dimension": dimensions, "p": p}
    for name, values in asked.items():
        if values is None:
            continue
        known = sorted({getattr(cell, name) for cell in cells})
        wanted = list(values)
        if not wanted or any(value not in known for value in wanted):
            listed = ", ".join(f"{value:g}" for value in known)
            raise ValueError(f"{name} must be among those of the table: {listed}")
        cells = [cell for cell in cells if getattr(cell, name) in wanted]
    return cells


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
    cells = sorted(table.rows, key=lambda row: _place(row.printed))
    judged = [row for row in cells if row.verdict is not None]
    methods = sorted(table.baselines, key=lambda entry: (*_place(entry), entry.algorithm))
    seeds, looks = table.settings["seeds"], sum(entry.runs for entry in table.learning[:1])
    parts = (
        (f"Suboptimality at (1, 1/T), mean ± standard deviation of {seeds} runs; 1 is predicting "
         "zero", _SUBOPTIMALITY, cells),
        ("Risk, and published constants over the tight calibration: standard deviation of a draw "
         "(both with a tree), of the noisiest sum, and mean risk ± standard error", _RISK, cells),
        ("What the printed suboptimality costs: epsilon at delta = 1/T", _VERDICTS, judged),
        ("Smallest horizon at which the tight calibration beats predicting zero at (1, 1/T), "
         f"{looks} runs a look", _LEARNING, table.learning),
        ("Suboptimality of the batch methods", _BASELINES, methods),
    )  # fmt: skip
    shown = [
        f"{title}\n\n{markdown_table(columns, rows)}" for title, columns, rows in parts if rows
    ]
    return "\n\n".join([*shown, _summary(table, cells)])


def _place(cell: Any) -> tuple[float, int, int]:
    return cell.p, cell.dimension, cell.horizon


_KEY: Columns = {
    "p": lambda cell: f"{cell.p:g}",
    "d": lambda cell: str(cell.dimension),
    "T": lambda cell: str(cell.horizon),
}
_PLACE: Columns = {title: lambda row, text=text: text(row.printed) for title, text in _KEY.items()}  # type: ignore[misc]
_VARIANTS = {"paper": "paper", "corrected": "corrected", "tight_tree": "tight, tree",
             "tight": "tight", "noise_free": "no noise"}  # fmt: skip


def _excess(of: Any) -> str:
    return _spread(of.suboptimality, of.suboptimality_sd)


_SUBOPTIMALITY: Columns = {
    **_PLACE,
    "printed": lambda row: _excess(row.printed),
    **{
        title: lambda row, name=name: _excess(row.outcomes[name])  # type: ignore[misc]
        for name, title in _VARIANTS.items()
    },
}


_RISK: Columns = {
    **_PLACE,
    "printed risk": lambda row: _spread(row.printed.risk, row.printed.risk_sd),
    "paper": lambda row: _spread(row.outcomes["paper"].risk, row.outcomes["paper"].risk_sd),
    "tight": lambda row: _spread(row.outcomes["tight"].risk, row.outcomes["tight"].risk_sd),
    "noise, tree / tree": lambda row: f"{row.noise_ratio_tree:.1f}",
    "noise, worst sum": lambda row: f"{row.noise_ratio:.1f}",
    "risk ratio": lambda row: _spread(row.risk_ratio, row.risk_ratio_se),
    "printed seconds": lambda row: _seconds(row.printed.seconds),
    "seconds": lambda row: f"{row.outcomes['tight'].seconds:.2g}",
}


_VERDICTS: Columns = {
    **_PLACE,
    "printed": lambda row: _excess(row.printed),
    "as printed, simulated": lambda row: _excess(row.verdict.simulated),
    "at (1, 1/T)": lambda row: row.verdict.words,
    "needs epsilon": lambda row: _or_dash(row.verdict.needed_epsilon, ".2g"),
    "order repaired, spends": lambda row: f"{row.verdict.repaired_epsilon:.2g}",
    "as printed, spends at least": lambda row: f"{row.verdict.least_epsilon:.2g}",
    "this regression, at least": lambda row: f"{row.verdict.least_epsilon_here:.2g}",
}


def _before(entry: LearningHorizon) -> str:
    known = entry.standard_errors_before
    return "-" if known is None else f"{known:.1f} at T = {entry.before}"


_LEARNING: Columns = {
    "p": _KEY["p"],
    "d": _KEY["d"],
    "smallest T": lambda entry: _or_dash(entry.horizon),
    "suboptimality ± standard error": lambda entry: _spread(
        entry.suboptimality, entry.suboptimality_se
    ),
    "standard errors below 1": lambda entry: f"{entry.standard_errors:.1f}",
    "one step earlier": _before,
}


def _own(entry: BaselineRow) -> str:
    found = entry.outcome
    return _excess(found) if found.runs > 1 else f"{found.suboptimality:.2g}"


_SAME = {True: "yes", False: "no", None: "-"}
_BASELINES: Columns = {
    **_KEY,
    "method": lambda entry: entry.algorithm,
    "printed": lambda entry: "-" if entry.printed is None else _excess(entry.printed),
    "at (1, 1/T)": _own,
    "runs": lambda entry: str(entry.outcome.runs),
    "printed seconds": lambda entry: (
        "-" if entry.printed is None else _seconds(entry.printed.seconds)
    ),
    "seconds": lambda entry: f"{entry.outcome.seconds:.2g}",
    "same problem": lambda entry: _SAME[entry.same_problem],
}


def _or_dash(value: float | None, form: str = "") -> str:
    return "-" if value is None else format(value, form)


def _summary(table: Table51, rows: list[TableRow]) -> str:
    lines = [f"Cells: {len(rows)}; CPU time {table.seconds:.0f} s."]
    judged = [row.verdict for row in rows if row.verdict is not None]
    if judged:
        kinds = [verdict.words for verdict in judged]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        lines.append(f"Printed numbers: {counts}.")
    for name, attribute in (
        ("tight", "tight_minus_paper"),
        ("tight with the paper's tree", "tight_tree_minus_paper"),
    ):
        worse = [row for row in rows if getattr(row, attribute) > 0.0]
        cells = "".join(
            f"; p = {row.printed.p:g}, d = {row.printed.dimension}, T = {row.printed.horizon} by "
            f"{getattr(row, attribute):.1f} standard errors"
            for row in worse
        )
        lines.append(f"Cells in which {name} is worse than paper: {len(worse)}{cells}.")
    return "\n".join(lines)


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 100.0 else f"{value:.3g}"


def _spread(value: float, deviation: float) -> str:
    """Return both with the digits that the deviation leaves meaningful."""
    size = max(abs(value), deviation, 1e-12)
    digits = max(0, 2 - math.floor(math.log10(size)) - 1)
    if 0.0 < deviation < size:
        digits = max(digits, min(digits + 1, 1 - math.floor(math.log10(deviation)) - 1))
    return f"{value:.{digits}f} ± {deviation:.{digits}f}"


def markdown_table(columns: Columns, rows: Iterable[Any]) -> str:
    """Return a table in Markdown: for every column its title, and what it says of a row."""
    return text_table([[*columns], *([text(row) for text in columns.values()] for row in rows)])
