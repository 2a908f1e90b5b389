"""Figure 5.1 of Han et al., rerun: regret of bandits under joint differential privacy.

The published bandit, simulated here, is NOT PRIVATE. It adds Laplace noise to the sizes of a
gradient's entries, selects the largest, and then moves along that coordinate in the direction that
the *unperturbed* gradient tells: one bit of raw data a round, which no amount of noise in the
selection hides. So the noise can be multiplied by any factor and the learner still learns, which is
how `figure_5_1` shows that its curve says nothing about privacy. It also lacks what a proof of
joint privacy needs: zero updates of the arms that are not chosen, and a clock of each arm's own.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from bench.reproduce.table import Columns, Progress, markdown_table
from numpy.typing import NDArray

from dpoco._validation import FloatArray, import_package, positive_float, whole_number
from dpoco.accounting import Budget
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.environments import ContextualWorld, LinearWorld
from dpoco.errors import NoiseDominatesWarning
from dpoco.evaluation.reports import Report
from dpoco.random import Source

_SPARSITY, _NOISE = 5, 0.05  # of the arms, of the rewards
_LARGER = 8.0  # the second budget, in units of the first
_SHOWN = 200  # points of a curve


class SparseWorld(LinearWorld):
    """Contexts ``z / ||z||_inf`` with z standard normal; arms with a few equal coefficients.

    Each arm has five coefficients 1/5, at random places. The paper does not describe its world;
    in this one uniformly random play has the regret per round that the published code's has.

    Parameters
    ----------
    arms, dimension, horizon, seed
        As for `LinearWorld`; `dimension` is at least five.
    """

    def __init__(self, arms: int, dimension: int, horizon: int, *, seed: int) -> None:
        super().__init__(
            arms,
            dimension,
            horizon,
            norm=np.inf,
            sparsity=_SPARSITY,
            reward_noise=_NOISE,
            seed=seed,
        )

    def _draw_coefficients(self, generator: np.random.Generator) -> FloatArray:
        drawn = super()._draw_coefficients(generator)
        coefficients: FloatArray = (drawn != 0.0) / float(_SPARSITY)
        return coefficients

    def _draw_contexts(self, generator: np.random.Generator) -> FloatArray:
        drawn = generator.standard_normal((self.horizon, self.dimension))
        drawn /= np.abs(drawn).max(axis=1, keepdims=True)
        return drawn


@dataclass(frozen=True, slots=True)
class RegretCurve:
    """One player's cumulative regret in expected rewards, over the runs.

    Attributes
    ----------
    arms : int
        K.
    player : str
        Who plays.
    private : bool
        Whether its guarantee is the stated budget, or better.
    mean : tuple of float
        Mean regret at ``Figure51.rounds``.
    totals : tuple of float
        Regret over all rounds, one entry a run.
    late : float
        Mean regret per round in the last quarter.
    """

    arms: int
    player: str
    private: bool
    mean: tuple[float, ...]
    totals: tuple[float, ...]
    late: float

    @property
    def total(self) -> float:
        """Mean regret over all rounds."""
        return float(np.mean(self.totals))

    @property
    def total_se(self) -> float:
        """Standard error of `total`."""
        return float(np.std(self.totals, ddof=1) / math.sqrt(len(self.totals)))


@dataclass(frozen=True)
class Figure51(Report):
    """Figure 5.1 rerun. Not private itself: it compares with the best arm of every round.

    Attributes
    ----------
    settings : dict
        Arguments, echoed.
    rounds : tuple of int
        Where the curves are given.
    curves : tuple of RegretCurve
        One a number of arms and player.
    seconds : float
        CPU time of everything.
    """

    schema: ClassVar[str] = "dpoco.figure-5.1/1"
    settings: dict[str, Any]
    rounds: tuple[int, ...]
    curves: tuple[RegretCurve, ...]
    seconds: float

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per curve and shown round (needs pandas)."""
        pd = import_package("pandas", "to_frame", "files")

        return pd.DataFrame(
            [
                {"arms": c.arms, "player": c.player, "round": t, "regret": value}
                for c in self.curves
                for t, value in zip(self.rounds, c.mean, strict=True)
            ]
        )

    def format_markdown(self) -> str:
        """Return total and late regrets as a Markdown table."""
        about = (
            f"Regret over {self.settings['horizon']} rounds, d = {self.settings['dimension']}, "
            f"epsilon = {self.settings['epsilon']:g}, delta = 1/T: mean of "
            f"{self.settings['runs']} worlds ± standard error; last quarter per round"
        )
        columns: Columns = {
            "K": lambda c: str(c.arms),
            "player": lambda c: c.player,
            "keeps the budget": lambda c: "yes" if c.private else "no",
            "regret": lambda c: f"{c.total:.0f} ± {c.total_se:.0f}",
            "last quarter": lambda c: f"{c.late:.4f}",
        }
        table = markdown_table(columns, self.curves)
        return f"{about}\n\n{table}\n\nCPU time {self.seconds:.0f} s."

    def __repr__(self) -> str:
        return f"<Figure51 of {len(self.curves)} curves: not private>"


