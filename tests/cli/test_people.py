"""People who come back, on the command line: guarantees for a person, and the limiter's rule."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.datasets import read_people

ROUNDS, RULE = 300, ("--rounds-per-person", 5, "--set", "separation=3")
PLANNED = ("--rounds-per-person", 5, "--separation", 3)
NAMES = [f"visitor-{n}" for n in np.random.default_rng(3).integers(0, 20, ROUNDS)]


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """Return options of a file whose rows are visits of twenty people."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(4).uniform(-0.5, 0.5, (ROUNDS, 2))
    rows = zip(NAMES, values.tolist(), strict=True)
    lines = [f"{name},{a},{b},{int(a > b)}" for name, (a, b) in rows]
    (tmp_path / "visits.csv").write_text("\n".join(["who,a,b,paid", *lines]))
    table = ("visits.csv", "--label", "paid", "--range", "-1:1")
    return (*table, "--set", "seed=1", "--set", "figure=false", "--set", "repeats=1")


def admitted():
    """Yield whether a visit passes."""
    own = {name: [] for name in NAMES}
    for turn, name in enumerate(NAMES):
        earlier = own[name]
        if len(earlier) < 5 and (not earlier or turn - earlier[-1] >= 3):
            earlier.append(turn)
            yield True
        else:
            yield False


def test_a_run_is_private_for_people_and_keeps_to_their_rule(visits, invoke, report_of, tmp_path):
    asked = ("run", *visits, "--learner", "noisy-ftrl", *RULE, "--person", "who")
    result = invoke(*asked, "--checkpoint", "state")
    assert "for one person with at most 5 rounds, any two at least 3 apart" in result.stdout
    assert "plays records beyond the rule as empty ones" in result.stdout
    record = report_of()
    assert record["guarantee"]["person"] == [5, 3]
    assert record["guarantee"]["epsilon"] == pytest.approx(1.0, rel=1e-5)
    assert record["settings"]["participation"]["enforced"] is True
    assert record["stream"]["feature_names"] == ["a", "b", "constant"]
    for text in (result.stdout, result.stderr, (tmp_path / "results/report.json").read_text()):
        assert "visitor-" not in text
    assert b"visitor-" not in (tmp_path / "state").read_bytes()

    played = dpoco.load("state")
    table = dpoco.datasets.open_table("visits.csv").select(["a", "b", "paid"])
    passed = np.array(list(admitted()))
    assert 80 < passed.sum() <= 100
    rows = np.column_stack([table[:, :2], np.where(passed, 1.0, np.nan)])
    plain = dpoco.oco.NoisyFTRL(
        played.domain, played.loss, horizon=ROUNDS, budget=dpoco.Budget(1.0, 1.0 / (10.0 * ROUNDS)),
        plan=played.plan, source=dpoco.random.Source.seeded(1),
    )  # fmt: skip
    plain.run(rows, table[:, 2])
    assert np.array_equal(plain.last_decision, played.last_decision)


def test_a_checkpoint_goes_on_with_the_same_rule_only(visits, invoke, refused):
    asked = ("run", *visits, "--learner noisy-ftrl", *RULE, "--person who --set quiet=true")
    keep = ("--checkpoint", "state")
    invoke(*asked, *keep, "--horizon", 2 * ROUNDS)
    invoke(*asked, *keep, "--resume")
    assert "participation: repeat" in refused(*asked, *keep, "--resume", "--set", "separation=4")
    assert dpoco.load("state").round == 2 * ROUNDS


def test_streams_of_nobody_are_not_enforced_and_say_so(invoke, report_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = ("phishing", "--set", "repeats=1", "--set", "figure=false", "--set", "seed=1")
    text = invoke("run", "--learner", "noisy-ftrl", *stream, *RULE).stdout
    assert "the rule is not enforced" in text
    assert report_of()["guarantee"]["person"] == [5, 3]
    compared = ("compare", "--learners", "noisy-ftrl,tree-frank-wolfe", "--epsilons", 4)
    text = invoke(*compared, *stream, *RULE).stdout
    assert "the rule is not enforced" in text
    assert "all rounds of a person, at most 5" in text


def test_a_comparison_enforces_what_a_file_says(visits, answer):
    compared = ("compare", "--learners", "noisy-ftrl,tree-frank-wolfe", "--epsilons", 4)
    record = answer(*compared, *visits, *RULE, "--person", "who")
    assert record["settings"]["participation"]["enforced"] is True
    assert [row["guarantee"].get("person") for row in record["rows"]] == [
        [5, 3],
        [5, 3],
        None,
        None,
    ]


def test_a_plan_is_for_all_rounds_of_a_person(answer):
    size = ("--horizon", 10_000, "--dimension", 4)
    one, all_ = (answer("plan", "noisy-ftrl", *size, *more) for more in ((), PLANNED))
    assert all_["guarantee"]["person"] == [5, 3]
    assert all_["guarantee"]["epsilon"] == pytest.approx(one["guarantee"]["epsilon"], rel=1e-5)
    assert all_["noise"]["scale"] > 2.5 * one["noise"]["scale"]
    assert all_["useful"]["horizon"] > 3 * one["useful"]["horizon"]
    assert all_["problem"]["rounds_per_person"] == 5
    assert "rounds_per_person" not in one["problem"]


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
def test_people_are_read_from_all_kinds_of_files(ending, tmp_path):
    path, numbers = tmp_path / f"t.{ending}", [7, 8, 7]
    if ending == "csv":
        path.write_text('id,who\n7,"a,b"\n\n8, c \n7,c\n')
    elif ending == "npz":
        np.savez(
            path, id=np.array(numbers, float), who=np.array(["a,b", "c", "c"]), x=np.ones(3) / 2
        )
    else:
        arrow = pytest.importorskip("pyarrow")
        table = arrow.table({"id": numbers, "who": ["a,b", "c", "c"], "x": [1.5, None, 2.0],
                             "gaps": [7.0, None, 8.0]})  # fmt: skip
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    assert read_people(path, "who") == ["a,b", "c", "c"]
    assert read_people(path, "id") == ["7", "8", "7"]
    if ending != "csv":
        with pytest.raises(ValueError, match="texts or whole numbers"):
            read_people(path, "x")
    if ending == "parquet":
        with pytest.raises(ValueError, match="has missing values"):
            read_people(path, "gaps")
        first, guest, last = read_people(path, "gaps", alone=True)
        assert (first, last) == ("7", "8")
        assert guest != read_people(path, "gaps", alone=True)[1]
