"""Public samplers of Gibbs laws: laws in five dimensions at the walls, states, and P-COMW's option.

Thresholds at 6 standard errors; each comparison also rejects a wrong temperature.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from tests.samplers import gibbs_reference as reference
from tests.samplers.kinks import Kinks, records

import dpoco
from dpoco.accounting.coupled_runs import euclidean_problem
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss
from dpoco.random import Source
from dpoco.samplers import ExactSampler, GibbsLaw, HitAndRun, MetropolisLangevin, ProximalSampler

CHAINS = [HitAndRun, MetropolisLangevin, ProximalSampler]
D = 5


def law(temper: float = 1.0, domain=None, count: int = 40) -> GibbsLaw:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, D)) + 0.3
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = (rng.random(count) < 0.15).astype(float)
    domain = Box(np.full(D, -0.7), np.full(D, 0.2)) if domain is None else domain
    loss = LogisticLoss(feature_bound=2.3)  # in l1 at most
    return GibbsLaw(
        domain, loss, rows, labels, inverse_temperature=0.5 * temper, regularization=40.0
    )


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference of moments, in standard errors."""
    a, b = reference.moments(a), reference.moments(b)
    error = np.hypot(a.std(axis=0) / np.sqrt(len(a)), b.std(axis=0) / np.sqrt(len(b)))
    return float((np.abs(a.mean(axis=0) - b.mean(axis=0)) / error).max())


@pytest.mark.parametrize("kind", [HitAndRun, MetropolisLangevin])
@pytest.mark.parametrize("shape", ["box", "ball", "simplex"])
def test_chains_reach_the_law_at_the_walls(kind, shape):
    """Half a second of draws a set."""
    domain = {"box": None, "ball": LpBall(D, 2.0, 0.4), "simplex": Simplex(D, 1.0)}[shape]
    own = law(domain=domain)
    exact = ExactSampler(own, Source.seeded(1))
    assert exact.distance == 0.0
    truth = exact.draw(20_000)
    chain = kind(own, Source.seeded(2), tolerance=1e-2)
    assert chain.distance is None
    draws = chain.draw(600)
    assert all(own.domain.contains(x, tolerance=1e-9) for x in draws)
    assert apart(draws, truth) < 6
    other = law(6.0, domain=domain)
    assert apart(draws, ExactSampler(other, Source.seeded(3)).draw(20_000)) > 6


def test_the_proximal_sampler_is_within_its_proved_distance():
    """Its proved length is long: a second."""
    own = law(count=10)
    chain = ProximalSampler(own, Source.seeded(2), tolerance=1e-2)
    assert chain.distance == chain.tolerance == 1e-2
    draws = chain.draw(300)
    assert apart(draws, ExactSampler(own, Source.seeded(1)).draw(20_000)) < 6
    other = law(20.0, count=10)
    assert apart(draws, ExactSampler(other, Source.seeded(3)).draw(20_000)) > 6


def test_the_proximal_sampler_on_kinks():
    """A wrong acceptance rule, which keeps every proposal, is far off."""
    rows = records(2, 6, 3.0)
    domain = LpBall(2, 2.0, 0.5)
    own = GibbsLaw(
        domain, CustomLoss(1.0, 0.0), [Kinks("absolute", row[None]) for row in rows],
        inverse_temperature=0.5, regularization=12.0,
    )  # fmt: skip
    truth = ExactSampler(own, Source.seeded(1)).draw(4_000)
    chain = ProximalSampler(own, Source.seeded(2), tolerance=0.05)
    assert apart(chain.draw(20), truth) < 6
    states = chain.walk(200, 10)
    assert apart(states, truth) < 12  # dependent
    # Steps of the same kind without rejection, on the same set.
    rng, x, kept = np.random.default_rng(4), np.zeros(2), []
    for _ in range(3_000):
        slope = 0.5 * (np.sign(rows @ x - 0.1) @ rows)
        y = x + rng.normal(size=2)
        precision = 6.0 + 1.0
        while True:
            z = (y - slope) / precision + rng.normal(size=2) / np.sqrt(precision)
            if z @ z <= 0.25:
                break
        x = z
        kept.append(x)
    assert apart(np.array(kept[::5]), truth) > 6


