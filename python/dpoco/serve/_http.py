"""How uvicorn serves: limits for clients that are silent, slow or many, and an end in time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpoco.serve._app import make_app
from dpoco.serve._config import Settings
from dpoco.serve._service import open_service
from dpoco.serve._tokens import Tokens

_BACKLOG = 1024  # connections that wait to be accepted
_AT_ONCE = 16  # connections that the event loop accepts in one turn
# Descriptors of databases, logs and libraries, and of connections that were accepted or aborted
# some turns of the loop ago and are not made or closed yet.
_OTHER_FILES = 64 + 8 * _AT_ONCE
_IDLE, _GRACE = 5, 5  # seconds: of a connection between requests; for answers at the end
_INTERVAL = 0.0005  # seconds: commits are played next to the loop, and neither waits for long


class _Config(uvicorn.Config):
    """Uvicorn's settings, and those of `_Connection`.

    Parameters
    ----------
    app : ASGI application
    settings : Settings
        Their limits are taken.
    report : callable
        Takes errors that have no request.
    """

    def __init__(
        self, app: ASGIApp, settings: Settings, report: Callable[[BaseException], None]
    ) -> None:
        super().__init__(
            app, http=_Connection, ws="none", loop="asyncio", lifespan="on", log_config=None,
            log_level="critical", access_log=False, proxy_headers=False, server_header=False,
            backlog=_AT_ONCE, timeout_keep_alive=_IDLE, timeout_graceful_shutdown=_GRACE,
        )  # fmt: skip
        self.report = report
        self.client_seconds = settings.limits.client_seconds
        self.most = _connections(settings.limits.connections)
        # The connections whose client has to send or to read something, the longest wait first.
        self.waiting: dict[_Connection, None] = {}


class _Connection(H11Protocol):
    """A connection with a deadline for its client, which gives way to newer ones.

    Without a deadline, a client that sends a byte now and then would hold a connection for hours.
    If all connections are taken, the one whose client has kept the service waiting longest is
    closed. A connection that waits for the disk is not closed.
    """

    config: _Config
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()
        if len(self.connections) > self.config.most:
            oldest = next(iter(self.config.waiting))
            del self.config.waiting[oldest]
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        self._begin()
        super().on_response_complete()
        self._look()  # the next request may have come with the last one

    def connection_lost(self, exc: Exception | None) -> None:
        self.config.waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _begin(self, *, waiting: bool = True) -> None:
        """Begin to wait for the client, or to answer; neither may take longer than its time."""
        if waiting:
            self.config.waiting[self] = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self.config.client_seconds, self.transport.abort)

    def _look(self) -> None:
        """See whether the client has sent a whole request."""
        cycle = self.cycle
        if self in self.config.waiting and not (
            cycle is None or cycle.more_body or cycle.response_complete
        ):
            del self.config.waiting[self]
            self._begin(waiting=False)


class _Server(uvicorn.Server):
    """Reports the event loop's errors, in one line."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        report = self.config.report  # type: ignore[attr-defined]
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: report(context.get("exception") or RuntimeError())
        )
        await super().startup(sockets)
        for listener in sockets or ():  # uvicorn has one number for both
            listener.listen(_BACKLOG)


def _connections(most: int) -> int:
    """Return how many connections there may be, with as many descriptors as the system gives."""
    if sys.platform == "win32":
        return most
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + _OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(min(most, soft - _OTHER_FILES), 8)


def run(
    settings: Settings, host: str, port: int, *, public: bool, listening: Callable[[int], None]
) -> None:
    """Serve until SIGTERM or SIGINT, in the main thread of a process that does nothing else.

    It raises the limit on open files as far as needed, and switches between threads more often.

    Parameters
    ----------
    settings : Settings
        The settings of the file.
    host, port : str, int
        Where; port 0 is any that is free.
    public : bool
        Whether callers without a token are answered.
    listening : callable
        Called with the port.

    Raises
    ------
    JournalFenced
        If another process has taken the journal over.
    StateError, OSError, ValueError
        As `open_service`, and if the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The port comes first: if it is taken, another service runs, and must keep its journal.
    with (
        socket.create_server((host, port), family=family, backlog=_BACKLOG) as listener,
        open_service(settings) as (service, rows),
    ):
        app = make_app(service, Tokens(rows), public=public)
        server = _Server(_Config(app, settings, service.report))

        def stop(*_: object) -> None:
            server.should_exit = True

        service.stop = stop
        with _signals(stop):
            listening(listener.getsockname()[1])
            sys.setswitchinterval(_INTERVAL)
            gc.freeze()  # what is there by now stays, and is not looked through again and again
            server.run(sockets=[listener])
        if service.fenced is not None:
            raise service.fenced


@contextlib.contextmanager
def _signals(stop: Callable[..., None]) -> Iterator[None]:
    """Take the signals that uvicorn raises again after its end, so that the exit code is 0."""
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(name, stop) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
