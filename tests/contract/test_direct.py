"""Calls that go straight to the engine (cpp/bindings/live.cpp) do what the written method does.

Every call is made of two learners of one seed: of one as it is, and of one whose calls all take the
way through Python.
"""

from __future__ import annotations

import functools
import gc
import inspect
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest

import dpoco
from dpoco import domains, losses
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.experts import ObliviousTracker, PrefixHedge
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.learning import record_learner as _record_learner
from dpoco.mechanisms import ContinualSum
from dpoco.oco import CoupledRegularizedLeader, NoisyFTRL, NoisyNewton
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

D, HORIZON = 3, 300
BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
BALL = domains.LpBall(D, p=2.0)
GLM, LINEAR = losses.LogisticLoss(1.0), losses.LinearLoss(1.0)


def problem(kind, *arguments, **more):
    @functools.cache
    def plan():
        return kind(*arguments, horizon=HORIZON, budget=BUDGET, **more).plan

    def make(seed=5, **others):
        known = {"horizon": HORIZON, "budget": BUDGET, "source": Source.seeded(seed)}
        if "participation" not in others:
            known["plan"] = plan()
        return kind(*arguments, **{**known, **more, **others})

    return make


BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}
MAKERS = {
    "frank-wolfe": problem(TreeFrankWolfe, BALL, losses.SquaredLoss(1.0, 1.0)),
    "frank-wolfe, gradients": problem(TreeFrankWolfe, BALL, LINEAR, batch=2),
    "leader": problem(NoisyFTRL, BALL, GLM),
    "leader, gradients": problem(NoisyFTRL, BALL, LINEAR),
    "newton": problem(NoisyNewton, BALL, GLM),
    "coupled": problem(CoupledRegularizedLeader, BALL, LINEAR),
    "linear bandit": problem(LinUCB, 2, D, **BOUNDED),
    "bandit": problem(
        HighDimensionalBandit, 2, domains.LpBall(D, p=1.0), forced_rounds=0, **BOUNDED
    ),
    "sum": problem(ContinualSum, D, bound=1.0),
    "hedge": problem(PrefixHedge, D, loss_range=(-1.0, 1.0)),
    "tracker": problem(ObliviousTracker, D, switches=3),
}
VECTOR = np.array([0.5, -0.25, 0.125])


class Vector(np.ndarray):
    pass


class Number(float):
    pass


UNALIGNED = np.frombuffer(b"0" + VECTOR.tobytes(), dtype=np.float64, offset=1)
VECTORS = [
    VECTOR, 2.0 * VECTOR, np.repeat(VECTOR, 2)[::2], VECTOR[::-1], VECTOR.astype(">f8"),
    VECTOR.astype(np.float32), VECTOR.astype(np.float16), np.array([1, 0, 0]), UNALIGNED,
    np.array([True, False, True]), VECTOR.astype(object), VECTOR.tolist(), VECTOR.view(Vector),
    pickle.loads(pickle.dumps(VECTOR)), np.broadcast_to(VECTOR, (2, D))[1], np.full(D, 0.1),
    np.array([np.nan, 0.0, 1.0]), np.array([np.inf, 0.0, 1.0]), np.array([1e300, 1e300, 0.0]),
    VECTOR[:2], VECTOR[None], np.float64(0.5), np.array(0.5), np.ma.masked_array(VECTOR),
    VECTOR.astype(complex), np.array(["a", "b", "c"]), None, "text", [[0.1], 0.2],
]  # fmt: skip
NUMBERS = [
    0.5, -0.0, 1, 0, -1, True, np.float64(0.25), np.float32(0.25), np.int64(1), np.bool_(True),
    np.array(0.5), np.nan, np.inf, -np.inf, 10**400, -(10**400), 2**70, Number(0.5), "1", None,
    1j, VECTOR, [0.5],
]  # fmt: skip


def outcome(call):
    """What a call gives, in a form that can be compared to the bit; or what it raises."""
    try:
        found = call()
    except Exception as error:
        return type(error), str(error)
    if isinstance(found, np.ndarray):
        return found.tobytes(), found.dtype, found.flags.writeable
    return type(found), found


