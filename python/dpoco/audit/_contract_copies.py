"""Checks of the contract: states, copies, threads and processes, fits."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from dpoco.audit._contract import (
    MARK,
    ONLINE,
    ROUNDS,
    RUNNING,
    SECRET,
    STARTED,
    Subject,
    check,
    equal,
    expect_error,
    expect_no_change,
    fingerprint,
    require,
)
from dpoco.audit._family import Options
from dpoco.errors import BudgetExceeded, HorizonExceeded, RoundOrderError, StateError
from dpoco.learners import own_class
from dpoco.learning.families import continue_learner
from dpoco.learning.state import Stateful, load, pack, unpack

HALF = ROUNDS // 2
_PATIENCE = 30.0  # seconds after which a thread counts as stuck


@contextmanager
def folder() -> Iterator[Path]:
    """Create a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def storable(s: Subject) -> None:
    """Skip the check unless states may name the class; a derived class must refuse."""
    learner = s.fresh()
    s.applies(isinstance(learner, Stateful))
    if own_class(s.kind) is None or not s.runs:  # or custom losses, which may be Python objects
        with folder() as here:
            try:
                learner.save(here / "state")
            except StateError:
                s.applies(False)
        require(own_class(s.kind), "a state names a class that dpoco.load cannot know")


# ---- states and copies ---------------------------------------------------------------------------


@check(*STARTED)
def saved_states_go_on(s: Subject) -> None:
    """`dpoco.load` continues a saved learner bit for bit from any round, also one just asked."""
    storable(s)
    whole, learner = s.fresh(), s.fresh()
    want = s.play(whole)
    through_files = {0, HALF, ROUNDS - 1}  # waiting for the disk takes longest
    with folder() as here:
        for t in range(ROUNDS):
            if s.plays in ONLINE:
                s.ask(learner, t)  # a pending decision leaves no trace in the state
            if t in through_files:
                learner.save(here / "state")
                loaded = load(here / "state")
            else:  # plan and guarantee stay the same, and are certified again when a file is loaded
                loaded = continue_learner(learner, learner._payload())
            require(type(loaded) is s.kind, "another class was loaded")
            require(loaded.round == t, f"saved in round {t}, loaded in round {loaded.round}")
            require(s.plan(loaded) == s.plan(learner), "other parameters were loaded")
            require(loaded.guarantee == learner.guarantee, "another guarantee was loaded")
            require(repr(loaded) == repr(learner), "the loaded learner has another repr")
            if s.plays in ONLINE:
                expect_error("observe() just after loading", RoundOrderError, s.tell, loaded, t, 0)
            require(equal([s.step(loaded, t)], [want[t]]), f"round {t} differs after loading")
            # Continue with the loaded learner: an error that each load adds would show in the end.
            learner = loaded
        require(fingerprint(learner) == fingerprint(whole), "loading left another state")
        require(os.listdir(here) == ["state"], "save() leaves other files behind")
        # A seed could reproduce the noise. On entropy, only a key in the state can.
        entropy = s.fresh(None)
        s.play(entropy, 0, HALF)
        entropy.save(here / "state")
        twin = load(here / "state")
        require(twin.guarantee == entropy.guarantee, "a loaded learner has another guarantee")
        require(equal(s.play(twin, HALF), s.play(entropy, HALF)), "noise differs after loading")


@check(*ONLINE, arrays=True)
def checkpoints_go_on(s: Subject) -> None:
    """A checkpoint is a state; a path that cannot be written raises before the first round."""
    storable(s)
    learner, seen = s.fresh(), []
    with folder() as here:
        # A file can neither be created in a missing folder nor replace a folder.
        for path in (here / "missing" / "state", here):
            with expect_no_change(learner, "a checkpoint that cannot be written"):
                expect_error("a checkpoint that cannot be written", OSError,
                             s.run, learner, 0, 5, checkpoint=path)  # fmt: skip
        at: Options = {"checkpoint": here / "state", "checkpoint_every": 5}
        want = s.run(learner, progress=lambda *a: seen.append((*a, load(here / "state").round)),
                     **at)  # fmt: skip
        ends = [*range(5, ROUNDS, 5), ROUNDS]
        require(seen == [(end, ROUNDS, end) for end in ends], "progress or checkpoints are missing")
        require(load(here / "state").round == ROUNDS, "the last checkpoint is not of the end")
        other = s.fresh()
        s.run(other, 0, 13, **at)
        require(equal(s.run(load(here / "state"), 13), want[13:]), "a checkpoint differs")
        for wrong in (0, 1.5, "5"):
            expect_error("a wrong checkpoint_every", (ValueError, TypeError),
                         s.run, s.fresh(), checkpoint_every=wrong)  # fmt: skip
        expect_error("a wrong progress", TypeError, s.run, s.fresh(), progress=3)


