"""Policies in the dialect of Open Bandit Pipeline, played as its simulator plays them."""

from __future__ import annotations

import copy
import enum
import pickle

import numpy as np
import pytest
from adapter_cases import BUDGET

import dpoco
from dpoco import HorizonExceeded, RoundOrderError, StateError
from dpoco.adapters.open_bandit import PolicyType, PrivateHighDimensional, PrivateLinUCB
from dpoco.random import Source

KINDS = (PrivateLinUCB, PrivateHighDimensional)


class Enumeration(enum.Enum):
    CONTEXT_FREE = enum.auto()
    CONTEXTUAL = enum.auto()


def feedback(rounds, seed=0):
    """A log of uniform actions: action 1 pays where the first feature is positive."""
    rng = np.random.default_rng(seed)
    contexts = np.stack([rng.choice([-0.7, 0.7], size=rounds), np.full(rounds, 0.5)], axis=1)
    actions = rng.integers(2, size=rounds)
    table = np.stack([contexts[:, 0] < 0.0, contexts[:, 0] > 0.0], axis=1).astype(float)
    rewards = table[np.arange(rounds), actions]
    return {"context": contexts, "action": actions, "reward": rewards, "table": table,
            "position": np.zeros(rounds, dtype=int), "n_rounds": rounds}  # fmt: skip


def simulate(log, policy):
    """The loop of the pipeline's simulator: updates where the log agrees."""
    selected = []
    for action, reward, position, context in zip(
        log["action"], log["reward"], log["position"], log["context"], strict=True
    ):
        assert policy.policy_type == "contextual"
        chosen = policy.select_action(context.reshape(1, 2))
        if chosen[position] == action:
            policy.update_params(action=action, reward=reward, context=context.reshape(1, 2))
        selected.append(chosen)
    return np.array(selected)


def policy_of(kind=PrivateLinUCB, **arguments):
    terms = {"horizon": 20_000, "budget": BUDGET, "context_bound": 1.0, "reward_bound": 1.0}
    return kind(2, 2, **{**terms, **arguments})


def test_types_compare_as_texts_and_as_members():
    kind = policy_of().policy_type
    assert kind == "contextual"
    assert kind == Enumeration.CONTEXTUAL
    assert kind != "contextfree"
    assert kind != Enumeration.CONTEXT_FREE
    assert len({kind, PolicyType("contextual")}) == 1
    assert policy_of().len_list == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_simulator_learns(kind):
    log = feedback(6000)
    policy = policy_of(
        kind, horizon=6000, unanswered="skip", budget=dpoco.Budget(8.0, 1e-6), radius=2.0
    )
    selected = simulate(log, policy)
    assert selected.shape == (6000, 1)
    right = selected[4000:, 0] == (log["context"][4000:, 0] > 0.0)
    assert right.mean() > 0.7
    assert policy.n_trial in (5999, 6000)  # every event is a round, whatever the log says
    with pytest.raises(HorizonExceeded):
        simulate(feedback(2), policy)
    with pytest.raises(RoundOrderError, match="waits for its reward"):
        simulate(log, policy_of(kind))


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_round_is_one_of_the_learner(kind):
    log = feedback(300)
    policies = [policy_of(kind, horizon=300, random_state=3) for _ in range(2)]
    if kind is PrivateLinUCB:
        plain = dpoco.bandits.LinUCB(
            2,
            2,
            horizon=300,
            budget=BUDGET,
            parameter_bound=1.0,
            source=Source.seeded(3),
            context_bound=1.0,
            reward_bound=1.0,
        )
    else:
        plain = dpoco.bandits.HighDimensionalBandit(
            2,
            dpoco.domains.LpBall(2, 1.0),
            horizon=300,
            budget=BUDGET,
            source=Source.seeded(3),
            context_bound=1.0,
            reward_bound=1.0,
        )
    chosen = []
    for context, rewards in zip(log["context"], log["table"], strict=True):
        (action,) = policies[0].select_action([context])
        policies[0].update_params(action, rewards[action], [context])
        chosen.append(plain.decide(context))
        plain.observe(rewards[chosen[-1]])
        assert action == chosen[-1]
    played = policies[1].play(log["context"], log["table"])
    assert played[:, 0].tolist() == chosen
    assert policies[0].coefficients.tolist() == plain.coefficients.tolist()


