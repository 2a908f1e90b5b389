"""People who come back, in evaluations: budgets are for a person, and her rule is kept to."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco import environments, evaluation
from dpoco.bandits import LinUCB
from dpoco.domains import LpBall
from dpoco.experts import PrefixHedge
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, D = 60, 2
BUDGET = dpoco.Budget(4.0, 1e-4)
RULE = dpoco.Participation(2, 5)
STREAM = dpoco.datasets.linear_regression_stream(T, D, seed=1)
PROBLEM = LpBall(D, 2.0), SquaredLoss(1.0, 1.0)
LOSSES = np.random.default_rng(2).uniform(size=(T, 3))
WHO = np.random.default_rng(3).integers(0, 9, T)
TERMS = {"horizon": T, "budget": BUDGET, "participation": RULE}
# A learner, with what it plays.
CASES = {
    "records": (
        lambda **terms: NoisyFTRL(*PROBLEM, **terms),
        (STREAM.features, STREAM.labels),
    ),
    "experts": (lambda **terms: PrefixHedge(3, **terms), (LOSSES,)),
    "arms": (lambda **terms: LinUCB(3, D, reward_bound=0.5, context_bound=1.0, **terms), ()),
}


def test_a_report_is_of_the_learner_that_keeps_to_the_rule():
    make, data = CASES["records"]
    started = []
    how = {"budget": BUDGET, "seed": 4, "progress": lambda *told: started.append(told)}

    def game(**how):
        return evaluation.game_of_records(NoisyFTRL, STREAM, *PROBLEM, **how)

    with pytest.raises(TypeError, match=r"^persons must be given, because the learner enforces"):
        evaluation.compare_private(game(participation=RULE), **how)
    with pytest.raises(TypeError, match=r"^persons would be ignored"):
        evaluation.compare_private(game(persons=WHO), **how)
    assert not started
    report = evaluation.compare_private(game(participation=RULE, persons=WHO), **how)
    assert report.guarantee["person"] == [2, 5]
    assert report.guarantee["epsilon"] == pytest.approx(4.0, rel=1e-5)
    trace = make(**TERMS, source=Source.seeded(4)).run(*data, persons=WHO)
    assert report.private.average_losses == (pytest.approx(trace.losses.mean(), rel=1e-12),)


@pytest.mark.parametrize("name", ["records", "experts"])
def test_windows_judge_all_records_and_learn_from_those_that_pass(name, monkeypatch):
    monkeypatch.setattr("dpoco.evaluation._runs._LARGEST_PART", 7 * D)
    make, data = CASES[name]
    one, other = (make(**TERMS, source=Source.seeded(1)) for _ in range(2))
    with pytest.raises(TypeError, match=r"^persons must"):
        evaluation.prequential(one, *data)
    assert one.round == 0
    found = evaluation.prequential(one, *data, persons=WHO)
    trace = other.run(*data, persons=WHO)
    assert one._payload() == other._payload()
    assert found.overall["loss"] == pytest.approx(trace.losses.mean(), rel=1e-12)


def test_worlds_tell_whose_rounds_they_are():
    worlds = {
        "experts": lambda: environments.SwitchingStochastic(3, T, seed=1),
        "arms": lambda: environments.LinearWorld(3, D, T, seed=1),
    }
    for name, play in (("experts", environments.play), ("arms", environments.play_bandit)):
        learner = CASES[name][0](**TERMS, source=Source.seeded(1))
        before = learner._payload()
        with pytest.raises(TypeError, match=r"^persons must"):
            play(learner, worlds[name]())
        assert learner._payload() == before
        play(learner, worlds[name](), persons=WHO)
        assert learner._limiter._people.people == len(set(WHO))


def test_a_comparison_is_of_one_promise_and_refused_before_it_is_played():
    played = []

    def build(rule):
        def make(budget, source):
            learner = TreeFrankWolfe(
                *PROBLEM, horizon=T, budget=budget, source=source, participation=rule
            )
            played.append(learner)
            return learner

        return make

    best = {"name": "zero", "total_loss": 0.0}
    data = STREAM.features, STREAM.labels
    vouched = dpoco.Participation(2, 5, enforced=False)
    for other, error in ((None, "people"), (vouched, "would be ignored")):
        with pytest.raises((ValueError, TypeError), match=error):
            evaluation.compare(
                {"one": build(RULE), "other": build(other)}, data, budgets=[BUDGET],
                comparator=best, persons=WHO,
            )  # fmt: skip
    assert all(learner.round == 0 for learner in played)
    found = evaluation.compare(
        {"one": build(RULE)}, data, budgets=[BUDGET], comparator=best, persons=WHO, repeats=1
    )
    assert found.rows[0].guarantee["person"] == [2, 5]
