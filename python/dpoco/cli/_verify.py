"""``dpoco verify``, and the files that it reads: certificates (also signed), states, journals."""

from __future__ import annotations

import datetime
import importlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import typer

import dpoco
from dpoco import evaluation
from dpoco._encryption import UnreadableError, is_encrypted, refuse_readable
from dpoco._json import of_json, plain, plain_float
from dpoco._validation import Fields
from dpoco.accounting import Guarantee
from dpoco.accounting.explanation import ISSUER, Verdict, issuer_says, scope, verdict, worst
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.signatures import PublicKey, SignatureError, SignedCertificate, is_signed
from dpoco.cli import _shell as shell
from dpoco.cli._key import state_key
from dpoco.cli._plan_report import PLAN_SCHEMA
from dpoco.errors import BudgetExceeded, JournalFenced, StateError
from dpoco.journal import Journal, SqliteStore
from dpoco.learning.model import Model
from dpoco.learning.state import FRAME_SIGNATURE
from dpoco.privacy.losses.combined import Unknown

_VERIFICATION = "dpoco.verification/1"
# The worst verdict comes first; each kind of verdict has a different exit code.
_EXIT = {"signature refuted": 7, "refuted": 1, "not covered": 1, "not verified": 1, "not one": 2,
         "unreadable": 2, "not protected": 6, "only if": 5, "verified": 0}  # fmt: skip
# Parts of a plan besides its guarantee; other documents of dpoco are read on their own.
_PLAN = {"schema", "learner", "class", "problem", "budget", "regret", "regret_bound_per_round",
         "useful", "noise", "memory", "notes", "parameters", "guarantee"}  # fmt: skip
_SETUP = (
    "this ran as it is described here: the noise was fresh and secret, the settings were fixed "
    "beforehand"
)


class NotOneError(Exception):
    """The file is not a guarantee, state, ledger or journal."""


class _NotCoveredError(Exception):
    """The statement cannot be derived: the file lacks a description, or no formula covers it."""


# Verdicts on files without a statement; the first kind of error that fits decides.
_FAULTS: dict[type[Exception], str] = {
    NotOneError: "not one", OSError: "not one", UnreadableError: "unreadable",
    SignatureError: "signature refuted", StateError: "refuted", BudgetExceeded: "refuted",
    _NotCoveredError: "not covered",
}  # fmt: skip


class _Statement(NamedTuple):
    """The statement of a file in a few words, its verdict, and the guarantee."""

    words: str
    verdict: Verdict
    guarantee: Guarantee | None

    def to_dict(self) -> Fields:
        """Return everything on which a reader may rely, and what only the issuer says."""
        own = {"verdict": self.verdict.kind, "sentence": self.verdict.sentence}
        if self.guarantee is None:
            return own
        g = self.guarantee
        configuration = {} if g.seeded else {"configuration": _SETUP}
        return own | {
            "epsilon": plain_float(g.epsilon), "delta": g.delta, "unit": g.unit,
            "change": g.change, "view": g.view, "horizon": g.horizon,
            "person": None if g.person is None else list(g.person),
            "conditions": list(g.derived),
            "stated_by_the_issuer": {**configuration, **plain(issuer_says(g))},
        }  # fmt: skip


Stated = Guarantee | Fields
_Judge = Callable[[Stated], _Statement]


