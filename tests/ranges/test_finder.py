"""The finder of ranges: published digits, laws of what is drawn, sensitivities by brute force."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy
from check import check

import dpoco
from dpoco import _core
from dpoco.accounting import ranges as planning
from dpoco.accounting.plan import Plan
from dpoco.privacy.losses.bounded_range import bounded_range_delta
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import SquareRoot, square_roots
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.range_search import RangeSearch, gaussian_range
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source
from dpoco.ranges import FoundRanges, RangeFinder
from dpoco.ranges.bins import (
    ABSENT,
    EDGES,
    LARGEST,
    Thresholds,
    candidate,
    find_ends,
    group_candidates,
    places,
)

BUDGET = dpoco.Budget(1.0, 1e-6)


def finder(columns=3, seed=1, **options):
    options = {"budget": BUDGET, "horizon": 100_000, "records": 2000, **options}
    return RangeFinder(columns, source=Source.seeded(seed), **options)


def records(columns=3, n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(10.0 ** np.arange(columns), 1.0, size=(n, columns))


# -- digits of the specification -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "scale", "spread", "last", "median", "zero"),
    [
        (2, 3.93590350, 14.22597379, 23.94671091, 500, 500),
        (10, 13.35125856, 31.81024444, 53.54647342, 1469, 500),
        (50, 31.65147446, 71.12986895, 119.73355453, 3482, 958),
    ],
)
def test_scales_and_records_are_the_published_ones(columns, scale, spread, last, median, zero):
    sizes = {"medians": columns, "budget": BUDGET}
    assert planning.needed_records(columns, **sizes) == median
    assert planning.needed_records(columns, medians=0, budget=BUDGET) == zero
    search = planning.calibrate(columns, records=median, numerics="float", **sizes).mechanism
    assert search.scale == pytest.approx(scale, rel=2e-9)
    assert search.counts.scale == pytest.approx(spread, rel=2e-9)
    up_to, beyond = planning.deviations(search.counts)
    assert up_to[-1] == pytest.approx(last, rel=2e-9)
    assert beyond[[0, 129, 257]] / search.counts.scale == pytest.approx(
        [1.9402438623, 2.0796633873, 1.1283789027], rel=1e-9
    )


def test_a_tiny_search_by_hand():
    edges = np.array([-4.0, -2.0, -1.0, 1.0, 2.0, 4.0])
    away = np.array([-3, -1.5, -0.5, 0, 0.25, 0.5, 1, 1.5, 1.75, 3, 8])
    counts = np.bincount(np.searchsorted(edges, away), minlength=7)
    assert counts.tolist() == [0, 1, 1, 5, 2, 1, 1]
    f, e = square_roots()[:7], np.array([0.3, -0.5, 0.2, 0.1, -0.4, 0.6, -0.2])
    sums = np.cumsum(counts) + np.convolve(f, e)[:7]
    assert sums[[0, 3, 6]] == pytest.approx([0.3, 7.10625, 10.98056641], abs=1e-8)
    norms = np.sqrt(np.cumsum(f**2))
    rows = np.stack([np.concatenate([f[k::-1], np.zeros(6 - k)]) for k in range(7)])
    beyond = np.linalg.norm(rows[-1] - rows[:-1], axis=1)
    bounds = Thresholds.of(12, norms[:-1], beyond, norms[-1])
    assert bounds.fewest == pytest.approx(6.28207473)
    assert bounds.low[:4] == pytest.approx([2.7, 2.87705098, 2.96887146, 3.029927])
    assert bounds.high[4:] == pytest.approx([3.15161227, 1.2 + 1.5 * 1.12792969])
    assert find_ends(sums, bounds, edges) == (-1.0, 2.0)
    assert find_ends(sums - 6.0, bounds, edges) is None  # too few are present
    found = FoundRanges((5.5,) * 3, (1.5,) * 3)
    assert found.clip([[7.25, 4.5, 3.0]])[0] == pytest.approx([1.0, -2.0 / 3.0, -1.0])
    scaled = found.scale([[7.25, 4.5, 3.0]])[0]
    assert scaled == pytest.approx([0.63960215, -0.42640143, -0.63960215])


def test_ends_that_cross_are_moved_apart():
    bounds = Thresholds(10, np.full(4, 10.0), np.full(4, 10.0), 1.0)
    edges = np.array([-2.0, -1.0, 1.0, 2.0])
    assert find_ends(np.array([0.0, 10.0, 10.0, 10.0, 10.0]), bounds, edges) == (-2.0, 2.0)


def test_candidates_are_placed_exactly():
    assert candidate(LARGEST) == 2.0**40
    assert candidate(1) == 2.0**-24
    rng = np.random.default_rng(0)
    for place in [0, 1, LARGEST, *rng.integers(1, LARGEST, 200).tolist()]:
        assert places(np.array([candidate(place), -candidate(place)])).tolist() == [place, -place]
    odd = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324])
    assert places(odd).tolist() == [ABSENT, ABSENT, ABSENT, LARGEST, -LARGEST, 0]
    values = np.sort(rng.normal(size=1000) * 10.0 ** rng.integers(-9, 13, 1000))
    assert (np.diff(places(values)) >= 0).all()
    middle = values[np.abs(values) > 1e-6]
    middle = middle[np.abs(middle) < 1e11]
    near = np.array([candidate(int(place)) for place in places(middle)])
    assert np.abs(near / middle - 1.0).max() <= 2.0**-16
    assert np.all(np.diff(EDGES) > 0.0)


# -- what is drawn ---------------------------------------------------------------------------------


def law_of(values, largest, scale):
    """Return the probabilities of the candidates -largest..largest, by the runs that are drawn."""
    runs = group_candidates(np.asarray(values, dtype=np.int64), largest)
    law = np.zeros(2 * largest + 1)
    weights = np.where(runs.sizes > 0, runs.sizes * np.exp(runs.scores / scale), 0.0)
    for first, size, weight in zip(runs.first, runs.sizes, weights, strict=True):
        if size:
            law[first + largest : first + largest + size] += weight / weights.sum() / size
    return law


def brute_law(values, largest, scale):
    """Return the same by a look at every candidate."""
    present = np.array([value for value in values if value <= largest])
    grid = np.arange(-largest, largest + 1)[:, None]
    scores = -0.5 * np.abs((present < grid).sum(axis=1) - (present > grid).sum(axis=1))
    weights = np.exp(scores / scale)
    return weights / weights.sum()


def test_runs_of_candidates_have_the_law_of_all_candidates():
    """Takes about a second: some hundred laws of up to thirteen candidates."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.integers(-6, 9, size=rng.integers(1, 12))  # 7 and 8 are absent
        values = np.where(values > 6, ABSENT, values)
        assert law_of(values, 6, 3.0) == pytest.approx(brute_law(values, 6, 3.0), abs=1e-14)
        runs = group_candidates(values, 6)
        assert runs.sizes.sum() == 13
        assert len(runs.sizes) == 2 * len(values) + 1
    # Digits: values between candidates count below or above all the same.
    scores = np.array([-4.0, -2.5, -1.0, -1.0, -1.5])
    law = np.exp(scores / 3.0) / np.exp(scores / 3.0).sum()
    assert law == pytest.approx([0.09628104, 0.15874060, 0.26171900, 0.26171900, 0.22154035])


