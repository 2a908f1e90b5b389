"""Column-normalised sums: norms, streams, states and guarantees against dense matrices."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.descriptions import unchecked
from tests.plans import linear_arms

import dpoco
from dpoco import _core
from dpoco.accounting import continual_sum
from dpoco.accounting.continual_sum import (
    SHIPPED,
    column_norm,
    factorisation,
    lower_bound,
    max_error,
    root_mean_square_row,
    row_norm,
    worst_round,
)
from dpoco.mechanisms import ContinualSum
from dpoco.privacy.mechanisms import factorisations
from dpoco.privacy.mechanisms.bounds import CentredLosses, ClippedVector
from dpoco.privacy.mechanisms.factorisations import Normalised
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

NAME = "blt_normalised"
BUDGET = dpoco.Budget(1.0, 1e-6)
SIZES = (1, 2, 31, 32, 33, 64, 65, 257)


def make(*, seed=1, d=3, horizon=100, **options):
    return ContinualSum(
        d,
        horizon=horizon,
        budget=BUDGET,
        method=NAME,
        source=Source.seeded(seed),
        **{"bound": 1.0, **options},
    )


def person(rounds, separation):
    return Neighbours("replace", rounds=rounds, separation=separation)


def encoder(n):
    """C without levels, and the norm of every column, added up."""
    first = np.array(continual_sum.blt_parameters(n).encoder(n))
    c = np.zeros((n, n))
    for i in range(n):
        c[i:, i] = first[: n - i]
    return c, np.sqrt(np.cumsum(first**2))[::-1]


def levels_of(n):
    own = factorisation(NAME, n)
    return np.repeat(own.levels, np.diff(own.ends, prepend=0))


@pytest.mark.parametrize(
    ("n", "worst", "mean"),
    [(10**3, 3.076, 2.986), (10**4, 3.804, 3.712), (10**5, 4.537, 4.444), (10**6, 5.284, 5.189)],
)
def test_errors(n, worst, mean):
    assert max_error(NAME, n) <= worst
    assert column_norm(NAME, n) * root_mean_square_row(NAME, n) <= mean
    assert lower_bound(n) < mean < max_error(NAME, n) < max_error("blt", n)


def test_known_digits():
    """Of an independent program; the levels' 32 bits are in the tenth digit."""
    blocks = [len(factorisation(NAME, n).ends) for n in (1000, 10**6, 10**9, 10**12)]
    assert blocks == [191, 510, 828, 1147]

    def known(value):
        return pytest.approx(value, rel=1e-9)

    column = column_norm(NAME, 1000)
    assert column * row_norm(NAME, 500, 1000) == known(3.07189029645)
    assert column * row_norm(NAME, 1000, 1000) == known(2.62108114675)
    assert column * root_mean_square_row(NAME, 1000) == known(2.98534208832)
    assert max_error(NAME, 10**6) == known(5.28367247937)
    assert worst_round(NAME, 10**6) == 475712
    assert column_norm(NAME, 10**9) * root_mean_square_row(NAME, 10**9) == known(7.61116661680)
    assert factorisation(NAME, 1000).column(1000, person(10, 100)) / column == known(5.25723828859)
    for n, plain in ((10**10, 8.8656), (10**11, 9.8771), (10**12, 10.9856)):
        assert max_error("blt", n) == pytest.approx(plain, abs=6e-5)
        assert max_error(NAME, n) < 0.983 * plain


