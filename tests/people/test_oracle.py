"""What is stated of people who come back, against all patterns and against what engines do.

Statements are compared in both directions: no pattern that the rule allows moves releases further,
and none is charged more than the pages say. Four faults that other tests missed are planted.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import textwrap
from functools import cache

import numpy as np
import pytest
from check import check
from tests.people.oracle import gram, growing_lengths, histories, patterns, worst

import dpoco
from dpoco import Participation
from dpoco.accounting import _certificate
from dpoco.accounting.continual_sum import SHIPPED
from dpoco.audit._contract import ROUNDS, _standard_subject
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.errors import StateError
from dpoco.experts import PrefixHedge
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.learners import LEARNERS
from dpoco.learning.participation import Limiter
from dpoco.losses import LinearLoss, LogisticLoss
from dpoco.mechanisms import ContinualSum
from dpoco.oco import NoisyFTRL, NoisyNewton
from dpoco.privacy.losses import decaying
from dpoco.privacy.mechanisms import factorisations, gaussian_sum, participation
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.base import Parts
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised, SquareRoot, Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

NAMES = [each.name for each in LEARNERS if each.plays in ("records", "surface", "experts", "arms")]
BUDGET = dpoco.Budget(1.0, 1e-3)
METHODS = {
    "shipped": SHIPPED[10**3],
    "two buffers": Buffered((0.3, 0.05), (0.2, 0.1)),
    "one buffer": Buffered((0.9,), (1.0,)),
    "square root": SquareRoot(),
    "tree": Tree(),
}
# With levels the sum is for a number of pushes; the rates' quotients must not fall.
LEVELS = ((0.3, 0.05), (0.2, 0.1))
EXACT, DIGITS = 1.0 + 1e-11, 1.0 - 1e-12


def person(rounds, separation, **more):
    return Neighbours(rounds=rounds, separation=separation, **more)


def method_of(name, pushes):
    if name == "band":
        return Banded(pushes, min(3, pushes), min(2, pushes), 0.2)
    return Normalised(*LEVELS, pushes) if name == "levels" else METHODS[name]


# -- sums, by their definition ---------------------------------------------------------------------

SHAPES = [
    *((1, None, n) for n in (1, 2, 3, 7, 10, 12)),
    *((m, None, n) for m in (2, 3, 5) for n in (1, 2, 4, 5)),
    *((m, "quarter", n) for m, n in ((1, 5), (1, 9), (2, 6), (3, 6), (4, 5))),
    *((m, "root", n) for m, n in ((1, 13), (2, 7), (3, 5))),
]
RULES = [(k, b) for k in (1, 2, 3, 4, 30) for b in (1, 2, 3, 4, 5, 7, 30) if k < 30 or b > 2]


def excess(name, batch, growth, pushes):
    """Yield (what is charged) / (what the worst pattern moves), a tree's over all of its nodes."""
    lengths = growing_lengths(batch, growth, pushes)
    method = method_of(name, pushes)
    total = GaussianSum(ClippedVector(3, 2.0, 1.0, 2.0), method, pushes, batch, growth=growth)
    table = gram(method, pushes)
    for k, b in RULES:
        if len(patterns(sum(lengths), k, b)) < 20_000:
            yield (k, b), total.column(person(k, b)) / worst(table, lengths, k, b)


@pytest.mark.parametrize(("batch", "growth", "pushes"), SHAPES)
@pytest.mark.parametrize("name", [*METHODS, "levels", "band"])
def test_sums_are_charged_for_the_worst_pattern(name, batch, growth, pushes):
    """Never below, and above by what the page says. All shapes of one method take 2 s."""
    for (k, b), ratio in excess(name, batch, growth, pushes):
        assert ratio >= DIGITS, (k, b)
        if name == "band" and (growth is not None or b < 3 * batch):
            most = 2.1
        elif growth is not None:
            most = 1.5
        elif "tree" in name:
            most = 1.1
        elif b % batch == 0:
            most = EXACT
        else:
            most = 1.5 if name in ("levels", "band") else 1.25
        if name in ("levels", "band"):  # a level may be a grid of 2^-32 above its column's norm
            most *= 1.0 + 1e-9
        assert ratio <= most, (k, b, ratio)


