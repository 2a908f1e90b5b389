"""Error bars: how often they cover, by simulation of the noise alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpoco.statistics import Categories, Count, Histogram, Mean, Quantiles, Share, Sum
from dpoco.statistics._statistics import NoisyBlock, quantiles

RUNS, SCALE = 40_000, 10.0
LOW, HIGH = 0.945, 0.955
Z = 1.959963984540054


def covered(statistic, cells, truth, seed=3):
    """How often an interval of 95 % covers the truth, for each number of the statistic."""
    rng, noisy = np.random.default_rng(seed), []
    for block, exact in zip(statistic.blocks(), cells, strict=True):
        deviation = SCALE / block.share
        noise = rng.normal(0.0, deviation, (RUNS, block.cells))
        noisy.append(NoisyBlock(np.array(exact) + noise, deviation))
    found = statistic.estimates(noisy)
    low, high = found.bounds(Z)
    return found, ((low <= truth) & (truth <= high)).mean(axis=0)


LINEAR = [
    (Count(), [[500.0]], [500.0]),
    (Count(), [[0.0]], [0.0]),
    (Sum(-1.0, 4.0), [[25.0]], [100.0]),
    (Histogram((0.0, 1.0)), [[1.0, 2.0, 3.0]], [1.0, 2.0, 3.0]),
    (Categories(("a", "b")), [[9.0, 0.0, 4.0]], [9.0, 0.0, 4.0]),
]


@pytest.mark.parametrize(("statistic", "cells", "truth"), LINEAR)
def test_counts_and_sums_are_covered_exactly(statistic, cells, truth):
    found, share = covered(statistic, cells, np.array(truth))
    assert np.all((share > LOW) & (share < HIGH))
    assert np.std(found.values, axis=0) == pytest.approx(found.deviations[0], rel=0.02)


@pytest.mark.parametrize("count", [2000.0, 200.0])
@pytest.mark.parametrize("mean", [1.0, 2.5, 6.0])
def test_means_are_covered(mean, count):
    statistic = Mean(0.0, 8.0)
    cells = [[count * (mean - 4.0) / 4.0], [count]]
    found, share = covered(statistic, cells, mean)
    assert LOW < share[0] < HIGH
    if count > 1000.0:
        assert np.std(found.values) == pytest.approx(np.mean(found.deviations), rel=0.03)


@pytest.mark.parametrize("count", [0.0, 15.0, 40.0])
def test_means_near_empty_cells_are_unknown_rather_than_wild(count):
    statistic = Mean(0.0, 8.0)
    found, share = covered(statistic, [[0.3 * count], [count]], 4.0 + 4.0 * 0.3)
    assert share[0] > LOW  # where the noise hides the count, all of the range is said
    known = ~np.isnan(found.values)
    assert np.all((found.values[known] >= 0.0) & (found.values[known] <= 8.0))
    assert known.mean() < (0.05 if count == 0.0 else 0.95)


@pytest.mark.parametrize("share", [0.03, 0.5, 0.97])
def test_shares_are_covered(share):
    count = 2000.0
    _, found = covered(Share(), [[count * (1.0 - share), count * share]], share)
    assert LOW < found[0] < HIGH


EDGES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)


@pytest.mark.parametrize("q", [0.02, 0.5, 0.99])
def test_quantiles_are_covered_also_in_the_outer_bins(q):
    cells = np.array([4000.0, 9000.0, 7000.0, 5000.0, 3000.0])
    sums = np.concatenate([[0.0], np.cumsum(cells)])
    truth = np.interp(q * sums[-1], sums, EDGES)
    found, share = covered(Quantiles(q, EDGES), [cells], truth)
    assert LOW < share[0] < HIGH
    assert np.mean(found.values) == pytest.approx(truth, abs=0.02)


def test_quantiles_of_few_records_say_little():
    found, share = covered(Quantiles(0.5, EDGES), [[1.0, 2.0, 3.0, 1.0, 0.0]], 2.2)
    assert share[0] > LOW
    assert np.isnan(found.values).mean() > 0.9


def brute_set(q, edges, counts, deviation, z):
    """Ends of the set by looking at every x."""
    places, f = np.arange(len(counts)), np.linspace(0.0, 1.0, 2001)
    at = places + f[:, None]  # x in bins, f of the way through one
    weights = np.clip(at[..., None] - places, 0.0, 1.0) - q
    inside = np.abs(weights @ counts) <= z * deviation * np.linalg.norm(weights, axis=-1)
    x = np.interp(at, np.arange(len(edges)), edges)[inside]
    return (x.min(), x.max()) if x.size else (edges[0], edges[-1])


def test_sets_of_quantiles_are_those_of_tests_at_every_point():
    rng = np.random.default_rng(5)
    edges = np.array(EDGES)
    for _ in range(40):
        counts = rng.uniform(-20.0, 200.0, 5)
        q, deviation = rng.uniform(0.05, 0.95), rng.uniform(1.0, 60.0)
        low, high = quantiles((q,), edges, counts[None], deviation).bounds(Z)
        expected = brute_set(q, edges, counts, deviation, Z)
        assert (low[0, 0], high[0, 0]) == pytest.approx(expected, abs=0.01)


def test_one_scale_for_another_is_noticed():
    rng = np.random.default_rng(9)
    noisy = NoisyBlock(500.0 + rng.normal(0.0, 1.2 * SCALE, (RUNS, 1)), SCALE)
    low, high = Count().estimates([noisy]).bounds(Z)
    assert not float(((low <= 500.0) & (high >= 500.0)).mean()) > LOW


SETS = [("mean", 0.0), ("mean", 5.0), ("mean", 15.0), ("mean", 40.0), ("share", 0.0),
        ("share", 5.0), ("share", 40.0)]  # fmt: skip


@pytest.mark.parametrize(("kind", "count"), SETS)
def test_sets_of_ratios_are_exact_also_in_empty_cells(kind, count):
    """The set before its ends are taken: half-bounded, two rays, or everything near empty cells."""
    rng, r = np.random.default_rng(11), 0.3
    if kind == "mean":
        statistic, cells = Mean(-1.0, 1.0), [[r * count], [count]]
    else:
        statistic, cells = Share(), [[(1.0 - r) * count, r * count]]
    noisy = []
    for block, exact in zip(statistic.blocks(), cells, strict=True):
        deviation = SCALE / block.share
        noisy.append(NoisyBlock(np.array(exact) + rng.normal(0.0, deviation, (RUNS, block.cells)),
                                deviation))  # fmt: skip
    low, high = (end[:, 0] for end in statistic.estimates(noisy).bounds(Z))
    if kind == "mean":
        (top, bottom), weights = (each.cells[:, 0] for each in noisy), (1.0, r)
        spread = math.hypot(*weights) * noisy[0].deviation
    else:
        top, bottom = noisy[0].cells[:, 1], noisy[0].cells.sum(axis=1)
        spread = math.hypot(1.0 - r, r) * noisy[0].deviation
    inside = np.abs(top - r * bottom) <= Z * spread
    assert LOW < inside.mean() < HIGH
    published = (low <= r) & (r <= high)
    assert np.all(published[inside])  # the published ends enclose the set
    assert published.mean() >= LOW
