"""Models: what was released, applied by others; nothing else is in them."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

import dpoco
from dpoco import Budget, Model
from dpoco.datasets import PublicScaling, Stream
from dpoco.domains import LpBall
from dpoco.errors import StateError
from dpoco.frank_wolfe import SufficientStatistics, TreeFrankWolfe
from dpoco.learning.model import _checksum
from dpoco.losses import LogisticLoss, SquaredLoss
from dpoco.random import Source

RNG = np.random.default_rng(2)
TABLE = RNG.uniform([0.0, -5.0], [10.0, 5.0], (600, 2))
SCALING = PublicScaling([0.0, -5.0], [10.0, 5.0])
BUDGET = Budget(8.0, 1e-6)


def played(loss, labels, p=2.0, **options):
    task = "classification" if isinstance(loss, LogisticLoss) else "regression"
    own = PublicScaling(-20.0, 20.0, intercept=False) if task == "regression" else None
    raw = Stream("s", TABLE, labels, ("a", "b"), task, label_transform=own)
    stream = raw.scaled(SCALING)
    learner = TreeFrankWolfe(LpBall(3, p, 2.0), loss, horizon=600, budget=BUDGET, **options)
    learner.run(stream.features, stream.labels)
    return learner, stream


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_predictions_are_those_of_the_learners_loss(p, tmp_path):
    labels = (TABLE[:, 0] > 5.0).astype(float)
    learner, stream = played(LogisticLoss(0.9, feature_bound_l2=1.1), labels, p)
    model = Model.of(learner, stream, "y")
    model.save(tmp_path / "m.json")
    same = Model.load(tmp_path / "m.json")
    assert same == model
    answers = same.predict(TABLE)
    # -log p of the right class is the loss of the clipped record.
    told = -np.log(np.where(labels > 0.5, answers, 1.0 - answers))
    decision = np.array(model.decision)
    losses = learner.loss.batch_values(learner.domain, decision, stream.features, labels)
    np.testing.assert_allclose(told, losses, rtol=1e-9, atol=1e-12)
    assert np.array_equal(decision, learner.last_decision)
    assert np.isnan(same.predict([[np.nan, 0.0]])).all()
    far = same.predict([[1e9, -1e9], [10.0, -5.0]])
    assert far[0] == far[1]


def test_regressions_are_in_the_labels_units():
    labels = np.clip((TABLE[:, 0] - 5.0) / 5.0, -1.0, 1.0)
    learner, stream = played(SquaredLoss(2.0, 1.0), labels)
    answers = Model.of(learner, stream, "y").predict(TABLE)
    margins = stream.features @ learner.last_decision
    np.testing.assert_allclose(answers, 20.0 * np.clip(margins, -1.0, 1.0), atol=1e-12)


def test_a_fit_is_a_model_too():
    stream = Stream("s", TABLE, (TABLE[:, 0] > 5.0).astype(float), ("a", "b"), "classification")
    scaled = stream.scaled(SCALING)
    fit = SufficientStatistics(
        LpBall(3, 2.0, 2.0), SquaredLoss(2.0, 1.0), records=600, budget=BUDGET
    )
    fit.fit(scaled.features, scaled.labels)
    model = Model.of(fit, scaled, "y")
    assert np.array_equal(model.decision, fit.theta)
    assert model.guarantee == fit.guarantee


def test_a_model_holds_nothing_but_what_was_released():
    """Two streams, one tape: all that differs is the decision."""
    records = []
    for labels in (np.zeros(600), np.ones(600)):
        learner, stream = played(LogisticLoss(1.0), labels)
        records.append(Model.of(learner, stream, "y").to_dict())
    differ = {name for name in records[0] if records[0][name] != records[1][name]}
    assert differ == {"decision", "sha256"}


def test_what_is_no_release_is_refused():
    labels = np.zeros(600)
    seeded, stream = played(LogisticLoss(1.0), labels, source=Source.seeded(1))
    with pytest.raises(StateError, match="seeded noise"):
        Model.of(seeded, stream, "y")
    fresh = TreeFrankWolfe(LpBall(3, 2.0, 2.0), LogisticLoss(1.0), horizon=9, budget=BUDGET)
    with pytest.raises(StateError, match="released nothing"):
        Model.of(fresh, stream, "y")
    with pytest.raises(ValueError, match="declared ranges"):
        Model.of(fresh, Stream("s", TABLE, labels, ("a", "b"), "regression"), "y")
    learner, _ = played(LogisticLoss(1.0), labels)
    other, _ = played(LogisticLoss(1.5), labels)
    with pytest.raises(StateError, match="not that of the model"):
        Model.of(learner, stream, "y").after(other)


def changed(name, value):
    def change(record):
        record[name] = value(record[name])

    return change


def doubled(values):
    return [2.0 * each for each in values]


def less(guarantee):
    return {**guarantee, "epsilon": guarantee["epsilon"] / 2.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("decision", doubled), "was changed"),
        (changed("guarantee", less), "was changed"),
        (changed("schema", lambda _: "dpoco.model/2"), "newer version"),
        (changed("schema", lambda _: "dpoco.plan/1"), "no model"),
        (lambda record: record.update(loss=0.1), "was changed"),
        (lambda record: record.pop("created"), "was changed"),
        (changed("round", lambda _: "many"), "was changed"),
        (changed("ranges", lambda _: [[1.0]]), "was changed"),
        (changed("features", lambda _: 5), "was changed"),
        (changed("record_bounds", lambda _: [3.0]), "was changed"),
        (changed("guarantee", lambda _: 3), "must be a mapping|was changed"),
    ],
)
def test_edited_files_are_refused(change, message):
    learner, stream = played(LogisticLoss(1.0), np.zeros(600))
    record = json.loads(json.dumps(Model.of(learner, stream, "y").to_dict()))
    assert Model.from_dict(record).to_dict() == record
    original = record["decision"]
    change(record)
    with pytest.raises(StateError, match=message):
        Model.from_dict(record)
    # Nor is a file read whose checksum was computed again.
    if record["schema"] == "dpoco.model/1" and record["decision"] == original:
        record["sha256"] = _checksum({k: v for k, v in record.items() if k != "sha256"})
        with pytest.raises(StateError):
            Model.from_dict(record)


FIELDS = {  # what somebody may write into a field, with a checksum that fits
    "decision": ["x", [], [1.0], [1.0, 2.0, "3"], [1.0, 2.0, None], [1.0, 2.0, True], [1, 2, 1e400],
                 {"a": 1}],
    "features": [[], ["a"], ["a", "a"], ["a", 3], ["a", "b", "c"], "ab", None],
    "ranges": [[], [[0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]],
               [[0.0, None], [0.0, 1.0]], [["0", "1"], [0.0, 1.0]], [[0.0, 1.0, 2.0], [0.0, 1.0]],
               [[True, 2.0], [0.0, 1.0]], None],
    "intercept": [False, 1, None, "yes"],
    "task": ["regression", "bandit", None, 1],
    "label": [None, 3, ["y"]],
    "label_range": [[1.0, 0.0], [0.0], [0.0, None], ["0", "1"], 5, [0.0, 1.0, 2.0]],
    "categories": [None, [], {"a": []}, {"a": ["x", "x"]}, {"z": ["x"]}, {"a": "xy"}, {"a": [1]}],
    "missing": [None, [], {"z": 1.0}, {"a": None}, {"a": "1"}, {"a": 1e400}, {"a": True}],
    "positive": [3, ["x"], True],
    "record_bounds": [[[2.0, None]], [[2.0, -1.0]], [[2.0, 0.0]], [[2.0, "1"]], [[0.5, 1.0]],
                      [["2", 1.0]], [[2.0]], [[2.0, 1.0, 1.0]], [[None, 1.0]] * 3, [[2.0, 1e400]],
                      [[True, 1.0]], None, 7],
    "learner": [None, 5, "", "not a name", ["NoisyFTRL"]],
    "round": [-1, 1.5, "3", True, None, 10**9],
    "created": [None, "yesterday", 5, "2026-13-01"],
    "dpoco": [None, 5, ""],
    "classes": [[1, 0], None, "01"],
    "guarantee": [None, [], {}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, own in FIELDS.items() for value in own], ids=str
)
def test_every_field_is_validated(name, value, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    learner, stream = played(LogisticLoss(1.0), np.zeros(600))
    record = Model.of(learner, stream, "y").to_dict()
    record[name] = value
    content = {k: v for k, v in record.items() if k != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    record["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(StateError):
        Model.from_dict(record)
    (tmp_path / "m.json").write_text(json.dumps(record).replace("Infinity", "1e400"))
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    refused("predict", "m.json", "t.csv")


@pytest.mark.parametrize(
    "edit",
    [lambda text: text.replace('"round"', '"round": 1, "round"', 1),
     lambda text: text.replace('"intercept"', '"more": 1, "intercept"', 1),
     lambda text: text.replace("1.0", "NaN", 1), lambda text: text[:-40], lambda text: "[]",
     lambda text: "[" * 100_000, lambda text: '{"schema": "dpoco.model/1"}',
     lambda text: text.replace('"sha256": "', '"sha256": "0', 1)],
    ids=["twice", "unknown", "NaN", "cut", "list", "deep", "bare", "checksum"],
)  # fmt: skip
def test_texts_that_are_no_model(edit, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    learner, stream = played(LogisticLoss(1.0), np.zeros(600))
    Model.of(learner, stream, "y").save("m.json")
    (tmp_path / "m.json").write_text(edit((tmp_path / "m.json").read_text()))
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    refused("predict", "m.json", "t.csv")


def test_a_checksum_does_not_vouch_for_a_guarantee(tmp_path):
    learner, stream = played(LogisticLoss(1.0), np.zeros(600))
    record = Model.of(learner, stream, "y").to_dict()
    record["guarantee"] = less(record["guarantee"])
    record["sha256"] = _checksum({k: v for k, v in record.items() if k != "sha256"})
    with pytest.raises(StateError):
        Model.from_dict(record)
    text = json.dumps(record)
    (tmp_path / "half.json").write_text(text[: len(text) // 2])
    with pytest.raises(StateError, match="is no model"):
        Model.load(tmp_path / "half.json")


def test_files_of_a_pattern_follow_one_another_by_their_numbers(tmp_path, monkeypatch):
    from dpoco.datasets._tables import files

    monkeypatch.chdir(tmp_path)
    for hour in (10, 9, 1):
        (tmp_path / f"hour{hour}.csv").touch()
    assert [path.name for path in files("hour*.csv")] == [
        "hour1.csv", "hour9.csv", "hour10.csv",
    ]  # fmt: skip


@pytest.mark.parametrize("secret", [None, bytes(range(128, 160))], ids=["plain", "encrypted"])
def test_a_journal_is_looked_at_copied_and_verified(tmp_path, monkeypatch, answer, invoke, secret):
    monkeypatch.chdir(tmp_path)
    key = None if secret is None else dpoco.EncryptionKey(secret)
    if secret is not None:
        monkeypatch.setenv("DPOCO_KEY", secret.hex())
    learner = TreeFrankWolfe(LpBall(2), LogisticLoss(1.0), horizon=50, budget=BUDGET)
    with dpoco.journal.Journal("a.journal", encryption=key) as journal:
        stream = journal.open("prices", learner)
        stream.process(np.array([[0.5, 0.5]]), np.array([1.0]))
        shown = answer("journal", "status", "a.journal")["streams"]
        assert shown[0] == {
            "stream": "prices", "round": 1, "horizon": 50, "waiting": 0,
            "epsilon": stream.guarantee.epsilon, "delta": stream.guarantee.delta,
        }  # fmt: skip
        assert "prices" in invoke("journal", "status", "a.journal").stdout
        invoke("journal", "backup", "a.journal", "copy.journal")
        stream.process(np.array([[0.5, 0.5]]), np.array([1.0]))
        assert "verified" in invoke("journal", "verify", "a.journal").stdout
        mode = (tmp_path / "copy.journal").stat().st_mode
        assert mode & 0o077 == 0
        journal.open(
            "free [/eu]", TreeFrankWolfe(LpBall(2), LogisticLoss(1.0), horizon=9, budget=None)
        )
        endless = TreeFrankWolfe(LpBall(2), LogisticLoss(1.0), horizon=10**12, budget=None)
        journal.open("endless", endless)
    assert answer("journal", "status", "a.journal")["streams"][1]["epsilon"] is None
    assert "none" in invoke("journal", "status", "a.journal").stdout
    assert "free [/eu]" in invoke("journal", "status", "a.journal").stdout  # no mark of rich
    assert "unknown" in invoke("journal", "status", "a.journal").stdout
    assert answer("journal", "status", "copy.journal")["streams"][0]["round"] == 1
    invoke("journal", "backup", "a.journal", "copy.journal", code=2)
    if secret is not None:
        monkeypatch.delenv("DPOCO_KEY")
        assert "encrypted" in invoke("journal", "status", "copy.journal", code=2).stderr
