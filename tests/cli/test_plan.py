from __future__ import annotations

import itertools
import json

import pytest

from dpoco import Plan, choose
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.continuous_multiplicative_weights import CoupledForecast, GibbsTuning
from dpoco.accounting.coupled_regularized_leader import TiltedTuning
from dpoco.cli._plan_report import plan_records, standard_problem
from dpoco.learners import learner_named

MOST_WORK = 7_000_000  # 5.8 million: a handful of calibrations find the smallest useful horizon
TABLE = ("--horizon", 10**6, "--dimension", 10, "--epsilon", 1, "--delta", 1e-6)


@pytest.mark.parametrize(
    ("learner", "listed", "tuning"),
    [("ctrl", 0.00222, TiltedTuning), ("comw", 0.00675, GibbsTuning)],
)
def test_json_reproduces_the_table(work, invoke, learner, listed, tuning):
    result, done = work(lambda: invoke("plan", learner, *TABLE, "--json"))
    assert done < MOST_WORK
    report = json.loads(result.stdout)
    assert set(report) == {
        "schema", "learner", "class", "problem", "budget", "regret", "regret_bound_per_round",
        "useful", "noise", "memory", "notes", "parameters", "guarantee",
    }  # fmt: skip
    assert 0.9 * listed <= report["regret_bound_per_round"] <= 1.05 * listed
    forecast = Plan.from_dict(report["parameters"], tuning, CoupledForecast).forecast
    assert forecast.regret_bound / 10**6 == pytest.approx(report["regret_bound_per_round"])
    guarantee = Guarantee.from_dict(report["guarantee"])
    assert guarantee.epsilon <= 1.0
    assert guarantee.delta == 1e-6


def test_text_says_what_it_costs_and_why(invoke):
    text = invoke("plan", "ctrl", *TABLE).stdout
    assert "regret bound" in text
    assert "G D a round" in text
    assert "Differential privacy: epsilon = " in text
    assert "Conditions:" in text
    assert "all losses; a fresh decision asks them all" in text


@pytest.mark.parametrize(
    ("loss", "grows"), [("logistic", "and 104 for each distinct record; a fresh"), ("squared", "")]
)
def test_text_says_whether_memory_grows(invoke, loss, grows):
    options = ("--horizon", "20000", "--dimension", "10", "--loss", loss)
    text = " ".join(invoke("plan", "comw", *options).stdout.split())
    assert "bytes of state" in text
    assert ("distinct record" in text) == bool(grows)
    assert grows in text


PROBLEMS = itertools.product(
    ["ball", "box", "simplex"], ["linear", "squared", "logistic", "huber", "general"]
)


@pytest.mark.parametrize(
    ("learner", "domain", "loss"),  # in turns: each learner with every domain and loss
    [(learner, *problem) for learner, problem in zip(itertools.cycle(["ctrl", "comw"]), PROBLEMS)],
)
def test_problems_have_unit_diameter_and_slope(learner, domain, loss):
    entry = learner_named(learner)
    problem = plan_records(entry, 4, loss, domain)
    plan = entry.load()(*problem.arguments, horizon=10**5, budget=Budget(1.0, 1e-6)).plan
    assert problem.arguments[0].diameter(2.0) == pytest.approx(1.0)
    # A logistic loss is less steep where margins are bounded.
    steep = plan.mechanism.losses.lipschitz
    assert steep == pytest.approx(1.0) if loss != "logistic" else 0.5 < steep < 1.0
    width = problem.arguments[0].diameter(2.0)
    assert problem.bound(plan) == (plan.forecast.regret_bound, steep * width)


def test_options_reach_the_guarantee(answer):
    given = ("--relation", "zero_out", "--coupling", "scheduled", "--horizon", 10**5)
    report = answer("plan", "ctrl", "--dimension", 4, *given)
    assert report["guarantee"]["change"] == "zero_out"
    assert report["guarantee"]["delta"] == pytest.approx(1e-6)


