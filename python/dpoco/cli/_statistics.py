"""Options that say which statistics are published, and ``dpoco plan statistics``."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import typer
from typer.core import TyperCommand

from dpoco.accounting import Budget
from dpoco.cli import _shell as shell
from dpoco.learning.participation import Participation
from dpoco.statistics import (
    Categories,
    Count,
    Histogram,
    Mean,
    Monitor,
    Quantiles,
    Share,
    Statistic,
    Sum,
    parse_view,
)

_BINS = 40  # between the ends of a range, for quantiles
_STATISTICS, _INTERVALS, _PRIVACY = "Statistics", "Intervals", "Privacy"
_RANGE, _VALUES = "COLUMN=LOW:HIGH", "COLUMN=VALUE,VALUE,..."
Words = list[str] | None


def _several(text: str, metavar: str) -> Any:
    """Return an option that can be repeated."""
    text = f"{text} Can be repeated."
    return shell.option(text, metavar=metavar, panel=_STATISTICS, shown=False)


@dataclass(kw_only=True)
class Statistics:
    """The statistics to publish, how often, and under which guarantee."""

    count: Annotated[
        bool, shell.option("Count records.", "--count", panel=_STATISTICS, shown=False)
    ] = False
    sum: Annotated[Words, _several("Sum of a column with a public range.", _RANGE)] = None
    mean: Annotated[Words, _several("Mean of a column with a public range.", _RANGE)] = None
    share: Annotated[Words, _several("Share of yes or 1 in a column.", "COLUMN")] = None
    histogram: Annotated[
        Words, _several("Counts of a column by public bins.", "COLUMN=EDGE,EDGE,...")
    ] = None
    categories: Annotated[Words, _several("Counts of a column by public values.", _VALUES)] = None
    quantiles: Annotated[
        Words,
        _several(
            "Quantiles of a column, from 40 bins; the range may be that of --mean.",
            "COLUMN=Q,Q,...@LOW:HIGH",
        ),
    ] = None
    by: Annotated[Words, _several("Column to group by, with its public values.", _VALUES)] = None
    every: Annotated[
        str,
        shell.option(
            "Length of an interval, such as 15min, 1h, 1D or MS.",
            metavar="LENGTH",
            panel=_INTERVALS,
        ),
    ] = "1h"
    view: Annotated[
        Words,
        shell.option(
            'interval, total, "last 24" or "half-life 24". Can be repeated. [default: interval]',
            metavar="VIEW",
            panel=_INTERVALS,
        ),
    ] = None
    releases: Annotated[int, shell.option("Largest number of intervals.", panel=_INTERVALS)] = 8760
    epsilon: Annotated[
        float, shell.option("Privacy budget of all releases together.", panel=_PRIVACY)
    ] = 1.0
    delta: Annotated[
        float, shell.option("Privacy budget of all releases together.", panel=_PRIVACY)
    ] = 1e-6
    person: Annotated[
        str,
        shell.option(
            "Protect all records of a person, who comes in at most so many intervals, so far "
            "apart, with so many records in each; further ones count as empty.",
            metavar="COLUMN=INTERVALS,APART,RECORDS", panel=_PRIVACY, shown=False,
        ),
    ] = ""  # fmt: skip

    def monitor(self) -> Monitor:
        """Return the monitor that is asked for."""
        return Monitor(
            self._statistics(),
            every=self.every,
            releases=self.releases,
            budget=Budget(self.epsilon, self.delta),
            views=[parse_view(text) for text in self.view or ()] or ["interval"],
            by={name: tuple(values.split(",")) for name, values in _pairs(self.by)},
            **self._people(),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Columns whose values are names: they are read as texts."""
        column = self.person.partition("=")[0]
        own = [name for name, _ in (*_pairs(self.by), *_pairs(self.categories))]
        return tuple(dict.fromkeys([*own, *([column] if column else [])]))

    def _statistics(self) -> dict[str, Statistic]:
        """Return the statistics by name."""
        found: dict[str, Statistic] = {"count": Count()} if self.count else {}
        ranges = {n: _range(text) for n, text in (*_pairs(self.sum), *_pairs(self.mean))}
        for name, text in _pairs(self.sum):
            found[f"{name} sum"] = Sum(*_range(text), column=name)
        for name, text in _pairs(self.mean):
            found[f"{name} mean"] = Mean(*_range(text), column=name)
        for name in self.share or ():
            found[f"{name} share"] = Share(column=name)
        for name, text in _pairs(self.histogram):
            found[f"{name} histogram"] = Histogram(_numbers(text), column=name)
        for name, text in _pairs(self.categories):
            found[f"{name} categories"] = Categories(tuple(text.split(",")), column=name)
        for name, text in _pairs(self.quantiles):
            asked, given, ends = text.partition("@")
            if not given and name not in ranges:
                raise ValueError(f"--quantiles {name} needs a range: {name}={asked}@LOW:HIGH")
            low, high = _range(ends) if given else ranges[name]
            edges = tuple(np.linspace(low, high, _BINS + 1).tolist())
            found[f"{name} quantiles"] = Quantiles(_numbers(asked), edges, column=name)
        if not found:
            raise ValueError("name at least one statistic: --count, --mean COLUMN=LOW:HIGH, ...")
        return found

    def _people(self) -> dict[str, Any]:
        if not self.person:
            return {}
        ((_, numbers),) = _pairs([self.person])
        try:
            intervals, apart, records = (*map(int, numbers.split(",")), 1, 1)[:3]
        except ValueError:
            raise ValueError(f"expected whole numbers; got {numbers!r}") from None
        rule = Participation(intervals, separation=apart)
        return {"participation": rule, "records_per_interval": records}


def _pairs(texts: Words) -> list[tuple[str, str]]:
    found = []
    for text in texts or ():
        name, given, rest = text.partition("=")
        if not (name and given and rest):
            raise ValueError(f"expected COLUMN=...; got {text!r}")
        found.append((name, rest))
    return found


def _range(text: str) -> tuple[float, float]:
    low, found, high = text.partition(":")
    try:
        return float(low), float(high if found else "")
    except ValueError:
        raise ValueError(f"expected LOW:HIGH; got {text!r}") from None


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError:
        raise ValueError(f"expected numbers with commas between them; got {text!r}") from None


@dataclass(kw_only=True)
class _Asked(Statistics):
    as_json: shell.JsonFlag = False


class _Command(TyperCommand):
    def invoke(self, ctx: Any) -> None:
        """Print how accurate each number will be."""
        asked: _Asked = super().invoke(ctx)
        with shell.errors_in_one_line():
            monitor = asked.monitor()
            plan = monitor.plan()
        if asked.as_json:
            rows = [asdict(row) for row in plan.rows]
            guarantee = monitor.guarantee.to_dict()
            record = {"room": plan.room, "rows": rows, "guarantee": guarantee}
            shell.print_json({"schema": "dpoco.plan-statistics/1", **record})
        else:
            typer.echo(str(plan))
            typer.echo(f"\n{monitor.guarantee}")


plan_statistics_command = shell.command(
    _Asked,
    "statistics",
    cls=_Command,
    help="""Show how accurate running statistics will be, before any data: see dpoco monitor.

For example:

dpoco plan statistics --count --mean latency=0:1000 --by country=DE,FR --view "last 24"
""",
)
