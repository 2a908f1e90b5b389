"""What a planted bug is, and the tools to plant one in the real classes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.descriptions import changed

from dpoco.audit._family import renew

__all__ = ["Bug", "Check", "Patch", "maker", "noticed", "other", "remade", "silent"]

Check = Callable[[Any], bool]  # of a subject: whether something is wrong with it


@dataclass(frozen=True)
class Bug:
    """A defect, how it gets in, and who sees it; README.md tells its story.

    Attributes
    ----------
    name : str
        Unique, in words joined by hyphens.
    correct : callable
        ``() -> subject``: the same thing without the defect; a subject is a namespace with what
        the checks ask for.
    plant : callable
        ``correct subject -> subject with the defect``.
    checks : tuple of Check
        All of them must notice the defect, and none of them anything else.
    patch : Patch, optional
        In force while the checks look at the planted subject.
    """

    name: str
    correct: Callable[[], Any]
    plant: Callable[[Any], Any]
    checks: tuple[Check, ...]
    patch: Patch | None = None


@dataclass(frozen=True)
class Patch:
    """Another value of an attribute of the library, made from the correct one."""

    owner: Any
    attribute: str
    wrong: Callable[[Any], Any]

    def start(self, stack: ExitStack) -> None:
        """Plant; forget what was computed without, now and afterwards."""
        right = getattr(self.owner, self.attribute)
        wrong = patch.object(self.owner, self.attribute, self.wrong(right))
        stack.callback(_forget)
        stack.enter_context(wrong)
        _forget()


def _forget() -> None:
    """Clear the caches of the library's accounting."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("dpoco.accounting", "dpoco.privacy")):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def noticed(bug: Bug) -> dict[str, bool]:
    """Return, by the names of its checks, whether they notice a planted bug."""
    correct = bug.correct()
    with ExitStack() as stack:
        if bug.patch is not None:
            bug.patch.start(stack)
        subject = bug.plant(correct)
        return {check.__name__: check(subject) for check in bug.checks}


def silent(bug: Bug) -> dict[str, bool]:
    """Return, by the names of its checks, whether they find nothing in the correct code."""
    return {check.__name__: _silent(check, bug.correct) for check in bug.checks}


@functools.cache
def _silent(check: Check, correct: Callable[[], Any]) -> bool:
    return not check(correct())


# Constructors would refuse the engines that are planted: checks have to find them without that.
UNGUARDED = {"_check_described": staticmethod(lambda *_: None)}


def maker(cls: Any, *problem: Any, **options: Any) -> Any:
    """Return ``make(source, kind=None, **changes)``: calibrated once, quick to call.

    `kind` is a subclass to build instead, `changes` are parameters to tamper with; what the result
    promises is always what `cls` does.
    """

    @functools.cache
    def honest() -> Any:
        return cls(*problem, **options)

    @functools.cache
    def built(kind: Any) -> Any:
        promise = honest().guarantee
        body = {"_certify": lambda *_, **__: promise, **UNGUARDED}
        return type(kind.__name__, (kind,), body)

    @functools.cache
    def first(kind: Any, changes: tuple[tuple[str, Any], ...]) -> Any:
        plan = changed(honest().plan, **dict(changes))
        restated = {k: v for k, v in options.items() if k not in dict(changes)}
        return built(kind)(*problem, **{**restated, "budget": None, "plan": plan})

    def make(source: Any, kind: Any = None, **changes: Any) -> Any:
        return renew(first(kind or cls, tuple(changes.items())), source)

    make.honest = honest  # type: ignore[attr-defined]
    return make


def other(subject: Any, **changes: Any) -> Any:
    """Return a subject with something else in it."""
    return SimpleNamespace(**{**vars(subject), **changes})


def remade(kind: Any = None, engine: Any = None, **changes: Any) -> Any:
    """Plant: another class, other parameters, or another engine under the same promise."""

    def plant(subject: Any) -> Any:
        def make(source: Any, more: Any = None, **others: Any) -> Any:
            learner = subject.make(source, kind or more, **changes, **others)
            if engine is not None:
                learner._engine = engine(learner, source)
            return learner

        return other(subject, make=make)

    return plant
