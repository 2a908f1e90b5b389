"""Losses with additive noise: scales, exact laws, privacy of every label and of none."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpoco import _core
from dpoco.accounting import local_vector
from dpoco.accounting.gaussian import gaussian_delta
from dpoco.random import Source
from dpoco.reproduce import VectorRandomizer, _vector_noise
from dpoco.reproduce._local_learner import printed_scale_factor
from dpoco.reproduce._vector_noise import within

FB = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]])
FC = np.array(
    [
        [0.30, 0.25, 0.20, 0.15, 0.07, 0.03],
        [0.05, 0.10, 0.15, 0.20, 0.25, 0.25],
        [0.02, 0.48, 0.02, 0.02, 0.44, 0.02],
        [1 / 6] * 6,
    ]
)
FZ = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.9, 0.0, 0.1]])  # label 2 never happens
# The losses of a label are farther from 0, those of no label, than from another label's.
ONE_HOT = np.eye(4)[[0, 0, 1, 1, 2, 2, 3]]
DELTA = 1e-6


@pytest.fixture
def coarse(monkeypatch):
    """Lattices of a few steps, whose laws can be listed."""
    monkeypatch.setattr(_vector_noise, "_DIGITS", 2)


# -- scales and accounting ------------------------------------------------------------------------


def unit_deviations(count, epsilon, delta):
    """Standard deviations of the estimate of one of `count` losses of width 1: the page's table."""
    width, norm = 2**20, math.sqrt(count)
    bell = local_vector.discrete_gaussian_scale(epsilon, delta, norm * width, float(count * width))
    composed = local_vector.composed_laplace_scale(epsilon, delta, (width,) * count)
    return {
        "paper": math.sqrt(2) * printed_scale_factor(count, epsilon, delta),
        "pure": math.sqrt(2) * count / epsilon,
        "composed": math.sqrt(2) * composed / width,
        "gaussian": bell / width,
        "coordinate": 0.5 * norm / math.tanh(0.5 * epsilon),
    }


def test_deviations_of_one_loss():
    found = unit_deviations(8, 1.0, DELTA)
    assert {name: round(value, 2) for name, value in found.items()} == {
        "paper": 46.05, "pure": 11.31, "composed": 11.31, "gaussian": 11.95, "coordinate": 3.06,
    }  # fmt: skip
    # One bit about one loss has less noise wherever epsilon coth(epsilon / 2) < 2 sqrt(2 K).
    for k, epsilon in ((2, 3.7), (8, 7.9), (64, 10.0)):
        table = unit_deviations(k, epsilon, DELTA)
        assert table["coordinate"] == min(table.values())
        assert table["paper"] == max(table.values())
    assert unit_deviations(2, 4.2, DELTA)["coordinate"] > 2**1.5 / 4.2


def test_the_published_scale_is_about_twice_what_its_proof_needs():
    for k, epsilon in ((1, 0.1), (8, 1.0), (64, 9.0)):
        log = math.log(1 / DELTA)
        e = math.sqrt(2 / k) * (math.sqrt(log + epsilon) - math.sqrt(log))  # of a coordinate
        assert k * e * e / 2 + e * math.sqrt(2 * k * log) == pytest.approx(epsilon)
        assert 1.0 / e < printed_scale_factor(k, epsilon, DELTA) < 2.5 / e


def test_composition_agrees_with_a_library():
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    width, k = 2**20, 12
    for epsilon, scale in ((1.0, 6.0), (2.0, 4.0)):
        library = accounting.from_laplace_mechanism(
            parameter=scale, sensitivity=1.0, value_discretization_interval=1e-4
        ).self_compose(k)
        expected = library.get_delta_for_epsilon(epsilon)
        ours = local_vector.composed_laplace_delta(epsilon, [width] * k, scale * width)
        assert ours == pytest.approx(expected, rel=0.02)
    # On few points, against all outcomes listed; never below.
    for shifts, scale, epsilon in (((3,), 2.0, 0.5), ((40, 25), 30.0, 0.8), ((9, 9), 8.0, 1.0)):
        exact = listed_delta(shifts, scale, epsilon, lambda n, s: np.exp(-np.abs(n) / s))
        ours = local_vector.composed_laplace_delta(epsilon, shifts, scale)
        assert exact <= ours <= exact + 1.0 / scale
    assert local_vector.composed_laplace_delta(2.0, [5, 5], 5.0) == 0.0


def listed_delta(shifts, scale, epsilon, weight):
    reach = int(45 * scale)
    n = np.arange(-reach, reach + 1)
    law = weight(n, scale)
    law /= law.sum()
    ours, theirs = np.ones(1), np.ones(1)
    for shift in shifts:
        moved = weight(n - shift, scale) / weight(n, scale).sum()
        ours, theirs = np.outer(ours, law).ravel(), np.outer(theirs, moved).ravel()
    return float(np.maximum(ours - math.exp(epsilon) * theirs, 0.0).sum())


