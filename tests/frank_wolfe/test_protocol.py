"""The order of calls, bad input, bounds, copies, threads, interruption."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import dpoco
from dpoco.domains import Box, LpBall, Simplex
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)


def make(d=3, horizon=20, *, seed=1, loss=None, domain=None, budget=BUDGET, **options):
    return TreeFrankWolfe(
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


def test_decide_is_idempotent_and_read_only():
    learner = make()
    first = learner.decide()
    assert learner.decide() is first
    assert first.shape == (3,)
    assert first.dtype == np.float64
    assert first.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0
    learner.observe([1.0, 0.0, 0.0], 0.5)
    assert learner.decide() is not first
    assert np.array_equal(first, np.zeros(3))


def test_decide_and_observe_alternate():
    learner = make()
    with pytest.raises(dpoco.RoundOrderError):
        learner.observe([1.0, 0.0, 0.0], 0.5)
    learner.decide()
    learner.observe([1.0, 0.0, 0.0], 0.5)
    state = learner._engine.state()
    with pytest.raises(dpoco.RoundOrderError):
        learner.observe([1.0, 0.0, 0.0], 0.5)
    assert learner._engine.state() == state
    assert learner.round == 1


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("loss", [SquaredLoss(1.0, 1.0), LogisticLoss(1.0), HuberLoss(1.0, 1.0)])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, np.inf])
def test_run_equals_round_by_round(p, loss, batch):
    X, y = stream(20)
    whole = make(domain=LpBall(3, p), loss=loss, batch=batch)
    trace = whole.run(X, y)
    single = make(domain=LpBall(3, p), loss=loss, batch=batch)
    for t in range(20):
        assert np.array_equal(single.decide(), trace.decisions[t])
        single.observe(X[t], y[t])
    assert np.array_equal(single.last_decision, whole.last_decision)
    mixed = make(domain=LpBall(3, p), loss=loss, batch=batch)
    mixed.run(X[:7], y[:7])
    mixed.decide()  # a decision asked for is the one the run goes on with
    mixed.run(X[7:], y[7:], record_decisions=False)
    assert np.array_equal(mixed.last_decision, whole.last_decision)
    with pytest.raises(ValueError, match="record_decisions"):
        _ = mixed.run(X[:0], y[:0], record_decisions=False).decisions


def test_incomplete_last_batch_is_discarded():
    X, y = stream(11)
    learner = make(horizon=11, batch=4)
    trace = learner.run(X, y)
    assert list(trace.switches) == [3, 7]
    assert learner.guarantee.horizon == 11
    assert learner.parameters.pushes == 2


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 8, 9, 31, 32, 33])
@pytest.mark.parametrize("method", ["blt", "tree", "honaker", "toeplitz"])
def test_horizon_is_a_wall(horizon, method):
    X, y = stream(horizon + 1)
    learner = make(horizon=horizon, sum_method=method)
    with pytest.raises(dpoco.HorizonExceeded):
        learner.run(X, y)
    assert learner.round == 0
    learner.run(X[:-1], y[:-1])
    state, final = learner._engine.state(), learner.last_decision
    for breach in (
        learner.decide,
        lambda: learner.observe(X[0], 0.0),
        lambda: learner.run(X[:1], y[:1]),
        lambda: learner._engine.observe(horizon, X[0], 0.0),
        lambda: learner._engine.run(X[:1].copy(), y[:1].copy(), np.empty(1), None,
                                    np.empty(1, np.uint8)),
    ):  # fmt: skip
        with pytest.raises(dpoco.HorizonExceeded):
            breach()
        assert learner._engine.state() == state
    assert np.array_equal(learner.last_decision, final)
    assert learner.domain.contains(final)


def test_empty_runs():
    learner = make()
    trace = learner.run(np.zeros((0, 3)), np.zeros(0))
    assert len(trace) == 0
    assert np.isnan(trace.average_loss)
    assert learner.round == 0


def test_unknown_horizon_is_a_declared_maximum():
    learner = make(horizon=None)
    assert learner.horizon == 10**9
    learner.run(*stream(100))
    assert learner.round == 100


def test_one_dimension_one_round():
    learner = make(d=1, horizon=1)
    learner.decide()
    learner.observe([0.3], 0.1)
    assert abs(learner.last_decision[0]) <= 1.0


# -- bad input ------------------------------------------------------------------------------------

X1 = np.array([0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("features", "label", "error"),
    [
        (np.zeros(4), 0.0, ValueError),
        (np.zeros((3, 1)), 0.0, ValueError),
        (np.zeros((1, 3)), 0.0, ValueError),
        (3.0, 0.0, ValueError),
        (np.zeros(3, dtype=complex), 0.0, TypeError),
        (["1", "2", "3"], 0.0, TypeError),
        ([None, 1.0, 2.0], 0.0, TypeError),
        (X1, None, TypeError),
        (X1, "1", TypeError),
        (X1, 1j, TypeError),
        (X1, np.zeros(1), TypeError),
        (X1, [0.0], TypeError),
    ],
)
def test_wrong_shape_or_dtype_changes_nothing(features, label, error):
    learner = make()
    learner.decide()
    state = learner._engine.state()
    with pytest.raises(error, match=r"features|label"):
        learner.observe(features, label)
    assert learner._engine.state() == state
    learner.observe(X1, 0.5)  # the round is still open


def test_messages_never_quote_the_data():
    learner = make()
    learner.decide()
    secret = 123456.789
    for features, label in (
        (np.full(4, secret), 0.0),
        (np.full(3, secret * 1j), 0.0),
        (np.full(3, secret), str(secret)),
        ([[secret], [secret, secret]], 0.0),
        ([str(secret)] * 3, 0.0),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            learner.observe(features, label)
        error: BaseException | None = caught.value
        while error is not None:
            assert "123456" not in str(error)
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    careful = make(on_violation="raise")
    careful.decide()
    with pytest.raises(ValueError, match="outside") as caught:
        careful.observe(np.full(3, secret), 0.0)
    assert "123456" not in str(caught.value)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((5, 4)), np.zeros(5)),
        (np.zeros(5), np.zeros(5)),
        (np.zeros((5, 3)), np.zeros(4)),
        (np.zeros((5, 3)), None),
        (np.zeros((5, 3), dtype=complex), np.zeros(5)),
        (np.zeros((5, 3)), np.zeros((5, 1))),
    ],
)
def test_bad_runs(X, y):
    learner = make()
    with pytest.raises((TypeError, ValueError), match=r"features|labels"):
        learner.run(X, y)
    assert learner.round == 0


def test_other_real_dtypes_and_layouts_give_the_same_decisions():
    X, y = stream(20)
    X, y = np.round(X * 4), np.round(y)
    want = make().run(X, y).decisions
    for XX, yy in (
        (X.astype(np.float32), y.astype(np.int8)),
        (np.asfortranarray(X), y[::-1].copy()[::-1]),
        (X.astype(int), y.tolist()),
        (np.repeat(X, 2, axis=1)[:, ::2], y),
        (X.astype(">f8"), y),
    ):
        assert np.array_equal(make().run(XX, yy).decisions, want)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["feature", "label", "both"])
def test_a_non_finite_record_is_a_zero_record(bad, place):
    X, y = stream(20)
    X_zero = X.copy()
    X_zero[4] = 0.0
    if place in ("feature", "both"):
        X[4, 1] = bad
    if place in ("label", "both"):
        y[4] = bad
    y_zero = np.where(np.isfinite(y), y, 0.0)
    got, want = make(), make()
    assert np.array_equal(got.run(X, y).decisions, want.run(X_zero, y_zero).decisions)
    assert np.array_equal(got.last_decision, want.last_decision)
    assert got._engine.variates_drawn() == want._engine.variates_drawn()


@pytest.mark.parametrize("p", [1.0, 1.000001, 1.5, 2.0, 3.0, np.inf])
def test_huge_records_are_clipped_in_every_geometry(p):
    domain = LpBall(3, p)
    learner = make(domain=domain, budget=None, horizon=40)
    X, y = stream(40)
    X[::3] *= 1e300
    X[1::3] *= 1e-300
    y[::5] = 1e308
    before = np.zeros(3)
    bound = learner.parameters.leaf_bound
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


def test_raise_mode_refuses_before_anything_changes():
    learner = make(on_violation="raise")
    state = learner._engine.state()
    good = np.array([0.5, 0.0, 0.0])
    for bad, label in (([1.0, 1.0, 1.0], 0.0), ([np.nan, 0, 0], 0.0), (good, 1.5), (good, np.nan)):
        learner.decide()
        with pytest.raises(ValueError, match="outside the declared bounds"):
            learner.observe(bad, label)
        with pytest.raises(ValueError, match="record 1 "):
            learner.run(np.array([good, bad]), np.array([0.0, label]))
    assert learner._engine.state() == state
    learner.observe([1.0, 0.0, 0.0], 1.0)  # exactly on the bounds


@pytest.mark.parametrize(
    "options",
    [
        {"horizon": 0},
        {"horizon": -5},
        {"horizon": 1.5},
        {"horizon": True},
        {"horizon": 10**13},
        {"budget": (1.0, 1e-5)},
        {"budget": 1.0},
        {"domain": "ball"},
        {"loss": "squared"},
        {"calibration": "loose"},
        {"noise": "cauchy"},
        {"sum_method": "magic"},
        {"weights": "equal"},
        {"relation": "add"},
        {"step_scale": 0.0},
        {"step_scale": np.nan},
        {"batch": 0},
        {"batch": 21},
        {"start": [2.0, 0.0, 0.0]},
        {"start": [0.0, 0.0]},
        {"start": [np.nan, 0.0, 0.0]},
        {"on_violation": "ignore"},
        {"parameters": {}},
        {"sum_method": "toeplitz", "horizon": 5000},
    ],
)
def test_bad_arguments_are_refused_at_construction(options):
    with pytest.raises((ValueError, TypeError)):
        make(**options)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.0, 1e-5), (-1.0, 1e-5), (np.nan, 1e-5), (np.inf, 1e-5), (1.0, 1.0),
     (1.0, -0.1), (1.0, np.nan)],
)  # fmt: skip
def test_bad_budgets(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        dpoco.Budget(epsilon, delta)


def test_gaussian_noise_is_never_purely_private():
    with pytest.raises(dpoco.CalibrationError, match="delta > 0"):
        TreeFrankWolfe(LpBall(3), SquaredLoss(), horizon=5, budget=dpoco.Budget(1.0, 0.0))


def test_bad_source():
    with pytest.raises(TypeError, match="source"):
        TreeFrankWolfe(
            LpBall(3), SquaredLoss(), horizon=5, budget=BUDGET, source=np.random.default_rng(0)
        )


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
    bound = loss.leaf_norm_bound(LpBall(3))
    built_in = make(loss=loss, horizon=30)
    custom = make(loss=CustomLoss(lipschitz=4.0, smoothness=2.0, leaf_bound=bound), horizon=30)
    assert custom.parameters.noise_scale == pytest.approx(built_in.parameters.noise_scale)

    class Row:
        def __init__(self, x, label):
            self.x, self.label = x, label

        def gradient(self, theta):
            return 2 * (theta @ self.x - self.label) * self.x

    for t in range(30):
        assert np.allclose(custom.decide(), built_in.decide(), atol=1e-9)
        custom.observe(Row(X[t], y[t]))
        built_in.observe(X[t], y[t])


def test_custom_leaves_are_clipped_and_bad_gradients_vanish():
    learner = make(loss=CustomLoss(lipschitz=1.0, smoothness=0.5), budget=None)

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
        assert change <= learner.parameters.leaf_bound * (1 + 1e-9)
        before = np.array(learner._engine.nonprivate_sum())
    learner.decide()
    state = learner._engine.state()
    with pytest.raises(ValueError, match="gradient"):
        learner.observe(Wild(np.zeros(4)))
    with pytest.raises(TypeError, match="gradient"):
        learner.observe(np.zeros(3))
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
    step = make(loss=loss, budget=None, horizon=50)
    for t in range(50):
        assert np.array_equal(step.decide(), trace.decisions[t])
        step.observe(X[t])
    clipped = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    assert np.allclose(learner._engine.nonprivate_sum(), clipped.sum(axis=0))
    assert trace.losses[3] == pytest.approx(trace.decisions[3] @ clipped[3])
    with pytest.raises(TypeError, match="label"):
        make(loss=loss).run(X[:20], np.zeros(20))


@pytest.mark.parametrize("domain", [Box([-1, 0, 0], [1, 2, 0.5]), Simplex(3), LpBall(3, 1.0)])
def test_decisions_stay_in_the_domain(domain):
    learner = make(domain=domain, horizon=200)
    X, y = stream(200)
    for theta in learner.run(X, y).decisions:
        assert domain.contains(theta)


# -- copies, threads, forks -----------------------------------------------------------------------


def test_clone_is_fresh():
    learner = make()
    X, y = stream(20)
    first = learner.run(X, y)
    twin = learner.clone()
    assert twin.round == 0
    assert twin.get_params() == learner.get_params()
    assert not np.array_equal(twin.run(X, y).decisions, first.decisions)  # its own noise


def test_started_learners_are_not_copied_silently():
    learner = make()
    X, y = stream(20)
    fresh = copy.deepcopy(learner)
    assert not np.array_equal(fresh.run(X, y).decisions, make().run(X, y).decisions)
    learner.run(X[:5], y[:5])
    for attempt in (copy.copy, copy.deepcopy):
        with pytest.raises(dpoco.StateError, match="clone"):
            attempt(learner)
    thawed = pickle.loads(pickle.dumps(learner))
    for use in (thawed.decide, lambda: thawed.run(X[5:], y[5:]), lambda: thawed.last_decision):
        with pytest.raises(dpoco.StateError, match="resume"):
            use()
    thawed.resume()
    assert np.array_equal(thawed.run(X[5:], y[5:]).decisions, learner.run(X[5:], y[5:]).decisions)


def test_unstarted_pickles_get_noise_of_their_own():
    X, y = stream(20)
    frozen = pickle.dumps(TreeFrankWolfe(LpBall(3), SquaredLoss(), horizon=20, budget=BUDGET))
    a, b = pickle.loads(frozen), pickle.loads(frozen)
    assert not np.array_equal(a.run(X, y).decisions, b.run(X, y).decisions)
    seeded = pickle.dumps(make())
    want = make().run(X, y).decisions
    assert np.array_equal(pickle.loads(seeded).run(X, y).decisions, want)


def test_get_params_are_the_arguments_as_given():
    source = Source.seeded(0)
    domain, loss = LpBall(3), SquaredLoss()
    learner = TreeFrankWolfe(domain, loss, horizon=7, budget=BUDGET, batch=2, source=source)
    params = learner.get_params()
    assert params["domain"] is domain
    assert params["source"] is source
    assert params["sum_method"] is None
    assert params["batch"] == 2
    again = TreeFrankWolfe(**params)
    assert again.parameters == learner.parameters


def test_repr_shows_parameters_and_guarantee_and_no_data():
    learner = make()
    before = repr(learner)
    learner.run(*stream(20))
    assert repr(learner) == before
    assert "epsilon=1" in before
    assert "horizon=20" in before


def test_two_threads_never_interleave():
    T = 200_000
    X, y = stream(T, seed=2)
    learner = make(horizon=2 * T)
    outcomes: list[object] = []
    barrier = threading.Barrier(2)

    def play():
        barrier.wait()
        try:
            learner._engine.run(X, y, np.empty(T), None, np.empty(T, np.uint8))
            outcomes.append("played")
        except dpoco.RoundOrderError:
            outcomes.append("refused")

    threads = [threading.Thread(target=play) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    played = outcomes.count("played")
    assert played >= 1
    assert learner.round == played * T  # whole runs only
    assert np.all(np.isfinite(learner.last_decision))


def test_independent_learners_run_in_parallel_threads():
    X, y = stream(20_000)
    want = make(horizon=20_000).run(X, y).decisions
    results: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: results.append(make(horizon=20_000).run(X, y).decisions))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(each, want) for each in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_refuses_until_resumed():
    learner = make()
    X, y = stream(20)
    learner.run(X[:3], y[:3])
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child
        answers = []
        for use in (
            lambda: learner.run(X[3:4], y[3:4]),
            lambda: (learner.decide(), learner.observe(X[3], y[3])),
        ):
            try:
                use()
                answers.append("went on")
            except dpoco.StateError:
                answers.append("refused")
        learner.resume()
        learner.run(X[3:], y[3:])
        answers.append(learner.last_decision.tobytes().hex())
        os.write(write, " ".join(answers).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        first, second, final = pipe.read().split(" ")
    os.waitpid(pid, 0)
    assert (first, second) == ("refused", "refused")
    learner.run(X[3:], y[3:])
    assert final == learner.last_decision.tobytes().hex()


def test_interrupt_between_rounds_leaves_a_consistent_learner():
    T = 300_000
    X, y = stream(1000)
    X, y = np.tile(X, (T // 1000, 1)), np.tile(y, T // 1000)
    learner = make(horizon=T)
    sent = []

    def send(done, total):
        if done > 100_000 and not sent:
            sent.append(done)
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does

    with pytest.raises(KeyboardInterrupt):
        learner.run(X, y, record_decisions=False, progress=send)
    done = learner.round
    assert sent[0] <= done < sent[0] + 20_000  # answered at once
    twin = make(horizon=T)
    twin.run(X[:done], y[:done], record_decisions=False)
    assert np.array_equal(learner.decide(), twin.decide())
    assert learner._engine.state() == twin._engine.state()
    learner.run(X[done:], y[done:], record_decisions=False)
    assert learner.round == T


def test_progress_is_reported():
    seen = []
    make(horizon=20_000).run(
        *stream(20_000), progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (20_000, 20_000)
    assert len(seen) >= 2
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_trace_frame_and_repr():
    pytest.importorskip("pandas")
    learner = make()
    learner.run(*stream(5))
    trace = learner.run(*stream(5))
    frame = trace.to_frame()
    assert list(frame["round"]) == [6, 7, 8, 9, 10]
    assert "not private" in repr(trace)
    assert frame["changed"].sum() == trace.switches.size


def test_two_threads_observing_one_decision_end_one_round():
    learner = make(horizon=2000)
    refused = []

    def feed():
        for _ in range(500):
            learner.decide()
            try:
                learner.observe(X1, 0.5)
            except dpoco.RoundOrderError:
                refused.append(1)

    threads = [threading.Thread(target=feed) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.round == 2000 - len(refused)


def test_parameters_may_not_exceed_the_budget_beside_them():
    strict, loose = dpoco.Budget(0.1, 1e-6), dpoco.Budget(5.0, 1e-6)
    generous = make(budget=loose).parameters
    with pytest.raises(dpoco.BudgetExceeded, match="over the budget"):
        make(budget=strict, parameters=generous)
    silent = make(budget=None).parameters
    with pytest.raises(dpoco.BudgetExceeded):
        make(budget=strict, parameters=silent)
    kept = make(budget=loose, parameters=make(budget=strict).parameters)
    assert kept.guarantee.epsilon < 1.0
    assert make(budget=None, parameters=generous).guarantee.private  # the guarantee says what is


@pytest.mark.parametrize(
    "restated",
    [
        {"horizon": 30},
        {"calibration": "paper"},
        {"noise": "generalized_gaussian"},
        {"sum_method": "tree"},
        {"weights": "paper"},
        {"step_scale": 2.0},
        {"batch": 7},
        {"relation": "zero_out"},
    ],
)
def test_arguments_beside_parameters_must_agree(restated):
    parameters = make().parameters
    with pytest.raises(ValueError, match="contradicts"):
        make(parameters=parameters, **restated)
    same = {name: getattr(parameters, name) for name in restated}
    assert make(parameters=parameters, **same).parameters == parameters


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
    with pytest.raises(TypeError, match="masked"):
        make().run(np.ma.masked_array(np.zeros((2, 3)), mask=True), np.zeros(2))


def test_a_long_run_keeps_other_threads_out_between_its_chunks():
    learner = make(horizon=400_000)
    X, y = stream(400_000)
    refused = []

    def meddle(done, total):
        def other():
            try:
                learner.decide()
                learner.observe(X1, 0.5)
            except (dpoco.RoundOrderError, dpoco.HorizonExceeded):
                refused.append(1)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    trace = learner.run(X, y, progress=meddle)
    assert len(trace) == learner.round == 400_000
    assert len(refused) > 10


@pytest.mark.parametrize(
    "domain", [Simplex(1), Box([0.5, 0.5], [0.5, 0.5]), Box([0.0, 0.3], [1.0, 0.3])]
)
def test_degenerate_domains(domain):
    learner = make(domain=domain)
    learner.run(*stream(20, d=domain.dimension))
    assert domain.contains(learner.last_decision)


@pytest.mark.parametrize("breaker", [KeyboardInterrupt, ValueError, SystemExit])
def test_a_broken_run_leaves_the_learner_usable(breaker):
    X, y = stream(100_000)
    learner = make(horizon=100_000)

    def stop(done, total):
        if done > 20_000:
            raise breaker

    with pytest.raises(breaker):
        learner.run(X, y, progress=stop)
    done = learner.round
    assert 20_000 < done < 100_000
    learner.decide()
    learner.observe(X[done], y[done])
    learner.run(X[done + 1 :], y[done + 1 :])
    whole = make(horizon=100_000)
    whole.run(X, y)
    assert np.array_equal(learner.last_decision, whole.last_decision)
