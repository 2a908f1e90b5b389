"""Every learner, mechanism and batch method keeps the contract, with options of every kind."""

from __future__ import annotations

import functools
import inspect
import sys

import numpy as np
import pytest

from dpoco.audit import check_learner, contract_checks
from dpoco.domains import LpBall
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.learners import LEARNERS, find_learner
from dpoco.losses import CustomLoss, SquaredLoss

from .variants import BUDGET, LOSSES, RELEASED, VARIANTS

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

LISTED = [each for each in LEARNERS if contract_checks(each.plays)]
# What has one dimension anyway, or none.
NOTHING_TO_SEE = {
    ("lipschitz", "one_dimension_is_enough"),
    ("above-threshold", "one_dimension_is_enough"),
}
PAIRS = [(each.name, check) for each in LISTED for check in contract_checks(each.plays)]

# What options may leave nothing to look at for.
DEPENDS = {
    "descriptions_reach_engines",
    "one_dimension_is_enough",
    "replays_move_no_more_than_stated",
    "budgets_are_kept",
    "no_budget_is_no_promise",
}
NEEDS_ARRAYS = {
    "runs_are_the_loop", "malformed_records_are_refused", "malformed_runs_are_refused",
    "missing_values_are_silent", "huge_values_are_silent", "dtypes_and_layouts_do_not_matter",
    "violations_are_refused_on_request", "checkpoints_go_on", "runs_keep_other_threads_out",
    "interrupted_runs_go_on",
}  # fmt: skip
# Threads, processes and interrupted runs: code that no option changes.
WHATEVER_THE_OPTIONS = {
    "checkpoints_go_on", "copies_share_no_noise", "forked_children_wait_for_resume",
    "interrupted_runs_go_on", "learners_share_nothing", "runs_keep_other_threads_out",
    "threads_end_one_round_each", "unstarted_pickles_have_their_own_noise",
}  # fmt: skip
NEEDS_STATE = {
    "saved_states_go_on", "checkpoints_go_on", "pickles_wait_for_resume",
    "unstarted_pickles_have_their_own_noise", "interrupted_runs_go_on",
    "damaged_states_are_refused",
}  # fmt: skip


@pytest.mark.parametrize(("name", "check"), PAIRS, ids=lambda each: each)
def test_the_library_keeps_the_contract(name, check):
    wanted = () if (name, check) in NOTHING_TO_SEE else (check,)
    assert check_learner(name, checks=[check]) == wanted


def test_every_learner_that_plays_rounds_is_checked():
    assert {each.name for each in LEARNERS} - {each.name for each in LISTED} == {
        "distribution-learner", "local-hypothesis-selector",
    }  # fmt: skip
    assert len(PAIRS) > 500


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in RELEASED])
def test_options_keep_the_contract(name):
    """Some 30 checks a learner: 0.2 to 2 s, of which most is writing and reading states."""
    make, stream = VARIANTS[name]
    asked = set(contract_checks(find_learner(make.func).plays)) - WHATEVER_THE_OPTIONS
    left = asked - set(check_learner(make, stream, checks=sorted(asked)))
    objects = isinstance(make.args[-1] if make.args else None, CustomLoss)
    assert left <= DEPENDS | (NEEDS_ARRAYS | NEEDS_STATE if objects else set())


class Mine(TreeFrankWolfe):
    pass


def test_a_users_class_has_the_arguments_of_its_base():
    assert inspect.signature(Mine.__init__) == inspect.signature(TreeFrankWolfe.__init__)
    # Python 3.10 and early 3.11 show the arguments of `__new__` for every class that derives one.
    if sys.version_info >= (3, 11, 7):
        assert inspect.signature(Mine) == inspect.signature(TreeFrankWolfe)


def test_a_users_class_is_checked_as_its_base():
    whole = set(contract_checks("records"))
    passed = set(check_learner(Mine))
    assert whole - passed == NEEDS_STATE  # a file may name the library's classes only
    make = functools.partial(Mine, LpBall(2), SquaredLoss(1.0, 1.0), budget=BUDGET)
    stream = np.random.default_rng(0).uniform(-1, 1, (30, 2)), np.zeros(30)
    assert set(check_learner(make, stream)) == passed
    with pytest.raises(ValueError, match="at least 25 records"):
        check_learner(make, (stream[0][:20], stream[1][:20]))


def test_what_cannot_be_made_up_is_asked_for():
    custom = functools.partial(TreeFrankWolfe, LpBall(3), CustomLoss(1.0, 1.0), budget=BUDGET)
    with pytest.raises(ValueError, match="pass a stream"):
        check_learner(custom)
    assert "horizons_are_walls" in check_learner(custom, LOSSES)

    class Strange:
        def __init__(self, *, horizon, source, mystery):
            pass

    with pytest.raises(TypeError, match="pass a function that makes a Strange"):
        check_learner(Strange)
    made = TreeFrankWolfe(LpBall(3), SquaredLoss(1.0, 1.0), horizon=30, budget=BUDGET)
    with pytest.raises(TypeError, match="got an object of TreeFrankWolfe"):
        check_learner(made)


def test_names_of_checks_are_known():
    with pytest.raises(ValueError, match="did you mean 'horizons_are_walls'"):
        check_learner("noisy-ftrl", checks=["horizon_is_a_wall"])
    assert set(contract_checks("batch")) < set(contract_checks())
    with pytest.raises(ValueError, match="plays must be one of"):
        contract_checks("record")