@pytest.mark.parametrize("name", [*METHODS, "levels", "band"])
def test_blocks_may_come_in_any_order(name):
    """The proof asks for no more than the longest length."""
    growth, first, pushes = "quarter", 2, 7
    lengths = growing_lengths(first, growth, pushes)
    assert len(set(lengths)) > 1
    method = method_of(name, pushes)
    total = GaussianSum(ClippedVector(3, 2.0, 1.0, 2.0), method, pushes, first, growth=growth)
    table = gram(method, pushes)
    for k, b in ((2, 1), (2, 2), (3, 2), (3, 3), (4, 5)):
        charged = total.column(person(k, b))
        for order in set(itertools.permutations(lengths)):
            assert worst(table, list(order), k, b) * DIGITS <= charged, (k, b, order)


# -- arms ------------------------------------------------------------------------------------------

# arms, forced rounds of each, rounds with a choice, rounds of a person, separation
ARMS = [
    (2, 2, 1, 4, 1), (3, 2, 1, 4, 2), (2, 3, 1, 3, 2), (3, 1, 2, 3, 1), (4, 1, 1, 4, 1),
    (9, 1, 0, 9, 1), (9, 1, 1, 5, 2), (6, 1, 0, 3, 2), (2, 0, 4, 3, 2), (3, 2, 0, 2, 5),
    (4, 2, 0, 8, 1),
]  # fmt: skip
SCORES = VertexScores(
    slope=1.0, leaf=1.0, diameter_l1=2.0, diameter_l2=2.0, diameter_max=1.0, product=False, batch=1,
    leaf_l2=math.inf, offset=0,
)  # fmt: skip


def arms_of(one, arms, forced):
    return Parts("one_of", (one,) * arms, "high_dimensional_bandit", forced)


@cache
def moved_by_all(arms, forced, choices, k, b):
    found = {each.astype(np.int8).tobytes() for each in histories(arms, forced, choices, k, b)}
    shape = (len(found), arms, forced + choices)
    return np.frombuffer(b"".join(sorted(found)), np.int8).reshape(shape).astype(float)


def arms_excess(name, arms, forced, choices, k, b):
    """Return (what is charged) / (what the worst history moves), of sums or of selections."""
    moved, clock = moved_by_all(arms, forced, choices, k, b), forced + choices
    near = person(k, b, view="others")
    if name in ("gumbel", "laplace"):
        one = Selections(name, SCORES, scale=5.0, rounds=clock, exponent=0.5)
        ranges = 0.8 * np.arange(1, clock + 1) ** -0.5
        truth = (np.cumsum(moved, axis=2) @ ranges).sum(axis=1).max()
        return arms_of(one, arms, forced).loss(near).pure / truth
    one = GaussianSum(ClippedVector(5, 2.0, 1.0, math.inf), METHODS[name], clock, scale=2.0)
    table = gram(METHODS[name], clock)
    truth = math.sqrt(np.einsum("pai,ij,paj->p", moved, table, moved, optimize=True).max())
    return arms_of(one, arms, forced).loss(near).ideal.mu / truth


@pytest.mark.parametrize("case", ARMS)
@pytest.mark.parametrize("name", ["shipped", "two buffers", "square root", "tree", "gumbel",
                                  "laplace"])  # fmt: skip
def test_arms_are_charged_for_the_worst_history(name, case):
    """All orders of forced rounds, as with tickets; the page says by how much it is too much."""
    assert DIGITS <= arms_excess(name, *case) <= 1.7


# -- what engines do -------------------------------------------------------------------------------

WIDE, N = 2**16, 9
# 6.5 standard deviations of a squared norm that is whitened by as many coordinates: false alarms of
# all patterns together are below 1e-6.
NOISE = 6.5 * math.sqrt(0.5 / WIDE)


def released_sums(method, numerics, rule, plan=None):
    """Return a ContinualSum, and a function that returns its releases."""
    total = ContinualSum(
        WIDE, horizon=N, budget=BUDGET, method=method, numerics=numerics, source=Source.seeded(1),
        participation=rule, bound=1.0, plan=plan
    )  # fmt: skip
    return total, total.run


def led_by_sums(method, numerics, rule, plan=None):
    """Return the sums that decisions of NoisyFTRL follow, in a ball that none of them leaves."""
    learner = NoisyFTRL(
        LpBall(WIDE, 2.0, 1e12), LinearLoss(1.0), horizon=N, budget=BUDGET, sum_method=method,
        numerics=numerics, participation=rule, source=Source.seeded(1), step_size=1.0, plan=plan,
    )  # fmt: skip

    def run(rows):
        sums = []
        for row in rows:
            learner.decide()
            learner.observe(row)
            sums.append(-learner._engine.decision())
        return np.array(sums)

    return learner, run