def by_hand(columns, first, scale, second=1, spread=1.0):
    """Return the plan of a search with these scales."""
    vector = ClippedVector(columns, math.inf, float(second), math.inf)
    counts = GaussianSum(vector, SquareRoot(), pushes=planning.BINS, scale=spread)
    medians = columns if first else 0
    return Plan(RangeSearch(second, counts, medians, first, scale), None, None)


def medians_of(values, scale, columns=3_000):
    """Return the medians drawn of columns that all hold these values."""
    plan = by_hand(columns, len(values), scale)
    own = RangeFinder(columns, budget=None, records=len(values) + 1, plan=plan,
                      source=Source.seeded(3))  # fmt: skip
    own.run(np.repeat(np.array(values)[:, None], columns, axis=1))
    return own._centre


def test_medians_have_the_law_of_the_exponential_mechanism():
    """Takes seconds: 3,000 selections. The same test refutes a scale that is 15 % off."""
    values, scale = [1.0, 1.0 + 2.0**-10, 1.1, 1.2, 2.0, math.nan], 0.3
    drawn = places(medians_of(values, scale))
    at = np.sort(places(np.array(values)))[:5]
    cells = np.concatenate([[-LARGEST - 0.5], np.repeat(at, 2) + np.tile([-0.5, 0.5], 5),
                            [LARGEST + 0.5]])  # fmt: skip
    cells = np.unique(cells)

    def chance(scale):
        runs = group_candidates(places(np.array(values)))
        weights = np.where(runs.sizes > 0, runs.sizes * np.exp(runs.scores / scale), 0.0)
        law = np.histogram(runs.first, cells, weights=weights / weights.sum())[0]
        seen = np.histogram(drawn, cells)[0]
        large = law * len(drawn) >= 5.0
        rest = [law[~large].sum(), seen[~large].sum()]
        expected = np.append(law[large], rest[0]) * len(drawn)
        return float(scipy.stats.chisquare(np.append(seen[large], rest[1]), expected).pvalue)

    assert chance(scale) > 1e-6
    assert chance(1.15 * scale) < 1e-6
    # Within a run every candidate is as likely.
    inside = drawn[drawn > at[-1]]
    share = (inside - at[-1]) / (LARGEST - at[-1])
    assert scipy.stats.kstest(share, "uniform").pvalue > 1e-6


