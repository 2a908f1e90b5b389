"""Decisions kept or drawn afresh: what of a description moves epsilon, and what is refused."""

from __future__ import annotations

import dataclasses
import functools
import math

import pytest

from dpoco.privacy.losses.combined import NOTHING, Group, Tailed
from dpoco.privacy.losses.coupled_bits import CoupledBits
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.tilted_draws import TiltedDraws
from dpoco.privacy.mechanisms.coupled_draws import (
    Always,
    Anchored,
    CoupledDraws,
    Dartboard,
    GibbsDraw,
    Maximal,
    SmoothLosses,
    TiltedMinimum,
    Window,
)
from dpoco.privacy.neighbours import Neighbours

NEAR = Neighbours()
LINEAR, CURVED = SmoothLosses(3, 1.0, 0.0, 0), SmoothLosses(3, 1.0, 0.5, 1)
GIBBS = GibbsDraw(0.002, 500.0, 0.5, 1e-12)
TILTED = TiltedMinimum(500.0, 0.01)
WINDOW = Window(0.05, 0.01, 0.012)
GIBBS_WINDOW = CoupledDraws(LINEAR, GIBBS, WINDOW, 10**5, 4, 3000)
TILTED_WINDOW = CoupledDraws(CURVED, TILTED, WINDOW, 10**5, 4, 3000)
DARTS = CoupledDraws(LINEAR, GIBBS, Dartboard(0.05, 2.0), 10**5, 4, 3000)
ANCHORS = CoupledDraws(LINEAR, GIBBS, Anchored(0.05, 0.01), 10**5, 4, 3000)
ALWAYS = CoupledDraws(CURVED, TILTED, Always(), 10**5, 100, None)
ALL = (GIBBS_WINDOW, TILTED_WINDOW, DARTS, ANCHORS, ALWAYS)


@functools.cache
def epsilon(mechanism, near=NEAR):
    return mechanism.loss(near).epsilon(1e-6)


def changed(mechanism, path, value):
    """Return the mechanism with one number of it, or of a part of it, replaced."""
    head, _, rest = path.partition(".")
    if rest:
        value = changed(getattr(mechanism, head), rest, value)
    return dataclasses.replace(mechanism, **{head: value})


# One number made worse: epsilon must rise.
WORSE = [
    (GIBBS_WINDOW, "losses.lipschitz", 1.1),
    (GIBBS_WINDOW, "draw.inverse_temperature", 0.0025),
    (GIBBS_WINDOW, "draw.regularization", 400.0),
    (GIBBS_WINDOW, "keep.forced", 0.04),
    (GIBBS_WINDOW, "keep.high", 0.02),
    (GIBBS_WINDOW, "keep.low", 0.02),
    (GIBBS_WINDOW, "rounds", 2 * 10**5),
    (GIBBS_WINDOW, "cap", 4000),
    (GIBBS_WINDOW, "cap", None),
    (GIBBS_WINDOW, "draw.tolerance", 1e-10),
    (TILTED_WINDOW, "losses.lipschitz", 1.1),
    (TILTED_WINDOW, "losses.smoothness", 2.0),
    (TILTED_WINDOW, "losses.rank", 2),
    (TILTED_WINDOW, "draw.noise", 450.0),
    (TILTED_WINDOW, "draw.step", 0.02),
    (TILTED_WINDOW, "keep.forced", 0.04),
    (TILTED_WINDOW, "keep.high", 0.02),
    (TILTED_WINDOW, "keep.low", 0.02),
    (TILTED_WINDOW, "cap", 4000),
    (DARTS, "keep.span", 10.0),
    (DARTS, "keep.forced", 0.01),
    (ANCHORS, "keep.width", 0.02),
    (ANCHORS, "keep.forced", 0.01),
    (ALWAYS, "block", 50),
    (ALWAYS, "rounds", 2 * 10**5),
]


@pytest.mark.parametrize(
    ("mechanism", "path", "value"), WORSE, ids=[f"{m.keep.kind} {p} {v}" for m, p, v in WORSE]
)
def test_every_number_moves_epsilon(mechanism, path, value):
    assert epsilon(changed(mechanism, path, value)) > epsilon(mechanism) * (1.0 + 1e-6)


