"""Digests against another implementation, releases as bytes, and keys over time."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.journal.journal_cases import FIRST as CASE
from tests.journal.journal_cases import KEY, ROUNDS, cases, expected, opened, played

import dpoco
from dpoco import _core
from dpoco.journal import KeyFile
from dpoco.journal._keys import StreamDigests
from dpoco.journal._releases import decode, encode


def available():
    names = []
    for name in ("baseline", "avx2", "avx512"):
        try:
            names.append(dpoco.random.select_instruction_set(name))
        except ValueError:
            continue
    dpoco.random.select_instruction_set("auto")
    return names


@pytest.mark.parametrize("instruction_set", available())
@pytest.mark.parametrize("width", [0, 1, 14, 15, 16, 30, 31, 32, 33, 100])
def test_digests_are_blake2b(instruction_set, width):
    rng = np.random.default_rng(width)
    dpoco.random.select_instruction_set(instruction_set)
    try:
        for count in (0, 1, 2, 7, 8, 9, 17):
            rows = rng.normal(size=(count, width))
            first = int(rng.integers(0, 2**62))
            digests = _core.keyed_digests(KEY, first, rows)
            expected = b"".join(
                hashlib.blake2b(
                    (first + i).to_bytes(8, "little") + row.tobytes(), key=KEY, digest_size=16
                ).digest()
                for i, row in enumerate(rows)
            )
            assert digests == expected
    finally:
        dpoco.random.select_instruction_set("auto")


def test_every_part_of_what_is_digested_counts():
    row = np.arange(3.0)[None]
    one = StreamDigests(KEY, 1, b"a" * 16)
    seen = {
        one.records(0, row),
        one.records(1, row),
        one.records(0, np.nextafter(row, 9.0)),
        one.records(0, row[:, :2]),
        one.context(0, row[0]),
        StreamDigests(KEY, 1, b"b" * 16).records(0, row),
        StreamDigests(KEY[::-1], 1, b"a" * 16).records(0, row),
    }
    assert len(seen) == 7
    assert all(len(digest) == 16 for digest in seen)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.one_of(
        arrays(np.int64, st.integers(0, 40), elements=st.integers(-2, 2)),
        arrays(
            np.float64,
            st.tuples(st.integers(0, 20), st.integers(1, 4)),
            elements=st.sampled_from([0.0, -0.0, 1.5, np.inf, np.nan]),
        ),
    )
)
def test_releases_as_bytes(releases):
    data = encode(releases)
    again = decode(data, len(releases))
    assert again.dtype == releases.dtype
    assert again.tobytes() == releases.tobytes()
    assert not again.flags.writeable
    if len(releases):
        assert again.shape == releases.shape
    for cut in range(len(data)):
        try:
            assert decode(data[:cut], len(releases)).shape[0] == len(releases)
        except dpoco.StateError:
            continue


def test_the_head_of_releases_is_not_taken_at_its_word():
    """It would ask for 32 GiB of one number, and for 2^32 rows of no entry."""
    data = bytearray(encode(np.zeros(9, dtype=np.int64)))
    assert decode(bytes(data), 9).tolist() == [0] * 9
    data[8:12] = (2**32 - 1).to_bytes(4, "little")
    with pytest.raises(dpoco.StateError, match="cannot be read"):
        decode(bytes(data), 9)


def test_repeated_releases_are_stored_once():
    lazy = np.repeat(np.arange(5), 200)
    assert len(encode(lazy)) == 16 + 5 * 16
    busy = np.arange(1000)
    assert len(encode(busy)) == 16 + 8 * 1000


def test_rotation_of_a_key_file(tmp_path):
    file = KeyFile(tmp_path / "journal.db.key")
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        played(stream, 0, 4)
        journal.rotate_key()
        played(stream, 4, 8)
        assert len(file.read()) == 2
        played(stream, 0, 8)  # replays over both keys
    with opened(tmp_path) as journal:
        journal.rotate_key()
        stream = journal.open("a")
        np.testing.assert_array_equal(played(stream, 0, 12), expected()[:12])
        assert len(file.read()) == 3
        assert journal.forget("a", 8) == 8
        journal.rotate_key()
        assert len(file.read()) == 2  # that of rounds 8 to 11, and the new one
        with pytest.raises(dpoco.StateError, match="not kept"):
            played(stream, 7, 9)
    first = file.read()
    with opened(tmp_path) as journal:
        np.testing.assert_array_equal(played(journal.open("a"), 8), expected()[8:])
    file.change(drop=first[1:])
    with pytest.raises(dpoco.StateError, match="key"):
        opened(tmp_path)
    file.change(add=first[1:], drop=first[:1])
    with opened(tmp_path) as journal:
        stream = journal.open("a")
        np.testing.assert_array_equal(played(stream, 12), expected()[12:])
        with pytest.raises(dpoco.StateError, match="key"):
            played(stream, 8)


def test_rotation_of_keys_that_the_caller_keeps(tmp_path):
    new = bytes(reversed(KEY))
    with opened(tmp_path, key=KEY) as journal:
        played(journal.open("a", lambda: CASE.make(1)), 0, 4)
        with pytest.raises(ValueError, match="pass the new key"):
            journal.rotate_key()
        with pytest.raises(ValueError, match="before"):
            journal.rotate_key(KEY)
        journal.rotate_key(new)
        played(journal.open("a"), 4, 8)
    assert not (tmp_path / "journal.db.key").exists()
    with pytest.raises(dpoco.StateError, match="key"):
        opened(tmp_path, key=KEY)
    with opened(tmp_path, key=[KEY, new]) as journal:
        np.testing.assert_array_equal(played(journal.open("a")), expected())


def test_rotation_while_a_bandit_waits(tmp_path):
    case = next(case for case in cases() if case.name == "LinUCB")
    context, reward = case.batch[0][0], case.batch[1][0]
    with opened(tmp_path) as journal:
        journal.open("a", lambda: case.make(1)).decide(context)
        journal.rotate_key()
        journal.rotate_key()
        assert len(KeyFile(tmp_path / "journal.db.key").read()) == 2
    with opened(tmp_path) as journal:
        stream = journal.open("a")
        arm = stream.decide(context)
        assert arm == case.reference()[0]
        stream.observe(reward[arm])
        journal.rotate_key()
        np.testing.assert_array_equal(stream.process(*case.batch, first_round=0), case.reference())


def test_forgetting_and_compacting(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASE.make(1))
        for turn in range(12):
            played(stream, turn, turn + 1)
        assert journal.forget("a", 0) == 0
        assert journal.forget("a", 5) == 5
        assert journal.forget("a", 3) == 5
        with pytest.raises(dpoco.RoundOrderError):
            journal.forget("a", 13)
        with pytest.raises(dpoco.StateError, match="no stream"):
            journal.forget("b", 1)
        with pytest.raises(dpoco.StateError, match="not kept"):
            stream.release(4)
        assert journal.compact("a") == 7
        assert journal.compact("a") == 0
        np.testing.assert_array_equal(played(stream, 5), expected()[5:])
        assert journal.forget("a", 8) == 5  # the batch of round 8 is kept as a whole
    with opened(tmp_path) as journal:
        stream = journal.open("a")
        assert stream.kept_from == 5
        np.testing.assert_array_equal(stream.releases(5, ROUNDS), expected()[5:])
        assert journal.forget("a", ROUNDS) == ROUNDS
        with pytest.raises(dpoco.StateError, match="not kept"):
            played(stream, ROUNDS - 1)
