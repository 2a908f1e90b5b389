"""Rows of the table for the server of `dpoco.local`, and the NumPy code it is measured against."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from measurement import Row, compare, rate
from numpy.typing import NDArray

import dpoco
from dpoco import _core
from dpoco.environments import simulate_local
from dpoco.local import (
    DistributionLearner,
    Hypotheses,
    Prediction,
    Report,
    ReportBatch,
)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def classes(count: int, labels: int) -> FloatArray:
    return np.random.default_rng(count).dirichlet(np.ones(labels), size=count)


class NumpyPosterior:
    """Tempered Bayes on bits, as a NumPy user writes it: one new question a report."""

    def __init__(self, matrix: FloatArray, contrast: float) -> None:
        self._matrix = matrix
        self._contrast = contrast
        self._logs = np.zeros(len(matrix))

    def report(self, coefficients: FloatArray, bit: int) -> None:
        phi = np.where(coefficients @ self._matrix > 0.0, 1.0, -1.0)
        means = self._matrix @ phi
        self._logs += np.log1p((2 * bit - 1) * self._contrast * means)
        self._logs -= self._logs.max()

    def run(self, questions: FloatArray, bits: IntArray) -> FloatArray:
        for coefficients, bit in zip(questions, bits, strict=True):
            self.report(coefficients, bit)
        return self._logs


def posterior_run(matrix: FloatArray, questions: FloatArray, bits: IntArray) -> FloatArray:
    engine = _core.LocalPosterior(len(matrix), 0.75)
    for coefficients, bit in zip(questions, bits[:, None, None], strict=True):
        means = _core.local_threshold_means(matrix, coefficients)[1]
        engine.add_bits(means[None], 0.46, bit)
    weights = engine.weights(1.0)
    return np.log(weights / weights.max())


def numpy_hedge(losses: FloatArray) -> FloatArray:
    """AdaHedge on rows of losses."""
    sums, spread = np.zeros(losses.shape[1]), 100.0
    weights = np.full(sums.size, 1.0 / sums.size)
    for loss in losses:
        eta = np.log(sums.size) / spread
        low = loss.min()
        mix = low - np.log(weights @ np.exp(-eta * (loss - low))) / eta
        spread += max(weights @ loss - mix, 0.0)
        sums += loss
        weights = np.exp(-np.log(sums.size) / spread * (sums - sums.min()))
        weights /= weights.sum()
    return weights


def hedge_run(losses: FloatArray) -> FloatArray:
    engine = _core.LocalHedge(losses.shape[1], 0.0)
    engine.raise_start(100.0)
    engine.add(losses)
    return engine.weights()


def hedge_batch(rounds: int) -> object:
    """A learner and a batch of reports to its open round; each call takes fresh nonces."""
    learner = DistributionLearner(
        Hypotheses(classes(64, 64)), epsilon=1.0, learner="hedge", horizon=10**9, public_seed=0
    )
    bits = np.random.default_rng(1).integers(0, 2, size=(rounds, 1))

    def play() -> None:
        spec = learner.round_spec()
        nonces = np.arange(rounds, dtype=np.uint64)
        learner.update(spec, ReportBatch(spec.round, spec.digest, spec.channel, nonces, bits))

    return play


def one_by_one(matrix: FloatArray, bits: IntArray) -> FloatArray:
    """The public path of single rounds: round_spec, update."""
    learner = DistributionLearner(Hypotheses(matrix), epsilon=1.0, channel="bit", public_seed=0)
    for i, bit in enumerate(bits.tolist()):
        spec = learner.round_spec()
        learner.update(
            spec, Report(spec.round, spec.digest, i.to_bytes(8, "little"), "bit", (bit,))
        )
    return learner.weights


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    check_competitors()
    rng = np.random.default_rng(0)
    for count, labels in ((64, 1000), (8, 1000)):
        matrix = classes(count, labels)
        n = max(4000 // shrink, 200)
        questions = rng.normal(size=(n, count))
        bits = rng.integers(0, 2, size=n)
        for path, play in (
            ("round_spec and update", partial(one_by_one, matrix, bits)),
            ("the engine alone", partial(posterior_run, matrix, questions, bits)),
        ):
            yield rate(
                "Server of locally private reports, per second of CPU time",
                f"posterior, a new question each, K = {count}, M = {labels}: {path}",
                play,
                units=n,
                repetitions=pairs,
                target=None,
                unit="reports/s",
            )
        yield compare(
            "Server against NumPy (ns per report)",
            f"posterior's engine, a new question each, K = {count}, M = {labels}",
            partial(posterior_run, matrix, questions, bits),
            partial(NumpyPosterior(matrix, 0.46).run, questions, bits),
            against="NumPy loop",
            units=n,
            pairs=pairs,
            instruction_set=dpoco.random.instruction_set(),
            target=None,
        )
    means = rng.uniform(-1, 1, size=(1, 64))
    many = rng.integers(0, 2, size=(10**6 // shrink, 1))
    engine = _core.LocalPosterior(64, 0.75)
    group = "Server of locally private reports, per second of CPU time"
    yield rate(group, "posterior, one shared question, K = 64",
               partial(engine.add_bits, means, 0.46, many), units=len(many), repetitions=pairs,
               target=2e5, unit="reports/s")  # fmt: skip
    yield rate(group, "hedge, a batch through the learner, K = 64", hedge_batch(len(many)),
               units=len(many), repetitions=pairs, target=1e6, unit="reports/s")  # fmt: skip
    losses = rng.normal(size=(20_000 // shrink, 64))
    yield compare("Server against NumPy (ns per report)", "AdaHedge, K = 64",
                  partial(hedge_run, losses), partial(numpy_hedge, losses), against="NumPy loop",
                  units=len(losses), pairs=pairs,
                  instruction_set=dpoco.random.instruction_set(), target=None)  # fmt: skip
    wide = rng.random((8, 10**6 // shrink))
    wide /= wide.sum(axis=1, keepdims=True)
    yield rate(group, f"predict().all(), K = 8, M = {wide.shape[1]}",
               Prediction(np.full(8, 0.125), 0.01, matrix=wide).all, units=1, repetitions=pairs,
               target=1 / 0.03 if shrink == 1 else None, unit="calls/s")  # fmt: skip
    labels = rng.integers(0, 16, size=100_000 // shrink)
    for learner in ("posterior", "hedge"):
        server = DistributionLearner(
            Hypotheses(classes(8, 16)), epsilon=1.0, learner=learner, mixing=0.01
        )
        yield rate("Simulation of server and devices: rounds per second of CPU time",
                   f"{learner}, K = 8, M = 16", partial(simulate_local, server, labels, truth=0),
                   units=len(labels), repetitions=pairs, target=None)  # fmt: skip


def check_competitors() -> None:
    """Raise if the NumPy code computes something else than ours."""
    rng = np.random.default_rng(3)
    matrix = classes(7, 40)
    questions, bits = rng.normal(size=(50, 7)), rng.integers(0, 2, size=50)
    np.testing.assert_allclose(
        NumpyPosterior(matrix, 0.46).run(questions, bits),
        posterior_run(matrix, questions, bits),
        rtol=1e-9,
    )
    losses = rng.normal(size=(100, 7))
    np.testing.assert_allclose(numpy_hedge(losses), hedge_run(losses), rtol=1e-8)
