"""Situations with files and the command line that public reports tell of, with right values.

The inputs are our own; see the table "Files and command line" of the reports that were collected.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

import dpoco
from dpoco.datasets import FileFormat, chunks, load_file

pytest.importorskip("typer")

NAMES = ["temp", "load", "alarm"]
RANGES = ("--range", "temp=0:40", "--range", "load=0:1")
ROWS = 400


def sensors(rows=ROWS, seed=3):
    """Rows of temperature, load and alarm, of which both columns are causes."""
    generator = np.random.default_rng(seed)
    temperature, load = generator.uniform(0.0, 40.0, rows), generator.uniform(0.0, 1.0, rows)
    alarm = (temperature / 40.0 + 0.7 * load > 0.9).astype(int)
    return temperature.round(1), load.round(3), alarm


TEMP, LOAD, ALARM = sensors()


def text(columns=(TEMP, LOAD, ALARM), names=NAMES, mark=","):
    """The text of a CSV file."""
    rows = (mark.join(map(str, row)) for row in zip(*columns, strict=True))
    return "\n".join([mark.join(names), *rows]) + "\n"


def gaps(column, share, seed=9):
    """A column as texts, of which a share is missing."""
    missing = np.random.default_rng(seed).random(len(column)) < share
    return ["" if gone else str(value) for value, gone in zip(column, missing, strict=True)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory, which is the test's own, with the file that all others are like."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.csv").write_text(text())
    return tmp_path


@pytest.fixture
def run(place):
    """Run a command in this process: what it printed, and the report that it wrote."""
    from typer.testing import CliRunner

    from dpoco.cli._app import app

    def call(*words, code=0):
        quick = []
        if words[0] in ("run", "compare"):
            quick = ["--set", "figure=false", "--force"]
            if not {"--checkpoint", "--decision"} & {*words}:
                quick += ["--set", "seed=1", "--set", "repeats=1"]
        result = CliRunner().invoke(app, [*map(str, words), *quick])
        assert result.exit_code == code, result.output
        if code == 2:
            assert result.stdout == ""
            assert result.stderr.startswith("error: ")
            assert result.stderr.count("\n") == 1
        report = place / "results" / "report.json"
        found = json.loads(report.read_text()) if report.exists() else None
        return SimpleNamespace(out=result.stdout, err=result.stderr, report=found)

    return call


@pytest.fixture
def loss(run):
    """Run on a file: average loss of the learner without noise."""

    def call(file, *words):
        ran = run("run", file, "--label", "alarm", *RANGES, *words)
        value = ran.report["nonprivate"]["average_losses"][0]
        assert math.isfinite(value)
        return value

    return call


@pytest.fixture
def usual(loss):
    """Average loss on the plain file."""
    return loss("plain.csv")


# ---- labels --------------------------------------------------------------------------------------


def test_a_count_is_a_quantity_and_is_asked_about(run, place):
    """Over a second: the choice among learners of a regression."""
    counts = (100.0 * LOAD + TEMP).round().astype(int)
    (place / "day.csv").write_text(text((TEMP, LOAD, counts), ["temp", "load", "cnt"]))
    common = ("run", "day.csv", "--label", "cnt", *RANGES)
    said = run(*common, code=2).err
    for wanted in ("--loss squared --range cnt=LOW:HIGH", "--positive VALUE", "probability"):
        assert wanted in said
    ran = run(*common, "--loss", "squared", "--range", "cnt=0:140")
    assert ran.report["stream"]["task"] == "regression"
    assert (
        ran.report["nonprivate"]["average_losses"][0]
        < 0.3 * (ran.report["best_constant"]["average_loss"])
    )


CODES = {  # what stands for no and yes
    "one and two": ("1", "2"), "signs": ("-1", "1"), "none and five": ("0", "5"),
    "words": ("bad", "good"), "up and down": ("DOWN", "UP"), "ok and fail": ("ok", "fail"),
}  # fmt: skip


@pytest.mark.parametrize(("no", "yes"), CODES.values(), ids=CODES)
def test_other_codes_are_asked_about_and_the_event_is_named(run, loss, usual, place, no, yes):
    (place / "coded.csv").write_text(text((TEMP, LOAD, np.where(ALARM, yes, no))))
    said = run("run", "coded.csv", "--label", "alarm", *RANGES, code=2).err
    assert "--positive VALUE" in said
    assert loss("coded.csv", "--positive", yes) == usual
    if no.lstrip("-").isdigit():
        assert loss("coded.csv", "--range", f"alarm={no}:{yes}") == usual


@pytest.mark.parametrize(("no", "yes"), [("0", "1"), ("no", "YES"), ("f", "t"), ("false", "True")])
def test_yes_and_no_need_no_more_words(loss, usual, place, no, yes):
    (place / "plain.csv").write_text(text((TEMP, LOAD, np.where(ALARM, yes, no))))
    assert loss("plain.csv") == usual


def test_stars_and_classes_of_texts_are_asked_about(run, place):
    stars = 1 + np.digitize(TEMP, [8, 16, 24, 32])
    (place / "stars.csv").write_text(text((TEMP, LOAD, stars)))
    assert "--positive VALUE" in run("run", "stars.csv", "--label", "alarm", *RANGES, code=2).err
    kinds = np.array(["cold", "mild", "warm", "hot", "burning"])[stars - 1]
    (place / "kinds.csv").write_text(text((TEMP, LOAD, kinds)))
    common = ("run", "kinds.csv", "--label", "alarm", *RANGES)
    said = run(*common, code=2).err
    assert "a run for each class" in said
    listed = run(*common, "--set", "categories=alarm=cold,mild,warm,hot", code=2).err
    assert "--positive VALUE for alarm, one class against all others" in listed


def test_labels_that_begin_as_zero_and_one_are_held_to_it(run, place):
    """A count that is small in the first thousand rows."""
    temp, load, alarm = sensors(1100)
    (place / "late.csv").write_text(text((temp, load, np.where(np.arange(1100) < 1050, alarm, 7))))
    common = ("run", "late.csv", "--label", "alarm", *RANGES)
    said = run(*common, code=2).err
    assert "late.csv, record 1051: the label 'alarm' is neither 0 nor 1" in said


def test_a_positive_label_that_never_comes_is_no_event(run, loss, place):
    (place / "odd.csv").write_text(text((TEMP, LOAD, np.where(ALARM, "bad", "good"))))
    assert loss("odd.csv", "--positive", "terrible") < 0.2
    words = ("run", "odd.csv", "--label", "alarm", *RANGES, "--positive", "terrible")
    assert "note: no alarm of odd.csv is 'terrible'" in run(*words).err
    for more, said in (
        (("--loss", "squared"), "--positive is for --loss logistic"),
        (("--range", "alarm=0:1"), "exclude each other"),
    ):
        words = ("run", "odd.csv", "--label", "alarm", *RANGES, "--positive", "bad", *more)
        assert said in run(*words, code=2).err


# ---- columns without values, gaps, averages ------------------------------------------------------


@pytest.mark.parametrize(
    "names", ["temp,load,alarm,", "temp,load,alarm", "temp,load,alarm,remarks"]
)
def test_a_separator_at_the_end_of_rows_or_an_empty_column(run, loss, usual, place, names):
    rows = text().splitlines()[1:]
    (place / "ends.csv").write_text("\n".join([names, *(row + "," for row in rows)]) + "\n")
    assert loss("ends.csv") == usual
    ran = run("run", "ends.csv", "--label", "alarm", *RANGES)
    run("run", "ends.csv", "--label", "alarm", code=2)  # one line, without a note
    left = {"temp,load,alarm,": "column 4", "temp,load,alarm,remarks": "remarks"}.get(names)
    assert ("left out" in ran.err) == (left is not None)
    assert left is None or left in ran.err
    assert ran.report["stream"]["feature_names"] == ["temp", "load", "constant"]
    assert load_file("ends.csv", label="alarm").feature_names == ("temp", "load")


@pytest.mark.parametrize("kept", ["--decision", "--checkpoint"])
def test_no_record_decides_which_columns_a_model_names(run, place, kept):
    # Neighbours: in one of them a single record has a value. Both are asked the same.
    names = ["temp", "load", "rare", "alarm"]
    without, alone = [""] * ROWS, [5.0, *[""] * (ROWS - 1)]
    words = ("--label", "alarm", *RANGES, "--range", "0:10", "--epsilon", 9)
    (place / "without.csv").write_text(text((TEMP, LOAD, without, ALARM), names))
    said = run("run", "without.csv", *words, kept, "kept", code=2).err
    assert "rare" in said
    assert "--features" in said
    assert not (place / "kept").exists()
    for name, column in (("without", without), ("alone", alone)):
        (place / f"{name}.csv").write_text(text((TEMP, LOAD, column, ALARM), names))
        run("run", f"{name}.csv", *words, "--features", "temp,load", kept, f"{name}.kept")


def test_an_empty_column_that_is_named_is_asked_about(run, place):
    (place / "empty.csv").write_text(text((TEMP, [""] * ROWS, ALARM)))
    common = ("run", "empty.csv", "--label", "alarm", *RANGES)
    assert "--set missing=COLUMN=VALUE" in run(*common, code=2).err
    ran = run(*common, "--set", "missing=load=0.5")
    assert ran.report["nonprivate_records"]["shares"]["filled"] == 1.0


def test_nothing_is_learned_from_nothing(run, place):
    """Labels that are all missing; and rows of which each lacks something, but another thing."""
    odd = np.arange(ROWS) % 2 == 1
    words = ("--label", "alarm", *RANGES, "--decision", "model.json", "--checkpoint", "state")
    for name, columns, said in (
        ("gone", (TEMP, LOAD, [""] * ROWS), "the first thousand rows of alarm do not"),
        ("either", (np.where(odd, TEMP.astype(str), ""), np.where(odd, "", "1"), ALARM),
         "nothing can be learned from either.csv"),
    ):  # fmt: skip
        (place / f"{name}.csv").write_text(text(columns))
        assert said in run("run", f"{name}.csv", *words, code=2).err
    who = text((TEMP, LOAD, ALARM, ["ann"] * ROWS), [*NAMES, "who"])
    (place / "ann.csv").write_text(who)
    rule = ("--rounds-per-person", 1, "--person", "who", "--horizon", 3 * ROWS, "--checkpoint")
    learner = ("run", "ann.csv", "--label", "alarm", *RANGES, "--learner", "noisy-ftrl")
    run(*learner, *rule, "anns")
    again = run("run", "ann.csv", "--checkpoint", "anns", "--resume")
    assert "note: 100 % of the records were empty" in again.err
    assert "100 % beyond the rule of --rounds-per-person" in again.err
    for name in ("model.json", "state"):
        assert not (place / name).exists()


@pytest.mark.parametrize("share", [0.2, 0.5])
@pytest.mark.parametrize("column", [0, 2])
def test_averages_are_over_rows_that_count(run, place, share, column):
    columns = [TEMP, LOAD, ALARM]
    columns[column] = gaps(columns[column], share)
    known = np.array([cell != "" for cell in columns[column]])
    (place / "gaps.csv").write_text(text(columns))
    (place / "short.csv").write_text(text([np.asarray(each)[known] for each in columns]))
    common = ("--label", "alarm", *RANGES, "--horizon", ROWS, "--learner", "noisy-ftrl")
    full = run("run", "short.csv", *common).report
    assert full["curves"]["counted"] == full["curves"]["rounds"]
    ran = run("run", "gaps.csv", *common)
    read = ran.report["nonprivate_records"]
    assert read["counted"] == read["learned"] == known.sum()
    assert f"over the {known.sum()} of {ROWS} rounds" in ran.out
    axes = dpoco.plotting.plot_loss(dpoco.evaluation.RunReport.from_dict(ran.report))
    drawn = [line.get_ydata()[-1] for line in axes.lines[:4]]
    told = [ran.report[name]["average_loss"] for name in ("best_fixed", "best_constant")]
    assert drawn[2:] == pytest.approx(told)
    for player in ("best_fixed", "best_constant"):
        assert ran.report[player]["average_loss"] == pytest.approx(
            full[player]["average_loss"], rel=1e-6
        )
    assert ran.report["nonprivate"]["average_losses"][0] == pytest.approx(
        full["nonprivate"]["average_losses"][0], rel=0.05
    )
    compared = run("compare", "gaps.csv", *common[:-2], "--learners", "noisy-ftrl",
                   "--epsilons", 1)  # fmt: skip
    assert f"over the {known.sum()} of {ROWS} rounds" in compared.out
    fit = ("--learner", "sufficient-statistics", "--loss", "squared", "--range", "alarm=0:1")
    fitted, whole = (run("run", f"{name}.csv", *common[:-2], *fit) for name in ("gaps", "short"))
    constant = [one.report["best_constant"]["average_loss"] for one in (fitted, whole)]
    assert constant[0] == constant[1]
    assert f"over the {known.sum()} of {ROWS} rounds" in fitted.out


@pytest.mark.parametrize("more", [("--set", "missing=middle"), ("--set", "missing=temp=20"),
                                  ("--set", "missing=20")])  # fmt: skip
def test_a_public_constant_stands_for_missing_cells(run, place, more):
    (place / "gaps.csv").write_text(text((gaps(TEMP, 0.2), LOAD, ALARM)))
    middle = [cell or "20" for cell in gaps(TEMP, 0.2)]
    (place / "full.csv").write_text(text((middle, LOAD, ALARM)))
    common = ("--label", "alarm", *RANGES)
    full, ran = run("run", "full.csv", *common), run("run", "gaps.csv", *common, *more)
    assert full.report["private"] == ran.report["private"]
    share = ran.report["nonprivate_records"]["shares"]["filled"]
    assert f"{100 * share:.3g} % with a constant for a missing cell" in ran.out


def test_most_rows_are_beyond_the_rule(run, place):
    """Over a second: three calibrations for people."""
    who = np.arange(ROWS) % 4
    (place / "people.csv").write_text(text((TEMP, LOAD, ALARM, who), [*NAMES, "who"]))
    ran = run("run", "people.csv", "--label", "alarm", *RANGES, "--rounds-per-person", 5,
              "--person", "who", "--learner", "noisy-ftrl", "--epsilon", 8)  # fmt: skip
    read = ran.report["nonprivate_records"]
    assert read["shares"]["beyond_participation"] == read["shares"]["empty"] == 0.95
    assert (read["counted"], read["learned"]) == (ROWS, 20)
    assert "95 % beyond the rule of --rounds-per-person" in ran.out
    assert "note: 95 % of the records were empty" in ran.err
    people = ("--person", "who", "--rounds-per-person", 5, "--epsilons", 8)
    compared = run("compare", "people.csv", "--label", "alarm", *RANGES, *people,
                   "--learners", "noisy-ftrl")  # fmt: skip
    assert "nothing was learned from the 95 % beyond the rule" in compared.out


def test_traces_know_who_came_too_often():
    options = {"horizon": ROWS, "budget": None, "participation": dpoco.Participation(5)}
    ball, two = dpoco.domains.LpBall(2), np.column_stack([LOAD, 1.0 - LOAD])
    convex = dpoco.oco.NoisyFTRL(ball, dpoco.losses.LogisticLoss(1.0), **options)
    traces = (
        convex.run(two, ALARM, persons=(np.arange(ROWS) % 4).tolist()),
        *(learner.run(*data, persons=(np.arange(ROWS) % 4).tolist()) for learner, data in (
            (dpoco.experts.PrefixHedge(2, **options), (two,)),
            (dpoco.bandits.LinUCB(2, 2, context_bound=2.0, reward_bound=1.0, **options),
             (two, two)),
            (dpoco.oco.LipschitzLearner(dpoco.domains.Box([0.0], [1.0]), lipschitz=1.0, **options),
             ([lambda points: points[:, 0]] * ROWS,)),
        )),
    )  # fmt: skip
    for trace in traces:
        assert trace.nonprivate_records.shares["beyond_participation"] == 0.95
        assert trace.nonprivate_records.shares["empty"] == 0.95
    assert traces[0].counted == ROWS


def test_rows_of_nobody(run, place):
    """Over a second: a calibration for people."""
    who = [name or "" for name in np.where(np.arange(ROWS) % 4 == 0, "", np.arange(ROWS) % 300)]
    (place / "guests.csv").write_text(text((TEMP, LOAD, ALARM, who), [*NAMES, "who"]))
    common = ("run", "guests.csv", "--label", "alarm", *RANGES, "--rounds-per-person", 2,
              "--person", "who", "--learner", "noisy-ftrl", "--epsilon", 8)  # fmt: skip
    assert "anonymous=true" in run(*common, code=2).err
    ran = run(*common, "--set", "anonymous=true")
    assert ran.report["nonprivate_records"]["shares"].get("beyond_participation", 0.0) == 0.0


# ---- going on ------------------------------------------------------------------------------------


@pytest.fixture
def begun(run, place):
    """A state after an hour's file, and its model."""
    (place / "h1.csv").write_text(text())
    common = ("--checkpoint", "state", "--decision", "model.json", "--horizon", 5 * ROWS)
    run("run", "h1.csv", "--label", "alarm", *RANGES, "--epsilon", 4, *common)
    return ("--checkpoint", "state", "--resume")


