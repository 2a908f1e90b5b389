from __future__ import annotations

import hashlib
import itertools
import json
import sys

import numpy as np
import pytest

import dpoco
from dpoco.evaluation import SCHEMA, RunReport

SECRET = hashlib.sha256(b"secret").digest()
FILE = ("events.csv", "--label", "alarm", "--range", "0:10")


def test_report_on_a_file(table, invoke, tmp_path, report_of):
    named = ("--learner", "tree-frank-wolfe")
    result = invoke("run", *FILE, *named, "--set", "repeats=3", "--set", "seed=5", "--full")
    assert result.stderr == ""
    text = result.stdout
    for expected in (
        "events.csv: 400 rounds x 4 features",
        "private", "without noise", "best fixed decision", "best constant prediction",
        "regret", "switches", "Privacy costs", "Published constants", "rounds per second",
        "Differential privacy: epsilon = 1", "SEEDED SOURCE", "Proof:",
        "not for publication",
    ):  # fmt: skip
        assert expected in text
    assert "…" not in text
    report = RunReport.from_dict(report_of())
    assert f"{report.private.average_loss:.4f}" in text
    assert f"{report.noise['released_ratio']:.1f} times" in text
    assert (tmp_path / "results" / "report.png").read_bytes().startswith(b"\x89PNG")


def test_json_schema(table, invoke, report_of):
    invoke("run", *FILE, "--set", "repeats=2", "--set", "seed=5", "--out", "o")
    record = report_of("o")
    assert record["schema"] == SCHEMA
    assert set(record) == {
        "schema", "summary", "stream", "settings", "domain", "loss", "parameters", "guarantee",
        "guarantee_text", "noise", "private", "nonprivate", "best_fixed", "best_constant",
        "curves", "versions", "timing", "first_round", "rows",
        "nonprivate_records", "accuracy",
    }  # fmt: skip
    assert record["versions"]["dpoco"] == dpoco.__version__
    settings, command = record["settings"], record["settings"]["command"]
    assert (settings["epsilon"], settings["delta"]) == (1.0, 1.0 / 4000.0)
    assert (settings["horizon"], settings["repeats"], settings["seed"]) == (400, 2, 5)
    assert command["data"] == "events.csv"
    assert command["label"] == "alarm"
    assert command["range"] == ["0:10"]
    assert command["delta"] is None
    assert record["stream"]["feature_names"] == ["speed", "heat", "load", "constant"]
    assert record["domain"] == {"type": "LpBall", "dimension": 4, "p": 2.0, "radius": 8.0}
    assert record["loss"]["feature_bound"] == pytest.approx(np.sqrt(4 / 3))
    assert dpoco.Guarantee.from_dict(record["guarantee"]).epsilon == pytest.approx(1.0, rel=1e-6)
    for player in ("private", "nonprivate"):
        for values in record[player].values():
            assert len(values) == (2 if player == "private" else 1)
    numbers = [v for curve in record["curves"].values() for v in curve]
    assert np.isfinite(numbers).all()
    assert record["curves"]["rounds"][-1] == 400


def test_json_alone_on_standard_output(table, invoke, report_of):
    result = invoke("run", *FILE, "--set", "seed=5", "--json")
    assert json.loads(result.stdout) == report_of()
    assert result.stderr == ""


def test_quiet_prints_nothing(table, invoke, tmp_path):
    result = invoke("run", *FILE, "--set", "quiet=true")
    assert result.output == ""
    assert (tmp_path / "results" / "report.json").exists()


