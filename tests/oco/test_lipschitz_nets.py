"""Transforms of losses on a net: round trips, sensitivities, enforcement, and their noise."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.oco.test_lipschitz_accountant import sensitivity
from tests.samples import replays

import dpoco
from dpoco import _core
from dpoco.accounting import continual_sum
from dpoco.accounting.lipschitz import calibrate
from dpoco.accounting.nets import NetShape, grid_variances, noise_field, spacings
from dpoco.oco import LipschitzLearner
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

Net = _core.NetTransform
FREE = 1e150  # a limit that nothing reaches

# name, points an axis, sides
CASES = [
    ("increments", (2,), (1.0,)),
    ("increments", (9,), (1.0,)),
    ("increments", (50,), (3.0,)),
    ("grid_laplacian", (2, 2), (1.0, 1.0)),
    ("grid_laplacian", (9, 9), (1.0, 1.0)),
    ("grid_laplacian", (7, 12), (2.0, 0.5)),
    ("grid_laplacian", (13, 5), (1.0, 1.0)),
    ("parent", (9,), (1.0,)),
    ("parent", (2, 2), (1.0, 1.0)),
    ("parent", (9, 9), (1.0, 2.0)),
]


def build(name, counts, limits):
    if name == "increments":
        return Net.increments(counts[0], limits[0])
    if name == "grid_laplacian":
        return Net.grid_laplacian(*counts, *limits)
    return Net.parent((counts[0] - 1).bit_length() - 1, list(limits))


def enforcing(name, counts, sides, lipschitz=1.0):
    return build(name, counts, [lipschitz * h for h in spacings(NetShape(sides, 1.0), counts)])


def apply(net, losses):
    out = np.empty(net.outputs)
    net.apply(np.ascontiguousarray(losses, dtype=np.float64).ravel(), out)
    return out


def inverse_matrix(net):
    return np.array([net.invert(row) for row in np.eye(net.outputs)]).T


def laplacian(down, across):
    def path(n):
        edges = np.diff(np.eye(n), axis=0)
        return edges.T @ edges

    return np.kron(path(down), np.eye(across)) + np.kron(np.eye(down), path(across))


def round_trip_error(net, losses):
    back = net.invert(apply(net, losses))
    flat = losses.ravel()
    return np.max(np.abs((back - back[0]) - (flat - flat[0])))


@pytest.mark.parametrize("levels", range(1, 7))
@pytest.mark.parametrize("axes", [1, 2])
def test_inverses_restore_losses_up_to_a_constant(levels, axes):
    rng = np.random.default_rng(levels)
    counts = (2**levels + 1,) * axes
    losses = rng.normal(size=counts)
    assert round_trip_error(build("parent", counts, [FREE] * axes), losses) < 1e-12
    default = "increments" if axes == 1 else "grid_laplacian"
    assert round_trip_error(build(default, counts, [FREE] * axes), losses) < 1e-12


@pytest.mark.parametrize(
    "shape", [(2, 2), (3, 5), (4, 4), (7, 16), (31, 6), (64, 48), (101, 11), (20, 250), (2, 97)]
)
def test_grid_coefficients_equal_an_independent_cosine_transform(shape):
    losses = np.random.default_rng(0).normal(size=shape)
    net = Net.grid_laplacian(*shape, FREE, FREE)
    down, across = (2.0 - 2.0 * np.cos(np.pi * np.arange(n) / n) for n in shape)
    roots = np.sqrt(down[:, None] + across[None, :])
    expected = (roots * scipy.fft.dctn(losses, norm="ortho")).ravel()[1:]
    assert np.max(np.abs(apply(net, losses) - expected)) < 1e-13 * math.prod(shape)
    assert round_trip_error(net, losses) < 1e-13 * math.prod(shape)
    wrong = (roots * scipy.fft.dctn(losses, norm="ortho").T.reshape(shape)).ravel()[1:]
    assert shape == (2, 2) or np.max(np.abs(apply(net, losses) - wrong)) > 1e-3


@pytest.mark.parametrize("shape", [(2, 2), (5, 4), (6, 9)])
def test_grid_noise_has_the_pseudo_inverse_of_the_laplacian_as_covariance(shape):
    back = inverse_matrix(Net.grid_laplacian(*shape, FREE, FREE))
    target = np.linalg.pinv(laplacian(*shape), 1e-12)
    assert np.max(np.abs(back @ back.T - target)) < 1e-12
    variances, from_corners, _ = grid_variances(*shape)
    assert np.max(np.abs(np.diag(target).reshape(shape) - variances)) < 1e-12
    corners = np.array([0, shape[1] - 1, (shape[0] - 1) * shape[1], math.prod(shape) - 1])
    centred = back - back[corners].mean(axis=0)
    assert np.max(np.abs((centred**2).sum(axis=1).reshape(shape) - from_corners)) < 1e-12


@pytest.mark.parametrize(
    ("points", "corner"), [(3, 0.5417), (5, 0.8514), (9, 1.2195), (17, 1.6225), (33, 2.0442)]
)
def test_largest_variances_on_square_grids(points, corner):
    variances, _, _ = grid_variances(points, points)
    assert variances.max() == pytest.approx(corner, abs=1e-4)
    assert variances[0, 0] == variances.max()


def test_one_row_of_a_grid_is_a_random_walk():
    edges = np.diff(np.eye(8), axis=0)
    covariance = edges @ np.linalg.pinv(edges.T @ edges, 1e-12) @ edges.T
    assert np.allclose(covariance, np.eye(7), atol=1e-12)
    walk = inverse_matrix(Net.increments(8, FREE))
    assert np.array_equal(walk @ walk.T, np.minimum.outer(np.arange(8), np.arange(8)))


@pytest.mark.parametrize(("levels", "axes"), [(1, 1), (3, 1), (5, 1), (1, 2), (2, 2), (3, 2)])
def test_depth_of_the_parent_hierarchy(levels, axes):
    side = 2**levels + 1
    back = inverse_matrix(build("parent", (side,) * axes, [FREE] * axes))
    depths = (back**2).sum(axis=1).reshape((side,) * axes)
    index = np.arange(side)
    bits = index if axes == 1 else index[:, None] | index[None, :]
    assert np.array_equal(depths, np.vectorize(lambda i: i.bit_count())(bits))
    assert depths.max() == (levels if axes == 1 else levels + 1)
    if axes == 2:
        assert depths[-1, -2] == levels + 1
    assert noise_field("parent", (side,) * axes).radius ** 2 == pytest.approx(depths.max())


@pytest.mark.parametrize(("levels", "first", "second"), [(3, 1.4375, 7.875), (7, None, 11.9921875)])
def test_constants_of_the_parent_transform(levels, first, second):
    side = 2**levels + 1
    line = sensitivity("parent", NetShape((1.0,), 1.0), (side,), 1.0)
    plane = sensitivity("parent", NetShape((1.0, 1.0), 1.0), (side, side), 1.0)
    if first is not None:
        assert (line / 2.0) ** 2 == pytest.approx(first, rel=1e-11)
    assert (plane / 2.0) ** 2 == pytest.approx(second, rel=1e-11)
    index = np.stack(np.meshgrid(range(side), range(side), indexing="ij"), axis=-1).reshape(-1, 2)
    total = 0.0
    for i, j in index[1:].tolist():
        bit = (i | j) & -(i | j)
        total += (bool(i & bit) + bool(j & bit)) * (bit / 2**levels) ** 2
    assert total == pytest.approx(second, rel=1e-12)


def steep_pair(name, counts, sides):
    """Two losses, Lipschitz or not, that an enforcing transform sets as far apart as it can."""
    if name == "increments":
        zigzag = spacings(NetShape(sides, 1.0), counts)[0] * (np.arange(counts[0]) % 2)
        return zigzag, -zigzag
    if name == "grid_laplacian":
        board = np.indices(counts).sum(axis=0) % 2 * 1e3
        return board, -board
    index = np.indices(counts).reshape(len(counts), -1)
    depth = np.vectorize(lambda i: i.bit_count())(np.bitwise_or.reduce(index, axis=0))
    return 1e6 * depth, -1e6 * depth


@pytest.mark.parametrize(("name", "counts", "sides"), CASES)
def test_sensitivity_is_attained(name, counts, sides):
    net, shape = enforcing(name, counts, sides), NetShape(sides, 1.0)
    first, second = steep_pair(name, counts, sides)
    distance = np.linalg.norm(apply(net, first) - apply(net, second))
    declared = sensitivity(name, shape, counts, 1.0)
    assert distance <= declared
    steps = spacings(shape, counts)
    # With unequal spacings the field of steepest differences is no gradient: it gets shorter.
    uneven = name == "grid_laplacian" and steps[0] != steps[1]
    assert distance > (0.5 if uneven else 1.0 - 1e-10) * declared


@pytest.mark.parametrize(("name", "counts", "sides"), CASES)
def test_random_lipschitz_losses_stay_within_the_sensitivity(name, counts, sides):
    rng = np.random.default_rng(1)
    shape = NetShape(sides, 1.0)
    net, declared = enforcing(name, counts, sides), sensitivity(name, shape, counts, 1.0)
    axes = [np.linspace(0.0, side, n) for side, n in zip(sides, counts, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(counts))
    worst, changed = 0.0, 0
    for _ in range(200):
        pair = []
        for _ in range(2):
            # Distances to a set are 1-Lipschitz, and so is a wave of unit slope.
            centres = rng.uniform(-0.5, 2.0, size=(3, len(counts)))
            distances = np.linalg.norm(points[:, None] - centres[None], axis=2).min(axis=1)
            direction = rng.normal(size=len(counts))
            direction *= rng.uniform(0.5, 30.0) / np.linalg.norm(direction)
            wave = np.sin(points @ direction) / np.linalg.norm(direction)
            losses = (distances if rng.random() < 0.5 else wave) + rng.normal()
            out = np.empty(net.outputs)
            changed += net.apply(losses, out)
            assert round_trip_error(net, losses) < 1e-12  # clipping leaves honest losses alone
            pair.append(out)
        worst = max(worst, float(np.linalg.norm(pair[0] - pair[1])))
    assert changed == 0
    assert 0.2 * declared < worst <= declared


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data(), case=st.sampled_from(CASES), lipschitz=st.sampled_from([1.0, 1e-30, 1e40]))
def test_garbage_never_moves_a_transform_beyond_its_sensitivity(data, case, lipschitz):
    name, counts, sides = case
    net = enforcing(name, counts, sides, lipschitz)
    garbage = arrays.arrays(
        np.float64,
        math.prod(counts),
        elements=st.floats(allow_nan=True, allow_infinity=True)
        | st.floats(-3.0 * lipschitz, 3.0 * lipschitz),
        fill=st.nothing(),
    )
    first, second = apply(net, data.draw(garbage)), apply(net, data.draw(garbage))
    assert np.isfinite(first).all()
    declared = sensitivity(name, NetShape(sides, 1.0), counts, lipschitz)
    unit = (first - second) / declared
    assert np.linalg.norm(unit) <= 1.0
    # Without the clip such losses go far beyond.
    loose = build(name, counts, [FREE] * len(counts))
    board = 1e3 * lipschitz * (np.indices(counts).sum(axis=0) % 2).astype(float)
    assert np.linalg.norm(apply(loose, board) - apply(loose, -board)) > 10.0 * declared


@pytest.mark.parametrize(("name", "counts", "sides"), CASES)
def test_a_loss_that_is_not_finite_counts_as_zero(name, counts, sides):
    for bad in [np.nan, np.inf, -np.inf]:
        net = enforcing(name, counts, sides)
        losses = np.random.default_rng(0).normal(size=counts)
        losses.flat[-1] = bad
        out = np.empty(net.outputs)
        assert net.apply(losses.ravel(), out) == math.prod(counts)
        assert not out.any()
        huge = np.where(np.arange(math.prod(counts)) % 2 == 0, 1.7e308, -1.7e308)  # overflows
        assert np.isfinite(apply(net, huge)).all()


@pytest.mark.parametrize("counts", [(30,), (5, 4)])
def test_noise_of_a_learner_has_the_declared_law(counts):
    """After one zero loss the weights show the noise: its Dirichlet energy is a chi-square."""
    domain = dpoco.domains.Box([0.0] * len(counts), [1.0] * len(counts))
    budget = dpoco.Budget(1.0, 1e-6)
    p = calibrate(domain, lipschitz=1.0, horizon=2, budget=budget, resolution=counts)
    p = dataclasses.replace(p, tuning=dataclasses.replace(p.tuning, learning_rate=0.01))
    points = math.prod(counts)
    row = continual_sum.row_norm(p.mechanism.factorisation, 1, 1)
    matrix = laplacian(*counts) if len(counts) == 2 else laplacian(counts[0], 1)
    fields = []
    new = LipschitzLearner(
        domain, lipschitz=1.0, horizon=2, budget=budget, plan=p, source=Source.seeded(0)
    )
    for learner in replays(new, 400):
        learner.run(np.zeros((1, points)))
        noise = -np.log(learner.weights) / p.tuning.learning_rate
        fields.append(noise - noise.mean())
    fields = np.array(fields)
    energies = np.einsum("si,ij,sj->s", fields, matrix, fields)
    freedom = len(fields) * (points - 1)

    def z(scale):
        ratio = energies.sum() / (scale * row) ** 2 / freedom
        return abs(ratio - 1.0) / math.sqrt(2.0 / freedom)

    assert z(p.mechanism.scale) < 5.0
    assert z(1.1 * p.mechanism.scale) > 7.0
    # Each point by itself: mean squares against the diagonal of the pseudo-inverse.
    target = np.diag(np.linalg.pinv(matrix, 1e-12)) * (p.mechanism.scale * row) ** 2
    ratios = (fields**2).mean(axis=0) / target
    assert np.max(np.abs(ratios - 1.0)) < 6.0 * math.sqrt(2.0 / len(fields))
