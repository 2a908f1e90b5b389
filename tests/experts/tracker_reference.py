"""The oblivious tracker three times: with one meta-expert per sequence, lazily, and as compiled.

All three give the law of whole transcripts by enumeration, without sampling.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from tests.probes import probes

from dpoco import _core
from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws

# The fixed stream of three experts and six rounds whose law is tabulated in the tests.
STREAM = np.array(
    [[0, 1, 0.5], [1, 0, 0.25], [0.5, 0.5, 0], [0, 1, 1], [1, 0.25, 0], [0, 0, 1]], dtype=float
)


@dataclass(frozen=True)
class Setting:
    """A tracker: N, T, the prior, eta, p, B and the cap."""

    experts: int
    rounds: int
    prior: str = "share"
    switches: int = 0
    share_rate: float | None = None
    rate: float = 1.0
    forced: float = 0.25
    batch: int = 1
    cap: int | None = None

    @property
    def levels(self):
        return min(self.switches, self.rounds - 1) + 1 if self.prior == "at_most" else 1

    def resamples(self, limit):
        return limit if self.cap is None else min(self.cap, limit)

    def engine(self, seed=0):
        return self.engine_of({"key": seed.to_bytes(32, "little"), "stream": 0})

    def engine_of(self, claim):
        sizes = {"experts": self.experts, "rounds": self.rounds, "low": 0.0, "high": 1.0}
        return _core.ObliviousTracker(self.description, sizes, self.switches, claim)

    @functools.cached_property
    def description(self):
        share = self.share_rate or 0.0 if self.prior == "share" else None
        return TrackerDraws(
            experts=self.experts, prior=self.prior, learning_rate=self.rate, forced=self.forced,
            batch=self.batch, horizon=self.rounds, share_rate=share, cap=self.cap,
        )  # fmt: skip

    def paths(self):
        if self.prior == "share" and self.experts > 1 and self.share_rate:
            return probes.SwitchingPaths.of_share(self.experts, self.share_rate, self.rate)
        switches = self.switches if self.prior == "at_most" else 0
        return probes.SwitchingPaths.of_at_most(self.experts, self.rounds, switches, self.rate)

    def but(self, **changes):
        return replace(self, **changes)


def sequences(setting):
    """All sequences of experts with their prior probabilities."""
    n, rounds = setting.experts, setting.rounds
    every = np.array(list(itertools.product(range(n), repeat=rounds)))
    switches = (np.diff(every, axis=1) != 0).sum(axis=1)
    if setting.prior == "at_most":
        every = every[switches <= setting.switches]
        return every, np.full(len(every), 1.0 / len(every))
    sigma = setting.share_rate
    other = sigma / (n - 1) if n > 1 else 0.0
    prior = (1.0 - sigma) ** (rounds - 1 - switches) * other**switches / n
    return every, prior


def explicit_law(setting, losses):
    """Probability of every path, shape (N^T,), of the algorithm that keeps all sequences."""
    n, rounds = setting.experts, setting.rounds
    every, prior = sequences(setting)
    own = losses[np.arange(rounds), every]  # (sequence, round)
    cap = setting.resamples(rounds)
    held = np.zeros((1, cap + 1, len(every)))  # (path, fresh draws, sequence held)
    held[0, 0] = prior
    for t in range(rounds):
        plays = every[:, t][None, :] == np.arange(n)[:, None]
        held = (held[:, None] * plays[None, :, None]).reshape(-1, cap + 1, len(every))
        if (t + 1) % setting.batch or t + 1 == rounds:
            continue
        start = t + 1 - setting.batch
        keep = (1.0 - setting.forced) * np.exp(-setting.rate * own[:, start : t + 1].sum(axis=1))
        weights = prior * np.exp(-setting.rate * own[:, : t + 1].sum(axis=1))
        weights /= weights.sum()
        kept = held * keep
        kept[:, cap] = held[:, cap]
        kept[:, 1:] += (held[:, :cap] * (1.0 - keep)).sum(axis=2)[:, :, None] * weights
        held = kept
    return held.sum(axis=(1, 2))


def completions(setting, steps):
    """Numbers of ways to go on for `steps` rounds, by switches used so far."""
    n, most = setting.experts, setting.levels - 1
    return [
        sum(math.comb(steps, k) * (n - 1) ** k for k in range(most - c + 1))
        for c in range(most + 1)
    ]


class LazyLaws:
    """Forward messages in plain Python: law of a fresh draw and chances to move, by round."""

    def __init__(self, setting, losses):
        n, rounds, levels = setting.experts, setting.rounds, setting.levels
        alpha = [[-math.inf] * n for _ in range(levels)]
        alpha[0] = [0.0] * n
        self.laws, self.chances = [], []
        for t in range(rounds):
            if setting.prior == "at_most":
                now, before = completions(setting, rounds - 1 - t), completions(setting, rounds - t)
                self.chances.append(
                    [(n - 1) * now[c + 1] / before[c] if c + 1 < levels else 0.0
                     for c in range(levels)]
                )  # fmt: skip
            else:
                now = [1]
                self.chances.append([setting.share_rate])
            logs = np.array(alpha) + np.array([math.log(count) for count in now])[:, None]
            law = np.exp(logs - logs.max())
            self.laws.append(law / law.sum())
            v = [[a - setting.rate * loss for a, loss in zip(row, losses[t], strict=True)]
                 for row in alpha]  # fmt: skip
            alpha = [[self._next(setting, v, c, j) for j in range(n)] for c in range(levels)]

    @staticmethod
    def _next(setting, v, c, j):
        others = [i for i in range(setting.experts) if i != j]
        if setting.prior == "at_most":
            terms = [v[c][j]] + ([v[c - 1][i] for i in others] if c else [])
        else:
            sigma = setting.share_rate
            terms = [v[0][j] + math.log1p(-sigma)]
            if sigma:
                terms += [v[0][i] + math.log(sigma / (setting.experts - 1)) for i in others]
        return float(np.logaddexp.reduce(terms))

    def keep(self, setting, losses, t, path):
        """Of a path whose last rounds, up to round t, are `path`."""
        total = sum(losses[t - k, path[-1 - k]] for k in range(setting.batch))
        return (1.0 - setting.forced) * math.exp(-setting.rate * total)


class CompiledLaws:
    """The same from the compiled learner's own hooks, at the end of every round."""

    def __init__(self, setting, losses):
        self.laws, self.chances = [None], [None]
        self._setting, self._losses = setting, np.ascontiguousarray(losses)
        self._starts = {}  # (round, fresh draws, if they count) -> a state of the learner
        self._follow(0, record=True)
        boundaries = (setting.rounds - 1) // setting.batch
        if setting.cap is not None and setting.forced < 1.0:
            wanted = 1 + sum(setting.resamples(b) + 1 for b in range(1, boundaries + 1))
            for seed in range(1, 4000):
                self._follow(seed, record=False)
                if len(self._starts) >= wanted:
                    break

    def _key(self, t, fresh):
        return t, 0 if self._setting.cap is None else fresh

    def _follow(self, seed, record):
        engine = self._setting.engine(seed)
        for t in range(self._setting.rounds):
            if t % self._setting.batch == 0:
                self._starts.setdefault(self._key(t, engine.resamples), engine.state())
            if record and t + 1 < self._setting.rounds:
                # Weights are not kept up once no draw can follow: ask a learner that can draw.
                _, law, chances = self._uncapped(t).nonprivate_kernel(self._losses[t])
                self.laws.append(law)
                self.chances.append(chances)
            engine.observe(t, self._losses[t])

    def _uncapped(self, t):
        engine = self._setting.but(cap=None, batch=1, forced=1.0).engine()
        for s in range(t):
            engine.observe(s, self._losses[s])
        return engine

    def keep(self, fresh, t, path):
        setting = self._setting
        start = t + 1 - setting.batch
        engine = setting.engine()
        engine.restore(self._starts[self._key(start, fresh)])
        for s in range(start, t + 1):
            probes.set_path(engine, 0, int(path[s]))
            if s == t:
                return engine.nonprivate_kernel(self._losses[s])[0]
            engine.observe(s, self._losses[s])
        raise AssertionError


