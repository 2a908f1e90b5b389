"""river's bandit policies: its checks of objects, its evaluations, and rounds in their order."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from adapter_cases import BUDGET

import dpoco
from dpoco import HorizonExceeded, RoundOrderError, StateError

pytest.importorskip("river")
common = pytest.importorskip("river.checks").common
pandas = pytest.importorskip("pandas")

from river import bandit, stats  # noqa: E402

from dpoco.adapters.river import (  # noqa: E402
    PrivateBandit,
    PrivateContextualBandit,
    PrivateExperts,
)

KINDS = (PrivateBandit, PrivateContextualBandit, PrivateExperts)
# With the quickest of calibrations.
CASES = [
    (kind, {**params, "options": {"sum_method": "tree", "batch": 50} if "Bandit" in kind.__name__
            else None})
    for kind in KINDS for params in kind._unit_test_params()
]  # fmt: skip
ARMS = ("x", "y")


def plain_bandit(arms=ARMS, **given):
    return PrivateBandit(arms, **{"horizon": 300, "budget": BUDGET, "reward_bound": 1.0, **given})


def contextual(features=("s", "one"), **given):
    usual = {"arms": ARMS, "horizon": 3000, "budget": BUDGET, "context_bound": 1.0}
    return PrivateContextualBandit(features=features, **{**usual, "reward_bound": 1.0, **given})


@pytest.mark.parametrize(("kind", "params"), CASES)
def test_passes_rivers_checks_of_objects(kind, params):
    policy = kind(**params)
    done = 0
    for name, check in inspect.getmembers(common, inspect.isfunction):
        if name == "check_tags" or list(inspect.signature(check).parameters) != ["model"]:
            continue  # tags are for estimators
        check(policy.clone())
        done += 1
    assert done >= 10


class World:
    """What `river.bandit.evaluate` needs of an environment: two arms, the second one better."""

    def __init__(self):
        self.action_space = SimpleNamespace(n=2, seed=lambda seed: None)

    def reset(self, seed):
        self.rng, self.left = np.random.default_rng(seed), 500

    def step(self, arm):
        self.left -= 1
        return None, float(self.rng.random() < (0.2, 0.8)[arm]), self.left == 0, False, {}


def test_rivers_evaluation_of_the_bandit():
    budget, options = dpoco.Budget(8.0, 1e-6), {"exploration": 0.1}
    policy = plain_bandit((0, 1), horizon=500, budget=budget, options=options)
    steps = list(bandit.evaluate([policy], World(), n_episodes=2, seed=1))
    assert len(steps) == 1000
    pulled = [step["arm"] for step in steps if step["step"] >= 250]
    assert np.mean(pulled) > 0.8
    assert policy.learner_.round == 0  # river cloned it


def test_rivers_offline_evaluation_of_the_contextual_bandit():
    rng = np.random.default_rng(2)
    history = []
    for _ in range(3000):
        context = {"s": float(rng.choice([-0.8, 0.8])), "one": 0.5}
        arm = ARMS[rng.integers(2)]
        history.append((ARMS, context, arm, float((arm == "y") == (context["s"] > 0.0))))

    learned = contextual(unanswered="skip", options={"exploration": 0.1})
    reward, matched = bandit.evaluate_offline(learned, history, stats.Mean())
    assert 1000 < matched < 2000
    assert reward.get() > 0.65  # uniform play: 0.5
    assert learned.learner_.round in (2999, 3000)  # every event of the log was a round
    with pytest.raises(RoundOrderError, match="waits for its reward"):
        bandit.evaluate_offline(contextual(), history)


def test_rounds_are_in_order():
    policy = contextual(("a", "b"), horizon=200, budget=dpoco.Budget(45.0, 1e-6))
    x, other = {"a": 0.5}, {"a": 0.25}
    with pytest.raises(RoundOrderError, match="without pull"):
        policy.update("x", x, 1.0)
    arm = policy.pull(ARMS, x)
    wrong = ARMS[1 - ARMS.index(arm)]
    assert policy.pull(reversed(ARMS), x) == arm  # asked again: the same, and no round
    state = policy.learner_._engine.state()
    for arguments in ((wrong, x, 1.0), (arm, other, 1.0)):
        with pytest.raises(RoundOrderError, match="another"):
            policy.update(*arguments)
    with pytest.raises(RoundOrderError):
        policy.pull(ARMS, other)
    with pytest.raises(ValueError, match="none of this policy's arms"):
        policy.update("z", x, 1.0)
    with pytest.raises(RoundOrderError):
        policy.pull(ARMS[:1], x)  # the round has all arms
    with pytest.raises(ValueError, match="none of this policy's arms"):
        policy.pull([*ARMS, "z"], x)
    assert policy.learner_._engine.state() == state
    policy.update(arm, x, 1.0)
    assert (policy._n, policy.learner_.round) == (1, 1)
    policy.pull(ARMS, other)
    policy.skip()
    assert (policy._n, policy.learner_.round) == (1, 2)
    with pytest.raises(RoundOrderError):
        policy.skip()
    with pytest.raises(NotImplementedError):
        _ = policy.ranking


def test_experts_learn_from_the_rewards_of_all_arms():
    policy = PrivateExperts(ARMS, horizon=2000, budget=BUDGET, seed=1, reward_range=(0, 1))
    plain = dpoco.experts.PrefixHedge(
        2, horizon=2000, budget=BUDGET, source=dpoco.random.Source.seeded(1)
    )
    with pytest.raises(RoundOrderError):
        policy.update("x", [0.0, 1.0])
    pulled = []
    for turn in range(2000):
        pulled.append(policy.pull(ARMS))
        assert pulled[-1] == ARMS[plain.decide()]
        rewards = {"y": 0.9, "x": 0.2}
        forms = rewards, [0.2, 0.9], pandas.Series(rewards)
        policy.update(pulled[-1], forms[turn % 3])
        plain.observe([1.0 - 0.2, 1.0 - 0.9])
    assert pulled[1000:].count("y") > 950
    assert policy.ranking == ["y", "x"]
    with pytest.raises(HorizonExceeded):
        policy.pull(ARMS)
    fresh = policy.clone()
    arm = fresh.pull(ARMS)
    wrong = ARMS[1 - ARMS.index(arm)]
    for bad, error in (((arm, 1.0), ValueError), ((arm, {"x": 1.0}), ValueError),
                       ((wrong, [0.0, 1.0]), RoundOrderError)):  # fmt: skip
        with pytest.raises(error):
            fresh.update(*bad)
    assert fresh.learner_.round == 0


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize(("name", "options"), [("batch_share", None), ("oblivious_tracker", None)])
def test_other_learners_of_experts(name, options):
    policy = PrivateExperts(
        ARMS, horizon=2000, budget=BUDGET, learner=name, options=options, reward_range=(0, 1)
    )
    for _ in range(5):
        policy.update(policy.pull(ARMS), [0.0, 1.0])
    assert policy.learner_.round == 5


@pytest.mark.parametrize(("kind", "params"), CASES)
def test_started_policies_are_not_copied(kind, params):
    policy = kind(**params)
    copied = [copy.deepcopy(policy), pickle.loads(pickle.dumps(policy)), policy.clone()]
    context = ({"s": 0.5},) if kind is PrivateContextualBandit else ()
    policy.pull(policy.arms, *context)
    reward = [0.0, 1.0] if kind is PrivateExperts else 1.0
    policy.update(policy.pull(policy.arms, *context), *context, reward)
    for attempt in (copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="neither be copied nor pickled"):
            attempt(policy)
    assert all(other.learner_.round == 0 for other in [*copied, policy.clone()])


def test_goes_on_with_a_saved_learner(tmp_path):
    def play(policy, rounds):
        arms = []
        for turn in rounds:
            arms.append(policy.pull(ARMS))
            policy.update(arms[-1], float(turn % 3 == 0))
        return arms

    straight, first, again = (plain_bandit(horizon=400, seed=4) for _ in range(3))
    whole = play(straight, range(300))
    half = play(first, range(150))
    first.learner_.save(tmp_path / "state")
    again.bind(dpoco.load(tmp_path / "state"))
    assert half + play(again, range(150, 300)) == whole
    assert again.ranking == straight.ranking
    with pytest.raises(StateError):
        again.bind(dpoco.load(tmp_path / "state"))
    with pytest.raises(ValueError, match="other arguments"):
        plain_bandit(horizon=401).bind(dpoco.load(tmp_path / "state"))
    with pytest.raises(TypeError):
        plain_bandit(horizon=400).bind(first)


def test_nothing_that_was_learned_is_kept_or_shown():
    policy = plain_bandit()
    before = repr(policy)
    for _, reward in zip(range(100), itertools.cycle([0.123456, 0.654321]), strict=False):
        policy.update(policy.pull(ARMS), reward)
    assert repr(policy) == before
    assert not policy._rewards
    assert not policy._counts
    assert "Guarantee" in before


def test_how_contexts_are_read():
    policy = contextual()
    given = [{"s": 0.1, "one": 0.2}, {"s": 9.0, "one": 0.1}, {"S": 0.3}, {"s": float("inf")}]
    read = policy.nonprivate_records(given)
    assert read.shares == {
        "missing": 0.25, "empty": 0.25, "clipped": 0.25, "missing_features": 0.5,
        "unlisted_features": 0.25,
    }  # fmt: skip
    assert read.columns["one"] == {"missing": 0.0, "missing_features": 0.5}
    assert policy.learner_.round == 0


def test_arms_have_names_and_come_and_go():
    arms = ("mail", "call", "visit")
    policy = plain_bandit(arms, horizon=3000, budget=dpoco.Budget(16.0, 1e-6), seed=1)
    means, seen = {"mail": 0.1, "call": 0.4, "visit": 0.9}, []
    for turn in range(3000):
        here = arms[:2] if turn < 1000 else arms if turn >= 1300 else arms[2:]  # introduced
        arm = policy.pull(here)
        assert policy.pull(reversed(here)) == arm
        seen.append(arm)
        policy.update(arm, means[arm])
    assert "visit" not in seen[:1000]
    assert seen[1300:].count("visit") > 1500
    assert (policy._n, policy.learner_.round) == (3000, 3000)


def test_a_round_of_some_arms_may_be_skipped():
    policy = plain_bandit(("a", "b", "c"))
    assert policy.pull(["b"]) == "b"
    with pytest.raises(StateError):
        pickle.dumps(policy)
    policy.skip()
    assert policy.learner_.round == 1
    with pytest.raises(ValueError, match="at least one arm"):
        policy.pull([])
    assert policy.pull(["a", "c"]) in ("a", "c")
