"""Tickets of a journal's stream, killed at every point: nothing is lost, doubled or different."""

from __future__ import annotations

import os
import signal

import pytest
from tests.journal.crash_cases import kills, recorded
from tests.journal.journal_cases import QuickStore
from tests.journal.ticket_cases import BANDITS, CASES, reference, script, serve, shown

import dpoco


@pytest.mark.parametrize("name", CASES)
def test_a_stream_is_the_learner_with_tickets(name, tmp_path):
    """Decisions and last state, bit for bit; and again, all sent twice."""
    case, events = CASES[name], script(1)
    assert len({tuple(script(seed)) for seed in range(4)}) == 4
    expected, state = reference(case, events)
    known = {}
    for _ in range(2):
        store = QuickStore(tmp_path / "journal.db")
        assert serve(store, case, events, known, known.__setitem__) == state
        assert {n: shown(ticket) for n, ticket in known.items()} == expected


@pytest.mark.parametrize("name", [*BANDITS, "TreeFrankWolfe"])
def test_killed_before_and_after_every_statement(name, tmp_path):
    """Some 200 kills, each followed by all that the client knows to have sent: seconds."""
    case, events = CASES[name], script(3, tickets=6)
    assert {kind for kind, _ in events} == {"issue", "arrive", "skip", "expire"}
    expected, state = reference(case, events)
    known = {}
    store, images = recorded(tmp_path, known)
    assert serve(store, case, events, known, known.__setitem__) == state
    lost = 0
    for place, had in images:
        assert {n: shown(ticket) for n, ticket in had.items()}.items() <= expected.items()
        after = serve(QuickStore(place / "journal.db"), case, events, had, had.__setitem__)
        assert after == state
        assert {n: shown(ticket) for n, ticket in had.items()} == expected
        lost += max(ticket.number for ticket in had.values()) > len(expected) - 1
    assert images.kills >= 100
    assert lost >= 3  # tickets that were committed, and that nobody was given


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_by_the_system(tmp_path):
    """Fifteen processes: seconds."""
    case, events = CASES["HighDimensionalBandit"], script(5)
    expected, state = reference(case, events)
    ends = []
    arguments = (str(tmp_path / "journal.db"), str(tmp_path / "client"))
    for status, lines in kills(arguments, turns=15, seed=4):
        ends.append(status)
        if status == 0:
            assert lines == [state.hex()]
    kept = [line.split() for line in (tmp_path / "client").read_text().splitlines()]
    assert len({n for n, _ in kept}) == len(kept)
    tickets = {int(n): dpoco.Ticket.from_bytes(bytes.fromhex(data)) for n, data in kept}
    assert {n: shown(ticket) for n, ticket in tickets.items()} == expected
    assert ends[-1] == 0
    assert ends.count(signal.SIGKILL) >= 3
    assert set(ends) <= {0, signal.SIGKILL}
