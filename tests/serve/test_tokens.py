"""Who may ask: tokens of users and of operators, kept as digests, rotated and revoked."""

from __future__ import annotations

import pytest
from tests.serve.conftest import CONTEXT, configuration

from dpoco import serve
from dpoco.serve import _tokens

VISIT = {"context": CONTEXT}


def test_no_token_no_access(play):
    async def script(ask):
        token = ask.tokens.create("ann")
        wrong = [None, "", "x", token[:-1], token + "A", f"1{token}", token.partition(".")[0]]
        wrong += [token.replace(".", ""), "\u0661.x", "9" * 5000 + ".x"]
        for bad in wrong:
            header = {} if bad is None else {"Authorization": f"Bearer {bad}".encode()}
            for path in ("/decisions", "/rewards", "/deletions"):
                answer = await ask("POST", path, b"not even JSON", headers=header)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
        answer = await ask("POST", "/decisions", VISIT, headers={"Authorization": f"Basic {token}"})
        assert answer.status_code == 401
        assert (await ask("GET", "/metrics")).status_code == 401
        assert (await ask("GET", "/metrics", token=token)).status_code == 403
        assert (await ask("POST", "/decisions", VISIT, token)).status_code == 200
        for open_page in ("/healthz", "/healthz/live", "/guarantee", "/openapi.json"):
            assert (await ask("GET", open_page)).status_code == 200

    play(script)


def test_a_user_acts_for_nobody_else(play):
    async def script(ask):
        ann, bob = ask.tokens.create("ann"), ask.tokens.create("bob")
        root = ask.tokens.create("root", operator=True)
        ticket = (await ask("POST", "/decisions", {"user": "ann", **VISIT}, ann)).json()["ticket"]
        paid = {"ticket": ticket, "reward": 1.0}
        for path, record, token, status in (
            ("/decisions", {"user": "ann", **VISIT}, bob, 403),
            ("/deletions", {"user": "ann"}, bob, 403),
            ("/deletions", {}, bob, 200),
            ("/rewards", paid, bob, 404),
            ("/decisions", VISIT, root, 422),
            ("/decisions", {"user": "cem", **VISIT}, root, 200),
            ("/rewards", paid, ann, 200),
            ("/rewards", paid, root, 200),
        ):
            assert (await ask("POST", path, record, token)).status_code == status, path
        assert await ask.waiting() == 2
        assert (await ask("POST", "/deletions", {"user": "ann"}, root)).json() == {"rounds": 1}
        assert (await ask("POST", "/deletions", {}, ann)).json() == {"rounds": 0}

    play(script)


def test_a_new_token_leaves_the_old_one_some_time(play, monkeypatch):
    async def script(ask):
        first = ask.tokens.create("ann")
        settings = serve.Settings.read(configuration(), play.folder / "bandit.toml")
        with serve.open_tokens(settings) as elsewhere:  # as another process does
            second = elsewhere.create("ann", overlap=100.0)
        for token in (first, second):
            assert (await ask("POST", "/deletions", {}, token)).status_code == 200
        now = _tokens.time.time()
        with monkeypatch.context() as later:
            later.setattr(_tokens.time, "time", lambda: now + 101.0)
            assert (await ask("POST", "/deletions", {}, first)).status_code == 401
            assert (await ask("POST", "/deletions", {}, second)).status_code == 200
        third = ask.tokens.create("ann", overlap=1000.0)
        with monkeypatch.context() as later:  # the first one's time was not prolonged
            later.setattr(_tokens.time, "time", lambda: now + 101.0)
            assert ask.tokens.find(first) is None
            assert ask.tokens.find(second) is not None
        root = ask.tokens.create("ann", operator=True)
        with serve.open_tokens(settings) as elsewhere:
            assert elsewhere.revoke("ann") == 3
        for token in (first, second, third):
            assert (await ask("POST", "/deletions", {}, token)).status_code == 401
        assert ask.tokens.find(root) == ("ann", True)
        files = b"".join(file.read_bytes() for file in (play.folder / "data").iterdir())
        for token in (first, root):
            assert token.partition(".")[2].encode() not in files

    play(script)


@pytest.mark.parametrize("name", ["", "x" * 201, "\ud800", "a\udcff"])
def test_what_is_no_name_gets_no_token(play, name):
    settings = serve.Settings.read(configuration(), play.folder / "bandit.toml")
    with serve.open_tokens(settings) as tokens, pytest.raises(ValueError, match="a name must be"):
        tokens.create(name)
