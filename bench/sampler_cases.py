"""Rows about samplers: independent boxes, and effective samples of a correlated box."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from measurement import Row, cpu_seconds, rate
from numpy.typing import NDArray

import dpoco
from dpoco import samplers

try:
    import hopsy
except ImportError:  # not installed: its rows are left out
    hopsy = None

FloatArray = NDArray[np.float64]
GROUP = "Truncated Gaussians (per second of CPU time)"


def correlated_box(d: int) -> tuple[FloatArray, FloatArray]:
    """Covariance with a random rotation, eigenvalues 0.05 to 1, and a mean partly outside."""
    generator = np.random.default_rng(0)
    rotation = np.linalg.qr(generator.normal(size=(d, d)))[0]
    covariance = rotation @ np.diag(np.linspace(0.05, 1.0, d)) @ rotation.T
    return covariance, generator.uniform(-1.5, 1.5, d)


def effective_size(chain: FloatArray) -> float:
    """Smallest effective sample size of a coordinate: Geyer's initial positive sequence."""
    n, smallest = len(chain), np.inf
    for column in (chain - chain.mean(axis=0)).T:
        spectrum = np.fft.rfft(column, 2 * n)
        correlation = np.fft.irfft(spectrum * spectrum.conj())[:n]
        if correlation[0] <= 0.0:  # the chain never moved
            return 1.0
        correlation /= correlation[0]
        pairs = correlation[1 : n - 1 : 2] + correlation[2:n:2]
        negative = np.nonzero(pairs < 0)[0]
        stop = negative[0] if len(negative) else len(pairs)
        smallest = min(smallest, n / (1.0 + 2.0 * float(pairs[:stop].sum())))
    return float(smallest)


