"""``dpoco sign``: a certificate with title, operator, data set and date under one signature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpoco.accounting.ledger import Ledger
from dpoco.accounting.signatures import PublicKey, SignedCertificate, SigningKey
from dpoco.accounting.verdict import verdict
from dpoco.cli import _shell as shell
from dpoco.cli._checks import read_certificate

SCHEMA = "dpoco.signature/1"


def sign_command(
    file: Annotated[
        Path | None,
        shell.argument(
            "JSON text of a guarantee or ledger, or of a document that holds one, such as the "
            "output of dpoco plan --json.",
            metavar="[FILE]",
        ),
    ] = None,
    key: Annotated[
        Path | None, shell.option("The secret key, which only its owner may read.", metavar="FILE")
    ] = None,
    new_key: Annotated[
        Path | None,
        shell.option(
            "Draw a key, write it to this new file (mode 0600), and print its public key. Nothing "
            "is signed.",
            metavar="FILE",
        ),
    ] = None,
    title: Annotated[
        str | None, shell.option("Of the statement, in one line.", metavar="TEXT")
    ] = None,
    operator: Annotated[
        str | None, shell.option("Who runs the system and states the certificate.", metavar="TEXT")
    ] = None,
    data_set: Annotated[str | None, shell.option("Which data it is about.", metavar="TEXT")] = None,
    date: Annotated[
        str | None,
        shell.option("Day of the signature. [default: today, UTC]", metavar="YYYY-MM-DD"),
    ] = None,
    output: Annotated[
        Path | None,
        shell.option("A new file. [default: FILE with the ending .signed.json]", metavar="FILE"),
    ] = None,
    as_json: shell.JsonFlag = False,
) -> None:
    """Sign a certificate and its subject, so that every change is noticed.

    Title, operator, data set, date and the version of dpoco are under the signature (Ed25519, extra
    encryption). Readers check it with dpoco verify FILE --signer PUBLIC_KEY. The signature says who
    states the certificate; dpoco verify says whether it is true.

    For example:

    dpoco sign --new-key signer.key

    dpoco sign guarantee.json --key signer.key --title "Offers, 2026" --operator "Shop Ltd"
    --data-set "visits of 2026"
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
        record, stated, before = read_certificate(file)
        if before is not None:
            raise ValueError(f"{file} is signed: sign the certificate that it was made from")
        guarantee = stated.guarantee if isinstance(stated, Ledger) else stated
        signed = SignedCertificate.sign(
            record, SigningKey.from_file(key), title=title, operator=operator, data_set=data_set,
            date=date,
        )  # fmt: skip
        place = file.with_suffix(".signed.json") if output is None else output
        with place.open("x", encoding="ascii") as out:
            out.write(signed.to_json() + "\n")
        if as_json:
            about = {"file": str(place), "signer": str(signed.signer), "date": signed.date}
            shell.print_json({"schema": SCHEMA, **about, "verdict": verdict(guarantee).kind})
            return
        typer.echo(f"{place}: signed by key {signed.signer.fingerprint} on {signed.date}")
        typer.echo(verdict(guarantee).sentence)


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
