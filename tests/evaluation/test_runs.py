from __future__ import annotations

import dataclasses
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import dpoco
from dpoco import evaluation
from dpoco.datasets import Stream
from dpoco.domains import LpBall
from dpoco.evaluation import (
    SCHEMA,
    Curves,
    PlayedRuns,
    RunReport,
    compare_private,
    game_of_records,
    repeat,
)
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import LinearLoss, LogisticLoss
from dpoco.published import han_frank_wolfe

T, D = 600, 3
GENERATOR = np.random.default_rng(2)
FEATURES = GENERATOR.uniform(-0.5, 0.5, size=(T, D))
LABELS = (FEATURES @ [4.0, -3.0, 0.0] > 0.0).astype(float)
STREAM = Stream("toy", FEATURES, LABELS, ("a", "b", "c"), "classification")
DOMAIN, LOSS = LpBall(D, 2.0, 3.0), LogisticLoss(1.0)
BUDGET = dpoco.Budget(2.0, 1e-5)


def game(stream=STREAM, domain=DOMAIN, **options):
    return game_of_records(TreeFrankWolfe, stream, domain, LOSS, **options)


def compare(options=(), **how):
    return compare_private(game(**dict(options)), BUDGET, **{"repeats": 3, "seed": 7, **how})


def build(source):
    return TreeFrankWolfe(DOMAIN, LOSS, horizon=T, budget=BUDGET, source=source)


