"""Attacks on the claim of joint privacy: enumeration, sensitivity by search, replay on one tape."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from tests.frank_wolfe.polyhedral_reference import vertices_of
from tests.plans import arms as arms_of
from tests.plans import changed as changed_plan

import dpoco
from dpoco.bandits import HighDimensionalBandit
from dpoco.domains import LpBall
from dpoco.random import Source

from .high_dimensional_reference import Bandit, law, transcripts

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.5, 1e-3)
EPSILONS = (0.0, 0.3, 1.0, 1.5, 3.0)


def make(arms, domain, horizon, budget=BUDGET, seed=0, **options):
    return HighDimensionalBandit(
        arms,
        domain,
        horizon=horizon,
        budget=budget,
        source=Source.seeded(seed),
        **{"context_bound": 1.0, "reward_bound": 1.0, **options},
    )


def tiny(arms, d, rounds, **options):
    options = {"arm_learner": "polyhedral", "batch": 1, **options}
    return make(arms, LpBall(d, 1.0), rounds, **options)


def excess(pair, epsilon):
    """Exact delta at epsilon between two laws of transcripts; keys may be missing in one."""
    keys = pair[0].keys() | pair[1].keys()
    p, q = (np.array([side.get(key, 0.0) for key in keys]) for side in pair)
    rate = np.exp(epsilon)
    return max(np.maximum(p - rate * q, 0).sum(), np.maximum(q - rate * p, 0).sum())


def log_ratio(pair):
    keys = pair[0].keys() | pair[1].keys()
    with np.errstate(divide="ignore"):
        logs = [np.log([side.get(key, 0.0) for key in keys]) for side in pair]
    return float(np.abs(logs[0] - logs[1]).max())


def worlds(learner, pairs, seed, **options):
    """Pairs of laws of all that is published, for streams that differ in one record.

    The other records answer to what was published.
    """
    p, domain = arms_of(learner.plan), learner.domain
    rng = np.random.default_rng(seed)
    for _ in range(pairs):
        changed = int(rng.integers(p.horizon))
        others = rng.choice([-1.0, 1.0], size=(p.horizon, 40, domain.dimension + p.arms))
        others *= rng.choice([1.0, 0.4], size=others.shape)
        own = rng.choice([-1.0, 1.0], size=(2, domain.dimension + p.arms))
        if learner.guarantee.change == "zero_out":
            own[1] = np.nan

        def stream(t, path, record, others=others, changed=changed):
            if t != changed:
                reply = sum((j + 1) * 7**n for n, e in enumerate(path) for _, j in e) % 40
                record = others[t, reply]
            return record[: domain.dimension], record[domain.dimension :]

        sides = [
            transcripts(p, domain, lambda t, path, r=record: stream(t, path, r), **options)
            for record in own
        ]
        yield changed, [s[0] for s in sides], [s[1] for s in sides]


SETTINGS = [
    (2, 1, 3, {"forced_rounds": 0}),
    (2, 1, 3, {"forced_rounds": 1}),
    (2, 2, 2, {"forced_rounds": 0}),
    (3, 1, 3, {"forced_rounds": 0, "gap": 0.5}),
    (2, 1, 3, {"forced_rounds": 0, "relation": "zero_out"}),
    (2, 1, 3, {"forced_rounds": 0, "link": "logistic"}),
]


@pytest.mark.parametrize("index", range(len(SETTINGS)))
def test_the_joint_law_of_the_estimates_keeps_to_the_guarantee(index):
    arms, d, rounds, options = SETTINGS[index]
    learner = tiny(arms, d, rounds, **options)
    guarantee = learner.guarantee
    pure, seen = guarantee.epsilon_at(0.0), set()
    for changed, laws, actions in worlds(learner, 12, index):
        assert sum(laws[0].values()) == pytest.approx(1.0)
        for epsilon in EPSILONS:
            assert excess(laws, epsilon) <= guarantee.delta_at(epsilon) + 1e-9
        assert log_ratio(laws) <= pure * (1.0 + 1e-9)
        for path in laws[0]:
            one, other = actions[0][path], actions[1][path]
            # Whoever knows what is published knows all actions but that of the changed record.
            assert one[:changed] == other[:changed]
            assert one[changed + 1 :] == other[changed + 1 :]
            seen.add(one[changed] == other[changed])
    if options.get("forced_rounds") == 0 and d == 1:
        assert seen == {True, False}  # the record changes its own arm in some, not in others


def test_without_zero_records_clocks_betray_actions():
    learner = tiny(2, 1, 3, forced_rounds=0)
    guarantee = learner.guarantee
    caught = [
        excess(laws, 1.5) > 10.0 * guarantee.delta_at(1.5) and log_ratio(laws) == np.inf
        for _, laws, _ in worlds(learner, 12, 3, zero_records=False)
    ]
    assert any(caught)


def test_half_the_noise_is_caught():
    """The last user of an arm, with the worst history: most of what is claimed is used."""
    learner = tiny(2, 2, 6, budget=dpoco.Budget(30.0, 0.0), forced_rounds=3)
    p, domain = arms_of(learner.plan), learner.domain
    vertices = (0, 2, 1)  # e_1, -e_1, e_2
    records = [([-1.0, 1.0], -1.0), ([1.0, 1.0], -1.0)]

    claimed = p.arm.mechanism.scores.reach(2.0)[0] / (3.0 * p.arm.noise_scale_at(3))

    def chance_of_path(own, factor):
        probability = 1.0

        def pick(arm, k, direction):
            nonlocal probability
            j = vertices[k - 1]
            probability *= law(p, domain, direction, k, factor)[j]
            return vertices_of(domain)[j]

        bandit = Bandit(p, domain, pick)
        for x, r in [*records, ([-1.0, own], -1.0)]:
            bandit.play(x, [r, r])
        return probability

    used = {
        factor: abs(np.log(chance_of_path(1.0, factor) / chance_of_path(-1.0, factor)))
        for factor in (1.0, 0.5)
    }
    assert 0.85 * claimed < used[1.0] <= claimed
    assert used[0.5] > 1.5 * claimed


def test_two_arms_use_up_the_budget_of_one():
    """One update: g against 0 in one arm and 0 against g' in the other, each half the range."""
    p = arms_of(tiny(2, 3, 1, budget=dpoco.Budget(4.0, 0.0), forced_rounds=0).plan)
    domain, bound = LpBall(3, 1.0), p.arm.dual
    base = np.array([40.0 * bound, 0.0, 0.0])  # what earlier records may have added
    moves = [bound * np.array(signs) for signs in itertools.product([-1.0, 0.0, 1.0], repeat=3)]

    def worst(factor):
        still = np.log(law(p, domain, base, 1, factor))
        gain = [np.log(law(p, domain, base + move, 1, factor)) - still for move in moves]
        return np.max(gain) - np.min(gain)

    assert 0.99 * 4.0 < worst(1.0) <= 4.0 * (1.0 + 1e-9)
    assert worst(0.9) > 4.2


