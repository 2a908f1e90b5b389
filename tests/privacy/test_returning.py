"""Several rounds of one person in selections, arms and fits: against all patterns, and exactly."""

from __future__ import annotations

import functools
import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.people.oracle import patterns
from tests.privacy.test_participation import matrix, person

from dpoco.accounting.continual_sum import SHIPPED
from dpoco.accounting.explanation import in_words
from dpoco.privacy.losses.bounded_range import moment
from dpoco.privacy.losses.combined import Group
from dpoco.privacy.losses.decaying import Decaying, Returning
from dpoco.privacy.losses.tilted_draws import ReturningDraws, TiltedDraws
from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.base import Nothing, Parts
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import Buffered, SquareRoot, Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.privacy.records import to_record

PAGE = "high_dimensional_bandit"
ORDERS = np.array([1.1, 2.0, 5.0, 40.0])
SCORES = VertexScores(
    slope=1.0, leaf=1.0, diameter_l1=2.0, diameter_l2=2.0, diameter_max=1.0, product=False, batch=1,
    leaf_l2=math.inf, offset=0,
)  # fmt: skip


def selections(batch, updates, law="gumbel", **more):
    scores = replace(SCORES, batch=batch)
    return Selections(law, scores, scale=5.0, rounds=updates, exponent=0.5, **more)


def arms_of(one, arms, forced):
    return Parts("one_of", (one,) * arms, PAGE, forced)


def law_moment(law, r, a):
    if law == "gumbel":
        return moment(np.asarray(r), a)
    return np.logaddexp(a * r, (1 - a) * r) - np.logaddexp(r, 0.0)


# -- selections of one learner ---------------------------------------------------------------------


def test_known_digits():
    loss = Returning("bounded_range", 0.1, 0.1, 0.5, 0, 100, rounds=5, separation=60, batch=10)
    assert loss.rho == pytest.approx(0.0604612555035, rel=1e-9)


@pytest.mark.parametrize("law", ["gumbel", "laplace"])
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_no_pattern_has_more(law, batch):
    """Sums over all patterns, and attained by one of them."""
    updates = 10 // batch
    one = selections(batch, updates, law)
    for k, b in itertools.product((2, 3, 4), (1, 2, 3, 5)):
        loss, worst = one.loss(person(k, b)), np.zeros(len(ORDERS) + 2)
        for places in patterns(updates * batch, k, b):
            u = np.arange(1, updates + 1)
            many = np.array([sum(t < each * batch for t in places) for each in u])
            r = many * (2.0 * 2.0 / batch / 5.0) * u**-0.5
            rows = [law_moment(law, r, a).sum() / (a - 1) for a in ORDERS]
            share = 0.125 if law == "gumbel" else 0.5
            worst = np.maximum(worst, [*rows, r.sum(), share * (r**2).sum()])
        found = np.array([*loss.renyi(ORDERS), loss.pure, loss.rho])
        np.testing.assert_array_less(worst * (1 - 1e-12), found)
        np.testing.assert_allclose(found, worst, rtol=1e-7)


