"""Batch baselines on a grid: what a release sees is exact, charged, audited and told."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import dpoco
from dpoco.accounting import Guarantee
from dpoco.accounting.batch_baselines import Release, exact_scale, grid_of
from dpoco.domains import LpBall
from dpoco.frank_wolfe import LocalizedMirrorDescent, NoisyFrankWolfe, NoisySGD
from dpoco.losses import SquaredLoss
from dpoco.privacy.mechanisms.batch_fits import SummedPhase
from dpoco.random import Source

BUDGET = dpoco.Budget(2.0, 1e-4)
N, D = 24, 3
KINDS = {
    "NoisyFrankWolfe": (NoisyFrankWolfe, {}),
    "NoisySGD": (NoisySGD, {"steps": 40}),
    "LocalizedMirrorDescent": (LocalizedMirrorDescent, {"steps": 5}),
}
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = RNG.uniform(-1.0, 1.0, N)


def made(kind, numerics="lattice", source=None, records=N, d=D, budget=BUDGET, **options):
    cls, own = KINDS[kind]
    return cls(
        LpBall(d, 2.0), SquaredLoss(1.0, 1.0), budget=budget, records=records, numerics=numerics,
        source=source or Source.seeded(1), **{**own, **options},
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_takes_the_grid_and_says_so(kind):
    cls, own = KINDS[kind]
    default = cls(LpBall(D, 2.0), SquaredLoss(1.0, 1.0), budget=BUDGET, records=N, **own)
    exact, plain = made(kind), made(kind, "float")
    assert default.parameters == exact.parameters
    assert (exact.guarantee.numerics, plain.guarantee.numerics) == ("lattice", "float")
    assert any("exact integers" in text for text in exact.guarantee.conditions)
    assert any("double precision" in text for text in plain.guarantee.conditions)
    assert "exact integers" in str(exact.guarantee)
    assert exact.guarantee.epsilon <= BUDGET.epsilon * (1 + 1e-12)
    ratio = exact.guarantee.noise_scale / plain.guarantee.noise_scale
    assert 1.0 - 1e-4 < ratio < 1.0 + 1e-6
    for given, asked in ((exact, "float"), (plain, "lattice")):
        with pytest.raises(ValueError, match="numerics"):
            made(kind, asked, parameters=given.parameters)
        assert made(kind, "auto", parameters=given.parameters).parameters == given.parameters


@pytest.mark.parametrize("kind", KINDS)
def test_older_parameters_and_guarantees_are_read(kind):
    plain = made(kind, "float")
    record = plain.parameters.to_dict()
    old = {k: v for k, v in record.items() if k != "numerics"} | {"version": 1}
    assert type(plain.parameters).from_dict(old) == plain.parameters
    stated = made(kind).guarantee
    assert Guarantee.from_json(stated.to_json()).numerics == "lattice"
    before = {k: v for k, v in stated.to_dict().items() if k != "numerics"}
    assert Guarantee.from_dict(before) == dataclasses.replace(stated, numerics=None)
    for wrong in ("doubles", 1):
        with pytest.raises(dpoco.StateError):
            Guarantee.from_dict(stated.to_dict() | {"numerics": wrong})


def test_plain_words_tell_the_arithmetic():
    for numerics, words in (("lattice", "whole steps of that grid"), ("float", "16 digits")):
        text = " ".join(dpoco.accounting.explain(made("NoisySGD", numerics).guarantee).split())
        assert words in text


@pytest.mark.parametrize("kind", KINDS)
def test_releases_are_exact_sums_of_rounded_records(kind):
    learner = made(kind)
    settings, engine = learner._settings(), learner._engine(X, Y)
    at = np.array([0.3, -0.2, 0.1])
    bound = learner.parameters.derivative_bound
    slopes = np.clip(2.0 * (X @ at - Y), -bound, bound)
    products = slopes[:, None] * X
    if kind == "NoisySGD":
        sums, grid = products[5:6], settings["grid"]
        value = engine.nonprivate_release(5, at, at)
    elif kind == "NoisyFrankWolfe":
        sums, grid = products[: settings["first_batch"]], settings["first_grid"]
        value = engine.nonprivate_release(0, at, at)
    else:
        sums, grid = products[: settings["phases"][0][0]], settings["grids"][0]
        value = engine.nonprivate_release(0, at, at)
    assert grid > 0.0
    units = np.rint(value * len(sums) / grid)
    # Computed once more by other arithmetic: a unit of the last place may change a rounding.
    expected = [sum(round(Fraction(v) / Fraction(grid)) for v in column) for column in sums.T]
    assert np.abs(units - np.array(expected, dtype=float)).max() <= 1.0
    np.testing.assert_allclose(value * len(sums) / grid, units, rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_what_rounding_adds_is_charged(kind):
    learner = made(kind)
    moved = learner.guarantee.sensitivity
    plain = made(kind, "float").guarantee.sensitivity
    assert plain < moved < plain * (1.0 + 1e-6)
    mean = exact_scale(Release(1.0, 5.0, 12), D)
    grid = grid_of(12 * mean, 1.0, 12)
    assert 12 * mean >= 5.0 * (2.0 + np.sqrt(D) * grid)
    phase = SummedPhase(records=12, bound=1.0, scale=mean, grid=grid, releases=1, copies=1)
    assert phase.mu(D) == pytest.approx(1.0 / 5.0, rel=1e-12)
    assert 2.0**-29 <= grid / (12 * mean) <= 2.0**-28


def test_no_grid_means_doubles_or_an_error():
    with pytest.raises(dpoco.CalibrationError, match="grid"):
        grid_of(1e-12, 1.0, 10**6)
    with pytest.raises(dpoco.CalibrationError):
        exact_scale(Release(1.0, 1e9), D)  # noise so large that a grid's step counts
    with pytest.raises(ValueError, match="tight"):
        made("NoisySGD", calibration="paper")
    with pytest.raises(ValueError, match="tight"):
        dataclasses.replace(made("NoisySGD").parameters, calibration="paper")
    assert made("NoisySGD", "auto", calibration="paper", budget=None).guarantee.numerics is None


@pytest.mark.parametrize("kind", KINDS)
def test_digits_of_releases_show_nothing_and_those_of_doubles_do(kind):
    """One release of many coordinates between records 0 and (c, ..., c): the first mean."""
    d = 20_000
    rows = [np.zeros((1, d)), np.full((1, d), d**-0.5)]

    def first_release(numerics, secret):
        options = {"steps": 1} if kind != "NoisyFrankWolfe" else {}
        learner = made(kind, numerics, Source.seeded(60 + secret), 1, d, **options)
        settings = dict(learner._settings())
        claim = Source.seeded(60 + secret)._claim()
        scale = settings.get("noise_scale") or settings.get("first_scale")
        scale = scale if scale else settings["phases"][0][-1]
        grid = settings.get("grid", settings.get("first_grid", 0.0))
        grid = settings["grids"][0] if "grids" in settings else grid
        value = learner._engine(rows[secret], np.array([1.0])).nonprivate_release(
            0, np.zeros(d), np.zeros(d)
        )
        noise = np.empty(d)
        engine = dpoco._core.Source(claim["key"], claim["stream"])
        if grid > 0.0:
            dpoco._core.fill_rounded_gaussian(engine, scale / grid, noise)
            return value + noise * grid, scale, grid
        engine.fill(2, noise)
        return value + scale * noise, scale, grid

    for numerics in ("lattice", "float"):
        pair = [first_release(numerics, x) for x in (0, 1)]
        counts = []
        for y, scale, grid in pair:
            if grid > 0.0:
                assert np.array_equal(np.rint(y / grid), y / grid)
            near = [y / scale, np.nextafter(y / scale, 9), np.nextafter(y / scale, -9)]
            counts.append(int(np.any([z * scale == y for z in near], axis=0).sum()))
        gap = abs(counts[0] - counts[1]) / np.sqrt(d / 2)
        assert gap < 6.5 if numerics == "lattice" else gap > 10.0