K, D, T = 3, 3, 18
RNG = np.random.default_rng(8)
X, R = RNG.uniform(-1.0, 1.0, size=(T, D)), RNG.uniform(-1.0, 1.0, size=(T, K))
NASTY = [
    ([1e300, -1e300, 0.0], [1e300, -1e300, 1e300]),
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
    ([np.nan, 0.0, 0.0], [1.0, 1.0, 1.0]),
    ([1.0, 1.0, 1.0], [np.inf, np.nan, -np.inf]),
    ([1e-310, 0.0, 0.0], [1.0, -1.0, 1.0]),
    ([-50.0, 1.0, 50.0], [-50.0, 50.0, 0.0]),
]
KINDS = [
    {"arm_learner": "polyhedral", "batch": 1, "forced_rounds": 2},
    {"arm_learner": "polyhedral", "batch": 1, "forced_rounds": 2, "selector": "laplace"},
    {"arm_learner": "tree", "forced_rounds": 2},
    {"arm_learner": "tree", "forced_rounds": 2, "sum_method": "tree", "link": "logistic"},
]


def loud(options):
    """Parameters with so much noise that nothing published shows any record."""
    p = make(K, LpBall(D, 1.0), T, **options).plan
    one = dataclasses.replace(p.mechanism.parts[0], scale=1e13)
    return changed_plan(p, parts=(one,) * K)


@pytest.mark.parametrize("options", KINDS)
def test_with_equal_estimates_only_the_own_action_and_declared_leaves_differ(options):
    p = loud(options)

    def play(contexts, rewards):
        learner = make(K, LpBall(D, 1.0), T, None, plan=p)
        shown, sums, variates = [], [np.zeros((K, D))], []
        for t, (x, row) in enumerate(zip(contexts, rewards, strict=True)):
            arm = learner.decide(x)
            learner.observe(row[arm])
            engine = learner._engine
            shown.append((t, arm, learner.coefficients.tobytes()))
            sums.append(engine.nonprivate_sums().reshape(K, D).copy())
            variates.append((engine.variates_drawn(), engine.clocks()))
        return shown, np.diff(sums, axis=0), variates

    base, leaves, variates = play(X, R)
    own = arms_of(p)
    bound = own.arm.dual
    assert np.abs(leaves).max() <= bound * (1.0 + 1e-9)
    same, two = 0.0, 0.0
    for index in range(T):
        for x, row in [(-X[index], R[index]), (X[index], -R[index]), *NASTY]:
            contexts, rewards = X.copy(), R.copy()
            contexts[index], rewards[index] = x, row
            other, moved, drawn = play(contexts, rewards)
            assert [o[2] for o in other] == [b[2] for b in base]
            assert [o for o in other if o[0] != index] == [b for b in base if b[0] != index]
            assert drawn == variates  # clocks and draws depend on nobody
            assert np.isfinite(moved).all()  # or no comparison below could fail
            change = moved - leaves
            assert np.abs(np.delete(change, index, axis=0)).max() <= 1e-9
            touched = np.abs(change[index]).max(axis=1)
            arms = {base[index][1], other[index][1]}
            assert not np.delete(touched, list(arms)).any()
            if len(arms) == 1:
                same = max(same, touched.max())
            else:
                two = max(two, touched.max())
                assert index >= K * own.forced_rounds
    assert two <= bound * (1.0 + 1e-9)
    assert same <= 2.0 * bound * (1.0 + 1e-9)
    assert same > bound * (0.6 if own.link == "logistic" else 0.75)
    assert two > 0.3 * bound


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_no_record_adds_more_than_declared(link):
    learner = make(2, LpBall(3, 1.0, 2.0), 40, forced_rounds=0, batch=1, link=link,
                   context_bound=0.7, arm_learner="polyhedral")  # fmt: skip
    bound, rng = arms_of(learner.plan).arm.dual, np.random.default_rng(1)
    low = 0.0 if link == "logistic" else -1.0
    found = 0.0
    for t in range(40):
        for x in itertools.product([-0.7, 0.7], repeat=3):
            for r in (low, 1.0):
                leaf = learner._engine.leaf(t % 2, np.array(x), r)
                found = max(found, np.abs(leaf).max())
        learner.decide(rng.uniform(-1, 1, 3))
        learner.observe(rng.uniform(low, 1.0))
    assert 0.7 * bound < found <= bound * (1.0 + 1e-12)
