"""A private contextual bandit, and everything it should be compared with, on one table of rewards.

Classification data become a bandit problem as in Beygelzimer and Langford, "The offset tree for
learning with partial labels" (2009): an arm is a class, and only the chosen one is told right or
wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from dpoco._validation import FloatArray, float_array, positive_int, real_float
from dpoco.accounting import Budget
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import Domain
from dpoco.evaluation._game import Comparators, Game, Step, horizon_of, play_game, totals
from dpoco.evaluation._private import own_noise
from dpoco.evaluation._report import RunReport
from dpoco.evaluation._runs import Snapshot
from dpoco.random import Source
from dpoco.trace import Flags


def class_rewards(labels: Any, classes: int, *, first: int = 0) -> FloatArray:
    """Return the rewards of a classification problem whose arms are its classes.

    Parameters
    ----------
    labels : array_like of shape (T,)
        Codes of the classes: whole numbers from `first` on.
    classes : int
        Number of classes, which is public; at least 2.
    first : int, default 0
        Code of the first class.

    Returns
    -------
    ndarray of float64, shape (T, classes)
        1 for the arm of the right class and 0 for the others; 0 for all where the label is none of
        the classes, NaN where it is not finite.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    codes = float_array("labels", labels, (None,))
    count = positive_int("classes", classes)
    if count < 2:
        raise ValueError("classes must be at least 2")
    if isinstance(first, bool) or not isinstance(first, int):
        raise TypeError(f"first must be int; got {type(first).__name__}")
    table = (codes[:, None] == np.arange(first, first + count)).astype(np.float64)
    table[~np.isfinite(codes)] = np.nan
    rewards: FloatArray = table
    return rewards


class BanditProblem:
    """Contexts and rewards as learners are given them, and the comparators in hindsight.

    Learners declare rewards in [-b, b]: rewards of a range are shifted to its middle, so that the
    noise is for a range that is used. With a logistic link they are in [0, 1] as they are.
    """

    def __init__(
        self, contexts: Any, rewards: Any, reward_range: tuple[float, float], link: str
    ) -> None:
        self.contexts = float_array("contexts", contexts, (None, None))
        table = float_array("rewards", rewards, (len(self.contexts), None))
        if table.size == 0 or self.contexts.size == 0:
            raise ValueError("contexts and rewards must have rounds and columns")
        low, high = _range_of(reward_range)
        if link == "logistic":
            if (low, high) != (0.0, 1.0):
                raise ValueError("rewards of a logistic link must have the range (0, 1)")
            self.bounds = (0.0, 1.0)
            self.table = table
            self.declared: dict[str, Any] = {}
        else:
            half = (high - low) / 2.0
            self.bounds = (-half, half)
            self.table = table - (low + half)
            self.declared = {"reward_bound": half}

    @property
    def arms(self) -> int:
        """Number of arms K."""
        return int(self.table.shape[1])

    @property
    def dimension(self) -> int:
        """Length d of a context."""
        return int(self.contexts.shape[1])

    def losses(self, part: slice = slice(None)) -> FloatArray:
        """Return what all arms lose in the rounds of a slice, shape (n, K)."""
        low, high = self.bounds
        rows = self.table[part]
        # As learners read them: a missing reward counts as 0.
        lost: FloatArray = high - np.where(np.isfinite(rows), np.clip(rows, low, high), 0.0)
        return lost

    def linear_policy(self, part: slice = slice(None)) -> tuple[FloatArray, FloatArray]:
        """Return the least-squares policy in hindsight: weights (d, K) and losses (n,)."""
        rows = self.contexts[part]
        # As learners read them: a context that is not finite counts as zero.
        contexts = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
        losses = self.losses(part)
        rewards = self.bounds[1] - losses
        weights = np.asarray(np.linalg.lstsq(contexts, rewards, rcond=None)[0], np.float64)
        chosen = np.argmax(contexts @ weights, axis=1)
        return weights, losses[np.arange(len(losses)), chosen]


