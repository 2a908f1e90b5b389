"""The constructor of a learner is the one table of its options."""

from __future__ import annotations

import inspect

import pytest

from dpoco._planning import Option, options_of
from dpoco.learners import LEARNERS

KINDS = [each.load() for each in LEARNERS]
# Those that have not been given a planner of their own in the constructor.
CALIBRATED = [kind for kind in KINDS if hasattr(kind, "_accountant")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_docstring_says_what_every_option_means(kind):
    for option in options_of(kind).values():
        assert option.meaning.endswith((".", ")")), option.name
        if isinstance(option.default, str) and option.choices:
            assert option.default in option.choices, option.name


@pytest.mark.parametrize("kind", CALIBRATED, ids=lambda kind: kind.__name__)
def test_calibration_takes_the_same_options_with_the_same_defaults(kind):
    own = options_of(kind)
    calibrate = inspect.signature(kind._accountant.calibrate).parameters
    assert {"budget"} < set(kind._options) == (own.keys() & calibrate.keys()) - {"participation"}
    for name in kind._options:
        if inspect.Parameter.empty not in (own[name].default, calibrate[name].default):
            assert calibrate[name].default == own[name].default, name


def test_what_is_read_of_a_constructor():
    class Learner:
        """Learn.

        Parameters
        ----------
        first, second : float
            Two
            numbers.
        mode : {"fast", "slow"}, optional
            How.

            "fast" is the default.
        rest
            Anything.

        Returns
        -------
        mode : {"other"}
            No option.
        """

        def __init__(
            self, first: float, second: float = 1.0, *, mode: str | None = None, rest: int = 2
        ) -> None: ...

    empty = inspect.Parameter.empty
    assert list(options_of(Learner).values()) == [
        Option("first", ("float",), empty, (), "Two numbers."),
        Option("second", ("float",), 1.0, (), "Two numbers."),
        Option("mode", ("str", "None"), None, ("fast", "slow"), 'How. "fast" is the default.'),
        Option("rest", ("int",), 2, (), "Anything."),
    ]
