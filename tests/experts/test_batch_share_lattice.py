"""The batched share on a lattice: exact sums, integers of the right law, one sensitivity."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from tests.probes import probes

import dpoco
from dpoco import _core
from dpoco.accounting.batch_share import ShareTuning
from dpoco.accounting.plan import Forecast
from dpoco.accounting.release import batch_grid
from dpoco.experts import BatchShare
from dpoco.privacy.mechanisms.batch_release import movement
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

N, B, T = 6, 4, 24
BUDGET = dpoco.Budget(1.0, 1e-6)
NOISES = ("gaussian", "laplace")


def make(noise="gaussian", *, seed=3, numerics="lattice", budget=BUDGET, **options):
    settings = {"horizon": T + 1, "batch": B, "learning_rate": 0.3, **options}
    return BatchShare(
        N, budget=budget, noise=noise, numerics=numerics, source=Source.seeded(seed), **settings
    )


def losses(seed=0):
    return np.random.default_rng(seed).uniform(size=(T, N))


def engine(seed):
    claim = Source.seeded(seed)._claim()
    return _core.Source(claim["key"], claim["stream"])


@pytest.mark.parametrize("noise", NOISES)
def test_releases_are_integers_of_the_public_samplers(noise):
    d, scale = 3000, 5.3
    grid = batch_grid(d, noise, scale, B)
    x = np.rint(np.random.default_rng(1).uniform(0, B, d) / grid) * grid
    out = probes.release_vector(engine(9), noise, scale, x, grid)
    if noise == "gaussian":
        drawn = np.empty(d)
        probes.fill_rounded_gaussian(engine(9), scale / grid, drawn)
    else:
        drawn = np.empty(d, dtype=np.int64)
        _core.fill_discrete(engine(9), noise, scale, grid, False, drawn)
    step = 2.0 ** (math.floor(math.log2(scale)) - 12)
    exact = np.rint(x / grid).astype(np.int64) + drawn.astype(np.int64)
    assert np.array_equal(out, np.rint(exact.astype(float) * (grid / step)) * step)


@pytest.mark.parametrize("noise", NOISES)
def test_laws(noise):
    count, scale = 200_000, 5.3
    grid = batch_grid(count, noise, scale, B)
    out = probes.release_vector(engine(4), noise, scale, np.full(count, 3.0), grid) - 3.0
    law = scipy.stats.norm if noise == "gaussian" else scipy.stats.laplace
    limit = math.sqrt(math.log(2e6) / (2 * count)) + 2.0**-11
    distances = [
        scipy.stats.kstest(out, law(scale=scale * f).cdf).statistic for f in (1, 0.95, 1.05)
    ]
    assert distances[0] < limit < min(distances[1:])


@pytest.mark.parametrize("noise", NOISES)
def test_digits_of_releases_do_not_tell_inputs_apart(noise):
    count, scale = 200_000, 5.3
    grid = batch_grid(count, noise, scale, B)
    pair = [
        probes.release_vector(engine(11 + int(x > 0)), noise, scale, np.full(count, x), grid)
        for x in (0.0, 1 / 1024)
    ]
    step = 2.0 ** (math.floor(math.log2(scale)) - 12)
    for bit in range(8):
        counts = [int(np.sum((np.rint(y / step).astype(np.int64) >> bit) & 1)) for y in pair]
        assert abs(counts[0] - counts[1]) < 5.5 * math.sqrt(count / 2)


@pytest.mark.parametrize("noise", NOISES)
def test_neighbouring_sums_differ_by_the_change_exactly(noise):
    inputs = []
    for first in (0.0, 1.0):
        learner = make(noise)
        rows = losses(5)
        rows[1] = np.arange(N) % 2 if first else 1.0 - np.arange(N) % 2
        learner.run(rows[:B])
        inputs.append(np.array(learner._engine.nonprivate_input()))
    grid = learner._mechanism.grid
    assert all(np.array_equal(x / grid, np.rint(x / grid)) for x in inputs)
    moved = inputs[0] - inputs[1]
    assert np.abs(moved).max() == 1.0
    assert np.linalg.norm(moved) <= movement("gaussian", N)


@pytest.mark.parametrize("noise", NOISES)
def test_guarantees_state_the_arithmetic_and_cost_no_noise(noise):
    exact, plain = make(noise), make(noise, numerics="float")
    assert exact._mechanism.scale == plain._mechanism.scale
    assert any("exact integers" in text for text in exact.guarantee.conditions)
    assert any("double precision" in text for text in plain.guarantee.conditions)
    assert exact.guarantee.epsilon <= 1.0
    assert exact.guarantee.truncation_mass < 1e-25
    assert make(noise, numerics="auto")._mechanism.grid > 0.0


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
def test_what_has_no_lattice_says_so():
    with pytest.raises(ValueError, match="lattice"):
        make("knorm")
    cube = make("knorm", numerics="auto")
    assert cube._mechanism.grid == 0.0
    assert any("double precision" in text for text in cube.guarantee.conditions)
    with pytest.raises(dpoco.CalibrationError, match="lattice"):
        make(horizon=10**12, batch=5 * 10**10)
    assert make(horizon=10**12, batch=5 * 10**10, numerics="auto")._mechanism.grid == 0.0
    record = make().plan.to_dict()
    wrong = {**record["mechanism"], "batch": 5 * 10**10}
    with pytest.raises(dpoco.StateError):
        dpoco.Plan.from_dict(record | {"mechanism": wrong}, ShareTuning, Forecast)
    with pytest.raises(ValueError, match="numerics"):
        make(numerics="fixed")


def test_grids_hold_what_is_added():
    for experts in (1, 2, 100, 10**6):
        for noise in NOISES:
            for scale in (1e-3, 0.3, 1.0, 50.0, 1e4, 1e9):
                for batch in (1, 1000, 10**6, 10**12):
                    try:
                        grid = batch_grid(experts, noise, scale, batch)
                    except dpoco.CalibrationError:
                        continue
                    assert math.frexp(grid)[0] == 0.5
                    assert grid <= (2.0**-16 if noise == "gaussian" else 1.0)
                    assert 2.0**15 < scale / grid < 2.0**29
                    assert batch < 2.0**51 * grid
                    assert noise == "laplace" or experts * batch <= 2.0**53 * grid