def test_progress_counts_every_round():
    seen = []
    repeat(
        build, FEATURES, LABELS, repeats=3, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == sorted(seen)
    assert seen[-1] == (3 * T, 3 * T)
    phases = []
    compare(progress=lambda phase, done, total: phases.append((phase, done == total)))
    assert [phase for phase, done in phases if done] == ["comparators", "private", "without noise"]


def test_report_agrees_with_the_runs_it_describes():
    report = compare()
    root = dpoco.random.Source.seeded(7)
    traces = [build(root).run(FEATURES, LABELS) for _ in range(3)]
    best = dpoco.evaluation.best_fixed_decision(DOMAIN, LOSS, FEATURES, LABELS)
    free = TreeFrankWolfe(DOMAIN, LOSS, horizon=T, budget=None).run(FEATURES, LABELS)
    for i, trace in enumerate(traces):
        assert report.private.average_losses[i] == pytest.approx(trace.average_loss, rel=1e-12)
        assert report.private.regrets[i] == pytest.approx(trace.regret(best)[-1], abs=1e-9)
        assert report.private.switches[i] == len(trace.switches)
    assert report.nonprivate.average_loss == pytest.approx(free.average_loss, rel=1e-12)
    assert report.best_fixed["total_loss"] == pytest.approx(best.total_loss)
    assert report.rounds == T
    assert report.price_of_privacy == pytest.approx(
        float(np.median([t.average_loss for t in traces])) - free.average_loss
    )
    shown = np.array(report.curves.rounds) - 1
    sums = np.stack([np.cumsum(t.losses)[shown] for t in traces])
    np.testing.assert_allclose(report.curves.private, np.median(sums, axis=0))
    np.testing.assert_allclose(report.curves.private_low, sums.min(axis=0))
    np.testing.assert_allclose(report.curves.private_high, sums.max(axis=0))
    np.testing.assert_allclose(report.curves.nonprivate, np.cumsum(free.losses)[shown])
    np.testing.assert_allclose(
        report.curves.best_fixed, np.cumsum(free.comparator_losses(best.decision))[shown]
    )
    assert report.curves.best_constant[-1] == pytest.approx(report.best_constant["total_loss"])


def test_guarantee_and_parameters_are_the_learners():
    report = compare({"batch": 4, "sum_method": "tree"}, seed=None)
    learner = TreeFrankWolfe(DOMAIN, LOSS, horizon=T, budget=BUDGET, batch=4, sum_method="tree")
    assert dpoco.Guarantee.from_dict(report.guarantee) == learner.guarantee
    assert report.parameters == learner.plan.to_dict()
    assert report.settings["batch"] == 4
    assert report.settings["seed"] is None
    assert "Proof:" in report.guarantee_text
    assert dpoco.domains.from_dict(report.domain) == DOMAIN
    assert dpoco.losses.from_dict(report.loss) == LOSS


def test_seeded_report_says_the_guarantee_is_void():
    assert compare(seed=1).guarantee["certified"] is False
    assert compare(seed=None).guarantee["certified"] is True


def test_noise_is_compared_with_the_published_constants():
    noise = compare().noise
    paper = han_frank_wolfe.tree_frank_wolfe(DOMAIN, LOSS, horizon=T, budget=BUDGET)
    assert noise["paper_scale"] == pytest.approx(paper.mechanism.scale)
    assert noise["scale_ratio"] == pytest.approx(paper.mechanism.scale / noise["scale"])
    assert noise["released_ratio"] > noise["scale_ratio"] > 5.0


def test_only_timing_differs_between_equal_seeds():
    first, second = (compare().to_dict() for _ in range(2))
    assert first.pop("timing") != second.pop("timing")
    assert first == second
    assert compare(seed=8).to_dict()["private"] != first["private"]


def test_json_round_trip_is_exact():
    report = compare()
    record = json.loads(report.to_json())
    assert record["schema"] == SCHEMA
    assert record["summary"]["private"]["average_losses"]["max"] == max(
        report.private.average_losses
    )
    assert RunReport.from_dict(record) == report


def test_reports_with_numbers_of_numpy_and_without_a_counted_round_come_back():
    report = compare({"batch": np.int64(4)}, repeats=1, seed=np.int64(3))
    assert RunReport.from_dict(json.loads(report.to_json())) == report
    gone = Stream("gone", np.full((5, D), np.nan), LABELS[:5], ("a", "b", "c"), "classification")
    nothing = compare_private(game(gone, horizon=T), BUDGET, seed=1)
    restored = RunReport.from_dict(json.loads(nothing.to_json()))
    assert np.isnan(restored.private.average_loss)
    assert restored.private.regrets == nothing.private.regrets == (0.0,)


def test_repr_says_it_is_not_private():
    assert "not private" in repr(compare(repeats=1))


def test_from_dict_refuses_anything_else():
    record = compare().to_dict()
    for bad in (
        {},
        {**record, "schema": "dpoco.run-report/2"},
        {**record, "extra": 1},
        {k: v for k, v in record.items() if k != "noise"},
        {**record, "curves": {"rounds": [1]}},
    ):
        with pytest.raises(ValueError, match="report"):
            RunReport.from_dict(bad)


def test_shorter_horizon_leaves_rounds_out_and_a_longer_one_covers_more():
    short = compare({"horizon": 100})
    assert short.rounds == 100
    assert short.guarantee["horizon"] == 100
    assert compare({"horizon": 5 * T}).guarantee["horizon"] == 5 * T


def test_missing_records_cost_nobody_anything():
    features = FEATURES.copy()
    features[::3, 1] = np.nan
    stream = Stream("holes", features, LABELS, STREAM.feature_names, "classification")
    report = compare_private(game(stream), BUDGET, seed=7)
    kept = LABELS[np.isfinite(features).all(axis=1)]
    rate = kept.mean()
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    assert report.best_constant["total_loss"] == pytest.approx(len(kept) * entropy)
    assert report.curves.best_constant[-1] == pytest.approx(len(kept) * entropy)


def test_rows_for_a_resumed_learner_are_new_rows(tmp_path):
    """The second half as a stream of its own: the decisions and losses of one run over both."""
    halves = [
        dataclasses.replace(STREAM, features=FEATURES[part], labels=LABELS[part])
        for part in (slice(0, 250), slice(250, None))
    ]

    def play(stream, **how):
        return compare_private(game(stream, horizon=T), BUDGET, seed=7, **how)

    first = play(halves[0], checkpoint=tmp_path / "state")
    rest = play(halves[1], resume=dpoco.load(tmp_path / "state"), checkpoint=tmp_path / "state")
    assert rest.rows == {"skipped": 0, "played": T - 250, "beyond_horizon": 0}
    assert (rest.first_round, rest.rounds, rest.settings["horizon"]) == (250, T - 250, T)
    whole = play(STREAM, checkpoint=tmp_path / "whole")
    decisions = [dpoco.load(tmp_path / name).last_decision for name in ("state", "whole")]
    assert np.array_equal(*decisions)
    total = sum(report.curves.private[-1] for report in (first, rest))
    assert total == pytest.approx(whole.curves.private[-1])
    fresh = TreeFrankWolfe(DOMAIN, LOSS, horizon=T, budget=None).run(FEATURES[250:], LABELS[250:])
    assert rest.nonprivate.average_loss == pytest.approx(fresh.average_loss)


def test_rows_beyond_the_horizon_are_counted(tmp_path):
    report = compare({"horizon": 500}, repeats=1, checkpoint=tmp_path / "state")
    assert report.rows == {"skipped": 0, "played": 500, "beyond_horizon": 100}
    assert report.stream["rounds"] == 500
    played = compare({"horizon": T + 30}, repeats=1, checkpoint=tmp_path / "longer")
    assert played.rows["beyond_horizon"] == 0
    longer = dpoco.load(tmp_path / "longer")
    with pytest.raises(ValueError, match="already played every round of the stream"):
        compare({"horizon": T + 30}, repeats=1, resume=longer, skip_played=True)
    more = compare({"horizon": T + 30}, repeats=1, resume=longer)
    assert more.rows == {"skipped": 0, "played": 30, "beyond_horizon": T - 30}


def test_resume_of_another_problem_is_refused(tmp_path):
    compare(repeats=1, checkpoint=tmp_path / "state")
    finished = dpoco.load(tmp_path / "state")
    for skip_played in (False, True):
        with pytest.raises(ValueError, match="horizon of 600 rounds is used up: no row is played"):
            compare(repeats=1, resume=finished, skip_played=skip_played)
    with pytest.raises(ValueError, match="epsilon = 2, differs in its plan"):
        compare({"batch": 2}, repeats=1, resume=finished)
    with pytest.raises(ValueError, match="differs in its domain"):
        compare_private(game(domain=LpBall(D, 2.0, 4.0)), BUDGET, resume=finished)


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="repeats must be 1"):
        compare(repeats=2, checkpoint=tmp_path / "state")
    with pytest.raises(ValueError, match="repeats"):
        compare(repeats=0)
    with pytest.raises(TypeError, match="generalised linear"):
        game_of_records(TreeFrankWolfe, STREAM, DOMAIN, LinearLoss(1.0))
    with pytest.raises(ValueError, match="one entry per repetition"):
        PlayedRuns((1.0,), (), (1,))
    with pytest.raises(ValueError, match="one entry per round"):
        Curves((1, 2), (0.0,), (), (), (), (), ())


