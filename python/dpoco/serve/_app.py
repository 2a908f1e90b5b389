"""The pages: which there are, who may ask for them, and how an error is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic.json_schema import models_json_schema
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import dpoco
from dpoco._validation import Fields
from dpoco.serve import _messages as messages
from dpoco.serve._messages import BadRequest, Message
from dpoco.serve._service import Refused, Service
from dpoco.serve._tokens import Caller, Tokens

_STATUS = {"busy": 503, "conflict": 409, "ended": 410, "late": 404, "limit": 429, "rate": 429}
_REASONS = {
    400: "The body is no JSON.", 401: "There is no valid token.",
    403: "The token is another user's.", 404: "There is no such page, or no such ticket.",
    409: "It came otherwise before.",
    410: "All decisions are made.", 413: "The body is too long.", 415: "The body must be JSON.",
    422: "The body is not as its schema says.", 429: "A user's limit is reached.",
    503: "Try again later; nothing was released.",
}  # fmt: skip
_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_CLOSE = {"Connection": "close"}  # the service does not read what else the client has sent

Answer = Fields | Response
Access = Literal["all", "token", "operator"]


@dataclass(frozen=True)
class Page:
    """A method and a path, and how requests to it are answered.

    Attributes
    ----------
    method, path : str
        "GET" or "POST", and the path without a server.
    access : {"all", "token", "operator"}
        Who may ask: anyone; a user or operator (in a public service anyone); an operator alone.
    summary : str
        One line for the description.
    answer : callable
        From the message of the body and the caller, each None if there is none, to the answer.
    takes : class, optional
        The message in the body; None: the body is not read.
    gives : class, optional
        The message of the answer; None: any JSON, or a text.
    media : str
        Type of the answer.
    refusals : tuple of int
        Statuses of the errors that only this page has.
    """

    method: str
    path: str
    access: Access
    summary: str
    answer: Callable[[Any, Caller | None], Awaitable[Answer]]
    takes: type[Message] | None = None
    gives: type[Message] | None = None
    media: str = "application/json"
    refusals: tuple[int, ...] = ()

    @property
    def statuses(self) -> list[int]:
        """All statuses of errors: the page's own, of bodies, and of tokens, increasing."""
        body = (400, 413, 415, 422, 429) if self.takes else ()
        return sorted({*body, *(() if self.access == "all" else (401, 403)), *self.refusals})


