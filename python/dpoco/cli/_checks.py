"""Claims: ``dpoco audit`` and ``verify`` test them, ``explain`` explains them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import dpoco
from dpoco import evaluation
from dpoco._encryption import UnreadableError, is_encrypted
from dpoco._json import of_json, plain, plain_float
from dpoco.accounting import Guarantee
from dpoco.accounting.explanation import explain, facts
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.signatures import PublicKey, SignatureError, SignedCertificate, is_signed
from dpoco.accounting.verdict import ISSUER, Verdict, issuer_says, scope, verdict, worst
from dpoco.cli import _shell as shell
from dpoco.cli._journal_files import is_journal, opened_copy
from dpoco.cli._key import state_key
from dpoco.cli._options import make_participation
from dpoco.cli._plan_report import PLAN_SCHEMA
from dpoco.cli._signing import about_file, describe_origin, open_envelope, read_public_key
from dpoco.errors import BudgetExceeded, StateError
from dpoco.learning.model import Model
from dpoco.learning.state import FRAME_SIGNATURE
from dpoco.privacy.losses.combined import Unknown

if TYPE_CHECKING:
    from dpoco.audit import StandardCase

SCHEMA, NAMES_SCHEMA = "dpoco.audit/2", "dpoco.audit-names/1"
ONE_RUN_SCHEMA = "dpoco.one-run-audit/1"
# 2 is bad input, of all commands.
_EXIT_CODES = {"not refuted": 0, "refuted": 1, "no power": 3}


def audit_command(
    learner: Annotated[
        str | None,
        shell.argument(
            "Name of a learner or mechanism, such as tree-frank-wolfe; see --list.",
            metavar="LEARNER",
        ),
    ] = None,
    list_names: Annotated[
        bool, shell.option("Print all names, and nothing else.", "--list")
    ] = False,
    epsilon: shell.Epsilon = 1.0,
    delta: Annotated[
        float | None,
        shell.option("Privacy budget. [default: 0 where the learner allows it, else 1e-3]"),
    ] = None,
    horizon: Annotated[int | None, shell.option("Rounds. [default: a few, the hardest]")] = None,
    dimension: Annotated[
        int | None, shell.option("Coordinates, experts, points or candidates. [default: a few]")
    ] = None,
    published: Annotated[
        str | None,
        shell.option(
            "printed or corrected: parameters of the learner's paper. Its claim is attacked where "
            "it is stronger than what is stated here for the same noise.",
            metavar="NAME",
        ),
    ] = None,
    rounds_per_person: shell.RoundsPerPerson = None,
    separation: shell.Separation = None,
    trials: Annotated[
        int | None, shell.option("Runs on each of the two streams. [default: enough for power]")
    ] = None,
    seed: Annotated[int, shell.option("Of all runs, at least 0.")] = 0,
    figure: Annotated[
        Path | None,
        shell.option("Draw claimed and measured curves (needs matplotlib).", metavar="FILE"),
    ] = None,
    one_run: Annotated[
        bool,
        shell.option(
            "Guess secret coins of many canaries from the decisions of one run, whose power is "
            "stated first; noise and coins are from the operating system.",
            "--one-run",
        ),
    ] = False,
    canaries: Annotated[
        int | None,
        shell.option("With --one-run: rounds with a canary. [default: a quarter of the horizon]"),
    ] = None,
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
        if one_run and (figure, trials, rounds_per_person) != (None, None, None):
            raise ValueError("--one-run takes no --trials, --figure and --rounds-per-person")
        case = audit.standard_case(
            learner, epsilon=epsilon, delta=delta, horizon=horizon, dimension=dimension,
            published=published, participation=make_participation(rounds_per_person, separation),
        )  # fmt: skip
        if one_run:
            raise typer.Exit(_one_run(case, canaries, seed, as_json))
        report = audit.audit_learner(case, trials=trials, seed=seed)
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


def explain_command(
    file: Annotated[
        Path,
        shell.argument(
            "JSON text of a guarantee (guarantee.to_json()), of a ledger (ledger.to_json()), or "
            "what dpoco sign, dpoco plan --json, dpoco run --json and dpoco publish write.",
            metavar="FILE",
        ),
    ],
    plain: Annotated[
        bool,
        shell.option(
            "A statement for lawyers, auditors and those concerned, without terms; with a warning "
            "if epsilon is above 10, or delta above one over the number of people.",
            "--plain",
        ),
    ] = False,
    people: Annotated[
        int | None,
        shell.option("With --plain: how many people there are. [default: as many as rounds]"),
    ] = None,
    as_json: shell.JsonFlag = False,
) -> None:
    """Say what a guarantee protects, against whom, what its numbers mean, and what it leaves out.

    All numbers are bounds for every attack, from the guarantee's own privacy curve.

    For example:

    dpoco plan ctrl --horizon 100000 --dimension 10 --json > plan.json

    dpoco explain plan.json

    dpoco explain plan.json --plain --people 5000
    """
    with shell.errors_in_one_line():
        _, stated, signed = read_certificate(file)
        ledger = stated if isinstance(stated, Ledger) else None
        guarantee = stated.guarantee if isinstance(stated, Ledger) else stated
        if as_json:
            shown = {"schema": "dpoco.explanation/1", **facts(guarantee)}
            if ledger is not None:
                *_, total = _of_ledger(ledger, _verify)
                own = total.verdict
                shown |= {"verdict": own.kind, "sentence": own.sentence}
                left = ledger.remaining
                shown["ledger"] = {
                    "spent": ledger.spent,
                    "currency": ledger.currency,
                    "adaptive": ledger.adaptive,
                    "remaining": None if left is None else left.to_dict(),
                    "charges": [entry.label for entry in ledger.entries],
                }
            if signed is not None:
                shown["signed"] = signed.about()
            shell.print_json(shown)
            return
        about = about_file(file, signed)
        if not plain and signed is not None:
            typer.echo("\n".join(f"{name}: {value}" for name, value in about.items()) + "\n")
        text = explain(guarantee, plain=plain, people=people, about=about)
        if ledger is not None:  # whose charges say what the sum alone does not
            *_, total = _of_ledger(ledger, _verify)
            typer.echo(total.verdict.sentence)
            if not plain:
                typer.echo(f"\n{ledger.report()}\n")
            rest = dropwhile(lambda line: line.startswith(" "), text.split("\n")[1:])
            text = "\n".join(rest)
        typer.echo(text)


_VERIFICATION = "dpoco.verification/1"
# The worst of several comes first; kinds of verdicts have their own codes.
_EXIT = {"signature refuted": 7, "refuted": 1, "not covered": 1, "not verified": 1, "not one": 2,
         "unreadable": 2, "not protected": 6, "only if": 5, "verified": 0}  # fmt: skip
# What else a plan holds than its guarantee; other documents of dpoco are read by themselves.
_PLAN = {"schema", "learner", "class", "problem", "budget", "regret", "regret_bound_per_round",
         "useful", "noise", "memory", "notes", "parameters", "guarantee"}  # fmt: skip
_SETUP = (
    "this ran as it is described here: the noise was fresh and secret, the settings were fixed "
    "beforehand"
)


class NotOneError(Exception):
    """The file is no guarantee, state, ledger or journal."""


class _NotCoveredError(Exception):
    """There is nothing to derive a statement from, or no formula that does."""


class _Statement(NamedTuple):
    """The statement of a file in a few words, its verdict, and the guarantee."""

    words: str
    verdict: Verdict
    guarantee: Guarantee | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a reader may rely on, and what only the issuer says."""
        own = {"verdict": self.verdict.kind, "sentence": self.verdict.sentence}
        if self.guarantee is None:
            return own
        g = self.guarantee
        return own | {
            "epsilon": plain_float(g.epsilon), "delta": g.delta, "unit": g.unit,
            "change": g.change, "view": g.view, "horizon": g.horizon,
            "person": None if g.person is None else list(g.person),
            "conditions": list(g.derived),
            "stated_by_the_issuer": {**_state_setup(g), **plain(issuer_says(g))},
        }  # fmt: skip