def test_reordered_columns_are_found_by_their_names(run, begun, place):
    twin = place / "twin"
    twin.write_bytes((place / "state").read_bytes())
    twin.chmod(0o600)
    (place / "same.csv").write_text(text(sensors(seed=4)))
    temp, load, alarm = sensors(seed=4)
    more = ["x"] * ROWS
    (place / "h2.csv").write_text(
        text((alarm, more, load, temp), ["alarm", "more", "load", "temp"])
    )
    run("run", "h2.csv", *begun)  # no option needs to be said twice
    run("run", "same.csv", "--checkpoint", "twin", "--resume")
    decisions = [dpoco.load(name).last_decision for name in ("state", "twin")]
    assert np.array_equal(*decisions)
    run("publish", "state", "--to", "new.json")
    model = dpoco.Model.load("new.json")
    assert model.features == ("temp", "load")
    assert np.array_equal(model.decision, decisions[0])
    run("publish", "state", "--like", "model.json", "--to", "newer.json")
    run("verify", "newer.json")


@pytest.mark.parametrize(
    ("names", "more", "said"),
    [
        (["temp", "weight", "alarm"], (), "no column 'load' among its 3: temp, weight, alarm"),
        (NAMES, ("--range", "load=0:2"), "range of 'load': 0 to 1; not 0 to 2"),
        (NAMES, ("--features", "load,temp"), "columns: temp, load; not load, temp"),
        (NAMES, ("--label", "load", "--features", "temp"), "columns: temp, load; not temp"),
        (NAMES, ("--range", "load=0:2", "--set", "missing=middle"), "range of 'load'"),
        (NAMES, ("--positive", "1"), "positive: none; not 1"),
        (NAMES, ("--set", "missing=load=1"), "missing: none; not load=1"),
        (NAMES, ("--loss", "squared", "--range", "alarm=0:1"), "task"),
        (NAMES, ("--set", "intercept=false"), "intercept"),
        (NAMES, ("--epsilon", "3"), "differs in its plan"),
    ],
)
def test_other_records_are_refused(run, begun, place, names, more, said):
    (place / "h2.csv").write_text(text(sensors(seed=4), names))
    before = (place / "state").read_bytes()
    assert said in run("run", "h2.csv", *begun, *more, code=2).err
    assert (place / "state").read_bytes() == before