def test_counts_have_the_stated_noise():
    """Takes seconds: 20,000 columns. A scale that is 5 % off fails the same bounds."""
    plan = by_hand(20_000, 0, 0.0, spread=3.0)
    own = RangeFinder(20_000, budget=None, centre="zero", records=1, plan=plan,
                      source=Source.seeded(5))  # fmt: skip
    sums = np.cumsum(own._cells, axis=0)
    up_to, beyond = planning.deviations(plan.mechanism.counts)
    seen = sums[:-1].std(axis=1), (sums[-1] - sums[:-1]).std(axis=1)
    for found, stated in zip(seen, (up_to, beyond), strict=True):
        ratio = found / stated
        assert np.abs(ratio - 1.0).max() < 0.026  # 5.2 deviations of 258 correlated ones
        assert np.abs(ratio / 1.05 - 1.0).max() > 0.026
    assert scipy.stats.kstest(sums[100] / up_to[100], "norm").pvalue > 1e-6


def test_noise_does_not_depend_on_the_data():
    one, other = records(), records(seed=9)
    other[0] = [math.nan, math.inf, -1e300]
    first, second = finder(centre="zero"), finder(centre="zero")
    for own, rows in ((first, one), (second, other)):
        own.run(rows)
    counts = [
        np.stack([np.bincount(np.searchsorted(EDGES, rows[np.isfinite(rows[:, j]), j]),
                              minlength=len(EDGES) + 1) for j in range(3)], axis=1)
        for rows in (one, other)
    ]  # fmt: skip
    assert np.array_equal(first._cells - second._cells, counts[0] - counts[1])
    assert first._mechanism.counts.grid > 0.0
    assert not np.array_equal(finder(seed=2, centre="zero")._cells, finder(centre="zero")._cells)


