"""Settings of ``dpoco run`` and ``dpoco compare``: on the command line, in files, for a learner.

`Settings` declares every setting once: type, default, help. A command has flags for the ones that
most users need, and ``--set NAME=VALUE`` for all. A file of settings (TOML or JSON, or the report
of an earlier run) has them by name. Names that are not settings are options of the learner.
"""

from __future__ import annotations

import csv
import inspect
import io
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any

from typer.core import TyperCommand, TyperGroup

from dpoco._options import SENTENCES, Option, constructor_options
from dpoco._validation import LARGEST_HORIZON, Fields, choose_name, unknown
from dpoco.cli import _shell as shell
from dpoco.learners import Learner
from dpoco.learning.calibrated import Calibrated
from dpoco.learning.participation import Participation

Flag = tuple[str, Any, Any]  # name, type with its option, default


def setting(panel: str, metavar: str, text: str, *names: str, default: object = None) -> Any:
    """Return a field of `Settings`: its heading, the name of a value, and its help."""
    shown = shell.option(..., text, *names, metavar=metavar or None, panel=panel, shown=False)
    if default is dict:
        return field(default_factory=dict, metadata={"option": shown})
    return field(default=default, metadata={"option": shown})


# No heading is the name of a setting, because files contain both.
_DATA, _COLUMNS, _PRIVACY = "Table", "Columns", "Privacy"
LEARNER, FILES, _REPORT = "Learning", "Files", "Report"


