"""State files of the noisy leader: exact resume at any round, and nothing else is accepted."""

from __future__ import annotations

import numpy as np
import pytest
from tests.forged import Forged

import dpoco
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
    {"domain": Simplex(D), "loss": HuberLoss(1.0, 1.0), "sum_method": "tree"},
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


def forged(index):
    learner = make(CONFIGURATIONS[index])
    learner.run(X[:20], None if isinstance(learner.loss, LinearLoss) else Y[:20])
    return Forged(learner)


@pytest.mark.parametrize("index", [0, 4])
def test_descriptions_must_fit_their_parameters(index):
    state = forged(index)
    scale = state.header["object"]["plan"]["mechanism"]["scale"]
    lies = [
        ("kind", "TreeFrankWolfe"),
        ("kind", "Unknown"),
        ("object", {}),
        ("object.plan", None),
        ("object.plan.tuning.horizon", 8),
        ("object.plan.mechanism.scale", 1000 * scale),
        ("object.plan.mechanism.scale", "nan"),
        ("object.plan.mechanism.factorisation", {"kind": "tree"}),
        ("object.plan.tuning.step_size", -1.0),
        ("object.plan.tuning.step_size", 0.5 if index else None),  # as of before growing batches
        ("object.plan.mechanism.batch", 2),
        ("object.plan.forecast.regret_bound", -3.0),
        ("object.arguments.horizon", 5),
        ("object.arguments.batch", 3),
        ("object.arguments.foo", 1),
        ("object.arguments.domain", {"type": "LpBall", "dimension": 5, "p": 1.5, "radius": 2.0}),
        ("object.arguments.domain", {"type": "LpBall", "dimension": 10**9, "p": 2, "radius": 2.0}),
        ("object.arguments.loss", {"type": "SquaredLoss"}),
        ("object.arguments.budget", {"epsilon": -1}),
    ]
    state.settings_refused(lies)


@pytest.mark.parametrize("index", range(len(CONFIGURATIONS)))
def test_payloads_that_would_reuse_noise_or_leave_the_domain_are_refused(index):
    state = forged(index)
    # Past the horizon, out of step with the sum.
    state.words_refused(*((0, round_) for round_ in (41, 24, 10, 2**63)))
    nan, leaf = float("nan"), 16 + 8 * D + 8
    state.words_refused((16, nan), (16, float("inf")), (16, 50.0))  # the decision
    state.words_refused((leaf, nan))
    if CONFIGURATIONS[index].get("budget", 0) is not None:
        state.words_refused(*((-48 + 2 * 8, position) for position in (0, 1, 10**6)))


@pytest.mark.parametrize("dimension", [3, 2000])  # bounds are a list, or encoded
def test_the_size_of_statistics_over_a_box_is_known_before_they_are_built(dimension):
    box = Box([-1.0] * dimension, [1.0] * dimension)
    learner = make({"domain": box, "loss": SquaredLoss(1.0, 1.0)})
    described = Forged(learner).header["object"]
    assert NoisyFTRL._header_dimension(described) == dimension
    described["plan"]["mechanism"]["summand"]["kind"] = "second_moments"  # a lie: d (d + 3)/2 sums
    assert NoisyFTRL._header_dimension(described) == dimension * (dimension + 3) // 2