@pytest.mark.parametrize("numerics", ["float", "lattice"])
def test_counts_lie_on_the_grid_that_their_noise_is_rounded_to(numerics):
    """Noise in steps of 2 would show whether the number of values up to an edge is even."""
    budget = dpoco.Budget(0.0012, 1e-6)
    sizes = {"medians": 0, "budget": budget}
    rows = planning.needed_records(2, **sizes)
    plan = planning.calibrate(2, records=rows, numerics=numerics, **sizes)
    counts = plan.mechanism.counts
    assert 2.0**12 < counts.scale < 2.0**13
    drawn = finder(2, horizon=None, records=None, budget=budget, centre="zero", plan=plan)
    assert 0.3 < (np.cumsum(drawn._cells, axis=0) % 2.0 == 0.0).mean() < 0.7
    with pytest.raises(ValueError, match="grid that their noise"):
        replace(plan.mechanism, counts=replace(counts, scale=2.0**13, grid=2.0 * counts.grid))
    with pytest.raises(dpoco.CalibrationError, match="scales are below 8192"):
        finder(2, horizon=None, records=None, budget=dpoco.Budget(0.001, 1e-6), centre="zero")


# -- what a record can change ----------------------------------------------------------------------


def test_one_record_moves_log_ratios_by_less_than_the_stated_range():
    """All data sets of three values on five candidates, against all changes of one value."""
    scale, most, emptied = 2.0, 0.0, 0.0
    points = [*range(-2, 3), ABSENT]
    for values in itertools.product(points, repeat=3):
        before = np.log(law_of(values, 2, scale))
        for value in points:
            ratio = np.log(law_of((value, *values[1:]), 2, scale)) - before
            assert np.abs(ratio).max() <= (ratio.max() - ratio.min()) + 1e-12
            most = max(most, ratio.max() - ratio.min())
            if value == ABSENT:
                emptied = max(emptied, ratio.max() - ratio.min())
    assert most == pytest.approx(2.0 / scale, abs=1e-12)  # so half of it would be false
    assert emptied == pytest.approx(1.0 / scale, abs=1e-12)


def test_one_record_moves_counts_by_less_than_the_stated_length():
    """All pairs of bins of seven, and random ones of 259, in three columns at once."""
    search = planning.calibrate(3, medians=3, records=2000, budget=BUDGET).mechanism
    f = square_roots()[: planning.BINS]
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(300):
        a, b = rng.integers(0, planning.BINS, size=(2, 3))
        moved = np.zeros((planning.BINS, 3))
        moved[a, range(3)] += 1.0
        moved[b, range(3)] -= rng.random() < 0.9
        column = np.stack([np.convolve(f, each)[: planning.BINS] for each in moved.T])
        most = max(most, float(np.linalg.norm(column)))
    apart = np.zeros(planning.BINS)
    apart[0], apart[-1] = 1.0, -1.0
    far = np.linalg.norm(np.convolve(f, apart)[: planning.BINS]) * math.sqrt(3.0)
    stated = SquareRoot().column(planning.BINS) * math.sqrt(6.0)
    assert max(most, far) <= stated
    assert far > 0.7 * stated
    loss = search._counts_loss(Neighbours())
    assert loss.bare.mu == pytest.approx(stated / search.counts.scale, rel=1e-5)
    assert loss.bare.mu >= stated / search.counts.scale


def test_bounded_ranges_are_gaussian():
    for r in (1e-6, 0.01, 0.1, 0.5, 1.0, 3.0, 20.0):
        mu = gaussian_range(r)
        for epsilon in np.linspace(0.0, r, 40):
            assert bounded_range_delta(epsilon, r) <= gaussian_delta(epsilon, mu) * (1 + 1e-9)
    published = (0.1, 0.0626629055), (0.5, 0.3129794995), (1.0, 0.6238925921)
    for r, mu in published:
        assert gaussian_range(r) == pytest.approx(mu, rel=1e-9)
    # At epsilon 0 there is equality, so that less is false.
    assert bounded_range_delta(0.0, 1.0) > gaussian_delta(0.0, 0.999 * gaussian_range(1.0))


