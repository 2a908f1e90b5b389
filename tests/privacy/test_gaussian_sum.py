"""Sums as descriptions: exact in JSON, every field tells, and what no proof is about is refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy

from dpoco.accounting.continual_sum import SHIPPED
from dpoco.privacy.losses.combined import NOTHING, Tailed
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.bounds import (
    CentredLosses,
    ClippedVector,
    ClippedVectors,
    GlmGradient,
    GradientAndCurvature,
    IntervalTotals,
    MomentsAndLoss,
    SecondMoments,
)
from dpoco.privacy.mechanisms.factorisations import Buffered, SquareRoot, Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum, batch_starts
from dpoco.privacy.mechanisms.nets import NetDifferences
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import to_record

NEAR, OTHERS = Neighbours(), Neighbours(view="others")
VECTOR = ClippedVector(4, 3.0, 1.5, 1.75)
SUMMANDS = [
    VECTOR,
    GlmGradient(4, math.inf, 1.5, 2.5, 0.7),
    GlmGradient(4, 3.0, 0.5, 2.5, 0.7),
    GradientAndCurvature(3, 2.0, 1.5, 2.5, 0.5, 0.25, 1.0),
    SecondMoments(3, 3.0, 1.0, 1.1, 0.8, 0.6, arms=2, rounding=1.0 + 1e-12),
    MomentsAndLoss(3, 3.0, 1.0, 1.1, 0.8, 0.6, largest_loss=4.0, loss_weight=0.3),
    CentredLosses(7),
    ClippedVectors(4, 1.5, 1000),
    NetDifferences((2.0, 1.0), (5, 4), "grid_laplacian", 0.5),
]


def total(summand=VECTOR, factorisation=SHIPPED[1000], **more):
    return GaussianSum(summand, factorisation, **{"pushes": 900, "scale": 20.0, **more})


def on_grid(**more):
    return total(grid=2.0**-20, limit=2**24, **more)


KINDS = [
    *(total(summand) for summand in SUMMANDS),
    total(factorisation=Tree()),
    total(factorisation=SquareRoot()),
    total(factorisation=Buffered((0.25,), (0.5,))),
    total(ClippedVector(4, math.inf, 1.5, math.inf), order=3.0),
    on_grid(batch=3),
    on_grid(factorisation=SquareRoot()),
    total(grid=2.0**-20, limit=2**28, growth="root", pushes=60),
    total(batch=3, growth="quarter", pushes=60),
]


def twice(value):
    """Return a description with one number doubled, for each of its numbers, by name."""
    for name in (f.name for f in fields(value)):
        old = getattr(value, name)
        if hasattr(old, "kind"):
            for inner, changed in twice(old):
                yield f"{name}.{inner}", replace_or_none(value, name, changed)
        elif isinstance(old, bool):
            yield name, replace_or_none(value, name, not old)
        elif isinstance(old, tuple):
            for k in range(len(old)):
                changed = (*old[:k], old[k] * 2, *old[k + 1 :])
                yield f"{name}[{k}]", replace_or_none(value, name, changed)
        elif not isinstance(old, str | None) and 0 < old < math.inf:
            yield name, replace_or_none(value, name, old * 2)


def replace_or_none(value, name, changed):
    try:
        return None if changed is None else replace(value, **{name: changed})
    except ValueError:
        return None  # refused: it cannot state anything


def test_every_number_moves_the_loss_or_says_why_not():
    still = set()
    for mechanism in KINDS:
        for name, changed in twice(mechanism):
            if changed is not None and changed.loss(OTHERS) == mechanism.loss(OTHERS):
                still.add((type(mechanism.summand).kind, name))
    names = {name.split(".")[-1] for _, name in still}
    # The summand's other bound binds; doubles in a batch; clamps that no bounded vector reaches;
    # order 4 on 2 is refused; norm 3 to 6 where an l2 bound binds.
    allowed = {"bound_l2", "features_l2", "enforced", "batch", "limit", "bound", "features", "norm"}
    assert names <= allowed, names - allowed
    moved = {
        name.split(".")[-1].split("[")[0]
        for mechanism in KINDS
        for name, changed in twice(mechanism)
        if changed is not None and changed.loss(OTHERS) != mechanism.loss(OTHERS)
    }
    assert moved >= {
        "dimension", "norm", "bound", "bound_l2", "features", "features_l2", "slope", "label",
        "weight", "arms", "experts", "count", "sides", "counts", "lipschitz", "decay", "weights",
        "pushes", "batch", "scale", "order", "grid",
    }  # fmt: skip


def test_growing_batches_are_named_in_records_and_constant_ones_are_not():
    assert "growth" not in to_record(total())
    record = to_record(total(growth="root"))
    assert record["growth"] == "root"
    with pytest.raises(ValueError, match="has the fields"):
        read_mechanism({**to_record(total()), "grows": "root"})
    with pytest.raises(TypeError, match="growth"):
        read_mechanism({**record, "growth": 4})


def test_growing_batches_are_what_a_sum_is_long_and_limited_for():
    starts = list(itertools.islice(batch_starts(11, "root"), 324))
    assert starts[:5] == [0, 11, 22, 33, 44]
    assert starts[319:] == [98120, 98746, 99374, 100004, 100636]  # the published schedule
    held = total(batch=11, growth="root", pushes=321)
    assert held.longest == 100004
    assert held.longest_batch == 99374 - 98746
    # One record is in one batch: mu is that of constant ones.
    assert held.loss(NEAR) == replace(held, growth=None).loss(NEAR)


def test_what_depends_on_nothing_costs_nothing_and_no_noise_promises_nothing():
    assert total(pushes=0, scale=0.0).loss(NEAR) == NOTHING
    assert total(CentredLosses(1)).loss(NEAR) == NOTHING
    assert total(NetDifferences((), (), "increments", 1.0), scale=0.0).loss(NEAR) == NOTHING
    assert total(scale=0.0).loss(NEAR) is None


def test_several_rounds_of_a_person_cost_less_than_a_group():
    once, mechanism = total().loss(NEAR), total()
    several = mechanism.loss(Neighbours(rounds=5))
    assert isinstance(several, Tailed)
    assert several.mass == once.mass
    assert once.ideal.mu < several.ideal.mu < 5.0 * once.ideal.mu
    assert mechanism.loss(Neighbours(view="others", rounds=5)) == several


def test_mu_is_column_times_movement_over_scale():
    mechanism = total(GlmGradient(9, math.inf, 2.0, math.inf, 0.5), Tree(), pushes=1024, scale=7.0)
    for change, sides in (("replace", 2.0), ("zero_out", 1.0)):
        loss = mechanism.loss(Neighbours(change))
        assert isinstance(loss.ideal, Gaussian)
        assert loss.ideal.mu == pytest.approx(sides * 3.0 * math.sqrt(11.0) / 7.0, rel=1e-14)
        assert loss.mass == 1024 * 9 * 2.0**-64
    rounder = total(ClippedVector(9, math.inf, 2.0, math.inf), Tree(), pushes=1, order=3.0)
    kappa = 2.0 * 9.0 ** (2.0 / 3.0)
    assert rounder.loss(NEAR).ideal.mu == pytest.approx(4.0 * math.sqrt(kappa) / 20.0, rel=1e-13)


def test_every_record_of_a_person_is_rounded():
    """An interval's records are rounded one by one, by half a grid an entry on either side."""
    cells, unit, grid = 4, 1.0, 2.0**-15
    own = {"grid": grid, "limit": 2**20, "scale": 2.0, "pushes": 8}
    one, three = (
        total(IntervalTotals((cells,), (unit,), records=records), Tree(), **own).reach(NEAR)
        for records in (1, 3)
    )
    column = total(IntervalTotals((cells,), (unit,)), Tree(), pushes=8, scale=2.0).reach(NEAR)
    moved = NEAR.sides * unit + math.sqrt(cells) * grid
    # What the path of rounded noise adds does not depend on the records.
    assert three - one == pytest.approx(2.0 * column * moved / NEAR.sides, rel=1e-9)


