"""The learner against the published trajectories and an independent implementation."""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest
from tests.oco.noisy_ftrl_reference import CASES, decoder
from tests.oco.noisy_ftrl_reference import LOSSES as OF_ANY_KIND

import dpoco
from dpoco import _core
from dpoco.accounting.continual_sum import blt_parameters
from dpoco.domains import LpBall
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.random import Source

from . import reference

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

X = np.array([[0.6, -0.8, 0.2], [0.1, 0.5, -0.7], [-0.4, 0.3, 0.9], [0.8, 0.1, 0.1],
              [-0.2, -0.6, 0.5]])  # fmt: skip
Y = np.array([0.5, -0.3, 0.8, 0.2, -0.6])

TRAJECTORIES = [
    # p, weights, feature bound, theta_6
    (1.0, "unbiased", 1.0, (0.166666666667, 0, 0.333333333333)),
    (1.5, "unbiased", 1.0, (0.161982635353, -0.133848554462, 0.434284407532)),
    (1.5, "paper", 1.0, (0.194571324898, -0.070845714054, 0.400843173796)),
    (2.0, "unbiased", 1.0, (0.218139378231, -0.098287307123, 0.461388035468)),
    (2.0, "paper", 1.0, (0.193627813865, -0.006861744887, 0.395516649669)),
    (np.inf, "unbiased", 1.0, (0.5, 0.166666666667, 0.5)),
    (np.inf, "paper", 1.0, (0.5, 0.5, 0.5)),
    (2.0, "unbiased", 10.0, (0.21277775, -0.10064177, 0.46606656)),
    (2.0, "paper", 10.0, (0.18837255, -0.01201197, 0.40039484)),
]


@pytest.mark.parametrize(("p", "weights", "bound", "expected"), TRAJECTORIES)
def test_noise_free_trajectories(p, weights, bound, expected):
    learner = TreeFrankWolfe(
        LpBall(3, p=p), SquaredLoss(bound, 1.0), horizon=5, budget=None, weights=weights
    )
    learner.run(X, Y)
    assert learner.last_decision == pytest.approx(expected, abs=2e-8)


def private_case(domain, loss, T=40, seed=3, **options):
    options.setdefault("budget", dpoco.Budget(1.0, 1e-3))
    return TreeFrankWolfe(domain, loss, horizon=T, source=Source.seeded(seed), **options)


LOSSES = {name: each for name, each in OF_ANY_KIND.items() if name != "linear"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss_name", LOSSES)
def test_matches_the_independent_implementation(case, loss_name):
    for method, variant in itertools.product(
        ["blt", "blt_normalised", "tree", "toeplitz"],
        ["default", "paper weights", "step and batch"],
    ):
        domain, kind, p, size = CASES[case]
        loss, labels = LOSSES[loss_name]
        T, d = 40, domain.dimension
        options = {
            "default": {},
            "paper weights": {"weights": "paper"},
            "step and batch": {"step_scale": 1.5, "batch": 3},
        }[variant]
        rng = np.random.default_rng(zlib.crc32(f"{case} {loss_name}".encode()))
        features = rng.normal(size=(T, d)) * 0.7
        targets = rng.normal(size=T)
        features[5], targets[6], features[7, 0] = np.inf, np.nan, np.nan
        features[8] *= 100  # clipped
        learner = private_case(domain, loss, T, sum_method=method, **options)
        trace = learner.run(features, targets)
        parameters = learner.plan
        total, tuning = parameters.mechanism, parameters.tuning
        pushes = T // total.batch
        engine = _core.Source(**Source.seeded(3)._claim())
        gaussians = np.empty(pushes * d)
        engine.fill(2, gaussians)
        expected = reference.decisions(
            features, targets, kind=kind, p=p, size=size, start=domain.center, loss=loss_name,
            labels=labels, leaf_bound=getattr(total.summand, "slope", None), sigma=total.scale,
            gaussians=gaussians.reshape(pushes, d),
            decode=decoder(method, pushes, blt_parameters(pushes)),
            paper_weights=tuning.offset == 1, step=tuning.step_scale,
            batch=total.batch,
        )  # fmt: skip
        assert np.allclose(trace.decisions, expected[:-1], rtol=0, atol=1e-9)
        assert np.allclose(learner.last_decision, expected[-1], rtol=0, atol=1e-9)
        assert total.scale > 0
        assert (
            np.abs(np.diff(expected, axis=0)).max() > 0.01
        )  # the comparison is of moving decisions
        switches = np.flatnonzero(np.any(expected[1:] != expected[:-1], axis=1))
        assert np.array_equal(trace.switches, switches)