def test_long_series_are_bounded_closely():
    for batch, k, b in ((7, 50, 1000), (7, 10**6, 3), (1, 10**5, 40), (50, 3, 1)):
        loss = Returning("bounded_range", 0.1, 0.1, 2 / 3, 0, 10**5, k, b, batch)
        u = np.arange(1, 10**5 + 1)
        r = np.minimum(k, -(-u * batch // b)) * 0.1 * u ** (-1 / 3.0)
        assert 1 <= loss.pure / r.sum() < 1.03
        assert 1 <= loss.rho / (0.125 * (r**2).sum()) < 1.06
        exact = moment(r, np.float64(3.0)).sum() / 2
        assert 1 - 1e-9 <= float(loss.renyi(np.array([3.0]))[0]) / exact < 1.06
    single = Decaying("bounded_range", 0.1, 0.1, 2 / 3, 0, 10**5)
    never = Returning("bounded_range", 0.1, 0.1, 2 / 3, 0, 10**5, 9, 10**9, 7)
    assert (never.rho, never.pure) == (single.rho, single.pure)
    huge = Returning("pure", 0.1, 0.1, 0.5, 0, 10**12, 2**62, 1, 2**20)
    assert single.pure < huge.pure < math.inf


@pytest.mark.parametrize("law", ["gumbel", "laplace"])
def test_transcripts_of_two_candidates(law):
    """All transcripts of a dozen selections between two candidates, their gap symmetric.

    What k records would cost if they added up like independent noise is refuted.
    """
    k, b, updates = 12, 1, 12
    one = selections(1, updates, law)
    single = one.loss(person(1, 1))
    like_noise = math.sqrt(k) * single.range
    wrong = replace(single, range=like_noise, spread=like_noise)
    loss, u = one.loss(person(k, b)), np.arange(1, updates + 1)
    r = np.minimum(k, -(-u // b)) * 0.8 * u**-0.5
    worlds = []
    for gap in (-0.5 * r, 0.5 * r):
        if law == "gumbel":
            chance = 1 / (1 + np.exp(-gap))
        else:  # of the difference of two Laplace variates
            tail = 0.5 * np.exp(-abs(gap)) * (1 + 0.5 * abs(gap))
            chance = np.where(gap > 0, 1 - tail, tail)
        picks = np.array(list(itertools.product((0, 1), repeat=updates)))
        worlds.append(np.prod(np.where(picks, chance, 1 - chance), axis=1))
    refuted = False
    for e in np.linspace(0.0, 0.95, 12) * loss.pure:
        truth = float(np.maximum(worlds[0] - math.exp(e) * worlds[1], 0.0).sum())
        assert truth <= loss.delta(e) * (1 + 1e-12)
        refuted |= truth > 1.01 * wrong.delta(e)
    assert refuted or law == "laplace"  # whose selections are far below what pure privacy allows


def test_never_more_than_a_group():
    for batch, k, b in ((1, 3, 1), (4, 5, 2), (3, 2, 50)):
        one = selections(batch, 20)
        single, mine = one.loss(person(1, 1)), one.loss(person(k, b))
        assert mine.rho <= k * k * single.rho * (1 + 1e-12)
        assert mine.pure <= k * single.pure * (1 + 1e-12)
    assert one.reacting
    assert "of up to 2 rounds" in in_words(mine)


# -- stay-or-switch bits ---------------------------------------------------------------------------

W = 7.0 / 9.0  # switches have probability 0.1, or 0.3


def bits(p, w, k, together=1, later=0, c=0.0, block=1, cls=ReturningDraws):
    more = {"rounds": k, "together": together, "block": block} if cls is ReturningDraws else {}
    return cls(
        forced_switch=p, factor_floor=w, later_bits=later, shift=c, cap=1, sensitivity_ratio=0.0,
        b=0.0, dimension=1, rank=0, change="replace", **more,
    )  # fmt: skip


def best_play(score, p, w, left, together, later=0, c=0.0, laws=(1.0, 1.0)):
    """Return the largest sum of `score` over the outcomes of a person's coins, tossed as she likes.

    She sees all coins so far. Then she has up to `together` of her rounds in one block, whose
    factor is 1 in one world and the smallest in the other, or one of the later bits is tossed;
    which world it favours is hers to choose.
    """
    if not (left or later):
        return score(*laws)
    coins = [(w**q, left - q, later) for q in range(1, min(together, left) + 1)]
    if later:
        coins.append((math.exp(-c), left, later - 1))
    return max(
        sum(
            best_play(score, p, w, rest, together, rest_later, c, (laws[0] * x, laws[1] * y))
            for x, y in ((1 - a, 1 - b), (a, b))
        )
        for factor, rest, rest_later in coins
        for a, b in ((1 - p, (1 - p) * factor), ((1 - p) * factor, 1 - p))
    )


@pytest.mark.parametrize(
    ("p", "w", "k", "together", "later", "c"),
    [(0.1, W, 2, 1, 0, 0.0), (0.1, W, 3, 2, 0, 0.0), (0.4, 0.6, 2, 2, 1, 0.05),
     (0.02, 0.95, 3, 3, 0, 0.0), (0.7, 0.5, 2, 1, 2, 0.2)],
)  # fmt: skip
def test_coins_tossed_as_she_likes(p, w, k, together, later, c):
    loss = bits(p, w, k, together, later, c)
    for a in ORDERS[:3]:
        most = best_play(lambda x, y, a=a: x**a * y ** (1 - a), p, w, k, together, later, c)
        found = float(loss.renyi(np.array([a]))[0])
        assert math.log(most) / (a - 1) <= found
        if k % together == 0 and together < 3:  # the worst number in a block divides all
            assert found <= math.log(most) / (a - 1) * (1 + 1e-9)
    single = bits(p, w, 1, cls=TiltedDraws, later=later, c=c / k)
    for e in (0.0, 0.1, 0.5, 1.0):
        most = best_play(
            lambda x, y, e=e: max(x - math.exp(e) * y, 0.0), p, w, k, together, later, c
        )
        assert most <= loss.delta(e)
        if together == 1:  # a chain of single changes
            assert most <= Group(single, k).delta(e)
        if (p, k, e, later) == (0.1, 2, 0.5, 0):
            assert most == pytest.approx(0.21620, abs=5e-6)


def test_worse_coins_are_refuted():
    """Two rounds in one block are worse than apart; all of hers are worse than one."""
    a, p, w = 4.0, 0.5, 0.9
    order = np.array([a])
    most = best_play(lambda x, y: x**a * y ** (1 - a), p, w, 4, 2)
    assert math.log(most) / (a - 1) > float(bits(p, w, 4).renyi(order)[0])
    assert math.log(most) / (a - 1) > float(bits(p, w, 3, 2).renyi(order)[0])
    many = [bits(p, w, 200, q, block=300).renyi(ORDERS) for q in (1, 15, 16, 17, 40, 200)]
    assert all(np.all(x <= y) for x, y in itertools.pairwise(many))
    one, alone = bits(p, w, 1, 1, 3, 0.01), bits(p, w, 1, later=3, c=0.01, cls=TiltedDraws)
    np.testing.assert_allclose(one.renyi(ORDERS), alone.renyi(ORDERS), rtol=1e-15)


# -- arms of a bandit ------------------------------------------------------------------------------


@functools.cache
def histories(arms, forced, length, rounds, separation):
    """All that her rounds can do: the parts of a full change by arm and clock, all orders of the
    forced rounds, as with delays; in a round with a choice one arm, or half of it in two."""
    found = []
    start = arms * forced
    halves = [((i, 1.0),) for i in range(arms)]
    halves += [((i, 0.5), (j, 0.5)) for i, j in itertools.combinations(range(arms), 2)]
    orders = set(itertools.permutations([a for a in range(arms) for _ in range(forced)]))
    clock = forced + length - start
    for order in orders:
        for places in patterns(length, rounds, separation):
            free = [t for t in places if t >= start]
            for choice in itertools.product(halves, repeat=len(free)):
                moved = np.zeros((arms, clock))
                for t in places[: len(places) - len(free)]:
                    moved[order[t], order[:t].count(order[t])] += 1.0
                for t, parts in zip(free, choice, strict=True):
                    for arm, part in parts:
                        moved[arm, forced + t - start] += part
                found.append(moved)
    return np.array(found)


CASES = [(2, 2, 7, 2, 1), (2, 2, 7, 3, 2), (2, 3, 8, 2, 3), (3, 2, 8, 2, 2), (2, 0, 5, 3, 2)]


@pytest.mark.parametrize(("arms", "forced", "length", "k", "b"), CASES)
def test_no_history_of_polyhedral_arms_has_more(arms, forced, length, k, b):
    clock = forced + length - arms * forced
    for batch in (1, 2):
        updates = clock // batch
        loss = arms_of(selections(batch, updates), arms, forced).loss(person(k, b, view="others"))
        ends = np.arange(1, updates + 1) * batch
        ranges = 0.8 / batch * np.arange(1, updates + 1) ** -0.5
        r = np.cumsum(histories(arms, forced, length, k, b), axis=2)[:, :, ends - 1] * ranges
        mine = (loss.pure, loss.rho, float(loss.renyi(np.array([3.0]))[0]))
        parts = r, 0.125 * r**2, 0.5 * moment(r, np.float64(3.0))
        for each, most in zip(parts, mine, strict=True):
            assert each.sum(axis=(1, 2)).max() * (1 - 1e-12) <= most


@pytest.mark.parametrize(
    "method", [SHIPPED[10**3], Buffered((0.3, 0.05), (0.2, 0.1)), SquareRoot(), Tree()]
)
@pytest.mark.parametrize(("arms", "forced", "length", "k", "b"), CASES)
def test_no_history_of_tree_arms_has_more(method, arms, forced, length, k, b):
    clock = forced + length - arms * forced
    for batch in (1, 2):
        pushes = clock // batch
        total = GaussianSum(ClippedVector(5, 2.0, 1.0, math.inf), method, pushes, batch, scale=2.0)
        loss = arms_of(total, arms, forced).loss(person(k, b, view="others"))
        moved = histories(arms, forced, length, k, b)[:, :, : pushes * batch]
        leaves = moved.reshape(len(moved), arms, pushes, batch).sum(axis=3)
        assert longest(method, leaves) * (1 - 1e-12) <= loss.ideal.mu
        assert loss.ideal.mu <= k * total.loss(person(1, 1)).ideal.mu * (1 + 1e-9)
        assert loss.mass == pytest.approx(arms * total.mass, rel=1e-12)


def longest(method, leaves):
    """The largest norm of what leaves (histories, arms, pushes) move, from the definition of C."""
    moved = leaves @ matrix(method, leaves.shape[2]).T
    return math.sqrt((moved**2).sum(axis=(1, 2)).max())


def test_wrong_bounds_of_arms_are_refuted():
    """What one learner is charged for, and clocks that keep a separation although they stand."""
    arms, forced, length, k, b = 2, 3, 8, 2, 3
    one = selections(1, 5)
    apart = one.loss(person(k, b))
    ranges = 0.8 * np.arange(1, 6) ** -0.5
    every = histories(arms, forced, length, k, b)
    assert (np.cumsum(every, axis=2) * ranges).sum(axis=(1, 2)).max() > 1.05 * apart.pure
    wrong = SHIPPED[10**3].column(5, person(k, b))
    assert longest(SHIPPED[10**3], every) > 1.01 * wrong


def test_arms_that_nothing_is_proved_of():
    near = person(2, 3, view="others")
    one = selections(1, 9)
    sums = GaussianSum(ClippedVector(5, 2.0, 1.0, math.inf), Tree(), 9, scale=2.0)
    for parts in (
        Parts("one_of", (one, one), PAGE),  # a record that is older than the field
        Parts("one_of", (one, sums), PAGE, 3),
        Parts("one_of", (Parts("together", (one,)),) * 2, PAGE, 3),
        arms_of(Selections("gumbel", _promised(), scale=1.0, rounds=1, exponent=0.0), 2, 3),
        arms_of(replace(sums, grid=2.0**-20, limit=2**30), 2, 3),
    ):
        with pytest.raises(ValueError, match="several parts"):
            parts.loss(near)
    with pytest.raises(ValueError, match="view"):
        arms_of(one, 2, 3).loss(person(2, 3))
    for how, forced in (("together", 3), ("one_of", -1), ("one_of", True), ("one_of", 2.0)):
        with pytest.raises(ValueError, match="forced"):
            Parts(how, (one,), PAGE if how == "one_of" else "", forced)
    assert arms_of(Nothing("a point"), 2, 3).loss(near).pure == 0.0
    assert arms_of(one, 2, 3).reacting
    assert not Parts("one_of", (one, one), PAGE).reacting
    for parts in (arms_of(one, 2, 0), Parts("one_of", (one, one), PAGE)):
        record = json.loads(json.dumps(to_record(parts)))
        assert ("forced" in record) == (parts.forced is not None)
        assert read_mechanism(record) == parts


def _promised():
    from dpoco.privacy.mechanisms.selections import PromisedScores

    return PromisedScores(1.0, one_way=True)
