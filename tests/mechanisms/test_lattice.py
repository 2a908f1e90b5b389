"""Continual sums on a lattice: exact sums, exact laws, and nothing for floating-point attacks."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.descriptions import unchecked
from tests.probes import probes

import dpoco
from dpoco import _core
from dpoco.accounting import release
from dpoco.accounting.continual_sum import column_norm, factorisation, release_grid
from dpoco.mechanisms import ContinualSum
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import Normalised, Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

METHODS = ("blt", "blt_normalised", "banded", "tree", "toeplitz")
PEOPLE = dpoco.Participation(4, 7, enforced=False)
BUDGET = dpoco.Budget(1.0, 1e-6)


def make(method="auto", *, seed=1, d=3, horizon=23, budget=BUDGET, numerics="lattice", **options):
    return ContinualSum(
        d, horizon=horizon, budget=budget, method=method, numerics=numerics,
        source=Source.seeded(seed), **{"bound": 1.0, **options},
    )  # fmt: skip


def grid_of(total):
    """The sum's description, which has its grid and its limit."""
    return total._mechanism


def exact_sum(total):
    """The sum without noise in the state, in multiples of the grid, as Python integers."""
    d, grid = total._mechanism.summand.size, Fraction(grid_of(total).grid)
    words = np.frombuffer(total._engine.state(), dtype=np.float64)
    pairs = zip(words[2 : 2 + d], words[3 + d : 3 + 2 * d], strict=True)
    sums = [(Fraction(float(a)) + Fraction(float(b))) / grid for a, b in pairs]
    assert all(s.denominator == 1 for s in sums)
    return [int(s) for s in sums]