def test_states_know_their_columns(run, place):
    """Reordered columns change no bit; other columns, ranges and categories are refused."""
    fan = np.arange(ROWS) % 3
    names, columns = ["temp", "fan", "load", "alarm"], (TEMP, fan, LOAD, ALARM)
    (place / "h1.csv").write_text(text(columns, names))
    (place / "h2.csv").write_text(text(columns[::-1], names[::-1]))
    run("run", "h1.csv", "--learner", "noisy-ftrl", "--label", "alarm", *RANGES,
        "--set", "categories=fan=1,2", "--features", "temp,fan,load", "--epsilon", 9,
        "--horizon", 3 * ROWS, "--checkpoint", "state")  # fmt: skip
    for name in ("twin", "again"):
        (place / name).touch(0o600)
        (place / name).write_bytes((place / "state").read_bytes())
    other = ("--set", "categories=fan=2,1", "--checkpoint", "again", "--resume")
    said = "categories: fan=1,2; not fan=2,1"
    assert said in run("run", "h1.csv", *other, code=2).err
    assert (place / "again").read_bytes() == (place / "state").read_bytes()
    run("run", "h1.csv", "--checkpoint", "state", "--resume")
    run("run", "h2.csv", "--checkpoint", "twin", "--resume")
    states = [dpoco.load(name) for name in ("state", "twin")]
    assert states[0]._payload() == states[1]._payload()


