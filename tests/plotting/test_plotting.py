from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.late import Late

import dpoco
from dpoco.datasets import Stream
from dpoco.domains import LpBall
from dpoco.evaluation import (
    best_fixed_decision,
    compare_private,
    game_of_records,
    repeat,
)
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import LogisticLoss
from dpoco.plotting import plot_loss, plot_regret, plot_run_report

figure_module = Late("matplotlib.figure")

T, D = 500, 2
GENERATOR = np.random.default_rng(0)
FEATURES = GENERATOR.uniform(-0.7, 0.7, size=(T, D))
LABELS = (FEATURES[:, 0] + 0.3 * FEATURES[:, 1] > 0.0).astype(float)
STREAM = Stream("toy", FEATURES, LABELS, ("a", "b"), "classification")
DOMAIN, LOSS, BUDGET = LpBall(D, 2.0, 2.0), LogisticLoss(1.0), dpoco.Budget(2.0, 1e-5)


@pytest.fixture(scope="module")
def report():
    return compare_private(
        game_of_records(TreeFrankWolfe, STREAM, DOMAIN, LOSS), BUDGET, repeats=4, seed=3
    )


def build(source):
    return TreeFrankWolfe(DOMAIN, LOSS, horizon=T, budget=BUDGET, source=source)


@pytest.fixture(scope="module")
def traces():
    return list(repeat(build, FEATURES, LABELS, repeats=3, seed=3).values())


def line(axes, label):
    """The only line whose legend starts with `label`."""
    (found,) = [item for item in axes.get_lines() if item.get_label().startswith(label + ":")]
    return np.asarray(found.get_xdata(), float), np.asarray(found.get_ydata(), float)


def test_loss_curves_show_average_losses(report):
    axes = plot_loss(report)
    rounds = np.array(report.curves.rounds)
    for label, values in (
        ("private", report.curves.private),
        ("without noise", report.curves.nonprivate),
        ("best fixed decision", report.curves.best_fixed),
        ("best constant prediction", report.curves.best_constant),
    ):
        x, y = line(axes, label)
        assert np.array_equal(x, rounds)
        np.testing.assert_allclose(y, np.array(values) / rounds)
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_regret_is_measured_against_the_best_fixed_decision(report):
    axes = plot_regret(report)
    _, private = line(axes, "private")
    np.testing.assert_allclose(
        private, np.array(report.curves.private) - report.curves.best_fixed, atol=1e-12
    )
    assert private[-1] == pytest.approx(report.private.regret)
    labels = [item.get_label() for item in axes.get_lines()]
    assert not any(label.startswith("best fixed") for label in labels)


def test_bands_span_the_repetitions(report):
    (band,) = plot_regret(report).collections
    ys = band.get_paths()[0].vertices[:, 1]
    assert ys.max() == pytest.approx(
        max(np.array(report.curves.private_high) - report.curves.best_fixed)
    )
    single = compare_private(game_of_records(TreeFrankWolfe, STREAM, DOMAIN, LOSS), BUDGET, seed=3)
    assert not plot_loss(single).collections


def test_players_keep_their_colour_and_style_in_both_panels(report):
    def looks(axes):
        return {
            item.get_label().split(":")[0]: (item.get_color(), item.get_linestyle())
            for item in axes.get_lines()
            if ":" in item.get_label()
        }

    left, right = looks(plot_loss(report)), looks(plot_regret(report))
    assert len(set(left.values())) == len(left) == 4
    assert {name: left[name] for name in right} == right


def test_a_label_keeps_its_look_on_all_axes_of_a_figure(traces):
    left, middle, right = dpoco.plotting.new_figure((9.0, 3.0)).subplots(1, 3)
    for ax, names in ((left, "ab"), (middle, "ba"), (right, "cb")):
        plot_loss({name: trace for name, trace in zip(names, traces, strict=False)}, ax=ax)
    looks = [
        {item.get_label()[0]: (item.get_color(), str(item.get_linestyle())) for item in ax.lines}
        for ax in (left, middle, right)
    ]
    assert looks[0] == looks[1]
    assert looks[2]["b"] == looks[0]["b"]
    assert len({*looks[0].values(), looks[2]["c"]}) == 3
    alone = plot_loss({"b": traces[0]})
    assert alone.lines[0].get_color() == looks[0]["a"][0]


def test_traces_are_drawn_too(traces):
    best = best_fixed_decision(DOMAIN, LOSS, FEATURES, LABELS)
    x, y = line(plot_regret({"mine": traces[0]}, comparator=best), "mine")
    np.testing.assert_allclose(y, traces[0].regret(best)[x.astype(int) - 1], atol=1e-9)
    axes = plot_loss({"one": traces[0], "all": traces})
    _, middle = line(axes, "all")
    assert middle[-1] == pytest.approx(np.median([trace.average_loss for trace in traces]))
    assert len(axes.collections) == 1


def test_given_axes_are_used(report):
    figure = figure_module.Figure()
    left, right = figure.subplots(1, 2)
    assert plot_loss(report, ax=left) is left
    assert plot_regret(report, ax=right) is right
    assert plot_run_report(report, ax=(left, right)) is figure
    with pytest.raises(ValueError, match="pair of axes"):
        plot_run_report(report, ax=[left])


def test_report_figure_is_a_readable_png(report, tmp_path):
    figure = plot_run_report(report)
    left, right = figure.axes
    assert (left.get_title("left"), right.get_title("left")) == ("Average loss", "Regret")
    text = figure.get_suptitle()
    assert "toy" in text
    assert "500 rounds" in text
    assert "epsilon = 2" in text
    assert "4 runs" in text
    path = tmp_path / "report.png"
    figure.savefig(path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
    assert width >= 1500
    assert height >= 600
    assert len(data) > 20_000


def test_legends_cover_no_axes(report):
    figure = plot_run_report(report)
    figure.draw_without_rendering()
    for axes in figure.axes:
        legend = axes.get_legend().get_window_extent()
        assert legend.y1 <= axes.get_window_extent().y0
        assert figure.bbox.x0 <= legend.x0
        assert legend.x1 <= figure.bbox.x1
        assert legend.y0 >= figure.bbox.y0


def test_negative_and_zero_losses_are_drawn_on_a_linear_axis(report):
    free = TreeFrankWolfe(DOMAIN, dpoco.losses.LinearLoss(2.0), horizon=T, budget=None).run(
        FEATURES
    )
    assert plot_loss({"linear": free}).get_yscale() == "linear"


def test_bad_arguments(report, traces):
    with pytest.raises(ValueError, match="comparator"):
        plot_regret(report, comparator=np.zeros(D))
    with pytest.raises(ValueError, match="comparator"):
        plot_regret({"one": traces[0]})
    short = TreeFrankWolfe(DOMAIN, LOSS, horizon=9, budget=None).run(FEATURES[:9], LABELS[:9])
    with pytest.raises(ValueError, match="same number of rounds"):
        plot_loss({"one": traces[0], "short": short})
    with pytest.raises(ValueError, match="at least one"):
        plot_loss({})


def test_missing_matplotlib_names_the_extra(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"dpoco\[plot\]"):
        plot_run_report(report)


def test_importing_the_library_imports_nothing_heavy():
    code = (
        "import sys, dpoco; dpoco.plotting, dpoco.evaluation, dpoco.datasets\n"
        "heavy = {'typer', 'rich', 'matplotlib', 'pandas', 'pyarrow', 'river', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
