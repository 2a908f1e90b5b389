"""TF-Privacy's trees: what a release holds, what its accountants say, how long it takes.

Runs in the environment of `requirements-trees.txt`; `regenerate.py` calls it. Prints JSON.
"""

from __future__ import annotations

import json
import os
import time
from importlib import metadata

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
from dp_accounting.rdp import rdp_privacy_accountant
from tensorflow_privacy.privacy.analysis import tree_aggregation_accountant as accounts
from tensorflow_privacy.privacy.dp_query import tree_aggregation

DELTA = 1e-6
ROUNDS = (10**3, 10**4, 10**5, 10**6)
KINDS = {
    "tree": tree_aggregation.TreeAggregator,
}


class Rows(tree_aggregation.ValueGenerator):
    """Unit vectors in place of noise: a release then shows the weights of its draws."""

    def __init__(self, size: int) -> None:
        self.size = size

    def initialize(self):
        return tf.constant(0)

    def next(self, state):
        return tf.one_hot(state, self.size, dtype=tf.float32), state + 1


def variances(kind: str, rounds: int) -> list[float]:
    """Variance of each release, per variance of a draw."""
    tree = KINDS[kind](Rows(4 * rounds))
    state = tree.init_state()
    found = []
    for _ in range(rounds):
        release, state = tree.get_cumsum_and_update(state)
        found.append(float(tf.reduce_sum(tf.cast(release, tf.float64) ** 2)))
    return found


def column(rounds: int) -> float:
    """Norm of what one round moves in the tree, by the accountant: rho = column^2 / 2."""
    return (2.0 * accounts.compute_zcdp_single_tree(1.0, rounds, 1, 0)) ** 0.5


def epsilon_of_tree(noise: float, rounds: int) -> float:
    orders = list(range(2, 41))
    spent = accounts.compute_rdp_single_tree(noise, rounds, 1, 0, orders)
    return float(rdp_privacy_accountant.compute_epsilon(orders, spent, DELTA)[0])


def microseconds(dimension: int, rounds: int) -> float:
    """CPU time of a release of TF's default tree, compiled as one function."""
    noise = tree_aggregation.GaussianNoiseGenerator(1.0, tf.TensorSpec([dimension]), seed=1)
    tree = tree_aggregation.EfficientTreeAggregator(noise)
    step = tf.function(tree.get_cumsum_and_update)
    _, state = step(tree.init_state())
    start = time.process_time()
    for _ in range(rounds):
        _, state = step(state)
    return (time.process_time() - start) / rounds * 1e6


def clock_seed() -> bool:
    """Whether two generators without a seed, made at one time of the clock, draw the same."""
    clock, tf.timestamp = tf.timestamp, lambda: tf.constant(1.0e9, tf.float64)
    try:
        draws = []
        for _ in range(2):
            made = tree_aggregation.GaussianNoiseGenerator(1.0, tf.TensorSpec([3]))
            draws.append(made.next(made.initialize())[0].numpy().tolist())
    finally:
        tf.timestamp = clock
    return draws[0] == draws[1]


if __name__ == "__main__":
    names = ("tensorflow-privacy", "tensorflow-cpu")
    report = {
        "versions": {name: metadata.version(name) for name in names},
        "variances": {kind: variances(kind, 256) for kind in KINDS},
        "column": {str(rounds): column(rounds) for rounds in ROUNDS},
        "epsilon": {"tree": epsilon_of_tree(10.0, 1000)},
        "microseconds": {str(d): microseconds(d, 200) for d in (1, 1000)},
        "clock_seed": clock_seed(),
    }
    print(json.dumps(report))