@dataclass(frozen=True)
class Settings:
    """All settings of a run, with their defaults."""

    data: str | None = setting(_DATA, "FILE",
        "CSV, Parquet or NPZ file, one round a row; several as a pattern in quotes or a folder; "
        "- is standard input. Or a bundled stream, as in dpoco datasets.")  # fmt: skip
    format: str | None = setting(_DATA, "NAME",
        "csv, parquet or npz, whatever the file's name ends in.")  # fmt: skip
    header: bool | None = setting(_DATA, "",
        "Whether the first row names the columns. [default: yes, but a first row with a number "
        "is refused]")  # fmt: skip
    encoding: str = setting(_DATA, "NAME", "Of a CSV file, such as latin-1.", default="utf-8")
    separator: str | None = setting(_DATA, "CHARACTER",
        "Between cells: a character, or comma, semicolon, tab, space. [default: what the first "
        "two rows agree on]")  # fmt: skip
    decimal: str | None = setting(_DATA, "NAME",
        "point or comma. [default: point; after semicolons also comma]")  # fmt: skip
    skip_lines: int = setting(_DATA, "N", "Lines above the table.", default=0)
    synthetic: int | None = setting(_DATA, "ROUNDS",
        "Without data: simulate a regression of so many rounds.")  # fmt: skip

    label: str | None = setting(_COLUMNS, "COLUMN",
        "What is learned: yes or no, 0 or 1, a number in --range, or with --positive any "
        "text.")  # fmt: skip
    positive: str | None = setting(_COLUMNS, "VALUE",
        "The label that is the event; any other is its opposite.")  # fmt: skip
    features: str | None = setting(_COLUMNS, "A,B,...",
        "Columns to learn from. [default: all others that hold something]")  # fmt: skip
    range: tuple[str, ...] | None = setting(_COLUMNS, "COLUMN=LOW:HIGH",
        "Public range of a column, also of the label; repeatable. From knowledge, never from the "
        "records. LOW:HIGH alone is for all features.")  # fmt: skip
    categories: tuple[str, ...] | None = setting(_COLUMNS, "COLUMN=A,B,...",
        "Public list of the categories of a column, each of which becomes a feature.")  # fmt: skip
    missing: tuple[str, ...] | None = setting(_COLUMNS, "[COLUMN=]VALUE",
        "Public number for missing cells, or middle (of the range). [default: a row with a "
        "missing cell is an empty record]")  # fmt: skip
    intercept: bool = setting(_COLUMNS, "", "Append a constant feature.", default=True)
    person: str | None = setting(_COLUMNS, "COLUMN",
        "Whose record a row is. Records beyond --rounds-per-person are played as empty "
        "ones.")  # fmt: skip
    anonymous: bool = setting(_COLUMNS, "",
        "A row without a person is of a person who has no other row.", default=False)  # fmt: skip

    epsilon: float = setting(_PRIVACY, "E",
        "Privacy budget: smaller protects more. [default: 1]", default=1.0)  # fmt: skip
    delta: float | None = setting(_PRIVACY, "D", "Privacy budget. [default: 1/(10 horizon)]")
    horizon: int | None = setting(_PRIVACY, "ROUNDS",
        "Rounds that the guarantee covers; unknown is 10^12, with twice the noise of 10^6. "
        "[default: the rows there are]")  # fmt: skip
    rounds_per_person: int | None = setting(_PRIVACY, "N",
        "Protect all rounds of a person, who has at most N. [default: a round]")  # fmt: skip
    separation: int | None = setting(_PRIVACY, "N",
        "Two rounds of a person are at least N apart. [default: 1]")  # fmt: skip
    seed: int | None = setting(_PRIVACY, "N",
        "Reproducible noise, for tests: it voids the guarantee.")  # fmt: skip

    learner: str = setting(LEARNER, "NAME",
        "A learner of dpoco plan. [default: auto, the one of the least expected regret]",
        default="auto")  # fmt: skip
    drift: bool = setting(LEARNER, "",
        "The truth moves: the automatic choice is a learner that forgets.",
        default=False)  # fmt: skip
    loss: str = setting(LEARNER, "NAME",
        "logistic, squared or huber. [default: logistic]", default="logistic")  # fmt: skip
    p: float | None = setting(LEARNER, "P",
        "Decisions lie in an l_p ball, 1 to inf. [default: 2; 1 for "
        "polyhedral-frank-wolfe]")  # fmt: skip
    radius: float | None = setting(LEARNER, "R",
        "Of the ball. [default: Euclidean length 8 for the logistic loss, 1 "
        "otherwise]")  # fmt: skip
    feature_bound: float | None = setting(LEARNER, "LENGTH",
        "Longer records are shortened to this (after scaling). [default: sqrt(columns / 3), where "
        "a column of categories counts as three]")  # fmt: skip
    slope_bound: float | None = setting(LEARNER, "C",
        "Of the logistic loss that is learned from, 0.5 to 1, for noisy-ftrl and noisy-newton. "
        "[default: 1; of noisy-newton 0.5]")  # fmt: skip
    option: Mapping[str, Any] = setting(LEARNER, "",
        "Further options of the learner, as in dpoco plan LEARNER --help.",
        default=dict)  # fmt: skip

    checkpoint: str | None = setting(FILES, "FILE",
        "Keep the learner's state, and how it began. Secret, like the data, or encrypted by "
        "dpoco --key-file FILE run.")  # fmt: skip
    resume: bool = setting(FILES, "",
        "Go on with the learner in --checkpoint: all rows are new rounds for it.",
        "--resume", default=False)  # fmt: skip
    skip_played: bool = setting(FILES, "",
        "With resume: the rows begin with those that were played; skip these.",
        default=False)  # fmt: skip
    trust_columns: bool = setting(FILES, "",
        "With resume: accept a state that does not name its columns, as one that Python saved.",
        default=False)  # fmt: skip
    decision: str | None = setting(FILES, "FILE",
        "Write the model that the private run released, for dpoco predict. It may be "
        "published.")  # fmt: skip
    out: str = setting(FILES, "DIR",
        "Where report and figure go. [default: results]", default="results")  # fmt: skip
    output: str | None = setting(FILES, "FILE", "Write the report here too.")
    figure: bool = setting(FILES, "", "Draw the figure (needs matplotlib).", default=True)
    force: bool = setting(FILES, "", "Replace files of an earlier run.", "--force", default=False)

    repeats: int | None = setting(_REPORT, "N",
        "Private runs with independent noise, for evaluation. [default: 10; 1 with checkpoint or "
        "decision; 5 of compare]")  # fmt: skip
    baseline: bool = setting(_REPORT, "", "Of compare: also without noise.", default=True)
    full: bool = setting(_REPORT, "",
        "Print everything: noise, columns, the guarantee with its conditions.",
        "--full", default=False)  # fmt: skip
    progress: bool | None = setting(_REPORT, "",
        "Tell at rounds 1, 2, 4, ... how it goes. [default: on a terminal]")  # fmt: skip
    json: bool = setting(_REPORT, "", "Print JSON, and nothing else.", "--json", default=False)
    quiet: bool = setting(_REPORT, "", "Print nothing but errors.", "--quiet", "-q", default=False)

    def to_report(self) -> Fields:
        """Return the settings in a report: all except output paths and what is continued."""
        own = {name: value for name, value in asdict(self).items() if name not in _NOT_TOLD}
        own = {k: list(v) if isinstance(v, tuple) else v for k, v in own.items()}
        return {name: "inf" if value == math.inf else value for name, value in own.items()}


