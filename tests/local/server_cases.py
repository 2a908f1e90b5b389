"""Fixtures of the server's tests: three small classes, and oracles that enumerate all messages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from dpoco.local import DistributionLearner, Hypotheses, Report, RoundSpec

FA = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]])
FB = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]])
FC = np.array(
    [
        [0.30, 0.25, 0.20, 0.15, 0.07, 0.03],
        [0.05, 0.10, 0.15, 0.20, 0.25, 0.25],
        [0.02, 0.48, 0.02, 0.02, 0.44, 0.02],
        [1 / 6] * 6,
    ]
)

_nonces = itertools.count(1)


def report(spec: RoundSpec, *values: int) -> Report:
    """A report with a fresh nonce."""
    nonce = next(_nonces).to_bytes(8, "little")
    return Report(spec.round, spec.digest, nonce, spec.channel, values)


def answers(spec: RoundSpec) -> list[tuple[int, ...]]:
    """All reports a device can send."""
    if spec.channel == "subset":
        return list(itertools.combinations(range(spec.labels), spec.subset_size))
    return list(itertools.product((0, 1), repeat=spec.width))


def message_laws(spec: RoundSpec, matrix: np.ndarray) -> np.ndarray:
    """Nominal laws of all answers under all hypotheses, shape (K, answers)."""
    if spec.channel == "subset":
        m, d = matrix.shape[1], spec.subset_size
        odds = math.expm1(spec.epsilon)
        scale = math.comb(m, d) * (1.0 + odds * d / m)
        inside = np.array([[row[list(z)].sum() for z in answers(spec)] for row in matrix])
        return (1.0 + odds * inside) / scale
    contrast = math.tanh(spec.epsilon / (2 * spec.width))
    means = np.array([query.means(matrix) for query in spec.queries])
    laws = [
        np.prod([(1 + (2 * b - 1) * contrast * mu) / 2 for b, mu in zip(bits, means, strict=True)],
                axis=0)
        for bits in answers(spec)
    ]  # fmt: skip
    return np.array(laws).T


def histories(
    build: dict[str, object], matrix: np.ndarray, truth: int, rounds: int
) -> Iterator[tuple[float, DistributionLearner, RoundSpec]]:
    """Every history of messages: its probability under the truth, the learner and its next round.

    Yields before each round; the learner is one round ahead only in its specification.
    """

    def visit(learner: DistributionLearner, chance: float, left: int) -> Iterator[object]:
        spec = learner.round_spec()
        yield chance, learner, spec
        if left == 1:
            return
        laws = message_laws(spec, matrix)
        for values, law in zip(answers(spec), laws[truth], strict=True):
            child = _twin(learner)
            child.update(spec, report(spec, *values))
            yield from visit(child, chance * law, left - 1)

    start = DistributionLearner(Hypotheses(matrix), **build)
    yield from visit(start, 1.0, rounds)


def _twin(learner: DistributionLearner) -> DistributionLearner:
    # A shallow twin: enumeration visits thousands of histories.
    twin = learner.clone()
    twin._rule.restore(learner._rule.state())
    twin._rounds.last = learner._rounds.last
    for opened in learner._rounds:
        twin._rounds.open(type(opened)(opened.spec, opened.matrix, opened.context))
    return twin


def kl(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p, q), nats."""
    held = p > 0.0
    return float(np.sum(p[held] * np.log(p[held] / q[held])))


KINDS = {
    "bit": {"channel": "bit"},
    "loss": {"channel": "bit", "query": "loss"},
    "two bits": {"channel": "bit", "bits": 2},
    "adaptive": {"channel": "bit", "interactive": True},
    "subset": {"channel": "subset", "subset_size": 2},
    "auto": {"track_information": True},
    "hedge": {"learner": "hedge"},
    "hedge sampling": {"learner": "hedge", "interactive": True, "sampling": "adaptive"},
    "hedge subset": {"learner": "hedge", "channel": "subset"},
    "hedge rate": {"learner": "hedge", "eta": 0.01, "horizon": 100},
    "private": {"learner": "hedge", "protect": "label_and_context"},
    "paper": {"learner": "paper_exp3", "horizon": 100},
}


def build(kind, **more):
    given = {"epsilon": 1.0, "public_seed": 7, **KINDS[kind], **more}
    return DistributionLearner(Hypotheses(FC), **given)


def some_values(spec, rng):
    options = [(0,), (1,)] if spec.channel == "paper_exp3" else answers(spec)
    return options[rng.integers(len(options))]


def play(learner, rounds, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        spec = learner.round_spec()
        learner.update(spec, [report(spec, *some_values(spec, rng)) for _ in range(2)])
    return learner
