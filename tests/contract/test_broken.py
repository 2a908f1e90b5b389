"""For every check of the contract a learner that breaks its rule, and is caught by it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dpoco
from dpoco.accounting import Guarantee
from dpoco.audit import _contract_copies, check_learner, contract_checks
from dpoco.experts import PrefixHedge
from dpoco.frank_wolfe import SufficientStatistics
from dpoco.learning.tickets import TicketBook
from dpoco.mechanisms import ContinualSum
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

FAULTS = {}


def fault(target, attribute):
    """Enter a replacement of a method, made from the method; its name is the check's."""

    def enter(build):
        FAULTS[build.__name__] = (target, attribute, build)
        return build

    return enter


def nothing(*_, **__):
    return None


@fault(PrefixHedge, "horizon")
def new_learners_have_not_played(_):
    return property(lambda self: self._horizon + 1)


@fault(PrefixHedge, "decide")
def decisions_stay_until_observe(decide):
    fresh = itertools.count()
    return lambda self, **more: (decide(self, **more), next(fresh) % 4)[1]


@fault(PrefixHedge, "_check_turn")
def decide_and_observe_alternate(_):
    return lambda self: (self.round, 0)


@fault(PrefixHedge, "decide")
def runs_are_the_loop(decide):
    return lambda self: (decide(self) + 1) % 4


@fault(PrefixHedge, "decide")
def horizons_are_walls(decide):
    def lenient(self, **more):
        return 0 if self.round >= self._horizon else decide(self, **more)

    return lenient


@fault(PrefixHedge, "_arrive")
def tickets_in_turn_change_nothing(arrive):
    return lambda self, ticket, losses: arrive(self, ticket, np.roll(losses, 1))


@fault(TicketBook, "check")
def tickets_are_taken_once(_):
    return nothing


@fault(PrefixHedge, "_check_room")
def tickets_reserve_rounds(_):
    return lambda self, outstanding: self.round


@fault(PrefixHedge, "__init__")
def seeds_repeat_releases(init):
    return lambda self, *given, source=None, **more: init(self, *given, source=Source(), **more)


@fault(PrefixHedge, "observe")
def malformed_records_are_refused(observe):
    def lenient(self, losses, **more):
        try:
            observe(self, losses, **more)
        except ValueError:
            observe(self, np.zeros(4), **more)

    return lenient


@fault(PrefixHedge, "run")
def malformed_runs_are_refused(run):
    def lenient(self, losses, **more):
        try:
            return run(self, losses, **more)
        except ValueError:
            return run(self, np.zeros((1, 4)), **more)

    return lenient


@fault(PrefixHedge, "observe")
def missing_values_are_silent(observe):
    return lambda self, losses, **more: observe(self, np.nan_to_num(losses, nan=1.0), **more)


@fault(PrefixHedge, "observe")
def huge_values_are_silent(observe):
    def strict(self, losses, **more):
        if np.abs(losses).max() > 1e9:
            raise ValueError("too large")
        observe(self, losses, **more)

    return strict


@fault(PrefixHedge, "run")
def dtypes_and_layouts_do_not_matter(run):
    def picky(self, losses, **more):
        return run(self, losses if isinstance(losses, np.ndarray) else losses[::-1], **more)

    return picky


@fault(PrefixHedge, "_refuse_violations")
def violations_are_refused_on_request(_):
    return nothing


@fault(PrefixHedge, "_from_bytes")
def saved_states_go_on(read):
    return classmethod(lambda cls, data: read(data).clone())


@fault(PrefixHedge, "_from_bytes")
def damaged_states_are_refused(read):
    def lenient(cls, data):
        try:
            return read(data)
        except dpoco.StateError:
            return cls(4, horizon=24, budget=None)

    return classmethod(lenient)


@fault(PrefixHedge, "_build_engine")
def descriptions_reach_engines(build):
    def deaf(self, claim):
        told, self._mechanism = self._mechanism, replace(self._mechanism, scale=9.0)
        try:
            return build(self, claim)
        finally:
            self._mechanism = told

    return deaf


@fault(PrefixHedge, "save")
def checkpoints_go_on(save):
    def once(self, path):
        if not Path(path).is_file():
            save(self, path)

    return once


@fault(PrefixHedge, "_check_active")
def pickles_wait_for_resume(_):
    return nothing


