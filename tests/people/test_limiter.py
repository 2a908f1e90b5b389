"""The limiter lets through what the rule allows, whoever comes, and forgets nobody by chance."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import dpoco
from dpoco import _core
from dpoco.errors import RoundOrderError, StateError
from dpoco.learning.participation import Limiter, Participation

WORD = (1 << 64) - 1


def sip_hash(key: bytes, message: bytes) -> bytes:
    """Return SipHash-2-4 with 128 bits, written down once more."""
    first, second = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = [0x736F6D6570736575 ^ first, 0x646F72616E646F6D ^ second ^ 0xEE,
         0x6C7967656E657261 ^ first, 0x7465646279746573 ^ second]  # fmt: skip

    def turned(x, bits):
        return (x << bits | x >> (64 - bits)) & WORD

    def mixed(times):
        for _ in range(times):
            for a, b, left in ((0, 1, 13), (2, 3, 16), (0, 3, 21), (2, 1, 17)):
                v[a] = (v[a] + v[b]) & WORD
                v[b] = turned(v[b], left) ^ v[a]
                if left in (13, 17):
                    v[a] = turned(v[a], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) & 255])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        mixed(2)
        v[0] ^= word
    v[2] ^= 0xEE
    words = []
    for _ in range(2):
        mixed(4)
        words.append(v[0] ^ v[1] ^ v[2] ^ v[3])
        v[1] ^= 0xDD
    return b"".join(word.to_bytes(8, "little") for word in words)


def allowed(names, rounds, separation):
    """Return which records pass: the rule, with a list of passed rounds for every person."""
    passed = defaultdict(list)
    for turn, name in enumerate(names):
        own = passed[name]
        good = rounds is None or len(own) < rounds
        good = good and (not own or turn - own[-1] >= separation)
        if good:
            own.append(turn)
        yield good


def test_digests_are_those_of_the_published_function():
    assert sip_hash(bytes(range(16)), b"").hex() == "a3817f04ba25a8e66df67214c7550293"
    limiter = Limiter(Participation(1), 10, bytes(32))
    for name in (5, -1, 2**63 - 1):
        message = name.to_bytes(8, "little", signed=True)
        assert limiter.digests(name) == sip_hash(limiter._key, message)
    texts = Limiter(Participation(1), 10, bytes(32))
    names = ["", "anna", "a" * 7, "a" * 8, "ä" * 40, "\ud800"]
    expected = b"".join(sip_hash(texts._key, name.encode(errors="surrogatepass")) for name in names)
    assert texts.digests(names, 6) == expected


@pytest.mark.parametrize(("rounds", "separation"), [(1, 1), (3, 1), (2, 7), (None, 20), (10**6, 3)])
@pytest.mark.parametrize("people", [1, 6, 400])
def test_records_pass_as_the_rule_says(rounds, separation, people):
    names = np.random.default_rng(people).integers(0, people, 2000)
    rule = Participation(rounds, separation)
    together, single = Limiter(rule, 2000), Limiter(rule, 2000)
    expected = list(allowed(names.tolist(), rounds, separation))
    got = [single.admit(turn, single.digests(int(name)))[0] for turn, name in enumerate(names)]
    assert got == expected
    for start in range(0, 2000, 300):
        part = names[start : start + 300]
        passed = together.admit(start, together.digests(part, len(part)))
        assert passed.tolist() == expected[start : start + 300]
        other = Limiter(rule, 2000)  # goes on from the state
        other.restore(together.state())
        together = other


@pytest.mark.parametrize("seed", range(4))
def test_nobody_is_forgotten_where_tables_are_crowded(seed):
    """Thousands of people at a time: those beside one who is forgotten are found as before."""
    names = np.random.default_rng(seed).integers(0, 9000, 40_000)
    limiter = Limiter(Participation(None, 6000 + seed), 40_000, bytes([seed]) * 32)
    passed = limiter.admit(0, limiter.digests(names, names.size))
    assert passed.tolist() == list(allowed(names.tolist(), None, 6000 + seed))
    assert limiter._people.people == passed[-5999 - seed :].sum()  # and nobody else is kept


def test_one_person_never_changes_what_another_may_do():
    rng = np.random.default_rng(3)
    rule = Participation(2, 4)
    for trial in range(50):
        names = rng.integers(0, 5, 60)
        worlds = []
        for world in (names, np.where(names == 0, 100 + np.arange(60) % 2, names)):
            limiter = Limiter(rule, 60, bytes([trial]) * 32)
            worlds.append(limiter.admit(0, limiter.digests(world, 60)))
        others = names != 0
        assert np.array_equal(worlds[0][others], worlds[1][others])


@pytest.mark.parametrize("rule", [Participation(50, 10), Participation(None, 10)])
def test_rounds_that_are_played_again_keep_to_the_separation(rule):
    limiter = Limiter(rule, 1000)
    anna = limiter.digests("anna")
    assert limiter.admit(99, anna)
    assert limiter.admit(109, anna)  # an interrupt comes before its round is played
    assert not limiter.admit(100, anna)
    bertha = limiter.digests("bertha")
    assert limiter.admit(200, bertha)
    limiter.admit(201, limiter.digests([f"{n}" for n in range(30)], 30))  # never played
    assert not limiter.admit(201, bertha)


@pytest.mark.parametrize(
    "names",
    [["a", "b", "a"], [b"a", b"b", b"a"], [1, 2, 1], np.array([1, 2, 1], np.uint8),
     np.array(["a", "b", "a"]), np.array(["a", "b", "a"], object), (np.int32(1), 2, 1)],
)  # fmt: skip
def test_names_of_all_types(names):
    limiter = Limiter(Participation(1), 100)
    assert limiter.admit(0, limiter.digests(names, 3)).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("names", "rounds", "error", "text"),
    [
        (1.5, None, TypeError, "int, all str or all bytes"),
        (None, None, TypeError, "int, all str or all bytes"),
        (True, None, TypeError, "int, all str or all bytes"),
        ([1, "a"], 2, TypeError, "int, all str or all bytes"),
        ([["a"]], 1, ValueError, r"shape \(1,\)"),
        ("ab", 2, ValueError, r"shape \(2,\)"),
        ([1, 2], 3, ValueError, r"shape \(3,\)"),
        (2**63, None, ValueError, "64 bits"),
        (np.array([2**63], np.uint64), 1, ValueError, "64 bits"),
        ({1: 2}, None, TypeError, "int, all str or all bytes"),
        ([2**63, -1], 2, ValueError, "64 bits"),
        (np.array([b"a"]), 1, TypeError, "zeros"),
    ],
)
def test_bad_names_are_refused_and_count_for_nothing(names, rounds, error, text):
    limiter = Limiter(Participation(1), 100)
    before = limiter.state()
    with pytest.raises(error, match=text):
        limiter.digests(names, rounds)
    assert limiter.state() == before


def test_one_type_for_all_time_and_after_a_restart():
    limiter = Limiter(Participation(1), 100)
    limiter.digests(5)
    other = Limiter(Participation(1), 100)
    other.restore(limiter.state())
    for each in (limiter, other):
        with pytest.raises(TypeError, match="int before"):
            each.digests("5")


def test_a_full_house_is_refused_before_anything_counts():
    limiter = Limiter(Participation(2, max_persons=2), 100)
    limiter.admit(0, limiter.digests([1, 2], 2))
    before = limiter.state()
    with pytest.raises(RoundOrderError, match="max_persons"):
        limiter.digests([1, 3], 2)
    assert limiter.state() == before
    limiter.digests([2, 1, 2], 3)


def test_a_state_takes_the_place_of_what_was_there():
    few, many = (Limiter(Participation(2), 10**6, bytes([n])) for n in (1, 2))
    few.admit(0, few.digests([1, 2], 2))
    many.admit(0, many.digests(np.arange(2000), 2000))
    many.restore(few.state())
    assert many._people.people == 2
    assert many.admit(2, many.digests([1, 1, *range(2000)], 2002)).sum() == 2000


@pytest.mark.parametrize("cut", [0, 10, 16, 17, 40, -1])
def test_broken_states_are_refused(cut):
    limiter = Limiter(Participation(2), 100)
    limiter.admit(0, limiter.digests([1, 2], 2))
    with pytest.raises(StateError):
        Limiter(Participation(2), 100).restore(limiter.state()[:cut])


def words(*numbers):
    return b"".join(int(number).to_bytes(8, "little") for number in numbers)


def passes(call, *given):
    """Return whether a call neither refuses a number nor a state."""
    try:
        call(*given)
    except (ValueError, StateError, RoundOrderError):
        return False
    return True


# What entries hold: 24 bits of records, 40 of rounds; where only the separation binds (0 rounds),
# people of its last rounds.
@pytest.mark.parametrize(
    ("rule", "good"),
    [
        ((1, 0, 1), False), ((1, 1, 0), False), ((1, 1, 1), True), ((2**24 - 1, 1, 1), True),
        ((2**24, 1, 1), False), ((1, 2**40 - 1, 1), True), ((1, 2**40, 1), False),
        ((1, 1, 2**40 - 1), True), ((1, 1, 2**40), False), ((0, 8, 6), False), ((0, 8, 7), True),
        ((5, 8, 6), True),
    ],
)  # fmt: skip
def test_rules_that_entries_hold(rule, good):
    assert passes(_core.Participants, *rule) == good


@pytest.mark.parametrize(
    ("state", "good"),
    [
        (words(2, 3, 0, 0), True), (words(3, 3, 0, 0), False), (words(2, 4, 0, 0), False),
        (words(2, 3, 0, 2**40 - 1), True), (words(2, 3, 0, 2**40), False),
        (words(2, 3, 2, 1, 1, 1 << 40, 2, 1, 2 << 40 | 7, 0), True),
        (words(2, 3, 3, 1, 1, 1 << 40, 2, 1, 2 << 40, 3, 1, 1 << 40, 0), False),  # too many
        (words(2, 3, 2, 1, 1, 1 << 40, 1, 1, 1 << 40, 0), False),  # one twice
        (words(2, 3, 1, 1, 1, 3 << 40, 0), False), (words(2, 3, 1, 1, 1, 7, 0), False),
        (words(1, 3, 1, 1, 1, 1 << 40, 0), True), (words(1, 3, 1, 1, 1, 2 << 40, 0), False),
        (words(0, 3, 0, 0, 0, 0, 0, 0), True), (words(0, 3, 1, 1, 1, 3 << 40, 0, 0, 0, 0, 0), True),
    ],
)  # fmt: skip
def test_states_of_people_that_cannot_be(state, good):
    people = _core.Participants(min(state[0], 2), 3, 2)
    assert passes(people.restore, state) == good
    if good:
        assert people.state() == state


def test_there_is_room_for_the_last_person_and_not_for_one_more():
    people = _core.Participants(2, 1, 3)
    digests = [bytes([n]) * 16 for n in range(1, 6)]
    people.admit(0, digests[0])
    for count, good in ((2, True), (3, True), (4, False), (5, False)):
        assert passes(people.require_room, b"".join(digests[:count])) == good
    assert passes(people.require_room, b"".join([*digests[:3], *digests[:3]]))
    _core.Participants(0, 3, 2).require_room(b"".join(digests))  # forgets them in time


def test_rules_in_words_and_records():
    rule = Participation(10, 100)
    assert [rule.largest(n) for n in (1, 100, 101, 10**6)] == [1, 1, 2, 10]
    assert Participation(None, 50).largest(1000) == 20
    assert Participation.from_dict(rule.to_dict()) == rule
    for record in ({}, {"rounds": 1}, 5, {**rule.to_dict(), "more": 1}):
        with pytest.raises(StateError):
            Participation.from_dict(record)
    with pytest.raises(ValueError, match="at most the horizon"):
        rule.check(99)
    with pytest.raises(ValueError, match="room"):
        Limiter(Participation(None, 10**9, max_persons=1000), 10**10)
    Limiter(Participation(1, 10**9, max_persons=1000), 10**9)  # a counter each is enough
    assert dpoco.Participation is Participation
