"""What would start `NoisyNewton` faster: longer steps, less shrinkage, momentum, less noise.

The learner is played in NumPy, where its steps can be changed, with noise of the same law. Without
a change its mean losses are those of the learner itself, which the first column of the table shows.
Only public numbers and released sums enter any of the changes.
"""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import dataclass
from itertools import islice, takewhile

import numpy as np
from newton_targets import RADIUS, STREAMS, learner
from numpy.typing import NDArray

import dpoco
from dpoco.accounting.noisy_newton import STEP_SHARE, deviations, learned_loss
from dpoco.privacy.mechanisms.gaussian_sum import batch_starts

Array = NDArray[np.float64]
NAMES = ("shuttle", "phishing", "logit_10000_10_41", "logit_20000_20_47", "flip_50000_10_71",
         "coin_10000_10_50")  # fmt: skip


@dataclass(frozen=True)
class Change:
    """Differences from the learner; momentum grows with how clear the point is of noise."""

    step: float = 1.0  # of the step without curvature, in its usual size
    metric: float = STEP_SHARE  # share of the curvature in the metric
    shrinkage: float = 1.0
    momentum: float = 0.0
    doubt: float = 3.0  # none where noise is one part in so many of the point, squared
    batches: int = 40  # after so many, momentum falls
    noise: float = 1.0  # scale of the noise, in that of the learner


CHANGES = {
    "the learner": Change(),
    "steps x 1.5": Change(step=1.5),
    "steps x 1.5, shrinkage 0.5": Change(step=1.5, shrinkage=0.5),
    "steps x 1.5, shrinkage 0": Change(step=1.5, shrinkage=0.0),
    "steps x 2, shrinkage 0.5": Change(step=2.0, shrinkage=0.5),
    "shrinkage 0": Change(shrinkage=0.0),
    "metric 0.15": Change(metric=0.15),
    "momentum 0.5": Change(momentum=0.5),
    "momentum 0.9": Change(momentum=0.9),
    "noise x 0.5": Change(noise=0.5),
    "no noise, the same steps": Change(noise=0.0),
}


