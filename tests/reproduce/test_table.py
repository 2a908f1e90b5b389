"""The table rerun: quick cells, fixed seeds, bands far from chance."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from bench import reproduce
from bench.reproduce import verdict as _verdict
from bench.reproduce.cell import Cell
from bench.reproduce.verdict import judge

from dpoco.accounting.continual_sum import max_error
from dpoco.published import tables


@pytest.fixture(scope="module")
def small():
    return reproduce.table_5_1(horizons=[1000], dimensions=[5], seeds=6, learning_runs=12)


@pytest.fixture(scope="module")
def long():
    """The measured cells that the bands are about, without verdicts."""
    result = reproduce.table_5_1(horizons=[5000, 10_000], dimensions=[5, 10], verdicts=False)
    return {(r.printed.p, r.printed.dimension, r.printed.horizon): r for r in result.rows}


def test_bands(long):
    for key, limit in (
        ((1.5, 5, 5000), 0.05), ((1.5, 5, 10_000), 0.02), ((1.5, 10, 10_000), 0.12),
        ((math.inf, 5, 10_000), 0.03),
    ):  # fmt: skip
        assert long[key].outcomes["tight"].suboptimality < limit
        assert long[key].outcomes["noise_free"].suboptimality < 0.02
        assert long[key].outcomes["paper"].suboptimality > 0.5
    for p in (1.5, math.inf):
        outcomes = long[p, 5, 10_000].outcomes
        assert outcomes["tight_tree"].suboptimality > 1.5 * outcomes["tight"].suboptimality


def test_tight_is_never_worse_where_anything_is_learned(long):
    for row in long.values():
        assert row.tight_minus_paper < -4.0
        assert row.tight_tree_minus_paper < -4.0
        assert row.risk_ratio > 1.0 + 3.0 * row.risk_ratio_se
        assert row.excess_risk_ratio > row.risk_ratio  # label noise is in both risks


def test_noise_ratios_are_the_accountings(small, long):
    """For p > 2: the ratio of the tables times that of the leaf bounds, 14.5 / 6.5."""
    rows = [r for r in small.rows if r.printed.p == math.inf] + [long[math.inf, 5, 10_000]]
    for row in rows:
        (entry,) = tables.noise_table([row.printed.horizon], [1.0])
        leaves = 14.5 / 6.5
        assert row.noise_ratio_tree == pytest.approx(leaves * entry.tree_ratio, rel=1e-6)
        # The tables count the noise of doubles; the lattice of the learner's sum adds a trifle.
        plain = max_error("blt_normalised", entry.horizon) / max_error("blt", entry.horizon)
        assert 1.0 - 1e-4 <= row.noise_ratio / (leaves * plain * entry.blt_ratio) <= 1.0


def test_verdicts(small):
    assert [(r.printed.horizon, r.printed.dimension) for r in small.rows] == [(1000, 5)] * 2
    row = small.rows[0]
    assert row.printed.p == 1.5
    verdict = row.verdict
    assert verdict.attained is False
    assert verdict.words == "not attained"
    assert verdict.excess > 3.0
    assert 4.0 < verdict.needed_epsilon < 30.0
    assert 0.004 < verdict.simulated.suboptimality < 0.04  # printed 0.0172
    assert verdict.least_epsilon > verdict.least_epsilon_here > 1.0
    for row in small.rows:
        assert set(row.outcomes) == {"tight", "tight_tree", "corrected", "paper", "noise_free"}
        assert row.outcomes["tight"].runs == 6
        assert row.outcomes["tight"].seconds > 0.0


def test_verdicts_are_computed():
    """The same cell with other numbers in print has other verdicts."""
    printed = next(c for c in reproduce.printed_table_5_1() if c.algorithm == "OFW")
    cell = Cell(1000, 5, 1.5, range(6), "dense", 2000)

    class Free:
        def least_epsilon(self, horizon, size):
            return size / horizon

    def words(suboptimality, deviation):
        return judge(
            cell, replace(printed, suboptimality=suboptimality, suboptimality_sd=deviation), Free()
        )

    assert words(0.5, 0.02).words == "attained"
    assert words(0.5, 0.02).needed_epsilon < 1.0
    assert words(1.1, 0.3).words == "no better than predicting zero"
    hopeless = words(1e-9, 1e-10)
    assert (hopeless.words, hopeless.needed_epsilon) == ("not attained", None)
    assert hopeless.least_epsilon == 8.0 / 1000


def test_needed_epsilon_is_where_print_is_reached(small):
    cell = Cell(1000, 5, 1.5, range(6), "dense", 10_000)
    printed, needed = small.rows[0].printed, small.rows[0].verdict.needed_epsilon
    assert _verdict._best(cell, needed).suboptimality <= printed.suboptimality
    assert _verdict._best(cell, 0.7 * needed).suboptimality > printed.suboptimality


def test_the_horizon_from_which_on_it_learns(small):
    assert [(entry.p, entry.dimension) for entry in small.learning] == [(1.5, 5), (math.inf, 5)]
    for entry in small.learning:
        assert 140 <= entry.horizon <= 1132
        assert entry.standard_errors >= 4.0
        assert entry.suboptimality < 1.0
        assert entry.before < entry.horizon
        assert entry.standard_errors_before < 4.0
        assert entry.runs == 12


def test_json_and_frame(small):
    again = reproduce.Table51.from_dict(json.loads(small.to_json()))
    assert again == small
    assert again.rows[1].printed.p == math.inf
    pytest.importorskip("pandas")
    frame = small.to_frame()
    assert len(frame) == 2 * 7
    tight = frame[(frame.algorithm == "tight") & (frame.p == 1.5)]
    assert float(tight.suboptimality.iloc[0]) == small.rows[0].outcomes["tight"].suboptimality
    assert "not private" in repr(small)
    for broken in ({}, {"schema": "x"}, {**small.to_dict(), "rows": [1]}, 3):
        with pytest.raises(ValueError, match="report"):
            reproduce.Table51.from_dict(broken)


def test_baselines(monkeypatch):
    """A tenth of the steps of noisy descent, with the noise of as many."""
    monkeypatch.setattr("bench.reproduce.batch_methods.MOST_STEPS", 10**5)
    result = reproduce.table_5_1(
        horizons=[1000], dimensions=[5], seeds=3, verdicts=False, baselines=True,
        baseline_seconds=0.2,
    )  # fmt: skip
    found = {entry.algorithm: entry for entry in result.baselines}
    assert set(found) == {"NoisySFW", "NoisySGD", "PhasedSGD"}
    assert found["PhasedSGD"].printed is None
    assert found["NoisySFW"].same_problem is True
    assert 0.1 < found["NoisySFW"].outcome.suboptimality < 2.0
    assert found["NoisySGD"].outcome.suboptimality < 0.6
    assert 1 <= found["NoisySGD"].outcome.runs <= 3
    assert found["NoisySFW"].outcome.runs == 3
    assert reproduce.Table51.from_dict(json.loads(result.to_json())) == result
    text = reproduce.format_markdown(result)
    assert "| 1.5 | 5 | 1000 | NoisySFW | 0.52 ± 0.06 |" in text


def test_markdown(small):
    text = reproduce.format_markdown(small)
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert sum(line.startswith("| 1.5 | 5 |") for line in lines) == 4
    assert "0.017 ± 0.010" in text
    assert "Printed numbers: " in text
    for block in text.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in rows}) <= 1


def test_progress_and_targets():
    seen = []
    sparse = reproduce.table_5_1(
        horizons=[1000], dimensions=[20], p=[1.5], seeds=2, verdicts=False, target="sparse5",
        test_records=500, progress=lambda *args: seen.append(args),
    )  # fmt: skip
    assert seen == [("table", 10_000, 10_000)]
    assert sparse.settings["target"] == "sparse5"
    with pytest.raises(TypeError, match="seeds"):
        reproduce.table_5_1(seeds=2.5)