def calls(learner):
    """Every way to call the learner's methods, each in turn and out of turn."""
    push, decide = getattr(learner, "push", None), getattr(learner, "decide", None)
    if push is not None:
        yield from (lambda value=value: push(value) for value in VECTORS)
        yield from (push, lambda: push(value=VECTOR), lambda: push(VECTOR, VECTOR))
        return
    contextual, observe = hasattr(learner, "arms"), learner.observe
    contexts = VECTORS if contextual else [VECTOR]
    records = [(number,) for number in NUMBERS]
    if not contextual:
        records = [(vector, 0.5) for vector in VECTORS] + [(vector,) for vector in VECTORS]
        records += [(VECTOR, number) for number in NUMBERS]
    yield lambda: observe(*records[0])  # before any decision
    for context in contexts:
        given = (context,) if contextual else ()
        yield from [lambda given=given: decide(*given)] * 2
    for record in records:
        yield from [lambda record=record: observe(*record)] * 2
        yield lambda: decide(*((VECTOR,) if contextual else ()))
    yield from (observe, lambda: decide(1, 2, 3), lambda: observe(1, 2, 3, 4))
    yield lambda: observe(*records[0], person="ann")
    yield lambda: observe(*records[0], person=None)
    yield lambda: decide(*((-VECTOR,) if contextual else ()), ticket=False)


@pytest.mark.parametrize("name", MAKERS)
def test_every_call_is_that_of_the_written_method(name):
    direct, written = MAKERS[name](), MAKERS[name]()
    assert direct._direct > 0
    written._direct = 0
    for own, other in zip(calls(direct), calls(written), strict=True):
        assert outcome(own) == outcome(other)
        assert direct._asked[0] == written._asked[0]
        assert direct._engine.state() == written._engine.state()
    assert direct.round > 10


@pytest.mark.parametrize("name", MAKERS)
def test_plain_calls_never_come_to_python(name, monkeypatch):
    learner = MAKERS[name]()
    for module in (
        "learning.record_learner", "bandits._bandit", "mechanisms._mechanisms",
        "experts._expert_learner",
    ):  # fmt: skip
        monkeypatch.setattr(f"dpoco.{module}.float_array", None)
    play(learner, 3)
    assert learner.round == 3
    learner._direct = 0
    with pytest.raises(TypeError, match="not callable"):
        play(learner, 1)


def play(learner, rounds, record=VECTOR, label=0.5):
    """Play rounds with plain arguments; return the last release."""
    released = None
    for _ in range(rounds):
        if hasattr(learner, "push"):
            released = learner.push(record)
            continue
        if hasattr(learner, "arms"):
            released = learner.decide(record)
            learner.observe(label)
        else:
            released = learner.decide()
            labelled = getattr(learner, "loss", LINEAR).glm
            learner.observe(*((record, label) if labelled else (record,)))
    return released


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_is_kept_or_lost(name):
    learner, record, label = MAKERS[name](), VECTOR.copy(), float("0.375")
    play(learner, 2, record, label)
    gc.collect()
    before = [sys.getrefcount(x) for x in (learner, record, label, type(learner), type(record))]
    last = play(learner, HORIZON - 2, record, label)
    with pytest.raises(dpoco.HorizonExceeded):
        play(learner, 1, record, label)
    gc.collect()
    after = [sys.getrefcount(x) for x in (learner, record, label, type(learner), type(record))]
    assert after == before
    if isinstance(last, np.ndarray):
        held = weakref.ref(last)
        learner._asked = (-1, None)
        del last
        assert held() is None


def test_learners_in_a_ring_are_collected():
    learner = MAKERS["leader"]()
    play(learner, 1)
    learner.decide()
    learner.ring = learner
    gone = weakref.ref(learner)
    del learner
    gc.collect()
    assert gone() is None


def test_decisions_stay_and_are_read_only():
    learner = MAKERS["leader"]()
    decision = learner.decide()
    assert learner.decide() is decision is learner._asked[1]
    with pytest.raises(ValueError, match="read-only"):
        decision[0] = 1.0
    learner.observe(VECTOR, 1.0)
    assert learner.decide() is not decision


@pytest.mark.parametrize("name", ["leader", "linear bandit", "sum", "hedge"])
def test_suspended_copies_and_long_runs_are_refused(name):
    learner = MAKERS[name]()
    play(learner, 2)
    copy = pickle.loads(pickle.dumps(learner))
    with pytest.raises(dpoco.StateError, match="suspended"):
        play(copy, 1)
    copy.resume()
    assert outcome(lambda: play(copy, 1)) == outcome(lambda: play(learner, 1))
    with learner._alone(), pytest.raises(dpoco.RoundOrderError, match="another thread"):
        play(learner, 1)
    assert learner.round == 3


