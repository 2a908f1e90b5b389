"""The order of calls, bad input, bounds, copies, threads, interruption."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plans import leaf as leaf_bounds

import dpoco
from dpoco.domains import LpBall
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
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


@pytest.mark.parametrize("kind", [TreeFrankWolfe, NoisyFTRL])
def test_incomplete_last_batch_is_discarded(kind):
    X, y = stream(11)
    learner = make(kind=kind, horizon=11, batch=4)
    trace = learner.run(X, y)
    assert list(trace.switches) == [3, 7]
    assert learner.guarantee.horizon == 11
    assert learner._mechanism.pushes == 2


SETS = [
    LpBall(3, 2.0, 2.0), LpBall(17, 2.0, 0.5), LpBall(10, 1.5, 2.0), LpBall(10, np.inf, 1.0),
    LpBall(10, 3.0, 1.0), LpBall(8, 1.0, 1.0), dpoco.domains.Box(-np.ones(5), 2.0 * np.ones(5)),
]  # fmt: skip


@pytest.mark.parametrize("domain", SETS, ids=repr)
@pytest.mark.parametrize("loss", [SquaredLoss(1.0, 1.0), LogisticLoss(1.0), HuberLoss(1.0, 1.0)])
@pytest.mark.parametrize("instructions", ["auto", "avx2", "baseline"])
def test_rounds_in_blocks_have_the_bits_of_single_ones(domain, loss, instructions):
    """Rounds of one call and single rounds, on every instruction set."""
    features, labels = stream(300, domain.dimension)
    labels = np.clip(labels, -1.0 if not isinstance(loss, LogisticLoss) else 0.0, 1.0)
    features[7, 0], labels[9], features[11] = np.nan, np.inf, 0.0
    single = make(domain=domain, loss=loss, horizon=300)
    played = []
    for row, label in zip(features, labels, strict=True):
        played.append(single.decide())
        single.observe(row, label)
    try:
        dpoco.random.select_instruction_set(instructions)
    except ValueError:
        pytest.skip("this processor has it not")
    try:
        blocks = make(domain=domain, loss=loss, horizon=300)
        parts = [blocks.run(features[part], labels[part]) for part in (slice(130), slice(130, 300))]
    finally:
        dpoco.random.select_instruction_set("auto")
    assert np.array_equal(np.vstack([part.decisions for part in parts]), played)
    assert blocks._engine.state() == single._engine.state()
    expected = [parts[0].comparator_losses(played[t])[t] for t in range(130)]
    np.testing.assert_allclose(parts[0].losses, expected, rtol=1e-12)
    assert parts[0].losses[7] == parts[0].losses[9] == 0.0


def test_decisions_that_stay_are_kept_once():
    X, y = stream(9000)
    trace, whole = make(horizon=9000, batch=100).run(X, y), make(horizon=9000, batch=100)
    assert trace._decisions.shape == (90, 3)
    for t in range(0, 9000, 50):
        assert np.array_equal(trace.decisions[t], whole.decide())
        whole.run(X[t : t + 50], y[t : t + 50])
    assert not trace.decisions.flags.writeable


@pytest.mark.parametrize("horizon", [1, 8, 9, 31])
@pytest.mark.parametrize("method", ["blt", "blt_normalised", "tree", "toeplitz"])
def test_the_horizon_is_a_wall_of_the_compiled_class(horizon, method):
    X, y = stream(horizon + 1)
    learner = make(horizon=horizon, sum_method=method)
    learner.run(X[:-1], y[:-1])
    engine, state = learner._engine, learner._engine.state()
    single = X[:1].copy(), y[:1].copy(), np.empty(1), None, np.empty(1, np.uint8)
    for breach in (lambda: engine.observe(horizon, X[0], 0.0), lambda: engine.run(*single)):
        with pytest.raises(dpoco.HorizonExceeded):
            breach()
        assert engine.state() == state


def test_unknown_horizon_is_a_declared_maximum():
    learner = make(horizon=None)
    assert learner.horizon == 10**9
    learner.run(*stream(100))
    assert learner.round == 100


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 1.000001, 1.5, 2.0, 3.0, np.inf])
def test_huge_records_are_clipped_in_every_geometry(p):
    domain = LpBall(3, p)
    learner = make(domain=domain, budget=None, horizon=40)
    X, y = stream(40)
    X[::3] *= 1e300
    X[1::3] *= 1e-300
    y[::5] = 1e308
    before = np.zeros(3)
    bound = leaf_bounds(learner.plan).dual
    for t in range(40):
        learner.decide()
        learner.observe(X[t], y[t])
        total = learner._engine.nonprivate_sum()
        leaf = total - before
        largest = np.abs(leaf).max()
        scaled = np.linalg.norm(leaf / (largest or 1.0), ord=domain.dual_exponent)
        assert largest * scaled <= bound * (1 + 1e-9)
        before = np.array(total)
        assert domain.contains(learner.last_decision)


def test_gaussian_noise_is_never_purely_private():
    with pytest.raises(dpoco.CalibrationError, match="delta > 0"):
        TreeFrankWolfe(LpBall(3), SquaredLoss(1.0, 1.0), horizon=5, budget=dpoco.Budget(1.0, 0.0))


# -- losses ---------------------------------------------------------------------------------------


class Quadratic:
    """f(theta) = |theta - centre|^2 / 2 as a user would write it."""

    def __init__(self, centre):
        self.centre = np.asarray(centre)

    def value(self, theta):
        return 0.5 * float(np.sum((theta - self.centre) ** 2))

    def gradient(self, theta):
        return theta - self.centre


def test_custom_loss_without_noise_is_frank_wolfe():
    learner = make(loss=CustomLoss(lipschitz=2.0, smoothness=1.0), budget=None, horizon=300)
    centre = np.array([0.3, -0.2, 0.1])
    for _ in range(300):
        learner.decide()
        learner.observe(Quadratic(centre))
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


def test_linear_losses():
    loss = LinearLoss(gradient_bound=1.0)
    X, _ = stream(50)
    learner = make(loss=loss, budget=None, horizon=50)
    trace = learner.run(X)
    clipped = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    assert np.allclose(learner._engine.nonprivate_sum(), clipped.sum(axis=0))
    assert trace.losses[3] == pytest.approx(trace.decisions[3] @ clipped[3])
    with pytest.raises(TypeError, match="label"):
        make(loss=loss).run(X[:20], np.zeros(20))


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
