"""The published learners: constants, true privacy, closed forms, and how little they learn."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy

from dpoco.local import Hypotheses
from dpoco.published.sima_local import (
    PublishedChannel,
    PublishedDistributionLearner,
    cells,
    lattice_step,
    printed_scale_factor,
)
from dpoco.random import Source

FA = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25] * 4])
FB = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]])
FC = np.array([[0.30, 0.25, 0.20, 0.15, 0.07, 0.03], [0.05, 0.10, 0.15, 0.20, 0.25, 0.25],
               [0.02, 0.48, 0.02, 0.02, 0.44, 0.02], [1 / 6] * 6])  # fmt: skip
FZ = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.9, 0.0, 0.1]])  # label 2 never happens
ALARM = 1e-6


def channel(matrix, horizon, *, epsilon=1.0, delta=0.0, sensitivity="round"):
    return PublishedChannel(matrix, horizon, epsilon, delta, sensitivity)


def learner(matrix, **options):
    arguments = {"epsilon": 1.0, "horizon": 1000, "public_seed": 5} | options
    return PublishedDistributionLearner(Hypotheses(matrix), **arguments)


# -- cells and constants --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [(FA, (2, 2, 2, 2)), (FC, (2, 3, 2, 2, 3, 2)),
                                                  (FB, (2, 2, 3, 2)), (FZ, (2, 4, 0, 1))],
)  # fmt: skip
def test_cells(matrix, expected):
    assert tuple(cells(matrix)) == expected


def test_there_may_be_more_than_k_m_cells_but_not_many():
    assert cells(FB).sum() == 9 > FB.size
    generator = np.random.default_rng(0)
    for _ in range(200):
        k, m = generator.integers(1, 6), generator.integers(1, 12)
        matrix = generator.dirichlet(np.full(m, 0.3), size=k)
        assert cells(matrix).sum() <= (min(k, m) + 1) * m - 1 + (m == 1)
    # Rounding a little above an integer makes no cell.
    assert tuple(cells(np.array([[np.nextafter(0.5, 1.0), 0.5 - 1e-16]]))) == (1, 1)


def test_published_constants():
    uniform = np.full((8, 4), 0.25)
    exp3 = channel(uniform, 10**4, sensitivity="printed")
    assert exp3.b == pytest.approx(11.289781913656018, rel=1e-14)
    assert exp3.c == pytest.approx(0.002108932249230611, rel=1e-14)
    assert exp3.shift == pytest.approx(231.4419098080671, rel=1e-14)
    wma = channel(uniform, 10**4, delta=1e-6, sensitivity="printed")
    assert wma.b == pytest.approx(367.63825261420277, rel=1e-13)


def test_widths():
    for matrix in (FA, FB, FC, FZ):
        m = matrix.shape[1]
        for horizon in (2, 10, 1000):
            widths = {
                name: channel(matrix, horizon, sensitivity=name).width
                for name in ("exact", "round", "worst_case")
            }
            assert widths["exact"] <= widths["round"] + 1e-12 <= widths["worst_case"] + 2e-12
            count = cells(matrix).sum()
            assert widths["round"] == pytest.approx(math.log(1 + (horizon - 1) * count / m))
    assert channel(FB, 1000, sensitivity="printed").width == math.log(2000) < widths["exact"] + 9


def test_lattice_steps():
    for reach, step in ((1.0, 2.0**-20), (1.01, 2.0**-19), (0.5, 2.0**-21), (3.0, 2.0**-18)):
        assert lattice_step(reach) == step


def test_the_published_scale_is_about_twice_what_its_proof_needs():
    log = math.log(1e6)  # of delta = 1e-6
    for k, epsilon in ((1, 0.1), (8, 1.0), (64, 9.0)):
        e = math.sqrt(2 / k) * (math.sqrt(log + epsilon) - math.sqrt(log))  # of a coordinate
        assert k * e * e / 2 + e * math.sqrt(2 * k * log) == pytest.approx(epsilon)
        assert 1.0 / e < printed_scale_factor(k, epsilon, 1e-6) < 2.5 / e


# -- privacy --------------------------------------------------------------------------------------


def laws(it, row, labels):
    """Function z -> probabilities of the report z for each label, up to a common factor."""
    scale = mpmath.mpf(it.scale.numerator) / it.scale.denominator
    table = [int(v) for v in it.table[row]]
    owned = [(int(n), table[y]) for y, n in enumerate(it.counts) if n]
    cells_ = sum(n for n, _ in owned)

    def at(z):
        def noise(v):
            return mpmath.exp(-abs(z - v) / scale)

        mixture = sum(n * noise(v) for n, v in owned) / cells_
        chances = []
        for y in labels:
            known = isinstance(y, int) and 0 <= y < len(table) and it.counts[y]
            own = noise(table[y]) if known else mixture
            chances.append((1 - mpmath.mpf(1) / it.horizon) * own + mixture / it.horizon)
        return chances

    return at


def largest_log_ratio(it):
    labels = [None, -1, it.table.shape[1], 2.5, *range(it.table.shape[1])]
    found = mpmath.mpf(0)
    with mpmath.workdps(60):
        for row in range(it.table.shape[0]):
            at = laws(it, row, labels)
            points = {int(v) + step for v in it.table[row] for step in (-1, 0, 1)}
            points |= {-(10**8), 10**8, *range(-(2**21), 2**21, 2**18)}
            for z in points:
                chances = at(z)
                found = max(found, mpmath.log(max(chances) / min(chances)))
    return found


@pytest.mark.parametrize("sensitivity", ["round", "worst_case", "exact"])
@pytest.mark.parametrize("matrix", [FA, FB, FC, FZ])
def test_reports_are_private_for_every_label_and_none(matrix, sensitivity):
    for horizon, epsilon in ((2, 3.0), (1000, 0.7)):
        it = channel(matrix, horizon, epsilon=epsilon, sensitivity=sensitivity)
        found = largest_log_ratio(it)
        assert found <= epsilon
        assert float(found) == pytest.approx(it.true_epsilon, rel=1e-9)


@pytest.mark.parametrize(("horizon", "true"), [(10, 0.9082), (100, 1.00975), (1000, 1.01429)])
def test_the_printed_width_is_too_small(horizon, true):
    it = channel(FB, horizon, sensitivity="printed")
    assert it.true_epsilon == pytest.approx(true, abs=1e-4 if horizon == 10 else 5e-6)
    assert float(largest_log_ratio(it)) == pytest.approx(it.true_epsilon, rel=1e-9)
    assert channel(FB, horizon).true_epsilon <= 1.0
    table = learner(np.stack([FB, FB[::-1]]), horizon=horizon, sensitivity="printed")
    assert it.true_epsilon <= table.true_epsilon * (1 + 1e-5)


def test_a_learner_says_what_its_reports_cost():
    assert learner(FB, sensitivity="printed").true_epsilon == pytest.approx(1.01429, abs=2e-5)
    assert learner(FB).true_epsilon == 1.0
    assert learner(np.stack([FB, FB[::-1]])).true_epsilon == 1.0
    assert learner(FB[:1], sensitivity="printed").true_epsilon == 1.0
    wma = learner(FB, delta=1e-6, sensitivity="printed")
    assert wma.true_epsilon == 1.0 > wma.channel().true_epsilon
    assert learner(np.stack([FB] * 2), delta=1e-6, sensitivity="printed").true_epsilon == 1.0


def test_composition_rescues_the_first_algorithm():
    it = channel(FB, 1000, delta=1e-6, sensitivity="printed")
    each = float(it.spread / it.scale)
    assert it.true_epsilon < 0.6  # half of what was paid for, in spite of the width
    assert 2 * each < 1.0
    # Its noise exceeds that of plain Laplace noise up to 132 hypotheses.
    factors = {k: printed_scale_factor(k, 1.0, 1e-6) for k in (132, 133)}
    assert factors[132] > 132
    assert factors[133] < 133


# -- reports --------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [1, 2, None])
def test_reports_follow_the_law(label):
    it = channel(FZ, 4, epsilon=2.0)
    source = Source.seeded(3)
    n = 12_000
    values = np.array([it.respond(0, label, source)[0] for _ in range(n)])
    edges = np.quantile(values, np.linspace(0.05, 0.95, 19)).astype(np.int64)

    def cdf(epsilon):
        scale = float(it.scale) * 2.0 / epsilon
        gaps = (edges[:, None] - it.table[0]) / scale
        each = np.where(gaps < 0, 0.5 * np.exp(gaps), 1.0 - 0.5 * np.exp(-np.abs(gaps)))
        mixture = each @ it.background
        own = each[:, label] if label == 1 else mixture  # label 2 is impossible
        return 0.75 * own + 0.25 * mixture

    observed = np.histogram(values, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]

    def p_value(epsilon):
        expected = np.diff(np.concatenate([[0.0], cdf(epsilon), [1.0]])) * n
        return scipy.stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)

    assert p_value(2.0) > ALARM
    assert p_value(2.6) < ALARM


def test_labels_are_replaced_once_in_the_horizon():
    """At T = 2 half of the labels are others: no replacement and wrong chances are seen."""
    it = channel(FB, 2, epsilon=29.9)
    source, n = Source.seeded(7), 4000
    low, high = it.table[0, 2], it.table[0, 0]
    assert high - low > 25 * it.scale  # noise never confuses the two
    share = it.counts[2:].sum() / it.counts.sum() / 2
    for label, other in ((0, share), (2, 0.5 - share), (None, 2 * share)):
        values = np.array([it.respond(0, label, source)[0] for _ in range(n)])
        near_low = int((values < (low + high) / 2).sum())
        expected = 1 - other if label == 2 else other
        assert scipy.stats.binomtest(near_low, n, expected).pvalue > 1e-6
        for wrong in (0.0, 1.0, expected / 2 if label != 2 else 1 - (1 - expected) / 2):
            assert scipy.stats.binomtest(near_low, n, wrong).pvalue < 1e-6


def test_every_label_gives_a_report_of_the_same_size():
    for delta, index, width in ((0.0, 1, 1), (1e-6, None, 2)):
        it = channel(FZ, 1000, delta=delta)
        for label in (0, 2, None, -1, 99, "no label", True):
            assert len(it.respond(index, label, Source.seeded(1))) == width


def test_one_hypothesis_sends_nothing():
    it = learner(FB[:1])
    it.observe(1, Source.seeded(1))
    assert it.weights == 1.0


# -- the server -----------------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", [FA, FB, FC, FZ])
def test_predictions_are_those_of_the_cells(matrix):
    it, source = learner(matrix, horizon=50), Source.seeded(1)
    for _ in range(10):
        it.observe(0, source)
    counts = cells(matrix)
    total = counts.sum()
    explicit = np.zeros(matrix.shape[1])
    for y, n in enumerate(counts):
        for _ in range(n):
            cell = (1 - 1 / 50) * matrix[:, y] / n + 1 / (50 * total)
            explicit[y] += it.weights @ cell
    prediction = it.predict()
    assert np.ptp(it.weights) > 0.0
    assert np.allclose(prediction, explicit, rtol=0, atol=1e-13)
    assert prediction.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.array_equal(prediction == 0.0, counts == 0)


def test_contexts_have_channels_of_their_own():
    it, source = learner(np.stack([FB, FB[:, ::-1]]), horizon=50), Source.seeded(1)
    for x in (0, 1, 1, 0):
        it.observe(0, source, x)
        assert np.array_equal(it.channel(x).counts, cells(FB if x == 0 else FB[:, ::-1]))
    assert it.predict(0).tolist() != it.predict(1).tolist()
    assert it.risk_bound() == math.inf


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_weights_are_exponential_in_the_normalised_losses(delta):
    it, form = learner(FC, delta=delta), channel(FC, 1000, delta=delta)
    total = np.zeros(4)
    theirs, ours = Source.seeded(2), Source.seeded(2)
    for _ in range(5):
        index = it.index
        assert (index is None) == (delta > 0.0)
        it.observe(1, theirs)
        report = np.array(form.respond(index, 1, ours))
        rows = slice(None) if index is None else slice(index, index + 1)
        total[rows] += form.c * (form.shift - report * form.step)
    eta = math.sqrt(2 * (1 if delta else 4) * math.log(4) / 1000)
    expected = np.exp(-eta * (total - total.min()))
    assert np.allclose(it.weights, expected / expected.sum(), rtol=1e-12)
    assert np.ptp(it.weights) > 0.0
    printed = learner(FC, delta=delta, learning_rate="printed")
    assert printed._rate == pytest.approx((2 if delta else 1) * it._rate)


@pytest.mark.parametrize("wrong", [{"horizon": 1}, {"delta": 1.0}, {"learning_rate": 0.0},
                                   {"epsilon": 0.0}, {"sensitivity": "none"}])  # fmt: skip
def test_arguments(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        learner(FA, **wrong)
    assert learner(FA, learning_rate=0.5).risk_bound() == math.inf


# -- how little they learn ------------------------------------------------------------------------


@pytest.mark.parametrize(("hypotheses", "horizon"), [(2, 6.7e6), (8, 1.3e7), (64, 1.1e8)])
def test_the_published_bound_says_nothing_for_millions_of_rounds(hypotheses, horizon):
    def bound(rounds):
        it = channel(np.full((hypotheses, 2), 0.5), rounds, sensitivity="printed")
        root = math.sqrt(2.0 * rounds * hypotheses * math.log(hypotheses))
        return root / it.c + 3.0 * math.log(hypotheses * rounds)

    trivial = math.log(hypotheses)
    assert bound(int(0.95 * horizon)) > 0.95 * horizon * trivial
    assert bound(int(1.06 * horizon)) < 1.06 * horizon * trivial


def test_their_bound_says_nothing():
    assert learner(FC).risk_bound() > 1000 * math.log(4)
    assert learner(FC, delta=1e-6).risk_bound() > 1000 * math.log(4)


def test_they_are_no_better_than_ignoring_all_reports():
    rounds = 4000
    generator = np.random.default_rng(11)
    matrix = np.ascontiguousarray(generator.dirichlet(np.ones(16), size=8))
    matrix.flags.writeable = False  # as those of Hypotheses: what is made of it is kept
    labels = generator.choice(16, size=rounds, p=matrix[0])
    mean = matrix.mean(axis=0)
    ignored = rounds * float(matrix[0] @ np.log(matrix[0] / mean))
    for delta, share in ((0.0, 0.9), (1e-6, 0.97)):
        it, source = learner(matrix, horizon=rounds, delta=delta), Source.seeded(8)
        reached = 0.0
        for label in labels:
            reached += float(matrix[0] @ np.log(matrix[0] / it.predict()))
            it.observe(int(label), source)
        assert reached > share * ignored


def test_scales_are_exact_quotients():
    it = channel(FB, 1000, epsilon=0.3)
    assert it.scale * Fraction(0.3) == it.spread or it.spread < it.scale * Fraction(0.3)