def test_losses_of_single_rounds_and_of_people():
    search = planning.calibrate(4, medians=4, records=2000, budget=BUDGET).mechanism
    single = search.loss(Neighbours())
    parts = [replace(search, scale=1e6).loss(Neighbours()),
             search.loss(Neighbours("zero_out"))]  # fmt: skip
    assert single.delta(1.0) <= BUDGET.delta
    assert single.delta(0.99) > BUDGET.delta
    assert parts[0].delta(0.9) > 0.0  # counts alone
    assert parts[1].epsilon(1e-6) < 0.7
    both = search.loss(Neighbours(rounds=2)).bare.mu
    mu = 2.0 * gaussian_range(4.0 / search.scale), 2.0 * search._counts_loss(Neighbours()).bare.mu
    assert both == pytest.approx(math.hypot(*mu), rel=1e-5)
    # Once in the search: the worse of both; and a separation that keeps her to one round a part.
    far = search.loss(Neighbours(rounds=9, separation=2000)).bare.mu
    assert far == pytest.approx(
        max(2.0 * gaussian_range(2.0 / search.scale), mu[1] / 2.0), rel=1e-5
    )
    near = search.loss(Neighbours(rounds=9, separation=1999)).bare.mu
    assert near > far
    with pytest.raises(ValueError, match="server"):
        search.loss(Neighbours(view="server"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": 0}, {"medians": 0}, {"second": 1999}, {"medians": 5},
        {"counts": replace(by_hand(4, 0, 0.0).mechanism.counts, pushes=0)},
    ],
)  # fmt: skip
def test_searches_that_no_proof_is_about_are_refused(wrong):
    search = planning.calibrate(4, medians=4, records=2000, budget=BUDGET).mechanism
    with pytest.raises(ValueError, match=r"medians|counts"):
        replace(search, **wrong)


# -- use -------------------------------------------------------------------------------------------


def test_ranges_are_found_in_any_units():
    own = finder()
    assert own.left == 2000
    with pytest.raises(dpoco.StateError, match="2000 more"):
        _ = own.ranges
    own.run(records())
    middle, half = np.array(own.ranges.parts)
    assert np.abs(middle - [1.0, 10.0, 100.0]).max() < 1.0
    assert ((half > 0.5) & (half < 3.0)).all()
    with pytest.raises(dpoco.HorizonExceeded):
        own.observe(np.zeros(3))
    assert FoundRanges.from_dict(own.ranges.to_dict()) == own.ranges


def test_columns_without_values_are_off_and_constant_ones_are_constant():
    rows = records()
    rows[:, 0], rows[:, 1] = math.nan, 7.0
    own = finder()
    own.run(rows)
    assert own.ranges.half_width[0] == 0.0
    scaled = own.ranges.scale(rows)
    assert not scaled[:, 0].any()
    assert np.isfinite(scaled).all()


def test_times_since_1970_are_found_by_medians_only():
    rows = 1.6e9 + 1e5 * np.random.default_rng(0).normal(size=(2000, 2))
    spread = []
    for centre in ("median", "zero", (1.6e9, None)):
        own = finder(2, centre=centre)
        own.run(rows)
        spread.append(own.ranges.scale(rows).std(axis=0))
    assert min(*spread[0], *spread[2]) > 0.3
    assert max(spread[1]) < 0.01


def test_order_within_a_part_does_not_matter():
    rows, other = records(), records()
    other[:800], other[800:] = rows[:800][::-1], rows[800:][::-1]
    one, two = finder(), finder()
    one.run(rows)
    for row in other[:3]:
        two.observe(row)
    two.run(other[3:1500])
    two.run(other[1500:])
    assert one.ranges == two.ranges


@pytest.mark.parametrize("rounds", [0, 1, 500, 800, 1999, 2000])
def test_saved_searches_go_on_bit_for_bit(rounds, tmp_path):
    rows = records()
    whole, part = finder(), finder()
    whole.run(rows)
    part.run(rows[:rounds])
    part.save(tmp_path / "search")
    loaded = dpoco.load(tmp_path / "search", RangeFinder)
    loaded.run(rows[rounds:])
    assert loaded.ranges == whole.ranges
    assert loaded.guarantee == whole.guarantee
    if rounds:
        with pytest.raises(dpoco.StateError, match="copied"):
            copy.deepcopy(part)
        copied = pickle.loads(pickle.dumps(part))
        with pytest.raises(dpoco.StateError, match="suspended"):
            copied.run(rows[rounds:])


