"""Three small classes, independent implementations, and oracles that enumerate all messages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import mpmath
import numpy as np
import pytest
from tests.probes import probes

from dpoco.local import DistributionLearner, Hypotheses, Report, RoundSpec
from dpoco.local import _messages as families
from dpoco.local._bounds import loss_ranges

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15

LEVELS = [1e-15, 1e-6, 0.1, 1.0, 4.0, 29.9, 30.0]
UNITS = 2**53
HOSTILE = [math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-320, 2.0, -2.0]

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


def mix(z):
    """SplitMix64's finaliser, in Python's integers."""
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


class ReferenceCoins:
    """Public coins as written down, without the library."""

    def __init__(self, seed, round, slot=0):
        self.h = mix(seed ^ mix((round * GAMMA + slot + 1) & MASK))
        self.i = 0

    def word(self):
        self.i += 1
        return mix((self.h + self.i * GAMMA) & MASK)

    def below(self, n):
        while True:
            product = self.word() * n
            if product % 2**64 >= 2**64 % n:
                return product >> 64


def bit_spec(matrix, *, epsilon=1.0, round=1, seed=2024, bits=1):
    k, m = matrix.shape
    queries = tuple(families.threshold("bisection", seed, round, slot, k) for slot in range(bits))
    return RoundSpec(round, "bit", epsilon, k, m, queries=queries)


def subset_spec(matrix, size, *, epsilon=1.0, round=1):
    return RoundSpec(round, "subset", epsilon, *matrix.shape, subset_size=size)


def coordinate_spec(matrix, *, epsilon=1.0, round=1, seed=5, mixing=0.1):
    k, m = matrix.shape
    query = families.loss(seed, round, 0, mixing, loss_ranges(k, mixing))
    return RoundSpec(round, "coordinate", epsilon, k, m, queries=(query,))


def fixed(matrix):
    return Hypotheses(matrix)


def words_drawn(client):
    return probes.position(client._source._engine, 0)


def refused(client, spec, error, **arguments):
    """The call raises, and neither the ledger nor the noise has moved."""
    before = (client.spent, client.reports_left, words_drawn(client))
    with pytest.raises(error):
        client.respond(spec, **arguments)
    assert (client.spent, client.reports_left, words_drawn(client)) == before


def exceeds(ratio, epsilon):
    """ratio > e^epsilon with 100 digits, without the library."""
    with mpmath.workdps(100):
        return mpmath.mpf(ratio.numerator) / ratio.denominator > mpmath.exp(mpmath.mpf(epsilon))


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
    twin.round = learner.round
    for number, opened in learner._open.items():
        twin._open[number] = type(opened)(opened.spec, opened.matrix, opened.context)
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
    "auto": {},
    "hedge": {"learner": "hedge"},
    "hedge sampling": {"learner": "hedge", "interactive": True},
    "hedge subset": {"learner": "hedge", "channel": "subset"},
    "hedge rate": {"learner": "hedge", "learning_rate": 0.01, "horizon": 100},
    "private": {"learner": "hedge", "protect": "label_and_context"},
}


def build(kind, **more):
    given = {"epsilon": 1.0, "public_seed": 7, **KINDS[kind], **more}
    return DistributionLearner(Hypotheses(FC), **given)


def some_values(spec, rng):
    options = answers(spec)
    return options[rng.integers(len(options))]


def play(learner, rounds, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        spec = learner.round_spec()
        learner.update(spec, [report(spec, *some_values(spec, rng)) for _ in range(2)])
    return learner
