"""Refused arguments, each next to one that is taken."""

from __future__ import annotations

import math
import re
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from bench import worlds
from tests.privacy import test_vectors as kernel
from tests.worlds import BurnAfterPlay

import dpoco
from dpoco import (
    _core,
    accounting,
    audit,
    bandits,
    datasets,
    domains,
    environments,
    evaluation,
    experts,
    frank_wolfe,
    local,
    losses,
    mechanisms,
    noise,
    oco,
    random,
    samplers,
    scale,
    statistics,
)
from dpoco.accounting import attack_power, continual_sum, gaussian, pools, rdp
from dpoco.privacy.mechanisms.norms import smoothness_constant

ROOMS = [accounting, audit, bandits, datasets, domains, environments, evaluation, experts,
         frank_wolfe, local, losses, mechanisms, noise, oco, random, samplers, scale, statistics,
         dpoco]  # fmt: skip
KNOWN = {
    **kernel.NAMES,
    **{name: getattr(room, name) for room in ROOMS for name in room.__all__},
    **{room.__name__.rpartition(".")[2]: room
       for room in (*ROOMS, attack_power, continual_sum, gaussian, pools, rdp, worlds)},
    "core": _core, "BurnAfterPlay": BurnAfterPlay, "smoothness_constant": smoothness_constant,
    "Fraction": Fraction,
    "P": dpoco.Budget(4.0, 1e-4), "np": np, "inf": math.inf, "nan": math.nan,
}  # fmt: skip
CHOICES = re.compile(r"(?:(\w+)=)?\{([^{}|]*)\|([^{}|]*)\}")


def taken(text: str) -> str:
    """Return the text with the first of all choices."""
    return CHOICES.sub(lambda c: (f"{c[1]}=" if c[1] else "") + c[2].strip(), text)


def refused(text: str) -> list[tuple[str, str, bool]]:
    """Return texts with another of one of the choices, its argument, and if its type is wrong."""
    found = []
    for choice in CHOICES.finditer(text):
        name = choice[1] or ""
        for other in map(str.strip, choice[3].split(";")):
            wrong = (f"{name}=" if name else "") + other.removesuffix("!")
            whole = taken(text[: choice.start()]) + wrong + taken(text[choice.end() :])
            found.append((whole, name, other.endswith("!")))
    return found


HERE = Path(__file__).parent
ARGUMENTS = kernel.lines(HERE / "refused.txt").values()
DESCRIPTIONS = kernel.lines(HERE / "privacy/refused.txt").values()


def check(line: str, known: dict[str, object]) -> None:
    text, _, says = line.partition(" -> ")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        eval(taken(text), dict(known))
        for other, name, of_type in refused(text):
            kind = TypeError if of_type else (ValueError, dpoco.CalibrationError)
            with pytest.raises(kind, match=says or name) as error:
                pytest.fail(f"{other} is {eval(other, dict(known))}")
            assert "\n" not in str(error.value)


@pytest.mark.parametrize("line", ARGUMENTS, ids=lambda line: line[:60])
def test_refused_arguments_are_named_and_others_are_taken(line):
    check(line, KNOWN)


@pytest.mark.parametrize("line", DESCRIPTIONS, ids=lambda line: line[:60])
def test_what_no_proof_is_about_is_refused(line):
    check(line, kernel.NAMES)
