"""State of the compiled engine: exact resume after every round, and nothing impossible is read."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from tests.oco.comw_reference import anchored, ball, engine, glm, interval, linear, quadratic
from tests.probes import probes

import dpoco
from dpoco import _core
from dpoco.errors import StateError
from dpoco.learning import state as _state

T, D = 36, 3
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(T, D)), RNG.uniform(-1, 1, size=T)
MATRICES = np.einsum("ti,tj->tij", X, X)

WARM = {"inverse_temperature": 0.2, "regularization": 4.0, "forced_switch": 0.2}
CONFIGURATIONS = {
    "dartboard": (ball(D), linear(D), {**WARM, "factor_range": 2.0, "block": 2}),
    "dartboard glm": (interval(1.0, D), glm("logistic", D), {**WARM, "factor_range": 4.0}),
    "ratio box": (
        interval(1.0, D), linear(D),
        {**WARM, "coupling": "density_ratio", "clip_high": 0.1, "clip_low": 0.1, "block": 3},
    ),
    "ratio ball": (
        ball(D), linear(D),
        {**WARM, "coupling": "density_ratio", "clip_high": 0.1, "clip_low": 0.1},
    ),
    "ratio squared": (
        interval(1.0, D), glm("squared", D, unbounded=True),
        {**WARM, "coupling": "density_ratio", "clip_high": 0.1, "clip_low": 0.1},
    ),
    "ratio matrix": (
        interval(1.0, D), quadratic(D),
        {**WARM, "coupling": "density_ratio", "clip_high": 0.1, "clip_low": 0.1},
    ),
    "anchored": (ball(D), linear(D), anchored(T, forced_switch=0.3)),
    "anchored glm": (_core.Simplex(D, 1.0), glm("huber", D), anchored(T, forced_switch=0.3)),
    "scheduled": (
        _core.LpBall(D, 1.5, 1.0), linear(D),
        {**WARM, "coupling": "scheduled", "forced_switch": 1.0, "block": 4, "max_switches": 4},
    ),
    "maximal": (
        interval(1.0, D), linear(D),
        {**WARM, "coupling": "maximal", "forced_switch": 0.0, "inverse_temperature": 2.0},
    ),
}  # fmt: skip


def make(name, **changes):
    domain, losses, own = CONFIGURATIONS[name]
    return engine(domain, losses, **{"rounds": T, **own, **changes})


def step(learner, name, t):
    kind = CONFIGURATIONS[name][1]["kind"]
    if kind == "linear":
        learner.observe_gradient(t, X[t])
    elif kind == "glm":
        learner.observe(t, X[t], Y[t])
    else:
        learner.observe_quadratic(t, MATRICES[t], X[t])


@pytest.mark.parametrize("name", list(CONFIGURATIONS))
def test_resume_is_exact_after_every_round(name):
    whole, resumed = make(name), make(name)
    for t in range(T):
        state = resumed.state()
        # The key comes with the state.
        resumed = make(name, key=bytes(32), stream=9)
        resumed.restore(state)
        assert resumed.state() == state
        assert resumed.round == whole.round == t
        assert resumed.switches == whole.switches
        assert np.array_equal(resumed.decision(), whole.decision())
        step(whole, name, t)
        step(resumed, name, t)
        assert resumed.nonprivate_log_factor() == whole.nonprivate_log_factor()
        assert probes.log_change(resumed) == probes.log_change(whole)
    assert resumed.state() == whole.state()
    assert whole.switches > 2


@pytest.mark.parametrize(
    "changes",
    [{"inverse_temperature": 0.3}, {"regularization": 5.0}, {"coupling": "scheduled",
     "forced_switch": 1.0}, {"rounds": 8}, {"max_switches": 0}, {"block": 7}],
)  # fmt: skip
def test_states_of_other_settings_are_refused(changes):
    learner = make("dartboard", rounds=T)
    for t in range(20):
        step(learner, "dartboard", t)
    assert learner.switches > 0
    with pytest.raises(StateError):
        make("dartboard", **changes).restore(learner.state())


def words(state):
    return list(struct.unpack(f"<{len(state) // 8}Q", state))


def packed(values):
    return struct.pack(f"<{len(values)}Q", *values)


# Words: coupling, beta, lam; round, switches, uniforms, log stay; round of the draw; n, then u.
ROUND, SWITCHES, LOG_STAY, DRAWN, POINT = 3, 4, 6, 7, 9


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (ROUND, T + 1), (ROUND, 2**63), (SWITCHES, 2**40), (SWITCHES, 0), (LOG_STAY, bits(0.5)),
        (LOG_STAY, bits(np.nan)), (DRAWN, 3), (DRAWN, T), (DRAWN, 0), (POINT, bits(np.nan)),
        (POINT, bits(np.inf)), (POINT, bits(1.5)), (POINT - 1, D + 1),
    ],
)  # fmt: skip
def test_impossible_states_are_refused(word, value):
    learner = make("dartboard")
    for t in range(13):
        step(learner, "dartboard", t)
    state = words(learner.state())
    assert (state[ROUND], state[SWITCHES]) == (13, learner.switches)
    assert state[POINT : POINT + D] == [bits(x) for x in learner.nonprivate_point()]
    state[word] = value
    with pytest.raises(StateError):
        make("dartboard").restore(packed(state))


def test_a_generator_behind_its_round_is_refused():
    """Each draw has used as many variates as coordinates, at least."""
    domain = dpoco.domains.Box([-1.0, -1.0], [1.0, 1.0])
    learner = dpoco.oco.ContinuousMultiplicativeWeights(
        domain,
        dpoco.losses.LinearLoss(1.0),
        horizon=1000,
        budget=dpoco.Budget(4.0, 1e-5),
        source=dpoco.random.Source.seeded(1),
    )
    learner.run(np.full((500, 2), 0.3))
    state = learner._engine.state()
    positions = learner._engine.variates_drawn()
    header, _ = _state.unpack(learner._to_bytes())
    accepted = 0
    for kind, position in enumerate(positions):
        if position < 10:
            continue
        # The positions are the last words of the state.
        at = len(state) - 8 * (len(positions) - kind)
        assert int.from_bytes(state[at : at + 8], "little") == position
        rewound = state[:at] + (2).to_bytes(8, "little") + state[at + 8 :]
        with pytest.raises(dpoco.StateError, match="another round"):
            type(learner)._from_bytes(_state.pack(header, rewound))
        accepted += 1
    assert accepted >= 1
    assert type(learner)._from_bytes(_state.pack(header, state)).round == 500
