"""What all learners of experts share: units of reports, traces, copies, draws."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.descriptions import told

import dpoco
from dpoco import experts
from dpoco.accounting.shift_detector import bias, bias_noise
from dpoco.learning.state import unpack
from dpoco.published import asi_tracking
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
LEARNERS = {
    "PrefixHedge": {},
    "EpochSelector": {},
    "WindowSelector": {"expected_shifts": 2, "gap": 0.3},
    "ShiftDetector": {"expected_shifts": 2},
    "ObliviousTracker": {"switches": 2},
    "BatchShare": {"switches": 2},
}


def make(name, n=4, *, horizon=10**6, **options):
    options = {"horizon": horizon, "budget": BUDGET} | LEARNERS[name] | options
    return getattr(experts, name)(n, source=Source.seeded(3), **options)


@pytest.mark.parametrize("name", LEARNERS)
def test_bounds_are_in_the_units_of_the_losses(name):
    unit = make(name).guarantee
    scaled = make(name, loss_range=(-20.0, 80.0)).guarantee
    assert scaled.regret_bound == pytest.approx(100.0 * unit.regret_bound)
    for key, value in unit.details.items():
        if key.startswith("regret") and isinstance(value, float):
            counted = key in ("regret bound, rounds", "regret bound, shifts")
            assert scaled.details[key] == pytest.approx(value if counted else 100.0 * value)
    terms = [v for k, v in scaled.details.items() if k.startswith("regret: ")]
    if terms:
        assert sum(terms) == pytest.approx(scaled.regret_bound, rel=1e-9)
    assert scaled.epsilon == unit.epsilon


@pytest.mark.parametrize("name", LEARNERS)
def test_losses_in_other_units_lead_to_the_same_decisions(name):
    losses = np.random.default_rng(1).integers(0, 33, (300, 4)) / 32.0
    unit = make(name, horizon=300).run(losses)
    other = make(name, horizon=300, loss_range=(-1.0, 1.0)).run(2.0 * losses - 1.0)
    assert np.array_equal(unit.decisions, other.decisions)
    assert np.array_equal(other.losses, 2.0 * unit.losses - 1.0)


@pytest.mark.parametrize("name", LEARNERS)
def test_losses_are_clipped_and_what_is_not_finite_counts_as_the_lowest(name):
    wild = np.random.default_rng(0).random((40, 4))
    wild[3], wild[5, :2] = [np.nan, np.inf, -np.inf, 7.0], [-3.0, 1e300]
    tame = wild.copy()
    tame[3], tame[5, :2] = [0.0, 0.0, 0.0, 1.0], [0.0, 1.0]
    one, other = make(name, horizon=40), make(name, horizon=40)
    assert np.array_equal(one.run(wild).decisions, other.run(tame).decisions)
    assert one._engine.variates_drawn() == other._engine.variates_drawn()
    assert (one.nonprivate_violations, other.nonprivate_violations) == (6, 0)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(("n", "rounds"), [(1, 9), (4, 1)])
def test_with_one_expert_or_one_round_nothing_depends_on_the_losses(name, n, rounds):
    losses = np.random.default_rng(0).random((rounds, n))
    still = dict.fromkeys(LEARNERS[name], 0)  # no shifts, no switches
    learner, other = (make(name, n, horizon=rounds, **still) for _ in range(2))
    assert learner.guarantee.epsilon == learner.guarantee.delta == 0.0
    before = learner._engine.variates_drawn()
    played = learner.run(losses).decisions
    assert np.array_equal(played, other.run(1.0 - losses).decisions)
    after = learner._engine.variates_drawn()
    if n == 1:
        assert learner.guarantee.regret_bound == 0.0
        assert not any(after)
    assert before[2:] == after[2:]  # no noise; a decision takes a uniform variate
    again = type(learner)._from_bytes(learner._to_bytes())
    assert again._engine.state() == learner._engine.state()


@pytest.mark.parametrize("name", LEARNERS)
def test_traces_compare_with_experts_and_sequences(name):
    losses = np.random.default_rng(2).random((40, 4))
    losses[3, 1] = np.nan
    trace = make(name, horizon=40).run(losses)
    assert trace.decisions.dtype == np.int64
    assert not trace.decisions.flags.writeable
    admitted = np.nan_to_num(losses, nan=0.0)
    assert np.array_equal(trace.losses, admitted[np.arange(40), trace.decisions])
    assert trace.regret(1)[-1] == pytest.approx(trace.losses.sum() - admitted[:, 1].sum())
    best = dpoco.evaluation.best_switching_sequence(losses, 3)
    assert trace.regret(best)[-1] == pytest.approx(trace.losses.sum() - best.total_loss)
    assert trace.regret(trace.decisions)[-1] == 0.0
    one = [-1, *[0] * 39]
    for bad, error in ((4, ValueError), (one, ValueError), (0.5, TypeError), ([0, 1], ValueError)):
        with pytest.raises(error):
            trace.regret(bad)
    assert "not private" in repr(trace)


@pytest.mark.parametrize("name", LEARNERS)
def test_losses_are_good_up_to_the_ends_of_their_range(name):
    rows = np.tile([-1.0, 2.0], (9, 2))
    learner = make(name, horizon=20, loss_range=(-1.0, 2.0), on_violation="raise")
    assert learner.run(rows).nonprivate_records.shares["out_of_range"] == 0.0
    for at, value in ((5, np.nextafter(2.0, 3.0)), (8, np.nextafter(-1.0, -2.0))):
        rows[at, 3] = value
        with pytest.raises(ValueError, match=f"round {9 + at} are outside"):
            learner.run(rows)
        rows[at, 3] = 0.0
    assert learner.round == 9


def test_how_many_experts_there_may_be(monkeypatch):
    with pytest.raises(ValueError, match=rf"experts must be .*{2**32}\]"):
        make("ObliviousTracker", 2**32 + 1)
    options = {"budget": None, "learning_rate": 0.1}
    for switches, prior in ((2**13 - 1, "at_most"), (2**13, "share")):
        more = {"switches": switches, "prior": prior, **options}
        build = partial(make, "ObliviousTracker", 2**20, **more)
        assert told(monkeypatch, "ObliviousTracker", build)[2] == switches
    with pytest.raises(ValueError, match="too large for the prior"):
        make("ObliviousTracker", 2**20, **options, switches=2**13, prior="at_most")
    assert 0 <= make("ObliviousTracker", horizon=None, share_rate=0.1).decide() < 4
    alone = make("ObliviousTracker", 1, **options, prior="at_most")
    header = unpack(alone._to_bytes())[0]["object"]
    for count, held in ((1, 1), (5, 15)):
        header["arguments"]["experts"] = header["plan"]["mechanism"]["experts"] = count
        assert alone._header_dimension(header) == held


@pytest.mark.parametrize("options", [{"threshold_scale": 0.5}, {"published": True}])
def test_the_detector_is_built_as_described(monkeypatch, options):
    """Other numbers: the contract's `descriptions_reach_engines`."""
    budget = dpoco.Budget(90.0, 1e-6)
    if "published" in options:
        printed = asi_tracking.shift_detector(4, horizon=40, budget=budget, expected_shifts=2)
        options = {"plan": printed}
        budget = None
    learner = make("ShiftDetector", horizon=40, budget=budget, **options)
    build = partial(learner._build_engine, Source.seeded(1)._claim())
    (drawn, _, _, threshold, allowed, *_), p = (
        told(monkeypatch, "ShiftDetector", build),
        learner.plan,
    )
    own = p.tuning
    assert threshold == own.threshold * own.threshold_scale
    noise = 0.0 if "plan" in options else bias_noise(p)
    assert allowed == {
        "log_union": own.log_selection or 0.0, "noise": noise, "unselected": bias(p, 0),
    }  # fmt: skip
    assert drawn == learner.guarantee.description


PURE, ENDLESS = dpoco.Budget(1.0, 0.0), {"horizon": None, "share_rate": 0.1}


def test_switches_beyond_the_horizon_are_planned_for_silently():
    plans = dpoco.choose(
        3, horizon=5, budget=BUDGET, switches=7, adversary="shifting"
    )  # warnings are errors here
    assert plans


def test_comparators_take_any_number_of_switches():
    losses = np.random.default_rng(0).random((6, 3))
    best = dpoco.evaluation.best_switching_sequence(losses, 10**12)
    assert best.limit == 5
    assert best.total_loss == pytest.approx(losses.min(axis=1).sum())


@pytest.mark.parametrize("epsilon", [1e-170, 1e-101, 1e101, 1e200])
def test_budgets_beyond_double_precision_are_refused(epsilon):
    with pytest.raises(dpoco.CalibrationError, match="epsilon"):
        make("BatchShare", budget=dpoco.Budget(epsilon, 0.0), horizon=100)