def test_fields_that_move_little_or_nothing():
    """Of a Gibbs law the dimension and the body only round; a promise is as good as a bound."""
    for path, value in (("losses.dimension", 300), ("draw.half_width", 1e-3)):
        shift = [
            m.loss(NEAR).ideal.shift for m in (GIBBS_WINDOW, changed(GIBBS_WINDOW, path, value))
        ]
        assert shift[0] < shift[1] < shift[0] * (1.0 + 1e-3)
    whole = changed(GIBBS_WINDOW, "draw.half_width", math.inf).loss(NEAR).ideal.shift
    assert whole < GIBBS_WINDOW.loss(NEAR).ideal.shift
    # Two exchanged losses of rank 2 bend three directions at most of three, and four of four.
    two = changed(changed(TILTED_WINDOW, "losses.rank", 2), "losses.smoothness", 2.0)
    assert epsilon(changed(two, "losses.dimension", 4)) > epsilon(two)
    assert epsilon(changed(two, "losses.dimension", 5)) == epsilon(
        changed(two, "losses.dimension", 4)
    )
    assert epsilon(changed(GIBBS_WINDOW, "losses.enforced", False)) == epsilon(GIBBS_WINDOW)


def test_one_formula_by_hand():
    """A window on Gibbs laws over R^n: docs/privacy/gibbs_draws.md, docs/privacy/couplings.md."""
    loss = changed(GIBBS_WINDOW, "draw.half_width", math.inf).loss(NEAR)
    assert loss.mass == pytest.approx(3000 * 1e-12)
    each = 2.0 * 0.002 / 500.0
    own = loss.ideal
    assert type(own) is CoupledBits
    assert own.draws == pytest.approx(0.004 * math.sqrt(3000), rel=1e-12)
    assert own.shift == pytest.approx(4 * each, rel=1e-6)
    assert own.factor_floor == pytest.approx(math.exp(-0.022 - 3 * each), rel=1e-9)
    assert own.later_bits == 10**5 // 4 - 2
    half = GIBBS_WINDOW.loss(Neighbours("zero_out")).ideal
    assert half.draws == pytest.approx(0.5 * own.draws, rel=1e-12)
    assert half.shift == pytest.approx(0.5 * own.shift, rel=1e-2)


@pytest.mark.parametrize("high", [0.01, 3e4])
def test_the_rounding_of_log_ratios_is_the_formula_of_the_page(high):
    """tau_Z of docs/privacy/gibbs_draws.md, with every term large enough to be seen."""
    n, slope, beta, lam, rounds, half = 7, 3.0, 0.5, 2.0, 40, 0.25
    losses, window = SmoothLosses(n, slope, 0.0, 0), Window(0.1, high, 2.0 * high)
    a, scale = slope * math.sqrt(beta / lam) * rounds, 1.0 / math.sqrt(beta * lam)
    inside = -n * math.log(math.erf(half / (scale * math.sqrt(2.0))))
    space = (n / 8.0 + 24.0) * a**2 / rounds + 4.0 * (high + 2.0 * high)
    body = 52.0 * (0.5 * a**2 + inside + 2.0 * n + 81.0) + 8.0 * a**2
    for width, units in ((half, body + space), (math.inf, space)):
        found = GibbsDraw(beta, lam, width, 0.0).normalizer_error(losses, window, rounds)
        assert found == pytest.approx(2.0**-53 * units, rel=1e-12)
        shift = GibbsDraw(beta, lam, width, 0.0).shift(losses, NEAR, window, rounds)
        assert shift == pytest.approx(2.0 * beta * slope**2 / lam + 2.0 * found, rel=1e-15)


@pytest.mark.parametrize(("mechanism", "floor"), [(DARTS, 0.004), (ANCHORS, 0.02)])
def test_factors_of_released_values_move_no_later_bit(mechanism, floor):
    own = mechanism.loss(NEAR).ideal
    assert (own.later_bits, own.shift) == (0, 0.0)
    assert own.factor_floor == pytest.approx(math.exp(-floor), rel=1e-12)
    assert own.forced_switch == 0.05


