"""Published parameters: learners take them, guarantees state what they spend, states keep them."""

from __future__ import annotations

import inspect
import json

import pytest
from bench.regret_tables import RegretTableEntry, format_regret
from tests.published import FUNCTIONS, accountant_for, built, planned

import dpoco
from dpoco import bandits, experts, frank_wolfe, oco
from dpoco.domains import Box, LpBall
from dpoco.journal._releases import alike
from dpoco.learners import LEARNERS
from dpoco.learning.families import stored_header
from dpoco.learning.state import pack, unpack
from dpoco.losses import LinearLoss, QuadraticLoss, SquaredLoss
from dpoco.published import agarwal_ctrl, agarwal_lazy, asi_tracking, han_frank_wolfe, tables
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET, T = dpoco.Budget(1.0, 1e-5), 1000
L1, BALL, LINE = LpBall(4, 1.0), LpBall(3, 2.0), Box([0.0], [1.0])
CASES = {
    frank_wolfe.TreeFrankWolfe: (BALL, SquaredLoss(1.0, 1.0)),
    frank_wolfe.PolyhedralFrankWolfe: (L1, SquaredLoss(1.0, 1.0)),
    bandits.HighDimensionalBandit: (3, L1),
    experts.EpochSelector: (5,),
    experts.ShiftDetector: (5,),
    experts.BatchShare: (5,),
    oco.LipschitzLearner: (LINE,),
    oco.ContinuousMultiplicativeWeights: (BALL, LinearLoss(1.0)),
    oco.CoupledRegularizedLeader: (BALL, LinearLoss(1.0)),
}
OVERSPENT = (experts.ShiftDetector, experts.BatchShare)  # as printed


def options(kind):
    more = {
        oco.LipschitzLearner: {"lipschitz": 1.0},
        bandits.HighDimensionalBandit: {"context_bound": 1.0, "reward_bound": 1.0},
    }
    return {"horizon": T, **more.get(kind, {})}


def test_all_functions_are_tried():
    assert {accountant_for(kind) for kind in CASES} == FUNCTIONS.keys()


@pytest.mark.parametrize("calibration", ["paper", "corrected"])
@pytest.mark.parametrize("kind", CASES)
def test_a_learner_takes_them_beside_their_budget_if_they_keep_to_it(kind, calibration):
    problem, own = CASES[kind], options(kind)
    p = planned(accountant_for(kind), *problem, calibration=calibration, budget=BUDGET, **own)
    free = kind(*problem, budget=None, plan=p, source=Source.seeded(1), **own)
    printed = "corrected" not in inspect.signature(FUNCTIONS[accountant_for(kind)]).parameters
    assert free.guarantee.calibration == ("paper" if printed else calibration)
    if kind in OVERSPENT and (printed or calibration == "paper"):
        assert free.guarantee.claimed[0] == pytest.approx(1.0)
        with pytest.raises(dpoco.BudgetExceeded):
            kind(*problem, budget=BUDGET, plan=p, **own)
    else:
        held = kind(*problem, budget=BUDGET, plan=p, **own)
        assert held.guarantee.epsilon_at(BUDGET.delta) <= BUDGET.epsilon


@pytest.mark.parametrize("entry", LEARNERS, ids=lambda each: each.name)
def test_constructors_and_planners_have_one_calibration(entry):
    kind = entry.load()
    assert "calibration" not in inspect.signature(kind).parameters
    planner = getattr(getattr(kind, "_accountant", None), "calibrate", None)
    if planner is not None:
        assert "calibration" not in inspect.signature(planner).parameters


def test_states_of_before_keep_their_constants():
    """Their arguments name a calibration; parameters hold what it was."""
    learner = built(
        frank_wolfe.TreeFrankWolfe, BALL, SquaredLoss(1.0, 1.0), calibration="paper", budget=BUDGET,
        horizon=T, source=Source.seeded(1),
    )  # fmt: skip
    for calibration in ("tight", "paper"):
        header, payload = unpack(learner._to_bytes())
        header["object"]["arguments"] |= {"calibration": calibration, "plan": None}
        again = type(learner)._from_bytes(pack(header, payload))
        assert again.plan == learner.plan
        assert "calibration" not in again.get_params()
        if calibration == "paper":
            assert again.clone().plan == learner.plan