def test_states_have_one_size_and_no_count_without_noise(tmp_path):
    sizes = set()
    odd = np.full((2000, 3), math.nan)
    for rows in (records(), odd, odd + math.inf, np.zeros((2000, 3)), np.full((2000, 3), 1e300)):
        own = finder()
        for start, stop in ((0, 700), (700, 1500), (1500, 2000)):
            own.run(rows[start:stop])
            own.save(tmp_path / "state")
            sizes.add((stop, (tmp_path / "state").stat().st_size))
    assert len(sizes) == 3
    own = finder()
    own.run(records()[:800])
    assert (own._values == ABSENT).all()  # values of the medians are gone
    assert not own._secret.strip(b"\0")
    assert (np.abs(own._cells) > 0.0).mean() > 0.99  # noise, before any count


def test_corrupt_states_are_refused(tmp_path):
    own = finder()
    payload = own._payload()
    with pytest.raises(dpoco.StateError):
        own._go_on(payload[:-9])
    with pytest.raises(dpoco.StateError, match="another search"):
        own._go_on(finder(2)._payload())


def test_refusals_depend_on_public_sizes():
    ways = r"state the ranges instead \(PublicScaler"
    RangeFinder(10, budget=BUDGET, horizon=20_000, records=2000)
    with pytest.raises(ValueError, match="2,000 records, and a tenth of 19,999 rounds is 1,999"):
        RangeFinder(10, budget=BUDGET, horizon=19_999, records=2000)
    with pytest.raises(ValueError, match=f"needs 1,469 records, and has 1,000: {ways}"):
        RangeFinder(10, budget=BUDGET, records=1000)
    with pytest.raises(ValueError, match=f"takes 1,469 records.*{ways}.*larger epsilon"):
        RangeFinder(10, budget=BUDGET, horizon=14_000)
    assert RangeFinder(10, budget=BUDGET, horizon=14_000, centre="zero").horizon == 500
    assert RangeFinder(2, budget=None).horizon == 500
    for centre in ("mean", (0.0,), (math.nan, None)):
        with pytest.raises(ValueError, match="centre"):
            RangeFinder(2, budget=BUDGET, centre=centre)


