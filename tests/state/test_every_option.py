"""Every option of every class that is saved: loaded, and restated beside its parameters."""

from __future__ import annotations

import inspect
import re
from inspect import signature

import pytest

import dpoco
from dpoco.domains import Box, LpBall
from dpoco.learners import LEARNERS
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore:.*is taken as:UserWarning"),
]

HORIZON = 200  # the published theorems of the coupled learners need 138
BALL, LINE = LpBall(2, 1.0), Box([-1.0], [1.0])
SQUARE = Box([-1.0, -1.0], [1.0, 1.0])
# What comes before the options; some of these are for one problem only.
PROBLEMS = {
    "AboveThreshold": [()],
    "ContinualSum": [(2,)],
    "HighDimensionalBandit": [(2, BALL)],
    "LinUCB": [(2, 2)],
    "ResidualPhases": [(2, 2)],
    "PolyhedralFrankWolfe": [(BALL, SquaredLoss(1.0, 1.0))],
    "TreeFrankWolfe": [(BALL, SquaredLoss(1.0, 1.0))],
    "NoisyNewton": [(LpBall(2), LogisticLoss(1.0))],
    "NoisyFTRL": [(LpBall(2), SquaredLoss(1.0, 1.0, feature_bound_l2=1.0))],
    "LipschitzLearner": [(LINE,), (SQUARE,)],
    "CoupledRegularizedLeader": [(LpBall(2), SquaredLoss(1.0, 1.0))],
    "ContinuousMultiplicativeWeights": [(SQUARE, SquaredLoss(1.0, 1.0)), (SQUARE, LinearLoss(1.0))],
}  # and a number of experts
APPROXIMATE, PURE = dpoco.Budget(1.0, 1e-5), dpoco.Budget(1.0, 0.0)
SETTINGS = ((HORIZON, APPROXIMATE), (HORIZON, PURE), (HORIZON, None), (1, APPROXIMATE))
# Options that need another, or that only calibration has: nothing of them is in the parameters.
TOGETHER = {
    ("ContinualSum", "norm_order"): {"noise": "knorm"},
    ("TreeFrankWolfe", "norm_order"): {"noise": "generalized_gaussian"},
}
FOR_CALIBRATION_ONLY = ("max_switches",)
NOT_OPTIONS = ("budget", "plan", "source", "horizon", "start", "loss_range", "on_violation")
NUMBERS = {"int": (0, 1, 19, HORIZON - 1), "float": (0.5, 2.5), "bool": (False, True)}


def values(cls, name, parameter):
    """Documented words of an option, and numbers if it takes any."""
    text = re.search(rf"^{name} : (.*)", inspect.getdoc(cls), re.MULTILINE)
    assert text is not None
    words = re.findall(r'"(\w+)"', text[1]) if "str" in parameter.annotation else []
    kinds = [kind for kind in NUMBERS if re.search(rf"\b{kind}\b", parameter.annotation)]
    return [*words, *(value for kind in kinds for value in NUMBERS[kind])]


def built(cls, problem, options):
    required = {"lipschitz": 1.0} if cls.__name__ == "LipschitzLearner" else {}
    try:
        return cls(*problem, source=Source.seeded(1), **{**required, **options})
    except (ValueError, TypeError, dpoco.CalibrationError):
        return None


def check(cls, problem, name, options):
    """Whether it can be built; what can be must be loaded, and restated beside parameters."""
    learner = built(cls, problem, options)
    if learner is None:
        return False
    assert cls._from_bytes(learner._to_bytes()).plan == learner.plan, options
    if name in FOR_CALIBRATION_ONLY:
        return True
    restated = {**options, "plan": learner.plan}
    budget = options["budget"]
    if budget is not None and learner.guarantee.delta_at(budget.epsilon) > budget.delta:
        with pytest.raises(dpoco.BudgetExceeded):  # noise as printed
            built(cls, problem, restated)
        return True
    again = built(cls, problem, restated)
    assert again is not None, options
    assert again.plan == learner.plan, options
    return True


# Servers of local reports spend nothing and have no parameters: tests/local/test_states.py.
CALIBRATED = [each for each in LEARNERS if each.plays not in ("batch", "reports", "pairs")]


@pytest.mark.parametrize("kind", CALIBRATED, ids=lambda each: each.name)
def test_what_can_be_built_can_be_loaded_and_restated(kind):
    cls = kind.load()
    problems = PROBLEMS.get(kind.class_name, [(3,)])
    for name, parameter in list(signature(cls).parameters.items())[len(problems[0]) :]:
        if name in NOT_OPTIONS:
            continue
        more = TOGETHER.get((kind.class_name, name), {})
        for value in values(cls, name, parameter):
            settings = SETTINGS if isinstance(value, str) else (SETTINGS[0], SETTINGS[-1])
            found = [
                check(cls, problem, name, {"horizon": h, "budget": budget, name: value, **more})
                for problem in problems
                for h, budget in settings
            ]
            assert any(found) or not isinstance(value, str), (name, value)
