"""What a server is told, checked once: the public constants that questions and rules depend on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from dpoco._validation import choice, positive_int, real_float
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._information import LARGEST_INFORMATION
from dpoco.local._questions import public_seed as checked_seed
from dpoco.local._randomizers import best_bits, checked_epsilon
from dpoco.local._specs import LARGEST_BITS, RoundSpec

__all__ = ["Settings", "selection_settings", "settings_of"]

# Channels of hedge: what is on the wire, and its noise.
_HEDGE = {
    "auto": ("coordinate", None),
    "coordinate": ("coordinate", None),
    "subset": ("subset", None),
    "laplace_coordinate": ("coordinate", "laplace"),
    "vector": ("vector", "auto"),
    "laplace_vector": ("vector", "laplace"),
    "composed_vector": ("vector", "composed"),
    "gaussian_vector": ("vector", "gaussian"),
}
_POSTERIOR = {name: (name, None) for name in ("auto", "bit", "subset")}
_QUERIES = ("auto", "bisection", "scheffe", "mean_test", "hadamard", "loss")
_DEFAULT_POWER = 0.75
_DEFAULT_MESSAGE_BITS = 4096
_LARGEST_OPEN = 2**20


@dataclass(frozen=True)
class Settings:
    """The public constants of a server; everything a rule may depend on besides reports.

    Attributes
    ----------
    hypotheses, labels, fingerprint
        Of the class: K; M or None; what specifications show of it.
    learning_rate : float or None
        Power of the likelihood, or rate of hedge; None for AdaHedge.
    channel : {"auto", "bit", "subset", "coordinate", "vector"}
        What reports are.
    noise : {None, "auto", "laplace", "composed", "gaussian"}
        Additive noise of losses; None for bits and subsets.
    query : str
        Family of the questions behind bits, "adaptive" among them.
    mixing : float or None
        Fixed mixing of predictions and losses; None for the rule's own choice.

    The other fields are as given to the server, with what they are by default.
    """

    hypotheses: int
    labels: int | None
    fingerprint: bytes
    epsilon: float
    delta: float
    horizon: int | None
    public_seed: int
    learning_rate: float | str | None
    channel: str
    noise: str | None
    query: str
    bits: int
    interactive: bool
    protect: str
    range: str
    mixing: float | None
    subset_size: int | None
    open_rounds: int
    track_information: bool
    message_bits: int

    def round_spec(self, round: int, channel: str, **fields: Any) -> RoundSpec:
        """Return the specification of a round, with what its channel has besides."""
        return RoundSpec(
            round=round,
            channel=channel,
            epsilon=self.epsilon,
            hypotheses=self.hypotheses,
            labels=self.labels,
            fingerprint=self.fingerprint,
            **fields,
        )


def settings_of(
    hypotheses: Hypotheses,
    *,
    epsilon: float,
    public_seed: int | None,
    horizon: int | None = None,
    learner: str = "posterior",
    learning_rate: float | str | None = None,
    channel: str = "auto",
    query: str = "auto",
    bits: int | str = 1,
    interactive: bool = False,
    protect: str = "label",
    mixing: float | None = None,
    range: str | None = None,
    subset_size: int | None = None,
    delta: float | None = None,
    open_rounds: int = 1,
    track_information: bool = False,
    max_message_bits: int = _DEFAULT_MESSAGE_BITS,
) -> Settings:
    """Return the settings of a server, or raise for arguments that contradict each other.

    Arguments are those of `DistributionLearner`; a seed that is None comes from the operating
    system.
    """
    bayes = choice("learner", learner, ("posterior", "hedge")) == "posterior"
    private = choice("protect", protect, ("label", "label_and_context")) == "label_and_context"
    channels = _POSTERIOR if bayes else _HEDGE
    wire, noise = channels[choice("channel", channel, channels)]
    choice("query", query, _QUERIES)
    if private and (bayes or channel not in ("auto", "coordinate")):
        raise ValueError(
            "protect='label_and_context' needs learner='hedge' and channel 'coordinate': others "
            "need contexts"
        )
    if hypotheses.kind == "likelihood" and not private:
        raise ValueError("likelihoods of labels need protect='label_and_context'")
    asks_bits = bayes and channel != "subset"
    one_loss = channel in ("auto", "coordinate") and not bayes
    drawn_loss = one_loss or channel == "laplace_coordinate"
    adapts = drawn_loss or channel == "auto" or (channel == "bit" and query == "auto")
    for name, given, default, used in (
        ("query", query, "auto", asks_bits),
        ("bits", bits, 1, asks_bits),
        ("interactive", interactive, False, adapts),
        ("range", range, None, query == "loss" or one_loss or (drawn_loss and interactive)),
        ("subset_size", subset_size, None, channel == "subset" or (bayes and channel == "auto")),
        ("delta", delta or None, None, channel.endswith("vector")),
        ("track_information", track_information, False, bayes),
        ("max_message_bits", max_message_bits, _DEFAULT_MESSAGE_BITS, bayes and channel == "auto"),
    ):
        # Numbers that are equal are the default; other types are refused where they are read.
        if not used and not given == default:
            raise ValueError(
                f"{name} is not used by learner {learner!r} with channel={channel!r}, "
                f"query={query!r}"
            )
    if private and range == "exact":
        raise ValueError("an exact range depends on the context, which is protected")
    if track_information and hypotheses.count > LARGEST_INFORMATION:
        raise ValueError(f"track_information takes at most {LARGEST_INFORMATION} hypotheses")
    value = checked_epsilon(epsilon)
    known = hypotheses.kind in ("array", "table") and not private
    seed = int.from_bytes(os.urandom(8), "little") if public_seed is None else public_seed
    if query == "auto":
        query = "adaptive" if interactive else "bisection"
    return Settings(
        hypotheses=hypotheses.count,
        labels=hypotheses.labels,
        fingerprint=hypotheses.public_fingerprint,
        epsilon=value,
        delta=_delta(delta, channel),
        horizon=None if horizon is None else positive_int("horizon", horizon),
        public_seed=checked_seed(seed),
        learning_rate=_power(learning_rate) if bayes else _rate(learning_rate),
        channel=wire,
        noise=noise,
        query=query,
        bits=best_bits(value) if bits == "auto" else _count("bits", bits, LARGEST_BITS),
        interactive=bool(interactive),
        protect=protect,
        range=_range(range, "exact" if known else "worst_case"),
        mixing=_mixing(mixing, may_vanish=bayes),
        subset_size=_size(subset_size, hypotheses.labels),
        open_rounds=_count("open_rounds", open_rounds, _LARGEST_OPEN),
        track_information=bool(track_information),
        message_bits=_count("max_message_bits", max_message_bits, 2**31),
    )


def selection_settings(hypotheses: Any, **arguments: Any) -> tuple[Hypotheses, Settings]:
    """Return hypotheses without contexts, from arrays as well, and the settings of a selector.

    Its posterior is that of Bayes, and the mixing is that of loss queries alone.
    """
    known = hypotheses if isinstance(hypotheses, Hypotheses) else Hypotheses(hypotheses)
    if known.kind != "array":
        raise ValueError("hypotheses must be an array of shape (K, M): no contexts, no callables")
    return known, settings_of(known, learning_rate=1.0, mixing=0.01, **arguments)


def _count(name: str, value: Any, largest: int) -> int:
    return positive_int(name, value, maximum=largest)


def _range(value: Any, default: str) -> str:
    return default if value is None else choice("range", value, ("exact", "worst_case"))


def _size(value: Any, labels: int | None) -> int | None:
    if value is None:
        return None
    if labels is None:
        raise ValueError("subsets need a finite number of labels")
    return _count("subset_size", value, max(1, labels - 1))


def _delta(value: Any, channel: str) -> float:
    delta = 0.0 if value is None else real_float("delta", value)
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta must be in [0, 1); got {delta!r}")
    if channel in ("composed_vector", "gaussian_vector") and delta == 0.0:
        raise ValueError(f"channel {channel!r} needs a positive delta")
    if channel == "laplace_vector" and delta > 0.0:
        raise ValueError("channel 'laplace_vector' is pure: it takes no delta")
    return delta


def _mixing(value: Any, *, may_vanish: bool) -> float | None:
    if value is None:
        return None
    mixing = real_float("mixing", value)
    if not 0.0 <= mixing <= 1.0 or (mixing == 0.0 and not may_vanish):
        raise ValueError(f"mixing must be in (0, 1], or 0 for 'posterior'; got {mixing!r}")
    return mixing


def _power(value: Any) -> float:
    power = _DEFAULT_POWER if value is None else real_float("learning_rate", value)
    if not 0.0 < power <= 1.0:
        raise ValueError(f"learning_rate of 'posterior' must be in (0, 1]; got {power!r}")
    return power


def _rate(value: Any) -> float | str | None:
    if value is None or (isinstance(value, str) and value == "worst_case"):
        return value
    if isinstance(value, str):
        raise ValueError("learning_rate of 'hedge' must be None, 'worst_case' or positive")
    rate = real_float("learning_rate", value)
    if not rate > 0.0:
        raise ValueError(f"learning_rate must be positive; got {rate!r}")
    return rate
