"""What the kernel says of some hundred thousand inputs stays as it is, to the last bit.

``vectors.txt`` holds expressions, `tests/pins/vectors.json` what each line of them gave: a hash of
all bits, for platforms whose elementary functions are those of the machine that wrote it; and for
others a hash of what is no number, and a mean of the numbers. Other tests show that the numbers are
right; this one shows that they have not moved. ``python -m tests.pins --write vectors`` writes the
file after a change that is meant, and ``python tests/privacy/test_vectors.py LINE`` prints what a
line gives.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tests.bits import hashed, mean, platform
from tests.pins import files

import dpoco.privacy
from dpoco.privacy.losses.loss import Loss, tabulate_divergences

TEXT = Path(__file__).with_name("vectors.txt")
CLOSE = 1e-9  # of the means, on other platforms
FEW = np.array([1.0 + 2.0**-8, 1.01, 1.5, 2.0, 3.0, 10.0, 99.0, 1e4, 3e6])


@dataclass(frozen=True)
class Made(Loss):
    """A loss of which some numbers are known."""

    mu: float = math.inf
    rho: float = math.inf
    pure: float = math.inf
    mass: float = 0.0
    size: object = 1


@dataclass(frozen=True)
class Stepped(Loss):
    """A curve that falls to a tenth at each of these points, and to 0 behind the last of three."""

    at: list[float]

    def __hash__(self) -> int:
        return hash(tuple(self.at))

    def delta(self, epsilon: float) -> float:
        passed = sum(epsilon >= place for place in self.at)
        return 0.5 * 0.1**passed


def told(loss):
    """Return what a loss says: its numbers, divergences, curve and inverse, with tails, too."""
    yield loss.to_dict()
    for name in ("mu", "rho", "pure", "mass"):
        yield getattr(loss, name)
    yield loss.renyi(FEW)
    yield tabulate_divergences(loss)
    for epsilon in (0.0, 1e-3, 0.1, 1.0, 4.0, 30.0, math.inf):
        yield loss.delta(epsilon)
    for delta in (0.0, 1e-9, 1e-3, 1.0):
        yield loss.epsilon(delta)
    for epsilon, mass in ((0.0, 1e-9), (0.5, 1e-3), (3.0, 1e-12), (90.0, 1e-6), (2.0, 0.3)):
        yield loss.delta_with_tails(epsilon, mass)


def counted(search, function):
    """Return what a search finds, and how often it asks."""
    asked = []

    def asking(x):
        asked.append(x)
        return function(x)

    yield search(asking)
    yield len(asked)


def names():
    """Return every name of the kernel, private ones behind that of their module, and helpers."""
    known = {"np": np, "math": math, "inf": math.inf, "nan": math.nan, "Fraction": Fraction,
             "Decimal": Decimal, "Context": Context, "Loss": Loss, "Made": Made, "few": FEW,
             "Stepped": Stepped, "told": told, "counted": counted,
             "takes": lambda count, each: list(islice(each, count)),
             "orders": 1.0 + 2.0 ** np.arange(-8.0, 22.0, 3.0)}  # fmt: skip
    for found in pkgutil.walk_packages(dpoco.privacy.__path__, "dpoco.privacy."):
        module = importlib.import_module(found.name)
        known |= {n: v for n, v in vars(module).items() if inspect.isfunction(v)
                  or inspect.isclass(v) or hasattr(v, "cache_clear")}  # fmt: skip
        known |= {n: vars(module)[n] for n in ("ONE", "NOTHING") if n in vars(module)}
        if not found.ispkg:
            known[found.name.rpartition(".")[2]] = module
    return known


def lines(file: Path = TEXT) -> dict[str, str]:
    """Return the lines of a file, with the texts that stand for their capital letters."""
    short, found = {}, {}
    for line in file.read_text().splitlines():
        name, equal, value = line.partition(" = ")
        full = re.sub(r"\b[A-Z]{1,2}\b", lambda m: short.get(m[0], m[0]), value if equal else line)
        if equal and re.fullmatch("[A-Z]{1,2}", name):
            short[name] = full
        elif line and not line.startswith("#"):
            found[line] = re.sub(r"\b[A-Z]{1,2}\b", lambda m: short.get(m[0], m[0]), line)
    return found


def expanded(text: str) -> Iterator[str]:
    """Yield the text with each choice of {one; other}, braces without a semicolon left alone."""
    for begin in (m.start() for m in re.finditer("{", text)):
        depth, cuts = 0, [begin]
        for at in range(begin, len(text)):
            depth += (text[at] in "{([") - (text[at] in "})]")
            if depth == 1 and text[at] == ";":
                cuts.append(at)
            if depth == 0:
                break
        if len(cuts) > 1:
            for low, high in zip(cuts, [*cuts[1:], at], strict=True):
                chosen = text[low + 1 : high].strip()
                yield from expanded(text[:begin] + chosen + text[at + 1 :])
            return
    yield text


def flat(value: object) -> Iterator[object]:
    """Yield the numbers and words of a value, long arrays shortened to a few and their sums."""
    if isinstance(value, np.ndarray):
        if value.size > 12:
            turned = float(np.dot(value.ravel(), np.arange(value.size) % 7.0))
            value = [*value.ravel()[[0, 1, value.size // 2, -1]], math.fsum(value.ravel()), turned]
        yield from (float(each) for each in np.ravel(value))
    elif isinstance(value, Loss):
        yield type(value).__name__
        yield from flat(value.to_dict() if value.names or hasattr(value, "kind") else "nothing")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from flat(each)
    elif isinstance(value, str) or not isinstance(value, Iterable):
        plain = isinstance(value, (int, float, str, type(None), np.generic))
        yield value if plain else str(value)
    else:
        for each in value:
            yield from flat(each)


def outcome(text: str, known: dict[str, object]) -> list[object]:
    """Return what an expression gives, or the kind of error that it raises."""
    try:
        return list(flat(eval(text, known)))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return [type(error).__name__]


def given(line: str) -> tuple[list[str], list[float]]:
    """Return words and numbers that all choices of a line give."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [each for text in expanded(LINES[line]) for each in outcome(text, NAMES)]
    exact = [each for each in found if not isinstance(each, (float, np.floating))]
    return [repr(each) for each in exact], [float(each) for each in found
                                            if isinstance(each, (float, np.floating))]  # fmt: skip


def summary(line: str) -> list[object]:
    words, numbers = given(line)
    return [hashed(words, numbers), hashed(words, len(numbers)), mean(numbers)]


LINES, NAMES = lines(), names()
WRITTEN = files.read("vectors")
SAME_PLATFORM = WRITTEN.get("platform") == platform()


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:60])
def test_what_the_kernel_says_has_not_moved(line):
    bits, words, about = summary(line)
    was = WRITTEN["lines"][line]
    if SAME_PLATFORM:
        assert bits == was[0]
    else:
        assert words == was[1]
        assert about == pytest.approx(was[2], rel=CLOSE)


def measure():
    """Return what `tests/pins/vectors.json` holds."""
    return {"platform": platform(), "lines": {line: summary(line) for line in LINES}}


if __name__ == "__main__":
    for each in expanded(LINES[sys.argv[1]]):
        print(each, outcome(each, NAMES))