def test_two_records_added_in_doubles_cost_a_rounding():
    """A batch of one is exact; sums of two cost 2^-53 of the movement at least."""
    alone, pair = (on_grid(batch=batch, pushes=8).reach(NEAR) for batch in (1, 2))
    assert pair > alone


@pytest.mark.parametrize(
    ("z", "known", "emptied"),
    [(0.25, 2.06155281, 1.11803399), (0.5, 2.12132034, 1.22474487), (1.0, 2.23606798, 1.41421356),
     (1.70710678, 2.38895517, 1.64532878), (2.0, 2.5, 1.73205081), (4.0, 3.18198052, 2.23606798)],
)  # fmt: skip
def test_gradients_and_curvatures_move_together_as_far_as_any_records_do(z, known, emptied):
    """Against a search over lengths, angle, slopes and weights; nothing is farther apart."""
    slope, length, curvature = 0.5, 1.5, 0.25
    weight = math.sqrt(z) * slope / (curvature * length)
    summand = GradientAndCurvature(3, 2.0, length, math.inf, slope, curvature, weight)
    unit = slope * length
    assert summand.movement(NEAR) / unit == pytest.approx(known, rel=1e-8)
    assert summand.movement(Neighbours("zero_out")) / unit == pytest.approx(emptied, rel=1e-8)

    def apart(at):
        x = length * at[0] * np.array([1.0, 0.0])
        y = length * at[1] * np.array([math.cos(at[2]), math.sin(at[2])])
        gap = weight * curvature * (at[5] * np.outer(x, x) - at[6] * np.outer(y, y))
        return math.hypot(np.linalg.norm(slope * (at[3] * x - at[4] * y)), np.linalg.norm(gap))

    bounds = [(0, 1), (0, 1), (0, math.pi), (-1, 1), (-1, 1), (0, 1), (0, 1)]
    rng, low, high = np.random.default_rng(1), *np.transpose(bounds)
    found = max(
        -scipy.optimize.minimize(lambda at: -apart(at), rng.uniform(low, high), bounds=bounds).fun
        for _ in range(30)
    )
    assert found <= summand.movement(NEAR)
    assert found == pytest.approx(summand.movement(NEAR), rel=1e-6)