def test_no_factorisation_beats_the_lower_bound():
    assert lower_bound(1000) == pytest.approx(2.90206336225, rel=1e-11)
    assert lower_bound(10**9) == pytest.approx(7.29831740701, rel=1e-11)
    assert lower_bound(10**4 + 1) == pytest.approx(lower_bound(10**4), rel=1e-4)
    for n in (1, 2, 3, 10, 100):
        values = np.linalg.svd(np.tril(np.ones((n, n))), compute_uv=False)
        assert lower_bound(n) == pytest.approx(values.sum() / n, rel=1e-12)
        for method in continual_sum.METHODS:
            mean = column_norm(method, n) * root_mean_square_row(method, n)
            assert mean >= lower_bound(n) * (1 - 1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_columns_are_no_longer_than_the_first(n):
    c, norms = encoder(n)
    levels = levels_of(n)
    scaled = np.linalg.norm(c / levels, axis=0)
    assert scaled.max() <= column_norm(NAME, n) * (1 + 1e-14)
    assert scaled[0] == pytest.approx(column_norm(NAME, n), rel=1e-14)
    assert np.all(np.diff(levels) <= 0)
    assert np.all(levels * norms[0] >= norms * (1 - 1e-14))
    assert np.all(levels <= norms / norms[0] * 1.02)  # what the blocks cost


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("numerics", ["float", "lattice"])
def test_noise_is_that_of_the_dense_matrices(n, numerics):
    """From the draws of the same source: A D C^-1 times draws of one scale."""
    d = 4
    total = make(d=d, horizon=n, numerics=numerics)
    scale, claim = total.plan.mechanism.scale, Source.seeded(1)._claim()
    draws = np.empty(n * d)
    _core.Source(claim["key"], claim["stream"]).fill(2, draws)
    c, _ = encoder(n)
    decoder = np.cumsum(levels_of(n)[:, None] * np.linalg.inv(c), axis=0)
    expected = decoder @ (scale * draws.reshape(n, d))
    released = total.run(np.zeros((n, d)))
    grid = continual_sum.release_grid(scale)
    off = 0.5 * grid + (1e-12 * scale if numerics == "float" else 0.1 * grid)
    assert np.abs(released - expected).max() <= off


@pytest.mark.parametrize("n", SIZES)
def test_variances_are_those_of_the_dense_matrices(n):
    c, _ = encoder(n)
    decoder = np.tril(np.ones((n, n))) * levels_of(n) @ np.linalg.inv(c)
    rows = np.linalg.norm(decoder, axis=1)
    np.testing.assert_allclose(row_norm(NAME, np.arange(1, n + 1), n), rows, rtol=1e-12)
    assert rows[worst_round(NAME, n) - 1] == pytest.approx(rows.max(), rel=1e-13)
    rises = continual_sum.rises(NAME, n)
    steps = np.diff(rows, prepend=0.0)
    assert sum(b - a for a, b in rises) == pytest.approx(steps[steps > 0].sum(), rel=1e-9)


@pytest.mark.parametrize("n", [1000, 20_000])
def test_the_worst_round_is_the_end_of_a_block(n):
    rows = row_norm(NAME, np.arange(1, n + 1), n)
    assert rows[worst_round(NAME, n) - 1] == rows.max()
    assert root_mean_square_row(NAME, n) == pytest.approx(math.sqrt((rows**2).mean()), rel=1e-11)
    plain = row_norm("blt", np.arange(1, n + 1), n)
    assert np.all(rows <= plain * (1 + 1e-9))  # noise is never more than without levels
    steps = np.diff(rows, prepend=0.0)
    rises = sum(b - a for a, b in continual_sum.rises(NAME, n))
    assert rises == pytest.approx(steps[steps > 0].sum(), rel=1e-9)


@pytest.mark.parametrize("numerics", ["float", "lattice"])
def test_one_coordinate_and_another_law(numerics):
    assert make(d=1, horizon=40, numerics=numerics).run(np.zeros((40, 1))).shape == (40, 1)
    law = {"noise": "generalized_gaussian", "norm": 4.0, "norm_order": 3.0, "numerics": "float"}
    total = make(d=2, horizon=40, **law)
    assert total.guarantee.epsilon <= 1.0
    assert np.all(np.isfinite(total.run(np.zeros((40, 2)))))


def test_engines_refuse_other_blocks():
    total, claim = make()._mechanism, Source.seeded(1)._claim()
    own = total.factorisation
    ends, levels = own.ends, own.levels
    for wrong in (
        {"ends": ends[:-1], "levels": levels[:-1]},
        {"ends": ends[::-1]},
        {"levels": levels[::-1]},
        {"levels": tuple(0.5 * x for x in levels)},
        {"levels": (*levels[:-1], 0.0)},
        {"levels": levels[:-1]},
        {"ends": (), "levels": ()},
    ):
        with pytest.raises(ValueError, match="block"):
            _core.ContinualSum(unchecked(total, factorisation=unchecked(own, **wrong)), claim)
    for pushes in (99, 101):
        with pytest.raises(ValueError, match="block"):
            _core.ContinualSum(unchecked(total, pushes=pushes), claim)
    with pytest.raises(TypeError, match="not enforced"):
        _core.ContinualSum(unchecked(total, factorisation=unchecked(own, kind="blt")), claim)


def brute(n, k, b, batch=1):
    """The largest norm over all patterns, with the levels of the engine, in first draws."""
    c, _ = encoder(n)
    table, worst = c / levels_of(n), 0.0
    for size in range(1, k + 1):
        for places in itertools.combinations(range(n * batch), size):
            if all(y - x >= b for x, y in itertools.pairwise(places)):
                weights = np.bincount([i // batch for i in places], minlength=n)
                worst = max(worst, float(np.linalg.norm(table @ weights)))
    return worst


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12, 16])
def test_no_pattern_of_a_person_has_more(n):
    for k, b in itertools.product((1, 2, 3, 4), (1, 2, 3, 5)):
        found, truth = factorisation(NAME, n).column(n, person(k, b)), brute(n, k, b)
        assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-8)


