"""What a request may hold: everything that can fail is refused before a decision is drawn."""

from __future__ import annotations

import asyncio

import pytest
from tests.serve.conftest import CONTEXT

VISIT = {"user": "ann", "context": CONTEXT}


def bodies(field):
    """Return bodies that are no request, and the status of each."""
    return [
        (b"", 400), (b"{", 400), (b"\xff", 400), (b'{"user": "\xed\xa0\x80"}', 400),
        (b"[" * 60_000, 400), (b'{"user":' * 5_000, 400), (b"null", 422), (b"[]", 422),
        (b'{"user": "ann", "user": "bob", "context": [0.5, 0.25]}', 400),
        (b'{"user": "ann", "context": [0.5, NaN]}', 400),
        (b'{"user": "ann", "context": [0.5, -Infinity]}', 400),
        ({}, 422), ({"user": "secret"}, 422), ({**VISIT, "context": [0.123456]}, 422),
        ({**VISIT, "context": [0.123456] * 3}, 422), ({**VISIT, "context": ["secret", 1]}, 422),
        ({**VISIT, "context": [True, 0.123456]}, 422), ({**VISIT, "context": None}, 422),
        ({**VISIT, "context": {"0": 0.123456}}, 422), ({**VISIT, "user": ""}, 422),
        ({**VISIT, "user": 7}, 422), ({**VISIT, "user": "secret" * 40}, 422),
        (b'{"user": "\\ud800", "context": [0.5, 0.25]}', 422),
        (b'{"user": "a\\udfff", "context": [0.5, 0.25]}', 422),
        (b'{"user": "a", "context": [0.5, 0.25], "request": "\\ud800"}', 422),
        ({**VISIT, "request": ""}, 422), ({**VISIT, "request": 5}, 422),
        ({**VISIT, "secret": 0.123456}, 422), (b" " * 70_000, 413),
    ]  # fmt: skip


def test_what_is_no_visit_draws_nothing_and_is_quoted_nowhere(play):
    """Over a second: it loads SciPy. The old service drew for a surrogate and answered 400."""

    async def script(ask):
        for body, status in bodies("user"):
            answer = await ask("POST", "/decisions", body)
            assert answer.status_code == status, body[:80] if isinstance(body, bytes) else body
            assert "secret" not in answer.text
            assert "0.123456" not in answer.text
        assert await ask.waiting() == 0
        assert ask.service._stream.outstanding == ()
        assert ask.service.failures == 0

    play(script, public=True)


def test_errors_name_the_field(play):
    async def script(ask):
        for body, expected in (
            ({"user": "ann"}, "context: Field required"),
            ({**VISIT, "context": [0.5, "x"]}, "context.1: Input should be a valid number"),
            ({**VISIT, "user": 5}, "user: Input should be a valid string"),
            (b'{"user": "\\ud800", "context": [0, 0]}', "user: Input should be a text"),
            ({"context": CONTEXT}, "user: Field required"),
        ):
            answer = await ask("POST", "/decisions", body)
            assert answer.json()["error"].startswith(expected)
        answer = await ask("POST", "/rewards", {"ticket": "x", "reward": "1"})
        assert answer.json()["error"].startswith("reward: ")

    play(script, public=True)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 400, "1" * 5000, "1e308"])
def test_numbers_beyond_doubles_are_values_and_count_as_missing(play, number):
    async def script(ask):
        body = b'{"user": "ann", "context": [%b, 0]}' % number.encode()
        answer = await ask("POST", "/decisions", body)
        assert answer.status_code == 200
        ticket = answer.json()["ticket"]
        body = b'{"ticket": "%b", "reward": %b}' % (ticket.encode(), number.encode())
        assert (await ask("POST", "/rewards", body)).status_code == 200
        assert (await ask("POST", "/rewards", body)).status_code == 200  # again
        entry = ask.service._names[ticket]
        await ask.service._end([entry])
        assert await ask.waiting() == 0

    play(script, public=True)


def test_a_page_elsewhere_cannot_send_a_request_without_asking(play):
    async def script(ask):
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            headers = {"Content-Type": kind}
            answer = await ask("POST", "/decisions", b"{}", headers=headers)
            assert answer.status_code == 415
        for method, path, status in (
            ("GET", "/nowhere", 404), ("GET", "/decisions", 405), ("DELETE", "/users/ann", 404),
        ):  # fmt: skip
            answer = await ask(method, path)
            assert answer.status_code == status
            assert list(answer.json()) == ["error"]

    play(script, public=True)


def test_types_have_no_case_and_bodies_may_begin_with_a_mark(play):
    async def script(ask):
        body = b'\xef\xbb\xbf{"user": "ann", "context": [0.6, 0.8]}'
        headers = {"Content-Type": "Application/JSON; Charset=UTF-8"}
        answer = await ask("POST", "/decisions", body, headers=headers)
        assert answer.status_code == 200, answer.text

    play(script, public=True)


def test_a_request_with_two_lengths_is_refused_whoever_reads_it(play):
    async def script(ask):
        for extra in (
            [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")],
            [(b"content-length", b"5"), (b"content-length", b"6")],
            [(b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"identity")],
        ):
            sent = []
            scope = {
                "type": "http", "method": "GET", "path": "/healthz", "headers": extra,
                "query_string": b"", "root_path": "", "http_version": "1.1", "scheme": "http",
            }  # fmt: skip

            async def receive():
                raise AssertionError  # pragma: no cover

            async def send(message, sent=sent):
                sent.append(message)

            await ask._http._transport.app(scope, receive, send)
            assert sent[0]["status"] == 400
            assert (b"connection", b"close") in sent[0]["headers"]

    play(script, public=True)


def test_a_client_that_goes_away_leaves_nothing_half_done(play):
    """Cut off while its decision is drawn, it finds the same one under its request's name."""

    async def script(ask):
        asked = {**VISIT, "request": "r1"}
        cut = asyncio.create_task(ask.service.decide("ann", CONTEXT, "r1"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        cut.cancel()
        again = await asyncio.gather(*[ask("POST", "/decisions", asked) for _ in range(5)])
        assert {answer.status_code for answer in again} == {200}
        assert len({answer.text for answer in again}) == 1
        assert await ask.waiting() == 1
        assert len(ask.service._stream.outstanding) == 1
        other = await ask("POST", "/decisions", {**asked, "context": [0.0, 0.0]})
        assert other.status_code == 409
        mine = await ask("POST", "/decisions", {**asked, "user": "bob"})  # names are a user's own
        assert mine.status_code == 200
        assert mine.text != again[0].text
        play.answer = again[0].text

    async def after_a_restart(ask):
        answer = await ask("POST", "/decisions", {**VISIT, "request": "r1"})
        assert answer.text == play.answer
        assert await ask.waiting() == 2

    play(script, public=True)
    play(after_a_restart, public=True)