class Player:
    """Plays a stream of labels with changed steps."""

    def __init__(self, rows: Array, labels: Array, epsilon: float) -> None:
        self.rounds, self.dimension = rows.shape
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
            self.learner = learner(self.rounds, self.dimension, epsilon, 0)
        bound = math.sqrt(self.dimension / 3.0)
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        self.rows, self.labels = rows * np.minimum(1.0, bound / np.maximum(length, 1e-300)), labels
        total = self.learner.plan.mechanism
        starts = batch_starts(total.batch, total.growth)
        self.ends = list(takewhile(lambda end: end < self.rounds, islice(starts, 1, None)))
        self.deviations = deviations(total)

    def noise(self, rng: np.random.Generator) -> Array:
        """Return the noise of all released sums, shape (pushes, entries): that of Toeplitz sums."""
        pushes, d = len(self.deviations), self.dimension
        steps = np.arange(1, pushes)
        row = np.concatenate(([1.0], np.cumprod((2.0 * steps - 1.0) / (2.0 * steps))))
        fresh = self.deviations[0] * rng.standard_normal((pushes, d + d * (d + 1) // 2))
        spectrum = np.fft.rfft(row, 2 * pushes)[:, None] * np.fft.rfft(fresh, 2 * pushes, axis=0)
        return np.fft.irfft(spectrum, 2 * pushes, axis=0)[:pushes]

    def play(self, change: Change, seed: int) -> float:
        """Return the mean loss of a run."""
        d, own = self.dimension, self.learner.plan
        weight, steps = own.mechanism.summand.weight, 1.0 / (own.tuning.step_size * change.step)
        loss = learned_loss(self.learner.loss)
        noise = change.noise * self.noise(np.random.default_rng(seed))
        point, before, decision = np.zeros(d), np.zeros(d), np.zeros(d)
        gradients, seen, curvature = np.zeros(d), np.zeros(d), np.zeros((d, d))
        metric, clear, played, begin = steps * np.eye(d), 0.0, 0.0, 0
        for k, end in enumerate([*self.ends, self.rounds]):
            x, y = self.rows[begin:end], self.labels[begin:end]
            margin = x @ decision
            played += float(np.sum(np.logaddexp(0.0, margin) - y * margin))
            begin = end
            if k == len(self.ends):
                break
            deviation = change.noise * float(self.deviations[k])
            chance = 1.0 / (1.0 + np.exp(-margin))
            part = np.minimum(1.0, loss.slope_bound / np.maximum(chance, 1.0 - chance))
            gradients = gradients + (part * (chance - y)) @ x
            curvature = curvature + (x.T * (part * chance * (1.0 - chance)).clip(0.0, 0.25)) @ x
            released = gradients + noise[k, :d]
            values, axes = np.linalg.eigh(curvature + unpack(noise[k, d:], d) / weight)
            kept = np.maximum(values - math.sqrt(2.0 * d) * deviation / weight, 0.0)
            wanted = steps * np.eye(d) + change.metric * (axes * kept) @ axes.T - metric
            values, axes = np.linalg.eigh(wanted)
            metric = metric + (axes * np.maximum(values, 0.0)) @ axes.T
            push = change.momentum * max(0.0, 1.0 - change.doubt * (1.0 - clear))
            push *= min(1.0, change.batches / (k + 1))
            target = point - np.linalg.solve(metric, released - seen) + push * (point - before)
            before, seen = point, released
            values, axes = np.linalg.eigh(metric)
            point = into_ball(values, axes, target)
            moved, size = deviation**2 * float(np.sum(values**-2.0)), float(point @ point)
            clear = max(0.0, 1.0 - moved / size) if size > 0.0 else 0.0
            shown = max(0.0, 1.0 - change.shrinkage * moved / size) if size > 0.0 else 0.0
            decision = shown * point
        return played / self.rounds


def unpack(packed: Array, d: int) -> Array:
    """Return the symmetric matrix of a packed triangle, whose other entries have sqrt(2)."""
    out = np.zeros((d, d))
    out[np.triu_indices(d)] = packed
    other = np.triu(out, 1) / math.sqrt(2.0)
    return np.asarray(np.diag(np.diag(out)) + other + other.T)


def into_ball(values: Array, axes: Array, target: Array) -> Array:
    """Return the point of the ball that is nearest to a target in a metric."""
    if np.linalg.norm(target) <= RADIUS:
        return target
    along = axes.T @ target
    low, high = 0.0, 10.0 * values.max() * float(np.linalg.norm(target)) / RADIUS
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.linalg.norm(along * values / (values + middle)) > RADIUS:
            low = middle
        else:
            high = middle
    return np.asarray(axes @ (along * values / (values + high)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--streams", nargs="*", default=NAMES, choices=tuple(STREAMS))
    options = parser.parse_args()
    print(f"| epsilon = {options.epsilon:g} | {' | '.join(options.streams)} |")
    print("|---" + "|--:" * len(options.streams) + "|")
    streams = [STREAMS[name][0]() for name in options.streams]
    players, own = [], []
    for rows, labels in streams:
        players.append(
            Player(np.asarray(rows, float), np.asarray(labels, float) > 0, options.epsilon)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
            runs = [
                learner(*rows.shape, options.epsilon, seed).run(
                    rows, labels, record_decisions=False
                )
                for seed in range(options.seeds)
            ]
        own.append(np.mean([run.losses.mean() for run in runs]))
    print(f"| compiled | {' | '.join(f'{loss:.4f}' for loss in own)} |", flush=True)
    for name, change in CHANGES.items():
        means = [np.mean([p.play(change, s) for s in range(options.seeds)]) for p in players]
        print(f"| {name} | {' | '.join(f'{loss:.4f}' for loss in means)} |", flush=True)


if __name__ == "__main__":
    main()
