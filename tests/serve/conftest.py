"""A service in this process, asked without sockets, and one in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from http.client import HTTPConnection

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("pydantic")
httpx = pytest.importorskip("httpx")

from dpoco import serve  # noqa: E402

CONTEXT = [0.5, 0.25]


def configuration(**changes):
    """Return what a file says; `changes` are tables, or keys of `bandit`."""
    bandit = {
        "arms": 3, "dimension": 2, "horizon": 2000, "epsilon": 20.0, "delta": 1e-6,
        "rounds_per_person": 5, "context_bound": 1.0, "reward_bound": 1.0,
        "feedback_seconds": 3600.0,
    }  # fmt: skip
    store = {"folder": "data", "mark": "elsewhere/mark", "durability": "process"}
    record = {"bandit": bandit, "store": store, "limits": {}}
    for key, value in changes.items():
        table = value if key in record else {key: value}
        record[key if key in record else "bandit"].update(table)
    return record


class Client:
    """Asks a service; without a token unless one is given."""

    def __init__(self, app, service, tokens):
        self.service, self.tokens = service, tokens
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://test")

    async def __call__(self, method, path, record=None, token=None, **more):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        headers |= more.pop("headers", {})
        if isinstance(record, bytes):
            more["content"] = record
            headers.setdefault("Content-Type", "application/json")
        elif record is not None:
            more["json"] = record
        return await self._http.request(method, path, headers=headers, **more)

    async def waiting(self):
        return (await self.service.numbers())["waiting"]

    async def until_rounds(self, count):
        for _ in range(2000):
            if (await self.service.numbers())["rounds"] == count:
                return
            await asyncio.sleep(0.005)
        raise AssertionError


@pytest.fixture
def play(tmp_path):
    """Run a coroutine function that gets a client of a service in this process."""

    @asynccontextmanager
    async def turning(service):
        turns = asyncio.create_task(service.take_turns())
        try:
            yield
        finally:
            await service.close(turns)

    def run(script, *, public=False, **changes):
        settings = serve.Settings.read(configuration(**changes), tmp_path / "bandit.toml")
        with serve.open_service(settings) as (service, rows):
            tokens = serve.Tokens(rows)
            app = serve.make_app(service, tokens, public=public)

            async def main():
                async with turning(service):
                    await script(Client(app, service, tokens))

            asyncio.run(main())

    run.folder = tmp_path
    return run


@contextmanager
def process(folder, *options, files=None, **changes):
    """Start ``dpoco serve`` on a port of its own, and yield the process."""
    file = folder / "bandit.json"  # TOML needs Python 3.11
    file.write_text(json.dumps(configuration(**changes)))
    command = [sys.executable, "-m", "dpoco", "serve", str(file), "--port", "0"]

    def few_files():
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=few_files if files else None, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    ) as running:  # fmt: skip
        try:
            line = running.stdout.readline()
            assert line, running.stderr.read()
            running.port = int(line.rpartition(":")[2])
            yield running
        finally:
            running.kill()


def call(running, method, path, record=None):
    """Ask a process on a connection of its own."""
    connection = HTTPConnection("127.0.0.1", running.port, timeout=60)
    try:
        body = None if record is None else json.dumps(record)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            data = answer.read()
            return answer.status, json.loads(data) if path != "/metrics" else data.decode()
    finally:
        connection.close()


def end(running):
    """Tell a process to end, and return its code and what it complained of."""
    running.send_signal(signal.SIGTERM)
    return running.wait(30), running.stderr.read()