def weighed_by_sums(method, numerics, rule, plan=None):
    """Return the centred sums that the weights of PrefixHedge follow."""
    rate = 1e-3
    learner = PrefixHedge(
        WIDE, horizon=N, budget=BUDGET, sum_method=method, numerics=numerics, participation=rule,
        learning_rate=rate, source=Source.seeded(1), plan=plan,
    )  # fmt: skip

    def run(rows):
        logs = []
        for row in rows:
            learner.decide()
            logs.append(np.log(learner.weights))
            learner.observe(row)
        table = np.array(logs)[1:]
        return (table.mean(axis=1, keepdims=True) - table) / rate

    return learner, run


ENGINES = {
    "sum": (released_sums, ("blt", "blt_normalised", "banded", "tree", "toeplitz")),
    "leader": (led_by_sums, ("blt", "blt_normalised", "banded", "tree")),
    "weights": (weighed_by_sums, ("blt", "tree")),
}


def information(start, method, numerics, rule):
    """Return the whitened products of two rounds' records, and the claim.

    Of the covariance of what is released without records, and of what one record moves it by.
    """
    learner, run = start(method, numerics, rule)
    empty = run(np.zeros((N, WIDE)))
    inverse = np.linalg.inv(empty @ empty.T / WIDE)

    def moved_by(records):
        return start(method, numerics, rule, learner.plan)[1](records) - empty

    if start is weighed_by_sums:  # half of the losses: as far from 0 as from their opposite
        rounds = np.eye(N)[:, :, None] * (np.arange(WIDE) % 2 == 0)
        answers = 2.0 * np.linalg.norm([moved_by(each) for each in rounds], axis=2)
    else:  # every record in a coordinate of its own; 2, since g may become -g
        answers = 2.0 * moved_by(np.eye(N, WIDE)).T[:N]
    return learner.guarantee, answers @ inverse @ answers.T


STARTS = [(engine, method) for engine, (_, methods) in ENGINES.items() for method in methods]
RULES = [(1, 1), (2, 1), (3, 2), (4, 3), (9, 4)]
# Either arithmetic with every method and with every rule.
RELEASED = [
    (*start, ("float", "lattice")[(i + j) % 2], rule)
    for i, start in enumerate(STARTS)
    for j, rule in enumerate(RULES)
]


@pytest.mark.parametrize(("engine", "method", "numerics", "rule"), RELEASED)
def test_engines_release_no_more_than_is_stated(engine, method, numerics, rule):
    """Responses to single records over the covariance of the noise."""
    if rule == (1, 1):
        rule, people = (1, N), Participation(1, enforced=False)
    else:
        people = Participation(*rule, enforced=False)
    claim, table = information(ENGINES[engine][0], method, numerics, people)
    released = len(table)
    truth = worst(table, [1] * released, *rule)
    assert truth * (1.0 - NOISE) <= claim.mu
    # Trees draw no right children, and the last round of a learner is not released.
    most = math.sqrt(2.0) * 1.1 if method == "tree" else 1.0
    assert claim.mu <= truth * most * (1.0 + NOISE)


def draws(learner, play, rounds):
    """Return after how many rounds an engine has drawn more noise."""
    ends, before = [], sum(learner._engine.variates_drawn())
    for t in range(rounds):
        play(learner, t)
        now = sum(learner._engine.variates_drawn())
        if now > before:
            ends.append(t + 1)
        before = now
    return ends


def play_record(learner, t):
    learner.decide()
    learner.observe(np.full(3, 0.1), 1.0)


def play_vector(learner, t):
    learner.decide()
    learner.observe(np.full(3, 0.1))


def play_user(learner, t):
    learner.decide(np.full(3, 0.1))
    learner.observe(0.5)


