"""The constructor of a learner is the one table of its options."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal

import pytest

from dpoco import _options
from dpoco._options import Option, constructor_options
from dpoco.learners import LEARNERS

KINDS = [each.load() for each in LEARNERS]
# What a problem or a budget is made of.
PROBLEM = {
    "domain", "loss", "lipschitz", "experts", "arms", "dimension", "horizon", "records", "budget",
}  # fmt: skip
# Those whose constructor does not name every option to its planner.
CALIBRATED = [kind for kind in KINDS if hasattr(kind, "_accountant")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_default_of_a_choice_is_one_of_its_words(kind):
    for option in constructor_options(kind).values():
        if isinstance(option.default, str) and option.choices:
            assert option.default in option.choices, option.name


def test_every_option_that_calibration_takes_has_a_sentence_and_no_other():
    taken = {
        option.name: option.sentence
        for kind in KINDS
        for option in constructor_options(kind).values()
        if option.name in _options.SENTENCES and option.name not in PROBLEM
    }
    assert taken == _options.SENTENCES
    assert all(text[0].isupper() or text.startswith("s in") for text in taken.values())
    assert all(text.endswith(".") and len(text) < 85 for text in taken.values())


@pytest.mark.parametrize("kind", CALIBRATED, ids=lambda kind: kind.__name__)
def test_calibration_takes_the_same_options_with_the_same_defaults(kind):
    own = constructor_options(kind)
    calibrate = inspect.signature(kind._accountant.calibrate).parameters
    taken = (own.keys() & calibrate.keys()) - {"participation"}
    assert "budget" in taken
    for name in taken:
        if inspect.Parameter.empty not in (own[name].default, calibrate[name].default):
            assert calibrate[name].default == own[name].default, name


def test_what_is_read_of_a_constructor():
    class Learner:
        def __init__(
            self,
            size: float,
            second: int | Literal["auto", "none"] = "auto",
            *,
            batch: int | None = None,
            mode: Annotated[Literal["fast", "slow"] | None, "How fast."] = None,
            path: tuple[str, ...] = (),
            rest: Any = None,
        ) -> None: ...

    none, empty = type(None), inspect.Parameter.empty
    sentence = _options.SENTENCES["batch"]
    found = constructor_options(Learner)
    assert list(found.values()) == [
        Option("size", (float,), empty),
        Option("second", (int, str), "auto", ("auto", "none")),
        Option("batch", (int, none), None, (), sentence),
        Option("mode", (str, none), None, ("fast", "slow"), "How fast."),
        Option("path", (tuple,), ()),
        Option("rest", (object,), None),
    ]
    assert [each.flag_type for each in found.values()] == [float, str, int, str, str, str]
    assert found["second"].read("3") == 3
    assert found["second"].read("auto") == "auto"
    with pytest.raises(ValueError, match="batch must be a whole number; got 'many'"):
        found["batch"].read("many")


def test_a_derived_class_shows_the_arguments_of_its_base():
    class Mine(KINDS[0]):
        pass

    assert constructor_options(Mine) == constructor_options(KINDS[0])
    assert "__signature__" not in vars(Mine)
