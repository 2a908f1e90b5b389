"""Losses as functions and as values: numbers, derivatives, text, JSON, pickle, bad arguments."""

import copy
import functools
import json
import math
import pickle

import numpy as np
import pytest
from tests.probes import probes

import dpoco
from dpoco import _core
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import (
    CustomLoss,
    HuberLoss,
    LinearLoss,
    LogisticLoss,
    Loss,
    SquaredLoss,
    from_dict,
)

EXAMPLES: list[Loss] = [
    SquaredLoss(1.0, 1.0),
    SquaredLoss(2, 1 / 3, weight=0.5, feature_bound_l2=0.1),
    LogisticLoss(1.0),
    LogisticLoss(0.1, feature_bound_l2=3.0),
    HuberLoss(1.0, 1.0),
    HuberLoss(1.0, 2.0, threshold=0.3),
    LinearLoss(1.0),
    LinearLoss(0.7, gradient_bound_l2=0.1),
    CustomLoss(1.0, 0.0),
    CustomLoss(1, 2, leaf_bound=0.1, leaf_bound_l2=1 / 3),
]
GLMS = [
    SquaredLoss(1.0, 1.0),
    SquaredLoss(weight=0.5, label_bound=3.0, feature_bound=1.0),
    LogisticLoss(1.0),
    HuberLoss(1.0, 1.0, threshold=0.6),
    HuberLoss(threshold=5.0, label_bound=2.0, feature_bound=1.0),
]


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_text_json_and_pickle_restore_an_equal_loss(loss: Loss) -> None:
    by_text = eval(repr(loss), {"__builtins__": {}, **vars(dpoco.losses)})
    by_json = from_dict(json.loads(json.dumps(loss.to_dict(), allow_nan=False)))
    for other in (by_text, by_json, pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
        assert other == loss
        assert other.to_dict() == loss.to_dict()
    assert sum(loss == other for other in EXAMPLES) == 1
    with pytest.raises(AttributeError):
        loss.feature_bound = 2.0


def reference(loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    z, y = z.astype(np.longdouble), y.astype(np.longdouble)
    if isinstance(loss, SquaredLoss):
        return loss.weight * (z - y) ** 2
    if isinstance(loss, LogisticLoss):
        return np.logaddexp(0, z) - y * z
    r = np.abs(z - y)
    t = np.longdouble(loss.threshold)
    return np.where(r <= t, r * r / 2, t * (r - t / 2))


@pytest.mark.parametrize("loss", GLMS, ids=repr)
def test_values_and_derivatives(loss) -> None:
    rng = np.random.default_rng(21)
    low, high = loss.label_range
    z = np.concatenate([rng.normal(size=500) * 3, rng.normal(size=500) * 100])
    y = rng.uniform(low, high, 1000)
    engine = loss._glm_engine
    assert engine.values(z, y) == pytest.approx(
        reference(loss, z, y).astype(float), rel=1e-13, abs=1e-13
    )
    h = np.longdouble(1e-6)
    slope = (reference(loss, z + h, y) - reference(loss, z - h, y)) / (2 * h)
    assert engine.derivatives(z, y) == pytest.approx(slope.astype(float), rel=1e-7, abs=1e-6)
    # The second derivative jumps at Huber's threshold.
    smooth = (
        np.abs(np.abs(z - y) - loss.threshold) > 1e-5
        if isinstance(loss, HuberLoss)
        else np.full(1000, True)
    )
    bend = (engine.derivatives(z + 1e-6, y) - engine.derivatives(z - 1e-6, y)) / 2e-6
    assert probes.curvatures(engine, z, y)[smooth] == pytest.approx(
        bend[smooth], rel=1e-5, abs=1e-7
    )


def test_logistic_keeps_relative_precision_in_the_tails() -> None:
    z = np.array([-700.0, -300.0, -40.0, -1e-9, 0.0, 1e-9, 40.0])
    engine = LogisticLoss(1.0)._glm_engine
    zero = np.zeros(7)
    exact = 1 / (1 + np.exp(-z.astype(np.longdouble)))
    assert engine.derivatives(z, zero) == pytest.approx(exact.astype(float), rel=1e-14)
    assert engine.values(z, zero) == pytest.approx(
        np.log1p(np.exp(z.astype(np.longdouble))).astype(float), rel=1e-14
    )
    assert engine.values(np.array([1e6, -1e6]), np.array([0.0, 1.0])).tolist() == [1e6, 1e6]


@pytest.mark.parametrize("loss", GLMS, ids=repr)
def test_gradient_matches_value_in_every_direction(loss) -> None:
    rng = np.random.default_rng(22)
    theta = rng.normal(size=4)
    x = rng.normal(size=(6, 4))
    y = rng.uniform(*loss.label_range, 6)
    gradient = loss.gradient(theta, x, y)
    assert gradient.shape == (6, 4)
    for j in range(4):
        step = np.zeros(4)
        step[j] = 1e-6
        slope = (loss.value(theta + step, x, y) - loss.value(theta - step, x, y)) / 2e-6
        assert gradient[:, j] == pytest.approx(slope, rel=1e-6, abs=1e-7)
    single = loss.value(theta, x[2], y[2])
    assert isinstance(single, float)
    assert single == pytest.approx(loss.value(theta, x, y)[2], rel=1e-14)
    assert loss.gradient(theta, x[2], y[2]) == pytest.approx(gradient[2], rel=1e-13)


def test_linear_and_custom_losses_evaluate() -> None:
    linear = LinearLoss(1.0)
    assert linear.value([1, 2], [3, 4]) == 11.0
    assert linear.value([1, 2], [[3, 4], [1, 0]]).tolist() == [11.0, 1.0]
    g = np.array([3.0, 4.0])
    out = linear.gradient([1, 2], g)
    out[0] = 9.0
    assert g[0] == 3.0

    class Quadratic:
        def value(self, theta):
            return theta @ theta / 2

        def gradient(self, theta):
            return theta

    custom = CustomLoss(1.0, 1.0)
    assert custom.value([3, 4], Quadratic()) == 12.5
    assert custom.gradient([3, 4], Quadratic()).tolist() == [3.0, 4.0]


DOMAINS = {
    "l1.5": LpBall(2, 1.5, 2.0),
    "l1": LpBall(2, 1, 0.5),
    "box": Box([0, -1], [1, 3]),
    "simplex": Simplex(2, 2.0),
}


@functools.cache
def points(name: str, seed: int, n: int) -> np.ndarray:
    """Minimisers of random directions, partly pulled inside."""
    domain, rng = DOMAINS[name], np.random.default_rng(seed)
    v = np.array([domain.minimize_linear(g) for g in rng.normal(size=(n, 2))])
    return domain.center + (v - domain.center) * rng.choice([0, 0.3, 0.9, 1.0], (n, 1))


@pytest.mark.parametrize("loss", GLMS, ids=repr)
@pytest.mark.parametrize("name", DOMAINS)
def test_lipschitz_and_smoothness_hold_and_are_attained(loss, name) -> None:
    """Best of many random pairs: never above the bound, and within 15 % of it."""
    n, domain, rng = 20_000, DOMAINS[name], np.random.default_rng(23)
    q, a, b = domain.dual_exponent, points(name, 24, n), points(name, 25, n)
    x = rng.normal(size=(n, 2)) * rng.choice([0.0, 1.0], (n, 2), p=[0.2, 0.8])
    x[: n // 2] = np.sign(x[: n // 2])
    x *= loss.feature_bound / np.maximum(np.linalg.norm(x, q, axis=1), 1e-9)[:, None]
    y = rng.choice([*loss.label_range, sum(loss.label_range) / 2], n)
    at_a, at_b = _pairs(loss, a, b, x, y)
    steep = np.linalg.norm(at_a, q, axis=1).max()
    assert 0.85 * loss.lipschitz(domain) <= steep <= loss.lipschitz(domain) * (1 + 1e-12)
    gap = np.linalg.norm(a - b, domain.p, axis=1)
    close = gap > 1e-3
    bend = (np.linalg.norm(at_a - at_b, q, axis=1)[close] / gap[close]).max()
    assert bend <= loss.smoothness(domain) * (1 + 1e-9)
    assert bend >= 0.85 * loss.smoothness(domain)


def _pairs(loss, a, b, x, y):
    """Gradients at a and at b, one record a row."""
    engine = loss._glm_engine
    return tuple(
        engine.derivatives(np.ascontiguousarray((t * x).sum(axis=1)), y)[:, None] * x
        for t in (a, b)
    )


def test_constants_of_the_other_losses() -> None:
    ball = LpBall(16, math.inf, 1.5)
    assert LinearLoss(0.7).lipschitz(ball) == 0.7
    assert LinearLoss(0.7).smoothness(ball) == 0.0
    custom = CustomLoss(2.0, 0.5)
    assert (custom.lipschitz(ball), custom.smoothness(ball)) == (2.0, 0.5)


def test_margins_use_the_smaller_of_two_hoelder_bounds() -> None:
    ball = LpBall(16, math.inf, 1.0)
    assert SquaredLoss(1.0, 1.0).margin_bound(ball) == 1.0
    assert SquaredLoss(1.0, 1.0, feature_bound_l2=0.1).margin_bound(ball) == pytest.approx(0.4)
    assert SquaredLoss(1.0, 1.0, feature_bound_l2=0.9).margin_bound(ball) == 1.0
    assert SquaredLoss(2.0, 1.0).margin_bound(Box([-3.0, 0.0], [1.0, 0.0])) == 6.0


def test_compiled_loss_refuses_unknown_kinds() -> None:
    with pytest.raises(ValueError, match="kind"):
        _core.GlmLoss("hinge", 1.0, 1.0, -1.0, 1.0)
    with pytest.raises(ValueError, match="positive"):
        _core.GlmLoss("huber", 1.0, 0.0, -1.0, 1.0)


# -- losses of one's own, as functions of arrays ---------------------------------------------------


def margin(theta, rows):
    return rows[:, :3] @ theta - rows[:, 3]


def soft_values(theta, rows):
    assert np.isfinite(rows).all()
    return np.sqrt(1.0 + margin(theta, rows) ** 2) - 1.0


def soft_gradients(theta, rows):
    z = margin(theta, rows)
    return (z / np.sqrt(1.0 + z * z))[:, None] * rows[:, :3]


def soft_hessians(theta, rows):
    curved = (1.0 + margin(theta, rows) ** 2) ** -1.5
    return curved[:, None, None] * rows[:, :3, None] * rows[:, None, :3]


FUNCTIONS = {"values": soft_values, "gradients": soft_gradients, "hessians": soft_hessians}
SOFT = CustomLoss(1.0, 1.0, **FUNCTIONS)


class OneLoss:
    """The same loss, as an object of one record."""

    def __init__(self, row):
        self.row = (row if np.isfinite(row).all() else np.zeros_like(row))[None]

    def value(self, theta):
        return soft_values(theta, self.row)[0]

    def gradient(self, theta):
        return soft_gradients(theta, self.row)[0]

    def hessian(self, theta):
        return soft_hessians(theta, self.row)[0]


def soft_rows(rounds=40):
    rng = np.random.default_rng(3)
    features = rng.normal(size=(rounds, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    rows = np.column_stack([features, features @ [0.5, -0.2, 0.3]])
    rows[7, 1] = np.nan
    return rows


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize(
    ("kind", "p"),
    [
        (dpoco.frank_wolfe.TreeFrankWolfe, 2.0),
        (dpoco.frank_wolfe.PolyhedralFrankWolfe, 1.0),
        (dpoco.oco.NoisyFTRL, 2.0),
        (dpoco.oco.CoupledRegularizedLeader, 2.0),
    ],
)
def test_functions_of_arrays_are_played_as_loss_objects_are(kind, p):
    rows, domain = soft_rows(), LpBall(3, p)

    def make(loss):
        source = dpoco.random.Source.seeded(1)
        return kind(domain, loss, horizon=40, budget=dpoco.Budget(4.0, 1e-6), source=source)

    trace = make(SOFT).run(rows)
    rowwise, objects = make(SOFT), make(CustomLoss(1.0, 1.0))
    for t, row in enumerate(rows):
        assert np.array_equal(rowwise.decide(), trace.decisions[t])
        assert np.array_equal(objects.decide(), trace.decisions[t])
        own = OneLoss(row)
        lost = own.value(trace.decisions[t]) if t != 7 else 0.0
        assert trace.losses[t] == pytest.approx(lost, abs=1e-12)
        rowwise.observe(row)
        objects.observe(own)
    moved = np.any(trace.decisions[1:] != trace.decisions[:-1], axis=1)
    assert np.array_equal(trace.switches[trace.switches < 39], np.flatnonzero(moved))
    assert trace.nonprivate_records.shares == {"missing": 1 / 40}


def test_functions_of_arrays_are_compared_with_the_best_decision():
    rows, domain = soft_rows(), LpBall(3)
    best = dpoco.evaluation.best_fixed_decision(domain, SOFT, rows)
    assert best.gap < 1e-6
    for theta in np.random.default_rng(0).normal(size=(50, 3)):
        near = domain.project(best.decision + 0.1 * theta)
        assert SOFT.value(near, rows).mean() >= best.average_loss - 1e-7

    def make(budget, source):
        return dpoco.oco.NoisyFTRL(domain, SOFT, horizon=40, budget=budget, source=source)

    compared = {"name": "best", "total_loss": best.total_loss}
    found = dpoco.evaluation.compare({"own": make}, (rows,), budgets=[None], comparator=compared)
    (row,) = found.rows
    assert row.regret == pytest.approx(make(None, None).run(rows).regret(best)[-1])
    assert len(dpoco.evaluation.repeat(lambda s: make(None, s), rows, repeats=2)) == 2


def test_functions_that_do_not_fit_are_refused(tmp_path):
    for given in ({"values": soft_values}, {"hessians": soft_hessians}, {**FUNCTIONS, "values": 3}):
        with pytest.raises(TypeError):
            CustomLoss(1.0, 1.0, **given)
    rows, domain = soft_rows(), LpBall(3)
    leader = functools.partial(dpoco.oco.NoisyFTRL, domain, horizon=40, budget=None)
    without = CustomLoss(1.0, 1.0, values=soft_values, gradients=soft_gradients)
    coupled = dpoco.oco.CoupledRegularizedLeader(domain, without, horizon=40, budget=None)
    flat = CustomLoss(1.0, 1.0, values=soft_values, gradients=soft_values)
    refusals = [
        lambda: leader(SOFT).run(rows, rows[:, 0]),
        lambda: leader(SOFT).run(rows[0]),
        lambda: leader(SOFT, on_violation="raise").run(rows),
        lambda: leader(CustomLoss(1.0, 1.0)).run(rows),
        lambda: coupled.run(rows),
        lambda: leader(flat).run(rows),
    ]
    for refused in refusals:
        with pytest.raises((TypeError, ValueError)):
            refused()
    with pytest.raises(dpoco.StateError, match="functions"):
        leader(SOFT).save(tmp_path / "state")