# Settings that a report does not contain, nor passes to another run.
_NOT_TOLD = (
    "checkpoint", "resume", "skip_played", "trust_columns", "decision", "out", "output", "figure",
    "force", "full", "progress", "json", "quiet",
)  # fmt: skip
# Settings that a resumed learner may change: its data, and how much of them to use.
_NOT_KEPT = (
    "data", "format", "header", "encoding", "separator", "decimal", "skip_lines", "horizon",
    "repeats", "seed",
)  # fmt: skip
OPTIONS = constructor_options(Settings)
SHOWN = {each.name: each.metadata["option"] for each in fields(Settings)}
COLUMN_TABLES = ("range", "categories", "missing")  # tables of columns in files

_CONFIG = shell.option(
    ..., "Settings from a TOML or JSON file (dpoco init writes one), or from the report of an "
    "earlier run. The command line wins.", "--config", metavar="FILE", panel=FILES,
)  # fmt: skip
_SET = shell.option(
    ..., "Any other setting, as dpoco init lists them, or option of the learner, as dpoco plan "
    "LEARNER --help does; repeatable.", "--set", metavar="NAME=VALUE", panel=LEARNER,
)  # fmt: skip
_DATA_ARGUMENT = shell.argument(
    ..., "A file, a bundled stream, or a file of settings (.toml).", metavar="[DATA]"
)


def help_text(name: str) -> str:
    """Return the help of a setting without the marks for terminals."""
    return str(SHOWN[name].help).replace("\\[", "[")


def _flags(names: Iterable[str]) -> list[Flag]:
    """Return the fields of a command's options: data, flags of these settings, config and set.

    They are None unless they are typed.
    """
    found: list[Flag] = [("data", Annotated[str | None, _DATA_ARGUMENT], None)]
    for name in names:
        kinds = OPTIONS[name].types
        # Numbers come as texts, so that flags, --set and files share one reader.
        kind: Any = bool if bool in kinds else list[str] if tuple in kinds else str
        found.append((name, Annotated[kind | None, SHOWN[name]], None))
    return [
        *found,
        ("set", Annotated[list[str] | None, _SET], None),
        ("config", Annotated[str | None, _CONFIG], None),
    ]


@dataclass(frozen=True)
class Asked:
    """Given settings by name, with their parsed values, in the order of `Settings`.

    All others have their defaults.
    """

    given: Fields

    @classmethod
    def of(cls, file: Fields, pairs: Iterable[str], typed: Fields) -> Asked:
        """Return the settings of a file, ``--set`` and flags; the last that names one wins."""
        given = dict(file)
        option: Fields = given.pop("option", {})
        for text in pairs:
            name, mark, value = text.partition("=")
            if not mark:
                raise ValueError(f"--set must be NAME=VALUE; got {text!r}")
            name = _plain(name)
            if name not in OPTIONS:
                option = {**option, name: value.strip()}
            # Ranges of columns add up: those of a file, and one more from the command line.
            elif tuple in OPTIONS[name].types:
                given[name] = (*given.get(name, ()), value.strip())
            else:
                given[name] = _read(name, value.strip())
        for name, value in typed.items():
            if isinstance(value, list):
                given[name] = (*given.get(name, ()), *value)
            elif value is not None:
                given[name] = _read(name, value)
        return cls({**given, **({"option": option} if option else {})})

    @property
    def settings(self) -> Settings:
        """All settings."""
        return Settings(**self.given)

    def going_on(self, begun: Fields) -> Asked:
        """Return these settings, which override those with which a saved learner began."""
        kept = {
            name: value if name == "option" else _read(name, value)
            for name, value in begun.items()
            if name in OPTIONS and name not in _NOT_KEPT and value is not None
        }
        return Asked({**kept, **self.given})


def _plain(name: str) -> str:
    return name.strip().replace("-", "_")


def _read(name: str, value: Any) -> Any:
    """Return the value of a setting, converted to its type."""
    option = OPTIONS[name]
    if name == "horizon" and value == "unknown":
        return LARGEST_HORIZON
    value = option.read(value)
    kinds = tuple(kind for kind in option.types if kind is not tuple)
    if tuple in option.types:
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        value = tuple(value) if fits else value
    # Bools come before numbers, because `True` is an `int`.
    elif isinstance(value, bool):
        fits = bool in kinds
    else:
        # 1 is valid for a number that may have a fraction.
        fits = isinstance(value, kinds) or (isinstance(value, int) and float in kinds)
    if not fits:
        raise ValueError(f"{name} must be {option.kind}; got {value!r}")
    return value


