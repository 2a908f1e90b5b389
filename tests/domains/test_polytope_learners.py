"""Polytopes in the learners and in the accounting."""

import math
from dataclasses import replace

import numpy as np
import pytest

import dpoco
from dpoco.accounting.coupled_runs import euclidean_problem
from dpoco.accounting.noisy_ftrl_regret import make_run
from dpoco.domains import Polytope
from dpoco.losses import LinearLoss, LogisticLoss


def small_polytope(seed: int) -> Polytope:
    """A box in R^3 with six corners cut off."""
    rng = np.random.default_rng(seed)
    matrix = np.vstack([rng.normal(size=(6, 3)), np.eye(3), -np.eye(3)])
    room = rng.uniform(0.3, 2.0, 12) * np.linalg.norm(matrix, axis=1)
    return Polytope(matrix, matrix @ np.full(3, 0.5) + room)


def learners(domain: Polytope, horizon: int) -> list[tuple[object, tuple[np.ndarray, ...]]]:
    """One of every kind, with records of that length."""
    rng = np.random.default_rng(12)
    features = rng.normal(size=(horizon, domain.dimension))
    features /= np.linalg.norm(features, axis=1)[:, None]
    labels = np.sign(rng.normal(size=horizon))
    budget, source = dpoco.Budget(epsilon=4.0, delta=1e-5), dpoco.random.Source.seeded
    linear, logistic = LinearLoss(gradient_bound=1.0), LogisticLoss(feature_bound=1.0)
    made = []
    kinds = (
        dpoco.frank_wolfe.TreeFrankWolfe,
        dpoco.oco.NoisyFTRL,
        dpoco.oco.CoupledRegularizedLeader,
        dpoco.oco.ContinuousMultiplicativeWeights,
    )
    for seed, kind in enumerate(kinds):
        common = {"horizon": horizon, "budget": budget, "source": source(seed)}
        made.append((kind(domain, linear, **common), (features,)))
        common["source"] = source(100 + seed)
        made.append((kind(domain, logistic, **common), (features, labels)))
    return made


@pytest.mark.filterwarnings("ignore::dpoco.errors.NoiseDominatesWarning")
def test_every_learner_decides_inside_and_resumes(tmp_path) -> None:
    domain = small_polytope(33)
    for i, (learner, records) in enumerate(learners(domain, 60)):
        learner.run(*(each[:30] for each in records))
        learner.save(tmp_path / str(i))
        again = dpoco.load(tmp_path / str(i))
        decisions = [each.run(*(r[30:] for r in records)).decisions for each in (learner, again)]
        assert np.array_equal(*decisions)
        assert all(domain.contains(x) for x in decisions[0])
        assert len(np.unique(decisions[0], axis=0)) > 1 or learner.switches == 0


def test_accounting_knows_the_shape() -> None:
    domain = small_polytope(34)
    problem = euclidean_problem(domain, LogisticLoss(feature_bound=1.0))
    assert (problem.shape, problem.constraints) == ("polytope", 12)
    assert (problem.radius, problem.diameter) == (domain.radius_from_center(), domain.diameter())
    assert (problem.dimension, problem.rank) == (3, 1)
    # The weighted barrier is at most G D where every slack keeps a 1/T of its value.
    weight = problem.barrier_weight(100)
    assert weight * 12 * math.log(100) == pytest.approx(problem.lipschitz * problem.diameter)
    free = euclidean_problem(domain, LogisticLoss(feature_bound=1.0), unbounded=True)
    assert free.barrier_weight(100) == 0.0
    with pytest.raises(ValueError, match="no exact sampler on a polytope"):
        dpoco.oco.ContinuousMultiplicativeWeights(
            domain, LinearLoss(gradient_bound=1.0), horizon=9, budget=None, sampler="exact"
        )
    # E max_x <xi, x - c> over standard normal xi.
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(4000, 3))
    gains = [xi @ (domain.minimize_linear(-xi) - domain.center) for xi in noise]
    schedule = {"horizon": 1, "batch": 1, "method": "blt", "noise_scale": 0.0}
    run = replace(make_run(domain, LinearLoss(gradient_bound=1.0), **schedule), lipschitz=1.0)
    assert np.mean(gains) <= run.width
