"""Signed files: what is in them, who states it, and by which key."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from dpoco.accounting.signatures import PublicKey, SignatureError, SignedCertificate, is_signed


def open_envelope(record: Any) -> tuple[Any, SignedCertificate | None]:
    """Return the certificate of a record, and the signature that it was under, which fits."""
    if not is_signed(record):
        return record, None
    signed = SignedCertificate.from_dict(record)
    signed.check()
    return dict(signed.certificate), signed


def describe_origin(signed: SignedCertificate | None, signer: PublicKey | None) -> str:
    """Return who states a file, in words; `SignatureError` if it is not the given signer."""
    if signed is None:
        if signer is not None:
            raise SignatureError(
                f"this file has no signature; expected was that of key {signer.fingerprint}"
            )
        return "no signature: anyone may have written this file"
    signed.check(signer)
    about = f"on {signed.date}, with {signed.library}: {signed.title}; operator {signed.operator}"
    about += f"; data set {signed.data_set}"
    if signer is None:
        who = f"key {signed.signer.fingerprint} claims to have signed this {about}"
        return f"{who}. It was not checked whose key this is: --signer PUBLIC_KEY does."
    return f"signed by key {signer.fingerprint}, as asked for, {about}"


def about_file(file: Path, signed: SignedCertificate | None) -> dict[str, str]:
    """Return what the statement without terms says of a file."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    about = {"File": file.name, "Generated on": today}
    if signed is None:
        return {**about, "Signed by": "no one: anyone may have written this file"}
    unchecked = "which was not checked here; dpoco verify --signer does"
    return {**about, **signed.about(), "Signed by": f"key {signed.signer.fingerprint}, {unchecked}"}


def read_public_key(text: str) -> PublicKey:
    """Return the public key that a text is, or that a file of this name holds."""
    try:
        return PublicKey.parse(text)
    except ValueError:
        path = Path(text)
        if not path.is_file():
            raise
        return PublicKey.from_file(path)
