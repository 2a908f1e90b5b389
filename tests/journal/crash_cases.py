"""A service with three streams, what it delivers, and copies of its files at every step."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
from tests.journal.journal_cases import QuickStore

import dpoco
from dpoco.journal import Journal, _stream
from dpoco.learning.participation import Limiter
from dpoco.random import Source

FILES = ("journal.db", "journal.db-wal", "journal.db.key", "journal.db.mark")
ROUNDS = 6
RECORDS = np.random.default_rng(11).uniform(size=(ROUNDS, 3))


RULE = dpoco.Participation(2, 2)
PEOPLE = [1, 2, 1, 1, 1, 2]  # the fourth comes too early, the fifth too often
PURE = dpoco.Budget(1.0, 0.0)
LEARNERS = {
    "sums": (
        dpoco.mechanisms.ContinualSum,
        {"budget": dpoco.Budget(1.0, 1e-6), "method": "tree", "bound": 1.0},
    ),
    "selections": (dpoco.mechanisms.NoisyMax, {"budget": PURE, "sensitivity": 1.0}),
    "epochs": (dpoco.experts.EpochSelector, {"budget": PURE}),
    "people": (dpoco.experts.EpochSelector, {"budget": PURE, "participation": RULE}),
}


def make(name, seed):
    """Return a new learner of a stream."""
    kind, options = LEARNERS[name]
    return kind(3, horizon=ROUNDS, plan=_plan(name), source=_source(seed), **options)


@cache
def _plan(name):
    kind, options = LEARNERS[name]
    return kind(3, horizon=ROUNDS, **options).plan


def counters(limiter):
    """Return key and kind of a limiter, its entries in order, and all else that it has."""
    state = limiter.state()
    words = np.frombuffer(state[17:], "<u8")
    entries, stop = int(words[2]), 3 + 3 * int(words[2])
    return state[:17], sorted(words[3:stop].reshape(entries, 3).tolist()), words[stop:].tolist()


def check_people(stream, names):
    """Assert that exactly the rounds that are over were counted, whatever happened in between."""
    turn, limiter = stream.round, stream._learner._limiter
    exact = Limiter(stream._learner.get_params()["participation"], stream.horizon)
    exact._key = limiter._key
    for at in range(turn):
        exact.admit(at, exact.digests(names[at]))
    assert counters(limiter) == counters(exact)


# Kills of each test by statement or commit, at least: each test asserts its own, one their sum.
STATEMENTS = {0: 150, 1: 150, 2: 150, 5: 150, 6: 150}  # by seed of the plan
COMMITS = {4: 120, 3: 140}
SYSTEM_NOISE = 150
CUTS = 11  # of the log, for each time it grows


def _source(seed):
    return None if seed is None else Source.seeded(seed)


def plan(seed):
    """Batches (stream, first round, stop) of a service: sizes and order by `seed`."""
    rng = np.random.default_rng(seed)
    at = dict.fromkeys(LEARNERS, 0)
    while any(round_ < ROUNDS for round_ in at.values()):
        name = rng.choice([name for name, round_ in at.items() if round_ < ROUNDS])
        stop = min(ROUNDS, at[name] + int(rng.integers(1, 5)))
        yield str(name), at[name], stop
        at[name] = stop


def serve(store, seed, deliver, *, noise_seed=1):
    """Play the whole plan from its first batch on, delivering each release as it is returned."""
    # By odd plans people are stored as a whole once, and then by the rounds in which they came.
    written = patch.object(_stream, "_WRITTEN", 4 if seed % 2 else 128)
    with Journal(store) as journal, written:
        for name, first, stop in plan(seed):
            stream = journal.open(name, lambda name=name: make(name, noise_seed))
            named = name == "people"
            if named:
                check_people(stream, PEOPLE)
            who = PEOPLE[first:stop] if named else None
            releases = stream.process(RECORDS[first:stop], first_round=first, person=who)
            for turn, release in zip(range(first, stop), releases, strict=True):
                deliver(name, turn, release.tobytes())


def reference(seed=1):
    """Releases of learners that were never interrupted, and had no journal."""
    expected = {}
    best = make("selections", seed)
    rows = {
        "sums": make("sums", seed).run(RECORDS),
        "selections": np.array([best.select(row) for row in RECORDS]),
        "epochs": make("epochs", seed).run(RECORDS).decisions,
        "people": make("people", seed).run(RECORDS, persons=PEOPLE).decisions,
    }
    for name, releases in rows.items():
        for turn, release in enumerate(releases):
            expected[name, turn] = release.tobytes()
    return expected


class Recorded(QuickStore):
    """Calls `step` before and after everything that reaches the database."""

    def __init__(self, path, step):
        self.step = lambda: None
        super().__init__(path)
        self.step = step
        step()

    def _run(self, statement, parameters=()):
        self.step()
        rows = super()._run(statement, parameters)
        self.step()
        return rows

    def _run_many(self, statement, rows):
        self.step()
        super()._run_many(statement, rows)
        self.step()


def image(source: Path, target: Path, wal_bytes=None):
    """Copy the files as a kill at this moment leaves them, the log cut short if asked to."""
    target.mkdir()
    # The mark first: another thread may commit between two copies, and a mark may only be older.
    for name in sorted(FILES, key=lambda name: not name.endswith(".mark")):
        if (source / name).exists():
            shutil.copy(source / name, target / name)
    if wal_bytes is not None:
        log = target / "journal.db-wal"
        log.write_bytes(log.read_bytes()[:wal_bytes])


def recovered(place: Path, seed, *, noise_seed=1):
    """Everything that the service delivers when it is started again from an image."""
    delivered = {}

    def deliver(name, turn, release):
        assert (name, turn) not in delivered
        delivered[name, turn] = release

    serve(QuickStore(place / "journal.db"), seed, deliver, noise_seed=noise_seed)
    return delivered


class Images(list):
    """Copies of the files at every statement, each with what was known, and its number of kills.

    Most statements change nothing outside of the process. Kills that leave the same files, and the
    same known, have one copy: what starts again from it cannot tell them apart.
    """

    def __init__(self, home: Path, known):
        self.home, self.known, self.counts, self.last = home, known, [], None
        (home / "live").mkdir()

    @property
    def kills(self):
        return sum(self.counts)

    def step(self):
        live = self.home / "live"
        files = [(live / name).read_bytes() for name in FILES if (live / name).exists()]
        moment = files, len(self.known)
        if moment != self.last:
            self.last = moment
            place = self.home / f"image {len(self)}"
            image(live, place)
            self.append((place, dict(self.known)))
            self.counts.append(0)
        self.counts[-1] += 1


def recorded(home: Path, known):
    """Return a store that copies the files at every statement, and the copies with what was known.

    `known` is a dictionary that grows.
    """
    images = Images(home, known)
    return Recorded(home / "live" / "journal.db", images.step), images


def images_of_every_statement(home: Path, seed, *, noise_seed=1):
    """Serve, and return an image for each kill with what was delivered before it, and all."""
    delivered = {}
    store, images = recorded(home, delivered)
    serve(
        store,
        seed,
        lambda name, turn, release: delivered.update({(name, turn): release}),
        noise_seed=noise_seed,
    )
    return images, delivered


def check_every_statement(home: Path, seed):
    """Kill before and after every statement; return how often."""
    expected = reference()
    images, delivered = images_of_every_statement(home, seed)
    assert delivered == expected
    for place, before in images:
        assert before.items() <= expected.items()
        assert recovered(place, seed) == expected
    return images.kills


def check_inside_of_commits(place: Path, seed):
    """Cut the log within what each commit appends to it; return how often."""
    expected = reference()
    home, before, delivered, cuts = place / "home", 0, {}, 0
    home.mkdir()
    log = home / "journal.db-wal"
    rng = np.random.default_rng(seed)

    def step():
        nonlocal before, cuts
        size = log.stat().st_size if log.exists() else 0
        for cut in rng.integers(before, size + 1, CUTS) if size > before else ():
            image(home, place / f"cut {cuts}", wal_bytes=int(cut))
            assert recovered(place / f"cut {cuts}", seed) == expected
            cuts += 1
        before = size

    serve(
        Recorded(home / "journal.db", step),
        seed,
        lambda name, turn, release: delivered.update({(name, turn): release}),
    )
    assert delivered == expected
    return cuts


def kills(arguments, turns, seed):
    """Start a service `turns` times; kill all but the last, at random times.

    Yields the status each ended with, 0 if it was faster, and the lines it printed.
    """
    rng = np.random.default_rng(seed)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    program = [sys.executable, str(Path(__file__).with_name("service.py")), *arguments]
    with subprocess.Popen(program, text=True, env=environment, **pipes) as service:
        longest = 0.05
        for turn in range(turns):
            service.stdin.write("go\n")
            service.stdin.flush()
            said = next(line for line in service.stderr if line.startswith("child "))
            child = int(said.split()[1])
            start = time.monotonic()
            if turn < turns - 1:
                time.sleep(float(rng.uniform(0.0, longest)))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            lines = []
            for line in service.stdout:
                if line.startswith("ended "):
                    break
                lines.append(line.rstrip("\n"))
            status = int(line.split()[1])
            longest = min(0.5, 1.2 * longest if status else time.monotonic() - start)
            yield status, lines
        service.stdin.close()
        assert service.wait(60) == 0
