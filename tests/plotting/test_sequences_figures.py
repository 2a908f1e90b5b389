"""Dynamic regret and decisions in a figure."""

from __future__ import annotations

import numpy as np
import pytest
from bench.worlds import AdversarialBlocks
from tests.late import Late
from tests.worlds import BurnAfterPlay

from dpoco.environments import SwitchingStochastic, play
from dpoco.evaluation import best_switching_sequence
from dpoco.plotting import plot_decisions, plot_regret

colors = Late("matplotlib.colors")
figure_module = Late("matplotlib.figure")


class Scripted:
    """Plays a given sequence."""

    def __init__(self, sequence):
        self.left = list(sequence)

    def decide(self):
        return int(self.left.pop(0))

    def observe(self, losses):
        pass


WORLD = SwitchingStochastic(3, 300, switches=2, gap=0.8, seed=0)
BEST = best_switching_sequence(WORLD.matrix(), 2)


def scripted(sequence, world=WORLD):
    world.reset()
    return play(Scripted(sequence), world)


@pytest.fixture(scope="module")
def traces():
    generator = np.random.default_rng(1)
    return [scripted(generator.integers(0, 3, 300)) for _ in range(3)]


def line(axes, label):
    (found,) = [item for item in axes.get_lines() if item.get_label().startswith(label + ":")]
    return np.asarray(found.get_xdata(), float), np.asarray(found.get_ydata(), float)


def test_regret_is_measured_against_the_sequence(traces):
    axes = plot_regret({"many": traces, "one": traces[0]}, comparator=BEST)
    rounds, one = line(axes, "one")
    np.testing.assert_allclose(one, traces[0].regret(BEST)[rounds.astype(int) - 1], atol=1e-9)
    _, many = line(axes, "many")
    regrets = np.stack([trace.regret(BEST) for trace in traces])
    assert many[-1] == pytest.approx(np.median(regrets[:, -1]))
    (band,) = axes.collections
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(regrets.max())
    assert axes.get_ylabel() == "regret against the best 2-switch sequence"
    marks = [item.get_xdata()[0] for item in axes.get_lines() if len(set(item.get_xdata())) == 1]
    assert marks == [after + 1.0 for after in BEST.switches]


def test_adaptive_games_are_compared_each_on_its_own_losses():
    world = BurnAfterPlay(80, 20, seed=0)
    stays, moves = scripted([0] * 20, world), scripted(range(20), world)
    axes = plot_regret({"stays": stays, "moves": moves}, comparator=3)
    assert line(axes, "stays")[1][-1] == stays.regret(3)[-1]
    assert line(axes, "moves")[1][-1] == moves.regret(3)[-1]
    assert not np.array_equal(stays.comparator_losses(3), moves.comparator_losses(3))


def shares(axes):
    """What the bars show: rows of experts, NaN where nobody played."""
    (mesh,) = [item for item in axes.collections if item.get_array() is not None]
    return np.ma.filled(mesh.get_array(), np.nan)[::2]


def test_bars_show_who_was_played():
    world = AdversarialBlocks(3, 6, block=2)
    axes = plot_decisions(scripted([0, 0, 1, 2, 2, 2], world), comparator=world.comparator())
    expected = np.full((3, 6), np.nan)
    expected[[0, 0, 1, 2, 2, 2], range(6)] = 1.0
    np.testing.assert_array_equal(shares(axes), expected)
    assert axes.get_xlim() == (0, 6)
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first expert on top
    bands = [item for item in axes.collections if item.get_array() is None]
    spans = [item.get_paths()[0].get_extents() for item in bands]
    assert [(span.x0, span.x1) for span in spans] == [(0, 2), (2, 4), (4, 6)]
    assert [span.y0 + span.y1 for span in spans] == pytest.approx([0, 2, 4])  # centred on 0, 1, 2


def test_many_rounds_and_runs_are_shared_out(traces):
    long = AdversarialBlocks(2, 4001)
    drawn = shares(plot_decisions(scripted(np.arange(4001) % 2, long)))
    assert drawn.shape == (2, 400)
    np.testing.assert_allclose(np.nansum(drawn, axis=0), 1.0)
    np.testing.assert_allclose(drawn, 0.5, atol=0.06)
    together = shares(plot_decisions(traces))
    assert set(np.unique(together[~np.isnan(together)]).round(6)) <= {0.333333, 0.666667, 1.0}


def test_names_and_axes_are_used(traces):
    axes = figure_module.Figure().subplots()
    assert plot_decisions(traces[0], comparator=BEST, names=["a", "b", "c", "d"], ax=axes) is axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "c", "d"]
    assert plot_regret({"x": traces}, comparator=1, ax=axes) is axes


def test_bad_arguments_are_named(traces):
    short = play(Scripted([0] * 5), AdversarialBlocks(3, 5))
    for message, runs, options in (
        ("same number of rounds", [traces[0], short], {}),
        ("same number of rounds", [], {}),
        ("names must have at least 3", traces, {"names": ["a", "b"]}),
        ("comparator must have shape", traces, {"comparator": [0, 1]}),
        ("comparator must be", traces, {"comparator": [0.5] * 300}),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            plot_decisions(runs, **options)
    with pytest.raises(ValueError, match="decision must have shape"):
        plot_regret({"x": traces}, comparator=[0, 1])
