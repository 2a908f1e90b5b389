"""The high-dimensional bandit in NumPy, and the law of all that it publishes: the tests' oracle.

It shares nothing with the library but parameters.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from tests.frank_wolfe.polyhedral_reference import vertices_of

from dpoco.domains import Box, LpBall


def nearest(domain, direction: np.ndarray) -> np.ndarray:
    """The minimiser of a linear function, the centre for zero, the lowest index on ties."""
    if not direction.any():
        return np.array(domain.center)
    if isinstance(domain, LpBall):
        j = int(np.argmax(np.abs(direction)))
        return -domain.radius * np.sign(direction[j]) * np.eye(len(direction))[j]
    if isinstance(domain, Box):
        middle = (np.array(domain.lower) + domain.upper) / 2
        return np.where(direction > 0, domain.lower, np.where(direction < 0, domain.upper, middle))
    points = vertices_of(domain)
    return points[int(np.argmin(points @ direction))]


def derivative(link: str, z: float, y: float) -> float:
    return 1.0 / (1.0 + np.exp(-z)) - y if link == "logistic" else z - y


def mean(link: str, z):
    return 1.0 / (1.0 + np.exp(-z)) if link == "logistic" else z


@dataclass(frozen=True)
class Arm:
    """One arm's learner on its own clock; every step returns a new value."""

    theta: np.ndarray
    previous: np.ndarray
    total: np.ndarray
    leaf: np.ndarray
    k: int = 1
    pending: int = 0

    def add(self, p, x, y) -> tuple[Arm, np.ndarray]:
        """Return the arm after a record (None: a zero one), and the record's leaf."""
        own = np.zeros_like(self.theta)
        if x is not None:
            w = self.k + p.arm.offset
            scalar = w * derivative(p.link, self.theta @ x, y)
            scalar -= (w - 1) * derivative(p.link, self.previous @ x, y)
            own = np.clip(scalar, -p.arm.slope, p.arm.slope) * x
        return replace(self, leaf=self.leaf + own, pending=self.pending + 1), own

    def direction(self, p) -> np.ndarray:
        """d_k at the end of a batch."""
        w = self.k + p.arm.offset
        return (self.total + self.leaf) / (p.arm.batch * w)

    def moved(self, vertex) -> Arm:
        theta = self.theta + (vertex - self.theta) / (self.k + 1)
        zero = np.zeros_like(theta)
        return Arm(theta, self.theta, self.total + self.leaf, zero, self.k + 1)


def clip(p, x, r):
    """A record as learners read it: None for a zero record; and the context to act on."""
    x = np.asarray(x, dtype=float)
    if not np.all(np.isfinite(x)):
        return None, np.zeros_like(x)
    x = x * min(1.0, p.context_bound / max(np.abs(x).max(), 1e-300))
    if not np.isfinite(r):
        return None, x
    low, high = (0.0, 1.0) if p.link == "logistic" else (-p.reward_bound, p.reward_bound)
    return (x, float(np.clip(r, low, high))), x


class Bandit:
    """DP-HDB; `pick(arm, k, direction)` returns the vertex of an update."""

    def __init__(self, p, domain, pick=None):
        start = np.array(domain.center, dtype=float)
        zero = np.zeros_like(start)
        self.p, self.domain = p, domain
        self.pick = pick or (lambda arm, k, direction: nearest(domain, direction))
        self.arms = [Arm(start, start, zero, zero) for _ in range(p.arms)]
        self.frozen = [arm.theta for arm in self.arms] if p.forced_rounds == 0 else None
        self.clocks = [0] * p.arms
        self.round = 0

    def choose(self, x) -> tuple[int, bool]:
        """Return the arm for a clipped context, and whether it is forced."""
        return choice(self.p, self.round, [arm.theta for arm in self.arms], self.frozen, x)

    def play(self, context, rewards) -> tuple[int, dict[int, np.ndarray]]:
        """Return the arm, and the leaf of every arm whose clock runs."""
        _, x = clip(self.p, context, np.nan)
        arm, forced = self.choose(x)
        record, _ = clip(self.p, context, rewards[arm])
        leaves = {}
        for other in [arm] if forced else range(self.p.arms):
            given = record if other == arm and record is not None else (None, None)
            after, leaves[other] = self.arms[other].add(self.p, *given)
            if after.pending == self.p.arm.batch:
                after = after.moved(self.pick(other, after.k, after.direction(self.p)))
            self.arms[other] = after
            self.clocks[other] += 1
        self.round += 1
        if self.round == self.p.arms * self.p.forced_rounds:
            self.frozen = [arm.theta for arm in self.arms]
        return arm, leaves


def choice(p, t, thetas, frozen, x) -> tuple[int, bool]:
    if t < p.arms * p.forced_rounds:
        return t // p.forced_rounds, True
    allowed = list(range(p.arms))
    if np.isfinite(p.gap):
        early = [mean(p.link, theta @ x) for theta in frozen]
        allowed = [
            i for i in allowed if early[i] > max(early) - p.gap / 2 or early[i] == max(early)
        ]
    scores = [thetas[i] @ x for i in allowed]
    return allowed[int(np.argmax(scores))], False


def law(p, domain, direction, k, factor=1.0) -> np.ndarray:
    """Probabilities of the vertices of `vertices_of` in an arm's update k (exponential mechanism).

    `factor` multiplies the noise.
    """
    scores = vertices_of(domain) @ direction / (factor * p.arm.noise_scale_at(k))
    weights = np.exp(scores.min() - scores)
    return weights / weights.sum()


def transcripts(p, domain, stream, *, factor=1.0, zero_records=True):
    """Probability of every sequence of published updates, for batches of one round.

    `stream(t, path)` is the record (context, rewards) of round t after what `path` says was
    published. A path is a tuple of rounds, each a tuple of (arm, vertex) of the clocks that ran.
    Returns the probabilities, and the actions along every path.
    """
    points = vertices_of(domain)
    start = np.array(domain.center, dtype=float)
    zero = np.zeros_like(start)
    result, actions = {}, {}

    def walk(path, chosen, probability, arms, frozen):
        t = len(path)
        if t == p.arms * p.forced_rounds:
            frozen = [arm.theta for arm in arms]
        if t == p.horizon:
            result[path], actions[path] = probability, chosen
            return
        context, rewards = stream(t, path)
        _, x = clip(p, context, np.nan)
        own, forced = choice(p, t, [arm.theta for arm in arms], frozen, x)
        record, _ = clip(p, context, rewards[own])
        running = [own] if forced or not zero_records else range(p.arms)
        steps = []
        for i in running:
            after, _ = arms[i].add(p, *(record if i == own and record else (None, None)))
            chances = law(p, domain, after.direction(p), after.k, factor)
            steps.append([(i, j, chances[j], after.moved(points[j])) for j in range(len(points))])
        for combination in itertools.product(*steps):
            following, chance = list(arms), probability
            for i, _, share, after in combination:
                following[i], chance = after, chance * share
            event = tuple((i, j) for i, j, _, _ in combination)
            walk((*path, event), (*chosen, own), chance, following, frozen)

    walk((), (), 1.0, [Arm(start, start, zero, zero)] * p.arms, None)
    return result, actions
