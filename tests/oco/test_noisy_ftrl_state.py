"""State files of the noisy leader: exact resume at any round, and nothing else is accepted."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

import dpoco
from dpoco import _state
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, D = 40, 4
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(T, D)), RNG.normal(size=T)
CONFIGURATIONS = [
    {"domain": LpBall(D, 1.5, 2.0), "loss": SquaredLoss(1.0, 1.0)},
    {"domain": LpBall(D, 2.0), "loss": LogisticLoss(1.0), "sum_method": "tree"},
    {"domain": Simplex(D), "loss": HuberLoss(1.0, 1.0), "sum_method": "honaker"},
    {"domain": Box([-1.0] * D, [1.0] * D), "loss": LinearLoss(1.0), "sum_method": "toeplitz"},
    {"domain": LpBall(D, 2.0), "loss": SquaredLoss(1.0, 1.0), "statistics": "quadratic"},
    {"domain": LpBall(D, 1.0), "loss": SquaredLoss(1.0, 1.0), "statistics": "quadratic",
     "batch": 3},
    {"domain": LpBall(D, 1.5), "loss": LinearLoss(1.0), "budget": None, "step_size": 0.1,
     "batch": 2},
]  # fmt: skip


def make(configuration, seed=1):
    options = {"horizon": T, "budget": dpoco.Budget(1.0, 1e-4), **configuration}
    return NoisyFTRL(source=Source.seeded(seed), **options)


def play(learner, start, stop):
    if isinstance(learner.loss, LinearLoss):
        return learner.run(X[start:stop]).decisions
    return learner.run(X[start:stop], Y[start:stop]).decisions


def saved(index, rounds=20):
    learner = make(CONFIGURATIONS[index])
    play(learner, 0, rounds)
    return _state.unpack(learner._to_bytes())


def refused(data):
    with pytest.raises(dpoco.StateError):
        NoisyFTRL._from_bytes(data)


def changed(header, key, value):
    header = json.loads(json.dumps(header))
    target = header
    *path, last = key.split(".")
    for part in path:
        target = target[part]
    target[last] = value
    return header


def with_words(payload, changes):
    words = bytearray(payload)
    for at, value in changes.items():
        struct.pack_into("<Q" if isinstance(value, int) else "<d", words, at % len(words), value)
    return bytes(words)


@pytest.mark.parametrize("index", [0, 4])
def test_descriptions_must_fit_their_parameters(index):
    header, payload = saved(index)
    scale = header["object"]["parameters"]["noise_scale"]
    for key, value in [
        ("kind", "TreeFrankWolfe"),
        ("kind", "Unknown"),
        ("object", {}),
        ("object.parameters", None),
        ("object.parameters.horizon", 8),
        ("object.parameters.noise_scale", 1000 * scale),
        ("object.parameters.noise_scale", "nan"),
        ("object.parameters.sum_method", "tree"),
        ("object.parameters.statistics", "gradient" if index else "quadratic"),
        ("object.parameters.vector_scale", None if index else 1.0),
        ("object.parameters.step_size", -1.0),
        ("object.parameters.step_size", 0.5 if index else None),  # as of before growing batches
        ("object.parameters.batch", 2),
        ("object.parameters.regret_terms", 3),
        ("object.arguments.horizon", 5),
        ("object.arguments.batch", 3),
        ("object.arguments.foo", 1),
        ("object.arguments.domain", {"type": "LpBall", "dimension": 5, "p": 1.5, "radius": 2.0}),
        ("object.arguments.domain", {"type": "LpBall", "dimension": 10**9, "p": 2, "radius": 2.0}),
        ("object.arguments.loss", {"type": "SquaredLoss"}),
        ("object.arguments.budget", {"epsilon": -1}),
    ]:
        refused(_state.pack(changed(header, key, value), payload))


@pytest.mark.parametrize("index", range(len(CONFIGURATIONS)))
def test_payloads_that_would_reuse_noise_or_leave_the_domain_are_refused(index):
    header, payload = saved(index)
    NoisyFTRL._from_bytes(_state.pack(header, payload))
    for round_ in (41, 24, 10, 2**63):  # past the horizon, out of step with the sum
        refused(_state.pack(header, with_words(payload, {0: round_})))
    for value in (float("nan"), float("inf"), 50.0):
        refused(_state.pack(header, with_words(payload, {16: value})))  # the decision
    leaf = 16 + 8 * D + 8
    refused(_state.pack(header, with_words(payload, {leaf: float("nan")})))
    if CONFIGURATIONS[index].get("budget", 0) is not None:
        for position in (0, 1, 10**6):
            refused(_state.pack(header, with_words(payload, {-48 + 2 * 8: position})))


@pytest.mark.parametrize("dimension", [3, 2000])  # bounds are a list, or encoded
def test_the_size_of_statistics_over_a_box_is_known_before_they_are_built(dimension):
    box = Box([-1.0] * dimension, [1.0] * dimension)
    learner = make({"domain": box, "loss": SquaredLoss(1.0, 1.0)})
    header, _ = _state.unpack(learner._to_bytes())
    assert NoisyFTRL._header_dimension(header["object"]) == dimension
    header["object"]["parameters"]["statistics"] = "quadratic"  # d (d + 3)/2 sums: a lie
    assert NoisyFTRL._header_dimension(header["object"]) == dimension * (dimension + 3) // 2