def test_what_the_engine_refuses_is_the_package_s_error():
    learner = MAKERS["linear bandit"]()
    learner.decide(VECTOR)
    with pytest.raises(dpoco.RoundOrderError):
        learner.decide(-VECTOR)
    sole, learner._sole = learner._sole, None
    with pytest.raises(AttributeError):
        learner.observe(0.5)
    learner._sole = sole
    learner.observe(0.5)


def test_participations_violations_and_custom_losses_take_the_long_way():
    people = dpoco.Participation(rounds=1)
    custom = problem(TreeFrankWolfe, BALL, losses.CustomLoss(lipschitz=1.0, smoothness=1.0))
    for learner in (
        MAKERS["leader"](participation=people),
        MAKERS["leader"](on_violation="raise"),
        MAKERS["linear bandit"](on_violation="raise"),
        MAKERS["hedge"](participation=people),
        MAKERS["tracker"](on_violation="raise"),
        custom(),
    ):
        assert learner._direct == 0
    assert MAKERS["leader"]()._sibling(Source.seeded(1)._claim())._direct == 2


def test_methods_of_subclasses_and_of_tests_are_called(monkeypatch):
    class Louder(NoisyFTRL):
        def _decision(self):
            return 2.0 * super()._decision()

        def observe(self, *record):
            self.seen = record
            super().observe(*record)

    learner = problem(Louder, BALL, GLM)()
    learner.decide()
    learner.observe(VECTOR, 1.0)
    assert (learner._direct, learner.round) == (0, 1)
    assert learner.seen == (VECTOR, 1.0)
    learner = MAKERS["leader"]()
    monkeypatch.setattr(NoisyFTRL, "decide", lambda self: "patched", raising=False)
    assert learner.decide() == "patched"
    monkeypatch.undo()
    learner.decide = lambda: "own"
    assert learner.decide() == "own"


def test_a_derived_class_that_says_it_is_the_library_s_is_derived():
    kind = type("NoisyFTRL", (NoisyFTRL,), {"__module__": NoisyFTRL.__module__})
    assert MAKERS["leader"]()._direct == 2
    assert problem(kind, BALL, GLM)()._direct == 0


def test_what_stands_in_for_an_engine_is_called():
    class Spy:
        def __init__(self, engine):
            self.engine, self.records = engine, []

        def __getattr__(self, name):
            return getattr(self.engine, name)

        def observe(self, *record):
            self.records.append(record)
            self.engine.observe(*record)

    learner = MAKERS["leader"]()
    learner._engine = spy = Spy(learner._engine)
    play(learner, 2)
    assert [record[0] for record in spy.records] == [0, 1]
    del learner._engine
    with pytest.raises(AttributeError):
        play(learner, 1)


def test_a_marked_method_is_the_function_to_who_looks():
    function = _record_learner.RecordLearner.observe
    assert inspect.isfunction(function)
    assert "person" in inspect.signature(MAKERS["leader"]().observe).parameters
    assert MAKERS["leader"]().observe.__doc__ == function.__doc__
    learner = MAKERS["leader"]()
    NoisyFTRL.decide(learner)
    NoisyFTRL.observe(learner, VECTOR, 1.0)
    assert learner.round == 1
    with pytest.raises(AttributeError):
        vars(_record_learner.RecordLearner)["observe"](VECTOR, 1.0)
    with pytest.raises(TypeError):
        vars(_record_learner.RecordLearner)["observe"]()
    for wrong in (5, (1,), ("a", None)):
        with pytest.raises(TypeError):
            learner._asked = wrong


BRIEF = ["frank-wolfe", "leader, gradients", "newton", "coupled"]


