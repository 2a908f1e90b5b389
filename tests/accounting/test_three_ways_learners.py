"""Whole mechanisms, every count, both relations; and the defects of the library we compare with.

Continual sums, noisy max, the sparse vector, runs of selections, draws with objective perturbation:
their guarantees against instances enumerated or integrated here, and against ``dp_accounting``
where that has an event. Deterministic: no false alarms.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy
from tests.descriptions import changed
from tests.late import Late

from dpoco.accounting import Budget, above_threshold, events, noisy_max, sum_release
from dpoco.accounting.events import event_loss
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dpoco.privacy.losses.decaying import Decaying
from dpoco.privacy.losses.loss import Pure
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.losses.tilted_draws import TiltedDraws
from dpoco.privacy.mechanisms.coupled_draws import Always, CoupledDraws, SmoothLosses, TiltedMinimum
from dpoco.privacy.neighbours import Neighbours

from .by_hand import stated

dpa = Late("dp_accounting")

COUNTS = (1, 2, 3, 17, 100)
RELATIONS = ("replace", "zero_out")
every_count = pytest.mark.parametrize("count", COUNTS)
both = pytest.mark.parametrize("relation", RELATIONS)
DELTA = 1e-5


# ---- defects of the library, and that no path of ours meets them ---------------------------------


def test_the_repetitions_of_randomised_response_are_not_dropped():
    response = dpa.RandomizedResponseDpEvent(0.5, 2)
    repeated = dpa.SelfComposedDpEvent(response, 100)
    each = math.log(3.0)
    truth = Responses(each=each, reports=100).epsilon(1e-6)
    assert 90.0 < truth < 100.0
    replace_one = dpa.NeighboringRelation.REPLACE_ONE
    theirs = dpa.pld.PLDAccountant(replace_one).compose(repeated).get_epsilon(1e-6)
    looped = dpa.pld.PLDAccountant(replace_one)
    for _ in range(100):
        looped.compose(response)
    assert looped.get_epsilon(1e-6) == pytest.approx(truth, rel=1e-3)
    if theirs < 2.0:  # the defect is there: one response for a hundred
        assert theirs == pytest.approx(Pure(each).epsilon(1e-6), rel=1e-3)
    # Ours never gives the library a randomised response, nor reads one with its count dropped.
    assert event_loss(repeated).pure == pytest.approx(100 * each, rel=1e-12)
    for record in (Responses(each, 100).to_dict(), {"kind": "pure", "epsilon": 100 * each}):
        guarantee = stated(profile=record)
        assert guarantee.epsilon >= truth * (1 - 1e-9)
        with pytest.raises(ValueError, match="dp_accounting"):
            _ = guarantee.event


def test_randomised_response_under_replace_special_is_not_a_replacement():
    """There a value is compared with a response to nothing: half the ratio. Ours takes any two."""
    response = dpa.RandomizedResponseDpEvent(0.5, 2)
    theirs = dpa.pld.PLDAccountant(events.relation()).compose(response).get_epsilon(1e-6)
    between_values = math.log(0.75 / 0.25)
    if theirs < 0.7 * between_values:  # the trap is there
        assert theirs == pytest.approx(math.log(2.0), rel=1e-3)
    assert event_loss(response).pure == pytest.approx(between_values, rel=1e-12)


@both
def test_replace_one_is_never_asked_for(relation):
    """Under REPLACE_ONE the accountants disagree by a factor of two; ours is read elsewhere."""
    apart = {"replace": 2.0, "zero_out": 1.0}[relation]
    event = events.gaussian_event(apart / 10.0)
    assert events.relation() is dpa.NeighboringRelation.REPLACE_SPECIAL
    found = {}
    for name in ("REPLACE_ONE", "REPLACE_SPECIAL"):
        relation_there = dpa.NeighboringRelation[name]
        found[name] = (
            dpa.pld.PLDAccountant(relation_there).compose(event).get_epsilon(DELTA),
            dpa.rdp.RdpAccountant(neighboring_relation=relation_there)
            .compose(event)
            .get_epsilon(DELTA),
        )
    truth = gaussian_epsilon(apart / 10.0, DELTA)
    assert found["REPLACE_SPECIAL"][0] == pytest.approx(truth, rel=1e-3)
    assert truth <= found["REPLACE_SPECIAL"][1] <= 1.3 * truth
    by_pld, by_rdp = found["REPLACE_ONE"]
    if by_pld > 1.5 * by_rdp:  # the defect is there
        assert by_pld == pytest.approx(gaussian_epsilon(2 * apart / 10.0, DELTA), rel=1e-3)
        assert by_rdp == pytest.approx(found["REPLACE_SPECIAL"][1], rel=1e-9)


# ---- continual sums ------------------------------------------------------------------------------


@every_count
@both
def test_a_tree_against_its_nodes(count, relation):
    """Every node that holds a round is one Gaussian release of it: enumerated."""
    parameters = sum_release.calibrate(
        2, horizon=count, budget=Budget(1.0, DELTA), bound=0.5, relation=relation,
        method="tree", noise="gaussian", numerics="float",
    )  # fmt: skip
    guarantee = sum_release.guarantee(parameters, relation=relation, budget=Budget(1.0, DELTA))
    depth = count.bit_length()
    nodes = [
        (k << level, (k + 1) << level) for level in range(depth) for k in range(count >> level)
    ]
    most = max(sum(a <= t < b for a, b in nodes) for t in range(count))
    apart = {"replace": 1.0, "zero_out": 0.5}[relation]
    truth = math.sqrt(most) * apart / guarantee.noise_scale
    assert guarantee.mu == pytest.approx(truth, rel=1e-12)
    assert guarantee.delta_at(1.0) >= gaussian_delta(1.0, truth) * (1 - 1e-9)
    assert guarantee.delta_at(1.0) <= gaussian_delta(1.0, truth) + 4 * guarantee.truncation_mass
    assert guarantee.change == relation


@pytest.mark.parametrize("method", ["toeplitz", "blt"])
@every_count
@both
def test_a_factorised_sum_against_its_matrix(method, count, relation):
    """mu is the largest distance of the noised coordinates: no column is longer than accounted."""
    from dpoco.accounting import continual_sum

    parameters = sum_release.calibrate(
        1, horizon=count, budget=Budget(1.0, DELTA), bound=0.5, relation=relation,
        method=method, noise="gaussian", numerics="float",
    )  # fmt: skip
    guarantee = sum_release.guarantee(parameters, relation=relation, budget=Budget(1.0, DELTA))
    apart = {"replace": 1.0, "zero_out": 0.5}[relation]
    column = continual_sum.column_norm(method, count)
    if method == "toeplitz":  # coefficients of (1 - x)^(-1/2), by recursion
        entries = [1.0]
        for k in range(1, count):
            entries.append(entries[-1] * (2 * k - 1) / (2 * k))
        assert column == pytest.approx(math.sqrt(math.fsum(c * c for c in entries)), rel=1e-12)
    assert guarantee.mu == pytest.approx(apart * column / guarantee.noise_scale, rel=1e-12)


# ---- selections ----------------------------------------------------------------------------------


def selection_law(noise, gap):
    """Chance that the first of two candidates, `gap` noise scales ahead, is selected."""
    ahead = abs(gap)
    if noise == "gumbel":
        chance = 1 / (1 + math.exp(-ahead))
    elif noise == "laplace":  # difference of two Laplace variates
        chance = 1 - math.exp(-ahead) * (2 + ahead) / 4
    else:  # of two exponential variates
        chance = 1 - math.exp(-ahead) / 2
    return chance if gap >= 0 else 1 - chance


@pytest.mark.parametrize("noise", ["exponential", "gumbel", "laplace"])
@every_count
@both
def test_noisy_max_against_two_candidates(noise, count, relation):
    """Selections between two candidates whose gap moves by the range: enumerated."""
    one_way = relation == "zero_out"  # a record can only add to scores
    parameters = noisy_max.calibrate(
        2, horizon=count, budget=Budget(1.0, DELTA), noise=noise, one_directional=one_way
    )
    guarantee = noisy_max.guarantee(parameters, budget=Budget(1.0, DELTA))
    reach = (1.0 if one_way else 2.0) / parameters.mechanism.scale
    worst = 0.0
    for start in np.linspace(-2.0 * reach, reach, 13):
        p, q = selection_law(noise, start), selection_law(noise, start + reach)
        for a, b in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
            k = np.arange(count + 1)
            logs = np.array([math.log(math.comb(count, int(i))) for i in k])
            loss = k * math.log(a / b) + (count - k) * math.log((1 - a) / (1 - b))
            mass = np.exp(logs + k * math.log(a) + (count - k) * math.log(1 - a))
            for e in (0.2, 0.6):
                delta = float(mass @ np.maximum(0.0, -np.expm1(e - loss)))
                assert guarantee.delta_at(e) >= delta * (1 - 1e-9) - 1e-15
                worst = max(worst, delta / max(guarantee.delta_at(e), 1e-300))
    assert worst > 1e-6  # the instance says something
    # Planted: a range that is not doubled, or one selection for all.
    each = 1.0 / parameters.mechanism.scale
    assert reach == pytest.approx(each * (1.0 if one_way else 2.0))


@pytest.mark.parametrize("law", ["pure", "bounded_range"])
@every_count
@both
def test_shrinking_selections_against_convolution(law, count, relation):
    """Every selection takes its own extremal pair; the sum's law on a grid, rounded down."""
    reach = {"replace": 1.0, "zero_out": 0.5}[relation]
    known = Decaying(law, reach, reach, 0.5, 1, count)
    width = reach / 2000
    start, law_of_sum = 0, np.array([1.0])
    for j in range(1, count + 1):
        r = reach * math.sqrt(j) / (j + 1)
        t = r if law == "pure" else 0.5 * r
        low = -t if law == "pure" else t - r
        up = (1 - math.exp(low)) / (1 - math.exp(low - t))  # of the loss t, under P
        down, top = math.floor(low / width), math.floor(t / width)
        step = np.zeros(top - down + 1)
        step[0], step[-1] = 1 - up, up
        law_of_sum, start = np.convolve(law_of_sum, step), start + down
    losses = width * (start + np.arange(law_of_sum.size))
    for level in (0.3, 0.7):
        e = level * known.pure
        truth = float(law_of_sum @ np.maximum(0.0, -np.expm1(e - losses)))
        assert known.delta(e) >= truth * (1 - 1e-9)
    total = math.fsum(reach * math.sqrt(j) / (j + 1) for j in range(1, count + 1))
    assert known.pure == pytest.approx(total, rel=1e-9)
    assert known.pure >= total
    exact = math.fsum((reach * math.sqrt(j) / (j + 1)) ** 2 for j in range(1, count + 1))
    share = {"pure": 0.5, "bounded_range": 0.125}[law]
    assert known.rho == pytest.approx(share * exact, rel=1e-9)
    epsilon = known.epsilon(DELTA)
    assert known.delta(epsilon * (1 + 1e-9)) <= DELTA * (1 + 1e-6)
    assert epsilon <= total


