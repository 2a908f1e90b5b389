"""Guarantees of given parameters, against the claims of the proof pages computed once more.

Here the composed curve is the sum over all outcomes of the bits (``docs/privacy/couplings.md``) or
the least over Renyi orders (``docs/privacy/objective_perturbation.md``); constants are those of
``docs/privacy/gibbs_draws.md``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from tests.plans import coupled, recoupled

from dpoco.accounting import Budget
from dpoco.accounting import continuous_multiplicative_weights as comw
from dpoco.accounting import coupled_regularized_leader as ctrl
from dpoco.domains import Box, LpBall
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, QuadraticLoss

DELTA = 1e-6
BALL3, BALL5 = LpBall(3, 2.0, 1.0), LpBall(5, 2.0, 1.0)
RELATIONS = ("replace", "zero_out")
MORE = 1.0 + 1e-6  # what a certified bound may add for its own rounding


def made(module, domain, loss, horizon, **changes):
    """Return a plan of a test's own; what it forecasts is not trusted."""
    unbounded = changes.get("unbounded", False)
    base = module.calibrate(domain, loss, horizon=horizon, budget=None, unbounded=unbounded)
    return recoupled(base, **changes)


def gibbs(horizon, domain=BALL3, loss=LinearLoss(1.0), relation="replace", **changes):  # noqa: B008
    """mu of a draw .004 for losses of slope 1, unless changed."""
    own = {"inverse_temperature": 0.002, "regularization": 500.0, **changes}
    plan = made(comw, domain, loss, horizon, **own)
    return comw.guarantee(domain, loss, plan, relation=relation), coupled(plan)


def leader(horizon, domain, loss, relation="replace", **changes):
    own = {"step_size": 1e-3, "noise_scale": 600.0, **changes}
    plan = made(ctrl, domain, loss, horizon, **own)
    return ctrl.guarantee(domain, loss, plan, relation=relation), coupled(plan)


# -- the claims -----------------------------------------------------------------------------------