def extended_law(setting, laws, keep):
    """Law of (path, flags): paths (M, T), flags (M, T - 1), probabilities (M,).

    `keep(fresh, t, path)` is asked at the end of batches as long as a fresh draw may follow.
    """
    n, rounds, levels = setting.experts, setting.rounds, setting.levels
    cap = setting.resamples(rounds)
    rows = {((j,), ()): _unit(levels) / n for j in range(n)}
    cache = {}
    for t in range(rounds - 1):
        law, chances = laws.laws[t + 1], np.asarray(laws.chances[t + 1])
        boundary = (t + 1) % setting.batch == 0
        following = {}
        for (path, flags), held in rows.items():
            fresh = sum(flags)
            kept = 1.0
            if boundary and fresh < cap:
                key = (fresh, t, path[t + 1 - setting.batch :])
                if key not in cache:
                    cache[key] = keep(fresh, t, path)
                kept = cache[key]
                for j in range(n) if kept < 1.0 else ():
                    following[(*path, j), (*flags, 1)] = (1.0 - kept) * held.sum() * law[:, j]
            moving = held * chances / max(n - 1, 1)
            if setting.prior == "at_most":
                moving = np.concatenate([[0.0], moving[:-1]])
            for j in range(n) if kept > 0.0 else ():
                step = held * (1.0 - chances) if j == path[-1] else moving
                following[(*path, j), (*flags, 0)] = kept * step
        rows = following
    paths = np.array([path for path, _ in rows])
    flags = np.array([flag for _, flag in rows]).reshape(len(rows), rounds - 1)
    return paths, flags, np.array([held.sum() for held in rows.values()])


def _unit(levels):
    unit = np.zeros(levels)
    unit[0] = 1.0
    return unit


def path_law(setting, paths, probabilities):
    """Sum over flags: shape (N^T,), in the order of `explicit_law`."""
    index = paths @ (setting.experts ** np.arange(setting.rounds - 1, -1, -1))
    return np.bincount(index, weights=probabilities, minlength=setting.experts**setting.rounds)


def compiled_extended_law(setting, losses):
    laws = CompiledLaws(setting, losses)
    return extended_law(setting, laws, laws.keep)


def lazy_extended_law(setting, losses):
    laws = LazyLaws(setting, losses)

    def keep(_, t, path):
        return laws.keep(setting, losses, t, path)

    return extended_law(setting, laws, keep)
