"""Forged state files of the bandits, with correct checksums: nothing impossible is accepted."""

from __future__ import annotations

import numpy as np
import pytest
from tests.forged import Forged

import dpoco
from dpoco.accounting import high_dimensional_bandit as accountant
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import Box, LpBall
from dpoco.learning import state as _state
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, K, D = 30, 3, 2
RNG = np.random.default_rng(0)
X, R = RNG.uniform(-1.1, 1.1, size=(T, D)), RNG.normal(size=(T, K)) * 0.8
HIGH_DIMENSIONAL = [
    {"arm_learner": "polyhedral", "batch": 3, "forced_rounds": 4, "gap": 0.2},
    {"arm_learner": "tree", "forced_rounds": 3},
    {"arm_learner": "tree", "sum_method": "tree", "batch": 2, "forced_rounds": 0, "gap": 0.1},
    {"arm_learner": "polyhedral", "selector": "laplace", "forced_rounds": 12},
    {"budget": None, "link": "logistic", "forced_rounds": 2},
    {"arm_learner": "polyhedral", "forced_rounds": 7, "budget": dpoco.Budget(2.0, 1e-5)},
    {"arm_learner": "polyhedral", "forced_rounds": 5, "batch": 20},  # all the clock can count
]


def forged(kind, configuration, rounds=21):
    bounds = {"context_bound": 1.0, "reward_bound": 1.0}
    options = {"budget": dpoco.Budget(1.0, 1e-5), **bounds, **configuration}
    problem = (K, D) if kind is LinUCB else (K, LpBall(D, 1.0))
    learner = kind(*problem, horizon=T, source=Source.seeded(1), **options)
    learner.run(X[:rounds], R[:rounds])
    return Forged(learner)


def streams(payload):
    """Where the arms' generators have their stream numbers: three like pieces, after a key."""
    words = np.frombuffer(payload, dtype="<u8")
    # Round, violations, length and entries of the frozen estimates, then K pieces.
    piece = (len(words) - 3 - K * D) // K
    pieces = words[3 + K * D :].reshape(K, piece)
    (at,) = np.flatnonzero((pieces == np.arange(K)[:, None]).all(axis=0))
    return [8 * (3 + K * D + i * piece + int(at)) for i in range(K)], 8 * piece


@pytest.mark.parametrize("configuration", HIGH_DIMENSIONAL)
def test_arms_with_the_noise_of_others_are_refused(configuration):
    state = forged(HighDimensionalBandit, configuration)
    payload = state.payload
    places, piece = streams(payload)
    twins = [(places[i], other) for i in range(K) for other in range(K) if other != i]
    state.words_refused(*twins)  # two arms with one generator
    # The arms' learners exchanged: each with a clock that fits, but another's noise.
    start = 8 * (3 + K * D)
    swapped = payload[:start] + payload[start + piece : start + 2 * piece]
    swapped += payload[start : start + piece] + payload[start + 2 * piece :]
    state.refused(payload=swapped)


@pytest.mark.parametrize("dimension", [3, 2000])  # bounds are a list, or encoded
def test_a_box_is_not_built_for_arms_the_file_does_not_hold(dimension, monkeypatch):
    box = Box([-1.0] * dimension, [1.0] * dimension)
    learner = HighDimensionalBandit(2, box, horizon=50, budget=dpoco.Budget(1.0, 1e-5),
                                    forced_rounds=0, batch=2, context_bound=1.0,
                                        reward_bound=1.0)  # fmt: skip
    header, payload = _state.unpack(learner._to_bytes())
    assert HighDimensionalBandit._header_dimension(header["object"]) == 2 * dimension
    assert HighDimensionalBandit._from_bytes(_state.pack(header, payload)).arms == 2
    many = 4 * len(payload) // (8 * dimension)
    parameters = accountant.calibrate(many, box, horizon=50, budget=dpoco.Budget(1.0, 1e-5),
                                      forced_rounds=0, batch=2)  # fmt: skip
    header["object"]["arguments"]["arms"] = many
    header["object"]["plan"] = parameters.to_dict()
    # Nothing of the size the header claims may be built before the file is found to be short.
    monkeypatch.setattr(HighDimensionalBandit, "_set_up", None)
    with pytest.raises(dpoco.StateError, match="differ in size"):
        HighDimensionalBandit._from_bytes(_state.pack(header, payload))
