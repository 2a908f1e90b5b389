"""The learner of Lipschitz losses: order of calls, input, copies, state, nets."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import dpoco
from dpoco.accounting.lipschitz import calibrate
from dpoco.domains import Box, LpBall, Polytope, Simplex
from dpoco.oco import LipschitzLearner, LipschitzParameters
from dpoco.privacy.mechanisms.bounds import NetDifferences
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
LINE = Box([0.0], [1.0])
SQUARE = Box([0.0, -1.0], [2.0, 1.0])
DISC = LpBall(2, 2.0, 1.0)
CASES = {
    "line": (LINE, {"resolution": 9}),
    "square": (SQUARE, {"resolution": (5, 6)}),
    "disc": (DISC, {"resolution": 7}),
    "parent": (DISC, {"resolution": 5, "transform": "parent"}),
    "paper": (LINE, {"calibration": "paper", "resolution": 9}),
    "simplex": (Simplex(2, 2.0), {"resolution": 6}),
    "honaker": (LINE, {"resolution": 4, "sum_method": "honaker"}),
    "open": (SQUARE, {"resolution": 4, "enforce": False}),
    "free": (LINE, {"resolution": 9, "budget": None}),
    "point": (Box([1.0, 2.0], [1.0, 2.0]), {}),
}


def sensitivity(name, shape, counts, lipschitz):
    return NetDifferences(shape.sides, counts, name, lipschitz).movement(Neighbours())


def make(case="line", horizon=20, *, seed=1, **options):
    domain, own = CASES[case]
    arguments = {"lipschitz": 1.0, "budget": BUDGET, "source": Source.seeded(seed)}
    return LipschitzLearner(domain, horizon=horizon, **{**arguments, **own, **options})


def wave(t):
    return lambda x: np.sin(3.0 * x.sum(axis=1) + t) / 5.0


def table(learner, rounds, start=0):
    return np.array([wave(t)(learner.points) for t in range(start, start + rounds)])


@pytest.mark.parametrize("case", CASES)
def test_run_equals_round_by_round(case):
    whole = make(case)
    rows = table(whole, 20)
    rows[3, 0] = np.nan
    trace = whole.run(rows)
    single, functions = make(case), make(case)
    given = [wave(t) for t in range(20)]
    given[3] = rows[3]
    mixed = functions.run(loss for loss in given)
    assert np.array_equal(mixed.decisions, trace.decisions)
    assert np.array_equal(mixed.losses, trace.losses)
    for t in range(20):
        decision = single.decide()
        assert np.array_equal(decision, trace.decisions[t])
        single.observe(given[t])
        own = np.flatnonzero(np.all(single.points == decision, axis=1))[0]
        assert trace.losses[t] == (rows[t, own] if np.isfinite(rows[t, own]) else 0.0)
    assert single._engine.state() == whole._engine.state() == functions._engine.state()
    assert np.array_equal(single.weights, whole.weights)
    pieces = make(case)
    parts = [pieces.run(rows[a:b]).decisions for a, b in ((0, 1), (1, 8), (8, 8), (8, 20))]
    assert np.array_equal(np.concatenate(parts), trace.decisions)
    assert np.array_equal(
        trace.switches, np.flatnonzero(np.any(np.diff(trace.decisions, axis=0) != 0.0, axis=1))
    )


@pytest.mark.parametrize(
    ("loss", "error"),
    [
        (np.zeros(8), ValueError),
        (np.zeros((9, 1)), ValueError),
        (np.zeros(9, dtype=complex), TypeError),
        ("losses", TypeError),
        (lambda x: x, ValueError),
        (lambda x: 0.123456789, ValueError),
        (lambda x: ["0.123456789"] * 9, TypeError),
    ],
)
def test_bad_losses_change_nothing(loss, error):
    learner = make()
    learner.decide()
    state = learner._engine.state()
    with pytest.raises(error) as caught:
        learner.observe(loss)
    assert learner._engine.state() == state
    assert "0.1234" not in str(caught.value)
    with pytest.raises((ValueError, TypeError)):
        learner.run([loss] if callable(loss) else loss)
    assert learner._engine.state() == state
    learner.observe(np.zeros(9))
    assert learner.round == 1


def test_an_error_in_a_loss_passes_through():
    def broken(x):
        raise KeyError("mine")

    learner = make()
    learner.decide()
    with pytest.raises(KeyError, match="mine"):
        learner.observe(broken)
    with pytest.raises(TypeError, match="single callable"):
        learner.run(wave(0))
    with pytest.raises(ValueError, match="read-only"):
        learner.observe(lambda x: x.__setitem__(0, 5.0))
    assert learner.round == 0


@pytest.mark.parametrize("case", ["line", "square", "parent", "simplex"])
def test_raise_refuses_what_clip_bounds(case):
    learner = make(case, on_violation="raise")
    n = len(learner.points)
    for bad in (np.full(n, np.nan), 1e3 * (np.arange(n) % 2)):
        learner.decide()
        state = learner._engine.state()
        with pytest.raises(ValueError, match="steeper"):
            learner.observe(bad)
        with pytest.raises(ValueError, match="round 1"):
            learner.run(np.stack([np.zeros(n), bad]))
        assert learner._engine.state() == state
    learner.observe(learner.points.sum(axis=1) / math.sqrt(learner.points.shape[1]))
    assert learner.round == 1


@pytest.mark.parametrize("case", ["line", "square"])
def test_common_shifts_change_nothing(case):
    """Differences of these losses are exact, with and without the shift."""
    plain, shifted = make(case), make(case)
    rows = np.round(table(plain, 20) * 512.0) / 512.0
    first = plain.run(rows)
    second = shifted.run(rows + np.arange(20.0)[:, None])
    assert np.array_equal(first.decisions, second.decisions)
    assert np.array_equal(plain.weights, shifted.weights)


def test_damaged_states_are_refused(tmp_path):
    learner = make("square")
    learner.run(table(learner, 5))
    path = tmp_path / "state"
    learner.save(path)
    data = path.read_bytes()
    for spoiled in (data[:-1], data[:200] + bytes([data[200] ^ 1]) + data[201:], b"", data * 2):
        path.write_bytes(spoiled)
        with pytest.raises(dpoco.StateError):
            dpoco.load(path)
    from dpoco._state import pack, unpack

    header, payload = unpack(data)
    for name, value in (("resolution", [5, 5]), ("resolution", [50_000, 50_000]), ("horizon", 3)):
        lie = copy.deepcopy(header)
        lie["object"]["parameters"][name] = value
        path.write_bytes(pack(lie, payload))
        with pytest.raises(dpoco.StateError):
            dpoco.load(path)


def test_domains_and_their_nets():
    disc = make("disc")
    assert disc.net.shape == disc.points.shape == (49, 2)
    assert np.array_equal(disc.net[[0, -1]], [[-1.0, -1.0], [1.0, 1.0]])
    assert all(DISC.contains(point) for point in disc.points)
    assert np.array_equal(disc.points[0], DISC.project([-1.0, -1.0]))
    segment = make("simplex")
    assert np.allclose(segment.points.sum(axis=1), 2.0)
    assert segment.guarantee.sensitivity == pytest.approx(
        sensitivity("increments", dpoco.accounting.lipschitz.shape_of(Simplex(2, 2.0)), (6,), 1.0)
    )
    flat = LipschitzLearner(
        Box([0.0, 3.0], [1.0, 3.0]), lipschitz=1.0, horizon=10, budget=BUDGET, resolution=5
    )
    assert np.array_equal(flat.points, [[x, 3.0] for x in (0.0, 0.25, 0.5, 0.75, 1.0)])
    triangle = Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0])
    learner = LipschitzLearner(
        triangle, lipschitz=1.0, horizon=10, budget=BUDGET, resolution=(4, 5)
    )
    assert all(triangle.contains(point) for point in learner.points)
    point = make("point")
    assert np.array_equal(point.decide(), [1.0, 2.0])
    assert point.guarantee.epsilon == 0.0
    assert point.run(np.full((3, 1), -7.0)).losses.tolist() == [-7.0] * 3


def test_parameters_override_calibration():
    p = calibrate(LINE, lipschitz=1.0, horizon=20, budget=BUDGET, resolution=9)
    same = LipschitzLearner(
        LINE, lipschitz=1.0, horizon=20, budget=BUDGET, parameters=p, resolution=(9,)
    )
    assert same.parameters is p
    for contradiction in ({"resolution": 8}, {"horizon": 21}, {"lipschitz": 2.0}):
        with pytest.raises(ValueError, match="contradicts"):
            LipschitzLearner(
                LINE,
                **{"lipschitz": 1.0, "horizon": 20, "budget": None, **contradiction},
                parameters=p,
            )
    weak = LipschitzParameters(**{**p.__dict__, "noise_scale": 0.5 * p.noise_scale})
    with pytest.raises(dpoco.BudgetExceeded):
        LipschitzLearner(LINE, lipschitz=1.0, horizon=20, budget=BUDGET, parameters=weak)
    with pytest.raises(TypeError):
        LipschitzLearner(LINE, lipschitz=1.0, horizon=20, budget=BUDGET, parameters=3)
    with pytest.raises(NotImplementedError):
        LipschitzLearner(LpBall(3), lipschitz=1.0, horizon=20, budget=BUDGET)


def test_seeds_and_guarantees():
    assert not make().guarantee.certified  # a seeded source
    learner = LipschitzLearner(LINE, lipschitz=1.0, horizon=20, budget=BUDGET)
    assert learner.guarantee.certified
    assert learner.guarantee.epsilon <= 1.0
    rows = table(make(), 20)
    same = [make(seed=5).run(rows).decisions for _ in range(2)]
    assert np.array_equal(*same)
    assert not np.array_equal(same[0], make(seed=6).run(rows).decisions)
    assert "0.1" not in repr(learner).split("budget")[0]
