"""The prior over sequences of experts that sharing stands for, and how many sequences there are.

The prior starts at a uniformly drawn expert, keeps it with probability 1 - sigma a round and moves
to each other one with probability sigma / (N - 1). Exponential weights on all sequences under it
lose to any one of them at most -log(its prior mass) / eta more.

Proof: ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["best_share_rate", "log_class_size", "share_log_prior"]


def share_log_prior(experts: int, rounds: int, switches: int, share_rate: float) -> float:
    """Return -log of the prior mass of any sequence of `rounds` experts with S switches.

    Parameters
    ----------
    experts, rounds : int
        At least 1.
    switches : int
        S; more than ``rounds - 1`` count as that many.
    share_rate : float
        sigma, in [0, 1 - 1/experts].

    Returns
    -------
    float
        log N + S log((N - 1) / sigma) - (rounds - 1 - S) log(1 - sigma). Sequences with fewer
        switches cost no more. Infinite for sigma = 0 with switches; 0 for a single expert.
    """
    if experts == 1:
        return 0.0
    moves = min(switches, rounds - 1)
    cost = math.log(experts) - (rounds - 1 - moves) * math.log1p(-share_rate)
    if moves == 0:
        return cost
    if share_rate == 0.0:
        return math.inf
    return cost + moves * (math.log(experts - 1) - math.log(share_rate))


def best_share_rate(experts: int, rounds: int, switches: int) -> float:
    """Return the sigma in [0, 1 - 1/experts] with the least `share_log_prior`."""
    if experts == 1 or rounds == 1:
        return 0.0
    return min(1.0 - 1.0 / experts, min(switches, rounds - 1) / (rounds - 1))


def log_class_size(experts: int, rounds: int, switches: int) -> float:
    """Return the log of the number of sequences of `rounds` experts with at most S switches.

    That is N sum_{c <= S} binom(rounds - 1, c) (N - 1)^c. O(S) time and memory, at most 2 million
    terms: those farther than 40 standard deviations from the largest are left out.
    """
    if experts == 1:
        return 0.0
    from scipy.special import betaln

    moves = rounds - 1
    most = min(switches, moves)
    # The terms are a binomial law's, with mean moves (N - 1) / N.
    peak = min(float(most), moves * (experts - 1) / experts)
    reach = min(1e6, 50.0 + 40.0 * math.sqrt(moves))
    counts = np.arange(max(0.0, math.floor(peak - reach)), min(most, math.ceil(peak + reach)) + 1.0)
    terms = (
        -math.log(moves + 1.0)
        - betaln(moves - counts + 1.0, counts + 1.0)
        + counts * math.log(experts - 1)
    )
    top = float(np.max(terms))
    return math.log(experts) + top + math.log(float(np.sum(np.exp(terms - top))))
