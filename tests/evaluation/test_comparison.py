"""What leaves a comparison: tables, text, frames, figures; and learners of one's own in it."""

from __future__ import annotations

import csv
import io
import json
import pickle
from functools import partial

import numpy as np
import pytest
import scipy
from tests.docs.pages import ROOT, snippets

import dpoco
from dpoco import evaluation, plotting
from dpoco.audit import check_learner

T = 60
BALL, LOSS = dpoco.domains.LpBall(3), dpoco.losses.SquaredLoss(1.0, 1.0)
FEATURES = np.random.default_rng(0).uniform(-0.5, 0.5, (T, 3))
LABELS = FEATURES @ [0.5, -0.5, 0.2]
BUDGETS = [dpoco.Budget(1.0, 1e-6), dpoco.Budget(8.0, 1e-6), None]

SOURCE = snippets((ROOT / "docs" / "own_learner.md").read_text())[0].code


def own_class(text=SOURCE):
    namespace: dict[str, object] = {}
    exec(text, namespace)
    return namespace["NoisyGradientDescent"]


def build(kind):
    return lambda budget, source: kind(BALL, LOSS, horizon=T, budget=budget, source=source)


@pytest.fixture(scope="module")
def comparison():
    return evaluation.compare(
        {"own_&": build(own_class()), "leader": build(dpoco.oco.NoisyFTRL)},
        (FEATURES, LABELS),
        budgets=BUDGETS,
        comparator=evaluation.best_fixed_decision(BALL, LOSS, FEATURES, LABELS),
        repeats=3,
        seed=1,
    )


def test_every_run_is_a_record_of_csv_and_frame(comparison):
    rows = list(csv.DictReader(io.StringIO(comparison.to_csv())))
    frame = pytest.importorskip("pandas") and comparison.to_frame()
    assert len(rows) == len(frame) == 2 * (3 + 3 + 1)
    for row, (_, framed) in zip(rows, frame.iterrows(), strict=True):
        (own,) = (
            each for each in comparison.rows
            if each.learner == row["learner"]
            and (each.budget or {"epsilon": np.inf})["epsilon"] == float(row["epsilon"])
        )  # fmt: skip
        assert float(row["regret"]) == own.regrets[int(row["run"])] == framed["regret"]
        assert float(row["average_loss"]) == own.average_losses[int(row["run"])]
        assert int(row["switches"]) == own.switches[int(row["run"])]


@pytest.mark.parametrize("measure", ["average_loss", "regret", "switches"])
def test_tables_have_a_row_a_learner_and_a_column_a_budget(comparison, measure):
    lines = comparison.to_table(measure).splitlines()
    assert lines[0] == "| learner | epsilon = 1 | epsilon = 8 | no privacy |"
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| own_&", "| leader"]
    cells = [cell.strip(" |") for cell in lines[2].split(" | ")[1:]]
    values = {"average_loss": "average_losses", "regret": "regrets"}.get(measure, measure)
    first = getattr(comparison.rows[0], values)
    assert cells[0] == f"{np.median(first):.4g} ({min(first):.4g} to {max(first):.4g})"
    assert " to " not in cells[2]
    with pytest.raises(ValueError, match="measure"):
        comparison.to_table("loss")


def test_arguments_of_a_comparison_are_checked_before_anything_is_played():
    learners, data = {"leader": build(dpoco.oco.NoisyFTRL)}, (FEATURES, LABELS)
    made, zero = learners["leader"](BUDGETS[0], None), {"name": "zero", "total_loss": 0.0}
    for players, stream, budgets, what in (
        ({"leader": made}, data, BUDGETS, "must be a function of a budget"),
        (learners, FEATURES, BUDGETS, "data must be a tuple"),
        (learners, data, BUDGETS[0], r"such as \[budget\]"),
        (learners, data, [1.0], "each of budgets must be a"),
    ):
        with pytest.raises(TypeError, match=what):
            evaluation.compare(players, stream, budgets=budgets, comparator=zero)


@pytest.mark.parametrize("measure", ["average_loss", "regret", "switches"])
def test_tables_of_papers_have_means_intervals_and_the_best_in_bold(comparison, measure):
    latex = comparison.to_table(measure, "latex").splitlines()
    assert latex[:2] == [r"\begin{tabular}{lrrr}", r"\toprule"]
    head = [r"$\varepsilon = 1$", r"$\varepsilon = 8$", "no privacy"]
    assert latex[2] == " & ".join(["learner", *head]) + r" \\"
    assert [latex[i] for i in (3, 6, 7)] == [r"\midrule", r"\bottomrule", r"\end{tabular}"]
    assert [line.split(" & ")[0] for line in latex[4:6]] == [r"own\_\&", "leader"]
    name = {"average_loss": "average_losses", "regret": "regrets"}.get(measure, measure)
    for column in range(3):
        cells = [line.removesuffix(r" \\").split(" & ")[1 + column] for line in latex[4:6]]
        means = []
        budget = comparison.settings["budgets"][column]
        rows = [row for row in comparison.rows if row.budget == budget]
        for cell, row in zip(cells, rows, strict=True):
            values = getattr(row, name)
            means.append(np.mean(values))
            number, _, width = cell.strip("$").partition(r" \pm ")
            shown = float(number.removeprefix(r"\mathbf{").removesuffix("}"))
            unit = 10.0 ** -len(number.partition(".")[2].rstrip("}"))
            assert shown == pytest.approx(means[-1], abs=unit)
            assert bool(width) == (len(values) > 1 and np.ptp(values) > 0.0)
            if width:
                exact = scipy.stats.t.interval(
                    0.95, len(values) - 1, means[-1], scipy.stats.sem(values)
                )
                assert float(width) == pytest.approx((exact[1] - exact[0]) / 2, abs=unit)
        assert [r"\mathbf" in cell for cell in cells] == [mean == min(means) for mean in means]