# ---- the sparse vector ---------------------------------------------------------------------------


def transcript(b1, b2, silent, alarms, move, rise):
    """Log-probability of `silent` silent queries, then alarms; exponential noises, integrated."""
    z = np.linspace(0.0, 60.0 * (b1 + b2), 100_001)
    # Threshold 0 + z; a silent query has value -move, an alarm +rise: alarm if value + noise >= z.
    with np.errstate(divide="ignore"):
        log_silent = np.log1p(-np.exp(-np.maximum(z + move, 1e-300) / b2))
    log_alarm = -np.maximum(z - rise, 0.0) / b2
    logs = silent * log_silent + alarms * log_alarm - z / b1 - math.log(b1)
    top = logs.max()
    return top + math.log(scipy.integrate.trapezoid(np.exp(logs - top), z))


@every_count
@both
def test_above_threshold_against_the_integral(count, relation):
    """Many silent queries pin the threshold: the claimed epsilon is approached and not exceeded."""
    spread = {"replace": 2.0, "zero_out": 1.0}[relation]
    parameters = above_threshold.calibrate(
        horizon=1000, budget=Budget(1.0, 0.0), sensitivity=1.0, spread=spread, alarms=count
    )
    b1, b2 = parameters.mechanism.threshold_scale, parameters.mechanism.query_scale
    claimed = above_threshold.guarantee(parameters).epsilon
    fall = spread - 1.0  # the silent queries rise by 1 where the alarms fall by s - 1
    losses = []
    for log_silent in range(0, 41, 8):
        silent = math.exp(log_silent)
        ours = transcript(b1, b2, silent, count, 1.0, 0.0)
        other = transcript(b1, b2, silent, count, 0.0, -fall)
        losses.append(ours - other)
    assert max(abs(loss) for loss in losses) <= claimed * (1 + 1e-6)
    assert max(losses) > 0.8 * claimed
    assert claimed <= 1.0
    # Planted: one alarm for all, or a spread that is not doubled.
    one = above_threshold.guarantee(changed(parameters, alarms=1)).epsilon
    assert count == 1 or max(losses) > one


# ---- draws with objective perturbation -----------------------------------------------------------


@every_count
@both
def test_draws_of_rank_zero_are_gaussian(count, relation):
    """Linear losses: the draws are Gaussian releases, and the relation is in the distance only."""
    apart = {"replace": 1.0, "zero_out": 0.5}[relation] / (2 * math.sqrt(count))
    loss = TiltedDraws(
        cap=count, sensitivity_ratio=apart, b=0.0, dimension=3, rank=1, change=relation,
        forced_switch=1.0, factor_floor=1.0,
    )  # fmt: skip
    exact = gaussian_delta(0.7, apart * math.sqrt(count))
    losses = SmoothLosses(3, 1.0, 0.0, 0)
    draw = TiltedMinimum(Neighbours(relation).sides / apart, 1.0)
    drawn = CoupledDraws(losses, draw, Always(), count + 1, 1, None).loss(Neighbours(relation))
    assert drawn.delta(0.7) == pytest.approx(exact, rel=1e-9)
    assert loss.delta(0.7) >= exact
    curved = dataclasses.replace(loss, b=0.05).delta(0.7)
    assert curved > loss.delta(0.7)
    if count > 1:
        assert dataclasses.replace(loss, cap=count - 1).delta(0.7) < curved
