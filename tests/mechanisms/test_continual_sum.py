"""Continual sums: laws, guarantees attacked, bounds, horizon and state."""

from __future__ import annotations

import contextlib
import math
import struct
import threading

import numpy as np
import pytest
import scipy
from tests.samples import replays

import dpoco
from dpoco.mechanisms import ContinualSum
from dpoco.random import Source

METHODS = ("blt", "blt_normalised", "banded", "tree", "toeplitz")
BUDGET = dpoco.Budget(1.0, 1e-6)


def make(method="auto", *, seed=1, d=3, horizon=23, budget=BUDGET, **options):
    return ContinualSum(
        d,
        horizon=horizon,
        budget=budget,
        method=method,
        source=Source.seeded(seed),
        **{"bound": 1.0, **options},
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 8, 9, 23])
def test_variance_is_exactly_the_stated_one(method, horizon):
    d = 20_000  # coordinates are independent copies
    total = make(method, d=d, horizon=horizon)
    released = total.run(np.zeros((horizon, d)))
    low, high = scipy.stats.chi2.ppf([1e-9, 1 - 1e-9], d) / d
    for t in range(1, horizon + 1):
        ratio = np.mean(released[t - 1] ** 2) / total.variance(t)
        assert low < ratio < high
        # A scale 5 % off, as from a wrong constant, must be rejected by this very test.
        assert not low < ratio / 1.05**2 < high
        assert not low < ratio * 1.05**2 < high
    assert total.standard_deviation(1) == pytest.approx(np.sqrt(total.variance(1)))


@pytest.mark.parametrize("method", ["blt", "blt_normalised", "tree"])
def test_generalized_gaussian_variance(method):
    d, copies, horizon = 4, 4000, 6
    samples = np.empty((copies, horizon, d))
    total = make(
        method, d=d, horizon=horizon, norm=4.0, noise="generalized_gaussian", norm_order=3.0
    )
    for i, each in enumerate(replays(total, copies)):
        samples[i] = each.run(np.zeros((horizon, d)))
    for t in range(1, horizon + 1):
        values = samples[:, t - 1].ravel()
        slack = 7 * np.std(values**2) / np.sqrt(values.size)
        assert abs(np.mean(values**2) - total.variance(t)) < slack
        assert slack < 0.1 * total.variance(t)


@pytest.mark.parametrize("method", METHODS)
def test_consecutive_releases_are_never_free_of_fresh_noise(method):
    # On constant input, differences of releases must not reveal the input.
    total = make(method, horizon=64, d=300)
    released = total.run(np.full((64, 300), 1e-3))
    steps = np.diff(released, axis=0, prepend=0.0)
    scale = total.plan.mechanism.scale
    assert np.all(np.std(steps, axis=1) > 0.5 * scale)  # in every single round
    assert np.mean(np.abs(steps) < 1e-3 * scale) < 0.01


def test_auto_takes_the_smallest_error_and_says_so():
    from dpoco.accounting.continual_sum import max_error, method_name

    for horizon in (1, 2, 10, 1000, 10**6):
        total = make(horizon=horizon)
        chosen = method_name(total.plan.mechanism.factorisation)
        assert chosen in repr(total)
        for other in METHODS:
            if other == "banded" or (other == "toeplitz" and horizon > 4096):
                continue
            assert max_error(chosen, horizon) <= max_error(other, horizon)
    assert make(horizon=1000).standard_deviation(1000) * 1.5 < make(
        "tree", horizon=1000
    ).standard_deviation(1023 - 512)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("numerics", ["float", "lattice"])
def test_streams_and_states_have_the_same_bits_however_they_are_split(method, numerics):
    n = 140
    values = np.random.default_rng(3).normal(size=(n, 3))
    whole = make(method, horizon=n, numerics=numerics).run(values)
    parts, released = make(method, horizon=n, numerics=numerics), []
    for value in values:
        parts = ContinualSum._from_bytes(parts._to_bytes())  # at every end of a block, too
        released.append(parts.push(value))
    assert np.array_equal(released, whole)


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
def test_memory_does_not_grow_with_the_stream():
    rounds, d = 10**7, 1
    values = np.zeros((rounds // 10, d))
    sizes = {}
    for method in ("blt", "tree"):
        total = make(method, horizon=rounds, d=d)
        for _ in range(10):
            total.run(values)
        sizes[method] = len(total._engine.state())
        assert total.round == rounds
    words = 16  # key, stream, positions, counters
    levels = rounds.bit_length()
    assert sizes["blt"] <= 8 * (7 * d + words + 4)
    assert sizes["tree"] <= 8 * (d * (levels + 1) + words + 4)


def test_a_state_is_never_torn_by_a_running_thread():
    d = 50_000
    total = make(d=d, horizon=10_000)
    values = np.zeros((200, d))
    values[:, 0] = 1.0
    runner = threading.Thread(target=lambda: total.run(values))
    runner.start()
    states = []
    while runner.is_alive():
        with contextlib.suppress(dpoco.RoundOrderError):  # refused while a compiled call runs
            states.append(total._engine.state())
    runner.join()
    states.append(total._engine.state())
    for state in states[:: max(1, len(states) // 20)]:
        rounds = struct.unpack_from("<Q", state, 0)[0]
        first_sum = struct.unpack_from("<d", state, 16)[0]
        gaussians = struct.unpack_from("<6Q", state, len(state) - 48)[2]
        assert first_sum == pytest.approx(rounds, rel=1e-9)
        assert gaussians == rounds * d


def play_up(first, height, rounds):
    """Climb to about `height`, then push what rounds up above it and down below."""
    total = make(d=1, horizon=height + rounds + 1, budget=None)
    total.push([first])
    start = total.run(np.ones((height, 1)))[-1, 0]
    tiny = 0.6 * 2.0**-52 * height
    for _ in range(rounds // 2**18):
        last = total.run(np.full((2**18, 1), -tiny))
    return start, last[-1, 0], rounds * tiny


def test_neighbouring_sums_do_not_drift_apart_by_rounding():
    # Sums just below and just above a power of two: in plain double precision equal summands would
    # round to different multiples of their last digits, in every round anew.
    height, rounds = 2**16, 2**20
    unit = 2.0**-52 * height
    (_, low, _), (start, high, fall) = (play_up(x, height, rounds) for x in (-0.5, 0.5))
    assert high - low == pytest.approx(1.0, abs=2.0 * unit)  # not 0.4 units a round
    assert start - high == pytest.approx(fall, abs=2.0 * unit)


def test_sums_are_exact_to_the_last_digit():
    values = np.random.default_rng(0).uniform(-1.0, 1.0, (100_000, 1)) * 0.1  # not clipped
    total = make(d=1, horizon=len(values), budget=None)
    assert total.run(values)[-1, 0] == math.fsum(values[:, 0].tolist())


def test_states_are_bytes_and_never_quoted():
    total = make()
    state = total._to_bytes()
    assert ContinualSum._from_bytes(bytearray(state)).round == 0
    source = Source.seeded(1)
    for moved in (bytearray(source.to_bytes()), memoryview(source.to_bytes())):
        assert np.array_equal(Source.from_bytes(moved).words(3), Source.seeded(1).words(3))
    with pytest.raises(TypeError, match="got str"):
        Source.from_bytes("dpocosrc")