def test_a_refused_learner_says_so():
    row = evaluation.ComparisonRow("a", {"epsilon": 1.0, "delta": 1e-6}, (), (), (), None, "no")
    settings = {"budgets": [row.budget, {"epsilon": 1.0, "delta": 1e-9}]}
    rows = (row, evaluation.ComparisonRow("a", settings["budgets"][1], (0.5,), (), (), None))
    found = evaluation.Comparison({}, settings, {}, rows, {}, {})
    head, _, line = found.to_table().splitlines()
    assert head == "| learner | epsilon = 1, delta = 1e-06 | epsilon = 1, delta = 1e-09 |"
    assert line == "| a | refused | 0.5 |"
    assert found.to_table("regret").endswith("| a | refused | - |")
    assert [record["refused"] for record in found.records()] == ["no", None]


def test_figures_take_a_comparison_and_show_themselves(comparison):
    pytest.importorskip("matplotlib")
    drawn = {
        draw: draw(comparison)
        for draw in (
            plotting.plot_loss,
            plotting.plot_regret,
            partial(plotting.plot_regret, per_round=True),
            plotting.plot_comparison,
        )
    }
    for axes in drawn.values():
        assert axes._repr_png_().startswith(b"\x89PNG")
        assert axes.figure._repr_png_().startswith(b"\x89PNG")
    labels = drawn[plotting.plot_regret].get_legend_handles_labels()[1]
    assert len(labels) == 6
    assert labels[0].startswith("own_&, epsilon = 1: ")
    line = drawn[plotting.plot_regret].get_lines()[0]
    assert line.get_ydata()[-1] == pytest.approx(np.median(comparison.rows[0].regrets))
    ax = drawn[plotting.plot_loss].figure.subplots()
    assert plotting.plot_loss(comparison, ax=ax) is ax
    assert not hasattr(ax, "_repr_png_")  # whose figure it is shows itself, or not


def test_notebooks_show_what_is_private_and_what_is_not(comparison):
    trace = comparison.runs["leader, epsilon = 1"][0]
    shown = trace._repr_html_()
    assert "not private" in shown
    assert f"{trace.average_loss:.6g}" in shown
    assert "not private" in comparison._repr_html_()
    assert "| own_&amp; |" in comparison._repr_html_()
    promised = dpoco.Guarantee.pure_epsilon(0.5, horizon=3, released="<b>")
    assert promised._repr_html_().startswith("<b>only if no record moves")
    assert "<pre>Differential privacy" in promised._repr_html_()
    assert "&lt;b&gt;" in promised._repr_html_()
    ledger = dpoco.accounting.Ledger(dpoco.Budget(2.0, 1e-6))
    assert "<b>Privacy ledger" in ledger._repr_html_()
    json.dumps(comparison.to_dict())


def test_learners_of_experts_without_a_run_are_played():
    class Favourite:
        horizon, round = T, 0
        guarantee = dpoco.Guarantee.none(T)

        def decide(self):
            return self.round // 20

        def observe(self, losses):
            self.round += 1

    table, seen = np.random.default_rng(1).uniform(size=(T, 3)), []
    trace = evaluation.play(Favourite(), table, progress=lambda *at: seen.append(at))
    assert np.array_equal(trace.decisions, np.repeat([0, 1, 2], 20))
    assert np.array_equal(trace.losses, table[np.arange(T), trace.decisions])
    assert trace.switches.tolist() == [19, 39]
    assert seen[-1] == (T, T)
    best = evaluation.best_expert(table)
    assert trace.regret(best)[-1] == pytest.approx(trace.losses.sum() - best.total_loss)
    with pytest.raises(dpoco.HorizonExceeded):
        evaluation.play(Favourite(), np.vstack([table, table]))
    with pytest.raises(TypeError, match="checkpoint"):
        evaluation.play(Favourite(), table, checkpoint="x")


def test_the_learner_of_the_page_plays_as_its_loop_does():
    kind = own_class()
    trace = evaluation.play(
        build(kind)(BUDGETS[1], dpoco.random.Source.seeded(2)), FEATURES, LABELS
    )
    loop = build(kind)(BUDGETS[1], dpoco.random.Source.seeded(2))
    for t in range(T):
        decision = loop.decide()
        assert np.array_equal(decision, trace.decisions[t])
        own = LOSS.value(decision, FEATURES[t], LABELS[t])
        assert trace.losses[t] == pytest.approx(own)
        loop.observe(FEATURES[t], LABELS[t])
    windows = evaluation.prequential(build(kind)(None, None), FEATURES, LABELS)
    free = evaluation.play(build(kind)(None, None), FEATURES, LABELS)
    assert windows.overall["loss"] == pytest.approx(free.average_loss)


