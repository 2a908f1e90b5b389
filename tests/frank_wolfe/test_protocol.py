"""The order of calls, bad input, bounds, copies, threads, interruption."""

from __future__ import annotations

import numpy as np
import pytest
from tests.delayed.families import Distance
from tests.plans import leaf as leaf_bounds

import dpoco
from dpoco.domains import LpBall
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import CustomLoss, LinearLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)


def make(
    d=3, horizon=20, *, kind=TreeFrankWolfe, seed=1, loss=None, domain=None, budget=BUDGET,
    **options,
):  # fmt: skip
    return kind(
        domain or LpBall(d, 2.0, 1.0),
        loss or SquaredLoss(1.0, 1.0),
        horizon=horizon,
        budget=budget,
        source=Source.seeded(seed),
        **options,
    )


def stream(T, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(T, d)), rng.normal(size=T)


def test_decisions_that_stay_are_kept_once():
    X, y = stream(9000)
    trace, whole = make(horizon=9000, batch=100).run(X, y), make(horizon=9000, batch=100)
    assert trace._decisions.shape == (90, 3)
    for t in range(0, 9000, 50):
        assert np.array_equal(trace.decisions[t], whole.decide())
        whole.run(X[t : t + 50], y[t : t + 50])
    assert not trace.decisions.flags.writeable


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 1.000001, 1.5, 2.0, 3.0, np.inf])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (TreeFrankWolfe, {}), (NoisyFTRL, {}), (NoisyFTRL, {"loss": LinearLoss(1.0)}),
        (NoisyFTRL, {"loss": SquaredLoss(1.0, 1.0, feature_bound_l2=0.9),
                     "statistics": "quadratic"}),
    ],
)  # fmt: skip
def test_huge_records_are_clipped_in_every_geometry(kind, options, p):
    domain = LpBall(3, p)
    learner = make(domain=domain, kind=kind, budget=None, horizon=40, **options)
    X, y = stream(40)
    X[::3] *= 1e300
    X[1::3] *= 1e-300
    y[::5] = 1e308
    if kind is TreeFrankWolfe:
        bound, order = leaf_bounds(learner.plan).dual, domain.dual_exponent
    else:
        bound, order = learner._mechanism.summand.movement(Neighbours("zero_out")), 2.0
    before, reached = 0.0, 0.0
    for t in range(40):
        at = learner.decide()
        leaf = learner._engine.leaf(at, at, X[t], y[t]) if "statistics" in options else None
        learner.observe(X[t], y[t] if learner.loss.glm else None)
        total = np.array(learner._engine.nonprivate_sum())
        leaf = total - before if leaf is None else leaf  # batches of statistics grow
        largest = np.abs(leaf).max()
        reached = max(reached, largest * np.linalg.norm(leaf / (largest or 1.0), ord=order))
        before = total
        assert domain.contains(learner.last_decision)
    assert 0.2 * bound < reached <= bound * (1 + 1e-9)


def test_gaussian_noise_is_never_purely_private():
    with pytest.raises(dpoco.CalibrationError, match="delta > 0"):
        TreeFrankWolfe(LpBall(3), SquaredLoss(1.0, 1.0), horizon=5, budget=dpoco.Budget(1.0, 0.0))


# -- losses ---------------------------------------------------------------------------------------


def test_custom_loss_without_noise_is_frank_wolfe():
    learner = make(loss=CustomLoss(lipschitz=2.0, smoothness=1.0), budget=None, horizon=300)
    centre = np.array([0.3, -0.2, 0.1])
    for _ in range(300):
        learner.decide()
        learner.observe(Distance(centre))
    assert np.linalg.norm(learner.last_decision - centre) < 0.05


def test_custom_loss_equals_the_built_in_one():
    loss = SquaredLoss(1.0, 1.0)
    X, y = stream(30)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.clip(y, -1, 1)
    built_in = make(loss=loss, horizon=30)
    bound = leaf_bounds(built_in.plan).dual
    custom = make(loss=CustomLoss(lipschitz=4.0, smoothness=2.0, leaf_bound=bound), horizon=30)
    assert custom.plan.mechanism.scale == pytest.approx(built_in.plan.mechanism.scale)

    class Row:
        def __init__(self, x, label):
            self.x, self.label = x, label

        def gradient(self, theta):
            return 2 * (theta @ self.x - self.label) * self.x

    for t in range(30):
        assert np.allclose(custom.decide(), built_in.decide(), atol=1e-9)
        custom.observe(Row(X[t], y[t]))
        built_in.observe(X[t], y[t])


@pytest.mark.parametrize(
    ("kind", "options"),
    [(TreeFrankWolfe, {}), (NoisyFTRL, {"leaf_bound": 0.7})],
)
def test_custom_gradients_are_clipped_and_bad_ones_vanish(kind, options):
    loss = CustomLoss(lipschitz=1.0, smoothness=0.5, **options)
    learner = make(kind=kind, loss=loss, budget=None)
    bound = leaf_bounds(learner.plan).dual
    assert bound == options.get("leaf_bound", bound)

    class Wild:
        def __init__(self, g):
            self.g = g

        def gradient(self, theta):
            return self.g

    before = np.zeros(3)
    for g in ([1e9, 0, 0], [np.nan, 0, 0], [0, -np.inf, 0], [1e308, -1e308, 1e308]):
        learner.decide()
        learner.observe(Wild(np.array(g, dtype=float)))
        change = np.linalg.norm(learner._engine.nonprivate_sum() - before)
        assert change <= bound * (1 + 1e-9)
        before = np.array(learner._engine.nonprivate_sum())
    learner.decide()
    state = learner._engine.state()
    with pytest.raises(ValueError, match="gradient"):
        learner.observe(Wild(np.zeros(4)))
    with pytest.raises(TypeError, match="gradient"):
        learner.observe(np.zeros(3))
    with pytest.raises(TypeError, match="label"):
        learner.observe(Wild(np.zeros(3)), 1.0)
    with pytest.raises(TypeError, match="run"):
        learner.run(np.zeros((2, 3)))

    class Meddling:
        def gradient(self, theta):
            learner.decide()
            learner.observe(Wild(np.zeros(3)))
            learner.decide()
            return np.zeros(3)

    assert learner._engine.state() == state
    with pytest.raises(dpoco.RoundOrderError, match="alternate"):
        learner.observe(Meddling())


@pytest.mark.filterwarnings("error")
def test_values_out_of_range_are_silent_zero_records():
    want = make()
    want.decide()
    want.observe([0.0, 0.0, 0.0], 0.0)
    records = [
        ([10**400, 0, 0], 0.0),
        ([0, -(10**30), 1], 10**400),
        ([0.1, 0.2, 0.3], -(10**400)),
        (np.array([np.longdouble("1e4000"), 0, 0]), 0.0),
        (np.array([np.nan, 1, 2], dtype=np.float32), 0.0),
        ([0.1, 0.2, 0.3], np.longdouble("1e4000")),
    ]
    for features, label in records:
        learner = make()
        learner.decide()
        learner.observe(features, label)
        if features[1] != -(10**30) or label == 10**400:
            assert np.array_equal(learner.last_decision, want.last_decision)
    learner = make()
    learner.run(np.ma.masked_array(np.ones((1, 3)), mask=[[False, True, False]]), np.zeros(1))
    assert np.array_equal(learner.last_decision, want.last_decision)
