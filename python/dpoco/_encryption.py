"""Keys that encrypt stored data: state files, checkpoints and the rows of journals.

Claim: without the key, stored data only reveal their length and when they were written. What
`EncryptionKey.open` returns was sealed, unchanged, with one of its keys for the same context.

Layout: signature (7 bytes), format version (1), salt (32), mark of the key (16), ciphertext, tag
(16). Each piece is encrypted by AES-256-GCM with a separate key, which HKDF-SHA256 derives from the
given key and the random salt, so no nonce is ever used twice. The bytes before the ciphertext, and
the context, are authenticated with it. Sources: NIST SP 800-38D, RFC 5869. Page:
``docs/encryption.md``.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from dpoco._validation import import_package
from dpoco.errors import StateError

KEY_BYTES = 32
_SIGNATURE = b"dpocoen"
_VERSION = 1
_SALT, _MARK, _TAG = 32, 16, 16
_HEAD = len(_SIGNATURE) + 1 + _SALT + _MARK
_PIECE = 1 << 20  # bytes that are encrypted at once, so that a long state is not copied as a whole
_FEWEST = 16  # different bytes; random keys have fewer, or are text, with probability below 1e-9


class UnreadableError(StateError):
    """The stored data may be intact, but their key is missing or others can read it."""


def checked_key(key: Any) -> bytes:
    """Return a key of 32 bytes, or raise if the value is not one."""
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError(f"a key must be bytes; got {type(key).__name__}")
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key must have {KEY_BYTES} bytes; got {len(key)}")
    return bytes(key)


def refuse_readable(path: Path, status: os.stat_result) -> None:
    """Raise `StateError` if users other than the owner may use a file that contains secrets."""
    # On other systems, modes do not show who may read.
    if os.name == "posix" and status.st_mode & 0o077:
        command = f"chmod 600 {shlex.quote(str(path))}"
        raise UnreadableError(f"others than its owner may read or write {path.name}: {command}")


class EncryptionKey:
    """Key with which states and journals are encrypted and authenticated.

    Parameters
    ----------
    *keys : bytes
        Secret keys of 32 random bytes, from ``secrets.token_bytes(32)`` or a key management
        service. The last key encrypts; all of them decrypt. During a rotation there are two: the
        old key, followed by the new one.

    Raises
    ------
    ImportError
        Without `cryptography` (the extra ``encryption``).
    TypeError, ValueError
        If a key does not have 32 bytes, or cannot be random.

    Notes
    -----
    The object never shows its keys and cannot be pickled. An encrypted piece is 72 bytes longer
    than a plain one and can have at most 64 GiB. Time: about 2 GB/s on one core, plus 10
    microseconds per piece.

    Examples
    --------
    >>> import dpoco, os, secrets, tempfile
    >>> key = dpoco.EncryptionKey(secrets.token_bytes(32))
    >>> path = os.path.join(tempfile.mkdtemp(), "state")
    >>> learner = dpoco.experts.PrefixHedge(3, horizon=9, budget=None)
    >>> learner.save(path, key=key)
    >>> dpoco.load(path, key=key).round
    0
    """

    __slots__ = ("_keys",)

    def __init__(self, *keys: bytes) -> None:
        import_package("cryptography", "an EncryptionKey", "encryption")
        if not keys:
            raise ValueError(f"no key was given: an EncryptionKey needs {KEY_BYTES} random bytes")
        self._keys = tuple(checked_key(key) for key in keys)
        for key in self._keys:
            # Such bytes are passwords or test keys, which can be guessed.
            if len(set(key)) < _FEWEST or key.isascii():
                raise ValueError(
                    "a key must be random: these bytes repeat, or are text; take "
                    "secrets.token_bytes(32)"
                )

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> EncryptionKey:
        """Read keys from a text file that only its owner can read.

        Each key has 64 hexadecimal digits or 44 characters of base64. Keys are separated by lines
        or spaces, the newest last.

        Raises
        ------
        StateError
            If users other than the owner may read or write the file.
        ValueError
            If it contains anything else.
        OSError
            If it cannot be read.
        """
        place = Path(path)
        with place.open("rb") as file:
            # The mode of the open file, because its name may meanwhile lead to another file.
            refuse_readable(place, os.fstat(file.fileno()))
            return cls(*_parse(file.read().decode("ascii", "replace"), place.name))

    @classmethod
    def from_environment(cls, name: str = "DPOCO_KEY") -> EncryptionKey:
        """Read keys from an environment variable, in the same form as in a file.

        Raises
        ------
        ValueError
            If it is not set, or contains anything else.
        """
        if name not in os.environ:
            raise ValueError(f"the environment variable {name} is not set")
        return cls(*_parse(os.environ[name], name))

    def seal(self, context: bytes, data: bytes) -> Iterator[bytes]:
        """Yield `data` encrypted for a context, in pieces; `open` needs the same context."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        salt = secrets.token_bytes(_SALT)
        key, mark = _derive(self._keys[-1], salt)
        head = b"".join((_SIGNATURE, bytes([_VERSION]), salt, mark))
        yield head
        if len(data) <= _PIECE:  # one call takes half the time
            # The nonce is constant, because no other piece has this key, which depends on the
            # random salt.
            yield AESGCM(key).encrypt(bytes(12), data, head + context)
            return
        # The same cipher and nonce as above, so both ways give the same bytes.
        encryptor = _cipher(key, None).encryptor()
        encryptor.authenticate_additional_data(head + context)
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            yield encryptor.update(view[start : start + _PIECE])
        encryptor.finalize()
        yield encryptor.tag

    def open(self, context: bytes, data: bytes) -> bytes:
        """Return the data sealed for a context; `StateError` for anything else."""
        from cryptography.exceptions import InvalidTag

        if not is_encrypted(data) or len(data) < _HEAD + _TAG:
            raise StateError("what was encrypted is truncated, or was replaced by something else")
        if data[len(_SIGNATURE)] != _VERSION:
            raise StateError(
                f"this is encrypted in format {data[len(_SIGNATURE)]}; the library reads {_VERSION}"
            )
        salt, mark = data[_HEAD - _MARK - _SALT : _HEAD - _MARK], data[_HEAD - _MARK : _HEAD]
        # New data are written with the last key, so it is the most likely one.
        tried = (_derive(key, salt) for key in reversed(self._keys))
        found = next((key for key, own in tried if hmac.compare_digest(own, mark)), None)
        if found is None:
            raise UnreadableError(
                "this was encrypted under a key that was not given, or is damaged"
            )
        decryptor = _cipher(found, data[-_TAG:]).decryptor()
        decryptor.authenticate_additional_data(data[:_HEAD] + context)
        view = memoryview(data)[_HEAD:-_TAG]
        starts = range(0, len(view), _PIECE)
        plain = b"".join(decryptor.update(view[start : start + _PIECE]) for start in starts)
        try:
            # No part of the text is returned or read before its tag is verified.
            decryptor.finalize()
        except InvalidTag:
            raise StateError(
                "what was encrypted is not as it was written: it was changed, cut off, or taken "
                "from another place"
            ) from None
        return plain

    def __reduce__(self) -> NoReturn:
        raise TypeError("an EncryptionKey cannot be copied or pickled: read it where it is needed")

    def __repr__(self) -> str:
        return f"<EncryptionKey, {len(self._keys)} of {KEY_BYTES} bytes>"