@fault(PrefixHedge, "clone")
def unstarted_pickles_have_their_own_noise(_):
    return lambda self: self


@fault(PrefixHedge, "__copy__")
def copies_share_no_noise(_):
    return lambda self: self


@fault(PrefixHedge, "observe")
def threads_end_one_round_each(observe):
    def twice(self, losses, **more):
        observe(self, losses, **more)
        self.decide()
        observe(self, losses, **more)

    return twice


@fault(PrefixHedge, "_check_alone")
def runs_keep_other_threads_out(_):
    return nothing


@fault(PrefixHedge, "_build_engine")
def learners_share_nothing(build):
    shared = []

    def once(self, claim):
        shared.append(build(self, claim))
        return shared[0]

    return once


@fault(PrefixHedge, "observe")
def forked_children_wait_for_resume(observe):
    def eager(self, losses, **more):
        self._engine.adopt()
        observe(self, losses, **more)

    return eager


@fault(PrefixHedge, "run")
def interrupted_runs_go_on(run):
    def stubborn(self, losses, *, progress=None, **more):
        try:
            return run(self, losses, progress=progress, **more)
        except ValueError:
            return None

    return stubborn


@fault(PrefixHedge, "__init__")
def bad_arguments_are_refused(init):
    def lenient(self, *given, no_such_option=None, **more):
        init(self, *given, **more)

    return lenient


@fault(PrefixHedge, "_check_fixed")
def parameters_may_be_restated(_):
    return nothing


@fault(Guarantee, "require")
def budgets_are_kept(_):
    return nothing


@fault(Guarantee, "private")
def no_budget_is_no_promise(_):
    return property(lambda self: True)


@fault(PrefixHedge, "get_params")
def arguments_come_back(get_params):
    return lambda self: {**get_params(self), "horizon": self.horizon + 1}


@fault(PrefixHedge, "_entries")
def one_dimension_is_enough(entries):
    return lambda self: entries(self) if self.experts > 1 else {"": 1 / 0}


@fault(PrefixHedge, "__repr__")
def reports_show_no_data(_):
    return lambda self: f"epsilon, round {self.round}"


@fault(ContinualSum, "_build_engine")
def replays_move_no_more_than_stated(build):
    def loose(self, claim):
        kept = self._mechanism
        self._mechanism = dpoco.mechanisms.ContinualSum(
            3, horizon=kept.pushes, budget=None, bound=3.0
        )._mechanism
        try:
            return build(self, claim)
        finally:
            self._mechanism = kept

    return loose


@fault(SufficientStatistics, "fit")
def one_fit_is_one_release(fit):
    def again(self, *data, **more):
        self._fitted = False
        return fit(self, *data, **more)

    return again


@fault(SufficientStatistics, "fit")
def malformed_data_spend_nothing(fit):
    def lenient(self, rows, labels, **more):
        return fit(self, rows, np.zeros(len(rows)) if labels is None else labels, **more)

    return lenient


@fault(SufficientStatistics, "__getstate__")
def fitted_models_are_values(_):
    return lambda self: {**self.__dict__, "_fitted": False}


@fault(SufficientStatistics, "fit")
def threads_fit_once(fit):
    def lenient(self, *data, **more):
        try:
            return fit(self, *data, **more)
        except dpoco.BudgetExceeded:
            return self

    return lenient


def test_every_check_has_its_fault():
    assert set(FAULTS) == set(contract_checks())


@pytest.mark.parametrize("check", FAULTS)
def test_a_broken_learner_is_caught(check, monkeypatch):
    target, attribute, build = FAULTS[check]
    name = {SufficientStatistics: "sufficient-statistics", ContinualSum: "continual-sum"}.get(
        target, "prefix-hedge"
    )
    assert check_learner(name, checks=[check]) == (check,)
    monkeypatch.setattr(target, attribute, build(getattr(target, attribute, None)), raising=False)
    monkeypatch.setattr(_contract_copies, "_PATIENCE", 0.5)  # for a deadlock, which one fault is
    with pytest.raises(AssertionError, match=f"fails the check {check}: .*\n.*") as caught:
        check_learner(name, checks=[check])
    assert len(str(caught.value).splitlines()) >= 2  # what was found, and the rule
