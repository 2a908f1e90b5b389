"""Damage: single bits of a journal's files, and single values of its rows.

Whatever is damaged, the journal must be found as it was, or raise `StateError`: it never makes a
stream of a name that it has, states another guarantee, or releases anything else. Flips are random
and aimed: at the heads of files, pages and frames of the log, and at every column of every row.

Usage: python tests/journal/flips.py [--count N] [--seed N]
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))

from tests.journal.crash_cases import FILES, image
from tests.journal.journal_cases import ROUNDS, QuickStore, cases

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.journal import Journal

CASES = {case.name: case for case in cases() if case.name in ("ContinualSum", "EpochSelector")}
BANDIT = next(case for case in cases() if case.name == "LinUCB")
PLAYED = {"one": 9, "ContinualSum": 17, "EpochSelector": 12}  # a group's stream, and others
NEXT = 20
LEDGER = Ledger(dpoco.Budget(100.0, 1e-4), currency="basic", view="others")
COLUMNS = ("kind", "owner", "number", "key", "seal", "body")


@cache
def reference(name):
    """Return the releases of an uninterrupted run."""
    return (BANDIT if name == BANDIT.name else CASES[name]).reference()


def case_of(name):
    return CASES.get(name, CASES["ContinualSum"])


def options(name):
    return {"group": "all", "group_size": 3} if name == "one" else {}


def opened(place, encryption):
    store = QuickStore(place / "journal.db", timeout=0.0)
    return Journal(store, ledger=None, encryption=encryption)


def played(journal, name, first, stop):
    case = case_of(name)
    stream = journal.open(name, lambda: case.make(2), same_unit=True, **options(name))
    releases = stream.process(*case.part(first, stop), first_round=first)
    np.testing.assert_array_equal(releases, reference(case.name)[first:stop])
    return stream


def make(home, encryption):
    """Return the journal's files with the log not merged, and what its guarantees are."""
    (home / "live").mkdir()
    path = home / "live" / "journal.db"
    with Journal(QuickStore(path), ledger=LEDGER, encryption=encryption) as journal:
        for name in PLAYED:
            case = case_of(name)
            journal.open(name, lambda case=case: case.make(1), same_unit=True, **options(name))
            played(journal, name, 0, 5)
        journal.rotate_key()
    with Journal(QuickStore(path), encryption=encryption) as journal:
        journal.open("bandit", lambda: BANDIT.make(1), same_unit=True).decide(BANDIT.batch[0][0])
        for name, stop in PLAYED.items():
            played(journal, name, 2, 8)
            played(journal, name, 8, stop)
        image(home / "live", home / "image")
        guarantees = {name: journal.open(name).guarantee for name in journal.streams()}
        return guarantees, journal.ledger.to_json()


def outcome(place, guarantees, ledger, encryption=None):
    """Return "refused" or "exact"; anything else raises."""
    try:
        with opened(place, encryption) as journal:
            assert journal.streams() == list(guarantees)
            assert journal.ledger.to_json() == ledger
            streams = [played(journal, name, 0, stop) for name, stop in PLAYED.items()]
            bandit = journal.open("bandit", lambda: BANDIT.make(2), same_unit=True)
            assert bandit.decide(BANDIT.batch[0][0]) == reference(BANDIT.name)[0]
            for stream in (*streams, bandit):
                assert stream.round == PLAYED.get(stream.name, 0)
                assert stream.guarantee == guarantees[stream.name]
            case = CASES["ContinualSum"]
            for name in ("two", "three"):
                new = journal.open(name, lambda: case.make(1), group="all", same_unit=True)
                assert new.round == 0
            for name in PLAYED:
                played(journal, name, 0, NEXT)
            after = journal.ledger
        with opened(place, encryption) as journal:
            for name in PLAYED:
                played(journal, name, 0, ROUNDS)
            assert journal.ledger.to_json() == after.to_json()
            assert journal.streams() == [*guarantees, "two", "three"]
    except dpoco.StateError:
        return "refused"
    return "exact"


def flip(data, place, bit):
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def targets(home, rng):
    """Yield (kind, damage of a copy) for ever."""
    sizes = {name: (home / "image" / name).stat().st_size for name in FILES[:3]}
    page = 8192

    def byte(name, place):
        bit = int(rng.integers(8))

        def damage(copy):
            path = copy / name
            path.write_bytes(flip(path.read_bytes(), place, bit))

        return damage

    def value(copy):
        connection = sqlite3.connect(copy / "journal.db", isolation_level=None)
        rows = connection.execute("SELECT rowid, * FROM sealed ORDER BY rowid").fetchall()
        row = rows[rng.integers(len(rows))]
        column = int(rng.integers(len(COLUMNS)))
        old = row[1 + column]
        if isinstance(old, bytes):
            new = flip(old, int(rng.integers(len(old))), int(rng.integers(8)))
        else:
            new = old ^ 1 << int(rng.integers(63))
        update = f"UPDATE OR REPLACE sealed SET {COLUMNS[column]} = ? WHERE rowid = ?"
        connection.execute(update, (new, row[0]))
        connection.close()

    database, log, keys = FILES[:3]
    while True:
        yield "database", byte(database, int(rng.integers(sizes[database])))
        yield "head of the database", byte(database, int(rng.integers(100)))
        start = page * int(rng.integers(sizes[database] // page))
        yield "schema", byte(database, int(rng.integers(page - 400, page)))
        yield "head of a page", byte(database, max(100, start) + int(rng.integers(64)))
        yield "log", byte(log, int(rng.integers(sizes[log])))
        frame = 32 + (24 + page) * int(rng.integers(sizes[log] // (24 + page)))
        head = int(rng.choice([rng.integers(32), frame + rng.integers(24)]))
        yield "head of a frame", byte(log, head)
        yield "page in the log", byte(log, frame + 24 + int(rng.integers(64)))
        yield "keys", byte(keys, int(rng.integers(sizes[keys])))
        yield "value", value
        yield "another value", value


def run(home, count, seed, encryption=None):
    """Damage the journal `count` times; return how often which damage had which outcome."""
    rng = np.random.default_rng(seed)
    known = (*make(home, encryption), encryption)
    merged = home / "merged"
    ends = Counter()
    shutil.copytree(home / "image", merged)
    with closing(sqlite3.connect(merged / "journal.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for place in ("image", "merged"):
        shutil.copytree(home / place, home / "copy")
        assert outcome(home / "copy", *known) == "exact"
        shutil.rmtree(home / "copy")
    for number, (kind, damage) in enumerate(itertools.islice(targets(home, rng), count)):
        copy = home / "copy"
        with_log = "log" in kind or "frame" in kind or rng.integers(4) == 0
        shutil.copytree(home / "image" if with_log else merged, copy)
        damage(copy)
        try:
            ends[kind, outcome(copy, *known)] += 1
        except BaseException as error:
            raise AssertionError(f"damage {number} of seed {seed}: {kind}") from error
        shutil.rmtree(copy)
    return ends


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = run(Path(folder), arguments.count, arguments.seed)
    for (kind, end), number in sorted(counts.items()):
        print(f"{kind}: {number} {end}")