def test_a_state_that_names_no_columns_is_not_trusted(run, begun, place):
    learner = dpoco.load("state")
    learner._described = None
    learner.save("state")
    (place / "h2.csv").write_text(text(sensors(seed=4)))
    options = ("--label", "alarm", *RANGES, "--epsilon", 4)
    assert "--trust-columns" in run("run", "h2.csv", *begun, *options, code=2).err
    publish = ("publish", "state", "--like", "model.json", "--to", "new.json")
    assert "--trust-columns" in run(*publish, code=2).err
    run(*publish, "--trust-columns")
    run("run", "h2.csv", *begun, *options, "--set", "trust-columns=true")
    run("run", "h1.csv", *begun)  # from now on it names them


def test_a_simulated_stream_goes_on(run, place):
    run("run", "--set", "synthetic=2000", "--horizon", 3000, "--checkpoint", "state")
    run("run", "--set", "synthetic=1000", "--checkpoint", "state", "--resume")
    assert dpoco.load("state").round == 3000


def test_a_model_of_other_columns_is_not_that_of_a_state(run, begun, place):
    (place / "other.csv").write_text(text(names=["heat", "load", "alarm"]))
    run("run", "other.csv", "--label", "alarm", "--range", "heat=0:40", "--range", "load=0:1",
        "--epsilon", 4, "--horizon", 5 * ROWS, "--decision", "other.json")  # fmt: skip
    said = run("publish", "state", "--like", "other.json", "--to", "new.json", code=2).err
    assert "columns: heat, load; not temp, load" in said


