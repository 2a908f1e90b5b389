"""The learner's options: checked once, and resolved to what the rules are told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from dpoco._validation import choice, positive_int, real_float
from dpoco.local._affinity import LARGEST_INFORMATION
from dpoco.local._coins import public_seed as checked_seed
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._randomizers import best_bits, checked_epsilon
from dpoco.local._rules import Settings
from dpoco.local._specs import LARGEST_BITS

__all__ = ["LEARNERS", "fresh_seed", "resolved"]

LEARNERS = ("posterior", "hedge", "paper_exp3", "paper_wma")
_QUERIES = ("auto", "adaptive", "bisection", "scheffe", "mean_test", "hadamard", "loss")
_LARGEST_OPEN = 2**20


def fresh_seed() -> int:
    """Return a public seed from the operating system: public, and yet not chosen by anybody."""
    return int.from_bytes(os.urandom(8), "little")


def resolved(
    learner: str, hypotheses: Hypotheses, arguments: Mapping[str, Any], seed: int
) -> Settings:
    """Return the settings of a learner, or raise for arguments that contradict each other."""
    choice("learner", learner, LEARNERS)
    protect = choice("protect", arguments["protect"], ("label", "label_and_context"))
    epsilon = checked_epsilon(arguments["epsilon"])
    horizon = arguments["horizon"]
    horizon = None if horizon is None else positive_int("horizon", horizon)
    _check_scope(learner, hypotheses, protect, arguments)
    channel = _channel(learner, arguments["channel"], arguments["query"])
    _check_used(learner, channel, arguments)
    query = _query(arguments["query"], bool(arguments["interactive"]))
    bits = arguments["bits"]
    if bits == "auto":
        bits = best_bits(epsilon)
    bits = positive_int("bits", bits, maximum=LARGEST_BITS)
    if bits > 1 and learner != "posterior":
        raise ValueError("several bits a report are for learner 'posterior'")
    return Settings(
        hypotheses=hypotheses.count,
        labels=hypotheses.labels,
        epsilon=epsilon,
        delta=0.0 if arguments["delta"] is None else _unit("delta", arguments["delta"]),
        horizon=horizon,
        public_seed=checked_seed(seed),
        channel=channel,
        query=query,
        bits=bits,
        interactive=bool(arguments["interactive"]),
        protect=protect,
        range=_range(arguments["range"], hypotheses, protect),
        mixing=_mixing(arguments["mixing"], learner),
        options=_rule_options(learner, hypotheses, arguments),
        fingerprint=hypotheses.public_fingerprint,
    )


# What arguments are where nobody gave them; "unused" ones must be left so.
_DEFAULTS: Mapping[str, Any] = {
    "temperature": 0.75,
    "query": "auto",
    "bits": 1,
    "interactive": False,
    "mixing": None,
    "eta": None,
    "range": None,
    "sampling": "uniform",
    "subset_size": None,
    "sensitivity": "round",
    "noise": None,
    "delta": None,
    "track_information": False,
    "max_message_bits": 4096,
}


def _check_used(learner: str, channel: str, arguments: Mapping[str, Any]) -> None:
    """Raise for an argument that would change nothing: whoever gives it expects something else."""
    unused: list[str]
    if learner == "posterior":
        unused = ["eta", "sampling", "sensitivity", "noise"]
        unused += ["range"] if arguments["query"] != "loss" else []
        unused += {"bit": ["subset_size"], "subset": ["query", "bits"]}.get(channel, [])
        unused += ["max_message_bits"] if channel != "auto" else []
        fixed = arguments["query"] not in ("auto", "adaptive")
        unused += ["interactive"] if channel == "subset" or (channel == "bit" and fixed) else []
        where = f"with channel={channel!r}"
    elif learner == "hedge":
        unused = ["temperature", "bits", "sensitivity", "track_information", "max_message_bits"]
        unused += ["subset_size"] if channel != "subset" else []
        unused += ["noise"] if channel == "subset" else []
        bit = channel == "coordinate" and arguments["noise"] is None
        unused += ["range"] if not bit and arguments["sampling"] == "uniform" else []
        unused += ["interactive"] if arguments["sampling"] == "uniform" else []
        unused += ["sampling"] if channel != "coordinate" else []
        where = f"with channel={channel!r}"
    else:
        unused = [name for name in _DEFAULTS if name not in ("eta", "sensitivity", "delta")]
        where = "which has constants of its own"
    for name in unused:
        # Numbers that are equal are the default; other types are refused where they are read.
        if name in arguments and not arguments[name] == _DEFAULTS[name]:
            raise ValueError(f"{name} is not used by learner {learner!r} {where}")
    if arguments["delta"] not in (None, 0, 0.0) and channel not in ("vector", "paper_wma"):
        raise ValueError(f"channel {channel!r} is pure: it takes no delta")


def _check_scope(
    learner: str, hypotheses: Hypotheses, protect: str, arguments: Mapping[str, Any]
) -> None:
    private = protect == "label_and_context"
    if private and learner != "hedge":
        raise ValueError("protect='label_and_context' needs learner='hedge': others need contexts")
    if hypotheses.kind == "likelihood" and not private:
        raise ValueError("likelihoods of labels need protect='label_and_context'")
    if private:
        if arguments["channel"] not in ("auto", "coordinate"):
            raise ValueError("protect='label_and_context' needs channel 'coordinate'")
        if arguments["range"] == "exact":
            raise ValueError("an exact range depends on the context, which is protected")
        if arguments["sampling"] == "adaptive" and not arguments["interactive"]:
            raise ValueError("sampling='adaptive' needs interactive=True")


def _channel(learner: str, channel: Any, query: Any) -> str:
    if learner.startswith("paper"):
        if channel != "auto":
            raise ValueError("the paper's learners have a channel of their own")
        return learner
    if learner == "hedge":
        named = choice("channel", channel, ("auto", "coordinate", "bit", "subset", "vector"))
        if query not in ("auto", "loss"):
            raise ValueError("learner 'hedge' asks for losses")
        return "coordinate" if named in ("auto", "bit") else named
    return choice("channel", channel, ("auto", "bit", "subset"))


def _query(query: Any, interactive: bool) -> str:
    named = choice("query", query, _QUERIES)
    if named == "auto":
        return "adaptive" if interactive else "bisection"
    if named == "adaptive" and not interactive:
        raise ValueError("adaptive queries need interactive=True")
    return named


def _range(value: Any, hypotheses: Hypotheses, protect: str) -> str:
    if value is None:
        known = hypotheses.kind in ("array", "table") and protect == "label"
        return "exact" if known else "worst_case"
    return choice("range", value, ("exact", "worst_case"))


def _unit(name: str, value: Any) -> float:
    number = real_float(name, value)
    if not 0.0 <= number < 1.0:
        raise ValueError(f"{name} must be in [0, 1); got {number!r}")
    return number


def _mixing(value: Any, learner: str) -> float | None:
    if value is None:
        return None
    number = real_float("mixing", value)
    if not 0.0 <= number <= 1.0 or (number == 0.0 and learner != "posterior"):
        raise ValueError(f"mixing must be in (0, 1], or 0 for 'posterior'; got {number!r}")
    return number


def _rule_options(
    learner: str, hypotheses: Hypotheses, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    temperature = real_float("temperature", arguments["temperature"])
    if not 0.0 < temperature <= 1.0:
        raise ValueError(f"temperature must be in (0, 1]; got {temperature!r}")
    eta = arguments["eta"]
    if eta is not None and not isinstance(eta, str):
        eta = real_float("eta", eta)
        if not eta > 0.0:
            raise ValueError(f"eta must be positive; got {eta!r}")
    elif learner == "hedge" and eta not in (None, "worst_case"):
        raise ValueError("eta must be None, 'worst_case' or a positive number")
    sampling = choice("sampling", arguments["sampling"], ("uniform", "adaptive"))
    if sampling == "adaptive" and not (learner == "hedge" and arguments["interactive"]):
        raise ValueError("sampling='adaptive' needs learner='hedge' and interactive=True")
    if arguments["noise"] is not None and learner != "hedge":
        raise ValueError("noise is for learner 'hedge'")
    size = arguments["subset_size"]
    if size is not None:
        if hypotheses.labels is None:
            raise ValueError("subsets need a finite number of labels")
        size = positive_int("subset_size", size, maximum=max(1, hypotheses.labels - 1))
    if arguments["track_information"]:
        if learner != "posterior":
            raise ValueError("track_information is for learner 'posterior'")
        if hypotheses.count > LARGEST_INFORMATION:
            raise ValueError(f"track_information takes at most {LARGEST_INFORMATION} hypotheses")
    return {
        "temperature": temperature,
        "eta": eta,
        "sensitivity": choice(
            "sensitivity",
            arguments["sensitivity"],
            ("round", "worst_case", "exact", "printed"),
        ),
        "noise": arguments["noise"],
        "sampling": sampling,
        "subset_size": size,
        "cautious": True,  # AdaHedge starts where no estimate is followed blindly
        "track_information": bool(arguments["track_information"]),
        "open_rounds": positive_int("open_rounds", arguments["open_rounds"], maximum=_LARGEST_OPEN),
        "message_bits": positive_int(
            "max_message_bits", arguments["max_message_bits"], maximum=2**31
        ),
    }