def test_people_are_limited():
    rule = dpoco.Participation(rounds=2)
    own = RangeFinder(2, budget=BUDGET, participation=rule, source=Source.seeded(0))
    assert own.guarantee.unit == "one person"
    own.guarantee.require(BUDGET)
    n = own.horizon
    rows = records(2, n)
    with pytest.raises(TypeError, match="persons"):
        own.run(rows)
    names = np.arange(n) // 2
    names[-200:] = names[0]
    own.run(rows, persons=names)
    emptied = rows.copy()
    emptied[-200:] = math.nan
    other = RangeFinder(2, budget=BUDGET, participation=rule, source=Source.seeded(0))
    for row, name in zip(emptied, np.arange(n) // 2, strict=True):
        other.observe(row, person=int(name))
    assert own.ranges == other.ranges
    with pytest.raises(TypeError, match="person"):
        finder().observe(np.zeros(3), person=1)


@pytest.mark.parametrize(
    ("columns", "medians", "epsilon", "delta"),
    [
        (10, 1, 0.0278, 2.75e-9), (5, 0, 1.86, 1.1e-12), (13, 13, 2.06, 4.8e-10),
        (8, 0, 17.7, 1.3e-9),  # once infinite: tails alone cost more than delta
        (18, 18, 12.0, 4.85e-11),
    ],
)  # fmt: skip
def test_a_plan_pays_for_tails(columns, medians, epsilon, delta):
    budget, rule = dpoco.Budget(epsilon, delta), dpoco.Participation(3)
    sizes = {"medians": medians, "records": 1000, "numerics": "float"}
    plan = planning.calibrate(columns, budget=budget, **sizes)
    assert 0.8 * epsilon < planning.guarantee(plan, budget=budget).epsilon <= epsilon
    plan = planning.calibrate(columns, budget=budget, horizon=10**4, participation=rule, **sizes)
    assert plan.mechanism.loss(Neighbours(rounds=3)).epsilon(delta) <= epsilon
    with pytest.raises(dpoco.CalibrationError, match="tails"):
        planning.calibrate(columns, budget=dpoco.Budget(epsilon, 1e-16), **sizes)
    # Public sizes are those of a plan on the lattice, whose tails cost nothing.
    assert planning.needed_records(2, medians=0, budget=dpoco.Budget(1.0, 1e-15)) >= 500


def test_a_plan_is_certified_and_must_fit():
    plan = planning.calibrate(3, medians=3, records=2000, budget=BUDGET)
    assert RangeFinder(3, budget=BUDGET, plan=plan).guarantee.epsilon <= 1.0
    louder = Plan(replace(plan.mechanism, scale=0.5 * plan.mechanism.scale), None, None)
    with pytest.raises(dpoco.BudgetExceeded):
        RangeFinder(3, budget=BUDGET, plan=louder)
    with pytest.raises(ValueError, match="different columns"):
        RangeFinder(4, budget=BUDGET, plan=plan)


# -- with a learner behind -------------------------------------------------------------------------


def joint(people=None, **options):
    """Return the guarantee of a search and of a learner for all later rounds."""
    several = people is not None
    search, learner = planning.split(BUDGET, several)
    own = RangeFinder(3, budget=search, horizon=200_000, participation=people, **options)
    behind = dpoco.oco.NoisyFTRL(
        dpoco.domains.LpBall(3, 2.0, 1.0), dpoco.losses.LogisticLoss(1.0),
        horizon=200_000 - own.horizon, budget=learner, participation=people,
    )  # fmt: skip
    parts = own.guarantee, behind.guarantee
    return own, behind, planning.behind_ranges(*parts, budget=BUDGET)


def test_single_rounds_pay_for_one_part_only():
    _, behind, both = joint()
    assert both.epsilon == pytest.approx(1.0, rel=1e-6)
    assert both.horizon == 200_000
    assert both.loss.bare.parts[-1].mu == pytest.approx(behind.guarantee.mu, rel=1e-6)
    both.verify()
    assert dpoco.Guarantee.from_json(both.to_json()) == both
    assert "ranges of 3 columns" in str(both)


def test_people_pay_for_all_parts():
    rule = dpoco.Participation(rounds=3, enforced=False)
    own, behind, single = joint(rule)
    both = single.for_person(3, 1)
    assert both.epsilon == pytest.approx(1.0, rel=1e-3)
    shares = [each.guarantee.mu**2 / both.mu**2 for each in (own, behind)]
    assert shares == pytest.approx([0.1, 0.9], rel=1e-3)
    both.verify()
    assert dpoco.Guarantee.from_json(both.to_json()) == both


@pytest.mark.parametrize(
    ("people", "centre"), [(None, "median"), (3, "median"), (None, (None, 0.0, 0.0)), (3, "zero")]
)
def test_the_independent_checker_proves_it(people, centre):
    """Takes seconds: ball arithmetic for a composition of a selection for each column."""
    rule = None if people is None else dpoco.Participation(rounds=people, enforced=False)
    own, _, both = joint(rule, centre=centre)
    stated = [own.guarantee, both if people is None else both.for_person(people, 1)]
    for each in stated:
        record = each.to_dict()
        proved = (
            "proved" if people is None or not each.doubts else "only if"
        )  # a promise limits people
        assert check.check(record)[0] == proved
        search = record["description"]
        search = search["parts"][0] if search["kind"] == "parts" else search
        search["counts"]["scale"] *= 0.9
        assert check.check(record)[0] == "not proved"
        search["counts"]["scale"] /= 0.9
        if search["medians"]:
            search["scale"] *= 0.9
            assert check.check(record)[0] == "not proved"


@pytest.mark.parametrize("behind", ["NoisyMax", "ContinualSum"])
def test_an_interrupted_search_goes_on_with_its_noise(behind, monkeypatch):
    """An interrupt comes behind the draws of medians, or of the noise of counts: nothing is lost.

    Without that noise, counts of records would be released as they are.
    """
    data = records()
    whole, cut = finder(), finder()
    whole.run(data)
    first = cut._mechanism.first
    compiled = getattr(_core, behind)

    class Interrupted:
        def __init__(self, *arguments):
            self._own = compiled(*arguments)

        def __getattr__(self, name):
            return getattr(self._own, name)

        def select(self, scores):
            self._own.select(scores)
            raise KeyboardInterrupt

        def run(self, values, out):
            self._own.run(values, out)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_core, behind, Interrupted)
        with pytest.raises(KeyboardInterrupt):
            cut.run(data[:first])
    assert cut.round == first
    cut = pickle.loads(pickle.dumps(cut))
    cut.resume()
    cut.run(data[first:])
    assert cut.ranges == whole.ranges
    assert np.array_equal(cut._cells, whole._cells)