# What a careless author might write instead, and the check that notices.
PLANTED = {
    "if not self._asked:": ("if False:", "decide_and_observe_alternate"),
    "if self.round >= self.horizon:": ("if False:", "horizons_are_walls"),
    "if not np.isfinite(length):": ("if False:", "missing_values_are_silent"),
    "self._theta.flags.writeable = False": ("pass", "decisions_stay_until_observe"),
    "self._source = dpoco.random.Source() if source is None else source": (
        "self._source = dpoco.random.Source()", "seeds_repeat_releases"),
    "        self._asked = True\n": (
        "        self._asked = True\n        self._theta = self._theta + 0.01\n",
        "decisions_stay_until_observe"),
    "if self._noise > 0.0:": ("if self._noise > 0.0 and length > 0.5:",
                              "replays_move_no_more_than_stated"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_faults_in_a_learner_of_ones_own_are_noticed(fault):
    instead, name = PLANTED[fault]
    assert fault in SOURCE
    assert check_learner(own_class(), checks=[name]) == (name,)
    with pytest.raises(AssertionError, match=name):
        check_learner(own_class(SOURCE.replace(fault, instead)), checks=[name])


def test_a_comparison_comes_back_from_a_file_without_its_traces(comparison):
    restored = evaluation.Comparison.from_dict(json.loads(comparison.to_json()))
    assert restored == comparison
    assert restored.to_table() == comparison.to_table()
    assert restored.traces == {}
    assert plotting.plot_comparison(restored).get_legend() is not None
    with pytest.raises(ValueError, match="has no traces"):
        plotting.plot_loss(restored)
    with pytest.raises(ValueError, match="not a report"):
        evaluation.Comparison.from_dict({**comparison.to_dict(), "schema": "dpoco.comparison/0"})


def test_streams_without_a_record_and_seeds_of_numpy_can_be_stored():
    found = evaluation.compare(
        {"leader": build(dpoco.oco.NoisyFTRL)},
        (np.full_like(FEATURES, np.nan), LABELS),
        budgets=[None],
        comparator={"name": "nothing", "total_loss": 0.0},
        seed=np.int64(5),
    )
    assert np.isnan(found.rows[0].average_loss)
    record = json.loads(found.to_json())
    assert record["rows"][0]["average_losses"] == [None]
    assert record["settings"]["seed"] == 5
    assert "& --" in found.to_table(form="latex")


def test_a_comparator_without_a_total_is_named():
    with pytest.raises(ValueError, match="a name and a total_loss"):
        evaluation.compare(
            {"leader": build(dpoco.oco.NoisyFTRL)}, (FEATURES, LABELS), budgets=[None],
            comparator={"name": "nothing"},
        )  # fmt: skip


class Still:
    """A learner of vectors or of experts without `run`, which always decides the same."""

    horizon, round = T, 0
    guarantee = dpoco.Guarantee.none(T)

    def __init__(self, decision):
        self._decision = decision
        if not isinstance(decision, int):
            self.domain, self.loss = BALL, LOSS

    def decide(self):
        return self._decision

    def observe(self, *record):
        self.round += 1


def test_streams_of_no_rounds_and_of_unequal_parts():
    assert len(evaluation.play(Still(0), np.empty((0, 3)))) == 0
    empty = evaluation.play(Still(np.zeros(3)), np.empty((0, 3)), np.empty(0))
    assert empty.decisions.shape == (0, 3)
    learner = Still(np.zeros(3))
    with pytest.raises(ValueError, match="same number of rounds"):
        evaluation.play(learner, FEATURES, LABELS[:-1])
    assert learner.round == 0


def test_traces_of_fits_and_of_learners_without_a_run_go_to_other_processes():
    fit = dpoco.frank_wolfe.SufficientStatistics(BALL, LOSS, budget=None)
    for learner in (fit, Still(np.zeros(3))):
        trace = evaluation.play(learner, FEATURES, LABELS)
        twin = pickle.loads(pickle.dumps(trace))
        assert np.array_equal(twin.losses, trace.losses)
        assert np.array_equal(twin.regret(np.ones(3)), trace.regret(np.ones(3)))


def test_budgets_that_differ_in_late_digits_have_names_of_their_own():
    found = evaluation.compare(
        {"leader": build(dpoco.oco.NoisyFTRL)}, (FEATURES, LABELS), repeats=1, seed=1,
        budgets=[dpoco.Budget(epsilon, 1e-6) for epsilon in (1.0, 1.0000001)],
        comparator={"name": "nothing", "total_loss": 0.0},
    )  # fmt: skip
    assert list(found.runs) == ["leader, epsilon = 1", "leader, epsilon = 1.0000001000000001"]