def verify_command(
    files: list[Path] = shell.argument(
        ...,
        "Guarantees and ledgers as JSON, one or a list of them in a file; what dpoco plan, run "
        "and publish print; states of learners and mechanisms (learner.save); journals (SQLite "
        "files).",
        metavar="FILE...",
    ),
    independent: bool = shell.option(
        False,
        "Prove every certificate by a program that shares no code with dpoco, in intervals "
        "that contain the exact values (extra verify); what it has no formula for is not "
        "covered. Of a ledger the charges are proved, and not their sum.",
    ),
    signer: str | None = shell.option(
        None,
        "Every file must be signed by this key (dpoco sign), which you got from the signer and "
        "not with the file: the text ed25519:..., or a file that holds it.",
        metavar="PUBLIC_KEY",
    ),
    as_json: shell.JsonFlag = False,
) -> None:
    """Say whether anything is protected, from what files describe; refuse what does not follow.

    A guarantee follows from the description of what was enforced and drawn; a state and a journal
    from the learners in them; a ledger from its charges. All other statements are printed as
    stated by the issuer. The command draws nothing, and reads a copy of a journal, so its service
    may run on.

    Exit codes: 0 everything is proved, and what it rests on is enforced; 5 something holds only if
    a promise is kept, which the first line names; 6 something is NOT PROTECTED as configured, such
    as seeded noise, or none; 1 something is refuted, not covered, or has no description; 2 a file
    is none of these, or its key is missing; 7 the key of --signer did not sign a file, or a signed
    file was changed.

    For example:

    dpoco plan ctrl --horizon 100000 --dimension 10 --json > plan.json

    dpoco verify plan.json

    dpoco verify --independent plan.json
    """
    judge = _independent_judge() if independent else _verify
    public = None if signer is None else read_public_key(signer)
    rows = [_row(file, judge, public) for file in files]
    if as_json:
        shown = [row | {"certificates": [each.to_dict() for each in found]} for row, found in rows]
        shell.print_json({"schema": _VERIFICATION, "files": shown})
    else:
        for row, found in rows:
            typer.echo("\n".join(map(shell.escape_controls, _lines(row, found))))
    verdicts = [row["verdict"] for row, _ in rows]
    raise typer.Exit(next((_EXIT[name] for name in _EXIT if name in verdicts), 0))


def _row(
    file: Path, judge: _Judge, signer: PublicKey | None = None
) -> tuple[Fields, list[_Statement]]:
    """Return the facts about a file, as the command prints them, and its statements."""
    row: Fields = {"file": str(file), "statements": None, "reason": ""}
    found: list[_Statement] = []
    try:
        # The file is read once: a signature is about the bytes that are judged, and a pipe has no
        # second copy of them.
        data = file.read_bytes()
        origin = _origin(data, signer)
        # All statements of a file come before the verdict, because the last one may be refuted.
        found = list(_statements(file, data, judge))
        kind = worst([each.verdict.kind for each in found])
        sentence = next(each.verdict.sentence for each in found if each.verdict.kind == kind)
        row["statements"] = [each.words for each in found]
        row["verdict"] = "verified" if kind == "protected" else kind
        row |= {"sentence": sentence, "origin": origin}
    # One unreadable file must not prevent the verdict on the others.
    except tuple(_FAULTS) as error:
        row["verdict"] = next(text for kind, text in _FAULTS.items() if isinstance(error, kind))
        row["reason"] = getattr(error, "strerror", None) or str(error)
    return row, found if row["statements"] is not None else []


def _origin(data: bytes, signer: PublicKey | None) -> str:
    """Return who may have written a file; `SignatureError` unless it is the requested signer."""
    try:
        record = of_json(data)
    except StateError:
        # A truncated signed file must not be taken for a state, which needs no signature.
        if signer is not None and data.lstrip()[:1] == b"{":
            raise SignatureError(
                "the file is not valid JSON: it was cut short or changed"
            ) from None
        record = None  # a state or a journal, which have no signature
    return describe_origin(open_envelope(record)[1], signer)