def given_key(name: str, key: Any, default: EncryptionKey | None = None) -> EncryptionKey | None:
    """Return the given key, or else the default; raise, naming the argument, for a non-key."""
    if not (key is None or isinstance(key, EncryptionKey)):
        raise TypeError(f"{name} must be an EncryptionKey; got {type(key).__name__}")
    return default if key is None else key


def is_encrypted(data: bytes) -> bool:
    """Return whether bytes begin like those from `EncryptionKey.seal`."""
    return data.startswith(_SIGNATURE)


def decrypt(data: bytes, context: bytes, key: EncryptionKey | None, what: str, how: str) -> bytes:
    """Return the stored data, which must be encrypted if and only if a key is given.

    Otherwise `StateError`: a plain file where a key is given may come from someone without the key.
    `what` (the kind of data) and `how` (the way to encrypt them) are words for the message.
    """
    # Both mismatches are refused, because plain data may come from someone without the key.
    if key is None:
        if is_encrypted(data):
            raise UnreadableError(f"the {what} is encrypted, and no key was given")
        return data
    if not is_encrypted(data):
        raise UnreadableError(
            f"the {what} is not encrypted, but a key was given: {how} encrypts it"
        )
    return key.open(context, data)


def _parse(text: str, place: str) -> list[bytes]:
    """Return the keys in a text, or raise a `ValueError` that does not quote the text."""
    try:
        return [_read(word) for word in text.split()]
    except ValueError:  # its text may quote the key
        raise ValueError(
            f"{place} must hold keys of {KEY_BYTES} random bytes, in hexadecimal or base64, the "
            "newest last"
        ) from None


def _read(word: str) -> bytes:
    """Return a key in hexadecimal or base64: 32 bytes have 64 digits of one, 44 of the other."""
    hexadecimal = len(word) == 2 * KEY_BYTES
    return checked_key(bytes.fromhex(word) if hexadecimal else base64.b64decode(word, None, True))


def _derive(key: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """Return the key of one piece, and the mark that later identifies the given key."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    # The mark is as random as the key: only owners of the key learn which key it marks.
    both = HKDF(SHA256(), KEY_BYTES + _MARK, salt, b"dpoco encryption 1").derive(key)
    return both[:KEY_BYTES], both[KEY_BYTES:]


def _cipher(key: bytes, tag: bytes | None) -> Any:
    """Return AES-256-GCM with the key of one piece; with a tag, for decryption."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import GCM

    return Cipher(AES256(key), GCM(bytes(12), tag))
