"""``dpoco sign``: a certificate with title, operator, data set and date under one signature."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import typer

from dpoco.accounting import Guarantee
from dpoco.accounting._records import of_json
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.signatures import (
    PublicKey,
    SignatureError,
    SignedCertificate,
    SigningKey,
    is_signed,
)
from dpoco.accounting.verdict import verdict
from dpoco.cli import _support as shell
from dpoco.errors import StateError

SCHEMA = "dpoco.signature/1"


@shell.documented_options
def sign_command(
    file: Path | None = None,
    key: Path | None = None,
    new_key: Path | None = None,
    title: str | None = None,
    operator: str | None = None,
    data_set: str | None = None,
    date: str | None = None,
    output: Path | None = None,
    as_json: shell.JsonFlag = False,
) -> None:
    """Sign a certificate, with what it is about: nobody can change it unnoticed.

    Title, operator, data set, date and the version of dpoco are under the signature (Ed25519, extra
    encryption). Readers check it with dpoco verify FILE --signer PUBLIC_KEY. The signature says who
    states the certificate; dpoco verify says whether it is true.

    For example:

    dpoco sign --new-key signer.key

    dpoco sign guarantee.json --key signer.key --title "Offers, 2026" --operator "Shop Ltd"
    --data-set "visits of 2026"

    Parameters
    ----------
    file : argument [FILE]
        JSON text of a guarantee or ledger, or of a document that holds one, such as the output of
        dpoco plan --json.
    key : FILE
        The secret key, which only its owner may read.
    new_key : FILE
        Draw a key, write it to this new file (mode 0600), and print its public key. Nothing is
        signed.
    title : TEXT
        Of the statement, in one line.
    operator : TEXT
        Who runs the system and states the certificate.
    data_set : TEXT
        Which data it is about.
    date : YYYY-MM-DD
        Day of the signature. [default: today, UTC]
    output : FILE
        A new file. [default: FILE with the ending .signed.json]
    """
    with shell.errors_in_one_line():
        if new_key is not None:
            if (file, key, title, operator, data_set, date, output) != (None,) * 7:
                raise ValueError("--new-key draws a key and takes nothing else")
            _tell_key(SigningKey.create(new_key).public, new_key, as_json)
            return
        missing = [
            name
            for name, value in {
                "FILE": file, "--key": key, "--title": title, "--operator": operator,
                "--data-set": data_set,
            }.items()
            if value is None
        ]  # fmt: skip
        if file is None or key is None or title is None or operator is None or data_set is None:
            raise ValueError(f"still needed: {', '.join(missing)}")
        record = certificate_of(file)
        signed = SignedCertificate.sign(
            record, SigningKey.from_file(key), title=title, operator=operator, data_set=data_set,
            date=date,
        )  # fmt: skip
        place = file.with_suffix(".signed.json") if output is None else output
        with place.open("x", encoding="ascii") as out:
            out.write(signed.to_json() + "\n")
        stated = _guarantee(record)
        if as_json:
            about = {"file": str(place), "signer": str(signed.signer), "date": signed.date}
            shell.print_json({"schema": SCHEMA, **about, "verdict": verdict(stated).kind})
            return
        typer.echo(f"{place}: signed by key {signed.signer.fingerprint} on {signed.date}")
        typer.echo(verdict(stated).sentence)


def certificate_of(file: Path) -> Any:
    """Return the record of a guarantee or ledger that a file holds, checked; else `ValueError`."""
    try:
        record = of_json(file.read_bytes())
    except StateError:
        raise ValueError(f"{file} is not a JSON text, or says something twice") from None
    if is_signed(record):
        raise ValueError(f"{file} is signed: sign the certificate that it was made from")
    if isinstance(record, dict) and "kind" not in record:
        record = record.get("guarantee")
    _guarantee(record)
    return record


def _guarantee(record: Any) -> Guarantee:
    if isinstance(record, dict) and record.get("kind") == "dpoco.ledger":
        return Ledger.from_dict(record).guarantee
    return Guarantee.from_dict(record)


def opened(record: Any) -> tuple[Any, SignedCertificate | None]:
    """Return the certificate of a record, and the signature that it was under, which fits."""
    if not is_signed(record):
        return record, None
    signed = SignedCertificate.from_dict(record)
    signed.check()
    return dict(signed.certificate), signed


def origin_of(signed: SignedCertificate | None, signer: PublicKey | None) -> str:
    """Return who states a file, in words; `SignatureError` if it is not the given signer."""
    if signed is None:
        if signer is not None:
            raise SignatureError(f"nobody signed this file; wanted was {signer.fingerprint}")
        return "anybody can have written this file"
    signed.check(signer)
    about = f"on {signed.date}, with {signed.library}: {signed.title}; operator {signed.operator}"
    about += f"; data set {signed.data_set}"
    if signer is None:
        who = f"key {signed.signer.fingerprint} claims to have signed this {about}"
        return f"{who}. Nobody checked whose key this is: --signer PUBLIC_KEY does."
    return f"signed by key {signer.fingerprint}, as asked for, {about}"


def about_file(file: Path, signed: SignedCertificate | None) -> dict[str, str]:
    """Return what the statement without terms says of a file."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    about = {"File": file.name, "Generated on": today}
    if signed is None:
        return {**about, "Signed by": "nobody: anybody can have written this file"}
    unchecked = "which nobody checked here; dpoco verify --signer does"
    return {**about, **signed.about(), "Signed by": f"key {signed.signer.fingerprint}, {unchecked}"}


def signer_of(text: str) -> PublicKey:
    """Return the public key that a text is, or that a file of this name holds."""
    try:
        return PublicKey.parse(text)
    except ValueError:
        path = Path(text)
        if not path.is_file():
            raise
        return PublicKey.from_file(path)


def _tell_key(public: PublicKey, place: Path, as_json: bool) -> None:
    if as_json:
        shell.print_json(
            {"schema": SCHEMA, "file": str(place), "public_key": str(public),
             "fingerprint": public.fingerprint}
        )  # fmt: skip
        return
    typer.echo(f"{place}: a new secret key, which only you can read; keep a copy offline")
    typer.echo(f"public key:  {public}")
    typer.echo(f"fingerprint: {public.fingerprint}")