def test_rounds_are_in_order():
    policy = policy_of()
    x, other = [[0.5, 0.1]], [[0.5, 0.2]]
    with pytest.raises(RoundOrderError, match="without a decision"):
        policy.update_params(0, 1.0, x)
    (action,) = policy.select_action(x)
    assert policy.select_action(x) == action
    for bad in ((1 - action, 1.0, x), (action, 1.0, other)):
        with pytest.raises(RoundOrderError, match="another"):
            policy.update_params(*bad)
    calls = (
        lambda: policy.select_action(other),
        lambda: policy.recommend(other),
        lambda: policy.select_batch(other),
        lambda: policy.play(other, [[0.0, 1.0]]),
    )
    for call in calls:
        with pytest.raises(RoundOrderError):
            call()
    for bad in (1.0, True, "0", None):
        with pytest.raises(TypeError, match="action must be an int"):
            policy.update_params(bad, 1.0, x)
    for bad in ([0.5, 0.1], [[0.5]], [[0.5, 0.1]] * 2):
        with pytest.raises(ValueError, match="context must have shape"):
            policy.update_params(action, 1.0, bad)
    assert policy.n_trial == 0
    policy.update_params(np.array([action]), 1.0, x)
    policy.select_action(other)
    policy.skip()
    assert policy.n_trial == 2
    assert policy.recommend(other * 3).shape == (3, 1)
    assert policy.n_trial == 2


def test_equal_contexts_are_rounds_of_their_own_where_rewards_may_be_missing():
    """Else the number of rounds would tell whether two neighbours are alike."""
    policy = policy_of(unanswered="skip")
    for _ in range(5):
        policy.select_action([[0.5, 0.1]])
    assert policy.n_trial == 4


def test_batches_go_by_tickets():
    log = feedback(6)
    policy = policy_of(horizon=10, budget=None)
    actions, tickets = policy.select_batch(log["context"])
    assert actions.shape == (6, 1)
    assert policy.n_trial == 0
    for bad, rewards in ((tickets[:1] * 2, [1.0, 1.0]), (tickets, [1.0] * 5)):
        with pytest.raises((RoundOrderError, ValueError)):
            policy.update_batch(bad, rewards)
    with pytest.raises(HorizonExceeded):
        policy.select_batch(log["context"])
    assert len(policy.learner.outstanding) == 6
    order = [3, 0, 5]
    policy.update_batch([tickets[i] for i in order], [1.0, np.nan, 0.0])
    assert policy.n_trial == 3
    with pytest.raises(RoundOrderError):
        policy.update_batch([tickets[3], tickets[1]], [1.0, 1.0])
    policy.update_batch([tickets[i] for i in (1, 2, 4)], [0.5] * 3)
    assert policy.n_trial == 6
    other = policy_of()
    conditions = other.guarantee.conditions
    _, (*_, foreign) = other.select_batch(feedback(7)["context"])
    assert len(other.guarantee.conditions) > len(conditions)  # on the order of arrival
    _, (own, *_) = policy.select_batch(log["context"][:1])
    with pytest.raises(StateError):
        policy.update_batch([foreign], [1.0])
    policy.update_batch([own], [1.0])


def test_starting_over_and_copies_are_refused(tmp_path):
    policy = policy_of(random_state=2)
    policy.initialize()
    for copied in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert copied.n_trial == 0
    (action,) = policy.select_action([[0.5, 0.1]])
    policy.update_params(action, 1.0, [[0.5, 0.1]])
    for attempt in (copy.deepcopy, pickle.dumps, lambda p: p.initialize()):
        with pytest.raises(StateError):
            attempt(policy)
    policy.learner.save(tmp_path / "state")
    again = policy_of()
    again.bind(dpoco.load(tmp_path / "state"))
    log = feedback(400)
    assert (again.play(log["context"], log["table"]) == policy.play(
        log["context"], log["table"])).all()  # fmt: skip
    assert again.coefficients.tolist() == policy.coefficients.tolist()


@pytest.mark.parametrize("bad", [{"horizon": None}, {"radius": -1.0}, {"unanswered": "wait"},
                                 {"options": {"source": None}}, {"random_state": "x"}])  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_bad_arguments(kind, bad):
    with pytest.raises((ValueError, TypeError)):
        policy_of(kind, **bad)


@pytest.mark.parametrize("kind", KINDS)
def test_how_contexts_are_read(kind):
    policy = policy_of(kind, horizon=3000, budget=None)
    read = policy.nonprivate_records([[0.1, 0.2], [9.0, 0.1], [np.nan, 0.3], [0.0, 0.0]])
    assert read.shares == {"missing": 0.25, "empty": 0.25, "clipped": 0.25}
    assert policy.n_trial == 0