@check(*STARTED)
def pickles_wait_for_resume(s: Subject) -> None:
    """A pickle of a started learner shares its noise: it refuses everything until `resume`."""
    storable(s)
    learner = s.fresh()
    s.play(learner, 0, HALF)
    twin = pickle.loads(pickle.dumps(learner))
    expect_error("a round of a suspended copy", StateError, s.step, twin, HALF)
    expect_error("save() of a suspended copy", StateError, twin.save, "nowhere")
    if s.plays in RUNNING and s.runs:
        expect_error("run() of a suspended copy", StateError, s.run, twin, HALF)
    if s.plays in ONLINE:
        expect_error("a ticket of a suspended copy", StateError, s.ask, twin, HALF, ticket=True)
    if s.plays == "arms":
        expect_error("recommend() of a suspended copy", StateError, twin.recommend, s.stream[0])
    for name in ("last_decision", "weights", "coefficients", "alarms"):
        if hasattr(s.kind, name):
            expect_error(f"{name} of a suspended copy", StateError, getattr, twin, name)
    twin.resume()
    require(equal(s.play(twin, HALF), s.play(learner, HALF)), "a resumed copy differs")


@check(*STARTED)
def unstarted_pickles_have_their_own_noise(s: Subject) -> None:
    """Pickles of an unstarted learner on entropy are independent; a seeded one keeps its seed."""
    storable(s)
    # The bytes of a pickle contain the noise key, so equal bytes would mean equal noise.
    frozen = pickle.dumps(s.fresh(None))
    keys = {pickle.dumps(pickle.loads(frozen)) for _ in range(2)}
    require(frozen not in keys and len(keys) == 2, "two unpickled learners share their noise")
    twin = pickle.loads(pickle.dumps(s.fresh()))
    require(equal(s.play(twin), s.play(s.fresh())), "a seeded pickle has other noise")


@check(*STARTED)
def copies_share_no_noise(s: Subject) -> None:
    """`copy` of a started learner raises `StateError`; of an unstarted one, it is a `clone`.

    A clone is in round 0, has the same arguments, and other noise.
    """
    learner = s.fresh()
    s.applies(hasattr(learner, "clone"))
    twins = [copy.deepcopy(learner), copy.copy(learner)]
    s.play(learner, 0, 1)
    for copied in (copy.copy, copy.deepcopy):
        expect_error(f"{copied.__name__}() of a started learner", StateError,
                     copied, learner)  # fmt: skip
    for twin in (*twins, learner.clone()):
        require(twin.round == 0, "a clone has played")
        require(twin.get_params() == learner.get_params(), "a clone has other arguments")
        require(s.plan(twin) == s.plan(learner), "a clone has other parameters")
        mine, theirs = fingerprint(twin), fingerprint(s.fresh())
        require(mine[1] is None or mine != theirs, "a clone has the original's noise")


@check(*STARTED)
def damaged_states_are_refused(s: Subject) -> None:
    """A state that was cut or changed, or of another size, raises `StateError`.

    A change behind a valid checksum need not be noticed, but then the learner must play without
    harm.
    """
    storable(s)
    learner, read = s.fresh(), s.kind._from_bytes
    s.play(learner, 0, HALF)
    data, rng = learner._to_bytes(), np.random.default_rng(0)
    require(fingerprint(read(data)) == fingerprint(learner), "a state is read as another one")
    header, payload = unpack(data)
    # 61 and the word length are coprime, so cuts fall on every place within a word.
    bad = [data[:cut] for cut in (*range(0, len(data), 61), len(data) - 1)] + [data + b"\0"]
    # The first 24 bytes are magic, version and lengths (docs/architecture.md).
    for at in (*range(24), *rng.integers(len(data), size=30)):
        bad.append(data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :])
    # `pack` recomputes the checksum, so the engine itself must notice these.
    bad += [pack(header, other) for other in (payload[:-8], payload + bytes(8), payload[8:], b"")]
    bad.append(pack({**header, "kind": "Unknown"}, payload))
    for spoiled in bad:
        expect_error("a damaged state", StateError, read, spoiled)
    for _ in range(30):
        words = bytearray(payload)
        for at in rng.integers(len(words), size=rng.integers(1, 4)):
            words[at] = rng.integers(256)
        with suppress(StateError):
            twin = continue_learner(learner, bytes(words))
            if twin.round < ROUNDS:
                require(np.all(np.isfinite(s.step(twin, twin.round))), "a release is not finite")


