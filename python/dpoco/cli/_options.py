"""Which options a learner has a use for: the problem's, and those of its constructor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpoco._options import Option, constructor_options
from dpoco._participation import Participation
from dpoco._planning import Planned
from dpoco._validation import named
from dpoco.learners import Learner

# Options that only some learners have a use for.
_ONLY = {
    "synthetic": ("records", "learners of records"),
    "loss_range": ("experts", "learners of experts"),
    "switches": ("experts", "learners of experts"),
    "exploration": ("arms", "linucb"),
    "quantile": ("surface", "lipschitz"),
    "slope_bound": ("records", "learners of records"),
}
# What learners from something else than labelled records have no use for, and the reason.
_NOT_FOR = {
    "experts": (
        ("label", "feature_range", "label_range", "positive", "categories", "missing", "p"),
        "takes losses",
    ),
    "arms": (("p",), "learns which class is right"),
    "surface": (
        (
            "features",
            "feature_range",
            "positive",
            "categories",
            "missing",
            "p",
            "radius",
            "feature_bound",
        ),
        "learns a number or a point near --label",
    ),
}
# Options of learners as they are when nobody gave them: learners that lack them are not told.
_NOT_GIVEN = {
    "noise": None, "sum_method": "auto", "step_scale": 1.0, "batch": None, "switches": None,
    "exploration": None,
}  # fmt: skip
# All options that describe a game, as they are when nobody gave them.
UNASKED: dict[str, Any] = {
    **_NOT_GIVEN, "data": None, "stream": None, "synthetic": None, "header": None, "label": None,
    "features": None, "format": None, "encoding": "utf-8", "separator": None, "decimal": None,
    "skip_lines": 0, "positive": None, "range": None, "categories": None, "missing": None,
    "anonymous": False,
    "feature_range": None, "label_range": None, "loss_range": None, "intercept": True,
    "loss": "logistic", "p": None, "radius": None, "feature_bound": None, "slope_bound": None,
    "horizon": None, "quantile": None, "option": None,
    "rounds_per_person": None, "separation": None, "person": None,
}  # fmt: skip


def refuse_useless(entry: Learner, asked: Mapping[str, Any]) -> None:
    """Raise for an option that the learner has no use for, or that auto may have none for."""
    if entry.name == "auto":
        for name in {*_NOT_GIVEN, "option"} - {"switches"}:
            if asked[name] not in (UNASKED[name], []):
                own = f"--{name.replace('_', '-')} is an option of some learners"
                raise ValueError(f"{own}: name one with --learner")
    for name, (family, whose) in _ONLY.items():
        if asked[name] is not None and entry.plays != family:
            raise ValueError(f"--{name.replace('_', '-')} is for {whose}")
    names, reason = _NOT_FOR.get(entry.plays, ((), ""))
    for name in names:
        if asked[name] not in (None, []):
            raise ValueError(f"{entry.name} {reason}: no --{name.replace('_', '-')}")
    if entry.plays in ("experts", "surface") and not asked["intercept"]:
        raise ValueError(f"{entry.name} {reason}: no --no-intercept")
    if entry.name == "noisy-newton" and asked["loss"] == "squared":
        raise ValueError(f"{entry.name} needs --loss logistic or huber")
    if asked["positive"] is not None and asked["loss"] != "logistic":
        raise ValueError("--positive is for --loss logistic: a regression has no event")
    if asked["positive"] == "":
        raise ValueError("--positive must be a text or a number")
    if asked["positive"] is not None and asked["label_range"] is not None:
        raise ValueError("--positive and --label-range exclude each other: a code is no number")
    if entry.plays in ("arms", "surface") and asked["loss"] != "logistic":
        raise ValueError(f"{entry.name} {reason}: no --loss")


def parse_range(name: str, text: str) -> tuple[float, float]:
    """Return LOW and HIGH of the text "LOW,HIGH" or "LOW:HIGH"."""
    parts = text.replace(":", ",").split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise ValueError(f"{name} must be LOW,HIGH, two numbers; got {text!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"{name} must have LOW < HIGH, both finite; got {text!r}")
    return low, high


# What a problem or a budget is made of, and no option.
_PROBLEM = {
    "domain", "loss", "lipschitz", "experts", "arms", "dimension", "horizon", "records", "budget",
}  # fmt: skip


def own_options(entry: Learner) -> dict[str, Option]:
    """Return the options of a learner's constructor that commands take: those of calibration."""
    cls = entry.load()
    taken = {*cls._options} - _PROBLEM if issubclass(cls, Planned) else set()
    return {name: each for name, each in constructor_options(cls).items() if name in taken}


def takes_people(entry: Learner) -> bool:
    """Return whether a learner takes a participation."""
    return "participation" in constructor_options(entry.load())


def participation_of(asked: Mapping[str, Any]) -> Participation | None:
    """Return how often one person may come; whoever names the people wants it to be enforced."""
    rounds, separation = asked["rounds_per_person"], asked["separation"]
    person = asked.get("person")
    if rounds is None:
        for name in ("separation", "person", "anonymous"):
            if asked.get(name):
                raise ValueError(f"--{name} needs --rounds-per-person")
        return None
    if asked.get("anonymous") and person is None:
        raise ValueError("--anonymous needs --person COLUMN")
    if asked.get("data") is not None and person is None:
        raise ValueError("--rounds-per-person needs --person COLUMN: whose record each row is")
    return Participation(
        rounds, 1 if separation is None else separation, enforced=person is not None
    )


def given_options(entry: Learner, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, or raise for one that the learner does not have."""
    taken = entry.load()._options
    options: dict[str, Any] = {}
    for name, nothing in _NOT_GIVEN.items():
        if asked[name] == nothing:
            continue
        if name not in taken:
            raise ValueError(f"{entry.name} has no --{name.replace('_', '-')}")
        options[name] = asked[name]
    rule = participation_of(asked)
    if rule is not None:
        if not takes_people(entry):
            raise ValueError(f"{entry.name} has no --rounds-per-person")
        options["participation"] = rule
    known = own_options(entry)
    for text in asked["option"] or ():
        name, mark, value = text.partition("=")
        if not mark:
            raise ValueError(f"--option must be NAME=VALUE; got {text!r}")
        key = named(f"option of {entry.name}", name.strip().replace("-", "_"), tuple(known))
        options[key] = known[key].read(value.strip())
    return options