def test_deltas_of_discrete_gaussians():
    def weight(n, scale):
        return np.exp(-0.5 * (n / scale) ** 2)

    for shift, scale, epsilon in ((1, 0.8, 0.3), (7, 5.0, 1.0), (300, 200.0, 0.5)):
        exact = listed_delta((shift,), scale, epsilon, weight)
        assert exact > 0.0
        if scale >= 1.0:
            bound = local_vector.gaussian_vector_delta(epsilon, abs(shift), abs(shift), scale)
            assert exact <= bound
    # A vector: the bound is above the exact sum, and it is near.
    for shifts, scale in (((2, 3), 4.0), ((10, 1), 9.0), ((5, 5), 12.0)):
        exact = listed_delta(shifts, scale, 1.0, weight)
        norm = math.hypot(*shifts)
        assert exact <= local_vector.gaussian_vector_delta(1.0, norm, sum(shifts), scale)
        assert exact > 0.2 * gaussian_delta(1.0, norm / scale)
    scale = local_vector.discrete_gaussian_scale(1.0, DELTA, 2.0**20, 2.0**21)
    assert local_vector.gaussian_vector_delta(1.0, 2.0**20, 2.0**21, scale) <= DELTA
    assert local_vector.gaussian_vector_delta(1.0, 2.0**20, 2.0**21, 0.999 * scale) > DELTA


def test_lattice_steps():
    for reach, step in ((1.0, 2.0**-20), (1.01, 2.0**-19), (0.5, 2.0**-21), (3.0, 2.0**-18)):
        assert _vector_noise.lattice_step(reach) == step


# -- laws -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("matrix", [FB, FZ])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_pure_reports_by_listing_their_law(matrix, epsilon):
    it = VectorRandomizer(matrix, epsilon, 0.1)
    assert it.noise == "laplace"
    assert np.abs(it.table).max() <= 8
    labels = [None, -1, 7, 1.5, *range(4)]
    with mpmath.workdps(50):
        q = mpmath.exp(-mpmath.mpf(it.scale.denominator) / it.scale.numerator)
        norm = (1 - q) / (1 + q)
        reach = int(12 * it.scale)
        vectors = [[int(v) for v in it.vector(y)] for y in labels]
        totals = [mpmath.mpf(0)] * len(labels)
        largest = mpmath.mpf(0)
        powers = [norm * q**n for n in range(2 * reach + 40)]
        for report in product(range(-reach, reach + 1, 1 if reach < 40 else 5), repeat=2):
            laws = [math.prod((powers[abs(z - c)] for z, c in zip(report, v, strict=True)),
                              start=mpmath.mpf(1)) for v in vectors]  # fmt: skip
            largest = max(largest, max(laws) / min(laws))
            totals = [a + b for a, b in zip(totals, laws, strict=True)]
        log_ratio = mpmath.log(largest)
        # The ratio is reached, and not exceeded: epsilon less what sums may miss in rounding.
        exact = mpmath.mpf(within(epsilon))
        assert abs(log_ratio - exact) < mpmath.mpf(10) ** -40
        if reach < 40:
            assert all(abs(total - 1) < 1e-3 for total in totals)
    assert it.largest_log_ratio() == Fraction(within(epsilon)) < Fraction(epsilon)


@pytest.mark.parametrize("matrix", [FB, FC, FZ, ONE_HOT])
def test_fine_lattices_keep_epsilon_for_all_pairs(matrix):
    for epsilon in (0.1, 1.0, 29.9):
        it = VectorRandomizer(matrix, epsilon, 1e-3)
        vectors = [it.vector(y) for y in (None, -1, *range(matrix.shape[1]))]
        largest = max(int(np.abs(a - b).sum()) for a, b in product(vectors, vectors))
        assert largest / it.scale == it.largest_log_ratio() == Fraction(within(epsilon))
        exact = _core.local_centred_losses(matrix, 1e-3)
        assert np.abs(it.table * it.step - exact).max() <= 0.5 * it.step
        assert np.abs(exact).max() / it.step > 2**17
    assert not VectorRandomizer(FZ, 1.0, 0.1).vector(2).any()  # an impossible label


@pytest.mark.parametrize("noise", ["composed", "gaussian"])
def test_scales_under_a_delta(noise):
    it = VectorRandomizer(FC, 1.0, 0.05, delta=DELTA, noise=noise)
    vectors = [it.vector(y) for y in (None, *range(6))]
    worst = 0.0
    for a, b in product(vectors, vectors):
        gaps = [int(g) for g in np.abs(a - b)]
        if noise == "gaussian":
            norm = math.sqrt(sum(g * g for g in gaps))
            found = gaussian_delta(1.0, norm / float(it.scale))
        else:
            found = local_vector.composed_laplace_delta(1.0, gaps, float(it.scale))
        worst = max(worst, found)
    assert worst <= DELTA
    if noise == "gaussian":
        assert worst > 0.999 * DELTA
        assert np.abs(it.table.sum(axis=0)).max() <= 4  # the mean over hypotheses is gone
    best = VectorRandomizer(FC, 1.0, 0.05, delta=DELTA)
    assert best.standard_deviation <= it.standard_deviation


