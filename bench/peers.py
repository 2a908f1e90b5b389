"""Rows of docs/performance.md: rounds and draws of NumPy and Numba, and their noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import bandit_cases
import cases
import expert_cases
import noisy_ftrl_cases
import numba_hedge
import numba_polyhedral
import numba_selection
import numba_tree
import numpy as np
import polyhedral_cases
from measurement import cpu_seconds
from numpy.typing import NDArray

import dpoco
from dpoco import experts, noise

FloatArray = NDArray[np.float64]
Action = Callable[[], object]
PURE = dpoco.Budget(epsilon=1.0, delta=0.0)


@dataclass
class Peer:
    """A pair that is measured in turns; `units` are rounds or variates of a call."""

    name: str
    ours: Action
    units: int
    against: str = ""
    theirs: Action | None = None
    draws: int = 0  # Gaussian variates that a round of ours draws
    least: float = math.inf
    theirs_least: float = math.inf

    def measure(self) -> None:
        self.least = min(self.least, self._warm(self.ours))
        if self.theirs is not None:
            self.theirs_least = min(self.theirs_least, self._warm(self.theirs))

    def _warm(self, action: Action) -> float:
        """Nanoseconds of the second of two calls: both sides find their data in the caches."""
        action()
        return 1e9 * cpu_seconds(action) / self.units


def draws() -> Iterator[Peer]:
    source, generator, size = dpoco.random.Source(), np.random.default_rng(), 200_000
    out = np.empty(size)
    wide = np.empty((size // 10, 10))
    fill = "a variate of many: "
    yield Peer(
        f"{fill}Gaussian", partial(noise.gaussian, source, out=out), size,
        "NumPy", partial(generator.standard_normal, out=out),
    )  # fmt: skip
    yield Peer(
        f"{fill}Laplace", partial(noise.laplace, source, out=out), size,
        "NumPy", partial(generator.laplace, size=size),
    )  # fmt: skip
    yield Peer(
        f"{fill}Gamma, shape 2.5", partial(noise.gamma, source, 2.5, out=out), size,
        "NumPy", partial(generator.standard_gamma, 2.5, out=out),
    )  # fmt: skip
    yield Peer(
        f"{fill}generalized Gaussian, order 3, d = 10",
        partial(noise.generalized_gaussian, source, 10, 3.0, out=wide), size,
    )  # fmt: skip
    count = 5000
    yield Peer(
        "one Gaussian variate a call", partial(repeat, partial(noise.gaussian, source), count),
        count, "NumPy", partial(repeat, generator.standard_normal, count),
    )  # fmt: skip


def repeat(call: Action, count: int) -> None:
    for _ in range(count):
        call()


def sums() -> Iterator[Peer]:
    for d in (10, 100, 1000):
        values = cases.vectors(200_000 // d, d)
        total = dpoco.mechanisms.ContinualSum(
            d, horizon=cases.HORIZON, budget=cases.BUDGET, bound=1.0
        )
        scale = cases.continual_sum(d, "tree").plan.mechanism.scale
        _, tree = numba_tree.fastest(d, scale, values)
        yield Peer(
            f"`ContinualSum.run`, d = {d}", partial(total.run, values), len(values),
            "Numba, binary tree", partial(tree.run, values), draws=d,
        )  # fmt: skip


def vectors() -> Iterator[Peer]:
    for d, p in ((10, 2.0), (10, math.inf), (10, 1.5), (100, 2.0)):
        features, labels = cases.records(200_000 // d, d, p)
        ours = cases.learner(d, p)
        theirs = cases.compiled_learner(ours, p)
        theirs.run(features[:10], labels[:10])  # compiles
        yield Peer(
            f"`TreeFrankWolfe.run`, d = {d}, p = {p:g}",
            partial(ours.run, features, labels, record_decisions=False), len(labels),
            "Numba, binary tree", partial(theirs.run, features, labels), draws=d,
        )  # fmt: skip
    for d in (10, 30, 100):
        loss = dpoco.losses.SquaredLoss(1.0, 1.0)
        leader = noisy_ftrl_cases.leader(d, loss, statistics="quadratic")
        features = noisy_ftrl_cases.records(20_000 // d, d)
        labels = np.clip(features[:, 0], -1.0, 1.0)
        yield Peer(
            f'`NoisyFTRL.run`, `statistics="quadratic"`, d = {d}',
            partial(leader.run, features, labels), len(labels),
        )  # fmt: skip
    d = 10**5
    features, labels = polyhedral_cases.records(20, d)
    for name, keeps in (("", False), (", recorded", True)):
        ours = polyhedral_cases.learner(d, "gumbel", horizon=10**8)
        theirs = polyhedral_cases.twin(ours, "gumbel")
        yield Peer(
            f"`PolyhedralFrankWolfe.run`, d = {d:,}, an update a round{name}",
            partial(ours.run, features, labels, record_decisions=keeps), len(labels),
            "NumPy", partial(theirs.run, features, labels),
        )  # fmt: skip
    ours = polyhedral_cases.learner(d, "gumbel", horizon=10**8)
    own = ours.plan.mechanism
    compiled = numba_polyhedral.Polyhedral(
        d, scale=own.scale, exponent=own.exponent, bound=own.scores.slope
    )
    compiled.run(features[:2], labels[:2])  # compiles
    yield Peer(
        f"`PolyhedralFrankWolfe.run`, d = {d:,}, an update a round",
        partial(ours.run, features, labels, record_decisions=False), len(labels),
        "Numba", partial(compiled.run, features, labels),
    )  # fmt: skip


def check_compiled_selection() -> None:
    """Raise unless, where noise is next to nothing, the compiled decision is ours."""
    features, labels = polyhedral_cases.records(40, 6)
    ours = polyhedral_cases.learner(6, "gumbel", horizon=40, private=False)
    own = ours.plan.mechanism
    theirs = numba_polyhedral.Polyhedral(
        6, scale=1e-12, exponent=own.exponent, bound=own.scores.slope
    )
    theirs.run(features, labels)
    ours.run(features, labels)
    np.testing.assert_allclose(theirs.decision, ours.last_decision, atol=1e-12)


def choices() -> Iterator[Peer]:
    for n in (10, 1000):
        losses = expert_cases.make_losses(200_000 // n, n)
        ours: Any = experts.PrefixHedge(n, horizon=expert_cases.ROUNDS, budget=cases.BUDGET)
        eta = ours.plan.tuning.learning_rate
        ours = experts.PrefixHedge(n, horizon=10**9, budget=cases.BUDGET)
        _, hedge = numba_hedge.fastest(n, expert_cases.tree_scale(n), eta, losses)
        yield Peer(
            f"`PrefixHedge.run`, N = {n}", partial(ours.run, losses), len(losses),
            "Numba, binary tree", partial(hedge.run, losses), draws=n,
        )  # fmt: skip
    losses = expert_cases.make_losses(4096, 100)
    for where, given in (("", losses), (", losses in [-1, 2]", 3.0 * losses - 1.0)):
        ours = experts.EpochSelector(100, horizon=10**9, budget=PURE)
        epochs = numba_selection.Epochs(100, scale=2.0)
        epochs.run(losses[:10])  # compiles
        yield Peer(
            f"`EpochSelector.run`, N = 100{where}", partial(ours.run, given), len(given),
            "Numba", partial(epochs.run, given),
        )  # fmt: skip
    losses = losses[:1000]
    for law in ("gaussian", "laplace"):
        budget = PURE if law == "laplace" else cases.BUDGET
        ours = experts.BatchShare(
            100, horizon=10**9, budget=budget, switches=5, batch=1, noise=law  # type: ignore[arg-type]
        )  # fmt: skip
        p = ours.plan
        shares = numba_selection.Shares(
            100, scale=p.mechanism.scale, eta=p.tuning.learning_rate,
            share=p.tuning.share_rate, gaussian=law == "gaussian",
        )  # fmt: skip
        shares.run(losses[:10])
        yield Peer(
            f"`BatchShare.run`, {law}, a release a round, N = 100", partial(ours.run, losses),
            len(losses), f"Numba, {law.title()}", partial(shares.run, losses),
            draws=100 if law == "gaussian" else 0,
        )  # fmt: skip
    for d, batch in ((10, 1), (50, 1), (50, None)):
        data = bandit_cases.records(5, d, 500 if batch else 5000)
        bandit = bandit_cases.learner(5, d, batch=batch)
        every = "a release a round" if batch else "batches as calibrated"
        yield Peer(
            f"`LinUCB.run`, d = {d}, 5 arms, {every}", partial(bandit.run, *data), len(data[0])
        )


def peers() -> list[Peer]:
    """All of them; measure them in turns."""
    check_compiled_selection()
    return [*draws(), *sums(), *vectors(), *choices()]