@pytest.mark.parametrize("loss", ["linear", "squared", "logistic", "huber"])
@pytest.mark.parametrize("domain", ["ball", "box", "simplex"])
def test_auto_ranks_what_is_chosen(answer, invoke, loss, domain):
    asked = ("plan", "auto", "--horizon", 2000, "--dimension", 4, "--loss", loss)
    record = answer(*asked, "--domain", domain)
    problem = standard_problem(4, loss, domain)
    assert problem[0].diameter(2.0) == pytest.approx(1.0)
    choices = choose(problem, horizon=2000, budget=Budget(1.0, 1.0 / 20_000))
    assert record["schema"] == "dpoco.plan-auto/1"
    found = [(c["learner"], c["predicted_regret"], c["scope"]) for c in record["choices"]]
    assert found == [(c.learner, c.predicted_regret, c.scope) for c in choices]
    if (loss, domain) == ("logistic", "ball"):
        text = invoke(*asked, "--rounds-per-person", 3, "--separation", 10).stdout
        assert choices[0].learner in text
        assert "one person" in text


def test_plans_of_frank_wolfe_state_bounds_and_the_bandit_says_why_it_has_none(invoke):
    sizes = ("--horizon", 10**6, "--dimension", 5, "--epsilon", 1, "--delta", 1e-7)
    for name in ("tree-frank-wolfe", "polyhedral-frank-wolfe"):
        report = json.loads(invoke("plan", name, *sizes, "--json").stdout)
        parameters, stated = report["parameters"], report["guarantee"]["regret_bound"]
        share = stated / (10**6 * parameters["forecast"]["loss_range"])
        assert report["regret_bound_per_round"] == pytest.approx(share)
        assert report["regret"]["scope"] == "stochastic"
        assert f"{share:.6g} G D a round (stochastic losses)" in invoke("plan", name, *sizes).stdout
    bandit = ("plan", "high-dimensional-bandit", *sizes, "--arms", 2)
    report = json.loads(invoke(*bandit, "--json").stdout)
    assert report["regret_bound_per_round"] is None
    assert "no bound is proved, because" in report["regret"]["unproved"]
    assert "no bound is proved, because" in " ".join(invoke(*bandit).stdout.split())


def test_a_plan_notes_the_budget_that_nothing_can_spend(invoke):
    sizes = ("--horizon", 1000, "--dimension", 5, "--delta", 1e-5)
    assert "only" in invoke("plan", "tree-frank-wolfe", *sizes, "--epsilon", 60).stdout
    report = json.loads(
        invoke("plan", "tree-frank-wolfe", *sizes, "--epsilon", 60, "--json").stdout
    )
    assert any("no larger epsilon allows less noise" in note for note in report["notes"])
    report = json.loads(invoke("plan", "tree-frank-wolfe", *sizes, "--epsilon", 8, "--json").stdout)
    assert not any("no larger epsilon" in note for note in report["notes"])


EXPERTS = ("plan", "experts", "--experts", 10, "--horizon", 10**5, "--switches", 5)


def test_json_of_experts_carries_everything(answer):
    record = answer(*EXPERTS, "--delta", 1e-6)
    assert record["schema"] == "dpoco.plan-auto/1"
    plans = record["choices"]
    first = [plan["learner"] for plan in plans[:2]]
    assert first == ["experts.ObliviousTracker", "experts.BatchShare"]
    bounds = [plan["regret_bound"] for plan in plans]
    assert bounds == sorted(bounds)
    for plan in plans:
        assert Guarantee.from_dict(plan["guarantee"]).delta_at(1.0) <= 1e-6 * (1 + 1e-9)


def test_text_of_experts(invoke):
    text = invoke(*EXPERTS).stdout
    assert "ObliviousTracker" in text
    assert "oblivious" in text
    assert "Differential privacy: epsilon = " in text