# ---- formats -------------------------------------------------------------------------------------


def packed(name, content):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(name, content)
    return target.getvalue()


FORMATS = {  # name of the file, its bytes, and options
    "byte order mark": ("t.csv", ("\ufeff" + text()).encode(), ()),
    "mark and a quoted header": (
        "t.csv", ('\ufeff"temp","load","alarm"\n' + text().partition("\n")[2]).encode(), ()
    ),
    "latin-1": (
        "t.csv", text((TEMP, LOAD, ALARM, ["Zürich"] * ROWS), [*NAMES, "Größe"]).encode("latin-1"),
        ("--set", "encoding=latin-1", "--features", "temp,load"),
    ),
    "utf-16": ("t.csv", text().encode("utf-16"), ()),
    "tabs": ("t.tsv", text(mark="\t").encode(), ()),
    "tabs in a text": ("t.txt", text(mark="\t").encode(), ()),
    "bars": ("t.csv", text(mark="|").encode(), ()),
    "spaces": ("t.data", text(mark="   ").encode(), ("--set", "separator=space")),
    "another mark": ("t.csv", text(mark="~").encode(), ("--set", "separator=~")),
    "no fitting name": ("t.dump", text().encode(), ("--set", "format=csv")),
    "a gzip by another name": ("t.csv", gzip.compress(text().encode()), ()),
    "compressed": ("t.tsv.gz", gzip.compress(text(mark="\t").encode()), ()),
    "an archive": ("t.csv.zip", packed("t.csv", text()), ()),
    "an archive by another name": ("t.csv", packed("t.csv", text()), ()),
    "lines on top": (
        "t.csv", ("# a sensor\n# in Zurich\n" + text()).encode(), ("--set", "skip-lines=2")
    ),
    "a line for Excel": ("t.csv", ("sep=;\n" + text(mark=";")).encode(), ()),
    "an index without a name": (
        "t.csv", text((range(ROWS), TEMP, LOAD, ALARM), ["", *NAMES]).encode(),
        ("--features", "temp,load"),
    ),
    "names twice": (
        "t.csv", text((TEMP, LOAD, ALARM, LOAD, LOAD), [*NAMES, "x", "x"]).encode(),
        ("--features", "temp,load"),
    ),
    "blank lines and both ends of lines": ("t.csv", text().replace("\n", "\r\n\r\n").encode(), ()),
    "psql": (
        "t.csv", text((TEMP, LOAD, np.where(ALARM, "t", "f"), [r"\N"] * ROWS),
                      [*NAMES, "note"]).encode(), (),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "more"), FORMATS.values(), ids=FORMATS)
