"""Who may ask: tokens bound to users, kept as digests, and rotated by making another one."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import NamedTuple

from dpoco.serve._config import Settings, folder_and_key
from dpoco.serve._rows import Rows, open_rows

LONGEST_NAME = 200
_SECRET = 32  # bytes, so that a plain digest cannot be searched


class Caller(NamedTuple):
    """Whom a token is bound to.

    Attributes
    ----------
    name : str
        Name of the user or operator.
    operator : bool
        Whether the caller acts for all users.
    """

    name: str
    operator: bool


@dataclass(frozen=True)
class _Token:
    """Stored fields of a token.

    Attributes
    ----------
    name, operator
        As for `Caller`.
    digest : str
        SHA-256 of the secret, hexadecimal.
    until : float or None
        When it ends, in seconds since 1970; None: never.
    """

    name: str
    operator: bool
    digest: str
    until: float | None

    def is_valid(self, now: float) -> bool:
        """Return whether the token is still valid."""
        return self.until is None or now < self.until

    def is_for(self, name: str, operator: bool) -> bool:
        """Return whether the token has this name and role: users and operators may share a name."""
        return (self.name, self.operator) == (name, operator)


class Tokens:
    """The tokens of a service.

    A token is ``NUMBER.SECRET``. The number finds its row; the secret's SHA-256 is compared in
    constant time. Secrets are random, so their digests need no salt and no slow hash.

    Parameters
    ----------
    rows : Rows
        Where they are kept; another process may write there at the same time.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._version = -1
        self._known: dict[int, _Token] = {}

    def create(self, name: str, *, operator: bool = False, overlap: float = 0.0) -> str:
        """Return a new token, which is shown this once: only its digest is kept.

        Parameters
        ----------
        name : str
            Name of the user or operator.
        operator : bool
            Whether the name is an operator's.
        overlap : float
            Seconds for which older tokens of this name stay valid, so that clients can change.

        Raises
        ------
        ValueError
            If the name is empty, longer than 200 characters, or no text.
        OSError
            If the database cannot be written; then no token has changed.
        """
        if not 0 < len(name) <= LONGEST_NAME or not is_text(name):
            raise ValueError(f"a name must be a text of 1 to {LONGEST_NAME} characters")
        known, now = self._read(), time.time()
        older = {
            number: asdict(each) | {"until": now + overlap}
            for number, each in known.items()
            if each.is_for(name, operator) and each.is_valid(now + overlap)
        }
        gone = [number for number, each in known.items() if not each.is_valid(now)]
        # 62 bits fit into SQLite's integers, which have a sign.
        number, secret = secrets.randbits(62), secrets.token_urlsafe(_SECRET)
        fresh = _Token(name, operator, _digest(secret), None)
        # One transaction writes the new row and the ends of older ones; ended rows go later. So a
        # user is never without a token.
        self._rows.put("token", {**older, number: asdict(fresh)}.items())
        self._rows.drop("token", gone)
        # SQLite's version counts only the writes of other connections.
        self._version = -1
        return f"{number}.{secret}"

    def revoke(self, name: str, *, operator: bool = False) -> int:
        """End all tokens of a name at once, and return how many these were."""
        gone = [n for n, each in self._read().items() if each.is_for(name, operator)]
        self._rows.drop("token", gone, trace=False)
        self._version = -1
        return len(gone)

    def find(self, token: str) -> Caller | None:
        """Return the caller that a token is bound to; None if it is invalid, revoked, or over.

        The time that this takes depends on the token's length and on whether tokens were made
        meanwhile, and on no secret.
        """
        number, _, secret = token.partition(".")
        try:
            each = self._read().get(int(number))
        except ValueError:
            return None
        # The digest is computed for an unknown number too, so that the time does not reveal it.
        digest = _digest(secret)
        if each is None or not hmac.compare_digest(digest, each.digest):
            return None
        return Caller(each.name, each.operator) if each.is_valid(time.time()) else None

    def _read(self) -> dict[int, _Token]:
        """Return all tokens by number, read again if another process has written."""
        version = self._rows.version
        if version != self._version:
            self._known = {number: _Token(**row) for number, row in self._rows.all("token")}
            self._version = version
        return self._known


@contextmanager
def open_tokens(settings: Settings) -> Iterator[Tokens]:
    """Open the tokens of a service, whether it runs or not."""
    store = settings.store
    with open_rows(store.folder, folder_and_key(store)) as rows:
        yield Tokens(rows)


def is_text(name: str) -> bool:
    """Return whether a name can be written as UTF-8: half a surrogate pair cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _digest(secret: str) -> str:
    """Return the SHA-256 of a secret, hexadecimal; whatever a client sends has one."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