def compare_private_bandit(
    contexts: Any,
    rewards: Any,
    learner: Callable[..., Any],
    *,
    budget: Budget,
    reward_range: tuple[float, float] = (0.0, 1.0),
    domain: Domain | None = None,
    horizon: int | None = None,
    repeats: int = 1,
    seed: int | None = None,
    progress: Step | None = None,
    snapshot: Callable[[Snapshot], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: Any = None,
    skip_played: bool = False,
    stream: dict[str, Any] | None = None,
    nonprivate_flags: Flags | None = None,
    **options: Any,
) -> RunReport:
    """Play a private contextual bandit, and everything it should be compared with.

    As `compare_private`. A learner sees the reward of its own arm only; the comparators see all:
    the linear policy that least squares fit in hindsight, the best single arm, and an arm drawn
    anew each round, uniformly, in expectation. The best of all linear policies is hard to find:
    regret is against the fitted one, and may be negative.

    Parameters
    ----------
    contexts : array_like of shape (T, d)
        One context a round; rounds past the horizon are left out.
    rewards : array_like of shape (T, K)
        Rewards of all arms, for example from `class_rewards`.
    learner : class
        `dpoco.bandits.LinUCB` or `dpoco.bandits.HighDimensionalBandit`.
    reward_range : tuple of two floats, default (0, 1)
        Public range of the rewards, declared to the learner; values outside are clipped, and one
        that is missing counts as its middle (0 with a logistic link).
    domain : Domain, optional
        Where the coefficients of an arm lie: for `HighDimensionalBandit`, and only for it.
    stream : dict, optional
        Public facts about the stream for the report; ``name``, ``description``, ``scaling``.
    nonprivate_flags : mapping of str to ndarray of bool, optional
        What was done to the stream before, of shape (T,) or (T, columns), for the report's
        ``nonprivate_records``: as `dpoco.datasets.Stream` has it.
    budget, horizon, repeats, seed, progress, snapshot, checkpoint, resume, skip_played, **options
        As in `compare_private`; ``reward_bound`` is set.

    Returns
    -------
    RunReport
        Losses are the largest reward of the range minus the reward: of a classification problem
        without missing labels, the average loss is the share of wrong arms. ``best_fixed`` is the
        fitted policy, ``best_constant`` the best single arm, ``others`` the random one.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        As `compare_private`.
    """
    many = learner is HighDimensionalBandit
    if many != isinstance(domain, Domain):
        raise TypeError("domain belongs to HighDimensionalBandit, which needs one")
    link = str(options.get("link", "identity"))
    if len(contexts) != len(rewards):
        raise ValueError("contexts and rewards must have the same number of rounds")
    rounds = horizon_of(horizon, len(contexts), resume)
    problem = BanditProblem(contexts, rewards, reward_range, link)
    options = {**options, **problem.declared}
    shape: tuple[Any, ...] = (problem.arms, domain if many else problem.dimension)

    def build(source: Source | None, spent: Budget | None) -> Any:
        return learner(*shape, horizon=rounds, budget=spent, source=source, **options)

    def comparators(part: slice) -> Comparators:
        weights, fitted = problem.linear_policy(part)
        losses = problem.losses(part)
        arm = int(np.argmin(losses.sum(axis=0)))
        return Comparators(
            {
                "name": "least-squares linear policy",
                "decision": weights.T.tolist(),
                **totals(fitted),
            },
            np.cumsum(fitted),
            {"name": "best single arm", "decision": arm, **totals(losses[:, arm])},
            np.cumsum(losses[:, arm]),
        )

    def others(part: slice) -> tuple[dict[str, Any], ...]:
        mean = problem.losses(part).mean(axis=1)
        return ({"name": "uniformly random arm", **totals(mean)},)

    policies = {"type": "policies", "arms": problem.arms, "dimension": problem.dimension}
    facts = {"name": "contexts", "description": "Contexts and rewards", "scaling": "none"}
    game = Game(
        build=build,
        data=(problem.contexts, problem.table),
        comparators=comparators,
        noise=_noise,
        problem=("arms", "domain" if many else "dimension"),
        domain=policies if domain is None else {**policies, "coefficients": domain.to_dict()},
        loss={"type": "largest reward - reward", "reward_range": [float(v) for v in reward_range]},
        stream={
            **facts, **(stream or {}), "dimension": problem.dimension, "arms": problem.arms,
        },
        run_options={},
        options=options,
        others=others,
        nonprivate_flags=nonprivate_flags or {},
    )  # fmt: skip
    return play_game(
        game,
        budget=budget,
        horizon=rounds,
        repeats=repeats,
        seed=seed,
        progress=progress,
        snapshot=snapshot,
        checkpoint=checkpoint,
        resume=resume,
        skip_played=skip_played,
    )


def _range_of(reward_range: Any) -> tuple[float, float]:
    try:
        low, high = reward_range
    except (TypeError, ValueError):
        raise TypeError("reward_range must be a pair (low, high)") from None
    low, high = real_float("reward_range", low), real_float("reward_range", high)
    if not low < high:
        raise ValueError("reward_range must be (low, high) with low < high")
    return low, high


def _noise(parameters: Any) -> dict[str, Any]:
    """Scale of the noise of the sums, or of every arm's learner."""
    return own_noise(getattr(parameters, "arm", parameters))