def test_streams_of_before_go_on():
    """A journal compares a learner with the arguments that it has stored."""
    learner = frank_wolfe.TreeFrankWolfe(BALL, SquaredLoss(1.0, 1.0), horizon=T, budget=BUDGET)
    stored = json.loads(stored_header(learner))
    assert alike(learner, json.dumps(stored))
    stored["object"]["arguments"]["calibration"] = "tight"
    assert alike(learner, json.dumps(stored))
    stored["object"]["arguments"]["calibration"] = "paper"
    assert not alike(learner, json.dumps(stored))


def test_forced_rounds_of_the_bandit_are_printed_ones():
    p = han_frank_wolfe.high_dimensional_bandit(2, L1, horizon=T, budget=dpoco.Budget(3.0, 1e-5))
    assert p.mechanism.forced == han_frank_wolfe.forced_rounds(4, T, 3.0) == 6
    one = p.mechanism.parts[0]
    assert (one.scores.batch, one.law) == (1, "laplace")


def test_the_trackers_of_section_four_have_the_uniform_prior():
    tracker = asi_tracking.oblivious_tracker(5, horizon=T, budget=BUDGET, switches=2)
    static = asi_tracking.oblivious_tracker(5, horizon=T, budget=BUDGET, switches=0)
    assert (tracker.mechanism.prior, tracker.tuning.switches, static.tuning.switches) == (
        "at_most",
        2,
        0,
    )
    learner = experts.ObliviousTracker(5, horizon=T, budget=BUDGET, plan=tracker)
    assert learner.guarantee.epsilon <= BUDGET.epsilon
    assert static.forecast.regret_bound < tracker.forecast.regret_bound


def test_lazy_learners_switch_as_rarely_as_they_should():
    for plan, problem in (
        (agarwal_lazy.lazy_continuous_multiplicative_weights, (BALL, LinearLoss(1.0))),
        (agarwal_ctrl.lazy_coupled_regularized_leader, (BALL, LinearLoss(1.0))),
    ):
        found = plan(*problem, horizon=10**5, max_switches=5000)
        assert found.forecast.expected_switches <= 5000
        with pytest.raises(dpoco.CalibrationError, match="max_switches"):
            plan(*problem, horizon=100, max_switches=101)
    curved = QuadraticLoss(3.0, 1.0, strong_convexity=0.5)
    with pytest.raises(dpoco.CalibrationError, match="at least"):
        agarwal_ctrl.lazy_coupled_regularized_leader(BALL, curved, horizon=100, max_switches=3)


def test_arguments_of_papers_are_checked():
    pure, box = dpoco.Budget(1.0, 0.0), Box([0.0], [1.0])
    for count, horizon in ((0, 10), (5, 0)):
        with pytest.raises(ValueError, match=r"(experts|horizon) must be"):
            asi_tracking.batch_share(count, horizon=horizon, budget=pure)
    with pytest.raises(TypeError, match="horizon must be an int"):
        asi_tracking.batch_share(5, horizon=None, budget=pure)
    for change in ({"resolution": 0}, {"learning_rate": 0.0}):
        with pytest.raises(ValueError, match=next(iter(change))):
            agarwal_ctrl.lipschitz(box, lipschitz=1.0, horizon=50, budget=BUDGET, **change)
    assert han_frank_wolfe.forced_rounds(2, 10, 1e-200) == 10


def test_tables_show_horizons_and_names_as_they_are():
    entries = [tables.NoiseTableEntry(n, 1.0, 2.0, 3.0, 0.5) for n in (15_000, 10_000)]
    regret = [RegretTableEntry(n, 2, *[0.5] * 6) for n in (15_000, 20_000)]
    rows = format_regret(regret).splitlines()[2:]
    assert [line.split("|")[1].strip() for line in rows] == ["15000", "2e4"]
    assert "| 15000 |" in tables.format_markdown(entries)
    assert tables.text_table([["name"], ["a|b"]]).splitlines()[-1] == r"| a\|b |"