# ---- threads and processes -----------------------------------------------------------------------


def _threads(work: Callable[[], object], count: int) -> list[BaseException]:
    """Run `work` in several threads at once, and return the exceptions that it raised."""
    raised: list[BaseException] = []

    def catch() -> None:
        """Do the work and store its exceptions, because a thread would only print them."""
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=catch, daemon=True) for _ in range(count)]
    before = sys.getswitchinterval()
    # With the default of 5 ms, most calls would end before another thread runs.
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            # The threads are daemons, so that a stuck one does not keep the interpreter from
            # ending.
            thread.join(_PATIENCE)
            require(not thread.is_alive(), "a call from another thread does not return")
    finally:
        sys.setswitchinterval(before)
    return raised


@check(*ONLINE)
def threads_end_one_round_each(s: Subject) -> None:
    """Threads that observe one decision end one round; the others get `RoundOrderError`."""
    learner, refusals = s.fresh(), []

    def feed() -> None:
        """Ask and observe as often as the order of rounds allows, and count the refusals."""
        for _ in range(ROUNDS // 4):
            try:
                s.tell(learner, 0, s.ask(learner, 0))
            except RoundOrderError:
                refusals.append(1)

    require(not _threads(feed, 4), "a thread raised another error than RoundOrderError")
    require(learner.round == ROUNDS - len(refusals), "rounds were lost, or played twice")


@check(*ONLINE, arrays=True, needs="run")
def runs_keep_other_threads_out(s: Subject) -> None:
    """While a thread is in `run`, calls of others raise `RoundOrderError` and change nothing."""
    learner, raised = s.fresh(), []

    def meddle(done: int, total: int) -> None:
        """Try to call the learner from another thread, between two chunks of its run."""
        for call in (
            lambda: s.tell(learner, 0, s.ask(learner, 0)),
            lambda: s.run(learner, 0, 1),
            lambda: s.ask(learner, 0, ticket=True),
        ):
            raised.extend(_threads(call, 1))

    with folder() as here:
        options: Options = {"progress": meddle}
        if own_class(s.kind) is not None:
            # Without checkpoints, so short a run is one chunk, and `progress` is only called at its
            # end.
            options |= {"checkpoint": here / "state", "checkpoint_every": 5}
        got = s.run(learner, **options)
    kinds = {type(error) for error in raised}
    require(kinds <= {RoundOrderError, HorizonExceeded}, f"another thread got {kinds}")
    require(RoundOrderError in kinds or learner.round == ROUNDS, "every thread came in")
    require(equal(got, s.run(s.fresh())), "another thread changed the run")


@check(*STARTED)
def learners_share_nothing(s: Subject) -> None:
    """Learners in separate threads play as they would alone."""
    want, released = s.play(s.fresh()), []
    made = [s.fresh() for _ in range(3)]
    raised = _threads(lambda: released.append(s.play(made.pop())), 3)
    require(not raised, f"a thread raised {raised}")
    require(all(equal(each, want) for each in released), "learners in threads differ")


@check(*STARTED, needs="resume")
def forked_children_wait_for_resume(s: Subject) -> None:
    """A learner inherited through fork shares its noise: the child is refused until `resume`."""
    s.applies(hasattr(os, "fork"))
    learner = s.fresh()
    s.play(learner, 0, HALF)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        answer = b"failed"
        try:
            try:
                s.step(learner, HALF)
                answer = b"went on"
            except StateError:
                learner.resume()
                answer = pickle.dumps(s.play(learner, HALF))
        finally:
            os.write(write, answer)
            # `sys.exit` would also run the parent's exit handlers, such as those of the tests.
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        # We read the pipe before waiting. A child whose answer exceeds the pipe's buffer would
        # otherwise never end.
        answer = pipe.read()
    os.waitpid(child, 0)
    require(answer != b"went on", "a forked child drew the noise of its parent")
    require(answer != b"failed", "a forked child was not refused with StateError")
    require(equal(pickle.loads(answer), s.play(learner, HALF)), "a resumed child differs")


@check(*ONLINE, arrays=True)
def interrupted_runs_go_on(s: Subject) -> None:
    """An exception or Ctrl-C between rounds of `run` leaves a learner that plays on."""
    storable(s)
    want = s.run(s.fresh())
    for breaker in (KeyboardInterrupt, ValueError, SystemExit):
        learner = s.fresh()

        def stop(done: int, total: int, breaker: type[BaseException] = breaker) -> None:
            raise breaker

        with folder() as here:
            at: Options = {"checkpoint": here / "state", "checkpoint_every": 5}
            try:
                s.run(learner, progress=stop, **at)
            except breaker:
                pass
            else:
                raise AssertionError(f"run() swallowed a {breaker.__name__}")
        require(learner.round == 5, f"stopped after 5 rounds, in round {learner.round}")
        got = [s.step(learner, 5), *s.run(learner, 6)]
        require(equal(got, want[5:]), "an interrupted run goes on differently")


# ---- fits ----------------------------------------------------------------------------------------


@check("batch")
def one_fit_is_one_release(s: Subject) -> None:
    """`fit` releases once; a second fit raises `BudgetExceeded`, a clone has its own noise."""
    learner, data = s.fresh(), s.part(0, ROUNDS)
    expect_error("theta before fit()", RoundOrderError, getattr, learner, "theta")
    known = learner.guarantee
    require(learner.fit(*data) is learner, "fit() does not return the learner")
    require(learner.guarantee == known, "fit() changed the guarantee")
    theta = learner.theta.copy()
    require(theta.shape == (learner.domain.dimension,), "theta has another shape")
    expect_error("writing into theta", ValueError, learner.theta.fill, 1.0)
    expect_error("a second fit", BudgetExceeded, learner.fit, *data)
    require(np.array_equal(learner.theta, theta), "a refused fit changed theta")
    require(np.allclose(learner.predict(data[0]), data[0] @ theta), "predict() is no margin")
    clones = (learner.clone().fit(*data).theta for _ in range(40))  # there are few vertices
    other = any(not np.array_equal(each, theta) for each in clones)
    require(other or not known.private, "a clone has the original's noise")
    late = s.fresh(records=None).fit(*data)
    require(np.array_equal(late.theta, theta), "records given beforehand changed the release")


@check("batch")
def malformed_data_spend_nothing(s: Subject) -> None:
    """Data of a wrong shape or dtype raise, quote nothing, and the fit may be tried again."""
    learner, (X, y) = s.fresh(records=None), s.part(0, ROUNDS)
    for bad in (
        (X[:, 1:], y), (X[0], y), (X, y[1:]), (X, None), (X + 0j, y), (X, y[:, None]),
        (X[:0], y[:0]), (np.full(X.shape, str(SECRET)).tolist(), y), (X, [MARK] * ROUNDS),
    ):  # fmt: skip
        expect_error("malformed data", (ValueError, TypeError), learner.fit, *bad)
    learner.fit(X, y)
    expect_error("other than `records` rows", ValueError, s.fresh().fit, X[1:], y[1:])


@check("batch")
def fitted_models_are_values(s: Subject) -> None:
    """A fitted model holds no randomness: copies predict alike, and none of them fits again."""
    data = s.part(0, ROUNDS)
    learner = s.fresh().fit(*data)
    for twin in (pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)):
        require(np.array_equal(twin.theta, learner.theta), "a copy differs")
        require(twin.guarantee == learner.guarantee, "a copy has another guarantee")
        expect_error("a fit of a copy", BudgetExceeded, twin.fit, *data)
    expect_error("a copy before the fit", TypeError, copy.deepcopy, s.fresh())


@check("batch")
def threads_fit_once(s: Subject) -> None:
    """Of threads that fit one learner, one does."""
    learner, data = s.fresh(), s.part(0, ROUNDS)
    raised = _threads(lambda: learner.fit(*data), 4)
    require([type(each) for each in raised] == [BudgetExceeded] * 3, "a thread fitted again")
