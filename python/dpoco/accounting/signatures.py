"""Signed certificates: who states what about which data, in a file that no one else can change.

Claim: a certificate that `SignedCertificate.check` accepts for a public key was signed, with its
title, operator, data set, date and library version, by the holder of the secret key. Whether the
certificate is *true* is another question: ``dpoco verify`` computes it again.

The signed bytes are the line ``dpoco signed certificate 1``, a line feed, and the object under
"signed" as JSON in ASCII, with sorted names, without spaces, and with the shortest decimal text of
every double.
The signer's public key is part of that object. Signatures are Ed25519 (RFC 8032), by
`cryptography`. Page: ``docs/cli_evidence.md``.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from dpoco import _core
from dpoco._encryption import refuse_readable
from dpoco._json import of_json, read_record
from dpoco._validation import Fields, Named, import_package
from dpoco.errors import StateError

__all__ = ["PublicKey", "SignatureError", "SignedCertificate", "SigningKey", "is_signed"]

_KIND, _VERSION = "dpoco.signed_certificate", 1
# The line in front keeps a signature of this key under other bytes from passing for one of these.
_DOMAIN = b"dpoco signed certificate 1\n"
_PREFIX, _KEY_BYTES, _SIGNATURE_BYTES = "ed25519:", 32, 64
_LONGEST = 200  # characters of a text: a title, not a page
_TEXTS = ("title", "operator", "data_set", "date", "library")
_SIGNED = frozenset({*_TEXTS, "signer", "certificate"})
_CERTIFICATES = ("dpoco.guarantee", "dpoco.ledger")


class SignatureError(StateError):
    """A signature is missing, is of another signer, or does not fit the signed text."""


def _ed25519() -> ModuleType:
    """Return the module of `cryptography`, or raise and name the extra that installs it."""
    import_package("cryptography", "a signature", "encryption")
    from cryptography.hazmat.primitives.asymmetric import ed25519

    return ed25519


@dataclass(frozen=True)
class PublicKey:
    """Key that checks signatures: public, to be published where readers look for it.

    Attributes
    ----------
    raw : bytes
        32 bytes (RFC 8032).
    """

    raw: bytes

    def __post_init__(self) -> None:
        """Refuse another length."""
        if not isinstance(self.raw, bytes) or len(self.raw) != _KEY_BYTES:
            raise ValueError(f"a public key has {_KEY_BYTES} bytes")

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Return the key of a text ``ed25519:`` and 64 hexadecimal digits; else `ValueError`."""
        digits = text.strip().removeprefix(_PREFIX)
        # `bytes.fromhex` would also take capitals and spaces: each key has one text only.
        if len(digits) != 2 * _KEY_BYTES or not set(digits) <= set("0123456789abcdef"):
            raise ValueError("a public key is the text 'ed25519:' and 64 hexadecimal digits")
        return cls(bytes.fromhex(digits))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> PublicKey:
        """Return the key of a file with such a text."""
        return cls.parse(Path(path).read_text(encoding="ascii", errors="replace"))

    @property
    def fingerprint(self) -> str:
        """First 80 bits of the key's SHA-256, in five groups: to be compared by telephone."""
        digits = hashlib.sha256(self.raw).hexdigest()[:20]
        return "-".join(digits[i : i + 4] for i in range(0, 20, 4))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return _PREFIX + self.raw.hex()


class SigningKey:
    """Secret key that signs. Neither its text form nor a pickle shows it.

    Examples
    --------
    >>> import os, tempfile
    >>> from dpoco.accounting.signatures import SignedCertificate, SigningKey
    >>> from dpoco import Guarantee
    >>> key = SigningKey.create(os.path.join(tempfile.mkdtemp(), "signer.key"))
    >>> stated = Guarantee.pure_epsilon(1.0, horizon=10)
    >>> signed = SignedCertificate.sign(
    ...     stated.to_dict(), key, title="Survey", operator="A Ltd", data_set="answers 2026")
    >>> SignedCertificate.from_json(signed.to_json()).check(key.public)
    """

    __slots__ = ("_key",)

    def __init__(self, raw: bytes) -> None:
        self._key = _ed25519().Ed25519PrivateKey.from_private_bytes(raw)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> SigningKey:
        """Draw a key, and write it to a new file that only its owner can read (mode 0600).

        Raises
        ------
        FileExistsError
            If there is such a file: a key is never overwritten.
        """
        raw = _ed25519().Ed25519PrivateKey.generate().private_bytes_raw()
        # The file has these rights from the start: a change of mode after writing would leave a
        # moment for others to read.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
            file.write(raw.hex() + "\n")
            file.flush()
            # A key whose public half is published must survive a crash of the machine.
            os.fsync(file.fileno())
        return cls(raw)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> SigningKey:
        """Read the file that `create` wrote.

        Raises
        ------
        StateError
            If others than its owner may read or write it.
        ValueError
            If it holds anything else.
        """
        place = Path(path)
        with place.open("rb") as file:
            # The open file is asked, not the path, which could be exchanged in between.
            refuse_readable(place, os.fstat(file.fileno()))
            text = file.read(4096).decode("ascii", "replace").strip()
        if len(text) != 2 * _KEY_BYTES or not set(text) <= set("0123456789abcdef"):
            raise ValueError(f"{place.name} is no signing key")
        return cls(bytes.fromhex(text))

    @property
    def public(self) -> PublicKey:
        """The key that checks what this one signs."""
        return PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        return bytes(self._key.sign(message))

    def __repr__(self) -> str:
        """Return one line, without the key."""
        return f"<SigningKey {self.public.fingerprint}>"

    def __reduce__(self) -> str:
        """Raise: a pickle would hold the key."""
        raise TypeError("a signing key cannot be pickled")


