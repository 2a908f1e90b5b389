"""Accounting of the shift detector: constants, guarantees, thresholds, false alarms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.descriptions import changed, number, tuned
from tests.published import planned

import dpoco
from dpoco.accounting import shift_detector as accountant
from dpoco.accounting.plan import Forecast
from dpoco.accounting.shift_detector import (
    _long_windows,
    bias,
    bound_regret,
    false_alarm_probability,
    find_tests,
)
from dpoco.experts import ShiftDetector
from dpoco.random import Source

PURE = dpoco.Budget(1.0, 0.0)


def test_constants():
    p = accountant.calibrate(10, horizon=10**5, budget=PURE)
    want = {
        "query_scale": 5.003299,
        "threshold": 79.52720,
        "log_windows": 20.50012,
        "log_selection": 9.517825,
        "scale": 4.0,
    }
    for name, value in want.items():
        assert math.isclose(number(p, name), value, rel_tol=1e-6)
    tests = find_tests(p)
    assert math.isclose(2.0 / tests.threshold_scale, 0.1002637, rel_tol=1e-6)
    assert math.isclose(2.0 / tests.query_scale, 0.3997363, rel_tol=1e-6)
    offsets, slopes = p.tuning.window_lines()
    assert len(offsets) == len(slopes) == 10
    assert math.isclose(offsets[0], 3.2015717, rel_tol=1e-6)
    assert math.isclose(slopes[0], 3.2015717, rel_tol=1e-6)
    assert math.isclose(bias(p, 1024), 0.1735223, rel_tol=1e-6)
    assert math.isclose(bias(p, 16384), 0.0364095, rel_tol=1e-6)
    assert bias(p, 0) == 1.0


def test_guarantees():
    for calibration in ("tight", "corrected"):
        for share in (0.2, 0.5, 0.9, 1.0):
            p = planned(
                accountant, 5, horizon=1000, budget=PURE, calibration=calibration,
                select_share=share,
            )  # fmt: skip
            g = accountant.guarantee(p, budget=PURE)
            assert 1.0 - 1e-12 < g.epsilon <= 1.0
            assert g.delta == 0.0
            assert g.certified
            assert (find_tests(p) is not None) == (share < 1.0)
            assert math.isclose(2.0 / number(p, "scale"), share, rel_tol=1e-12)
    paper = planned(accountant, 5, horizon=1000, budget=PURE, calibration="paper")
    g = accountant.guarantee(paper)
    assert math.isclose(g.epsilon, 1.25, rel_tol=1e-12)
    assert math.isclose(g.claimed[0], 1.0, rel_tol=1e-12)
    assert "spent 1.25 times" in " ".join(g.conditions)
    assert math.isclose(find_tests(paper).threshold_scale, 4.0)
    assert math.isclose(find_tests(paper).query_scale, 8.0)
    assert g.regret_bound is None
    learner = ShiftDetector(5, horizon=1000, budget=None, plan=paper)
    assert math.isclose(learner.guarantee.epsilon, 1.25, rel_tol=1e-12)
    with pytest.raises(dpoco.BudgetExceeded):
        ShiftDetector(5, horizon=1000, budget=PURE, plan=paper)
    with pytest.raises(ValueError, match="experts"):
        ShiftDetector(6, horizon=1000, budget=None, plan=paper)


def test_published_thresholds():
    beta = 1e-5
    p = planned(accountant, 10, horizon=10**5, budget=PURE, calibration="paper", false_alarm=beta)
    log_queries = math.log(10 * 10**5 / beta)
    alpha = 16.0 * (2.0 * math.log(10**5) + math.log(2.0 / beta))
    assert abs(16.0 * log_queries - 405.0) < 1.0
    assert abs(alpha - 563.0) < 1.0
    assert math.isclose(p.tuning.threshold, 16.0 * log_queries + alpha + 1.0)
    offsets, slopes = p.tuning.window_lines()
    for w in (1.0, 16.0, 4.0**5):
        allowed = min(a + s * w for a, s in zip(offsets, slopes, strict=True))
        assert math.isclose(allowed, 9.0 * math.sqrt(w * log_queries))
    assert bias(p, 0) == bias(p, 64) == 0.0


def test_tunings_out_of_range():
    p = accountant.calibrate(5, horizon=1000, budget=PURE)
    assert accountant.guarantee(changed(p, threshold=0.0)).regret_bound is None
    record = p.to_dict()
    for wrong in ({"windows": "all"}, {"detects": 1}, {"first": 5}, {"threshold_scale": 0.0}):
        spoilt = {**record, "tuning": {**record["tuning"], **wrong}}
        with pytest.raises(dpoco.StateError):
            dpoco.Plan.from_dict(spoilt, accountant.DetectorTuning, Forecast)


def test_false_alarm_claims_are_computed_from_what_is_in_use():
    for calibration in ("tight", "corrected"):
        for windows in ("tangent", "dyadic"):
            p = planned(
                accountant, 7, horizon=5000, budget=PURE, calibration=calibration, windows=windows
            )
            assert 0.02 < false_alarm_probability(p, 5000) <= 0.05 * (1.0 + 1e-9)
            eager = tuned(p, threshold_scale=0.7)
            assert false_alarm_probability(eager, 5000) > 0.2
            assert accountant.regret_bound(eager) == math.inf
    slow = accountant.calibrate(7, horizon=5000, budget=PURE, expected_shifts=9)
    assert slow.tuning.log_selection > p.tuning.log_selection
    assert math.isclose(slow.tuning.log_selection - p.tuning.log_selection, math.log(10.0))


@pytest.mark.parametrize("nominal", [2, 8, 100, 512])
def test_regret_of_blocks_far_shorter_than_the_horizon(nominal):
    """Blocks shorter than the threshold see nothing: the bound must not claim that they do."""
    rounds = 2**17 - 1
    options = {"windows": "dyadic", "nominal_horizon": nominal, "expected_shifts": 1}
    losses = np.tile([0.0, 1.0], (rounds, 1))
    losses[rounds // 2 :] = [1.0, 0.0]
    learner = ShiftDetector(
        2,
        horizon=rounds,
        budget=PURE,
        false_alarm=1e-6,
        first=0,
        source=Source.seeded(0),
        **options,
    )
    regret = learner.run(losses).losses.sum()  # the best sequence loses nothing
    assert regret <= learner.guarantee.regret_bound <= rounds
    assert regret > 0.4 * rounds or nominal > 100
    endless = accountant.calibrate(2, horizon=None, budget=PURE, false_alarm=1e-6, **options)
    assert regret <= accountant.regret_bound(endless, switches=1, rounds=rounds)


def test_aligned_blocks_that_cover_a_piece():
    """At most two of each length, and of the longest two or as many as fit in."""
    for longest in (1, 2, 8):
        p = accountant.calibrate(
            2, horizon=100, budget=PURE, windows="dyadic", nominal_horizon=longest
        )
        for start in range(20):
            for end in range(start + 1, 100):
                counts, at = {}, start
                while at < end:
                    size = longest
                    while at % size or at + size > end:
                        size //= 2
                    counts[size] = counts.get(size, 0) + 1
                    at += size
                more, _ = _long_windows(p.tuning, end - start)
                assert all(counts[size] <= 2 for size in counts if size < longest)
                assert counts.get(longest, 0) <= 2 + more


def test_bounds_do_not_depend_on_the_reach_where_it_suffices():
    p = accountant.calibrate(5, horizon=10**5, budget=PURE)
    assert _long_windows(p.tuning, 10**5)[0] == 0
    assert 0.0 < bound_regret(p, 10**5, 0)[1]["rounding"] < 1e-3
    short = accountant.calibrate(5, horizon=10**9, budget=PURE, nominal_horizon=10**4)
    assert _long_windows(short.tuning, 10**9)[0] == 10**9 // 2**26
    endless = accountant.calibrate(5, horizon=None, budget=PURE)
    assert bound_regret(endless, 10**6, 0)[1]["rounding"] < 1.0
