"""Which settings a learner has a use for, and what they say of it."""

from __future__ import annotations

import math
from typing import Any

from dpoco._options import SENTENCES, Option, constructor_options
from dpoco._validation import named
from dpoco.cli._settings import OPTIONS, Settings
from dpoco.learners import Learner
from dpoco.learning.calibrated import Calibrated
from dpoco.learning.participation import Participation

# Settings that only some learners have a use for.
_ONLY = {
    "synthetic": ("records", "learners of records"),
    "loss_range": ("experts", "learners of experts"),
    "quantile": ("surface", "lipschitz"),
    "slope_bound": ("records", "learners of records"),
}
# What learners from something else than labelled records have no use for, and the reason.
_NOT_FOR = {
    "experts": (
        ("label", "range", "positive", "categories", "missing", "p", "intercept"), "takes losses",
    ),
    "arms": (("p", "loss"), "learns which class is right"),
    "surface": (
        ("features", "positive", "categories", "missing", "p", "radius", "feature_bound", "loss",
         "intercept"),
        "learns a number or a point near --label",
    ),
}  # fmt: skip
_USUAL = Settings()


def refuse_useless(entry: Learner, asked: Settings) -> None:
    """Raise for a setting that the learner has no use for, or that auto may have none for."""
    typed = {name for name in OPTIONS if getattr(asked, name) != getattr(_USUAL, name)}
    if entry.name == "auto" and asked.option.keys() - {"switches"}:
        own = min(asked.option)
        named("setting", own, (*OPTIONS, *SENTENCES))
        raise ValueError(f"{own} is an option of some learners: name one with --learner")
    for name, (family, whose) in _ONLY.items():
        if name in typed and entry.plays != family:
            raise ValueError(f"{name.replace('_', '-')} is for {whose}")
    names, reason = _NOT_FOR.get(entry.plays, ((), ""))
    for name in names:
        if name in typed:
            raise ValueError(f"{entry.name} {reason}: no {name.replace('_', '-')}")
    if entry.name == "noisy-newton" and asked.loss == "squared":
        raise ValueError(f"{entry.name} needs --loss logistic or huber")
    if asked.positive is not None and asked.loss != "logistic":
        raise ValueError("--positive is for --loss logistic: a regression has no event")
    if asked.positive == "":
        raise ValueError("--positive must be a text or a number")


def parse_range(name: str, text: str) -> tuple[float, float]:
    """Return LOW and HIGH of the text "LOW,HIGH" or "LOW:HIGH"."""
    parts = text.replace(":", ",").split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise ValueError(f"{name} must be LOW:HIGH, two numbers; got {text!r}") from None
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
    taken = {*SENTENCES} - _PROBLEM if issubclass(cls, Calibrated) else set()
    return {name: each for name, each in constructor_options(cls).items() if name in taken}


def takes_people(entry: Learner) -> bool:
    """Return whether a learner takes a participation."""
    return "participation" in constructor_options(entry.load())


def read_participation(asked: Settings) -> Participation | None:
    """Return how often one person may come; enforced if a column names the people."""
    if asked.person is not None and asked.rounds_per_person is None:
        raise ValueError("--person needs --rounds-per-person")
    if asked.anonymous and asked.person is None:
        raise ValueError("anonymous needs --person COLUMN")
    return make_participation(
        asked.rounds_per_person, asked.separation, enforced=asked.person is not None
    )


def make_participation(
    rounds_per_person: int | None, separation: int | None, *, enforced: bool = False
) -> Participation | None:
    """Return the rule of two options, or None without the first."""
    if rounds_per_person is None:
        if separation is not None:
            raise ValueError("separation needs --rounds-per-person")
        return None
    return Participation(
        rounds_per_person, 1 if separation is None else separation, enforced=enforced
    )


def read_options(entry: Learner, asked: Settings) -> dict[str, Any]:
    """Return the options that were given, or raise for one that the learner does not have."""
    known = own_options(entry)
    options: dict[str, Any] = {}
    for name, value in asked.option.items():
        if name in OPTIONS or name not in known:
            named(f"setting, nor option of {entry.name},", name, tuple(known))
        options[name] = known[name].read(value)
    rule = read_participation(asked)
    if rule is not None:
        if not takes_people(entry):
            raise ValueError(f"{entry.name} has no --rounds-per-person")
        options["participation"] = rule
    return options