@pytest.mark.parametrize("turn", [-1, 2001])
def test_a_state_of_an_impossible_round_is_refused(turn, tmp_path):
    forged = finder()
    forged._round = turn
    forged.save(tmp_path / "state")
    with pytest.raises(dpoco.StateError, match="round"):
        dpoco.load(tmp_path / "state")


def test_a_search_hands_over_its_people_at_its_end():
    problem = dpoco.domains.LpBall(2, 2.0, 1.0), dpoco.losses.LogisticLoss(1.0)

    def behind(rule):
        covered = {"horizon": 1000, "budget": BUDGET, "participation": rule}
        return dpoco.oco.NoisyFTRL(*problem, **covered)

    rule = dpoco.Participation(rounds=1)
    own = RangeFinder(2, budget=BUDGET, participation=rule)
    learner = behind(rule)
    rows = records(2, own.horizon)
    own.run(rows[1:], persons=np.arange(len(rows) - 1))
    with pytest.raises(dpoco.StateError, match="hands over"):
        own.hand_over(learner)
    own.run(rows[:1], persons=[len(rows)])
    with pytest.raises(dpoco.StateError, match="hands over"):
        own.hand_over(behind(None))
    own.hand_over(learner)
    empty = learner._engine.nonprivate_sum().copy()
    for person, enters in ((7, False), (len(rows), False), (-1, True)):
        learner.decide()
        learner.observe([0.5, 0.5], 1.0, person=person)
        assert np.array_equal(learner._engine.nonprivate_sum(), empty) != enters
    with pytest.raises(dpoco.StateError, match="hands over"):
        own.hand_over(learner)


@pytest.mark.parametrize("saved", [False, True])
def test_an_interrupted_last_call_leaves_the_ranges_to_be_found(saved, monkeypatch, tmp_path):
    """A state of such a finder had ranges of zeros, and the finder itself had none."""
    records = np.random.default_rng(0).normal(size=(600, 1))
    finder = RangeFinder(1, budget=BUDGET, records=600, source=Source.seeded(1))
    finder.run(records)
    broken = RangeFinder(1, budget=BUDGET, records=600, source=Source.seeded(1))

    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(RangeFinder, "_find_ranges", stop)
    with contextlib.suppress(KeyboardInterrupt):
        broken.run(records)
    assert broken.left == 0
    monkeypatch.undo()
    if saved:
        broken.save(tmp_path / "search")
        broken = dpoco.load(tmp_path / "search")
    assert broken.ranges == finder.ranges