@pytest.mark.parametrize("p", ["1", "1.5", "2", "4", "inf"])
def test_geometries_declare_bounds_that_clip_nothing_further(table, invoke, p, report_of):
    # Records of the cube, no longer than the bound: the learner must see them as they are.
    invoke("run", *FILE, "--set", f"p={p}", "--set feature-bound=2 --set figure=false --set seed=1")
    record = report_of()
    stream = dpoco.datasets.load_file(
        "events.csv", label="alarm", scaling=dpoco.datasets.PublicScaling(0.0, 10.0)
    )
    domain = dpoco.domains.from_dict(record["domain"])
    loss = dpoco.losses.from_dict(record["loss"])
    theta = np.array(record["best_fixed"]["decision"])
    raw = loss.value(theta, stream.features, stream.labels)
    clipped = loss.batch_values(domain, theta, stream.features, stream.labels)
    np.testing.assert_allclose(raw, clipped, rtol=1e-9)
    assert domain.max_norm(2.0) == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--set", "sum-method=tree"], {"factorisation": "tree", "exact": True}),
        (["--set", "sum-method=blt"], {"factorisation": "blt"}),
        (["--set", "noise=generalized_gaussian"], {"exact": False}),
        (
            ["--set", "step-scale=2", "--set", "batch=4"],
            {"step_scale": 2.0, "batch": 4, "pushes": 100},
        ),
        (["--horizon", "4000"], {"horizon": 4000, "batch": 4}),
        (["--horizon", "100"], {"horizon": 100, "batch": 1}),
    ],
)
def test_options_reach_the_learner(table, invoke, options, expected, report_of):
    named = ("--learner", "tree-frank-wolfe", *options)
    invoke("run", *FILE, *named, "--set", "repeats=1", "--set", "seed=1", "--set", "figure=false")
    plan = report_of()["parameters"]
    exact = plan["mechanism"]["grid"] > 0.0  # Gaussian noise is, unlike its relatives
    own = {"factorisation": plan["mechanism"].pop("factorisation")["kind"], "exact": exact}
    found = plan["tuning"] | plan["mechanism"] | own
    assert {name: found[name] for name in expected} == expected


def test_budget_radius_and_bound_reach_the_learner(table, invoke, report_of):
    options = ("--epsilon", 3, "--delta", 1e-7, "--set", "radius=2.5", "--set", "feature-bound=0.5")
    invoke("run", *FILE, *options, "--set", "figure=false")
    record = report_of()
    assert record["guarantee"]["delta"] == 1e-7
    assert record["guarantee"]["epsilon"] == pytest.approx(3.0, rel=1e-6)
    assert record["domain"]["radius"] == 2.5
    assert record["loss"]["feature_bound"] == 0.5


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_regression_losses_scale_labels_by_their_declared_range(table, invoke, loss, report_of):
    options = ("--label", "heat", "--range", "heat=0:10", "--loss", loss, "--set", "figure=false")
    invoke("run", "events.csv", "--range", "0:10", *options)
    record = report_of()
    assert record["stream"]["task"] == "regression"
    labels = np.genfromtxt("events.csv", delimiter=",", names=True)["heat"] / 5.0 - 1.0
    if loss == "squared":
        assert record["best_constant"]["average_loss"] == pytest.approx(labels.var())


def test_label_range_maps_codes_to_events(table, invoke, tmp_path, report_of):
    text = table.read_text().splitlines()
    coded = [text[0]] + [line[:-1] + ("2" if line.endswith("1") else "1") for line in text[1:]]
    (tmp_path / "coded.csv").write_text("\n".join(coded))
    common = ("--range", "0:10", "--set", "seed=1", "--set", "figure=false", "--label", "alarm")
    invoke("run", "events.csv", *common, "--out", "a")
    coded_options = ("coded.csv", "--range", "alarm=1:2", "--out", "b")
    invoke("run", *coded_options, *common)
    assert report_of("a")["summary"] == report_of("b")["summary"]


def test_columns_have_ranges_of_their_own(table, invoke, report_of):
    options = ("--features", "heat, speed", "--range", "0:10", "--set", "intercept=false")
    invoke(
        "run events.csv --label alarm", *options,
        "--range speed=0:20 --set figure=false",
    )  # fmt: skip
    stream = report_of()["stream"]
    assert stream["feature_names"] == ["heat", "speed"]
    assert "[0, 10], [0, 20]" in stream["scaling"]