def losses_of(learner, *parts):
    labelled = getattr(learner, "loss", LINEAR).glm
    return learner.run(*(parts if labelled else parts[:1])).losses


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("name", [*BRIEF, "hedge", "tracker"])
def test_brief_runs_are_long_ones(name, keeps):
    brief, long = MAKERS[name](), MAKERS[name]()
    asked = {} if hasattr(brief, "experts") else {"record_decisions": keeps}
    assert brief._direct > 0
    long._direct = 0
    records = np.random.default_rng(3).normal(size=(64, D)) / 2.0
    records[7] = np.nan
    for rounds in (0, 1, 10, 64):
        parts = (records[:rounds], np.full(rounds, 0.5))[: brief._direct]
        own, other = (each.run(*parts, **asked) for each in (brief, long))
        assert [own.losses.tolist(), own.switches.tolist(), own.first_round] == [
            other.losses.tolist(), other.switches.tolist(), other.first_round
        ]  # fmt: skip
        assert own.switches.dtype == other.switches.dtype
        assert not own.losses.flags.writeable
        assert own.nonprivate_records.shares == other.nonprivate_records.shares
        if keeps or not asked:
            assert np.array_equal(own.decisions, other.decisions)
            assert not own.decisions.flags.writeable
        assert brief._engine.state() == long._engine.state()
    with pytest.raises(dpoco.HorizonExceeded):
        brief.run(*(np.resize(part, (226, *part.shape[1:])) for part in parts))
    with pytest.raises(ValueError, match="checkpoint_every"):
        brief.run(*parts, checkpoint_every=0)
    with brief._alone(), pytest.raises(dpoco.RoundOrderError):
        brief.run(*parts)
    assert brief.round == 75
    shown = brief.run(*(part[:1] for part in parts), **dict.fromkeys(asked, "yes"))
    assert len(shown.decisions) == 1  # no error of the compiled call, which quotes records


@pytest.mark.parametrize("name", [*BRIEF, "hedge", "tracker"])
def test_brief_runs_of_whatever_is_given(name):
    brief, long = MAKERS[name](), MAKERS[name]()
    long._direct = 0
    rows, flat = np.random.default_rng(4).normal(size=(4, D)), np.full(4, 0.5)
    shifted = np.frombuffer(b"0" + rows.tobytes(), dtype=np.float64, offset=1).reshape(4, D)
    tables = [
        rows, rows.tolist(), rows[::2], rows[:, ::-1], np.asfortranarray(rows), shifted,
        rows.astype(">f8"), rows.astype(np.float32), rows.astype(int), rows.view(Vector),
        np.ma.masked_array(rows), rows.astype(complex), rows.astype(object), rows[:, :2], rows[0],
        rows[None], np.empty((0, D)), np.resize(rows, (HORIZON, D)), None, "text", 0.5,
    ]  # fmt: skip
    labels = [flat, flat.tolist(), flat[:3], flat[::-1], flat[:, None], flat.astype(np.float32)]
    given = [(table, flat[: len(rows[::2])] if table is tables[2] else flat) for table in tables]
    given += [(rows, each) for each in (*labels, None, "text", 0.5)]
    for parts in given:
        results = [
            outcome(lambda learner=learner, parts=parts: losses_of(learner, *parts))
            for learner in (brief, long)
        ]
        assert results[0] == results[1]
        assert brief._engine.state() == long._engine.state()
    assert brief.round > 10


def test_brief_runs_are_brief(monkeypatch):
    """Ctrl-C waits for a few thousand numbers at most, not for 64 rounds of any size."""
    wide = TreeFrankWolfe(
        domains.LpBall(5000, p=2.0), LINEAR, horizon=9, budget=BUDGET, source=Source.seeded(1)
    )
    played, play_part = [], TreeFrankWolfe._play

    def noted(self, *parts):
        played.append(len(parts[0]))
        play_part(self, *parts)

    monkeypatch.setattr(TreeFrankWolfe, "_play", noted)
    wide.run(np.zeros((2, 5000)))
    assert played == [2]  # the long way
    MAKERS["frank-wolfe, gradients"]().run(np.zeros((64, D)))
    assert played == [2]


def test_a_run_looks_again_once_it_is_alone(monkeypatch):
    """What suspends a learner between a run's check and its lock is seen."""
    learner = MAKERS["leader, gradients"]()
    alone = NoisyFTRL._alone

    def late(self):
        self._suspended = True  # as another thread's adoption does
        return alone(self)

    monkeypatch.setattr(NoisyFTRL, "_alone", late)
    with pytest.raises(dpoco.StateError, match="suspended"):
        learner.run(np.zeros((3, D)))
    assert learner.round == 0


def test_threads_end_one_round_each():
    learner, refused = MAKERS["leader"](), []
    barrier = threading.Barrier(4)

    def work():
        barrier.wait()
        for _ in range(60):
            learner.decide()
            try:
                learner.observe(VECTOR, 1.0)
            except dpoco.RoundOrderError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.round == 240 - len(refused)