def _lines(row: Fields, found: list[_Statement]) -> Iterator[str]:
    """Yield the verdict on a file, and its basis."""
    if row["statements"] is None:
        verdict = "nothing to verify" if row["verdict"] == "not one" else row["verdict"]
        yield f"{row['file']}: {verdict}: {row['reason']}".rstrip(": ")
        return
    words = f"verified ({', '.join(row['statements'])}): "
    yield f"{row['file']}: {words if row['verdict'] == 'verified' else ''}{row['sentence']}"
    if len(found) > 1:
        yield from (f"  {n}. {each.verdict.sentence}" for n, each in enumerate(found, 1))
    held = [each.to_dict() for each in found if each.guarantee is not None]
    conditions = dict.fromkeys(text for each in held for text in each["conditions"])
    yield from ("  Conditions:", *(f"    - {text}" for text in conditions)) if conditions else ()
    yield "  Stated by the issuer, not checked:"
    said = dict.fromkeys(
        f"{name}: {_in_line(value)}"
        for each in held
        for name, value in each["stated_by_the_issuer"].items()
    )
    yield from (f"    - {text}" for text in said or (f"configuration: {_SETUP}",))
    yield f"  Origin: {row['origin']}"


def _in_line(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_in_line(each)}" for name, each in value.items())
    if isinstance(value, list):
        return "; ".join(map(_in_line, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _verify(stated: Stated) -> _Statement:
    """Return the statement of a certificate; `StateError` if it does not follow."""
    g = stated if isinstance(stated, Guarantee) else Guarantee.from_dict(stated)
    found = verdict(g)
    # The certificate promises nothing, so there is nothing to derive.
    if not g.private:
        return _Statement("no privacy", found, g)
    if g.description is None and isinstance(g.loss.bare, Unknown):
        raise _NotCoveredError(
            "only epsilon and delta are stated: no description from which they can be computed"
        )
    g.verify()
    return _Statement(f"epsilon {g.epsilon:.6g} at delta {g.delta:.3g}", found, g)


_KINDS = {"proved": "protected", "only if": "only if", "NOT PROTECTED": "not protected"}


def _independent_judge() -> _Judge:
    """Return the same judge from the checker without shared code (``check/check.py``)."""
    try:
        checker = importlib.import_module("dpoco._independent")
    except ModuleNotFoundError as error:
        if error.name != "flint":
            raise
        reason = '--independent needs python-flint: pip install "dpoco[verify]"'
        raise typer.BadParameter(reason) from None

    def judge_alone(stated: Stated) -> _Statement:
        record: Fields = json.loads(stated.to_json()) if isinstance(stated, Guarantee) else stated
        held = record
        with suppress(StateError):
            # dpoco itself compares numbers that only earlier versions repeat.
            held = Guarantee.from_dict(record).to_dict()
        try:
            result, found = checker.check({n: v for n, v in record.items() if n in held})
        except (checker.MalformedError, RecursionError) as error:
            raise NotOneError(str(error)) from None
        if result == "not proved":
            raise StateError(f"{result}: {found}")
        if result == "not covered":
            raise _NotCoveredError(found)
        # The other program must also agree with dpoco on the verdict.
        own = _verify(stated)
        if own.verdict.kind != _KINDS[result]:
            raise StateError(f"dpoco says {own.verdict.kind!r}, the independent checker {result!r}")
        return own._replace(words=own.words + ", proved" * (result != "NOT PROTECTED"))

    return judge_alone


def _statements(file: Path, data: bytes, judge: _Judge) -> Iterator[_Statement]:
    """Yield every statement of a file that follows; `StateError` for one that does not.

    States and journals, which have no signature, are read again from the file.
    """
    # The first bytes decide, because users may give states any name.
    if data.startswith(FRAME_SIGNATURE) or is_encrypted(data):
        yield _of_learner(dpoco.load(file, key=state_key()), judge)
    elif data.startswith(_SQLITE):
        if not is_journal(file):
            raise NotOneError("the file is a database, but not a journal")
        yield from _of_journal(file, judge)
    else:
        try:
            record = of_json(data)
        except StateError:
            raise NotOneError("the file is not a guarantee, state, ledger or journal") from None
        yield from _of_record(record, judge)


def read_certificate(file: Path) -> tuple[Fields, Guarantee | Ledger, SignedCertificate | None]:
    """Return a JSON file's record, its guarantee or ledger, and its signature.

    `ValueError` if it states nothing, `StateError` if the statement does not follow.
    """
    try:
        data = file.read_bytes()
        if data.startswith(FRAME_SIGNATURE) or is_encrypted(data):
            raise ValueError(
                f"{file} is a saved state and no JSON text: dpoco verify reads it, and dpoco "
                "publish writes its model"
            )
        record: Any = of_json(data)
    except StateError:
        raise ValueError(f"{file} is not valid JSON, or repeats a name") from None
    record, signed = open_envelope(record)
    if certificate_kind(record) is None:
        try:
            record = find_certificate(record)
        except NotOneError as error:
            raise ValueError(f"{file}: {error}") from None
    if isinstance(record, Guarantee):
        return record.to_dict(), record, signed
    if certificate_kind(record) == "dpoco.ledger":
        return record, Ledger.from_dict(record), signed
    return record, Guarantee.from_dict(record), signed


def certificate_kind(record: object) -> object:
    """Return the kind that a record states, or None if it is not a record."""
    return record.get("kind") if isinstance(record, dict) else None


def _of_record(record: Any, judge: _Judge) -> Iterator[_Statement]:
    # Nested lists could be deeper than Python can follow.
    if isinstance(record, list) and record and not any(isinstance(each, list) for each in record):
        for each in record:
            yield from _of_record(each, judge)
    elif certificate_kind(record) == "dpoco.guarantee":
        yield judge(record)
    elif is_signed(record):
        yield from _of_record(open_envelope(record)[0], judge)
    elif certificate_kind(record) == "dpoco.ledger":
        yield from _of_ledger(Ledger.from_dict(record), judge)
    else:
        yield judge(find_certificate(record))


def find_certificate(record: Any) -> Stated:
    """Return the guarantee in a document of dpoco; fields of foreign documents are refused."""
    schema = str(record.get("schema")) if isinstance(record, dict) else ""
    if schema.startswith("dpoco.model/"):
        return Model.from_dict(record).guarantee
    try:
        if schema == evaluation.RunReport.schema:
            evaluation.RunReport.from_dict(record)
        # A document with more fields could say more than was checked.
        elif schema != PLAN_SCHEMA or not {*record} <= _PLAN:
            raise ValueError("the file is not a guarantee, state, ledger or journal")
    except ValueError as error:
        raise NotOneError(str(error)) from None
    if certificate_kind(record.get("guarantee")) != "dpoco.guarantee":
        raise NotOneError("the file contains no guarantee")
    found: Fields = record["guarantee"]
    return found


def _of_ledger(ledger: Ledger, judge: _Judge) -> Iterator[_Statement]:
    """Yield the statements of a ledger and of each charge, which were added up when reading it."""
    charged = []
    for number, entry in enumerate(ledger.entries, 1):
        if entry.guarantee is None:
            if judge is not _verify:
                raise _NotCoveredError(f"a charge without a certificate: {entry.label}")
            why = f"only if what charge {number} is for costs what was charged ({ISSUER})"
            charged.append(Verdict("only if", why))
        else:
            found = judge(entry.guarantee)
            charged.append(found.verdict)
            if judge is not _verify:
                yield found
    total = f"epsilon {ledger.guarantee.epsilon:.6g} at delta {ledger.budget.delta:.3g}"
    by = "all charges" if judge is _verify else "the sum of charges, by dpoco"
    yield _Statement(f"{total}, {by}", _of_sum(ledger, charged), ledger.guarantee)


def judge_ledger(ledger: Ledger) -> Verdict:
    """Return the verdict on the sum of a ledger's charges."""
    *_, total = _of_ledger(ledger, _verify)
    return total.verdict


def _of_sum(ledger: Ledger, charged: list[Verdict]) -> Verdict:
    """Return the verdict on a sum, which is the worst verdict of its charges."""
    said = scope(ledger.guarantee)
    if any(entry.same_unit for entry in ledger.entries):
        same = f"only if all charges are about {ledger.unit}, as their caller says"
        charged = [*charged, Verdict("only if", same)]
    if not charged:
        return Verdict("protected", "protected: nothing is charged to this ledger")
    kind = worst([each.kind for each in charged])
    if kind == "protected":
        return Verdict(kind, f"protected: {said}, all charges together")
    reason = next(each.sentence for each in charged if each.kind == kind)
    return Verdict(kind, f"{reason}; all charges together, of a unit that is {ISSUER}: {said}")


def _of_learner(learner: Any, judge: _Judge) -> _Statement:
    guarantee: Guarantee = learner.guarantee
    # An edited state could name a budget that its noise does not meet.
    arguments = learner.get_params()
    if arguments.get("budget") is not None:
        guarantee.require(arguments["budget"])
    return judge(guarantee)


def _of_journal(file: Path, judge: _Judge) -> Iterator[_Statement]:
    """Yield the guarantees of all streams and of the ledger, read from a copy."""
    with opened_copy(file) as journal:
        for name in journal.streams():
            stream = journal.open(name)
            _ = stream.round  # loads its learner, and checks every seal
            yield judge(stream.guarantee)
        if journal.ledger is not None:
            yield from _of_ledger(journal.ledger, judge)


# ---- signed files --------------------------------------------------------------------------------


def open_envelope(record: Any) -> tuple[Any, SignedCertificate | None]:
    """Return the certificate in a record, and its valid signature, if any."""
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
    """Return the facts about a file for the statement without terms."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    about = {"File": file.name, "Generated on": today}
    if signed is None:
        return {**about, "Signed by": "no one: anyone may have written this file"}
    unchecked = "which was not checked here; dpoco verify --signer does"
    return {**about, **signed.about(), "Signed by": f"key {signed.signer.fingerprint}, {unchecked}"}


def read_public_key(text: str) -> PublicKey:
    """Return the public key in a text, or in the file with this name."""
    try:
        return PublicKey.parse(text)
    except ValueError:
        path = Path(text)
        if not path.is_file():
            raise
        return PublicKey.from_file(path)


# ---- files of journals ---------------------------------------------------------------------------

_SQLITE = b"SQLite format 3\0"


def is_journal(file: Path) -> bool | None:
    """Return whether a file is a journal; None if it is not a database."""
    with file.open("rb") as opened:
        if opened.read(len(_SQLITE)) != _SQLITE:
            return None
    # The header does not decide, because the last commits may still be in the log next to the file.
    try:
        with closing(_read_only(file)) as connection:
            (found,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error:
        return False
    return bool(found == SqliteStore.APPLICATION_ID)


def _read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)


def copy_journal(file: Path, to: Path) -> None:
    """Copy a journal and its key, as of one moment, to files that only the owner can read."""
    key = Path(f"{file}.key")
    if key.exists():
        refuse_readable(key, key.stat())  # an error for the copy would name a path in the copy
    # The file is first created with its mode, because SQLite would create one that others can read.
    os.close(os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(_read_only(file)) as source, closing(sqlite3.connect(to)) as target:
        # SQLite's backup shows one moment, even if the service continues to write.
        source.backup(target)
    # A service that passes its key itself has no such file.
    with suppress(FileNotFoundError):
        shutil.copy(key, f"{to}.key")


@contextmanager
def opened_copy(file: Path) -> Iterator[Journal]:
    """Open a copy of a journal, so that nothing is written to it; `StateError` if damaged."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "journal"
        try:
            copy_journal(file, copy)
            with Journal(copy, mark=False, encryption=state_key()) as journal:
                yield journal
        except (sqlite3.Error, JournalFenced):
            raise StateError("the journal is damaged") from None


COMMANDS = shell.commands(verify=verify_command)