def test_formats(loss, usual, place, name, content, more):
    (place / name).write_bytes(content)
    assert loss(name, *more) == usual


@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_decimal_commas(run, loss, usual, place, mark):
    quoted = '"{}"' if mark == "," else "{}"
    columns = [[quoted.format(str(v).replace(".", ",")) for v in each] for each in (TEMP, LOAD)]
    (place / "t.csv").write_text(text((*columns, ALARM), mark=mark))
    if mark != ";":
        said = run("run", "t.csv", "--label", "alarm", *RANGES, "--features", "temp,load", code=2)
        assert "columns of text" in said.err or "decimal=comma" in said.err
    assert loss("t.csv", "--set", "decimal=comma") == usual


def test_rows_without_a_header(run, loss, usual, place):
    (place / "t.data").write_text(text().partition("\n")[2])
    assert "--set header=false" in run("run", "t.data", "--label", "3", code=2).err
    ranges = ("--range", "1=0:40", "--range", "2=0:1")
    ran = run("run", "t.data", "--set", "header=false", "--label", "3", *ranges)
    assert ran.report["nonprivate"]["average_losses"][0] == usual


def test_what_cannot_be_read_says_why(run, place):
    two = io.BytesIO()
    with zipfile.ZipFile(two, "w") as archive:
        for name in ("a.csv", "b.csv"):
            archive.writestr(name, text())
    (place / "two.zip.csv").write_bytes(two.getvalue())
    (place / "t.xlsx").write_bytes(b"x")
    (place / "latin.csv").write_bytes(text(names=["temp", "load", "Größe"]).encode("latin-1"))
    for file, more, said in (
        ("two.zip.csv", (), "holds 2 files"), ("t.xlsx", (), "format=NAME"),
        ("latin.csv", (), "UTF-8"), ("plain.csv", ("--set", "encoding=latin-99"), "latin-1"),
        ("plain.csv", ("--set", "separator=##"), "one character"),
        ("plain.csv", ("--set", "format=xls"), "format must be one of"),
        ("plain.csv", ("--set", "decimal=dot"), "decimal must be one of"),
        ("plain.csv", ("--set", "skip-lines=9999"), "is empty"),
    ):  # fmt: skip
        assert said in run("run", file, "--label", "alarm", *more, code=2).err, file


BAD_CELLS = {"a typo": "12..5", "thousands": '"2,000"', "a unit": "12 C"}


