"""One dashboard, four ways: the noise of every view at an equal guarantee.

``python bench/dashboards.py`` prints the tables of docs/comparison.md; ``--write`` puts them there.
A count of records is shown for the running interval, in total and of the last 24 intervals. Ways:
every number released by itself, under basic composition (Laplace) or zCDP (Gaussian noise, as
OpenDP composes it); one release an interval, of which the views are sums; one running total, of
which the views are differences; and `dpoco.statistics.Monitor`. Numbers are standard deviations
after the last interval, computed from formulas, not simulated.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from scipy.optimize import brentq, minimize_scalar

import dpoco
from dpoco import Participation
from dpoco.accounting import continual_sum
from dpoco.accounting.gaussian import charged_gaussian_mu
from dpoco.privacy.neighbours import Neighbours
from dpoco.statistics import Count, Last, Monitor
from dpoco.statistics._plan import row_norms

PAGE = Path(__file__).parents[1] / "docs" / "comparison.md"
VIEWS = ("interval", "total", Last(24))
BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
LENGTHS = (720, 8760)
PEOPLE = {"a record": None, "a person, (24, 1)": (24, 1), "a person, (10, 24)": (10, 24)}
START, END = "<!-- dashboards: begin -->\n", "<!-- dashboards: end -->\n"


def count_shares(intervals, person):
    """Return how often a person's records, as early as they may come, are in each release.

    One row a view, one column an interval: shape (views, intervals).
    """
    rounds, apart = person or (1, 1)
    present = np.zeros(intervals)
    present[: rounds * apart : apart] = 1.0
    totals = np.cumsum(present)
    window = totals - np.concatenate([np.zeros(24), totals[:-24]])
    return np.array([present, totals, window])


def zcdp_log_delta(rho):
    """Return the logarithm of delta that rho-zCDP gives at the budget's epsilon.

    Canonne, Kamath and Steinke (2020), Proposition 12, as OpenDP converts.
    """

    def at(log_excess):
        alpha = 1.0 + math.exp(log_excess)
        own = (alpha - 1.0) * (alpha * rho - BUDGET.epsilon) - log_excess
        return own + alpha * math.log1p(-1.0 / alpha)

    return minimize_scalar(at, bounds=(-10.0, 15.0), method="bounded", options={"xatol": 1e-12}).fun


def zcdp_scale(squares):
    """Return the Gaussian noise at a squared l2 sensitivity, by zCDP's conversion."""
    rho = brentq(lambda r: zcdp_log_delta(r) - math.log(BUDGET.delta), 1e-6, 10.0)
    return math.sqrt(squares / (2.0 * rho))


def each_alone(intervals, person, law):
    """Return the noise if every view of every interval is released by itself."""
    shares = count_shares(intervals, person)
    if law == "laplace":
        return [math.sqrt(2.0) * float(shares.sum()) / BUDGET.epsilon] * len(VIEWS)
    return [zcdp_scale(float(np.square(shares).sum()))] * len(VIEWS)


def sums_of_intervals(intervals, person):
    """Return the noise if intervals are released, and views are their sums."""
    scale = zcdp_scale(float(np.square(count_shares(intervals, person)[0]).sum()))
    return [scale, scale * math.sqrt(intervals), scale * math.sqrt(24.0)]


def differences_of_totals(intervals, person):
    """Return the noise if one running total is released, with the noise that is best for it."""
    rounds, apart = person or (1, 1)
    near = Neighbours("zero_out", rounds=rounds, separation=apart)
    factor = continual_sum.factorisation(
        continual_sum.plan_method("blt", intervals, near), intervals
    )
    mu = charged_gaussian_mu(BUDGET, 0.0)
    scale = factor.column(intervals, near) / mu
    return [scale * float(row_norms(factor, view, intervals)[-1]) for view in VIEWS]


def monitor(intervals, person):
    """Return the noise of a monitor's views."""
    rule = None if person is None else Participation(person[0], separation=person[1])
    made = Monitor(
        {"records": Count()}, every=None, releases=intervals, budget=BUDGET, views=VIEWS,
        participation=rule,
    )  # fmt: skip
    return [row.deviation for row in made.plan().rows]


WAYS = {
    "each number alone, basic composition": lambda n, p: each_alone(n, p, "laplace"),
    "each number alone, zCDP": lambda n, p: each_alone(n, p, "gaussian"),
    "intervals alone, zCDP; views are sums": sums_of_intervals,
    "one running total; views are differences": differences_of_totals,
    "`Monitor`": monitor,
}


def make_row(way, intervals, person):
    """Return a row of a table."""
    numbers = " | ".join(f"{x:,.1f}" for x in WAYS[way](intervals, person))
    return f"| {way} | {numbers} |"


def make_tables():
    """Return all tables as text."""
    lines = []
    for intervals in LENGTHS:
        for name, person in PEOPLE.items():
            lines += [f"{intervals:,} intervals, {name}:", ""]
            lines += ["| | interval | total | last 24 |", "|---|--:|--:|--:|"]
            lines += [make_row(way, intervals, person) for way in WAYS]
            lines.append("")
    return "\n".join(lines) + "\n"


def check_opendp():
    """Return epsilon of the zCDP scale by OpenDP's own conversion; None without OpenDP."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    scale = zcdp_scale(1.0)
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    curve = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)).map(1.0)
    return curve.epsilon(delta=BUDGET.delta)


def main():
    """Print the tables, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = make_tables()
    print(text)
    print("epsilon of the zCDP rows by OpenDP:", check_opendp())
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(START)
        PAGE.write_text(before + START + text + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
