"""Arguments of estimators and policies of other libraries: budgets, further options, refusals."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from dpoco.accounting import Budget
from dpoco.accounting.ledger import Ledger
from dpoco.random import Source

T = TypeVar("T")
Arguments = dict[str, Any]  # of a constructor, by name: the learner checks each


def refuse(names: Collection[str]) -> None:
    """Raise `TypeError` for further arguments of a method that learns."""
    if not names:
        return
    name = min(names)
    # Weights are called so in scikit-learn and in river.
    if name in ("sample_weight", "w"):
        raise TypeError(
            f"{name} is refused: a weight would scale a record's influence past the bound that the "
            "noise is for"
        )
    raise TypeError(f"unexpected argument {name!r}")


def read_budget(arguments: Arguments) -> Budget | None:
    """Return the budget of an estimator's arguments: `budget`, or `epsilon` and `delta`."""
    budget, numbers = arguments["budget"], {name: arguments[name] for name in ("epsilon", "delta")}
    missing = [name for name, value in numbers.items() if value is None]
    if budget != "epsilon, delta":
        if len(missing) < 2:
            raise ValueError("pass either budget, or epsilon and delta: a budget contains both")
        return budget  # type: ignore[no-any-return]  # checked by the learner
    if missing:
        raise TypeError(
            f"{' and '.join(missing)} must be given, or a budget (None switches privacy off)"
        )
    return Budget(**numbers)


def callers(kind: type[T]) -> Iterator[T]:
    """Yield the objects of a type whose methods are running now.

    A pipeline does not tell its steps that it calls them, so this function looks at the call stack.
    It does not see objects in other processes, or those whose methods have already returned.
    """
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, kind):
            yield owner
        frame = frame.f_back


def warn_of_learning(steps: Iterable[object]) -> None:
    """Warn of steps that learn from the records which a private estimator gets from them."""
    names = sorted({type(each).__name__ for each in steps})
    if names:
        warnings.warn(
            f"{', '.join(names)} before a private estimator: what a step learns from the data is "
            "not covered by the guarantee; use PublicScaler, or other steps with public constants",
            UserWarning,
            stacklevel=3,
        )


def own_arguments(given: Arguments) -> Arguments:
    """Return a constructor's arguments from its ``locals()``."""
    return {name: value for name, value in given.items() if name not in ("self", "__class__")}


def refuse_changes(before: Arguments, after: Arguments, instead: str) -> None:
    """Raise `ValueError` if an argument has another value now; `instead` says what to do."""
    name = next((name for name in after if not _is_same(before[name], after[name])), None)
    if name is not None:
        raise ValueError(
            f"{name} was changed after the start, and the learner keeps the old one: {instead}"
        )


# A pickle holds this in place of a ledger, which cannot be copied. It is no ledger: an estimator
# that is to spend again asks for a real one.
ELSEWHERE = "with the original"


def check_ledger(ledger: object) -> None:
    """Raise `TypeError` if the argument is not a ledger."""
    if not (ledger is None or isinstance(ledger, Ledger)):
        raise TypeError(f"ledger must be a Ledger; got {type(ledger).__name__}")


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values of an argument mean the same to a learner."""
    if one is other:
        return True
    # 1, 1.0 and True are equal, but are different arguments.
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    # The `==` of arrays, and of pandas and polars objects, does not return a bool.
    if hasattr(one, "__array__"):
        return bool(np.array_equal(np.asarray(one), np.asarray(other)))
    return bool(one == other)


def make_source(seed: int | None) -> Source | None:
    """Return a reproducible source, which voids the guarantee, or None for real noise."""
    return None if seed is None else Source.seeded(seed)


def check_options(options: Mapping[str, Any] | None, own: frozenset[str]) -> Arguments:
    """Return further arguments of a learner; `ValueError` for those the adapter sets itself."""
    if own & set(options or {}):
        raise ValueError(f"options must not contain any of {sorted(own)}")
    # This concerns bandit policies: river's `update` has no argument for a person.
    rule = (options or {}).get("participation")
    if rule is not None and rule.enforced:
        raise ValueError("persons are not passed here, so participation needs enforced=False")
    return dict(options or {})
