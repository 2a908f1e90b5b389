"""Modes, chains, large sums and reproducibility of the Gibbs samplers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.probes import probes
from tests.samplers import gibbs_reference as reference
from tests.samplers.gibbs_reference import draw, sampler

from dpoco import _core
from dpoco.domains import Box, LpBall, Polytope, Simplex


def bodies(d: int) -> list:
    flat = [LpBall(d, 2.0, 0.7), Box(np.full(d, -0.4), np.full(d, 0.5)), LpBall(d, np.inf, 0.3)]
    if d == 1:
        return flat
    curved = [LpBall(d, 1.5, 0.8), LpBall(d, 1.0, 0.8), LpBall(d, 3.0, 0.8)]
    signs = np.vstack([np.eye(d), -np.eye(d), np.ones(d)])
    cut = Polytope(signs, np.append(np.full(2 * d, 0.5), 0.6))
    return [*flat, *curved, cut, Simplex(d, 1.3)]


@pytest.mark.parametrize("kind", ["logistic", "huber", "squared"])
@pytest.mark.parametrize("dimension", [1, 2, 5, 12])
def test_the_mode_leaves_no_gap(dimension, kind):
    rng = np.random.default_rng(0)
    for domain in bodies(dimension):
        for lam in (1e-4, 1.0):
            # Curvatures over three orders of magnitude, minima mostly outside.
            rows = 3 * rng.normal(size=(60, dimension)) * np.logspace(0, -1.5, dimension)
            labels = (rng.random(60) < 0.3).astype(float)
            x, residual = probes.gibbs_mode(sampler(domain, kind, rows, labels, 1.0, lam))
            assert residual < 1e-8
            assert domain.contains(x, tolerance=1e-12)
            slope = reference.gradient(kind, rows, labels, x)
            size = np.linalg.norm(slope)
            slope += lam * (x - domain.center)
            # <slope, x - y> bounds the distance to the minimum for the best y of the body.
            assert slope @ (x - domain.minimize_linear(slope)) < 1e-8 * size


def langevin_problem():
    rng = np.random.default_rng(8)
    d = 60
    rows = rng.normal(size=(150, d)) * np.logspace(0, -0.7, d)
    labels = rng.uniform(-1, 1, 150)
    beta, lam = 0.7, 2.0
    curvature = 2 * rows.T @ rows + lam * np.eye(d)
    mean = np.linalg.solve(curvature, 2 * rows.T @ labels)
    return rows, labels, beta, lam, mean, np.linalg.cholesky(beta * curvature)


def test_langevin_is_corrected():
    rows, labels, beta, lam, mean, factor = langevin_problem()
    d = mean.size
    # Walls so far out that the law is Gaussian.
    domain = LpBall(d, np.inf, 30.0)
    options = {"exact_only": False, "chain_below": 2.0, "tolerance": 1e-2}
    gibbs = sampler(domain, "squared", rows, labels, beta, lam, **options)
    n = 120
    white = (draw(gibbs, 21, n, d) - mean) @ factor
    report = probes.gibbs_report(gibbs)
    assert report["method"] == "langevin"
    rate = report["accepted"] / report["proposals"]
    assert 0.4 < rate < 0.75
    limit = 6 * np.sqrt(2 / (n * d))
    assert abs(np.mean(white**2) - 1) < limit
    assert abs(np.mean(white)) < 6 / np.sqrt(n * d)
    assert np.abs(white.mean(axis=0)).max() < 6 / np.sqrt(n)
    # At the step of that acceptance the uncorrected chain has variance 1 / (1 - step^2 / 4).
    rng = np.random.default_rng(9)
    z = rng.normal(size=(n, d))
    step = 1.0
    for _ in range(300):
        z = (1 - step**2 / 2) * z + step * rng.normal(size=z.shape)
    assert abs(np.mean(z**2) - 1) > limit


def test_hit_and_run_where_langevin_would_be_slow():
    rows, labels, beta, lam, mean, factor = langevin_problem()
    d = mean.size
    options = {"exact_only": False, "chain_below": 2.0, "tolerance": 0.3, "langevin_above": 1000}
    gibbs = sampler(LpBall(d, np.inf, 30.0), "squared", rows, labels, beta, lam, **options)
    n = 60
    white = (draw(gibbs, 22, n, d) - mean) @ factor
    report = probes.gibbs_report(gibbs)
    assert report["method"] == "hit_and_run"
    assert report["proposals"] == n * gibbs.chain_steps()
    assert abs(np.mean(white**2) - 1) < 6 * np.sqrt(2 / (n * d))


def test_the_length_of_a_chain_is_public():
    for d, tolerance in ((2, 1e-3), (10, 1e-12), (300, 1e-6)):
        expected = math.ceil(2 * d * (math.log(d) + 2 * math.log(1 / tolerance)))
        gibbs = sampler(LpBall(d), "logistic", np.eye(d), np.ones(d), 1.0, 1.0, tolerance=tolerance)
        assert gibbs.chain_steps() == expected


def test_thirty_thousand_rows():
    rng = np.random.default_rng(10)
    count, d, beta, lam = 30_000, 4, 1.0, 1.0
    rows = rng.normal(size=(count, d))
    labels = (rng.random(count) < 1 / (1 + np.exp(-rows @ [0.4, -0.3, 0.2, 0.1]))).astype(float)
    gibbs = sampler(LpBall(d, 2.0, 1.0), "logistic", rows, labels, beta, lam)
    mode, residual = probes.gibbs_mode(gibbs)
    assert residual < 1e-8
    draws = draw(gibbs, 23, 150, d)
    assert probes.gibbs_report(gibbs)["method"] == "envelope"
    p = 1 / (1 + np.exp(-rows @ mode))
    precision = beta * ((rows * (p * (1 - p))[:, None]).T @ rows + lam * np.eye(d))
    shift = draws - mode
    square = np.einsum("ni,ij,nj->n", shift, precision, shift)
    # So many rows leave a Gaussian, up to one part in 170.
    assert abs(square.mean() - d) < 6 * np.sqrt(2 * d / 150)


def test_the_same_bits_from_the_same_key():
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(25, 3))
    labels = (rng.random(25) < 0.4).astype(float)
    settings = [
        {},
        {"exact_only": False, "chain_below": 2.0, "tolerance": 1e-2},
        {"exact_only": False, "chain_below": 2.0, "tolerance": 1e-2, "langevin_above": 2},
    ]
    for options in settings:
        for domain in bodies(3):
            seen = set()
            for name in ("baseline", "auto"):
                _core.select_instruction_set(name)
                gibbs = sampler(domain, "logistic", rows, labels, 1.3, 0.4, **options)
                seen.add(draw(gibbs, 24, 4, 3).tobytes())
            assert len(seen) == 1
            assert draw(gibbs, 25, 4, 3).tobytes() not in seen


def test_bad_arguments():
    rows = np.zeros((1, 2))
    for name, value in (("tolerance", 0.0), ("tolerance", 1.0), ("chain_below", -1.0)):
        with pytest.raises(ValueError, match=name):
            sampler(LpBall(2), "huber", rows, np.zeros(1), 1.0, 1.0, **{name: value})
    for beta, lam in ((0.0, 1.0), (1.0, -1.0), (math.inf, 1.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="positive"):
            sampler(LpBall(2), "huber", rows, np.zeros(1), beta, lam)
