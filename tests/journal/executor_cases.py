"""Users who visit at once, from threads and from an event loop, on one executor of commits."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from pathlib import Path

import numpy as np
from tests.journal.journal_cases import QuickStore

import dpoco
from dpoco.journal import GroupCommitExecutor, Journal
from dpoco.random import Source

USERS, THREADS = 60, 3
CONTEXTS = np.random.default_rng(2).uniform(-0.5, 0.5, size=(USERS, 3))
RULE = dpoco.Participation(2, 3)  # each name comes five times: some rounds count as empty


def make():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dpoco.bandits.LinUCB(
            4, 3, horizon=10 * USERS, budget=dpoco.Budget(8.0, 1e-6), participation=RULE,
            source=Source.seeded(1), context_bound=1.0, reward_bound=1.0
        )  # fmt: skip


def reward(user, arm):
    return (user * 7 + arm * 3) % 11 / 11.0


def name(user):
    return f"person {user % 12}"


def serve(path, client):
    """Serve all users whom the client's file does not tell to be over; return the last state."""
    file = os.open(client, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    rows = [line.split() for line in Path(client).read_text().splitlines()]
    known = {int(u): dpoco.Ticket.from_bytes(bytes.fromhex(text)) for _, u, text in rows if text}
    over = {int(u) for word, u, _ in rows if word == "over"}

    def keep(word, user, ticket):
        os.write(file, f"{word} {user} {ticket.to_bytes().hex()}\n".encode())  # whole, or not
        return ticket

    with Journal(QuickStore(path)) as journal:
        stream = journal.open("offers", make)
        for number in set(stream.outstanding) - {ticket.number for ticket in known.values()}:
            stream.expire(number)

        def end(user, ticket):
            return commits.submit(
                stream.observe, reward(user, ticket.decision), ticket=ticket, person=name(user)
            )

        def visit(users):
            for user in users:
                ticket = known.get(user)
                if ticket is None:
                    _, ticket = commits.submit(stream.decide, CONTEXTS[user], ticket=True).result()
                    keep("ticket", user, ticket)
                end(user, ticket).result()
                keep("over", user, ticket)

        async def visit_too(user):
            ticket = known.get(user)
            if ticket is None:
                decided = commits.submit(stream.decide, CONTEXTS[user], ticket=True)
                _, ticket = await asyncio.wrap_future(decided)
                keep("ticket", user, ticket)
            await asyncio.wrap_future(end(user, ticket))
            keep("over", user, ticket)

        async def together(users):
            await asyncio.gather(*map(visit_too, users))

        left = [user for user in range(USERS) if user not in over]
        with GroupCommitExecutor(journal, together=5, linger=0.001) as commits:
            threads = [
                threading.Thread(target=visit, args=[left[at :: 2 * THREADS]])
                for at in range(THREADS)
            ]
            for thread in threads:
                thread.start()
            for at in range(THREADS, 2 * THREADS):
                asyncio.run(together(left[at :: 2 * THREADS]))
            for thread in threads:
                thread.join()
        return stream._learner._engine.state() if stream.round else b""