def sampler_rows(pairs: int, shrink: int) -> Iterator[Row]:
    source = dpoco.random.Source()
    d, n = 10, 200_000 // shrink
    box = dpoco.domains.Box(-np.ones(d), np.ones(d))
    ball = dpoco.domains.LpBall(d, 2.0, 1.0)
    mean = np.linspace(-2.0, 2.0, d)
    for name, domain, target in (("box", box, 1e6), ("ball", ball, None)):
        draw = partial(samplers.truncated_gaussian, domain, mean, 0.7, n, source)
        yield rate(GROUP, f"exact draws, {name}, d = {d}", draw, units=n, repetitions=pairs,
                   target=target, unit="draws/s")  # fmt: skip
    for d, n, target in ((10, 200_000 // shrink, 5e5), (50, 40_000 // shrink, None)):
        covariance, mean = correlated_box(d)
        precision = np.linalg.inv(covariance)
        wall = np.ones(d)

        def ours(size: int = n, p: Any = precision, m: Any = mean, w: Any = wall) -> FloatArray:
            return samplers.coordinate_gibbs(p, m, -w, w, size=size, source=source)

        yield effective_row(f"coordinate Gibbs, d = {d}", ours, pairs, target)
        if hopsy is not None:
            yield from hopsy_rows(covariance, mean, max(n // 10, 200), ours, pairs)


GIBBS = "Gibbs laws of logistic losses (per second of CPU time)"


def logistic_law(d: int, count: int) -> tuple[samplers.GibbsLaw, FloatArray, FloatArray]:
    """A law whose mass is off the walls, so that a plain chain is right as well."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(count, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = (generator.random(count) < 1 / (1 + np.exp(-3 * rows[:, 0]))).astype(float)
    law = samplers.GibbsLaw(
        dpoco.domains.LpBall(d, 2.0, 100.0), dpoco.losses.LogisticLoss(1.0), rows, labels,
        regularization=1.0,
    )  # fmt: skip
    return law, rows, labels


def numpy_langevin(rows: FloatArray, labels: FloatArray, size: float, n: int) -> FloatArray:
    """Metropolis-adjusted Langevin in plain NumPy."""
    generator = np.random.default_rng(1)
    sign = 1.0 - 2.0 * labels

    def energy(x: FloatArray) -> tuple[float, FloatArray]:
        z = sign * (rows @ x)
        slope = (sign / (1.0 + np.exp(-z))) @ rows + x
        return float(np.logaddexp(0.0, z).sum() + 0.5 * x @ x), slope

    x = np.zeros(rows.shape[1])
    now, force = energy(x)
    out = np.empty((n, x.size))
    for row in out:
        noise = generator.normal(size=x.size)
        there = x - 0.5 * size**2 * force + size * noise
        reached, next_force = energy(there)
        back = noise - 0.5 * size * (force + next_force)
        if generator.exponential() >= reached - now + 0.5 * (back @ back - noise @ noise):
            x, now, force = there, reached, next_force
        row[:] = x
    return out


def gibbs_rows(pairs: int, shrink: int) -> Iterator[Row]:
    for d, count in ((10, 200), (50, 1000)):
        law, rows, labels = logistic_law(d, count)
        n = 20_000 // shrink
        for kind in (samplers.MetropolisLangevin, samplers.HitAndRun, samplers.ProximalSampler):
            chain = kind(law, dpoco.random.Source())
            chain.walk(1_000)  # away from the start
            walk = partial(chain.walk, n)
            name = f"{kind.__name__}, d = {d}, {count} records"
            yield rate(GIBBS, name, walk, units=n, repetitions=pairs, target=None, unit="steps/s")
            yield replace(effective_row(name, walk, pairs, None), group=GIBBS)
        ours = partial(samplers.MetropolisLangevin(law, dpoco.random.Source()).walk, n)
        step = 1.0 / d ** (1 / 6) / np.sqrt(1.0 + count / (8.0 * d))
        theirs = partial(numpy_langevin, rows, labels, step, n // 10)
        ratios = sorted(effective_rate(ours) / effective_rate(theirs) for _ in range(pairs))
        yield Row(GIBBS, f"MetropolisLangevin, d = {d}: ESS per second",
                  dpoco.random.instruction_set(), ratios[len(ratios) // 2], "x", None,
                  ratios[0], ratios[-1], against="NumPy MALA")  # fmt: skip


def effective_rate(action: Callable[[], FloatArray]) -> float:
    chains: list[FloatArray] = []
    seconds = cpu_seconds(lambda: chains.append(action()))
    return effective_size(chains[0]) / seconds


def effective_row(
    name: str, action: Callable[[], FloatArray], pairs: int, target: float | None
) -> Row:
    values = sorted(effective_rate(action) for _ in range(pairs))
    best = dpoco.random.instruction_set()
    middle = values[len(values) // 2]
    return Row(GROUP, name, best, middle, "ESS/s", target, values[0], values[-1])


def hopsy_rows(
    covariance: FloatArray, mean: FloatArray, n: int, ours: Callable[[], FloatArray], pairs: int
) -> Iterator[Row]:
    """Ratios ours / theirs, in one run."""
    d = len(mean)
    walls = np.vstack([np.eye(d), -np.eye(d)])
    model = hopsy.Gaussian(mean=mean, covariance=covariance)
    for kernel in ("TruncatedGaussianProposal", "GaussianCoordinateHitAndRunProposal"):
        proposal = getattr(hopsy, kernel, None)
        if proposal is None:
            continue

        def theirs(kind: Any = proposal) -> FloatArray:
            problem = hopsy.Problem(walls, np.ones(2 * d), model, starting_point=np.zeros(d))
            chain = hopsy.MarkovChain(problem, kind, starting_point=np.zeros(d))
            _, states = hopsy.sample(chain, hopsy.RandomNumberGenerator(1), n_samples=n)
            return np.asarray(states)[0]

        ratios = sorted(effective_rate(ours) / effective_rate(theirs) for _ in range(pairs))
        best = dpoco.random.instruction_set()
        middle = ratios[len(ratios) // 2]
        yield Row(GROUP, f"coordinate Gibbs, d = {d}: ESS per second", best, middle, "x", None,
                  ratios[0], ratios[-1], against=f"hopsy {kernel}")  # fmt: skip