def figure_5_1(
    *,
    horizon: int = 10_000,
    dimension: int = 50,
    arms: Sequence[int] = (2, 5),
    epsilon: float = 1.0,
    runs: int = 10,
    first_seed: int = 0,
    factors: Sequence[float] = (0.0, 1.0, 1000.0),
    progress: Progress | None = None,
) -> Figure51:
    """Rerun Figure 5.1 of Han et al.: regret of bandits at the budget (epsilon, 1/T).

    `HighDimensionalBandit` at the stated budget, at eight times its epsilon and without noise,
    `LinUCB` at the stated budget, uniformly random play, and the published selection with its
    noise multiplied by each of `factors`, which is not private.

    Parameters
    ----------
    horizon, dimension : int
        T, at least 100, and d, at least five. This and all following arguments are keyword-only.
    arms : sequence of int, default (2, 5)
        Numbers of arms: that of the paper's text, and that of the published code.
    epsilon : float, default 1
        Privacy budget.
    runs : int, default 10
        Worlds, at least 2.
    first_seed : int, default 0
        Seed of the first world.
    factors : sequence of float
        On the published noise, at least 0.
    progress : callable, optional
        Called as ``progress("figure", done, total)`` after every player, in rounds.

    Returns
    -------
    Figure51

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    start = time.process_time()
    horizon = whole_number("horizon", horizon, 100, 10**6)
    dimension = whole_number("dimension", dimension, _SPARSITY, 10**6)
    counts = [whole_number("arms", count, 2, 10**6) for count in arms]
    if not counts:
        raise ValueError("arms must name at least one number of arms")
    epsilon = positive_float("epsilon", epsilon)
    whole_number("runs", runs, 2, 10**6)
    whole_number("first_seed", first_seed, 0, 10**6)
    scales = [float(factor) for factor in factors]
    if any(not 0.0 <= scale < math.inf for scale in scales):
        raise ValueError("factors must be finite and at least 0")
    shown = np.unique(np.linspace(1, horizon, _SHOWN).round().astype(np.int64))
    curves: list[RegretCurve] = []
    done, total = 0, len(counts) * runs * horizon * (5 + 2 * len(scales) + 1)
    for count in counts:
        worlds: list[ContextualWorld] = [
            SparseWorld(count, dimension, horizon, seed=seed)
            for seed in range(first_seed, first_seed + runs)
        ]
        for name, private, play in _players(worlds, epsilon, scales, first_seed):
            curves.append(_curve(count, name, private, play(), shown))
            done += runs * horizon
            if progress is not None:
                progress("figure", done, total)
    settings = {
        "horizon": horizon, "dimension": dimension, "arms": counts, "epsilon": epsilon,
        "runs": runs, "first_seed": first_seed, "factors": scales,
    }  # fmt: skip
    seconds = time.process_time() - start
    return Figure51(settings, tuple(int(t) for t in shown), tuple(curves), seconds)


def _curve(
    arms: int, player: str, private: bool, regret: FloatArray, shown: NDArray[np.int64]
) -> RegretCurve:
    sums = np.cumsum(regret, axis=1)
    quarter = max(1, regret.shape[1] // 4)
    return RegretCurve(
        arms=arms,
        player=player,
        private=private,
        mean=tuple(float(value) for value in sums.mean(axis=0)[shown - 1]),
        totals=tuple(float(value) for value in sums[:, -1]),
        late=float(regret[:, -quarter:].mean()),
    )


def _players(
    worlds: list[ContextualWorld], epsilon: float, factors: Sequence[float], first_seed: int
) -> list[tuple[str, bool, Callable[[], FloatArray]]]:
    """Return name, whether the budget holds, and a function to the regret of every round."""
    first = worlds[0]
    arms, d, horizon = first.arms, first.dimension, first.horizon
    delta = 1.0 / horizon

    def learners(cls: Any, shape: Any, budget: Budget | None, **options: Any) -> FloatArray:
        rows = []
        for seed, world in enumerate(worlds, start=first_seed):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoiseDominatesWarning)  # the result says it
                learner = cls(
                    arms, shape, horizon=horizon, budget=budget, reward_bound=first.reward_bound,
                    **{"context_bound": 1.0, **options},
                    source=Source.seeded(seed),
                )  # fmt: skip
            trace = learner.run(world.contexts, world.rewards)
            rows.append(np.diff(trace.pseudo_regret(world.means), prepend=0.0))
        return np.array(rows)

    def published_rows(factor: float, shared: bool, leak: bool) -> FloatArray:
        return not_private_regrets(
            worlds, epsilon=epsilon, factor=factor, shared=shared, leak=leak,
            generator=np.random.default_rng([horizon, arms, first_seed]),
        )  # fmt: skip

    def uniform() -> FloatArray:
        return np.array([world.means.max(axis=1) - world.means.mean(axis=1) for world in worlds])

    high = partial(learners, HighDimensionalBandit, LpBall(d, 1.0, 1.0))
    stated, larger = Budget._derived(epsilon, delta), _LARGER * epsilon
    everyone: list[tuple[str, bool, Callable[[], FloatArray]]] = [
        ("uniformly random", True, uniform),
        (
            "LinUCB",
            True,
            partial(learners, LinUCB, d, stated, context_bound=math.sqrt(d), exploration=1.0),
        ),
        ("HDB", True, partial(high, stated)),
        (f"HDB, epsilon = {larger:g}", False, partial(high, Budget._derived(larger, delta))),
        ("HDB, no noise", False, partial(high, None)),
    ]
    for shared, suffix in ((False, ""), (True, ", shared gradient")):
        for factor in factors:
            name = f"published, not private, noise x {factor:g}{suffix}"
            everyone.append((name, False, partial(published_rows, factor, shared, True)))
    worst = max(factors, default=1.0)
    name = f"published without the leak, noise x {worst:g}"
    return [*everyone, (name, False, partial(published_rows, worst, False, False))]


def not_private_regrets(
    worlds: list[ContextualWorld],
    *,
    epsilon: float,
    factor: float,
    shared: bool,
    leak: bool,
    generator: np.random.Generator,
) -> FloatArray:
    """Return the regret of every round under the published selection. NOT PRIVATE.

    Parameters
    ----------
    worlds : list of ContextualWorld
        Of the same size; all are played at once.
    epsilon : float
        What the published noise is meant for, with delta = 1/T.
    factor : float
        Multiplies the published noise.
    shared : bool
        One running gradient for all arms, or one for each.
    leak : bool
        Whether the direction of a step is the unperturbed gradient's. False perturbs it along
        with the size: still not the published claim, but then noise is noise.
    generator : Generator
        NumPy's: these draws protect no one.

    Returns
    -------
    ndarray of shape (worlds, T)
    """
    first = worlds[0]
    count, arms, d, horizon = len(worlds), first.arms, first.dimension, first.horizon
    contexts = np.stack([world.contexts for world in worlds], axis=1)
    rewards = np.stack([world.rewards for world in worlds], axis=1)
    means = np.stack([world.means for world in worlds], axis=1)
    warm_up = math.floor(math.log(d * horizon) * math.log(horizon) / epsilon**2)
    # The published scale on unit steps, without the factor D (beta D + L) that it needs.
    unit = 4.0 * math.sqrt(math.log(horizon) * math.log(horizon)) / epsilon
    row = np.arange(count)
    theta = np.zeros((count, arms, d))
    before = theta.copy()
    gradient = np.zeros((count, 1 if shared else arms, d))
    regret = np.empty((horizon, count))
    for t in range(horizon):
        x = contexts[t]
        if t < arms * warm_up:
            arm, clock = np.full(count, t // warm_up), t % warm_up + 1
        else:
            arm, clock = np.argmax(np.einsum("wkd,wd->wk", theta, x), axis=1), t + 1
        regret[t] = means[t].max(axis=1) - means[t, row, arm]
        slot = np.zeros(count, dtype=np.int64) if shared else arm
        own = theta[row, arm]
        residual = np.einsum("wd,wd->w", own, x) - rewards[t, row, arm]
        earlier = np.einsum("wd,wd->w", before[row, arm], x) - rewards[t, row, arm]
        kept = 1.0 - 1.0 / (clock + 1.0)
        now = residual[:, None] * x + kept * (gradient[row, slot] - earlier[:, None] * x)
        gradient[row, slot] = now
        noise = generator.laplace(0.0, 1.0, (count, d)) * (factor * unit / math.sqrt(clock))
        size = np.abs(now) + noise if leak else np.abs(now + noise)
        chosen = np.argmax(size, axis=1)
        direction = now if leak else now + noise
        moved = own * (1.0 - 1.0 / (clock + 1.0))
        moved[row, chosen] -= np.sign(direction[row, chosen]) / (clock + 1.0)
        before[row, arm], theta[row, arm] = own, moved
    return regret.T
