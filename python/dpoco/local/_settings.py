"""The arguments of a server, checked once, as public constants for questions and rules."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from dpoco import _literals as literals
from dpoco._validation import FloatArray, choice, instance, positive_float, positive_int, real_in
from dpoco.local._bounds import loss_ranges
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._messages import (
    COIN_FAMILIES,
    Query,
    RoundSpec,
    adaptive,
    checked_epsilon,
    hadamard,
    loss,
    threshold,
)
from dpoco.local._randomizers import BitRandomizer, best_subset_size, subset_randomizer
from dpoco.privacy.mechanisms.local_report import Bits, Subset

Arguments = dict[str, Any]  # arguments of a server, by name

_CHANNELS = {"posterior": ("auto", "bit", "subset"), "hedge": ("auto", "coordinate", "subset")}
_QUERIES = ("auto", "bisection", "scheffe", "mean_test", "hadamard", "loss")
# Between 1, the Bayes posterior, and 1/2, which has the least bound for loss queries
# (docs/privacy/local_learning.md, B2).
_DEFAULT_POWER = 0.75
# Each open round may keep a (K, M) array.
_LARGEST_OPEN = 2**20
# Subsets of more labels, or with longer messages in bits, must be requested explicitly.
_LARGEST_SUBSET_LABELS = LONGEST_SUBSET = 4096
# Largest number of hypotheses whose pairs are compared.
LARGEST_INFORMATION = 512


@dataclass(frozen=True)
class Settings:
    """The public constants of a server: everything on which a rule may depend besides reports.

    Fields without a description are the server's arguments, or their defaults.

    Attributes
    ----------
    hypotheses, labels, fingerprint
        Of the hypotheses: K; M or None; the fingerprint in specifications.
    learning_rate : float or None
        Power of the likelihood, or rate of hedge; None for AdaHedge.
    channel : {"auto", "bit", "subset", "coordinate"}
        Kind of report.
    query : str
        Family of the questions behind bits, which may be "adaptive".
    subset_size : int or None
        Size of the requested subsets; None if there are none.
    mixing : float or None
        Fixed mixing of predictions and losses; None if the rule chooses it.
    """

    hypotheses: int
    labels: int | None
    fingerprint: bytes
    epsilon: float
    horizon: int | None
    public_seed: int
    learning_rate: float | str | None
    channel: str
    query: str
    bits: int
    interactive: bool
    protect: literals.Protect
    range: str
    mixing: float | None
    subset_size: int | None
    open_rounds: int

    @property
    def laws(self) -> tuple[Bits | Subset, ...]:
        """Distributions from which a report may be drawn, in any round."""
        bits, size = BitRandomizer(self.epsilon, self.bits).law, self.subset_size
        if size is None or self.labels is None:
            return (bits,)
        # "auto" may ask for one label or for `size` labels, in any round.
        sizes = {size} if self.channel == "subset" else {1, size}
        subsets = [subset_randomizer(self.labels, d, self.epsilon).law for d in sorted(sizes)]
        return tuple(subsets) if self.channel == "subset" else (bits, *subsets)

    @property
    def report_in_words(self) -> str:
        """The form of a report."""
        return {
            "bit": "bits of randomized response about public questions",
            "coordinate": "one bit about one loss",
            "subset": "a random subset of labels around the own one",
            "auto": "one bit about a public question, or a random subset of labels around the "
            "own one",
        }[self.channel]

    def questions(
        self, round: int, matrix: FloatArray, weights: FloatArray | None, mixing: float
    ) -> tuple[Query, ...]:
        """Return a round's queries of the family, one per bit.

        Parameters
        ----------
        round : int
            From 1 on.
        matrix : array of shape (K, M)
            The hypotheses in the round's context.
        weights : array of shape (K,), or None
            Only for "adaptive".
        mixing : float
            Mixing of losses, in (0, 1].
        """
        count, labels = matrix.shape
        family, seed = self.query, self.public_seed
        ranges = None
        if family == "loss":
            ranges = loss_ranges(matrix if self.range == "exact" else count, mixing)
        asked: list[Query] = []
        for slot in range(self.bits):
            if family == "adaptive":
                assert weights is not None
                asked.append(adaptive(seed, round, slot, matrix, weights))
            elif family == "hadamard" and labels > 1:
                asked.append(hadamard(seed, round, slot, labels))
            elif ranges is not None:
                asked.append(loss(seed, round, slot, mixing, ranges))
            else:  # with one label there is nothing to ask
                own = family if family in COIN_FAMILIES else "bisection"
                asked.append(threshold(own, seed, round, slot, count))
        return tuple(asked)

    def round_spec(self, round: int, channel: str, **fields: Any) -> RoundSpec:
        """Return the specification of a round, with the fields of its channel."""
        return RoundSpec(
            round=round,
            channel=channel,
            epsilon=self.epsilon,
            hypotheses=self.hypotheses,
            labels=self.labels,
            fingerprint=self.fingerprint,
            **fields,
        )


def read_settings(hypotheses: Hypotheses, arguments: Arguments) -> Settings:
    """Return the settings of a `DistributionLearner`, or raise for contradictory arguments.

    A seed of None is drawn from the operating system.

    Parameters
    ----------
    hypotheses : Hypotheses
        The public class.
    arguments : dict
        All arguments of the constructor, by name.

    Raises
    ------
    ValueError, TypeError
        Also for an argument without effect, because the caller expects one.
    """
    given = SimpleNamespace(**arguments)
    bayes = choice("learner", given.learner, ("posterior", "hedge")) == "posterior"
    private = choice("protect", given.protect, ("label", "label_and_context")) != "label"
    channel = choice("channel", given.channel, _CHANNELS[given.learner])
    query = choice("query", given.query, _QUERIES)
    if private and (bayes or channel not in ("auto", "coordinate")):
        raise ValueError(
            "protect='label_and_context' needs learner='hedge' and channel 'coordinate': others "
            "need contexts"
        )
    # All other rules sum over labels, which do not form a finite set here.
    if hypotheses.kind == "likelihood" and not private:
        raise ValueError("likelihoods of labels need protect='label_and_context'")
    asks_bits = bayes and channel != "subset"
    one_loss = not bayes and channel != "subset"
    # Weights can affect a question, or the choice between bits and subsets.
    adapts = one_loss or channel == "auto" or (channel == "bit" and query == "auto")
    for name, default, used in (
        ("query", "auto", asks_bits),
        ("bits", 1, asks_bits),
        ("interactive", False, adapts),
        ("range", None, query == "loss" or one_loss),
        ("subset_size", None, channel == "subset" or (bayes and channel == "auto")),
    ):
        # Equal numbers count as the default; values of other types are refused where they are read.
        if not used and not arguments[name] == default:
            raise ValueError(
                f"{name} is not used by learner {given.learner!r} with channel={channel!r}, "
                f"query={query!r}"
            )
    if private and given.range == "exact":
        raise ValueError("an exact range depends on the context, which is protected")
    epsilon = checked_epsilon(given.epsilon)
    known = hypotheses.kind in ("array", "table") and not private
    seed = given.public_seed
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "little")
    if query == "auto":
        query = "adaptive" if given.interactive else "bisection"
    default_range = "exact" if known else "worst_case"
    return Settings(
        hypotheses=hypotheses.count,
        labels=hypotheses.labels,
        fingerprint=hypotheses.public_fingerprint,
        epsilon=epsilon,
        horizon=None if given.horizon is None else positive_int("horizon", given.horizon),
        public_seed=positive_int("public_seed", seed, minimum=0, maximum=2**64 - 1),
        learning_rate=_learning_rate(given.learning_rate, bayes),
        channel="coordinate" if one_loss else channel,
        query=query,
        bits=BitRandomizer(epsilon, given.bits).bits,
        interactive=instance("interactive", given.interactive, bool, "True or False"),
        protect=given.protect,
        range=choice(
            "range", default_range if given.range is None else given.range, ("exact", "worst_case")
        ),
        mixing=_mixing(given.mixing, bayes),
        subset_size=_subset_size(given, hypotheses.labels, epsilon),
        open_rounds=positive_int("open_rounds", given.open_rounds, maximum=_LARGEST_OPEN),
    )


def _subset_size(given: Any, labels: int | None, epsilon: float) -> int | None:
    """Return the size of the requested subsets; None if there are none."""
    size = given.subset_size
    if size is not None:
        if labels is None:
            raise ValueError("subsets need a finite number of labels")
        size = positive_int("subset_size", size, maximum=max(1, labels - 1))
    chosen = given.channel == "auto" and given.learner == "posterior"
    if labels is None or labels < 2 or not (chosen or given.channel == "subset"):
        return None
    used = size or best_subset_size(labels, epsilon)
    too_many = labels > _LARGEST_SUBSET_LABELS or used * math.log2(labels) > LONGEST_SUBSET
    if chosen and too_many and size is not None:
        raise ValueError(
            "subset_size is not used by channel='auto' for so many labels: take channel='subset'"
        )
    return None if chosen and too_many else used


def _mixing(value: object, bayes: bool) -> float | None:
    """Return a fixed mixing; None if the rule chooses it. Hedge's losses need a positive one."""
    return None if value is None else real_in("mixing", value, "[0, 1]" if bayes else "(0, 1]")


def _learning_rate(value: object, bayes: bool) -> float | str | None:
    """Return the power of a likelihood, or hedge's rate: a number, "worst_case" or None."""
    if bayes:
        return real_in("learning_rate", _DEFAULT_POWER if value is None else value, "(0, 1]")
    if value is None or (isinstance(value, str) and value == "worst_case"):
        return value
    if isinstance(value, str):
        raise ValueError("learning_rate of 'hedge' must be None, 'worst_case' or positive")
    return positive_float("learning_rate", value)
