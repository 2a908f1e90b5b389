"""Learners side by side, switches on a timeline, prequential windows, bounds; and the style."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from tests.late import Late

import dpoco
from dpoco.bandits import LinUCB
from dpoco.environments import LinearWorld
from dpoco.evaluation import Comparison, ComparisonRow, PrequentialResult
from dpoco.plotting import plot_comparison, plot_loss, plot_prequential, plot_regret, plot_switches
from dpoco.plotting._drawing import look

figure_module = Late("matplotlib.figure")

T = 200
LOSSES = np.random.default_rng(0).uniform(size=(T, 3))


def run(seed, budget=None):
    learner = dpoco.experts.PrefixHedge(
        3, horizon=T, budget=budget, source=dpoco.random.Source.seeded(seed)
    )
    return learner.run(LOSSES)


@pytest.fixture(scope="module")
def runs():
    return {"one": run(0), "three": [run(seed) for seed in range(3)]}


def row(learner, epsilon, values, bound=None, refused=None):
    budget = None if epsilon is None else {"epsilon": epsilon, "delta": 1e-6}
    guarantee = None if bound is None else {"regret_bound": bound}
    switches = tuple(range(len(values)))
    return ComparisonRow(learner, budget, values, values, switches, guarantee, refused)


ROWS = (
    row("a", 4.0, (3.0, 1.0, 2.0), bound=5.0),
    row("b", 4.0, (4.0,), bound=1e9),
    row("a", 1.0, (6.0, 7.0, 9.0), bound=8.0),
    row("b", 1.0, (), refused="too little"),
    row("a", None, (0.5,)),
)
COMPARISON = Comparison({}, {}, {"name": "best", "average_loss": 0.25}, ROWS, {}, {})


def test_columns_are_budgets_and_marks_are_medians_with_their_range():
    axes = plot_comparison(COMPARISON)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "4", "no privacy"]
    assert axes.get_xlabel() == "epsilon (delta = 1e-06)"
    assert axes.get_ylabel() == "total loss above that of the best"
    by_label = {str(line.get_label()): line for line in axes.get_lines()}
    assert list(by_label["a"].get_ydata()) == [7.0, 2.0]
    assert by_label["b (refused at epsilon = 1)"].get_ydata()[0] == 4.0
    hollow = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white"]
    assert [list(line.get_ydata()) for line in hollow] == [[0.5], []]
    ranges = [segment[:, 1].tolist() for segment in axes.collections[0].get_segments()]
    assert ranges == [[6.0, 9.0], [1.0, 3.0], [0.5, 0.5]]
    places = [line.get_xdata()[0] for line in (by_label["a"], axes.get_lines()[2])]
    assert places[0] < 0.0 < 1.0 < places[1]  # side by side in a column


def test_fits_are_drawn_where_they_have_a_number():
    offline = ComparisonRow(
        "c", {"epsilon": 4.0, "delta": 1e-6}, (1.5, 2.5), (), (), None, access="offline"
    )
    comparison = replace(COMPARISON, rows=(*ROWS, offline))
    labels = [line.get_label() for line in plot_comparison(comparison).get_lines()]
    assert not any(label.startswith("c") for label in labels)
    axes = plot_comparison(comparison, measure="average_loss")
    (line,) = [a for a in axes.get_lines() if a.get_label() == "c (one fit, offline)"]
    assert line.get_ydata().tolist() == [2.0]


def test_bounds_and_other_measures_of_a_comparison():
    axes = plot_comparison(COMPARISON, bounds=True)
    dashed = [line for line in axes.get_lines() if line.get_label() == "proven, in expectation"]
    assert len(dashed) == 1  # told once
    heights = {line.get_ydata()[0] for line in axes.get_lines() if len(line.get_ydata()) == 2}
    assert {5.0, 8.0} <= heights
    assert 1e9 not in heights
    lines = plot_comparison(COMPARISON, measure="average_loss").get_lines()
    assert [line.get_ydata()[0] for line in lines if line.get_label() == "best: 0.25"] == [0.25]
    assert plot_comparison(COMPARISON, measure="switches").get_ylabel() == "changes of decision"
    with pytest.raises(ValueError, match="measure"):
        plot_comparison(COMPARISON, measure="luck")
    with pytest.raises(ValueError, match="bounds"):
        plot_comparison(COMPARISON, measure="switches", bounds=True)
    mixed = (*ROWS, replace(ROWS[0], budget={"epsilon": 4.0, "delta": 1e-3}))
    axes = plot_comparison(replace(COMPARISON, rows=mixed))
    assert "4\ndelta = 0.001" in [text.get_text() for text in axes.get_xticklabels()]


def switching(rounds, at):
    return replace(run(0), losses=np.zeros(rounds), switches=np.asarray(at, dtype=np.int64))


def test_few_switches_are_ticks_and_many_are_shades():
    few, many = [switching(1000, [9, 499]), switching(1000, [99])], switching(1000, range(500))
    axes = plot_switches({"few": few, "many": many})
    ticks = [item for item in axes.collections if not item.get_array() is not None]
    at = [[segment[0, 0] for segment in item.get_segments()] for item in ticks]
    assert at == [[10.0, 500.0], [100.0]]
    (mesh,) = [item for item in axes.collections if item.get_array() is not None]
    shares = np.asarray(mesh.get_array()).ravel()
    assert shares[:200].tolist() == [1.0] * 200
    assert not shares[200:].any()
    told = [text.get_text() for text in axes.texts]
    assert told == ["2", "500", "switches"]  # the median of 2 and 1 is told in full numbers
    assert [text.get_text() for text in axes.get_yticklabels()] == ["few", "many"]
    marked = plot_switches({"few": few}, comparator=np.repeat([0, 1], 500))
    assert [line.get_xdata()[0] for line in marked.get_lines()] == [500.0]
    with pytest.raises(ValueError, match="same number of rounds"):
        plot_switches({"few": few, "short": switching(9, [])})


def result(values, ends=(10, 20)):
    measures = {"loss": tuple(values)}
    return PrequentialResult(ends, measures, {"loss": float(np.mean(values))}, (0, 0))


def test_prequential_windows_and_their_band():
    axes = plot_prequential({"x": [result((1.0, 3.0)), result((2.0, 8.0)), result((0.0, 5.0))]})
    (line,) = [item for item in axes.get_lines() if str(item.get_label()).startswith("x:")]
    assert line.get_xydata().tolist() == [[10.0, 1.0], [20.0, 5.0]]
    assert line.get_label() == "x: 2.5"  # median over the stream, not of the last window
    (band,) = axes.collections
    assert band.get_paths()[0].vertices[:, 1].max() == 8.0
    with pytest.raises(ValueError, match="measure must be one of"):
        plot_prequential({"x": result((1.0, 2.0))}, measure="error")
    with pytest.raises(ValueError, match="same windows"):
        plot_prequential({"x": result((1.0, 2.0)), "y": result((1.0, 2.0), ends=(5, 10))})


@pytest.mark.parametrize("per_round", [False, True])
def test_bounds_are_dashed_and_end_in_a_triangle(per_round, runs):
    top = float(np.abs(runs["one"].regret(0)).max())
    limit = 0.01 if per_round else top
    plot = partial(plot_regret, runs, comparator=0, per_round=per_round)
    axes = plot(bounds={"one": limit, "three": 1e9})
    last = np.median([trace.regret(0)[-1] for trace in runs["three"]])
    shown = [line for line in axes.get_lines() if str(line.get_label()).startswith("three:")]
    assert shown[0].get_ydata()[-1] == pytest.approx(last / T if per_round else last)
    assert axes.get_xlabel() == ("round (logarithmic)" if per_round else "round")
    by_label = {str(line.get_label()): line for line in axes.get_lines()}
    (label,) = [name for name in by_label if name.startswith("proven for one: ")]
    assert by_label[label].is_dashed()
    assert by_label[label].get_linewidth() < 1.5
    assert set(by_label[label].get_ydata()) == {limit}
    (triangle,) = [line for line in axes.get_lines() if line.get_marker() == "v"]
    assert (triangle.get_xdata()[0], triangle.get_ydata()[0]) == (T, limit)
    (far,) = [name for name in by_label if name.endswith("(above the figure)")]
    assert len(by_label[far].get_xdata()) == 0
    assert axes.get_ylim()[1] < 1e3
    with pytest.raises(ValueError, match="bounds must be of"):
        plot(bounds={"two": 1.0})


def test_bandits_are_drawn_by_their_regret():
    world = LinearWorld(2, 3, 100, seed=0)
    trace = LinUCB(2, 3, horizon=100, budget=None, context_bound=1.0, reward_bound=1.0).run(
        world.contexts, world.rewards
    )
    means = world.means
    axes = plot_regret({"bandit": trace}, comparator=lambda one: one.pseudo_regret(means))
    line = axes.get_lines()[0]
    assert line.get_ydata()[-1] == pytest.approx(trace.pseudo_regret(means)[-1])
    assert axes.get_ylabel() == "regret"
    line = plot_regret({"bandit": [trace]}, comparator="arm").get_lines()[0]
    assert line.get_ydata()[-1] == pytest.approx(trace.regret("arm")[-1])
    with pytest.raises(TypeError, match="rewards instead of losses"):
        plot_loss({"bandit": trace})
    with pytest.raises(ValueError, match="must return shape"):
        plot_regret({"bandit": trace}, comparator=lambda one: [1.0])


def test_repeats_by_number_are_read_as_runs(runs):
    axes = plot_loss({"both": dict(enumerate(runs["three"]))})
    assert len(axes.collections) == 1


def test_one_round_and_one_run_are_dots_without_a_band():
    one = dpoco.experts.PrefixHedge(3, horizon=1, budget=None).run(LOSSES[:1])
    for axes in (
        plot_loss({"x": one}),
        plot_regret({"x": one}, comparator=0),
        plot_regret({"x": one}, comparator=0, per_round=True),
    ):
        assert axes.get_lines()[0].get_marker() == "o"
        assert not axes.collections
        low, high = axes.get_ylim()
        assert high - low > 1e-9
        axes.figure.draw_without_rendering()


def test_many_lines_differ_in_look(runs):
    assert len({(colour, str(style)) for colour, style in map(look, range(14))}) == 14
    axes = plot_loss({str(index): runs["one"] for index in range(9)})
    first, eighth = axes.get_lines()[0], axes.get_lines()[7]
    assert first.get_color() == eighth.get_color()
    assert first.is_dashed() != eighth.is_dashed()


def test_long_names_stay_inside_the_figure_and_dollars_are_text(runs):
    names = {f"$a$ rather long name of a learner that goes on and on, number {i}": runs["one"]
             for i in range(3)}  # fmt: skip
    axes = plot_loss(names)
    figure = axes.figure
    figure.draw_without_rendering()
    box = axes.get_legend().get_window_extent()
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1
    assert r"\$a\$" in axes.get_legend().get_texts()[0].get_text()
    panels = figure_module.Figure(figsize=(9.0, 4.0), layout="constrained").subplots(1, 3)
    plot_loss(names, ax=panels[1])
    panels[1].figure.draw_without_rendering()
    box = panels[1].get_legend().get_window_extent()
    assert box.width <= 1.25 * panels[1].figure.bbox.width / 3


def test_nothing_is_shown_kept_or_set_globally(monkeypatch, runs):
    matplotlib = pytest.importorskip("matplotlib")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda *a, **k: pytest.fail("shown"))
    before, settings = pyplot.get_fignums(), dict(matplotlib.rcParams)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", SimpleNamespace())  # not even asked for
    axes = plot_loss(runs)
    assert plot_regret(runs, comparator=0, ax=axes) is axes  # axes may be drawn on again
    plot_switches(runs)
    plot_comparison(COMPARISON)
    plot_prequential({"x": result((1.0, 2.0))})
    assert pyplot.get_fignums() == before
    assert dict(matplotlib.rcParams) == settings


def test_a_comparator_without_an_average_has_no_line():
    given = {"name": "nothing", "total_loss": 0.0}
    rows = (row("a", 1.0, (0.5, 0.7)),)
    drawn = []
    for comparator in (given, {**given, "average_loss": 0.25}):
        comparison = Comparison({}, {"budgets": []}, comparator, rows, {})
        axes = plot_comparison(comparison, measure="average_loss")
        drawn.append([label for label in axes.get_legend_handles_labels()[1] if "nothing" in label])
    assert drawn == [[], ["nothing: 0.25"]]
