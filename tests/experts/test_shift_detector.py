"""The shift detector: constants, detection, regret claims, protocol, state."""

from __future__ import annotations

import numpy as np
import pytest
from tests.descriptions import tuned
from tests.published import built, planned

import dpoco
from dpoco.accounting import shift_detector as accountant
from dpoco.accounting.shift_detector import bias, find_tests
from dpoco.experts import EpochSelector, ShiftDetector
from dpoco.random import Source

PURE = dpoco.Budget(1.0, 0.0)


def make(n, *, seed=1, **options):
    options = {"horizon": 100, "budget": PURE, **options}
    return built(ShiftDetector, n, **options, source=Source.seeded(seed))


def shifting(n, rounds, shifts, gap, seed):
    """Bernoulli losses of mean 1/2; in turn another expert is better by `gap`."""
    rng = np.random.default_rng(seed)
    means = np.full((rounds, n), 0.5)
    for k, part in enumerate(np.array_split(np.arange(rounds), shifts + 1)):
        means[part, k % n] -= gap
    return (rng.random((rounds, n)) < means).astype(float), means.argmin(axis=1)


def test_changes_are_found_and_nothing_else_is():
    false, late = 0, 0
    for seed in range(200):
        rows = np.random.default_rng(seed).random((4000, 5))
        false += len(make_alarms(5, rows, seed)) > 0
    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        means = np.full((4000, 5), 0.95)
        means[:2000, 0] = means[2000:, 1] = 0.05
        alarms = make_alarms(5, (rng.random((4000, 5)) < means).astype(float), seed)
        late += not any(2000 <= t < 2500 for t in alarms)
    assert false <= 20
    assert late <= 2


def make_alarms(n, rows, seed, **options):
    learner = make(n, horizon=len(rows), seed=seed, **options)
    learner.run(rows)
    return learner.alarms.tolist()


@pytest.mark.parametrize("windows", ["tangent", "dyadic"])
@pytest.mark.parametrize("calibration", ["tight", "corrected"])
def test_it_follows_where_the_selector_does_not(windows, calibration):
    rows, best = shifting(4, 20_000, 3, 0.4, 5)
    learner = make(4, horizon=20_000, windows=windows, calibration=calibration, expected_shifts=3)
    trace = learner.run(rows)
    assert 2 <= len(learner.alarms) <= 3
    stuck = EpochSelector(4, horizon=20_000, budget=PURE, source=Source.seeded(1)).run(rows)
    assert trace.regret(best)[-1] < 0.7 * stuck.regret(best)[-1]
    # An expert that is best in the mirror image is the worst: an argmax would end up there.
    flipped = make(4, horizon=20_000, windows=windows).run(1.0 - rows)
    assert np.mean(flipped.decisions[100:] == best[100:]) < 0.3


def test_regret_bounds_hold():
    budget = dpoco.Budget(4.0, 0.0)
    for shifts, gap, windows, calibration in (
        (0, 0.1, "tangent", "tight"),
        (1, 0.4, "tangent", "tight"),
        (2, 0.4, "tangent", "corrected"),
        (1, 0.4, "dyadic", "tight"),
    ):
        options = {"windows": windows, "calibration": calibration, "expected_shifts": shifts}
        p = planned(accountant, 3, horizon=30_000, budget=budget, **options)
        bound = accountant.regret_bound(p, switches=shifts)
        assert bound == p.forecast.regret_bound
        assert p.forecast.regret_scope == "shifting"
        regrets = []
        for seed in range(5):
            rows, best = shifting(3, 30_000, shifts, gap, seed)
            learner = make(3, horizon=30_000, budget=budget, seed=seed, **options)
            regrets.append(learner.run(rows).regret(best)[-1])
        assert max(regrets) <= bound
        if windows == "tangent":
            assert bound < 0.6 * 30_000
    bounds = [accountant.regret_bound(p, switches=s) for s in range(4)]
    assert bounds == sorted(bounds)


def test_the_certificate_of_silence():
    """Without an alarm no window loses more than its allowances, threshold and noise."""
    rows, _ = shifting(3, 3000, 2, 0.2, 0)
    learner = make(3, horizon=3000, budget=None)
    played = learner.run(rows).decisions
    p, alarms = learner.plan, learner.alarms
    offsets, slopes = map(np.array, p.tuning.window_lines())
    starts = [0, *(alarms + 1).tolist()]
    for start, end in zip(starts, [*alarms.tolist(), 2999], strict=True):
        local = np.arange(1, end - start + 1)
        g = np.array([bias(p, (1 << (int(n).bit_length() - 1)) // 2) for n in local])
        part = slice(start, end)
        lost = rows[np.arange(start, end), played[part]][:, None] - rows[part] - g[:, None]
        total = np.vstack([np.zeros((1, 3)), np.cumsum(lost, axis=0)])
        for u in range(0, end - start, 97):
            w = np.arange(1, end - start - u + 1)
            allowed = np.min(offsets[:, None] + slopes[:, None] * w, axis=0)
            assert np.all(total[u + 1 :] - total[u] <= allowed[:, None] + 1e-9)


def test_short_streams_and_one_expert():
    for horizon in (1, 2, 3, 4, 5):
        learner = make(3, horizon=horizon)
        assert (find_tests(learner.plan) is not None) == (horizon >= 4)
        assert learner.guarantee.epsilon == (0.0 if horizon == 1 else 1.0)
        trace = learner.run(np.random.default_rng(0).random((horizon, 3)))
        assert len(trace) == horizon


def test_arguments():
    with pytest.warns(UserWarning, match="is taken as 99"):
        many = make(3, expected_shifts=1000)
    assert ShiftDetector._from_bytes(many._to_bytes()).plan == many.plan
    assert make(3, expected_shifts=np.int64(2), first=np.int64(1)).decide() == 1


def test_an_endless_stream():
    learner = make(3, horizon=None, nominal_horizon=2000)
    twin = accountant.calibrate(3, horizon=2000, budget=PURE)
    assert learner.plan.tuning.threshold == twin.tuning.threshold
    assert learner.plan.mechanism == twin.mechanism
    assert learner.guarantee.horizon == 10**12
    assert learner.guarantee.epsilon == 1.0
    learner.run(np.random.default_rng(0).random((5000, 3)))
    assert learner.round == 5000
    assert make(3, horizon=None).plan.tuning.nominal_horizon == 10**6


def test_alarms_out_of_order_are_refused():
    """The learners whose states `tests/contract/test_releases.py` spoils raise no alarms."""
    p = accountant.calibrate(3, horizon=60, budget=dpoco.Budget(50.0, 0.0))
    p = tuned(p, threshold=0.3, log_windows=0.02, log_selection=None)
    learner, twin = (make(3, plan=p, horizon=60, budget=None) for _ in range(2))
    learner.run(np.random.default_rng(0).random((40, 3)))
    state, alarms = learner._engine.state(), learner.alarms.astype("<u8")
    at = state.index(alarms.tobytes())
    for value in (0, int(alarms[0])):
        with pytest.raises(dpoco.StateError, match="alarms out of order"):
            twin._engine.restore(state[: at + 8] + value.to_bytes(8, "little") + state[at + 16 :])
    twin._engine.restore(state)
