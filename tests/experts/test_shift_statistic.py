"""The shift detector's statistic: against its definition, and how far one round can move it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.probes import probes

import dpoco
from dpoco.accounting import shift_detector
from dpoco.experts._selectors import statistic_settings

from . import detector_reference as reference

PURE = dpoco.Budget(1.0, 0.0)


def parameters(n, horizon, windows="tangent", **options):
    options = {"horizon": horizon, "budget": PURE, "windows": windows, **options}
    return shift_detector.calibrate(n, **options).tuning


def values(p, losses, own, allowances):
    engine = probes.ShiftStatistic(statistic_settings(p))
    rounds = zip(own, losses, allowances, strict=True)
    return np.array([engine.update(int(j), row, float(g)) for j, row, g in rounds])


def random_stream(n, rounds, seed):
    rng = np.random.default_rng(seed)
    losses = rng.random((rounds, n))
    return losses, rng.integers(n, size=rounds), rng.choice([0.0, 0.3, 1.0], rounds)


@pytest.mark.parametrize("instructions", ["baseline", "auto"])
@pytest.mark.parametrize("n", [1, 3, 11])
def test_all_windows_are_covered(n, instructions):
    probes.select_instruction_set(instructions)
    try:
        for seed in range(4):
            stream = losses, own, allowances = random_stream(n, 40, seed)
            p = parameters(n, 40)
            # Small allowances, so that long windows matter.
            for level in (p.log_windows, 0.01):
                p = dataclasses.replace(p, log_windows=level)
                fast = values(p, *stream)
                slow = values(dataclasses.replace(p, windows="naive"), *stream)
                history = list(zip(own, losses, allowances, strict=True))
                lines = p.window_lines()
                want = [reference.statistic(history[: t + 1], *lines) for t in range(40)]
                assert np.allclose(fast, want, atol=1e-9, rtol=0.0)
                assert np.allclose(slow, want, atol=1e-9, rtol=0.0)
    finally:
        probes.select_instruction_set("auto")


def test_aligned_blocks():
    for seed in range(4):
        losses, own, allowances = random_stream(5, 70, seed)
        p = dataclasses.replace(parameters(5, 70, "dyadic"), log_windows=0.3)
        got = values(p, losses, own, allowances)
        history = list(zip(own, losses, allowances, strict=True))
        offsets, slopes = p.window_lines()
        assert slopes == []
        want = [reference.statistic(history[: t + 1], offsets, None) for t in range(70)]
        assert np.allclose(got, want, atol=1e-9, rtol=0.0)


def test_values_by_hand():
    p = parameters(3, 40)
    offsets, _ = p.window_lines()
    assert len(offsets) == 4
    assert abs(p.log_windows - 10.5558127) < 1e-6
    t, j = np.arange(12)[:, None], np.arange(3)[None, :]
    losses = ((7 * t + 3 * j) % 11) / 10.0
    own = [0, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 0]
    for windows in ("tangent", "naive"):
        q = values(dataclasses.replace(p, windows=windows), losses, own, np.ones(12))
        want = [-5.5947388911, -5.2947388911, -5.0947388911, -5.5947388911]
        assert np.allclose(q[[0, 3, 7, 11]], want, atol=1e-9, rtol=0.0)


def test_tangents_lie_close_above_the_root():
    p = parameters(4, 1000)
    offsets, slopes = map(np.array, p.window_lines())
    w = np.arange(1, 1001)
    allowed = np.min(offsets[:, None] + slopes[:, None] * w, axis=0)
    root = np.sqrt(2.0 * p.log_windows * w)
    assert np.all(allowed >= root * (1.0 - 1e-12))
    assert np.all(allowed <= 1.0607 * root)


def windows_moved_by(p, losses, own, allowances, at, row):
    other = losses.copy()
    other[at] = row
    return values(p, other, own, allowances) - values(p, losses, own, allowances)


@pytest.mark.parametrize("windows", ["tangent", "dyadic", "naive"])
def test_one_round_moves_it_within_an_interval_of_length_two(windows):
    """Replacing l by l' moves every value by l'(J) - l(J) + [-1, 1], or not at all."""
    p = dataclasses.replace(parameters(4, 40, windows), log_windows=0.05)
    rng = np.random.default_rng(1)
    lowest, highest = 0.0, 0.0
    for seed in range(60):
        losses, own, allowances = random_stream(4, 40, seed)
        if seed % 2:
            losses, allowances = np.round(losses), np.zeros(40)
        at = int(rng.integers(40))
        row = rng.integers(0, 2, size=4).astype(float)
        moved = windows_moved_by(p, losses, own, allowances, at, row)
        a = row[own[at]] - losses[at, own[at]]
        assert np.all(moved[:at] == 0.0)
        assert np.all(moved >= a - 1.0 - 1e-12)
        assert np.all(moved <= a + 1.0 + 1e-12)
        lowest, highest = min(lowest, moved.min()), max(highest, moved.max())
    assert highest > 1.0  # a sensitivity of 1 would not do
    assert lowest < -0.5


@pytest.mark.parametrize("windows", ["tangent", "naive"])
def test_the_sensitivity_is_two_and_attained(windows):
    """A round that spoke for the expert played speaks against it instead."""
    p = dataclasses.replace(parameters(2, 8, windows), log_windows=0.0)
    losses, own, zero = np.tile([1.0, 0.0], (8, 1)), np.zeros(8, dtype=int), np.zeros(8)
    losses[7] = [0.0, 1.0]
    moved = windows_moved_by(p, losses, own, zero, 7, [1.0, 0.0])
    assert moved.tolist() == [0.0] * 7 + [2.0]


def test_reset_forgets():
    p = parameters(3, 40)
    losses, own, allowances = random_stream(3, 12, 3)
    engine = probes.ShiftStatistic(statistic_settings(p))
    first = [engine.update(int(own[t]), losses[t], allowances[t]) for t in range(12)]
    engine.reset()
    again = [engine.update(int(own[t]), losses[t], allowances[t]) for t in range(12)]
    assert first == again


def test_bad_settings_are_refused():
    good = statistic_settings(parameters(3, 40))
    for wrong in (
        {"windows": "all"},
        {"offsets": []},
        {"slopes": [1.0]},
        {"offsets": [np.nan, 1.0, 1.0, 1.0]},
        {"experts": 0},
        {"windows": "dyadic"},
        {"reach": 0},
        {"reach": 3},
        {"reach": 2**51},
    ):
        with pytest.raises(ValueError, match=r"windows|allowance|experts|reach"):
            probes.ShiftStatistic({**good, **wrong})
    engine = probes.ShiftStatistic(good)
    with pytest.raises(ValueError, match="losses"):
        engine.update(0, np.zeros(2), 0.0)


@pytest.mark.parametrize("windows", ["tangent", "dyadic"])
def test_errors_of_rounding_do_not_add_up(windows):
    """Sums cross a power of two in one world only, then grow by about half their last digit."""
    rounds = 2**17 - 1
    p = dataclasses.replace(parameters(2, 2 * rounds, windows), log_windows=0.0)
    high, low, tiny = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.6 * 2.0**-36, 0.0])
    a = 1.0  # the own loss rises from 0 to 1
    engines = [probes.ShiftStatistic(statistic_settings(p)) for _ in range(2)]
    for t in range(rounds):
        if t == 5:
            moved = engines[1].update(0, high, 0.0) - engines[0].update(0, low, 0.0)
        else:
            row = high if t <= 2**16 else tiny
            moved = engines[1].update(0, row, 0.0) - engines[0].update(0, row, 0.0)
        if t >= 5:
            assert a - 1.0 <= moved <= a + 1.0  # no tolerance
    if windows == "tangent":
        assert moved == 2.0


def test_sums_beyond_the_reach_are_cut_off_within_the_same_interval():
    settings = {"experts": 3, "windows": "tangent", "offsets": [0.0, 1.0], "slopes": [0.5, 0.0]}
    rng = np.random.default_rng(3)
    saturated = 0
    for _ in range(30):
        losses = rng.integers(0, 2, size=(60, 3)).astype(float)
        losses[:, 0] = rng.random(60) < 0.9
        at, row = int(rng.integers(60)), rng.integers(0, 2, size=3).astype(float)
        a = row[0] - losses[at, 0]
        worlds = []
        for changed in (False, True):
            engine = probes.ShiftStatistic({**settings, "reach": 8})
            worlds.append([
                engine.update(0, row if changed and t == at else losses[t], 0.0)
                for t in range(60)
            ])  # fmt: skip
        moved = np.subtract(worlds[1], worlds[0])
        assert np.all((moved >= a - 1.0) & (moved <= a + 1.0))
        assert max(worlds[0]) <= 8.0
        saturated += max(worlds[0]) == 8.0 - 1.0
        # Windows of up to 8 rounds are seen in full.
        lost = losses[:, [0]] - losses
        for t in range(60):
            for w in range(1, min(8, t + 1) + 1):
                allowed = min(0.5 * w, 1.0)
                assert worlds[0][t] >= lost[t + 1 - w : t + 1].sum(axis=0).max() - allowed
    assert saturated > 10


def test_values_are_multiples_of_the_grid():
    for horizon in (40, 10**4, None):
        p = parameters(3, horizon)
        losses, own, allowances = random_stream(3, 40, 5)
        scaled = values(p, losses, own, allowances) / p.rounding()
        assert np.array_equal(scaled, np.round(scaled))
        assert p.reach() >= min(horizon or 2**26, 2**26)
    assert parameters(3, 10**12).rounding() == 2.0**-11