def test_auto_takes_the_smallest_noise():
    generator = np.random.default_rng(0)
    wide = generator.dirichlet(np.ones(50), size=64)
    many = {n: VectorRandomizer(wide, 1.0, 0.05, delta=DELTA, noise=n).standard_deviation
            for n in ("composed", "gaussian")}  # fmt: skip
    many["laplace"] = VectorRandomizer(wide, 1.0, 0.05).standard_deviation
    chosen = VectorRandomizer(wide, 1.0, 0.05, delta=DELTA)
    assert chosen.noise == min(many, key=many.get) == "gaussian"
    assert chosen.delta == DELTA
    few = VectorRandomizer(FC, 1.0, 0.05, delta=DELTA)
    assert (few.noise, few.delta) == ("laplace", 0.0)


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_reports_follow_the_law(seed, noise):
    delta = 0.0 if noise == "laplace" else 1e-3
    it = VectorRandomizer(FB, 3.0, 0.1, noise=noise, delta=delta)
    source = Source.seeded(seed)
    n = 6000
    gaps = np.array([it.respond(1, source) for _ in range(n)]) - it.vector(1)
    for column in gaps.T:

        def p_value(factor, column=column):
            reach = int(3 * it.scale)
            k = np.arange(-reach, reach + 1)
            weight = (np.exp(-np.abs(k) * factor / float(it.scale)) if noise == "laplace"
                      else np.exp(-0.5 * (k * factor / float(it.scale)) ** 2))  # fmt: skip
            expected = weight / weight.sum()
            inside = column[np.abs(column) <= reach]
            observed = np.bincount(inside + reach, minlength=k.size)
            statistic = ((observed - inside.size * expected) ** 2 / (inside.size * expected)).sum()
            return stats.chi2.sf(statistic, k.size - 1)

        assert p_value(1.0) > 1e-6
        assert p_value(1.25) < 1e-6
    assert abs(np.corrcoef(gaps.T)[0, 1]) < 5.5 / math.sqrt(n)


def test_arguments_of_the_randomizer():
    for options in ({"epsilon": 0.0}, {"epsilon": 31.0}, {"mixing": 0.0}, {"delta": 1.0},
                    {"noise": "gaussian"}, {"noise": "other"}, {"epsilon": 1e-12}):  # fmt: skip
        arguments = {"matrix": FC, "epsilon": 1.0, "mixing": 0.1} | options
        with pytest.raises(ValueError, match=r"epsilon|mixing|delta|noise"):
            VectorRandomizer(**arguments)


def test_classes_with_nothing_to_tell():
    for matrix in (FB[:1], np.ones((3, 1)), np.tile(FC[0], (3, 1))):
        it = VectorRandomizer(matrix, 1.0, 0.1)
        assert it.scale == 0
        assert it.respond(0, Source()) == (0,) * matrix.shape[0]


# -- diameters count the zero column of no label


def by_pairs(table):
    columns = [*table.T.astype(object), np.zeros(table.shape[0], dtype=object)]
    gaps = [np.abs(a - b) for a, b in product(columns, columns)]
    return (
        max(int(gap.sum()) for gap in gaps),
        max(int((gap * gap).sum()) for gap in gaps) ** 0.5,
        [max(int(gap[j]) for gap in gaps) for j in range(table.shape[0])],
    )


@pytest.mark.parametrize(
    "table",
    [
        [[5, 5], [4, 4]],  # all labels alike: none is not
        [[-9, -8], [-7, -9]],
        [[1, 100], [100, 1]],
        [[-3, -5]],
        [[7, 7, 9]],
        np.random.default_rng(0).integers(-9, 9, (4, 5)),
        np.random.default_rng(1).integers(3, 9, (4, 5)),
    ],
)
def test_diameters_count_no_label(table, monkeypatch):
    table = np.array(table)
    l1, l2, ranges = by_pairs(table)
    found = _vector_noise.diameters(table)
    assert found[0] == l1
    assert l2 <= found[1] <= l2 * (1 + 1e-15)
    assert found[2].tolist() == ranges
    monkeypatch.setattr(_vector_noise, "_MOST_PAIRED_LABELS", 1)
    if table.shape[1] > 1:  # from the ranges: upper bounds
        bound = _vector_noise.diameters(table)
        assert bound[0] == sum(ranges) >= l1
        assert bound[1] >= l2


def test_one_row_is_quick_and_right():
    row = np.random.default_rng(0).integers(-100, 100, (1, 10**5))
    assert _vector_noise.diameters(row)[0] == max(row.max(), 0) - min(row.min(), 0)
