"""Claims: ``dpoco audit`` attacks them, ``explain``, ``sign`` and ``table`` state them."""

from __future__ import annotations

from dataclasses import asdict
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import dpoco
from dpoco.accounting.explanation import explain, facts, verdict
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.signatures import PublicKey, SignedCertificate, SigningKey
from dpoco.cli import _shell as shell
from dpoco.cli._settings import make_participation
from dpoco.cli._verify import about_file, judge_ledger, read_certificate
from dpoco.published import tables

if TYPE_CHECKING:
    from dpoco.audit import StandardCase

# All commands return 2 for bad input.
_EXIT_CODES = {"not refuted": 0, "refuted": 1, "no power": 3}


def audit_command(
    learner: str | None = shell.argument(
        None,
        "Name of a learner or mechanism, such as tree-frank-wolfe; see --list.",
        metavar="LEARNER",
    ),
    list_names: bool = shell.option(False, "Print all names, and nothing else.", "--list"),
    epsilon: shell.Epsilon = 1.0,
    delta: float | None = shell.option(
        None, "Privacy budget. [default: 0 where the learner allows it, else 1e-3]"
    ),
    horizon: int | None = shell.option(None, "Rounds. [default: a few, the hardest]"),
    dimension: int | None = shell.option(
        None, "Coordinates, experts, points or candidates. [default: a few]"
    ),
    published: str | None = shell.option(
        None,
        "printed or corrected: parameters of the learner's paper. Its claim is attacked where "
        "it is stronger than what is stated here for the same noise.",
        metavar="NAME",
    ),
    rounds_per_person: shell.RoundsPerPerson = None,
    separation: shell.Separation = None,
    trials: int | None = shell.option(
        None, "Runs on each of the two streams. [default: enough for power]"
    ),
    seed: int = shell.option(0, "Of all runs, at least 0."),
    figure: Path | None = shell.option(
        None, "Draw claimed and measured curves (needs matplotlib).", metavar="FILE"
    ),
    one_run: bool = shell.option(
        False,
        "Guess secret coins of many canaries from the decisions of one run, whose power is "
        "stated first; noise and coins are from the operating system.",
        "--one-run",
    ),
    canaries: int | None = shell.option(
        None, "With --one-run: rounds with a canary. [default: a quarter of the horizon]"
    ),
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

    if list_names:
        names = audit.standard_names()
        shell.show(as_json, {"schema": "dpoco.audit-names/1", "names": names}, "\n".join(names))
        return
    if learner is None:
        raise ValueError("name a learner, or ask for --list")
    # An audit may take an hour, so we first check whether the figure can be drawn.
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
    shell.show(as_json, {"schema": "dpoco.audit/2", **report.to_dict()}, str(report))
    if figure is not None:
        canvas = dpoco.plotting.new_figure((6.5, 5.5))
        dpoco.plotting.plot_audit(report, ax=canvas.subplots())
        canvas.savefig(figure)
        if not as_json:
            typer.echo(f"\nWritten: {figure}")
    raise typer.Exit(_EXIT_CODES[report.outcome])


def _one_run(case: StandardCase, canaries: int | None, seed: int, as_json: bool) -> int:
    """Play one run of a case with canaries, print the result, and return the exit code."""
    from dpoco import audit

    count = case.settings.get("horizon", 4) // 4 if canaries is None else canaries
    try:
        planned = audit.standard_one_run(case, canaries=count, seed=seed)
    except audit.NoPowerError as error:
        typer.echo(f"error: {error}", err=True)
        return _EXIT_CODES["no power"]
    if not as_json:
        # Stated before the outcome is known, so that it cannot be chosen to fit.
        typer.echo(f"Before the run: {planned.power}")
    report = planned.report(planned.play())
    about = {"schema": "dpoco.one-run-audit/1", "learner": case.learner}
    shell.show(as_json, {**about, **report.to_dict()}, str(report))
    return int(report.violated)


def explain_command(
    file: Path = shell.argument(
        ...,
        "JSON text of a guarantee (guarantee.to_json()), of a ledger (ledger.to_json()), or "
        "what dpoco sign, dpoco plan --json, dpoco run --json and dpoco publish write.",
        metavar="FILE",
    ),
    people: int | None = shell.option(
        None, "How many people there are. [default: as many as rounds]"
    ),
    as_json: shell.JsonFlag = False,
) -> None:
    """Say what a guarantee protects, against whom, and what it leaves out, in plain words.

    For lawyers, auditors and those concerned; with a warning if epsilon is above 10, or delta above
    one over the number of people. All numbers are bounds for every attack, from the guarantee's own
    privacy curve. JSON has more of them.

    For example:

    dpoco plan ctrl --horizon 100000 --dimension 10 --json > plan.json

    dpoco explain plan.json --people 5000
    """
    _, stated, signed = read_certificate(file)
    ledger = stated if isinstance(stated, Ledger) else None
    guarantee = stated.guarantee if isinstance(stated, Ledger) else stated
    if as_json:
        shown = {"schema": "dpoco.explanation/1", **facts(guarantee)}
        if ledger is not None:
            own = judge_ledger(ledger)
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
    lines = explain(guarantee, people=people, about=about_file(file, signed)).split("\n")
    if ledger is not None:
        # The verdict of the text, its first line and the indented ones below it, is on the sum
        # alone. The charges contain facts that the sum does not.
        rest = dropwhile(lambda line: line.startswith(" "), lines[1:])
        lines = [judge_ledger(ledger).sentence, *rest, *ledger.report().split("\n")]
    typer.echo("\n".join(map(shell.escape_controls, lines)))


_SIGNATURE = "dpoco.signature/1"


def sign_command(
    file: Path | None = shell.argument(
        None,
        "JSON text of a guarantee or ledger, or of a document that holds one, such as the "
        "output of dpoco plan --json.",
        metavar="[FILE]",
    ),
    key: Path | None = shell.option(
        None, "The secret key, which only its owner may read.", metavar="FILE"
    ),
    new_key: Path | None = shell.option(
        None,
        "Draw a key, write it to this new file (mode 0600), and print its public key. Nothing "
        "is signed.",
        metavar="FILE",
    ),
    title: str | None = shell.option(None, "Of the statement, in one line.", metavar="TEXT"),
    operator: str | None = shell.option(
        None, "Who runs the system and states the certificate.", metavar="TEXT"
    ),
    data_set: str | None = shell.option(None, "Which data it is about.", metavar="TEXT"),
    date: str | None = shell.option(
        None, "Day of the signature. [default: today, UTC]", metavar="YYYY-MM-DD"
    ),
    output: Path | None = shell.option(
        None, "A new file. [default: FILE with the ending .signed.json]", metavar="FILE"
    ),
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
    if new_key is not None:
        if (file, key, title, operator, data_set, date, output) != (None,) * 7:
            raise ValueError("--new-key draws a key and takes nothing else")
        _tell_key(SigningKey.create(new_key).public, new_key, as_json)
        return
    if file is None or key is None or title is None or operator is None or data_set is None:
        needed = {"FILE": file, "--key": key, "--title": title, "--operator": operator,
                  "--data-set": data_set}  # fmt: skip
        missing = ", ".join(name for name, value in needed.items() if value is None)
        raise ValueError(f"still needed: {missing}")
    record, stated, before = read_certificate(file)
    # A second signature around a signed certificate would give two signers.
    if before is not None:
        raise ValueError(f"{file} is signed: sign the certificate that it was made from")
    guarantee = stated.guarantee if isinstance(stated, Ledger) else stated
    signed = SignedCertificate.sign(
        record, SigningKey.from_file(key), title=title, operator=operator, data_set=data_set,
        date=date,
    )  # fmt: skip
    place = file.with_suffix(".signed.json") if output is None else output
    # "x" refuses to replace a file, such as an earlier signature.
    with place.open("x", encoding="ascii") as out:
        out.write(signed.to_json() + "\n")
    found = verdict(guarantee)
    about = {"file": str(place), "signer": str(signed.signer), "date": signed.date}
    said = f"{place}: signed by key {signed.signer.fingerprint} on {signed.date}"
    record = {"schema": _SIGNATURE, **about, "verdict": found.kind}
    shell.show(as_json, record, f"{said}\n{found.sentence}")


def _tell_key(public: PublicKey, place: Path, as_json: bool) -> None:
    about = {"public_key": str(public), "fingerprint": public.fingerprint}
    text = (
        f"{place}: a new secret key, which only you can read; keep a copy offline\n"
        f"public key:  {public}\nfingerprint: {public.fingerprint}"
    )
    shell.show(as_json, {"schema": _SIGNATURE, "file": str(place), **about}, text)


table_app = shell.group(
    "Print tables of the accounting, as Markdown or JSON.\n\nFor example:\n\ndpoco table noise"
)


@table_app.command(cls=shell.Command)
def noise(
    horizons: str = shell.option(
        "1000,10000,100000,1000000,10000000", "Numbers of rounds.", metavar="N,N,..."
    ),
    epsilons: str = shell.option("0.1,0.5,1,2,4,8", "Privacy budgets.", metavar="E,E,..."),
    as_json: shell.JsonFlag = False,
) -> None:
    """Noise of the published constants over exact accounting, as a Markdown table.

    Each cell: the ratio of the scales with a binary tree; the ratio on the noisiest released sum
    with the default sum; the epsilon that the published noise really spends. delta = 1/rounds.

    For example:

    dpoco table noise --horizons 1000,100000 --epsilons 1,4
    """
    entries = tables.noise_table(
        shell.whole_numbers("--horizons", horizons),
        shell.numbers("--epsilons", epsilons, positive=True),
    )
    rows = [asdict(entry) for entry in entries]
    record = {"schema": "dpoco.table/1", "table": "noise", "rows": rows}
    shell.show(as_json, record, tables.format_markdown(entries))


COMMANDS = shell.commands(
    audit=audit_command, explain=explain_command, sign=sign_command, table=table_app
)
