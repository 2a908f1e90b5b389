"""Bandits on logged data: logs, replay of a learner, and the value of a policy by propensities.

Sources: Li, Chu, Langford and Wang, "Unbiased offline evaluation of contextual-bandit-based news
article recommendation algorithms" (2011) for replay; Swaminathan and Joachims, "The self-normalized
estimator for counterfactual learning" (2015).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpoco._validation import (
    Fields,
    FloatArray,
    IntArray,
    float_array,
    positive_float,
    positive_int,
)
from dpoco.datasets import open_table


@dataclass(frozen=True, eq=False)
class LoggedBandit:
    """Log of another policy: events in order of arrival. Raw data, **not private**.

    Attributes
    ----------
    contexts : ndarray of float64, shape (n, d)
        One context per event.
    actions : ndarray of int64, shape (n,)
        Arms that were chosen, in 0..K-1.
    rewards : ndarray of float64, shape (n,)
        Rewards of those arms; NaN if a reward never came.
    propensities : ndarray of float64, shape (n,), or None
        Probabilities in [1e-100, 1] with which the logging policy chose those arms.
    arms : int
        Number of arms K.
    context_names : tuple of str
        Names of the d columns.

    Raises
    ------
    ValueError, TypeError
        If shapes disagree, or actions or propensities are out of range.
    """

    contexts: FloatArray
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray | None
    arms: int
    context_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate and freeze."""
        arms = positive_int("arms", self.arms)
        contexts = float_array("contexts", self.contexts, (None, None))
        n = contexts.shape[0]
        actions = np.asarray(self.actions)
        if actions.dtype.kind not in "iu" or actions.shape != (n,):
            raise ValueError(f"actions must be integers of shape ({n},)")
        if n and not (actions.min() >= 0 and actions.max() < arms):
            raise ValueError(f"actions must be in 0..{arms - 1}")
        values: Fields = {
            "contexts": contexts,
            "actions": np.ascontiguousarray(actions, dtype=np.int64),
            "rewards": float_array("rewards", self.rewards, (n,)),
        }
        if self.propensities is not None:
            known = float_array("propensities", self.propensities, (n,))
            # Then squares of weights are at most 1e200 and do not overflow.
            if not np.all((known >= 1e-100) & (known <= 1.0)):
                raise ValueError("propensities must be in [1e-100, 1]")
            values["propensities"] = known
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    def __repr__(self) -> str:
        return f"<dpoco.LoggedBandit of {len(self)} events, {self.arms} arms: raw data>"


def load_logged_bandit(
    path: str | os.PathLike[str],
    *,
    action: str,
    reward: str,
    propensity: str | None = None,
    context: Sequence[str] | None = None,
    arms: int | None = None,
    header: bool | None = None,
) -> LoggedBandit:
    """Read a log from a table whose rows are events, in order of arrival.

    Parameters
    ----------
    path : path-like
        ``.csv``, ``.csv.gz``, ``.parquet`` or ``.npz``, as for `dpoco.datasets.load_file`.
    action, reward : str
        Names of the columns of the chosen arm (an integer from 0) and of its reward.
    propensity : str, optional
        Name of the column of the probability with which the arm was chosen.
    context : sequence of str, optional
        Names of the context's columns, in order; default all other columns.
    arms : int, optional
        Number of arms K; default one more than the largest action in the file.
    header : bool, optional
        As for `dpoco.datasets.load_file`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        As `dpoco.datasets.load_file`, and if actions or propensities are out of range. Messages
        name columns, never values.
    """
    special = [action, reward, *([] if propensity is None else [propensity])]
    if len(set(special)) < len(special):
        raise ValueError("action, reward and propensity must be different columns")
    table, others = open_table(path, header=header, fewest=2), context
    if others is None:
        others = [name for name in table.names if name not in special]
    if len(set(others)) < len(others):
        raise ValueError("a column is named twice")
    if not others:
        raise ValueError(f"{Path(path).name} has no context column")
    table.check([*others, *special])
    cells, width = table.select([*others, *special]), len(others)
    # Tables contain doubles, so codes of arms are checked before they become integers.
    chosen = cells[:, width]
    # NaN does not equal its own floor, so it is refused here as well.
    if not np.all((chosen == np.floor(chosen)) & (chosen >= 0.0) & (chosen < 2.0**31)):
        raise ValueError(f"column {action!r} must hold integers from 0")
    actions = chosen.astype(np.int64)
    return LoggedBandit(
        contexts=cells[:, :width],
        actions=actions,
        rewards=cells[:, width + 1],
        propensities=None if propensity is None else cells[:, width + 2],
        arms=int(actions.max()) + 1 if arms is None else arms,
        context_names=tuple(others),
    )


@dataclass(frozen=True)
class ReplayResult:
    """Outcome of a replay. **Not private**.

    Attributes
    ----------
    value : float
        Mean reward of the learner in its rounds; NaN if it had none.
    standard_error : float
        Standard error of `value`, as if rounds were independent; NaN for fewer than two.
    rounds : int
        Number of events that became rounds.
    events : int
        Number of events read; fewer than in the log if the learner's horizon was used up.
    """

    value: float
    standard_error: float
    rounds: int
    events: int