_Judge = Callable[[Any], _Statement]


def verify_command(
    files: Annotated[
        list[Path],
        shell.argument(
            "Guarantees and ledgers as JSON, one or a list of them in a file; what dpoco plan, run "
            "and publish print; states of learners and mechanisms (learner.save); journals (SQLite "
            "files).",
            metavar="FILE...",
        ),
    ],
    independent: Annotated[
        bool,
        shell.option(
            "Prove every certificate by a program that shares no code with dpoco, in intervals "
            "that contain the exact values (extra verify); what it has no formula for is not "
            "covered. Of a ledger the charges are proved, and not their sum."
        ),
    ] = False,
    signer: Annotated[
        str | None,
        shell.option(
            "Every file must be signed by this key (dpoco sign), which you got from the signer and "
            "not with the file: the text ed25519:..., or a file that holds it.",
            metavar="PUBLIC_KEY",
        ),
    ] = None,
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
    with shell.errors_in_one_line():
        public = None if signer is None else read_public_key(signer)
        rows = [_row(file, judge, public) for file in files]
    if as_json:
        shown = [row | {"certificates": [each.to_dict() for each in found]} for row, found in rows]
        shell.print_json({"schema": _VERIFICATION, "files": shown})
    else:
        for row, found in rows:
            typer.echo("\n".join(_lines(row, found)))
    verdicts = [row["verdict"] for row, _ in rows]
    raise typer.Exit(next((_EXIT[name] for name in _EXIT if name in verdicts), 0))


def _row(
    file: Path, judge: _Judge, signer: PublicKey | None = None
) -> tuple[dict[str, Any], list[_Statement]]:
    """Return what is known of a file, as the command prints it, and its statements."""
    row: dict[str, Any] = {"file": str(file), "statements": None, "reason": ""}
    found: list[_Statement] = []
    try:
        origin = _origin(file, signer)
        found = list(_statements(file, judge))
        kind = worst([each.verdict.kind for each in found])
        sentence = next(each.verdict.sentence for each in found if each.verdict.kind == kind)
        row["statements"] = [each.words for each in found]
        row["verdict"] = "verified" if kind == "protected" else kind
        row |= {"sentence": sentence, "origin": origin}
    except (NotOneError, OSError) as error:
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
    return row, found if row["statements"] is not None else []


def _origin(file: Path, signer: PublicKey | None) -> str:
    """Return who can have written a file; `SignatureError` unless it is who was asked for."""
    data = file.read_bytes()
    try:
        record = of_json(data)
    except StateError:
        if signer is not None and data.lstrip()[:1] == b"{":
            raise SignatureError(
                "the file is not valid JSON: it was cut short or changed"
            ) from None
        record = None  # a state or a journal, which have no signature
    return describe_origin(open_envelope(record)[1], signer)


def _lines(row: dict[str, Any], found: list[_Statement]) -> Iterator[str]:
    """Yield the verdict on a file, and what it rests on."""
    if row["statements"] is None:
        yield f"{row['file']}: {row['verdict']}: {row['reason']}".rstrip(": ")
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


def _state_setup(g: Guarantee) -> dict[str, str]:
    """Return the issuer's word on the set-up; what says of itself that it is seeded gives none."""
    return {} if g.seeded else {"configuration": _SETUP}


def _in_line(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_in_line(each)}" for name, each in value.items())
    if isinstance(value, list):
        return "; ".join(map(_in_line, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _verify(stated: Any) -> _Statement:
    """Return the statement of a certificate; `StateError` if it does not follow."""
    g = stated if isinstance(stated, Guarantee) else Guarantee.from_dict(stated)
    found = verdict(g)
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
    """Return the same by the checker that shares no code (``check/check.py``, also installed)."""
    try:
        checker = importlib.import_module("dpoco._independent")
    except ModuleNotFoundError as error:
        if error.name != "flint":
            raise
        reason = '--independent needs python-flint: pip install "dpoco[verify]"'
        raise typer.BadParameter(reason) from None

    def judge_alone(stated: Any) -> _Statement:
        given = stated if isinstance(stated, Guarantee) else None
        record = held = json.loads(given.to_json()) if given is not None else stated
        with suppress(StateError):
            # Numbers that only earlier versions repeat are compared by dpoco, and not there.
            held = Guarantee.from_dict(record).to_dict()
        try:
            result, found = checker.check({n: v for n, v in record.items() if n in held})
        except (checker.MalformedError, RecursionError) as error:
            raise NotOneError(str(error)) from None
        if result == "not proved":
            raise StateError(f"{result}: {found}")
        if result == "not covered":
            raise _NotCoveredError(found)
        own = _verify(stated if given is None else given)
        if own.verdict.kind != _KINDS[result]:
            raise StateError(f"dpoco says {own.verdict.kind!r}, the independent checker {result!r}")
        return own._replace(words=own.words + ", proved" * (result != "NOT PROTECTED"))

    return judge_alone


def _statements(file: Path, judge: _Judge) -> Iterator[_Statement]:
    """Yield every statement of a file that follows; `StateError` for one that does not."""
    data = file.read_bytes()
    if data.startswith(FRAME_SIGNATURE) or is_encrypted(data):
        yield _of_learner(dpoco.load(file, key=state_key()), judge)
    elif (journal := is_journal(file)) is not None:
        if not journal:
            raise NotOneError("the file is a database, but not a journal")
        yield from _of_journal(file, judge)
    else:
        try:
            record = of_json(data)
        except StateError:
            raise NotOneError("the file is not a guarantee, state, ledger or journal") from None
        yield from _of_record(record, judge)


def read_certificate(
    file: Path,
) -> tuple[dict[str, Any], Guarantee | Ledger, SignedCertificate | None]:
    """Return the record of what a file of JSON states, the guarantee or ledger, and its signature.

    `ValueError` if it states nothing, `StateError` if that does not follow.
    """
    try:
        record: Any = of_json(file.read_bytes())
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


def certificate_kind(record: Any) -> Any:
    return record.get("kind") if isinstance(record, dict) else None


def _of_record(record: Any, judge: _Judge) -> Iterator[_Statement]:
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


def find_certificate(record: Any) -> Any:
    """Return the guarantee that a document of dpoco holds; anybody else's fields are refused."""
    schema = str(record.get("schema")) if isinstance(record, dict) else ""
    if schema.startswith("dpoco.model/"):
        return Model.from_dict(record).guarantee
    try:
        if schema == evaluation.RunReport.schema:
            evaluation.RunReport.from_dict(record)
        elif schema != PLAN_SCHEMA or not {*record} <= _PLAN:
            raise ValueError("the file is not a guarantee, state, ledger or journal")
    except ValueError as error:
        raise NotOneError(str(error)) from None
    if certificate_kind(record.get("guarantee")) != "dpoco.guarantee":
        raise NotOneError("the file contains no guarantee")
    return record["guarantee"]


def _of_ledger(ledger: Ledger, judge: _Judge) -> Iterator[_Statement]:
    """Yield what a ledger states, and each of its charges, added up when it was read."""
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


def _of_sum(ledger: Ledger, charged: list[Verdict]) -> Verdict:
    """Return the verdict on a sum: the worst of the charges, of which it is computed again."""
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
    arguments = learner.get_params()
    if arguments.get("budget") is not None:
        guarantee.require(arguments["budget"])
    return judge(guarantee)


def _of_journal(file: Path, judge: _Judge) -> Iterator[_Statement]:
    """Yield the guarantees of all streams and of the ledger, read from a copy."""
    with opened_copy(file) as journal:
        for name in journal.streams():
            stream = journal.open(name)
            _ = stream.round  # its learner is loaded, and every seal checked
            yield judge(stream.guarantee)
        if journal.ledger is not None:
            yield from _of_ledger(journal.ledger, judge)