def read_file(path: Path, more: Collection[str] = ()) -> Fields:
    """Return the settings of a file, or of a run's report, by name; and the fields in `more`.

    Settings may be below headings. Ranges, categories and constants of columns are tables or lists
    of texts.
    """
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    record: Any = parse_file(path)
    if not isinstance(record, dict):
        raise ValueError(f"{path.name} must contain settings as NAME = VALUE")
    if "schema" in record:
        held = record.get("settings")
        command = held.get("command") if isinstance(held, dict) else None
        if not isinstance(command, dict):
            raise ValueError(f"{path.name} is a report without the settings it was made with")
        # An earlier report must not decide where files go, or what may be replaced.
        record = {name: value for name, value in command.items() if name not in _NOT_TOLD}
    panels = {each.rich_help_panel.lower() for each in SHOWN.values()}
    for heading in panels & {*record}:
        # A heading of a file is a table; a setting with that name would be a value.
        if isinstance(record[heading], dict):
            record |= record.pop(heading)
    found = {}
    for key, value in record.items():
        name = _plain(str(key))
        if name not in (*OPTIONS, *more):
            raise ValueError(_unknown_setting(str(key), [*OPTIONS, *more]))
        if value is None:
            continue
        if name in more:
            found[name] = value
            continue
        # {heat = [0, 90]} is heat=0:90 on the command line, so one reader handles both.
        if name in COLUMN_TABLES and isinstance(value, dict):
            value = [f"{column}={_text(each)}" for column, each in value.items()]
        elif isinstance(value, dict) != (name == "option"):
            raise ValueError(f"{path.name}: {key} must be a value, not a table")
        found[name] = value if name == "option" else _read(name, value)
    return found


def _unknown_setting(name: str, known: Collection[str]) -> str:
    """Return the message for an unknown setting; a list of all would be too long."""
    close = unknown("setting", name, known)
    if "did you mean" in close:
        return close
    return (
        f"no setting {name!r}: dpoco init lists the settings, and dpoco plan LEARNER --help the "
        "options of a learner"
    )


def _text(value: object) -> str:
    """Return a value of a table of columns as on the command line."""
    if not isinstance(value, list):
        return str(value)
    numbers = len(value) == 2 and not any(isinstance(each, str) for each in value)
    return ":".join(map(str, value)) if numbers else list_text(map(str, value))