def replay_log(learner: Any, log: LoggedBandit) -> ReplayResult:
    """Replay a log to a learner, by rejection.

    For every event the learner chooses an arm for its context. If that is the logged arm, the event
    is a round with the logged reward. Otherwise it is skipped and leaves no trace. If the log has
    uniformly random actions, and contexts and rewards are independent and identically distributed,
    the rounds have the distribution of a live experiment.

    Parameters
    ----------
    learner : learner of `dpoco.bandits`
        Continued from its current round.
    log : LoggedBandit
        A round needs about K events.

    Returns
    -------
    ReplayResult

    Notes
    -----
    Which events become rounds depends on their contexts, so the learner's guarantee does not cover
    the resulting estimates. Use a replay to choose methods on data that may be used for it.
    """
    if (learner.arms, learner.dimension) != (log.arms, log.contexts.shape[1]):
        raise ValueError(
            f"the learner has {learner.arms} arms and dimension {learner.dimension}, the log "
            f"{log.arms} and {log.contexts.shape[1]}"
        )
    events, chosen = learner._replay(log.contexts, log.actions, log.rewards)
    taken = log.rewards[chosen == log.actions]
    # A round whose reward never came has no value.
    taken = taken[np.isfinite(taken)]
    # Not `rounds`, which includes rounds whose reward never came.
    few = taken.shape[0]
    return ReplayResult(
        value=float(taken.mean()) if few else math.nan,
        standard_error=float(taken.std(ddof=1) / math.sqrt(few)) if few > 1 else math.nan,
        rounds=int(np.sum(chosen == log.actions)),
        events=events,
    )


@dataclass(frozen=True)
class OffPolicyEstimate:
    """Value of a policy, estimated from the log of another. **Not private**.

    Attributes
    ----------
    ips, ips_error : float
        Inverse propensity score estimate of the mean reward, unbiased, and its standard error.
    snips, snips_error : float
        The self-normalised estimate: slightly biased, usually far less noisy.
    effective_events : float
        (sum of weights)^2 / sum of squared weights: the effective number of events behind the
        estimates.
    clipped : int
        Number of weights that were clipped.
    """

    ips: float
    ips_error: float
    snips: float
    snips_error: float
    effective_events: float
    clipped: int


def off_policy_value(
    log: LoggedBandit, policy: Any, *, largest_weight: float | None = None
) -> OffPolicyEstimate:
    """Estimate the mean reward of a policy that does not learn.

    Parameters
    ----------
    log : LoggedBandit
        With propensities and finite rewards.
    policy : array_like of int (n,), of float (n, K), or an object with ``recommend(contexts)``
        Actions of a deterministic policy for the log's contexts, its probabilities, or a learner
        whose current estimates are the policy.
    largest_weight : float, optional
        Weights above this value are clipped: less noise, more bias.

    Returns
    -------
    OffPolicyEstimate

    Raises
    ------
    ValueError, TypeError
        For a log without propensities or with missing rewards, or an invalid policy.
    """
    if log.propensities is None:
        raise ValueError("the log has no propensities: use replay_log")
    n = len(log)
    if n < 2 or not np.all(np.isfinite(log.rewards)):
        raise ValueError("the log must have at least two events and no missing rewards")
    # Estimates and not draws, because the value is that of a policy that does not learn.
    if hasattr(policy, "recommend"):
        policy = policy.recommend(log.contexts)
    table = np.asarray(policy)
    if table.dtype.kind in "iu":
        if table.shape != (n,):
            raise ValueError(f"actions of a policy must have shape ({n},); got {table.shape}")
        if not (table.min() >= 0 and table.max() < log.arms):
            raise ValueError(f"actions of a policy must be in 0..{log.arms - 1}")
        share = (table == log.actions).astype(np.float64)
    else:
        shares = float_array("policy", policy, (n, log.arms))
        # To five digits, because the softmax of a model often uses 32 bits.
        if not (np.all(shares >= 0.0) and np.allclose(shares.sum(axis=1), 1.0)):
            raise ValueError("probabilities of a policy must be >= 0 and add up to 1")
        share = shares[np.arange(n), log.actions]
    weights = share / log.propensities
    clipped = 0
    if largest_weight is not None:
        limit = positive_float("largest_weight", largest_weight)
        # The count is reported, because an estimate from clipped weights does not show its bias.
        clipped = int(np.sum(weights > limit))
        weights = np.minimum(weights, limit)
    terms = weights * log.rewards
    total = float(weights.sum())
    snips = float(terms.sum()) / total if total > 0.0 else math.nan
    spread = math.sqrt(float(np.sum((weights * (log.rewards - snips)) ** 2)))
    return OffPolicyEstimate(
        ips=float(terms.mean()),
        ips_error=float(terms.std(ddof=1)) / math.sqrt(n) if total > 0.0 else math.nan,
        snips=snips,
        # A single event has no spread about its own mean.
        snips_error=spread / total if np.count_nonzero(weights) > 1 else math.nan,
        effective_events=total**2 / float(np.sum(weights**2)) if total > 0.0 else 0.0,
        clipped=clipped,
    )
