"""Fitted models equal those of an independent NumPy implementation on the same random tape."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import dpoco
from dpoco import _core
from dpoco.domains import Box, LpBall, Polytope, Simplex
from dpoco.frank_wolfe import (
    LocalizedMirrorDescent,
    NoisyFrankWolfe,
    NoisySGD,
    PhasedSGD,
    SufficientStatistics,
)
from dpoco.losses import HuberLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source

from . import batch_reference as reference

N, D = 45, 3
RNG = np.random.default_rng(7)
X, Y = RNG.normal(size=(N, D)), RNG.normal(size=N)
SQUARE = np.vstack([np.eye(D), -np.eye(D)])

DOMAINS = {
    "l1": LpBall(D, 1.0),
    "l1.5": LpBall(D, 1.5, 2.0),
    "l2": LpBall(D, 2.0),
    "linf": LpBall(D, np.inf),
    "box": Box([-1.0, 0.0, -0.5], [1.0, 2.0, 0.5]),
    "simplex": Simplex(D),
    "polytope": Polytope(SQUARE, np.ones(2 * D)),
}
LOSSES = {
    "squared": SquaredLoss(1.0, 1.0),
    "half, l2 bound": SquaredLoss(1.0, 2.0, weight=0.5, feature_bound_l2=0.7),
    "logistic": LogisticLoss(2.0),
    "huber": HuberLoss(1.0, 1.0, threshold=0.3),
}
KINDS = {
    "NoisyFrankWolfe": (NoisyFrankWolfe, {}),
    "NoisySGD": (NoisySGD, {"steps": 300}),
    "PhasedSGD": (PhasedSGD, {}),
    "LocalizedMirrorDescent": (LocalizedMirrorDescent, {"steps": 12}),
}
CASES = [
    (kind, domain, loss)
    for kind in KINDS
    for domain in DOMAINS
    for loss in LOSSES
    if kind != "LocalizedMirrorDescent" or (domain in ("l1.5", "l2") and "l2" not in loss)
]


@pytest.mark.parametrize("budget", [None, dpoco.Budget(2.0, 1e-4)], ids=["quiet", "noisy"])
@pytest.mark.parametrize(("kind", "domain", "loss"), CASES)
def test_models_equal_the_reference(kind, domain, loss, budget):
    cls, options = KINDS[kind]
    numerics = "float"
    if budget is not None and kind != "PhasedSGD" and loss != "huber":
        numerics = "lattice"
        options = {**options, "numerics": numerics}
    elif kind != "PhasedSGD":
        options = {**options, "numerics": "float"}
    learner = cls(DOMAINS[domain], LOSSES[loss], budget=budget, source=Source.seeded(3), **options)
    learner.fit(X, Y)
    assert getattr(learner.parameters, "numerics", "float") == numerics
    want = reference.fit(learner, X, Y, 3)
    np.testing.assert_allclose(learner.theta, want, rtol=0, atol=1e-7)
    assert learner.domain.contains(learner.theta)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_notices_differences(kind):
    cls, options = KINDS[kind]
    learner = cls(DOMAINS["l1.5"], LOSSES["squared"], budget=None, **options)
    learner.fit(X, Y)
    # A wrong label of a record in the first batch, and a wrong step size.
    other = np.concatenate([Y[:3] + 1.0, Y[3:]])
    assert np.abs(learner.theta - reference.fit(learner, X, other, 3)).max() > 1e-6
    p = learner.parameters
    learner._parameters = dataclasses.replace(p, step_size=p.step_size * 0.99)
    assert np.abs(learner.theta - reference.fit(learner, X, Y, 3)).max() > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_are_not_finite_count_as_zero(kind):
    cls, options = KINDS[kind]
    spoiled, labels = X.copy(), Y.copy()
    spoiled[2, 1], spoiled[5, 0], labels[9] = np.nan, np.inf, -np.inf
    zeroed, quiet = spoiled.copy(), labels.copy()
    zeroed[[2, 5, 9]], quiet[9] = 0.0, 0.0
    models = [
        cls(DOMAINS["l2"], LOSSES["squared"], budget=dpoco.Budget(1.0, 1e-4),
            source=Source.seeded(1), **options).fit(a, b).theta
        for a, b in ((spoiled, labels), (zeroed, quiet))
    ]  # fmt: skip
    assert np.array_equal(*models)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 3), (2, 1), (3, 2), (4, 1), (7, 1)])
def test_the_smallest_data_sets(kind, n, d):
    cls, options = KINDS[kind]
    learner = cls(LpBall(d), SquaredLoss(1.0, 1.0), budget=dpoco.Budget(1.0, 1e-4),
                  source=Source.seeded(2), **options)  # fmt: skip
    learner.fit(X[:n, :d], Y[:n])
    np.testing.assert_allclose(
        learner.theta, reference.fit(learner, X[:n, :d], Y[:n], 2), atol=1e-7
    )
    assert learner.guarantee.epsilon == pytest.approx(1.0, rel=1e-2)


@pytest.mark.parametrize("budget", [None, dpoco.Budget(8.0, 1e-4)])
@pytest.mark.parametrize(
    "domain",
    [LpBall(4, 2.0, 0.2), LpBall(4, 2.0, 50.0), LpBall(4, 1.0, 0.3), Simplex(4),
     Box([0.1] * 4, [0.2, 0.3, 0.4, 0.9])],
)  # fmt: skip
def test_second_moments_lead_to_the_least_ridge_loss(domain, budget):
    """The release is that of a NumPy program on the same tape; no point nearby is better."""
    rng = np.random.default_rng(4)
    n, d = 500, 4
    features, labels = rng.normal(size=(n, d)), rng.normal(size=n) + 1.0
    learner = SufficientStatistics(
        domain, SquaredLoss(1.0, 1.0), budget=budget, records=n, source=Source.seeded(9)
    )
    engine = learner._engine(features, labels)
    engine.advance(n)
    released, scale = engine.result(), learner.parameters.noise_scale
    x = features / np.maximum(1.0, np.linalg.norm(features, domain.dual_exponent, axis=1))[:, None]
    y, weight = np.clip(labels, -1.0, 1.0), learner.parameters.weight
    matrix = x.T @ x
    exact = [
        matrix[i, j] * (1.0 if i == j else np.sqrt(2.0)) for i in range(d) for j in range(i, d)
    ]
    exact = np.array([*exact, *(weight * y @ x)])
    noise = np.zeros(len(exact))
    if budget is not None:
        tape, gaussian = Source.seeded(9)._claim(), 2
        _core.Source(tape["key"], tape["stream"]).fill(gaussian, noise)
    assert np.allclose(released, exact + scale * noise, rtol=0.0, atol=1e-9 * n + 2e-3 * scale)
    noisy = np.zeros((d, d))
    noisy[np.triu_indices(d)] = released[:-d]
    noisy = (noisy + np.triu(noisy, 1).T) / (np.eye(d) + np.sqrt(2.0) * (1.0 - np.eye(d)))
    values, vectors = np.linalg.eigh(noisy)
    ridge = np.sqrt(2.0 * d) * scale if budget is not None else 1e-9 * n / d
    a = vectors @ np.diag(np.maximum(values, 0.0) + ridge) @ vectors.T
    b = released[-d:] / weight + ridge * domain.center

    def value(theta):
        return theta @ a @ theta - 2.0 * b @ theta

    theta = learner._model(released)
    assert domain.contains(theta)
    others = [domain.project(theta + r * rng.normal(size=d)) for r in np.geomspace(1e-6, 1.0, 400)]
    assert min(value(each) for each in others) >= value(theta) - 1e-9 * n
    wrong = np.linalg.solve(a, -b)  # the sign of y x
    assert value(domain.project(wrong)) > value(theta)
