"""A service in a process of its own: plays its plan on a journal, printing what it delivers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from tests.journal import crash_cases, executor_cases, ticket_cases
from tests.journal.journal_cases import QuickStore

import dpoco


def deliver(name, turn, release):
    os.write(1, f"{name} {turn} {release.hex()}\n".encode())  # one write: whole or not at all


def serve_tickets(path, client):
    """Serve a client whose memory is a file."""
    file = os.open(client, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    rows = [line.split() for line in Path(client).read_text().splitlines()]
    known = {int(n): dpoco.Ticket.from_bytes(bytes.fromhex(data)) for n, data in rows}

    def keep(n, ticket):
        os.write(file, f"{n} {ticket.to_bytes().hex()}\n".encode())
        known[n] = ticket

    case = ticket_cases.CASES["HighDimensionalBandit"]
    state = ticket_cases.serve(QuickStore(path), case, ticket_cases.script(5), known, keep)
    os.write(1, f"{state.hex()}\n".encode())


def main(path, plan):
    """Serve again and again, forking, until killed: a child for every line of standard input."""
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            if plan.isdecimal():
                crash_cases.serve(QuickStore(path), int(plan), deliver)
            elif plan.startswith("many "):
                executor_cases.serve(path, plan.removeprefix("many "))
            else:
                serve_tickets(path, plan)
            os._exit(0)
        os.write(2, f"child {child}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(1, f"ended {status}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