class Pages:
    """The answers to requests, which a `Service` has.

    Parameters
    ----------
    service : Service
        Does what is asked for.
    tokens : Tokens
        Who may ask.
    public : bool
        Whether clients without a token may ask; the user's name is then not verified.

    Attributes
    ----------
    all : list of Page
        The pages, in the order of the description.

    Notes
    -----
    Methods raise `BadRequest`, `Refused` and `HTTPException`, which `route` turns into statuses. No
    status and no text depends on a context or a reward.
    """

    def __init__(self, service: Service, tokens: Tokens, public: bool) -> None:
        self.service, self.tokens, self.public = service, tokens, public
        ask = messages.ask_decision_type(service.settings.bandit.dimension)
        self.all = [
            Page("POST", "/decisions", "token", "Decide for a user's context.", self.decide,
                 ask, messages.Decision, refusals=(409, 410, 503)),
            Page("POST", "/rewards", "token", "Bring the reward of a decision.", self.reward,
                 messages.BringReward, messages.Done, refusals=(404, 409, 503)),
            Page("POST", "/deletions", "token", "Delete what waits for a user.", self.delete,
                 messages.AskDeletion, messages.Deleted, refusals=(503,)),
            Page("GET", "/guarantee", "all", "What is promised.", self.guarantee),
            Page("GET", "/metrics", "operator", "Public numbers.", self.metrics, media=_METRICS),
            Page("GET", "/healthz", "all", "Whether the service is ready.", self.ready,
                 gives=messages.Health, refusals=(503,)),
            Page("GET", "/healthz/live", "all", "Whether the process is alive.", self.live,
                 gives=messages.Done),
            Page("GET", "/openapi.json", "all", "This description.", self.describe),
        ]  # fmt: skip
        self._description = description(self.all)

    async def decide(self, asked: messages.AskDecision, caller: Caller | None) -> Answer:
        """Answer POST /decisions: an arm for the context, and the ticket for its reward.

        Nothing is drawn until the user's limits are known to allow it; the answer is sent once the
        decision is on the disk.
        """
        user = self._user(asked.user, caller)
        self.service.count_request(user)
        entry = await self.service.decide(user, asked.context, asked.request)
        return {"arm": entry.arm, "ticket": entry.name}

    async def reward(self, asked: messages.BringReward, caller: Caller | None) -> Answer:
        """Answer POST /rewards: keep the reward of a ticket until its turn.

        A user may bring rewards only for the user's own tickets. An operator, and the callers of a
        public service, may bring rewards for any ticket whose name they know.
        """
        # An operator brings rewards of many users, which do not count as requests of one user.
        user = None if caller is None or caller.operator else caller.name
        if user is not None:
            self.service.count_request(user)
        await self.service.reward(asked.ticket, asked.reward, user)
        return {}

    async def delete(self, asked: messages.AskDeletion, caller: Caller | None) -> Answer:
        """Answer POST /deletions: end all rounds of a user that wait, empty.

        It wants a token even from a public service's callers: others could delete for anyone.
        """
        if caller is None:
            raise HTTPException(401)
        user = self._user(asked.user, caller)
        self.service.count_request(user)
        return {"rounds": await self.service.delete(user)}

    async def guarantee(self, _: None, caller: Caller | None) -> Answer:
        """Answer GET /guarantee: the certificate, as ``dpoco verify`` reads it."""
        return self.service.guarantee.to_dict()

    async def metrics(self, _: None, caller: Caller | None) -> Answer:
        """Answer GET /metrics, in the text format of OpenMetrics 1.0.

        Visits and turns alone fix all numbers. The number of rewards that came would depend on the
        data, and is not among them.
        """
        numbers = await self.service.numbers()
        rows = [
            ("rounds", "counter", "Rounds played.", numbers["rounds"]),
            ("failures", "counter", "Failures of the disk.", self.service.failures),
            ("tickets_waiting", "gauge", "Tickets before their turn.", numbers["waiting"]),
            ("horizon_rounds", "gauge", "Rounds that there are.", numbers["horizon"]),
            ("budget_spent_ratio", "gauge", "Share of the budget.", numbers["spent"]),
            ("epsilon", "gauge", "Epsilon of a person.", numbers["epsilon"]),
            ("delta", "gauge", "Delta of a person.", numbers["delta"]),
        ]
        lines = [
            f"# TYPE dpoco_{name} {kind}\n# HELP dpoco_{name} {text}\n"
            f"dpoco_{name}{'_total' if kind == 'counter' else ''} {value}\n"
            for name, kind, text, value in rows
        ]
        return Response("".join([*lines, "# EOF\n"]), media_type=_METRICS)

    async def ready(self, _: None, caller: Caller | None) -> Answer:
        """Answer GET /healthz: 503 for some seconds after a failure, for load balancers."""
        ready = not self.service.is_failing
        return JSONResponse({"ready": ready}, status_code=200 if ready else 503)

    async def live(self, _: None, caller: Caller | None) -> Answer:
        """Answer GET /healthz/live: 200, unless the process is to be restarted."""
        return {}

    async def describe(self, _: None, caller: Caller | None) -> Answer:
        """Answer GET /openapi.json."""
        return self._description

    def _user(self, asked: str | None, caller: Caller | None) -> str:
        """Return for whom a caller acts.

        Raises
        ------
        HTTPException
            403 for the name of another user.
        BadRequest
            If an operator, or a caller without a token, names no one.
        """
        if caller is not None and not caller.operator:
            if asked not in (None, caller.name):
                raise HTTPException(403)
            return caller.name
        if asked is None:
            raise BadRequest("user: Field required")
        return asked

    def caller(self, request: Request, access: Access) -> Caller | None:
        """Return who asks, by the token of the request; None for a caller without one.

        Raises
        ------
        HTTPException
            401 without a valid token where one is needed, 403 for a user's token where only an
            operator may ask.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not scheme and (self.public or access == "all"):
            return None
        found = self.tokens.find(token.strip()) if scheme.lower() == "bearer" else None
        # A wrong token does no harm where none is needed.
        if found is None and access != "all":
            raise HTTPException(401)
        if found is not None and access == "operator" and not found.operator:
            raise HTTPException(403)
        return found

    def route(self, page: Page) -> Route:
        """Return the route of a page, which turns its errors into answers."""
        limit = self.service.settings.limits.body_bytes

        async def endpoint(request: Request) -> Response:
            try:
                caller = self.caller(request, page.access)
                asked = None
                if page.takes is not None:
                    asked = messages.parse(await _body(request, limit), page.takes)
                answer = await page.answer(asked, caller)
            except BadRequest as error:
                return _failure(error.status, str(error))
            except Refused as error:
                return _failure(_STATUS[error.kind], str(error))
            except ClientDisconnect:
                return Response(status_code=400)  # no client reads it
            # `_refuse` answers it.
            except HTTPException:
                raise
            except Exception as error:  # the disk is full, say: nothing was released
                self.service.report(error)
                return _failure(503, _REASONS[503])
            return answer if isinstance(answer, Response) else JSONResponse(answer)

        return Route(page.path, endpoint, methods=[page.method])


def make_app(service: Service, tokens: Tokens, *, public: bool = False) -> ASGIApp:
    """Return the ASGI application of a service; its lifespan takes the tickets' turns.

    Parameters
    ----------
    service : Service
        From `open_service`; its caller keeps it open.
    tokens : Tokens
        Who may ask.
    public : bool, default False
        Whether those without a token may as well. Keyword-only.

    Returns
    -------
    ASGI application
        For one process and one event loop: a second process would take the journal over.
    """
    pages = Pages(service, tokens, public)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        turns = asyncio.create_task(service.take_turns())
        try:
            yield
        finally:
            await service.close(turns)

    app = Starlette(
        routes=[pages.route(page) for page in pages.all],
        exception_handlers={HTTPException: cast(Any, _refuse)},
        lifespan=lifespan,
    )
    return _LengthCheck(app)


class _LengthCheck:
    """Refuses requests with two lengths, which a proxy in front may have read as two requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            names = [name for name, _ in scope["headers"]]
            if names.count(b"content-length") + names.count(b"transfer-encoding") > 1:
                answer = _failure(400, "the request has two lengths", _CLOSE)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _body(request: Request, limit: int) -> bytes:
    """Return the body of a request; 415 unless it is declared as JSON, 413 beyond `limit` bytes."""
    # Types have no case; parameters such as a charset do not matter, since JSON is UTF-8.
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415)  # and no web page elsewhere can send it without asking
    # The bytes are counted as they come: a length in a header may be false or missing.
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise HTTPException(413)
    return bytes(body)