@dataclass(frozen=True, kw_only=True)
class SignedCertificate:
    """A certificate, what it is about, and a signature over all of it.

    Attributes
    ----------
    certificate : dict
        The record of a guarantee or of a ledger: `Guarantee.to_dict`, `Ledger.to_dict`.
    title, operator, data_set : str
        What the statement is about, and who makes it; one line each, at most 200 characters.
    date : str
        Of the signature, as YYYY-MM-DD; stated by the signer.
    library : str
        Name and version of the program that signed.
    signer : PublicKey
        Who claims to have signed.
    signature : bytes
        64 bytes.
    """

    certificate: Named
    title: str
    operator: str
    data_set: str
    date: str
    library: str
    signer: PublicKey
    signature: bytes = b""

    def __post_init__(self) -> None:
        """Refuse texts that could pass for others, and what is no certificate."""
        for name in _TEXTS:
            text = getattr(self, name)
            # A line feed or a control character could make one field look like another one in a
            # report.
            if not isinstance(text, str) or not text.strip() or not text.isprintable():
                raise ValueError(f"{name} must be a text of one line")
            if len(text) > _LONGEST:
                raise ValueError(f"{name} must have at most {_LONGEST} characters")
        try:
            valid = datetime.date.fromisoformat(self.date).isoformat() == self.date
        except ValueError:
            valid = False
        if not valid:
            raise ValueError("date must be a day, as YYYY-MM-DD")
        kind = self.certificate.get("kind") if isinstance(self.certificate, Mapping) else None
        if kind not in _CERTIFICATES:
            raise ValueError("a certificate is the record of a guarantee or of a ledger")

    @classmethod
    def sign(
        cls,
        certificate: Named,
        key: SigningKey,
        *,
        title: str,
        operator: str,
        data_set: str,
        date: str | None = None,
    ) -> SignedCertificate:
        """Sign the record of a guarantee or of a ledger; the day is today's (UTC) by default."""
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        # Made without a signature first: what is signed has passed all checks.
        unsigned = cls(
            certificate=certificate,
            title=title,
            operator=operator,
            data_set=data_set,
            date=today if date is None else date,
            library=f"dpoco {_core.__version__}",
            signer=key.public,
        )
        return cls(**{**_fields(unsigned), "signature": key.sign(unsigned.message())})

    def message(self) -> bytes:
        """Return the bytes that are signed."""
        signed = {**_fields(self), "signer": str(self.signer)}
        del signed["signature"]
        # Sorted names, no spaces and ASCII leave one text for each object: the bytes do not depend
        # on the file that the object was read from.
        text = json.dumps(
            signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
        )
        return _DOMAIN + text.encode("ascii")

    def check(self, signer: PublicKey | None = None) -> None:
        """Raise `SignatureError` unless the signature fits everything, and is the given signer's.

        Parameters
        ----------
        signer : PublicKey, optional
            Whose signature it must be. None: only that the signature is that of the key which the
            file itself names. Anyone can make such a file.
        """
        ed25519 = _ed25519()
        if signer is not None and signer != self.signer:
            raise SignatureError(
                f"signed by {self.signer.fingerprint}, and not by {signer.fingerprint}"
            )
        from cryptography.exceptions import InvalidSignature

        public = ed25519.Ed25519PublicKey.from_public_bytes(self.signer.raw)
        try:
            public.verify(self.signature, self.message())
        except InvalidSignature:
            raise SignatureError(
                "the signature does not fit: something in the file was changed, or it is the "
                "signature of another certificate"
            ) from None

    def about(self) -> dict[str, str]:
        """Return what an explanation shows of it, by name."""
        return {
            "Title": self.title,
            "Operator": self.operator,
            "Data set": self.data_set,
            "Signed on": f"{self.date}, with {self.library}",
            "Signed by": f"key {self.signer.fingerprint}",
        }

    def to_dict(self) -> Fields:
        """Return a JSON-able dictionary."""
        signed = {**_fields(self), "signer": str(self.signer)}
        signature = signed.pop("signature").hex()
        return {"kind": _KIND, "version": _VERSION, "signed": signed, "signature": signature}

    @classmethod
    def from_dict(cls, record: Named) -> SignedCertificate:
        """Return what `to_dict` wrote, not checked yet; `StateError` for anything else."""
        fields = frozenset({"signed", "signature"})
        body = read_record(record, kind=_KIND, version=_VERSION, fields=fields)
        signed, text = body["signed"], body["signature"]
        if not isinstance(signed, Mapping) or set(signed) != _SIGNED:
            raise StateError("malformed signed certificate")
        try:
            if len(text) != 2 * _SIGNATURE_BYTES or text != text.lower():
                raise ValueError("a signature has 64 bytes")
            known = {name: signed[name] for name in _SIGNED}
            known["signer"] = PublicKey.parse(known["signer"])
            found = cls(**known, signature=bytes.fromhex(text))
            found.message()  # a number beyond all doubles would have no text
            return found
        except (AttributeError, RecursionError, TypeError, ValueError) as error:
            raise StateError(f"malformed signed certificate: {error}") from None

    def to_json(self) -> str:
        """Return the signed certificate as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> SignedCertificate:
        """Return what `to_json` wrote; `StateError` for anything else, duplicate names included."""
        return cls.from_dict(of_json(text))


def is_signed(record: object) -> bool:
    """Return whether a record of JSON says that it is a signed certificate."""
    return isinstance(record, Mapping) and record.get("kind") == _KIND


def _fields(signed: SignedCertificate) -> Fields:
    """Return the fields as they are: `asdict` would copy the record, and turn the key into one."""
    return {name: getattr(signed, name) for name in signed.__dataclass_fields__}