def test_the_length_of_the_proximal_chain_is_the_one_of_the_proof():
    own = law(count=10)
    chain = ProximalSampler(own, Source.seeded(2), tolerance=1e-3)
    beta, lam, a = 0.5, 40.0, 10 * euclidean_problem(own.domain, own.loss).lipschitz
    radius = own.domain.radius_from_center()
    eta = 1.0 / (16 * D * beta**2 * a * (a + lam * radius))
    entropy = 2.0 * (a**2 * beta / lam + a * np.sqrt(beta / lam * D))
    steps = np.log(entropy / (2.0 * 1e-3**2)) / (2.0 * np.log1p(beta * lam * eta))
    assert chain.steps == pytest.approx(np.ceil(steps) + 1, abs=1)
    assert HitAndRun(own, Source.seeded(1), tolerance=1e-3).steps == np.ceil(
        2 * D * (np.log(D) + 2 * np.log(1e3))
    )


@pytest.mark.parametrize("kind", CHAINS)
def test_states_resume_bit_for_bit(kind):
    own = law(count=10)
    whole = kind(own, Source.seeded(5)).walk(9, 3)
    chain = kind(own, Source.seeded(5))
    first = chain.walk(4, 3)
    state = chain.to_bytes()
    rest = kind.from_bytes(state, own).walk(5, 3)
    assert np.array_equal(np.vstack([first, rest]), whole)
    for copied in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="to_bytes"):
            copied(chain)
    for forged in (b"", state[:-1], b"x" + state, state[:30]):
        with pytest.raises(dpoco.StateError):
            kind.from_bytes(forged, own)
    exact = ExactSampler(own, Source.seeded(6))
    exact.draw(3)
    again = ExactSampler.from_bytes(exact.to_bytes(), own)
    assert np.array_equal(again.draw(4), exact.draw(4))


def test_laws_of_every_family():
    rng = np.random.default_rng(1)
    ball = LpBall(3, 2.0, 1.0)
    rows = rng.normal(size=(4, 3)) / 3.0
    linear = GibbsLaw(ball, LinearLoss(1.0), rows, regularization=2.0)
    matrices = np.array([np.outer(v, v) for v in rows])
    quadratic = GibbsLaw(
        ball, dpoco.losses.QuadraticLoss(5.0, 2.0), matrices, rows, regularization=2.0
    )
    empty = GibbsLaw(ball, LinearLoss(1.0), np.empty((0, 3)), regularization=2.0)
    for own in (linear, quadratic, empty):
        truth = ExactSampler(own, Source.seeded(1)).draw(5_000)
        for kind in CHAINS:
            assert apart(kind(own, Source.seeded(2), tolerance=0.05).draw(100), truth) < 6
    with pytest.raises(TypeError, match="labels"):
        GibbsLaw(ball, LinearLoss(1.0), rows, np.zeros(4), regularization=2.0)
    with pytest.raises(ValueError, match="regularization"):
        GibbsLaw(ball, LinearLoss(1.0), rows, regularization=0.0)
    with pytest.raises(TypeError, match="GibbsLaw"):
        HitAndRun(ball, Source.seeded(1))
    with pytest.raises(ValueError, match="tolerance"):
        HitAndRun(linear, Source.seeded(1), tolerance=1.0)


@pytest.mark.parametrize("name", ["hit_and_run", "langevin", "proximal"])
def test_weights_take_a_chain_and_say_what_is_proved(name):
    rows, labels = records(2, 60, 0.5), np.tile([0.0, 1.0], 30)
    options = {"horizon": 60, "budget": dpoco.Budget(1.0, 1e-6), "sampler": name}
    learner = dpoco.oco.ContinuousMultiplicativeWeights(
        LpBall(2, 2.0, 0.5), LogisticLoss(1.0), source=Source.seeded(3), **options
    )
    assert learner.run(rows, labels).decisions.shape[0] == 60
    assert learner.switches >= 1
    guarantee = learner.guarantee
    assert not guarantee.certified
    assert learner.plan.mechanism.draw.tolerance > 0.0
    said = " ".join(guarantee.conditions)
    assert ("proved for losses within their bounds" in said) == (name == "proximal")
    assert ("cannot be verified, and is charged to delta" in said) == (name != "proximal")
    if name == "proximal":
        with pytest.raises(ValueError, match="proved distance"):
            dpoco.oco.ContinuousMultiplicativeWeights(
                LpBall(2, 2.0, 0.5), LogisticLoss(1.0), **{**options, "horizon": 100_000}
            )