def test_no_pattern_has_more_in_batches():
    for n, batch, k, b in itertools.product((2, 4), (2, 3), (1, 2, 3), (1, 2, 3, 4, 6)):
        found = factorisation(NAME, n).column(n, person(k, b), batch)
        truth = brute(n, k, b, batch)
        assert truth * (1 - 1e-12) <= found <= truth * 1.5
        if b % batch == 0:
            assert found <= truth * (1 + 1e-8)


def test_people_of_many_rounds():
    many = factorisation(NAME, 10**6)
    known = many.column(10**6, person(10**5, 10))
    assert known < many.column(10**6, person(10**5 + 1, 9)) <= (10**5 + 1) * many.column(10**6)


def test_rounding_on_a_lattice_is_charged():
    """D + leaf + path at sigma' = 4, of an independent program."""
    n, factor = 10**5, factorisation(NAME, 10**5)
    first = factor.column(n)
    total = GaussianSum(
        ClippedVector(50, 2.0, 1.0, math.inf), factor, n, scale=4.0 * first, grid=2.0**-25,
        limit=2**26,
    )  # fmt: skip
    assert total.reach(Neighbours()) / first == pytest.approx(2.0000327995031, rel=1e-9)


def test_people_pay_rounding_once():
    factor = factorisation(NAME, 10**4)
    fine = GaussianSum(CentredLosses(50), factor, 10**4, scale=16.0, grid=2.0**-16, limit=2**19)
    moved = fine.summand.movement(Neighbours()) + math.sqrt(50) * 2.0**-16
    paths = [
        fine.reach(near) - factor.column(10**4, near) * moved
        for near in (Neighbours(), person(10, 100))
    ]
    assert paths[0] == pytest.approx(paths[1], rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_buffers_hold_no_more_than_the_bound(seed):
    """Responses of all buffers to a single draw, followed: their norms, and what rounding adds."""
    rng = np.random.default_rng(seed)
    decay = np.sort(10.0 ** rng.uniform(-4, -0.25, size=5))
    weights = rng.dirichlet(np.ones(5)) * rng.uniform(0.1, 1.0)
    held, squares, sizes = np.ones(5), np.zeros(5), np.zeros(5)
    noise, sums = 1.0, 0.0
    for _ in range(30_000):
        squares, sizes, sums = squares + held**2, sizes + np.abs(held), sums + noise**2
        step = -float(weights @ held)
        held, noise = (1.0 - decay) * held + step, noise + step
    full = 1.0 + float((weights / decay).sum())
    bound = factorisations._swing(tuple(decay.tolist()), tuple(weights.tolist()))
    assert np.sqrt(squares.max()) <= bound * (1 + 1e-9)
    assert bound <= 2.0 * np.sqrt(squares[0])  # the slowest is followed to its end
    assert sizes.max() <= 2.0 / (decay[0] * full) * (1 + 1e-9)
    assert np.sqrt(sums) <= np.sqrt(30_000) / full + bound


def test_all_of_the_table_fit_on_a_lattice():
    for pushes, shipped in SHIPPED.items():
        assert shipped.fits(pushes)
        assert Normalised(shipped.decay, shipped.weights, pushes).fits(pushes)
        assert factorisations._swing(shipped.decay, shipped.weights) <= 3.6


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_joint_views_and_batches():
    bandit = dpoco.bandits.LinUCB(
        3,
        2,
        horizon=64,
        budget=dpoco.Budget(4.0, 1e-5),
        sum_method=NAME,
        batch=4,
        context_bound=1.0,
        reward_bound=1.0,
    )
    p = linear_arms(bandit.plan)
    assert p.pushes == 15
    rows = row_norm(NAME, np.arange(1, 16), 15)
    plain = dpoco.bandits.LinUCB(
        3,
        2,
        horizon=64,
        budget=dpoco.Budget(4.0, 1e-5),
        sum_method="blt",
        batch=4,
        context_bound=1.0,
        reward_bound=1.0,
    )
    assert rows.max() < continual_sum.worst_row_norm("blt", 15)
    assert p.noise_margin < linear_arms(plain.plan).noise_margin
    again = bandit.guarantee.for_person(3, 16)
    assert bandit.guarantee.epsilon < again.epsilon < plain.guarantee.for_person(3, 1).epsilon


@pytest.mark.parametrize("horizon", [37, 40, 41])
def test_the_last_block_may_be_incomplete(horizon):
    domain, loss = dpoco.domains.LpBall(3), dpoco.losses.LinearLoss(1.0)
    learner = dpoco.oco.NoisyFTRL(
        domain, loss, horizon=horizon, budget=BUDGET, sum_method=NAME, batch=4
    )
    learner.run(np.zeros((horizon, 3)))
    assert learner.round == horizon
    plain = dpoco.oco.NoisyFTRL(
        domain, loss, horizon=horizon, budget=BUDGET, sum_method="blt", batch=4
    )
    assert learner.plan.forecast.regret_bound <= plain.plan.forecast.regret_bound