def test_shuttle_is_the_default(tmp_path, answer):
    if sys.version_info < (3, 11):
        pytest.skip("the river that bundles the stream needs Python 3.11")
    record = answer("run", "--set", "seed=1", "--out", tmp_path)
    assert record["stream"]["name"] == "shuttle"
    assert record["parameters"]["tuning"]["horizon"] == 49_097
    assert record["settings"]["repeats"] == 10
    assert record["summary"]["private"]["average_losses"]["median"] <= 0.038


def test_noise_dominating_is_a_note(table, invoke):
    result = invoke("run", *FILE, "--epsilon", 0.001, "--set", "figure=false", "--set", "repeats=3")
    assert result.stderr.count("note: noise dominates") == 1
    assert invoke("run", *FILE, "--epsilon 0.001 --set figure=false --set quiet=true").output == ""


def test_missing_matplotlib_costs_only_the_figure(table, invoke, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = invoke("run", *FILE)
    assert "note: no figure" in result.stderr
    assert "dpoco[plot]" in result.stderr
    assert (tmp_path / "results" / "report.json").exists()


def test_checkpoint_interrupt_and_resume(table, invoke, monkeypatch, refused, report_of):
    monkeypatch.setattr("dpoco.learning.learner._CHUNK_ROUNDS", 50)
    common = ("run", *FILE, "--set", "seed=3", "--set", "figure=false", "--checkpoint")
    invoke(*common, "whole")
    assert dpoco.load("whole").round == 400

    chosen = type(dpoco.load("whole"))
    play, parts = chosen._play, itertools.count()

    def interrupted(self, *arguments):
        if next(parts) == 3:
            raise KeyboardInterrupt
        return play(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(chosen, "_play", interrupted)
        result = invoke(*common, "state", code=130)
    assert result.stderr == "interrupted; state kept in state, after round 150\n"
    assert dpoco.load("state").round == 150

    assert "--resume" in refused(*common, "state")
    more = refused(*common, "state", "--resume", "--epsilon", 4)
    assert "of epsilon = 1, differs in its plan: repeat the options" in more
    resumed = invoke(*common, "state", "--resume", "--set", "skip-played=true")
    assert "continued after round 150" in resumed.stdout
    assert "Rows left out: 150 were played before." in resumed.stdout
    assert report_of()["first_round"] == 150
    assert report_of()["rows"]["skipped"] == 150
    assert np.array_equal(dpoco.load("state").last_decision, dpoco.load("whole").last_decision)
    for more in ((), ("--set", "skip-played=true")):
        assert "the horizon of 400 rounds is used up: no row is played" in refused(
            *common, "state --resume", *more
        )


def test_two_runs_never_go_on_from_one_state(table, invoke, monkeypatch, tmp_path):
    """Of two files at once: their decisions would have the same noise and different records."""
    from dpoco.cli import _run as running

    table_rows = (tmp_path / "events.csv").read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([table_rows[0], *table_rows[:200:-1]]) + "\n")
    (tmp_path / "link").symlink_to(tmp_path / "state")
    common = ("--set", "figure=false", "--set", "quiet=true", "--force", "--checkpoint")
    rest = ("--label", "alarm", "--range", "0:10", "--horizon", "2000")
    play, inside = running._play, []

    def meanwhile(*arguments):
        inside.append(dpoco.load("state").round if (tmp_path / "state").exists() else 0)
        if len(inside) % 2:  # while the first one plays
            for state in ("state", "./state", "link"):
                for more in ((), ("--resume",)):
                    said = invoke("run", "other.csv", *rest, *common, state, *more, code=2).stderr
                    assert "is in use by another process" in said or "exists: add" in said
            invoke("run", "other.csv", *rest, *common, "another")
        return play(*arguments)

    monkeypatch.setattr(running, "_play", meanwhile)
    invoke("run", "events.csv", *rest, *common, "state")
    (tmp_path / "another").unlink()
    invoke("run", "events.csv", *common, "state", "--resume")
    assert dpoco.load("state").round == 800
    assert not list(tmp_path.glob("*.lock"))
    # What a killed run leaves behind keeps no one out.
    (tmp_path / "state.lock").touch(0o600)
    (tmp_path / "another").unlink()
    invoke("run", "events.csv", *common, "state", "--resume")
    assert dpoco.load("state").round == 1200


def test_a_stream_without_an_end(table, invoke):
    common = ("run", *FILE, "--set", "figure=false", "--checkpoint", "state")
    invoke(*common, "--horizon", "unknown", "--set", "seed=1")
    first = dpoco.load("state")
    assert first.horizon == 10**12
    assert first.plan.mechanism.batch < 100  # it has learned: its first decision is not for ever
    assert np.any(first.last_decision != 0.0)
    invoke(*common, "--resume")
    assert dpoco.load("state").round == 800
    invoke(*common[:-1], "tree", "--horizon", "unknown", "--learner", "tree-frank-wolfe")
    assert dpoco.load("tree").plan.mechanism.batch == 1000  # and not a thousandth of 10^12


def test_a_run_under_a_key_leaves_nothing_readable(table, invoke, monkeypatch, refused):
    monkeypatch.setattr("dpoco.learning.learner._CHUNK_ROUNDS", 50)
    key, path = dpoco.EncryptionKey(SECRET), table.with_name("state")
    common = ("run", *FILE, "--set", "figure=false", "--checkpoint", "state", "--horizon", 800)
    monkeypatch.setenv("DPOCO_KEY", SECRET.hex())
    invoke(*common)
    assert dpoco.load(path, key=key).round == 400

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dpoco.evaluation._runs.play", interrupted)
        result = invoke(*common, "--resume", code=130)
    assert result.stderr == "interrupted; state kept in state, after round 400\n"
    assert b"arguments" not in path.read_bytes()
    monkeypatch.delenv("DPOCO_KEY")
    assert "encrypted, and no key was given" in refused(*common, "--resume")
    table.with_name("key").write_text(SECRET.hex() + "\n")
    by_file = ("--key-file", "key")
    assert "chmod 600" in refused(*by_file, *common, "--resume")
    table.with_name("key").chmod(0o600)
    invoke(*by_file, *common, "--resume", "--force", "--decision", "model")
    assert dpoco.load(path, key=key).round == 800
    report = table.with_name("results").joinpath("report.json").read_text()
    assert "key" not in json.loads(report)["settings"]["command"]
    assert SECRET.hex() not in report
    assert "verified" in invoke(*by_file, "verify", "state").stdout
    assert "encrypted" in invoke("verify", "state", code=2).stdout
    invoke(*by_file, "publish", "state", "--like", "model", "--to", "newer")
    monkeypatch.setenv("DPOCO_KEY", SECRET.hex()[:-1])
    message = refused("verify", "state")
    assert "DPOCO_KEY must hold keys" in message
    assert SECRET.hex()[:9] not in message
    monkeypatch.setenv("DPOCO_KEY", SECRET[::-1].hex())
    assert "under a key that was not given" in refused("publish state", "--like model --to other")


@pytest.mark.parametrize("learner", ["noisy-ftrl", "tree-frank-wolfe", "noisy-newton"])
def test_auto_goes_on_with_what_was_saved(table, invoke, learner, report_of):
    common = ("run", *FILE, "--set seed=3 --set figure=false --horizon 800 --checkpoint", "state")
    invoke(*common, "--learner", learner)
    first = dpoco.load("state")
    # As if auto had chosen it: another version may rank learners in another order.
    first._described["command"]["learner"] = "auto"
    first.save("state")
    resumed = invoke(*common, "--resume")
    assert dpoco.load("state").round == 800
    kind = type(dpoco.load("state")).__name__
    assert kind == dpoco.learners.learner_named(learner).class_name
    assert f".{kind}" in resumed.stdout.partition("auto: ")[2].partition("\n")[0]
    assert f".{kind}" in report_of()["settings"]["chosen"]


def test_a_learner_that_was_named_is_no_choice_of_auto(table, invoke, report_of):
    common = ("run", *FILE, "--set seed=3 --set figure=false --horizon 800 --checkpoint", "state")
    invoke(*common, "--learner", "noisy-ftrl")
    resumed = invoke(*common, "--resume")
    assert dpoco.load("state").round == 800
    assert "auto" not in resumed.stdout
    assert "noisy-ftrl" in resumed.stdout.partition("\n")[0]
    assert report_of()["settings"]["command"]["learner"] == "noisy-ftrl"


def test_what_is_chosen_follows_the_problem(table, invoke, report_of):
    common = ("--set", "figure=false", "--set", "repeats=1", "--set", "seed=1")
    file = (*FILE, "--range", "alarm=-1:1")
    for loss, first in (("logistic", "Newton"), ("squared", "statistics='quadratic'")):
        invoke("run", *file, *common, "--loss", loss, "--horizon", 10**5)
        settings = report_of()["settings"]
        assert first in settings["chosen"]
        assert "expected regret" in settings["chosen"]


def test_rows_beyond_the_horizon_are_counted(table, invoke, report_of):
    header, *lines = table.read_text().splitlines(keepends=True)
    first, second = "hour0.csv", "hour1.csv"
    table.with_name(first).write_text("".join([header, *lines[:80]]))
    table.with_name(second).write_text("".join([header, *lines[80:200]]))
    common = (*FILE[1:], "--set", "seed=3", "--set", "figure=false", "--checkpoint", "state")
    invoke("run", first, *common, "--horizon", 150)
    result = invoke("run", second, *common, "--resume", "--set", "quiet=true", code=4)
    assert result.output == (
        "error: 50 rows were not played: the horizon of 150 rounds is used up\n"
    )
    assert dpoco.load("state").round == 150
    rows = {"skipped": 0, "played": 70, "beyond_horizon": 50}
    assert report_of()["rows"] == rows
    # Nothing is kept: rows that the caller's own --horizon leaves out are said, and no failure.
    fit = ("--learner", "sufficient-statistics", "--loss", "squared", "--range", "alarm=0:1")
    for more in ((), fit):
        result = invoke(
            "run",
            *FILE,
            "--horizon 100 --set seed=1",
            "--set figure=false --set repeats=1",
            *more,
        )
        assert "300 are beyond the horizon" in result.stdout
    result = invoke(
        "compare",
        *FILE,
        "--horizon 100 --learners noisy-ftrl",
        "--set repeats=1 --epsilons 1 --set figure=false",
    )
    assert "100 rounds, 1 runs each; 300 rows left out beyond the horizon" in result.stdout


def test_without_shuttle_the_phishing_stream_is_played(capfd, tmp_path, monkeypatch):
    river = pytest.importorskip("river.datasets")
    monkeypatch.delattr(river, "Shuttle", raising=False)
    from dpoco.cli import main

    out = tmp_path / "results"
    options = f"--set seed=1 --set repeats=2 --set figure=false --out {out}"
    assert main(["run", *options.split()]) == 0
    printed = capfd.readouterr()
    assert "playing phishing" in printed.err
    assert "phishing: 1,250 rounds" in printed.out
    assert main(["run", "shuttle", "--force", "--out", str(out)]) == 2
    assert "0.26" in capfd.readouterr().err


def test_a_simulated_stream(answer, refused):
    report = answer("run", "--set", "synthetic=3000", "--set", "repeats=1", "--set", "seed=1")
    assert report["stream"]["name"] == "linear_regression"
    assert report["stream"]["rounds"] == 3000
    again = answer("run", "--set", "synthetic=3000", "--set", "repeats=1", "--set", "seed=1")
    assert again["private"] == report["private"]
    for words, said in (
        (("shuttle",), "synthetic simulates a stream"),
        (("--loss", "logistic"), "synthetic needs --loss squared"),
        (("--learner", "sufficient-statistics"), "synthetic is for learners of records"),
    ):
        assert said in refused("run", "--set", "synthetic=3000", *words)
