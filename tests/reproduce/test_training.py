"""Training curves, and the tables of rates, of ``bench/reproduce``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bench import reproduce
from bench.reproduce.batch_methods import METHODS, _mirror_step
from bench.reproduce.cell import LABEL_BOUND, Cell
from bench.reproduce.comparisons import comparisons
from bench.reproduce.training import PANELS

from dpoco import Budget

PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"


@pytest.fixture(scope="module")
def curves():
    return reproduce.figure_5_2(horizon=120, dimension=3, scales=(0.5, 1.0), seeds=2)


def test_every_panel_has_its_scalings(curves):
    """Noisy descent takes 14400 steps of a Python loop a run, for eight runs."""
    assert [(c.method, c.p) for c in curves.curves[::2]] == [*PANELS]
    for curve in curves.curves:
        assert (curve.horizon, curve.dimension, curve.runs) == (120, 3, 2)
        assert curve.fractions[-1] == 1.0
        assert len(curve.mean) == len(curve.deviation) == len(curve.seconds) == 40
        assert list(curve.seconds) == sorted(curve.seconds)
        assert curve.end == curve.mean[-1] > 0.0
    assert curves.best("LocalMD", 1.5).end == min(c.end for c in curves.curves[-2:])
    again = reproduce.Training.from_dict(curves.to_dict())
    assert again == curves
    assert "| 1.5 | 3 | 120 | LocalMD | 0.5 |" in curves.format_markdown()


def test_the_second_figure_has_the_best_of_both(curves):
    found = reproduce.figure_5_3(sizes=[(120, 3)], scales=(0.5, 1.0), seeds=2)
    assert [each.method for each in found.curves] == ["NoisySFW", "DP-TOFW"]
    assert found.curves[1].mean == curves.best("DP-TOFW", 1.5).mean


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_records_last_is_what_it_returns(method):
    p = 1.5 if method in ("NoisySFW", "LocalMD") else np.inf
    cell, points = Cell(100, 3, p, [0], "dense", 10), []
    given = cell.features[0], np.clip(cell.labels[0], -LABEL_BOUND, LABEL_BOUND), cell.domain
    end = METHODS[method](
        *given, LABEL_BOUND, cell.budget, np.random.default_rng(0), record=points.append
    )
    assert np.array_equal(points[-1], end)
    assert np.linalg.norm(end, p) <= cell.domain.radius * (1.0 + 1e-9)


def test_mirror_descent_learns_and_an_ascent_would_not():
    """Without noise to speak of."""
    cell, rich = Cell(4000, 5, 1.5, [0], "dense", 2000), Budget._derived(1e4, 1e-3)
    stream, head = cell.streams[0], slice(4000)
    end = METHODS["LocalMD"](
        stream.features[head], np.clip(stream.labels[head], -LABEL_BOUND, LABEL_BOUND),
        cell.domain, LABEL_BOUND, rich, np.random.default_rng(0),
    )  # fmt: skip
    assert cell.score_one(stream, end)[1] < 0.1


def test_the_mirror_map_is_the_gradient_of_half_a_square():
    p, dual, h = 1.5, np.array([0.3, -2.0, 1.1]), 1e-6

    def half_square(x):
        return 0.5 * (p - 1.0) * np.linalg.norm(x, 3.0) ** 2

    slopes = [
        (half_square(dual + step) - half_square(dual - step)) / (2.0 * h) for step in h * np.eye(3)
    ]
    np.testing.assert_allclose(_mirror_step(dual, p, 3.0), slopes, rtol=1e-6)
    assert not _mirror_step(np.zeros(3), p, 3.0).any()


def test_the_page_has_the_tables_of_rates():
    """Plans for a million rounds, and twenty of them: three seconds."""
    page = PAGE.read_text(encoding="utf-8")
    for table in comparisons().split("\n\n"):
        assert table in page, table
