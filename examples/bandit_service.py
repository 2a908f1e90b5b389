"""A private bandit behind HTTP: many users in flight, late rewards, and a kill at any moment.

Usage: python examples/bandit_service.py FOLDER [--port N] [--delay SECONDS] [--durability disk]
  POST   /decisions       {"user": name, "context": [8 numbers]} -> {"arm": a, "ticket": id}
  POST   /rewards         {"ticket": id, "reward": y}, once, before the ticket's turn
  DELETE /users/NAME      forget what waits for this user: the rounds end empty
  GET    /metrics         public numbers;    GET /guarantee   what is promised

Every ticket has its turn, `delay` seconds after its decision: its round is played then, with the
reward that has come, or an empty one. So neither the order of rounds nor their number tells
whether, or how soon, somebody answered. Standard library only. In front: a proxy that encrypts
and knows its callers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import queue
import secrets
import signal
import sqlite3
import sys
import time
import urllib.parse
from pathlib import Path
from typing import Any

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.journal import GroupCommitExecutor, Journal, SqliteStore

ARMS, FEATURES, BUDGET = 5, 8, dpoco.Budget(epsilon=4.0, delta=1e-6)
PEOPLE = dpoco.Participation(rounds=20, separation=1)  # of a user; further visits teach nothing
LEDGER = Ledger(BUDGET, view="others")  # what all others see of a user: her own arm is for her
LARGEST, IDLE, STEP = 2**16, 60.0, 0.02  # bytes of a request; seconds
Answer = tuple[int, Any]
Row = tuple[int, str, bytes, float | None]  # number, user, ticket, reward


def make() -> dpoco.bandits.LinUCB:  # of a new journal; an old one goes on
    return dpoco.bandits.LinUCB(
        ARMS,
        FEATURES,
        horizon=1_000_000,
        budget=BUDGET,
        participation=PEOPLE,
        context_bound=1.0,
        reward_bound=1.0,
    )


class Waiting:
    """Tickets that wait for their turn, in a database that outlives a killed process."""

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # contexts and names: secret
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # A killed process loses nothing; a power cut may lose the last rewards, and never privacy.
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON",
                       "wal_autocheckpoint = 20000"):  # fmt: skip
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS waiting (number INTEGER PRIMARY KEY, id TEXT UNIQUE, "
            "turn REAL, user TEXT, ticket BLOB, reward REAL)"
        )
        self._db.execute("CREATE INDEX IF NOT EXISTS users ON waiting (user)")

    def numbers(self) -> set[int]:
        return {number for (number,) in self._db.execute("SELECT number FROM waiting")}

    def add(self, ticket: dpoco.Ticket, user: str, turn: float) -> str:
        name = secrets.token_hex(12)
        row = (ticket.number, name, turn, user, ticket.to_bytes())
        self._db.execute("INSERT INTO waiting VALUES (?, ?, ?, ?, ?, NULL)", row)
        return name

    def reward(self, name: str, value: float) -> Answer:
        found = self._db.execute(
            "SELECT reward FROM waiting WHERE id = ? AND turn > ?", (name, time.time())
        ).fetchone()
        if found is None:
            return 410, {"error": "the ticket's turn is over, or there is none"}
        if found[0] not in (None, value):
            return 409, {"error": "the ticket has another reward"}
        self._db.execute("UPDATE waiting SET reward = ? WHERE id = ?", (value, name))
        return 200, {}

    def due(self) -> list[Row]:
        """Return those whose turn has come, in the order of their decisions."""
        return self._db.execute(
            "SELECT number, user, ticket, reward FROM waiting WHERE turn <= ? "
            "ORDER BY number LIMIT 256",
            (time.time(),),
        ).fetchall()

    def of(self, user: str) -> list[Row]:
        """Return those of a user, without their rewards."""
        return self._db.execute(
            "SELECT number, user, ticket, NULL FROM waiting WHERE user = ?", (user,)
        ).fetchall()

    def drop(self, numbers: list[int], *, trace: bool = True) -> None:
        """Delete rows; without a trace: from the log, too."""
        self._db.execute("BEGIN")
        self._db.executemany("DELETE FROM waiting WHERE number = ?", [(n,) for n in numbers])
        self._db.execute("COMMIT")
        if not trace:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._db.close()


class Service:
    def __init__(self, journal: Journal, waiting: Waiting, delay: float) -> None:
        self.journal, self.waiting, self.delay = journal, waiting, delay
        self.stream = journal.open("offers", make)
        # Tickets that a crash kept from being handed out: for a public reason, and nobody's.
        for number in set(self.stream.outstanding) - waiting.numbers():
            self.stream.expire(number)
        self.commits = GroupCommitExecutor(journal, linger=0.004)
        self.ending = asyncio.Lock()  # a ticket ends once: at its turn, or because it is forgotten

    async def call(self, method: Any, *arguments: Any, **more: Any) -> Any:
        return await asyncio.wrap_future(self.commits.submit(method, *arguments, **more))

    async def decide(self, record: Any) -> Answer:
        user, context = record["user"], record["context"]
        if not (isinstance(user, str) and 0 < len(user) <= 200):
            raise ValueError
        arm, ticket = await self.call(self.stream.decide, context, ticket=True)
        return 200, {"arm": arm, "ticket": self.waiting.add(ticket, user, time.time() + self.delay)}

    async def reward(self, record: Any) -> Answer:
        value = float(record["reward"])
        if not math.isfinite(value) or not isinstance(record["ticket"], str):
            raise ValueError
        return self.waiting.reward(record["ticket"], value)

    async def end(self, rows: list[Row], *, trace: bool = True) -> None:
        """Play the rounds of tickets in this order; sent again after a crash, they count once."""
        calls = []
        for _, user, data, reward in rows:
            ticket = dpoco.Ticket.from_bytes(data)
            if reward is None:
                calls.append(self.call(self.stream.skip, ticket=ticket, person=user))
            else:
                calls.append(self.call(self.stream.observe, reward, ticket=ticket, person=user))
        ended = await asyncio.gather(*calls, return_exceptions=True)
        over = (type(None), dpoco.ReplayMismatch)  # the latter: a power cut took the row's reward
        numbers = [row[0] for row, answer in zip(rows, ended, strict=True) if type(answer) in over]
        self.waiting.drop(numbers, trace=trace)
        if len(numbers) < len(rows):  # the disk is full, say: they stay, and are tried again
            raise next(answer for answer in ended if type(answer) not in over)

    async def take_turns(self) -> None:
        """End rounds at their turn, for ever."""
        while True:
            async with self.ending:
                try:
                    if rows := self.waiting.due():
                        await self.end(rows)
                except (OSError, dpoco.StateError, queue.Full):
                    await asyncio.sleep(1.0)
            await asyncio.sleep(STEP)

    async def forget(self, user: str) -> Answer:
        async with self.ending:
            rows = self.waiting.of(user)
            await self.end(rows, trace=False)
        return 200, {"forgotten": len(rows)}

    async def metrics(self) -> Answer:
        """Numbers that visits and turns alone fix; how many rewards came is private."""
        stream, journal = self.stream, self.journal
        facts = await asyncio.to_thread(
            lambda: (stream.round, len(stream.outstanding), journal.spent)
        )
        names = ("rounds_total", "tickets_waiting", "budget_spent_ratio")
        numbers = {**dict(zip(names, facts, strict=True)), "epsilon": stream.guarantee.epsilon}
        return 200, "".join(f"dpoco_{name} {value}\n" for name, value in numbers.items())

    async def reply(self, method: str, path: str, body: bytes) -> Answer:
        try:
            record = json.loads(body or b"null")
            match method, *path.strip("/").split("/"):
                case "POST", "decisions":
                    return await self.decide(record)
                case "POST", "rewards":
                    return await self.reward(record)
                case "DELETE", "users", name:
                    return await self.forget(urllib.parse.unquote(name, errors="strict"))
                case "GET", "metrics":
                    return await self.metrics()
                case "GET", "guarantee":
                    return 200, self.stream.guarantee.to_dict()
            return 404, {"error": "no such page"}
        except (LookupError, TypeError, ValueError, RecursionError):
            return 400, {"error": "not a record"}
        except dpoco.HorizonExceeded:
            return 410, {"error": "the service has made all its decisions"}
        except Exception as error:  # the disk is full, too many wait: nothing was released
            return 503, {"error": type(error).__name__}


class Server:
    """HTTP/1.1 with connections that are kept; logs nothing and quotes nothing."""

    def __init__(self, service: Service) -> None:
        self.service, self.ending, self.at_work = service, False, 0
        self.idle: set[asyncio.StreamWriter] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not self.ending:
                self.idle.add(writer)
                silent = asyncio.get_running_loop().call_later(IDLE, writer.transport.abort)
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                fields = dict(line.lower().split(":", 1) for line in head[1:] if line)
                length = int(fields.get("content-length", 0))
                if not 0 <= length <= LARGEST:
                    raise ValueError
                body = await reader.readexactly(length)
                silent.cancel()
                self.idle.discard(writer)
                self.at_work += 1
                try:
                    status, answer = await self.service.reply(method, path, body)
                    plain = isinstance(answer, str)
                    data = answer.encode() if plain else json.dumps(answer).encode()
                    kind = "text/plain; version=0.0.4" if plain else "application/json"
                    writer.write(
                        f"HTTP/1.1 {status} \r\nContent-Type: {kind}\r\n"
                        f"Content-Length: {len(data)}\r\n\r\n".encode()
                        + data
                    )
                    await writer.drain()
                finally:
                    self.at_work -= 1
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass  # gone, silent for too long, or no HTTP
        finally:
            self.idle.discard(writer)
            writer.close()


async def serve(folder: Path, port: int, delay: float, durability: str) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = SqliteStore(folder / "journal.db", durability=durability)
    waiting = Waiting(folder / "waiting.db")
    with Journal(store, ledger=LEDGER) as journal:
        service = Service(journal, waiting, delay)
        server = Server(service)
        listening = await asyncio.start_server(server.connected, "127.0.0.1", port, backlog=512)
        turns = asyncio.create_task(service.take_turns())
        stop = asyncio.create_task(asyncio.Event().wait())
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.cancel)
        print(f"port {listening.sockets[0].getsockname()[1]}", flush=True)
        await asyncio.wait((stop, turns), return_when=asyncio.FIRST_COMPLETED)
        server.ending = True
        listening.close()
        while server.at_work:  # what was asked is answered
            await asyncio.sleep(STEP)
        for writer in list(server.idle):
            writer.close()
        async with service.ending:
            turns.cancel()
        await asyncio.to_thread(service.commits.shutdown)
        waiting.close()
        await asyncio.gather(turns, return_exceptions=True)
        if not turns.cancelled():
            turns.result()  # another process has taken the journal over, say


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=60.0, help="seconds until a ticket's turn")
    parser.add_argument("--durability", choices=("disk", "process"), default="disk")
    options = parser.parse_args()
    sys.setswitchinterval(0.0005)  # commits are played beside the loop: neither waits for long
    asyncio.run(serve(**vars(options)))