def _failure(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error as JSON, with the headers that HTTP wants for its status."""
    own = dict(headers or {})
    if status == 401:
        own["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        own["Retry-After"] = "1"
    return JSONResponse({"error": reason}, status_code=status, headers=own)


async def _refuse(_: Request, error: HTTPException) -> Response:
    """Answer errors of routing, of tokens and of bodies."""
    reason = _REASONS.get(error.status_code, error.detail)  # Starlette's are fixed texts
    # The body was not read to its end: the connection can carry no further request.
    close = _CLOSE if error.status_code in (413, 415) else {}
    return _failure(error.status_code, reason, {**(error.headers or {}), **close})


def description(pages: list[Page]) -> Fields:
    """Return the OpenAPI 3.1 description of pages.

    Parameters
    ----------
    pages : list of Page
        In the order in which they are described.

    Returns
    -------
    dict
        JSON-able. Its schemas are those with which bodies are checked.
    """
    kinds = {kind for page in pages for kind in (page.takes, page.gives)} | {messages.Failure}
    _, schemas = models_json_schema(
        [(kind, "validation") for kind in kinds if kind is not None],
        ref_template="#/components/schemas/{model}",
    )
    paths: Fields = {}
    for page in pages:
        operation: Fields = {
            "operationId": page.answer.__name__,
            "summary": page.summary,
            "responses": {
                "200": {"description": "Done.", "content": {page.media: _content(page)}},
                **{str(status): _error(page, status) for status in page.statuses},
            },
        }
        if page.takes is not None:
            content = {"application/json": {"schema": _reference(page.takes)}}
            operation["requestBody"] = {"required": True, "content": content}
        if page.access != "all":
            operation["security"] = [{"token": []}]
        paths.setdefault(page.path, {})[page.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "dpoco serve", "version": dpoco.__version__},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _reference(kind: type[Message]) -> dict[str, str]:
    """Return the place of a message's schema in the description."""
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _content(page: Page) -> Fields:
    """Return the description of a page's answer."""
    if page.gives is not None:
        return {"schema": _reference(page.gives)}
    return {"schema": {"type": "object" if page.media == "application/json" else "string"}}


def _error(page: Page, status: int) -> Fields:
    """Return the description of an error of a page."""
    kind = messages.Health if page.gives is messages.Health else messages.Failure
    content = {"application/json": {"schema": _reference(kind)}}
    return {"description": _REASONS[status], "content": content}
