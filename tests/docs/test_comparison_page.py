"""The comparison page shows what its command computes: one cheap row of every table again."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import dpoco

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
MODULES = ("side_convex", "side_experts", "side_bandits")

# A row of ours, a private script and a non-private tool, in every kind of table.
ROWS = [
    ("side_convex", "shuttle", "TreeFrankWolfe"),
    ("side_convex", "phishing", "DP-FTRL, tree noise"),
    ("side_convex", "phishing", "DP-SGD, fresh noise on every gradient, best step"),
    ("side_convex", "regression", "TreeFrankWolfe"),
    ("side_experts", "stocks", "PrefixHedge"),
    ("side_experts", "pollsters", "noisy max every round, composed"),
    ("side_experts", "stationary", "EpochSelector"),
    ("side_experts", "switching", "ShiftDetector"),
    ("side_bandits", "sphere", "LinUCB"),
    ("side_bandits", "cube", "HighDimensionalBandit"),
]


@pytest.fixture(scope="module")
def bench():
    """The modules of the benchmark, which are scripts beside each other and no package."""
    pytest.importorskip("river")
    added = str(ROOT / "bench")
    sys.path.insert(0, added)
    try:
        names = (*MODULES, "side_measure", "side_by_side")
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(added)


def lines_of(key):
    """Rows of a table on the page: cells by learner."""
    block = re.search(rf"<!-- begin {key} -->\n(.*?)<!-- end {key} -->", PAGE, re.DOTALL)
    assert block, f"the page has no table {key!r}"
    rows = [line.strip("| ").split(" | ") for line in block[1].splitlines() if line[:1] == "|"]
    return {cells[0].strip("*"): cells for cells in rows}


def case_of(bench, module, key):
    try:
        return bench[module].CASES[key]()
    except ImportError:
        pytest.skip("this version of river does not bundle the stream")


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize(("module", "key", "name"), ROWS)
def test_a_row_is_what_the_command_computes(bench, module, key, name):
    case = case_of(bench, module, key)
    (contender,) = [line for line in case.contenders if line.name == name]
    cells = dict(zip(bench["side_measure"].BUDGETS, lines_of(key)[name][1:], strict=False))
    found = bench["side_measure"].play(contender)
    assert found
    for column, cell in cells.items():
        if column not in found:
            assert cell == "-"
            continue
        mean, error = found[column]
        numbers = [float(number) for number in cell.split(" ± ")]
        assert len(numbers) == (1 if error is None else 2)
        # NumPy's sums round differently on other machines; ours do not.
        slack = 5.1e-5 if contender.kind == "ours" else 2e-3
        np.testing.assert_allclose(numbers, [mean, error][: len(numbers)], rtol=0.0, atol=slack)


def test_every_table_has_every_contender(bench):
    seen = set()
    for module in MODULES:
        for key in bench[module].CASES:
            names = set(lines_of(key))
            assert {"learner"} < names
            seen |= names
    for name in ("NoisyFTRL", "PrefixHedge", "ObliviousTracker", "HighDimensionalBandit"):
        assert name in seen


def regret(key, name, column=1):
    """The mean of a cell: column 0 is without privacy, 1 at epsilon = 1, 2 at epsilon = 8."""
    return float(lines_of(key)[name][1 + column].split(" ± ")[0])


def test_the_reading_agrees_with_the_tables():
    """What the last section says, of the numbers above it."""

    free, one, eight = range(3)
    tuned, tree = "best step", "DP-FTRL, tree noise"
    assert regret("shuttle", f"river LogisticRegression, {tuned}", free) < 0.0
    river = regret("phishing", "river LogisticRegression", free)
    for name in ("NoisyFTRL", "TreeFrankWolfe", "CoupledRegularizedLeader", tree):
        assert regret("phishing", name, one) > 2.0 * river
    for key in ("shuttle", "regression"):
        for column in (one, eight):
            ftrl = regret(key, "NoisyFTRL", column)
            assert ftrl < 0.9 * regret(key, tree, column)
            assert regret(key, "TreeFrankWolfe", column) < ftrl
            best = regret(key, f"NoisyFTRL, {tuned}", column)
            assert best < 0.6 * regret(key, f"{tree}, {tuned}", column)
            assert 2.0 * best < ftrl
            assert regret(key, f"{tree}, {tuned}", column) < ftrl
    sgd = regret("shuttle", "DP-SGD, fresh noise on every gradient", eight)
    assert sgd < regret("shuttle", "NoisyFTRL", eight) < regret("shuttle", tree, eight)
    hedge = regret("stationary", "PrefixHedge", one)
    assert 2.0 * hedge < regret("stationary", "tree Hedge, NumPy", one)
    tuned_tree = regret("stationary", f"tree Hedge, NumPy, {tuned}", eight)
    assert tuned_tree < regret("stationary", "PrefixHedge", eight)
    share = regret("switching", "fixed share, NumPy", free)
    assert 5.5 < regret("switching", "ObliviousTracker", one) / share < 6.5
    assert 1.8 < regret("switching", "ObliviousTracker", eight) / share < 2.2
    theirs = "DP-LinUCB, tree noise, NumPy"
    for key, column in (("sphere", one), ("sphere", eight), ("cube", eight)):
        assert (
            0.25 < regret(key, "LinUCB, exploration 1", column) / regret(key, theirs, column) < 0.36
        )


def test_markers_are_replaced_once(bench):
    replaced = bench["side_by_side"].replace_table
    page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb"
    assert replaced(page, "x", "new") == "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb"
    with pytest.raises(ValueError, match="markers"):
        replaced(page, "y", "new")


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_scripts_have_the_claimed_budget(bench, epsilon):
    """Their noise, restated: the exact Gaussian curve at the stated epsilon gives delta."""
    gaussian = dpoco.accounting.gaussian
    convex, budget = bench["side_convex"], dpoco.Budget(epsilon, 1e-6)
    streams = [dpoco.datasets.linear_regression_stream(100, 3, seed=1)]
    loss = dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
    problem = convex.Problem(loss, 1.0, streams, slope_bound=4.0)
    # How often a record enters: one gradient; 99 released sums; the 7 nodes above a leaf.
    for method, times in (("descent", 1), ("fresh", 99), ("tree", 7)):
        scale, _ = problem.law(method, budget)
        mu = gaussian.compose_gdp([2.0 * 4.0 / scale] * times)
        assert gaussian.gaussian_delta(epsilon, mu) == pytest.approx(1e-6, rel=1e-6)


def test_one_run_is_one_of_many(bench):
    """Without noise, the loop that is timed plays what the loop for many runs plays."""
    convex = bench["side_convex"]
    streams = [dpoco.datasets.linear_regression_stream(500, 3, seed=1)]
    loss = dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
    problem = convex.Problem(loss, 0.5, streams, slope_bound=4.0)
    for method in convex.LOOPS:
        _, step = problem.law(method, None)
        many = convex.many(problem, method, np.zeros(2), np.array([step, 2.0 * step]))
        one = convex.one(problem, method, None)
        np.testing.assert_allclose(many[:, 0], one, atol=1e-12)
        assert np.abs(many[:, 1] - one).max() > 1e-3


def test_tree_noise_is_the_noise_of_a_tree(bench):
    draws = list(np.random.default_rng(1).standard_normal((13, 2)))
    tree = bench["side_convex"].tree_noise(iter(draws), (2,))
    prefixes = [noise.copy() for noise in tree]  # the arrays are used again
    for t, noise in enumerate(prefixes, 1):
        expected, left = np.zeros(2), t
        while left:  # the completed nodes that cover 1..t end at t without its lowest bits
            expected += draws[left - 1]
            left &= left - 1
        np.testing.assert_allclose(noise, expected, atol=1e-12)


@pytest.fixture(scope="module")
def field():
    """The program that compares with other packages, which it does not import itself."""
    added = [str(ROOT / "bench"), str(ROOT / "bench" / "field")]
    sys.path[:0] = added
    try:
        yield importlib.import_module("regenerate")
    finally:
        for each in added:
            sys.path.remove(each)


def test_the_field_is_what_its_file_says(field):
    report = json.loads((ROOT / "bench" / "field" / "field.json").read_text())
    for key, text in field.blocks(report).items():
        assert f"<!-- begin {key} -->\n{text}\n<!-- end {key} -->" in PAGE, key
    # Our own numbers are those of today, and the bound lies below everybody's.
    for times in (1, field.TIMES):
        stored = report["ours"]["sums"][f"1000 {times}"]
        for name in ("blt_normalised", "tree", *(["banded"] if times > 1 else [])):
            # The rates for people are found by a search through the platform's BLAS.
            near = 5e-3 if (name, times) == ("blt_normalised", field.TIMES) else 1e-6
            assert field.our_noise(name, 1000, times) == pytest.approx(stored[name], rel=near)
        theirs = [report["banded"][f"1000 {times}"], field.best(report["blt"].get(f"1000 {times}"))]
        for noise in (field.read_offers(stored), *filter(None, theirs)):
            assert stored["least"] < noise["rms"] < noise["max"]
    assert report["trees"]["tree like ours"]
    for rounds, column in report["trees"]["column"].items():
        ours = dpoco.accounting.continual_sum.column_norm("tree", int(rounds))
        assert column == pytest.approx(ours, rel=1e-6)
    assert report["ours"]["epsilon"]["tree"] < report["epsilon"]["tree"]["dp-accounting RDP"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_the_least_noise_for_people(field, share):
    """The bound against all singular values of the matrix that it is about."""
    rounds, times = 240, 4
    apart = rounds // times
    one = np.kron(np.ones((times, times)), np.eye(apart))  # rounds of one person
    mean = ((1.0 - share) * np.eye(rounds) + share * one) / apart
    values, vectors = np.linalg.eigh(mean)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    exact = np.linalg.norm(np.tril(np.ones((rounds, rounds))) @ root, "nuc") / np.sqrt(rounds)
    found = field.least_for_people(rounds, times, share, 40)
    assert 0.97 * exact < found < exact
    if share == 0.0:  # independent signs: rounds of sqrt(times) people
        alone = dpoco.accounting.continual_sum.lower_bound(rounds)
        assert exact == pytest.approx(alone * np.sqrt(times))


def test_conclusions_are_those_of_the_tables():
    text = " ".join(PAGE.partition("## Conclusions")[2].split())

    def ratio(key, name, other, column=1, base=1):
        return regret(key, name, column) / regret(key, other, base)

    river = "river LogisticRegression"
    private = [
        regret("phishing", name)
        for name, cells in lines_of("phishing").items()
        if cells[2:] and cells[2][0].isdigit() and "best step" not in name
    ]
    assert f"has {min(private) / regret('phishing', river, 0):.1f} times the regret" in text
    assert min(private) / regret("phishing", f"{river}, best step", 0) > 5.0
    tree = "DP-FTRL, tree noise"
    saved = [1.0 - ratio(k, "NoisyFTRL", tree) for k in ("shuttle", "phishing", "regression")]
    low, high = (f"{100 * share:.0f}" for share in (min(saved), max(saved)))
    assert f"{low} to {high} % less regret" in text
    newton = ratio("shuttle", "NoisyNewton", "NoisyFTRL, predicted step")
    exact = ratio("regression", "NoisyFTRL, quadratic statistics", "TreeFrankWolfe")
    assert f"they have {newton:.1f} and {exact:.1f} times the regret" in text
    factors = [
        ratio("shuttle", "NoisyFTRL, predicted step", "NoisyFTRL, best step", c, c) for c in (1, 2)
    ]
    assert (
        f"by factors of {factors[0]:.1f} (epsilon = 1) and {factors[1]:.0f} (epsilon = 8)" in text
    )
    more = ratio("stationary", "PrefixHedge", "PrefixHedge", 1, 0) - 1.0
    assert f"has {round(10 * more) * 10} % more regret than without privacy" in text
    assert ratio("stationary", "tree Hedge, NumPy", "PrefixHedge") > 2.0
    tracker = [ratio("switching", "ObliviousTracker", "fixed share, NumPy", c, 0) for c in (1, 2)]
    assert [round(factor) for factor in tracker] == [6, 2]
    published = "DP-LinUCB, tree noise, NumPy"
    sphere = [ratio("sphere", "LinUCB", published, column, column) for column in (1, 2)]
    assert all(abs(share - 0.25) < 0.03 for share in sphere)
    cube = [f"{ratio('cube', 'LinUCB', published, c, c):.1f}" for c in (1, 2)]
    assert f"In the cube it has {cube[0]} times its regret at epsilon = 1 and {cube[1]}" in text
