"""Convex losses: river and NumPy loops next to the learners of `oco` and `frank_wolfe`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from numpy_loops import LEVELS, POOL_ENTRIES, clip_rows
from side_measure import BUDGETS, PRIVATE, SEEDS, Action, Calibrated, Case, Contender, Regrets

import dpoco
from dpoco.accounting import continual_sum, gaussian
from dpoco.evaluation import best_fixed_decision

FloatArray = NDArray[np.float64]

# Factors on the proven step: "best step" is the best of them, chosen in hindsight for free.
FACTORS = (1.0, 0.3, 3.0, 10.0, 30.0)
RIVER_STEPS = (0.01, 0.1, 1.0)  # the first is river's default


def normals(seed: int, count: int, shape: tuple[int, ...]) -> Iterator[FloatArray]:
    """Standard normal arrays, drawn in large pools."""
    generator = np.random.default_rng(seed)
    pool = np.empty((max(1, POOL_ENTRIES // math.prod(shape)), *shape))
    while count > 0:
        part = pool[:count]
        generator.standard_normal(out=part)
        yield from part
        count -= len(part)


def tree_noise(draws: Iterator[FloatArray], shape: tuple[int, ...]) -> Iterator[FloatArray]:
    """Noise of the prefixes of a binary tree, one fresh draw per completed node."""
    prefix = [np.zeros(shape) for _ in range(LEVELS)]
    zero = np.zeros(shape)
    for t, draw in enumerate(draws, 1):
        before = t & (t - 1)
        base = prefix[(before & -before).bit_length() - 1] if before else zero
        noise = prefix[(t & -t).bit_length() - 1]
        np.add(base, draw, noise)
        yield noise


class Problem:
    """A stream per seed (or one for all), a ball of decisions, and the regret of margins."""

    def __init__(self, loss: Any, radius: float, streams: list[Any], slope_bound: float) -> None:
        d = streams[0].dimension
        self.loss, self.radius = loss, radius
        self.domain = dpoco.domains.LpBall(d, 2.0, radius)
        self.gradient_bound = loss.feature_bound * slope_bound
        self.logistic = isinstance(loss, dpoco.losses.LogisticLoss)
        # Shape (T, streams, d): the bounds are public and clipped to, as our learners do.
        self.features = np.stack([clip_rows(s.features, loss.feature_bound) for s in streams], 1)
        low = 0.0 if self.logistic else -loss.label_bound
        self.labels = np.clip(np.stack([s.labels for s in streams], 1), low, -low or 1.0)
        self.rounds, self.streams, self.dimension = self.features.shape

    @cached_property
    def best(self) -> FloatArray:
        return np.array(
            [
                best_fixed_decision(self.domain, self.loss, *self.stream(i)).average_loss
                for i in range(self.streams)
            ]
        )

    def stream(self, seed: int) -> tuple[FloatArray, FloatArray]:
        i = seed % self.streams
        return self.features[:, i], self.labels[:, i]

    def regret(self, margins: FloatArray) -> FloatArray:
        """Regret per round, shape (runs,), of margins (T, runs); runs go through the seeds."""
        runs = np.arange(margins.shape[1]) % self.streams
        labels = self.labels[:, runs]
        if self.logistic:
            losses = np.logaddexp(0.0, margins) - labels * margins
        else:
            losses = (margins - labels) ** 2
        out: FloatArray = losses.mean(axis=0) - self.best[runs]
        return out

    # Noise scale and step of the three private loops, all mu-GDP by `dpoco.accounting`.

    def law(self, method: str, budget: dpoco.Budget | None) -> tuple[float, float]:
        """Return the scale of one draw and the proven step size."""
        t, d, g = self.rounds, self.dimension, self.gradient_bound
        scale = typical = 0.0
        if budget is not None:
            mu = gaussian.gaussian_mu(budget.epsilon, budget.delta)
            moved = 2.0 * g  # two gradients of norm at most g
            if method == "tree":
                scale = continual_sum.noise_sigma("tree", t, moved, mu)
                typical = scale * continual_sum.root_mean_square_row("tree", t)
            elif method == "fresh":  # every prefix is its own release, and all are composed
                scale = typical = moved * math.sqrt(t - 1.0) / mu
            else:  # one gradient depends on a record: nothing to compose
                scale = typical = moved / mu
        noise = math.sqrt(d) * typical
        square = g * g + (noise * noise if method == "descent" else 2.0 * g * noise)
        return scale, self.radius / math.sqrt(t * square)


def noise_rows(
    problem: Problem, method: str, shape: tuple[int, ...], seed: int
) -> Iterator[FloatArray]:
    draws = normals(seed, problem.rounds, shape)
    return tree_noise(draws, shape) if method == "tree" else draws


def many(problem: Problem, method: str, scales: FloatArray, steps: FloatArray) -> FloatArray:
    """Margins (T, runs) of many runs of a loop at once, vectorised over runs."""
    runs, d, radius = len(scales), problem.dimension, problem.radius
    scale, step = scales[:, None], -steps[:, None]
    features = problem.features[:, np.arange(runs) % problem.streams]
    labels = problem.labels[:, np.arange(runs) % problem.streams]
    theta, total = np.zeros((runs, d)), np.zeros((runs, d))
    margins = np.empty((problem.rounds, runs))
    logistic, descent = problem.logistic, method == "descent"
    slope = 1.0 if logistic else 2.0
    for t, noise in enumerate(noise_rows(problem, method, (runs, d), seed=1)):
        x = features[t]
        margin = np.einsum("rd,rd->r", theta, x, out=margins[t])
        guess = 1.0 / (1.0 + np.exp(-margin)) if logistic else margin
        gradient = (guess - labels[t])[:, None] * (slope * x)
        if descent:
            theta = theta + step * (gradient + scale * noise)
        else:
            total += gradient
            theta = step * (total + scale * noise)
        norms = np.sqrt(np.einsum("rd,rd->r", theta, theta))
        theta *= np.minimum(1.0, radius / np.maximum(norms, 1e-300))[:, None]
    return margins


def one(problem: Problem, method: str, budget: dpoco.Budget | None) -> FloatArray:
    """The same loop for one run, as fast as NumPy gets: what is timed."""
    scale, step = problem.law(method, budget)
    features, labels = problem.stream(0)
    d, radius = problem.dimension, problem.radius
    theta, total, scaled = np.zeros(d), np.zeros(d), np.empty(d)
    margins = np.empty(problem.rounds)
    logistic, descent = problem.logistic, method == "descent"
    noises = noise_rows(problem, method, (d,), seed=1)
    for t, (x, y, noise) in enumerate(zip(features, labels.tolist(), noises, strict=True)):
        margin = float(theta @ x)
        margins[t] = margin
        slope = 1.0 / (1.0 + math.exp(-margin)) - y if logistic else 2.0 * (margin - y)
        np.multiply(noise, scale, scaled)
        scaled += slope * x
        if descent:
            scaled *= -step
            theta += scaled
        else:
            total += slope * x
            scaled -= slope * x
            np.add(scaled, total, theta)
            theta *= -step
        square = float(theta @ theta)
        if square > radius * radius:
            theta *= radius / math.sqrt(square)
    return margins


class Loop:
    """A NumPy loop: all seeds, budgets and steps in one pass, kept for its two lines."""

    def __init__(self, problem: Problem, method: str, budgets: tuple[str, ...]) -> None:
        self._problem, self._method, self._budgets = problem, method, budgets

    @cached_property
    def _table(self) -> FloatArray:
        """Regrets of shape (budgets, factors, seeds)."""
        problem, seeds = self._problem, SEEDS
        if self._budgets == ("no privacy",):
            seeds = problem.streams
        shape = len(self._budgets), len(FACTORS), seeds
        laws = np.array([problem.law(self._method, BUDGETS[name]) for name in self._budgets])
        scales = np.broadcast_to(laws[:, 0, None, None], shape).ravel()
        steps = laws[:, 1, None, None] * np.array(FACTORS)[None, :, None]
        steps = np.broadcast_to(steps, shape).ravel()
        return problem.regret(many(problem, self._method, scales, steps)).reshape(shape)

    def proven(self) -> Regrets:
        return dict(zip(self._budgets, self._table[:, 0], strict=True))

    def hindsight(self) -> Regrets:
        best = self._table.mean(axis=2).argmin(axis=1)
        return {n: rows[k] for n, rows, k in zip(self._budgets, self._table, best, strict=True)}

    def prepare(self) -> Action:
        return partial(one, self._problem, self._method, BUDGETS[self._budgets[0]])


def river_model(problem: Problem, step: float) -> Any:
    from river import linear_model, optim

    kind = linear_model.LogisticRegression if problem.logistic else linear_model.LinearRegression
    return kind(optimizer=optim.SGD(step), intercept_lr=0.0)  # the streams have their constant


def river_run(problem: Problem, model: Any, records: list[dict[int, float]], y: Any) -> FloatArray:
    margins = np.empty(len(records))
    for t, (x, label) in enumerate(zip(records, y, strict=True)):
        if problem.logistic:
            p = min(max(model.predict_proba_one(x)[True], 1e-15), 1.0 - 1e-15)
            margins[t] = math.log(p / (1.0 - p))
        else:
            margins[t] = model.predict_one(x)
        model.learn_one(x, label)
    return margins


def river_records(problem: Problem, seed: int) -> tuple[list[dict[int, float]], list[Any]]:
    features, labels = problem.stream(seed)
    records = [dict(enumerate(row)) for row in features.tolist()]
    return records, (labels > 0.5).tolist() if problem.logistic else labels.tolist()


def river_lines(problem: Problem) -> list[Contender]:
    name = "LogisticRegression" if problem.logistic else "LinearRegression"

    def regrets(steps: tuple[float, ...]) -> Regrets:
        found = []
        for step in steps:
            margins = [
                river_run(problem, river_model(problem, step), *river_records(problem, seed))
                for seed in range(problem.streams)
            ]
            found.append(problem.regret(np.stack(margins, axis=1)))
        return {"no privacy": min(found, key=lambda row: float(row.mean()))}

    def prepare(records: Any = None) -> Action:
        return partial(river_run, problem, river_model(problem, RIVER_STEPS[0]), *records)

    return [
        Contender(
            f"river {name}",
            "non-private",
            partial(regrets, RIVER_STEPS[:1]),
            partial(prepare, river_records(problem, 0)),
        ),
        Contender(f"river {name}, best step", "non-private", partial(regrets, RIVER_STEPS)),
    ]


def ours(problem: Problem, kind: Any, **options: Any) -> Calibrated:
    return Calibrated(
        partial(kind, problem.domain, problem.loss, horizon=problem.rounds, **options)
    )


def play(problem: Problem, build: Calibrated, column: str) -> FloatArray:
    """Regret per round of every seed."""
    runs = SEEDS if BUDGETS[column] is not None else problem.streams
    losses = [build(column, seed).run(*problem.stream(seed)).losses.mean() for seed in range(runs)]
    return np.array(losses) - problem.best[np.arange(runs) % problem.streams]


def our_line(problem: Problem, name: str, kind: Any, **options: Any) -> Contender:
    build = ours(problem, kind, **options)

    def regrets() -> Regrets:
        return {column: play(problem, build, column) for column in BUDGETS}

    def prepare() -> Action:
        return partial(build(PRIVATE[0], 0).run, *problem.stream(0))

    return Contender(name, "ours", regrets, prepare)


def our_best_step(problem: Problem) -> Contender:
    """`NoisyFTRL` with the advantage that the loops' "best step" has."""
    kind = dpoco.oco.NoisyFTRL

    def best(column: str) -> FloatArray:
        proven = ours(problem, kind)(column, 0).plan.tuning.step_size
        builds = [ours(problem, kind, step_size=f * proven) for f in FACTORS]
        rows = [play(problem, build, column) for build in builds]
        return min(rows, key=lambda row: float(row.mean()))

    return Contender("NoisyFTRL, best step", "ours", lambda: {c: best(c) for c in BUDGETS})