BATCHED = {
    "newton": (
        lambda rule, n: NoisyNewton(
            LpBall(3, 2.0), LogisticLoss(1.0), horizon=n, budget=BUDGET, participation=rule,
            source=Source.seeded(1),
        ),
        play_record,
        45,
    ),
    "frank-wolfe": (
        lambda rule, n: TreeFrankWolfe(
            LpBall(3, 2.0), LinearLoss(1.0), horizon=n, budget=BUDGET, participation=rule, batch=3,
            source=Source.seeded(1),
        ),
        play_vector,
        14,
    ),
    "users": (
        lambda rule, n: LinUCB(
            2, 3, horizon=n, budget=BUDGET, participation=rule, batch=3, source=Source.seeded(1),
                context_bound=1.0, reward_bound=1.0
        ),
        play_user,
        14,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("rule", [(2, 1), (2, 2), (3, 4), (2, 5), (9, 13)])
def test_batches_end_where_engines_draw(name, rule):
    """The claim of a learner against patterns over the batches that its engine showed."""
    make, play, rounds = BATCHED[name]
    learner = make(Participation(*rule, enforced=False), rounds)
    total, claim = learner._mechanism, learner.guarantee
    ends = draws(learner, play, rounds)
    lengths = np.diff([0, *ends]).tolist()
    assert len(ends) == total.pushes
    truth = worst(gram(total.factorisation, total.pushes), lengths, *rule)
    mine = claim.mu * total.scale / total.summand.movement(claim.neighbours)
    assert truth * DIGITS <= mine <= truth * 1.5


@pytest.mark.parametrize("options", [{"arm_learner": "tree"}, {"arm_learner": "polyhedral"}])
def test_forced_rounds_are_those_that_were_enumerated(options):
    """Each arm's clock runs alone in its forced rounds; then all of them run together."""
    arms, forced, horizon = 3, 2, 9
    bandit = HighDimensionalBandit(
        arms, LpBall(3, 1.0), horizon=horizon, budget=BUDGET, forced_rounds=forced,
        participation=Participation(3, 2, enforced=False), source=Source.seeded(1), batch=1,
        context_bound=1.0, reward_bound=1.0, **options,
    )  # fmt: skip
    assert bandit.guarantee.description.forced == forced
    clocks = [tuple(bandit._engine.clocks())]
    for _ in range(horizon):
        bandit.decide(np.full(3, 0.1))
        bandit.observe(0.5)
        clocks.append(tuple(bandit._engine.clocks()))
    ticks = np.diff(clocks, axis=0)
    assert ticks[: arms * forced].sum(axis=0).tolist() == [forced] * arms
    assert np.all(ticks[: arms * forced].sum(axis=1) == 1)
    assert np.all(ticks[arms * forced :] == 1)


# -- how many rounds, and which horizon ------------------------------------------------------------


def admitted(name, rule, monkeypatch):
    """Return the rounds of one person who always comes that a learner lets in, and its claim."""
    seen, own = [], Limiter.admit

    def noted(self, first, digests):
        found = own(self, first, digests)
        seen.extend(first + np.flatnonzero(found))
        return found

    monkeypatch.setattr(Limiter, "admit", noted)
    subject = _standard_subject(name)
    learner = subject.fresh(participation=rule, plan=subject.first.plan, budget=None)
    learner.run(*subject.part(0, ROUNDS), persons=np.zeros(ROUNDS, int))
    return seen, learner.guarantee


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", [(4, 7), (9, 5), (2, 23), (2, 24), (30, 4), (None, 7)])
def test_nobody_gets_more_rounds_than_are_stated(name, rule, monkeypatch):
    """Nor fewer: who comes in every round has as many as the statement says. 24 rounds each."""
    seen, claim = admitted(name, Participation(*rule), monkeypatch)
    assert claim.person == (len(seen), rule[1])
    fitting = [p for p in patterns(ROUNDS, ROUNDS, rule[1]) if len(p) >= len(seen)] if (
        rule[1] > 6) else [seen]  # fmt: skip
    most = max(map(len, fitting))
    assert len(seen) == min(most, most if rule[0] is None else rule[0])


@cache
def certificate(name):
    """Return what a learner states of people, and the rounds that its description is about."""
    learner = _standard_subject(name).fresh(participation=Participation(3, 5), budget=BUDGET)
    stated = learner.guarantee
    return json.loads(json.dumps(stated.to_dict())), stated.description.longest


def believed(record):
    """Return which of both verifiers accept a record."""
    found = []
    try:
        dpoco.Guarantee.from_dict(record).verify()
        found.append("dpoco")
    except StateError:
        pass
    try:
        if check.check(record)[0] != "not proved":
            found.append("check")
    except check.MalformedError:
        pass
    return found


@cache
def bounded():
    """Return the learners whose description says how many rounds it is about."""
    return [name for name in NAMES if certificate(name)[1] is not None]


@pytest.mark.parametrize("name", NAMES)
def test_certificates_about_people_end_where_the_description_does(name):
    record, longest = certificate(name)
    assert record["unit"] == "one person"
    assert record["horizon"] == ROUNDS
    if longest is None:
        return
    assert longest >= ROUNDS
    assert believed({**record, "horizon": longest}) == ["dpoco", "check"]
    assert believed({**record, "horizon": longest + 1}) == []
    # More rounds of a person than follow, or closer ones, cost more than is stated.
    k, b = record["person"]
    for rule in ([k + 1, 1], [k, b - 3]):
        # The library reads the rule in the conditions as well, and refuses another one.
        assert "dpoco" not in believed({**record, "person": rule})
    if record["epsilon"] > 0.0:
        assert believed({**record, "person": [ROUNDS, 1]}) == []


def test_most_learners_say_how_long_their_description_is():
    assert len(bounded()) >= 7


# -- faults that the oracle must see ---------------------------------------------------------------


def changed(function, old, new):
    """Return a function with one expression of its source changed."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1
    found = {}
    exec(compile("from __future__ import annotations\n" + source.replace(old, new), "planted",
                 "exec"), function.__globals__, found)  # fmt: skip
    return found[function.__name__]


def forget(monkeypatch):
    """Drop what was computed before a fault was planted, and while it was there."""
    for module in (participation, factorisations, gaussian_sum, decaying):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@pytest.fixture
def plant(monkeypatch):
    """Plant a fault into every module that has the function's name."""

    def planted(owner, name, old, new):
        wrong = changed(getattr(owner, name), old, new)
        right = getattr(owner, name)
        for module in {owner, participation, factorisations, gaussian_sum}:
            if getattr(module, name, None) is right:
                monkeypatch.setattr(module, name, wrong)
        forget(monkeypatch)

    yield planted
    monkeypatch.undo()
    forget(monkeypatch)


def undercharged(name):
    """Return whether a sum of this method is charged less than some pattern moves it by."""
    ratios = (
        ratio for shape in SHAPES[::-1] if shape[2] <= 10 for _, ratio in excess(name, *shape)
    )
    return any(ratio < DIGITS for ratio in ratios)


def test_rounds_in_a_growing_block_rounded_down_are_seen(plant):
    plant(GaussianSum, "column", "-(-length // near.separation)",
          "max(1, length // near.separation)")  # fmt: skip
    assert all(map(undercharged, (*METHODS, "levels")))


def test_the_most_rounds_of_a_person_rounded_down_are_seen(plant, monkeypatch):
    """In sums, and in what learners state of people whom their engines let in."""
    plant(participation, "most_rounds", "-(-length // separation)", "max(1, length // separation)")
    assert all(map(undercharged, (*METHODS, "levels")))


def test_rounds_of_a_person_in_a_batch_rounded_down_are_seen(plant):
    plant(participation, "_bound_batches", "-(-batch // separation)", "max(1, batch // separation)")
    plant(participation, "tree_column", "-(-(batch << level) // separation)",
          "max(1, (batch << level) // separation)")  # fmt: skip
    assert undercharged("tree")


def test_forced_rounds_of_one_arm_instead_of_all_are_seen(plant):
    plant(participation, "arms_column", "-(-arms * forced // separation)",
          "-(-forced // separation)")  # fmt: skip
    sums = ("shipped", "two buffers", "square root", "tree")
    assert {name for name in sums if any(arms_excess(name, *c) < DIGITS for c in ARMS)} == {*sums}


def test_forced_rounds_of_one_arm_in_selections_are_seen(monkeypatch):
    wrong = changed(decaying.Returning._crowd, "(self.arms - 1) * self.forced", "0")
    monkeypatch.setattr(decaying.Returning, "_crowd", wrong)
    assert any(arms_excess("gumbel", *case) < DIGITS for case in ARMS)


def test_certificates_that_outlast_their_description_are_seen(monkeypatch):
    """Either verifier without its check of the horizon."""
    wrong = changed(_certificate._follows, "stated.horizon > longest", "False")
    monkeypatch.setattr(_certificate, "_follows", wrong)
    monkeypatch.setattr(check, "longest", lambda own: math.inf)
    for name in bounded():
        record, longest = certificate(name)
        assert believed({**record, "horizon": longest + 1}) == ["dpoco", "check"]


def test_a_pattern_that_is_charged_too_much_is_seen(plant):
    """The other direction: a separation that is not made use of."""
    plant(participation, "_bound_batches", "max(1, separation // batch)", "1")
    cases = [shape for shape in SHAPES if shape[1] is None and shape[0] == 1]
    found = [ratio for shape in cases for _, ratio in excess("square root", *shape)]
    assert max(found) > 1.1
