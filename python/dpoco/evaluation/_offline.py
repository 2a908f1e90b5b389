"""Bandits on logged data: replay of a learner, and the value of a policy from propensities.

Sources: Li, Chu, Langford and Wang, "Unbiased offline evaluation of contextual-bandit-based news
article recommendation algorithms" (2011) for replay; Swaminathan and Joachims, "The self-normalized
estimator for counterfactual learning" (2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco._validation import float_array, positive_float
from dpoco.evaluation._logged_bandit import LoggedBandit

__all__ = ["OffPolicyEstimate", "ReplayResult", "off_policy_value", "replay_log"]


@dataclass(frozen=True)
class ReplayResult:
    """Outcome of a replay. **Not private**.

    Attributes
    ----------
    value : float
        Mean reward of the learner in the rounds it got; NaN for none.
    standard_error : float
        Of `value`, as if rounds were independent; NaN for fewer than two.
    rounds : int
        Events that became rounds.
    events : int
        Events read; fewer than in the log if the learner's horizon was used up.
    """

    value: float
    standard_error: float
    rounds: int
    events: int


def replay_log(learner: Any, log: LoggedBandit) -> ReplayResult:
    """Let a learner live through a log by rejection.

    For every event the learner chooses an arm for its context. If that is the logged arm the event
    is a round, with the logged reward; otherwise it is passed over and leaves no trace. If the log
    comes from uniformly random actions, and contexts and rewards are independent and identically
    distributed, the rounds have the law of a live experiment.

    Parameters
    ----------
    learner : LinUCB or HighDimensionalBandit
        Any bandit of `dpoco.bandits`; continued from its current round.
    log : LoggedBandit
        About K events are needed for a round.

    Returns
    -------
    ReplayResult

    Notes
    -----
    Which events become rounds depends on their contexts, so the learner's guarantee does not cover
    the estimates that come out: replay is for choosing methods on data that may be used for it.
    """
    if (learner.arms, learner.dimension) != (log.arms, log.contexts.shape[1]):
        raise ValueError(
            f"the learner has {learner.arms} arms and dimension {learner.dimension}, the log "
            f"{log.arms} and {log.contexts.shape[1]}"
        )
    events, chosen = learner._replay(log.contexts, log.actions, log.rewards)
    taken = log.rewards[chosen == log.actions]
    taken = taken[np.isfinite(taken)]
    few = taken.shape[0]
    return ReplayResult(
        value=float(taken.mean()) if few else math.nan,
        standard_error=float(taken.std(ddof=1) / math.sqrt(few)) if few > 1 else math.nan,
        rounds=int(np.sum(chosen == log.actions)),
        events=events,
    )


@dataclass(frozen=True)
class OffPolicyEstimate:
    """Value of a policy from the log of another. **Not private**.

    Attributes
    ----------
    ips, ips_error : float
        Inverse propensity score estimate of the mean reward, unbiased, and its standard error.
    snips, snips_error : float
        The self-normalised one: a little biased, usually far less noisy.
    effective_events : float
        (sum of weights)^2 / sum of squared weights: how many events the estimates rest on.
    clipped : int
        Weights that were clipped.
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
        Weights above it are clipped: less noise, more bias.

    Returns
    -------
    OffPolicyEstimate

    Raises
    ------
    ValueError, TypeError
        For a log without propensities or with missing rewards, and for a policy that is none.
    """
    if log.propensities is None:
        raise ValueError("the log has no propensities: use replay_log")
    n = len(log)
    if n < 2 or not np.all(np.isfinite(log.rewards)):
        raise ValueError("the log must have at least two events and no missing rewards")
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
        if not (np.all(shares >= 0.0) and np.allclose(shares.sum(axis=1), 1.0, atol=1e-9)):
            raise ValueError("probabilities of a policy must be >= 0 and add up to 1")
        share = shares[np.arange(n), log.actions]
    weights = share / log.propensities
    clipped = 0
    if largest_weight is not None:
        limit = positive_float("largest_weight", largest_weight)
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
        # One event has no spread about its own mean.
        snips_error=spread / total if np.count_nonzero(weights) > 1 else math.nan,
        effective_events=total**2 / float(np.sum(weights**2)) if total > 0.0 else 0.0,
        clipped=clipped,
    )
