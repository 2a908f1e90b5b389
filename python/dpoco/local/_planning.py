"""How many users it takes to tell hypotheses apart, before anybody is asked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._divergences import total_variations
from dpoco._validation import real_float
from dpoco.local import _families as families
from dpoco.local._affinity import LARGEST_INFORMATION, bit_gap, information_of, subset_gap
from dpoco.local._channel import ChannelChoice, queries_of, query_means
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._options import resolved
from dpoco.local._queries import HadamardQuery, Query, ThresholdQuery, hadamard_size
from dpoco.local._randomizers import BitRandomizer, SubsetRandomizer, best_subset_size
from dpoco.local._rules import Settings

__all__ = ["mean_affinity_gap", "required_users", "selection_options"]

FloatArray = NDArray[np.float64]

LARGEST_ENUMERATION = 5000
DRAWS = 2000


def selection_options(
    *,
    epsilon: float,
    channel: str,
    query: str,
    bits: int | str,
    subset_size: int | None,
    max_message_bits: int,
) -> dict[str, Any]:
    """Return the options of the learner behind a selector: not interactive, temperature 1."""
    return {
        "epsilon": epsilon,
        "horizon": None,
        "learner": "posterior",
        "temperature": 1.0,
        "channel": channel,
        "query": query,
        "bits": bits,
        "interactive": False,
        "protect": "label",
        "mixing": 0.01,  # of loss queries; predictions are not mixed
        "eta": None,
        "range": None,
        "sampling": "uniform",
        "subset_size": subset_size,
        "sensitivity": "round",
        "noise": None,
        "delta": None,
        "open_rounds": 1,
        "track_information": False,
        "max_message_bits": max_message_bits,
    }


def required_users(
    hypotheses: Hypotheses | Any,
    *,
    epsilon: float,
    alpha: float = 0.0,
    beta: float = 0.05,
    channel: str = "auto",
    query: str = "auto",
    bits: int | str = 1,
    subset_size: int | None = None,
    max_message_bits: int = 4096,
    seed: int = 0,
) -> float:
    """Return how many reports suffice to select a hypothesis within `alpha` of the true one.

    Parameters
    ----------
    hypotheses : Hypotheses or array of shape (K, M)
        Without contexts; K at most 512.
    epsilon : float
        Of one report, in (0, 30].
    alpha : float, default 0
        Total variation distance that does no harm, in [0, 1).
    beta : float, default 0.05
        Probability of failure, in (0, 1).
    channel, query, bits, subset_size, max_message_bits
        As for `LocalHypothesisSelector`; every report answers a question of its own.
    seed : int, default 0
        Names the public coins where questions are too many to list.

    Returns
    -------
    int or inf
        The smallest n with ``max_i sum_{j: TV(i, j) > alpha} BC_ij^n <= beta``, ``BC_ij`` the
        Bhattacharyya coefficient of a report's laws under hypotheses i and j, averaged over
        questions: the most likely hypothesis after n reports then is within `alpha` of the truth
        with probability at least ``1 - beta``, if the truth is one of them. 0 if all are within
        `alpha`; inf if no question of the channel tells two of the others apart.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range, and for hypotheses with contexts.

    Notes
    -----
    Exact where there are at most 5000 questions; 2000 public draws otherwise. Where subsets are too
    many to list, they count as little as one label drawn from them: n is then an upper bound.
    O(K^2) a question, besides O(K M) for its means. `docs/privacy/local_learning.md`, B5.
    """
    known = array_of(hypotheses)
    matrix = known.matrix()
    near, failure = real_float("alpha", alpha), real_float("beta", beta)
    if not 0.0 <= near < 1.0:
        raise ValueError(f"alpha must be in [0, 1); got {near!r}")
    if not 0.0 < failure < 1.0:
        raise ValueError(f"beta must be in (0, 1); got {failure!r}")
    if known.count > LARGEST_INFORMATION:
        raise ValueError(f"required_users takes at most {LARGEST_INFORMATION} hypotheses")
    options = selection_options(
        epsilon=epsilon,
        channel=channel,
        query=query,
        bits=bits,
        subset_size=subset_size,
        max_message_bits=max_message_bits,
    )
    settings = resolved("posterior", known, options, seed)
    apart = total_variations(matrix) > near
    if not apart.any():
        return 0
    gaps = mean_affinity_gap(matrix, settings)
    if (gaps[apart] <= 0.0).any():
        return math.inf
    # BC_ij as 1 - gap: what is left of tiny gaps stays exact.
    logs = np.where(apart, np.log1p(-np.minimum(gaps, 1.0 - 1e-16)), -np.inf)

    def failing(n: int) -> bool:
        with np.errstate(under="ignore", invalid="ignore"):
            return bool(np.exp(n * logs).sum(axis=1).max() > failure)

    low, high = 0, 1
    while failing(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if failing(middle) else (low, middle)
    return high


def array_of(hypotheses: Any) -> Hypotheses:
    """Return hypotheses without contexts, from arrays as well, or raise."""
    known = hypotheses if isinstance(hypotheses, Hypotheses) else Hypotheses(hypotheses)
    if known.kind != "array":
        raise ValueError("hypotheses must be an array of shape (K, M): no contexts, no callables")
    return known


def mean_affinity_gap(matrix: FloatArray, settings: Settings) -> FloatArray:
    """Return one minus the mean Bhattacharyya coefficient of a report, shape (K, K).

    Means are over the questions of the settings' channel. Relatively exact for gaps near 0; gaps
    that rounding alone may explain are 0.
    """
    count, labels = matrix.shape
    if labels == 1 or count == 1:
        return np.zeros((count, count))

    def of_subset(size: int) -> FloatArray:
        return subset_gap(matrix, size, SubsetRandomizer(labels, size, settings.epsilon).gain)

    size = settings.options["subset_size"]
    if settings.channel == "subset":
        return of_subset(size or best_subset_size(labels, settings.epsilon))
    choice = ChannelChoice(settings.epsilon, settings.options["message_bits"], size)
    bits = BitRandomizer(settings.epsilon, settings.bits)
    subsets: dict[int, FloatArray] = {}
    total, asked = np.zeros((count, count)), 0
    for means in _question_means(matrix, settings):
        chosen = None
        if settings.channel == "auto":
            chosen = choice.choose(matrix, None, means, bits.contrast)
        if chosen is None:
            told = [information_of(bit_gap(own, bits.contrast, labels)) for own in means]
            total -= np.expm1(-np.sum(told, axis=0))
        else:
            if chosen not in subsets:
                subsets[chosen] = of_subset(chosen)
            total += subsets[chosen]
        asked += 1
    gaps: FloatArray = total / asked
    return gaps


def _question_means(matrix: FloatArray, settings: Settings) -> Iterator[list[FloatArray]]:
    """Yield the means of equally likely rounds of questions: all there are, or public draws."""
    everything = None if settings.bits > 1 else _all_questions(matrix, settings)
    if everything is not None:
        for question in everything:
            yield [query_means(question, matrix)]
        return
    for number in range(1, DRAWS + 1):
        yield list(
            queries_of(
                settings.query,
                settings.public_seed,
                number,
                settings.bits,
                matrix,
                weights=np.empty(0),
                mixing=settings.mixing or 1.0,
                exact_range=settings.range == "exact",
            )[1]
        )


def _all_questions(matrix: FloatArray, settings: Settings) -> Iterator[Query] | None:
    """Return all questions of a family, each as likely as the others; None for too many."""
    count, labels = matrix.shape
    if settings.query == "bisection" and math.comb(count, count // 2) <= LARGEST_ENUMERATION:
        return _bisections(count)
    if settings.query == "scheffe" and count * (count - 1) <= LARGEST_ENUMERATION:
        return (families.pair_query(count, *pair) for pair in permutations(range(count), 2))
    if settings.query == "mean_test":
        rows = np.eye(count) - 1.0 / count
        return (ThresholdQuery(row) for row in rows)
    if settings.query == "hadamard" and hadamard_size(labels) <= LARGEST_ENUMERATION:
        return (HadamardQuery(row) for row in range(1, hadamard_size(labels)))
    return None


def _bisections(count: int) -> Iterator[Query]:
    half = count // 2
    for members in combinations(range(count), half):
        coefficients = np.full(count, -1.0 / (count - half))
        coefficients[list(members)] = 1.0 / half
        yield ThresholdQuery(coefficients)