def coins(p, floor, each):
    """Return (p, s), the changed bit's coins, (p, p') of a later bit, and the number of these.

    `floor` is the logarithm of the smallest factor, `each` what another round's may move by.
    """
    blocks = -(-p.horizon // p.block)
    changed = 1.0 - (1.0 - p.forced_switch) * math.exp(floor - (p.block - 1) * each)
    later = 1.0 - (1.0 - p.forced_switch) * math.exp(-p.block * each)
    return (p.forced_switch, changed), (p.forced_switch, later), max(blocks - 2, 0)


def draws(p):
    return min(p.max_switches, -(-p.horizon // p.block) - 1)


def net_outcomes(low, high, count):
    """Return the values and probabilities of #plus - #minus in `count` trials."""
    mean, spread = count * (high - low), math.sqrt(count * (high + low)) + 1.0
    size = 2 ** math.ceil(math.log2(28.0 * spread + 4.0))  # a circle that much is not seen round
    one = np.zeros(size)
    one[0], one[1], one[-1] = 1.0 - low - high, high, low
    law = np.fft.irfft(np.fft.rfft(one) ** count, size)
    first = round(mean) - size // 2
    value = first + (np.arange(size) - first) % size
    kept = (np.abs(value - mean) <= 12.0 * spread) & (law > 0.0)
    return value[kept], law[kept]


def gaussian_curve(x, mu):
    return scipy.special.ndtr(0.5 * mu - x / mu) - np.exp(
        x + scipy.special.log_ndtr(-0.5 * mu - x / mu)
    )


def composed_delta(epsilon, mu, changed, later, count):
    """Return delta of Gaussian draws and all bits, summed over what the bits can say."""
    low, high = later
    if low + high > 1.0:
        low, high = 1.0 - high, 1.0 - low
    step = math.log(high / low) if high > low else 0.0
    k, weights = net_outcomes(low, high, count)
    found = []
    for a, b in (changed, changed[::-1]):
        sums = 0.0
        for x, y in ((a, b), (1.0 - a, 1.0 - b)):
            if x > 0.0:
                at = epsilon - math.log(x / y) - k * step
                sums += x * float(weights @ gaussian_curve(at, mu))
        found.append(sums)
    return max(found)


def coin_divergence(order, coin):
    """Return the larger Renyi divergence of two coins, times order - 1."""
    sides = []
    for x, y in (coin, coin[::-1]):
        terms = [order * math.log(u) + (1.0 - order) * math.log(v)
                 for u, v in ((x, y), (1.0 - x, 1.0 - y))]  # fmt: skip
        sides.append(float(np.logaddexp(*terms)))
    return max(sides)


def leader_delta(epsilon, p, sides, smoothness, rank, changed, later, count):
    """Return the least delta over the orders at which a draw with curvature has a divergence."""
    b, ratio = p.step_size * smoothness, sides * p.lipschitz / p.noise_scale
    below = min(rank, p.dimension)
    above = min(rank, p.dimension - below) if sides == 2.0 else 0

    def log_delta(log_excess):
        a = 1.0 + math.exp(log_excess)
        one = 0.5 * a * (a - 1.0) * ratio**2
        one += below * ((1.0 - a) * math.log1p(b) - math.log1p(-(a - 1.0) * b))
        one += above * (a * math.log1p(b) - math.log1p(a * b))
        total = draws(p) * one + coin_divergence(a, changed) + count * coin_divergence(a, later)
        return total - (a - 1.0) * epsilon + a * math.log1p(-1.0 / a) - math.log(a - 1.0)

    grid = np.linspace(-6.0, min(math.log(1.0 / b) - 1e-9, 8.0), 300)
    best = int(np.argmin([log_delta(x) for x in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = scipy.optimize.minimize_scalar(
        log_delta, bounds=ends, method="bounded", options={"xatol": 1e-10}
    )
    return math.exp(found.fun)


def holds(guarantee, oracle, epsilons=(0.05, 0.3, 1.0, 2.0)):
    """Assert that delta is the claim's, and rounded up; some of it must be telling."""
    told = 0
    for epsilon in epsilons:
        exact, mass = oracle(epsilon), (1.0 + math.exp(epsilon)) * guarantee.truncation_mass
        certified = guarantee.delta_at(epsilon)
        assert exact * (1.0 - 1e-9) - 1e-15 <= certified <= exact * MORE + mass + 2e-15
        told += 1e-10 < exact < 0.9
    assert told >= 2


# -- P-COMW ---------------------------------------------------------------------------------------


WINDOW = {"clip_high": 0.05, "clip_low": 0.02}
NO_WINDOW = {"clip_high": 0.0, "clip_low": 0.0}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("horizon", "block", "forced", "cap"),
    # With an incomplete last block, a whole one, single rounds, a cap beyond all bits, two blocks,
    # one bit more than a coin; p + p' > 1; long streams.
    [(23, 4, 0.3, 3), (24, 4, 0.3, 3), (9, 1, 0.2, 50), (8, 4, 0.1, 1), (9, 4, 0.1, 5),
     (50, 7, 0.7, 2), (10**5, 10, 0.2, 3000), (10**5, 1, 0.03, 4000)],
)  # fmt: skip
def test_density_ratios_are_composed_as_claimed(horizon, block, forced, cap, relation):
    short = horizon < 1000
    own = {"inverse_temperature": 0.05, "regularization": 3.0} if short else {}
    guarantee, p = gibbs(
        horizon, coupling="density_ratio", block=block, forced_switch=forced, max_switches=cap,
        relation=relation, unbounded=True, **WINDOW, **own,
    )  # fmt: skip
    sides = 2.0 if relation == "replace" else 1.0
    beta, lam = p.inverse_temperature, p.regularization
    changed, later, count = coins(p, -0.07, beta * sides / lam)
    mu = sides * math.sqrt(beta / lam) * math.sqrt(draws(p))
    holds(guarantee, lambda epsilon: composed_delta(epsilon, mu, changed, later, count))
    assert guarantee.details["draw_mu"] == pytest.approx(sides * math.sqrt(beta / lam), rel=1e-12)
    assert guarantee.mu is None


@pytest.mark.parametrize(
    ("coupling", "loss", "floor", "changes"),
    [
        ("anchored", LinearLoss(1.0), -0.03, {"anchors": 16, "clip_high": 0.015,
                                              "clip_low": 0.015}),
        # beta times G times the diameter, and twice the radius where minima are crude.
        ("dartboard", LinearLoss(1.0), -0.004, {"factor_range": 2.0, **NO_WINDOW}),
        ("dartboard", CustomLoss(1.0, 1.0), -0.004, {"factor_range": 2.0, **NO_WINDOW}),
        ("dartboard", LinearLoss(1.0), -0.006, {"factor_range": 3.0, **NO_WINDOW}),
        ("scheduled", LinearLoss(1.0), 0.0, {"forced_switch": 1.0, **NO_WINDOW}),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("horizon", "block", "cap"), [(10**5, 1, 4000), (10**5, 7, 14286)])
def test_factors_of_released_values_cost_one_coin(coupling, loss, floor, changes, horizon, block,
                                                  cap):  # fmt: skip
    own = {"forced_switch": 0.03, **changes}
    guarantee, p = gibbs(horizon, loss=loss, coupling=coupling, block=block, max_switches=cap,
                         **own)  # fmt: skip
    changed, later, _ = coins(p, floor, 0.0)
    mu = 0.004 * math.sqrt(draws(p))
    holds(guarantee, lambda epsilon: composed_delta(epsilon, mu, changed, later, 0))
    assert (guarantee.mu is None) == (coupling != "scheduled")
    assert guarantee.mu is None or guarantee.mu == pytest.approx(mu, rel=1e-9)


# -- CTRL -----------------------------------------------------------------------------------------

SHAPES = [(23, 4, 0.3, 3), (24, 4, 0.3, 3), (8, 4, 0.1, 1), (9, 4, 0.1, 5), (9, 1, 0.2, 50),
          (50, 7, 0.7, 2), (10**5, 10, 0.2, 3000), (10**5, 1, 0.05, 6000)]  # fmt: skip


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize(("curved", "turn"), [("not", 0), ("one", 1), ("all", 0), ("all", 1)])
def test_leaders_are_composed_as_claimed(curved, turn, shape):
    """Pairs of a shape, a curvature and a relation."""
    horizon, block, forced, cap = SHAPES[shape]
    relation, sides = (("replace", 2.0), ("zero_out", 1.0))[(shape + turn) % 2]
    # Rank and smoothness: none; of the squared length of x; as declared.
    loss, rank, smoothness = {
        "not": (LinearLoss(1.0), 0, 0.0),
        "one": (HuberLoss(0.8, 10.0), 1, 0.64),
        "all": (QuadraticLoss(1.0, 0.5), 5, 0.5),
    }[curved]
    own = {"step_size": 0.04, "noise_scale": 9.0} if horizon < 1000 else {"step_size": 1e-4}
    window = WINDOW if horizon < 1000 else {"clip_high": 0.02, "clip_low": 0.01}
    guarantee, p = leader(
        horizon, BALL5, loss, coupling="density_ratio", block=block, forced_switch=forced,
        max_switches=cap, relation=relation, **window, **own,
    )  # fmt: skip
    b = p.step_size * smoothness
    each = sides * p.lipschitz**2 / p.noise_scale**2
    each += rank * math.log((1.0 + b) ** 2 / (1.0 + 2.0 * b))
    changed, later, count = coins(p, -(p.clip_high + p.clip_low), each)
    if curved == "not":
        mu = sides * p.lipschitz / p.noise_scale * math.sqrt(draws(p))
        holds(guarantee, lambda epsilon: composed_delta(epsilon, mu, changed, later, count))
    else:
        arguments = (p, sides, smoothness, rank, changed, later, count)
        holds(guarantee, lambda epsilon: leader_delta(epsilon, *arguments))


# -- parameters brought from elsewhere ------------------------------------------------------------

SIDES = np.array([2.0, 1.0, 4.0])
SKEW = Box([-1.0, 0.0, -2.0], [1.0, 1.0, 2.0])


@pytest.mark.parametrize("module", [ctrl, comw])
def test_parameters_speak_of_this_problem_in_every_constant(module):
    """An anisotropic box and a bound in l_2: each constant once more, and no other is taken."""
    loss = LogisticLoss(0.7, feature_bound_l2=0.5)
    # A box has the geometry of l_inf: ||x||_1 <= .7, so |<theta, x>| <= .7 * 2, or .5 * sqrt(6).
    margin = min(0.7 * 2.0, 0.5 * math.sqrt(1.0 + 1.0 + 4.0))
    constants = {"lipschitz": 0.5 / (1.0 + math.exp(-margin))}
    constants["smoothness"] = 0.25 * 0.5**2
    whole = {"dimension": 4, "rank": 2}
    if module is ctrl:
        supremum = 3.0 * math.log(23.0**2 / 45.0)  # of the barrier, on the box shrunk by 1 - 1/23
        constants["barrier_weight"] = constants["lipschitz"] * math.sqrt(SIDES @ SIDES) / supremum
    p = made(module, SKEW, loss, 23, coupling="scheduled", max_switches=3)
    assert (coupled(p).dimension, coupled(p).rank) == (3, 1)
    for name, value in constants.items():
        assert getattr(coupled(p), name) == pytest.approx(value, rel=1e-12)
    module.guarantee(SKEW, loss, recoupled(p, **constants))
    wrong = [{name: value} for name, value in whole.items()]
    for name, value in constants.items():
        wrong += [{name: value * (1.0 + 1e-6)}, {name: value * (1.0 - 1e-6)}]
        wrong += [{name: 2.0 * value}, {name: 0.5 * value}]
    for changes in wrong:
        with pytest.raises(ValueError, match="|".join(changes)):
            module.guarantee(SKEW, loss, recoupled(p, **changes))
    with pytest.raises(ValueError, match=r"domain and loss|barrier_weight"):
        module.guarantee(SKEW, loss, recoupled(p, unbounded=True))


def test_what_parameters_declare_beyond_the_problem_is_refused():
    loss = QuadraticLoss(1.0, 1.0, strong_convexity=0.25)
    p = made(ctrl, BALL3, loss, 20, coupling="scheduled", max_switches=3)
    for modulus, fine in ((0.25, True), (0.25 * (1.0 - 1e-9), True), (0.25 * (1.0 + 1e-9), False)):
        own = recoupled(p, strong_convexity=modulus)
        if fine:
            ctrl.guarantee(BALL3, loss, own)
        else:
            with pytest.raises(ValueError, match="strong_convexity"):
                ctrl.guarantee(BALL3, loss, own)
    # The range of a linear loss over the box is G times its diagonal; a crude one is as wide here.
    span = 0.3 * math.sqrt(SIDES @ SIDES)
    for dart in (LinearLoss(0.3), CustomLoss(0.3, 0.1)):
        own = {"coupling": "dartboard", "forced_switch": 0.2, "max_switches": 3}
        p = made(comw, SKEW, dart, 20, factor_range=span, **own)
        comw.guarantee(SKEW, dart, p)
        with pytest.raises(ValueError, match="span"):
            comw.guarantee(SKEW, dart, recoupled(p, factor_range=span * (1.0 - 1e-6)))


# -- what else a guarantee says -------------------------------------------------------------------

SCHEDULED = {"coupling": "scheduled", "block": 100, "forced_switch": 1.0, "max_switches": 999}


def test_what_is_printed_for_other_relations():
    (replaced, _), (zeroed, _) = (gibbs(10**5, **SCHEDULED, relation=r) for r in RELATIONS)
    assert (replaced.sensitivity, zeroed.sensitivity) == (2.0, 1.0)
    assert zeroed.paper_epsilon is None
    assert replaced.paper_epsilon > replaced.epsilon


def test_inexact_draws_are_charged():
    exact, _ = gibbs(10**5, **SCHEDULED)
    rough, _ = gibbs(10**5, **SCHEDULED, sampler="mcmc", sampler_tolerance=1e-10)
    assert rough.truncation_mass == pytest.approx(999e-10, rel=0.01)
    extra = rough.delta_at(0.5) - exact.delta_at(0.5)
    assert extra == pytest.approx((1.0 + 2.718281828459045**0.5) * 999e-10, rel=0.01)
    assert not rough.certified


def test_constants_that_nobody_checks_are_not_certified():
    ball = LpBall(2, 2.0, 1.0)
    budget = Budget(1.0, DELTA)
    for module in (ctrl, comw):
        for loss, certified in ((CustomLoss(1.0, 1.0), False), (LinearLoss(1.0), True)):
            p = module.calibrate(ball, loss, horizon=10**4, budget=budget, coupling="scheduled")
            if module is comw and loss == CustomLoss(1.0, 1.0):
                p = recoupled(p, sampler="exact", sampler_tolerance=0.0)
            assert module.guarantee(ball, loss, p, budget=budget).certified is certified


def test_parameters_the_engine_refuses_have_no_guarantee():
    anchored = {"coupling": "anchored", "block": 1, "forced_switch": 0.03, "anchors": 16,
                "max_switches": 4000}  # fmt: skip
    assert gibbs(10**5, **anchored, clip_high=0.015, clip_low=0.015)[0].private
    with pytest.raises(ValueError, match="width of anchored"):
        gibbs(10**5, **anchored, clip_high=0.0)
    for cap in (2**64, 10**30):
        with pytest.raises(ValueError, match="cap of coupled_draws"):
            gibbs(10**5, **(SCHEDULED | {"max_switches": cap}))


def test_the_rounding_of_normalisers_is_charged():
    window = {"coupling": "density_ratio", "block": 4, "forced_switch": 0.2, "clip_high": 0.009,
              "clip_low": 0.009, "max_switches": 3000}  # fmt: skip

    def shift(horizon, radius):
        domain, loss = LpBall(3, 2.0, radius), LinearLoss(1.0)
        base = comw.calibrate(
            domain, loss, horizon=horizon, budget=Budget(1.0, DELTA), coupling="density_ratio"
        )
        p = recoupled(base, inverse_temperature=1e-4, regularization=1e6, **window)
        return comw.guarantee(domain, loss, p, budget=DELTA).profile["shift"]

    exact = 4 * 2e-10  # block times 2 g^2
    assert shift(10**5, 1.0) == pytest.approx(exact, rel=1e-2)
    # At 1e9 rounds the log masses reach g^2 T^2 / 2 = 5e7, good to about 24 of its 2^-53 each.
    assert shift(10**9, 1.0) == pytest.approx(exact + 4 * 2 * (52 + 16) * 5e7 * 2.0**-53, rel=1e-3)