def test_moments_with_losses_move_as_far_as_any_records_do():
    """Against the distance of two records whose losses differ by the whole range."""
    given = 2, 2.0, 1.0, math.inf, 1.0, 0.8
    own = MomentsAndLoss(*given, largest_loss=4.0, loss_weight=0.3)
    assert own.size == SecondMoments(*given).size + 1
    for near in (NEAR, Neighbours("zero_out")):
        moments = SecondMoments(*given).movement(near)
        assert own.movement(near) == pytest.approx(math.hypot(moments, 1.2), rel=1e-11)
        assert own.movement(near) > math.hypot(moments, 1.2)
    rng, decision = np.random.default_rng(5), np.array([0.6, -0.8])
    for _ in range(500):
        rows, labels = rng.normal(size=(2, 2)), rng.choice([-1.0, 1.0], 2)
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        gap = np.outer(rows[0], rows[0]) - np.outer(rows[1], rows[1])
        vectors = 0.8 * (labels[0] * rows[0] - labels[1] * rows[1])
        losses = 0.3 * np.square(rows @ decision - labels)
        apart = np.linalg.norm([np.linalg.norm(gap), *vectors, losses[0] - losses[1]])
        assert apart <= own.movement(NEAR)


@pytest.mark.parametrize("label", [0.3, 1.0, 4.0])
def test_second_moments_move_as_far_as_any_records_do(label):
    """Against a grid of angles, lengths and labels, for records that are not of length 1."""
    length, weight = 1.5, 0.8
    summand = SecondMoments(3, 2.0, length, math.inf, label, weight)
    whole = length * math.hypot(length, weight * label)
    assert summand.movement(Neighbours("zero_out")) == pytest.approx(whole, rel=1e-12)
    grid = itertools.product(
        np.linspace(0.0, math.pi, 401), (0.7, 1.0), (0.7, 1.0), (-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0)
    )
    farthest = 0.0
    for angle, a, b, y, z in grid:
        one, other = (
            length * a * np.eye(2)[0],
            length * b * np.array([np.cos(angle), np.sin(angle)]),
        )
        vectors = weight * label * (y * one - z * other)
        gap = np.outer(one, one) - np.outer(other, other)
        farthest = max(farthest, math.hypot(np.linalg.norm(gap), np.linalg.norm(vectors)))
    assert farthest <= summand.movement(NEAR) * (1.0 + 1e-12)
    assert farthest >= summand.movement(NEAR) * (1.0 - 1e-4)