@pytest.mark.parametrize("cell", BAD_CELLS.values(), ids=BAD_CELLS)
@pytest.mark.parametrize("row", [3, 350])
def test_one_bad_cell_is_named(run, place, cell, row):
    cells = [*map(str, TEMP)]
    cells[row] = cell
    (place / "bad.csv").write_text(text((cells, LOAD, ALARM)))
    said = run("run", "bad.csv", "--label", "alarm", *RANGES, code=2).err
    assert f"bad.csv, row {row + 2}: column 'temp' is not numeric" in said
    assert cell.strip('"') not in said
    with pytest.raises(ValueError, match=rf"row {row + 2}: column 'temp'"):
        load_file("bad.csv", label="alarm")


def test_misspelt_names_show_what_there_is(run, place):
    (place / "t.csv").write_text(text(names=["temp", "load", "Alarm"]))
    for words in (
        ("--label", "alarm"), ("--label", "Alarm", "--features", "tmp"),
        ("--label", "Alarm", "--range", "tmp=0:1"), ("--label", "Alarm", "--set", "missing=tmp=1"),
        ("--label", "Alarm", "--set", "categories=tmp=a,b"), ("--label", "Alarm", "--person", "tmp",
                                                          "--rounds-per-person", "3"),
    ):  # fmt: skip
        assert "among its 3: temp, load, Alarm" in run("run", "t.csv", *words, code=2).err
    (place / "index.csv").write_text(text((range(ROWS), TEMP, ALARM), ["", "temp", "Alarm"]))
    assert "column 1 (numbers), temp" in run("run", "index.csv", "--label", "Alarm", code=2).err
    words = ("--features", "temp", "--set", "missing=Alarm=1")
    said = run("run", "index.csv", "--label", "Alarm", *words, code=2).err
    assert "'Alarm', which is no feature column" in said
    for option, value in (("--range", "=0:9"), ("--range", "temp=10:0"),
                          ("--set", "missing==1"), ("--set", "categories==a")):  # fmt: skip
        said = run("run", "index.csv", "--label", "Alarm", option, value, code=2).err
        named = option if option == "--range" else value.partition("=")[0]
        assert said.startswith((f"error: {named} ", f"error: {named}:"))


