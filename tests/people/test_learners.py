"""Learners with a participation: calibrated for all rounds of a person, and enforcing them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.contract.variants import VARIANTS

import dpoco
from dpoco import evaluation
from dpoco.audit._contract import ROUNDS, _standard_subject, _subject, equal, expect_no_change
from dpoco.environments import play_delayed
from dpoco.errors import CalibrationError, HorizonExceeded, RoundOrderError, StateError
from dpoco.learners import LEARNERS, find_learner
from dpoco.learning import learner as _learner
from dpoco.learning.participation import Participation, for_people
from dpoco.learning.state import pack, unpack

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

ONLINE = ("records", "surface", "experts", "arms")
NAMES = [each.name for each in LEARNERS if each.plays in ONLINE]
RULE = Participation(2, 3)
PEOPLE = np.random.default_rng(8).integers(0, 4, ROUNDS)


@pytest.fixture(scope="module", params=[*NAMES, "ctrl, quadratic"])
def subject(request):
    if request.param not in NAMES:  # an option that plays in its own way
        return _subject(*VARIANTS[request.param])
    subject = _standard_subject(request.param)
    if subject.plays == "experts":  # whose losses are not in units of their range
        return replace(subject, make=partial(subject.make, loss_range=(-0.25, 1.5)))
    return subject


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Play every run in several chunks."""
    monkeypatch.setattr(_learner, "_CHUNK_ROUNDS", 7)


@pytest.fixture(scope="module")
def fresh(subject):
    """Return a maker of learners that enforce a rule, with noise for single rounds."""

    def make(participation=RULE, **changes):
        plan = subject.first.plan
        return subject.fresh(participation=participation, plan=plan, budget=None, **changes)

    return make


def passed(people=PEOPLE):
    """Return who is let through, by the rule said with lists."""
    own = {}
    for turn, person in enumerate(people.tolist()):
        rounds = own.setdefault(person, [])
        good = len(rounds) < RULE.rounds and (not rounds or turn - rounds[-1] >= RULE.separation)
        if good:
            rounds.append(turn)
        yield good


def played(subject, learner, people, start=0, stop=ROUNDS):
    released = []
    for turn in range(start, stop):
        decision = subject.ask(learner, turn)
        released.append(decision)
        subject.tell(learner, turn, decision, person=int(people[turn]))
    return released


def test_the_budget_is_for_all_rounds_of_a_person_and_not_wasted(subject):
    budget = dpoco.Budget(epsilon=1.0, delta=1e-6)
    learner = subject.fresh(participation=RULE, budget=budget)
    assert learner.guarantee.person == (2, 3)
    assert learner.guarantee.unit == "one person"
    learner.guarantee.verify()
    learner.guarantee.require(budget)
    if find_learner(subject.kind).name in ("oblivious-tracker", "ctrl", "comw"):
        return  # so few rounds have few plans, and some of them never move
    assert learner.guarantee.epsilon_at(budget.delta) >= 0.99
    with pytest.raises(dpoco.BudgetExceeded):  # a round's noise is too little for a person
        subject.fresh(participation=RULE, budget=budget, plan=subject.fresh(budget=budget).plan)