LOOPS = {
    "descent": "DP-SGD, fresh noise on every gradient",
    "fresh": "leader, fresh noise on every sum, composed",
    "tree": "DP-FTRL, tree noise",
}
TREE = LOOPS["tree"]


def contenders(problem: Problem) -> list[Contender]:
    free = Loop(problem, "descent", ("no privacy",))
    gradient_descent = "online gradient descent, NumPy"
    lines = [
        *river_lines(problem),
        Contender(gradient_descent, "non-private", free.proven, free.prepare),
        Contender(f"{gradient_descent}, best step", "non-private", free.hindsight),
    ]
    for method, name in LOOPS.items():
        loop = Loop(problem, method, PRIVATE)
        lines.append(Contender(name, "simple", loop.proven, loop.prepare))
        lines.append(Contender(f"{name}, best step", "simple", loop.hindsight))
    lines.append(our_line(problem, "NoisyFTRL", dpoco.oco.NoisyFTRL))
    foreseen = {"step_size": "predicted"}
    lines.append(our_line(problem, "NoisyFTRL, predicted step", dpoco.oco.NoisyFTRL, **foreseen))
    lines.append(our_best_step(problem))
    if problem.logistic:
        lines.append(our_line(problem, "NoisyNewton", dpoco.oco.NoisyNewton))
    else:
        quadratic = {"statistics": "quadratic"}
        name = "NoisyFTRL, quadratic statistics"
        lines.append(our_line(problem, name, dpoco.oco.NoisyFTRL, **quadratic))
    lines.append(our_line(problem, "TreeFrankWolfe", dpoco.frank_wolfe.TreeFrankWolfe))
    leader = dpoco.oco.CoupledRegularizedLeader
    lines.append(our_line(problem, "CoupledRegularizedLeader", leader))
    return lines


def classification(name: str) -> Case:
    stream = dpoco.datasets.load(name).take(20_000)
    d = stream.dimension
    loss = dpoco.losses.LogisticLoss(feature_bound=math.sqrt(d))
    problem = Problem(loss, 4.0, [stream], slope_bound=1.0)
    title = f"{name}, logistic loss, T = {len(stream):,}, d = {d}"
    return Case(name, title, len(stream), TREE, contenders(problem))


def regression(rounds: int = 20_000, d: int = 10) -> Case:
    streams = [
        dpoco.datasets.linear_regression_stream(rounds, d, seed=seed, target="gaussian")
        for seed in range(SEEDS)
    ]
    loss = dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
    problem = Problem(loss, 1.0, streams, slope_bound=4.0)  # 2 |<theta, x> - y|, all in [-1, 1]
    title = f"simulated regression, squared loss, T = {rounds:,}, d = {d}"
    return Case("regression", title, rounds, TREE, contenders(problem))


CASES: dict[str, Callable[[], Case]] = {
    "shuttle": partial(classification, "shuttle"),
    "phishing": partial(classification, "phishing"),
    "regression": regression,
}
