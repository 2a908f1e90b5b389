"""Reports of one user together: brute force, a second accountant, and what a guarantee says."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dpoco
from dpoco.accounting.statement import client_guarantee, local_guarantee
from dpoco.local import BitRandomizer, DistributionLearner, Hypotheses, SubsetRandomizer
from dpoco.privacy.losses.loss import pure_delta
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.local_report import Bits, LocalReport, Subset
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import to_record


def brute_force(epsilon, each, reports):
    """The hockey-stick divergence of all products of the extreme randomized response."""
    keep = 1.0 / (1.0 + math.exp(-each))
    total = 0.0
    for outcome in itertools.product((keep, 1 - keep), repeat=reports):
        first, second = math.prod(outcome), math.prod(1 - p for p in outcome)
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


@pytest.mark.parametrize("each", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("reports", [1, 2, 5, 9])
def test_brute_force(each, reports):
    for epsilon in np.linspace(0.0, 1.1 * reports * each, 12).tolist():
        exact = brute_force(epsilon, each, reports)
        found = Responses(each=each, reports=reports).delta(epsilon)
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("each", [1e-9, 0.3, 4.0, 29.9])
def test_one_report_is_pure_privacy(each):
    for epsilon in np.linspace(0.0, 1.2 * each, 20).tolist():
        found = Responses(each=each, reports=1).delta(epsilon)
        assert found == pytest.approx(pure_delta(epsilon, each), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize(("each", "reports", "cells"), [(1.0, 10, 1000), (0.1, 200, 500)])
def test_against_dp_accounting(each, reports, cells):
    """Its discretised losses, rounded up and rounded down, enclose ours."""
    from dp_accounting.pld import privacy_loss_distribution

    above, below = (
        privacy_loss_distribution.from_randomized_response(
            2.0 / (1.0 + math.exp(each)),
            2,
            pessimistic_estimate=up,
            value_discretization_interval=each / cells,
        ).self_compose(reports)
        for up in (True, False)
    )
    for delta in (1e-3, 1e-6, 1e-9):
        high, low = above.get_epsilon_for_delta(delta), below.get_epsilon_for_delta(delta)
        ours = Responses(each=each, reports=reports).epsilon(delta)
        assert low - 1e-6 <= ours <= high + 1e-6
        assert high - low < 0.1 * high
        assert not Responses(each=1.2 * each, reports=reports).epsilon(delta) <= high


@pytest.mark.parametrize(
    ("each", "reports"), [(1.0, 1), (0.3, 50), (0.01, 10**5), (0.5, 30), (20.0, 4)]
)
def test_the_inverse_is_tight(each, reports):
    loss = Responses(each, reports)
    for delta in (1e-3, 1e-6, 1e-12):
        epsilon = loss.epsilon(delta)
        assert loss.delta(epsilon) <= delta
        assert epsilon <= reports * each
        if epsilon > 0.0:
            assert loss.delta(epsilon * (1 - 1e-9)) > delta * (1 - 1e-6)


def test_never_worse_than_adding_up():
    for each, reports in itertools.product((0.01, 1.0, 5.0), (1, 3, 100)):
        loss = Responses(each, reports)
        assert loss.delta(loss.pure) == 0.0
        assert loss.pure == pytest.approx(reports * each, rel=1e-15)
        assert loss.epsilon(0.0) == loss.pure
    assert Responses(each=0.01, reports=1).epsilon(0.999) == 0.0


def test_many_small_reports_are_nearly_gaussian():
    """r reports of eps: mu^2 = r eps^2 (1 - O(eps)); the central limit within 2 %."""
    from dpoco.accounting.gaussian import gaussian_epsilon

    each, reports = 0.001, 10**6
    expected = gaussian_epsilon(math.sqrt(reports) * each, 1e-6)
    assert Responses(each=each, reports=reports).epsilon(1e-6) == pytest.approx(expected, rel=0.02)


def reports_of(epsilon, reports=1):
    return LocalReport(epsilon, reports, (BitRandomizer(epsilon).law,))


def test_guarantee_of_one_report():
    guarantee = local_guarantee(reports_of(1.5), released="one bit", horizon=100)
    assert (guarantee.epsilon, guarantee.delta) == (1.5, 0.0)
    assert (guarantee.change, guarantee.view) == ("replace", "server")
    assert guarantee.unit == "one report"
    assert guarantee.certified
    assert guarantee.delta_at(1.0) == pytest.approx(pure_delta(1.0, 1.5))
    assert guarantee.epsilon_at(0.0) == 1.5
    text = str(guarantee)
    assert "context of every round is disclosed" in text
    assert "any two values of one user's data" in text
    assert "shuffling of reports protects no further" in text
    with pytest.raises(ValueError, match="dp_accounting"):
        _ = guarantee.event


def test_guarantee_of_many_reports():
    pure = local_guarantee(reports_of(0.5, 20), released="bits")
    assert (pure.epsilon, pure.delta, pure.unit) == (10.0, 0.0, "20 reports of one user")
    composed = local_guarantee(reports_of(0.5, 20), released="bits", delta=1e-6)
    assert composed.epsilon == Responses(each=0.5, reports=20).epsilon(1e-6) < 10.0
    assert composed.delta == 1e-6
    assert pure.epsilon_at(1e-6) == composed.epsilon


@pytest.mark.parametrize("protect", ["label", "label_and_context"])
@pytest.mark.parametrize("simulated", [False, True])
def test_round_trip(protect, simulated):
    given = {"protect": protect, "simulated": simulated}
    for guarantee in (
        local_guarantee(reports_of(0.3, 7), released="m", delta=1e-9, **given),
        client_guarantee(epsilon=0.3, reports=4, **given),
    ):
        guarantee.verify()
        again = dpoco.Guarantee.from_json(guarantee.to_json())
        assert again == guarantee
        assert again.description == guarantee.description
        assert again.delta_at(0.1) == guarantee.delta_at(0.1)
        assert guarantee.certified != simulated
        assert ("NOT CERTIFIED" in str(guarantee)) == simulated


def test_budgets():
    guarantee = local_guarantee(reports_of(0.5, 20), released="bits")
    guarantee.require(dpoco.Budget(10.0, 0.0))
    guarantee.require(dpoco.Budget(9.99, 1e-6))
    with pytest.raises(dpoco.BudgetExceeded):
        guarantee.require(dpoco.Budget(9.99, 0.0))


# -- the description -------------------------------------------------------------------------------


def chances(law):
    """All probabilities of each report, over all inputs, in fractions, and by definition."""
    if isinstance(law, Bits):
        levels = [Fraction(k, 2**53) for k in (law.low, 2**52, law.high)]
        for outcome in itertools.product((0, 1), repeat=law.count):
            yield [
                math.prod(p if bit else 1 - p for p, bit in zip(chosen, outcome, strict=True))
                for chosen in itertools.product(levels, repeat=law.count)
            ]
        return
    labels, size = range(law.labels), law.size
    uniform = Fraction(1, math.comb(law.labels, size))
    own = Fraction(law.inside, 2**53)
    for report in itertools.combinations(labels, size):
        yield [uniform] + [
            (own / math.comb(law.labels - 1, size - 1) if y in report
             else (1 - own) / math.comb(law.labels - 1, size)) if law.inside else uniform
            for y in labels
        ]  # fmt: skip


LAWS = [
    *(BitRandomizer(epsilon, bits).law for epsilon in (1e-17, 0.1, 4.0) for bits in (1, 3)),
    *(SubsetRandomizer(5, size, epsilon).law for epsilon in (1e-17, 0.1, 4.0) for size in (1, 4)),
    Bits(2**50, 2**52, 2), Subset(4, 2, 2**40),
]  # fmt: skip


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_ratios_by_listing_the_law(law):
    assert law.ratio == max(max(each) / min(each) for each in chances(law))


@pytest.mark.parametrize("epsilon", [1e-15, 0.1, 1.0, 29.9])
def test_one_unit_too_many_is_refused(epsilon):
    """In exact arithmetic: the largest law that is taken, and the next one."""
    with mpmath.workdps(60):
        high = int(mpmath.floor(2**53 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))))
    LocalReport(epsilon, 1, (Bits(2**53 - high, high, 1),))
    with pytest.raises(ValueError, match="exceed epsilon"):
        LocalReport(epsilon, 1, (Bits(2**53 - high - 1, high + 1, 1),))
    with pytest.raises(ValueError, match="exceed epsilon"):
        LocalReport(0.5 * epsilon, 1, (Bits(2**53 - high, high, 1),))


def test_every_field_moves_the_loss_or_is_checked():
    near = Neighbours(view="server")
    one = reports_of(1.0, 2)
    assert one.loss(near) == Responses(1.0, 2)
    assert one.loss(Neighbours(view="server", rounds=3)) == Responses(1.0, 6)
    assert LocalReport(2.0, 2, one.laws).loss(near) == Responses(2.0, 2)
    assert LocalReport(1.0, 5, one.laws).loss(near) == Responses(1.0, 5)
    assert read_mechanism(json.loads(json.dumps(to_record(one)))) == one


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({}, ["bits", "subset", "subset"]),
        ({"channel": "bit", "bits": 3}, ["bits"]),
        ({"channel": "subset", "subset_size": 2}, ["subset"]),
        ({"learner": "hedge"}, ["bits"]),
        ({"learner": "hedge", "channel": "subset"}, ["subset"]),
    ],
)
def test_servers_name_the_laws_that_devices_draw(given, kinds):
    rows = np.random.default_rng(0).dirichlet(np.ones(6), size=4)
    server = DistributionLearner(Hypotheses(rows), epsilon=1.0, **given)
    described = server.guarantee.description
    assert [law.kind for law in described.laws] == kinds
    for _ in range(20):
        spec = server.round_spec()
        if spec.channel == "subset":
            own = SubsetRandomizer(spec.labels, spec.subset_size, spec.epsilon)
        else:
            own = BitRandomizer(spec.epsilon, spec.width)
        assert own.law in described.laws
    assert server.guarantee_for(7).description.reports == 7


def exact_delta(epsilon, each, reports):
    """The same with 60 digits."""
    with mpmath.workdps(60):
        rate = mpmath.mpf(each)
        p = 1 / (1 + mpmath.exp(-rate))
        total = mpmath.mpf(0)
        for i in range(reports + 1):
            loss = (2 * i - reports) * rate
            if loss > epsilon:
                chance = mpmath.binomial(reports, i) * p**i * (1 - p) ** (reports - i)
                total += chance * (1 - mpmath.exp(epsilon - loss))
        return total


def test_delta_is_never_below_the_exact_one():
    """Also where losses nearly meet epsilon."""
    rng = np.random.default_rng(4)
    for _ in range(400):
        each = float(10 ** rng.uniform(-3, 1.3))
        reports = int(rng.integers(1, 40))
        near = (2 * int(rng.integers(reports // 2 + 1, reports + 1)) - reports) * each
        for epsilon in (
            float(rng.uniform(0, 1)) * reports * each, near * (1 - 2.0**-53), near * (1 - 1e-14)
        ):  # fmt: skip
            found = Responses(each, reports).delta(epsilon)
            exact = exact_delta(epsilon, each, reports)
            if epsilon < reports * each:
                assert found >= exact
            assert found <= exact * (1 + mpmath.mpf(10) ** -10) + mpmath.mpf(2) ** -47 * near
