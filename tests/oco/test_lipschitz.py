"""The learner of Lipschitz losses: order of calls, input, copies, state, nets."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.oco.test_lipschitz_accountant import sensitivity
from tests.published import built

import dpoco
from dpoco.domains import Box, LpBall, Polytope, Simplex
from dpoco.learning import learner as _learner
from dpoco.learning.state import pack, unpack
from dpoco.oco import LipschitzLearner
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
    "sum_method": (LINE, {"resolution": 4, "sum_method": "tree"}),
    "open": (SQUARE, {"resolution": 4, "enforce": False}),
    "free": (LINE, {"resolution": 9, "budget": None}),
    "point": (Box([1.0, 2.0], [1.0, 2.0]), {}),
}


def make(case="line", horizon=20, *, seed=1, **options):
    domain, own = CASES[case]
    domain = options.pop("domain", domain)
    arguments = {"lipschitz": 1.0, "budget": BUDGET, "source": Source.seeded(seed)}
    return built(LipschitzLearner, domain, horizon=horizon, **{**arguments, **own, **options})


def wave(t):
    return lambda x: np.sin(3.0 * x.sum(axis=1) + t) / 5.0


def table(learner, rounds, start=0):
    return np.array([wave(t)(learner.points) for t in range(start, start + rounds)])


@pytest.mark.parametrize(
    ("loss", "error"),
    [
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
    with pytest.raises(error):
        learner.run([loss])
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


@pytest.mark.parametrize("case", ["line", "square"])
def test_common_shifts_change_nothing(case):
    """Differences of these losses are exact, with and without the shift."""
    plain, shifted = make(case), make(case)
    rows = np.round(table(plain, 20) * 512.0) / 512.0
    first = plain.run(rows)
    second = shifted.run(rows + np.arange(20.0)[:, None])
    assert np.array_equal(first.decisions, second.decisions)
    assert np.array_equal(plain.weights, shifted.weights)


def test_single_losses_are_played_like_a_table(monkeypatch):
    monkeypatch.setattr(_learner, "_CHUNK_ROUNDS", 4)
    whole, mixed = make(), make()
    rows = table(whole, 20)
    trace, apart = whole.run(list(rows)), mixed.run([*rows[:9], *map(wave, range(9, 20))])
    assert np.array_equal(trace.decisions, apart.decisions)
    assert np.array_equal(trace.losses, apart.losses)
    assert np.allclose(trace.regret([0.5]), apart.regret([0.5]))
    assert not any(each.flags.writeable for each in (trace.losses, trace.decisions))
    assert len(make().run([])) == 0
    with pytest.raises((TypeError, ValueError), match="losses must"):
        make().run(3.0)
    # The first differs too much at one place only.
    steep = [np.eye(9)[8], *rows[1:9], lambda x: 5.0 * x[:, 0], *rows[10:12]]
    assert make().run(steep).nonprivate_records.shares["clipped"] == 2 / 12
    for given, at, played in ((steep[1:], 11, 11), (steep, 3, 3), (np.diag(np.ones(9))[8:], 3, 3)):
        learner = make(on_violation="raise")
        learner.run(rows[:3])
        with pytest.raises(ValueError, match=f"losses of round {at} are"):
            learner.run(given)
        assert learner.round == played


def test_states_of_other_nets_are_refused():
    learner = make("square")
    learner.run(table(learner, 5))
    header, payload = unpack(learner._to_bytes())
    own = LipschitzLearner._from_bytes(pack(header, payload)).get_params()
    assert own["resolution"] == (5, 6)
    for name, value in (("counts", [5, 5]), ("counts", [50_000, 50_000]), ("pushes", 2)):
        lie = copy.deepcopy(header)
        total = lie["object"]["plan"]["mechanism"]
        (total if name == "pushes" else total["summand"])[name] = value
        with pytest.raises(dpoco.StateError):
            LipschitzLearner._from_bytes(pack(lie, payload))


def test_domains_and_their_nets():
    disc = make("disc")
    assert disc.net.shape == disc.points.shape == (49, 2)
    assert np.array_equal(disc.net[[0, -1]], [[-1.0, -1.0], [1.0, 1.0]])
    assert all(DISC.contains(point) for point in disc.points)
    assert np.array_equal(disc.points[0], DISC.project([-1.0, -1.0]))
    segment = make("simplex")
    assert np.allclose(segment.points.sum(axis=1), 2.0)
    assert segment.guarantee.sensitivity == pytest.approx(
        sensitivity("increments", dpoco.accounting.nets.net_shape(Simplex(2, 2.0)), (6,), 1.0)
    )
    flat = LipschitzLearner(
        Box([0.0, 3.0], [1.0, 3.0]), lipschitz=1.0, horizon=10, budget=BUDGET, resolution=5
    )
    assert np.array_equal(flat.points, [[x, 3.0] for x in (0.0, 0.25, 0.5, 0.75, 1.0)])
    assert make("simplex", resolution=None, domain=Simplex(1)).points.tolist() == [[1.0]]
    triangle = Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0])
    learner = LipschitzLearner(
        triangle, lipschitz=1.0, horizon=10, budget=BUDGET, resolution=(4, 5)
    )
    assert all(triangle.contains(point) for point in learner.points)
    point = make("point")
    assert np.array_equal(point.decide(), [1.0, 2.0])
    assert point.guarantee.epsilon == 0.0
    assert point.run(np.full((3, 1), -7.0)).losses.tolist() == [-7.0] * 3
