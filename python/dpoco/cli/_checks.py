"""What is claimed: ``dpoco audit`` and ``verify`` test it, ``explain`` says it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import dpoco
from dpoco._encryption import UnreadableError, is_encrypted
from dpoco._state import FRAME_SIGNATURE
from dpoco.accounting import Guarantee
from dpoco.accounting._records import of_json
from dpoco.accounting.explanation import explain, facts
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.signatures import PublicKey, SignatureError, is_signed
from dpoco.cli import _support as shell
from dpoco.cli._journals import is_journal, opened_copy
from dpoco.cli._options import participation_of
from dpoco.cli._signing import about_file, opened, origin_of, signer_of
from dpoco.errors import BudgetExceeded, StateError
from dpoco.privacy.losses.combined import Unknown

if TYPE_CHECKING:
    from dpoco.audit import StandardCase

SCHEMA, NAMES_SCHEMA = "dpoco.audit/2", "dpoco.audit-names/1"
ONE_RUN_SCHEMA = "dpoco.one-run-audit/1"
# 2 is bad input, of all commands.
_EXIT_CODES = {"not refuted": 0, "refuted": 1, "no power": 3}


@shell.documented_options
def audit_command(
    learner: str | None = None,
    list_names: bool = False,
    epsilon: float = 1.0,
    delta: float | None = None,
    horizon: int | None = None,
    dimension: int | None = None,
    calibration: str = "tight",
    rounds_per_person: int | None = None,
    separation: int | None = None,
    trials: int | None = None,
    seed: int = 0,
    figure: Path | None = None,
    one_run: bool = False,
    canaries: int | None = None,
    as_json: shell.JsonFlag = False,
) -> None:
    """Attack a learner's privacy claim: on one random tape, by exact likelihoods, by frequencies.

    Exit code 0 says that the claim is not refuted, by attacks with the power that the report names;
    1 that it is refuted; 2 stands for bad input; 3 that there was no power: nothing is said about
    the claim. No exit code says that a claim holds.

    For example:

    dpoco audit tree-frank-wolfe --trials 2000

    dpoco audit noisy-ftrl --rounds-per-person 3 --separation 2

    dpoco audit noisy-ftrl --one-run --epsilon 4 --delta 1e-6 --horizon 10000 --dimension 100

    dpoco audit --list

    Parameters
    ----------
    learner : argument LEARNER
        Name of a learner or mechanism, such as tree-frank-wolfe; see --list.
    list_names : --list
        Print all names, and nothing else.
    epsilon
        Privacy budget.
    delta
        Privacy budget. [default: 0 where the learner allows it, else 1e-3]
    horizon
        Rounds. [default: a few, the hardest]
    dimension
        Coordinates, experts, points or candidates. [default: a few]
    calibration : NAME
        tight, corrected or paper. With paper the published claim is attacked where it is stronger
        than what is stated here for the same noise.
    rounds_per_person
        The budget is for all rounds of a person, who has at most so many: all of them are attacked.
    separation
        With --rounds-per-person: two of them are at least so many rounds apart. [default: 1]
    trials
        Runs on each of the two streams. [default: enough for power]
    seed
        Of all runs, at least 0.
    figure : FILE
        Draw claimed and measured curves (needs matplotlib).
    one_run : --one-run
        Guess secret coins of many canaries from the decisions of one run, whose power is stated
        first; noise and coins are from the operating system.
    canaries
        With --one-run: rounds with a canary. [default: a quarter of the horizon]
    """
    from dpoco import audit

    with shell.errors_in_one_line():
        if list_names:
            names = audit.standard_names()
            if as_json:
                shell.print_json({"schema": NAMES_SCHEMA, "names": names})
            else:
                typer.echo("\n".join(names))
            return
        if learner is None:
            raise ValueError("name a learner, or ask for --list")
        shell.check_figure(figure)
        if seed < 0:
            raise ValueError(f"--seed must be at least 0; got {seed}")
        if canaries is not None and not one_run:
            raise ValueError("--canaries is for --one-run")
        if one_run:
            if figure is not None or trials is not None or rounds_per_person is not None:
                raise ValueError("--one-run takes no --trials, --figure and --rounds-per-person")
            case = audit.standard_case(
                learner, epsilon=epsilon, delta=delta, horizon=horizon, dimension=dimension,
                calibration=calibration,
            )  # fmt: skip
            raise typer.Exit(_one_run(case, canaries, seed, as_json))
        report = audit.audit_learner(
            learner, epsilon=epsilon, delta=delta, horizon=horizon, dimension=dimension,
            calibration=calibration, trials=trials, seed=seed,
            participation=participation_of(
                {"rounds_per_person": rounds_per_person, "separation": separation}
            ),
        )  # fmt: skip
        if as_json:
            shell.print_json({"schema": SCHEMA, **report.to_dict()})
        else:
            typer.echo(str(report))
        if figure is not None:
            canvas = dpoco.plotting.new_figure((6.5, 5.5))
            dpoco.plotting.plot_audit(report, ax=canvas.subplots())
            canvas.savefig(figure)
            if not as_json:
                typer.echo(f"\nWritten: {figure}")
    raise typer.Exit(_EXIT_CODES[report.outcome])


def _one_run(case: StandardCase, canaries: int | None, seed: int, as_json: bool) -> int:
    """Play one run of a case with canaries, print what it tells, and return the exit code."""
    from dpoco import audit

    count = case.settings.get("horizon", 4) // 4 if canaries is None else canaries
    try:
        planned = audit.standard_one_run(case, canaries=count, seed=seed)
    except audit.NoPowerError as error:
        typer.echo(f"error: {error}", err=True)
        return _EXIT_CODES["no power"]
    if not as_json:
        typer.echo(f"Before the run: {planned.power}")
    report = planned.report(planned.played())
    if as_json:
        shell.print_json({"schema": ONE_RUN_SCHEMA, "learner": case.learner, **report.to_dict()})
    else:
        typer.echo(str(report))
    return int(report.violated)


@shell.documented_options
def explain_command(
    file: Path, plain: bool = False, people: int | None = None, as_json: shell.JsonFlag = False
) -> None:
    """Say what a guarantee protects, against whom, what its numbers mean, and what it leaves out.

    All numbers are bounds for every attack, from the guarantee's own privacy curve.

    For example:

    dpoco plan ctrl --horizon 100000 --dimension 10 --json > plan.json

    dpoco explain plan.json

    dpoco explain plan.json --plain --people 5000

    Parameters
    ----------
    file : argument FILE
        JSON text of a guarantee (guarantee.to_json()), of a ledger (ledger.to_json()), what dpoco
        sign wrote, or any JSON
        object that holds a guarantee under that name, such as the output of dpoco plan --json.
    plain : --plain
        A statement for lawyers, auditors and those concerned, without terms; with a warning if
        epsilon is above 10, or delta above one over the number of people.
    people
        With --plain: how many people there are. [default: as many as rounds]
    """
    with shell.errors_in_one_line():
        try:
            record: Any = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise ValueError(f"{file} is not a JSON text") from None
        record, signed = opened(record)
        if _kind(record) is None and isinstance(record, dict):
            record = record.get("guarantee", record)
        ledger = Ledger.from_dict(record) if _kind(record) == "dpoco.ledger" else None
        guarantee = Guarantee.from_dict(record) if ledger is None else ledger.guarantee
        if as_json:
            shown = {"schema": "dpoco.explanation/1", **facts(guarantee)}
            if ledger is not None:
                left = ledger.remaining
                shown["ledger"] = {
                    "spent": ledger.spent,
                    "currency": ledger.currency,
                    "adaptive": ledger.adaptive,
                    "remaining": None if left is None else left.to_dict(),
                    "charges": [entry.label for entry in ledger.entries],
                }
            shell.print_json(shown)
            return
        about = about_file(file, signed)
        if not plain:
            if signed is not None:
                typer.echo("\n".join(f"{name}: {value}" for name, value in about.items()) + "\n")
            if ledger is not None:
                typer.echo(ledger.report() + "\n")
        typer.echo(explain(guarantee, plain=plain, people=people, about=about))


_VERIFICATION = "dpoco.verification/1"
_EXIT = {
    "signature refuted": 7,
    "verified": 0,
    "refuted": 1,
    "not covered": 1,
    "not one": 2,
    "unreadable": 2,
}


class _NotOneError(Exception):
    """The file is no guarantee, state, ledger or journal."""


class _NotCoveredError(Exception):
    """There is nothing to derive a statement from, or no formula that does."""


_Judge = Callable[[Any], str]


@shell.documented_options
def verify_command(
    files: list[Path],
    independent: bool = False,
    signer: str | None = None,
    as_json: shell.JsonFlag = False,
) -> None:
    """Compute again what files state, and refuse numbers that do not follow.

    A guarantee follows from the description of what was enforced and drawn, if it has one, or else
    from its own curve; a state and a journal from the learners in them; a ledger from its charges.
    Nothing is drawn, and a journal is read from a copy: whoever writes it goes on.

    Exit codes: 0 all verified, 1 something refuted or not covered, 2 something that is none of
    these, or whose key is missing, 7 something that --signer did not sign, or that was changed
    since.

    For example:

    dpoco plan ctrl --horizon 100000 --dimension 10 --json > plan.json

    dpoco verify plan.json

    dpoco verify --independent plan.json

    Parameters
    ----------
    files : argument FILE...
        Guarantees and ledgers as JSON, one or a list of them in a file, or any JSON object that
        holds a guarantee under that name; states of learners and mechanisms (learner.save);
        journals (SQLite files).
    independent : bool
        Prove every certificate by a program that shares no code with dpoco, in intervals that
        contain the exact values (extra verify); what it has no formula for is not covered. Of a
        ledger the charges are proved, and not their sum.
    signer : PUBLIC_KEY
        Every file must be signed by this key (dpoco sign), which you got from the signer and not
        with the file: the text ed25519:..., or a file that holds it.
    """
    judge = _independent_judge() if independent else _verified
    with shell.errors_in_one_line():
        public = None if signer is None else signer_of(signer)
        rows = [_row(file, judge, public) for file in files]
    if as_json:
        shell.print_json({"schema": _VERIFICATION, "files": rows})
    else:
        for row in rows:
            found = "" if row["statements"] is None else f" ({', '.join(row['statements'])})"
            typer.echo(f"{row['file']}: {row['verdict']}{found}: {row['reason']}".rstrip(": "))
            if "origin" in row:
                typer.echo(f"  Origin: {row['origin']}")
    codes = {_EXIT[row["verdict"]] for row in rows}
    raise typer.Exit(1 if 1 in codes else max(codes))


def _row(file: Path, judge: _Judge, signer: PublicKey | None) -> dict[str, Any]:
    """Return what is known of a file, as the command prints it."""
    row: dict[str, Any] = {"file": str(file), "statements": None, "reason": ""}
    try:
        row["origin"] = _origin(file, signer)
        row["statements"] = list(_statements(file, judge))
        row["verdict"] = "verified"
    except (_NotOneError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        row |= {"verdict": "not one", "reason": reason}
    except UnreadableError as error:
        row |= {"verdict": "unreadable", "reason": str(error)}
    except SignatureError as error:
        row |= {"verdict": "signature refuted", "reason": str(error)}
    except (StateError, BudgetExceeded) as error:
        row |= {"verdict": "refuted", "reason": str(error)}
    except _NotCoveredError as error:
        row |= {"verdict": "not covered", "reason": str(error)}
    return row


def _origin(file: Path, signer: PublicKey | None) -> str:
    """Return who can have written a file; `SignatureError` unless it is who was asked for."""
    data = file.read_bytes()
    try:
        record = of_json(data)
    except StateError:
        if signer is not None and data.lstrip()[:1] == b"{":
            raise SignatureError("the file is no JSON text: it was cut short or changed") from None
        record = None  # a state or a journal, which nobody signs
    return origin_of(opened(record)[1], signer)


def _verified(stated: Any) -> str:
    """Return a statement in a few words; `StateError` if it does not follow."""
    guarantee = stated if isinstance(stated, Guarantee) else Guarantee.from_dict(stated)
    if not guarantee.private:
        return "no privacy"
    if guarantee.description is None and isinstance(guarantee.loss.bare, Unknown):
        raise _NotCoveredError("a point alone: there is nothing from which it could follow")
    guarantee.verify()
    origin = "" if guarantee.description is not None else ", by its own curve"
    return f"epsilon {guarantee.epsilon:.6g} at delta {guarantee.delta:.3g}{origin}"


def _independent_judge() -> _Judge:
    """Return the same by the checker that shares no code (``check/check.py``, installed beside)."""
    try:
        checker = importlib.import_module("dpoco._independent")
    except ModuleNotFoundError as error:
        if error.name != "flint":
            raise
        reason = '--independent needs python-flint: pip install "dpoco[verify]"'
        raise typer.BadParameter(reason) from None

    def judged(stated: Any) -> str:
        record = json.loads(stated.to_json()) if isinstance(stated, Guarantee) else stated
        try:
            result, found = checker.check(record)
        except checker.MalformedError as error:
            raise _NotOneError(str(error)) from None
        if result == "not proved":
            raise StateError(f"{result}: {found}")
        if result == "not covered":
            raise _NotCoveredError(found)
        numbers = f"epsilon {float(record['epsilon']):.6g} at delta {record['delta']:.3g}"
        return f"{numbers}, proved" if result == "proved" else "no privacy"

    return judged


def _statements(file: Path, judge: _Judge) -> Iterator[str]:
    """Yield every statement of a file that follows; `StateError` for one that does not."""
    data = file.read_bytes()
    if data.startswith(FRAME_SIGNATURE) or is_encrypted(data):
        yield _of_learner(dpoco.load(file, key=shell.state_key()), judge)
    elif (journal := is_journal(file)) is not None:
        if not journal:
            raise _NotOneError("a database, but no journal")
        yield from _of_journal(file, judge)
    else:
        try:
            record = json.loads(data)
        except (ValueError, RecursionError):
            raise _NotOneError("no guarantee, state, ledger or journal") from None
        yield from _of_record(record, judge)


def _kind(record: Any) -> Any:
    return record.get("kind") if isinstance(record, dict) else None


def _of_record(record: Any, judge: _Judge) -> Iterator[str]:
    if isinstance(record, list) and record:
        for each in record:
            yield from _of_record(each, judge)
    elif _kind(record) == "dpoco.guarantee":
        yield judge(record)
    elif is_signed(record):
        yield from _of_record(opened(record)[0], judge)
    elif _kind(record) == "dpoco.ledger":
        yield from _of_ledger(Ledger.from_dict(record), judge)
    elif isinstance(record, dict) and isinstance(record.get("guarantee"), dict):
        yield from _of_record(record["guarantee"], judge)
    else:
        raise _NotOneError("no guarantee, state, ledger or journal")


def _of_ledger(ledger: Ledger, judge: _Judge) -> Iterator[str]:
    """Yield what a ledger states: its charges were added up when it was read."""
    total = f"epsilon {ledger.guarantee.epsilon:.6g} at delta {ledger.budget.delta:.3g}"
    if judge is _verified:
        yield f"{total}, all charges"
        return
    for entry in ledger.to_dict()["entries"]:
        if entry["guarantee"] is None:
            raise _NotCoveredError(f"a charge without a certificate: {entry['label']}")
        yield judge(entry["guarantee"])
    yield f"{total}, the sum of charges, by dpoco"


def _of_learner(learner: Any, judge: _Judge) -> str:
    guarantee: Guarantee = learner.guarantee
    arguments = learner.get_params()
    if arguments.get("budget") is not None and arguments.get("calibration") != "paper":
        guarantee.require(arguments["budget"])
    return judge(guarantee)


def _of_journal(file: Path, judge: _Judge) -> Iterator[str]:
    """Yield the guarantees of all streams and of the ledger, read from a copy."""
    with opened_copy(file) as journal:
        for name in journal.streams():
            stream = journal.open(name)
            _ = stream.round  # its learner is loaded, and every seal checked
            yield judge(stream.guarantee)
        if journal.ledger is not None:
            yield from _of_ledger(journal.ledger, judge)
