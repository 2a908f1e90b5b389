"""The published learners: constants, true privacy, closed forms, and how little they learn."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import dpoco
from dpoco.accounting import local_vector
from dpoco.local import DistributionLearner, Hypotheses, LocalClient
from dpoco.local._paper_channel import PaperChannel, cells
from dpoco.local._vector import VectorRandomizer
from dpoco.random import Source

FA = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25] * 4])
FB = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]])
FC = np.array([[0.30, 0.25, 0.20, 0.15, 0.07, 0.03], [0.05, 0.10, 0.15, 0.20, 0.25, 0.25],
               [0.02, 0.48, 0.02, 0.02, 0.44, 0.02], [1 / 6] * 6])  # fmt: skip
FZ = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.9, 0.0, 0.1]])  # label 2 never happens
ALARM = 1e-6


def channel(matrix, horizon, *, epsilon=1.0, delta=0.0, sensitivity="round", vector=False):
    return PaperChannel(matrix, horizon, epsilon, delta, sensitivity, vector)


def learner(matrix, name="paper_exp3", **options):
    arguments = {"epsilon": 1.0, "horizon": 1000, "public_seed": 5} | options
    if name == "paper_wma":
        arguments.setdefault("delta", 1e-6)
    return DistributionLearner(Hypotheses(matrix), learner=name, **arguments)


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
    wma = channel(uniform, 10**4, delta=1e-6, sensitivity="printed", vector=True)
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
        assert it.costs_at_most(epsilon)
        assert not it.costs_at_most(0.9 * float(found))


@pytest.mark.parametrize(("horizon", "true"), [(10, 0.9082), (100, 1.00975), (1000, 1.01429)])
def test_the_printed_width_is_too_small(horizon, true):
    it = channel(FB, horizon, sensitivity="printed")
    assert it.true_epsilon == pytest.approx(true, abs=1e-4 if horizon == 10 else 5e-6)
    assert float(largest_log_ratio(it)) == pytest.approx(it.true_epsilon, rel=1e-9)
    assert channel(FB, horizon).true_epsilon <= 1.0
    bound = PaperChannel.printed_bound(2, 4, horizon, 1.0, 0.0, False)
    assert it.true_epsilon <= bound * (1 + 1e-5)


def test_an_event_that_the_published_epsilon_forbids():
    it = channel(FB, 1000, sensitivity="printed")
    # Reports at or above the largest value of hypothesis 0, given labels 0 and 2.
    q = math.exp(-float(1 / it.scale))
    z = int(it.table[0].max())
    reach = np.exp(-(z - it.table[0]) / float(it.scale)) / (1.0 + q)
    mixture = float(it.background @ reach)
    chances = 0.999 * reach + 0.001 * mixture
    assert chances[0] > math.exp(1.0) * chances[2]
    assert chances[0] < math.exp(1.0143) * chances[2]


def test_the_guarantee_of_the_printed_width_is_the_true_one():
    with pytest.warns(UserWarning, match=r"epsilon = 1\.01429"):
        it = learner(FB, sensitivity="printed")
    guarantee = it.guarantee
    assert guarantee.epsilon == pytest.approx(1.01429, abs=2e-5)
    assert guarantee.paper_epsilon == 1.0
    spec = it.round_spec()
    assert spec.epsilon >= 1.01428
    # A device does not believe that it costs less.
    cheap = replace(spec, epsilon=1.0)
    with pytest.raises(ValueError, match="charges less"):
        LocalClient(Hypotheses(FB), 2.0).respond(cheap, None, 1)
    LocalClient(Hypotheses(FB), 2.0).respond(spec, None, 1)
    with pytest.raises(dpoco.BudgetExceeded):
        LocalClient(Hypotheses(FB), 1.0).respond(spec, None, 1)
    table = Hypotheses(np.stack([FB, FB[::-1]]))
    with pytest.warns(UserWarning, match="reports are private"):
        many = DistributionLearner(table, epsilon=1.0, horizon=1000, learner="paper_exp3",
                                   sensitivity="printed")  # fmt: skip
    assert many.guarantee.epsilon >= 1.01429
    assert learner(FB).guarantee.epsilon == 1.0
    assert learner(FB).guarantee.paper_epsilon is None


def test_composition_rescues_the_first_algorithm():
    it = channel(FB, 1000, delta=1e-6, sensitivity="printed", vector=True)
    each = float(it.spread / it.scale)
    assert it.true_epsilon < 0.6  # half of what was paid for, in spite of the width
    delta = local_vector.composed_laplace_delta(1.0, [it.spread] * 2, float(it.scale))
    assert delta == 0.0
    assert 2 * each < 1.0
    # Its noise exceeds that of plain Laplace noise up to 132 hypotheses.
    factors = {k: local_vector.printed_scale_factor(k, 1.0, 1e-6) for k in (132, 133)}
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
        return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)

    assert p_value(2.0) > ALARM
    assert p_value(2.6) < ALARM


def test_every_label_gives_a_report_of_the_same_size():
    for name, width in (("paper_exp3", 1), ("paper_wma", 2)):
        it = learner(FZ, name)
        spec = it.round_spec()
        sizes = set()
        for label in (0, 2, None, -1, 99, "no label"):
            client = LocalClient(Hypotheses(FZ), 1.0, delta_max=1e-6)
            report = client.respond(spec.to_bytes(), None, label)
            assert len(report.values) == width
            sizes.add(len(report.to_bytes()))
            it.update(spec, report)
        assert len(sizes) == 1


def test_tampered_rounds_are_refused():
    spec = learner(FB).round_spec()
    horizon, nominal, code = spec.parameters
    for parameters in ((), (1.0, nominal, code), (2.5, nominal, code), (horizon, 2.0, code),
                       (horizon, 0.0, code), (horizon, nominal, 9.0), (math.inf, nominal, code),
                       (horizon, math.nan, code)):  # fmt: skip
        with pytest.raises(ValueError, match=r"paper|horizon"):
            LocalClient(Hypotheses(FB), 1.0).respond(replace(spec, parameters=parameters), None, 0)
    for change in ({"index": None}, {"noise": "gaussian"}, {"delta": 0.1}):
        client = LocalClient(Hypotheses(FB), 1.0, delta_max=0.5)
        with pytest.raises(ValueError, match=r"paper|contradicts"):
            client.respond(replace(spec, **change), None, 0)
        assert client.spent == 0.0


def test_one_hypothesis_sends_nothing():
    it = learner(FB[:1])
    spec = it.round_spec()
    report = LocalClient(Hypotheses(FB[:1]), 1.0).respond(spec, None, 1)
    assert report.values == (0,)
    it.update(spec, report)
    assert it.weights == 1.0


# -- the server -----------------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", [FA, FB, FC, FZ])
def test_predictions_are_those_of_the_cells(matrix):
    it = learner(matrix, horizon=50)
    client = LocalClient(Hypotheses(matrix), 10.0, max_reports=10, simulation_seed=1)
    for _ in range(10):
        spec = it.round_spec()
        it.update(spec, client.respond(spec, None, 0))
    counts = cells(matrix)
    total = counts.sum()
    explicit = np.zeros(matrix.shape[1])
    for y, n in enumerate(counts):
        for _ in range(n):
            cell = (1 - 1 / 50) * matrix[:, y] / n + 1 / (50 * total)
            explicit[y] += it.weights @ cell
    prediction = it.predict()
    assert np.allclose(prediction.all(), explicit, rtol=0, atol=1e-13)
    assert prediction.all().sum() == pytest.approx(1.0, abs=1e-12)
    assert [prediction.prob(y) for y in range(matrix.shape[1])] == prediction.all().tolist()
    assert np.array_equal(prediction.all() == 0.0, counts == 0)


def test_weights_are_exponential_in_the_normalised_losses():
    for name in ("paper_exp3", "paper_wma"):
        it = learner(FC, name)
        vector = name == "paper_wma"
        form = channel(FC, 1000, delta=1e-6 * vector, vector=vector)
        total = np.zeros(4)
        source = Source.seeded(2)
        for _ in range(5):
            spec = it.round_spec()
            report = form.respond(spec.index, 1, source)
            total[spec.index if not vector else slice(None)] += form.c * (
                form.shift - np.array(report if vector else report[0]) * form.step
            )
            answer = LocalClient(Hypotheses(FC), 1.0, delta_max=1e-6).respond(spec, None, 1)
            it.update(spec, replace(answer, values=report))
        eta = math.sqrt(2 * (1 if vector else 4) * math.log(4) / 1000)
        expected = np.exp(-eta * (total - total.min()))
        assert np.allclose(it.weights, expected / expected.sum(), rtol=1e-12)
    printed = learner(FC, "paper_wma", eta="printed")._rule
    default = learner(FC, "paper_wma")._rule
    assert printed._rate("printed") == pytest.approx(2 * default._rate(None))


def test_arguments():
    for options in ({"horizon": None}, {"horizon": 1}, {"delta": 1e-6}, {"eta": "best"}):
        with pytest.raises(ValueError, match=r"horizon|delta|eta"):
            learner(FA, **options)
    with pytest.raises(ValueError, match="positive delta"):
        learner(FA, "paper_wma", delta=None)
    assert learner(FA, eta=0.5)._rule.risk_bound(10) == math.inf


def test_states_continue_bit_for_bit(tmp_path):
    for name in ("paper_exp3", "paper_wma"):
        it = learner(FC, name)
        spec = it.round_spec()
        it.update(spec, LocalClient(Hypotheses(FC), 1.0, delta_max=1e-6).respond(spec, None, 1))
        it.save(tmp_path / name)
        again = dpoco.load(tmp_path / name)
        assert np.array_equal(again.weights, it.weights)
        assert not np.array_equal(it.weights, np.full(4, 0.25))
        assert again.round_spec() == it.round_spec()


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


def test_the_learners_warn_that_their_bound_says_nothing():
    with pytest.warns(dpoco.errors.NoiseDominatesWarning):
        learner(FC).risk_bound(1000)


def risk(it, form, matrix, truth, labels):
    """KL-risk of the published weights, devices simulated by their randomizer alone."""
    source, total = Source.seeded(8), 0.0
    kinds = np.log(matrix[truth])
    for t, label in enumerate(labels, 1):
        spec = it._rule.specify(t, matrix)
        total += float(matrix[truth] @ (kinds - np.log(it._rule.predict(t, matrix).all())))
        values = form(spec, int(label), source)
        it._rule.apply(spec, matrix, np.array([values], dtype=np.int64))
    return total


def test_they_are_no_better_than_ignoring_all_reports():
    rounds = 4000
    generator = np.random.default_rng(11)
    matrix = np.ascontiguousarray(generator.dirichlet(np.ones(16), size=8))
    matrix.flags.writeable = False  # as those of Hypotheses: what is made of it is kept
    labels = generator.choice(16, size=rounds, p=matrix[0])
    mean = matrix.mean(axis=0)
    ignored = rounds * float(matrix[0] @ np.log(matrix[0] / mean))
    found = {}
    for name, delta in (("paper_exp3", 0.0), ("paper_wma", 1e-6)):
        it = learner(matrix, name, horizon=rounds)
        form = channel(matrix, rounds, delta=delta, vector=delta > 0)
        found[name] = risk(it, lambda s, y, r, f=form: f.respond(s.index, y, r), matrix, 0, labels)
    assert found["paper_wma"] > 0.97 * ignored
    assert found["paper_exp3"] > 0.9 * ignored
    # The same messages through hedge on centred losses learn much more.
    hedge = DistributionLearner(Hypotheses(matrix), epsilon=1.0, horizon=rounds, learner="hedge",
                                channel="vector", public_seed=5)  # fmt: skip
    randomizer = VectorRandomizer(matrix, 1.0, hedge._rule.mixing(1))
    reached = risk(hedge, lambda s, y, r: randomizer.respond(y, r), matrix, 0, labels)
    assert reached < 0.75 * ignored


def test_scales_are_exact_quotients():
    it = channel(FB, 1000, epsilon=0.3)
    assert it.scale * Fraction(0.3) == it.spread or it.spread < it.scale * Fraction(0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner(FB)