@pytest.mark.parametrize("method", METHODS)
def test_noise_is_that_of_doubles_but_for_the_rounding(method):
    values = np.random.default_rng(0).normal(size=(64, 40))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    plain = make(method, d=40, horizon=64, numerics="float")
    held = plain.plan.mechanism
    plan = replace(plain.plan, mechanism=release.on_lattice(held, Neighbours(), held.scale))
    exact = ContinualSum(40, horizon=64, budget=None, plan=plan, source=Source.seeded(1), bound=1.0)
    assert np.abs(exact.run(values) - plain.run(values)).max() <= 1.01 * release_grid(
        plain.plan.mechanism.scale
    )
    assert exact.guarantee.mu > plain.guarantee.mu  # what rounding costs is accounted for
    assert exact.guarantee.mu < plain.guarantee.mu * (1 + 1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_all_instruction_sets_give_the_same_bits(method):
    values = np.random.default_rng(2).normal(size=(50, 37))
    found = []
    for name in ("baseline", "avx2", "avx512"):
        try:
            _core.select_instruction_set(name)
        except ValueError:
            continue
        total = make(method, d=37, horizon=50)
        found.append((total.run(values).tobytes(), total._engine.state()))
    _core.select_instruction_set("auto")
    assert len(set(found)) == 1


@pytest.mark.parametrize("method", METHODS)
def test_what_is_released_lies_on_one_lattice_whatever_the_data(method):
    """Residues of sums with noise are those of integers, and sums those of rounded vectors."""
    rng = np.random.default_rng(3)
    scale = make(method, d=50, horizon=40).plan.mechanism.scale
    step = release_grid(scale)
    supports = []
    for data in (np.zeros((40, 50)), rng.normal(size=(40, 50)) * 1e-9, rng.normal(size=(40, 50))):
        total = make(method, d=50, horizon=40)
        released = total.run(data)
        supports.append(np.unique(np.abs(released / step) % 1.0))
        expected = np.zeros(50, dtype=np.int64)
        norms = np.maximum(np.linalg.norm(data, axis=1, keepdims=True), 1.0)
        expected = np.rint(data / norms / grid_of(total).grid).astype(np.int64).sum(axis=0)
        # Clipping may round the last digit differently: a fraction of a grid, rounded.
        assert np.abs(np.array(exact_sum(total)) - expected).max() <= 2
    assert all(np.array_equal(support, [0.0]) for support in supports)


def test_released_noise_does_not_depend_on_the_data_at_all():
    # In doubles the noise seen after subtraction of the sum changes with the sum: its rounding
    # does. On the lattice releases are the nearest multiples of exact integers.
    d = 500
    shifts = []
    for numerics in ("float", "lattice"):
        base = make("tree", d=d, horizon=8, numerics=numerics, bound=1e3)
        moved = make("tree", d=d, horizon=8, numerics=numerics, bound=1e3)
        step = release_grid(base.plan.mechanism.scale)
        vector = np.full((8, d), 3 * step)  # whole multiples: releases must move by exactly these
        assert np.linalg.norm(vector[0]) < 1e3
        gap = moved.run(vector) - base.run(np.zeros((8, d)))
        shifts.append(np.abs(gap / step - 3 * np.arange(1, 9)[:, None]).max())
    assert shifts[1] == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_sums_are_those_of_python_integers(method):
    rounds, d = (2000, 5) if method in ("toeplitz", "banded") else (1_000_000, 1)
    rng = np.random.default_rng(4)
    values = rng.uniform(-1.0, 1.0, (rounds, d)) * 10.0 ** rng.integers(-9, 0, (rounds, 1))
    total = make(method, d=d, horizon=rounds, bound=2.0 * math.sqrt(d))  # nothing is clipped
    total.run(values)
    units = np.rint(values / grid_of(total).grid).astype(np.int64)
    assert exact_sum(total) == [sum(int(v) for v in column) for column in units.T]


def test_neighbours_stay_exactly_as_far_apart():
    # The streams of test_continual_sum that drift apart in plain double precision.
    height, rounds = 2**14, 2**18
    sums = []
    for first in (-0.5, 0.5):
        total = make("tree", d=1, horizon=height + rounds + 1)
        total.push([first])
        total.run(np.ones((height, 1)))
        total.run(np.full((rounds, 1), -0.6 * 2.0**-52 * height))
        sums.append(exact_sum(total)[0])
    assert Fraction(sums[1] - sums[0]) * Fraction(grid_of(total).grid) == 1


def test_overflow_is_refused_and_vectors_beyond_the_limit_are_cut():
    vector = ClippedVector(2, 2.0, 1000.0, math.inf)
    held = GaussianSum(vector, Tree(), 4, scale=1.0, grid=2.0**-28, limit=2**40)
    held, claim = unchecked(held, summand=replace(vector, bound=1e30)), Source.seeded(1)._claim()
    with pytest.raises(ValueError, match="overflow"):
        _core.ContinualSum(unchecked(held, pushes=10**9), claim)
    total = _core.ContinualSum(unchecked(held, limit=1000), claim)
    out = np.empty((4, 2))
    total.run(np.array([[1e20, -1e20]] * 4), out)
    sums = np.frombuffer(total.state(), dtype=np.float64)[2:4]
    assert np.array_equal(sums, [4000 * 2.0**-28, -4000 * 2.0**-28])
    for bad in ({"grid": 0.75 * 2.0**-28}, {"grid": 2.0**-8}, {"grid": 2.0**-60}, {"order": 3.0}):
        with pytest.raises(ValueError, match=r"lattice|scale"):
            _core.ContinualSum(unchecked(held, **{"limit": 1, **bad}), claim)


# Parameters of the table, and those that are searched for where people come back.
CORRELATED = [(method, None) for method in ("blt", "blt_normalised", "toeplitz")]
CORRELATED += [("blt", PEOPLE), ("blt_normalised", PEOPLE), ("banded", None), ("banded", PEOPLE)]


@pytest.mark.parametrize(("method", "people"), CORRELATED)
def test_the_path_charge_bounds_what_rounded_noise_can_add(method, people):
    """Equal releases from neighbours need noise rows that differ by C times the change, nearly.

    The rows are recovered from releases and data alone by the mechanism's own integer recursion.
    """
    n, d = 300, 4
    total = make(method, d=d, horizon=n, participation=people)
    p, grid = total._mechanism, grid_of(total).grid
    assert (p.factorisation == factorisation(method, n)) == (people is None)
    rng = np.random.default_rng(6)
    released = np.rint(np.cumsum(rng.normal(size=(n, d)), axis=0) * p.scale / grid)
    sums = np.rint(rng.normal(size=(n, d)) / grid)
    change = np.zeros((n, d))
    change[20] = np.rint(rng.uniform(-1, 1, size=d) / grid)
    own, other = (
        rows_behind(p, n, grid, released - np.cumsum(leaves, axis=0))
        for leaves in (sums, sums + change)
    )
    moved = np.linalg.norm((own - other) * grid / levels_of(total)[:, None])
    column = column_norm(p.factorisation, n)
    ideal = column * np.linalg.norm(change[20] * grid)
    charge = total._mechanism.reach(Neighbours())
    charge -= column * (2.0 + math.sqrt(d) * grid)
    assert charge > 0.0
    assert moved <= ideal + charge
    # Differences are integers: the ideal ones are not, so rounding is really at work.
    assert abs(moved - ideal) > 1e-4 * charge


def levels_of(total):
    """The part of the stated scale that every round's draw has."""
    own = total._mechanism.factorisation
    if isinstance(own, Normalised):
        return np.repeat(own.levels, np.diff(own.ends, prepend=0))
    return np.array(own.levels) if isinstance(own, Banded) else np.ones(total.horizon)


def rows_behind(p, n, grid, noise):
    """Return the fresh draws (in grids) that lead to the given noise of sums."""
    rows = np.empty_like(noise)
    own = factorisation(p.factorisation, n)
    if own.kind == "square_root":
        coefficients = np.concatenate([[1.0], np.cumprod(1.0 - 0.5 / np.arange(1, n))])
        for t in range(n):
            past = np.zeros(noise.shape[1])
            for j in range(t):
                past += coefficients[t - j] * rows[j]
            rows[t] = noise[t] - np.rint(past)
        return rows
    steps = np.diff(noise, axis=0, prepend=0.0)
    if own.kind == "banded":
        for t in range(n):
            past = np.zeros(noise.shape[1])
            for lag in range(1, min(t, own.band - 1) + 1):
                share = own.coefficients[lag] * (own.levels[t] / own.levels[t - lag])
                past += share * steps[t - lag]
            rows[t] = steps[t] + np.rint(past)
        return rows
    unit = 2.0 ** (math.frexp(p.scale)[1] - 1 - 43) / grid
    held = np.zeros((5, noise.shape[1]))
    scales = np.full(n, p.scale / grid)
    if own.kind == "blt_normalised":
        scales *= np.repeat(own.levels, np.diff(own.ends, prepend=0))
    for t in range(n):
        if scales[t] != scales[max(t - 1, 0)]:
            held = np.rint(held * (scales[t] / scales[t - 1]) / unit) * unit
        past = own.weights[0] * held[0]
        for j in range(1, 5):
            past = past + own.weights[j] * held[j]
        rows[t] = steps[t] + np.rint(past)
        for j in range(5):
            lost = np.rint(own.decay[j] * held[j] / unit) * unit
            held[j] = (held[j] - lost) + steps[t]
    return rows


@pytest.mark.parametrize(("method", "people"), CORRELATED)
def test_the_engine_computes_that_recursion(method, people):
    n, d = 40, 3
    total = make(method, d=d, horizon=n, participation=people)
    p, grid = total._mechanism, grid_of(total).grid
    rows = np.empty((n, d))
    claim = Source.seeded(1)._claim()
    source = _core.Source(claim["key"], claim["stream"])
    for t, level in enumerate(levels_of(total)):
        probes.fill_rounded_gaussian(source, level * (p.scale / grid), rows[t])
    released = total.run(np.zeros((n, d)))
    # From draws to noise: invert rows_behind round by round.
    noise = np.zeros((n, d))
    for t in range(n):
        trial = noise.copy()
        trial[t] = noise[t - 1] if t else 0.0
        noise[t] = trial[t] + rows[t] - rows_behind(p, n, grid, trial)[t]
        if t % 20 == 19:
            assert np.abs(released[t] - noise[t] * grid).max() <= release_grid(p.scale) / 2


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
def test_large_horizons():
    # Nothing is gained in noise, and little lost, up to 10^8 rounds; the lattice costs less than
    # a percent at 10^9, which "auto" still takes.
    for horizon, most in ((10**4, 1e-4), (10**6, 1e-3), (10**8, 5e-3), (10**9, 1e-2)):
        plain, exact = (make(horizon=horizon, d=50, numerics=n) for n in ("float", "lattice"))
        ratio = exact.plan.mechanism.scale / plain.plan.mechanism.scale
        assert 1.0 < ratio < 1.0 + most
        assert exact.guarantee.epsilon <= 1.0
        exact.push(np.zeros(50))
    assert make(horizon=10**10, d=50, numerics="auto").plan.mechanism.grid == 0.0
    assert make(horizon=10**6, numerics="auto").plan.mechanism.grid > 0.0
    # Where truncated tails of doubles would cost all of delta, the lattice has none to pay for.
    with pytest.raises(dpoco.CalibrationError, match="tails"):
        make("tree", horizon=10**10, d=1000, numerics="float")
    assert make("tree", horizon=10**10, d=1000, numerics="auto").plan.mechanism.grid > 0.0
    vector = ClippedVector(10**6, 2.0, 1.0, math.inf)
    endless = GaussianSum(vector, factorisation("blt", 10**12), 10**12)
    with pytest.raises(dpoco.CalibrationError, match="lattice"):
        release.noisy_on_lattice(endless, Neighbours("zero_out"), 0.01)


def test_guarantees_state_the_arithmetic():
    assert any("exact integers" in text for text in make().guarantee.conditions)
    assert not any("double precision" in text for text in make().guarantee.conditions)
    assert any("double precision" in t for t in make(numerics="float").guarantee.conditions)
    assert make().guarantee.truncation_mass < 1e-25
    with pytest.raises(ValueError, match="lattice"):
        make(noise="generalized_gaussian", norm=4.0)
    general = make(noise="generalized_gaussian", norm=4.0, numerics="auto")
    assert general.plan.mechanism.grid == 0.0
