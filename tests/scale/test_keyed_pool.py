"""A pool in memory: the decisions of its learners alone, and refusals that play nothing."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import threading
import warnings
from functools import partial

import numpy as np
import pytest

import dpoco
from dpoco import Budget, domains, losses
from dpoco.random import Source
from dpoco.scale import KeyedPool, _keys
from dpoco.scale._keys import key_from_text, key_text

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
BUDGET = Budget(1.0, 1e-6)
RNG = np.random.default_rng(5)
ROUNDS = 120


BALL = domains.LpBall(3, p=2.0)
tree = partial(dpoco.frank_wolfe.TreeFrankWolfe, BALL, losses.SquaredLoss(1.0, 1.0), budget=BUDGET)
linear = partial(dpoco.oco.NoisyFTRL, BALL, losses.LinearLoss(1.0), budget=BUDGET)
lazy = partial(dpoco.oco.CoupledRegularizedLeader, BALL, losses.LinearLoss(1.0), budget=BUDGET)
hedge = partial(dpoco.experts.PrefixHedge, 4, budget=BUDGET)
bandit = partial(dpoco.bandits.LinUCB, 3, 2, budget=BUDGET, context_bound=1.0, reward_bound=1.0)
UNIT = domains.Box([0.0], [1.0])
net = partial(dpoco.oco.LipschitzLearner, UNIT, lipschitz=1.0, budget=BUDGET, resolution=4)

VECTORS = RNG.normal(size=(ROUNDS, 3)) / 3.0
CASES = {
    "tree": (tree, (VECTORS, RNG.uniform(-1.0, 1.0, ROUNDS))),
    "linear": (linear, (VECTORS,)),
    "lazy": (lazy, (VECTORS,)),
    "hedge": (hedge, (RNG.uniform(size=(ROUNDS, 4)),)),
    "bandit": (bandit, (VECTORS[:, :2].copy(), RNG.uniform(-1.0, 1.0, (ROUNDS, 3)))),
}


def alone(make, keys, arrays, horizon):
    """The decisions of one learner a key, each played by itself."""
    source = Source.seeded(3)
    source.spawn()  # the stream of the learner that the pool is made from
    out = None
    for key in dict.fromkeys(keys):
        rows = [i for i, other in enumerate(keys) if other == key]
        learner = make(horizon=horizon, source=source.spawn())
        trace = learner.run(*(array[rows] for array in arrays))
        decisions = trace.actions if hasattr(trace, "actions") else trace.decisions
        if out is None:
            out = np.empty((len(keys), *decisions.shape[1:]), dtype=decisions.dtype)
        out[rows] = decisions
    return out


@pytest.mark.parametrize("name", CASES)
def test_decisions_are_those_of_the_learners_alone(name):
    make, arrays = CASES[name]
    keys = [("a", 7, b"\x00", "a\x00")[i] for i in RNG.integers(0, 4, ROUNDS)]
    expected = alone(make, keys, arrays, 200)
    for workers, cuts in ((1, [0, ROUNDS]), (3, [0, 1, 50, 50, ROUNDS])):
        pool = KeyedPool(make(horizon=200, source=Source.seeded(3)), workers=workers)
        parts = [
            pool.process(keys[a:b], *(array[a:b] for array in arrays))
            for a, b in itertools.pairwise(cuts)
        ]
        together = np.concatenate(parts)
        assert together.dtype == expected.dtype
        assert together.tobytes() == expected.tobytes()
        assert not parts[0].flags.writeable
        assert {key: pool.round(key) for key in pool} == {k: keys.count(k) for k in set(keys)}
        assert pool.keys() == list(dict.fromkeys(keys))


def test_learners_on_nets():
    make = net(horizon=50, source=Source.seeded(3))
    rows = RNG.uniform(size=(40, len(make.points)))
    keys = [i % 3 for i in range(40)]
    expected = alone(net, keys, (rows,), 50)
    assert KeyedPool(make).process(keys, rows).tobytes() == expected.tobytes()


def test_keys_of_all_kinds_are_told_apart():
    pool = KeyedPool(hedge(horizon=9))
    names = ["1", 1, b"1", "", b"", -(2**70), "s:1"]
    pool.process(names, np.zeros((len(names), 4)))
    assert pool.keys() == names
    for key in names:
        assert key_from_text(key_text(key)) == key
    assert len({key_text(key) for key in names}) == len(names)
    for array in (np.array([1, 1]), np.array(["1", "x"]), np.array([b"1", b"x"], object)):
        pool.process(array, np.zeros((2, 4)))
    assert (pool.round(1), pool.round("1"), pool.round(b"1")) == (3, 2, 2)
    assert pool.round(np.int32(1)) == 3
    assert "nobody" not in pool
    assert pool.round("nobody") == 0


@pytest.mark.parametrize("name", CASES)
def test_a_batch_past_one_horizon_plays_nothing(name):
    make, arrays = CASES[name]
    pool = KeyedPool(make(horizon=5))
    keys = ["a"] * 3 + ["b"] * 2
    pool.process(keys, *(array[:5] for array in arrays))
    before = [pool[key]._engine.state() for key in pool]
    with pytest.raises(dpoco.HorizonExceeded):
        pool.process(["new", "b", "a", "a", "a"], *(array[:5] for array in arrays))
    assert [pool[key]._engine.state() for key in pool] == before
    assert pool.keys() == ["a", "b"]
    pool.process(["new", "b", "a", "a"], *(array[:4] for array in arrays))
    assert (pool.round("a"), pool.round("new")) == (5, 1)


def test_the_number_of_keys_is_bounded():
    pool = KeyedPool(hedge(horizon=9), max_keys=3)
    pool.register(["a", "b"])
    with pytest.raises(dpoco.BudgetExceeded, match="1 left of the 3"):
        pool.process(["c", "a", "d"], np.zeros((3, 4)))
    with pytest.raises(dpoco.BudgetExceeded):
        pool.register(["c", "d"])
    assert (len(pool), pool.round("a")) == (2, 0)
    pool.process(["c", "a"], np.zeros((2, 4)))
    with pytest.raises(dpoco.BudgetExceeded):
        pool.decide("d")
    assert pool.keys() == ["a", "b", "c"]


def test_bad_arguments_play_nothing():
    pool = KeyedPool(tree(horizon=9))
    good, label = np.zeros((2, 3)), np.zeros(2)
    for keys, arrays, error in (
        (["a"], (good, label), ValueError),
        ("ab", (good, label), TypeError),
        ({"a": 1, "b": 2}, (good, label), TypeError),
        ({"a", "b"}, (good, label), TypeError),  # in which order?
        ([True, False], (good, label), TypeError),
        ([1.0, 2.0], (good, label), TypeError),
        (np.array([1.0, 2.0]), (good, label), TypeError),
        (np.array([[1], [2]]), (good, label), TypeError),
        (np.array([b"a", b"b\0"]), (good, label), TypeError),  # would be b"b"
        (["a", "b"], (good,), TypeError),
        (["a", "b"], (np.zeros((2, 4)), label), ValueError),
        (["a", "b"], (good, np.zeros(3)), ValueError),
    ):
        with pytest.raises(error):
            pool.process(keys, *arrays)
    with pytest.raises(ValueError, match="journal"):
        pool.process(["a", "b"], good, label, batch=0)
    with pytest.raises(ValueError, match="UTF-8"):
        pool.process(["a", "\ud800"], good, label)
    assert len(pool) == 0
    assert pool.process([], np.zeros((0, 3)), np.zeros(0)).shape == (0, 3)
    with pytest.raises(TypeError, match="sequence of keys; got str"):
        pool.register("ann")  # no learners of a and n
    assert len(pool) == 0


def test_an_interrupted_batch_that_was_played_says_so(monkeypatch):
    from dpoco.scale import _keyed_learners as places

    pool, play = KeyedPool(tree(horizon=9)), places.play_keyed
    pool.register(["a"])

    def interrupt(*arguments):
        play(*arguments)
        raise KeyboardInterrupt

    def fail(*arguments):
        raise KeyboardInterrupt

    for name, message in ((interrupt, "do not send it again"), (fail, None)):
        monkeypatch.setattr(places, "play_keyed", name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(KeyboardInterrupt):
                pool.process(["a", "b"], np.zeros((2, 3)), np.zeros(2))
        assert [message in str(each.message) for each in caught] == ([] if name is fail else [True])
        assert (pool.round("a"), pool.round("b"), len(pool)) == (1, 1, 2)
    monkeypatch.undo()
    pool.process(["a", "b"], np.zeros((2, 3)), np.zeros(2))
    assert pool.round("b") == 2


@pytest.mark.parametrize("behind", ["put", "_number"])
def test_an_interrupt_behind_the_rounds_mixes_no_keys(behind, monkeypatch):
    """Compiled code has played, and the pool is about to note who the new keys are."""
    batch = np.ones((2, 3)), np.ones(2)
    pool, expected = KeyedPool(tree(horizon=9)), KeyedPool(tree(horizon=9))
    owner = pool._learners if behind == "put" else pool
    note = getattr(owner, behind)

    def interrupt(*arguments):
        monkeypatch.undo()
        note(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, behind, interrupt)
    with pytest.warns(UserWarning, match="do not send it again"), pytest.raises(KeyboardInterrupt):
        pool.process(["a", "b"], *batch)
    expected.process(["a", "b"], *batch)
    for keys in (["c", "a"], ["b", "c"], ["d", "b"]):
        pool.process(keys, *batch)
        expected.process(keys, *batch)
    rounds = {key: expected.round(key) for key in expected}
    assert {key: pool.round(key) for key in pool} == rounds == dict(a=2, b=3, c=2, d=1)


def test_keys_of_tables():
    arrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    pool = KeyedPool(tree(horizon=9))
    names = ["a", "b", "a"]
    for keys in (arrow.array(names), arrow.chunked_array([names]), pandas.Series(names)):
        pool.process(keys, np.zeros((3, 3)), np.zeros(3))
    assert (pool.keys(), pool.round("a")) == (["a", "b"], 6)


def test_what_a_pool_cannot_hold():
    started = hedge(horizon=9)
    started.decide()
    started.observe(np.zeros(4))
    with pytest.raises(dpoco.StateError, match="not started"):
        KeyedPool(started)
    with pytest.raises(TypeError, match="make"):
        KeyedPool()


def test_noises_are_different_keys_and_calibrated_once(monkeypatch):
    make = hedge(horizon=9)
    monkeypatch.setattr(type(make)._accountant, "calibrate", None)
    monkeypatch.setattr(type(make)._accountant, "guarantee", None)
    pool = KeyedPool(lambda: make)
    pool.register(range(50))
    states = {pool[key]._engine.state() for key in range(50)} | {make._engine.state()}
    assert len(states) == 51
    assert all(pool[key].guarantee is make.guarantee for key in range(50))


def test_save_and_load_continue_bit_for_bit(tmp_path):
    make, arrays = CASES["tree"]
    pool = KeyedPool(make(horizon=200), max_keys=77, privacy_unit="user")
    keys = [("a", 7, b"\x00")[i % 3] for i in range(ROUNDS)]
    pool.process(keys, *arrays)
    pool.save(tmp_path / "pool")
    again = KeyedPool.load(tmp_path / "pool", workers=2)
    assert again.process(keys, *arrays).tobytes() == pool.process(keys, *arrays).tobytes()
    assert again.guarantee == pool.guarantee
    assert (again.keys(), again.max_keys) == (pool.keys(), 77)
    data = (tmp_path / "pool").read_bytes()
    (tmp_path / "pool").write_bytes(data[:-40] + bytes(40))
    with pytest.raises(dpoco.StateError):
        KeyedPool.load(tmp_path / "pool")
    make(horizon=9).save(tmp_path / "learner")
    with pytest.raises(dpoco.StateError, match="not of a pool"):
        KeyedPool.load(tmp_path / "learner")
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(pool)


def test_single_rounds_and_learners_that_are_shown():
    pool = KeyedPool(bandit(horizon=5))
    arm = pool.decide("a", [0.1, 0.2])
    assert arm == pool.decide("a", [0.1, 0.2])
    with pytest.raises(dpoco.RoundOrderError, match="waits for its reward"):
        pool.process(["b", "a"], np.zeros((2, 2)), np.zeros((2, 3)))
    assert pool.round("b") == 0
    pool.observe("a", 0.5)
    pool.process(["b", "a"], np.zeros((2, 2)), np.zeros((2, 3)))
    assert (pool.round("a"), pool["a"].round, pool.round("b")) == (2, 2, 1)
    _, ticket = pool["a"].decide([0.1, 0.2], ticket=True)
    with pytest.raises(dpoco.RoundOrderError, match="tickets"):
        pool.process(["a"], np.zeros((1, 2)), np.zeros((1, 3)))
    pool["a"].observe(0.1, ticket=ticket)
    with pytest.raises(KeyError):
        pool["nobody"]


def test_a_second_thread_is_refused():
    pool = KeyedPool(hedge(horizon=9))
    raised = []

    def second():
        try:
            pool.process(["a"], np.zeros((1, 4)))
        except dpoco.RoundOrderError as error:
            raised.append(error)

    with pool._alone():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(raised) == 1
    pool.register(["a"])
    with pool["a"]._alone(), pytest.raises(dpoco.RoundOrderError):  # a long run of a shown learner
        pool.process(["a"], np.zeros((1, 4)))


def test_violations_are_refused_if_asked_for():
    pool = KeyedPool(hedge(horizon=9, on_violation="raise"))
    rows = np.zeros((2, 4))
    rows[1, 2] = 1.5
    with pytest.raises(ValueError, match="range"):
        pool.process(["a", "b"], rows)
    assert len(pool) == 0


def test_the_guarantee_of_the_pool():
    one = hedge(horizon=9)
    pool = KeyedPool(one, max_keys=10**6)
    assert (pool.guarantee.epsilon, pool.guarantee.delta) == (one.guarantee.epsilon, 1e-6)
    user = KeyedPool(one, privacy_unit="user", rounds_per_user=2)
    assert user.guarantee.mu == one.guarantee.for_person(2).mu
    detector = dpoco.experts.ShiftDetector(4, horizon=99, budget=BUDGET)
    if detector.guarantee.delta > 0.0:
        with pytest.raises(ValueError, match="nothing is proved"):
            KeyedPool(detector, privacy_unit="user", rounds_per_user=2)
    couple = KeyedPool(lazy(horizon=9), max_keys=10**4)
    assert couple.guarantee.truncation_mass == pytest.approx(
        1e4 * couple._prototype.guarantee.truncation_mass
    )
    assert "KeyedPool of PrefixHedge" in repr(pool)


def test_compiled_calls_check_their_arguments():
    learners = [hedge(horizon=9)._engine for _ in range(2)]
    call = type(learners[0]).run_keyed
    arrays = (np.zeros((2, 4)), np.zeros(2), np.zeros(2, dtype=np.int64), 1)
    rows = np.array([0, 1])
    for offsets, bad in (
        ([0, 1], rows),
        ([0, 2, 1], rows),
        ([1, 1, 2], rows),
        ([0, 1, 2], np.array([0, 2])),
        ([0, 1, 2], np.array([0, -1])),
        ([0, 1, 3], rows),
    ):
        with pytest.raises(ValueError, match="offsets"):
            call(learners, np.array(offsets), bad, *arrays)
    with pytest.raises(dpoco.RoundOrderError, match="in use"):  # one learner twice
        call([learners[0]] * 2, np.array([0, 1, 2]), rows, *arrays)
    other = dpoco.experts.PrefixHedge(5, horizon=9, budget=BUDGET)._engine
    with pytest.raises(ValueError, match="differ"):
        call([learners[0], other], np.array([0, 1, 2]), rows, *arrays)
    assert [learner.round for learner in learners] == [0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused():
    pool = KeyedPool(hedge(horizon=9))
    pool.process(["a"], np.zeros((1, 4)))
    child = os.fork()
    if child == 0:
        try:
            pool.process(["a"], np.zeros((1, 4)))
        except dpoco.StateError:
            os._exit(7)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_learners_for_people_make_a_pool_for_users(tmp_path):
    rule = dpoco.Participation(3, 2, enforced=False)
    one = hedge(horizon=9, participation=rule)
    pool = KeyedPool(one, max_keys=4)
    assert pool.guarantee.unit == "one user"
    assert pool.guarantee.epsilon == one.guarantee.epsilon
    assert any("at least 2 rounds of its learner apart" in x for x in pool.guarantee.conditions)
    said = KeyedPool(
        hedge(horizon=9, plan=one.plan), max_keys=4, privacy_unit="user",
        rounds_per_user=3, separation_per_key=2,
    )  # fmt: skip
    assert said.guarantee.mu == pool.guarantee.mu
    pool.process(["a", "b"], np.zeros((2, 4)))
    pool.save(tmp_path / "pool")
    again = KeyedPool.load(tmp_path / "pool")
    assert again.guarantee == pool.guarantee
    strict = KeyedPool(hedge(horizon=9, participation=dpoco.Participation(3, 2)), max_keys=4)
    assert strict.guarantee.mu == pool.guarantee.mu
    assert any("one name" in text for text in strict.guarantee.conditions)
    promised = "PROMISED, not enforced: one person has records under at most 1 key."
    assert promised in strict.guarantee.conditions  # which the pool does not count


@pytest.mark.parametrize("name", ["hedge", "bandit"])
def test_a_batch_whose_people_are_refused_plays_and_counts_nothing(name):
    make, arrays = CASES[name]
    rule = dpoco.Participation(2, max_persons=3)
    pool = KeyedPool(make(horizon=6, participation=rule), max_keys=3)

    def process(keys, people):
        return pool.process(list(keys), *(part[: len(keys)] for part in arrays), person=people)

    process("aab", [1, 2, 1])
    before = [pool[key]._payload() for key in pool]
    many = ["x"] * 2
    for keys, people, error in (
        ("ba", None, TypeError), ("ba", [1], ValueError), ("ba", ["x", "y"], TypeError),
        ("ba", [1, True], TypeError), ("bca", [1, 5, 1.5], TypeError), ("cc", ["x", 1], TypeError),
        ("baa", [5, 3, 4], dpoco.RoundOrderError), ("baaaaa", [1] * 6, dpoco.HorizonExceeded),
    ):  # fmt: skip
        with pytest.raises(error):
            process(keys, people)
        assert [pool[key]._payload() for key in pool] == before
    if name == "bandit":
        pool.decide("b", arrays[0][0])
        before = [pool[key]._payload() for key in pool]
        with pytest.raises(dpoco.RoundOrderError, match="waits"):
            process("ab", [1, 1])
        assert [pool[key]._payload() for key in pool] == before
        pool.observe("b", 0.5, person=2)
    assert pool.keys() == ["a", "b"]
    process("cc", many)
    plain = KeyedPool(make(horizon=6))
    with pytest.raises(TypeError, match="ignored"):
        plain.process(["a"], *(part[:1] for part in arrays), person=[1])


@pytest.mark.parametrize("records", [0, 1, 2, 33, 300])
def test_rows_are_sorted_by_keys_and_keep_their_order(records):
    rng = np.random.default_rng(records)
    index = {str(key): key for key in range(9)}
    keys = [str(key) for key in rng.integers(0, 14, records)]
    found = _keys.group_rows(index, keys, 20)
    assert found.fresh == [key for key in dict.fromkeys(keys) if key not in index]
    numbers = {**index, **{key: 9 + i for i, key in enumerate(found.fresh)}}
    codes = np.array([numbers[key] for key in keys], dtype=np.int64)
    slots, counts = np.unique(codes, return_counts=True)
    assert np.array_equal(found.slots, slots)
    assert np.array_equal(found.counts, counts)
    assert np.array_equal(found.rows, np.argsort(codes, kind="stable"))
    assert found.slots.dtype == found.offsets.dtype == found.rows.dtype == np.int64
    assert len(index) == 9


def test_what_keys_raise_and_do_while_they_are_looked_up():
    class Odd(str):
        __slots__ = ()

        def __hash__(self):
            keys.clear()
            return super().__hash__()

        __eq__ = str.__eq__

    class Failing(str):
        __slots__ = ()

        def __hash__(self):
            raise RuntimeError("no hash")

    keys = [Odd("a"), "b"]
    with pytest.raises(IndexError):
        _keys.group_rows({}, keys, 20)
    with pytest.raises(RuntimeError, match="no hash"):
        _keys.group_rows({}, [Failing("a")], 20)
    pool = KeyedPool(hedge(horizon=9))
    with pytest.raises(RuntimeError, match="no hash"):
        pool.process([Failing("a")], np.zeros((1, 4)))
    assert len(pool) == 0