def test_runs_are_the_loop_and_states_go_on(subject, fresh):
    one, many = fresh(), fresh()
    released = played(subject, one, PEOPLE, 0, ROUNDS // 2)
    one = pickle.loads(pickle.dumps(one))
    one.resume()
    released += played(subject, one, PEOPLE, ROUNDS // 2)
    assert equal(released, subject.run(many, persons=PEOPLE))
    assert one._payload() == many._payload()


def test_what_does_not_pass_is_an_empty_record(subject, fresh):
    learner, plain = fresh(), subject.fresh()
    good = np.array(list(passed()))
    assert not good.all()
    assert good.any()
    emptied = [np.array(part, dtype=float, copy=True) for part in subject.part(0, ROUNDS)]
    emptied[-1 if subject.plays == "arms" else 0][~good] = np.nan
    plain.run(*emptied)
    learner.run(*subject.part(0, ROUNDS), persons=PEOPLE)
    assert learner._engine.state() == plain._engine.state()


def test_records_beyond_the_rule_leave_no_trace(subject, fresh):
    worlds = [fresh(), fresh()]
    good = np.array(list(passed()))
    part = subject.part(0, ROUNDS)
    other = [np.array(each, dtype=float, copy=True) for each in part]
    other[-1][~good] = other[-1][~good][::-1] * 0.5
    worlds[0].run(*part, persons=PEOPLE)
    worlds[1].run(*other, persons=PEOPLE)
    assert worlds[0]._payload() == worlds[1]._payload()


def test_losses_of_a_trace_are_those_of_all_records(subject, fresh):
    own = "rewards" if subject.plays == "arms" else "losses"
    learner = fresh()
    trace = learner.run(*subject.part(0, ROUNDS), persons=PEOPLE)
    if subject.plays == "arms":
        table = subject.part(0, ROUNDS)[1]
        expected = table[np.arange(ROUNDS), trace.actions]
        expected = np.clip(expected, *learner._reward_range())
    else:
        expected = np.array([trace.comparator_losses(each)[t]
                             for t, each in enumerate(trace.decisions)])  # fmt: skip
    np.testing.assert_allclose(getattr(trace, own), expected, rtol=1e-12, atol=1e-12)


def test_names_are_asked_for_where_they_count_only(subject, fresh):
    strict, plain = fresh(), subject.fresh()
    vouched = fresh(Participation(2, 3, enforced=False))
    for learner, named in ((strict, {}), (plain, {"person": 1}), (vouched, {"person": 1})):
        decision = subject.ask(learner, 0)
        with expect_no_change(learner, "the call"), pytest.raises(TypeError, match="person"):
            subject.tell(learner, 0, decision, **named)
    for learner, named in ((fresh(), {}), (subject.fresh(), {"persons": PEOPLE})):
        with expect_no_change(learner, "the call"), pytest.raises(TypeError, match="persons"):
            learner.run(*subject.part(0, ROUNDS), **named)
    learner = fresh()
    with expect_no_change(learner, "the call"), pytest.raises(ValueError, match="shape"):
        learner.run(*subject.part(0, ROUNDS), persons=PEOPLE[:-1])
    assert vouched.guarantee.person == (2, 3)
    for learner, enforced in ((strict, True), (plain, False), (vouched, False)):
        assert any("refuses people" in text for text in learner.guarantee.conditions) == enforced


def test_a_full_house_plays_nothing(subject, fresh):
    learner = fresh(Participation(2, 3, max_persons=3))
    before = learner._payload()
    with pytest.raises(RoundOrderError, match="max_persons"):
        learner.run(*subject.part(0, ROUNDS), persons=PEOPLE)
    assert learner._payload() == before


def test_tickets_count_when_their_records_arrive(subject, fresh):
    learner, plain = fresh(), fresh()
    decision, ticket = subject.ask(learner, 0, ticket=True)
    subject.tell(learner, 0, decision, ticket=ticket, person=int(PEOPLE[0]))
    played(subject, learner, PEOPLE, 1)
    played(subject, plain, PEOPLE)
    assert learner._limiter.state() == plain._limiter.state()


def test_tickets_that_are_refused_or_dropped_count_nobody():
    rule, budget = Participation(2), dpoco.Budget(4.0, 1e-6)
    context = np.full(3, 0.1)
    bandit = dpoco.bandits.LinUCB(
        3, 3, horizon=20, budget=budget, participation=rule, context_bound=1.0, reward_bound=1.0
    )
    _, ticket = bandit.decide(context, ticket=True)
    bandit.decide(context)
    with expect_no_change(bandit, "the call"), pytest.raises(RoundOrderError, match="waits"):
        bandit.observe(0.5, ticket=ticket, person=1)
    forced = dpoco.bandits.HighDimensionalBandit(
        2, dpoco.domains.LpBall(3, 1.0), horizon=20, budget=budget, forced_rounds=1,
        participation=rule, context_bound=1.0, reward_bound=1.0
    )  # fmt: skip
    tickets = [forced.decide(context, ticket=True)[1] for _ in range(3)]
    spare = [each for each in tickets if each.decision == tickets[2].decision]
    assert len(spare) == 2
    forced.observe(0.5, ticket=spare[0], person=1)
    before = forced._limiter.state()
    with pytest.raises(TypeError, match="person"):
        forced.observe(0.5, ticket=spare[1])
    forced.observe(0.5, ticket=spare[1], person=2)
    assert (forced.round, forced._limiter.state()) == (1, before)


def test_states_without_people_are_refused(subject, fresh):
    learner = fresh()
    played(subject, learner, PEOPLE, 0, 3)
    for cut in (1, 8, 30):
        with pytest.raises(StateError):
            fresh()._go_on(learner._payload()[:-cut])


def test_journals_enforce_as_learners_do(subject, fresh, tmp_path):
    learner = fresh()
    released = subject.run(learner, persons=PEOPLE)
    with dpoco.journal.Journal(tmp_path / "journal") as journal:
        stream = journal.open("stream", fresh())
        for _ in range(2):
            got = stream.process(*subject.part(0, ROUNDS), first_round=0, person=PEOPLE)
            assert equal(list(got), list(released))
        assert stream._learner._payload() == learner._payload()


def test_pools_enforce_under_each_key_by_itself(subject, fresh, tmp_path):
    if subject.make in VARIANTS["ctrl, quadratic"]:
        return  # pools refuse quadratic losses
    plain = subject.fresh()
    pools = (dpoco.scale.KeyedPool(x, max_keys=2, adaptive=False) for x in (fresh(), plain))
    one, other = pools
    keys = np.arange(ROUNDS) % 3 // 2
    good = np.ones(ROUNDS, dtype=bool)
    for key in (0, 1):
        good[keys == key] = list(passed(PEOPLE[keys == key]))
    parts = [np.array(part, dtype=float, copy=True) for part in subject.part(0, ROUNDS)]
    for start in range(0, ROUNDS, 4):
        one.process(keys[start:start + 4], *(part[start:start + 4] for part in parts),
                    person=PEOPLE[start:start + 4])  # fmt: skip
        if start == 4:
            one.save(tmp_path / "pool")
            one = dpoco.scale.KeyedPool.load(tmp_path / "pool")
    parts[-1 if subject.plays == "arms" else 0][~good] = np.nan
    other.process(keys, *parts)
    assert not good.all()
    for key in (0, 1):
        assert one[key]._engine.state() == other[key]._engine.state()


def test_states_are_for_one_rule(subject, fresh):
    learner = fresh()
    played(subject, learner, PEOPLE, 0, 3)
    wider = fresh(Participation(2, 4))
    with pytest.raises(StateError, match="another participation"):
        wider._go_on(learner._payload())


def test_siblings_and_clones_know_nobody(subject, fresh):
    learner = fresh(seed=None)
    learner.run(*subject.part(0, ROUNDS), persons=PEOPLE)
    clone = learner.clone()
    assert clone._limiter._people.people == 0
    assert clone._limiter._key != learner._limiter._key


@pytest.mark.parametrize(
    ("rule", "error"),
    [(Participation(2, ROUNDS + 1), ValueError), (3, TypeError), ((2, 3), TypeError)],
)
def test_rules_that_do_not_fit_are_refused(subject, rule, error):
    with pytest.raises(error):
        subject.fresh(participation=rule)


@pytest.mark.parametrize("name", ["CoupledRegularizedLeader", "ContinuousMultiplicativeWeights"])
def test_custom_losses_beyond_the_rule_are_never_asked_again(name):
    class Slope:
        asked = 0

        def value(self, theta):
            self.asked += 1
            return float(theta[0])

        def gradient(self, theta):
            self.asked += 1
            return np.array([1.0])

        def hessian(self, theta):
            self.asked += 1
            return np.zeros((1, 1))

    learner = getattr(dpoco.oco, name)(
        dpoco.domains.Box([-1.0], [1.0]),
        dpoco.losses.CustomLoss(lipschitz=1.0, smoothness=1.0),
        horizon=20, budget=None, participation=Participation(2),
    )  # fmt: skip
    slopes = [Slope() for _ in range(20)]
    for slope in slopes:
        learner.decide()
        learner.observe(slope, person="anna")
    assert slopes[0].asked > 0
    assert not any(slope.asked for slope in slopes[2:])


def test_searches_end_where_nothing_meets_the_budget():
    class Nothing:
        def __call__(self, budget):
            if budget.epsilon < 0.3:
                raise CalibrationError("no scale")
            return budget

    def guarantee(budget):
        domain = dpoco.domains.LpBall(dimension=1, p=2.0, radius=1.0)
        loss = dpoco.losses.LinearLoss(gradient_bound=1.0)
        accountant = dpoco.accounting.noisy_ftrl
        parameters = accountant.calibrate(domain, loss, horizon=100, budget=budget)
        return accountant.guarantee(domain, loss, parameters, budget=budget)

    budget = dpoco.Budget(1.0, 1e-6)
    with pytest.raises(CalibrationError, match="for all rounds of a person: no scale"):
        for_people(Nothing(), guarantee, Participation(50), budget)
    found = for_people(Nothing(), guarantee, Participation(2), budget)
    assert 0.3 < found.epsilon < 1.0


@pytest.mark.parametrize("epsilon", [1e-4, 1e-8])
def test_budgets_that_are_all_delta_are_met_and_not_wasted(epsilon):
    budget = dpoco.Budget(epsilon, 1e-6)
    domain = dpoco.domains.LpBall(dimension=1, p=2.0, radius=1.0)
    learner = dpoco.oco.NoisyFTRL(
        domain, dpoco.losses.LinearLoss(1.0), horizon=1000, budget=budget,
        participation=Participation(40),
    )  # fmt: skip
    learner.guarantee.require(budget)
    assert learner.guarantee.delta_at(epsilon) >= 0.99 * budget.delta


def test_horizons_and_people_end_together():
    domain = dpoco.domains.LpBall(dimension=1, p=2.0, radius=1.0)
    loss = dpoco.losses.LinearLoss(gradient_bound=1.0)
    learner = dpoco.oco.NoisyFTRL(
        domain, loss, horizon=1, budget=dpoco.Budget(1.0, 1e-2 / 20), participation=Participation(5)
    )
    assert learner.guarantee.person == (1, 1)  # all that she brings, of which one record counts
    assert learner.guarantee.conditions[0] == "Each person contributes at most one round."
    assert learner.guarantee.epsilon == dpoco.oco.NoisyFTRL(
        domain, loss, horizon=1, budget=dpoco.Budget(1.0, 1e-2 / 20)
    ).guarantee.epsilon  # fmt: skip
    learner.run([[1.0]], persons=["anna"])
    with pytest.raises(HorizonExceeded):
        learner.run([[1.0]], persons=["anna"])


def test_all_that_plays_learners_names_people_or_plays_nothing(subject, fresh):
    stream, built = subject.part(0, ROUNDS), []

    def build(*_):
        built.append(fresh())
        return built[-1]

    best = {"name": "nothing", "total_loss": 0.0}
    players = {
        "repeat": lambda **who: evaluation.repeat(build, *stream, repeats=1, **who),
        "compare": lambda **who: evaluation.compare(
            {"it": build}, stream, budgets=[None], comparator=best, **who
        ),
        "play_delayed": lambda **who: play_delayed(build(), stream, 0, **who),
    }
    learner = fresh()
    learner.run(*stream, persons=PEOPLE)
    for name, play in players.items():
        play(persons=PEOPLE)
        assert built[-1]._payload() == learner._payload(), name
        for wrong, error in (({}, TypeError), ({"persons": PEOPLE[1:]}, ValueError)):
            with pytest.raises(error, match=r"^persons must"):
                play(**wrong)
            assert built[-1]._payload() == fresh()._payload(), name


def test_a_sum_never_says_that_it_enforces_what_it_cannot():
    """Neither when it is built nor when a state asks for it."""
    rule = Participation(2, 3, enforced=False)
    total = dpoco.mechanisms.ContinualSum(3, horizon=9, participation=rule, budget=None, bound=1.0)
    with pytest.raises(ValueError, match="enforced=False"):
        dpoco.mechanisms.ContinualSum(3, horizon=9, participation=RULE, budget=None, bound=1.0)
    header, payload = unpack(total._to_bytes())
    header["object"]["arguments"]["participation"]["enforced"] = True
    with pytest.raises(StateError):
        type(total)._from_bytes(pack(header, payload))