def test_a_folder_and_a_pattern_of_parquet(run, loss, usual, place):
    """Over a second: three runs, and the import of pyarrow."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    (place / "out.parquet").mkdir()
    (place / "out.parquet" / "_SUCCESS").touch()
    for number, start in ((9, 0), (10, 200)):
        part = [each[start : start + 200] for each in (TEMP, LOAD, ALARM)]
        pq.write_table(pa.table(dict(zip(NAMES, part, strict=True))),
                       place / "out.parquet" / f"part-{number}.parquet")  # fmt: skip
    for given in ("out.parquet", "out.parquet/part-*.parquet", "out.parquet/"):
        assert loss(given) == usual
        parts = list(chunks(given, label="alarm", rows=150))
        assert [len(part) for part in parts] == [150, 50, 150, 50]
        np.testing.assert_array_equal(np.concatenate([p.features[:, 0] for p in parts]), TEMP)
    (place / "none").mkdir()
    assert "no file of data" in run("run", "none", "--label", "alarm", code=2).err
    assert "no file is called" in run("run", "none/*.csv", "--label", "alarm", code=2).err


def test_types_of_parquet_are_read_as_a_csv_is(run, loss, usual, place):
    """Over a second: six runs."""
    decimal = pytest.importorskip("decimal")
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    words = np.where(ALARM, "yes", "no").tolist()
    labels = {
        "texts": pa.array(words), "dictionary": pa.array(words).dictionary_encode(),
        "booleans": pa.array(ALARM.astype(bool)), "numbers in texts": pa.array(map(str, ALARM)),
        "large": pa.array(words, pa.large_string()),
    }  # fmt: skip
    exact = pa.array([decimal.Decimal(str(v)) for v in TEMP], pa.decimal128(6, 2))
    for name, label in labels.items():
        table = {"temp": exact, "load": LOAD, "alarm": label, "note": pa.nulls(ROWS)}
        pq.write_table(pa.table(table), place / "t.parquet")
        assert loss("t.parquet") == pytest.approx(usual, rel=1e-12), name
        (part,) = chunks("t.parquet", label="alarm")
        np.testing.assert_array_equal(part.labels, ALARM)
    pq.write_table(
        pa.table({"temp": TEMP, "load": LOAD, "alarm": np.where(ALARM, "good", "bad")}),
        place / "t.parquet",
    )
    assert loss("t.parquet", "--positive", "good") == pytest.approx(usual, rel=1e-12)
    said = run("run", "t.parquet", "--label", "alarm", "--set", "header=true", code=2).err
    assert "only a CSV file" in said


def test_two_files_from_standard_input_and_a_format_of_ones_own(usual):
    given = load_file(io.StringIO(text(mark="~")), label="alarm",
                      file_format=FileFormat(separator="~"))  # fmt: skip
    np.testing.assert_array_equal(given.features[:, 1], LOAD)


# ---- categories, predictions ---------------------------------------------------------------------


def test_categories_become_features(run, place):
    fans = np.array(["low", "mid", "high", "odd", ""])[np.arange(ROWS) % 5]
    alarm = (fans == "high").astype(int)
    (place / "fans.csv").write_text(text((TEMP, fans, alarm), ["temp", "fan", "alarm"]))
    common = ("run", "fans.csv", "--label", "alarm", "--range", "temp=0:40")
    assert "--set categories=COLUMN=A,B,... for fan" in run(*common, code=2).err
    listed = (
        *common,
        "--set",
        "categories=fan=low,mid,high",
        "--epsilon",
        50,
        "--decision",
        "m.json",
    )
    ran = run(*listed, "--checkpoint", "state")
    assert ran.report["stream"]["feature_names"] == [
        "temp", "fan=low", "fan=mid", "fan=high", "constant",
    ]  # fmt: skip
    assert ran.report["nonprivate_records"]["shares"]["unlisted_category"] == 0.4
    assert ran.report["nonprivate_records"]["learned"] == ROWS
    assert "40 % of a category that is not listed" in ran.out
    assert ran.report["nonprivate"]["average_losses"][0] < 0.3
    predicted = run("predict", "m.json", "fans.csv", "--keep", "fan,temp").out
    rows = [line.split(",") for line in predicted.splitlines()]
    assert rows[0] == ["fan", "temp", "probability_of_alarm"]
    assert [row[0] for row in rows[1:]] == list(fans)
    chance = np.array([float(row[2]) for row in rows[1:]])
    assert chance[fans == "high"].min() > chance[fans != "high"].max()
    model = dpoco.Model.load("m.json")
    assert model.coding.categories == {"fan": ("low", "mid", "high")}
    run("publish", "state", "--to", "newer.json")


def test_predictions_keep_columns_and_fill_gaps(run, place):
    (place / "gaps.csv").write_text(
        text((gaps(TEMP, 0.2), LOAD, ALARM, range(ROWS)), [*NAMES, "id"])
    )
    common = ("run", "plain.csv", "--label", "alarm", *RANGES)
    run(*common, "--decision", "plain.json")
    run(*common, "--decision", "filled.json", "--set", "missing=temp=20")
    for name, empty in (("plain", 0.2), ("filled", 0.0)):
        run("predict", f"{name}.json", "gaps.csv", "--keep", "id", "--to",
            f"{name}-out.csv")  # fmt: skip
        lines = (place / f"{name}-out.csv").read_text().splitlines()
        assert lines[0] == "id,probability_of_alarm"
        assert [line.split(",")[0] for line in lines[1:]] == [str(i) for i in range(ROWS)]
        share = np.mean([line.endswith(",") for line in lines[1:]])
        assert share == pytest.approx(empty, abs=0.07)
    (place / "words.csv").write_text(text((TEMP, LOAD, np.where(ALARM, "bad", "good"))))
    run("run", "words.csv", *common[2:], "--positive", "bad", "--decision", "words.json")
    printed = run("predict", "words.json", "words.csv").out
    assert printed.startswith("probability_of_alarm=bad\n0.")
    said = run("predict", "plain.json", "plain.csv", "--keep", "name", code=2).err
    assert "no column 'name' among its 3: temp, load, alarm" in said


def test_odd_numbers_saturate_and_are_told(run, place):
    temp = [*map(str, TEMP)]
    temp[5:8] = ["1.8e19", "Infinity", "-1e400"]
    (place / "odd.csv").write_text(text((temp, LOAD, ALARM)))
    ran = run("run", "odd.csv", "--label", "alarm", *RANGES)
    assert ran.report["nonprivate_records"]["columns"]["temp"]["out_of_range"] == 3 / ROWS
    assert ran.report["nonprivate_records"]["learned"] == ROWS


@pytest.mark.parametrize("break_", ["a note\nof two lines", "1,2\n3,4"])
def test_line_breaks_in_quotes(loss, usual, place, break_):
    notes = ['"' + break_ + '"'] * ROWS
    (place / "notes.csv").write_text(text((TEMP, LOAD, ALARM, notes), [*NAMES, "note"]))
    assert loss("notes.csv", "--features", "temp,load") == usual
