"""What a standard case is made of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from dpoco.accounting import Budget
from dpoco.errors import NoiseDominatesWarning
from dpoco.random import Source

__all__ = ["Asked", "Kind", "Problem", "calibrated_once"]


@dataclass(frozen=True)
class Asked:
    """What a case is wanted for."""

    budget: Budget
    horizon: int
    dimension: int | None
    calibration: str

    @property
    def size(self) -> int:
        """The dimension of a kind that has one."""
        assert self.dimension is not None
        return self.dimension


@dataclass(frozen=True)
class Problem:
    """A learner and neighbouring streams."""

    make: Callable[[Source], Any]
    stream: Any
    replacements: tuple[tuple[Any, ...], ...]
    about: str
    trials: int = 2000
    own_neighbour: Any = None

    @property
    def neighbour(self) -> Any:
        """The stream with its first replacement, unless the pair is another one."""
        if self.own_neighbour is not None:
            return self.own_neighbour
        at, *record = self.replacements[0]
        parts = self.stream if isinstance(self.stream, tuple) else (self.stream,)
        others = []
        for part, entry in zip(parts, record, strict=True):
            other = part.copy()
            other[at] = entry
            others.append(other)
        return tuple(others) if isinstance(self.stream, tuple) else others[0]


@dataclass(frozen=True)
class Kind:
    """A learner that has a standard case.

    Attributes
    ----------
    name : str
        Of the learner.
    build : callable
        ``Asked -> Problem``.
    horizon, dimension : int
        Defaults; a dimension of None cannot be chosen.
    delta : float
        Default: 0 for learners that are purely private.
    calibrations : tuple of str
        What the class knows.
    shortest, smallest, largest : int
        Limits of horizon and dimension.
    """

    name: str
    build: Callable[[Asked], Problem]
    horizon: int
    dimension: int | None
    delta: float = 1e-3
    calibrations: tuple[str, ...] = ("tight",)
    shortest: int = 3
    smallest: int = 1
    largest: int | None = None


def calibrated_once(
    cls: type,
    *arguments: Any,
    budget: Budget,
    changes: dict[str, Any] | None = None,
    **options: Any,
) -> Callable[[Source], Any]:
    """Return ``Source -> learner`` of one class, calibrated and accounted for once.

    All learners share parameters and guarantee, so a new one costs its engine only: an audit makes
    thousands. `changes` are made to the calibrated parameters, and accounted for.
    """
    with _quiet():
        first = cls(*arguments, budget=budget, **options)
        if changes:
            parameters = replace(first.parameters, **changes)
            first = cls(*arguments, budget=None, parameters=parameters, **options)
    mechanism = getattr(first, "_mechanism", None)
    promised = SimpleNamespace(
        guarantee=lambda *_, **__: first.guarantee, mechanism_of=lambda *_: mechanism
    )
    shared = type(cls.__name__, (cls,), {"_accountant": promised, "__doc__": cls.__doc__})

    def make(source: Source) -> Any:
        with _quiet():
            return shared(
                *arguments, budget=None, parameters=first.parameters, source=source, **options
            )

    return make


@contextmanager
def _quiet() -> Iterator[None]:
    """Say nothing about utility: a case is to tell as much as it may, not to learn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseDominatesWarning)
        yield
