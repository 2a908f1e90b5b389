"""Bounds that are theorems about the decision set or the loss: engines compute them themselves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.descriptions import told
from tests.probes import probes

from dpoco import Budget, _core, bandits, oco
from dpoco import frank_wolfe as fw
from dpoco.domains import Box, LpBall, Polytope, Simplex, VertexSet
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss
from dpoco.random import Source

INF = math.inf
TRIANGLE = Polytope(
    [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 2.0, 3.0]], [0.5, 0.25, 1.0, 2.0]
)
POINTS = np.array([[0.0, 0.0, 1.0], [2.0, 1.0, 0.0], [-1.0, 0.5, 0.25], [0.3, -2.0, 0.1]])
DOMAINS = {
    **{f"l{p}": LpBall(3, p, 1.5) for p in (1.0, 1.25, 1.5, 2.0, 3.0, INF)},
    "box": Box([-1.0, 0.0, -0.25], [1.0, 3.0, 0.5]),
    "simplex": Simplex(3, scale=2.0),
    "polytope": TRIANGLE,
    "points": VertexSet(POINTS),
}
CONTINUOUS = [name for name in DOMAINS if name != "points"]
LOSSES = {
    "squared": SquaredLoss(0.7, 1.3),
    "squared, l2": SquaredLoss(0.7, 1.3, feature_bound_l2=0.75),
    "logistic": LogisticLoss(0.7),
    "logistic, l2": LogisticLoss(0.7, feature_bound_l2=0.75),
    "huber": HuberLoss(0.7, 1.3, threshold=0.4),
    "linear": LinearLoss(0.7),
    "linear, l2": LinearLoss(0.7, gradient_bound_l2=0.75),
    "quadratic": QuadraticLoss(3.0, 1.0),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_sizes_are_those_of_the_other_implementation(name):
    for order in [1.0, 1.5, 2.0, 4.0, INF]:
        domain = DOMAINS[name]
        ours, theirs = domain._engine, domain
        close = 1e-8 if name in ("polytope", "points") else 1e-12  # theirs is rounded outwards
        assert probes.diameter(ours, order) == pytest.approx(theirs.diameter(order), rel=close)
        assert probes.max_norm(ours, order) == pytest.approx(theirs.max_norm(order), rel=close)
        assert probes.diameter(ours, order) <= theirs.diameter(order) * (1.0 + 1e-12)
        assert probes.max_norm(ours, order) <= theirs.max_norm(order) * (1.0 + 1e-12)


@pytest.mark.parametrize("order", [1.0, 2.0, INF])
def test_a_long_list_of_vertices_has_a_diameter_that_two_of_them_have(order):
    generator = np.random.default_rng(1)
    points = generator.standard_normal((400, 4))
    gaps = np.abs(points[:, None] - points[None])
    each = gaps.max(axis=2) if order == INF else (gaps**order).sum(axis=2) ** (1.0 / order)
    found = probes.diameter(VertexSet(points)._engine, order)
    assert np.isclose(each, found, rtol=1e-12).any()
    assert 0.99 * each.max() <= found <= each.max() * (1.0 + 1e-12)


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "learner", [oco.CoupledRegularizedLeader, oco.ContinuousMultiplicativeWeights]
)
def test_a_lipschitz_constant_one_percent_too_small_is_refused(learner, loss, name, monkeypatch):
    engine = learner.__name__
    curved = LOSSES[loss].glm or loss == "quadratic"
    if learner is oco.CoupledRegularizedLeader and curved and name in ("l1.0", "l1.25", "l1.5"):
        pytest.skip("this learner has no barrier of l_p balls with p < 2")

    def make() -> Any:
        return learner(
            DOMAINS[name], LOSSES[loss], horizon=50, budget=None, source=Source.seeded(1)
        )

    domain, losses, drawn, *rest = told(monkeypatch, engine, make)

    def build(**factors: float) -> None:
        changed = {name: getattr(drawn.losses, name) * factor for name, factor in factors.items()}
        stated = replace(drawn, losses=replace(drawn.losses, **changed))
        getattr(_core, engine)(domain, losses, stated, *rest)

    build()
    build(lipschitz=1.0 - 5e-13)
    with pytest.raises(ValueError, match="lipschitz is stated smaller than it is"):
        build(lipschitz=0.99)
    if curved:
        with pytest.raises(ValueError, match="smoothness is stated smaller than it is"):
            build(smoothness=0.99)


@pytest.mark.parametrize("name", ["l1.0", "box", "simplex", "points"])
@pytest.mark.parametrize("loss", ["squared", "squared, l2"])
def test_a_diameter_one_percent_too_small_is_refused(loss, name, monkeypatch):
    def make() -> Any:
        return fw.PolyhedralFrankWolfe(
            DOMAINS[name], LOSSES[loss], horizon=500, budget=Budget(2.0, 1e-6),
            source=Source.seeded(1),
        )  # fmt: skip

    place, glm, own, *rest = told(monkeypatch, "FrankWolfe", make)
    _core.FrankWolfe(place, glm, own, *rest)
    for field in ("diameter_l1", "diameter_l2", "diameter_max"):
        smaller = replace(own.scores, **{field: 0.99 * getattr(own.scores, field)})
        with pytest.raises(ValueError, match="diameter of the domain is stated smaller"):
            _core.FrankWolfe(place, glm, replace(own, scores=smaller), *rest)
    if name != "box":
        boxed = replace(own, scores=replace(own.scores, product=True))
        with pytest.raises(ValueError, match="not a box"):
            _core.FrankWolfe(place, glm, boxed, *rest)
    with pytest.raises(ValueError, match="not those of so many rounds"):
        _core.FrankWolfe(place, glm, replace(own, rounds=own.rounds - 1), *rest)


def test_arms_of_a_bandit_state_their_diameters(monkeypatch):
    def make() -> Any:
        return bandits.HighDimensionalBandit(
            2, LpBall(3, 1.0), horizon=200, budget=Budget(4.0, 1e-6), arm_learner="polyhedral",
            source=Source.seeded(1), context_bound=1.0, reward_bound=1.0
        )  # fmt: skip

    place, glm, arms, *rest = told(monkeypatch, "HighDimensionalBandit", make)
    _core.HighDimensionalBandit(place, glm, arms, *rest)
    one, other = arms.parts
    smaller = replace(other.scores, diameter_l1=0.99 * other.scores.diameter_l1)
    lie = replace(arms, parts=(one, replace(other, scores=smaller)))
    with pytest.raises(ValueError, match="diameter of the domain is stated smaller"):
        _core.HighDimensionalBandit(place, glm, lie, *rest)