def list_text(names: Iterable[str]) -> str:
    """Return names as one text for `read_list`; names that contain a comma are quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def read_list(text: str) -> list[str]:
    """Return the names in a text, separated by commas like the cells of a CSV file."""
    return [each.strip() for each in next(csv.reader([text], skipinitialspace=True), [])]


def parse_file(path: Path) -> Any:
    """Return the contents of a TOML or JSON file; `ValueError` for any other."""
    try:
        return _parse(path)
    except (ValueError, RecursionError) as error:
        line = f": {error}" if path.suffix == ".toml" else ""
        raise ValueError(f"{path.name} is not a {path.suffix[1:].upper()} file{line}") from None


def _parse(path: Path) -> Any:
    suffix = path.suffix.lower()
    data = path.read_bytes()
    # Windows editors begin UTF-8 with a mark, and the Windows shell writes reports in UTF-16.
    if suffix == ".json":
        return json.loads(data)
    if suffix != ".toml":
        # Not a `ValueError`, which `read_file` would treat as a malformed file.
        raise ImportError(f"{path.name}: the format must be .toml or .json")
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    return tomllib.loads(data.decode("utf-8-sig"))


def settings_command(
    name: str,
    names: Sequence[str],
    act: Callable[[Asked, Fields], None],
    fields: Sequence[Flag] = (),
) -> TyperCommand | TyperGroup:
    """Return a command with flags for settings; `act` is called with them and with `fields`.

    `fields` are more options, of text; those that are None are not passed to `act`, whose docstring
    is the help.
    """

    def read(parsed: object) -> None:
        typed = vars(parsed)
        values = {each: typed.pop(each) for each, *_ in fields}
        config, pairs = typed.pop("config"), typed.pop("set") or ()
        if str(typed["data"]).lower().endswith(".toml"):
            if config is not None:
                raise ValueError(
                    f"{typed['data']} and --config are both files of settings: pass one"
                )
            config = typed.pop("data")
        own = {} if config is None else read_file(Path(config), tuple(values))
        told = {name: own.pop(name) for name in values if name in own}
        asked = Asked.of(own, pairs, typed)
        act(asked, told | {k: v for k, v in values.items() if v is not None})

    options = make_dataclass(name, [*_flags(names), *fields])
    return shell.command(options, name, read, inspect.getdoc(act))


def refuse_useless(entry: Learner, asked: Settings) -> None:
    """Raise for a setting that the learner does not use, or that auto may not use."""
    # An ignored setting would seem to have an effect, so it is refused.
    if entry.name == "auto" and asked.option:
        own = min(asked.option)
        if own not in SENTENCES:
            raise ValueError(_unknown_setting(own, (*OPTIONS, *SENTENCES)))
        raise ValueError(f"{own} is an option of some learners: name one with --learner")
    for name in ("synthetic", "slope_bound"):
        if entry.plays == "batch" and getattr(asked, name) is not None:
            raise ValueError(f"{name.replace('_', '-')} is for learners of records")
    if entry.name == "noisy-newton" and asked.loss == "squared":
        raise ValueError(f"{entry.name} needs --loss logistic or huber")
    if asked.positive is not None and asked.loss != "logistic":
        raise ValueError("--positive is for --loss logistic: a regression has no event")
    if asked.positive == "":
        raise ValueError("--positive must be a text or a number")


def column_pairs(
    option: str, texts: Sequence[str] | None, form: str, *, bare: bool = False
) -> list[tuple[str, str]]:
    """Return names and the text after =; if `bare`, a text without a name is for all columns.

    `form` is how such a text is written, for the error.
    """
    found = []
    for text in texts or ():
        name, mark, rest = (part.strip() for part in text.partition("="))
        if not mark and bare:
            found.append(("", name))
        elif not (name and mark and (rest or bare)):
            raise ValueError(f"{option} must be {form}; got {text!r}")
        else:
            found.append((name, rest))
    return found


def parse_range(name: str, text: str) -> tuple[float, float]:
    """Return LOW and HIGH of a text "LOW,HIGH" or "LOW:HIGH"."""
    parts = text.replace(":", ",").split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise ValueError(f"{name} must be LOW:HIGH, two numbers; got {text!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"{name} must have LOW < HIGH, both finite; got {text!r}")
    return low, high


# Parts of a problem or a budget, which are not options.
_PROBLEM = {
    "domain", "loss", "lipschitz", "experts", "arms", "dimension", "horizon", "records", "budget",
}  # fmt: skip


def own_options(entry: Learner) -> dict[str, Option]:
    """Return the constructor options of a learner that commands take: those of calibration."""
    cls = entry.load()
    taken = {*SENTENCES} - _PROBLEM if issubclass(cls, Calibrated) else set()
    return {name: each for name, each in constructor_options(cls).items() if name in taken}


def takes_people(entry: Learner) -> bool:
    """Return whether a learner takes a participation."""
    return "participation" in constructor_options(entry.load())


def read_participation(asked: Settings) -> Participation | None:
    """Return how often one person may come; enforced if a column has the people."""
    if asked.person is not None and asked.rounds_per_person is None:
        raise ValueError("--person needs --rounds-per-person")
    if asked.anonymous and asked.person is None:
        raise ValueError("anonymous needs --person COLUMN")
    return make_participation(
        asked.rounds_per_person, asked.separation, enforced=asked.person is not None
    )


def make_participation(
    rounds_per_person: int | None, separation: int | None, *, enforced: bool = False
) -> Participation | None:
    """Return the rule from two options, or None without the first."""
    if rounds_per_person is None:
        # For a person with a single round, a distance between rounds has no meaning.
        if separation is not None:
            raise ValueError("separation needs --rounds-per-person")
        return None
    return Participation(
        rounds_per_person, 1 if separation is None else separation, enforced=enforced
    )


def read_options(entry: Learner, asked: Settings) -> Fields:
    """Return the given options, or raise for an option that the learner does not have."""
    known = own_options(entry)
    options: Fields = {}
    for name, value in asked.option.items():
        if name in OPTIONS or name not in known:
            choose_name(f"setting, nor option of {entry.name},", name, tuple(known))
        options[name] = known[name].read(value)
    rule = read_participation(asked)
    if rule is not None:
        if not takes_people(entry):
            raise ValueError(f"{entry.name} has no --rounds-per-person")
        options["participation"] = rule
    return options