def test_a_bar_shows_how_far_a_run_is(capfd):
    bar = evaluation.ProgressBar(seconds=1e-9)
    for seen in [(0, 3000), (3000, 3000), ("fits", 1, 2), ("fits", 2, 2)]:
        bar(*seen)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "\r0 of 3,000\r3,000 of 3,000\n\rfits: 1 of 2\rfits: 2 of 2\n"
    slow = evaluation.ProgressBar(seconds=3600.0)
    for done in range(101):
        slow(done, 100)
    assert capfd.readouterr().err == "\r0 of 100\r100 of 100\n"
    with pytest.raises(ValueError, match="seconds"):
        evaluation.ProgressBar(0.0)


def test_a_bar_stays_in_one_cell_of_a_notebook(monkeypatch, capfd):
    shown = []

    class ZMQInteractiveShell:
        pass

    class Cell:
        def update(self, value):
            shown[-1].append(value)

    def display(value, display_id):
        assert display_id
        shown.append([value])
        return Cell()

    parts = {"display": display, "HTML": str}
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(**parts))
    bar = evaluation.ProgressBar(seconds=1e-9)
    for seen in [(1, 2), (2, 2), ("<b>", 2, 2)]:
        bar(*seen)
    assert [len(updates) for updates in shown] == [2, 1]
    assert shown[0][1] == '<progress value="2" max="2"></progress> 2 of 2'
    assert "&lt;b&gt;: 2 of 2" in shown[1][0]
    assert capfd.readouterr() == ("", "")