def test_one_tilted_formula_by_hand():
    loss, b = TILTED_WINDOW.loss(NEAR), 0.005
    assert type(loss) is TiltedDraws
    assert (loss.cap, loss.dimension, loss.rank, loss.change) == (3000, 3, 1, "replace")
    assert loss.sensitivity_ratio == pytest.approx(2.0 / 500.0)
    assert loss.b == pytest.approx(b)
    each = 2.0 / 500.0**2 + math.log((1.0 + b) ** 2 / (1.0 + 2.0 * b))
    assert loss.shift == pytest.approx(4.0 * each)
    flat = dataclasses.replace(TILTED_WINDOW, losses=LINEAR).loss(NEAR)
    assert type(flat) is CoupledBits
    assert flat.draws == pytest.approx(0.004 * math.sqrt(3000))


def test_what_sees_no_data_costs_nothing():
    for mechanism in (*ALL, CoupledDraws(LINEAR, TILTED, Maximal(0.0), 9, 1, None)):
        assert changed(mechanism, "cap", 0).loss(NEAR) == NOTHING
        assert dataclasses.replace(mechanism, rounds=7, block=7).loss(NEAR) == NOTHING


def test_nothing_is_promised_where_nothing_is_proved():
    unproved = (
        changed(GIBBS_WINDOW, "keep.forced", 0.0),
        CoupledDraws(LINEAR, GIBBS, Maximal(0.5), 9, 1, 3),
        changed(ALWAYS, "draw.step", math.inf),
    )
    for mechanism in unproved:
        assert mechanism.loss(NEAR) is None
    assert ALWAYS.loss(Neighbours("replace", "server")) is None  # who holds the losses


def test_several_rounds_of_one_person():
    scheduled = dataclasses.replace(ALWAYS, losses=LINEAR)
    mu = scheduled.loss(NEAR).mu
    three = scheduled.loss(Neighbours(rounds=3))
    assert type(three) is Gaussian
    assert three.mu == pytest.approx(3.0 * mu)
    inexact = CoupledDraws(LINEAR, GIBBS, Always(), 1000, 10, None).loss(Neighbours(rounds=2))
    assert type(inexact) is Tailed
    for mechanism in (GIBBS_WINDOW, TILTED_WINDOW):
        for rounds, apart, together in ((2, 1, 2), (2, 4, 1), (3, 2, 2), (9, 1, 4)):
            mine, chain = mechanism.loss(Neighbours(rounds=rounds, separation=apart)).bare.bounds
            one = mechanism.loss(NEAR).bare
            assert chain == Group(one, rounds)
            draws = (
                one.draws / math.sqrt(3000) if mechanism is GIBBS_WINDOW else one.sensitivity_ratio
            )
            assert mine.sensitivity_ratio == pytest.approx(rounds * draws)
            assert mine.shift == pytest.approx(rounds * one.shift)
            rank, b = mechanism.losses.rank, 0.005 if mechanism is TILTED_WINDOW else 0.0
            assert (mine.rank, mine.b) == (rounds * rank, pytest.approx(rounds * b))
            assert (mine.rounds, mine.together, mine.block) == (rounds, together, 4)
            assert mine.factor_floor == pytest.approx(math.exp(-0.022))
            assert mine.later_bits == one.later_bits


def test_the_ends_of_ranges_are_within_them():
    assert changed(TILTED_WINDOW, "losses.rank", 3).losses.rank == 3
    assert changed(GIBBS_WINDOW, "block", 10**5).decisions == 0
    assert changed(GIBBS_WINDOW, "keep.forced", 1.0).loss(NEAR).ideal.mu < math.inf
    assert changed(GIBBS_WINDOW, "cap", 1).drawn == 1
    # Without forced switches nothing is promised, of whatever laws.
    assert (
        dataclasses.replace(GIBBS_WINDOW, losses=CURVED, keep=Window(0.0, 1.0, 1.0)).drawn == 3000
    )
