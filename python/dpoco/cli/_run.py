"""On a stream: ``dpoco run`` plays a learner, ``dpoco compare`` several at equal privacy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import dpoco
from dpoco._files import sole_user
from dpoco._validation import Fields
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.ranges import behind_ranges
from dpoco.cli import _shell as shell
from dpoco.cli._key import state_key
from dpoco.cli._problem import find_learners, make_games, split_budget
from dpoco.cli._render import (
    describe_drift,
    describe_loss,
    describe_shares,
    describe_spread,
    print_comparison,
    print_report,
)
from dpoco.cli._settings import LEARNER, Asked, Settings, read_participation, settings_command
from dpoco.cli._tables import read_saved
from dpoco.evaluation import Comparison, Game, RunReport, compare_private

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROWS_LEFT = 4  # exit code if a learner whose state is kept did not get all rows
_MOST = 0.5  # share of rows that teach nothing above which a note is printed
_RUN_FLAGS = (
    "label", "positive", "features", "range", "person", "epsilon", "delta", "horizon",
    "rounds_per_person", "learner", "loss", "checkpoint", "resume", "decision", "out", "force",
    "full", "json",
)  # fmt: skip
_COMPARE_FLAGS = (
    "label", "positive", "features", "range", "person", "delta", "horizon", "rounds_per_person",
    "loss", "out", "force", "json",
)  # fmt: skip


def load_learner(asked: Settings) -> Any:
    """Return the saved learner to continue, or None; refuse to overwrite a state by accident."""
    if asked.checkpoint is None:
        if asked.resume:
            raise ValueError("--resume needs --checkpoint FILE")
        return None
    checkpoint = Path(asked.checkpoint)
    if not asked.resume:
        # It may be all that is left of a budget.
        if checkpoint.exists():
            raise ValueError(f"{checkpoint} exists: add --resume to continue it, or remove it")
        return None
    return dpoco.load(checkpoint, key=state_key())


def check_writable(directory: Path, *files: str | None) -> None:
    """Check before a long run, and not after it, that the report can be written."""
    # The folder is created later, so the nearest existing one must be writable.
    nearest = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out must be a directory; {nearest} is not")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"--out: no permission to write in {nearest}")
    for file in files:
        if file is not None and not Path(file).absolute().parent.is_dir():
            raise ValueError(f"no such directory: {Path(file).parent}")


def run(asked: Asked, _: Fields) -> None:
    """Play a private learner on a stream and report how it compares.

    DATA is a file, a bundled stream (dpoco datasets), or a file of settings (dpoco init). The run
    is compared with the same learner without noise, and with the best fixed decision and the best
    constant prediction in hindsight. The report is for evaluation: it is computed from raw records.

    For example:

    dpoco run

    dpoco run events.csv --label alarm --range heat=0:90 --range open=0:1 --decision model.json

    dpoco run phishing --learner noisy-ftrl --epsilon 2 --set step-size=0.1 --set repeats=3

    dpoco run dpoco.toml

    dpoco run hour-2.csv --config dpoco.toml --resume

    dpoco run visits.csv --label paid --range 0:10 --rounds-per-person 10 --person user
    """
    settings = asked.settings
    checkpoint = None if settings.checkpoint is None else Path(settings.checkpoint)
    with shell.errors_in_one_line(checkpoint), shell.notes(settings.quiet):
        # A run may take hours, so all refusals come before it.
        out = Path(settings.out)
        check_writable(out, settings.output, settings.decision, settings.checkpoint)
        # Two runs that continue from one state would draw the same noise for different records.
        with nullcontext() if checkpoint is None else sole_user(checkpoint):
            _run(asked, out, checkpoint)


def _run(asked: Asked, out: Path, checkpoint: Path | None) -> None:
    """Play, report and store the results; no other run has the checkpoint."""
    settings = asked.settings
    if settings.skip_played and not settings.resume:
        raise ValueError("skip-played needs --resume")
    # Anyone who knows the seed can subtract the noise.
    if settings.decision is not None and settings.seed is not None:
        raise ValueError("--decision needs fresh noise: leave out the seed")
    resumed = load_learner(settings)
    saved = None if resumed is None else read_saved(resumed, settings.trust_columns)
    if saved is not None:
        settings = asked.going_on(saved.command).settings
    if settings.synthetic is not None and "loss" not in asked.given:
        # The simulated stream is a regression.
        settings = replace(settings, loss="squared")
    (entry,) = find_learners([settings.learner])
    if entry.plays == "batch" and checkpoint is not None:
        raise ValueError(f"{entry.name} makes one fit: there is nothing to --resume")
    # The guarantee was stated for the horizon at its beginning.
    if settings.horizon is None and resumed is not None:
        settings = replace(settings, horizon=resumed.horizon)
    (game,) = make_games([entry], settings, resumed, saved, searches=True)
    if not (settings.force or settings.resume):
        shell.check_new(out / "report.json", settings.output, settings.decision)
    report, models = _play(game, settings, checkpoint, resumed)
    # Before anything is written, so that a run that taught nothing leaves no report.
    check_learned(report)
    _note_stream(settings, report)
    report = replace(report, settings={**report.settings, "command": settings.to_report()})
    files = _write(report, settings)
    if settings.decision is not None:
        models[0].save(settings.decision)
        files.append(f"{settings.decision}, which may be published")
    if settings.json:
        typer.echo(report.to_json())
    elif not settings.quiet:
        print_report(report, files, full=settings.full)
    left = report.rows["beyond_horizon"]
    if checkpoint is not None and left:
        typer.echo(
            f"error: {left:,} rows were not played: the horizon of "
            f"{report.settings['horizon']:,} rounds is used up",
            err=True,
        )
        raise typer.Exit(_ROWS_LEFT)


def _play(
    game: Game, settings: Settings, checkpoint: Path | None, resumed: Any
) -> tuple[RunReport, list[dpoco.Model]]:
    """Return the report of a game, and the model that it released, if requested."""
    if game.described is not None:
        game = replace(game, described={**game.described, "command": settings.to_report()})
    models: list[dpoco.Model] = []
    published: list[dict[str, str]] = []
    covered = game.horizon if settings.horizon is None else settings.horizon
    if game.search is not None:  # its first rounds were not the learner's
        covered = game.horizon + game.search.horizon
    whole, people = (
        Budget._over(settings.epsilon, settings.delta, covered), read_participation(settings)
    )  # fmt: skip

    def with_search(guarantee: Guarantee) -> Guarantee:
        """Return the guarantee of the learner together with the search before it."""
        if game.search is None:
            return guarantee
        both = behind_ranges(game.search, guarantee, budget=whole)
        both = both if people is None else people.of(both)
        # The parts were planned from shares of the budget, but their composition decides.
        both.require(whole)
        return both

    def release(player: Any) -> None:
        published.append(
            {
                "drift": describe_drift(getattr(player, "choices", ())),
                "estimated_loss": describe_loss(getattr(player, "estimated_loss", None)),
                "covariance": describe_spread(getattr(player, "covariance", None)),
            }
        )
        if settings.decision is not None:
            model = dpoco.Model.of(player, game.records, settings.label or "label")
            models.append(replace(model, guarantee=with_search(model.guarantee)))

    # A state or a published model belongs to one learner, and each further run would spend again.
    alone = checkpoint is not None or settings.decision is not None
    usual = 1 if alone else 10
    count = usual if settings.repeats is None else settings.repeats
    # The search has its own part of the budget, which the learner must not spend again.
    budget = whole
    if game.search is not None:
        budget = split_budget(whole, people is not None)[1]
    silent = settings.quiet or settings.json
    lines = settings.progress is not False and not silent
    with shell.progress(silent, lines=settings.progress, table=lines) as (show, snapshot):
        report = compare_private(
            game, budget, repeats=count, seed=settings.seed, progress=show, released=release,
            snapshot=snapshot, checkpoint=checkpoint, resume=resumed,
            key=None if checkpoint is None else state_key(), skip_played=settings.skip_played,
        )  # fmt: skip
    # Repetitions are for evaluation; only the first learner's results are published.
    said = {name: text for name, text in (published or [{}])[0].items() if text}
    if said:
        report = replace(report, settings={**report.settings, **said})
    if game.search is not None:
        both = with_search(Guarantee.from_dict(report.guarantee))
        report = replace(report, guarantee=both.to_dict(), guarantee_text=str(both))
    return report, models


def _note_stream(settings: Settings, report: RunReport) -> None:
    """Print which stream was played if none was named and the shuttle stream is missing."""
    named = settings.data is not None or settings.synthetic is not None
    if not named and "task" in report.stream and report.stream["name"] != "shuttle":
        warnings.warn(
            f"no shuttle stream here (river 0.26, Python 3.11); playing {report.stream['name']}",
            shell.Note, stacklevel=1,
        )  # fmt: skip


def _write(report: RunReport, settings: Settings) -> list[str]:
    """Write a report and its figure; return the names of the files."""
    draw = dpoco.plotting.plot_run_report if settings.figure else None
    files = shell.write_report(report, Path(settings.out) / "report.json", draw)
    if settings.output is not None:
        Path(settings.output).write_text(report.to_json() + "\n", encoding="utf-8")
        files.append(settings.output)
    return files


def check_learned(report: RunReport) -> None:
    """Raise if a run learned from no record; print a note if it learned from less than half.

    A resumed learner has learned before. If its people come too often, a note is enough.
    """
    read = report.nonprivate_records
    taught = read["learned"] / max(1, read["records"])
    reasons = describe_shares({
        name: share for name, share in read["shares"].items() if name not in ("empty", "clipped")
    })  # fmt: skip
    if taught == 0.0 and not getattr(report, "first_round", 0):
        raise ValueError(f"nothing was learned, because all records were empty: {reasons}")
    if taught < _MOST:
        hint = ""
        if read["shares"].get("beyond_participation", 0.0) >= _MOST:
            hint = "; most people come more often than --rounds-per-person allows"
        warnings.warn(
            f"{100.0 * (1.0 - taught):.3g} % of the records were empty, so that little was "
            f"learned: {reasons}{hint}",
            shell.Note, stacklevel=1,
        )  # fmt: skip


_COMPARE_FIELDS = [
    ("learners", Annotated[str | None, shell.option(
        ..., "As for dpoco run, one-time fits too. auto is chosen for the middle one of the "
        "budgets. [default: auto,tree-frank-wolfe,noisy-ftrl]",
        metavar="NAME,NAME,...", panel=LEARNER,
    )], None),
    ("epsilons", Annotated[str | None, shell.option(
        ..., "Privacy budgets of one run. [default: 0.5,1,2,4]", metavar="E,E,...",
        panel="Privacy",
    )], None),
]  # fmt: skip


def compare(asked: Asked, values: Fields) -> None:
    """Compare learners on one stream, each at the same privacy.

    Every learner is held to the same epsilon, delta, rounds and neighbouring relation. Medians over
    repeated runs, with their ranges. One-time fits, which see all records beforehand, have rows of
    their own. For evaluation: computed from raw records.

    For example:

    dpoco compare --learners tree-frank-wolfe,noisy-ftrl --epsilons 1,4 --set seed=1

    dpoco compare shuttle --learners auto,noisy-newton
    """
    settings = asked.settings
    with shell.notes(settings.quiet):
        names = values.get("learners", "auto,tree-frank-wolfe,noisy-ftrl")
        epsilons = values.get("epsilons", "0.5,1,2,4")
        named = [name.strip() for name in names.split(",")]
        entries = find_learners(named)
        # Games are stored by the learner's name, so with equal names one would be lost.
        if len({entry.name for entry in entries}) < len(entries):
            raise ValueError("--learners names one of them twice")
        sizes = sorted(shell.numbers("--epsilons", epsilons, positive=True))
        if len(set(sizes)) < len(sizes):
            raise ValueError("--epsilons names one of them twice")
        out = Path(settings.out)
        if out.exists() and not out.is_dir():
            raise ValueError("--out must be a directory")
        told = {**settings.to_report(), "learners": names, "epsilons": epsilons}
        # Losses are comparable only in the same ball; auto is chosen for the middle budget.
        settings = replace(settings, p=settings.p or 2.0)
        if settings.data is None:
            # A comparison plays many runs, so it uses the shorter of the bundled streams.
            settings = replace(settings, data="phishing")
        settings = replace(settings, epsilon=sizes[len(sizes) // 2])
        games = make_games(entries, settings)
        if not settings.force:
            shell.check_new(out / "comparison.json")
        result = _compare(dict(zip(named, games, strict=True)), settings, sizes, told)
        files = shell.write_report(
            result, out / "comparison.json", _draw_comparison if settings.figure else None
        )
        if settings.json:
            typer.echo(result.to_json())
        elif not settings.quiet:
            print_comparison(result, files)


def _compare(
    games: dict[str, Game], settings: Settings, sizes: Sequence[float], told: Fields
) -> Comparison:
    """Return the comparison of games on the same stream at every budget."""
    first = next(iter(games.values()))
    why = next((game.chosen for game in games.values() if game.chosen), None)
    given = len(first.data[0])
    covered = given if settings.horizon is None else settings.horizon
    # A fit to rows beyond the horizon would see more than the learners it is compared with.
    rows = slice(min(covered, given))
    best = first.comparators(rows).fixed
    comparator = {name: best[name] for name in ("total_loss", "average_loss")}
    rule = read_participation(settings)
    people = {} if rule is None else {"participation": rule.to_dict()}
    budgets = [Budget._over(size, settings.delta, covered) for size in sizes]
    with shell.progress(settings.quiet or settings.json) as (show, _):
        result = dpoco.evaluation.compare(
            {name: game.build for name, game in games.items()},
            tuple(column[rows] for column in first.data),
            budgets=[*budgets, *([None] if settings.baseline else [])],
            comparator={"name": "best fixed decision", **comparator},
            repeats=5 if settings.repeats is None else settings.repeats,
            seed=settings.seed, progress=show,
            stream={**first.stream, "rounds": rows.stop, "beyond_horizon": given - rows.stop},
            settings={"horizon": covered, **people, "chosen": why, "command": told},
            persons=None if first.persons is None else first.persons[rows],
        )  # fmt: skip
    # Records beyond the limit of their person.
    flags = [traces[0]._beyond for traces in result.traces.values()]
    beyond = max((float(np.mean(each)) for each in flags if each is not None), default=0.0)
    if beyond:
        result = replace(result, stream={**result.stream, "beyond_participation": beyond})
    return result


def _draw_comparison(result: Comparison) -> Figure:
    axes = dpoco.plotting.plot_comparison(result, measure="average_loss")
    axes.set_title(
        f"{result.stream['name']}: {result.settings['horizon']:,} rounds, median and range "
        f"of {result.settings['repeats']} runs", loc="left", fontsize="medium",
    )  # fmt: skip
    return axes.figure.get_figure(root=True)


COMMANDS = {
    "run": settings_command("run", _RUN_FLAGS, run),
    "compare": settings_command("compare", _COMPARE_FLAGS, compare, _COMPARE_FIELDS),
}
