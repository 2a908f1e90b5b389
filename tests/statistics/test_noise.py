"""The noise of views: formulas, digits of an independent program, and what engines draw."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy

from dpoco import Budget
from dpoco.accounting import continual_sum
from dpoco.accounting.continual_sum import SHIPPED
from dpoco.accounting.forgetting import damp
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source
from dpoco.statistics import Categories, Count, HalfLife, Last, Monitor
from dpoco.statistics import _plan as planning
from dpoco.statistics._plan import row_norms, view_name, worst_row

FACTORS = {
    "shipped": SHIPPED[10**3],
    "damped": damp(SHIPPED[10**3], 0.5 ** (1 / 24)),
    "independent": planning.INDEPENDENT,
    "two": Buffered((0.3, 0.5), (0.2, 0.1)),
}
VIEWS = ["interval", "total", Last(2), Last(7), HalfLife(0.5), HalfLife(10.0)]
NEAR = Neighbours("zero_out")


def weights(view, n):
    if view == "interval":
        return np.eye(n)
    steps = np.subtract.outer(np.arange(n), np.arange(n)).astype(float)
    if view == "total":
        return np.where(steps >= 0, 1.0, 0.0)
    if isinstance(view, Last):
        return np.where((steps >= 0) & (steps < view.intervals), 1.0, 0.0)
    return np.where(steps >= 0, 2.0 ** (-np.maximum(steps, 0) / view.intervals), 0.0)


def encoder(factor, n):
    c = [1.0] + [
        sum(w * (1 - s) ** i for s, w in zip(factor.decay, factor.weights, strict=True))
        for i in range(n - 1)
    ]
    return np.array([[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


@pytest.mark.parametrize("view", VIEWS, ids=view_name)
@pytest.mark.parametrize("name", FACTORS)
def test_rows_are_those_of_dense_matrices(name, view):
    n = 60
    rows = weights(view, n) @ np.linalg.inv(encoder(FACTORS[name], n))
    expected = np.linalg.norm(rows, axis=1)
    assert row_norms(FACTORS[name], view, n) == pytest.approx(expected, rel=1e-9)
    assert worst_row(FACTORS[name], view, n) == pytest.approx(expected.max(), rel=1e-9)


def test_damping_multiplies_coefficients():
    q = 0.5 ** (1 / 24)
    plain, found = encoder(SHIPPED[10**3], 40), encoder(damp(SHIPPED[10**3], q), 40)
    assert found[:, 0] == pytest.approx(plain[:, 0] * q ** np.arange(40), rel=1e-12)


def test_levels_have_a_formula_for_totals_only():
    plain = SHIPPED[10**3]
    level = Normalised(plain.decay, plain.weights, 1000)
    expected = continual_sum.row_norm(level, np.arange(1, 1001), 1000)
    assert row_norms(level, "total", 1000) == pytest.approx(expected)
    with pytest.raises(ValueError, match="totals only"):
        row_norms(level, "interval", 1000)


# Column times row of the best row of an independent program's table, at 8,760 intervals.
BEST = [("interval", 1.00), ("total", 3.96), (Last(24), 2.42), (Last(168), 3.30),
        (Last(720), 3.96), (HalfLife(24), 1.82), (HalfLife(168), 2.41)]  # fmt: skip


@pytest.mark.parametrize(("view", "best"), BEST)
def test_a_single_view_is_near_the_best_factorisation_known(view, best):
    factor, ratios = planning.choose([view], NEAR, 8760)
    assert factor.column(8760, NEAR) * worst_row(factor, view, 8760) <= 1.03 * best
    assert ratios == {view: 1.0}


def test_the_worst_view_is_best():
    views = ["interval", "total", Last(24)]
    factor, ratios = planning.choose(views, NEAR, 8760)
    assert max(ratios.values()) <= 2.3
    for other in planning.candidates(views, NEAR, 8760):
        noise = [other.column(8760, NEAR) * worst_row(other, view, 8760) for view in views]
        own = [factor.column(8760, NEAR) * worst_row(factor, view, 8760) for view in views]
        least = [a / ratios[v] for a, v in zip(own, views, strict=True)]
        assert max(x / y for x, y in zip(noise, least, strict=True)) >= max(ratios.values()) - 1e-9


def noise_of(views, cells, intervals, seed=1, **options):
    values = [f"v{i}" for i in range(cells - 1)]
    monitor = Monitor(
        {"c": Categories(values)}, every=None, releases=intervals, budget=Budget(1.0, 1e-6),
        views=views, source=Source.seeded(seed), **options,
    )  # fmt: skip
    return monitor, [monitor.release() for _ in range(intervals)]


@pytest.mark.parametrize("views", [VIEWS, ["total"]])
def test_engines_draw_what_is_stated(views):
    _, releases = noise_of(views, 4000, 12)
    for release in (releases[0], releases[5], releases[-1]):
        for view in map(view_name, views):
            noise, deviation = release.vectors[view], release.deviations[view]
            total = float(np.sum((noise / deviation) ** 2))
            low, high = scipy.stats.chi2.ppf([5e-8, 1 - 5e-8], len(noise))
            assert low < total < high
            # A scale that is wrong by a tenth fails.
            for wrong in (1.1, 1 / 1.1):
                assert not low < total * wrong**2 < high
            assert scipy.stats.kstest(noise / deviation, "norm").pvalue > 1e-7


def test_differences_are_the_increments_exactly():
    n, cells = 20, 3
    _, releases = noise_of(["interval", "total", Last(3)], cells, n)
    totals = np.array([r.vectors["total"] for r in releases])
    ones = np.array([r.vectors["interval"] for r in releases])
    assert np.array_equal(np.cumsum(ones, axis=0), totals)
    for t in range(n):
        assert np.array_equal(releases[t].vectors["last 3"], ones[max(0, t - 2) : t + 1].sum(0))


def test_room_is_said_in_records_and_kept():
    monitor = Monitor(
        {"n": Count()}, every=None, releases=8760, budget=Budget(1.0, 1e-6), views=["interval"]
    )
    plan = monitor.plan()
    assert plan.room >= 10**7
    assert "records an interval" in str(plan)
    total = plan.total
    plain = replace(total, scale=0.0, grid=0.0, limit=0)
    assert total.scale <= 1.01 * plain.reach(NEAR) / (total.reach(NEAR) / total.scale)


def test_streams_without_end_have_views_of_bounded_noise(monkeypatch):
    monkeypatch.setattr("dpoco.statistics._monitor.ENDLESS", 2**15)
    monitor = Monitor(
        {"n": Count()}, every=None, releases=None, budget=Budget(1.0, 1e-6),
        views=["interval", Last(24)],
    )  # fmt: skip
    factor = monitor.plan().total.factorisation
    for view in ("interval", Last(24)):
        rows = row_norms(factor, view, 2**15)
        assert rows[-1] <= 1.05 * rows[2000]
    with pytest.raises(ValueError, match="grows without end"):
        Monitor({"n": Count()}, every=None, releases=None, budget=None, views=["total"])


def test_people_cost_noise_and_the_plan_tells():
    from dpoco import Participation

    alone = Monitor({"n": Count()}, every=None, releases=200, budget=Budget(1.0, 1e-6))
    people = Monitor(
        {"n": Count()}, every=None, releases=200, budget=Budget(1.0, 1e-6),
        participation=Participation(10, separation=4), records_per_interval=3,
    )  # fmt: skip
    ratio = people.plan().rows[0].deviation / alone.plan().rows[0].deviation
    assert ratio == pytest.approx(3.0 * math.sqrt(10.0), rel=0.01)
