"""Signed certificates: a statement, its signer and its data set, in a file that cannot be altered.

Claim: if `SignedCertificate.check` accepts a certificate for a public key, then the holder of the
secret key signed it, with its title, operator, data set, date and library version. Whether the
certificate is *true* is another question: ``dpoco verify`` recomputes it.

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
# The first line prevents that another signature by this key is accepted as one of these.
_DOMAIN = b"dpoco signed certificate 1\n"
_PREFIX, _KEY_BYTES, _SIGNATURE_BYTES = "ed25519:", 32, 64
_LONGEST = 200  # characters of a text, which is meant to be a title
_TEXTS = ("title", "operator", "data_set", "date", "library")
_SIGNED = frozenset({*_TEXTS, "signer", "certificate"})
_CERTIFICATES = ("dpoco.guarantee", "dpoco.ledger")


class SignatureError(StateError):
    """A signature is missing, belongs to another signer, or does not match the signed text."""


def _ed25519() -> ModuleType:
    """Return the module of `cryptography`, or raise and name the extra that installs it."""
    import_package("cryptography", "a signature", "encryption")
    from cryptography.hazmat.primitives.asymmetric import ed25519

    return ed25519


@dataclass(frozen=True)
class PublicKey:
    """Public key that checks signatures; publish it where readers look for it.

    Attributes
    ----------
    raw : bytes
        32 bytes (RFC 8032).
    """

    raw: bytes

    def __post_init__(self) -> None:
        """Raise for another length."""
        if not isinstance(self.raw, bytes) or len(self.raw) != _KEY_BYTES:
            raise ValueError(f"a public key has {_KEY_BYTES} bytes")

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Return the key of a text ``ed25519:`` and 64 hexadecimal digits; else `ValueError`."""
        digits = text.strip().removeprefix(_PREFIX)
        # `bytes.fromhex` also accepts capitals and spaces, but each key must have only one text.
        if len(digits) != 2 * _KEY_BYTES or not set(digits) <= set("0123456789abcdef"):
            raise ValueError("a public key is the text 'ed25519:' and 64 hexadecimal digits")
        return cls(bytes.fromhex(digits))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> PublicKey:
        """Return the key from a file with such a text."""
        return cls.parse(Path(path).read_text(encoding="ascii", errors="replace"))

    @property
    def fingerprint(self) -> str:
        """First 80 bits of the key's SHA-256 in five groups, to compare by telephone."""
        digits = hashlib.sha256(self.raw).hexdigest()[:20]
        return "-".join(digits[i : i + 4] for i in range(0, 20, 4))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return _PREFIX + self.raw.hex()


class SigningKey:
    """Secret key that signs. Its text form does not show the key, and it cannot be pickled.

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
        """Draw a key and write it to a new file that only its owner can read (mode 0600).

        Raises
        ------
        FileExistsError
            If the file exists: a key is never overwritten.
        """
        raw = _ed25519().Ed25519PrivateKey.generate().private_bytes_raw()
        # The file has this mode from the start. If the mode were set after writing, others could
        # read the file for a moment.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
            file.write(raw.hex() + "\n")
            file.flush()
            # If its public key is published, the key must survive a crash of the machine.
            os.fsync(file.fileno())
        return cls(raw)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> SigningKey:
        """Read the file that `create` wrote.

        Raises
        ------
        StateError
            If users other than its owner may read or write it.
        ValueError
            If it contains anything else.
        """
        place = Path(path)
        with place.open("rb") as file:
            # We check the open file and not the path, because the path could be replaced in
            # between.
            refuse_readable(place, os.fstat(file.fileno()))
            text = file.read(4096).decode("ascii", "replace").strip()
        if len(text) != 2 * _KEY_BYTES or not set(text) <= set("0123456789abcdef"):
            raise ValueError(f"{place.name} is no signing key")
        return cls(bytes.fromhex(text))

    @property
    def public(self) -> PublicKey:
        """The public key for signatures of this key."""
        return PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        return bytes(self._key.sign(message))

    def __repr__(self) -> str:
        """Return one line, without the key."""
        return f"<SigningKey {self.public.fingerprint}>"

    def __reduce__(self) -> str:
        """Raise, because a pickle would contain the key."""
        raise TypeError("a signing key cannot be pickled")


@dataclass(frozen=True, kw_only=True)
class SignedCertificate:
    """A certificate, the facts about it, and a signature over both.

    Attributes
    ----------
    certificate : dict
        The record of a guarantee or of a ledger: `Guarantee.to_dict`, `Ledger.to_dict`.
    title, operator, data_set : str
        The subject of the statement, and who makes it; one line each, at most 200 characters.
    date : str
        Date of the signature, as YYYY-MM-DD; stated by the signer.
    library : str
        Name and version of the signing program.
    signer : PublicKey
        Key of the claimed signer.
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
        """Raise for texts that could be mistaken for others, and if it is not a certificate."""
        for name in _TEXTS:
            text = getattr(self, name)
            # With a line feed or a control character, one field could look like another one in a
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
        """Sign the record of a guarantee or of a ledger; the default date is today (UTC)."""
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        # First made without a signature, so that all checks pass before signing.
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
        """Return the signed bytes."""
        signed = {**_fields(self), "signer": str(self.signer)}
        del signed["signature"]
        # With sorted names, no spaces and ASCII, each object has one text. So the bytes do not
        # depend on the file from which the object was read.
        text = json.dumps(
            signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
        )
        return _DOMAIN + text.encode("ascii")

    def check(self, signer: PublicKey | None = None) -> None:
        """Raise `SignatureError` unless the signature matches everything and is the signer's.

        Parameters
        ----------
        signer : PublicKey, optional
            Required signer. None only checks that the signature was made with the key that the file
            itself names. Anyone can make such a file.
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
        """Return the facts that an explanation shows, by name."""
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
        """Return a record written by `to_dict`, unchecked; `StateError` for anything else."""
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
            found.message()  # raises for a number too large for a double
            return found
        except (AttributeError, RecursionError, TypeError, ValueError) as error:
            raise StateError(f"malformed signed certificate: {error}") from None

    def to_json(self) -> str:
        """Return the signed certificate as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> SignedCertificate:
        """Return what `to_json` wrote; `StateError` for anything else, even for duplicate names."""
        return cls.from_dict(of_json(text))


def is_signed(record: object) -> bool:
    """Return whether a JSON record claims to be a signed certificate."""
    return isinstance(record, Mapping) and record.get("kind") == _KIND


def _fields(signed: SignedCertificate) -> Fields:
    """Return the fields unchanged: `asdict` would copy the record and convert the key."""
    return {name: getattr(signed, name) for name in signed.__dataclass_fields__}
