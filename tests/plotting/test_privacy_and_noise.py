"""Privacy curves, and noise over time."""

from __future__ import annotations

import numpy as np
import pytest
from tests.late import Late

import dpoco
from dpoco import Budget, Guarantee
from dpoco.mechanisms import ContinualSum
from dpoco.plotting import plot_noise, plot_privacy

figure_module = Late("matplotlib.figure")

BUDGET = Budget(1.0, 1e-6)


@pytest.fixture(scope="module")
def gaussian():
    return ContinualSum(2, horizon=64, budget=BUDGET, bound=1.0).guarantee


@pytest.fixture(scope="module")
def pure():
    return dpoco.experts.EpochSelector(3, horizon=64, budget=Budget(0.5, 0.0)).guarantee


def drawn(axes, start):
    """The only line whose legend starts with `start`."""
    (found,) = [line for line in axes.get_lines() if str(line.get_label()).startswith(start)]
    return np.asarray(found.get_xdata(), float), np.asarray(found.get_ydata(), float)


def test_the_curve_is_the_guarantees_and_the_disc_what_it_states(gaussian, pure):
    axes = plot_privacy({"sum": gaussian, "selector": pure})
    x, y = drawn(axes, "sum: epsilon = 1, delta = 1e-06")
    assert x[0] == 0.0
    assert x[-1] == pytest.approx(1.5)
    np.testing.assert_allclose(y[:50], [gaussian.delta_at(e) for e in x[:50]])
    discs = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert discs[0].get_xydata().tolist() == [[gaussian.epsilon, 1e-6]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("epsilon", "delta(epsilon)")
    assert axes.get_yscale() == "log"


def test_a_pure_guarantee_leaves_the_figure_at_its_epsilon(pure):
    axes = plot_privacy(pure)
    x, y = drawn(axes, "epsilon = 0.5, delta = 0")
    low = axes.get_ylim()[0]
    assert np.all(y[x < 0.5 * (1 - 1e-6)] > 0.0)
    assert np.all(y[x >= 0.5] < low)  # nothing lies along the edge as if delta stayed there
    (disc,) = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert disc.get_xydata().tolist() == [[0.5, low]]


def test_nothing_promised_is_drawn_as_such_and_seeded_noise_is_told():
    seeded = ContinualSum(
        2, horizon=64, budget=BUDGET, source=dpoco.random.Source.seeded(1), bound=1.0
    ).guarantee
    axes = plot_privacy({"none": Guarantee.none(10), "seeded": seeded})
    assert np.all(drawn(axes, "none: no privacy")[1] == 1.0)
    assert drawn(axes, "seeded: epsilon = 1, delta = 1e-06, not certified")


def test_what_a_calibration_claims_is_a_hollow_diamond():
    printed = dpoco.published.asi_tracking.batch_share(4, horizon=500, budget=Budget(1.0, 0.0))
    paper = dpoco.experts.BatchShare(4, horizon=500, budget=None, plan=printed)
    axes = plot_privacy({"printed": paper.guarantee})
    (diamond,) = [line for line in axes.get_lines() if line.get_marker() == "D"]
    assert diamond.get_xdata()[0] == paper.guarantee.claimed[0]
    assert str(diamond.get_label()).startswith("printed claims: epsilon = ")
    assert diamond.get_markerfacecolor() == "white"


def test_relations_are_told_where_they_differ(gaussian):
    other = ContinualSum(2, horizon=64, budget=BUDGET, relation="zero_out", bound=1.0).guarantee
    labels = [str(line.get_label()) for line in plot_privacy({"a": gaussian, "b": other}).lines]
    assert any("replace" in label for label in labels)
    assert any("zero_out" in label for label in labels)
    assert not any("replace" in str(line.get_label()) for line in plot_privacy(gaussian).lines)


def test_bad_guarantees_and_reach(gaussian):
    with pytest.raises(ValueError, match="at least one guarantee"):
        plot_privacy({})
    with pytest.raises(TypeError, match="must be of Guarantee"):
        plot_privacy({"x": 1.0})
    assert plot_privacy(gaussian, largest_epsilon=4.0).get_xlim() == (0.0, 4.0)


@pytest.mark.parametrize("method", ["blt", "tree", "toeplitz"])
def test_noise_is_what_the_mechanism_says(method):
    total = ContinualSum(2, horizon=33, budget=BUDGET, method=method, bound=1.0)
    axes = plot_noise({method: total})
    expected = [total.standard_deviation(t) for t in range(1, 34)]
    x, y = drawn(axes, f"{method}: at most {max(expected):.3g}")
    # Every round has a column of its own while there are few.
    np.testing.assert_allclose(x[:8], np.arange(1, 9))
    np.testing.assert_allclose(y[:8], expected[:8])
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_bands_are_the_range_of_neighbouring_rounds():
    total = ContinualSum(1, horizon=4000, budget=BUDGET, method="tree", bound=1.0)
    (band,) = plot_noise({"tree": total, "blt": ContinualSum(1, horizon=4000, budget=BUDGET,
        bound=1.0)}
                         ).collections  # fmt: skip
    heights = band.get_paths()[0].vertices[:, 1]
    spread = [total.standard_deviation(t) for t in (2047, 2048)]
    assert heights.max() == pytest.approx(spread[0], rel=0.05)
    assert heights[heights > 0].min() <= total.standard_deviation(1) * 1.001


def test_noise_of_learners_and_of_means():
    ball, loss = dpoco.domains.LpBall(2, 2.0, 1.0), dpoco.losses.LinearLoss(1.0)
    leader = dpoco.oco.NoisyFTRL(ball, loss, horizon=100, budget=BUDGET)
    hedge = dpoco.experts.PrefixHedge(3, horizon=100, budget=BUDGET)
    scale = leader.plan.mechanism.scale
    row = dpoco.accounting.continual_sum.row_norm("blt_normalised", 100, 100)
    axes = plot_noise({"leader": leader, "hedge": hedge}, per_round=True)
    y = drawn(axes, "leader:")[1]
    assert y[-1] == pytest.approx(scale * row / 100, rel=1e-3)
    coupled = dpoco.oco.CoupledRegularizedLeader(ball, loss, horizon=100, budget=BUDGET)
    y = drawn(plot_noise({"coupled": coupled}), "coupled:")[1]
    np.testing.assert_allclose(y, coupled.plan.mechanism.draw.noise)
    y = drawn(plot_noise({"root": np.sqrt}, rounds=50), "root: at most 7.07")[1]
    assert y[0] == 1.0


def test_batches_start_without_noise():
    loss = dpoco.losses.LinearLoss(1.0)
    ball = dpoco.domains.LpBall(2, 2.0, 1.0)
    leader = dpoco.oco.NoisyFTRL(ball, loss, horizon=100, batch=10, budget=BUDGET)
    x, y = drawn(plot_noise({"leader": leader}), "leader:")
    assert np.all(np.isnan(y[x < 9]))
    assert np.all(y[x >= 11] > 0.0)


def test_one_round_is_a_dot_and_bad_sources_are_named():
    axes = plot_noise({"one": ContinualSum(1, horizon=1, budget=BUDGET, bound=1.0)})
    (dot,) = axes.get_lines()
    assert dot.get_marker() == "o"
    selector = dpoco.experts.EpochSelector(3, horizon=9, budget=BUDGET)
    for error, message, sources, rounds in (
        (
            ValueError,
            "adds no noise",
            {"free": ContinualSum(1, horizon=9, budget=None, bound=1.0)},
            None,
        ),
        (TypeError, "EpochSelector releases no sum", {"x": selector}, None),
        (ValueError, "rounds must be given", {"x": np.sqrt}, None),
        (ValueError, "at most 9", {"x": ContinualSum(1, horizon=9, budget=BUDGET, bound=1.0)}, 10),
        (ValueError, "at least one source", {}, None),
        (ValueError, "shape", {"x": lambda t: 1.0}, 3),
    ):
        with pytest.raises(error, match=message):
            plot_noise(sources, rounds=rounds)


def test_axes_are_used(gaussian):
    left, right = figure_module.Figure().subplots(1, 2)
    assert plot_privacy(gaussian, ax=left) is left
    assert plot_noise({"x": np.sqrt}, rounds=9, ax=right) is right
